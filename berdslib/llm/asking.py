"""Asking a chat model many things at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

from berdslib.llm.chat import ChatModel, Messages, Reply, UnavailableError

_GONE = 20  # failures in a row, with no answer in between, after which nobody seems to be there


class Answer(NamedTuple):
    """What came of a question: a ``reply``; or None and the ``problem``, where the model could not be reached."""

    reply: Reply | None
    problem: str = ""


def ask_all(
    chat: ChatModel, conversations: Sequence[Messages], *, workers: int = 4, desc: str = "asking"
) -> list[Answer]:
    """Ask a chat model everything, several at a time, and return the answers in the order of the questions.

    A model that cannot be reached for one of them is that one's problem. Any other error, and an interrupt from the
    keyboard, ends it: nothing new is sent, and what is under way is waited for, so that a
    :class:`~berdslib.llm.recorded.Recording` around the model has it.

    Args:
        chat: who answers; may be used by several threads.
        conversations: the messages of each.
        workers: requests in flight at a time.
        desc: what the progress bar says.

    Raises:
        UnavailableError: twenty in a row could not be answered, and the rest would be asked in vain.
        ChatError: the model refuses or fails for good, or the budget is used up.
    """
    from tqdm.auto import tqdm

    stop, failed = threading.Event(), 0

    def ask(messages: Messages) -> Answer:
        if stop.is_set():
            return Answer(None, "not asked")
        try:
            return Answer(chat.complete(messages))
        except UnavailableError as error:
            return Answer(None, str(error))
        except BaseException:
            stop.set()  # here, or another worker could take up the next one first
            raise

    with ThreadPoolExecutor(workers) as pool:
        try:
            asked = [pool.submit(ask, messages) for messages in conversations]
            for one in tqdm(as_completed(asked), total=len(asked), desc=desc, delay=2, leave=False):
                failed = 0 if one.result().reply is not None else failed + 1
                if failed == _GONE:
                    raise UnavailableError(f"{failed} requests in a row failed, the last with: {one.result().problem}")
        finally:
            stop.set()  # what waits in the queue is then left alone
    return [one.result() for one in asked]
