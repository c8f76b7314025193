"""Chains of retriever, expansion, cross-encoder and diversifier: the same as their parts done one after the other."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from berdslib.data.collection import Collection
from berdslib.data.records import Passage, Question, check_run, ranked_run
from berdslib.errors import InputError, MissingDataError
from berdslib.models.cards import CARDS, ModelCard
from berdslib.models.corpus_vectors import full_text
from berdslib.models.encoders import get_encoder
from berdslib.retrieval import retrievers as retrievers_module
from berdslib.retrieval import systems as systems_module
from berdslib.retrieval.bm25 import BM25
from berdslib.retrieval.diversify import Diversified, diversify, passage_vectors
from berdslib.retrieval.expansion import Expanded, template_expansions
from berdslib.retrieval.rerank import CrossEncoderRetriever
from berdslib.retrieval.retrievers import RETRIEVERS, Encoding, own_retriever
from berdslib.retrieval.systems import Workshop

PASSAGES = [
    Passage("a", "zoos are cruel to animals"),
    Passage("b", "zoos are cruel to all animals"),
    Passage("c", "zoos save species and teach children"),
    Passage("d", "children love zoos"),
]
QUESTIONS = [Question("q", "are zoos cruel to animals", ("yes", "no"))]
RECORDED = {"q": [("against", "cruel to animals"), ("for", "save species")]}
ZOO = Collection("zoo", QUESTIONS, PASSAGES, expansions=RECORDED)


class Letters:
    """Counts letters, so that texts with the same words have the same vector."""

    id = "letters"

    def encode_passages(self, texts):
        return np.array([[t.count(chr(97 + i)) for i in range(26)] for t in texts], dtype=np.float32)

    encode_queries = encode_passages


VECTORS = passage_vectors(PASSAGES, Letters())


@pytest.fixture(autouse=True)
def _letters(monkeypatch):
    """The encoder "letters", which loads nothing; retrievers that a test adds are gone after it."""
    monkeypatch.setitem(CARDS, "letters", ModelCard("letters", "nowhere"))
    monkeypatch.setattr(retrievers_module, "get_encoder", lambda name: {"letters": Letters()}[name])
    monkeypatch.setattr(RETRIEVERS, "_things", {**RETRIEVERS, "letters": RETRIEVERS["minilm"]})


def system(text, collection=ZOO, **options):
    return Workshop(collection, encoder="letters", **options).make([text])[text]


def test_a_chain_is_its_parts_from_left_to_right():
    first = BM25(PASSAGES)
    run = diversify(first.search(QUESTIONS, 100), vectors=VECTORS, relevance_weight=0.5, k=3)
    pd.testing.assert_frame_equal(system("bm25+mmr:0.5").search(QUESTIONS, 3), run.drop(columns="value"))
    fused = Expanded(first, RECORDED).search(QUESTIONS, 100)
    then = diversify(fused, vectors=VECTORS, relevance_weight=0.5, k=3)
    then = then.drop(columns="value")
    pd.testing.assert_frame_equal(system("bm25+expand:recorded+mmr:0.5").search(QUESTIONS, 3), then)
    each = Expanded(Diversified(first, relevance_weight=0.5, vectors=VECTORS), RECORDED).search(QUESTIONS, 3)
    pd.testing.assert_frame_equal(system("bm25+mmr:0.5+expand:recorded").search(QUESTIONS, 3), each)
    assert system("bm25+mmr:0.5+expand:recorded").name == "bm25+mmr:0.5+expand:recorded"
    by_rule = Expanded(first, template_expansions(QUESTIONS)).search(QUESTIONS, 3)
    pd.testing.assert_frame_equal(system("bm25+expand:rule").search(QUESTIONS, 3), by_rule)


def test_multi_is_the_question_beside_its_expansions_fused_by_reciprocal_ranks():
    first = BM25(PASSAGES)
    for name, expansions in (("recorded", RECORDED), ("rule", template_expansions(QUESTIONS))):
        by_hand = Expanded(first, expansions, original=True, fuse="rrf").search(QUESTIONS, 3)
        pd.testing.assert_frame_equal(system(f"bm25+multi:{name}").search(QUESTIONS, 3), by_hand)
    queries = [QUESTIONS[0], *(Question(str(i), f"{QUESTIONS[0].text} {s}") for i, (_, s) in enumerate(RECORDED["q"]))]
    lists = [first.search([q], 4)["docno"].tolist() for q in queries]
    score = {d: sum(Fraction(1, 61 + one.index(d)) for one in lists if d in one) for one in lists for d in one}
    found = system("bm25+multi:recorded").search(QUESTIONS, 4)
    assert found["docno"].tolist() == sorted(score, key=lambda d: (-score[d], d))


def test_a_diversifier_takes_the_vectors_of_the_retriever_before_it(monkeypatch):
    """Of two passages that are alike to one encoder and unlike to the other, its own retriever's counts."""

    class Found:
        """Puts a before b before c; b is like a to "first", and c is like a to "second"."""

        def __init__(self, name):
            self.id, self._like_a = name, {"first": "b", "second": "c"}[name]

        def encode_passages(self, texts):
            alike = next(p.text for p in PASSAGES if p.docno == self._like_a)
            return np.array([[1, 0] if t in (PASSAGES[0].text, alike) else [0, 1] for t in texts], dtype=np.float32)

    for name in ("first", "second"):
        kind = own_retriever(lambda passages: Counting(("a", "b", "c")))
        RETRIEVERS.add(name, kind._replace(encoding=lambda name: Encoding(Found(name), full_text)))
    texts = ["first+mmr:0.3", "second+mmr:0.3", "first+expand:rule+mmr:0.3"]
    built = Workshop(ZOO, encoder="second").make(texts)
    assert [built[text].search(QUESTIONS, 2)["docno"].tolist() for text in texts] == [
        ["a", "c"],
        ["a", "b"],
        ["a", "c"],
    ]


def test_a_diversifier_compares_by_the_encoder_that_it_names():
    """And takes its scores from the retriever as before: a name of another encoder changes the vectors alone."""

    class Words:
        id = "words"

        def encode_passages(self, texts):
            words = sorted({word for p in PASSAGES for word in p.text.split()})
            return np.array([[word in t.split() for word in words] for t in texts], dtype=np.float32)

        encode_queries = encode_passages

    kind = own_retriever(BM25)
    RETRIEVERS.add("Words", kind._replace(encoding=lambda name: Encoding(Words(), full_text)))
    questions = [*QUESTIONS, Question("r", "children love zoos that save animals", ("yes", "no"))]
    by_letters, by_words = VECTORS, passage_vectors(PASSAGES, Words())
    found = BM25(PASSAGES).search(questions, 100)
    plain, named = (
        diversify(found, vectors=vectors, relevance_weight=0.3).drop(columns="value")
        for vectors in (by_letters, by_words)
    )
    assert plain["docno"].tolist() != named["docno"].tolist()
    texts = ["bm25+mmr:0.3", "bm25+mmr:0.3@words", "words+mmr:0.3", "words+mmr:0.3@letters", "bm25+mmr:.3 @ WORDS"]
    collection = Collection("zoo", questions, PASSAGES)
    built = Workshop(collection, encoder="letters").make(texts)
    for text, want in zip(texts, (plain, named, named, plain, named), strict=True):
        pd.testing.assert_frame_equal(built[text].search(questions, 100), want)
    assert [built[text].name for text in texts] == [
        "bm25+mmr:0.3",
        "bm25+mmr:0.3@Words",
        "Words+mmr:0.3",
        "Words+mmr:0.3@letters",
        "bm25+mmr:0.3@Words",
    ]


def test_aspects_are_asked_for_what_was_found():
    asked, made_of = [], []

    def aspects_by(generated, passages):
        made_of.append((generated, list(passages)))
        return aspects

    def aspects(run, questions):
        asked.append((run["docno"].tolist(), [q.qid for q in questions]))
        return pd.DataFrame({"qid": "q", "pid": [0, 1], "docno": ["a", "c"], "p": [0.9, 0.8]})

    found = system("bm25+coverage:0", aspects_by=aspects_by, depth=4).search(QUESTIONS, 2)
    assert found["docno"].tolist() == ["a", "c"]
    assert asked == [(BM25(PASSAGES).search(QUESTIONS, 4)["docno"].tolist(), ["q"])]
    assert made_of == [(RECORDED, PASSAGES)]


def test_a_question_without_expansions_keeps_its_list_before_a_coverage_diversifier():
    asked = [*QUESTIONS, Question("p", "do children love zoos", ("yes", "no"))]
    some = Collection("zoos", asked, PASSAGES, expansions=RECORDED)

    def aspects_by(generated, passages):
        return lambda run, questions: pd.DataFrame(
            [(qid, 0, docno, 0.9 * (docno == "c")) for qid, docno in zip(run["qid"], run["docno"], strict=True)
             if qid in generated], columns=["qid", "pid", "docno", "p"])  # fmt: skip

    found = system("bm25+expand:recorded+xquad:0", some, aspects_by=aspects_by).search(asked, 2)
    as_it_is = BM25(PASSAGES).search(asked[1:], 2)
    assert found[found["qid"] == "p"]["docno"].tolist() == as_it_is["docno"].tolist()
    assert found[found["qid"] == "q"]["docno"].tolist()[0] == "c"
    pd.testing.assert_frame_equal(check_run(found), found)


def test_only_what_is_there_is_offered():
    with pytest.raises(InputError, match=r"set of expansions 'recorded'.*Known: chat:MODEL, hyde:MODEL, rule$"):
        system("bm25+expand:recorded", Collection("bare", QUESTIONS, PASSAGES))
    with pytest.raises(InputError, match=r"\[passages\]: 'bare' has questions only; name the corpus"):
        system("bm25", Collection("bare", QUESTIONS))


def by_length(pairs):
    return np.array([len(passage) for _, passage in pairs], dtype=np.float64)


def test_a_cross_encoder_may_stand_anywhere(monkeypatch):
    """Behind an expansion or a diversifier it re-ranks their list, of the question as it was asked."""
    loaded = []
    monkeypatch.setattr(systems_module, "load_scorer", lambda name: loaded.append(name) or by_length)
    first = BM25(PASSAGES)

    def cross(inner):
        return CrossEncoderRetriever(inner, PASSAGES, by_length, depth=2)

    fused = Expanded(first, RECORDED)
    diverse = Diversified(first, relevance_weight=0.5, vectors=VECTORS, depth=2)
    chains = {
        "bm25+cross:m": cross(first),
        "bm25+expand:recorded+cross:m": cross(fused),
        "bm25+mmr:0.5+cross:m": cross(diverse),
        "bm25+cross:m+expand:recorded": Expanded(cross(first), RECORDED),
        "bm25+cross:m+cross:m": cross(cross(first)),
    }
    built = Workshop(ZOO, encoder="letters", depth=2).make(list(chains))
    for text, by_hand in chains.items():
        pd.testing.assert_frame_equal(built[text].search(QUESTIONS, 2), by_hand.search(QUESTIONS, 2))
        assert built[text].name == text
    orders = {tuple(built[text].search(QUESTIONS, 2)["docno"]) for text in chains}
    assert len(orders) > 1 and loaded == ["m"]  # once, whatever the number of parts and systems that name it


def test_a_model_that_is_missing_fails_before_anything_is_searched(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(systems_module, "make_retriever", lambda *_, **__: pytest.fail("built"))
    with pytest.raises(MissingDataError, match="hf download nobody/nothing"):
        Workshop(ZOO).make(["bm25", "bm25+cross:nobody/nothing"])
    # An encoder that passages are compared by is a model, too.
    monkeypatch.setattr(retrievers_module, "get_encoder", get_encoder)
    with pytest.raises(MissingDataError, match="hf download nobody/nothing"):
        Workshop(ZOO).make(["bm25", "bm25+mmr:0.9@hf:nobody/nothing"])


class Counting:
    """Lists d and c, or whatever it is told, and keeps what it was asked."""

    name = "counting"

    def __init__(self, docnos=("d", "c")):
        self.docnos, self.asked = docnos, []

    def search(self, questions, k):
        self.asked.append(([q.text for q in questions], k))
        return ranked_run({q.qid: self.docnos[:k] for q in questions})


@pytest.fixture
def counting():
    one = Counting()
    RETRIEVERS.add("counting", own_retriever(lambda passages: one))
    return one


def test_systems_that_begin_alike_search_their_beginning_once(counting):
    texts = ["counting+mmr:0.9", "counting+mmr:0.5", "counting+mmr:0.9+msd:0.5", "counting"]
    built = Workshop(ZOO, encoder="letters", depth=2).make(texts)
    for text in texts:
        built[text].search(QUESTIONS, 2)
    assert counting.asked == [([QUESTIONS[0].text], 2)]
    given = built["counting"].search(QUESTIONS, 2)
    given["docno"] = "spoilt"  # what is remembered cannot be changed from outside
    assert built["counting"].search(QUESTIONS, 2)["docno"].tolist() == ["d", "c"]
    assert len(counting.asked) == 1
    built["counting"].search(QUESTIONS, 1)  # another depth is another list
    built["counting"].search([QUESTIONS[0]._replace(text="other")], 2)  # and so is another text under the same id
    assert [(text, k) for (text,), k in counting.asked[1:]] == [(QUESTIONS[0].text, 1), ("other", 2)]
