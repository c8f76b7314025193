"""A build step by step: items of a source, a prompt for each that is still in, and what its answer makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pandas as pd

from berdslib.data.records import Question
from berdslib.data.tables import Row
from berdslib.errors import InputError, MissingDataError
from berdslib.llm.asking import Answer, ask_all
from berdslib.llm.chat import ChatModel, Messages, Reply, Request
from berdslib.llm.prompting import TASKS, Prompt, load_prompt
from berdslib.llm.recorded import Recorded

UNREADABLE = "unreadable answer"
NO_RULE = "no rule"
REFUSED = "refused"
UNANSWERED = "unanswered"


class Draft(NamedTuple):
    """An item of the source, and what has been made of it so far.

    ``key`` becomes the question's id; ``where`` is its file and line; ``sources`` are the texts that it is made of,
    ``documents`` their ids; ``options`` the answers that the source offers.
    """

    key: str
    where: str = ""
    question: str = ""
    perspectives: tuple[str, ...] = ()
    stances: tuple[str | None, ...] = ()
    sources: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    split: str = ""

    def as_question(self, source: str) -> Question:
        """Return the question that was made of it."""
        stances = self.stances or (None,) * len(self.perspectives)
        return Question(self.key, self.question, self.perspectives, stances, source, self.split)


def key_of(row: Row, names: Sequence[str], path: Path, line: int) -> str:
    """Return the id of a row, or one made of the file and the line where it has none."""
    return row.text(*names) if row.has(*names) else f"{path.name.partition('.')[0]}-{line}"


class Rejection(NamedTuple):
    """An item that was left out: by which ``step``, for which ``reason`` (a short name), and the ``detail`` of it."""

    draft: Draft
    step: str
    reason: str
    detail: str

    def as_row(self) -> dict[str, Any]:
        """Return what is written of it, the item with all that had been made."""
        made = {name: value for name, value in self.draft._asdict().items() if value}
        return {"step": self.step, "reason": self.reason, "detail": self.detail, **made}


class Rejected(Exception):  # noqa: N818 - not an error: the answer was read, and speaks against the item
    """Raised by a step that leaves its item out; with `ask_again`, only a second answer like this one counts."""

    def __init__(self, reason: str, detail: str, *, ask_again: bool = False) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.ask_again = ask_again


@dataclass(frozen=True)
class Step:
    """One step of a build.

    Args:
        name: what it is called in counts and rejections.
        task: whose prompt is asked, one of :data:`berdslib.llm.prompting.TASKS`.
        values: what fills the prompt for an item: placeholder → text of the source, which is untrusted.
        read: from an item and the answer to the item after the step; raises InputError for what cannot be read, and
            Rejected for what speaks against the item.
        by_rule: the answer that a rule gives, None where no rule is sure.
        usual: an answer of usual length, in the form asked for; what a rehearsal goes on with.
        applies: which items take this step; the others pass by.
        optional: an item whose answer cannot be read, or that no rule answers, goes on as it is.
    """

    name: str
    task: str
    values: Callable[[Draft], dict[str, str]]
    read: Callable[[Draft, str], Draft]
    by_rule: Callable[[Draft], str | None]
    usual: Callable[[Draft], str]
    applies: Callable[[Draft], bool] = field(default=lambda _: True)
    optional: bool = False

    def messages(self, draft: Draft, prompt: Prompt) -> Request:
        """Return what is asked for an item; its texts cannot close the tags that they stand between."""
        return prompt.about(**self.values(draft))


# ---------------------------------------------------------------- who answers


class Answers(Protocol):
    """Answers a step for several items: a chat model, the rules, or a rehearsal."""

    id: str

    def __call__(self, step: Step, drafts: Sequence[Draft], asked: Sequence[Messages], /) -> list[Answer]:
        """Return an answer for each item, in their order."""
        ...


class ByChat:
    """Answers from a chat model, several at a time; what the endpoint could not answer is that item's problem."""

    def __init__(self, chat: ChatModel, workers: int = 4) -> None:
        self.chat = chat
        self.workers = workers
        self.id = chat.id
        self._proven = False  # whether an answer was read already, so that others are unread for what is asked

    def __call__(self, step: Step, _: Sequence[Draft], asked: Sequence[Messages], /) -> list[Answer]:
        """Ask for each item."""
        answers = ask_all(self.chat, asked, proven=self._proven, workers=self.workers, desc=step.name)
        self._proven = self._proven or any(answer.reply and not answer.unread for answer in answers)
        return answers


class ByRule:
    """Answers from the rules, where there is one that is sure."""

    id = "rule"

    def __call__(self, step: Step, drafts: Sequence[Draft], _: Sequence[Messages], /) -> list[Answer]:
        """Apply the step's rule to each item."""
        texts = [step.by_rule(draft) for draft in drafts]
        return [Answer(None, NO_RULE) if text is None else Answer(Reply(text)) for text in texts]


class Rehearsal:
    """Asks nobody: recorded answers, and an answer of usual length in place of each missing one, which it counts."""

    def __init__(self, chat: ChatModel, recorded: Path) -> None:
        self.id = chat.id
        self._recorded = Recorded(recorded, model_id=chat.id) if recorded.is_file() else None
        self._rows: list[tuple[str, int, int, int]] = []

    def __call__(self, step: Step, drafts: Sequence[Draft], asked: Sequence[Messages], /) -> list[Answer]:
        """Return an answer for each item, and count the missing ones."""
        answers = []
        missing = 0
        tokens = 0
        for draft, messages in zip(drafts, asked, strict=True):
            reply = None
            with suppress(MissingDataError):
                reply = self._recorded.complete(messages) if self._recorded else None
            if reply is None:
                missing += 1
                # a token has at least one byte
                tokens += sum(len(message["content"].encode("utf-8", "replace")) for message in messages)
            answers.append(Answer(reply or Reply(step.usual(draft))))
        self._rows.append((step.name, len(asked) - missing, missing, tokens))
        return answers

    def table(self) -> pd.DataFrame:
        """Return what is left to ask in each step, if nothing is asked again; the last row is "all"."""
        counts = ["recorded", "to_ask", "most_prompt_tokens"]
        table = pd.DataFrame(self._rows, columns=["step", *counts])
        table.loc[len(table)] = ["all", *table[counts].sum()]
        return table


# ---------------------------------------------------------------- a step


class Passed(NamedTuple):
    """What came of one step or several; ``unanswered`` ones are asked again in the next run.

    ``counts`` holds each step's name and how many items there were, took it, were left out, were unanswered.
    """

    drafts: list[Draft]
    rejected: list[Rejection]
    unanswered: list[Rejection]
    counts: list[tuple[str, int, int, int, int]]

    def then(self, later: Passed) -> Passed:
        """Return what came of all steps up to a later one."""
        rejected = self.rejected + later.rejected
        return Passed(later.drafts, rejected, self.unanswered + later.unanswered, self.counts + later.counts)


Outcome = Draft | Rejection | Rejected  # an item that goes on, one that is out, and an answer to be sent back


def take(step: Step, drafts: Sequence[Draft], answers: Answers, wording: str = "ours") -> Passed:
    """Take a step with all items that it applies to; an answer that cannot be read is sent back, once."""
    prompt = load_prompt(step.task, wording, needs=TASKS[step.task], asked=answers.id)
    asked: dict[int, Messages] = {
        place: step.messages(draft, prompt) for place, draft in enumerate(drafts) if step.applies(draft)
    }
    found: dict[int, Draft | Rejection] = dict(enumerate(drafts))
    again: dict[int, Messages] = {}
    for place, (outcome, text) in _asked(step, drafts, asked, answers).items():
        if isinstance(outcome, Rejected):
            again[place] = _sent_back(asked[place], text, outcome.detail)
        else:
            found[place] = outcome
    for place, (outcome, text) in _asked(step, drafts, again, answers).items():
        if isinstance(outcome, Rejected):
            detail = f"{outcome.detail}; the answer begins {text[:80]!r}"
            outcome = _left_out(step, drafts[place], outcome.reason, detail)
        found[place] = outcome
    out = [outcome for outcome in found.values() if isinstance(outcome, Rejection)]
    unanswered = [rejection for rejection in out if rejection.reason == UNANSWERED]
    rejected = [rejection for rejection in out if rejection.reason != UNANSWERED]
    counts = (step.name, len(drafts), len(asked), len(rejected), len(unanswered))
    return Passed([draft for draft in found.values() if isinstance(draft, Draft)], rejected, unanswered, [counts])


def _asked(
    step: Step, drafts: Sequence[Draft], asked: Mapping[int, Messages], answers: Answers
) -> dict[int, tuple[Outcome, str]]:
    """Return, by an item's place, what its answer makes of it, and the answer."""
    if not asked:
        return {}
    given = answers(step, [drafts[place] for place in asked], list(asked.values()))
    return {
        place: (_outcome(step, drafts[place], answer), answer.reply.text if answer.reply else "")
        for place, answer in zip(asked, given, strict=True)
    }


def _outcome(step: Step, draft: Draft, answer: Answer) -> Outcome:
    """Return what an answer makes of an item, or why it is to be sent back."""
    reply = answer.reply
    if reply is None and answer.problem == NO_RULE:
        return _left_out(step, draft, NO_RULE, "a chat model is needed")
    if reply is None and not answer.unread:
        return Rejection(draft, step.name, UNANSWERED, answer.problem)
    if reply is None or reply.finish in ("content_filter", "refusal"):
        return _left_out(step, draft, REFUSED, answer.problem)
    if reply.finish == "length":
        return Rejected(UNREADABLE, "it was cut off at the most tokens that an answer may have")
    if answer.unread:
        return Rejected(UNREADABLE, answer.problem)
    try:
        return step.read(draft, reply.text)
    except Rejected as why:
        return why if why.ask_again else Rejection(draft, step.name, why.reason, why.detail)
    except InputError as error:
        return Rejected(UNREADABLE, error.problem)


def _left_out(step: Step, draft: Draft, reason: str, detail: str) -> Draft | Rejection:
    return draft if step.optional else Rejection(draft, step.name, reason, detail)


def _sent_back(messages: Messages, answer: str, problem: str) -> Request:
    """Return the conversation so far, and that its answer could not be read."""
    plea = f"That answer cannot be read: {problem}. Answer once more, and only in the form that was asked for."
    said = answer.strip() or "(no answer)"  # some endpoints refuse an empty turn
    turns = [*messages, {"role": "assistant", "content": said}, {"role": "user", "content": plea}]
    return Request(turns, getattr(messages, "form", None))
