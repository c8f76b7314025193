"""What is shown of a question: every text, number and sentence, worked out by hand or by another way."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import berdslib as bd
from berdslib.data.records import make_verdicts, ranked_run
from berdslib.study.explorer.views import (
    Listing,
    by_change,
    change_of,
    figures_of,
    leaning_of,
    matched_words,
    perspective_marks,
    top_overlap,
    view_of,
    visible,
)
from berdslib.study.figures.lists import ink_on
from berdslib.study.figures.style import PALETTE

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
LEFT, RIGHT = Listing("one", ["cruel", "tea", "save"]), Listing("two", ["tea", "cruel"], note="by itself")


def view(left=LEFT, right=RIGHT, *, verdicts=GOLD, question=ZOOS, k=2, **options):
    return view_of(question, [left, right], verdicts, PASSAGES, k, **options)


# ---------------------------------------------------------------- a whole view


def test_a_view_holds_what_each_list_shows_and_hides():
    shown = view(judge="recorded verdicts")
    assert shown["question"] == {"qid": "zoos", "text": ZOOS.text, "source": "toy"}
    assert (shown["judged"], shown["judge"], shown["k"], shown["asked"]) == (True, "recorded verdicts", 2, "")
    left, right = shown["lists"]
    assert left["rows"] == [
        {"docno": "cruel", "argues": [0], "labelled": True, "only_here": False},
        {"docno": "tea", "argues": [], "labelled": False, "only_here": False},
    ]
    assert [row["docno"] for row in right["rows"]] == ["tea", "cruel"]
    assert left["hidden"] == right["hidden"] == [1]
    assert (
        left["said"] == "shows 1 of 2 perspectives; 1 of 2 passages argues none (1 not labelled, which counts as none)"
    )
    assert (left["note"], right["note"]) == ("", "by itself")
    assert set(shown["passages"]) == {"cruel", "tea"}  # those below the cut-off are not sent
    assert shown["passages"]["tea"] == {"title": "On tea", "text": TEXTS["tea"], "cut": False}
    assert shown["words"] == ["zoos"]


def test_what_stands_in_one_list_only_is_marked():
    shown = view(Listing("one", ["cruel", "both"]), Listing("two", ["both", "save"]))
    only = [[row["docno"] for row in one["rows"] if row["only_here"]] for one in shown["lists"]]
    assert only == [["cruel"], ["save"]]
    assert not any(row["only_here"] for row in view(right=Listing("two"))["lists"][0]["rows"])  # not known yet


@pytest.mark.parametrize(
    ("docnos", "said", "hidden"),
    [
        ([], "finds nothing", [0, 1]),
        (["tea"], "shows 0 of 2 perspectives; 1 of 1 passage ", [0, 1]),
        (["both"], "shows 2 of 2 perspectives; 0 of 1 passage ", []),
        (["save", "cruel"], "shows 2 of 2 perspectives; 0 of 2 passages argue none", []),
    ],
)
def test_what_is_said_of_a_list(docnos, said, hidden):
    one = view(Listing("one", docnos))["lists"][0]
    assert one["said"].startswith(said) and one["hidden"] == hidden
    assert not one["searching"] and not one["problem"]


def test_while_it_searches_or_judges_a_list_says_nothing():
    searching, there = view(Listing("one"))["lists"]
    assert searching["searching"] and not searching["rows"] and not searching["said"] and not searching["figures"]
    assert not there["searching"] and there["said"]
    judging = view(verdicts=None)
    assert not judging["judged"]
    for one in judging["lists"]:
        assert not one["said"] and not one["figures"] and not one["searching"]
        assert one["rows"] and all(row["argues"] == [] for row in one["rows"])


def test_a_problem_stands_in_its_list_and_the_other_is_told_of():
    shown = view(Listing("bad", problem="no such \u202emodel"))
    bad, good = shown["lists"]
    assert bad["problem"] == "no such ⟨U+202E⟩model" and not bad["searching"] and not bad["rows"]
    assert good["figures"] and good["hidden"] == [1]


def test_without_perspectives_nothing_is_marked():
    bare = ZOOS._replace(perspectives=(), stances=())
    shown = view(question=bare, verdicts=make_verdicts([], "none"))
    assert shown["perspectives"] == []
    for one in shown["lists"]:
        assert one["rows"] and not one["said"] and not one["figures"] and not one["hidden"]
    assert view(Listing("one", []), question=bare, verdicts=make_verdicts([], "none"))["lists"][0]["said"]


def test_long_passages_are_cut_and_say_so():
    shown = view(longest=5)["passages"]
    assert shown["tea"]["text"] == "Tea i" and shown["tea"]["cut"]
    exact = view(longest=len(TEXTS["tea"]))["passages"]["tea"]
    assert exact["text"] == TEXTS["tea"] and not exact["cut"]


hostile = st.text(alphabet=st.one_of(st.characters(), st.sampled_from("<>&\"'/\u2028\u202e\u200d\ud800\x00")))


@settings(deadline=None, max_examples=40)
@given(hostile, hostile, hostile)
def test_a_view_is_strict_json_whatever_the_texts_are(question, perspective, text):
    asked = bd.Question("q", question, (perspective,), source=text)
    passages = {"d": bd.Passage("d", text, perspective)}
    lists = [Listing(text, ["d"]), Listing(perspective, problem=text)]
    shown = view_of(asked, lists, make_verdicts([], "none"), passages, 5, asked=perspective, judge=text)
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    json.dumps(shown, ensure_ascii=False, allow_nan=False).encode()  # nothing that no browser could be sent


# ---------------------------------------------------------------- figures, leaning


def values(docnos, k, question=ZOOS):
    supported = {"cruel": [0], "save": [1], "both": [0, 1]}
    return {one["name"]: one["value"] for one in figures_of(question, [supported.get(d, ()) for d in docnos], k)}


@pytest.mark.parametrize(
    ("docnos", "k", "mrecall", "coverage", "precision", "leaning"),
    [
        (["cruel", "tea"], 2, 0, 0.5, 0.5, 1),
        (["tea", "both"], 2, 1, 1, 0.5, 0),
        (["tea", "save", "save2"], 3, 0, 0.5, 1 / 3, -1),
        (["cruel", "both"], 4, 1, 1, 0.5, 1 / 3),  # a shorter list still counts four places; (2 - 1) / (2 + 1)
        (["cruel"], 1, 1, 0.5, 1, 1),  # one place can show no more than one perspective
        (["tea"], 1, 0, 0, 0, None),
        ([], 5, 0, 0, 0, None),
    ],
)
def test_figures_worked_out_by_hand(docnos, k, mrecall, coverage, precision, leaning):
    found = values(docnos, k)
    wanted = {f"MRecall@{k}": mrecall, f"Coverage@{k}": coverage, f"Precision@{k}": precision, "leaning": leaning}
    assert {name: value if value is None else round(value, 9) for name, value in found.items()} == {
        name: value if value is None else round(value, 9) for name, value in wanted.items()
    }
    assert all(value is None or type(value) is float for value in found.values())


@settings(deadline=None, max_examples=40)
@given(
    st.permutations(["d0", "d1", "d2", "d3", "d4", "d5"]),
    st.sets(st.tuples(st.integers(0, 2), st.sampled_from(["d0", "d1", "d2", "d3", "d4", "d5"]))),
    st.integers(1, 6),
)
def test_figures_are_those_of_evaluate(docnos, argued, k):
    question = bd.Question("q", "Which?", ("A.", "B.", "C."))
    verdicts = make_verdicts([("q", pid, docno, 1.0, True) for pid, docno in argued], "hand")
    supported = [[pid for pid in range(3) if (pid, docno) in argued] for docno in docnos]
    names = [f"MRecall@{k}", f"Coverage@{k}", f"Precision@{k}"]
    whole = bd.evaluate(ranked_run({"q": docnos}), verdicts, [question], names).iloc[0]
    found = figures_of(question, supported, k)
    assert {one["name"]: one["value"] for one in found} == {name: whole[name] for name in names}


def test_leaning_needs_both_sides_to_be_recorded():
    assert "leaning" in values(["cruel"], 1)
    for stances in ((), (None, None), ("support", None), ("oppose", "oppose")):
        assert "leaning" not in values(["cruel"], 1, ZOOS._replace(stances=stances))


def test_leaning_counts_passages_not_perspectives():
    four = bd.Question("q", "?", ("a", "b", "c", "d"), ("support", "support", "oppose", None))
    assert leaning_of(four, [[0, 1], [2], [1, 2], [3]]) == 0
    assert leaning_of(four, [[0, 1], [3]]) == 1
    assert leaning_of(four, [[3]]) is None


# ---------------------------------------------------------------- how alike two lists are

lists_of_five = st.permutations("abcdefg").map(lambda order: order[:5])


@given(lists_of_five, lists_of_five, st.integers(1, 5))
def test_overlap_counts_shared_pairs_of_places(one, other, k):
    """A passage at places i and j is shared from depth max(i, j) on: another way to the same sum."""
    shared = [(i, j) for i, a in enumerate(one, 1) for j, b in enumerate(other, 1) if a == b]
    by_places = sum(sum(1 / d for d in range(max(i, j), k + 1)) for i, j in shared) / k
    assert top_overlap(one, other, k) == pytest.approx(by_places)


def test_overlap_by_hand():
    assert top_overlap("abc", "acb", 3) == pytest.approx((1 + 1 / 2 + 1) / 3)
    assert top_overlap("abc", "xyz", 3) == 0
    assert top_overlap("abc", "abx", 2) == 1  # the third place is below the cut-off
    assert top_overlap("a", "ab", 2) == pytest.approx((1 + 1 / 2) / 2)
    assert top_overlap("a", "a", 5) == 1  # however short


# ---------------------------------------------------------------- matched words


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


# ---------------------------------------------------------------- colours


def contrast(one, other):
    """The contrast ratio of WCAG 2.2, written from its definitions of relative luminance and contrast."""

    def luminance(colour):
        number = int(colour.lstrip("#"), 16)
        total = 0.0
        for weight, shift in ((0.2126, 16), (0.7152, 8), (0.0722, 0)):
            share = (number >> shift & 255) / 255
            total += weight * (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4)
        return total

    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


@given(st.integers(0, 0xFFFFFF).map("#{:06X}".format))
def test_ink_is_the_one_of_more_contrast_and_always_enough(colour):
    ratios = {ink: contrast(colour, ink) for ink in ("#000000", "#ffffff")}
    assert ratios[ink_on(colour)] >= max(ratios.values()) - 1e-9
    assert ratios[ink_on(colour)] >= 4.5


def test_marks_of_perspectives():
    question = bd.Question("q", "?", tuple(f"p{i}" for i in range(28)), ("oppose", *[None] * 27))
    marks = perspective_marks(question)
    assert [one["letter"] for one in (marks[0], marks[25], marks[26])] == ["A", "Z", "26"]
    assert (marks[0]["stance"], marks[1]["stance"]) == ("oppose", "")
    assert [one["colour"] for one in marks[:9]] == [*PALETTE, PALETTE[0]]
    assert perspective_marks(ZOOS._replace(stances=()))[1]["stance"] == ""


# ---------------------------------------------------------------- where two systems differ most

letters = st.lists(st.sampled_from("abcdef"), max_size=4, unique=True)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(letters, letters), min_size=1, max_size=5), st.sets(st.sampled_from("abcdef")), st.data())
def test_the_order_of_questions_is_that_of_comparing_every_two(lists, first_side, data):
    k = data.draw(st.integers(1, 4))
    second_side = data.draw(st.sets(st.sampled_from("abcdef")))
    questions = [bd.Question(f"q{i}", f"Question {i}?", ("A.", "B.")) for i in range(len(lists))]

    def argues(docno):
        return [pid for pid, side in enumerate((first_side, second_side)) if docno in side]

    pairs = [[[(docno, argues(docno)) for docno in one[:k]] for one in pair] for pair in lists]
    found = by_change(change_of(q, pair, k) for q, pair in zip(questions, pairs, strict=True))

    def scores(docnos):
        sides = [bool(set(docnos[:k]) & side) for side in (first_side, second_side)]
        return (int(sum(sides) >= min(2, k)), sum(sides) / 2, len(set(docnos[:k]) & (first_side | second_side)) / k)

    wanted = {
        q.qid: [b - a for a, b in zip(scores(left), scores(right), strict=True)] + [top_overlap(left[:k], right[:k], k)]
        for q, (left, right) in zip(questions, lists, strict=True)
    }
    assert sorted(one.qid for one in found) == sorted(wanted)
    for row in found:
        assert [row.MRecall, row.Coverage, row.Precision, row.overlap] == pytest.approx(wanted[row.qid])
        assert row.text == f"Question {row.qid[1:]}?"

    def told(qid):
        mrecall, coverage, _, overlap = wanted[qid]
        return (-abs(mrecall), -abs(coverage), round(overlap, 9), qid)

    assert all(told(a) <= told(b) for a, b in itertools.pairwise(one.qid for one in found))
