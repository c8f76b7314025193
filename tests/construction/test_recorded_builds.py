"""Whole builds from recorded answers: of our own raw rows, and of 200 pairs of ArguAna's arguments."""

import subprocess
import sys
from pathlib import Path

import pytest

import berdslib as bd
from berdslib.data.datasets import statistics
from berdslib.data.leaks import across_splits, leaks
from berdslib.paths import shipped

ROOT = Path(__file__).parents[2]
OWN = [
    ("arguana", "arguments.jsonl", 17),
    ("kialo", "discussions.jsonl", 23),
    ("kialo", "discussions", 2),
    ("opinionqa", "survey.csv", 17),
    ("questions", "questions.txt", 9),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Every one of our own sources, built from the recorded answers."""
    folder, raw = tmp_path_factory.mktemp("built"), shipped("raw")
    model = f"recorded:{raw / 'recorded.jsonl'}"
    return [bd.build(builder, raw / name, folder / str(i), model) for i, (builder, name, _) in enumerate(OWN)]


def test_as_many_questions_as_the_card_says(built):
    assert [len(one.collection.questions) for one in built] == [n for *_, n in OWN]
    assert not [lost for one in built for lost in one.unanswered]
    card = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    for one, (_, name, n) in zip(built, OWN, strict=True):
        assert f"| {n} of {one.counts['items'][1]} |" in next(
            r for r in card.splitlines() if f"| `{name}`" in r or f"| `{name}/`" in r
        )


def test_every_reason_occurs(built):
    """Three times, as the card says, first or further reason; a discussion with too many answers is there once."""
    said = [(one.reason, one.detail) for build in built for one in build.rejected]
    found = {name: sum(reason == name or f"; {name}: " in detail for reason, detail in said) for name, _ in said}
    # The faults were planted before there were rules for these; one planted for its new words is a refusal.
    rare = {"number of statements": 1, "refusal": 1}
    assert {name: n for name, n in found.items() if n < 3} == rare and len(found) == 20


def test_counts_add_up(built):
    for one in built:
        steps = one.counts
        left = steps["items"] - steps["left_out"] - steps["unanswered"]
        assert left.tolist()[:-1] == steps["items"].tolist()[1:]  # nothing was drawn, so all go on
        assert left.iloc[-1] == len(one.collection.questions)
        assert steps["left_out"].sum() == len(one.rejected)
        assert not len(across_splits(leaks(one.collection.questions)))
        assert bd.load(one.folder, split="all").questions == one.collection.questions


@pytest.mark.slow
def test_the_recorded_answers_have_the_keys_of_what_is_asked_today():
    raw = shipped("raw")
    sources = [f"{builder}={raw / name}" for builder, name, _ in OWN]
    command = [sys.executable, ROOT / "scripts" / "record_answers.py", raw / "recorded.jsonl", *sources, "--check"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_two_hundred_pairs_of_arguana(tmp_path, real_data):
    raw = real_data / "arguana" / "corpus.jsonl"
    model = f"recorded:{Path(__file__).parents[1] / 'recorded' / 'arguana.jsonl'}"
    one = bd.build("arguana", raw, tmp_path / "set", model, sample=200)
    steps = one.counts.set_index("step")
    assert steps.loc["read"].tolist() == [4298, 0, 35, 0]  # 4,263 pairs, of which 200 are drawn, and 35 lone arguments
    assert steps.loc["question", ["items", "asked", "left_out"]].tolist() == [200, 200, 0]
    stats = statistics(one.collection.questions)
    assert stats["dev"] == stats["n"] // 4
    assert stats["mean_perspectives"] == 2.0
    assert 12 < stats["mean_words"] < 14  # published: 12.71
    assert {q.stances for q in one.collection.questions} == {("support", "oppose")}
