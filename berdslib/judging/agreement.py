"""How well a judge agrees with labels, and the threshold at which it agrees best."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from berdslib.errors import InputError


class Agreement(NamedTuple):
    """Agreement of yes/no answers with labels, each from 0 to 1; ``n`` pairs. BeRDS Table 4."""

    n: int
    accuracy: float
    f1: float
    precision: float
    recall: float
    positive_share: float


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
    labels, answers = np.asarray(labels, dtype=bool), np.asarray(answers, dtype=bool)
    if labels.shape != answers.shape or not len(labels):
        raise InputError(f"labels and answers must be of one length, at least 1; got {len(labels)} and {len(answers)}")
    both = int((labels & answers).sum())
    precision = both / max(int(answers.sum()), 1)
    recall = both / max(int(labels.sum()), 1)
    f1 = 2 * both / max(int(labels.sum() + answers.sum()), 1)
    return Agreement(len(labels), float((labels == answers).mean()), f1, precision, recall, float(answers.mean()))


def choose_threshold(labels: np.ndarray, p_yes: np.ndarray) -> float:
    """Return the threshold (two decimals, 0.01 to 1.00) with the best F1; of equals the middle one.

    To be called on development data only.

    Args:
        labels: (n,) bool.
        p_yes: (n,) probabilities.
    """
    steps = np.round(np.arange(0.01, 1.005, 0.01), 2)
    f1 = np.array([agreement(labels, p_yes >= t).f1 for t in steps])
    best = steps[f1 == f1.max()]
    return float(best[(len(best) - 1) // 2])
