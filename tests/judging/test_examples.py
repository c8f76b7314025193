"""Labelled pairs: the paper's arithmetic, near-duplicates by hand and by brute force, labels, files, sources."""

import csv
import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.passages import without_near_duplicates
from berdslib.data.records import Passage, Question, ranked_run
from berdslib.data.trec import read_verdicts
from berdslib.errors import InputError
from berdslib.judging.base import EachByItself, Pair
from berdslib.judging.baselines import Overlap
from berdslib.judging.examples import (
    Example,
    build_examples,
    detection_pairs,
    draw_pairs,
    draw_questions,
    label_by_judge,
    read_examples,
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


def test_a_run_may_list_nothing_for_some_questions_but_not_for_all(caplog):
    questions = [question("a"), question("b")]
    passages = {"d": Passage("d", "Tea.")}
    only_b = ranked_run({"b": ["d"]})
    assert [(p.qid, p.pid) for p in detection_pairs(questions, [only_b], passages)] == [("b", 0), ("b", 1)]
    assert "1 of 2 questions" in caplog.text
    with pytest.raises(InputError, match="'a'"):
        detection_pairs(questions[:1], [only_b], passages)


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


@pytest.mark.parametrize(("changed", "kept"), [(2, 1), (3, 2)])
def test_b25_a_passage_of_100_words_goes_if_it_differs_in_two(changed, kept):
    words = [f"w{i}" for i in range(100)]
    other = [f"new{i}" if i in (20, 50, 80)[:changed] else word for i, word in enumerate(words)]
    passages = [Passage("first", " ".join(words)), Passage("other", " ".join(other))]
    assert len(without_near_duplicates(passages)) == kept


def test_labels_of_a_judge_on_the_sample(tmp_path):
    questions, passages = load_questions("sample", "dev"), load_passages("sample")
    runs = [make_retriever("bm25", passages).search(questions, 5)]
    pairs = detection_pairs(questions, runs, {p.docno: p for p in passages})
    asked, inner = [], Overlap.p_yes

    class Counting(Overlap):
        def p_yes(self, pairs):
            asked.extend(pairs)
            return inner(self, pairs)

    judge, store = Counting(), VerdictStore(tmp_path / "v.sqlite")
    examples = label_by_judge(pairs, questions, judge, store)
    assert examples == label_by_judge(pairs, questions, judge, store) and len(asked) == len(pairs)
    assert [e.supports for e in examples] == (Overlap().p_yes(pairs) >= Overlap().threshold).tolist()
    assert {e.supports for e in examples} == {True, False}
    texts = {q.qid: q.text for q in questions}
    assert [e[:2] for e in examples] == [(p.passage.full_text, p.perspective) for p in pairs]
    assert [e.topic for e in examples] == [texts[p.qid] for p in pairs]
    write_unlabelled(tmp_path / "people.tsv", pairs, questions)
    with pytest.raises(InputError) as caught:  # nothing is labelled yet
        read_examples(tmp_path / "people.tsv")
    assert caught.value.path == tmp_path / "people.tsv"


def test_a_pair_that_a_judge_could_not_read_has_no_label(tmp_path):
    class Half(EachByItself):
        id, threshold = "half", 0.5

        def p_yes_each(self, pairs):
            return np.array([np.nan if i % 3 == 0 else float(i % 2) for i in range(len(pairs))]), None

    asked = [question("q")]
    pairs = [Pair("q", 0, Passage(str(i), f"Tram {i}."), asked[0].perspectives[0]) for i in range(7)]
    examples = label_by_judge(pairs, asked, Half(), VerdictStore(tmp_path / "v.sqlite"))
    assert [(e.document, e.supports) for e in examples] == [
        ("Tram 1.", True), ("Tram 2.", False), ("Tram 4.", False), ("Tram 5.", True)
    ]  # fmt: skip


def test_pairs_are_drawn_alike_and_stay_in_their_order():
    pairs = [Pair("q", 0, Passage(str(i), "Trams."), "Trams are good.") for i in range(10)]
    counts = np.zeros(10)
    for seed in range(400):
        places = [int(p.passage.docno) for p in draw_pairs(pairs, 3, seed)]
        assert places == sorted(set(places)) and len(places) == 3
        counts[places] += 1
    assert (np.abs(counts - 120) < 4 * (400 * 0.3 * 0.7) ** 0.5).all()
    assert draw_pairs(pairs, 10) == pairs
    with pytest.raises(InputError) as caught:
        draw_pairs(pairs, 11)
    assert caught.value.field == "pairs"


def test_a_sheet_that_people_fill_in_partly_is_pairs_and_verdicts(tmp_path, caplog):
    """It keeps ids, so that labels become gold verdicts; no cell is a formula in a spreadsheet."""
    asked = [question("=q")]
    texts = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "'=kept", "'plain", "Trams\tstop.", "\ttab"]
    passages = [Passage(f"-{i}", text) for i, text in enumerate(texts)]
    pairs = [Pair("=q", pid, p, asked[0].perspectives[pid]) for p in passages for pid in (0, 1)]
    sheet = tmp_path / "sheet.tsv"
    write_unlabelled(sheet, pairs, asked)
    assert not any(cell[0] in "=+-@\t" for row in csv.reader(sheet.open(), delimiter="\t") for cell in row if cell)
    table = pd.read_csv(sheet, sep="\t", dtype=str, keep_default_na=False)
    table["label"] = ["1", "0", "", "yes", "no", " ", "1.0", "0.0", *[""] * 8]
    table.to_csv(sheet, sep="\t", index=False)
    labelled = [pairs[i] for i in (0, 1, 3, 4, 6, 7)]
    said = [True, False, True, False, True, False]
    examples = read_examples(sheet)
    assert [(e.document, e.statement, e.supports) for e in examples] == [
        (p.passage.text, p.perspective, yes) for p, yes in zip(labelled, said, strict=True)
    ]
    verdicts = read_verdicts(sheet)
    assert sorted(verdicts[["qid", "pid", "docno", "supports"]].to_numpy().tolist()) == sorted(
        [p.qid, p.pid, p.passage.docno, yes] for p, yes in zip(labelled, said, strict=True)
    )
    assert len(caplog.records) == 2 and all("10 of 16" in record.getMessage() for record in caplog.records)


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)


@given(st.lists(st.tuples(_TEXT, _TEXT, _TEXT), min_size=2, max_size=6))
def test_any_text_survives_the_file(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("set") / "set.tsv"
    examples = [Example(d, s, i % 2 == 0, t, "detection") for i, (d, s, t) in enumerate(texts)]
    write_examples(path, examples)
    assert read_examples(path) == examples


def test_only_development_questions_of_our_sample():
    examples = build_examples(["sample"])
    dev, gold = {q.qid: q for q in load_questions("sample", "dev")}, load_gold("sample")
    texts = {p.docno: p.full_text for p in load_passages("sample")}
    wanted = [
        Example(texts[r.docno], dev[r.qid].perspectives[r.pid], bool(r.supports), dev[r.qid].text, "sample")
        for r in gold.itertuples() if r.qid in dev
    ]  # fmt: skip
    assert sorted(examples) == sorted(wanted) != examples and 0 < len(wanted) < len(gold)
    assert examples == build_examples(["sample"]) != build_examples(["sample"], seed=1)
    assert not {e.topic for e in examples} & {q.text for q in load_questions("sample", "test")}
