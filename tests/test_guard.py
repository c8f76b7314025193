"""The guard itself: what leaves this machine is refused and noted, in this process and in one that a test starts."""

import os
import socket
import subprocess
import sys

import pytest

TRIES = ["socket.create_connection(('192.0.2.1', 80), 1)", "socket.getaddrinfo('example.org', 80)"]


@pytest.mark.parametrize("code", TRIES)
def test_nothing_leaves_this_machine(code, tmp_path, monkeypatch):
    monkeypatch.setenv("BERDS_TEST_LEFT", str(tmp_path / "here"))
    with pytest.raises(BaseException, match="tests reach no machine but this one"):
        eval(code)
    environment = os.environ | {"BERDS_TEST_LEFT": str(tmp_path / "child")}
    child = subprocess.run([sys.executable, "-c", f"import socket; {code}"], env=environment, capture_output=True)
    assert b"LeftThisMachine" in child.stderr
    assert all((tmp_path / name).read_text() for name in ("here", "child"))


def test_this_machine_is_reached():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()[:2], 1).close()
    assert socket.getaddrinfo("localhost", 80)
