"""The command line: the main job step by step, and the same in one command."""

import json
import subprocess
import sys

import pandas as pd
import pytest
import yaml
from shell import berds

import berdslib as bd
from berdslib.cli.inputs import named_files, read_collection, read_collections
from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.formats import write_berds
from berdslib.data.records import Passage, Question, make_verdicts, ranked_run
from berdslib.data.tables import write_jsonl
from berdslib.data.trec import read_trec_run
from berdslib.errors import InputError
from berdslib.evaluation.measures import MRecall, Precision, score_run


def test_retrieve_judge_evaluate(tmp_path):
    run, verdicts = str(tmp_path / "bm25.trec"), str(tmp_path / "verdicts.tsv")
    berds("retrieve", "-q", "sample", "--split", "test", "-k", "20", "-o", run)
    said = berds("judge", "-q", "sample", "--split", "test", "--run", run, "-k", "10", "-o", verdicts).stderr
    assert "pairs by gold:" in said
    table = json.loads(
        berds("evaluate", "-q", "sample", "--split", "test", "--run", run, "--verdicts", verdicts,
              "-m", "Precision@10,MRecall@10", "--json").stdout
    )  # fmt: skip
    questions = load_questions("sample", "test")
    want = score_run(read_trec_run(run), load_gold("sample"), questions, [Precision @ 10, MRecall @ 10])
    sources = pd.Series([q.source for q in questions], index=want.index)
    macro = {row["measure"]: row["mean"] for row in table if row["dataset"] == "macro"}
    for measure, value in macro.items():
        assert value == pytest.approx(want[measure].groupby(sources).mean().mean())


def test_the_record_beside_a_run_has_the_files_of_the_callers_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the checkout is elsewhere
    write_jsonl("q.jsonl", [{"qid": "1", "question": "Should zoos close?"}])
    write_jsonl("c.jsonl", [{"docno": "d", "text": "Zoos keep rare animals."}])
    berds("data", "export", "folder", "-c", "c.jsonl")
    made = ("-r", "minilm", "--index", "flat:own.index", "-o", "run.trec")

    def checksums(corpus):
        berds("retrieve", "-q", "q.jsonl", "-c", corpus, *made)
        return yaml.safe_load((tmp_path / "run.ir_metadata.yaml").read_text())["data"]["checksums"]

    before = checksums("./folder")
    assert set(before) == {"q.jsonl", "./folder", "own.index"} and all(before.values())
    assert checksums("./folder") == before
    write_jsonl("q.jsonl", [{"qid": "1", "question": "Should parks close?"}])
    after = checksums("c.jsonl")  # the same passages, so the same index
    assert after["q.jsonl"] != before["q.jsonl"] and "c.jsonl" in after


def test_evaluate_official_file_with_two_recorded_judges(tmp_path):
    questions = [Question("1", "Cats?", ("Cats are kind.", "Cats are not kind."))]
    passages = {d: Passage(d, f"text {d}", "t") for d in ("a", "b")}
    path = tmp_path / "outputs.jsonl"
    run = ranked_run({"1": ["a", "b"]})
    both = make_verdicts([("1", 0, "a", 1.0, True), ("1", 1, "b", 1.0, True)], "x")
    write_berds(path, questions, passages, run, both, "mistral-preds")
    row = json.loads(path.read_text())
    row["gpt4-preds"] = [["Yes", "No"], ["No", "No"]]
    path.write_text(json.dumps(row))
    table = json.loads(berds("evaluate", str(path), "-m", "MRecall@2,Precision@2", "--json").stdout)
    found = {(r["verdicts"], r["measure"]): r["mean"] for r in table if r["dataset"] == "berds"}
    assert found == {
        ("mistral-preds", "MRecall@2"): 1.0, ("mistral-preds", "Precision@2"): 1.0,
        ("gpt4-preds", "MRecall@2"): 0.0, ("gpt4-preds", "Precision@2"): 0.5,
    }  # fmt: skip


def test_every_step_reports_as_json(tmp_path):
    run = str(tmp_path / "run.trec")
    done = json.loads(berds("retrieve", "-q", "sample", "--split", "dev", "-k", "5", "-o", run, "--json").stdout)
    assert (done["questions"], done["corpus_size"], done["output"]) == (8, 373, run)
    arguments = ("--run", run, "-j", "overlap", "-o", str(tmp_path / "v.tsv"), "--json")
    judged = json.loads(berds("judge", "-q", "sample", "--split", "dev", *arguments).stdout)
    assert judged["pairs"] > 50
    assert json.loads(berds("data", "card", "sample", "--json").stdout)["licence"] == "Apache-2.0"
    assert "Apache-2.0" in berds("data", "card", "sample").stdout and "theperspective" in berds("data", "list").stdout
    stats = json.loads(berds("data", "stats", "-q", "sample", "--split", "all", "--json").stdout)[0]
    assert (stats["n"], stats["dev"], stats["test"]) == (24, 8, 16)
    assert json.loads(berds("notebook", "list", "--json").stdout)["00_quickstart"][1]["name"] == "question_id"


def test_importing_the_package_and_asking_for_help_load_nothing_heavy():
    script = (
        "import sys, berdslib, berdslib.cli\n"
        "heavy = {'torch', 'transformers', 'faiss', 'pandas', 'matplotlib', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_several_sets_share_the_corpus_that_is_named_or_have_their_own():
    (shared,) = read_collections({"questions": "sample,pir-sample:stories", "corpus": "sample"})
    assert len(shared.questions) == 8 + 20 and len(shared.passages) == len(load_passages("sample"))
    first, second = read_collections({"questions": "sample,pir-sample:stories"})
    assert (len(first.passages), len(second.passages)) == (len(load_passages("sample")), 40)
    with pytest.raises(InputError, match="--corpus is required, because the questions come from several data sets"):
        read_collection({"questions": "sample,pir-sample:stories"})


def test_a_run_is_called_as_it_is_told_or_like_its_file(tmp_path):
    odd = tmp_path / "a=b.trec"
    odd.write_text("")
    assert named_files([f"{tmp_path}/one.trec.gz", "theirs=two.jsonl", str(odd)]) == {
        "one": f"{tmp_path}/one.trec.gz", "theirs": "two.jsonl", "a=b": str(odd)
    }  # fmt: skip
    assert named_files(["x/run.trec", "y/run.trec"]) == {"x/run.trec": "x/run.trec", "y/run.trec": "y/run.trec"}
    for twice in (["run.trec", "run.trec"], ["a=x.trec", "a=y.trec"]):
        with pytest.raises(InputError, match="is named twice"):
            named_files(twice)


@pytest.mark.real_data
def test_theperspective_reference_scores(real_data):
    """Two retrievers on 134 questions with gold verdicts; the figures are in the README."""
    result = bd.experiment("bm25", "theperspective", ["Precision@5", "MRecall@5"])
    means = result.table[result.table["dataset"] == "macro"].set_index("measure")["mean"] * 100
    assert means["Precision@5"] == pytest.approx(69.7, abs=0.05)
    assert means["MRecall@5"] == pytest.approx(77.6, abs=0.05)
