"""`berds argue`: the shared task from the shell."""

import json

import pandas as pd
import pytest
from shell import berds, tried
from tiny_release import (
    SECRET,
    argument,
    jsonl,
    perspective_queries,
    predicted,
    release_files,
    write_files,
)

from berdslib.data.arguments import read_release
from berdslib.data.predictions import read_predictions
from berdslib.data.scenario import open_scenario
from berdslib.errors import InputError
from berdslib.retrieval.bm25 import BM25
from berdslib.study import front, scoring
from berdslib.study.tables import track

DEV = "perspective-queries/queries_dev.jsonl"
SYNTHETIC = {"release.json": '{"synthetic": true}'}


@pytest.fixture(autouse=True)
def _own_cache(user_cache):
    pass


@pytest.fixture
def release(tmp_path):
    return write_files(tmp_path / "release", release_files())


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


# ---------------------------------------------------------------- run


@pytest.mark.parametrize("scenario", ["baseline", "implicit", "explicit"])
def test_a_run_is_a_predictions_file_for_each_system(release, tmp_path, scenario):
    done = berds(
        "argue", "run", release, "-s", scenario, "-r", "bm25,rank-bm25", "-k", "20", "-o", tmp_path / "p", "--json"
    )
    summary = json.loads(done.stdout)
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == ["bm25.jsonl", "rank-bm25.jsonl"]
    assert [row["system"] for row in summary["systems"]] == ["bm25", "rank-bm25"]
    assert summary["data"]["scenario"] == scenario and not summary["data"]["synthetic"]
    opened = open_scenario(read_release(release), scenario, "dev")
    n = len(opened.questions)  # with which ten arguments share a word
    assert [(row["answered"], row["short"]) for row in summary["systems"]] == [(n, n)] * 2
    found = read_predictions(tmp_path / "p" / "bm25.jsonl", opened, least=1)
    pd.testing.assert_frame_equal(found[["qid", "docno"]], front.search("bm25", opened, 20)[["qid", "docno"]])


def test_a_system_that_fails_costs_its_own_file_only(release, tmp_path, monkeypatch):
    search = scoring.search

    def sometimes(system, *rest):
        if system.name == "bm25+profile:template":
            raise InputError("is out of order")
        return search(system, *rest)

    monkeypatch.setattr(scoring, "search", sometimes)
    systems = "bm25,bm25+profile:template,rank-bm25"
    refused = tried("argue", "run", release, "-s", "explicit", "-r", systems, "-o", tmp_path / "p")
    assert "berds: bm25+profile:template: is out of order\n" in problem(refused)
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == ["bm25.jsonl", "rank-bm25.jsonl"]


def test_a_system_that_cannot_be_built_costs_its_own_file_only(release, tmp_path):
    systems = "bm25,bm25+profile:filter,rank-bm25"
    refused = tried("argue", "run", release, "-s", "implicit", "-r", systems, "-o", tmp_path / "p")
    (line,) = [line for line in problem(refused).splitlines() if line.startswith("berds: ")]
    assert line.startswith("berds: bm25+profile:filter: ") and "which the implicit scenario hides" in line
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == ["bm25.jsonl", "rank-bm25.jsonl"]


def test_what_systems_share_is_built_once(release, tmp_path, monkeypatch):
    indexed, index = [], BM25.__init__
    monkeypatch.setattr(BM25, "__init__", lambda self, *a, **o: indexed.append(1) or index(self, *a, **o))
    systems = "bm25,bm25+profile:filter"
    berds("argue", "run", release, "-s", "explicit", "-r", systems, "-o", tmp_path / "p")
    assert len(list((tmp_path / "p").iterdir())) == 2 and len(indexed) == 1


def test_a_system_that_does_not_exist_is_said_before_anything_is_read(tmp_path):
    refused = tried("argue", "run", tmp_path / "nothing", "-s", "explicit", "-r", "bm25,bm26", "-o", tmp_path / "p")
    assert "bm26" in problem(refused) and "no such file" not in refused.stderr


def test_what_systems_may_learn_from_can_be_another_release(release, tmp_path, monkeypatch):
    other = {name: text for name, text in release_files().items() if "train" not in name}
    alone = write_files(tmp_path / "alone", other)
    seen = {}

    def search(system, scenario, k):
        seen[scenario.name] = scenario.training and scenario.training.name
        return pd.DataFrame({"qid": [], "docno": [], "score": []})

    monkeypatch.setattr(scoring, "search", search)
    berds("argue", "run", alone, "-s", "explicit", "-r", "bm25", "-o", tmp_path / "p")
    assert seen == {"alone:explicit": None}
    berds("argue", "run", alone, "-s", "explicit", "-r", "bm25", "--train", release, "-o", tmp_path / "p")
    assert seen == {"alone:explicit": "release:explicit"}


# ---------------------------------------------------------------- evaluate


def test_scores_are_those_counted_by_hand(release, files):
    done = json.loads(berds("argue", "evaluate", release, *files, "-s", "explicit", "--json").stdout)
    assert done["data"] | {"berdslib": ""} == {
        "release": "release", "synthetic": False, "scenario": "explicit", "split": "dev", "ranked_for": "author",
        "n": 3, "definitions": "papers", "berdslib": "",
    }  # fmt: skip
    means = pd.DataFrame(done["means"]).set_index(["system", "k"])
    assert list(means.index) == [(name, k) for name in ("good", "poor") for k in (4, 8, 16, 20)]
    # Of arguments 10 to 13, two are by the left, two by the right, three by the young; of 10 to 17 four, four and six.
    assert means["P"]["good"].tolist() == pytest.approx([7 / 12, 14 / 24, 16 / 48, 16 / 60])
    assert means["P"]["poor"].tolist() == pytest.approx([0, 2 / 24, 15 / 48, 16 / 60])
    assert means["nDCG"]["poor"][4] == 0 < means["nDCG"]["good"][4] < 1
    assert ((means["rKL"] >= 0) & (means["rKL"] <= 1)).all() and (means["alpha_nDCG"]["good"] > 0).all()


def test_the_table_has_a_row_for_each_cutoff(release, files):
    shown = berds("argue", "evaluate", release, files[0], "-s", "explicit").stdout.splitlines()
    assert "3 queries (dev), 30 arguments" in shown[0] and "definitions: papers" in shown[0]
    assert shown[1].split() == ["system", "k", "nDCG", "P", "alpha_nDCG", "rKL"]
    assert [line.split()[:2] for line in shown[2:]] == [["good", str(k)] for k in (4, 8, 16, 20)]
    assert shown[2].split()[3] == "0.583"


def test_results_are_written_in_the_shape_of_the_task(release, files, tmp_path):
    berds("argue", "evaluate", release, *files, "-s", "explicit", "-o", tmp_path / "out")
    relevance, diversity = (pd.read_csv(tmp_path / "out" / f"{name}.csv") for name in ("relevance", "diversity"))
    assert list(relevance.columns) == ["system", "k", "nDCG", "P", "synthetic"] and len(relevance) == 8
    assert list(diversity.columns) == ["system", "k", "alpha_nDCG", "rKL", "synthetic"] and len(diversity) == 8
    whole = json.loads((tmp_path / "out" / "results.json").read_text())
    assert whole["settings"]["split"] == "dev"
    pd.testing.assert_frame_equal(pd.DataFrame(whole["relevance"]), relevance)


def test_measures_can_be_named(release, files):
    command = ("argue", "evaluate", release, files[0], "-s", "explicit", "-m", "P@2,rKL(step=4)@8", "--json")
    means = json.loads(berds(*command).stdout)["means"]
    assert [(row["k"], row["P"]) for row in means] == [(2, pytest.approx(2 / 3)), (8, None)]
    assert means[0]["rKL(step=4)"] is None and 0 < means[1]["rKL(step=4)"] < 1


def test_a_file_that_cannot_be_used_costs_its_own_scores_only(release, files, tmp_path):
    good, poor = files
    bad = tmp_path / "bad.jsonl"
    bad.write_text(jsonl(*predicted("dev")[:2]))
    for order in ((bad, good, poor), (good, bad, poor), (good, poor, bad)):
        refused = tried("argue", "evaluate", release, *order, "-s", "explicit", "-o", tmp_path / "out")
        assert "bad.jsonl [query_id]: answers 2 of 3 queries" in problem(refused)
        assert refused.stdout.count("good") == refused.stdout.count("poor") == 4
        assert set(pd.read_csv(tmp_path / "out" / "relevance.csv")["system"]) == {"good", "poor"}
    alone = tried("argue", "evaluate", release, bad, "-s", "explicit")
    assert problem(alone) and alone.stdout == ""


def test_a4_flags_take_no_value(release, files):
    """The published script reads "--implicit False" as true; a flag here is there or not, and refuses a value."""
    command = ("argue", "evaluate", release, files[0], "-s", "explicit", "--json")
    off = json.loads(berds(*command).stdout)
    on = json.loads(berds(*command, "--official").stdout)
    assert (off["data"]["definitions"], on["data"]["definitions"]) == ("papers", "published script")
    assert "official_P" in on["means"][0] and "P" in off["means"][0]
    for value in ("--official=False", "--official=True"):
        assert "does not take a value" in problem(tried(*command, value), 2)
    # As a word of its own it is one more predictions file, which is not there.
    assert "False: no such file" in problem(tried(*command, "--official", "False"))


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_official_names_its_own_measures(release, files, command):
    refused = tried("argue", command, release, files[0], "-s", "explicit", "--official", "-m", "P@4")
    assert "--official names its own measures" in problem(refused, 2)


def test_the_help_says_that_the_owners_names_of_columns_are_not_known():
    assert "have not put the exact names of their columns on record" in " ".join(
        berds("argue", "evaluate", "--help").stdout.split()
    )


def test_where_answers_are_kept_back_nothing_is_scored(tmp_path):
    held = [{k: v for k, v in q.items() if k != "relevant_candidates"} for q in perspective_queries("dev")]
    folder = write_files(tmp_path / "release", release_files() | {DEV: jsonl(*held)})
    path = tmp_path / "p.jsonl"
    path.write_text(jsonl(*predicted("dev")))
    assert "kept back" in problem(tried("argue", "evaluate", folder, path, "-s", "explicit"))
    assert "3 of 3 queries answered" in berds("argue", "validate", folder, path, "-s", "explicit").stdout


# ---------------------------------------------------------------- compare


def test_systems_are_ranked_by_relevance_and_by_diversity(release, files, tmp_path):
    command = ("argue", "compare", release, *reversed(files), "-s", "explicit")
    told = json.loads(berds(*command, "--json").stdout)
    rows, about = told["leaderboard"], told["data"]
    kept = {"release": "release", "scenario": "explicit", "split": "dev", "definitions": "papers"}
    assert about | kept == about and not about["synthetic"]
    assert [(row["place"], row["system"], row["measure"]) for row in rows] == [
        (place, name, measure) for measure in ("nDCG@20", "alpha_nDCG@20") for place, name in ((1, "good"), (2, "poor"))
    ]
    assert rows[0]["p_value"] is None and [row["low"] for row in rows] == [None] * 4  # one issue tells nothing
    assert rows[1]["p_value"] == 1 and rows[1]["issues"] == 1
    shown = berds(*command, "-o", tmp_path / "out").stdout
    assert "Relevance, by nDCG@20" in shown and "Diversity, by alpha_nDCG@20" in shown and ", 1 issue;" in shown
    written = pd.read_csv(tmp_path / "out" / "leaderboard.csv")
    assert written["mean"].tolist() == pytest.approx([row["mean"] for row in rows], rel=1e-14)
    assert written[list(kept)].drop_duplicates().to_dict("records") == [kept]


def test_a_leaderboard_by_the_published_definitions_or_by_measures_that_are_named(release, files):
    command = ("argue", "compare", release, *files, "-s", "explicit", "--json")
    published = json.loads(berds(*command, "--official").stdout)
    official = {row["measure"] for row in published["leaderboard"]}
    assert published["data"]["definitions"] == "published script"
    assert {track(name) for name in official} == {"relevance", "diversity"}
    assert all(name.startswith("official_") and name.endswith("@20") for name in official) and len(official) == 2
    named = [row["measure"] for row in json.loads(berds(*command, "-m", "rKL@4").stdout)["leaderboard"]]
    assert named == ["rKL@4"] * 2


def test_files_of_one_name_are_told_apart_by_their_path(release, files, tmp_path):
    (tmp_path / "b").mkdir()
    twin = tmp_path / "b" / "good.jsonl"
    twin.write_text(files[1].read_text())
    rows = json.loads(berds("argue", "compare", release, *files, twin, "-s", "explicit", "--json").stdout)[
        "leaderboard"
    ]
    assert {row["system"] for row in rows} == {"poor", str(files[0]), str(twin)}


def test_a_file_that_is_named_twice_is_refused(release, files):
    refused = tried("argue", "compare", release, files[0], files[0], "-s", "explicit")
    assert f"{files[0]}: is named twice" in problem(refused)


# ---------------------------------------------------------------- validate


def test_what_a_release_holds_is_said_in_counts(tmp_path):
    rows = [argument(i) for i in range(30)]
    for row in rows[:3]:
        row["demographic_profile"]["age"] = None
    folder = write_files(tmp_path / "release", release_files() | {"corpus.jsonl": jsonl(*rows)})
    shown = berds("argue", "validate", folder)
    assert "30 arguments, 3 baseline and 9 perspective queries" in shown.stdout
    assert ["age", "3"] in [line.split() for line in shown.stdout.splitlines()]
    assert "unknown for" in shown.stdout
    assert ["denomination", "30"] in [line.split() for line in shown.stdout.splitlines()]
    assert ["perspective", "dev", "3", "3"] in [line.split() for line in shown.stdout.splitlines()]
    summary = berds("argue", "validate", folder, "--json").stdout
    assert json.loads(summary)["unknown"]["age"] == 3 and json.loads(summary)["issues"] == 3
    assert SECRET not in shown.output + summary and "warning" not in shown.output


def test_the_first_problem_of_each_file_is_said(release, files, tmp_path):
    short, broken = tmp_path / "short.jsonl", tmp_path / "broken.jsonl"
    short.write_text(jsonl(*predicted("dev", n=19)))
    broken.write_text("{")
    command = ("argue", "validate", release, short, files[0], broken, "-s", "explicit")
    refused = tried(*command)
    first, second = problem(refused).splitlines()
    assert "short.jsonl:1 [relevant_candidates]: lists 19" in first and "broken.jsonl:1: not valid JSON" in second
    assert f"{files[0]}: good; 3 of 3 queries answered" in refused.stdout
    told = json.loads(tried(*command, "--json").stdout)["predictions"]
    assert [bool(one["problem"]) for one in told] == [True, False, True]
    assert tried("argue", "validate", release, short, "-s", "explicit", "--least", "19").exit_code == 0


def test_of_a_release_too_the_first_problem_of_each_file_is_said(release, files):
    (release / DEV).write_text("[]")
    (release / DEV.replace("dev", "test")).write_text("{")
    refused = tried("argue", "validate", release, files[0], "-s", "explicit")
    first, second, third = problem(refused).splitlines()
    assert "queries_dev.jsonl: holds no queries" in first and "queries_test.jsonl:1: not valid JSON" in second
    assert third == "berds: predictions can be checked once the release is good"
    assert "3 baseline and 3 perspective queries" in refused.stdout and "good.jsonl" not in refused.stdout
    assert len(json.loads(tried("argue", "validate", release, "--json").stdout)["problems"]) == 2
    (release / "corpus.jsonl").write_text("")
    assert "holds no arguments" in problem(tried("argue", "validate", release))


def test_a_release_without_one_good_file_of_queries_is_described_too(release):
    for path in release.glob("*/*.jsonl"):
        path.write_text("")
    refused = tried("argue", "validate", release)
    assert problem(refused).count("holds no queries\n") == 6 and "0 perspective queries" in refused.stdout


def test_predictions_are_checked_for_a_scenario(release, files):
    assert "name it with -s" in problem(tried("argue", "validate", release, files[0]), 2)


def test_answers_that_contradict_the_query_are_a_warning_without_a_profile(tmp_path):
    wrong = [q | {"relevant_candidates": [2019010, 2019011]} for q in perspective_queries("dev")]
    contents = release_files() | {DEV: jsonl(*wrong)}
    done = berds("argue", "validate", write_files(tmp_path / "author", contents))
    assert (
        "berds: warning: 2 of " in done.stderr and "in 2 queries" in done.stderr
    )  # a right one of the left, and so on
    assert SECRET not in done.output
    reader = contents | {"release.json": '{"ranked_for": "reader"}'}
    assert "warning" not in berds("argue", "validate", write_files(tmp_path / "reader", reader)).output


# ---------------------------------------------------------------- make, and what is not real


def test_a_synthetic_release_is_made_searched_and_scored(tmp_path):
    small = ("--arguments", "600", "--issues", "12")
    made, twin, other = (tmp_path / name for name in ("made", "twin", "other"))
    assert "SYNTHETIC" in berds("argue", "make", made, *small).stderr
    told = json.loads(berds("argue", "make", other, *small, "--seed", "7", "--json").stdout)
    assert (told["arguments"], told["issues"], told["synthetic"], told["output"]) == (600, 12, True, str(other))
    berds("argue", "make", twin, *small, "--seed", "0")
    corpora = [(folder / "corpus.jsonl").read_bytes() for folder in (made, twin, other)]
    assert corpora[0] == corpora[1] != corpora[2]
    berds("argue", "run", made, "-s", "explicit", "-r", "bm25", "-k", "50", "-o", tmp_path)
    (first, *_) = json.loads(
        berds("argue", "evaluate", made, tmp_path / "bm25.jsonl", "-s", "explicit", "--least", "0", "--json").stdout
    )["means"]
    assert first["k"] == 4 and 0 < first["nDCG"] < 1 and 0 < first["rKL"] < 1
    assert "warning" not in berds("argue", "validate", made).output


def test_the_size_of_a_release_is_by_default_that_of_the_task():
    said = berds("argue", "make", "--help").stdout
    assert "[default: 26000" in said and "[default: 300" in said


@pytest.mark.slow
def test_a_release_goes_by_the_name_of_a_data_set_too(tmp_path):
    name = "perspectivearg-sample"
    berds("argue", "run", name, "-s", "implicit", "-r", "bm25", "-o", tmp_path)
    shown = berds("argue", "compare", name, tmp_path / "bm25.jsonl", "-s", "implicit", "--least", "0").stdout
    assert "SYNTHETIC" in shown and f"Release {name!r} (SYNTHETIC)" in berds("argue", "validate", name).stdout


def test_synthetic_data_say_so_in_every_table_and_file(tmp_path, files):
    folder = write_files(tmp_path / "made up", release_files() | SYNTHETIC)
    common, out = ("-s", "explicit"), ("-o", tmp_path / "out")
    assert "SYNTHETIC" in berds("argue", "run", folder, *common, "-r", "bm25", "-o", tmp_path / "p").stderr
    assert "SYNTHETIC" in berds("argue", "evaluate", folder, *files, *common, *out).stdout
    assert "SYNTHETIC" in berds("argue", "compare", folder, *files, *common, *out).stdout
    assert "SYNTHETIC" in berds("argue", "validate", folder).stdout
    for name in ("relevance", "diversity", "leaderboard"):
        assert pd.read_csv(tmp_path / "out" / f"{name}.csv")["synthetic"].all()
    assert json.loads((tmp_path / "out" / "results.json").read_text())["settings"]["synthetic"]
    for command in ("evaluate", "compare"):
        assert '"synthetic":true' in berds("argue", command, folder, *files, *common, "--json").stdout.replace(" ", "")


OF_ARGUE = [("argue", name) for name in ("make", "run", "evaluate", "compare", "validate")]


@pytest.mark.parametrize("command", [*OF_ARGUE, ("evaluate",), ("experiment",)])
def test_every_command_has_examples_in_its_help_one_a_line(command):
    lines = [line.strip() for line in berds(*command, "--help").stdout.splitlines()]
    examples = [line for line in lines if line.startswith(f"berds {' '.join(command)} ")]
    assert examples and all(line.count("berds ") == 1 for line in examples)


def test_nothing_that_is_printed_or_written_holds_a_profile(release, files, tmp_path):
    common = ("-s", "explicit", "-o", tmp_path / "out")
    said = [berds("argue", "run", release, *common, "-r", "bm25").output]
    said += [berds("argue", command, release, *files, *common).output for command in ("evaluate", "compare")]
    said += [path.read_text() for path in (tmp_path / "out").iterdir()]
    assert len(said) == 8 and all(said) and SECRET not in "".join(said)
