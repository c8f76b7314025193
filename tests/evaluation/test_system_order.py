"""Orders of systems against scipy and sklearn; labelling trials against judges whose errors are known."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import kendalltau
from sklearn.metrics import cohen_kappa_score

from berdslib.evaluation.system_order import (
    CORRECTED,
    JUDGE_ALONE,
    LABELS_ALONE,
    _tau_b,
    labelling_trials,
    ordered_alike,
    question_agreement,
    system_pairs,
    system_tau,
)
from berdslib.stats import paired_test


def frame(values):
    values = np.asarray(values, dtype=float)
    return pd.DataFrame(
        values, index=[f"q{i}" for i in range(len(values))], columns=[f"s{j}" for j in range(len(values[0]))]
    )


def own(table):
    return [f"{i:03}" for i in range(len(table))]


def pairwise(table):
    """The clusters of doubled questions, in the order of :func:`own`."""
    return [f"{i // 2:03}" for i in range(2 * len(table))]


@given(arrays(np.int8, (2, 9), elements=st.integers(0, 4)))
def test_tau_b_is_that_of_scipy(values):
    one, other = values.astype(float)
    want = kendalltau(one, other).statistic
    np.testing.assert_allclose(_tau_b(one[None], other[None]), [want], atol=1e-12)


def test_the_interval_is_that_of_a_plain_loop_over_drawn_clusters():
    rng = np.random.default_rng(0)
    gold, judged = frame(rng.integers(0, 2, (20, 6))), frame(rng.integers(0, 2, (20, 6)))
    clusters = [f"c{i // 2:02}" for i in range(20)]
    found = system_tau(gold, judged, clusters, resamples=300, seed=3)
    counts = np.random.default_rng(3).multinomial(10, np.full(10, 0.1), 300)
    taus = []
    for count in counts:
        rows = [row for c, n in enumerate(count) for _ in range(n) for row in (2 * c, 2 * c + 1)]
        means = (t.to_numpy()[rows].mean(axis=0).round(12) for t in (gold, judged))
        taus.append(kendalltau(*means).statistic)
    np.testing.assert_allclose(found[1:], np.nanquantile(taus, [0.025, 0.975]))


def test_systems_that_are_equal_are_tied_in_every_draw():
    # 0.1 + 0.2 is 0.3, and more than that in its last bit. The judge has them in order, so that of three pairs two are
    # alike and one is tied by gold, whatever is drawn.
    gold = frame([[0.1, 0.3, 0], [0.2, 0, 0]] * 6)
    judged = frame([[0.5, 0.7, 0.1]] * 12)
    found = system_tau(gold, judged, pairwise(gold[::2]), resamples=200)
    assert found == pytest.approx((2 / 6**0.5,) * 3)
    trials = labelling_trials(gold, judged, pairwise(gold[::2]), 4, draws=20)
    assert of_all(trials, LABELS_ALONE)["tau"] == pytest.approx(1)


def test_pairs_that_differ_by_gold_and_how_a_judge_orders_them():
    rng = np.random.default_rng(1)
    good, bad = rng.random(60) < 0.9, rng.random(60) < 0.3
    gold = frame(np.column_stack([good, bad, np.roll(bad, 1)]))
    pairs = system_pairs(gold, own(gold))
    assert pairs[["first", "second"]].values.tolist() == [["s0", "s1"], ["s0", "s2"], ["s1", "s2"]]
    want = [paired_test(gold[a], gold[b]) for a, b in pairs[["first", "second"]].values]
    assert pairs["p_value"].tolist() == want and want[1] < 0.01 and want[2] > 0.5
    assert ordered_alike(pairs, gold) == {"pairs": 2, "alike": 1, "reversed": 0, "tied": 0}
    assert ordered_alike(pairs, 1 - gold) == {"pairs": 2, "alike": 0, "reversed": 1, "tied": 0}
    half = gold.assign(s0=gold["s1"], s2=1.0)
    assert ordered_alike(pairs, half) == {"pairs": 2, "alike": 0, "reversed": 0.5, "tied": 0.5}
    none = ordered_alike(pairs.assign(p_value=1.0), gold)
    assert none["pairs"] == 0 and np.isnan(none["alike"])


@given(arrays(np.int8, (2, 7, 3), elements=st.integers(0, 2)))
def test_kappa_of_single_questions_is_that_of_sklearn(values):
    gold, judged = map(frame, values / 2)
    found = question_agreement(gold, judged, own(gold), resamples=20)
    one, other = values.reshape(2, -1)
    assert found["same"].value == pytest.approx((one == other).mean())
    if len(set(one) | set(other)) > 1:
        assert found["kappa"].value == pytest.approx(cohen_kappa_score(one, other))
    else:
        assert np.isnan(found["kappa"].value)


# ---------------------------------------------------------------- labels


def world(rng, bias, n=120, systems=4):
    """Scores by gold, and by a judge that adds something to all of them."""
    gold = rng.random((n, systems)) * np.linspace(0.5, 1, systems)
    return frame(gold), frame(gold + bias + 0.05 * rng.standard_normal(gold.shape))


def of_all(table, estimate):
    return table[(table["system"] == "all") & (table["estimate"] == estimate)].iloc[0]


def test_labels_take_a_constant_bias_away_and_keep_the_judges_precision():
    gold, judged = world(np.random.default_rng(0), bias=0.3)
    table = labelling_trials(gold, judged, own(gold), 20, draws=150)
    alone, labels, both = (of_all(table, name) for name in (JUDGE_ALONE, LABELS_ALONE, CORRECTED))
    assert alone["bias"] == pytest.approx(0.3, abs=0.02) and alone["coverage"] < 0.05
    assert labels["bias"] < 0.02 and both["bias"] < 0.02
    assert both["width"] < 0.7 * labels["width"] and both["coverage"] > 0.9 and both["tau"] > labels["tau"]
    assert (labels["weight"], alone["weight"]) == (0, 1) and both["weight"] > 0.9


def test_rows_by_hand_where_every_question_is_alike():
    gold, judged = frame(np.tile([[1.0, 0.5]], (6, 1))), frame(np.tile([[0.5, 0.25]], (6, 1)))
    table = labelling_trials(gold, judged, own(gold), 3, draws=5).set_index(["estimate", "system"])
    assert table.loc[(JUDGE_ALONE, "s0"), ["bias", "error", "width", "coverage"]].tolist() == [-0.5, 0.5, 0, 0]
    assert table.loc[(JUDGE_ALONE, "all"), ["bias", "tau"]].tolist() == [0.375, 1]
    assert table.loc[(CORRECTED, "s1"), ["bias", "error", "width", "coverage"]].tolist() == [0, 0, 0, 1]
    assert set(table["labelled"]) == {3} and len(table) == 9
