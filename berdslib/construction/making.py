"""Items through the steps of a builder and the automatic checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from berdslib.construction import questions
from berdslib.construction.builders import BUILDERS
from berdslib.construction.checks import duplicates, problems_of
from berdslib.construction.drafts import Draft, Rejection
from berdslib.construction.statements import LABEL
from berdslib.construction.steps import Answers, Passed, take
from berdslib.errors import known
from berdslib.llm.prompting import wordings

_CHECKS = "checks"


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
    one = BUILDERS[known("builder", builder, BUILDERS)]
    given = {draft.key for draft in drafts if draft.stances}  # what people said of their own perspectives stands
    label = replace(LABEL, applies=lambda draft: draft.key not in given and LABEL.applies(draft))
    alive, passes = list(drafts), list[tuple[str, Passed]]()
    for step in (*one.steps, None, label):
        if step is not None:
            passed = take(step, alive, answers, wording_of(step.task, wording))
        else:  # what has been made is checked before more is asked about it
            passed = _checked(alive, one.passes) if check else Passed(alive, [], [], len(alive))
        passes.append((step.name if step else _CHECKS, passed))
        alive = passed.drafts
    rows = [
        {
            "step": name,
            "items": len(passed.drafts) + len(passed.rejected) + len(passed.unanswered),
            "asked": passed.asked,
            "left_out": len(passed.rejected),
            "unanswered": len(passed.unanswered),
        }
        for name, passed in passes
    ]
    rejected = [one for _, passed in passes for one in passed.rejected]
    unanswered = [one for _, passed in passes for one in passed.unanswered]
    return Made(alive, rejected, unanswered, pd.DataFrame(rows))


def wording_of(task: str, wording: str) -> str:
    """Return which wording of a task's prompt is meant by "ours" or "published"; some tasks have ours only.

    Raises:
        InputError: another wording.
    """
    if known("wording", wording, ("ours", "published")) == "ours":
        return "ours"
    return next((one for one in wordings(task) if one.startswith("table-")), "ours")


def _checked(drafts: Sequence[Draft], passes: frozenset[str]) -> Passed:
    """Leave out what the automatic checks find fault with, and of questions that are the same all but the first.

    Args:
        drafts: the items.
        passes: reasons that do not count here.
    """
    passed, out = [], []
    for draft in drafts:
        found = problems_of(draft.question, draft.perspectives, sources=(*draft.sources, *draft.options))
        found = [one for one in found if one.reason not in passes]
        if found:
            detail = "; ".join([found[0].detail, *(f"{one.reason}: {one.detail}" for one in found[1:])])
            out.append(Rejection(draft, _CHECKS, found[0].reason, detail))
        else:
            passed.append(draft)
    first = {qid: same[0] for same in duplicates([d.as_question("") for d in passed]) for qid in same[1:]}
    out += [Rejection(d, _CHECKS, questions.TWICE, f"as {first[d.key]!r}") for d in passed if d.key in first]
    return Passed([draft for draft in passed if draft.key not in first], out, [], len(drafts))
