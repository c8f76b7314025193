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
LARGEST_COPY = 50_000_000  # bytes of a student's notebook; ours have less than 0.3 million
_ERROR = "\0error "  # in front of an error's name, so that no output that a student prints passes for one
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
        tolerance: how far a number may be off. None: a whole number has to be exact; others may be off by .05, or by
            .005 where a number from -1 to 1 is expected, and by no more than a tenth of what is expected.
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
        exact = 1e-9 if isinstance(expected, int) else None
        return _off(float(given), float(expected), exact if tolerance is None else tolerance)
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
    near = tolerance
    if near is None:  # numbers are shown with one digit in percent, and with two or three as shares
        near = min(0.05 if abs(expected) > 1 else 0.005, abs(expected) / 10) if expected else 0.0005
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


def write_students(
    folder: StrPath, repository: str = "", *, overwrite: bool = False
) -> tuple[dict[Path, int], list[Path]]:
    """Write copies of the numbered notebooks with blank exercises.

    A copy that is there already and differs may hold a student's work: it is kept unless `overwrite` says otherwise.

    Returns:
        Path → how many exercises, of the copies that were written; and the paths of those that were kept.
    """
    counts: dict[Path, int] = {}
    kept = []
    for source in numbered_notebooks().values():
        target = Path(folder) / source.name
        if target.resolve() == source.resolve():
            raise InputError(f"{folder} holds the notebooks themselves; the copies need another folder")
        with errors_in(source):
            made = student_copy(read_notebook(source), repository)
        text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
        if target.exists() and not overwrite and target.read_bytes() != text.encode():
            kept.append(target)
            continue
        with write_text(target) as file:
            file.write(text)
        counts[target] = sum(map(is_exercise, made["cells"]))
    return counts, kept


# ---------------------------------------------------------------- a class's copies


def class_table(folder: StrPath) -> pd.DataFrame:
    """Return what the saved outputs of a class's copies say: copy, notebook, right, of, then a column an exercise.

    Every notebook at any depth counts. Whose copy it is, its name says, as in ``ada/03_retrieval.ipynb``, or else its
    exercises; a copy that neither identifies has the notebook "?". Nothing is run, so an output can be
    forged; a check that is not ours is "changed", and a copy that cannot be read is "unreadable", whatever is wrong
    with it.
    """
    folder, rows = Path(folder), list[dict[Any, Any]]()
    ours = {stem: _checks(read_notebook(path)) for stem, path in numbered_notebooks().items()}
    for path in sorted(folder.rglob("*.ipynb")):
        if ".ipynb_checkpoints" in path.parts:
            continue
        handed_in = _handed_in(path)
        stem = next((stem for stem in ours if stem in path.stem), "") or _of_notebook(handed_in or {}, ours)
        checks = ours.get(stem, {})
        states = {
            n: "unreadable" if handed_in is None else _state(n, handed_in.get(n), check)
            for n, (check, _) in checks.items()
        }
        counts = {"right": list(states.values()).count("right"), "of": len(states)}
        name = os.fsencode(path.relative_to(folder)).decode("utf-8", "replace")
        rows.append({"copy": printable(name), "notebook": stem or "?", **counts, **states})
    if not rows:
        raise InputError(f"no notebook in {folder}; copies end in .ipynb, as ada/03_retrieval.ipynb")
    return pd.DataFrame(rows).fillna("")


def _handed_in(path: Path) -> dict[int, tuple[str, list[str]]] | None:
    """Return the checks of a student's copy, as :func:`_checks`; None for one that cannot be read."""
    if not path.is_file() or path.stat().st_size > LARGEST_COPY:  # a pipe or a device would never end
        return None
    try:
        return _checks(read_notebook(path))
    except Exception as error:  # noqa: BLE001 - one damaged copy must not cost the others
        logger.info("%s cannot be read: %s", path, error)
        return None


def _of_notebook(handed_in: Mapping[int, tuple[str, Any]], ours: Mapping[str, Mapping[int, tuple[str, Any]]]) -> str:
    """Return the notebook that shares the most checks with a copy; "" where none shares any."""
    mine = {check for check, _ in handed_in.values()}
    shared = {stem: len(mine & {check for check, _ in checks.values()}) for stem, checks in ours.items()}
    best = max(shared, key=shared.__getitem__, default="")
    return best if shared.get(best) else ""


def _checks(notebook: Mapping[str, Any]) -> dict[int, tuple[str, list[str]]]:
    """Return the number of each exercise → (its check, what each of its outputs says; an error by its name)."""
    found = {}
    for cell in filter(is_exercise, notebook["cells"]):
        check = "".join(cell["source"]).partition(CHECK)[2].strip()
        if number := re.search(r"check_answer\((\d{1,4})\b", check):
            outputs = cell.get("outputs", [])
            said = [_error_of(o) or "".join(o.get("data", {}).get("text/plain", "")) for o in outputs]
            found[int(number[1])] = check, said
    return found


def _error_of(output: Mapping[str, Any]) -> str:
    return f"{_ERROR}{output['ename']}" if "ename" in output else ""


def _state(number: int, handed_in: tuple[str, list[str]] | None, check: str) -> str:
    if handed_in is None:
        return "missing"
    if handed_in[0] != check:
        return "changed"
    said = [text for text in handed_in[1] if text.strip()]
    errors = [text.removeprefix(_ERROR) for text in said if text.startswith(_ERROR)]
    if errors:
        return shortened(printable(errors[0])).strip("'\"")
    states = [found[1] for text in said if (found := re.match(rf"Exercise {number}:? (right|not yet|is blank)", text))]
    if states:
        return states[-1].removeprefix("is ")
    return "no result" if said else "not run"
