"""Chat models: the protocol, and a client for OpenAI-compatible endpoints.

The client reads the key from the environment for each request. No object stores the key, and no message shows it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import math
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from berdslib.errors import BerdsError, InputError
from berdslib.progress import NEVER, given_up

logger = logging.getLogger(__name__)

Messages = Sequence[dict[str, str]]
_LARGEST = 16 * 1024 * 1024  # bytes of an answer; 1,500 tokens with 20 alternatives each have about two million
_KEY = "OPENAI_API_KEY"  # the environment variable; it may be unset for a server without keys
_SHORTEST_SECRET = 4  # in messages; shorter secrets are not redacted, since they may be parts of ordinary words
_KEY_LENGTH = 16  # the same in answers, because servers without keys are often given a key such as "EMPTY" or "test"
_FIRST_WAIT = 0.5  # seconds
_LONGEST_WAIT = 30.0
# Statuses and error codes: of failures that may be temporary, and of requests that the server refuses for their
# content. The codes of _NO_MONEY also come with status 429 or 400 from OpenAI.
_PASSING = {"408", "409", "429", "rate_limit_exceeded", "rate_limit_error", "overloaded_error", "server_error"}
_REFUSED = {"400", "413", "422", "context_length_exceeded"}
# Providers' words for a request or an answer that their content filter stopped; "sensitive" is a finish reason.
CONTENT_FILTER = "content filter"
_FILTERED = re.compile(
    r"content.?(filter|policy|management)|data.?inspection|moderation|flagged|prohibited.content|^sensitive$|^safety$",
    re.IGNORECASE,
)
_NO_MONEY = {"insufficient_quota", "billing_hard_limit_reached"}
# Exceptions from reading JSON that is invalid or has an unexpected structure.
MALFORMED = (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError)


class Form(NamedTuple):
    """The form of an answer: at most ``max_tokens`` long, and JSON of a ``schema`` or text that matches a ``pattern``.

    A local model is restricted to the form token by token; requests to other models do not include it. The form is
    ``free`` if the model chooses its own words; only then may a penalty on repetition apply, because a statement has to
    repeat words of its question.
    """

    max_tokens: int
    schema: dict[str, Any] | None = None
    pattern: str = ""
    free: bool = False


class Request(list[dict[str, str]]):
    """Messages with the form of their answer, or None for any form."""

    def __init__(self, messages: Messages, form: Form | None) -> None:
        super().__init__(messages)
        self.form = form


class Reply(NamedTuple):
    """A model's answer: ``text``, and ``first_token``, the first token's (token, log-probability) pairs if available.

    ``finish`` is the server's reason for the end of the answer, such as "stop", or "length" for an answer that was cut
    off at its token limit. Servers' different words for "length", "content_filter", "tool_calls" and "refusal" are
    mapped to these four; after a refusal, the text is the model's explanation. The token counts come from the server
    too; they are 0 if it reports none.
    """

    text: str
    first_token: tuple[tuple[str, float], ...] = ()
    finish: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


def check_no_address(name: str, variable: str = "BERDS_CHAT_URL") -> None:
    """Raise InputError for an address in a model's name: a name from a shared file must not choose where the key goes.

    The message does not show the address, since it may contain a password.
    """
    if "://" in name:
        problem = f"a model's name must not contain an address; set the environment variable {variable} instead"
        raise InputError(problem, field="chat")


class ChatModel(Protocol):
    """A model that answers a list of messages; ``id`` identifies everything that its answers depend on."""

    id: str

    def complete(self, messages: Messages) -> Reply:
        """Return the answer to messages of the form {"role": …, "content": …}."""
        ...


class ChatError(BerdsError):
    """An endpoint refuses all requests, fails permanently, or answers in an unexpected format."""


class UnavailableError(ChatError):
    """A request has no answer after all attempts, but the failure may be temporary."""


class UnreadError(ChatError, InputError):
    """The server refuses a request for its content, or an answer is unreadable.

    A retry of the same request would fail again; other requests may succeed. ``reason`` gives the cause in two or three
    words, for counts.
    """

    def __init__(self, problem: str, reason: str) -> None:
        super().__init__(problem)
        self.reason = reason


# ---------------------------------------------------------------- adapting requests to a server

Body = dict[str, Any]
_MOST_ALTERNATIVES = 20


class _Change(NamedTuple):
    """A change to a request that a server refuses: ``make`` takes the request's body and the server's message.

    ``named`` matches messages about the refused field; ``told`` is the part of the warning that describes the change.
    """

    named: re.Pattern[str]
    make: Callable[[Body, str], Body]
    told: str


def _without(*fields: str) -> Callable[[Body, str], Body]:
    return lambda body, _: {name: value for name, value in body.items() if name not in fields}


def _rename_max_tokens(body: Body, said: str) -> Body:
    # The message may also mention max_tokens because the answer or the conversation is too long; renaming the field
    # does not help then.
    if "max_tokens" not in body or _ABOUT_SIZE.search(said):
        return body
    return _without("max_tokens")(body, said) | {"max_completion_tokens": body["max_tokens"]}


def _ask_for_fewer_alternatives(body: Body, said: str) -> Body:
    numbers = [int(number) for number in re.findall(r"\b\d{1,2}\b", said)] if _ABOUT_SIZE.search(said) else []
    allowed = [number for number in numbers if 0 < number < body.get("top_logprobs", 0)]
    return body | {"top_logprobs": max(allowed)} if allowed else body


def _move_system_turn(body: Body, _: str) -> Body:
    return body | {"messages": system_in_first_turn(body["messages"])}


def system_in_first_turn(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Move the system text to the start of the first user turn, for models without a system turn."""
    turns = [dict(message) for message in messages]
    if len(turns) < 2 or turns[0]["role"] != "system":
        return turns
    system, first, *rest = turns
    return [first | {"content": f"{system['content']}\n\n{first['content']}"}, *rest]


_ABOUT_SIZE = re.compile(
    r"context|too (large|long|many)|exceed|reduce|at most|up to|limit|range|between|(less|greater) than|max(imum)?\b"
    r"|min(imum)?\b|[<>≤≥]=?|\[0",
    re.IGNORECASE,
)
# Tried in this order; each change is made at most once for a model at an address.
_CHANGES = (
    _Change(re.compile(r"max_tokens"), _rename_max_tokens, "with max_completion_tokens instead of max_tokens"),
    _Change(re.compile(r"logprobs", re.I), _ask_for_fewer_alternatives, "with fewer alternatives per token"),
    _Change(
        re.compile(r"logprobs|log.probabilities", re.I),
        _without("logprobs", "top_logprobs"),
        "without log-probabilities, so the text of its answers decides",
    ),
    _Change(re.compile(r"\btemperature\b", re.I), _without("temperature"), "at the server's default temperature"),
    _Change(
        re.compile(r"response_format|schema|structured|grammar", re.I),
        _without("response_format"),
        "without a schema for its answers",
    ),
    _Change(
        re.compile(
            r"\b(system|developer)\W+(\w+\W+)?(role|message|turn|prompt|instruction)|\broles?\b.{0,60}\b(system|alternate)"
            r"|only user and assistant|messages\S{0,5}\brole|'user' (or|and) 'assistant'",
            re.I,
        ),
        _move_system_turn,
        "with the system text at the start of the first user turn",
    ),
)


class _Learnt:
    """Findings about a model at an address, shared by all endpoints of this process that use it."""

    def __init__(self) -> None:
        self.changes: list[tuple[_Change, str]] = []  # with the server's message
        self.silent = False  # whether it omits log-probabilities that were requested
        self.came_back = set[tuple[frozenset[str], str]]()  # kinds of requests of which one has returned
        self.answered = set[frozenset[str]]()  # fields of requests that were answered with a text
        self.lock = threading.Lock()
        self.turn = threading.Lock()


_LEARNT: defaultdict[tuple[str, str], _Learnt] = defaultdict(_Learnt)


# ---------------------------------------------------------------- an endpoint


class _PassingError(Exception):
    """A failure that may be temporary; ``wait`` is the number of seconds that the server asks to wait."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.wait = wait


class _ChangedError(Exception):
    """The server refused a request, and later requests will be changed accordingly."""


class Endpoint:
    """An OpenAI-compatible chat endpoint; several threads may use it at once.

    If a server refuses a field (``max_tokens``, a temperature of 0, log-probabilities, a schema, a system turn), later
    requests to this model at this address omit or replace it until the process ends, and a warning reports the change.
    The ``id`` describes the original request, so that recorded answers can be found; ``differs`` describes changes that
    affect the answers.

    Args:
        model: the model's name at the endpoint.
        base_url: the address without "/chat/completions"; None for the environment variable BERDS_CHAT_URL, or OpenAI.
            A user name and password in the address are sent instead of the key; a query is sent with each request.
        max_tokens: longest answer.
        logprobs: request the alternatives of each token (up to 20), which some servers do not offer.
        schema: a JSON schema that the answer must follow.
        more: further fields of each request, such as {"temperature": 1.0} (default 0); they are part of the id.
        max_retries: further attempts after a failure that may be temporary (no answer, a malformed answer, 408, 409,
            429, 5xx), with growing waits, or the wait that the server asks for.
        timeout: seconds without data after which an attempt fails.
        deadline: longest time in seconds for a request with all attempts and waits, even if data keep arriving.

    Raises:
        InputError: an unusable address or setting.
    """

    _path = "/chat/completions"  # appended to the address of the endpoint

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        max_tokens: int = 8,
        logprobs: bool = True,
        schema: dict[str, Any] | None = None,
        more: Mapping[str, Any] | None = None,
        max_retries: int = 5,
        timeout: float = 60.0,
        deadline: float = 600.0,
    ) -> None:
        if not isinstance(max_tokens, int) or max_tokens < 1:
            raise InputError(f"max_tokens must be a positive whole number, not {max_tokens!r}")
        base = base_url or os.environ.get("BERDS_CHAT_URL") or "https://api.openai.com/v1"
        self._address = _Address(base, self._path)
        self.max_tokens = max_tokens
        self.max_retries = max_retries
        self.timeout = timeout
        self.deadline = deadline
        self._settings: dict[str, Any] = {"model": model, "temperature": 0, "max_tokens": max_tokens}
        if logprobs:
            self._settings |= {"logprobs": True, "top_logprobs": _MOST_ALTERNATIVES}
        shape = ""
        if schema is not None:
            # Not "strict": OpenAI's strict schemas must list all keys, but here the model chooses them.
            form = {"name": "answer", "schema": schema, "strict": False}
            self._settings["response_format"] = {"type": "json_schema", "json_schema": form}
            shape = f",schema={hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()[:8]}"
        self._settings |= more or {}
        shape += "".join(f",{name}={json.dumps(value)}" for name, value in sorted((more or {}).items()))
        self._learnt = _LEARNT[self._address.plain, model]
        self.url = self._redact(self._address.plain)
        self.id = f"{model}@{self.url}(max_tokens={max_tokens},logprobs={logprobs}{shape})"

    @property
    def differs(self) -> str:
        """The known deviations of the answers from the request that the id describes; "" for none."""
        turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
        body = self._body(turns)
        wanted = "logprobs" in self._settings
        told = wanted and "logprobs" in body and not self._learnt.silent
        found = {
            "temperature=default": "temperature" not in body,
            "logprobs=none": wanted and not told,
            f"top_logprobs={body.get('top_logprobs')}": told and body["top_logprobs"] < _MOST_ALTERNATIVES,
            "system=first turn": body["messages"] != turns,
        }
        return ",".join(name for name, holds in found.items() if holds)

    @property
    def settled(self) -> bool:
        """Whether a request with these fields was answered before, so that `differs` is final."""
        return frozenset(self._settings) in self._learnt.answered

    def _body(self, messages: Messages) -> Body:
        """Return the body of a request, changed for what the server is known to refuse."""
        body = {**self._settings, "messages": list(messages)}
        for change, said in self._learnt.changes:
            body = change.make(body, said)
        return body

    def _learn(self, refused: Body, said: str) -> bool:
        """Find a change for a server's complaint; return whether requests are changed now."""
        learnt = self._learnt
        with learnt.lock:
            if self._body(refused["messages"]) != refused:  # another request has found the change
                return True
            for change in _CHANGES:
                tried = any(change is done for done, _ in learnt.changes)
                if not tried and change.named.search(said) and change.make(refused, said) != refused:
                    learnt.changes.append((change, said))
                    told = "requests to %s are sent %s from now on; the server refused: %s"
                    logger.warning(told, f"{self._settings['model']}@{self.url}", change.told, said)
                    return True
        return False

    @cached_property
    def _http(self) -> Any:
        import httpx

        for name in ("httpx", "httpx2"):  # they log the address of every request, which may hold a secret
            logging.getLogger(name).addFilter(_of_no_endpoint)  # adding the same filter again changes nothing
        # Redirects are not followed, since the key would be sent to the new address.
        return httpx.Client()

    def complete(self, messages: Messages) -> Reply:
        """Return the answer; after a failure that may be temporary, wait and retry.

        Raises:
            UnavailableError: all attempts failed, or the work was cancelled.
            UnreadError: the server refuses the content of the messages, or sends a reply without an answer.
            ChatError: the server refuses all requests, or fails permanently.
            InputError: a message with an unpaired surrogate, which cannot be sent.
        """
        import tenacity

        if any("\ud800" <= char <= "\udfff" for message in messages for char in message["content"]):
            raise InputError("the message is not valid Unicode: it contains an unpaired surrogate")
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_PassingError),
            wait=_wait,
            stop=tenacity.stop_after_attempt(self.max_retries + 1) | tenacity.stop_before_delay(self.deadline),
            sleep=tenacity.sleep_using_event(given_up.get(NEVER)),
        )
        try:
            reply: Reply = attempts(self._ask, messages, time.monotonic() + self.deadline)
        except tenacity.RetryError as error:
            failed = error.last_attempt
            times = "1 attempt" if failed.attempt_number == 1 else f"{failed.attempt_number} attempts"
            raise UnavailableError(f"no answer from {self.url} after {times}: {failed.exception()}") from None
        return reply

    def _ask(self, messages: Messages, end: float) -> Reply:
        """Make one attempt, which ends at the time `end` at the latest.

        The first request of its kind is sent alone, so that only one request finds out what the server refuses.
        """
        learnt = self._learnt
        kind = frozenset(self._settings), messages[0]["role"]
        if kind not in learnt.came_back:
            with learnt.turn:
                if kind not in learnt.came_back:  # another thread's request may have returned meanwhile
                    try:
                        return self._post_until_taken(messages, end)
                    finally:
                        learnt.came_back.add(kind)
        return self._post_until_taken(messages, end)

    def _post_until_taken(self, messages: Messages, end: float) -> Reply:
        while True:
            with suppress(_ChangedError):  # each change is made once, so the loop ends
                return self._post(messages, end)

    def _post(self, messages: Messages, end: float) -> Reply:
        import httpx

        if given_up.get(NEVER).is_set():
            raise UnavailableError(f"the work was cancelled before the request to {self.url} was sent")
        body = self._body(messages)
        headers = self._key_header()
        raw = bytearray()
        seconds = min(self.timeout, max(0.001, end - time.monotonic()))
        try:
            request = self._http.stream("POST", self._address.full, json=body, headers=headers, timeout=seconds)
            with request as response:
                for chunk in response.iter_bytes():
                    raw += chunk
                    if len(raw) > _LARGEST:
                        raise ChatError(f"{response.url.host} sent more than {_LARGEST} bytes")
                    if time.monotonic() > end:
                        raise _PassingError(f"the answer was not complete after {self.deadline:g} seconds")
        except httpx.RequestError as error:
            raise _PassingError(self._redact(f"{type(error).__name__}: {error}")[:300]) from None
        if response.is_success:
            return self._read(raw, body)
        said, codes = self._complaint(raw) or (self._plain(raw) or self._redact(response.reason_phrase), set())
        raise self._refusal(body, said, codes, response.status_code, response.headers.get("retry-after", ""))

    def _refusal(self, asked: Body, said: str, codes: set[str], status: int = 200, asked_wait: str = "") -> Exception:
        """Return a _ChangedError if a changed request may succeed, or else the error for the complaint."""
        failure = self._failure(said, codes, status, asked_wait)
        # Some servers answer with an internal error to a turn that the chat template refuses, or to a field that is not
        # implemented.
        may_name_a_field = not isinstance(failure, _PassingError) or status in (200, 500, 501)
        about_the_text = isinstance(failure, UnreadError) and failure.reason == CONTENT_FILTER
        return _ChangedError() if may_name_a_field and not about_the_text and self._learn(asked, said) else failure

    def _key_header(self) -> dict[str, str]:
        """Return the header with the key; empty without a key, or if the address has a login."""
        key = os.environ.get(_KEY, "").strip()
        if not (key.isprintable() and key.isascii()):  # the client's error would quote a key with a line break
            raise ChatError(f"the environment variable {_KEY} contains characters that a key cannot have")
        return {"Authorization": f"Bearer {key}"} if key and not self._address.userinfo else {}

    def _read(self, raw: bytes | bytearray, asked: Body) -> Reply:
        try:
            answer = json.loads(raw)
        except MALFORMED:
            raise _PassingError("the answer is not in OpenAI's format (invalid JSON)") from None
        try:
            text, finish, first = self._parts(answer)
        except MALFORMED as error:
            if complaint := self._complaint(raw, of_failure=False):
                raise self._refusal(asked, *complaint) from None
            # No retry: the answer may have been billed, and a retry would be too.
            problem = f"the answer of {self.url} is not in OpenAI's format ({type(error).__name__}: {error})"
            raise UnreadError(self._redact(problem)[:300], "no answer in the reply") from None
        if text:
            self._learnt.answered.add(frozenset(self._settings))
        if "logprobs" in asked and text and not first and not self._learnt.silent:
            self._learnt.silent = True
            logger.warning("%s returns no log-probabilities, so the text of its answers decides", self.url)
        try:
            used = token_counts(answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"])
        except MALFORMED:  # the answer is usable without the counts
            used = (0, 0)
        for secret in self._secrets(_KEY_LENGTH):  # answers are written to files
            text = text.replace(secret, "…")
        return Reply(text, first, finish, *used)

    def _parts(self, answer: Any) -> tuple[str, str, tuple[tuple[str, float], ...]]:
        """Return text, finish and first token of a :class:`Reply`; raises the errors of MALFORMED."""
        choice = answer["choices"][0]
        tokens = (choice.get("logprobs") or {}).get("content") or []
        listed = (tokens[0].get("top_logprobs") or []) if tokens else []
        return *_text_and_finish(choice), alternatives([(t["token"], t["logprob"]) for t in listed])

    def _complaint(self, raw: bytes | bytearray, *, of_failure: bool = True) -> tuple[str, set[str]] | None:
        """Return a server's error message and its error codes; None if the body is not an error.

        With a status `of_failure`, any JSON object counts as an error; otherwise the body must name one.
        """
        try:
            body: Any = json.loads(raw)
            body = body[0] if isinstance(body, list) else body  # Gemini's endpoint sends a list
            error: Any = body.get("error") or (body if of_failure or body.get("object") == "error" else None)
            error = {"message": error} if isinstance(error, str) else error
            words = next(error[name] for name in ("message", "detail", "msg", "error_msg") if error.get(name))
            inner = error.get("innererror") or {}
            codes = {str(one.get(name)) for one in (error, inner) for name in ("code", "type", "status")}
            said = f"{_words(words)} ({error['param']})" if error.get("param") else _words(words)
            return self._redact(" ".join(said.split()))[:300], codes
        except (*MALFORMED, StopIteration):
            return None

    def _plain(self, raw: bytes | bytearray) -> str:
        """Return the beginning of a plain-text body; "" for JSON or an HTML page."""
        text = " ".join(raw[:2000].decode("utf-8", "replace").split())
        return "" if text.startswith(("<", "{", "[")) else self._redact(text)[:300]

    def _failure(self, said: str, codes: set[str], status: int = 200, asked_wait: str = "") -> Exception:
        """Return the error for a complaint; a complaint with status 200 may contain the real status as a code."""
        if status == 200:
            status = next((int(code) for code in codes if re.fullmatch("[45][0-9]{2}", code)), 200)
        codes = {str(status), *(code for code in codes if not code.isdigit())}
        what = f"{self.url}: status {status}: {said}"
        if codes & _NO_MONEY:  # a retry would not help
            return ChatError(what)
        if status not in (401, 408, 409, 429) and any(map(_FILTERED.search, {said, *codes})):
            return UnreadError(what, CONTENT_FILTER)
        if status in (401, 403):
            state = "set" if os.environ.get(_KEY) else "not set"
            return ChatError(f"{what} (if the key is the problem: the environment variable {_KEY} is {state})")
        if codes & _REFUSED:
            return UnreadError(what, "refused by the server")
        if codes & _PASSING or status >= 500:
            wait = float(asked_wait) if re.fullmatch(r"\d+(\.\d+)?|inf", asked_wait) else 0.0
            asks = f"; the server asks to wait {wait:g} seconds" if wait else ""
            return _PassingError(f"status {status}: {said}{asks}", wait)
        return UnavailableError(what) if status == 200 else ChatError(what)

    def _redact(self, text: str) -> str:
        """Return a text without the key and without the address's user name, password and query."""
        for secret in self._secrets(_SHORTEST_SECRET):
            text = text.replace(secret, "…")
        return re.sub(r"\bsk-\S+", "…", text)

    def _secrets(self, length: int) -> list[str]:
        """Return the secrets of at least this length, the longest first."""
        secrets = {os.environ.get(_KEY, "").strip(), *self._address.secrets}
        return sorted((secret for secret in secrets if len(secret) >= length), key=len, reverse=True)


def _text_and_finish(choice: Any) -> tuple[str, str]:
    """Return the text of an answer without reasoning, and its finish reason; raises the errors of MALFORMED."""
    message = choice["message"]
    finish = choice.get("finish_reason") or ""
    content = message.get("content") or ""
    refusal = message.get("refusal") or ""
    if isinstance(content, list):  # a list of parts: text, reasoning, images, sources
        refusal = refusal or "".join(part.get("refusal") or "" for part in content)
        content = "".join(part["text"] for part in content if part.get("type", "text") in ("text", "output_text"))
    if not all(isinstance(text, str) for text in (content, refusal, finish)):
        raise TypeError("expected a text")
    if refusal and not content:
        return refusal, "refusal"
    if not content and (message.get("tool_calls") or message.get("function_call")):
        return "", "tool_calls"
    if _FILTERED.search(finish):
        return content, "content_filter"
    return content, "length" if finish in ("max_tokens", "model_length") else finish


def _words(said: Any) -> str:
    """Return an error message as text; Python servers send a list with an entry for each invalid field."""
    if isinstance(said, dict):
        said = said.get("detail") or said.get("message") or said
    if isinstance(said, list) and all(isinstance(one, dict) and "msg" in one for one in said):
        return "; ".join(f"{'.'.join(map(str, one.get('loc', ())))}: {one['msg']}" for one in said)
    return said if isinstance(said, str) else json.dumps(said)


def token_counts(prompt: Any, completion: Any) -> tuple[int, int]:
    """Return token counts that come from outside; raises ValueError for impossible counts."""
    for number in (prompt, completion):
        if type(number) is not int or not 0 <= number < 1e9:
            raise ValueError("expected a number of tokens")
    return prompt, completion


def alternatives(listed: Sequence[Sequence[Any]]) -> tuple[tuple[str, float], ...]:
    """Return (token, log-probability) pairs that come from outside; raises TypeError or ValueError for other values."""
    found = tuple((token, float(logprob)) for token, logprob in listed)
    for token, logprob in found:
        # Rounding may put the logarithm of a probability of 1 slightly above 0.
        if not isinstance(token, str) or not -math.inf <= logprob <= 0.01:
            raise ValueError("expected a token and its log-probability")
    return found


class _Address:
    """An endpoint's address. Only ``plain`` may be shown; the other parts may contain a key."""

    def __init__(self, base: str, behind: str) -> None:
        try:
            parts = urlsplit(base.strip())
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:  # the message does not show the address, which may contain a password
            raise InputError("a chat endpoint needs a valid http or https address, such as https://api.openai.com/v1")
        self.userinfo, _, host = parts.netloc.rpartition("@")
        path = parts.path.rstrip("/")
        self.plain = f"{parts.scheme}://{host}{path}"
        self.full = parts._replace(path=path + behind, fragment="").geturl()
        said = {self.userinfo, *self.userinfo.split(":"), parts.query, *re.split("[&=]", parts.query)}
        login = base64.b64encode(unquote(self.userinfo).encode()).decode()
        self.secrets = {login, *said, *map(unquote, said)}


def _of_no_endpoint(record: logging.LogRecord) -> bool:
    """Return False for log records of POST requests, such as those to endpoints; a logging filter."""
    return " POST " not in record.getMessage()


def _wait(attempt: Any) -> float:
    """Return the seconds to wait after an attempt: the server's number, or a number that grows with the attempts."""
    import tenacity

    asked: float = attempt.outcome.exception().wait
    # Partly random, so that requests that failed at the same time are not retried at the same time.
    grow = tenacity.wait_exponential(_FIRST_WAIT, _LONGEST_WAIT) + tenacity.wait_random(0, _FIRST_WAIT)
    return asked or grow(attempt)
