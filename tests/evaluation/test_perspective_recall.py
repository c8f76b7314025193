"""p-Recall, by hand, against a plain loop, and against the figures of the demo release."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berdslib.data.pir import PirQuery, full_queries, load_pir, root_id, root_queries
from berdslib.data.records import ranked_run
from berdslib.errors import InputError
from berdslib.evaluation.perspective_recall import (
    extend_gold,
    mean_p_recall,
    p_recall,
    query_scores,
    root_run_per_query,
    root_versus_full,
)
from berdslib.retrieval.bm25 import RankBM25
from berdslib.stats import bootstrap_interval, ratio_interval


def query(qid, root, label, *gold):
    return PirQuery(qid, f"{label} {root}", root, f"that is {label}", gold, label)


# Tea is found from one side at k = 2 and only a part of it; coffee from both; milk has one query.
QUERIES = (
    query("1", "tea", "for", "a", "b"),
    query("2", "tea", "against", "c"),
    query("3", "coffee", "for", "d"),
    query("4", "coffee", "against", "e"),
    query("5", "milk", "for", "f"),
)
RUN = ranked_run({"1": ["a", "x", "b"], "2": ["x", "y", "c"], "3": ["d"], "4": ["d", "e"], "5": ["f"]})


def scores(**options):
    table = p_recall(RUN, QUERIES, 2, **options)
    return dict(zip(table["root"], table["p_recall"], strict=True))


def test_p_recall_by_hand():
    table = p_recall(RUN, QUERIES, 2)
    assert table.columns.tolist() == ["root", "queries", "p_recall"]
    assert table.to_numpy().tolist() == [["tea", 2, 0.5], ["coffee", 2, 1.0], ["milk", 1, 1.0]]


def test_all_perspectives_must_be_found_where_that_is_asked():
    assert scores(aggregate="all") == {"tea": 0.0, "coffee": 1.0, "milk": 1.0}
    assert scores(aggregate="all", hit="recall")["tea"] == 0.0


def test_a_longer_list_finds_more():
    assert p_recall(RUN, QUERIES, 3)["p_recall"].tolist() == [1.0, 1.0, 1.0]
    assert p_recall(RUN, QUERIES, 1)["p_recall"].tolist() == [0.5, 0.5, 1.0]


def test_p2_recall_at_k_is_success_and_true_recall_has_its_own_name():
    assert (scores()["tea"], scores(hit="recall")["tea"]) == (0.5, 0.25)


def test_p3_a_root_with_a_single_query():
    assert scores()["milk"] == 1.0
    assert scores(single_root="zero") == {"tea": 0.5, "coffee": 1.0, "milk": 0.0}
    assert scores(single_root="skip") == {"tea": 0.5, "coffee": 1.0}
    means = [np.mean(list(scores(single_root=s).values())) for s in ("keep", "zero", "skip")]
    assert means == pytest.approx([2.5 / 3, 1.5 / 3, 1.5 / 2])


def test_an_unanswered_query_counts_0():
    run = RUN[RUN["qid"] != "4"]
    assert p_recall(run, QUERIES, 2)["p_recall"].tolist() == [0.5, 0.5, 1.0]
    nothing = RUN.iloc[:0]
    assert p_recall(nothing, QUERIES, 2)["p_recall"].tolist() == [0.0, 0.0, 0.0]


def test_lists_of_other_queries_are_ignored_but_not_a_run_of_them_alone():
    assert p_recall(RUN, QUERIES[2:], 2)["p_recall"].tolist() == [1.0, 1.0]
    with pytest.raises(InputError, match="do not belong together: '1' against '5'"):
        query_scores(RUN[RUN["qid"] == "1"], QUERIES[4:], 2)


def test_ids_are_compared_as_strings():
    run = RUN.assign(qid=RUN["qid"].astype(int))
    pd.testing.assert_frame_equal(p_recall(run, QUERIES, 2), p_recall(RUN, QUERIES, 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, r"\[k\]: k must be at least 1"),
        ({"hit": "precision"}, "unknown hit 'precision'"),
        ({"aggregate": "any"}, "unknown aggregate 'any'"),
        ({"single_root": "drop"}, "unknown single_root 'drop'"),
        ({"queries": ()}, "there are no queries"),
        ({"queries": (*QUERIES, QUERIES[0])}, "a query id occurs twice"),
        ({"queries": (query("1", "tea", "for"),)}, "query '1' has no gold"),
        ({"queries": (query("1", "tea", "for", "a", "a"),)}, "query '1' lists a gold text twice"),
        ({"run": RUN.drop(columns=["rank", "score"])}, "missing: score or rank"),
        ({"run": pd.concat([RUN, RUN])}, "passage 'a' is listed twice for question '1'"),
    ],
)
def test_what_cannot_be_scored_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        p_recall(**({"run": RUN, "queries": QUERIES, "k": 2} | options))


DOCS = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from("rst"), DOCS.filter(bool), DOCS), min_size=1, max_size=12),
    st.integers(1, 6),
    st.sampled_from(["success", "recall"]),
    st.sampled_from(["mean", "all"]),
    st.sampled_from(["keep", "zero", "skip"]),
)
def test_p_recall_is_that_of_a_plain_loop(asked, k, hit, aggregate, single_root):
    queries = [PirQuery(str(i), "t", root, "p", tuple(gold)) for i, (root, gold, _) in enumerate(asked)]
    lists = {str(i): listed for i, (_, _, listed) in enumerate(asked) if listed}
    expected = {}
    for root in dict.fromkeys(root for root, _, _ in asked):
        of_root = []
        for other, gold, listed in asked:
            if other == root:
                n = len([d for d in listed[:k] if d in gold])
                of_root.append(min(n, 1) if hit == "success" else n / len(gold))
        expected[root] = sum(of_root) / len(of_root) if aggregate == "mean" else float(all(s == 1 for s in of_root))
        if len(of_root) == 1 and single_root == "zero":
            expected[root] = 0.0
        if len(of_root) == 1 and single_root == "skip":
            del expected[root]
    options = {"hit": hit, "aggregate": aggregate, "single_root": single_root}
    table = p_recall(ranked_run(lists), queries, k, **options)
    assert table["root"].tolist() == list(expected)
    assert table["p_recall"].tolist() == pytest.approx(list(expected.values()))


# ---------------------------------------------------------------- means and intervals


def test_the_mean_and_its_interval_are_over_roots():
    found = mean_p_recall(p_recall(RUN, QUERIES, 2), resamples=200)
    assert found["mean"] == pytest.approx(2.5 / 3)
    assert found["roots"] == 3
    assert 0.5 <= found["low"] < found["mean"] < found["high"] <= 1.0
    with pytest.raises(InputError, match="there are no scores"):
        mean_p_recall(p_recall(RUN, QUERIES, 2)[:0])


def test_with_wholes_of_1_the_ratio_interval_is_that_of_a_mean():
    values = np.random.default_rng(0).random(40)
    low, high = ratio_interval(values[:, None], np.ones(40), resamples=20_000)
    assert (low[0], high[0]) == pytest.approx(bootstrap_interval(values, resamples=20_000), abs=0.005)


def test_a_ratio_that_never_varies_has_no_width():
    wholes = np.array([1, 5, 2, 9])
    low, high = ratio_interval(np.column_stack([wholes / 2, 0 * wholes]), wholes, resamples=500)
    assert low.tolist() == pytest.approx([0.5, 0.0]) and high.tolist() == pytest.approx([0.5, 0.0])


def test_a_ratio_interval_by_counting():
    # Two rows, drawn twice: (1/1, 1/1), (1/1, 0/3) twice, (0/3, 0/3), each with a chance of a quarter.
    low, high = ratio_interval(np.array([[1], [0]]), np.array([1, 3]), level=0.2, resamples=20_000)
    assert (low[0], high[0]) == pytest.approx((1 / 4, 1 / 4))
    low, high = ratio_interval(np.array([[1], [0]]), np.array([1, 3]), level=0.9, resamples=20_000)
    assert (low[0], high[0]) == pytest.approx((0, 1))


def test_nothing_found_has_no_share():
    low, high = ratio_interval(np.zeros((3, 2)), np.zeros(3), resamples=10)
    assert np.isnan(low).all() and np.isnan(high).all() and low.shape == (2,)
    with pytest.raises(InputError, match="no scores"):
        ratio_interval(np.zeros((0, 1)), np.zeros(0))


# ---------------------------------------------------------------- roots against full queries

ROOT_RUN = ranked_run({root_id("tea"): ["c", "a"], root_id("coffee"): ["x", "d"], root_id("milk"): ["x", "y"]})


def test_each_query_gets_the_list_of_its_root():
    spread = root_run_per_query(ROOT_RUN, QUERIES)
    lists = {qid: part["docno"].tolist() for qid, part in spread.groupby("qid")}
    assert lists == {"1": ["c", "a"], "2": ["c", "a"], "3": ["x", "d"], "4": ["x", "d"], "5": ["x", "y"]}
    assert spread.columns.tolist() == ROOT_RUN.columns.tolist()
    with pytest.raises(InputError, match="search root_queries"):
        root_run_per_query(RUN, QUERIES)


def test_root_against_full_by_hand():
    table = root_versus_full(ROOT_RUN, RUN, QUERIES, [1, 2], resamples=200).set_index("k")
    # k = 1: tea's list shows c, which only the second query wants; full queries 1, 3 and 5 are answered.
    assert table.loc[1, ["root_any", "root", "full", "difference"]].tolist() == pytest.approx([1 / 3, 0.2, 0.6, 0.4])
    # k = 2: tea answers both its queries, coffee one; in full all but query 2.
    assert table.loc[2, ["root_any", "root", "full", "difference"]].tolist() == pytest.approx([2 / 3, 0.6, 0.8, 0.2])
    assert (table["low"] <= table["difference"]).all() and (table["difference"] <= table["high"]).all()


def test_the_same_lists_make_no_difference():
    spread = root_run_per_query(ROOT_RUN, QUERIES)
    row = root_versus_full(ROOT_RUN, spread, QUERIES, [2], resamples=50).iloc[0]
    assert row[["difference", "low", "high"]].tolist() == [0, 0, 0]


# ---------------------------------------------------------------- the authors' code


def test_extending_gold_leaves_the_queries_as_they_are():
    before = [q.gold for q in QUERIES]
    assert [q.gold for q in extend_gold(QUERIES)] == [("a", "b", "c"), ("c",), ("d", "e"), ("e",), ("f",)]
    assert [q.gold for q in QUERIES] == before


def percent(run, queries, **options):
    return round(100 * p_recall(run, queries, 5, **options)["p_recall"].mean(), 1)


def bm25(task, analyser="whitespace"):
    return RankBM25(task.passages, analyser=analyser).search(full_queries(task), 5)


@pytest.mark.real_data
def test_p1_gold_is_never_extended_but_by_name(real_data):
    task = load_pir("pir-demo", "perspectrum")
    run = bm25(task)
    assert (percent(run, task.queries), percent(run, extend_gold(task.queries))) == (37.8, 46.8)
    assert percent(run, task.queries) == 37.8  # measuring once more changes nothing


@pytest.mark.real_data
def test_p3_on_the_demo_release(real_data):
    task = load_pir("pir-demo", "exfever")
    run = bm25(task)
    assert [percent(run, task.queries, single_root=s) for s in ("keep", "zero")] == [82.4, 79.4]


@pytest.mark.real_data
def test_p9_blanks_case_and_ties_decide_bm25(real_data):
    tasks = {name: load_pir("pir-demo", name) for name in ("perspectrum", "ambigqa", "allsides", "exfever")}
    theirs = {name: percent(bm25(task), task.queries) for name, task in tasks.items()}
    assert theirs == {"perspectrum": 37.8, "ambigqa": 22.7, "allsides": 10.6, "exfever": 82.4}
    words = {name: percent(bm25(tasks[name], "words"), tasks[name].queries) for name in ("perspectrum", "ambigqa")}
    assert words == {"perspectrum": 40.2, "ambigqa": 47.2}  # lower case, no punctuation
    # Two blanks in a row leave an empty word between them: split at any run of blanks, exfever would have 81.4.
    # The same scores, the last of the equal ones first: many texts of AmbigQA's corpus occur twice.
    turned = {p.docno: f"{999 - int(p.docno)}" for p in tasks["ambigqa"].passages}
    backwards = tasks["ambigqa"]._replace(
        passages=tuple(p._replace(docno=turned[p.docno]) for p in tasks["ambigqa"].passages),
        queries=tuple(q._replace(gold=tuple(turned[g] for g in q.gold)) for q in tasks["ambigqa"].queries),
    )
    assert percent(bm25(backwards), backwards.queries) == 22.1


@pytest.mark.real_data
def test_root_queries_find_some_gold_text_more_often_than_full_queries_find_their_own(real_data):
    task = load_pir("pir-demo", "perspectrum")
    root_run = RankBM25(task.passages, analyser="whitespace").search(root_queries(task), 10)
    full_run = RankBM25(task.passages, analyser="whitespace").search(full_queries(task), 10)
    table = root_versus_full(root_run, full_run, task.queries, [5, 10], resamples=200)
    assert (table["root_any"] > table["full"]).all()  # as in figures 2 and 4
    assert table["full"].tolist() == [0.37, 0.50]


def test_a_run_counted_from_0_is_not_cut_off_by_its_own_ranks():
    from_0 = RUN.assign(rank=RUN["rank"] - 1)
    for run in (from_0, RUN.drop(columns="rank"), RUN.drop(columns="score"), RUN.sample(frac=1, random_state=0)):
        for k in (1, 2, 3):
            pd.testing.assert_frame_equal(p_recall(run, QUERIES, k), p_recall(RUN, QUERIES, k))


def test_k_of_the_top_is_a_whole_number():
    with pytest.raises(InputError, match=r"\[k\]: k must be a whole number"):
        p_recall(RUN, QUERIES, 1.5)
