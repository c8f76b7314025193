"""The measures of PerspectiveArg 2024 as its published script computes them (docs/divergences.md, rows A1 to A9).

For matching figures that others printed. The script itself was not at hand: what is known of it is on record in those
rows, with a few figures, which these functions reproduce. Where the record is silent, the docstrings say what was
chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import kl_div

from berdslib.evaluation.fairness import counts_at
from berdslib.evaluation.tables import discounted, ratio

# 6 is not among them (divergences.md A7).
_FIRST_CUT_POINTS = (2, 4, 8)


def ndcg(relevant: np.ndarray, gold: np.ndarray, ks: Sequence[int]) -> np.ndarray:
    """Return nDCG at each cut-off; above 1 where the list holds copies of relevant texts (divergences.md A3).

    Args:
        relevant: (…, n) bool, which listed passages count as relevant; in the implicit scenario also one whose text
            equals that of a relevant one.
        gold: (…,) int, how many passages are relevant; copies do not count.
        ks: the cut-offs.

    Returns:
        (…, ks) float64.
    """
    return _over_ideal(relevant, np.ones(_within(ks, gold)), ks, [np.minimum(gold, k) for k in ks])


def precision(relevant: np.ndarray, length: np.ndarray, ks: Sequence[int]) -> np.ndarray:
    """Return the share of relevant passages among the first k, or among all of a shorter list (divergences.md A9).

    An empty list scores 0; the record does not say.

    Args:
        relevant: (…, n) bool, as for :func:`ndcg`.
        length: (…,) int, how long each list is.
        ks: the cut-offs.

    Returns:
        (…, ks) float64.
    """
    return np.stack([ratio(relevant[..., :k].sum(axis=-1), np.minimum(k, length)) for k in ks], axis=-1)


def alpha_ndcg(
    of_group: np.ndarray,
    relevant: np.ndarray,
    counts: np.ndarray,
    gold: np.ndarray,
    alpha: float,
    ks: Sequence[int],
) -> np.ndarray:
    """Return alpha-nDCG at each cut-off.

    A group that was seen before loses alpha once, however often it was seen (A1); a passage that is not relevant marks
    its group as seen (A2). The ideal list is greedy over the relevant passages, and loses its last item unless there
    are fewer than k, to which the script adds random ones (A6): a perfect list of k out of k scores above 1. Whoever
    has no group gains nothing and marks nothing; the record does not say.

    Args:
        of_group: (…, n, m) bool, which group each listed passage is of, at most one.
        relevant: (…, n) bool, as for :func:`ndcg`.
        counts: (…, m) int, how many relevant passages each group has.
        gold: (…,) int, how many passages are relevant.
        alpha: what a group that was seen before loses.
        ks: the cut-offs.

    Returns:
        (…, ks) float64.
    """
    seen_before = (np.cumsum(of_group, axis=-2, dtype=np.int32) - of_group) > 0
    worth = np.where(seen_before, 1.0 - alpha, 1.0)
    gains = relevant * (worth * of_group).sum(axis=-1)
    groups, with_group = (counts > 0).sum(axis=-1)[..., None], counts.sum(axis=-1)[..., None]
    place = np.arange(_within(ks, with_group))
    ideal = np.where(place < groups, 1.0, (1.0 - alpha) * (place < with_group))
    return _over_ideal(gains, ideal, ks, [np.where(gold >= k, np.minimum(gold - 1, k), k) for k in ks])


def rkl(of_group: np.ndarray, length: np.ndarray, sizes: np.ndarray, total: int, ks: Sequence[int]) -> np.ndarray:
    """Return the divergence at each cut-off (divergences.md A7), the mean over groups; 0 is best, there is no worst.

    One-sided, that of the group alone: P ln(P / Q) - P + Q, over log2(i), summed over the cut points 2, 4, 8, 10, 12, …
    (6 is left out), and not divided by its maximum. The record does not say which groups are protected, nor what
    becomes of short lists. They are the same as for :func:`berdslib.evaluation.fairness.rkl`, and a cut point that a
    list does not reach does not count, as the script's precision shrinks k: an empty list scores 0.

    Args:
        of_group: (…, n, g) bool, which listed passages are of a group.
        length: (…,) int, how long each list is.
        sizes: (g,) int, how many passages of the corpus are of each group, at least 1.
        total: how many passages the corpus has.
        ks: the cut-offs, at least 2.

    Returns:
        (…, ks) float64.
    """
    cuts = cut_points(max(2, _within(ks, length)))
    share = np.minimum(counts_at(of_group, cuts) / cuts[:, None], 1.0)
    terms = kl_div(share, sizes / total).mean(axis=-1) / np.log2(cuts) * (length[..., None] >= cuts)
    running = np.cumsum(terms, axis=-1)
    return np.asarray(running[..., [int((cuts <= k).sum()) - 1 for k in ks]])


def cut_points(k: int) -> np.ndarray:
    """Return where the script looks at a ranking.

    >>> cut_points(13).tolist()
    [2, 4, 8, 10, 12]
    """
    cuts = [*_FIRST_CUT_POINTS, *range(_FIRST_CUT_POINTS[-1] + 2, k + 1, 2)]
    return np.array([i for i in cuts if i <= k])


def _within(ks: Sequence[int], lengths: np.ndarray) -> int:
    """Return the largest cut-off, or the greatest length where all is shorter: beyond, nothing counts."""
    return min(max(ks), int(lengths.max(initial=0)))


def _over_ideal(gains: np.ndarray, ideal: np.ndarray, ks: Sequence[int], of_ideal: Sequence[np.ndarray]) -> np.ndarray:
    """Return the DCG of the first k over that of as much of the ideal list as is given for each k."""
    place = np.arange(ideal.shape[-1])
    scores = [
        ratio(_dcg(gains[..., :k]), _dcg(ideal * (place < length[..., None])))
        for k, length in zip(ks, of_ideal, strict=True)
    ]
    return np.stack(scores, axis=-1)


def _dcg(gains: np.ndarray) -> np.ndarray:
    return discounted(gains)[..., -1] if gains.shape[-1] else np.zeros(gains.shape[:-1])
