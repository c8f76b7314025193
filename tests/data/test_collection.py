"""The one data model: what a collection holds, the queries that it makes, and what it refuses."""

import dataclasses

import pandas as pd
import pytest

from berdslib.data.collection import Collection, are_full_queries
from berdslib.data.records import Passage, Query, Question, make_verdicts

ZOO = Question("zoos", "Should zoos close?", ("They should.", "They should not."), ("support", "oppose"), "pets", "dev")
TEA = Question("tea", "Is tea good?", ("It is.",), labels=("yes",))
PASSAGES = [Passage("a", "Zoos are cruel."), Passage("b", "Tea is good.")]
GOLD = make_verdicts([("zoos", 0, "a", 1.0, True), ("tea", 0, "b", 1.0, True)], "hand")
FULL = {"zoos": [("They should.", "Why should zoos close?"), ("They should not.", "Why should zoos stay?")]}


def test_it_says_what_it_holds():
    assert repr(Collection("pets", [ZOO])) == "Collection 'pets': 1 question, 0 passages, no gold verdicts"
    whole = Collection("pets", [ZOO, TEA], [Passage(str(i), "Tea.") for i in range(1200)], GOLD[:1], FULL)
    words = repr(whole)
    assert "1,200 passages" in words and "expansions of 1 question" in words
    assert whole.missing == (2, 1, 1, 1, 1, GOLD["docno"][0])
    assert ", 1 gold verdict" in repr(Collection("pets", [ZOO], PASSAGES, GOLD))  # the other is not on its question


def test_it_cannot_be_changed_and_leaves_alone_what_it_was_given():
    asked, verdicts = [ZOO, TEA], GOLD.copy()
    pets = Collection("pets", asked, PASSAGES, verdicts)
    asked.append(ZOO)
    verdicts["p_yes"] = 0.0
    assert pets.questions == (ZOO, TEA)
    pd.testing.assert_frame_equal(pets.gold, GOLD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        pets.name = "other"


def test_each_question_is_asked_from_each_perspective():
    queries = Collection("pets", [ZOO, TEA], expansions={"zoos": [("Other", "Not a full query.")]}).queries
    assert queries == [
        Query("zoos#0", "Should zoos close? They should.", ZOO, 0),
        Query("zoos#1", "Should zoos close? They should not.", ZOO, 1),
        Query("tea#0", "Is tea good? It is.", TEA, 0),
    ]
    assert [query.perspective for query in queries] == ["They should.", "They should not.", "It is."]


def test_full_queries_are_expansions_under_the_names_of_the_perspectives():
    pets = Collection("pets", [ZOO, TEA], expansions=FULL)
    assert [q.text for q in pets.queries] == [text for _, text in FULL["zoos"]] + ["Is tea good? It is."]
    assert are_full_queries(ZOO, FULL["zoos"])
    for other in (
        {},
        {"zoos": FULL["zoos"][::-1]},  # in another order they would belong to other perspectives
        {"zoos": FULL["zoos"][:1]},
        {"zoos": [("Yes", "Why should zoos close?"), ("No", "Why?")]},
        {"elsewhere": FULL["zoos"]},
    ):
        plain = Collection("pets", [ZOO, TEA], expansions=other)
        assert not are_full_queries(ZOO, other.get("zoos", ()))
        assert plain.queries[0].text == "Should zoos close? They should."


def test_some_of_its_questions():
    pets = Collection("pets", [ZOO, TEA], PASSAGES, GOLD, FULL)
    some = pets.only([TEA])
    assert some.questions == (TEA,) and some.name == "pets" and some.passages is pets.passages
    assert some.expansions is pets.expansions and len(some.gold) == 2
    assert pets.questions == (ZOO, TEA)


def test_verdicts_may_be_none_at_all():
    assert len(Collection("pets", [ZOO], PASSAGES, GOLD[:0]).gold) == 0
