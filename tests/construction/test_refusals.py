"""What is refused, in one table: sources, sheets, options and folders, each with where and why."""

import json

import pytest
from debater import Debater, write_arguments

import berdslib as bd
from berdslib.construction.build import FAILED_FILE, build, read_items
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
    ("read", "name", "text", "line", "field"),
    [
        (read_arguments, "a.jsonl", arguments("zoo-pro01c"), 1, "_id"),
        (read_arguments, "a.jsonl", arguments("z1a", "z1a-point"), 2, "_id"),
        (read_arguments, "a.jsonl", "", None, None),
        (read_discussions, "a.txt", "Should it?\n1. It should.\n", 1, None),
        (read_discussions, "a.jsonl", '{"question": "A?", "statement": "B.", "answers": ["C"]}', 1, "answers"),
        (read_discussions, "a.jsonl", '{"id": 1, "question": "A?", "statement": "B."}\n' * 2, 2, "id"),
        (read_survey, "a.jsonl", survey(), 1, "references"),
        (read_survey, "a.jsonl", survey(options="yes or no"), 1, "options"),
        (read_survey, "a.jsonl", survey(options="__import__('os').system('true')"), 1, "options"),
        (read_survey, "a.jsonl", survey(2, options=["Yes", "No"]), 2, "key"),
        (lambda path: read_items("arguana", path, sample=2), "a.jsonl", arguments("z1a", "z1b"), None, None),
        (read_sources, "a.jsonl", '{"qid": "a", "sources": "One."}', 1, "sources"),
        (read_sheet, "s.csv", f"{HEADER}\n", None, None),
        (read_sheet, "s.csv", f"{HEADER},mood\n{',' * 12}so\n", 1, "mood"),
    ],
)
def test_sources_and_sheets(tmp_path, read, name, text, line, field):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read(tmp_path / name)
    assert (refused.value.path, refused.value.line, refused.value.field) == (tmp_path / name, line, field)


@pytest.mark.parametrize(
    ("old", "new", "line", "field"),
    [
        ('"none"', '"small"', 3, "severity"),
        ('"b"', '"a"', 3, "qid"),
        ('"b"', '" "', 3, "qid"),
        ('"severity"', '"gravity"', 1, "gravity"),
        ('"none"', '"none', 3, None),
        ('"yes","none","",""', '"yes","none"', 3, None),
        ('"none","",""', '"none","","","so"', 3, None),
    ],
)
def test_a_sheet_names_the_line_and_the_column(tmp_path, old, new, line, field):
    path = tmp_path / "s.csv"
    fine = ["none" if name == "severity" else "yes" for name in ANSWERS]
    write_sheet(path, [SheetRow("a", "s", "", "Q?", "P."), SheetRow("b", "s", "", "Q?", "P.", *fine)])
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read_sheet(path)
    assert (refused.value.path, refused.value.line, refused.value.field) == (path, line, field)


MINE = [SheetRow("0", "ponds", "", "Q?", "A\nB", question_ok="yes")]


@pytest.mark.parametrize(
    "call",
    [
        lambda: draw_sheet([Question("a", "Why?", ("A.", "B."))], {}, n=0),
        lambda: draw_sheet([Question("a", "Why?")], {}, n=1),
        lambda: write_sheet("s.tsv", MINE),
        lambda: reviewer_agreement(MINE, [MINE[0]._replace(qid="other")]),
        lambda: disagreements(MINE, [MINE[0]._replace(question="changed")]),
    ],
)
def test_calls(call):
    with pytest.raises(InputError):
        call()


@pytest.mark.parametrize("options", [{"dev": 1.0}, {"dev": float("nan")}, {"sample": -1}, {"workers": 0}])
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
        with pytest.raises(InputError) as refused:
            build("questions", raw, folder)
        assert refused.value.path == folder
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "corpus.jsonl").write_text("My thesis")
    with pytest.raises(InputError) as refused:
        build("questions", raw, other)
    assert refused.value.path == other
    assert (other / "corpus.jsonl").read_text() == "My thesis" and [p.name for p in raw.parent.iterdir()] == [raw.name]
    build("questions", raw, tmp_path / "set")
    with pytest.raises(InputError) as refused:
        build("arguana", write_arguments(tmp_path / "a.jsonl"), tmp_path / "set", Debater())
    assert refused.value.path == tmp_path / "set"


def test_nothing_left_is_an_error_that_says_why(tmp_path):
    (tmp_path / "my.txt").write_text("What is best?\n")
    with pytest.raises(InputError):
        bd.build("questions", tmp_path / "my.txt", tmp_path / "set")
    assert next(read_jsonl(tmp_path / "set" / FAILED_FILE))[1]["reason"] == "no rule"
    with pytest.raises(bd.MissingDataError, match="table-8"):
        build("arguana", write_arguments(tmp_path / "a.jsonl"), tmp_path / "b", Debater(), wording="published")
