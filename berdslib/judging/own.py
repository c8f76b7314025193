"""A judge of one's own: a plain function from pairs to probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

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
        self.id = str(name or getattr(function, "__name__", type(function).__name__))

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return what the function says of each pair, float64 (n,)."""
        return np.asarray(self._function(pairs), dtype=np.float64)
