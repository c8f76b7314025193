"""Several runs made one: reciprocal rank fusion and round robin."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pandas as pd

from berdslib.data.records import check_run, make_run, ranked_run
from berdslib.errors import InputError

CONSTANT = 60.0  # of reciprocal rank fusion


def reciprocal_rank_fusion(runs: Sequence[pd.DataFrame], *, constant: float = CONSTANT) -> pd.DataFrame:
    """Fuse runs by the sum of 1 / (constant + rank) over the runs that list a passage; scores play no part.

    Equal sums are ordered by docno. Source: Cormack, Clarke and Büttcher (2009), who set the constant to 60.

    It stays at 60: no other differed from it beyond chance on both halves of 300 development questions of BeRDS
    (recorded expansions, minilm, ArguAna corpus, laptop judge; n = 150 a half). With six expansions on the half to
    choose by, 60 has MRecall@5 52.7 [45.0, 60.1] and Precision@5 69.9 [65.3, 73.9]; constants from 10 to 1000 are
    within .7 points of both, and 0 has 2.1 [.5, 3.7] points less Precision@5. On the other half, 0 has 1.1 [-.5, 2.5]
    points more (``scripts/fusion_constant.py``).

    Args:
        runs: frames with columns qid, docno and score (or rank); they may list different questions and passages.
        constant: how little the first ranks stand out, at least 0.

    Returns:
        A run that lists, for each question, every passage of any run once.

    Raises:
        InputError: no runs, a negative constant, or a run that is not one.
    """
    if not constant >= 0:
        raise InputError(f"the constant of reciprocal rank fusion must be at least 0, not {constant}", field="constant")
    parts: dict[tuple[str, str], list[float]] = {}
    for run in _checked(runs):
        for qid, docno, rank in zip(run["qid"], run["docno"], run["rank"], strict=True):
            parts.setdefault((qid, docno), []).append(1 / (constant + rank))
    # fsum rounds once: the sum does not depend on the order of the runs, so that ties are ties.
    return make_run([q for q, _ in parts], [d for _, d in parts], [math.fsum(values) for values in parts.values()])


def round_robin(runs: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Fuse runs by taking turns: each run in its turn gives its best passage that is not listed yet.

    A run that has none left is passed over (divergences.md B13: duplicates are skipped, lists may differ in length).

    Args:
        runs: frames with columns qid, docno and score (or rank); the first begins.

    Returns:
        A run that lists, for each question, every passage of any run once; its scores are negated ranks.

    Raises:
        InputError: no runs, or a run that is not one.
    """
    lists: dict[str, list[list[str]]] = {}
    for i, run in enumerate(clean := _checked(runs)):
        for qid, part in run.groupby("qid", sort=False):
            lists.setdefault(str(qid), [[] for _ in clean])[i] = part["docno"].tolist()
    return ranked_run({qid: list(_take_turns(of_question)) for qid, of_question in lists.items()})


def _take_turns(lists: list[list[str]]) -> Iterator[str]:
    seen: set[str] = set()
    waiting = [iter(docnos) for docnos in lists]
    while waiting:
        for docnos in waiting.copy():
            unseen = next((d for d in docnos if d not in seen), None)
            if unseen is None:
                waiting.remove(docnos)
            else:
                seen.add(unseen)
                yield unseen


def _checked(runs: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    if not len(runs):
        raise InputError("there are no runs to fuse")
    return [check_run(run) for run in runs]
