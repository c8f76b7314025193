"""Intervals, tests and power against exact enumeration, scipy, hand-worked numbers and simulation."""

import itertools
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import simulate_statistics as simulation
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from berdslib.errors import InputError
from berdslib.evaluation.judges import agreement, agreement_report, auc, calibration_error, probability_report
from berdslib.stats import (
    choose_threshold,
    cluster_bootstrap,
    detectable,
    difference_interval,
    effect_size,
    holm,
    macro_mean,
    mean_interval,
    paired_test,
    power,
    questions_needed,
    ratio_of_sums,
    spread_of,
    wilson_interval,
)


def test_macro_mean_by_hand():
    values, groups = np.array([1.0, 0.0, 0.5, 0.25, 0.75, 1.0]), ["b", "b", "a", "b", "a", "c"]
    # b: 1.25 / 3, a: 0.625, c: 1
    assert macro_mean(values, groups) == pytest.approx((1.25 / 3 + 0.625 + 1.0) / 3)
    assert macro_mean(values) == pytest.approx(3.5 / 6)
    assert macro_mean(values[:3], ["x"] * 3) == pytest.approx(0.5)


# ---------------------------------------------------------------- bootstrap


def bootstrap_interval(values, groups=None, *, clusters=None, **drawing):
    """Return the interval of the (macro) mean: of each data set the sum of its scores by their number."""
    groups = np.asarray(["all"] * len(values) if groups is None else groups)
    member = groups[:, None] == np.unique(groups)

    def macro(sums):
        totals, counts = np.split(sums, 2, axis=1)
        return (totals / counts).mean(axis=1, keepdims=True)

    rows = np.hstack([values[:, None] * member, member])
    _, low, high = cluster_bootstrap(rows, clusters, macro, strata=groups, **drawing)
    return float(low[0]), float(high[0])


def test_the_bootstrap_is_a_plain_loop_over_drawn_clusters():
    """Row by row, for sums of which one statistic is not defined in some samples."""
    rng = np.random.default_rng(7)
    rows, clusters = rng.integers(0, 2, (40, 2)).astype(float), np.array([f"c{i % 6}" for i in range(40)])
    rows[clusters != "c2", 1] = 0
    value, low, high = cluster_bootstrap(rows, clusters, ratio_of_sums, resamples=300, seed=3)
    assert value[0] == pytest.approx(rows[:, 0].sum() / rows[:, 1].sum())
    counts = np.random.default_rng(3).multinomial(6, np.full(6, 1 / 6), 300)
    drawn = []
    for count in counts:
        sums = sum(n * rows[clusters == f"c{i}"].sum(axis=0) for i, n in enumerate(count))
        drawn += [sums[0] / sums[1]] if sums[1] else []
    assert 0 < len(drawn) < 300
    assert (low[0], high[0]) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])))
    nothing = np.array(cluster_bootstrap(np.zeros((3, 3)), None, ratio_of_sums, resamples=10))
    assert np.isnan(nothing).all() and nothing.shape == (3, 2)
    sparse = scipy.sparse.csr_array(rows)
    np.testing.assert_allclose(cluster_bootstrap(sparse, clusters, ratio_of_sums, resamples=300, seed=3)[1], low)


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


# ---------------------------------------------------------------- intervals of means


@given(st.integers(1, 400), st.data(), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_is_that_of_scipy(n, data, level):
    successes = data.draw(st.integers(0, n))
    theirs = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    assert wilson_interval(successes, n, level) == pytest.approx(tuple(theirs), abs=1e-12)
    scores = np.r_[np.ones(successes), np.zeros(n - successes)]
    assert mean_interval(scores, level=level) == pytest.approx(wilson_interval(successes, n, level), abs=1e-12)


def test_where_all_succeed_the_interval_still_has_a_width():
    low, high = mean_interval(np.ones(134))
    assert (round(100 * low, 1), high) == (97.2, 1.0)
    assert bootstrap_interval(np.ones(134)) == (1.0, 1.0)
    assert mean_interval(np.zeros(134)) == pytest.approx((0, 1 - low))


def test_several_data_sets_are_squared_and_added():
    """Zou and Donner (2008), for the mean of 18 of 20 and 2 of 8."""
    scores, groups = np.r_[np.ones(18), np.zeros(2), np.ones(2), np.zeros(6)], ["a"] * 20 + ["b"] * 8
    (la, ha), (lb, hb) = wilson_interval(18, 20), wilson_interval(2, 8)
    mean = (0.9 + 0.25) / 2
    want = (mean - np.hypot(0.9 - la, 0.25 - lb) / 2, mean + np.hypot(ha - 0.9, hb - 0.25) / 2)
    assert mean_interval(scores, groups) == pytest.approx(want)
    # Three data sets in which all succeed: of 24 questions less is known than if they were of one.
    low, high = mean_interval(np.ones(24), list("abc") * 8)
    assert wilson_interval(8, 8)[0] < low < wilson_interval(24, 24)[0] and high == 1


def test_scores_between_0_and_1_count_as_so_many_0_1_scores_as_leave_the_mean_as_uncertain():
    scores = np.array([0.2, 0.4, 0.4, 0.6, 0.8, 0.6])
    mean, error = scores.mean(), stats.sem(scores)
    q, n = stats.t.ppf(0.975, 5), mean * (1 - mean) / error**2
    # The ends are where the distance from the mean is q standard errors of n 0/1 scores of that share.
    for end in mean_interval(scores):
        assert abs(end - mean) == pytest.approx(q * np.sqrt(end * (1 - end) / n))


unit = st.lists(st.integers(0, 5).map(lambda i: i / 5), min_size=4, max_size=40)


@given(unit, st.integers(1, 3), st.integers(1, 4), st.floats(0.5, 0.99))
def test_an_interval_holds_its_mean_and_stays_between_0_and_1(scores, n_groups, size, level):
    values = np.array(scores)
    groups = [str(i % n_groups) for i in range(len(values))]
    about = [f"{i // (size * n_groups)}" for i in range(len(values))]
    for clusters in (None, about):
        low, high = mean_interval(values, groups, clusters=clusters, level=level)
        one_cluster = any(len({a for a, g in zip(about, groups, strict=True) if g == one}) == 1 for one in groups)
        assert np.isnan(low) == (clusters is not None and one_cluster)
        if not np.isnan(low):
            mean = macro_mean(values, groups)
            assert -1e-12 <= low <= mean + 1e-12 and mean - 1e-12 <= high <= 1 + 1e-12 and low < high
        # Turned round, what was missed was found.
        turned = mean_interval(1 - values, groups, clusters=clusters, level=level)
        assert turned == pytest.approx((1 - high, 1 - low), nan_ok=True)


def test_scores_beyond_0_and_1_have_the_t_interval():
    values = np.random.default_rng(20).gamma(2, 1, 15)
    for level in (0.8, 0.95):
        theirs = stats.ttest_1samp(values, 0).confidence_interval(level)
        assert mean_interval(values, level=level) == pytest.approx(tuple(theirs))
    # Of two data sets with one variance and size, Student's quantile is that of both together.
    both = np.r_[values, values + 5]
    low, high = mean_interval(both, ["a"] * 15 + ["b"] * 15)
    half = stats.t.ppf(0.975, 28) * np.sqrt(2 * values.var(ddof=1) / 15) / 2
    assert (low, high) == pytest.approx((both.mean() - half, both.mean() + half))
    assert np.isnan(mean_interval(np.array([7.0]))).all()


def test_questions_that_are_wholly_alike_count_once():
    rng = np.random.default_rng(21)
    about = np.repeat([f"issue {i}" for i in range(12)], 5).tolist()
    for scores in (rng.random(12), rng.gamma(2, 1, 12)):  # graded, and beyond 1
        assert mean_interval(np.repeat(scores, 5), clusters=about) == pytest.approx(mean_interval(scores))
    for differences in (rng.normal(0, 1, 12), rng.integers(-3, 4, 12) / 5):
        once, five_times = (
            difference_interval(differences),
            difference_interval(np.repeat(differences, 5), clusters=about),
        )
        assert five_times == pytest.approx(once)
    # Of 0/1 scores the design effect is an estimate, and takes Student's quantile.
    for successes in (3, 12):
        scores = np.r_[np.ones(successes), np.zeros(12 - successes)]
        level = 1 - 2 * stats.norm.sf(stats.t.ppf(0.975, 11))
        found = mean_interval(np.repeat(scores, 5), clusters=about)
        assert found == pytest.approx(wilson_interval(successes, 12, level))


def test_questions_that_are_not_alike_lose_nothing_in_clusters():
    """One success and one failure on each issue: their means agree, and the design effect is not let fall below 1."""
    scores, about = np.tile([0.0, 1.0], 30), np.repeat([str(i) for i in range(30)], 2).tolist()
    level = 1 - 2 * stats.norm.sf(stats.t.ppf(0.975, 29))
    assert mean_interval(scores, clusters=about) == pytest.approx(wilson_interval(30, 60, level))
    alone = [str(i) for i in range(60)]
    assert mean_interval(scores, clusters=alone) == mean_interval(scores)
    graded = np.random.default_rng(22).random(60)
    assert mean_interval(graded, clusters=alone) == pytest.approx(mean_interval(graded))
    assert difference_interval(graded - scores, clusters=alone) == pytest.approx(difference_interval(graded - scores))


@pytest.mark.parametrize("function", [mean_interval, difference_interval, bootstrap_interval])
def test_a_single_cluster_has_no_interval(function):
    values = np.array([0.1, 0.9, 0.4, 0.6])
    assert np.isnan(function(values, clusters=["i"] * 4)).all()
    assert np.isnan(function(values, ["x", "x", "y", "y"], clusters=["i", "j", "k", "k"])).all()
    assert not np.isnan(function(values, clusters=["i", "i", "j", "j"])).any()


# ---------------------------------------------------------------- intervals of paired differences


def test_a_difference_of_0_1_scores_has_the_interval_of_bonett_and_price():
    """21 pairs, 1 up and 7 down: (2 - 8) / 23, and sqrt((10 / 23 - (6 / 23)^2) / 23) to either side."""
    d = np.r_[1.0, -np.ones(7), np.zeros(13)]
    half = 1.959964 * np.sqrt((10 / 23 - (6 / 23) ** 2) / 23)
    assert difference_interval(d) == pytest.approx((-6 / 23 - half, -6 / 23 + half), abs=1e-6)
    assert np.round(difference_interval(d), 3).tolist() == [-0.508, -0.013]


def test_two_systems_that_never_differ_may_differ_on_other_questions():
    low, high = difference_interval(np.zeros(134))
    assert low == -high and 0.02 < high < 0.021
    assert bootstrap_interval(np.zeros(134)) == (0, 0)
    assert difference_interval(np.ones(3))[1] == 1 and difference_interval(-np.ones(3))[0] == -1


def test_other_differences_have_the_t_interval_with_two_questions_more():
    d = np.array([0.2, 0.2, -0.2, 0.4, 0, 0, 0, 0.6, 0.2, 0.2])
    step = np.sqrt((0.04 * 5 + 0.16 + 0.36) / 7)
    more = np.r_[d, step, -step]
    half = stats.t.ppf(0.975, 9) * more.std() / np.sqrt(12)
    assert difference_interval(d) == pytest.approx((more.mean() - half, more.mean() + half))
    assert difference_interval(100 * d) == pytest.approx((100 * (more.mean() - half), 100 * (more.mean() + half)))
    # Two data sets have one of them each, of which half goes up and half goes down.
    both, groups = np.r_[d, d], ["a"] * 10 + ["b"] * 10
    mean, square = d.sum() / 11, ((d**2).sum() + step**2) / 11
    half = stats.t.ppf(0.975, 18) * np.sqrt(2 * (square - mean**2) / 11) / 2
    assert difference_interval(both, groups) == pytest.approx((mean - half, mean + half))


@given(unit, st.integers(1, 3))
def test_the_interval_of_a_difference_does_not_depend_on_who_comes_first(scores, n_groups):
    d = np.array(scores) - 0.4
    groups = [str(i % n_groups) for i in range(len(d))]
    low, high = difference_interval(d, groups)
    assert low < high and difference_interval(-d, groups) == pytest.approx((-high, -low))


# ---------------------------------------------------------------- simulation


@pytest.mark.slow
@pytest.mark.parametrize(
    "world", ["0/1, 0.1", "0/1, 0.5", "0/1, 0.9", "beta(2, 3)", "Precision@5, 0.65", "Precision@5, 0.9"]
)
def test_intervals_of_means_hold_the_truth_in_95_percent(world):
    draw, truth = (simulation.BINARY | simulation.MEANS)[world]
    for n in (40, 134):
        assert 93 <= simulation.coverage(partial(draw, n=n), truth, mean_interval, 1000)[0] <= 97


@pytest.mark.slow
@pytest.mark.parametrize(
    "world", ["continuous, .05 +- .2", "Precision@5, 30% changed", "0/1, 20% up, 20% down", "0/1, 15% up, 5% down"]
)
def test_intervals_of_differences_hold_the_truth_in_95_percent(world):
    draw, truth = simulation.DIFFERENCES[world]
    of_three = partial(difference_interval, groups=simulation.GROUPS)
    for draws, interval in (
        (partial(draw, n=134), difference_interval),
        (partial(simulation.three, draw=draw), of_three),
    ):
        assert 93 <= simulation.coverage(draws, truth, interval, 1000)[0] <= 97


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


@given(st.lists(st.sampled_from([(0, 0), (0, 1), (1, 0), (1, 1)]), min_size=1, max_size=80))
def test_of_0_1_scores_the_paired_test_is_the_exact_one_of_mcnemar(pairs):
    ours, theirs = np.array(pairs, dtype=float).T
    up, differ = int((ours > theirs).sum()), int((ours != theirs).sum())
    want = stats.binomtest(up, differ).pvalue if differ else 1.0
    assert paired_test(ours, theirs) == pytest.approx(want, abs=1e-12)
    # Precision@5 that always changes by one passage is the same thing.
    assert paired_test(0.2 * ours + 0.6, 0.2 * theirs + 0.6) == pytest.approx(want, abs=1e-12)


# ---------------------------------------------------------------- effect sizes and power


def test_effect_size_is_the_mean_over_the_standard_deviation():
    d = np.array([0.1, 0.3, -0.1, 0.5, 0.2])
    found = effect_size(d)
    assert spread_of(d) == pytest.approx(d.std(ddof=1))
    assert found[0] == pytest.approx(0.2 / d.std(ddof=1)) and found[1] < found[0] < found[2]
    assert effect_size(10 * d) == pytest.approx(found), "it has no unit"
    assert np.isnan(effect_size(np.zeros(5))).all()
    # Ten questions that are two times five: a data set of each, or clusters of two.
    assert spread_of(np.r_[d, d], ["a"] * 5 + ["b"] * 5) == pytest.approx(d.std(ddof=1))
    about = list("abcdeabcde")
    assert spread_of(np.r_[d, d], clusters=about) == pytest.approx(np.sqrt(2) * d.std(ddof=1))


def test_power_is_that_of_the_textbook():
    # Cohen (1988), table 2.4.1 by n' = 34 - 1 pairs and the usual programs: d = .5, 80 %: 34 pairs; .2: 199; .8: 15.
    assert [questions_needed(d, 1) for d in (0.2, 0.5, 0.8)] == [199, 34, 15]
    assert power(0, 0.3, 50) == pytest.approx(0.05)
    assert power(0.1, 0.3, 50) == power(-0.1, 0.3, 50) == pytest.approx(power(10, 30, 50))


@pytest.mark.slow
@given(st.floats(0.02, 2), st.floats(0.1, 2), st.floats(0.1, 0.99))
def test_power_needed_questions_and_detectable_difference_fit_together(difference, spread, wanted):
    n = questions_needed(difference, spread, wanted=wanted)
    assert power(difference, spread, n) >= wanted
    assert n == 2 or power(difference, spread, n - 1) < wanted
    assert detectable(spread, n, wanted=wanted) <= difference * (1 + 1e-6)
    assert power(detectable(spread, 30, wanted=wanted), spread, 30) == pytest.approx(wanted, abs=1e-6)


# ---------------------------------------------------------------- Holm


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


P_YES, OWNERS = np.array([0.9, 0.2, 0.6]), ["a", "b", "c"]
TAKES_LABELS = [
    lambda labels: agreement(labels, P_YES > 0.5),
    lambda answers: agreement([True, False, True], answers),
    lambda labels: agreement_report(labels, P_YES > 0.5, OWNERS, resamples=10).value.tolist(),
    lambda labels: auc(labels, P_YES),
    lambda labels: probability_report(labels, P_YES, OWNERS, resamples=10).value.tolist(),
    lambda labels: calibration_error(labels, P_YES),
    lambda labels: choose_threshold(labels, P_YES),
]


@pytest.mark.parametrize("function", TAKES_LABELS)
def test_labels_are_truth_values_or_refused(function):
    want = function(np.array([True, False, True]))
    for same in ([1, 0, 1], [1.0, 0.0, 1.0], pd.array([True, False, True]), np.array([True, 0, 1.0], dtype=object)):
        assert function(same) == want
    for wrong in (np.nan, "0", "1", 2, -1, 0.5, None, pd.NA, "yes"):
        with pytest.raises(InputError, match=r"\b1 is ") as refused:
            function(np.array([True, wrong, False], dtype=object))
        assert refused.value.field in ("labels", "answers")


def test_the_sign_of_all_differences_on_an_issue_is_one_coin():
    values, other = np.repeat([1.0, 1.0, 1.0], 4), np.zeros(12)
    about = np.repeat(["a", "b", "c"], 4).tolist()
    assert paired_test(values, other, clusters=about) == pytest.approx(2 / 2**3)
    assert paired_test(values, other) == pytest.approx(2 / 2**12)
