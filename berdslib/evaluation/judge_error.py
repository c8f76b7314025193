"""Scores corrected for judge errors, with intervals that account for them.

A judge scores everything; people label a part. The judge's mean is precise and may be biased; the mean of the labels
is unbiased and imprecise. Prediction-powered inference takes the judge's mean and adds the mean error seen on the
labelled part (Angelopoulos et al., Science 382:669, 2023; with a weight on the judge, PPI++: Angelopoulos, Duchi and
Zrnic, 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from berdslib.errors import InputError
from berdslib.stats import student_interval

# Fitted on fewer labelled clusters, the weight makes intervals too narrow: with 8 of them, a 95 % interval of 0/1
# scores holds the truth in 84 to 87 % of the cases.
FEWEST_TO_TUNE = 30


class Corrected(NamedTuple):
    """A mean corrected for judge errors, next to the judge's own mean.

    ``value`` with interval ``low`` to ``high``; ``judge_value`` with ``judge_low`` to ``judge_high`` trusts the judge;
    ``n`` things scored (questions or pairs), ``labelled`` what people labelled; ``weight`` how much the judge counts, 0
    (labels only) to 1; of several groups, their mean weight. Intervals are not cut off at 0 and 1: one that reaches
    beyond says that there are too few questions or labels.
    """

    value: float
    low: float
    high: float
    judge_value: float
    judge_low: float
    judge_high: float
    n: int
    labelled: int
    weight: float


class _Part(NamedTuple):
    """Estimate for one group: value, its variance with degrees of freedom, and the judge's weight."""

    value: float
    variance: float
    freedom: int
    weight: float


def corrected_mean(
    judge_scores: np.ndarray,
    human_scores: np.ndarray,
    *,
    clusters: Sequence[Any] | None = None,
    groups: Sequence[str] | None = None,
    level: float = 0.95,
    tune: bool = True,
) -> Corrected:
    """Correct the mean of a judge's scores by what people say of a random part.

    With f the judge's and h the people's scores, N things of which n are labelled, the estimate is
    ``w * mean_N(f) + mean_n(h - w * f)``, unbiased for any fixed weight w; the tuned w has the smallest variance. It is
    tuned on the labels that it is applied to, which takes 30 labelled clusters; with fewer w is 1. The
    labelled things are among the N, so the two means are not independent and their variances do not simply add: the
    variance is that of the sum of each question's whole influence on the estimate (cluster-robust, linearised). It is
    right as well where a question has labelled and unlabelled pairs. The interval is Student's, with as many degrees of
    freedom as there are labelled questions (clusters), less 1 per group (Welch and Satterthwaite).

    Two uses: one score a question (Precision or MRecall, where people label the whole top k of some questions), or one
    answer a pair with the question as cluster: the share of supporting pairs. What is labelled must be drawn at random,
    whole questions or pairs of the same lists; labels of another retriever's lists say nothing here. A labelled part in
    which the judge happens to make no error passes for an errorless judge, so label enough that some errors are seen.

    Args:
        judge_scores: (N,) the judge's score of everything.
        human_scores: (N,) people's score, NaN where there is none.
        clusters: (N,) what was drawn independently, such as the question of each pair; None if each is its own.
        groups: (N,) the data set of each; the means of the groups then count equally (BeRDS "macro-average").
        level: coverage of the interval.
        tune: choose the weight from the data, for each group of at least 30 labelled clusters its own; groups of
            fewer, and all if False, have weight 1 (plain PPI).

    Raises:
        InputError: different lengths, a judge's score that is not finite, a cluster in two groups, or a group with
            fewer than 2 labelled clusters.

    >>> judge, human = np.array([1.0, 1, 0, 0, 1, 0]), np.array([1.0, 0, 0, 0, np.nan, np.nan])
    >>> corrected_mean(judge, human, tune=False).value  # 0.5 + (-1) / 4
    0.25
    """
    f, h = np.asarray(judge_scores, dtype=np.float64), np.asarray(human_scores, dtype=np.float64)
    owner = np.arange(len(f)) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    member = np.full(len(f), "") if groups is None else np.asarray(groups)
    _check_columns(f, h, owner, member)
    masks = [member == group for group in np.unique(member)]
    parts = [_part(f[mask], h[mask], owner[mask], tune) for mask in masks]
    trusting = [_part(f[mask], f[mask], owner[mask], tune) for mask in masks]
    weight = float(np.mean([part.weight for part in parts]))
    labelled = int((~np.isnan(h)).sum())
    return Corrected(*_interval(parts, level), *_interval(trusting, level), len(f), labelled, weight)


# ---------------------------------------------------------------- prediction-powered inference


def _part(f: np.ndarray, h: np.ndarray, owner: np.ndarray, tune: bool) -> _Part:
    """Estimate the mean of one group; see :func:`corrected_mean`."""
    has = ~np.isnan(h)
    # The influence of each thing on the estimate is a + w * b: a through its label, b through the judge's score.
    a, b = np.zeros(len(f)), (f - f.mean()) / len(f)
    a[has] = (h[has] - h[has].mean()) / has.sum()
    b[has] -= (f[has] - f[has].mean()) / has.sum()
    # A cluster's influence is that of all its members.
    a, b = (np.bincount(owner, weights=influence).astype(np.float64) for influence in (a, b))
    labelled, weight = len(np.unique(owner[has])), 1.0
    if tune and labelled >= FEWEST_TO_TUNE:
        # A judge without spread, or labels on everything: b is 0 up to rounding, and no weight changes anything.
        weight = float(np.clip(-(a @ b) / (b @ b), 0.0, 1.0)) if b @ b > 1e-24 else 0.0
    value = weight * f.mean() + (h[has] - weight * f[has]).mean()
    variance = ((a + weight * b) ** 2).sum() * labelled / (labelled - 1)
    return _Part(float(value), float(variance), labelled - 1, weight)


def _interval(parts: Sequence[_Part], level: float) -> tuple[float, float, float]:
    """Return the mean of the parts' values and its interval; the parts are independent."""
    values, variances, freedoms, _ = np.array(parts).T
    return float(values.mean()), *student_interval(values, variances, freedoms, level)


def _check_columns(f: np.ndarray, h: np.ndarray, owner: np.ndarray, member: np.ndarray) -> None:
    lengths = [len(column) for column in (f, h, owner, member)]
    if not len(f) or len(set(lengths)) > 1:
        raise InputError(f"scores, clusters and groups must be of one length, at least 1; got {lengths}")
    if not np.isfinite(f).all() or np.isinf(h).any():
        raise InputError("every score of the judge must be a finite number, and every label one or NaN")
    if len(set(zip(owner.tolist(), member.tolist(), strict=True))) > len(np.unique(owner)):
        raise InputError("a cluster is in two groups; each question must belong to one data set")
    has = ~np.isnan(h)
    for group in np.unique(member):
        labelled = len(np.unique(owner[has & (member == group)]))
        if labelled < 2:
            where = f"{str(group)!r} has" if group != "" else "there are"
            raise InputError(f"labels are needed in at least 2 questions (clusters) of a group; {where} {labelled}")
