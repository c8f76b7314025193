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
from berdslib.data.records import RUN_COLUMNS, AnyQuery, Passage, Question, check_k, check_run, make_run
from berdslib.errors import InputError, known
from berdslib.models.cards import Encoder
from berdslib.models.corpus_vectors import full_text
from berdslib.registry import Registry
from berdslib.retrieval.base import Retriever, joined

# From docno to vector; or from docnos to their vectors, (n, d).
Vectors = Mapping[str, Any] | Callable[[list[str]], Any]
# From a run and its questions to a table qid, pid, docno, p over *generated* perspectives.
AspectsOf = Callable[[pd.DataFrame, Sequence[Question]], pd.DataFrame]
Picked = tuple[np.ndarray, np.ndarray]  # positions int64 (q, k), best first, and the value of each pick, (q, k)
# From qids (q,); vectors float32 (q, n, f), or one probability an aspect; normalised scores float64 (q, n), best first;
# k of at most n; and the relevance weight.
Choose = Callable[[np.ndarray, np.ndarray, np.ndarray, int, float], Picked]
# From the picked position of each question, counted through all lists, (q,), to the values of all passages after it,
# (q, n).
ValuesAfter = Callable[[np.ndarray], np.ndarray]
# A function of the user's: from vectors, or aspects, and scores of one question, k and the weight to positions.
Pick = Callable[[np.ndarray, np.ndarray, int, float], Any]

VECTORS = "vectors"
ASPECTS = "aspects"
ASPECT_COLUMNS = ["qid", "pid", "docno", "p"]
_AT_ONCE = 2**21  # numbers in the vectors, or similarities, of questions that are reordered together: 8 MiB
_IN_CACHE = 2**18  # numbers in vectors that are read repeatedly: 1 MiB fits into the processor's cache
_LARGEST = 1e15  # absolute normalised score: single precision can hold its square


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
        run: frame qid, docno and score (or rank); all its passages are candidates (the paper takes the first 100).
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
        InputError: the method's vectors or aspects are missing, or an argument is invalid.

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
    rows = np.arange(len(clean))
    values = normalised(clean, normalise)
    # At 1 no method changes the order, but some would break ties in their own way.
    if relevance_weight < 1 and len(clean):
        name = method if isinstance(method, str) else _name_of(method)
        features = _features(diversifier, name, clean, vectors, aspects)
        rows, values = _picked(clean, diversifier.choose, features, values, float(relevance_weight), k)
    rank = clean["rank"].to_numpy()
    kept = rank <= (k or len(clean))
    reordered = clean[["qid", "docno"]].take(rows[kept]).reset_index(drop=True)
    reordered["rank"] = rank[kept]
    reordered["score"] = -rank[kept].astype(np.float64)
    reordered["value"] = values[kept]
    return reordered


def mmr(vectors: Any, scores: Any, k: int = 5, relevance_weight: float = 0.75) -> list[int]:
    """Return the positions of the k passages of one list that MMR picks, best first, for a pipeline of your own.

    Args:
        vectors: (n, d), one for each passage; compared by cosine.
        scores: (n,), used as they are. For the paper's weight, divide them by the largest score of your data set; for
            that of LangChain, let them be the cosines with the query.
        k: number of positions, at most n are returned.
        relevance_weight: from 0, diversity, to 1, relevance.

    Source: BeRDS, equation 1; :func:`diversify` does the same to a run.

    >>> mmr([[1, 0], [1, 0], [0, 1]], [0.9, 0.8, 0.3], k=2, relevance_weight=0.5)
    [0, 2]
    """
    check_k(k)
    _check_weight(relevance_weight)
    table = _finite("vectors", vectors)
    given = _finite("scores", scores)
    if not len(table) and not len(given):
        return []
    if table.ndim != 2 or given.shape != (len(table),):
        problem = f"vectors (n, d) and scores (n,) are needed, not {table.shape} and {given.shape}"
        raise InputError(problem, field="vectors")
    names = [f"{i:09d}" for i in range(len(table))]  # sorted like their numbers
    run = make_run(["list"] * len(names), names, given.tolist())
    features = _vectors_of(run, lambda docnos: table[[int(docno) for docno in docnos]], of_length_1=True)
    relevance = np.clip(run["score"].to_numpy(), -_LARGEST, _LARGEST)
    rows, _ = _picked(run, DIVERSIFIERS["mmr"].choose, features, relevance, float(relevance_weight), k)
    return [int(docno) for docno in run["docno"].to_numpy()[rows[:k]]]


def _finite(field: str, values: Any) -> np.ndarray:
    """Return numbers, or rows of numbers of one length; an error names the position of the first that is wrong."""
    rows = list[np.ndarray]()
    for i, value in enumerate(values):
        try:
            row = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            row = np.array(np.nan)
        if not np.isfinite(row).all():
            raise InputError(f"must be finite numbers; number {i}, from 0, is {reprlib.repr(value)}", field=field)
        if rows and row.shape != rows[0].shape:
            problem = f"must be of one length; number {i}, from 0, has {row.size} values and number 0 {rows[0].size}"
            raise InputError(problem, field=field)
        rows.append(row)
    return np.array(rows)


def _picked(
    run: pd.DataFrame,
    choose: Choose,
    features: _Features,
    relevance: np.ndarray,
    weight: float,
    k: int,
) -> Picked:
    """Return the row at each rank, and its value; both are meaningless below rank k."""
    starts, lengths = starts_of(run)
    qids = run["qid"].to_numpy(dtype=object)
    widths = features.width[starts]
    picked = np.zeros(len(run), dtype=np.int64)
    values = np.zeros(len(run))
    with threadpool_limits(1, "blas"):  # the products are too small for threads
        for n, f in sorted(set(zip(lengths.tolist(), widths.tolist(), strict=True))):
            same_shape = starts[(lengths == n) & (widths == f)]
            top = min(k, n) if k else n
            for questions in _slices(len(same_shape), _AT_ONCE, n * max(n, f)):
                first = same_shape[questions]
                rows = first[:, None] + np.arange(n)
                compared = features.table.take(features.at[rows], axis=0)[:, :, :f]
                order, worth = choose(qids[first], compared, relevance[rows], top, weight)
                picked[rows[:, :top]] = first[:, None] + order
                values[rows[:, :top]] = worth
    return picked, values


def _check_weight(weight: float) -> None:
    if not 0 <= weight <= 1:
        raise InputError(f"must be from 0 (diversity) to 1 (relevance), not {weight}", field="relevance_weight")


def starts_of(run: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of each question's list in a clean run, and the list's length, both int (questions,)."""
    starts = np.flatnonzero(run["rank"].to_numpy() == 1)
    lengths = np.diff(np.append(starts, len(run)))
    return starts, lengths


# ---------------------------------------------------------------- relevance


def _by_largest(own: np.ndarray, of_run: np.ndarray) -> np.ndarray:
    """Divide by the largest score; if none is positive, by the largest absolute one, so that better stays higher."""
    largest = of_run.max()
    size = largest if largest > 0 else -of_run.min()
    # Smaller scores are zeros: make_run separated their ties by the smallest steps of single precision.
    if size < np.finfo(np.float32).tiny:
        return np.zeros(len(own))
    return own / size


def _minmax(own: np.ndarray, _: np.ndarray) -> np.ndarray:
    if _is_constant(own):
        return np.zeros(len(own))
    return (own - own[-1]) / (own[0] - own[-1])


def _zscore(own: np.ndarray, _: np.ndarray) -> np.ndarray:
    if _is_constant(own):
        return np.zeros(len(own))
    centre = own[0] / 2 + own[-1] / 2
    deviations = own - centre  # small numbers, whose mean is exact to more digits
    deviations = deviations - deviations.mean()
    return deviations / np.sqrt((deviations**2).mean())


def _is_constant(own: np.ndarray) -> bool:
    """Say whether all scores of a list were equal before make_run separated ties by single-precision steps."""
    step = np.spacing(np.float32(max(abs(own[0]), abs(own[-1]))))
    return bool(own[0] - own[-1] <= (len(own) - 1) * float(step))


# How the scores of a list are scaled before they are weighed, given also those of the whole run (Sim1 of equation 1;
# divergences.md B3). "max_per_dataset" divides by the largest of the whole run (the paper, A.6; in a system, of the
# lists of one data set); "max_per_question" by the largest of the list (the published code); "minmax" scales each list
# from 0 to 1; "zscore" to mean 0 and deviation 1; "rank" gives 1 down to 1/n in equal steps. "minmax" and "zscore" turn
# a list of equal scores into zeros.
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
    """What passages are compared by: ``table`` (t, f); row i of the run has the row ``at[i]`` of the table.

    The first ``width`` columns belong to its question.
    """

    table: np.ndarray
    at: np.ndarray
    width: np.ndarray


def _features(
    diversifier: Diversifier,
    name: str,
    run: pd.DataFrame,
    vectors: Vectors | None,
    aspects: pd.DataFrame | None,
) -> _Features:
    if diversifier.needs == VECTORS:
        if vectors is None:
            raise InputError(f"{name!r} needs vectors: docno -> vector, or a function of docnos", field="vectors")
        return _vectors_of(run, vectors, diversifier.of_length_1)
    if aspects is None:
        raise InputError(f"{name!r} needs a table qid, pid, docno, p of generated perspectives", field="aspects")
    return _probabilities_of(run, aspects)


def _vectors_of(run: pd.DataFrame, vectors: Vectors, of_length_1: bool) -> _Features:
    at, unique = pd.factorize(run["docno"])
    docnos: list[str] = unique.tolist()
    rows = vectors(docnos) if callable(vectors) else _looked_up(vectors, docnos)
    table = np.asarray(rows, dtype=np.float32)
    if table.ndim != 2 or len(table) != len(docnos):
        raise InputError(f"{len(docnos)} passages need vectors of shape ({len(docnos)}, d), not {table.shape}")
    largest = np.maximum(table.max(axis=1, initial=0), -table.min(axis=1, initial=0))
    wrong = ~np.isfinite(largest)
    if wrong.any():
        raise InputError(f"the vector of passage {docnos[int(wrong.argmax())]!r} has a value that is not finite")
    extreme = (largest < 1e-15) | (largest > 1e15)
    if extreme.any():  # scaled by powers of two, which round nothing, so that squares fit into single precision
        powers = np.ldexp(np.float32(1), -np.frexp(largest)[1])
        table = table * np.where(extreme, powers, np.float32(1))[:, None]
    if of_length_1:
        length = np.sqrt(np.einsum("ij,ij->i", table, table))
        divisor = np.where(length > 0, length, 1)[:, None]
        table = np.divide(table, divisor, dtype=np.float32)
    return _Features(table, at, np.full(len(at), table.shape[1]))


def _looked_up(vectors: Mapping[str, Any], docnos: Sequence[str]) -> np.ndarray:
    missing = [docno for docno in docnos if docno not in vectors]
    if missing:
        raise InputError(f"no vector for passage {missing[0]!r} ({len(missing)} of {len(docnos)} have none)")
    rows = [np.asarray(vectors[docno], dtype=np.float32) for docno in docnos]
    for docno, row in zip(docnos, rows, strict=True):
        if row.shape != rows[0].shape:
            raise InputError(f"the vector of passage {docno!r} has a different shape from that of {docnos[0]!r}")
    return np.stack(rows)


def _probabilities_of(run: pd.DataFrame, aspects: pd.DataFrame) -> _Features:
    """Return the probabilities of the rows of a run, a column an aspect by their pids; 0 for pairs without a row."""
    table = _checked_aspects(aspects)
    table["pid"] = pd.factorize(table["pid"], sort=True)[0]
    table["aspect"] = table.groupby("qid")["pid"].rank("dense").astype(np.int64) - 1
    rows = run[["qid", "docno"]].assign(row=np.arange(len(run)))
    listed = rows.merge(table, on=["qid", "docno"])
    without = set(run["qid"].unique()) - set(listed["qid"].unique())
    if without:
        raise InputError(f"no aspect of question {min(without)!r} has a p for any of its passages", field="aspects")
    count = table.groupby("qid")["aspect"].max() + 1
    p = np.zeros((len(run), count.max() if len(count) else 0))
    p[listed["row"], listed["aspect"]] = listed["p"]
    width = run["qid"].map(count).to_numpy(dtype=np.int64)
    return _Features(p, np.arange(len(run)), width)


def _checked_aspects(aspects: pd.DataFrame) -> pd.DataFrame:
    missing = [column for column in ASPECT_COLUMNS if column not in aspects.columns]
    if missing:
        raise InputError(f"aspects need columns {', '.join(ASPECT_COLUMNS)}; missing: {', '.join(missing)}")
    table = aspects[ASPECT_COLUMNS].reset_index(drop=True).astype({"qid": "str", "docno": "str"})
    table["p"] = pd.to_numeric(table["p"], errors="coerce")
    for wrong, problem in (
        (~table["p"].between(0.0, 1.0), "has a p that is not a number from 0 to 1"),
        (table.duplicated(["qid", "pid", "docno"]), "is listed twice"),
    ):
        if wrong.any():
            row = table[wrong].iloc[0]
            raise InputError(f"aspect {row['pid']} of ({row['qid']}, {row['docno']}) {problem}", field="aspects")
    return table


# ---------------------------------------------------------------- MMR


def _first_equal(vectors: np.ndarray) -> np.ndarray | None:
    """Return for each vector the position of the first equal one, int (q, n); None if no vectors are equal.

    BLAS may round the products of equal vectors unequally, which would decide ties.
    """
    leading = np.sort(vectors[:, :, :1], axis=1)  # different first numbers already tell most vectors apart
    equals_next = leading[:, 1:] == leading[:, :-1]
    repeated = np.flatnonzero(equals_next.any(axis=(1, 2)))
    if not len(repeated):
        return None
    first = np.tile(np.arange(vectors.shape[1]), (len(vectors), 1))
    for question in repeated:
        seen: dict[bytes, int] = {}
        for position, vector in enumerate(vectors[question]):
            first[question, position] = seen.setdefault(vector.tobytes(), position)
    return first


def mmr_orders(
    relevance: np.ndarray,
    similarity: np.ndarray,
    relevance_weight: float,
    k: int,
) -> Picked:
    """Pick k by maximal marginal relevance for all questions together; of equal values the earlier position wins.

    From relevance (q, n) and similarity (q, n, n) to positions and values, (q, k). The first pick is by relevance alone
    (divergences.md B4). Source: BeRDS equation 1, after Carbonell and Goldstein (1998).
    """
    kind = similarity.dtype.type
    weighted = kind(relevance_weight) * relevance.astype(kind)
    worth = weighted[:, None] - kind(1 - relevance_weight) * similarity
    return _pick(weighted, _from_table(worth), k)


def mmr_picks(vectors: np.ndarray, relevance: np.ndarray, relevance_weight: float, k: int) -> Picked:
    """Pick as :func:`mmr_orders` does, from vectors of length 1, float32 (q, n, f), and only the cosines it needs."""
    q, n, f = vectors.shape
    weighted = np.float32(relevance_weight) * relevance.astype(np.float32)
    penalty = np.float32(1 - relevance_weight)
    order = np.empty((q, k), dtype=np.int64)
    values = np.empty((q, k), dtype=np.float32)
    if k <= n // 8:  # one product of all vectors costs as much as some n / 8 products with one
        make_values = _values_when_needed
        slices = _slices(q, _IN_CACHE, n * f)
    else:
        make_values = _all_values
        slices = _slices(q, _AT_ONCE, n * n)
    for some in slices:
        after = make_values(vectors[some], weighted[some], penalty)
        order[some], values[some] = _pick(weighted[some], after, k)
    return order, values


def _pick(weighted: np.ndarray, values_after: ValuesAfter, k: int) -> Picked:
    """Pick first by weighted relevance (q, n), then by the least of the values after each pick."""
    q, n = weighted.shape
    kind = weighted.dtype.type
    starts = n * np.arange(q)
    order = np.empty((k, q), dtype=np.int64)
    values = np.empty((k, q), dtype=kind)
    # The least of weighted - penalty * similarity is that of the most similar pick; -inf marks picked passages.
    value = weighted
    least = np.full((q, n), np.inf, dtype=kind)
    for step in range(k):
        order[step] = value.argmax(axis=1)
        at = starts + order[step]
        values[step] = value.take(at)
        if step < k - 1:
            np.minimum(least, values_after(at), out=least)
            least.reshape(-1)[at] = -np.inf
            value = least
    return order.T, values.T


def _from_table(worth: np.ndarray) -> ValuesAfter:
    table = worth.reshape(-1, worth.shape[2])
    return lambda at: table.take(at, axis=0)


def _values_when_needed(vectors: np.ndarray, weighted: np.ndarray, penalty: np.float32) -> ValuesAfter:
    q, n, f = vectors.shape
    first = _first_equal(vectors)
    table = vectors.reshape(q * n, f)

    def values_after(at: np.ndarray) -> np.ndarray:
        cosines = np.matmul(vectors, table.take(at, axis=0)[:, :, None])[:, :, 0]
        if first is not None:
            cosines = np.take_along_axis(cosines, first, axis=1)
        return np.asarray(weighted - penalty * cosines)

    return values_after


def _all_values(vectors: np.ndarray, weighted: np.ndarray, penalty: np.float32) -> ValuesAfter:
    q, n, f = vectors.shape
    worth = np.empty((q, n, n), dtype=np.float32)
    for some in _slices(q, _IN_CACHE, n * f):
        own = vectors[some]
        first = _first_equal(own)
        cosines = np.matmul(own, own.transpose(0, 2, 1))
        if first is not None:
            cosines = np.take_along_axis(cosines, first[:, None, :], axis=2)
        worth[some] = weighted[some, None] - penalty * cosines
    return _from_table(worth)


def _slices(q: int, numbers: int, each: int) -> Iterator[slice]:
    """Yield slices of q questions, of `each` numbers, that hold at most so many numbers, or one question."""
    size = max(1, numbers // max(1, each))
    for start in range(0, q, size):
        yield slice(start, start + size)


def _mmr(
    _: np.ndarray,
    vectors: np.ndarray,
    relevance: np.ndarray,
    k: int,
    weight: float,
) -> Picked:
    return mmr_picks(vectors, relevance, weight, k)


# ---------------------------------------------------------------- by aspects


def _greedy(
    start: float,
    gain: Callable[[np.ndarray, np.ndarray], np.ndarray],
    after: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Choose:
    """Pick k times the best by weight * relevance + (1 - weight) * diversity.

    The state of the aspects, (lists, m), is `start` and becomes `after`(state, p of the picks); `gain`(p, state) is the
    diversity of each candidate, (lists, n).
    """

    def choose(
        _: np.ndarray,
        p: np.ndarray,
        relevance: np.ndarray,
        k: int,
        weight: float,
    ) -> Picked:
        q, n, m = p.shape
        lists = np.arange(q)
        left = np.ones((q, n), dtype=bool)
        state = np.full((q, m), start)
        order = np.empty((q, k), dtype=np.int64)
        values = np.empty((q, k))
        for step in range(k):
            value = weight * relevance + (1 - weight) * gain(p, state)
            value = np.where(left, value, -np.inf)
            best = value.argmax(axis=1)
            order[:, step] = best
            values[:, step] = value[lists, best]
            left[lists, best] = False
            state = after(state, p[lists, best])
        return order, values

    return choose


def _summed(p: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum p (q, n, m) times weights (q, m) aspect by aspect, so that equal passages get equal sums."""
    total = np.zeros(p.shape[:2])
    for aspect in range(p.shape[2]):
        total = total + p[:, :, aspect] * weights[:, aspect, None]
    return total


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
    """A method: it ``needs`` "vectors" or "aspects" to compare passages by; ``choose`` picks them.

    ``of_length_1``: its vectors are scaled to length 1 first, except for vectors of zeros.
    """

    needs: str
    choose: Choose
    of_length_1: bool = False


def _one_by_one(pick: Callable[[str, np.ndarray, np.ndarray, int, float], tuple[Any, Any]]) -> Choose:
    """Pick for one question at a time, from its qid, features, scores, the number of picks and the relevance weight."""

    def choose(
        qids: np.ndarray,
        features: np.ndarray,
        relevance: np.ndarray,
        k: int,
        weight: float,
    ) -> Picked:
        orders = []
        values = []
        for qid, own, scores in zip(qids, features, relevance, strict=True):
            order, value = pick(qid, own, scores, k, weight)
            orders.append(order)
            values.append(value)
        return np.array(orders), np.array(values)

    return choose


def _by_pyversity(strategy: str, **options: Any) -> Diversifier:
    """Wrap a strategy of pyversity, whose dial turns the other way."""

    def pick(
        _: str,
        vectors: np.ndarray,
        scores: np.ndarray,
        k: int,
        weight: float,
    ) -> tuple[Any, Any]:
        import pyversity

        result = getattr(pyversity, strategy)(vectors, scores, k, diversity=1 - weight, **options)
        return result.indices, result.selection_scores

    return Diversifier(VECTORS, _one_by_one(pick))


def own_diversifier(pick: Pick) -> Diversifier:
    """Make a diversifier of a function that reorders the list of one question; the column `value` of its runs is NaN.

    `pick` takes vectors, float32 (n, d); scores, float64 (n,), normalised, best first; k, at most n; and the relevance
    weight, below 1. It returns k different positions of 0 .. n-1, best first. If its first argument is named `aspects`,
    it gets probabilities instead of vectors, float64 (n, m), one column a generated perspective.
    """
    name = _name_of(pick)

    def picked(
        qid: str,
        features: np.ndarray,
        scores: np.ndarray,
        k: int,
        weight: float,
    ) -> tuple[Any, Any]:
        order = pick(features, scores, k, weight)
        if not _are_positions(order, len(scores), k):
            expected = f"{k} different positions from 0 to {len(scores) - 1}"
            problem = f"{name} returned {reprlib.repr(order)} for question {qid!r}; expected {expected}"
            raise InputError(problem, field="method")
        return np.asarray(order, dtype=np.int64), np.full(k, np.nan)

    first = next(iter(inspect.signature(pick).parameters), "")
    return Diversifier(ASPECTS if first == "aspects" else VECTORS, _one_by_one(picked))


def _are_positions(order: Any, n: int, k: int) -> bool:
    positions = np.asarray(order, dtype=object)
    if positions.ndim != 1 or len(positions) != k:
        return False
    for position in positions:
        if isinstance(position, bool) or not isinstance(position, int | np.integer) or not 0 <= position < n:
            return False
    return len(set(positions.tolist())) == k


def _name_of(pick: Pick) -> str:
    return getattr(pick, "__name__", type(pick).__name__)


DIVERSIFIERS: Registry[Diversifier] = Registry(
    "diversifier",
    {
        "mmr": Diversifier(VECTORS, _mmr, of_length_1=True),
        "msd": _by_pyversity("msd"),
        "dpp": _by_pyversity("dpp"),
        "cover": _by_pyversity("cover"),
        # By default pyversity standardises the scores again, after `normalise`.
        "ssd": _by_pyversity("ssd", normalize_scores=False),
        # Santos et al. (2010), equation 1, every aspect equally likely.
        "xquad": Diversifier(ASPECTS, _greedy(1.0, lambda p, new: 1 / p.shape[2] * _summed(p, new), _covered)),
        "pm2": Diversifier(ASPECTS, _greedy(0.0, _pm2, _seated)),  # Dang and Croft (2012)
        # The gain in the expected number of covered aspects, the sum of 1 - prod(1 - p): xQuAD with the sum over
        # aspects instead of the mean, so that the dial depends on their number.
        "coverage": Diversifier(ASPECTS, _greedy(1.0, _summed, _covered)),
    },
    own=lambda pick, _: own_diversifier(pick),
)


# ---------------------------------------------------------------- as a retriever


@dataclass
class Diversified:
    """A retriever whose lists are reordered by a diversifier, chosen among `depth` candidates.

    Arguments as of :func:`diversify`, but `aspects` makes the table; questions without aspects keep their lists.
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
        # A judge would read every candidate, which is slow; only methods by aspects need it, and none at weight 1.
        if DIVERSIFIERS[self.method].needs != ASPECTS or self.relevance_weight == 1:
            self.aspects = None

    def search(self, questions: Sequence[AnyQuery], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question, chosen among `depth` (or k, if that is more)."""
        run = self.retriever.search(questions, max(k, self.depth))
        if run.empty:
            return run
        if self.aspects is None:
            return self._reordered(run, questions, None, k)
        # A query of one perspective has no others to cover: its list stays as it is.
        originals = [question for question in questions if isinstance(question, Question)]
        of_originals = run["qid"].isin({question.qid for question in originals})
        aspects = self.aspects(run[of_originals].reset_index(drop=True), originals)
        chosen = of_originals & run["qid"].isin(set(aspects["qid"].astype(str)))
        if not chosen.any():  # no question has aspects: diversify refuses that
            chosen = of_originals
        reordered = self._reordered(run[chosen].reset_index(drop=True), originals, aspects, k)
        return joined([reordered, run[~chosen & (run["rank"] <= k)]])

    def _reordered(
        self,
        run: pd.DataFrame,
        questions: Sequence[AnyQuery],
        aspects: pd.DataFrame | None,
        k: int,
    ) -> pd.DataFrame:
        # Scores are divided by the largest of their data set, and a collection may hold several.
        sources = run["qid"].map({asked.qid: asked.question.source for asked in questions})
        reordered = []
        for _, lists in run.groupby(sources, dropna=False):
            best = diversify(
                lists,
                self.method,
                relevance_weight=self.relevance_weight,
                vectors=self.vectors,
                aspects=aspects,
                k=k,
            )
            reordered.append(best[RUN_COLUMNS])
        return joined(reordered)


def passage_vectors(
    passages: Sequence[Passage],
    encoder: Encoder,
    text_of: Callable[[Passage], str] = full_text,
) -> Callable[[list[str]], np.ndarray]:
    """Return the function from docnos to vectors, float32 (n, d), that diversifiers compare documents by.

    It encodes each passage once.
    """
    corpus = by_docno(passages)
    encoded: dict[str, np.ndarray] = {}

    def vectors_of(docnos: list[str]) -> np.ndarray:
        for docno in docnos:
            if docno not in corpus:
                raise InputError(f"passage {docno!r} is not in the corpus", field="docno")
        new = [docno for docno in docnos if docno not in encoded]
        if new:
            vectors = encoder.encode_passages([text_of(corpus[docno]) for docno in new])
            encoded.update(zip(new, vectors, strict=True))
        return np.stack([encoded[docno] for docno in docnos])

    return vectors_of
