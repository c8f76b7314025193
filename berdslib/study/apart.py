"""Systems of the user's in a process of their own, which is handed what a scenario's rule allows and nothing else.

Code that runs where the measuring runs can reach whatever is in memory there, however well it is hidden: through the
garbage collector, the frames of its callers, or a module that keeps something. So where profiles are hidden, a system
that is not ours is sent to a new process, as a string or pickled, together with its scenario's handout; its environment
names no folder of data and a cache of its own, and what comes back is read as JSON. Our own systems run where they are:
nobody's code but ours sees the handout then.

This keeps a system from profiles by mistake and by shortcut. It is no sandbox: files and other processes of the same
user are as reachable as they always are, a text that was seen with its profile in the explicit scenario can be
remembered, and a module that you import yourself, or name in BERDS_PLUGINS, runs in your process.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import pandas as pd

from berdslib import paths
from berdslib.data.arguments import Argument, ArgumentQuery, Release
from berdslib.data.collection import Collection
from berdslib.data.records import Question
from berdslib.data.scenario import Handout, OfAuthors, Scenario
from berdslib.errors import BerdsError, InputError, MissingDataError
from berdslib.registry import Registry
from berdslib.retrieval.base import Retriever, run_of
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.parts import parse_system
from berdslib.retrieval.retrievers import RETRIEVERS
from berdslib.retrieval.systems import make_systems

_KEPT_BACK = ("BERDS_DATA",)  # variables of the environment
_CACHE = "apart"  # below ours; the vectors in it are of texts alone, and no release is looked for there
_MEASURERS = (Scenario, Release, Argument, ArgumentQuery, OfAuthors)  # what only whoever measures may hold
_REGISTRIES: Mapping[str, Registry[Any]] = {"retriever": RETRIEVERS, "diversifier": DIVERSIFIERS}


class _Task(NamedTuple):
    """What is sent: a system, names of the user's that it needs, and what it is handed."""

    system: str | Retriever
    named: Mapping[str, Mapping[str, Any]]
    handout: Collection
    options: Mapping[str, Any]
    questions: Sequence[Question]
    k: int


def is_ours(system: object) -> bool:
    """Return whether a system is made of our own parts alone."""
    return isinstance(system, str) and not any(_names_of_the_user(system).values())


def _names_of_the_user(system: str) -> dict[str, list[str]]:
    parsed = parse_system(system)
    used = {"retriever": [parsed.first], "diversifier": [p.kind for p in parsed.parts if p.kind in DIVERSIFIERS]}
    return {kind: [n for n in names if not _REGISTRIES[kind].is_built_in(n)] for kind, names in used.items()}


class Apart:
    """A system of the user's whose searches run in a process of their own.

    Args:
        system: a string with names of the user's in it, or a retriever.
        name: what it is called.
        handout: what it may see.
        kept: things that it may not hold, such as the answers.
        options: of :func:`berdslib.retrieval.systems.make_systems`, for a string.
    """

    def __init__(
        self, system: str | Retriever, name: str, handout: Collection, *, kept: Sequence[object] = (), **options: Any
    ) -> None:
        if isinstance(system, str) and parse_system(system).uses_aspects and not getattr(handout, "asked", None):
            problem = (
                f"{name!r} covers generated perspectives, of which a judge reads; parts of your own run without one"
            )
            raise InputError(f"{problem} in a scenario that hides profiles", field="systems")
        self.name, self._system, self._handout, self._options = name, system, handout, options
        self._kept = kept

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return what the system finds.

        Raises:
            InputError: the system cannot be sent to another process, holds what only whoever measures may see, or
                fails there.
            MissingDataError: a model that it needs is not on this machine.
        """
        named: dict[str, dict[str, Any]] = {}
        if isinstance(self._system, str):
            users = _names_of_the_user(self._system)
            named = {kind: {n: _REGISTRIES[kind][n] for n in names} for kind, names in users.items()}
        task = _Task(self._system, named, self._handout, self._options, list(questions), k)
        return run_of(self.name, _run_apart(self.name, self._packed(task)))

    def _packed(self, task: _Task) -> bytes:
        try:
            return _pack(task, self._kept)
        except InputError as error:
            raise InputError(f"{self.name}: {error.problem}", field="systems") from None
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            problem = f"{self.name} cannot be sent to a process of its own, as this scenario requires ({error})"
            hint = "bd.register('retriever', …) a function that makes it"
            raise InputError(f"{problem}; {hint}", field="systems") from None


def _pack(task: _Task, kept: Sequence[object]) -> bytes:
    import cloudpickle

    class Packer(cloudpickle.Pickler):
        def reducer_override(self, thing: Any) -> Any:
            if hook := _hook_of_the_user(type(thing)):
                problem = f"{type(thing).__name__} has its own {hook}, which would run where profiles lie"
                raise InputError(f"{problem}; bd.register('retriever', …) a function that makes it")
            secret = isinstance(thing, _MEASURERS) or (isinstance(thing, Handout) and not thing.hides_profiles)
            if secret or any(thing is one for one in kept):
                problem = f"holds something ({type(thing).__name__}) that tells what is hidden from systems"
                raise InputError(f"{problem}; give it scenario.handout, or its passages")
            return super().reducer_override(thing)

    packed = io.BytesIO()
    Packer(packed).dump(task)
    return packed.getvalue()


_HOOKS = ("__getstate__", "__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__", "__getattribute__",
          "__getattr__")  # fmt: skip
_LIBRARIES = tuple(str(Path(sysconfig.get_path(kind)).resolve()) for kind in ("stdlib", "purelib", "platlib"))


def _hook_of_the_user(kind: type) -> str:
    """Return a method that pickling would call, and that no library has written; "" where there is none."""
    for cls in kind.__mro__:
        for hook in _HOOKS:
            method = vars(cls).get(hook)
            if isinstance(method, FunctionType) and not _is_of_a_library(method.__code__.co_filename):
                return hook
    return ""


def _is_of_a_library(file: str) -> bool:
    own = (*_LIBRARIES, str(paths.PACKAGE))
    return file.startswith("<frozen ") or str(Path(file).resolve()).startswith(own)


def _run_apart(name: str, packed: bytes) -> pd.DataFrame:
    with tempfile.TemporaryDirectory(prefix="berds-apart-") as folder:
        answer = Path(folder) / "answer.json"
        modules = [str(Path(place or ".").resolve()) for place in sys.path]
        kept = {key: value for key, value in os.environ.items() if key not in _KEPT_BACK}
        kept["BERDS_CACHE"] = str(paths.cache_dir().resolve() / _CACHE)
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(answer)],
            input=packed,
            cwd=folder,
            env={**kept, "PYTHONPATH": os.pathsep.join(modules)},
            check=False,
        )
        if not answer.is_file():
            raise InputError(f"{name}: its process ended without an answer (exit status {done.returncode})")
        found = json.loads(answer.read_text("utf-8"))
    if "missing" in found:
        raise MissingDataError(f"{name}: {found['missing']}")
    if "problem" in found:
        raise InputError(f"{name}: {found['problem']}", field="systems")
    return pd.DataFrame(found["rows"], columns=["qid", "docno", "score"])


# ---------------------------------------------------------------- the other process


def main() -> None:
    """Do what is sent on standard input, and write what was found to the file that is named."""
    answer = Path(sys.argv[1])
    try:
        rows = _searched(pickle.loads(sys.stdin.buffer.read()))  # noqa: S301 - what our own parent packed
        found: dict[str, Any] = {"rows": rows}
    except MissingDataError as error:
        found = {"missing": str(error)}
    except BerdsError as error:
        found = {"problem": str(error)}
    except Exception:  # noqa: BLE001 - anybody's code: whatever happens is told to whoever asked
        found = {"problem": f"fails in its own process:\n{traceback.format_exc()}"}
    answer.write_text(json.dumps(found), "utf-8")


def _searched(task: _Task) -> list[list[Any]]:
    for kind, things in task.named.items():
        for name, thing in things.items():
            if name not in _REGISTRIES[kind]:  # a plugin has registered itself
                _REGISTRIES[kind].add(name, thing)
    system = task.system
    if isinstance(system, str):
        (system,) = make_systems([system], task.handout, **task.options).values()
    run = run_of(str(getattr(system, "name", "")) or type(system).__name__, system.search(task.questions, task.k))
    columns: list[list[Any]] = run[["qid", "docno", "score"]].to_numpy().tolist()
    return columns


if __name__ == "__main__":
    main()
