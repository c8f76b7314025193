"""The literature's and the published script's definitions of the measures of PerspectiveArg 2024, side by side.

Each row is a point at which they part (docs/divergences.md, rows A1 to A9), with what both make of the same tiny case.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from berdslib.data.arguments import Argument, ArgumentQuery, Release
from berdslib.data.records import ranked_run
from berdslib.data.scenario import BASELINE, IMPLICIT, Scenario, open_scenario
from berdslib.evaluation.arguments import RELEVANCE_MEASURES, by_property, evaluate_arguments

_LETTERS = "political_attitude"  # the property that the letters of a case stand for

# Row, measure, k; the literature's definition, the script's, the case in words; and the case: the group of each
# argument's author, a letter; the numbers of those that answer the query, and of those that a system lists; the kind of
# query (implicit: it asks for an age that all authors have, and profiles are hidden), and whether all texts are alike.
_POINTS: tuple[tuple[str, str, int, str, str, str, str, Iterable[int], Iterable[int], str], ...] = (
    ("A1", "alpha_nDCG", 4, "a group loses alpha again each time that it was seen",
     "a group that was seen before loses alpha once",
     "AAAA listed, AAAABB answer", "AAAABB", range(6), range(4), ""),
    ("A2", "alpha_nDCG", 2, "only an answer marks its group as seen", "whatever is listed marks its group as seen",
     "an A that is no answer listed before an A that is", "AA", [1], [0, 1], ""),
    ("A3", "nDCG", 4, "the same answers count in the gain and in the ideal",
     "in the implicit scenario, copies of an answer count in the gain and not in the ideal",
     "an answer and four copies of it listed", "AAAAA", [0], range(5), "implicit, copies"),
    ("A6", "alpha_nDCG", 2, "the ideal list is drawn from all answers",
     "with 1,000 answers or more, a group that only the last one has is not put first",
     "BA listed, 1,000 answer, the last is the only B", "A" * 999 + "B", range(1_000), [999, 0], ""),
    ("A7", "rKL", 2, "both sides of the divergence, in bits, over its maximum",
     "the group's own side, in natural logarithms, not over its maximum",
     "one of the first two is of a group of 3 in a corpus of 10", "AAAAAAABBB", [0], [0, 7], ""),
    ("A8", "alpha_nDCG", 2, "mean over the properties that the query does not name",
     "mean over the stance and all properties but the denomination, each issue by itself; unknown is a group",
     "AA listed, ABA answer, all of the age that is asked for", "ABA", range(3), [0, 2], "implicit"),
    ("A9", "P", 4, "k places, however short the list", "no more places than the list has",
     "one answer listed, and nothing else", "A", [0], [0], ""),
)  # fmt: skip


def differences() -> pd.DataFrame:
    """Return where the two definitions part, with the figures that both give for a tiny case, computed here.

    One row a point: row (of docs/divergences.md), measure, literature, official (the definitions in words), case,
    literature_figure, official_figure.
    """
    rows = []
    for row, measure, k, literature, official, shown, groups, answers, listed, kind in _POINTS:
        names = [f"{name}@{k}" for name in (measure, f"official_{measure}")]
        scenario, run = _opened(groups, answers, listed, kind)
        if row == "A8" or measure in RELEVANCE_MEASURES:
            figures = evaluate_arguments(run, scenario, names).iloc[0].tolist()
        else:  # the letters alone, not the mean over properties, in which the definitions also part
            figures = [by_property(run, scenario, name)[_LETTERS].iloc[0] for name in names]
        rows.append((row, names[0], literature, official, shown, *figures))
    columns = ["row", "measure", "literature", "official", "case", "literature_figure", "official_figure"]
    return pd.DataFrame(rows, columns=columns)


def _opened(groups: str, answers: Iterable[int], listed: Iterable[int], kind: str) -> tuple[Scenario, pd.DataFrame]:
    ids = [f"argument {i}" for i in range(len(groups))]
    age = {"age": ("18-34",)} if "implicit" in kind else {}
    arguments = tuple(
        Argument(one, "the same" if "copies" in kind else one, profile={_LETTERS: (group,), **age})
        for one, group in zip(ids, groups, strict=True)
    )
    queries = (ArgumentQuery("q", "What of it?", "dev", age, tuple(ids[i] for i in answers)),)
    release = Release("tiny", arguments, *(((), queries) if age else (queries, ())))
    scenario = open_scenario(release, IMPLICIT if age else BASELINE)
    return scenario, ranked_run({"q": [scenario.docnos[ids[i]] for i in listed]})
