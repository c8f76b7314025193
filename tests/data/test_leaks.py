"""Questions that overlap: against brute force, and by cases worked out by hand."""

import re
from itertools import combinations

import pytest
import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS
from hypothesis import given
from hypothesis import strategies as st

from berdslib.data import leaks as module
from berdslib.data.datasets import load, load_questions
from berdslib.data.leaks import across_splits, groups, leaks
from berdslib.data.records import Question
from berdslib.errors import InputError


def question(qid, text, split=""):
    return Question(qid, text, split=split)


def found(*questions, **options):
    """Pairs as (first, second, overlap)."""
    return [tuple(row)[:3] for row in leaks(questions, **options).itertuples(index=False)]


def content(text):
    """The stems of a text's words that are no stop words; of all words where there are no others."""
    words = re.findall(r"\w+", text.lower())
    stem = Stemmer.Stemmer("english").stemWord
    return {stem(w) for w in words if w not in STOPWORDS_EN_PLUS} or {stem(w) for w in words}


def jaccard(a, b):
    return len(a & b) / len(a | b) if a and b else 0.0


texts = st.lists(st.sampled_from(["Zoos", "closed", "stay", "tea", "good", "not"]), min_size=1, max_size=4)


@given(st.lists(texts, min_size=1, max_size=8), st.sampled_from([0.3, 0.5, 0.6, 0.8, 1.0]))
def test_all_pairs_are_those_of_brute_force(drawn, threshold):
    asked = [question(f"q{i}", " ".join(words)) for i, words in enumerate(drawn)]
    result = leaks(asked, threshold)
    expected = {(a.qid, b.qid): jaccard(content(a.text), content(b.text)) for a, b in combinations(asked, 2)}
    pairs = dict(zip(zip(result["first"], result["second"], strict=True), result["overlap"], strict=True))
    assert pairs == {pair: overlap for pair, overlap in expected.items() if overlap >= threshold}
    assert result["overlap"].is_monotonic_decreasing


def test_more_questions_than_are_compared_at_a_time(monkeypatch):
    asked = [question(f"q{i}", f"word{i % 50} and other{i}") for i in range(200)]
    whole = leaks(asked, threshold=0.25)
    monkeypatch.setattr(module, "_ROWS", 7)
    assert leaks(asked, threshold=0.25).equals(whole)
    assert len(whole) == sum(i % 50 == j % 50 for i, j in combinations(range(200), 2))


def test_wording_is_compared_without_case_order_punctuation_and_endings():
    first = question("a", "Should big zoos in towns close?")
    assert found(first, question("b", "Closing big zoos in a town – should they?")) == [("a", "b", 1.0)]
    # big, zoo and town are in both, close and stay in one of them.
    assert found(first, question("b", "Should big zoos in towns stay?"), threshold=0.5) == [("a", "b", 3 / 5)]
    assert found(first, question("b", "???")) == found(question("a", "?"), question("b", "!")) == []


def test_signs_that_are_part_of_a_word():
    first = question("a", "Learn C++ at school?")
    assert found(first, question("b", "At school learn C++?")) == [("a", "b", 1.0)]
    assert found(first, question("b", "Learn C# at school?")) == []


def test_questions_on_one_issue_are_of_one_text():
    asked = [question("z", "Find a man who says yes")._replace(issue="Close zoos?"), question("k", "Close zoos?")]
    assert found(*asked) == [("z", "k", 1.0)]


def test_questions_of_one_shape_are_about_different_things():
    things = ["cars", "plastic bags", "leaf blowers", "street music", "cruise ships", "gas heating", "fur coats"]
    asked = [question(thing, f"Is it good to spend public money on {thing}?") for thing in things]
    assert leaks(asked).empty
    again = question("again", "So: is it good to spend public money on a cruise ship?")
    assert [row[:2] for row in found(*asked, again)] == [("cruise ships", "again")]


def test_the_table_and_its_splits():
    texts = ["Close all big zoos?", "Close all big zoos?", "Close all big zoos!"]
    splits = ["dev", "test", ""]
    table = leaks([question(f"q{i}", *pair) for i, pair in enumerate(zip(texts, splits, strict=True))])
    assert table[["first", "second", "first_split", "second_split"]].values.tolist() == [
        ["q0", "q1", "dev", "test"],
        ["q0", "q2", "dev", ""],
        ["q1", "q2", "test", ""],
    ]
    assert across_splits(table)["second"].tolist() == ["q1"]
    nothing = leaks([question("a", "A?"), question("b", "B?")])
    assert nothing.empty and nothing.dtypes.equals(table.dtypes) and across_splits(nothing).empty


def test_a_chain_of_overlaps_is_one_group():
    asked = [
        question("a", "alpha beta gamma delta"),
        question("b", "sigma"),
        question("c", "alpha beta gamma delta epsilon"),
        question("d", "alpha beta gamma delta epsilon zeta"),
    ]
    assert [row[:2] for row in found(*asked)] == [("c", "d"), ("a", "c")]
    assert groups(asked) == [["a", "c", "d"], ["b"]]


@pytest.mark.parametrize("threshold", [0, 1.01, float("nan")])
def test_a_threshold_that_is_no_similarity_is_refused(threshold):
    with pytest.raises(InputError) as refused:
        leaks([question("a", "A?"), question("b", "B?")], threshold)
    assert refused.value.field == "threshold"


def test_no_question_of_the_sample_leaks():
    assert leaks(load("sample", split="all").questions, threshold=0.5).empty


@pytest.mark.real_data
def test_theperspective_asks_eight_questions_twice(real_data):
    asked = load_questions("theperspective")
    assert len(leaks(asked)) == 8
    assert sum(len(part) for part in groups(asked) if len(part) > 1) == 16
