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
import random
import re
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from berdslib.errors import BerdsError, InputError, MissingDataError

logger = logging.getLogger(__name__)

Messages = Sequence[dict[str, str]]
_LARGEST = 16 * 1024 * 1024  # bytes of an answer; one of 1,500 tokens with 20 alternatives each has about two million
_SHORTEST_SECRET = 4  # blotting out shorter ones would make holes in ordinary words
_KEY_LENGTH = 16  # for an answer shorter ones may be ordinary words: servers without keys are given "EMPTY" or "test"
# Tokens that a chat template adds: around each message, and before all (some write a system message of their own).
_MARKS, _OPENING = 16, 64
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds
# Statuses of a gateway that did not hear back: whoever is behind it may have answered, and billed.
_BILLED = frozenset((502, 504, 520, 522, 524))
_UNSENT = ("ConnectError", "ConnectTimeout", "PoolTimeout")  # what the client says when nothing was sent
# What a server says, as a status or in a word besides or in place of one: it may pass; it is about what was sent; the
# account has no money left, which OpenAI says with 429 or 400 too.
_PASSING = frozenset(
    ("408", "409", "429", "rate_limit_exceeded", "rate_limit_error", "overloaded_error", "server_error")
)
_REFUSED = frozenset(("400", "413", "422", "content_filter", "content_policy_violation", "context_length_exceeded"))
_NO_MONEY = frozenset(("insufficient_quota", "billing_hard_limit_reached"))
_LOOK = 0.05  # seconds between two looks at whether it is given up
_MALFORMED = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError)


class Reply(NamedTuple):
    """A model's answer: ``text``; ``first_token`` its alternatives as (token, log-probability), where offered.

    ``finish`` is why it ended, in the server's word: "stop", or "length" where it was cut off at the longest answer.
    The numbers of tokens are the server's too, 0 where it does not say.
    """

    text: str
    first_token: tuple[tuple[str, float], ...] = ()
    finish: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True)
class Tokens:
    """How many tokens were read and written."""

    prompt: int = 0
    completion: int = 0

    @classmethod
    def told(cls, prompt: Any, completion: Any) -> Tokens:
        """Return numbers that came from outside, checked.

        Raises:
            TypeError: no whole numbers.
            ValueError: numbers that cannot be right.
        """
        for number in (prompt, completion):
            if not isinstance(number, int) or isinstance(number, bool):
                raise TypeError("a whole number of tokens was expected")
            if not 0 <= number < 1e9:
                raise ValueError("no request has that many tokens")
        return cls(prompt, completion)

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(self.prompt + other.prompt, self.completion + other.completion)

    def cost(self, prices: tuple[float, float]) -> float:
        """Return what they cost, by prices for a million of each kind."""
        return (self.prompt * prices[0] + self.completion * prices[1]) / 1e6


def most_tokens(messages: Messages, max_tokens: int, more: str = "") -> Tokens:
    """Return the most tokens that a request can be billed for: no tokenizer makes two tokens of one byte.

    Args:
        messages: what is sent.
        max_tokens: longest answer.
        more: what the server may show the model besides, such as a schema.
    """
    texts = [text for message in messages for text in message.values()]
    sizes = (len(text.encode("utf-8", "replace")) for text in (*texts, more))
    return Tokens(sum(sizes) + _MARKS * len(messages) + _OPENING, max_tokens)


@dataclass
class Bill:
    """What an attempt is taken to have ``used``: the most that it can, unless more is known."""

    used: Tokens

    def settle(self, reply: Reply) -> None:
        """Take what the server says it used, if it says so."""
        if reply.prompt_tokens:
            self.used = Tokens(reply.prompt_tokens, reply.completion_tokens)

    def cancel(self) -> None:
        """The server cannot have billed anything."""
        self.used = Tokens()


# Set in a context by who gives up what is under way there: then no wait goes on and no other attempt begins.
given_up: ContextVar[threading.Event] = ContextVar("given_up")
_NEVER = threading.Event()

# Called around each attempt with the most that it can use; it may refuse with a ChatError.
Meter = Callable[[Tokens], AbstractContextManager[Bill]]


@contextmanager
def unmetered(most: Tokens) -> Iterator[Bill]:
    """Let an attempt pass, whatever it costs."""
    yield Bill(most)


class ChatModel(Protocol):
    """Answers a list of messages; ``id`` names what the answers depend on."""

    id: str

    def complete(self, messages: Messages) -> Reply:
        """Return the answer to messages of the form {"role": …, "content": …}."""
        ...


class ChatError(BerdsError):
    """An endpoint that refuses, fails for good, or answers in another form."""


class UnavailableError(ChatError):
    """Nothing came of a request after all attempts, for a reason that may pass."""


class RefusedError(ChatError):
    """An endpoint that refuses this request for what is in it; asking again would not help, others may be answered."""


class _PassingError(Exception):
    """An attempt that failed, for a reason that may pass; ``wait`` is the time in seconds that the server asks for."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.wait = wait


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
        max_retries: further attempts after a failure that may pass (no answer, a broken one, 408, 409, 429, 5xx), with
            longer and longer waits, or those that the server asks for.
        timeout: seconds without a sign of life after which an attempt has failed.
        deadline: most seconds for a request with all its attempts and waits.

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
    ) -> None:
        if max_tokens < 1 or max_retries < 0:
            raise InputError(f"max_tokens must be from 1 and max_retries from 0, not {max_tokens} and {max_retries}")
        if not (timeout > 0 and deadline > 0):
            raise InputError(f"timeout and deadline must be above 0 seconds, not {timeout} and {deadline}")
        if not per_minute >= 0:
            raise InputError(f"per_minute must be 0 (no limit) or more, not {per_minute}")
        self._address = _address(base_url or os.environ.get("BERDS_CHAT_URL") or "https://api.openai.com/v1")
        self.model, self.key_variable = model, key_variable
        self.max_tokens, self.max_retries, self.timeout, self.deadline = max_tokens, max_retries, timeout, deadline
        self.meter: Meter = unmetered  # who is asked before each attempt; see berdslib.llm.budget
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
        self._pause = 60.0 / per_minute if per_minute else 0.0
        self._next_start, self._lock = 0.0, threading.Lock()

    def complete(self, messages: Messages) -> Reply:
        """Return the answer; waits and tries again after failures that may pass.

        Raises:
            UnavailableError: no answer that can be read after all attempts; later there may be one.
            RefusedError: refused for what is in the messages.
            ChatError: refused whatever is in them, or failed for good.
            InputError: a message with half a character (a lone surrogate), which cannot be sent.
            MissingDataError: the client is not installed.
        """
        if any("\ud800" <= char <= "\udfff" for message in messages for char in message["content"]):
            raise InputError("a message holds half a character (a lone surrogate), which cannot be sent")
        if given_up.get(_NEVER).wait(self._turn()):
            raise UnavailableError(f"{self.url} was not asked, since all was given up")
        return _run(self._answer(messages, self.meter))

    async def _answer(self, messages: Messages, meter: Meter) -> Reply:
        openai, attempts, why = _openai(), self.max_retries + 1, ""
        try:
            # A client for each request: it lives as long as the key is needed, and as its event loop.
            async with _bounded(openai, self.timeout) as http, asyncio.timeout(self.deadline) as limit:
                for attempt in range(attempts):
                    try:
                        return await self._attempt(openai, http, messages, meter)
                    except _PassingError as failure:
                        why, wait = str(failure), failure.wait or _back_off(attempt)
                    if attempt + 1 < attempts:
                        left = (limit.when() or math.inf) - asyncio.get_running_loop().time()
                        if wait > left:
                            why, attempts = f"{why}; it asks to wait {wait:g} seconds", attempt + 1
                            break
                        if not await _wait(max(wait, self._turn())):
                            why, attempts = f"{why}; it was given up", attempt + 1
                            break
        except TimeoutError:
            so_far = f", before that {why}" if why else ""
            raise UnavailableError(f"no answer from {self.url} within {self.deadline:g} seconds{so_far}") from None
        times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        raise UnavailableError(f"no answer from {self.url} after {times}: {why}")

    async def _attempt(self, openai: Any, http: Any, messages: Messages, meter: Meter) -> Reply:
        """Ask once, and say to the meter what it may have cost."""
        key, headers = self._credentials()
        client = openai.AsyncOpenAI(
            api_key=key,
            base_url=self._address.plain,
            default_query=dict(parse_qsl(self._address.query, keep_blank_values=True)),
            max_retries=0,  # its own attempts would go past the meter
            timeout=self.timeout,
            http_client=http,
        )
        settings = self._settings
        form = json.dumps(settings.get("response_format", ""))
        with meter(most_tokens(messages, self.max_tokens, form)) as bill:
            try:
                create = client.chat.completions.with_raw_response.create
                raw = (await create(messages=list(messages), extra_headers=headers, **settings)).content
            except openai.APIStatusError as error:
                if error.status_code not in _BILLED:
                    bill.cancel()
                complaint = _complaint(error.response.content) or _Complaint(str(error.response.reason_phrase))
                said = self._said(complaint)
                about_schema = error.status_code in (400, 422) and re.search("response_format|schema", said)
                if "response_format" not in settings or not about_schema:
                    raise self._failure(complaint, error.status_code, _asked_wait(error.response.headers)) from None
            except openai.APIConnectionError as error:
                if type(error.__cause__).__name__ in _UNSENT:
                    bill.cancel()
                why = self._redact(f"{type(error.__cause__).__name__}: {error.__cause__}")[:300]
                raise _PassingError(why) from None
            else:
                reply = self._read(raw)
                bill.settle(reply)
                return reply
        logger.warning("%s takes no schema and is asked without: %s", self.url, said)
        self._settings = {name: value for name, value in settings.items() if name != "response_format"}
        if given_up.get(_NEVER).is_set():
            raise _PassingError(said)
        return await self._attempt(openai, http, messages, meter)

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
            text, finish = choice["message"]["content"] or "", choice.get("finish_reason") or ""
            if not isinstance(text, str) or not isinstance(finish, str):
                raise TypeError
            tokens = (choice.get("logprobs") or {}).get("content") or []
            listed = [(t["token"], t["logprob"]) for t in tokens[0]["top_logprobs"]] if tokens else []
            first = alternatives(listed)
        except _MALFORMED as error:
            if complaint := _complaint(raw):
                raise self._failure(complaint) from None
            raise _PassingError(f"it answered in another form than OpenAI's ({type(error).__name__})") from None
        used = _told(answer.get("usage"))
        for secret in self._secrets(_KEY_LENGTH):  # answers are written to files
            text = text.replace(secret, "…")
        return Reply(text, first, finish, used.prompt, used.completion)

    def _turn(self) -> float:
        """Return how many seconds the next request has to wait for the limit of requests a minute."""
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next_start)
            self._next_start = start + self._pause
        return start - now

    def _failure(self, complaint: _Complaint, status: int = 200, wait: float = 0.0) -> Exception:
        """Return what a complaint means; one that comes with status 200 may name a better one."""
        if status == 200:
            status = next((int(code) for code in complaint.codes if re.fullmatch("[45][0-9]{2}", code)), 200)
        said, codes = self._said(complaint), {str(status), *(code for code in complaint.codes if not code.isdigit())}
        what = f"{self.url}: status {status}: {said}"
        if status in (401, 403):
            state = "is refused" if os.environ.get(self.key_variable) else "is not set"
            return ChatError(f"{self.url}: status {status}; the key in the variable {self.key_variable} {state}")
        if codes & _NO_MONEY:  # which no waiting mends
            return ChatError(what)
        if codes & _REFUSED:
            return RefusedError(what)
        if codes & _PASSING or status >= 500:
            return _PassingError(f"status {status}: {said}", wait)
        return UnavailableError(what) if status == 200 else ChatError(what)

    def _said(self, complaint: _Complaint) -> str:
        return self._redact(" ".join(complaint.message.split()))[:300]

    def _redact(self, text: str) -> str:
        """Return a text without the key, and without user name, password and query of the address."""
        for secret in self._secrets(_SHORTEST_SECRET):
            text = text.replace(secret, "…")
        return re.sub(r"\bsk-\S+", "…", text)

    def _secrets(self, length: int) -> list[str]:
        """Return what nobody may see, from a length on, the longest first."""
        secrets = {os.environ.get(self.key_variable, "").strip(), *self._address.secrets()}
        return sorted((secret for secret in secrets if len(secret) >= length), key=len, reverse=True)


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


def _run(request: Coroutine[Any, Any, Reply]) -> Reply:
    """Run a request to its end, also where an event loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(request)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, request).result()


def _told(used: Any) -> Tokens:
    """Return what a server says it used; what it says there is no reason to throw a good answer away."""
    try:
        return Tokens.told(used["prompt_tokens"], used["completion_tokens"])
    except _MALFORMED:
        return Tokens()


def _back_off(attempt: int) -> float:
    """Return how many seconds to wait after an attempt, counted from 0; not the same for all who failed at once."""
    return random.uniform(0.75, 1.25) * min(_FIRST_WAIT * 2.0**attempt, _LONGEST_WAIT)


def _asked_wait(headers: Mapping[str, str]) -> float:
    """Return how many seconds a server asks to wait: a number, or until a date; 0 if it does not ask."""
    asked = headers.get("retry-after", "")
    try:
        wait = float(asked)
    except ValueError:
        try:
            wait = parsedate_to_datetime(asked).timestamp() - time.time()
        except (ValueError, OverflowError, OSError):  # no date, or one that no clock reaches
            return 0.0
    return wait if wait > 0 else 0.0


class _Complaint(NamedTuple):
    """What a server says is wrong: a message for people, and words or numbers for programs."""

    message: str
    codes: frozenset[str] = frozenset()


def _complaint(raw: bytes) -> _Complaint | None:
    """Return what a server says is wrong, None where it does not say so."""
    try:
        body = json.loads(raw)
        error = body if body.get("object") == "error" else body["error"]
        if isinstance(error, str):
            return _Complaint(error)
        return _Complaint(str(error["message"]), frozenset(str(error.get(name)) for name in ("code", "type", "status")))
    except _MALFORMED:
        return None


async def _wait(seconds: float) -> bool:
    """Wait, and return whether to go on: not where all is given up."""
    stop, end = given_up.get(_NEVER), time.monotonic() + seconds
    while not stop.is_set() and (left := end - time.monotonic()) > 0:
        await asyncio.sleep(min(left, _LOOK))
    return not stop.is_set()
