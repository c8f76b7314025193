"""Chains of retriever, expansion, cross-encoder and diversifier: the same as their parts done one after the other."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from berdslib.data.collection import Collection
from berdslib.data.records import Passage, Question, check_run, ranked_run
from berdslib.errors import InputError, MissingDataError
from berdslib.models.cards import CARDS, ModelCard
from berdslib.retrieval import systems as systems_module
from berdslib.retrieval.bm25 import BM25
from berdslib.retrieval.diversify import Diversified, diversify, passage_vectors
from berdslib.retrieval.expansion import Expanded, expanded_search, template_expansions
from berdslib.retrieval.rerank import CrossEncoderRetriever
from berdslib.retrieval.retrievers import RETRIEVERS, own_retriever
from berdslib.retrieval.systems import EXPANSION, PARTS, PartKind, make_systems, offers

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
    monkeypatch.setattr(systems_module, "get_encoder", lambda name: {"letters": Letters()}[name])
    monkeypatch.setattr(RETRIEVERS, "_things", dict(RETRIEVERS))


def system(text, collection=ZOO, **options):
    return make_systems([text], collection, encoder="letters", **options)[text]


def test_a_chain_is_its_parts_from_left_to_right():
    first = BM25(PASSAGES)
    run = diversify(first.search(QUESTIONS, 100), vectors=VECTORS, relevance_weight=0.5, k=3)
    pd.testing.assert_frame_equal(system("bm25+mmr:0.5").search(QUESTIONS, 3), run.drop(columns="value"))
    fused = expanded_search(first, QUESTIONS, RECORDED, 100)
    then = diversify(fused, vectors=VECTORS, relevance_weight=0.5, k=3)
    then = then.drop(columns="value")
    pd.testing.assert_frame_equal(system("bm25+expand:recorded+mmr:0.5").search(QUESTIONS, 3), then)
    each = expanded_search(Diversified(first, relevance_weight=0.5, vectors=VECTORS), QUESTIONS, RECORDED, 3)
    pd.testing.assert_frame_equal(system("bm25+mmr:0.5+expand:recorded").search(QUESTIONS, 3), each)
    assert system("bm25+mmr:0.5+expand:recorded").name == "bm25+mmr:0.5+expand:recorded"
    by_rule = expanded_search(first, QUESTIONS, template_expansions(QUESTIONS), 3)
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


def test_hypothetical_passages_are_searched_beside_the_question(counting, monkeypatch):
    monkeypatch.setattr(systems_module, "expansions_by", lambda *_, **__: {"q": [("passage", "zoos hurt")]})
    system("counting+multi:hyde:m").search(QUESTIONS, 2)
    assert counting.asked[0][0] == [QUESTIONS[0].text, "zoos hurt"]


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
        monkeypatch.setitem(CARDS, name, ModelCard(name, "nowhere"))
        RETRIEVERS.add(name, own_retriever(lambda passages: Counting(("a", "b", "c"))))
    monkeypatch.setattr(systems_module, "get_encoder", Found)
    texts = ["first+mmr:0.3", "second+mmr:0.3", "first+expand:rule+mmr:0.3"]
    built = make_systems(texts, ZOO, encoder="second")
    assert [built[text].search(QUESTIONS, 2)["docno"].tolist() for text in texts] == [
        ["a", "c"],
        ["a", "b"],
        ["a", "c"],
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


def test_perspectives_that_were_not_recorded_are_made_by_rule(caplog):
    """Recorded ones are taken where there are any, and whatever the chain expands by goes before both."""
    used = []
    asked = [*QUESTIONS, Question("p", "Should zoos close?", ("yes", "no"))]
    some = Collection("zoos", asked, PASSAGES, expansions=RECORDED)
    rule = template_expansions(asked)
    with caplog.at_level("WARNING"):
        for text in ("bm25+coverage:0.5", "bm25+expand:rule+coverage:0.5", "bm25+expand:recorded+coverage:0.5"):
            system(text, some, aspects_by=lambda generated, _: used.append(dict(generated)))
    assert used == [{"q": RECORDED["q"], "p": rule["p"]}, rule, RECORDED]
    assert caplog.text.count("perspectives of 1 of 2 questions are made by rule") == 1


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


def test_a_new_kind_of_part_is_one_entry_of_a_table(monkeypatch):
    class First:
        name = "first"

        def __init__(self, before, n):
            self.search = lambda questions, k: before.search(questions, min(k, n))

    kind = PartKind(
        lambda shop, system: First(shop.build(system.before), int(system.last.value)),
        lambda part: "" if part.value.isdigit() else "first needs a number",
        menu=EXPANSION,
        offers=("first:1",),
    )
    monkeypatch.setitem(PARTS, "first", kind)
    found = system("bm25+mmr:0.5+first:1").search(QUESTIONS, 3)
    assert found["docno"].tolist() == system("bm25+mmr:0.5").search(QUESTIONS, 1)["docno"].tolist()
    assert "first:1" in offers(EXPANSION)
    with pytest.raises(InputError, match=r"'bm25\+first:x': first needs a number"):
        system("bm25+first:x")


def test_nothing_found_is_an_empty_run():
    assert system("bm25+mmr:0.5").search([Question("x", "quark")], 3).empty
    covering = system("bm25+coverage:0.5", aspects_by=lambda *_: lambda *_: pytest.fail("nothing was found"))
    assert covering.search([Question("x", "quark")], 3).empty


def test_only_what_is_there_is_offered():
    with pytest.raises(InputError, match=r"set of expansions 'recorded'.*Known: chat:MODEL, hyde:MODEL, rule$"):
        system("bm25+expand:recorded", Collection("bare", QUESTIONS, PASSAGES))
    with pytest.raises(InputError, match=r"\[passages\]: 'bare' has questions only; name the corpus to search"):
        system("bm25", Collection("bare", QUESTIONS))


# ---------------------------------------------------------------- cross-encoders


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
    built = make_systems(list(chains), ZOO, encoder="letters", depth=2)
    for text, by_hand in chains.items():
        pd.testing.assert_frame_equal(built[text].search(QUESTIONS, 2), by_hand.search(QUESTIONS, 2))
        assert built[text].name == text
    orders = {tuple(built[text].search(QUESTIONS, 2)["docno"]) for text in chains}
    assert len(orders) > 1 and loaded == ["m"]  # once, whatever the number of parts and systems that name it


def test_a_model_that_is_missing_fails_before_anything_is_searched(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(systems_module, "make_retriever", lambda *_, **__: pytest.fail("built"))
    with pytest.raises(MissingDataError, match="hf download nobody/nothing"):
        make_systems(["bm25", "bm25+cross:nobody/nothing"], ZOO)


# ---------------------------------------------------------------- retrievers of one's own, and what is remembered


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
    built = make_systems(texts, ZOO, encoder="letters", depth=2)
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


def test_a_system_is_called_what_it_was_typed_as_and_shares_the_search_of_its_equals(monkeypatch):
    searched = []
    search = Diversified.search
    monkeypatch.setattr(Diversified, "search", lambda self, *asked: searched.append(self.name) or search(self, *asked))
    texts = ["bm25+mmr:.90", "bm25+mmr:0.9", "bm25+mmr:9e-1", "bm25+mmr:1", "bm25+mmr:1.0"]
    built = make_systems(texts, ZOO, encoder="letters")
    assert list(built) == [built[text].name for text in texts] == texts
    for text in texts:
        built[text].search(QUESTIONS, 2)
    assert searched == ["bm25+mmr:.90", "bm25+mmr:1"]


# ---------------------------------------------------------------- queries made of a question


def test_a_query_of_one_perspective_passes_through_an_expansion_and_a_coverage_diversifier():
    """It has its perspective already: there is nothing to expand it by, and no other to cover."""

    def aspects(run, questions):
        assert [q.qid for q in questions] == ["q"] and set(run["qid"]) == {"q"}
        return pd.DataFrame({"qid": "q", "pid": [0, 1], "docno": ["a", "c"], "p": [0.9, 0.8]})

    asked = [*QUESTIONS, *ZOO.queries]
    run = system("bm25+expand:recorded+coverage:0", aspects_by=lambda *_: aspects).search(asked, 2)
    plain = BM25(PASSAGES).search(ZOO.queries, 2)
    passed = run[run["qid"] != "q"].reset_index(drop=True)
    assert passed[["qid", "docno"]].values.tolist() == plain[["qid", "docno"]].values.tolist()
    assert set(passed["qid"]) == {"q#0", "q#1"}
    assert run[run["qid"] == "q"]["docno"].tolist() == ["a", "c"]


def test_aspects_are_asked_for_only_where_they_are_used():
    def aspects(run, questions):
        raise AssertionError("asked")

    for text in ("bm25+mmr:0.5", "bm25+coverage:1"):
        assert len(system(text, aspects_by=lambda *_: aspects).search(QUESTIONS, 2)) == 2


class Twice:
    """Somebody's own retriever, which lists a passage twice."""

    name = "twice"

    def search(self, questions, k):
        return pd.DataFrame({"qid": "q", "docno": ["a", "a"], "rank": [1, 2], "score": [2.0, 1.0]})


@pytest.mark.parametrize(
    "around",
    [
        lambda own: Expanded(own, RECORDED),
        lambda own: CrossEncoderRetriever(own, PASSAGES, lambda pairs: np.zeros(len(pairs))),
        lambda own: Diversified(own, vectors=VECTORS),
    ],
)
def test_an_ill_formed_retriever_is_named_wherever_it_is_used(around):
    with pytest.raises(InputError, match=r"^twice: passage 'a' is listed twice"):
        around(Twice()).search(QUESTIONS, 2)
