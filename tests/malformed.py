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
    Case("a missing passage file", RETRIEVE.replace("p.jsonl", "none.tsv"), ("none.tsv", "no such file")),
    Case("a missing run", JUDGE, ("run.trec", "no such file"), {"run.trec": GONE}),
    Case("a folder instead of questions", STATS, ("q.jsonl", "is a folder"), {"q.jsonl": FOLDER}),
    Case("a folder instead of a run", JUDGE, ("run.trec", "is a folder"), {"run.trec": FOLDER}),
    Case("a folder that is no BEIR folder", RETRIEVE, ("p.jsonl", "needs corpus.jsonl"), {"p.jsonl": FOLDER}),
    Case("an empty questions file", STATS, ("q.jsonl", "holds no questions"), {"q.jsonl": ""}),
    Case("an empty passage file", RETRIEVE, ("p.jsonl", "holds no passages"), {"p.jsonl": ""}),
    Case("an empty run", JUDGE, ("run.trec", "is empty"), {"run.trec": ""}),
    Case("an empty verdict file", EVALUATE, ("v.tsv", "is empty", "header"), {"v.tsv": ""}),
    Case("verdicts with a header only", EVALUATE, ("v.tsv", "holds no verdicts"), {"v.tsv": VERDICTS}),
    Case("only blank lines", STATS, ("q.jsonl", "holds no questions"), {"q.jsonl": "\n \n\t\n"}),
    Case("only blank lines in a run", JUDGE, ("run.trec", "is empty"), {"run.trec": "\n\n"}),
    Case(
        "Latin-1 text in line 2",
        STATS,
        ("q.jsonl:2", "not UTF-8"),
        {"q.jsonl": GOOD_LINE.encode() + '{"question": "Café?"}\n'.encode("latin-1")},
    ),
    Case("UTF-16 text", STATS, ("q.jsonl:1", "not UTF-8"), {"q.jsonl": GOOD["q.jsonl"].encode("utf-16")}),
    Case(
        "UTF-16 text without a mark",
        JUDGE,
        ("run.trec:1", "null byte"),
        {"run.trec": GOOD["run.trec"].encode("utf-16-le")},
    ),
    Case("a null byte in a text", STATS, ("q.jsonl:1", "null byte"), {"q.jsonl": GOOD_LINE.replace("tea", "t\0a")}),
    Case("a null byte in a CSV cell", "data stats -q q.csv", ("q.csv:2", "null byte"), {"q.csv": "question\nt\0a?\n"}),
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
    Case(
        "a gzip file with a wrong checksum",
        "data stats -q q.jsonl.gz",
        ("q.jsonl.gz", "damaged gzip"),
        {"q.jsonl.gz": gzip.compress(GOOD["q.jsonl"].encode())[:-8] + bytes(8)},
    ),
    Case("an unknown ending", "data stats -q q.txt", ("q.txt", ".jsonl, .csv, .tsv"), {"q.txt": "Is it?"}),
    # ---- JSON
    Case("truncated JSON", STATS, ("q.jsonl:2", "not valid JSON"), {"q.jsonl": GOOD_LINE + GOOD_LINE[:40]}),
    Case("a JSON array", STATS, ("q.jsonl:1", "JSON object", "list"), {"q.jsonl": f"[{GOOD_LINE.strip()}]\n"}),
    Case("a JSON number", STATS, ("q.jsonl:2", "JSON object", "int"), {"q.jsonl": GOOD_LINE + "42\n"}),
    Case(
        "JSON over several lines", STATS, ("q.jsonl:1", "not valid JSON"), {"q.jsonl": json.dumps(QUESTION, indent=1)}
    ),
    Case("JSON nested 100000 deep", STATS, ("q.jsonl:1", "nested too deeply"), {"q.jsonl": "[" * 100_000}),
    Case("a number of 5000 digits", STATS, ("q.jsonl:1", "not valid JSON"), {"q.jsonl": '{"qid": ' + "9" * 5000 + "}"}),
    # ---- questions
    Case("perspectives a text", STATS, ("q.jsonl:2 [perspectives]", "list"), question(perspectives="Tea is.")),
    Case("perspectives a number", STATS, ("q.jsonl:2 [perspectives]", "list"), question(perspectives=2)),
    Case("perspectives of numbers", STATS, ("q.jsonl:2 [perspectives]", "list"), question(perspectives=[1, 2])),
    Case("a blank perspective", STATS, ("q.jsonl:2 [perspectives]", "non-blank"), question(perspectives=["Yes.", " "])),
    Case("a stance too few", STATS, ("q.jsonl:2 [stances]", "2 stances"), question(stances=["support"])),
    Case("an unknown stance", STATS, ("q.jsonl:2 [stances]", '"oppose"'), question(stances=["pro", "con"])),
    Case("a question id that is true", STATS, ("q.jsonl:2 [qid]", "not bool"), question(qid=True)),
    Case("a blank question id", STATS, ("q.jsonl:2 [qid]", "blank"), question(qid=" ")),
    Case("a question id twice", STATS, ("q.jsonl", "'q1' occurs twice"), question(qid="q1")),
    Case("no question text", STATS, ("q.jsonl:2 [question]", "missing", "perspectives"), question(question=None)),
    Case("an empty question text", STATS, ("q.jsonl:2 [question]", "blank"), question(question="")),
    Case("a question text that is a list", STATS, ("q.jsonl:2 [question]", "not list"), question(question=["Is it?"])),
    Case(
        "questions without perspectives",
        EVALUATE,
        ("q.jsonl [perspectives]", "'q2'", "no perspectives"),
        question(perspectives=None),
    ),
    Case(
        "questions without perspectives, to judge", JUDGE, ("q.jsonl [perspectives]", "'q2'"), question(perspectives=[])
    ),
    Case(
        "CSV with a row too wide",
        "data stats -q q.csv",
        ("q.csv:3", "3 columns", "2"),
        {"q.csv": "qid,question\na,A?\nb,B?,C\n"},
    ),
    Case(
        "CSV with a column twice", "data stats -q q.csv", ("q.csv:1", "twice"), {"q.csv": "question,question\nA?,B?\n"}
    ),
    Case(
        "CSV with a quotation mark left open",
        "data stats -q q.csv",
        ("q.csv:3", "not a readable table"),
        {"q.csv": 'qid,question\na,A?\nb,"B?\nc,C?\n'},
    ),
    Case(
        "CSV without perspectives as JSON",
        "data stats -q q.csv",
        ("q.csv:2 [perspectives]", "list"),
        {"q.csv": "question,perspectives\nA?,yes; no\n"},
    ),
    Case("a split that the file does not have", f"{STATS} --split test", ("q.jsonl [split]", "'test'")),
    Case("a negative limit", f"{STATS} --limit -1", ("[limit]", "-1")),
    # ---- passages
    Case(
        "a docno twice", RETRIEVE, ("p.jsonl", "'d1' occurs twice"), {"p.jsonl": jsonl({"id": "d1", "text": "a"}) * 2}
    ),
    Case("a passage without text", RETRIEVE, ("p.jsonl:1 [text]", "missing"), {"p.jsonl": jsonl({"id": "d1"})}),
    Case(
        "a passage text that is a list",
        RETRIEVE,
        ("p.jsonl:1 [text]", "not list"),
        {"p.jsonl": jsonl({"id": 1, "text": ["a"]})},
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
    Case("a score inf", JUDGE, ("run.trec:2 [score]", "finite"), run_line("q1 Q0 d2 2 inf x")),
    Case("a score of 1e300", JUDGE, ("run.trec [score]", "finite", "'d2'"), run_line("q1 Q0 d2 2 1e300 x")),
    Case(
        "a score that is a word", JUDGE, ("run.trec:2 [score]", "'high' is not a number"), run_line("q1 Q0 d2 2 high x")
    ),
    Case("a passage listed twice", JUDGE, ("run.trec", "'d1' is listed twice", "'q1'"), run_line("q1 Q0 d1 2 1.0 x")),
    Case("a run with an unknown docno", JUDGE, ("run.trec", "'d9'", "corpus"), run_line("q1 Q0 d9 2 1.0 x")),
    Case("a run of other questions", EVALUATE, ("run.trec [qid]", "'q1'", "'z1'"), {"run.trec": "z1 Q0 d1 1 1.0 x\n"}),
    # ---- verdicts
    Case("p_yes = 1.7", EVALUATE, ("v.tsv:3 [p_yes]", "1.7"), verdict_line("q1\t1\td2\t1.7")),
    Case("p_yes = NaN", EVALUATE, ("v.tsv:3 [p_yes]", "nan"), verdict_line("q1\t1\td2\tNaN")),
    Case("p_yes a word", EVALUATE, ("v.tsv:3 [p_yes]", "'perhaps'"), verdict_line("q1\t1\td2\tperhaps")),
    Case("a verdict twice", EVALUATE, ("v.tsv", "two verdicts", "d1"), verdict_line("q1\t0\td1\t0.2")),
    Case(
        "a verdict about a perspective that does not exist",
        EVALUATE,
        ("v.tsv", "'q1'", "2 perspectives", "7"),
        verdict_line("q1\t7\td2\t1"),
    ),
    Case("a perspective number -1", EVALUATE, ("v.tsv:3 [pid]", "-1"), verdict_line("q1\t-1\td2\t1")),
    Case("a perspective number 0.5", EVALUATE, ("v.tsv:3 [pid]", "0.5"), verdict_line("q1\t0.5\td2\t1")),
    Case(
        "a verdict table without p_yes",
        EVALUATE,
        ("v.tsv:2 [p_yes or supports]", "missing"),
        {"v.tsv": "qid\tpid\tdocno\nq1\t0\td1\n"},
    ),
    Case("a verdict without docno", EVALUATE, ("v.tsv:3 [docno]", "blank"), verdict_line("q1\t0\t\t1")),
    Case(
        "qrels of 3 columns",
        f"{EVALUATE[:-5]}v.qrels",
        ("v.qrels:1", "3 columns", "expected 4"),
        {"v.qrels": "q1 0 d1\n"},
    ),
    Case(
        "qrels with a subtopic by name",
        f"{EVALUATE[:-5]}v.qrels",
        ("v.qrels:1 [subtopic]", "'pro'"),
        {"v.qrels": "q1 pro d1 1\n"},
    ),
    Case(
        "qrels with a subtopic of 20 digits",
        f"{EVALUATE[:-5]}v.qrels",
        ("v.qrels:1 [subtopic]",),
        {"v.qrels": f"q1 {'9' * 20} d1 1\n"},
    ),
    # ---- official files
    Case(
        "an official file without predictions",
        OUTPUTS,
        ("out.jsonl", "no recorded predictions", "-preds"),
        {"out.jsonl": jsonl({**QUESTION, "ctxs": [DOCUMENT]})},
    ),
    Case("predictions of another name", f"{OUTPUTS} --predictions gpt4-preds", ("out.jsonl:1 [gpt4-preds]", "no such")),
    Case(
        "predictions doubled by a second run (B9)",
        OUTPUTS,
        ("out.jsonl:1 [m-preds]", "2 values"),
        {"out.jsonl": jsonl({**QUESTION, "ctxs": [DOCUMENT | {"m-preds": [1, 0, 1, 0]}]})},
    ),
    Case(
        "predictions of 1.2",
        OUTPUTS,
        ("out.jsonl:1 [m-preds]", "1.2"),
        {"out.jsonl": jsonl({**QUESTION, "ctxs": [DOCUMENT | {"m-preds": [1.2, 0]}]})},
    ),
    Case(
        "an official file without documents",
        OUTPUTS,
        ("out.jsonl:1 [ctxs]", "list of documents"),
        {"out.jsonl": jsonl({**QUESTION, "m-preds": []})},
    ),
    Case(
        "an official file without perspectives",
        OUTPUTS,
        ("out.jsonl:1 [perspectives]", "missing"),
        {"out.jsonl": jsonl({"question": "Is it?", "ctxs": [], "m-preds": []})},
    ),
    # ---- names and numbers in the command
    Case("k = 0", f"{RETRIEVE} -k 0", ("-k", "0 is not in the range x>=1"), exit=2),
    Case("a negative k", f"{JUDGE} -k -3", ("-k", "-3 is not in the range"), exit=2),
    Case("k a word", f"{RETRIEVE} -k five", ("-k", "'five' is not a valid integer"), exit=2),
    Case("an unknown retriever", f"{RETRIEVE} -r bm52", ("retriever 'bm52'", "Did you mean 'bm25'?")),
    Case(
        "an unknown retriever among two",
        "experiment -q q.jsonl -c p.jsonl -r bm25,minilmm -j overlap",
        ("retriever 'minilmm'", "Did you mean 'minilm'?"),
    ),
    Case(
        "an unknown judge", JUDGE.replace("-j overlap", "-j overlapp"), ("judge 'overlapp'", "Did you mean 'overlap'?")
    ),
    Case("an unknown measure", f"{EVALUATE} -m MRecal@5", ("measure 'MRecal'", "Did you mean 'MRecall'?")),
    Case("an unknown data set", "retrieve -q smaple -o new.trec", ("data set 'smaple'", "Did you mean 'sample'?")),
    Case("an unknown data set, its card", "data card arguanna", ("data set 'arguanna'", "Did you mean 'arguana'?")),
    Case("an unknown baseline", f"{EXPERIMENT} --baseline bm52", ("baseline 'bm52'", "Did you mean 'bm25'?")),
    Case("an unknown split", f"{STATS} --split train", ("--split", "'train'", "dev"), exit=2),
    Case("an unknown command", "retreive", ("No such command 'retreive'",), exit=2),
    Case("an unknown option", f"{RETRIEVE} --deep 5", ("No such option", "--deep"), exit=2),
    Case("a measure without cut-off", f"{EXPERIMENT} -m MRecall", ("MRecall needs a cut-off", "MRecall@5")),
    Case("a measure with cut-off 0", f"{EVALUATE} -m MRecall@0", ("'MRecall@0'", "whole number from 1")),
    Case("a measure with a cut-off in words", f"{EVALUATE} -m Precision@five", ("'Precision@five'", "whole number")),
    Case("a measure with an unknown parameter", f"{EVALUATE} -m 'alpha_nDCG(beta=1)@5'", ("alpha_nDCG", "beta")),
    Case("no measure", f"{EVALUATE} -m ,", ("[measures]", "at least one measure")),
    Case("no question set", "data stats", ("Missing option", "--questions"), exit=2),
    Case("neither a run nor an official file", "evaluate -q q.jsonl", ("BeRDS JSONL", "--run"), exit=2),
    Case("a run without questions", "evaluate --run run.trec", ("--run needs --questions",), exit=2),
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
    Case("two question sets and no corpus", "retrieve -q q.jsonl,sample -o new.trec", ("--corpus",)),
    Case("a corpus that is no corpus", "retrieve -q q.jsonl -c arguana -o new.trec", ("'arguana'", "theperspective")),
    # ---- places
    Case(
        "an output below a file",
        RETRIEVE.replace("new.trec", "p.jsonl/new.trec"),
        ("p.jsonl/new.trec", "folder is a file"),
    ),
    Case("an output that is a folder", RETRIEVE, ("new.trec", "is a directory"), {"new.trec": FOLDER}, exit=2),
    Case(
        "an output on a file system that takes none",
        RETRIEVE.replace("new.trec", "/proc/new.trec"),
        ("/proc/new.trec", "cannot be written"),
    ),
    Case("an output without space left", RETRIEVE.replace("new.trec", "/dev/full"), ("/dev/full", "No space left")),
    Case("verdicts to an unknown ending", JUDGE.replace("new.tsv", "new.json"), ("new.json", ".tsv")),
    Case(
        "BERDS_DATA pointing to nothing",
        "data card arguana",
        ("BERDS_DATA", "'nowhere'"),
        env={"BERDS_DATA": "nowhere"},
    ),
    Case(
        "BERDS_DATA naming a file",
        "data stats -q theperspective",
        ("BERDS_DATA", "'q.jsonl'"),
        env={"BERDS_DATA": "q.jsonl"},
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
        "an unknown notebook", "notebook run 00_quikstart", ("notebook '00_quikstart'", "Did you mean '00_quickstart'?")
    ),
    Case(
        "an unknown notebook parameter",
        "notebook run nb.ipynb -p retreiver bm25",
        ("parameter of nb 'retreiver'", "Did you mean 'retriever'?"),
    ),
    Case("a notebook parameter of the wrong type", "notebook run nb.ipynb -p k five", ("[k]", "must be int", "'five'")),
    Case("a notebook parameter without value", "notebook run nb.ipynb -p k", ("-p", "2 arguments"), exit=2),
    Case(
        "a notebook that is no JSON",
        "notebook run nb.ipynb",
        ("nb.ipynb", "not a readable notebook"),
        {"nb.ipynb": "{"},
    ),
    Case(
        "a notebook without parameters",
        "notebook run nb.ipynb",
        ("nb.ipynb", "0 cells are tagged"),
        {"nb.ipynb": '{"cells": []}'},
    ),
    Case(
        "a notebook with a computed parameter",
        "notebook run nb.ipynb",
        ("nb.ipynb:2", "plain literal"),
        {"nb.ipynb": notebook(parameters="k = 5\nn = k + 1")},
    ),
    Case(
        "a notebook parameter with a list as a key",
        "notebook run nb.ipynb",
        ("nb.ipynb:2", "plain literal"),
        {"nb.ipynb": notebook(parameters="k = 5\nx = {[]: 1}")},
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
