"""Judges without a language model, and where the thresholds come from."""

import os

import numpy as np
import pytest
from tiny import pair

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.readers import read_labelled_pairs
from berdslib.data.records import Passage
from berdslib.errors import InputError
from berdslib.evaluation.judges import agreement
from berdslib.judging.base import contains_perspective, document_text, pairs_of
from berdslib.judging.baselines import OVERLAP_THRESHOLD, SIMILARITY_THRESHOLDS, Gold, Overlap, Random
from berdslib.judging.registry import make_judge
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
    with pytest.raises(InputError):
        agreement(np.array([]), np.array([]))


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
    judge = Random(0.168)
    answers = judge.p_yes(pairs)
    assert abs(answers.mean() - 0.168) < 0.02
    assert judge.p_yes(pairs[::-1]).tolist() == answers[::-1].tolist()
    assert Random(0.168, seed=1).p_yes(pairs).tolist() != answers.tolist()
    assert Random(1.0).p_yes(pairs[:3]).tolist() == [1, 1, 1]
    with pytest.raises(InputError):
        Random(1.5)


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
    with pytest.raises(InputError, match="title position"):
        document_text(passage, "above")


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
        (f"It is false that zoos should be closed. {PLAIN}", "", True),
        (f"Nobody serious believes that ZOOS  should\nbe closed: {PLAIN}", "", True),
        (f"{PLAIN} \u201cZoos should be \uff43\uff4c\uff4f\uff53\uff45\uff44,\u201d he said. {PLAIN}", "", True),
        (PLAIN, SAID, True),
        (SAID * 3, "", True),
        (PLAIN, "Tea", False),
        ("closed be should Zoos", "", False),
        ("Zoos should be closedown artists.", "", False),
        ("Zoos should not be closed.", "", False),
        ("", "", False),
    ],
)
def test_a_passage_that_holds_the_perspective_itself_is_told(text, title, copied):
    assert contains_perspective(Passage("d", text, title), SAID) == copied


def test_of_a_label_it_is_not_told_and_of_scripts_without_blanks_it_is():
    assert not contains_perspective(Passage("d", "I saw The Movie."), "The Movie")
    assert contains_perspective(Passage("d", "我不认为动物园应该关闭。"), "动物园应该关闭")
    assert not contains_perspective(Passage("d", "我认为动物园应该开放。"), "动物园应该关闭")
