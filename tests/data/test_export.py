"""Questions, passages and gold verdicts in the layouts of other tools, read back by these tools or by our readers."""

import csv
import hashlib
import json
import re

import pandas as pd
import pyarrow.parquet as pq
import pyndeval
import pytest

import berdslib as bd
from berdslib.data.formats import beir_gold, beir_questions, export_collection, read_berds, read_passages
from berdslib.data.records import OPPOSE, SUPPORT, Passage, Question, make_verdicts, ranked_run
from berdslib.data.trec import read_trec_qrels
from berdslib.errors import InputError
from berdslib.evaluation.measures import alpha_nDCG, score_run

TEA = Question("t1", "Is tea better than coffee?", ("Tea is better.", "Coffee is better."), (SUPPORT, OPPOSE), "own")
CATS = Question("c1", "Do cats love us?", ("They do.", "They do not.", "Some do."), (None,) * 3, "own", "dev")


def read_beir(folder, split):
    return beir_questions(folder, [split]), read_passages(folder), beir_gold(folder)


def test_a_collection_is_exported_as_a_beir_folder(tmp_path):
    passages = [Passage("d1", "t", "T"), Passage("d2", "u")]
    gold = make_verdicts([("t1", 0, "d1", 1.0, True), ("t1", 1, "d1", 1.0, True), ("c1", 0, "d2", 0.0, False)], "gold")
    for _ in range(2):  # what it wrote, it replaces
        export_collection(tmp_path / "set", [TEA, CATS], passages, gold, split="dev")
    questions, again, verdicts = read_beir(tmp_path / "set", "dev")
    assert again == passages
    assert [q.qid for q in questions] == ["t1", "c1"]
    rows = (tmp_path / "set" / "qrels" / "dev.tsv").read_text().splitlines()
    assert rows == ["query-id\tcorpus-id\tscore", "c1\td2\t0", "t1\td1\t2"]  # d1 supports two perspectives
    found = verdicts[["qid", "docno", "supports"]].values.tolist()
    assert found == [["c1", "d2", False], ["t1", "d1", True]]  # what was judged not to support is kept
    (tmp_path / "set" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"thesis\.tex"):
        export_collection(tmp_path / "set", [TEA], passages, gold)
    with pytest.raises(InputError, match="'bear'"):
        export_collection(tmp_path / "other", [TEA], passages, gold, layout="bear")
    with pytest.raises(InputError) as refused:
        export_collection(tmp_path / "other", [TEA], passages, gold, split="../test")
    assert refused.value.field == "split"


def test_a_collection_is_exported_as_official_rows(tmp_path):
    passages = [Passage("d1", "t", "T"), Passage("d2", "u"), Passage("d3", "never judged")]
    gold = make_verdicts([("t1", 0, "d2", 1.0, True), ("t1", 1, "d2", 1.0, True), ("t1", 0, "d1", 1.0, True)], "gold")
    export_collection(tmp_path / "out.jsonl", [TEA, CATS], passages, gold)
    questions, listed, run, verdicts = read_berds(tmp_path / "out.jsonl", "gold-preds")
    assert [q[:3] for q in questions] == [q[:3] for q in (TEA, CATS)]
    assert run[["qid", "docno"]].values.tolist() == [["t1", "d2"], ["t1", "d1"]]  # what shows most stands first
    assert {p.docno for p in listed} == {"d1", "d2"}
    columns = ["qid", "pid", "docno"]
    assert verdicts[verdicts["supports"]][columns].values.tolist() == gold[columns].values.tolist()
    export_collection(tmp_path / "run.jsonl", [TEA], passages, gold, run=ranked_run({"t1": ["d3", "d1"]}))
    assert read_berds(tmp_path / "run.jsonl")[2]["docno"].tolist() == ["d3", "d1"]


def test_a_collection_is_exported_as_diversity_qrels(tmp_path):
    passages = [Passage("d1", "t", "T"), Passage("d2", "u"), Passage("d3", "v")]
    rows = [
        ("t1", 0, "d2", 1.0, True),
        ("t1", 1, "d2", 1.0, True),
        ("t1", 0, "d1", 1.0, True),
        ("c1", 2, "d3", 0.0, False),
    ]
    gold = make_verdicts(rows, "gold")
    for _ in range(2):  # what it wrote, it replaces
        export_collection(tmp_path / "set", [TEA, CATS], passages, gold, layout="trec")
    assert sorted(p.name for p in (tmp_path / "set").iterdir()) == [
        "corpus.jsonl", "qrels.txt", "subtopics.tsv", "topics.tsv",
    ]  # fmt: skip
    assert read_passages(tmp_path / "set" / "corpus.jsonl") == passages
    columns = ["qid", "pid", "docno", "supports"]
    again = read_trec_qrels(tmp_path / "set" / "qrels.txt")
    assert again[columns].equals(gold[columns])
    with open(tmp_path / "set" / "subtopics.tsv", encoding="utf-8", newline="") as file:
        assert [tuple(row) for row in csv.reader(file, delimiter="\t")] == [
            ("qid", "subtopic", "perspective", "stance"),
            ("t1", "0", "Tea is better.", "support"),
            ("t1", "1", "Coffee is better.", "oppose"),
            ("c1", "0", "They do.", ""),
            ("c1", "1", "They do not.", ""),
            ("c1", "2", "Some do.", ""),
        ]
    rows = [line.split() for line in (tmp_path / "set" / "qrels.txt").read_text().splitlines()]
    qrels = [pyndeval.SubtopicQrel(qid, subtopic, docno, int(rel)) for qid, subtopic, docno, rel in rows]
    run = ranked_run({"t1": ["d3", "d1", "d2"]})
    scored = [pyndeval.ScoredDoc(row.qid, row.docno, row.score) for row in run.itertuples()]
    theirs = pyndeval.ndeval(qrels, scored, measures=["alpha-nDCG@5"])["t1"]["alpha-nDCG@5"]
    ours = score_run(run, gold, [TEA], [alpha_nDCG @ 5])
    assert ours.loc["t1"].iloc[0] == pytest.approx(theirs)
    (tmp_path / "set" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"thesis\.tex"):
        export_collection(tmp_path / "set", [TEA], passages, gold, layout="trec")
    with pytest.raises(InputError, match="t 1"):
        export_collection(tmp_path / "other", [TEA._replace(qid="t 1")], passages, gold, layout="trec")


# What Croissant 1.0 requires: https://docs.mlcommons.org/croissant/docs/croissant-spec.html.
REQUIRED = {
    "sc:Dataset": {"@context", "name", "description", "conformsTo", "distribution", "recordSet"},
    "cr:FileObject": {"@id", "name", "contentUrl", "encodingFormat", "sha256"},
    "cr:RecordSet": {"@id", "name", "field"},
    "cr:Field": {"@id", "name", "dataType", "source"},
}


def test_croissant_describes_the_tables_of_a_folder_for_the_hub(tmp_path):
    gold = make_verdicts([("c1", 2, "d1", 1.0, True)], "gold")
    export_collection(tmp_path / "set", [CATS], [Passage("d1", "t", "T")], gold, layout="hf")
    found = json.loads((tmp_path / "set" / "croissant.json").read_text(encoding="utf-8"))
    fields = [field for records in found["recordSet"] for field in records["field"]]
    for node in (found, *found["distribution"], *found["recordSet"], *fields):
        assert REQUIRED[node["@type"]] <= node.keys()
        unknown = {key for key in node if not key.startswith("@")} - found["@context"].keys()
        assert unknown <= {
            "name",
            "description",
            "distribution",
            "contentUrl",
            "encodingFormat",
            "sha256",
        }  # schema.org
    assert found["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    for node in found["distribution"]:
        content = (tmp_path / "set" / node["contentUrl"]).read_bytes()
        assert node["sha256"] == hashlib.sha256(content).hexdigest()
    for records, node in zip(found["recordSet"], found["distribution"], strict=True):
        columns = pd.read_parquet(tmp_path / "set" / node["contentUrl"]).columns
        assert [field["source"]["extract"]["column"] for field in records["field"]] == [*columns]
        assert {field["source"]["fileObject"]["@id"] for field in records["field"]} == {node["@id"]}
    types = {field["@id"]: field["dataType"] for field in fields}
    assert types["verdicts/pid"] == "sc:Integer" and types["verdicts/p_yes"] == "sc:Float"
    assert types["verdicts/supports"] == "sc:Boolean" and types["corpus/text"] == "sc:Text"
    assert [field["@id"] for field in fields if "repeated" in field][:1] == ["questions/perspectives"]


def test_further_fields_of_passages_are_columns_of_a_folder_for_the_hub(tmp_path):
    """Values of one type keep it; objects and values of several types become text. No field replaces the text."""
    passages = [
        Passage("d1", "t", "T", {"year": 1999, "tags": ["a", "b"], "when": 3, "by": {"name": "Ann"}, "text": "other"}),
        Passage("d2", "u", fields={"share": 0.5, "when": "spring"}),
    ]
    gold = make_verdicts([("c1", 2, "d1", 1.0, True)], "gold")
    export_collection(tmp_path / "set", [CATS], passages, gold, layout="hf")
    assert pq.read_table(tmp_path / "set" / "corpus" / "test.parquet").to_pylist() == [
        {"docno": "d1", "text": "t", "title": "T", "year": 1999, "tags": ["a", "b"], "when": "3"}
        | {"by": '{"name": "Ann"}', "share": None},
        {"docno": "d2", "text": "u", "title": "", "year": None, "tags": None, "when": "spring"}
        | {"by": None, "share": 0.5},
    ]
    found = json.loads((tmp_path / "set" / "croissant.json").read_text(encoding="utf-8"))
    fields = {field["@id"]: field for records in found["recordSet"] for field in records["field"]}
    assert fields["corpus/by"]["dataType"] == fields["corpus/tags"]["dataType"] == "sc:Text"
    assert fields["corpus/tags"]["repeated"] and fields["corpus/year"]["dataType"] == "sc:Integer"


def test_croissant_is_read_by_its_own_package(tmp_path):
    mlcroissant = pytest.importorskip("mlcroissant")
    gold = make_verdicts([("c1", 2, "d1", 1.0, True)], "gold")
    export_collection(tmp_path / "set", [CATS], [Passage("d1", "t", "T")], gold, layout="hf")
    described = mlcroissant.Dataset(jsonld=tmp_path / "set" / "croissant.json")
    assert not described.metadata.ctx.issues.errors
    assert next(iter(described.records("verdicts")))["verdicts/docno"] == b"d1"


def test_a_folder_for_the_hub_is_read_by_datasets(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    gold = make_verdicts([("c1", 0, "d2", 0.0, False), ("c1", 2, "d1", 1.0, True)], "gold")
    export_collection(tmp_path / "set", [CATS], [Passage("d1", "t", "T"), Passage("d2", "u")], gold, layout="hf")

    def rows(name):
        return datasets.load_dataset(str(tmp_path / "set"), name, split="test", cache_dir=str(tmp_path / "cache"))

    assert rows("questions")["perspectives"][0] == list(CATS.perspectives) and rows("questions")["qid"][0] == "c1"
    assert rows("corpus")["title"][:] == ["T", ""]
    assert rows("verdicts").to_pandas()[["pid", "docno", "supports"]].values.tolist() == [
        [0, "d2", False],
        [2, "d1", True],
    ]


@pytest.mark.parametrize("split", ["dev", "all"])
def test_a_folder_for_the_hub_is_loaded_as_it_was(tmp_path, split):
    given = bd.load("sample", split=split)
    name = "test" if split == "all" else split
    export_collection(tmp_path / "set.hub", given.questions, given.passages, given.gold, layout="hf", split=name)
    found = bd.load(tmp_path / "set.hub", split=split)
    assert (found.questions, found.passages) == (given.questions, given.passages)
    assert {"genre", "kind"} <= found.passages[0].fields.keys()
    verdicts = given.gold[given.gold["qid"].isin([question.qid for question in given.questions])]
    pd.testing.assert_frame_equal(found.gold, verdicts.reset_index(drop=True))
    assert bd.load("sample", split=split, passages=tmp_path / "set.hub").passages == given.passages


def test_a_folder_for_the_hub_without_splits_and_with_two_files(tmp_path):
    """A question without a split has the name of its file, if there are several files."""
    gold = make_verdicts([("t1", 0, "d1", 1.0, True)], "gold")
    given = [TEA._replace(weights=(1.0, 3.0), labels=("tea", "coffee"))]
    export_collection(tmp_path / "set", given, [Passage("d1", "t")], gold, layout="hf")
    assert list(bd.load(tmp_path / "set").questions) == given
    gold = make_verdicts([("c1", 2, "d1", 1.0, True)], "gold")
    export_collection(tmp_path / "more", [CATS._replace(split="")], [Passage("d1", "t")], gold, layout="hf")
    for table in ("questions", "verdicts"):
        (tmp_path / "more" / table / "test.parquet").rename(tmp_path / "set" / table / "dev.parquet")
    assert [q.qid for q in bd.load(tmp_path / "set").questions] == ["c1"]
    assert [(q.qid, q.split) for q in bd.load(tmp_path / "set", split="test").questions] == [("t1", "test")]


def test_the_card_of_a_folder_for_the_hub_says_how_to_read_it(tmp_path, monkeypatch, capsys):
    pytest.importorskip("datasets")
    given = bd.load("sample")
    export_collection(tmp_path / "it's mine", given.questions, given.passages, given.gold, layout="hf", split="dev")
    monkeypatch.chdir(tmp_path)
    printed = re.findall(r"```python\n(.*?)```", (tmp_path / "it's mine" / "README.md").read_text(), re.DOTALL)
    for snippet in printed:
        exec(snippet, {})
    assert "MRecall@5" in capsys.readouterr().out


def test_verdicts_are_counted_as_they_are_written(tmp_path):
    passages = [Passage("d1", "t"), Passage("d2", "u")]
    rows = [
        ("t1", 0, "d1", 1.0, True),
        ("t1", 1, "d1", 0.0, False),
        ("t1", 0, "d2", 1.0, True),
        ("c1", 0, "d2", 1.0, True),
    ]
    gold = make_verdicts(rows, "gold")

    def written(name, layout, **more):
        return export_collection(tmp_path / name, [TEA], passages, gold, layout=layout, **more)

    assert written("beir", "beir") == len(pd.read_csv(tmp_path / "beir" / "qrels" / "test.tsv", sep="\t")) == 2
    assert written("trec", "trec") == len((tmp_path / "trec" / "qrels.txt").read_text().splitlines()) == 3
    assert written("hub", "hf") == len(pd.read_parquet(tmp_path / "hub" / "verdicts" / "test.parquet")) == 3
    banks = written("banks", "nuggets")
    assert banks == len(bd.load(tmp_path / "banks", passages=passages).gold) == 2
    assert written("all.jsonl", "berds") == 3
    assert written("run.jsonl", "berds", run=ranked_run({"t1": ["d1"]})) == 2
