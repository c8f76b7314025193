"""A notebook over a grid of parameters: everything is checked first, runs are independent, and what is done is kept.

papermill_runs/README.md describes a grid file; grids which overlap share their runs.
"""

from __future__ import annotations

import importlib
import itertools
import json
import math
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml
from filelock import Timeout
from tqdm import tqdm

from berdslib.errors import BerdsError, InputError, errors_in, known, printable
from berdslib.files import read_lines, write_text
from berdslib.study.notebooks import (
    Notebook,
    check_parameters,
    find_notebook,
    open_notebook,
    run_folder,
    run_lock,
    run_notebook,
    work_folder,
)

SCORES = "scores.csv"  # what the summary reads in each run's folder
_FIELDS = ("notebook", "fixed", "grid", "runs", "best")
MOST_RUNS = 1000  # of one file: more is a mistake, or a matter for several files


class Run(NamedTuple):
    """One setting of a grid: where its results go, and its parameters in the types of the notebook's defaults."""

    folder: Path
    parameters: dict[str, Any]


class Best(NamedTuple):
    """How runs are compared: by the mean of a column of scores.csv over the rows where other columns have a value."""

    column: str
    where: dict[str, Any]
    largest: bool


class Grid(NamedTuple):
    """A checked grid file; ``runs`` holds every combination once, in the order of the file."""

    path: Path
    notebook: Path
    runs: tuple[Run, ...]
    best: Best | None

    @property
    def summary(self) -> Path:
        """Return where the table of all runs goes: papermill_runs/NAME/summary.csv, NAME being the file's."""
        return work_folder() / "papermill_runs" / self.path.stem / "summary.csv"


# ---------------------------------------------------------------- reading


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in a mapping: YAML alone keeps the last value without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value]
        for i, (key, _) in enumerate(node.value):
            if key.value in names[:i]:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} occurs twice here", problem_mark=key.start_mark)
        return super().construct_mapping(node, deep)


def read_grid(path: Path) -> Grid:
    """Read a grid file, and check every combination of parameters; a run's own values go before those of ``fixed``."""
    with errors_in(path):
        if path.stem.startswith("."):  # "...yaml" would write its summary beside papermill_runs
            raise InputError("the name of a grid file is that of its summary's folder, and cannot begin with a dot")
        document = _load_yaml(path)
        for field in document:
            known("field", str(field), _FIELDS)
        name = document.get("notebook")
        if not isinstance(name, str):
            raise InputError(f"a notebook's name such as '03_retrieval' is needed, not {name!r}", field="notebook")
        with errors_in(path, "notebook"):
            source = open_notebook(find_notebook(name))
        with errors_in(path, "fixed"):
            fixed = _check_values(source, _mapping(None, document.get("fixed")))
        runs = {}
        for field, setting in _settings(document, fixed):
            with errors_in(path, field):
                values = fixed | _check_values(source, setting)
            folder = run_folder(source, values)
            runs[folder] = Run(folder, values)
        return Grid(path, source.path, tuple(runs.values()), _best(document.get("best")))


def _load_yaml(path: Path) -> dict[Any, Any]:
    text = "".join(line for _, line in read_lines(path))
    try:
        document = yaml.load(text, _Loader)
    except Exception as error:  # noqa: BLE001 - PyYAML raises whatever a tag makes of its value, such as !!int ''
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or f"{type(error).__name__} {error}".partition("\n")[0]
        raise InputError(f"not usable YAML: {reason}", line=mark.line + 1 if mark else None) from None
    if not isinstance(document, dict):
        raise InputError(f"a mapping with the fields {', '.join(_FIELDS)} was expected")
    return document


def _settings(document: dict[Any, Any], fixed: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what each run sets, with the field that says so."""
    lists = {name: _list(f"grid.{name}", values) for name, values in _mapping("grid", document.get("grid")).items()}
    entries = [] if document.get("runs") is None else _list("runs", document["runs"])
    n = (math.prod(map(len, lists.values())) if lists else 0) + len(entries)
    if n > MOST_RUNS:
        raise InputError(f"{n} runs are asked for; a file may ask for at most {MOST_RUNS}")
    if not n:
        raise InputError("`grid` (name: list of values) or `runs` (a list of settings) is needed")
    for name in lists.keys() & fixed.keys():
        raise InputError("is also in `fixed`; list it only once", field=f"grid.{name}")
    for values in itertools.product(*lists.values()) if lists else ():
        yield "grid", dict(zip(lists, values, strict=True))
    for i, entry in enumerate(entries, start=1):
        yield f"runs, entry {i}", _mapping(f"runs, entry {i}", entry)


def _check_values(source: Notebook, given: dict[str, Any]) -> dict[str, Any]:
    values = check_parameters(source, given)
    if "output_dir" in values:
        raise InputError("every run has its own folder; do not set this", field="output_dir")
    for name, value in values.items():
        try:
            json.dumps(value, allow_nan=False)  # what run.json and the folder's name are made of
        except (TypeError, ValueError) as error:
            raise InputError(f"only text, finite numbers, true, false and lists of them: {error}", field=name) from None
    return values


def _mapping(field: str | None, value: Any) -> dict[str, Any]:
    if value is not None and (not isinstance(value, dict) or not all(isinstance(name, str) for name in value)):
        raise InputError(f"a mapping of names to values was expected, not {value!r}", field=field)
    return value or {}


def _list(field: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise InputError(f"a list such as [1, 2] was expected, not {value!r}", field=field)
    return value


def _best(value: Any) -> Best | None:
    if value is None:
        return None
    given = _mapping("best", value)
    for name in given:
        known("field of best", name, Best._fields)
    column, largest = given.get("column"), given.get("largest", True)
    if not isinstance(column, str):
        raise InputError(f"the name of a column of {SCORES} is needed, not {column!r}", field="best.column")
    if not isinstance(largest, bool):
        raise InputError(f"true or false is needed, not {largest!r}", field="best.largest")
    return Best(column, _mapping("best.where", given.get("where")), largest)


# ---------------------------------------------------------------- what is done


def status(grid: Grid) -> list[dict[str, Any]]:
    """Return for each run: run (its folder's name), state, seconds (None unless finished), parameters.

    The state is "finished", "unfinished" (begun: under way, failed or broken off) or "not started".
    """
    rows = []
    for run in grid.runs:
        record = _finished(run)
        state = "finished" if record else "unfinished" if run.folder.exists() else "not started"
        rows.append({"run": run.folder.name, "state": state, "seconds": record.get("seconds")})
        rows[-1]["parameters"] = run.parameters
    return rows


def _finished(run: Run) -> dict[str, Any]:
    """Return what run.json says if it says that this very run was finished, otherwise nothing."""
    try:
        record = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
        return record if record["finished"] is True and record["parameters"] == run.parameters else {}
    except (OSError, ValueError, KeyError, TypeError):  # not there, or not whole: the run is to be repeated
        return {}


def grid_table(grid: Grid) -> pd.DataFrame:
    """Return the scores.csv of all finished runs in one table, each row behind its run and parameters.

    A list is written as JSON; a column that is named like a parameter becomes scores_NAME.
    """
    tables = [pd.DataFrame(columns=["run"])]
    for run in filter(_finished, grid.runs):
        path = run.folder / SCORES
        try:
            scores = pd.read_csv(path) if path.exists() else pd.DataFrame()
        except ValueError as error:
            raise InputError(f"not a readable table: {error}", path=path) from None
        scores = scores if len(scores) else pd.DataFrame(index=[0])
        cells = {"run": run.folder.name} | {name: _cell(value) for name, value in run.parameters.items()}
        scores = scores.rename(columns={name: f"scores_{name}" for name in cells})
        tables.append(pd.concat([pd.DataFrame(cells, index=scores.index), scores], axis=1))
    return pd.concat(tables[1:] or tables, ignore_index=True)


def _cell(value: Any) -> Any:
    return value if isinstance(value, str | int | float) else json.dumps(value, default=str)


def best_run(grid: Grid, table: pd.DataFrame) -> dict[str, Any] | None:
    """Return the run that `best` of the file asks for: run, value, parameters, and out of how many it was compared.

    Of equals the first is taken. None if the file names no `best`, or nothing is finished.
    """
    best = grid.best
    if best is None or table.empty:
        return None
    with errors_in(grid.path, "best"):
        for name in (best.column, *best.where):
            known(f"column of {SCORES}", name, table.columns)
        for name, value in best.where.items():
            column, wanted = table[name], _cell(value)
            table = table[(column == wanted) | (column.astype(str) == str(wanted))]  # 5 equals 5.0; in a text, "5"
        try:
            means = pd.to_numeric(table[best.column]).groupby(table["run"], sort=False).mean().dropna()
        except (TypeError, ValueError) as error:
            raise InputError(f"column {best.column!r} of {SCORES}: {error}", field="column") from None
        if means.empty:
            raise InputError(f"no finished run has a value of {best.column!r} in rows where {best.where}")
    name = str(means.idxmax() if best.largest else means.idxmin())
    parameters = next(run.parameters for run in grid.runs if run.folder.name == name)
    return {"run": name, "value": float(means[name]), "parameters": parameters, "compared": len(means)}


# ---------------------------------------------------------------- running


def run_grid(
    grid: Grid,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    stop_after: int | None = 3,
    progress: bool = True,
) -> dict[str, str]:
    """Run what is not finished yet, and write the summary; return the failures, run → what went wrong.

    Args:
        grid: from :func:`read_grid`.
        workers: how many notebooks run at a time, each in processes of its own.
        scheduler: address of a dask scheduler, whose workers then do it; they need this package in the same version and
            the same folders (a shared file system).
        stop_after: begin nothing new after so many failures in a row for the same reason; None: go on whatever fails.
        progress: show a bar over the runs.
    """
    failures: dict[str, str] = {}
    todo = [run for run in grid.runs if not _finished(run)]
    if todo:
        at_once = len(todo) if scheduler else workers  # a cluster may grow: it is handed everything
        done, disable = len(grid.runs) - len(todo), None if progress else True  # None: where there is no terminal
        with (
            tqdm(total=len(grid.runs), initial=done, desc=grid.path.stem, unit="run", disable=disable) as bar,
            _cluster(scheduler) if scheduler else _processes(workers) as pool,
        ):
            for run, problem in _outcomes(pool, grid.notebook, todo, at_once, stop_after):
                bar.update()
                if problem:
                    failures[run.folder.name] = problem
                    _say(f"{run.folder.name}: {problem}")
    with write_text(grid.summary) as file:
        grid_table(grid).to_csv(file, index=False)
    return failures


def _outcomes(
    pool: Executor, notebook: Path, todo: Sequence[Run], at_once: int, stop_after: int | None
) -> Iterator[tuple[Run, str]]:
    """Yield each run as it ends, with what went wrong, if anything; a run that another call is at comes last."""
    waiting = deque((run, False) for run in todo)
    running: dict[Future[bool], Run] = {}
    reasons: deque[str] = deque(maxlen=stop_after)  # of the last runs
    stopped = False
    while waiting or running:
        while waiting and len(running) < at_once:
            run, wait_for_it = waiting.popleft()
            running[pool.submit(_run_one, notebook, run, wait_for_it)] = run
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            run, problem = running.pop(future), ""
            if stopped and future.cancelled():
                continue
            try:
                if not future.result():  # another call is at it
                    waiting.extend([] if stopped else [(run, True)])
                    continue
            except BrokenExecutor:
                problem = "a worker process was killed (out of memory?). Finished runs are kept; call again to go on"
                raise BerdsError(problem) from None
            except Exception as error:  # noqa: BLE001 - whatever a run dies of does not end the others
                problem = str(error) if isinstance(error, BerdsError) else f"{type(error).__name__}: {error}"
            yield run, problem
            reasons.append(problem.partition("\n")[0].replace(run.folder.name, ""))
            if len(reasons) == stop_after and all(reasons) and len(set(reasons)) == 1 and not stopped:
                left = len(waiting) + sum(other.cancel() for other in running)
                stopped = True
                waiting.clear()
                if left and stop_after > 1:
                    _say(
                        f"stopped: {stop_after} runs in a row failed for the same reason. Mend it and call again; "
                        "finished runs are kept. To run the others all the same: --keep-going (in Python, "
                        "stop_after=None)"
                    )


def _say(text: str) -> None:
    tqdm.write(printable(f"berds: {text}"), file=sys.stderr)  # above the bar


def _run_one(notebook: Path, run: Run, wait_for_it: bool) -> bool:
    """Execute one run, in whatever process, unless it is finished; return False if another call is at it."""
    try:
        with run_lock(run.folder).acquire(timeout=-1 if wait_for_it else 0):
            if not _finished(run):
                run_notebook(str(notebook), run.parameters, output=run.folder, progress=False)
    except Timeout:
        return False
    return True


@contextmanager
def _processes(workers: int) -> Iterator[Executor]:
    """Processes of this machine, which end at the first Ctrl-C: a second one would leave some waiting for work."""
    others = set(multiprocessing.active_children())

    def end(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()  # no other may set this
    before = signal.signal(signal.SIGINT, end) if main else None
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent) as pool:
            yield pool
    finally:
        if main:
            signal.signal(signal.SIGINT, before)


def _end_with_parent() -> None:
    """End this worker when its parent is gone, and its kernel with it: a pool's worker would wait for work for ever."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _cluster(scheduler: str) -> Iterator[Executor]:
    try:
        distributed = importlib.import_module("distributed")
        client = distributed.Client(scheduler, timeout=10)
    except ImportError:
        raise InputError("a scheduler needs dask; install it with: pip install 'berdslib[cluster]'") from None
    except (OSError, ValueError) as error:
        problem = f"no dask scheduler at {scheduler!r} ({error}); such as tcp://host:8786 is accepted"
        raise InputError(problem, field="scheduler") from None
    with client, client.get_executor(pure=False) as pool:  # pure: the same call would not be made twice
        yield pool
