"""Where a judge is weak: agreement with labels by length, kind and how sure it is, and whether it sees a "not".

Whole questions are drawn for the intervals; `drawing` is their level, resamples and seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from berdslib.errors import InputError
from berdslib.evaluation.judges import agreement_report
from berdslib.stats import cluster_bootstrap, ratio_of_sums, yes_or_no

# In words. BeRDS cuts its corpora into passages of about 100 words; whole web pages are much longer.
LENGTH_EDGES = (50, 100, 200, 400)


def agreement_by(pairs: pd.DataFrame, by: str | Sequence[str], **drawing: Any) -> pd.DataFrame:
    """Break a judge's agreement with labels (columns qid, label, answer) down by other columns of `pairs`.

    The frame has those columns, n, questions, labelled_yes (share), accuracy and f1 with their intervals, for which
    whole questions are drawn: over few of them they are too narrow.
    """
    columns = [by] if isinstance(by, str) else list(by)
    rows = []
    for values, part in _kinds(pairs, columns, ["label", "answer"], sort=True):
        report = agreement_report(part["label"], part["answer"], part["qid"].tolist(), **drawing).set_index("measure")
        spread = [report.loc[m, c] for m in ("accuracy", "f1") for c in ("value", "low", "high")]
        rows.append((*values, len(part), part["qid"].nunique(), part["label"].mean(), *spread))
    return pd.DataFrame(rows, columns=[*columns, "n", "questions", "labelled_yes", *_with_ends("accuracy", "f1")])


def answers_by(pairs: pd.DataFrame, by: str, **drawing: Any) -> pd.DataFrame:
    """Return what a judge answers to each kind of pair (`by`), also where all pairs of a kind have one label.

    Frame `by`, n, questions, labelled_yes (share), mean_p and said_yes (share), these two with their intervals.
    """
    rows = []
    for kind, part in _kinds(pairs, [by], ["label", "answer", "p_yes"], sort=False):
        values = part[["p_yes", "answer"]].assign(one=1).to_numpy(dtype=np.float64)
        spread = np.transpose(cluster_bootstrap(values, part["qid"].tolist(), ratio_of_sums, **drawing)).ravel()
        rows.append((*kind, len(part), part["qid"].nunique(), part["label"].mean(), *spread))
    return pd.DataFrame(rows, columns=[by, "n", "questions", "labelled_yes", *_with_ends("mean_p", "said_yes")])


def _kinds(pairs: pd.DataFrame, by: list[str], needed: list[str], *, sort: bool) -> Any:
    """Return pairs by kind, their labels and answers as bool."""
    columns = ["qid", *needed, *by]
    missing = [c for c in columns if c not in pairs.columns]
    if missing or pairs.empty:
        problem = f"missing: {', '.join(missing) or 'pairs'}"
        raise InputError(f"needs pairs with the columns {', '.join(columns)}; {problem}")
    pairs = pairs.assign(**{column: yes_or_no(pairs[column], column) for column in ("label", "answer")})
    return pairs.groupby(by, sort=sort, observed=True, dropna=False)


def _with_ends(*names: str) -> list[str]:
    return [f"{name}{end}" for name in names for end in ("", "_low", "_high")]


def length_bucket(texts: Sequence[str], edges: Sequence[int] = LENGTH_EDGES) -> pd.Categorical:
    """Return for each text a bucket of its length in words; `edges` are the largest of each bucket but the last.

    >>> length_bucket(["one two", "one two three four"], [3]).tolist()
    ['1-3 words', '4 words and more']
    """
    starts = [1, *(e + 1 for e in edges)]
    if any(b <= a for a, b in pairwise(starts)):
        raise InputError(f"edges must be ascending whole numbers from 1, not {list(edges)}")
    names = [f"{start}-{edge} words" for start, edge in zip(starts, edges, strict=False)]
    names.append(f"{starts[-1]} words and more")
    words = np.array([len(text.split()) for text in texts], dtype=np.int64)
    return pd.Categorical([names[place] for place in np.searchsorted(edges, words)], categories=names, ordered=True)


def negation_report(
    p_right: np.ndarray, p_wrong: np.ndarray, clusters: Sequence[str], *, threshold: float = 0.5, **drawing: Any
) -> pd.DataFrame:
    """Measure whether a judge tells a statement from its negation, on documents that support one only.

    Rows right_higher (a tie counts half; chance is 0.5), both_yes, both_no, and sum_of_p (mean of the probabilities'
    sum, which should be 1), with measure, value, low, high.
    """
    yes = np.stack([p_right, p_wrong]) >= threshold
    columns = {
        "right_higher": (p_right > p_wrong) + 0.5 * (p_right == p_wrong),
        "both_yes": yes.all(axis=0),
        "both_no": ~yes.any(axis=0),
        "sum_of_p": p_right + p_wrong,
    }
    rows = np.column_stack([*columns.values(), np.ones(len(p_right))]).astype(np.float64)
    value, low, high = cluster_bootstrap(rows, clusters, ratio_of_sums, **drawing)
    return pd.DataFrame({"measure": list(columns), "value": value, "low": low, "high": high})
