"""All pairs against the functions of one pair, letters against brute force."""

from itertools import chain, combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berdslib.data.records import Question
from berdslib.evaluation.compare import all_pairs, letter_display, letters, questions_for
from berdslib.stats import (
    difference_interval,
    effect_size,
    holm,
    macro_mean,
    paired_test,
    questions_needed,
)

N = 30
SOURCES = ["a"] * 20 + ["b"] * 10
QUESTIONS = [Question(f"q{i}", f"{i}?", ("Yes.", "No."), source=s) for i, s in enumerate(SOURCES)]


def frames(questions=QUESTIONS, **columns):
    return {name: pd.DataFrame({"M": values}, index=[q.qid for q in questions]) for name, values in columns.items()}


@pytest.fixture(scope="module")
def scores():
    rng = np.random.default_rng(0)
    ease = rng.random(N)
    return frames(**{name: np.clip(ease + rng.normal(gain, 0.1, N), 0, 1) for name, gain in
                     (("low", -0.2), ("middle", 0.0), ("same", 0.01), ("high", 0.2))})  # fmt: skip


@pytest.mark.slow
def test_every_pair_is_compared_as_it_would_be_by_itself(scores):
    found = all_pairs(scores, QUESTIONS, "M")
    assert list(zip(found["first"], found["second"], strict=True)) == list(combinations(scores, 2))
    raw = []
    for row in found.itertuples():
        ours, theirs = scores[row.first]["M"].to_numpy(), scores[row.second]["M"].to_numpy()
        d = ours - theirs
        assert row.difference == pytest.approx(macro_mean(ours, SOURCES) - macro_mean(theirs, SOURCES))
        assert (row.low, row.high) == pytest.approx(difference_interval(d, SOURCES))
        assert (row.effect, row.effect_low, row.effect_high) == pytest.approx(effect_size(d, SOURCES))
        assert (row.wins, row.ties, row.losses) == ((d > 0).sum(), (d == 0).sum(), (d < 0).sum())
        raw.append(paired_test(ours, theirs, SOURCES))
    assert found["p_value"].tolist() == pytest.approx(holm(raw))


def test_several_baselines(scores):
    found = all_pairs(scores, QUESTIONS, "M", baselines=["low", "middle"])
    pairs = [("middle", "low"), ("same", "low"), ("high", "low"), ("same", "middle"), ("high", "middle")]
    assert list(zip(found["first"], found["second"], strict=True)) == pairs
    alone = all_pairs(scores, QUESTIONS, "M", baselines="low")
    assert alone["second"].tolist() == ["low"] * 3
    everything = all_pairs(scores, QUESTIONS, "M").set_index(["first", "second"])
    high = found.set_index(["first", "second"]).loc[("high", "middle")]
    assert high["difference"] == -everything.loc[("middle", "high"), "difference"] > 0
    assert all_pairs(scores, QUESTIONS, "M", baselines=["low", "low"]).equals(alone)


def test_questions_on_one_issue_are_drawn_together():
    rng = np.random.default_rng(3)
    a, b = rng.random((2, 8))
    once = [Question(f"q{i}", f"{i}?", ("Yes.",)) for i in range(8)]
    thrice = [Question(f"q{i}-{j}", f"{i}?", ("Yes.",), issue=f"q{i}") for i in range(8) for j in range(3)]
    one = all_pairs(frames(once, a=a, b=b), once, "M")
    many = all_pairs(frames(thrice, a=np.repeat(a, 3), b=np.repeat(b, 3)), thrice, "M")
    same = ["difference", "low", "high", "p_value"]
    pd.testing.assert_frame_equal(one[same], many[same])


@st.composite
def differing(draw):
    names = [f"s{i}" for i in range(draw(st.integers(1, 7)))]
    return names, draw(st.lists(st.sampled_from(list(combinations(names, 2))), unique=True)) if len(names) > 1 else []


@given(differing())
def test_two_systems_share_a_letter_if_and_only_if_they_do_not_differ(case):
    names, different = case
    found = letter_display(names, different)
    for pair in combinations(names, 2):
        assert bool(set(found[pair[0]]) & set(found[pair[1]])) == (pair not in different)
    # By brute force: a letter is a set of systems none of which differ, and which none can be added to.
    subsets = [set(s) for s in chain.from_iterable(combinations(names, r) for r in range(1, len(names) + 1))]
    alike = [s for s in subsets if not any(s.issuperset(pair) for pair in different)]
    largest = [s for s in alike if not any(s < other for other in alike)]
    used = sorted(set("".join(found.values())))
    columns = [{name for name in names if letter in found[name]} for letter in used]
    assert sorted(map(sorted, columns)) == sorted(map(sorted, largest))
    assert found[names[0]].startswith("a")


# ---------------------------------------------------------------- how many questions


def test_questions_needed_come_from_how_differences_scatter():
    rng = np.random.default_rng(4)
    questions = [q._replace(source="") for q in QUESTIONS]
    x, y = rng.random((2, N))
    found = questions_for(frames(questions, x=x, y=y), questions, "M", [0.05, 0.1]).iloc[0]
    assert found["spread"] == pytest.approx((x - y).std(ddof=1))
    assert [found[d] for d in (0.05, 0.1)] == [questions_needed(d, found["spread"]) for d in (0.05, 0.1)]
    zero_one = frames(questions, x=x > 0.5, y=y > 0.5)
    of_steps = questions_for(zero_one, questions, "M", [0.1], baselines="y").iloc[0]
    assert of_steps[0.1] == questions_needed(0.1, of_steps["spread"], binary=True)


def test_letters_are_those_of_the_pairs_the_best_first(scores):
    found = letters(scores, QUESTIONS, "M")
    assert found.to_dict() == {"high": "a", "same": "b", "middle": "b", "low": "c"}
    assert list(found.index) == ["high", "same", "middle", "low"]
    pairs = all_pairs(scores, QUESTIONS, "M")
    for row in pairs.itertuples():
        assert bool(set(found[row.first]) & set(found[row.second])) == (row.p_value >= 0.05)
