"""Ranked passages x perspectives as tables of true and false, and the measures as arithmetic over many at once.

A measure is a few lines over a table (n, m), true where a passage supports a perspective, and those lines work on any
leading dimensions: the tables of many questions, (q, n, m), are scored together. Rows of False stand for passages that
support nothing, and fill up the tables of questions with fewer passages; they change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.records import Question, list_ids, perspective_qid
from berdslib.errors import InputError

# Cells of the tables that are scored together: some 100 MB in double precision, and enough to keep numpy busy.
BLOCK = 2_000_000

# How many passages of a list a measure looks at; None for all.
Cutoff = int | None


class QuestionTable(NamedTuple):
    """One question's ranked passages and judged pool, as tables passage x perspective.

    ``listed`` bool (n, m): the run, best first. ``pool`` bool (d, m): every passage that supports at least one
    perspective, the largest docno first; the ideal lists of nDCG and alpha-nDCG are drawn from it, and of equally
    good passages the first is taken, as ndeval does. ``own`` for each perspective the list that was found when the
    question was asked from it, bool (n, m) too: only p-Recall looks there.
    """

    listed: np.ndarray
    pool: np.ndarray
    own: tuple[np.ndarray, ...] = ()


class Pool(NamedTuple):
    """The passages that support a perspective, of many questions.

    ``counts`` int (…, m): how many passages support each perspective. ``rows`` bool (…, d, m): the passages, the
    largest docno first; None where no passage supports two perspectives, and the counts say it all.
    """

    counts: np.ndarray
    rows: np.ndarray | None

    def passages(self) -> np.ndarray:
        """Return how many passages there are, (…,)."""
        return np.asarray(self.counts.sum(axis=-1) if self.rows is None else self.rows.any(axis=-1).sum(axis=-1))


class Tables(NamedTuple):
    """The tables of many questions with as many perspectives each.

    ``listed`` bool (…, n, m): the runs, best first; what is listed and supports a perspective is in the pool.
    ``length`` int (…,): how long each list is. ``own`` bool (…, m, n', m): the lists found from each perspective.
    """

    listed: np.ndarray
    length: np.ndarray
    pool: Pool
    own: np.ndarray = np.zeros((1, 0, 1), dtype=bool)


# ---------------------------------------------------------------- from frames to tables


def check_not_taken(name: str, datasets: Iterable[str | None]) -> None:
    """Raise InputError for a data set called as the row of all of them together is."""
    if name in datasets:
        raise InputError(f"a data set is called {name!r}, as is the row of all together; rename it", field="source")


def question_tables(
    run: pd.DataFrame, verdicts: pd.DataFrame, questions: Sequence[Question]
) -> Iterator[QuestionTable]:
    """Yield for each question, in order, its ranked passages and its pool as tables passage x perspective.

    The frames are taken as :func:`berdslib.data.records.check_run` and ``check_verdicts`` return them.

    Raises:
        InputError: a verdict on a perspective that a question does not have.
    """
    number = {q.qid: i for i, q in enumerate(questions)}
    lists = {list_id: i for i, list_id in enumerate(list_ids(questions))}
    sizes, owner = (
        np.array([len(q.perspectives) for q in questions]),
        list(map(number.get, list_ids(questions).values())),
    )
    of_yes, of_list = _places_of(verdicts["qid"], number), _places_of(run["qid"], lists)
    yes, listed = np.flatnonzero(verdicts["supports"].to_numpy(dtype=bool) & (of_yes >= 0)), of_list >= 0
    of_yes, of_list, pids = of_yes[yes], of_list[listed], verdicts["pid"].to_numpy(dtype=np.int64)[yes]
    wrong = (pids < 0) | (pids >= sizes[of_yes])
    if wrong.any():
        first = of_yes[wrong].min()
        least = pids[wrong & (of_yes == first)].min()
        raise InputError(
            f"question {questions[first].qid!r} has {sizes[first]} perspectives, but a verdict has pid {least}"
        )
    best_first = np.lexsort((run["rank"].to_numpy()[listed], of_list))
    docnos = [run["docno"].to_numpy(dtype=object)[listed], verdicts["docno"].to_numpy(dtype=object)[yes]]
    codes, known_docnos = pd.factorize(np.concatenate(docnos), sort=True)
    n = len(known_docnos)
    # A passage of a question is a number; those that support something have a row each, all others the last one.
    passages = np.array(owner)[of_list] * n + codes[: len(of_list)]
    pairs, place = np.unique(of_yes * n + codes[len(of_list) :], return_inverse=True)
    supports = np.zeros((len(pairs) + 1, sizes.max()), dtype=bool)
    supports[place, pids] = True
    row = np.searchsorted(pairs, passages)
    row[np.append(pairs, -1)[row] != passages] = len(pairs)
    row = row[best_first]
    ends = np.searchsorted(of_list[best_first], np.arange(len(lists) + 1))
    in_pool = np.searchsorted(pairs, np.arange(len(questions) + 1) * n)
    for i, (q, m) in enumerate(zip(questions, sizes, strict=True)):
        ids = [lists[q.qid], *(lists[perspective_qid(q.qid, pid)] for pid in range(m))]
        shown_by, *own = (supports[row[ends[j] : ends[j + 1]], :m] for j in ids)
        yield QuestionTable(shown_by, supports[in_pool[i] : in_pool[i + 1], :m][::-1], tuple(own))


def _places_of(ids: pd.Series, among: Mapping[str, int]) -> np.ndarray:
    """Return the place of each id, -1 where it has none."""
    return np.array([among.get(one, -1) for one in ids.tolist()], dtype=np.int64)


def pair_numbers(*frames: pd.DataFrame) -> list[np.ndarray]:
    """Return a number for each row's (qid, docno), equal where both are equal, also in different frames."""
    qids, docnos = (
        pd.factorize(np.concatenate([frame[column].to_numpy(dtype=object) for frame in frames]))[0].astype(np.int64)
        for column in ("qid", "docno")
    )
    numbers = qids * (docnos.max(initial=0) + 1) + docnos
    return np.split(numbers, np.cumsum([len(frame) for frame in frames])[:-1])


def in_blocks(tables: Iterable[QuestionTable], depth: Cutoff) -> Iterator[tuple[list[int], Tables]]:
    """Yield blocks of questions with as many perspectives each: (their places in `tables`, their tables stacked).

    Args:
        tables: one for each question.
        depth: how much of each list will be looked at; None for all.
    """
    waiting: dict[int, list[tuple[int, QuestionTable]]] = {}
    tallest: dict[int, np.ndarray] = {}
    for place, table in enumerate(tables):
        m = table.listed.shape[1]
        block, heights = waiting.setdefault(m, []), _heights(table, depth)
        together = np.maximum(tallest.get(m, heights), heights)
        if block and (len(block) + 1) * m * together.sum() > BLOCK:
            yield _unzipped(block, depth)
            waiting[m], together = [], heights
        waiting[m].append((place, table))
        tallest[m] = together
    for block in waiting.values():
        yield _unzipped(block, depth)


def _unzipped(block: Sequence[tuple[int, QuestionTable]], depth: Cutoff) -> tuple[list[int], Tables]:
    places, tables = zip(*block, strict=True)
    return list(places), stack(tables, depth)


def _heights(table: QuestionTable, depth: Cutoff) -> np.ndarray:
    """Return how many rows a question's list, its pool, and the lists of all its perspectives need, (3,)."""
    longest = max((len(one[:depth]) for one in table.own), default=0)
    return np.array([len(table.listed[:depth]), len(table.pool), longest * table.listed.shape[1]])


def stack(tables: Sequence[QuestionTable], depth: Cutoff = None) -> Tables:
    """Stack the tables of questions with as many perspectives each.

    Args:
        tables: at least one.
        depth: how much of each list to keep; None for all.
    """
    n, m = len(tables), tables[0].listed.shape[1]
    heights = np.max([_heights(table, depth) for table in tables], axis=0)
    listed, rows = (np.zeros((n, height, m), dtype=bool) for height in heights[:2])
    own = np.zeros((n, m, heights[2] // m, m), dtype=bool)
    for i, table in enumerate(tables):
        top = table.listed[:depth]
        listed[i, : len(top)], rows[i, : len(table.pool)] = top, table.pool
        for pid, one in enumerate(table.own):
            own[i, pid, : len(one[:depth])] = one[:depth]
    several = bool((rows.sum(axis=-1) > 1).any())
    pool = Pool(rows.sum(axis=-2), rows if several else None)
    return Tables(listed, np.array([len(t.listed) for t in tables]), pool, own)


# ---------------------------------------------------------------- gains


def novel_gains(listed: np.ndarray, alpha: float) -> np.ndarray:
    """Return each passage's gain: for each perspective it supports (1 - alpha) ^ times seen before.

    Args:
        listed: (…, n, m) bool.
        alpha: from 0 to 1.

    Returns:
        (…, n) float64.
    """
    seen_before = np.cumsum(listed, axis=-2, dtype=np.int32) - listed
    worth = (1.0 - alpha) ** np.arange(listed.shape[-2] + 1)
    return np.asarray((worth[seen_before] * listed).sum(axis=-1))


def ideal_gains(pool: Pool, depth: int) -> np.ndarray:
    """Return how many perspectives each passage of the best order supports, (…, depth or less)."""
    if pool.rows is None:
        n = pool.passages()
        return np.asarray(np.arange(min(depth, int(n.max(initial=0)))) < n[..., None], dtype=np.float64)
    return np.asarray(-np.sort(-pool.rows.sum(axis=-1), axis=-1)[..., :depth])


def ideal_novel_gains(pool: Pool, alpha: float, depth: int) -> np.ndarray:
    """Return the gains of the greedy ideal list (finding the true one is NP-hard; ndeval is greedy too).

    Args:
        pool: the passages to choose from.
        alpha: from 0 to 1.
        depth: how many to choose.

    Returns:
        (…, depth or less) float64.
    """
    if pool.rows is None:
        return _ideal_of_counts(pool.counts, alpha, depth)
    return _greedy(pool.rows, alpha, depth)


def _ideal_of_counts(counts: np.ndarray, alpha: float, depth: int) -> np.ndarray:
    """Return the ideal gains where no passage supports two perspectives: no choice touches another's worth.

    A perspective's passages are worth 1, (1 - alpha), (1 - alpha)², …, whichever comes first, and the best come first:
    there are as many of (1 - alpha)^j as there are perspectives with more than j passages.
    """
    flat = counts.reshape(-1, counts.shape[-1])
    n = flat.sum(axis=-1)
    depth = min(depth, int(n.max(initial=0)))
    levels = np.arange(min(depth, int(flat.max(initial=0))))
    ends = np.cumsum((flat[:, None, :] > levels[:, None]).sum(axis=-1), axis=-1)
    # The level rises by one at the place where the one before it ends.
    at = np.arange(len(flat))[:, None] * (depth + 1) + np.minimum(ends, depth)
    rises = np.bincount(at.ravel(), minlength=len(flat) * (depth + 1)).reshape(len(flat), depth + 1)
    level = np.cumsum(rises[:, :depth], axis=1)
    gains = (np.arange(depth) < n[:, None]) * (1.0 - alpha) ** level
    return np.asarray(gains.reshape(*counts.shape[:-1], depth))


def _greedy(rows: np.ndarray, alpha: float, depth: int) -> np.ndarray:
    *lead, d, m = rows.shape
    supports = np.ascontiguousarray(np.moveaxis(rows, -1, 0), dtype=np.float64)  # a perspective after the other
    taken, worth = np.zeros((*lead, d)), np.ones((*lead, m))
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
        chosen = np.take_along_axis(rows, best[..., None], axis=-2)[..., 0, :]
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
    value, best = np.asarray(value, dtype=np.float64), np.asarray(best)
    return np.divide(value, best, out=np.zeros(np.broadcast_shapes(value.shape, best.shape)), where=best > 0)


def shown(tables: Tables) -> np.ndarray:
    """Return how many perspectives have been shown after each place, (…, n)."""
    return np.asarray(np.logical_or.accumulate(tables.listed, axis=-2).sum(axis=-1))


def places(tables: Tables, ks: Sequence[Cutoff]) -> list[int | np.ndarray]:
    """Return the cut-offs as numbers; for None, the length of each list, (…,), at least 1."""
    return [np.maximum(tables.length, 1) if k is None else k for k in ks]


def deepest_of(cuts: Sequence[int | np.ndarray]) -> int:
    """Return the largest of some cut-offs."""
    return max(int(np.max(k)) for k in cuts)


def at(curve: np.ndarray, k: int | np.ndarray) -> np.ndarray:
    """Return what a curve (…, n) has gathered after k places, (…,): where it ends before, nothing more comes."""
    n = curve.shape[-1]
    if not n:
        return np.zeros(curve.shape[:-1])
    place = np.minimum(k, n) - 1
    if np.ndim(place) == 0:
        return np.asarray(curve[..., place])
    return np.asarray(np.take_along_axis(curve, place[..., None], axis=-1)[..., 0])


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
