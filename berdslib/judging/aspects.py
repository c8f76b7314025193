"""Generated perspectives as aspects: what a judge thinks that each passage argues, for diversifiers that go by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from berdslib.data.corpus import Corpus
from berdslib.data.records import Passage, Question
from berdslib.errors import InputError
from berdslib.judging.judges import Gold, Judge
from berdslib.judging.store import VerdictStore, judge_run


def judged_aspects(
    expansions: Mapping[str, Sequence[tuple[str, str]]],
    passages: Sequence[Passage],
    judge: Judge,
    store: VerdictStore | None = None,
) -> Callable[[pd.DataFrame, Sequence[Question]], pd.DataFrame]:
    """Return the function that a perspective-aware diversifier asks about the passages that were found.

    The perspectives are generated ones (recorded, by rule, or of a chat model), never those that a list is scored by:
    whoever reorders a real search result does not know these.

    Args:
        expansions: qid → [(name, statement), …].
        passages: the corpus.
        judge: any judge but recorded verdicts.
        store: where its verdicts are kept.

    Returns:
        From a run and its questions to a frame qid, pid (place in the expansions), docno, p (0 to 1).

    Raises:
        InputError: recorded verdicts as a judge.
    """
    if isinstance(judge, Gold):
        raise InputError("recorded verdicts are about the perspectives that lists are scored by; choose another judge")
    by_docno = passages.by_docno if isinstance(passages, Corpus) else {p.docno: p for p in passages}

    def aspects(run: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
        generated = [
            q._replace(perspectives=tuple(text for _, text in expansions[q.qid]), stances=())
            for q in questions
            if expansions.get(q.qid)
        ]
        known_qids = {q.qid for q in generated}
        judged = judge_run(
            run[run["qid"].isin(known_qids)], generated, by_docno, judge, k=int(run["rank"].max()), store=store
        )
        return judged.rename(columns={"p_yes": "p"})[["qid", "pid", "docno", "p"]]

    return aspects
