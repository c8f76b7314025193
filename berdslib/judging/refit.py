"""Probabilities and thresholds fitted to labels, and any judge refitted to labels of yours."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from berdslib.data.tables import read_json
from berdslib.errors import InputError, MissingDataError
from berdslib.files import StrPath, write_text
from berdslib.judging.base import Judge, Pair
from berdslib.stats import choose_threshold, yes_or_no

SURE = 1e-4  # probabilities are this far from 0 and 1 before their logits are taken
FILE = "judge.json"


class Calibration(NamedTuple):
    """P(supports) = sigmoid(slope * logit + shift); yes at `threshold` and above."""

    slope: float
    shift: float
    threshold: float

    def p_yes(self, logits: np.ndarray) -> np.ndarray:
        """Return float64 (n,)."""
        from scipy.special import expit

        return np.asarray(expit(self.slope * np.asarray(logits, dtype=np.float64) + self.shift))


def calibrate(logits: np.ndarray, labels: np.ndarray, positive_share: float, strength: float = np.inf) -> Calibration:
    """Fit slope and shift (Platt, 1999) and the threshold with the best F1, with positives weighted to a share.

    A finite `strength` is that of a ridge on the slope: few labels may be separable, and have no finite slope.
    """
    from sklearn.linear_model import LogisticRegression

    labels = yes_or_no(labels)
    if labels.all() or not labels.any():
        raise InputError("calibration needs labels of both kinds")
    weight = np.where(labels, positive_share / labels.mean(), (1 - positive_share) / (1 - labels.mean()))
    features = np.asarray(logits)[:, None]
    fitted = LogisticRegression(C=strength, tol=1e-8).fit(features, labels, sample_weight=weight)
    slope = float(fitted.coef_[0, 0])
    shift = float(fitted.intercept_[0])
    p_yes = Calibration(slope, shift, 0.5).p_yes(logits)
    return Calibration(slope, shift, choose_threshold(labels, p_yes, positive_share))


def logits_of(p_yes: np.ndarray) -> np.ndarray:
    """Return the logits of probabilities, finite also for 0 and 1; NaN stays."""
    from scipy.special import logit

    return np.asarray(logit(np.clip(p_yes, SURE, 1 - SURE)))


class Refit:
    """Another judge, its probabilities and threshold fitted to labels; its answers are stored under that judge.

    `pairs` are keys (:func:`berdslib.judging.store.pair_key`) of the pairs that it was fitted to, `note` says what the
    fit gained.
    """

    def __init__(self, judge: Judge, calibration: Calibration, pairs: Iterable[str] = (), note: str = "") -> None:
        self.judge = judge
        self.calibration = calibration
        self.threshold = calibration.threshold
        self.pairs = frozenset(pairs)
        self.note = note

    @property
    def id(self) -> str:
        """Name the judge, and all that was fitted."""
        fitted = json.dumps(self.calibration)
        return f"refit({hashlib.sha256(fitted.encode()).hexdigest()[:12]},{self.judge.id})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return the fitted probabilities, float64 (n,)."""
        return self.fitted(self.judge.p_yes(pairs))

    def fitted(self, p_yes: np.ndarray) -> np.ndarray:
        """Return the fitted probability for each probability of the judge."""
        return self.calibration.p_yes(logits_of(p_yes))


def save_refit(folder: StrPath, name: str, fitted: Refit) -> None:
    """Write what was fitted to the judge of this name, and the keys of the pairs, which hold no text."""
    written = {"judge": name, "id": fitted.judge.id, "note": fitted.note, **fitted.calibration._asdict()}
    with write_text(Path(folder) / FILE) as file:
        json.dump(written | {"pairs": sorted(fitted.pairs)}, file, indent=1)


def load_refit(folder: StrPath, make_judge: Callable[[str], Judge]) -> Refit:
    """Load a judge that :func:`save_refit` wrote.

    Raises:
        InputError: the judge of that name is another one now, such as one with a newer adapter.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        raise MissingDataError(f"no refitted judge in {folder}; berds rate fit LABELS -j JUDGE -o FOLDER writes one")
    written = read_json(path)
    try:
        judge = make_judge(written["judge"])
        calibration = Calibration(*(float(written[field]) for field in Calibration._fields))
        fitted = Refit(judge, calibration, written["pairs"], written["note"])
    except (KeyError, TypeError, ValueError):
        raise InputError("is not a file of `berds rate fit`; fit the judge again", path=path) from None
    if judge.id != written["id"]:
        raise InputError(f"was fitted to {written['id']}, and the judge is {judge.id} now; fit it again", path=path)
    return fitted
