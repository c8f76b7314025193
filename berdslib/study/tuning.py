"""Choosing honestly: a setting is chosen on development questions, and scored once on others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from berdslib.data.records import Question, check_questions
from berdslib.errors import InputError, known
from berdslib.stats import difference_interval, macro_mean


def dev_test_split(questions: Sequence[Question], seed: int = 0) -> tuple[list[Question], list[Question]]:
    """Split questions in two: one half to choose settings on, the other to score once.

    Where there are questions marked "dev" and "test", the test questions are those that are scored; a source that has
    no such marks, or one kind only, is drawn in half.

    Args:
        questions: at least two of each source.
        seed: of the draw.

    Raises:
        InputError: no questions, or a source with one.
    """
    check_questions(questions)
    rng, chosen = np.random.default_rng(seed), set()
    for source in dict.fromkeys(q.source for q in questions):
        mine = [q for q in questions if q.source == source]
        if len(mine) < 2:
            raise InputError(f"source {source!r} has only one question, which cannot be split")
        if {"dev", "test"} <= {q.split for q in mine}:
            chosen |= {q.qid for q in mine if q.split != "test"}
        else:
            chosen |= {mine[i].qid for i in rng.permutation(len(mine))[: len(mine) // 2]}
    return [q for q in questions if q.qid in chosen], [q for q in questions if q.qid not in chosen]


def gains_and_losses(
    scores: Mapping[str, pd.DataFrame],
    questions: Sequence[Question],
    baseline: str,
    *,
    gain: str = "MRecall@5",
    cost: str = "Precision@5",
) -> pd.DataFrame:
    """Return each system's gain and loss; macro means.

    Args:
        scores: system → frame (qid x measure) of an Experiment.
        questions: the asked questions, in the frames' order.
        baseline: the system that the others are compared with.
        gain: the measure that should rise.
        cost: the measure that should not fall.

    Returns:
        Frame with one row a system: system, the two measures, gain (difference from the baseline), loss (share of the
        baseline's cost measure that is lost; negative if it rose), frontier (no system is better in one and as good in
        the other).

    Raises:
        InputError: an unknown baseline or measure.
    """
    known("baseline", baseline, scores)
    _check_order(scores, questions)
    columns = list(scores[baseline].columns)
    groups = [q.source for q in questions]
    # Sums in another order differ in the last digit, and systems that are equal shall tie.
    both = {
        name: [round(macro_mean(frame[known("measure", m, columns)].to_numpy(), groups), 12) for m in (gain, cost)]
        for name, frame in scores.items()
    }
    base_gain, base_cost = both[baseline]
    rows = [
        (name, g, c, g - base_gain, 1 - c / base_cost if base_cost else 0.0, not _beaten((g, c), both.values()))
        for name, (g, c) in both.items()
    ]
    return pd.DataFrame(rows, columns=["system", gain, cost, "gain", "loss", "frontier"])


def _check_order(scores: Mapping[str, pd.DataFrame], questions: Sequence[Question]) -> None:
    qids = [q.qid for q in questions]
    for name, frame in scores.items():
        if list(frame.index) != qids:
            raise InputError(f"the scores of {name!r} are for other questions, or in another order")


def _beaten(one: tuple[float, float], others: Iterable[Sequence[float]]) -> bool:
    gain, cost = one
    return any(g >= gain and c >= cost and (g > gain or c > cost) for g, c in others)


def choose_system(table: pd.DataFrame, most_loss: float = 0.01) -> str:
    """Return the system with the largest gain among those that lose no more; the smaller loss, then the first, wins.

    Args:
        table: of :func:`gains_and_losses`, on development questions.
        most_loss: share of the baseline's cost measure that may be lost.

    Raises:
        InputError: none loses so little.
    """
    allowed = table[table["loss"] <= most_loss + 1e-12]
    if allowed.empty:
        raise InputError(f"no system loses at most {most_loss:.1%}; the smallest loss is {table['loss'].min():.1%}")
    best = allowed.sort_values(["gain", "loss"], ascending=[False, True], kind="stable").iloc[0]
    return str(best["system"])


def gain_recovered(
    scores: Mapping[str, pd.DataFrame],
    questions: Sequence[Question],
    baseline: str,
    system: str,
    oracle: str,
    *,
    measure: str = "MRecall@5",
) -> dict[str, float]:
    """Return the share of the gain from the baseline to the oracle that a system recovers.

    Args:
        scores: system → frame (qid x measure), the oracle's among them.
        questions: the asked questions, in the frames' order.
        baseline: where the way begins.
        system: how far did it get?
        oracle: where the way ends.
        measure: what is compared.

    Returns:
        baseline, system, oracle (macro means), share (1 is all of the way), gain, gain_low, gain_high (95 % interval of
        the paired difference from the baseline).

    Raises:
        InputError: an unknown system or measure, or scores of other questions.
    """
    _check_order(scores, questions)
    for name in (baseline, system, oracle):
        known("measure", measure, list(scores[known("system", name, scores)].columns))
    groups = [q.source for q in questions]
    base, mine, best = (scores[name][measure].to_numpy() for name in (baseline, system, oracle))
    means = [macro_mean(values, groups) for values in (base, mine, best)]
    way = means[2] - means[0]
    low, high = difference_interval(mine - base, groups)
    return {
        "baseline": means[0],
        "system": means[1],
        "oracle": means[2],
        "share": (means[1] - means[0]) / way if way else float("nan"),
        "gain": means[1] - means[0],
        "gain_low": low,
        "gain_high": high,
    }
