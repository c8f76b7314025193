"""Training pairs: windows, sources on small files written here, the split by topic, what the shipped judge learnt."""

import hashlib
import json
import random
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training.contrast import mixed
from training.laptop import like_the_web
from training.pairs import LAPTOP_SHARES, NEAR_TOPIC, build, is_held_out, plain_motion, split_by_topic, window

from berdslib.data.datasets import dataset
from berdslib.errors import InputError, MissingDataError
from berdslib.judging.examples import Example


def test_motions_become_statements():
    assert plain_motion(" This house would ban boxing ") == "We should ban boxing"
    assert plain_motion("this house BELIEVES that size matters") == "Size matters"
    assert plain_motion("This house believes in God") == "This house believes in God"
    assert plain_motion("Boxing is bad") == "Boxing is bad"


@given(st.integers(0, 300), st.integers(0, 99), st.integers(1, 120))
def test_a_window_is_neighbouring_words(n, seed, words):
    text = "  ".join(f"w{i}" for i in range(n))
    found = window(text, random.Random(seed), words).split()
    assert len(found) == min(n, words)
    if found:
        first = int(found[0][1:])
        assert found == [f"w{i}" for i in range(first, first + len(found))]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Write a file of a data set where BERDS_DATA has it; what is not written is not there."""
    monkeypatch.setenv("BERDS_DATA", str(tmp_path))
    monkeypatch.setenv("BERDS_CACHE", str(tmp_path / "cache"))

    def write(name, content, number=0):
        path = tmp_path / dataset(name).local[number]
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = "".join(json.dumps(row) + "\n" for row in content)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")

    return write


def debate(claim, side, title, text):
    return {"_id": title, "title": title, "text": text, "metadata": {"claim": claim, "stance": side}}


def test_debates(place):
    zoos, cars = "Zoos should close", "Cars are bad"
    place("perspectrum-debates", [
        debate(zoos, "pro", "Cages are cruel", "Animals suffer."),
        debate(zoos, "con", " Zoos save species ", "They breed."),
        debate(cars, "pro", "Smoke is deadly", "Smoke kills."), debate(cars, "con", "", "They are fast."),
    ])  # fmt: skip
    titles = {
        "Cages are cruel": "Animals suffer.",
        "Zoos save species": "They breed.",
        "Smoke is deadly": "Smoke kills.",
    }
    examples = build(["debates"])
    plain = [e for e in examples if e.document in ("Animals suffer.", "They breed.", "Smoke kills.", "They are fast.")]
    titled = [e for e in examples if e not in plain]
    # The document may begin with its title; then it is judged by the claim only.
    assert {e.document for e in titled} <= {f"{title} {text}" for title, text in titles.items()}
    assert {e.kind for e in titled} <= {"debate:claim", "debate:negated claim"}

    def bare(text):
        return next((untitled for title, untitled in titles.items() if text == f"{title} {untitled}"), text)

    assert sorted((bare(e.document), e.statement, e.supports, e.topic, e.kind) for e in examples) == sorted([
        ("Animals suffer.", zoos, True, zoos, "debate:claim"),
        ("Animals suffer.", "Zoos should not close", False, zoos, "debate:negated claim"),
        ("Animals suffer.", cars, False, zoos, "debate:other claim"),
        ("Animals suffer.", "Cages are cruel", True, zoos, "debate:point"),
        ("Animals suffer.", "Cages are not cruel", False, zoos, "debate:negated point"),
        ("Animals suffer.", "Zoos save species", False, zoos, "debate:opposite point"),
        ("They breed.", zoos, False, zoos, "debate:claim"),
        ("They breed.", "Zoos should not close", True, zoos, "debate:negated claim"),
        ("They breed.", cars, False, zoos, "debate:other claim"),
        ("They breed.", "Zoos save species", True, zoos, "debate:point"),
        ("They breed.", "Zoos do not save species", False, zoos, "debate:negated point"),
        ("They breed.", "Cages are cruel", False, zoos, "debate:opposite point"),
        ("Smoke kills.", cars, True, cars, "debate:claim"),
        ("Smoke kills.", "Cars are not bad", False, cars, "debate:negated claim"),
        ("Smoke kills.", zoos, False, cars, "debate:other claim"),
        ("Smoke kills.", "Smoke is deadly", True, cars, "debate:point"),
        ("Smoke kills.", "Smoke is not deadly", False, cars, "debate:negated point"),
        # An argument without a title argues no point of its own, and is no opposite of others.
        ("They are fast.", cars, False, cars, "debate:claim"),
        ("They are fast.", "Cars are not bad", True, cars, "debate:negated claim"),
        ("They are fast.", zoos, False, cars, "debate:other claim"),
        ("They are fast.", "Smoke is deadly", False, cars, "debate:opposite point"),
    ])  # fmt: skip


_CLAIMS = "topicText,claims.stance,claims.claimCorrectedText,claims.claimOriginalText,claims.article.rawFile\n"


_MOTION = "This house would ban boxing"


def test_claims(place):
    words = [f"w{i}" for i in range(300)]
    place("claim-stance", _CLAIMS + f"{_MOTION},PRO,Boxing kills men.,W150   w151,articles/t1/raw_7.txt\n"
          f"{_MOTION},CON,It is a sport.,not in there,articles/t1/raw_7.txt\n")  # fmt: skip
    place("wikipedia-articles", [{"_id": "t1/7", "title": "", "text": "\n ".join(words)}])
    ban, allow = "We should ban boxing", "We should not ban boxing"
    examples = build(["claims"])
    assert {e.topic for e in examples} == {ban} and len(examples) == 8
    windows = [e for e in examples if e.document.startswith("w")]
    assert {(e.statement, e.supports, e.kind) for e in windows} == {
        (ban, True, "claim:window"), (allow, False, "claim:window, negated topic")
    }  # fmt: skip
    (document,) = {e.document for e in windows}
    first = words.index(document.split()[0])
    assert document.split() == words[first : first + 100] and 100 <= first <= 145
    assert sorted(e[:3] + e[4:5] for e in examples if e not in windows) == sorted([
        ("W150 w151", ban, True, "claim:bare"), ("W150 w151", allow, False, "claim:bare, negated topic"),
        # A claim that its article does not hold stands alone, as its corrected text.
        ("It is a sport.", ban, False, "claim:window"), ("It is a sport.", allow, True, "claim:window, negated topic"),
        ("not in there", ban, False, "claim:bare"), ("not in there", allow, True, "claim:bare, negated topic"),
    ])  # fmt: skip


def test_neutral_windows_hold_no_claim(place):
    place("claim-stance", _CLAIMS + f"{_MOTION},PRO,c,W150 w151,articles/t1/raw_7.txt\n")
    place("wikipedia-articles", [
        {"_id": "t1/7", "title": "", "text": " ".join(f"w{i}" for i in range(300))},
        {"_id": "t1/8", "title": "", "text": "too short to say anything"},
        {"_id": "t1/9", "title": "", "text": " ".join(f"w{i}" for i in range(300))},  # nobody found the claim here
        {"_id": "t2/1", "title": "", "text": " ".join(f"v{i}" for i in range(300))},  # nor labelled this topic
    ])  # fmt: skip
    examples = [e for seed in range(30) for e in build(["neutral"], seed)]
    assert {e.statement for e in examples} == {"We should ban boxing", "We should not ban boxing"}
    assert not any(e.supports for e in examples) and {e.topic for e in examples} == {"We should ban boxing"}
    assert all(len(e.document.split()) == 100 and e.document.startswith("w") for e in examples)
    both_articles = sum("w150 w151" in e.document for e in examples)
    assert 120 < len(examples) < 240 and 0 < both_articles < 120  # 120 from t1/9, those without the claim from t1/7


def test_beliefs(place):
    place("explagraphs", "belief\targument\tstance\nRome is fun\tIt bores.\tcounter\nRome is fun\tIt sings.\tsupport\n")
    assert sorted(build(["beliefs"])) == sorted([
        Example("It bores.", "Rome is fun", False, "Rome is fun", "belief"),
        Example("It bores.", "Rome is not fun", True, "Rome is fun", "belief:negated"),
        Example("It sings.", "Rome is fun", True, "Rome is fun", "belief"),
        Example("It sings.", "Rome is not fun", False, "Rome is fun", "belief:negated"),
    ])  # fmt: skip


def test_same_seed_same_examples(place):
    place("perspectrum-debates", [
        debate(f"Claim {i % 4} is true", "con" if i % 3 else "pro", f"Point {i} is good",
               " ".join(f"t{i}w{j}" for j in range(200)))
        for i in range(24)
    ])  # fmt: skip
    place("explagraphs", "belief\targument\tstance\nRome is fun\tIt bores.\tcounter\n")
    first = build(["debates", "beliefs"], seed=3)
    assert first == build(["debates", "beliefs"], seed=3)
    assert first != build(["debates", "beliefs"], seed=4)
    # What a source gives does not depend on which others are asked.
    assert sorted(build(["beliefs", "debates"], seed=3)) == sorted(first)
    assert sorted(e for e in first if e.kind.startswith("debate")) == sorted(build(["debates"], seed=3))
    assert first != sorted(first)  # in a drawn order


def test_what_cannot_be_built(place):
    with pytest.raises(InputError, match=r"unknown source of training pairs 'debate'.*'debates'"):
        build(["debate"])
    with pytest.raises(MissingDataError, match="'argkp', training pairs: not on this machine"):
        build(["key_points"])
    place("explagraphs", "belief\targument\tstance\nRome is fun\t \tcounter\n")
    with pytest.raises(InputError, match=r"explagraphs.tsv:2 \[argument\]: is blank"):
        build(["beliefs"])


def topic_examples(n):
    return [Example(f"doc {i} {j}", f"s {i}", j == 0, f"Topic {i}?", "t") for i in range(n) for j in range(2)]


def encode(texts):
    """Vectors on a circle: topic 10k + 1 is near to topic 10k, cosine 0.98; all else is far."""
    numbers = [int("".join(filter(str.isdigit, t))) for t in texts]
    vectors = np.zeros((len(texts), 500), dtype=np.float32)
    for row, n in enumerate(numbers):
        if n % 10 == 1:
            vectors[row, n - 1], vectors[row, n] = 0.98, np.sqrt(1 - 0.98**2)
        else:
            vectors[row, n] = 1
    return vectors


def test_neither_held_out_topics_nor_near_ones_are_trained_on():
    examples = topic_examples(500)
    training, held = split_by_topic(examples, encode, one_in=5)
    trained, held_topics = {e.topic for e in training}, {e.topic for e in held}
    assert held_topics == {e.topic for e in examples if is_held_out(e.topic, 5)}
    assert not trained & held_topics
    dropped = {e.topic for e in examples} - trained - held_topics
    by_hand = {f"Topic {i + d}?" for i in range(0, 500, 10) for d in (0, 1)
               if f"Topic {i + 1 - d}?" in held_topics and f"Topic {i + d}?" not in held_topics}  # fmt: skip
    assert dropped == by_hand and len(dropped) > 3
    cosine = encode(sorted(trained)) @ encode(sorted(held_topics)).T
    assert cosine.max() < NEAR_TOPIC
    # In the order they came, nothing twice, nothing lost but the near ones.
    assert training == [e for e in examples if e.topic in trained] and held == [
        e for e in examples if e.topic in held_topics
    ]
    assert split_by_topic(examples, encode, one_in=5, near=2.0)[0] != training


def test_a_held_out_text_is_not_trained_on_under_another_topic():
    examples = topic_examples(60)
    held = next(e for e in split_by_topic(examples, encode)[1])
    other = next(e for e in split_by_topic(examples, encode)[0])
    copies = [other._replace(document=held.document), other._replace(statement=held.statement),
              other._replace(statement=held.topic)]  # fmt: skip
    training, held_out = split_by_topic([*examples, *copies], encode)
    assert not set(copies) & {*training, *held_out} and other in training and held in held_out


def test_a_topic_is_held_out_by_its_words_alone():
    assert is_held_out("Ban boxing!") == is_held_out("  ban   BOXING") and not is_held_out("Zoos", one_in=10**9)
    assert all(is_held_out(f"t{i}", 1) for i in range(5))
    share = np.mean([is_held_out(f"topic {i}") for i in range(3000)])
    assert 0.08 < share < 0.12


def test_too_few_topics_are_refused():
    for examples in (topic_examples(1), []):
        with pytest.raises(InputError, match="too few to hold one in 10 out"):
            split_by_topic(examples, encode)


def test_what_quotes_a_held_out_passage_is_not_trained_on():
    """A window on another topic that overlaps with a held-out passage by a dozen words would teach it."""
    held = next(f"topic {i}" for i in range(100) if is_held_out(f"topic {i}"))
    others = [f"topic {i}" for i in range(100) if not is_held_out(f"topic {i}")]
    words = [f"w{i}" for i in range(40)]
    passage = " ".join(words[:30])
    rows = [
        Example(passage, "s0", True, held, "x"),
        Example("A start. " + " ".join(words[10:22]).upper() + ", an end.", "s1", True, others[0], "quotes twelve"),
        Example("A start. " + " ".join(words[10:21]) + ", an end.", "s2", True, others[1], "quotes eleven"),
        Example("Nothing of it.", "s3", True, others[2], "other"),
    ]

    def encode(texts):
        return np.eye(128, dtype=np.float32)[[int(re.sub(r"\D", "", t)) for t in texts]]

    training, held_out = split_by_topic(rows, encode)
    assert [e.kind for e in training] == ["quotes eleven", "other"] and held_out == rows[:1]
    beside = [Example("Nothing of it.", "s", True, others[3], "measured as well")]
    assert [e.kind for e in split_by_topic(rows, encode, beside=beside)[0]] == ["quotes eleven"]
    same_topic = [Example("Something else.", "s", True, others[1], "measured as well")]
    assert [e.kind for e in split_by_topic(rows, encode, beside=same_topic)[0]] == ["other"]


# ---------------------------------------------------------------- the real data


@pytest.mark.slow
def test_the_shipped_judge_learnt_from_these_pairs(real_data):
    """What its first pass draws from, and what it was calibrated on; another pair would make other weights."""
    found = mixed(LAPTOP_SHARES), like_the_web(LAPTOP_SHARES)
    marks = [hashlib.sha256(json.dumps(examples).encode()).hexdigest()[:16] for examples in found]
    assert marks == ["b7e7819a7de249a4", "4b966c9dd01c957e"] and [len(examples) for examples in found] == [95313, 2799]
