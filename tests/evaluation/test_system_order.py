"""Orders of systems against scipy and sklearn; labelling trials against judges whose errors are known."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import kendalltau
from sklearn.metrics import cohen_kappa_score

from berdslib.errors import InputError
from berdslib.evaluation.judge_error import corrected_mean
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


def doubled(table):
    """Each question twice, one after the other."""
    return frame(np.repeat(table.to_numpy(), 2, axis=0))


def pairwise(table):
    """The clusters of doubled questions, in the order of :func:`own`."""
    return [f"{i // 2:03}" for i in range(2 * len(table))]


@given(arrays(np.int8, (2, 9), elements=st.integers(0, 4)))
def test_tau_b_is_that_of_scipy(values):
    one, other = values.astype(float)
    want = kendalltau(one, other).statistic
    np.testing.assert_allclose(_tau_b(one[None], other[None]), [want], atol=1e-12)


def test_tau_by_hand():
    # Means by gold 1, 2/3, 1/3; the judge exchanges the last two: of three pairs two are alike, one is not.
    gold, judged = frame([[1, 1, 1], [1, 1, 0], [1, 0, 0]]), frame([[1, 0, 1], [1, 0, 1], [1, 1, 0]])
    assert system_tau(gold, judged, own(gold)).value == pytest.approx(1 / 3)
    assert system_tau(gold, gold, own(gold)).value == 1
    assert system_tau(gold, 1 - gold, own(gold)).value == -1


def test_the_interval_is_that_of_a_plain_loop_and_draws_doubled_questions_together():
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
    # Each question twice, kept together, is as many questions as before.
    single = system_tau(gold, judged, own(gold), resamples=300, seed=3)
    twice = system_tau(doubled(gold), doubled(judged), pairwise(gold), resamples=300, seed=3)
    assert single.low < single.high and twice == pytest.approx(single)


def test_systems_that_are_equal_are_tied_in_every_draw():
    # 0.1 + 0.2 is 0.3, and more than that in its last bit. The judge has them in order, so that of three pairs two are
    # alike and one is tied by gold, whatever is drawn.
    gold = frame([[0.1, 0.3, 0], [0.2, 0, 0]] * 6)
    judged = frame([[0.5, 0.7, 0.1]] * 12)
    found = system_tau(gold, judged, pairwise(gold[::2]), resamples=200)
    assert found == pytest.approx((2 / 6**0.5,) * 3)
    trials = labelling_trials(gold, judged, pairwise(gold[::2]), 4, draws=20)
    assert of_all(trials, LABELS_ALONE)["tau"] == pytest.approx(1)


def test_questions_that_all_overlap_say_nothing_of_others():
    gold, judged = frame([[1, 0], [1, 1], [0, 0]]), frame([[1, 0], [0, 1], [0, 0]])
    together = ["a"] * 3
    found = [system_tau(gold, gold, together), *question_agreement(gold, judged, together).values()]
    assert [one.value for one in found] == pytest.approx([1, 5 / 6, 2 / 3])
    assert all(np.isnan([one.low, one.high]).all() for one in found)
    with pytest.raises(InputError, match="all questions overlap"):
        labelling_trials(gold, judged, together, 2)


def test_a_judge_that_has_all_systems_tied_has_no_tau():
    gold = frame([[1, 0], [1, 1]])
    found = system_tau(gold, frame(np.ones((2, 2))), own(gold))
    assert np.isnan(found).all()


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
    none = ordered_alike(pairs, gold, alpha=1e-9)
    assert none["pairs"] == 0 and np.isnan(none["alike"])


def test_pairs_are_tested_by_whole_clusters():
    gold = frame([[1, 0]] * 5)  # five coins, all of which fall alike in 2 of 32 cases
    assert system_pairs(gold, own(gold))["p_value"].tolist() == [2 / 32]
    assert system_pairs(doubled(gold), pairwise(gold))["p_value"].tolist() == [2 / 32]


@settings(deadline=None)
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


def test_the_interval_of_single_questions_draws_questions():
    # Of one question all is wrong, of the others nothing: the share of a sample is that of the questions in it.
    gold = frame(np.tile([[1, 0, 1, 0]], (5, 1)))
    judged = gold.copy()
    judged.iloc[0] = 1 - judged.iloc[0]
    found = question_agreement(gold, judged, own(gold), resamples=500)["same"]
    assert found == pytest.approx((0.8, 0.4, 1.0))
    twice = question_agreement(doubled(gold), doubled(judged), pairwise(gold), resamples=500)["same"]
    assert twice == pytest.approx(found)


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


def test_a_judge_that_knows_nothing_costs_little():
    rng = np.random.default_rng(1)
    gold, _ = world(rng, 0)
    table = labelling_trials(gold, frame(rng.random(gold.shape)), own(gold), 40, draws=150)
    labels, both = of_all(table, LABELS_ALONE), of_all(table, CORRECTED)
    assert both["width"] == pytest.approx(labels["width"], rel=0.1) and both["coverage"] > 0.9
    assert both["weight"] < 0.4


def test_rows_by_hand_where_every_question_is_alike():
    gold, judged = frame(np.tile([[1.0, 0.5]], (6, 1))), frame(np.tile([[0.5, 0.25]], (6, 1)))
    table = labelling_trials(gold, judged, own(gold), 3, draws=5).set_index(["estimate", "system"])
    assert table.loc[(JUDGE_ALONE, "s0"), ["bias", "error", "width", "coverage"]].tolist() == [-0.5, 0.5, 0, 0]
    assert table.loc[(JUDGE_ALONE, "all"), ["bias", "tau"]].tolist() == [0.375, 1]
    assert table.loc[(CORRECTED, "s1"), ["bias", "error", "width", "coverage"]].tolist() == [0, 0, 0, 1]
    assert set(table["labelled"]) == {3} and len(table) == 9


@pytest.mark.parametrize("labelled", [2, 3, 7, 30])
def test_as_many_questions_are_labelled_as_were_asked_for(labelled, monkeypatch):
    gold, judged = world(np.random.default_rng(3), 0.1, n=30, systems=2)
    seen = []

    def spy(judge, human, *, clusters, level):
        seen.append((clusters, ~np.isnan(human), judge, human))
        return corrected_mean(judge, human, clusters=clusters, level=level)

    monkeypatch.setattr("berdslib.evaluation.system_order.corrected_mean", spy)
    labelling_trials(gold, judged, own(gold), labelled, draws=3)
    assert len(seen) == 3 * 2 * 2 and all(has.sum() == labelled for _, has, _, _ in seen)
    # Where questions stand in pairs, pairs are labelled as wholes, until there are so many questions.
    seen.clear()
    labelling_trials(doubled(gold), doubled(judged), pairwise(gold), labelled, draws=3)
    for clusters, has, _, _ in seen:
        assert has.sum() == max(4, labelled + labelled % 2)
        assert len(set(clusters)) == 30 and not set(clusters[has]) & set(clusters[~has])


def test_doubled_questions_that_are_drawn_together_add_nothing():
    gold, judged = world(np.random.default_rng(4), 0.1, n=25, systems=3)
    single = labelling_trials(gold, judged, own(gold), 8, draws=10)
    twice = labelling_trials(doubled(gold), doubled(judged), pairwise(gold), 16, draws=10)
    assert (single["width"] > 0).all() and set(twice.pop("labelled")) == {16} and set(single.pop("labelled")) == {8}
    pd.testing.assert_frame_equal(twice, single)


def test_trials_are_those_of_their_seed():
    gold, judged = world(np.random.default_rng(2), 0.1, n=30)
    one, again, other = (labelling_trials(gold, judged, own(gold), 10, draws=5, seed=s) for s in (0, 0, 1))
    pd.testing.assert_frame_equal(one, again)
    assert not one.equals(other)


GOOD = frame([[1, 0], [0, 1], [1, 1]])


@pytest.mark.parametrize(
    ("gold", "judged", "clusters", "message"),
    [
        (GOOD, GOOD[::-1], ["a", "b", "c"], "same questions and systems"),
        (GOOD, GOOD.rename(columns={"s0": "x"}), ["a", "b", "c"], "same questions and systems"),
        (GOOD[["s0"]], GOOD[["s0"]], ["a", "b", "c"], "two systems at least, not 1"),
        (GOOD, GOOD, ["a"], "3 questions, but 1 clusters"),
        (GOOD, GOOD * np.nan, ["a", "b", "c"], "finite"),
        (GOOD[:0], GOOD[:0], [], "there must be some"),
    ],
)
def test_what_cannot_be_compared_is_an_error(gold, judged, clusters, message):
    for compare in (system_tau, question_agreement, lambda *given: labelling_trials(*given, 2)):
        with pytest.raises(InputError, match=message):
            compare(gold, judged, clusters)


@pytest.mark.parametrize(("labelled", "draws"), [(1, 5), (4, 5), (2, 0)])
def test_numbers_of_labels_that_make_no_sense(labelled, draws):
    with pytest.raises(InputError, match="from 2 to 3 questions"):
        labelling_trials(GOOD, GOOD, own(GOOD), labelled, draws=draws)
