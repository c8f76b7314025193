"""Several judges as one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from berdslib.errors import InputError
from berdslib.judging.base import Judge, Pair, threshold_at_half
from berdslib.judging.baselines import Gold


class Committee:
    """The mean of several judges' probabilities, each stretched so that its own threshold becomes one half.

    This keeps every member's own yes and no; it does not calibrate them.
    """

    threshold = 0.5

    def __init__(self, judges: Sequence[Judge]) -> None:
        ids = [judge.id for judge in judges]
        if len(ids) < 2 or len(set(ids)) < len(ids):
            raise InputError(f"a committee needs two or more different judges, not {ids}")
        if any(isinstance(judge, Gold) for judge in judges):
            raise InputError("recorded verdicts cannot be a member of a committee: they belong to ids, not to texts")
        self.judges = list(judges)

    @property
    def id(self) -> str:
        """Names the members and their thresholds, which may be set after they were made; not their order."""
        members = sorted(f"{judge.id}@{judge.threshold}" for judge in self.judges)
        digest = hashlib.sha256("\n".join(members).encode()).hexdigest()[:12]
        return f"committee({len(members)} judges:{digest})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return the members' mean, float64 (n,)."""
        return self.mean([judge.p_yes(pairs) for judge in self.judges])

    def mean(self, p_yes: Sequence[np.ndarray]) -> np.ndarray:
        """Return the mean of what the members answered, each (n,), with their thresholds at one half: float64 (n,)."""
        shifted = [threshold_at_half(p, judge.threshold) for p, judge in zip(p_yes, self.judges, strict=True)]
        return np.asarray(np.mean(shifted, axis=0))
