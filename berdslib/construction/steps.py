"""The steps of a build: a prompt for each item that is still in, and what its answer makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from berdslib.construction.drafts import Draft, Rejected, Rejection
from berdslib.errors import InputError
from berdslib.llm.asking import Answer, ask_all
from berdslib.llm.chat import ChatModel, Messages, Reply
from berdslib.llm.prompting import TASKS, Prompt, load_prompt

Thing = TypeVar("Thing")
UNREADABLE, NO_RULE, REFUSED, UNANSWERED = "unreadable answer", "no rule", "refused", "unanswered"
REASONS = {
    UNREADABLE: "Not even when asked again did the model answer in the form that was asked for.",
    REFUSED: "The endpoint does not take what was asked, as with a filter of contents or a text that is too long.",
    NO_RULE: "No rule makes this step of the item; a chat model can.",
}


@dataclass(frozen=True)
class Step:
    """One step of a build.

    Args:
        name: what it is called in counts and rejections.
        task: whose prompt is asked, one of :data:`berdslib.llm.prompting.TASKS`.
        values: what fills the prompt for an item: placeholder → text of the source, which is untrusted.
        read: makes of an item and the answer the item after the step. Raises InputError where the answer cannot be
            read, and Rejected where it speaks against the item.
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

    def messages(self, draft: Draft, prompt: Prompt) -> list[dict[str, str]]:
        """Return what is asked for an item; its texts cannot close the tags that they stand between."""
        return prompt.about(**self.values(draft))


class Answers(Protocol):
    """Answers a step for several items: a chat model, the rules, or a rehearsal of either."""

    id: str

    def __call__(self, step: Step, drafts: Sequence[Draft], asked: Sequence[Messages], /) -> list[Answer]:
        """Return an answer for each item, in their order."""
        ...


class ByChat:
    """Answers from a chat model, several at a time.

    Args:
        chat: who answers.
        workers: requests in flight at a time.
    """

    def __init__(self, chat: ChatModel, workers: int = 4) -> None:
        self.chat, self.workers, self.id = chat, workers, chat.id

    def __call__(self, step: Step, _: Sequence[Draft], asked: Sequence[Messages], /) -> list[Answer]:
        """Ask for each item; what the endpoint could not answer this time is that item's problem."""
        return ask_all(self.chat, asked, workers=self.workers, desc=step.name)


class ByRule:
    """Answers from the rules, where there is one that is sure."""

    id = "rule"

    def __call__(self, step: Step, drafts: Sequence[Draft], _: Sequence[Messages], /) -> list[Answer]:
        """Apply the step's rule to each item."""
        said = (step.by_rule(draft) for draft in drafts)
        return [Answer(None, NO_RULE) if one is None else Answer(Reply(one), "") for one in said]


class Passed(NamedTuple):
    """What came of a step: items still in, items left out, items without an answer, and how many took the step."""

    drafts: list[Draft]
    rejected: list[Rejection]
    unanswered: list[Rejection]
    asked: int


def take(step: Step, drafts: Sequence[Draft], answers: Answers, wording: str = "ours") -> Passed:
    """Take a step with all items.

    An answer that cannot be read is sent back once, with what was wrong with it; the second one counts.

    Args:
        step: the step.
        drafts: items; those that it does not apply to pass unchanged.
        answers: who answers.
        wording: of the prompt.

    Raises:
        BudgetError: the budget does not cover the next question; what was answered is recorded.
        ChatError: the endpoint refuses.
        MissingDataError: the wording has not been imported.
    """
    prompt = load_prompt(step.task, wording, needs=TASKS[step.task])
    turn = {i: step.messages(d, prompt) for i, d in enumerate(drafts) if step.applies(d)}
    found = _Found({i: d for i, d in enumerate(drafts) if i not in turn}, {}, {})
    asked = len(turn)
    again = _read_all(step, drafts, turn, answers, found)
    turn = {i: _sent_back(turn[i], text, why.detail) for i, (text, why) in again.items()}
    for i, (text, why) in _read_all(step, drafts, turn, answers, found).items():
        found.leave_out(i, step, drafts[i], why.reason, f"{why.detail}; the answer begins {text[:80]!r}")
    return Passed(_in_order(found.done), _in_order(found.rejected), _in_order(found.unanswered), asked)


class _Found(NamedTuple):
    """What became of each item, by its place."""

    done: dict[int, Draft]
    rejected: dict[int, Rejection]
    unanswered: dict[int, Rejection]

    def leave_out(self, i: int, step: Step, draft: Draft, reason: str, detail: str) -> None:
        if step.optional:
            self.done[i] = draft
        else:
            self.rejected[i] = Rejection(draft, step.name, reason, detail)


def _read_all(
    step: Step, drafts: Sequence[Draft], turn: Mapping[int, Messages], answers: Answers, found: _Found
) -> dict[int, tuple[str, Rejected]]:
    """Ask, sort what is answered into `found`, and return the answers to be sent back, each with what is wrong."""
    sent_back = {}
    replies = answers(step, [drafts[i] for i in turn], list(turn.values())) if turn else []
    for i, (reply, problem, refused) in zip(turn, replies, strict=True):
        if reply is None and problem == NO_RULE:
            found.leave_out(i, step, drafts[i], NO_RULE, "a chat model is needed")
        elif reply is None and refused:
            found.leave_out(i, step, drafts[i], REFUSED, problem)
        elif reply is None:
            found.unanswered[i] = Rejection(drafts[i], step.name, UNANSWERED, problem)
        else:
            try:
                found.done[i] = step.read(drafts[i], _whole(reply))
            except Rejected as why:
                if why.ask_again:
                    sent_back[i] = reply.text, why
                else:
                    found.rejected[i] = Rejection(drafts[i], step.name, why.reason, why.detail)
            except InputError as error:
                sent_back[i] = reply.text, Rejected(UNREADABLE, error.problem)
    return sent_back


def _whole(reply: Reply) -> str:
    if reply.finish == "length":
        raise InputError("it was cut off at the most tokens that an answer may have")
    return reply.text


def _sent_back(messages: Messages, answer: str, problem: str) -> list[dict[str, str]]:
    """Return the conversation so far, and that its answer could not be read."""
    plea = f"That answer cannot be read: {problem}. Answer once more, and only in the form that was asked for."
    # An empty turn is refused by some endpoints.
    said = answer.strip() or "(no answer)"
    return [*messages, {"role": "assistant", "content": said}, {"role": "user", "content": plea}]


def _in_order(found: dict[int, Thing]) -> list[Thing]:
    return [found[i] for i in sorted(found)]
