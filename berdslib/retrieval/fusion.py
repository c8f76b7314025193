"""Several runs made one: reciprocal rank fusion and round robin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import islice, zip_longest

import pandas as pd

from berdslib.data.records import check_run, make_run, ranked_run
from berdslib.errors import InputError

Lists = Mapping[str, Sequence[str]]  # what one search found: qid → docnos, best first
CONSTANT = 60.0  # of reciprocal rank fusion


def reciprocal_rank_fusion(runs: Sequence[pd.DataFrame | Lists], *, constant: float = CONSTANT) -> pd.DataFrame:
    """Fuse runs by the sum of 1 / (constant + rank) over the runs that list a passage; scores play no part.

    Sums are exact fractions; ties are ordered by docno. Source: Cormack, Clarke and Büttcher (2009), constant 60.

    Args:
        runs: frames with columns qid, docno and score (or rank), or plain lists, qid → docnos with the best first.
        constant: how little the first ranks stand out, at least 0.
    """
    if not 0 <= constant < math.inf:
        problem = f"the constant of reciprocal rank fusion must be a number of at least 0, not {constant}"
        raise InputError(problem, field="constant")
    ranks: dict[tuple[str, str], list[int]] = {}
    for one in _lists(runs):
        for qid, docnos in one.items():
            for rank, docno in enumerate(docnos, start=1):
                ranks.setdefault((qid, docno), []).append(rank)
    scores = [_sum_of_reciprocals(Fraction(constant), tuple(sorted(of_passage))) for of_passage in ranks.values()]
    return make_run([q for q, _ in ranks], [d for _, d in ranks], scores)


@lru_cache(maxsize=1 << 16)
def _sum_of_reciprocals(constant: Fraction, ranks: tuple[int, ...]) -> float:
    """Return the sum of 1 / (constant + rank), rounded once, at the end: rounded terms would decide exact ties."""
    return float(sum(1 / (constant + rank) for rank in ranks))


def round_robin(runs: Sequence[pd.DataFrame | Lists], turns: int | None = None) -> pd.DataFrame:
    """Fuse runs by taking turns, the first run beginning; what is listed already uses up its run's turn.

    Only what `turns` turns name is listed. Source: BeRDS, section 6 (divergences.md B13).
    """
    lists, fused = _lists(runs), {}
    for qid in dict.fromkeys(qid for one in lists for qid in one):
        taken = (docno for turn in zip_longest(*(one.get(qid, ()) for one in lists)) for docno in turn)
        fused[qid] = list(dict.fromkeys(islice((docno for docno in taken if docno is not None), turns)))
    return ranked_run(fused)


def _lists(runs: Sequence[pd.DataFrame | Lists]) -> list[Lists]:
    if not len(runs):
        raise InputError("there are no runs to fuse")
    return [lists_of(check_run(run)) if isinstance(run, pd.DataFrame) else run for run in runs]


def lists_of(run: pd.DataFrame) -> dict[str, list[str]]:
    """Return the lists of a clean run, qid → docnos."""
    return {str(qid): part["docno"].tolist() for qid, part in run.groupby("qid", sort=False)}
