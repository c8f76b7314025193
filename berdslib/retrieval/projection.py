"""Perspective-aware projection (PAP) and alternatives: scores from query, root, perspective and passage vectors.

Every method of Zhao et al. (2024), Tables 4 and 8, is computed by two matrix products, see :class:`ScoreForm`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.records import AnyQuery, Passage, Query
from berdslib.errors import InputError, known
from berdslib.models.cards import Encoder, with_instruction
from berdslib.models.corpus_vectors import full_text, vectors_of
from berdslib.retrieval.base import docno_order, gather_run, top_k
from berdslib.retrieval.index import Hits

logger = logging.getLogger(__name__)

# Table 4. (a, b) is a concatenation. "concat" needs passages of the same length: here zeros fill them up, since (c, c)
# would rank exactly as "add" does, and the paper's figures for the two are far apart (Table 8). Its figures for
# "concat+" and "concat" are far apart, too, while here vectors of equal length rank alike; it does not say why.
METHODS = {
    "baseline": "cos(q, c)",
    "add": "cos(r + p, c)",
    "add+": "cos(r + p, c + p)",
    "concat": "cos((r, p), (c, 0))",
    "concat+": "cos((r, p), (c, p))",
    "cast": "cos(q − p, c)",
    "cast+": "cos(q − p, c − p)",
    "dual-sum": "cos(r, c) + cos(p, c)",
    "tri-sum": "cos(r, c) + cos(p, c) + cos(q, c)",
    "pap": "cos(q without p, c)",
    "pap+": "cos(q without p, c without p)",
}
PROJECTIONS = ("pap", "pap+")
INSTRUCT = "instruct"  # cos(r encoded with p as its instruction, c): appendix A.9, for encoders with instructions
# The `_rev` modes of the published code add the component instead of removing it (divergences.md P4).
OFFICIAL = {"pap-rev": "pap", "pap+-rev": "pap+"}
_TINY = 1e-6  # of a vector's length: a shorter rest is rounding, since float32 encoders are exact to 1e-7
_QUERIES_AT_ONCE = 64  # an exact search of such blocks takes about 130 MiB of memory
_PASSAGES_AT_ONCE = 16_384


class ScoreForm(NamedTuple):
    """How n queries score a passage c: (query · c + constant) / (length · |c'|), c' being the changed passage.

    |c'|² = |c|² + 2 linear (axis · c) + added − square (axis · c)². Without an axis the passages stay as they are.

    Fields: ``query`` and ``axis`` float64 (n, d), the others (n, 1) or one number for all.
    """

    query: np.ndarray
    length: np.ndarray
    constant: np.ndarray | float = 0.0
    axis: np.ndarray | None = None
    linear: float = 0.0
    added: np.ndarray | float = 0.0
    square: float = 0.0


def scores(
    method: str,
    query: np.ndarray,
    root: np.ndarray,
    perspective: np.ndarray,
    passages: np.ndarray,
    *,
    strength: float = 1.0,
    source: str = "text",
) -> np.ndarray:
    """Return the score of each passage for each query, float64 (n, m), between -1 and 1 (sums: between -3 and 3).

    Args:
        method: a key of ``METHODS``, or of ``OFFICIAL`` for the published code, which adds instead of subtracting.
        query: (n, d) vectors of the full queries.
        root: (n, d) vectors of the queries without their perspectives.
        perspective: (n, d) vectors of the perspectives.
        passages: (m, d).
        strength: of a projection: 0 is the baseline, 1 is PAP, below 0 the component along the perspective grows.
        source: see :func:`perspective_vectors`.

    Source: section 3.1, equation 2 and Table 4. A vector that vanishes scores 0.

    >>> q, r, p = np.array([[3.0, 4.0]]), np.array([[0.0, 1.0]]), np.array([[2.0, 0.0]])
    >>> scores("pap", q, r, p, np.array([[1.0, 0.0], [0.0, 5.0]])).tolist()
    [[0.0, 1.0]]
    """
    return apply_form(make_form(method, query, root, perspective, strength=strength, source=source), passages)


def perspective_vectors(
    query: np.ndarray,
    root: np.ndarray,
    perspective: np.ndarray,
    source: str = "text",
) -> np.ndarray:
    """Return the vectors that stand for the perspectives, (n, d), and zeros for those of the size of rounding errors.

    `source` "text" takes the perspectives' own vectors; "difference" takes query − root, which AmbigQA needs because
    its perspectives have the text of the query (divergences.md P5).
    """
    known("source of perspectives", source, ("text", "difference"))
    chosen = query - root if source == "difference" else perspective
    return np.where(_norm(chosen) > _TINY * _norm(query), chosen, 0.0)


def project(vectors: np.ndarray, perspective: np.ndarray, strength: float = 1.0) -> np.ndarray:
    """Return vectors (n, d) without their component along their perspectives: x − strength (x · p̂) p̂ (equation 2)."""
    axis = unit_vectors(perspective)
    return vectors - strength * _dots(vectors, axis) * axis


def make_form(
    method: str,
    query: np.ndarray,
    root: np.ndarray,
    perspective: np.ndarray,
    *,
    strength: float = 1.0,
    source: str = "text",
) -> ScoreForm:
    """Return the form by which :func:`scores` computes; arguments and errors as there."""
    _check_method(method, strength)
    if method in OFFICIAL:
        method = OFFICIAL[method]
        strength = -strength
    q = _vectors(query, "query")
    r = _vectors(root, "root")
    p = _vectors(perspective, "perspective")
    if q.shape != r.shape or q.shape != p.shape:
        raise InputError(f"query, root and perspective must have one shape; they have {q.shape}, {r.shape}, {p.shape}")
    p = perspective_vectors(q, r, p, source)
    if method in PROJECTIONS:
        return _projected(method, q, p, strength)
    squares = np.square(p).sum(axis=1, keepdims=True)
    both = np.hypot(_norm(r), _norm(p))
    ones = np.ones((len(q), 1))
    match method:
        case "add":
            return ScoreForm(r + p, _norm(r + p))
        case "add+":
            return ScoreForm(r + p, _norm(r + p), _dots(r + p, p), p, linear=1.0, added=squares)
        case "concat":  # the passage's second half is zero
            return ScoreForm(r, both)
        case "concat+":
            return ScoreForm(r, both, constant=squares, added=squares)
        case "cast":
            return ScoreForm(q - p, _length_left(q - p, q))
        case "cast+":
            return ScoreForm(q - p, _length_left(q - p, q), -_dots(q - p, p), p, linear=-1.0, added=squares)
        case "dual-sum":
            return ScoreForm(unit_vectors(r) + unit_vectors(p), ones)
        case "tri-sum":
            return ScoreForm(unit_vectors(r) + unit_vectors(p) + unit_vectors(q), ones)
    return ScoreForm(q, _norm(q))


def _projected(method: str, q: np.ndarray, p: np.ndarray, strength: float) -> ScoreForm:
    left = project(q, p, strength)
    length = _length_left(left, q)
    if method == "pap":
        return ScoreForm(left, length)
    # Both sides projected by s: q' · c' = q · c − t (q · p̂)(p̂ · c) and |c'|² = |c|² − t (p̂ · c)², t = 2s − s².
    twice = 2 * strength - strength**2
    return ScoreForm(project(q, p, twice), length, axis=unit_vectors(p), square=twice)


def _length_left(vector: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Return the length of a changed query, 0 if only rounding is left, as of a query along its perspective."""
    length = _norm(vector)
    return np.where(length > _TINY * _norm(query), length, 0.0)


def apply_form(form: ScoreForm, passages: np.ndarray) -> np.ndarray:
    """Return the scores of passages (m, d), float64 (n, m), rounded to 12 places; memory: four such arrays."""
    c = _vectors(passages, "passages")
    if c.shape[1] != form.query.shape[1]:
        raise InputError(f"passages have {c.shape[1]} numbers each, queries {form.query.shape[1]}", field="passages")
    along = np.zeros((1, 1)) if form.axis is None else form.axis @ c.T
    before = np.square(c).sum(axis=1) + form.added
    squares = before + 2 * form.linear * along - form.square * np.square(along)
    # A passage along the perspective vanishes. The difference of squares is exact to 1e-16 of them: above this limit
    # the score is exact to 1e-6.
    lengths = np.sqrt(np.where(squares > 1e-9 * before, squares, 0.0)) * form.length
    products = form.query @ c.T + form.constant
    cosines = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    # The rows of a matrix product may differ in the last digit: without rounding, equal passages would not tie.
    return cosines.round(12)


# ---------------------------------------------------------------- large corpora


def search_exact(form: ScoreForm, vectors: np.ndarray, k: int, tie_order: np.ndarray) -> Hits:
    """Return the k best of all passages (m, d) for each query, in blocks: memory does not grow with the corpus."""
    best: Hits = [(np.empty(0, dtype=np.int64), np.empty(0)) for _ in form.query]
    for start in range(0, len(vectors), _PASSAGES_AT_ONCE):
        block = vectors[start : start + _PASSAGES_AT_ONCE]
        for i, block_scores in enumerate(apply_form(form, block)):
            rows, values = best[i]
            new = np.arange(len(block_scores))
            if len(rows) == k:  # few scores of a later block reach the k-th best so far
                new = np.flatnonzero(block_scores >= values[-1])
            rows = np.concatenate([rows, new + start])
            values = np.concatenate([values, block_scores[new]])
            order = top_k(values, k, tie_order[rows])
            best[i] = rows[order], values[order]
    return best


class Projected:
    """A dense retriever that scores queries made of a root and a perspective by a method of ``METHODS``, exactly.

    The root of a query is its question's text. If the perspective is the query itself, as in AmbigQA, query - root
    stands for it (divergences.md P5). Questions are searched unchanged; a blank text finds nothing.

    Args:
        passages: the corpus; docnos must be unique.
        encoder: see :func:`berdslib.models.encoders.get_encoder`; root and perspective are encoded as queries.
        method: see :func:`scores`; or ``INSTRUCT``.
        strength: see :func:`scores`; docs/projection_rule.md says how to choose one.
        extract: cuts root and perspective out of raw queries; see :func:`berdslib.llm.extraction.extract_by`.
        name: the retriever's name in tables; "" for the method's name.
        text_of: the text of a passage that is encoded, such as ``card.passage_text``.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        encoder: Encoder,
        *,
        method: str = "pap+",
        strength: float = 1.0,
        extract: Callable[[Sequence[str]], Sequence[tuple[str, str]]] | None = None,
        name: str = "",
        text_of: Callable[[Passage], str] = full_text,
    ) -> None:
        self.name = name or method
        self._encoder = encoder
        self._extract = extract
        self._instructs = method == INSTRUCT
        self._method = "baseline" if self._instructs else method
        self._strength = strength
        _check_method(self._method, strength)
        if self._instructs:
            with_instruction(encoder, "")  # refuses an encoder without instructions before the search
        self._docnos = [p.docno for p in passages]
        self._vectors = vectors_of(passages, encoder, text_of)
        self._ties = docno_order(self._docnos)

    def search(self, questions: Sequence[AnyQuery], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        hits_by_qid: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for projects in (True, False):
            queries = [q for q in questions if q.text.strip() and self._has_perspective(q) == projects]
            if not queries:
                continue
            method = self._method if projects else "baseline"
            strength = self._strength if projects else 1.0
            q, r, p = self._encoded(queries, projects)
            for start in range(0, len(queries), _QUERIES_AT_ONCE):
                some = slice(start, start + _QUERIES_AT_ONCE)
                form = make_form(method, q[some], r[some], p[some], strength=strength)
                hits = search_exact(form, self._vectors, k, self._ties)
                hits_by_qid.update(zip([query.qid for query in queries[some]], hits, strict=True))
        no_hits = (np.empty(0, dtype=np.int64), np.empty(0))
        rankings = [hits_by_qid.get(question.qid, no_hits) for question in questions]
        return gather_run(questions, self._docnos.__getitem__, rankings)

    def _has_perspective(self, asked: AnyQuery) -> bool:
        """Return whether there is a perspective to project out: a known one, or one to cut out of a raw query."""
        is_known = isinstance(asked, Query) and bool(asked.perspective)
        return is_known or (self._extract is not None and not asked.question.perspectives)

    def _encoded(self, queries: Sequence[AnyQuery], projects: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the vectors of queries and, if they are projected, of their roots and perspectives."""
        encode = self._encoder.encode_queries
        texts = [query.text for query in queries]
        if not projects:
            q = encode(texts)
            return q, q, q
        if self._extract:
            parts = self._extract(texts)
            uncut = sum(root == perspective for root, perspective in parts)
            if uncut:
                logger.warning("%s: no perspective can be cut out of %d of %d queries", self.name, uncut, len(texts))
        else:
            parts = [(query.question.text, query.perspective) for query in queries if isinstance(query, Query)]
        if self._instructs:
            q = self._instructed(parts)
            return q, q, q
        perspectives = [perspective for _, perspective in parts]
        q = encode(texts)
        r = encode([root for root, _ in parts])
        p = encode(perspectives)
        are_queries = np.array([text == perspective for text, perspective in zip(texts, perspectives, strict=True)])
        return q, r, np.where(are_queries[:, None], perspective_vectors(q, r, p, "difference"), p)

    def _instructed(self, parts: Sequence[tuple[str, str]]) -> np.ndarray:
        """Return the vectors of roots, each with its perspective as the encoder's instruction."""
        table = pd.DataFrame(parts, columns=["root", "perspective"])
        vectors: dict[int, np.ndarray] = {}
        for perspective, same in table.groupby("perspective"):
            encoder = with_instruction(self._encoder, str(perspective))
            vectors.update(zip(same.index, encoder.encode_queries(same["root"].tolist()), strict=True))
        return np.array([vectors[row] for row in table.index])


# ---------------------------------------------------------------- small parts


def _check_method(method: str, strength: float) -> None:
    known("method", method, [*METHODS, *OFFICIAL])
    if strength != 1 and method not in (*PROJECTIONS, *OFFICIAL):
        raise InputError(f"{method!r} does not project and has no strength; use {' or '.join(PROJECTIONS)}")
    if not np.isfinite(strength):
        raise InputError("the strength of a projection must be a finite number", field="strength")


def _vectors(values: np.ndarray, name: str) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2:
        raise InputError(f"expected vectors of shape (n, d), not {array.shape}", field=name)
    if not np.isfinite(array).all():
        raise InputError("a vector is not finite", field=name)
    return array


def _dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", a, b)[:, None]


def _norm(vectors: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors, axis=1, keepdims=True)


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Return the vectors at length 1, float64 (n, d); a zero vector stays zero."""
    length = _norm(vectors)
    return np.divide(vectors, length, out=np.zeros_like(vectors, dtype=np.float64), where=length > 0)
