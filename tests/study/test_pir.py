"""Reading, writing and describing PIR tasks."""

import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import write_pir

from berdslib.data.pir import (
    PirQuery,
    PirTask,
    check_pir,
    full_queries,
    load_pir,
    passages_of,
    pir_statistics,
    read_json,
    root_id,
    root_queries,
    tasks_in,
)
from berdslib.data.records import Passage
from berdslib.errors import InputError, MissingDataError
from berdslib.evaluation.perspective_recall import p_recall
from berdslib.retrieval.bm25 import RankBM25

TEA = {
    "corpus": ["Tea calms.", "Tea stains teeth badly.", "Trains run late."],
    "queries": ["Who speaks for tea?", "Who speaks against tea?"],
    "source_queries": ["tea", "tea"],
    "perspectives": ["for", "against"],
    "key_ref": {"0": [0], "1": [1]},
    "query_labels": ["support", "undermine"],
}


def saved(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


# ---------------------------------------------------------------- the authors' JSON


def test_a_task_is_read_from_the_official_layout(tmp_path):
    task = load_pir(saved(tmp_path / "pir.json", {"tea": TEA}))
    assert task.name == "tea"
    assert task.queries == (
        PirQuery("0", "Who speaks for tea?", "tea", "for", ("0",), "support"),
        PirQuery("1", "Who speaks against tea?", "tea", "against", ("1",), "undermine"),
    )
    assert task.passages[1] == Passage("1", "Tea stains teeth badly.")


def test_a_file_with_one_unnamed_task_is_called_like_the_file(tmp_path):
    path = saved(tmp_path / "tea.json", TEA)
    assert tasks_in(path) == ["tea"]
    assert load_pir(path).queries == load_pir(path, "tea").queries


def test_of_several_tasks_one_must_be_named(tmp_path):
    path = saved(tmp_path / "pir.json", {"tea": TEA, "coffee": TEA})
    assert tasks_in(path) == ["tea", "coffee"]
    with pytest.raises(InputError, match="several tasks; name one of: tea, coffee"):
        load_pir(path)
    with pytest.raises(InputError, match="Did you mean 'coffee'"):
        load_pir(path, "cofee")


def test_docnos_keep_the_order_of_the_file_when_ties_are_broken_alphabetically(tmp_path):
    many = TEA | {"corpus": ["the same words"] * 12, "key_ref": {"0": [9], "1": [10]}}
    task = load_pir(saved(tmp_path / "pir.json", {"tea": many}))
    assert [p.docno for p in task.passages] == sorted(p.docno for p in task.passages)
    assert task.queries[0].gold == (task.passages[9].docno,)
    asked = [q._replace(text="words") for q in full_queries(task)[:1]]
    assert RankBM25(task.passages).search(asked, 3)["docno"].tolist() == ["00", "01", "02"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"corpus": "text"}, r"\[corpus\]: a list of texts"),
        ({"corpus": ["a", 1, "b"]}, r"\[corpus\]: a list of texts"),
        ({"perspectives": ["for"]}, r"\[perspectives\]: holds 1 entries for 2 queries"),
        ({"query_labels": None}, r"\[query_labels\]: a list of texts"),
        ({"key_ref": [[0], [1]]}, r"\[key_ref\]: an object"),
        ({"key_ref": {"0": [0]}}, r"\[key_ref\]: no list of places for query 1"),
        ({"key_ref": {"0": [0], "1": [3]}}, r"\[key_ref\]: '3' of query 1 is not one of 3 places"),
        ({"key_ref": {"0": [0], "1": [-1]}}, r"'-1' of query 1 is not one of"),
        ({"key_ref": {"0": [0], "1": []}}, "query '1' has no gold"),
        ({"queries": [], "source_queries": [], "perspectives": [], "query_labels": []}, "has no queries"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path, change, message):
    path = saved(tmp_path / "pir.json", {"tea": TEA | change})
    with pytest.raises(InputError, match=message) as caught:
        load_pir(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", '{"tea": 1}', "{}", '{"tea": "\\ud800"}', "[" * 100_000])
def test_other_json_is_refused(tmp_path, text):
    path = tmp_path / "pir.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"pir\.json"):
        load_pir(path)


def test_broken_json_is_located(tmp_path):
    path = tmp_path / "pir.json"
    path.write_text('{"a": 1,\n oops}')
    with pytest.raises(InputError, match=r"pir\.json:2: not valid JSON"):
        read_json(path)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12).filter(str.strip)


@given(st.data())
def test_writing_and_reading_a_task_gives_it_back(tmp_path_factory, data):
    passages = passages_of(data.draw(st.lists(TEXT, min_size=1, max_size=12)))
    docnos = [p.docno for p in passages]
    n = data.draw(st.integers(1, 5))
    queries = tuple(
        PirQuery(str(i), *data.draw(st.tuples(TEXT, TEXT, TEXT)), tuple(gold), data.draw(st.just("") | TEXT))
        for i, gold in enumerate(
            data.draw(st.lists(st.lists(st.sampled_from(docnos), min_size=1, unique=True), min_size=n, max_size=n))
        )
    )
    task = PirTask("some", queries, passages)
    path = tmp_path_factory.mktemp("pir") / "task.json"
    write_pir(task, path)
    assert load_pir(path, "some") == task


def test_written_places_follow_the_passages_whatever_their_ids(tmp_path):
    passages = (Passage("x9", "Tea calms.", "Herbs"), Passage("x1", "Tea stains."))
    task = PirTask("tea", (PirQuery("q7", "for tea", "tea", "for", ("x1",)),), passages)
    write_pir(task, tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())["tea"]["key_ref"] == {"0": [1]}
    assert load_pir(tmp_path / "t.json").passages[0].text == "Herbs Tea calms."


@pytest.mark.parametrize(
    ("queries", "docnos", "message"),
    [
        ([("1", ("a",)), ("1", ("b",))], ["a", "b"], "query id '1' occurs twice"),
        ([("1", ("a",))], ["a", "a"], "docno 'a' occurs twice"),
        ([("1", ("c",))], ["a", "b"], "gold 'c' of query '1' is not in the corpus"),
    ],
)
def test_a_task_hangs_together(queries, docnos, message):
    made = tuple(PirQuery(qid, "text", "root", "p", gold) for qid, gold in queries)
    with pytest.raises(InputError, match=message):
        check_pir(PirTask("t", made, tuple(Passage(d, d) for d in docnos)))


def test_p8_ids_are_strings_where_the_full_release_has_strings_for_numbers(tmp_path):
    content = TEA | {"key_ref": {"0": ["0"], "1": ["1"]}}
    task = load_pir(saved(tmp_path / "pir.json", {"tea": content}))
    ranked = {"0": [0, 2], "1": [1, 2]}  # a perfect retriever that numbers the texts
    theirs = sum(bool(set(ranked[q]) & set(content["key_ref"][q])) for q in ranked) / 2
    run = pd.DataFrame([(int(q), d, i + 1) for q, ds in ranked.items() for i, d in enumerate(ds)])
    run.columns = ["qid", "docno", "rank"]
    ours = p_recall(run, task.queries, 1)["p_recall"].mean()
    assert (theirs, ours) == (0.0, 1.0)
    assert load_pir(saved(tmp_path / "n.json", {"tea": TEA})).queries == task.queries
    assert {type(i) for q in task.queries for i in (q.qid, *q.gold)} == {str}


# ---------------------------------------------------------------- folders of tables

CORPUS = [{"_id": "d1", "text": "Tea calms.", "title": "Tea"}, {"_id": "d2", "text": "Tea stains."}]
QUERIES = [
    {"_id": "q1", "text": "for tea", "root": "tea", "perspective": "for", "label": "support"},
    {"_id": "q2", "text": "against tea", "root": "tea", "perspective": "against"},
]
QRELS = [("q1", "d1", 1), ("q1", "d2", 0), ("q2", "d2", 1)]
EXPECTED = (
    PirQuery("q1", "for tea", "tea", "for", ("d1",), "support"),
    PirQuery("q2", "against tea", "tea", "against", ("d2",), ""),
)


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def beir(tmp_path):
    folder = tmp_path / "tea"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(lines(CORPUS))
    (folder / "queries.jsonl").write_text(lines(QUERIES))
    rows = "".join("\t".join(map(str, row)) + "\n" for row in QRELS)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    (folder / "README.md").write_text("queries and corpus")
    return folder


def test_a_folder_of_tables_is_read(beir):
    task = load_pir(beir)
    assert (task.name, task.queries) == ("tea", EXPECTED)
    assert task.passages == (Passage("d1", "Tea calms.", "Tea"), Passage("d2", "Tea stains."))
    assert tasks_in(str(beir)) == ["tea"]
    assert load_pir(beir, "drinks").name == "drinks"


def test_parquet_shards_are_joined_and_underscores_stand_for_hyphens(tmp_path):
    folder = tmp_path / "tea"
    for table in ("corpus", "queries", "qrels"):
        (folder / table).mkdir(parents=True)
    for i, row in enumerate(CORPUS):
        named = {"corpus_id": row["_id"], "text": row["text"], "title": row.get("title", "")}
        pd.DataFrame([named]).to_parquet(folder / "corpus" / f"train-{i}-of-2.parquet")
    queries = [
        {"query_id": q["_id"], "query": q["text"], "source_query": q["root"], "perspective": q["perspective"]}
        for q in QUERIES
    ]
    pd.DataFrame(queries).to_parquet(folder / "queries" / "train-0-of-1.parquet")
    pd.DataFrame(QRELS, columns=["query_id", "corpus_id", "score"]).to_parquet(folder / "qrels" / "train.parquet")
    task = load_pir(folder)
    assert task.queries == tuple(q._replace(label="") for q in EXPECTED)
    assert [p.docno for p in task.passages] == ["d1", "d2"]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("queries.jsonl", None, "holds no table 'queries'"),
        (
            "corpus.jsonl",
            lines([{"_id": "d1", "body": "x"}]),
            r"corpus\.jsonl:1 \[text\]: missing; the row has: _id, body",
        ),
        ("corpus.jsonl", lines([{"name": "d1", "text": "x"}]), r"corpus\.jsonl:1 \[_id\]: missing"),
        ("queries.jsonl", lines([{"_id": "q1", "text": "x"}]), r"queries\.jsonl:1 \[root\]: missing"),
        ("queries.jsonl", lines([{"_id": "q1", "text": "x", "root": "r"}]), r":1 \[perspective\]: missing"),
        ("queries.jsonl", lines(QUERIES[:1]), "'q2' is judged but not among the queries"),
        ("qrels/test.tsv", "query\tcorpus-id\tscore\nq1\td1\t1\n", r"test\.tsv:2 \[query-id\]: missing"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\tyes\n", r"\[score\]: 'yes' is not a number"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n", "query 'q2' has no gold"),
        ("qrels/more.parquet", "no parquet", "not a readable Parquet file"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(beir, file, text, message):
    (beir / file).unlink(missing_ok=True)
    if text is not None:
        (beir / file).write_text(text)
    with pytest.raises(InputError, match=message):
        load_pir(beir)


# ---------------------------------------------------------------- data sets by name


def test_a_full_task_is_found_under_berds_data_then_in_the_cache(beir, user_cache, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("BERDS_DATA", str(tmp_path / "data"))
    in_cache = user_cache / "data" / "pir-ambigqa"
    in_cache.parent.mkdir(parents=True)
    beir.rename(in_cache)
    task = load_pir("pir-ambigqa")
    assert (task.name, task.queries) == ("ambigqa", EXPECTED)
    assert tasks_in("pir-ambigqa") == ["ambigqa"]
    local = tmp_path / "data" / "pir" / "ambigqa"
    local.mkdir(parents=True)
    with pytest.raises(InputError, match="holds no table 'corpus'"):
        load_pir("pir-ambigqa")
    with pytest.raises(InputError, match="unknown PIR task 'exfever'"):
        load_pir("pir-ambigqa", "exfever")


def test_a_clone_of_the_repository_is_read(beir, user_cache, tmp_path, monkeypatch):
    monkeypatch.delenv("BERDS_DATA", raising=False)
    clone = tmp_path / "hf" / "trumancai" / "perspective-information-retrieval-exfever"
    clone.parent.mkdir(parents=True)
    beir.rename(clone)
    monkeypatch.setenv("BERDS_HF_DIR", str(tmp_path / "hf"))
    assert load_pir("pir-exfever").queries == EXPECTED


def test_what_is_not_there_is_said(user_cache, tmp_path, monkeypatch):
    monkeypatch.setenv("BERDS_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"demo_pir_dataset\.json: not there"):
        load_pir("pir-demo", "ambigqa")
    with pytest.raises(InputError, match=r"unknown PIR data set 'pir-alsides'\. Did you mean 'pir-allsides'"):
        load_pir("pir-alsides")
    with pytest.raises(InputError, match="no such file"):
        load_pir(tmp_path / "nothing.json")


# ---------------------------------------------------------------- questions and statistics


def tea_task():
    texts = ["Tea calms.", "Tea stains teeth badly.", "Coffee wakes."]
    asked = [
        ("for tea", "tea", "for", "0"),
        ("against tea", "tea", "against", "1"),
        ("for coffee now", "coffee", "for", "2"),
    ]
    queries = (PirQuery(f"q{i}", text, root, p, (gold,)) for i, (text, root, p, gold) in enumerate(asked))
    return PirTask("tea", tuple(queries), passages_of(texts))


def test_full_and_root_queries_are_questions():
    task = tea_task()
    full = full_queries(task)
    assert (full[0].qid, full[0].text, full[0].perspectives) == ("q0", "for tea", ("for",))
    roots = root_queries(task)
    assert [(q.text, q.perspectives) for q in roots] == [("tea", ("for", "against")), ("coffee", ("for",))]
    assert [q.qid for q in roots] == [root_id("tea"), root_id("coffee")]
    assert {q.source for q in full + roots} == {"pir-tea"}


def test_the_id_of_a_root_does_not_depend_on_the_other_queries():
    task = tea_task()
    fewer = task._replace(queries=task.queries[1:])
    assert {q.text: q.qid for q in root_queries(fewer)} == {q.text: q.qid for q in root_queries(task)}


def test_statistics_by_hand():
    assert pir_statistics(tea_task()) == {
        "queries": 3,
        "mean_query_words": pytest.approx(7 / 3),
        "corpus": 3,
        "mean_corpus_words": pytest.approx(8 / 3),
        "roots": 2,
        "mean_perspectives": 1.5,
        "single_roots": 1,
    }


@pytest.mark.real_data
def test_the_demo_release(real_data):
    assert tasks_in("pir-demo") == ["perspectrum", "ambigqa", "allsides", "exfever"]
    facts = {name: pir_statistics(load_pir("pir-demo", name)) for name in tasks_in("pir-demo")}
    assert {(f["queries"], f["corpus"]) for f in facts.values()} == {(100, 500)}
    assert {name: f["roots"] for name, f in facts.items()} == {
        "perspectrum": 16,
        "ambigqa": 26,
        "allsides": 17,
        "exfever": 34,
    }
    assert {name: f["single_roots"] for name, f in facts.items() if f["single_roots"]} == {"exfever": 1}
    # A part of what Table 1 describes, so close to it: 15.1 / 11.0, 12.8 / 31.5, 12.4 / 1,089 words.
    assert facts["perspectrum"]["mean_query_words"] == pytest.approx(15.1, abs=0.2)
    assert facts["perspectrum"]["mean_corpus_words"] == pytest.approx(11.0, abs=0.2)
    assert facts["allsides"]["mean_corpus_words"] == pytest.approx(1089.2, rel=0.05)


@pytest.mark.real_data
def test_the_demo_release_survives_a_round_trip(real_data, tmp_path):
    official = json.loads((real_data / "pir" / "demo_pir_dataset.json").read_text(encoding="utf-8"))
    for name, content in official.items():
        task = load_pir("pir-demo", name)
        write_pir(task, tmp_path / f"{name}.json")
        assert json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8")) == {name: content}
        assert load_pir(tmp_path / f"{name}.json", name) == task
