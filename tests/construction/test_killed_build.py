"""A build against an endpoint that is slow, refuses, fails and talks nonsense, killed five times on its way."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from chat_server import SECRET, Billing, chat_server
from debater import Debater, write_arguments

from berdslib.construction.build import EXCHANGES, SPENDING, build
from berdslib.data.tables import read_jsonl

PRICES = (30.0, 60.0)  # per million
SCHEDULE = ["ok", "slow", 429, "ok", "html", "ok", 500, "truncated"]
SCHEDULE += ["ok", "length", "ok", "empty", "cut", "ok", "untold"]
WORKERS, BUDGET = 3, 5.0
COMMAND = "from berdslib.llm import chat; chat._FIRST_WAIT = 0.01; from berdslib.cli import main; main()"


class DebatingServer(Billing):
    """Bills as its parent does, answers what a debater says, and remembers every conversation that it was sent."""

    def __init__(self, schedule):
        super().__init__(schedule, says=lambda _: Debater().complete(self.body.messages).text)
        self.body, self.conversations, self.schedule = threading.local(), [], map(self.mild, self.schedule)

    def mild(self, outcome):
        """An answer that is sent back is readable the second time: what comes of the build is then known."""
        sent_back = any(message["role"] == "assistant" for message in self.body.messages)
        return "ok" if sent_back and outcome in ("length", "empty") else outcome

    def __call__(self, body):
        self.body.messages = body["messages"]
        self.conversations.append(json.dumps(body["messages"]))
        return super().__call__(body)


def recorded_in(folder):
    """The conversations that whole lines of the record answer."""
    path = folder / EXCHANGES
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return {json.dumps(json.loads(line)["messages"]) for line in lines}


@pytest.mark.slow
def test_a_build_that_is_killed_five_times(tmp_path):
    raw, folder = write_arguments(tmp_path / "arguments.jsonl"), tmp_path / "set"
    till = DebatingServer(SCHEDULE)

    def run(moment, at):
        """Run the command; at the moment, "before" or "after" its so many-th request, the process is killed."""
        options = ["--prices", "30,60", "--budget", BUDGET, "--workers", WORKERS]
        command = ["-c", COMMAND, "build", "arguana", raw, folder, "--model", "some-model", *options]
        start = len(till.asked)
        variables = {**os.environ, "OPENAI_API_KEY": SECRET, "BERDS_CHAT_URL": url}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen([sys.executable, *map(str, command)], env=variables, **pipes)
        if moment:
            setattr(till, moment, lambda number: process.kill() if number >= start + at else None)
        said = process.communicate(timeout=180)[1]
        till.before = till.after = lambda number: None
        return process.returncode, said, till.conversations[start:]

    with chat_server() as server:
        server.script = [till]
        url = f"http://127.0.0.1:{server.server_port}/v1"
        for moment, at in [("before", 1), ("after", 1), ("before", 6), ("after", 5), ("after", 8), ("", 0)]:
            kept = recorded_in(folder)
            code, said, asked = run(moment, at)
            assert not kept & set(asked)  # nothing is paid twice once it is written down
            assert kept <= recorded_in(folder)
            assert till.cost(PRICES) <= BUDGET
            if moment:
                assert code == -signal.SIGKILL, said
                # Of what was paid, at most the answers under way are lost.
                assert len(set(asked) - recorded_in(folder)) <= WORKERS
        while "run the same command again" in said:  # what the endpoint could not answer is asked in the next run
            code, said, _ = run("", 0)
        assert code == 0, said
        assert run("", 0)[2] == []
    held = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert len(held) > 3000 and SECRET.encode() not in held
    ledger = {row["attempt"]: row for _, row in read_jsonl(folder / SPENDING)}
    counted = sum(row["prompt"] * PRICES[0] + row["completion"] * PRICES[1] for row in ledger.values()) / 1e6
    assert till.cost(PRICES) <= counted <= BUDGET
    whole = build("arguana", raw, tmp_path / "whole", Debater(), name="set")
    assert (folder / "questions.jsonl").read_bytes() == (whole.folder / "questions.jsonl").read_bytes()
