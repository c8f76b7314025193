"""Answers as models write them: what is read, and what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berdslib.construction.reading import LONGEST, choice, fields, lines, one_line
from berdslib.errors import InputError

YES_NO = {"yes": ["statement", "positive statement"], "no": ["negation", "negative statement"]}


@pytest.mark.parametrize(
    "answer",
    [
        "Should zoos close?",
        "  Should zoos close?\n\n",
        "Question: Should zoos close?",
        "**Question:** Should zoos close?",
        '"Should zoos close?"',
        "“Should zoos close?”",
        "**Should zoos close?**",
        "1. Should zoos close?",
        "- Should zoos close?",
        "```\nShould zoos close?\n```",
        "<think>Zoos? Hm.</think>\nShould zoos close?",
        'Question: "Should zoos close?"',
    ],
)
def test_one_line(answer):
    assert one_line(answer, ["question"]) == "Should zoos close?"


@pytest.mark.parametrize("answer", ["", "   \n", "Here it is:\nShould zoos close?", "x" * (LONGEST + 1), "``` \n```"])
def test_not_one_line(answer):
    with pytest.raises(InputError):
        one_line(answer, ["question"])


def test_a_colon_within_a_sentence_is_no_label():
    assert one_line("In short: should zoos close?", ["question"]) == "In short: should zoos close?"


def test_quotation_marks_within_stay():
    assert one_line('"Zoo" and "park" mean the same') == '"Zoo" and "park" mean the same'
    assert one_line('The word "zoo" is old.') == 'The word "zoo" is old.'


@pytest.mark.parametrize(
    "answer",
    [
        "statement: Zoos help.\nnegation: Zoos do not help.",
        "Statement: Zoos help.\n\nNegation: Zoos do not help.",
        "**Positive Statement:** Zoos help.\n**Negative Statement:** Zoos do not help.",
        "1. Statement: Zoos help.\n2. Negation: Zoos do not help.",
        'Statement: "Zoos help."\nNegation: "Zoos do not help."',
        "Sure!\nStatement: Zoos\nhelp.\nNegation: Zoos do not help.",
        json.dumps({"statement": "Zoos help.", "negation": "Zoos do not help."}),
        "```json\n" + json.dumps({"statement": "Zoos help.", "negation": "Zoos do not help."}) + "\n```",
        "Negation: Zoos do not help.\nStatement: Zoos help.",
    ],
)
def test_labelled_parts(answer):
    assert fields(answer, YES_NO) == {"yes": "Zoos help.", "no": "Zoos do not help."}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("statement: Zoos help.", "'negation' is missing"),
        ("Zoos help. Zoos do not help.", "'statement' is missing"),
        ("statement: A.\nstatement: B.\nnegation: C.", "there twice"),
        ('{"statement": "Zoos help.", "negation": "Zoos', "cannot be read as that"),
        ('{"statement": ["Zoos help."], "negation": "No."}', "'statement' is missing"),
        ("", "empty"),
        ("statement: A.\nnegation: Not A.\n\nI hope this helps!", "not asked for"),
    ],
)
def test_parts_that_cannot_be_read(answer, problem):
    with pytest.raises(InputError, match=problem):
        fields(answer, YES_NO)


def test_lines_lose_their_marks_only():
    assert lines("1. Tea is best.\n2) Milk.\n(3) Water.\n- Beer.\n\n* Wine: the red one.") == [
        "Tea is best.", "Milk.", "Water.", "Beer.", "Wine: the red one.",
    ]  # fmt: skip
    assert lines("1984 is the best book.") == ["1984 is the best book."]


@pytest.mark.parametrize(
    "answer",
    [
        "Tea is best.\nMilk is best.",
        '["Tea is best.", "Milk is best."]',
        "a) Tea is best.\nb) Milk is best.",
        "- - Tea is best.\n- 1. Milk is best.",
        "Statement: Tea is best.\nStatement 2: Milk is best.",
        "**Tea** is best.\n**Milk is best.**",
    ],
)
def test_lines_in_other_forms(answer):
    assert lines(answer, ["statement"]) == ["Tea is best.", "Milk is best."]


@pytest.mark.parametrize(
    "answer",
    [
        "# Positions\nTea.",
        "| Tea | Milk |",
        '{"1": "Tea."}',
        '["Tea.", ["Milk."]]',
        "Here they are:\nTea.",
        "Tea.\ud83d",
    ],
)
def test_lines_that_are_refused(answer):
    with pytest.raises(InputError):
        lines(answer, ["statement"])


@pytest.mark.parametrize("answer", ["2", "2.", "Perspective 2", "**Perspective 2**", "perspective 2.", '"2"'])
def test_choice(answer):
    assert choice(answer, {"a": ["1", "perspective 1"], "b": ["2", "perspective 2"]}) == "b"


@pytest.mark.parametrize("answer", ["", "3", "12", "Perspective 1 and 2", "1, since it says yes"])
def test_no_choice(answer):
    with pytest.raises(InputError):
        choice(answer, {"a": ["1", "perspective 1"], "b": ["2", "perspective 2"]})


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
