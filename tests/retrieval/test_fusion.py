"""Fusion of runs: by hand, against a plain computation, and what must hold for any runs."""

from fractions import Fraction

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berdslib.data.records import ranked_run
from berdslib.errors import InputError
from berdslib.retrieval.expansion import reciprocal_rank_fusion, round_robin


def lists_of(run):
    return {qid: part["docno"].tolist() for qid, part in run.groupby("qid", sort=False)}


A = ranked_run({"q1": ["a", "b", "c"], "q2": ["x"]})
B = ranked_run({"q1": ["c", "d", "a", "b", "e"], "q3": ["y", "z"]})


def test_reciprocal_rank_fusion_by_hand():
    run = reciprocal_rank_fusion([A, B])
    # q1: a 1/61 + 1/63, c 1/63 + 1/61, b 1/62 + 1/64, d 1/62, e 1/65: a and c tie and go by docno.
    assert lists_of(run) == {"q1": ["a", "c", "b", "d", "e"], "q2": ["x"], "q3": ["y", "z"]}
    score = run.set_index(["qid", "docno"])["score"]
    assert score["q1", "a"] == pytest.approx(1 / 61 + 1 / 63) and score["q1", "b"] == pytest.approx(1 / 62 + 1 / 64)
    assert score["q2", "x"] == pytest.approx(1 / 61)


def test_the_constant_weighs_one_first_place_against_two_middle_ones():
    runs = [ranked_run({"q": ["top", "m", "n"]}), ranked_run({"q": ["o", "m", "p"]})]
    assert lists_of(reciprocal_rank_fusion(runs))["q"][0] == "m"
    assert lists_of(reciprocal_rank_fusion(runs, constant=0))["q"] == ["m", "o", "top", "n", "p"]  # 1, 1, 1, 1/3, 1/3
    runs = [ranked_run({"q": ["top", "n", "m"]}), ranked_run({"q": ["o", "p", "m"]})]
    assert lists_of(reciprocal_rank_fusion(runs, constant=0))["q"] == ["o", "top", "m", "n", "p"]  # 1, 1, 2/3, 1/2, 1/2
    for constant in (-1, float("inf")):
        with pytest.raises(InputError, match=str(constant)) as refused:
            reciprocal_rank_fusion(runs, constant=constant)
        assert refused.value.field == "constant"


def test_b13_round_robin_by_hand():
    # divergences.md B13: the official code lists duplicates and fails on lists of unlike length.
    run = round_robin([A, B])
    assert lists_of(run) == {"q1": ["a", "c", "b", "d", "e"], "q2": ["x"], "q3": ["y", "z"]}
    assert lists_of(round_robin([B, A]))["q1"] == ["c", "a", "d", "b", "e"]
    assert run["rank"].tolist() == [1, 2, 3, 4, 5, 1, 1, 2]


def test_b13_a_passage_that_is_listed_already_costs_its_turn():
    runs = [ranked_run({"q": ["a", "b", "c"]}), ranked_run({"q": ["a", "x", "y"]}), ranked_run({"q": ["a", "b", "z"]})]
    assert lists_of(round_robin(runs))["q"] == ["a", "b", "x", "c", "y", "z"]


@pytest.mark.parametrize(
    ("constant", "one", "two"), [(7, (3, 8), (5, 5)), (60, (24, 30), (3, 80)), (60, (1, 2, 7), (7, 1, 2))]
)
def test_exact_ties_go_by_docno(constant, one, two):
    assert sum(Fraction(1, constant + r) for r in one) == sum(Fraction(1, constant + r) for r in two)
    for first, second in (("a", "z"), ("z", "a")):
        runs = []
        for i in range(len(one)):
            order = [f"filler {i} {r}" for r in range(90)]
            order[one[i] - 1], order[two[i] - 1] = first, second
            runs.append(ranked_run({"q": order}))
        found = [d for d in lists_of(reciprocal_rank_fusion(runs, constant=constant))["q"] if len(d) == 1]
        assert found == ["a", "z"]


@pytest.mark.parametrize("fuse", [reciprocal_rank_fusion, round_robin])
def test_what_cannot_be_fused_is_an_error(fuse):
    with pytest.raises(InputError, match="runs"):
        fuse([])
    with pytest.raises(InputError, match="qid"):
        fuse([A, pd.DataFrame({"query": ["q1"]})])
    with pytest.raises(InputError, match="'a'"):
        fuse([pd.DataFrame({"qid": ["q", "q"], "docno": ["a", "a"], "score": [2.0, 1.0]})])
    assert fuse([ranked_run({})]).empty


orders = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)
many_runs = st.lists(st.dictionaries(st.sampled_from(["q1", "q2", "q3"]), orders, max_size=3), min_size=1, max_size=4)


def rrf_plain(lists, constant=60):
    """Exact fractions, no frames."""
    docnos = {d for one in lists for d in one}
    score = {d: sum(Fraction(1, constant + one.index(d) + 1) for one in lists if d in one) for d in docnos}
    return sorted(docnos, key=lambda d: (-score[d], d))


def round_robin_plain(lists):
    """Section 6 of the paper, word by word: k turns into one list, then its first k unique passages."""
    k = max(map(len, lists), default=0) * len(lists)
    turns = [one[turn] for turn in range(k) for one in lists if turn < len(one)]
    return [docno for i, docno in enumerate(turns) if docno not in turns[:i]][:k]


@pytest.mark.slow
@pytest.mark.parametrize(("fuse", "plain"), [(reciprocal_rank_fusion, rrf_plain), (round_robin, round_robin_plain)])
def test_any_runs_against_a_plain_computation(fuse, plain):
    @settings(deadline=None)
    @given(many_runs)
    def check(rankings):
        runs = [ranked_run(one) for one in rankings]
        before = [run.copy() for run in runs]
        fused = lists_of(fuse(runs))
        for qid in ("q1", "q2", "q3"):
            lists = [one.get(qid, []) for one in rankings]
            assert sorted(fused.get(qid, [])) == sorted({d for one in lists for d in one})  # all, each once
            assert fused.get(qid, []) == plain(lists)
        for run, copy in zip(runs, before, strict=True):
            pd.testing.assert_frame_equal(run, copy)

    check()
