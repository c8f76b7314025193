"""The ways from a source to questions: who reads it, which steps and checks its items take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.construction import arguana, checks, kialo, opinionqa, pipeline, questions, statements
from berdslib.construction.pipeline import Answers, Draft, Passed, Rejection, Step, take
from berdslib.errors import InputError, known
from berdslib.llm.prompting import OURS, wordings

_CHECKS = "checks"


class Builder(NamedTuple):
    """One way from a source to questions.

    Fields: ``title`` in a line; ``read`` turns the raw file into items and those that cannot be used; ``steps`` in
    their order; ``reasons`` for which this source's items are left out, each with its meaning; ``passes`` the reasons
    of the automatic checks that do not count here.
    """

    title: str
    read: Callable[[Path], tuple[list[Draft], list[Rejection]]]
    steps: tuple[Step, ...]
    reasons: Mapping[str, str]
    passes: frozenset[str] = frozenset()


# Of a question that people asked, the form is theirs.
_OF_FORM = frozenset({"not a question", "several sentences", "copied"})

BUILDERS: Mapping[str, Builder] = {
    "arguana": Builder(
        "points and counter-points → question → statement and negation",
        arguana.read_arguments,
        arguana.STEPS,
        {**arguana.REASONS, **statements.REASONS},
    ),
    "kialo": Builder(
        "discussions → the statement's opposite, or a statement for each answer",
        kialo.read_discussions,
        kialo.STEPS,
        {**kialo.REASONS, **statements.REASONS},
        _OF_FORM,
    ),
    "opinionqa": Builder(
        "survey questions and options → opinion, not experience → question, yes and no",
        opinionqa.read_survey,
        opinionqa.STEPS,
        opinionqa.REASONS,
        frozenset({"copied"}),  # it is to keep the survey's words
    ),
    "questions": Builder(
        "a plain list of questions → statement and negation, or one statement for each position",
        questions.read_list,
        questions.STEPS,
        statements.REASONS,
        _OF_FORM,
    ),
}


def reasons(builder: str) -> dict[str, str]:
    """Return every reason for which a builder leaves items out, each with what it means."""
    one = BUILDERS[known("builder", builder, BUILDERS)]
    found = {**one.reasons, **pipeline.REASONS, **checks.REASONS, **questions.REASONS}
    return {reason: meaning for reason, meaning in found.items() if reason not in one.passes}


# ---------------------------------------------------------------- items


class Items(NamedTuple):
    """What a source holds: ``drafts`` drawn from the ``usable`` ones, their number, and what is ``unusable``."""

    drafts: list[Draft]
    usable: int
    unusable: list[Rejection]


def read_items(builder: str, raw: Path, sample: int = 0, seed: int = 0) -> Items:
    """Read a source, and draw a sample of its items, kept in the order of the file; 0 for all."""
    drafts, left_out = BUILDERS[known("builder", builder, BUILDERS)].read(raw)
    if sample > len(drafts):
        raise InputError(f"a sample of 1 to {len(drafts)} items can be drawn, or 0 for all, not {sample}", path=raw)
    drawn = np.sort(np.random.default_rng(seed).choice(len(drafts), sample or len(drafts), replace=False))
    return Items([drafts[i] for i in drawn], len(drafts), left_out)


# ---------------------------------------------------------------- through the steps

COUNTS = ["step", "items", "asked", "left_out", "unanswered"]


class Made(NamedTuple):
    """What the steps made of the items.

    Fields: ``drafts`` finished; ``rejected`` with the reason; ``unanswered`` because the endpoint failed, to be asked
    again in the next run; ``counts`` a frame with a row for each step: step, items, asked, left_out, unanswered.
    """

    drafts: list[Draft]
    rejected: list[Rejection]
    unanswered: list[Rejection]
    counts: pd.DataFrame


def make(builder: str, drafts: Sequence[Draft], answers: Answers, wording: str = "ours", *, check: bool = True) -> Made:
    """Take all items through the steps and checks of a builder, and find out which of two perspectives supports.

    `wording` is "ours", or "published" for the papers' prompts where there are some. A rehearsal has nothing to check.
    """
    one = BUILDERS[known("builder", builder, BUILDERS)]
    given = {draft.key for draft in drafts if draft.stances}  # what people said of their own perspectives stands
    label = replace(statements.LABEL, applies=lambda draft: draft.key not in given and statements.LABEL.applies(draft))
    alive, passes = list(drafts), list[tuple[str, Passed]]()
    for step in (*one.steps, None, label):
        if step is not None:
            passed = take(step, alive, answers, wording_of(step.task, wording))
        else:  # what has been made is checked before more is asked about it
            passed = _checked(alive, one.passes) if check else Passed(alive, [], [], len(alive))
        passes.append((step.name if step else _CHECKS, passed))
        alive = passed.drafts
    rows = [
        (name, len(p.drafts) + len(p.rejected) + len(p.unanswered), p.asked, len(p.rejected), len(p.unanswered))
        for name, p in passes
    ]
    rejected = [one for _, passed in passes for one in passed.rejected]
    unanswered = [one for _, passed in passes for one in passed.unanswered]
    return Made(alive, rejected, unanswered, pd.DataFrame(rows, columns=COUNTS))


def wording_of(task: str, wording: str) -> str:
    """Return which wording of a task's prompt is meant by one of ours or "published"; some tasks have ours only."""
    if known("wording", wording, (*OURS, "published")) in OURS:
        return wording
    return next((one for one in wordings(task) if one.startswith("table-")), "ours")


def _checked(drafts: Sequence[Draft], passes: frozenset[str]) -> Passed:
    """Leave out what the automatic checks find fault with, but for reasons that pass, and questions that come again."""
    passed, out = [], []
    for draft in drafts:
        found = checks.problems_of(draft.question, draft.perspectives, sources=(*draft.sources, *draft.options))
        found = [one for one in found if one.reason not in passes]
        if found:
            detail = "; ".join([found[0].detail, *(f"{one.reason}: {one.detail}" for one in found[1:])])
            out.append(Rejection(draft, _CHECKS, found[0].reason, detail))
        else:
            passed.append(draft)
    first = {qid: same[0] for same in checks.duplicates([d.as_question("") for d in passed]) for qid in same[1:]}
    out += [Rejection(d, _CHECKS, questions.TWICE, f"as {first[d.key]!r}") for d in passed if d.key in first]
    return Passed([draft for draft in passed if draft.key not in first], out, [], len(drafts))
