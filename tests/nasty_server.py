"""A web of nasty pages on this machine, and what becomes of each: python tests/nasty_server.py prints the table."""

import asyncio
import gzip
import http.server
import json
import socket
import socketserver
import struct
import threading
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import NamedTuple

import httpx
import pandas as pd

from berdslib.data.webfetch import Fetcher, Limits
from berdslib.data.webtext import TextReader

PUBLIC = "93.184.216.34"  # an address anybody may have; in the tests it leads to the local server
SENTENCE = "Who should pay for university education is a question that people answer in many different ways. "
FRENCH = "Les élèves préfèrent que l’État paie : « c’est à débattre », dit-il, même où ça coûte très cher. " * 3
MANY_CRAWLERS = "".join(f"User-agent: a{i}\n" for i in range(10_000)) + "Disallow: /\n" * 10_000


def html(text, head=""):
    return f"<html><head><title>A nasty page</title>{head}</head><body><p>{text}</p></body></html>"


@cache
def gzip_bomb():
    return gzip.compress(b"\0" * 300_000_000, 6)


class Quiet(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

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

    @property
    def port(self):
        return self.server_address[1]


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
    def port(self):
        return self.server_address[1]

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
            else:
                getattr(self, "do_" + name.replace("-", "_").replace(".", "_"))()
        finally:
            with server.lock:
                server.active -= 1
            self.close_connection = True

    # -------------------------------------------------------- tools

    def page(self, body, status=200, **headers):
        body = body.encode() if isinstance(body, str) else body
        headers = {"Content_Type": "text/html", "Content_Length": str(len(body)), **headers}
        self.head(status, **headers)
        self.wfile.write(body)

    def head(self, status=200, **headers):
        self.send_response(status)
        for name, value in headers.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def redirect(self, where, status=302):
        self.head(status, Location=where, Content_Length="0")

    # -------------------------------------------------------- robots

    def do_robots_txt(self):
        rules = self.server.robots
        if isinstance(rules, int):
            self.page("no", status=rules)
        elif rules == "drip":
            self.do_slow_body()
        else:
            self.page(rules, Content_Type="text/plain")

    def do_robots_disallowed(self):
        self.page(html(SENTENCE))

    def do_redirect_to_disallowed(self):
        self.redirect("/robots-disallowed")

    # -------------------------------------------------------- good ones

    def do_good(self):
        self.page(html(SENTENCE * 3))

    def do_plain_text(self):
        self.page(SENTENCE, Content_Type="text/plain; charset=utf-8")

    def do_gzip(self):
        self.page(gzip.compress(html(SENTENCE).encode()), Content_Encoding="gzip")

    def do_redirect(self):
        self.redirect("good?from=redirect", 308)

    # -------------------------------------------------------- charsets

    def do_header_says_utf8_body_is_1252(self):
        self.page(html(FRENCH).encode("cp1252"), Content_Type="text/html; charset=utf-8")

    def do_no_header_but_meta(self):
        self.page(html(FRENCH, '<meta charset="windows-1252">').encode("cp1252"), Content_Type="text/html")

    def do_no_charset_at_all(self):
        self.page(html(FRENCH).encode("cp1252"), Content_Type="text/html")

    def do_utf16(self):
        self.page(html(FRENCH).encode("utf-16"), Content_Type="text/html")

    def do_utf16_by_header(self):
        self.page(html(FRENCH).encode("utf-16-be"), Content_Type="text/html; charset=utf-16be")

    def do_charset_that_is_none(self):
        self.page(html(FRENCH).encode(), Content_Type="text/html; charset=punycode")

    # -------------------------------------------------------- size and time

    def do_endless(self):
        self.head(Content_Type="text/html")
        while True:
            self.wfile.write(b"<p>on and on</p>" * 1000)

    def do_announces_much(self):
        self.head(Content_Type="text/html", Content_Length=str(10**10))
        self.wfile.write(b"<p>little</p>")

    def do_truncated(self):
        self.page(html(SENTENCE), Content_Length="100000")

    def do_announces_too_little(self):
        self.page(html(SENTENCE * 3), Content_Length="160")

    def do_gzip_bomb(self):
        self.page(gzip_bomb(), Content_Encoding="gzip")

    def do_not_gzip(self):
        self.page(html(SENTENCE), Content_Encoding="gzip")

    def do_truncated_gzip(self):
        self.page(gzip.compress(html(SENTENCE).encode())[:-12], Content_Encoding="gzip")

    def do_brotli(self):
        self.page(b"\x0b\x02\x80abc\x03", Content_Encoding="br")

    def do_slow_body(self):
        self.head(Content_Type="text/html", Content_Length="100000")
        while True:
            self.wfile.write(b"x")
            time.sleep(0.05)

    def do_slow_headers(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            self.wfile.write(b"X-A: b\r\n")
            time.sleep(0.05)

    def do_silent(self):
        time.sleep(3)

    def do_continues_forever(self):
        while True:
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            time.sleep(0.01)

    # -------------------------------------------------------- broken

    def do_reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def do_no_http(self):
        self.wfile.write(b"220 mail.example ESMTP\r\n")

    def do_huge_headers(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 500_000)

    def do_not_found(self):
        self.page(html("no such page"), status=404)

    def do_server_error(self):
        self.page(html("a failure"), status=500)

    def do_error_then_good(self):
        self.page(html(SENTENCE), status=503 if self.server.count("error-then-good") == 1 else 200)

    def do_too_many_then_good(self):
        if self.server.count("too-many-then-good") == 1:
            self.page("slow down", status=429, Retry_After="1")
        else:
            self.page(html(SENTENCE))

    def do_too_many(self):
        self.page("slow down", status=429, Retry_After="3600")

    # -------------------------------------------------------- redirects

    def do_redirect_loop(self):
        self.redirect("/redirect-loop")

    def do_redirect_private(self):
        self.redirect(f"http://127.0.0.1:{self.server.private_port}/")

    def do_redirect_metadata(self):
        self.redirect("http://169.254.169.254/latest/meta-data/")

    def do_redirect_inside(self):
        self.redirect("http://10.0.0.7/")

    def do_redirect_inside_by_name(self):
        self.redirect("http://inside.example/")

    def do_redirect_decimal(self):
        self.redirect("http://2130706433/")  # 127.0.0.1

    def do_redirect_mapped(self):
        self.redirect("http://[::ffff:127.0.0.1]/")

    def do_redirect_file(self):
        self.redirect("file:///etc/hostname")

    def do_redirect_script(self):
        self.redirect("javascript:alert(1)")

    def do_redirect_login(self):
        self.redirect(f"http://user:secret@{self.server.address}/good")

    # -------------------------------------------------------- content

    def do_empty(self):
        self.page(b"")

    def do_script_only(self):
        self.page("<html><body><script>document.write('words ' * 100)</script></body></html>")

    def do_binary(self):
        self.page(bytes(range(256)) * 100)

    def do_pdf(self):
        self.page(b"%PDF-1.7\n" + SENTENCE.encode(), Content_Type="application/pdf")

    def do_pdf_as_html(self):
        self.page(b"%PDF-1.7\n1 0 obj <</Type/Catalog>> endobj\n" * 50)

    def do_unclosed_tags(self):
        self.page(f"<html><body><div><p>{SENTENCE}<b>{SENTENCE}<table><tr><td>{SENTENCE}<p </div></html")

    def do_deep_nesting(self):
        self.page("<html><body>" + "<div>" * 100_000 + SENTENCE)

    def do_many_attributes(self):
        self.page("<p " + " ".join(f"a{i}=1" for i in range(80_000)) + f">{SENTENCE}</p>")


class Case(NamedTuple):
    """A nasty page and the outcome it must have."""

    name: str
    outcome: str
    path: str = ""

    @property
    def page(self):
        return self.path or self.name.replace(" ", "-")


CASES = [
    Case("good", "ok"),
    Case("plain text", "ok"),
    Case("gzip", "ok"),
    Case("redirect", "ok"),
    Case("header says utf-8, body is windows-1252", "ok", "header-says-utf8-body-is-1252"),
    Case("no header but meta", "ok"),
    Case("no charset at all", "ok"),
    Case("utf-16 with byte order mark", "ok", "utf16"),
    Case("utf-16 by header", "ok", "utf16-by-header"),
    Case("charset that is none (punycode)", "ok", "charset-that-is-none"),
    Case("streams forever", "size", "endless"),
    Case("announces 10 GB", "size", "announces-much"),
    Case("announces more than it sends", "network", "truncated"),
    Case("announces less than it sends", "ok", "announces-too-little"),
    Case("gzip bomb, 300 MB from 0.3 MB", "size", "gzip-bomb"),
    Case("says gzip, is not", "encoding", "not-gzip"),
    Case("truncated gzip", "network"),
    Case("brotli, not asked for", "encoding", "brotli"),
    Case("slow body", "timeout"),
    Case("slow headers", "timeout"),
    Case("100 Continue forever", "timeout", "continues-forever"),
    Case("silent", "timeout"),
    Case("connection reset", "network", "reset"),
    Case("speaks no HTTP", "network", "no-http"),
    Case("huge headers", "network"),
    Case("404", "status", "not-found"),
    Case("500", "status", "server-error"),
    Case("503, then good", "ok", "error-then-good"),
    Case("429 with Retry-After 1, then good", "ok", "too-many-then-good"),
    Case("429 with Retry-After 3600", "status", "too-many"),
    Case("redirect loop", "redirects"),
    Case("redirect to a private address", "refused", "redirect-private"),
    Case("redirect to 169.254.169.254", "refused", "redirect-metadata"),
    Case("redirect to a decimal address", "refused", "redirect-decimal"),
    Case("redirect to an IPv4-mapped address", "refused", "redirect-mapped"),
    Case("redirect to file://", "refused", "redirect-file"),
    Case("redirect to javascript:", "refused", "redirect-script"),
    Case("redirect with user and password", "refused", "redirect-login"),
    Case("robots disallowed", "robots"),
    Case("redirect to a disallowed page", "robots", "redirect-to-disallowed"),
    Case("empty body", "no text", "empty"),
    Case("script only", "no text"),
    Case("binary as text/html", "binary", "binary"),
    Case("PDF", "type", "pdf"),
    Case("PDF as text/html", "binary", "pdf-as-html"),
    Case("unclosed tags", "ok"),
    Case("100,000 nested elements", "no text", "deep-nesting"),
    Case("80,000 attributes", "parser", "many-attributes"),
]
ROBOTS_CASES = [
    ("robots.txt answers 404", 404, "ok"),
    ("robots.txt answers 500", 500, "status"),
    ("robots.txt answers 429", 429, "status"),
    ("robots.txt never ends", "drip", "timeout"),
    ("robots.txt with a delay that is no number", "User-agent: *\nCrawl-delay: ²\nDisallow: /g\n", "robots"),
    ("robots.txt with a thousand wildcards", "User-agent: *\nDisallow: /" + "*o" * 1000 + "\n", "ok"),
    ("robots.txt with rules for ten thousand crawlers", MANY_CRAWLERS, "ok"),
]
SMALL = Limits(connect=2, read=1, total=2.5, max_bytes=1024 * 1024, retries=1, back_off=0.05, longest_wait=2, pause=0)


class World(httpx.AsyncHTTPTransport):
    """Connections of a small world: PUBLIC leads to the server, everything else to the private service."""

    def __init__(self, server, private):
        super().__init__()
        self.server, self.private, self.asked = server, private, []

    async def handle_async_request(self, request):
        host = request.url.host
        self.asked.append(host)
        port = (self.server if host == PUBLIC else self.private).port
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
    "rebinding: then 0.0.0.0": ([PUBLIC], ["0.0.0.0"]),
    "rebinding: then IPv6 with a zone": ([PUBLIC], ["fe80::1%eth0"]),
    "a name that stands for a private address": (["10.0.0.7"],),
}


def nasty_table():
    """Return what became of every case, and how many requests reached the private service."""
    rows = []
    gzip_bomb()  # made now, so that no page's time goes into it
    with ExitStack() as stack:
        private = stack.enter_context(running(PrivateService()))
        server = stack.enter_context(running(NastyServer(private.port)))
        reader = stack.enter_context(TextReader(seconds=1.5))

        def row(case, fetcher, url, expected):
            began = time.monotonic()
            page = fetcher.fetch(url)
            seconds = time.monotonic() - began
            text = reader.read(page.body, page.headers.get("content-type", "")) if page.outcome == "ok" else None
            rows.append(
                {
                    "case": case,
                    "outcome": text.outcome if text else page.outcome,
                    "expected": expected,
                    "status": page.status,
                    "seconds": round(seconds, 2),
                    "words": len(text.text.split()) if text else 0,
                    "reason": page.reason,
                    "text": text.text if text else "",
                }
            )

        fetcher = Fetcher(SMALL._replace(allow={server.address}))
        for case in CASES:
            row(case.name, fetcher, server.url(case.page), case.outcome)
        for name, robots, expected in ROBOTS_CASES:
            other = stack.enter_context(running(NastyServer(robots=robots)))
            row(name, Fetcher(SMALL._replace(allow={other.address})), other.url("good"), expected)
        world = World(server, private)
        fetcher = Fetcher(SMALL, resolve=lambda host, port: NAMES[host], transport=world)
        row("public page", fetcher, "http://web.example/good", "ok")
        row("public page leads inside", fetcher, "http://web.example/redirect-inside", "refused")
        row("public page leads inside by name", fetcher, "http://web.example/redirect-inside-by-name", "refused")
        for name, answers in REBINDING.items():
            world = World(server, private)
            fetcher = Fetcher(SMALL, resolve=Rebinding(*answers), transport=world)
            row(name, fetcher, "http://rebind.example/good", "refused")
        reached = private.reached
    return pd.DataFrame(rows), reached


def naive_requests(private, server):
    """Let clients without our checks do the same: how many of their requests reach the private service."""
    before = private.reached
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(server.url("redirect-private"), timeout=5).read()
    resolve, world = Rebinding([PUBLIC], ["127.0.0.1"]), World(server, private)
    assert resolve("rebind.example", 80) == [PUBLIC]  # checked …
    request = httpx.Request("GET", f"http://{resolve('rebind.example', 80)[0]}/good")  # … and resolved again to connect
    asyncio.run(world.handle_async_request(request))
    return private.reached - before


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
        answer = {
            "searchParameters": {"q": asked["q"], "num": asked["num"], "type": "search", "engine": "google"},
            "organic": organic,
            "peopleAlsoAsk": [
                {"question": "Who pays?", "snippet": "Many.", "title": "T", "link": "https://x.example/"}
            ],
            "relatedSearches": [{"query": "tuition"}],
            "credits": 2,
            "echo": key,  # no real answer has it, but none may bring the key onto the disk either
        }
        return self.answer(200, {}, answer)

    def answer(self, status, headers, body):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(raw)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)


def main():
    table, reached = nasty_table()
    with pd.option_context("display.width", 200, "display.max_colwidth", 60, "display.max_rows", None):
        print(table.drop(columns="text").to_string(index=False))
    with running(PrivateService()) as private, running(NastyServer(private.port)) as server:
        naive = naive_requests(private, server)
    print(f"\n{(table['outcome'] == table['expected']).sum()} of {len(table)} outcomes as expected")
    print(f"{reached} requests reached a private address in the redirect and rebinding tests ({naive} without checks)")


if __name__ == "__main__":
    main()
