"""The table of ways to better lists: chosen on some questions, scored on others, every list searched once."""

from dataclasses import replace

import pandas as pd
import pytest

from berdslib.data.datasets import load
from berdslib.errors import InputError
from berdslib.retrieval.bm25 import BM25
from berdslib.retrieval.retrievers import RETRIEVERS, own_retriever
from berdslib.study.experiment import experiment
from berdslib.study.tuning import lists_table, systems_of

WAYS = ("expand:recorded", "expand:rule", "multi:recorded", "coverage", "expand:rule+coverage")
OPTIONS = {"aspect_judge": "overlap", "ways": WAYS, "weights": (0.2, 0.8), "depth": 20}


class Counted:
    """BM25 that remembers what it was asked, under each registered name anew."""

    name = "counted"

    def __init__(self, passages):
        self.inner, self.calls = BM25(passages), []

    def search(self, questions, k):
        self.calls.append((tuple(q.text for q in questions), k))
        return self.inner.search(questions, k)


@pytest.fixture
def counted(monkeypatch):
    monkeypatch.setattr(RETRIEVERS, "_things", dict(RETRIEVERS))
    made = []
    RETRIEVERS.add("counted", own_retriever(lambda passages: made.append(Counted(passages)) or made[-1]))
    return made


@pytest.fixture(scope="module")
def sample():
    return load("sample", split="all")


def test_a_way_is_a_system_for_each_weight():
    assert systems_of("bm25", "none") == ["bm25"]
    assert systems_of("bm25", "multi:rule") == ["bm25+multi:rule"]
    assert systems_of("bm25", "mmr", [0.5, 0.50]) == ["bm25+mmr:0.5"]  # once, not compared with itself
    assert systems_of("bm25", "mmr+expand:rule", [0.5, 1]) == ["bm25+mmr:0.5+expand:rule", "bm25+mmr:1+expand:rule"]
    with pytest.raises(InputError, match="none to try"):
        systems_of("bm25", "mmr", [])
    with pytest.raises(InputError, match="unknown part 'mrm'"):
        systems_of("bm25", "mrm", [0.5])


@pytest.mark.slow
def test_every_number_is_that_of_an_experiment_on_the_held_out_questions(sample, counted, tmp_path):
    found = lists_table("counted", sample, store=tmp_path / "v.sqlite", **OPTIONS)
    assert {q.split for q in found.choosing} == {"dev"} and {q.split for q in found.held_out} == {"test"}
    # The question, its recorded and its ruled expansions, and it beside the recorded ones: one search each.
    (retriever,) = counted
    assert len(retriever.calls) == len(set(retriever.calls)) == 4 and {k for _, k in retriever.calls} == {20}

    measures = ["Precision@5", "MRecall@5", "MRecall@10"]
    options = {"aspect_judge": "overlap", "depth": 20, "store": tmp_path / "v.sqlite"}
    chosen = found.table[found.table["system"] != ""].drop_duplicates("way").set_index("way")["system"].to_dict()
    result = experiment(chosen, sample.only(found.held_out), measures, baseline="none", **options)
    expected = result.table[result.table["dataset"] == "macro"].set_index(["system", "measure"])
    ours = found.table[found.table["way"] != "oracle"].set_index(["way", "measure"])
    expected = expected.loc[ours.index]
    for column in ("n", "mean", "low", "high", "p_value"):
        pd.testing.assert_series_equal(ours[column], expected[column], check_names=False, check_dtype=False)
    assert ours["gain"].to_numpy() == pytest.approx(expected["difference"].to_numpy())
    best = found.table[found.table["way"] == "oracle"].set_index("measure")
    assert (best["share"].dropna() == 1).all() and best["p_value"].isna().all()
    assert (ours["mean"]["coverage"] <= best["mean"] + 1e-12).all()  # it reorders the same candidates
    way = ours["share"]["coverage", "Precision@5"]
    none = ours["mean"]["none", "Precision@5"]
    assert way == pytest.approx((ours["mean"]["coverage", "Precision@5"] - none) / (best["mean"]["Precision@5"] - none))

    # On the questions to choose by, the best of both weights was taken, and among all ways the winner.
    trial = experiment({s: s for s in found.tried["system"]}, sample.only(found.choosing), measures[:2], **options)
    means = trial.table[trial.table["dataset"] == "macro"].pivot(index="system", columns="measure", values="mean")
    allowed = means[means["Precision@5"] >= 0.99 * means.loc["counted", "Precision@5"] - 1e-12]
    assert means.loc[chosen[found.winner], "MRecall@5"] == allowed["MRecall@5"].max()
    for name, part in found.tried.groupby("way"):
        within = allowed.loc[allowed.index.intersection(part["system"]), "MRecall@5"]
        note = ours.loc[(name, "MRecall@5"), "note"]
        if len(within):
            assert means.loc[chosen[name], "MRecall@5"] == within.max() and not note
        else:
            assert means.loc[chosen[name], "Precision@5"] == means.loc[part["system"], "Precision@5"].max() and note
    assert found.shown.loc[found.winner, "system"] == chosen[found.winner]


@pytest.mark.slow
def test_verdicts_on_the_held_out_questions_choose_nothing(sample, tmp_path):
    """Whoever turns them round changes the scores, and no choice."""
    held_out = {q.qid for q in sample.questions if q.split == "test"}
    gold = sample.gold.copy()
    gold.loc[gold["qid"].isin(held_out), "supports"] ^= True
    turned = replace(sample, gold=gold)
    one, other = (lists_table("bm25", data, store=tmp_path / "v.sqlite", **OPTIONS) for data in (sample, turned))
    assert one.winner == other.winner and one.table["system"].tolist() == other.table["system"].tolist()
    pd.testing.assert_frame_equal(one.tried, other.tried)
    assert not one.table["mean"].equals(other.table["mean"])


@pytest.mark.slow
def test_what_cannot_be_tried_is_a_row_with_its_reason(sample, tmp_path):
    bare = replace(sample, expansions={})
    found = lists_table("bm25", bare, store=tmp_path / "v.sqlite", **OPTIONS)
    absent = found.table[found.table["mean"].isna()]
    assert sorted(set(absent["way"])) == ["expand:recorded", "multi:recorded"] and len(absent) == 2 * 3
    assert set(absent["note"]) == {"left out: no recorded expansions"} and not absent["chosen"].any()
    assert list(dict.fromkeys(found.table["way"])) == ["none", *WAYS, "oracle"]
    assert found.shown.loc["multi:recorded", "note"] == "left out: no recorded expansions"
    assert not any("recorded" in system for system in found.tried["system"])


def test_a_judge_that_scores_may_not_reorder(sample, tmp_path):
    options = OPTIONS | {"judge": "overlap", "store": tmp_path / "v.sqlite"}
    with pytest.raises(InputError, match=r"overlap.* scores; another judge must reorder lists"):
        lists_table("bm25", sample, **options)
