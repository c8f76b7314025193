"""Perspective-detection sets: the paper's arithmetic, near-duplicates by hand and by brute force, labels, files."""

import csv
import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berdslib.data.datasets import load_passages, load_questions
from berdslib.data.records import Passage, Question, ranked_run
from berdslib.errors import InputError
from berdslib.judging.base import Pair
from berdslib.judging.baselines import Overlap
from berdslib.judging.detection_set import (
    detection_pairs,
    draw_questions,
    label_by_judge,
    without_near_duplicates,
    write_examples,
    write_unlabelled,
)
from berdslib.judging.store import VerdictStore
from berdslib.judging.training.pairs import Example, read_examples
from berdslib.retrieval.retrievers import make_retriever


def question(qid, source="kialo", n=2):
    return Question(qid, f"What of {qid}?", tuple(f"{qid} says {i}." for i in range(n)), (None,) * n, source, "test")


def made_up(n_questions, k=5):
    """A passage of 40 random words for each place in two runs."""
    draw, passages, runs = random.Random(0), {}, [{}, {}]
    questions = [question(f"{s}{i:03}", s) for s in ("arguana", "kialo", "opinionqa") for i in range(n_questions)]
    for q in questions:
        for r, run in enumerate(runs):
            run[q.qid] = [f"{q.qid}-{r}-{i}" for i in range(k + 2)]
            for docno in run[q.qid]:
                passages[docno] = Passage(docno, " ".join(f"w{draw.randint(0, 999)}" for _ in range(40)))
    return questions, [ranked_run(run) for run in runs], passages


@pytest.mark.parametrize(("n", "pairs"), [(10, 600), (50, 3000)])
def test_the_arithmetic_of_the_paper(n, pairs):
    """BeRDS A.4: 10 questions of each set, 600 pairs before removal; A.5: five times more, about 3K."""
    questions, runs, passages = made_up(60)
    drawn = draw_questions(questions, n)
    found = detection_pairs(drawn, runs, passages, near=None)
    assert len(drawn) == 3 * n and len(found) == pairs == len(set(found))
    assert detection_pairs(drawn, runs, passages) == found  # nothing is alike


def test_by_hand():
    questions = [question("a"), question("b", n=3)]
    passages = {d: Passage(d, t, f"Title {d}") for d, t in {
        "d1": "Tea keeps people awake all night long",
        "d2": "TEA keeps people awake, all night long!",  # d1 but for case and punctuation
        "d3": "Tea keeps people asleep all night long",
        "d4": "Milk is white",
        "d5": "Milk is white and so is snow",
        "d9": "Never in the top two",
    }.items()}  # fmt: skip
    first = ranked_run({"a": ["d1", "d3", "d9"], "b": ["d4", "d5"]})
    second = ranked_run({"a": ["d2", "d1"], "b": ["d5", "d9"], "c": ["d4"]})
    found = detection_pairs(questions, [first, second], passages, k=2)
    assert [(p.qid, p.passage.docno, p.pid) for p in found] == [
        ("a", "d1", 0), ("a", "d1", 1), ("a", "d3", 0), ("a", "d3", 1),
        ("b", "d4", 0), ("b", "d4", 1), ("b", "d4", 2), ("b", "d5", 0), ("b", "d5", 1), ("b", "d5", 2),
        ("b", "d9", 0), ("b", "d9", 1), ("b", "d9", 2),
    ]  # fmt: skip
    assert found[1] == Pair("a", 1, passages["d1"], "a says 1.")
    assert len(detection_pairs(questions, [first, second], passages, k=2, near=None)) == 4 * 2 + 4 * 3
    assert [p.passage.docno for p in detection_pairs(questions, [second, first], passages, k=2)][:4:2] == ["d2", "d3"]


@pytest.mark.parametrize(("changed", "dropped"), [(0, True), (1, True), (2, True), (3, False), (10, False)])
def test_how_much_may_differ(changed, dropped):
    """Of 100 words, c spread-out replacements leave 96 - 5c of 96 + 5c runs of five words in common."""
    words = [f"w{i}" for i in range(100)]
    other = ["new" if i in range(10, 10 + 9 * changed, 9) else w for i, w in enumerate(words)]
    assert other.count("new") == changed
    assert ((96 - 5 * changed) / (96 + 5 * changed) >= 0.8) == dropped
    pair = [Passage("a", " ".join(words)), Passage("b", " ".join(other))]
    assert len(without_near_duplicates(pair)) == 2 - dropped


@pytest.mark.parametrize(("shift", "dropped"), [(1, True), (10, True), (11, False), (50, False)])
def test_windows_of_one_page(shift, dropped):
    page = [f"w{i}" for i in range(200)]
    pair = [Passage("a", " ".join(page[:100])), Passage("b", " ".join(page[shift : shift + 100]))]
    assert len(without_near_duplicates(pair)) == 2 - dropped


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=12), max_size=10), st.sampled_from([0.2, 0.5, 0.8, 1.0]))
def test_near_duplicates_by_brute_force(texts, near):
    passages = [Passage(str(i), " ".join(words)) for i, words in enumerate(texts)]

    def alike(x, y):
        grams = [{"".join(t[i : i + 5]) for i in range(len(t) - 4)} if len(t) >= 5 else {"".join(t)} for t in (x, y)]
        return len(grams[0] & grams[1]) / len(grams[0] | grams[1]) >= near

    kept = []
    for i, words in enumerate(texts):
        if not any(alike(words, texts[j]) for j in kept):
            kept.append(i)
    assert [int(p.docno) for p in without_near_duplicates(passages, near)] == kept


def test_the_draw():
    questions = [question(f"{s}{i}", s, 2 + (i % 3 == 0)) for s in ("x", "y") for i in range(30)]
    drawn = draw_questions(questions, 7, seed=1)
    assert [sum(q.source == s for q in drawn) for s in "xy"] == [7, 7]
    assert all(len(q.perspectives) == 2 for q in drawn) and len({q.qid for q in drawn}) == 14
    assert draw_questions(questions[::-1], 7, seed=1) == drawn != draw_questions(questions, 7, seed=2)
    assert draw_questions(questions[:30], 7, seed=1) == drawn[:7]
    assert {len(q.perspectives) for q in draw_questions(questions, 30, perspectives=None)} == {2, 3}
    everywhere = {q.qid for seed in range(60) for q in draw_questions(questions, 2, seed)}
    assert len(everywhere) == 40  # each of 20 in each set can be drawn


def test_what_cannot_be_drawn_or_paired():
    questions, runs, passages = made_up(3)
    for n in (4, 0, -1):
        with pytest.raises(InputError, match=f"'arguana' has 3 questions with 2 perspectives; {n} cannot be drawn"):
            draw_questions(questions, n)
    with pytest.raises(InputError, match="no questions"):
        draw_questions([], 1)
    with pytest.raises(InputError, match="run 2 lists nothing for question 'kialo001'"):
        detection_pairs(questions, [runs[0], runs[1][runs[1]["qid"] != "kialo001"]], passages)
    with pytest.raises(InputError, match="not in the corpus"):
        detection_pairs(questions, runs, {})
    with pytest.raises(InputError, match="no perspectives"):
        detection_pairs([Question("q", "Q?")], runs, passages)


@pytest.fixture(scope="module")
def sample():
    questions = load_questions("sample", "dev")
    passages = load_passages("sample")
    runs = [make_retriever(name, passages).search(questions, 5) for name in ("bm25", "minilm")]
    return questions, runs, {p.docno: p for p in passages}


def test_labels_of_a_judge_on_the_sample(sample, tmp_path):
    questions, runs, passages = sample
    pairs = detection_pairs(questions, runs, passages)
    everything = detection_pairs(questions, runs, passages, near=None)
    assert len(everything) == sum(10 * len(q.perspectives) for q in questions)
    # What both retrievers list is there once.
    both = pd.merge(*runs, on=["qid", "docno"])
    assert len(both) > 0 and len(pairs) <= len(everything) - 2 * len(both)

    class Counting(Overlap):
        asked = 0

        def p_yes(self, pairs):
            self.asked += len(pairs)
            return super().p_yes(pairs)

    judge, store = Counting(), VerdictStore(tmp_path / "v.sqlite")
    examples = label_by_judge(pairs, questions, judge, store)
    asked = judge.asked
    assert examples == label_by_judge(pairs, questions, judge, store) and judge.asked == asked == len(pairs)
    p_yes = Overlap().p_yes(pairs)
    assert [e.supports for e in examples] == (p_yes >= Overlap().threshold).tolist()
    assert {e.supports for e in examples} == {True, False} and {type(e.supports) for e in examples} == {bool}
    texts = {q.qid: q.text for q in questions}
    for example, pair in zip(examples, pairs, strict=True):
        assert example[:2] == (pair.passage.full_text, pair.perspective) and example.topic == texts[pair.qid]
    after = label_by_judge(pairs, questions, judge, store, title_position="after")
    titled = next(i for i, p in enumerate(pairs) if p.passage.title)
    assert after[titled].document == f"{pairs[titled].passage.text} {pairs[titled].passage.title}"

    write_examples(tmp_path / "set.tsv", examples)
    assert [e[:4] for e in read_examples(tmp_path / "set.tsv")] == [e[:4] for e in examples]


def test_people_fill_in_the_labels(sample, tmp_path):
    questions, runs, passages = sample
    pairs, path = detection_pairs(questions, runs, passages), tmp_path / "people.tsv"
    write_unlabelled(path, pairs, questions)
    with pytest.raises(InputError, match=r"people.tsv:2 \[label\]: '' is not a label"):
        read_examples(path)
    # As a spreadsheet would: read the cells, fill in the last column, write them again.
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    assert rows[0] == ["question", "document", "perspective", "label"] and {r[3] for r in rows[1:]} == {""}
    labels = np.random.default_rng(0).integers(0, 2, len(pairs)).tolist()
    with open(path, "w", newline="", encoding="utf-8") as file:
        filled = [[*row[:3], label] for row, label in zip(rows[1:], labels, strict=True)]
        csv.writer(file, delimiter="\t").writerows([rows[0], *filled])
    examples = read_examples(path, kind="people")
    assert [int(e.supports) for e in examples] == labels
    assert [(e.document, e.statement) for e in examples] == [(p.passage.full_text, p.perspective) for p in pairs]
    assert {e.kind for e in examples} == {"people"} and {e.topic for e in examples} == {q.text for q in questions}


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)


@given(st.lists(st.tuples(_TEXT, _TEXT, _TEXT), min_size=2, max_size=6))
def test_any_text_survives_the_file(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("set") / "set.tsv"
    examples = [Example(d, s, i % 2 == 0, t, "detection") for i, (d, s, t) in enumerate(texts)]
    write_examples(path, examples)
    assert read_examples(path) == examples
