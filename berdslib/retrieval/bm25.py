"""BM25 twice: fast on bm25s (the default), and small and readable on rank-bm25."""

from __future__ import annotations

import importlib.util
import json
import logging
import math
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from berdslib.data.records import AnyQuery, Passage
from berdslib.errors import InputError, errors_in, known
from berdslib.files import atomic_path
from berdslib.models.manifest import MANIFEST_FILE, read_folder_manifest, write_manifest
from berdslib.progress import bar
from berdslib.retrieval.base import docno_order, gather_run, top_k
from berdslib.words import IN_WORD, SINGLE_WORD, prepare, words

_FORMAT = 2  # of a saved index; raise it whenever the files change
_NUMBA_FROM = 100_000  # passages: only a large corpus saves the second that compiling takes
_BATCH = 1024  # passages read at once
_WEIGHED = 1_000_000  # counts turned into scores at once, in 50 MB

# ---------------------------------------------------------------- words


@dataclass(frozen=True)
class _EachWord:
    """An analyser that treats each lower-case word on its own; ``treat`` returns the indexed form, None for no word."""

    treat: Callable[[str], str | None]

    def __call__(self, text: str) -> list[str]:
        treated = map(self.treat, words(text))
        return [word for word in treated if word is not None]


def _english(stem: Callable[[str], str] = str) -> _EachWord:
    from bm25s.tokenization import STOPWORDS_EN

    stop_words = frozenset(STOPWORDS_EN)
    return _EachWord(lambda word: None if word in stop_words else stem(word))


def _english_stem() -> _EachWord:
    import Stemmer

    return _english(Stemmer.Stemmer("english").stemWord)


# Each entry makes a function from text to words.
ANALYSERS: dict[str, Callable[[], Callable[[str], list[str]]]] = {
    "english": _english,
    "english-stem": _english_stem,
    "words": lambda: _EachWord(str),
    # At single blanks, as in the code of PIR: between two consecutive blanks there is an empty word.
    "whitespace": lambda: lambda text: text.split(" "),
}


def analyser(name: str) -> Callable[[str], list[str]]:
    """Return the function that cuts a text into words.

    "english" removes Lucene's stop words and does not stem, "english-stem" stems, too (Snowball); "words" only lowers
    case. All three cut other languages by :func:`berdslib.words.words`, Chinese and its neighbours into pairs of
    characters. "whitespace" splits at every blank and keeps the case, as PIR's code does.

    >>> analyser("english")("The cats are out")
    ['cats', 'out']
    """
    return ANALYSERS[known("analyser", name, ANALYSERS)]()


@cache
def _matched(pattern: str) -> np.ndarray:
    """Mark the code points that a pattern of one character matches, (1114112,) bool."""
    every = np.arange(sys.maxunicode + 1, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    matched = np.zeros(len(every), dtype=bool)
    for run in re.finditer(f"(?:{pattern})+", every):
        matched[run.start() : run.end()] = True
    return matched


def _find_words(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Return the :func:`words` of all texts in one list, and how many words each text has, (n,) int."""
    prepared = [prepare(text) for text in texts]
    joined = "\n".join([*prepared, ""])
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    inside = _matched(IN_WORD)[codes]  # False for the last code, a line break: rolling joins no words at the ends
    inside &= np.roll(inside, 1) | np.roll(inside, -1) | _matched(SINGLE_WORD)[codes]
    starts = np.flatnonzero(inside & ~np.roll(inside, 1))
    blanked = np.where(inside, codes, np.uint32(ord(" ")))
    ends = np.cumsum([len(text) + 1 for text in prepared])
    counts = np.diff(np.searchsorted(starts, ends), prepend=0)
    return blanked.tobytes().decode("utf-32-le").split(), counts


def _count_words(passages: Iterable[Passage], analyse: Callable[[str], list[str]]) -> tuple[Any, Any, dict[str, int]]:
    """Return the counts of words, (n, words) sparse int32 by columns; the lengths in words, (n,); words' numbers."""
    from scipy import sparse

    number: dict[str, int] = {}  # of a word in the texts; -1 for words that are not indexed
    vocabulary: dict[str, int] = {}
    # The parts of a sparse matrix by rows, as Python's arrays, which grow in place.
    counts = array("i")
    words = array("i")
    starts = array("q", [0])
    lengths = array("q")
    texts_read = (passage.full_text for passage in bar(passages, desc="reading words"))
    while texts := list(islice(texts_read, _BATCH)):
        words_read, of_each = _cut(texts, analyse)
        for word in dict.fromkeys(words_read):
            if word not in number:
                indexed = analyse.treat(word) if isinstance(analyse, _EachWord) else word
                number[word] = -1 if indexed is None else vocabulary.setdefault(indexed, len(vocabulary))
        column = np.fromiter(map(number.__getitem__, words_read), dtype=np.intc, count=len(words_read))
        row = np.repeat(np.arange(len(texts), dtype=np.intc), of_each)
        row = row[column >= 0]
        column = column[column >= 0]
        # The sparse matrix adds up the ones of a repeated word.
        block = sparse.csr_array((np.ones_like(row), (row, column)), shape=(len(texts), len(vocabulary)))
        starts.extend((block.indptr[1:] + len(words)).tolist())
        counts.frombytes(block.data.tobytes())
        words.frombytes(block.indices.tobytes())
        lengths.extend(np.bincount(row, minlength=len(texts)).tolist())
    if not vocabulary:  # empty files cannot be mapped: a word that no query contains stands in
        return _count_words([Passage("", "\0"), *[Passage("", "")] * (len(lengths) - 1)], str.split)
    # 32 bits for up to 2**31 counts: scipy gives the words' numbers the same width.
    pointers = np.asarray(starts, dtype=sparse.get_index_dtype(maxval=len(words)))
    parts = (np.asarray(counts), np.asarray(words), pointers)
    by_row = sparse.csr_array(parts, shape=(len(lengths), len(vocabulary)))
    return by_row.tocsc(), np.asarray(lengths), vocabulary


def _cut(texts: Sequence[str], analyse: Callable[[str], list[str]]) -> tuple[list[str], Any]:
    """Return the words of all texts in one list, before an :class:`_EachWord` treats them, and how many each has."""
    if isinstance(analyse, _EachWord):
        return _find_words(texts)
    lists = [analyse(text) for text in texts]
    return list(chain.from_iterable(lists)), [len(words) for words in lists]


# ---------------------------------------------------------------- scores


# The argument of the logarithm in a word's idf, from df and n, in the forms of Kamphuis et al. (2020).
VARIANTS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "lucene": lambda df, n: 1 + (n - df + 0.5) / (df + 0.5),
    "robertson": lambda df, n: np.maximum((n - df + 0.5) / (df + 0.5), 1),
}


def _fill(index: Any, counts: Any, lengths: np.ndarray, vocabulary: dict[str, int]) -> None:
    """Set the fields of a ``bm25s.BM25`` as its own ``index`` does, from counts instead of lists of words."""
    n = len(lengths)
    pointers = counts.indptr.astype(np.int64)
    rarity = VARIANTS[index.method](np.diff(pointers), n)
    idf = np.array([math.log(value) for value in rarity.tolist()])  # bm25s rounds like math.log, NumPy does not
    relative = 1 - index.b + index.b * lengths / lengths.mean()
    data = np.empty(counts.nnz)
    for start in bar(range(0, len(data), _WEIGHED), desc="weighing words"):
        stop = min(start + _WEIGHED, len(data))
        word = np.searchsorted(pointers, np.arange(start, stop), side="right") - 1
        count = counts.data[start:stop].astype(np.float64)
        saturation = index.k1 * relative[counts.indices[start:stop]]
        data[start:stop] = idf[word] * (count / (saturation + count))
    rows = counts.indices.astype(index.int_dtype, copy=False)
    index.scores = {"data": data, "indices": rows, "indptr": pointers, "num_docs": n}
    index.nonoccurrence_array = None
    index.vocab_dict = vocabulary
    index.unique_token_ids_set = set(vocabulary.values())


# ---------------------------------------------------------------- retrievers


class _BM25Base:
    """What both forms of BM25 share: the analysed corpus, and the search of one question after another."""

    name: str

    def __init__(self, passages: Sequence[Passage], analyser_name: str) -> None:
        self._analyse = analyser(analyser_name)
        self._docnos = [p.docno for p in passages]
        self._ties = docno_order(self._docnos)

    def search(self, questions: Sequence[AnyQuery], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        progress = bar(questions, desc=f"searching ({self.name})")
        rankings = [self._search_one(question.text, k) for question in progress]
        return gather_run(questions, self._docnos.__getitem__, rankings)

    def _search_one(self, text: str, k: int) -> tuple[np.ndarray, np.ndarray]:
        words = self._analyse(text) if text.strip() else []
        scores, holds = self._scores(words)
        rows = top_k(scores, k, self._ties, allowed=holds)
        return rows, scores[rows]

    def _scores(self, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the score of each passage, (n,), and whether it holds any of the words, (n,) bool."""
        raise NotImplementedError


class BM25(_BM25Base):
    """BM25 on bm25s: scores are computed at index time, so that a search is a sum over a sparse matrix.

    A passage that shares no word with the question is never returned, so a list can be shorter than k, or empty.

    Args:
        passages: the corpus; docnos must be unique.
        variant: a key of ``VARIANTS``; "lucene" is the default of Lucene, Pyserini and bm25s.
        k1: term-frequency saturation.
        b: length normalisation, 0 to 1.
        analyser: see :func:`analyser`.
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
        self._index = bm25s.BM25(k1=k1, b=b, method=method, dtype="float64")
        _fill(self._index, *_count_words(passages, self._analyse))
        self._compile()

    def save(self, path: Path) -> None:
        """Write the index, without the texts, as a folder, which appears under its name only when complete."""
        with atomic_path(path, marker="docnos.json") as unfinished:
            self._index.save(unfinished, show_progress=False)
            np.save(unfinished / "ties.npy", self._ties)
            (unfinished / "docnos.json").write_text(json.dumps(self._docnos), encoding="utf-8")
            write_manifest(unfinished, {"bm25": _FORMAT, "analyser": self._analyser})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Open a saved index; scores stay on disk, and a search reads those it needs."""
        import bm25s

        logging.getLogger("bm25s").setLevel(logging.WARNING)
        path = Path(path)
        about = read_folder_manifest(path)
        if about.get("bm25") != _FORMAT:
            problem = f"expected a BM25 index of format {_FORMAT}; save it again"
            raise InputError(problem, path=path / MANIFEST_FILE)
        loaded = cls.__new__(cls)
        loaded._analyser = str(about.get("analyser"))
        with errors_in(path / MANIFEST_FILE):
            loaded._analyse = analyser(loaded._analyser)
        try:
            loaded._docnos = json.loads((path / "docnos.json").read_text(encoding="utf-8"))
            loaded._ties = np.load(path / "ties.npy", mmap_mode="r")
            loaded._index = bm25s.BM25.load(path, mmap=True)
        except (OSError, ValueError, EOFError) as error:
            problem = f"holds no complete index ({error}); delete this folder, and save it again"
            raise InputError(problem, path=path) from None
        scores = loaded._index.scores
        # numba takes plain arrays only; the files stay mapped.
        scores.update({name: np.asarray(scores[name]) for name in ("data", "indices", "indptr")})
        loaded._compile()
        return loaded

    def _compile(self) -> None:
        if len(self._docnos) >= _NUMBA_FROM and importlib.util.find_spec("numba") is not None:
            self._index.activate_numba_scorer()

    def _scores(self, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
        starts = self._index.scores["indptr"]
        rows = self._index.scores["indices"]
        # bm25s' own `index` numbers the empty word, too, beyond its last column.
        numbers = [self._index.vocab_dict.get(word, len(starts)) for word in words]
        known_words = [number for number in numbers if number < len(starts) - 1]
        holds = np.zeros(len(self._docnos), dtype=bool)
        for number in known_words:
            holds[rows[starts[number] : starts[number + 1]]] = True
        if not known_words:
            return np.zeros(len(holds)), holds
        return self._index.get_scores_from_ids(known_words), holds


class LuceneBM25(BM25):
    """BM25 as Pyserini searches a Lucene index, which BeRDS does (divergences.md B19): its parameters, stemmed words.

    Scores differ in the last digits: Lucene rounds lengths, and stems by Porter's first rules.
    """

    name = "bm25-lucene"

    def __init__(
        self,
        passages: Sequence[Passage],
        *,
        k1: float = 0.9,
        b: float = 0.4,
        analyser: str = "english-stem",
    ) -> None:
        super().__init__(passages, k1=k1, b=b, analyser=analyser)


class RankBM25(_BM25Base):
    """Okapi BM25 on rank-bm25: a few readable lines of Python, for teaching and checking.

    It replaces negative weights by small positive ones.
    """

    name = "rank-bm25"

    def __init__(
        self,
        passages: Sequence[Passage],
        *,
        k1: float = 1.5,
        b: float = 0.75,
        analyser: str = "english",
    ) -> None:
        from rank_bm25 import BM25Okapi

        super().__init__(passages, analyser)
        words = [self._analyse(p.full_text) for p in bar(passages, desc="reading words")]
        if not any(words):  # rank-bm25 cannot index a corpus without words: one that no query contains stands in
            words[0] = ["\0"]
        self._index = BM25Okapi(words, k1=k1, b=b)

    def _scores(self, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
        holds = np.array([any(word in frequencies for word in words) for frequencies in self._index.doc_freqs])
        scores = self._index.get_scores(words) if holds.any() else np.zeros(len(holds))
        return np.asarray(scores, dtype=np.float64), holds
