"""Tables of a scenario: means with intervals and tests that take an issue as a whole."""

import itertools

import numpy as np
import pandas as pd
import pytest

from berdslib.data.arguments import Argument, ArgumentQuery, Release
from berdslib.data.scenario import open_scenario
from berdslib.stats import holm, mean_interval, paired_test
from berdslib.study.tables import MACRO, score_table


def scenario_of(issues):
    """A scenario with a query for each of these issues."""
    asked = {"age": ("18-34",)}
    queries = tuple(ArgumentQuery(f"q{i}", issue, "dev", asked, ("d",)) for i, issue in enumerate(issues))
    release = Release("tiny", (Argument("d", "Yes."),), perspective=queries)
    return open_scenario(release, "explicit", "dev")


def table_of(scenario, baseline=None, **systems):
    """The table of scores that are lists, one number for each query."""
    scores = {name: pd.DataFrame({"nDCG@20": values}) for name, values in systems.items()}
    table = score_table(scores, scenario.questions, baseline=baseline)
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
