"""The verdict store: what has been judged is not judged again, also after a kill."""

import multiprocessing
import os
import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tiny import pair

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.records import Passage, Question, make_verdicts, ranked_run
from berdslib.errors import InputError
from berdslib.evaluation.measures import MRecall, score_run
from berdslib.judging.base import EachByItself, pairs_of
from berdslib.judging.baselines import Committee, Gold
from berdslib.judging.registry import make_judge
from berdslib.judging.store import VerdictStore, judge_pairs, judge_run, judged_aspects, verdict_key
from berdslib.retrieval.retrievers import make_retriever


class Counting:
    """A judge that counts what it is asked and can be killed on the way."""

    id, threshold = "counting", 0.5

    def __init__(self, delay=0.0):
        self.asked, self.delay = [], delay

    def p_yes(self, pairs):
        time.sleep(self.delay)
        self.asked += [p.passage.docno for p in pairs]
        return np.array([len(p.passage.text) % 10 / 10 for p in pairs])


def test_a_pair_is_judged_once_however_often_it_is_asked(tmp_path):
    store, judge = VerdictStore(tmp_path / "v.sqlite"), Counting()
    pairs = [pair(text="x" * (i + 1), docno=f"d{i}") for i in range(5)]
    first, new = judge_pairs(judge, [*pairs, pairs[0]], store)
    assert new == 5 and len(store) == 5 and first[5] == first[0]
    again, new = judge_pairs(judge, pairs[::-1], store)
    assert new == 0 and again.tolist() == first[:5][::-1].tolist()
    assert len(judge.asked) == 5


def test_two_at_once_share_the_judging(tmp_path):
    pairs = [pair(text="x" * (i + 1), docno=f"d{i}") for i in range(40)]
    judges = Counting(0.02), Counting(0.02)
    with ThreadPoolExecutor(2) as pool:  # each with a store of its own on one file, as two processes have
        asked = [
            pool.submit(judge_pairs, judge, part, VerdictStore(tmp_path / "v.sqlite"), chunk=4)
            for judge, part in zip(judges, (pairs[:30], pairs[10:]), strict=True)
        ]
        results = [one.result() for one in asked]
    assert sorted(judges[0].asked + judges[1].asked) == sorted(f"d{i}" for i in range(40))
    assert all(judge.asked for judge in judges) and sum(new for _, new in results) == 40
    assert results[0][0].tolist() == [(i + 1) % 10 / 10 for i in range(30)]


def test_a_store_that_is_no_database_is_told_and_left(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError) as error:
        judge_pairs(Counting(), [pair()], VerdictStore(tmp_path / "thesis.txt"))
    assert error.value.path == tmp_path / "thesis.txt"
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_b9_judging_twice_appends_nothing(tmp_path):
    # divergences.md B9: the official script appends a second set of predictions; positions then mean nothing.
    question = Question("q", "Cats?", ("Cats are kind.", "Cats are not kind."))
    passages = {d: Passage(d, f"text {d}") for d in ("a", "b")}
    run, store = ranked_run({"q": ["a", "b"]}), VerdictStore(tmp_path / "v.sqlite")
    once = judge_run(run, [question], passages, Counting(), k=2, store=store)
    twice = judge_run(run, [question], passages, Counting(), k=2, store=store)
    assert once.equals(twice) and len(twice) == 4 and len(store) == 4
    official = {d: [*once.loc[once.docno == d, "supports"], *twice.loc[twice.docno == d, "supports"]] for d in passages}
    assert {len(v) for v in official.values()} == {4}  # twice as many as there are perspectives


def test_keys_tell_all_parts_apart():
    base = pair(text="bc", title="a")
    others = [pair(text="c", title="ab"), pair(text="bc", title="a", perspective="Other."), pair(text="bc")]
    keys = {verdict_key("j", p) for p in [base, *others]} | {verdict_key("k", base)}
    assert len(keys) == 5
    assert verdict_key("j", base) == verdict_key("j", base._replace(qid="elsewhere"))


def _judge_slowly(path, n):
    judge_pairs(
        Counting(delay=0.05), [pair(text="x" * (i + 1), docno=f"d{i}") for i in range(n)], VerdictStore(path), chunk=10
    )


@pytest.mark.slow
def test_sigkill_loses_nothing_that_was_judged(tmp_path):
    committed, path, context = 50, tmp_path / "v.sqlite", multiprocessing.get_context("spawn")
    worker = context.Process(target=_judge_slowly, args=(path, 400))
    worker.start()
    until = time.monotonic() + 60
    while not path.exists() or _count(path) < committed:
        assert worker.is_alive() and time.monotonic() < until
        time.sleep(0.01)
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    kept = len(VerdictStore(path))
    assert committed <= kept < 400
    judge = Counting()
    pairs = [pair(text="x" * (i + 1), docno=f"d{i}") for i in range(400)]
    p_yes, new = judge_pairs(judge, pairs, VerdictStore(path))
    assert new == 400 - kept == len(judge.asked)
    assert len(VerdictStore(path)) == 400
    assert p_yes.tolist() == [(i + 1) % 10 / 10 for i in range(400)]


def _count(path):
    try:
        with sqlite3.connect(path) as table:
            return table.execute("SELECT count(*) FROM verdict").fetchone()[0]
    except sqlite3.OperationalError:  # the table is being made
        return 0


def test_gold_verdicts_of_the_sample_score_the_same_as_a_table_or_as_a_judge():
    questions, passages, gold = load_questions("sample", "all"), load_passages("sample"), load_gold("sample")
    run = make_retriever("bm25", passages).search(questions, 5)
    judged = judge_run(run, questions, {p.docno: p for p in passages}, Gold(gold), k=5)
    a, b = (score_run(run, v, questions, [MRecall @ 5]) for v in (gold, judged))
    assert a.equals(b)


class Yes:
    """Says yes to everything, and remembers what it was asked."""

    id, threshold = "yes", 0.5

    def __init__(self):
        self.asked = []

    def p_yes(self, pairs):
        self.asked += pairs
        return np.ones(len(pairs))


@pytest.mark.parametrize("text", ["", "  \n\t", "\u3000"])
def test_a_blank_passage_supports_nothing_and_nobody_is_asked(text, tmp_path):
    judge, store = Yes(), VerdictStore(tmp_path / "v.sqlite")
    questions = [Question("q", "Is it?", ("It is.", "It is not."))]
    passages = {"blank": Passage("blank", text, "It is."), "full": Passage("full", "It is.")}
    verdicts = judge_run(ranked_run({"q": ["blank", "full"]}), questions, passages, judge, k=2, store=store)
    yes = verdicts.set_index(["docno", "pid"])["supports"]
    assert not yes["blank"].any() and yes["full"].all()
    assert {p.passage.docno for p in judge.asked} == {"full"} and len(store) == 2
    judge.threshold = 0.0
    verdicts = judge_run(ranked_run({"q": ["blank"]}), questions, passages, judge, k=2)
    assert not verdicts["supports"].any()


def test_a_run_counted_from_0_is_judged_to_its_kth_passage_and_no_further():
    questions = [Question("q", "Is it?", ("It is.",))]
    passages = {d: Passage(d, f"text {d}") for d in "abc"}
    run = ranked_run({"q": list("abc")})
    for ranks in (run["rank"] - 1, [7, 7, 7]):
        verdicts = judge_run(run.assign(rank=ranks), questions, passages, Yes(), k=2)
        assert verdicts["docno"].tolist() == ["a", "b"]


class SometimesUnreadable(EachByItself):
    """Answers that pass the test of one word only; the others cannot be read. Counts what it is asked."""

    id, threshold = "sometimes", 0.5

    def __init__(self):
        self.asked = []

    def p_yes_each(self, pairs):
        self.asked += pairs
        return np.array([np.nan if pair.passage.text == "unreadable" else 0.9 for pair in pairs]), None


def test_an_unread_pair_is_no_verdict_is_not_stored_and_is_asked_again(tmp_path):
    judge, store = SometimesUnreadable(), VerdictStore(tmp_path / "v.sqlite")
    questions, passages = [Question("q", "Is it?", ("It is.", "It is not."))], {}
    for docno, text in (("a", "unreadable"), ("b", "text")):
        passages[docno] = Passage(docno, text)
    run = ranked_run({"q": ["a", "b"]})
    for time_asked in (1, 2):
        verdicts = judge_run(run, questions, passages, judge, k=2, store=store)
        unread = verdicts[verdicts["docno"] == "a"]
        assert unread["p_yes"].isna().all() and not unread["supports"].any() and len(unread) == 2
        assert verdicts[verdicts["docno"] == "b"]["supports"].all() and len(store) == 2
        assert len(judge.asked) == 2 + 2 * time_asked
    committee = Committee([judge, Yes()])
    p_yes, _ = judge_pairs(committee, pairs_of(run, questions, passages, 2), store)
    assert np.isnan(p_yes).tolist() == [True, True, False, False]
    aspects = judged_aspects({"q": [("x", "It is."), ("y", "It is not.")]}, list(passages.values()), judge, store)
    table = aspects(run, questions).set_index("docno")["p"]
    assert table["a"].tolist() == [0, 0] and table["b"].tolist() == [0.9, 0.9]


def test_recorded_verdicts_on_a_run_are_those_that_there_are():
    gold = make_verdicts([("q", 0, "a", 1.0, True), ("q", 0, "c", 1.0, True)], "hand")
    questions, passages = [Question("q", "Is it?", ("It is.",))], {d: Passage(d, f"text {d}") for d in "abc"}
    verdicts = judge_run(ranked_run({"q": ["a", "b"]}), questions, passages, Gold(gold), k=2)
    assert verdicts["docno"].tolist() == ["a"]  # nobody judged b, and c is not listed


@pytest.mark.parametrize("text", [".", "…", "?!", " - ", "—", "👍", "\u200b", "___"])
def test_a_passage_without_a_word_supports_nothing(text):
    judge = make_judge("laptop")
    pairs = [pair(text, claim) for claim in ("Zoos should close.", "Trams are good.")]
    p_yes, asked = judge_pairs(judge, pairs)
    assert not p_yes.any() and asked == 0
    assert judge_pairs(judge, [pair("7"), pair("é"), pair("動")])[1] == 3
