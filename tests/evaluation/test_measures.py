"""Measures against pyndeval, trec_eval, brute force and worked examples."""

import pickle

import ir_measures
import numpy as np
import pandas as pd
import pyndeval
import pytest
from ir_measures import AP, ERR_IA, RR, P, R, StRecall, Success, alpha_nDCG, nDCG

import berdslib as bd
from berdslib.data.records import (
    Question,
    make_verdicts,
    perspective_qid,
    ranked_run,
)
from berdslib.errors import InputError
from berdslib.evaluation import tables
from berdslib.evaluation.measures import (
    Coverage,
    MRecall,
    Precision,
    official_cutoff,
    parse_measure,
    score_run,
    single_perspectives,
)


def question(qid, m):
    return Question(qid, f"question {qid}?", tuple(f"perspective {i}" for i in range(m)), (None,) * m)


def verdicts_of(table):
    """{(qid, docno): [0, 1, …]} → verdicts."""
    return make_verdicts(
        [(q, i, d, float(v), bool(v)) for (q, d), row in table.items() for i, v in enumerate(row)], "gold"
    )


def diversity_qrels(verdicts):
    """Return verdicts as the qrels of ir-measures, the perspective in `iteration`."""
    qrels = verdicts.assign(iteration=verdicts["pid"].astype(str), relevance=verdicts["supports"].astype(int))
    return qrels.rename(columns={"qid": "query_id", "docno": "doc_id"})


def random_case(rng):
    """A question with 1 to 6 perspectives, up to 25 documents, some unjudged, some perspectives unreachable."""
    m, n = int(rng.integers(1, 7)), int(rng.integers(1, 26))
    docs = [f"d{i:02d}" for i in rng.permutation(n)]
    density = rng.choice([0.02, 0.1, 0.3, 0.7])
    table = {("q", d): rng.random(m) < density for d in docs if rng.random() < 0.9}
    listed = list(rng.permutation(docs))[: int(rng.integers(1, n + 1))]
    return question("q", m), ranked_run({"q": listed}), verdicts_of(table)


@pytest.mark.slow
def test_thousand_random_cases_agree_with_pyndeval():
    rng = np.random.default_rng(0)
    worst, compared = 0.0, 0
    for _ in range(1000):
        q, run, verdicts = random_case(rng)
        if not verdicts["supports"].any():
            continue
        alpha, k = float(rng.choice([0.0, 0.25, 0.5, 0.9])), int(rng.choice([1, 2, 3, 5, 10, 20]))
        names = [f"alpha-nDCG@{k}", f"ERR-IA@{k}", f"strec@{k}"]
        qrels = [pyndeval.SubtopicQrel(r.qid, str(r.pid), r.docno, int(r.supports)) for r in verdicts.itertuples()]
        docs = [pyndeval.ScoredDoc(r.qid, r.docno, r.score) for r in run.itertuples()]
        want = pyndeval.RelevanceEvaluator(qrels, names[:1], alpha=alpha).evaluate(docs)["q"]
        want |= pyndeval.RelevanceEvaluator(qrels, names[1:]).evaluate(docs)["q"]
        if k == 1:  # ndeval's loop that normalises ERR-IA starts at k = 2
            want["ERR-IA@1"] /= verdicts[verdicts["supports"]]["pid"].nunique()
        got = score_run(run, verdicts, [q], [alpha_nDCG(alpha=alpha) @ k, ERR_IA @ k, StRecall @ k]).iloc[0]
        worst = max(worst, float(np.abs(got.to_numpy() - [want[n] for n in names]).max()))
        compared += 1
    assert compared > 800
    assert worst < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.3, 0.7, 0.9])
def test_of_equally_good_passages_the_ideal_list_takes_the_one_that_ndeval_takes(alpha):
    # Values such as 0.1 + 0.01 + 1 and 1 + 0.1 + 0.01 are equal; their sums in double precision are not.
    rng = np.random.default_rng(3)
    questions, lists, table = [], {}, {}
    for i in range(300):
        m, docs = int(rng.integers(3, 9)), [f"d{j:02d}" for j in rng.permutation(int(rng.integers(5, 40)))]
        questions.append(question(f"q{i}", m))
        lists[f"q{i}"] = docs
        table |= {(f"q{i}", d): rng.random(m) < 0.5 for d in docs}
    verdicts, run, ks = verdicts_of(table), ranked_run(lists), (3, 5, 10, 20)
    qrels = [pyndeval.SubtopicQrel(r.qid, str(r.pid), r.docno, int(r.supports)) for r in verdicts.itertuples()]
    listed = [pyndeval.ScoredDoc(r.qid, r.docno, r.score) for r in run.itertuples()]
    theirs = pyndeval.RelevanceEvaluator(qrels, [f"alpha-nDCG@{k}" for k in ks], alpha=alpha).evaluate(listed)
    ours = score_run(run, verdicts, questions, [alpha_nDCG(alpha=alpha) @ k for k in ks])
    for qid, scores in ours.iterrows():
        assert scores.tolist() == pytest.approx([theirs[qid][f"alpha-nDCG@{k}"] for k in ks], abs=1e-9)


@pytest.mark.slow
def test_thousand_random_cases_agree_with_trec_eval():
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(1000):
        q, run, verdicts = random_case(rng)
        k = int(rng.choice([1, 2, 3, 5, 10, 20]))
        gains = verdicts.groupby("docno")["supports"].sum()
        if not len(gains):
            continue
        qrels = pd.DataFrame({"query_id": "q", "doc_id": gains.index, "relevance": gains.to_numpy()})
        trec_run = run.rename(columns={"qid": "query_id", "docno": "doc_id"})
        wanted = [nDCG @ k, P @ k, R @ k, Success @ k, AP @ k, AP, RR, nDCG]
        want = ir_measures.pytrec_eval.calc_aggregate(wanted, qrels, trec_run)
        want[RR @ k] = want[RR] if want[RR] >= 1 / k else 0.0
        got = score_run(run, verdicts, [q], [*wanted, RR @ k]).iloc[0]
        worst = max(worst, *(abs(got[str(m)] - want[m]) for m in [*wanted, RR @ k]))
    assert worst < 1e-6


@pytest.mark.slow
def test_mrecall_precision_coverage_against_a_plain_loop():
    rng = np.random.default_rng(2)
    for _ in range(500):
        q, run, verdicts = random_case(rng)
        k = int(rng.integers(1, 12))
        if verdicts.empty:
            continue
        yes = {(r.docno, r.pid) for r in verdicts.itertuples() if r.supports}
        top = run["docno"].tolist()[:k]
        covered = {pid for pid in range(len(q.perspectives)) for d in top if (d, pid) in yes}
        useful = [d for d in top if any((d, pid) in yes for pid in range(len(q.perspectives)))]
        got = score_run(run, verdicts, [q], [MRecall @ k, Precision @ k, Coverage @ k]).iloc[0].tolist()
        m = len(q.perspectives)
        assert got == [float(len(covered) >= min(m, k)), len(useful) / k, pytest.approx(len(covered) / m)]


def test_worked_example_of_the_paper_definition():
    q = question("q", 2)
    verdicts = verdicts_of({("q", "a"): [1, 0], ("q", "b"): [0, 0], ("q", "c"): [1, 0], ("q", "d"): [0, 1]})
    run = ranked_run({"q": ["a", "b", "c", "d"]})
    got = score_run(run, verdicts, [q], [MRecall @ 3, MRecall @ 4, Precision @ 4, Precision @ 5, Coverage @ 3])
    assert got.iloc[0].tolist() == [0.0, 1.0, 0.75, 0.6, 0.5]


def test_b1_official_cutoff_depends_on_row_order_ours_does_not():
    # divergences.md B1: the published script takes k from the first question's number of documents.
    one, two = question("one", 2), question("two", 2)
    verdicts = verdicts_of({("one", "a"): [1, 0], ("one", "b"): [0, 1], ("two", "c"): [1, 1]})
    run = ranked_run({"one": ["a", "b"], "two": ["c"]})
    official = []
    for order in ([one, two], [two, one]):
        k = official_cutoff(run, order)
        official.append(score_run(run, verdicts, [one], [MRecall @ k]).iloc[0, 0])
        assert score_run(run, verdicts, order, [MRecall @ 2]).mean().iloc[0] == 1.0
    # With k = 1, "one" needs only min(2, 1) = 1 perspective, with k = 2 both; here both give 1 …
    assert official == [1.0, 1.0]
    # … and with a third perspective that only the second document shows, the same rows score 0 or 1.
    three = question("one", 3)
    only_first = verdicts_of({("one", "a"): [1, 0, 0], ("one", "b"): [1, 0, 0], ("two", "c"): [1, 1]})
    official = [
        score_run(run, only_first, [three], [MRecall @ official_cutoff(run, order)]).iloc[0, 0]
        for order in ([three, two], [two, three])
    ]
    assert official == [0.0, 1.0]


def test_b1_short_list_is_padded_with_covers_nothing():
    q = question("q", 2)
    verdicts = verdicts_of({("q", "a"): [1, 0]})
    got = score_run(ranked_run({"q": ["a"]}), verdicts, [q], [Precision @ 5, MRecall @ 5]).iloc[0]
    assert got.tolist() == [0.2, 0.0]


def test_b2_more_perspectives_than_k_and_not_monotone():
    q = question("q", 3)
    verdicts = verdicts_of({("q", "a"): [1, 0, 0], ("q", "b"): [1, 0, 0]})
    run = ranked_run({"q": ["a", "b"]})
    assert score_run(run, verdicts, [q], [MRecall @ 1, MRecall @ 2]).iloc[0].tolist() == [1.0, 0.0]


def test_b9_verdicts_are_keyed_so_judging_twice_changes_nothing():
    q = question("q", 2)
    verdicts = verdicts_of({("q", "a"): [1, 0], ("q", "b"): [0, 1]})
    run = ranked_run({"q": ["a", "b"]})
    before = score_run(run, verdicts, [q], [MRecall @ 2])
    shuffled = verdicts.sample(frac=1.0, random_state=3)
    assert before.equals(score_run(run.sample(frac=1.0, random_state=4), shuffled, [q], [MRecall @ 2]))
    with pytest.raises(InputError, match="q, 0, a"):
        make_verdicts([("q", 0, "a", 1.0, True), ("q", 0, "a", 0.0, False)], "gold")


def test_an_empty_run_and_verdicts_that_are_all_no_score_zero():
    q = [question("q", 2)]
    everything = [MRecall @ 5, Precision @ 5, Coverage @ 5, StRecall @ 5, alpha_nDCG @ 5, ERR_IA @ 5, nDCG @ 5, P @ 5]
    no = make_verdicts([("q", 0, "a", 0.0, False)], "gold")
    assert (score_run(ranked_run({}), make_verdicts([], "gold"), q, everything).to_numpy() == 0).all()
    assert (score_run(ranked_run({}), no, q, everything).to_numpy() == 0).all()
    assert (score_run(ranked_run({"q": ["a"]}), no, q, everything).to_numpy() == 0).all()


def test_inside_ir_measures_gives_the_same_numbers():
    rng = np.random.default_rng(7)
    questions, runs, tables = [], {}, {}
    for i in range(20):
        qid, m = f"q{i}", int(rng.integers(1, 5))
        questions.append(question(qid, m))
        runs[qid] = [f"d{j}" for j in rng.permutation(12)[:8]]
        tables |= {(qid, f"d{j}"): rng.random(m) < 0.25 for j in range(12)}
    del runs["q3"]
    run, verdicts = ranked_run(runs), verdicts_of(tables)
    wanted = [MRecall @ 5, Precision @ 5, Coverage @ 5, MRecall @ 2]
    qrels, trec_run = diversity_qrels(verdicts), run.rename(columns={"qid": "query_id", "docno": "doc_id"})
    theirs = ir_measures.calc_aggregate([*wanted, alpha_nDCG @ 5], qrels, trec_run)
    ours = score_run(run, verdicts, questions, [*wanted, alpha_nDCG @ 5]).mean()
    assert {str(m): pytest.approx(v) for m, v in theirs.items()} == ours.to_dict()
    assert ir_measures.parse_measure("MRecall@5") == MRecall @ 5


def test_inside_a_pyterrier_experiment_gives_the_same_numbers():
    import pyterrier as pt

    questions = [question("q1", 2), question("q2", 1)]
    verdicts = verdicts_of({("q1", "a"): [1, 0], ("q1", "b"): [0, 1], ("q2", "a"): [0], ("q2", "c"): [1]})
    run = ranked_run({"q1": ["a", "b"], "q2": ["a", "c"]})
    topics = pd.DataFrame({"qid": ["q1", "q2"], "query": ["?", "?"]})
    qrels = diversity_qrels(verdicts)
    qrels = qrels.rename(columns={"query_id": "qid", "doc_id": "docno", "relevance": "label"})
    wanted = [MRecall @ 1, MRecall @ 2, Precision @ 2]
    table = pt.Experiment([run.merge(topics)], topics, qrels, wanted, names=["x"])
    assert (
        table.iloc[0][[str(m) for m in wanted]].to_dict()
        == score_run(run, verdicts, questions, wanted).mean().to_dict()
    )


def test_gaps_are_named(caplog):
    asked, verdicts = [question("q", 1), question("q2", 1)], verdicts_of({("q", "a"): [1], ("q2", "b"): [0]})
    score_run(ranked_run({"q": ["ghost"]}), verdicts, asked, [MRecall @ 5])
    assert "1 of 2" in caplog.text


# ---------------------------------------------------------------- frames from elsewhere


ASKED = [Question("q", "Is it?", ("It is.", "It is not."))]
SHOWN = make_verdicts([("q", 0, "a", 1.0, True), ("q", 1, "b", 1.0, True)], "hand")
LISTED = ranked_run({"q": ["a", "b", "c"]})
SEVERAL = [MRecall @ 2, Precision @ 2, nDCG @ 3, alpha_nDCG @ 3, Coverage @ 1]


def test_single_perspectives_are_counted_where_they_change_what_a_measure_means():
    asked = [question("a", 1), question("b", 2), question("c", 1)]
    said = single_perspectives(asked, ["MRecall@5", "Coverage@5", "MRecall@10"])
    assert all(word in said for word in ("2 of 3", "MRecall", "Coverage"))
    assert single_perspectives(asked, ["Precision@5"]) == single_perspectives(asked[1:2], ["MRecall@5"]) == ""


@pytest.mark.parametrize(
    ("run", "verdicts"),
    [
        (LISTED, SHOWN.drop(columns="supports")),
        (LISTED, SHOWN.drop(columns=["p_yes", "judge"])),
        (LISTED, SHOWN.iloc[::-1].reset_index(drop=True)),
        (LISTED, SHOWN.assign(pid=SHOWN["pid"].astype(float))),
        (LISTED.assign(rank=LISTED["rank"] - 1), SHOWN),  # PyTerrier counts from 0
        (LISTED.drop(columns="rank"), SHOWN),
        (LISTED.drop(columns="score"), SHOWN),
        (LISTED.assign(rank=9), SHOWN),  # by its scores, whatever its ranks
    ],
)
def test_runs_and_verdicts_in_every_accepted_form_score_the_same(run, verdicts):
    pd.testing.assert_frame_equal(score_run(run, verdicts, ASKED, SEVERAL), score_run(LISTED, SHOWN, ASKED, SEVERAL))


def test_tied_scores_are_ranked_alike_by_every_measure_inside_ir_measures():
    qrels = pd.DataFrame(
        [("q", "b", 1, "0"), ("q", "a", 0, "0")], columns=["query_id", "doc_id", "relevance", "iteration"]
    )
    run = pd.DataFrame({"query_id": ["q", "q"], "doc_id": ["a", "b"], "score": [1.0, 1.0]})
    assert set(ir_measures.calc_aggregate([Coverage @ 1, Precision @ 1, P @ 1], qrels, run).values()) == {1.0}


def test_the_official_cutoff_takes_a_run_in_every_accepted_form():
    run = pd.DataFrame({"qid": [1, 1, 2], "docno": ["a", "b", "a"], "score": [2.0, 1.0, 1.0]})
    assert official_cutoff(run, [question("1", 1), question("2", 1)]) == 2


def test_a_measure_of_ones_own_works_by_name():
    """Registered at the front door, it is scored, parsed, printed and listed as the built-in ones are."""

    def all_useless(shown, k):
        """Does the top k support nothing at all?"""
        return float(not shown.any() and k > 0)

    bd.register("measure", "Useless", all_useless)
    questions = [Question(q, "?", ("a", "b")) for q in ("q1", "q2", "q3")]
    run = ranked_run({"q1": ["x", "y"], "q2": ["y"]})
    verdicts = make_verdicts([("q1", 0, "y", 1.0, True), ("q2", 1, "y", 1.0, True)], "j")
    scores = bd.evaluate(run, verdicts, bd.Collection("c", questions), "Useless@1,MRecall@1,Useless")
    assert scores["Useless@1"].tolist() == [1, 0, 1] and scores["Useless"].tolist() == [0, 0, 1]
    assert parse_measure("Useless@1") == parse_measure("Useless@1") and "Useless" in bd.names("measure")
    with pytest.raises(InputError, match="MRecall"):
        bd.register("measure", "MRecall", all_useless)
    bd.register("measure", "Useless", lambda shown, k: "none")
    with pytest.raises(InputError, match=r"'Useless'.*'none'") as refused:
        score_run(run, verdicts, questions, "Useless@1")
    assert refused.value.field == "make"


def test_a_count_in_place_of_a_share_is_told_once(caplog):
    bd.register("measure", "Useful", lambda shown, k: shown.any(axis=1).sum())
    bd.register("measure", "UsefulShare", lambda shown, k: shown.any(axis=1).sum() / k)
    run = ranked_run({"q1": ["x", "y"], "q2": ["x", "y"]})
    verdicts = make_verdicts([(q, 0, d, 1.0, True) for q in ("q1", "q2") for d in "xy"], "j")
    asked = [Question(q, "?", ("a",)) for q in ("q1", "q2")]
    assert score_run(run, verdicts, asked, "Useful@2,UsefulShare@2").values.tolist() == [[2, 1], [2, 1]]
    assert ["'Useful'" in message for message in caplog.messages] == [True]


def test_a_measure_of_your_own_may_read_the_passages():
    def longest(shown, k, passages):
        """Words of the longest of the first k passages."""
        assert shown.shape == (len(passages), 2)
        return max(len(p.text.split()) for p in passages)

    bd.register("measure", "Longest", longest)
    passages = [
        bd.Passage("a", "Tea is good for you."),
        bd.Passage("b", "tea is good, for you"),
        bd.Passage("c", "No."),
    ]
    asked = bd.Question("q", "Is tea good?", ("It is.", "It is not."))
    gold = make_verdicts([("q", 0, "a", 1.0, True), ("q", 1, "c", 1.0, True)], "gold")
    found = bd.Collection("tea", [asked, asked._replace(qid="r")], passages, gold)
    run = ranked_run({"q": ["b", "c", "a"]})
    scores = bd.evaluate(run, gold, found, ["Longest@1", "Longest@2", "Distinct@3", "Distinct@4", "MRecall@2"])
    assert scores.loc["q"].tolist() == [5, 5, 2 / 3, 0.5, 0]
    with pytest.raises(InputError, match="reads the passages"):
        bd.evaluate(run, gold, [asked], "Distinct@3")
    with pytest.raises(InputError, match="'d'"):
        bd.evaluate(ranked_run({"q": ["d", "a"]}), gold, found, "Distinct@3")


def test_measures_travel_between_processes():
    for name in ("MRecall@5", "pRecall(hit='recall')@3", "rKL(step=5)@20", "alpha_nDCG(alpha=0.3)@5"):
        assert pickle.loads(pickle.dumps(parse_measure(name))) == parse_measure(name)  # noqa: S301


NAMES = ["MRecall", "Precision", "Coverage", "StRecall", "nDCG", "alpha_nDCG", "alpha_nDCG(alpha=0.3)", "ERR_IA"]
NAMES += ["pRecall", "pRecall(hit='recall',gold='official')", "pRecall(aggregate='all',single='zero')"]
MEASURES = [name + cutoff for name in NAMES for cutoff in ("", "@1", "@4", "@1000")]


def random_questions(rng, single):
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
    run, verdicts, questions = random_questions(np.random.default_rng(block), single)
    alone = []
    for q in questions:
        ids = [q.qid, *(perspective_qid(q.qid, pid) for pid in range(len(q.perspectives)))]
        mine, others = run[run["qid"].isin(ids)], ranked_run({q.qid: ["-"], f"{q.qid}#0": ["-"]})
        table = score_run(mine, verdicts, [q], MEASURES) if set(ids[:2]) <= set(mine["qid"]) else None
        if table is None:  # a run without a question's own lists is refused, so they are given one that shows nothing
            lacking = others[~others["qid"].isin(mine["qid"])]
            table = score_run(pd.concat([mine, lacking]), verdicts, [q], MEASURES)
        alone.append(table)
    monkeypatch.setattr(tables, "CELLS_AT_ONCE", block)
    together = score_run(run, verdicts, questions, MEASURES)
    pd.testing.assert_frame_equal(together, pd.concat(alone), rtol=0, atol=1e-12)


# ---------------------------------------------------------------- graded relevance


def graded_cases(rng, n, least, most, most_subtopics=1):
    """Return graded rows (qid, pid, docno, grade) of n topics, and a run: some passages are unjudged, some unlisted."""
    rows, lists, questions = [], {}, []
    for i in range(n):
        docs = [f"d{j:02d}" for j in range(int(rng.integers(1, 26)))]
        m = int(rng.integers(1, most_subtopics + 1))
        questions.append(question(f"q{i}", m))
        grades = rng.integers(least, most + 1, (len(docs), m))
        judged = rng.random((len(docs), m)) < 0.7
        judged[0, 0], grades[0, 0] = True, abs(grades[0, 0])  # pytrec_eval crashes on a topic of negative ones alone
        rows += [(f"q{i}", p, docs[j], int(grades[j, p])) for j, p in np.argwhere(judged)]
        lists[f"q{i}"] = [str(d) for d in rng.permutation(docs)[: int(rng.integers(1, len(docs) + 1))]]
    return rows, ranked_run(lists), questions


def graded_verdicts(rows, level=1):
    columns = ["qid", "pid", "docno", "p_yes", "supports", "judge", "grade"]
    made = [(q, pid, d, float(g >= level), g >= level, "gold", float(g)) for q, pid, d, g in rows]
    return pd.DataFrame(made, columns=columns)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_thousand_graded_qrels_score_as_trec_eval_scores_them(level):
    import pytrec_eval

    rows, run, questions = graded_cases(np.random.default_rng(level), 400, -2, 4)
    qrels, lists = {}, {}
    for qid, _, docno, grade in rows:
        qrels.setdefault(qid, {})[docno] = grade
    for row in run.itertuples():
        lists.setdefault(row.qid, {})[row.docno] = row.score
    names = {"ndcg", "ndcg_cut.1,3,5,10,20", "P.1,3,5,10,20", "map", "recip_rank", "recall.5,10"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, names, relevance_level=level).evaluate(lists)
    cuts = (1, 3, 5, 10, 20)
    ours = [nDCG, *(nDCG @ k for k in cuts), *(P @ k for k in cuts), AP, RR, R @ 5, R @ 10]
    want = ["ndcg", *(f"ndcg_cut_{k}" for k in cuts), *(f"P_{k}" for k in cuts), "map", "recip_rank"]
    got = score_run(run, graded_verdicts(rows, level), questions, ours)
    expected = [[theirs[qid][name] for name in (*want, "recall_5", "recall_10")] for qid in got.index]
    assert len(got) == 400
    np.testing.assert_allclose(got.to_numpy(), expected, atol=1e-9)


def test_a_thousand_graded_qrels_of_subtopics_score_as_ndeval_scores_them():
    rows, run, questions = graded_cases(np.random.default_rng(12), 1000, -2, 3, 5)
    qrels = [pyndeval.SubtopicQrel(qid, str(pid + 1), d, grade) for qid, pid, d, grade in rows]
    docs = [pyndeval.ScoredDoc(r.qid, r.docno, r.score) for r in run.itertuples()]
    names = ["alpha-nDCG@5", "alpha-nDCG@10", "ERR-IA@10", "strec@5", "strec@10"]
    theirs = pyndeval.RelevanceEvaluator(qrels, names).evaluate(docs)
    ours = [alpha_nDCG @ 5, alpha_nDCG @ 10, ERR_IA @ 10, StRecall @ 5, StRecall @ 10]
    got = score_run(run, graded_verdicts(rows), questions, ours)
    answerable = [qid for qid in got.index if qid in theirs]  # ndeval leaves out topics without anything relevant
    expected = [[theirs[qid][name] for name in names] for qid in answerable]
    assert len(answerable) > 900
    np.testing.assert_allclose(got.loc[answerable].to_numpy(), expected, atol=1e-6)


def test_gains_of_several_perspectives_are_the_sums_of_their_grades():
    rows = [("q", 0, "a", 3), ("q", 1, "a", -2), ("q", 0, "b", 1), ("q", 1, "b", 1), ("q", 1, "c", 3)]
    run = ranked_run({"q": ["b", "x", "c", "a"]})
    by_hand = (2 / np.log2(2) + 3 / np.log2(4)) / (3 / np.log2(2) + 3 / np.log2(3) + 2 / np.log2(4))
    got = score_run(run, graded_verdicts(rows), [question("q", 2)], nDCG @ 3).iloc[0, 0]
    assert got == pytest.approx(by_hand, abs=1e-12)
    plain = graded_verdicts([(qid, pid, d, int(grade > 0)) for qid, pid, d, grade in rows])
    without = score_run(run, plain.drop(columns="grade"), [question("q", 2)], nDCG @ 3)
    assert score_run(run, plain, [question("q", 2)], nDCG @ 3).equals(without)


def test_judged_is_that_of_ir_measures():
    rows, run, questions = graded_cases(np.random.default_rng(13), 100, 0, 1)
    qrels = pd.DataFrame([(q, d, grade) for q, _, d, grade in rows], columns=["query_id", "doc_id", "relevance"])
    wanted = [ir_measures.Judged @ k for k in (1, 5, 30)]
    theirs = ir_measures.iter_calc(wanted, qrels, run.rename(columns={"qid": "query_id", "docno": "doc_id"}))
    ours = score_run(run, graded_verdicts(rows), questions, "judged@1,Judged@5,Judged@30")
    for found in theirs:
        assert ours.loc[found.query_id, str(found.measure)] == pytest.approx(found.value)


# ---------------------------------------------------------------- weights of perspectives


def weighted_by_hand(listed, supports, weights, alpha, k):
    """Return A-Recall and weighted alpha-nDCG at k, a passage after the other: docno → set of perspectives."""
    weights = np.array(weights) / np.sum(weights)

    def dcg(docnos):
        seen, total = np.zeros(len(weights)), 0.0
        for place, docno in enumerate(docnos[:k]):
            for i in supports.get(docno, ()):
                total += weights[i] * (1 - alpha) ** seen[i] / np.log2(place + 2)
                seen[i] += 1
        return total

    best, left = [], dict(sorted(supports.items(), reverse=True))
    while left and len(best) < k:
        seen = [sum(i in supports[d] for d in best) for i in range(len(weights))]
        gain = {d: sum(weights[i] * (1 - alpha) ** seen[i] for i in left[d]) for d in left}
        best.append(max(gain, key=gain.get))
        del left[best[-1]]
    shown = set().union(*(supports.get(d, set()) for d in listed[:k]))
    ideal = dcg(best)
    return sum(weights[i] for i in shown), dcg(listed) / ideal if ideal else 0.0


def test_weighted_perspectives_against_brute_force_and_equal_ones_as_without():
    rng, cases, ks = np.random.default_rng(5), [], [1, 3, 10]
    for n in range(200):
        one, run, verdicts = random_case(rng)
        weights = tuple(rng.integers(1, 4) + rng.random(len(one.perspectives)))
        qid = f"q{n}"
        cases.append((one._replace(qid=qid, weights=weights), run.assign(qid=qid), verdicts.assign(qid=qid)))
    questions, runs, verdicts = zip(*cases, strict=True)
    measures = [m for k in ks for m in (Coverage @ k, alpha_nDCG(alpha=0.5) @ k)]
    run, verdicts = pd.concat(runs), pd.concat(verdicts)
    judged = set(verdicts["qid"])
    assert len(judged) > 190
    cases = [case for case in zip(questions, runs, strict=True) if case[0].qid in judged]
    questions, runs = zip(*cases, strict=True)
    scores = score_run(run, verdicts, questions, measures)
    yes = verdicts[verdicts["supports"]].groupby(["qid", "docno"])["pid"].agg(set)
    worst = 0.0
    for q, own in zip(questions, runs, strict=True):
        supports = dict(yes.loc[q.qid]) if q.qid in yes.index else {}
        want = [x for k in ks for x in weighted_by_hand(own["docno"].tolist(), supports, q.weights, 0.5, k)]
        worst = max(worst, np.abs(scores.loc[q.qid].to_numpy() - want).max())
    assert worst < 1e-12
    every = [*measures, MRecall @ 5, Precision @ 5, StRecall @ 5, nDCG @ 5, ERR_IA @ 5]
    without = score_run(run, verdicts, [q._replace(weights=()) for q in questions], every)
    alike = [q._replace(weights=(0.3,) * len(q.perspectives)) for q in questions]
    assert np.abs(score_run(run, verdicts, alike, every) - without).to_numpy().max() < 1e-12
    assert np.abs(score_run(run, verdicts, questions, every) - without)["Coverage@3"].max() > 0.05


def test_weights_by_hand_and_those_that_are_none():
    q = Question("q", "Why?", ("a", "b", "c"), weights=(3, 2, 1))
    verdicts = verdicts_of({("q", "x"): [0, 1, 0], ("q", "y"): [1, 0, 1]})
    got = score_run(ranked_run({"q": ["x", "y"]}), verdicts, [q], [Coverage @ 1, Coverage @ 2, alpha_nDCG @ 2]).iloc[0]
    want = [2 / 6, 1, (2 + 4 / np.log2(3)) / (4 + 2 / np.log2(3))]
    assert got.tolist() == pytest.approx(want, abs=1e-12)
    for wrong in ((1, 2), (0, 0, 0), (1, -1, 1), (1, float("nan"), 1), (1, float("inf"), 1)):
        with pytest.raises(InputError) as refused:
            score_run(ranked_run({"q": ["x"]}), verdicts, [q._replace(weights=wrong)], Coverage @ 1)
        assert refused.value.field == "weights"
