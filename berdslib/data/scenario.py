"""The three scenarios of PerspectiveArg as objects that enforce their rule.

========== ================================ =============================
scenario   of a query a system sees         of an argument it sees
========== ================================ =============================
baseline   the text                         the text
explicit   the text and the properties      the text and the profile
implicit   the text and the properties      the text
========== ================================ =============================

A :class:`Scenario` is a collection and belongs to whoever measures: it knows profiles and answers. A system is handed
its :attr:`Scenario.handout`, which holds no more than the rule allows. Where profiles are hidden, docnos are too: they
are made from the ids of the release by a key that only somebody who has the profiles can compute, and passages are in
the order of these docnos, so that neither tells anything. Which answers belong to which query is never handed out but
for the training split.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from berdslib.data.arguments import AUTHOR, READER, SPLITS, ArgumentQuery, Profile, Release, in_words
from berdslib.data.collection import Collection
from berdslib.data.records import Passage, Question, make_verdicts, no_repeats
from berdslib.errors import InputError, known

BASELINE, EXPLICIT, IMPLICIT = "baseline", "explicit", "implicit"
SCENARIOS = (BASELINE, EXPLICIT, IMPLICIT)


class OfAuthors(dict[str, Any]):
    """What tells of authors: docno → profile, or → id in the release. Systems that may not see it are not sent it."""


@dataclass(frozen=True, eq=False, repr=False)
class Handout(Collection):
    """What a system may see: a collection, and as much of the profiles as the rule allows.

    Args:
        rule: "baseline", "explicit" or "implicit".
        asked: qid → the properties that a query names; none in the baseline.
        profiles: docno → its author's profile; None where the rule hides them.
        training: the training split with its answers (``gold``) and by the same rule; None where there is none.
        ranked_for: whose properties queries name, "author" or "reader".
    """

    rule: str = BASELINE
    asked: Mapping[str, Profile] = field(default_factory=dict)
    profiles: Mapping[str, Profile] | None = None
    training: Handout | None = None
    ranked_for: str = AUTHOR

    @property
    def hides_profiles(self) -> bool:
        """Whether the rule keeps authors' profiles from systems."""
        return self.profiles is None


@dataclass(frozen=True, eq=False, repr=False)
class Scenario(Handout):
    """A split of a release under a rule, as whoever measures holds it; :func:`open_scenario` makes it.

    Args:
        release: where it is from.
        split: "train", "dev" or "test".
        authors: docno → its author's profile, whatever the rule: what fairness is measured by.
        ids: docno → id in the release.
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
    """Return a split of a release under the rule of a scenario.

    Args:
        release: arguments and queries.
        rule: "baseline", "explicit" or "implicit".
        split: "train", "dev" or "test".
        training: the release whose training split systems may learn from; None for the same. Nothing is learnt from
            the split that is scored.

    Raises:
        InputError: an unknown scenario or split, a split without queries, or one in which the answers to some queries
            are known and to others not; an argument that is there twice, or an answer that is none of the arguments; an
            issue that is scored and in the training split.
    """
    known("scenario", rule, SCENARIOS)
    known("split", split, SPLITS)
    queries = _queries(release, rule, split)
    if not queries:
        kind = "baseline" if rule == BASELINE else "perspective"
        there = ", ".join(sorted({q.split for q in _queries(release, rule)})) or "none"
        problem = f"release {release.name!r} has no {kind} queries of the split {split!r}; there are: {there}"
        raise InputError(problem, field="split")
    source = release if training is None else training
    learnable = (source is not release or split != "train") and bool(_queries(source, rule, "train"))
    docno_of = _docnos(release, rule)
    passages = _passages(release, docno_of)
    lessons = None
    if learnable:
        same = source is release
        _check_apart(queries, _queries(source, rule, "train"), source.name)
        theirs = docno_of if same else _docnos(source, rule)
        lessons = _handout(source, rule, "train", theirs, passages if same else _passages(source, theirs))
    shown = _handout(release, rule, split, docno_of, passages, lessons)
    return Scenario(
        shown.name,
        shown.questions,
        shown.passages,
        shown.gold,
        rule=rule,
        asked=shown.asked,
        profiles=shown.profiles,
        training=lessons,
        ranked_for=shown.ranked_for,
        release=release,
        split=split,
        authors=OfAuthors({docno_of[one.docno]: one.profile for one in release.arguments}),
        ids=OfAuthors({docno: own for own, docno in docno_of.items()}),
    )


def _check_apart(scored: Sequence[ArgumentQuery], learnt: Sequence[ArgumentQuery], source: str) -> None:
    """Refuse to learn on an issue that is scored: its answers would be known."""
    if shared := {q.text for q in scored} & {q.text for q in learnt}:
        problem = f"{len(shared)} of the issues that are scored are in the training split of {source!r}, too"
        raise InputError(f"{problem}; nothing may be learnt from what is scored", field="training")


def _handout(
    release: Release,
    rule: str,
    split: str,
    docno_of: Mapping[str, str],
    passages: Sequence[Passage],
    training: Handout | None = None,
) -> Handout:
    """Return a split by its rule, with its answers where they are known."""
    queries = _queries(release, rule, split)
    source = f"{release.name} (synthetic)" if release.synthetic else release.name
    answers = _answers(queries, docno_of)
    return Handout(
        f"{release.name}:{rule}",
        [_question(q, source) for q in queries],
        passages,
        None if answers is None else make_verdicts(answers, "gold"),
        rule=rule,
        asked={q.qid: dict(q.asked) for q in queries if q.asked},
        profiles=OfAuthors({one.docno: one.profile for one in release.arguments}) if rule == EXPLICIT else None,
        training=training,
        ranked_for=release.ranked_for,
    )


def _answers(
    queries: Sequence[ArgumentQuery], docno_of: Mapping[str, str]
) -> list[tuple[str, int, str, float, bool]] | None:
    """Return the rows of the gold verdicts; None where the answers are kept back."""
    without = [q.qid for q in queries if q.relevant is None]
    if without and len(without) < len(queries):
        problem = f"{len(without)} of {len(queries)} queries have no answers, the first is {without[0]!r}"
        raise InputError(f"{problem}; all queries of a split have some, or none has", field="relevant_candidates")
    pairs = [(q.qid, own) for q in queries for own in q.relevant or ()]
    if stray := next((pair for pair in pairs if pair[1] not in docno_of), None):
        raise InputError(f"{stray[1]!r}, an answer to {stray[0]!r}, is not in the corpus", field="relevant_candidates")
    return None if without else [(qid, 0, docno_of[own], 1.0, True) for qid, own in pairs]


def _queries(release: Release, rule: str, split: str | None = None) -> list[ArgumentQuery]:
    queries = release.baseline if rule == BASELINE else release.perspective
    return [q for q in queries if split in (None, q.split)]


def _question(query: ArgumentQuery, source: str) -> Question:
    """Return a query as a question with one perspective: what an argument must be to answer it."""
    wanted = in_words(query.asked)
    if not wanted:
        return Question(query.qid, query.text, (query.text,), (None,), source, query.split)
    return Question(query.qid, query.text, (wanted,), (None,), source, query.split, labels=(wanted,))


def _passages(release: Release, docno_of: Mapping[str, str]) -> tuple[Passage, ...]:
    # By docno: the order of the release might go by author. The issue and the stance are labels, not text.
    passages = [Passage(docno_of[one.docno], one.text) for one in release.arguments]
    return tuple(sorted(passages))


def _docnos(release: Release, rule: str) -> dict[str, str]:
    """Return id → docno. Where profiles are hidden, it takes the whole release, profiles and all, to compute it."""
    no_repeats((one.docno for one in release.arguments), "argument id", "argument_id")
    if rule == EXPLICIT:
        return {one.docno: one.docno for one in release.arguments}
    whole = hashlib.blake2b(digest_size=32)
    for one in release.arguments:
        profile = sorted((name, values) for name, values in one.profile.items())
        whole.update(repr((one.docno, one.text, profile)).encode("utf-8", "surrogatepass"))
    key = whole.digest()
    return {
        one.docno: hashlib.blake2b(one.docno.encode("utf-8", "surrogatepass"), key=key, digest_size=10).hexdigest()
        for one in release.arguments
    }
