"""Figures draw foreign text as it stands, whatever it holds."""

import math

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from berdslib.data.collection import Collection
from berdslib.data.records import Passage, Question, make_verdicts, ranked_run
from berdslib.errors import InputError
from berdslib.study import figures
from berdslib.study.experiment import experiment

DOLLARS = "10% of $20 or 5% of $30?"
BROKEN = r"a $\frac{$ of \$5"


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def shown(figure):
    """Draw a figure, and return every text in it as it is drawn."""
    figure.canvas.draw()
    return {t._preprocess_math(t.get_text()) for t in figure.findobj(matplotlib.text.Text) if t.get_text()}


@pytest.mark.parametrize("name", [DOLLARS, BROKEN])
def test_dollars_in_questions_perspectives_and_names(name):
    question = Question("q", name, (name, "No."))
    runs = {name: ranked_run({"q": ["a", "b"]})}
    verdicts = make_verdicts([("q", 0, "a", 1.0, True)], "hand")
    table = figures.rank_table(question, runs, verdicts, 2)
    drawn = shown(figures.perspectives_by_rank(question, table, 2))
    assert (name, False) in drawn and {math for _, math in drawn} == {False}
    assert any(text.startswith(f"{name}  →") for text, _ in drawn)


@pytest.mark.parametrize("name", [DOLLARS, BROKEN])
def test_dollars_in_every_other_figure(name):
    scores = {"dataset": "macro", "n": 3, "mean": 0.5, "low": 0.4, "high": 0.6}
    means = pd.DataFrame([{"system": name, "measure": name, **scores}])
    frontier = pd.DataFrame({"system": [name], "gain": [0.5], "cost": [0.1], "frontier": [True]})
    bins = pd.DataFrame({"mean_p": [0.5], "share_yes": [0.4], "n": [3]})
    error = {"value": 0.5, "low": 0.4, "high": 0.6, "judge_value": 0.5, "judge_low": 0.4, "judge_high": 0.6}
    shares = {"property": [name], "group": [name], "ratio": [1.1], "low": [0.9], "high": [1.3]}
    found = {"root_any": [1.0], "root": [0.5], "full": [0.4]}
    gain = {"difference": 0.1, "low": -0.1, "high": 0.3, "star": False}
    judged = {"f1": 0.5, "f1_low": 0.4, "f1_high": 0.6, "said_yes": 0.2, "recall": 0.5, "precision": 0.5, "n": 9}
    for figure in (
        figures.compare_systems(means, [name]),
        figures.fairness_against_relevance(means, name, [name]),
        figures.groups_shown({name: pd.DataFrame(shares)}),
        figures.coverage_by_length(pd.DataFrame({name: [1.0, 2.0]}), 3),
        figures.weight_sweep(pd.DataFrame({"weight": [0.0, 1.0], name: [0.1, 0.2]}), {name: 0.1}),
        figures.trade_off(frontier.rename(columns={"gain": name}), name, "cost", name, {name: name}),
        figures.group_confusion({name: pd.DataFrame([[0.5]], index=pd.Index([name], name=name), columns=[name])}),
        figures.projection_figure(np.array([1.0, 1.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0]), {name: [0.2, 1.0]}),
        figures.root_and_full_figure(pd.DataFrame(found, index=pd.MultiIndex.from_tuples([(name, "bm25")])), 5),
        figures.differences_figure(pd.DataFrame([{"dataset": "d", "system": name, **gain}]), "P@1"),
        figures.strength_figure(pd.DataFrame({name: [50.0, 40.0]}, index=[0.0, 1.0]), "pRecall@5"),
        figures.group_bars_figure({"bm25": pd.Series({name: 3, "b": 1})}, 2.0, "places"),
        figures.calibration_curve_figure({name: bins}),
        figures.judge_error_figure(pd.DataFrame([{"system": name, "labelled": 3, "n": 9, **error}]), name),
        figures.judges_figure(pd.DataFrame([{"judge": name, **judged}])),
    ):
        drawn = shown(figure)
        assert {math for _, math in drawn} == {False}
        assert any(name in text for text, _ in drawn)


def test_the_places_beside_a_projection_are_those_of_the_cosines():
    # By q the order is b, a; without the first axis what is left of q is (0, 1), which is nearer a.
    texts = {"a": [0.1, 1.0], "b": [1.0, 0.5]}
    figure = figures.projection_figure(np.array([1.0, 0.6]), np.array([1.0, 0.0]), np.array([0.0, 0.6]), texts)
    assert [list(line.get_ydata()) for line in figure.axes[1].lines] == [[2, 1], [1, 2]]


def test_a_table_of_differences_to_the_baseline():
    passages = [Passage("a", "one"), Passage("b", "two")]
    questions = [Question(f"q{i}", "?", ("yes",), source="x" if i < 3 else "y") for i in range(6)]
    gold = make_verdicts([(q.qid, 0, "a", 1.0, True) for q in questions], "hand")
    runs = {
        "worse": ranked_run({q.qid: ["b", "a"] for q in questions}),
        "some": ranked_run({q.qid: ["a", "b"] if q.qid in ("q0", "q1") else ["b", "a"] for q in questions}),
    }
    parts = [Collection(s, [q for q in questions if q.source == s], passages, gold) for s in ("x", "y")]
    table = figures.difference_table(experiment(runs, parts, ["P@1"], baseline="worse"), "P@1")
    assert table[["dataset", "system"]].to_numpy().tolist() == [["x", "some"], ["y", "some"]]
    assert table["difference"].tolist() == pytest.approx([2 / 3, 0])
    assert (table["low"] < table["difference"]).all() and (table["difference"] < table["high"]).all()
    assert not table["star"].any()
    with pytest.raises(InputError, match="baseline"):
        figures.difference_table(experiment(runs, parts, ["P@1"]), "P@1")


def test_bars_of_groups_are_sorted():
    figure = figures.group_bars_figure({"s": pd.Series({"a": 1, "b": 3, "c": 2})}, 2.0, "places")
    assert [bar.get_width() for bar in figure.axes[0].patches] == [1, 2, 3]


def test_a_rank_table_takes_runs_counted_from_0():
    question = Question("q", "Is it?", ("It is.",))
    run = ranked_run({"q": ["a", "b", "c"]})
    verdicts = make_verdicts([("q", 0, "a", 1.0, True)], "hand")
    want = figures.rank_table(question, {"s": run}, verdicts, 2)
    raw = verdicts.assign(supports=1)
    pd.testing.assert_frame_equal(figures.rank_table(question, {"s": run.assign(rank=run["rank"] - 1)}, raw, 2), want)


def test_a_sweep_of_more_measures_than_there_are_colours():
    measures = {f"MRecall@{k}": 0.1 for k in range(1, 10)}
    table = pd.DataFrame({"weight": [0.0, 1.0], **{name: [0.1, 0.2] for name in measures}})
    looks = [
        (line.get_color(), line.get_marker())
        for line in figures.weight_sweep(table, measures).axes[0].lines
        if len(line.get_xdata()) == 2 and line.get_linestyle() == "-"
    ]
    assert len(set(looks)) == len(looks) == 9


def test_fairness_stands_over_relevance_and_less_rkl_is_higher():
    values = {"a": {"nDCG@20": 0.2, "rKL@20": 0.4}, "b": {"nDCG@20": 0.8, "rKL@20": 0.1}}
    rows = [
        {"system": s, "measure": m, "dataset": "macro", "mean": v, "low": v - 0.1, "high": v + 0.1}
        for s, of in values.items() for m, v in of.items()
    ]  # fmt: skip
    figure = figures.fairness_against_relevance(pd.DataFrame(rows), "nDCG@20", ["rKL@20", "nDCG@20"])
    less, more = figure.axes
    drawn = {line.get_label(): line.lines[0].get_xydata()[0].tolist() for line in less.containers}
    assert drawn == {"a": [20, 40], "b": [80, 10]}
    assert less.yaxis_inverted() and not more.yaxis_inverted()
    with pytest.raises(InputError, match=r"unknown measure of the table 'rKL@2'. Did you mean 'rKL@20'"):
        figures.fairness_against_relevance(pd.DataFrame(rows), "nDCG@20", ["rKL@2"])


def test_groups_are_drawn_at_their_ratio_with_a_line_between_properties():
    table = pd.DataFrame({
        "property": ["age", "age", "gender"], "group": ["old", "young", "male"],
        "ratio": [0.5, 1.5, 1.0], "low": [0.4, 1.2, 0.9], "high": [0.7, 1.9, 1.1],
    })  # fmt: skip
    (axis,) = figures.groups_shown({"text": table}).axes
    (drawn,) = axis.containers
    x, y = drawn.lines[0].get_xydata().T
    assert x.tolist() == [0.5, 1.5, 1.0] and (-np.diff(y)).tolist() == [1.0, 2.0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["age: old", "age: young", "gender: male"]


def test_many_groups_stand_in_two_columns_and_a_property_is_not_torn_apart():
    table = pd.DataFrame({
        "property": ["age"] * 4 + ["gender"] * 13 + ["home"] * 7, "group": [f"g{i}" for i in range(24)],
        "ratio": 1.0, "low": 0.9, "high": 1.1,
    })  # fmt: skip
    left, right = figures.groups_shown({"text": table}).axes
    assert [len(axis.get_yticks()) for axis in (left, right)] == [17, 7]


def test_guesses_are_drawn_beside_the_diagonal():
    bins = pd.DataFrame({"mean_p": [0.1, 0.6], "share_yes": [0.2, 0.5]})
    _, drawn = figures.guesses_figure(bins).axes[0].lines
    assert drawn.get_xydata().tolist() == [[0.1, 0.2], [0.6, 0.5]]


# ---------------------------------------------------------------- training


SCORED = ("f1", "f1_low", "f1_high", "auc", "auc_low", "auc_high")


def test_scores_of_judges_with_the_line_of_yes_to_all():
    rows = [("all yes", 0.5, 0.4, 0.6, 0.5, 0.5, 0.5), (BROKEN, 0.7, 0.6, 0.8, 0.9, 0.8, 1.0)]
    figure = figures.judge_scores(pd.DataFrame(rows, columns=["judge", *SCORED]))
    assert (BROKEN, False) in shown(figure) and not any(text == "all yes" for text, _ in shown(figure))
    for axis, value in zip(figure.axes, (70, 90), strict=True):
        assert [line.get_xdata()[0] for line in axis.lines if line.get_ls() == "--"] == [50]
        assert axis.containers[0].lines[0].get_xdata().tolist() == pytest.approx([value])


def test_loss_curves_mark_the_lowest_validation():
    table = pd.DataFrame({"passes": [1, 2, 3], "training": [0.7, 0.5, 0.2], "validation": [0.7, 0.6, 0.9]})
    axis = figures.loss_curves(table).axes[0]
    mark = next(line for line in axis.lines if line.get_marker() == "o")
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (2, 0.6)
    assert "lowest on validation: pass 2" in [text.get_text() for text in axis.get_legend().get_texts()]
    coin = next(line for line in axis.lines if line.get_ls() == ":")
    assert set(coin.get_ydata()) == {math.log(2)}


def test_rank_errors_in_percent_with_names_as_they_are():
    figure = figures.rank_errors(pd.DataFrame({DOLLARS: [1.0, 0.25]}, index=[1, 4]))
    assert figure.axes[0].lines[0].get_ydata().tolist() == [100, 25] and (DOLLARS, False) in shown(figure)


def test_thresholds_by_share_beside_yes_to_all():
    rows = [(DOLLARS, 0.2, 0.5, 0.6), (DOLLARS, 0.5, 0.3, 0.7)]
    figure = figures.threshold_by_share(pd.DataFrame(rows, columns=["judge", "share", "threshold", "f1"]))
    left, right = figure.axes
    assert left.lines[0].get_ydata().tolist() == [0.5, 0.3] and (DOLLARS, False) in shown(figure)
    # Precision is the share and recall is 1: 2 * .2 / 1.2 and 2 * .5 / 1.5.
    assert right.lines[-1].get_ydata() == pytest.approx([100 / 3, 200 / 3])


def test_tokens_are_escaped_and_the_answer_is_written_out():
    found = figures.labelled_tokens([[("<script>", "ignored"), ('"&', "<b>Yes")]])
    assert "<script>" not in found and "<b>Yes" not in found.replace("<b>&lt;b&gt;Yes</b>", "")
    assert "&lt;script&gt;" in found and "&quot;&amp; → <b>&lt;b&gt;Yes</b>" in found
    assert found.count("<span") == found.count("</span>") == 2
