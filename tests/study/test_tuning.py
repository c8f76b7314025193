"""Choosing on one half, by hand-made scores; aspects from a judge."""

import pandas as pd
import pytest

from berdslib.data.records import Passage, Question, make_run
from berdslib.errors import InputError
from berdslib.judging.aspects import judged_aspects
from berdslib.judging.baselines import Gold
from berdslib.judging.registry import make_judge
from berdslib.judging.store import VerdictStore
from berdslib.study.tuning import choose_system, dev_test_split, gain_recovered, gains_and_losses

QUESTIONS = [Question(f"q{i}", "?", ("x",), source="one" if i < 6 else "two") for i in range(10)]


def frame(mrecall, precision):
    return pd.DataFrame({"MRecall@5": mrecall, "Precision@5": precision}, index=[q.qid for q in QUESTIONS], dtype=float)


SCORES = {
    "default": frame([0, 1] * 5, [0.8] * 10),
    "bold": frame([1] * 10, [0.4] * 10),
    "careful": frame([1, 1] + [0, 1] * 4, [0.8] * 9 + [0.76]),  # the last is of source two: 0.8 becomes 0.795
    "useless": frame([0] * 10, [0.4] * 10),
}


def test_each_source_is_halved_and_nothing_is_on_both_sides():
    dev, test = dev_test_split(QUESTIONS, seed=1)
    assert sorted([*dev, *test]) == QUESTIONS and len({q.qid for q in dev} & {q.qid for q in test}) == 0
    assert [sum(q.source == s for q in dev) for s in ("one", "two")] == [3, 2]
    assert dev_test_split(QUESTIONS, seed=1) == (dev, test) != dev_test_split(QUESTIONS, seed=2)


def test_marks_are_kept_where_there_are_both():
    marked = [q._replace(split="dev" if i in (0, 1, 2, 9) else "test") for i, q in enumerate(QUESTIONS)]
    assert [q.qid for q in dev_test_split(marked)[0]] == ["q0", "q1", "q2", "q9"]
    third = [q._replace(split="train") if q.qid == "q0" else q for q in marked]
    assert all(q.split == "test" for q in dev_test_split(third)[1])  # no test question to choose by


def test_one_question_cannot_be_halved():
    with pytest.raises(InputError, match="cannot be split"):
        dev_test_split(QUESTIONS[:1])


def test_trade_offs_are_macro_means_against_the_baseline():
    table = gains_and_losses(SCORES, QUESTIONS, "default").set_index("system")
    assert table.loc["careful", "gain"] == pytest.approx((4 / 6 + 2 / 4) / 2 - 0.5)
    assert table.loc["careful", "loss"] == pytest.approx(1 - (0.8 + 0.79) / 2 / 0.8)
    assert table.loc["bold", "loss"] == pytest.approx(0.5)
    assert table["frontier"].to_dict() == {"default": True, "bold": True, "careful": True, "useless": False}


def test_the_choice_is_the_largest_gain_that_the_loss_allows():
    table = gains_and_losses(SCORES, QUESTIONS, "default")
    assert choose_system(table) == "careful"  # loses 0.625 %
    assert choose_system(table, most_loss=0.5) == "bold"
    assert choose_system(table, most_loss=0) == "default"
    with pytest.raises(InputError, match=r"the smallest loss is 50\.0%"):
        choose_system(table[table["system"].isin(["bold", "useless"])])


def test_equal_systems_tie_however_their_sums_were_rounded():
    tenths = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.3]
    scores = {"default": frame([0] * 10, [0.1] * 10), "first": frame(tenths, tenths)}
    scores["second"] = scores["first"] + 1e-16 * pd.Series(range(10), index=scores["first"].index).to_frame().to_numpy()
    scores["third"] = scores["first"] + 3e-16
    assert scores["third"].mean().ne(scores["first"].mean()).any()  # in the last digit they do differ
    for order in (["default", "first", "second", "third"], ["default", "third", "second", "first"]):
        table = gains_and_losses({name: scores[name] for name in order}, QUESTIONS, "default")
        assert choose_system(table) == order[1] and table["frontier"].tolist() == [False, True, True, True]


def test_an_unknown_measure_is_an_error():
    with pytest.raises(InputError, match="Precision@5"):
        gains_and_losses(SCORES, QUESTIONS, "default", cost="Precision@6")


def test_scores_of_other_questions_are_refused():
    for call in (
        lambda q: gains_and_losses(SCORES, q, "default"),
        lambda q: gain_recovered(SCORES, q, "default", "bold", "bold"),
    ):
        with pytest.raises(InputError, match="another order"):
            call(QUESTIONS[::-1])
    with pytest.raises(InputError, match="default"):
        gain_recovered(SCORES, QUESTIONS, "default", "nobody", "bold")


def test_the_way_to_the_oracle_is_a_share_of_the_difference():
    way = gain_recovered(SCORES, QUESTIONS, "default", "careful", "bold")
    assert way["share"] == pytest.approx((7 / 12 - 0.5) / 0.5)
    assert way["gain_low"] <= way["gain"] <= way["gain_high"]
    assert gain_recovered(SCORES, QUESTIONS, "default", "bold", "bold")["share"] == 1


# ---------------------------------------------------------------- aspects

PASSAGES = [Passage("a", "zoos are cruel"), Passage("b", "zoos save species")]
RUN = make_run(["q", "q", "r"], ["a", "b", "a"], [2.0, 1.0, 1.0])
ASKED = [Question("q", "Are zoos good?", ("never seen",)), Question("r", "No expansions?", ("never seen",))]
EXPANSIONS = {"q": [("against", "zoos are cruel"), ("for", "zoos save species")]}


def test_aspects_are_the_judges_opinions_on_generated_perspectives_only(tmp_path):
    seen = []

    class Echo:
        id, threshold = "echo", 0.5

        def p_yes(self, pairs):
            seen.extend(p.perspective for p in pairs)
            return make_judge("overlap").p_yes(pairs)

    store = VerdictStore(tmp_path / "verdicts.sqlite")
    table = judged_aspects(EXPANSIONS, PASSAGES, Echo(), store)(RUN, ASKED)
    assert list(table.columns) == ["qid", "pid", "docno", "p"] and set(table["qid"]) == {"q"}
    assert set(seen) == {"zoos are cruel", "zoos save species"}
    wide = table.pivot(index="docno", columns="pid", values="p")
    assert wide.loc["a", 0] > wide.loc["b", 0] and wide.loc["b", 1] > wide.loc["a", 1]
    judged_aspects(EXPANSIONS, PASSAGES, Echo(), store)(RUN, ASKED)
    assert len(seen) == 4  # the second time all came from the store


def test_recorded_verdicts_are_refused():
    with pytest.raises(InputError, match="used for scoring"):
        judged_aspects(EXPANSIONS, PASSAGES, Gold(pd.DataFrame(columns=["qid", "pid", "docno", "p_yes", "supports"])))
