"""Contrasts: passages put together by hand-made rules, each kind on one small debate, and from small files."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training import contrast
from training.contrast import (
    KINDS,
    Debate,
    Surroundings,
    Trio,
    place,
)

WORDS = [f"w{i}" for i in range(120)]


ZOOS = Debate(
    "Zoos should be closed.",
    {
        True: [["Cages make animals ill.", "Animals suffer in cages"], ["Zoos increase cruelty."]],
        False: [["Children learn from zoos."], ["Zoos save rare species.", "Breeding in zoos saves species"]],
    },
)


TRIO = Trio("Cages make animals ill.", "Zoos save rare species.", "Zoos increase cruelty.")


LIONS = "The lion is a large cat. It lives in zoos and in Africa. Lions sleep most of the day. They hunt at night."


BOATS = "Boats float on water. Some have sails. A ship is a large boat. Ports are where they stay."


@pytest.fixture
def around():
    return Surroundings([LIONS, BOATS], near=1)


def made(kind, around, side=True, seed=0):
    return list(KINDS[kind](ZOOS, TRIO, side, around, random.Random(seed)))


@given(st.integers(0, 130), st.integers(1, 150), st.integers(0, 10**6))
def test_a_passage_holds_the_core_and_what_was_beside_it(n, length, seed):
    """Whatever the lengths: never over the limit but by the core itself, and as long as the text allows."""
    core = " ".join(f"core{i}" for i in range(length))
    sentences = [f"{w}." if i % 7 == 6 else w for i, w in enumerate(WORDS[:n])]
    around = " ".join(w.capitalize() if i % 7 == 0 else w for i, w in enumerate(sentences))
    words = place(core, around, random.Random(seed)).split()
    assert core in " ".join(words)
    assert len(words) == max(length, min(100, n + length))
    rest = [w for w in words if not w.startswith("core")]
    assert " ".join(rest) in around  # one stretch, with nothing left out


def test_an_inserted_sentence_decides(around):
    argued, other, opposed, cut = made("inserted", around)
    assert argued.supports and TRIO.own in argued.document and argued.statement == ZOOS.claim
    assert not other.supports and other.statement == TRIO.beside and other.document == argued.document
    assert not opposed.supports and TRIO.opposing in opposed.document and TRIO.own not in opposed.document
    assert not cut.supports and cut.document == LIONS  # shares "zoos" with the claim


def test_a_copy_or_a_denial_supports_nothing(around):
    seen = set()
    for seed in range(40):
        copied, denied, *argued = made("copied", around, seed=seed)
        assert not copied.supports and not denied.supports
        assert copied.statement in copied.document
        assert copied.statement.lower().rstrip(".") in denied.document.lower()
        assert any(denied.document.count(d.split("{}")[0]) for d in contrast._DENIED)
        for e in argued:
            assert e.supports and ZOOS.claim in e.document and TRIO.own in e.document
        seen.add(len(argued))
    assert seen == {0, 1}
