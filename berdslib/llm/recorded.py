"""Recorded answers: what a chat model said is kept in a file, and stands in for the model later."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import zlib
from collections.abc import Sequence
from contextlib import nullcontext
from io import FileIO
from pathlib import Path
from typing import Any, cast

from filelock import FileLock

from berdslib.errors import InputError, MissingDataError
from berdslib.llm.chat import MALFORMED, ChatModel, Messages, Reply, alternatives, token_counts

logger = logging.getLogger(__name__)


class Recorded:
    """A chat model that answers from a file, and asks another model only for what the file does not hold.

    New answers are added to the file at once, so an experiment that broke off goes on where it was, and one that is
    repeated costs nothing. Any number of threads may ask, and several processes may record in one file. Without a model
    the file is all there is: the same experiment again, without network or cost.

    Args:
        path: a JSONL file with a line for each exchange. With a model it need not exist yet. An answer that cannot be
            written, as on a full disk, is an InputError, and the file stays as it was.
        model: the model that is asked for the other answers.
        model_id: without a model, the id of the one whose answers are taken; None for the only one in the file.
    """

    def __init__(self, path: Path, model: ChatModel | None = None, *, model_id: str | None = None) -> None:
        exchanges = _read_file(path, to_append=model is not None)
        self.path = path
        self.model = model
        if model is not None:
            self.id = model.id
        else:
            self.id = model_id or _only_model(path, exchanges)
        self._replies = {key: reply for key, _, reply in exchanges}
        self._turns: dict[str, threading.Lock] = {}  # one for each exchange
        self._lock = threading.Lock()

    def complete(self, messages: Messages) -> Reply:
        """Return the recorded answer, or else the model's, after writing it down.

        Raises:
            MissingDataError: these messages were never answered, and there is no model.
        """
        key = exchange_key(self.id, messages)
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:  # several threads with the same messages ask once
            if key not in self._replies:
                self._record(key, messages, self._ask(messages))
            return self._replies[key]

    @property
    def together(self) -> int:
        """How many conversations the model takes at once."""
        return getattr(self.model, "together", 1)

    def complete_all(self, conversations: Sequence[Messages]) -> list[Reply]:
        """Return recorded answers, and the model's to all other conversations, which it is asked at once."""
        asked = {exchange_key(self.id, messages): messages for messages in conversations}
        if new := {key: messages for key, messages in asked.items() if key not in self._replies}:
            replies = cast(Any, self.model).complete_all(list(new.values()))
            for (key, messages), reply in zip(new.items(), replies, strict=True):
                self._record(key, messages, reply)
        return [self._replies[exchange_key(self.id, messages)] for messages in conversations]

    def _ask(self, messages: Messages) -> Reply:
        if self.model is None:
            begins = messages[-1]["content"][:80]
            raise MissingDataError(f"{self.path} holds no answer of {self.id} to: {begins!r} …")
        return self.model.complete(messages)

    def _record(self, key: str, messages: Messages, reply: Reply) -> None:
        row = {
            "key": key,
            "model": self.id,
            "messages": list(messages),
            "text": reply.text,
            "first_token": reply.first_token,
            "finish": reply.finish,
            "usage": {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens},
        }
        with self._lock:
            _append(self.path, json.dumps(row, ensure_ascii=False))
        self._replies[key] = reply


def exchange_key(model_id: str, messages: Messages) -> str:
    """Return the content hash of an exchange; the prompt's wording is part of the messages, so it is in it too."""
    text = json.dumps([model_id, [dict(m) for m in messages]], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


# ---------------------------------------------------------------- the file

Exchange = tuple[str, str, Reply]  # key, model and reply
_SUM = b', "crc32": "'  # nowhere else: inside of a text the quotation marks have backslashes


def _read_file(path: Path, *, to_append: bool) -> list[Exchange]:
    """Return the exchanges in a file. Of a process that was killed, at most the line being written is lost.

    A file that holds something else is an InputError; only exchanges before it show that a last line was cut off.
    """
    try:
        if to_append:
            path.parent.mkdir(parents=True, exist_ok=True)
        with _turn(path) if to_append else nullcontext():
            content = path.read_bytes() if path.exists() or not to_append else b""
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", path=path) from None
    # Not splitlines: a text in JSON may hold separators such as U+2028 as they are.
    *lines, rest = content.split(b"\n")
    exchanges: list[Exchange] = []
    for number, line in enumerate([*lines, rest] if rest else lines, start=1):
        row, summed, kept = line.rpartition(_SUM)
        if summed and kept != _sum(row):
            problem = "does not fit its checksum, as it was damaged or changed; remove the line, or its crc32"
            raise InputError(problem, path=path, line=number)
        try:
            exchanges.append(_exchange(line))
        except MALFORMED:
            if not exchanges or number <= len(lines):
                raise InputError("not a recorded answer", path=path, line=number) from None
            logger.warning("%s: the last line is cut off and left out", path)
    return exchanges


def _exchange(line: bytes) -> Exchange:
    row = json.loads(line.decode("utf-8"))
    key = row["key"]
    text = row["text"]
    model = row.get("model", "")
    finish = row.get("finish", "")
    if not all(isinstance(value, str) for value in (key, text, model, finish)):
        raise TypeError("key, text, model and finish must be texts")
    used = row.get("usage", {})  # which older recordings lack
    counts = token_counts(used.get("prompt_tokens", 0), used.get("completion_tokens", 0))
    return key, model, Reply(text, alternatives(row.get("first_token", [])), finish, *counts)


def _only_model(path: Path, exchanges: Sequence[Exchange]) -> str:
    models = sorted({model for _, model, _ in exchanges})
    if len(models) != 1:
        named = f" ({', '.join(models)})" if models else ""
        raise InputError(f"holds answers of {len(models)} models{named}; one was expected", path=path)
    return models[0]


def _sum(row: bytes) -> bytes:
    return b'%08x"}' % zlib.crc32(row)


def _turn(path: Path) -> FileLock:
    """Return a lock for changing a file: the half-written line of another process must not be removed as a rest."""
    return FileLock(path.with_name(f".{path.name}.lock"), poll_interval=0.01)


def _append(path: Path, text: str) -> None:
    """Append an object in JSON with its checksum, one thread or process at a time, or leave the file as it was."""
    # Half a character has no UTF-8; written with a backslash it is what JSON reads as the same half.
    row = text.encode("utf-8", "backslashreplace").removesuffix(b"}")
    line = row + _SUM + _sum(row) + b"\n"
    try:
        # Not buffered, or closing would try to write the rest again.
        with _turn(path), open(path, "ab+", buffering=0) as file:
            end = _end_of_lines(file)
            try:
                while line:
                    line = line[file.write(line) :]
            except OSError:
                file.truncate(end)
                raise
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", path=path) from None


def _end_of_lines(file: FileIO) -> int:
    """Return the size of a file after ending, or removing, the line that a process was killed at while it wrote."""
    size = file.tell()
    file.seek(max(0, size - 1))
    if file.read(1) in (b"", b"\n"):
        return size
    file.seek(0)
    content = file.read()
    rest = content[content.rfind(b"\n") + 1 :]
    try:
        json.loads(rest)
    except MALFORMED:
        file.truncate(size - len(rest))
    else:
        file.write(b"\n")
    return file.seek(0, os.SEEK_END)
