"""Recorded answers: what a chat model said is kept in a file, and stands in for the model later."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import zlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar, cast

from filelock import FileLock

from berdslib.errors import InputError, MissingDataError
from berdslib.llm.chat import MALFORMED, ChatModel, Messages, Reply, alternatives, token_counts

logger = logging.getLogger(__name__)

Said = TypeVar("Said")


class Recorded:
    """Answers from a JSONL file, and nothing else: the same experiment again, without network or cost.

    Of a file that :class:`Kept` wrote, those of the model with this id; None for the one model in the file.
    """

    def __init__(self, path: Path, model_id: str | None = None) -> None:
        found = lines_of(path, _exchange, "a recorded answer")
        self.path, self._replies = path, {key: reply for key, _, reply in found}
        models = {model for _, model, _ in found}
        if model_id is None and len(models) != 1:
            named = f" ({', '.join(sorted(models))})" if models else ""
            raise InputError(f"holds answers of {len(models)} models{named}; one was expected", path=path)
        self.id = models.pop() if model_id is None else model_id

    def complete(self, messages: Messages) -> Reply:
        """Return the recorded answer; MissingDataError where these messages were never answered."""
        key = exchange_key(self.id, messages)
        if key not in self._replies:
            raise MissingDataError(f"{self.path} holds no answer of {self.id} to: {messages[-1]['content'][:80]!r} …")
        return self._replies[key]


class Kept:
    """A model that records every answer in a file and is only asked what is not recorded, by any number of threads.

    Several processes may record in one file.

    So an experiment that broke off goes on where it was, and one that is repeated costs nothing.

    The file, JSONL with a line for each exchange, need not exist yet. An answer that cannot be written, as on a full
    disk, is an InputError, and the file stays as it was.
    """

    def __init__(self, model: ChatModel, path: Path) -> None:
        self.model, self.path, self.id = model, path, model.id
        found = lines_of(path, _exchange, "a recorded answer", to_append=True)
        self._said = {key: reply for key, _, reply in found}
        self._turns: dict[str, threading.Lock] = {}  # of who asks the same
        self._lock = threading.Lock()

    def complete(self, messages: Messages) -> Reply:
        """Return the kept answer, or else the model's, after writing it down."""
        key = exchange_key(self.id, messages)
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:  # several threads with one message ask once
            if key not in self._said:
                self._keep(key, messages, self.model.complete(messages))
            return self._said[key]

    @property
    def together(self) -> int:
        """How many conversations the model takes at once."""
        return getattr(self.model, "together", 1)

    def complete_all(self, conversations: Sequence[Messages]) -> list[Reply]:
        """Return kept answers, and the model's to all others at once, written down together."""
        asked = {exchange_key(self.id, messages): messages for messages in conversations}
        if new := {key: messages for key, messages in asked.items() if key not in self._said}:
            replies = cast(Any, self.model).complete_all(list(new.values()))
            for (key, messages), reply in zip(new.items(), replies, strict=True):
                self._keep(key, messages, reply)
        return [self._said[exchange_key(self.id, messages)] for messages in conversations]

    def _keep(self, key: str, messages: Messages, reply: Reply) -> None:
        used = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
        row: dict[str, Any] = {"key": key, "model": self.id, "messages": list(messages), "text": reply.text}
        row |= {"first_token": reply.first_token, "finish": reply.finish, "usage": used}
        with self._lock:
            append_line(self.path, json.dumps(row, ensure_ascii=False))
        self._said[key] = reply


def exchange_key(model_id: str, messages: Messages) -> str:
    """Return the content hash of an exchange; the prompt's wording is part of the messages, so it is in it too."""
    text = json.dumps([model_id, [dict(m) for m in messages]], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _exchange(line: str) -> tuple[str, str, Reply]:
    """Return key, model and reply."""
    row = json.loads(line)
    key, said, model, finish = row["key"], row["text"], row.get("model", ""), row.get("finish", "")
    if not all(isinstance(value, str) for value in (key, said, model, finish)):
        raise TypeError("key, text, model and finish must be texts")
    used = row.get("usage", {})  # which older recordings lack
    told = token_counts(used.get("prompt_tokens", 0), used.get("completion_tokens", 0))
    return key, model, Reply(said, alternatives(row.get("first_token", [])), finish, *told)


# ---------------------------------------------------------------- files that grow line by line


def lines_of(path: Path, read: Callable[[str], Said], what: str, *, to_append: bool = False) -> list[Said]:
    """Return what the lines of a file say. Of a process that was killed, at most the line being written is lost.

    A last line that lacks only its end is one like the others. Only lines before it show that it is the rest of one:
    the file may be somebody else's.

    Args:
        path: the file; one that holds something else is an InputError, and left as it is.
        read: what a line says; any error that comes of unexpected JSON is a line of another kind.
        what: what a line should be, for the error.
        to_append: make the file ready for :func:`append_line`: its folder is made, it need not exist yet, and the rest
            of a last line is removed, or the next would be glued to it. No process writes to it in the meantime.
    """
    try:
        if to_append:
            path.parent.mkdir(parents=True, exist_ok=True)
        with _turn(path) if to_append else nullcontext():
            return _lines(path, read, what, to_append)
    except OSError as error:
        done = "opened" if to_append else "read"
        raise InputError(f"cannot be {done} ({error.strerror or error})", path=path) from None


def _turn(path: Path) -> FileLock:
    """Return a lock for changing a file: the half-written line of another process must not be removed as a rest."""
    return FileLock(path.with_name(f".{path.name}.lock"), poll_interval=0.01)


def _lines(path: Path, read: Callable[[str], Said], what: str, to_append: bool) -> list[Said]:
    content = path.read_bytes() if path.exists() or not to_append else b""
    # Not splitlines: a text in JSON may hold separators such as U+2028 as they are.
    *ended, last = content.split(b"\n")
    said: list[Said] = []
    for number, line in enumerate([*ended, last] if last else ended, start=1):
        row, summed, kept = line.rpartition(_SUM)
        if summed and kept != _sum(row):
            problem = "does not fit its checksum, as it was damaged or changed; remove the line, or its crc32"
            raise InputError(problem, path=path, line=number)
        try:
            said.append(read(line.decode("utf-8")))
        except MALFORMED:
            if not said or number <= len(ended):
                more = "; name another file, or remove this one" if to_append else ""
                raise InputError(f"not {what}{more}", path=path, line=number) from None
            logger.warning("%s: the last line is cut off and left out", path)
            if to_append:
                os.truncate(path, len(content) - len(last))
            return said
    if last and to_append:
        _append(path, b"\n")
    return said


_SUM = b', "crc32": "'  # nowhere else: inside of a text the quotation marks have backslashes


def _sum(row: bytes) -> bytes:
    return b'%08x"}' % zlib.crc32(row)


def append_line(path: Path, text: str) -> None:
    """Append an object in JSON, one thread or process at a time, with its checksum, or leave the file as it was.

    No end of the process can lose it then.
    """
    # Half a character has no UTF-8; written with a backslash it is what JSON reads as the same half.
    row = text.encode("utf-8", "backslashreplace").removesuffix(b"}")
    try:
        with _turn(path):
            _append(path, row + _SUM + _sum(row) + b"\n")
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", path=path) from None


def _append(path: Path, line: bytes) -> None:
    with open(path, "ab+", buffering=0) as file:  # with a buffer, closing would try to write the rest again
        whole = _whole_lines(file) if line != b"\n" else file.tell()
        try:
            while line:
                line = line[file.write(line) :]
        except OSError:
            file.truncate(whole)
            raise


def _whole_lines(file: FileIO) -> int:
    """Return the size of a file after ending or removing the line that a process was killed at while it wrote."""
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
