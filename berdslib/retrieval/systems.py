"""Systems made of parts: a retriever, expanded, its list diversified; each is a retriever again.

A name such as ``"minilm+expand:gpt-4+mmr:0.75"`` reads from left to right: search with minilm, do so under every
perspective that GPT-4 thought of, then reorder the fused list by MMR. The other way round,
``"minilm+mmr:0.75+expand:gpt-4"``, each perspective's own list is reordered before they are fused. Two orders are
refused. A diversifier that needs generated perspectives, or another expansion, cannot stand before an expansion,
because the expanded queries are not the questions that these perspectives belong to. And "+cross:MODEL" is part of the
retriever's name, so it comes first.

:func:`make_system` builds a system from what it is handed: expansions, vectors, aspects.
:func:`berdslib.study.named_systems.named_systems` finds all of that from the names alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from berdslib.data.corpus import by_docno
from berdslib.data.records import Passage, Question
from berdslib.errors import InputError, known
from berdslib.models.base import Encoder
from berdslib.models.corpus_vectors import full_text
from berdslib.retrieval.base import Retriever, check_search, checked_search
from berdslib.retrieval.candidates import Vectors
from berdslib.retrieval.diversify import DIVERSIFIERS, diversify
from berdslib.retrieval.expansion import SEARCHED, Expanded, Expansions
from berdslib.retrieval.retrievers import check_retriever, make_retriever

# From a run and the questions to a table qid, pid, docno, p over *generated* perspectives.
AspectsOf = Callable[[pd.DataFrame, Sequence[Question]], pd.DataFrame]

_EXPAND, _CROSS = "expand", "+cross:"


class Diversified:
    """A retriever whose lists are reordered; a system like any other in an experiment.

    Args:
        retriever: finds the candidates.
        method: a key of :data:`berdslib.retrieval.diversify.DIVERSIFIERS`.
        relevance_weight: from 0 to 1; 1 keeps the order.
        vectors: for documents, where the method compares by vectors; see :func:`passage_vectors`.
        aspects: makes the table of generated perspectives, where the method needs it.
        depth: how many candidates to choose from; the paper takes 100.
        normalise: see :func:`berdslib.retrieval.diversify.diversify`. "max_per_dataset" divides by the largest score
            of the questions that are searched together.
        name: what it is called in tables; None for the retriever's name, "+", the method and its weight.

    Raises:
        InputError: an unknown method, a weight outside 0..1, a depth below 1.
    """

    def __init__(
        self,
        retriever: Retriever,
        method: str = "mmr",
        *,
        relevance_weight: float = 0.75,
        vectors: Vectors | None = None,
        aspects: AspectsOf | None = None,
        depth: int = 100,
        normalise: str = "max_per_dataset",
        name: str | None = None,
    ) -> None:
        known("diversifier", method, DIVERSIFIERS)
        if not 0 <= relevance_weight <= 1:
            raise InputError(f"must be from 0 to 1, not {relevance_weight}", field="relevance_weight")
        if depth < 1:
            raise InputError(f"depth must be at least 1, not {depth}", field="depth")
        self.name = name or f"{retriever.name}+{method}:{relevance_weight:g}"
        # Having a judge read every candidate is slow; most methods do not need it, and none does at weight 1.
        uses_aspects = DIVERSIFIERS[method].needs == "aspects" and relevance_weight < 1
        self._retriever, self._aspects, self._depth = retriever, aspects if uses_aspects else None, depth
        self._options: dict[str, Any] = {
            "method": method,
            "relevance_weight": relevance_weight,
            "vectors": vectors,
            "normalise": normalise,
        }

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question, chosen among `depth` (or k, if that is more)."""
        check_search(questions, k)
        run = checked_search(self._retriever, questions, max(k, self._depth))
        if run.empty:
            return run
        aspects = self._aspects(run, questions) if self._aspects is not None else None
        return diversify(run, aspects=aspects, k=k, **self._options)


def passage_vectors(
    passages: Sequence[Passage], encoder: Encoder, text_of: Callable[[Passage], str] = full_text
) -> Callable[[list[str]], np.ndarray]:
    """Return the function from docnos to their vectors, float32 (n, d), that diversifiers compare documents by.

    The encoder's cache, if it has one, keeps them: another λ encodes nothing anew.

    Args:
        passages: the corpus.
        encoder: the paper's is UAE-Large-V1 with its "cls" pooling (A.6).
        text_of: what is encoded of a passage, such as ``card.passage_text``: with the text that the retriever encodes,
            the vectors in its cache serve here too.
    """
    corpus = by_docno(passages)

    def vectors_of(docnos: list[str]) -> np.ndarray:
        if unknown := [docno for docno in docnos if docno not in corpus]:
            raise InputError(f"passage {unknown[0]!r} is not in the corpus", field="docno")
        return encoder.encode_passages([text_of(corpus[docno]) for docno in docnos])

    return vectors_of


def make_system(
    text: str,
    passages: Sequence[Passage],
    *,
    expansions: Mapping[str, Expansions] | None = None,
    vectors: Vectors | None = None,
    aspects: AspectsOf | None = None,
    depth: int = 100,
    retriever: Retriever | None = None,
) -> Retriever:
    """Build a system from a line of text, so that it can be a notebook's parameter.

    Args:
        text: "RETRIEVER", then any number of parts, each of which takes what stands before it: "+expand:NAME" (the
            expansions of that name, round robin; "chat:MODEL" and "hyde:MODEL" are names too, see
            :func:`berdslib.retrieval.expansion.expansions_by`), "+METHOD:WEIGHT" (a diversifier and its relevance
            weight). A MODEL that is a file must not hold a "+" in its name.
        passages: the corpus.
        expansions: name → expansions; :func:`made_by_chat` says which ones a chat model has to make first.
        vectors: for diversifiers that compare by vectors.
        aspects: for those that need generated perspectives.
        depth: how many candidates a diversifier chooses from.
        retriever: used in place of the one that RETRIEVER names, where that has been built already.

    Raises:
        InputError: an unknown retriever, expansion or diversifier, a weight that is not from 0 to 1, or an order that
            is refused.

    >>> system_parts("minilm+expand:gpt-4+mmr:0.75")
    ('minilm', [('expand', 'gpt-4'), ('mmr', '0.75')])
    """
    base, parts = system_parts(text)
    system = retriever or make_retriever(base, passages)
    for i, (kind, value) in enumerate(parts, start=1):
        name = "+".join([base, *(f"{k}:{v}" for k, v in parts[:i])])
        if kind == _EXPAND:
            choices = expansions or {}
            found, options = choices[known("set of expansions", value, choices)], SEARCHED.get(_maker(value), {})
            system = Expanded(system, found, name=name, **options)
        else:
            system = Diversified(
                system, kind, relevance_weight=_weight(kind, value), vectors=vectors, aspects=aspects, depth=depth,
                name=name,
            )  # fmt: skip
    return system


def system_parts(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the retriever's name and the parts behind it, (kind, value); see :func:`make_system`.

    Raises:
        InputError: as :func:`make_system`, but that no set of expansions is looked up.
    """
    parts: list[tuple[str, str]] = []
    base = rest = text
    while "+" in rest:
        rest, _, part = rest.rpartition("+")
        kind, _, value = part.partition(":")
        if kind != _EXPAND and kind not in DIVERSIFIERS:
            break  # a part of the retriever's own name, such as "+cross:MODEL"
        if kind != _EXPAND:
            _weight(kind, value)
        elif not value:
            raise InputError(f"{text!r}: expand needs a name, as in expand:rule")
        parts.insert(0, (kind, value))
        base = rest
    first, cross, _ = base.rpartition(_CROSS)
    if cross and system_parts(first)[1]:
        raise InputError(f"{text!r}: cross must follow the first retriever, as in bm25+cross:MODEL+expand:rule")
    check_retriever(base)
    for i, (kind, _) in enumerate(parts):
        before = [k for k, _ in parts[:i] if k == _EXPAND or DIVERSIFIERS[k].needs == "aspects"]
        if kind == _EXPAND and before:
            raise InputError(f"{text!r}: expand must come before {before[0]}, and once only")
    return base, parts


def uses_expansions(text: str) -> bool:
    """Return whether a system needs generated perspectives: it expands by them, or a diversifier of it reads them.

    >>> uses_expansions("bm25+mmr:0.9"), uses_expansions("bm25+coverage:0.5")
    (False, True)
    """
    return any(kind == _EXPAND or DIVERSIFIERS[kind].needs == "aspects" for kind, _ in system_parts(text)[1])


def made_by_chat(text: str) -> list[str]:
    """Return the expansions in a system's name that a chat model makes, as ``expansions_by`` takes them.

    >>> made_by_chat("bm25+expand:chat:recorded:answers.jsonl+mmr:0.9"), made_by_chat("bm25+expand:rule")
    (['chat:recorded:answers.jsonl'], [])
    """
    return [value for kind, value in system_parts(text)[1] if kind == _EXPAND and _maker(value) in SEARCHED]


def _maker(value: str) -> str:
    """Return what makes expansions by a chat model, a key of SEARCHED; "" for expansions that are there already."""
    kind, colon, _ = value.partition(":")
    return kind if colon else ""


def _weight(kind: str, value: str) -> float:
    try:
        weight = float(value)
    except ValueError:
        raise InputError(f"{kind!r} needs a relevance weight, as in {kind}:0.75, not {value!r}") from None
    if not 0 <= weight <= 1:
        raise InputError(f"the relevance weight of {kind!r} must be from 0 to 1, not {value}")
    return weight
