"""The steps of a build: each step prompts for the remaining items of a source and updates them from the answers."""

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
    """An item of the source, with the question and perspectives generated so far.

    ``key`` becomes the question's id; ``where`` is its file and line; ``sources`` are the texts behind it,
    ``documents`` their ids; ``options`` are the answers that the source offers.
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
    """Return the id of a row; a row without an id gets one from the file name and the line."""
    return row.text(*names) if row.has(*names) else f"{path.name.partition('.')[0]}-{line}"


class Rejection(NamedTuple):
    """A rejected item, with the ``step`` that rejected it, the ``reason`` (a short name) and the ``detail``."""

    draft: Draft
    step: str
    reason: str
    detail: str

    def as_row(self) -> dict[str, Any]:
        """Return the rejection as a row to write, with all filled fields of the item."""
        made = {name: value for name, value in self.draft._asdict().items() if value}
        return {"step": self.step, "reason": self.reason, "detail": self.detail, **made}


class Rejected(Exception):  # noqa: N818 - not an error: the answer could be read and rejects the item
    """Raised by a step to reject its item; with `ask_again`, the model gets a second chance first."""

    def __init__(self, reason: str, detail: str, *, ask_again: bool = False) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.ask_again = ask_again


@dataclass(frozen=True)
class Step:
    """One step of a build.

    Args:
        name: the step's name in counts and rejections.
        task: the task of the prompt, one of :data:`berdslib.llm.prompting.TASKS`.
        values: returns the prompt's values for an item: placeholder → source text, which is untrusted.
        read: returns the updated item, given the item and the answer; raises InputError for an unreadable answer and
            Rejected for an answer that rules the item out.
        by_rule: returns the answer of a rule, None if no rule is sure.
        usual: returns an answer of usual length in the requested form, which a rehearsal uses for missing answers.
        applies: returns whether an item takes this step; other items skip it.
        optional: keep an item unchanged if its answer is unreadable or no rule answers.
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
        """Return the request for an item; its texts cannot close the tags around them."""
        return prompt.about(**self.values(draft))


# ---------------------------------------------------------------- who answers


class Answers(Protocol):
    """A source of answers for a step's items: a chat model, the rules, or a rehearsal."""

    id: str

    def __call__(self, step: Step, drafts: Sequence[Draft], asked: Sequence[Messages], /) -> list[Answer]:
        """Return an answer for each item, in the same order."""
        ...


class ByChat:
    """Answers from a chat model, with concurrent requests; a failed request affects only its own item."""

    def __init__(self, chat: ChatModel, workers: int = 4) -> None:
        self.chat = chat
        self.workers = workers
        self.id = chat.id
        self._proven = False  # after one readable answer, unreadable answers no longer suggest an unusable model

    def __call__(self, step: Step, _: Sequence[Draft], asked: Sequence[Messages], /) -> list[Answer]:
        """Send a request for each item and return the answers."""
        answers = ask_all(self.chat, asked, proven=self._proven, workers=self.workers, desc=step.name)
        self._proven = self._proven or any(answer.reply and not answer.unread for answer in answers)
        return answers


class ByRule:
    """Answers from the rules, for items where a rule is sure."""

    id = "rule"

    def __call__(self, step: Step, drafts: Sequence[Draft], _: Sequence[Messages], /) -> list[Answer]:
        """Apply the step's rule to each item."""
        texts = [step.by_rule(draft) for draft in drafts]
        return [Answer(None, NO_RULE) if text is None else Answer(Reply(text)) for text in texts]


class Rehearsal:
    """Sends no requests: returns recorded answers, and counts missing answers and replaces them by usual ones."""

    def __init__(self, chat: ChatModel, recorded: Path) -> None:
        self.id = chat.id
        self._recorded = Recorded(recorded, model_id=chat.id) if recorded.is_file() else None
        self._rows: list[tuple[str, int, int, int]] = []

    def __call__(self, step: Step, drafts: Sequence[Draft], asked: Sequence[Messages], /) -> list[Answer]:
        """Return an answer for each item, and count the missing answers."""
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
        """Return the requests still to send in each step, without second attempts; the last row is "all"."""
        counts = ["recorded", "to_ask", "most_prompt_tokens"]
        table = pd.DataFrame(self._rows, columns=["step", *counts])
        table.loc[len(table)] = ["all", *table[counts].sum()]
        return table


# ---------------------------------------------------------------- a step


class Passed(NamedTuple):
    """The result of one or more steps; the next run asks about the ``unanswered`` items again.

    ``counts`` holds, for each step, its name and the numbers of items that arrived, took it, were rejected and were
    left unanswered.
    """

    drafts: list[Draft]
    rejected: list[Rejection]
    unanswered: list[Rejection]
    counts: list[tuple[str, int, int, int, int]]

    def then(self, later: Passed) -> Passed:
        """Return the combined result of these steps and a later one."""
        rejected = self.rejected + later.rejected
        return Passed(later.drafts, rejected, self.unanswered + later.unanswered, self.counts + later.counts)


Outcome = Draft | Rejection | Rejected  # an item that continues, a rejected item, or an answer to send back


def take(step: Step, drafts: Sequence[Draft], answers: Answers, wording: str = "ours") -> Passed:
    """Take a step with all items that it applies to; an unreadable answer is sent back once."""
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
    """Return item position → the outcome of its answer, and the answer's text."""
    if not asked:
        return {}
    given = answers(step, [drafts[place] for place in asked], list(asked.values()))
    return {
        place: (_outcome(step, drafts[place], answer), answer.reply.text if answer.reply else "")
        for place, answer in zip(asked, given, strict=True)
    }


def _outcome(step: Step, draft: Draft, answer: Answer) -> Outcome:
    """Return the item updated from its answer, its rejection, or the reason to send the answer back."""
    reply = answer.reply
    if reply is None and answer.problem == NO_RULE:
        way_out = "a chat model is needed, or the question's perspectives in a table for the builder `questions`"
        return _left_out(step, draft, NO_RULE, way_out)
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
    """Return the conversation so far, extended by the unreadable answer and a request to answer again."""
    plea = f"That answer cannot be read: {problem}. Answer once more, and only in the form that was asked for."
    said = answer.strip() or "(no answer)"  # some endpoints refuse an empty turn
    turns = [*messages, {"role": "assistant", "content": said}, {"role": "user", "content": plea}]
    return Request(turns, getattr(messages, "form", None))
