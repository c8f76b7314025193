"""Items through the steps of a builder and the automatic checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from berdslib.construction import questions
from berdslib.construction.builders import BUILDERS
from berdslib.construction.checks import duplicates, problems_of
from berdslib.construction.drafts import Draft, Rejection
from berdslib.construction.statements import LABEL
from berdslib.construction.steps import Answers, take
from berdslib.errors import known
from berdslib.llm.prompting import wordings


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
    _, _, making, _, passes = BUILDERS[known("builder", builder, BUILDERS)]
    for step in (*making, None, LABEL):
        items = len(alive)
        if step is None:
            alive, out = _checked(alive, passes) if check else (alive, [])
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


def _checked(drafts: Sequence[Draft], passes: frozenset[str]) -> tuple[list[Draft], list[Rejection]]:
    """Leave out what the automatic checks find fault with, and of questions that are the same all but the first."""
    passed, out = [], []
    for draft in drafts:
        found = problems_of(draft.question, draft.perspectives, sources=(*draft.sources, *draft.options))
        found = [one for one in found if one.reason not in passes]
        if found:
            detail = "; ".join([found[0].detail, *(f"{one.reason}: {one.detail}" for one in found[1:])])
            out.append(Rejection(draft, "checks", found[0].reason, detail))
        else:
            passed.append(draft)
    first = {qid: same[0] for same in duplicates([d.as_question("") for d in passed]) for qid in same[1:]}
    out += [Rejection(d, "checks", questions.TWICE, f"as {first[d.key]!r}") for d in passed if d.key in first]
    return [draft for draft in passed if draft.key not in first], out
