"""Judges beside people's labels: one table for several of them, and all about one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.pairs import LabelledPair
from berdslib.data.records import Passage
from berdslib.data.stance import NEGATED, PROPOSAL, StancePair
from berdslib.errors import InputError
from berdslib.evaluation.judges import (
    agreement_by,
    agreement_report,
    answers_by,
    calibration_table,
    length_bucket,
    negation_report,
    probability_report,
)
from berdslib.judging.base import HOW_SURE, Pair, how_sure
from berdslib.judging.registry import make_judge
from berdslib.judging.store import VerdictStore, judge_pairs

ALL_YES = "yes to everything"
Labelled = LabelledPair | StancePair


def judge_table(pairs: Sequence[Labelled], judges: Sequence[str], store: VerdictStore | None = None) -> pd.DataFrame:
    """Measure judges against labels; intervals draw whole questions. BeRDS Table 4.

    The first rows are those of a judge that says yes to everything: its F1 is what a lazy judge gets for free.

    Args:
        pairs: labelled by people; for measuring only, never for choosing a judge, a prompt or a threshold.
        judges: their names, see :func:`berdslib.judging.registry.make_judge`.
        store: where verdicts are kept.

    Returns:
        Frame with columns judge, threshold, measure, value, low, high; the measures are the fields of
        :class:`berdslib.evaluation.judges.Agreement`, and auc and calibration_error.

    Raises:
        InputError: an unknown judge, or labels all alike.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    chosen = {name: make_judge(name) for name in judges}  # a name that is wrong is found before anything is judged
    reports = [_measured(pairs, np.ones(len(pairs)), 0.5).assign(judge=ALL_YES, threshold=0.5)]
    for name, judge in chosen.items():
        p_yes = judge_pairs(judge, as_asked(pairs), store)[0]
        reports.append(_measured(pairs, p_yes, judge.threshold).assign(judge=name, threshold=judge.threshold))
    columns = ["judge", "threshold", "measure", "value", "low", "high"]
    return pd.concat(reports, ignore_index=True)[columns]


def as_asked(pairs: Sequence[Labelled]) -> list[Pair]:
    """Return labelled pairs as a judge is asked them: without the label."""
    return [Pair(p.question, 0, Passage(str(i), p.document), p.perspective) for i, p in enumerate(pairs)]


# ---------------------------------------------------------------- all about one judge


class JudgeReport(NamedTuple):
    """What labelled pairs say about one judge.

    ``measures`` measure, value, low, high: those of :func:`judge_table`. ``by_length`` its agreement by length of the
    document, ``by_how_sure`` by its answer and by how sure it says it is, ``by_kind`` what it answers to each kind of
    pair. ``calibration`` a reliability table. ``negation`` whether it tells a proposal from its negation; no rows where
    the pairs hold no such two. Each as the function in :mod:`berdslib.evaluation` returns it that it comes from.
    """

    judge: str
    threshold: float
    n: int
    measures: pd.DataFrame
    by_length: pd.DataFrame
    by_how_sure: pd.DataFrame
    by_kind: pd.DataFrame
    calibration: pd.DataFrame
    negation: pd.DataFrame


def judge_report(
    pairs: Sequence[StancePair], judge: str, store: VerdictStore | None = None, *, bins: int = 10
) -> JudgeReport:
    """Return all that labelled pairs say about one judge: F1, AUC, calibration, negation, by length and by kind.

    Args:
        pairs: with both labels among them, see :mod:`berdslib.data.stance`.
        judge: its name.
        store: where verdicts are kept.
        bins: of the calibration.

    Raises:
        InputError: an unknown judge, no pairs, or labels all alike.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    chosen = make_judge(judge)
    p_yes = judge_pairs(chosen, as_asked(pairs), store)[0]
    frame = pd.DataFrame(pairs, columns=list(StancePair._fields)).rename(columns={"question": "qid"})
    frame["label"] = frame["label"].astype(bool)
    frame = frame.assign(
        p_yes=p_yes,
        answer=p_yes >= chosen.threshold,
        length=length_bucket(frame["document"].tolist()),
        how_sure=pd.Categorical(how_sure(p_yes, chosen.threshold), HOW_SURE, ordered=True),
    )
    return JudgeReport(
        judge,
        chosen.threshold,
        len(pairs),
        _measured(pairs, p_yes, chosen.threshold),
        agreement_by(frame, "length"),
        agreement_by(frame.assign(said_yes=frame["answer"]), ["said_yes", "how_sure"]),
        answers_by(frame, "kind"),
        calibration_table(frame["label"].to_numpy(), p_yes, bins),
        _negation(frame, chosen.threshold),
    )


def _measured(pairs: Sequence[Labelled], p_yes: np.ndarray, threshold: float) -> pd.DataFrame:
    if not len(pairs):
        raise InputError("there are no pairs to measure a judge on")
    labels, questions = np.array([p.label for p in pairs]), [p.question for p in pairs]
    answers = agreement_report(labels, p_yes >= threshold, questions)
    return pd.concat([answers, probability_report(labels, p_yes, questions)], ignore_index=True)


def _negation(frame: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """Compare the answers to a proposal and to its negation, for the documents that were asked both."""
    both = frame[frame["kind"].isin([PROPOSAL, NEGATED])].drop_duplicates(["qid", "document", "kind"])
    wide = both.pivot(index=["qid", "document"], columns="kind", values=["label", "p_yes"])
    wide = wide.reindex(columns=pd.MultiIndex.from_product([["label", "p_yes"], [PROPOSAL, NEGATED]])).dropna()
    true, p = wide["label"].to_numpy(dtype=bool), wide["p_yes"].to_numpy(dtype=np.float64)
    one = true[:, 0] != true[:, 1]
    if not one.any():
        return pd.DataFrame(columns=["measure", "value", "low", "high"])
    right, rows = true[one, 1].astype(int), np.arange(int(one.sum()))
    clusters = wide.index.get_level_values("qid")[one].tolist()
    return negation_report(p[one][rows, right], p[one][rows, 1 - right], clusters, threshold=threshold)
