"""Every bad input is refused in one plain message that names what is wrong, never with a traceback; one table of them.

Each case starts from the same small folder of good files (`GOOD`), with some of them replaced.
"""

import json
import os
import shlex
import subprocess
import sys
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from berdslib.cli import main

FOLDER = object()  # in place of a file
QUESTION = {"qid": "q1", "question": "Is tea better than coffee?", "perspectives": ["Tea is.", "Coffee is."]}
DOCUMENT = {"title": "Tea", "text": "Tea is better than coffee."}
VERDICTS = "qid\tpid\tdocno\tp_yes\n"


def jsonl(*rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def outputs(preds, other=None):
    """An official file with predictions, or without."""
    return jsonl({**QUESTION, "ctxs": [DOCUMENT | preds, {"text": "Coffee keeps us awake."} | (other or preds)]})


GOOD = {
    "q.jsonl": jsonl(QUESTION, {**QUESTION, "qid": "q2", "question": "Are mornings better than evenings?"}),
    "p.jsonl": jsonl({"id": "d1", **DOCUMENT}, {"id": "d2", "text": "Coffee keeps us awake, says the morning."}),
    "run.trec": "q1 Q0 d1 1 2.0 x\nq1 Q0 d2 2 1.0 x\nq2 Q0 d2 1 1.0 x\n",
    "v.tsv": VERDICTS + "q1\t0\td1\t1\nq1\t1\td2\t0.8\n",
    "out.jsonl": outputs({"m-preds": [1, 0]}),
    "my.txt": "Should zoos close?\nWill trams help?\n",
}
RETRIEVE = "retrieve -q q.jsonl -c p.jsonl -o new.trec"
JUDGE = "judge -q q.jsonl -c p.jsonl --run run.trec -j overlap -o new.tsv"
EVALUATE = "evaluate -q q.jsonl --run run.trec --verdicts v.tsv"
EXPERIMENT = "experiment -q q.jsonl -c p.jsonl -j overlap"
STATS = "data stats -q q.jsonl"
BUILD = "build questions my.txt mine"
LINE = GOOD["q.jsonl"].splitlines(keepends=True)[0]


def questions(**fields):
    """A good question and, in line 2, one with other fields."""
    return {"q.jsonl": LINE + jsonl({**QUESTION, "qid": "q2", **fields})}


def run(line):
    return {"run.trec": f"q1 Q0 d1 1 2.0 x\n{line}\n"}


class Case(NamedTuple):
    """A command, run inside the folder; what its message holds; what replaces the good files; its exit; variables."""

    command: str
    words: tuple[str, ...]
    files: dict = {}  # noqa: RUF012  never changed
    exit: int = 1
    env: dict = {}  # noqa: RUF012  never changed


CASES = {
    # files that are no files, or not text
    "a missing file": Case("data stats -q none.jsonl", ("none.jsonl", "no such file")),
    # JSON, questions, passages
    "truncated JSON": Case(STATS, ("q.jsonl:2", "not valid JSON"), {"q.jsonl": LINE + LINE[:40]}),
    "no perspectives to judge": Case(JUDGE, ("q.jsonl [perspectives]", "'q2'"), questions(perspectives=[])),
    "a split that is not there": Case(f"{STATS} --split test", ("q.jsonl [split]", "'test'")),
    # runs and verdicts
    "a run with an unknown docno": Case(JUDGE, ("run.trec", "'d9'", "corpus"), run("q1 Q0 d9 2 1.0 x")),
    "a run of other questions": Case(
        EVALUATE, ("run.trec [qid]", "'q1'", "'z1'"), {"run.trec": "z1 Q0 d1 1 1.0 x\n"}
    ),
    "an unknown perspective": Case(
        EVALUATE, ("v.tsv", "'q1'", "2 perspectives", "7"), {"v.tsv": f"{VERDICTS}q1\t7\td2\t1\n"}
    ),
    "predictions doubled by a second run (B9)": Case(
        "evaluate out.jsonl", ("out.jsonl:1 [m-preds]", "2 values"), {"out.jsonl": outputs({"m-preds": [1, 0, 1, 0]})}
    ),
    "no predictions": Case("evaluate out.jsonl", ("no recorded predictions", "-preds"), {"out.jsonl": outputs({})}),
    # names and numbers
    "k a word": Case(f"{RETRIEVE} -k five", ("-k", "'five' is not a valid integer"), exit=2),
    "an unknown judge": Case(f"{JUDGE} -j overlapp", ("judge 'overlapp'", "Did you mean 'overlap'?")),
    # options that do not go together
    "several systems in a file": Case(f"{RETRIEVE} -r bm25,rank-bm25", ("several systems need a file each",), exit=2),
    "a run of two collections": Case(
        "experiment -q sample,pir-sample:stories --run run.trec", ("name one",), exit=2
    ),
    "the published cut-off of a run": Case(
        f"{EVALUATE} --k official", ("--k is for a BeRDS JSONL file",), exit=2
    ),
    "predictions of no scenario": Case(
        RETRIEVE.replace("new.trec", "new.jsonl"), ("new.jsonl",)
    ),
    "systems and runs": Case(
        "rate pairs -q sample -r bm25 --run run.trec -o new.tsv", ("systems or finished runs, not both",), exit=2
    ),
    # places
    "an output that is a folder": Case(RETRIEVE, ("new.trec", "is a directory"), {"new.trec": FOLDER}, exit=2),
    "no space left": Case(RETRIEVE.replace("new.trec", "/dev/full"), ("/dev/full", "No space left")),
    "BERDS_DATA pointing to nothing": Case(
        "data card arguana", ("BERDS_DATA", "'nowhere'"), env={"BERDS_DATA": "nowhere"}
    ),
    "a store that is no database": Case(
        f"{JUDGE} --store s.db", ("s.db", "cannot be used as a verdict store"), {"s.db": "no database, but a text" * 50}
    ),
    # building
}  # fmt: skip


def prepare(case, folder):
    """Put the files of a case into an empty folder; return its variables: what is the user's own is out of reach."""
    for name, content in (GOOD | case.files).items():
        path = folder / name
        if content is FOLDER:
            path.mkdir()
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return {"BERDS_CACHE": str(folder / "cache"), "BERDS_DATA": None, "BERDS_HF_DIR": None, **case.env}


def invoke(case, folder, monkeypatch):
    variables = prepare(case, folder)
    monkeypatch.chdir(folder)
    return CliRunner().invoke(main, shlex.split(case.command), prog_name="berds", env=variables)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_bad_input_is_refused_with_a_message(case, tmp_path, monkeypatch):
    if "/dev/full" in case.command and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    result = invoke(case, tmp_path, monkeypatch)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert result.exit_code == case.exit and result.stdout == "" and len(result.output) < 2000, result.output
    assert all(word in result.stderr for word in case.words), result.stderr
    left = {p.name for p in tmp_path.iterdir() if p.is_file()} - {"s.db-wal", "s.db-shm"}
    assert left <= set(GOOD) | set(case.files)  # nothing half written


@pytest.mark.slow
@pytest.mark.parametrize("name", ["truncated JSON", "no space left"])
def test_the_same_from_a_shell(name, tmp_path):
    case = CASES[name]
    variables = {k: v for k, v in (os.environ | prepare(case, tmp_path)).items() if v is not None}
    command = [sys.executable, "-m", "berdslib.cli", *shlex.split(case.command)]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=100)
    assert done.returncode == case.exit and done.stdout == "" and "Traceback" not in done.stderr
    assert all(word in done.stderr for word in case.words)


def test_the_files_that_the_cases_start_from_are_good(tmp_path, monkeypatch):
    again = "evaluate -q q.jsonl --run new.trec --verdicts new.tsv"
    for command in (RETRIEVE, JUDGE, EVALUATE, again, "evaluate out.jsonl", f"{JUDGE} --store s.db"):
        result = invoke(Case(command, ()), tmp_path, monkeypatch)
        assert result.exit_code == 0, result.output
    (tmp_path / "a,b.jsonl").write_text(GOOD["q.jsonl"])  # one file, and not two
    assert invoke(Case("data stats -q a,b.jsonl", ()), tmp_path, monkeypatch).exit_code == 0
