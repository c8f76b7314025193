"""What is refused, in one table: sources, sheets, options and folders, each with where and why."""

import json

import pytest
from debater import Debater, write_arguments

import berdslib as bd
from berdslib.construction.build import FAILED, build, read_items
from berdslib.construction.debates import read_arguments, read_discussions
from berdslib.construction.opinionqa import read_survey
from berdslib.construction.review import (
    ANSWERS,
    SheetRow,
    disagreements,
    draw_sheet,
    read_sheet,
    read_sources,
    reviewer_agreement,
    write_sheet,
)
from berdslib.data.records import Question
from berdslib.data.tables import read_jsonl
from berdslib.errors import InputError


def arguments(*ids, text="Because."):
    return "".join(json.dumps({"_id": one, "text": text}) + "\n" for one in ids)


def survey(times=1, **row):
    return (json.dumps({"key": "a", "question": "Q?", **row}) + "\n") * times


HEADER = ",".join(SheetRow._fields)


@pytest.mark.parametrize(
    ("read", "name", "text", "message"),
    [
        (read_arguments, "a.jsonl", arguments("zoo-pro01c"), r"a\.jsonl:1 \[_id\].*does not end in"),
        (read_arguments, "a.jsonl", arguments("z1a", "z1a-point"), r":2 \[_id\]: side 'a' of 'z1' .* first in line 1"),
        (read_arguments, "a.jsonl", "", "holds no arguments"),
        (read_discussions, "a.txt", "Should it?\n1. It should.\n", r"a\.txt:1: an export begins with"),
        (read_discussions, "a.jsonl", '{"question": "A?", "statement": "B.", "answers": ["C"]}', r":1 \[answers\]"),
        (read_discussions, "a.jsonl", '{"id": 1, "question": "A?", "statement": "B."}\n' * 2, r":2 \[id\]: .* twice"),
        (read_survey, "a.jsonl", survey(), r"a\.jsonl:1: the options are missing"),
        (read_survey, "a.jsonl", survey(options="yes or no"), r":1 \[options\]: a list of texts"),
        (read_survey, "a.jsonl", survey(options="__import__('os').system('true')"), r"\[options\]: a list of texts"),
        (read_survey, "a.jsonl", survey(2, options=["Yes", "No"]), r":2 \[key\]: 'a' occurs twice, first in line 1"),
        (lambda path: read_items("arguana", path, sample=2), "a.jsonl", arguments("z1a", "z1b"), "a sample of 1 to 1"),
        (read_sources, "a.jsonl", '{"qid": "a", "sources": "One."}', r":1 \[sources\]: a list of non-blank texts"),
        (read_sheet, "s.tsv", HEADER, r"a sheet is a \.csv file"),
        (read_sheet, "s.csv", f"{HEADER}\n", "holds no items"),
        (read_sheet, "s.csv", f"{HEADER},mood\n{',' * 12}so\n", r"s\.csv:2 \[mood\]: 'so' is in no column of a sheet"),
    ],
)
def test_sources_and_sheets(tmp_path, read, name, text, message):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"none"', '"small"', r"s\.csv:3 \[severity\]: 'small' is no answer; accepted: none, minor, major, or nothing"),
        ('"b"', '"a"', r"s\.csv:3 \[qid\]: 'a' occurs twice, first in line 2"),
        ('"severity"', '"gravity"', r"s\.csv:1 \[severity\]: missing; a sheet has qid, data_set, sources"),
        ('"none"', '"none', r"s\.csv:3: not a readable table"),
        ('"yes","none","",""', '"yes","none"', r"s\.csv:3: 10 columns where the header has 12"),
        ('"none","",""', '"none","","","so"', r"s\.csv:3: 'so' is in no column of a sheet, and would be lost"),
    ],
)
def test_a_sheet_names_the_line_and_the_column(tmp_path, old, new, message):
    path, fine = tmp_path / "s.csv", ["none" if name == "severity" else "yes" for name in ANSWERS]
    write_sheet(path, [SheetRow("a", "s", "", "Q?", "P."), SheetRow("b", "s", "", "Q?", "P.", *fine)])
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_sheet(path)


MINE = [SheetRow("0", "ponds", "", "Q?", "A\nB", question_ok="yes")]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw_sheet([Question("a", "Why?", ("A.", "B."))], {}, n=0), "0 cannot be drawn"),
        (lambda: draw_sheet([Question("a", "Why?")], {}, n=1), "has no perspectives"),
        (lambda: write_sheet("s.tsv", MINE), r"a sheet is written as \.csv"),
        (lambda: reviewer_agreement(MINE, [MINE[0]._replace(qid="other")]), "no item in common; draw one sheet"),
        (lambda: disagreements(MINE, [MINE[0]._replace(question="changed")]), "'0' has another question or other"),
    ],
)
def test_calls(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize(
    "options",
    [
        {"dev": 1.0}, {"dev": float("nan")}, {"dev": "half"}, {"sample": 1.5}, {"sample": -1}, {"seed": -1},
        {"seed": "x"}, {"workers": 0}, {"language": 3}, {"licence": "\x1b[31m"}, {"source": "\udcff"}, {"name": 5},
    ],
)  # fmt: skip
def test_wrong_options_are_refused_before_anything_is_asked(tmp_path, options):
    model = Debater()
    with pytest.raises(InputError):
        build("arguana", write_arguments(tmp_path / "a.jsonl"), tmp_path / "set", model, **options)
    assert not model.asked
    assert not (tmp_path / "set").exists()


def test_a_build_writes_over_nothing_that_is_not_its_own(tmp_path):
    raw = tmp_path / "project" / "questions.jsonl"
    raw.parent.mkdir()
    raw.write_text('{"question": "Should zoos close?", "author": "Ada"}\n')
    for folder in (raw.parent, raw, tmp_path):
        with pytest.raises(InputError, match="a folder of its own"):
            build("questions", raw, folder)
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "corpus.jsonl").write_text("My thesis")
    with pytest.raises(InputError) as refused:
        build("questions", raw, other)
    assert refused.value.path == other
    assert (other / "corpus.jsonl").read_text() == "My thesis" and [p.name for p in raw.parent.iterdir()] == [raw.name]
    build("questions", raw, tmp_path / "set")
    with pytest.raises(InputError, match=r"made from questions\.jsonl by questions; name another folder"):
        build("arguana", write_arguments(tmp_path / "a.jsonl"), tmp_path / "set", Debater())


def test_nothing_left_is_an_error_that_says_why(tmp_path):
    (tmp_path / "my.txt").write_text("What is best?\n")
    with pytest.raises(InputError, match=r"nothing is left of 1 items: 1 were left out"):
        bd.build("questions", tmp_path / "my.txt", tmp_path / "set")
    assert next(read_jsonl(tmp_path / "set" / FAILED))[1]["reason"] == "no rule"
    with pytest.raises(bd.MissingDataError, match="table-8"):
        build("arguana", write_arguments(tmp_path / "a.jsonl"), tmp_path / "b", Debater(), wording="published")
