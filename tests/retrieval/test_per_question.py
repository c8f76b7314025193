"""A corpus for each question: the lists are those of a retriever over that corpus alone."""

import numpy as np
import pandas as pd
import pytest

from berdslib.data.collection import Collection
from berdslib.data.datasets import load_passages, load_questions
from berdslib.data.records import Passage, Question
from berdslib.data.web import OwnCorpora
from berdslib.errors import InputError
from berdslib.retrieval import systems as systems_module
from berdslib.retrieval.index import make_index
from berdslib.retrieval.retrievers import make_retriever
from berdslib.retrieval.systems import make_systems


@pytest.fixture(autouse=True)
def _own_cache(user_cache):
    pass


@pytest.fixture
def questions():
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


@pytest.mark.parametrize("chain", ["bm25+expand:rule", "bm25+mmr:0.5+expand:rule"])
def test_a_chain_searches_and_reorders_in_them(chain, questions, corpora, monkeypatch):
    monkeypatch.setattr(systems_module, "get_encoder", lambda _: Lengths())

    def lists(asked, passages):
        run = make_systems([chain], Collection("own", asked, passages))[chain].search(asked, 5)
        return run.groupby("qid")["docno"].agg(list).tolist()

    alone = [lists([q], corpora[q.qid])[0] for q in questions[:2]]
    assert lists(questions, OwnCorpora(corpora)) == alone


class Lengths:
    """Lengths of texts as vectors, which no model has to be loaded for."""

    id = "lengths"

    def encode_passages(self, texts):
        return np.array([[len(text), text.count("e")] for text in texts], dtype=np.float32)

    encode_queries = encode_passages


def test_a_projection_searches_in_them(questions, corpora, monkeypatch):
    monkeypatch.setattr(systems_module, "get_encoder", lambda _: Lengths())

    def found(asked, passages):
        collection = Collection("own", asked, passages)
        return make_systems(["minilm+pap"], collection)["minilm+pap"].search(collection.queries, 5)

    alone = [found([q], corpora[q.qid]) for q in questions[:2]]
    together = found(questions, OwnCorpora(corpora))
    pd.testing.assert_frame_equal(together, pd.concat(alone, ignore_index=True).sort_values(
        ["qid", "rank"], ignore_index=True))  # fmt: skip


def test_as_a_sequence_each_passage_comes_once():
    both, other = Passage("a", "one"), Passage("b", "two")
    corpora = OwnCorpora({"q": [both], "p": [other, both._replace(title="Another title")], "r": []})
    assert list(corpora) == [both, other] and len(corpora) == 2
    assert corpora[-1] == other and corpora[:1] == [both]


def test_only_queries_made_of_a_question_share_its_corpus():
    corpora = OwnCorpora({"5": [Passage("a", "one")]})
    made = Question("12:5", "Is it so?", owner="5")
    assert corpora.owner(made) == "5" and corpora.of(made) == corpora.of(Question("5", "Is it?"))
    for qid in ("7:5", "kialo:5"):  # questions of their own, whose names happen to hold a colon
        with pytest.raises(InputError, match=f"'{qid}' has no corpus of its own"):
            corpora.owner(Question(qid, "Is it?"))
        with pytest.raises(InputError, match=f"'{qid}' has no corpus of its own"):
            make_retriever("bm25", corpora).search([Question(qid, "one?")], 5)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["index", "folder"])
def test_no_index_or_folder_can_be_that_of_all(questions, corpora, tmp_path, option):
    options = {"index": make_index("numpy"), "folder": tmp_path}
    with pytest.raises(InputError, match="cannot share an index or a folder"):
        make_retriever("minilm", OwnCorpora(corpora), **{option: options[option]})
    assert not make_retriever("minilm", OwnCorpora(corpora), index="numpy").search(questions, 1).empty
