"""What every retriever promises, and the ordering rule they share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from berdslib.data.records import Question, check_run, make_run, ranked_run
from berdslib.data.trec import read_run
from berdslib.errors import InputError

logger = logging.getLogger(__name__)


class Retriever(Protocol):
    """Finds passages for questions."""

    name: str

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question (columns qid, docno, rank, score)."""
        ...


class CheckedRetriever:
    """A retriever of the user's: what it finds is made a clean run, of what was asked, and is cut to k passages.

    It is put around such a retriever where that enters; nothing behind it checks a run again.
    """

    def __init__(self, name: str, retriever: Retriever) -> None:
        self.name = name
        self._retriever = retriever

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        run = run_of(self.name, self._retriever.search(questions, k))
        if others := set(run["qid"]) - {q.qid for q in questions}:
            raise InputError(f"{self.name}: lists passages for {min(others)!r}, which was not asked", field="qid")
        return run[run["rank"] <= k].reset_index(drop=True)


def warn_of_empty_lists(run: pd.DataFrame, questions: Sequence[Question], name: str) -> None:
    """Say for how many questions a system found nothing: a run has no rows for them."""
    asked = {q.qid for q in questions}
    if empty := len(asked - set(run["qid"])):
        logger.warning("%d of %d questions have no passage in %s", empty, len(asked), name)


def run_of(system: str, found: pd.DataFrame | Mapping[str, Any]) -> pd.DataFrame:
    """Check what a system found, a run, or qid → docnos, the best first, or → {docno: score}; a complaint names it."""
    try:
        if isinstance(found, Mapping):
            scored = any(isinstance(one, Mapping) and one for one in found.values())
            found = read_run(found) if scored else ranked_run(found)
        return check_run(found)
    except InputError as error:
        raise InputError(f"{system}: {error.problem}", field=error.field) from None


def docno_order(docnos: Sequence[str]) -> np.ndarray:
    """Return for each docno its place in alphabetical order, (n,) int64: the tie-breaker of every retriever."""
    place = np.empty(len(docnos), dtype=np.int64)
    place[np.argsort(np.array(docnos, dtype=object), kind="stable")] = np.arange(len(docnos))
    return place


def top_k(scores: np.ndarray, k: int, tie_order: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """Return the positions of the k best scores (n,), best first; equal scores in `tie_order` (n,), the smaller first.

    Where `allowed` (n,) bool is given, only positions that it marks are returned.

    >>> top_k(np.array([1.0, 3.0, 3.0, 2.0]), 2, np.array([0, 2, 1, 3])).tolist()
    [2, 1]
    """
    candidates = np.arange(len(scores)) if allowed is None else np.flatnonzero(allowed)
    if len(candidates) > k:
        # Everything that ties with the k-th best must stay in until the ties are broken.
        kth_best = np.partition(scores[candidates], len(candidates) - k)[len(candidates) - k]
        candidates = candidates[scores[candidates] >= kth_best]
    order = np.lexsort((tie_order[candidates], -scores[candidates]))
    return candidates[order[:k]]


def gather_run(
    questions: Sequence[Question], docno_of: Callable[[int], str], found: Sequence[tuple[np.ndarray, np.ndarray]]
) -> pd.DataFrame:
    """Build a run from one (positions, scores) pair per question; `docno_of` a position is its docno."""
    qids = [q.qid for q, (rows, _) in zip(questions, found, strict=True) for _ in rows]
    names = [docno_of(int(row)) for rows, _ in found for row in rows]
    scores = [float(s) for _, values in found for s in values]
    return make_run(qids, names, scores)


def joined(runs: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return clean runs of different questions as one."""
    both = pd.concat(runs, ignore_index=True) if runs else ranked_run({})
    return both.sort_values(["qid", "rank"], kind="stable", ignore_index=True)
