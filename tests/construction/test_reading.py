"""Answers as models write them: what is read, and what is refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berdslib.construction.reading import LONGEST, choice, fields, lines, one_line
from berdslib.errors import InputError

YES_NO = {"yes": ["statement", "positive statement"], "no": ["negation", "negative statement"]}


READ = {
    "one line": lambda answer: one_line(answer, ["question"]),
    "fields": lambda answer: fields(answer, YES_NO),
    "lines": lambda answer: lines(answer, ["statement"]),
    "choice": lambda answer: choice(answer, {"a": ["1", "perspective 1"], "b": ["2", "perspective 2"]}),
}


def test_answers_in_many_forms():
    """Rows of answers.jsonl: how an answer is read, the answer, and what is read, null where it is refused."""
    for line in (Path(__file__).parent / "answers.jsonl").read_text(encoding="utf-8").splitlines():
        how, answer, expected = json.loads(line)
        if expected is None:
            with pytest.raises(InputError):
                READ[how](answer)
        else:
            assert READ[how](answer) == expected, line
    for answer, problem in (("statement: Zoos help.", "'negation' is missing"), ("x" * (LONGEST + 1), "characters")):
        with pytest.raises(InputError, match=problem):
            fields(answer, YES_NO)


def test_lines_lose_their_marks_only():
    assert lines("1. Tea is best.\n2) Milk.\n(3) Water.\n- Beer.\n\n* Wine: the red one.") == [
        "Tea is best.", "Milk.", "Water.", "Beer.", "Wine: the red one.",
    ]  # fmt: skip
    assert lines("1984 is the best book.") == ["1984 is the best book."]


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(answer):
    for read in (one_line, lines, lambda a: fields(a, YES_NO), lambda a: choice(a, {"a": ["yes"], "b": ["no"]})):
        try:
            found = read(answer)
        except InputError:
            continue
        assert found


@given(st.text(alphabet="abcdefgh ?.,'", min_size=1, max_size=60).filter(lambda t: t.strip(" .?,'")))
def test_a_sentence_comes_back_as_it_is(text):
    plain = " ".join(text.split())
    found = one_line(plain)
    assert found in (plain, plain[1:-1].strip())
