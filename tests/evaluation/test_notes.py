"""Questions without verdicts, and what is said below tables."""

import logging
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from berdslib.data.corpus import write_corpus
from berdslib.data.records import Passage, Question, make_verdicts, ranked_run
from berdslib.errors import InputError
from berdslib.evaluation import notes
from berdslib.evaluation.measures import MRecall, P, Precision, judged_questions, nDCG, pRecall, score_run
from berdslib.evaluation.sides import root_versus_full

ASKED = [Question(qid, f"{qid}?", ("yes", "no")) for qid in ("q1", "q2", "q3", "q4")]
# q1 is answered; of q2 all verdicts are no; of q3 nothing was judged; of q4 one answer, and it could not be read.
ROWS = [
    ("q1", 0, "a", 1.0, True), ("q1", 1, "b", 1.0, True), ("q2", 0, "a", 0.0, False), ("q4", 0, "a", np.nan, False),
]  # fmt: skip
RUN = ranked_run({q.qid: ["a", "b", "c"] for q in ASKED})


def qids(questions):
    return [q.qid for q in questions]


@pytest.mark.parametrize("recorded", [True, False])
def test_questions_that_nobody_judged_are_left_out(recorded):
    verdicts = make_verdicts(ROWS, "gold" if recorded else "laptop(1)")
    assert qids(judged_questions(ASKED, verdicts, [RUN])) == ["q1", "q2"]
    # A judge was asked about all that is listed: where nothing is, the question is unanswered.
    of_some = RUN[RUN["qid"] != "q3"]
    assert qids(judged_questions(ASKED, verdicts, [of_some])) == (["q1", "q2"] if recorded else ["q1", "q2", "q3"])
    assert qids(judged_questions(ASKED, verdicts, [of_some, RUN])) == ["q1", "q2"]  # another system lists it


def test_left_out_questions_have_no_row_and_unanswered_ones_score_0(caplog):
    scores = score_run(RUN[RUN["qid"] != "q2"], make_verdicts(ROWS, "gold"), ASKED, [MRecall @ 2, P @ 2])
    assert scores.to_dict("index") == {"q1": {"MRecall@2": 1, "P@2": 1}, "q2": {"MRecall@2": 0, "P@2": 0}}
    assert sum("2 of 4 questions" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize(
    "score",
    [
        lambda verdicts: score_run(RUN, verdicts, ASKED, "P@2"),
        lambda verdicts: root_versus_full(both_lists(), verdicts, ASKED, [2]),
    ],
)
def test_where_no_question_has_a_verdict_nothing_is_scored(score):
    for rows in ([], [row for row in ROWS if row[0] == "q4"]):
        with pytest.raises(InputError):
            score(make_verdicts(rows, "gold"))


def both_lists():
    own = {f"{q.qid}#{pid}": ["a", "b"] for q in ASKED for pid in range(2)}
    return pd.concat([RUN, ranked_run(own)], ignore_index=True)


def test_every_way_of_scoring_leaves_out_the_same_questions():
    verdicts = make_verdicts(ROWS, "gold")
    assert score_run(both_lists(), verdicts, ASKED, pRecall @ 2)["pRecall@2"].to_dict() == {"q1": 1.0, "q2": 0.0}
    assert root_versus_full(both_lists(), verdicts, ASKED, [2])["full"].tolist() == [2 / 4]


# ---------------------------------------------------------------- how much was judged


def test_shares_are_those_of_the_places_that_are_listed():
    verdicts, asked = make_verdicts(ROWS, "gold"), ASKED[:2]
    # q1: a and b of a, b, c; q2: a of a, b, c. An unread answer judges nothing.
    said = notes.places_judged({"run": RUN}, verdicts, asked, [P @ 1, MRecall @ 2, nDCG @ 10])
    assert "in the first 2: 75%" in said and "in the first 10: 50%" in said and "first 1:" not in said
    other = ranked_run({"q1": ["a"], "q2": ["a"]})
    several = notes.places_judged({"run": RUN, "other": other}, verdicts, asked, [P @ 2])
    assert "run 75%" in several and "other 100%" in several
    many = {f"s{i}": RUN[RUN["rank"] <= 1 + i % 3] for i in range(9)}
    assert "from 50% (s2) to 100% (s0)" in notes.places_judged(many, verdicts, asked, [P @ 3])
    assert notes.places_judged({"run": other}, verdicts, asked, [P @ 2]) == ""
    almost = ranked_run({"q1": [f"d{i}" for i in range(5000)]})
    all_but_one = make_verdicts([("q1", 0, f"d{i}", 0.0, False) for i in range(4999)], "gold")
    assert "100%" not in notes.places_judged({"run": almost}, all_but_one, ASKED[:1], [P @ 5000])


def test_unjudged_copies_are_counted_for_each_system():
    passages = [Passage("a", "same"), Passage("copy", "same"), Passage("b", "other")]
    verdicts = make_verdicts([("q1", 0, "a", 1.0, True), ("q2", 0, "b", 0.0, False)], "gold")
    runs = {"copies": ranked_run({"q1": ["copy", "b"], "q2": ["copy"]}), "none": ranked_run({"q1": ["a", "b", "copy"]})}
    assert notes.copies_listed(runs, verdicts, ASKED[:2], [P @ 2], passages) == {"copies": 1, "none": 0}


def test_short_lists_of_finished_runs_are_named():
    runs = {"ours": ranked_run({"q1": list("abcdefghij")}), "theirs": RUN}
    measures = [P @ 3, nDCG @ 10, MRecall @ 5]
    [said] = notes.short_lists(runs, ASKED, measures, ["theirs"])
    assert all(words in said for words in ("theirs", "3", "nDCG@10", "MRecall@5")) and "P@3" not in said
    assert notes.short_lists(runs, ASKED, measures, []) == []  # what searches lists all that it finds
    assert notes.short_lists(runs, ASKED, measures, ["theirs"], most=3) == []  # the corpus has no more
    [whole] = notes.short_lists(runs, ASKED, [nDCG], ["theirs"])  # where lists are taken whole, they should be alike
    assert "ours 10" in whole and "theirs 3" in whole


def test_a_yes_of_grades_is_their_smallest_yes():
    columns = ["qid", "pid", "docno", "p_yes", "supports", "judge", "grade"]
    rows = [
        ("q1", 0, "a", 1.0, True, "gold", 3.0),
        ("q1", 0, "b", 1.0, True, "gold", 2.0),
        ("q1", 0, "c", 0, False, "gold", 1.0),
    ]
    graded = pd.DataFrame(rows, columns=columns)
    assert "≥ 2" in notes.grades_used(graded, [P @ 1]) and "nDCG" not in notes.grades_used(graded, [P @ 1])
    assert "nDCG@5" in notes.grades_used(graded, [P @ 1, nDCG @ 5])
    assert notes.grades_used(graded.assign(grade=[1.0, 1.0, 0.0]), [nDCG @ 5]) == ""
    assert notes.grades_used(graded.drop(columns="grade"), [nDCG @ 5]) == ""


def test_unread_pairs_are_counted():
    assert "1 of 4" in notes.pairs_unread(make_verdicts(ROWS, "gold"))
    assert notes.pairs_unread(make_verdicts(ROWS[:3], "gold")) == ""


# ---------------------------------------------------------------- how high scores can get


def test_the_ceiling_is_what_the_best_list_of_the_corpus_scores(tmp_path):
    """Against all lists of k passages of the corpus."""
    rng = np.random.default_rng(3)
    for case in range(40):
        docs = [f"d{i}" for i in range(6)]
        there = [d for d in docs if rng.random() < 0.5] or docs[:1]
        asked = [Question(f"q{i}", "?", tuple("abcd"[: rng.integers(1, 5)]), source=str(i % 2)) for i in range(3)]
        yes = {(q.qid, p, d) for q in asked for p in range(len(q.perspectives)) for d in docs if rng.random() < 0.3}
        rows = [
            (q.qid, p, d, 1.0, (q.qid, p, d) in yes) for q in asked for p in range(len(q.perspectives)) for d in docs
        ]
        k = int(rng.integers(1, 4))
        best = {}
        for q in asked:
            m, lists = len(q.perspectives), combinations(there, min(k, len(there)))
            most = max(sum(any((q.qid, p, d) in yes for d in one) for p in range(m)) for one in lists)
            best[q.qid] = float(most >= min(m, k))
        mean = pd.Series(best).groupby([q.source for q in asked]).mean().mean()
        corpus = [Passage(d, f"text of {d}") for d in there]
        passages = write_corpus(corpus, tmp_path / f"c{case}") if case < 3 else corpus
        reachable = notes.within_reach(asked, make_verdicts(rows, "gold"), passages, {})
        said = notes.ceiling(asked, reachable, [MRecall @ k, Precision @ k])
        assert (f"MRecall@{k} can reach {100 * mean:.1f}" in said) == (mean < 1)
        hopeless = sum(not any(qid == q.qid and d in there for qid, _, d in yes) for q in asked)
        assert (f"{hopeless} of 3 questions" in said) == bool(hopeless)


def test_a_passage_that_a_run_lists_is_within_reach():
    verdicts = make_verdicts([("q1", 0, "elsewhere", 1.0, True)], "gold")
    run = {"theirs": ranked_run({"q1": ["elsewhere"]})}
    assert len(notes.within_reach(ASKED[:1], verdicts, [Passage("a", "text")], run)) == 1
    assert notes.within_reach(ASKED[:1], verdicts, [Passage("a", "text")], {}).empty


def test_nothing_is_said_where_nothing_is_to_be_said(caplog):
    verdicts = make_verdicts([("q1", 0, "a", 1.0, True), ("q1", 1, "b", 1.0, True)], "gold")
    run = ranked_run({"q1": ["a", "b"]})
    with caplog.at_level(logging.INFO):
        score_run(run, verdicts, ASKED[:1], MRecall @ 2)
    assert not caplog.records
