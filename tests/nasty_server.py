"""A web of nasty pages on this machine, a search engine that finds them, and what becomes of each."""

import gzip
import http.server
import json
import socket
import socketserver
import struct
import threading
import time
from contextlib import ExitStack, contextmanager
from functools import partial

import httpx

from berdslib.data.webpage import Fetcher, Limits, page_text

PUBLIC = "93.184.216.34"  # an address anybody may have; in the tests it leads to the local server
SENTENCE = "Who should pay for university education is a question that people answer in many different ways. "
FRENCH = "Les élèves préfèrent que l’État paie : « c’est à débattre », dit-il, même où ça coûte très cher. " * 3
MANY_CRAWLERS = "".join(f"User-agent: a{i}\n" for i in range(10_000)) + "Disallow: /\n" * 10_000


def html(text, head=""):
    return f"<html><head><title>A nasty page</title>{head}</head><body><p>{text}</p></body></html>"


class Quiet(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    @property
    def port(self):
        return self.server_address[1]

    def handle_error(self, request, client_address):
        pass  # clients hang up on purpose here


@contextmanager
def running(server):
    with server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


class PrivateService(Quiet):
    """Plays what only this machine can see; counts the connections."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _PrivateHandler)
        self.reached = 0


class _PrivateHandler(socketserver.BaseRequestHandler):
    def handle(self):
        self.server.reached += 1
        self.request.settimeout(2)
        self.request.recv(4096)
        self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Type: text/html\r\n\r\nsecret")


class NastyServer(Quiet):
    """Serves the pages below."""

    def __init__(self, private_port=1, robots="User-agent: *\nDisallow: /robots-disallowed\n"):
        super().__init__(("127.0.0.1", 0), _NastyHandler)
        self.private_port, self.robots = private_port, robots
        self.pages = {}  # more pages: path → (headers, body)
        self.pause = 0.0  # seconds before each answer
        self.seen = []  # (path, when) of each request
        self.active, self.most_active = 0, 0
        self.lock = threading.Lock()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def url(self, path):
        return f"http://{self.address}/{path}"

    def count(self, path):
        return sum(seen == f"/{path}" for seen, _ in self.seen)


class _NastyHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        server = self.server
        with server.lock:
            server.seen.append((self.path, time.monotonic()))
            server.active += 1
            server.most_active = max(server.most_active, server.active)
        try:
            time.sleep(server.pause)
            name = self.path[1:].partition("?")[0]
            if name in server.pages:
                found = server.pages[name]
                headers, body = found() if callable(found) else found
                self.page(body, **headers)
            elif name == "robots.txt":
                self.robots(server.robots)
            else:
                CASES[name][1](self)
        finally:
            with server.lock:
                server.active -= 1
            self.close_connection = True

    def robots(self, rules):
        if isinstance(rules, int):
            self.page("no", status=rules)
        elif rules == "drip":
            self.drip(b"x", Content_Length="100000")
        else:
            self.page(rules, Content_Type="text/plain")

    def page(self, body, status=200, **headers):
        body = body.encode() if isinstance(body, str) else body
        self.head(status, **{"Content_Type": "text/html", "Content_Length": str(len(body)), **headers})
        self.wfile.write(body)

    def head(self, status=200, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def redirect(self, where, status=302):
        self.head(status, Location=where, Content_Length="0")

    def drip(self, piece, pause=0.05, **headers):
        """Send a piece for ever, behind the head if there are headers."""
        if headers:
            self.head(**{"Content_Type": "text/html", **headers})
        while True:
            self.wfile.write(piece)
            time.sleep(pause)

    def raw(self, piece):
        self.wfile.write(piece)

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


def _page(body=None, **headers):
    """Return what answers with a page."""
    return lambda h: h.page(html(SENTENCE) if body is None else body, **headers)


def _to(where, status=302):
    """Return what redirects; {private} and {self} stand for addresses."""
    return lambda h: h.redirect(where.format(private=h.server.private_port, self=h.server.address), status)


PDF = b"%PDF-1.7\n" + bytes(range(256)) * 50
ATTRIBUTES = "<p " + " ".join(f"a{i}=1" for i in range(80_000)) + f">{SENTENCE}</p>"
TORN = f"<html><body><div><p>{SENTENCE}<b>{SENTENCE}<table><tr><td>{SENTENCE}<p </div></html"
# path → the outcome it must have, and what answers
CASES = {
    "good": ("ok", _page(html(SENTENCE * 3))),
    "plain-text": ("ok", _page(SENTENCE, Content_Type="text/plain; charset=utf-8")),
    "redirect": ("ok", _to("good?from=redirect", 308)),
    "charset-by-meta": ("ok", _page(html(FRENCH, '<meta charset="windows-1252">').encode("cp1252"))),
    "charset-by-nothing": ("ok", _page(html(FRENCH).encode("cp1252"))),
    "charset-utf16": ("ok", _page(html(FRENCH).encode("utf-16"))),
    "streams-forever": ("size", lambda h: h.drip(b"<p>on and on</p>" * 1000, 0, Server="x")),
    "packed-unasked": ("binary", _page(gzip.compress(html(SENTENCE).encode()), Content_Encoding="gzip")),
    "slow-body": ("timeout", lambda h: h.drip(b"x", Content_Length="100000")),
    "slow-headers": ("timeout", lambda h: (h.raw(b"HTTP/1.1 200 OK\r\n"), h.drip(b"X-A: b\r\n"))),
    "continues-forever": ("timeout", lambda h: h.drip(b"HTTP/1.1 100 Continue\r\n\r\n", 0.01)),
    "silent": ("timeout", lambda h: time.sleep(3)),
    "reset": ("network", lambda h: h.reset()),
    "no-http": ("network", lambda h: h.raw(b"220 mail.example ESMTP\r\n")),
    "huge-headers": ("network", lambda h: h.raw(b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 500_000)),
    "not-found": ("status", _page(status=404)),
    "server-error": ("status", _page(status=500)),
    "too-many": ("status", _page(status=429)),
    "redirect-loop": ("redirects", _to("/redirect-loop")),
    "redirect-private": ("refused", _to("http://127.0.0.1:{private}/")),
    "redirect-mapped": ("refused", _to("http://[::ffff:127.0.0.1]/")),
    "redirect-file": ("refused", _to("file:///etc/hostname")),
    "redirect-login": ("refused", _to("http://user:secret@{self}/good")),
    "robots-disallowed": ("robots", _page()),
    "redirect-to-disallowed": ("robots", _to("/robots-disallowed")),
    "redirect-inside": ("refused", _to("http://10.0.0.7/")),
    "redirect-inside-by-name": ("refused", _to("http://inside.example/")),
    "empty": ("no text", _page(b"")),
    "script-only": ("no text", _page("<html><body><script>document.write('words ' * 100)</script></body></html>")),
    "binary": ("binary", _page(bytes(range(256)) * 100)),
    "pdf": ("type", _page(PDF, Content_Type="application/pdf")),
    "pdf-as-html": ("binary", _page(PDF)),
    "unclosed-tags": ("ok", _page(TORN)),
    "deep-nesting": ("no text", _page("<html><body>" + "<div>" * 100_000 + SENTENCE)),
    "many-attributes": ("no text", _page(ATTRIBUTES)),
}
ROBOTS = {
    "robots.txt never ends": ("drip", "timeout"),
    "robots.txt with a delay that is no number": ("User-agent: *\nCrawl-delay: ²\nDisallow: /g\n", "robots"),
    "robots.txt with a thousand wildcards": ("User-agent: *\nDisallow: /" + "*o" * 1000 + "\n", "ok"),
    "robots.txt with rules for ten thousand crawlers": (MANY_CRAWLERS, "ok"),
}
SMALL = Limits(silence=1, total=2.5, max_bytes=1024 * 1024, pause=0, longest_pause=2)


class World(httpx.AsyncHTTPTransport):
    """Connections of a small world: PUBLIC leads to the server, everything else to the private service."""

    def __init__(self, server, private):
        super().__init__()
        self.server = server
        self.private = private

    async def handle_async_request(self, request):
        port = (self.server if request.url.host == PUBLIC else self.private).port
        request.url = request.url.copy_with(host="127.0.0.1", port=port)
        return await super().handle_async_request(request)


class Rebinding:
    """A name server whose answer changes: the given answers in turn, the last one for ever."""

    def __init__(self, *answers):
        self.answers, self.calls = answers, 0

    def __call__(self, host, port):
        self.calls += 1
        return self.answers[min(self.calls, len(self.answers)) - 1]


NAMES = {"web.example": [PUBLIC], "inside.example": ["10.0.0.7"], "10.0.0.7": ["10.0.0.7"]}
REBINDING = {
    "rebinding: public, then private": ([PUBLIC], ["127.0.0.1"]),
    "rebinding: robots.txt public, page private": ([PUBLIC], ["127.0.0.1"], [PUBLIC]),
    "rebinding: public and private at once": ([PUBLIC, "127.0.0.1"],),
    "rebinding: then IPv6 with a zone": ([PUBLIC], ["fe80::1%eth0"]),
    "a name that stands for a private address": (["10.0.0.7"],),
}


def outcomes():
    """Return what became of every case, (page, text, seconds, expected), and the private service's visitors."""
    found = {}
    with ExitStack() as stack:
        private = stack.enter_context(running(PrivateService()))
        server = stack.enter_context(running(NastyServer(private.port)))

        def add(case, fetcher, url, expected):
            began = time.monotonic()
            page = fetcher.fetch(url)
            seconds = time.monotonic() - began
            text = page_text(page.body, page.headers.get("content-type", "")) if page.outcome == "ok" else None
            found[case] = page, text, seconds, expected

        fetcher = Fetcher(SMALL._replace(allow={server.address}))
        inside = ("redirect-inside", "redirect-inside-by-name")  # lead there in a world of their own only
        for name, (outcome, _) in CASES.items():
            if name not in inside:
                add(name, fetcher, server.url(name), outcome)
        for name, (robots, outcome) in ROBOTS.items():
            other = stack.enter_context(running(NastyServer(robots=robots)))
            add(name, Fetcher(SMALL._replace(allow={other.address})), other.url("good"), outcome)
        world = Fetcher(SMALL, resolve=lambda host, _: NAMES[host], transport=partial(World, server, private))
        for path in ("good", *inside):
            add(f"public page: {path}", world, f"http://web.example/{path}", CASES[path][0])
        for name, answers in REBINDING.items():
            fetcher = Fetcher(SMALL, resolve=Rebinding(*answers), transport=partial(World, server, private))
            add(name, fetcher, "http://rebind.example/good", "refused")
        return found, private.reached


class FakeSerper(Quiet):
    """Speaks serper.dev's contract; the answers have the shape of recorded ones."""

    def __init__(self, links=()):
        super().__init__(("127.0.0.1", 0), _SerperHandler)
        self.links = list(links)  # or a function of the query
        self.failures = []  # the next answers: (status, headers, body)
        self.seen = []  # (key, query) of each request

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/search"


class _SerperHandler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers.get("X-API-KEY")
        self.server.seen.append((key, asked))
        if self.server.failures:
            return self.answer(*self.server.failures.pop(0))
        if key != "k3y-of-a-test":
            return self.answer(403, {}, {"message": f"Unauthorized. {key}", "statusCode": 403})
        organic = [
            {"title": f"Result {i}", "link": link, "snippet": f"About {asked['q']} …", "position": i}
            for i, link in enumerate(self.server.links[: asked["num"]], start=1)
        ]
        # No real answer echoes the key, but none may bring it onto the disk either.
        return self.answer(200, {}, {"searchParameters": asked, "organic": organic, "credits": 2, "echo": key})

    def answer(self, status, headers, body):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(raw)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)
