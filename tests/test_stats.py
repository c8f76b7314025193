"""Intervals and tests against exact enumeration, scipy, hand-worked numbers and simulation."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from berdslib.errors import InputError
from berdslib.stats import bootstrap_interval, choose_threshold, holm, macro_mean, paired_test, ratio_interval

REPETITIONS = 300


# ---------------------------------------------------------------- means


def test_macro_mean_by_hand():
    values, groups = np.array([1.0, 0.0, 0.5, 0.25, 0.75, 1.0]), ["b", "b", "a", "b", "a", "c"]
    # b: 1.25 / 3, a: 0.625, c: 1
    assert macro_mean(values, groups) == pytest.approx((1.25 / 3 + 0.625 + 1.0) / 3)
    assert macro_mean(values) == pytest.approx(3.5 / 6)
    assert macro_mean(values[:3], ["x"] * 3) == pytest.approx(0.5)


def test_a_small_group_counts_as_much_as_a_large_one():
    groups = ["large"] * 90 + ["small"] * 10
    in_large, in_small = np.r_[np.ones(90), np.zeros(10)], np.r_[np.zeros(90), np.ones(10)]
    assert macro_mean(in_large, groups) == macro_mean(in_small, groups) == 0.5
    assert macro_mean(in_large) == 0.9
    # 9 better questions of 90 are worth 1 better of 10: the macro means are equal, and there is no difference at all.
    nine, one = np.r_[np.ones(9), np.zeros(91)], np.r_[np.zeros(99), 1.0]
    assert macro_mean(nine, groups) == pytest.approx(macro_mean(one, groups))
    assert paired_test(nine, one, groups) == 1.0
    assert paired_test(nine, one) == 2 * (1 + 10) / 2**10  # without groups it is 9 against 1


@pytest.mark.parametrize("function", [macro_mean, bootstrap_interval, lambda v: paired_test(v, v)])
def test_no_scores_is_an_error(function):
    with pytest.raises(InputError, match="no scores"):
        function(np.array([]))


# ---------------------------------------------------------------- bootstrap


@pytest.mark.parametrize("groups", [None, ["a"] * 28 + ["b"] * 12], ids=["one group", "two groups"])
def test_a_95_percent_interval_holds_the_truth_in_about_95_percent_of_the_cases(groups):
    rng, hits = np.random.default_rng(0), 0
    for repetition in range(REPETITIONS):
        sample = rng.beta(2, 3, 40)  # mean 0.4
        low, high = bootstrap_interval(sample, groups, resamples=500, seed=repetition)
        hits += low <= 0.4 <= high
    assert 0.90 <= hits / REPETITIONS <= 0.98


def test_interval_is_that_of_scipy():
    values = np.random.default_rng(3).beta(2, 5, 40)
    for level in (0.8, 0.95):
        ours = bootstrap_interval(values, level=level, seed=1)
        theirs = stats.bootstrap(
            (values,), np.mean, confidence_level=level, method="percentile", n_resamples=10_000, rng=2
        )
        np.testing.assert_allclose(ours, theirs.confidence_interval, atol=0.003)  # the standard error is 0.025


def test_interval_of_a_macro_mean_draws_within_groups():
    # Each group is constant, so that no draw within the groups can change a mean.
    assert bootstrap_interval(np.r_[np.ones(5), np.zeros(3)], ["a"] * 5 + ["b"] * 3) == (0.5, 0.5)
    low, high = bootstrap_interval(np.r_[np.ones(5), np.zeros(3)])
    assert low < 0.3 and high > 0.8
    # The variance of a macro mean is that of the group means, summed and divided by the square of their number.
    rng = np.random.default_rng(4)
    a, b = rng.random(200), rng.random(20)
    low, high = bootstrap_interval(np.r_[a, b], ["a"] * 200 + ["b"] * 20, level=0.9, resamples=4000)
    half = stats.norm.ppf(0.95) * np.sqrt(a.var() / 200 + b.var() / 20) / 2
    assert (high - low) / 2 == pytest.approx(half, rel=0.06)


def test_interval_depends_on_the_seed_alone():
    values = np.random.default_rng(5).random(30)
    assert bootstrap_interval(values, resamples=1500) == bootstrap_interval(values, resamples=1500)
    assert bootstrap_interval(values, seed=1) != bootstrap_interval(values, seed=2)
    low, high = bootstrap_interval(values, resamples=1500)
    assert low < values.mean() < high
    assert bootstrap_interval(np.array([0.3]), resamples=10) == (pytest.approx(0.3), pytest.approx(0.3))


# ---------------------------------------------------------------- paired test


def exact_p(values, baseline, groups=None):
    """All sign patterns, in fractions: how many differ from 0 by at least as much as what was seen."""
    groups = groups or ["all"] * len(values)
    weights = [Fraction(1, groups.count(g) * len(set(groups))) for g in groups]
    d = [w * (Fraction(x) - Fraction(y)) for w, x, y in zip(weights, values, baseline, strict=True)]
    seen = abs(sum(d))
    sums = [
        abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in itertools.product((1, -1), repeat=len(d))
    ]
    return sum(s >= seen for s in sums) / len(sums)


def test_paired_test_by_hand():
    # Eight differences of +1: of 256 patterns only all plus and all minus are as extreme.
    assert paired_test(np.ones(8), np.zeros(8)) == 2 / 256
    # Seven of +1 and one of -1: a sum of 6 or more has 1 + 8 patterns on each side.
    assert paired_test(np.r_[np.ones(7), 0.0], np.r_[np.zeros(7), 1.0]) == 18 / 256
    # As many better as worse.
    assert paired_test(np.array([1.0, 0, 1, 0]), np.array([0.0, 1, 0, 1])) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("groups", [None, list("aaaaabbc"), list("abababab")])
def test_paired_test_is_the_exact_enumeration_for_eight_questions(groups):
    rng = np.random.default_rng(6)
    for _ in range(40):
        values, baseline = rng.integers(0, 9, (2, 8)) / 8  # eighths are exact in floating point; ties are many
        assert paired_test(values, baseline, groups) == pytest.approx(exact_p(values, baseline, groups), abs=1e-12)


@pytest.mark.slow
def test_rounding_does_not_make_a_difference_of_zero_significant():
    # In floating point these weighted differences add up to 1e-17 in some sign patterns and to 0 in others.
    rng, balanced = np.random.default_rng(7), 0
    while balanced < 5:
        values, baseline = rng.integers(0, 6, (2, 9))
        groups = list(rng.choice(list("abc"), 9))
        if values.tolist() != baseline.tolist() and exact_p(values, baseline, groups) == 1.0:
            balanced += 1
            assert paired_test(values / 5, baseline / 5, groups) == 1.0


def test_questions_without_a_difference_do_not_change_the_p_value():
    rng = np.random.default_rng(12)
    a, b = rng.integers(0, 2, (2, 12)).astype(float)
    same = rng.random(500)
    assert paired_test(np.r_[a, same], np.r_[b, same]) == paired_test(a, b) == pytest.approx(exact_p(a, b))


def test_paired_test_is_symmetric_and_one_for_identical_scores():
    rng = np.random.default_rng(8)
    for n in (5, 8, 40):
        a, b = rng.random((2, n))
        # 9,999 random patterns are not the mirror image of each other, 256 exact ones are.
        assert paired_test(a, b) == pytest.approx(paired_test(b, a), abs=0.03 if n == 40 else 1e-12)
        assert paired_test(a, a) == 1.0
        assert paired_test(a, b, seed=3) == paired_test(a, b, seed=3)


def test_paired_test_with_random_patterns_is_near_the_exact_one():
    rng = np.random.default_rng(9)
    for _ in range(5):
        a, b = rng.random((2, 12))
        exact = paired_test(a, b, resamples=4096)
        assert paired_test(a, b, resamples=4000) == pytest.approx(exact, abs=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [None, ["a"] * 24 + ["b"] * 6], ids=["one group", "two groups"])
def test_paired_test_rejects_a_true_null_as_often_as_it_says(groups):
    rng = np.random.default_rng(10)
    p = [
        paired_test(*rng.beta(2, 3, (2, 30)), groups, resamples=199, seed=repetition)
        for repetition in range(REPETITIONS)
    ]
    assert 0.01 <= np.mean(np.array(p) < 0.05) <= 0.09
    assert 0.4 <= np.mean(np.array(p) < 0.5) <= 0.6
    assert min(p) >= 1 / 200  # a p-value from random patterns is never 0


def test_paired_test_finds_a_real_difference():
    rng = np.random.default_rng(11)
    a = rng.random(50)
    assert paired_test(a + 0.1 + rng.normal(0, 0.05, 50), a) < 0.001


def test_paired_scores_of_two_lengths_are_an_error():
    with pytest.raises(InputError, match="one length; got 3 and 2"):
        paired_test(np.ones(3), np.ones(2))


def test_inputs_are_left_as_they_are():
    values, baseline, groups = np.arange(6.0), np.ones(6), ["a", "b"] * 3
    for array in (values, baseline):
        array.flags.writeable = False
    paired_test(values, baseline, groups)
    bootstrap_interval(values, groups, resamples=10)
    assert groups == ["a", "b"] * 3


# ---------------------------------------------------------------- Holm


def test_holm_by_hand():
    # Sorted .005 .01 .03 .04 → x4 .02, x3 .03, x2 .06, x1 .04 which may not be less than .06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([0.02, 0.02, 0.02]) == pytest.approx([0.06] * 3)
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_keeps_the_order_and_lies_between_the_raw_values_and_bonferroni(p_values):
    corrected = holm(p_values)
    n = len(p_values)
    assert all(p <= c <= min(1.0, n * p) for p, c in zip(p_values, corrected, strict=True))
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(corrected)[order]) >= 0).all()
    # Step down: reject while the smallest left is below level / (number left).
    for level in (0.01, 0.05, 0.3):
        rejected = set()
        for place, i in enumerate(order):
            if (n - place) * p_values[i] > level:
                break
            rejected.add(int(i))
        assert {i for i, c in enumerate(corrected) if c <= level} == rejected


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_score_that_is_no_number_is_refused(wrong):
    scores = np.array([0.5, wrong, 1.0])
    with pytest.raises(InputError, match=r"score 1 is .*; every score must be a finite number"):
        paired_test(np.array([0.1, 0.2, 0.3]), scores)
    with pytest.raises(InputError, match="score 1 is"):
        paired_test(scores, np.array([0.1, 0.2, 0.3]))
    with pytest.raises(InputError, match="score 1 is"):
        bootstrap_interval(scores)
    with pytest.raises(InputError, match="score 1 is"):
        macro_mean(scores, ["a", "a", "b"])
    with pytest.raises(InputError, match="p-value"):
        holm([0.01, wrong])


def test_a_group_for_each_score():
    with pytest.raises(InputError, match="2 scores, but 3 groups"):
        macro_mean(np.array([0.5, 1.0]), ["a", "a", "b"])
    with pytest.raises(InputError, match="2 scores, but 1 groups"):
        paired_test(np.array([0.5, 1.0]), np.array([0.0, 1.0]), ["a"])


def test_a_threshold_needs_both_answers():
    assert choose_threshold([True, False], [0.9, 0.2]) == 0.55
    for labels in ([True, True], [0, 0], []):
        with pytest.raises(InputError, match="both a yes and a no"):
            choose_threshold(labels, [0.5] * len(labels))


@pytest.mark.parametrize(
    ("p_yes", "share", "message"),
    [
        ([0.5], None, "of one length; got 2 and 1"),
        ([0.5, np.nan], None, "from 0 to 1"),
        ([0.5, 1.5], None, "from 0 to 1"),
        ([0.5, 0.6], 0, "positive_share"),
        ([0.5, 0.6], 1.0, "positive_share"),
    ],
)
def test_what_no_threshold_can_be_chosen_from(p_yes, share, message):
    with pytest.raises(InputError, match=message):
        choose_threshold([True, False], p_yes, share)


# ---------------------------------------------------------------- questions about the same thing


def test_questions_about_one_thing_are_drawn_together():
    one_each = np.random.default_rng(1).random(40)
    repeated, about = np.repeat(one_each, 5), np.repeat([f"issue {i}" for i in range(40)], 5).tolist()
    low, high = bootstrap_interval(one_each)
    assert bootstrap_interval(repeated, clusters=about) == pytest.approx((low, high), abs=0.01)
    naive = bootstrap_interval(repeated)
    assert naive[1] - naive[0] < 0.6 * (high - low), "five copies of a question are no five questions"


def test_clusters_of_one_change_nothing_but_the_draws():
    values, other = np.random.default_rng(2).random((2, 12))
    alone = [str(i) for i in range(12)]
    assert paired_test(values, other, clusters=alone) == paired_test(values, other)  # exact: 2^12 patterns
    assert bootstrap_interval(values, clusters=alone) == pytest.approx(bootstrap_interval(values), abs=0.02)


def test_the_sign_of_all_differences_on_an_issue_is_one_coin():
    values, other = np.repeat([1.0, 1.0, 1.0], 4), np.zeros(12)
    about = np.repeat(["a", "b", "c"], 4).tolist()
    assert paired_test(values, other, clusters=about) == pytest.approx(2 / 2**3)
    assert paired_test(values, other) == pytest.approx(2 / 2**12)


def test_clusters_within_data_sets_keep_the_macro_mean():
    values = np.array([1.0, 1.0, 0.0, 0.5, 0.5])
    groups, about = ["x", "x", "x", "y", "y"], ["i", "i", "j", "k", "l"]
    low, high = bootstrap_interval(values, groups, clusters=about)
    assert low == pytest.approx(0.25) and high == pytest.approx(0.75)  # j twice, or i twice; y is .5 throughout


def test_from_a_single_cluster_no_interval_is_known():
    """Drawn again and again, it is always the same, and an interval without width would look certain."""
    values = np.array([0.1, 0.9, 0.4, 0.6])
    assert np.isnan(bootstrap_interval(values, clusters=["i"] * 4)).all()
    assert not np.isnan(bootstrap_interval(values, clusters=["i", "i", "j", "j"])).any()
    # One data set of which nothing is known is enough for the mean of two.
    assert np.isnan(bootstrap_interval(values, ["x", "x", "y", "y"], clusters=["i", "j", "k", "k"])).all()


@pytest.mark.parametrize("n", [1, 4])
def test_a_cluster_for_each_score(n):
    values = np.array([0.1, 0.9, 0.4])
    for function in (bootstrap_interval, lambda v, **options: paired_test(v, v / 2, **options)):
        with pytest.raises(InputError, match=f"there are 3 .*, but {n} clusters"):
            function(values, clusters=[f"{i}" for i in range(n)])


@pytest.mark.parametrize("options", [{"level": 1.5}, {"level": 0}, {"level": np.nan}, {"resamples": 0}])
def test_an_interval_needs_a_level_and_samples(options):
    (wrong,) = options
    for clusters in (None, ["i", "j", "j"]):
        with pytest.raises(InputError, match=rf"\[{wrong}\]: must be"):
            bootstrap_interval(np.array([0.1, 0.9, 0.4]), clusters=clusters, **options)
    with pytest.raises(InputError, match=rf"\[{wrong}\]: must be"):
        ratio_interval(np.ones((3, 1)), np.ones(3), **options)
