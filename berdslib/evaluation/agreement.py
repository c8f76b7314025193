"""How well a judge agrees with labels, how sure that is, and the threshold at which it agrees best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.errors import InputError


class Agreement(NamedTuple):
    """Agreement of yes/no answers with labels; ``n`` pairs, all else from 0 to 1 (kappa from -1). BeRDS Table 4."""

    n: int
    accuracy: float
    f1: float
    precision: float
    recall: float
    positive_share: float
    kappa: float


def agreement(labels: np.ndarray, answers: np.ndarray) -> Agreement:
    """Compare yes/no answers with labels.

    Args:
        labels: (n,) bool, the truth.
        answers: (n,) bool.

    Raises:
        InputError: no pairs, or different lengths.

    >>> agreement(np.array([1, 1, 0, 0], bool), np.array([1, 0, 1, 0], bool)).f1
    0.5
    """
    counts = _counts(*_checked(labels, answers))
    return Agreement(len(labels), *(float(v) for v in _measures(counts[None, :])[0]))


def agreement_report(
    labels: np.ndarray,
    answers: np.ndarray,
    clusters: Sequence[str],
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return each measure of agreement with a bootstrap interval that draws whole clusters.

    The pairs of one question are alike, so drawing pairs one by one would make the interval too narrow.

    Args:
        labels: (n,) bool.
        answers: (n,) bool.
        clusters: (n,) the question of each pair.
        level: coverage of the intervals.
        resamples: bootstrap samples.
        seed: of the draws.

    Returns:
        Frame with columns measure, value, low, high; one row per field of :class:`Agreement` but n.

    Raises:
        InputError: no pairs, or different lengths.
    """
    labels, answers = _checked(labels, answers)
    names, owner = np.unique(np.asarray(clusters), return_inverse=True)
    if len(owner) != len(labels):
        raise InputError(f"{len(labels)} pairs, but {len(owner)} clusters")
    per_cluster = np.stack([_counts(labels[owner == c], answers[owner == c]) for c in range(len(names))])
    times = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), resamples)
    low, high = np.quantile(_measures(times @ per_cluster), [(1 - level) / 2, (1 + level) / 2], axis=0)
    values = _measures(per_cluster.sum(axis=0)[None, :])[0]
    return pd.DataFrame({"measure": Agreement._fields[1:], "value": values, "low": low, "high": high})


def _checked(labels: np.ndarray, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    labels, answers = np.asarray(labels, dtype=bool), np.asarray(answers, dtype=bool)
    if labels.shape != answers.shape or not len(labels):
        raise InputError(f"labels and answers must be of one length, at least 1; got {len(labels)} and {len(answers)}")
    return labels, answers


def _counts(labels: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return (true yes, false yes, false no, true no)."""
    return np.array(
        [(labels & answers).sum(), (~labels & answers).sum(), (labels & ~answers).sum(), (~labels & ~answers).sum()]
    )


def _measures(counts: np.ndarray) -> np.ndarray:
    """Turn (r, 4) counts into (r, 6) measures, in the order of Agreement's fields after n; 0 where undefined."""
    both, false_yes, false_no, neither = counts.T.astype(np.float64)
    n = counts.sum(axis=1)
    said, true = both + false_yes, both + false_no
    accuracy = (both + neither) / n
    by_chance = (said * true + (n - said) * (n - true)) / n**2
    columns = (
        accuracy,
        _share(2 * both, said + true),
        _share(both, said),
        _share(both, true),
        said / n,
        _share(accuracy - by_chance, 1 - by_chance),
    )
    return np.stack(columns, axis=1)


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
