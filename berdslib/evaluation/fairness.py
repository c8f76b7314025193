"""rKL: whether the first places of a ranking show minorities as often as the corpus has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import rel_entr


def protected(sizes: np.ndarray) -> np.ndarray:
    """Return which groups are minorities: all but the largest of the corpus.

    Where several are the largest, all of these are the majority; where all groups are equally large, all count.

    Args:
        sizes: (m,) int, how many passages of the corpus each group has.

    Returns:
        (m,) bool.

    >>> protected(np.array([5, 2, 5, 1])).tolist(), protected(np.array([3, 3])).tolist()
    ([False, True, False, True], [True, True])
    """
    smaller = sizes < sizes.max(initial=0)
    return smaller if smaller.any() else np.ones(len(sizes), dtype=bool)


def cut_points(k: int, step: int) -> np.ndarray:
    """Return where a ranking is looked at: step, 2 step, … up to k; k itself where it is smaller than the step.

    >>> cut_points(9, 2).tolist(), cut_points(3, 5).tolist()
    ([2, 4, 6, 8], [3])
    """
    return np.arange(step, k + 1, step) if k >= step else np.array([k])


def rkl(
    of_group: np.ndarray, length: np.ndarray, sizes: np.ndarray, total: int, cutoffs: Sequence[tuple[int, int]]
) -> np.ndarray:
    """Return rKL, the mean over groups, each against everybody else; from 0, as in the corpus, to 1, the worst.

    At each cut point i the divergence of the group's share among the first i from its share of the corpus,
    D(P_i || Q) = P_i log2(P_i / Q) + (1 - P_i) log2((1 - P_i) / (1 - Q)), counts 1 / log2(i); the sum is divided by its
    maximum over all rankings. That is reached by one of two, the whole group first or everybody else first (tests
    compare with all rankings of small corpora). A cut point that a list does not reach counts as the most that is
    possible there, and no sum as more than the maximum: an empty list scores 1, and a short one gains nothing. One
    beyond the end of the corpus does not count.

    Args:
        of_group: (…, n, g) bool, which listed passages are of a group; n at least as large as the deepest cut-off, or
            as the longest list.
        length: (…,) int, how long each list is.
        sizes: (g,) int, how many passages of the corpus are of each group, at least 1.
        total: how many passages the corpus has.
        cutoffs: (k, step) of each score that is wanted, both at least 2.

    Returns:
        (…, cutoffs) float64; NaN where no list could be better or worse than another.

    Source: Yang and Stoyanovich, 2017, "Measuring fairness in ranked outputs", rKL.
    """
    places = [_within(k, step, total) for k, step in cutoffs]
    cuts = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *places]))
    scores = np.full((*length.shape, len(cutoffs)), np.nan)
    if not len(cuts):
        return scores
    group_first, others_first = np.minimum(cuts[:, None], sizes), np.maximum(cuts[:, None] - (total - sizes), 0)
    extremes = _divergence(np.stack([group_first, others_first]), cuts, sizes, total)
    terms = _divergence(counts_at(of_group, cuts), cuts, sizes, total)
    terms = np.where((length[..., None] >= cuts)[..., None], terms, extremes.max(axis=0))
    for i, these in enumerate(places):
        at = np.searchsorted(cuts, these)
        worst = extremes[:, at].sum(axis=1).max(axis=0)
        if (worst > 0).any():
            share = terms[..., at, :].sum(axis=-2)[..., worst > 0] / worst[worst > 0]
            scores[..., i] = np.minimum(share, 1.0).mean(axis=-1)
    return scores


def _within(k: int, step: int, total: int) -> np.ndarray:
    """Return the cut points that the corpus reaches; none where it has a single passage."""
    return cut_points(min(k, total), step) if total >= 2 else np.empty(0, dtype=np.int64)


def counts_at(of_group: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Return how many of the first so many passages are of each group.

    Args:
        of_group: (…, n, g) bool.
        cuts: (c,) int, from 1; a list that ends before counts as it is.

    Returns:
        (…, c, g) int.
    """
    running = np.cumsum(of_group, axis=-2, dtype=np.int32)
    if not running.shape[-2]:
        return np.zeros((*of_group.shape[:-2], len(cuts), of_group.shape[-1]), dtype=np.int32)
    return np.asarray(running[..., np.minimum(cuts, running.shape[-2]) - 1, :])


def _divergence(counts: np.ndarray, cuts: np.ndarray, sizes: np.ndarray, total: int) -> np.ndarray:
    """Return D(n / i || Q) / log2(i) for counts n (…, c, g) at the cut points i."""
    possible = np.arange(cuts.max() + 1)[:, None, None]
    if possible.size * cuts.size * sizes.size < counts.size:  # of many lists, the same counts come again and again
        table = _divergence(np.broadcast_to(possible, (possible.size, cuts.size, sizes.size)), cuts, sizes, total)
        return np.asarray(table[counts, np.arange(cuts.size)[:, None], np.arange(sizes.size)])
    share, of_corpus = np.minimum(counts / cuts[:, None], 1.0), sizes / total
    bits = (rel_entr(share, of_corpus) + rel_entr(1 - share, 1 - of_corpus)) / np.log(2)
    return np.asarray(bits / np.log2(cuts)[:, None])
