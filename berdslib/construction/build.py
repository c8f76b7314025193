"""A build: raw rows through steps and checks to questions with perspectives, a split, and a folder to share.

Every answer is recorded as soon as it is there, so a build that broke off, or was stopped by its budget, goes on where
it was when it is run again: what is recorded is never asked, or paid, twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.construction import arguana, checks, kialo, opinionqa, questions, statements, steps
from berdslib.construction.checks import duplicates, problems_of
from berdslib.construction.drafts import Draft, Rejection, write_rejections
from berdslib.construction.split import split_questions
from berdslib.construction.statements import LABEL
from berdslib.construction.steps import Answers, ByRule, Step, take
from berdslib.data.collection import Collection
from berdslib.data.own import OwnCard, write_dataset
from berdslib.data.records import Passage
from berdslib.errors import InputError, known
from berdslib.llm.prompting import load_prompt, wordings

EXCHANGES, REJECTED, UNANSWERED = "exchanges.jsonl", "rejected.jsonl", "unanswered.jsonl"


class Builder(NamedTuple):
    """One way from a source to questions.

    Fields: ``title`` in a line; ``read`` turns the raw file into items and those that cannot be used; ``steps`` in
    their order; ``reasons`` for which this source's items are left out, each with its meaning.
    """

    title: str
    read: Callable[[Path], tuple[list[Draft], list[Rejection]]]
    steps: Callable[[], Iterator[Step]]
    reasons: Mapping[str, str]


BUILDERS: Mapping[str, Builder] = {
    "arguana": Builder(
        "points and counter-points → question → statement and negation",
        arguana.read_arguments,
        arguana.steps,
        {**arguana.REASONS, **statements.REASONS},
    ),
    "kialo": Builder(
        "discussions → the statement's opposite, or a statement for each answer",
        kialo.read_discussions,
        kialo.steps,
        {**kialo.REASONS, **statements.REASONS},
    ),
    "opinionqa": Builder(
        "survey questions and options → opinion, not experience → question, yes and no",
        opinionqa.read_survey,
        opinionqa.steps,
        opinionqa.REASONS,
    ),
    "questions": Builder(
        "a plain list of questions → statement and negation, or one statement for each position",
        questions.read_list,
        questions.steps,
        statements.REASONS,
    ),
}


def reasons(builder: str) -> dict[str, str]:
    """Return every reason for which a builder leaves items out, each with what it means.

    Raises:
        InputError: no such builder.
    """
    own = BUILDERS[known("builder", builder, BUILDERS)].reasons
    return {**own, **steps.REASONS, **checks.REASONS, **questions.REASONS}


# ---------------------------------------------------------------- items


def read_items(builder: str, raw: Path, sample: int = 0, seed: int = 0) -> tuple[list[Draft], list[Rejection]]:
    """Read a source, and draw a sample of its items.

    Args:
        builder: one of :data:`BUILDERS`.
        raw: its file or folder.
        sample: how many items, drawn at random and kept in the order of the file; 0 for all.
        seed: of the draw.

    Returns:
        The items, and what cannot be used, which is of the whole source.

    Raises:
        InputError: no such builder, a file that cannot be read, or fewer items than are to be drawn.
    """
    drafts, left_out = BUILDERS[known("builder", builder, BUILDERS)].read(raw)
    if sample < 0 or sample > len(drafts):
        raise InputError(f"a sample of 1 to {len(drafts)} items can be drawn, or 0 for all, not {sample}", path=raw)
    if sample:
        drawn = np.sort(np.random.default_rng(seed).choice(len(drafts), sample, replace=False))
        drafts = [drafts[i] for i in drawn]
    return drafts, left_out


# ---------------------------------------------------------------- steps and checks


class Made(NamedTuple):
    """What the steps made of the items.

    Fields: ``drafts`` finished; ``rejected`` with the reason; ``unanswered`` because the endpoint failed, to be asked
    again in the next run; ``counts`` a frame with a row for each step: step, items, asked, left_out, unanswered.
    """

    drafts: list[Draft]
    rejected: list[Rejection]
    unanswered: list[Rejection]
    counts: pd.DataFrame


def make(
    builder: str, drafts: Sequence[Draft], answers: Answers, wording: str = "ours", *, check: bool = True
) -> Made:
    """Take all items through the steps and checks of a builder, and find out which of two perspectives supports.

    Args:
        builder: one of :data:`BUILDERS`.
        drafts: the items.
        answers: a chat model, the rules, or a rehearsal.
        wording: "ours", or "published" for the papers' prompts where there are some, which the user imports first.
        check: leave out what the automatic checks find fault with; a rehearsal has nothing to check.

    Raises:
        BudgetError: the budget does not cover the next question.
        ChatError: the endpoint refuses.
        MissingDataError: a published wording that has not been imported.
    """
    alive, rejected, unanswered, rows = list(drafts), list[Rejection](), list[Rejection](), []
    for step in (*BUILDERS[known("builder", builder, BUILDERS)].steps(), None, LABEL):
        items = len(alive)
        if step is None:
            alive, out = _checked(alive) if check else (alive, [])
            lost, asked = list[Rejection](), items
        else:
            alive, out, lost, asked = take(step, alive, answers, wording_of(step.task, wording))
        rejected += out
        unanswered += lost
        name = step.name if step else "checks"
        rows.append({"step": name, "items": items, "asked": asked, "left_out": len(out), "unanswered": len(lost)})
    return Made(alive, rejected, unanswered, pd.DataFrame(rows))


def wording_of(task: str, wording: str) -> str:
    """Return which wording of a task's prompt is meant by "ours" or "published"; some tasks have ours only.

    Raises:
        InputError: another wording.
    """
    if known("wording", wording, ("ours", "published")) == "ours":
        return "ours"
    return next((one for one in wordings(task) if one.startswith("table-")), "ours")


def _checked(drafts: Sequence[Draft]) -> tuple[list[Draft], list[Rejection]]:
    """Leave out what the automatic checks find fault with, and of questions that are the same all but the first."""
    passed, out = [], []
    for draft in drafts:
        found = problems_of(draft.question, draft.perspectives, sources=(*draft.sources, *draft.options))
        if found:
            out.append(Rejection(draft, "checks", found[0].reason, "; ".join(one.detail for one in found)))
        else:
            passed.append(draft)
    first = {qid: same[0] for same in duplicates([d.as_question("") for d in passed]) for qid in same[1:]}
    out += [Rejection(d, "checks", questions.TWICE, f"as {first[d.key]!r}") for d in passed if d.key in first]
    return [draft for draft in passed if draft.key not in first], out


# ---------------------------------------------------------------- the whole


class Built(NamedTuple):
    """A finished build: the data set, what was left out, what is still unanswered, and the counts of each step."""

    collection: Collection
    rejected: list[Rejection]
    unanswered: list[Rejection]
    counts: pd.DataFrame


def build(
    builder: str,
    raw: Path,
    folder: Path,
    answers: Answers,
    card: OwnCard,
    *,
    wording: str = "ours",
    sample: int = 0,
    seed: int = 0,
    dev: float = 0.25,
    passages: Sequence[Passage] = (),
) -> Built:
    """Build a data set from a source and write its folder.

    Args:
        builder: one of :data:`BUILDERS`.
        raw: the source's file or folder.
        folder: where the data set goes, with what was left out (`rejected.jsonl`) and what the endpoint could not
            answer (`unanswered.jsonl`); run again, the build asks only for these.
        answers: a chat model, or the rules.
        card: what the data set is; how it was made is added.
        wording: see :func:`make`.
        sample: see :func:`read_items`.
        seed: of the sample and of the split.
        dev: share of development questions; 0 for a data set without splits.
        passages: a corpus to go with it.

    Raises:
        InputError: an unusable source, or nothing is left of it.
        BudgetError, ChatError, MissingDataError: see :func:`make`; what was answered is recorded.
    """
    drafts, unusable = read_items(builder, raw, sample, seed)
    made = make(builder, drafts, answers, wording)
    write_rejections(folder / REJECTED, [*unusable, *made.rejected])
    write_rejections(folder / UNANSWERED, made.unanswered)
    if not made.drafts:
        why = f"{len(made.rejected)} were left out ({folder / REJECTED}) and {len(made.unanswered)} not answered"
        raise InputError(f"nothing is left of {len(drafts)} items: {why}", path=raw)
    found = [draft.as_question(card.name) for draft in made.drafts]
    found = split_questions(found, dev=dev, seed=seed) if dev else found
    counts = pd.concat([_read_row(drafts, unusable), made.counts], ignore_index=True)
    facts = {
        "builder": builder,
        "from": f"{raw.name} (sha256 {_digest(raw)[:16]})",
        "answers": answers.id,
        "prompts": {} if answers.id == ByRule.id else _prompts(builder, wording),
        "items": len(drafts),
        "left_out": _frequent(made.rejected),
        "unanswered": len(made.unanswered),
        "sample": sample,
        "seed": seed,
    }
    told = {name: value for name, value in facts.items() if value or name in ("items", "unanswered")}
    card = replace(card, made={**card.made, **told})
    write_dataset(folder, card, found, passages, origins={d.key: _origin(d) for d in made.drafts})
    return Built(Collection(card.name, found, passages), [*unusable, *made.rejected], made.unanswered, counts)


def _read_row(drafts: Sequence[Draft], unusable: Sequence[Rejection]) -> pd.DataFrame:
    row = {"step": "read", "items": len(drafts) + len(unusable), "asked": 0, "left_out": len(unusable), "unanswered": 0}
    return pd.DataFrame([row])


def _origin(draft: Draft) -> dict[str, object]:
    """Return what a reviewer needs beside the question: the texts that it was made of, and where they are."""
    facts = {"where": draft.where, "texts": draft.sources, "options": draft.options, "documents": draft.documents}
    return {name: value for name, value in facts.items() if value}


def _prompts(builder: str, wording: str) -> dict[str, str]:
    tasks = [step.task for step in (*BUILDERS[builder].steps(), LABEL)]
    return {task: load_prompt(task, wording_of(task, wording)).hash for task in tasks}


def _frequent(rejections: Iterable[Rejection]) -> dict[str, int]:
    return pd.Series([one.reason for one in rejections], dtype=object).value_counts().to_dict()


def _digest(raw: Path) -> str:
    """Return the checksum of a file, or of all the files of a folder."""
    digest = hashlib.sha256()
    for path in sorted(raw.rglob("*")) if raw.is_dir() else [raw]:
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()
