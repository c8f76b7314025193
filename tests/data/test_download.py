"""Downloads against a small server in this process: what arrives, what is kept, what is said."""

import hashlib
import http.server
import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

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
        self.send_response(302 if server.redirect else 200)
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
    with pytest.raises(InputError, match="is a folder"):
        download(server.url, target.parent)


def test_a_file_of_another_size_is_not_overwritten(server, tmp_path):
    target = tmp_path / "file.bin"
    target.write_bytes(b"my own notes")
    with pytest.raises(InputError, match=r"file.bin: holds 12 bytes, but 1,048,576 are on record; remove it"):
        download(server.url, target, size=len(BODY))
    assert target.read_bytes() == b"my own notes"


@pytest.mark.parametrize("sha256", [SHA256, None])
def test_a_cut_connection_is_fetched_anew(server, tmp_path, sha256):
    server.cuts = [300_000, 200_000]
    download(server.url, tmp_path / "file.bin", sha256=sha256)
    assert len(server.seen) == 3
    assert (tmp_path / "file.bin").read_bytes() == BODY
    assert leftovers(tmp_path) == ["file.bin"]


def test_a_server_that_always_breaks_off_is_given_up(server, tmp_path):
    server.cuts = [300_000] * 20
    with pytest.raises(MissingDataError, match=r"received 300000 bytes, expected 1048576.*put it at"):
        download(server.url, tmp_path / "file.bin", sha256=SHA256, retries=2)
    assert len(server.seen) == 3
    assert leftovers(tmp_path) == []


def test_a_wrong_checksum_leaves_nothing_and_shows_both_sums(server, tmp_path):
    wrong = "0" * 64
    with pytest.raises(MissingDataError) as caught:
        download(server.url, tmp_path / "file.bin", sha256=wrong)
    assert SHA256 in str(caught.value)
    assert wrong in str(caught.value)
    assert leftovers(tmp_path) == []


def test_another_size_than_on_record_is_refused_before_it_is_fetched(server, tmp_path):
    with pytest.raises(MissingDataError, match="has 1,048,576 bytes, but 5 are on record"):
        download(server.url, tmp_path / "file.bin", size=5)
    assert leftovers(tmp_path) == []


def test_no_length_announced(server, tmp_path):
    server.length = False
    download(server.url, tmp_path / "file.bin", sha256=SHA256, size=len(BODY))
    assert (tmp_path / "file.bin").read_bytes() == BODY
    for size in (len(BODY) - 1, len(BODY) + 1):
        with pytest.raises(MissingDataError, match=f"bytes, but {size:,} are on record"):
            download(server.url, tmp_path / "other.bin", size=size)
    assert leftovers(tmp_path) == ["file.bin"]


@pytest.mark.parametrize("length", [True, False])
def test_no_more_than_the_largest_size(server, tmp_path, monkeypatch, length):
    monkeypatch.setattr(module, "LARGEST", 1_000_000)
    server.length = length
    with pytest.raises(MissingDataError, match=r"bytes, but 1,000,000 are accepted; it was not kept"):
        download(server.url, tmp_path / "file.bin")
    assert leftovers(tmp_path) == []
    assert len(server.seen) == 1


def test_a_byte_now_and_then_is_not_enough(server, tmp_path):
    """A server that is never silent for long, and would take 15 hours for the file."""
    server.piece, server.pause = 1, 0.05
    began = time.monotonic()
    with pytest.raises(MissingDataError, match=r"only \d+ bytes in 0.3 s"):
        download(server.url, tmp_path / "file.bin", timeout=0.3, retries=0)
    assert time.monotonic() - began < 5
    assert leftovers(tmp_path) == []


def test_not_found_names_address_and_target_and_is_not_tried_again(server, tmp_path):
    server.statuses = [404] * 5
    with pytest.raises(MissingDataError, match=r"404.*fetch it by hand and put it at ") as caught:
        download(server.url, tmp_path / "file.bin")
    assert server.url in str(caught.value)
    assert str(tmp_path / "file.bin") in str(caught.value)
    assert len(server.seen) == 1


def test_a_server_error_is_tried_again(server, tmp_path):
    server.statuses = [500, 503, 429]
    download(server.url, tmp_path / "file.bin", sha256=SHA256)
    assert len(server.seen) == 4


def test_no_network_names_address_and_target(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "BACK_OFF", 0.0)
    monkeypatch.setenv("no_proxy", "*")
    with Server() as gone:
        url = gone.url
    with pytest.raises(MissingDataError, match=r"could not be fetched: .*refused") as caught:
        download(url, tmp_path / "file.bin", retries=1)
    assert url in str(caught.value)
    assert str(tmp_path / "file.bin") in str(caught.value)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("url", ["ftp://example.org/x", "file:///etc/hostname", "data:,x", "x.bin"])
def test_only_the_web(url, tmp_path):
    with pytest.raises(InputError, match="http or https"):
        download(url, tmp_path / "x")


def test_a_redirect_away_from_the_web_is_refused(server, tmp_path):
    server.redirect = "ftp://example.org/x"
    with pytest.raises(MissingDataError, match="unsupported protocol 'ftp://'"):
        download(server.url, tmp_path / "x")
    assert len(server.seen) == 1


def test_a_full_disk_is_told_before(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
    with pytest.raises(module.BerdsError, match="needs 1,048,576 bytes, but only 10 are free"):
        download(server.url, tmp_path / "file.bin")


def test_two_threads_fetch_it_once(server, tmp_path):
    server.pause = 0.002
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(download, server.url, tmp_path / "file.bin", sha256=SHA256) for _ in range(4)]
        assert {job.result() for job in jobs} == {tmp_path / "file.bin"}
    assert len(server.seen) == 1
    assert (tmp_path / "file.bin").read_bytes() == BODY


@pytest.mark.slow
def test_two_processes_fetch_it_once(server, tmp_path):
    server.pause = 0.01
    target = tmp_path / "file.bin"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=download, args=(server.url, target), kwargs={"sha256": SHA256}) for _ in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert len(server.seen) == 1
    assert target.read_bytes() == BODY


def test_a_file_of_the_right_size_and_other_bytes_is_not_taken_for_it(tmp_path):
    (tmp_path / "f.bin").write_bytes(b"WRONG")
    with pytest.raises(InputError, match=r"f\.bin: is not the file that is on record: its checksum differs; remove it"):
        download(
            "https://example.invalid/f.bin", tmp_path / "f.bin", sha256=hashlib.sha256(b"RIGHT").hexdigest(), size=5
        )
