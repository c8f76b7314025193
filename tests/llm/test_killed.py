"""A run that is killed at any moment goes on where it was, within its limit, and leaves no key behind."""

import base64
import json
import os
import signal
import subprocess
import sys

import pytest
from chat_server import SECRET, Billing, chat_server

PRICES = (30.0, 60.0)  # per million
QUESTIONS = [f"Is it {i}?" for i in range(60)]
USER, PASSWORD = "somebody", "pass-word-of-a-test"
RUN = """
import os, signal, sys
from pathlib import Path
from berdslib.llm import budget, chat, recorded
from berdslib.llm.asking import ask_all

url, folder, limit, count, moment = sys.argv[1:]
chat._FIRST_WAIT, write, calls = 0.01, recorded.append_line, {"said": 0, "spending": 0}

def append_line(path, text):
    # Counts the lines of each file, and at one of them the process ends: before it, in its middle or behind it.
    calls[path.stem] += 1
    at = f"{path.stem} {calls[path.stem]}"
    if moment == f"{at} before":
        os.kill(os.getpid(), signal.SIGKILL)
    if moment == f"{at} half":
        with open(path, "ab", buffering=0) as file:
            file.write(text.encode()[: len(text) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    write(path, text)
    if moment == f"{at} behind":
        os.kill(os.getpid(), signal.SIGKILL)

recorded.append_line = budget.append_line = append_line
endpoint = chat.Endpoint("some-model", base_url=url, max_tokens=40, timeout=5)
budgeted = budget.Budgeted(endpoint, prices=(30.0, 60.0), limit=float(limit), ledger=Path(folder, "spending.jsonl"))
kept = recorded.Kept(budgeted, Path(folder, "said.jsonl"))
try:
    found = ask_all(kept, [[{"role": "user", "content": f"Is it {i}?"}] for i in range(int(count))])
except budget.BudgetError as error:
    sys.exit(f"budget: {error}")
sys.exit(sum(one.reply is None for one in found))
"""
# The server's and the process's own: where it is, what it has just done.
MOMENTS = [
    "the first answer is awaited",
    "spending 1 behind",  # and nothing sent yet
    "said 3 half",
    "spending 9 half",
    "said 2 before",  # the bill is in the ledger, and the answer nowhere
    "the twelfth answer is sent",
]


def recorded_in(path):
    """The questions that whole lines answer."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return {json.loads(line)["messages"][-1]["content"] for line in lines}


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "userinfo"), [(10.0, ""), (0.16, f"{USER}:{PASSWORD}@")])
def test_a_run_that_is_killed_again_and_again(tmp_path, limit, userinfo):
    schedule = ["ok", "ok", 429, "ok", "html", "ok", 500, "ok", "cut", "ok", "slow", "untold", "ok", "ok", "ok"]
    till = Billing(schedule, says=lambda text: f"{text.upper()} {SECRET} {PASSWORD}")
    folder = tmp_path / "run"

    def run(url, moment):
        before = len(till.asked)
        command = [sys.executable, "-c", RUN, url, str(folder), str(limit), str(len(QUESTIONS)), moment]
        process = subprocess.Popen(
            command, env={**os.environ, "OPENAI_API_KEY": SECRET}, stderr=subprocess.PIPE, text=True
        )
        ends = {MOMENTS[0]: ("before", before + 1), MOMENTS[-1]: ("after", before + 12)}
        if moment in ends:
            when, at = ends[moment]
            setattr(till, when, lambda number: process.kill() if number >= at else None)
        said = process.communicate(timeout=120)[1]
        till.before = till.after = lambda number: None
        return process.returncode, said, till.asked[before:]

    with chat_server() as server:
        server.script = [till]
        url = f"http://{userinfo}127.0.0.1:{server.server_port}/v1"
        for moment in [*MOMENTS, "never"]:
            kept = recorded_in(folder / "said.jsonl")
            code, said, asked = run(url, moment)
            assert kept <= recorded_in(folder / "said.jsonl") and not kept & set(asked)
            assert till.cost(PRICES) <= limit
            if moment != "never":
                assert code == -signal.SIGKILL, said
        done = recorded_in(folder / "said.jsonl")
        if limit > 1:
            assert code == 0 and done == set(QUESTIONS)
            assert run(url, "never")[::2] == (0, [])  # all is there, so nothing is asked
        else:
            assert code == 1 and "budget: the next request" in said and 10 < len(done) < len(QUESTIONS)
    held = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    login = base64.b64encode(f"{USER}:{PASSWORD}".encode())
    secrets = [SECRET.encode(), *([USER.encode(), PASSWORD.encode(), login] if userinfo else [])]
    assert len(held) > 5000 and [secret for secret in secrets if secret in held] == []
