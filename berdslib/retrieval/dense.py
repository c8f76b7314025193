"""Dense retrieval: an encoder and an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path

import numpy as np
import pandas as pd

from berdslib.data.corpus import Corpus
from berdslib.data.records import Passage, Question
from berdslib.retrieval.base import check_corpus, check_search, docno_order, gather_run
from berdslib.retrieval.encoders import Encoder
from berdslib.retrieval.encoding import encode_corpus, full_text
from berdslib.retrieval.index import make_index


class Dense:
    """Ranks passages by the dot product of their vector with the question's.

    A blank question finds nothing: its vector would say only what the encoder makes of silence. Of a corpus on disk
    neither texts nor vectors are ever all in memory (with the index "numpy"), only its docnos.

    Args:
        passages: the corpus; docnos must be unique.
        encoder: see :func:`berdslib.retrieval.encoders.get_encoder`.
        index: a key of ``INDEXES``, or "milvus:URI"; see :func:`berdslib.retrieval.index.make_index`.
        name: what the retriever is called in tables.
        folder: where to keep the vectors of a corpus on disk, see :func:`berdslib.retrieval.encoding.encode_corpus`;
            given a list, it is encoded in the same way.
        executor: who encodes them; likewise.
        text_of: what is encoded of a passage, such as ``card.passage_text``.

    Raises:
        InputError: an empty corpus, a repeated docno, an unknown index.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        encoder: Encoder,
        *,
        index: str = "numpy",
        name: str = "dense",
        folder: Path | None = None,
        executor: Executor | None = None,
        text_of: Callable[[Passage], str] = full_text,
    ) -> None:
        self.name, self._encoder = name, encoder
        if isinstance(passages, Corpus):  # checked when it was written
            self._docnos = list(passages.docnos())
        else:
            check_corpus(passages)
            self._docnos = [p.docno for p in passages]
        self._index = make_index(index, docno_order(self._docnos))
        if isinstance(passages, Corpus) or folder is not None or executor is not None:
            vectors = encode_corpus(passages, encoder, folder, executor=executor, text_of=text_of)
        else:
            vectors = encoder.encode_passages([text_of(p) for p in passages])
        self._index.add(vectors)

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question.

        Raises:
            InputError: k < 1, no questions, or a repeated qid.
        """
        check_search(questions, k)
        asked = [q for q in questions if q.text.strip()]
        found = self._index.search(self._encoder.encode_queries([q.text for q in asked]), k) if asked else []
        nothing = (np.empty(0, dtype=np.int64), np.empty(0))
        by_qid = {q.qid: hit for q, hit in zip(asked, found, strict=True)}
        return gather_run(questions, self._docnos, [by_qid.get(q.qid, nothing) for q in questions])
