"""What the shell prints cannot steer the terminal it is printed on; and what `berds lab` serves."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from click.shell_completion import ShellComplete
from shell import berds, tried

from berdslib.cli.root import main
from berdslib.progress import PROGRESS

# In one character what ESC [ begins; click takes only the two-character form out of what goes to no terminal.
STEER, SPELT = "\x9b2J", "\\x9b2J"


def leaves(command, *names):
    """Return the names of every command below one."""
    below = getattr(command, "commands", {})
    return [leaf for name, one in below.items() for leaf in leaves(one, *names, name)] or [names]


def test_every_command_is_listed_and_has_help():
    listed = main.list_commands(None)
    assert listed == sorted(
        ["demo", "lab", "experiment", "retrieve", "judge", "evaluate", "sides", "explore", "rate", "data", "build",
         "notebook", "grid", "prompts", "table", "finetune"]
    )  # fmt: skip
    shown = berds("--help").stdout
    assert all(f"\n  {name} " in shown for name in listed) and "judge-eval" not in shown
    for names in leaves(main):
        text = berds(*names, "--help").stdout
        assert "Usage:" in text and len(text.splitlines()) > 3
        examples = [line.strip() for line in text.splitlines() if line.strip().startswith(f"berds {' '.join(names)} ")]
        assert all(line.count("berds ") == 1 for line in examples)


def test_what_is_required_and_not_given_is_named():
    asked = 0
    for names in leaves(main):
        command = main
        for name in names:
            command = command.commands[name]
        if needed := [one for one in command.params if one.required]:
            told = tried(*names)
            assert told.exit_code == 2 and f"Missing {needed[0].param_type_name}" in told.output, (names, told.output)
            asked += 1
    assert asked > 15


def test_an_interrupt_ends_a_command_with_130_and_one_line(monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("berdslib.data.datasets.dataset", interrupted)
    told = tried("data", "list")
    assert told.exit_code == 130 and len(told.stderr.split("\n")) == 3 and told.stdout == ""


def test_every_command_is_told_behind_it_how_much_to_say():
    ours = logging.getLogger("berdslib")
    main.list_commands(None)
    for names in leaves(main):
        for said, logger, level in (("-v", ours, logging.INFO), ("--quiet", PROGRESS, logging.ERROR)):
            root = main.make_context("berds", [*names])
            assert (ours.level, PROGRESS.level) == (logging.NOTSET, logging.INFO)  # whatever the last one was told
            command = main
            for name in names:
                command = command.commands[name]
            # What is required is not given; the option is read all the same.
            with command.make_context(names[-1], [said], parent=root, resilient_parsing=True) as read:
                assert logger.level == level, (names, said)
                assert not {"verbose", "quiet"} & set(read.params)


@pytest.mark.parametrize("behind", [True, False])
def test_how_much_a_command_says(behind, caplog):
    command = ["experiment", "-q", "sample", "--limit", "2", "-r", "bm25", "-j", "overlap"]
    for option, lines, told in (("", True, False), ("-v", True, True), ("--quiet", False, False)):
        caplog.clear()
        said = [option] * bool(option)
        berds(*([*command, *said] if behind else [*said, *command]))
        first = next((one.getMessage() for one in caplog.records if one.name == "berds"), "")
        assert first.startswith("sample: 2 questions, ") == lines and ("for bm25" in first) == lines
        for step in ("models and indexes are ready: ", "judged "):
            assert any(one.message.startswith(step) for one in caplog.records) == told


@pytest.mark.parametrize(
    ("words", "typed", "first"),
    [
        ("experiment -q", "pir-", ["pir-sample", "pir-perspectrum"]),
        ("data stats -q", "arguana,SAMP", ["arguana,sample"]),
        ("experiment -r", "bm25,minil", ["bm25,minilm"]),
        ("judge -j", "overlap+lap", ["overlap+laptop", "overlap+laptop-mpnet", "overlap+laptop:"]),
        ("evaluate -m", "MRecall@5,alpha_n", ["MRecall@5,alpha_nDCG"]),
        ("table", "pir-f", ["PIR-Figure-1", "PIR-Figure-2"]),
        ("experiment -q", "./my", ["./my"]),
    ],
)
def test_names_are_completed_after_the_last_comma_and_files_where_none_begins_so(words, typed, first):
    main.list_commands(None)
    found = ShellComplete(main, {}, "berds", "_BERDS_COMPLETE").get_completions(words.split(), typed)
    assert [one.value for one in found][: len(first)] == first
    assert {one.type for one in found} == {"file" if "/" in typed else "plain"}


def test_an_error_spells_out_what_a_file_holds(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text('{"_id": "q", "text": "Why?", "split": "a\\u009b2J"}\n')
    result = tried("data", "stats", "-q", path, "--split", "dev")
    assert result.exit_code == 1 and STEER not in result.output and f"splits in it: a{SPELT}" in result.stderr


def test_a_table_spells_out_what_a_file_holds(tmp_path):
    questions, run, verdicts = (tmp_path / name for name in ("q.jsonl", "run.trec", "v.tsv"))
    questions.write_text('{"_id": "q", "question": "Why?", "perspectives": ["So."], "source": "set\\u009b2J"}\n')
    run.write_text("q Q0 d 1 1.0 t\n")
    verdicts.write_text("qid\tpid\tdocno\tp_yes\nq\t0\td\t1\n")
    shown = berds("evaluate", "-q", questions, "--run", run, "--verdicts", verdicts, "-m", "Precision@1").stdout
    assert STEER not in shown and f"set{SPELT}" in shown and "Precision@1" in shown


def _answer(address, deadline):
    """What a server answers that prints its address before it listens, as Jupyter does."""
    while True:
        try:
            return urllib.request.urlopen(address, timeout=10)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError) or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="ends a group of processes")
def test_lab_serves_the_project_with_the_first_notebook_open(tmp_path):
    command = [sys.executable, "-m", "berdslib.cli", "lab", "--no-browser", "--allow-root", "--port=0"]
    own = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    log = tmp_path / "log.txt"
    with log.open("w") as file:
        server = subprocess.Popen(command, stderr=file, env=os.environ | own, cwd=tmp_path, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)(/\S+)\?token=(\w+)", log.read_text())):
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        port, opened, token = found.groups()
        assert opened == "/lab/tree/notebooks/00_quickstart.ipynb"
        for name in ("notebooks/00_quickstart.ipynb", "docs/glossary.md", "papermill_runs"):
            address = f"http://127.0.0.1:{port}/api/contents/{name}?content=0&token={token}"
            with _answer(address, deadline) as answer:
                assert json.load(answer)["path"] == name
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
