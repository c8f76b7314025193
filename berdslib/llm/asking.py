"""Asking a chat model many things at a time; one answer that cannot be read does not cost the others."""

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

_GONE = 20  # failures in a row after which the model seems to be gone
_UNREAD = 5  # unread answers at the start after which the model, and not what it is asked, seems to be the reason


class Answer(NamedTuple):
    """The answer to one conversation: the ``reply``, and what was ``read`` of it; or the ``problem``.

    With a problem and no ``unread``, the model could not be reached, and asking again may help. ``unread`` says in two
    or three words why asking again would not: the server refused the conversation, or the reply cannot be read.
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
    """Ask a chat model everything, several at a time, and return the answers in the order of the questions.

    A model of this machine, which says how many conversations it takes `together`, gets so many at once.

    Where the model cannot be reached, or refuses a conversation for what is in it, that conversation has no reply. Any
    other error, and an interrupt from the keyboard, ends the asking: no new request is sent, none is tried again, and
    requests under way are waited for, so that a :class:`~berdslib.llm.recorded.Recorded` around the model has them.

    Raises:
        InputError: no workers.
        UnavailableError: twenty requests in a row failed.
        UnreadError: the first five were refused or cannot be read, and the model is not `proven`.
        ChatError: the model refuses or fails for good.
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
    """Ask as :func:`ask_all` does, and return the answers with what ended it early, if anything did.

    `read` raises InputError for a reply that it cannot read. Where the first five answers are unread, the rest is not
    asked, unless the model is `proven`: one of its answers was read before. Answers from `before` count.
    """
    if workers < 1:
        raise InputError(f"at least one worker is needed to ask anything, not {workers}", field="workers")
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
        except BaseException as error:  # noqa: BLE001 - returned; the first one is the cause, others may follow
            ends.append(error)
            stop.set()  # here, or another worker could take up the next one first
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
        except BaseException as error:  # noqa: BLE001 - returned; the keyboard's too, whatever came of its end
            ends.insert(0, error)
        finally:
            stop.set()  # what waits in the queue is then left alone, and what waits to be tried again is given up
    answers = [answer for batch in asked for answer in batch.result()]
    answers += [_NOT_ASKED] * (len(conversations) - len(answers))
    return answers, ends[0] if ends else None


def _asked_together(chat: ChatModel, conversations: Sequence[Messages], read: Callable[[Reply], Any]) -> list[Answer]:
    if len(conversations) > 1:
        with suppress(UnavailableError, InputError):  # of one of them: each is then asked by itself
            return [_read(reply, read) for reply in cast(Any, chat).complete_all(conversations)]
    return [_asked(chat, messages, read) for messages in conversations]


def _asked(chat: ChatModel, messages: Messages, read: Callable[[Reply], Any]) -> Answer:
    try:
        reply = chat.complete(messages)
    except UnavailableError as error:
        return Answer(None, str(error))
    except InputError as error:
        if error.path is not None:  # such as a recording that cannot be written: the messages are not to blame
            raise
        return Answer(None, str(error), getattr(error, "reason", "not sent"))
    return _read(reply, read)


def _read(reply: Reply, read: Callable[[Reply], Any]) -> Answer:
    try:
        return Answer(reply, read=read(reply))
    except InputError as error:
        return Answer(reply, error.problem, getattr(error, "reason", "in another form"))


def _why_in_vain(seen: Sequence[Answer], chat: ChatModel, proven: bool) -> ChatError | None:
    """Return an error where a model seems to be gone, or where none of what it says at first can be read."""
    last = seen[-1]
    if last.unread and not proven and not any(_was_read(one) for one in seen):
        unread = [one for one in seen if one.unread]
        if len(unread) >= _UNREAD:
            what = f"{_UNREAD} requests to {chat.id}, and no answer that can be read: {by_reason(unread)}. The last"
            return UnreadError(f"{what}: {last.problem}{hint(chat, unread)}", last.unread)
    if len(seen) >= _GONE and all(one.reply is None and not one.unread for one in seen[-_GONE:]):
        return UnavailableError(f"{_GONE} requests in a row failed, the last with: {last.problem}")
    return None


def _was_read(answer: Answer) -> bool:
    return answer.reply is not None and not answer.unread


def by_reason(unread: Iterable[Answer]) -> str:
    """Return how many answers are unread for which reason, such as "content filter 2, empty answer 1"."""
    return ", ".join(f"{reason} {n}" for reason, n in Counter(one.unread for one in unread).most_common())


def hint(chat: ChatModel, unread: Iterable[Answer]) -> str:
    """Return what helps where a model has spent all its tokens on thinking; "" where it has not."""
    if not any(one.unread == CUT_OFF for one in unread):
        return ""
    longest = getattr(chat, "max_tokens", None)
    limit = "" if longest is None else f" (max_tokens={longest})"
    return (
        f". Its tokens{limit} are used up before an answer, as with models that think first: give it more, as in "
        "chat:MODEL?max_tokens=2000, or turn its thinking off, as in chat:MODEL?reasoning_effort=none"
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
    """Ask a chat model everything, and return what was read of the answers, under the names of the questions.

    `read` raises InputError for an answer that it cannot read; the names are those of a `what`, such as "question".
    Questions whose answers cannot be read, or are refused, are left out, and a warning counts and names them.

    Raises:
        UnreadError: that is so of all.
        UnavailableError: some have no answer.
        ChatError: the endpoint fails for good.
    """
    found, end = ask_until_end(
        chat, list(asked.values()), read=lambda reply: read(answer_of(reply)), workers=workers, desc=desc
    )
    if end is not None:
        raise end
    answers = dict(zip(asked, found, strict=True))
    if unanswered := [name for name, one in answers.items() if one.reply is None and not one.unread]:
        such = f"such as {what} {unanswered[0]!r}: {answers[unanswered[0]].problem}"
        raise UnavailableError(f"no answer for {len(unanswered)} of {len(asked)}, {such}")
    unread = {name: one for name, one in answers.items() if one.unread}
    if unread:
        name, first = next(iter(unread.items()))
        others = [other for other in unread if other != name]
        named = ", ".join(map(repr, others[:5])) + (" …" if len(others) > 5 else "")
        more = f" ({len(others)} more like this: {named})" if others else ""
        begins = f". It begins {first.reply.text[:80]!r}" if first.reply and first.reply.text else ""
        problem = f"{what} {name!r}: {first.problem}{begins}{more}{hint(chat, unread.values())}"
        reasons = by_reason(unread.values())
        told = f"{len(unread)} of {len(asked)} answers of {chat.id} are unread: {reasons}. The first, on"
        if len(unread) == len(asked):
            raise UnreadError(f"{told} {problem}", first.unread)
        logger.warning("%s %s", told, problem)
    return {name: one.read for name, one in answers.items() if not one.unread}
