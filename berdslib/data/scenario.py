"""The three scenarios of PerspectiveArg, as objects that enforce their rule.

A system sees the queries' texts in the baseline scenario, also the requested properties in the other two, and the
authors' profiles in the explicit scenario only. A system gets a :class:`Handout`; a :class:`Scenario` holds everything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from berdslib.data.arguments import (
    AUTHOR,
    READER,
    RELEVANT,
    SPLITS,
    ArgumentQuery,
    Profile,
    Release,
    in_words,
    listed_docnos,
    read_release,
)
from berdslib.data.catalogue import DATASETS
from berdslib.data.collection import Collection
from berdslib.data.fetch import candidate_paths, first_existing
from berdslib.data.records import Passage, Question, check_run, make_verdicts, no_repeats, ranked_run
from berdslib.data.tables import read_jsonl, write_jsonl
from berdslib.errors import InputError, MissingDataError, known
from berdslib.files import StrPath
from berdslib.paths import shipped

BASELINE = "baseline"
EXPLICIT = "explicit"
IMPLICIT = "implicit"
SCENARIOS = (BASELINE, EXPLICIT, IMPLICIT)
_OF_2019 = "perspectivearg-2019"
ENOUGH = 20  # arguments that a query of a predictions file lists at least: the deepest cut-off of the task's measures
REPEATS = ("error", "once")
_QUERY = "query_id"


class OfAuthors(dict[str, Any]):
    """Data about authors: docno → profile, or → id in the release. It is sent only to systems that may see it."""


@dataclass(frozen=True, eq=False, repr=False)
class Handout(Collection):
    """The part of a scenario that a system may see: a collection, and the profiles that the rule allows.

    ``asked`` is qid → the properties that a query names; ``profiles`` docno → its author's profile, None if the rule
    hides them; ``training`` the training split with its answers, under the same rule. If profiles are hidden, docnos
    and the order of passages reveal nothing: docnos are hashes of the release's ids, under a key that requires the
    profiles.
    """

    rule: str = BASELINE
    asked: Mapping[str, Profile] = field(default_factory=dict)
    profiles: Mapping[str, Profile] | None = None
    training: Handout | None = None
    ranked_for: str = AUTHOR


@dataclass(frozen=True, eq=False, repr=False)
class Scenario(Handout):
    """A split of a release under a rule, with everything that scoring needs; :func:`open_scenario` makes it.

    ``authors`` is docno → its author's profile, under every rule; ``ids`` docno → id in the release.
    """

    release: Release = field(default_factory=lambda: Release("", ()))
    split: str = ""
    authors: Mapping[str, Profile] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def handout(self) -> Handout:
        """The system's own copy of what it may see, so that its changes cannot affect a score."""
        return Handout(
            self.name,
            self.questions,
            self.passages,
            rule=self.rule,
            asked={qid: dict(asked) for qid, asked in self.asked.items()},
            profiles=None if self.profiles is None else OfAuthors(self.profiles),
            training=self.training,
            ranked_for=self.ranked_for,
        )

    @cached_property
    def docnos(self) -> Mapping[str, str]:
        """Id in the release → docno."""
        return OfAuthors({own: docno for docno, own in self.ids.items()})

    def __repr__(self) -> str:
        """Give the scenario, its sizes, and whether it is synthetic."""
        sizes = f"{len(self.questions):,} queries ({self.split}), {len(self.passages):,} arguments"
        known_answers = "" if self.gold is not None else ", answers kept back"
        real = ", SYNTHETIC" if self.release.synthetic else ""
        for_readers = ", ranked for the reader" if self.ranked_for == READER else ""
        return f"Scenario {self.name!r} ({self.rule}{real}{for_readers}): {sizes}{known_answers}"


def open_scenario(release: Release, rule: str, split: str = "dev", *, training: Release | None = None) -> Scenario:
    """Return a split of a release under a rule ("baseline", "explicit" or "implicit").

    Systems may learn from the training split of `training`, None for the same release, and never from the split scored.
    """
    known("scenario", rule, SCENARIOS)
    known("split", split, SPLITS)
    queries = _queries(release, rule, split)
    source = training or release
    if not queries:
        kind = "baseline" if rule == BASELINE else "perspective"
        splits = {query.split for query in _queries(release, rule)}
        listed = ", ".join(sorted(splits)) or "none"
        problem = f"release {release.name!r} has no {kind} queries of the split {split!r}; there are: {listed}"
        raise InputError(problem, field="split")
    docno_of = _docnos(release, rule)
    passages = _passages(release, docno_of)
    learnt = [] if source is release and split == "train" else _queries(source, rule, "train")
    # Training on a scored issue would reveal its answers.
    shared = {query.text for query in queries} & {query.text for query in learnt}
    if shared:
        problem = f"{len(shared)} of the issues that are scored are in the training split of {source.name!r}, too"
        raise InputError(f"{problem}; nothing may be learnt from what is scored", field="training")
    training_split = None
    if learnt:
        is_same = source is release
        learnt_docnos = docno_of if is_same else _docnos(source, rule)
        texts = passages if is_same else _passages(source, learnt_docnos)
        training_split = Handout(**_shown(source, rule, learnt, learnt_docnos), passages=texts)
    return Scenario(
        **_shown(release, rule, queries, docno_of),
        passages=passages,
        training=training_split,
        release=release,
        split=split,
        authors=OfAuthors({docno_of[argument.docno]: argument.profile for argument in release.arguments}),
        ids=OfAuthors({docno: own for own, docno in docno_of.items()}),
    )


def _shown(
    release: Release, rule: str, queries: Sequence[ArgumentQuery], docno_of: Mapping[str, str]
) -> dict[str, Any]:
    """Return the fields of a handout for some queries under a rule, with their answers if these are known."""
    source = f"{release.name} (synthetic)" if release.synthetic else release.name
    answers = _answers(queries, docno_of)
    profiles = None
    if rule == EXPLICIT:
        profiles = OfAuthors({argument.docno: argument.profile for argument in release.arguments})
    return {
        "name": f"{release.name}:{rule}",
        "questions": [_question(q, source) for q in queries],
        "gold": None if answers is None else make_verdicts(answers, "gold"),
        "rule": rule,
        "asked": {q.qid: dict(q.asked) for q in queries if q.asked},
        "profiles": profiles,
        "ranked_for": release.ranked_for,
    }


def _answers(
    queries: Sequence[ArgumentQuery], docno_of: Mapping[str, str]
) -> list[tuple[str, int, str, float, bool]] | None:
    """Return the rows of the gold verdicts; None if the answers are withheld."""
    without = [q.qid for q in queries if q.relevant is None]
    if without and len(without) < len(queries):
        problem = f"no answers to {len(without)} of {len(queries)} queries, the first is {without[0]!r}"
        raise InputError(f"{problem}; all queries of a split have some, or none has", field=RELEVANT)
    rows = []
    for query in queries:
        for answer in query.relevant or ():
            if answer not in docno_of:
                raise InputError(f"{answer!r}, an answer to {query.qid!r}, is not in the corpus", field=RELEVANT)
            rows.append((query.qid, 0, docno_of[answer], 1.0, True))
    return None if without else rows


def _queries(release: Release, rule: str, split: str | None = None) -> list[ArgumentQuery]:
    queries = release.baseline if rule == BASELINE else release.perspective
    return [query for query in queries if split in (None, query.split)]


def _question(query: ArgumentQuery, source: str) -> Question:
    """Return a query as a question; its one perspective is the requested properties, or the query's text."""
    labels = (in_words(query.asked),) if query.asked else ()
    text = query.text
    return Question(query.qid, text, labels or (text,), (None,), source, query.split, labels=labels, issue=text)


def _passages(release: Release, docno_of: Mapping[str, str]) -> tuple[Passage, ...]:
    # Sorted by docno, since the release may be ordered by author. Issue and stance are labels, not text.
    return tuple(sorted(Passage(docno_of[argument.docno], argument.text) for argument in release.arguments))


def _docnos(release: Release, rule: str) -> dict[str, str]:
    """Return id → docno. If profiles are hidden, the docno is a hash whose key is the whole release."""
    ids = [argument.docno for argument in release.arguments]
    no_repeats(ids, "argument id", "argument_id")
    if rule == EXPLICIT:
        return {own: own for own in ids}
    whole = hashlib.blake2b(digest_size=32)
    for argument in release.arguments:
        content = (argument.docno, argument.text, sorted(argument.profile.items()))
        whole.update(repr(content).encode("utf-8", "surrogatepass"))
    key = whole.digest()

    def hidden(own: str) -> str:
        return hashlib.blake2b(own.encode("utf-8", "surrogatepass"), key=key, digest_size=10).hexdigest()

    return {own: hidden(own) for own in ids}


# ---------------------------------------------------------------- by name


def load_scenario(name: str, rule: str, split: str | None = None) -> Scenario:
    """Return a scenario of a data set, such as "perspectivearg-sample", or of a release's folder.

    `split` None is "dev", or the first split with queries for this scenario. Training data is that of the same release;
    releases of 2023 use the release of 2019, if it is on this machine.
    """
    if not rule:
        raise InputError(f"name one of its scenarios: {', '.join(f'{name}:{scenario}' for scenario in SCENARIOS)}")
    known("scenario", rule, SCENARIOS)
    release = load_release(name)
    training = None
    if name in DATASETS and not DATASETS[name].shipped and name != _OF_2019:
        with suppress(MissingDataError):  # a system that needs training raises the error
            training = load_release(_OF_2019)
    splits = {query.split for query in _queries(release, rule)}
    first = next((name for name in ("dev", "train", "test") if name in splits), "dev")
    return open_scenario(release, rule, split or first, training=training)


def load_release(name: str) -> Release:
    """Return a release of PerspectiveArg: a data set, or a folder."""
    dataset = DATASETS.get(name)
    if dataset is None or dataset.reader != "perspectivearg":
        return read_release(Path(name))
    if dataset.shipped:
        return read_release(shipped(dataset.shipped))
    return read_release(first_existing(dataset, candidate_paths(dataset, dataset.local), "release").parent, name)


# ---------------------------------------------------------------- predictions files

# Source: the task's published description. One JSON object a line, with the ids of the release:
#     {"query_id": 0, "relevant_candidates": [2019017914, 201904055, …]}
# A run has the docnos of its scenario, which are hashes of these ids if profiles are hidden.


def write_predictions(path: StrPath, run: pd.DataFrame, scenario: Scenario) -> None:
    """Write a run as a predictions file: queries in the scenario's order, ids as the release has them.

    A query without an answer is left out; the file then needs ``least=0`` to be read.
    """
    run = check_run(run)
    asked = [q.qid for q in scenario.questions]
    for column, noun, known_ids in (("qid", "a query", set(asked)), ("docno", "an argument", scenario.ids)):
        for listed in run[column].unique():
            if listed not in known_ids:
                raise InputError(f"{listed!r} is not {noun} of {scenario.name!r} ({scenario.split})", field=column)
    as_argument, as_query = (int if are_numbers else str for are_numbers in scenario.release.number_ids)
    lists = run["docno"].groupby(run["qid"], sort=False).agg(list)
    rows = []
    for qid in asked:
        if qid in lists.index:
            answers = [as_argument(scenario.ids[docno]) for docno in lists[qid]]
            rows.append({_QUERY: as_query(qid), RELEVANT: answers})
    write_jsonl(path, rows)


def read_predictions(path: StrPath, scenario: Scenario, *, least: int = ENOUGH, repeats: str = "error") -> pd.DataFrame:
    """Read a predictions file, gzipped or not, as a run (qid, docno, rank, score) in the scenario's docnos.

    Each query must list `least` different arguments, or all of a smaller corpus; with 0, queries may have no answer. An
    id that is listed twice is an "error", or with `repeats` "once" counts the first time (docs/divergences.md A9).
    """
    known("treatment of repeats", repeats, REPEATS)
    enough = min(least, len(scenario.passages))
    asked = {q.qid for q in scenario.questions}
    docno_of = scenario.docnos
    line_of: dict[Any, int] = {}
    lists: dict[str, list[str]] = {}
    for _, row in read_jsonl(path):
        qid = row.text(_QUERY)
        row.check_new(line_of, qid, f"query {qid!r}", _QUERY)
        if qid not in asked:
            raise row.wrong(_QUERY, f"{qid!r} is not a query of {scenario.name!r} ({scenario.split})")
        found = listed_docnos(row, docno_of, once=repeats == "once")
        if len(found) < enough:
            counted = f"{len(found)} different argument{'' if len(found) == 1 else 's'}"
            raise row.wrong(RELEVANT, f"lists {counted}; at least {enough} are needed")
        lists[qid] = [docno_of[own] for own in found]
    missing = [q.qid for q in scenario.questions if q.qid not in lists]
    if enough and missing:
        problem = f"answers {len(lists)} of {len(asked)} queries of {scenario.split!r}; the first without an answer is"
        raise InputError(f"{problem} {missing[0]!r}", path=path, field=_QUERY)
    return ranked_run(lists)
