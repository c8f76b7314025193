"""The front door against hostile tables and records: the right result or an InputError, and nothing is changed."""

import contextlib
import copy
import random
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from fuzz.hostile import NUMBERS, ODD_IDS, OTHERS, TEXTS, VALUES, fuzzed
from fuzz.hostile import same as as_it_was
from hypothesis import strategies as st

import berdslib as bd
from berdslib.evaluation import measures

MEASURES = ["MRecall@1", "MRecall@2", "Precision@2", "Coverage@3", "RR@3"]


def truth(questions, lists, held):
    """The measures by their definitions, from sets."""
    rows = []
    for q in questions:
        first = lists.get(q.qid, [])
        shown = [held.get((q.qid, d), set()) for d in first]
        m = len(q.perspectives)
        row = [len(set().union(*shown[:k])) >= min(k, m) for k in (1, 2)]
        row.append(sum(bool(s) for s in shown[:2]) / 2)
        row.append(len(set().union(*shown[:3])) / m)
        row.append(next((1 / r for r, s in enumerate(shown[:3], 1) if s), 0.0))
        rows.append(row)
    return np.array(rows, dtype=float)


@st.composite
def tables(draw):
    """Questions, lists and verdicts with odd ids, and the same as frames."""
    ids = draw(ODD_IDS)
    questions = [bd.Question(ids[i], "Why?", tuple("abc"[: draw(st.integers(1, 3))])) for i in range(2)]
    docnos = ids[2:]
    listed = questions[: draw(st.integers(1, 2))]
    lists = {q.qid: draw(st.permutations(docnos))[: draw(st.integers(1, 4))] for q in listed}
    held = {(q.qid, d): draw(st.sets(st.sampled_from(range(len(q.perspectives))))) for q in questions for d in docnos}
    run = pd.DataFrame(
        [(q, d, r, 9.0 - r) for q, ds in lists.items() for r, d in enumerate(ds, 1)],
        columns=["qid", "docno", "rank", "score"],
    )
    rows = [(q, pid, d, float(pid in held[q.qid, d])) for q in questions for d in docnos for pid in range(3)]
    rows = [(q.qid, pid, d, p) for q, pid, d, p in rows if pid < len(q.perspectives)]
    verdicts = pd.DataFrame(rows, columns=["qid", "pid", "docno", "p_yes"])
    return questions, lists, held, run, verdicts, draw(st.integers(0, 10**6))


def disguised(frame, rng):
    """The same table as another program would hand it over."""
    frame = frame.sample(frac=1, random_state=rng.randrange(10**6))
    frame.index = [rng.choice(["x", 3, None]) for _ in frame.index]
    for name in frame.columns:
        kind = rng.choice(["as it is", "category", "object", "own", "text"])
        if kind == "category" or kind == "object":
            frame[name] = frame[name].astype(kind)
        elif kind == "own":
            frame[name] = frame[name].convert_dtypes()
        elif kind == "text" and name not in ("qid", "docno"):
            frame[name] = frame[name].map(repr)
    frame = frame[rng.sample(list(frame.columns), len(frame.columns))]
    if rng.random() < 0.3:
        frame = frame.rename(columns={"qid": "query_id", "docno": "doc_id"})
    if "rank" in frame.columns and rng.random() < 0.3:
        frame = frame.drop(columns=rng.choice(["rank", "score"]))
    return frame.assign(**{"other things": range(len(frame))})


@fuzzed("disguised frames", tables())
def test_disguised_frames(case):
    """Whatever a table's order, index, types and further columns, its scores are those of the sets."""
    questions, lists, held, run, verdicts, seed = case
    rng = random.Random(seed)
    given = [disguised(run, rng), disguised(verdicts, rng)]
    before = copy.deepcopy(given)
    found = bd.evaluate(*given, questions, MEASURES)
    assert np.allclose(found[MEASURES].to_numpy(), truth(questions, lists, held), atol=1e-12)
    assert all(map(as_it_was, given, before))
    return "the right scores"


def spoilt(frame, rng, value):
    """A table with something that does not belong there, and what that is."""
    frame, name = frame.copy(), rng.choice(list(frame.columns))
    how = rng.choice(["a cell", "a column", "dropped", "twice", "levels", "rows twice", "empty", "sparse"])
    if how == "a cell":
        frame[name] = frame[name].astype(object)
        frame.iat[rng.randrange(len(frame)), list(frame.columns).index(name)] = value
    elif how == "a column":
        frame[name] = pd.Series([value] * len(frame), frame.index, object)  # pandas' own text holds no half characters
        if rng.random() < 0.5:
            with contextlib.suppress(ValueError, OverflowError):
                frame[name] = frame[name].infer_objects()
    elif how == "dropped":
        frame = frame.drop(columns=name)
    elif how == "twice":
        frame = pd.concat([frame, frame[[name]]], axis=1)
    elif how == "levels":
        frame.columns = pd.MultiIndex.from_tuples([(c, "x") for c in frame.columns])
    elif how == "rows twice":
        frame = pd.concat([frame, frame])
    elif how == "empty":
        frame = frame.iloc[:0]
    elif how == "sparse" and name not in ("qid", "docno"):
        frame[name] = pd.arrays.SparseArray(frame[name].to_numpy(float))
    return frame


def ends(call, *given):
    """Call; return the result, or None where it is refused in words. Anything else that is raised is a failure."""
    before = copy.deepcopy(given)
    try:
        made = call(*given)
    except (bd.InputError, bd.MissingDataError) as error:
        assert 10 < len(str(error)) < 4000  # a name of 1,200 letters stands in it twice
        made = None
    for one, was in zip(given, before, strict=True):
        assert as_it_was(one, was) if isinstance(one, pd.DataFrame) else True
    return made


@fuzzed(
    "spoilt frames", st.tuples(tables(), VALUES, st.sampled_from(["evaluate", "judge", "experiment", "Collection"]))
)
def test_spoilt_frames(case):
    """A table with a foreign thing in it is scored within bounds, or refused."""
    (questions, _, _, run, verdicts, seed), value, name = case
    rng = random.Random(seed)
    given = [spoilt(run, rng, value), verdicts] if rng.random() < 0.5 else [run, spoilt(verdicts, rng, value)]
    passages = [bd.Passage(d, f"text of {d}") for d in dict.fromkeys([*run.docno, *verdicts.docno])]
    data = bd.Collection("c", questions, passages)
    calls = {
        "evaluate": lambda r, v: bd.evaluate(r, v, questions, MEASURES)[MEASURES],
        "judge": lambda r, _: bd.judge(r, data, "overlap", k=2)[["p_yes"]],
        "experiment": lambda r, v: bd.experiment(
            {"mine": r}, bd.Collection("c", questions, passages, v), MEASURES
        ).scores["mine"][MEASURES],
        "Collection": lambda _, v: bd.Collection("c", questions, passages, v).gold[["p_yes"]],
    }
    made = ends(calls[name], *given)
    if made is None:
        return f"{name}: refused"
    assert ((made >= 0) & (made <= 1)).all(axis=None)
    return f"{name}: scored"


# Mostly usable, so that cases come through to the search; a foreign thing here and there.
TEXTISH = st.one_of(TEXTS, TEXTS, TEXTS, VALUES)
PERSPECTIVES = st.lists(TEXTS, min_size=1, max_size=3).map(tuple)
PASSAGES = st.builds(bd.Passage, st.sampled_from(["d1", "d2", "d 3", "é"]), TEXTISH, TEXTISH, st.just({}))
RECORDS = st.tuples(
    st.lists(
        st.builds(
            bd.Question,
            st.one_of(st.sampled_from(["q1", "q2", "q 3"]), TEXTISH),
            TEXTISH,
            st.one_of(
                st.lists(TEXTS, min_size=1, max_size=3).map(tuple), st.lists(TEXTISH, max_size=3).map(tuple), VALUES
            ),
            st.one_of(st.just(()), st.just(()), st.lists(VALUES, max_size=3).map(tuple)),
            weights=st.one_of(st.just(()), st.just(()), st.lists(NUMBERS, max_size=3).map(tuple)),
        ),
        min_size=1,
        max_size=2,
    ),
    st.lists(
        st.builds(bd.Passage, st.sampled_from(["d1", "d2", "d 3", "é"]), TEXTISH, TEXTISH, st.just({})),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["bm25", "minilm", "bm25+mmr:0.5", "bm25+expand:rule"]),
)
GOOD = [bd.Question("q1", "Is tea better?", ("Tea is.", "Coffee is."))]


@fuzzed("records", RECORDS)
def test_records(case):
    """Questions and passages of any content are searched, judged and scored, or refused when they enter."""
    questions, passages, system = case
    for asked in (questions, GOOD):

        def through(asked=asked):
            data = bd.Collection("c", asked, passages)
            run = bd.search(system, data, k=2)
            assert run.groupby("qid").docno.nunique().le(2).all() and set(run.docno) <= {p.docno for p in passages}
            verdicts = bd.judge(run, data, "overlap", k=2)
            scores = bd.evaluate(run, verdicts, data, ["MRecall@2", "Precision@2"]).iloc[:, 1:]
            assert ((scores >= 0) & (scores <= 1)).all(axis=None)
            shown = bd.experiment({system: run}, data, "MRecall@2", judge="overlap")
            assert "\x1b" not in repr(shown) and "<script>" not in shown._repr_html_()
            shown.to_latex()
            return verdicts

        made = ends(through)
    return "refused" if made is None else f"{system}: scored"


@fuzzed("names", st.tuples(TEXTS, TEXTS, st.one_of(NUMBERS, OTHERS, TEXTS)))
def test_names(case):
    """Whatever stands where a system, measure, judge, data set or k is named."""
    name, other, k = case
    data = bd.Collection("c", GOOD, [bd.Passage("d1", "Tea is better."), bd.Passage("d2", "Coffee is.")])
    run = bd.search("bm25", data, k=2)
    calls = [
        lambda: bd.search(name, data),
        lambda: bd.search(f"bm25+{name}:{other}", data),
        lambda: bd.search("bm25", data, k=k),
        lambda: bd.judge(run, data, name or "x", k=1),
        lambda: bd.evaluate(run, None, GOOD, name),
        lambda: bd.evaluate(run, bd.judge(run, data, "overlap"), GOOD, f"{name}@{other}"),
        lambda: bd.load(name),
        lambda: bd.register("measure", name, lambda shown, k: k),
        lambda: bd.supports(name, [other], "overlap"),
        lambda: bd.choose(["bm25", name], data, data),
    ]
    with patch.dict(measures.MEASURES._things):
        made = sum(ends(call) is not None for call in calls)
    return f"{made} of {len(calls)} taken"


@pytest.mark.parametrize("p_yes", [[0.5], [2.0], ["x"], None, [np.nan, 1]])
def test_a_judge_of_a_user_that_answers_anything(p_yes):
    data = bd.Collection("c", GOOD, [bd.Passage("d1", "Tea."), bd.Passage("d2", "Coffee.")])
    run = bd.search("minilm", data, k=2)
    with pytest.raises(bd.InputError):
        bd.judge(run, data, lambda pairs: p_yes)
