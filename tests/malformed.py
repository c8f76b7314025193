"""Bad inputs for the command line, as data: what is wrong, the command, the words its message must hold.

Every case starts from the same small folder of good files (`GOOD`), with some of them replaced. It is used by
tests/cli/test_malformed.py.
"""

import gzip
import json
import shlex
import sqlite3
from pathlib import Path
from typing import NamedTuple

FOLDER = object()  # a folder instead of a file
GONE = object()  # no such file
OTHER_DATABASE = object()  # an SQLite file with another table


class Case(NamedTuple):
    """One bad input; `files` and `env` replace those of every case, and None unsets a variable."""

    name: str
    command: str  # without the leading "berds"; run inside the folder
    words: tuple[str, ...]
    files: dict = {}  # noqa: RUF012  never changed
    exit: int = 1
    env: dict = {}  # noqa: RUF012  never changed


def jsonl(*rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


QUESTION = {"qid": "q1", "question": "Is tea better than coffee?", "perspectives": ["Tea is.", "Coffee is."]}
DOCUMENT = {"title": "Tea", "text": "Tea is better than coffee."}
OFFICIAL = {**QUESTION, "ctxs": [DOCUMENT | {"m-preds": [1, 0]}, {"text": "Coffee keeps us awake.", "m-preds": [0, 1]}]}
VERDICTS = "qid\tpid\tdocno\tp_yes\n"


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
    "out.jsonl": jsonl(OFFICIAL),
    "nb.ipynb": notebook("k + 1"),
}

RETRIEVE = "retrieve -q q.jsonl -c p.jsonl -o new.trec"
JUDGE = "judge -q q.jsonl -c p.jsonl --run run.trec -j overlap -o new.tsv"
EVALUATE = "evaluate -q q.jsonl --run run.trec --verdicts v.tsv"
EXPERIMENT = "experiment -q q.jsonl -c p.jsonl -r bm25 -j overlap"
OUTPUTS = "evaluate out.jsonl"
STATS = "data stats -q q.jsonl"

GOOD_LINE = GOOD["q.jsonl"].splitlines(keepends=True)[0]
SWAPPED = bytearray(gzip.compress(jsonl(*(QUESTION | {"qid": str(i)} for i in range(200))).encode()))
SWAPPED[60:70] = b"\xff" * 10


def question(**fields):
    """A good question and, in line 2, one with other fields; a field of None is left out."""
    row = {**QUESTION, "qid": "q2", **fields}
    return {"q.jsonl": GOOD_LINE + jsonl({k: v for k, v in row.items() if v is not None})}


def run_line(line):
    return {"run.trec": f"q1 Q0 d1 1 2.0 x\n{line}\n"}


def verdict_line(line, head=VERDICTS):
    return {"v.tsv": f"{head}q1\t0\td1\t1\n{line}\n"}


CASES = [
    # ---- files that are no files, or not text
    Case("a missing questions file", "data stats -q none.jsonl", ("none.jsonl", "no such file")),
    Case("a folder instead of a run", JUDGE, ("run.trec", "is a folder"), {"run.trec": FOLDER}),
    Case("an empty run", JUDGE, ("run.trec", "is empty"), {"run.trec": ""}),
    Case(
        "Latin-1 text in line 2",
        STATS,
        ("q.jsonl:2", "not UTF-8"),
        {"q.jsonl": GOOD_LINE.encode() + '{"question": "Café?"}\n'.encode("latin-1")},
    ),
    Case("UTF-16 text", STATS, ("q.jsonl:1", "not UTF-8"), {"q.jsonl": GOOD["q.jsonl"].encode("utf-16")}),
    Case("a null byte in a text", STATS, ("q.jsonl:1", "null byte"), {"q.jsonl": GOOD_LINE.replace("tea", "t\0a")}),
    Case(
        "half of a surrogate pair in a text",
        RETRIEVE,
        ("p.jsonl:1", "surrogate"),
        {"p.jsonl": '{"id": "d1", "text": "broken \\ud83d smile"}\n'},
    ),
    Case(
        "a gzip file that was cut off",
        "data stats -q q.jsonl.gz",
        ("q.jsonl.gz", "damaged gzip"),
        {"q.jsonl.gz": gzip.compress(GOOD["q.jsonl"].encode())[:-20]},
    ),
    Case(
        "a gzip file with wrong bytes",
        "data stats -q q.jsonl.gz",
        ("q.jsonl.gz", "damaged gzip"),
        {"q.jsonl.gz": bytes(SWAPPED)},
    ),
    Case("an unknown ending", "data stats -q q.txt", ("q.txt", ".jsonl, .csv, .tsv"), {"q.txt": "Is it?"}),
    # ---- JSON
    Case("truncated JSON", STATS, ("q.jsonl:2", "not valid JSON"), {"q.jsonl": GOOD_LINE + GOOD_LINE[:40]}),
    Case("JSON nested 100000 deep", STATS, ("q.jsonl:1", "nested too deeply"), {"q.jsonl": "[" * 100_000}),
    Case("a number of 5000 digits", STATS, ("q.jsonl:1", "not valid JSON"), {"q.jsonl": '{"qid": ' + "9" * 5000 + "}"}),
    # ---- questions
    Case("perspectives a text", STATS, ("q.jsonl:2 [perspectives]", "list"), question(perspectives="Tea is.")),
    Case("a stance too few", STATS, ("q.jsonl:2 [stances]", "2 stances"), question(stances=["support"])),
    Case("a question id twice", STATS, ("q.jsonl", "'q1' occurs twice"), question(qid="q1")),
    Case(
        "questions without perspectives, to judge", JUDGE, ("q.jsonl [perspectives]", "'q2'"), question(perspectives=[])
    ),
    Case(
        "CSV with a row too wide",
        "data stats -q q.csv",
        ("q.csv:3", "3 columns", "2"),
        {"q.csv": "qid,question\na,A?\nb,B?,C\n"},
    ),
    Case("a split that the file does not have", f"{STATS} --split test", ("q.jsonl [split]", "'test'")),
    Case("a negative limit", f"{STATS} --limit -1", ("[limit]", "-1")),
    # ---- passages
    Case(
        "a docno twice", RETRIEVE, ("p.jsonl", "'d1' occurs twice"), {"p.jsonl": jsonl({"id": "d1", "text": "a"}) * 2}
    ),
    Case(
        "a docno with a blank, to a TREC file",
        RETRIEVE,
        ("[docno]", "blank"),
        {"p.jsonl": jsonl({"id": "my tea", "text": "tea"})},
    ),
    # ---- runs
    Case("a run of 5 columns", JUDGE, ("run.trec:2", "5 columns", "expected 6"), run_line("q1 Q0 d2 2 1.0")),
    Case("a score NaN", JUDGE, ("run.trec:2 [score]", "finite"), run_line("q1 Q0 d2 2 NaN x")),
    Case("a run with an unknown docno", JUDGE, ("run.trec", "'d9'", "corpus"), run_line("q1 Q0 d9 2 1.0 x")),
    Case("a run of other questions", EVALUATE, ("run.trec [qid]", "'q1'", "'z1'"), {"run.trec": "z1 Q0 d1 1 1.0 x\n"}),
    # ---- verdicts
    Case("p_yes = 1.7", EVALUATE, ("v.tsv:3 [p_yes]", "1.7"), verdict_line("q1\t1\td2\t1.7")),
    Case(
        "a verdict about a perspective that does not exist",
        EVALUATE,
        ("v.tsv", "'q1'", "2 perspectives", "7"),
        verdict_line("q1\t7\td2\t1"),
    ),
    Case(
        "qrels with a subtopic by name",
        f"{EVALUATE[:-5]}v.qrels",
        ("v.qrels:1 [subtopic]", "'pro'"),
        {"v.qrels": "q1 pro d1 1\n"},
    ),
    # ---- official files
    Case(
        "an official file without predictions",
        OUTPUTS,
        ("out.jsonl", "no recorded predictions", "-preds"),
        {"out.jsonl": jsonl({**QUESTION, "ctxs": [DOCUMENT]})},
    ),
    Case(
        "predictions doubled by a second run (B9)",
        OUTPUTS,
        ("out.jsonl:1 [m-preds]", "2 values"),
        {"out.jsonl": jsonl({**QUESTION, "ctxs": [DOCUMENT | {"m-preds": [1, 0, 1, 0]}]})},
    ),
    # ---- names and numbers in the command
    Case("k = 0", f"{RETRIEVE} -k 0", ("-k", "0 is not in the range x>=1"), exit=2),
    Case("k a word", f"{RETRIEVE} -k five", ("-k", "'five' is not a valid integer"), exit=2),
    Case(
        "an unknown retriever among two",
        "experiment -q q.jsonl -c p.jsonl -r bm25,minilmm -j overlap",
        ("retriever 'minilmm'", "Did you mean 'minilm'?"),
    ),
    Case(
        "an unknown judge", JUDGE.replace("-j overlap", "-j overlapp"), ("judge 'overlapp'", "Did you mean 'overlap'?")
    ),
    Case("an unknown measure", f"{EVALUATE} -m MRecal@5", ("measure 'MRecal'", "Did you mean 'MRecall'?")),
    Case("an unknown data set, its card", "data card arguanna", ("data set 'arguanna'", "Did you mean 'arguana'?")),
    Case(
        "gold for a file",
        "judge -q q.jsonl -c p.jsonl --run run.trec -o new.tsv",
        ("the judge 'gold' needs verdicts; this data set has none", "such as 'similarity'"),
    ),
    Case(
        "gold for a file, to evaluate",
        "evaluate -q q.jsonl --run run.trec",
        ("'q.jsonl' has no gold verdicts", "--verdicts FILE"),
    ),
    # ---- places
    Case(
        "an output below a file",
        RETRIEVE.replace("new.trec", "p.jsonl/new.trec"),
        ("p.jsonl/new.trec", "folder is a file"),
    ),
    Case("an output that is a folder", RETRIEVE, ("new.trec", "is a directory"), {"new.trec": FOLDER}, exit=2),
    Case("an output without space left", RETRIEVE.replace("new.trec", "/dev/full"), ("/dev/full", "No space left")),
    Case("verdicts to an unknown ending", JUDGE.replace("new.tsv", "new.json"), ("new.json", ".tsv")),
    Case(
        "BERDS_DATA pointing to nothing",
        "data card arguana",
        ("BERDS_DATA", "'nowhere'"),
        env={"BERDS_DATA": "nowhere"},
    ),
    Case(
        "a data set that is not here",
        "data stats -q theperspective",
        ("'theperspective'", "not on this machine", "BERDS_DATA is not set"),
    ),
    Case(
        "a verdict store that is no database",
        f"{JUDGE} --store s.db",
        ("s.db", "cannot be used as a verdict store"),
        {"s.db": "no database, but a text" * 50},
    ),
    Case("a verdict store of another make", f"{JUDGE} --store s.db", ("verdict store",), {"s.db": OTHER_DATABASE}),
    Case("a user cache that is a file", JUDGE, ("q.jsonl",), env={"BERDS_CACHE": "q.jsonl/cache"}),
    # ---- notebooks
    Case(
        "an unknown notebook parameter",
        "notebook run nb.ipynb -p retreiver bm25",
        ("parameter of nb 'retreiver'", "Did you mean 'retriever'?"),
    ),
    Case("a notebook parameter of the wrong type", "notebook run nb.ipynb -p k five", ("[k]", "must be int", "'five'")),
    Case(
        "a notebook that is no JSON",
        "notebook run nb.ipynb",
        ("nb.ipynb", "not a readable notebook"),
        {"nb.ipynb": "{"},
    ),
    Case(
        "a notebook with a computed parameter",
        "notebook run nb.ipynb",
        ("nb.ipynb:2", "plain literal"),
        {"nb.ipynb": notebook(parameters="k = 5\nn = k + 1")},
    ),
    # ---- labelled pairs
    Case(
        "labelled pairs of one class",
        "rate judge --data l.tsv",
        ("l.tsv [label]", "all labels are the same"),
        {"l.tsv": "question\tdocument\tperspective\tlabel\nQ?\tD\tP\t1\n"},
    ),
    Case(
        "a label that is none",
        "rate judge --data l.tsv",
        ("l.tsv:2 [label]", "'perhaps'"),
        {"l.tsv": "question\tdocument\tperspective\tlabel\nQ?\tD\tP\tperhaps\n"},
    ),
]


def arguments(case):
    """The words of a case's command."""
    return shlex.split(case.command)


def prepare(case, folder):
    """Put the files of a case into an empty folder."""
    for name, content in (GOOD | case.files).items():
        path = Path(folder) / name
        if content is FOLDER:
            path.mkdir()
        elif content is OTHER_DATABASE:
            with sqlite3.connect(path) as database:
                database.execute("CREATE TABLE verdict (other TEXT)")
        elif content is not GONE:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def environment(case, folder):
    """The variables of a case: the user's own data sets, cache and network settings are out of reach."""
    return {"BERDS_CACHE": str(Path(folder) / "cache"), "BERDS_DATA": None, "BERDS_HF_DIR": None, **case.env}
