"""Exercises: what an answer is told, and what is left of a solution in a student's copy."""

import io
import json
import os

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner

import berdslib as bd
from berdslib.cli import main
from berdslib.errors import InputError
from berdslib.study import exercises
from berdslib.study.exercises import blanked, check_answer, class_table, student_copy, write_students


def divides(a, b):
    return a / b


CASES = [((6, 3), 2), ((1, 0), 0)]


@pytest.mark.parametrize(
    ("given", "expected", "words"),
    [
        (..., 3, "is blank"),
        (lambda x: None, [((1,), 1)], "is blank"),
        (41.76, 41.7, "41.76 is too large"),
        (0.417, 41.7, "asked for in percent"),
        (41.7, 0.417, "as a share of 1"),
        (float("nan"), 1, "NaN"),
        (0, float("nan"), "NaN"),
        (pd.DataFrame({"a": [1]}), 3, "a DataFrame"),
        (pd.Series([1, 3], index=["x", "y"]), [1, 2], "Item 2"),
        ("41.7", 41.7, "A number is asked for, and this is a str"),
        ("BM25", "bm25", "'BM25' is not the answer"),
        ({"a"}, {"a", "b"}, "1 of 2 are missing, and 0 do not belong"),
        ([2, 1], [1, 2], "The items are right, and their order is not"),
        ({"a": 1}, {"a": 1, "b": 2}, "There is no value for ['b']"),
        (pd.Series({"a": 1.0}), {"a": 2}, "For 'a': 1 is too small"),
        (divides, CASES, "divides(1, 0) raises ZeroDivisionError: division by zero."),
        (lambda x: x or None, [((1,), 1), ((0,), 0)], "<lambda>(0) returns nothing."),
        (3, CASES, "A function is asked for, and this is an int"),
        ([[1], [2]], {1, 2}, "The items are lists themselves"),
        (np.array([1, 3]), np.array([1, 2]), "Item 2: 3 is too large"),
        (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 3]}), "For 'a': For 1: 2 is too small"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong(given, expected, words):
    answer = bd.check_answer(4, given, expected, hint="Count again.")
    assert not answer and not answer.right and words in repr(answer) and repr(answer).startswith("Exercise 4")
    assert ("Hint: Count again." in repr(answer)) != ("blank" in words)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (41.72, 41.7),
        (" bm25", "bm25"),
        (["b", "a"], {"a", "b"}),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        ({"a": 1}.keys(), ["a"]),
        ([float("nan")], [float("nan")]),
        (torch.tensor(2.0), 2),
        ({"a": np.float64(0.5), "b": [np.int64(1)]}, {"a": 0.5, "b": [1]}),
        (lambda x: None, [((1,), None)]),
        (pd.Series([1, None], dtype="Int64"), pd.Series([1, None], dtype="Int64")),
        (pd.DataFrame({"a": [1.0], "b": ["x"]}), pd.DataFrame({"a": [1.001], "b": ["x"]})),
    ],
)
def test_a_right_answer_is_right(given, expected):
    answer = bd.check_answer(4, given, expected)
    assert answer and answer.right and repr(answer).startswith("Exercise 4: right.")
    assert "np." not in repr(answer)


def test_a_function_cannot_spoil_the_cases():
    def takes_the_last(items):
        return items.pop()

    cases = [(([1, 2],), 2)]
    assert bd.check_answer(1, takes_the_last, cases).right and bd.check_answer(1, takes_the_last, cases).right


SOLVED = '''# Exercise 1
numbers = [1, 2, 3]
# Solution
def mean(values):
    """Return the mean."""
    total = sum(values)  # a step
    return total / len(values)


helper = 5
low, high = min(numbers), max(numbers)
for value in numbers:
    last = value
# Check
bd.check_answer(1, [mean(numbers), high, last], [2, 3, 3])'''


def test_of_a_solution_what_the_check_needs_is_left_blank():
    left = blanked(SOLVED)
    assert left.splitlines()[:3] == ["# Exercise 1", "numbers = [1, 2, 3]", "# Your answer"]
    assert "helper" not in left and "low" not in left and "total" not in left
    assert 'def mean(values):\n    """Return the mean."""\n    ...' in left
    assert "high = ..." in left and "last = ..." in left
    assert left.endswith("# Check\nbd.check_answer(1, [mean(numbers), high, last], [2, 3, 3])")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("share = 5\n# Check\nbd.check_answer(1, share, 5)", "needs the lines"),
        ("# Solution\nshare = 5", "needs the lines"),
        ("# Solution\n%time share = 5\n# Check\nbd.check_answer(1, share, 5)", "without magics"),
        ("# Solution\nshare = 5\n# Check\nbd.check_answer(1, other, 5)", "other"),
    ],
)
def test_an_exercise_that_cannot_be_blanked_is_an_error(source, words):
    with pytest.raises(InputError, match=words):
        blanked(source)


def notebook(source=SOLVED):
    code = {"cell_type": "code", "execution_count": 1, "outputs": [{"output_type": "stream", "text": "seen"}]}
    return {
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": ["# Solution\n", "stays"]},
            {**code, "metadata": {}, "source": ['repository = ""  # for Colab']},
            {**code, "metadata": {"tags": ["exercise"]}, "source": source},
        ],
        "metadata": {"berdslib": {"executed": ["12345678"]}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def test_a_copy_changes_the_exercises_only():
    before = notebook()
    made = student_copy(before, 'https://example.org/me/"x"')
    assert before == notebook()  # the original is not touched
    assert "berdslib" not in made["metadata"]  # its outputs are not all there
    prose, opening, answer, check = made["cells"]
    assert prose == before["cells"][0]
    assert opening["outputs"] == before["cells"][1]["outputs"]
    names = {}
    exec(opening["source"], names)
    assert names["repository"] == 'https://example.org/me/"x"'  # quotes in an address end no string
    for cell in (answer, check):
        assert cell["outputs"] == [] and cell["execution_count"] is None and "# Solution" not in cell["source"]


def test_the_check_holds_the_result_and_is_a_folded_cell_of_its_own():
    *_, answer, check = student_copy(notebook())["cells"]
    assert "check_answer" not in answer["source"] and not exercises.is_exercise(answer)
    assert check["source"] == SOLVED[SOLVED.index("# Check") :] and exercises.is_exercise(check)
    assert check["metadata"]["jupyter"] == {"source_hidden": True}


def test_every_copy_is_a_valid_notebook(tmp_path):
    for path in write_students(tmp_path)[0]:
        copied = json.loads(path.read_text())
        nbformat.validate(copied)
        ids = [cell["id"] for cell in copied["cells"]]
        assert len(set(ids)) == len(ids)


def test_a_copy_shows_no_output_behind_a_bet():
    one = notebook()
    shown, bet = ({**one["cells"][1], "source": source} for source in ("shown", "hidden"))
    one["cells"] = [shown, {"cell_type": "markdown", "metadata": {"tags": ["bet"]}, "source": "Bet!"}, bet]
    before, prose, after = student_copy(one)["cells"]
    assert before == shown and prose == one["cells"][1]
    assert after == {**bet, "outputs": [], "execution_count": None}


def test_an_error_names_the_notebook_and_the_notebooks_are_not_written_over(tmp_path, monkeypatch):
    (tmp_path / "00_a.ipynb").write_text(json.dumps(notebook("share = 1")))
    monkeypatch.setattr("berdslib.study.notebooks.notebook_folder", lambda: tmp_path)
    with pytest.raises(InputError, match=r"00_a\.ipynb.*needs the lines"):
        write_students(tmp_path / "students")
    with pytest.raises(InputError, match="holds the notebooks themselves"):
        write_students(tmp_path)


def test_the_command_writes_all_and_counts_them(tmp_path):
    done = CliRunner().invoke(main, ["notebook", "students", str(tmp_path / "class")], catch_exceptions=False)
    assert done.exit_code == 0 and "exercises, all blank" in done.output
    assert "links to ../docs" in done.stderr
    (tmp_path / "docs").mkdir()
    assert not CliRunner().invoke(main, ["notebook", "students", str(tmp_path / "again")]).stderr
    assert len(list((tmp_path / "class").glob("*.ipynb"))) == 13


def executed(copy, *said):
    """Fill the outputs of a copy's exercises, as a student who saved it."""
    made = json.loads(copy.read_text())
    cells = [cell for cell in made["cells"] if "exercise" in cell["metadata"].get("tags", [])]
    for cell, words in zip(cells, said, strict=False):
        cell["outputs"] = [{"output_type": "execute_result", "data": {"text/plain": [words]}}] if words else []
    return made, cells


def test_a_class_is_one_table_of_what_its_copies_say(tmp_path):
    (blank,) = [path for path in write_students(tmp_path / "blank")[0] if path.stem.startswith("00")]
    for name in ("ada", "bo", "cy"):
        (tmp_path / "class" / name).mkdir(parents=True)
    ada = executed(
        blank, "Exercise 1: right. 3", "Exercise 2: not yet. 3 is too large.", "Exercise 3 is blank. Put", ""
    )[0]
    bo, cells = executed(blank, "Exercise 1: right.", "Exercise 2: right.")
    cells[0]["source"] = "".join(cells[0]["source"]).partition("# Check")[0] + "# Check\nbd.check_answer(1, 1, 1)"
    cells[2]["outputs"] = [{"output_type": "error", "ename": "NameError", "evalue": "x", "traceback": []}]
    bo["cells"].remove(cells[3])
    (tmp_path / "class" / "ada" / blank.name).write_text(json.dumps(ada))
    (tmp_path / "class" / "bo" / f"late_{blank.name}").write_text(json.dumps(bo))
    (tmp_path / "class" / "cy" / blank.name).write_text("{")
    (tmp_path / "class" / "notes.ipynb").write_text("{}")
    (tmp_path / "class" / "ada" / "03_retrieval.html").write_text("printed")
    results = class_table(tmp_path / "class")
    table = results.copies
    assert table[["student", "right", "of"]].to_numpy().tolist() == [["ada", 1, 4], ["bo", 1, 4], ["cy", 0, 4]]
    assert table["notebook"].tolist() == ["00_quickstart"] * 3
    assert table[[1, 2, 3, 4]].to_numpy().tolist() == [
        ["right", "not yet", "blank", "not run"],
        ["changed", "right", "NameError", "missing"],
        ["unreadable"] * 4,
    ]
    assert sorted(results.left_out) == ["ada/03_retrieval.html", "notes.ipynb"]

    command = ["notebook", "check", str(tmp_path / "class")]
    done = CliRunner().invoke(main, command, catch_exceptions=False)
    assert done.exit_code == 0 and "late_00_quickstart.ipynb" in done.stdout and "notes.ipynb" in done.stderr
    made = json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)
    assert made["left_out"] == results.left_out and len(made["copies"]) == len(made["students"]) == 3
    (tmp_path / "class" / "other").mkdir()
    with pytest.raises(InputError):
        class_table(tmp_path / "class" / "other")


def test_totals_count_every_copy_once(one_notebook):
    said = {"ada": "right", "bo": "right", "cy": "not yet", "di": "is blank"}
    for name, words in said.items():
        with_outputs(one_notebook, f"00_a_{name}", [saying(f"Exercise 1: {words}.")])
    with_outputs(one_notebook, "00_a_ed", [{"ename": "NameError"}])
    results = class_table(one_notebook)
    assert results.exercises.to_dict("records") == [
        {"notebook": "00_a", "exercise": 1, "right": 2, "not yet": 1, "blank": 1, "error": 1}
    ]
    assert results.students.to_numpy().tolist() == [
        ["ada", 1, 1, 1], ["bo", 1, 1, 1], ["cy", 1, 0, 1], ["di", 1, 0, 1], ["ed", 1, 0, 1]
    ]  # fmt: skip


@pytest.mark.parametrize("second", ["ada/00_a-Copy1", "ada/00_a (1)", "ada/late/00_a", "ada/my work", "00_a_ada(2)"])
def test_of_several_copies_the_best_counts_and_the_others_are_named(one_notebook, second):
    first = "ada/00_a" if second.startswith("ada") else "00_a_ada"
    for name in (first, second, "ada/papermill_runs/00_a-12ab/00_a"):
        (one_notebook / name).parent.mkdir(parents=True, exist_ok=True)
    for best, other in ((first, second), (second, first)):
        for name, state in ((best, "right"), (other, "not yet")):
            with_outputs(one_notebook, name, [saying(f"Exercise 1: {state}.")])
        with_outputs(one_notebook, "ada/papermill_runs/00_a-12ab/00_a", [])
        results = class_table(one_notebook)
        assert results.copies[["copy", "student", 1]].to_numpy().tolist() == [[f"{best}.ipynb", "ada", "right"]]
        assert results.superseded == [f"{other}.ipynb (0 of 1 right)"] and results.left_out == ["ada/papermill_runs"]


def test_our_own_notebook_handed_in_is_no_answer(one_notebook):
    (one_notebook / "00_a.ipynb").write_text(json.dumps(notebook()))
    assert class_table(one_notebook).copies[1].tolist() == ["solution"]


def test_a_table_for_a_spreadsheet_has_a_row_for_each_copy_and_no_formula(one_notebook):
    (one_notebook / "=cmd").mkdir()
    with_outputs(one_notebook, "=cmd/00_a", [saying("Exercise 1: right.")])
    done = CliRunner().invoke(main, ["notebook", "check", str(one_notebook), "--csv"], catch_exceptions=False)
    table = pd.read_csv(io.StringIO(done.stdout))
    assert table.to_numpy().tolist() == [["'=cmd/00_a.ipynb", "'=cmd", "00_a", 1, 1, "right"]]


@pytest.fixture
def one_notebook(tmp_path, monkeypatch):
    """The one notebook that there is, with an exercise, and the folder of a class."""
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "00_a.ipynb").write_text(json.dumps(notebook()))
    monkeypatch.setattr("berdslib.study.notebooks.notebook_folder", lambda: tmp_path / "ours")
    (tmp_path / "class").mkdir()
    return tmp_path / "class"


def test_answers_of_students_are_kept_unless_the_teacher_says_otherwise(one_notebook):
    (copy,) = write_students(one_notebook)[0]
    assert write_students(one_notebook) == ({copy: 1}, [])  # as it was written
    worked = copy.read_text() + " "
    copy.write_text(worked)
    assert write_students(one_notebook) == ({}, [copy]) and copy.read_text() == worked
    assert write_students(one_notebook, overwrite=True) == ({copy: 1}, []) and copy.read_text() != worked


def with_outputs(one_notebook, name, outputs, **changes):
    copied = student_copy(notebook())
    exercise = next(cell for cell in copied["cells"] if "exercise" in cell.get("metadata", {}).get("tags", []))
    exercise["outputs"] = outputs
    exercise.update(changes)
    (one_notebook / f"{name}.ipynb").write_text(json.dumps(copied))


def saying(text):
    return {"output_type": "execute_result", "data": {"text/plain": [text]}}


@pytest.mark.parametrize(
    ("outputs", "state"),
    [
        ([saying("Exercise 1: right. 3")], "right"),
        ([saying("Exercise 1: not yet."), saying("Exercise 1: right.")], "right"),
        ([saying("right")], "no result"),
        ([saying("Exercise 99: right")], "no result"),
        ([saying("Exercise 1: right."), {"ename": "NameError"}], "NameError"),
        ([saying("NameError")], "no result"),
        ([], "not run"),
    ],
)
def test_what_counts_as_right(one_notebook, outputs, state):
    with_outputs(one_notebook, "00_a", outputs)
    table = class_table(one_notebook).copies
    assert table[1].tolist() == [state] and table["right"].tolist() == [int(state == "right")]


@pytest.mark.parametrize(
    ("first", "second", "state"),
    [
        ("right", "right", "right"),
        ("not yet", "right", "not yet"),
        ("is blank", "right", "blank"),
        ("right", "is blank", "blank"),
    ],
)
def test_of_an_exercise_in_two_steps_the_worst_counts(one_notebook, first, second, state):
    steps = notebook()
    exercise = next(cell for cell in steps["cells"] if "exercise" in cell.get("metadata", {}).get("tags", []))
    lines = "".join(exercise["source"]).splitlines()
    exercise["source"] = "\n".join([*lines, lines[-1]])
    ours = one_notebook.parent / "ours" / "00_a.ipynb"
    ours.write_text(json.dumps(steps))
    exercise["source"] = exercise["source"].replace("# Solution", "# Mine")
    exercise["outputs"] = [
        {"output_type": "stream", "text": [f"Step 1. Exercise 1: {first}.\n"]},
        saying(f"Exercise 1: {second}."),
    ]
    (one_notebook / "00_a.ipynb").write_text(json.dumps(steps))
    assert class_table(one_notebook).copies[1].tolist() == [state]


@pytest.mark.parametrize(
    "damage",
    [
        {"outputs": 5}, {"outputs": None}, {"outputs": "text"}, {"outputs": [5]}, {"outputs": [{"data": 5}]},
        {"outputs": [{"data": None}]}, {"outputs": [{"data": {"text/plain": 5}}]}, {"source": None}, {"source": 7},
        {"outputs": [{"data": {"text/plain": [5]}}]}, {"outputs": [{"ename": 5}]}, {"metadata": {"tags": 5}},
        {"metadata": {"tags": None}}, {"source": "# Check\nbd.check_answer(" + "9" * 5000},
    ],
)  # fmt: skip
def test_a_damaged_copy_costs_itself_only(one_notebook, damage):
    with_outputs(one_notebook, "00_a_bad", **{"outputs": [], **damage})
    with_outputs(one_notebook, "00_a_good", [saying("Exercise 1: right.")])
    table = class_table(one_notebook).copies.set_index("copy")
    assert table.loc["00_a_good.ipynb", 1] == "right"
    assert table.loc["00_a_bad.ipynb", 1] in ("unreadable", "missing", "5")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes with a name")
def test_pipes_devices_huge_files_and_odd_names_neither_hang_nor_end_it(one_notebook, monkeypatch):
    monkeypatch.setattr("berdslib.study.exercises.LARGEST_COPY", 10_000)
    os.mkfifo(one_notebook / "00_a_pipe.ipynb")
    (one_notebook / "00_a_zero.ipynb").symlink_to("/dev/zero")
    with_outputs(one_notebook, "00_a_huge", [saying("x" * 20_000)])
    with_outputs(one_notebook, "00_a_\x1b[31m", [{"ename": "E" * 1000}])
    os.rename(os.fsencode(one_notebook / "00_a_\x1b[31m.ipynb"), os.fsencode(one_notebook) + b"/00_a_\xff.ipynb")
    table = class_table(one_notebook).copies
    table["copy"].str.encode("utf-8")
    assert table[1].str.len().max() < 50 and sorted(table[1])[1:] == ["unreadable"] * 3


def test_a_copy_under_another_name_is_known_by_its_exercises(one_notebook):
    with_outputs(one_notebook, "gina", [saying("Exercise 1: right.")])
    assert class_table(one_notebook).copies[["copy", "notebook", 1]].to_numpy().tolist() == [
        ["gina.ipynb", "00_a", "right"]
    ]


@pytest.mark.parametrize(
    ("given", "expected", "right"),
    [
        (0.0, 0.003, False), (0.0031, 0.003, True), (5.04, 5, False), (5, 5.0, True), (5.0, 5, True),
        (5.04, 5.0, True), (0.5, 0.504, True), (1e-9, 0.0, True), (0.01, 0.0, False), (41.7, 41.74, True),
        (-0.02, 0.02, False),
    ],
)  # fmt: skip
def test_how_far_a_number_may_be_off(given, expected, right):
    assert check_answer(1, given, expected).right == right
