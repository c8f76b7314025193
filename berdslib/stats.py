"""Intervals, tests, power and thresholds; resampling draws whole questions or clusters, never single pairs.

Throughout, `groups` (n,) is the data set of each question, or None for a single data set; the means of data sets count
equally. `clusters` (n,) is the cluster of each question, such as its issue; `level` is the coverage of an interval.
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

    >>> macro_mean(np.array([1.0, 1.0, 0.0]), ["a", "a", "b"])
    0.5
    """
    return float(_parts(values, groups, None).mean.mean())


# ---------------------------------------------------------------- intervals of means and of paired differences


def wilson_interval(successes: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Return the score interval of a share (Wilson, 1927); `successes` of `n` need not be whole numbers.

    >>> low, high = wilson_interval(134, 134)
    >>> print(f"{low:.3f} to {high:.3f}")
    0.972 to 1.000
    """
    if not (n > 0 and 0 <= successes <= n):
        raise InputError(f"expected at least one trial and from 0 to n successes; got {successes} of {n}")
    quantile = _quantile(level, np.inf)
    low, high = _wilson(np.array([successes / n]), np.array([n]), quantile)
    return float(low[0]), float(high[0])


def mean_interval(
    values: np.ndarray,
    groups: Sequence[str] | None = None,
    *,
    clusters: Sequence[str] | None = None,
    level: float = 0.95,
) -> tuple[float, float]:
    """Return the interval (low, high) of a (macro) mean of scores.

    Scores of 0 or 1 have Wilson's score interval. Scores from 0 to 1 have the same interval, with Student's quantile,
    for the number of 0/1 scores that would leave the mean equally uncertain. Other scores have Student's t-interval.
    For clusters, n is divided by the design effect (Kish), at least 1. If all scores of a data set are equal, the
    interval assumes the largest possible spread and similarity within clusters. For several data sets, the squared
    distances of the limits from the means are added.

    The limits are NaN if all questions of a group belong to one cluster, or if a group has a single question and some
    score is not from 0 to 1.

    Source: Wilson (1927); Rao and Scott (1992) and Franco et al. (2019) for clusters; Zou and Donner (2008) for several
    data sets.

    >>> low, high = mean_interval(np.array([1, 1, 0, 1]))
    >>> print(f"{low:.2f} to {high:.2f}")
    0.30 to 0.95
    """
    parts = _parts(values, groups, clusters)
    values = np.asarray(values)
    are_shares = bool(((values >= 0) & (values <= 1)).all())
    binary = bool(np.isin(values, (0, 1)).all())
    if (parts.clusters == 1).any() and (clusters is not None or not are_shares):
        return np.nan, np.nan
    if not are_shares:
        return student_interval(parts.mean, parts.variance, parts.clusters - 1, level)
    by_count = binary | (parts.variance == 0)
    variance = np.where(by_count, 1, parts.variance)
    effective = np.where(by_count, parts.n / parts.effect, parts.mean * (1 - parts.mean) / variance)
    quantile = _quantile(level, _freedom(parts, effective, binary))
    low, high = _wilson(parts.mean, effective, quantile)
    mean = parts.mean.mean()
    below = _combined_distance(low, parts.mean)
    above = _combined_distance(high, parts.mean)
    return float(mean - below), float(mean + above)


def _combined_distance(ends: np.ndarray, means: np.ndarray) -> float:
    """Return the distance of a limit from the mean of several data sets (MOVER: Zou and Donner, 2008)."""
    return float(np.sqrt(((ends - means) ** 2).sum()) / len(means))


def difference_interval(
    differences: np.ndarray,
    groups: Sequence[str] | None = None,
    *,
    clusters: Sequence[str] | None = None,
    level: float = 0.95,
) -> tuple[float, float]:
    """Return the interval (low, high) of the (macro) mean of paired differences, question by question.

    Two questions are added whose differences are plus and minus the root mean square of the differences that are not 0,
    or plus and minus 1 if all are 0 (Bonett and Price, 2012, recommended by Fagerland et al., 2014; several data sets
    share the two questions: Price and Bonett, 2004). The interval is then Student's t-interval, or the normal interval
    if all differences are -1, 0 or 1. The limits are NaN if all questions of a group belong to one cluster.
    """
    parts = _parts(differences, groups, clusters)
    values = np.asarray(differences, dtype=np.float64)
    if clusters is not None and (parts.clusters == 1).any():
        return np.nan, np.nan
    step = float(np.sqrt((values[values != 0] ** 2).mean())) if values.any() else 1.0
    binary = bool(np.isin(values, (-1, 0, 1)).all())
    size = parts.n / parts.effect
    added = 2 / len(parts.n)
    total = size + added
    means = size * parts.mean / total
    squares = (size * parts.square + added * step**2) / total
    quantile = _quantile(level, _freedom(parts, size, binary))
    mean = means.mean()
    half = quantile * np.sqrt(((squares - means**2) / total).sum()) / len(means)
    low = float(mean - half)
    high = float(mean + half)
    if binary:
        return max(low, -1.0), min(high, 1.0)
    return low, high


class _Parts(NamedTuple):
    """Statistics of the scores of each data set, (data sets,) each; ``square`` is the mean of the squares.

    ``variance`` is an unbiased estimate of the mean's variance; ``effect`` is the clusters' design effect, at least 1.
    """

    mean: np.ndarray
    square: np.ndarray
    n: np.ndarray
    clusters: np.ndarray
    variance: np.ndarray
    effect: np.ndarray


def _parts(values: np.ndarray, groups: Sequence[str] | None, clusters: Sequence[str] | None) -> _Parts:
    values = _finite_scores(values, groups)
    owners = np.arange(len(values)) if clusters is None else np.asarray(clusters)
    if len(owners) != len(values):
        raise InputError(f"there are {len(values)} scores, but {len(owners)} clusters")
    names = np.zeros(len(values)) if groups is None else np.asarray(groups)
    parts = [_part(values[names == name], owners[names == name]) for name in np.unique(names)]
    return _Parts(*np.array(parts).T)


def _part(values: np.ndarray, clusters: np.ndarray) -> tuple[float, ...]:
    deviations = np.column_stack([values - values.mean(), np.ones(len(values))])
    off, sizes = sum_by_cluster(deviations, clusters).T
    c = len(sizes)
    n = len(values)
    if np.ptp(values) == 0:  # equal scores do not show how similar a cluster's questions are; assume identical
        variance = 0.0
        effect = (sizes**2).sum() / n
    else:
        unclustered = values.var(ddof=1) / n
        clustered = (off**2).sum() / n**2
        variance = max(unclustered, clustered * c / max(c - 1, 1))
        effect = max(1.0, clustered / (values.var() / n))
    return values.mean(), (values**2).mean(), n, c, variance, effect


def _freedom(parts: _Parts, effective: np.ndarray, binary: bool) -> float:
    """Return the degrees of freedom; the variance of unclustered 0/1 scores follows from their mean."""
    estimated = np.maximum(parts.clusters - 1, 1)
    freedoms = np.where(binary & (parts.clusters == parts.n), np.inf, estimated)
    return _satterthwaite(1 / effective, freedoms)


def _satterthwaite(variances: np.ndarray, freedoms: np.ndarray) -> float:
    """Return the degrees of freedom of a sum of independent estimates; infinite if all variances are known."""
    uncertain = (variances**2 / freedoms).sum()
    return float(variances.sum() ** 2 / uncertain) if uncertain else np.inf


def student_interval(
    means: np.ndarray,
    variances: np.ndarray,
    freedoms: np.ndarray,
    level: float,
) -> tuple[float, float]:
    """Return Student's interval of the mean of independent means, each with its variance and degrees of freedom."""
    mean = float(np.mean(means))
    spread = float(np.sqrt(variances.sum()))
    quantile = _quantile(level, _satterthwaite(variances, freedoms))
    half = quantile * spread / len(means)
    return mean - half, mean + half


def _quantile(level: float, freedom: float) -> float:
    """Return how many standard errors an interval reaches to either side; normal if `freedom` is infinite."""
    from scipy.stats import t

    _check_share("level", level)
    return float(t.ppf((1 + level) / 2, freedom))


def _wilson(share: np.ndarray, n: np.ndarray, quantile: float) -> tuple[np.ndarray, np.ndarray]:
    extra = quantile**2 / n
    centre = (share + extra / 2) / (1 + extra)
    half = quantile / (1 + extra) * np.sqrt(share * (1 - share) / n + extra / (4 * n))
    # For a share of 0 or 1, one limit is exactly 0 or 1; rounding would miss it by 1e-17.
    low = np.where(share <= 0, 0.0, centre - half)
    high = np.where(share >= 1, 1.0, centre + half)
    return low, high


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

    The sign of each question's difference is drawn at random, with one sign for all of a cluster (Smucker et al.,
    2007). The test is exact if there are at most `resamples` sign patterns, or if all differences weigh the same
    (McNemar's exact test).
    """
    from scipy.stats import binomtest, permutation_test

    if len(values) != len(baseline):
        raise InputError(f"paired scores must be of one length; got {len(values)} and {len(baseline)}")
    difference = _finite_scores(values, groups) - _finite_scores(baseline, groups)
    names = np.zeros(len(values)) if groups is None else np.asarray(groups)
    _, member, counts = np.unique(names, return_inverse=True, return_counts=True)
    weights = 1.0 / (counts * len(counts))[member]  # of each question in the macro mean
    difference = weights * difference
    if clusters is not None:
        difference = sum_by_cluster(difference[:, None], clusters)[:, 0].round(15)
    difference = difference[difference != 0]  # the sign of 0 changes nothing
    if len(difference) < 2:  # both signs of a single difference are equally extreme
        return 1.0
    sizes = np.abs(difference)
    if np.ptp(sizes) < 1e-9 * sizes.max():  # differences of one size: only their signs matter
        return float(binomtest(int((difference > 0).sum()), len(difference)).pvalue)
    result = permutation_test(
        (difference,),
        lambda d, axis: d.sum(axis=axis).round(12),  # equal sums must compare equal in spite of rounding
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=1000,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for multiple comparisons (Holm, 1979), in the order given.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        wrong = next(x for x in p_values if not 0 <= x <= 1)
        raise InputError(f"p-values must be from 0 to 1, not {wrong}")
    order = np.argsort(p, kind="stable")
    factors = np.arange(len(p), 0, -1)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(factors * p[order]))
    return corrected.tolist()


# ---------------------------------------------------------------- effect size, power and number of questions


def spread_of(
    differences: np.ndarray,
    groups: Sequence[str] | None = None,
    *,
    clusters: Sequence[str] | None = None,
) -> float:
    """Return the spread of paired differences: the standard error of the (macro) mean times the square root of n."""
    parts = _parts(differences, groups, clusters)
    return float(np.sqrt(parts.variance.sum() * len(differences)) / len(parts.n))


def effect_size(
    differences: np.ndarray,
    groups: Sequence[str] | None = None,
    *,
    clusters: Sequence[str] | None = None,
    level: float = 0.95,
) -> tuple[float, float, float]:
    """Return Cohen's d_z of paired differences, their (macro) mean over their spread, and its large-sample interval.

    All three values are NaN if the spread is 0. Source: Cohen (1988), section 2.3.5; Hedges and Olkin (1985).
    """
    spread = spread_of(differences, groups, clusters=clusters)
    if not spread > 0:
        return np.nan, np.nan, np.nan
    parts = _parts(differences, groups, clusters)
    freedom = _freedom(parts, parts.n / parts.effect, False)
    size = float(parts.mean.mean()) / spread
    error = float(np.sqrt(1 / len(differences) + size**2 / (2 * freedom)))
    half = _quantile(level, freedom) * error
    return size, size - half, size + half


def power(difference: float, spread: float, n: int, *, alpha: float = 0.05) -> float:
    """Return the power of the two-sided paired t-test with n questions: the probability of detecting a true difference.

    :func:`spread_of` gives the `spread`; for 0/1 scores that differ on a share s of the questions, it is the square
    root of s - difference^2. Source: Cohen (1988), chapter 2; for measures of retrieval, Sakai (2018).

    >>> round(power(0.5, 1, 34), 2)
    0.81
    """
    from scipy.stats import ncf

    if not spread > 0:
        raise InputError(f"must be above 0, not {spread!r}", field="spread")
    if n < 2:
        raise InputError(f"a t-test needs at least two questions, not {n}", field="n")
    _check_share("alpha", alpha)
    if difference == 0:
        return alpha
    critical = _quantile(1 - alpha, n - 1)
    noncentrality = abs(difference) / spread * np.sqrt(n)
    # t^2 has an F distribution; scipy's noncentral t is NaN for a power close to 1.
    return float(ncf.sf(critical**2, 1, n - 1, noncentrality**2))


def questions_needed(
    difference: float,
    spread: float,
    *,
    wanted: float = 0.8,
    alpha: float = 0.05,
    binary: bool = False,
) -> int:
    """Return how many questions detect a true difference other than 0 with the power `wanted`; see :func:`power`.

    For `binary` scores, 2 / difference questions are added, since McNemar's exact test is discrete and needs up to that
    many more.

    >>> questions_needed(0.5, 1)
    34
    """
    if not difference or not np.isfinite(difference):
        raise InputError(f"the difference must be a finite number other than 0; got {difference!r}", field="difference")
    _check_wanted(wanted, alpha)

    def is_enough(n: int) -> bool:
        return power(difference, spread, n, alpha=alpha) >= wanted

    most = 2
    while not is_enough(most):
        most *= 2
    fewest = 2 + bisect_left(range(2, most), True, key=is_enough)
    return fewest + round(2 / abs(difference)) if binary else fewest


def detectable(spread: float, n: int, *, wanted: float = 0.8, alpha: float = 0.05) -> float:
    """Return the smallest true difference that n questions detect with the power `wanted`; see :func:`power`."""
    from scipy.optimize import brentq

    _check_wanted(wanted, alpha)

    def surplus(difference: float) -> float:
        return power(difference, spread, n, alpha=alpha) - wanted

    error = spread / np.sqrt(n)
    largest = 2 * error
    while surplus(largest) < 0:
        largest *= 2
    return float(brentq(surplus, 0, largest, xtol=1e-9 * error))


def _check_wanted(wanted: float, alpha: float) -> None:
    _check_share("alpha", alpha)
    if not alpha < wanted < 1:
        raise InputError(f"must be between alpha ({alpha}) and 1, not {wanted!r}", field="wanted")


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
    """Return a statistic of column sums and the ends of its percentile bootstrap interval, (s,) each.

    `rows` (n, m) is a dense or a sparse array. `statistic` maps sums (r, m) to values (r, s), with NaN where a value is
    undefined; samples with NaN are left out. Whole clusters are drawn within `strata` (the data sets). The ends are NaN
    if all rows of a stratum belong to one cluster.

    >>> value, low, high = cluster_bootstrap(np.array([[1.0, 1], [0, 1], [1, 1]]), ["a", "a", "b"], ratio_of_sums)
    >>> value.round(2).tolist(), low.tolist(), high.tolist()
    ([0.67], [0.5], [1.0])
    """
    _check_share("level", level)
    n = rows.shape[0]
    owners = np.arange(n) if clusters is None else np.asarray(clusters)
    member = np.zeros(n) if strata is None else np.asarray(strata)
    if not n or {len(owners), len(member)} != {n}:
        raise InputError(f"there are {n} rows, but {len(owners)} clusters, {len(member)} strata")
    parts = []
    for stratum in np.unique(member):
        inside = member == stratum
        parts.append(sum_by_cluster(rows[inside], owners[inside]))
    sums = np.asarray(sum(part.sum(axis=0) for part in parts), dtype=np.float64)
    value = statistic(sums[None])[0]
    low, high = np.full((2, len(value)), np.nan)
    rng = np.random.default_rng(seed)
    drawn = np.concatenate([statistic(sums) for sums in _drawn_sums(parts, resamples, rng)])
    if min(part.shape[0] for part in parts) == 1:
        return value, low, high
    for i in np.flatnonzero(np.isfinite(value)):
        defined = drawn[np.isfinite(drawn[:, i]), i]
        if len(defined):
            low[i], high[i] = percentiles(defined, level)
    return value, low, high


def ratio_of_sums(sums: np.ndarray) -> np.ndarray:
    """Divide all columns by the last column, (r, m) → (r, m - 1); NaN where the last column is 0."""
    totals = sums[:, -1:]
    parts = sums[:, :-1]
    undefined = np.full(parts.shape, np.nan)
    return np.asarray(np.divide(parts, totals, out=undefined, where=totals > 0))


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
    belongs = csr_array((np.ones(n), (owner, np.arange(n))), shape=(len(names), n))
    return belongs @ rows


def _drawn_sums(parts: Sequence[Any], resamples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield the column sums of bootstrap samples; for a single stratum, in blocks that fit into memory."""
    total = max(resamples, 1)
    size = total
    if len(parts) == 1:
        size = max(1, min(1000, _CELLS // parts[0].shape[1]))
    for start in range(0, total, size):
        count = min(size, resamples - start)
        yield np.sum([resampled_sums(part, count, rng) for part in parts], axis=0)


def resampled_sums(table: Any, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Return the column sums of bootstrap samples of n rows with replacement, (resamples, m)."""
    if resamples < 1:
        raise InputError(f"must be at least 1, not {resamples!r}", field="resamples")
    n = table.shape[0]
    chances = np.full(n, 1.0 / n)
    sums = []
    for start in range(0, resamples, 1000):  # 10,000 samples of 3,000 questions would need 240 MB at once
        counts = rng.multinomial(n, chances, min(1000, resamples - start))
        sums.append(counts @ table)
    return np.asarray(np.concatenate(sums))


def percentiles(samples: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the middle `level` of samples, (r, m) or (r,), column by column."""
    _check_share("level", level)
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


# ---------------------------------------------------------------- labels and thresholds


def yes_or_no(values: Any, field: str = "labels") -> np.ndarray:
    """Return true and false, or 1 and 0, as bool; NumPy would also convert NaN, 2 and the text "0" to true.

    >>> yes_or_no([1, 0.0, True]).tolist()
    [True, False, True]
    """
    array = np.asarray(values)
    if array.dtype == bool:
        return array.copy()
    for place, value in enumerate(array.ravel().tolist()):
        if not (isinstance(value, Real | np.bool_) and value in (0, 1)):
            problem = f"number {place} is {shortened(value)}; expected true or false (1 or 0)"
            raise InputError(problem, field=field)
    return array.astype(bool)


def both_kinds(labels: np.ndarray, p_yes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return labels as bool and probabilities as float64.

    Raises:
        InputError: labels without a yes or without a no, different lengths, or a probability that is not finite.
    """
    labels = yes_or_no(labels)
    p_yes = np.asarray(p_yes, dtype=np.float64)
    if labels.shape != p_yes.shape or labels.ndim != 1:
        raise InputError(f"labels and probabilities must be of one length; got {labels.shape} and {p_yes.shape}")
    if not labels.any() or labels.all():
        raise InputError("the labels must include both a yes and a no")
    if not np.isfinite(p_yes).all():
        raise InputError("every probability must be a finite number", field="p_yes")
    return labels, p_yes


def choose_threshold(labels: np.ndarray, p_yes: np.ndarray, positive_share: float | None = None) -> float:
    """Return the threshold (two decimals, 0.01 to 1.00) with the best F1; if several tie, the middle one.

    Choose on development data only. `positive_share` weighs the pairs as if this share of them were positive.
    """
    labels, p_yes = both_kinds(labels, p_yes)
    if not ((p_yes >= 0) & (p_yes <= 1)).all():
        raise InputError("every probability must be a number from 0 to 1", field="p_yes")
    share = labels.mean() if positive_share is None else positive_share
    _check_share("positive_share", share)
    steps = np.round(np.arange(0.01, 1.005, 0.01), 2)
    recall = np.array([(p_yes[labels] >= step).mean() for step in steps])
    false_yes = np.array([(p_yes[~labels] >= step).mean() for step in steps])
    # F1 = 2 TP / (predicted yes + labelled yes), as shares of all pairs.
    f1 = 2 * share * recall / (share * recall + (1 - share) * false_yes + share)
    best = steps[f1 == f1.max()]
    return float(best[(len(best) - 1) // 2])


def _finite_scores(values: np.ndarray, groups: Sequence[str] | None) -> np.ndarray:
    """Return scores as float64; a single NaN would pass through every mean and could look significant."""
    values = np.asarray(values, dtype=np.float64)
    if not len(values):
        raise InputError("expected at least one score")
    if groups is not None and len(groups) != len(values):
        raise InputError(f"there are {len(values)} scores, but {len(groups)} groups")
    wrong = ~np.isfinite(values)
    if wrong.any():
        place = int(wrong.argmax())
        raise InputError(f"score {place} is {values[place]}; every score must be a finite number")
    return values
