"""Judges beside people's labels: one table for several of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from berdslib.data.pairs import LabelledPair
from berdslib.data.records import Passage
from berdslib.evaluation.agreement import agreement_report
from berdslib.judging.base import Pair
from berdslib.judging.registry import make_judge
from berdslib.judging.store import VerdictStore, judge_pairs


def judge_table(
    pairs: Sequence[LabelledPair], judges: Sequence[str], store: VerdictStore | None = None
) -> pd.DataFrame:
    """Measure judges against labels; intervals draw whole questions. BeRDS Table 4.

    Args:
        pairs: labelled by people; for measuring only, never for choosing a judge, a prompt or a threshold.
        judges: their names, see :func:`berdslib.judging.registry.make_judge`.
        store: where verdicts are kept.

    Returns:
        Frame with columns judge, threshold, measure, value, low, high.

    Raises:
        InputError: an unknown judge.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    labels, questions = np.array([p.label for p in pairs]), [p.question for p in pairs]
    asked = [Pair(p.question, 0, Passage(str(i), p.document), p.perspective) for i, p in enumerate(pairs)]
    reports = []
    for name in judges:
        judge = make_judge(name)
        p_yes, _ = judge_pairs(judge, asked, store)
        report = agreement_report(labels, p_yes >= judge.threshold, questions)
        reports.append(report.assign(judge=name, threshold=judge.threshold))
    columns = ["judge", "threshold", "measure", "value", "low", "high"]
    return pd.concat(reports, ignore_index=True)[columns]
