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
_LARGEST = 16 * 1024 * 1024  # bytes of an answer; one of 1,500 tokens with 20 alternatives each has about two million
_KEY = "OPENAI_API_KEY"  # the environment variable; it may be unset for a server without keys
_SHORTEST_SECRET = 4  # blotting out shorter ones would make holes in ordinary words
_KEY_LENGTH = 16  # for an answer shorter ones may be ordinary words: servers without keys are given "EMPTY" or "test"
_FIRST_WAIT = 0.5  # seconds
_LONGEST_WAIT = 30.0
# What a server says, as a status or in a word besides or in place of one: it may pass; it is about what was sent; the
# account has no money left, which OpenAI says with 429 or 400 too.
_PASSING = {"408", "409", "429", "rate_limit_exceeded", "rate_limit_error", "overloaded_error", "server_error"}
_REFUSED = {"400", "413", "422", "context_length_exceeded"}
# How providers say that their content filter stopped a request or an answer; "sensitive" is a finish reason.
CONTENT_FILTER = "content filter"
_FILTERED = re.compile(
    r"content.?(filter|policy|management)|data.?inspection|moderation|flagged|prohibited.content|^sensitive$|^safety$",
    re.IGNORECASE,
)
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
    Four of the words are ours where the server has others or none: "length", "content_filter", "tool_calls" and
    "refusal", where the text is what the model says in place of an answer.
    The numbers of tokens are the server's too, 0 where it does not say.
    """

    text: str
    first_token: tuple[tuple[str, float], ...] = ()
    finish: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


def check_no_address(name: str, variable: str = "BERDS_CHAT_URL") -> None:
    """Refuse an address in a model's name: a name may come with a shared file, and would say where the key is sent.

    The address is not shown, since it may hold a password.
    """
    if "://" in name:
        problem = f"the name of a model holds an address; set the environment variable {variable} to the address"
        raise InputError(problem, field="chat")


class ChatModel(Protocol):
    """Answers a list of messages; ``id`` names what the answers depend on."""

    id: str

    def complete(self, messages: Messages) -> Reply:
        """Return the answer to messages of the form {"role": …, "content": …}."""
        ...


class ChatError(BerdsError):
    """An endpoint that refuses, fails for good, or answers in another form."""


class UnavailableError(ChatError):
    """A request that has no answer after all attempts, for a reason that may pass."""


class UnreadError(ChatError, InputError):
    """A request that the server refuses for what is in it, or an answer that cannot be read.

    The same request would have the same end; others may be answered. ``reason`` says why in two or three words, for
    counts.
    """

    def __init__(self, problem: str, reason: str) -> None:
        super().__init__(problem)
        self.reason = reason


# ---------------------------------------------------------------- what a server refuses of a request

Body = dict[str, Any]
_MOST_ALTERNATIVES = 20


class _Change(NamedTuple):
    """How a request is changed for a server that refuses it: ``make`` takes its body and what the server said.

    ``named`` is how servers name what they refuse; ``told`` is the end of the user's warning.
    """

    named: re.Pattern[str]
    make: Callable[[Body, str], Body]
    told: str


def _without(*fields: str) -> Callable[[Body, str], Body]:
    return lambda body, _: {name: value for name, value in body.items() if name not in fields}


def _rename_max_tokens(body: Body, said: str) -> Body:
    # A server may also name it because this one answer or conversation is too long for it, which no name mends.
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
    """Return a conversation whose system text opens the first user turn, for models whose template takes none."""
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
# Tried from first to last, each once for a model at an address.
_CHANGES = (
    _Change(re.compile(r"max_tokens"), _rename_max_tokens, "for max_completion_tokens in place of max_tokens"),
    _Change(re.compile(r"logprobs", re.I), _ask_for_fewer_alternatives, "for fewer alternatives of a token"),
    _Change(
        re.compile(r"logprobs|log.probabilities", re.I),
        _without("logprobs", "top_logprobs"),
        "without log-probabilities, so that the words of its answers decide",
    ),
    _Change(re.compile(r"\btemperature\b", re.I), _without("temperature"), "at its own temperature"),
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
        "with the system text at the beginning of the first user turn",
    ),
)


class _Learnt:
    """What was found out about a model at an address, for all endpoints of this process that ask it."""

    def __init__(self) -> None:
        self.changes: list[tuple[_Change, str]] = []  # with what the server said
        self.silent = False  # whether it gives no log-probabilities where they are asked for
        self.came_back = set[tuple[frozenset[str], str]]()  # the kinds of requests of which one has come back
        self.answered = set[frozenset[str]]()  # the fields of requests that brought a text
        self.lock = threading.Lock()
        self.turn = threading.Lock()


_LEARNT: defaultdict[tuple[str, str], _Learnt] = defaultdict(_Learnt)


# ---------------------------------------------------------------- an endpoint


class _PassingError(Exception):
    """An attempt that failed, for a reason that may pass; ``wait`` is the time in seconds that the server asks for."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.wait = wait


class _ChangedError(Exception):
    """A request that was refused, and is now asked otherwise."""


class Endpoint:
    """An OpenAI-compatible chat endpoint; may be used by several threads at once.

    What a server refuses to take (``max_tokens``, a temperature of 0, log-probabilities, a schema, a system turn) is
    left out or said otherwise from then on, for this model at this address and as long as the process lives, and a
    warning says so. The ``id`` is what was to be asked, so that recorded answers are found again; ``differs`` is how
    the answers come about otherwise.

    Args:
        model: the model's name there.
        base_url: up to and without "/chat/completions"; None for the environment variable BERDS_CHAT_URL, or OpenAI. A
            user name and password in it are sent as such, in place of the key; a query is sent with each request.
        max_tokens: longest answer.
        logprobs: ask for the alternatives of each token (up to 20); servers may not offer them.
        schema: a JSON schema that the answer must follow.
        more: further fields of each request, such as {"temperature": 1.0}, 0 else; they are part of the id.
        max_retries: further attempts after a failure that may pass (no answer, a broken one, 408, 409, 429, 5xx), with
            longer and longer waits, or those that the server asks for.
        timeout: seconds without a sign of life after which an attempt has failed.
        deadline: most seconds for a request with all its attempts and waits, also where an answer drips.

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
            raise InputError(f"max_tokens must be a whole number from 1, not {max_tokens!r}")
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
            # Not "strict": OpenAI's strict schemas have to list all names, and here the model makes them up.
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
        """What in the answers differs from what the id says, as far as it is known yet; "" for nothing."""
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
        """Whether such a request was answered before, so that what `differs` is known."""
        return frozenset(self._settings) in self._learnt.answered

    def _body(self, messages: Messages) -> Body:
        """Return what is sent, without what is known to be refused."""
        body = {**self._settings, "messages": list(messages)}
        for change, said in self._learnt.changes:
            body = change.make(body, said)
        return body

    def _learn(self, refused: Body, said: str) -> bool:
        """Learn from what a server said what it does not take; return whether it is now asked otherwise."""
        learnt = self._learnt
        with learnt.lock:
            if self._body(refused["messages"]) != refused:  # another request has found it out
                return True
            for change in _CHANGES:
                tried = any(change is done for done, _ in learnt.changes)
                if not tried and change.named.search(said) and change.make(refused, said) != refused:
                    learnt.changes.append((change, said))
                    told = "%s is asked %s from now on, as it refused: %s"
                    logger.warning(told, f"{self._settings['model']}@{self.url}", change.told, said)
                    return True
        return False

    @cached_property
    def _http(self) -> Any:
        import httpx

        for name in ("httpx", "httpx2"):  # which log the address of every request, whatever is in it
            logging.getLogger(name).addFilter(_of_no_endpoint)  # adding the same filter again changes nothing
        # No redirect is followed: it would take the key along.
        return httpx.Client()

    def complete(self, messages: Messages) -> Reply:
        """Return the answer; waits and tries again after failures that may pass.

        Raises:
            UnavailableError: no answer that can be read after all attempts, or all work was given up.
            UnreadError: the server refuses it for what is in the messages, or sends a reply without an answer.
            ChatError: refused whatever is in them, or failed for good.
            InputError: a message with half a character (a lone surrogate), which cannot be sent.
        """
        import tenacity

        if any("\ud800" <= char <= "\udfff" for message in messages for char in message["content"]):
            raise InputError("a message holds half a character (a lone surrogate), which cannot be sent")
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
        """Make one attempt, until the end at most.

        The first request of its kind goes alone, so that what the server refuses to take is found out once.
        """
        learnt = self._learnt
        kind = frozenset(self._settings), messages[0]["role"]
        if kind not in learnt.came_back:
            with learnt.turn:
                if kind not in learnt.came_back:  # one may have come back while this request waited
                    try:
                        return self._post_until_taken(messages, end)
                    finally:
                        learnt.came_back.add(kind)
        return self._post_until_taken(messages, end)

    def _post_until_taken(self, messages: Messages, end: float) -> Reply:
        while True:
            with suppress(_ChangedError):  # each change is made once, so this comes to an end
                return self._post(messages, end)

    def _post(self, messages: Messages, end: float) -> Reply:
        import httpx

        if given_up.get(NEVER).is_set():
            raise UnavailableError(f"{self.url} was not asked, since all work was given up")
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
                        raise _PassingError(f"its answer did not end within {self.deadline:g} seconds")
        except httpx.RequestError as error:
            raise _PassingError(self._redact(f"{type(error).__name__}: {error}")[:300]) from None
        if response.is_success:
            return self._read(raw, body)
        said, codes = self._complaint(raw) or (self._plain(raw) or self._redact(response.reason_phrase), set())
        raise self._refusal(body, said, codes, response.status_code, response.headers.get("retry-after", ""))

    def _refusal(self, asked: Body, said: str, codes: set[str], status: int = 200, asked_wait: str = "") -> Exception:
        """Return a _ChangedError where the server names what it does not take, and else what its complaint means."""
        failure = self._failure(said, codes, status, asked_wait)
        # Templates that refuse a turn, and fields that are not implemented, end some servers in an error of their own.
        may_name_a_field = not isinstance(failure, _PassingError) or status in (200, 500, 501)
        about_the_text = isinstance(failure, UnreadError) and failure.reason == CONTENT_FILTER
        return _ChangedError() if may_name_a_field and not about_the_text and self._learn(asked, said) else failure

    def _key_header(self) -> dict[str, str]:
        """Return the header with the key; none where there is no key, or a login in the address."""
        key = os.environ.get(_KEY, "").strip()
        if not (key.isprintable() and key.isascii()):  # a line break would be quoted in the error of the client
            raise ChatError(f"the variable {_KEY} holds characters that no key has")
        return {"Authorization": f"Bearer {key}"} if key and not self._address.userinfo else {}

    def _read(self, raw: bytes | bytearray, asked: Body) -> Reply:
        try:
            answer = json.loads(raw)
        except MALFORMED:
            raise _PassingError("it answered in another form than OpenAI's (no JSON)") from None
        try:
            text, finish, first = self._parts(answer)
        except MALFORMED as error:
            if complaint := self._complaint(raw, of_failure=False):
                raise self._refusal(asked, *complaint) from None
            # It may be billed, and would be again.
            problem = f"{self.url} answered in another form than OpenAI's ({type(error).__name__}: {error})"
            raise UnreadError(self._redact(problem)[:300], "no answer in the reply") from None
        if text:
            self._learnt.answered.add(frozenset(self._settings))
        if "logprobs" in asked and text and not first and not self._learnt.silent:
            self._learnt.silent = True
            logger.warning("%s gives no log-probabilities, so the words of its answers decide", self.url)
        try:
            used = token_counts(answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"])
        except MALFORMED:  # no reason to throw a good answer away
            used = (0, 0)
        for secret in self._secrets(_KEY_LENGTH):  # answers are written to files
            text = text.replace(secret, "…")
        return Reply(text, first, finish, *used)

    def _parts(self, answer: Any) -> tuple[str, str, tuple[tuple[str, float], ...]]:
        """Return text, finish and first token of a :class:`Reply`. Errors of MALFORMED."""
        choice = answer["choices"][0]
        tokens = (choice.get("logprobs") or {}).get("content") or []
        listed = (tokens[0].get("top_logprobs") or []) if tokens else []
        return *_text_and_finish(choice), alternatives([(t["token"], t["logprob"]) for t in listed])

    def _complaint(self, raw: bytes | bytearray, *, of_failure: bool = True) -> tuple[str, set[str]] | None:
        """Return what a server says is wrong, in words for people and for programs; None where it does not say so.

        A body is a complaint as it is where the status is `of_failure`, and else where it names an error.
        """
        try:
            body: Any = json.loads(raw)
            body = body[0] if isinstance(body, list) else body  # as Gemini's endpoint has it
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
        """Return the beginning of a text that came in place of JSON; "" for a page."""
        text = " ".join(raw[:2000].decode("utf-8", "replace").split())
        return "" if text.startswith(("<", "{", "[")) else self._redact(text)[:300]

    def _failure(self, said: str, codes: set[str], status: int = 200, asked_wait: str = "") -> Exception:
        """Return what a complaint means; one that comes with status 200 may name a better one."""
        if status == 200:
            status = next((int(code) for code in codes if re.fullmatch("[45][0-9]{2}", code)), 200)
        codes = {str(status), *(code for code in codes if not code.isdigit())}
        what = f"{self.url}: status {status}: {said}"
        if codes & _NO_MONEY:  # which no waiting mends
            return ChatError(what)
        if status not in (401, 408, 409, 429) and any(map(_FILTERED.search, {said, *codes})):
            return UnreadError(what, CONTENT_FILTER)
        if status in (401, 403):
            state = "set" if os.environ.get(_KEY) else "not set"
            return ChatError(f"{what} (if that is about the key: the variable {_KEY} is {state})")
        if codes & _REFUSED:
            return UnreadError(what, "refused by the server")
        if codes & _PASSING or status >= 500:
            wait = float(asked_wait) if re.fullmatch(r"\d+(\.\d+)?|inf", asked_wait) else 0.0
            asks = f"; it asks to wait {wait:g} seconds" if wait else ""
            return _PassingError(f"status {status}: {said}{asks}", wait)
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


def _text_and_finish(choice: Any) -> tuple[str, str]:
    """Return the text of an answer, and why it ended; thoughts are no part of it. Errors of MALFORMED."""
    message = choice["message"]
    finish = choice.get("finish_reason") or ""
    content = message.get("content") or ""
    refusal = message.get("refusal") or ""
    if isinstance(content, list):  # of parts: text, and thoughts, pictures, sources
        refusal = refusal or "".join(part.get("refusal") or "" for part in content)
        content = "".join(part["text"] for part in content if part.get("type", "text") in ("text", "output_text"))
    if not all(isinstance(text, str) for text in (content, refusal, finish)):
        raise TypeError("a text was expected")
    if refusal and not content:
        return refusal, "refusal"
    if not content and (message.get("tool_calls") or message.get("function_call")):
        return "", "tool_calls"
    if _FILTERED.search(finish):
        return content, "content_filter"
    return content, "length" if finish in ("max_tokens", "model_length") else finish


def _words(said: Any) -> str:
    """Return a message in words; servers in Python list what is wrong with each field."""
    if isinstance(said, dict):
        said = said.get("detail") or said.get("message") or said
    if isinstance(said, list) and all(isinstance(one, dict) and "msg" in one for one in said):
        return "; ".join(f"{'.'.join(map(str, one.get('loc', ())))}: {one['msg']}" for one in said)
    return said if isinstance(said, str) else json.dumps(said)


def token_counts(prompt: Any, completion: Any) -> tuple[int, int]:
    """Return numbers of tokens that came from outside; ValueError where they cannot be right."""
    for number in (prompt, completion):
        if type(number) is not int or not 0 <= number < 1e9:
            raise ValueError("a number of tokens was expected")
    return prompt, completion


def alternatives(listed: Sequence[Sequence[Any]]) -> tuple[tuple[str, float], ...]:
    """Return (token, log-probability) pairs that came from outside; TypeError or ValueError where they are none."""
    found = tuple((token, float(logprob)) for token, logprob in listed)
    for token, logprob in found:
        # Rounding may take the logarithm of a sure thing slightly above 0.
        if not isinstance(token, str) or not -math.inf <= logprob <= 0.01:
            raise ValueError("a token and its log-probability were expected")
    return found


class _Address:
    """Where an endpoint is. Any part but the ``plain`` one may hold a key, so there is no way to print it."""

    def __init__(self, base: str, behind: str) -> None:
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
        self.full = parts._replace(path=path + behind, fragment="").geturl()
        said = {self.userinfo, *self.userinfo.split(":"), parts.query, *re.split("[&=]", parts.query)}
        login = base64.b64encode(unquote(self.userinfo).encode()).decode()
        self.secrets = {login, *said, *map(unquote, said)}


def _of_no_endpoint(record: logging.LogRecord) -> bool:
    """Leave what is posted, as to an endpoint, out of a log; a logging filter."""
    return " POST " not in record.getMessage()


def _wait(attempt: Any) -> float:
    """Return how many seconds to wait after an attempt: as many as the server asks for, or more and more."""
    import tenacity

    asked: float = attempt.outcome.exception().wait
    # Random, so that requests that failed together are not sent together again.
    grow = tenacity.wait_exponential(_FIRST_WAIT, _LONGEST_WAIT) + tenacity.wait_random(0, _FIRST_WAIT)
    return asked or grow(attempt)
