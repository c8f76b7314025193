"""The literature's and the published script's definitions of the measures of PerspectiveArg 2024, side by side.

Each row is a point at which they part (docs/divergences.md, rows A1 to A9), with what both make of the same tiny case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from berdslib.data.arguments import Argument, ArgumentQuery, Release
from berdslib.data.records import ranked_run
from berdslib.data.scenario import BASELINE, IMPLICIT, Scenario, open_scenario
from berdslib.evaluation.arguments import RELEVANCE_MEASURES, by_property, evaluate_arguments

_LETTERS = "political_attitude"  # the property that the letters of a case stand for


class _Case(NamedTuple):
    """A query over a few arguments.

    ``groups`` the group of each one's author, a letter; ``answers``, ``listed`` the numbers of those that answer it,
    and of those that a system lists. ``implicit``: the query asks for an age that all authors have, and profiles are
    hidden. ``copies``: all have the same text.
    """

    groups: str
    answers: Sequence[int]
    listed: Sequence[int]
    implicit: bool = False
    copies: bool = False


class _Point(NamedTuple):
    """A point at which the definitions part: the measure, both in words, and what both are computed on."""

    row: str
    measure: str
    k: int
    literature: str
    official: str
    shown: str
    case: _Case


_POINTS = (
    _Point(
        "A1",
        "alpha_nDCG",
        4,
        "a group loses alpha again each time that it was seen",
        "a group that was seen before loses alpha once",
        "AAAA listed, AAAABB answer",
        _Case("AAAABB", answers=range(6), listed=range(4)),
    ),
    _Point(
        "A2",
        "alpha_nDCG",
        2,
        "only an answer marks its group as seen",
        "whatever is listed marks its group as seen",
        "an A that is no answer listed before an A that is",
        _Case("AA", answers=[1], listed=[0, 1]),
    ),
    _Point(
        "A3",
        "nDCG",
        4,
        "the same answers count in the gain and in the ideal",
        "in the implicit scenario, copies of an answer count in the gain and not in the ideal",
        "an answer and four copies of it listed",
        _Case("AAAAA", answers=[0], listed=range(5), implicit=True, copies=True),
    ),
    _Point(
        "A6",
        "alpha_nDCG",
        2,
        "the ideal list is drawn from all answers",
        "with 1,000 answers or more, a group that only the last one has is not put first",
        "BA listed, 1,000 answer, the last is the only B",
        _Case("A" * 999 + "B", answers=range(1_000), listed=[999, 0]),
    ),
    _Point(
        "A7",
        "rKL",
        2,
        "both sides of the divergence, in bits, over its maximum",
        "the group's own side, in natural logarithms, not over its maximum",
        "one of the first two is of a group of 3 in a corpus of 10",
        _Case("AAAAAAABBB", answers=[0], listed=[0, 7]),
    ),
    _Point(
        "A8",
        "alpha_nDCG",
        2,
        "mean over the properties that the query does not name",
        "mean over the stance and all properties but the denomination, each issue by itself; unknown is a group",
        "AA listed, ABA answer, all of the age that is asked for",
        _Case("ABA", answers=range(3), listed=[0, 2], implicit=True),
    ),
    _Point(
        "A9",
        "P",
        4,
        "k places, however short the list",
        "no more places than the list has",
        "one answer listed, and nothing else",
        _Case("A", answers=[0], listed=[0]),
    ),
)


def differences() -> pd.DataFrame:
    """Return where the two definitions part, with the figures that both give for a tiny case, computed here.

    Returns:
        Frame with one row a point: row (of docs/divergences.md), measure (with its cut-off), literature, official (the
        definitions in words), case (in words; letters are groups of authors), literature_figure, official_figure.
    """
    rows = []
    for point in _POINTS:
        names = [f"{name}@{point.k}" for name in (point.measure, f"official_{point.measure}")]
        scenario, run = _opened(point.case)
        if point.row == "A8" or point.measure in RELEVANCE_MEASURES:
            figures = evaluate_arguments(run, scenario, names).iloc[0].tolist()
        else:  # the letters alone, not the mean over properties, in which the definitions also part
            figures = [by_property(run, scenario, name)[_LETTERS].iloc[0] for name in names]
        rows.append((point.row, names[0], point.literature, point.official, point.shown, *figures))
    columns = ["row", "measure", "literature", "official", "case", "literature_figure", "official_figure"]
    return pd.DataFrame(rows, columns=columns)


def _opened(case: _Case) -> tuple[Scenario, pd.DataFrame]:
    ids = [f"argument {i}" for i in range(len(case.groups))]
    texts = ["the same"] * len(ids) if case.copies else ids
    age = {"age": ("18-34",)} if case.implicit else {}
    profiles = [{_LETTERS: (group,), **age} for group in case.groups]
    arguments = [Argument(one, text, profile=p) for one, text, p in zip(ids, texts, profiles, strict=True)]
    queries = (ArgumentQuery("q", "What of it?", "dev", age, tuple(ids[i] for i in case.answers)),)
    perspective, baseline = (queries, ()) if case.implicit else ((), queries)
    release = Release("tiny", tuple(arguments), baseline, perspective)
    scenario = open_scenario(release, IMPLICIT if case.implicit else BASELINE)
    return scenario, ranked_run({"q": [scenario.docnos[ids[i]] for i in case.listed]})
