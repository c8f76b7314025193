"""The checks of a made item: what each lets pass and what it finds."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berdslib.construction.checks import problems_of
from berdslib.data.datasets import load_questions

YES, NO = "Night trains should replace short flights.", "Night trains should not replace short flights."
ASKED = "Should night trains replace short flights?"


def reasons(question=ASKED, perspectives=(YES, NO), **given):
    return [problem.reason for problem in problems_of(question, perspectives, **given)]


def test_a_sound_item_passes():
    assert problems_of(ASKED, [YES, NO]) == []
    assert problems_of(ASKED, (YES, NO), sources=["Flights burn fuel.", "Trains take longer."]) == []
    cities = [f"The best city for a first visit is {name}." for name in ("Oslo", "Porto", "Turin")]
    assert problems_of("Which city is best for a first visit?", cities, sources=["Oslo", "Porto", "Turin"]) == []


@pytest.mark.parametrize("question", ["", "  ", "?", "…", "\n"])
def test_a_blank_question_is_found_and_nothing_else_is_said_of_it(question):
    problems = problems_of(question, ["Tea calms us.", "Tea does not calm us."], sources=["Tea calms."])
    assert [(p.reason, p.detail) for p in problems] == [("blank", "the question")]


def test_a_statement_behind_a_no_is_the_same_statement():
    """As a small real model wrote them; behind a "No" without a "not", the statement may be the other one."""
    against = "The town should not tax art."
    assert reasons("Should the town tax art?", ["No, the town should not tax art.", against]) == ["same statement"]
    assert reasons("Should the town tax art?", ["The town should tax art.", "No, the town should not tax art."]) == []


def test_what_is_too_long_is_found():
    sides = ["Trains should run very often.", "Trains should not run very often."]
    assert reasons("Should trains run " + "very " * 60 + "often?", sides) == ["too long"]
    assert reasons("Should trains run " + "very " * 40 + "often?", sides) == []
    assert "too long" in reasons(perspectives=[YES, NO + " word" * 100])


def test_each_text_is_found_or_passes():
    """Rows of checks.jsonl: what the text is, whether it is found or passes, as what, and the text."""
    for line in (Path(__file__).parent / "checks.jsonl").read_text(encoding="utf-8").splitlines():
        what, which, names, text = json.loads(line)
        given = reasons(question=text) if what == "question" else reasons(perspectives=[YES, text])
        assert (not set(names.split(", ")).isdisjoint(given)) is (which == "found"), line


def test_a_question_copied_from_a_longer_source_is_found():
    assert reasons(sources=[f"I ask you: {ASKED} I think so."]) == ["copied"]
    assert reasons(sources=["I ask you: should night trains, replace short FLIGHTS? Yes."]) == ["copied"]
    assert reasons(sources=[ASKED]) == []  # the source is the question
    assert reasons(sources=["Night trains replace short flights, he says."]) == []


def test_statements_that_are_the_same_are_found_pair_by_pair():
    problems = problems_of(ASKED, [YES, NO, "night trains should replace short flights", NO.upper()])
    assert [p.detail for p in problems if p.reason == "same statement"] == ["statements 1 and 3", "statements 2 and 4"]
    assert reasons(perspectives=[YES, YES]) == ["same statement"]


def test_without_sources_nobody_can_say_what_is_new():
    ages = [
        "The best age to marry is 25.",
        "The best age to marry is 30, as in Norway.",
        "Two people never need to marry.",
    ]
    assert reasons("What is the best age to marry?", ages) == []
    assert reasons("What is the best age to marry?", ages, sources=["Ages"]) == ["something new"] * 3
    # Only of a yes/no question the words are given: its statements say what it says.
    long = "Night trains help when bridges, villages, rivers, schools and gardens suffer."
    assert reasons(perspectives=[YES, long]) == ["something new"]
    assert reasons("What should replace short flights?", [YES, long]) == []


def test_a_statement_about_something_else_is_found_and_a_paraphrase_is_not():
    other = "Farmers deserve cheaper diesel and better prices."
    for sources in ([], ["Farmers want cheap diesel, and a better price."]):
        assert reasons(perspectives=[YES, other], sources=sources) == ["off topic"]
    assert reasons("What should farmers get?", [YES, other]) == []
    assert reasons(perspectives=[YES, NO, "No train is cheap."]) == []
    assert reasons(perspectives=[YES, "Trains at night are no substitute for short flights."]) == []
    # The two may share the words that the question lacks.
    assert reasons("Should capital punishment hurt?", ["Executions should be painful.", "Executions should not."]) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "long",
    ["a", "a ", "abc def ", "abcd. ", "abcd! ", "? ", "\n", '"', "“", "'a ", "<", "< / ", "1,", "a-",
     ", right ", ", isn't a", "clearly ", "as an ai ", "of ", "not to ", "more than ", "you have to ", "\x1b", "都"],
)  # fmt: skip
def test_a_megabyte_takes_seconds(long):
    """What takes time with the square of the length would take hours."""
    text = (long * 1_000_000)[:1_000_000]
    began = time.process_time()
    problems_of(f"Is it {text}?", [YES, NO])
    problems_of(ASKED, [text, f"{text} not"])
    problems_of(ASKED, [YES, NO], sources=[text])
    assert time.process_time() - began < 30


@given(st.text(max_size=60), st.lists(st.text(max_size=40), max_size=4), st.lists(st.text(max_size=40), max_size=2))
def test_every_text_is_judged(question, perspectives, sources):
    assert all(p.reason and p.detail for p in problems_of(question, perspectives, sources=sources))


@pytest.mark.real_data
def test_what_the_checks_say_of_the_published_development_questions(real_data):
    """ArguAna has statements that lost letters; no pair is taken for one side, and no question for a leading one."""
    found = {
        name: [p.reason for q in load_questions(name, "dev") for p in problems_of(q.text, q.perspectives)]
        for name in ("arguana", "kialo", "opinionqa")
    }
    assert set(found["arguana"]) == {"cut off"} and len(found["arguana"]) == 8
    never = {"blank", "same statement", "no contradiction", "leading", "number of statements", "odd characters"}
    never |= {"refusal", "too short", "off topic"}
    assert not never & {reason for reasons in found.values() for reason in reasons}
    assert set(found["opinionqa"]) == {"something new"}
    without = [q for q in load_questions("kialo", "dev") if not q.text.rstrip(' "').endswith("?")]
    assert found["kialo"].count("not a question") == len(without) == 52
