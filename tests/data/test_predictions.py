"""Predictions files: what is written is what was found, in the ids of the release, and is read back as it was."""

import gzip
import json

import pandas as pd
import pytest
from tiny_release import SECRET, jsonl, predicted, release_files, write_files

from berdslib.data.arguments import read_release
from berdslib.data.records import ranked_run
from berdslib.data.scenario import open_scenario, read_predictions, write_predictions
from berdslib.errors import InputError
from berdslib.evaluation.arguments import evaluate_arguments


@pytest.fixture
def release(tmp_path):
    return read_release(write_files(tmp_path / "release", release_files()))


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def found(scenario, n=20):
    """A run in the scenario's docnos: the corpus as the release has it, from another argument on for each query."""
    ids = [one.docno for one in scenario.release.arguments]
    lists = {q.qid: (ids[at:] + ids[:at])[:n] for at, q in enumerate(scenario.questions)}
    return ranked_run({qid: [scenario.docnos[one] for one in own] for qid, own in lists.items()})


@pytest.mark.parametrize("rule", ["baseline", "explicit", "implicit"])
@pytest.mark.parametrize("name", ["p.jsonl", "p.jsonl.gz"])
def test_a_run_is_read_back_as_it_was(release, tmp_path, rule, name):
    scenario = open_scenario(release, rule, "dev")
    run = found(scenario)
    write_predictions(tmp_path / name, run, scenario)
    pd.testing.assert_frame_equal(read_predictions(tmp_path / name, scenario), run)


def test_what_is_written_is_the_published_form(release, tmp_path):
    scenario = open_scenario(release, "implicit", "dev")  # where docnos are not the ids of the release
    write_predictions(tmp_path / "p.jsonl", found(scenario), scenario)
    want = [{"query_id": 110 + at, "relevant_candidates": [2019000 + at + i for i in range(20)]} for at in range(3)]
    assert (tmp_path / "p.jsonl").read_text() == jsonl(*want) and SECRET not in jsonl(*want)


def test_ids_that_are_text_in_the_release_are_text_in_its_predictions(tmp_path):
    files = release_files()
    files["corpus.jsonl"] = files["corpus.jsonl"].replace('"argument_id": 2019000,', '"argument_id": "2019000",')
    scenario = open_scenario(read_release(write_files(tmp_path / "release", files)), "explicit", "dev")
    write_predictions(tmp_path / "p.jsonl", found(scenario, 1), scenario)
    assert rows_of(tmp_path / "p.jsonl")[0] == {"query_id": 110, "relevant_candidates": ["2019000"]}


def test_a_run_that_found_nothing_is_read_back_where_that_is_allowed(release, tmp_path):
    scenario = open_scenario(release, "implicit", "dev")
    write_predictions(tmp_path / "p.jsonl", ranked_run({}), scenario)
    with pytest.raises(InputError, match="holds no predictions"):
        read_predictions(tmp_path / "p.jsonl", scenario, least=1)
    read = read_predictions(tmp_path / "p.jsonl", scenario, least=0)
    pd.testing.assert_frame_equal(read, ranked_run({}))
    scores = evaluate_arguments(read, scenario)
    assert scores.index.tolist() == ["110", "111", "112"] and (scores[["nDCG@20", "P@20"]] == 0).all(axis=None)


@pytest.mark.parametrize(
    ("lists", "problem"),
    [
        ({"120": ["2019000"]}, "[qid]: '120' is not a query of 'release:explicit' (dev)"),
        ({"110": ["2019000", "d1"]}, "[docno]: 'd1' is not an argument of 'release:explicit' (dev)"),
    ],
)
def test_a_run_of_something_else_is_not_written(release, tmp_path, lists, problem):
    with pytest.raises(InputError) as caught:
        write_predictions(tmp_path / "p.jsonl", ranked_run(lists), open_scenario(release, "explicit", "dev"))
    assert str(caught.value) == problem and not (tmp_path / "p.jsonl").exists()


def test_a9_a_repeat_is_an_error_or_counts_once(release, tmp_path):
    scenario = open_scenario(release, "explicit", "dev")
    first, *others = predicted("dev", n=21)
    first["relevant_candidates"].insert(4, 2019001)  # which is second already
    path = tmp_path / "p.jsonl"
    path.write_text(jsonl(first, *others))
    with pytest.raises(InputError, match=r"p.jsonl:1 \[relevant_candidates\]: '2019001' is listed twice"):
        read_predictions(path, scenario)
    run = read_predictions(path, scenario, repeats="once")
    assert run[run["qid"] == "110"]["docno"].tolist() == [str(2019000 + i) for i in range(21)]


def test_fewer_will_do_where_it_is_said_or_the_corpus_has_no_more(release, tmp_path):
    path, scenario = tmp_path / "p.jsonl", open_scenario(release, "explicit", "dev")
    path.write_text(jsonl(*predicted("dev", n=4)))
    assert len(read_predictions(path, scenario, least=4)) == 12
    path.write_text(jsonl(*predicted("dev", n=30)))
    assert len(read_predictions(path, scenario, least=100)) == 90


@pytest.mark.parametrize("options", [{"repeats": "twice"}, {"least": -1}, {"least": True}, {"least": 1.5}])
def test_what_cannot_be_asked_for_is_refused(release, tmp_path, options):
    (tmp_path / "p.jsonl").write_bytes(gzip.compress(jsonl(*predicted("dev")).encode()))
    with pytest.raises(InputError, match=r"repeats|least"):
        read_predictions(tmp_path / "p.jsonl", open_scenario(release, "explicit", "dev"), **options)
