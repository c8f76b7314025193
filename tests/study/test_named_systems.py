"""Systems by their strings, over the sample: the same lists as their parts, made one after the other."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from berdslib.data.collection import Collection
from berdslib.data.datasets import load
from berdslib.data.records import Passage, Question
from berdslib.errors import InputError
from berdslib.judging.registry import make_judge
from berdslib.llm.chat import Reply
from berdslib.models.cards import CARDS, ModelCard
from berdslib.retrieval import systems as systems_module
from berdslib.retrieval.expansion import template_expansions
from berdslib.retrieval.retrievers import RETRIEVERS, own_retriever
from berdslib.retrieval.systems import make_systems
from berdslib.study import scoring
from berdslib.study.front import search


@pytest.fixture(autouse=True)
def _own_cache(warm_cache):
    pass


@pytest.fixture(scope="module")
def sample():
    return load("sample", split="dev")


ASPECTS = {"aspect_judge": lambda: make_judge("overlap"), "store": None}


def pairs(run):
    return run[["qid", "docno"]].values.tolist()


def test_depth_reaches_a_retriever_that_re_ranks_by_itself(sample, monkeypatch):
    """As tart-full does: whatever re-ranks is told the depth, and nothing else is."""
    monkeypatch.setattr(RETRIEVERS, "_things", dict(RETRIEVERS))
    told, made = [], SimpleNamespace(search=print)
    deep = own_retriever(lambda passages, depth=100: told.append(depth) or made)
    RETRIEVERS.add("deep", deep._replace(reranks=True))
    RETRIEVERS.add("plain", own_retriever(lambda passages: made))
    make_systems(["deep", "plain"], sample, depth=7)
    assert told == [7]


def test_strings_are_built_and_everything_else_is_as_it_came(sample):
    run = search("bm25", sample, 3)
    runs = scoring.search({"a": "bm25", "b": " bm25+mmr:1 ", "c": run}, sample, 3, **ASPECTS)
    assert list(runs) == ["a", "b", "c"] and all(pairs(one) == pairs(run) for one in runs.values())
    bare = Collection("bare", sample.questions)  # nothing is to be built, so no corpus is needed
    assert pairs(scoring.search({"c": run}, bare, 3, **ASPECTS)["c"]) == pairs(run)
    with pytest.raises(InputError, match=r"\[depth\]"):
        scoring.search({"a": "bm25"}, sample, 3, depth=0, **ASPECTS)


def test_a_diversifier_reads_the_text_that_the_retriever_encoded(monkeypatch):
    """A card's title separator holds for both, so that no passage is encoded twice."""
    read = []

    def encode(texts):
        read.extend(texts)
        return np.eye(len(texts), 4, dtype=np.float32)

    listening = SimpleNamespace(id="listening", encode_passages=encode, encode_queries=encode)
    monkeypatch.setitem(CARDS, "listening", ModelCard("listening", "nowhere", title_separator=" [SEP] "))
    monkeypatch.setattr(systems_module, "get_encoder", lambda *_: listening)
    passages = [Passage("d1", "Yes.", "Title"), Passage("d2", "No.", "Other")]
    asked = Collection("two", [Question("q", "title other yes no")], passages)
    make_systems(["bm25+mmr:0.5"], asked, encoder="listening")["bm25+mmr:0.5"].search(asked.questions, 2)
    assert set(read) == {"Title [SEP] Yes.", "Other [SEP] No."}


# ---------------------------------------------------------------- made by a chat model


@pytest.fixture
def two(sample, monkeypatch, tmp_path):
    """The sample with its first two questions, and a folder to work in."""
    monkeypatch.chdir(tmp_path)
    return sample.only(sample.questions[:2])


def test_several_systems_ask_once(two, monkeypatch):
    asked = []
    model = SimpleNamespace(id="m", complete=lambda messages: asked.append(messages) or Reply('{"For": "It helps."}'))
    monkeypatch.setattr("berdslib.retrieval.expansion.make_chat", lambda *_, **__: model)
    names = ["bm25+expand:chat:m", "bm25+expand:chat:m+mmr:0.9", "bm25+expand:rule"]
    assert list(make_systems(names, two)) == names
    assert len(asked) == len(two.questions)
    kept = Path("kept.jsonl")
    for _ in range(2):
        make_systems(names, two, recordings=kept)
    assert len(asked) == 2 * len(two.questions) == 2 * len(kept.read_text().splitlines())


def test_diversifiers_use_the_perspectives_of_the_model_and_never_a_hypothetical_passage(two, monkeypatch):
    made = {kind: {q.qid: [("For", "Yes.")] for q in two.questions} for kind in ("chat:m", "hyde:m")}
    monkeypatch.setattr(systems_module, "expansions_by", lambda name, *_, **__: made[name])
    used = []
    monkeypatch.setattr(scoring, "judged_aspects", lambda generated, *_: used.append(generated) or nobody)
    names = [f"bm25+expand:{kind}+coverage:0.5" for kind in ("chat:m", "hyde:m", "rule")]
    bare = Collection("bare", two.questions, two.passages)
    chains = {name: name for name in names}
    scoring.search(chains, bare, 5, **ASPECTS)
    rule = template_expansions(two.questions)
    assert used == [made["chat:m"], rule, rule]
    used.clear()
    scoring.search({names[1]: names[1]}, two, 5, **ASPECTS)
    assert used == [two.expansions | {q: rule[q] for q in rule if q not in two.expansions}]


def nobody(run, questions):
    """Say of no passage that it argues anything."""
    return run[["qid", "docno"]].assign(pid=0, p=0.0)


def test_who_argues_a_generated_perspective_is_the_aspect_judge_of_the_call(two, monkeypatch):
    asked = []
    monkeypatch.setattr(
        scoring, "judged_aspects", lambda generated, passages, judge, store: asked.append(judge.id) or nobody
    )
    for name in ("overlap", "random"):
        search("bm25+coverage:0.5", two, 5, aspect_judge=name)
    assert len(asked) == 2 and asked[0].startswith("overlap") and asked[1].startswith("random")
    with pytest.raises(InputError, match=r"unknown judge 'overlop'. Did you mean 'overlap'"):
        search("bm25+coverage:0.5", two, 5, aspect_judge="overlop")
