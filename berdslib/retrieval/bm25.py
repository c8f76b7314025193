"""BM25 twice: fast on bm25s (the default), and small and readable on rank-bm25."""

from __future__ import annotations

import importlib.util
import json
import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from berdslib.data.records import Passage, Question
from berdslib.errors import InputError, known
from berdslib.files import atomic_path
from berdslib.retrieval.base import check_corpus, check_search, docno_order, gather_run, top_k

# bm25s' own default: words of two or more letters or digits.
_WORD = re.compile(r"(?u)\b\w\w+\b")
VARIANTS = ("lucene", "atire", "robertson", "bm25l", "bm25+")
_NONE = np.empty(0, dtype=np.int64), np.empty(0)
_FORMAT = 1  # of a saved index; raised whenever what is written changes
_NUMBA_FROM = 100_000  # passages: compiling takes a second, which only a large corpus gives back


def _english(text: str) -> list[str]:
    from bm25s.tokenization import STOPWORDS_EN

    return [w for w in _WORD.findall(text.lower()) if w not in STOPWORDS_EN]


def _english_stem() -> Callable[[str], list[str]]:
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    return lambda text: stemmer.stemWords(_english(text))


# Each entry makes a function from text to words.
ANALYSERS: dict[str, Callable[[], Callable[[str], list[str]]]] = {
    "english": lambda: _english,
    "english-stem": _english_stem,
    "words": lambda: lambda text: _WORD.findall(text.lower()),
    # At single blanks: where two follow each other there is an empty word between them, as in the code of PIR.
    "whitespace": lambda: lambda text: text.split(" "),
}


def analyser(name: str) -> Callable[[str], list[str]]:
    """Return the function that cuts a text into words.

    Args:
        name: "english" (lower case, Lucene's 33 stop words removed, no stemming), "english-stem" (also the Snowball
            stemmer), "words" (lower case only), or "whitespace" (split at every blank, case kept: as in PIR's code).

    Raises:
        InputError: an unknown name.

    >>> analyser("english")("The cats are out")
    ['cats', 'out']
    """
    return ANALYSERS[known("analyser", name, ANALYSERS)]()


class _BM25Base:
    """What both forms of BM25 share: the analysed corpus, and the search of one question after another."""

    name: str

    def __init__(self, passages: Sequence[Passage], analyser_name: str) -> None:
        check_corpus(passages)
        self._analyse = analyser(analyser_name)
        self._docnos = [p.docno for p in passages]
        self._ties = docno_order(self._docnos)

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question.

        Raises:
            InputError: k < 1, no questions, or a repeated qid.
        """
        check_search(questions, k)
        bar = tqdm(questions, desc=f"searching ({self.name})", delay=2, leave=False)
        return gather_run(
            questions, self._docnos, [self._search_one(q.text, k) if q.text.strip() else _NONE for q in bar]
        )

    def _search_one(self, text: str, k: int) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError


def _use_numba(n: int) -> bool:
    return n >= _NUMBA_FROM and importlib.util.find_spec("numba") is not None


class BM25(_BM25Base):
    """BM25 on bm25s: scores are computed at index time, so that a search is a sum over a sparse matrix.

    A passage that shares no word with the question is never returned, so a list can be shorter than k, and a question
    without a known word gets no passages at all. With numba (the extra "fast") and 100,000 passages or more the sum is
    compiled, to the same scores.

    Args:
        passages: the corpus; docnos must be unique.
        variant: one of ``VARIANTS``; "lucene" is the default of Lucene, Pyserini and bm25s.
        k1: term-frequency saturation.
        b: length normalisation, 0 to 1.
        analyser: see :func:`analyser`.

    Raises:
        InputError: an empty corpus, a repeated docno, an unknown variant or analyser.
    """

    name = "bm25"

    def __init__(
        self,
        passages: Sequence[Passage],
        *,
        variant: str = "lucene",
        k1: float = 1.5,
        b: float = 0.75,
        analyser: str = "english",
    ) -> None:
        import bm25s

        logging.getLogger("bm25s").setLevel(logging.WARNING)
        super().__init__(passages, analyser)
        self._analyser = analyser
        method = known("BM25 variant", variant, VARIANTS)
        # The lower bounds that Lv and Zhai (2011) recommend; the other variants have none.
        delta = 1.0 if method == "bm25+" else 0.5
        self._index = bm25s.BM25(k1=k1, b=b, delta=delta, method=method, dtype="float64")
        with_numba = _use_numba(len(passages))
        if with_numba:
            self._index.activate_numba_csc()
        self._index.index(self._numbered_words(passages), show_progress=len(passages) > 100_000)
        if with_numba:
            self._index.activate_numba_scorer()

    def _numbered_words(self, passages: Sequence[Passage]) -> tuple[list[list[int]], dict[str, int]]:
        """Return each passage's words as numbers, and the vocabulary; the texts are read one after another."""
        vocabulary: dict[str, int] = {}
        numbers = []
        for passage in tqdm(passages, desc="reading words", delay=2, leave=False):
            numbers.append([vocabulary.setdefault(w, len(vocabulary)) for w in self._analyse(passage.full_text)])
        if not vocabulary:  # bm25s cannot index a corpus without a single word; one that nobody asks for stands in
            vocabulary, numbers[0] = {"\0": 0}, [0]
        return numbers, vocabulary

    def save(self, path: Path) -> None:
        """Write the index as a folder, which appears under its name only when complete; texts are not part of it.

        Raises:
            InputError: nothing can be written there, or a folder of something else is there.
        """
        about = {"format": _FORMAT, "analyser": self._analyser}
        with atomic_path(path, marker="berdslib.json") as unfinished:
            self._index.save(unfinished, show_progress=False)
            np.save(unfinished / "ties.npy", self._ties)
            (unfinished / "docnos.json").write_text(json.dumps(self._docnos), encoding="utf-8")
            (unfinished / "berdslib.json").write_text(json.dumps(about), encoding="utf-8")

    @classmethod
    def load(cls, path: Path, mmap: bool = True) -> Self:
        """Open a saved index.

        Args:
            path: the folder.
            mmap: leave the scores on disk, to be read where a search needs them; False reads them all now.

        Raises:
            InputError: no complete index of this format is there.
        """
        import bm25s

        logging.getLogger("bm25s").setLevel(logging.WARNING)
        path = Path(path)
        loaded = cls.__new__(cls)
        try:
            about = json.loads((path / "berdslib.json").read_text(encoding="utf-8"))
            if about["format"] != _FORMAT:
                raise InputError(f"is of format {about['format']}, and {_FORMAT} is needed; save it again", path=path)
            loaded._analyser, loaded._analyse = about["analyser"], analyser(about["analyser"])
            loaded._docnos = json.loads((path / "docnos.json").read_text(encoding="utf-8"))
            loaded._ties = np.load(path / "ties.npy", mmap_mode="r" if mmap else None)
            loaded._index = bm25s.BM25.load(path, mmap=mmap)
        except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"holds no complete BM25 index: {error}", path=path) from None
        scores, n = loaded._index.scores, len(loaded._docnos)
        held = int(scores["indptr"][-1])
        if (scores["num_docs"], len(loaded._ties), len(scores["data"]), len(scores["indices"])) != (n, n, held, held):
            raise InputError("holds no complete BM25 index: the sizes of its files disagree", path=path)
        # As plain arrays, which are what numba takes; the files stay mapped.
        scores.update({name: np.asarray(scores[name]) for name in ("data", "indices", "indptr")})
        if _use_numba(n):
            loaded._index.activate_numba_scorer()
        return loaded

    def _search_one(self, text: str, k: int) -> tuple[np.ndarray, np.ndarray]:
        vocabulary = self._index.vocab_dict
        words = [vocabulary[w] for w in self._analyse(text) if w in vocabulary]
        if not words:
            return _NONE
        scores = self._index.get_scores_from_ids(words)
        rows = top_k(scores, k, self._ties, allowed=self._contains_any(words))
        return rows, scores[rows]

    def _contains_any(self, words: Sequence[int]) -> np.ndarray:
        """Mark the passages that hold at least one of the words (given by vocabulary number), (n,) bool."""
        starts, rows = self._index.scores["indptr"], self._index.scores["indices"]
        mask = np.zeros(len(self._docnos), dtype=bool)
        for word in words:
            mask[rows[starts[word] : starts[word + 1]]] = True
        return mask


class RankBM25(_BM25Base):
    """BM25 on rank-bm25: a few readable lines of plain Python, for reading, teaching and checking.

    Okapi gives a word that is in most passages a negative weight; rank-bm25 replaces it by a small positive one.

    Args:
        passages: the corpus; docnos must be unique.
        variant: "okapi", "bm25l" (rank-bm25 multiplies it by the word's count once too often) or "bm25+".
        k1: term-frequency saturation.
        b: length normalisation, 0 to 1.
        analyser: see :func:`analyser`.

    Raises:
        InputError: an empty corpus, a repeated docno, an unknown variant or analyser.
    """

    name = "rank-bm25"

    def __init__(
        self,
        passages: Sequence[Passage],
        *,
        variant: str = "okapi",
        k1: float = 1.5,
        b: float = 0.75,
        analyser: str = "english",
    ) -> None:
        import rank_bm25

        super().__init__(passages, analyser)
        classes: dict[str, Any] = {
            "okapi": rank_bm25.BM25Okapi,
            "bm25l": rank_bm25.BM25L,
            "bm25+": rank_bm25.BM25Plus,
        }
        method = classes[known("BM25 variant", variant, classes)]
        words = [self._analyse(p.full_text) for p in tqdm(passages, desc="reading words", delay=2, leave=False)]
        if not any(words):  # rank-bm25 cannot index a corpus without a single word; one that nobody asks for stands in
            words[0] = ["\0"]
        self._index = method(words, k1=k1, b=b)

    def _search_one(self, text: str, k: int) -> tuple[np.ndarray, np.ndarray]:
        words = self._analyse(text)
        matching = np.array([any(w in frequencies for w in words) for frequencies in self._index.doc_freqs])
        if not matching.any():
            return _NONE
        scores = np.asarray(self._index.get_scores(words), dtype=np.float64)
        rows = top_k(scores, k, self._ties, allowed=matching)
        return rows, scores[rows]
