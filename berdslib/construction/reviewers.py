"""How far two reviewers of the same items agree, and what they see differently."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from berdslib.construction.review import ANSWERS, SheetRow, exact_percent
from berdslib.errors import InputError
from berdslib.stats import percentiles, resampled_sums

_NAN = float("nan")


def reviewer_agreement(
    first: Sequence[SheetRow],
    second: Sequence[SheetRow],
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare two reviewers' answers, column by column, over the items that both answered there.

    Kappa is Cohen's, from scikit-learn; alpha is Krippendorff's, from NLTK. The severity is an order: there both weigh
    a disagreement by its square, so that "none" against "major" counts four times as much as "none" against "minor".

    Args:
        first: a sheet.
        second: another reviewer's, of the same items; other items are left aside.
        level: coverage of the intervals: exact of the percentage (Clopper and Pearson), and of kappa and alpha by
            the bootstrap, which draws items.
        resamples: bootstrap samples. Those in which only one answer occurs have neither kappa nor alpha, and are
            dropped.
        seed: of the draws.

    Returns:
        Frame with columns column, n, percent (items with the same answer), kappa and alpha, each with low and high
        ends, dropped (the share of the bootstrap samples), and remark. NaN for what is undefined: kappa and alpha where
        only one answer occurs; their intervals too of fewer than two items, where more samples are dropped than the
        interval leaves out at its ends, and where it has no width, as that of two who agree on everything.
    """
    pairs = _pairs(first, second)
    rng = np.random.default_rng(seed)
    return pd.DataFrame([_of_column(column, pairs, level, resamples, rng) for column in ANSWERS])


def disagreements(first: Sequence[SheetRow], second: Sequence[SheetRow]) -> pd.DataFrame:
    """Return each answer in which two reviewers differ: qid, data_set, question, column, both answers and notes."""
    rows = [
        (a.qid, a.data_set, a.question, column, getattr(a, column), getattr(b, column), a.note, b.note)
        for a, b in _pairs(first, second)
        for column in ANSWERS
        if "" != getattr(a, column) != getattr(b, column) != ""
    ]
    names = ["qid", "data_set", "question", "column", "first", "second", "first_note", "second_note"]
    return pd.DataFrame(rows, columns=names)


def _pairs(first: Sequence[SheetRow], second: Sequence[SheetRow]) -> list[tuple[SheetRow, SheetRow]]:
    """Return the items that both sheets hold, in the order of the first."""
    other = {row.qid: row for row in second}
    pairs = [(row, other[row.qid]) for row in first if row.qid in other]
    if not pairs:
        raise InputError("the two sheets have no item in common; draw one sheet, and give each reviewer a copy")
    for a, b in pairs:
        if (a.question, a.perspectives) != (b.question, b.perspectives):
            raise InputError(f"item {a.qid!r} has another question or other perspectives in the second sheet")
    return pairs


def _of_column(
    column: str,
    pairs: Sequence[tuple[SheetRow, SheetRow]],
    level: float,
    resamples: int,
    rng: np.random.Generator,
) -> dict[str, object]:
    choices = ANSWERS[column]
    answers = [(getattr(a, column), getattr(b, column)) for a, b in pairs]
    both = np.array([[choices.index(one) for one in pair] for pair in answers if "" not in pair], dtype=np.int64)
    row: dict[str, object] = {"column": column, "n": len(both)}
    names = ("percent", "kappa", "alpha")
    values, low, high = (dict.fromkeys(names, _NAN) for _ in range(3))
    dropped, remark = _NAN, ""
    if not len(both):
        remark = "no item that both answered"
    else:
        same = int((both[:, 0] == both[:, 1]).sum())
        values["percent"] = 100 * same / len(both)
        low["percent"], high["percent"] = exact_percent(same, len(both), level)
        if len(set(both.ravel().tolist())) == 1:
            remark = f"only {choices[both[0, 0]]!r} was answered, so that chance cannot be told from agreement"
        else:
            values["kappa"], values["alpha"] = _kappa(both, choices), _alpha(both, choices)
            drawn = _resampled(both, len(choices), resamples, rng)
            dropped = 1 - len(drawn[0]) / resamples
            ends = [_ends(one, dropped, level) for one in drawn]
            (low["kappa"], high["kappa"]), (low["alpha"], high["alpha"]) = ends
            remark = _why_no_interval(len(both), dropped, level) if np.isnan(ends).any() else ""
    for name in names:
        row |= {name: values[name], f"{name}_low": low[name], f"{name}_high": high[name]}
    return row | {"dropped": dropped, "remark": remark}


def _ends(drawn: np.ndarray, dropped: float, level: float) -> tuple[float, float]:
    """Return the ends of a bootstrap interval; NaN where the samples say nothing of how others would turn out."""
    if dropped > 1 - level or not len(drawn):
        return _NAN, _NAN
    low, high = (float(end) for end in percentiles(drawn, level))
    return (low, high) if low < high else (_NAN, _NAN)


def _why_no_interval(n: int, dropped: float, level: float) -> str:
    if n > 1 and dropped > 1 - level:
        return f"{dropped:.0%} of the bootstrap samples hold one answer only: too many for an interval"
    return "all bootstrap samples give the same: no interval"


def _kappa(both: np.ndarray, choices: Sequence[str]) -> float:
    from sklearn.metrics import cohen_kappa_score

    weights = "quadratic" if len(choices) > 2 else None
    return float(cohen_kappa_score(both[:, 0], both[:, 1], labels=range(len(choices)), weights=weights))


def _alpha(both: np.ndarray, choices: Sequence[str]) -> float:
    from nltk.metrics import binary_distance, interval_distance
    from nltk.metrics.agreement import AnnotationTask

    distance = interval_distance if len(choices) > 2 else binary_distance
    said = [(reviewer, item, int(both[item, reviewer])) for item in range(len(both)) for reviewer in (0, 1)]
    return float(AnnotationTask(said, distance=distance).alpha())


def _resampled(
    both: np.ndarray, choices: int, resamples: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return kappa and alpha of bootstrap samples, each without those that have only one answer.

    Both are 1 - observed / expected disagreement: expected of two reviewers with the answers that each has, or of any
    two of all answers that were given. The libraries count one sample at a time, which would take minutes.
    """
    cells = np.eye(choices**2)[both[:, 0] * choices + both[:, 1]]
    counts = resampled_sums(cells, resamples, rng).reshape(-1, choices, choices)
    distances = np.subtract.outer(np.arange(choices), np.arange(choices)) ** 2.0
    n = len(both)
    observed = (counts * distances).sum(axis=(1, 2)) / n
    one, other = counts.sum(axis=2), counts.sum(axis=1)
    pooled = one + other
    by_reviewer = np.einsum("ri,ij,rj->r", one, distances, other) / n**2
    by_answer = np.einsum("ri,ij,rj->r", pooled, distances, pooled) / (2 * n * (2 * n - 1))
    kappa, alpha = (1 - observed[e > 0] / e[e > 0] for e in (by_reviewer, by_answer))
    return kappa, alpha
