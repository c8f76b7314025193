"""The best list that a diversifier could choose from a run's candidates if it knew the verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from berdslib.data.records import Question, check_k, ranked_run
from berdslib.evaluation.measures import checked
from berdslib.evaluation.tables import question_tables

EXACT_UP_TO = 12  # perspectives: the exact table has a column for each set of them


def oracle(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    k: int,
    *,
    depth: int = 100,
) -> pd.DataFrame:
    """Choose the best k of each question's first `depth` candidates, as a run that no reordering of them can beat.

    The best list covers as many perspectives as MRecall@k requires (divergences.md B2), or all that the candidates
    show; of these lists it has the highest Precision@k, and then the earliest ranks. For up to 12 perspectives the
    choice is exact, by dynamic programming over sets of perspectives. For more, the choice is greedy: it is as good by
    both measures, but another list that is equally good may have earlier ranks.

    Raises:
        InputError: k or depth is not a positive whole number, a question without perspectives, an invalid run or
            verdicts, a run or verdicts of other questions, or a verdict on a perspective that does not exist.
    """
    check_k(k)
    check_k(depth, "depth")
    run, verdicts = checked(run, verdicts, questions)
    docnos = run.groupby("qid")["docno"].agg(list).to_dict()
    tables = question_tables(run, verdicts, questions)
    lists = {}
    for question, table in zip(questions, tables, strict=True):
        rows = best_rows(table.listed[:depth], k)
        lists[question.qid] = [docnos[question.qid][row] for row in rows]
    return ranked_run(lists)


def best_rows(shows: np.ndarray, k: int) -> list[int]:
    """Return the k rows of (candidates, perspectives) bool that make the best list, ascending; see :func:`oracle`."""
    # A list gets better if a passage that shows a perspective replaces a passage that shows none, so the former are
    # taken first.
    shows_any = shows.any(axis=1)
    useful = np.flatnonzero(shows_any)
    useless = np.flatnonzero(~shows_any)
    if len(useful) > k:
        choose = _exact if shows.shape[1] <= EXACT_UP_TO else _greedy
        return useful[choose(shows[useful], k)].tolist()
    return sorted([*useful.tolist(), *useless[: k - len(useful)].tolist()])


def _exact(shows: np.ndarray, k: int) -> np.ndarray:
    """Take passages in order, except those after which the rest could not cover the required perspectives."""
    bits = np.arange(shows.shape[1])
    sets = shows @ (1 << bits)  # each set of perspectives as a number, one bit per perspective
    all_sets = np.arange(1 << len(bits))
    sizes = (all_sets[:, None] >> bits & 1).sum(axis=1)
    # k passages, one for each perspective, can always show k perspectives, or all that the passages show.
    required = min(k, int(shows.any(axis=0).sum()))
    needed = _needed(sets, all_sets, sizes, required)
    taken: list[int] = []
    covered = 0
    for row, shown in enumerate(sets):
        if len(taken) < k and needed[row + 1, covered | shown] <= k - len(taken) - 1:
            taken.append(row)
            covered |= shown
    return np.array(taken)


def _needed(sets: np.ndarray, all_sets: np.ndarray, sizes: np.ndarray, required: int) -> np.ndarray:
    """Return how many passages from row i on are needed to cover `required` if set s is covered: (n + 1, 2^m)."""
    needed = np.empty((len(sets) + 1, len(all_sets)), dtype=np.int64)
    impossible = len(sets) + 1
    needed[-1] = np.where(sizes >= required, 0, impossible)
    for row in range(len(sets) - 1, -1, -1):
        with_row = 1 + needed[row + 1, all_sets | sets[row]]
        needed[row] = np.minimum(needed[row + 1], with_row)
    return needed


def _greedy(shows: np.ndarray, k: int) -> np.ndarray:
    """Take, k times, the passage with the most uncovered perspectives; ties go to the earliest passage."""
    left = np.ones(len(shows), dtype=bool)
    uncovered = np.ones(shows.shape[1], dtype=bool)
    for _ in range(k):
        new = (shows & uncovered).sum(axis=1)
        if (~uncovered).sum() >= k:  # MRecall requires no more
            new = np.zeros(len(shows), dtype=np.int64)
        best = int(np.where(left, new, -1).argmax())
        left[best] = False
        uncovered &= ~shows[best]
    return np.flatnonzero(~left)
