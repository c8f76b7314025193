"""How well a judge's probabilities tell a yes from a no, and how far they are from what they say, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from berdslib.errors import InputError
from berdslib.evaluation.calibration import bin_edges, bin_index, calibration_error
from berdslib.stats import percentiles, ratio_interval, resampled_sums, sum_by_cluster, yes_or_no

_BATCH = 2_000_000  # weights held at a time: pairs x resamples


def auc(labels: np.ndarray, p_yes: np.ndarray) -> float:
    """Return the area under the ROC curve: how often a yes has a higher probability than a no, a tie counting half.

    Args:
        labels: (n,) bool, with both a yes and a no among them.
        p_yes: (n,) probabilities, or any scores.

    Raises:
        InputError: different lengths, labels of one kind only, or something that is no truth value (1 and 0 are).

    >>> auc([1, 0, 1, 0], [0.9, 0.1, 0.4, 0.4])
    0.875
    """
    labels, p_yes = _both_kinds(labels, p_yes)
    return float(_weighted_auc(*_in_order(labels, p_yes), np.ones((1, len(labels))))[0])


def probability_report(
    labels: np.ndarray,
    p_yes: np.ndarray,
    clusters: Sequence[str],
    *,
    bins: int = 10,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return AUC and calibration error, each with a bootstrap interval that draws whole clusters.

    The bins of the calibration error are those of all pairs. A drawn sample adds its own noise to each bin, and the
    error is a sum of distances, so that its interval lies a little high; at small numbers it may begin above the value.

    Args:
        labels: (n,) bool, with both a yes and a no among them.
        p_yes: (n,) probabilities.
        clusters: (n,) the question of each pair.
        bins: see :func:`berdslib.evaluation.calibration.calibration_table`.
        level: coverage of the intervals.
        resamples: bootstrap samples; those that hold no yes or no no have no AUC, and are left out of its interval.
        seed: of the draws.

    Returns:
        Frame with columns measure, value, low, high; rows auc and calibration_error. The intervals are NaN where all
        pairs are of one question, which does not say how others turn out.

    Raises:
        InputError: as :func:`auc`, or something that is not a probability.
    """
    labels, p_yes = _both_kinds(labels, p_yes)
    error = calibration_error(labels, p_yes, bins)
    drawn_auc = _resampled_auc(labels, p_yes, clusters, resamples, np.random.default_rng(seed))
    drawn_error = _resampled_error(labels, p_yes, clusters, bins, resamples, np.random.default_rng(seed))
    rows = []
    for name, value, drawn in (("auc", auc(labels, p_yes), drawn_auc), ("calibration_error", error, drawn_error)):
        low, high = percentiles(drawn[np.isfinite(drawn)], level) if len(set(clusters)) > 1 else (np.nan, np.nan)
        rows.append((name, value, float(low), float(high)))
    return pd.DataFrame(rows, columns=["measure", "value", "low", "high"])


def answers_by(
    pairs: pd.DataFrame,
    by: str,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Say what a judge answers to each kind of pair, also where all pairs of a kind have one label and F1 says nothing.

    Args:
        pairs: frame with columns qid (the question, drawn as a whole), label (bool), answer (bool), p_yes and `by`.
        by: the column with the kinds.
        level: coverage of the intervals.
        resamples: bootstrap samples.
        seed: of the draws.

    Returns:
        One row a kind, in order of appearance: `by`, n, questions, labelled_yes (share of pairs), mean_p, mean_p_low,
        mean_p_high, said_yes (share of pairs), said_yes_low, said_yes_high. The intervals are NaN where all pairs of
        a kind are of one question.

    Raises:
        InputError: no pairs, a missing column, or a label or answer that is no truth value (1 and 0 are).
    """
    needed = ["qid", "label", "answer", "p_yes", by]
    if pairs.empty or (missing := [column for column in needed if column not in pairs.columns]):
        problem = f"missing: {', '.join(missing)}" if not pairs.empty else "there are none"
        raise InputError(f"needs pairs with the columns {', '.join(needed)}; {problem}")
    pairs = pairs.assign(**{column: yes_or_no(pairs[column], column) for column in ("label", "answer")})
    rows = []
    for kind, part in pairs.groupby(by, sort=False, observed=True):
        values = part[["p_yes", "answer"]].to_numpy(dtype=np.float64)
        sums = sum_by_cluster(np.column_stack([values, np.ones(len(part))]), part["qid"].tolist())
        low, high = np.full((2, 2), np.nan)
        if len(sums) > 1:  # one question does not say how others turn out
            low, high = ratio_interval(sums[:, :-1], sums[:, -1], level=level, resamples=resamples, seed=seed)
        (mean_p, said), n = values.mean(axis=0), len(part)
        spread = [mean_p, low[0], high[0], said, low[1], high[1]]
        rows.append((kind, n, part["qid"].nunique(), part["label"].mean(), *spread))
    measured = [f"{name}{end}" for name in ("mean_p", "said_yes") for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=[by, "n", "questions", "labelled_yes", *measured])


# ---------------------------------------------------------------- the bootstrap


def _in_order(labels: np.ndarray, p_yes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the order by probability, the labels in it, and where each group of equal probabilities starts."""
    order = np.argsort(p_yes, kind="stable")
    return order, labels[order], np.flatnonzero(np.diff(p_yes[order], prepend=-np.inf))


def _weighted_auc(order: np.ndarray, labels: np.ndarray, starts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the AUC under each row of weights (r, n), given pairs in order; NaN where a row holds no yes or no no."""
    weights = weights[:, order]
    yes = np.add.reduceat(weights * labels, starts, axis=1)
    no = np.add.reduceat(weights * ~labels, starts, axis=1)
    below = np.cumsum(no, axis=1) - no / 2
    both = yes.sum(axis=1) * no.sum(axis=1)
    return np.divide((yes * below).sum(axis=1), both, out=np.full(len(both), np.nan), where=both > 0)


def _resampled_auc(
    labels: np.ndarray, p_yes: np.ndarray, clusters: Sequence[str], resamples: int, rng: np.random.Generator
) -> np.ndarray:
    names, owner = np.unique(np.asarray(clusters), return_inverse=True)
    _check_clusters(owner, labels)
    in_order, size = _in_order(labels, p_yes), max(1, _BATCH // len(labels))
    drawn = []
    for start in range(0, resamples, size):
        counts = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), min(size, resamples - start))
        drawn.append(_weighted_auc(*in_order, counts[:, owner].astype(np.float64)))
    return np.concatenate(drawn)


def _resampled_error(
    labels: np.ndarray, p_yes: np.ndarray, clusters: Sequence[str], bins: int, resamples: int, rng: np.random.Generator
) -> np.ndarray:
    place = bin_index(p_yes, bin_edges(p_yes, bins))
    # What each pair adds to its bin: the error is the sum over bins of |sum of p - sum of yes|, by the number of pairs.
    excess = np.zeros((len(labels), bins + 1))
    excess[np.arange(len(labels)), place] = p_yes - labels
    excess[:, -1] = 1
    sums = resampled_sums(sum_by_cluster(excess, clusters), resamples, rng)
    return np.asarray(np.abs(sums[:, :-1]).sum(axis=1) / sums[:, -1])


def _both_kinds(labels: np.ndarray, p_yes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    labels, p_yes = yes_or_no(labels), np.asarray(p_yes, dtype=np.float64)
    if labels.shape != p_yes.shape or labels.ndim != 1:
        raise InputError(f"labels and probabilities must be of one length; got {labels.shape} and {p_yes.shape}")
    if not labels.any() or labels.all():
        raise InputError("both a yes and a no are needed among the labels")
    if not np.isfinite(p_yes).all():
        raise InputError("every probability must be a finite number", field="p_yes")
    return labels, p_yes


def _check_clusters(owner: np.ndarray, labels: np.ndarray) -> None:
    if len(owner) != len(labels):
        raise InputError(f"there are {len(labels)} pairs, but {len(owner)} clusters")
