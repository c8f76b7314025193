"""`berds retrieve` and `experiment`: what cannot be written is said early, and a table is never lost."""

import json
import re

import pytest
from shell import berds, tried

from berdslib.errors import InputError
from berdslib.judging.store import VerdictStore
from berdslib.retrieval.bm25 import BM25
from berdslib.study import experiment as experiment_module
from berdslib.study.tables import NO_INTERVAL


@pytest.fixture
def files(tmp_path):
    """A question and a corpus in which one docno holds a blank."""
    questions, corpus = tmp_path / "q.jsonl", tmp_path / "corpus.jsonl"
    questions.write_text(
        '{"_id": "q", "question": "Are cats kind?", "perspectives": ["Cats are kind.", "They are not."]}\n'
    )
    corpus.write_text('{"_id": "a b", "text": "Cats are kind."}\n{"_id": "c", "text": "Cats are not kind."}\n')
    return questions, corpus


@pytest.mark.parametrize("command", ["retrieve", "experiment"])
def test_what_cannot_be_written_is_said_before_the_search(files, tmp_path, monkeypatch, command):
    """An id that no run file can carry, and a place below a file."""

    def search(self, questions, k):
        raise AssertionError("searched")

    monkeypatch.setattr(BM25, "search", search)
    questions, corpus = files
    judge = ("-j", "overlap") if command == "experiment" else ()
    asked = (command, "-q", questions, "-c", corpus, "-r", "bm25", *judge, "-o")
    result = tried(*asked, tmp_path / "out")
    assert (result.exit_code, result.stderr) == (
        1, "berds: [docno]: 'a b' is empty or holds a blank, which TREC files cannot carry\n"
    )  # fmt: skip
    corpus.write_text('{"_id": "c", "text": "Cats are not kind."}\n')
    result = tried(*asked, questions / "out")
    assert result.exit_code == 1 and "q.jsonl/out: cannot be written: its folder is a file" in result.stderr


def test_a_table_that_cannot_be_written_has_been_printed(tmp_path, monkeypatch):
    def full(*_):
        raise InputError("cannot be written: the disk is full", path=tmp_path / "out")

    monkeypatch.setattr(experiment_module, "write_verdicts", full)
    result = tried("experiment", "-q", "sample", "--limit", "2", "-r", "bm25", "-o", tmp_path / "out")
    assert result.exit_code == 1 and "cannot be written" in result.stderr and "MRecall@5" in result.stdout
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_files_is_refused_before_the_search(tmp_path, monkeypatch):
    def search(self, questions, k):
        raise AssertionError("searched")

    monkeypatch.setattr(BM25, "search", search)
    (tmp_path / "bm25.trec").write_text("")
    result = tried("experiment", "-q", "sample", "-r", "bm25", "-o", tmp_path)
    assert result.exit_code == 1 and "bm25.trec" in result.stderr


def test_an_experiment_writes_a_hundred_places(tmp_path):
    command = ("experiment", "-q", "sample", "--limit", "3", "-r", "bm25,rank-bm25", "-o", tmp_path / "out")
    said = berds(*command).stderr
    assert "100" in said and len((tmp_path / "out" / "bm25.trec").read_text().splitlines()) == 300
    scored = ("experiment", "-q", "sample", "--limit", "3", "-r", "bm25", "-m", "nDCG@10")
    rows = json.loads(berds(*scored, "--run", f"again={tmp_path / 'out' / 'bm25.trec'}", "--json").stdout)
    means = {row["system"]: row["mean"] for row in rows if row["dataset"] == "macro"}
    assert means["again"] == means["bm25"]


def test_questions_without_a_verdict_are_left_out_by_each_command(tmp_path):
    berds("data", "export", tmp_path, "-q", "sample", "--split", "all", "--layout", "trec")
    lines = (tmp_path / "qrels.txt").read_text().splitlines(keepends=True)
    part, run = tmp_path / "part.txt", tmp_path / "run.trec"
    part.write_text("".join(line for line in lines if line.startswith("k")))
    asked = ("-q", "sample", "--split", "all", "-m", "MRecall@5")
    berds("retrieve", "-q", "sample", "--split", "all", "-r", "bm25", "-k", "5", "-o", run)
    for command in (
        ("experiment", *asked, "--gold", part, "-r", "bm25"), ("evaluate", *asked, "--verdicts", part, "--run", run),
    ):  # fmt: skip
        shown = berds(*command, "--json")
        rows = json.loads(shown.stdout)
        assert {row["dataset"] for row in rows} <= {"sample-kialo", "macro"} and {row["n"] for row in rows} == {8}
        assert shown.stderr.count("16 of 24 questions") == 1


def test_a_run_that_holds_the_questions_own_passage_is_scored_without_it(tmp_path):
    questions, corpus, qrels, run = (tmp_path / name for name in ("q.jsonl", "c.jsonl", "g.txt", "run.trec"))
    questions.write_text('{"qid": "tram", "question": "Pay for trams.", "perspectives": ["Pay for trams."]}\n')
    corpus.write_text('{"_id": "tram", "text": "Pay for trams."}\n{"_id": "no", "text": "Never pay for trams."}\n')
    qrels.write_text("tram 0 no 1\n")
    run.write_text("tram Q0 tram 1 2 x\ntram Q0 no 2 1 x\n")
    command = ("evaluate", "-q", questions, "--verdicts", qrels, "--run", run, "-m", "P@1", "--json")
    with_corpus, without = berds(*command, "-c", corpus), berds(*command)
    assert [json.loads(shown.stdout)[0]["mean"] for shown in (with_corpus, without)] == [1.0, 0.0]
    assert "1 of 1 question " in with_corpus.stderr and "1 list" in without.stderr


def test_verdicts_of_another_corpus_are_refused_by_evaluate(tmp_path):
    run, verdicts = tmp_path / "run.trec", tmp_path / "v.tsv"
    berds("retrieve", "-q", "sample", "-r", "bm25", "-k", "5", "-o", run)
    (qid, *_), *_ = (line.split() for line in run.read_text().splitlines())
    verdicts.write_text(f"qid\tpid\tdocno\tsupports\n{qid}\t0\telsewhere\t1\n")
    result = tried("evaluate", "-q", "sample", "--run", run, "--verdicts", verdicts)
    assert result.exit_code == 1 and "elsewhere" in result.stderr


def test_the_published_cutoff_is_there_by_name(tmp_path):
    """Row B1 of divergences.md: turning two rows around changes every score."""
    rows = [
        {
            "question": f"{listed}?",
            "perspectives": ["Yes.", "No."],
            "ctxs": [{"text": text, "x-preds": [1, 0]} for text in listed],
        }
        for listed in ("ab", "c")
    ]
    found = []
    for order in ((0, 1), (1, 0)):
        with (tmp_path / "out.jsonl").open("w") as file:
            for i in order:
                file.write(json.dumps(rows[i]) + "\n")
        command = ("evaluate", tmp_path / "out.jsonl", "-m", "MRecall@5", "--json")
        assert json.loads(berds(*command).stdout)[0]["mean"] == 0.0
        (row, *_) = json.loads(berds(*command, "--k", "official").stdout)
        found.append((row["measure"], row["mean"]))
    assert found == [("MRecall@2", 0.0), ("MRecall@1", 1.0)]


def test_one_data_set_has_each_row_once_and_short_lists_are_said_once(tmp_path):
    row = {"question": "Q?", "perspectives": ["Yes.", "No."], "x-preds": [[1, 0]], "ctxs": [{"text": "a"}]}
    (tmp_path / "out.jsonl").write_text(json.dumps(row | {"y-preds": [["Yes", "No"]]}))
    command = ("evaluate", tmp_path / "out.jsonl", "-m", "MRecall@5,Precision@5")
    shown = berds(*command)
    assert [line.split()[:3] for line in shown.stdout.splitlines()[1:]] == [
        [judge, "berds", measure] for measure in ("MRecall@5", "Precision@5") for judge in ("x-preds", "y-preds")
    ]
    assert shown.stderr.count("1 of 1 question lists fewer than 5 passages") == 1
    two = [row | {"id": name, "source": name, "y-preds": [["Yes", "No"]]} for name in "ab"]
    (tmp_path / "two.jsonl").write_text("\n".join(map(json.dumps, two)))
    shown = json.loads(berds("evaluate", tmp_path / "two.jsonl", *command[2:], "--json").stdout)
    assert {one["dataset"] for one in shown} == {"a", "b", "macro"}
    assert "fewer than" not in berds(*command, "--k", "official").stderr


def test_an_interval_that_is_not_known_is_explained_once(tmp_path):
    """The first queries of the explicit scenario are about one issue; each of the baseline has its own."""
    explained = {}
    for scenario in ("explicit", "baseline"):
        asked, run = ("-q", f"perspectivearg-sample:{scenario}", "--limit", "6"), tmp_path / f"{scenario}.jsonl"
        berds("retrieve", *asked, "-r", "bm25", "-o", run)
        measured = (*asked, run, "-m", "P@4,rKL@4")
        lows = {row["low"] for row in json.loads(berds("evaluate", *measured, "--json").stdout)}
        assert (lows == {None}) == (scenario == "explicit")
        explained[scenario] = berds("evaluate", *measured).stderr.count(NO_INTERVAL)
    assert explained == {"explicit": 1, "baseline": 0}


def test_what_the_aspect_judge_says_goes_to_the_store_that_is_named(tmp_path, user_cache):
    store, run = tmp_path / "own.sqlite", tmp_path / "run.trec"
    command = ("retrieve", "-q", "sample", "--limit", "1", "-r", "bm25+coverage:0.5", "--aspect-judge", "overlap")
    berds(*command, "-k", "3", "--store", store, "-o", run)
    assert len(VerdictStore(store)) > 0 and not (user_cache / "verdicts.sqlite").exists()


TWO = ("experiment", "-q", "sample", "--limit", "3", "-r", "bm25,rank-bm25", "-m", "MRecall@5,Precision@5")


def test_an_experiment_prints_letters_or_pairs_where_it_is_asked_to():
    shown = berds(*TWO, "--letters").stdout
    assert "share a letter" in shown and "] a" in shown
    pairs = json.loads(berds(*TWO, "--pairs", "--json").stdout)
    assert [(row["first"], row["second"], row["measure"]) for row in pairs] == [
        ("bm25", "rank-bm25", "MRecall@5"), ("bm25", "rank-bm25", "Precision@5")
    ]  # fmt: skip
    assert all(row["wins"] + row["ties"] + row["losses"] == 3 for row in pairs)
    assert all(row["effect_low"] is None or row["effect_low"] <= row["effect"] for row in pairs)
    long = (*TWO[:-3], "bm25,bm25+mmr:0.9,bm25+mmr:0.5", "-m")
    for measures in ("MRecall@5,Precision@5", "MRecall@5"):
        printed = berds(*long, measures, "--pairs").stdout
        assert max(map(len, printed.splitlines())) <= 100
        assert all(name in printed for name in ("difference, %", "low, %", "high, %", "p_value", "wins", "losses"))
        assert ("measure" in printed) == ("," in measures) and "effect" not in printed


def test_shares_are_printed_in_percent_and_written_from_0_to_1(tmp_path):
    run = tmp_path / "run.trec"
    berds("retrieve", "-q", "sample", "--limit", "3", "-r", "bm25", "-o", run)
    scored = ("evaluate", "-q", "sample", "--limit", "3", "--run", run, "-m", "MRecall@5,Precision@5")
    long, each = ["mean", "low", "high"], ["MRecall@5", "Precision@5"]
    for command, columns in (
        (scored, long), ((*scored, "--per-question"), each), ((*TWO, "--pairs"), ["difference", "low", "high"]),
    ):  # fmt: skip
        rows, (head, *lines) = json.loads(berds(*command, "--json").stdout), berds(*command).stdout.splitlines()
        names = re.split(r"\s+", head.replace(", %", ",%").strip())
        assert len(rows) == len(lines) and [name for name in names if name.endswith(",%")][: len(columns)] == [
            f"{column},%" for column in columns
        ]
        for row, line in zip(rows, lines, strict=True):
            cells = dict(zip(names, line.split(), strict=True))
            assert all(abs(row[column]) <= 1 for column in columns)
            assert [cells[f"{column},%"] for column in columns] == [f"{100 * row[column]:.1f}" for column in columns]


def test_four_columns_are_the_scores_of_each_question_and_their_means(tmp_path):
    run = tmp_path / "my run.trec"
    berds("retrieve", "-q", "sample", "--limit", "3", "-r", "bm25", "-o", run)
    asked = ("evaluate", "-q", "sample", "--limit", "3", "--run", run, "-m", "MRecall@5,alpha_nDCG@10")
    lines = [line.split("\t") for line in berds(*asked, "--format", "trec").stdout.splitlines()]
    rows = json.loads(berds(*asked, "--per-question", "--json").stdout)
    wanted = {(row["qid"], measure): row[measure] for row in rows for measure in ("MRecall@5", "alpha_nDCG@10")}
    for measure in ("MRecall@5", "alpha_nDCG@10"):
        wanted["all", measure] = sum(row[measure] for row in rows) / len(rows)
    assert {name for name, *_ in lines} == {"my-run"}
    assert {(qid, measure): float(value) for _, qid, measure, value in lines} == pytest.approx(wanted, abs=1e-6)


def test_names_are_read_whatever_their_capitals(tmp_path):
    said = [
        berds("experiment", "-q", "sample", "--limit", "3", *("-r", systems, "-m", measures, "-j", judge, "--json"))
        for systems, measures, judge in (
            ("bm25,minilm+mmr:0.5", "MRecall@5,alpha_nDCG@5", "overlap"),
            ("BM25,MiniLM+MMR:0.5", "mrecall@5,ALPHA_NDCG@5", "Overlap"),
        )
    ]
    assert said[0].stdout == said[1].stdout


def test_what_verdicts_leave_out_and_single_perspectives_are_said(files, tmp_path, caplog):
    questions, _ = files
    questions.write_text('{"_id": "q", "question": "Are cats kind?", "perspectives": ["Cats are kind."]}\n')
    run, verdicts = tmp_path / "run.trec", tmp_path / "v.tsv"
    run.write_text("q Q0 a 1 2 x\nq Q0 c 2 1 x\n")
    verdicts.write_text("qid\tpid\tdocno\tsupports\nq\t0\ta\t1\n")
    said = berds(
        "evaluate", "-q", questions, "--run", run, "--verdicts", verdicts, "-m", "MRecall@1,Precision@2"
    ).stderr
    single = "1 of 1 question has a single perspective"
    assert said.count("in the first 2: 50%") == said.count(single) == 1
    whole = tmp_path / "whole.jsonl"
    whole.write_text('{"_id": "a", "text": "Cats are kind."}\n{"_id": "c", "text": "Cats are not kind."}\n')
    command = ("experiment", "-q", questions, "-c", whole, "--gold", verdicts, "--run", run, "-m", "Precision@2")
    assert berds(*command).stdout.count("in the first 2: 50%") == 1  # the same, whoever scores
    corpus = tmp_path / "c.jsonl"
    corpus.write_text('{"_id": "a", "text": "Cats are kind."}\n')
    command = ("experiment", "-q", questions, "-c", corpus, "-r", "bm25", "-j", "overlap")
    shown, rows = berds(*command), berds(*command, "--json")
    assert single in shown.stdout and single not in shown.stderr and single in rows.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("experiment", "--gold", "v.tsv", "-j", "laptop", "-r", "bm25"),
        ("sides", "--gold", "v.tsv", "-j", "overlap"),
        ("explore", "--gold", "v.tsv", "-j", "laptop", "-o", "lists.html"),
        ("evaluate", "--gold", "v.tsv", "--judged", "v.tsv", "--run", "v.tsv", "--format", "trec"),
        ("evaluate", "--gold", "v.tsv", "--judged", "v.tsv", "--run", "v.tsv", "--per-question"),
        ("evaluate", "--judged", "v.tsv", "v.tsv"),
    ],
)
def test_verdicts_that_would_not_be_used_are_refused(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.tsv").write_text("")
    asked = () if command[-2:] == ("v.tsv", "v.tsv") else ("-q", "sample")
    assert tried(*command, *asked).exit_code == 2


def test_copies_among_judged_passages_are_counted(files, tmp_path, caplog):
    caplog.set_level("INFO")
    questions, corpus = files
    texts = {"a": "Cats are kind.", "b": "cats  are kind.", "c": "Dogs are kind.", "d": "Are cats kind?"}
    corpus.write_text("".join(json.dumps({"_id": docno, "text": text}) + "\n" for docno, text in texts.items()))
    run = tmp_path / "run.trec"
    run.write_text("".join(f"q Q0 {docno} {i} {9 - i} x\n" for i, docno in enumerate(texts, 1)))
    for k, copies in (("4", 1), ("1", 0)):
        command = ("judge", "-q", questions, "-c", corpus, "--run", run, "-j", "overlap", "-k", k)
        caplog.clear()
        berds(*command, "-o", tmp_path / "v.tsv")
        [said] = [text for text in caplog.messages if "judges" in text]
        assert f"judges {k} passage" in said and said.endswith(": 1") == bool(copies)


def test_runs_of_others_are_tested_against_each_other_on_ones_own_qrels(tmp_path):
    topics, qrels = tmp_path / "topics.jsonl", tmp_path / "qrels.txt"
    topics.write_text("".join(json.dumps({"qid": str(i), "query": f"topic {i}"}) + "\n" for i in range(12)))
    qrels.write_text("".join(f"{i} 1 a 1\n{i} 2 b 1\n" for i in range(12)))
    for name, docnos in (("good", "ab"), ("poor", "ax")):
        lines = [f"{i} Q0 {d} {r} {9 - r} {name}\n" for i in range(12) for r, d in enumerate(docnos)]
        (tmp_path / f"{name}.trec").write_text("".join(lines))
    command = ("experiment", "-q", topics, "--gold", qrels, "--run", f"one={tmp_path / 'poor.trec'}")
    both = (*command, "--run", tmp_path / "good.trec", "-m", "MRecall@2,AP@2", "--json")
    macro = [row for row in json.loads(berds(*both).stdout) if row["dataset"] == "macro"]
    rows = {(row["system"], row["measure"]): row for row in macro}
    assert rows["one", "MRecall@2"]["mean"] == 0 and rows["good", "MRecall@2"]["mean"] == 1
    assert rows["good", "MRecall@2"]["p_value"] < 0.001 and rows["one", "AP@2"]["mean"] == 0.5
    assert "[field]" not in berds(*both[:-1]).stdout
    refused = tried("experiment", "-q", topics, "--gold", tmp_path / "none.txt", "-r", "BM25")
    assert refused.exit_code == 1 and "none.txt" in refused.stderr
