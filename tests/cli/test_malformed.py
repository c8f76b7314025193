"""Every bad input is refused in one plain message that names what is wrong, never with a traceback; one table of them.

Each case starts from the same small folder of good files (`GOOD`), with some of them replaced.
"""

import json
import os
import shlex
import sqlite3
import subprocess
import sys
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from berdslib.cli import main

FOLDER, OTHER_DATABASE = object(), object()  # in place of a file: a folder, and an SQLite file with another table
QUESTION = {"qid": "q1", "question": "Is tea better than coffee?", "perspectives": ["Tea is.", "Coffee is."]}
DOCUMENT = {"title": "Tea", "text": "Tea is better than coffee."}
VERDICTS = "qid\tpid\tdocno\tp_yes\n"
PAIRS = "question\tdocument\tperspective\tlabel\nQ?\tD\tP\t"


def jsonl(*rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def outputs(preds, other=None):
    """An official file with predictions, or without."""
    return jsonl({**QUESTION, "ctxs": [DOCUMENT | preds, {"text": "Coffee keeps us awake."} | (other or preds)]})


def notebook(*sources, parameters="k = 5\nretriever = 'bm25'"):
    cells = [
        {"cell_type": "code", "id": f"cell-{i}", "source": source, "metadata": {"tags": tags}, "outputs": []}
        for i, (source, tags) in enumerate([(parameters, ["parameters"]), *((s, []) for s in sources)])
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


GOOD = {
    "q.jsonl": jsonl(QUESTION, {**QUESTION, "qid": "q2", "question": "Are mornings better than evenings?"}),
    "p.jsonl": jsonl({"id": "d1", **DOCUMENT}, {"id": "d2", "text": "Coffee keeps us awake, says the morning."}),
    "run.trec": "q1 Q0 d1 1 2.0 x\nq1 Q0 d2 2 1.0 x\nq2 Q0 d2 1 1.0 x\n",
    "v.tsv": VERDICTS + "q1\t0\td1\t1\nq1\t1\td2\t0.8\n",
    "out.jsonl": outputs({"m-preds": [1, 0]}),
    "nb.ipynb": notebook("k + 1"),
    "my.txt": "Should zoos close?\nWill trams help?\n",
}
RETRIEVE = "retrieve -q q.jsonl -c p.jsonl -o new.trec"
JUDGE = "judge -q q.jsonl -c p.jsonl --run run.trec -j overlap -o new.tsv"
EVALUATE = "evaluate -q q.jsonl --run run.trec --verdicts v.tsv"
EXPERIMENT = "experiment -q q.jsonl -c p.jsonl -j overlap"
STATS, RATE_SYSTEMS = "data stats -q q.jsonl", "rate systems -q sample --split dev -r bm25,rank-bm25 -j overlap"
BUILD, LABELS = "build questions my.txt mine", "rate judge --data l.tsv"
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
    "a folder instead of a run": Case(JUDGE, ("run.trec", "is a folder"), {"run.trec": FOLDER}),
    # JSON, questions, passages
    "truncated JSON": Case(STATS, ("q.jsonl:2", "not valid JSON"), {"q.jsonl": LINE + LINE[:40]}),
    "no perspectives to judge": Case(JUDGE, ("q.jsonl [perspectives]", "'q2'"), questions(perspectives=[])),
    "a row too wide": Case(
        "data stats -q q.csv", ("q.csv:3", "3 columns", "2"), {"q.csv": "qid,question\na,A?\nb,B?,C\n"}
    ),
    "a split that is not there": Case(f"{STATS} --split test", ("q.jsonl [split]", "'test'")),
    "a blank for a TREC file": Case(
        RETRIEVE, ("[docno]", "'a b' is empty or holds a blank"), {"p.jsonl": jsonl({"id": "a b", "text": "tea"})}
    ),
    "no corpus": Case("retrieve -q q.jsonl -o new.trec", ("--corpus is required",)),
    "no names": Case("data stats -q ,", ("names nothing",)),
    # runs and verdicts
    "a run with an unknown docno": Case(JUDGE, ("run.trec", "'d9'", "corpus"), run("q1 Q0 d9 2 1.0 x")),
    "a run of other questions": Case(
        EVALUATE, ("run.trec [qid]", "'q1'", "'z1'"), {"run.trec": "z1 Q0 d1 1 1.0 x\n"}
    ),
    "a run of 5 columns": Case(JUDGE, ("run.trec:2", "5 columns", "expected 6"), run("q1 Q0 d2 2 1.0")),
    "an unknown perspective": Case(
        EVALUATE, ("v.tsv", "'q1'", "2 perspectives", "7"), {"v.tsv": f"{VERDICTS}q1\t7\td2\t1\n"}
    ),
    "predictions doubled by a second run (B9)": Case(
        "evaluate out.jsonl", ("out.jsonl:1 [m-preds]", "2 values"), {"out.jsonl": outputs({"m-preds": [1, 0, 1, 0]})}
    ),
    "labels of one class": Case(LABELS, ("l.tsv [label]", "all labels are the same"), {"l.tsv": f"{PAIRS}1\n"}),
    "a label that is none": Case(LABELS, ("l.tsv:2 [label]", "'perhaps'"), {"l.tsv": f"{PAIRS}perhaps\n"}),
    "no predictions": Case("evaluate out.jsonl", ("no recorded predictions", "-preds"), {"out.jsonl": outputs({})}),
    # names and numbers
    "k = 0": Case(f"{RETRIEVE} -k 0", ("-k", "0 is not in the range x>=1"), exit=2),
    "k a word": Case(f"{RETRIEVE} -k five", ("-k", "'five' is not a valid integer"), exit=2),
    "an unknown retriever": Case(f"{EXPERIMENT} -r bm25,minilmm", ("'minilmm'", "Did you mean 'minilm'?")),
    "an unknown judge": Case(f"{JUDGE} -j overlapp", ("judge 'overlapp'", "Did you mean 'overlap'?")),
    "an unknown measure": Case(f"{EVALUATE} -m MRecal@5", ("measure 'MRecal'", "Did you mean 'MRecall'?")),
    "an unknown data set": Case("data card arguanna", ("data set 'arguanna'", "Did you mean 'arguana'?")),
    "an unknown extractor": Case(
        "data web -q q.jsonl -o web --extractor trafilature", ("'trafilature'. Did you mean 'trafilatura'?",)
    ),
    "gold for a file": Case(f"{JUDGE} -j gold", ("'gold' needs verdicts; this data set has none",)),
    "gold for a file, to evaluate": Case(
        "evaluate -q q.jsonl --run run.trec", ("'q.jsonl' has no gold verdicts", "--verdicts FILE")
    ),
    "gold for a file, to export": Case("data export new -q q.jsonl -c p.jsonl", ("no gold verdicts; give a file",)),
    "labelled a word": Case(f"{RATE_SYSTEMS} --labelled x", ("[labelled]: 'x': whole numbers were expected",)),
    # options that do not go together
    "several systems in a file": Case(f"{RETRIEVE} -r bm25,rank-bm25", ("several systems need a file each",), exit=2),
    "letters without a table": Case(
        f"{EXPERIMENT} -r bm25,rank-bm25 --letters --json", ("--letters are in the table",), exit=2
    ),
    "one system to compare": Case(f"{EXPERIMENT} -r bm25 --pairs", ("give at least two",), exit=2),
    "a run of two collections": Case(
        "experiment -q sample,pir-sample:stories --run run.trec", ("finished runs are of one collection",), exit=2
    ),
    "the published cut-off of a run": Case(
        f"{EVALUATE} --k official", ("--k and --predictions are for a BeRDS JSONL file",), exit=2
    ),
    "results of no scenario": Case(f"{EVALUATE} -o new", ("-o is for the results of a scenario",), exit=2),
    "predictions of no scenario": Case(
        RETRIEVE.replace("new.trec", "new.jsonl"), ("a predictions file is for a scenario",)
    ),
    "systems and runs": Case(
        "rate pairs -q sample -r bm25 --run run.trec -o new.tsv", ("systems or finished runs, not both",), exit=2
    ),
    "a run in a BEIR folder": Case(
        "data export new -q sample --run run.trec", ("only a BeRDS JSONL lists a run",), exit=2
    ),
    "offline and again": Case(
        "data web -q q.jsonl -o web --offline --retry-failed", ("cannot --retry-failed",), exit=2
    ),
    # places
    "below a file": Case(JUDGE.replace("new.tsv", "p.jsonl/new.tsv"), ("p.jsonl/new.tsv", "folder is a file")),
    "an output that is a folder": Case(RETRIEVE, ("new.trec", "is a directory"), {"new.trec": FOLDER}, exit=2),
    "no space left": Case(RETRIEVE.replace("new.trec", "/dev/full"), ("/dev/full", "No space left")),
    "verdicts to an unknown ending": Case(JUDGE.replace("new.tsv", "new.json"), ("new.json", ".tsv")),
    "BERDS_DATA pointing to nothing": Case(
        "data card arguana", ("BERDS_DATA", "'nowhere'"), env={"BERDS_DATA": "nowhere"}
    ),
    "a store that is no database": Case(
        f"{JUDGE} --store s.db", ("s.db", "cannot be used as a verdict store"), {"s.db": "no database, but a text" * 50}
    ),
    "a user cache that is a file": Case(JUDGE, ("q.jsonl",), env={"BERDS_CACHE": "q.jsonl/cache"}),
    # notebooks
    "an unknown parameter": Case(
        "notebook run nb.ipynb -p retreiver bm25", ("parameter of nb 'retreiver'", "Did you mean 'retriever'?")
    ),
    "a computed parameter": Case(
        "notebook run nb.ipynb", ("nb.ipynb:2", "plain literal"), {"nb.ipynb": notebook(parameters="k = 5\nn = k + 1")}
    ),
    "a notebook that is no JSON": Case(
        "notebook run nb.ipynb", ("nb.ipynb", "not a readable notebook"), {"nb.ipynb": "{"}
    ),
    "a parameter of the wrong type": Case(
        "notebook run nb.ipynb -p k five", ("[k]", "must be int", "'five'")
    ),
    # building
    "no such builder": Case("build quest my.txt mine", ("'quest' is not one of",), exit=2),
    "prices in words": Case(f"{BUILD} --prices cheap", ("not two numbers with a comma",), exit=2),
    "a budget without prices": Case(f"{BUILD} --model x --budget 1", ("needs the prices",)),
    "answers that are not there": Case(f"{BUILD} --model recorded:none.jsonl", ("cannot be read",)),
    "a folder that is no data set": Case("data add .", ("no such file",)),
}  # fmt: skip


def prepare(case, folder):
    """Put the files of a case into an empty folder; return its variables: what is the user's own is out of reach."""
    for name, content in (GOOD | case.files).items():
        path = folder / name
        if content is FOLDER:
            path.mkdir()
        elif content is OTHER_DATABASE:
            with sqlite3.connect(path) as database:
                database.execute("CREATE TABLE verdict (other TEXT)")
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
@pytest.mark.parametrize("name", ["truncated JSON", "BERDS_DATA pointing to nothing", "no space left", "k a word"])
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
