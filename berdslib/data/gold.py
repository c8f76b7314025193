"""What recorded verdicts are about: ids, as in trec_eval, or texts, where a data set says that copies share them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from berdslib.data.corpus import by_docno
from berdslib.data.records import GRADE, Passage, check_verdicts, read_pairs


def share_verdicts(verdicts: pd.DataFrame, passages: Sequence[Passage]) -> pd.DataFrame:
    """Return verdicts in which passages of equal title and text share the verdict on one of them.

    A passage that was judged keeps its own verdict. One that was not takes that of its copies: of several the highest
    grade, a yes before a no. An unread answer is no verdict and gives way to that of a copy.
    """
    verdicts = check_verdicts(verdicts)
    read = read_pairs(verdicts)
    same = _same_texts(read["docno"], passages)
    best_first = ["supports", GRADE, "p_yes"] if GRADE in verdicts else ["supports", "p_yes"]
    of_text = read.merge(same, on="docno").sort_values(best_first, ascending=False, kind="stable")
    of_text = of_text.drop_duplicates(["qid", "pid", "text"]).drop(columns="docno")
    shared = of_text.merge(same, on="text")[verdicts.columns]
    by_precedence = pd.concat([read, shared, verdicts], ignore_index=True)
    return check_verdicts(by_precedence.drop_duplicates(["qid", "pid", "docno"]))


def unjudged_copies(verdicts: pd.DataFrame, passages: Sequence[Passage]) -> pd.DataFrame:
    """Return the passages that nobody judged for a question though one of equal title and text was: qid, docno, text.

    `text` is a number that the copies of one text share. The whole corpus is gone through once; of its texts only those
    that were judged are kept in memory.
    """
    judged = read_pairs(verdicts)[["qid", "docno"]].drop_duplicates()
    same = _same_texts(judged["docno"], passages)
    texts = judged.merge(same, on="docno")[["qid", "text"]].drop_duplicates()
    found = texts.merge(same, on="text")[["qid", "docno", "text"]]
    return found[~_among(found[["qid", "docno"]], judged)].reset_index(drop=True)


def are_copies_of_judged(run: pd.DataFrame, verdicts: pd.DataFrame, passages: Sequence[Passage]) -> np.ndarray:
    """Return for each row of a run, bool (n,), whether it lists an unjudged copy of a passage judged for its question.

    `qid` is that of the question, also where the list is that of a perspective. A docno that is not in the corpus is
    no copy. Only the passages that are listed or judged are read.
    """
    judged, corpus = read_pairs(verdicts), by_docno(passages)
    asked = pd.unique(pd.concat([run["docno"], judged["docno"]]))
    texts = _numbered(found for docno in asked if (found := corpus.get(docno)) is not None)
    of_judged = judged.merge(texts, on="docno")[["qid", "text"]]
    listed = run[["qid", "docno"]].merge(texts, on="docno", how="left")
    are_judged = _among(listed[["qid", "docno"]], judged)
    return np.asarray(_among(listed[["qid", "text"]], of_judged) & ~are_judged)


def _same_texts(docnos: Iterable[str], passages: Sequence[Passage]) -> pd.DataFrame:
    """Return docno and text of all passages that have one of these docnos, or the title and text of one of these.

    Those whose text no other passage has are left out.
    """
    corpus = by_docno(passages)
    wanted = {named[1:] for docno in set(docnos) if (named := corpus.get(docno)) is not None}
    found = _numbered(passage for passage in passages if passage[1:] in wanted)
    return found[found.duplicated("text", keep=False)]


def _numbered(passages: Iterable[Passage]) -> pd.DataFrame:
    """Return docno and text, a number that equal titles and texts share."""
    numbers: dict[tuple[str, ...], int] = {}
    rows = [(passage.docno, numbers.setdefault(passage[1:], len(numbers))) for passage in passages]
    return pd.DataFrame(rows, columns=["docno", "text"]).astype({"docno": object})


def _among(pairs: pd.DataFrame, others: pd.DataFrame) -> np.ndarray:
    """Return which rows, of two columns, are also rows of `others`. A text that is not known is like no other."""
    found = pd.MultiIndex.from_frame(pairs).isin(pd.MultiIndex.from_frame(others[[*pairs.columns]]))
    return np.asarray(found & pairs.notna().all(axis=1))
