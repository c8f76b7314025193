"""Chains of retriever, expansion and diversifier: the same as their parts done one after the other."""

import numpy as np
import pandas as pd
import pytest

from berdslib.data.records import Passage, Question, make_run
from berdslib.errors import InputError
from berdslib.retrieval.bm25 import BM25
from berdslib.retrieval.diversify import diversify
from berdslib.retrieval.expansion import Expanded, expanded_search
from berdslib.retrieval.rerank import CrossEncoderRetriever
from berdslib.retrieval.systems import Diversified, make_system, passage_vectors, system_parts
from berdslib.study.experiment import experiment

PASSAGES = [
    Passage("a", "zoos are cruel to animals"),
    Passage("b", "zoos are cruel to all animals"),
    Passage("c", "zoos save species and teach children"),
    Passage("d", "children love zoos"),
]
QUESTIONS = [Question("q", "are zoos cruel to animals", ("yes", "no"))]
EXPANSIONS = {"mine": {"q": [("against", "cruel to animals"), ("for", "save species")]}}


class Letters:
    """Counts letters, so that texts with the same words have the same vector."""

    id = "letters"

    def encode_passages(self, texts):
        return np.array([[t.count(chr(97 + i)) for i in range(26)] for t in texts], dtype=np.float32)

    encode_queries = encode_passages


VECTORS = passage_vectors(PASSAGES, Letters())


def system(text, **options):
    return make_system(text, PASSAGES, expansions=EXPANSIONS, vectors=VECTORS, **options)


def test_a_chain_is_its_parts_from_left_to_right():
    first = BM25(PASSAGES)
    run = diversify(first.search(QUESTIONS, 100), vectors=VECTORS, relevance_weight=0.5, k=3)
    pd.testing.assert_frame_equal(system("bm25+mmr:0.5").search(QUESTIONS, 3), run)
    fused = expanded_search(first, QUESTIONS, EXPANSIONS["mine"], 100)
    then = diversify(fused, vectors=VECTORS, relevance_weight=0.5, k=3)
    pd.testing.assert_frame_equal(system("bm25+expand:mine+mmr:0.5").search(QUESTIONS, 3), then)
    each = expanded_search(Diversified(first, relevance_weight=0.5, vectors=VECTORS), QUESTIONS, EXPANSIONS["mine"], 3)
    pd.testing.assert_frame_equal(system("bm25+mmr:0.5+expand:mine").search(QUESTIONS, 3), each)
    assert system("bm25+mmr:0.5+expand:mine").name == "bm25+mmr:0.5+expand:mine"


def test_weight_one_is_the_retriever_itself():
    plain = BM25(PASSAGES).search(QUESTIONS, 3)
    assert system("bm25+mmr:1").search(QUESTIONS, 3)["docno"].tolist() == plain["docno"].tolist()


def test_chains_are_systems_of_an_experiment():
    chains = {text: system(text) for text in ("bm25", "bm25+mmr:0.3", "bm25+expand:mine", "bm25+expand:mine+msd:0.5")}
    verdicts = pd.DataFrame(
        [("q", 0, "a", 1.0, True, "hand"), ("q", 1, "c", 1.0, True, "hand")],
        columns=["qid", "pid", "docno", "p_yes", "supports", "judge"],
    )
    result = experiment(chains, QUESTIONS, ["MRecall@2"], verdicts=verdicts)
    means = result.table[result.table["dataset"] == "macro"].set_index("system")["mean"]
    assert means["bm25"] == 0 and means["bm25+expand:mine"] == 1  # a and b say the same


def test_aspects_are_asked_for_what_was_found():
    asked = []

    def aspects(run, questions):
        asked.append((run["docno"].tolist(), [q.qid for q in questions]))
        return pd.DataFrame({"qid": "q", "pid": [0, 1], "docno": ["a", "c"], "p": [0.9, 0.8]})

    found = system("bm25+coverage:0", aspects=aspects, depth=4).search(QUESTIONS, 2)
    assert found["docno"].tolist() == ["a", "c"]
    assert asked == [(BM25(PASSAGES).search(QUESTIONS, 4)["docno"].tolist(), ["q"])]


def test_nothing_found_is_an_empty_run():
    assert system("bm25+mmr:0.5").search([Question("x", "quark")], 3).empty


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bm25+mmr", "needs a relevance weight"),
        ("bm25+mmr:much", "needs a relevance weight"),
        ("bm25+mmr:2", "from 0 to 1"),
        ("bm25+mmr:nan", "from 0 to 1"),
        ("bm25+coverage:0.5+expand:mine", "before coverage"),
        ("bm25+expand:mine+expand:mine", "once only"),
        ("bm25+expand:yours", "mine"),
        ("bm25+expand", "expand needs a name, as in expand:rule"),
        ("bm25+expand:", "expand needs a name, as in expand:rule"),
        ("bm25+expand:mine+cross:m", "cross must follow the first retriever"),
        ("bm25+cross:a+mmr:0.5+cross:m", "cross must follow the first retriever"),
        ("bm26+mmr:0.5", "bm25"),
        ("bm25+mrm:0.5", "bm25"),
    ],
)
def test_errors_say_what_would_be_accepted(text, said):
    with pytest.raises(InputError, match=said):
        system(text)


def test_a_cross_encoder_is_part_of_the_retrievers_name():
    assert system_parts("bm25+cross:org/model+mmr:0.9") == ("bm25+cross:org/model", [("mmr", "0.9")])


def test_a_retriever_that_is_there_is_used():
    class Fixed:
        name = "fixed"

        def search(self, questions, k):
            return make_run(["q", "q"], ["d", "c"], [2.0, 1.0])

    assert system("bm25+mmr:1", retriever=Fixed()).search(QUESTIONS, 2)["docno"].tolist() == ["d", "c"]


def test_aspects_are_asked_for_only_where_they_are_used():
    def aspects(run, questions):
        raise AssertionError("asked")

    for text in ("bm25+mmr:0.5", "bm25+coverage:1"):
        assert len(system(text, aspects=aspects).search(QUESTIONS, 2)) == 2


def test_vectors_of_a_run_of_another_corpus_are_refused():
    with pytest.raises(InputError, match="'zzz' is not in the corpus"):
        VECTORS(["a", "zzz"])


class Twice:
    """Somebody's own retriever, which lists a passage twice."""

    name = "twice"

    def search(self, questions, k):
        return pd.DataFrame({"qid": "q", "docno": ["a", "a"], "rank": [1, 2], "score": [2.0, 1.0]})


@pytest.mark.parametrize(
    "around",
    [
        lambda own: Expanded(own, EXPANSIONS["mine"]),
        lambda own: CrossEncoderRetriever(own, PASSAGES, lambda pairs: np.zeros(len(pairs))),
        lambda own: Diversified(own, vectors=VECTORS),
    ],
)
def test_an_ill_formed_retriever_is_named_wherever_it_is_used(around):
    with pytest.raises(InputError, match=r"^twice: passage 'a' is listed twice"):
        around(Twice()).search(QUESTIONS, 2)
