"""Downloads against a small server in this process: what arrives, what is kept, what is said."""

import contextlib
import hashlib
import http.server
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from berdslib.data import fetch as module
from berdslib.data.fetch import download
from berdslib.errors import InputError, MissingDataError

BODY = bytes(range(256)) * 4096  # 1 MiB
SHA256 = hashlib.sha256(BODY).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves BODY at every address; the switches make it fail in the ways servers do."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.length = True  # announces Content-Length
        self.cuts = []  # bytes after which the next responses break off
        self.statuses = []  # the next responses are these errors
        self.pause = 0.0  # seconds after each piece
        self.piece = 1 << 14
        self.redirect = ""
        self.answer = 200  # the status of what is no error
        self.kind = ""
        self.seen = []  # the path of each request

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/file.bin"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        server = self.server
        server.seen.append(self.path)
        if server.statuses:
            return self.send_error(server.statuses.pop(0))
        self.send_response(302 if server.redirect else server.answer)
        if server.kind:
            self.send_header("Content-Type", server.kind)
        if server.redirect:
            self.send_header("Location", server.redirect)
            return self.end_headers()
        if server.length:
            self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        end = server.cuts.pop(0) if server.cuts else len(BODY)
        for i in range(0, end, server.piece):
            try:
                self.wfile.write(BODY[i : min(i + server.piece, end)])
            except OSError:
                return None
            time.sleep(server.pause)
        return None


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(module, "BACK_OFF", 0.01)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")
    with Server() as one:
        threading.Thread(target=one.serve_forever, args=(0.01,), daemon=True).start()
        yield one
        one.shutdown()


def leftovers(folder):
    return sorted(p.name for p in folder.iterdir() if not p.name.endswith(".lock"))


def test_a_file_arrives_under_its_name_and_nothing_else_stays(server, tmp_path):
    target = tmp_path / "made" / "on the way" / "file.bin"
    assert download(server.url, target, sha256=SHA256.upper(), size=len(BODY)) == target
    assert target.read_bytes() == BODY
    assert leftovers(target.parent) == ["file.bin"]
    assert len(server.seen) == 1
    assert target.stat().st_mode & 0o777 == 0o644
    assert download(server.url, str(target), size=len(BODY)) == target and len(server.seen) == 1  # not asked again


def test_a_cut_connection_is_fetched_anew_but_not_for_ever(server, tmp_path):
    server.statuses, server.cuts = [503], [300_000, 200_000]
    download(server.url, tmp_path / "file.bin")
    assert len(server.seen) == 4 and (tmp_path / "file.bin").read_bytes() == BODY
    (tmp_path / "file.bin").unlink()
    server.cuts = [300_000] * 20
    with pytest.raises(MissingDataError, match=r"300000 bytes.* 1048576"):
        download(server.url, tmp_path / "file.bin", sha256=SHA256, retries=2)
    assert len(server.seen) == 7 and leftovers(tmp_path) == []


def test_not_found_names_address_and_target_and_is_not_tried_again(server, tmp_path):
    server.statuses = [404] * 5
    with pytest.raises(MissingDataError, match="404") as caught:
        download(server.url, tmp_path / "file.bin")
    assert server.url in str(caught.value) and str(tmp_path / "file.bin") in str(caught.value)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "headers",
    [
        *(f"200 OK\r\nContent-Length: {size}" for size in ("nonsense", "-5", "9" * 5000)),
        "200 OK\r\nTransfer-Encoding: nonsense",
        f"200 OK\r\nX: {'a' * 1_000_000}",
        *(f"302 Found\r\nLocation: {there}" for there in ("http://[::1", f"http://{'a' * 70_000}/", "data:,x")),
        "418 \x1b[31mred",
    ],
)
def test_s19_hostile_headers_are_told_and_nothing_is_kept(monkeypatch, tmp_path, headers):
    monkeypatch.setattr(module, "BACK_OFF", 0.01)
    monkeypatch.setenv("NO_PROXY", "*")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            with contextlib.suppress(OSError):
                while True:
                    with listening.accept()[0] as one, contextlib.suppress(OSError):
                        one.recv(65536)
                        one.sendall(f"HTTP/1.1 {headers}\r\n\r\nhello".encode())

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(MissingDataError, match=r"^http://127"):
            download(f"http://127.0.0.1:{listening.getsockname()[1]}/x", tmp_path / "file.bin", retries=1, timeout=5)
    assert leftovers(tmp_path) == []


def test_no_network_names_address_and_target(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "BACK_OFF", 0.0)
    monkeypatch.setenv("no_proxy", "*")
    with Server() as gone:
        url = gone.url
    with pytest.raises(MissingDataError, match="refused") as caught:
        download(url, tmp_path / "file.bin", retries=1)
    assert url in str(caught.value) and leftovers(tmp_path) == []


def test_only_the_web(server, tmp_path):
    for url in ("ftp://example.org/x", "file:///etc/hostname", "x.bin"):
        with pytest.raises(MissingDataError, match=re.escape(url)):
            download(url, tmp_path / "x")
    server.redirect = "ftp://example.org/x"
    with pytest.raises(MissingDataError, match="ftp://"):
        download(server.url, tmp_path / "x")
    assert len(server.seen) == 1


def test_two_threads_fetch_it_once(server, tmp_path):
    server.pause = 0.002
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(download, server.url, tmp_path / "file.bin", sha256=SHA256) for _ in range(4)]
        assert {job.result() for job in jobs} == {tmp_path / "file.bin"}
    assert len(server.seen) == 1
    assert (tmp_path / "file.bin").read_bytes() == BODY


@pytest.mark.parametrize("record", [{"size": len(BODY) + 1}, {"size": 5}, {"sha256": "0" * 64, "size": len(BODY)}])
@pytest.mark.parametrize("length", [True, False])
def test_what_is_not_on_record_is_not_kept_and_what_is_there_not_replaced(server, tmp_path, record, length):
    server.length, target = length, tmp_path / "file.bin"
    with pytest.raises(MissingDataError, match=re.escape(server.url)):
        download(server.url, target, **record)
    assert leftovers(tmp_path) == [] and len(server.seen) == 1
    target.write_bytes(BODY)
    with pytest.raises(InputError) as caught:
        download(server.url, target, **record)
    assert caught.value.path == target
    assert target.read_bytes() == BODY and len(server.seen) == 1


@pytest.mark.parametrize("length", [True, False])
def test_no_more_than_the_largest_size(server, tmp_path, monkeypatch, length):
    monkeypatch.setattr(module, "LARGEST", 1_000_000)
    server.length = length
    with pytest.raises(MissingDataError, match="1,000,000"):
        download(server.url, tmp_path / "file.bin")
    assert leftovers(tmp_path) == [] and len(server.seen) == 1


@pytest.mark.parametrize(("answer", "kind"), [(206, ""), (203, ""), (204, ""), (200, "text/html; charset=utf-8")])
def test_a_part_or_a_web_page_is_not_kept_for_the_file(server, tmp_path, answer, kind):
    server.answer, server.kind = answer, kind
    with pytest.raises(MissingDataError):
        download(server.url, tmp_path / "file.bin", retries=0)
    assert not (tmp_path / "file.bin").exists()
