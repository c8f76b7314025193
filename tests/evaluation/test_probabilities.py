"""AUC against sklearn, its interval and that of the calibration error against a plain loop over resamples."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from berdslib.errors import InputError
from berdslib.evaluation.judges import (
    answers_by,
    auc,
    calibration_error,
    probability_report,
)


def drawn_pairs(rng, n=120, digits=15):
    p = np.round(rng.random(n), digits)
    return rng.random(n) < p**2, p


@pytest.mark.parametrize("digits", [15, 1], ids=["no ties", "many ties"])
def test_auc_is_that_of_sklearn(digits):
    rng = np.random.default_rng(0)
    for _ in range(20):
        labels, p = drawn_pairs(rng, digits=digits)
        assert auc(labels, p) == pytest.approx(roc_auc_score(labels, p))


def test_a_sample_without_a_yes_has_no_auc():
    """Drawn without the only yes, nothing is above or below: what is left are the samples with an AUC of 1."""
    report = probability_report([True, False, False], [0.9, 0.1, 0.2], ["a", "b", "c"], resamples=500)
    assert report.loc[0, ["value", "low", "high"]].tolist() == [1, 1, 1]


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


def test_one_question_does_not_say_how_others_turn_out():
    report = probability_report(np.array([True, False]), np.array([0.9, 0.2]), ["q", "q"], resamples=50)
    assert report["value"].tolist() == pytest.approx([1, 0.15]) and report[["low", "high"]].isna().all(axis=None)


def test_what_a_judge_answers_to_each_kind():
    pairs = pd.DataFrame({
        "qid": ["1", "1", "2", "2"], "label": [True, True, False, False], "p_yes": [0.9, 0.3, 0.2, 0.4],
        "answer": [True, False, False, False], "kind": ["agree", "agree", "discuss", "discuss"],
    })  # fmt: skip
    found = answers_by(pairs, "kind").set_index("kind")
    assert found.loc["agree", ["n", "questions", "labelled_yes", "mean_p", "said_yes"]].tolist() == [2, 1, 1, 0.6, 0.5]
    assert found.loc["discuss", ["mean_p", "said_yes"]].tolist() == pytest.approx([0.3, 0])
    assert list(found.index) == ["agree", "discuss"]
    ends = ["mean_p_low", "mean_p_high", "said_yes_low", "said_yes_high"]
    assert found[ends].isna().all(axis=None)  # each kind has one question only
    with pytest.raises(InputError, match="missing: length"):
        answers_by(pairs, "length")
    with pytest.raises(InputError, match="missing: pairs"):
        answers_by(pairs[:0], "kind")


def test_the_intervals_of_a_kind_draw_questions():
    # All is yes in one question and no in the other: of four samples of two questions one holds the first only, and
    # one the second only. Single pairs, of which there are 60, would lie close to one half.
    yes = np.repeat([True, False], 30)
    pairs = pd.DataFrame({"qid": yes.astype(str), "label": True, "p_yes": np.where(yes, 0.9, 0.1), "answer": yes,
                          "kind": "k"})  # fmt: skip
    found = answers_by(pairs, "kind", resamples=500).iloc[0]
    assert found[["mean_p", "mean_p_low", "mean_p_high"]].tolist() == pytest.approx([0.5, 0.1, 0.9])
    assert found[["said_yes", "said_yes_low", "said_yes_high"]].tolist() == [0.5, 0, 1]


@pytest.mark.parametrize(
    ("labels", "p", "clusters", "message"),
    [
        ([1, 1], [0.1, 0.2], ["a", "b"], "both a yes and a no"),
        ([1, 0], [0.1], ["a", "b"], "of one length"),
        ([1, 0], [0.1, np.nan], ["a", "b"], "finite"),
        ([1, 0], [0.1, 0.2], ["a"], "2 rows, but 1 clusters"),
    ],
)
def test_what_has_no_auc_is_an_error(labels, p, clusters, message):
    with pytest.raises(InputError, match=message):
        probability_report(np.array(labels), np.array(p), clusters)
