"""Retrievers by name, so that a notebook parameter is a string."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from berdslib.data.records import Passage
from berdslib.errors import known
from berdslib.retrieval.base import Retriever
from berdslib.retrieval.bm25 import BM25, RankBM25
from berdslib.retrieval.dense import Dense
from berdslib.retrieval.encoders import CARDS, get_encoder


def _dense(encoder: str) -> Callable[..., Retriever]:
    def make(passages: Sequence[Passage], **options: Any) -> Retriever:
        return Dense(passages, get_encoder(encoder), name=encoder, **options)

    return make


RETRIEVERS: dict[str, Callable[..., Retriever]] = {
    "bm25": BM25,
    "rank-bm25": RankBM25,
    **{name: _dense(name) for name in CARDS},
}


def make_retriever(name: str, passages: Sequence[Passage], **options: Any) -> Retriever:
    """Build a retriever over a corpus.

    Args:
        name: a key of ``RETRIEVERS``, or "hf:org/model" for a dense retriever on any sentence-transformers checkpoint.
        passages: the corpus.
        options: passed on, such as ``analyser="english-stem"`` or ``index="faiss"``.

    Raises:
        InputError: an unknown name, an empty corpus, a repeated docno.
    """
    check_retriever(name)
    make = _dense(name) if name.startswith("hf:") else RETRIEVERS[name]
    return make(passages, **options)


def check_retriever(name: str) -> str:
    """Return the name if it stands for a retriever, else raise InputError listing those that do."""
    return name if name.startswith("hf:") and len(name) > 3 else known("retriever", name, RETRIEVERS)
