"""Pairs labelled elsewhere: what belongs to one story, and the two halves."""

import hashlib

import pytest
from stance import StancePair, fake_news, half_of, of_half, related

from berdslib.errors import InputError

BODIES = 'Body ID,articleBody\n1,"A cat, they say,\n\nclimbed a tree. It is up there."\n2,No cat did.\n'
STANCES = "Headline,Body ID,Stance\nCat in tree,2,disagree\nCat in tree,1,agree\nCat story,1,discuss\nWar,2,unrelated\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "stances.csv").write_text(STANCES)
    (tmp_path / "bodies.csv").write_text(BODIES)
    return tmp_path / "stances.csv", tmp_path / "bodies.csv"


def test_fake_news_by_hand(files):
    article = "A cat, they say, climbed"
    found = fake_news(*files, words=5)
    assert found == [
        StancePair("1", article, "Cat in tree", True, "agree"),
        StancePair("1", article, "Cat story", False, "discuss"),
        StancePair("1", "No cat did.", "Cat in tree", False, "disagree"),
        StancePair("1", "No cat did.", "War", False, "unrelated"),
    ]
    assert related(found) == found[:3]


def test_a_story_is_what_headlines_and_repeated_texts_connect(files):
    # 9 and 30 share headline h1, 30 and 4 headline h2; 5 repeats the text of 4. Only unrelated headlines lead to 7.
    texts = {"9": "nine", "30": "thirty", "4": "four", "5": "four", "7": "seven", "8": "eight"}
    rows = ["h1,9,agree", "h1,30,discuss", "h2,30,disagree", "h2,4,agree", "h3,7,unrelated", "h1,7,unrelated",
            "h3,8,agree", "h3,9,unrelated", "h1,9,agree", "h4,5,agree", "h4,8,unrelated"]  # fmt: skip
    stances, bodies = files
    bodies.write_text("Body ID,articleBody\n" + "".join(f"{i},{text}\n" for i, text in texts.items()))
    stances.write_text("Headline,Body ID,Stance\n" + "".join(f"{row}\n" for row in rows))
    found = fake_news(stances, bodies)
    assert {(p.document, p.question) for p in found} == {
        ("nine", "30"), ("thirty", "30"), ("four", "30"), ("seven", "7"), ("eight", "8")
    }  # fmt: skip
    assert len(found) == len(rows) - 1  # the first row is there twice
    # The order of the rows changes neither what belongs together nor what it is called.
    stances.write_text("Headline,Body ID,Stance\n" + "".join(f"{row}\n" for row in reversed(rows)))
    assert set(fake_news(stances, bodies)) == set(found)


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
