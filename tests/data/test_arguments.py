"""Releases of PerspectiveArg, their scenarios as collections, and predictions files: what is read, and what is not."""

import gzip
import json
from dataclasses import replace

import pandas as pd
import pytest
from synthetic_release import make_release, write_release
from tiny_release import (
    ISSUES,
    SECRET,
    argument,
    baseline_query,
    cut_gzip,
    jsonl,
    perspective_queries,
    predicted,
    release_files,
    write_files,
)

import berdslib as bd
from berdslib.data.arguments import in_words, read_release, summarise
from berdslib.data.records import ranked_run
from berdslib.data.scenario import (
    SCENARIOS,
    load_release,
    load_scenario,
    open_scenario,
    read_predictions,
    write_predictions,
)
from berdslib.errors import InputError

CORPUS, PREDICTIONS, MANIFEST = "corpus.jsonl", "predictions.jsonl", "release.json"
BASELINE_DEV, DEV = "baseline-queries/queries_dev.jsonl", "perspective-queries/queries_dev.jsonl"
FIRST, SECOND = jsonl(argument(0)), argument(1)
GOOD = {**release_files(), PREDICTIONS: jsonl(*predicted("dev"))}
PROFILE = SECOND["demographic_profile"]


def changed(row, fields):
    return {name: value for name, value in {**row, **fields}.items() if value is not None}


def corpus(**fields):
    """The corpus with other fields in line 2; a field of None is left out."""
    return {CORPUS: FIRST + jsonl(changed(SECOND, fields), *map(argument, range(2, 30)))}


def profile(**properties):
    return corpus(demographic_profile={**PROFILE, **properties})


def queries(**fields):
    first, second, third = perspective_queries("dev")
    return {DEV: jsonl(first, changed(second, fields), third)}


def answers(**fields):
    first, second, third = predicted("dev")
    return {PREDICTIONS: jsonl(first, changed(second, fields), third)}


# The files that replace good ones, and the file, line and field of the problem.
CASES = [
    ({CORPUS: None}, CORPUS, None, None),
    ({CORPUS: FIRST + jsonl(SECOND)[: jsonl(SECOND).index(SECRET) + 3]}, CORPUS, 2, None),  # cut off within a profile
    ({CORPUS: cut_gzip(GOOD[CORPUS])}, CORPUS, None, None),
    (corpus(argument_id=True), CORPUS, 2, "argument_id"),
    (corpus(argument_id="2019000"), CORPUS, 2, "argument_id"),
    (corpus(text=None), CORPUS, 2, "text"),
    (profile(shoe_size="38"), CORPUS, 2, "demographic_profile"),
    (profile(residence={"town": SECRET}), CORPUS, 2, "demographic_profile.residence"),
    (profile(political_issues=[SECRET, 3]), CORPUS, 2, "demographic_profile.political_issues"),
    ({name: None for name in GOOD if "queries" in name}, "", None, None),
    (
        {"baseline-queries/queries_val.jsonl": jsonl(baseline_query("dev"))},
        "baseline-queries/queries_val.jsonl",
        None,
        None,
    ),
    (
        {BASELINE_DEV: jsonl(baseline_query("dev") | {"demographic_property": PROFILE})},
        BASELINE_DEV,
        1,
        "demographic_property",
    ),
    (queries(relevant_candidates=[2019010, 7]), DEV, 2, "relevant_candidates"),
    ({MANIFEST: '{"rankedfor": "reader"}'}, MANIFEST, None, None),
    ({MANIFEST: '{"ranked_for": "nobody"}'}, MANIFEST, None, "ranked_for"),
    (answers(query_id=7), PREDICTIONS, 2, "query_id"),
    ({PREDICTIONS: jsonl(*predicted("dev")[1:])}, PREDICTIONS, None, "query_id"),
    (answers(relevant_candidates=[*range(2019000, 2019019)]), PREDICTIONS, 2, "relevant_candidates"),
    (answers(relevant_candidates=[argument(3)]), PREDICTIONS, 2, "relevant_candidates"),
]


def read_all(folder):
    return read_predictions(folder / PREDICTIONS, open_scenario(read_release(folder), "explicit", "dev"))


@pytest.mark.parametrize(("files", "name", "line", "field"), CASES)
def test_a_file_that_cannot_be_used_is_named_and_no_profile_is_shown(tmp_path, files, name, line, field):
    write_files(tmp_path, GOOD | files)
    with pytest.raises(InputError) as caught:
        read_all(tmp_path)
    assert (caught.value.path, caught.value.line, caught.value.field) == (tmp_path / name, line, field)
    assert SECRET not in str(caught.value)


# ---------------------------------------------------------------- releases as files


def test_each_file_of_queries_that_cannot_be_used_is_a_problem_of_its_own(tmp_path):
    bad = {"baseline-queries/queries_val.jsonl": "", DEV: "7", "perspective-queries/queries_test.jsonl": ""}
    problems = []
    read = read_release(write_files(tmp_path, GOOD | bad), problems=problems)
    assert [one.path.name for one in problems] == ["queries_val.jsonl", "queries_dev.jsonl", "queries_test.jsonl"]
    assert len(read.baseline) == 3 and {q.split for q in read.perspective} == {"train"}


def as_named(files, **names):
    """The files of queries with other names of fields."""
    rename = lambda line: jsonl({names.get(name, name): value for name, value in json.loads(line).items()})  # noqa: E731
    return {name: "".join(map(rename, content.splitlines())) for name, content in files.items()}


FIELDS = as_named({CORPUS: GOOD[CORPUS]}, text="argument", target="topic") | as_named(
    {name: content for name, content in GOOD.items() if "queries" in name},
    text="argument", demographic_properties="demographic_property",
)  # fmt: skip
SHAPES = {
    "the fields of the other release": FIELDS,
    "a list over many lines": {
        name: json.dumps([json.loads(line) for line in content.splitlines()], indent=1)
        for name, content in GOOD.items() if name != PREDICTIONS
    },
    "zipped": {name: gzip.compress(content.encode()) for name, content in GOOD.items()},
    "zipped, by name": {name: None for name in GOOD if name != PREDICTIONS} | {
        f"{name}.gz": gzip.compress(content.encode()) for name, content in GOOD.items() if name != PREDICTIONS
    },
}  # fmt: skip


@pytest.mark.parametrize("files", SHAPES.values(), ids=SHAPES)
def test_all_shapes_of_a_release_read_the_same(tmp_path, files):
    one, two = (read_release(write_files(tmp_path / n, given), "r") for n, given in (("a", GOOD), ("b", GOOD | files)))
    assert (two.arguments, two.baseline, two.perspective) == (one.arguments, one.baseline, one.perspective)
    assert one.arguments[11].issue == ISSUES[1] and in_words(one.perspective[3].asked) == "political attitude: left"
    assert read_all(tmp_path / "b")["docno"].tolist() == [str(2019000 + i) for i in range(20)] * 3


def test_a_property_that_is_not_known_is_not_there(tmp_path):
    missing = {"gender": None, "age": "", "residence": float("nan"), "political_issues": []}
    read = read_release(write_files(tmp_path, GOOD | profile(**missing)))
    assert read.arguments[1].profile == {"political_attitude": ("left",)}
    unknown = summarise(read)["unknown"]
    assert (unknown["gender"], unknown["political_attitude"], unknown["denomination"]) == (1, 0, 30)
    theirs = {"Civil Status": "single", "political_spectrum": "left", "important_political_issues": "law & order"}
    read = read_release(write_files(tmp_path, GOOD | corpus(demographic_profile=theirs)))
    assert read.arguments[1].profile == {
        "civil_status": ("single",), "political_attitude": ("left",), "political_issues": ("law & order",)
    }  # fmt: skip


def test_what_is_shown_of_a_release_holds_no_profile(tmp_path):
    read = read_release(write_files(tmp_path, GOOD))
    opened = open_scenario(read, "explicit", "dev")
    shown = [repr(read), repr(read.arguments), repr(opened), repr(opened.handout), json.dumps(summarise(read))]
    assert SECRET not in "".join(shown)


def test_contradictions_are_counted_and_what_is_not_known_is_none(tmp_path):
    left, right, young = perspective_queries("dev")
    wrong = left | {"relevant_candidates": [2019010, 2019011, 2019012]}  # by the right, the left, and somebody
    rows = [argument(i) for i in range(30)]
    rows[12]["demographic_profile"]["political_attitude"] = None
    read = read_release(write_files(tmp_path, GOOD | {CORPUS: jsonl(*rows), DEV: jsonl(wrong, right, young)}))
    total = sum(len(q.relevant) for q in read.perspective)
    assert summarise(read)["contradictions"] == {"relevant": total, "contradicting": 1, "queries": 1}
    read = read_release(write_files(tmp_path, GOOD | {MANIFEST: '{"ranked_for": "reader", "synthetic": true}'}))
    assert summarise(read)["contradictions"] is None and "SYNTHETIC" in repr(read)


# ---------------------------------------------------------------- releases and scenarios by name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("releases")
    write_release(place / "authors", make_release(arguments=120, issues=10, name="authors"))
    write_release(place / "readers", make_release(arguments=120, issues=10, name="readers", ranked_for="reader"))
    return place


def test_a_folder_and_a_scenario(folder):
    found = bd.load(f"{folder / 'authors'}:explicit")
    assert repr(found).startswith("Scenario 'authors:explicit' (explicit, SYNTHETIC): ")
    assert {q.split for q in found.questions} == {"dev"} and found.rule == "explicit"
    assert bd.load(f"{folder / 'authors'}:baseline", split="train").split == "train"
    assert len(bd.load(f"{folder / 'authors'}:explicit", limit=2).questions) == 2
    assert bd.load(f"{folder / 'readers'}:implicit").split == "test"


@pytest.mark.parametrize(
    ("name", "options", "named"),
    [
        ("perspectivearg-sample", {}, "perspectivearg-sample:implicit"),
        ("{folder}/authors", {}, "authors:explicit"),
        ("perspectivearg-sample:explict", {}, "'explict'"),
        ("perspectivearg-sample:explicit", {"split": "all"}, "'all'"),
        ("perspectivearg-sample:explicit", {"gold": "sample"}, "perspectivearg-sample:explicit"),
        ("{folder}/readers:implicit", {"split": "dev"}, "'dev'"),
        ("perspectivearg-2023:baseline", {}, "perspectivearg-2023"),
    ],
)
def test_what_cannot_be_loaded(folder, monkeypatch, tmp_path, name, options, named):
    monkeypatch.setenv("BERDS_DATA", str(tmp_path))
    with pytest.raises((InputError, bd.MissingDataError), match=named):
        bd.load(name.format(folder=folder), **options)


def test_releases_of_2023_learn_from_2019_if_it_is_there(folder, monkeypatch):
    monkeypatch.setenv("BERDS_DATA", str(folder))
    (folder / "perspectivearg").mkdir(exist_ok=True)
    write_release(folder / "perspectivearg" / "reader", load_release(str(folder / "readers")))
    assert load_scenario("perspectivearg-reader", "implicit").training is None
    write_release(folder / "perspectivearg" / "2019", load_release(str(folder / "authors")))
    lessons = load_scenario("perspectivearg-reader", "implicit").training
    assert {q.split for q in lessons.questions} == {"train"} and lessons.profiles is None
    own = load_scenario("perspectivearg-2019", "implicit")
    assert own.training.passages is own.passages


def test_a_release_made_by_hand_is_checked(folder):
    release = load_release(str(folder / "authors"))
    first, *others = release.perspective
    for wrong, named in (
        ({"perspective": (first._replace(relevant=("zzz",)), *others)}, "'zzz'"),
        ({"perspective": (first._replace(relevant=None), *others)}, r"\b1 of"),
        ({"arguments": (*release.arguments, release.arguments[0])}, release.arguments[0].docno),
    ):
        with pytest.raises(InputError, match=named):
            open_scenario(replace(release, **wrong), "implicit", first.split)


# ---------------------------------------------------------------- a scenario is a collection


def test_relevance_and_groups_at_the_front_door(folder):
    explicit, sample = bd.load(f"{folder / 'authors'}:explicit", split="test"), bd.load("sample", split="dev")
    result = bd.experiment(["bm25"], explicit, ["nDCG@20", bd.rKL @ 20])
    assert result.judge == "gold" and set(result.table["dataset"]) == {"authors (synthetic)", "macro"}
    run = result.runs["bm25"]
    assert bd.evaluate(run, explicit.gold, explicit, "nDCG@20,rKL@20").equals(result.scores["bm25"])
    assert bd.evaluate(run, None, explicit, "nDCG@20").equals(bd.evaluate(run, explicit.gold, explicit, "nDCG@20"))
    assert len(bd.judge(run, explicit))

    class Never:
        name = "never"

        def search(self, questions, k):
            raise AssertionError("searched: measures are checked before")

    for call, message in (
        (lambda: bd.experiment("bm25", explicit, "nDCG@20", judge="overlap"), r"\[judge\]: 'authors:explicit'"),
        (lambda: bd.evaluate(run, explicit.gold.iloc[:5], explicit, "nDCG@20"), r"\[verdicts\]: 'authors:explicit'"),
        (lambda: bd.judge(run, explicit, judge="overlap"), r"\[judge\]: 'authors:explicit'"),
        (lambda: bd.experiment(Never(), explicit, ["nDCG@5", "pRecall@5"]), "is not computed over a scenario"),
        (lambda: bd.experiment(Never(), sample, "rKL@5"), "rKL@5 needs the groups of all passages"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            call()


def test_where_answers_are_kept_back_rkl_can_do_without(folder):
    release = load_release(str(folder / "authors"))
    kept_back = replace(release, perspective=tuple(q._replace(relevant=None) for q in release.perspective))
    scenario = open_scenario(kept_back, "explicit", "test")
    assert "answers kept back" in repr(scenario)
    assert bd.experiment("bm25", scenario, "rKL@4").scores["bm25"].notna().all().all()
    with pytest.raises(InputError, match="nDCG@4"):
        bd.experiment("bm25", scenario, "nDCG@4")


# ---------------------------------------------------------------- predictions files


@pytest.fixture
def release(tmp_path):
    return read_release(write_files(tmp_path / "release", release_files()))


def found(scenario, n=20):
    """A run in the scenario's docnos: the corpus as the release has it, from another argument on for each query."""
    ids = [one.docno for one in scenario.release.arguments]
    lists = {q.qid: (ids[at:] + ids[:at])[:n] for at, q in enumerate(scenario.questions)}
    return ranked_run({qid: [scenario.docnos[one] for one in own] for qid, own in lists.items()})


@pytest.mark.parametrize("rule", SCENARIOS)
def test_a_run_is_read_back_as_it_was_and_written_in_the_published_form(release, tmp_path, rule):
    scenario = open_scenario(release, rule, "dev")
    run = found(scenario)
    for name in ("p.jsonl", "p.jsonl.gz"):
        write_predictions(tmp_path / name, run, scenario)
        pd.testing.assert_frame_equal(read_predictions(tmp_path / name, scenario), run)
    qids = [1] if rule == "baseline" else [110, 111, 112]
    want = [{"query_id": q, "relevant_candidates": [2019000 + at + i for i in range(20)]} for at, q in enumerate(qids)]
    assert (tmp_path / "p.jsonl").read_text() == jsonl(*want) and SECRET not in jsonl(*want)


def test_ids_that_are_text_in_the_release_are_text_in_its_predictions(tmp_path):
    files = release_files()
    files[CORPUS] = files[CORPUS].replace('"argument_id": 2019000,', '"argument_id": "2019000",')
    scenario = open_scenario(read_release(write_files(tmp_path / "release", files)), "explicit", "dev")
    write_predictions(tmp_path / "p.jsonl", found(scenario, 1), scenario)
    first = (tmp_path / "p.jsonl").read_text().splitlines()[0]
    assert json.loads(first) == {"query_id": 110, "relevant_candidates": ["2019000"]}


def test_a_run_of_something_else_is_not_written(release, tmp_path):
    for lists, problem in (
        ({"120": ["2019000"]}, "[qid]: '120' is not a query of 'release:explicit' (dev)"),
        ({"110": ["2019000", "d1"]}, "[docno]: 'd1' is not an argument of 'release:explicit' (dev)"),
    ):
        with pytest.raises(InputError) as caught:
            write_predictions(tmp_path / "p.jsonl", ranked_run(lists), open_scenario(release, "explicit", "dev"))
        assert str(caught.value) == problem and not (tmp_path / "p.jsonl").exists()


def test_a9_a_repeat_is_an_error_or_counts_once(release, tmp_path):
    scenario = open_scenario(release, "explicit", "dev")
    first, *others = predicted("dev", n=21)
    first["relevant_candidates"].insert(4, 2019001)  # which is second already
    path = tmp_path / "p.jsonl"
    path.write_text(jsonl(first, *others))
    with pytest.raises(InputError, match="'2019001'"):
        read_predictions(path, scenario)
    run = read_predictions(path, scenario, repeats="once")
    assert run[run["qid"] == "110"]["docno"].tolist() == [str(2019000 + i) for i in range(21)]
