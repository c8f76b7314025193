"""What the options name: several sets of questions with their corpora, and runs by their names."""

import pytest

from berdslib.cli.inputs import named_files, read_collection, read_collections
from berdslib.data.datasets import load_passages
from berdslib.errors import InputError


@pytest.fixture(autouse=True)
def _own_cache(user_cache):
    pass


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
