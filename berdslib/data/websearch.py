"""Search engines behind one protocol; the one here is Google through serper.dev, as in the paper.

The key comes from the environment when a request is made; it is kept in no object and no file, and no message shows it.
The request goes to one fixed address, through a proxy if the environment names one; pages never do, see webfetch.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import random
import time
import urllib.error
import urllib.request
from typing import Any, NamedTuple, Protocol

from berdslib.errors import BerdsError, InputError
from berdslib.llm.chat import retry_after

logger = logging.getLogger(__name__)

_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
_LARGEST = 16 * 1024 * 1024


class SearchError(BerdsError):
    """A search engine that refuses, fails for good, or answers in another form."""


class Result(NamedTuple):
    """A search result: ``url``, ``title``, ``snippet``, and ``position`` from 1."""

    url: str
    title: str = ""
    snippet: str = ""
    position: int = 0


class SearchProvider(Protocol):
    """Asks a search engine. What it answers is kept as bytes, so asking and reading are two steps.

    ``id`` names what answers depend on besides query and number.
    """

    id: str

    def ask(self, query: str, num: int) -> bytes:
        """Return the engine's answer as it came, without the key."""
        ...

    def read(self, answer: bytes) -> list[Result]:
        """Return the results in an answer, best first."""
        ...


class Serper:
    """Google results through serper.dev: a POST with the query, the key in the header X-API-KEY.

    Args:
        url: of the service.
        key_variable: the environment variable that holds the key.
        timeout: seconds to wait for an answer.
        retries: further attempts after a failure that may pass (no answer, 429, 5xx).
        longest_wait: seconds that the service may ask to wait; if it asks for more, that is an error.

    Raises:
        InputError: not an http or https address.

    Source: BeRDS section 4.2.
    """

    def __init__(
        self,
        url: str = "https://google.serper.dev/search",
        *,
        key_variable: str = "SERPER_API_KEY",
        timeout: float = 30.0,
        retries: int = 3,
        longest_wait: float = 60.0,
    ) -> None:
        if not url.startswith(("https://", "http://")):
            raise InputError(f"a search service must be an http or https address, not {url!r}")
        self.url, self.key_variable = url, key_variable
        self.timeout, self.retries, self.longest_wait = timeout, retries, longest_wait
        self.id = f"serper({url})"

    def ask(self, query: str, num: int) -> bytes:
        """Return the service's answer; waits and tries again after failures that may pass.

        Raises:
            SearchError: no key, refused, or failed for good.
        """
        body = json.dumps({"q": query, "num": num}).encode()
        for attempt in range(self.retries + 1):
            wait = random.uniform(0, 2.0**attempt)  # full jitter
            try:
                return self._post(body)
            except urllib.error.HTTPError as error:
                with error:
                    asked = retry_after(error.headers.get("Retry-After", ""))
                    stays = error.code not in _TRANSIENT or asked > self.longest_wait
                    if stays or attempt == self.retries:
                        raise self._refusal(error, asked) from None
                    wait, why = asked or wait, f"status {error.code}"
            except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
                if attempt == self.retries:
                    problem = f"no answer from {self.url} after {attempt + 1} attempts ({_words(error)})"
                    raise SearchError(problem) from None
                why = _words(error)
            logger.info("%s: %s; trying again in %.1f s", self.url, why, wait)
            time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def read(self, answer: bytes) -> list[Result]:
        """Return the organic results in their order.

        Raises:
            SearchError: not an answer of this service.
        """
        try:
            rows = json.loads(answer)["organic"]
            return [_result(row, i) for i, row in enumerate(rows, start=1)]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            problem = f"{self.url} answered in another form than serper's ({type(error).__name__})"
            raise SearchError(problem) from None

    def _post(self, body: bytes) -> bytes:
        key = os.environ.get(self.key_variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():  # http.client would show a malformed header
            state = "holds characters that no key has" if key else "is not set"
            raise SearchError(f"{self.url} asks for a key; the variable {self.key_variable} {state}")
        headers = {"Content-Type": "application/json", "X-API-KEY": key}
        request = urllib.request.Request(self.url, data=body, headers=headers, method="POST")
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=self.timeout) as response:
            answer: bytes = response.read(_LARGEST + 1)
        if len(answer) > _LARGEST:
            raise SearchError(f"{self.url} answered with more than {_LARGEST:,} bytes")
        return answer.replace(key.encode(), b"[key]")

    def _refusal(self, error: urllib.error.HTTPError, asked: float) -> SearchError:
        if error.code in (401, 403):
            return SearchError(
                f"{self.url}: status {error.code}; the key in the variable {self.key_variable} is refused"
            )
        waits = f"; it asks to wait {asked:.0f} s" if asked else ""
        return SearchError(f"{self.url}: status {error.code}{waits}: {self._message(error)}")

    def _message(self, error: urllib.error.HTTPError) -> str:
        """Return what the service says is wrong, without the key."""
        try:
            found = str(json.loads(error.read(10_000))["message"])[:300]
        except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
            found = str(error.reason)
        key = os.environ.get(self.key_variable, "").strip()
        return found.replace(key, "[key]") if key else found


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuse redirects: urllib would send the key along, wherever they lead."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:  # noqa: ARG002
        return None


def _result(row: Any, number: int) -> Result:
    position = row.get("position", number)
    if not isinstance(row["link"], str) or not isinstance(position, int):
        raise TypeError
    url, title, snippet = (_whole(row[f] or "") if f in row else "" for f in ("link", "title", "snippet"))
    return Result(url, title, snippet, position)


def _whole(text: object) -> str:
    """Half of a surrogate pair is legal JSON, but no text: it cannot be written."""
    return str(text).encode("utf-8", "replace").decode("utf-8")


def _words(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return str(reason) or type(error).__name__
