"""The input of a diversifier: lists as padded arrays, relevance on one scale, features of the passages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.errors import InputError, known

# From docno to vector; or from docnos to their vectors, (n, d).
Vectors = Mapping[str, Any] | Callable[[list[str]], Any]

ASPECT_COLUMNS = ["qid", "pid", "docno", "p"]
_SIMILARITIES_AT_ONCE = 2**24  # numbers in the similarity matrices of one block of questions: 64 MiB
_LARGEST = 1e15  # in size, of a normalised score, so that single precision can hold its square


class Features(NamedTuple):
    """What the passages of a run are compared by.

    ``table`` (d, f) vectors float32, or probabilities float64 with one column an aspect; ``at`` int (rows,) the
    row in ``table`` of each row of the run, one for all equal vectors; ``aspects`` int (q,) how many each question has.
    """

    table: np.ndarray
    at: np.ndarray
    aspects: np.ndarray


class Block(NamedTuple):
    """Questions whose lists are about equally long, padded to the longest of them.

    ``qids`` str (q,); ``relevance`` float64 (q, n) normalised scores, best rank first; ``present`` bool (q, n) false
    where a list is shorter; ``features`` (d, f) the table of :class:`Features`; ``at`` int (q, n) the row in it of each
    candidate; ``aspects`` int (q,) how many each question has.
    """

    qids: np.ndarray
    relevance: np.ndarray
    present: np.ndarray
    features: np.ndarray
    at: np.ndarray
    aspects: np.ndarray


# ---------------------------------------------------------------- relevance


class _Lists(NamedTuple):
    """A run's scores (rows,) float64; where each question's list ``starts``, how ``long`` it is, and ``of_row``."""

    scores: np.ndarray
    starts: np.ndarray
    long: np.ndarray
    of_row: np.ndarray


def _lists(clean: pd.DataFrame) -> _Lists:
    starts = np.flatnonzero(clean["rank"].to_numpy() == 1)
    long = np.diff(np.append(starts, len(clean)))
    return _Lists(clean["score"].to_numpy(), starts, long, np.repeat(np.arange(len(starts)), long))


def _by_largest(scores: np.ndarray, largest: np.ndarray, smallest: np.ndarray) -> np.ndarray:
    """Divide by the largest score; by the largest in size where none is positive, so that better stays higher."""
    size = np.where(largest > 0, largest, -smallest)
    # Below the smallest normal number of single precision, scores are zeros whose ties were set apart.
    empty = size < np.finfo(np.float32).tiny
    return np.where(empty, 0.0, scores / np.where(empty, 1.0, size))


def _max_per_dataset(lists: _Lists) -> np.ndarray:
    return _by_largest(lists.scores, lists.scores.max(), lists.scores.min())


def _max_per_question(lists: _Lists) -> np.ndarray:
    largest, smallest = (ends[lists.of_row] for ends in _ends(lists))
    return _by_largest(lists.scores, largest, smallest)


def _minmax(lists: _Lists) -> np.ndarray:
    largest, smallest = _ends(lists)
    spread = np.where(_constant(lists), np.inf, largest - smallest)
    return (lists.scores - smallest[lists.of_row]) / spread[lists.of_row]


def _zscore(lists: _Lists) -> np.ndarray:
    largest, smallest = _ends(lists)
    middle = (largest / 2 + smallest / 2)[lists.of_row]
    away = lists.scores - middle  # from a number nearby, so that little is lost
    away = away - (np.add.reduceat(away, lists.starts) / lists.long)[lists.of_row]
    deviation = np.sqrt(np.add.reduceat(away**2, lists.starts) / lists.long)
    return away / np.where(_constant(lists), np.inf, deviation)[lists.of_row]


def _rank(lists: _Lists) -> np.ndarray:
    rank = np.arange(len(lists.scores)) - lists.starts[lists.of_row]
    return 1 - rank / lists.long[lists.of_row]


def _ends(lists: _Lists) -> tuple[np.ndarray, np.ndarray]:
    """Return each list's largest and smallest score: its first and last."""
    return lists.scores[lists.starts], lists.scores[lists.starts + lists.long - 1]


def _constant(lists: _Lists) -> np.ndarray:
    """Say which lists had one score throughout, before ties were set apart by the smallest steps that show."""
    largest, smallest = _ends(lists)
    step = np.spacing(np.maximum(np.abs(largest), np.abs(smallest)).astype(np.float32)).astype(np.float64)
    return largest - smallest <= (lists.long - 1) * step


# What becomes of scores before they are weighed (Sim1 of equation 1; divergences.md B3). "max_per_dataset": divided by
# the largest of the whole run (the paper, A.6); "max_per_question": by the largest of the list (the published code);
# "minmax": each list from 0 to 1; "zscore": each list to mean 0 and deviation 1; "rank": from 1 down to 1/n in equal
# steps. By "minmax" and "zscore" a list of one score throughout becomes 0.
NORMALISATIONS: dict[str, Callable[[_Lists], np.ndarray]] = {
    "max_per_dataset": _max_per_dataset,
    "max_per_question": _max_per_question,
    "minmax": _minmax,
    "zscore": _zscore,
    "rank": _rank,
}


def normalised(clean: pd.DataFrame, how: str) -> np.ndarray:
    """Return the scores of a clean run on one scale, float64 (rows,).

    Args:
        clean: a run as :func:`berdslib.data.records.check_run` returns it.
        how: a key of ``NORMALISATIONS``.

    Raises:
        InputError: an unknown normalisation.
    """
    scale = NORMALISATIONS[known("normalisation", how, NORMALISATIONS)]
    return np.clip(scale(_lists(clean)), -_LARGEST, _LARGEST) if len(clean) else np.empty(0)


# ---------------------------------------------------------------- from frames to blocks, and back


def blocks(clean: pd.DataFrame, normalise: str, features: Features) -> Iterator[tuple[np.ndarray, Block]]:
    """Yield the numbers of some questions, and the block they make, until all have been: the short lists first."""
    relevance = normalised(clean, normalise)
    if clean.empty:
        return
    lists = _lists(clean)
    qids = clean["qid"].to_numpy()[lists.starts]
    waiting = np.argsort(lists.long, kind="stable")
    while len(waiting):
        sizes = lists.long[waiting] ** 2 * np.arange(1, len(waiting) + 1)  # of the matrices, if a block ended here
        fit = max(1, int(np.searchsorted(sizes, _SIMILARITIES_AT_ONCE, side="right")))
        questions, waiting = waiting[:fit], waiting[fit:]
        place = np.arange(lists.long[questions[-1]])
        present = place < lists.long[questions][:, None]
        rows = np.where(present, lists.starts[questions][:, None] + place, 0)
        of_block = (features.table, features.at[rows], features.aspects[questions])
        yield questions, Block(qids[questions], relevance[rows], present, *of_block)


def reordered(clean: pd.DataFrame, found: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], k: int) -> pd.DataFrame:
    """Build the run from (numbers of questions, orders, values) of each block."""
    lists = _lists(clean)
    kept = np.minimum(lists.long, k) if k else lists.long
    starts = np.cumsum(kept) - kept
    rows, value = np.empty(kept.sum(), dtype=np.int64), np.empty(kept.sum())
    for questions, orders, values in found:
        place = np.arange(orders.shape[1])
        real = place < kept[questions][:, None]
        to = (starts[questions][:, None] + place)[real]
        rows[to], value[to] = (lists.starts[questions][:, None] + orders)[real], values[real]
    rank = np.arange(len(rows)) - np.repeat(starts, kept) + 1
    columns = {"rank": rank, "score": -rank.astype(np.float64), "value": value}
    return clean[["qid", "docno"]].take(rows).reset_index(drop=True).assign(**columns)


def no_features(clean: pd.DataFrame) -> Features:
    """Return features for a run whose order is to stay."""
    rows = np.zeros(len(clean), dtype=np.int64)
    return Features(np.zeros((1, 1), dtype=np.float32), rows, rows)


def vector_features(clean: pd.DataFrame, vectors: Vectors) -> Features:
    """Return the passages' vectors as they are, or scaled to length 1 where single precision could not square them.

    Raises:
        InputError: a passage without a vector, or one that is not finite; an array of the wrong shape.
    """
    at, found = pd.factorize(clean["docno"])
    docnos = [str(docno) for docno in found]
    if not docnos:
        return no_features(clean)
    table = np.asarray(vectors(docnos) if callable(vectors) else _looked_up(vectors, docnos), dtype=np.float32)
    if table.ndim != 2 or len(table) != len(docnos):
        raise InputError(f"{len(docnos)} passages need vectors of shape ({len(docnos)}, d), not {table.shape}")
    length = np.sqrt(np.einsum("ij,ij->i", table, table))
    if not ((length > 1e-15) & (length < 1e15)).all():
        table = _scaled(table, docnos)
    return Features(table, _first_alike(table)[at], np.zeros(len(clean), dtype=np.int64))


def _first_alike(table: np.ndarray) -> np.ndarray:
    """Return for each row of a float32 table the first row that equals it, which may be itself."""
    # Whole numbers that may overflow add up to the same in any order, so equal rows have equal keys.
    factors = np.random.default_rng(0).integers(2**32, size=table.shape[1], dtype=np.uint32)
    keys = pd.Series(np.einsum("ij,j->i", table.view(np.uint32), factors))
    alike, first = np.arange(len(table)), dict[bytes, int]()
    for row in np.flatnonzero(keys.duplicated(keep=False)).tolist():
        alike[row] = first.setdefault(table[row].tobytes(), row)
    return alike


def _scaled(table: np.ndarray, docnos: Sequence[str]) -> np.ndarray:
    """Return vectors of length 1 or 0, computed in double precision."""
    length = np.sqrt(np.einsum("ij,ij->i", table, table, dtype=np.float64))
    wrong = ~np.isfinite(length)
    if wrong.any():
        raise InputError(f"the vector of passage {docnos[int(wrong.argmax())]!r} has a value that is not finite")
    return (table / np.where(length > 0, length, 1)[:, None]).astype(np.float32)


def _looked_up(vectors: Mapping[str, Any], docnos: Sequence[str]) -> np.ndarray:
    missing = [docno for docno in docnos if docno not in vectors]
    if missing:
        raise InputError(f"no vector for passage {missing[0]!r} ({len(missing)} of {len(docnos)} have none)")
    rows = [np.asarray(vectors[docno], dtype=np.float32) for docno in docnos]
    odd = next((docno for docno, row in zip(docnos, rows, strict=True) if row.shape != rows[0].shape), None)
    if odd is not None:
        raise InputError(f"the vector of passage {odd!r} has a different shape from that of {docnos[0]!r}")
    return np.stack(rows)


def aspects_of(clean: pd.DataFrame, aspects: pd.DataFrame) -> Features:
    """Return the probabilities of a table qid, pid, docno, p, one row a row of the run; 0 where it says nothing.

    Raises:
        InputError: a missing column, a p outside 0..1, a pair listed twice, or a question none of whose passages is
            listed.
    """
    table = _checked_aspects(aspects)
    asked, documents = pd.Index(clean["qid"].unique()), pd.Index(clean["docno"].unique())
    table = table[table["qid"].isin(asked)]
    row = pd.Index(_pair_numbers(clean, asked, documents)).get_indexer(_pair_numbers(table, asked, documents))
    listed, of_question = row >= 0, asked.get_indexer(pd.Index(table["qid"]))
    unknown = np.bincount(of_question[listed], minlength=len(asked)) == 0
    if unknown.any():
        first = asked[int(unknown.argmax())]
        raise InputError(f"no aspect of question {first!r} has a p for any of its passages", field="aspects")
    # The aspects of a question are columns from 0, in the order of their pids.
    pid, pids = pd.factorize(table["pid"], sort=True)
    pairs, number = np.unique(of_question * len(pids) + pid, return_inverse=True)
    starts = np.searchsorted(pairs, np.arange(len(asked) + 1) * len(pids))
    count = np.diff(starts)
    p = np.zeros((len(clean), count.max(initial=1)))
    p[row[listed], (number - starts[of_question])[listed]] = table["p"].to_numpy()[listed]
    return Features(p, np.arange(len(clean)), count)


def _pair_numbers(frame: pd.DataFrame, asked: pd.Index, documents: pd.Index) -> np.ndarray:
    """Return one number, int (n,), for each pair of a question and a passage; -1 where either is not known."""
    question, document = asked.get_indexer(pd.Index(frame["qid"])), documents.get_indexer(pd.Index(frame["docno"]))
    return np.where((question < 0) | (document < 0), -1, question * len(documents) + document)


def _checked_aspects(aspects: pd.DataFrame) -> pd.DataFrame:
    missing = [c for c in ASPECT_COLUMNS if c not in aspects.columns]
    if missing:
        raise InputError(f"aspects need columns {', '.join(ASPECT_COLUMNS)}; missing: {', '.join(missing)}")
    table = aspects[ASPECT_COLUMNS].reset_index(drop=True)
    table = table.assign(
        qid=table["qid"].astype(str), docno=table["docno"].astype(str), p=pd.to_numeric(table["p"], errors="coerce")
    )
    for wrong, what in (
        (~table["p"].between(0.0, 1.0), "has a p that is not a number from 0 to 1"),
        (table.duplicated(["qid", "pid", "docno"]), "is listed twice"),
    ):
        if wrong.any():
            at = table[wrong].iloc[0]
            raise InputError(f"aspect {at['pid']} of ({at['qid']}, {at['docno']}) {what}", field="aspects")
    return table
