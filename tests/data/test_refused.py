"""What the readers, the records and ``load`` refuse, and the file, line and field that each error names."""

import json
import os

import pandas as pd
import pytest
from layouts import jsonl, write_questions

import berdslib as bd
from berdslib.data.collection import Collection
from berdslib.data.formats import beir_gold, read_berds, read_expansions, read_passages, read_questions
from berdslib.data.pir import PirQuery, pir_collection
from berdslib.data.records import (
    Passage,
    Question,
    check_passages,
    check_questions,
    check_run,
    check_verdicts,
    make_run,
)
from berdslib.data.records import make_verdicts as verdicts_of
from berdslib.data.trec import read_run, read_verdicts
from berdslib.errors import InputError

pytestmark = pytest.mark.usefixtures("own_place")  # the folder that one stands in is empty

ZOO = Question("zoos", "Should zoos close?", ("They should.", "They should not."), ("support", "oppose"), "pets", "dev")
GOLD = verdicts_of([("zoos", 0, "a", 1.0, True)], "hand")


def put(name, content):
    """Write a file and return its name."""
    with open(name, "w") as file:
        file.write(content)
    return name


# ---------------------------------------------------------------- frames and records


def a_run(**changed):
    return check_run(pd.DataFrame({"qid": ["q"], "docno": ["d"], "score": [1.0]} | changed).dropna(axis=1, how="all"))


def a_verdict(*row):
    return verdicts_of([row], "j")


def with_twice(check, frame, name):
    return check(pd.concat([frame, frame[[name]]], axis=1))


def a_passage(*fields):
    return a_collection(passages=[Passage(*fields)])


def a_question(qid="q", text="Is it?", perspectives=("one",), **more):
    return check_questions([Question(qid, text, perspectives, **more)], need_perspectives=True)


def a_collection(**given):
    return Collection("pets", **{"questions": [ZOO], "passages": [Passage("a", "t")], "gold": GOLD} | given)


FRAMES = [  # what is refused, the field
    (lambda: a_run(score=None), None),
    (lambda: a_run(score=["high"]), "score"),
    (lambda: a_run(qid=["q"] * 2, docno=["d"] * 2, score=[1.0, 2.0]), None),
    (lambda: a_run(qid=[1.5]), "qid"),
    (lambda: a_run(docno=[True]), "docno"),
    (lambda: check_run(None), None),
    (lambda: with_twice(check_run, a_run(), "rank"), "rank"),
    (lambda: make_run(["q"], ["d"], [None]), "score"),
    (lambda: a_verdict("q", 0, b"d", 1.0, True), "docno"),
    (lambda: a_verdict(None, 0, "d", 1.0, True), "qid"),
    (lambda: a_verdict("q", 0.7, "d", 1.0, True), "pid"),
    (lambda: a_verdict("q", 0, "d", 1.0, "False"), "supports"),
    (lambda: a_verdict("q", 0, "d", "high", True), None),
    (lambda: check_verdicts(GOLD.assign(pid=10**9)), "pid"),
    (lambda: check_verdicts(GOLD.assign(pid=[None])), "pid"),
    (lambda: check_verdicts(GOLD.assign(p_yes=[None])), "p_yes"),
    (lambda: check_verdicts(pd.concat([GOLD, GOLD])), None),
    (lambda: with_twice(check_verdicts, GOLD, "judge"), "judge"),
    (lambda: with_twice(check_run, a_run().rename(columns={"qid": "query_id", "docno": "doc_id"}), "doc_id"), "docno"),
    (lambda: with_twice(bd.load, pd.DataFrame({"qid": ["q"], "question": ["Q?"]}), "question"), None),
    (lambda: bd.experiment({"m": pd.concat([a_run(), a_run()], axis=1)}, a_collection()), "qid"),
    (lambda: a_question(perspectives=None), "perspectives"),
    (lambda: a_question(perspectives=("one", 2)), "perspectives"),
    (lambda: a_question(stances=None), "stances"),
    (lambda: a_question(perspectives=("a", "b"), stances=("support",)), "stances"),
    (lambda: a_question(labels=(5,)), "labels"),
    (lambda: a_question(weights=("x",)), "weights"),
    (lambda: a_question(qid=7), "qid"),
    (lambda: a_question(text=None), "question"),
    (lambda: check_questions([]), None),
    (lambda: check_questions([ZOO, ZOO]), None),
    (lambda: check_passages([Passage(7, "text")]), "docno"),
    (lambda: a_passage("a", None), "text"),
    (lambda: a_passage("a", "t", None), "title"),
    (lambda: a_collection(passages=[Passage("a", "t")] * 2), None),
    (lambda: a_collection(passages="p.jsonl"), "passages"),
    (lambda: a_collection(questions="zoos"), "questions"),
    (lambda: a_collection(questions=["Is it?"]), "questions"),
    (lambda: a_collection(gold="v.tsv"), None),
    (lambda: a_collection(gold=pd.DataFrame({"qid": ["zoos"]})), None),
    (lambda: a_collection(gold=GOLD.assign(p_yes=2.0)), None),
    (lambda: a_collection(gold=GOLD.assign(qid="cows")), "gold"),
    (lambda: a_collection(expansions=None), "expansions"),
    (lambda: a_collection(expansions={"zoos": ["yes"]}), "expansions"),
    (lambda: a_collection(expansions={"zoos": [("yes", None)]}), "expansions"),
]

# ---------------------------------------------------------------- tables and files


def expansion(text, **more):
    return {"org_q": "Q?", "org_id": "1", "perspective": "N", "text": text, "perspectives": ["Yes.", "No."], **more}


def official(*contexts, **more):
    return jsonl({"question": "Q?", "perspectives": ["Yes.", "No."], "ctxs": list(contexts), **more})


def beir_qrels(path):
    os.mkdir("qrels")
    os.rename(path, f"qrels/{path}")
    return beir_gold(".")


def predictions(path):
    return read_berds(path, "m-preds")


def verdict(**changed):
    return jsonl({"qid": "q", "pid": 0, "docno": "d", "p_yes": 1, **changed})


DOCUMENT = {"id": "d", "text": "t"}
FILES = [  # what reads it, its content, the line and field
    (read_passages, '{"docno": true, "text": "t"}', 1, "docno"),
    (read_passages, jsonl(DOCUMENT, DOCUMENT), 2, "docno"),
    (read_questions, jsonl({"id": 1, "text": "Q?"}, {"id": 1, "text": "R?"}), 2, "qid"),
    (read_questions, '{"question": "\\ud800"}', 1, None),
    (beir_qrels, "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td1\t0\n", 3, "docno"),
    (read_run, "[]", None, None),
    (read_run, "7", 1, None),
    (read_run, "\n", None, None),
    *((read_run, json.dumps({"q": of}), None, "q") for of in (["d"], {"d": "1"}, {"d": True}, {"d": float("nan")})),
    (read_run, json.dumps({"mteb_model_meta": {}, "de": {"test": {}}, "en": {"test": {}}}), None, None),
    (read_run, jsonl({"query_id": "q", "results": {"d": 1}}), 1, "results"),
    (read_run, jsonl({"query_id": "q", "results": [{"corpus_id": "d"}]}), 1, "results[0].score"),
    (read_run, jsonl({"results": [{"corpus_id": "d", "score": 1}]}), None, "results"),
    (read_expansions, jsonl(expansion("x"), expansion("y", perspectives=["Other."])), 2, "perspectives"),
    (read_expansions, jsonl(expansion("x"), expansion("y", org_q="R?")), 2, "org_id"),
    (read_verdicts, json.dumps({"q": {"d": "1"}}), None, "q"),
    (read_verdicts, "q -1 d 1\n", 1, "subtopic"),
    (read_verdicts, f"q {'9' * 5000} d 1\n", 1, "subtopic"),
    (read_verdicts, verdict(pid=0.5), 1, "pid"),
    (read_verdicts, verdict(pid=True), 1, "pid"),
    (read_verdicts, verdict(qid=None), 1, "qid"),
    (read_verdicts, verdict(docno=" "), 1, "docno"),
    (read_verdicts, verdict(p_yes=float("nan")), 1, "p_yes"),
    (read_verdicts, verdict(supports="perhaps"), 1, "supports"),
    (read_berds, jsonl({"question": "Q?", "ctxs": []}), 1, "perspectives"),
    (read_berds, official("text"), 1, "ctxs"),
    (read_berds, official({"title": "T"}), 1, "text"),
    (read_berds, official(DOCUMENT, DOCUMENT), 1, "ctxs"),
    (read_berds, official(DOCUMENT, {"id": "d", "text": "u"}), 1, None),
    # doubled (divergences.md B9): in a document, and in the row
    (predictions, official(DOCUMENT | {"m-preds": [1, 0, 1, 0]}), 1, "m-preds"),
    (predictions, official(DOCUMENT, **{"m-preds": [1, 0] * 2}), 1, "m-preds"),
    (predictions, official(DOCUMENT | {"m-preds": [1, 0]}, {"text": "u"}), 1, "m-preds"),
    (predictions, official(DOCUMENT | {"m-preds": [1.2, 0]}), 1, "m-preds"),
    (predictions, official(DOCUMENT | {"m-preds": [0.2, 0.3], "m-supports": [1, 0.4]}), 1, "m-supports"),
]

# ---------------------------------------------------------------- what is loaded by name or by path

TEA = {
    "corpus": ["Tea calms.", "Tea stains teeth badly.", "Trains run late."],
    "queries": ["Who speaks for tea?", "Who speaks against tea?"],
    "source_queries": ["tea", "tea"],
    "perspectives": ["for", "against"],
    "key_ref": {"0": [0], "1": [1]},
    "query_labels": ["support", "undermine"],
}


def pir(**change):
    return lambda: bd.load(put("pir.json", json.dumps({"tea": TEA | change})))


def a_task(gold, docnos):
    return pir_collection("t", [PirQuery("1", "text", "root", "p", gold)], [Passage(d, d) for d in docnos])


def nuggets(nugget=None, **change):
    first = {"text": "A chain takes a memory.", "relevant_corpus_ids": ["a"], **(nugget or {})}
    row = {"query_id": 7, "query_text": "How?", "nuggets": [first]} | change
    fine = {"query_id": 1, "query_text": "How?", "nuggets": [{"text": "So.", "relevant_corpus_ids": ["a"]}]}
    rows = fine, {name: value for name, value in row.items() if value is not None}
    return lambda: bd.load(put("n.jsonl", jsonl(*rows)))


def load(name, **options):
    return lambda: bd.load(name, **options)


LOADED = [  # what is refused, the field
    (load("smaple"), None),
    (load("pir-sample"), "task"),
    (load("pir-sample:locations"), None),
    (load("sample", split="train"), None),
    (load("sample", limit=-1), "limit"),
    (load("sample", passages="nowhere.jsonl"), None),
    (load("sample", passages=5), "passages"),
    (load("sample", gold="nowhere.tsv"), None),
    (load([]), "name"),
    (load(["sample", "mine.jsonl"]), "passages"),
    (load(None), "name"),
    (load(["sample", 5], passages=[Passage("a", "t")]), "name"),
    (load("argkp"), None),
    (pir(corpus=["a", 1, "b"]), "corpus"),
    (pir(docnos=["a"]), "docnos"),
    (pir(perspectives=["for"]), "perspectives"),
    (pir(query_labels=None), "query_labels"),
    (pir(queries=["a", " "]), "queries"),
    (pir(key_ref=[[0], [1]]), "key_ref"),
    (pir(key_ref={"0": [0]}), "key_ref"),
    (pir(key_ref={"0": [0], "2": [0]}), "key_ref"),
    (pir(key_ref={"0": [0], "1": [-1]}), "key_ref"),
    (pir(key_ref={"0": [0], "1": []}), "gold"),
    *((lambda text=text: bd.load(put("pir.json", text)), None) for text in ("", "{", "{}")),
    (lambda: a_task(("a",), "aa"), None),
    (lambda: a_task(("c",), "ab"), "gold"),
    (nuggets(query_id=None), "query_id"),
    (nuggets(query_id=1), "query_id"),
    (nuggets(query_text=None), "query_text"),
    (nuggets(nuggets=None), "nuggets"),
    (nuggets(nuggets=[3]), "nuggets"),
    (nuggets({"text": " "}), "nuggets[0].text"),
    (nuggets({"relevant_corpus_ids": "a"}), "nuggets[0].relevant_corpus_ids"),
    (nuggets({"non_relevant_corpus_ids": [None]}), "nuggets[0].non_relevant_corpus_ids"),
]


@pytest.mark.parametrize(("call", "field"), [*FRAMES, *LOADED])
def test_what_cannot_be_used_is_refused_with_its_field(tmp_path, call, field):
    write_questions(tmp_path / "mine.jsonl", [ZOO])
    with pytest.raises(InputError) as refused:
        call()
    assert refused.value.field == field


@pytest.mark.parametrize(("read", "text", "line", "field"), FILES)
def test_a_file_that_cannot_be_used_is_named_with_line_and_field(read, text, line, field):
    with pytest.raises(InputError) as refused:
        read(put("file.tsv", text))
    assert (os.path.basename(refused.value.path), refused.value.line, refused.value.field) == ("file.tsv", line, field)
