"""What the readers, the records and ``load`` refuse: one table of bad inputs, and the words of each error."""

import gzip
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
    """Write a file, compressed if its name says so, and return its name."""
    data = content if isinstance(content, bytes) else content.encode()
    with open(name, "wb") as file:
        file.write(gzip.compress(data) if name.endswith(".gz") else data)
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


NO_NUMBERS = (["high"], [None], [[1.0]])
NO_ID = r"\[(qid|docno)\]: "
FRAMES = [
    (lambda: a_run(score=None), "missing: score or rank"),
    (lambda: a_run(docno=None), "missing: docno"),
    (lambda: a_run(score=["high"]), r"\[score\]: score of passage 'd' for question 'q' is not a finite number"),
    (lambda: a_run(qid=["q"] * 2, docno=["d"] * 2, score=[1.0, 2.0]), "'d' is listed twice for question 'q'"),
    (lambda: a_run(qid=[1.5]), NO_ID),
    (lambda: a_run(docno=[True]), NO_ID),
    (lambda: check_run(None), "not NoneType"),
    (lambda: check_verdicts(None), "not NoneType"),
    (lambda: a_verdict("q", 0, b"d", 1.0, True), NO_ID),
    (lambda: a_verdict(None, 0, "d", 1.0, True), NO_ID),
    (lambda: a_verdict("q", 0.7, "d", 1.0, True), r"\[pid\]"),
    (lambda: check_verdicts(GOLD.assign(pid=10**9)), r"\[pid\]"),
    (lambda: a_verdict("q", 0, "d", 1.0, "False"), r"\[supports\]"),
    (lambda: a_verdict("q", 0, "d", "high", True), "p_yes"),
    (lambda: check_verdicts(pd.concat([GOLD, GOLD])), r"two verdicts for \(zoos, 0, a\); keep one"),
    *((lambda of=of: check_run(GOLD.assign(score=of)), r"\[score\]: .* not a finite number") for of in NO_NUMBERS),
    *((lambda of=of: make_run(["q"], ["d"], of), r"\[score\]: .* not a finite number") for of in NO_NUMBERS),
    *((lambda of=of: check_verdicts(GOLD.assign(pid=of)), r"\[pid\]") for of in NO_NUMBERS),
    *((lambda of=of: check_verdicts(GOLD.assign(p_yes=of)), "p_yes") for of in NO_NUMBERS),
    *((lambda name=name: with_twice(check_run, a_run(), name), rf"\[{name}\]: two columns have this name")
      for name in ("qid", "docno", "rank", "score")),
    *((lambda name=name: with_twice(check_verdicts, GOLD, name), rf"\[{name}\]: two columns") for name in GOLD),
    (lambda: with_twice(check_run, a_run().rename(columns={"qid": "query_id", "docno": "doc_id"}), "doc_id"), "docno"),
    (lambda: with_twice(bd.load, pd.DataFrame({"qid": ["q"], "question": ["Q?"]}), "question"), "occurs twice"),
    (lambda: bd.experiment({"m": pd.concat([a_run(), a_run()], axis=1)}, a_collection()), "m: two columns"),
    (lambda: a_question(perspectives=None), r"\[perspectives\]: question 'q' needs a list of texts, not None"),
    (lambda: a_question(stances=None), r'\[stances\]: .* a list of "support", "oppose" or None, not None'),
    (lambda: a_question(stances=("perhaps",)), r"\[stances\]: .* not \('perhaps',\)"),
    (lambda: a_question(labels=(5,)), r"\[labels\]"),
    (lambda: a_question(weights=("x",)), r"\[weights\]"),
    (lambda: a_question(perspectives=("a", "b"), stances=("support",)), "2 perspectives and 1 stances"),
    (lambda: a_passage("a", None), r"\[text\]: passage 'a' has None where text is needed"),
    (lambda: a_passage("a", "t", None), r"\[title\]: passage 'a' has None"),
    (lambda: a_passage(7, "t"), r"\[docno\]: .*\b7\b"),
    (lambda: a_collection(passages=[Passage("a", "t")] * 2), "docno 'a' occurs twice"),
    (lambda: a_collection(expansions={"zoos": None}), r"\[expansions\]: those of 'zoos'"),
    (lambda: a_collection(expansions={"zoos": [("yes", None)]}), r"\[expansions\]: those of 'zoos'"),
    (lambda: a_question(perspectives=("one", 2)), r"\[perspectives\]"),
    (lambda: a_question(qid=7), r"\[qid\]: .*\b7\b"),
    (lambda: a_question(text=None), r"\[question\]"),
    (lambda: a_question(labels=("a", "b")), r"\[labels\]: .* has 1 perspectives and 2 labels"),
    (lambda: check_questions([]), "there are no questions"),
    (lambda: check_questions([ZOO, ZOO]), "question id 'zoos' occurs twice"),
    (lambda: check_passages([Passage(7, "text")]), r"\[docno\]: .*\b7\b"),
    (lambda: a_collection(questions="zoos"), r"\[questions\]: a list of questions is needed, not str"),
    (lambda: a_collection(questions=ZOO), r"\[questions\]: a list of questions is needed, not Question"),
    (lambda: a_collection(questions=["Is it?"]), r"\[questions\]: .*'Is it\?'"),
    (lambda: a_collection(passages="p.jsonl"), r"\[passages\]: a list .* not str; berdslib\.load reads"),
    (lambda: a_collection(passages={"a": "text"}), r"\[passages\]: a list of passages is needed, not dict"),
    (lambda: a_collection(gold="v.tsv"), r"verdicts are a data frame with columns qid, pid, docno.*, not str"),
    (lambda: a_collection(gold=pd.DataFrame({"qid": ["zoos"]})), "verdicts need columns qid, pid, docno and p_yes"),
    (lambda: a_collection(gold=GOLD.assign(p_yes=2.0)), "is not a number from 0 to 1"),
    (lambda: a_collection(gold=GOLD.assign(qid="cows")), r"\[gold\]: .* do not belong together: 'cows'"),
    (lambda: a_collection(expansions=None), r"\[expansions\]: qid → \[\(name, text\), …\] is needed, not NoneType"),
    (lambda: a_collection(expansions={"zoos": ["yes"]}), r"\[expansions\]: those of 'zoos' must be \(name, text\)"),
]  # fmt: skip

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
FILES = [
    (read_passages, "p.jsonl", '{"docno": true, "text": "t"}', r":1 \[docno\]: text was expected, not bool"),
    (read_passages, "p.jsonl", jsonl(DOCUMENT, DOCUMENT), r":2 \[docno\]: docno 'd' occurs twice, first in line 1"),
    (read_questions, "q.jsonl", jsonl({"id": 1, "text": "Q?"}, {"id": 1, "text": "R?"}),
     r":2 \[qid\]: question id '1' occurs twice, first in line 1; each must be unique"),
    (beir_qrels, "test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td1\t0\n",
     r":3 \[(corpus-id|docno)\]: "),
    *((read_run, "r.json", empty, ": ") for empty in ("[]", "{}")),
    *((read, "r.json", json.dumps({"q": listed}), r" \[q\]: ") for read in (read_run, read_verdicts)
      for listed in (["d"], {"d": "1"}, {"d": None}, {"d": True}, {"d": float("nan")})),
    (read_run, "r.json", "7", ""),
    (read_run, "r.json", json.dumps({"mteb_model_meta": {}, "de": {"test": {}}, "en": {"test": {}}}),
     r": holds several runs, \['de'\]\['test'\], \['en'\]\['test'\]; give one"),
    (read_run, "r.jsonl", "\n", r": lists nothing"),
    (read_run, "r.jsonl", jsonl({"query_id": "q", "results": {"d": 1}}), r":1 \[results\]: a list of objects was"),
    (read_run, "r.jsonl", jsonl({"query_id": "q", "results": [{"corpus_id": "d"}]}), r":1 \[results\[0\]\.score\]: m"),
    (read_run, "r.jsonl", jsonl({"results": [{"corpus_id": "d", "score": 1}]}), r" \[results\]: "),
    (read_questions, "q.jsonl", '{"question": "\\ud800"}', ":1: "),
    (read_expansions, "e.jsonl", jsonl(expansion("x"), expansion("y", perspectives=["Other."])),
     r":2 \[perspectives\]: differ from"),
    (read_expansions, "e.jsonl", jsonl(expansion("x"), expansion("y", org_q="R?")), r":2 \[org_id\]: '1' is used for"),
    (read_verdicts, "v.qrels", "q -1 d 1\n", r":1 \[subtopic\]"),
    (read_verdicts, "v.qrels", f"q {'9' * 5000} d 1\n", r":1 \[subtopic\]"),
    (read_verdicts, "v.jsonl", verdict(pid=0.5), r":1 \[pid\]"),
    (read_verdicts, "v.jsonl", verdict(pid=True), r":1 \[pid\]: True is not a finite number"),
    (read_verdicts, "v.jsonl", verdict(qid=None), r":1 \[qid\]: missing"),
    (read_verdicts, "v.jsonl", verdict(docno=" "), r":1 \[docno\]: is blank"),
    (read_verdicts, "v.jsonl", verdict(p_yes=1.5), r":1 \[p_yes\]: 1\.5 is not a verdict"),
    (read_verdicts, "v.jsonl", verdict(p_yes=float("nan")), r":1 \[p_yes\]: missing; looked for p_yes, supports"),
    (read_verdicts, "v.jsonl", verdict(supports="perhaps"), r":1 \[supports\]: 'perhaps' is not a verdict"),
    (read_berds, "o.jsonl", jsonl({"question": "Q?", "ctxs": []}), r":1 \[perspectives\]: missing"),
    (read_berds, "o.jsonl", official("text"), r":1 \[ctxs\]: a list of documents"),
    (read_berds, "o.jsonl", official({"title": "T"}), r":1 \[text\]: missing"),
    (read_berds, "o.jsonl", official(DOCUMENT, DOCUMENT), r":1 \[ctxs\]: a document is listed"),
    (read_berds, "o.jsonl", official(DOCUMENT, {"id": "d", "text": "u"}), ":1: 'd' is used"),
    # doubled (divergences.md B9): in a document, in the row, and in the row as one list
    (predictions, "o.jsonl", official(DOCUMENT | {"m-preds": [1, 0, 1, 0]}), r":1 \[m-preds\]: expected 1 lists"),
    (predictions, "o.jsonl", official(DOCUMENT, **{"m-preds": [1, 0] * 2}), r":1 \[m-preds\]: expected 1 lists"),
    (predictions, "o.jsonl", official(DOCUMENT | {"m-preds": [1, 0]}, {"text": "u"}), r":1 \[m-preds\]: no such"),
    (predictions, "o.jsonl", official(DOCUMENT | {"m-preds": [1.2, 0]}), r":1 \[m-preds\]: 1\.2 is not a verdict"),
    (predictions, "o.jsonl", official(DOCUMENT | {"m-preds": ["I cannot say", 0]}), r":1 \[m-preds\]: 'I cannot say'"),
    (predictions, "o.jsonl", official(DOCUMENT | {"m-preds": [0.2, 0.3], "m-supports": [1, 0.4]}),
     r":1 \[m-supports\]: 0\.4"),
]  # fmt: skip

# ---------------------------------------------------------------- what is loaded by name or by path

TEA = {
    "corpus": ["Tea calms.", "Tea stains teeth badly.", "Trains run late."],
    "queries": ["Who speaks for tea?", "Who speaks against tea?"],
    "source_queries": ["tea", "tea"],
    "perspectives": ["for", "against"],
    "key_ref": {"0": [0], "1": [1]},
    "query_labels": ["support", "undermine"],
}


def pir(change):
    return bd.load(put("pir.json", json.dumps({"tea": TEA | change})))


def a_task(queries, docnos):
    rows = [PirQuery(qid, "text", "root", "p", gold) for qid, gold in queries]
    return pir_collection("t", rows, [Passage(d, d) for d in docnos])


def nuggets(nugget=None, **change):
    first = {"text": "A chain takes a memory.", "relevant_corpus_ids": ["a"], **(nugget or {})}
    row = {"query_id": 7, "query_text": "How?", "nuggets": [first]} | change
    fine = {"query_id": 1, "query_text": "How?", "nuggets": [{"text": "So.", "relevant_corpus_ids": ["a"]}]}
    return bd.load(put("n.jsonl", jsonl(fine, {name: value for name, value in row.items() if value is not None})))


def load(name, **options):
    return lambda: bd.load(name, **options)


LOADED = [
    (load("smaple"), "unknown data set 'smaple'. Did you mean 'sample'"),
    (load("smaple.jsonl"), "smaple.jsonl: no such file"),
    (load("nowhere/at-all"), "nowhere/at-all: no such file"),
    (load("pir-sample"), "holds several tasks; name one of: location, stories"),
    (load("pir-sample:locations"), "unknown PIR task 'locations'. Did you mean 'location'"),
    (load("pir-none:x"), "unknown data set 'pir-none:x'"),
    (load("sample:baseline"), "unknown data set 'sample:baseline'"),
    (load("sample", split="train"), "unknown split 'train'. Known: all, dev, test"),
    (load("sample", split=5), "unknown split 5. Known: all, dev, test"),
    (load("sample", limit=-1), r"\[limit\]: -1 is not a number of rows; 0 = all"),
    (load("sample", passages="nowhere.jsonl"), "nowhere.jsonl: no such file"),
    (load("sample", passages=5), r"\[passages\]: a list of passages is needed, not int"),
    (load("sample", gold="nowhere.tsv"), "nowhere.tsv: no such file"),
    (load("sample", gold=5), "verdicts are a data frame with columns .*, not int"),
    (load([]), r"\[name\]: no data set is named"),
    (load(["sample", "mine.jsonl"]), r"\[passages\]: several data sets are searched together only in a corpus"),
    (load(None), r"\[name\]: a data set or a file is named by text, such as 'sample', not by NoneType"),
    (load(["sample", 5], passages=[Passage("a", "t")]), "is named by text, such as 'sample', not by int"),
    (load("argkp"), "'argkp' has no questions of its own"),
    *((lambda change=change: pir(change), words) for change, words in (
        ({"corpus": ["a", 1, "b"]}, r"pir\.json \[corpus\]: a list of texts"),
        ({"docnos": ["a"]}, r"\[docnos\]: holds 1 entries for 3 texts"),
        ({"perspectives": ["for"]}, r"\[perspectives\]: holds 1 entries for 2 queries"),
        ({"query_labels": None}, r"\[query_labels\]: a list of texts"),
        ({"queries": ["a", " "]}, r"\[queries\]: entry 1 is blank"),
        ({"key_ref": [[0], [1]]}, r"\[key_ref\]: an object"),
        ({"key_ref": {"0": [0]}}, r"\[key_ref\]: no list of places for query 1"),
        ({"key_ref": {"0": [0], "2": [0]}}, r"\[key_ref\]: there is no query '2' among 2"),
        ({"key_ref": {"0": [0], "1": [-1]}}, r"\[key_ref\]: '-1' of query 1 is not one of 3 places"),
        ({"key_ref": {"0": [0], "1": []}}, "query '1' has no gold"),
    )),
    *((lambda text=text: bd.load(put("pir.json", text)), r"pir\.json") for text in (
        "", "[1, 2]", "{", '{"tea": 1}', "{}", '{"tea": "\\ud800"}',
    )),
    (lambda: a_task([("1", ("a",))], "aa"), "docno 'a' occurs twice"),
    (lambda: a_task([("1", ("c",))], "ab"), "gold 'c' of query '1' is not in the corpus"),
    *((lambda change=change: nuggets(**change), rf"n\.jsonl:2 {words}") for change, words in (
        ({"query_id": None}, r"\[query_id\]: missing; looked for query_id, topic_id, qid"),
        ({"query_id": 1}, r"\[query_id\]: question id '1' occurs twice, first in line 1"),
        ({"query_text": None}, r"\[query_text\]: missing; looked for query_text, query"),
        ({"nuggets": None}, r"\[nuggets\]: missing"),
        ({"nuggets": []}, r"\[nuggets\]: a list of objects was expected, each with a text"),
        ({"nuggets": [3]}, r"\[nuggets\]: a list of objects was expected"),
        ({"nugget": {"text": " "}}, r"\[nuggets\[0\]\.text\]: is blank"),
        ({"nugget": {"relevant_corpus_ids": "a"}}, r"\[nuggets\[0\]\.relevant_corpus_ids\]: a list of passage ids"),
        ({"nugget": {"non_relevant_corpus_ids": [None]}}, r"\[nuggets\[0\]\.non_relevant_corpus_ids\]: a list of"),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("call", "words"), [*FRAMES, *LOADED])
def test_what_cannot_be_used_is_refused_with_a_reason(tmp_path, call, words):
    write_questions(tmp_path / "mine.jsonl", [ZOO])
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize(("read", "name", "text", "words"), FILES)
def test_a_file_that_cannot_be_used_is_named_with_line_and_field(read, name, text, words):
    with pytest.raises(InputError, match=name.replace(".", r"\.") + words):
        read(put(name, text))
