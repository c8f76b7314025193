"""From a source (data set, file, folder) to a corpus on disk, and what a corpus holds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from berdslib.data.corpus import cut_rows, make_corpus
from berdslib.data.datasets import check_limit, passage_file
from berdslib.data.passages import CUTS, WORDS, corpus_statistics, documents_by
from berdslib.data.web import is_web_corpora, web_statistics
from berdslib.errors import errors_in


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
    """
    check_limit(limit)
    removed: Counter[str] = Counter()
    place = passage_file(source)
    with errors_in(source):
        written = make_corpus(
            place, folder, cut=cut, words=words, duplicates=duplicates, near=near, limit=limit, removed=removed
        )
    size = sum(path.stat().st_size for path in folder.iterdir())
    return Written(len(written), removed["exact"], removed["near"], size)


def describe_corpus(name: str, documents: str = "auto") -> dict[str, Any]:
    """Return the columns of BeRDS Table 2 for a corpus, and the words of a passage.

    Args:
        name: a data set, file or folder; NAME:words and NAME:sentences cut its rows into passages first. Of a folder
            with a corpus for each question the means over the questions are returned.
        documents: what passages of one document share, see :func:`berdslib.data.passages.documents_by`.
    """
    if is_web_corpora(name):
        return {"corpus": name, **web_statistics(name), "documents_by": "docno"}
    source, _, cut = name.rpartition(":")
    source, cut = (source, cut) if cut in CUTS else (name, "none")
    with errors_in(name):
        passages, is_cut = cut_rows(passage_file(source), cut)
        by = documents_by(documents, is_cut)
        return {"corpus": name, **corpus_statistics(passages, documents=by), "documents_by": by}
