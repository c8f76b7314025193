"""Figures draw foreign text as it stands, whatever it holds."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from berdslib.data.records import Question, make_verdicts, ranked_run
from berdslib.errors import InputError
from berdslib.study import figures

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
def test_dollars_in_every_other_figure(name):
    scores = {"dataset": "macro", "n": 3, "mean": 0.5, "low": 0.4, "high": 0.6}
    means = pd.DataFrame([{"system": name, "measure": name, **scores}])
    for figure in (
        figures.compare_systems(means, [name]),
        figures.compare_systems(pd.concat([means, *(means.assign(system=f"s{i}") for i in range(5))]), [name]),
        figures.lines(pd.DataFrame({name: [0.1, 0.2]}, index=[0.0, 1.0]), name, name),
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


def test_the_tiles_of_a_list_have_the_colour_of_its_retriever():
    question = Question("q", "Is it?", ("It is.", "It is not."))
    runs = {system: ranked_run({"q": ["a"]}) for system in ("minilm", "bm25+mmr:0.5")}
    table = figures.rank_table(question, runs, make_verdicts([("q", 1, "a", 1.0, True)], "hand"), 1)
    axes = figures.perspectives_by_rank(question, table, 1).axes
    drawn = [[to_hex(tile.get_facecolor()).upper() for tile in axis.patches] for axis in axes]
    assert drawn == [[figures.NOTHING, figures.HUES[name]] for name in ("minilm", "bm25")]


def test_the_pipeline_marks_the_steps_that_are_asked_for():
    (axis,) = figures.pipeline("judge", "list").axes
    (plain_axis,) = figures.pipeline().axes
    boxes = [[box for box in one.patches if isinstance(box, Rectangle)] for one in (axis, plain_axis)]
    marked = [a.get_xy() for a, b in zip(*boxes, strict=True) if a.get_facecolor() != b.get_facecolor()]
    assert len(marked) == 2 and len(boxes[0]) == 7
    with pytest.raises(InputError, match="jugde"):
        figures.pipeline("jugde")


def test_no_panel_has_a_frame_whatever_style_was_set():
    question = Question("q", "Is it?", ("It is.", "It is not."))
    table = figures.rank_table(question, {"one": ranked_run({"q": ["a"]})}, make_verdicts([], "hand"), 1)
    (axis,) = figures.perspectives_by_rank(question, table, 1).axes
    assert not any(spine.get_visible() for spine in axis.spines.values())


def test_places_that_a_list_does_not_reach_have_no_tile_and_are_not_counted():
    question = Question("q", "Is it?", ("It is.", "It is not."))
    table = figures.rank_table(question, {"one": ranked_run({"q": ["a", "b"]})}, make_verdicts([], "hand"), 5)
    (axis,) = figures.perspectives_by_rank(question, table, 5).axes
    assert len(axis.patches) == 2 * 2  # two ranks, two perspectives
    assert "2 of 2" in axis.get_title("left") + axis.get_title()
    runs = {"one": ranked_run({"q": ["a", "b"]}), "two": ranked_run({"q": ["a", "b", "c"]})}
    table = figures.rank_table(question, runs, make_verdicts([], "hand"), 5)
    drawn = figures.perspectives_by_rank(question, table, 3)
    drawn.canvas.draw()
    assert [len(axis.get_xticklabels()) for axis in drawn.axes] == [2, 3]  # of those that can be seen


@pytest.mark.parametrize("n", [1, 8, 9, 16, 17, 40])
def test_systems_of_one_retriever_share_a_colour_and_no_mark(n):
    systems = [f"{retriever}+mmr:{i}" for i in range(n) for retriever in ("bm25", "own")]
    looks = figures.looks_of_systems(systems)
    marks = {(look["color"], look["marker"], look.get("markerfacecolor")) for look in looks.values()}
    assert len(marks) == len(systems) and len({look["color"] for look in looks.values()}) == 2
    for look in looks.values():  # matplotlib can draw each
        plt.plot(0, 0, **look)


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


def test_tokens_are_escaped_and_the_answer_is_written_out():
    found = figures.labelled_tokens([[("<script>", "ignored"), ('"&', "<b>Yes")]])
    assert "<script>" not in found and "<b>Yes" not in found.replace("<b>&lt;b&gt;Yes</b>", "")
    assert "&lt;script&gt;" in found and "&quot;&amp; → <b>&lt;b&gt;Yes</b>" in found
    assert found.count("<span") == found.count("</span>") == 2
