"""Intervals, tests and thresholds; every bootstrap draws whole questions (clusters), never single pairs of one."""

from __future__ import annotations

from collections.abc import Sequence

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


def bootstrap_interval(
    values: np.ndarray,
    groups: Sequence[str] | None = None,
    *,
    clusters: Sequence[str] | None = None,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[float, float]:
    """Return a percentile bootstrap interval of the (macro) mean; questions are drawn within their group.

    Args:
        values: (n,) one score per question.
        groups: (n,) the data set of each question; None for one group.
        clusters: (n,) what each is about, where questions about the same thing (an issue) are drawn together; None
            where each is about something else.
        level: coverage, between 0 and 1.
        resamples: how many bootstrap samples.
        seed: of the random draws.

    Returns:
        low, high; NaN where the questions of a group are all of one cluster, which does not say how others turn out.

    Raises:
        InputError: no values, one that is not finite, another number of groups or clusters, a level that is not between
            0 and 1, or no resamples.
    """
    _check_resamples(resamples)
    rng = np.random.default_rng(seed)
    parts = _by_group(values, groups)
    means = np.zeros(resamples)
    if clusters is not None:
        if len(clusters) != len(values):
            raise InputError(f"there are {len(values)} scores, but {len(clusters)} clusters")
        owners = _by_group(np.arange(len(values)), groups)
        for part, own in zip(parts, owners, strict=True):
            sums = sum_by_cluster(np.column_stack([part, np.ones(len(part))]), [clusters[int(i)] for i in own])
            if len(sums) < 2:
                return np.nan, np.nan
            drawn = resampled_sums(sums, resamples, rng)
            means += drawn[:, 0] / drawn[:, 1] / len(parts)
        parts = []
    for part in parts:
        # In batches, so that 10,000 resamples of 3,000 questions do not need 240 MB at once.
        for start in range(0, resamples, 1000):
            size = (min(1000, resamples - start), len(part))
            means[start : start + 1000] += part[rng.integers(0, len(part), size)].mean(axis=1) / len(parts)
    low, high = percentiles(means, level)
    return float(low), float(high)


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
    of questions on which the two differ.

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
    from scipy.stats import permutation_test

    if len(values) != len(baseline):
        raise InputError(f"paired scores must be of one length; got {len(values)} and {len(baseline)}")
    ours, base = _finite_scores(values, groups), _finite_scores(baseline, groups)
    difference = _macro_weights(len(ours), groups) * (ours - base)
    if clusters is not None:
        difference = sum_by_cluster(difference[:, None], clusters)[:, 0].round(15)
    difference = difference[difference != 0]  # the sign of 0 changes nothing
    if len(difference) < 2:  # one coin falls two ways, one as extreme as the other
        return 1.0
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


def ratio_interval(
    parts: np.ndarray, wholes: np.ndarray, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return percentile bootstrap intervals of sum(parts) / sum(wholes), the rows being drawn.

    Args:
        parts: (n, m) numerators, one row for each root.
        wholes: (n,) denominators of the same roots.
        level: coverage, between 0 and 1.
        resamples: how many bootstrap samples; those whose wholes sum to 0 say nothing, and are left out.
        seed: of the random draws.

    Returns:
        low (m,), high (m,); NaN where the wholes are all 0.

    Raises:
        InputError: no rows, a level that is not between 0 and 1, or no resamples.
    """
    table = np.column_stack([parts, wholes]).astype(np.float64)
    if not len(table):
        raise InputError("there are no scores")
    sums = resampled_sums(table, resamples, np.random.default_rng(seed))
    sums = sums[sums[:, -1] > 0]
    if not len(sums):
        nothing = np.full(table.shape[1] - 1, np.nan)
        return nothing, nothing
    low, high = percentiles(sums[:, :-1] / sums[:, -1:], level)
    return low, high


# ---------------------------------------------------------------- the bootstrap, of which the intervals are made


def sum_by_cluster(rows: np.ndarray, clusters: Sequence[str]) -> np.ndarray:
    """Return the sum of each cluster's rows, (clusters, m) float64, the clusters in ascending order.

    Args:
        rows: (n, m) numbers.
        clusters: (n,) the question of each row.

    Raises:
        InputError: another number of clusters than rows.

    >>> sum_by_cluster(np.array([[1, 0], [1, 1], [0, 5]]), ["b", "a", "b"]).tolist()
    [[1.0, 1.0], [1.0, 5.0]]
    """
    names, owner = np.unique(np.asarray(clusters), return_inverse=True)
    if len(owner) != len(rows):
        raise InputError(f"there are {len(rows)} rows, but {len(owner)} clusters")
    sums = np.zeros((len(names), rows.shape[1]))
    np.add.at(sums, owner, rows)
    return sums


def resampled_sums(table: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Return the column sums of bootstrap samples, (resamples, m): as many rows each as there are, with repetition.

    Args:
        table: (n, m) numbers, one row for each cluster.
        resamples: how many samples.
        rng: source of the draws.

    Raises:
        InputError: no resamples.
    """
    _check_resamples(resamples)
    n = len(table)
    # In batches, so that 10,000 samples of 3,000 questions do not need 240 MB at once.
    sizes = [min(1000, resamples - start) for start in range(0, resamples, 1000)]
    return np.concatenate([rng.multinomial(n, np.full(n, 1.0 / n), size) @ table for size in sizes])


def percentiles(samples: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the middle `level` of samples, (r, m) or (r,), column by column.

    Raises:
        InputError: a level that is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise InputError(f"must be between 0 and 1, not {level!r}", field="level")
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def _check_resamples(resamples: int) -> None:
    if resamples < 1:
        raise InputError(f"must be at least 1, not {resamples!r}", field="resamples")


# ---------------------------------------------------------------- thresholds


def choose_threshold(labels: np.ndarray, p_yes: np.ndarray, positive_share: float | None = None) -> float:
    """Return the threshold (two decimals, 0.01 to 1.00) with the best F1; of equals the middle one.

    To be called on development data only.

    Args:
        labels: (n,) bool.
        p_yes: (n,) probabilities.
        positive_share: weigh the pairs as if so many of them were positive; None for as many as there are.

    Raises:
        InputError: different lengths, labels of one kind only, something that is not a probability, or a share that is
            not between 0 and 1.
    """
    labels, p_yes = np.asarray(labels, dtype=bool), np.asarray(p_yes, dtype=np.float64)
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
