"""The interface of a retriever, and the ordering rule that all retrievers share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from berdslib.data.records import AnyQuery, check_run, make_run, ranked_run, some_of
from berdslib.data.trec import read_run
from berdslib.errors import InputError

logger = logging.getLogger(__name__)


class Retriever(Protocol):
    """Finds passages for questions and for queries made from them."""

    name: str

    def search(self, questions: Sequence[AnyQuery], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question (columns qid, docno, rank, score)."""
        ...


class CheckedRetriever:
    """Wraps a retriever of the user's: checks its run, refuses questions that were not searched, and keeps k passages.

    Later code does not check the run again.
    """

    def __init__(self, name: str, retriever: Retriever) -> None:
        self.name = name
        self._retriever = retriever

    def search(self, questions: Sequence[AnyQuery], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        run = run_of(self.name, self._retriever.search(questions, k))
        others = set(run["qid"].unique()) - {question.qid for question in questions}
        if others:
            problem = f"{self.name}: the run has passages for {min(others)!r}, which is not among the questions"
            raise InputError(problem, field="qid")
        return run[run["rank"] <= k].reset_index(drop=True)


def warn_of_empty_lists(run: pd.DataFrame, questions: Sequence[AnyQuery], name: str) -> None:
    """Log a warning with the number of questions for which a system found nothing; a run has no rows for them."""
    qids = {question.qid for question in questions}
    empty = qids - set(run["qid"].unique())
    if empty:
        logger.warning("%s no passage in %s", some_of(len(empty), len(qids), "question", "have"), name)


def run_of(system: str, found: pd.DataFrame | Mapping[str, Any]) -> pd.DataFrame:
    """Return a checked run from a run, {qid: docnos, best first} or {qid: {docno: score}}; errors name the system."""
    try:
        if isinstance(found, Mapping):
            scored = any(isinstance(ranking, Mapping) and ranking for ranking in found.values())
            found = read_run(found) if scored else ranked_run(found)
        return check_run(found)
    except InputError as error:
        raise InputError(f"{system}: {error.problem}", field=error.field) from None


def docno_order(docnos: Sequence[str]) -> np.ndarray:
    """Return the place of each docno in alphabetical order, int64 (n,): every retriever breaks ties by it."""
    alphabetical = np.argsort(np.array(docnos, dtype=object), kind="stable")
    places = np.empty(len(docnos), dtype=np.int64)
    places[alphabetical] = np.arange(len(docnos))
    return places


def top_k(scores: np.ndarray, k: int, tie_order: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """Return the positions of the k best scores (n,), best first; the smaller `tie_order` (n,) wins a tie.

    `allowed`, bool (n,), limits the result to the positions that it marks.

    >>> top_k(np.array([1.0, 3.0, 3.0, 2.0]), 2, np.array([0, 2, 1, 3])).tolist()
    [2, 1]
    """
    candidates = np.arange(len(scores)) if allowed is None else np.flatnonzero(allowed)
    if len(candidates) > k:
        # Ties with the k-th best score are broken below, so all of them must stay candidates.
        worse = len(candidates) - k
        kth_best = np.partition(scores[candidates], worse)[worse]
        candidates = candidates[scores[candidates] >= kth_best]
    order = np.lexsort((tie_order[candidates], -scores[candidates]))
    return candidates[order[:k]]


def gather_run(
    questions: Sequence[AnyQuery], docno_of: Callable[[int], str], found: Sequence[tuple[np.ndarray, np.ndarray]]
) -> pd.DataFrame:
    """Build a run from a (positions, scores) pair per question; `docno_of` maps a position to its docno."""
    qids = []
    docnos = []
    scores = []
    for question, (positions, values) in zip(questions, found, strict=True):
        qids += [question.qid] * len(positions)
        docnos += [docno_of(int(position)) for position in positions]
        scores += [float(value) for value in values]
    return make_run(qids, docnos, scores)


def joined(runs: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Join checked runs of different questions into one run."""
    both = pd.concat(runs, ignore_index=True) if runs else ranked_run({})
    return both.sort_values(["qid", "rank"], kind="stable", ignore_index=True)
