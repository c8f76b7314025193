"""Exercises in notebooks: checks of answers, copies with blank solutions for students, and a table of a class's copies.

An exercise is one code cell tagged ``exercise``, written with its solution::

    # Exercise 2
    run = bd.search("bm25", sample, k=5)    # lines above "# Solution" are given to the student
    # Solution
    share = run["docno"].nunique() / len(run)
    # Check
    bd.check_answer(2, share, 0.85, hint="Count each passage once.")

A student's copy lacks the code between the two marks: a name that the check uses becomes ``name = ...``, and a
function keeps its signature and docstring. The check, which contains the result, is a folded cell of its own. From a
cell tagged ``bet`` on, where students predict something or label texts blind, a copy also lacks all outputs.
"""

from __future__ import annotations

import ast
import copy
import json
import logging
import math
import os
import re
from collections.abc import Collection, Mapping, Sequence, Set
from numbers import Real
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.errors import InputError, errors_in, printable
from berdslib.files import StrPath, write_text
from berdslib.study.notebooks import numbered_notebooks, read_notebook

logger = logging.getLogger(__name__)

TAG = "exercise"
ANSWER = "answer"  # tag of the cell above the check in a student's copy
BET = "bet"
LARGEST_COPY = 50_000_000  # bytes of a student's notebook; ours have less than 0.3 million
_ERROR = "\0error "  # prefix of an error's name, which a printed output cannot have
_DUPLICATE = r"-Copy\d*$| ?\(\d+\)$"  # what JupyterLab and browsers append to the name of a second copy
RUNS = "papermill_runs"  # executed notebooks, which nobody hands in
SOLUTION = "# Solution"
CHECK = "# Check"
RUN_BOTH = "# Run this cell, then the folded one below, which checks it."
REPOSITORY = 'repository = ""'  # the line of a notebook's opening cell that says where Colab finds the project


class CheckedAnswer(NamedTuple):
    """The result of :func:`check_answer`: whether the answer is right, also as its truth value, and a sentence."""

    right: bool
    message: str

    def __bool__(self) -> bool:
        return self.right

    def __repr__(self) -> str:
        return self.message


_BLANK = "is blank. Put your answer where the code says `...`, and run it and this check again."
_NOTHING = f"{_BLANK} (A function that returns nothing counts as blank.)"
Case = tuple[tuple[Any, ...], Any]


def check_answer(
    exercise: int, given: Any, expected: Any, *, tolerance: float | None = None, hint: str = ""
) -> CheckedAnswer:
    """Compare an answer with the expected one, and describe a mistake in a sentence.

    Args:
        exercise: number of the exercise, for the message.
        given: the answer; ``...`` (or None) is blank.
        expected: a number, truth value, text, set, list, mapping, array, Series or frame; for an answer that is a
            function, a list of cases, each ``(arguments, result)`` with the arguments as a tuple.
        tolerance: how far a number may be off. None: a whole number must be exact; others may be off by .05, or by .005
            if a number from -1 to 1 is expected, and by no more than a tenth of the expected number.
        hint: one sentence that a wrong answer adds to the message.

    Returns:
        A :class:`CheckedAnswer`, which a notebook shows as its sentence; a wrong answer raises no error.

    >>> check_answer(1, ..., 41.7)
    Exercise 1 is blank. Put your answer where the code says `...`, and run it and this check again.
    >>> check_answer(1, 0.417, 41.7)
    Exercise 1: not yet. 0.417 is a hundredth of it: it is asked for in percent.
    >>> check_answer(1, lambda x: 2 * x, [((3,), 6), ((0,), 0)])
    Exercise 1: right.
    """
    compare = _wrong_function if _are_cases(expected) else _difference
    problem = _BLANK if _is_blank(given) else compare(given, expected, tolerance)
    if problem in (_BLANK, _NOTHING):
        return CheckedAnswer(False, f"Exercise {exercise} {problem}")
    if problem:
        message = f"Exercise {exercise}: not yet. {problem}"
        return CheckedAnswer(False, f"{message} Hint: {hint}" if hint else message)
    message = f"Exercise {exercise}: right."
    return CheckedAnswer(True, message if callable(given) else f"{message} {shortened(_plain(given))}")


def _is_blank(given: Any) -> bool:
    return given is ... or given is None


def _are_cases(expected: Any) -> bool:
    if not isinstance(expected, list) or not expected:  # an array has no truth value
        return False
    return all(isinstance(case, tuple) and len(case) == 2 and isinstance(case[0], tuple) for case in expected)


def _wrong_function(given: Any, cases: Sequence[Case], tolerance: float | None) -> str:
    """Describe the first mistake of a function; "" if there is none."""
    if not callable(given):
        return f"A function is asked for, and this is {_kind(given)}."
    name = getattr(given, "__name__", "your function")
    for number, (arguments, result) in enumerate(cases):
        call = f"{name}({', '.join(map(shortened, arguments))})"
        try:
            returned = given(*copy.deepcopy(arguments))
        except Exception as error:  # noqa: BLE001  any error is shown to the student
            return f"{call} raises {type(error).__name__}: {error}."
        if _is_blank(returned) and result is not None:
            return f"{call} returns nothing." if number else _NOTHING
        problem = _difference(returned, result, tolerance)
        if problem:
            return f"{call}: {problem}"
    return ""


def _difference(given: Any, expected: Any, tolerance: float | None) -> str:
    """Describe how an answer differs from the expected one; "" if it does not."""
    kind = _kind(given)
    expected = _plain(expected)
    given = given.tolist() if isinstance(given, pd.Series) and isinstance(expected, list) else _plain(given)
    if expected is None or isinstance(expected, bool) or isinstance(given, bool):
        return "" if given is expected else f"{shortened(given)} is not the answer."
    if isinstance(expected, Set) and isinstance(given, list):
        try:
            given = set(given)
        except TypeError:  # a list of lists
            return "The items are lists themselves."
    wanted = _wanted_kind(given, expected)
    if wanted:
        return f"{wanted} is asked for, and this is {kind}."
    if isinstance(expected, Real):
        exact = 1e-9 if isinstance(expected, int) else None
        return _off(float(given), float(expected), exact if tolerance is None else tolerance)
    if isinstance(expected, Set):
        missing = len(expected - given)
        extra = len(given - expected)
        return f"{missing} of {len(expected)} are missing, and {extra} do not belong." if missing or extra else ""
    if isinstance(expected, dict):
        return _dict_difference(given, expected, tolerance)
    if isinstance(expected, list):
        return _list_difference(given, expected, tolerance)
    same = given.strip() == expected.strip() if isinstance(expected, str) else given == expected  # such as a date
    return "" if same else f"{shortened(given)} is not the answer."


def _wanted_kind(given: Any, expected: Any) -> str:
    """Name the kind of answer that is expected; "" if the answer is of this kind."""
    keys = list(expected) if isinstance(expected, dict | list) else []
    kinds: tuple[tuple[Any, str], ...] = (
        (Real, "A number"),
        (str, "A text"),
        (Set, "A set"),
        (list, f"A list of {len(keys)}"),
        (dict, f"One value for each of {shortened(keys)}"),
    )
    for kind, name in kinds:
        if isinstance(expected, kind) and not isinstance(given, kind):
            return name
    return ""


def _dict_difference(given: dict[Any, Any], expected: dict[Any, Any], tolerance: float | None) -> str:
    missing = [key for key in expected if key not in given]
    if missing:
        return f"There is no value for {shortened(missing)}."
    surplus = [key for key in given if key not in expected]
    if surplus:
        return f"{shortened(surplus)} does not belong."
    pairs = [(f"For {shortened(key)}", given[key], expected[key]) for key in expected]
    return _first_difference(pairs, tolerance)


def _list_difference(given: list[Any], expected: list[Any], tolerance: float | None) -> str:
    if len(given) != len(expected):
        return f"{len(expected)} items are asked for, not {len(given)}."
    places = [f"Item {place}" for place in range(1, len(given) + 1)]
    problem = _first_difference(list(zip(places, given, expected, strict=True)), tolerance)
    if problem and sorted(map(repr, given)) == sorted(map(repr, expected)):
        return "The items are right, and their order is not."
    return problem


def _first_difference(pairs: Sequence[tuple[str, Any, Any]], tolerance: float | None) -> str:
    for place, given, expected in pairs:
        problem = _difference(given, expected, tolerance)
        if problem:
            return f"{place}: {problem}"
    return ""


def _plain(value: Any) -> Any:
    """Return arrays, tensors, Series, frames and their scalars as plain Python, also inside lists and mappings."""
    if isinstance(value, pd.Series | pd.DataFrame):
        pairs = list(value.items())
        value = dict(pairs) if value.keys().is_unique else pairs
    elif isinstance(value, np.ndarray | np.generic) or type(value).__module__ == "torch":
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Collection) and not isinstance(value, str | bytes | set | frozenset):
        return [_plain(item) for item in value]
    return math.nan if value is pd.NA or value is pd.NaT else value


def _kind(given: Any) -> str:
    name = type(given).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _off(number: float, expected: float, tolerance: float | None) -> str:
    """Describe how a number is off; "" if it is close enough."""
    near = tolerance
    if near is None:  # half a unit of the last printed digit: one digit in percent, two or three in shares
        half_unit = 0.05 if abs(expected) > 1 else 0.005
        near = min(half_unit, abs(expected) / 10) if expected else 0.0005
    if math.isclose(number, expected, rel_tol=0, abs_tol=near) or (math.isnan(number) and math.isnan(expected)):
        return ""
    shown = f"{number:.6g}"
    if number and abs(expected) > 1 and math.isclose(number * 100, expected, rel_tol=0, abs_tol=max(near, 0.05)):
        return f"{shown} is a hundredth of it: it is asked for in percent."
    if expected and abs(number) > 1 and math.isclose(number / 100, expected, rel_tol=0, abs_tol=near):
        return f"{shown} is a hundred times it: it is asked for as a share of 1."
    if math.isnan(number):
        return "The result is NaN: a number was divided by zero, or a value is missing."
    if math.isnan(expected):
        return f"{shown} is a number, and NaN is expected: there is nothing to compute it from."
    return f"{shown} is too {'large' if number > expected else 'small'}."


# ---------------------------------------------------------------- copies for students


def is_exercise(cell: Mapping[str, Any]) -> bool:
    """Return whether a notebook's cell (as JSON) is an exercise."""
    return TAG in _tags(cell)


def _tags(cell: Mapping[str, Any]) -> list[str]:
    tags: list[str] = cell.get("metadata", {}).get("tags", [])
    return tags


def blanked(source: str) -> str:
    """Return the code of an exercise without its solution; the names and signatures that the check uses stay."""
    lines = source.splitlines()
    try:
        start = lines.index(SOLUTION)
        end = lines.index(CHECK)
    except ValueError:
        raise InputError(f'an exercise needs the lines "{SOLUTION}" and "{CHECK}": {shortened(source)}') from None
    check = "\n".join(lines[end:])
    try:
        tree = ast.parse(check)
        statements = ast.parse("\n".join(lines[start + 1 : end])).body
    except SyntaxError as error:
        raise InputError(f"an exercise must be plain Python, without magics: {error.msg}") from None
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used = names - set(_assigned(tree))  # the check assigns some names itself, such as a loop variable
    stubs: dict[str, str] = {}
    for statement in statements:
        if isinstance(statement, ast.FunctionDef):
            stubs[statement.name] = _signature(statement)
        else:
            stubs |= {name: f"{name} = ..." for name in _assigned(statement)}
    kept = [stub for name, stub in stubs.items() if name in used]
    if not kept:
        raise InputError(f"the check uses no name that the solution assigns: {shortened(check)}")
    return "\n".join([*lines[:start], "# Your answer", *kept, check])


def _assigned(tree: ast.AST) -> list[str]:
    """Return the names that code assigns."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return [name.id for name in names if isinstance(name.ctx, ast.Store)]


def _signature(function: ast.FunctionDef) -> str:
    """Return a function's code without its body, except the docstring."""
    docstring = function.body[:1] if ast.get_docstring(function) is not None else []
    function.body = [*docstring, ast.Expr(ast.Constant(...))]
    return ast.unparse(ast.fix_missing_locations(function))


def student_copy(notebook: Mapping[str, Any], repository: str = "") -> dict[str, Any]:
    """Return a notebook (as JSON) with blank exercises, without their outputs and without those from a bet on.

    `repository` is the address from which Colab fetches the project; "" leaves the opening cell unchanged.
    """
    copied: dict[str, Any] = copy.deepcopy(dict(notebook))
    copied["metadata"].pop("berdslib", None)  # the stamp would claim that our code made all outputs
    behind_bet = False
    cells = list[dict[str, Any]]()
    for cell in copied["cells"]:
        source = "".join(cell["source"])
        behind_bet = behind_bet or BET in _tags(cell)
        if cell["cell_type"] == "code" and (behind_bet or is_exercise(cell)):
            cell |= {"outputs": [], "execution_count": None}
        if repository and REPOSITORY in source:
            cell["source"] = source.replace(REPOSITORY, f"repository = {json.dumps(repository)}")
        cells += _answer_and_check(cell) if is_exercise(cell) else [cell]
    return {**copied, "cells": cells}


def _answer_and_check(cell: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return an exercise as two cells: the blank answer, and the folded check."""
    answer, _, check = blanked("".join(cell["source"])).partition(f"\n{CHECK}\n")
    other_tags = [tag for tag in _tags(cell) if tag != TAG]
    answered = {"metadata": {**cell["metadata"], "tags": [*other_tags, ANSWER]}, "source": f"{answer}\n{RUN_BOTH}"}
    folded = {"metadata": {"jupyter": {"source_hidden": True}, "tags": [TAG]}, "source": f"{CHECK}\n{check}"}
    if "id" in cell:  # notebooks before format 4.5 have no ids
        folded["id"] = f"{cell['id'][:58]}-check"
    return [{**cell, **answered}, {**cell, **folded}]


def write_students(
    folder: StrPath, repository: str = "", *, overwrite: bool = False
) -> tuple[dict[Path, int], list[Path]]:
    """Write copies of the numbered notebooks with blank exercises.

    An existing copy that differs may hold a student's work: it is kept unless `overwrite` is set.

    Returns:
        Path → number of exercises for the written copies, and the paths of the kept copies.
    """
    counts: dict[Path, int] = {}
    kept = []
    for source in numbered_notebooks().values():
        target = Path(folder) / source.name
        if target.resolve() == source.resolve():
            raise InputError(f"{folder} holds the notebooks themselves; the copies need another folder")
        with errors_in(source):
            copied = student_copy(read_notebook(source), repository)
        text = json.dumps(copied, indent=1, ensure_ascii=False) + "\n"
        if target.exists() and not overwrite and target.read_bytes() != text.encode():
            kept.append(target)
            continue
        with write_text(target) as file:
            file.write(text)
        counts[target] = sum(map(is_exercise, copied["cells"]))
    return counts, kept


# ---------------------------------------------------------------- a class's copies


STATES = ("right", "not yet", "blank", "not run", "no result", "solution", "changed", "missing", "unreadable")


class Exercise(NamedTuple):
    """An exercise of a notebook or a copy; ``texts`` are those of its outputs, for an error its name."""

    code: str
    check: str
    texts: list[str]


class ClassTable(NamedTuple):
    """A class's results; :func:`class_table` makes it.

    ``copies`` has one row per student and notebook: copy, student, notebook, right, of, and one column per exercise
    with its state. ``superseded`` names a student's other copies, ``left_out`` what holds no copy.
    """

    copies: pd.DataFrame
    superseded: list[str]
    left_out: list[str]

    @property
    def exercises(self) -> pd.DataFrame:
        """One row per exercise: notebook, exercise, and the number of copies in each state."""
        numbers = [name for name in self.copies if isinstance(name, int)]
        long = self.copies.melt(["notebook"], numbers, "exercise", "state").query("state != ''")
        state = long["state"].where(long["state"].isin(STATES), "error")
        counts = pd.crosstab([long["notebook"], long["exercise"]], state)
        return counts[[name for name in (*STATES, "error") if name in counts]].rename_axis(columns=None).reset_index()

    @property
    def students(self) -> pd.DataFrame:
        """One row per student: student, number of copies, right, of."""
        by_student = self.copies.groupby("student")
        return by_student.agg(copies=("copy", "size"), right=("right", "sum"), of=("of", "sum")).reset_index()


def class_table(folder: StrPath) -> ClassTable:
    """Return the results in the saved outputs of a class's copies.

    Notebooks at any depth count. A copy is matched to its notebook by its name, as in ``ada/03_retrieval.ipynb`` or
    ``03_retrieval_ada.ipynb``, or else by its exercises; the student is the first folder, or the rest of the name. Of
    several copies of a notebook by a student, the one with the most right answers counts (a zip file loses dates).
    Nothing is run, so an output can be forged. "changed" means that the check differs from ours, "solution" that the
    cell is ours with its solution, and "unreadable" that the copy cannot be read.

    Raises:
        InputError: a folder without copies.
    """
    folder = Path(folder)
    rows = list[dict[Any, Any]]()
    left_out = []
    ours = {stem: _checks(read_notebook(path)) for stem, path in numbered_notebooks().items()}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        stem = next((stem for stem in ours if stem in path.name), "")
        is_notebook = path.suffix == ".ipynb"
        name = printable(os.fsencode(relative).decode("utf-8", "replace"))
        if path.name == RUNS and path.is_dir():
            left_out.append(name)
        if ".ipynb_checkpoints" in path.parts or RUNS in relative.parts or path.is_dir() or not (is_notebook or stem):
            continue
        handed_in = _handed_in(path) if is_notebook else None
        stem = stem or _of_notebook(handed_in or {}, ours)
        if not is_notebook or not stem:
            left_out.append(name)
            continue
        states = {}
        for number, exercise in ours[stem].items():
            states[number] = "unreadable" if handed_in is None else _state(number, handed_in.get(number), exercise)
        counts = {"right": list(states.values()).count("right"), "of": len(states)}
        by = {"copy": name, "student": _student(name, stem), "notebook": stem}
        rows.append({**by, **counts, **states})
    if not rows:
        others = f" (left out: {', '.join(left_out)})" if left_out else ""
        raise InputError(f"no copy of a notebook in {folder}{others}; copies end in .ipynb, as ada/03_retrieval.ipynb")
    copies = pd.DataFrame(rows).fillna("")
    worse = copies.sort_values("right", kind="stable").duplicated(["student", "notebook"], keep="last").sort_index()
    superseded = [f"{row.copy} ({row.right} of {row.of} right)" for row in copies[worse].itertuples()]
    return ClassTable(copies[~worse].reset_index(drop=True), superseded, left_out)


def _student(copy: str, stem: str) -> str:
    first, *others = Path(copy).parts
    rest = re.sub(_DUPLICATE, "", Path(copy).stem).replace(stem, "").strip(" _-.")
    return first if others else rest or first


def _handed_in(path: Path) -> dict[int, Exercise] | None:
    """Return the checks of a student's copy, see :func:`_checks`; None if it cannot be read."""
    if not path.is_file() or path.stat().st_size > LARGEST_COPY:  # reading a pipe or a device may never end
        return None
    try:
        return _checks(read_notebook(path))
    except Exception as error:  # noqa: BLE001 - one damaged copy must not cost the others
        logger.info("%s cannot be read: %s", path, error)
        return None


def _of_notebook(handed_in: Mapping[int, Exercise], ours: Mapping[str, Mapping[int, Exercise]]) -> str:
    """Return the notebook that shares the most checks with a copy; "" if none shares any."""
    checks_in_copy = {exercise.check for exercise in handed_in.values()}
    best = ""
    most = 0
    for stem, checks in ours.items():
        shared = checks_in_copy & {exercise.check for exercise in checks.values()}
        if len(shared) > most:
            best = stem
            most = len(shared)
    return best


def _checks(notebook: Mapping[str, Any]) -> dict[int, Exercise]:
    """Return exercise number → the exercise."""
    checks = {}
    for cell in filter(is_exercise, notebook["cells"]):
        code, _, check = "".join(cell["source"]).partition(CHECK)
        number = re.search(r"check_answer\((\d{1,4})\b", check)
        if number:
            texts = [_text_of(output) for output in cell.get("outputs", [])]
            checks[int(number[1])] = Exercise(code.strip(), check.strip(), texts)
    return checks


def _text_of(output: Mapping[str, Any]) -> str:
    if "ename" in output:
        return f"{_ERROR}{output['ename']}"
    return "".join(output.get("data", {}).get("text/plain", "") or output.get("text", ""))


def _state(number: int, handed_in: Exercise | None, ours: Exercise) -> str:
    """Return the state of an exercise in a copy, such as "right", "not yet" or "blank"."""
    if handed_in is None:
        return "missing"
    if handed_in.check != ours.check:
        return "changed"
    if handed_in.code == ours.code:  # not that of a copy, which has no line "# Solution"
        return "solution"
    texts = [text for text in handed_in.texts if text.strip()]
    for text in texts:
        if text.startswith(_ERROR):
            name = text.removeprefix(_ERROR)
            return shortened(printable(name)).strip("'\"")
    said = re.findall(rf"Exercise {number}:? (right|not yet|is blank)", "\n".join(texts))
    steps = said[-ours.check.count("check_answer(") :]
    for state in ("not yet", "is blank", "right"):  # the worst of several steps
        if state in steps:
            return state.removeprefix("is ")
    return "no result" if texts else "not run"
