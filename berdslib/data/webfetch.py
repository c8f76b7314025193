"""One page from the web: politely, within limits, and from public addresses only.

Pages are always fetched directly. A proxy from the environment is not used: it would resolve the names itself, and no
check of ours would hold. A network that reaches the web through a proxy only gives the outcome "network".

The rules of a site's robots.txt are followed as RFC 9309 has them, read by the library Protego: the longest rule that
fits decides, * and $ are understood, and of a file the first 500 KiB count. A file that is not there (status 4xx)
allows everything. One that cannot be had (5xx, 429, no answer) allows nothing, and what was wrong with it is the
outcome of the site's pages: "robots" are those alone that rules forbid.
"""

from __future__ import annotations

import contextlib
import logging
import random
import re
import ssl
import threading
import time
import zlib
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urljoin

import httpcore
from protego import Protego

from berdslib import __version__
from berdslib.data.webaddress import Budget, CheckedBackend, PageError, Resolve, Target, system_addresses, target_of
from berdslib.llm.chat import retry_after

logger = logging.getLogger(__name__)

AGENT = "berdslib"
_TYPES = frozenset({"text/html", "application/xhtml+xml", "text/plain"})
_KEPT = ("content-type", "content-language", "content-length", "last-modified", "etag", "date", "retry-after")
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_ROBOTS_BYTES = 500 * 1024  # of a robots.txt are read: what RFC 9309 asks for at least
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Limits(NamedTuple):
    """What a page may take.

    Fields: ``connect`` and ``read`` seconds to wait for a connection and for the next bytes; ``total`` seconds on the
    network for a page over all its redirects and attempts, the wait for its turn at the host excused (robots.txt, once
    for a site, has as many of its own); ``max_bytes`` of a page, as sent and unpacked; ``redirects`` at most;
    ``retries`` after failures that may pass; ``back_off`` seconds before the first of these, doubled for each further;
    ``longest_wait`` seconds that a server may ask for: a page that asks for more (Retry-After) is given up, a site's
    Crawl-delay is cut to it; ``pause`` seconds between two requests to a host; ``allow`` "address:port" that may be
    reached although not public.
    """

    connect: float = 10.0
    read: float = 20.0
    total: float = 60.0
    max_bytes: int = 5 * 1024 * 1024
    redirects: int = 5
    retries: int = 2
    back_off: float = 1.0
    longest_wait: float = 30.0
    pause: float = 1.0
    allow: Collection[str] = frozenset()


class Page(NamedTuple):
    """What came of an attempt to fetch a page.

    Fields: ``url`` that was asked for; ``outcome`` "ok", or "refused" (address), "robots", "status", "type", "size",
    "timeout", "network", "redirects", "encoding"; ``reason`` a sentence, "" if ok; ``status`` the last HTTP status, 0
    if none, that of robots.txt where this failed; ``final_url`` after redirects; ``headers`` those that matter, in
    lower case; ``body`` as bytes, unpacked, empty unless ok; ``seconds`` on the network; ``fetched`` when, in UTC.
    """

    url: str
    outcome: str = "ok"
    reason: str = ""
    status: int = 0
    final_url: str = ""
    headers: dict[str, str] = {}  # noqa: RUF012  never changed
    body: bytes = b""
    seconds: float = 0.0
    fetched: str = ""


class _Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class _Host:
    """Whose turn it is at a host; ``next_start`` is read and moved by the holder of the lock only."""

    def __init__(self, pause: float) -> None:
        self.lock, self.pause, self.next_start = threading.Lock(), pause, 0.0

    def rest(self, seconds: float) -> None:
        """Let the next request start this many seconds from now, or later if that is what was asked for before."""
        self.next_start = max(self.next_start, time.monotonic() + seconds)


class _Site:
    """The rules of an origin, or why they cannot be had; asked for once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.rules: Protego | None = None
        self.failure: PageError | None = None


class Fetcher:
    """Fetches pages; may be used by several threads at once, and remembers robots.txt and turns at hosts.

    Args:
        limits: what a page may take.
        resolve: (host, port) → IP addresses; the operating system's by default.
        network: opens the connections to addresses.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        resolve: Resolve = system_addresses,
        network: httpcore.NetworkBackend | None = None,
    ) -> None:
        self.limits, self.resolve = limits or Limits(), resolve
        self._network = network or httpcore.SyncBackend()
        self._tls = ssl.create_default_context()
        self._lock = threading.Lock()
        self._hosts: dict[str, _Host] = {}
        self._sites: dict[str, _Site] = {}

    def fetch(self, url: str) -> Page:
        """Return the page, or why there is none; a failure is an outcome, not an exception."""
        began = datetime.now(UTC).isoformat(timespec="seconds")
        budget = Budget(self.limits.total, self.limits.retries)
        trail = [url]
        try:
            answer = self._follow(trail, budget, robots=True)
        except PageError as error:
            logger.debug("%s: %s: %s", url, error.outcome, error.reason)
            return Page(
                url, error.outcome, error.reason, error.status, trail[-1], seconds=round(budget.used, 3), fetched=began
            )
        kept = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
        seconds = round(budget.used, 3)
        return Page(url, "ok", "", answer.status, trail[-1], kept, answer.body, seconds, began)

    def _follow(self, trail: list[str], budget: Budget, *, robots: bool) -> _Answer:
        """Follow redirects from the last address of the trail, and write each into it."""
        while True:
            target = target_of(trail[-1])
            trail[-1] = target.url
            if robots:
                self._require_robots(target, budget)
            answer = self._insist(target, budget, any_type=not robots)
            if answer.status not in _REDIRECTS:
                return answer
            if len(trail) > self.limits.redirects:
                raise PageError("redirects", f"more than {self.limits.redirects} redirects", status=answer.status)
            try:
                trail.append(urljoin(target.url, answer.headers["location"]))
            except ValueError as error:
                raise PageError("refused", f"a redirect to a malformed address ({error})") from None

    # ------------------------------------------------------------ politeness

    def _host(self, name: str) -> _Host:
        with self._lock:
            return self._hosts.setdefault(name, _Host(self.limits.pause))

    @contextlib.contextmanager
    def _turn(self, host: _Host, budget: Budget) -> Iterator[None]:
        """Let one request at a time through to a host, with a pause between two."""
        began = time.monotonic()
        with host.lock:
            time.sleep(max(0.0, host.next_start - time.monotonic()))
            budget.excuse(time.monotonic() - began)
            try:
                yield
            finally:
                host.rest(host.pause)

    def _require_robots(self, target: Target, budget: Budget) -> None:
        with self._lock:
            site = self._sites.setdefault(target.origin, _Site())
        began = time.monotonic()
        with site.lock:
            if site.rules is None and site.failure is None:
                self._read_robots(target, site)
        budget.excuse(time.monotonic() - began)
        if site.failure is not None:
            failure = site.failure  # a new one, as an exception collects the traces of all who raise it
            raise PageError(failure.outcome, f"robots.txt: {failure.reason}", status=failure.status)
        if site.rules is not None and not site.rules.can_fetch(target.url, AGENT):
            raise PageError("robots", "robots.txt does not allow it")

    def _read_robots(self, target: Target, site: _Site) -> None:
        budget = Budget(self.limits.total, self.limits.retries)
        try:
            answer = self._follow([target.origin + "/robots.txt"], budget, robots=False)
        except PageError as error:
            if error.outcome == "refused":
                raise
            if error.outcome == "status" and 400 <= error.status < 500 and error.status != 429:
                site.rules = Protego.parse("")
            else:
                site.failure = error
            return
        site.rules = robots_rules(answer.body[:_ROBOTS_BYTES].decode("utf-8-sig", "replace"))
        delay = min(site.rules.crawl_delay(AGENT) or 0.0, self.limits.longest_wait)
        host = self._host(target.host)
        with host.lock:
            host.pause = max(host.pause, delay)
            host.rest(host.pause)

    def _insist(self, target: Target, budget: Budget, *, any_type: bool) -> _Answer:
        """Ask until there is an answer, or a failure that stays."""
        host = self._host(target.host)
        for attempt in range(budget.retries + 1):
            with self._turn(host, budget):
                try:
                    return self._ask(target, budget, any_type=any_type)
                except PageError as error:
                    if not error.again or not budget.retries or error.wait > self.limits.longest_wait:
                        raise
                    budget.retries -= 1
                    # Full jitter, as many clients that failed together must not come back together.
                    host.rest(error.wait or self.limits.back_off * 2**attempt * random.random())
        raise AssertionError("the last attempt returns or raises")

    # ------------------------------------------------------------ one request

    def _ask(self, target: Target, budget: Budget, *, any_type: bool) -> _Answer:
        limits = self.limits
        backend = CheckedBackend(
            budget,
            connect=limits.connect,
            read=limits.read,
            allow=limits.allow,
            resolve=self.resolve,
            inner=self._network,
        )
        scheme, host = target.scheme.encode(), target.host.encode()
        headers: dict[bytes | str, bytes | str] = {
            "Host": target.origin.partition("://")[2],
            "User-Agent": f"{AGENT}/{__version__}",
            "Accept": "text/html,application/xhtml+xml,text/plain;q=0.8,*/*;q=0.1",
            "Accept-Encoding": "gzip",
            "Connection": "close",
        }
        url = httpcore.URL(scheme=scheme, host=host, port=target.port, target=target.path.encode("ascii"))
        try:
            with (
                httpcore.HTTPConnection(url.origin, ssl_context=self._tls, network_backend=backend) as connection,
                connection.stream("GET", url, headers=headers) as response,
            ):
                return _read(response, limits.max_bytes, any_type)
        except httpcore.TimeoutException:
            raise PageError("timeout", "no bytes for too long", again=True) from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol) as error:
            refused = isinstance(error.__cause__, ssl.SSLCertVerificationError)
            reason = f"{type(error).__name__}: {str(error)[:200]}"
            raise PageError("network", reason, again=not refused) from None


_AGENT_LINE = re.compile(r"\s*user(?:-|\s*)agent(?:[\s:]+|$)([^#]*)", re.I)


def robots_rules(text: str) -> Protego:
    r"""Return the rules of a robots.txt, for AGENT and for everybody.

    All other crawlers get one name. The parser holds a copy of a group's rules for each name in it, so a file could
    ask for a hundred million; and it takes parts of our name, such as "berds", for ours.

    >>> robots_rules("User-agent: *\nDisallow: /private").can_fetch("http://x.example/private/x", AGENT)
    False

    Source: RFC 9309.
    """
    lines = []
    for line in text.splitlines():
        if agent := _AGENT_LINE.match(line):
            name = agent[1].strip()
            product = re.match(r"[a-z_-]*", name, re.I)  # "berdslib/1.0" means us as well
            ours = product is not None and product[0].lower() == AGENT
            line = f"User-agent: {AGENT if ours else name if name == '*' else 'other'}"
        lines.append(line)
    return Protego.parse("\n".join(lines))


def _read(response: httpcore.Response, limit: int, any_type: bool) -> _Answer:
    headers: dict[str, str] = {}
    for name, value in response.headers:
        headers.setdefault(name.decode("latin-1").lower(), _text(value))
    status = response.status
    if status in _REDIRECTS and "location" in headers:
        return _Answer(status, headers, b"")
    if not 200 <= status < 300:
        wait = retry_after(headers.get("retry-after", ""))
        asks = f", asks to wait {wait:.0f} s" if wait else ""
        raise PageError("status", f"status {status}{asks}", status=status, again=status in _TRANSIENT, wait=wait)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind and kind not in _TYPES and not any_type:
        raise PageError("type", f"not a page but {kind[:60]}", status=status)
    length = headers.get("content-length", "")
    if length.isdecimal() and float(length) > limit:
        raise PageError("size", f"announces {length[:30]} bytes, accepted are {limit:,}", status=status)
    try:
        return _Answer(status, headers, _body(response, headers.get("content-encoding", ""), limit))
    except PageError as error:
        error.status = status
        raise


def _body(response: httpcore.Response, coding: str, limit: int) -> bytes:
    """Read and unpack a body; what it unpacks to is limited as well, and never held beyond the limit."""
    coding = coding.strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip"):
        raise PageError("encoding", f"packed by {coding[:40]!r}, asked for was gzip")
    unpack = zlib.decompressobj(wbits=31) if coding.endswith("gzip") else None
    parts: list[bytes] = []
    arrived = done = 0
    for chunk in response.iter_stream():
        arrived += len(chunk)
        try:
            part = unpack.decompress(chunk, limit + 1 - done) if unpack else chunk
        except zlib.error as error:
            raise PageError("encoding", f"damaged gzip ({error})") from None
        done += len(part)
        if max(arrived, done) > limit:
            raise PageError("size", f"more than {limit:,} bytes")
        parts.append(part)
    if unpack and arrived and not unpack.eof:
        raise PageError("network", "the gzip data break off", again=True)
    if unpack and unpack.unused_data.startswith(b"\x1f\x8b"):
        raise PageError("encoding", "several gzip members in one answer")
    return b"".join(parts)


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")
