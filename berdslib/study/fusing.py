"""How the lists of a question's expansions are made one: the same searches, fused in many ways and scored alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.collection import Collection, Expansions
from berdslib.data.records import Question, check_k, check_questions, ranked_run
from berdslib.errors import InputError
from berdslib.evaluation.measures import Measure, evaluate, parse_measures
from berdslib.retrieval.base import Retriever
from berdslib.retrieval.expansion import expanded_lists
from berdslib.retrieval.fusion import CONSTANT, reciprocal_rank_fusion, round_robin
from berdslib.stats import difference_interval, macro_mean, mean_interval
from berdslib.study.arguments import AnyJudge, Store, judge_of, store_of
from berdslib.study.experiment import judged

CONSTANTS = (0, 1, 2, 5, 10, 20, 60, 100, 1000)
NUMBERS = (0, 1, 2, 3, 4, 5, 6)


class Fusion(NamedTuple):
    """One way to make a question's lists one: the first so many expansions, with or without the question's own list."""

    number: int
    original: bool
    constant: float | None  # of reciprocal rank fusion; None: the lists take turns

    @property
    def rule(self) -> str:
        """How the lists are fused: "round robin", or "rrf" and its constant."""
        return "round robin" if self.constant is None else f"rrf:{self.constant:g}"


def fusion_runs(
    retriever: Retriever,
    questions: Sequence[Question],
    expansions: Expansions,
    *,
    numbers: Sequence[int] = NUMBERS,
    constants: Sequence[float] = CONSTANTS,
    depth: int = 100,
) -> dict[Fusion, pd.DataFrame]:
    """Search each question and its expansions once, in one call, and fuse what is found in every way.

    Args:
        retriever: searches; the queries are the question, and the question with each statement behind it.
        questions: the asked questions.
        expansions: qid → [(name, statement), …], in the order in which they were generated.
        numbers: use the first so many expansions, or all of a question that has fewer; 0: the question's list alone.
        constants: of reciprocal rank fusion, each at least 0; round robin is always there.
        depth: passages of each list.

    Returns:
        Fusion → run of all passages found.

    Raises:
        InputError: a question without expansions, a number below 0, no numbers, or depth is no whole number from 1.
    """
    check_k(depth, "depth")
    check_questions(questions)
    if not numbers or min(numbers) < 0:
        raise InputError(f"numbers of expansions from 0 are needed, not {list(numbers)}", field="numbers")
    if without := [q.qid for q in questions if not expansions.get(q.qid)]:
        raise InputError(f"{len(without)} questions have no expansions, the first is {without[0]!r}", field="qid")
    lists = expanded_lists(retriever, questions, expansions, depth, number=max(numbers) or 1, original=True)
    runs = [ranked_run(one) for one in lists]
    found = {}
    for number in numbers:
        for original in (True, False) if number else (True,):
            chosen = runs[0 if original else 1 : 1 + number]
            found[Fusion(number, original, None)] = round_robin(chosen)
            for constant in constants:
                fused = reciprocal_rank_fusion(chosen, constant=constant)
                found[Fusion(number, original, constant)] = fused
    return found


def fusion_sweep(
    retriever: Retriever,
    data: Collection,
    measures: Measure | str | Iterable[Measure | str] = ("MRecall@5", "Precision@5"),
    *,
    judge: AnyJudge = None,
    expansions: Expansions | None = None,
    numbers: Sequence[int] = NUMBERS,
    constants: Sequence[float] = CONSTANTS,
    depth: int = 100,
    store: Store = None,
) -> pd.DataFrame:
    """Score every way to fuse the lists of a question's expansions; each is searched, and each passage judged, once.

    Args:
        retriever: searches.
        data: questions, passages and recorded expansions.
        measures: what is scored; the largest cut-off says how deep to judge.
        judge: as for :func:`berdslib.study.experiment.experiment`; None for recorded verdicts.
        expansions: others than the recorded ones.
        numbers: as for :func:`fusion_runs`, like the next two.
        constants: see there; 60 is added, which the others are compared with.
        depth: passages of each list.
        store: where verdicts are kept; None for the user's cache.

    Returns:
        One row a fusion and measure: number, original (with the question's own list?), fusion, measure, n, mean, low,
        high (macro over data sets, 95 % interval), and difference, difference_low, difference_high: the paired
        difference from reciprocal rank fusion of the same lists with the constant 60, whose own limits are NaN.

    Raises:
        InputError: as :func:`fusion_runs`, and neither a judge nor recorded verdicts.
    """
    wanted, questions = parse_measures(measures), data.questions
    every = sorted({*constants, CONSTANT})
    made = data.expansions if expansions is None else expansions
    runs = fusion_runs(retriever, questions, made, numbers=numbers, constants=every, depth=depth)
    most = max(m["cutoff"] for m in wanted)
    verdicts = judged(runs.values(), data, judge_of(judge, data), most, store_of(store))
    scores = {fusion: evaluate(run, verdicts, questions, wanted) for fusion, run in runs.items()}
    groups = [q.source for q in questions]
    rows = []
    for fusion, frame in scores.items():
        usual = scores[fusion._replace(constant=CONSTANT)]
        for measure in frame.columns:
            values, others = frame[measure].to_numpy(), usual[measure].to_numpy()
            low, high = mean_interval(values, groups)
            itself = fusion.constant == CONSTANT  # nothing is compared
            worse, better = (np.nan, np.nan) if itself else difference_interval(values - others, groups)
            mean = macro_mean(values, groups)
            about = (fusion.number, fusion.original, fusion.rule, str(measure), len(questions), mean, low, high)
            rows.append((*about, mean - macro_mean(others, groups), worse, better))
    names = ["number", "original", "fusion", "measure", "n", "mean", "low", "high"]
    return pd.DataFrame(rows, columns=[*names, "difference", "difference_low", "difference_high"])
