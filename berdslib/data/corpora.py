"""From a source (data set, file, folder) to a corpus on disk, and what a corpus holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from berdslib.data.corpus import DUPLICATES, Corpus, RepeatedDocnoError, duplicate_line_error, is_corpus, write_corpus
from berdslib.data.datasets import check_limit, passage_file
from berdslib.data.formats import iter_passages
from berdslib.data.passages import CUTS, WORDS, corpus_statistics, cut_documents, documents_by, without_duplicates
from berdslib.data.records import Passage
from berdslib.data.web import is_web_corpora, web_statistics
from berdslib.errors import errors_in, known


class Written(NamedTuple):
    """A corpus that was written: ``passages`` in it, ``exact`` and ``near`` repeats dropped, ``bytes`` on disk."""

    passages: int
    exact: int
    near: int
    bytes: int


def write_source(
    source: str,
    folder: Path,
    *,
    cut: str = "none",
    words: int = WORDS,
    duplicates: str = "keep",
    near: float = 0.8,
    limit: int = 0,
) -> Written:
    """Write the passages of a source as a corpus on disk, which opens memory-mapped.

    Args:
        source: a data set, a file, a BEIR folder, or a corpus on disk.
        folder: where to; a corpus that is there is replaced.
        cut: "none" where rows are passages; "words" or "sentences" where they are documents to be cut.
        words: of a passage, where documents are cut.
        duplicates: "keep", "exact" (drop the same text), or "near" (drop similar text too).
        near: similarity (Jaccard) at which a text is a near repeat.
        limit: only the first so many rows; 0 = all.

    Raises:
        InputError: an unknown setting, an unreadable source, a repeated docno, or a folder of something else.
        MissingDataError: a data set that is not on this machine.
    """
    known("cut", cut, ("none", *CUTS))
    known("treatment of duplicates", duplicates, DUPLICATES)
    check_limit(limit)
    removed: Counter[str] = Counter()
    rows, was_cut = _stream(source)
    passages, was_cut = _cut(islice(rows, limit or None), was_cut, cut, words)
    if duplicates != "keep":
        passages = without_duplicates(passages, near if duplicates == "near" else None, removed)
    with errors_in(source):
        try:
            written = write_corpus(passages, folder, was_cut)
        except RepeatedDocnoError as error:
            raise duplicate_line_error(error, passage_file(source), cut) from None
    size = sum(path.stat().st_size for path in folder.iterdir())
    return Written(len(written), removed["exact"], removed["near"], size)


def describe_corpus(name: str, documents: str = "auto") -> dict[str, Any]:
    """Return the columns of BeRDS Table 2 for a corpus, and the words of a passage.

    Args:
        name: a data set, file or folder; NAME:words and NAME:sentences cut its rows into passages first. Of a folder
            with a corpus for each question the means over the questions are returned.
        documents: what passages of one document share, see :func:`berdslib.data.passages.documents_by`.
    """
    source, _, cut = name.rpartition(":")
    if is_web_corpora(name):
        return {"corpus": name, **web_statistics(name), "documents_by": "docno"}
    passages, was_cut = _cut(*_stream(source), cut, WORDS) if cut in CUTS else _stream(name)
    by = documents_by(documents, was_cut)
    with errors_in(name):
        return {"corpus": name, **corpus_statistics(passages, documents=by), "documents_by": by}


def _stream(name: str) -> tuple[Iterable[Passage], str]:
    """Return the passages of a source, and how they were cut."""
    if is_corpus(name):
        found = Corpus(name)
        return found, found.cut
    return iter_passages(passage_file(name)), "none"


def _cut(passages: Iterable[Passage], was_cut: str, cut: str, words: int) -> tuple[Iterable[Passage], str]:
    if cut == "none":
        return passages, was_cut
    return cut_documents(passages, lambda text: CUTS[cut](text, words)), cut
