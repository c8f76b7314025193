"""Every system against every other, or against several baselines: who differs, by how much, and what it would take.

Scores are those of an experiment: system → frame of one row a question, one column a measure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from string import ascii_lowercase

import numpy as np
import pandas as pd

from berdslib.data.records import Question
from berdslib.errors import InputError, known
from berdslib.evaluation.measures import Measure, parse_measure
from berdslib.stats import (
    difference_interval,
    effect_size,
    holm,
    macro_mean,
    paired_test,
    questions_needed,
    spread_of,
)

_PAIR = ["first", "second", "difference", "low", "high", "p_value", "wins", "ties", "losses"]
_EFFECT = ["effect", "effect_low", "effect_high"]
Scores = Mapping[str, pd.DataFrame]
_DIGITS = 12  # scores that are equal may differ in their last bits


def all_pairs(
    scores: Scores,
    questions: Sequence[Question],
    measure: Measure | str,
    *,
    baselines: str | Iterable[str] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare every two systems question by question (macro means), or each system with the baselines.

    Returns:
        A row a pair: first, second (a baseline, where there are some), difference (first - second), low, high, p_value
        (of :func:`berdslib.stats.paired_test`, Holm-corrected over all rows), wins, ties, losses (questions), effect
        (d_z), effect_low and effect_high.
    """
    columns, groups, clusters = score_columns(scores, questions, measure)
    rows = []
    for first, second in _pairs(list(columns), baselines):
        d = (columns[first] - columns[second]).round(_DIGITS)
        rows.append(
            (
                *(first, second, macro_mean(d, groups)),
                *difference_interval(d, groups, clusters=clusters),
                paired_test(columns[first], columns[second], groups, clusters=clusters, seed=seed),
                *(int((np.sign(d) == sign).sum()) for sign in (1, 0, -1)),
                *effect_size(d, groups, clusters=clusters),
            )
        )
    pairs = pd.DataFrame(rows, columns=[*_PAIR, *_EFFECT])
    return pairs.assign(p_value=holm(pairs["p_value"].tolist()))


def letters(scores: Scores, questions: Sequence[Question], measure: Measure | str, *, seed: int = 0) -> pd.Series:
    """Return letters for each system, the best first: two share one if and only if they do not differ (Piepho, 2004).

    Two systems differ if their p-value, Holm-corrected over all pairs, is below 0.05.
    """
    columns, groups, _ = score_columns(scores, questions, measure)
    pairs = all_pairs(scores, questions, measure, seed=seed)
    differ = pairs[pairs["p_value"] < 0.05]
    means = {system: macro_mean(values, groups) for system, values in columns.items()}
    order = sorted(means, key=lambda system: -means[system])
    named = letter_display(order, zip(differ["first"], differ["second"], strict=True))
    return pd.Series(named, name="letters").rename_axis("system")


def letter_display(names: Sequence[str], different: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return letters such that two names share one if and only if they are not different (Piepho, 2004).

    >>> letter_display(["best", "middle", "worst"], [("best", "worst")])
    {'best': 'a', 'middle': 'ab', 'worst': 'b'}
    """
    columns = [frozenset(names)]
    for pair in different:
        split = [column - {one} for column in columns if column.issuperset(pair) for one in pair]
        kept = [column for column in columns if not column.issuperset(pair)]
        # Absorbed is what lies within another column; of equal ones the first stays.
        candidates = list(dict.fromkeys(kept + split))
        columns = [one for one in candidates if not any(one < other for other in candidates)]
    place = {name: i for i, name in enumerate(names)}
    columns.sort(key=lambda column: sorted(place[name] for name in column))
    symbols = [*ascii_lowercase, *(a + b for a in ascii_lowercase for b in ascii_lowercase)]
    if len(columns) > len(symbols):
        raise InputError(f"{len(columns)} letters would be needed; compare fewer systems", field="systems")
    between = "" if len(columns) <= len(ascii_lowercase) else ","
    return {name: between.join(s for s, c in zip(symbols, columns, strict=False) if name in c) for name in names}


def questions_for(
    scores: Scores,
    questions: Sequence[Question],
    measure: Measure | str,
    differences: Sequence[float],
    *,
    baselines: str | Iterable[str] | None = None,
) -> pd.DataFrame:
    """Return how many questions like these show each true difference with 80 % power at 5 %.

    From how the paired differences scatter here, for as many data sets and questions as much alike, and p-values that
    are not corrected. The frame has a row a pair: first, second, spread, and a column for each of `differences`; <NA>
    where the two do not differ on any question.
    """
    columns, groups, clusters = score_columns(scores, questions, measure)
    rows = []
    for first, second in _pairs(list(columns), baselines):
        spread = spread_of((columns[first] - columns[second]).round(_DIGITS), groups, clusters=clusters)
        binary = bool(np.isin([columns[first], columns[second]], (0, 1)).all())
        needed = [questions_needed(x, spread, binary=binary) if spread > 0 else None for x in differences]
        rows.append((first, second, spread, *needed))
    frame = pd.DataFrame(rows, columns=["first", "second", "spread", *differences])
    return frame.astype(dict.fromkeys(differences, "Int64"))


def _pairs(systems: list[str], baselines: str | Iterable[str] | None) -> list[tuple[str, str]]:
    """Return which systems are compared, each pair once."""
    if len(systems) < 2:
        raise InputError(f"there must be two systems to compare, not {len(systems)}", field="systems")
    if baselines is None:
        return list(combinations(systems, 2))
    fixed = [known("baseline", name, systems) for name in ([baselines] if isinstance(baselines, str) else baselines)]
    if not fixed:
        raise InputError("there must be a baseline, or None to compare all", field="baselines")
    chosen = [(one, base) for base in dict.fromkeys(fixed) for one in systems if one != base]
    return [pair for i, pair in enumerate(chosen) if pair[::-1] not in chosen[:i]]


def score_columns(
    scores: Scores, questions: Sequence[Question], measure: Measure | str
) -> tuple[dict[str, np.ndarray], list[str], list[str] | None]:
    """Return each system's scores by one measure, each question's data set, and what is drawn with what.

    A measure may be spelt as :func:`berdslib.evaluation.measures.parse_measure` reads it.
    """
    qids = [q.qid for q in questions]
    name = str(measure)
    for system, frame in scores.items():
        if name not in frame.columns:
            name = str(parse_measure(name))
        known("measure", name, list(frame.columns))
        if list(frame.index) != qids:
            raise InputError(f"the scores of {system!r} are for other questions, or in another order")
    columns = {system: frame[name].to_numpy(dtype=np.float64) for system, frame in scores.items()}
    groups, about = [q.source for q in questions], [q.root or q.qid for q in questions]
    return columns, groups, about if len(set(about)) < len(about) else None
