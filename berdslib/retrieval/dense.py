"""Dense retrieval: an encoder and an index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from berdslib.data.records import Passage, Question
from berdslib.retrieval.base import check_corpus, check_search, docno_order, gather_run
from berdslib.retrieval.encoders import Encoder
from berdslib.retrieval.index import make_index


class Dense:
    """Ranks passages by the dot product of their vector with the question's.

    A blank question finds nothing: its vector would say only what the encoder makes of silence.

    Args:
        passages: the corpus; docnos must be unique.
        encoder: see :func:`berdslib.retrieval.encoders.get_encoder`.
        index: "numpy" or "faiss".
        name: what the retriever is called in tables.

    Raises:
        InputError: an empty corpus, a repeated docno, an unknown index.
    """

    def __init__(
        self, passages: Sequence[Passage], encoder: Encoder, *, index: str = "numpy", name: str = "dense"
    ) -> None:
        check_corpus(passages)
        self.name, self._encoder = name, encoder
        self._docnos = [p.docno for p in passages]
        self._index = make_index(index, docno_order(self._docnos))
        self._index.add(encoder.encode_passages([p.full_text for p in passages]))

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
