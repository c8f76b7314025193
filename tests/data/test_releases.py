"""Releases by name and from folders, and their scenarios as collections."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_release import make_release, write_release

import berdslib as bd
from berdslib.data.scenario import SCENARIOS, load_release, load_scenario, open_scenario


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("releases")
    write_release(place / "authors", make_release(arguments=120, issues=10, name="authors"))
    write_release(place / "readers", make_release(arguments=120, issues=10, name="readers", ranked_for="reader"))
    return place


def test_a_folder_and_a_scenario(folder: Path) -> None:
    found = bd.load(f"{folder / 'authors'}:explicit")
    assert repr(found).startswith("Scenario 'authors:explicit' (explicit, SYNTHETIC): ")
    assert {q.split for q in found.questions} == {"dev"} and found.rule == "explicit"
    assert bd.load(f"{folder / 'authors'}:baseline", split="train").split == "train"
    assert len(bd.load(f"{folder / 'authors'}:explicit", limit=2).questions) == 2


def test_of_a_release_with_one_split_that_is_taken(folder: Path) -> None:
    assert bd.load(f"{folder / 'readers'}:implicit").split == "test"


def test_the_first_split_is_one_that_the_scenario_has(tmp_path: Path) -> None:
    made = make_release(arguments=120, issues=10)
    partly = replace(made, baseline=tuple(q for q in made.baseline if q.split == "test"))
    write_release(tmp_path / "partly", partly)
    assert [load_scenario(str(tmp_path / "partly"), rule).split for rule in SCENARIOS] == ["test", "dev", "dev"]
    write_release(tmp_path / "less", replace(made, baseline=()))
    with pytest.raises(bd.InputError, match="has no baseline queries of the split 'dev'; there are: none"):
        load_scenario(str(tmp_path / "less"), "baseline")


def test_a_release_alone_is_not_enough(folder: Path) -> None:
    with pytest.raises(bd.InputError, match=r"name one of its scenarios: perspectivearg-sample:baseline, .*implicit"):
        bd.load("perspectivearg-sample")
    with pytest.raises(bd.InputError, match=r"name one of its scenarios: .*authors:explicit"):
        bd.load(folder / "authors")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("perspectivearg-sample:explict", {}, "unknown scenario 'explict'. Did you mean 'explicit'"),
        ("perspectivearg-sample:explicit", {"split": "all"}, "unknown split 'all'"),
        ("perspectivearg-sample:explicit", {"passages": "sample"}, "comes with its own arguments and answers"),
        ("perspectivearg-sample:explicit", {"gold": "sample"}, "comes with its own arguments and answers"),
    ],
)
def test_what_does_not_go_together(name: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(bd.InputError, match=message):
        bd.load(name, **options)


def test_a_split_that_is_not_there(folder: Path) -> None:
    with pytest.raises(
        bd.InputError, match=r"'readers' has no perspective queries of the split 'dev'; there are: test"
    ):
        bd.load(f"{folder / 'readers'}:implicit", split="dev")


def test_the_real_ones_are_asked_for_and_not_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BERDS_DATA", str(tmp_path))
    with pytest.raises(bd.MissingDataError, match=r"perspectivearg-2023(.|\n)*share it on request only"):
        bd.load("perspectivearg-2023:baseline")


def test_releases_of_2023_learn_from_2019_if_it_is_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERDS_DATA", str(folder))
    (folder / "perspectivearg").mkdir(exist_ok=True)
    write_release(folder / "perspectivearg" / "reader", load_release(str(folder / "readers")))
    assert load_scenario("perspectivearg-reader", "implicit").training is None
    write_release(folder / "perspectivearg" / "2019", load_release(str(folder / "authors")))
    lessons = load_scenario("perspectivearg-reader", "implicit").training
    assert lessons is not None and {q.split for q in lessons.questions} == {"train"} and lessons.profiles is None
    own = load_scenario("perspectivearg-2019", "implicit")
    assert own.training is not None and own.training.passages is own.passages


# ---------------------------------------------------------------- a scenario is a collection


def test_relevance_and_groups_at_the_front_door(folder: Path) -> None:
    explicit = bd.load(f"{folder / 'authors'}:explicit", split="test")
    result = bd.experiment(["bm25"], explicit, ["nDCG@20", bd.rKL @ 20])
    assert result.judge == "gold" and set(result.table["dataset"]) == {"authors (synthetic)", "macro"}
    own = bd.evaluate(result.runs["bm25"], explicit.gold, explicit, "nDCG@20,rKL@20")
    assert own.equals(result.scores["bm25"])


def test_a_judge_has_no_say(folder: Path) -> None:
    explicit = bd.load(f"{folder / 'authors'}:explicit")
    with pytest.raises(bd.InputError, match=r"'authors:explicit' is scored by the answers and profiles of its release"):
        bd.experiment("bm25", explicit, "nDCG@20", judge="overlap")


def test_verdicts_of_somebody_else_have_no_say_either(folder: Path) -> None:
    explicit = bd.load(f"{folder / 'authors'}:explicit")
    run = bd.search("bm25", explicit, 20)
    assert bd.evaluate(run, None, explicit, "nDCG@20").equals(bd.evaluate(run, explicit.gold, explicit, "nDCG@20"))
    with pytest.raises(bd.InputError, match="is scored by its own answers; give None, or its gold"):
        bd.evaluate(run, explicit.gold.iloc[:5], explicit, "nDCG@20")
    with pytest.raises(bd.InputError, match="asks who wrote a text, which no judge may be asked"):
        bd.judge(run, explicit, judge="overlap")
    assert len(bd.judge(run, explicit))


def test_measures_are_checked_before_anything_is_searched(folder: Path) -> None:
    class Never:
        name = "never"

        def search(self, questions, k):
            raise AssertionError("searched")

    explicit, sample = bd.load(f"{folder / 'authors'}:explicit"), bd.load("sample", split="dev")
    with pytest.raises(bd.InputError, match="pRecall@5 is not computed over a scenario"):
        bd.experiment(Never(), explicit, ["nDCG@5", "pRecall@5"])
    with pytest.raises(bd.InputError, match="rKL@5 needs the groups of all passages"):
        bd.experiment(Never(), sample, "rKL@5")


def test_where_answers_are_kept_back_rkl_can_do_without(folder: Path) -> None:
    release = load_release(str(folder / "authors"))
    kept_back = replace(release, perspective=tuple(q._replace(relevant=None) for q in release.perspective))
    scenario = open_scenario(kept_back, "explicit", "test")
    assert "answers kept back" in repr(scenario)
    assert bd.experiment("bm25", scenario, "rKL@4").scores["bm25"].notna().all().all()
    with pytest.raises(bd.InputError, match="needs the answers to the queries"):
        bd.experiment("bm25", scenario, "nDCG@4")


def test_a_release_made_by_hand_is_checked(folder: Path) -> None:
    release = load_release(str(folder / "authors"))
    first, *others = release.perspective
    with pytest.raises(bd.InputError, match=r"'zzz', an answer to .*, is not in the corpus"):
        open_scenario(replace(release, perspective=(first._replace(relevant=("zzz",)), *others)), "explicit",
                      first.split)  # fmt: skip
    with pytest.raises(bd.InputError, match=r"1 of .* queries have no answers"):
        open_scenario(replace(release, perspective=(first._replace(relevant=None), *others)), "explicit", first.split)
    with pytest.raises(bd.InputError, match=r"argument id .* occurs twice"):
        open_scenario(replace(release, arguments=(*release.arguments, release.arguments[0])), "implicit", "dev")


def test_another_release_may_be_learnt_from_whatever_the_split(folder: Path) -> None:
    own, other = load_release(str(folder / "authors")), make_release(arguments=60, issues=5, seed=3, name="other")
    assert open_scenario(own, "implicit", "train").training is None
    assert open_scenario(own, "implicit", "train", training=other).training.name == "other:implicit"


def test_a_scenario_beside_an_ordinary_collection(folder: Path) -> None:
    sample = bd.load("sample", split="dev")
    result = bd.experiment("bm25", [bd.load(f"{folder / 'authors'}:baseline"), sample], ["nDCG@5", "P@5"])
    assert "authors (synthetic)" in set(result.table["dataset"]) and len(set(result.table["dataset"])) == 5
    alone = bd.experiment("bm25", sample, ["nDCG@5", "P@5"])
    assert result.scores["bm25"].loc[[q.qid for q in sample.questions]].equals(alone.scores["bm25"])


def test_part_of_a_scenario_hands_out_part_of_its_queries(folder: Path) -> None:
    explicit = bd.load(f"{folder / 'authors'}:explicit")
    part = explicit.only(explicit.questions[:3])
    assert part.handout.questions == explicit.questions[:3] and part.authors is explicit.authors
    assert len(bd.experiment("bm25", part, "P@5").scores["bm25"]) == 3
