"""Recorded answers: what a chat model said is kept in a file, and stands in for the model later."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from pathlib import Path
from typing import NamedTuple

from berdslib.errors import InputError, MissingDataError
from berdslib.llm.chat import ChatModel, Messages, Reply, Tokens, alternatives, most_tokens
from berdslib.llm.lines import append_line, lines_of, open_lines

logger = logging.getLogger(__name__)

_LINE = "a recorded answer"


class Recorded:
    """Answers from a JSONL file, and nothing else: the same experiment again, without network or cost.

    Args:
        path: a file that :class:`Recording` wrote.
        model_id: the id of the model whose answers are wanted; None for the one model in the file.

    Raises:
        InputError: the file cannot be read, or no model is named and it holds the answers of several.
    """

    def __init__(self, path: Path, model_id: str | None = None) -> None:
        self.path = path
        self._replies: dict[str, Reply] = {}
        models = set()
        for one in _exchanges(path):
            self._replies[one.key] = one.reply
            models.add(one.model)
        if model_id is None and len(models) != 1:
            named = f" ({', '.join(sorted(models))})" if models else ""
            raise InputError(f"holds answers of {len(models)} models{named}; one was expected", path=path)
        self.id = models.pop() if model_id is None else model_id

    def complete(self, messages: Messages) -> Reply:
        """Return the recorded answer.

        Raises:
            MissingDataError: these messages were never answered.
        """
        key = exchange_key(self.id, messages)
        if key not in self._replies:
            raise MissingDataError(f"{self.path} holds no answer of {self.id} to: {messages[-1]['content'][:80]!r} …")
        return self._replies[key]


class Recording:
    """Passes messages on to a model and keeps every exchange, one line each, as soon as it is there.

    Args:
        model: who answers.
        path: JSONL file to append to; it need not exist yet.

    Raises:
        InputError: the file cannot be opened, or is no recording.
    """

    def __init__(self, model: ChatModel, path: Path) -> None:
        self.model, self.path, self.id = model, path, model.id
        self._lock = threading.Lock()
        # What was said before.
        self.replies = {one.key: one.reply for one in open_lines(path, _exchange, _LINE)}

    def complete(self, messages: Messages) -> Reply:
        """Return the model's answer, after writing it down.

        Raises:
            InputError: the answer cannot be written, as on a full disk; the file stays as it was.
        """
        reply = self.model.complete(messages)
        row = {
            "key": exchange_key(self.id, messages),
            "model": self.id,
            "messages": list(messages),
            "text": reply.text,
            "first_token": [list(pair) for pair in reply.first_token],
            "finish": reply.finish,
            "usage": {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens},
        }
        with self._lock:
            append_line(self.path, json.dumps(row, ensure_ascii=False))
        return reply


class Kept:
    """A model that records every answer in a file and is only asked what is not recorded, by any number of threads.

    So an experiment that broke off goes on where it was, and one that is repeated costs nothing.

    Args:
        model: who answers what is not in the file.
        path: JSONL file, as :class:`Recording` writes it; it need not exist yet.

    Raises:
        InputError: the file cannot be opened, or is no recording.
    """

    def __init__(self, model: ChatModel, path: Path) -> None:
        self.id = model.id
        self._new = Recording(model, path)
        self._said = self._new.replies
        self._turns: dict[str, threading.Lock] = {}  # of who asks the same
        self._lock = threading.Lock()

    def complete(self, messages: Messages) -> Reply:
        """Return the kept answer, or else the model's, after writing it down."""
        key = exchange_key(self.id, messages)
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:  # several threads with one message ask once
            if key not in self._said:
                self._said[key] = self._new.complete(messages)
            return self._said[key]


def exchange_key(model_id: str, messages: Messages) -> str:
    """Return the content hash of an exchange; the prompt's wording is part of the messages, so it is in it too."""
    text = json.dumps([model_id, [dict(m) for m in messages]], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def spent_in(path: Path, prices: tuple[float, float]) -> float:
    """Return what the answers in a recording cost, 0 if there is no such file.

    Where the server did not say what it counted, as many tokens as there can have been are taken. Requests that came to
    nothing and may have been billed are not in a recording; a ledger has them, see
    :class:`~berdslib.llm.budget.Budgeted`.

    Args:
        path: a file that :class:`Recording` wrote.
        prices: per million prompt and completion tokens.

    Raises:
        InputError: the file cannot be read.
    """
    exchanges = _exchanges(path) if path.exists() else ()
    return sum((one.tokens for one in exchanges), Tokens()).cost(prices)


class _Exchange(NamedTuple):
    key: str
    model: str
    reply: Reply
    tokens: Tokens


def _exchanges(path: Path) -> list[_Exchange]:
    """Return the lines of a recording, which is only read: another process may be writing to it."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read ({type(error).__name__})", path=path) from None
    found, rest = lines_of(path, content, _exchange, _LINE)
    if rest:
        logger.warning("%s: the last line is cut off and left out", path)
    return found


def _exchange(line: str) -> _Exchange:
    row = json.loads(line)
    key, said, model, finish = row["key"], row["text"], row.get("model", ""), row.get("finish", "")
    if not all(isinstance(value, str) for value in (key, said, model, finish)):
        raise TypeError("key, text, model and finish must be texts")
    used = row.get("usage", {})  # which older recordings lack
    told = Tokens.told(used.get("prompt_tokens", 0), used.get("completion_tokens", 0))
    reply = Reply(said, alternatives(row.get("first_token", [])), finish, told.prompt, told.completion)
    # A text of n bytes has at most n tokens.
    most = most_tokens(row.get("messages", []), len(said.encode("utf-8", "replace")))
    return _Exchange(key, model, reply, told if told.prompt else most)
