"""Chat models behind one call: the protocol, and an OpenAI-compatible endpoint.

The key comes from the environment when a request is made; it is kept in no object, and no message shows it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import math
import os
import random
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from berdslib.errors import BerdsError, InputError

logger = logging.getLogger(__name__)

Messages = Sequence[dict[str, str]]
_LARGEST = 16 * 1024 * 1024  # bytes of an answer; one of 1,500 tokens with 20 alternatives each has about two million
_KEY = "OPENAI_API_KEY"  # the environment variable; it may be unset for a server without keys
_SHORTEST_SECRET = 4  # blotting out shorter ones would make holes in ordinary words
_KEY_LENGTH = 16  # for an answer shorter ones may be ordinary words: servers without keys are given "EMPTY" or "test"
# Tokens that a chat template adds: around each message, and before all (some write a system message of their own).
_MARKS, _OPENING = 16, 64
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds
# Statuses of a gateway that did not hear back: whoever is behind it may have answered, and billed.
_BILLED = frozenset((502, 504, 520, 522, 524))
# What a server says, as a status or in a word besides or in place of one: it may pass; it is about what was sent; the
# account has no money left, which OpenAI says with 429 or 400 too.
_PASSING = {"408", "409", "429", "rate_limit_exceeded", "rate_limit_error", "overloaded_error", "server_error"}
_REFUSED = {"400", "413", "422", "content_filter", "content_policy_violation", "context_length_exceeded"}
_NO_MONEY = {"insufficient_quota", "billing_hard_limit_reached"}
# What comes of reading JSON that is of another form than expected.
MALFORMED = (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError)


class Form(NamedTuple):
    """What an answer has to be: at most ``max_tokens`` long; JSON of a ``schema``, or text of a regular ``pattern``.

    A local model is held to it token by token; to others the request is the same without. It is ``free`` where the
    model finds its own words, and one that falls into repetition is kept from that; a statement repeats the question.
    """

    max_tokens: int
    schema: dict[str, Any] | None = None
    pattern: str = ""
    free: bool = False


class Request(list[dict[str, str]]):
    """Messages that know the form of their answer, None where there is none."""

    def __init__(self, messages: Messages, form: Form | None) -> None:
        super().__init__(messages)
        self.form = form


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


# ---------------------------------------------------------------- what a request can cost


@dataclass(frozen=True)
class Tokens:
    """How many tokens were read and written."""

    prompt: int = 0
    completion: int = 0

    @classmethod
    def told(cls, prompt: Any, completion: Any) -> Tokens:
        """Return numbers that came from outside; TypeError or ValueError where they cannot be right."""
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


# Called around each attempt with the most that it can use; it may refuse with a ChatError.
Meter = Callable[[Tokens], AbstractContextManager[Bill]]


# ---------------------------------------------------------------- an endpoint

# Set in a context by who gives up what is under way there: then no wait goes on and no other attempt begins.
given_up: ContextVar[threading.Event] = ContextVar("given_up")
_NEVER = threading.Event()


class _PassingError(Exception):
    """An attempt that failed, for a reason that may pass; ``wait`` is the time in seconds that the server asks for."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.wait = wait


class Endpoint:
    """An OpenAI-compatible chat endpoint; may be used by several threads at once.

    Args:
        model: the model's name there.
        base_url: up to and without "/chat/completions"; None for the environment variable BERDS_CHAT_URL, or OpenAI. A
            user name and password in it are sent as such, in place of the key; a query is sent with each request.
        max_tokens: longest answer.
        logprobs: ask for the alternatives of each token (up to 20); servers may not offer them.
        schema: a JSON schema that the answer must follow. A server that takes none is asked without it from then on.
        max_retries: further attempts after a failure that may pass (no answer, a broken one, 408, 409, 429, 5xx), with
            longer and longer waits, or those that the server asks for.
        timeout: seconds without a sign of life after which an attempt has failed.
        deadline: most seconds for a request with all its attempts and waits, also where an answer drips.

    Raises:
        InputError: an unusable address or setting.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        max_tokens: int = 8,
        logprobs: bool = True,
        schema: dict[str, Any] | None = None,
        max_retries: int = 5,
        timeout: float = 60.0,
        deadline: float = 600.0,
    ) -> None:
        if max_tokens < 1:
            raise InputError(f"max_tokens must be from 1, not {max_tokens}")
        self._address = _Address(base_url or os.environ.get("BERDS_CHAT_URL") or "https://api.openai.com/v1")
        self.max_tokens, self.max_retries, self.timeout, self.deadline = max_tokens, max_retries, timeout, deadline
        self._settings: dict[str, Any] = {"model": model, "temperature": 0, "max_tokens": max_tokens}
        if logprobs:
            self._settings |= {"logprobs": True, "top_logprobs": 20}
        shape = ""
        if schema is not None:
            # Not "strict": OpenAI's strict schemas have to list all names, and here the model makes them up.
            form = {"name": "answer", "schema": schema, "strict": False}
            self._settings["response_format"] = {"type": "json_schema", "json_schema": form}
            shape = f",schema={hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()[:8]}"
        self.url = self._redact(self._address.plain)
        self.id = f"{model}@{self.url}(max_tokens={max_tokens},logprobs={logprobs}{shape})"

    @cached_property
    def _http(self) -> Any:
        import httpx

        for name in ("httpx", "httpx2"):  # which log the address of every request, whatever is in it
            logging.getLogger(name).addFilter(_of_no_endpoint)  # adding the same filter again changes nothing
        # No redirect is followed: it would take the key along.
        return httpx.Client()

    def complete(self, messages: Messages, meter: Meter = lambda most: nullcontext(Bill(most))) -> Reply:
        """Return the answer; waits and tries again after failures that may pass.

        Args:
            messages: what is sent.
            meter: who is asked before each attempt; see :class:`berdslib.llm.budget.Budgeted`.

        Raises:
            UnavailableError: no answer that can be read after all attempts; later there may be one.
            RefusedError: refused for what is in the messages.
            ChatError: refused whatever is in them, or failed for good.
            InputError: a message with half a character (a lone surrogate), which cannot be sent.
        """
        if any("\ud800" <= char <= "\udfff" for message in messages for char in message["content"]):
            raise InputError("a message holds half a character (a lone surrogate), which cannot be sent")
        stop, end, attempt = given_up.get(_NEVER), time.monotonic() + self.deadline, 0
        if stop.is_set():
            raise UnavailableError(f"{self.url} was not asked, since all was given up")
        while True:
            attempt += 1
            try:
                return self._attempt(messages, meter, end)
            except _PassingError as failure:
                why, wait = str(failure), failure.wait or _back_off(attempt)
            left = end - time.monotonic()
            if left <= 0:
                raise UnavailableError(f"no answer from {self.url} within {self.deadline:g} seconds: {why}")
            if attempt > self.max_retries:
                break
            if wait > left:
                why += f"; it asks to wait {wait:g} seconds"
                break
            if stop.wait(wait):
                why += "; it was given up"
                break
        times = "1 attempt" if attempt == 1 else f"{attempt} attempts"
        raise UnavailableError(f"no answer from {self.url} after {times}: {why}")

    def _attempt(self, messages: Messages, meter: Meter, end: float) -> Reply:
        """Ask once, until the end at most, and say to the meter what it may have cost."""
        import httpx

        settings, headers, raw = self._settings, self._key_header(), bytearray()
        body = {**settings, "messages": list(messages)}
        seconds = min(self.timeout, max(0.001, end - time.monotonic()))
        with meter(most_tokens(messages, self.max_tokens, json.dumps(settings.get("response_format", "")))) as bill:
            try:
                request = self._http.stream("POST", self._address.full, json=body, headers=headers, timeout=seconds)
                with request as response:
                    for chunk in response.iter_bytes():
                        raw += chunk
                        if len(raw) > _LARGEST:
                            raise ChatError(f"{response.url.host} sent more than {_LARGEST} bytes")
                        if time.monotonic() > end:
                            raise _PassingError("it began to answer")
            except httpx.RequestError as error:
                if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
                    bill.used = Tokens()  # nothing was sent
                raise _PassingError(self._redact(f"{type(error).__name__}: {error}")[:300]) from None
            if response.is_success:
                reply = self._read(raw)
                bill.settle(reply)
                return reply
            if response.status_code not in _BILLED:
                bill.used = Tokens()
        said, codes = self._complaint(raw) or (self._redact(response.reason_phrase), set())
        about_schema = response.status_code in (400, 422) and re.search("response_format|schema", said)
        if "response_format" in settings and about_schema:
            logger.warning("%s takes no schema and is asked without: %s", self.url, said)
            self._settings = {name: value for name, value in settings.items() if name != "response_format"}
            raise _PassingError(said, wait=0.001)
        raise self._failure(said, codes, response.status_code, response.headers.get("retry-after", ""))

    def _key_header(self) -> dict[str, str]:
        """Return the header with the key; none where there is no key, or a login in the address."""
        key = os.environ.get(_KEY, "").strip()
        if not (key.isprintable() and key.isascii()):  # a line break would be quoted in the error of the client
            raise ChatError(f"the variable {_KEY} holds characters that no key has")
        return {"Authorization": f"Bearer {key}"} if key and not self._address.userinfo else {}

    def _read(self, raw: bytes | bytearray) -> Reply:
        try:
            answer = json.loads(raw)
            choice = answer["choices"][0]
            text, finish = choice["message"]["content"] or "", choice.get("finish_reason") or ""
            if not isinstance(text, str) or not isinstance(finish, str):
                raise TypeError
            tokens = (choice.get("logprobs") or {}).get("content") or []
            first = alternatives([(t["token"], t["logprob"]) for t in tokens[0]["top_logprobs"]] if tokens else [])
        except MALFORMED as error:
            if complaint := self._complaint(raw):
                raise self._failure(*complaint) from None
            raise _PassingError(f"it answered in another form than OpenAI's ({type(error).__name__})") from None
        try:
            used = Tokens.told(answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"])
        except MALFORMED:  # no reason to throw a good answer away
            used = Tokens()
        for secret in self._secrets(_KEY_LENGTH):  # answers are written to files
            text = text.replace(secret, "…")
        return Reply(text, first, finish, used.prompt, used.completion)

    def _complaint(self, raw: bytes | bytearray) -> tuple[str, set[str]] | None:
        """Return what a server says is wrong, in words for people and for programs; None where it does not say so."""
        try:
            body = json.loads(raw)
            error = body if body.get("object") == "error" else body["error"]
            error = {"message": error} if isinstance(error, str) else error
            codes = {str(error.get(name)) for name in ("code", "type", "status")}
            return self._redact(" ".join(str(error["message"]).split()))[:300], codes
        except MALFORMED:
            return None

    def _failure(self, said: str, codes: set[str], status: int = 200, asked_wait: str = "") -> Exception:
        """Return what a complaint means; one that comes with status 200 may name a better one."""
        if status == 200:
            status = next((int(code) for code in codes if re.fullmatch("[45][0-9]{2}", code)), 200)
        codes = {str(status), *(code for code in codes if not code.isdigit())}
        what = f"{self.url}: status {status}: {said}"
        if status in (401, 403):
            state = "is refused" if os.environ.get(_KEY) else "is not set"
            return ChatError(f"{self.url}: status {status}; the key in the variable {_KEY} {state}")
        if codes & _NO_MONEY:  # which no waiting mends
            return ChatError(what)
        if codes & _REFUSED:
            return RefusedError(what)
        if codes & _PASSING or status >= 500:
            wait = float(asked_wait) if re.fullmatch(r"\d+(\.\d+)?|inf", asked_wait) else 0.0
            return _PassingError(f"status {status}: {said}", wait)
        return UnavailableError(what) if status == 200 else ChatError(what)

    def _redact(self, text: str) -> str:
        """Return a text without the key, and without user name, password and query of the address."""
        for secret in self._secrets(_SHORTEST_SECRET):
            text = text.replace(secret, "…")
        return re.sub(r"\bsk-\S+", "…", text)

    def _secrets(self, length: int) -> list[str]:
        """Return what nobody may see, from a length on, the longest first."""
        secrets = {os.environ.get(_KEY, "").strip(), *self._address.secrets}
        return sorted((secret for secret in secrets if len(secret) >= length), key=len, reverse=True)


def alternatives(listed: Sequence[Sequence[Any]]) -> tuple[tuple[str, float], ...]:
    """Return (token, log-probability) pairs that came from outside; TypeError or ValueError where they are none."""
    for token, logprob in listed:
        # Rounding may take the logarithm of a sure thing slightly above 0.
        if not isinstance(token, str) or isinstance(logprob, bool) or not isinstance(logprob, int | float):
            raise TypeError("a token and its log-probability were expected")
        if not -math.inf <= logprob <= 0.01:
            raise ValueError("a log-probability was expected")
    return tuple((token, float(logprob)) for token, logprob in listed)


class _Address:
    """Where an endpoint is. Any part but the ``plain`` one may hold a key, so there is no way to print it."""

    def __init__(self, base: str) -> None:
        try:
            parts = urlsplit(base.strip())
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:  # not shown: there may be a password in it
            raise InputError("a chat endpoint must be an http or https address, such as https://api.openai.com/v1")
        self.userinfo, _, host = parts.netloc.rpartition("@")
        path = parts.path.rstrip("/")
        self.plain = f"{parts.scheme}://{host}{path}"
        self.full = parts._replace(path=f"{path}/chat/completions", fragment="").geturl()
        said = {self.userinfo, *self.userinfo.split(":"), parts.query, *re.split("[&=]", parts.query)}
        login = base64.b64encode(unquote(self.userinfo).encode()).decode()
        self.secrets = {login, *said, *map(unquote, said)}


def _of_no_endpoint(record: logging.LogRecord) -> bool:
    """Leave requests to a chat endpoint out of a log; a logging filter."""
    return "/chat/completions" not in record.getMessage()


def _back_off(attempt: int) -> float:
    """Return how many seconds to wait after an attempt, counted from 1; not the same for all who failed at once."""
    return random.uniform(0.75, 1.25) * min(_FIRST_WAIT * 2.0 ** (attempt - 1), _LONGEST_WAIT)
