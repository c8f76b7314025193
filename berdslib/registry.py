"""Things by name: one pattern for retrievers, judges, data sets and diversifiers.

A name is a word, "bm25", or a word with an argument, "hf:org/model"; case is ignored. A user adds names by
``bd.register``; in the shell and in a grid's notebooks, the modules in BERDS_PLUGINS do. An installed package adds
names by entry points, ``[project.entry-points."berdslib.retriever"]``, whose objects are arguments of ``bd.register``.
An entry point is loaded when its name is requested, or all names are listed.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from berdslib.errors import InputError, known, printable

logger = logging.getLogger(__name__)

Thing = TypeVar("Thing")
PLUGINS = "BERDS_PLUGINS"
# "+" begins a part of a system, ":" an argument, and "," the next name.
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


class Registry(Mapping[str, Thing], Generic[Thing]):
    """Things of one kind by name; one that ends in ":" takes what follows it as its argument.

    >>> pets = Registry("pet", {"cat": "Felis catus", "dog:": "Canis familiaris"})
    >>> pets.find("cat"), pets.find("dog:poodle")
    (('Felis catus', ''), ('Canis familiaris', 'poodle'))
    """

    def __init__(
        self,
        kind: str,
        things: Mapping[str, Thing],
        own: Callable[[Any, str], Thing] | None = None,
    ) -> None:
        self.kind = kind
        self._things = dict(things)
        self.own = own  # makes a thing of a user's object
        self._built_in = frozenset(things)
        self._left_out: set[str] = set()  # entry points that failed to load, after a warning

    def add(self, name: str, thing: Thing) -> None:
        """Add a user's thing; it replaces an earlier one whose name differs at most in case."""
        self.check_name(name)
        self._things = {key: self._things[key] for key in self._things if key.casefold() != name.casefold()}
        self._things[name] = thing

    def check_name(self, name: str) -> None:
        """Raise InputError unless a user's thing may have this name."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            problem = f"a {self.kind} needs a name of letters, digits, '.', '_' and '-', not {name!r}"
            raise InputError(problem, field="name")
        if self.is_built_in(name):
            raise InputError(f"the {self.kind} {name!r} is built in; choose another name", field="name")

    def add_built_in(self, name: str, thing: Thing) -> None:
        """Add a thing of the package under a reserved name."""
        self._things[name] = thing
        self._built_in |= {name}

    def built_in(self) -> dict[str, Thing]:
        """Return the things of the package, without plugins."""
        return {name: self._things[name] for name in self._things if name in self._built_in}

    def find(self, name: str) -> tuple[Thing, str]:
        """Return the thing of a name and the argument after its colon, "" without one."""
        spellings = self.spellings()
        name = self.spelt(name)
        head, colon, argument = name.partition(":")
        if name in spellings and not name.endswith(":"):
            return self[name], ""
        if argument and head + colon in spellings:
            return self[head + colon], argument
        return self[known(self.kind, name, self.names())], ""

    def spelt(self, name: str) -> str:
        """Return a name in its registered case: "BM25" is "bm25". The argument stays unchanged."""
        head, colon, argument = name.partition(":")
        wanted = (head + colon).casefold()
        for spelling in self.spellings():
            if spelling.casefold() == wanted:
                return spelling + argument
        return name

    def is_built_in(self, name: str) -> bool:
        """Return whether a name, with its argument or without, belongs to the package."""
        folded = name.casefold()
        head = folded.partition(":")[0]
        return any(built_in.casefold() in (folded, f"{head}:") for built_in in self._built_in)

    def names(self) -> list[str]:
        """Return all names; one that takes an argument reads "hf:…"."""
        return [f"{name}…" if name.endswith(":") else name for name in self]

    def spellings(self) -> list[str]:
        """Return the keys of all things, including entry points that are not loaded yet.

        Of two keys that differ only in case, the first counts: things of the package or registered ones.
        """
        _import_plugins()
        found: dict[str, str] = {}
        for name in (*self._things, *self._entry_points):
            found.setdefault(name.casefold(), name)
        return list(found.values())

    def __getitem__(self, name: str) -> Thing:
        if name not in self.spellings():
            raise KeyError(name)
        if name in self._things:
            return self._things[name]
        return self._load(name)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self.spellings() if self._is_usable(name)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=f"berdslib.{self.kind.replace(' ', '')}")}

    def _load(self, name: str) -> Thing:
        """Load and add the thing of an entry point, whose module may look up names while it loads."""
        point = self._entry_points.pop(name)
        assert self.own is not None
        try:
            self.add(name, self.own(point.load(), name))
        except (Exception, SystemExit) as error:
            self._entry_points[name] = point  # the next lookup fails with the same error
            package = point.dist.name if point.dist else "?"
            problem = f"the {self.kind} {name!r} of the package {package!r} ({point.value}) cannot be loaded"
            raise InputError(f"{problem}: {_described(error)}", field="entry point") from error
        return self._things[name]

    def _is_usable(self, name: str) -> bool:
        """Load the entry point of a name before the name is listed; warn once if this fails."""
        if name not in self._entry_points or name in self._things:
            return True
        try:
            self._load(name)
        except InputError as error:
            if name not in self._left_out:
                self._left_out.add(name)
                logger.warning("%s", error.problem)
            return False
        return True


def _import_plugins() -> None:
    for name in filter(None, map(str.strip, os.environ.get(PLUGINS, "").split(","))):
        _import_plugin(name)


def _import_plugin(name: str) -> None:
    """Import a module that adds names; it may look up names during the import, and other threads wait."""
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        problem = f"names the module {name!r}, which cannot be imported: {_described(error)}"
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            problem += "; is its folder on PYTHONPATH?"
        raise InputError(problem, field=PLUGINS) from error


def _described(error: BaseException) -> str:
    return printable(f"{type(error).__name__}: {error}")
