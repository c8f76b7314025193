"""Systems by their strings, over the sample: the same lists as their parts, made one after the other."""

from pathlib import Path

import numpy as np
import pytest
from layouts import write_questions

from berdslib.data.collection import Collection
from berdslib.data.datasets import load_expansions
from berdslib.data.load import load
from berdslib.data.records import Passage, Question
from berdslib.errors import InputError
from berdslib.judging.registry import make_judge
from berdslib.llm.chat import Reply
from berdslib.llm.extraction import extract, extract_with
from berdslib.llm.recorded import Kept
from berdslib.models.cards import CARDS, ModelCard
from berdslib.retrieval import systems as systems_module
from berdslib.retrieval.expansion import chat_expansions, expanded_search, template_expansions
from berdslib.retrieval.retrievers import RETRIEVERS, make_retriever, own_retriever
from berdslib.retrieval.systems import make_systems
from berdslib.study import scoring
from berdslib.study.experiment import experiment
from berdslib.study.front import search
from berdslib.study.scoring import build


@pytest.fixture(autouse=True)
def _own_cache(warm_cache):
    pass


@pytest.fixture(scope="module")
def sample():
    return load("sample", split="dev")


ASPECTS = {"aspect_judge": lambda: make_judge("overlap"), "store": None}


def pairs(run):
    return run[["qid", "docno"]].values.tolist()


@pytest.mark.slow
def test_depth_says_how_many_candidates_are_chosen_from(sample):
    def found(**options):
        return search("bm25+cover:0.1", sample, 5, **options).groupby("qid")["docno"].agg(set).to_dict()

    plain = make_retriever("bm25", sample.passages).search(sample.questions, 5)
    assert found(depth=5) == plain.groupby("qid")["docno"].agg(set).to_dict()
    assert found() != found(depth=5)


def test_depth_reaches_a_cross_encoder(sample, monkeypatch):
    monkeypatch.setattr(systems_module, "load_scorer", lambda *_: lambda pairs: range(len(pairs)))
    for name, depth in (("bm25+cross:any/model", 3), ("bm25", 300)):
        run = make_systems([name], sample, depth=depth)[name].search(sample.questions, 3)
        assert run["rank"].max() == 3
    with pytest.raises(InputError, match="raise depth"):
        make_systems(["bm25+cross:any/model"], sample, depth=3)["bm25+cross:any/model"].search(sample.questions, 4)


def test_depth_reaches_a_retriever_that_re_ranks_by_itself(sample, monkeypatch):
    """As tart-full does: whatever re-ranks is told the depth, and nothing else is."""
    monkeypatch.setattr(RETRIEVERS, "_things", dict(RETRIEVERS))
    told = []
    made = own_retriever(lambda passages, depth=100: told.append(depth) or Nothing())
    RETRIEVERS.add("deep", made._replace(reranks=True))
    RETRIEVERS.add("plain", own_retriever(lambda passages: Nothing()))
    make_systems(["deep", "plain"], sample, depth=7)
    assert told == [7]


class Nothing:
    name = "nothing"

    def search(self, questions, k):
        raise AssertionError("searched")


def test_files_have_no_recorded_expansions_and_rules_are_always_there(sample, tmp_path):
    write_questions(tmp_path / "mine.jsonl", sample.questions)
    mine = load(tmp_path / "mine.jsonl", passages=sample.passages)
    assert mine.expansions == {} and sample.expansions == load_expansions("sample", "dev")
    by_rule = expanded_search(
        make_retriever("bm25", sample.passages), sample.questions, template_expansions(sample.questions), 5
    )
    assert pairs(search("bm25+expand:rule", mine, 5)) == pairs(by_rule)
    with pytest.raises(InputError, match=r"unknown set of expansions 'recorded'.*Known: .*rule"):
        search("bm25+expand:recorded", mine, 5)


def test_strings_are_built_and_everything_else_is_as_it_came(sample):
    run, own = search("bm25", sample, 3), Nothing()
    built = build({"a": "bm25", "b": " bm25+mmr:1 ", "c": own, "d": run, "e": "bm25"}, sample, **ASPECTS)
    assert list(built) == ["a", "b", "c", "d", "e"] and built["c"] is own and built["d"] is run
    assert built["a"] is built["e"] and pairs(built["a"].search(sample.questions, 3)) == pairs(run)
    bare = Collection("bare", sample.questions)  # nothing is to be built, so no corpus is needed
    assert build({"c": own}, bare, **ASPECTS) == {"c": own}
    with pytest.raises(InputError, match=r"\[k\]|depth"):
        build({"a": "bm25"}, sample, depth=0, **ASPECTS)


# ---------------------------------------------------------------- PIR


def hits(run, task, k):
    """Which perspectives have one of their gold texts among the first k of their own list, counted by hand."""
    gold = task.gold.groupby(["qid", "pid"])["docno"].agg(set)
    tops = run[run["rank"] <= k].groupby("qid")["docno"].agg(set)
    return {
        q.qid: [bool(gold[q.qid, pid] & tops.get(f"{q.qid}#{pid}", set())) for pid in range(len(q.perspectives))]
        for q in task.questions
    }


def by_rule(messages):
    query = messages[-1]["content"].partition("<request>\n")[2].partition("\n</request>")[0]
    found = extract(query)
    return f"angle: {found.perspective}\ntopic: {found.root}"


@pytest.mark.slow
def test_pir_takes_queries_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = load("pir-sample:location")
    # The data set's own columns say nothing: what is found comes from the queries.
    blind = [q._replace(perspectives=tuple(f"something {i}" for i in range(len(q.perspectives)))) for q in
             task.questions]  # fmt: skip
    renamed = {
        q.qid: [(p, text) for p, (_, text) in zip(q.perspectives, task.expansions[q.qid], strict=True)] for q in blind
    }
    without = Collection("location", blind, task.passages, task.gold, renamed)
    k, pap = 3, make_systems(["minilm+pap"], task)["minilm+pap"]
    taken = [extract(q.text) for q in task.queries]
    by_hand = [q._replace(root=t.root, perspectives=(t.perspective,)) for q, t in zip(task.queries, taken, strict=True)]
    expected = pairs(pap.search(by_hand, k))
    names = ["minilm+pap", "minilm+extract:rule+pap", "minilm+extract:chat:recorded:answers.jsonl+pap"]
    extract_with(Kept(Model(by_rule), Path("answers.jsonl")), [q.text for q in task.queries])
    unaided, rule, chat = (pairs(search(name, without, k, perspectives=True)) for name in names)
    own = {q.qid for q in task.queries}
    assert [p for p in rule if p[0] in own] == [p for p in chat if p[0] in own] == expected
    assert [p for p in unaided if p[0] in own] != expected
    with pytest.raises(InputError, match=r"unknown way to take queries apart 'rules'. Did you mean 'rule'"):
        search("minilm+extract:rules+pap", without, k, perspectives=True)
    # Whatever the queries are taken apart into, they are scored under the roots of the data set.
    scored = experiment("minilm+extract:rule+pap", without, "pRecall@3")
    assert scored.scores["minilm+extract:rule+pap"].index.tolist() == [q.qid for q in task.questions]


@pytest.mark.slow
def test_official_gold_adds_that_of_the_other_queries_of_a_root():
    """The authors' notebook gives the first query of a root the gold texts of all (divergences.md P1)."""
    task = load("pir-sample:location")
    found = experiment("minilm", task, ["pRecall@3", "pRecall(gold='official')@3"])
    run = make_retriever("minilm", task.passages).search(task.queries, 3)
    gold = task.gold.groupby("qid")["docno"].agg(set)
    for q in task.questions:
        own = hits(run, task, 3)[q.qid]
        first = set(run[run["qid"] == f"{q.qid}#0"]["docno"]) & gold[q.qid]
        own_mean, official = found.scores["minilm"].loc[q.qid]
        assert own_mean == pytest.approx(np.mean(own))
        assert official == pytest.approx(np.mean([bool(first), *own[1:]]))
    assert found.scores["minilm"].iloc[:, 0].mean() != found.scores["minilm"].iloc[:, 1].mean()


# ---------------------------------------------------------------- vectors


def test_a_diversifier_reads_the_text_that_the_retriever_encoded(monkeypatch):
    """A card's title separator holds for both, so that no passage is encoded twice."""
    read = []

    class Listening:
        id = "listening"

        def encode_passages(self, texts):
            read.extend(texts)
            return np.eye(len(texts), 4, dtype=np.float32)

        encode_queries = encode_passages

    card = ModelCard("listening", "nowhere", title_separator=" [SEP] ")
    monkeypatch.setitem(CARDS, "listening", card)
    monkeypatch.setattr(systems_module, "get_encoder", lambda *_: Listening())
    passages = [Passage("d1", "Yes.", "Title"), Passage("d2", "No.", "Other")]
    asked = [Question("q", "title other yes no")]
    systems = make_systems(["bm25+mmr:0.5"], Collection("two", asked, passages), encoder="listening")
    systems["bm25+mmr:0.5"].search(asked, 2)
    assert set(read) == {"Title [SEP] Yes.", "Other [SEP] No."}


# ---------------------------------------------------------------- made by a chat model, from recorded answers


class Model:
    """Says the same to all; what it was asked is kept."""

    id = "some-model"

    def __init__(self, answer):
        self.answer, self.asked = answer, 0

    def complete(self, messages):
        self.asked += 1
        return Reply(self.answer(messages) if callable(self.answer) else self.answer)


@pytest.fixture
def two(sample, monkeypatch, tmp_path):
    """The sample with its first two questions, and a folder to work in."""
    monkeypatch.chdir(tmp_path)
    return sample.only(sample.questions[:2])


def test_perspectives_of_a_chat_model_are_part_of_a_system(two):
    model = Model('{"For": "It helps many people.", "Against": "It costs too much money."}')
    made = chat_expansions(two.questions, Kept(model, Path("answers.jsonl")))
    first = make_retriever("bm25", two.passages)
    expected = pairs(expanded_search(first, two.questions, made, 5))
    assert pairs(search("bm25+expand:chat:recorded:answers.jsonl", two, 5)) == expected
    assert expected != pairs(first.search(two.questions, 5))
    assert pairs(search("bm25+expand:chat:recorded:answers.jsonl+mmr:1", two, 5)) == expected


def test_several_systems_ask_once(two, monkeypatch):
    model = Model('{"For": "It helps."}')
    monkeypatch.setattr("berdslib.retrieval.expansion.make_chat", lambda *_, **__: model)
    names = ["bm25+expand:chat:m", "bm25+expand:chat:m+mmr:0.9", "bm25+expand:rule"]
    assert list(make_systems(names, two)) == names
    assert model.asked == len(two.questions)
    kept = Path("kept.jsonl")
    for _ in range(2):
        make_systems(names, two, recordings=kept)
    assert model.asked == 2 * len(two.questions) == 2 * len(kept.read_text().splitlines())


def test_diversifiers_use_the_perspectives_of_the_model_and_never_a_hypothetical_passage(two, monkeypatch):
    made = {"chat:m": {"q": [("For", "Yes.")]}, "hyde:m": {"q": [("", "A passage.")]}}
    monkeypatch.setattr(systems_module, "expansions_by", lambda name, *_, **__: made[name])
    used = []
    monkeypatch.setattr(scoring, "judged_aspects", lambda generated, *_: used.append(generated))
    names = [f"bm25+expand:{kind}+coverage:0.5" for kind in ("chat:m", "hyde:m", "rule")]
    bare = Collection("bare", two.questions, two.passages)
    chains = {name: name for name in names}
    build(chains, bare, **ASPECTS)
    rule = template_expansions(two.questions)
    assert used == [made["chat:m"], rule, rule]
    used.clear()
    build({names[1]: names[1]}, two, **ASPECTS)
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


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("bm25+expand:chat:recorded:none.jsonl", "none.jsonl: cannot be read"),
        ("bm25+expand:chat:", "'' is not a chat model"),
        ("bm25+expand:caht:gpt", "unknown way to ask for expansions 'caht'. Did you mean 'chat'? Known: chat, hyde"),
        ("bm25+coverage:0.5+expand:chat:gpt", "expand must come before coverage"),
    ],
)
def test_what_no_chat_model_can_make_is_said(two, system, said):
    with pytest.raises(InputError) as caught:
        search(system, two, 5)
    assert said in str(caught.value) and "\n" not in str(caught.value)
