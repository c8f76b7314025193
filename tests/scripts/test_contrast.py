"""Contrasts: passages put together by hand-made rules, each kind on one small debate, and from small files."""

import json
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
    contrasts,
    drop_needed,
    mixed,
    place,
)

from berdslib.errors import InputError

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


def test_both_sides_are_argued(around):
    for seed in range(20):
        own, opposing, beside = made("both sides", around, seed=seed)
        assert (own.supports, opposing.supports, beside.supports) == (True, True, False)
        assert opposing.statement == TRIO.opposing and beside.statement == TRIO.beside
        assert all(t.lower().rstrip(".") in own.document.lower() for t in TRIO[:2])


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


def test_the_sentence_that_goes_was_needed():
    claim = "The film that Ann directed won a prize in Berlin"
    explanation = "Ann directed Snow. Snow won a prize in Berlin. Snow is a film."
    for seed in range(10):
        left = drop_needed(explanation, claim, random.Random(seed))
        assert left == "Ann directed Snow. Snow is a film."  # of the others, each says at most one word of the claim


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Tiny files of every source."""
    (tmp_path / "perspectrum").mkdir()
    (tmp_path / "wikipedia").mkdir()
    (tmp_path / "argkp").mkdir()
    (tmp_path / "support").mkdir()
    pool = [t for side in (True, False) for group in ZOOS.points[side] for t in group]
    numbers = {text: i for i, text in enumerate(pool)}
    claim = {
        "cId": 1,
        "text": ZOOS.claim,
        "perspectives": [
            {"pids": [numbers[t] for t in group], "stance_label_3": "SUPPORT" if side else "UNDERMINE"}
            for side in (True, False)
            for group in ZOOS.points[side]
        ],
    }
    question = {**claim, "text": "Should zoos be closed?"}
    (tmp_path / "perspectrum/perspectrum_with_answers_v1.0.json").write_text(json.dumps([claim, question]))
    rows = [{"pId": i, "text": text} for text, i in numbers.items()]
    (tmp_path / "perspectrum/perspective_pool_v1.0.json").write_text(json.dumps(rows))
    (tmp_path / "argkp/argkp2021.csv").write_text(
        "topic,argument,key_point,stance,label\n"
        + "".join(
            f"We should ban tea,tea {point}{n},Tea is {point},{stance},1\n"
            for stance, points in ((1, "ab"), (-1, "cd"))
            for point in points
            for n in (1, 2)
        )
    )
    text = " ".join(f"Sentence {i} of a long article on zoos." for i in range(40))
    (tmp_path / "wikipedia/articles.jsonl").write_text(json.dumps({"_id": "t1/1", "title": "Zoo", "text": text}) + "\n")
    (tmp_path / "wikipedia/claim_stance.csv").write_text(
        "topicText,claims.claimOriginalText,claims.article.rawFile\nx,sentence 20 of,articles/t1/raw_1.txt\n"
    )
    monkeypatch.setenv("BERDS_DATA", str(tmp_path))
    monkeypatch.setenv("BERDS_CACHE", str(tmp_path / "cache"))


def test_sources_and_contrasts_mix_by_shares_of_documents(files):
    whole = mixed({"key_points": 1.0, "refuted": 1.0, "relation": 1.0})
    assert {"contrast" if e.kind.startswith("contrast") else e.kind for e in whole} >= {"contrast", "key point"}
    assert whole == mixed({"key_points": 1.0, "refuted": 1.0, "relation": 1.0})
    half = mixed({"refuted": 0.5})
    documents = {e.document for e in contrasts(["refuted"])}
    assert len({e.document for e in half}) == round(len(documents) / 2)
    assert sorted(half) == sorted(e for e in contrasts(["refuted"]) if e.document in {h.document for h in half})
    for shares, problem in [({"refuted": 0.0}, r"\[refuted\]: must be above 0"), ({"refutd": 1.0}, "refuted")]:
        with pytest.raises(InputError, match=problem):
            mixed(shares)
