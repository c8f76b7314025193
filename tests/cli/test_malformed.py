"""Every bad input of tests/malformed.py is refused in one plain message, never with a traceback."""

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner
from malformed import CASES, GOOD, JUDGE, RETRIEVE, Case, arguments, environment, prepare

from berdslib.cli import main

BY_NAME = {case.name: case for case in CASES}
IN_A_PROCESS = [
    "truncated JSON",
    "UTF-16 text",
    "a gzip file with wrong bytes",
    "k a word",
    "BERDS_DATA pointing to nothing",
    "an output without space left",
    "a verdict store of another make",
    "an unknown notebook parameter",
]


def check(case, code, message):
    assert code == case.exit, message
    assert "Traceback" not in message
    for word in case.words:
        assert word in message
    assert len(message) < 2000


def invoke(case, folder, monkeypatch):
    if "/dev/full" in case.command and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    prepare(case, folder)
    monkeypatch.chdir(folder)
    return CliRunner().invoke(main, arguments(case), prog_name="berds", env=environment(case, folder))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=BY_NAME)
def test_a_bad_input_is_refused_with_a_message(case, tmp_path, monkeypatch):
    result = invoke(case, tmp_path, monkeypatch)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    check(case, result.exit_code, result.output)
    assert "Traceback" not in result.stderr and result.stdout == ""
    left = {p.name for p in tmp_path.iterdir() if p.is_file()} - {"s.db-wal", "s.db-shm"}
    assert left <= set(GOOD) | set(case.files)  # nothing half written


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_A_PROCESS)
def test_the_same_from_a_shell(name, tmp_path):
    case = BY_NAME[name]
    if "/dev/full" in case.command and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    prepare(case, tmp_path)
    variables = {k: v for k, v in (os.environ | environment(case, tmp_path)).items() if v is not None}
    command = [sys.executable, "-m", "berdslib.cli", *arguments(case)]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=100)
    check(case, done.returncode, done.stdout + done.stderr)
    assert done.stdout == ""


def test_the_files_that_the_cases_start_from_are_good(tmp_path, monkeypatch):
    for command in (
        RETRIEVE,
        JUDGE,
        "evaluate -q q.jsonl --run new.trec --verdicts new.tsv",
        "evaluate -q q.jsonl --run run.trec --verdicts v.tsv",
        "evaluate out.jsonl",
        "data stats -q q.jsonl,q.jsonl",
        f"{JUDGE} --store s.db",
    ):
        good = Case("good", command, ())
        folder = tmp_path / "good"
        folder.mkdir(exist_ok=True)
        result = invoke(good, folder, monkeypatch)
        assert result.exit_code == 0, result.output


def test_a_file_whose_name_holds_a_comma_is_one_file(tmp_path, monkeypatch):
    case = Case("good", "data stats -q a,b.jsonl", (), {"a,b.jsonl": GOOD["q.jsonl"]})
    assert invoke(case, tmp_path, monkeypatch).exit_code == 0
