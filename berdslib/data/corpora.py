"""From a source (data set, file, folder) to a corpus on disk, and what a corpus holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from berdslib.data.corpus import Written, cut_rows, make_corpus
from berdslib.data.datasets import check_limit, passage_file
from berdslib.data.passages import CUTS, corpus_statistics
from berdslib.data.web import is_web_corpora, web_statistics
from berdslib.errors import errors_in


def write_source(source: str, folder: Path, *, limit: int = 0, **shape: Any) -> Written:
    """Write the passages of a data set, file, BEIR folder or corpus on disk as a corpus, replacing one there.

    `limit` is for the first so many rows; `shape` goes to :func:`berdslib.data.corpus.make_corpus`.
    """
    check_limit(limit)
    place = passage_file(source)
    with errors_in(source):
        return make_corpus(place, folder, limit=limit, **shape)


def describe_corpus(name: str, documents: str = "auto") -> dict[str, Any]:
    """Return the columns of BeRDS Table 2 for a data set, file or folder.

    NAME:words and NAME:sentences cut its rows first. Of a folder with a corpus for each question, the means over them.
    `documents` "auto": passages of one document are told by the docno's final -NUMBER only where documents were cut
    here, as names such as MED-10 end so too.
    """
    if is_web_corpora(name):
        return {"corpus": name, **web_statistics(name), "documents_by": "docno"}
    source, _, cut = name.rpartition(":")
    source, cut = (source, cut) if cut in CUTS else (name, "none")
    with errors_in(name):
        passages, is_cut = cut_rows(passage_file(source), cut)
        by = documents if documents != "auto" else "passage" if is_cut == "none" else "docno"
        return {"corpus": name, **corpus_statistics(passages, documents=by), "documents_by": by}
