"""Boolean tables of ranked passages x perspectives, and the arithmetic of measures over many tables at once.

A cell of a table (…, n, m) is true if the passage supports the perspective. Shorter lists are padded with rows of
False, which change no measure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.records import GRADE, Question, list_ids, perspective_qid, read_pairs, shares
from berdslib.errors import InputError

# Tables of this many cells are scored together: about 100 MB in double precision, and enough cells for numpy.
CELLS_AT_ONCE = 2_000_000

_EQUAL_WEIGHTS = np.ones(1)
_NO_GAINS = np.zeros(0)

# How many passages of a list a measure looks at; None for all.
Cutoff = int | None


class Tables(NamedTuple):
    """The tables of one question, or stacked tables of questions with equally many perspectives.

    ``listed`` bool (…, n, m): the runs, best first; ``length`` int (…,). ``pool`` bool (…, d, m): every passage that
    supports a perspective, the largest docno first, as ndeval breaks ties of ideal lists. ``own`` bool (…, m, n', m):
    the lists that the perspectives' queries found, for p-Recall. ``weights`` (…, m): the weight of each perspective,
    with a mean of 1 for each question. ``judged`` bool (…, n): whether each listed passage has a verdict. ``gains``
    float (…, n): the gain of each listed passage for nDCG; ``pool_gains`` (…, p): all gains above 0.
    """

    listed: np.ndarray
    length: np.ndarray
    pool: np.ndarray
    own: np.ndarray = np.zeros((1, 0, 1), dtype=bool)
    weights: np.ndarray = _EQUAL_WEIGHTS
    judged: np.ndarray = np.zeros(0, dtype=bool)
    gains: np.ndarray = _NO_GAINS
    pool_gains: np.ndarray = _NO_GAINS


# ---------------------------------------------------------------- from frames to tables


def check_not_taken(name: str, datasets: Iterable[str | None]) -> None:
    """Raise InputError if a data set has the name of the row that sums up all data sets."""
    if name in datasets:
        problem = f"a data set is called {name!r}, which is the name of the row over all data sets; rename it"
        raise InputError(problem, field="source")


def pair_index(frame: pd.DataFrame) -> pd.MultiIndex:
    """Return the (qid, docno) of each row."""
    return pd.MultiIndex.from_arrays([frame["qid"], frame["docno"]])


class _Judged(NamedTuple):
    """Verdicts as arrays: a row for each judged pair, and a last row (index -1) for all other passages."""

    pairs: pd.MultiIndex
    supports: np.ndarray
    gains: np.ndarray


def question_tables(run: pd.DataFrame, verdicts: pd.DataFrame, questions: Sequence[Question]) -> Iterator[Tables]:
    """Yield for each question, in order, its ranked passages and its pool as tables passage x perspective.

    The frames must be clean, as :func:`berdslib.data.records.check_run` and ``check_verdicts`` return them.
    """
    judged = _judged_pairs(verdicts, {q.qid: len(q.perspectives) for q in questions})
    qids = run["qid"].map(list_ids(questions))
    rows = judged.pairs.get_indexer(pair_index(run.assign(qid=qids)))
    lists = _places_by_id(run["qid"])
    pools = _places_by_id(judged.pairs.get_level_values(0))
    empty = np.empty(0, dtype=np.int64)
    for question in questions:
        m = len(question.perspectives)
        top = rows[lists.get(question.qid, empty)]
        own = []
        for pid in range(m):
            of_perspective = rows[lists.get(perspective_qid(question.qid, pid), empty)]
            own.append(judged.supports[of_perspective, :m])
        pool = np.asarray(pools.get(question.qid, empty))[::-1]
        useful = pool[judged.supports[pool].any(axis=1)]
        gains = judged.gains[pool]
        yield Tables(
            listed=judged.supports[top, :m],
            length=np.array(len(top)),
            pool=judged.supports[useful, :m],
            own=_padded(own),
            weights=m * shares(question) if question.weights else np.ones(m),
            judged=top >= 0,
            gains=judged.gains[top],
            pool_gains=gains[gains > 0],
        )


def _judged_pairs(verdicts: pd.DataFrame, sizes: Mapping[str, int]) -> _Judged:
    """Return the verdicts on questions; `sizes` maps each question to its number of perspectives."""
    read = read_pairs(verdicts[verdicts["qid"].isin(sizes).to_numpy()])
    grades = read[GRADE] if GRADE in read.columns else read["supports"]
    gain = grades.to_numpy(dtype=np.float64).clip(min=0)
    yes = read["supports"].to_numpy(dtype=bool)
    pids = read["pid"].to_numpy(dtype=np.int64)
    index = pair_index(read)  # its levels are sorted; their codes spare comparisons of texts
    of_qid, of_docno = index.codes
    sizes_of_rows = np.array([sizes[qid] for qid in index.levels[0]], dtype=np.int64)[of_qid]
    wrong = ((pids < 0) | (pids >= sizes_of_rows)) & (yes | (gain > 0))
    if wrong.any():
        i = int(wrong.argmax())
        qid = read["qid"].iloc[i]
        problem = f"question {qid!r} has {sizes_of_rows[i]} perspectives, but a verdict has pid {pids[i]}"
        raise InputError(problem, field="pid")
    numbers = of_qid.astype(np.int64) * len(index.levels[1]) + of_docno
    _, firsts, of_pair = np.unique(numbers, return_index=True, return_inverse=True)
    pairs = index[firsts]
    supports = np.zeros((len(pairs) + 1, max(sizes.values())), dtype=bool)
    supports[of_pair[yes], pids[yes]] = True
    gains = np.bincount(of_pair, weights=gain, minlength=len(pairs) + 1)
    return _Judged(pairs, supports, gains)


def _places_by_id(ids: pd.Series | pd.Index) -> Mapping[Any, Any]:
    """Return id → positions of its rows."""
    return pd.Series(0, index=ids).groupby(level=0).indices


def in_blocks(tables: Iterable[Tables], depth: Cutoff) -> Iterator[tuple[list[int], Tables]]:
    """Yield (places, stacked tables) of questions with equally many perspectives, their lists cut to `depth`."""
    by_size = defaultdict[int, list[tuple[int, Tables]]](list)
    for place, table in enumerate(tables):
        cut = table._replace(
            listed=table.listed[:depth],
            own=table.own[:, :depth],
            judged=table.judged[:depth],
            gains=table.gains[:depth],
        )
        by_size[table.listed.shape[1]].append((place, cut))
    for same_size in by_size.values():
        cells = 0
        for name in ("listed", "pool", "own"):
            cells += max(getattr(table, name).size for _, table in same_size)
        step = max(1, CELLS_AT_ONCE // max(cells, 1))
        for start in range(0, len(same_size), step):
            places, block = zip(*same_size[start : start + step], strict=True)
            yield list(places), Tables(*map(_padded, zip(*block, strict=True)))


def _padded(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Stack arrays, each padded with False or 0 to the largest shape."""
    largest = np.max([array.shape for array in arrays], axis=0)
    stacked = np.zeros((len(arrays), *largest), dtype=arrays[0].dtype)
    for i, array in enumerate(arrays):
        corner: tuple[int | slice, ...] = (i, *(slice(n) for n in array.shape))
        stacked[corner] = array
    return stacked


# ---------------------------------------------------------------- gains


def novel_gains(listed: np.ndarray, alpha: float, weights: np.ndarray = _EQUAL_WEIGHTS) -> np.ndarray:
    """Return each passage's gain (…, n): the sum of weight x (1 - alpha) ^ times seen before over its perspectives."""
    seen_before = np.cumsum(listed, axis=-2, dtype=np.int32) - listed
    worth = (1.0 - alpha) ** np.arange(listed.shape[-2] + 1)
    return np.asarray((worth[seen_before] * listed * weights[..., None, :]).sum(axis=-1))


def ideal_gains(gains: np.ndarray, depth: int) -> np.ndarray:
    """Return the largest gains of (…, p) in descending order, (…, depth or less)."""
    return np.asarray(-np.sort(-gains, axis=-1)[..., :depth])


def ideal_novel_gains(
    pool: np.ndarray,
    alpha: float,
    depth: int,
    weights: np.ndarray = _EQUAL_WEIGHTS,
) -> np.ndarray:
    """Return the gains (…, depth or less) of the greedy ideal list from a pool (…, d, m), as ndeval does."""
    *lead, d, m = pool.shape
    by_perspective = np.ascontiguousarray(np.moveaxis(pool, -1, 0), dtype=np.float64)
    taken = np.zeros((*lead, d))
    worth = np.ones((*lead, m)) * weights
    gains = np.zeros((*lead, min(depth, d)))
    for place in range(gains.shape[-1]):
        # ndeval adds perspective by perspective. In another order, equal values can differ in their last bit, so that a
        # tie would go to another passage.
        value = taken.copy()
        for i in range(m):
            value += by_perspective[i] * worth[..., i, None]
        best = value.argmax(axis=-1)[..., None]
        gains[..., place] = np.take_along_axis(value, best, axis=-1)[..., 0]
        np.put_along_axis(taken, best, -np.inf, axis=-1)
        chosen = np.take_along_axis(pool, best[..., None], axis=-2)[..., 0, :]
        worth = np.where(chosen, worth * (1.0 - alpha), worth)
    return gains


def discounted(gains: np.ndarray) -> np.ndarray:
    """Return the discounted cumulative gain after each place, (…, n)."""
    discounts = np.log2(np.arange(2, gains.shape[-1] + 2))
    return np.asarray(np.cumsum(gains / discounts, axis=-1))


def per_rank(gains: np.ndarray) -> np.ndarray:
    """Divide each gain (…, n) by its rank."""
    return np.asarray(gains / np.arange(1, gains.shape[-1] + 1))


def ratio(value: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Return value / best, 0 where the best is 0."""
    value = np.asarray(value, dtype=np.float64)
    zeros = np.zeros(np.broadcast_shapes(value.shape, best.shape))
    return np.divide(value, best, out=zeros, where=best > 0)


def perspectives_seen(tables: Tables, weights: np.ndarray | None = None) -> np.ndarray:
    """Return how many perspectives are shown up to each place, (…, n), or the sum of their weights, if given."""
    seen = np.logical_or.accumulate(tables.listed, axis=-2)
    if weights is not None:
        seen = seen * weights[..., None, :]
    return np.asarray(seen.sum(axis=-1))


def value_at(curve: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Return the values of a cumulative curve (…, n) at cut-offs (…, c); beyond its end, its last value."""
    n = curve.shape[-1]
    if not n:
        return np.zeros(cuts.shape)
    return np.take_along_axis(curve, np.minimum(cuts, n) - 1, axis=-1)


def counts_at(of_group: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Return how many of the first `cuts` (c,) passages belong to each group: (…, c, g) from (…, n, g) bool."""
    running = np.cumsum(of_group, axis=-2, dtype=np.int32)
    n = running.shape[-2]
    if not n:
        return np.zeros((*of_group.shape[:-2], len(cuts), of_group.shape[-1]), dtype=np.int32)
    return np.asarray(running[..., np.minimum(cuts, n) - 1, :])
