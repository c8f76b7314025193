"""Running notebooks by papermill, safely: parameters are checked first, and success is a file written last."""

from __future__ import annotations

import ast
import hashlib
import json
import logging
import math
import os
import re
import sys
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from reprlib import repr as shortened
from types import ModuleType
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from berdslib.errors import BerdsError, InputError, known
from berdslib.files import StrPath, write_text
from berdslib.paths import PACKAGE, project_root, shipped
from berdslib.progress import bars_are_seen
from berdslib.study.provenance import environment, inputs_of, watched_kernel
from berdslib.version import __version__

_COMPUTING = {".py", ".toml", ".txt", ".json", ".safetensors"}  # code, cards, prompts, settings and weights
# Bytes of a file that are hashed: all, but for weights. Beside those stands what they scored, which changes with them.
_HASHED = 2**20
_LOCK = ".lock"  # in a run's folder
FAILED = "failed.json"  # in that of a run that failed
LONGEST = 12 * 3600.0  # seconds of a run, unless told otherwise
_STARTS = 3  # attempts to start a kernel


class Parameter(NamedTuple):
    """A notebook parameter: its name, default (a plain literal) and the comment behind it."""

    name: str
    default: Any
    help: str


class Notebook(NamedTuple):
    """A notebook as it was when it was read, and is run whatever happens to the file meanwhile.

    ``cells`` are kinds and sources, ``text`` is all of it as JSON, ``unread`` names the parameters that no cell reads.
    """

    path: Path
    cells: list[tuple[str, str]]
    parameters: dict[str, Parameter]
    text: str
    unread: frozenset[str]


class NotebookRun(NamedTuple):
    """A finished run: the folder, the executed notebook, and what run.json says."""

    folder: Path
    notebook: Path
    record: dict[str, Any]


def notebook_folder() -> Path:
    """Return the notebooks of the checkout; outside of one, those that came with the package."""
    root = project_root()
    return root / "notebooks" if root else shipped("notebooks")


def work_folder() -> Path:
    """Return where runs and what notebooks write go: the checkout; outside of one, the current folder."""
    return project_root() or Path.cwd()


def load_script(name: str) -> ModuleType:
    """Return a script of the project as a module, such as "paper_map"."""
    sys.path.append(str(notebook_folder().parent / "scripts"))
    return import_module(name)


def output_folder(name: str) -> Path:
    """Return the folder a notebook writes to: `name` itself if absolute, else below the project root; it is created."""
    folder = Path(name) if Path(name).is_absolute() else work_folder() / name
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


def find_grid(path: Path) -> Path:
    """Return the file of a grid: what is not at `path` may be one that came with the package, of the same name."""
    brought = PACKAGE / "_shipped" / "grids" / path.name
    return brought if brought.is_file() and not path.exists() else path


def open_notebook(path: Path) -> Notebook:
    """Read a notebook with the parameters in its one cell tagged `parameters`: ``name = literal  # help`` a line."""
    notebook = read_notebook(path)
    cells = notebook["cells"]
    tagged = [c for c in cells if "parameters" in c.get("metadata", {}).get("tags", [])]
    if len(tagged) != 1:
        raise InputError(f"{len(tagged)} cells are tagged `parameters`; exactly one is needed", path=path)
    text, found, line = "".join(tagged[0]["source"]), {}, None
    try:
        for node in ast.parse(text).body:
            line = node.lineno
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    comment = text.splitlines()[line - 1].partition("  # ")[2]
                    found[name] = Parameter(name, ast.literal_eval(value), comment.strip())
                case _:
                    raise ValueError
    except SyntaxError as error:
        raise InputError(f"parameters cell: {error.msg}", path=path, line=error.lineno) from None
    except (ValueError, TypeError, MemoryError, RecursionError):  # a list as a key; 50,000 minus signs
        problem = "parameters cell: a line must read `name = value`, the value a plain literal"
        raise InputError(problem, path=path, line=line) from None
    for cell in cells:  # of a run that fails, no outputs of old are to stand behind the cell that failed
        cell.update({"outputs": [], "execution_count": None} if cell.get("cell_type") == "code" else {})
    sources = [(c.get("cell_type"), "".join(c.get("source", ""))) for c in cells]
    code = ["".join(c["source"]) for c in cells if c.get("cell_type") == "code" and c is not tagged[0]]
    unread = frozenset(name for name in found if not any(re.search(rf"\b{name}\b", one) for one in code))
    return Notebook(path, sources, found, json.dumps(notebook), unread)


def read_notebook(path: Path) -> dict[str, Any]:
    """Return a notebook as JSON."""
    try:
        notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            cell.get("metadata", {}).get("tags", [])
            "".join(cell.get("source", ""))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"is not a readable notebook ({type(error).__name__})", path=path) from None
    return notebook


def code_digests(notebook: Mapping[str, Any]) -> list[str]:
    """Return a short hash of the source of each code cell of a notebook (as JSON).

    Where those in the metadata, ``berdslib.executed``, differ from these, the outputs were made by other code.
    """
    code = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    return [hashlib.sha256(source.encode()).hexdigest()[:8] for source in code]


def check_parameters(notebook: Notebook, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given parameters, each in the type of its default; text is read as that type ("5", "true", JSON).

    A list holds values of the types that its default holds; where that is empty, anything. One of words may be written
    as in the shell, "bm25,minilm".
    """
    accepted, kind = notebook.parameters, f"parameter of {notebook.path.stem}"
    return {name: _typed(accepted[known(kind, name, accepted)], value) for name, value in given.items()}


def _typed(parameter: Parameter, value: Any) -> Any:
    default = parameter.default
    try:
        read = value if isinstance(default, str) or not isinstance(value, str) else _from_text(value, default)
        return _like(default, read)
    except (TypeError, ValueError, SyntaxError, OverflowError, MemoryError, RecursionError):
        want = type(default).__name__
        if isinstance(default, list) and default:
            want += f" of {' or '.join(dict.fromkeys(type(one).__name__ for one in default))}"
        problem = f"must be {want} (default {default!r}), not {shortened(value)}"
        raise InputError(problem, field=parameter.name) from None


def _from_text(text: str, default: Any) -> Any:
    words = isinstance(default, list) and default and all(isinstance(one, str) for one in default)
    if words and text.strip() and text.lstrip()[0] not in "[({\"'":
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
    if isinstance(value, str):
        value.encode()  # half of a surrogate pair cannot be written into a notebook
    if isinstance(value, list) and default:
        # By type, so that [1, "all"] takes both.
        examples = {type(example): example for example in default}
        return [_like(examples.get(type(element), default[0]), element) for element in value]
    return value


def run_notebook(
    name: str | Notebook,
    parameters: Mapping[str, Any] | None = None,
    *,
    output: StrPath | None = None,
    progress: bool = True,
    timeout: float = LONGEST,
    memory: float | None = None,
) -> NotebookRun:
    """Execute a notebook from a fresh kernel, in at most `timeout` seconds and `memory` GB, and keep the result.

    ``run.json`` is written last and atomically: a folder without it holds a run that did not finish, and failed.json
    says what went wrong. A wrong parameter is an InputError before anything starts; a cell that fails is a BerdsError
    that names it.
    """
    source = name if isinstance(name, Notebook) else open_notebook(find_notebook(name))
    _check_format(source)
    values = check_parameters(source, parameters or {})
    folder = Path(output or run_folder(source, values)).resolve()
    try:
        with run_lock(folder).acquire(timeout=0):
            return _execute(source, values, folder, progress, timeout, memory)
    except Timeout:
        raise BerdsError(f"{folder}: another run is writing here; wait for it, or choose another folder") from None


def _check_format(source: Notebook) -> None:
    """Refuse what papermill could not read."""
    import nbformat

    try:
        nbformat.reads(source.text, as_version=4)
    except Exception as error:  # noqa: BLE001 - whatever a damaged field leads to, also AssertionError
        raise InputError(f"is not a readable notebook ({type(error).__name__})", path=source.path) from None


def run_lock(folder: Path) -> FileLock:
    """Return the lock of a run's folder, which is created; who holds it may take it once more."""
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder.resolve() / _LOCK, is_singleton=True)


def _execute(
    source: Notebook, values: Mapping[str, Any], folder: Path, progress: bool, timeout: float, memory: float | None
) -> NotebookRun:
    record_path, target = folder / "run.json", folder / source.path.name
    _check_output(source, folder)
    for old in (record_path, folder / FAILED):
        old.unlink(missing_ok=True)
    began, started, read = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic(), _read(source, values)
    try:
        peak = _run_cells(source, values, target, progress, timeout, memory)
        code_version.cache_clear()
        code, inputs = _read(source, values)
        changed = ["the package's code"] * (code != read[0])
        changed += [name for name, was in read[1].items() if was and inputs.get(name) != was]  # not what was fetched
        if changed:
            raise BerdsError(f"{source.path.stem}: {', '.join(changed)} changed while it was run; call again")
    except Exception as error:
        with suppress(OSError, InputError):  # a full disk may be what went wrong; the caller is told all the same
            _write_json(folder / FAILED, {"error": str(error) or type(error).__name__})
        raise
    record = {
        "notebook": source.path.stem,
        "parameters": values,
        "berdslib": __version__,
        "code": code,
        "inputs": inputs,
        "environment": environment(),
        "started": began,
        "seconds": round(time.monotonic() - started, 1),
        "peak_memory_mb": round(peak / 2**20),
        "files": {p.name: p.stat().st_size for p in sorted(folder.iterdir()) if p.suffix not in ("", ".ipynb")},
        "finished": True,
    }
    _write_json(record_path, record)
    return NotebookRun(folder, target, record)


def _check_output(source: Notebook, folder: Path) -> None:
    """Refuse a folder in which a run would write over what is not a run's."""
    target = folder / source.path.name
    if target.exists() and target.samefile(source.path):
        raise InputError(
            "the notebook itself lies here, and the run would replace it; choose another folder", path=folder
        )
    own = {"run.json": ("notebook", "parameters", "finished"), FAILED: ("error",)}
    for name, fields in own.items():
        path = folder / name
        if not path.exists():
            continue
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue  # a damaged record of a run, which is replaced
        if not isinstance(record, dict) or not set(fields) <= record.keys():
            raise InputError("is not the record of a run, so it is not replaced; choose another folder", path=path)


def _write_json(path: Path, value: Any) -> None:
    with write_text(path) as file:
        json.dump(value, file, indent=1)


def _run_cells(
    source: Notebook, values: Mapping[str, Any], target: Path, progress: bool, timeout: float, memory: float | None
) -> int:
    """Execute all cells, and return the most memory that the kernel took, in bytes."""
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    root, folder = work_folder(), target.parent
    # What it writes goes into the run's own folder, unless the caller chose another.
    inside = os.path.relpath(folder, root) if folder.is_relative_to(root) else str(folder)
    own = {"output_dir": inside} if "output_dir" in source.parameters else {}
    # papermill warns of a "=" in a help comment, and logs the errors raised below; the kernel warns of having no
    # encryption on this machine's own ports, and calls the interrupt that ends it an error. Its user's name is how it
    # is known among the processes of this machine.
    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    mark = f"berds-{uuid.uuid4().hex}"
    with watched_kernel(mark, timeout, memory) as kernel:
        for left in reversed(range(_STARTS)):
            try:
                target.write_text(source.text, encoding="utf-8")
                papermill.execute_notebook(
                    *[str(target).replace("{", "{{").replace("}", "}}")] * 2,  # no parameters there
                    parameters={**own, **values},
                    cwd=str(root),
                    progress_bar=progress and bars_are_seen(),
                    kernel_name="python3",
                    language="python",
                    kernel_manager_class=_kernel_manager(),
                    extra_arguments=[
                        "--log-level=CRITICAL",
                        f"--Session.username={mark}",
                        "--InteractiveShell.ignore_cwd=True",
                    ],
                )
                return int(kernel.peak)
            except (PapermillExecutionError, DeadKernelError) as error:
                if isinstance(error, PapermillExecutionError):
                    problem = f"{error.ename}: " + re.sub(r"\x1b\[[0-9;]*m", "", error.evalue)  # without colours
                elif kernel.ended:
                    problem = f"{kernel.ended}: try a smaller `limit` or model, or a higher limit"
                else:
                    problem = "the kernel died, most often for want of memory: try a smaller `limit` or model, or "
                    problem += "fewer workers"
                code = [c["metadata"] for c in read_notebook(target)["cells"] if c["cell_type"] == "code"]
                cell = sum(bool(metadata.get("papermill", {}).get("start_time")) for metadata in code)  # last one begun
                there = f"The notebook up to there, with all outputs: {target}"
                raise BerdsError(f"{target.stem} failed in cell {cell}: {problem}\n{there}") from None
            except RuntimeError as error:  # jupyter_client's word for a kernel that does not answer at its start
                if kernel.ended or not left:
                    problem = kernel.ended or f"the kernel did not start, {_STARTS} times: {error}"
                    raise BerdsError(f"{target.stem}: {problem}") from None
    raise AssertionError


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


def run_folder(source: Notebook, values: Mapping[str, Any], looked: dict[str, str | None] | None = None) -> Path:
    """Return the folder of a run: papermill_runs/NAME-HASH, of the notebook, the parameters, the code and the data.

    For ``looked`` see :func:`berdslib.study.provenance.inputs_of`.
    """
    told = json.dumps([source.cells, values, *_read(source, values, looked)], sort_keys=True)
    digest = hashlib.sha256(told.encode()).hexdigest()[:10]
    return work_folder() / "papermill_runs" / f"{source.path.stem}-{digest}"


def _read(
    source: Notebook, values: Mapping[str, Any], looked: dict[str, str | None] | None = None
) -> tuple[str, dict[str, str]]:
    """Return hashes of what a run's results depend on beside notebook and parameters: the code, and data by name."""
    chosen = {name: parameter.default for name, parameter in source.parameters.items()} | dict(values)
    return code_version(), inputs_of((chosen[name] for name in chosen if name != "output_dir"), work_folder(), looked)


@cache
def code_version() -> str:
    """Return a hash of what the package computes by: its code, prompts, settings and weights, as they are now."""
    digest = hashlib.sha256()
    for path in sorted(path for path in PACKAGE.rglob("*") if path.suffix in _COMPUTING):
        digest.update(f"{path.relative_to(PACKAGE).as_posix()} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read(_HASHED))
    return digest.hexdigest()[:10]
