"""Dense retrieval: an encoder and an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd

from berdslib.data.corpus import Corpus
from berdslib.data.records import AnyQuery, Passage
from berdslib.errors import InputError
from berdslib.models.cards import Encoder
from berdslib.models.corpus_vectors import about_vectors, full_text, vectors_of
from berdslib.models.manifest import check_about
from berdslib.retrieval.base import docno_order, gather_run
from berdslib.retrieval.index import Index, NumpyIndex, kept, make_index, split_name


class Dense:
    """Ranks passages by the dot product of their vector with the question's; a blank question finds nothing.

    Args:
        passages: the corpus; docnos must be unique. A corpus on disk is not loaded.
        encoder: see :func:`berdslib.models.encoders.get_encoder`.
        index: a key of ``INDEXES``, with a place to keep it: "ivf-pq:FOLDER", "milvus:FILE.db" or
            "milvus:http://HOST:PORT", or plain vectors, "numpy:FOLDER". A saved index is reused; one with vectors of
            other passages, or by another encoder, is an error. Or an index object: an empty one, which is filled, or
            one with the vectors of these passages, in their order.
        name: the retriever's name in tables.
        text_of: the text of a passage that is encoded, such as ``card.passage_text``.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        encoder: Encoder,
        *,
        index: str | Index = "numpy",
        name: str = "dense",
        text_of: Callable[[Passage], str] = full_text,
    ) -> None:
        self.name = name
        self._encoder = encoder
        self._passages = passages
        # Of a corpus on disk only those passages are read that are found.
        self._docnos = None if isinstance(passages, Corpus) else [p.docno for p in passages]
        about = partial(about_vectors, passages, encoder, text_of)
        vectors = partial(vectors_of, passages, encoder, text_of)
        if isinstance(index, Index):
            self._index = index
            recorded = index.about() if len(index) == len(passages) else None
            if recorded:
                check_about(recorded, about())
        else:
            kind, place = split_name(index)
            if kind == "numpy" and place:  # keeps the vectors, and no index
                vectors = partial(vectors, folder=Path(place))
                place = ""
            self._index = kept(index, about(), vectors) if place else make_index(kind)
        self._index.tie_order = self._order if self._docnos is None else docno_order(self._docnos).__getitem__
        self._vectors = np.empty((0, 0), dtype=np.float32)
        if not len(self._index):
            encoded = vectors()
            self._index.add(encoded)
            self._index.about = about
            if isinstance(self._index, NumpyIndex):  # which has them in memory, too
                self._vectors = encoded
        elif len(self._index) != len(passages):
            problem = f"the index holds {len(self._index)} vectors, and there are {len(passages)} passages"
            raise InputError(problem, field="index")

    @cached_property
    def vectors(self) -> dict[str, np.ndarray]:
        """The vector of each passage, docno → float32 (d,); none where they are on disk, or in an index of codes."""
        return dict(zip(self._docnos or (), self._vectors, strict=False))

    def _docno(self, row: int) -> str:
        return self._passages[int(row)].docno

    def _order(self, rows: np.ndarray) -> np.ndarray:
        return docno_order([self._docno(row) for row in rows])

    def search(self, questions: Sequence[AnyQuery], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        hits_by_qid = {}
        queries = [question for question in questions if question.text.strip()]
        if queries:
            vectors = self._encoder.encode_queries([query.text for query in queries])
            hits = self._index.search(vectors, k)
            hits_by_qid = {query.qid: hit for query, hit in zip(queries, hits, strict=True)}
        no_hits = (np.empty(0, dtype=np.int64), np.empty(0))
        rankings = [hits_by_qid.get(question.qid, no_hits) for question in questions]
        docno_of = self._docno if self._docnos is None else self._docnos.__getitem__
        return gather_run(questions, docno_of, rankings)
