"""Judge-corrected scores: coverage in simulated worlds, and closed forms, the jackknife and hand-worked numbers."""

import numpy as np
import pytest
from scipy import stats

from berdslib.evaluation.judge_error import corrected_mean

WORLDS = 500


def coverage(found, truth):
    return (
        np.mean([one.low <= truth <= one.high for one in found]),
        np.mean([one.judge_low <= truth <= one.judge_high for one in found]),
    )


def some_labelled(human, n, rng):
    labels = np.full(len(human), np.nan)
    chosen = rng.choice(len(human), n, replace=False)
    labels[chosen] = human[chosen]
    return labels


def questions_world(rng, n=400, labelled=80, share=0.3):
    """MRecall of questions, and a judge that is right about 85 % of them, too generous on balance."""
    human = (rng.random(n) < share).astype(float)
    judge = (rng.random(n) < np.where(human == 1, 0.85, 0.15)).astype(float)
    return judge, some_labelled(human, labelled, rng)


def pairs_world(rng, questions=160, whole=False):
    """Pairs whose labels and whose errors are alike within a question; a fifth of them labelled."""
    owner = np.repeat(np.arange(questions), rng.integers(5, 16, questions))
    human = (rng.random(len(owner)) < rng.beta(1, 4, questions)[owner]).astype(float)
    judge = np.where(rng.random(len(owner)) < rng.beta(2, 8, questions)[owner], 1.0, human)
    chosen = np.isin(owner, rng.choice(questions, questions // 5, replace=False)) if whole else None
    labelled = chosen if whole else rng.random(len(owner)) < 0.2
    return judge, np.where(labelled, human, np.nan), owner


# ---------------------------------------------------------------- the mean


@pytest.mark.parametrize("tune", [True, False])
def test_interval_holds_the_truth_where_that_of_the_judge_does_not(tune):
    rng = np.random.default_rng(0)
    found = [corrected_mean(*questions_world(rng), tune=tune) for _ in range(WORLDS)]
    ours, naive = coverage(found, 0.3)
    assert 0.92 <= ours <= 0.98 and naive < 0.5
    error = np.std([one.value for one in found]) / np.sqrt(WORLDS)
    assert np.mean([one.value for one in found]) == pytest.approx(0.3, abs=3.5 * error)
    assert np.mean([one.judge_value for one in found]) == pytest.approx(0.3 * 0.85 + 0.7 * 0.15, abs=0.01)


@pytest.mark.parametrize("labelled", [8, 12, 20])
def test_with_few_labels_the_interval_holds_the_truth_as_often(labelled):
    """A weight fitted on 8 labels made 95 % intervals that held it in 85 to 87 % of the cases."""
    rng = np.random.default_rng(0)
    found = [corrected_mean(*questions_world(rng, 134, labelled, 0.25)) for _ in range(2 * WORLDS)]
    assert {one.weight for one in found} == {1.0} and coverage(found, 0.25)[0] > 0.92
    assert corrected_mean(rng.random(134), some_labelled(rng.random(134), 30, rng)).weight < 0.9


def test_estimate_is_that_of_two_independent_samples():
    # With u unlabelled of N the estimate is the textbook one on the labelled and the unlabelled part, weight w u / N.
    rng = np.random.default_rng(6)
    for n, labelled in ((400, 80), (3000, 100), (500, 250)):
        judge, labels = questions_world(rng, n, labelled)
        has = ~np.isnan(labels)
        for tune in (True, False):
            found = corrected_mean(judge, labels, tune=tune)
            kappa = found.weight * (1 - labelled / n)
            rectified = labels[has] - kappa * judge[has]
            value = kappa * judge[~has].mean() + rectified.mean()
            variance = kappa**2 * judge[~has].var(ddof=1) / (n - labelled) + rectified.var(ddof=1) / labelled
            assert found.value == pytest.approx(value)
            half = stats.t.ppf(0.975, labelled - 1) * np.sqrt(variance)
            assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.02)


@pytest.mark.parametrize("whole", [False, True])
def test_clustered_variance_is_that_of_the_jackknife_over_questions(whole):
    judge, labels, owner = pairs_world(np.random.default_rng(9), 80, whole)
    found = corrected_mean(judge, labels, clusters=[f"q{c}" for c in owner], tune=False)
    without = []
    for c in np.unique(owner):
        f, h = judge[owner != c], labels[owner != c]
        has = ~np.isnan(h)
        without.append(f.mean() + (h[has] - f[has]).mean())
    jackknife = np.sqrt(79 / 80 * np.sum((np.array(without) - np.mean(without)) ** 2))
    freedom = len(np.unique(owner[~np.isnan(labels)])) - 1
    assert (found.high - found.low) / 2 == pytest.approx(stats.t.ppf(0.975, freedom) * jackknife, rel=0.05)
