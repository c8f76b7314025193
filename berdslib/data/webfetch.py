"""One page from the web: politely, within limits, and from public addresses only.

A page, a redirect or a name server may point anywhere, also at machines that only this one can see. So a host's name is
resolved once for each request, every address found must be public, and the request goes to one of these addresses, not
to the name: whatever the name stands for a moment later does not matter. Host header and TLS server name keep the name.
Addresses written as 127.1, 2130706433 or 0x7f000001 pass through the same resolution and check. A proxy from the
environment is not used: it would resolve the names itself.

The rules of a site's robots.txt are followed as RFC 9309 has them, read by the library Protego: the longest rule that
fits decides, * and $ are understood, and of a file the first 500 KiB count. A file that is not there (status 4xx)
allows everything. One that cannot be fetched (5xx, 429, no answer) allows nothing, and what was wrong with it is the
outcome of the site's pages: "robots" are those alone that rules forbid.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import ipaddress
import math
import random
import re
import socket
import ssl
import threading
import time
import weakref
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, as_completed
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

from berdslib.data.fetch import TRANSIENT
from berdslib.errors import MissingDataError
from berdslib.version import __version__

if TYPE_CHECKING:
    import httpx
    from protego import Protego

AGENT = "berdslib"
PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TYPES = frozenset({"text/html", "application/xhtml+xml", "text/plain"})
_KEPT = ("content-type", "content-language", "content-length", "last-modified", "etag", "date", "retry-after")
_ROBOTS_BYTES = 500 * 1024  # of a robots.txt are read: what RFC 9309 asks for at least
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # an IPv4 address behind a translator, in networks without IPv4
_UNICAST = ipaddress.IPv6Network("2000::/3")  # all that is assigned for the IPv6 internet
# What ``ipaddress`` of Python 3.11 calls global, or calls so in part, and what leads to a machine nearby all the same.
# These are the protocols of the own network, the platform behind a machine in Azure, and documentation (RFC 9637).
_NEARBY = [ipaddress.ip_network(one) for one in ("192.0.0.0/24", "168.63.129.16/32", "3fff::/20")]

Resolve = Callable[[str, int], Collection[str]]


class Limits(NamedTuple):
    """What a page may take.

    Fields: ``connect`` and ``read`` seconds to wait for a connection (and the host's address) and for the next bytes;
    ``total`` seconds for a page, with its robots.txt, redirects, attempts and the pauses between them; only the wait
    behind other pages is excused; ``max_bytes`` of a page, as sent and unpacked; ``redirects`` at most; ``retries``
    after failures that may pass; ``back_off`` seconds before the first of these, doubled for each further;
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
    lower case; ``body`` as bytes, unpacked, empty unless ok; ``seconds`` used of the limit; ``fetched`` when, in UTC.
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


class PageError(Exception):
    """Why a page could not be had.

    Args:
        outcome: one word for tables, see :class:`Page`.
        reason: a sentence.
        status: the HTTP status, 0 if there was none.
        again: whether the failure may pass.
        wait: seconds the server asks to wait.
    """

    def __init__(self, outcome: str, reason: str, *, status: int = 0, again: bool = False, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.outcome, self.reason, self.status, self.again, self.wait = outcome, reason, status, again, wait


# ---------------------------------------------------------------- addresses


def page_url(text: str, base: str = "") -> httpx.URL:
    """Return a web address, percent-encoded, its host in ASCII, without a fragment.

    Args:
        text: the address, or one relative to `base`.
        base: where it was found.

    Raises:
        PageError: "refused": not http or https, a user name or password in it, a zone id, or malformed.

    >>> str(page_url("HTTPS://Example.org/a b?q=é#top"))
    'https://example.org/a%20b?q=%C3%A9'
    """
    import httpx

    try:
        url = httpx.URL(urljoin(base, text.strip())).copy_with(fragment=None)
    except (ValueError, httpx.InvalidURL) as error:
        raise PageError("refused", f"a malformed address ({error})") from None
    if url.scheme not in PORTS:
        raise PageError("refused", f"not http or https but {url.scheme[:20] or 'no scheme'}")
    if url.userinfo:
        raise PageError("refused", "a user name or password in the address")
    if not re.fullmatch(r"[a-z0-9._-]+|[0-9a-f:.]+", url.raw_host.decode()):  # also refuses a zone id
        raise PageError("refused", "a malformed host name")
    return url


def is_public(address: str) -> bool:
    """Say whether an IP address is one of the public internet, where anybody may be reached.

    Stricter than ``ipaddress``: what it calls not global is never public; neither are multicast, reserved and
    unassigned ranges, nor addresses that carry another one inside (IPv4-mapped, 6to4, Teredo), nor those in _NEARBY.
    A NAT64 address is as public as the IPv4 address in it.

    >>> [is_public(a) for a in ("93.184.216.34", "10.0.0.1", "169.254.169.254", "100.64.0.1", "::ffff:8.8.8.8")]
    [True, False, False, False, False]
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.scope_id is not None:
            return False
        if ip in _NAT64:
            ip = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        elif ip not in _UNICAST or ip.sixtofour is not None or ip.teredo is not None:
            return False
    if any(ip in network for network in _NEARBY):
        return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_unspecified)


def system_addresses(host: str, port: int) -> Collection[str]:
    """Return the addresses that the operating system finds for a host.

    Raises:
        OSError: it finds none.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return dict.fromkeys(str(info[4][0]) for info in found)


# ---------------------------------------------------------------- politeness


def retry_after(value: str) -> float:
    """Return the seconds that a Retry-After header (seconds or a date) asks to wait; 0 for none or nonsense.

    >>> retry_after("120"), retry_after("soon")
    (120.0, 0.0)
    """
    with contextlib.suppress(ValueError):
        return max(float(value), 0.0) if math.isfinite(float(value)) else 0.0
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    return 0.0


_AGENT_LINE = re.compile(r"\s*user(?:-|\s*)agent(?:[\s:]+|$)([^#]*)", re.I)


def robots_rules(text: str) -> Protego:
    r"""Return the rules of a robots.txt, for AGENT and for everybody.

    All other crawlers get one name. The parser holds a copy of a group's rules for each name in it, so a file could
    ask for a hundred million; and it takes parts of our name, such as "berds", for ours.

    >>> robots_rules("User-agent: *\nDisallow: /private").can_fetch("http://x.example/private/x", AGENT)
    False

    Source: RFC 9309.
    """
    from protego import Protego

    lines = []
    for line in text.splitlines():
        if agent := _AGENT_LINE.match(line):
            name = agent[1].strip()
            product = re.match(r"[a-z_-]*", name, re.I)  # "berdslib/1.0" means us as well
            ours = product is not None and product[0].lower() == AGENT
            line = f"User-agent: {AGENT if ours else name if name == '*' else 'other'}"
        lines.append(line)
    return Protego.parse("\n".join(lines))


class _Visit:
    """What one page may still use, over its robots.txt, redirects and attempts."""

    def __init__(self, clock: asyncio.Timeout, limits: Limits) -> None:
        self.clock, self.total, self.retries = clock, limits.total, limits.retries

    @property
    def used(self) -> float:
        """Seconds used so far."""
        return self.total - (self.clock.when() or 0.0) + asyncio.get_running_loop().time()

    @contextlib.asynccontextmanager
    async def turn(self, gate: asyncio.Lock | asyncio.Semaphore) -> AsyncIterator[None]:
        """Wait behind other pages, which does not count."""
        used = self.used
        self.clock.reschedule(None)
        async with gate:
            self.clock.reschedule(asyncio.get_running_loop().time() + self.total - used)
            yield


class _Host:
    """Whose turn it is at a host."""

    def __init__(self, pause: float) -> None:
        self.lock, self.pause, self.next_start = asyncio.Lock(), pause, 0.0

    def rest(self, seconds: float) -> None:
        """Let the next request start this many seconds from now, or later if that is what was asked for before."""
        self.next_start = max(self.next_start, time.monotonic() + seconds)


# ---------------------------------------------------------------- fetching


class Fetcher:
    """Fetches pages; may be used by several threads at once, and remembers robots.txt and turns at hosts.

    The requests run in an event loop in a thread of its own: there a time limit ends whatever a page is at, and
    notebooks, which have a loop already, are not disturbed.

    Args:
        limits: what a page may take.
        workers: requests at the same time, each to another host.
        resolve: (host, port) → IP addresses; the operating system's by default.
        transport: sends the requests; their addresses hold an IP address in place of the name.

    Raises:
        MissingDataError: a package for it is not installed.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        workers: int = 16,
        *,
        resolve: Resolve = system_addresses,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        for package in ("httpx", "protego"):
            if find_spec(package) is None:
                raise MissingDataError(f"fetching pages needs {package}; install with: pip install 'berdslib[web]'")
        import httpx

        self.limits, self.resolve = limits or Limits(), resolve
        self._transport = transport or httpx.AsyncHTTPTransport(verify=ssl.create_default_context())
        self._workers = asyncio.Semaphore(workers)
        self._hosts: dict[str, _Host] = {}
        self._rules: dict[str, Protego | PageError] = {}  # of an origin, or why they could not be fetched
        self._reading: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True, name="web").start()
        weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)

    def fetch(self, url: str) -> Page:
        """Return the page, or why there is none; a failure is an outcome, not an exception."""
        return next(self.fetch_all([url]))

    def fetch_all(self, urls: Iterable[str]) -> Iterator[Page]:
        """Yield the pages as they come: hosts side by side, the pages of a host one after the other."""
        pages = [asyncio.run_coroutine_threadsafe(self._fetch(url), self._loop) for url in urls]
        try:
            for page in as_completed(pages):
                yield page.result()
        finally:
            for page in pages:
                page.cancel()  # an interrupt must not leave the rest running

    async def _fetch(self, url: str) -> Page:
        began = datetime.now(UTC).isoformat(timespec="seconds")
        trail = [url]
        try:
            async with asyncio.timeout(self.limits.total) as clock:
                visit = _Visit(clock, self.limits)
                page = await self._follow(trail, visit, robots=True)
        except TimeoutError:
            page = Page(url, "timeout", f"not complete after {self.limits.total:g} s")
        except PageError as error:
            page = Page(url, error.outcome, error.reason, error.status)
        headers = {name: page.headers[name] for name in _KEPT if name in page.headers}
        return page._replace(url=url, final_url=trail[-1], headers=headers, seconds=round(visit.used, 3), fetched=began)

    async def _follow(self, trail: list[str], visit: _Visit, *, robots: bool) -> Page:
        """Follow redirects from the last address of the trail, and write each into it."""
        while True:
            url = page_url(trail[-1])
            trail[-1] = str(url)
            if robots:
                await self._require_robots(url, visit)
            page = await self._insist(url, visit, any_type=not robots)
            if page.status not in _REDIRECTS:
                return page
            if len(trail) > self.limits.redirects:
                raise PageError("redirects", f"more than {self.limits.redirects} redirects", status=page.status)
            trail.append(str(page_url(page.headers["location"], str(url))))

    async def _require_robots(self, url: httpx.URL, visit: _Visit) -> None:
        origin = f"{url.scheme}://{url.netloc.decode()}"
        async with visit.turn(self._reading[origin]):
            if origin not in self._rules:
                await self._read_robots(origin, self._host(url.host), visit)
        rules = self._rules[origin]
        if isinstance(rules, PageError):  # a new one, as an exception collects the traces of all who raise it
            raise PageError(rules.outcome, f"robots.txt: {rules.reason}", status=rules.status)
        if not rules.can_fetch(str(url), AGENT):
            raise PageError("robots", "robots.txt does not allow it")

    async def _read_robots(self, origin: str, host: _Host, visit: _Visit) -> None:
        used = visit.used
        try:
            page = await self._follow([f"{origin}/robots.txt"], visit, robots=False)
        except PageError as error:
            if error.outcome == "refused":
                raise
            absent = error.outcome == "status" and 400 <= error.status < 500 and error.status != 429
            self._rules[origin] = robots_rules("") if absent else error
        except asyncio.CancelledError:
            if used < visit.total / 2:  # who came here late, over slow redirects, did not give it a chance
                self._rules[origin] = PageError("timeout", f"not complete after {visit.total - used:.3g} s")
            raise
        else:
            rules = self._rules[origin] = robots_rules(page.body[:_ROBOTS_BYTES].decode("utf-8-sig", "replace"))
            host.pause = max(host.pause, min(rules.crawl_delay(AGENT) or 0.0, self.limits.longest_wait))
            host.rest(host.pause)

    def _host(self, name: str) -> _Host:
        return self._hosts.setdefault(name, _Host(self.limits.pause))

    async def _insist(self, url: httpx.URL, visit: _Visit, *, any_type: bool) -> Page:
        """Ask until there is an answer, or a failure that stays; one at a time at a host, with a pause between two."""
        host = self._host(url.host)
        while True:
            async with visit.turn(host.lock):
                await asyncio.sleep(host.next_start - time.monotonic())
                try:
                    async with visit.turn(self._workers):
                        return await self._ask(url, any_type=any_type)
                except PageError as error:
                    if not error.again or not visit.retries or error.wait > self.limits.longest_wait:
                        raise
                    back_off = self.limits.back_off * 2 ** (self.limits.retries - visit.retries)
                    visit.retries -= 1
                    # Full jitter, as many clients that failed together must not come back together.
                    host.rest(error.wait or back_off * random.random())
                finally:
                    host.rest(host.pause)

    async def _ask(self, url: httpx.URL, *, any_type: bool) -> Page:
        """Send one request to the first of the host's addresses that answers."""
        import httpx

        limits = self.limits
        headers = {
            "Host": url.netloc.decode(),
            "User-Agent": f"{AGENT}/{__version__}",
            "Accept": "text/html,application/xhtml+xml,text/plain;q=0.8,*/*;q=0.1",
            "Accept-Encoding": "gzip",
            "Connection": "close",
        }
        timeout = httpx.Timeout(limits.read, connect=limits.connect).as_dict()
        addresses = await self._addresses(url)
        try:
            for i, address in enumerate(addresses):
                extensions = {"timeout": timeout, "sni_hostname": url.raw_host.decode()}
                request = httpx.Request("GET", url.copy_with(host=address), headers=headers, extensions=extensions)
                try:
                    response = await self._transport.handle_async_request(request)
                except (httpx.ConnectError, httpx.ConnectTimeout):
                    if i == len(addresses) - 1:
                        raise
                    continue
                async with contextlib.aclosing(response):
                    return await _read(response, limits.max_bytes, any_type)
        except httpx.TimeoutException:
            raise PageError("timeout", "no bytes for too long", again=True) from None
        except httpx.TransportError as error:
            again = "CERTIFICATE_VERIFY_FAILED" not in str(error)
            raise PageError("network", f"{type(error).__name__}: {str(error)[:200]}", again=again) from None
        raise PageError("network", f"{url.host} has no address")

    async def _addresses(self, url: httpx.URL) -> list[str]:
        """Return the addresses of a host, each of them checked."""
        port = PORTS[url.scheme] if url.port is None else url.port
        # The system's resolver takes no time limit, so it runs in a thread that nobody has to wait for.
        answer: Future[Collection[str]] = Future()
        answer.set_running_or_notify_cancel()

        def look_up() -> None:
            try:
                answer.set_result(self.resolve(url.raw_host.decode(), port))
            except (OSError, ValueError) as error:
                answer.set_exception(error)

        threading.Thread(target=look_up, daemon=True, name="resolve").start()
        try:
            found = await asyncio.wait_for(asyncio.wrap_future(answer), self.limits.connect)
        except TimeoutError:
            raise PageError("timeout", f"{url.host}: no answer from the name server", again=True) from None
        except (OSError, ValueError) as error:
            again = isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN
            raise PageError("network", f"{url.host} is not known ({error})", again=again) from None
        for address in found:
            if (f"[{address}]:{port}" if ":" in address else f"{address}:{port}") in self.limits.allow:
                continue
            if not is_public(address):  # nor is what is no IP address, so nothing is left to be resolved
                raise PageError("refused", f"{address} is not a public address")
            if port not in PORTS.values():
                raise PageError("refused", f"port {port}; only 80 and 443 are reached")
        return list(found)


async def _read(response: httpx.Response, limit: int, any_type: bool) -> Page:
    status, headers = response.status_code, dict(response.headers)
    if status in _REDIRECTS and "location" in headers:
        return Page("", status=status, headers=headers)
    if not 200 <= status < 300:
        wait = retry_after(headers.get("retry-after", ""))
        asks = f", asks to wait {wait:.0f} s" if wait else ""
        raise PageError("status", f"status {status}{asks}", status=status, again=status in TRANSIENT, wait=wait)
    kind = re.split("[;,]", headers.get("content-type", ""))[0].strip().lower()
    if kind and kind not in _TYPES and not any_type:
        raise PageError("type", f"not a page but {kind[:60]}", status=status)
    length = headers.get("content-length", "")
    if length.isdecimal() and float(length) > limit:
        raise PageError("size", f"announces {length[:30]} bytes, accepted are {limit:,}", status=status)
    try:
        body = await _body(response, headers.get("content-encoding", ""), limit)
    except PageError as error:
        error.status = status
        raise
    return Page("", status=status, headers=headers, body=body)


async def _body(response: httpx.Response, coding: str, limit: int) -> bytes:
    """Read and unpack a body; what it unpacks to is never held beyond the limit, as httpx alone would."""
    coding = coding.strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip"):
        raise PageError("encoding", f"packed by {coding[:40]!r}, asked for was gzip")
    unpack = zlib.decompressobj(wbits=31) if coding.endswith("gzip") else None
    body = bytearray()
    arrived = 0
    async for chunk in response.aiter_raw():
        arrived += len(chunk)
        try:
            body += unpack.decompress(chunk, limit + 1 - len(body)) if unpack else chunk
        except zlib.error as error:
            raise PageError("encoding", f"damaged gzip ({error})") from None
        if max(arrived, len(body)) > limit:
            raise PageError("size", f"more than {limit:,} bytes")
    if unpack and arrived and not unpack.eof:
        raise PageError("network", "the gzip data break off", again=True)
    if unpack and unpack.unused_data.startswith(b"\x1f\x8b"):
        raise PageError("encoding", "several gzip members in one answer")
    return bytes(body)
