"""Reading, writing and describing PIR tasks."""

import json

import numpy as np
import pandas as pd
import pir_sample
import pytest
from layouts import jsonl
from pir_sample import ARTICLES, PLACES

from berdslib.data.collection import Collection
from berdslib.data.datasets import load
from berdslib.data.pir import PirQuery, load_task, pir_collection, places, root_id, task_statistics
from berdslib.data.records import OPPOSE, SUPPORT, Passage, Question, perspective_qid
from berdslib.errors import InputError
from berdslib.evaluation.measures import score_run
from berdslib.paths import shipped
from berdslib.retrieval.bm25 import RankBM25

TEA = {
    "corpus": ["Tea calms.", "Tea stains teeth badly.", "Trains run late."],
    "queries": ["Who speaks for tea?", "Who speaks against tea?"],
    "source_queries": ["tea", "tea"],
    "perspectives": ["for", "against"],
    "key_ref": {"0": [0], "1": [1]},
    "query_labels": ["support", "undermine"],
}


def passages_of(texts):
    return tuple(Passage(docno, text) for docno, text in zip(places(len(texts)), texts, strict=True))


def saved(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def rows_of(task):
    """Return a task as (root, perspective, label, full query, gold docnos): all that it says, without ids."""
    gold = {key: tuple(part["docno"]) for key, part in task.gold.groupby(["qid", "pid"])}
    return [
        (q.text, perspective, q.labels[pid] if q.labels else "", asked.text, gold[q.qid, pid])
        for q in task.questions
        for pid, (perspective, asked) in enumerate(
            zip(q.perspectives, [a for a in task.queries if a.question == q], strict=True)
        )
    ]


def same(one, other):
    """Return whether two tasks are alike in everything, ids too."""
    parts = ("name", "questions", "passages", "expansions")
    return all(getattr(one, part) == getattr(other, part) for part in parts) and one.gold.equals(other.gold)


# ---------------------------------------------------------------- the authors' JSON


def test_a_task_is_read_from_the_official_layout(tmp_path):
    task = load(saved(tmp_path / "pir.json", {"tea": TEA}))
    assert task.name == "tea"
    (question,) = task.questions
    assert (question.qid, question.text, question.source) == (root_id("tea"), "tea", "pir-tea")
    assert (question.perspectives, question.labels) == (("for", "against"), ("support", "undermine"))
    assert question.stances == (SUPPORT, OPPOSE)
    assert task.expansions == {question.qid: [("for", "Who speaks for tea?"), ("against", "Who speaks against tea?")]}
    assert task.gold[["qid", "pid", "docno", "supports", "judge"]].to_numpy().tolist() == [
        [question.qid, 0, "0", True, "gold"],
        [question.qid, 1, "1", True, "gold"],
    ]
    assert task.passages[1] == Passage("1", "Tea stains teeth badly.")


def test_docnos_keep_the_order_of_the_file_when_ties_are_broken_alphabetically(tmp_path):
    many = TEA | {"corpus": ["the same words"] * 12, "key_ref": {"0": [9], "1": [10]}}
    task = load(saved(tmp_path / "pir.json", {"tea": many}))
    assert [p.docno for p in task.passages] == sorted(p.docno for p in task.passages)
    assert task.gold["docno"].tolist() == [task.passages[9].docno, task.passages[10].docno]
    asked = [q._replace(text="words") for q in task.queries[:1]]
    assert RankBM25(task.passages).search(asked, 3)["docno"].tolist() == ["00", "01", "02"]


def test_p8_ids_are_strings_where_the_full_release_has_strings_for_numbers(tmp_path):
    content = TEA | {"key_ref": {"0": ["0"], "1": ["1"]}}
    task = load(saved(tmp_path / "pir.json", {"tea": content}))
    ranked = {"0": [0, 2], "1": [1, 2]}  # a perfect retriever that numbers the texts
    theirs = sum(bool(set(ranked[q]) & set(content["key_ref"][q])) for q in ranked) / 2
    rows = [(perspective_qid(root_id("tea"), int(q)), d, i + 1) for q, ds in ranked.items() for i, d in enumerate(ds)]
    run = pd.DataFrame(rows, columns=["qid", "docno", "rank"])
    ours = score_run(run, task.gold, task.questions, "pRecall@1")["pRecall@1"].mean()
    assert (theirs, ours) == (0.0, 1.0)
    assert same(load(saved(tmp_path / "n.json", {"tea": TEA})), task)
    assert {type(i) for i in (*task.gold["qid"], *task.gold["docno"], *(p.docno for p in task.passages))} == {str}


# ---------------------------------------------------------------- folders of tables

CORPUS = [{"_id": "d1", "text": "Tea calms.", "title": "Tea"}, {"_id": "d2", "text": "Tea stains."}]
QUERIES = [
    {"_id": "q1", "text": "for tea", "root": "tea", "perspective": "for", "label": "support"},
    {"_id": "q2", "text": "against tea", "root": "tea", "perspective": "against"},
]
QRELS = [("q1", "d1", 1), ("q1", "d2", 0), ("q2", "d2", 1)]
EXPECTED = [("tea", "for", "support", "for tea", ("d1",)), ("tea", "against", "", "against tea", ("d2",))]


@pytest.fixture
def beir(tmp_path):
    folder = tmp_path / "tea"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(jsonl(*CORPUS))
    (folder / "queries.jsonl").write_text(jsonl(*QUERIES))
    rows = "".join("\t".join(map(str, row)) + "\n" for row in QRELS)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    (folder / "README.md").write_text("queries and corpus")
    return folder


def test_a_folder_of_tables_is_read(beir):
    task = load(beir)
    assert (task.name, rows_of(task)) == ("tea", EXPECTED)
    assert task.passages == (Passage("d1", "Tea calms.", "Tea"), Passage("d2", "Tea stains."))
    assert load(f"{beir}:drinks").name == "drinks"


def test_parquet_shards_are_joined_and_underscores_stand_for_hyphens(tmp_path):
    folder = tmp_path / "tea"
    for table in ("corpus", "queries", "qrels"):
        (folder / table).mkdir(parents=True)
    for i, row in enumerate(CORPUS):
        named = {"id": row["_id"], "text": row["text"], "title": row.get("title", "")}
        pd.DataFrame([named]).to_parquet(folder / "corpus" / f"train-{i}-of-2.parquet")
    queries = [
        {"query_id": q["_id"], "query": q["text"], "source_query": q["root"], "perspective": q["perspective"]}
        for q in QUERIES
    ]
    pd.DataFrame(queries).to_parquet(folder / "queries" / "train-0-of-1.parquet")
    pd.DataFrame(QRELS, columns=["query_id", "corpus_id", "score"]).to_parquet(folder / "qrels" / "train.parquet")
    task = load(folder)
    assert rows_of(task) == [(root, perspective, "", *rest) for root, perspective, _, *rest in EXPECTED]
    assert task.questions[0].labels == ()
    assert [p.docno for p in task.passages] == ["d1", "d2"]


@pytest.mark.parametrize(
    ("file", "text", "line", "field"),
    [
        ("queries.jsonl", None, None, None),
        ("corpus.jsonl", jsonl({"_id": "d1", "abstract": "x"}), 1, "text"),
        ("queries.jsonl", jsonl({"_id": "q1", "text": "x"}), 1, "root"),
        ("queries.jsonl", jsonl({"_id": "q1", "text": "x", "root": "r"}), 1, "perspective"),
        ("queries.jsonl", jsonl(*QUERIES[:1]), None, None),
        ("qrels/test.tsv", "query\tcorpus-id\tscore\nq1\td1\t1\n", 2, "qid"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\tyes\n", 2, "score"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n", None, "gold"),
        ("qrels/more.parquet", "no parquet", None, None),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(beir, file, text, line, field):
    (beir / file).unlink(missing_ok=True)
    if text is not None:
        (beir / file).write_text(text)
    with pytest.raises(InputError) as refused:
        load_task(beir)
    assert (refused.value.line, refused.value.field) == (line, field)


# ---------------------------------------------------------------- data sets by name


def test_a_full_task_is_found_under_berds_data_then_in_the_cache(beir, user_cache, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("BERDS_DATA", str(tmp_path / "data"))
    in_cache = user_cache / "data" / "pir-ambigqa"
    in_cache.parent.mkdir(parents=True)
    beir.rename(in_cache)
    task = load("pir-ambigqa")
    assert (task.name, rows_of(task)) == ("ambigqa", EXPECTED)
    local = tmp_path / "data" / "pir" / "ambigqa"
    local.mkdir(parents=True)
    with pytest.raises(InputError, match="'corpus'"):
        load("pir-ambigqa")
    with pytest.raises(InputError, match="'exfever'"):
        load("pir-ambigqa:exfever")


# ---------------------------------------------------------------- questions and statistics


def test_several_queries_from_one_perspective_all_count():
    # As in the released Perspectrum: one for each cluster of texts.
    rows = [PirQuery(str(i), "for tea", "tea", "for", (docno,), "support") for i, docno in enumerate("012")]
    task = pir_collection("t", rows, passages_of(["Herbs.", "Leaves.", "Cups."]))
    assert task.questions[0].perspectives == ("for", "for", "for") and len(task.queries) == 3
    run = RankBM25(task.passages).search([task.queries[0]._replace(text="herbs")], 1)
    assert run["docno"].tolist() == ["0"]
    assert score_run(run, task.gold, task.questions, "pRecall@1")["pRecall@1"].tolist() == [1 / 3]


@pytest.mark.real_data
def test_the_demo_release(real_data):
    """A part of what Table 1 describes, so close to it: 15.1 and 11.0 words; 1,089 of an article of allsides."""
    tasks = {name: load(f"pir-demo:{name}") for name in ("perspectrum", "ambigqa", "allsides", "exfever")}
    assert {(len(t.queries), len(t.passages)) for t in tasks.values()} == {(100, 500)}
    assert {n: len(t.questions) for n, t in tasks.items()} == {
        "perspectrum": 16, "ambigqa": 26, "allsides": 17, "exfever": 34,
    }  # fmt: skip

    def words(texts):
        return np.mean([len(text.split()) for text in texts])

    assert words(q.text for q in tasks["perspectrum"].queries) == pytest.approx(15.1, abs=0.2)
    assert words(p.text for p in tasks["perspectrum"].passages) == pytest.approx(11.0, abs=0.2)
    assert words(p.text for p in tasks["allsides"].passages) == pytest.approx(1089.2, rel=0.05)


def test_table_1_counts_full_queries_and_words():
    questions = [Question("r", "Trams?", ("for", "against"))]
    passages = [Passage("a", "one two three"), Passage("b", "one", "Title")]
    task = Collection("t", questions, passages, expansions={"r": [("for", "for Trams ?"), ("against", "no")]})
    assert task_statistics(task) == {
        "queries": 2, "words_per_query": 2.0, "documents": 2, "words_per_document": 2.5,
    }  # fmt: skip
    with pytest.raises(InputError):
        task_statistics(Collection("none", questions, passages))


# ---------------------------------------------------------------- the tasks that come with the package


def test_the_shipped_tasks_are_what_the_script_makes():
    made = {"location": pir_sample.location_task(), "stories": pir_sample.story_task()}
    assert json.loads((shipped("pir-sample") / "tasks.json").read_text(encoding="utf-8")) == made


def test_the_gold_article_is_the_root_in_the_city_of_the_country_that_is_asked_for():
    task = load("pir-sample:location")
    release = json.loads((shipped("pir-sample") / "tasks.json").read_text(encoding="utf-8"))["location"]
    groups = dict(zip(release["docnos"], release["groups"], strict=True))
    texts = {p.docno: p.text for p in task.passages}
    assert len(set(texts.values())) == 400 and list(texts) == sorted(map(str, range(400)), key=int)
    for docno, text in texts.items():
        assert [country for country, city in PLACES.items() if city in text] == [groups[docno]]
    home = {text: city for a in ARTICLES for city in PLACES.values() for text in [a.format(city=city)]}
    gold = task.gold.set_index(["qid", "pid"])["docno"]
    for root in task.questions:
        for pid, country in enumerate(root.labels):
            text = texts[gold[root.qid, pid]]
            assert text == root.text.replace(home[root.text], PLACES[country]) != root.text
            assert country not in text
    assert {len(q.labels) for q in task.questions} == {5}
    stories = load("pir-sample:stories")
    assert len(stories.passages) == 40 and {q.labels for q in stories.questions} == {("entities", "analogy")}
