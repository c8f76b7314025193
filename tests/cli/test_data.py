"""`berds data export`: what is written is what the shell and other tools read back."""

import json

import pytest
from shell import berds, tried

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.formats import read_berds
from berdslib.data.records import ranked_run
from berdslib.data.trec import write_trec_run


@pytest.fixture(autouse=True)
def _own_cache(user_cache):
    pass


def test_a_beir_folder_is_written_and_scored_as_any_other_set(tmp_path):
    folder, run = tmp_path / "beir", tmp_path / "run.trec"
    done = json.loads(berds("data", "export", folder, "-q", "sample", "--split", "dev", "--json").stdout)
    assert (done["questions"], done["corpus_size"], done["output"]) == (8, len(load_passages("sample")), str(folder))
    assert [p.name for p in (folder / "qrels").iterdir()] == ["dev.tsv"]
    asked, passages, gold = load_questions(folder, "dev"), load_passages(folder), load_gold(folder)
    assert [q.qid for q in asked] == [q.qid for q in load_questions("sample", "dev")]
    assert list(passages) == list(load_passages("sample"))
    mine = load_gold("sample")
    yes = mine[mine["supports"] & mine["qid"].isin([q.qid for q in asked])]
    assert set(zip(gold["qid"], gold["docno"], strict=True)) == set(zip(yes["qid"], yes["docno"], strict=True))
    berds("retrieve", "-q", folder, "-k", "5", "-o", run)
    assert "Precision@5" in berds("evaluate", "-q", folder, "--run", run, "-m", "Precision@5").stdout


def test_several_splits_are_called_test(tmp_path):
    berds("data", "export", tmp_path / "beir", "-q", "sample", "--split", "all")
    assert [p.name for p in (tmp_path / "beir" / "qrels").iterdir()] == ["test.tsv"]


def test_the_official_rows_hold_a_run_and_its_gold(tmp_path):
    first, passages = load_questions("sample", "dev")[0], load_passages("sample")
    run, path = tmp_path / "run.trec", tmp_path / "out.jsonl"
    write_trec_run(run, ranked_run({first.qid: [passages[3].docno, passages[1].docno]}))
    berds("data", "export", path, "-q", "sample", "--limit", "1", "--run", run)
    asked, _, listed, gold = read_berds(path, "gold-preds")
    assert [q.text for q in asked] == [first.text]
    assert listed["docno"].tolist() == [passages[3].docno, passages[1].docno]
    assert len(gold) == 2 * len(first.perspectives)


def test_verdicts_from_a_file_and_questions_of_ones_own(tmp_path):
    questions, corpus, gold = (tmp_path / name for name in ("q.jsonl", "c.jsonl", "v.tsv"))
    questions.write_text('{"_id": "q", "question": "Why?", "perspectives": ["So."]}\n')
    corpus.write_text('{"_id": "d", "text": "So."}\n')
    gold.write_text("qid\tpid\tdocno\tp_yes\nq\t0\td\t1\n")
    command = ("data", "export", tmp_path / "beir", "-q", questions, "-c", corpus)
    assert "give a file of verdicts with --gold" in tried(*command).stderr
    berds(*command, "--gold", gold)
    assert (tmp_path / "beir" / "qrels" / "test.tsv").read_text() == "query-id\tcorpus-id\tscore\nq\td\t1\n"


def test_a_folder_cannot_hold_a_run(tmp_path):
    result = tried("data", "export", tmp_path / "beir", "-q", "sample", "--run", tmp_path / "run.trec")
    assert result.exit_code == 2 and "holds no run" in result.stderr
