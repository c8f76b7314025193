"""From documents to passages, as streams: cutting into pieces, dropping duplicates, computing statistics."""

from __future__ import annotations

import hashlib
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np

from berdslib.data.records import Passage
from berdslib.errors import InputError, known
from berdslib.progress import bar

Split = Callable[[str], list[str]]

WORDS = 100  # of a passage, in the papers and in the DPR dump
NEAR = 0.8  # Jaccard similarity from which two passages count as near-duplicates
_ROWS_OF_BAND = 4  # of the MinHash signature
_FOUND = 0.995  # share of the pairs exactly at the threshold that the signatures bring together

# With a full stop, these end no sentence. Punkt would learn them from its training data, which needs a download.
_ABBREVIATIONS = (
    "dr mr mrs ms prof rev hon gen col maj capt lt sgt gov sen rep st jr sr ph.d m.d inc ltd co corp dept univ "
    "e.g i.e cf al vs viz ca approx vol vols pp fig figs jan feb mar apr jun jul aug sep sept oct nov dec "
    "u.s u.k u.n a.m p.m b.c a.d"
)


# ---------------------------------------------------------------- cutting


def split_words(text: str, words: int = WORDS) -> list[str]:
    """Cut a text into disjoint pieces of exactly so many words; the last keeps what is left (BeRDS section 4.2).

    The DPR dump fills its last piece up with words from the document's start instead.

    >>> split_words("a b c d e", words=2)
    ['a b', 'c d', 'e']
    """
    found = text.split()
    return [" ".join(found[start : start + words]) for start in range(0, len(found), words)]


def split_sentences(text: str, words: int = WORDS) -> list[str]:
    """Cut a text into disjoint pieces of whole sentences, as many as fit into so many words.

    A sentence longer than that is cut as by :func:`split_words`. Sentences end where NLTK's Punkt finds an end with a
    short list of English abbreviations, and at blank lines.

    >>> split_sentences("Dr. No is out. Is he? He is.", words=6)
    ['Dr. No is out. Is he?', 'He is.']
    """
    pieces: list[str] = []
    piece: list[str] = []
    for sentence in _sentences(text):
        if len(piece) + len(sentence) > words:
            if piece:
                pieces.append(" ".join(piece))
            whole = len(sentence) // words * words
            pieces += [" ".join(sentence[start : start + words]) for start in range(0, whole, words)]
            piece = sentence[whole:]
        else:
            piece += sentence
    return [*pieces, " ".join(piece)] if piece else pieces


# Each entry cuts a text into pieces of at most so many words.
CUTS: dict[str, Callable[[str, int], list[str]]] = {"words": split_words, "sentences": split_sentences}


def cut_documents(documents: Iterable[Passage], split: Split = split_words) -> Iterator[Passage]:
    """Cut documents into passages named DOCNO-0, DOCNO-1, …, each with its document's title; without words, none.

    >>> [p.docno for p in cut_documents([Passage("d7", "a b c")], lambda text: text.split())]
    ['d7-0', 'd7-1', 'd7-2']
    """
    for document in documents:
        for i, text in enumerate(split(document.text)):
            yield Passage(f"{document.docno}-{i}", text, document.title)


@cache
def _punkt() -> Any:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    parameters = PunktParameters()
    parameters.abbrev_types = set(_ABBREVIATIONS.split())
    return PunktSentenceTokenizer(parameters)


def _sentences(text: str) -> Iterator[list[str]]:
    """Yield the words of each sentence; every word of the text is in exactly one."""
    for paragraph in re.split(r"\n\s*\n", text):
        starts = [_start_of_word(paragraph, start) for start, _ in _punkt().span_tokenize(paragraph)]
        # From each start to the next, not the spans themselves: nothing between two sentences may get lost.
        for start, end in zip([0, *starts[1:]], [*starts[1:], len(paragraph)], strict=True):
            if words := paragraph[start:end].split():
                yield words


def _start_of_word(text: str, start: int) -> int:
    """Return where the next word starts, if not here: Punkt also ends sentences within one, as in ``.”[1]``."""
    while 0 < start < len(text) and not text[start - 1].isspace():
        start += 1
    return start


# ---------------------------------------------------------------- repeats


def without_duplicates(
    passages: Iterable[Passage], near: float | None = NEAR, removed: Counter[str] | None = None
) -> Iterator[Passage]:
    """Yield the passages, leaving out exact and near duplicates of earlier ones; `removed` counts these up.

    Exact repeats have the same words, whatever case and white space; near ones a Jaccard similarity of word pairs of at
    least `near` (None for exact only). MinHash proposes candidates and the true similarity decides, so that no passage
    below `near` is dropped; a few at or just above it are missed. Memory grows with what is kept.

    >>> [p.docno for p in without_duplicates([Passage("a", "Tea is good"), Passage("b", "tea  is good")])]
    ['a']
    """
    if near is not None and not 0.5 <= near <= 1:  # the lower, the more memory each passage takes
        raise InputError(f"a similarity from 0.5 to 1 was expected, not {near}", field="near")
    removed = Counter() if removed is None else removed
    seen: set[bytes] = set()
    seen_similar = None if near is None else _near_duplicates(near)
    for passage in passages:
        words = (passage.text if passage.text.strip() else passage.title).casefold().split()
        digest = hashlib.blake2b(" ".join(words).encode(), digest_size=16).digest()
        if digest in seen:
            removed["exact"] += 1
        elif seen_similar and seen_similar(words):
            removed["near"] += 1
        else:
            seen.add(digest)
            yield passage


def _near_duplicates(near: float) -> Callable[[list[str]], bool]:
    """Return what says of a passage's words whether a similar passage was seen, and remembers them if not."""
    import rensa

    # Two passages meet if all rows of at least one band agree: 1 - (1 - near^rows)^bands of those at the threshold.
    missed_by_band = 1 - near**_ROWS_OF_BAND
    bands = math.ceil(math.log(1 - _FOUND) / math.log(missed_by_band)) if missed_by_band else 1
    width = bands * _ROWS_OF_BAND
    candidates = rensa.RMinHashLSH(threshold=near, num_perm=width, num_bands=bands)
    kept: list[bytes] = []  # the pairs of words as sorted 32-bit hashes

    def seen_similar(words: list[str]) -> bool:
        pairs = {f"{a} {b}" for a, b in pairwise(words)} or set(words)
        signature = rensa.RMinHash(num_perm=width, seed=1)
        signature.update(list(pairs))
        hashes = np.unique(np.array([crc32(pair.encode()) for pair in pairs], dtype=np.uint32))
        for candidate in candidates.query(signature):
            if _jaccard(hashes, np.frombuffer(kept[candidate], dtype=np.uint32)) >= near:
                return True
        candidates.insert(len(kept), signature)
        kept.append(hashes.tobytes())
        return False

    return seen_similar


def _jaccard(a: np.ndarray, b: np.ndarray) -> float:
    """Return the share of the elements of two sets that both hold; two empty sets are equal."""
    common = len(np.intersect1d(a, b, assume_unique=True))
    union = len(a) + len(b) - common
    return common / union if union else 1.0


# ---------------------------------------------------------------- counting

# Each entry names the document that a passage is from; None: nothing is to be compared.
_DOCUMENTS: dict[str, Callable[[Passage], str] | None] = {
    "docno": lambda p: re.sub(r"-\d+$", "", p.docno),
    "title": lambda p: p.title or p.docno,
    "passage": None,
}


def corpus_statistics(passages: Iterable[Passage], documents: str = "docno") -> dict[str, float]:
    """Return passages, documents and mean_words (per passage, without titles): the columns of BeRDS Table 2.

    Passages are of one document if they share their docno but for a final -NUMBER ("docno") or their "title" (as in the
    DPR dump; without one each is a document); with "passage" each is a document.

    >>> corpus_statistics([Passage("a-0", "one two"), Passage("a-1", "three"), Passage("b-0", "four")])
    {'passages': 3, 'documents': 2, 'mean_words': 1.3333333333333333}
    """
    document_of = _DOCUMENTS[known("way to tell documents", documents, _DOCUMENTS)]
    n = words = 0
    # Hashes take less room than names; at 10 million documents two clash once in 400,000 times.
    seen = array("q")
    for passage in bar(passages, desc="counting passages", unit="passage"):
        n += 1
        words += len(passage.text.split())
        if document_of is not None and (document := hash(document_of(passage))) not in seen[-1:]:
            seen.append(document)
    if not n:
        raise InputError("there are no passages to count")
    documents_seen = n if document_of is None else len(np.unique(np.frombuffer(seen, dtype=np.int64)))
    return {"passages": n, "documents": documents_seen, "mean_words": words / n}
