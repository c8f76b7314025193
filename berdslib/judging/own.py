"""A judge of one's own: a plain function from pairs to probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from reprlib import repr as shortened

import numpy as np

from berdslib.errors import InputError
from berdslib.judging.base import Pair


class FunctionJudge:
    """A function as a judge. Its answers are never stored: nothing tells one version of a function from the next.

    Args:
        function: from pairs to as many numbers from 0 to 1.
        name: what it is called in verdicts; None for the function's own name.
        threshold: yes from this probability on.
    """

    def __init__(
        self, function: Callable[[Sequence[Pair]], Sequence[float]], name: str | None = None, threshold: float = 0.5
    ) -> None:
        self._function, self.threshold = function, threshold
        self.id = name or str(getattr(function, "__name__", type(function).__name__))

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return what the function says of each pair, float64 (n,).

        Raises:
            InputError: it said something that is no numbers.
        """
        answers = self._function(pairs)
        try:
            return np.asarray(answers, dtype=np.float64)
        except (TypeError, ValueError):
            wanted = f"{len(pairs)} probabilities from 0 to 1"
            raise InputError(f"judge {self.id!r} must return {wanted}, not {shortened(answers)}") from None
