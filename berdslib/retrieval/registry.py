"""Retrievers by name, so that a notebook parameter is a string."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from berdslib.data.records import Passage
from berdslib.errors import InputError, known
from berdslib.retrieval.base import Retriever
from berdslib.retrieval.bm25 import BM25, RankBM25
from berdslib.retrieval.cards import CARDS, model_card
from berdslib.retrieval.crossencoder import TART_FULL, TART_INSTRUCTION, CrossEncoderRetriever, load_scorer
from berdslib.retrieval.dense import Dense
from berdslib.retrieval.encoders import get_encoder
from berdslib.retrieval.lucene import Lucene

_CROSS, _LUCENE = "+cross:", "pyserini:"
_FOR_ENCODER = {"cached", "engine", "number_format", "trust_remote_code"}


def _dense(encoder: str) -> Callable[..., Retriever]:
    def make(passages: Sequence[Passage], **options: Any) -> Retriever:
        for_encoder = {key: options.pop(key) for key in _FOR_ENCODER & options.keys()}
        text_of = model_card(encoder).passage_text  # title and text, written as the encoder's authors do
        return Dense(passages, get_encoder(encoder, **for_encoder), name=encoder, text_of=text_of, **options)

    return make


def _cross(first: str, checkpoint: str) -> Callable[..., Retriever]:
    def make(passages: Sequence[Passage], *, depth: int = 100, **options: Any) -> Retriever:
        scorer = load_scorer(checkpoint)  # first, because a model that is missing should fail before a corpus is read
        name = f"{first}{_CROSS}{checkpoint}"
        return CrossEncoderRetriever(make_retriever(first, passages, **options), passages, scorer, depth, name=name)

    return make


def _tart_full(
    passages: Sequence[Passage], *, depth: int = 100, instruction: str = TART_INSTRUCTION, **options: Any
) -> Retriever:
    scorer = load_scorer(TART_FULL, query_prefix=f"{instruction} [SEP] ")
    first = make_retriever("contriever", passages, **options)
    return CrossEncoderRetriever(first, passages, scorer, depth, name="tart-full")


RETRIEVERS: dict[str, Callable[..., Retriever]] = {
    "bm25": BM25,
    "rank-bm25": RankBM25,
    **{name: _dense(name) for name in CARDS},
    "tart-full": _tart_full,
}


def make_retriever(name: str, passages: Sequence[Passage], **options: Any) -> Retriever:
    """Build a retriever over a corpus.

    Args:
        name: a key of ``RETRIEVERS``; "hf:org/model" for a dense retriever on any sentence-transformers checkpoint;
            "pyserini:INDEX" for a Lucene index in a folder or of Pyserini's prebuilt ones, whatever the corpus; or
            "FIRST+cross:MODEL", FIRST being one of these names: a classifier of sentence pairs sorts what it finds.
        passages: the corpus.
        options: passed on: ``analyser="english-stem"`` to BM25; ``index="faiss"`` and whatever else :class:`Dense` and
            :func:`~berdslib.retrieval.encoders.get_encoder` take to dense retrievers; ``depth=100`` to cross-encoders,
            whose other options go to FIRST.

    Raises:
        InputError: an unknown name, an empty corpus, a repeated docno.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    check_retriever(name)
    if _CROSS in name:
        first, _, checkpoint = name.rpartition(_CROSS)
        return _cross(first, checkpoint)(passages, **options)
    if name.startswith(_LUCENE):
        return Lucene(name.removeprefix(_LUCENE), name=name, **options)
    make = _dense(name) if name.startswith("hf:") else RETRIEVERS[name]
    return make(passages, **options)


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
