"""The measures of PerspectiveArg 2024 as its published script computes them (docs/divergences.md, rows A1 to A9)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import kl_div

from berdslib.evaluation.tables import counts_at, discounted, ratio

FILLED = 1_000  # the script pads answers to this number, and looks for groups among all but the last (A6)
_CUT_POINTS = np.array([2, 4, 8, 10, 12, 14, 16, 18, 20])  # without 6 (A7)


def ndcg(relevant: np.ndarray, gold: np.ndarray, ks: Sequence[int]) -> np.ndarray:
    """Return nDCG at each cut-off, (…, ks); above 1 where the list holds copies of relevant texts (A3).

    `relevant` (…, n) says which listed passages count; in the implicit scenario, a passage with the text of a relevant
    passage also counts. `gold` (…,) is the number of relevant passages, without copies.
    """
    ideal = np.arange(_within(ks, gold)) < gold[..., None]
    return _over_ideal(relevant, ideal, ks)


def precision(relevant: np.ndarray, length: np.ndarray, ks: Sequence[int]) -> np.ndarray:
    """Return the share of relevant passages among the first k, or among a shorter list, (…, ks) (A9)."""
    shares = [ratio(relevant[..., :k].sum(axis=-1), np.minimum(k, length)) for k in ks]
    return np.stack(shares, axis=-1)


def alpha_ndcg(
    of_group: np.ndarray,
    relevant: np.ndarray,
    first: np.ndarray,
    gold: np.ndarray,
    alpha: float,
    ks: Sequence[int],
) -> np.ndarray:
    """Return alpha-nDCG at each cut-off, (…, ks).

    A repeated group loses alpha once, however often it was seen (A1); an irrelevant passage marks its group as seen
    (A2). The ideal list starts with one relevant passage of each of `first` (…,) groups; the others follow (A6).
    `of_group` (…, n, m) says which groups each listed passage belongs to.
    """
    earlier = np.cumsum(of_group, axis=-2, dtype=np.int32) - of_group
    seen_before = earlier > 0
    worth = np.where(seen_before, 1.0 - alpha, 1.0)
    gains = relevant * (worth * of_group).sum(axis=-1)
    place = np.arange(_within(ks, gold))
    repeated = (1.0 - alpha) * (place < gold[..., None])
    ideal = np.where(place < first[..., None], 1.0, repeated)
    return _over_ideal(gains, ideal, ks)


def one_sided_rkl(
    of_group: np.ndarray,
    sizes: np.ndarray,
    total: int,
    ks: Sequence[int],
) -> np.ndarray:
    """Return the divergence at each cut-off from 2, (…, ks), a mean over groups (A7); 0 is best, without upper bound.

    The divergence has the group's term only: P ln(P / Q) - P + Q, averaged over the cut points 2, 4, 8, 10, …, 20
    (without 6) with the weights 1 / log2(i). The share at a cut point beyond the end of a list is still divided by the
    cut point. `of_group` (…, n, g) says which groups each listed passage belongs to; `sizes` (g,) is the size of each
    group among the `total` passages of the corpus.
    """
    share = counts_at(of_group, _CUT_POINTS) / _CUT_POINTS[:, None]
    weight = 1 / np.log2(_CUT_POINTS)
    divergence = kl_div(share, sizes / total).mean(axis=-1)
    running = np.cumsum(divergence * weight, axis=-1) / np.cumsum(weight)
    last_cut = np.searchsorted(_CUT_POINTS, ks, side="right") - 1
    return np.asarray(running[..., last_cut])


def _within(ks: Sequence[int], lengths: np.ndarray) -> int:
    """Return the largest cut-off, or the length of the longest list if that is smaller."""
    return min(max(ks), int(lengths.max(initial=0)))


def _over_ideal(gains: np.ndarray, ideal: np.ndarray, ks: Sequence[int]) -> np.ndarray:
    """Return the DCG of the first k divided by the DCG of the first k of the ideal list."""
    ratios = [ratio(_dcg(gains[..., :k]), _dcg(ideal[..., :k])) for k in ks]
    return np.stack(ratios, axis=-1)


def _dcg(gains: np.ndarray) -> np.ndarray:
    if not gains.shape[-1]:
        return np.zeros(gains.shape[:-1])
    return discounted(gains)[..., -1]
