"""What is shown of a question: every text, number and sentence, worked out by hand or by another way."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import berdslib as bd
from berdslib.data.records import make_verdicts, ranked_run
from berdslib.study.explorer.views import (
    Listing,
    figures_of,
    leaning_of,
    matched_words,
    top_overlap,
    view_of,
    visible,
)

ZOOS = bd.Question("zoos", "Should zoos be closed?", ("Close them.", "Keep them."), ("support", "oppose"), "toy")
TEXTS = {
    "cruel": "Zoos are cruel.",
    "save": "A zoo saves species, closing it does not.",
    "both": "Some say close, some say keep.",
    "tea": "Tea is a drink.",
}
PASSAGES = {docno: bd.Passage(docno, text, f"On {docno}") for docno, text in TEXTS.items()}
GOLD = make_verdicts(
    [
        ("zoos", 0, "cruel", 0.9, True),
        ("zoos", 1, "cruel", 0.2, False),
        ("zoos", 1, "save", 1.0, True),
        ("zoos", 0, "both", 1.0, True),
        ("zoos", 1, "both", 1.0, True),
        ("other", 0, "tea", 1.0, True),
    ],
    "gold",
)
LEFT = Listing("one", ["cruel", "tea"])
RIGHT = Listing("two", ["tea", "cruel"], note="by itself")


def view(left=LEFT, right=RIGHT, *, verdicts=GOLD, question=ZOOS, k=2, **options):
    return view_of(question, [left, right], PASSAGES, k, verdicts=verdicts, **options)


# ---------------------------------------------------------------- a whole view


def test_a_view_holds_what_each_list_shows_and_hides():
    shown = view(judge="recorded verdicts")
    assert shown["question"] == {"qid": "zoos", "text": ZOOS.text}
    assert (shown["judged"], shown["judge"], shown["k"], shown["asked"]) == (True, "recorded verdicts", 2, "")
    left, right = shown["lists"]
    assert left["rows"] == [
        {"docno": "cruel", "argues": [0], "labelled": True, "copies": [], "only_here": False},
        {"docno": "tea", "argues": [], "labelled": False, "copies": [], "only_here": False},
    ]
    assert [row["docno"] for row in right["rows"]] == ["tea", "cruel"]
    assert left["hidden"] == right["hidden"] == [1]
    assert (left["note"], right["note"]) == ("", "by itself")
    assert set(shown["passages"]) == {"cruel", "tea"}
    assert shown["passages"]["tea"] == {"title": "On tea", "text": TEXTS["tea"], "cut": False}
    assert shown["words"] == ["zoos"]


@pytest.mark.parametrize(
    ("docnos", "counts", "hidden"),
    [
        (["tea"], [0, 2, 0, 1, 1], [0, 1]),
        (["both"], [2, 2, 1, 1], []),
        (["save", "cruel"], [2, 2, 2, 2], []),
        (["cruel", "tea"], [1, 2, 1, 2, 1], [1]),
    ],
)
def test_the_counts_that_are_said_of_a_list(docnos, counts, hidden):
    """Perspectives that it shows, of how many; passages that argue one, of how many; and those not labelled, if any."""
    one = view(Listing("one", docnos))["lists"][0]
    assert [int(number) for number in re.findall(r"\d+", one["said"])] == counts and one["hidden"] == hidden
    assert not one["searching"] and not one["problem"]


def test_an_empty_list_hides_everything():
    one = view(Listing("one", []))["lists"][0]
    assert one["said"] and one["hidden"] == [0, 1] and not one["searching"]


def test_a_passage_that_holds_a_perspective_itself_is_marked():
    asked = ZOOS._replace(perspectives=("All zoos are cruel.", "ZOOS ARE CRUEL!"))
    assert [row["copies"] for row in view(question=asked)["lists"][0]["rows"]] == [[1], []]


hostile = st.text(alphabet=st.one_of(st.characters(), st.sampled_from("<>&\"'/\u2028\u202e\u200d\ud800\x00")))


@settings(max_examples=40)
@given(hostile, hostile, hostile)
def test_a_view_is_strict_json_whatever_the_texts_are(question, perspective, text):
    asked = bd.Question("q", question, (perspective,), source=text)
    passages = {"d": bd.Passage("d", text, perspective)}
    lists = [Listing(text, ["d"]), Listing(perspective, problem=text)]
    verdicts = make_verdicts([], "none")
    shown = view_of(asked, lists, passages, 5, verdicts=verdicts, asked=perspective, judge=text)
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    json.dumps(shown, ensure_ascii=False, allow_nan=False).encode()  # nothing that no browser could be sent


# ---------------------------------------------------------------- figures, leaning


@settings(max_examples=40)
@given(
    st.permutations(["d0", "d1", "d2", "d3", "d4", "d5"]),
    st.sets(st.tuples(st.integers(0, 2), st.sampled_from(["d0", "d1", "d2", "d3", "d4", "d5"]))),
    st.integers(1, 6),
)
def test_figures_are_those_of_evaluate(docnos, argued, k):
    question = bd.Question("q", "Which?", ("A.", "B.", "C."))
    pairs = [(pid, docno) for pid in range(3) for docno in docnos]
    verdicts = make_verdicts([("q", *pair, float(pair in argued), pair in argued) for pair in pairs], "hand")
    supported = [[pid for pid in range(3) if (pid, docno) in argued] for docno in docnos]
    names = [f"MRecall@{k}", f"Coverage@{k}", f"Precision@{k}"]
    whole = bd.evaluate(ranked_run({"q": docnos}), verdicts, [question], names).iloc[0]
    found = figures_of(question, supported[:k], k)
    assert {one["name"]: one["value"] for one in found} == {name: whole[name] for name in names}


def test_leaning_counts_passages_not_perspectives():
    four = bd.Question("q", "?", ("a", "b", "c", "d"), ("support", "support", "oppose", None))
    assert leaning_of(four, [[0, 1], [2], [1, 2], [3]]) == 0
    assert leaning_of(four, [[0, 1], [3]]) == 1
    assert leaning_of(four, [[3]]) is None


lists_of_five = st.permutations("abcdefg").map(lambda order: order[:5])


@given(lists_of_five, lists_of_five, st.integers(1, 5))
def test_overlap_counts_shared_pairs_of_places(one, other, k):
    """A passage at places i and j is shared from depth max(i, j) on: another way to the same sum."""
    shared = [(i, j) for i, a in enumerate(one, 1) for j, b in enumerate(other, 1) if a == b]
    by_places = sum(sum(1 / d for d in range(max(i, j), k + 1)) for i, j in shared) / k
    assert top_overlap(one, other, k) == pytest.approx(by_places)


@pytest.mark.parametrize(
    ("query", "texts", "words"),
    [
        ("Should zoos be closed?", ["The ZOO was closing.", "Closed, Zoos!"], ["closed", "closing", "zoo", "zoos"]),
        ("to be or not to be", ["To be, or not to be"], []),  # words that every text holds
        ("cats", ["category", "concatenate"], []),
        ("", ["anything"], []),
        ("zoos", [], []),
        ("50 euros", ["50 or 500 euro"], ["50", "euro"]),
    ],
)
def test_words_match_by_their_stem(query, texts, words):
    assert matched_words(query, texts) == words


# ---------------------------------------------------------------- what cannot be seen

EXPLICIT_BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
NO_WIDTH = "\u00ad\u180e\u200b\u2060\u2061\u2062\u2063\u2064\ufeff\ufff9\ufffa\ufffb"
TAGS = "".join(map(chr, range(0xE0000, 0xE0080)))
CONTROLS = "".join(chr(i) for i in (*range(9), *range(11, 32), *range(127, 160)))


@pytest.mark.parametrize("hidden", [EXPLICIT_BIDI, NO_WIDTH, TAGS, CONTROLS], ids=["bidi", "width", "tags", "controls"])
def test_every_character_that_hides_or_reorders_is_written_out(hidden):
    for character in hidden:
        for around in ("pay{}load", "می{}روم", "{}", "क्{}ष", "👩{}👧"):
            shown = visible(around.format(character))
            assert character not in shown and shown == around.format(f"⟨U+{ord(character):04X}⟩")


@pytest.mark.parametrize("joiner", ["\u200c", "\u200d"])
def test_joiners_hide_only_beside_latin_letters(joiner):
    code = f"⟨U+{ord(joiner):04X}⟩"
    assert visible(f"pay{joiner}load") == f"pay{code}load"
    assert visible(f"a{joiner}") == f"a{code}" and visible(f"{joiner}a") == f"{code}a"
    for word in (f"می{joiner}روم", f"क्{joiner}ष", f"👩{joiner}👧"):
        assert visible(word) == word


@pytest.mark.parametrize(
    "text",
    [
        "می‌خواهم نامه‌ای",
        "क्‍ष र्‍य",
        "👩‍👩‍👧‍👦 👩🏽‍💻 ❤️",
        "שלום",
        "مرحبا",
        "two\nlines\tand a tab",
        "é, ß, 漢字, ⟨U+202E⟩",
        "",
    ],
)
def test_what_people_write_stays_as_it_is(text):
    assert visible(text) == text


@given(hostile)
def test_writing_out_twice_changes_nothing_and_the_result_can_be_sent(text):
    once = visible(text)
    assert visible(once) == once
    once.encode()
    assert not set(once) & set(EXPLICIT_BIDI + NO_WIDTH + TAGS + CONTROLS)
