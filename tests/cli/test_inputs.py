"""What the options name: a BEIR folder stands for questions, corpus and gold verdicts; a file of verdicts for gold."""

import json

import pytest
from shell import berds, tried

from berdslib.cli.inputs import read_gold, read_systems
from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.formats import write_beir
from berdslib.errors import InputError


@pytest.fixture(autouse=True)
def _own_cache(user_cache):
    pass


@pytest.fixture
def beir(tmp_path):
    folder = tmp_path / "beir"
    write_beir(folder, load_questions("sample", "dev"), load_passages("sample"), load_gold("sample"), "test")
    return folder


def test_a_beir_folder_is_questions_corpus_and_gold(beir, tmp_path):
    run = tmp_path / "run.trec"
    done = json.loads(berds("retrieve", "-q", beir, "-k", "5", "-o", run, "--json").stdout)
    assert (done["questions"], done["corpus_size"]) == (8, len(load_passages("sample")))
    assert "pairs by gold(" in berds("judge", "-q", beir, "--run", run, "-o", tmp_path / "v.tsv").stderr
    scored = json.loads(berds("evaluate", "-q", beir, "--run", run, "-m", "Precision@5", "--json").stdout)
    whole = json.loads(berds("experiment", "-q", beir, "-r", "bm25", "-m", "Precision@5", "--json").stdout)
    assert scored[0]["mean"] == whole[0]["mean"] > 0


def test_gold_may_be_a_file_of_verdicts(tmp_path):
    path = tmp_path / "v.tsv"
    path.write_text("qid\tpid\tdocno\tp_yes\nq\t0\td\t1\n")
    assert read_gold(str(path), "nothing").loc[0, "docno"] == "d"


def test_a_set_of_questions_without_gold_says_what_has_some(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text('{"_id": "q", "question": "Why?", "perspectives": ["So."]}\n')
    with pytest.raises(InputError, match=r"q\.jsonl:1 \[qid\]: no gold verdicts.*available for: sample.* give another"):
        read_gold(str(path), "give another")
    with pytest.raises(InputError, match=r"'arguana' has no gold verdicts \(available for: .*sample.*\); give another"):
        read_gold("arguana", "give another")


@pytest.mark.parametrize(
    ("chain", "expands"),
    [
        ("bm25", False),
        ("bm25+mmr:0.5", False),
        ("bm25+mmr:0.5+cover:0.5", False),
        ("bm25+expand:rule", True),
        ("bm25+coverage:0.5", True),
        ("bm25+mmr:0.5+xquad:0.5", True),
    ],
)
def test_expansions_are_loaded_only_for_chains_that_use_them(chain, expands, monkeypatch):
    """Of a data set of BeRDS they may have to be downloaded first."""
    asked = []

    def looked_up(*arguments, **options):
        asked.append(arguments)
        return {"rule": {}}

    monkeypatch.setattr("berdslib.study.named_systems.known_expansions", looked_up)
    monkeypatch.setattr("berdslib.study.named_systems.named_systems", lambda names, *_, **__: dict.fromkeys(names))
    read_systems([chain], None, "sample", "dev", load_questions("sample", "dev"), "overlap", 100, None)
    assert bool(asked) == expands


@pytest.mark.parametrize("names", [",", " , ", ""])
def test_no_names_are_refused(names):
    for command in (["data", "stats", "-q", names], ["experiment", "-q", "sample", "-r", names]):
        refused = tried(*command)
        assert (refused.exit_code, "names nothing" in refused.stderr) == (1, True)


def test_a_file_of_questions_still_has_no_corpus(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text('{"_id": "1", "text": "Are cats kind?"}\n')
    result = tried("retrieve", "-q", path, "-o", tmp_path / "r.trec")
    assert result.exit_code == 1 and "--corpus is required" in result.stderr
