"""What the options name: a BEIR folder stands for questions, corpus and gold verdicts; a file of verdicts for gold."""

import json

import pytest
from shell import berds

from berdslib.cli.inputs import named_files, read_collection, read_collections
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
