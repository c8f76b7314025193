"""How well a judge agrees with labels, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.errors import InputError
from berdslib.stats import percentiles, resampled_sums, sum_by_cluster, yes_or_no


class Agreement(NamedTuple):
    """Agreement of yes/no answers with labels; ``n`` pairs, all else from 0 to 1 (kappa from -1). BeRDS Table 4.

    ``said_yes`` is the share of pairs that were answered with yes.
    """

    n: int
    accuracy: float
    f1: float
    precision: float
    recall: float
    said_yes: float
    kappa: float


def agreement(labels: np.ndarray, answers: np.ndarray) -> Agreement:
    """Compare yes/no answers with labels.

    Args:
        labels: (n,) bool, the truth.
        answers: (n,) bool.

    Raises:
        InputError: no pairs, different lengths, or something that is no truth value (1 and 0 are).

    >>> agreement(np.array([1, 1, 0, 0], bool), np.array([1, 0, 1, 0], bool)).f1
    0.5
    """
    outcomes = _outcomes(labels, answers)
    return Agreement(len(outcomes), *(float(v) for v in _measures(outcomes.sum(axis=0, keepdims=True))[0]))


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
        InputError: as :func:`agreement`.
    """
    outcomes = sum_by_cluster(_outcomes(labels, answers), clusters)
    drawn = resampled_sums(outcomes, resamples, np.random.default_rng(seed))
    low, high = percentiles(_measures(drawn), level)
    values = _measures(outcomes.sum(axis=0, keepdims=True))[0]
    return pd.DataFrame({"measure": Agreement._fields[1:], "value": values, "low": low, "high": high})


def _outcomes(labels: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return for each pair whether it is a true yes, a false yes, a false no or a true no, (n, 4) bool."""
    labels, answers = yes_or_no(labels), yes_or_no(answers, "answers")
    if labels.shape != answers.shape or not len(labels):
        raise InputError(f"labels and answers must be of one length, at least 1; got {len(labels)} and {len(answers)}")
    return np.stack([labels & answers, ~labels & answers, labels & ~answers, ~labels & ~answers], axis=1)


def _measures(counts: np.ndarray) -> np.ndarray:
    """Turn (r, 4) counts into (r, 6) measures, in the order of Agreement's fields after n; 0 where undefined."""
    both, false_yes, false_no, neither = counts.T.astype(np.float64)
    n = counts.sum(axis=1)
    said, true = both + false_yes, both + false_no
    accuracy = (both + neither) / n
    by_chance = (said * true + (n - said) * (n - true)) / n**2
    columns = (
        accuracy,
        _ratio(2 * both, said + true),
        _ratio(both, said),
        _ratio(both, true),
        said / n,
        _ratio(accuracy - by_chance, 1 - by_chance),
    )
    return np.stack(columns, axis=1)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
