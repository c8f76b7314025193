"""How much of a perspective to project out, chosen on labelled roots of the same task: without labels no rule is known.

Each strength is a system, such as "minilm+pap:0.5", scored on the roots of :func:`dev_mask` (docs/projection_rule.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from berdslib.errors import InputError

# 0 is the query as it is, 1 is PAP; below 0 the perspective is made louder than the query has it.
STRENGTHS = (-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0)

Key = TypeVar("Key")


def dev_mask(roots: Sequence[str], seed: int = 0) -> np.ndarray:
    """Return a mask (n,) of what to choose on: half of the different roots, drawn at random whatever their order."""
    names = np.unique(np.asarray(roots))
    drawn = np.random.default_rng(seed).permutation(names)[: (len(names) + 1) // 2]
    return np.isin(roots, drawn)


def choose_option(options: Mapping[Key, np.ndarray], default: Key) -> Key:
    """Return the option with the best mean over development roots; the default unless it is beaten by a standard error.

    `options` hold for each (n,) scores, roots in one order; the best of many options is partly the luckiest.

    >>> choose_option({0.0: np.array([0.2, 0.4, 0.3]), 1.0: np.array([0.6, 0.7, 0.8])}, default=0.0)
    1.0
    """
    if default not in options:
        raise InputError(f"the default {default!r} is not among the options")
    base = np.asarray(options[default], dtype=np.float64)
    if len(base) < 2 or any(len(values) != len(base) for values in options.values()):
        raise InputError("every option needs one score for each of two roots or more")
    gains = {key: np.asarray(values, dtype=np.float64) - base for key, values in options.items()}
    # Where a single root gains, the gain is one standard error exactly; rounding must not decide.
    errors = {key: gain.std(ddof=1) / np.sqrt(len(gain)) for key, gain in gains.items()}
    sure = [key for key, gain in gains.items() if gain.mean() > errors[key] * (1 + 1e-9)]
    return max(sure, key=lambda key: gains[key].mean(), default=default)
