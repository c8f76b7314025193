"""The best list that a diversifier could have made of a run's candidates, had it known the verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from berdslib.data.records import Question, check_k, ranked_run
from berdslib.evaluation.measures import checked
from berdslib.evaluation.tables import question_tables

EXACT_UP_TO = 12  # perspectives: the table has a column for each set of them


def oracle(
    run: pd.DataFrame, verdicts: pd.DataFrame, questions: Sequence[Question], k: int, *, depth: int = 100
) -> pd.DataFrame:
    """Choose the best k of each question's first `depth` candidates, as a run: what no reordering of them can beat.

    Best is, first, to cover as many perspectives as MRecall@k asks for (divergences.md B2), or else all that the
    candidates show; then Precision@k; then the earlier ranks. Exact for up to 12 perspectives, by dynamic programming
    over sets of them; beyond, coverage is greedy, and only other lists as good by both measures may have earlier ranks.

    Raises:
        InputError: k or depth is no whole number from 1, a question without perspectives, a frame that is no run or no
            verdicts, a run or verdicts of other questions, or a verdict on a perspective that does not exist.
    """
    check_k(k)
    check_k(depth, "depth")
    run, verdicts = checked(run, verdicts, questions)
    docnos = run.groupby("qid")["docno"].agg(list).to_dict()
    tables = question_tables(run, verdicts, questions)
    best = {q.qid: best_rows(table.listed[:depth], k) for q, table in zip(questions, tables, strict=True)}
    return ranked_run({qid: [docnos[qid][row] for row in rows] for qid, rows in best.items()})


def best_rows(shows: np.ndarray, k: int) -> list[int]:
    """Return which k rows of (candidates, perspectives) bool make the best list, ascending; see :func:`oracle`."""
    # A list with a passage that shows nothing, while one that shows something is left out, can be bettered by
    # exchanging them: so passages that show something come first, and only among them is there a choice to make.
    useful, useless = np.flatnonzero(shows.any(axis=1)), np.flatnonzero(~shows.any(axis=1))
    if len(useful) > k:
        choose = _exact if shows.shape[1] <= EXACT_UP_TO else _greedy
        return useful[choose(shows[useful], k)].tolist()
    return sorted([*useful.tolist(), *useless[: k - len(useful)].tolist()])


def _exact(shows: np.ndarray, k: int) -> np.ndarray:
    """Take each passage, in order, without which the rest could still fill all that is asked for."""
    sets = shows @ (1 << np.arange(shows.shape[1]))  # a set of perspectives as a number, bit by bit
    every = np.arange(1 << shows.shape[1])
    size = (every[:, None] >> np.arange(shows.shape[1]) & 1).sum(axis=1)
    # Taking one passage for each perspective, k passages can always show k of them, or all there are.
    needed = _needed(sets, every, size, min(k, int(shows.any(axis=0).sum())))
    taken: list[int] = []
    covered = 0
    for row, shown in enumerate(sets):
        if len(taken) < k and needed[row + 1, covered | shown] <= k - len(taken) - 1:
            taken.append(row)
            covered |= shown
    return np.array(taken)


def _needed(sets: np.ndarray, every: np.ndarray, size: np.ndarray, wanted: int) -> np.ndarray:
    """Return how many passages from the i-th on it takes, set s being covered, to cover `wanted`: (n + 1, 2^m)."""
    needed = np.empty((len(sets) + 1, len(every)), dtype=np.int64)
    needed[-1] = np.where(size >= wanted, 0, len(sets) + 1)  # more than there are: it cannot be done
    for row in range(len(sets) - 1, -1, -1):
        needed[row] = np.minimum(needed[row + 1], 1 + needed[row + 1, every | sets[row]])
    return needed


def _greedy(shows: np.ndarray, k: int) -> np.ndarray:
    """Take k times what shows most that is not yet covered, the earliest of equals; nothing new: the earliest left."""
    left, uncovered = np.ones(len(shows), dtype=bool), np.ones(shows.shape[1], dtype=bool)
    for _ in range(k):
        enough = (~uncovered).sum() >= k
        new = np.zeros(len(shows), dtype=np.int64) if enough else (shows & uncovered).sum(axis=1)
        best = int(np.where(left, new, -1).argmax())
        left[best] = False
        uncovered &= ~shows[best]
    return np.flatnonzero(~left)
