"""`berds data export`: what is written is what the shell and other tools read back."""

import json

from shell import berds, tried

from berdslib.data.datasets import load_passages, load_questions
from berdslib.data.formats import read_berds
from berdslib.data.records import ranked_run
from berdslib.data.trec import write_trec_run


def test_a_beir_folder_is_written_and_scored_as_any_other_set(tmp_path):
    folder, run = tmp_path / "beir", tmp_path / "run.trec"
    done = json.loads(berds("data", "export", folder, "-q", "sample", "--split", "dev", "--json").stdout)
    assert (done["questions"], done["corpus_size"], done["output"]) == (8, len(load_passages("sample")), str(folder))
    assert [p.name for p in (folder / "qrels").iterdir()] == ["dev.tsv"]
    # Such a folder stands for questions, corpus and gold verdicts.
    assert load_questions(folder, "dev")[0].qid == load_questions("sample", "dev")[0].qid
    done = json.loads(berds("retrieve", "-q", folder, "-k", "5", "-o", run, "--json").stdout)
    assert (done["questions"], done["corpus_size"]) == (8, len(load_passages("sample")))
    assert "pairs by gold:" in berds("judge", "-q", folder, "--run", run, "-o", tmp_path / "v.tsv").stderr
    scored = json.loads(berds("evaluate", "-q", folder, "--run", run, "-m", "Precision@5", "--json").stdout)
    whole = json.loads(berds("experiment", "-q", folder, "-r", "bm25", "-m", "Precision@5", "--json").stdout)
    assert scored[0]["mean"] == whole[0]["mean"] > 0


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


def jsonl(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def asked(qid, text, split, *perspectives):
    return {"qid": qid, "question": text, "split": split, "perspectives": perspectives or ["It is so."]}


TWICE = (
    asked("a", "Should all museums be free?", "dev", "They should."),
    asked("b", "Should museums all be free?", "test", "Tickets are fair."),
    asked("c", "Is tea better than coffee?", "dev", "Tea is."),
    asked("d", "Is coffee worse than tea?", "dev", "Nobody knows it."),
)


def test_leaks_across_splits_fail_the_check(tmp_path):
    path = jsonl(tmp_path / "q.jsonl", *TWICE)
    command = ("data", "leaks", "-q", path, "--threshold", "0.4")
    result = tried(*command)
    assert result.exit_code == 1
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows == [
        ["first", "second", "overlap", "first_split", "second_split"],
        ["a", "b", "1.0000", "dev", "test"],
        ["c", "d", "0.5000", "dev", "dev"],
    ]
    assert result.stderr == "4 questions, 2 overlaps of 0.4 or more, 1 across the splits dev, test\n"
    assert len(tried(*command, "--across").stdout.splitlines()) == 2
    result = tried(*command, "--across", "--json")
    assert result.exit_code == 1 and result.stderr == ""
    pair = {"first": "a", "second": "b", "overlap": 1.0, "first_split": "dev", "second_split": "test"}
    counts = {"questions": 4, "splits": ["dev", "test"], "overlaps": 2, "across": 1}
    assert json.loads(result.stdout) == {**counts, "pairs": [pair]}
