"""Systems that try to see a profile where the implicit scenario hides them; each way returns what it found.

Hidden values look like ``secret-`` and 32 hexadecimal digits and are drawn when a test runs, so that nothing here, and
nothing that is sent along with a system, holds one.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import inspect
import json
import os
import pickle
import re
import sys
import threading
from pathlib import Path
from types import FunctionType

SECRET = re.compile(r"secret-[0-9a-f]{32}")


def _secrets(thing: object) -> list[str]:
    with contextlib.suppress(Exception):
        return SECRET.findall(repr(thing))
    return []


def _contents(thing: object, depth: int = 6) -> list[str]:
    """Look through containers in containers; a text of a module, such as its docstring, is one too."""
    if isinstance(thing, str | bytes):
        return SECRET.findall(thing if isinstance(thing, str) else thing.decode("utf-8", "replace"))
    parts: list[object] = []
    with contextlib.suppress(Exception):
        if hasattr(thing, "keys") and hasattr(thing, "items"):
            parts = [part for pair in list(thing.items()) for part in pair]
        elif isinstance(thing, list | tuple | set | frozenset):
            parts = list(thing)
    return [hit for part in parts for hit in _contents(part, depth - 1)] if depth else []


def _attributes(thing: object) -> list[str]:
    """Look through what an object has, and what these have."""
    found = _contents(thing)
    for name in dir(thing):
        with contextlib.suppress(Exception):
            value = getattr(thing, name)
            found += _contents(value) + [hit for part in dir(value) for hit in _contents(getattr(value, part, ""))]
    return found


# ---------------------------------------------------------------- ways; (passages, questions, what it knows) → found


def attributes_of_passages(passages, questions, known):
    return [hit for p in passages for hit in _attributes(p)]


def attributes_of_the_corpus(passages, questions, known):
    return _attributes(passages) + _secrets(getattr(passages, "__dict__", {})) + _secrets(type(passages).__dict__)


def fields_of_questions(passages, questions, known):
    return [hit for q in questions for hit in _attributes(q)]


def docnos_of_the_explicit_scenario(passages, questions, known):
    return [p.docno for p in passages if p.docno in known["ids"]]


def docnos_by_hashing_what_is_known(passages, questions, known):
    kinds = [hashlib.md5, hashlib.sha1, hashlib.sha256, hashlib.blake2b, lambda b: hashlib.blake2b(b, digest_size=10)]
    keyed = [lambda b, s=s: hashlib.blake2b(b, key=s, digest_size=10) for s in (b"0", b"berdslib", b"implicit")]
    digests = {make(own.encode()).hexdigest() for own in known["ids"] for make in [*kinds, *keyed]}
    digests |= {whole[:20] for whole in digests}
    return [p.docno for p in passages if p.docno in digests]


def order_of_the_corpus(passages, questions, known):
    """The release lists one group first: guess that the first half of the corpus is of that group."""
    half = len(passages) // 2
    right = sum(p.text in known["texts of the first half"] for p in passages[:half])
    return ["the order tells"] if abs(right / half - 0.5) > 0.25 else []


def garbage_collector(passages, questions, known):
    found = []
    for thing in gc.get_objects():
        if type(thing) in (dict, list, tuple, set):
            values = [*thing.keys(), *thing.values()] if type(thing) is dict else list(thing)
            for value in values:
                if type(value) is str:
                    found += SECRET.findall(value)
                elif type(value) is tuple:
                    found += [hit for one in value if type(one) is str for hit in SECRET.findall(one)]
    return found


def types_of_the_measurer(passages, questions, known):
    wanted = ("Release", "Scenario", "Argument", "ArgumentQuery")
    return [type(thing).__name__ for thing in gc.get_objects() if type(thing).__name__ in wanted]


def frames_of_the_callers(passages, questions, known):
    found, frame = [], sys._getframe()
    while frame is not None:
        found += _contents(dict(frame.f_locals))
        frame = frame.f_back
    return found + [hit for info in inspect.stack() for hit in _secrets(info.frame.f_locals)]


def frames_of_other_threads(passages, questions, known):
    return [hit for ident, frame in sys._current_frames().items() for hit in _contents(dict(frame.f_locals))
            if ident != threading.get_ident() or hit]  # fmt: skip


def globals_of_modules(passages, questions, known):
    mine = [m for name, m in list(sys.modules.items()) if name.startswith("berdslib") or name == "__main__"]
    return [hit for module in mine for hit in _contents(dict(vars(module)))]


def closures_and_code(passages, questions, known):
    functions = [thing for thing in gc.get_objects() if type(thing) is FunctionType]  # a dead proxy answers nothing
    cells = [cell for f in functions for cell in (f.__closure__ or ())]
    found = []
    for cell in cells:
        with contextlib.suppress(ValueError):
            found += _secrets(cell.cell_contents) if not isinstance(cell.cell_contents, type) else []
    return found


def environment_and_arguments(passages, questions, known):
    return _secrets(dict(os.environ)) + _secrets(sys.argv) + [p for p in [os.environ.get("BERDS_DATA")] if p]


def the_data_set_by_name(passages, questions, known):
    import berdslib as bd

    with contextlib.suppress(bd.MissingDataError, bd.InputError):
        return [repr(bd.load("perspectivearg-2019:explicit"))]
    return []


def the_data_set_in_the_cache(passages, questions, known):
    import berdslib as bd

    with contextlib.suppress(bd.MissingDataError, bd.InputError):
        return [repr(bd.load("perspectivearg-2023:explicit"))]
    return []


def vectors_of_guessed_profiles(passages, questions, known):
    """A search of templated texts leaves vectors under hashes of what was encoded: try profiles until one is there."""
    from berdslib import paths

    kept = {path.name for path in paths.cache_dir().rglob("*") if path.is_file()}
    return [name for name in kept if name in known["files of vectors"]]


def files_of_the_working_folder(passages, questions, known):
    files = [p for p in Path.cwd().rglob("*") if p.is_file()]
    return [hit for p in files for hit in SECRET.findall(p.read_text("utf-8", "replace"))]


def what_is_left_on_standard_input(passages, questions, known):
    with contextlib.suppress(Exception):
        return SECRET.findall(sys.stdin.buffer.read().decode("utf-8", "replace"))
    return []


def a_pickle_of_everything_handed(passages, questions, known):
    return SECRET.findall(pickle.dumps((passages, questions)).decode("utf-8", "replace"))


WAYS = [
    attributes_of_passages,
    attributes_of_the_corpus,
    fields_of_questions,
    docnos_of_the_explicit_scenario,
    docnos_by_hashing_what_is_known,
    order_of_the_corpus,
    garbage_collector,
    types_of_the_measurer,
    frames_of_the_callers,
    frames_of_other_threads,
    globals_of_modules,
    closures_and_code,
    environment_and_arguments,
    the_data_set_by_name,
    the_data_set_in_the_cache,
    vectors_of_guessed_profiles,
    files_of_the_working_folder,
    what_is_left_on_standard_input,
    a_pickle_of_everything_handed,
]


class Cheat:
    """Tries every way, writes what each found to a file, and lists the first passages."""

    name = "cheat"

    def __init__(self, passages, diary, known):
        self.passages, self.diary, self.known = passages, diary, known

    def search(self, questions, k):
        found = {way.__name__: way(self.passages, questions, self.known)[:5] for way in WAYS}
        Path(self.diary).write_text(json.dumps(found), "utf-8")
        return {q.qid: [p.docno for p in self.passages[:k]] for q in questions}
