"""Judges without a language model, and where the thresholds come from."""

import os
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import pair

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.readers import read_labelled_pairs
from berdslib.data.records import Passage
from berdslib.errors import InputError, MissingDataError
from berdslib.evaluation.judges import agreement
from berdslib.judging.base import Pair, contains_perspective, document_text, how_sure, pairs_of, threshold_at_half
from berdslib.judging.baselines import (
    OVERLAP_THRESHOLD,
    SIMILARITY_THRESHOLDS,
    Committee,
    Gold,
    Overlap,
    Random,
    Similarity,
)
from berdslib.judging.registry import make_judge
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.retrieval.retrievers import make_retriever
from berdslib.stats import choose_threshold

# ---------------------------------------------------------------- thresholds


@pytest.fixture(scope="module")
def development_pairs(tmp_path_factory):
    """What two retrievers list in their top 10 for the sample's development questions, with gold labels."""
    os.environ["BERDS_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    questions, passages = load_questions("sample", "dev"), load_passages("sample")
    corpus, gold = {p.docno: p for p in passages}, Gold(load_gold("sample"))
    pairs = {
        (p.qid, p.pid, p.passage.docno): p
        for name in ("bm25", "minilm")
        for p in pairs_of(make_retriever(name, passages).search(questions, 10), questions, corpus, 10)
    }
    yield list(pairs.values()), gold.p_yes(list(pairs.values())).astype(bool)
    del os.environ["BERDS_CACHE"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "constant"),
    [("overlap", OVERLAP_THRESHOLD), ("similarity", SIMILARITY_THRESHOLDS["minilm"])],
)
def test_thresholds_are_the_best_on_the_samples_development_questions(development_pairs, name, constant):
    pairs, labels = development_pairs
    assert len(pairs) > 250 and 0.1 < labels.mean() < 0.3
    assert choose_threshold(labels, make_judge(name).p_yes(pairs)) == constant


def test_choose_threshold_against_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(50):
        labels, p = rng.random(40) < 0.3, np.round(rng.random(40), 2)
        best = max(agreement(labels, p >= t).f1 for t in np.round(np.arange(0.01, 1.005, 0.01), 2))
        assert agreement(labels, p >= choose_threshold(labels, p)).f1 == best


def test_agreement_against_sklearn():
    from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score, precision_score, recall_score

    rng = np.random.default_rng(1)
    for _ in range(100):
        labels, answers = rng.random(30) < 0.3, rng.random(30) < 0.4
        got = agreement(labels, answers)
        want = (
            accuracy_score(labels, answers),
            *(m(labels, answers, zero_division=0) for m in (f1_score, precision_score, recall_score)),
        )
        np.testing.assert_allclose((got.accuracy, got.f1, got.precision, got.recall), want)
        assert got.kappa == pytest.approx(cohen_kappa_score(labels, answers))


def test_b10_both_spellings_of_labels_and_never_one_class(tmp_path):
    # divergences.md B10: the official script counts only "True"; the released file has 0/1, so no example is positive.
    rows = ["question\tdocument\tperspective\tlabel", "q\td\tp\t1", "q\td\tp2\t0", "q\td\tp3\tTrue"]
    (tmp_path / "p.tsv").write_text("\n".join(rows))
    pairs = read_labelled_pairs(tmp_path / "p.tsv")
    assert [p.label for p in pairs] == [True, False, True]
    official = [row.split("\t")[3] == "True" for row in rows[1:3]]
    assert official == [False, False]
    (tmp_path / "p.tsv").write_text("\n".join(rows[:2]))
    with pytest.raises(InputError, match="labels are the same"):
        read_labelled_pairs(tmp_path / "p.tsv")
    (tmp_path / "p.tsv").write_text("\n".join([rows[0], "q\td\tp\tmaybe"]))
    with pytest.raises(InputError, match=r"p.tsv:2 \[label\]: 'maybe'"):
        read_labelled_pairs(tmp_path / "p.tsv")


# ---------------------------------------------------------------- judges


def test_random_follows_the_label_distribution_and_ignores_order():
    pairs = [pair(text=f"text {i}") for i in range(4000)]
    judge = Random()
    answers = judge.p_yes(pairs)
    assert abs(answers.mean() - 0.168) < 0.02
    assert judge.p_yes(pairs[::-1]).tolist() == answers[::-1].tolist()
    assert Random(seed=1).p_yes(pairs).tolist() != answers.tolist()


def test_overlap_by_hand():
    # Stems asked for: cat, are is no stop word of Lucene's list but "are" is; kind, calm → 2 of 3 are there.
    assert Overlap().p_yes([pair("Kind cats.", "Cats are kind, calm.")])[0] == pytest.approx(2 / 3)
    assert Overlap().p_yes([pair("anything", "the of")])[0] == 0.0
    assert Overlap().p_yes([pair("x", "Cats", title="cat")])[0] == 1.0
    assert Overlap(title_position="none").p_yes([pair("x", "Cats", title="cat")])[0] == 0.0


def test_b6_title_position_changes_text_and_id():
    # divergences.md B6: the official code puts the title behind the text; ours is a named choice, in the judge's id.
    passage = Passage("d", "Text.", "Title")
    shown = {where: document_text(passage, where) for where in ("before", "after", "none")}
    assert shown == {"before": "Title Text.", "after": "Text. Title", "none": "Text."}
    assert len({Overlap(title_position=where).id for where in shown}) == 3


def test_similarity_is_a_cosine_whatever_the_length_of_the_vectors():
    from berdslib.judging.baselines import Similarity

    class Long:
        id = "long"

        def encode_passages(self, texts):
            known = {"Cats purr.": [3.0, 0.0], "Cats.": [3.0, 3.0], "Nothing.": [0.0, 0.0], "No.": [-9.0, 0.0]}
            return np.array([known[t] for t in texts], dtype=np.float32)

    asked = (("Cats purr.", "Cats."), ("Cats purr.", "Cats purr."), ("Nothing.", "Cats."), ("No.", "Cats."))
    pairs = [pair(*texts) for texts in asked]
    assert Similarity(Long()).p_yes(pairs).tolist() == pytest.approx([0.5**0.5, 1.0, 0.0, 0.0])


SAID = "Zoos should be closed."
PLAIN = "Tea is a drink. People like it."


@pytest.mark.parametrize(
    ("text", "title", "copied"),
    [
        (f"{SAID} {PLAIN}", "", True),
        (f"Nobody serious believes that ZOOS  should\nbe closed: {PLAIN}", "", True),
        (f"{PLAIN} \u201cZoos should be \uff43\uff4c\uff4f\uff53\uff45\uff44,\u201d he said. {PLAIN}", "", True),
        (PLAIN, SAID, True),
        (PLAIN, "Tea", False),
        ("closed be should Zoos", "", False),
        ("Zoos should be closedown artists.", "", False),
        ("", "", False),
    ],
)
def test_a_passage_that_holds_the_perspective_itself_is_told(text, title, copied):
    assert contains_perspective(Passage("d", text, title), SAID) == copied


def test_of_a_label_it_is_not_told_and_of_scripts_without_blanks_it_is():
    assert not contains_perspective(Passage("d", "I saw The Movie."), "The Movie")
    assert contains_perspective(Passage("d", "我不认为动物园应该关闭。"), "动物园应该关闭")
    assert not contains_perspective(Passage("d", "我认为动物园应该开放。"), "动物园应该关闭")


# ---------------------------------------------------------------- committees: members keep their own yes and no


class Fixed:
    def __init__(self, name, values, threshold=0.5):
        self.id, self.values, self.threshold = name, values, threshold

    def p_yes(self, pairs):
        return np.array([self.values[p.passage.docno] for p in pairs])


PAIRS = [Pair("q", 0, Passage(d, f"text {d}"), "Cats are kind.") for d in "abc"]


def test_the_mean_of_a_committee_by_hand():
    one = Fixed("one", {"a": 0.9, "b": 0.1, "c": 0.6})
    two = Fixed("two", {"a": 0.7, "b": 0.3, "c": 0.2})
    committee = Committee([one, two])
    assert committee.p_yes(PAIRS).tolist() == pytest.approx([0.8, 0.2, 0.4])
    assert committee.p_yes([]).shape == (0,)
    before = committee.id
    two.threshold = 0.2  # notebooks set it after a judge was made: another mean, and another committee
    assert committee.id != before and not np.allclose(committee.p_yes(PAIRS), [0.8, 0.2, 0.4])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.01, 0.99))
def test_centring_keeps_order_bounds_and_answers(values, threshold):
    p = np.sort(np.array(values))
    moved = threshold_at_half(p, threshold)
    assert (np.diff(moved) >= 0).all() and (moved >= 0).all() and (moved <= 1).all()
    clear = np.abs(p - threshold) > 1e-9
    assert ((moved >= 0.5) == (p >= threshold))[clear].all()


def test_its_id_depends_on_the_members_and_not_on_their_order(tmp_path):
    members = [Overlap(), Random()]
    assert Committee(members).id == Committee(members[::-1]).id
    assert Committee(members).id != Committee([Overlap(), Random(seed=1)]).id
    store = VerdictStore(tmp_path / "v.sqlite")
    _, new = judge_pairs(Committee(members), PAIRS, store)
    _, again = judge_pairs(Committee(members[::-1]), PAIRS, store)
    assert (new, again) == (3, 0)


def test_a_committee_by_name():
    assert make_judge("overlap+random").id == Committee([Overlap(), Random()]).id
    members = {judge.id for judge in make_judge("overlap+similarity:minilm+ laptop").judges}
    assert members == {make_judge(name).id for name in ("overlap", "similarity:minilm", "laptop")}
    for name in ("laptop:runs/a+b", "laptop:a+overlap:b"):  # folders
        with pytest.raises(MissingDataError, match=re.escape(f"in {name.removeprefix('laptop:')};")):
            make_judge(name)


def test_a_word_says_how_far_from_the_threshold_an_answer_is():
    p = np.array([0.0, 0.05, 0.1, 0.15, 0.19, 0.2, 0.21, 0.45, 0.5, 0.7, 0.75, 1.0])
    words = ["sure", "sure", "fairly sure", "unsure", "unsure", "unsure", "unsure", "unsure", "fairly sure",
             "fairly sure", "sure", "sure"]  # thirds of 0 to 0.2: 0.067, 0.133; of 0.2 to 1: 0.467, 0.733  # fmt: skip
    assert how_sure(p, 0.2).tolist() == words


def test_a_long_passage_takes_no_memory_for_the_short_ones():
    """An array of texts has the width of the longest, four bytes a character, for each of them."""

    class Lengths:
        id = "lengths"

        def encode_passages(self, texts):
            return np.array([[len(text), 1.0] for text in texts])

    long = [pair(text, "It is.", docno=str(i)) for i, text in enumerate(["x" * 200_000, *(f"{i}" for i in range(511))])]
    judge = Similarity(Lengths())
    tracemalloc.start()
    p_yes = judge.p_yes(long)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6 and p_yes.shape == (512,)


def test_texts_that_differ_in_an_ending_zero_byte_are_two():
    asked = []

    class Asked:
        id = "asked"

        def encode_passages(self, texts):
            asked.append(list(texts))
            return np.ones((len(texts), 2))

    Similarity(Asked()).p_yes([pair("zoo"), pair("zoo\0"), pair("zoo")])
    assert asked == [["zoo", "zoo\0"], ["Cats are kind."]]
