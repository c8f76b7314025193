"""What a system is handed where a scenario hides profiles: nothing that tells of one."""

import pickle

import pandas as pd
import pytest

import berdslib as bd
from berdslib.data.arguments import Argument, ArgumentQuery, Release
from berdslib.data.scenario import Handout, Scenario, open_scenario
from berdslib.retrieval.retrievers import RETRIEVERS

N = 40


def _release() -> Release:
    """Forty arguments, the first group first; ages are secrets, and no query asks for one."""
    arguments = [
        Argument(str(2019_000_000 + i), f"argument number {i}", "Shall we?", "PRO",
                 {"gender": ("female" if i % 3 else "male",), "age": (f"secret-{2 * i // N}",)})
        for i in range(N)
    ]  # fmt: skip
    women = tuple(a.docno for a in arguments if a.profile["gender"] == ("female",))
    lessons = ArgumentQuery("1", "Shall they?", "train", {"gender": ("male",)}, (arguments[0].docno,))
    asked = ArgumentQuery("2", "Shall we?", "dev", {"gender": ("female",)}, women)
    base = ArgumentQuery("3", "Shall we?", "dev", relevant=women)
    return Release("guarded", tuple(arguments), (base,), (lessons, asked))


@pytest.mark.parametrize("rule", ["baseline", "implicit"])
def test_no_byte_of_a_profile_is_handed_out(rule):
    release = _release()
    scenario = open_scenario(release, rule)
    handed = pickle.dumps(scenario.handout)
    assert b"secret-" not in handed
    assert "secret-" in str([dict(profile) for profile in scenario.authors.values()])  # whoever measures knows them
    assert scenario.handout.profiles is None and scenario.handout.gold is None
    assert {p.docno for p in scenario.passages}.isdisjoint(a.docno for a in release.arguments)
    assert not hasattr(scenario.handout, "release") and not hasattr(scenario.handout, "authors")


def test_a_system_of_the_users_is_made_of_the_handout_and_its_scores_come_back_as_they_are(monkeypatch):
    monkeypatch.setattr(RETRIEVERS, "_things", dict(RETRIEVERS._things))
    given = []

    class Scored:
        def __init__(self, passages):
            given.append(passages)

        def search(self, questions, k):
            given.append(questions)
            return pd.DataFrame({"qid": ["2"] * 2, "docno": ["x", "y"], "score": [0.25, 0.75]})

    bd.register("retriever", "guest", Scored)
    run = bd.search("guest", open_scenario(_release(), "implicit"), 2)
    assert run[["docno", "score"]].to_numpy().tolist() == [["y", 0.75], ["x", 0.25]]
    assert b"secret-" not in pickle.dumps([list(one) for one in given])
    assert not any(isinstance(one, Scenario | Handout) for one in given)


def test_docnos_depend_on_the_profiles_and_on_nothing_that_is_handed_out():
    release = _release()
    other = Release("guarded", tuple(a._replace(profile={}) for a in release.arguments), release.baseline,
                    release.perspective)  # fmt: skip
    one, two = (open_scenario(r, "implicit") for r in (release, other))
    assert {p.docno for p in one.passages}.isdisjoint(p.docno for p in two.passages)
    assert [p.docno for p in one.passages] == [p.docno for p in open_scenario(release, "implicit").passages]
    assert [one.ids[d] for d in one.docnos.values()] == list(one.docnos)


def test_answers_of_the_training_split_alone_are_handed_out():
    scenario = open_scenario(_release(), "implicit")
    assert scenario.handout.gold is None and scenario.gold is not None
    lessons = scenario.handout.training
    assert lessons is not None and lessons.gold is not None and set(lessons.gold["qid"]) == {"1"}
    assert lessons.profiles is None and lessons.training is None
    assert open_scenario(_release(), "implicit", "train").training is None


def test_nothing_is_learnt_on_issues_that_are_scored():
    release = _release()
    relabelled = Release("leak", release.arguments, (), tuple(q._replace(split="train") for q in release.perspective))
    words = r"1 of the issues that are scored are in the training split of 'leak', too"
    with pytest.raises(bd.InputError, match=words):
        open_scenario(release, "implicit", "dev", training=relabelled)


def test_a_handout_is_a_copy_so_that_no_system_changes_its_score():
    scenario = open_scenario(_release(), "explicit")
    scenario.handout.asked.clear()
    scenario.handout.profiles.clear()
    assert scenario.asked and scenario.profiles and scenario.authors
