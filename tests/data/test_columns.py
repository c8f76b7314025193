"""Files whose columns have names of their author: read under ours, with what else a corpus holds."""

import json

import pandas as pd
import pytest
from shell import tried

import berdslib as bd
from berdslib.data.corpus import Corpus
from berdslib.data.gold import unjudged_copies
from berdslib.data.records import make_verdicts
from berdslib.errors import InputError

pytestmark = pytest.mark.usefixtures("own_place")

OURS = {"qid": "no", "question": "ask", "perspectives": "views", "docno": "uid", "text": "abstract", "title": "text"}
# Hers has the title in a column that we would take for the text.
ASKED = pd.DataFrame({"no": ["a1", "a2"], "ask": ["Close zoos?", "Are cities good?"],
                      "views": [["Yes.", "No."], ["They are.", "They are loud."]], "id": [7, 8]})  # fmt: skip
CORPUS = pd.DataFrame({"uid": ["d1", "d2"], "abstract": ["Zoos suffer.", "Cities are loud."], "text": ["Zoos", "Noise"],
                       "outlet": ["Times", ""], "year": [2001, 2003]})  # fmt: skip
GOLD = make_verdicts([("a1", 0, "d1", 1.0, True), ("a2", 1, "d2", 1.0, True)], "gold")
OPTION = ",".join(f"{ours}={theirs}" for ours, theirs in OURS.items())


def run(line):
    return tried(*line.split())


def as_csv(frame, name):
    lists = {column: frame[column].map(json.dumps) for column in frame if isinstance(frame[column][0], list)}
    frame.assign(**lists).to_csv(name, index=False)
    return name


def as_jsonl(frame, name):
    frame.to_json(name, orient="records", lines=True)
    return name


@pytest.mark.parametrize("form", [lambda frame, _: frame, as_csv, as_jsonl])
def test_columns_are_read_under_our_names(form):
    found = bd.load(form(ASKED, "asked"), passages=form(CORPUS, "corpus"), gold=GOLD, columns=OURS)
    assert [question[:3] for question in found.questions] == [
        ("a1", "Close zoos?", ("Yes.", "No.")),
        ("a2", "Are cities good?", ("They are.", "They are loud.")),
    ]
    first, second = found.passages
    assert first[:3] == ("d1", "Zoos suffer.", "Zoos") and second.docno == "d2"
    # CSV has texts alone, and an empty cell is not kept.
    assert {name: str(value) for name, value in first.fields.items()} == {"outlet": "Times", "year": "2001"}
    assert [*second.fields] == ["year"]


def test_a_swap_of_two_columns():
    rows = [{"docno": "d", "text": "T", "title": "t"}]
    [passage] = bd.load("sample", passages=rows, columns={"text": "title", "title": "text"}).passages
    assert passage[:3] == ("d", "t", "T")


def test_the_shell_reads_them_too():
    as_csv(ASKED, "asked.csv")
    as_csv(CORPUS, "corpus.csv")
    asked = "-q asked.csv --columns " + OPTION
    assert run(f"retrieve {asked} -c corpus.csv -r bm25 -o run.trec").exit_code == 0
    assert set(bd.read_run("run.trec")["docno"]) == {"d1", "d2"}
    assert run("data export corpus -c corpus.csv --columns docno=uid,text=abstract").exit_code == 0
    assert [passage[:2] for passage in Corpus("corpus")] == [("d1", "Zoos suffer."), ("d2", "Cities are loud.")]
    stats = json.loads(run("data stats -c corpus.csv --columns text=abstract,docno=uid --json").stdout)
    assert stats[0]["mean_words"] == 2.5
    stats = json.loads(run("data stats -q asked.csv --columns question=ask,perspectives=views --json").stdout)
    assert stats[0]["n"] == 2 and stats[0]["mean_perspectives"] == 2
    assert run(f"retrieve {asked},text -c corpus.csv -r bm25 -o run.trec").exit_code == 2


@pytest.mark.parametrize(
    ("asked", "passages", "columns", "named"),
    [
        (ASKED, None, {}, ["question", "perspectives", "no, ask, views", "--columns"]),
        (ASKED, None, {"question": "asks", "qid": "nr"}, ["'asks'", "mean 'ask'", "'nr'", "no, ask, views"]),
        (ASKED.drop(columns="id"), None, {}, ["qid, question, perspectives"]),
        ("sample", CORPUS.drop(columns="text"), {}, ["docno, text;", "uid, abstract", "--columns"]),
        ("sample", CORPUS, {"text": "abstracts"}, ["[text]", "mean 'abstract'"]),
        ("sample", CORPUS, {"text": "abstract", "docno": "uids"}, ["[docno]", "mean 'uid'"]),
        ("sample", None, {"text": "abstract"}, ["text"]),
        ("sample", CORPUS, {"question": "ask"}, ["sample", "ask"]),
        (ASKED, CORPUS, {"body": "abstract"}, ["body", "text"]),
    ],
)
def test_columns_that_are_not_there(asked, passages, columns, named):
    with pytest.raises(InputError) as refused:
        bd.load(asked, passages=passages, columns=columns)
    assert all(name in str(refused.value) for name in named)


def test_a_header_without_a_known_name_points_at_the_option():
    as_csv(CORPUS.drop(columns="text"), "corpus.csv")
    assert "--columns docno=" in run("data stats -c corpus.csv").stderr


def test_gold_of_a_file_without_ids_says_so():
    """The verdicts name a1; without a column of ids, the questions are 0 and 1, and the passages line-1 and line-2."""
    without = {ours: theirs for ours, theirs in OURS.items() if ours not in ("qid", "docno")}
    asked = ASKED.drop(columns="id")
    with pytest.raises(InputError, match="qid=") as refused:
        bd.load(asked, passages=CORPUS, gold=GOLD.assign(docno="line-1"), columns=without)
    assert refused.value.field == "gold"
    with pytest.raises(InputError, match="docno="):
        bd.load(asked, passages=CORPUS, gold=GOLD, columns=without | {"qid": "no"})


def test_fields_do_not_tell_copies_apart_and_are_saved(tmp_path):
    passages = [bd.Passage("a", "One text.", fields={"tags": ["x"]}), bd.Passage("b", "One text.", fields={"tags": []})]
    verdicts = make_verdicts([("q", 0, "a", 1.0, True)], "gold")
    assert unjudged_copies(verdicts, passages)["docno"].tolist() == ["b"]
    assert len({*passages}) == 2
    dated = passages[0]._replace(fields={"tags": ["x"], "on": pd.Timestamp("2001-02-03"), "_id": "other"})
    bd.save(bd.Collection("kept", bd.load("sample").questions, [dated]), tmp_path / "kept")
    [back] = bd.load(tmp_path / "kept").passages
    assert back == bd.Passage("a", "One text.", fields={"tags": ["x"], "on": "2001-02-03 00:00:00"})


def test_what_a_build_adds_to_its_questions_is_not_said(caplog):
    row = {"question": "Q?", "perspectives": ["a"], "where": "f:1", "sources": [{}], "documents": ["d"], "mood": "m"}
    pd.DataFrame([row]).to_json("built.jsonl", orient="records", lines=True)
    bd.load("built.jsonl")
    [message] = [record.getMessage() for record in caplog.records]
    assert "mood" in message and not any(name in message for name in ("where", "sources", "documents"))
