"""What people, the web and failing disks hand to a program; and how a property is tried for seconds or for hours.

``make test`` tries each property a few times, always the same ones. ``make fuzz MINUTES=30`` shares the minutes out and
draws anew in each round; a failure prints the seed that repeats it.
"""

import os
import time
from collections import Counter

import hypothesis
import numpy as np
import pandas as pd
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

MINUTES = float(os.environ.get("BERDS_FUZZ_MINUTES", 0))
SEED = int(os.environ.get("BERDS_FUZZ_SEED", 0))
PROPERTIES = 9  # which share the minutes
REACHED = Counter()  # (surface, how it ended) → cases

PIECES = st.sampled_from([
    "", " ", "\t", "\n", "\r\n", "\0", "\u202e", "\u2028", "\ufeff", "\u200b", "\x1b[31m", "NaN", "null",
    "inf", "-0", "1e999", "007", "1.0", "True", "#0", "q1#0", "q1", "d1", "<|im_end|>", "</document>",
    "<script>hit()</script>", "=cmd()", "%s", "{0}", "{text}", "$x^2", "\\write18{id}", "../x", "/etc/passwd", "CON",
    "é", "e\u0301", "ﬁ", "１", "𝒳", "Tea is.", "Yes", "No", '"', "'", ",", ";", "|", "a" * 300,
])  # fmt: skip
TEXTS = st.lists(PIECES, max_size=4).map("".join)
NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0, 1, -1, 2**63, 5e-324, 1e308, True, False]),
)
OTHERS = st.sampled_from([
    None, b"q1", [], {}, ("q1",), pd.NaT, pd.NA, np.datetime64("2024-01-01"),
])  # fmt: skip
VALUES = st.one_of(TEXTS, NUMBERS, OTHERS)
ODD_IDS = st.lists(  # odd, but usable: text, of its own, not the id of a perspective
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="#"), min_size=1, max_size=6).filter(str.strip),
    min_size=6, max_size=6, unique=True,
)  # fmt: skip


def fuzzed(surface, strategy, examples=12):
    """Make a test of a property of one drawn value; the property returns how the case ended, for the count."""

    def made(prop):
        def counted(case):
            REACHED[surface, prop(case)] += 1

        def test():
            deadline, n = time.monotonic() + 60 * MINUTES / PROPERTIES, SEED
            while True:
                tried = settings(
                    max_examples=max(examples, 100 if MINUTES else 0),
                    deadline=None,
                    database=None,
                    suppress_health_check=[*HealthCheck],
                    phases=[Phase.explicit, Phase.generate, Phase.shrink],
                )(hypothesis.seed(n)(hypothesis.given(strategy)(counted)))
                try:
                    tried()
                except BaseException as error:
                    error.add_note(f"to repeat: BERDS_FUZZ_SEED={n} pytest tests/fuzz -k {surface.replace(' ', '_')}")
                    raise
                n += 1
                if time.monotonic() >= deadline:
                    return

        test.__doc__ = prop.__doc__
        return test

    return made


def same(first, second):
    """Say whether a frame is as it was: type, order, cells, index, columns."""
    try:
        pd.testing.assert_frame_equal(first, second, check_exact=True)
    except AssertionError:
        return False
    return True
