"""Running notebooks with papermill: parameters are checked first, and a file written last records the success.

The name of a run's folder contains a hash of everything that its results depend on, so a grid can reuse finished runs.
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

_COMPUTING = {".py", ".toml", ".txt", ".json", ".safetensors"}  # files of code, cards, prompts, settings and weights
# Bytes of a file that are hashed: all, except for weights, whose scores are in a file beside them and change with them.
_HASHED_OF_CODE = 2**20
_HASHED_OF_DATA = 2**28  # a larger file is hashed by its size and the time of its last change
_LONGEST_PATH = 256
_STARTS = 3  # attempts to start a kernel
_LOCK = ".lock"  # file in the folder of a run
RECORD = "run.json"  # file in the folder of a finished run
FAILED = "failed.json"  # file in the folder of a failed run
BATCH = ("system", "lists", "sides", "report", "report_columns")  # notebooks of papermill_runs


class Parameter(NamedTuple):
    """A notebook parameter: its name, default (a plain literal) and the comment behind it."""

    name: str
    default: Any
    help: str


class Notebook(NamedTuple):
    """A notebook as it was when it was read; later changes of the file do not affect its runs.

    ``cells`` are pairs of kind and source; ``text`` is the whole notebook as JSON.
    """

    path: Path
    cells: list[tuple[str, str]]
    parameters: dict[str, Parameter]
    text: str

    @property
    def title(self) -> str:
        """The first heading."""
        headings = (text for kind, text in self.cells if kind == "markdown" and text.startswith("# "))
        return next(headings, self.path.stem).partition("\n")[0].removeprefix("# ")

    @property
    def defaults(self) -> dict[str, Any]:
        """Parameter → default."""
        return {name: parameter.default for name, parameter in self.parameters.items()}


class NotebookRun(NamedTuple):
    """A finished run: its folder, the executed notebook, and the record in run.json."""

    folder: Path
    notebook: Path
    record: dict[str, Any]


# ---------------------------------------------------------------- folders of notebooks and runs


def notebook_folder() -> Path:
    """Return the folder of the checkout's notebooks; outside a checkout, of those that come with the package."""
    root = project_root()
    return root / "notebooks" if root else shipped("notebooks")


def work_folder() -> Path:
    """Return the folder below which runs and notebooks write: the checkout; outside a checkout, the current folder."""
    return project_root() or Path.cwd()


def output_folder(name: str) -> Path:
    """Create and return a notebook's output folder: `name` itself if absolute, else below :func:`work_folder`."""
    folder = work_folder() / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def numbered_notebooks() -> dict[str, Path]:
    """Return name → path of the numbered notebooks, in order."""
    return {path.stem: path for path in sorted(notebook_folder().glob("[0-9][0-9]_*.ipynb"))}


def batch_notebooks() -> dict[str, Path]:
    """Return name → path of the notebooks that only batches run, such as "system": those of papermill_runs."""
    folder = notebook_folder().parent / "papermill_runs"
    return {name: folder / f"{name}.ipynb" for name in BATCH if (folder / f"{name}.ipynb").is_file()}


def find_notebook(name: str) -> Path:
    """Return the path of a notebook, given its name ("00_quickstart" or "system"), number ("00") or path."""
    if name.endswith(".ipynb") and Path(name).is_file():
        return Path(name).resolve()
    numbered = numbered_notebooks()
    names = numbered | batch_notebooks()
    by_number = {stem[:2]: stem for stem in numbered}
    return names[known("notebook", by_number.get(name, name.removesuffix(".ipynb")), names)]


# ---------------------------------------------------------------- notebooks and their parameters


def open_notebook(path: Path) -> Notebook:
    """Read a notebook and the parameters in its one cell tagged `parameters`: a ``name = literal  # help`` per line."""
    notebook = read_notebook(path)
    sources = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    tags = [cell.get("metadata", {}).get("tags", []) for cell in notebook["cells"]]
    tagged = [source for (_, source), names in zip(sources, tags, strict=True) if "parameters" in names]
    if len(tagged) != 1:
        raise InputError(f"{len(tagged)} cells are tagged `parameters`; expected exactly one", path=path)
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
    except (ValueError, TypeError, MemoryError, RecursionError):  # such as a list as a key, or 50,000 minus signs
        raise InputError("parameters cell: expected `name = value` with a plain literal", line=line) from None
    return parameters


def read_notebook(path: Path) -> dict[str, Any]:
    """Return a notebook as JSON."""
    import nbformat

    try:
        text = path.read_text(encoding="utf-8")
        nbformat.reads(text, as_version=4)  # as papermill does later
        notebook: dict[str, Any] = json.loads(text)
        notebook["cells"]  # a notebook in an older format lacks the key
    except Exception as error:  # noqa: BLE001 - a damaged field may raise any error, also AssertionError
        raise InputError(f"not a readable notebook ({type(error).__name__})", path=path) from None
    return notebook


def check_parameters(notebook: Notebook, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given parameters, each in the type of its default; text is read as that type ("5", "true", JSON).

    A list may contain values of the types in its default, or any values if the default is empty. A list of words may
    also be written as in the shell, "bm25,minilm".

    Raises:
        InputError: an unknown parameter, or a value of another type.
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
        problem = f"expected {expected} (the default is {default!r}), not {shortened(value)}"
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
    """Return a value in the type of a default, a whole number as a float if needed; ValueError if the type differs."""
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    if type(value) is not type(default) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError
    if isinstance(value, list) and default:
        # By type, so that a default such as [1, "all"] accepts both types.
        examples = {type(example): example for example in default}
        return [_like(examples.get(type(element), default[0]), element) for element in value]
    return value


# ---------------------------------------------------------------- running a notebook


def run_notebook(
    name: str | Notebook,
    parameters: Mapping[str, Any] | None = None,
    *,
    output: StrPath | None = None,
    progress: bool = True,
) -> NotebookRun:
    """Execute a notebook in a fresh kernel, and keep the executed notebook and its record.

    ``run.json`` is written last and atomically: a folder without it holds a run that did not finish, and failed.json
    holds its error.

    Raises:
        InputError: an unknown notebook or an invalid parameter, before the kernel starts.
        BerdsError: a cell that fails, which the message names, or a folder that another run is using.
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
    """Create the folder of a run and return its lock, which the holder may acquire again."""
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
        with suppress(OSError, InputError):  # a full disk may be the cause; the error is raised in any case
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
    """Raise InputError for a folder in which the run would replace a file that is not from a run."""
    target = folder / source.path.name
    if target.exists() and target.samefile(source.path):
        problem = "the folder contains the notebook itself, which the run would replace; choose another folder"
        raise InputError(problem, path=folder)
    for name, fields in {RECORD: {"notebook", "parameters", "finished"}, FAILED: {"error"}}.items():
        path = folder / name
        if not path.exists():
            continue
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue  # a damaged record of a run may be replaced
        if not isinstance(record, dict) or not fields <= record.keys():
            problem = "this file is not the record of a run, so it is not replaced; choose another folder"
            raise InputError(problem, path=path)


def _write_json(path: Path, value: Any) -> None:
    with write_text(path) as file:
        json.dump(value, file, indent=1)


def _run_cells(source: Notebook, values: Mapping[str, Any], target: Path, progress: bool) -> None:
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # papermill logs the errors that are raised below
    root = work_folder()
    own_folder = {}
    if "output_dir" in source.parameters:  # default: the notebook writes to the run's folder
        inside = target.parent.is_relative_to(root)
        own_folder["output_dir"] = os.path.relpath(target.parent, root) if inside else str(target.parent)
    literal_path = str(target).replace("{", "{{").replace("}", "}}")  # papermill would fill in names in braces
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
                store_widget_state=False,  # progress bars would add megabytes
            )
            return
        except PapermillExecutionError as error:
            without_colours = re.sub(r"\x1b\[[0-9;]*m", "", error.evalue)
            raise _failure(target, f"{error.ename}: {without_colours}") from None
        except DeadKernelError:
            problem = "the kernel died, usually for lack of memory: try a smaller `limit` or model, or fewer workers"
            raise _failure(target, problem) from None
        except RuntimeError as error:  # jupyter_client raises it if a kernel does not answer at its start
            if not starts_left:
                raise BerdsError(f"{target.stem}: the kernel did not start in {_STARTS} attempts: {error}") from None


def _failure(target: Path, problem: str) -> BerdsError:
    place = f"The notebook with all outputs up to that cell: {target}"
    return BerdsError(f"{target.stem} failed in cell {_cells_begun(target)[0]}: {problem}\n{place}")


def _cells_begun(executed: Path) -> tuple[int, int]:
    """Return how many code cells of an executed notebook have begun, and how many there are."""
    code = [cell for cell in read_notebook(executed)["cells"] if cell["cell_type"] == "code"]
    begun = [cell for cell in code if cell["metadata"].get("papermill", {}).get("start_time")]
    return len(begun), len(code)


def step_of(source: Notebook, folder: Path) -> str:
    """Return where a running notebook is, such as "cell 4 of 9"; "" before its first cell."""
    with suppress(InputError):  # the file is being written
        begun, cells = _cells_begun(folder / source.path.name)
        if begun:
            return f"cell {begun} of {cells}"
    return ""


@cache
def _kernel_manager() -> type:
    """Return a class of kernel managers whose kernels do not import modules from the current folder."""
    from jupyter_client.manager import AsyncKernelManager

    class WithoutCurrentFolder(AsyncKernelManager):
        async def _async_pre_start_kernel(self, **options: Any) -> Any:
            env = {**os.environ, **options.pop("env", {}), "PYTHONSAFEPATH": "1"}
            if "PYTHONPATH" in env:  # ipykernel drops the first entry of the path if it is the current folder
                env["PYTHONPATH"] = os.pathsep.join([os.devnull, env["PYTHONPATH"]])
            return await super()._async_pre_start_kernel(env=env, **options)

    return WithoutCurrentFolder


# ---------------------------------------------------------------- inputs and environment of a run


def run_folder(source: Notebook, values: Mapping[str, Any]) -> Path:
    """Return papermill_runs/NAME-HASH, the folder of a run; the hash covers notebook, parameters, code and data."""
    everything = json.dumps([source.cells, values, *_reads(source, values)], sort_keys=True)
    digest = hashlib.sha256(everything.encode()).hexdigest()[:10]
    return work_folder() / "papermill_runs" / f"{source.path.stem}-{digest}"


def _reads(source: Notebook, values: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return a hash of the code and hashes of the data by name, on which a run's results also depend."""
    chosen = source.defaults | dict(values)
    chosen.pop("output_dir", None)
    return code_version(), inputs_of(chosen.values())


@cache
def code_version() -> str:
    """Return a hash of the package's current code, prompts, settings and weights."""
    digest = hashlib.sha256()
    for path in sorted(path for path in PACKAGE.rglob("*") if path.suffix in _COMPUTING):
        digest.update(f"{path.relative_to(PACKAGE).as_posix()} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read(_HASHED_OF_CODE))
    return digest.hexdigest()[:10]


def inputs_of(values: Iterable[Any], folder: Path | None = None) -> dict[str, str]:
    """Return name → hash of the content of each data set and file that the values name, also inside system strings.

    The hash is "" for a data set that is not on this machine. Paths are relative to `folder`, or else to
    :func:`work_folder`.
    """
    words = set()
    for text in _texts(values):
        words |= {text, *re.split("[:+,]", text)}
    places = {word: _places(word, folder or work_folder()) for word in sorted(words)}
    return {word: _digest(found) for word, found in places.items() if found}


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from _texts(value)


def _places(word: str, folder: Path) -> list[Path]:
    if word in DATASETS:  # a data set takes precedence over a folder of the same name, as in loading
        return every_place(DATASETS[word])
    path = folder / word
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
    """Return the commit ("-dirty" if files differ), the machine, the encoders' number format, and library versions."""
    described = ["git", "-C", str(PACKAGE.parent), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    commit = subprocess.run(described, capture_output=True, text=True).stdout if shutil.which("git") else ""
    cpuinfo = Path("/proc/cpuinfo")  # exists on Linux only
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
