"""Diversifiers: reorder a run so that each passage adds something new to those above it.

All share one dial, ``relevance_weight``: 1 is pure relevance and leaves the order as it is, 0 is pure diversity. They
work on all questions at once, in padded arrays question x candidate: each step picks one passage for every question.
"""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from threadpoolctl import ThreadpoolController

from berdslib.data.records import check_run
from berdslib.errors import InputError
from berdslib.registry import Registry
from berdslib.retrieval.candidates import (
    Block,
    Features,
    Vectors,
    aspects_of,
    blocks,
    no_features,
    reordered,
    vector_features,
)

PM2_SHARE = 0.5  # of the aspect whose turn it is; Dang and Croft's lambda

_NUMBERS_IN_CACHE = 2**19  # in the vectors of the questions that one thread takes at once: 2 MiB

# From a block, the relevance weight and k to orders int (q, k), positions in 0 .. n-1, and values float (q, k).
Choose = Callable[[Block, float, int], tuple[np.ndarray, np.ndarray]]


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
            of pyversity. By aspects: "xquad", "pm2", "coverage". Or a function of your own, by vectors:
            ``(vectors, scores, k, relevance_weight) -> positions``; see :func:`own_diversifier`.
        relevance_weight: from 0 to 1; 1 keeps the order. Scores weigh as `normalise` leaves them, except in "dpp",
            which standardises them itself (and at 0.99 is still far from the order that 1 keeps).
        vectors: for documents: docno -> vector, or a function from docnos to (n, d) vectors; compared by cosine.
        aspects: frame qid, pid, docno, p: the probability that the passage argues *generated* perspective pid.
            Pairs not listed have p = 0. Do not pass the perspectives that the run is scored by.
        k: how many passages to keep of each list; 0 for all.
        normalise: a key of ``NORMALISATIONS``.

    Returns:
        A run; its scores are negated ranks, and column `value` holds what the method gave each passage when it picked
        it (divergences.md B5).

    Raises:
        InputError: an unknown name, a weight outside 0..1, a negative k, a frame without its columns; vectors or
            aspects that the method needs and that are missing, altogether or for one passage or question; a function
            of your own that returns anything but positions.

    Source: BeRDS section 6 and A.6 (MMR); Santos et al. (2010) (xQuAD); Dang and Croft (2012) (PM-2).

    >>> from berdslib.data.records import ranked_run
    >>> run = ranked_run({"q": ["a", "copy of a", "b"]})
    >>> vectors = {"a": [1, 0], "copy of a": [1, 0], "b": [0, 1]}
    >>> diversify(run, vectors=vectors, relevance_weight=0.5, normalise="rank")["docno"].tolist()
    ['a', 'b', 'copy of a']
    """
    if callable(method):
        name, diversifier = _name_of(method), own_diversifier(method)
    else:
        name, diversifier = method, DIVERSIFIERS.find(method)[0]
    choose = diversifier.choose
    _check_weight(relevance_weight, k)
    clean = check_run(run)
    if relevance_weight == 1:  # no method has anything to add, and some would break ties their own way
        choose, features = _as_listed, no_features(clean)
    else:
        features = _features_for(name, diversifier.needs, clean, vectors, aspects)
    found = [
        (questions, *choose(block, relevance_weight, _depth(block, k)))
        for questions, block in blocks(clean, normalise, features)
    ]
    return reordered(clean, found, k)


def mmr_sweep(
    run: pd.DataFrame,
    relevance_weights: Sequence[float],
    *,
    vectors: Vectors,
    k: int = 0,
    normalise: str = "max_per_dataset",
) -> dict[float, pd.DataFrame]:
    """Return for each weight what ``diversify(run, "mmr", …)`` returns; similarities are computed once.

    Args:
        run: as the next three in :func:`diversify`.
        relevance_weights: at least one, each from 0 to 1; the paper tries 0.5, 0.75, 0.9, 0.95 and 0.99 (A.6).
        vectors: for documents.
        k: how many passages to keep of each list; 0 for all.
        normalise: a key of ``NORMALISATIONS``.

    Raises:
        InputError: as :func:`diversify`; no weights.
    """
    weights = [float(w) for w in relevance_weights]
    if not weights:
        raise InputError("there are no weights to try", field="relevance_weights")
    for weight in weights:
        _check_weight(weight, k)
    clean = check_run(run)
    found = []
    for questions, block in blocks(clean, normalise, vector_features(clean, vectors)):
        found.append((questions, *_mmr(block, weights, _depth(block, k))))
    return {w: reordered(clean, [(qs, o[i], v[i]) for qs, o, v in found], k) for i, w in enumerate(weights)}


# ---------------------------------------------------------------- MMR

# Fills float (rows, n) with what picks, int (rows,) of 0 .. q * n - 1, resemble the candidates of their questions by.
_Fill = Callable[[np.ndarray, np.ndarray], None]


def mmr(
    relevance: np.ndarray,
    vectors: np.ndarray,
    at: np.ndarray,
    present: np.ndarray,
    relevance_weight: float | Sequence[float],
    k: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Pick by maximal marginal relevance and cosine, on as many threads as NumPy's BLAS may use.

    Args:
        relevance: as the next four in :func:`mmr_orders` and :func:`similarities`, (q, n) float.
        vectors: (d, f) float32.
        at: (q, n) int.
        present: (q, n) bool.
        relevance_weight: from 0 to 1; or several.
        k: how many to pick; 0 for all n.

    Returns:
        As :func:`mmr_orders`, values float32.
    """
    (q, n), f = at.shape, vectors.shape[1]
    # The rows of the picks are all that is needed; one by one they cost four times what they cost in one product.
    if 4 * np.size(relevance_weight) * (min(k, n) if k else n) >= n:
        return mmr_orders(relevance, similarities(vectors, at), present, relevance_weight, k)

    def pick(some: slice) -> tuple[np.ndarray, np.ndarray]:
        fill = _rows_of_picks(vectors, at[some])
        return _pick(relevance[some], present[some], relevance_weight, k, np.dtype(np.float32), fill)

    # Four times as many at once as in similarities(): each step is a few calls of NumPy, however many the questions.
    orders, values = zip(*in_threads(pick, q, 4 * _NUMBERS_IN_CACHE // (n * f)), strict=True)
    return np.concatenate(orders, axis=-2), np.concatenate(values, axis=-2)


def mmr_orders(
    relevance: np.ndarray,
    similarity: np.ndarray,
    present: np.ndarray,
    relevance_weight: float | Sequence[float],
    k: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Pick by maximal marginal relevance, all questions in step; equal values go to the earlier position.

    The first pick is by relevance alone: nothing is chosen yet that it could resemble (divergences.md B4).

    Args:
        relevance: (q, n) float, at most 1e15 in size.
        similarity: (q, n, n) float, of every two candidates; its precision is that of the values.
        present: (q, n) bool, false where there is no candidate.
        relevance_weight: from 0 to 1; or several, which then share the work on similarities.
        k: how many to pick; 0 for all n.

    Returns:
        Orders int64 (q, k) of positions in 0 .. n-1, and the value of each when it was picked, (q, k): only the first
        ``present.sum(axis=1)`` of each row mean anything, later values are -inf. With several weights (w, q, k) each.

    Source: BeRDS equation 1, after Carbonell and Goldstein (1998).
    """
    rows = similarity.reshape(-1, similarity.shape[2])

    def fill(picks: np.ndarray, out: np.ndarray) -> None:
        np.take(rows, picks, axis=0, out=out, mode="clip")

    return _pick(relevance, present, relevance_weight, k, similarity.dtype, fill)


def _pick(
    relevance: np.ndarray,
    present: np.ndarray,
    relevance_weight: float | Sequence[float],
    k: int,
    dtype: np.dtype[Any],
    fill: _Fill,
) -> tuple[np.ndarray, np.ndarray]:
    q, n = relevance.shape
    weights = np.atleast_1d(np.asarray(relevance_weight, dtype=np.float64))[:, None]
    copies, steps = len(weights), min(k, n) if k else n
    # Every question once for each weight, and all arrays flat: then a step is a few calls of NumPy, whatever q.
    there = np.tile(present.reshape(1, q * n), (copies, 1))
    weighted = weights.astype(dtype) * np.where(present, relevance, 0).astype(dtype).reshape(1, q * n)
    penalty = (1 - weights).astype(dtype)
    value, similar = np.where(there, weighted, dtype.type(-np.inf)), np.empty_like(weighted)
    first, first_row = np.arange(copies * q) * n, np.tile(np.arange(q) * n, copies)
    orders, values = np.empty((steps, copies * q), dtype=np.int64), np.empty((steps, copies * q), dtype=dtype)
    for step in range(steps):
        best = np.argmax(value.reshape(-1, n), axis=1, out=orders[step])
        np.take(value.reshape(-1), best + first, out=values[step], mode="clip")
        if step + 1 == steps:  # no pick follows that could resemble this one
            break
        # The least of weighted - penalty * similarity over the picks is weighted - penalty * (the largest similarity):
        # so the values themselves are kept up to date, and what is -inf (picked, or never there) stays so.
        fill(best + first_row, similar.reshape(-1, n))
        np.multiply(similar, penalty, out=similar)
        np.subtract(weighted, similar, out=similar)
        if step == 0:
            np.copyto(value, similar, where=there)
        else:
            np.minimum(value, similar, out=value)
        value.reshape(-1)[best + first] = -np.inf
    shape = (q, steps) if np.ndim(relevance_weight) == 0 else (copies, q, steps)
    return orders.T.reshape(shape), values.T.reshape(shape)


def _rows_of_picks(vectors: np.ndarray, at: np.ndarray) -> _Fill:
    own = vectors[at]
    (q, n, f), scale = own.shape, _inverse(np.einsum("qnf,qnf->qn", own, own))

    def fill(picks: np.ndarray, out: np.ndarray) -> None:
        for of_weight, rows in zip(picks.reshape(-1, q), out.reshape(-1, q, n), strict=True):
            picked = own.reshape(q * n, f)[of_weight]
            # One dot product a candidate: BLAS has other code for the odd rows of a matrix, and what rounds in another
            # way would part equal vectors.
            np.matmul(own[:, :, None, :], picked[:, None, :, None], out=rows[:, :, None, None])
            rows *= scale.reshape(-1)[of_weight][:, None]
            rows *= scale

    return fill


def similarities(vectors: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the cosines of every two candidates of each question; a vector of zeros resembles nothing.

    Args:
        vectors: (d, f) float32, of any lengths from 1e-15 to 1e15, or 0.
        at: (q, n) int, the row in `vectors` of each candidate; candidates of one row resemble all others equally.

    Returns:
        (q, n, n) float32.
    """
    (q, n), f = at.shape, vectors.shape[1]
    cosines = np.empty((q, n, n), dtype=np.float32)

    def compare(questions: slice) -> None:
        own, some = vectors[at[questions]], cosines[questions]
        np.matmul(own, own.transpose(0, 2, 1), out=some)
        # Scaling products is less work than scaling vectors; the lengths stand, squared, on the diagonal.
        scale = _inverse(some.diagonal(axis1=1, axis2=2))
        some *= scale[:, :, None]
        some *= scale[:, None, :]

    in_threads(compare, q, _NUMBERS_IN_CACHE // (n * max(n, f)))
    lists, later, first = _twins(at)  # BLAS may round odd rows of a matrix in another way, and so part equal vectors
    cosines[lists, :, later] = cosines[lists, :, first]
    return cosines


def _inverse(squared: np.ndarray) -> np.ndarray:
    """Return 1 / length, and 0 for no length."""
    return np.where(squared > 0, 1 / np.sqrt(np.where(squared > 0, squared, 1)), 0)


def _twins(at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return list, place and first place in it of every candidate whose number stands in the list before."""
    order = np.argsort(at, axis=1, kind="stable")
    again = np.diff(np.take_along_axis(at, order, axis=1), axis=1, prepend=-1) == 0
    lists, places = np.nonzero(again)
    start = np.maximum.accumulate(np.where(again, 0, np.arange(at.shape[1])), axis=1)
    return lists, order[lists, places], order[lists, start[lists, places]]


def _mmr(block: Block, relevance_weight: float | Sequence[float], k: int) -> tuple[np.ndarray, np.ndarray]:
    return mmr(block.relevance, block.features, block.at, block.present, relevance_weight, k)


# ---------------------------------------------------------------- threads


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def in_threads(work: Callable[[slice], Any], q: int, at_once: int) -> list[Any]:
    """Return what `work` makes of each so many of q questions, on as many threads as BLAS may use.

    A product so small is made by one thread: several wait for each other longer than they work, above all where
    others want the processors too.
    """
    parts = [slice(start, start + max(1, at_once)) for start in range(0, q, max(1, at_once))]
    threads = max((library.num_threads for library in _blas().lib_controllers), default=1)
    with _blas().limit(limits=1):
        if min(threads, len(parts)) == 1:
            return [work(part) for part in parts]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, parts))


# ---------------------------------------------------------------- by aspects


def _xquad(block: Block, relevance_weight: float, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Explicit query aspect diversification, every aspect equally likely. Santos et al. (2010), equation 1."""
    return _by_novelty(block, relevance_weight, k, 1 / block.aspects)


def _coverage(block: Block, relevance_weight: float, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Greedy gain in the expected number of aspects covered, the sum of 1 - prod(1 - p).

    As xQuAD, but aspects are counted where xQuAD takes their mean: the dial stands elsewhere for each number of them.
    """
    return _by_novelty(block, relevance_weight, k, np.ones(len(block.aspects)))


def _by_novelty(block: Block, relevance_weight: float, k: int, worth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    p, uncovered = _probabilities(block)

    def novelty() -> np.ndarray:
        return worth[:, None] * _summed(p, uncovered)

    def take(lists: np.ndarray, best: np.ndarray) -> None:
        np.multiply(uncovered, 1 - p[:, lists, best], out=uncovered)

    return _greedy(block, relevance_weight, k, novelty, take)


def _pm2(block: Block, relevance_weight: float, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Proportionality: each place is a seat that aspects win by Sainte-Laguë's quotients. Dang and Croft (2012), PM-2.

    Its own lambda, ``PM2_SHARE``, weighs the aspect whose turn it is against the others; relevance comes in beside it.
    """
    p, real = _probabilities(block)
    votes, seats, lists = real / block.aspects, np.zeros_like(real), np.arange(len(block.aspects))

    def gain() -> np.ndarray:
        quotient = votes / (2 * seats + 1)
        turn = quotient.argmax(axis=0)
        share = (1 - PM2_SHARE) * quotient
        share[turn, lists] = PM2_SHARE * quotient[turn, lists]
        return _summed(p, share)

    def take(lists: np.ndarray, best: np.ndarray) -> None:
        won = p[:, lists, best]
        total = won.sum(axis=0)
        np.add(seats, won / np.where(total > 0, total, 1), out=seats)

    return _greedy(block, relevance_weight, k, gain, take)


def _probabilities(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """Return p, (m, q, n), and what is 1 where a question has an aspect and 0 where it has fewer, (m, q)."""
    p = np.ascontiguousarray(np.moveaxis(block.features[block.at], 2, 0))
    return p, (np.arange(len(p))[:, None] < block.aspects).astype(np.float64)


def _summed(p: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum p (m, q, n) times weights (m, q) over aspects, one after the other: equal passages get equal sums."""
    total = np.zeros(p.shape[1:])
    for of_aspect, weight in zip(p, weights, strict=True):
        total += of_aspect * weight[:, None]
    return total


def _greedy(
    block: Block,
    relevance_weight: float,
    k: int,
    diversity: Callable[[], np.ndarray],
    take: Callable[[np.ndarray, np.ndarray], None],
) -> tuple[np.ndarray, np.ndarray]:
    """Pick k times what is best by weight * relevance + (1 - weight) * diversity, which `take` brings up to date."""
    lists = np.arange(len(block.relevance))
    left = block.present.copy()
    orders, values = np.empty((len(lists), k), dtype=np.int64), np.empty((len(lists), k))
    for step in range(k):
        value = relevance_weight * block.relevance + (1 - relevance_weight) * diversity()
        value[~left] = -np.inf
        best = value.argmax(axis=1)
        orders[:, step], values[:, step] = best, value[lists, best]
        left[lists, best] = False
        take(lists, best)
    return orders, values


# ---------------------------------------------------------------- one question at a time

# From vectors float32 (n, d), normalised scores float64 (n,), k of at most n and the relevance weight to the positions
# (k,) of the picks, best first.
Pick = Callable[[np.ndarray, np.ndarray, int, float], Any]


def own_diversifier(pick: Pick) -> Diversifier:
    """Make a diversifier of a function that reorders the list of one question.

    It says nothing of what its picks were worth: the column `value` of the run is NaN.

    Args:
        pick: from vectors, float32 (n, d); scores, float64 (n,), best first and normalised as :func:`diversify` is told
            to; k, how many to pick, at most n; and the relevance weight, 0 up to but not 1, which keeps the order
            without asking: to k positions of 0 .. n-1, none twice, best first.

    Raises:
        InputError: when it is used and returns anything else.
    """
    name = _name_of(pick)

    def picked(question: str, vectors: np.ndarray, scores: np.ndarray, k: int, weight: float) -> _Picked:
        order = pick(vectors, scores, k, weight)
        wrong = _wrong_order(order, len(scores), k)
        if wrong:
            raise InputError(
                f"{name} {wrong} for question {question!r}; accepted are {k} positions, whole numbers from 0 to "
                f"{len(scores) - 1}, none twice",
                field="method",
            )
        return np.asarray(order, dtype=np.int64), np.full(k, np.nan)

    return Diversifier("vectors", _one_by_one(picked))


def _wrong_order(order: Any, n: int, k: int) -> str:
    """Say what is wrong with k positions among n; nothing where they are fine."""
    found = np.asarray(order, dtype=object)
    if found.ndim != 1:
        return f"returned {reprlib.repr(order)}, which is no list of positions,"
    if len(found) != k:
        return f"returned {len(found)} positions"
    odd = next((x for x in found if isinstance(x, bool) or not isinstance(x, (int, np.integer))), None)
    if odd is not None:
        return f"returned {odd!r}, which is no whole number,"
    beyond = next((x for x in found if not 0 <= x < n), None)
    if beyond is not None:
        return f"returned position {beyond}"
    again = pd.Series(found).duplicated()
    return f"returned position {found[int(again.argmax())]} twice" if again.any() else ""


def _name_of(pick: Pick) -> str:
    return getattr(pick, "__name__", type(pick).__name__)


def _by_pyversity(strategy: str, **options: Any) -> Choose:
    """Wrap a strategy of pyversity, whose dial turns the other way."""

    def picked(_: str, vectors: np.ndarray, scores: np.ndarray, k: int, weight: float) -> _Picked:
        import pyversity

        result = getattr(pyversity, strategy)(vectors, scores, k, diversity=1 - weight, **options)
        return result.indices, result.selection_scores

    return _one_by_one(picked)


_Picked = tuple[np.ndarray, np.ndarray]  # positions int (k,) and values float (k,)


def _one_by_one(pick: Callable[[str, np.ndarray, np.ndarray, int, float], _Picked]) -> Choose:
    """Pick for one question at a time, from its qid, vectors, scores, the number of picks and the relevance weight."""

    def choose(block: Block, relevance_weight: float, k: int) -> tuple[np.ndarray, np.ndarray]:
        orders = np.zeros((len(block.at), k), dtype=np.int64)
        values = np.full((len(block.at), k), -np.inf)
        for i, n in enumerate(block.present.sum(axis=1).tolist()):
            few, vectors, scores = min(k, n), block.features[block.at[i, :n]], block.relevance[i, :n]
            orders[i, :few], values[i, :few] = pick(block.qids[i], vectors, scores, few, relevance_weight)
        return orders, values

    return choose


# ---------------------------------------------------------------- the registry


class Diversifier(NamedTuple):
    """A method: ``needs`` says what it compares passages by, "vectors" or "aspects"; ``choose`` does the picking."""

    needs: str
    choose: Choose


DIVERSIFIERS: Registry[Diversifier] = Registry(
    "diversifier",
    {
        "mmr": Diversifier("vectors", _mmr),
        "msd": Diversifier("vectors", _by_pyversity("msd")),
        "dpp": Diversifier("vectors", _by_pyversity("dpp")),
        "cover": Diversifier("vectors", _by_pyversity("cover")),
        # Else it would standardise scores itself, whatever `normalise` says.
        "ssd": Diversifier("vectors", _by_pyversity("ssd", normalize_scores=False)),
        "xquad": Diversifier("aspects", _xquad),
        "pm2": Diversifier("aspects", _pm2),
        "coverage": Diversifier("aspects", _coverage),
    },
)


def _as_listed(block: Block, relevance_weight: float, k: int) -> tuple[np.ndarray, np.ndarray]:
    return np.broadcast_to(np.arange(k), (len(block.relevance), k)), relevance_weight * block.relevance[:, :k]


def _check_weight(relevance_weight: float, k: int) -> None:
    if not 0 <= relevance_weight <= 1:
        raise InputError(
            f"must be from 0 (diversity) to 1 (relevance), not {relevance_weight}", field="relevance_weight"
        )
    if k < 0:
        raise InputError(f"k must be at least 1, or 0 for all, not {k}", field="k")


def _features_for(
    name: str, needs: str, clean: pd.DataFrame, vectors: Vectors | None, aspects: pd.DataFrame | None
) -> Features:
    if needs == "vectors":
        if vectors is None:
            raise InputError(f"{name!r} needs vectors: docno -> vector, or a function of docnos", field="vectors")
        return vector_features(clean, vectors)
    if aspects is None:
        raise InputError(f"{name!r} needs a table qid, pid, docno, p of generated perspectives", field="aspects")
    return aspects_of(clean, aspects)


def _depth(block: Block, k: int) -> int:
    n = block.present.shape[1]
    return min(k, n) if k else n
