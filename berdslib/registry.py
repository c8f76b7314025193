"""Things by name: one pattern for retrievers, judges, data sets and diversifiers.

A name is a word, "bm25", or a word and what it is about, "hf:org/model"; capitals do not matter. A user adds names by
``bd.register``; the modules that BERDS_PLUGINS lists do so in the shell and in the notebooks of a grid. An installed
package adds its own by entry points, ``[project.entry-points."berdslib.retriever"]``, whose objects are what
``bd.register`` takes. An entry point is loaded when its name is asked for, or all names are listed.
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
# A "+" would begin a part of a system, a ":" what the name is about, a comma the next name.
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
        self.kind, self._things, self.own = kind, dict(things), own  # own: from the user's to a thing
        self._built_in = frozenset(things)
        self._left_out: set[str] = set()  # entry points that cannot be loaded, of which a warning was given

    def add(self, name: str, thing: Thing) -> None:
        """Add a thing under a name of yours; adding it again replaces it, also in other capitals."""
        self.check_name(name)
        self._things = {key: self._things[key] for key in self._things if key.casefold() != name.casefold()}
        self._things[name] = thing

    def check_name(self, name: str) -> None:
        """Raise InputError unless a thing of a user's may have this name."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            problem = f"a {self.kind} needs a name of letters, digits, '.', '_' and '-', not {name!r}"
            raise InputError(problem, field="name")
        if self.is_built_in(name):
            raise InputError(f"the {self.kind} {name!r} is built in; choose another name", field="name")

    def add_built_in(self, name: str, thing: Thing) -> None:
        """Add a thing of the package, which nobody can take the name of."""
        self._things[name] = thing
        self._built_in |= {name}

    def built_in(self) -> dict[str, Thing]:
        """Return the things of the package, without a look at anybody's plugins."""
        return {name: self._things[name] for name in self._things if name in self._built_in}

    def find(self, name: str) -> tuple[Thing, str]:
        """Return the thing of a name and the argument behind its colon, "" where it takes none."""
        there, name = self.spellings(), self.spelt(name)
        head, colon, argument = name.partition(":")
        if name in there and not name.endswith(":"):
            return self[name], ""
        if argument and head + colon in there:
            return self[head + colon], argument
        return self[known(self.kind, name, self.names())], ""

    def spelt(self, name: str) -> str:
        """Return a name as it is spelt here, whatever its capitals: "BM25" is "bm25". What follows a colon stays."""
        head, colon, argument = name.partition(":")
        alike = [one for one in self.spellings() if one.casefold() == (head + colon).casefold()]
        return alike[0] + argument if alike else name

    def is_built_in(self, name: str) -> bool:
        """Return whether a name, with its argument or without, is not one of the user's."""
        head = name.casefold().partition(":")[0]
        return any(one.casefold() in (name.casefold(), f"{head}:") for one in self._built_in)

    def names(self) -> list[str]:
        """Return all names; one that takes an argument reads "hf:…"."""
        return [f"{name}…" if name.endswith(":") else name for name in self]

    def spellings(self) -> list[str]:
        """Return the keys of all things, also of those whose entry point was not loaded yet.

        Of two that differ in capitals only, the first counts: what is of the package or was registered.
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
        """Add what an entry point stands for; meanwhile its module may look names up."""
        point = self._entry_points.pop(name)
        assert self.own is not None
        try:
            self.add(name, self.own(point.load(), name))
        except (Exception, SystemExit) as error:
            self._entry_points[name] = point  # the next to ask for it hears of it, too
            package = point.dist.name if point.dist else "?"
            problem = f"the {self.kind} {name!r} of the package {package!r} ({point.value}) cannot be loaded"
            raise InputError(f"{problem}: {_described(error)}", field="entry point") from error
        return self._things[name]

    def _is_usable(self, name: str) -> bool:
        """Load what an entry point stands for before its name is listed; warn once where it cannot be."""
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
    """Import a module that adds names, once: Python lets it look some up meanwhile, and other threads wait."""
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        problem = f"names the module {name!r}, which cannot be imported: {_described(error)}"
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            problem += "; is its folder on PYTHONPATH?"
        raise InputError(problem, field=PLUGINS) from error


def _described(error: BaseException) -> str:
    return printable(f"{type(error).__name__}: {error}")
