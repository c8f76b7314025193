"""Things by name: one pattern for retrievers, judges, data sets and diversifiers.

A name is a word, "bm25", or a word and what it is about, "hf:org/model"; capitals do not matter. Names of one's own
join by ``bd.register``; the modules that BERDS_PLUGINS lists do so in the shell and in the notebooks of a grid. An
installed package adds its own by entry points, ``[project.entry-points."berdslib.retriever"]``, whose objects are what
``bd.register`` takes.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
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
        more: Callable[[], Mapping[str, Thing]] = dict,
        own: Callable[[Any, str], Thing] | None = None,
    ) -> None:
        self.kind, self._things, self._more, self.own = kind, dict(things), more, own  # own: from the user's to a thing
        self._built_in = frozenset(things)
        self._points: dict[str, EntryPoint] | None = None  # of installed packages, not loaded yet

    def add(self, name: str, thing: Thing) -> None:
        """Add a thing under a name of yours; adding it again replaces it, as running a notebook's cell twice does.

        A name in other capitals is the same name.
        """
        self.check_name(name)
        for other in [other for other in self._things if other.casefold() == name.casefold()]:
            del self._things[other]
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
        self._load_point(name)
        things = self._all()
        name = self.spelt(name)
        head, colon, argument = name.partition(":")
        if name not in things and colon and argument and head + colon in things:
            return things[head + colon], argument
        return things[known(self.kind, name, self.names())], ""

    def spelt(self, name: str) -> str:
        """Return a name as it is spelt here, whatever its capitals: "BM25" is "bm25". What follows a colon stays."""
        things, (head, colon, argument) = self._all(), name.partition(":")
        if name in things or head + colon in things:
            return name
        alike = [one for one in things if one.casefold() == (head + colon).casefold()]
        return alike[0] + argument if len(alike) == 1 else name

    def is_built_in(self, name: str) -> bool:
        """Return whether a name, with its argument or without, in whatever capitals, is not one of the user's."""
        head = name.partition(":")[0].casefold()
        return any(own.casefold() in (name.casefold(), f"{head}:") for own in self._built_in)

    def names(self) -> list[str]:
        """Return all names; one that takes an argument reads "hf:…"."""
        return [f"{name}…" if name.endswith(":") else name for name in self]

    def __getitem__(self, name: str) -> Thing:
        self._load_point(name)
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all(with_points=True))

    def __len__(self) -> int:
        return len(self._all(with_points=True))

    def _all(self, *, with_points: bool = False) -> Mapping[str, Thing]:
        """Return what there is, once the user's plugins have added theirs.

        `with_points` loads those of installed packages, too. One that cannot be loaded costs its own name only.
        """
        for name in filter(None, map(str.strip, os.environ.get(PLUGINS, "").split(","))):
            _import_plugin(name)
        if with_points:
            for name in self._entry_points():
                try:
                    self._load_point(name)
                except InputError as error:
                    _say_once(str(error))
        others = self._more()
        return {**self._things, **{name: others[name] for name in others if name not in self._things}}

    def _entry_points(self) -> dict[str, EntryPoint]:
        """Return name → where an installed package says that its own thing is."""
        if self._points is None:
            found = entry_points(group=f"berdslib.{self.kind.replace(' ', '')}") if self.own is not None else ()
            self._points = {point.name: point for point in found}
        return self._points

    def _load_point(self, name: str) -> None:
        """Add what an installed package has under a name, if any."""
        head = name.partition(":")[0].casefold()
        point = next((one for own, one in self._entry_points().items() if own.casefold() == head), None)
        if point is None or any(own.casefold() == head for own in self._things):
            return
        assert self.own is not None
        try:
            self.add(point.name, self.own(point.load(), point.name))
        except (Exception, SystemExit) as error:
            package = f" of the package {point.dist.name}" if point.dist else ""
            problem = f"the {self.kind} {point.name!r}{package} cannot be loaded from {point.value}"
            raise InputError(
                f"{problem}: {printable(str(error) or type(error).__name__)}", field="entry point"
            ) from error


@cache
def _say_once(problem: str) -> None:
    logger.warning("%s", problem)


def _import_plugin(name: str) -> None:
    """Import a module that adds names, once: Python lets it look some up meanwhile, and other threads wait."""
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        reason = printable(str(error) or type(error).__name__)
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            reason = "is its folder on PYTHONPATH?"
        raise InputError(f"names the module {name!r}, which cannot be imported: {reason}", field=PLUGINS) from error
