"""Intervals, tests, power and thresholds; questions are what is drawn (or clusters of them), never pairs of one.

A mean gets its interval from :func:`mean_interval`, a paired difference from :func:`difference_interval`, whatever the
scores; a p-value comes from :func:`paired_test`. ``scripts/simulate_statistics.py`` prints how often the intervals hold
the truth, and how often the test finds a difference where there is none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from reprlib import repr as shortened
from typing import Any, NamedTuple

import numpy as np

from berdslib.errors import InputError


def macro_mean(values: np.ndarray, groups: Sequence[str] | None = None) -> float:
    """Return the mean of the group means (BeRDS "macro-average"), or the plain mean without groups.

    Raises:
        InputError: no values, one that is not finite, or another number of groups.

    >>> macro_mean(np.array([1.0, 1.0, 0.0]), ["a", "a", "b"])
    0.5
    """
    return float(np.mean([part.mean() for part in _by_group(values, groups)]))


# ---------------------------------------------------------------- intervals of means and of paired differences


def wilson_interval(successes: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a share.

    Unlike the percentile bootstrap, which says that nothing can go wrong where nothing did, it has a width everywhere.

    Args:
        successes: how many, from 0 to n; neither has to be whole, see the effective number in :func:`mean_interval`.
        n: of how many, above 0.
        level: coverage, between 0 and 1.

    Raises:
        InputError: no trials, more successes than trials or fewer than none, or a level that is not between 0 and 1.

    Source: Wilson (1927).

    >>> low, high = wilson_interval(134, 134)
    >>> print(f"{low:.3f} to {high:.3f}")
    0.972 to 1.000
    """
    if not (n > 0 and 0 <= successes <= n):
        raise InputError(f"there must be some trials and from 0 to n successes; got {successes} of {n}")
    return _wilson(successes / n, n, _quantile(level, np.inf))


def mean_interval(
    values: np.ndarray,
    groups: Sequence[str] | None = None,
    *,
    clusters: Sequence[str] | None = None,
    level: float = 0.95,
) -> tuple[float, float]:
    """Return the interval of a (macro) mean of scores.

    - 0 or 1: Wilson's score interval.
    - From 0 to 1: the same for the number of 0/1 scores that would leave the mean as uncertain as these do, with
      Student's quantile, since the spread is estimated. Close to 0 and 1 the t-interval and the percentile bootstrap
      miss the truth too often, and of 24 questions the latter does everywhere.
    - Beyond: Student's t.

    Questions of one cluster tell less than as many others: n is divided by the design effect (Kish), the variance of
    the mean with clusters over that without, at least 1. Where all scores of a data set are equal, their spread is not
    known: it is taken to be the largest there is, and the questions of a cluster to be wholly alike. The limits of
    several data sets are squared and added.

    Args:
        values: (n,) one score per question.
        groups: (n,) the data set of each question; None for one group.
        clusters: (n,) what each is about, where questions about the same thing (an issue) belong together; None where
            each is about something else.
        level: coverage, between 0 and 1.

    Returns:
        low, high; NaN where the questions of a group are all of one cluster, or a score that is not from 0 to 1 is its
        only one: that does not say how others turn out.

    Raises:
        InputError: no values, one that is not finite, another number of groups or clusters, or a level that is not
            between 0 and 1.

    Source: Wilson (1927); Rao and Scott (1992) and Franco et al. (2019) for clusters; Zou and Donner (2008) for several
    data sets.

    >>> low, high = mean_interval(np.array([1, 1, 0, 1]))
    >>> print(f"{low:.2f} to {high:.2f}")
    0.30 to 0.95
    """
    samples = _samples(values, groups, clusters)
    every = np.concatenate([part.values for part in samples])
    inside, binary = bool(((every >= 0) & (every <= 1)).all()), bool(np.isin(every, (0, 1)).all())
    if any(part.clusters == 1 and (part.related or not inside) for part in samples):
        return np.nan, np.nan
    if not inside:
        return _student(samples, level)
    effective = [_effective(part, binary) for part in samples]
    quantile = _quantile(level, _freedom(samples, effective, binary))
    means = [float(part.values.mean()) for part in samples]
    limits = [_wilson(mean, n, quantile) for mean, n in zip(means, effective, strict=True)]
    return _mean_of_limits(means, limits)


def difference_interval(
    differences: np.ndarray,
    groups: Sequence[str] | None = None,
    *,
    clusters: Sequence[str] | None = None,
    level: float = 0.95,
) -> tuple[float, float]:
    """Return the interval of the (macro) mean of paired differences, question by question.

    Two questions are added, one that goes up and one that goes down, by the root mean square of the differences that
    are not 0; by 1 where there is none. Several data sets share the two. Then it is Student's t-interval, or the normal
    one where all differences are -1, 0 or 1, for which this is the interval of Bonett and Price. Without those two,
    where systems seldom differ, the t-interval and the bootstrap hold the truth in 60 to 90 % of the cases.

    Args:
        differences: (n,) a system's scores less the baseline's.
        groups: (n,) the data set of each question; None for one group.
        clusters: (n,) what each is about; n counts as in :func:`mean_interval`.
        level: coverage, between 0 and 1.

    Returns:
        low, high; NaN where the questions of a group are all of one cluster.

    Raises:
        InputError: as :func:`mean_interval`.

    Source: Bonett and Price (2012), recommended by Fagerland et al. (2014); for several data sets Price and Bonett
    (2004).
    """
    samples = _samples(differences, groups, clusters)
    if any(part.clusters == 1 and part.related for part in samples):
        return np.nan, np.nan
    every = np.concatenate([part.values for part in samples])
    step = float(np.sqrt((every[every != 0] ** 2).mean())) if every.any() else 1.0
    binary = bool(np.isin(every, (-1, 0, 1)).all())
    effective = [len(part.values) / part.design_effect for part in samples]
    quantile = _quantile(level, _freedom(samples, effective, binary))
    size, added = np.array(effective), 2 / len(samples)
    means = size * [part.values.mean() for part in samples] / (size + added)
    squares = (size * [(part.values**2).mean() for part in samples] + added * step**2) / (size + added)
    mean, half = means.mean(), quantile * np.sqrt(((squares - means**2) / (size + added)).sum()) / len(samples)
    low, high = float(mean - half), float(mean + half)
    return (max(low, -1.0), min(high, 1.0)) if binary else (low, high)


class _Sample(NamedTuple):
    """The scores of one data set, and what they are worth.

    Args:
        values: (n,) scores.
        clusters: how many there are; n where each question is one.
        related: whether clusters were named.
        variance: of the mean, estimated without bias.
        design_effect: what clusters make of it, at least 1.
    """

    values: np.ndarray
    clusters: int
    related: bool
    variance: float
    design_effect: float


def _samples(values: np.ndarray, groups: Sequence[str] | None, clusters: Sequence[str] | None) -> list[_Sample]:
    parts = _by_group(values, groups)
    if clusters is None:
        return [_Sample(part, len(part), False, float(_variance_of_mean(part)), 1.0) for part in parts]
    if len(clusters) != len(values):
        raise InputError(f"there are {len(values)} scores, but {len(clusters)} clusters")
    owners = _by_group(np.arange(len(values)), groups)
    return [_clustered(part, [clusters[int(i)] for i in own]) for part, own in zip(parts, owners, strict=True)]


def _clustered(values: np.ndarray, clusters: Sequence[str]) -> _Sample:
    rows = np.column_stack([values - values.mean(), np.ones(len(values))])
    off, sizes = sum_by_cluster(rows, clusters).T
    c, n, alone = len(sizes), len(values), _variance_of_mean(values)
    if alone == 0:  # nothing shows how alike the questions of a cluster are: as if wholly
        return _Sample(values, c, True, 0.0, float((sizes**2).sum() / n))
    together = float((off**2).sum() / n**2)
    effect = max(1.0, together / (values.var() / n))
    return _Sample(values, c, True, max(alone, together * c / max(c - 1, 1)), effect)


def _variance_of_mean(values: np.ndarray) -> float:
    """Return the squared standard error of a mean of unrelated values; 0 where all are equal, or there is only one."""
    return float(values.var(ddof=1) / len(values)) if np.ptp(values) > 0 else 0.0


def _effective(sample: _Sample, binary: bool) -> float:
    """Return how many unrelated 0/1 scores would leave the mean as uncertain as these scores from 0 to 1 do."""
    mean = float(sample.values.mean())
    if binary or sample.variance == 0:
        return len(sample.values) / sample.design_effect
    return mean * (1 - mean) / sample.variance


def _freedom(samples: Sequence[_Sample], effective: Sequence[float], binary: bool) -> float:
    """Return Satterthwaite's degrees of freedom; unrelated 0/1 scores have no spread that would be estimated."""
    variances = 1 / np.array(effective)
    own = [np.inf if binary and part.clusters == len(part.values) else max(part.clusters - 1, 1) for part in samples]
    uncertain = (variances**2 / np.array(own)).sum()
    return float(variances.sum() ** 2 / uncertain) if uncertain else np.inf


def _student(samples: Sequence[_Sample], level: float) -> tuple[float, float]:
    variances = np.array([part.variance for part in samples])
    mean = float(np.mean([part.values.mean() for part in samples]))
    own = np.array([part.clusters - 1 for part in samples])
    total = variances.sum()
    freedom = total**2 / (variances**2 / own).sum() if total else np.inf
    half = _quantile(level, freedom) * float(np.sqrt(total)) / len(samples)
    return mean - half, mean + half


def _quantile(level: float, freedom: float) -> float:
    """Return how many standard errors an interval reaches to either side; the normal one for infinite freedom."""
    from scipy.stats import t

    _check_share("level", level)
    return float(t.ppf((1 + level) / 2, freedom))


def _wilson(share: float, n: float, quantile: float) -> tuple[float, float]:
    extra = quantile**2 / n
    centre = (share + extra / 2) / (1 + extra)
    half = quantile / (1 + extra) * np.sqrt(share * (1 - share) / n + extra / (4 * n))
    # The ends are known exactly where all or none succeed; rounding would miss them by 1e-17.
    return (0.0 if share <= 0 else float(centre - half)), (1.0 if share >= 1 else float(centre + half))


def _mean_of_limits(means: Sequence[float], limits: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the limits of the mean of independent means: each one's distances, squared and added (MOVER)."""
    mean, ends = np.mean(means), np.array(limits)
    below, above = (np.sqrt(((ends[:, i] - means) ** 2).sum()) / len(means) for i in (0, 1))
    return float(mean - below), float(mean + above)


# ---------------------------------------------------------------- tests of paired differences


def paired_test(
    values: np.ndarray,
    baseline: np.ndarray,
    groups: Sequence[str] | None = None,
    *,
    clusters: Sequence[str] | None = None,
    resamples: int = 9_999,
    seed: int = 0,
) -> float:
    """Return the two-sided p-value of a paired randomisation test on the difference of (macro) means.

    Under the null hypothesis the two systems are exchangeable for every question, so the sign of each question's
    difference is a coin toss (Smucker et al., 2007). Exact where 2^m is no more than `resamples`, m being the number
    of questions on which the two differ; and for any m where they all weigh the same, as 0/1 scores of one data set do:
    then this is McNemar's exact test.

    Args:
        values: (n,) scores of a system.
        baseline: (n,) scores of the baseline on the same questions in the same order.
        groups: (n,) the data set of each question; None for one group.
        clusters: (n,) what each is about, where the coin is tossed once for all questions about the same thing; None
            where each is about something else.
        resamples: how many random sign patterns.
        seed: of the random draws.

    Raises:
        InputError: different lengths, no values, or one that is not finite.
    """
    from scipy.stats import binomtest, permutation_test

    if len(values) != len(baseline):
        raise InputError(f"paired scores must be of one length; got {len(values)} and {len(baseline)}")
    ours, base = _finite_scores(values, groups), _finite_scores(baseline, groups)
    difference = _macro_weights(len(ours), groups) * (ours - base)
    if clusters is not None:
        difference = sum_by_cluster(difference[:, None], clusters)[:, 0].round(15)
    difference = difference[difference != 0]  # the sign of 0 changes nothing
    if len(difference) < 2:  # one coin falls two ways, one as extreme as the other
        return 1.0
    sizes = np.abs(difference)
    if np.ptp(sizes) < 1e-9 * sizes.max():  # only how many go up and how many down is left to count
        return float(binomtest(int((difference > 0).sum()), len(difference)).pvalue)
    result = permutation_test(
        (difference,),
        lambda d, axis: d.sum(axis=axis).round(12),  # sums that are equal must compare equal, 1e-18 is not above 0
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=1000,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for multiple comparisons (Holm, 1979), in the order given.

    Raises:
        InputError: something that is not from 0 to 1.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    wrong = next((p for p in p_values if not 0 <= p <= 1), None)
    if wrong is not None:
        raise InputError(f"a p-value is from 0 to 1, not {wrong}")
    order = np.argsort(p_values, kind="stable")
    corrected, worst = [0.0] * len(p_values), 0.0
    for place, i in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - place) * p_values[i]))
        corrected[i] = worst
    return corrected


# ---------------------------------------------------------------- how large, and how many questions it takes


class Effect(NamedTuple):
    """A standardised paired difference with its interval; NaN where no two questions differ in their difference."""

    size: float
    low: float
    high: float


def spread_of(
    differences: np.ndarray, groups: Sequence[str] | None = None, *, clusters: Sequence[str] | None = None
) -> float:
    """Return the standard deviation of paired differences, or what stands for it with data sets and clusters.

    That is the standard error of the (macro) mean times the root of n: with as many questions again, of the same data
    sets and as much alike, the standard error will be this over the root of their number.

    Args:
        differences: (n,) a system's scores less the baseline's.
        groups: (n,) the data set of each question; None for one group.
        clusters: (n,) what each is about; None where each is about something else.

    Raises:
        InputError: no values, one that is not finite, or another number of groups or clusters.
    """
    samples = _samples(differences, groups, clusters)
    return float(np.sqrt(sum(part.variance for part in samples) * len(differences)) / len(samples))


def effect_size(
    differences: np.ndarray,
    groups: Sequence[str] | None = None,
    *,
    clusters: Sequence[str] | None = None,
    level: float = 0.95,
) -> Effect:
    """Return Cohen's d_z of paired differences: their (macro) mean over their spread, see :func:`spread_of`.

    The interval is the large-sample one of Hedges and Olkin, for differences that are about normal.

    Args:
        differences: (n,) a system's scores less the baseline's.
        groups: (n,) the data set of each question; None for one group.
        clusters: (n,) what each is about; None where each is about something else.
        level: coverage, between 0 and 1.

    Raises:
        InputError: as :func:`mean_interval`.

    Source: Cohen (1988), section 2.3.5; Hedges and Olkin (1985).
    """
    spread = spread_of(differences, groups, clusters=clusters)
    if not spread > 0:
        return Effect(np.nan, np.nan, np.nan)
    samples = _samples(differences, groups, clusters)
    freedom = _freedom(samples, [len(part.values) / part.design_effect for part in samples], False)
    size = macro_mean(differences, groups) / spread
    half = _quantile(level, freedom) * np.sqrt(1 / len(differences) + size**2 / (2 * freedom))
    return Effect(size, float(size - half), float(size + half))


def power(difference: float, spread: float, n: int, *, alpha: float = 0.05) -> float:
    """Return how likely n questions show a true difference: the power of the two-sided paired t-test.

    The randomisation test of :func:`paired_test` has as good as the same; of 0/1 scores, where it goes in steps, up to
    7 points less.

    Args:
        difference: the true one.
        spread: standard deviation of the paired differences, above 0; see :func:`spread_of`. Of 0/1 scores that differ
            on a share s of the questions, it is the root of s - difference^2.
        n: number of questions, from 2.
        alpha: how often a difference is found where there is none, between 0 and 1.

    Raises:
        InputError: a spread that is not above 0, fewer than two questions, or an alpha that is not between 0 and 1.

    Source: Cohen (1988), chapter 2; for the measures of retrieval, Sakai (2018).

    >>> round(power(0.5, 1, 34), 2)
    0.81
    """
    from scipy.stats import ncf

    if not spread > 0:
        raise InputError(f"must be above 0, not {spread!r}", field="spread")
    if n < 2:
        raise InputError(f"a spread is known of two questions at least, not {n}", field="n")
    _check_share("alpha", alpha)
    if difference == 0:
        return alpha
    least, away = _quantile(1 - alpha, n - 1), abs(difference) / spread * np.sqrt(n)
    return float(ncf.sf(least**2, 1, n - 1, away**2))  # |t| beyond, as t^2: nct itself is NaN where almost all are


def questions_needed(
    difference: float, spread: float, *, wanted: float = 0.8, alpha: float = 0.05, binary: bool = False
) -> int:
    """Return how many questions show a true difference with the power wanted.

    Args:
        difference: the true one, not 0.
        spread: as in :func:`power`.
        wanted: the power, between alpha and 1.
        alpha: as in :func:`power`.
        binary: whether scores are 0 or 1. McNemar's exact test goes in steps, and needs up to 2 / difference questions
            more, by full enumeration of differences from .05 to .2; they are added.

    Raises:
        InputError: a difference of 0, a power that is not between alpha and 1, or as :func:`power`.

    >>> questions_needed(0.5, 1)
    34
    """
    _check_share("wanted", wanted)
    if not difference or not np.isfinite(difference):
        raise InputError(f"a difference to be shown is a number and not 0; got {difference!r}", field="difference")
    power(difference, spread, 2, alpha=alpha)  # refuses what is wrong
    if wanted <= alpha:
        raise InputError(f"must be above alpha, {alpha}, not {wanted!r}", field="wanted")
    most = 2
    while power(difference, spread, most, alpha=alpha) < wanted:
        most *= 2
    enough = bisect_left(range(2, most), True, key=lambda n: power(difference, spread, n, alpha=alpha) >= wanted)
    return 2 + enough + (round(2 / abs(difference)) if binary else 0)


def detectable(spread: float, n: int, *, wanted: float = 0.8, alpha: float = 0.05) -> float:
    """Return the smallest true difference that n questions show with the power wanted.

    Args:
        spread: as in :func:`power`.
        n: number of questions.
        wanted: the power, between alpha and 1.
        alpha: as in :func:`power`.

    Raises:
        InputError: a power that is not between alpha and 1, or as :func:`power`.
    """
    from scipy.optimize import brentq

    _check_share("wanted", wanted)
    if wanted <= alpha:
        raise InputError(f"must be above alpha, {alpha}, not {wanted!r}", field="wanted")
    error = spread / np.sqrt(n)
    furthest = 2 * error
    while power(furthest, spread, n, alpha=alpha) < wanted:
        furthest *= 2
    return float(brentq(lambda x: power(x, spread, n, alpha=alpha) - wanted, 0, furthest, xtol=1e-9 * error))


def _check_share(field: str, value: float) -> None:
    if not 0 < value < 1:
        raise InputError(f"must be between 0 and 1, not {value!r}", field=field)


# ---------------------------------------------------------------- the bootstrap

_CELLS = 4_000_000  # sums held at a time: samples x columns


def cluster_bootstrap(
    rows: Any,
    clusters: Sequence[Any] | None,
    statistic: Callable[[np.ndarray], np.ndarray],
    *,
    strata: Sequence[Any] | None = None,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a statistic of column sums with its percentile bootstrap interval; whole clusters are drawn.

    Args:
        rows: (n, m) numbers, an array or a sparse one.
        clusters: (n,) what belongs together, such as the question of each pair; None where each row stands alone.
        statistic: sums (r, m) → (r, s); NaN where it is not defined.
        strata: (n,) the data set of each row, within which its clusters are drawn; None for one.
        level: coverage, between 0 and 1.
        resamples: how many bootstrap samples; those in which the statistic is not defined are left out.
        seed: of the draws.

    Returns:
        value (s,), low (s,), high (s,). The ends are NaN where all rows of a stratum are of one cluster, which does not
        say how others turn out, and where the value is not defined.

    Raises:
        InputError: no rows, another number of clusters or strata, a level that is not between 0 and 1, or no resamples.

    >>> value, low, high = cluster_bootstrap(np.array([[1.0, 1], [0, 1], [1, 1]]), ["a", "a", "b"], ratio_of_sums)
    >>> value.round(2).tolist(), low.tolist(), high.tolist()
    ([0.67], [0.5], [1.0])
    """
    _check_share("level", level)
    n = rows.shape[0]
    if not n:
        raise InputError("there are no scores")
    owners, member = np.arange(n) if clusters is None else np.asarray(clusters), np.zeros(n)
    if strata is not None:
        member = np.asarray(strata)
    if {len(owners), len(member)} != {n}:
        raise InputError(f"there are {n} rows, but {len(owners)} clusters, {len(member)} strata")
    parts = [sum_by_cluster(rows[member == one], owners[member == one]) for one in np.unique(member)]
    value = statistic(np.asarray(sum(part.sum(axis=0) for part in parts), dtype=np.float64)[None])[0]
    low, high = np.full((2, len(value)), np.nan)
    drawn = np.concatenate([statistic(sums) for sums in _drawn_sums(parts, resamples, np.random.default_rng(seed))])
    for i in np.flatnonzero(np.isfinite(value)) if min(part.shape[0] for part in parts) > 1 else ():
        defined = drawn[np.isfinite(drawn[:, i]), i]
        if len(defined):
            low[i], high[i] = percentiles(defined, level)
    return value, low, high


def ratio_of_sums(sums: np.ndarray) -> np.ndarray:
    """Divide all columns by the last one, (r, m) → (r, m - 1); NaN where that is 0."""
    wholes = sums[:, -1:]
    return np.asarray(np.divide(sums[:, :-1], wholes, out=np.full(sums[:, :-1].shape, np.nan), where=wholes > 0))


def sum_by_cluster(rows: Any, clusters: Sequence[Any] | np.ndarray) -> Any:
    """Return the sum of each cluster's rows, (clusters, m) float64, the clusters in ascending order.

    >>> sum_by_cluster(np.array([[1, 0], [1, 1], [0, 5]]), ["b", "a", "b"]).tolist()
    [[1.0, 1.0], [1.0, 5.0]]
    """
    from scipy.sparse import csr_array

    names, owner = np.unique(np.asarray(clusters), return_inverse=True)
    n = rows.shape[0]
    if len(owner) != n:
        raise InputError(f"there are {n} rows, but {len(owner)} clusters")
    return csr_array((np.ones(n), (owner, np.arange(n))), shape=(len(names), n)) @ rows


def _drawn_sums(parts: Sequence[Any], resamples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield the column sums of bootstrap samples, in blocks that fit into memory where there is one stratum."""
    if len(parts) > 1:
        yield np.sum([resampled_sums(part, resamples, rng) for part in parts], axis=0)
        return
    size = max(1, min(1000, _CELLS // parts[0].shape[1]))
    for start in range(0, max(resamples, 1), size):
        yield resampled_sums(parts[0], min(size, resamples - start), rng)


def resampled_sums(table: Any, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Return the column sums of bootstrap samples, (resamples, m): as many rows each as there are, with repetition."""
    if resamples < 1:
        raise InputError(f"must be at least 1, not {resamples!r}", field="resamples")
    n = table.shape[0]
    # In batches, so that 10,000 samples of 3,000 questions do not need 240 MB at once.
    sizes = [min(1000, resamples - start) for start in range(0, resamples, 1000)]
    return np.asarray(np.concatenate([rng.multinomial(n, np.full(n, 1.0 / n), size) @ table for size in sizes]))


def percentiles(samples: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the middle `level` of samples, (r, m) or (r,), column by column."""
    _check_share("level", level)
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


# ---------------------------------------------------------------- labels and thresholds


def yes_or_no(values: Any, field: str = "labels") -> np.ndarray:
    """Return truth values as bool: true and false, or 1 and 0.

    Raises:
        InputError: anything else; numpy takes NaN, 2 and the text "0" for true.

    >>> yes_or_no([1, 0.0, True]).tolist()
    [True, False, True]
    """
    found = np.asarray(values)
    for place, value in enumerate([] if found.dtype == bool else found.ravel().tolist()):
        if not (isinstance(value, Real | np.bool_) and value in (0, 1)):
            problem = f"number {place} is {shortened(value)}; true or false (1 or 0) is needed"
            raise InputError(problem, field=field)
    return found.astype(bool)


def choose_threshold(labels: np.ndarray, p_yes: np.ndarray, positive_share: float | None = None) -> float:
    """Return the threshold (two decimals, 0.01 to 1.00) with the best F1; of equals the middle one.

    To be called on development data only.

    Args:
        labels: (n,) bool.
        p_yes: (n,) probabilities.
        positive_share: weigh the pairs as if so many of them were positive; None for as many as there are.

    Raises:
        InputError: different lengths, labels that are none (:func:`yes_or_no`) or of one kind only, something that is
            not a probability, or a share that is not between 0 and 1.
    """
    labels, p_yes = yes_or_no(labels), np.asarray(p_yes, dtype=np.float64)
    if labels.shape != p_yes.shape:
        raise InputError(f"labels and probabilities must be of one length; got {len(labels)} and {len(p_yes)}")
    if labels.all() or not labels.any():
        raise InputError("both a yes and a no are needed among the labels to choose a threshold")
    if not ((p_yes >= 0) & (p_yes <= 1)).all():
        raise InputError("every probability must be a number from 0 to 1", field="p_yes")
    if positive_share is not None and not 0 < positive_share < 1:
        raise InputError(f"must be between 0 and 1, not {positive_share!r}", field="positive_share")
    share = labels.mean() if positive_share is None else positive_share
    steps = np.round(np.arange(0.01, 1.005, 0.01), 2)
    recall, false_yes = (np.array([(p_yes[of] >= t).mean() for t in steps]) for of in (labels, ~labels))
    # F1 = 2 TP / (said yes + is yes), as shares of all pairs.
    f1 = 2 * share * recall / (share * recall + (1 - share) * false_yes + share)
    best = steps[f1 == f1.max()]
    return float(best[(len(best) - 1) // 2])


def _by_group(values: np.ndarray, groups: Sequence[str] | None) -> list[np.ndarray]:
    values = _finite_scores(values, groups)
    if groups is None:
        return [values]
    names = np.asarray(groups)
    return [values[names == name] for name in sorted(set(groups))]


def _finite_scores(values: np.ndarray, groups: Sequence[str] | None) -> np.ndarray:
    """Return scores as float64: a single NaN would pass through every mean, and look significant in the end."""
    values = np.asarray(values, dtype=np.float64)
    if not len(values):
        raise InputError("there are no scores")
    if groups is not None and len(groups) != len(values):
        raise InputError(f"there are {len(values)} scores, but {len(groups)} groups")
    if not np.isfinite(values).all():
        at = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InputError(f"score {at} is {values[at]}; every score must be a finite number")
    return values


def _macro_weights(n: int, groups: Sequence[str] | None) -> np.ndarray:
    """Return what each question weighs in the macro mean, (n,) summing to 1."""
    if groups is None:
        return np.full(n, 1.0 / n)
    names, counts = np.unique(np.asarray(groups), return_counts=True)
    share = dict(zip(names, 1.0 / (counts * len(names)), strict=True))
    return np.array([share[g] for g in groups])
