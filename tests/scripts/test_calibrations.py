"""Calibration by Venn-Abers beside two isotonic regressions a pair."""

import numpy as np
import pytest
from calibrations import calibrate_venn_abers
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from berdslib.errors import InputError

SCORES = st.integers(-4, 4).map(float)


def by_two_fits(logits, labels, share, asked):
    """Return P with a whole isotonic regression for each pair and label, as the definition says."""
    weights = np.where(labels, share / labels.mean(), (1 - share) / (1 - labels.mean()))
    found = []
    for one in asked:
        p = []
        for label in (False, True):
            weight = weights[labels == label][0]
            fit = IsotonicRegression().fit([*logits, one], [*labels, label], sample_weight=[*weights, weight])
            p.append(fit.predict([one])[0])
        found.append(p[1] / (1 - p[0] + p[1]))
    return found


@given(st.lists(st.tuples(SCORES, st.booleans()), min_size=2, max_size=12), st.sampled_from([None, 0.2, 0.5]))
def test_venn_abers_is_two_isotonic_regressions_a_pair(fitted, share):
    logits, labels = (np.array(column) for column in zip(*fitted, strict=True))
    if labels.all() or not labels.any():
        with pytest.raises(InputError):
            calibrate_venn_abers(logits, labels, 0.5)
        return
    share = share or labels.mean()
    asked = np.arange(-5, 5.5, 0.5)
    found = calibrate_venn_abers(logits, labels, share).p_yes(asked)
    np.testing.assert_allclose(found, by_two_fits(logits, labels, share, asked), atol=1e-9)
    assert (np.diff(found) >= -1e-9).all() and (found > 0).all() and (found < 1).all()
