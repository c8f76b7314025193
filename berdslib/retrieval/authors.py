"""Systems that look at who wrote a passage: what the parts "+profile:…" of a system string do, and groups as aspects.

They know the profiles that a :class:`~berdslib.data.scenario.Handout` holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from berdslib.data.arguments import PROPERTIES, Profile, in_words
from berdslib.data.collection import Collection
from berdslib.data.records import Passage, Question, make_run
from berdslib.data.scenario import BASELINE, EXPLICIT, IMPLICIT, Handout
from berdslib.errors import InputError
from berdslib.retrieval.base import Retriever, joined
from berdslib.retrieval.diversify import ASPECT_COLUMNS, AspectsOf, starts_of

FILTER, TEMPLATE = "filter", "template"
USES = (FILTER, TEMPLATE)

DEEPER = 10  # times as many candidates: an author group may be a fiftieth of the corpus
_ROWS_AT_ONCE = 500_000  # of a run


# ---------------------------------------------------------------- what is asked for, and where


def check_use(use: str, collection: Collection, system: str) -> Handout:
    """Return the handout that a part "profile:USE" works on."""
    part = f"{system!r}: profile:{use}"
    if not isinstance(collection, Handout):
        raise InputError(
            f"{part} is for the scenarios of PerspectiveArg, whose queries name a property of the author, and "
            f"{collection.name!r} is none; berdslib.data.scenario.open_scenario makes one of a release"
        )
    if collection.rule == BASELINE:
        works = EXPLICIT if use == FILTER else f"{EXPLICIT} and {IMPLICIT}"
        raise InputError(f"{part} needs the property that a query names, and in the baseline scenario none does; "
                         f"it works in: {works}")  # fmt: skip
    if use == FILTER and collection.profiles is None:
        raise InputError(f"{part} reads authors' profiles, which the {collection.rule} scenario hides")
    return collection


def asked_for(handout: Handout, question: Question) -> Profile:
    """Return the properties that a query, or the one it was made of, names."""
    asked = handout.asked.get(question.owner or question.qid)
    if not asked:
        raise InputError(f"no property is known that question {question.qid!r} asks for", field="qid")
    return asked


# ---------------------------------------------------------------- who the authors are


class Authors:
    """Who wrote the passages of a corpus: for each (property, value) a column of p, float64 (corpus,).

    A p is 1 or 0, or NaN where a profile does not say.
    """

    def __init__(self, handout: Handout) -> None:
        assert handout.profiles is not None  # a system that needs them is refused where they are hidden
        self.handout = handout
        self._docnos = pd.Index([passage.docno for passage in handout.passages])
        self._profiles = [handout.profiles[passage.docno] for passage in handout.passages]
        stated = {(name, value) for profile in self._profiles for name, values in profile.items() for value in values}
        self.groups = tuple(sorted(stated))
        self.p = cache(self._p)

    def _p(self, name: str, value: str) -> np.ndarray:
        return np.array([float(value in profile[name]) if name in profile else np.nan for profile in self._profiles])

    def rows(self, docnos: pd.Series) -> np.ndarray:
        """Return where passages stand in the corpus, int (n,)."""
        found = self._docnos.get_indexer(pd.Index(docnos))
        if (found < 0).any():
            stray = docnos.iloc[int((found < 0).argmax())]
            raise InputError(f"{stray!r} is not among the passages of the scenario", field="docno")
        return found

    def having(self, asked: Profile) -> np.ndarray:
        """Return whether each author is known to have all that is asked for, bool (corpus,)."""
        return np.all([self.p(name, value) == 1 for name, values in asked.items() for value in values], axis=0)

    def membership(self) -> np.ndarray:
        """Return whether each author is known to belong to each group, 1 or 0, float64 (corpus, groups)."""
        return np.nan_to_num(np.column_stack([self.p(*group) for group in self.groups]))


# ---------------------------------------------------------------- filter


@dataclass
class Filtered:
    """A retriever that lists the authors first who are known to have what a query asks for.

    Where it `deepens`, it looks deeper until the list is full of them or the corpus is listed.
    """

    retriever: Retriever
    authors: Authors
    depth: int
    deepens: bool
    name: str

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        found, waiting, deep = [], list(questions), max(k, self.depth)
        while waiting:
            not_full: list[Question] = []
            size = max(1, _ROWS_AT_ONCE // deep)
            for start in range(0, len(waiting), size):
                some = waiting[start : start + size]
                run = self.retriever.search(some, deep)
                ahead = self._ahead(run, some)
                if self.deepens and deep < len(self.authors.handout.passages):
                    of = run.assign(ahead=ahead).groupby("qid")["ahead"].agg(["size", "sum"])
                    more = of.index[(of["size"] == deep) & (of["sum"] < k)]
                    not_full += [q for q in some if q.qid in more]
                    kept = ~run["qid"].isin(more).to_numpy()
                    run, ahead = run[kept], ahead[kept]
                scores = self._scores(run, ahead).tolist()
                filtered = make_run(run["qid"].tolist(), run["docno"].tolist(), scores)
                found.append(filtered[filtered["rank"] <= k])
            waiting, deep = not_full, deep * DEEPER
        return joined(found)

    def _ahead(self, run: pd.DataFrame, questions: Sequence[Question]) -> np.ndarray:
        """Return whether the author of each row of a run is to be listed first, bool (rows,)."""
        asked = {q.qid: asked_for(self.authors.handout, q) for q in questions}
        rows = self.authors.rows(run["docno"])
        of_lists = [self.authors.having(asked[qid])[rows[here]] for qid, here in _lists(run)]
        return np.concatenate([np.empty(0, dtype=bool), *of_lists])

    def _scores(self, run: pd.DataFrame, ahead: np.ndarray) -> np.ndarray:
        lists = run.groupby("qid")["score"]
        # Twice the spread: once would put the best of the others beside the last of the group.
        lower = 2 * (lists.transform("max") - lists.transform("min"))
        return (run["score"] - np.where(ahead, 0, lower)).to_numpy()


# ---------------------------------------------------------------- template


@dataclass
class Templated:
    """A retriever that is asked for the property in words, before the text."""

    retriever: Retriever
    handout: Handout
    name: str

    def search(self, questions: Sequence[Question], k: int) -> pd.DataFrame:
        """Return a run of at most k passages a question."""
        asking = [q._replace(text=_before(asked_for(self.handout, q), q.text)) for q in questions]
        return self.retriever.search(asking, k)


def templated(handout: Handout) -> Sequence[Passage]:
    """Return the passages with their authors' profiles in words before the text, or as they are if these are hidden."""
    profiles = handout.profiles
    if profiles is None:
        return handout.passages
    return [p._replace(text=_before(profiles[p.docno], p.text)) for p in handout.passages]


def _before(profile: Profile, text: str) -> str:
    """Put a profile in front of a text.

    >>> _before({"age": ("18-34",)}, "Is sugar bad?")
    'age: 18-34. Is sugar bad?'
    """
    in_order = {name: profile[name] for name in PROPERTIES if name in profile}
    return f"{in_words(in_order)}. {text}" if in_order else text


# ---------------------------------------------------------------- groups as aspects


def group_aspects(authors: Authors) -> AspectsOf:
    """Return what makes the aspects of a run for a diversifier: frame qid, pid (place in ``authors.groups``), docno, p.

    Every author group of a property that the query does not ask for is an aspect, and all weigh the same.
    """

    def aspects(run: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
        asked = {q.qid: asked_for(authors.handout, q) for q in questions}
        run = run[run["qid"].isin(asked)].reset_index(drop=True)
        p = authors.membership()[authors.rows(run["docno"])]
        listed = p > 0
        for qid, here in _lists(run):
            counts = np.array([name not in asked[qid] for name, _ in authors.groups])
            listed[here] &= counts
            listed[here.start] = counts  # also where nobody listed belongs to it: then it is an aspect not covered
        rows, pids = np.nonzero(listed)
        columns = (run["qid"].to_numpy()[rows], pids, run["docno"].to_numpy()[rows], p[rows, pids])
        return pd.DataFrame(dict(zip(ASPECT_COLUMNS, columns, strict=True)))

    return aspects


# ---------------------------------------------------------------- small parts


def _lists(run: pd.DataFrame) -> Iterator[tuple[str, slice]]:
    """Yield the rows of each question of a clean run."""
    for start, long in zip(*starts_of(run), strict=True):
        yield str(run["qid"].iloc[start]), slice(int(start), int(start + long))
