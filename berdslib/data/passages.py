"""From documents to passages, as streams: cutting into pieces, dropping equal texts, computing statistics."""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from berdslib.data.records import Passage
from berdslib.errors import InputError
from berdslib.progress import bar

WORDS = 100  # per passage, in the papers and in the DPR dump
# The paper gives no rule for near-duplicates, only their number. At 0.8, a passage of 100 words is dropped if it
# differs from an earlier one in two words, or starts up to ten words later on the same page.
NEAR = 0.8
_GRAM = 5


# ---------------------------------------------------------------- cutting


def split_words(text: str, words: int = WORDS) -> list[str]:
    """Cut a text into disjoint pieces of exactly `words` words; the last piece may be shorter (BeRDS section 4.2).

    The DPR dump instead fills its last piece with words from the document's start.

    >>> split_words("a b c d e", words=2)
    ['a b', 'c d', 'e']
    """
    found = text.split()
    return [" ".join(found[start : start + words]) for start in range(0, len(found), words)]


def cut_documents(documents: Iterable[Passage], words: int = WORDS) -> Iterator[Passage]:
    """Cut documents into passages named DOCNO-0, DOCNO-1, …, each with its title; empty documents have none.

    >>> [p.docno for p in cut_documents([Passage("d7", "a b c")], words=1)]
    ['d7-0', 'd7-1', 'd7-2']
    """
    for document in documents:
        for i, text in enumerate(split_words(document.text, words)):
            yield document._replace(docno=f"{document.docno}-{i}", text=text)


# ---------------------------------------------------------------- repeats


def without_duplicates(passages: Iterable[Passage], dropped: list[str] | None = None) -> Iterator[Passage]:
    """Yield the passages with distinct texts; the docnos of repeated ones are appended to `dropped`.

    Texts are equal if they have the same words, ignoring case and white space; titles replace empty texts.

    >>> [p.docno for p in without_duplicates([Passage("a", "Tea is good"), Passage("b", "tea  is good")])]
    ['a']
    """
    dropped = [] if dropped is None else dropped
    seen: set[bytes] = set()
    for passage in passages:
        text = passage.text if passage.text.strip() else passage.title
        words = " ".join(text.casefold().split())
        digest = hashlib.blake2b(words.encode(), digest_size=16).digest()
        if digest in seen:
            dropped.append(passage.docno)
        else:
            seen.add(digest)
            yield passage


def without_near_duplicates(passages: Sequence[Passage], near: float = NEAR) -> list[Passage]:
    """Drop each passage that resembles an earlier one: the Jaccard similarity of their word 5-grams is at least `near`.

    >>> texts = ["Tea is good for you.", "tea is good, for you", "Tea is bad for you."]
    >>> [p.docno for p in without_near_duplicates([Passage(str(i), text) for i, text in enumerate(texts)])]
    ['0', '2']
    """
    kept: list[tuple[Passage, set[int]]] = []
    number: dict[tuple[str, ...], int] = {}  # sets of numbers intersect much faster than sets of words
    for passage in passages:
        words = re.findall(r"\w+", passage.text.casefold())
        starts = range(max(1, len(words) - _GRAM + 1))
        grams = {number.setdefault(tuple(words[start : start + _GRAM]), len(number)) for start in starts}
        if all(_jaccard_below(near, grams, earlier) for _, earlier in kept):
            kept.append((passage, grams))
    return [passage for passage, _ in kept]


def _jaccard_below(limit: float, first: set[int], second: set[int]) -> bool:
    shared = len(first & second)
    return shared < limit * (len(first) + len(second) - shared)


# ---------------------------------------------------------------- counting


def corpus_statistics(passages: Iterable[Passage], cut: bool = True) -> dict[str, float]:
    """Return passages, documents and mean_words (per passage, without titles): the columns of BeRDS Table 2.

    Passages that are `cut` from one document share their docno up to a final -NUMBER; other passages are documents.

    >>> corpus_statistics([Passage("a-0", "one two"), Passage("a-1", "three"), Passage("b-0", "four")])
    {'passages': 3, 'documents': 2, 'mean_words': 1.3333333333333333}
    """
    n = words = 0
    # Hashes need less memory than names; with 10 million documents, the chance of a collision is 1 in 400,000.
    documents = array("q")
    for passage in bar(passages, desc="counting passages", unit="passage"):
        n += 1
        words += len(passage.text.split())
        if cut:
            document = hash(re.sub(r"-\d+$", "", passage.docno))
            if document not in documents[-1:]:
                documents.append(document)
    if not n:
        raise InputError("there are no passages to count")
    distinct = len(np.unique(np.frombuffer(documents, dtype=np.int64))) if cut else n
    return {"passages": n, "documents": distinct, "mean_words": words / n}
