"""Dense retrieval: an encoder and an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from berdslib.data.corpus import Corpus
from berdslib.data.records import Passage, Question
from berdslib.errors import InputError
from berdslib.models.base import Encoder
from berdslib.models.corpus_vectors import about_vectors, encode_corpus, full_text
from berdslib.models.manifest import check_about
from berdslib.retrieval.base import Docnos, Ours, check_corpus, check_search, docno_order, gather_run
from berdslib.retrieval.index import Index, make_index, split_name
from berdslib.retrieval.kept import kept


class Dense(Ours):
    """Ranks passages by the dot product of their vector with the question's; a blank question finds nothing.

    Args:
        passages: the corpus; docnos must be unique. One on disk stays there.
        encoder: see :func:`berdslib.models.encoders.get_encoder`.
        index: a key of ``INDEXES``, kept where it says: "ivf-pq:FOLDER", "milvus:FILE.db" or "milvus:http://HOST:PORT";
            what is there is used, or built; vectors of other passages, or by another encoder, are an error. Or an
            index: an empty one, which is filled, or one that holds the vectors of these passages, in their order.
        name: what the retriever is called in tables.
        folder: where to keep the vectors, see :func:`berdslib.models.corpus_vectors.encode_corpus`.
        executor: who encodes them; likewise.
        text_of: what is encoded of a passage, such as ``card.passage_text``.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        encoder: Encoder,
        *,
        index: str | Index = "numpy",
        name: str = "dense",
        folder: Path | None = None,
        executor: Executor | None = None,
        text_of: Callable[[Passage], str] = full_text,
    ) -> None:
        self.name, self._encoder = name, encoder
        self._docnos: Docnos
        if isinstance(passages, Corpus):  # checked when it was written
            self._docnos = _DocnosOnDisk(passages)
        else:
            check_corpus(passages)
            self._docnos = [p.docno for p in passages]
        about = partial(about_vectors, passages, encoder, text_of)
        if isinstance(index, str):
            kind, place = split_name(index)
            if kind == "numpy" and place:  # the vectors themselves are what is kept
                index, folder = kind, Path(place)
        vectors = partial(vectors_of, passages, encoder, folder, executor, text_of)
        if isinstance(index, Index):
            self._index = index
        else:
            self._index = kept(index, about(), vectors) if split_name(index)[1] else make_index(index)
        if self._index.tie_order is None or isinstance(self._index.tie_order, _DocnoOrder):  # of another corpus
            self._index.tie_order = _DocnoOrder(self._docnos)
        if not len(self._index):
            self._index.add(vectors())
            self._index.about = about
        elif len(self._index) != len(passages):
            problem = f"the index holds {len(self._index)} vectors, and there are {len(passages)} passages"
            raise InputError(problem, field="index")
        elif isinstance(index, Index):
            if folder is not None or executor is not None:
                raise InputError("the index already contains vectors, so there is nothing to encode", field="index")
            if said := index.about():
                check_about(said, about())

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        check_search(questions, k)
        asked = [q for q in questions if q.text.strip()]
        found = self._index.search(self._encoder.encode_queries([q.text for q in asked]), k) if asked else []
        nothing = (np.empty(0, dtype=np.int64), np.empty(0))
        by_qid = {q.qid: hit for q, hit in zip(asked, found, strict=True)}
        return gather_run(questions, self._docnos, [by_qid.get(q.qid, nothing) for q in questions])


def vectors_of(
    passages: Sequence[Passage],
    encoder: Encoder,
    folder: Path | None = None,
    executor: Executor | None = None,
    text_of: Callable[[Passage], str] = full_text,
) -> np.ndarray:
    """Return the vectors of passages: of a corpus on disk from disk, as of others with a folder or an executor."""
    if isinstance(passages, Corpus) or folder is not None or executor is not None:
        return encode_corpus(passages, encoder, folder, executor=executor, text_of=text_of)
    return encoder.encode_passages([text_of(p) for p in passages])


class _DocnosOnDisk:
    """The docnos of a corpus, each read when it is asked for: of a billion passages only those that are found."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __getitem__(self, row: int, /) -> str:
        return self._corpus[row].docno


class _DocnoOrder:
    """Orders hits with equal scores by docno, without having sorted all docnos before."""

    def __init__(self, docnos: Docnos) -> None:
        self._docnos = docnos

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        return docno_order([self._docnos[int(row)] for row in rows])
