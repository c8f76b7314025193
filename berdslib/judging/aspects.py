"""Generated perspectives as aspects: a judge's estimate of what each passage argues, for diversifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from berdslib.data.corpus import by_docno
from berdslib.data.records import Passage, Question, check_run
from berdslib.errors import InputError
from berdslib.judging.base import Judge
from berdslib.judging.baselines import Gold
from berdslib.judging.store import VerdictStore, judge_run


def judged_aspects(
    expansions: Mapping[str, Sequence[tuple[str, str]]],
    passages: Sequence[Passage],
    judge: Judge,
    store: VerdictStore | None = None,
) -> Callable[[pd.DataFrame, Sequence[Question]], pd.DataFrame]:
    """Return a function from a run and its questions to aspect probabilities: frame qid, pid, docno, p.

    `expansions` maps a qid to its [(name, statement), …], and pid is a place in these: the perspectives are generated
    ones, never those that a list is scored by.
    """
    if isinstance(judge, Gold):
        raise InputError("recorded verdicts cover only the perspectives used for scoring; choose another judge")
    corpus = by_docno(passages)

    table = pd.DataFrame(columns=["qid", "pid", "docno", "p"])

    def aspects(run: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
        nonlocal table
        run = check_run(run)
        generated = [
            q._replace(perspectives=tuple(text for _, text in expansions[q.qid]), stances=(), weights=())
            for q in questions
            if expansions.get(q.qid)
        ]
        asked = run[run["qid"].isin({q.qid for q in generated})]
        new = asked[~_pairs(asked).isin(_pairs(table))]
        if len(new):  # settings of one diversifier ask about the same passages again and again
            judged = judge_run(new, generated, corpus, judge, k=int(new["rank"].max()), store=store)
            judged = judged.rename(columns={"p_yes": "p"})[list(table.columns)]
            table = pd.concat([table, judged], ignore_index=True) if len(table) else judged
        return table[_pairs(table).isin(_pairs(asked))].reset_index(drop=True)

    return aspects


def _pairs(frame: pd.DataFrame) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(frame[["qid", "docno"]])
