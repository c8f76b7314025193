"""One page from the web, fetched politely, within limits and from public addresses only; and its text.

A page, a redirect or a name server may point anywhere: requests go only to checked addresses, without a proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

from berdslib.errors import MissingDataError, known
from berdslib.version import __version__

if TYPE_CHECKING:
    import httpx
    from protego import Protego

AGENT = "berdslib"
PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 5
_TYPES = frozenset({"", "text/html", "application/xhtml+xml", "text/plain"})
_KEPT = ("content-type", "content-language", "last-modified", "date", "location")
_ASKED = {
    "User-Agent": f"{AGENT}/{__version__}",
    "Accept": "text/html,application/xhtml+xml,text/plain;q=0.8,*/*;q=0.1",
    "Accept-Encoding": "identity",
    "Connection": "close",
}
_ROBOTS_BYTES = 500 * 1024  # of a robots.txt that are read: the minimum of RFC 9309
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # an IPv4 address behind a translator, in networks without IPv4
# Beyond the addresses that ``ipaddress`` calls not global: multicast and reserved ranges, unassigned IPv6, addresses
# that embed another address (Teredo, 6to4), protocols of the local network, the host platform of Azure machines, and
# documentation (RFC 9637).
_CLOSED = [
    ipaddress.ip_network(block)
    for block in (
        *("224.0.0.0/3", "::/3", "4000::/2", "8000::/1", "2001::/32", "2002::/16"),
        *("192.0.0.0/24", "168.63.129.16/32", "3fff::/20"),
    )
]

Resolve = Callable[[str, int], Collection[str]]


class Limits(NamedTuple):
    """Limits of fetching a page.

    In seconds: ``silence`` (without data from the server), ``total`` (for one request), ``pause`` (between two requests
    to a host) and ``longest_pause`` (that a site may request). ``allow`` holds "address:port" of non-public addresses
    that may be reached.
    """

    silence: float = 10.0
    total: float = 60.0
    max_bytes: int = 5 * 1024 * 1024
    pause: float = 1.0
    longest_pause: float = 30.0
    allow: Collection[str] = frozenset()


class Page(NamedTuple):
    """The result of an attempt to fetch a page.

    ``outcome`` is "ok", or "refused" (address), "robots", "status", "type", "size", "timeout", "network" or
    "redirects", with its ``reason``; ``status`` the last HTTP status, 0 if none, that of robots.txt where this
    failed; ``seconds`` count from the first attempt, waiting for its turn included.
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
    """The reason why a page could not be fetched."""

    def __init__(self, outcome: str, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.status = status


# ---------------------------------------------------------------- addresses


def page_url(text: str, base: str = "") -> httpx.URL:
    """Return a web address, percent-encoded, with an ASCII host, without a fragment; `base` resolves relative ones.

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
    """Say whether an IP address belongs to the public internet; stricter than ``ipaddress``, see _CLOSED.

    >>> [is_public(a) for a in ("93.184.216.34", "10.0.0.1", "169.254.169.254", "100.64.0.1", "::ffff:8.8.8.8")]
    [True, False, False, False, False]
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if ip in _NAT64:
        ip = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.is_global and "%" not in address and not any(ip in network for network in _CLOSED)


def system_addresses(host: str, port: int) -> Collection[str]:
    """Return the addresses of a host, resolved by the operating system."""
    return dict.fromkeys(str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


# ---------------------------------------------------------------- politeness

_AGENT_LINE = re.compile(r"^\s*user(?:-|\s*)agent(?:[\s:]+|$)([^#\n]*).*", re.I | re.M)


def robots_rules(text: str) -> Protego:
    r"""Return the rules of a robots.txt (RFC 9309) for AGENT and for all crawlers.

    Other crawlers are renamed to one name: the parser copies a group's rules for each of its names, possibly millions,
    and matches parts of our name, such as "berds", with ours.

    >>> robots_rules("User-agent: *\nDisallow: /private").can_fetch("http://x.example/private/x", AGENT)
    False
    """
    from protego import Protego

    def renamed(line: re.Match[str]) -> str:
        name = line[1].strip()
        if re.match(rf"{AGENT}(?![a-z_-])", name, re.I):  # also "berdslib/1.0"
            return f"User-agent: {AGENT}"
        return "User-agent: *" if name == "*" else "User-agent: other"

    return Protego.parse(_AGENT_LINE.sub(renamed, "\n".join(text.splitlines())))


@dataclass
class _Host:
    """A host: the lock of its requests, the start of the next request, and the robots.txt of each origin."""

    pause: float
    free_at: float = 0.0
    turn: threading.Lock = field(default_factory=threading.Lock)
    reading_robots: threading.Lock = field(default_factory=threading.Lock)
    robots: dict[str, Protego | Page] = field(default_factory=dict)  # a failed page in place of the rules


# ---------------------------------------------------------------- fetching


class Fetcher:
    """Fetches pages, up to `workers` at a time, and remembers hosts and their robots.txt.

    `resolve` maps (host, port) to IP addresses; `transport` makes the HTTP transport.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        workers: int = 16,
        *,
        resolve: Resolve = system_addresses,
        transport: Callable[[], httpx.AsyncBaseTransport] | None = None,
    ) -> None:
        if find_spec("protego") is None:
            raise MissingDataError("fetching pages needs protego; install with: pip install 'berdslib[web]'")
        import httpx

        self.limits = limits or Limits()
        self.workers = workers
        self.resolve = resolve
        self._transport = transport or partial(httpx.AsyncHTTPTransport, verify=ssl.create_default_context())
        self._hosts: dict[str, _Host] = {}

    def fetch_all(self, urls: Iterable[str]) -> Iterator[Page]:
        """Yield the pages in the order of completion."""
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                for page in as_completed([pool.submit(self.fetch, url) for url in urls]):
                    yield page.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)  # an interrupt must not start the rest

    def fetch(self, url: str, *, robots: bool = False) -> Page:
        """Return the page, or the reason of the failure: a failure is an outcome, not an exception.

        Redirects are followed, and each address is checked like the first. A robots.txt is fetched without checking
        another. The main thread of a notebook already runs an event loop; use :meth:`fetch_all` there.
        """
        fetched = datetime.now(UTC).isoformat(timespec="seconds")
        began = time.monotonic()
        place = url
        try:
            address = page_url(url)
            for _ in range(_MOST_REDIRECTS + 1):
                place = str(address)
                if not robots and not self._rules(address).can_fetch(place, AGENT):
                    raise PageError("robots", "robots.txt does not allow it")
                page = self._ask_in_turn(address, any_type=robots)
                if page.status not in _REDIRECTS:
                    break
                address = page_url(page.headers["location"], place)
            else:
                raise PageError("redirects", f"more than {_MOST_REDIRECTS} redirects", page.status)
        except PageError as error:
            page = Page(url, error.outcome, str(error), error.status)
        return page._replace(url=url, final_url=place, seconds=round(time.monotonic() - began, 3), fetched=fetched)

    def _host(self, url: httpx.URL) -> _Host:
        return self._hosts.setdefault(url.host, _Host(self.limits.pause))

    def _rules(self, url: httpx.URL) -> Protego:
        host = self._host(url)
        origin = f"{url.scheme}://{url.netloc.decode()}"
        with host.reading_robots:
            if origin not in host.robots:
                host.robots[origin] = self._read_robots(origin, host)
        rules = host.robots[origin]
        if isinstance(rules, Page):
            raise PageError(rules.outcome, f"robots.txt: {rules.reason}", rules.status)
        return rules

    def _read_robots(self, origin: str, host: _Host) -> Protego | Page:
        page = self.fetch(f"{origin}/robots.txt", robots=True)
        is_absent = page.outcome == "status" and 400 <= page.status < 500 and page.status != 429
        if page.outcome != "ok" and not is_absent:
            return page
        rules = robots_rules(page.body[:_ROBOTS_BYTES].decode("utf-8-sig", "replace"))
        host.pause = max(host.pause, min(rules.crawl_delay(AGENT) or 0.0, self.limits.longest_pause))
        host.free_at = time.monotonic() + host.pause
        return rules

    def _ask_in_turn(self, url: httpx.URL, *, any_type: bool) -> Page:
        """Send one request at a time to a host, with a pause between two."""
        host = self._host(url)
        with host.turn:
            time.sleep(max(0.0, host.free_at - time.monotonic()))
            try:
                return self._ask(url, any_type=any_type)
            finally:
                host.free_at = time.monotonic() + host.pause

    def _ask(self, url: httpx.URL, *, any_type: bool) -> Page:
        addresses = self._addresses(url)
        try:
            # An event loop can cancel a request whose server sends single bytes slowly; a thread cannot.
            return asyncio.run(asyncio.wait_for(self._send(url, addresses, any_type), self.limits.total))
        except TimeoutError:
            raise PageError("timeout", f"not complete after {self.limits.total:g} s") from None

    def _addresses(self, url: httpx.URL) -> Collection[str]:
        """Return the addresses of a host, each of them checked."""
        port = PORTS[url.scheme] if url.port is None else url.port
        try:
            found = self.resolve(url.raw_host.decode(), port)
        except (OSError, ValueError) as error:
            raise PageError("network", f"{url.host} is not known ({error})") from None
        for address in found:
            place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
            if place in self.limits.allow:
                continue
            if not is_public(address):  # nor is a host name, so that none is resolved later
                raise PageError("refused", f"{address} is not a public address")
            if port not in PORTS.values():
                raise PageError("refused", f"port {port}; only 80 and 443 are reached")
        return found

    async def _send(self, url: httpx.URL, addresses: Collection[str], any_type: bool) -> Page:
        """Send one request to the first of the host's addresses that answers."""
        import httpx

        failure = PageError("network", f"{url.host} has no address")
        timeout = httpx.Timeout(self.limits.silence).as_dict()
        async with self._transport() as transport:
            for address in addresses:
                request = httpx.Request(
                    "GET",
                    url.copy_with(host=address),
                    headers={"Host": url.netloc.decode(), **_ASKED},
                    extensions={"timeout": timeout, "sni_hostname": url.raw_host.decode()},
                )
                try:
                    response = await transport.handle_async_request(request)
                    async with contextlib.aclosing(response):
                        return await self._read(response, any_type)
                except httpx.TransportError as error:
                    outcome = "timeout" if isinstance(error, httpx.TimeoutException) else "network"
                    failure = PageError(outcome, f"{type(error).__name__}: {str(error)[:200]}")
                    if not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                        break
        raise failure

    async def _read(self, response: httpx.Response, any_type: bool) -> Page:
        status = response.status_code
        kept = {name: response.headers[name] for name in _KEPT if name in response.headers}
        if status in _REDIRECTS and "location" in kept:
            return Page("", status=status, headers=kept)
        if not response.is_success:
            raise PageError("status", f"status {status}", status)
        kind = re.split("[;,]", kept.get("content-type", ""))[0].strip().lower()
        if kind not in _TYPES and not any_type:
            raise PageError("type", f"not a page but {kind[:60]}", status)
        body = bytearray()
        async for chunk in response.aiter_raw():  # no decompression: a small page could grow to gigabytes
            body += chunk
            if len(body) > self.limits.max_bytes:
                raise PageError("size", f"more than {self.limits.max_bytes:,} bytes", status)
        return Page("", status=status, headers=kept, body=bytes(body))


# ---------------------------------------------------------------- text

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ufffd]")
_HUGE_TAG = re.compile(
    r"(<\w*)[^<>]{50000,}"
)  # a tag with a hundred thousand attributes would occupy the parser for hours
_LONGEST_TITLE = 300


class PageText(NamedTuple):
    """Title and text of a page; ``outcome`` "ok", "binary", "no text", or "parser" if that failed on it."""

    outcome: str
    title: str = ""
    text: str = ""


def decode(body: bytes, content_type: str = "") -> str:
    """Return the text of a page: by a byte order mark, else the header, else the page's own word, else detection.

    >>> decode("é".encode("latin-1"), "text/html; charset=iso-8859-1")
    'é'
    """
    from w3lib.encoding import html_to_unicode

    return html_to_unicode(content_type, body, auto_detect_fun=_detected)[1]


def _detected(body: bytes) -> str | None:
    from charset_normalizer import from_bytes

    with contextlib.suppress(UnicodeDecodeError):
        body.decode("utf-8")
        return "utf-8"
    matches = from_bytes(body[:65536])
    best = matches.best()
    if best is None:
        return None
    # Several single-byte charsets often fit equally well; browsers then assume cp1252.
    if any(match.encoding == "cp1252" and match.chaos <= best.chaos for match in matches):
        return "cp1252"
    return best.encoding


def _trafilatura(html: str) -> tuple[str, str]:
    import trafilatura

    tree = trafilatura.load_html(html)
    if tree is None:
        return "", ""
    return tree.findtext(".//title") or "", trafilatura.extract(tree, include_comments=False) or ""


def _readability(html: str) -> tuple[str, str]:
    document = import_module("readability").Document(html)
    writer = import_module("html2text").HTML2Text(bodywidth=0)
    writer.ignore_links = writer.ignore_images = True
    return document.title(), writer.handle(document.summary())


EXTRACTORS = {"trafilatura": _trafilatura, "readability+html2text": _readability}


def check_extractor(name: str) -> str:
    """Return the name of an available extractor; raise an error that says what to install for others."""
    for module in known("extractor", name, EXTRACTORS).split("+"):
        if find_spec(module) is None:
            package = module if module == "trafilatura" else "'berdslib[web-paper]'"
            raise MissingDataError(f"extractor {name!r} needs {module}; install with: pip install {package}")
    return name


def _extract(extractor: str, html: str) -> tuple[str, str]:
    """Return title and text; trafilatura's log messages are hidden, since the outcome is reported."""
    messages = logging.getLogger("trafilatura")
    level = messages.level
    messages.setLevel(logging.CRITICAL)
    try:
        return EXTRACTORS[extractor](html)
    finally:
        messages.setLevel(level)


def page_text(body: bytes, content_type: str = "", extractor: str = "trafilatura") -> PageText:
    """Return title and text of a page."""
    kind = content_type.partition(";")[0].strip().lower()
    title = ""
    try:
        text = decode(body, content_type)
        if 20 * len(_CONTROL.findall(text)) > len(text):
            return PageText("binary")
        if kind != "text/plain" and (kind or "<" in text[:1024]):
            title, text = _extract(extractor, _HUGE_TAG.sub(r"\1", _CONTROL.sub(" ", text)))
    except Exception as error:  # noqa: BLE001  the libraries document no errors, and a page may hold anything
        logging.getLogger(__name__).info("the parser failed: %r", error)
        return PageText("parser")
    text = _CONTROL.sub(" ", text).strip()
    return PageText("ok" if text else "no text", " ".join(_CONTROL.sub(" ", title).split())[:_LONGEST_TITLE], text)
