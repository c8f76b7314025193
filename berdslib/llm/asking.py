"""Concurrent requests to a chat model; an unreadable answer does not discard the others."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar, cast

from berdslib.errors import InputError
from berdslib.llm.answers import CUT_OFF, answer_of
from berdslib.llm.chat import ChatError, ChatModel, Messages, Reply, UnavailableError, UnreadError
from berdslib.progress import bar, begin, given_up

logger = logging.getLogger(__name__)

Said = TypeVar("Said")

_GONE = 20  # consecutive failures after which the model counts as unavailable
_UNREAD = 5  # unread answers at the start, with none read, after which the model counts as unusable


class Answer(NamedTuple):
    """The answer to one conversation: the ``reply`` and the value ``read`` from it, or the ``problem``.

    A problem without ``unread`` means that the model was unavailable, so a retry may help. ``unread`` gives, in two or
    three words, the reason why a retry would not help: the server refused the conversation, or the reply is unreadable.
    """

    reply: Reply | None
    problem: str = ""
    unread: str = ""
    read: Any = None


_NOT_ASKED = Answer(None, "not asked")


def ask_all(
    chat: ChatModel,
    conversations: Sequence[Messages],
    *,
    proven: bool = False,
    workers: int = 4,
    desc: str = "asking",
) -> list[Answer]:
    """Send conversations to a chat model concurrently, and return the answers in the same order.

    A local model's attribute ``together`` is the number of conversations that it takes in one batch.

    A conversation has no reply if the model is unavailable or refuses its content. Any other error, and a keyboard
    interrupt, stops the run: new requests and retries are cancelled, and pending requests are awaited, so that a
    :class:`~berdslib.llm.recorded.Recorded` around the model keeps their answers.

    Raises:
        InputError: fewer than one worker.
        UnavailableError: twenty consecutive requests failed.
        UnreadError: the first five answers were refused or unreadable, and the model is not `proven`.
        ChatError: the model refuses all requests, or fails permanently.
    """
    answers, end = ask_until_end(chat, conversations, proven=proven, workers=workers, desc=desc)
    if end is not None:
        raise end
    return answers


def ask_until_end(
    chat: ChatModel,
    conversations: Sequence[Messages],
    *,
    read: Callable[[Reply], Any] = answer_of,
    before: Sequence[Answer] = (),
    proven: bool = False,
    workers: int = 4,
    desc: str = "asking",
) -> tuple[list[Answer], BaseException | None]:
    """Send conversations as :func:`ask_all` does; return the answers, and the error that stopped the run or None.

    `read` parses a reply and raises InputError if it cannot. If the first five answers are unread, the remaining
    conversations are not sent, unless the model is `proven`: one of its earlier answers was read. Answers in `before`
    count.
    """
    if workers < 1:
        raise InputError(f"must be at least 1, not {workers}", field="workers")
    size = getattr(chat, "together", 1)
    seen = [*before]
    ends: list[BaseException] = []
    stop = threading.Event()
    lock = threading.Lock()

    def ask(messages: Sequence[Messages]) -> list[Answer]:
        if stop.is_set():
            return [_NOT_ASKED] * len(messages)
        try:
            answers = _asked_together(chat, messages, read)
        except BaseException as error:  # noqa: BLE001 - returned; the first error is the cause of any later ones
            ends.append(error)
            stop.set()  # at once, before another worker can start the next batch
            return [_NOT_ASKED] * len(messages)
        with lock:
            for answer in answers:
                seen.append(answer)
                if not stop.is_set() and (in_vain := _why_in_vain(seen, chat, proven)):
                    ends.append(in_vain)
                    stop.set()
        return answers

    with ThreadPoolExecutor(workers, initializer=given_up.set, initargs=(stop,)) as pool:
        asked: list[Future[list[Answer]]] = []
        begin(f"{desc}: {len(conversations):,} requests")
        try:
            if seen and (in_vain := _why_in_vain(seen, chat, proven)):
                raise in_vain
            starts = range(0, len(conversations), size)
            asked += [pool.submit(ask, conversations[start : start + size]) for start in starts]
            for _ in bar(as_completed(asked), total=len(asked), desc=desc):
                if ends:
                    break
        except BaseException as error:  # noqa: BLE001 - returned; an interrupt precedes the errors that it causes
            ends.insert(0, error)
        finally:
            stop.set()  # skips the conversations in the queue, and cancels retries
    answers = [answer for batch in asked for answer in batch.result()]
    answers += [_NOT_ASKED] * (len(conversations) - len(answers))
    return answers, ends[0] if ends else None


def _asked_together(chat: ChatModel, conversations: Sequence[Messages], read: Callable[[Reply], Any]) -> list[Answer]:
    if len(conversations) > 1:
        with suppress(UnavailableError, InputError):  # caused by one conversation: send each by itself
            return [_read(reply, read) for reply in cast(Any, chat).complete_all(conversations)]
    return [_asked(chat, messages, read) for messages in conversations]


def _asked(chat: ChatModel, messages: Messages, read: Callable[[Reply], Any]) -> Answer:
    try:
        reply = chat.complete(messages)
    except UnavailableError as error:
        return Answer(None, str(error))
    except InputError as error:
        if error.path is not None:  # not about the messages, such as a recording that cannot be written
            raise
        return Answer(None, str(error), getattr(error, "reason", "not sent"))
    return _read(reply, read)


def _read(reply: Reply, read: Callable[[Reply], Any]) -> Answer:
    try:
        return Answer(reply, read=read(reply))
    except InputError as error:
        return Answer(reply, error.problem, getattr(error, "reason", "unexpected format"))


def _why_in_vain(seen: Sequence[Answer], chat: ChatModel, proven: bool) -> ChatError | None:
    """Return an error if further requests are pointless: the model is unavailable, or its first answers are unread."""
    last = seen[-1]
    if last.unread and not proven and not any(_was_read(one) for one in seen):
        unread = [one for one in seen if one.unread]
        if len(unread) >= _UNREAD:
            what = f"{_UNREAD} requests to {chat.id} gave no readable answer: {by_reason(unread)}. The last problem"
            return UnreadError(f"{what}: {last.problem}{hint(chat, unread)}", last.unread)
    if len(seen) >= _GONE and all(one.reply is None and not one.unread for one in seen[-_GONE:]):
        return UnavailableError(f"{_GONE} consecutive requests failed, the last with: {last.problem}")
    return None


def _was_read(answer: Answer) -> bool:
    return answer.reply is not None and not answer.unread


def by_reason(unread: Iterable[Answer]) -> str:
    """Count unread answers by reason, such as "content filter 2, empty answer 1"."""
    return ", ".join(f"{reason} {n}" for reason, n in Counter(one.unread for one in unread).most_common())


def hint(chat: ChatModel, unread: Iterable[Answer]) -> str:
    """Return advice for a model whose reasoning used up its tokens; "" if no answer was cut off."""
    if not any(one.unread == CUT_OFF for one in unread):
        return ""
    longest = getattr(chat, "max_tokens", None)
    limit = "" if longest is None else f" (max_tokens={longest})"
    return (
        f". The token limit{limit} is too low for a model that reasons before it answers: raise the limit, as in "
        "chat:MODEL?max_tokens=2000, or switch reasoning off, as in chat:MODEL?reasoning_effort=none"
    )


def read_all(
    chat: ChatModel,
    asked: Mapping[str, Messages],
    read: Callable[[str], Said],
    *,
    what: str,
    workers: int = 4,
    desc: str = "asking",
) -> dict[str, Said]:
    """Send named conversations to a chat model, and return name → the value that `read` parsed from the answer.

    `read` raises InputError for an answer that it cannot parse. `what` is the noun for a conversation in messages, such
    as "question". Conversations that are refused, or whose answers are unreadable, are left out; a warning counts and
    names them.

    Raises:
        UnreadError: all conversations were refused or have unreadable answers.
        UnavailableError: some conversations have no answer.
        ChatError: the endpoint fails permanently.
    """
    found, end = ask_until_end(
        chat, list(asked.values()), read=lambda reply: read(answer_of(reply)), workers=workers, desc=desc
    )
    if end is not None:
        raise end
    answers = dict(zip(asked, found, strict=True))
    if unanswered := [name for name, one in answers.items() if one.reply is None and not one.unread]:
        such = f"such as {what} {unanswered[0]!r}: {answers[unanswered[0]].problem}"
        raise UnavailableError(f"no answer to {len(unanswered)} of {len(asked)} requests, {such}")
    unread = {name: one for name, one in answers.items() if one.unread}
    if unread:
        name, first = next(iter(unread.items()))
        others = [other for other in unread if other != name]
        named = ", ".join(map(repr, others[:5])) + (" …" if len(others) > 5 else "")
        more = f" ({len(others)} more: {named})" if others else ""
        begins = f". The answer begins {first.reply.text[:80]!r}" if first.reply and first.reply.text else ""
        problem = f"{what} {name!r}: {first.problem}{begins}{more}{hint(chat, unread.values())}"
        reasons = by_reason(unread.values())
        told = f"unread: {len(unread)} of {len(asked)} answers of {chat.id} ({reasons}). The first is for"
        if len(unread) == len(asked):
            raise UnreadError(f"{told} {problem}", first.unread)
        logger.warning("%s %s", told, problem)
    return {name: one.read for name, one in answers.items() if not one.unread}
