"""Chat models behind one call: an OpenAI-compatible endpoint, or answers recorded in a file.

The key comes from the environment when a request is made; it is kept in no object, and no message shows it.
"""

from __future__ import annotations

import contextlib
import email.utils
import hashlib
import json
import logging
import math
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from berdslib.errors import BerdsError, InputError, MissingDataError

logger = logging.getLogger(__name__)

Messages = Sequence[dict[str, str]]
_TRANSIENT = {408, 409, 425, 429, 500, 502, 503, 504}
_LONGEST_WAIT = 300.0  # seconds that a server may make us wait


class Reply(NamedTuple):
    """A model's answer: ``text``; ``first_token`` its alternatives as (token, log-probability), where offered."""

    text: str
    first_token: tuple[tuple[str, float], ...] = ()


class Usage(NamedTuple):
    """What was used so far; ``cost`` in the currency of the prices given, 0 without prices."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


class ChatModel(Protocol):
    """Answers a list of messages; ``id`` names what the answers depend on."""

    id: str

    def complete(self, messages: Messages) -> Reply:
        """Return the answer to messages of the form {"role": …, "content": …}."""
        ...


class ChatError(BerdsError):
    """An endpoint that refuses, fails for good, or answers in another form."""


class Endpoint:
    """An OpenAI-compatible chat endpoint; may be used by several threads at once.

    Args:
        model: the model's name there.
        base_url: up to and without "/chat/completions"; None for the environment variable BERDS_CHAT_URL, or OpenAI.
        key_variable: the environment variable that holds the key; it may be unset for a server without keys.
        max_tokens: longest answer.
        logprobs: ask for the alternatives of each token (up to 20); servers may not offer them.
        per_minute: most requests a minute, 0 for no limit.
        retries: further attempts after a failure that may pass (no answer, 429, 5xx).
        timeout: seconds to wait for an answer.
        prices: per million prompt and completion tokens.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key_variable: str = "OPENAI_API_KEY",
        max_tokens: int = 8,
        logprobs: bool = True,
        per_minute: float = 0,
        retries: int = 5,
        timeout: float = 60.0,
        prices: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        base = base_url or os.environ.get("BERDS_CHAT_URL") or "https://api.openai.com/v1"
        if not base.startswith(("https://", "http://")):
            raise InputError(f"a chat endpoint must be an http or https address, not {base!r}")
        self.url, self.model = f"{base.rstrip('/')}/chat/completions", model
        self.key_variable, self.timeout, self.retries, self.prices = key_variable, timeout, retries, prices
        self._settings: dict[str, Any] = {"model": model, "temperature": 0, "max_tokens": max_tokens}
        if logprobs:
            self._settings |= {"logprobs": True, "top_logprobs": 20}
        self.id = f"{model}(max_tokens={max_tokens},logprobs={logprobs})"
        self.usage = Usage()
        self._pause = 60.0 / per_minute if per_minute else 0.0
        self._next_start, self._lock = 0.0, threading.Lock()

    def complete(self, messages: Messages) -> Reply:
        """Return the answer; waits and tries again after failures that may pass.

        Raises:
            ChatError: refused, failed for good, or an answer in another form.
        """
        body = json.dumps({**self._settings, "messages": list(messages)}).encode()
        for attempt in range(self.retries + 1):
            self._wait_for_turn()
            try:
                return self._read(self._post(body))
            except urllib.error.HTTPError as error:
                if error.code not in _TRANSIENT or attempt == self.retries:
                    raise self._refusal(error) from None
                wait = min(retry_after(error.headers.get("Retry-After", "")), _LONGEST_WAIT)
                self._back_off(attempt, wait, f"status {error.code}")
            except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
                if attempt == self.retries:
                    raise ChatError(f"no answer from {self.url} after {attempt + 1} attempts: {error}") from None
                self._back_off(attempt, 0.0, str(error))
        raise AssertionError("the last attempt returns or raises")

    def _post(self, body: bytes) -> Any:
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(self.key_variable, "").strip():
            if not key.isprintable():  # a line break would be quoted in the error of the library below
                raise ChatError(f"the variable {self.key_variable} holds characters that no key has")
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self.url, data=body, headers=headers, method="POST")
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=self.timeout) as response:
            return response.read(16 * 1024 * 1024)

    def _read(self, raw: bytes) -> Reply:
        try:
            answer = json.loads(raw)
            choice = answer["choices"][0]
            text = choice["message"]["content"] or ""
            tokens = (choice.get("logprobs") or {}).get("content") or []
            first = tuple((t["token"], float(t["logprob"])) for t in tokens[0]["top_logprobs"]) if tokens else ()
            used = answer.get("usage") or {}
            counts = int(used.get("prompt_tokens", 0)), int(used.get("completion_tokens", 0))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise ChatError(f"{self.url} answered in another form than OpenAI's ({type(error).__name__})") from None
        cost = sum(n * price for n, price in zip(counts, self.prices, strict=True)) / 1e6
        with self._lock:
            old = self.usage
            self.usage = Usage(old.requests + 1, old.prompt_tokens + counts[0], old.completion_tokens + counts[1],
                               old.cost + cost)  # fmt: skip
        return Reply(text, first)

    def _wait_for_turn(self) -> None:
        with self._lock:
            start = max(time.monotonic(), self._next_start)
            self._next_start = start + self._pause
        time.sleep(max(0.0, start - time.monotonic()))

    def _back_off(self, attempt: int, asked: float, why: str) -> None:
        # Full jitter: many clients that failed together must not come back together.
        seconds = asked or random.uniform(0, min(60.0, 2.0**attempt))
        logger.info("%s: %s; trying again in %.1f s", self.url, why, seconds)
        time.sleep(seconds)

    def _refusal(self, error: urllib.error.HTTPError) -> ChatError:
        if error.code in (401, 403):
            state = "is refused" if os.environ.get(self.key_variable) else "is not set"
            return ChatError(f"{self.url}: status {error.code}; the key in the variable {self.key_variable} {state}")
        return ChatError(f"{self.url}: status {error.code}: {_server_message(error)}")


def _server_message(error: urllib.error.HTTPError) -> str:
    """Return what the server says is wrong, without anything that looks like a key."""
    try:
        found = json.loads(error.read(10_000))["error"]["message"]
    except (ValueError, KeyError, TypeError, OSError):
        return str(error.reason)
    return " ".join(w for w in str(found)[:300].split() if not w.startswith("sk-"))


def retry_after(value: str) -> float:
    """Return the seconds that a Retry-After header (seconds or a date) asks to wait; 0 for none or nonsense.

    >>> retry_after("120"), retry_after("soon")
    (120.0, 0.0)
    """
    with contextlib.suppress(ValueError):
        seconds = float(value)
        return max(seconds, 0.0) if math.isfinite(seconds) else 0.0
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    return 0.0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """An endpoint that sends us elsewhere would be handed the key there, so a redirect is an error."""

    def redirect_request(self, *_: Any) -> None:
        """Return None: the redirect's status becomes an HTTPError."""


class Recorded:
    """Answers from a JSONL file, and nothing else: the same experiment again, without network or cost.

    Args:
        path: a file that :class:`Recording` wrote.
        model_id: the id of the model whose answers are wanted.

    Raises:
        InputError: the file cannot be read.
    """

    def __init__(self, path: Path, model_id: str) -> None:
        self.path, self.id = path, model_id
        self._replies: dict[str, Reply] = {}
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot be read ({type(error).__name__})", path=path) from None
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                first = tuple((str(t), float(p)) for t, p in row.get("first_token", []))
                self._replies[row["key"]] = Reply(row["text"], first)
            except (ValueError, KeyError, TypeError, AttributeError):
                if number == len(lines):  # a recording that was killed in the middle of its last line
                    logger.warning("%s: the last line is cut off and left out", path)
                    continue
                raise InputError("not a recorded answer", path=path, line=number) from None

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
        path: JSONL file to append to.
    """

    def __init__(self, model: ChatModel, path: Path) -> None:
        self.model, self.path, self.id = model, path, model.id
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_cut_off_line(path)

    def complete(self, messages: Messages) -> Reply:
        """Return the model's answer, after writing it down."""
        reply = self.model.complete(messages)
        row = {
            "key": exchange_key(self.id, messages),
            "model": self.id,
            "messages": list(messages),
            "text": reply.text,
            "first_token": [list(pair) for pair in reply.first_token],
        }
        with self._lock, open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return reply


def _drop_cut_off_line(path: Path) -> None:
    """Remove what a killed recording left behind the last whole line, or the next exchange would be glued to it."""
    if path.exists() and (content := path.read_bytes()) and not content.endswith(b"\n"):
        with open(path, "r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)


def exchange_key(model_id: str, messages: Messages) -> str:
    """Return the content hash of an exchange; the prompt's wording is part of the messages, so it is in it too."""
    text = json.dumps([model_id, [dict(m) for m in messages]], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
