"""Asking a chat model many things at a time; one answer that is none does not cost the others."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar, cast

from berdslib.errors import InputError
from berdslib.llm.chat import ChatModel, Messages, RefusedError, Reply, UnavailableError, given_up
from berdslib.progress import bar, begin

logger = logging.getLogger(__name__)

Said = TypeVar("Said")

_GONE = 20  # failures in a row, with nothing else in between, after which nobody seems to be there
_REFUSES = 5  # refusals at the start, after which it is not the questions


class Answer(NamedTuple):
    """What came of a question: a ``reply``; or None and the ``problem``.

    The problem may be that the model could not be reached; or, where it was ``refused``, the question itself, and
    asking again would not help.
    """

    reply: Reply | None
    problem: str = ""
    refused: bool = False


def ask_all(
    chat: ChatModel, conversations: Sequence[Messages], *, workers: int = 4, desc: str = "asking"
) -> list[Answer]:
    """Ask a chat model everything, several at a time, and return the answers in the order of the questions.

    A model of this machine, which says how many conversations it takes `together`, gets so many at once.

    A model that cannot be reached for one of them, or refuses it for what is in it, is that one's problem. Any other
    error, and an interrupt from the keyboard, ends it: nothing new is sent, nothing is tried again, and what is under
    way is waited for, so that a :class:`~berdslib.llm.recorded.Kept` around the model has it.

    Raises:
        InputError: no workers.
        UnavailableError: twenty in a row could not be answered, and the rest would be asked in vain.
        RefusedError: the first five were all refused.
        ChatError: the model refuses or fails for good, or the budget is used up.
    """
    answers, end = ask_until_end(chat, conversations, workers=workers, desc=desc)
    if end is not None:
        raise end
    return answers


def ask_until_end(
    chat: ChatModel, conversations: Sequence[Messages], *, workers: int = 4, desc: str = "asking"
) -> tuple[list[Answer], BaseException | None]:
    """Ask as :func:`ask_all` does, and return the answers with what ended it early, if anything did."""
    if workers < 1:
        raise InputError(f"at least one worker is needed to ask anything, not {workers}", field="workers")
    stop, ends, seen = threading.Event(), list[BaseException](), list[Answer]()
    size = getattr(chat, "together", 1)

    def ask(messages: Sequence[Messages]) -> list[Answer]:
        if not stop.is_set():
            try:
                return _asked_together(chat, messages)
            except BaseException as error:  # noqa: BLE001 - returned; the first one is the cause, others may follow
                ends.append(error)
                stop.set()  # here, or another worker could take up the next one first
        return [Answer(None, "not asked")] * len(messages)

    with ThreadPoolExecutor(workers, initializer=given_up.set, initargs=(stop,)) as pool:
        asked = list[Future[list[Answer]]]()
        begin(f"{desc}: {len(conversations):,} requests")
        try:
            asked += [pool.submit(ask, conversations[at : at + size]) for at in range(0, len(conversations), size)]
            for one in bar(as_completed(asked), total=len(asked), desc=desc):
                if ends:
                    break
                for answer in one.result():
                    seen.append(answer)
                    _check_somebody_answers(seen)
        except BaseException as error:  # noqa: BLE001 - returned; the keyboard's too, whatever came of its end
            ends.insert(0, error)
        finally:
            stop.set()  # what waits in the queue is then left alone, and what waits to be tried again is given up
    return [answer for one in asked for answer in one.result()], ends[0] if ends else None


def _asked_together(chat: ChatModel, conversations: Sequence[Messages]) -> list[Answer]:
    if len(conversations) > 1:
        with suppress(UnavailableError, RefusedError, InputError):  # of one of them: each is then asked by itself
            return [Answer(reply) for reply in cast(Any, chat).complete_all(conversations)]
    return [_asked(chat, messages) for messages in conversations]


def _asked(chat: ChatModel, messages: Messages) -> Answer:
    try:
        return Answer(chat.complete(messages))
    except UnavailableError as error:
        return Answer(None, str(error))
    except (RefusedError, InputError) as error:
        # An error about a file, such as one that cannot be written, is not about the messages.
        if isinstance(error, InputError) and error.path is not None:
            raise
        return Answer(None, str(error), refused=True)


def _check_somebody_answers(seen: Sequence[Answer]) -> None:
    """Raise UnavailableError where a model seems to be gone, RefusedError where it refuses whatever it is asked."""
    last = seen[-1]
    if len(seen) == _REFUSES and all(one.refused for one in seen):
        raise RefusedError(f"the first {_REFUSES} requests were all refused, the last with: {last.problem}")
    if len(seen) >= _GONE and all(one.reply is None and not one.refused for one in seen[-_GONE:]):
        raise UnavailableError(f"{_GONE} requests in a row failed, the last with: {last.problem}")


# ---------------------------------------------------------------- asking and reading


class UnreadableAnswerError(InputError):
    """No answer of all could be read."""


def read_all(
    chat: ChatModel,
    asked: Mapping[str, Messages],
    read: Callable[[str], Said],
    *,
    what: str,
    workers: int = 4,
    desc: str = "asking",
) -> dict[str, Said]:
    """Ask a chat model everything, and return what was read of the answers, under the names of the questions.

    `read` raises InputError for an answer that it cannot read; the names are those of a `what`, such as "question".
    Questions whose answers cannot be read, or are refused, are left out, and a warning counts and names them.

    Raises:
        UnreadableAnswerError: that is so of all.
        UnavailableError: some have no answer.
        ChatError: the endpoint fails for good.
    """
    answers = dict(zip(asked, ask_all(chat, list(asked.values()), workers=workers, desc=desc), strict=True))
    if unanswered := [name for name, one in answers.items() if one.reply is None and not one.refused]:
        such = f"such as {what} {unanswered[0]!r}: {answers[unanswered[0]].problem}"
        raise UnavailableError(f"no answer for {len(unanswered)} of {len(asked)}, {such}")
    found, problems = dict[str, Said](), dict[str, str]()
    for name, one in answers.items():
        if one.reply is None:  # refused: asking again would not help
            problems[name] = one.problem
            continue
        try:
            found[name] = read(one.reply.text)
        except InputError as error:
            problems[name] = f"{error.problem}. It begins {one.reply.text[:80]!r}"
    if problems:
        name, *others = problems
        named = ", ".join(map(repr, others[:5])) + (" …" if len(others) > 5 else "")
        more = f" ({len(others)} more like this: {named})" if others else ""
        problem = f"the answer of {chat.id} on {what} {name!r}: {problems[name]}{more}"
        if not found:
            raise UnreadableAnswerError(problem)
        logger.warning("%d of %d answers cannot be read: %s", len(problems), len(asked), problem)
    return found
