"""Things by name: one pattern for retrievers, judges, data sets and diversifiers.

A name is a word, "bm25", or a word and what it is about, "hf:org/model"; capitals do not matter. Names of one's own
join by ``bd.register``; the modules that BERDS_PLUGINS lists do so in the shell and in the notebooks of a grid. An
installed package adds its own by entry points, ``[project.entry-points."berdslib.retriever"]``, whose objects are what
``bd.register`` takes.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from berdslib.errors import InputError, known

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
        self._built_in, self._searched = frozenset(things), False

    def add(self, name: str, thing: Thing) -> None:
        """Add a thing under a name of yours; adding it again replaces it, as running a notebook's cell twice does."""
        self.check_name(name)
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
        """Return whether a name, with its argument or without, is not one of the user's."""
        return name in self._built_in or name.partition(":")[0] + ":" in self._built_in

    def names(self) -> list[str]:
        """Return all names; one that takes an argument reads "hf:…"."""
        return [f"{name}…" if name.endswith(":") else name for name in self]

    def __getitem__(self, name: str) -> Thing:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> Mapping[str, Thing]:
        """Return what there is, once the user's plugins have added theirs."""
        for name in filter(None, map(str.strip, os.environ.get(PLUGINS, "").split(","))):
            _import_plugin(name)
        if self.own is not None and not self._searched:
            self._searched = True  # first, because what is imported looks things up
            for point in entry_points(group=f"berdslib.{self.kind.replace(' ', '')}"):
                try:
                    self.add(point.name, self.own(point.load(), point.name))
                except Exception as error:
                    self._searched = False  # whoever looks up a name next is to hear of it too
                    problem = f"the {self.kind} {point.name!r}, which {point.value} should be, cannot be had: {error}"
                    raise InputError(problem, field="entry point") from error
        others = self._more()
        return {**self._things, **{name: others[name] for name in others if name not in self._things}}


def _import_plugin(name: str) -> None:
    """Import a module that adds names, once: Python lets it look some up meanwhile, and other threads wait."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        problem = f"names the module {name!r}, which cannot be imported; is its folder on PYTHONPATH?"
        raise InputError(problem, field=PLUGINS) from None
