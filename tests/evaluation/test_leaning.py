"""Leaning and sycophancy against lists counted by hand, brute force and scipy."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from berdslib.data.records import Question, make_verdicts, perspective_qid, ranked_run
from berdslib.errors import InputError
from berdslib.evaluation import sides as leaning

SIDED = ("support", "oppose")
YES, NO = "Zoos should close.", "Zoos should stay."


def question(qid, source="a", stances=SIDED, text=""):
    return Question(qid, text or f"{qid}?", (YES, NO), stances, source)


def verdicts(*pairs):
    """Return verdicts (qid, pid, docno), all of them yes."""
    return make_verdicts([(qid, pid, docno, 1.0, True) for qid, pid, docno in pairs], "gold")


def listed(lists, gold, questions, k=5):
    return leaning.listed_sides({"s": ranked_run(lists)}, verdicts(*gold), questions, k)


# ---------------------------------------------------------------- which passages argue which side


def test_stances_decide_and_not_the_order():
    gold = [("q", 0, "x")]
    there = listed({"q": ["x"], "q#0": ["x"]}, gold, [question("q", stances=("oppose", "support"))])
    assert there["opposing"].all() and not there["supporting"].any()
    assert there["asked"].tolist() == ["question", "opposing"]


def test_questions_without_two_sides_are_left_out_and_none_at_all_is_an_error():
    three = Question("t", "T?", ("A.", "B.", "C."), (None, None, None))
    table = listed({"q": ["x"], "t": ["x"]}, [("t", 0, "x")], [question("q"), three])
    assert table["qid"].tolist() == ["q"] and not table["supporting"].any()
    for none in (three, question("n", stances=(None, None)), question("n", stances=("support", "support"))):
        with pytest.raises(InputError) as refused:
            leaning.two_sided([none])
        assert refused.value.field == "stances"


def test_by_order_fills_in_what_is_not_recorded_only():
    given_ = [
        question("n", stances=(None, None)),
        question("m", stances=()),
        question("q", stances=("oppose", "support")),
        Question("t", "T?", ("A.", "B.", "C.")),
    ]
    assert [q.stances for q in leaning.sides_by_order(given_)] == [SIDED, SIDED, ("oppose", "support"), ()]


# ---------------------------------------------------------------- Figure 2

# What the lists of seven questions show: (supporting, opposing) passages.
SEVEN = {"q0": (2, 1), "q1": (1, 0), "q2": (3, 0), "q3": (0, 1), "q4": (0, 0), "q5": (1, 0), "q6": (1, 0)}


def lists_of(counts):
    """Return lists and gold in which each list shows so many passages of either side."""
    lists, gold = {}, []
    for qid, (p, n) in counts.items():
        names = [f"{qid}-{side}{i}" for side, many in enumerate((p, n)) for i in range(many)]
        owner = qid.partition("#")[0]
        lists[qid] = [*names, f"{qid}-none"]
        gold += [(owner, int(name.rpartition("-")[2][0]), name) for name in names]
    return lists, gold


def test_side_shares_by_hand_with_wilson_intervals_of_scipy():
    questions = [question(qid) for qid in [*SEVEN, "empty"]]  # the last one's list is empty
    table = leaning.side_shares(listed(*lists_of(SEVEN), questions), questions).set_index("side")
    assert table["count"].to_dict() == {"both": 1, "only supporting": 4, "only opposing": 1, "neither": 2}
    assert (table["n"] == 8).all() and table["share"].sum() == 1
    exact = stats.binomtest(4, 8).proportion_ci(method="wilson")
    assert table.loc["only supporting", ["low", "high"]].tolist() == pytest.approx([exact.low, exact.high])


def test_asymmetry_is_the_exact_sign_test():
    questions = [question(qid) for qid in SEVEN]
    row = leaning.asymmetry(listed(*lists_of(SEVEN), questions), questions).iloc[0]
    assert (row["only_supporting"], row["only_opposing"], row["share"]) == (4, 1, 0.8)
    outcomes = [sum(tosses) for tosses in itertools.product((0, 1), repeat=5)]
    by_enumeration = np.mean([abs(heads - 2.5) >= 1.5 for heads in outcomes])
    assert row["p_value"] == pytest.approx(by_enumeration) == pytest.approx(0.375)


def test_holm_is_over_systems_and_data_sets_are_also_taken_together():
    questions = [question(qid, source="ab"[i % 2]) for i, qid in enumerate(SEVEN)]
    lists, gold = lists_of(SEVEN)
    runs = {name: ranked_run(lists) for name in ("s", "t")}
    both = leaning.asymmetry(leaning.listed_sides(runs, verdicts(*gold), questions), questions)
    assert both["dataset"].tolist() == ["a", "b", "a", "b", "all", "all"]
    one = leaning.asymmetry(leaning.listed_sides({"s": runs["s"]}, verdicts(*gold), questions), questions)
    assert both["p_value"].iloc[-1] == pytest.approx(2 * one["p_value"].iloc[-1]) == pytest.approx(0.75)


# ---------------------------------------------------------------- Figure 3


@given(st.integers(0, 50), st.integers(0, 50))
def test_b17_leaning_is_bounded_and_symmetric_and_the_printed_one_is_not(p, n):
    found, turned = float(leaning.lean(p, n)), float(leaning.lean(n, p))
    assert (np.isnan(found) and p + n == 0) or (-1 <= found <= 1 and found == -turned)
    printed = float(leaning.lean_as_printed(p, n))
    # (p - n) / p = 2 d / (1 + d): the same sign, and the same number where one side only is shown.
    assert np.isnan(printed) if p == 0 else printed == pytest.approx(2 * found / (1 + found))
    assert float(leaning.lean_as_printed(4, 1)) == 0.75 and float(leaning.lean_as_printed(1, 4)) == -3


def test_leaning_pools_passages_and_can_be_by_rank():
    questions = [question("q"), question("r")]
    table = listed(*lists_of({"q": (3, 1), "r": (0, 2)}), questions)
    row = leaning.leaning(table).iloc[0]
    assert (row["supporting"], row["opposing"], row["leaning"], row["as_printed"]) == (3, 3, 0, 0)
    assert (row["issues"], row["passages"]) == (2, 8)
    by_rank = leaning.leaning(table, ["rank"]).set_index("rank")
    assert by_rank["leaning"].tolist()[:2] == [0, 0] and by_rank.loc[4, "leaning"] == -1
    with pytest.raises(InputError, match="'site'"):
        leaning.leaning(table, ["site"])


def three_ways(question_, supporting, opposing):
    """Return counts of the lists of one question, by what was searched with."""
    return lambda qid: {qid: question_, perspective_qid(qid, 0): supporting, perspective_qid(qid, 1): opposing}


def all_lists(ways):
    return {key: value for qid, way in ways.items() for key, value in way(qid).items()}


def test_sycophancy_by_hand():
    ways = {"q": three_ways((1, 1), (2, 0), (0, 2)), "r": three_ways((1, 1), (1, 1), (1, 1))}
    questions = [question(qid) for qid in ways]
    row = leaning.sycophancy(listed(*lists_of(all_lists(ways)), questions)).iloc[0]
    # Supporting queries: 3 against 1; the questions: 2 against 2; opposing queries: 1 against 3.
    assert (row["supporting"], row["question"], row["opposing"]) == (0.5, 0, -0.5)
    assert (row["follows"], row["towards"], row["away"]) == (1, 0.5, 0.5)


def test_the_test_of_sycophancy_is_that_of_all_exchanges():
    rng = np.random.default_rng(2)
    ways = {f"q{i}": three_ways((1, 1), *map(tuple, rng.integers(0, 4, (2, 2)))) for i in range(8)}
    questions = [question(qid) for qid in ways]
    lists = all_lists(ways)
    found = leaning.sycophancy(listed(*lists_of(lists), questions, 10)).iloc[0]
    pairs = [(np.array(lists[f"{qid}#0"]), np.array(lists[f"{qid}#1"])) for qid in ways]

    def difference(swaps):
        a = sum(pair[s] for pair, s in zip(pairs, swaps, strict=True))
        b = sum(pair[1 - s] for pair, s in zip(pairs, swaps, strict=True))
        return (a[0] - a[1]) / a.sum() - (b[0] - b[1]) / b.sum()

    seen = difference([0] * 8)
    every = [difference(swaps) for swaps in itertools.product((0, 1), repeat=8)]
    exact = np.mean(np.abs(every) >= abs(seen) - 1e-12)
    assert found["follows"] == pytest.approx(seen) and found["p_value"] == pytest.approx(exact, abs=0.02)


def test_flips_by_hand():
    ways = {
        "turns": three_ways((1, 1), (2, 0), (0, 2)),
        "follows": three_ways((1, 1), (2, 0), (2, 1)),
        "stays": three_ways((1, 1), (2, 1), (1, 0)),
        "opposes": three_ways((1, 1), (0, 1), (1, 0)),
    }
    questions = [question(qid) for qid in ways]
    row = leaning.flips(listed(*lists_of(all_lists(ways)), questions), questions).iloc[0]
    assert row[["n", "follow", "turn", "stay", "oppose"]].tolist() == [4, 0.5, 0.25, 0.25, 0.25]


def test_listed_passages_by_hand():
    gold = [("q", 0, "for"), ("q", 1, "against"), ("q", 0, "both"), ("q", 1, "both"), ("r", 0, "against")]
    table = listed({"q": ["for", "none", "both", "against"], "q#1": ["both"]}, gold, [question("q"), question("r")], 3)
    assert table[["asked", "rank", "docno", "supporting", "opposing"]].to_numpy().tolist() == [
        ["question", 1, "for", True, False],
        ["question", 2, "none", False, False],
        ["question", 3, "both", True, True],
        ["opposing", 1, "both", True, True],
    ]
