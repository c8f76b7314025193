"""Labelled pairs: the paper's arithmetic, near-duplicates by hand and by brute force, labels, files, sources."""

import random

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.records import Passage, Question, ranked_run
from berdslib.errors import InputError
from berdslib.judging.base import Pair
from berdslib.judging.baselines import Overlap
from berdslib.judging.examples import (
    Example,
    build,
    detection_pairs,
    draw_questions,
    label_by_judge,
    read_examples,
    without_near_duplicates,
    write_examples,
    write_unlabelled,
)
from berdslib.judging.store import VerdictStore
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

    write_unlabelled(tmp_path / "people.tsv", pairs, questions)
    with pytest.raises(InputError, match=r"people.tsv:2 \[label\]: '' is not a label"):
        read_examples(tmp_path / "people.tsv")
    write_examples(tmp_path / "set.tsv", examples)
    assert [e[:4] for e in read_examples(tmp_path / "set.tsv")] == [e[:4] for e in examples]


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)


@given(st.lists(st.tuples(_TEXT, _TEXT, _TEXT), min_size=2, max_size=6))
def test_any_text_survives_the_file(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("set") / "set.tsv"
    examples = [Example(d, s, i % 2 == 0, t, "detection") for i, (d, s, t) in enumerate(texts)]
    write_examples(path, examples)
    assert read_examples(path) == examples


# ---------------------------------------------------------------- what a training reads


def test_only_development_questions_of_our_sample():
    examples = build(["sample"])
    dev, gold = {q.qid: q for q in load_questions("sample", "dev")}, load_gold("sample")
    texts = {p.docno: p.full_text for p in load_passages("sample")}
    wanted = [
        Example(texts[r.docno], dev[r.qid].perspectives[r.pid], bool(r.supports), dev[r.qid].text, "sample")
        for r in gold.itertuples() if r.qid in dev
    ]  # fmt: skip
    assert sorted(examples) == sorted(wanted) != examples and 0 < len(wanted) < len(gold)
    assert examples == build(["sample"]) != build(["sample"], seed=1)
    assert not {e.topic for e in examples} & {q.text for q in load_questions("sample", "test")}


def test_a_file_is_a_source_too(tmp_path):
    rows = [Example(f"document {i}", "statement", i % 2 == 0, "topic", "detection") for i in range(9)]
    write_examples(tmp_path / "own.tsv", [*rows, rows[0]])
    assert sorted(build([tmp_path / "own.tsv"])) == sorted(rows)
    assert len(build(["sample", tmp_path / "own.tsv"])) == len(build(["sample"])) + 9
    with pytest.raises(InputError, match=r"other\.tsv: no such file"):
        build([tmp_path / "other.tsv"])
