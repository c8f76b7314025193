"""The ways from a source to questions: who reads it, and which steps its items take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from berdslib.construction import arguana, checks, kialo, opinionqa, questions, statements, steps
from berdslib.construction.drafts import Draft, Rejection
from berdslib.construction.steps import Step
from berdslib.errors import InputError, known


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
    """Return every reason for which a builder leaves items out, each with what it means.

    Raises:
        InputError: no such builder.
    """
    one = BUILDERS[known("builder", builder, BUILDERS)]
    found = {**one.reasons, **steps.REASONS, **checks.REASONS, **questions.REASONS}
    return {reason: meaning for reason, meaning in found.items() if reason not in one.passes}


# ---------------------------------------------------------------- items


class Items(NamedTuple):
    """What a source holds: ``drafts`` drawn from the ``usable`` ones, their number, and what is ``unusable``."""

    drafts: list[Draft]
    usable: int
    unusable: list[Rejection]


def read_items(builder: str, raw: Path, sample: int = 0, seed: int = 0) -> Items:
    """Read a source, and draw a sample of its items.

    Args:
        builder: one of :data:`BUILDERS`.
        raw: its file or folder.
        sample: how many items, drawn at random and kept in the order of the file; 0 for all.
        seed: of the draw.

    Raises:
        InputError: no such builder, a file that cannot be read, or fewer items than are to be drawn.
    """
    drafts, left_out = BUILDERS[known("builder", builder, BUILDERS)].read(raw)
    if sample > len(drafts):
        raise InputError(f"a sample of 1 to {len(drafts)} items can be drawn, or 0 for all, not {sample}", path=raw)
    drawn = np.sort(np.random.default_rng(seed).choice(len(drafts), sample or len(drafts), replace=False))
    return Items([drafts[i] for i in drawn], len(drafts), left_out)
