"""Bias tables, by hand."""

import numpy as np
import pytest

from berdslib.data.pir import PirQuery, load_pir, root_id, root_queries
from berdslib.data.records import ranked_run
from berdslib.errors import InputError
from berdslib.evaluation.bias import (
    UNKNOWN,
    group_counts,
    group_heatmap,
    group_success,
    perspective_shares,
)
from berdslib.retrieval.bm25 import RankBM25


def query(qid, root, label, *gold):
    return PirQuery(qid, f"{label} {root}", root, f"that is {label}", gold, label)


STANCES = (
    query("1", "tea", "for", "a", "b"),
    query("2", "tea", "against", "c"),
    query("3", "coffee", "for", "d"),
    query("4", "coffee", "against", "e", "f"),
    query("5", "coffee", "general", "d", "e", "f"),
)
ROOT_RUN = ranked_run({root_id("tea"): ["a", "x", "b", "c"], root_id("coffee"): ["d", "f", "a"]})


def shares(k, **options):
    return perspective_shares(ROOT_RUN, STANCES, k, resamples=100, **options).set_index("label")


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


def test_nothing_found_has_no_share():
    run = ranked_run({root_id("tea"): ["x"], root_id("coffee"): ["y"]})
    table = perspective_shares(run, STANCES, 5, labels=["for"], resamples=10)
    assert table["hits"].tolist() == [0] and table[["share", "low", "high"]].isna().all(axis=None)


def test_an_unknown_perspective_is_refused():
    with pytest.raises(InputError, match="no query has the label 'left'; there are: against, for, general"):
        shares(1, labels=("for", "left"))
    with pytest.raises(InputError, match="the label 'for' is listed twice"):
        shares(1, labels=("for", "for"))
    with pytest.raises(InputError, match="do not belong together"):
        perspective_shares(ranked_run({"1": ["a"]}), STANCES, 1)


# ---------------------------------------------------------------- countries

NEWS = (
    query("1", "n1", "Brazil", "b1"),
    query("2", "n2", "Brazil", "b2"),
    query("3", "n3", "France", "f1"),
)
COUNTRY = {"b1": "Brazil", "b2": "Brazil", "f1": "France", "f2": "France"}
NEWS_RUN = ranked_run({"1": ["b1", "b2"], "2": ["b1", "f1"], "3": ["b1", "x"]})


def test_how_often_each_country_comes_up():
    table = group_counts(NEWS_RUN, COUNTRY, 2, resamples=5_000).set_index("group")
    assert table.index.tolist() == ["Brazil", "France"]
    assert table["count"].tolist() == [4, 1]
    assert table["share"].tolist() == [0.8, 0.2]
    assert table["corpus_share"].tolist() == [0.5, 0.5]
    assert table["ratio"].tolist() == pytest.approx([1.6, 0.4])
    # Brazil has 2 of 2, 1 of 2, and 1 of 1; the second list is drawn three times in 1 of 27 samples.
    assert table.loc["Brazil", ["low", "high"]].tolist() == pytest.approx([0.5, 1.0])


def test_a_country_that_never_comes_up_is_listed():
    table = group_counts(NEWS_RUN, COUNTRY | {"z": "Zambia"}, 1, resamples=10).set_index("group")
    assert table.loc["Zambia", ["count", "share", "ratio"]].tolist() == [0, 0, 0]


def test_how_well_each_country_is_served():
    table = group_success(NEWS_RUN, NEWS, COUNTRY, 2, resamples=100).set_index("group")
    assert table["queries"].tolist() == [2, 1]
    # Brazil: query 1 gets two Brazilian articles, its own among them; query 2 one, and not its own.
    assert table.loc["Brazil", ["desired", "other", "success"]].tolist() == [0.75, 0.25, 0.5]
    assert table.loc["France", ["desired", "other", "success"]].tolist() == [0.0, 1.0, 0.0]
    assert table.loc["Brazil", ["desired_low", "desired_high"]].tolist() == [0.5, 1.0]
    assert table.loc["Brazil", ["success_low", "success_high"]].tolist() == [0.0, 1.0]


def test_empty_places_are_neither_desired_nor_other():
    run = ranked_run({"1": ["b1"], "3": ["f1"]})
    table = group_success(run, NEWS, COUNTRY, 2, resamples=10).set_index("group")
    assert table.loc["Brazil", ["desired", "other"]].tolist() == [0.25, 0.0]
    assert table.loc["France", ["desired", "success"]].tolist() == [0.5, 1.0]


def test_what_is_shown_when_another_country_is_wanted():
    table = group_heatmap(NEWS_RUN, NEWS, COUNTRY, 2)
    assert table.index.tolist() == ["Brazil", "France"]
    assert table.columns.tolist() == ["Brazil", "France", UNKNOWN]
    assert table.to_numpy().tolist() == [[0.75, 0.25, 0.0], [0.5, 0.0, 0.5]]
    desired = group_success(NEWS_RUN, NEWS, COUNTRY, 2, resamples=10).set_index("group")["desired"]
    assert [table.loc[g, g] for g in table.index] == desired.sort_index().tolist()


@pytest.mark.parametrize("measure", [group_success, group_heatmap])
def test_a_country_without_articles_cannot_be_wanted(measure):
    with pytest.raises(InputError, match="query '3' asks for 'France', and no passage is of that group"):
        measure(NEWS_RUN, NEWS, {"b1": "Brazil"}, 2)


def test_groups_and_lists_are_needed():
    with pytest.raises(InputError, match="no passage has a group"):
        group_counts(NEWS_RUN, {}, 2)
    with pytest.raises(InputError, match="holds no lists"):
        group_counts(NEWS_RUN[:0], COUNTRY, 2)
    with pytest.raises(InputError, match="k must be at least 1"):
        group_counts(NEWS_RUN, COUNTRY, 0)


@pytest.mark.slow
def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    docnos = [f"{side}{i}" for side in "fa" for i in range(10)]
    queries = [
        query(f"{r}{side}", f"r{r}", side, *docnos[at : at + 10])
        for r in range(40)
        for at, side in ((0, "f"), (10, "a"))
    ]
    missed = 0
    for seed in range(100):  # a retriever without a preference
        draw = np.random.default_rng(seed)
        lists = {root_id(f"r{r}"): draw.permutation(docnos)[:5].tolist() for r in range(40)}
        table = perspective_shares(ranked_run(lists), queries, 5, resamples=400)
        assert table["share"].sum() == pytest.approx(1.0)
        missed += not table.loc[0, "low"] <= 0.5 <= table.loc[0, "high"]
    assert 1 <= missed <= 12


@pytest.mark.real_data
def test_supported_claims_come_first_in_the_demo_release(real_data):
    task = load_pir("pir-demo", "exfever")
    run = RankBM25(task.passages, analyser="whitespace").search(root_queries(task), 1)
    table = perspective_shares(run, task.queries, 1, resamples=500).set_index("label")
    assert table.loc["SUPPORT", "low"] > table.loc["SUPPORT", "gold_share"]
    assert table["share"].sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda run: perspective_shares(run, NEWS, 2),
        lambda run: group_counts(run, COUNTRY, 2),
        lambda run: group_success(run, NEWS, COUNTRY, 2),
        lambda run: group_heatmap(run, NEWS, COUNTRY, 2),
    ],
    ids=["shares", "counts", "success", "heatmap"],
)
@pytest.mark.parametrize("run", [["b1"], NEWS_RUN.drop(columns="docno"), None], ids=["list", "no docno", "None"])
def test_what_is_no_run(call, run):
    with pytest.raises(InputError, match="a run"):
        call(run)
