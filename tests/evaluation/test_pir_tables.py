"""PIR's tables that look at roots and at extracted perspectives, against counts by hand and by brute force."""

import random

import numpy as np
import pandas as pd
import pytest

import berdslib as bd
from berdslib.data.collection import Collection
from berdslib.data.pir import location_groups
from berdslib.data.records import Passage, Question, make_verdicts, ranked_run
from berdslib.errors import InputError
from berdslib.evaluation.pir_tables import groups_shown, root_bias, task_statistics, word_overlap

LABELS = ("support", "undermine", "general")


def random_task(seed):
    """Return questions with three labels, verdicts and lists, drawn at random."""
    draw = random.Random(seed)
    questions = [Question(f"q{i}", f"Root {i}?", ("a", "b", "c"), labels=LABELS) for i in range(6)]
    docnos = [f"d{i}" for i in range(12)]
    rows = [
        (q.qid, pid, docno, 1.0, True)
        for q in questions
        for pid in range(3)
        for docno in draw.sample(docnos, draw.randint(0, 3))
    ]
    lists = {q.qid: draw.sample(docnos, 8) for q in questions}
    return questions, make_verdicts(rows, "gold"), lists


@pytest.mark.parametrize("seed", range(6))
def test_shares_of_labels_are_those_counted_one_by_one(seed):
    questions, gold, lists = random_task(seed)
    asked, k = ("support", "undermine"), 4
    said = set(zip(gold["qid"], gold["docno"], gold["pid"], strict=True))
    counts = dict.fromkeys(asked, 0)
    for q in questions:
        for docno in lists[q.qid][:k]:
            for label in asked:
                counts[label] += (q.qid, docno, LABELS.index(label)) in said
    total = sum(counts.values())
    if not total:
        with pytest.raises(InputError):
            root_bias(ranked_run(lists), gold, questions, asked, k)
        return
    table = root_bias(ranked_run(lists), gold, questions, asked, k, resamples=50).set_index("label")
    assert table["found"].to_dict() == counts
    assert table["share"].to_dict() == pytest.approx({label: n / total for label, n in counts.items()})
    assert table["in_corpus"].sum() == pytest.approx(1)
    assert (table["low"] <= table["share"] + 1e-9).all() and (table["share"] <= table["high"] + 1e-9).all()


def test_a_retriever_that_shows_everything_has_the_shares_of_the_corpus():
    questions, gold, _ = random_task(3)
    everything = ranked_run({q.qid: [f"d{i}" for i in range(12)] for q in questions})
    table = root_bias(everything, gold, questions, LABELS, 12, resamples=10)
    np.testing.assert_allclose(table["share"], table["in_corpus"])


def test_groups_of_all_places_add_up_to_the_places():
    task, groups = bd.load("pir-sample:location"), location_groups()
    run = bd.search("bm25", task, k=5)
    shown = groups_shown(run, task.questions, groups, 5)
    assert shown.sum() == len(run[run["qid"].isin([q.qid for q in task.questions])])
    assert set(shown.index) == set(groups.values()) and shown.is_monotonic_decreasing


@pytest.mark.parametrize(
    ("found", "gold", "union", "f1"),
    [
        ("the cat", ["the cat"], 1.0, 1.0),
        ("the Cat sat", ["the cat"], 2 / 3, 4 / 5),
        ("dog", ["cat", "a dog"], 1 / 2, 2 / 3),  # the best of several
        ("dog", ["cat"], 0.0, 0.0),
        ("", [""], 0.0, 0.0),
    ],
)
def test_word_overlap_by_hand(found, gold, union, f1):
    assert word_overlap(found, gold) == pytest.approx(union)
    assert word_overlap(found, gold, "f1") == pytest.approx(f1)


def test_table_1_counts_full_queries_and_words():
    questions = [Question("r", "Trams?", ("for", "against"))]
    passages = [Passage("a", "one two three"), Passage("b", "one", "Title")]
    task = Collection("t", questions, passages, expansions={"r": [("for", "for Trams ?"), ("against", "no")]})
    assert task_statistics(task) == {
        "queries": 2, "words_per_query": 2.0, "documents": 2, "words_per_document": 2.5,
    }  # fmt: skip


QUESTIONS, GOLD, LISTS = random_task(1)
RUN = ranked_run(LISTS)


@pytest.mark.parametrize(
    "refused",
    [
        lambda: root_bias(RUN, GOLD, QUESTIONS, ("suport",), 5),
        lambda: root_bias(RUN, GOLD, QUESTIONS, LABELS, 0),
        lambda: root_bias(pd.DataFrame({"qid": [], "docno": [], "score": []}), GOLD, QUESTIONS, LABELS, 5),
        lambda: word_overlap("a", []),
        lambda: word_overlap("a", ["a"], "f2"),
        lambda: task_statistics(Collection("none", QUESTIONS, [Passage("a", "b")])),
    ],
)
def test_what_is_refused(refused):
    with pytest.raises(InputError):
        refused()
