"""Judges without a language model, and where the thresholds come from."""

import os
from importlib.util import find_spec

import numpy as np
import pytest

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.readers import read_labelled_pairs
from berdslib.data.records import Passage, make_verdicts
from berdslib.errors import InputError
from berdslib.evaluation.judges import agreement, agreement_report
from berdslib.judging.base import Pair, document_text, pairs_of
from berdslib.judging.baselines import OVERLAP_THRESHOLD, SIMILARITY_THRESHOLDS, Gold, Overlap, Random
from berdslib.judging.registry import make_judge
from berdslib.models.packaged import MPNET
from berdslib.retrieval.retrievers import make_retriever
from berdslib.stats import choose_threshold


def pair(text="cats are kind", perspective="Cats are kind.", docno="d", title=""):
    return Pair("q", 0, Passage(docno, text, title), perspective)


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


@pytest.mark.slow
def test_so_is_that_of_mpnet_where_its_packages_are(development_pairs):
    if not all(find_spec(module) for module, _ in MPNET.packages.values()):
        pytest.skip("needs the five packages with mpnet's weights")
    pairs, labels = development_pairs
    judge = make_judge("similarity:mpnet")
    assert choose_threshold(labels, judge.p_yes(pairs)) == judge.threshold == SIMILARITY_THRESHOLDS["mpnet"]


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


def test_clustered_intervals_are_wider_where_pairs_of_a_question_are_alike():
    rng = np.random.default_rng(2)
    clusters = np.repeat(np.arange(15), 20)
    labels = rng.random(300) < 0.3
    wrong = np.isin(clusters, [2, 5, 9, 13])  # a judge that fails for whole questions
    answers = labels ^ wrong
    clustered = agreement_report(labels, answers, clusters).set_index("measure").loc["accuracy"]
    single = agreement_report(labels, answers, np.arange(300)).set_index("measure").loc["accuracy"]
    assert clustered["value"] == single["value"] == agreement(labels, answers).accuracy
    assert clustered["high"] - clustered["low"] > 2 * (single["high"] - single["low"])
    # Drawing 300 pairs one by one is the plain binomial case.
    p = single["value"]
    assert single["high"] - single["low"] == pytest.approx(2 * 1.96 * np.sqrt(p * (1 - p) / 300), rel=0.1)


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


def test_gold_answers_by_key_and_says_no_otherwise():
    gold = Gold(make_verdicts([("q", 0, "d", 1.0, True), ("q", 1, "d", 0.0, False)], "gold"))
    asked = [pair(), pair()._replace(pid=1), pair(docno="other")]
    assert gold.p_yes(asked).tolist() == [1.0, 0.0, 0.0]
    assert gold.id != Gold(make_verdicts([("q", 0, "d", 0.0, False)], "gold")).id
    with pytest.raises(InputError, match="needs verdicts"):
        make_judge("gold")


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

    pairs = [
        pair("Cats purr.", "Cats."),
        pair("Cats purr.", "Cats purr."),
        pair("Nothing.", "Cats."),
        pair("No.", "Cats."),
    ]
    assert Similarity(Long()).p_yes(pairs).tolist() == pytest.approx([0.5**0.5, 1.0, 0.0, 0.0])
