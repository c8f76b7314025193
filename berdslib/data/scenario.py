"""The three scenarios of PerspectiveArg as objects that enforce their rule.

A system sees the queries' texts in the baseline scenario, also the properties they ask for in the other two, and the
authors' profiles in the explicit one alone. It is handed a :class:`Handout`; a :class:`Scenario` knows all.
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

BASELINE, EXPLICIT, IMPLICIT = "baseline", "explicit", "implicit"
SCENARIOS = (BASELINE, EXPLICIT, IMPLICIT)
_OF_2019 = "perspectivearg-2019"
ENOUGH = 20  # arguments that a query of a predictions file lists at least: the deepest cut-off of the task's measures
REPEATS = ("error", "once")
_QUERY = "query_id"


class OfAuthors(dict[str, Any]):
    """What tells of authors: docno → profile, or → id in the release. Systems that may not see it are not sent it."""


@dataclass(frozen=True, eq=False, repr=False)
class Handout(Collection):
    """What a system may see: a collection, and as much of the profiles as the rule allows.

    ``asked`` is qid → the properties that a query names; ``profiles`` docno → its author's, None where the rule hides
    them; ``training`` the training split with its answers, by the same rule. Docnos of hidden profiles tell nothing,
    nor does the order of passages: they are made from the release's ids by a key that only who has the profiles can
    compute.
    """

    rule: str = BASELINE
    asked: Mapping[str, Profile] = field(default_factory=dict)
    profiles: Mapping[str, Profile] | None = None
    training: Handout | None = None
    ranked_for: str = AUTHOR


@dataclass(frozen=True, eq=False, repr=False)
class Scenario(Handout):
    """A split of a release under a rule, as whoever measures holds it; :func:`open_scenario` makes it.

    ``authors`` is docno → its author's profile, whatever the rule; ``ids`` docno → id in the release.
    """

    release: Release = field(default_factory=lambda: Release("", ()))
    split: str = ""
    authors: Mapping[str, Profile] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def handout(self) -> Handout:
        """What a system is handed; its own copy, so that nothing it does to it changes a score."""
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
        """Say which scenario, how much of what there is, and whether it is real."""
        what = f"{len(self.questions):,} queries ({self.split}), {len(self.passages):,} arguments"
        known_answers = "" if self.gold is not None else ", answers kept back"
        real = ", SYNTHETIC" if self.release.synthetic else ""
        for_readers = ", ranked for the reader" if self.ranked_for == READER else ""
        return f"Scenario {self.name!r} ({self.rule}{real}{for_readers}): {what}{known_answers}"


def open_scenario(release: Release, rule: str, split: str = "dev", *, training: Release | None = None) -> Scenario:
    """Return a split of a release under a rule ("baseline", "explicit" or "implicit").

    Systems may learn from the training split of `training`, None for the same release, and never from the split scored.
    """
    known("scenario", rule, SCENARIOS)
    known("split", split, SPLITS)
    queries, source = _queries(release, rule, split), training or release
    if not queries:
        kind = "baseline" if rule == BASELINE else "perspective"
        there = ", ".join(sorted({q.split for q in _queries(release, rule)})) or "none"
        problem = f"release {release.name!r} has no {kind} queries of the split {split!r}; there are: {there}"
        raise InputError(problem, field="split")
    docno_of = _docnos(release, rule)
    passages = _passages(release, docno_of)
    learnt = [] if source is release and split == "train" else _queries(source, rule, "train")
    # Nothing is learnt on an issue that is scored: its answers would be known.
    if shared := {q.text for q in queries} & {q.text for q in learnt}:
        problem = f"{len(shared)} of the issues that are scored are in the training split of {source.name!r}, too"
        raise InputError(f"{problem}; nothing may be learnt from what is scored", field="training")
    same = source is release
    theirs = docno_of if same or not learnt else _docnos(source, rule)
    texts = passages if same or not learnt else _passages(source, theirs)
    return Scenario(
        **_shown(release, rule, queries, docno_of),
        passages=passages,
        training=Handout(**_shown(source, rule, learnt, theirs), passages=texts) if learnt else None,
        release=release,
        split=split,
        authors=OfAuthors({docno_of[one.docno]: one.profile for one in release.arguments}),
        ids=OfAuthors({docno: own for own, docno in docno_of.items()}),
    )


def _shown(
    release: Release, rule: str, queries: Sequence[ArgumentQuery], docno_of: Mapping[str, str]
) -> dict[str, Any]:
    """Return what is known of some queries under a rule, with their answers where these are known."""
    source = f"{release.name} (synthetic)" if release.synthetic else release.name
    answers = _answers(queries, docno_of)
    return {
        "name": f"{release.name}:{rule}",
        "questions": [_question(q, source) for q in queries],
        "gold": None if answers is None else make_verdicts(answers, "gold"),
        "rule": rule,
        "asked": {q.qid: dict(q.asked) for q in queries if q.asked},
        "profiles": OfAuthors({one.docno: one.profile for one in release.arguments}) if rule == EXPLICIT else None,
        "ranked_for": release.ranked_for,
    }


def _answers(
    queries: Sequence[ArgumentQuery], docno_of: Mapping[str, str]
) -> list[tuple[str, int, str, float, bool]] | None:
    """Return the rows of the gold verdicts; None where the answers are kept back."""
    without = [q.qid for q in queries if q.relevant is None]
    if without and len(without) < len(queries):
        problem = f"{len(without)} of {len(queries)} queries have no answers, the first is {without[0]!r}"
        raise InputError(f"{problem}; all queries of a split have some, or none has", field=RELEVANT)
    pairs = [(q.qid, own) for q in queries for own in q.relevant or ()]
    if stray := next((pair for pair in pairs if pair[1] not in docno_of), None):
        raise InputError(f"{stray[1]!r}, an answer to {stray[0]!r}, is not in the corpus", field=RELEVANT)
    return None if without else [(qid, 0, docno_of[own], 1.0, True) for qid, own in pairs]


def _queries(release: Release, rule: str, split: str | None = None) -> list[ArgumentQuery]:
    return [q for q in (release.baseline if rule == BASELINE else release.perspective) if split in (None, q.split)]


def _question(query: ArgumentQuery, source: str) -> Question:
    """Return a query as a question with one perspective: what an argument must be to answer it."""
    labels = (in_words(query.asked),) if query.asked else ()
    return Question(query.qid, query.text, labels or (query.text,), (None,), source, query.split, labels=labels)


def _passages(release: Release, docno_of: Mapping[str, str]) -> tuple[Passage, ...]:
    # By docno: the order of the release might go by author. The issue and the stance are labels, not text.
    return tuple(sorted(Passage(docno_of[one.docno], one.text) for one in release.arguments))


def _docnos(release: Release, rule: str) -> dict[str, str]:
    """Return id → docno. Where profiles are hidden, it takes the whole release, profiles and all, to compute it."""
    no_repeats((one.docno for one in release.arguments), "argument id", "argument_id")
    if rule == EXPLICIT:
        return {one.docno: one.docno for one in release.arguments}
    whole = hashlib.blake2b(digest_size=32)
    for one in release.arguments:
        whole.update(repr((one.docno, one.text, sorted(one.profile.items()))).encode("utf-8", "surrogatepass"))

    def hidden(own: str) -> str:
        return hashlib.blake2b(own.encode("utf-8", "surrogatepass"), key=whole.digest(), digest_size=10).hexdigest()

    return {one.docno: hidden(one.docno) for one in release.arguments}


# ---------------------------------------------------------------- by name


def load_scenario(name: str, rule: str, split: str | None = None) -> Scenario:
    """Return a scenario of a data set, such as "perspectivearg-sample", or of a release's folder.

    `split` None is "dev", or the first with queries for this scenario. What is learnt is of the same release; for those
    of 2023 of that of 2019, if it is there.
    """
    if not rule:
        raise InputError(f"name one of its scenarios: {', '.join(f'{name}:{one}' for one in SCENARIOS)}")
    known("scenario", rule, SCENARIOS)
    release, training = load_release(name), None
    if name in DATASETS and not DATASETS[name].shipped and name != _OF_2019:
        with suppress(MissingDataError):  # a system that learns says what it needs
            training = load_release(_OF_2019)
    there = {query.split for query in _queries(release, rule)}
    first = next((one for one in ("dev", "train", "test") if one in there), "dev")
    return open_scenario(release, rule, split or first, training=training)


def load_release(name: str) -> Release:
    """Return a release of PerspectiveArg: a data set, or a folder."""
    one = DATASETS.get(name)
    if one is None or one.reader != "perspectivearg":
        return read_release(Path(name))
    if one.shipped:
        return read_release(shipped(one.shipped))
    return read_release(first_existing(one, candidate_paths(one, one.local), "release").parent, name)


# ---------------------------------------------------------------- predictions files

# Source: the task's published description. One JSON object a line, with the ids of the release:
#     {"query_id": 0, "relevant_candidates": [2019017914, 201904055, …]}
# A run has the docnos of its scenario, which are other ones where profiles are hidden; here one becomes the other.


def write_predictions(path: StrPath, run: pd.DataFrame, scenario: Scenario) -> None:
    """Write a run as a predictions file: queries in the scenario's order, ids as the release has them.

    A query without an answer is left out; the file then needs ``least=0`` to be read.
    """
    run = check_run(run)
    asked = [q.qid for q in scenario.questions]
    for column, what, own in (("qid", "a query", set(asked)), ("docno", "an argument", scenario.ids)):
        if strange := [one for one in run[column].unique() if one not in own]:
            raise InputError(f"{strange[0]!r} is not {what} of {scenario.name!r} ({scenario.split})", field=column)
    as_argument, as_query = (int if are_numbers else str for are_numbers in scenario.release.number_ids)
    lists = run["docno"].groupby(run["qid"], sort=False).agg(list)
    found = ((qid, [as_argument(scenario.ids[docno]) for docno in lists[qid]]) for qid in asked if qid in lists.index)
    write_jsonl(path, ({_QUERY: as_query(qid), RELEVANT: ids} for qid, ids in found))


def read_predictions(path: StrPath, scenario: Scenario, *, least: int = ENOUGH, repeats: str = "error") -> pd.DataFrame:
    """Read a predictions file, gzipped or not, as a run (qid, docno, rank, score) in the scenario's docnos.

    Each query must list `least` different arguments, or all of a smaller corpus; with 0, queries may have no answer. An
    id that is listed twice is an "error", or with `repeats` "once" counts the first time (docs/divergences.md A9).
    """
    known("treatment of repeats", repeats, REPEATS)
    enough = min(least, len(scenario.passages))
    asked = {q.qid for q in scenario.questions}
    docno_of, line_of = scenario.docnos, dict[Any, int]()
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
        lists[qid] = [docno_of[one] for one in found]
    missing = [q.qid for q in scenario.questions if q.qid not in lists]
    if enough and missing:
        problem = f"answers {len(lists)} of {len(asked)} queries of {scenario.split!r}; the first without an answer is"
        raise InputError(f"{problem} {missing[0]!r}", path=path, field=_QUERY)
    return ranked_run(lists)
