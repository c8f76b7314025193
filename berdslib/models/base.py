"""What every encoder promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Encoder(Protocol):
    """Turns texts into vectors, float32 (n, d); a dot product of two is their similarity."""

    id: str

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Encode questions."""
        ...

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """Encode passages."""
        ...
