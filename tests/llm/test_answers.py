"""Reading a chat model's answer, against json and by hand."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berdslib.errors import InputError
from berdslib.llm.answers import parse_perspectives


def test_b14_every_value_is_kept_and_names_are_read_both_ways():
    # divergences.md B14: the published code keeps the first value of an inner object.
    answer = json.dumps({"Data_Privacy": {"short term": "s", "long term": "l"}, "Data Safety": "d", "Law": ["m", "n"]})
    ours, published = parse_perspectives(answer), parse_perspectives(answer, "first")
    assert ours == [
        ("Data Privacy: short term", "s"), ("Data Privacy: long term", "l"), ("Data Safety", "d"),
        ("Law", "m"), ("Law", "n"),
    ]  # fmt: skip
    assert [s for _, s in published] == ["s", "d", "m"]
    assert (len(ours), len(published)) == (5, 3)
    assert parse_perspectives('{"Data_Privacy": "s"}') == parse_perspectives('{"Data Privacy": "s"}')


@pytest.mark.parametrize(
    ("answer", "pairs"),
    [
        ('```json\n{"A": "x", "B": "y",}\n```', [("A", "x"), ("B", "y")]),
        ('Here are [2] of {many}:\n{"A": "x"}\nI hope this helps {you}!', [("A", "x")]),
        ('{"A": "x"}\n{"B": "y"}', [("A", "x"), ("B", "y")]),
        ('{"A": "x", "A": "y"}', [("A", "x"), ("A", "y")]),
        ("{'A': \"it's\", 'B': 'isn\\'t it', 'C': null}", [("A", "it's"), ("B", "isn't it")]),
        ('{"A": "x ‘y’ “z”"}', [("A", "x ‘y’ “z”")]),
        ('{A: "x", /* and */ Long_name: "y"}', [("A", "x"), ("Long name", "y")]),
        ('{"A": "two\nlines\\nor  three"}', [("A", "two lines or three")]),
        ('[{"name": "A", "statement": "x"}, {"title": "B_C", "text": "y", "weight": 0.5}]', [("A", "x"), ("B C", "y")]),
        ('{"perspectives": [{"perspective": "A", "argument": "x"}]}', [("A", "x")]),
        ('{"Perspective 1": {"name": "A", "perspective": "x", "example": "y"}}', [("A", "x"), ("A: example", "y")]),
        ('{"perspectives": {"Pro": {"Costs": "x"}, "Con": "y"}}', [("Pro: Costs", "x"), ("Con", "y")]),
        ('["x", "", 5, true, "y"]', [("", "x"), ("", "y")]),
        ('<think>Say {"A": "draft"}?</think>{"A": "x"}', [("A", "x")]),
        ('Drafts: {"A": "draft"}\n</thinking>\n{"A": "x"}', [("A", "x")]),  # the template had opened the tag
        ('{"A": "\\u00e9\\ud83d\\ude00 \\"q\\" \\/"}', [("A", 'é😀 "q" /')]),
    ],
)  # fmt: skip
def test_answers_as_models_write_them(answer, pairs):
    assert parse_perspectives(answer) == pairs


@pytest.mark.parametrize(
    "answer",
    [
        "",
        '"x"',
        '{"A": 5, "B": null, "C": " "}',
        '{"A": "x", "B": "y and then',
        # An inner object that could be read would hide that A and D are lost.
        '{"A": "x", "B": {"C": "y"}, D}',
        '{"A": "x", "B": {"C": "y"}, D: E}',
        '[1, {"A": "x"}, oops]',
        # Read by no parser of JSON without a guess at what was meant.
        "{'A': 'it's odd', 'B': 'x'}",
        '{"A": "He said "no" to it."}',
        '{"A": "x", Long name: "y"}',
        "[" * 5000 + '"x"',
        '{"A": 1' + "0" * 5000 + "}",
        "{" * 5000,
        '[5,"' * 1750,  # read in the square of its length, this took 4 seconds
        '{"A": "' + "x" * 50_000 + '"}',
    ],
)
def test_what_cannot_be_read_to_its_end_is_an_error(answer):
    with pytest.raises(InputError):
        parse_perspectives(answer)


printable = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z"), include_characters=" \n"), max_size=20)


keys = st.sampled_from(["Costs", "Animal welfare", "Pro", "Con", "name of it", "x"])


values = st.recursive(
    printable | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


answers = st.dictionaries(keys, values, max_size=4) | st.lists(values, max_size=4)


def texts_in(value):
    if isinstance(value, str):
        return [" ".join(value.split())] if value.strip() else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [t for one in inner for t in texts_in(one)]


def read(text):
    try:
        return [s for _, s in parse_perspectives(text)]
    except InputError:
        return []


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(answers, st.booleans(), st.sampled_from([None, 2]))
def test_json_is_read_as_its_own_reader_does(value, ascii_only, indent):
    as_json = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert read(as_json) == texts_in(json.loads(as_json))
    assert read(f"Certainly!\n```json\n{as_json}\n```\nAnything else?") == texts_in(value)


@settings(deadline=None, max_examples=300)
@given(st.text(st.sampled_from("{}[]\"'“”:,\\u0041 \nab1.n"), max_size=60) | st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        pairs = parse_perspectives(text)
    except InputError:
        return
    assert pairs and all(statement.strip() for _, statement in pairs)


@settings(deadline=None)
@given(st.dictionaries(keys, printable.filter(str.strip), min_size=1), st.data())
def test_an_answer_that_breaks_off_is_never_taken_for_the_whole(value, data):
    whole = json.dumps(value)
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert read(whole[:cut]) == []
