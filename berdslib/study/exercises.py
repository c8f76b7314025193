"""Exercises in notebooks: checking an answer, copies with blank solutions for students, a table of a class's copies.

An exercise is one code cell tagged ``exercise``. It is written once, in the solution form::

    # Exercise 2
    run = bd.search("bm25", sample, k=5)    # lines above "# Solution" are given to the student
    # Solution
    share = run["docno"].nunique() / len(run)
    # Check
    bd.check_answer(2, share, 0.85, hint="Count each passage once.")

In a student's copy, what stands between the two marks is blank: a name that the check uses becomes ``name = ...``, and
a function keeps its signature and docstring.
"""

from __future__ import annotations

import ast
import copy
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence, Set
from numbers import Real
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.errors import InputError, errors_in
from berdslib.files import StrPath, write_text
from berdslib.study.notebooks import numbered_notebooks, read_notebook

TAG = "exercise"
SOLUTION, CHECK = "# Solution", "# Check"
REPOSITORY = 'repository = ""'  # the line of a notebook's opening cell that says where Colab finds the project


class Answer(NamedTuple):
    """What :func:`check_answer` found: whether the answer is right, which is its truth value, and a sentence."""

    right: bool
    message: str

    def __bool__(self) -> bool:
        return self.right

    def __repr__(self) -> str:
        return self.message


_BLANK = "is blank. Put your answer where the cell says `...`, and run it again."
_NOTHING = f"{_BLANK} (A function that returns nothing counts as blank.)"
Case = tuple[tuple[Any, ...], Any]


def check_answer(exercise: int, given: Any, expected: Any, *, tolerance: float | None = None, hint: str = "") -> Answer:
    """Compare an answer with what is expected, and say in a sentence what is wrong with it.

    Args:
        exercise: its number, for the message.
        given: the answer; ``...`` (or None) is blank.
        expected: a number, truth value, text, set, list, mapping, array, Series or frame; for an answer that is a
            function, a list of cases, each ``(arguments, result)`` with the arguments as a tuple.
        tolerance: how far a number may be off; None for .05, and .005 where a number from -1 to 1 is expected.
        hint: one sentence for somebody whose answer is wrong.

    Returns:
        An :class:`Answer`, which a notebook shows as its sentence; nothing is raised for a wrong answer.

    >>> check_answer(1, ..., 41.7)
    Exercise 1 is blank. Put your answer where the cell says `...`, and run it again.
    >>> check_answer(1, 0.417, 41.7)
    Exercise 1: not yet. 0.417 is a hundredth of it: it is asked for in percent.
    >>> check_answer(1, lambda x: 2 * x, [((3,), 6), ((0,), 0)])
    Exercise 1: right.
    """
    compare = _wrong_function if _are_cases(expected) else _difference
    problem = _BLANK if _is_blank(given) else compare(given, expected, tolerance)
    if problem in (_BLANK, _NOTHING):
        return Answer(False, f"Exercise {exercise} {problem}")
    if problem:
        return Answer(False, f"Exercise {exercise}: not yet. {problem}" + (f" Hint: {hint}" if hint else ""))
    return Answer(True, f"Exercise {exercise}: right." + ("" if callable(given) else f" {shortened(_plain(given))}"))


def _is_blank(given: Any) -> bool:
    return given is ... or given is None


def _are_cases(expected: Any) -> bool:
    if not isinstance(expected, list) or not expected:  # an array has no truth value
        return False
    return all(isinstance(case, tuple) and len(case) == 2 and isinstance(case[0], tuple) for case in expected)


def _wrong_function(given: Any, cases: Sequence[Case], tolerance: float | None) -> str:
    """Return what is wrong with a function, "" if nothing is."""
    if not callable(given):
        return f"A function is asked for, and this is {_kind(given)}."
    name = getattr(given, "__name__", "your function")
    for number, (arguments, result) in enumerate(cases):
        call = f"{name}({', '.join(map(shortened, arguments))})"
        try:
            got = given(*copy.deepcopy(arguments))
        except Exception as error:  # noqa: BLE001  whatever it raises is shown to the student
            return f"{call} raises {type(error).__name__}: {error}."
        if _is_blank(got) and result is not None:
            return f"{call} returns nothing." if number else _NOTHING
        if problem := _difference(got, result, tolerance):
            return f"{call}: {problem}"
    return ""


def _difference(given: Any, expected: Any, tolerance: float | None) -> str:
    """Return how an answer differs from what is expected, "" if it does not."""
    given, expected = _plain(given), _plain(expected)
    if expected is None or isinstance(expected, bool) or isinstance(given, bool):
        return "" if given is expected else f"{shortened(given)} is not the answer."
    if isinstance(expected, Set) and isinstance(given, list):
        try:
            given = set(given)
        except TypeError:  # a list of lists
            return "The items are lists themselves."
    keys = list(expected) if isinstance(expected, dict | list) else []
    kinds: tuple[tuple[Any, str], ...] = (
        (Real, "A number"), (str, "A text"), (Set, "A set"), (list, f"A list of {len(keys)}"),
        (dict, f"One value for each of {shortened(keys)}"),
    )  # fmt: skip
    for kind, what in kinds:
        if isinstance(expected, kind) and not isinstance(given, kind):
            return f"{what} is asked for, and this is {_kind(given)}."
    if isinstance(expected, Real):
        return _off(float(given), float(expected), tolerance)
    if isinstance(expected, Set):
        missing, extra = len(expected - given), len(given - expected)
        return f"{missing} of {len(expected)} are missing, and {extra} do not belong." if missing or extra else ""
    if isinstance(expected, dict):
        if without := [key for key in expected if key not in given]:
            return f"There is no value for {shortened(without)}."
        if surplus := [key for key in given if key not in expected]:
            return f"{shortened(surplus)} does not belong."
        pairs = [(f"For {shortened(key)}", given[key], expected[key]) for key in expected]
        return _first_difference(pairs, tolerance)
    if isinstance(expected, list):
        if len(given) != len(expected):
            return f"{len(expected)} items are asked for, not {len(given)}."
        places = [f"Item {place}" for place in range(1, len(given) + 1)]
        problem = _first_difference(list(zip(places, given, expected, strict=True)), tolerance)
        in_order = not problem or sorted(map(repr, given)) != sorted(map(repr, expected))
        return problem if in_order else "The items are right, and their order is not."
    same = given.strip() == expected.strip() if isinstance(expected, str) else given == expected  # a date, say
    return "" if same else f"{shortened(given)} is not the answer."


def _first_difference(pairs: Sequence[tuple[str, Any, Any]], tolerance: float | None) -> str:
    problems = ((where, _difference(mine, wanted, tolerance)) for where, mine, wanted in pairs)
    return next((f"{where}: {problem}" for where, problem in problems if problem), "")


def _plain(value: Any) -> Any:
    """Return arrays, tensors, Series, frames and their scalars as plain Python, inside of lists and mappings too."""
    if isinstance(value, pd.Series | pd.DataFrame):
        pairs = list(value.items())
        value = dict(pairs) if value.keys().is_unique else pairs
    elif isinstance(value, np.ndarray | np.generic) or type(value).__module__ == "torch":
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, Collection) and not isinstance(value, str | bytes | set | frozenset):
        return [_plain(one) for one in value]
    return math.nan if value is pd.NA or value is pd.NaT else value


def _kind(given: Any) -> str:
    name = type(given).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _off(number: float, expected: float, tolerance: float | None) -> str:
    near = (0.05 if abs(expected) > 1 else 0.005) if tolerance is None else tolerance
    if math.isclose(number, expected, rel_tol=0, abs_tol=near) or (math.isnan(number) and math.isnan(expected)):
        return ""
    shown = f"{number:.6g}"
    if number and abs(expected) > 1 and math.isclose(number * 100, expected, rel_tol=0, abs_tol=max(near, 0.05)):
        return f"{shown} is a hundredth of it: it is asked for in percent."
    if expected and abs(number) > 1 and math.isclose(number / 100, expected, rel_tol=0, abs_tol=near):
        return f"{shown} is a hundred times it: it is asked for as a share of 1."
    if math.isnan(number):
        return "It came out as NaN: something was divided by nothing, or a value is missing."
    return f"{shown} is too {'large' if number > expected else 'small'}."


# ---------------------------------------------------------------- copies for students


def is_exercise(cell: Mapping[str, Any]) -> bool:
    """Say whether a notebook's cell (as JSON) is an exercise."""
    return TAG in cell.get("metadata", {}).get("tags", [])


def blanked(source: str) -> str:
    """Return the code of an exercise without its solution: of what the check uses, a name or a signature is left."""
    lines = source.splitlines()
    try:
        start, end = lines.index(SOLUTION), lines.index(CHECK)
    except ValueError:
        raise InputError(f'an exercise needs the lines "{SOLUTION}" and "{CHECK}": {shortened(source)}') from None
    solution, check = "\n".join(lines[start + 1 : end]), "\n".join(lines[end:])
    try:
        names = [node for node in ast.walk(ast.parse(check)) if isinstance(node, ast.Name)]
        # What the check binds itself, as a loop does, is not asked for.
        used = {n.id for n in names} - {n.id for n in names if isinstance(n.ctx, ast.Store)}
        statements = ast.parse(solution).body
    except SyntaxError as error:
        raise InputError(f"an exercise must be plain Python, without magics: {error.msg}") from None
    stubs: dict[str, str] = {}
    for statement in statements:
        if isinstance(statement, ast.FunctionDef):
            docstring = statement.body[:1] if ast.get_docstring(statement) is not None else []
            statement.body = [*docstring, ast.Expr(ast.Constant(...))]
            stubs[statement.name] = ast.unparse(ast.fix_missing_locations(statement))
            continue
        bound = (n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        stubs |= {name: f"{name} = ..." for name in bound}
    left = [stub for name, stub in stubs.items() if name in used]
    if not left:
        raise InputError(f"the check uses nothing that the solution makes: {shortened(check)}")
    return "\n".join([*lines[:start], "# Your answer", *left, check])


def student_copy(notebook: Mapping[str, Any], repository: str = "") -> dict[str, Any]:
    """Return a notebook (as JSON) in the solution form with blank exercises, without output; everything else stays.

    `repository` is the address of the project's copy that Colab is to fetch; "" leaves the opening cell as it is.
    """
    copied: dict[str, Any] = copy.deepcopy(dict(notebook))
    copied["metadata"].pop("berdslib", None)  # the stamp says which code made all outputs
    for cell in copied["cells"]:
        source = "".join(cell["source"])
        if is_exercise(cell):
            cell |= {"source": blanked(source), "outputs": [], "execution_count": None}
        elif repository and REPOSITORY in source:
            cell["source"] = source.replace(REPOSITORY, f"repository = {json.dumps(repository)}")
    return copied


def write_students(folder: StrPath, repository: str = "") -> dict[Path, int]:
    """Write copies of the numbered notebooks with blank exercises; return path → how many."""
    counts = {}
    for source in numbered_notebooks().values():
        target = Path(folder) / source.name
        if target.resolve() == source.resolve():
            raise InputError(f"{folder} holds the notebooks themselves; the copies need another folder")
        with errors_in(source):
            made = student_copy(read_notebook(source), repository)
        with write_text(target) as file:
            file.write(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
        counts[target] = sum(map(is_exercise, made["cells"]))
    return counts


# ---------------------------------------------------------------- a class's copies


def class_table(folder: StrPath) -> pd.DataFrame:
    """Return what the saved outputs of a class's copies say: copy, notebook, right, of, then a column an exercise.

    Every notebook at any depth counts whose name holds that of one of ours, such as ``ada/03_retrieval.ipynb``. Nothing
    is run, so an output can be forged; a check that is not ours is "changed".
    """
    folder, rows = Path(folder), list[dict[Any, Any]]()
    ours = {stem: _checks(read_notebook(path)) for stem, path in numbered_notebooks().items()}
    for path in sorted(folder.rglob("*.ipynb")):
        stem = next((stem for stem in ours if stem in path.stem), None)
        if stem is None or ".ipynb_checkpoints" in path.parts:
            continue
        try:
            handed_in = _checks(read_notebook(path))
        except InputError:
            states = dict.fromkeys(ours[stem], "unreadable")
        else:
            states = {n: _state(handed_in.get(n), check) for n, (check, _) in ours[stem].items()}
        counts = {"right": list(states.values()).count("right"), "of": len(states)}
        rows.append({"copy": str(path.relative_to(folder)), "notebook": stem, **counts, **states})
    if not rows:
        raise InputError(f"no copy of a notebook in {folder}; a name holds the notebook's, as ada/03_retrieval.ipynb")
    return pd.DataFrame(rows).fillna("")


def _checks(notebook: Mapping[str, Any]) -> dict[int, tuple[str, str]]:
    """Return the number of each exercise → (its check, what its outputs say)."""
    found = {}
    for cell in filter(is_exercise, notebook["cells"]):
        check = "".join(cell["source"]).partition(CHECK)[2].strip()
        if number := re.search(r"check_answer\((\d+)", check):
            said = [o.get("ename") or "".join(o.get("data", {}).get("text/plain", "")) for o in cell.get("outputs", [])]
            found[int(number[1])] = check, "".join(said)
    return found


def _state(handed_in: tuple[str, str] | None, check: str) -> str:
    if handed_in is None:
        return "missing"
    if handed_in[0] != check:
        return "changed"
    states = re.match(r"Exercise \d+:? (right|not yet|is blank)", handed_in[1])
    return states[1].removeprefix("is ") if states else handed_in[1] or "not run"
