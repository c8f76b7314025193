"""Stances from a file: every form that it may have tells the same, and what is wrong has its line and field."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import jsonl

from berdslib.data.formats import read_stances
from berdslib.data.records import OPPOSE, SUPPORT, Question
from berdslib.errors import InputError

pytestmark = pytest.mark.usefixtures("own_place")

ZOOS = Question("zoos", "Should zoos close?", ("They should, now.", "They should not."))
TRAMS = Question("trams", "Should trams be free?", ("No.", "Yes."), (SUPPORT, OPPOSE))
DRINKS = Question("drinks", "Which drink is best?", ("Tea.", "Milk.", "Water."))
ASKED = [ZOOS, TRAMS, DRINKS]
SIDE = st.sampled_from([SUPPORT, OPPOSE])
OTHER = {SUPPORT: OPPOSE, OPPOSE: SUPPORT}


def by_text(question, pid, stance):
    return {"qid": question.qid, "perspective": question.perspectives[pid], "stance": stance}


def by_number(question, pid, stance):
    return {"qid": question.qid, "pid": pid, "stance": stance}


def as_question(question, pid, stance):
    stances = [stance if i == pid else OTHER[stance] for i in range(2)]
    return {"qid": question.qid, "question": question.text, "perspectives": question.perspectives, "stances": stances}


FORMS = {
    "told.jsonl": lambda rows, path: rows.to_json(path, orient="records", lines=True),
    "told.csv": lambda rows, path: rows.to_csv(path, index=False),
    "told.tsv": lambda rows, path: rows.to_csv(path, index=False, sep="\t"),
}


def write(name, rows):
    FORMS[name](pd.DataFrame(rows), name)
    return name


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("form", [by_text, by_number, as_question])
@settings(max_examples=25)
@given(
    told=st.dictionaries(st.sampled_from([ZOOS, TRAMS]), st.tuples(st.sampled_from([0, 1]), SIDE), min_size=1),
    backwards=st.booleans(), both=st.booleans(), stranger=st.booleans(),
)  # fmt: skip
def test_all_forms_tell_the_same(name, form, told, backwards, both, stranger):
    """Some questions are told of, in any order, by one perspective or both, among questions of another split."""
    rows = [form(question, pid, stance) for question, (pid, stance) in told.items()]
    if both and form is not as_question:
        rows += [form(question, 1 - pid, OTHER[stance]) for question, (pid, stance) in told.items()]
    if stranger:
        rows.append(form(ZOOS._replace(qid="elsewhere"), 0, SUPPORT))
    found = read_stances(write(name, rows[::-1] if backwards else rows), ASKED)
    for before, after in zip(ASKED, found, strict=True):
        if before in told:
            pid, stance = told[before]
            assert after.stances[pid] == stance and after.stances[1 - pid] == OTHER[stance]
            assert after._replace(stances=()) == before._replace(stances=())
        else:
            assert after == before


def test_a_question_of_which_nothing_is_known_stays_as_it_is():
    rows = [as_question(TRAMS, 0, SUPPORT) | {"stances": [None, None]}, by_text(ZOOS, 0, SUPPORT)]
    assert read_stances(write("told.jsonl", rows), ASKED)[1] == TRAMS


def test_of_three_perspectives_only_what_is_told_is_known():
    path = write("told.jsonl", [by_number(DRINKS, 2, OPPOSE), by_text(DRINKS, 0, SUPPORT)])
    assert read_stances(path, ASKED)[2].stances == (SUPPORT, None, OPPOSE)


@pytest.mark.parametrize(
    ("content", "line", "field"),
    [
        (jsonl(by_text(ZOOS, 0, SUPPORT), {"qid": "zoos", "perspective": "Who knows?", "stance": SUPPORT}), 2,
         "perspective"),
        (jsonl({"qid": "zoos", "pid": -1, "stance": SUPPORT}), 1, "perspective"),
        (jsonl({"qid": "zoos", "stance": SUPPORT}), 1, "perspective"),
        (jsonl({"qid": "zoos", "pid": 0}), 1, "stance"),
        (jsonl(by_text(ZOOS, 1, SUPPORT), by_text(TRAMS, 1, SUPPORT), by_number(ZOOS, 1, OPPOSE)), 3, "stance"),
        (jsonl(as_question(ZOOS, 0, SUPPORT) | {"stances": [SUPPORT]}), 1, "stances"),
        (jsonl(as_question(ZOOS, 0, SUPPORT) | {"stances": [SUPPORT, "no"]}), 1, "stances"),
        (jsonl(as_question(ZOOS, 0, SUPPORT) | {"perspectives": ["Else.", "They should not."]}), 1, "perspective"),
        ("qid\tpid\tstance\nzoos\t0\tsupport\nzoos\t1\tpro\n", 3, "stance"),
        (jsonl(by_text(ZOOS, 0, SUPPORT) | {"qid": "zoo"}), None, "qid"),  # of no question that is asked
        ("qid\tpid\tstance\n", None, "qid"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(tmp_path, content, line, field):
    (tmp_path / "told.tsv").write_text(content)
    with pytest.raises(InputError) as wrong:
        read_stances("told.tsv", ASKED)
    assert (str(wrong.value.path), wrong.value.line, wrong.value.field) == ("told.tsv", line, field)
