"""Whether, and from what, to project: choices made on development roots, and a rule that sees vectors only.

Projection helps where a perspective moves a query's scores without telling passages apart ("a news article biased
towards: left" finds whatever sounds like news), and ruins where the perspective is what is sought ("in Brazil").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from berdslib.errors import InputError
from berdslib.retrieval.projection import Form, make_form, perspective_vectors, unit_vectors

# Chosen with benchmarks/bench_projection.py --tasks on half of the demo's roots and on three tasks of other roots: no
# task there falls more than a point below the baseline. From 0.6 to 0.75 little changes; at 0.4 places count as loud.
LOUD = 0.6  # a perspective that spreads the scores so much in relation to its root is projected out
SAME = 0.3  # a perspective whose cosine with its root is larger repeats part of it: AmbigQA's is 0.84, AllSides' 0.17
SAMPLE = 10_000  # passages

Key = TypeVar("Key")
STRENGTHS = (-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0)


def half_of_roots(roots: Sequence[str], seed: int = 0) -> np.ndarray:
    """Return a mask (n,) of the queries to choose on: those of half of the roots, drawn at random.

    Args:
        roots: (n,) the root of each query.
        seed: of the draw; the order of the queries plays no part.

    The queries of the other half are for scoring, once.
    """
    names = np.unique(np.asarray(roots))
    drawn = np.random.default_rng(seed).permutation(names)[: (len(names) + 1) // 2]
    return np.isin(roots, drawn)


def choose(options: Mapping[Key, np.ndarray], default: Key) -> Key:
    """Return the option with the best mean over development roots; the default unless it is beaten by a standard error.

    A task has few roots, and the best of many options is partly the luckiest: the paired difference to the default has
    to exceed its standard error.

    Args:
        options: for each option (n,) scores per root, roots in one order; such as a strength and its p-Recall.
        default: the option to keep when in doubt, such as strength 0.

    Raises:
        InputError: the default is no option, fewer than two roots, or scores of different lengths.

    >>> choose({0.0: np.array([0.2, 0.4, 0.3]), 1.0: np.array([0.6, 0.7, 0.8])}, default=0.0)
    1.0
    """
    if default not in options:
        raise InputError(f"the default {default!r} is not among the options")
    base = np.asarray(options[default], dtype=np.float64)
    if len(base) < 2 or any(len(values) != len(base) for values in options.values()):
        raise InputError("every option needs one score for each of two roots or more")
    gains = {key: np.asarray(values, dtype=np.float64) - base for key, values in options.items()}
    sure = [key for key, gain in gains.items() if gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain))]
    return max(sure, key=lambda key: gains[key].mean(), default=default)


def contrast(perspective: np.ndarray, roots: Sequence[str]) -> np.ndarray:
    """Return for each query its perspective less the mean of the other perspectives of its root, (n, d).

    Repeats of a perspective count once; where a root has no other, the vector is zero, and projection changes nothing.

    Args:
        perspective: (n, d).
        roots: (n,) the root of each query.
    """
    vectors, of_root = np.asarray(perspective, dtype=np.float64), np.asarray(roots)
    out = np.zeros_like(vectors)
    for root in np.unique(of_root):
        rows = np.flatnonzero(of_root == root)
        distinct, which = np.unique(vectors[rows], axis=0, return_inverse=True)
        if len(distinct) > 1:
            others = (distinct.sum(axis=0) - distinct) / (len(distinct) - 1)
            out[rows] = (distinct - others)[which.ravel()]
    return out


def loudness(root: np.ndarray, perspective: np.ndarray, passages: np.ndarray, sample: int = SAMPLE) -> np.ndarray:
    """Return how much more the perspective spreads the passages' scores than the root does, (n,).

    The ratio of two standard deviations of cosines. They are taken over the corpus, not over the root's neighbours:
    among twenty articles on one event the root says little, and the place that tells them apart would seem loud.

    Args:
        root: (n, d).
        perspective: (n, d); the loudness of a zero vector is 0.
        passages: (m, d), memory-mapped or not.
        sample: of a larger corpus, so many passages at equal distances are looked at.
    """
    step = max(1, -(-len(passages) // sample))
    seen = unit_vectors(np.asarray(passages[::step], dtype=np.float64))
    by_root, by_perspective = ((seen @ unit_vectors(v).T).std(axis=0) for v in (root, perspective))
    return np.divide(by_perspective, by_root, out=np.zeros(len(root)), where=by_root > 0)


def adaptive_form(
    query: np.ndarray,
    root: np.ndarray,
    perspective: np.ndarray,
    passages: np.ndarray,
    *,
    loud: float = LOUD,
    same: float = SAME,
    sample: int = SAMPLE,
) -> Form:
    """Return a form that projects loud perspectives out of the query ("pap") and leaves the others in ("baseline").

    Sees vectors only, each query by itself. Where a perspective repeats its root, it is query − root that is projected
    out: the text itself would take the topic along. A perspective that is loud and sought nevertheless is projected out
    too: these vectors do not tell the two apart. Do not expect much: on the scoring halves of PIR's demo tasks it lost
    nothing and won nothing that is clear of chance (8 to 17 roots each), and on a task of stances it lost one query.

    Args:
        query: (n, d).
        root: (n, d).
        perspective: (n, d).
        passages: (m, d), the corpus.
        loud: the :func:`loudness` above which a perspective is projected out.
        same: the cosine of perspective and root above which it repeats the root.
        sample: how many passages the loudness looks at.

    Returns:
        A form for :func:`~berdslib.retrieval.projection.apply_form` or ``rescore``; as a function, it is a method for
        :class:`~berdslib.retrieval.projection.Projected`.
    """
    repeats = np.einsum("ij,ij->i", unit_vectors(root), unit_vectors(perspective)) > same
    direction = np.where(repeats[:, None], perspective_vectors(query, root, perspective, "difference"), perspective)
    projected = make_form("pap", query, root, direction)
    unchanged = make_form("baseline", query, root, direction)
    is_loud = loudness(root, direction, passages, sample) > loud
    return Form(*(np.where(is_loud, a.T, b.T).T for a, b in zip(projected, unchanged, strict=True)))
