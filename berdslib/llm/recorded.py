"""Recordings of a chat model's answers in a file, which can later replace the model."""

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
    """A chat model that answers from a file, and calls another model only for answers that the file lacks.

    New answers are added to the file at once, so an interrupted experiment can be resumed, and a repeated one costs
    nothing. Any number of threads may share the object, and several processes may record in one file. Without a model,
    only recorded answers are available: the experiment runs again without network or cost.

    Args:
        path: a JSONL file with one line per exchange. With a model, the file need not exist yet. If an answer cannot be
            written, for example because the disk is full, an InputError is raised, and the file stays unchanged.
        model: the model that gives the missing answers.
        model_id: without a model, the id of the model whose answers are used; None for the only model in the file.

    Raises:
        InputError: a file that is unreadable, damaged, or not a recording; or, without a model and a `model_id`, a file
            with answers of no model or of several models.
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
        self._turns: dict[str, threading.Lock] = {}  # one lock per exchange
        self._lock = threading.Lock()
        self._batch = threading.Lock()  # one batch at a time: a conversation in two batches is asked once

    def complete(self, messages: Messages) -> Reply:
        """Return the recorded answer, or else call the model and record its answer.

        Raises:
            MissingDataError: the answer is not recorded, and there is no model.
        """
        key = exchange_key(self.id, messages)
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:  # threads with the same messages share one call
            if key not in self._replies:
                self._record(key, messages, self._ask(messages))
            return self._replies[key]

    @property
    def together(self) -> int:
        """The number of conversations that the model takes in one batch."""
        return getattr(self.model, "together", 1)

    def complete_all(self, conversations: Sequence[Messages]) -> list[Reply]:
        """Return an answer for each conversation; the model answers all unrecorded conversations in one batch."""
        asked = {exchange_key(self.id, messages): messages for messages in conversations}
        with self._batch:
            new = {key: messages for key, messages in asked.items() if key not in self._replies}
            replies = cast(Any, self.model).complete_all(list(new.values())) if new else []
            for (key, messages), reply in zip(new.items(), replies, strict=True):
                self._record(key, messages, reply)
        return [self._replies[exchange_key(self.id, messages)] for messages in conversations]

    def _ask(self, messages: Messages) -> Reply:
        if self.model is None:
            begins = messages[-1]["content"][:80]
            raise MissingDataError(f"{self.path} has no recorded answer of {self.id} to the message {begins!r} …")
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
    """Return the hash of a model's id and the messages, which include the wording of the prompt."""
    text = json.dumps([model_id, [dict(m) for m in messages]], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


# ---------------------------------------------------------------- the file

Exchange = tuple[str, str, Reply]  # key, model and reply
_SUM = b', "crc32": "'  # unique in a line, since quotation marks inside a text are escaped


def _read_file(path: Path, *, to_append: bool) -> list[Exchange]:
    """Return the exchanges in a file; a killed process loses at most the line that it was writing.

    Raises:
        InputError: a file that is unreadable, damaged, or not a recording. An invalid last line counts as truncated
            only if valid exchanges precede it; otherwise the file is not a recording.
    """
    try:
        if to_append:
            path.parent.mkdir(parents=True, exist_ok=True)
        with _turn(path) if to_append else nullcontext():
            content = path.read_bytes() if path.exists() or not to_append else b""
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", path=path) from None
    # Not splitlines, because JSON texts may contain unescaped separators such as U+2028.
    *lines, rest = content.split(b"\n")
    exchanges: list[Exchange] = []
    for number, line in enumerate([*lines, rest] if rest else lines, start=1):
        row, summed, kept = line.rpartition(_SUM)
        if summed and kept != _sum(row):
            problem = "does not match its checksum; remove the line, or only its crc32 if you edited the line"
            raise InputError(problem, path=path, line=number)
        try:
            exchanges.append(_exchange(line))
        except MALFORMED:
            if not exchanges or number <= len(lines):
                raise InputError("is not a recorded answer", path=path, line=number) from None
            logger.warning("%s: ignoring the last line, which is cut off", path)
    return exchanges


def _exchange(line: bytes) -> Exchange:
    row = json.loads(line.decode("utf-8"))
    key = row["key"]
    text = row["text"]
    model = row.get("model", "")
    finish = row.get("finish", "")
    if not all(isinstance(value, str) for value in (key, text, model, finish)):
        raise TypeError("key, text, model and finish must be strings")
    used = row.get("usage", {})  # missing in older recordings
    counts = token_counts(used.get("prompt_tokens", 0), used.get("completion_tokens", 0))
    return key, model, Reply(text, alternatives(row.get("first_token", [])), finish, *counts)


def _only_model(path: Path, exchanges: Sequence[Exchange]) -> str:
    models = sorted({model for _, model, _ in exchanges})
    if len(models) != 1:
        named = f" ({', '.join(models)})" if models else ""
        raise InputError(f"contains answers of {len(models)} models{named}; expected one model", path=path)
    return models[0]


def _sum(row: bytes) -> bytes:
    return b'%08x"}' % zlib.crc32(row)


def _turn(path: Path) -> FileLock:
    """Return a file's lock, which protects a line that another process is writing from removal as a truncated line."""
    return FileLock(path.with_name(f".{path.name}.lock"), poll_interval=0.01)


def _append(path: Path, text: str) -> None:
    """Append a JSON object with its checksum, under the file's lock; if writing fails, leave the file unchanged."""
    # UTF-8 has no unpaired surrogates; backslashreplace writes them as JSON escapes.
    row = text.encode("utf-8", "backslashreplace").removesuffix(b"}")
    line = row + _SUM + _sum(row) + b"\n"
    try:
        # Unbuffered; otherwise closing the file would try to write the remaining bytes again.
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
    """Complete or remove a last line that a killed process left unfinished; return the file's size afterwards."""
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
