"""Calibration and AUC against sklearn, agreement by hand."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import roc_auc_score

from berdslib.evaluation.judges import (
    agreement,
    auc,
    calibration_error,
    calibration_table,
    probability_report,
)

# ---------------------------------------------------------------- calibration


def skewed(rng, n=300):
    p = rng.beta(0.3, 2, n)
    return rng.random(n) < p**1.5, p


@pytest.mark.parametrize("digits", [15, 1], ids=["no ties", "many ties"])
def test_calibration_table_is_that_of_sklearn(digits):
    rng = np.random.default_rng(0)
    for bins in (1, 5, 10):
        labels, p = skewed(rng)
        p = np.round(p, digits)
        share, mean_p = calibration_curve(labels, p, n_bins=bins, strategy="quantile")
        table = calibration_table(labels, p, bins)
        np.testing.assert_allclose(table["share_yes"], share)
        np.testing.assert_allclose(table["mean_p"], mean_p)
        assert table["n"].sum() == 300 and (table["n"] > 0).all()
        assert table["mean_p"].between(table["low"] - 1e-12, table["high"] + 1e-12).all()


def test_a_judge_of_zeros_and_ones_has_two_bins():
    labels, p = np.array([0, 0, 0, 1, 1, 0], bool), np.array([0.0, 0, 0, 0, 1, 1])
    table = calibration_table(labels, p)
    assert table[["n", "mean_p", "share_yes"]].values.tolist() == [[4, 0, 0.25], [2, 1, 0.5]]
    # 4 pairs miss by 1/4 and 2 by 1/2
    assert calibration_error(labels, p) == pytest.approx((4 * 0.25 + 2 * 0.5) / 6)


def test_where_all_is_one_answer_there_is_no_kappa():
    """Whether it is luck cannot be told; 0 would say that it is."""
    found = agreement(np.ones(4), np.ones(4))
    assert np.isnan(found.kappa) and found.accuracy == found.f1 == 1
    assert agreement(np.ones(4), np.zeros(4)).kappa == 0


# ---------------------------------------------------------------- AUC


def drawn_pairs(rng, n=120, digits=15):
    p = np.round(rng.random(n), digits)
    return rng.random(n) < p**2, p


@pytest.mark.parametrize("digits", [15, 1], ids=["no ties", "many ties"])
def test_auc_is_that_of_sklearn(digits):
    rng = np.random.default_rng(0)
    for _ in range(20):
        labels, p = drawn_pairs(rng, digits=digits)
        assert auc(labels, p) == pytest.approx(roc_auc_score(labels, p))


def test_intervals_are_those_of_a_plain_loop_over_drawn_questions():
    rng = np.random.default_rng(1)
    labels, p = drawn_pairs(rng, 90)
    clusters = np.array([f"q{i % 9}" for i in range(90)])
    report = probability_report(labels, p, clusters.tolist(), resamples=150, seed=5).set_index("measure")
    assert report.loc["auc", "value"] == pytest.approx(roc_auc_score(labels, p))
    assert report.loc["calibration_error", "value"] == pytest.approx(calibration_error(labels, p))
    # The same draws, pair by pair.
    counts = np.random.default_rng(5).multinomial(9, np.full(9, 1 / 9), 150)
    names = np.unique(clusters)
    bins = np.searchsorted(np.quantile(p, np.linspace(0, 1, 11))[1:-1], p)
    aucs, errors = [], []
    for count in counts:
        rows = np.concatenate(
            [np.flatnonzero(clusters == q) for q, c in zip(names, count, strict=True) for _ in range(c)]
        )
        aucs.append(roc_auc_score(labels[rows], p[rows]))
        parts = [rows[bins[rows] == b] for b in np.unique(bins[rows])]
        errors.append(sum(len(i) * abs(p[i].mean() - labels[i].mean()) for i in parts) / len(rows))
    for name, drawn in (("auc", aucs), ("calibration_error", errors)):
        want = np.quantile(drawn, [0.025, 0.975])
        np.testing.assert_allclose(report.loc[name, ["low", "high"]].to_numpy(dtype=float), want)
