"""Diversifiers: reorder a run so that each passage adds something new to those above it.

All share one dial, ``relevance_weight``: 1 is pure relevance and leaves the order as it is, 0 is pure diversity.
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from berdslib.data.corpus import by_docno
from berdslib.data.records import RUN_COLUMNS, Passage, Question, check_k, check_run
from berdslib.errors import InputError, known
from berdslib.models.cards import Encoder
from berdslib.models.corpus_vectors import full_text
from berdslib.registry import Registry
from berdslib.retrieval.base import Retriever, joined

# From docno to vector; or from docnos to their vectors, (n, d).
Vectors = Mapping[str, Any] | Callable[[list[str]], Any]
# From a run and its questions to a table qid, pid, docno, p over *generated* perspectives.
AspectsOf = Callable[[pd.DataFrame, Sequence[Question]], pd.DataFrame]
Picked = tuple[np.ndarray, np.ndarray]  # positions int64 (q, k), best first, and what each was worth, (q, k)
# From qids (q,); vectors float32 (q, n, f), or one probability an aspect; normalised scores float64 (q, n), best first;
# k of at most n; and the relevance weight.
Choose = Callable[[np.ndarray, np.ndarray, np.ndarray, int, float], Picked]
# From a position for each question, counted through all lists, (q,), to what it leaves each passage worth, (q, n).
Rows = Callable[[np.ndarray], np.ndarray]
# A function of the user's: from vectors, or aspects, and scores of one question, k and the weight to positions.
Pick = Callable[[np.ndarray, np.ndarray, int, float], Any]

VECTORS, ASPECTS = "vectors", "aspects"
ASPECT_COLUMNS = ["qid", "pid", "docno", "p"]
_AT_ONCE = 2**21  # numbers in the vectors, or the similarities, of the questions that are reordered at once: 8 MiB
_IN_CACHE = 2**18  # numbers in vectors that are read again and again: 1 MiB, which a processor keeps at hand
_LARGEST = 1e15  # in size, of a normalised score, so that single precision can hold its square


def diversify(
    run: pd.DataFrame,
    method: str | Pick = "mmr",
    *,
    relevance_weight: float = 0.75,
    vectors: Vectors | None = None,
    aspects: pd.DataFrame | None = None,
    k: int = 0,
    normalise: str = "max_per_dataset",
) -> pd.DataFrame:
    """Reorder each question's list, trading relevance for diversity. Equal values keep the run's order.

    Args:
        run: frame qid, docno and score (or rank): all of it are candidates (the paper takes the first 100).
        method: a key of ``DIVERSIFIERS``. By vectors: "mmr", equation 1 of the paper; "msd", "dpp", "cover" and "ssd"
            of pyversity. By aspects: "xquad", "pm2", "coverage". Or a function of your own, see
            :func:`own_diversifier`.
        relevance_weight: from 0 to 1; 1 keeps the order. "dpp" standardises scores itself, whatever `normalise` says.
        vectors: for documents: docno -> vector, or a function from docnos to (n, d) vectors; compared by cosine.
        aspects: frame qid, pid, docno, p: the probability that the passage argues *generated* perspective pid. Pairs
            not listed have p = 0. Do not pass the perspectives that the run is scored by.
        k: how many passages to keep of each list; 0 for all.
        normalise: a key of ``NORMALISATIONS``.

    Returns:
        A run; its scores are negated ranks, and column `value` holds what the method gave each passage when it picked
        it (divergences.md B5).

    Raises:
        InputError: vectors or aspects that the method needs are missing, or an argument is not as described.

    Source: BeRDS section 6 and A.6 (MMR); Santos et al. (2010) (xQuAD); Dang and Croft (2012) (PM-2).

    >>> from berdslib.data.records import ranked_run
    >>> run = ranked_run({"q": ["a", "copy of a", "b"]})
    >>> vectors = {"a": [1, 0], "copy of a": [1, 0], "b": [0, 1]}
    >>> diversify(run, vectors=vectors, relevance_weight=0.5, normalise="rank")["docno"].tolist()
    ['a', 'b', 'copy of a']
    """
    clean = check_run(run)
    diversifier = DIVERSIFIERS.find(method)[0] if isinstance(method, str) else own_diversifier(method)
    _check_weight(relevance_weight)
    if k < 0:
        raise InputError(f"k must be at least 1, or 0 for all, not {k}", field="k")
    rows, values = np.arange(len(clean)), normalised(clean, normalise)
    # At 1 no method has anything to add, and some would break ties their own way.
    if relevance_weight < 1 and len(clean):
        name = method if isinstance(method, str) else _name_of(method)
        features = _features(diversifier, name, clean, vectors, aspects)
        rows, values = _picked(clean, diversifier.choose, features, values, float(relevance_weight), k)
    rank = clean["rank"].to_numpy()
    kept = rank <= (k or len(clean))
    made = {"rank": rank[kept], "score": -rank[kept].astype(np.float64), "value": values[kept]}
    return clean[["qid", "docno"]].take(rows[kept]).reset_index(drop=True).assign(**made)


def _picked(
    run: pd.DataFrame, choose: Choose, features: _Features, relevance: np.ndarray, weight: float, k: int
) -> Picked:
    """Return the row that stands at each rank, and what it was worth; beyond k nothing is meant."""
    starts, long = starts_of(run)
    qids, width = run["qid"].to_numpy(dtype=object), features.width[starts]
    picked, values = np.zeros(len(run), dtype=np.int64), np.zeros(len(run))
    with threadpool_limits(1, "blas"):  # the products are small: threads would wait for each other, and no more
        for n, f in sorted(set(zip(long.tolist(), width.tolist(), strict=True))):
            alike, top = np.flatnonzero((long == n) & (width == f)), min(k, n) if k else n
            at_once = max(1, _AT_ONCE // (n * max(n, f)))
            for some in (starts[alike[first : first + at_once]] for first in range(0, len(alike), at_once)):
                rows = some[:, None] + np.arange(n)
                compared = features.table.take(features.at[rows], axis=0)[:, :, :f]
                order, worth = choose(qids[some], compared, relevance[rows], top, weight)
                picked[rows[:, :top]], values[rows[:, :top]] = some[:, None] + order, worth
    return picked, values


def _check_weight(weight: float) -> None:
    if not 0 <= weight <= 1:
        raise InputError(f"must be from 0 (diversity) to 1 (relevance), not {weight}", field="relevance_weight")


def starts_of(run: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return where the list of each question of a clean run starts, and how long it is, both int (questions,)."""
    starts = np.flatnonzero(run["rank"].to_numpy() == 1)
    return starts, np.diff(np.append(starts, len(run)))


# ---------------------------------------------------------------- relevance


def _by_largest(own: np.ndarray, every: np.ndarray) -> np.ndarray:
    """Divide by the largest of all; by the largest in size where none is positive, so that better stays higher."""
    size = every.max() if every.max() > 0 else -every.min()
    # Below the smallest normal number of single precision, scores are zeros whose ties were set apart.
    return own / size if size >= np.finfo(np.float32).tiny else np.zeros(len(own))


def _minmax(own: np.ndarray, _: np.ndarray) -> np.ndarray:
    return np.zeros(len(own)) if _is_constant(own) else (own - own[-1]) / (own[0] - own[-1])


def _zscore(own: np.ndarray, _: np.ndarray) -> np.ndarray:
    away = own - (own[0] / 2 + own[-1] / 2)  # from a number nearby, so that little is lost
    away = away - away.mean()
    return np.zeros(len(own)) if _is_constant(own) else away / np.sqrt((away**2).mean())


def _is_constant(own: np.ndarray) -> bool:
    """Say whether a list had one score throughout, before ties were set apart by the smallest steps that show."""
    step = np.spacing(np.float32(max(abs(own[0]), abs(own[-1]))))
    return bool(own[0] - own[-1] <= (len(own) - 1) * float(step))


# What becomes of a list's scores before they are weighed, given also those of the whole run (Sim1 of equation 1;
# divergences.md B3). "max_per_dataset": divided by the largest of the whole run (the paper, A.6; in
# a system, of the lists of one data set); "max_per_question":
# by the largest of the list (the published code); "minmax": each list from 0 to 1; "zscore": each list to mean 0 and
# deviation 1; "rank": from 1 down to 1/n in equal steps. By "minmax" and "zscore" a list of one score becomes 0.
NORMALISATIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "max_per_dataset": _by_largest,
    "max_per_question": lambda own, _: _by_largest(own, own),
    "minmax": _minmax,
    "zscore": _zscore,
    "rank": lambda own, _: 1 - np.arange(len(own)) / len(own),
}


def normalised(clean: pd.DataFrame, how: str) -> np.ndarray:
    """Return the scores of a clean run by a key of ``NORMALISATIONS``, float64 (rows,)."""
    scale = NORMALISATIONS[known("normalisation", how, NORMALISATIONS)]
    scores = clean["score"].to_numpy()
    starts, _ = starts_of(clean)
    parts = [scale(own, scores) for own in np.split(scores, starts[1:])] if len(scores) else []
    return np.clip(np.concatenate([np.empty(0), *parts]), -_LARGEST, _LARGEST)


# ---------------------------------------------------------------- what passages are compared by


class _Features(NamedTuple):
    """What passages are compared by: rows of ``table`` (t, f); the row of the run has there the row ``at``.

    Of a question, ``width`` columns of the table count.
    """

    table: np.ndarray
    at: np.ndarray
    width: np.ndarray


def _features(
    diversifier: Diversifier, name: str, run: pd.DataFrame, vectors: Vectors | None, aspects: pd.DataFrame | None
) -> _Features:
    if diversifier.needs == VECTORS:
        if vectors is None:
            raise InputError(f"{name!r} needs vectors: docno -> vector, or a function of docnos", field="vectors")
        return _vectors_of(run, vectors, diversifier.of_length_1)
    if aspects is None:
        raise InputError(f"{name!r} needs a table qid, pid, docno, p of generated perspectives", field="aspects")
    return _probabilities_of(run, aspects)


def _vectors_of(run: pd.DataFrame, vectors: Vectors, of_length_1: bool) -> _Features:
    at, found = pd.factorize(run["docno"])
    docnos: list[str] = found.tolist()
    table = np.asarray(vectors(docnos) if callable(vectors) else _looked_up(vectors, docnos), dtype=np.float32)
    if table.ndim != 2 or len(table) != len(docnos):
        raise InputError(f"{len(docnos)} passages need vectors of shape ({len(docnos)}, d), not {table.shape}")
    largest = np.maximum(table.max(axis=1, initial=0), -table.min(axis=1, initial=0))
    if (wrong := ~np.isfinite(largest)).any():
        raise InputError(f"the vector of passage {docnos[int(wrong.argmax())]!r} has a value that is not finite")
    # Times a power of two, which rounds nothing, where single precision could not hold the square.
    if (far := (largest < 1e-15) | (largest > 1e15)).any():
        table = table * np.where(far, np.ldexp(np.float32(1), -np.frexp(largest)[1]), np.float32(1))[:, None]
    if of_length_1:
        length = np.sqrt(np.einsum("ij,ij->i", table, table))
        table = np.divide(table, np.where(length > 0, length, 1)[:, None], dtype=np.float32)
    return _Features(table, at, np.full(len(at), table.shape[1]))


def _looked_up(vectors: Mapping[str, Any], docnos: Sequence[str]) -> np.ndarray:
    missing = [docno for docno in docnos if docno not in vectors]
    if missing:
        raise InputError(f"no vector for passage {missing[0]!r} ({len(missing)} of {len(docnos)} have none)")
    rows = [np.asarray(vectors[docno], dtype=np.float32) for docno in docnos]
    odd = next((docno for docno, row in zip(docnos, rows, strict=True) if row.shape != rows[0].shape), None)
    if odd is not None:
        raise InputError(f"the vector of passage {odd!r} has a different shape from that of {docnos[0]!r}")
    return np.stack(rows)


def _probabilities_of(run: pd.DataFrame, aspects: pd.DataFrame) -> _Features:
    """Return the probabilities of the rows of a run, a column an aspect by their pids; 0 where nothing is said."""
    table = _checked_aspects(aspects)
    table["pid"] = pd.factorize(table["pid"], sort=True)[0]
    table["aspect"] = table.groupby("qid")["pid"].rank("dense").astype(np.int64) - 1
    listed = run[["qid", "docno"]].assign(row=np.arange(len(run))).merge(table, on=["qid", "docno"])
    if unknown := set(run["qid"]) - set(listed["qid"]):
        raise InputError(f"no aspect of question {min(unknown)!r} has a p for any of its passages", field="aspects")
    count = table.groupby("qid")["aspect"].max() + 1
    p = np.zeros((len(run), count.max() if len(count) else 0))
    p[listed["row"], listed["aspect"]] = listed["p"]
    return _Features(p, np.arange(len(run)), run["qid"].map(count).to_numpy(dtype=np.int64))


def _checked_aspects(aspects: pd.DataFrame) -> pd.DataFrame:
    missing = [c for c in ASPECT_COLUMNS if c not in aspects.columns]
    if missing:
        raise InputError(f"aspects need columns {', '.join(ASPECT_COLUMNS)}; missing: {', '.join(missing)}")
    table = aspects[ASPECT_COLUMNS].reset_index(drop=True).astype({"qid": "str", "docno": "str"})
    table["p"] = pd.to_numeric(table["p"], errors="coerce")
    for wrong, what in (
        (~table["p"].between(0.0, 1.0), "has a p that is not a number from 0 to 1"),
        (table.duplicated(["qid", "pid", "docno"]), "is listed twice"),
    ):
        if wrong.any():
            at = table[wrong].iloc[0]
            raise InputError(f"aspect {at['pid']} of ({at['qid']}, {at['docno']}) {what}", field="aspects")
    return table


# ---------------------------------------------------------------- MMR


def _first_equal(vectors: np.ndarray) -> np.ndarray | None:
    """Return the position of the first vector that equals each one, int (q, n); None where no two may be equal.

    BLAS may round the products of equal vectors unequally, which would decide ties.
    """
    leading = np.sort(vectors[:, :, :1], axis=1)  # the first number of each is enough to see that most differ
    repeated = np.flatnonzero((leading[:, 1:] == leading[:, :-1]).any(axis=(1, 2)))
    if not len(repeated):
        return None
    first = np.tile(np.arange(vectors.shape[1]), (len(vectors), 1))
    for i in repeated:
        seen: dict[bytes, int] = {}
        first[i] = [seen.setdefault(vector.tobytes(), at) for at, vector in enumerate(vectors[i])]
    return first


def mmr_orders(relevance: np.ndarray, similarity: np.ndarray, relevance_weight: float, k: int) -> Picked:
    """Pick k by maximal marginal relevance, all questions in step; equal values go to the earlier position.

    From relevance (q, n) and similarity (q, n, n) to positions and values, (q, k). The first pick is by relevance alone
    (divergences.md B4). Source: BeRDS equation 1, after Carbonell and Goldstein (1998).
    """
    kind = similarity.dtype.type
    weighted = kind(relevance_weight) * relevance.astype(kind)
    worth = weighted[:, None] - kind(1 - relevance_weight) * similarity
    return _pick(weighted, _rows_of(worth), k)


def mmr(vectors: np.ndarray, relevance: np.ndarray, relevance_weight: float, k: int) -> Picked:
    """Pick as :func:`mmr_orders` does; of the cosines of vectors of length 1, float32 (q, n, f), what is needed."""
    q, n, f = vectors.shape
    weighted, penalty = np.float32(relevance_weight) * relevance.astype(np.float32), np.float32(1 - relevance_weight)
    order, values = np.empty((q, k), dtype=np.int64), np.empty((q, k), dtype=np.float32)
    by_row = k <= n // 8  # all rows at once cost as much as some n / 8 of them one by one
    make_rows = _rows_when_needed if by_row else _all_rows
    for some in _slices(q, _IN_CACHE, n * f) if by_row else _slices(q, _AT_ONCE, n * n):
        order[some], values[some] = _pick(weighted[some], make_rows(vectors[some], weighted[some], penalty), k)
    return order, values


def _pick(weighted: np.ndarray, rows: Rows, k: int) -> Picked:
    """Pick first by weighted relevance (q, n), then by the least of the rows of those picked."""
    (q, n), kind = weighted.shape, weighted.dtype.type
    starts = n * np.arange(q)
    order, values = np.empty((k, q), dtype=np.int64), np.empty((k, q), dtype=kind)
    # The least of weighted - penalty * similarity over the picks is that of the largest similarity; -inf where picked.
    value, least = weighted, np.full((q, n), np.inf, dtype=kind)
    for step in range(k):
        order[step] = value.argmax(axis=1)
        at = starts + order[step]
        values[step] = value.take(at)
        if step < k - 1:
            np.minimum(least, rows(at), out=least)
            least.reshape(-1)[at] = -np.inf
            value = least
    return order.T, values.T


def _rows_of(worth: np.ndarray) -> Rows:
    table = worth.reshape(-1, worth.shape[2])
    return lambda at: table.take(at, axis=0)


def _rows_when_needed(vectors: np.ndarray, weighted: np.ndarray, penalty: np.float32) -> Rows:
    (q, n, f), first = vectors.shape, _first_equal(vectors)
    table = vectors.reshape(q * n, f)

    def rows(at: np.ndarray) -> np.ndarray:
        found = np.matmul(vectors, table.take(at, axis=0)[:, :, None])[:, :, 0]
        alike = found if first is None else np.take_along_axis(found, first, axis=1)
        return np.asarray(weighted - penalty * alike)

    return rows


def _all_rows(vectors: np.ndarray, weighted: np.ndarray, penalty: np.float32) -> Rows:
    q, n, f = vectors.shape
    worth = np.empty((q, n, n), dtype=np.float32)
    for some in _slices(q, _IN_CACHE, n * f):
        own, first = vectors[some], _first_equal(vectors[some])
        found = np.matmul(own, own.transpose(0, 2, 1))
        alike = found if first is None else np.take_along_axis(found, first[:, None, :], axis=2)
        worth[some] = weighted[some, None] - penalty * alike
    return _rows_of(worth)


def _slices(q: int, numbers: int, each: int) -> Iterator[slice]:
    """Yield slices of as many of q questions as hold so many numbers, of one at least."""
    size = max(1, numbers // max(1, each))
    return (slice(start, start + size) for start in range(0, q, size))


def _mmr(_: np.ndarray, vectors: np.ndarray, relevance: np.ndarray, k: int, weight: float) -> Picked:
    return mmr(vectors, relevance, weight, k)


# ---------------------------------------------------------------- by aspects


def _greedy(
    start: float,
    gain: Callable[[np.ndarray, np.ndarray], np.ndarray],
    after: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Choose:
    """Pick k times what is best by weight * relevance + (1 - weight) * diversity.

    What is known of aspects, (lists, m), is `start` and changes by `after`(known, p of the picks); `gain`(p, known) is
    the diversity that each candidate would bring, (lists, n).
    """

    def choose(_: np.ndarray, p: np.ndarray, relevance: np.ndarray, k: int, weight: float) -> Picked:
        q, n, m = p.shape
        lists, left, known = np.arange(q), np.ones((q, n), dtype=bool), np.full((q, m), start)
        order, values = np.empty((q, k), dtype=np.int64), np.empty((q, k))
        for step in range(k):
            value = np.where(left, weight * relevance + (1 - weight) * gain(p, known), -np.inf)
            best = value.argmax(axis=1)
            order[:, step], values[:, step], left[lists, best] = best, value[lists, best], False
            known = after(known, p[lists, best])
        return order, values

    return choose


def _summed(p: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum p (q, n, m) times weights (q, m) over aspects, one after the other: equal passages get equal sums."""
    return sum((p[:, :, i] * weights[:, i, None] for i in range(p.shape[2])), start=np.zeros(p.shape[:2]))


def _covered(uncovered: np.ndarray, p: np.ndarray) -> np.ndarray:
    return uncovered * (1 - p)


def _pm2(p: np.ndarray, seats: np.ndarray) -> np.ndarray:
    """Weigh aspects by Sainte-Laguë's quotients of equal votes: PM-2 with its own lambda at 1/2."""
    return _summed(p, 1 / p.shape[2] / (2 * seats + 1) / 2)


def _seated(seats: np.ndarray, p: np.ndarray) -> np.ndarray:
    total = p.sum(axis=1, keepdims=True)
    return seats + p / np.where(total > 0, total, 1)


# ---------------------------------------------------------------- the registry


class Diversifier(NamedTuple):
    """A method: ``needs`` says what it compares passages by, "vectors" or "aspects"; ``choose`` does the picking.

    Vectors are as they were given unless it takes them ``of_length_1``; a vector of zeros stays.
    """

    needs: str
    choose: Choose
    of_length_1: bool = False


def _one_by_one(pick: Callable[[str, np.ndarray, np.ndarray, int, float], tuple[Any, Any]]) -> Choose:
    """Pick for one question at a time, from its qid, features, scores, the number of picks and the relevance weight."""

    def choose(qids: np.ndarray, features: np.ndarray, relevance: np.ndarray, k: int, weight: float) -> Picked:
        asked = zip(qids, features, relevance, strict=True)
        orders, values = zip(*(pick(*one, k, weight) for one in asked), strict=True)
        return np.array(orders), np.array(values)

    return choose


def _by_pyversity(strategy: str, **options: Any) -> Diversifier:
    """Wrap a strategy of pyversity, whose dial turns the other way."""

    def pick(_: str, vectors: np.ndarray, scores: np.ndarray, k: int, weight: float) -> tuple[Any, Any]:
        import pyversity

        result = getattr(pyversity, strategy)(vectors, scores, k, diversity=1 - weight, **options)
        return result.indices, result.selection_scores

    return Diversifier(VECTORS, _one_by_one(pick))


def own_diversifier(pick: Pick) -> Diversifier:
    """Make a diversifier of a function that reorders the list of one question; the column `value` of its runs is NaN.

    `pick` goes from vectors, float32 (n, d); scores, float64 (n,), normalised, best first; k, at most n; and the
    relevance weight, below 1, to k positions of 0 .. n-1, none twice, best first. If its first argument is named
    `aspects`, it gets probabilities in place of vectors, float64 (n, m), one column a generated perspective.
    """
    name = _name_of(pick)

    def picked(question: str, features: np.ndarray, scores: np.ndarray, k: int, weight: float) -> tuple[Any, Any]:
        order = pick(features, scores, k, weight)
        if not _are_positions(order, len(scores), k):
            raise InputError(
                f"{name} returned {reprlib.repr(order)} for question {question!r}; accepted are {k} positions, whole "
                f"numbers from 0 to {len(scores) - 1}, none twice",
                field="method",
            )
        return np.asarray(order, dtype=np.int64), np.full(k, np.nan)

    first = next(iter(inspect.signature(pick).parameters), "")
    return Diversifier(ASPECTS if first == "aspects" else VECTORS, _one_by_one(picked))


def _are_positions(order: Any, n: int, k: int) -> bool:
    found = np.asarray(order, dtype=object)
    whole = all(isinstance(x, int | np.integer) and not isinstance(x, bool) and 0 <= x < n for x in found.ravel())
    return found.ndim == 1 and len(found) == k and whole and len(set(found.tolist())) == k


def _name_of(pick: Pick) -> str:
    return getattr(pick, "__name__", type(pick).__name__)


DIVERSIFIERS: Registry[Diversifier] = Registry(
    "diversifier",
    {
        "mmr": Diversifier(VECTORS, _mmr, of_length_1=True),
        "msd": _by_pyversity("msd"),
        "dpp": _by_pyversity("dpp"),
        "cover": _by_pyversity("cover"),
        # Else it would standardise scores itself, whatever `normalise` says.
        "ssd": _by_pyversity("ssd", normalize_scores=False),
        # Santos et al. (2010), equation 1, every aspect equally likely.
        "xquad": Diversifier(ASPECTS, _greedy(1.0, lambda p, new: 1 / p.shape[2] * _summed(p, new), _covered)),
        "pm2": Diversifier(ASPECTS, _greedy(0.0, _pm2, _seated)),  # Dang and Croft (2012)
        # The gain in the expected number of aspects covered, the sum of 1 - prod(1 - p): as xQuAD, but aspects are
        # counted where xQuAD takes their mean, so the dial stands elsewhere for each number of them.
        "coverage": Diversifier(ASPECTS, _greedy(1.0, _summed, _covered)),
    },
    own=lambda pick, _: own_diversifier(pick),
)


# ---------------------------------------------------------------- as a retriever


@dataclass
class Diversified:
    """A retriever whose lists are reordered by a diversifier, chosen among `depth` candidates.

    Arguments as of :func:`diversify`, but `aspects` makes the table; questions that it says nothing of keep their
    lists.
    """

    retriever: Retriever
    method: str = "mmr"
    relevance_weight: float = 0.75
    vectors: Vectors | None = None
    aspects: AspectsOf | None = None
    depth: int = 100
    name: str = ""

    def __post_init__(self) -> None:
        known("diversifier", self.method, DIVERSIFIERS)
        _check_weight(self.relevance_weight)
        check_k(self.depth, "depth")
        self.name = self.name or f"{self.retriever.name}+{self.method}:{self.relevance_weight:g}"
        # Having a judge read every candidate is slow; most methods do not need it, and none does at weight 1.
        if DIVERSIFIERS[self.method].needs != ASPECTS or self.relevance_weight == 1:
            self.aspects = None

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question, chosen among `depth` (or k, if that is more)."""
        run = self.retriever.search(questions, max(k, self.depth))
        if run.empty:
            return run
        if self.aspects is None:
            return self._of(run, questions, None, k)
        # A query that asks from one perspective has no others to cover: its list stays as it is.
        own = [q for q in questions if not q.owner]
        ours = run["qid"].isin({q.qid for q in own})
        aspects = self.aspects(run[ours].reset_index(drop=True), own)
        told = ours & run["qid"].isin(set(aspects["qid"].astype(str)))
        ours = told if told.any() else ours  # where nothing is told of any question, that is refused
        covered = self._of(run[ours].reset_index(drop=True), own, aspects, k)
        return joined([covered, run[~ours & (run["rank"] <= k)]])

    def _of(
        self, run: pd.DataFrame, questions: Sequence[Question], aspects: pd.DataFrame | None, k: int
    ) -> pd.DataFrame:
        # The largest score, which others are divided by, is that of a data set; a collection may hold several.
        sources = run["qid"].map({q.qid: q.source for q in questions})
        weight, vectors = self.relevance_weight, self.vectors
        made = [
            diversify(lists, self.method, relevance_weight=weight, vectors=vectors, aspects=aspects, k=k)[RUN_COLUMNS]
            for _, lists in run.groupby(sources, dropna=False)
        ]
        return joined(made)


def passage_vectors(
    passages: Sequence[Passage], encoder: Encoder, text_of: Callable[[Passage], str] = full_text
) -> Callable[[list[str]], np.ndarray]:
    """Return the function from docnos to vectors, float32 (n, d), that diversifiers compare documents by.

    It encodes each passage once.
    """
    corpus = by_docno(passages)
    encoded: dict[str, np.ndarray] = {}

    def vectors_of(docnos: list[str]) -> np.ndarray:
        if unknown := [docno for docno in docnos if docno not in corpus]:
            raise InputError(f"passage {unknown[0]!r} is not in the corpus", field="docno")
        if new := [docno for docno in docnos if docno not in encoded]:
            vectors = encoder.encode_passages([text_of(corpus[docno]) for docno in new])
            encoded.update(zip(new, vectors, strict=True))
        return np.stack([encoded[docno] for docno in docnos])

    return vectors_of
