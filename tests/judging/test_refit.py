"""Calibration by Venn-Abers beside two isotonic regressions a pair, and the names of refitted judges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from berdslib.errors import InputError
from berdslib.judging.base import short_name
from berdslib.judging.baselines import Overlap
from berdslib.judging.echo import Echo
from berdslib.judging.refit import Calibration, Refit, calibrate_venn_abers

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


def test_an_unread_pair_stays_unread():
    found = calibrate_venn_abers(np.array([0.0, 1.0]), np.array([False, True]), 0.5).p_yes(np.array([np.nan, 2.0]))
    assert np.isnan(found[0]) and found[1] > 0.5


def test_a_refitted_judge_has_the_name_of_its_base_and_an_id_of_its_own():
    first, second = (Refit(Overlap(), Calibration(slope, 0.0, 0.5)) for slope in (1.0, 2.0))
    assert short_name(first.id) == "refit(overlap)" and first.id != second.id
    assert short_name(Echo(first).id) == "echo1:refit(overlap)"
    assert short_name(Refit(first, second.calibration).id) == "refit(refit(overlap))"
