"""Dense retrieval: an encoder and an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from berdslib.data.records import Passage, Question
from berdslib.errors import InputError
from berdslib.models.cards import Encoder
from berdslib.models.corpus_vectors import about_vectors, full_text, vectors_of
from berdslib.models.manifest import check_about
from berdslib.retrieval.base import Ours, check_corpus, check_search, docno_order, gather_run
from berdslib.retrieval.index import Index, kept, make_index, split_name


class Dense(Ours):
    """Ranks passages by the dot product of their vector with the question's; a blank question finds nothing.

    Args:
        passages: the corpus; docnos must be unique. One on disk stays there.
        encoder: see :func:`berdslib.models.encoders.get_encoder`.
        index: a key of ``INDEXES``, kept where it says: "ivf-pq:FOLDER", "milvus:FILE.db" or "milvus:http://HOST:PORT",
            or as plain vectors, "numpy:FOLDER"; what is there is used, or built; vectors of other passages, or by
            another encoder, are an error. Or an index: an empty one, which is filled, or one that holds the vectors of
            these passages, in their order.
        name: what the retriever is called in tables.
        text_of: what is encoded of a passage, such as ``card.passage_text``.
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
        check_corpus(passages)
        self.name, self._encoder, self._passages = name, encoder, passages
        about = partial(about_vectors, passages, encoder, text_of)
        vectors = partial(vectors_of, passages, encoder, text_of)
        if isinstance(index, Index):
            self._index = index
            if len(index) == len(passages) and (said := index.about()):
                check_about(said, about())
        else:
            kind, place = split_name(index)
            if kind == "numpy" and place:  # the vectors themselves are what is kept
                vectors, place = partial(vectors, folder=Path(place)), ""
            self._index = kept(index, about(), vectors) if place else make_index(kind)
        self._index.tie_order = lambda rows: docno_order([self._docno(row) for row in rows])
        if not len(self._index):
            self._index.add(vectors())
            self._index.about = about
        elif len(self._index) != len(passages):
            problem = f"the index holds {len(self._index)} vectors, and there are {len(passages)} passages"
            raise InputError(problem, field="index")

    def _docno(self, row: int) -> str:
        """Return the docno of a row; of a corpus on disk only those that are found are read."""
        return self._passages[int(row)].docno

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        check_search(questions, k)
        asked = [q for q in questions if q.text.strip()]
        found = self._index.search(self._encoder.encode_queries([q.text for q in asked]), k) if asked else []
        nothing = (np.empty(0, dtype=np.int64), np.empty(0))
        by_qid = {q.qid: hit for q, hit in zip(asked, found, strict=True)}
        return gather_run(questions, self._docno, [by_qid.get(q.qid, nothing) for q in questions])
