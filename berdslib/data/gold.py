"""Verdicts of copies: verdicts belong to ids, as in trec_eval, or to texts, where a data set says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from berdslib.data.corpus import by_docno
from berdslib.data.records import GRADE, Passage, check_verdicts, read_pairs


def share_verdicts(verdicts: pd.DataFrame, passages: Sequence[Passage]) -> pd.DataFrame:
    """Return verdicts in which passages of equal title and text share the verdict on one of them.

    A judged passage keeps its own verdict. An unjudged passage takes the verdict of its copies: the highest grade, and
    yes before no. An unread answer is not a verdict: the verdict of a copy replaces it.
    """
    verdicts = check_verdicts(verdicts)
    read = read_pairs(verdicts)
    copies = _same_texts(read["docno"], passages)
    best_first = ["supports", "p_yes"]
    if GRADE in verdicts:
        best_first.insert(1, GRADE)
    on_texts = read.merge(copies, on="docno")
    on_texts = on_texts.sort_values(best_first, ascending=False, kind="stable")
    on_texts = on_texts.drop_duplicates(["qid", "pid", "text"])
    on_texts = on_texts.drop(columns="docno")
    shared = on_texts.merge(copies, on="text")[verdicts.columns]
    by_precedence = pd.concat([read, shared, verdicts], ignore_index=True)
    return check_verdicts(by_precedence.drop_duplicates(["qid", "pid", "docno"]))


def unjudged_copies(verdicts: pd.DataFrame, passages: Sequence[Passage]) -> pd.DataFrame:
    """Return the unjudged passages whose title and text equal those of a judged passage: qid, docno, text.

    `text` is a number that all copies of one text share. The corpus is read once; only the judged texts are kept in
    memory.
    """
    judged = read_pairs(verdicts)[["qid", "docno"]].drop_duplicates()
    copies = _same_texts(judged["docno"], passages)
    judged_texts = judged.merge(copies, on="docno")[["qid", "text"]]
    candidates = judged_texts.drop_duplicates().merge(copies, on="text")
    candidates = candidates[["qid", "docno", "text"]]
    are_judged = _among(candidates[["qid", "docno"]], judged)
    return candidates[~are_judged].reset_index(drop=True)


def are_copies_of_judged(run: pd.DataFrame, verdicts: pd.DataFrame, passages: Sequence[Passage]) -> np.ndarray:
    """Return for each row of a run, bool (n,), whether it lists an unjudged copy of a passage judged for its question.

    `qid` is the question's id, even where the list belongs to a perspective. A docno outside the corpus is not a copy.
    Only listed and judged passages are read.
    """
    judged = read_pairs(verdicts)
    docnos = pd.unique(pd.concat([run["docno"], judged["docno"]]))
    texts = _numbered(_of_docnos(docnos, passages))
    judged_texts = judged.merge(texts, on="docno")[["qid", "text"]]
    listed = run[["qid", "docno"]].merge(texts, on="docno", how="left")
    are_judged = _among(listed[["qid", "docno"]], judged)
    have_judged_text = _among(listed[["qid", "text"]], judged_texts)
    return np.asarray(have_judged_text & ~are_judged)


def _same_texts(docnos: Iterable[str], passages: Sequence[Passage]) -> pd.DataFrame:
    """Return docno and text of the passages with one of these docnos, and of all their copies.

    Passages without a copy are left out.
    """
    texts = {passage[1:3] for passage in _of_docnos(set(docnos), passages)}
    numbered = _numbered(passage for passage in passages if passage[1:3] in texts)
    return numbered[numbered.duplicated("text", keep=False)]


def _of_docnos(docnos: Iterable[str], passages: Sequence[Passage]) -> Iterator[Passage]:
    """Yield the passages with these docnos; a docno outside the corpus is left out."""
    corpus = by_docno(passages)
    for docno in docnos:
        passage = corpus.get(docno)
        if passage is not None:
            yield passage


def _numbered(passages: Iterable[Passage]) -> pd.DataFrame:
    """Return docno and text, a number that equal titles and texts share."""
    numbers: dict[tuple[str, ...], int] = {}
    rows = []
    for passage in passages:
        number = numbers.setdefault(passage[1:3], len(numbers))
        rows.append((passage.docno, number))
    frame = pd.DataFrame(rows, columns=["docno", "text"])
    return frame.astype({"docno": object})


def _among(pairs: pd.DataFrame, others: pd.DataFrame) -> np.ndarray:
    """Return which rows, of two columns, are also rows of `others`; an unknown text equals no other."""
    those = pd.MultiIndex.from_frame(others[[*pairs.columns]])
    are_among = pd.MultiIndex.from_frame(pairs).isin(those)
    return np.asarray(are_among & pairs.notna().all(axis=1))
