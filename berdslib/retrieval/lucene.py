"""BM25 of Lucene through Pyserini, for an index that others built; optional (``pip install 'berdslib[pyserini]'``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from berdslib.data.records import Question, make_run
from berdslib.errors import MissingDataError
from berdslib.retrieval.base import check_search


class Lucene:
    """Searches a Lucene index by BM25; its docnos are those of the index.

    Anserini's own analyser cuts the texts (Porter stemming, Lucene's stop words), so scores differ from those of
    :class:`berdslib.retrieval.bm25.BM25`.

    Args:
        index: a folder, or the name of one of Pyserini's prebuilt indexes ("wikipedia-dpr-100w"), which it downloads.
        k1: saturation of word counts; 0.9 is Pyserini's default.
        b: how much long passages are marked down; 0.4 is Pyserini's default.
        threads: queries searched at a time.
        name: what the retriever is called in tables.

    Raises:
        MissingDataError: Pyserini is not installed, or it knows no such index.
    """

    def __init__(self, index: str, *, k1: float = 0.9, b: float = 0.4, threads: int = 2, name: str = "lucene") -> None:
        try:
            from pyserini.search.lucene import LuceneSearcher
        except ImportError:
            raise MissingDataError("this needs Pyserini and Java 21: pip install 'berdslib[pyserini]'") from None
        known = Path(index).is_dir()
        searcher = LuceneSearcher(index) if known else LuceneSearcher.from_prebuilt_index(index)
        if searcher is None:  # what Pyserini returns for a name that it does not know
            raise MissingDataError(f"{index!r} is neither a folder nor a prebuilt index of Pyserini")
        searcher.set_bm25(k1, b)
        self.name, self._searcher, self._threads = name, searcher, threads

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question; a blank question finds nothing.

        Raises:
            InputError: k < 1, no questions, or a repeated qid.
        """
        check_search(questions, k)
        asked = [q for q in questions if q.text.strip()]
        texts, qids = [q.text for q in asked], [q.qid for q in asked]
        hits = self._searcher.batch_search(texts, qids, k=k, threads=self._threads) if asked else {}
        rows = [(qid, hit.docid, float(hit.score)) for qid in qids for hit in hits[qid]]
        found, docnos, scores = zip(*rows, strict=True) if rows else ((), (), ())
        return make_run(found, docnos, scores)
