"""Properties of authors as groups: which argument of a scenario's corpus is by somebody of which group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from berdslib.data.arguments import ISSUES, NOBODY, PROPERTIES
from berdslib.data.scenario import Scenario

SMALLER = "(smaller groups)"
_NOT_KNOWN = "(not known)"


class Variable(NamedTuple):
    """A property as groups.

    ``name`` what it is called; ``groups`` their names; ``members`` bool (arguments + 1, groups), the arguments in
    ascending order of docno, and a last row of False for empty places in a list.
    """

    name: str
    groups: tuple[str, ...]
    members: np.ndarray

    def sizes(self) -> np.ndarray:
        """Return how many arguments of the corpus are of each group, (groups,)."""
        return np.asarray(self.members.sum(axis=0))


def sorted_docnos(scenario: Scenario) -> list[str]:
    """Return the docnos of the corpus in the order in which arguments are counted here."""
    return sorted(p.docno for p in scenario.passages)


# Many systems are scored on one scenario, whose passages and profiles nobody changes.
_PROPERTIES: WeakKeyDictionary[Scenario, tuple[Variable, ...]] = WeakKeyDictionary()
_OFFICIAL: WeakKeyDictionary[Scenario, tuple[Variable, ...]] = WeakKeyDictionary()


def properties(scenario: Scenario) -> tuple[Variable, ...]:
    """Return the eight properties, each with the groups that it has in the corpus; political issues overlap."""
    if scenario not in _PROPERTIES:
        _PROPERTIES[scenario] = tuple(_read(scenario))
    return _PROPERTIES[scenario]


def official_variables(scenario: Scenario) -> tuple[Variable, ...]:
    """Return what the published script averages over (divergences.md A8), for every query, whatever it names.

    All properties but the denomination, the stance, and in place of the political issues each of them as important or
    neutral: with the eight issues of the data, 15. What is not known is a group of its own. Groups are in the order in
    which the corpus has them.
    """
    if scenario not in _OFFICIAL:
        of = scenario.release.arguments
        row = {docno: i for i, docno in enumerate(sorted_docnos(scenario))}
        rows = [row[scenario.docnos[one.docno]] for one in of]
        values = {
            name: [", ".join(one.profile.get(name, ())) or _NOT_KNOWN for one in of]
            for name in PROPERTIES
            if name not in ("denomination", ISSUES)
        }
        values["stance"] = [one.stance or _NOT_KNOWN for one in of]
        for issue in sorted({value for one in of for value in one.profile.get(ISSUES, ())}):
            named = [issue in one.profile.get(ISSUES, ()) for one in of]
            values[f"{ISSUES}: {issue}"] = ["important" if is_named else "neutral" for is_named in named]
        _OFFICIAL[scenario] = tuple(
            _variable(name, list(dict.fromkeys(found)), rows, found, len(of)) for name, found in values.items()
        )
    return _OFFICIAL[scenario]


def naming(scenario: Scenario, name: str) -> np.ndarray:
    """Return which queries name a property, bool (q,)."""
    return np.array([name in scenario.asked.get(q.qid, NOBODY) for q in scenario.questions])


def without_small(variable: Variable, smallest: int) -> Variable:
    """Return a property with its groups from the largest to the smallest, those that are too small put together.

    Where these are too few together, they take in the next larger group, and so on: by itself it would tell how many
    are left. No groups are returned where all together are too few.
    """
    sizes = variable.sizes()
    order = np.argsort(-sizes, kind="stable")
    large, small = order[sizes[order] >= smallest], order[sizes[order] < smallest]
    groups, columns = [variable.groups[i] for i in large], [variable.members[:, i] for i in large]
    together = np.asarray(variable.members[:, small].any(axis=1))
    while groups and 0 < together.sum() < smallest:
        groups, together = groups[:-1], together | columns.pop()
    if together.sum() >= smallest:
        groups, columns = [*groups, SMALLER], [*columns, together]
    members = np.stack(columns, axis=1) if columns else variable.members[:, :0]
    return Variable(variable.name, tuple(groups), members)


def _read(scenario: Scenario) -> list[Variable]:
    rows, values = defaultdict[str, list[int]](list), defaultdict[str, list[str]](list)
    docnos = sorted_docnos(scenario)
    for row, docno in enumerate(docnos):
        for name, several in scenario.authors.get(docno, NOBODY).items():
            for value in several:
                rows[name].append(row)
                values[name].append(value)
    return [_variable(name, sorted(set(values[name])), rows[name], values[name], len(docnos)) for name in PROPERTIES]


def _variable(name: str, groups: Sequence[str], rows: Sequence[int], values: Sequence[str], total: int) -> Variable:
    column = {group: i for i, group in enumerate(groups)}
    members = np.zeros((total + 1, len(groups)), dtype=bool)
    members[rows, [column[value] for value in values]] = True
    return Variable(name, tuple(groups), members)
