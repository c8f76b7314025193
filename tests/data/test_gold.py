"""Copies of a text share verdicts where a data set says so; elsewhere they are counted. Against plain loops."""

import itertools

import numpy as np
import pandas as pd
import pytest

import berdslib as bd
from berdslib.data.corpus import write_corpus
from berdslib.data.datasets import find, load_gold, load_passages, load_questions
from berdslib.data.gold import are_copies_of_judged, share_verdicts, unjudged_copies
from berdslib.data.readers import READERS
from berdslib.data.records import Passage, check_verdicts, make_run, make_verdicts, read_pairs

SEEDS = range(8)


def drawn(seed, *, copies=True, graded=False):
    """Return verdicts, some unread, some of passages that are not there, and passages, some of equal text and title."""
    rng = np.random.default_rng(seed)
    texts = rng.integers(0, 12, 20) if copies else range(20)
    passages = [Passage(f"d{i}", f"text {t // 2}", ("", "a title")[t % 2]) for i, t in enumerate(texts)]
    docnos = [*(p.docno for p in passages), "not there"]
    pairs = itertools.product(("q1", "q2"), (0, 1), docnos)
    rows = [(*pair, rng.choice([0.0, 0.4, 0.7, 1.0, np.nan])) for pair in pairs if rng.random() < 0.3]
    verdicts = pd.DataFrame(rows, columns=["qid", "pid", "docno", "p_yes"])
    if graded:
        verdicts["grade"] = np.where(verdicts["p_yes"] >= 0.5, rng.integers(1, 4, len(rows)), 0.0)
    return check_verdicts(verdicts.assign(judge="somebody")), passages


def of_copies(verdicts, passages, qid, pid, docno):
    """Return the read verdicts on this passage, or else on those of equal title and text, the best first."""
    by_docno = {p.docno: p for p in passages}
    rows = [row for row in verdicts.itertuples() if (row.qid, row.pid) == (qid, pid) and row.p_yes == row.p_yes]
    own = [row for row in rows if row.docno == docno]
    there = by_docno[docno]
    same = [r for r in rows if r.docno in by_docno and by_docno[r.docno][1:] == there[1:]]
    return own or sorted(same, key=lambda row: (row.supports, getattr(row, "grade", 0), row.p_yes), reverse=True)


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_copies_share_verdicts_as_a_plain_loop_has_it(seed, graded):
    verdicts, passages = drawn(seed, graded=graded)
    shared = share_verdicts(verdicts, passages).set_index(["qid", "pid", "docno"])
    for qid, pid, passage in itertools.product(("q1", "q2"), (0, 1), passages):
        key, expected = (qid, pid, passage.docno), of_copies(verdicts, passages, qid, pid, passage.docno)
        if expected:
            found = shared.loc[key]
            assert (found["supports"], found["p_yes"]) == (expected[0].supports, expected[0].p_yes)
            assert not graded or found["grade"] == expected[0].grade
        else:  # nobody said anything that could be read
            assert key not in shared.index or np.isnan(shared.loc[key, "p_yes"])
    before = verdicts.set_index(["qid", "pid", "docno"])
    assert set(before.index) <= set(shared.index)
    kept = shared.loc[before.index[before["p_yes"].notna()]]
    pd.testing.assert_frame_equal(kept, before[before["p_yes"].notna()])
    twice = share_verdicts(shared.reset_index(), passages)
    pd.testing.assert_frame_equal(twice, shared.reset_index())


@pytest.mark.parametrize("seed", SEEDS)
def test_where_there_are_no_copies_ids_and_texts_agree(seed):
    verdicts, passages = drawn(seed, copies=False, graded=seed % 2 == 0)
    pd.testing.assert_frame_equal(share_verdicts(verdicts, passages), verdicts)
    assert unjudged_copies(verdicts, passages).empty


@pytest.mark.parametrize("seed", SEEDS)
def test_unjudged_copies_as_a_plain_loop_has_them(seed):
    verdicts, passages = drawn(seed)
    judged = {(row.qid, row.docno) for row in read_pairs(verdicts).itertuples()}
    expected = {
        (qid, p.docno)
        for qid, p, other in itertools.product(("q1", "q2"), passages, passages)
        if (qid, p.docno) not in judged and (qid, other.docno) in judged and p[1:] == other[1:]
    }
    found = unjudged_copies(verdicts, passages)
    assert set(zip(found["qid"], found["docno"], strict=True)) == expected and len(found) == len(expected)
    pairs = [*itertools.product(("q1", "q2", "q3"), [*(p.docno for p in passages), "not there", "nor this"])]
    run = make_run(*zip(*pairs, strict=True), np.arange(len(pairs)))
    told = are_copies_of_judged(run, verdicts, passages)
    assert [*zip(run["qid"], run["docno"], strict=True)] != pairs  # the answer is for the rows as they come
    assert set(zip(run["qid"][told], run["docno"][told], strict=True)) == expected


def test_a_corpus_on_disk_tells_the_same(tmp_path):
    verdicts, passages = drawn(3)
    corpus = write_corpus(passages, tmp_path / "corpus")
    pd.testing.assert_frame_equal(share_verdicts(verdicts, corpus), share_verdicts(verdicts, passages))
    pd.testing.assert_frame_equal(unjudged_copies(verdicts, corpus), unjudged_copies(verdicts, passages))
    run = make_run(["q1"] * 20, [p.docno for p in passages], np.arange(20))
    expected = are_copies_of_judged(run, verdicts, passages)
    assert (are_copies_of_judged(run, verdicts, corpus) == expected).all() and expected.any()


SAME = [Passage("a", "Ban it.", "On bans"), Passage("b", "Ban it.", "On bans"), Passage("c", "Ban it.", "On bans")]


def test_one_text_of_ten_thousand_passages_is_no_square():
    passages = [Passage(str(i), "") for i in range(10_000)]
    verdicts = make_verdicts([("q", 0, p.docno, 1.0, True) for p in passages[::2]], "gold")
    assert len(share_verdicts(verdicts, passages)) == 10_000
    assert len(unjudged_copies(verdicts, passages)) == 5_000


def test_a_list_of_a_perspective_is_asked_about_its_question():
    """As scoring does: the run of perspectives, with the qid of their question."""
    verdicts = make_verdicts([("q", 1, "a", 1.0, True)], "gold")
    run = pd.DataFrame({"qid": ["q", "q", "q"], "docno": ["b", "a", "elsewhere"], "rank": [1, 2, 3]}, index=[7, 7, 9])
    assert are_copies_of_judged(run, verdicts, SAME).tolist() == [True, False, False]


# ---------------------------------------------------------------- theperspective


@pytest.fixture
def ids_alone(real_data):
    """The verdicts of theperspective as its file has them."""
    return check_verdicts(READERS["theperspective"]["gold"](find("theperspective")))


def test_theperspective_has_210_copies_and_they_share_verdicts(ids_alone):
    passages, shared = load_passages("theperspective"), load_gold("theperspective")
    assert len(passages) - len({p[1:3] for p in passages}) == 108 and len(ids_alone) == 799
    left = unjudged_copies(ids_alone, passages)
    assert len(shared) == 799 + len(left) and unjudged_copies(shared, passages).empty
    assert not are_copies_of_judged(shared, shared, passages).any()
    assert are_copies_of_judged(shared, ids_alone, passages).sum() == len(left)
    assert shared.groupby("qid")["docno"].nunique().max() == 12  # three a side, under two ids each


def test_without_copies_in_the_corpus_ids_and_texts_score_alike(ids_alone):
    """Of the questions none of whose passages has a copy, each score is what it was."""
    questions, passages = load_questions("theperspective"), load_passages("theperspective")
    copied = set(unjudged_copies(ids_alone, passages)["qid"])
    run = bd.search("bm25", bd.Collection("theperspective", questions, passages, ids_alone), 10)
    measures = [bd.MRecall @ 5, bd.Precision @ 10, bd.nDCG @ 10]
    by_id = bd.evaluate(run, ids_alone, questions, measures)
    by_text = bd.evaluate(run, load_gold("theperspective"), questions, measures)
    rest = [q.qid for q in questions if q.qid not in copied]
    assert 100 < len(rest) < 134
    pd.testing.assert_frame_equal(by_id.loc[rest], by_text.loc[rest])
    assert (by_text["MRecall@5"] >= by_id["MRecall@5"]).all()
