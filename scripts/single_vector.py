"""Can one query vector suffice? How many places single vectors need until they have found a question's gold passages.

The best vector there is is found by convex geometry; passages with the same text count as one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from berdslib.data.records import Passage, Question, check_questions, check_verdicts
from berdslib.errors import InputError
from berdslib.models.cards import Encoder
from berdslib.models.corpus_vectors import full_text

logger = logging.getLogger(__name__)

ALL_GOLD, ONE_EACH = "all gold passages", "one for each perspective"
TARGETS = (ALL_GOLD, ONE_EACH)
ANY = "any vector"
VECTORS = ("question", "mean of its perspectives", "mean of its gold", "best gold passage", ANY)
_ENOUGH = 1e-9  # by how much a vector must tell passages apart, in cosine
_NOWHERE = 1e-7  # how near to the origin a point counts as the origin
_ADDED = 50  # constraints that join in each round
_ROUNDS = 200


def places_needed(
    questions: Sequence[Question],
    gold: pd.DataFrame,
    passages: Sequence[Passage],
    encoder: Encoder,
    *,
    text_of: Callable[[Passage], str] = full_text,
) -> pd.DataFrame:
    """Return how many places single vectors need until they have found a question's gold passages.

    Frame qid, target (all gold passages, or one for each perspective), vector, gold (how many passages count as such),
    places (the rank at which the target is reached). Of "any vector" it is exact where it equals the number of passages
    of the target; else it is not known, and inf. Questions are left out of whose perspectives one has no gold passage.
    """
    texts, of_question = gold_rows(questions, gold, passages, text_of)
    corpus = unit(encoder.encode_passages(texts))
    asked = [q for q in questions if q.qid in of_question]
    own = unit(encoder.encode_queries([q.text for q in asked]))
    stated = unit(encoder.encode_queries([text for q in asked for text in q.perspectives]))
    starts = np.cumsum([0] + [len(q.perspectives) for q in asked])
    rows = []
    for i, question in enumerate(asked):
        by_pid = of_question[question.qid]
        every = np.unique(np.concatenate(by_pid))
        vectors = {
            "question": own[i : i + 1],
            "mean of its perspectives": stated[starts[i] : starts[i + 1]].mean(axis=0, keepdims=True),
            "mean of its gold": corpus[every].mean(axis=0, keepdims=True),
            "best gold passage": corpus[every],
        }
        for name, several in vectors.items():
            best = np.min([_needed(corpus @ vector, by_pid, every) for vector in several], axis=0)
            rows += [(question.qid, t, name, len(every), float(p)) for t, p in zip(TARGETS, best, strict=True)]
        rows += [
            (question.qid, t, ANY, len(every), p)
            for t, p in zip(TARGETS, _by_any_vector(corpus, by_pid, every), strict=True)
        ]
    return pd.DataFrame(rows, columns=["qid", "target", "vector", "gold", "places"])


def share_within(needed: pd.DataFrame, ks: Sequence[int]) -> pd.DataFrame:
    """Return the share of questions whose target a vector reaches within k places, a column for each k.

    The row "possible" of all gold passages is the share of questions that have no more than k of them.
    """
    rows = []
    for target in TARGETS:
        part = needed[needed["target"] == target]
        smallest = part[part["vector"] == ANY].set_index("qid")
        for vector in VECTORS:
            places = part.loc[part["vector"] == vector, "places"].to_numpy()
            rows.append((target, vector, len(places), *((places <= k).mean() for k in ks)))
        if target == ALL_GOLD:
            rows.append((target, "possible", len(smallest), *((smallest["gold"] <= k).mean() for k in ks)))
    return pd.DataFrame(rows, columns=["target", "vector", "n", *ks])


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return vectors of length 1, float64."""
    vectors = np.asarray(vectors, dtype=np.float64)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def gold_rows(
    questions: Sequence[Question],
    gold: pd.DataFrame,
    passages: Sequence[Passage],
    text_of: Callable[[Passage], str],
) -> tuple[list[str], dict[str, list[np.ndarray]]]:
    """Return the different texts, and qid → for each perspective which of them are gold, where each has one."""
    check_questions(questions, need_perspectives=True)
    row_of_text: dict[str, int] = {}
    row_of = {p.docno: row_of_text.setdefault(text_of(p), len(row_of_text)) for p in passages}
    yes = check_verdicts(gold).query("supports")
    found: dict[tuple[str, int], set[int]] = {}
    for qid, pid, docno in zip(yes["qid"], yes["pid"], yes["docno"], strict=True):
        if docno in row_of:
            found.setdefault((qid, int(pid)), set()).add(row_of[docno])
    of_each = {q.qid: [sorted(found.get((q.qid, pid), ())) for pid in range(len(q.perspectives))] for q in questions}
    complete = {qid: [np.array(rows) for rows in several] for qid, several in of_each.items() if all(several)}
    if not complete:
        raise InputError("no question has a gold passage in the corpus for each of its perspectives", field="gold")
    return list(row_of_text), complete


def _needed(scores: np.ndarray, by_pid: Sequence[np.ndarray], every: np.ndarray) -> tuple[float, float]:
    """Return the place of the last gold passage, and the first place at which each perspective has had one."""

    # Of equal scores the gold passage comes last: no place is claimed that a tie might take away.
    def place(row: int) -> int:
        return int((scores >= scores[row]).sum())

    of_each = [place(int(rows[scores[rows].argmax()])) for rows in by_pid]
    return float(place(int(every[scores[every].argmin()]))), float(max(of_each))


def _by_any_vector(corpus: np.ndarray, by_pid: Sequence[np.ndarray], every: np.ndarray) -> tuple[float, float]:
    """Return the places that the best vector there is needs, inf where none has the passages before all others."""
    whole = len(every) if separating_vector(corpus, every) is not None else np.inf
    # For each perspective the passage that is nearest to the others: one choice that works is enough.
    centre = corpus[every].mean(axis=0)
    few = np.unique([rows[(corpus[rows] @ centre).argmax()] for rows in by_pid])
    return float(whole), float(len(few)) if separating_vector(corpus, few) is not None else float(whole)


def separating_vector(corpus: np.ndarray, wanted: np.ndarray) -> np.ndarray | None:
    """Return a vector (d,) whose dot product with every wanted row of the corpus (n, d) is larger than with any other.

    None if the convex hull of the differences (wanted - other) holds the origin; else the hull's point nearest to it is
    one, found by cutting planes. Source: the support vector machine of Boser, Guyon and Vapnik (1992), in geometric
    form.
    """
    inside, others = corpus[wanted], np.delete(corpus, wanted, axis=0)
    if not len(others):
        return np.asarray(inside.mean(axis=0))
    vector, active = inside.mean(axis=0), np.empty((0, corpus.shape[1]))
    for _ in range(_ROUNDS):
        low = inside @ vector
        high = others @ vector
        if low.min() - high.max() > _ENOUGH:
            return np.asarray(vector / np.linalg.norm(vector))
        worst = np.argsort(-high)[:_ADDED]
        lowest = np.argsort(low)[: max(1, _ADDED // 10)]
        added = (inside[lowest, None, :] - others[None, worst, :]).reshape(-1, corpus.shape[1])
        margin = added @ vector
        active = np.vstack([active, added[np.argsort(margin)[:_ADDED]]])
        vector, kept = _nearest_to_origin(active)
        active = active[kept]
        if np.linalg.norm(vector) < _NOWHERE:
            return None
    logger.warning("no vector was found in %d rounds, and none was ruled out", _ROUNDS)
    return None


def _nearest_to_origin(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the point of the convex hull of points (n, d) that is nearest to the origin, and which points make it."""
    from scipy.optimize import nnls

    # min |points' a|² with a >= 0 and sum(a) = 1, the sum as one heavily weighted equation; then scaled to be exact.
    heavy = 1e3
    table = np.vstack([points.T, np.full((1, len(points)), heavy)])
    weights, _ = nnls(table, np.append(np.zeros(points.shape[1]), heavy))
    weights /= weights.sum()
    return weights @ points, np.flatnonzero(weights > 0)
