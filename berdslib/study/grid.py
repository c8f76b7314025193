"""Grids of notebook runs: reading a grid file, the status of its runs, running them, and one table of their scores.

papermill_runs/README.md describes the format of a grid file. Grids that overlap share their runs.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import math
import multiprocessing
import os
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NamedTuple

import pandas as pd
import yaml
from filelock import Timeout
from tqdm.auto import tqdm

from berdslib.errors import BerdsError, InputError, errors_in, known, printable
from berdslib.files import read_lines, write_text
from berdslib.paths import PACKAGE
from berdslib.progress import bar, bars_are_seen
from berdslib.study import notebooks
from berdslib.study.metadata import write_ir_metadata
from berdslib.study.needs import Lack, check_names, in_lines, lacks
from berdslib.study.notebooks import FAILED, RECORD, Notebook, NotebookRun, run_folder, run_lock, work_folder
from berdslib.study.tables import MACRO

_SCORES = "scores.csv"  # the file in each run's folder that the summary reads
_OWNER = "grid.txt"  # in the folder of the results: the path of the grid file
_PROFILE = ("fixed", "grid", "runs", "exclude", "resources")
_FIELDS = ("notebook", *_PROFILE, "profiles")
_STEP = 3.0  # seconds between two looks at the step of running notebooks
LARGEST_FILE = 1_000_000  # bytes of a grid file
MOST_RUNS = 1000  # of a grid file: more are a mistake, or belong in several files
# Errors raised on reading the record of a run if it is missing or damaged.
_NO_RECORD = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
_KEPT = "Finished runs are kept; call again to go on"
# States of a run.
DONE = "finished"
RUNNING = "running"
FAILURE = "failed"
BROKEN_OFF = "broken off"
TO_DO = "not started"


class Run(NamedTuple):
    """One run of a grid: the folder of its results, and its parameters in the types of the notebook's defaults."""

    folder: Path
    parameters: dict[str, Any]


class Grid(NamedTuple):
    """A checked grid file; ``runs`` holds every combination once, in the order of the file.

    ``gpus`` is the number of GPUs that a run needs.
    """

    path: Path
    profile: str
    notebook: Notebook
    runs: tuple[Run, ...]
    gpus: int

    @property
    def name(self) -> str:
        """The name of the file without its ending, followed by the profile if there is one."""
        return "-".join(filter(None, (self.path.stem, self.profile)))

    @property
    def folder(self) -> Path:
        """The folder of the results, papermill_runs/NAME.

        It belongs to the first grid file that writes there; another file of the same name gets a hash of its path, too.
        """
        folder = work_folder() / "papermill_runs" / self.name
        owner = folder / _OWNER
        if not owner.is_file():
            return folder
        other = Path(owner.read_text(encoding="utf-8"))
        here = self.path.resolve()
        if other == here or not other.exists():
            return folder
        return folder.with_name(f"{self.name}-{hashlib.sha256(str(here).encode()).hexdigest()[:6]}")

    @property
    def summary(self) -> Path:
        """The path of the table of all runs."""
        return self.folder / "summary.csv"

    @property
    def settings(self) -> list[str]:
        """The names of all parameters that any run sets."""
        return list(dict.fromkeys(name for run in self.runs for name in run.parameters))

    @property
    def values(self) -> list[dict[str, Any]]:
        """All parameters of each run, with the notebook's defaults."""
        return [self.notebook.defaults | run.parameters for run in self.runs]

    def lacks(self) -> list[Lack]:
        """What this machine lacks for the runs."""
        return lacks(self.values, self.gpus)


# ---------------------------------------------------------------- a grid file


class _Loader(yaml.SafeLoader):
    """A YAML loader that refuses aliases and repeated keys, and keeps numbers such as 1:30 as text.

    A few nested aliases can expand to gigabytes, plain YAML keeps only the last value of a repeated key, and YAML 1.1
    reads 1:30 in base 60.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            problem = f"*{shortened(event.anchor)} is an alias; write the value itself"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)  # type: ignore[arg-type]
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                problem = f"the key {shortened(name)} occurs twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def _text_if_base_60(loader: _Loader, node: yaml.ScalarNode) -> Any:
    if ":" in node.value:
        return node.value
    kind = node.tag.rpartition(":")[2]
    return loader.construct_yaml_int(node) if kind == "int" else loader.construct_yaml_float(node)


for _tag in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _text_if_base_60)


def find_grid(path: Path) -> Path:
    """Return `path`, or if no such file exists, the grid file of the same name that comes with the package."""
    brought = PACKAGE / "_shipped" / "grids" / path.name
    return brought if brought.is_file() and not path.exists() else path


def read_grid(path: Path, profile: str = "") -> Grid:
    """Read a grid file, and check every combination of parameters; a run's own values override those of ``fixed``."""
    with errors_in(path):
        document = _with_profile(_load_yaml(path), profile)
        source = _notebook_of(path, document.get("notebook"))
        settings = _settings(path, source, document)
        runs = {}
        for values in settings:
            folder = run_folder(source, values)
            runs[folder] = Run(folder, values)
        gpus = _gpus(document.get("resources"))
        grid = Grid(path, profile, source, tuple(runs.values()), gpus)
        if not any("register(" in text for _, text in source.cells):  # its cells may use names that they register
            check_names(path, grid.values)
        return grid


def _load_yaml(path: Path) -> dict[str, Any]:
    size = path.stat().st_size if path.is_file() else 0
    if size > LARGEST_FILE:
        raise InputError(f"the file has {size:,} bytes; a grid file may have at most {LARGEST_FILE:,}")
    text = "".join(line for _, line in read_lines(path))
    try:
        document = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or error
        raise InputError(f"not usable YAML: {reason}", line=mark.line + 1 if mark else None) from None
    if not isinstance(document, dict):
        raise InputError(f"expected a mapping with the fields {', '.join(_FIELDS)}")
    for field in document:
        known("field", str(field), _FIELDS)
    return document


def _with_profile(document: dict[str, Any], profile: str) -> dict[str, Any]:
    """Return the file with a profile applied: its `fixed` extends the file's; its `grid` or `runs` replace both."""
    profiles = _mapping("profiles", document.get("profiles"))
    for name, fields in profiles.items():
        for field in _mapping(f"profiles.{name}", fields):
            known(f"field of profile {name!r},", field, _PROFILE)
    if not profile:
        return document
    replacing = profiles[known("profile", profile, profiles)] or {}
    replaced = {"grid", "runs", "exclude"} if {"grid", "runs"} & replacing.keys() else set()
    kept = {field: value for field, value in document.items() if field not in replaced}
    fixed = _mapping("fixed", kept.get("fixed")) | _mapping("fixed", replacing.get("fixed"))
    return kept | replacing | {"fixed": fixed}


def _notebook_of(path: Path, name: Any) -> Notebook:
    if not isinstance(name, str):
        raise InputError(
            f"expected a notebook such as '03_retrieval' or 'system', not {shortened(name)}", field="notebook"
        )
    with errors_in(path, "notebook"):
        beside = path.parent / name
        if "/" in name and not beside.is_file():
            raise InputError(f"{name} does not exist; paths are relative to the folder of the grid file")
        return notebooks.open_notebook(notebooks.find_notebook(str(beside) if beside.is_file() else name))


def _settings(path: Path, source: Notebook, document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the checked parameters of each run; a repeated combination occurs more than once."""

    def checked(field: str, values: Any) -> dict[str, Any]:
        with errors_in(path, field):
            return _check_values(source, _mapping(None, values))

    fixed = checked("fixed", document.get("fixed"))
    settings = []
    lists = _mapping("grid", document.get("grid"))
    for name, values in lists.items():
        _list(f"grid.{name}", values)
        if name in fixed:
            raise InputError("`fixed` has this parameter too; set it in one place", field=f"grid.{name}")
    combinations = math.prod(len(values) for values in lists.values())
    if combinations > MOST_RUNS:
        raise InputError(f"the grid has {combinations} runs; at most {MOST_RUNS} are allowed", field="grid")
    if lists:
        for combination in itertools.product(*lists.values()):
            settings.append(fixed | checked("grid", dict(zip(lists, combination, strict=True))))
    for field, entry in _entries("runs", document):
        settings.append(fixed | checked(field, entry))
    if not settings:
        raise InputError("the file needs a `grid` (name: list of values) or `runs` (a list of settings)")
    for field, entry in _entries("exclude", document):
        excluded = checked(field, entry)
        kept = [values for values in settings if not excluded.items() <= values.items()]
        if len(kept) in (0, len(settings)):
            raise InputError(f"this entry excludes {'no' if kept else 'every'} run", field=field)
        settings = kept
    return settings


def _entries(field: str, document: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the entries of a list, each with the field that names it in an error."""
    entries = document.get(field)
    if entries is None:
        return []
    return [(f"{field}, entry {number}", entry) for number, entry in enumerate(_list(field, entries), start=1)]


def _check_values(source: Notebook, given: dict[str, Any]) -> dict[str, Any]:
    values = notebooks.check_parameters(source, given)
    if "output_dir" in values:
        raise InputError("every run has its own folder; do not set this parameter", field="output_dir")
    code = [text for kind, text in source.cells if kind == "code"]
    for name, value in values.items():
        reading = [text for text in code if re.search(rf"\b{name}\b", text)]
        if len(reading) < 2:  # the parameters cell itself is one of them
            problem = f"no cell of {source.path.stem} reads this parameter, so its value makes no difference"
            raise InputError(problem, field=name)
        try:
            json.dumps(value, allow_nan=False)  # run.json and the hash in the folder's name need JSON
        except (TypeError, ValueError) as error:
            problem = f"expected text, finite numbers, true, false or lists of them: {error}"
            raise InputError(problem, field=name) from None
    return values


def _mapping(field: str | None, value: Any) -> dict[str, Any]:
    if value is not None and (not isinstance(value, dict) or not all(isinstance(name, str) for name in value)):
        raise InputError(f"expected a mapping of names to values, not {shortened(value)}", field=field)
    return value or {}


def _list(field: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise InputError(f"expected a list such as [1, 2], not {shortened(value)}", field=field)
    return value


def _gpus(value: Any) -> int:
    fields = _mapping("resources", value)
    for name in fields:
        known("field of resources", name, ("gpu",))
    gpus = fields.get("gpu", 0)
    if type(gpus) is not int or gpus < 0:
        raise InputError(f"expected a whole number from 0, not {shortened(gpus)}", field="resources.gpu")
    return gpus


# ---------------------------------------------------------------- status


def status(grid: Grid) -> list[dict[str, Any]]:
    """Return for each run: run (its folder's name), state, seconds (None unless finished), parameters, error.

    The state is "finished", "running", "failed", "broken off" or "not started"; the error of a running run is its step.
    """
    rows = []
    for run in grid.runs:
        record = finished(run)
        state, error = (DONE, "") if record else _unfinished(grid.notebook, run.folder)
        row = {
            "run": run.folder.name,
            "state": state,
            "seconds": record.get("seconds"),
            "parameters": run.parameters,
            "error": error,
        }
        rows.append(row)
    return rows


def _unfinished(notebook: Notebook, folder: Path) -> tuple[str, str]:
    """Return the state of a run that is not finished, and its error or, while it is running, its step."""
    if not folder.exists():
        return TO_DO, ""
    try:
        with run_lock(folder).acquire(timeout=0):
            return FAILURE, _read_json(folder / FAILED)["error"]
    except Timeout:
        return RUNNING, notebooks.step_of(notebook, folder)
    except _NO_RECORD:
        return BROKEN_OFF, ""


def finished(run: Run) -> dict[str, Any]:
    """Return the record in run.json if this run is finished and its files are complete, otherwise {}.

    If the record is missing or damaged, the run counts as unfinished and is repeated.
    """
    try:
        record: dict[str, Any] = _read_json(run.folder / RECORD)
        sizes = {name: (run.folder / name).stat().st_size for name in record["files"]}
        is_ours = record["finished"] is True and record["parameters"] == run.parameters
        is_whole = sizes == record["files"] and isinstance(record["environment"], dict)
        return record if is_ours and is_whole else {}
    except _NO_RECORD:
        return {}


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


# ---------------------------------------------------------------- running


def run_grid(
    grid: Grid,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    stop_on_error: bool = False,
    limit: int = 0,
    only_failed: bool = False,
) -> dict[str, str]:
    """Run what is not finished yet, and write the summary; return the failures, run → error.

    Args:
        grid: from :func:`read_grid`.
        workers: number of notebooks to run at a time, each in its own processes; runs that need GPUs run one at a time.
        scheduler: address of a dask scheduler, whose workers then run the notebooks; they need the same version of this
            package and the same folders (a shared file system).
        stop_on_error: start no further runs after a failure.
        limit: maximal number of runs to start; 0 for all.
        only_failed: start only runs that failed or were broken off.

    Raises:
        BerdsError: data or prompts are missing, or a worker was killed.
        KeyboardInterrupt: after Ctrl-C; it says how many runs are finished.
    """
    states = [row["state"] for row in status(grid)]
    left_out = (DONE, RUNNING, TO_DO) if only_failed else (DONE,)
    todo = [run for run, state in zip(grid.runs, states, strict=True) if state not in left_out]
    todo = todo[: limit or None]
    failures: dict[str, str] = {}
    if todo:
        if stopping := [lack for lack in grid.lacks() if lack.stops]:
            raise BerdsError(f"not on this machine:\n{in_lines(stopping)}")
        here = 1 if grid.gpus else workers
        at_once = len(todo) if scheduler else here  # a cluster may grow, so it gets all runs at once
        progress = bar(total=len(grid.runs), initial=states.count(DONE), desc=grid.name, unit="run", leave=True)
        stop = threading.Event()  # set by Ctrl-C

        def show_steps(running: Iterable[Run]) -> None:
            steps = filter(None, (notebooks.step_of(grid.notebook, run.folder) for run in running))
            # A file would get a line at every look.
            progress.set_postfix_str(", ".join([f"{len(failures)} failed", *steps]), refresh=bars_are_seen())

        try:
            with progress, cluster(scheduler, grid.gpus) if scheduler else processes(at_once, stop) as pool:
                for run, problem in _outcomes(pool, grid.notebook, todo, at_once, stop_on_error, stop, show_steps):
                    if problem:
                        failures[run.folder.name] = problem
                        tqdm.write(printable(f"berds: {run.folder.name}: {problem}"), file=sys.stderr)  # above the bar
                    progress.set_postfix_str(f"{len(failures)} failed", refresh=False)
                    progress.update()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_stopped(grid)) from None
    collect(grid)
    if todo and stop.is_set():
        raise KeyboardInterrupt(_stopped(grid))
    return failures


def _stopped(grid: Grid) -> str:
    finished_runs = [run for run in grid.runs if finished(run)]
    return f"stopped: {len(finished_runs)} of {len(grid.runs)} finished and kept; the same command goes on"


def _outcomes(
    pool: futures.Executor,
    notebook: Notebook,
    todo: Sequence[Run],
    at_once: int,
    stop_on_error: bool,
    stop: threading.Event,
    show_steps: Callable[[Iterable[Run]], None],
) -> Iterator[tuple[Run, str]]:
    """Yield each run as it ends, with its error or ""; runs that another call is executing come last.

    Every few seconds, `show_steps` gets the runs that are being executed.
    """
    waiting = deque((run, False) for run in todo)
    running: dict[futures.Future[bool], Run] = {}
    stopped = False
    while running or (waiting and not stop.is_set()):
        while waiting and len(running) < at_once and not stop.is_set():
            run, waits_for_others = waiting.popleft()
            running[pool.submit(_run_one, notebook, run, waits_for_others)] = run
        ended = futures.wait(running, timeout=_STEP, return_when=futures.FIRST_COMPLETED).done
        if not ended:
            show_steps(running.values())
        for future in ended:
            run = running.pop(future)
            problem = ""
            try:
                if not future.result():
                    if not stopped:
                        waiting.append((run, True))
                    continue
            except futures.BrokenExecutor:
                raise BerdsError(f"a worker process was killed (out of memory?). {_KEPT}") from None
            except futures.CancelledError:
                raise BerdsError(f"lost the connection to the dask scheduler. {_KEPT}") from None
            except Exception as error:  # noqa: BLE001 - any failure of a run must not end the others
                problem = str(error) if isinstance(error, BerdsError) else f"{type(error).__name__}: {error}"
            yield run, problem
            if problem and stop_on_error:
                stopped = True
                waiting.clear()
                running = {other: of for other, of in running.items() if not other.cancel()}


def _run_one(notebook: Notebook, run: Run, waits_for_others: bool) -> bool:
    """Execute one run unless it is finished, in any process; return False if another call is executing it."""
    try:
        with run_lock(run.folder).acquire(timeout=-1 if waits_for_others else 0):
            if not finished(run):
                if run_folder(notebook, run.parameters).name != run.folder.name:
                    raise BerdsError("the package or a data file is not as it was when this was planned; call again")
                notebooks.run_notebook(notebook, run.parameters, output=run.folder, progress=False)
    except Timeout:
        return False
    return True


@contextmanager
def processes(workers: int, stop: threading.Event | None = None) -> Iterator[futures.Executor]:
    """Return a pool of processes that ends at Ctrl-C; with `stop`, the first sets it, and the second ends the pool."""
    others = set(multiprocessing.active_children())

    def end(*_: object) -> None:
        if stop and not stop.is_set():
            stop.set()
            tqdm.write("berds: no further run starts; Ctrl-C again ends those that have started", file=sys.stderr)
            return
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()  # only the main thread may set a signal handler
    before = signal.signal(signal.SIGINT, end) if is_main else None
    context = multiprocessing.get_context("spawn")
    try:
        with futures.ProcessPoolExecutor(workers, context, initializer=_end_with_parent) as pool:
            yield pool
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)


def _end_with_parent() -> None:
    """End this worker and its kernel when the parent process ends; otherwise a pool's worker would wait forever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to all processes
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def cluster(scheduler: str, gpus: int = 0) -> Iterator[futures.Executor]:
    """Return the workers of a dask cluster; runs that need GPUs go to workers that offer them (--resources GPU=1)."""
    try:
        distributed = importlib.import_module("distributed")
        client = distributed.Client(scheduler, timeout=10)
    except ImportError:
        raise InputError("a scheduler needs dask; install it with: pip install 'berdslib[cluster]'") from None
    except (OSError, ValueError) as error:
        problem = f"no dask scheduler at {scheduler!r} ({error}); expected an address such as tcp://host:8786"
        raise InputError(problem, field="scheduler") from None
    with client:
        workers = client.scheduler_info(-1)["workers"].values()
        if gpus > max((worker["resources"].get("GPU", 0) for worker in workers), default=0):
            # Otherwise dask would wait forever for such a worker.
            raise BerdsError(f'no worker has {gpus} GPUs; start one with --resources "GPU={gpus}"')
        resources = {"GPU": gpus} if gpus else {}
        # With pure=True dask would reuse the result of an equal call and not run it again.
        with client.get_executor(pure=False, resources=resources) as pool:
            yield pool


# ---------------------------------------------------------------- results


def grid_table(grid: Grid) -> pd.DataFrame:
    """Return the scores.csv of all finished runs in one table: parameters, scores, and facts about the run.

    Every row has all parameters that any run sets; a list is written as JSON. A column of scores.csv with the name of a
    parameter but other values becomes scores_NAME. The columns run_NAME hold the facts in run.json.
    """
    names = grid.settings
    defaults = {name: grid.notebook.defaults[name] for name in names}
    settings: list[pd.DataFrame] = []
    scores: list[pd.DataFrame] = []
    about: list[pd.DataFrame] = []
    for run in grid.runs:
        record = finished(run)
        if not record:
            continue
        found = _scores_of(run)
        values = {name: _cell(value) for name, value in (defaults | run.parameters).items()}
        settings.append(pd.DataFrame({"run": run.folder.name, **values}, index=found.index))
        scores.append(found.rename(columns={name: f"scores_{name}" for name in ("run", *names)}))
        facts = record | record["environment"]
        facts = {f"run_{name}": _cell(fact) for name, fact in facts.items() if name not in _ABOUT_FILES}
        about.append(pd.DataFrame(facts, index=found.index))
    if not settings:
        return pd.DataFrame(columns=["run"])
    table = pd.concat([pd.concat(part, ignore_index=True) for part in (settings, scores, about)], axis=1)
    repeated = [name for name in names if f"scores_{name}" in table and table[f"scores_{name}"].eq(table[name]).all()]
    return table.drop(columns=[f"scores_{name}" for name in repeated])


_ABOUT_FILES = ("notebook", "parameters", "environment", "files", "finished")  # fields of run.json not in the table


def _scores_of(run: Run) -> pd.DataFrame:
    """Return the scores of a run, or one row without columns if it has none."""
    path = run.folder / _SCORES
    try:
        scores = pd.read_csv(path) if path.exists() else pd.DataFrame()
    except ValueError as error:
        raise InputError(f"not a readable table: {error}", path=path) from None
    return scores if len(scores) else pd.DataFrame(index=[0])


def _cell(value: Any) -> Any:
    return value if isinstance(value, str | int | float) else json.dumps(value, default=str)


def collect(grid: Grid) -> pd.DataFrame:
    """Write the table of all finished runs as CSV, and their TREC runs with the records of their making.

    Returns:
        The table, see :func:`grid_table`.
    """
    table = grid_table(grid)
    with write_text(grid.folder / _OWNER) as file:
        file.write(str(grid.path.resolve()))
    with write_text(grid.summary) as file:
        table.to_csv(file, index=False)
    for run in grid.runs:
        record = finished(run)
        for path in sorted(run.folder.glob("*.trec")) if record else ():
            if path.is_symlink():  # runs do not write links, and a link may lead to any file
                raise InputError("this is a link, but a run's list must be a file; remove the link", path=path)
            tag = f"{run.folder.name}-{path.stem}"
            lines = "".join(line for _, line in read_lines(path))
            copy = grid.folder / "runs" / f"{tag}.trec"
            with write_text(copy) as file:
                file.write(lines)
            write_ir_metadata(copy, record, tag)
    return table


def report(grid: Grid) -> NotebookRun:
    """Collect the results and execute a report notebook: of means of measures, or else of any columns."""
    table = collect(grid)
    if table.empty:
        raise InputError(f"no run of {grid.name} is finished", path=grid.path)
    parameters: dict[str, Any] = {"summary": str(grid.summary)}
    has_means = {"system", "dataset", "measure", "mean", "low", "high"} <= set(table)
    if has_means and MACRO in set(table["dataset"]):
        name = "report"
    else:
        name = "report_columns"
        parameters["settings"] = grid.settings
    return notebooks.run_notebook(name, parameters, output=grid.folder / "report")
