"""Retrievers by name, so that a notebook parameter is a string."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from berdslib.data.question_corpora import OwnCorpora
from berdslib.data.records import Passage
from berdslib.errors import InputError, known
from berdslib.models.cards import CARDS, model_card
from berdslib.models.encoders import get_encoder
from berdslib.retrieval.base import Retriever
from berdslib.retrieval.bm25 import BM25, RankBM25
from berdslib.retrieval.dense import Dense
from berdslib.retrieval.lucene import Lucene
from berdslib.retrieval.per_question import InOwnCorpora, Maker
from berdslib.retrieval.rerank import TART_FULL, TART_INSTRUCTION, CrossEncoderRetriever, Scorer, load_scorer

_CROSS, _LUCENE = "+cross:", "pyserini:"
_FOR_ENCODER = {"cached", "engine", "number_format", "trust_remote_code"}


def _dense(encoder: str, **options: Any) -> Maker:
    model = get_encoder(encoder, **{key: options.pop(key) for key in _FOR_ENCODER & options.keys()})
    text_of = model_card(encoder).passage_text  # title and text, written as the encoder's authors do
    return partial(Dense, encoder=model, name=encoder, text_of=text_of, **options)


def _cross(name: str, first: str, scorer: Callable[[], Scorer], *, depth: int = 100, **options: Any) -> Maker:
    loaded = scorer()  # first, because a model that is missing should fail before a corpus is read
    make_first = _maker(first, **options)
    return lambda passages: CrossEncoderRetriever(make_first(passages), passages, loaded, depth, name=name)


def _tart_full(*, instruction: str = TART_INSTRUCTION, **options: Any) -> Maker:
    scorer = partial(load_scorer, TART_FULL, query_prefix=f"{instruction} [SEP] ")
    return _cross("tart-full", "contriever", scorer, **options)


_LEXICAL: dict[str, Callable[..., Retriever]] = {"bm25": BM25, "rank-bm25": RankBM25}
RETRIEVERS: dict[str, Callable[..., Maker]] = {
    **{name: partial(partial, kind) for name, kind in _LEXICAL.items()},
    **{name: partial(_dense, name) for name in CARDS},
    "tart-full": _tart_full,
}


def make_retriever(name: str, passages: Sequence[Passage], **options: Any) -> Retriever:
    """Build a retriever over a corpus.

    Args:
        name: a key of ``RETRIEVERS``; "hf:org/model" for a dense retriever on any sentence-transformers checkpoint;
            "pyserini:INDEX" for a Lucene index in a folder or of Pyserini's prebuilt ones, whatever the corpus; or
            "FIRST+cross:MODEL", FIRST being one of these names: a classifier of sentence pairs sorts what it finds.
        passages: the corpus; of :class:`~berdslib.data.question_corpora.OwnCorpora`, each question is searched in its
            own.
        options: passed on: ``analyser="english-stem"`` to BM25; ``index="faiss"`` and whatever else :class:`Dense` and
            :func:`~berdslib.models.encoders.get_encoder` take to dense retrievers; ``depth=100`` to cross-encoders,
            whose other options go to FIRST.

    Raises:
        InputError: an unknown name, an option that this retriever does not take, an empty corpus, a repeated docno.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    accepted = _options_of(check_retriever(name))
    if stray := sorted(options.keys() - accepted):
        problem = f"retriever {name!r} takes no such option; accepted: {', '.join(sorted(accepted))}"
        raise InputError(problem, field=stray[0])
    make = _maker(name, **options)
    if isinstance(passages, OwnCorpora) and not name.startswith(_LUCENE):
        if not isinstance(options.get("index", ""), str) or options.get("folder"):
            raise InputError("questions with their own corpora cannot share an index or a folder")
        return InOwnCorpora(name, make, passages)
    return make(passages)


def _maker(name: str, **options: Any) -> Maker:
    if _CROSS in name:
        first, _, checkpoint = name.rpartition(_CROSS)
        return _cross(name, first, partial(load_scorer, checkpoint), **options)
    if name.startswith(_LUCENE):
        searcher = Lucene(name.removeprefix(_LUCENE), name=name, **options)
        return lambda _: searcher  # its index is its corpus
    return _dense(name, **options) if name.startswith("hf:") else RETRIEVERS[name](**options)


def _options_of(name: str) -> set[str]:
    """Return which options :func:`make_retriever` passes on for a name."""
    if _CROSS in name:
        return {"depth"} | _options_of(name.rpartition(_CROSS)[0])
    if name == "tart-full":
        return {"depth", "instruction"} | _options_of("contriever")
    if name.startswith(_LUCENE):
        return _keywords(Lucene) - {"name"}
    if name in _LEXICAL:
        return _keywords(_LEXICAL[name])
    return (_keywords(Dense) | _FOR_ENCODER) - {"name", "text_of"}


def _keywords(of: Callable[..., Retriever]) -> set[str]:
    parameters = inspect.signature(of).parameters.values()
    return {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def is_reranker(name: str) -> bool:
    """Return whether a retriever takes ``depth``: how many candidates of another one it re-ranks."""
    return _CROSS in name or name == "tart-full"


def check_retriever(name: str) -> str:
    """Return the name if it stands for a retriever, else raise InputError listing those that do."""
    if _CROSS in name:
        first, _, checkpoint = name.rpartition(_CROSS)
        if not checkpoint:
            raise InputError(f"{name!r} names no model after {_CROSS!r}: its id on Hugging Face, or a folder")
        check_retriever(first)
        return name
    free = any(name.startswith(start) and len(name) > len(start) for start in ("hf:", _LUCENE))
    return name if free else known("retriever", name, RETRIEVERS)
