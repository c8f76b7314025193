"""Systems that use the authors of passages: the parts "+profile:…" of a system string, and groups as aspects.

They read the profiles of a :class:`~berdslib.data.scenario.Handout`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from berdslib.data.arguments import PROPERTIES, Profile, in_words
from berdslib.data.collection import Collection
from berdslib.data.records import AnyQuery, Passage, Question, make_run
from berdslib.data.scenario import BASELINE, EXPLICIT, IMPLICIT, Handout
from berdslib.errors import InputError
from berdslib.retrieval.base import Retriever, joined
from berdslib.retrieval.diversify import ASPECT_COLUMNS, AspectsOf, starts_of

FILTER = "filter"
TEMPLATE = "template"
USES = (FILTER, TEMPLATE)

_DEEPENING = 10  # times as many candidates: an author group may be a fiftieth of the corpus
_ROWS_AT_ONCE = 500_000  # of a run


# ---------------------------------------------------------------- scenarios and queries


def check_use(use: str, collection: Collection, system: str) -> Handout:
    """Return the handout that a part "profile:USE" works on."""
    part = f"{system!r}: profile:{use}"
    if not isinstance(collection, Handout):
        raise InputError(
            f"{part} needs a scenario of PerspectiveArg, whose queries name a property of the author; "
            f"{collection.name!r} is not a scenario: berdslib.data.scenario.open_scenario makes one of a release"
        )
    if collection.rule == BASELINE:
        works = EXPLICIT if use == FILTER else f"{EXPLICIT} and {IMPLICIT}"
        problem = f"{part} needs the property that a query names, and queries of the baseline scenario name none"
        raise InputError(f"{problem}; it works in: {works}")
    if use == FILTER and collection.profiles is None:
        raise InputError(f"{part} reads authors' profiles, which the {collection.rule} scenario hides")
    return collection


def asked_for(handout: Handout, question: Question) -> Profile:
    """Return the properties that a question names."""
    properties = handout.asked.get(question.qid)
    if not properties:
        raise InputError(f"no property is known for question {question.qid!r}", field="qid")
    return properties


# ---------------------------------------------------------------- authors


class Authors:
    """The authors of the passages of a corpus: for each (property, value) a column of p, float64 (corpus,).

    A p is 1 or 0, or NaN if the profile lacks the property.
    """

    def __init__(self, handout: Handout) -> None:
        assert handout.profiles is not None  # check_use refuses scenarios that hide them
        self.handout = handout
        self._docnos = pd.Index([passage.docno for passage in handout.passages])
        self._profiles = [handout.profiles[passage.docno] for passage in handout.passages]
        groups: set[tuple[str, str]] = set()
        for profile in self._profiles:
            for name, values in profile.items():
                groups.update((name, value) for value in values)
        self.groups = tuple(sorted(groups))
        self.p = cache(self._p)

    def _p(self, name: str, value: str) -> np.ndarray:
        return np.array([float(value in profile[name]) if name in profile else np.nan for profile in self._profiles])

    def rows(self, docnos: pd.Series) -> np.ndarray:
        """Return the positions of passages in the corpus, int (n,)."""
        rows = self._docnos.get_indexer(pd.Index(docnos))
        unknown = rows < 0
        if unknown.any():
            docno = docnos.iloc[int(unknown.argmax())]
            raise InputError(f"{docno!r} is not among the passages of the scenario", field="docno")
        return rows

    def having(self, properties: Profile) -> np.ndarray:
        """Return whether each author is known to have all of these properties, bool (corpus,)."""
        columns = [self.p(name, value) == 1 for name, values in properties.items() for value in values]
        return np.all(columns, axis=0)

    def membership(self) -> np.ndarray:
        """Return whether each author is known to belong to each group, 1 or 0, float64 (corpus, groups)."""
        columns = [self.p(name, value) for name, value in self.groups]
        return np.nan_to_num(np.column_stack(columns))


# ---------------------------------------------------------------- filter


@dataclass
class Filtered:
    """A retriever that lists passages first whose authors are known to have the properties that a query names.

    If it `deepens`, it searches deeper until these fill the list or the corpus is exhausted.
    """

    retriever: Retriever
    authors: Authors
    depth: int
    deepens: bool
    name: str

    def search(self, questions: Sequence[AnyQuery], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        runs = []
        waiting = list(questions)
        depth = max(k, self.depth)
        while waiting:
            not_full: list[AnyQuery] = []
            size = max(1, _ROWS_AT_ONCE // depth)
            for start in range(0, len(waiting), size):
                block = waiting[start : start + size]
                run = self.retriever.search(block, depth)
                matches = self._matches(run, block)
                if self.deepens and depth < len(self.authors.handout.passages):
                    counts = run.assign(matches=matches).groupby("qid")["matches"].agg(["size", "sum"])
                    more = counts.index[(counts["size"] == depth) & (counts["sum"] < k)]
                    not_full += [question for question in block if question.qid in more]
                    kept = ~run["qid"].isin(more).to_numpy()
                    run = run[kept]
                    matches = matches[kept]
                scores = self._scores(run, matches).tolist()
                filtered = make_run(run["qid"].tolist(), run["docno"].tolist(), scores)
                runs.append(filtered[filtered["rank"] <= k])
            waiting = not_full
            depth *= _DEEPENING
        return joined(runs)

    def _matches(self, run: pd.DataFrame, questions: Sequence[AnyQuery]) -> np.ndarray:
        """Return whether the author of each row of a run has the properties that its query names, bool (rows,)."""
        properties = {asked.qid: asked_for(self.authors.handout, asked.question) for asked in questions}
        rows = self.authors.rows(run["docno"])
        by_list = [self.authors.having(properties[qid])[rows[here]] for qid, here in _lists(run)]
        return np.concatenate([np.empty(0, dtype=bool), *by_list])

    def _scores(self, run: pd.DataFrame, matches: np.ndarray) -> np.ndarray:
        lists = run.groupby("qid")["score"]
        # Lowered by the spread alone, the best of the others would tie with the last match.
        lower = 2 * (lists.transform("max") - lists.transform("min"))
        return (run["score"] - np.where(matches, 0, lower)).to_numpy()


# ---------------------------------------------------------------- template


@dataclass
class Templated:
    """A retriever whose queries start with the property in words."""

    retriever: Retriever
    handout: Handout
    name: str

    def search(self, questions: Sequence[AnyQuery], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        queries: list[AnyQuery] = []
        for asked in questions:
            properties = asked_for(self.handout, asked.question)
            queries.append(asked._replace(text=_before(properties, asked.text)))
        return self.retriever.search(queries, k)


def templated(handout: Handout) -> Sequence[Passage]:
    """Return the passages with their authors' profiles in words before the text, unchanged if these are hidden."""
    profiles = handout.profiles
    if profiles is None:
        return handout.passages
    return [passage._replace(text=_before(profiles[passage.docno], passage.text)) for passage in handout.passages]


def _before(profile: Profile, text: str) -> str:
    """Put a profile in front of a text.

    >>> _before({"age": ("18-34",)}, "Is sugar bad?")
    'age: 18-34. Is sugar bad?'
    """
    in_order = {name: profile[name] for name in PROPERTIES if name in profile}
    return f"{in_words(in_order)}. {text}" if in_order else text


# ---------------------------------------------------------------- groups as aspects


def group_aspects(authors: Authors) -> AspectsOf:
    """Return a function from a run to a diversifier's aspects: qid, pid (position in ``authors.groups``), docno, p.

    Every author group of a property that the query does not name is an aspect, all with the same weight.
    """

    def aspects(run: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
        properties = {question.qid: asked_for(authors.handout, question) for question in questions}
        run = run[run["qid"].isin(properties)].reset_index(drop=True)
        p = authors.membership()[authors.rows(run["docno"])]
        listed = p > 0
        for qid, here in _lists(run):
            is_aspect = np.array([name not in properties[qid] for name, _ in authors.groups])
            listed[here] &= is_aspect
            listed[here.start] = is_aspect  # a group without any listed passage stays an aspect, with p = 0
        rows, pids = np.nonzero(listed)
        columns = (run["qid"].to_numpy()[rows], pids, run["docno"].to_numpy()[rows], p[rows, pids])
        return pd.DataFrame(dict(zip(ASPECT_COLUMNS, columns, strict=True)))

    return aspects


# ---------------------------------------------------------------- small parts


def _lists(run: pd.DataFrame) -> Iterator[tuple[str, slice]]:
    """Yield the rows of each question of a clean run."""
    starts, lengths = starts_of(run)
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        yield str(run["qid"].iloc[start]), slice(start, start + length)
