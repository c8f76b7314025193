"""A notebook over a grid of parameters: what a grid file says, running it, and one table of what came out.

papermill_runs/README.md describes a grid file; grids which overlap share their runs.
"""

from __future__ import annotations

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
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager, suppress
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NamedTuple

import pandas as pd
import yaml
from filelock import Timeout
from tqdm.auto import tqdm

from berdslib.data.catalogue import DATASETS
from berdslib.data.datasets import IR_DATASETS
from berdslib.data.pir import load_task
from berdslib.data.scenario import SCENARIOS
from berdslib.errors import BerdsError, InputError, MissingDataError, errors_in, known, printable
from berdslib.evaluation.arguments import measures_of_scenario
from berdslib.evaluation.measures import check_without_groups, parse_measure
from berdslib.files import read_lines, write_text
from berdslib.judging.registry import check_judge
from berdslib.paths import PACKAGE
from berdslib.progress import bar
from berdslib.retrieval.bm25 import ANALYSERS
from berdslib.retrieval.expansion import SEARCHED
from berdslib.retrieval.retrievers import check_dense
from berdslib.retrieval.systems import EXPAND, EXTRACT, MULTI, RECORDED, RULE, parse_system
from berdslib.study import notebooks
from berdslib.study.notebooks import FAILED, RECORD, Notebook, NotebookRun, run_folder, run_lock, work_folder
from berdslib.study.tables import MACRO
from berdslib.study.tuning import NONE, systems_of

_SCORES = "scores.csv"  # what the summary reads in each run's folder
_PROFILE = ("fixed", "grid", "runs", "exclude", "resources")
_FIELDS = ("notebook", *_PROFILE, "profiles")
LARGEST_FILE = 1_000_000  # bytes of a grid file
MOST_RUNS = 1000  # of a file: more is a mistake, or a matter for several files
# What reading the record of a run raises where it is not there, or is damaged.
_NO_RECORD = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
PIR, SCENARIO = "pir", "perspectivearg"  # readers of data sets that name a task behind a colon
_KEPT = "Finished runs are kept; call again to go on"
DONE, RUNNING, FAILURE, BROKEN_OFF, TO_DO = "finished", "running", "failed", "broken off", "not started"


class Run(NamedTuple):
    """One setting of a grid: where its results go, and its parameters in the types of the notebook's defaults."""

    folder: Path
    parameters: dict[str, Any]


class Grid(NamedTuple):
    """A checked grid file; ``runs`` holds every combination once, in the order of the file.

    ``gpus`` is how many a run needs.
    """

    path: Path
    profile: str
    notebook: Notebook
    runs: tuple[Run, ...]
    gpus: int

    @property
    def name(self) -> str:
        """Return the file's name without its ending, and behind it the profile."""
        return "-".join(filter(None, (self.path.stem, self.profile)))

    @property
    def summary(self) -> Path:
        """Return where the table of all runs goes: papermill_runs/NAME/summary.csv; other results lie beside it."""
        return work_folder() / "papermill_runs" / self.name / "summary.csv"

    @property
    def settings(self) -> list[str]:
        """Return the parameters that any run sets."""
        return list(dict.fromkeys(name for run in self.runs for name in run.parameters))


# ---------------------------------------------------------------- a grid file


class _Loader(yaml.SafeLoader):
    """Refuses aliases, and a key that stands twice in a mapping, of which YAML alone keeps the last value.

    A few nested aliases stand for gigabytes. A number such as 1:30 stays text, since YAML 1.1 reads it in base 60.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            problem = f"*{shortened(event.anchor)} is an alias; write its value out"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)  # type: ignore[arg-type]
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                problem = f"{shortened(name)} occurs twice here"
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
    """Return the file of a grid: what is not at `path` may be one that came with the package, of the same name."""
    brought = PACKAGE / "_shipped" / "grids" / path.name
    return brought if brought.is_file() and not path.exists() else path


def read_grid(path: Path, profile: str = "") -> Grid:
    """Read a grid file, and check every combination of parameters; a run's own values go before those of ``fixed``."""
    with errors_in(path):
        document = _with_profile(_load_yaml(path), profile)
        source = _notebook_of(path, document.get("notebook"))
        settings = _settings(path, source, document)
        runs = {}
        for values in settings:
            folder = run_folder(source, values)
            runs[folder] = Run(folder, values)
        if not any("register(" in text for _, text in source.cells):  # it may name what only its own cells add
            _check_names(path, source, settings)
        gpus = _gpus(document.get("resources"))
        return Grid(path, profile, source, tuple(runs.values()), gpus)


def _load_yaml(path: Path) -> dict[str, Any]:
    size = path.stat().st_size if path.is_file() else 0
    if size > LARGEST_FILE:
        raise InputError(f"has {size:,} bytes; a grid file has at most {LARGEST_FILE:,}")
    text = "".join(line for _, line in read_lines(path))
    try:
        document = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or error
        raise InputError(f"not usable YAML: {reason}", line=mark.line + 1 if mark else None) from None
    if not isinstance(document, dict):
        raise InputError(f"a mapping with the fields {', '.join(_FIELDS)} was expected")
    for field in document:
        known("field", str(field), _FIELDS)
    return document


def _with_profile(document: dict[str, Any], profile: str) -> dict[str, Any]:
    """Return the file as a profile has it: its `fixed` adds to the file's, and its `grid` or `runs` replace both."""
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
        raise InputError(f"a notebook's name such as '03_retrieval' is needed, not {shortened(name)}", field="notebook")
    with errors_in(path, "notebook"):
        beside = path.parent / name
        if "/" in name and not beside.is_file():
            raise InputError(f"{name} is not there; a path starts at the grid file's folder")
        return notebooks.open_notebook(notebooks.find_notebook(str(beside) if beside.is_file() else name))


def _settings(path: Path, source: Notebook, document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parameters of each run, checked; a combination that occurs twice is there twice."""

    def checked(field: str, values: Any) -> dict[str, Any]:
        with errors_in(path, field):
            return _check_values(source, _mapping(None, values))

    fixed = checked("fixed", document.get("fixed"))
    settings = []
    lists = _mapping("grid", document.get("grid"))
    for name, values in lists.items():
        _list(f"grid.{name}", values)
        if name in fixed:
            raise InputError("is also in `fixed`; list it only once", field=f"grid.{name}")
    combinations = math.prod(len(values) for values in lists.values())
    if combinations > MOST_RUNS:
        raise InputError(f"{combinations} runs are asked for; a file may ask for at most {MOST_RUNS}", field="grid")
    for combination in itertools.product(*lists.values()) if lists else ():
        settings.append(fixed | checked("grid", dict(zip(lists, combination, strict=True))))
    for field, entry in _entries("runs", document):
        settings.append(fixed | checked(field, entry))
    if not settings:
        raise InputError("`grid` (name: list of values) or `runs` (a list of settings) is needed")
    for field, entry in _entries("exclude", document):
        excluded = checked(field, entry)
        kept = [values for values in settings if not excluded.items() <= values.items()]
        if len(kept) in (0, len(settings)):
            raise InputError(f"leaves out {'no' if kept else 'every'} run", field=field)
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
        raise InputError("every run has its own folder; do not set this", field="output_dir")
    code = [text for kind, text in source.cells if kind == "code"]
    for name, value in values.items():
        reading = [text for text in code if re.search(rf"\b{name}\b", text)]
        if len(reading) < 2:  # the cell of the parameters is one
            raise InputError(f"no cell of {source.path.stem} reads it: every value would give the same", field=name)
        try:
            json.dumps(value, allow_nan=False)  # what run.json and the folder's name are made of
        except (TypeError, ValueError) as error:
            raise InputError(f"only text, finite numbers, true, false and lists of them: {error}", field=name) from None
    return values


def _mapping(field: str | None, value: Any) -> dict[str, Any]:
    if value is not None and (not isinstance(value, dict) or not all(isinstance(name, str) for name in value)):
        raise InputError(f"a mapping of names to values was expected, not {shortened(value)}", field=field)
    return value or {}


def _list(field: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise InputError(f"a list such as [1, 2] was expected, not {shortened(value)}", field=field)
    return value


def _gpus(value: Any) -> int:
    fields = _mapping("resources", value)
    for name in fields:
        known("field of resources", name, ("gpu",))
    gpus = fields.get("gpu", 0)
    if type(gpus) is not int or gpus < 0:
        raise InputError(f"a whole number from 0 is needed, not {shortened(gpus)}", field="resources.gpu")
    return gpus


# ---------------------------------------------------------------- names that runs set, looked up before they start


def _check_names(path: Path, source: Notebook, settings: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a name that nothing has: it would end its run, after others have taken their time."""
    lookups = dict.fromkeys(lookup for values in settings for lookup in _lookups(source.defaults | dict(values)))
    for field, check, *arguments in lookups:
        with errors_in(path, field):
            check(*arguments)


def _lookups(values: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield what looks up each name that a run sets: the field, a function and its arguments."""

    def texts(name: str) -> list[str]:
        value = values.get(name, [])
        elements = value if isinstance(value, list) else [value]
        return [element for element in elements if element and isinstance(element, str)]

    data_sets = texts("data") + texts("datasets")
    for name in data_sets:
        yield "data", _check_data, name, "data"
        if values.get("corpus") == "":  # that of the questions is searched
            yield "own corpus", _check_data, name, "own corpus"
        for split in texts("split"):
            yield "split", _check_split, name, split
    for name in texts("corpus"):
        yield "corpus", _check_data, name, "corpus"
    for system in texts("systems"):
        yield "systems", _check_system, system
    for retriever in texts("retriever"):
        for then in texts("then") or [""]:
            if values.get("weights"):  # these are tried, so it has none of its own
                yield "then", _check_way, retriever, then.removeprefix("+") or NONE
            else:
                yield "retriever", _check_system, retriever + then
        for way in texts("ways"):
            yield "ways", _check_way, retriever, way
    for encoder in texts("encoder"):
        yield "encoder", check_dense, encoder
    for analyser in texts("analyser"):
        yield "analyser", known, "analyser", analyser, tuple(ANALYSERS)
    for judge in texts("judge") + texts("aspect_judge"):
        yield "judge", check_judge, judge
    cuts = values.get("ks")
    for measure, cut in itertools.product(texts("measures"), cuts if isinstance(cuts, list) else ()):
        for name in data_sets or [""]:
            yield "measures", _check_measure, name, f"{measure}@{cut}"


def _check_data(name: str, kind: str) -> None:
    """Refuse a data set that nothing has, or that lacks what is asked of it: questions, or passages to search."""
    head, _, behind = name.partition(":")
    folder = work_folder()
    if (
        (folder / name).exists()
        or (behind and (folder / name.rpartition(":")[0]).exists())
        or f"{head}:" == IR_DATASETS
    ):
        return
    if "/" in name:
        raise InputError(f"{name} is not there; a path starts at {folder}")
    dataset, _ = DATASETS.find(head)
    needed = "questions" if kind == "data" else "passages"
    if dataset.reader == SCENARIO and kind != "corpus":
        known("scenario", behind, SCENARIOS)
    elif dataset.reader == PIR and kind != "corpus":
        with suppress(MissingDataError):  # of one that is not here, its tasks are not known
            load_task(dataset, behind)
    elif behind and (kind != "corpus" or behind != "words"):
        DATASETS.find(name)  # which says what there is
    elif not dataset.make and needed not in dataset.parts:
        raise InputError(f"{name!r} has no {needed}")


def _check_split(name: str, split: str) -> None:
    dataset = DATASETS.get(name.partition(":")[0])
    if dataset and dataset.reader == SCENARIO:
        known(f"split of {name!r},", split, dataset.splits)
    elif dataset and dataset.reader != PIR:
        known(f"split of {name!r},", split, (*dataset.splits, "all"))


def _check_measure(name: str, text: str) -> None:
    measure = parse_measure(text)
    dataset = DATASETS.get(name.partition(":")[0])
    if dataset and dataset.reader == SCENARIO:
        measures_of_scenario(measure)
    elif dataset and not dataset.make:
        check_without_groups([measure])


def _check_way(retriever: str, way: str) -> None:
    for system in systems_of(retriever, way, [1.0]):
        _check_system(system)


def _check_system(text: str) -> None:
    system = parse_system(text)
    for name in system.values(EXPAND, MULTI):
        kind, colon, _ = name.partition(":")
        known("set of expansions", kind if colon else name, SEARCHED if colon else (RECORDED, RULE))
    for name in system.values(EXTRACT):
        known("way to take queries apart", name.partition(":")[0], ("chat", RULE))


# ---------------------------------------------------------------- what is done


def status(grid: Grid) -> list[dict[str, Any]]:
    """Return for each run: run (its folder's name), state, seconds (None unless finished), parameters, error.

    The state is "finished", "running", "failed", "broken off" or "not started".
    """
    rows = []
    for run in grid.runs:
        record = finished(run)
        state, error = (DONE, "") if record else _unfinished(run.folder)
        about = {"run": run.folder.name, "state": state, "seconds": record.get("seconds")}
        rows.append(about | {"parameters": run.parameters, "error": error})
    return rows


def _unfinished(folder: Path) -> tuple[str, str]:
    """Return the state of a run that is not finished, and what went wrong."""
    if not folder.exists():
        return TO_DO, ""
    try:
        with run_lock(folder).acquire(timeout=0):
            return FAILURE, _read_json(folder / FAILED)["error"]
    except Timeout:
        return RUNNING, ""
    except _NO_RECORD:
        return BROKEN_OFF, ""


def finished(run: Run) -> dict[str, Any]:
    """Return what run.json says if this very run was finished and its files are still whole, otherwise nothing.

    A record that is not there, or is damaged, is no record: the run is repeated.
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


def missing_data(grid: Grid) -> list[str]:
    """Return the data sets and the files of `sources` that runs name and of which nothing is on this machine."""
    settings = [grid.notebook.defaults | run.parameters for run in grid.runs]
    inputs = notebooks.inputs_of(value for values in settings for value in values.values())
    sources = {source for values in settings for source in values.get("sources", []) if source != "sample"}
    return [name for name, digest in inputs.items() if not digest] + sorted(sources - inputs.keys())


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
    """Run what is not finished yet, and write the summary; return the failures, run → what went wrong.

    Args:
        grid: from :func:`read_grid`.
        workers: how many notebooks run at a time, each in processes of its own; runs that need GPUs, one at a time.
        scheduler: address of a dask scheduler, whose workers then do it; they need this package in the same version and
            the same folders (a shared file system).
        stop_on_error: begin nothing new after a failure.
        limit: begin at most so many runs; 0 for all.
        only_failed: of those that are not finished, only such as failed or were broken off.
    """
    states = [row["state"] for row in status(grid)]
    left_out = (DONE, RUNNING, TO_DO) if only_failed else (DONE,)
    todo = [run for run, state in zip(grid.runs, states, strict=True) if state not in left_out]
    todo = todo[: limit or None]
    failures: dict[str, str] = {}
    if todo:
        if missing := missing_data(grid):
            raise BerdsError(f"not on this machine: {', '.join(missing)}; berds data card NAME says how to get it")
        here = 1 if grid.gpus else workers
        at_once = len(todo) if scheduler else here  # a cluster may grow: it gets everything
        progress = bar(total=len(grid.runs), initial=states.count(DONE), desc=grid.name, unit="run", leave=True)
        with progress, cluster(scheduler, grid.gpus) if scheduler else processes(at_once) as pool:
            for run, problem in _outcomes(pool, grid.notebook, todo, at_once, stop_on_error):
                if problem:
                    failures[run.folder.name] = problem
                    tqdm.write(printable(f"berds: {run.folder.name}: {problem}"), file=sys.stderr)  # above the bar
                progress.set_postfix_str(f"{len(failures)} failed", refresh=False)
                progress.update()
    collect(grid)
    return failures


def _outcomes(
    pool: futures.Executor, notebook: Notebook, todo: Sequence[Run], at_once: int, stop_on_error: bool
) -> Iterator[tuple[Run, str]]:
    """Yield each run as it ends, and what went wrong; one that another call is at comes last."""
    waiting = deque((run, False) for run in todo)
    running: dict[futures.Future[bool], Run] = {}
    stopped = False
    while waiting or running:
        while waiting and len(running) < at_once:
            run, waits_for_others = waiting.popleft()
            running[pool.submit(_run_one, notebook, run, waits_for_others)] = run
        for future in futures.wait(running, return_when=futures.FIRST_COMPLETED).done:
            run = running.pop(future)
            problem = ""
            try:
                if not future.result():
                    waiting.extend([] if stopped else [(run, True)])
                    continue
            except futures.BrokenExecutor:
                raise BerdsError(f"a worker process was killed (out of memory?). {_KEPT}") from None
            except futures.CancelledError:
                raise BerdsError(f"the dask scheduler is gone. {_KEPT}") from None
            except Exception as error:  # noqa: BLE001 - whatever a run dies of does not end the others
                problem = str(error) if isinstance(error, BerdsError) else f"{type(error).__name__}: {error}"
            yield run, problem
            if problem and stop_on_error:
                stopped = True
                waiting.clear()
                running = {other: of for other, of in running.items() if not other.cancel()}


def _run_one(notebook: Notebook, run: Run, waits_for_others: bool) -> bool:
    """Execute one run, in whatever process, unless it is finished; return False if another call is at it."""
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
def processes(workers: int) -> Iterator[futures.Executor]:
    """Processes of this machine, which end at the first Ctrl-C: a second one would leave some waiting for work."""
    others = set(multiprocessing.active_children())

    def end(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()  # no other thread may set a handler
    before = signal.signal(signal.SIGINT, end) if is_main else None
    context = multiprocessing.get_context("spawn")
    try:
        with futures.ProcessPoolExecutor(workers, context, initializer=_end_with_parent) as pool:
            yield pool
    finally:
        if is_main:
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
def cluster(scheduler: str, gpus: int = 0) -> Iterator[futures.Executor]:
    """Workers of a dask cluster; work that needs GPUs goes to those that say what they have (--resources GPU=1)."""
    try:
        distributed = importlib.import_module("distributed")
        client = distributed.Client(scheduler, timeout=10)
    except ImportError:
        raise InputError("a scheduler needs dask; install it with: pip install 'berdslib[cluster]'") from None
    except (OSError, ValueError) as error:
        problem = f"no dask scheduler at {scheduler!r} ({error}); such as tcp://host:8786 is accepted"
        raise InputError(problem, field="scheduler") from None
    with client:
        workers = client.scheduler_info(-1)["workers"].values()
        if gpus > max((worker["resources"].get("GPU", 0) for worker in workers), default=0):
            # Otherwise dask would wait for such a worker for ever.
            raise BerdsError(f'no worker has {gpus} GPUs; start one with --resources "GPU={gpus}"')
        resources = {"GPU": gpus} if gpus else {}
        with client.get_executor(
            pure=False, resources=resources
        ) as pool:  # pure: the same call would not be made twice
            yield pool


# ---------------------------------------------------------------- what came out


def grid_table(grid: Grid) -> pd.DataFrame:
    """Return the scores.csv of all finished runs in one table, each row between its parameters and where it comes from.

    Parameters that any run sets are there for all; a list is written as JSON. A column that is named like a parameter
    and says something else becomes scores_NAME. What run.json says of the run stands in columns run_NAME.
    """
    names = grid.settings
    defaults = {name: grid.notebook.defaults[name] for name in names}
    settings, scores, about = (list[pd.DataFrame]() for _ in range(3))
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


_ABOUT_FILES = ("notebook", "parameters", "environment", "files", "finished")  # of run.json, not of its results


def _scores_of(run: Run) -> pd.DataFrame:
    """Return the scores of a run, or one row of nothing."""
    path = run.folder / _SCORES
    try:
        scores = pd.read_csv(path) if path.exists() else pd.DataFrame()
    except ValueError as error:
        raise InputError(f"not a readable table: {error}", path=path) from None
    return scores if len(scores) else pd.DataFrame(index=[0])


def _cell(value: Any) -> Any:
    return value if isinstance(value, str | int | float) else json.dumps(value, default=str)


def collect(grid: Grid) -> pd.DataFrame:
    """Write the table of all finished runs as CSV, and their TREC runs with a header that says where from.

    Returns:
        The table, see :func:`grid_table`.
    """
    table = grid_table(grid)
    with write_text(grid.summary) as file:
        table.to_csv(file, index=False)
    for run in grid.runs:
        record = finished(run)
        for path in sorted(run.folder.glob("*.trec")) if record else ():
            if path.is_symlink():  # a run writes no links, and what a link leads to may be anything
                raise InputError("is a link, and a run's list is a file; remove the link", path=path)
            tag = f"{run.folder.name}-{path.stem}"
            lines = "".join(line for _, line in read_lines(path))
            with write_text(grid.summary.parent / "runs" / f"{tag}.trec") as file:
                file.write(ir_metadata(record, tag) + lines)
    return table


def ir_metadata(record: Mapping[str, Any], tag: str) -> str:
    """Return what run.json says as a header of a TREC run, in the form of ir_metadata (Breuer et al., SIGIR 2022)."""
    env = record["environment"]
    libraries = [f"{name}=={version}" for name, version in env["versions"].items()]
    about = {
        "tag": tag,
        "platform": {
            "hardware": {
                "cpu": {"model": env["processor"], "number of cores": env["cores"]},
                "ram": f"{env['ram']} GB",
            },
            "operating system": {"kernel": env["platform"]},
            "software": {
                "libraries": {"python": libraries},
                "retrieval toolkit": [f"berdslib=={record['berdslib']}"],
            },
        },
        "implementation": {"source": {"lang": "python", "commit": env["commit"], "code": record["code"]}},
        "method": {"automatic": True, "parameters": record["parameters"], "number format": env["number_format"]},
        "data": {"checksums": record["inputs"]},
    }
    lines = yaml.safe_dump(about, sort_keys=False, allow_unicode=True).splitlines()
    return "".join(f"# {line}\n" for line in ("ir_metadata.start", *lines, "ir_metadata.end"))


def report(grid: Grid) -> NotebookRun:
    """Collect, and execute the notebook that sums a grid up, or the one for tables that hold no means of measures."""
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
    source = notebooks.notebook_folder().parent / "papermill_runs" / f"{name}.ipynb"
    return notebooks.run_notebook(str(source), parameters, output=grid.summary.parent / "report")
