"""`berds rate pairs`: what it writes is what `berds rate judge` reads; and how judges order systems."""

import json

import pytest
from shell import berds, tried

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.readers import read_labelled_pairs
from berdslib.judging.examples import detection_pairs
from berdslib.retrieval.retrievers import make_retriever

DEV = ("-q", "sample", "--split", "dev")


@pytest.fixture(scope="module")
def found():
    questions, passages = load_questions("sample", "dev"), load_passages("sample")
    run = make_retriever("bm25", passages).search(questions, 3)
    return questions, run, {p.docno: p for p in passages}


def test_pairs_labelled_by_gold_are_read_by_judge_eval(found, tmp_path):
    questions, run, passages = found
    out = tmp_path / "pairs.tsv"
    done = json.loads(berds("rate", "pairs", *DEV, "-r", "bm25", "-k", "3", "-j", "gold", "-o", out, "--json").stdout)
    want = detection_pairs(questions, [run], passages, k=3)
    gold = load_gold("sample").set_index(["qid", "pid", "docno"])["supports"]
    written = read_labelled_pairs(out)
    assert [(p.document, p.perspective) for p in written] == [(p.passage.full_text, p.perspective) for p in want]
    assert [p.label for p in written] == [bool(gold.get((p.qid, p.pid, p.passage.docno), False)) for p in want]
    assert done["pairs"] == len(want) and done["questions"] == len(questions) and done["judge"].startswith("gold(")
    rated = ("rate", "judge", "--data", out, "-j", "random")
    long = {(row["judge"], row["measure"]): row for row in json.loads(berds(*rated, "--json").stdout)}
    head, *lines = berds(*rated).stdout.splitlines()
    assert " ".join(head.split()) == "judge f1, % precision, % recall, % auc calibration_error, %"
    for judge, line in zip(dict.fromkeys(judge for judge, _ in long), lines, strict=True):
        want = []
        for measure in ("f1", "precision", "recall", "auc", "calibration_error"):
            row = long[judge, measure]
            ends = (row["value"], row["low"], row["high"])
            value, low, high = (f"{one:.3f}" if measure == "auc" else f"{100 * one:.1f}" for one in ends)
            want += [value, f"[{low},", f"{high}]"] if row["low"] < row["high"] else [value]
        assert line.split() == [*judge.split(), *want]


def test_questions_are_drawn_from_each_data_set(tmp_path):
    out = tmp_path / "pairs.tsv"
    asked = ("rate", "pairs", "-q", "sample", "--split", "all", "-r", "bm25", "-k", "1", "-o", out, "--json")
    sources = {q.source for q in load_questions("sample", "all")}
    assert json.loads(berds(*asked, "--draw", "1").stdout)["questions"] == len(sources)
    assert "cannot be drawn" in tried(*asked, "--draw", "100").stderr


SYSTEMS = ("rate", "systems", *DEV, "-r", "bm25,rank-bm25,bm25+expand:rule", "-j", "overlap")


def test_judge_systems_prints_tables_and_draws(tmp_path, caplog):
    out = tmp_path / "judged"
    done = berds(*SYSTEMS, "-m", "Precision@5", "-o", out)
    assert "8 questions, 3 systems" in done.stderr and "fewer than 12" in caplog.text
    assert "Precision@5 gold" in done.stdout and "tau_low" in done.stdout
    assert {path.name for path in out.iterdir()} == {
        "order.csv", "labels.csv", "table.csv", *(f"systems_Precision-5.{end}" for end in ("png", "pdf", "csv"))
    }  # fmt: skip
