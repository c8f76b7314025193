"""Ranked passages x perspectives as tables of true and false, and the measures as arithmetic over many at once.

A measure is a few lines over tables (…, n, m), true where a passage supports a perspective. Rows of False fill up those
of shorter lists, and change nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.records import GRADE, Question, list_ids, perspective_qid, read_pairs, shares
from berdslib.errors import InputError

# Cells of the tables that are scored together: some 100 MB in double precision, and enough to keep numpy busy.
BLOCK = 2_000_000

_ALIKE = np.ones(1)  # weights
_NO_GAINS = np.zeros(0)

# How many passages of a list a measure looks at; None for all.
Cutoff = int | None


class Tables(NamedTuple):
    """The tables of one question, or stacked those of many with as many perspectives each.

    ``listed`` bool (…, n, m): the runs, best first; ``length`` int (…,). ``pool`` bool (…, d, m): every passage that
    supports a perspective, the largest docno first, as ndeval breaks ties of ideal lists. ``own`` bool (…, m, n', m):
    the lists that were found from each perspective, for p-Recall. ``weights`` (…, m): how much each perspective counts;
    those of a question have a mean of 1. ``judged`` bool (…, n): which listed passages somebody judged. ``gains`` float
    (…, n): what each listed passage is worth to nDCG; ``pool_gains`` (…, p): what all passages above 0 are worth.
    """

    listed: np.ndarray
    length: np.ndarray
    pool: np.ndarray
    own: np.ndarray = np.zeros((1, 0, 1), dtype=bool)
    weights: np.ndarray = _ALIKE
    judged: np.ndarray = np.zeros(0, dtype=bool)
    gains: np.ndarray = _NO_GAINS
    pool_gains: np.ndarray = _NO_GAINS


# ---------------------------------------------------------------- from frames to tables


def check_not_taken(name: str, datasets: Iterable[str | None]) -> None:
    """Raise InputError for a data set called as the row of all of them together is."""
    if name in datasets:
        raise InputError(f"a data set is called {name!r}, as is the row of all together; rename it", field="source")


def pairs_of(frame: pd.DataFrame) -> pd.MultiIndex:
    """Return (qid, docno) of each row."""
    return pd.MultiIndex.from_arrays([frame["qid"], frame["docno"]])


def question_tables(run: pd.DataFrame, verdicts: pd.DataFrame, questions: Sequence[Question]) -> Iterator[Tables]:
    """Yield for each question, in order, its ranked passages and its pool as tables passage x perspective.

    The frames are taken as :func:`berdslib.data.records.check_run` and ``check_verdicts`` return them.
    """
    sizes = {q.qid: len(q.perspectives) for q in questions}
    read = read_pairs(verdicts[verdicts["qid"].isin(sizes).to_numpy()])
    gain = (read[GRADE] if GRADE in read.columns else read["supports"]).to_numpy(dtype=np.float64).clip(min=0)
    yes = read["supports"].to_numpy(dtype=bool)
    pids, most = read["pid"].to_numpy(dtype=np.int64), read["qid"].map(sizes).to_numpy(dtype=np.int64)
    if (wrong := ((pids < 0) | (pids >= most)) & (yes | (gain > 0))).any():
        i = int(wrong.argmax())
        problem = f"question {read['qid'].iloc[i]!r} has {most[i]} perspectives, but a verdict has pid {pids[i]}"
        raise InputError(problem, field="pid")
    # A passage that was judged has a row; the last one, which -1 finds, is of all others.
    pairs = pairs_of(read).unique().sort_values()
    of_pair = pairs.get_indexer(pairs_of(read))
    supports = np.zeros((len(pairs) + 1, max(sizes.values())), dtype=bool)
    supports[of_pair[yes], pids[yes]] = True
    gains = np.bincount(of_pair, weights=gain, minlength=len(pairs) + 1)
    row = pairs.get_indexer(pairs_of(run.assign(qid=run["qid"].map(list_ids(questions)))))
    lists, pools = (pd.Series(0, index=ids).groupby(level=0).indices for ids in (run["qid"], pairs.get_level_values(0)))
    none = np.empty(0, dtype=np.int64)
    for q, (qid, m) in zip(questions, sizes.items(), strict=True):
        top = row[lists.get(qid, none)]
        own = [supports[row[lists.get(perspective_qid(qid, pid), none)], :m] for pid in range(m)]
        pool = np.asarray(pools.get(qid, none))[::-1]
        useful = pool[supports[pool].any(axis=1)]
        yield Tables(
            listed=supports[top, :m],
            length=np.array(len(top)),
            pool=supports[useful, :m],
            own=_padded(own),
            weights=m * shares(q) if q.weights else np.ones(m),
            judged=top >= 0,
            gains=gains[top],
            pool_gains=gains[pool[gains[pool] > 0]],
        )


def in_blocks(tables: Iterable[Tables], depth: Cutoff) -> Iterator[tuple[list[int], Tables]]:
    """Yield (places, stacked tables) of questions with as many perspectives each, lists cut to `depth`."""
    alike = defaultdict[int, list[tuple[int, Tables]]](list)
    for place, one in enumerate(tables):
        cut = one._replace(
            listed=one.listed[:depth], own=one.own[:, :depth], judged=one.judged[:depth], gains=one.gains[:depth]
        )
        alike[one.listed.shape[1]].append((place, cut))
    for several in alike.values():
        cells = sum(max(table[i].size for _, table in several) for i in (0, 2, 3))
        size = max(1, BLOCK // max(cells, 1))
        for start in range(0, len(several), size):
            places, block = zip(*several[start : start + size], strict=True)
            yield list(places), Tables(*map(_padded, zip(*block, strict=True)))


def _padded(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Stack arrays, filled up to the largest of them with False or 0."""
    stacked = np.zeros((len(arrays), *np.max([a.shape for a in arrays], axis=0)), dtype=arrays[0].dtype)
    for i, array in enumerate(arrays):
        corner: tuple[int | slice, ...] = (i, *(slice(n) for n in array.shape))
        stacked[corner] = array
    return stacked


# ---------------------------------------------------------------- gains


def novel_gains(listed: np.ndarray, alpha: float, weights: np.ndarray = _ALIKE) -> np.ndarray:
    """Return each passage's gain (…, n): of each perspective it supports, weight x (1 - alpha) ^ times seen before."""
    seen_before = np.cumsum(listed, axis=-2, dtype=np.int32) - listed
    worth = (1.0 - alpha) ** np.arange(listed.shape[-2] + 1)
    return np.asarray((worth[seen_before] * listed * weights[..., None, :]).sum(axis=-1))


def ideal_gains(gains: np.ndarray, depth: int) -> np.ndarray:
    """Return gains (…, p) in the best order, (…, depth or less)."""
    return np.asarray(-np.sort(-gains, axis=-1)[..., :depth])


def ideal_novel_gains(pool: np.ndarray, alpha: float, depth: int, weights: np.ndarray = _ALIKE) -> np.ndarray:
    """Return the gains (…, depth or less) of the greedy ideal list from a pool (…, d, m), as ndeval's is."""
    *lead, d, m = pool.shape
    supports = np.ascontiguousarray(np.moveaxis(pool, -1, 0), dtype=np.float64)  # a perspective after the other
    taken, worth = np.zeros((*lead, d)), np.ones((*lead, m)) * weights
    gains = np.zeros((*lead, min(depth, d)))
    for place in range(gains.shape[-1]):
        # Perspective by perspective, as ndeval adds: in another order equal values can differ in their last bit, and
        # then another passage is the first of the best.
        value = taken.copy()
        for i in range(m):
            value += supports[i] * worth[..., i, None]
        best = value.argmax(axis=-1)[..., None]
        gains[..., place] = np.take_along_axis(value, best, axis=-1)[..., 0]
        np.put_along_axis(taken, best, -np.inf, axis=-1)
        chosen = np.take_along_axis(pool, best[..., None], axis=-2)[..., 0, :]
        worth = np.where(chosen, worth * (1.0 - alpha), worth)
    return gains


def discounted(gains: np.ndarray) -> np.ndarray:
    """Return the discounted gains (…, n) gathered after each place."""
    return np.asarray(np.cumsum(gains / np.log2(np.arange(2, gains.shape[-1] + 2)), axis=-1))


def per_rank(gains: np.ndarray) -> np.ndarray:
    """Divide each gain (…, n) by its rank."""
    return np.asarray(gains / np.arange(1, gains.shape[-1] + 1))


def ratio(value: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Return value / best, 0 where the best is 0."""
    value = np.asarray(value, dtype=np.float64)
    return np.divide(value, best, out=np.zeros(np.broadcast_shapes(value.shape, best.shape)), where=best > 0)


def shown(tables: Tables, weights: np.ndarray | None = None) -> np.ndarray:
    """Return how many perspectives have been shown after each place, (…, n); or the sum of their weights."""
    so_far = np.logical_or.accumulate(tables.listed, axis=-2)
    return np.asarray((so_far if weights is None else so_far * weights[..., None, :]).sum(axis=-1))


def at(curve: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Return what a curve (…, n) has gathered after some places (…, c): where it ends before, nothing more comes."""
    n = curve.shape[-1]
    return np.take_along_axis(curve, np.minimum(cuts, n) - 1, axis=-1) if n else np.zeros(cuts.shape)


def counts_at(of_group: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Return how many of the first `cuts` (c,) passages are of each group: (…, c, g) of (…, n, g) bool."""
    running = np.cumsum(of_group, axis=-2, dtype=np.int32)
    if not running.shape[-2]:
        return np.zeros((*of_group.shape[:-2], len(cuts), of_group.shape[-1]), dtype=np.int32)
    return np.asarray(running[..., np.minimum(cuts, running.shape[-2]) - 1, :])
