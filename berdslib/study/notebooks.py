"""Running notebooks by papermill, safely: parameters are checked first, and success is a file written last.

A run is kept in a folder that is named after all that its results depend on, so that a grid can go on with it.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import json
import logging
import math
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NamedTuple

import psutil
from filelock import FileLock, Timeout

from berdslib.data.catalogue import DATASETS
from berdslib.data.fetch import every_place
from berdslib.errors import BerdsError, InputError, errors_in, known
from berdslib.files import StrPath, write_text
from berdslib.models.loading import fastest_format
from berdslib.paths import PACKAGE, project_root, shipped
from berdslib.progress import bars_are_seen
from berdslib.version import __version__

_COMPUTING = {".py", ".toml", ".txt", ".json", ".safetensors"}  # code, cards, prompts, settings and weights
# Bytes of a file that are hashed: all, but for weights. Beside those stands what they scored, which changes with them.
_HASHED_OF_CODE = 2**20
_HASHED_OF_DATA = 2**28  # of a larger file the size and the time of its last change are taken
_LONGEST_PATH = 256
_STARTS = 3  # attempts to start a kernel
_LOCK = ".lock"  # in a run's folder
RECORD = "run.json"  # in that of a finished run
FAILED = "failed.json"  # in that of a run that failed


class Parameter(NamedTuple):
    """A notebook parameter: its name, default (a plain literal) and the comment behind it."""

    name: str
    default: Any
    help: str


class Notebook(NamedTuple):
    """A notebook as it was when it was read, and is run whatever happens to the file meanwhile.

    ``cells`` are kinds and sources, ``text`` is all of it as JSON.
    """

    path: Path
    cells: list[tuple[str, str]]
    parameters: dict[str, Parameter]
    text: str

    @property
    def defaults(self) -> dict[str, Any]:
        """Parameter → default."""
        return {name: parameter.default for name, parameter in self.parameters.items()}


class NotebookRun(NamedTuple):
    """A finished run: the folder, the executed notebook, and what run.json says."""

    folder: Path
    notebook: Path
    record: dict[str, Any]


# ---------------------------------------------------------------- where notebooks and runs are


def notebook_folder() -> Path:
    """Return the notebooks of the checkout; outside of one, those that came with the package."""
    root = project_root()
    return root / "notebooks" if root else shipped("notebooks")


def work_folder() -> Path:
    """Return where runs and what notebooks write go: the checkout; outside of one, the current folder."""
    return project_root() or Path.cwd()


def output_folder(name: str) -> Path:
    """Return the folder a notebook writes to: `name` itself if absolute, else below the project root; it is created."""
    folder = work_folder() / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def numbered_notebooks() -> dict[str, Path]:
    """Return name → path of the numbered notebooks, in their order."""
    return {path.stem: path for path in sorted(notebook_folder().glob("[0-9][0-9]_*.ipynb"))}


def find_notebook(name: str) -> Path:
    """Return a notebook by name ("00_quickstart"), number ("00") or path."""
    if name.endswith(".ipynb") and Path(name).is_file():
        return Path(name).resolve()
    names = numbered_notebooks()
    by_number = {stem[:2]: stem for stem in names}
    return names[known("notebook", by_number.get(name, name.removesuffix(".ipynb")), names)]


# ---------------------------------------------------------------- notebooks and their parameters


def open_notebook(path: Path) -> Notebook:
    """Read a notebook with the parameters in its one cell tagged `parameters`: ``name = literal  # help`` a line."""
    notebook = read_notebook(path)
    sources = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    tags = [cell.get("metadata", {}).get("tags", []) for cell in notebook["cells"]]
    tagged = [source for (_, source), names in zip(sources, tags, strict=True) if "parameters" in names]
    if len(tagged) != 1:
        raise InputError(f"{len(tagged)} cells are tagged `parameters`; exactly one is needed", path=path)
    with errors_in(path):
        return Notebook(path, sources, _parameters_in(tagged[0]), json.dumps(notebook))


def _parameters_in(cell: str) -> dict[str, Parameter]:
    parameters = {}
    line = None
    try:
        for node in ast.parse(cell).body:
            line = node.lineno
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    comment = cell.splitlines()[line - 1].partition("  # ")[2]
                    parameters[name] = Parameter(name, ast.literal_eval(value), comment.strip())
                case _:
                    raise ValueError
    except SyntaxError as error:
        raise InputError(f"parameters cell: {error.msg}", line=error.lineno) from None
    except (ValueError, TypeError, MemoryError, RecursionError):  # a list as a key; 50,000 minus signs
        raise InputError("parameters cell: a line must read `name = value`, a plain literal", line=line) from None
    return parameters


def read_notebook(path: Path) -> dict[str, Any]:
    """Return a notebook as JSON."""
    import nbformat

    try:
        text = path.read_text(encoding="utf-8")
        nbformat.reads(text, as_version=4)  # as papermill will
        notebook: dict[str, Any] = json.loads(text)
        notebook["cells"]  # which a notebook of an older version lacks
    except Exception as error:  # noqa: BLE001 - whatever a damaged field leads to, also AssertionError
        raise InputError(f"is not a readable notebook ({type(error).__name__})", path=path) from None
    return notebook


def check_parameters(notebook: Notebook, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given parameters, each in the type of its default; text is read as that type ("5", "true", JSON).

    A list holds values of the types that its default holds; where that is empty, anything. One of words may be written
    as in the shell, "bm25,minilm".
    """
    accepted = notebook.parameters
    kind = f"parameter of {notebook.path.stem}"
    return {name: _typed(accepted[known(kind, name, accepted)], value) for name, value in given.items()}


def _typed(parameter: Parameter, value: Any) -> Any:
    default = parameter.default
    is_written = isinstance(value, str) and not isinstance(default, str)
    try:
        return _like(default, _from_text(value, default) if is_written else value)
    except (TypeError, ValueError, SyntaxError, OverflowError, MemoryError, RecursionError):
        expected = type(default).__name__
        if isinstance(default, list) and default:
            expected += f" of {' or '.join(dict.fromkeys(type(element).__name__ for element in default))}"
        problem = f"must be {expected} (default {default!r}), not {shortened(value)}"
        raise InputError(problem, field=parameter.name) from None


def _from_text(text: str, default: Any) -> Any:
    takes_words = isinstance(default, list) and default and all(isinstance(element, str) for element in default)
    if takes_words and text.strip() and text.lstrip()[0] not in "[({\"'":
        return [word.strip() for word in text.split(",")]
    try:
        return json.loads(text.lower() if isinstance(default, bool) else text)
    except ValueError:
        return ast.literal_eval(text.strip())


def _like(default: Any, value: Any) -> Any:
    """Return a value in the type of a default, whole numbers as floats where need be; ValueError: it is of another."""
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    if type(value) is not type(default) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError
    if isinstance(value, list) and default:
        # By type, so that [1, "all"] takes both.
        examples = {type(example): example for example in default}
        return [_like(examples.get(type(element), default[0]), element) for element in value]
    return value


# ---------------------------------------------------------------- running one


def run_notebook(
    name: str | Notebook,
    parameters: Mapping[str, Any] | None = None,
    *,
    output: StrPath | None = None,
    progress: bool = True,
) -> NotebookRun:
    """Execute a notebook from a fresh kernel, and keep the result.

    ``run.json`` is written last and atomically: a folder without it holds a run that did not finish, and failed.json
    says what went wrong. A wrong parameter is an InputError before anything starts; a cell that fails is a BerdsError
    that names it.
    """
    source = name if isinstance(name, Notebook) else open_notebook(find_notebook(name))
    values = check_parameters(source, parameters or {})
    folder = Path(output or run_folder(source, values)).resolve()
    try:
        with run_lock(folder).acquire(timeout=0):
            return _execute(source, values, folder, progress)
    except Timeout:
        raise BerdsError(f"{folder}: another run is writing here; wait for it, or choose another folder") from None


def run_lock(folder: Path) -> FileLock:
    """Return the lock of a run's folder, which is created; who holds it may take it once more."""
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder.resolve() / _LOCK, is_singleton=True)


def _execute(source: Notebook, values: Mapping[str, Any], folder: Path, progress: bool) -> NotebookRun:
    target = folder / source.path.name
    _check_folder(source, folder)
    for record_of_old in (RECORD, FAILED):
        (folder / record_of_old).unlink(missing_ok=True)
    began = datetime.now(UTC)
    code, inputs = _reads(source, values)
    try:
        _run_cells(source, values, target, progress)
        code_version.cache_clear()
        code_now, inputs_now = _reads(source, values)
        changed = [name for name, digest in inputs.items() if digest and inputs_now.get(name) != digest]
        if code_now != code:
            changed.append("the package's code")
        if changed:
            raise BerdsError(f"{source.path.stem}: {', '.join(changed)} changed while it was run; call again")
    except Exception as error:
        with suppress(OSError, InputError):  # a full disk may be what went wrong; the caller is told all the same
            _write_json(folder / FAILED, {"error": str(error) or type(error).__name__})
        raise
    written = [path for path in sorted(folder.iterdir()) if path.suffix not in ("", ".ipynb")]
    record = {
        "notebook": source.path.stem,
        "parameters": values,
        "berdslib": __version__,
        "code": code,
        "inputs": inputs_now,
        "environment": environment(),
        "started": began.isoformat(timespec="seconds"),
        "seconds": round((datetime.now(UTC) - began).total_seconds(), 1),
        "files": {path.name: path.stat().st_size for path in written},
        "finished": True,
    }
    _write_json(folder / RECORD, record)
    return NotebookRun(folder, target, record)


def _check_folder(source: Notebook, folder: Path) -> None:
    """Refuse a folder in which a run would replace a file that no run wrote."""
    target = folder / source.path.name
    if target.exists() and target.samefile(source.path):
        problem = "holds the notebook itself, which the run would replace; choose another folder"
        raise InputError(problem, path=folder)
    for name, fields in {RECORD: {"notebook", "parameters", "finished"}, FAILED: {"error"}}.items():
        path = folder / name
        if not path.exists():
            continue
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue  # a damaged record of a run, which is replaced
        if not isinstance(record, dict) or not fields <= record.keys():
            raise InputError("is not the record of a run, so it is not replaced; choose another folder", path=path)


def _write_json(path: Path, value: Any) -> None:
    with write_text(path) as file:
        json.dump(value, file, indent=1)


def _run_cells(source: Notebook, values: Mapping[str, Any], target: Path, progress: bool) -> None:
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # it logs the errors that are raised below
    root = work_folder()
    own_folder = {}
    if "output_dir" in source.parameters:  # what it writes goes into the run's own folder, unless the caller chose one
        inside = target.parent.is_relative_to(root)
        own_folder["output_dir"] = os.path.relpath(target.parent, root) if inside else str(target.parent)
    literal_path = str(target).replace("{", "{{").replace("}", "}}")  # papermill fills in what stands in braces
    for starts_left in reversed(range(_STARTS)):
        try:
            target.write_text(source.text, encoding="utf-8")
            papermill.execute_notebook(
                literal_path,
                literal_path,
                parameters={**own_folder, **values},
                cwd=str(root),
                progress_bar=progress and bars_are_seen(),
                kernel_name="python3",
                language="python",
                kernel_manager_class=_kernel_manager(),
                extra_arguments=["--log-level=CRITICAL", "--InteractiveShell.ignore_cwd=True"],
            )
            return
        except PapermillExecutionError as error:
            without_colours = re.sub(r"\x1b\[[0-9;]*m", "", error.evalue)
            raise _failure(target, f"{error.ename}: {without_colours}") from None
        except DeadKernelError:
            problem = "the kernel died, most often for want of memory: try a smaller `limit` or model, or fewer workers"
            raise _failure(target, problem) from None
        except RuntimeError as error:  # jupyter_client's word for a kernel that does not answer at its start
            if not starts_left:
                raise BerdsError(f"{target.stem}: the kernel did not start, {_STARTS} times: {error}") from None


def _failure(target: Path, problem: str) -> BerdsError:
    cells = read_notebook(target)["cells"]
    begun = [cell for cell in cells if cell["metadata"].get("papermill", {}).get("start_time")]
    last = sum(cell["cell_type"] == "code" for cell in begun)
    place = f"The notebook up to there, with all outputs: {target}"
    return BerdsError(f"{target.stem} failed in cell {last}: {problem}\n{place}")


@cache
def _kernel_manager() -> type:
    """Return a manager of kernels that import no module from the current folder."""
    from jupyter_client.manager import AsyncKernelManager

    class WithoutCurrentFolder(AsyncKernelManager):
        async def _async_pre_start_kernel(self, **options: Any) -> Any:
            env = {**os.environ, **options.pop("env", {}), "PYTHONSAFEPATH": "1"}
            if "PYTHONPATH" in env:  # ipykernel drops the first place of the path where it is the current folder
                env["PYTHONPATH"] = os.pathsep.join([os.devnull, env["PYTHONPATH"]])
            return await super()._async_pre_start_kernel(env=env, **options)

    return WithoutCurrentFolder


# ---------------------------------------------------------------- what a run reads, and what it ran on


def run_folder(source: Notebook, values: Mapping[str, Any]) -> Path:
    """Return the folder of a run: papermill_runs/NAME-HASH, of the notebook, the parameters, the code and the data."""
    everything = json.dumps([source.cells, values, *_reads(source, values)], sort_keys=True)
    digest = hashlib.sha256(everything.encode()).hexdigest()[:10]
    return work_folder() / "papermill_runs" / f"{source.path.stem}-{digest}"


def _reads(source: Notebook, values: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return hashes of what a run's results depend on beside notebook and parameters: the code, and data by name."""
    chosen = source.defaults | dict(values)
    chosen.pop("output_dir", None)
    return code_version(), inputs_of(chosen.values())


@cache
def code_version() -> str:
    """Return a hash of what the package computes by: its code, prompts, settings and weights, as they are now."""
    digest = hashlib.sha256()
    for path in sorted(path for path in PACKAGE.rglob("*") if path.suffix in _COMPUTING):
        digest.update(f"{path.relative_to(PACKAGE).as_posix()} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read(_HASHED_OF_CODE))
    return digest.hexdigest()[:10]


def inputs_of(values: Iterable[Any]) -> dict[str, str]:
    """Return name → hash of the content of each data set and file that values name, also inside a system string.

    "" stands for a data set of which nothing is on this machine.
    """
    words = set()
    for text in _texts(values):
        words |= {text, *re.split("[:+,]", text)}
    places = {word: _places(word) for word in sorted(words)}
    return {word: _digest(found) for word, found in places.items() if found}


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from _texts(value)


def _places(word: str) -> list[Path]:
    if word in DATASETS:  # a name comes before a folder of that name, as in loading
        return every_place(DATASETS[word])
    path = work_folder() / word
    is_path = re.search(r"\w", word) and len(word) < _LONGEST_PATH
    return [path] if is_path and path.exists() else []


def _digest(places: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    is_empty = True
    for place in places:
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file():
                is_empty = False
                about = path.stat()
                digest.update(path.name.encode() + _content(path, about.st_size, about.st_mtime_ns))
    return "" if is_empty else digest.hexdigest()[:16]


@cache
def _content(path: Path, size: int, changed: int) -> bytes:
    if size > _HASHED_OF_DATA:
        return f"{size} {changed}".encode()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


@cache
def environment() -> dict[str, Any]:
    """Return the commit ("-dirty": files differ), the machine, the number format of encoders, versions of libraries."""
    described = ["git", "-C", str(PACKAGE.parent), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    commit = subprocess.run(described, capture_output=True, text=True).stdout if shutil.which("git") else ""
    cpuinfo = Path("/proc/cpuinfo")  # of Linux
    models = re.findall(r"model name\s*: (.*)", cpuinfo.read_text(encoding="utf-8")) if cpuinfo.exists() else []
    installed = {library.name.lower(): library for library in importlib.metadata.distributions()}
    required = (installed["berdslib"].requires or []) if "berdslib" in installed else []
    names = {re.split(r"[^\w.-]", line)[0].lower() for line in required if "extra ==" not in line}
    return {
        "commit": commit.strip(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": models[0] if models else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "ram": round(psutil.virtual_memory().total / 2**30),
        "number_format": fastest_format(os.environ.get("BERDS_ENGINE") or "torch"),
        "versions": {name: installed[name].version for name in sorted(names & installed.keys())},
    }
