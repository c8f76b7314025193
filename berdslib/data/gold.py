"""What recorded verdicts are about: ids, as in trec_eval, or texts, where a data set says that copies share them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from berdslib.data.corpus import by_docno
from berdslib.data.records import Passage, check_verdicts


def share_verdicts(verdicts: pd.DataFrame, passages: Sequence[Passage]) -> pd.DataFrame:
    """Return verdicts in which passages of equal title and text share what was said of one of them.

    A passage that was judged keeps its own verdict. One that was not takes that of its copies, a yes before a no.
    """
    verdicts = check_verdicts(verdicts)
    same = _by_text(by_docno(passages), (p.docno for p in passages))
    copies = same.groupby("text").filter(lambda group: len(group) > 1)
    judged = verdicts.merge(copies, on="docno")
    others = judged.merge(copies, on="text", suffixes=("", "_of_copy"))
    others = others.assign(docno=others["docno_of_copy"])[verdicts.columns]
    others = others.sort_values("supports", ascending=False, kind="stable")
    whole = pd.concat([verdicts, others], ignore_index=True)
    return check_verdicts(whole.drop_duplicates(["qid", "pid", "docno"]))


def are_copies_of_judged(run: pd.DataFrame, verdicts: pd.DataFrame, passages: Sequence[Passage]) -> np.ndarray:
    """Return for each row of a run, bool (n,), whether it lists an unjudged copy of a passage judged for its question.

    `qid` is that of the question, also where the list is that of a perspective. A docno that is not in the corpus is
    no copy.
    """
    corpus = by_docno(passages)
    text = _by_text(corpus, pd.unique(pd.concat([run["docno"], verdicts["docno"]]))).set_index("docno")["text"]
    said = pd.MultiIndex.from_arrays([verdicts["qid"], verdicts["docno"]])
    said_of_text = pd.MultiIndex.from_arrays([verdicts["qid"], verdicts["docno"].map(text)])
    listed_text = run["docno"].map(text)
    is_copy = pd.MultiIndex.from_arrays([run["qid"], listed_text]).isin(said_of_text) & listed_text.notna()
    return np.asarray(is_copy & ~pd.MultiIndex.from_arrays([run["qid"], run["docno"]]).isin(said))


def _by_text(passages: Mapping[str, Passage], docnos: Iterable[str]) -> pd.DataFrame:
    """Return docno and text, a number that equal titles and texts share, of those passages that the corpus holds."""
    numbers: dict[tuple[str, str], int] = {}
    rows = [
        (docno, numbers.setdefault((found.title, found.text), len(numbers)))
        for docno in docnos
        if (found := passages.get(docno)) is not None
    ]
    return pd.DataFrame(rows, columns=["docno", "text"])
