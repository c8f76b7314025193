"""Figures draw foreign text as it stands, whatever it holds."""

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
    tone = pd.DataFrame([{"system": name, "target": name, "r": 0.1, "low": -0.2, "high": 0.4}])

    found = {"root_any": [1.0], "root": [0.5], "full": [0.4]}
    gain = {"difference": 0.1, "low": -0.1, "high": 0.3, "star": False}
    judged = {"f1": 0.5, "f1_low": 0.4, "f1_high": 0.6, "said_yes": 0.2, "recall": 0.5, "precision": 0.5, "n": 9}
    for figure in (
        figures.compare_systems(means, [name]),
        figures.compare_systems(pd.concat([means, *(means.assign(system=f"s{i}") for i in range(5))]), [name]),
        figures.fairness_against_relevance(means, name, [name]),
        figures.groups_shown({name: pd.DataFrame(shares)}),
        figures.coverage_by_length(pd.DataFrame({name: [1.0, 2.0]}), 3),
        figures.lines(pd.DataFrame({name: [0.1, 0.2]}, index=[0.0, 1.0]), name, name, dashed={name: 0.1}),
        figures.trade_off(frontier.rename(columns={"gain": name}), name, "cost", name, {name: name}),
        figures.group_confusion({name: pd.DataFrame([[0.5]], index=pd.Index([name], name=name), columns=[name])}),
        figures.projection_figure(np.array([1.0, 1.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0]), {name: [0.2, 1.0]}),
        figures.root_and_full_figure(pd.DataFrame(found, index=pd.MultiIndex.from_tuples([(name, "bm25")])), 5),
        figures.differences_figure(pd.DataFrame([{"dataset": "d", "system": name, **gain}]), "P@1"),
        figures.group_bars_figure({"bm25": pd.Series({name: 3, "b": 1})}, 2.0, "places"),
        figures.calibration_curve_figure({name: bins}, {name: np.array([0.5])}),
        figures.judge_error_figure(
            pd.DataFrame([{"measure": name, "judge": name, "gold": 0.5, "labelled": 3, "n": 9, **error}])
        ),
        figures.judges_figure(pd.DataFrame([{"judge": name, **judged}])),
        figures.ceilings_figure(means.assign(retriever=name, corpus=name, ceiling=0.7), name),
        figures.correlations_figure(tone, [name], [name], name),
    ):
        drawn = shown(figure)
        assert {math for _, math in drawn} == {False}
        assert any(name in text for text, _ in drawn)


def test_each_rank_that_argues_a_perspective_is_ticked_not_only_coloured():
    question = Question("q", "Is it?", ("It is.", "It is not."))
    runs = {"both": ranked_run({"q": ["a", "b"]}), "one": ranked_run({"q": ["c", "b"]})}
    supported = [("q", 0, "a", 1.0, True), ("q", 1, "a", 1.0, True), ("q", 1, "b", 1.0, True)]
    table = figures.rank_table(question, runs, make_verdicts(supported, "hand"), 2)
    axes = figures.perspectives_by_rank(question, table, 2).axes
    ticked = [[t.get_position() for t in axis.texts if t.get_text() == "✓"] for axis in axes]
    assert ticked == [[(1, 0), (1, 1), (2, 1)], [(2, 1)]]  # (rank, row)
    assert [sum("HIDDEN" in t.get_text() for t in axis.texts) for axis in axes] == [0, 1]


def test_coverage_by_length_steps_up_where_a_question_is_complete():
    needed = pd.DataFrame({"one": [1.0, 3.0, np.nan, 3.0], "two": [2.0, np.nan, np.nan, np.nan]})
    (axis,) = figures.coverage_by_length(needed, 4, union=0.75).axes
    one, two, together = axis.get_lines()
    assert one.get_xdata().tolist() == two.get_xdata().tolist() == [1, 2, 3, 4]
    assert one.get_ydata().tolist() == [25, 25, 75, 75] and two.get_ydata().tolist() == [0, 25, 25, 25]
    assert set(together.get_ydata()) == {75.0}
    assert one.get_linestyle() != two.get_linestyle()  # told apart in grey


def means_of(values):
    """Return a table of an Experiment: system → its means by measure."""
    return pd.DataFrame([
        {"system": s, "measure": m, "dataset": "macro", "n": 9, "mean": v, "low": v - 0.1, "high": v + 0.2}
        for s, of in values.items() for m, v in of.items()
    ])  # fmt: skip


def test_many_systems_are_sorted_dots_with_the_baseline_as_a_line():
    means = {
        name: {"Precision@5": v, "MRecall@5": 0.9 - v}
        for name, v in zip("abcdef", (0.3, 0.6, 0.2, 0.5, 0.7, 0.4), strict=True)
    }
    figure = figures.compare_systems(means_of(means), ["Precision@5", "MRecall@5"], baseline="d")
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == list("ebdfac") and left.yaxis_inverted()
    for axis, values in ((left, (70, 60, 50, 40, 30, 20)), (right, (20, 30, 40, 50, 60, 70))):
        (drawn,) = axis.containers
        assert drawn.lines[0].get_xdata().tolist() == pytest.approx(values)
        ends = [segment[:, 0].tolist() for segment in drawn.lines[2][0].get_segments()]
        assert ends == [pytest.approx([v - 10, v + 20]) for v in values]
        (line,) = [line for line in axis.lines if line.get_ls() == "--"]
        assert line.get_xdata()[0] == pytest.approx(values[2])


def test_lists_side_by_side_mark_what_came_in_and_join_what_stayed():
    question = Question("q", "Is it?", (DOLLARS, "It is not."))
    verdicts = make_verdicts([("q", 0, "a", 1.0, True), ("q", 1, "a", 1.0, True), ("q", 1, "c", 1.0, True)], "hand")
    runs = {"first": ranked_run({"q": ["a", "b"]}), "second": ranked_run({"q": ["c", "a"]})}
    table = figures.rank_table(question, runs, verdicts, 2)
    figure = figures.lists_beside(question, table, {"a": DOLLARS, "b": "Bees", "c": "Cats"})
    texts = [text for text, _ in shown(figure)]
    assert {DOLLARS, "Bees", "Cats", "Is it?", f"A: {DOLLARS}", "B: It is not."} <= set(texts)
    drawn = [text.get_text() for text in figure.axes[0].texts]
    assert drawn.count("new") == 1 and drawn[drawn.index("new") - 1] == "Cats"
    assert (drawn.count("A"), drawn.count("B")) == (2, 3)  # of a twice, and of c
    (stayed,) = figure.axes[0].lines  # a: from the first place on the left to the second on the right
    assert list(stayed.get_ydata()) == [1, 2]


def test_a_trade_off_names_the_baseline_and_the_oracle_and_they_are_no_method():
    rows = [("start", 0.5, 0.6), ("mmr:0.9", 0.4, 0.5), ("oracle", 0.9, 1.0)]
    table = pd.DataFrame(rows, columns=["system", "gain", "cost"]).assign(frontier=False)
    (axis,) = figures.trade_off(table, "gain", "cost", "start", {"mmr:0.9": "mmr"}).axes
    places = {text.get_text(): tuple(text.xy) for text in axis.texts}
    assert places == {"start": pytest.approx((60, 50)), "oracle": pytest.approx((100, 90))}
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["mmr", "not beaten"]


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


def test_many_groups_stand_in_two_panels_and_a_property_is_not_torn_apart():
    table = pd.DataFrame({
        "property": ["age"] * 4 + ["gender"] * 13 + ["home"] * 7, "group": [f"g{i}" for i in range(24)],
        "ratio": 1.5, "low": 0.9, "high": 1.7,
    })  # fmt: skip
    left, right = figures.groups_shown({"text": table}).axes
    assert [len(axis.get_yticks()) for axis in (left, right)] == [17, 7]
    assert (
        set(right.containers[0].lines[0].get_xdata()) == {1.5} and right.get_yticklabels()[0].get_text() == "home: g17"
    )
    (one,) = figures.groups_shown({"text": table.head(9)}).axes
    assert len(one.get_yticks()) == 9


# ---------------------------------------------------------------- training


SCORED = ("f1", "f1_low", "f1_high", "auc", "auc_low", "auc_high")


def test_scores_of_judges_with_the_line_of_yes_to_all():
    rows = [("all yes", 0.5, 0.4, 0.6, 0.5, 0.5, 0.5), (BROKEN, 0.7, 0.6, 0.8, 0.9, 0.8, 1.0)]
    figure = figures.judge_scores(pd.DataFrame(rows, columns=["judge", *SCORED]))
    assert (BROKEN, False) in shown(figure) and not any(text == "all yes" for text, _ in shown(figure))
    for axis, value in zip(figure.axes, (70, 90), strict=True):
        assert [line.get_xdata()[0] for line in axis.lines if line.get_ls() == "--"] == [50]
        assert axis.containers[0].lines[0].get_xdata().tolist() == pytest.approx([value])


def test_tokens_are_escaped_and_the_answer_is_written_out():
    found = figures.labelled_tokens([[("<script>", "ignored"), ('"&', "<b>Yes")]])
    assert "<script>" not in found and "<b>Yes" not in found.replace("<b>&lt;b&gt;Yes</b>", "")
    assert "&lt;script&gt;" in found and "&quot;&amp; → <b>&lt;b&gt;Yes</b>" in found
    assert found.count("<span") == found.count("</span>") == 2


def test_a_funnel_ends_where_nothing_more_is_left_out():
    rows = [("s", "in the file", 5, 0), ("s", DOLLARS, 3, 2), ("s", "checks", 3, 0), ("s", "questions", 3, 0)]
    figure = figures.funnel_figure(pd.DataFrame(rows, columns=["source", "row", "left", "left_out"]))
    bars = [bar for bar in figure.axes[0].patches if bar.get_width()]
    assert [(bar.get_x(), bar.get_width()) for bar in bars] == [(0, 5), (0, 3), (0, 3), (0, 3), (3, 2)]
    assert {"s", DOLLARS, "−2", "−0", "5", "3"} <= {text for text, _ in shown(figure)}


def test_judges_stand_beside_yes_to_all():
    judged = {"f1_low": 0.3, "f1_high": 0.6, "said_yes": 0.4, "recall": 0.5, "precision": 0.25, "n": 9}
    table = pd.DataFrame([{"judge": "a", "f1": 0.5, **judged}])
    left, right = figures.judges_figure(table).axes
    # Of all pairs, precision * said_yes / recall are a yes: .25 * .4 / .5 = .2; yes to all has F1 2 * .2 / 1.2.
    assert [axis.lines[-1].get_xdata()[0] for axis in (left, right)] == pytest.approx([100 / 3, 20])


def test_marks_stand_at_their_values_with_their_own_intervals():
    rows = [("a", "x", 0.5, 0.4, 0.9), ("b", "x", 0.2, 0.1, 0.3), ("b", "y", 0.6, 0.6, 0.6)]
    table = pd.DataFrame(rows, columns=["system", "panel", "mean", "low", "high"])
    first, second = figures.intervals(table, "system", panel="panel").axes
    assert first.containers[0].lines[0].get_xydata().tolist() == [[50, 0], [20, 1]]
    ends = [segment[:, 0].tolist() for segment in first.containers[0].lines[2][0].get_segments()]
    np.testing.assert_allclose(ends, [[40, 90], [10, 30]])
    assert (first.get_title(), second.get_title()) == ("x", "y") and second.containers[0].lines[0].get_ydata()[1] == 1


def test_every_figure_is_found_by_its_name_and_no_import_is():
    assert {"intervals", "lines", "rank_table", "sides_figure"} <= set(dir(figures)) and "pd" not in dir(figures)
    with pytest.raises(AttributeError, match="no attribute 'intervalls'"):
        figures.intervalls  # noqa: B018
