"""A system cannot reach a profile where a scenario hides them, however it tries."""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path
from typing import NamedTuple

import cheats
import pytest

import berdslib as bd
from berdslib.data.arguments import Argument, ArgumentQuery, Release
from berdslib.data.collection import Collection
from berdslib.data.scenario import open_scenario
from berdslib.study.apart import is_ours

N = 40


def _release() -> Release:
    """Forty arguments, the first group first; ages are secrets, and no query asks for one."""
    secrets = [f"secret-{uuid.uuid4().hex}" for _ in range(2)]
    arguments = [
        Argument(str(2019_000_000 + i), f"argument number {i}", "Shall we?", "PRO",
                 {"gender": ("female" if i % 3 else "male",), "age": (secrets[2 * i // N],)})
        for i in range(N)
    ]  # fmt: skip
    women = tuple(a.docno for a in arguments if a.profile["gender"] == ("female",))
    lessons = ArgumentQuery("1", "Shall they?", "train", {"gender": ("male",)}, (arguments[0].docno,))
    asked = ArgumentQuery("2", "Shall we?", "dev", {"gender": ("female",)}, women)
    base = ArgumentQuery("3", "Shall we?", "dev", relevant=women)
    return Release("guarded", tuple(arguments), (base,), (lessons, asked))


def _known(release: Release) -> dict[str, list[str]]:
    """What somebody who took part in the explicit scenario could know of the release, but for the profiles."""
    first_half = [a.text for a in release.arguments[: N // 2]]
    vectors = ["vectors.bin"]  # that a search of profiles in words has left in the cache
    return {"ids": [a.docno for a in release.arguments], "texts of the first half": first_half,
            "files of vectors": vectors}  # fmt: skip


def _write(folder: Path, release: Release) -> None:
    """Put the release where its cards look for it: below BERDS_DATA, and in a cache with vectors of its profiles."""
    _write_at(folder / "perspectivearg" / "2019", release)
    _write_at(folder / "cache" / "data" / "perspectivearg-2023", release)
    (folder / "cache" / "embeddings").mkdir()
    (folder / "cache" / "embeddings" / "vectors.bin").write_bytes(b"vectors")


def _write_at(place: Path, release: Release) -> None:
    (place / "perspective-queries").mkdir(parents=True)
    rows = [
        {"argument_id": a.docno, "text": a.text, "target": a.issue, "stance": a.stance,
         "demographic_profile": {name: values[0] for name, values in a.profile.items()}}
        for a in release.arguments
    ]  # fmt: skip
    (place / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    query = {"query_id": 2, "text": "Shall we?", "demographic_properties": {"gender": "female"}}
    (place / "perspective-queries" / "queries_dev.jsonl").write_text(json.dumps(query), "utf-8")


@pytest.fixture(scope="module", params=["implicit", "baseline"])
def diary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What a cheat found in a closed scenario, with the release in this process's memory and on its disk."""
    folder, release = tmp_path_factory.mktemp(request.param), _release()
    _write(folder, release)
    scenario = open_scenario(release, request.param)
    kept_here = {"explicit": open_scenario(release, "explicit"), "profiles": [a.profile for a in release.arguments]}
    cheat = cheats.Cheat(scenario.passages, str(folder / "diary.json"), _known(release))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERDS_DATA", str(folder))
        patch.setenv("BERDS_CACHE", str(folder / "cache"))
        run = bd.search(cheat, scenario, 3)
    assert len(run) == 3 and kept_here
    return json.loads((folder / "diary.json").read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("way", [way.__name__ for way in cheats.WAYS])
def test_a_system_does_not_reach_a_profile(diary: dict[str, list[str]], way: str) -> None:
    assert diary[way] == []


class _Open(NamedTuple):
    """A passage that gives its author away."""

    docno: str
    text: str
    title: str = ""
    profile: object = ()


def test_the_same_ways_find_profiles_that_lie_in_the_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = _release()
    _write(tmp_path, release)
    (tmp_path / "left.txt").write_text(str(release.arguments[0].profile), "utf-8")
    monkeypatch.setenv("BERDS_DATA", str(tmp_path))
    monkeypatch.setenv("BERDS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cheats, "left_in_a_module", [a.profile for a in release.arguments], raising=False)
    monkeypatch.setitem(sys.modules, "berdslib.left", cheats)
    passages = [_Open(a.docno, a.text, profile=a.profile) for a in release.arguments]
    secret = release.arguments[0].profile["age"]
    questions = [bd.Question("2", "Shall we?", labels=secret)]

    def remembers() -> object:
        return release.arguments[0].profile

    assert remembers()
    found = {way.__name__: way(passages, questions, _known(release)) for way in cheats.WAYS[:-3]}
    found[cheats.a_pickle_of_everything_handed.__name__] = cheats.a_pickle_of_everything_handed(
        [tuple(p[:3]) for p in passages], questions, {}
    )
    found[cheats.files_of_the_working_folder.__name__] = cheats.files_of_the_working_folder([], [], {})
    hashed = "docnos_by_hashing_what_is_known"  # these docnos are not hashed at all
    assert [way for way, hits in found.items() if not hits and way != hashed] == []


def test_docnos_made_by_a_plain_hash_would_be_found() -> None:
    import hashlib

    release = _release()
    hashed = [bd.Passage(hashlib.sha1(a.docno.encode()).hexdigest()[:20], a.text) for a in release.arguments]
    assert len(cheats.docnos_by_hashing_what_is_known(hashed, [], _known(release))) == N


# ---------------------------------------------------------------- what is handed out


@pytest.mark.parametrize("rule", ["baseline", "implicit"])
def test_no_byte_of_a_profile_is_handed_out(rule: str) -> None:
    import pickle

    release = _release()
    scenario = open_scenario(release, rule)
    handed = pickle.dumps(scenario.handout.passages) + pickle.dumps(list(scenario.handout.questions))
    handed += pickle.dumps((dict(scenario.handout.expansions), scenario.handout.gold, scenario.handout.rule))
    assert cheats.SECRET.search(handed.decode("latin-1")) is None
    assert scenario.handout.profiles is None and scenario.handout.gold is None
    assert {p.docno for p in scenario.passages}.isdisjoint(a.docno for a in release.arguments)
    assert not hasattr(scenario.handout, "release") and not hasattr(scenario.handout, "authors")


def test_the_baseline_names_no_property() -> None:
    scenario = open_scenario(_release(), "baseline")
    assert not scenario.handout.asked and scenario.handout.questions[0].perspectives == ("Shall we?",)


def test_docnos_depend_on_the_profiles_and_on_nothing_that_is_handed_out() -> None:
    release = _release()
    other = Release("guarded", tuple(a._replace(profile={}) for a in release.arguments), release.baseline,
                    release.perspective)  # fmt: skip
    one, two = (open_scenario(r, "implicit") for r in (release, other))
    assert {p.docno for p in one.passages}.isdisjoint(p.docno for p in two.passages)
    assert [p.docno for p in one.passages] == [p.docno for p in open_scenario(release, "implicit").passages]
    assert [one.ids[d] for d in one.docnos.values()] == list(one.docnos)


def test_answers_of_the_training_split_alone_are_handed_out() -> None:
    scenario = open_scenario(_release(), "implicit")
    assert scenario.handout.gold is None and scenario.gold is not None
    lessons = scenario.handout.training
    assert lessons is not None and lessons.gold is not None and set(lessons.gold["qid"]) == {"1"}
    assert lessons.profiles is None and lessons.training is None
    assert open_scenario(_release(), "implicit", "train").training is None


# ---------------------------------------------------------------- whose code runs where


def test_ours_are_told_from_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    from berdslib.retrieval.retrievers import RETRIEVERS

    monkeypatch.setattr(RETRIEVERS, "_things", dict(RETRIEVERS._things))
    bd.register("retriever", "guest", lambda passages: None)
    assert is_ours("bm25+mmr:0.5") and is_ours("hf:some/model")
    assert not is_ours("guest") and not is_ours("guest+mmr:0.5") and not is_ours(cheats.Cheat([], "", {}))


@pytest.mark.slow
def test_a_release_that_was_read_can_be_sent(tmp_path: Path) -> None:
    from synthetic_release import make_release, write_release

    class First:
        name = "first"

        def __init__(self, passages):
            self.passages = passages

        def search(self, questions, k):
            return {q.qid: [p.docno for p in self.passages[:k]] for q in questions}

    write_release(tmp_path / "release", make_release(arguments=60, issues=6))
    scenario = bd.load(f"{tmp_path / 'release'}:implicit", split="test")
    run = bd.search(First(scenario.passages), scenario, 2)
    assert set(run["qid"]) == {q.qid for q in scenario.questions}


@pytest.mark.slow
def test_a_registered_system_of_the_users_runs_apart_and_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from berdslib.retrieval.bm25 import BM25
    from berdslib.retrieval.retrievers import RETRIEVERS

    monkeypatch.setattr(RETRIEVERS, "_things", dict(RETRIEVERS._things))
    here = os.getpid()

    def make(passages):
        assert os.getpid() != here
        return BM25(passages)

    bd.register("retriever", "guest", make)
    scenario = open_scenario(_release(), "implicit")
    theirs, ours = (bd.search(system, scenario, 5)["docno"].tolist() for system in ("guest", "bm25"))
    assert theirs == ours


class _HoldsTheScenario:
    name = "greedy"

    def __init__(self, scenario: Collection) -> None:
        self.scenario = scenario

    def search(self, questions, k):
        return {}


def test_a_system_that_holds_the_scenario_is_refused() -> None:
    scenario = open_scenario(_release(), "implicit")
    with pytest.raises(
        bd.InputError, match=r"greedy: holds something \(Scenario\) .*give it scenario.handout, or its passages"
    ):
        bd.search(_HoldsTheScenario(scenario), scenario, 3)
    explicit = open_scenario(_release(), "explicit")
    assert bd.search(_HoldsTheScenario(explicit), explicit, 3).empty


@pytest.mark.parametrize(
    "what", ["authors", "ids", "docnos", "profiles", "handout", "argument", "query", "release", "gold"]
)
def test_whatever_tells_of_authors_is_not_sent(what: str) -> None:
    release = _release()
    hidden, explicit = (open_scenario(release, rule) for rule in ("implicit", "explicit"))
    held = {
        "authors": hidden.authors, "ids": hidden.ids, "docnos": hidden.docnos, "profiles": explicit.profiles,
        "handout": explicit.handout, "argument": [release.arguments[0]], "release": {"it": release},
        "query": release.perspective[0], "gold": hidden.gold,
    }[what]  # fmt: skip
    with pytest.raises(bd.InputError, match=r"greedy: holds something .* that tells what is hidden"):
        bd.search(_HoldsTheScenario(held), hidden, 3)  # type: ignore[arg-type]


def _sees(release: Release) -> list[str]:
    return cheats.garbage_collector([], [], {})


def test_no_code_of_a_system_runs_beside_the_profiles() -> None:
    """Neither to learn its name nor to pack it; each of these would find profiles there."""
    release, ran = _release(), list[str]()
    scenario = open_scenario(release, "implicit")

    class Named(_HoldsTheScenario):
        @property
        def name(self):
            ran.append("name")
            return "named"

    class Packed(_HoldsTheScenario):
        def __getstate__(self):
            ran.append("getstate")
            return {"found": _sees(release)}

    class Reduced(_HoldsTheScenario):
        def __reduce__(self):
            ran.append("reduce")
            return (Reduced, (None,))

    class Guessing(_HoldsTheScenario):
        def __getattr__(self, name):
            ran.append("getattr")
            raise AttributeError(name)

    assert _sees(release), "they would find something"
    for system, message in (
        (Packed(None), "Packed has its own __getstate__, which would run where profiles lie"),
        (Reduced(None), "Reduced has its own __reduce__"),
        (Guessing(None), "Guessing has its own __getattr__"),
    ):
        with pytest.raises(bd.InputError, match=message):
            bd.search(system, scenario, 3)
    bd.search(Named(None), scenario, 3)
    assert ran == []
    result = bd.experiment(Named(None), scenario, "rKL@4")
    assert list(result.runs) == ["Named"] and ran == []


def test_scores_come_back_as_they_are() -> None:
    class Scored:
        name = "scored"

        def search(self, questions, k):
            import pandas as pd

            return pd.DataFrame({"qid": ["2"] * 2, "docno": ["x", "y"], "score": [0.25, 0.75]})

    run = bd.search(Scored(), open_scenario(_release(), "implicit"), 2)
    assert run[["docno", "score"]].to_numpy().tolist() == [["y", 0.75], ["x", 0.25]]


def test_nothing_is_learnt_on_issues_that_are_scored() -> None:
    release = _release()
    relabelled = Release("leak", release.arguments, (), tuple(q._replace(split="train") for q in release.perspective))
    with pytest.raises(
        bd.InputError, match=r"1 of the issues that are scored are in the training split of 'leak', too"
    ):
        open_scenario(release, "implicit", "dev", training=relabelled)


def test_a_handout_alone_is_guarded_too() -> None:
    hidden, explicit = (open_scenario(_release(), rule) for rule in ("implicit", "explicit"))
    with pytest.raises(bd.InputError, match="holds something"):
        bd.search(_HoldsTheScenario(explicit), hidden.handout, 3)


def test_a_judge_of_the_users_does_not_order_lists_beside_the_profiles() -> None:
    hidden = open_scenario(_release(), "baseline")
    for judge in (lambda pairs: [0.5] * len(pairs), "my-own"):
        with pytest.raises(bd.InputError, match="a judge of your own would run where they lie"):
            bd.search("bm25+expand:rule+coverage:0.5", hidden, 3, aspect_judge=judge)
    bd.search("bm25+expand:rule+coverage:0.5", hidden, 3, aspect_judge="random")  # one of ours is accepted


def test_a_handout_is_a_copy_so_that_no_system_changes_its_score() -> None:
    scenario = open_scenario(_release(), "explicit")
    scenario.handout.asked.clear()  # type: ignore[attr-defined]
    scenario.handout.profiles.clear()  # type: ignore[union-attr]
    assert scenario.asked and scenario.profiles and scenario.authors


def test_what_a_guest_is_asked_once_is_kept_where_it_was_meant_to_be(tmp_path: Path) -> None:
    from berdslib.study.experiment import build

    ready = build({"guest": cheats.Cheat([], "", {})}, open_scenario(_release(), "implicit"),
                  aspect_judge=lambda: None, store=None, recordings="mine.jsonl")  # fmt: skip
    assert ready["guest"]._options["recordings"].is_absolute()


def test_a_system_that_cannot_be_sent_is_refused_with_what_to_do() -> None:
    import threading

    scenario = open_scenario(_release(), "implicit")
    system = _HoldsTheScenario(scenario.handout)
    system.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(bd.InputError, match=r"greedy cannot be sent .*bd.register\('retriever'"):
        bd.search(system, scenario, 3)


@pytest.mark.slow
def test_a_system_that_fails_apart_says_where() -> None:
    class Fails:
        name = "fails"

        def search(self, questions, k):
            raise ZeroDivisionError("by nought")

    class Stops:
        name = "stops"

        def search(self, questions, k):
            import os

            os._exit(3)

    scenario = open_scenario(_release(), "implicit")
    with pytest.raises(bd.InputError, match=r"fails: fails in its own process(.|\n)*ZeroDivisionError: by nought"):
        bd.search(Fails(), scenario, 3)
    with pytest.raises(bd.InputError, match=r"stops: its process ended without an answer \(exit status 3\)"):
        bd.search(Stops(), scenario, 3)


@pytest.mark.slow
def test_what_comes_back_is_checked_like_any_run() -> None:
    class Wrong:
        name = "wrong"

        def search(self, questions, k):
            return {"somebody else": ["x"]}

    scenario = open_scenario(_release(), "implicit")
    with pytest.raises(bd.InputError, match="wrong: lists passages for 'somebody else'"):
        bd.search(Wrong(), scenario, 3)
