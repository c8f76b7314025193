"""The shared task PerspectiveArg from the shell: search, score, compare and check a release's scenarios."""

import json

import pandas as pd
import pytest
from shell import berds, tried
from tiny_release import SECRET, jsonl, perspective_queries, predicted, release_files, write_files

from berdslib.data.arguments import read_release
from berdslib.data.scenario import open_scenario, read_predictions
from berdslib.errors import InputError
from berdslib.study import front

DEV = "perspective-queries/queries_dev.jsonl"


@pytest.fixture
def release(tmp_path):
    return write_files(tmp_path / "release", release_files())


@pytest.fixture
def asked(release):
    return ("-q", f"{release}:explicit", "--split", "dev")


@pytest.fixture
def files(release):
    """Two predictions files: "good" starts with the ten arguments on the issue of dev, "poor" seven earlier."""
    good, poor = release.parent / "good.jsonl", release.parent / "poor.jsonl"
    good.write_text(jsonl(*predicted("dev", first=10)))
    poor.write_text(jsonl(*predicted("dev", first=3)))
    return good, poor


def problem(result, code=1):
    assert result.exit_code == code and "Traceback" not in result.output
    return result.stderr


@pytest.mark.parametrize("rule", ["baseline", "implicit", "explicit"])
def test_retrieve_writes_a_predictions_file_for_each_system(release, tmp_path, rule):
    out = tmp_path / "p" / "{system}.jsonl"
    done = berds("retrieve", "-q", f"{release}:{rule}", "-r", "bm25,rank-bm25", "-k", "20", "-o", out, "--json")
    told = json.loads(done.stdout)
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == ["bm25.jsonl", "rank-bm25.jsonl"]
    opened = open_scenario(read_release(release), rule, "dev")
    n = len(opened.questions)  # with which ten arguments share a word
    assert [(row["system"], row["answered"], row["short"]) for row in told] == [("bm25", n, n), ("rank-bm25", n, n)]
    found = read_predictions(tmp_path / "p" / "bm25.jsonl", opened, least=1)
    pd.testing.assert_frame_equal(found[["qid", "docno"]], front.search("bm25", opened, 20)[["qid", "docno"]])


def test_a_system_that_fails_costs_its_own_file_only(asked, tmp_path, monkeypatch):
    search = front.search
    monkeypatch.setattr(front, "search", lambda system, *a, **o: _out_of_order(system) or search(system, *a, **o))
    systems, out = "bm25,bm25+profile:template,rank-bm25", tmp_path / "p" / "{system}.jsonl"
    refused = tried("retrieve", *asked, "-r", systems, "-o", out)
    assert "berds: bm25+profile:template: is out of order\n" in problem(refused)
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == ["bm25.jsonl", "rank-bm25.jsonl"]


def _out_of_order(system):
    if system == "bm25+profile:template":
        raise InputError("is out of order")


def scores(result):
    table = pd.DataFrame(json.loads(result.stdout))
    return table.set_index(["system", "measure"])["mean"]


def test_scores_are_those_counted_by_hand(asked, files):
    done = berds("evaluate", *asked, *files, "--json")
    means = scores(done)
    # Of arguments 10 to 13, two are by the left, two by the right, three by the young; of 10 to 17 four, four and six.
    of = {name: [means[name, f"P@{k}"] for k in (4, 8, 16, 20)] for name in ("good", "poor")}
    assert of["good"] == pytest.approx([7 / 12, 14 / 24, 16 / 48, 16 / 60])
    assert of["poor"] == pytest.approx([0, 2 / 24, 15 / 48, 16 / 60])
    assert means["poor", "nDCG@4"] == 0 < means["good", "nDCG@4"] < 1
    assert means.filter(like="rKL").between(0, 1).all() and means["good", "alpha_nDCG@4"] > 0
    assert "3 queries (dev), 30 arguments" in done.stderr and len(means) == 2 * 16
    per_query = json.loads(berds("evaluate", *asked, files[0], "-m", "P@2", "--per-question", "--json").stdout)
    assert [row["P@2"] for row in per_query] == [0.5, 0.5, 1.0]


def test_a_file_that_cannot_be_used_costs_its_own_scores_only(asked, files, tmp_path):
    good, poor = files
    bad = tmp_path / "bad.jsonl"
    bad.write_text(jsonl(*predicted("dev")[:2]))
    for order in ((bad, good, poor), (good, poor, bad)):
        refused = tried("evaluate", *asked, *order, "--json")
        assert "bad.jsonl [query_id]: answers 2 of 3 queries" in problem(refused)
        assert set(scores(refused).index.levels[0]) == {"good", "poor"}
    alone = tried("evaluate", *asked, bad)
    assert problem(alone) and alone.stdout == ""
    compared = tried("experiment", *asked, "--run", bad, "--run", good, "--run", poor, "-m", "nDCG@20", "--json")
    assert problem(compared) and {row["system"] for row in json.loads(compared.stdout)} == {"good", "poor"}
    least = berds("evaluate", *asked, bad, good, "--least", "0", "--json")
    assert set(scores(least).index.levels[0]) == {"bad", "good"}
    twice = predicted("dev")
    twice[0]["relevant_candidates"][1] = twice[0]["relevant_candidates"][0]
    bad.write_text(jsonl(*twice))
    assert "bad.jsonl:1 [relevant_candidates]" in problem(tried("evaluate", *asked, bad, "--least", "0"))
    assert berds("evaluate", *asked, bad, "--least", "0", "--repeats", "once").stdout


def test_a4_flags_take_no_value(asked, files):
    """The published script reads "--implicit False" as true; a flag here is there or not, and refuses a value."""
    for value in ("--per-question=False", "--per-question=True"):
        assert "does not take a value" in problem(tried("evaluate", *asked, files[0], value), 2)
    # As a word of its own it is one more run, which is not there.
    assert "False: no such file" in problem(tried("evaluate", *asked, files[0], "--per-question", "False"))


def test_the_first_problem_of_each_file_is_said(release, files, tmp_path):
    short, broken = tmp_path / "short.jsonl", tmp_path / "broken.jsonl"
    short.write_text(jsonl(*predicted("dev", n=19)))
    broken.write_text("{")
    command = ("data", "validate", f"{release}:explicit", short, files[0], broken)
    refused = tried(*command)
    first, second = problem(refused).splitlines()
    assert "short.jsonl:1 [relevant_candidates]: lists 19" in first and "broken.jsonl:1: not valid JSON" in second
    assert f"{files[0]}: good; 3 of 3 queries answered" in refused.stdout
    told = json.loads(tried(*command, "--json").stdout)["predictions"]
    assert [bool(one["problem"]) for one in told] == [True, False, True]
    berds("data", "validate", f"{release}:explicit", short, "--least", "19")
    assert "for a scenario; name it" in problem(tried("data", "validate", release, short), 2)
    (release / DEV).write_text("[]")
    (release / DEV.replace("dev", "test")).write_text("{")
    first, second, third = problem(tried("data", "validate", f"{release}:explicit", files[0])).splitlines()
    assert "queries_dev.jsonl: holds no queries" in first and "queries_test.jsonl:1: not valid JSON" in second
    assert third == "berds: predictions can be checked once the release is good"


def test_answers_that_contradict_the_query_are_a_warning_without_a_profile(tmp_path):
    wrong = [q | {"relevant_candidates": [2019010, 2019011]} for q in perspective_queries("dev")]
    contents = release_files() | {DEV: jsonl(*wrong)}
    done = berds("data", "validate", write_files(tmp_path / "author", contents))
    # A right one of the left, and so on.
    assert "berds: warning: 2 of " in done.stderr and "in 2 queries" in done.stderr and SECRET not in done.output
    reader = contents | {"release.json": '{"ranked_for": "reader"}'}
    assert "warning" not in berds("data", "validate", write_files(tmp_path / "reader", reader)).output


def test_synthetic_data_say_so_everywhere_and_nothing_holds_a_profile(tmp_path, files):
    made_up = {"release.json": '{"synthetic": true}'}
    folder, out = write_files(tmp_path / "made up", release_files() | made_up), tmp_path / "out"
    asked = ("-q", f"{folder}:explicit", "--split", "dev")
    searched = berds("retrieve", *asked, "-r", "bm25", "-o", out / "p.jsonl", "--json")
    assert "SYNTHETIC" in searched.stderr and json.loads(searched.stdout)["synthetic"]
    scored = berds("evaluate", *asked, *files)
    assert "SYNTHETIC" in scored.stderr and "synthetic" in scored.stdout
    assert all(row["synthetic"] for row in json.loads(berds("evaluate", *asked, *files, "--json").stdout))
    compared = berds("experiment", *asked, "-r", "bm25", "-m", "nDCG@20", "-o", out / "table")
    assert "(synthetic)" in compared.stdout and "(synthetic)" in (out / "table" / "scores.csv").read_text()
    for place in (folder, "perspectivearg-sample"):
        assert "SYNTHETIC" in berds("data", "validate", place).stdout
    texts = [
        searched.output,
        scored.output,
        compared.output,
        *(path.read_text() for path in out.rglob("*") if path.is_file()),
    ]
    assert len(texts) == 11 and all(texts) and SECRET not in "".join(texts)
