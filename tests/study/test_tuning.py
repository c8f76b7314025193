"""Choosing on one half, by hand-made scores; ways to better lists, and to fuse them."""

import re
from dataclasses import replace

import pandas as pd
import pytest
from fusion_constant import fusion_curves, fusion_sweep
from tiny_notebook import names_of

from berdslib.data.collection import Collection
from berdslib.data.datasets import load
from berdslib.data.records import Passage, Question, make_verdicts, ranked_run
from berdslib.errors import InputError
from berdslib.paths import PACKAGE
from berdslib.study.experiment import experiment
from berdslib.study.tuning import dev_test_split, systems_of

NOTEBOOK = names_of(PACKAGE.parent / "papermill_runs" / "lists.ipynb")
gains_and_losses, choose_system = NOTEBOOK["gains_and_losses"], NOTEBOOK["choose_system"]
gain_recovered, lists_table = NOTEBOOK["gain_recovered"], NOTEBOOK["lists_table"]

QUESTIONS = [Question(f"q{i}", "?", ("x",), source="one" if i < 6 else "two") for i in range(10)]


def frame(mrecall, precision):
    return pd.DataFrame({"MRecall@5": mrecall, "Precision@5": precision}, index=[q.qid for q in QUESTIONS], dtype=float)


SCORES = {
    "default": frame([0, 1] * 5, [0.8] * 10),
    "bold": frame([1] * 10, [0.4] * 10),
    "careful": frame([1, 1] + [0, 1] * 4, [0.8] * 9 + [0.76]),  # the last is of source two: 0.8 becomes 0.795
    "useless": frame([0] * 10, [0.4] * 10),
}


def test_each_source_is_halved_and_marks_are_kept_where_there_are_both():
    dev, test = dev_test_split(QUESTIONS)
    assert sorted([*dev, *test]) == QUESTIONS and len({q.qid for q in dev} & {q.qid for q in test}) == 0
    assert [sum(q.source == s for q in dev) for s in ("one", "two")] == [3, 2]
    assert dev_test_split(QUESTIONS) == (dev, test)
    marked = [q._replace(split="dev" if i in (0, 1, 2, 9) else "test") for i, q in enumerate(QUESTIONS)]
    assert [q.qid for q in dev_test_split(marked)[0]] == ["q0", "q1", "q2", "q9"]
    third = [q._replace(split="train") if q.qid == "q0" else q for q in marked]
    assert all(q.split == "test" for q in dev_test_split(third)[1])  # no test question to choose by


def test_trade_offs_are_macro_means_against_the_baseline():
    table = gains_and_losses(SCORES, QUESTIONS, "default").set_index("system")
    assert table.loc["careful", "gain"] == pytest.approx((4 / 6 + 2 / 4) / 2 - 0.5)
    assert table.loc["careful", "loss"] == pytest.approx(1 - (0.8 + 0.79) / 2 / 0.8)
    assert table.loc["bold", "loss"] == pytest.approx(0.5)
    choices = [choose_system(table.reset_index(), most_loss=most) for most in (0.01, 0.5, 0)]
    assert choices == ["careful", "bold", "default"]  # careful loses 0.625 %


def test_equal_systems_tie_however_their_sums_were_rounded():
    tenths = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.3]
    scores = {"default": frame([0] * 10, [0.1] * 10), "first": frame(tenths, tenths)}
    scores["second"] = scores["first"] + 1e-16 * pd.Series(range(10), index=scores["first"].index).to_frame().to_numpy()
    scores["third"] = scores["first"] + 3e-16
    assert scores["third"].mean().ne(scores["first"].mean()).any()  # in the last digit they do differ
    for order in (["default", "first", "second", "third"], ["default", "third", "second", "first"]):
        table = gains_and_losses({name: scores[name] for name in order}, QUESTIONS, "default")
        assert choose_system(table) == order[1]


def test_the_way_to_the_oracle_is_a_share_of_the_difference():
    way = gain_recovered(SCORES, QUESTIONS, "default", "careful", "bold")
    assert way["share"] == pytest.approx((7 / 12 - 0.5) / 0.5)
    assert way["gain_low"] <= way["gain"] <= way["gain_high"]
    assert gain_recovered(SCORES, QUESTIONS, "default", "bold", "bold")["share"] == 1


WAYS = ("expand:recorded", "expand:rule", "multi:recorded", "coverage", "expand:rule+coverage")
OPTIONS = {"aspect_judge": "overlap", "ways": WAYS, "weights": (0.2, 0.8), "depth": 20}


@pytest.fixture(scope="module")
def sample():
    return load("sample", split="all")


def test_a_way_is_a_system_for_each_weight():
    assert systems_of("bm25", "none") == ["bm25"]
    assert systems_of("bm25", "multi:rule") == ["bm25+multi:rule"]
    assert systems_of("bm25", "mmr", [0.5, 0.50]) == ["bm25+mmr:0.5"]  # once, not compared with itself
    assert systems_of("bm25", "mmr@minilm+dpp", [0.5]) == ["bm25+mmr:0.5@minilm+dpp:0.5"]
    assert systems_of("bm25", "mmr+expand:rule", [0.5, 1]) == ["bm25+mmr:0.5+expand:rule", "bm25+mmr:1+expand:rule"]


@pytest.mark.slow
def test_every_number_is_that_of_an_experiment_on_the_held_out_questions(sample, tmp_path):
    found = lists_table("bm25", sample, store=tmp_path / "v.sqlite", **OPTIONS)
    assert {q.split for q in found.choosing} == {"dev"} and {q.split for q in found.held_out} == {"test"}
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
    allowed = means[means["Precision@5"] >= 0.99 * means.loc["bm25", "Precision@5"] - 1e-12]
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


def lists(**options):
    return lists_table("bm25", load("sample", split="all"), **OPTIONS | options)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: dev_test_split(QUESTIONS[:1]), "'one'"),
        (lambda: gains_and_losses(SCORES, QUESTIONS[::-1], "default"), ""),
        (lambda: gain_recovered(SCORES, QUESTIONS, "default", "nobody", "bold"), "'nobody'"),
        (lambda: choose_system(gains_and_losses(SCORES, QUESTIONS, "default").iloc[[1, 3]]), "50.0%"),
        (lambda: systems_of("bm25", "mmr", []), "'mmr'"),
        (lambda: lists(judge="overlap"), "overlap"),
        (lambda: lists(aspect_judge="gold"), "gold"),
        (lambda: fusion_sweep(Lists(FOUND), replace(ZOO, expansions={})), "'q'"),
    ],
)
def test_what_cannot_be_chosen_is_an_error(user_cache, call, name):
    with pytest.raises(InputError, match=re.escape(name)):
        call()


ZOOS = Question("q", "Should zoos close?", ("Yes.", "No."))
FOUND = {"": ["a", "b", "c"], "one": ["b", "d"], "two": ["e", "b", "a"]}  # by statement; "" is the question's own list
GOLD = make_verdicts([("q", 0, "a", 1.0, True), ("q", 1, "e", 1.0, True)], "gold")
STATED = {"q": [("first", "one"), ("second", "two")]}
ZOO = Collection("zoo", [ZOOS], [Passage(d, d) for d in "abcde"], GOLD, STATED)


class Lists:
    """Finds what a table says for each statement behind the question, and remembers what it was asked."""

    name = "lists"

    def __init__(self, found):
        self.found, self.calls = found, []

    def search(self, questions, k):
        self.calls.append(([q.text for q in questions], k))
        texts = {q.qid: q.text.removeprefix(ZOOS.text).strip() for q in questions}
        return ranked_run({qid: self.found[text][:k] for qid, text in texts.items()})


def test_a_sweep_scores_every_fusion_and_says_how_far_it_is_from_the_usual_constant(tmp_path):
    # "a" argues yes, "e" no: round robin of all three has both in its first three, so has every sum of reciprocals;
    # of one expansion and the question, nothing shows "no".
    lists, options = Lists(FOUND), {"numbers": (0, 1, 2), "constants": (0,), "store": tmp_path / "v.sqlite"}
    table = fusion_sweep(lists, ZOO, ["MRecall@3", "Precision@3"], depth=9, **options)
    assert lists.calls == [([ZOOS.text, f"{ZOOS.text} one", f"{ZOOS.text} two"], 9)]  # each list once
    assert set(table["fusion"]) == {"round robin", "rrf:0", "rrf:60"} and set(table["n"]) == {1}
    means = table.set_index(["measure", "number", "original", "fusion"])["mean"]
    assert means["MRecall@3", 2, True, "round robin"] == means["MRecall@3", 2, True, "rrf:60"] == 1
    assert means["MRecall@3", 1, True, "rrf:60"] == 0
    assert means["Precision@3", 2, True, "rrf:0"] == pytest.approx(2 / 3)
    assert means["Precision@3", 2, False, "rrf:0"] == pytest.approx(1 / 3)  # b, e, d
    assert means["Precision@3", 2, False, "round robin"] == pytest.approx(1 / 3)  # b, e, d
    assert means["Precision@3", 1, True, "round robin"] == pytest.approx(1 / 3)  # a, b, c
    assert means["Precision@3", 1, False, "round robin"] == 0
    differences = table.set_index(["measure", "number", "original", "fusion"])["difference"]
    usual = table["fusion"].eq("rrf:60")
    assert (differences[usual.to_numpy()] == 0).all() and table["difference_low"].isna().equals(usual)
    assert differences["Precision@3", 1, False, "round robin"] == 0  # b, d: the same list
    assert differences["MRecall@3", 2, True, "round robin"] == 0
    figure = fusion_curves(table, "Precision@3")
    drawn = {line.get_label(): list(line.get_ydata()) for line in figure.axes[1].lines}
    assert drawn["rrf:0"] == pytest.approx([100 / 3, 200 / 3]) and len(drawn) == 4  # and the question alone
