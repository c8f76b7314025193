"""Perspective-aware projection (PAP) and alternatives: scores from query, root, perspective and passage vectors.

Every method of Zhao et al. (2024), Tables 4 and 8, has one form that takes two matrix products, see :class:`Form`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.records import Passage, Question
from berdslib.errors import InputError, known
from berdslib.models.cards import Encoder, with_instruction
from berdslib.models.corpus_vectors import full_text, vectors_of
from berdslib.retrieval.base import docno_order, gather_run, top_k
from berdslib.retrieval.index import Hits

logger = logging.getLogger(__name__)

# Table 4. (a, b) is the one vector after the other. For "concat" the passage has to grow to that length: by zeros here,
# since (c, c) would rank exactly as "add" does, and the paper's figures for the two are far apart (Table 8). So are its
# figures for "concat+" and "concat", while here vectors of one length rank alike in both: what it did, it does not say.
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
INSTRUCT = "instruct"  # cos(r encoded with p as its instruction, c): appendix A.9, of encoders that read one
# The `_rev` modes of the published code add the component instead of taking it out (divergences.md P4).
OFFICIAL = {"pap-rev": "pap", "pap+-rev": "pap+"}
_TINY = 1e-6  # of a vector's length: what is shorter is rounding, not direction; float32 encoders are exact to 1e-7
_QUERIES, _ROWS = 64, 16_384  # of one block of an exact search: about 130 MiB of memory in all


class Form(NamedTuple):
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
        method: a key of ``METHODS``, or of ``OFFICIAL`` for what the published code does instead of subtracting.
        query: (n, d) vectors of the full queries.
        root: (n, d) vectors of the queries without their perspectives.
        perspective: (n, d) vectors of the perspectives.
        passages: (m, d).
        strength: of a projection: 0 is the baseline, 1 is PAP, less than 0 makes the component along the perspective
            larger.
        source: see :func:`perspective_vectors`.

    Source: section 3.1, equation 2 and Table 4. A vector that vanishes scores 0 with everything.

    >>> q, r, p = np.array([[3.0, 4.0]]), np.array([[0.0, 1.0]]), np.array([[2.0, 0.0]])
    >>> scores("pap", q, r, p, np.array([[1.0, 0.0], [0.0, 5.0]])).tolist()
    [[0.0, 1.0]]
    """
    return apply_form(make_form(method, query, root, perspective, strength=strength, source=source), passages)


def perspective_vectors(
    query: np.ndarray, root: np.ndarray, perspective: np.ndarray, source: str = "text"
) -> np.ndarray:
    """Return the vectors that stand for the perspectives, (n, d); what is only rounding beside the query becomes zero.

    `source` "text" takes the perspectives' own; "difference" takes query − root, which AmbigQA needs because there the
    text of the perspective is the query (divergences.md P5).
    """
    chosen = (
        query - root if known("source of perspectives", source, ("text", "difference")) == "difference" else perspective
    )
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
) -> Form:
    """Return what :func:`scores` computes with; arguments and errors as there."""
    _check_method(method, strength)
    if method in OFFICIAL:
        method, strength = OFFICIAL[method], -strength
    q, r, p = (_vectors(v, name) for v, name in ((query, "query"), (root, "root"), (perspective, "perspective")))
    if not q.shape == r.shape == p.shape:
        raise InputError(f"query, root and perspective must have one shape; they have {q.shape}, {r.shape}, {p.shape}")
    p = perspective_vectors(q, r, p, source)
    size, both = np.square(p).sum(axis=1, keepdims=True), np.hypot(_norm(r), _norm(p))
    match method:
        case "baseline":
            return Form(q, _norm(q))
        case "add":
            return Form(r + p, _norm(r + p))
        case "add+":
            return Form(r + p, _norm(r + p), _dots(r + p, p), p, linear=1.0, added=size)
        case "concat":  # the passage's second half is zero
            return Form(r, both)
        case "concat+":
            return Form(r, both, constant=size, added=size)
        case "cast":
            return Form(q - p, _left(q - p, q))
        case "cast+":
            return Form(q - p, _left(q - p, q), -_dots(q - p, p), p, linear=-1.0, added=size)
        case "dual-sum":
            return Form(unit_vectors(r) + unit_vectors(p), np.ones((len(q), 1)))
        case "tri-sum":
            return Form(unit_vectors(r) + unit_vectors(p) + unit_vectors(q), np.ones((len(q), 1)))
    left = project(q, p, strength)
    if method == "pap":
        return Form(left, _left(left, q))
    # Both sides projected by s: q' · c' = q · c − t (q · p̂)(p̂ · c) and |c'|² = |c|² − t (p̂ · c)², t = 2s − s².
    twice = 2 * strength - strength**2
    return Form(project(q, p, twice), _left(left, q), axis=unit_vectors(p), square=twice)


def _left(vector: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Return the length of what is left of a query; of one along its perspective only rounding is left: it scores 0."""
    length = _norm(vector)
    return np.where(length > _TINY * _norm(query), length, 0.0)


def apply_form(form: Form, passages: np.ndarray) -> np.ndarray:
    """Return the scores of passages (m, d), float64 (n, m), rounded to 12 places; memory: four such arrays."""
    c = _vectors(passages, "passages")
    if c.shape[1] != form.query.shape[1]:
        raise InputError(f"passages have {c.shape[1]} numbers each, queries {form.query.shape[1]}", field="passages")
    along = np.zeros((1, 1)) if form.axis is None else form.axis @ c.T
    whole = np.square(c).sum(axis=1) + form.added
    squared = whole + 2 * form.linear * along - form.square * np.square(along)
    # A passage along the perspective vanishes. The difference of squares is good to 1e-16 of them, so that of anything
    # longer than this the score is good to 1e-6.
    lengths = np.sqrt(np.where(squared > 1e-9 * whole, squared, 0.0)) * form.length
    top = form.query @ c.T + form.constant
    # A matrix product may differ in its last digit from row to row: without rounding, equal passages would not tie.
    return np.divide(top, lengths, out=np.zeros_like(top), where=lengths > 0).round(12)


# ---------------------------------------------------------------- large corpora


def search_exact(form: Form, vectors: np.ndarray, k: int, tie_order: np.ndarray) -> Hits:
    """Return the k best of all passages (m, d) for each query, in blocks: memory does not grow with the corpus."""
    best: Hits = [(np.empty(0, dtype=np.int64), np.empty(0)) for _ in form.query]
    for start in range(0, len(vectors), _ROWS):
        for i, row in enumerate(apply_form(form, vectors[start : start + _ROWS])):
            # Of a later block hardly any score is as good as the k-th best so far.
            new = np.flatnonzero(row >= best[i][1][-1]) if len(best[i][0]) == k else np.arange(len(row))
            rows, values = np.concatenate([best[i][0], new + start]), np.concatenate([best[i][1], row[new]])
            order = top_k(values, k, tie_order[rows])
            best[i] = rows[order], values[order]
    return best


class Projected:
    """A dense retriever that scores queries made of a root and a perspective by a method of ``METHODS``, exactly.

    Where the perspective is the query itself, as in AmbigQA, query - root stands for it (divergences.md P5). A question
    that was made of no other is searched as it is; a blank one finds nothing.

    Args:
        passages: the corpus; docnos must be unique.
        encoder: see :func:`berdslib.models.encoders.get_encoder`; root and perspective are encoded as queries.
        method: see :func:`scores`; or ``INSTRUCT``.
        strength: see :func:`scores`; docs/projection_rule.md says how to choose one.
        extract: cuts root and perspective out of raw queries; see :func:`berdslib.llm.extraction.extract_by`.
        name: what the retriever is called in tables; "" for the method's name.
        text_of: what is encoded of a passage, such as ``card.passage_text``.
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
        self._instructs = method == INSTRUCT
        self.name = name or method
        self._encoder, self._extract = encoder, extract
        self._method, self._strength = "baseline" if self._instructs else method, strength
        _check_method(self._method, strength)
        if self._instructs:
            with_instruction(encoder, "")  # one that reads none is told before a search
        self._docnos = [p.docno for p in passages]
        self._vectors = vectors_of(passages, encoder, text_of)
        self._ties = docno_order(self._docnos)

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for projects in (True, False):
            asked = [q for q in questions if q.text.strip() and self._has_perspective(q) == projects]
            method, strength = (self._method, self._strength) if projects else ("baseline", 1.0)
            q, r, p = self._encoded(asked, projects) if asked else (np.empty((0, 0)),) * 3
            for start in range(0, len(asked), _QUERIES):
                some = slice(start, start + _QUERIES)
                form = make_form(method, q[some], r[some], p[some], strength=strength)
                hits = search_exact(form, self._vectors, k, self._ties)
                found.update(zip((question.qid for question in asked[some]), hits, strict=True))
        nothing = (np.empty(0, dtype=np.int64), np.empty(0))
        return gather_run(questions, self._docnos.__getitem__, [found.get(q.qid, nothing) for q in questions])

    def _has_perspective(self, question: Question) -> bool:
        """Return whether there is one to project out: it is known, or is to be cut out of a raw query."""
        return bool(question.root or (self._extract and not question.perspectives))

    def _encoded(self, asked: Sequence[Question], projects: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the vectors of queries and, if something is to be projected out, of their roots and perspectives."""
        encode, texts = self._encoder.encode_queries, [q.text for q in asked]
        if not projects:
            q = encode(texts)
            return q, q, q
        parts = self._extract(texts) if self._extract else [(q.root, q.perspectives[0]) for q in asked]
        if self._extract and (whole := sum(root == perspective for root, perspective in parts)):
            logger.warning("%s: no perspective can be cut out of %d of %d queries", self.name, whole, len(texts))
        if self._instructs:
            q = self._instructed(parts)
            return q, q, q
        q, r, p = encode(texts), encode([root for root, _ in parts]), encode([perspective for _, perspective in parts])
        its_own = np.array([text == perspective for text, (_, perspective) in zip(texts, parts, strict=True)])
        return q, r, np.where(its_own[:, None], perspective_vectors(q, r, p, "difference"), p)

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
        raise InputError(f"{method!r} does not project, so it has no strength; known: {', '.join(PROJECTIONS)}")
    if not np.isfinite(strength):
        raise InputError("the strength of a projection must be a finite number", field="strength")


def _vectors(values: np.ndarray, name: str) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2:
        raise InputError(f"vectors must be a table (n, d), not of shape {array.shape}", field=name)
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
