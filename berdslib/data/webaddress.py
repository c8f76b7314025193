"""What may be reached on the web, and a connection to exactly the address that was checked.

A page, a redirect or a name server may point anywhere, also at machines that only this one can see. So a host's name is
resolved once for each connection, every address found must be public, and the connection goes to one of these
addresses, not to the name: whatever the name stands for a moment later does not matter. Host header and TLS server name
keep the name. Addresses written as 127.1, 2130706433 or 0x7f000001 pass through the same resolution and check.

A name beyond ASCII stands for the domain that browsers open (UTS 46, IDNA 2008: faß.de is not fass.de).
"""

from __future__ import annotations

import ipaddress
import math
import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import httpcore
import idna

Resolve = Callable[[str, int], list[str]]

PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # an IPv4 address behind a translator, in networks without IPv4
_UNICAST = ipaddress.IPv6Network("2000::/3")  # all that is assigned for the IPv6 internet
_LONGEST_URL = 8192
# What ``ipaddress`` of Python 3.11 calls global, or calls so in part, and what leads to a machine nearby all the same.
_NEARBY = tuple(
    map(
        ipaddress.ip_network,
        (
            "192.0.0.0/24",  # protocols of the own network; two addresses in it are global, and lead to its router
            "168.63.129.16/32",  # the platform behind a machine in Azure
            "3fff::/20",  # documentation (RFC 9637)
        ),
    )
)


class PageError(Exception):
    """Why a page could not be had.

    Args:
        outcome: one word for tables, see :class:`berdslib.data.webfetch.Page`.
        reason: a sentence.
        status: the HTTP status, 0 if there was none.
        again: whether the failure may pass.
        wait: seconds the server asks to wait.
    """

    def __init__(self, outcome: str, reason: str, *, status: int = 0, again: bool = False, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.outcome, self.reason, self.status, self.again, self.wait = outcome, reason, status, again, wait


class Budget:
    """What a page may still use, over all its redirects and attempts.

    Args:
        seconds: on the network; waiting for one's turn at a host is excused.
        retries: further attempts after failures that may pass.
    """

    def __init__(self, seconds: float, retries: int) -> None:
        self.seconds, self.retries = seconds, retries
        self._end = time.monotonic() + seconds

    def left(self, at_most: float = math.inf) -> float:
        """Return the seconds left.

        Raises:
            PageError: none.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise PageError("timeout", f"not complete after {self.seconds:g} s")
        return min(left, at_most)

    def excuse(self, seconds: float) -> None:
        """Do not count these seconds."""
        self._end += seconds

    @property
    def used(self) -> float:
        """Seconds used so far."""
        return self.seconds - (self._end - time.monotonic())


class Target(NamedTuple):
    """A checked web address: ``scheme``, ``host`` in ASCII, ``port``, and ``path`` with the query, percent-encoded."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> str:
        """Scheme and host, and the port unless it is the usual one: what a robots.txt is valid for."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == PORTS[self.scheme] else f":{self.port}")

    @property
    def url(self) -> str:
        """The address as text, without a fragment."""
        return self.origin + self.path


def target_of(url: str) -> Target:
    """Return a web address in parts.

    Raises:
        PageError: "refused": not http or https, a user name or password in it, a zone id, or malformed.

    >>> target_of("HTTPS://Example.org:443/a b?q=é#top").url
    'https://example.org/a%20b?q=%C3%A9'
    """
    url = url.strip()
    if len(url) > _LONGEST_URL or any(c < " " or c == "\x7f" for c in url):
        raise PageError("refused", "an address that is too long or holds control characters")
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname or "", parts.port
        if scheme not in PORTS:
            raise PageError("refused", f"not http or https but {scheme[:20] or 'no scheme'}")
        path = quote(parts.path or "/", safe="%/:@!$&'()*+,;=~")
        query = quote(parts.query, safe="%/:@!$&'()*+,;=~?")
        host = str(ipaddress.IPv6Address(host)) if ":" in host else _in_ascii(host)
    except ValueError as error:  # UnicodeError is one
        raise PageError("refused", f"a malformed address ({error})") from None
    if parts.username is not None or parts.password is not None:
        raise PageError("refused", "a user name or password in the address")
    if not re.fullmatch(r"[a-z0-9._-]+|[0-9a-f:.]+", host):  # also refuses a zone id
        raise PageError("refused", "a malformed host name")
    return Target(scheme, host, PORTS[scheme] if port is None else port, path + (f"?{query}" if query else ""))


def _in_ascii(host: str) -> str:
    """Return a host's name as it is looked up.

    Names in ASCII are taken as they are: many in use break the rules for registered ones, as with "_" in them. Beyond
    ASCII the rules hold, so ☃.net, which browsers open, is refused.

    Raises:
        ValueError: no name.
    """
    name = host.lower() if host.isascii() else idna.encode(host, uts46=True).decode("ascii")
    name = name.rstrip(".")
    if len(name) > 253 or not all(0 < len(label) < 64 for label in name.split(".")):
        raise ValueError("an empty or too long part in the host name")
    return name


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


def system_addresses(host: str, port: int) -> list[str]:
    """Return the addresses that the operating system finds for a host.

    Raises:
        OSError: it finds none.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


class CheckedBackend(httpcore.NetworkBackend):
    """Opens connections to checked addresses only, within a budget.

    Args:
        budget: seconds left; every wait on the network is cut to it, so that a server that sends a byte now and then
            cannot stretch it.
        connect: seconds to wait for a connection, for each of the host's addresses, and for its name.
        read: seconds to wait for the next bytes.
        allow: "address:port" (IPv6 in brackets) that may be reached although they are not public or not 80 or 443.
        resolve: (host, port) → IP addresses.
        inner: opens the connection to an address.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        connect: float,
        read: float,
        allow: Collection[str] = (),
        resolve: Resolve = system_addresses,
        inner: httpcore.NetworkBackend,
    ) -> None:
        self.budget, self.connect, self.read = budget, connect, read
        self.allow, self.resolve, self.inner = allow, resolve, inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002  the budget decides
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Resolve, check every address, and connect to the first that answers.

        Raises:
            PageError: "refused" if any address is not allowed; "timeout" or "network" if none answers.
        """
        addresses = [self._checked(address, port) for address in self._resolved(host, port)]
        for i, address in enumerate(addresses):
            wait = self.budget.left(self.connect)
            try:
                stream = self.inner.connect_tcp(address, port, wait, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if i == len(addresses) - 1:
                    raise
            else:
                return _TimedStream(stream, self.budget, self.read)
        raise PageError("network", f"{host} has no address")

    def _resolved(self, host: str, port: int) -> list[str]:
        # The system's resolver takes no time limit, so it runs beside, in a thread that nobody has to wait for.
        future: Future[list[str]] = Future()

        def work() -> None:
            try:
                future.set_result(self.resolve(host, port))
            except (OSError, ValueError) as error:
                future.set_exception(error)

        threading.Thread(target=work, daemon=True, name="resolve").start()
        try:
            return future.result(self.budget.left(self.connect))
        except TimeoutError:
            raise PageError("timeout", f"{host}: no answer from the name server", again=True) from None
        except (OSError, ValueError) as error:
            raise PageError("network", f"{host} is not known ({error})", again=_may_pass(error)) from None

    def _checked(self, address: str, port: int) -> str:
        """Return the address in its plain form, so that nothing is left to be resolved when connecting."""
        try:
            plain = str(ipaddress.ip_address(address))
        except ValueError:
            raise PageError("refused", f"{address!r} is no IP address") from None
        if (f"[{plain}]:{port}" if ":" in plain else f"{plain}:{port}") in self.allow:
            return plain
        if not is_public(plain):
            raise PageError("refused", f"{plain} is not a public address")
        if port not in PORTS.values():
            raise PageError("refused", f"port {port}; only 80 and 443 are reached")
        return plain


def _may_pass(error: Exception) -> bool:
    return isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN


class _TimedStream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, budget: Budget, wait: float) -> None:
        self._inner, self._budget, self._wait = inner, budget, wait

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        return self._inner.read(max_bytes, self._budget.left(self._wait))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        self._inner.write(buffer, self._budget.left(self._wait))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: Any,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        wait = self._budget.left(self._wait)
        return _TimedStream(self._inner.start_tls(ssl_context, server_hostname, wait), self._budget, self._wait)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
