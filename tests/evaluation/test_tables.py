"""Measures over many questions at once: the same as over each alone, whatever is stacked with what."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berdslib.data.records import Question, make_verdicts, perspective_qid, ranked_run
from berdslib.evaluation import tables
from berdslib.evaluation.measures import evaluate, parse_measures, score_tables
from berdslib.evaluation.tables import Pool, QuestionTable, Tables, ideal_novel_gains, in_blocks, novel_gains, stack

NAMES = ["MRecall", "Precision", "Coverage", "StRecall", "nDCG", "alpha_nDCG", "alpha_nDCG(alpha=0.3)", "ERR_IA"]
NAMES += ["pRecall", "pRecall(hit='recall',gold='official')", "pRecall(aggregate='all',single='zero')"]
MEASURES = [name + cutoff for name in NAMES for cutoff in ("", "@1", "@4", "@1000")]


def random_case(rng, single):
    """Questions of 1 to 5 perspectives, some without a list; `single`: no passage supports two."""
    questions, rows, lists = [], [], {}
    for i in range(12):
        m, docs = int(rng.integers(1, 6)), [f"d{j:02d}" for j in range(rng.integers(1, 25))]
        questions.append(Question(f"q{i}", "?", tuple(f"p{j}" for j in range(m))))
        for doc in docs:
            chosen = [int(rng.integers(m))] if single else np.flatnonzero(rng.random(m) < 0.3).tolist()
            rows += [(f"q{i}", pid, doc, 1.0, True) for pid in chosen]
        for qid in [f"q{i}", *(perspective_qid(f"q{i}", pid) for pid in range(m))]:
            if rng.random() < 0.8:
                lists[qid] = [str(d) for d in rng.permutation(docs)[: rng.integers(1, 25)]]
    lists["q0"], lists["q0#0"] = ["d00"], ["d00"]
    return ranked_run(lists), make_verdicts(rows, "gold"), questions


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("block", [1, 400, 2_000_000])
def test_questions_together_score_as_each_alone(monkeypatch, block, single):
    run, verdicts, questions = random_case(np.random.default_rng(block), single)
    alone = []
    for q in questions:
        ids = [q.qid, *(perspective_qid(q.qid, pid) for pid in range(len(q.perspectives)))]
        mine, others = run[run["qid"].isin(ids)], ranked_run({q.qid: ["-"], f"{q.qid}#0": ["-"]})
        table = evaluate(mine, verdicts, [q], MEASURES) if set(ids[:2]) <= set(mine["qid"]) else None
        if table is None:  # a run without a question's own lists is refused, so they are given one that shows nothing
            lacking = others[~others["qid"].isin(mine["qid"])]
            table = evaluate(pd.concat([mine, lacking]), verdicts, [q], MEASURES)
        alone.append(table)
    monkeypatch.setattr(tables, "BLOCK", block)
    together = evaluate(run, verdicts, questions, MEASURES)
    pd.testing.assert_frame_equal(together, pd.concat(alone), rtol=0, atol=1e-12)


def test_what_is_looked_at_alone_is_kept_and_blocks_are_bounded(monkeypatch):
    monkeypatch.setattr(tables, "BLOCK", 100)
    many = [
        QuestionTable(np.ones((30, m), dtype=bool), np.ones((7, m), dtype=bool)) for m in (1, 2, 1, 3, 2, 1, 1, 1, 1)
    ]
    blocks = list(in_blocks(many, 5))
    assert sorted(place for places, _ in blocks for place in places) == list(range(9))
    for places, block in blocks:
        m = block.listed.shape[-1]
        assert {many[place].listed.shape[1] for place in places} == {m}
        assert block.listed.shape == (len(places), 5, m) and block.length.tolist() == [30] * len(places)
        assert len(places) == 1 or len(places) * (5 + 7) * m <= 100
    assert max(len(places) for places, _ in blocks) > 1


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_the_ideal_list_from_counts_is_that_of_the_greedy_choice(seed, depth, alpha):
    rng = np.random.default_rng(seed)
    n, d, m = rng.integers(1, 6, 3)
    rows = np.zeros((n, 2 * d, m), dtype=bool)
    at = rng.integers(-1, m, (n, 2 * d))
    rows[(*np.nonzero(at >= 0), at[at >= 0])] = True
    from_counts = ideal_novel_gains(Pool(rows.sum(axis=1), None), alpha, depth)
    chosen = ideal_novel_gains(Pool(rows.sum(axis=1), rows), alpha, depth)
    padded = np.zeros((n, depth))
    padded[:, : from_counts.shape[1]] = from_counts
    assert padded[:, : chosen.shape[1]] == pytest.approx(chosen)
    # By definition: each passage's gain in any order, sorted.
    gains = -np.sort(-novel_gains(rows, alpha), axis=1)[:, :depth]
    assert padded[:, : gains.shape[1]] == pytest.approx(gains)


def test_any_leading_dimensions():
    rng = np.random.default_rng(0)
    pool = rng.random((2, 3, 9, 4)) < 0.4
    listed = pool[..., rng.permutation(9)[:6], :]
    lengths = np.full((2, 3), 6)
    measures = [m for m in MEASURES if not m.startswith("pRecall")]
    wanted = parse_measures(measures)
    got = score_tables(wanted, Tables(listed, lengths, Pool(pool.sum(axis=-2), pool)))
    assert got.shape == (2, 3, len(wanted))
    for i in np.ndindex(2, 3):
        alone = stack([QuestionTable(listed[i], pool[i])])
        assert got[i] == pytest.approx(score_tables(wanted, alone)[0], abs=1e-12)
