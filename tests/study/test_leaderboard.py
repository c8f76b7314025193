"""Tables of the shared task: means at cut-offs, and ranks with intervals and tests that take an issue as a whole."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest

from berdslib.data.arguments import Argument, ArgumentQuery, Release
from berdslib.data.scenario import open_scenario
from berdslib.errors import InputError
from berdslib.evaluation.arguments import RELEVANCE_MEASURES
from berdslib.evaluation.measures import parse_measure
from berdslib.stats import cluster_bootstrap, holm, mean_interval, paired_test, ratio_of_sums
from berdslib.study.tables import at_cutoffs, leaderboard, records, shown, track, write_results
from berdslib.version import __version__


def scenario_of(issues, synthetic=False):
    """A scenario with a query for each of these issues."""
    asked = {"age": ("18-34",)}
    queries = tuple(ArgumentQuery(f"q{i}", issue, "dev", asked, ("d",)) for i, issue in enumerate(issues))
    release = Release("tiny", (Argument("d", "Yes."),), perspective=queries, synthetic=synthetic)
    return open_scenario(release, "explicit", "dev")


def scores(**systems):
    """Scores from lists, one for each query."""
    return {
        name: pd.DataFrame({"nDCG@20": values}, index=pd.Index([f"q{i}" for i in range(len(values))], name="qid"))
        for name, values in systems.items()
    }


APART = scenario_of([f"{i}?" for i in range(8)])
LOW, MIDDLE, HIGH = ([x / 10 + i / 100 for i in range(8)] for x in (1, 4, 5))


def test_systems_are_ranked_by_their_means():
    table = leaderboard(scores(low=LOW, high=HIGH, middle=MIDDLE), APART)
    assert table["system"].tolist() == ["high", "middle", "low"] and table["place"].tolist() == [1, 2, 3]
    assert table["mean"].tolist() == pytest.approx([0.535, 0.435, 0.135])
    assert table["difference"].tolist()[1:] == pytest.approx([-0.1, -0.4]) and np.isnan(table["difference"][0])


def test_equal_means_share_a_place():
    table = leaderboard(scores(b=LOW, a=LOW, c=HIGH, d=[*MIDDLE[:7], 0.0]), APART)
    assert list(zip(table["place"], table["system"], strict=True)) == [(1, "c"), (2, "d"), (3, "a"), (3, "b")]


def test_of_rkl_less_is_better():
    own = {name: frame.rename(columns={"nDCG@20": "rKL(step=2)@20"}) for name, frame in scores(a=HIGH, b=LOW).items()}
    table = leaderboard(own, APART, by="rKL(step=2)@20")
    assert table["system"].tolist() == ["b", "a"] and table["difference"][1] == pytest.approx(0.4)


def test_p_values_are_those_of_all_sign_patterns_corrected_for_several_systems():
    rng = np.random.default_rng(3)
    values = {name: rng.random(8).round(2) for name in "abc"}
    table = leaderboard(scores(**{name: list(v) for name, v in values.items()}), APART).set_index("system")
    best, *others = table.index
    raw = []
    for one in others:
        difference = values[one] - values[best]
        signs = np.array(list(itertools.product([1, -1], repeat=8)))
        raw.append(float((abs(signs @ difference) >= abs(difference.sum()) - 1e-9).mean()))
    assert table["p_value"][others].tolist() == pytest.approx(holm(raw))


def test_where_each_query_is_an_issue_of_its_own_the_interval_is_nearly_the_plain_bootstrap():
    values = np.random.default_rng(0).random(200)
    table = leaderboard(scores(one=list(values)), scenario_of([f"{i}?" for i in range(200)]))
    _, low, high = cluster_bootstrap(np.column_stack([values, np.ones(200)]), None, ratio_of_sums)
    assert (table["low"][0], table["high"][0]) == pytest.approx((low[0], high[0]), abs=0.003)


def test_queries_on_one_issue_count_as_one_draw():
    """Ten queries that say the same about each of 8 issues tell no more than one does: same interval, same test."""
    once, ten_times = APART, scenario_of([f"{i}?" for i in range(8) for _ in range(10)])
    a, b = ([0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.5, 0.6], [0.2, 0.3, 0.1, 0.2, 0.3, 0.9, 0.1, 0.2])
    one = leaderboard(scores(a=a, b=b), once)
    ten = leaderboard(scores(a=list(np.repeat(a, 10)), b=list(np.repeat(b, 10))), ten_times)
    assert (ten["n"][0], ten["issues"][0], one["n"][0], one["issues"][0]) == (80, 8, 8, 8)
    same = ["place", "system", "mean", "low", "high", "difference", "p_value"]
    pd.testing.assert_frame_equal(one[same], ten[same])
    # Taken one by one, they would seem to tell much more.
    assert paired_test(np.repeat(a, 10), np.repeat(b, 10)) < 0.01 < one["p_value"][1]


def test_queries_of_the_baseline_are_on_one_issue_if_they_ask_the_same():
    texts = ("a?", "b?", "b?", "b?", "c?")
    queries = tuple(ArgumentQuery(f"q{i}", text, "dev", {}, ("d",)) for i, text in enumerate(texts))
    baseline = open_scenario(Release("tiny", (Argument("d", "Yes."),), baseline=queries), "baseline")
    values = [1.0, 0.0, 0.0, 0.5, 0.25]
    table = leaderboard(scores(one=values), baseline)
    assert table["issues"][0] == 3
    assert (table["low"][0], table["high"][0]) == mean_interval(np.array(values), clusters=list("abbbc"))


def test_the_mean_is_over_queries_where_issues_have_different_numbers_of_them():
    table = leaderboard(scores(one=[1.0, 0.0, 0.0, 0.5]), scenario_of(["a?", "b?", "b?", "b?"]))
    assert table["mean"][0] == pytest.approx(0.375) and table["issues"][0] == 2
    assert 0 <= table["low"][0] < 0.5 / 3 and table["high"][0] == pytest.approx(1, abs=0.05)  # of two issues, nothing


def test_one_system_is_a_leaderboard_too():
    table = leaderboard(scores(one=LOW), APART)
    assert len(table) == 1 and np.isnan(table["p_value"][0]) and shown(table)["p (Holm)"].tolist() == [""]


def test_it_is_printed_with_intervals_differences_and_tests():
    text = shown(leaderboard(scores(a=HIGH, b=LOW), APART))
    assert list(text.columns) == ["place", "system", "nDCG@20", "difference", "p (Holm)"]
    assert text["nDCG@20"][0].startswith("0.535 [0.5") and text["difference"].tolist() == ["", "-0.400"]
    assert text["p (Holm)"].tolist() == ["", f"{2 / 256:.4f}"]


@pytest.mark.parametrize(
    ("given", "by", "problem"),
    [
        ({}, "nDCG@20", "at least one system's scores are needed"),
        (scores(one=LOW), "P@20", "unknown measure 'P@20'"),
        (scores(one=LOW[:7]), "nDCG@20", "those of 'one' are not of the queries of 'tiny:explicit'"),
        ({"one": scores(one=LOW)["one"][::-1]}, "nDCG@20", "in order"),
    ],
)
def test_scores_that_are_not_of_the_scenario_are_refused(given, by, problem):
    with pytest.raises(InputError, match=problem):
        leaderboard(given, APART, by=by)


# ---------------------------------------------------------------- means at cut-offs


def several(base, columns):
    return pd.DataFrame(
        {name: np.full(8, base + i / 10) for i, name in enumerate(columns)}, index=[f"q{i}" for i in range(8)]
    )


NAMES = ["nDCG@20", "nDCG@4", "P@20", "P@4", "alpha_nDCG@20", "alpha_nDCG@4", "rKL@20", "rKL@4"]


def test_means_are_laid_out_by_system_and_cutoff():
    table = at_cutoffs({"b": several(0.1, NAMES), "a": several(0.2, NAMES)}, APART)
    assert list(table.columns) == ["system", "k", "nDCG", "P", "alpha_nDCG", "rKL", "synthetic"]
    assert table[["system", "k"]].values.tolist() == [["b", 4], ["b", 20], ["a", 4], ["a", 20]]
    assert table["P"].tolist() == pytest.approx([0.4, 0.3, 0.5, 0.4])


def test_a_measure_without_a_cutoff_has_no_place_in_it():
    with pytest.raises(InputError, match="rKL needs a cut-off, such as rKL@20"):
        at_cutoffs({"a": several(0.1, ["rKL"])}, APART)


def test_tracks_are_told_by_the_measure_whoever_defines_it():
    relevance = ["nDCG@4", "P@20", "official_nDCG@20", "official_P@4"]
    diversity = ["alpha_nDCG@4", "alpha_nDCG(alpha=0.3)@4", "official_alpha_nDCG(alpha=0.5)@20", "rKL(step=2)@8"]
    assert [track(name) for name in (*relevance, *diversity)] == ["relevance"] * 4 + ["diversity"] * 4


@pytest.mark.parametrize("synthetic", [True, False])
def test_results_are_written_in_two_evaluations_and_say_whether_they_are_of_real_data(tmp_path, synthetic):
    scenario = scenario_of([f"{i}?" for i in range(8)], synthetic)
    written = write_results(tmp_path, {"a,b": several(0.1, NAMES)}, scenario, "papers")
    assert [path.name for path in written] == ["relevance.csv", "diversity.csv", "results.json"]
    relevance, diversity = (pd.read_csv(path) for path in written[:2])
    assert list(relevance.columns) == ["system", "k", "nDCG", "P", "synthetic"]
    assert list(diversity.columns) == ["system", "k", "alpha_nDCG", "rKL", "synthetic"]
    assert relevance["nDCG"].tolist() == pytest.approx([0.2, 0.1]) and relevance["system"].tolist() == ["a,b"] * 2
    assert relevance["synthetic"].tolist() == diversity["synthetic"].tolist() == [synthetic] * 2
    whole = json.loads(written[2].read_text())
    assert whole["settings"] == {
        "release": "tiny", "synthetic": synthetic, "scenario": "explicit", "split": "dev", "ranked_for": "author",
        "n": 8, "definitions": "papers", "berdslib": __version__,
    }  # fmt: skip
    pd.testing.assert_frame_equal(pd.DataFrame(whole["diversity"]), diversity)


def test_what_was_not_computed_at_a_cutoff_is_null(tmp_path):
    write_results(tmp_path, {"a": several(0.1, ["nDCG@4", "P@20"])}, APART, "papers")
    text = (tmp_path / "results.json").read_text()
    assert "NaN" not in text and json.loads(text)["relevance"][0]["P"] is None


def test_an_evaluation_without_measures_is_not_written(tmp_path):
    written = write_results(tmp_path, {"a": several(0.1, ["rKL@4"])}, APART, "papers")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["diversity.csv", "results.json"]
    assert len(written) == 2 and "relevance" not in json.loads((tmp_path / "results.json").read_text())


@pytest.mark.parametrize("name", sorted(RELEVANCE_MEASURES))
def test_what_looks_at_answers_alone_is_of_the_track_of_relevance(name):
    assert track(f"{name}@5") == track(parse_measure(f"{name}@5")) == "relevance"
    for other in ("Coverage@5", "MRecall@5", "alpha_nDCG(alpha=0.3)@5", "rKL(step=4)@8", "official_rKL@8"):
        assert track(other) == "diversity"


def test_results_of_another_run_do_not_stay_beside_new_ones(tmp_path):
    frame = scores(one=LOW)["one"]
    write_results(tmp_path, {"one": frame.assign(**{"rKL@20": 0.5})}, APART, "papers")
    assert (tmp_path / "diversity.csv").exists()
    (tmp_path / "other.csv").write_text("not ours")
    write_results(tmp_path, {"one": frame}, APART, "papers")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.csv", "relevance.csv", "results.json"]


def test_from_one_issue_no_interval_is_known():
    table = leaderboard(scores(a=HIGH, b=LOW), scenario_of(["a?"] * 8))
    assert table[["low", "high"]].isna().all(axis=None) and table["issues"].tolist() == [1, 1]
    assert shown(table)["nDCG@20"].tolist() == ["0.535 [nan, nan]", "0.135 [nan, nan]"]
    assert [(row["low"], row["high"]) for row in records(table)] == [(None, None)] * 2
