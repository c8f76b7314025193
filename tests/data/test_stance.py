"""Pairs labelled elsewhere: what each file becomes, what is wrong with it, and the two halves."""

import hashlib
from collections import Counter

import pytest

from berdslib.data.stance import (
    EVIDENCE,
    NEGATED,
    NO_EVIDENCE,
    OTHER_SIDE,
    OWN,
    PROPOSAL,
    SAME_SIDE,
    StancePair,
    at_most,
    fake_news,
    half_of,
    held_out,
    iam_evidence,
    iam_stance,
    of_half,
    points,
    related,
)
from berdslib.errors import InputError

BODIES = 'Body ID,articleBody\n1,"A cat, they say,\n\nclimbed a tree. It is up there."\n2,No cat did.\n'
STANCES = "Headline,Body ID,Stance\nCat in tree,2,disagree\nCat in tree,1,agree\nCat story,1,discuss\nWar,2,unrelated\n"
SIDES = "C\tShould we ban cats\tCats kill birds.\t7_1\t1\nC\tShould we ban cats\tCats are kind.\t7_1\t-1\n"
SENTENCES = (
    "C\tShould we ban cats\tE\tCats kill birds.\tA study counted birds that died.\t7_1\tE-B-0\n"
    "\n"
    "O\tShould we ban cats\tO\tCats kill birds.\tA heading\t7_1\tO\n"
    "O\tShould we ban cats\tO\tCats kill birds.\tThe lion is a cat.\t7_1\tO\n"
)


CORPUS = "".join(f'{{"id": {i}, "content": "passage  {i}"}}\n' for i in range(4))
QUERIES = (
    '{"id": "q1", "response1": ["Cats purr.", "Cats sleep."], "response2": ["Cats scratch."], '
    '"favor_ids": [0, 1], "against_ids": [2]}\n'
)


@pytest.fixture
def folder(tmp_path):
    files = {"fnc1_bodies.csv": BODIES, "fnc1_stances.csv": STANCES, "iam_stance.tsv": SIDES,
             "iam_evidence.tsv": SENTENCES, "corpus.jsonl": CORPUS, "queries.jsonl": QUERIES}  # fmt: skip
    for name, text in files.items():
        path = tmp_path / ("theperspective" if name.endswith("jsonl") else "stance") / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_fake_news_by_hand(folder):
    article = "A cat, they say, climbed"
    found = fake_news(folder / "stance" / "fnc1_stances.csv", folder / "stance" / "fnc1_bodies.csv", words=5)
    assert found == [
        StancePair("1", article, "Cat in tree", True, "agree"),
        StancePair("1", article, "Cat story", False, "discuss"),
        StancePair("2", "No cat did.", "Cat in tree", False, "disagree"),
        StancePair("2", "No cat did.", "War", False, "unrelated"),
    ]
    assert related(found) == found[:3]


def test_iam_stance_asks_the_proposal_and_its_negation(folder):
    asked = "Should we ban cats"
    assert iam_stance(folder / "stance" / "iam_stance.tsv") == [
        StancePair(asked, "Cats kill birds.", "We should ban cats", True, PROPOSAL),
        StancePair(asked, "Cats kill birds.", "We should not ban cats", False, NEGATED),
        StancePair(asked, "Cats are kind.", "We should ban cats", False, PROPOSAL),
        StancePair(asked, "Cats are kind.", "We should not ban cats", True, NEGATED),
    ]


def test_a_question_that_proposes_nothing_is_left_out(folder):
    (folder / "stance" / "iam_stance.tsv").write_text("C\tAre cats kind\tThey purr a lot.\t1\t1\n" + SIDES)
    assert {p.question for p in iam_stance(folder / "stance" / "iam_stance.tsv")} == {"Should we ban cats"}


def test_iam_evidence_leaves_headings_out(folder):
    found = iam_evidence(folder / "stance" / "iam_evidence.tsv")
    assert [(p.document, p.label, p.kind) for p in found] == [
        ("A study counted birds that died.", True, EVIDENCE),
        ("The lion is a cat.", False, NO_EVIDENCE),
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("fnc1_stances.csv", STANCES + "x,1,maybe\n", r"fnc1_stances\.csv:6 \[Stance\]: 'maybe' is not a stance"),
        ("fnc1_stances.csv", STANCES + "x,9,agree\n", r"fnc1_stances\.csv:6 \[Body ID\]: there is no article '9'"),
        ("fnc1_stances.csv", "Headline,Stance\nx,agree\n", r"fnc1_stances\.csv:2 \[Body ID\]: missing"),
        ("fnc1_stances.csv", "Headline,Body ID,Stance\n", r"fnc1_stances\.csv: holds no pairs"),
        ("fnc1_bodies.csv", BODIES + "2,Again.\n", r"fnc1_bodies\.csv:6 \[Body ID\]: article '2' is there twice"),
        ("fnc1_bodies.csv", BODIES + "3, \n", r"fnc1_bodies\.csv:6 \[articleBody\]: is blank"),
        ("iam_stance.tsv", SIDES + "C\tq\tc\t1\n", r"iam_stance\.tsv:3: 4 columns, not 5"),
        ("iam_stance.tsv", SIDES + "C\tShould we\t \t1\t1\n", r"iam_stance\.tsv:3 \[claim\]: is blank"),
        ("iam_stance.tsv", SIDES + "C\tShould we\tc\t1\t0\n", r"iam_stance\.tsv:3 \[side\]: '0' is not a side"),
        ("iam_stance.tsv", "\n", r"iam_stance\.tsv: holds no pairs"),
        ("iam_evidence.tsv", SIDES, r"iam_evidence\.tsv:1: 5 columns, not 7"),
        ("queries.jsonl", QUERIES.replace("[2]", "[9]"), r"queries\.jsonl:1 \[against_ids\]: no passage '9'"),
        ("queries.jsonl", QUERIES.replace("[0, 1]", "[0]"), r"\[favor_ids\]: 1 passages for 2 points"),
        ("queries.jsonl", QUERIES.replace("response2", "response3"), r"queries\.jsonl:1 \[response2\]"),
        ("queries.jsonl", "", r"queries\.jsonl: holds no pairs"),
        ("corpus.jsonl", CORPUS + '{"id": 7}\n', r"corpus\.jsonl:5 \[content\]: missing"),
        ("iam_evidence.tsv", "O\tq\tX\tc\ts\t1\tO\n", r"iam_evidence\.tsv:1 \[evidence label\]: 'X' is not a label"),
    ],
    ids=range(17),
)
def test_what_cannot_be_read_names_file_line_and_field(folder, name, text, message):
    next(folder.glob(f"*/{name}")).write_text(text)
    with pytest.raises(InputError, match=message):
        held_out(folder, "all")


def test_passages_are_asked_about_every_point_of_their_question(folder):
    found = points(folder / "theperspective" / "queries.jsonl", folder / "theperspective" / "corpus.jsonl")
    assert [(p.document, p.perspective, p.kind) for p in found] == [
        ("passage 0", "Cats purr.", OWN), ("passage 1", "Cats purr.", SAME_SIDE),
        ("passage 2", "Cats purr.", OTHER_SIDE),
        ("passage 0", "Cats sleep.", SAME_SIDE), ("passage 1", "Cats sleep.", OWN),
        ("passage 2", "Cats sleep.", OTHER_SIDE), ("passage 0", "Cats scratch.", OTHER_SIDE),
        ("passage 1", "Cats scratch.", OTHER_SIDE), ("passage 2", "Cats scratch.", OWN),
    ]  # fmt: skip
    assert all(p.label == (p.kind == OWN) and p.question == "q1" for p in found)


def test_a_file_that_is_missing_is_named(folder):
    (folder / "stance" / "iam_stance.tsv").unlink()
    with pytest.raises(InputError, match=r"iam_stance\.tsv: no such file"):
        held_out(folder, "all")


def test_halves_go_by_the_last_bit_of_the_hash_and_share_no_article():
    pairs = [StancePair(str(i // 3), f"d{i}", "s", True, "k") for i in range(300)]
    a, b = of_half(pairs, "A"), of_half(pairs, "B")
    assert sorted(a + b) == sorted(pairs) == sorted(of_half(pairs, "all"))
    assert {p.question for p in a}.isdisjoint(p.question for p in b) and min(len(a), len(b)) > 100
    for pair in pairs:
        even = hashlib.sha256(pair.question.encode()).digest()[-1] % 2 == 0
        assert half_of(pair.question) == ("A" if even else "B")
    with pytest.raises(InputError, match="unknown half 'C'"):
        of_half(pairs, "C")


def test_a_draw_bounds_each_kind_and_keeps_the_order():
    pairs = [StancePair("q", str(i), "s", i % 5 == 0, "yes" if i % 5 == 0 else "no") for i in range(100)]
    drawn = at_most(pairs, 30, seed=1)
    assert Counter(p.kind for p in drawn) == {"yes": 20, "no": 30}
    assert [int(p.document) for p in drawn] == sorted(int(p.document) for p in drawn)
    assert drawn == at_most(pairs, 30, seed=1) != at_most(pairs, 30, seed=2)
    assert at_most(pairs, 0) == pairs
    with pytest.raises(InputError, match="at least 0"):
        at_most(pairs, -1)


def test_a_half_without_pairs_is_an_error(folder):
    empty = "B" if half_of("Should we ban cats") == "A" else "A"
    with pytest.raises(InputError, match=f"no pairs of half '{empty}' in iam"):
        (folder / "stance" / "fnc1_bodies.csv").write_text(BODIES + "3,x\n")
        (folder / "stance" / "fnc1_stances.csv").write_text(STANCES + "y,3,agree\n")
        held_out(folder, empty)


@pytest.mark.real_data
def test_half_a_of_the_files_of_others(real_data):
    found = held_out(real_data, "A")
    assert {name: len(pairs) for name, pairs in found.items()} == {
        "fake news, related": 3280, "fake news": 12296, "iam stance": 2294, "iam evidence": 6202, "points": 2556
    }  # fmt: skip
    kinds = Counter(p.kind for p in found["fake news"])
    assert kinds == {"agree": 897, "disagree": 337, "discuss": 2046, "unrelated": 9016}
