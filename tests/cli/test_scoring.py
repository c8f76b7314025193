"""`berds retrieve` and `experiment`: what cannot be written is said early, and a table is never lost."""

import json

import pytest
from shell import berds, tried

from berdslib.data.corpus import Corpus, write_corpus
from berdslib.data.datasets import load_passages
from berdslib.judging.store import VerdictStore
from berdslib.retrieval.bm25 import BM25


@pytest.fixture(autouse=True)
def _own_cache(user_cache):
    pass


@pytest.fixture
def files(tmp_path):
    """A question and a corpus in which one docno holds a blank."""
    questions, corpus = tmp_path / "q.jsonl", tmp_path / "corpus.jsonl"
    questions.write_text(
        '{"_id": "q", "question": "Are cats kind?", "perspectives": ["Cats are kind.", "They are not."]}\n'
    )
    corpus.write_text('{"_id": "a b", "text": "Cats are kind."}\n{"_id": "c", "text": "Cats are not kind."}\n')
    return questions, corpus


def test_judging_a_corpus_on_disk_reads_only_what_the_run_lists(tmp_path, monkeypatch):
    corpus, run = tmp_path / "corpus", tmp_path / "run.trec"
    write_corpus(load_passages("sample"), corpus)
    berds("retrieve", "-q", "sample", "--limit", "2", "-k", "3", "-o", run)

    def all_of_it(self):
        raise AssertionError("read the whole corpus")

    monkeypatch.setattr(Corpus, "__iter__", all_of_it)
    common = ("-q", "sample", "--limit", "2", "-c", corpus, "--run", run)
    berds("judge", *common, "-j", "overlap", "-o", tmp_path / "v.tsv")
    berds("rate", "pairs", *common, "-o", tmp_path / "pairs.tsv")


@pytest.mark.parametrize("command", ["retrieve", "experiment"])
def test_an_id_that_no_run_file_can_carry_is_said_before_the_search(files, tmp_path, monkeypatch, command):
    def search(self, questions, k):
        raise AssertionError("searched")

    monkeypatch.setattr(BM25, "search", search)
    questions, corpus = files
    judge = ("-j", "overlap") if command == "experiment" else ()
    result = tried(command, "-q", questions, "-c", corpus, "-r", "bm25", *judge, "-o", tmp_path / "out")
    assert (result.exit_code, result.stderr) == (
        1, "berds: [docno]: 'a b' is empty or holds a blank, which TREC files cannot carry\n"
    )  # fmt: skip


@pytest.mark.slow
def test_names_that_would_share_a_file_get_their_own(tmp_path):
    out = tmp_path / "out"
    berds("experiment", "-q", "sample", "--limit", "2", "-r", "bm25+cover:1e-1,bm25+cover:1E-1", "-o", out)
    assert len({p.name.casefold() for p in out.glob("*.trec")}) == 2


def test_a_table_that_cannot_be_written_has_been_printed(tmp_path):
    (tmp_path / "out" / "bm25.trec").mkdir(parents=True)
    result = tried("experiment", "-q", "sample", "--limit", "2", "-r", "bm25", "-o", tmp_path / "out")
    assert result.exit_code == 1 and "bm25.trec: cannot be written" in result.stderr
    assert "MRecall@5" in result.stdout


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


def test_the_published_cutoff_is_for_files_of_its_script(tmp_path):
    for option in (("--k", "official"), ("--predictions", "x")):
        result = tried("evaluate", "-q", "sample", "--run", tmp_path / "run.trec", *option)
        assert result.exit_code == 2 and "--k and --predictions are for a BeRDS JSONL file" in result.stderr


@pytest.mark.slow
def test_the_tag_of_a_run_is_one_word(tmp_path):
    out = tmp_path / "run.trec"
    berds("retrieve", "-q", "sample", "--limit", "1", "-r", "bm25+cover: 0.5", "-k", "2", "-o", out)
    assert {line.split()[5] for line in out.read_text().splitlines()} == {"bm25+cover--0.5"}


def test_what_the_aspect_judge_says_goes_to_the_store_that_is_named(tmp_path, user_cache):
    store, run = tmp_path / "own.sqlite", tmp_path / "run.trec"
    command = ("retrieve", "-q", "sample", "--limit", "1", "-r", "bm25+coverage:0.5", "--aspect-judge", "overlap")
    berds(*command, "-k", "3", "--store", store, "-o", run)
    assert len(VerdictStore(store)) > 0 and not (user_cache / "verdicts.sqlite").exists()


ONE = ("experiment", "-q", "sample", "--limit", "1", "-r", "bm25")


@pytest.mark.parametrize("judge", [(), ("-j", "gold"), ("-j", "random")])
def test_a_title_position_for_a_judge_that_reads_no_titles_is_refused(judge):
    refused = tried(*ONE, *judge, "--title-position", "after")
    name = judge[-1] if judge else "gold"
    assert (refused.exit_code, refused.stderr) == (1, f"berds: the judge {name!r} does not read titles\n")


def test_an_experiment_judges_with_the_title_where_it_is_told_to():
    said = {
        berds(*ONE, "-j", "overlap", *place).stderr
        for place in ((), ("--title-position", "after"), ("--title-position", "none"))
    }
    assert len(said) == 3


TWO = ("experiment", "-q", "sample", "--limit", "3", "-r", "bm25,rank-bm25", "-m", "MRecall@5,Precision@5")


def test_an_experiment_prints_letters_or_pairs_where_it_is_asked_to():
    shown = berds(*TWO, "--letters").stdout
    assert "share a letter" in shown and "] a" in shown
    pairs = json.loads(berds(*TWO, "--pairs", "--json").stdout)
    assert [(row["first"], row["second"], row["measure"]) for row in pairs] == [
        ("bm25", "rank-bm25", "MRecall@5"), ("bm25", "rank-bm25", "Precision@5")
    ]  # fmt: skip
    assert all(row["wins"] + row["ties"] + row["losses"] == 3 for row in pairs)
    assert "detectable" in berds(*TWO, "--pairs").stdout


@pytest.mark.parametrize("other", ["--pairs", "--long", "--json"])
def test_letters_are_for_the_table(other):
    refused = tried(*TWO, "--letters", other)
    assert refused.exit_code == 2 and "--letters are in the table" in refused.stderr


@pytest.mark.parametrize("option", ["--letters", "--pairs"])
def test_one_system_cannot_be_compared(option):
    refused = tried(*ONE, option)
    assert refused.exit_code == 2 and "give at least two" in refused.stderr


def test_what_verdicts_leave_out_and_single_perspectives_are_said(files, tmp_path, caplog):
    questions, _ = files
    questions.write_text('{"_id": "q", "question": "Are cats kind?", "perspectives": ["Cats are kind."]}\n')
    run, verdicts = tmp_path / "run.trec", tmp_path / "v.tsv"
    run.write_text("q Q0 a 1 2 x\nq Q0 c 2 1 x\n")
    verdicts.write_text("qid\tpid\tdocno\tsupports\nq\t0\ta\t1\n")
    said = berds(
        "evaluate", "-q", questions, "--run", run, "--verdicts", verdicts, "-m", "MRecall@1,Precision@2"
    ).stderr
    left_out = f"without a verdict of {verdicts}, which count as no: 1 of the 2 in the top 2 (Precision@2)"
    single = "1 of 1 questions have a single perspective, where MRecall amounts to a hit rate"
    assert caplog.text.count(left_out) == said.count(single) == 1
    corpus = tmp_path / "c.jsonl"
    corpus.write_text('{"_id": "a", "text": "Cats are kind."}\n')
    command = ("experiment", "-q", questions, "-c", corpus, "-r", "bm25", "-j", "overlap")
    shown, rows = berds(*command), berds(*command, "--json")
    assert single in shown.stdout and single not in shown.stderr and single in rows.stderr
