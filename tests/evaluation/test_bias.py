"""Bias tables, by hand."""

import numpy as np
import pytest

from berdslib.data.datasets import load
from berdslib.data.records import Question, make_verdicts, ranked_run
from berdslib.errors import InputError
from berdslib.evaluation.sides import (
    UNKNOWN,
    group_counts,
    group_heatmap,
    group_success,
    labels_of,
    perspective_shares,
    root_versus_full,
)
from berdslib.retrieval.bm25 import RankBM25
from berdslib.stats import cluster_bootstrap, ratio_of_sums
from berdslib.study.front import search


def question(qid, *labels):
    return Question(qid, f"{qid}?", tuple(f"that is {label}" for label in labels), labels=labels)


def gold(**texts):
    """Return verdicts: gold(tea=("ab", "c")) says that a and b support tea's first perspective, c its second."""
    rows = [(qid, pid, d, 1.0, True) for qid, lists in texts.items() for pid, docs in enumerate(lists) for d in docs]
    return make_verdicts(rows, "gold")


STANCES = (question("tea", "for", "against"), question("coffee", "for", "against", "general"))
STANCE_GOLD = gold(tea=("ab", "c"), coffee=("d", "ef", "def"))
# The lists of the perspectives are there as well, and are not looked at.
ROOT_RUN = ranked_run({"tea": "axbc", "coffee": "dfa", "tea#0": "c", "tea#1": "c", "coffee#1": "ef"})


def shares(k, **options):
    return perspective_shares(ROOT_RUN, STANCE_GOLD, STANCES, k, resamples=100, **options).set_index("label")


def test_shares_of_the_top_document():
    table = shares(1, labels=("for", "against"))
    assert table["hits"].tolist() == [2, 0]
    assert table["share"].tolist() == [1.0, 0.0]
    assert table["gold_share"].tolist() == [0.5, 0.5]


def test_shares_of_longer_lists():
    # Tea shows a, b and c; coffee d and f, but not a, which is tea's.
    table = shares(4, labels=["for", "against"])
    assert table["hits"].tolist() == [3, 2]
    assert table["share"].tolist() == pytest.approx([3 / 5, 2 / 5])
    # Drawn alone, tea gives 2/3 and coffee 1/2 to those in favour.
    assert table.loc["for", ["low", "high"]].tolist() == pytest.approx([1 / 2, 2 / 3])


def test_a_text_with_two_perspectives_counts_for_both():
    table = shares(4)
    assert table.index.tolist() == ["for", "against", "general"]
    assert table["hits"].tolist() == [3, 2, 2]
    assert table["share"].tolist() == pytest.approx([3 / 5, 2 / 5, 2 / 5])


def test_two_perspectives_of_one_label_count_a_text_once():
    # The released Perspectrum asks several queries from one perspective.
    twice = (question("tea", "for", "for", "against"),)
    table = perspective_shares(ROOT_RUN, gold(tea=("ab", "bc", "x")), twice, 4, resamples=10).set_index("label")
    assert table["hits"].tolist() == [3, 1]
    assert table["share"].tolist() == table["gold_share"].tolist() == [3 / 4, 1 / 4]


def test_a_perspective_without_a_short_name_is_called_by_its_text():
    bare = (Question("tea", "Tea?", ("Tea is good.", "Tea is bad.")),)
    table = perspective_shares(ROOT_RUN, STANCE_GOLD, bare, 4, resamples=10)
    assert table["label"].tolist() == list(labels_of(bare[0])) == ["Tea is good.", "Tea is bad."]
    assert table["hits"].tolist() == [2, 1]


def test_nothing_found_has_no_share():
    run = ranked_run({"tea": "x", "coffee": "y"})
    table = perspective_shares(run, STANCE_GOLD, STANCES, 5, labels=["for"], resamples=10)
    assert table["hits"].tolist() == [0] and table[["share", "low", "high"]].isna().all(axis=None)


# ---------------------------------------------------------------- with and without perspectives

# In full, tea is found from one side at k = 2, coffee from both, and milk from its only one.
DRINKS = (question("tea", "for", "against"), question("coffee", "for", "against"), question("milk", "for"))
DRINK_GOLD = gold(tea=("ab", "c"), coffee=("d", "e"), milk=("f",))
BARE = {"tea": "ca", "coffee": "xd", "milk": "xy"}
FULL = {"tea#0": "axb", "tea#1": "xyc", "coffee#0": "d", "coffee#1": "de", "milk#0": "f"}


def against_full(lists, ks, **options):
    table = root_versus_full(ranked_run(lists), DRINK_GOLD, DRINKS, ks, resamples=200, **options)
    return table.set_index("k")


def test_root_against_full_by_hand():
    table, columns = against_full(BARE | FULL, [1, 2]), ["root_any", "root", "full", "difference"]
    # k = 1: tea's list shows c, which only its second perspective wants; three of the five queries are answered.
    assert table.loc[1, columns].tolist() == pytest.approx([1 / 3, 0.2, 0.6, 0.4])
    # k = 2: tea answers both its perspectives, coffee one; in full all but tea's second.
    assert table.loc[2, columns].tolist() == pytest.approx([2 / 3, 0.6, 0.8, 0.2])
    assert (table["low"] <= table["difference"]).all() and (table["difference"] <= table["high"]).all()


def test_root_against_full_as_recall_by_hand():
    row = against_full(BARE | FULL, [2], hit="recall").loc[2]
    # Of tea's three texts two are there, of coffee's two one; a is half of what tea's first perspective wants.
    means = [(2 / 3 + 1 / 2 + 0) / 3, (1 / 2 + 1 + 1 + 0 + 0) / 5, (1 / 2 + 0 + 1 + 1 + 1) / 5]
    assert row[["root_any", "root", "full"]].tolist() == pytest.approx(means)
    with pytest.raises(InputError, match="unknown hit 'precision'"):
        against_full(BARE | FULL, [2], hit="precision")


def test_the_interval_of_the_difference_draws_questions():
    # By question the sums of differences at k = 2 are -1, 1 and 1, over 2, 2 and 1 queries.
    _, low, high = cluster_bootstrap(np.array([[-1, 2], [1, 2], [1, 1]]), None, ratio_of_sums, resamples=200)
    assert against_full(BARE | FULL, [2]).loc[2, ["low", "high"]].tolist() == [low[0], high[0]]


@pytest.mark.real_data
def test_root_queries_find_some_gold_text_more_often_than_full_queries_find_their_own(real_data):
    task = load("pir-demo:perspectrum")
    run = search(RankBM25(task.passages, analyser="whitespace"), task, 10, perspectives=True)
    table = root_versus_full(run, task.gold, task.questions, [5, 10], resamples=200)
    assert (table["root_any"] > table["full"]).all()  # as in figures 2 and 4
    assert table["full"].tolist() == [0.37, 0.50]


# ---------------------------------------------------------------- countries

NEWS = (question("1", "Brazil"), question("2", "Brazil"), question("3", "France"))
NEWS_GOLD = make_verdicts([("1", 0, "b1", 1.0, True), ("2", 0, "b2", 1.0, True), ("3", 0, "f1", 1.0, True)], "gold")
COUNTRY = {"b1": "Brazil", "b2": "Brazil", "f1": "France", "f2": "France"}
NEWS_LISTS = {"1": ["b1", "b2"], "2": ["b1", "f1"], "3": ["b1", "x"]}
# The lists of the questions themselves, and those that were found when a country was asked for.
NEWS_RUN = ranked_run(NEWS_LISTS | {f"{qid}#0": ["x", "f2"] for qid in NEWS_LISTS})
ASKED_RUN = ranked_run({f"{qid}#0": docnos for qid, docnos in NEWS_LISTS.items()} | {"1": ["f2"], "2": ["x"]})


def test_how_often_each_country_comes_up():
    table = group_counts(NEWS_RUN, NEWS, COUNTRY, 2, resamples=5_000).set_index("group")
    assert table.index.tolist() == ["Brazil", "France"]
    assert table["count"].tolist() == [4, 1]
    assert table["share"].tolist() == [0.8, 0.2]
    assert table["corpus_share"].tolist() == [0.5, 0.5]
    assert table["ratio"].tolist() == pytest.approx([1.6, 0.4])
    # Brazil has 2 of 2, 1 of 2, and 1 of 1; the second list is drawn three times in 1 of 27 samples.
    assert table.loc["Brazil", ["low", "high"]].tolist() == pytest.approx([0.5, 1.0])


def test_a_country_that_never_comes_up_is_listed():
    table = group_counts(NEWS_RUN, NEWS, COUNTRY | {"z": "Zambia"}, 1, resamples=10).set_index("group")
    assert table.loc["Zambia", ["count", "share", "ratio"]].tolist() == [0, 0, 0]


def test_how_well_each_country_is_served():
    table = group_success(ASKED_RUN, NEWS_GOLD, NEWS, COUNTRY, 2, resamples=100).set_index("group")
    assert table["queries"].tolist() == [2, 1]
    # Brazil: query 1 gets two Brazilian articles, its own among them; query 2 one, and not its own.
    assert table.loc["Brazil", ["desired", "other", "success"]].tolist() == [0.75, 0.25, 0.5]
    assert table.loc["France", ["desired", "other", "success"]].tolist() == [0.0, 1.0, 0.0]
    assert table.loc["Brazil", ["desired_low", "desired_high"]].tolist() == [0.5, 1.0]
    assert table.loc["Brazil", ["success_low", "success_high"]].tolist() == [0.0, 1.0]


def test_what_is_shown_when_another_country_is_wanted():
    table = group_heatmap(ASKED_RUN, NEWS, COUNTRY, 2)
    assert table.index.tolist() == ["Brazil", "France"]
    assert table.columns.tolist() == ["Brazil", "France", UNKNOWN]
    assert table.to_numpy().tolist() == [[0.75, 0.25, 0.0], [0.5, 0.0, 0.5]]
    desired = group_success(ASKED_RUN, NEWS_GOLD, NEWS, COUNTRY, 2, resamples=10).set_index("group")["desired"]
    assert [table.loc[g, g] for g in table.index] == desired.sort_index().tolist()


@pytest.mark.real_data
def test_supported_claims_come_first_in_the_demo_release(real_data):
    task = load("pir-demo:exfever")
    run = search(RankBM25(task.passages, analyser="whitespace"), task, 1)
    table = perspective_shares(run, task.gold, task.questions, 1, resamples=500).set_index("label")
    assert table.loc["SUPPORT", "low"] > table.loc["SUPPORT", "gold_share"]
    assert table["share"].sum() == pytest.approx(1.0)


def test_one_question_does_not_say_how_others_turn_out():
    """A percentile interval of one question, drawn again and again, would have no width."""
    one = [NEWS[0]]
    assert group_counts(NEWS_RUN, one, COUNTRY, 2)[["low", "high"]].isna().all(axis=None)
    shares_of_one = perspective_shares(NEWS_RUN, NEWS_GOLD, one, 2)
    assert shares_of_one["share"].notna().all() and shares_of_one[["low", "high"]].isna().all(axis=None)
    assert root_versus_full(NEWS_RUN, NEWS_GOLD, one, [2])[["low", "high"]].isna().all(axis=None)
