"""Development and test questions, with nothing on one side that gives away the other."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pandas as pd

from berdslib.data.leaks import groups
from berdslib.data.records import Question
from berdslib.errors import InputError

logger = logging.getLogger(__name__)


def split_questions(
    questions: Sequence[Question],
    gold: pd.DataFrame | None = None,
    *,
    dev: float = 0.25,
    threshold: float = 0.8,
    seed: int = 0,
) -> list[Question]:
    """Return the questions with their split, "dev" or "test"; those that leak into one another share one.

    BeRDS splits 25 to 75 (Table 1: 250 and 750, 294 and 882, 258 and 774). The number of dev questions is rounded down,
    and met exactly unless groups of leaking questions are too large for that.

    Args:
        questions: at least one.
        gold: verdicts, so that questions with nearly the same gold passages stay together too.
        dev: share of development questions, above 0 and below 1.
        threshold: of the overlap from which two questions leak, see :func:`berdslib.data.leaks.leaks`.
        seed: another seed, another split.

    Raises:
        InputError: no questions, or a share that is none.
    """
    if not 0 < dev < 1:
        raise InputError(f"the share of dev questions must lie between 0 and 1, not {dev}", field="dev")
    together = groups(questions, gold, threshold=threshold)
    wanted = int(dev * len(questions))
    chosen: set[str] = set()
    for i in np.random.default_rng(seed).permutation(len(together)):
        if len(chosen) + len(together[i]) <= wanted:
            chosen.update(together[i])
    if not wanted:
        logger.warning("%d questions are too few for a share of %g in dev: all are in test", len(questions), dev)
    elif not chosen:
        logger.warning("all questions are in test: those that overlap stay together, and no group is as small as %d",
                       wanted)  # fmt: skip
    return [q._replace(split="dev" if q.qid in chosen else "test") for q in questions]
