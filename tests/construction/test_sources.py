"""Raw rows of each source: what is read, what is put aside, and which rows are refused with file, line and field."""

import gzip
import json

import pytest

from berdslib.construction.build import read_items
from berdslib.construction.debates import LONE, NO_ANSWERS, read_arguments, read_discussions
from berdslib.construction.opinionqa import FEW_OPTIONS, FILTER_STEP, read_survey, shown
from berdslib.construction.pipeline import ByRule, take
from berdslib.construction.questions import read_list


def wrote(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def argument(docno, text="Because.", title=""):
    return {"_id": docno, "title": title, "text": text}


@pytest.mark.parametrize("endings", [("a", "b"), ("a-point", "b-counter")])
def test_points_meet_their_counters_wherever_they_stand(tmp_path, endings):
    point, counter = endings
    path = wrote(
        tmp_path / "corpus.jsonl",
        argument(f"zoo-pro01{counter}", "They learn nothing."),
        argument(f"zoo-con01{point}", "Cruel."),
        argument(f"zoo-pro01{point}", "Children learn.", "Zoos teach"),
        argument(f"tea-pro01{point}", "Warm."),
        argument(f"zoo-con01{counter}", "Kind."),
    )
    pairs, lone = read_arguments(path)
    assert [(d.key, d.sources) for d in pairs] == [
        ("zoo-pro01", ("Zoos teach\nChildren learn.", "They learn nothing.")),
        ("zoo-con01", ("Cruel.", "Kind.")),
    ]
    assert pairs[0].documents == (f"zoo-pro01{point}", f"zoo-pro01{counter}")
    assert pairs[0].where == "corpus.jsonl:3"
    assert [(r.draft.key, r.reason) for r in lone] == [("tea-pro01", LONE)]


def test_a_sample_is_drawn_once_and_for_all(tmp_path):
    rows = [argument(f"q{n:02}-pro01{side}", f"Text {n}{side}.") for n in range(30) for side in "ab"]
    path = wrote(tmp_path / "corpus.jsonl", *rows)
    first, again, other = (read_items("arguana", path, sample=8, seed=seed) for seed in (3, 3, 4))
    keys = [d.key for d in first.drafts]
    assert keys == [d.key for d in again.drafts] == sorted(set(keys))
    assert keys != [d.key for d in other.drafts]
    assert (len(keys), first.usable, first.unusable) == (8, 30, [])


def test_a_claim_may_run_over_several_lines(tmp_path):
    path = tmp_path / "k.txt"
    path.write_text("Discussion Title: Which?\n\n1. Trams are\nthe best way.\n\nNo claim.\n2. Buses are best.\n")
    assert read_discussions(path)[0][0].options == ("Trams are the best way.", "Buses are best.")


def test_rows_of_discussions(tmp_path):
    path = wrote(
        tmp_path / "kialo.jsonl",
        {"id": "zoo", "question": "should zoos close?", "statement": "Zoos should close."},
        {"id": "best", "question": "What is the best drink?", "answers": ["Tea", "Milk", "Tea"]},
        {"id": "bare", "question": "Who knows?"},
        {"id": "one", "question": "What is left?", "answers": ["Tea"]},
    )
    found, left_out = read_discussions(path)
    assert [(d.key, d.question, d.perspectives, d.options) for d in found] == [
        ("zoo", "Should zoos close?", ("Zoos should close.",), ()),
        ("best", "What is the best drink?", (), ("Tea", "Milk")),
    ]
    assert [(r.draft.key, r.reason, r.draft.where) for r in left_out] == [
        ("bare", NO_ANSWERS, "kialo.jsonl:3"),
        ("one", NO_ANSWERS, "kialo.jsonl:4"),
    ]


SURVEY = """key,question,references
A_1,"How  safe do you feel?","['Very safe', 'Not safe', 'Refused']"
A_2,Have you ever been robbed?,"[""Yes"", ""No"", ""Refused""]"
A_3,Which is it?,"['Refused', ""Don't know"", 'Only one']"
"""


def test_b16_survey_questions_without_ways_of_not_answering(tmp_path):
    path = tmp_path / "info.csv"
    path.write_text(SURVEY, encoding="utf-8")
    found, few = read_survey(path)
    assert [(d.key, d.sources, d.options) for d in found] == [
        ("A_1", ("How safe do you feel?",), ("Very safe", "Not safe")),
        ("A_2", ("Have you ever been robbed?",), ("Yes", "No")),
    ]
    assert shown(found[0]) == 'How safe do you feel? ["Very safe", "Not safe"]'
    assert [(r.draft.key, r.reason, r.detail) for r in few] == [("A_3", FEW_OPTIONS, "Only one")]


@pytest.mark.parametrize(
    ("question", "out"),
    [
        ("Have you ever been robbed?", "personal experience"),
        ("Do you own a bicycle?", "personal experience"),
        ("Do you think cities need more bicycles?", ""),
        ("How worried are you about theft?", ""),
        ("Which of these comes closest?", "no rule"),
    ],
)
def test_the_filter_by_rule(tmp_path, question, out):
    path = wrote(tmp_path / "s.jsonl", {"key": "a", "question": question, "options": ["Yes", "No"]})
    passed = take(FILTER_STEP, read_survey(path)[0], ByRule())
    assert [r.reason for r in passed.rejected] == ([out] if out else [])


def test_a_list_may_be_packed_and_of_any_case(tmp_path):
    with gzip.open(tmp_path / "My.TXT.gz", "wt") as file:
        file.write("Should zoos close?\r\n")
    assert [(d.key, d.question) for d in read_list(tmp_path / "My.TXT.gz")[0]] == [("My-1", "Should zoos close?")]
