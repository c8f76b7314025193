"""Tables of a scenario: means with intervals and tests that take an issue as a whole, and the files of results."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest

from berdslib.data.arguments import Argument, ArgumentQuery, Release
from berdslib.data.scenario import open_scenario
from berdslib.errors import InputError
from berdslib.stats import holm, mean_interval, paired_test
from berdslib.study.tables import MACRO, counted, score_table, write_csv, write_results
from berdslib.version import __version__


def scenario_of(issues, synthetic=False):
    """A scenario with a query for each of these issues."""
    asked = {"age": ("18-34",)}
    queries = tuple(ArgumentQuery(f"q{i}", issue, "dev", asked, ("d",)) for i, issue in enumerate(issues))
    release = Release("tiny", (Argument("d", "Yes."),), perspective=queries, synthetic=synthetic)
    return open_scenario(release, "explicit", "dev")


def table_of(scenario, baseline=None, **systems):
    """The table of scores that are lists, one number for each query."""
    scores = {name: pd.DataFrame({"nDCG@20": values}) for name, values in systems.items()}
    table = score_table(scores, [counted(q, scenario) for q in scenario.questions], baseline=baseline)
    return table[table["dataset"] == MACRO].drop(columns="n").set_index("system")


APART = scenario_of([f"{i}?" for i in range(8)])


def test_p_values_are_those_of_all_sign_patterns_corrected_for_several_systems():
    rng = np.random.default_rng(3)
    values = {name: rng.random(8).round(2) for name in "abc"}
    raw = []
    for one in "bc":
        difference = values[one] - values["a"]
        signs = np.array(list(itertools.product([1, -1], repeat=8)))
        raw.append(float((abs(signs @ difference) >= abs(difference.sum()) - 1e-9).mean()))
    assert table_of(APART, "a", **values)["p_value"][["b", "c"]].tolist() == pytest.approx(holm(raw))


def test_queries_on_one_issue_count_as_one_draw():
    """Ten queries that say the same about each of 8 issues tell no more than one does: same interval, same test."""
    ten_times = scenario_of([f"{i}?" for i in range(8) for _ in range(10)])
    a, b = ([0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.5, 0.6], [0.2, 0.3, 0.1, 0.2, 0.3, 0.9, 0.1, 0.2])
    one = table_of(APART, "a", a=a, b=b)
    ten = table_of(ten_times, "a", a=np.repeat(a, 10), b=np.repeat(b, 10))
    pd.testing.assert_frame_equal(one, ten)
    # Taken one by one, they would seem to tell much more.
    assert paired_test(np.repeat(a, 10), np.repeat(b, 10)) < 0.01 < one["p_value"]["b"]


def test_queries_of_the_baseline_are_on_one_issue_if_they_ask_the_same():
    texts = ("a?", "b?", "b?", "b?", "c?")
    queries = tuple(ArgumentQuery(f"q{i}", text, "dev", {}, ("d",)) for i, text in enumerate(texts))
    baseline = open_scenario(Release("tiny", (Argument("d", "Yes."),), baseline=queries), "baseline")
    values = np.array([1.0, 0.0, 0.0, 0.5, 0.25])
    row = table_of(baseline, one=values).iloc[0]
    assert (row["low"], row["high"]) == mean_interval(values, clusters=list("abbbc"))
    assert row["mean"] == pytest.approx(0.35)  # over queries, though issues have different numbers of them


# ---------------------------------------------------------------- results


def several(base, columns):
    return pd.DataFrame(
        {name: np.full(8, base + i / 10) for i, name in enumerate(columns)}, index=[f"q{i}" for i in range(8)]
    )


NAMES = ["nDCG@20", "nDCG@4", "official_P@20", "official_P@4", "alpha_nDCG(alpha=0.3)@20", "rKL(step=2)@4", "rKL@20"]


@pytest.mark.parametrize("synthetic", [True, False])
def test_results_are_written_in_two_evaluations_and_say_whether_they_are_of_real_data(tmp_path, synthetic):
    scenario = scenario_of([f"{i}?" for i in range(8)], synthetic)
    written = write_results(tmp_path, {"b,c": several(0.1, NAMES), "a": several(0.2, NAMES)}, scenario, "papers")
    assert [path.name for path in written] == ["relevance.csv", "diversity.csv", "results.json"]
    relevance, diversity = (pd.read_csv(path) for path in written[:2])
    assert list(relevance.columns) == ["system", "k", "nDCG", "official_P", "synthetic"]
    assert list(diversity.columns) == ["system", "k", "rKL(step=2)", "alpha_nDCG(alpha=0.3)", "rKL", "synthetic"]
    assert relevance[["system", "k"]].to_numpy().tolist() == [["b,c", 4], ["b,c", 20], ["a", 4], ["a", 20]]
    assert relevance["nDCG"].tolist() == pytest.approx([0.2, 0.1, 0.3, 0.2])
    assert set(relevance["synthetic"]) == set(diversity["synthetic"]) == {synthetic}
    whole = json.loads(written[2].read_text())
    assert whole["settings"] == {
        "release": "tiny", "synthetic": synthetic, "scenario": "explicit", "split": "dev", "ranked_for": "author",
        "n": 8, "definitions": "papers", "berdslib": __version__,
    }  # fmt: skip
    pd.testing.assert_frame_equal(pd.DataFrame(whole["relevance"]), relevance)
    assert whole["diversity"][0]["rKL"] is None  # not computed at 4; JSON knows no NaN


def test_results_of_another_run_do_not_stay_beside_new_ones(tmp_path):
    write_results(tmp_path, {"one": several(0.1, NAMES)}, APART, "papers")
    (tmp_path / "other.csv").write_text("not ours")
    write_results(tmp_path, {"one": several(0.1, ["nDCG@20"])}, APART, "papers")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.csv", "relevance.csv", "results.json"]
    assert "diversity" not in json.loads((tmp_path / "results.json").read_text())


def test_a_table_is_written_whole_or_not_at_all(tmp_path):
    class Breaks:
        def to_csv(self, file, **_):
            file.write("half")
            raise OSError("disk full")

    (tmp_path / "kept.csv").write_text("as it was")
    with pytest.raises((OSError, InputError)):
        write_csv(tmp_path / "kept.csv", Breaks())
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("kept.csv", "as it was")]
