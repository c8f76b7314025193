"""Training pairs: windows, the split by topic, what the shipped judge learnt."""

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
from training.pairs import LAPTOP_SHARES, NEAR_TOPIC, is_held_out, plain_motion, split_by_topic, window

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
