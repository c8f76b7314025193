"""Compare all pairs of systems, or systems with baselines: differences, tests and the number of questions needed.

Scores are those of an experiment: system → frame with one row per question and one column per measure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
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
_DIGITS = 12  # equal scores may differ in their last bits


def all_pairs(
    scores: Scores,
    questions: Sequence[Question],
    measure: Measure | str,
    *,
    baselines: str | Iterable[str] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare all pairs of systems question by question (macro means), or each system with the baselines.

    Returns:
        One row per pair: first, second (a baseline, if given), difference (first - second), low, high, p_value
        (of :func:`berdslib.stats.paired_test`, Holm-corrected over all rows), wins, ties, losses (questions), effect
        (d_z), effect_low and effect_high.
    """
    columns, groups, clusters = score_columns(scores, questions, measure)
    rows = []
    for first, second in _pairs(list(columns), baselines):
        differences = (columns[first] - columns[second]).round(_DIGITS)
        interval = difference_interval(differences, groups, clusters=clusters)
        p = paired_test(columns[first], columns[second], groups, clusters=clusters, seed=seed)
        signs = np.sign(differences)
        counts = [int((signs == sign).sum()) for sign in (1, 0, -1)]
        effect = effect_size(differences, groups, clusters=clusters)
        rows.append((first, second, macro_mean(differences, groups), *interval, p, *counts, *effect))
    pairs = pd.DataFrame(rows, columns=[*_PAIR, *_EFFECT])
    return pairs.assign(p_value=holm(pairs["p_value"].tolist()))


def letters(
    scores: Scores,
    questions: Sequence[Question],
    measure: Measure | str,
    *,
    seed: int = 0,
) -> pd.Series:
    """Return each system's letters, best system first: systems that differ share no letter (Piepho, 2004).

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
    """Return letters such that two names share a letter if and only if they are not different (Piepho, 2004).

    >>> letter_display(["best", "middle", "worst"], [("best", "worst")])
    {'best': 'a', 'middle': 'ab', 'worst': 'b'}
    """
    columns = [frozenset(names)]
    for pair in different:
        kept = []
        split = []
        for column in columns:
            if column.issuperset(pair):
                split += [column - {name} for name in pair]
            else:
                kept.append(column)
        # A column within another column is absorbed; of equal columns the first is kept.
        candidates = list(dict.fromkeys(kept + split))
        columns = [column for column in candidates if not any(column < other for other in candidates)]
    place = {name: i for i, name in enumerate(names)}
    columns.sort(key=lambda column: sorted(place[name] for name in column))
    symbols = [*ascii_lowercase, *map("".join, product(ascii_lowercase, repeat=2))]
    if len(columns) > len(symbols):
        raise InputError(f"{len(columns)} letters would be needed; compare fewer systems", field="systems")
    separator = "" if len(columns) <= len(ascii_lowercase) else ","
    display = {}
    for name in names:
        own = [symbol for symbol, column in zip(symbols, columns, strict=False) if name in column]
        display[name] = separator.join(own)
    return display


def questions_for(
    scores: Scores,
    questions: Sequence[Question],
    measure: Measure | str,
    differences: Sequence[float],
    *,
    baselines: str | Iterable[str] | None = None,
) -> pd.DataFrame:
    """Return how many questions like these detect each true difference with 80 % power at the 5 % level.

    The numbers assume the spread of the paired differences, the number of data sets and the similarity within clusters
    of these questions, and uncorrected p-values. The frame has one row per pair: first, second, spread, and a column
    for each of `differences`; <NA> if the two systems differ on no question.
    """
    columns, groups, clusters = score_columns(scores, questions, measure)
    rows = []
    for first, second in _pairs(list(columns), baselines):
        paired = (columns[first] - columns[second]).round(_DIGITS)
        spread = spread_of(paired, groups, clusters=clusters)
        binary = bool(np.isin([columns[first], columns[second]], (0, 1)).all())
        needed: list[int | None] = [None] * len(differences)
        if spread > 0:
            needed = [questions_needed(difference, spread, binary=binary) for difference in differences]
        rows.append((first, second, spread, *needed))
    frame = pd.DataFrame(rows, columns=["first", "second", "spread", *differences])
    return frame.astype(dict.fromkeys(differences, "Int64"))


def _pairs(systems: list[str], baselines: str | Iterable[str] | None) -> list[tuple[str, str]]:
    """Return the pairs of systems to compare, each pair once."""
    if len(systems) < 2:
        raise InputError(f"a comparison needs at least two systems, not {len(systems)}", field="systems")
    if baselines is None:
        return list(combinations(systems, 2))
    names = [baselines] if isinstance(baselines, str) else list(baselines)
    if not names:
        raise InputError("name at least one baseline, or give None to compare all pairs of systems", field="baselines")
    pairs: list[tuple[str, str]] = []
    for baseline in dict.fromkeys(known("baseline", name, systems) for name in names):
        for system in systems:
            if system != baseline and (baseline, system) not in pairs:
                pairs.append((system, baseline))
    return pairs


def score_columns(
    scores: Scores,
    questions: Sequence[Question],
    measure: Measure | str,
) -> tuple[dict[str, np.ndarray], list[str], list[str] | None]:
    """Return each system's scores by one measure, each question's data set and its cluster.

    The clusters are None if no two questions share a cluster. :func:`berdslib.evaluation.measures.parse_measure` reads
    the measure.
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
    groups = [q.source for q in questions]
    clusters = [q.issue or q.qid for q in questions]
    return columns, groups, clusters if len(set(clusters)) < len(clusters) else None
