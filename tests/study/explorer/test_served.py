"""The app as it is started by `berds explore`, in a folder of one's own: what it reads, whom it answers, its end."""

import http.client
import json
import os
import re
import shlex
import subprocess
import sys
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import psutil
import pytest
from browser import free_port
from jupyter_core.paths import jupyter_config_path
from traitlets.config import Config

pytest.importorskip("voila", reason="needs voila")
pytestmark = pytest.mark.slow
# What opens the page: it keeps what it was sent to. Without a colon, which would part two browsers.
KEEP = "import sys, urllib.request as u; open('opened.html', 'wb').write(u.urlopen(sys.argv[1]).read())"


@contextmanager
def started(folder, *options):
    """Run `berds explore` in a folder; yield the process and the address that it prints, once it is ready."""
    command = [sys.executable, "-P", "-m", "berdslib.cli", "explore", "--port", str(free_port()), *options]
    browser = {"BROWSER": f"{shlex.join([sys.executable, '-I', '-c', KEEP])} %s"}
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=os.environ | browser, stdout=log, stderr=log)
    try:
        for _ in range(1200):
            said = (folder / "log").read_text(errors="replace")
            assert process.poll() is None, said
            if "is filled with 1 kernel" in said:
                break
            time.sleep(0.1)
        yield process, re.search(r"^http://127.0.0.1:\S+$", said, re.MULTILINE).group()
    finally:
        for one in [*psutil.Process(process.pid).children(recursive=True), process] if process.poll() is None else ():
            one.kill()
        process.wait()


def ask(address, path="", **headers):
    """Return what is answered: status, headers and text. Nothing is followed."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    connection.request("GET", path or f"{parts.path}?{parts.query}", headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.headers, "" if answer.status == 101 else answer.read().decode()


def plant(folder, *names):
    for name in names:
        (folder / f"{name}.py").write_text(f"open({str(folder / name)!r} + '.ran', 'w').close()\n")


def write_data(folder):
    passages = [{"id": f"d{i}", "text": f"zoos {i}"} for i in range(6)]
    question = {"qid": "q", "question": "Are zoos good?", "perspectives": ["Zoos are good.", "Zoos are bad."]}
    for name, rows in (("questions", [question]), ("passages", passages)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["-q", "questions.jsonl", "-c", "passages.jsonl", "-r", "bm25,bm25+expand:rule", "-j", "overlap"]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Return a folder, and the address of the app that was started in it."""
    folder = tmp_path_factory.mktemp("own")
    plant(folder, "voila", "tornado", "jupyter_client", "ipykernel_launcher", "anywidget")
    with started(folder, *write_data(folder)) as (_, address):
        yield folder, address


def test_files_of_the_folder_are_read_and_never_run(served):
    """Questions and corpus by relative path; modules, and settings of Voilà's, that lie beside them are not."""
    folder, address = served
    status, _, page = ask(address)
    assert status == 200 and "widget-view+json" in page and "There was an error" not in page
    assert not list(folder.glob("*.ran"))
    assert "<title>app</title>" not in page
    assert not re.findall(".*warn.*", (folder / "log").read_text(), re.IGNORECASE)


def test_whoever_lacks_the_token_or_comes_by_another_name_reaches_no_kernel(served):
    folder, address = served
    port = urlsplit(address).port
    for path in ("/", "/?token=wrong"):
        status, headers, text = ask(address, path)
        assert (status, headers["Location"][:7], "kernelId" in text) == (302, "/login?", False)
    foreign = {"Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}"}  # DNS rebinding
    assert ask(address, **foreign)[0] == 403

    status, headers, page = ask(address)
    assert status == 200
    cookie = "; ".join(one.partition(";")[0] for one in headers.get_all("Set-Cookie"))
    kernel = re.search(r'kernelId": *"([\w-]+)"', page).group(1)
    (script, *_) = re.findall(r'src="(/voila/[^"]+\.js)', page)
    assert ask(address, script)[0] == 200
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="}  # fmt: skip
    channels = f"/api/kernels/{kernel}/channels"
    assert ask(address, channels, **upgrade)[0] == 403
    assert ask(address, channels, Cookie=cookie, **upgrade, **foreign)[0] == 403
    assert ask(address, channels, Cookie=cookie, **upgrade)[0] == 101

    # The browser is sent to the same address, by a file: whoever lists processes does not see the token.
    assert f'url={address}"' in (folder / "opened.html").read_text()


def test_other_names_are_refused_while_it_listens_here_and_the_user_does_not_say_otherwise():
    """Settings in Jupyter's own folders count, as docs/explorer.md says; a file of the current folder does not."""
    from berdslib.study.explorer.app import Server

    behind_a_proxy = Config({"Voila": {"tornado_settings": {"allow_remote_access": True}}})
    for server, answered in ((Server(), False), (Server(ip="0.0.0.0"), True), (Server(config=behind_a_proxy), True)):
        assert server.tornado_settings["allow_remote_access"] is answered and server.auto_token
    assert server.config_file_paths == jupyter_config_path()


def test_the_end_of_the_command_is_that_of_its_server_and_kernels(tmp_path):
    with started(tmp_path, *write_data(tmp_path)) as (process, address):
        below = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        assert process.wait(timeout=30) == 0
        assert psutil.wait_procs(below, timeout=10)[1] == []
        with pytest.raises(ConnectionRefusedError):
            ask(address)
