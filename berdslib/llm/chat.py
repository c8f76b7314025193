"""Chat models behind one call: the protocol, and an OpenAI-compatible endpoint.

The key comes from the environment when a request is made; it is kept in no object, and no message shows it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import math
import os
import re
import ssl
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from berdslib.errors import BerdsError, InputError, MissingDataError

logger = logging.getLogger(__name__)

Messages = Sequence[dict[str, str]]
_LARGEST = 16 * 1024 * 1024  # bytes of an answer; one of 1,500 tokens with 20 alternatives each has about two million
_SHORTEST_SECRET = 4  # blotting out shorter ones would make holes in ordinary words
_MALFORMED = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError)


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
    """An OpenAI-compatible chat endpoint; may be used by several threads at once. Needs ``berdslib[chat]``.

    Args:
        model: the model's name there.
        base_url: up to and without "/chat/completions"; None for the environment variable BERDS_CHAT_URL, or OpenAI. A
            user name and password in it are sent as such, in place of the key; a query is sent with each request.
        key_variable: the environment variable that holds the key; it may be unset for a server without keys.
        max_tokens: longest answer.
        logprobs: ask for the alternatives of each token (up to 20); servers may not offer them.
        schema: a JSON schema that the answer must follow. A server that takes none is asked without it from then on.
        per_minute: most requests a minute, 0 for no limit.
        max_retries: further attempts after a failure that may pass (no answer, a broken one, 408, 409, 429, 5xx).
        timeout: seconds without a sign of life after which an attempt has failed.
        deadline: most seconds for a request with all its attempts and the waits that the server asks for.
        prices: per million prompt and completion tokens.

    Raises:
        InputError: an unusable address or setting.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key_variable: str = "OPENAI_API_KEY",
        max_tokens: int = 8,
        logprobs: bool = True,
        schema: dict[str, Any] | None = None,
        per_minute: float = 0,
        max_retries: int = 5,
        timeout: float = 60.0,
        deadline: float = 600.0,
        prices: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        if max_tokens < 1 or max_retries < 0:
            raise InputError(f"max_tokens must be from 1 and max_retries from 0, not {max_tokens} and {max_retries}")
        if not (timeout > 0 and deadline > 0):
            raise InputError(f"timeout and deadline must be above 0 seconds, not {timeout} and {deadline}")
        if not per_minute >= 0:
            raise InputError(f"per_minute must be 0 (no limit) or more, not {per_minute}")
        self._address = _address(base_url or os.environ.get("BERDS_CHAT_URL") or "https://api.openai.com/v1")
        self.model, self.key_variable, self.prices = model, key_variable, prices
        self.max_retries, self.timeout, self.deadline = max_retries, timeout, deadline
        self._settings: dict[str, Any] = {"model": model, "temperature": 0, "max_tokens": max_tokens}
        if logprobs:
            self._settings |= {"logprobs": True, "top_logprobs": 20}
        shape = ""
        if schema is not None:
            # Not "strict": OpenAI's strict schemas have to list all names, and here the model makes them up.
            form = {"name": "answer", "schema": schema, "strict": False}
            self._settings["response_format"] = {"type": "json_schema", "json_schema": form}
            digest = hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()[:8]
            shape = f",schema={digest}"
        self.url = self._redact(self._address.plain)
        self.id = f"{model}@{self.url}(max_tokens={max_tokens},logprobs={logprobs}{shape})"
        self.usage = Usage()
        self._pause = 60.0 / per_minute if per_minute else 0.0
        self._next_start, self._lock = 0.0, threading.Lock()

    def complete(self, messages: Messages) -> Reply:
        """Return the answer; waits and tries again after failures that may pass.

        Raises:
            ChatError: refused, failed for good, or an answer in another form.
            InputError: a message with half a character (a lone surrogate), which cannot be sent.
            MissingDataError: the client is not installed.
        """
        if any("\ud800" <= char <= "\udfff" for message in messages for char in message["content"]):
            raise InputError("a message holds half a character (a lone surrogate), which cannot be sent")
        self._wait_for_turn()
        return self._read(_run(self._post(messages)))

    async def _post(self, messages: Messages) -> bytes:
        openai, settings = _openai(), self._settings
        try:
            # A client for each request: it lives as long as the key is needed, and as its event loop.
            async with _bounded(openai, self.timeout) as http, asyncio.timeout(self.deadline):
                key, headers = self._credentials()
                client = openai.AsyncOpenAI(
                    api_key=key,
                    base_url=self._address.plain,
                    default_query=dict(parse_qsl(self._address.query, keep_blank_values=True)),
                    max_retries=self.max_retries,
                    timeout=self.timeout,
                    http_client=http,
                )
                create = client.chat.completions.with_raw_response.create
                return bytes((await create(messages=list(messages), extra_headers=headers, **settings)).content)
        except openai.APIStatusError as error:
            said = self._redact(_server_message(error))
            about_schema = error.status_code in (400, 422) and re.search("response_format|schema", said)
            if "response_format" not in settings or not about_schema:
                raise self._refusal(error.status_code, said) from None
        except openai.APIConnectionError as error:
            why = self._redact(f"{type(error.__cause__).__name__}: {error.__cause__}")[:300]
            raise ChatError(f"no answer from {self.url} after {self.max_retries + 1} attempts: {why}") from None
        except TimeoutError:
            raise ChatError(f"no answer from {self.url} within {self.deadline:g} seconds") from None
        logger.warning("%s takes no schema and is asked without: %s", self.url, said)
        self._settings = {name: value for name, value in settings.items() if name != "response_format"}
        return await self._post(messages)

    def _credentials(self) -> tuple[str, dict[str, Any]]:
        """Return the key, and the header that stands in its place where there is another login or none."""
        if self._address.userinfo:
            return "none", {"Authorization": f"Basic {self._address.login()}"}
        key = os.environ.get(self.key_variable, "").strip()
        if not (key.isprintable() and key.isascii()):  # a line break would be quoted in the error of the client
            raise ChatError(f"the variable {self.key_variable} holds characters that no key has")
        return (key, {}) if key else ("none", {"Authorization": _openai().Omit()})

    def _read(self, raw: bytes) -> Reply:
        try:
            answer = json.loads(raw)
            choice = answer["choices"][0]
            text = choice["message"]["content"] or ""
            if not isinstance(text, str):
                raise TypeError
            tokens = (choice.get("logprobs") or {}).get("content") or []
            listed = [(t["token"], t["logprob"]) for t in tokens[0]["top_logprobs"]] if tokens else []
            reply = Reply(text, alternatives(listed))
        except _MALFORMED as error:
            raise ChatError(f"{self.url} answered in another form than OpenAI's ({type(error).__name__})") from None
        self._count(answer.get("usage"))
        return reply

    def _count(self, used: Any) -> None:
        """Add up tokens; what a server says about them is no reason to throw a good answer away."""
        told = used if isinstance(used, dict) else {}
        counts = [told.get(f"{kind}_tokens") for kind in ("prompt", "completion")]
        prompt, completion = (n if isinstance(n, int) and 0 <= n < 1e9 else 0 for n in counts)
        cost = (prompt * self.prices[0] + completion * self.prices[1]) / 1e6
        with self._lock:
            old = self.usage
            self.usage = Usage(old.requests + 1, old.prompt_tokens + prompt, old.completion_tokens + completion,
                               old.cost + cost)  # fmt: skip

    def _wait_for_turn(self) -> None:
        with self._lock:
            start = max(time.monotonic(), self._next_start)
            self._next_start = start + self._pause
        time.sleep(max(0.0, start - time.monotonic()))

    def _refusal(self, status: int, said: str) -> ChatError:
        if status in (401, 403):
            state = "is refused" if os.environ.get(self.key_variable) else "is not set"
            return ChatError(f"{self.url}: status {status}; the key in the variable {self.key_variable} {state}")
        return ChatError(f"{self.url}: status {status}: {said}")

    def _redact(self, text: str) -> str:
        """Return a text without the key, and without user name, password and query of the address."""
        secrets = {os.environ.get(self.key_variable, "").strip(), *self._address.secrets()}
        for secret in sorted((s for s in secrets if len(s) >= _SHORTEST_SECRET), key=len, reverse=True):
            text = text.replace(secret, "…")
        return re.sub(r"\bsk-\S+", "…", text)


def alternatives(listed: Sequence[Sequence[Any]]) -> tuple[tuple[str, float], ...]:
    """Return (token, log-probability) pairs as they came from outside, checked.

    Raises:
        TypeError: no texts and numbers.
        ValueError: a number that is no log-probability.
    """
    for token, logprob in listed:
        # Rounding may take the logarithm of a sure thing slightly above 0.
        if not isinstance(token, str) or isinstance(logprob, bool) or not isinstance(logprob, int | float):
            raise TypeError("a token and its log-probability were expected")
        if not -math.inf <= logprob <= 0.01:
            raise ValueError("a log-probability was expected")
    return tuple((token, float(logprob)) for token, logprob in listed)


@dataclass(frozen=True, repr=False)
class _Address:
    """Where an endpoint is. Each part may hold a key, so there is no way to print it."""

    plain: str
    userinfo: str
    query: str

    def login(self) -> str:
        return base64.b64encode(unquote(self.userinfo).encode()).decode()

    def secrets(self) -> set[str]:
        parts = {self.userinfo, *self.userinfo.split(":"), self.query, *re.split("[&=]", self.query)}
        return {self.login(), *parts, *map(unquote, parts)}


def _address(base: str) -> _Address:
    try:
        parts = urlsplit(base.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:  # not shown: there may be a password in it
        raise InputError("a chat endpoint must be an http or https address, such as https://api.openai.com/v1")
    userinfo, _, host = parts.netloc.rpartition("@")
    return _Address(f"{parts.scheme}://{host}{parts.path.rstrip('/')}", userinfo, parts.query)


def _openai() -> Any:
    try:
        import openai
    except ImportError:
        raise MissingDataError(
            "the client for chat endpoints is not installed; install it with:  pip install 'berdslib[chat]'"
        ) from None
    return openai


def _bounded(openai: Any, timeout: float) -> Any:
    """Return an HTTP client that reads answers up to a size and follows no redirect, which would take the key along."""
    for name in ("httpx", "httpx2"):  # which log the address of every request, whatever is in it
        logging.getLogger(name).addFilter(_host_only)  # adding the same filter again changes nothing

    class Bounded(openai.DefaultAsyncHttpxClient):
        async def send(self, request: Any, **options: Any) -> Any:
            response = await super().send(request, **{**options, "stream": True})
            body = bytearray()
            try:
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > _LARGEST:
                        raise ChatError(f"{request.url.host} sent more than {_LARGEST} bytes")
            finally:
                await response.aclose()
            decoded = ("content-encoding", "content-length", "transfer-encoding")
            headers = [(k, v) for k, v in response.headers.multi_items() if k.lower() not in decoded]
            return type(response)(response.status_code, headers=headers, content=bytes(body), request=request)

    return Bounded(follow_redirects=False, verify=_certificates(), timeout=timeout)


@cache
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


def _host_only(record: logging.LogRecord) -> bool:
    """Leave of a chat endpoint's address only the host in a log; a logging filter."""

    def shown(value: Any) -> Any:
        return value.host if str(getattr(value, "path", "")).endswith("/chat/completions") else value

    if isinstance(record.args, tuple):
        record.args = tuple(map(shown, record.args))
    return True


def _run(request: Coroutine[Any, Any, bytes]) -> bytes:
    """Run a request to its end, also where an event loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(request)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, request).result()


def _server_message(error: Any) -> str:
    """Return what the server says is wrong."""
    try:
        found = json.loads(error.response.content)["error"]["message"]
    except _MALFORMED:
        return str(error.response.reason_phrase)
    return " ".join(str(found).split())[:300]
