"""Questions that overlap: against brute force, and by cases worked out by hand."""

import re
from itertools import combinations, permutations
from math import log

import pytest
import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS
from hypothesis import given
from hypothesis import strategies as st

from berdslib.data import leaks as module
from berdslib.data.datasets import find, load
from berdslib.data.leaks import LEAK_COLUMNS, across_splits, groups, leaks
from berdslib.data.readers import READERS
from berdslib.data.records import Passage, Question, make_verdicts
from berdslib.errors import InputError


def question(qid, text, perspectives=(), split=""):
    return Question(qid, text, tuple(perspectives), (None,) * len(perspectives), "mine", split)


def found(*questions, **options):
    """Pairs as (first, second, kind, overlap)."""
    return [tuple(row)[:4] for row in leaks(questions, **options).itertuples(index=False)]


def supported(**docnos):
    return make_verdicts([(qid, 0, d, 1.0, True) for qid, listed in docnos.items() for d in listed.split()], "gold")


# ---------------------------------------------------------------- brute force


def content(text):
    """The stems of a text's words that are no stop words; of all words where there are no others."""
    words = re.findall(r"\w+", text.lower())
    stem = Stemmer.Stemmer("english").stemWord
    return {stem(w) for w in words if w not in STOPWORDS_EN_PLUS} or {stem(w) for w in words}


def weights(held):
    """What a word weighs where these questions hold these words."""
    return {w: log(1 + len(held) / (1 + sum(w in one for one in held))) for one in held for w in one}


def jaccard(a, b, weight=None):
    total = lambda some: sum(weight[w] for w in some) if weight else len(some)  # noqa: E731
    return total(a & b) / total(a | b) if a and b else 0.0


def matched(a, b, weight):
    """The overlap of two lists of statements: the best of all ways to put them side by side."""
    small, large = sorted((a, b), key=len)
    if not small:
        return 0.0
    most = max(
        sum(jaccard(content(x), content(y), weight) >= 0.5 for x, y in zip(small, order, strict=False))
        for order in permutations(large)
    )
    return most / (len(a) + len(b) - most)


def brute_force(questions, gold, threshold):
    listed = {q.qid: {d for qid, _, d, _, yes, _ in gold.values if qid == q.qid and yes} for q in questions}
    of_texts = weights([content(q.text) for q in questions])
    of_statements = weights([set().union(*map(content, q.perspectives)) for q in questions])
    overlaps = {
        (a.qid, b.qid, kind): value
        for a, b in combinations(questions, 2)
        for kind, value in (
            ("text", jaccard(content(a.text), content(b.text), of_texts)),
            ("perspectives", matched(a.perspectives, b.perspectives, of_statements)),
            ("passages", jaccard(listed[a.qid], listed[b.qid])),
        )
    }
    return {pair: value for pair, value in overlaps.items() if value >= threshold - 1e-12}


def sentences(most):
    return st.lists(st.sampled_from(["Zoos", "closed", "stay", "tea", "good", "not"]), min_size=1, max_size=most)


asked = st.lists(
    st.tuples(sentences(4), st.lists(sentences(3), max_size=4), st.sets(st.sampled_from("abcd")), st.booleans()),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@given(asked, st.sampled_from([0.3, 0.5, 0.6, 0.8, 1.0]))
def test_all_pairs_are_those_of_brute_force(drawn, threshold):
    questions = [
        question(f"q{i}", " ".join(text), [" ".join(p) for p in perspectives])
        for i, (text, perspectives, _, _) in enumerate(drawn)
    ]
    rows = [(f"q{i}", 0, d, float(yes), yes) for i, (_, _, docnos, yes) in enumerate(drawn) for d in docnos]
    gold = make_verdicts(rows, "gold")
    result = leaks(questions, gold, threshold=threshold)
    pairs = {(r.first, r.second, r.kind): r.overlap for r in result.itertuples()}
    assert pairs == pytest.approx(brute_force(questions, gold, threshold))
    assert result["overlap"].round(9).is_monotonic_decreasing  # what differs in the last digit only is a tie


def test_more_questions_than_are_compared_at_a_time(monkeypatch):
    questions = [question(f"q{i}", f"word{i % 50} and other{i}") for i in range(200)]
    whole = leaks(questions, threshold=0.25)
    monkeypatch.setattr(module, "_ROWS", 7)
    assert leaks(questions, threshold=0.25).equals(whole)
    assert len(whole) == sum(i % 50 == j % 50 for i, j in combinations(range(200), 2))


# ---------------------------------------------------------------- by hand: text


def test_text_is_compared_without_case_order_punctuation_and_endings():
    first = question("a", "Should big zoos in towns close?")
    assert found(first, question("b", "Closing big zoos in a town – should they?")) == [("a", "b", "text", 1.0)]
    # big, zoo, town are in both of two questions, close and stay in one of them.
    both, one = log(1 + 2 / 3), log(1 + 2 / 2)
    shared = found(first, question("b", "Should big zoos in towns stay?"), threshold=0.5)
    assert shared == [("a", "b", "text", pytest.approx(3 * both / (3 * both + 2 * one)))]
    assert found(first, question("b", "???")) == found(question("a", "?"), question("b", "!")) == []


def test_signs_that_are_part_of_a_word():
    first = question("a", "Learn C++ at school?")
    assert found(first, question("b", "At school learn C++?")) == [("a", "b", "text", 1.0)]
    assert found(first, question("b", "Learn C# at school?")) == []


def test_queries_of_one_root_are_of_one_text():
    one = [question("z#0", "Find a man who says yes")._replace(root="Close zoos?"), question("k", "Close zoos?")]
    assert found(*one) == [("z#0", "k", "text", 1.0)]


# ---------------------------------------------------------------- by hand: perspectives and passages

PRO = "Free museums bring in many more visitors from poor families."
CON = "A museum without tickets has to save on its exhibitions."


def test_a_content_word_and_the_little_words_of_each_statement_are_others():
    pro = PRO.replace("poor", "large").replace("Free museums bring", "A free museum brings")
    con = CON.replace("save", "economize").replace("A", "Any")
    assert found(question("a", "Charge?", [PRO, CON]), question("b", "Free?", [con, pro])) == [
        ("a", "b", "perspectives", 1.0)
    ]


THINGS = (
    "cars, bikes, plastic bags, fireworks, leaf blowers, billboards, scooters, pigeons, street music, cruise ships, "
    "short flights, wood stoves, gas heating, drones, holiday lets, chewing gum, glass bottles, fur coats, paper cups, "
    "neon signs, diesel buses, night clubs, food trucks, lawns, balloons"
)


@pytest.mark.parametrize(
    ("text", "yes", "no", "least"),
    [
        ("Should cities ban {}?", "Cities should ban {}.", "Cities should not ban {}.", 5),
        ("Is it good to spend public money on {}?", "It is good to spend public money on {}.",
         "It is not good to spend public money on {}.", 20),
    ],
)  # fmt: skip
def test_questions_of_one_shape_are_about_different_things(text, yes, no, least):
    things = THINGS.split(", ")
    asked = [question(f"q{i}", text.format(it), [yes.format(it), no.format(it)]) for i, it in enumerate(things)]
    for n in range(least, len(asked) + 1, 5):
        assert leaks(asked[:n]).empty
    # One of them once more, in other words, is found among them all.
    other = (no.format("firework"), yes.format("the firework"))
    again = asked[3]._replace(qid="again", text=f"So: {asked[3].text}", perspectives=other)
    assert [row[:3] for row in found(*asked, again)] == [("q3", "again", "text"), ("q3", "again", "perspectives")]


def test_a_text_that_the_corpus_repeats_is_one_passage():
    asked, gold = [question("a", "A?"), question("b", "B?")], supported(a="d1 d2", b="d3 d4")
    corpus = [Passage("d1", "Tea is good."), Passage("d2", ""), Passage("d3", "tea  is good."), Passage("d4", "")]
    assert found(*asked, gold=gold) == []
    # The blank ones are nothing that is known to be the same: d1 = d3 of four, three different ones.
    assert found(*asked, gold=gold, passages=corpus, threshold=0.3) == [("a", "b", "passages", 1 / 3)]


# ---------------------------------------------------------------- what comes back


def test_the_table_and_its_splits():
    texts = ["Close all big zoos?", "Close all big zoos?", "Close all big zoos!"]
    splits = ["dev", "test", ""]
    table = leaks([question(f"q{i}", *pair) for i, pair in enumerate(zip(texts, [()] * 3, splits, strict=True))])
    assert table.columns.tolist() == LEAK_COLUMNS
    assert table[["first", "second", "first_split", "second_split"]].values.tolist() == [
        ["q0", "q1", "dev", "test"],
        ["q0", "q2", "dev", ""],
        ["q1", "q2", "test", ""],
    ]
    assert across_splits(table)["second"].tolist() == ["q1"]
    nothing = leaks([question("a", "A?"), question("b", "B?")])
    assert nothing.empty and nothing.dtypes.equals(table.dtypes) and across_splits(nothing).empty


def test_a_chain_of_overlaps_is_one_group():
    asked = [question(q, q, [PRO, CON]) for q in "ac"] + [question("b", "B?"), question("d", "D?")]
    assert groups(asked, supported(c="x", d="x")) == [["a", "c", "d"], ["b"]]


def test_labels_that_come_back_with_every_question_are_refused(monkeypatch):
    monkeypatch.setattr(module, "_MOST_PAIRS", 30)
    asked = [question(f"q{i}", f"Question {i}?", ["left", "right"]) for i in range(9)]
    with pytest.raises(InputError, match=r"kinds.*more than 30 pairs .* have the same perspectives.*`--kinds`"):
        leaks(asked)
    assert found(*asked, kinds=["text"]) == []


TWO = [question("a", "A?"), question("b", "B?")]
REFUSED = [
    *((TWO, {"threshold": t}, r"threshold.*above 0 and up to 1") for t in (0, 1.01, float("nan"))),
    (TWO, {"kinds": ()}, r"\[kinds\]: some of text, perspectives, passages are needed"),
    (TWO, {"kinds": ["texts"]}, r"unknown kind of overlap 'texts'. Did you mean 'text'"),
    ([], {}, "no questions"),
]


@pytest.mark.parametrize(("questions", "options", "words"), REFUSED)
def test_what_is_refused(questions, options, words):
    with pytest.raises(InputError, match=words):
        groups(questions, **options)


# ---------------------------------------------------------------- data sets


def test_no_question_of_the_sample_leaks():
    sample = load("sample", split="all")
    assert leaks(sample.questions, sample.gold, threshold=0.5, passages=sample.passages).empty


@pytest.mark.real_data
def test_theperspective_asks_eight_questions_twice(real_data):
    whole = load("theperspective")
    table = leaks(whole.questions, whole.gold, passages=whole.passages)
    assert table["kind"].value_counts().to_dict() == {"text": 8, "perspectives": 8, "passages": 7}
    assert sum(len(part) for part in groups(whole.questions) if len(part) > 1) == 16
    # Under ids of their own, as the file has them, the passages of the repeats would look like others.
    by_id = READERS["theperspective"]["gold"](find("theperspective"))
    assert "passages" not in set(leaks(whole.questions, by_id)["kind"])
