"""A notebook over a grid of parameters: what a grid file says, what is done of it, and what came out.

papermill_runs/README.md describes a grid file; grids which overlap share their runs. :mod:`berdslib.study.running` runs
what is not done.
"""

from __future__ import annotations

import itertools
import json
import math
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NamedTuple

import pandas as pd
import yaml
from filelock import Timeout

from berdslib.data.catalogue import DATASETS
from berdslib.data.datasets import IR_DATASETS
from berdslib.data.pir import load_task
from berdslib.data.scenario import SCENARIOS
from berdslib.errors import InputError, MissingDataError, errors_in, known
from berdslib.evaluation.arguments import measures_of_scenario
from berdslib.evaluation.measures import check_without_groups, parse_measure
from berdslib.files import atomic_path, read_lines, write_text
from berdslib.judging.registry import check_judge
from berdslib.retrieval.bm25 import ANALYSERS
from berdslib.retrieval.expansion import SEARCHED
from berdslib.retrieval.retrievers import RETRIEVERS, is_dense
from berdslib.retrieval.systems import EXPAND, EXTRACT, MULTI, RECORDED, RULE, parse_system
from berdslib.study import notebooks
from berdslib.study.notebooks import Notebook, NotebookRun, run_folder, run_lock, work_folder
from berdslib.study.provenance import inputs_of, ir_metadata
from berdslib.study.tables import MACRO
from berdslib.study.tuning import NONE, systems_of

SCORES = "scores.csv"  # what the summary reads in each run's folder
_PROFILE = ("fixed", "grid", "runs", "exclude", "best", "resources")
_FIELDS = ("notebook", *_PROFILE, "profiles")
LARGEST_FILE = 1_000_000  # bytes of a grid file
MOST_RUNS = 1000  # of one file: more is a mistake, or a matter for several files
# What reading the record of a run raises where it is not there, or is damaged.
_NO_RECORD = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
PIR, SCENARIO = "pir", "perspectivearg"  # readers of data sets that name a task behind a colon
DONE, RUNNING, FAILURE, BROKEN_OFF, TO_DO = "finished", "running", "failed", "broken off", "not started"


class Run(NamedTuple):
    """One setting of a grid: where its results go, and its parameters in the types of the notebook's defaults."""

    folder: Path
    parameters: dict[str, Any]


class Best(NamedTuple):
    """What is compared: a column of scores.csv in the row that other columns choose, of each system of each run."""

    column: str
    where: dict[str, Any]
    largest: bool


class Resources(NamedTuple):
    """What a run needs, or may take at most: GPUs, GB of memory, minutes; 0 for no need and no limit."""

    gpu: int = 0
    memory: float = 0
    minutes: float = 0


class Grid(NamedTuple):
    """A checked grid file; ``runs`` holds every combination once, in the order of the file."""

    path: Path
    profile: str
    notebook: Notebook
    runs: tuple[Run, ...]
    best: Best | None
    resources: Resources

    @property
    def name(self) -> str:
        """Return the file's name without its ending, and behind it the profile."""
        return "-".join(filter(None, (self.path.stem, self.profile)))

    @property
    def summary(self) -> Path:
        """Return where the table of all runs goes: papermill_runs/NAME/summary.csv; other results lie beside it."""
        return work_folder() / "papermill_runs" / self.name / "summary.csv"


# ---------------------------------------------------------------- reading


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in a mapping, of which YAML alone keeps the last value, and aliases.

    A few nested aliases stand for gigabytes. A number such as 1:30 stays text, since YAML 1.1 reads it in base 60.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            problem = f"*{shortened(event.anchor)} is an alias; write its value out"
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)  # type: ignore[arg-type]
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


def read_grid(path: Path, profile: str = "") -> Grid:
    """Read a grid file, and check every combination of parameters; a run's own values go before those of ``fixed``."""
    with errors_in(path):
        if path.stem.startswith("."):  # "...yaml" would write its summary beside papermill_runs
            raise InputError("the name of a grid file is that of its summary's folder, and cannot begin with a dot")
        document = _with_profile(_load_yaml(path), profile)
        name = document.get("notebook")
        if not isinstance(name, str):
            raise InputError(
                f"a notebook's name such as '03_retrieval' is needed, not {shortened(name)}", field="notebook"
            )
        beside = path.parent / name
        with errors_in(path, "notebook"):
            if "/" in name and not beside.is_file():
                raise InputError(f"{name} is not there; a path starts at the grid file's folder")
            source = notebooks.open_notebook(notebooks.find_notebook(str(beside) if beside.is_file() else name))
        with errors_in(path, "fixed"):
            fixed = _check_values(source, _mapping(None, document.get("fixed")))
        settings = []
        for field, setting in _settings(document, fixed):
            with errors_in(path, field):
                settings.append(fixed | _check_values(source, setting))
        kept = _without_excluded(path, source, settings, document.get("exclude"))
        looked: dict[str, str | None] = {}
        runs = {folder: Run(folder, values) for values in kept for folder in [run_folder(source, values, looked)]}
        if "register(" not in source.text:  # it may name what only its own cells add
            defaults = {name: parameter.default for name, parameter in source.parameters.items()}
            every = dict.fromkeys(pair for run in runs.values() for pair in _names(defaults | run.parameters))
            for kind, name in every:
                with errors_in(path, kind):
                    if name:
                        _check_name(kind, name)
        best, resources = _best(document.get("best")), _resources(document.get("resources"))
        return Grid(path, profile, source, tuple(runs.values()), best, resources)


def _load_yaml(path: Path) -> dict[str, Any]:
    if (size := path.stat().st_size if path.is_file() else 0) > LARGEST_FILE:
        raise InputError(f"has {size:,} bytes; a grid file has at most {LARGEST_FILE:,}")
    text = "".join(line for _, line in read_lines(path))
    try:
        document = yaml.load(text, _Loader)
    except Exception as error:  # noqa: BLE001 - PyYAML raises whatever a tag makes of its value, such as !!int ''
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or f"{type(error).__name__} {error}".partition("\n")[0]
        raise InputError(f"not usable YAML: {reason}", line=mark.line + 1 if mark else None) from None
    if not isinstance(document, dict):
        raise InputError(f"a mapping with the fields {', '.join(_FIELDS)} was expected")
    for field in document:
        known("field", str(field), _FIELDS)
    return document


def _with_profile(document: dict[str, Any], profile: str) -> dict[str, Any]:
    """Return the file as a profile has it: its `fixed` adds to the file's, and its `grid` or `runs` replace both."""
    profiles = _mapping("profiles", document.get("profiles"))
    for name, given in profiles.items():
        for field in _mapping(f"profiles.{name}", given):
            known(f"field of profile {name!r},", field, _PROFILE)
    if not profile:
        return document
    theirs = profiles[known("profile", profile, profiles)] or {}
    replaced = {"grid", "runs", "exclude"} if {"grid", "runs"} & theirs.keys() else set()
    kept = {field: value for field, value in document.items() if field not in replaced}
    fixed = _mapping("fixed", kept.get("fixed")) | _mapping("fixed", theirs.get("fixed"))
    return kept | theirs | {"fixed": fixed}


def _settings(document: dict[str, Any], fixed: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
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


def _without_excluded(path: Path, source: Notebook, settings: list[dict[str, Any]], given: Any) -> list[dict[str, Any]]:
    for i, entry in enumerate([] if given is None else _list("exclude", given), start=1):
        with errors_in(path, f"exclude, entry {i}"):
            out = _check_values(source, _mapping(None, entry))
            kept = [values for values in settings if any(values.get(name) != value for name, value in out.items())]
            if len(kept) in (0, len(settings)):
                raise InputError(f"leaves out {'no' if kept else 'every'} run")
        settings = kept
    return settings


def _check_values(source: Notebook, given: dict[str, Any]) -> dict[str, Any]:
    values = notebooks.check_parameters(source, given)
    if "output_dir" in values:
        raise InputError("every run has its own folder; do not set this", field="output_dir")
    for name, value in values.items():
        if name in source.unread:
            raise InputError(f"no cell of {source.path.stem} reads it: every value would give the same", field=name)
        try:
            json.dumps(value, allow_nan=False)  # what run.json and the folder's name are made of
        except (TypeError, ValueError) as error:
            raise InputError(f"only text, finite numbers, true, false and lists of them: {error}", field=name) from None
    return values


def _names(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a run's parameters name, each with the parameter, whose own name says what it is a name of."""

    def of(*names: str) -> list[str]:
        given = [values.get(name, []) for name in names]
        return [text for one in given for text in (one if isinstance(one, list) else [one]) if isinstance(text, str)]

    sets, cuts = of("data", "datasets"), values.get("ks")
    measures = [f"{m}@{k}".replace(" ", "") for m in of("measures") for k in (cuts if isinstance(cuts, list) else ())]
    yield from (("data", name) for name in sets)
    # Where no corpus is named, that of the questions is searched.
    yield from (("corpus", name) for name in of("corpus") if name)
    yield from (("own corpus", name) for name in sets if values.get("corpus") == "")
    yield from (("split", f"{name} {split}") for name in sets for split in of("split"))
    yield from (("systems", system) for system in of("systems"))
    for first in of("retriever"):
        for then in of("then") or [""]:
            way = then.removeprefix("+") or NONE  # where weights are tried, it has none of its own
            yield ("then", f"{first} {way}") if values.get("weights") else ("retriever", first + then)
        yield from (("ways", f"{first} {way}") for way in of("ways"))
    yield from (("encoder", name) for name in of("encoder"))
    yield from (("analyser", name) for name in of("analyser"))
    yield from (("judge", judge) for judge in of("judge", "aspect_judge"))
    yield from (("measures", f"{name} {measure}") for name in sets or ["?"] for measure in measures)


def _check_name(kind: str, name: str) -> None:
    """Refuse a name that nothing has: it would end the run, after others have taken their time."""
    about, _, last = name.rpartition(" ")
    if kind in ("data", "corpus", "own corpus"):
        _check_data(kind, name)
    elif kind == "split":
        one = DATASETS.get(about.partition(":")[0])
        if one and one.reader == SCENARIO:
            known(f"split of {about!r},", last, one.splits)
        elif one and one.reader != PIR:
            known(f"split of {about!r},", last, (*one.splits, "all"))
    elif kind == "judge":
        check_judge(name)
    elif kind == "measures":
        measure, one = parse_measure(last), DATASETS.get(about.partition(":")[0])
        if one and one.reader == SCENARIO:
            measures_of_scenario(measure)
        elif one and not one.make:
            check_without_groups([measure])
    elif kind in ("ways", "then"):
        for system in systems_of(about, last, [1.0]):
            _check_system(system)
    elif kind == "encoder":
        RETRIEVERS.find(name)
        if not is_dense(name):
            raise InputError(f"{name} has no vectors; use minilm")
    elif kind == "analyser":
        known("analyser", name, ANALYSERS)
    else:
        _check_system(name)


def _check_data(kind: str, name: str) -> None:
    """Refuse a data set that nothing has, or that lacks what is asked of it: questions, or passages to search."""
    if any((work_folder() / part).exists() for part in (name, name.rpartition(":")[0]) if part):
        return
    if "/" in name:
        raise InputError(f"{name} is not there; a path starts at {work_folder()}")
    head, _, behind = name.partition(":")
    if f"{head}:" == IR_DATASETS:
        return
    one, needed = DATASETS.find(head)[0], "questions" if kind == "data" else "passages"
    if one.reader == SCENARIO and kind != "corpus":
        known("scenario", behind, SCENARIOS)
    elif one.reader == PIR and kind != "corpus":
        with suppress(MissingDataError):  # of one that is not here, its tasks are not known
            load_task(one, behind)
    elif behind and (kind != "corpus" or behind != "words"):
        DATASETS.find(name)  # which says what there is
    elif not one.make and needed not in one.parts:
        raise InputError(f"{name!r} has no {needed}")


def _check_system(text: str) -> None:
    system = parse_system(text)
    for name in system.values(EXPAND, MULTI):
        kind, colon, _ = name.partition(":")
        known("set of expansions", kind if colon else name, SEARCHED if colon else (RECORDED, RULE))
    for name in system.values(EXTRACT):
        known("way to take queries apart", name.partition(":")[0], ("chat", RULE))


def _mapping(field: str | None, value: Any) -> dict[str, Any]:
    if value is not None and (not isinstance(value, dict) or not all(isinstance(name, str) for name in value)):
        raise InputError(f"a mapping of names to values was expected, not {shortened(value)}", field=field)
    return value or {}


def _list(field: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise InputError(f"a list such as [1, 2] was expected, not {shortened(value)}", field=field)
    return value


def _best(value: Any) -> Best | None:
    if value is None:
        return None
    given = _mapping("best", value)
    for name in given:
        known("field of best", name, Best._fields)
    column, largest = given.get("column"), given.get("largest", True)
    if not isinstance(column, str):
        raise InputError(f"the name of a column of {SCORES} is needed, not {shortened(column)}", field="best.column")
    if not isinstance(largest, bool):
        raise InputError(f"true or false is needed, not {shortened(largest)}", field="best.largest")
    return Best(column, _mapping("best.where", given.get("where")), largest)


def _resources(value: Any) -> Resources:
    given = _mapping("resources", value)
    for name, number in given.items():
        known("field of resources", name, Resources._fields)
        kinds = (int,) if name == "gpu" else (int, float)
        if type(number) not in kinds or not 0 <= number < math.inf:
            kind = "whole number" if name == "gpu" else "number"
            raise InputError(f"a {kind} from 0 is needed, not {shortened(number)}", field=f"resources.{name}")
    return Resources(**given)


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
            return FAILURE, _read_json(folder / notebooks.FAILED)["error"]
    except Timeout:
        return RUNNING, ""
    except _NO_RECORD:
        return BROKEN_OFF, ""


def finished(run: Run) -> dict[str, Any]:
    """Return what run.json says if this very run was finished and its files are still whole, otherwise nothing.

    A record that is not there, or is damaged, is no record: the run is repeated.
    """
    try:
        record: dict[str, Any] = _read_json(run.folder / "run.json")
        whole = all((run.folder / name).stat().st_size == size for name, size in record["files"].items())
        whole = whole and isinstance(record["environment"], dict)
        return record if record["finished"] is True and record["parameters"] == run.parameters and whole else {}
    except _NO_RECORD:
        return {}


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def missing_data(grid: Grid) -> list[str]:
    """Return the data sets that runs name and of which nothing is on this machine."""
    defaults = {name: parameter.default for name, parameter in grid.notebook.parameters.items()}
    values = (value for run in grid.runs for value in (defaults | run.parameters).values())
    return [name for name, digest in inputs_of(values, work_folder()).items() if not digest]


def clean(grid: Grid, *, everything: bool = False, dry_run: bool = False) -> list[Path]:
    """Delete the folders of runs that failed or were broken off, or with `everything` of all, and return them.

    A run that is under way is left alone.
    """
    found = []
    for run, row in zip(grid.runs, status(grid), strict=True):
        if row["state"] in (FAILURE, BROKEN_OFF) or (everything and row["state"] == DONE):
            found.append(run.folder)
            if not dry_run:
                with run_lock(run.folder):
                    shutil.rmtree(run.folder)
    return found


# ---------------------------------------------------------------- what came out


def grid_table(grid: Grid) -> pd.DataFrame:
    """Return the scores.csv of all finished runs in one table, each row between its parameters and where it comes from.

    Parameters that any run sets are there for all; a list is written as JSON. A column that is named like a parameter
    and says something else becomes scores_NAME. What run.json says of the run stands in columns run_NAME.
    """
    names = dict.fromkeys(name for run in grid.runs for name in run.parameters)
    defaults = {name: grid.notebook.parameters[name].default for name in names}
    settings, scores, about = (list[pd.DataFrame]() for _ in range(3))
    for run, record in ((run, record) for run in grid.runs if (record := finished(run))):
        path, told = run.folder / SCORES, record | record["environment"]
        try:
            found = pd.read_csv(path) if path.exists() else pd.DataFrame()
        except ValueError as error:
            raise InputError(f"not a readable table: {error}", path=path) from None
        found = found if len(found) else pd.DataFrame(index=[0])
        values = {name: _cell(value) for name, value in (defaults | run.parameters).items()}
        settings.append(pd.DataFrame({"run": run.folder.name, **values}, index=found.index))
        scores.append(found.rename(columns={name: f"scores_{name}" for name in ("run", *names)}))
        facts = {f"run_{name}": _cell(told[name]) for name in told if name not in _ABOUT_FILES}
        about.append(pd.DataFrame(facts, index=found.index))
    if not settings:
        return pd.DataFrame(columns=["run"])
    table = pd.concat([pd.concat(part, ignore_index=True) for part in (settings, scores, about)], axis=1)
    again = {f"scores_{name}": name for name in names if f"scores_{name}" in table}
    return table.drop(columns=[column for column, name in again.items() if table[column].eq(table[name]).all()])


_TASK = ("data", "datasets", "corpus")  # parameters that say what is asked and searched, whatever the system
_ABOUT_FILES = ("notebook", "parameters", "environment", "files", "finished")  # of run.json, not of its results


def _cell(value: Any) -> Any:
    return value if isinstance(value, str | int | float) else json.dumps(value, default=str)


def collect(grid: Grid) -> pd.DataFrame:
    """Write the table of all finished runs as CSV and Parquet, and their TREC runs with a header that says where from.

    Returns:
        The table, see :func:`grid_table`.
    """
    table = grid_table(grid)
    with write_text(grid.summary) as file:
        table.to_csv(file, index=False)
    mixed = [name for name in table if pd.api.types.infer_dtype(table[name], skipna=True).startswith("mixed")]
    with atomic_path(grid.summary.with_suffix(".parquet")) as unfinished:  # a column of which has one type
        table.astype(dict.fromkeys(mixed, str)).to_parquet(unfinished, index=False)
    for run in grid.runs:
        record = finished(run)
        for path in sorted(run.folder.glob("*.trec")) if record else ():
            if path.is_symlink():  # a run writes none, and what it leads to may be anything
                raise InputError("is a link, and a run's list is a file; remove it", path=path)
            tag = f"{run.folder.name}-{path.stem}"
            lines = "".join(line for _, line in read_lines(path))
            with write_text(grid.summary.parent / "runs" / f"{tag}.trec") as file:
                file.write(ir_metadata(record, tag) + lines)
    return table


def report(grid: Grid) -> NotebookRun:
    """Collect, and execute the notebook that sums a grid up, or the one for tables that hold no means of measures."""
    table = collect(grid)
    if table.empty:
        raise InputError(f"no run of {grid.name} is finished", path=grid.path)
    given: dict[str, Any] = {"summary": str(grid.summary)}
    name = "report"
    if not {"system", "dataset", "measure", "mean", "low", "high"} <= set(table) or MACRO not in set(table["dataset"]):
        name = "report_columns"
        given["settings"] = list(dict.fromkeys(one for run in grid.runs for one in run.parameters))
    source = notebooks.notebook_folder().parent / "papermill_runs" / f"{name}.ipynb"
    return notebooks.run_notebook(str(source), given, output=grid.summary.parent / "report")


def best_run(grid: Grid, table: pd.DataFrame) -> dict[str, Any] | None:
    """Return the system that `best` of the file asks for.

    Each system of each run has one value, in the rows of scores.csv that `where` chooses. Runs that differ only in what
    is asked and searched hold the same system: it is compared by its mean over all such tasks, since otherwise the
    easiest task would win; a system that lacks one of them is left out. Of equals the first is taken.

    Returns:
        runs, system, value, the parameters that its runs share, of how many it is best (compared), and over how many
        tasks. None if the file names no `best`, nothing is finished, or no system has every task yet.
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
            table = table.assign(value=pd.to_numeric(table[best.column])).dropna(subset="value")
        except (TypeError, ValueError) as error:
            raise InputError(f"column {best.column!r} of {SCORES}: {error}", field="column") from None
        if table.empty:
            raise InputError(f"no finished run has a value of {best.column!r} in rows where {best.where}")
        one = ["run", *(name for name in ("system",) if name in table)]
        table = table.drop_duplicates([*one, "value"])
        if len(twice := table[table.duplicated(one, keep=False)]):
            first = twice[(twice[one] == twice[one].iloc[0]).all(axis=1)]
            differ = [str(n) for n in first if first[n].nunique() > 1 and n not in ("value", best.column)]
            problem = f"{len(first)} rows of {first['run'].iloc[0]} are meant, which differ in {', '.join(differ)}"
            raise InputError(f"{problem}; say which", field="where")
    settings = dict.fromkeys(name for run in grid.runs for name in run.parameters)
    of_task = [name for name in settings if name in _TASK]
    tasks = len(table.drop_duplicates(of_task)) if of_task else 1
    of_system = [name for name in ("system", *settings) if name in table and name not in _TASK]
    by_system = [rows for _, rows in table.groupby(of_system, sort=False, dropna=False)] if of_system else [table]
    whole = [rows for rows in by_system if len(rows) == tasks]
    if not whole:
        return None
    means = [float(rows["value"].mean()) for rows in whole]
    value = max(means) if best.largest else min(means)
    rows = whole[means.index(value)]
    of_runs = [run.parameters for run in grid.runs if run.folder.name in set(rows["run"])]
    shared = {name: given for name, given in of_runs[0].items() if all(one.get(name) == given for one in of_runs)}
    found = {"runs": rows["run"].tolist(), "system": rows["system"].iloc[0] if "system" in rows else None}
    return found | {"value": value, "parameters": shared, "compared": len(whole), "tasks": tasks}
