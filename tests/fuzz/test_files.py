"""Every command against damaged files: done, or refused in words; no traceback, no changed input, no file elsewhere."""

import gzip
import json
import random
import re
import shlex
import tempfile
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from fuzz.hostile import MINUTES, PIECES, VALUES, fuzzed
from hypothesis import strategies as st

from berdslib.cli import main

QUESTION = {
    "qid": "q1",
    "question": "Is tea better than coffee?",
    "perspectives": ["Tea is better.", "Coffee is better."],
}
CTXS = [{"title": "Tea", "text": "Tea is better.", "m-preds": [1, 0]}, {"text": "Coffee wakes us.", "m-preds": [0, 1]}]


def lines(*rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def notebook(source):
    cell = {"cell_type": "code", "outputs": [], "execution_count": None}
    cells = [
        cell | {"metadata": {"tags": ["parameters"]}, "source": source, "id": "a"},
        cell | {"metadata": {}, "source": "k, name", "id": "b"},
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})


CARD = {"format": "berdslib-dataset-1", "name": "mine", "title": "Mine", "corpus": True, "gold": True}
SHEET = (
    '"qid","data_set","sources","question","perspectives","belongs","question_ok","perspectives_ok","contradict",'
    '"severity","note","reviewer"\n'
    '"q1","q","a\nb","Is tea better?","Tea is.\nCoffee is.","yes","yes","no","yes","minor","","ann"\n'
    '"q2","q","a","Is it late?","Yes.\nNo.","yes","yes","yes","yes","","=1+1","ann"\n'
)
GOOD = {
    "q.jsonl": lines(QUESTION, {**QUESTION, "qid": "q2", "question": "Are mornings better than evenings?"}),
    "q.csv": 'qid,question,perspectives\nq1,Is tea better?,"[""Tea is."", ""Coffee is.""]"\n',
    "p.jsonl": lines({"id": "d1", "title": "Tea", "text": "Tea is better."}, {"id": "d2", "text": "Coffee wakes us."}),
    "p.tsv": "id\ttext\ttitle\nd1\tTea is better.\tTea\nd2\tCoffee wakes us.\t\n",
    "run.trec": "q1 Q0 d1 1 2.0 x\nq1 Q0 d2 2 1.0 x\nq2 Q0 d2 1 1.0 x\n",
    "other.trec": "q1 Q0 d2 1 2.0 y\nq2 Q0 d1 1 1.0 y\n",
    "v.tsv": "qid\tpid\tdocno\tp_yes\nq1\t0\td1\t1\nq1\t1\td2\t0.8\nq2\t0\td1\t0\n",
    "told.tsv": "qid\tpid\tstance\nq1\t0\tsupport\nq2\t1\toppose\n",
    "qrels": "q1 1 d1 1\nq1 2 d2 1\nq2 1 d1 1\n",
    "out.jsonl": lines({**QUESTION, "ctxs": CTXS}),
    "labels.tsv": "question\tdocument\tperspective\tlabel\nQ?\tTea is good.\tTea is.\t1\nR?\tNo tea.\tTea is.\t0\n",
    "my.txt": "Should zoos close?\nShould trams be free?\n",
    "answers.jsonl": "",
    "beir/corpus.jsonl": lines({"_id": "d1", "text": "Tea is better."}, {"_id": "d2", "text": "Coffee."}),
    "beir/queries.jsonl": lines({"_id": "q1", "text": "Is tea better?"}),
    "beir/qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
    "own/dataset.json": json.dumps(CARD),
    "own/questions.jsonl": lines(QUESTION),
    "own/corpus.jsonl": lines({"_id": "d1", "title": "", "text": "Tea is better."}),
    "own/gold.tsv": "qid\tpid\tdocno\tp_yes\tsupports\tjudge\nq1\t0\td1\t1.0\t1\thand\n",
    "ann.csv": SHEET,
    "bob.csv": SHEET.replace("ann", "bob").replace('"no"', '"yes"'),
    "grid.yaml": "notebook: nb.ipynb\nfixed: {name: x}\ngrid: {k: [1, 2]}\n",
    "nb.ipynb": notebook('k = 1  # how many\nname = "x"  # a name\n'),
}
COMMANDS = {  # what each reads of these; the last is where it may write
    "data stats -q q.jsonl": "q.jsonl",
    "data stats -q q.csv": "q.csv",
    "data stats -q beir": "beir/corpus.jsonl beir/queries.jsonl beir/qrels/test.tsv",
    "data leaks -q q.jsonl": "q.jsonl",
    "data export new -q q.jsonl -c p.jsonl --gold v.tsv --layout beir": "q.jsonl p.jsonl v.tsv",
    "data export new -c p.tsv": "p.tsv",
    "retrieve -q q.jsonl -c p.jsonl -o new": "q.jsonl p.jsonl",
    "retrieve -q q.jsonl -c p.tsv -r bm25+mmr:0.5 -o new": "q.jsonl p.tsv",
    "judge -q q.jsonl -c p.jsonl --run run.trec -j overlap -o new.tsv": "q.jsonl p.jsonl run.trec",
    "evaluate -q q.jsonl --run run.trec --verdicts v.tsv": "q.jsonl run.trec v.tsv",
    "evaluate -q q.jsonl --run run.trec --verdicts qrels": "q.jsonl run.trec qrels",
    "evaluate out.jsonl": "out.jsonl",
    "experiment -q q.jsonl --gold qrels --run a=run.trec --run b=other.trec": "q.jsonl qrels run.trec other.trec",
    "experiment -q q.jsonl -c p.jsonl -r bm25 -j overlap": "q.jsonl p.jsonl",
    "sides -q q.jsonl -c p.jsonl -r bm25 -j overlap --stances 'by order'": "q.jsonl p.jsonl",
    "sides -q q.jsonl -c p.jsonl -r bm25 -j overlap --stances told.tsv": "told.tsv",
    "rate judge --data labels.tsv -j overlap": "labels.tsv",
    "rate pairs -q q.jsonl -c p.jsonl --run run.trec -o new": "q.jsonl p.jsonl run.trec",
    "rate questions q.jsonl -n 1 -o new.csv": "q.jsonl",
    "build questions my.txt new": "my.txt",
    "explore -q q.jsonl -c p.jsonl -r bm25,rank-bm25 -j overlap -o new.html": "q.jsonl p.jsonl",
    "grid status grid.yaml": "grid.yaml nb.ipynb",
    "experiment -q own -r bm25": "own/dataset.json own/questions.jsonl own/corpus.jsonl own/gold.tsv",
    "rate summary ann.csv bob.csv": "ann.csv bob.csv",
    "rate summary ann.csv": "ann.csv",
    "notebook run nb.ipynb -p k 2 -o new --no-show": "nb.ipynb",
    "table 3": "",
}  # fmt: skip


SLOW = ("notebook run", "explore")  # a kernel, a browser's page: tried by `make fuzz` alone


@st.composite
def damages(draw):
    """A command, one of its files, and a function that damages the bytes of that file."""
    command = draw(st.sampled_from([c for c in COMMANDS if COMMANDS[c] and (MINUTES or not c.startswith(SLOW))]))
    file, how = draw(st.sampled_from(COMMANDS[command].split())), draw(st.sampled_from([*DAMAGES]))
    return command, file, how, draw(PIECES), draw(VALUES), draw(st.integers(0, 10**6))


def _cell(content, rng, piece, value):
    """Put something else in the place of one value of a JSON file, or of one word of another file."""
    rows = content.decode().splitlines(keepends=True)
    at = rng.randrange(len(rows))
    try:
        row = json.loads(rows[at])
        place, keys = row, []
        while isinstance(place, dict | list) and place and rng.random() < 0.8:
            keys.append((place, rng.choice([*place] if isinstance(place, dict) else range(len(place)))))
            place = place[keys[-1][1]]
        if keys:
            keys[-1][0][keys[-1][1]] = value
        rows[at] = json.dumps(row, default=repr) + "\n"
    except ValueError:
        words = re.split(r"(\t|,| |\n)", rows[at])
        words[rng.randrange(len(words))] = piece
        rows[at] = "".join(words)
    return "".join(rows).encode("utf-8", "surrogatepass")


def _lines(content, rng, piece, value):
    """Repeat, drop, swap or add lines."""
    rows = content.splitlines(keepends=True)
    rows += rng.choice([rows[-1:], [piece.encode("utf-8", "surrogatepass") + b"\n"], rows])
    return b"".join(rng.sample(rows, rng.randrange(1, len(rows) + 1)))


DAMAGES = {
    "cut": lambda c, rng, piece, value: c[: rng.randrange(len(c) + 1)],
    "flipped": lambda c, rng, piece, value: _flipped(c, rng),
    "inserted": lambda c, rng, piece, value: (
        (at := rng.randrange(len(c) + 1), b"")[1] + c[:at] + piece.encode("utf-8", "surrogatepass") + c[at:]
    ),
    "utf-16": lambda c, rng, piece, value: c.decode().encode("utf-16"),
    "latin-1": lambda c, rng, piece, value: c.replace(b"e", "é".encode("latin-1")),
    "bom and crlf": lambda c, rng, piece, value: b"\xef\xbb\xbf" + c.replace(b"\n", b"\r\n"),
    "zeros": lambda c, rng, piece, value: bytes(len(c)),
    "gzip": lambda c, rng, piece, value: gzip.compress(c)[: rng.choice([None, 10, 30])],
    "long": lambda c, rng, piece, value: c.replace(b"Tea", b"Tea " * 20_000),
    "number": lambda c, rng, piece, value: re.sub(rb"\b[12]\b", b"1" * 40, c),
    "cell": _cell,
    "cell again": _cell,
    "lines": _lines,
}


def _flipped(content, rng):
    changed = bytearray(content)
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def in_folder(folder, command, change=lambda name, content: content):
    """Run a command among the good files, some of them changed; return how it ended, and what it left."""
    work, cache = folder / "work", folder / "cache"
    for name, content in GOOD.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(change(name, content.encode()))
    before = {p: p.read_bytes() for p in work.rglob("*") if p.is_file()}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(work)
        patch.setenv("BERDS_CACHE", str(cache))
        patch.delenv("BERDS_DATA", raising=False)
        done = CliRunner().invoke(main, shlex.split(command), prog_name="berds")
    after = {p: p.read_bytes() for p in work.rglob("*") if p.is_file()}
    assert all(after.get(p) == content for p, content in before.items()), "an input was changed"
    new = {p.relative_to(work).parts[0] for p in after.keys() - before.keys()}
    return done, new, {p.name for p in folder.iterdir()}


def checked(command, done, new, beside):
    """What holds however a command ends; return how it ended."""
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert "Traceback" not in done.output and not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202e]", done.output)
    assert done.exit_code in (0, 1, 2) and (done.exit_code == 0 or done.output.strip())
    wanted = (
        {"new", "new.html", "new.tsv", "new.csv", "new.qrels", "new.ir_metadata.yaml", "papermill_runs"}
        if "new" in command or "notebook" in command
        else set()
    )
    assert new - {".lock-new"} <= wanted and beside <= {"work", "cache"}, (new, beside)
    return "done" if done.exit_code == 0 else "refused"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.slow
def test_the_good_files_are_good(command, tmp_path):
    """A template that a command refuses would make all that follows worthless."""
    done, new, beside = in_folder(tmp_path, command)
    assert done.exit_code == 0, done.output
    assert checked(command, done, new, beside) == "done"


@fuzzed("damaged files", damages(), examples=40)
def test_damaged_files(case):
    """A damaged file is read for what it still says, or refused in words, by every command that reads it."""
    command, file, how, piece, value, seed = case
    rng, started = random.Random(seed), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        change = lambda name, c: DAMAGES[how](c, rng, piece, value) if name == file else c  # noqa: E731
        done, new, beside = in_folder(Path(folder), command, change)
    ended = checked(command, done, new, beside)
    assert time.monotonic() - started < 60, "it took a minute"
    return f"{command[:30].rsplit(' ', 1)[0]}: {ended}"
