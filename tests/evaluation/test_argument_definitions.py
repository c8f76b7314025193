"""The literature's and the published script's definitions on the same cases: rows A1 to A9 of docs/divergences.md.

A4 and the repeated ids of A9 are about commands and files, and are tested there.
"""

import math
from pathlib import Path

import pandas as pd
import pytest
from scipy.special import kl_div
from small_scenarios import GROUP, listing, small_scenario
from synthetic_release import make_release

import berdslib as bd
from berdslib.data.arguments import ISSUES, PROPERTIES
from berdslib.data.scenario import SCENARIOS, open_scenario
from berdslib.errors import InputError
from berdslib.evaluation.arguments import (
    ARGUMENT_MEASURES,
    OFFICIAL_MEASURES,
    by_property,
    evaluate_arguments,
)
from berdslib.evaluation.measures import (
    P,
    alpha_nDCG,
    nDCG,
    official_alpha_nDCG,
    official_nDCG,
    official_P,
    official_rKL,
    rKL,
)


def both(scenario, numbers, ours, official):
    """Return a list's score by either definition."""
    return evaluate_arguments(listing(scenario, numbers), scenario, [ours, official]).iloc[0].tolist()


def of_letters(scenario, numbers, ours, official):
    """Return a list's score by either definition, by the groups of letters alone."""
    run = listing(scenario, numbers)
    return [by_property(run, scenario, measure)[GROUP].iloc[0] for measure in (ours, official)]


def dcg(*gains):
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


@pytest.mark.parametrize("rule", SCENARIOS)
def test_the_published_script_itself_gives_the_same(rule):
    """Its own figures: a release of ours, and what BM25 lists; the mean over queries, of each variable and of all."""
    recorded = pd.read_csv(Path(__file__).parents[1] / "recorded" / "perspectivearg_script_seed7.csv")
    recorded = recorded[recorded["scenario"] == rule].set_index(["property", "k"])
    scenario = open_scenario(make_release(seed=7, arguments=2_000, issues=30), rule)
    run = bd.search("bm25", scenario, 1_000)
    of_all, got = evaluate_arguments(run, scenario, OFFICIAL_MEASURES).mean(), {}
    for measure in OFFICIAL_MEASURES:
        name, k = measure.NAME.removeprefix("official_"), measure["cutoff"]
        got["all", k, name] = of_all[str(measure)]
        if measure.NAME in (official_alpha_nDCG.NAME, official_rKL.NAME):
            got |= {(prop, k, name): mean for prop, mean in by_property(run, scenario, measure).mean().items()}
    want = {(*row, name): value for name in recorded.columns[1:] for row, value in recorded[name].dropna().items()}
    assert len(want) == 4 * (2 + 2 * 16) and got == pytest.approx(want, rel=0, abs=1e-9)


def test_a1_a_group_is_penalised_each_time_or_once():
    scenario = small_scenario("AAAABB", range(6))
    got = of_letters(scenario, [0, 1, 2, 3], alpha_nDCG @ 4, official_alpha_nDCG @ 4)
    assert got == pytest.approx([0.7128, 0.8495], abs=5e-5)
    # Clarke: A B A B, then A A A A, halved each time. Official: two firsts, then all alike.
    assert got[0] == pytest.approx(dcg(1, 1 / 2, 1 / 4, 1 / 8) / dcg(1, 1, 1 / 2, 1 / 2))
    assert got[1] == pytest.approx(dcg(1, 1 / 2, 1 / 2, 1 / 2) / dcg(1, 1, 1 / 2, 1 / 2))
    mild = of_letters(scenario, [0, 1, 2, 3], alpha_nDCG(alpha=0.2) @ 4, official_alpha_nDCG(alpha=0.2) @ 4)
    assert mild[1] == pytest.approx(dcg(1, 0.8, 0.8, 0.8) / dcg(1, 1, 0.8, 0.8)) and mild[1] > mild[0]


def test_a2_a_document_that_is_not_relevant_marks_its_group_or_does_not():
    # The figure on record: relevance 1 0 1 1 0, groups A A B A B; of the pool A A B B A, three are answers: A A B.
    scenario = small_scenario("AABAB", [0, 2, 3])
    got = of_letters(scenario, [0, 1, 2, 3, 4], alpha_nDCG @ 5, official_alpha_nDCG @ 5)
    assert got[1] == pytest.approx(0.911, abs=5e-3) and got[1] == pytest.approx(1.71534 / 1.88093, abs=1e-5)
    # Here both agree: A is seen at the first place anyhow. Where it is not, they part.
    scenario = small_scenario("AABAB", [1, 2, 3])
    got = of_letters(scenario, [0, 1, 2, 3, 4], alpha_nDCG @ 5, official_alpha_nDCG @ 5)
    assert got == pytest.approx([dcg(0, 1, 1, 0.5) / dcg(1, 1, 0.5), dcg(0, 0.5, 1, 0.5) / dcg(1, 1, 0.5)])


def test_a3_copies_count_in_the_gain_and_not_in_the_ideal_or_in_neither():
    women = [{"gender": ("female",), GROUP: ("left",)}] * 6
    texts = ["Eating is an individual decision."] * 5 + ["No."]
    scenario = small_scenario(women, [0], asked={"gender": ("female",)}, rule="implicit", texts=texts)
    got = both(scenario, [0, 1, 2, 3, 4], nDCG @ 4, official_nDCG @ 4)
    assert got == pytest.approx([1.0, 1 + 1 / math.log2(3) + 1 / 2 + 1 / math.log2(5)]) and round(got[1], 2) == 2.56
    assert both(scenario, [5, 1], P @ 2, official_P @ 2) == [0.0, 0.5]
    assert both(scenario, [5, 1], alpha_nDCG @ 2, official_alpha_nDCG @ 2)[0] == 0.0
    assert both(scenario, [5, 1], alpha_nDCG @ 2, official_alpha_nDCG @ 2)[1] > 0.0
    # In the other scenarios a copy is another argument, in both.
    explicit = small_scenario(women, [0], asked={"gender": ("female",)}, texts=texts)
    assert both(explicit, [0, 1, 2, 3, 4], nDCG @ 4, official_nDCG @ 4) == [1.0, 1.0]


def test_a5_diversity_after_relevance_changes_nothing_here():
    scenario = small_scenario("AABB", [0, 1])
    run, gold = listing(scenario, [0, 1, 2]), scenario.gold.copy()

    def official_ndcg_at_4(answers):
        return dcg(*(float(i in answers) for i in (0, 1, 2))) / dcg(*[1.0] * min(4, len(answers)))

    def official_diversity(answers):  # fills the caller's own list up to k, here with what happens to come next
        answers += [i for i in (2, 3) if len(answers) < 4]

    answers = [0, 1]
    before = official_ndcg_at_4(answers)
    official_diversity(answers)
    assert (before, official_ndcg_at_4(answers)) == (1.0, pytest.approx(dcg(1, 1, 1) / dcg(1, 1, 1, 1)))
    first = evaluate_arguments(run, scenario, [nDCG @ 4, official_nDCG @ 4])
    evaluate_arguments(run, scenario, [*ARGUMENT_MEASURES, *OFFICIAL_MEASURES])
    pd.testing.assert_frame_equal(evaluate_arguments(run, scenario, [nDCG @ 4, official_nDCG @ 4]), first)
    assert first.iloc[0].tolist() == [1.0, 1.0] and scenario.gold.equals(gold)


def test_a6_of_1000_answers_the_last_is_not_put_first_and_else_nothing_is_lost():
    measures = alpha_nDCG @ 2, official_alpha_nDCG @ 2
    scenario = small_scenario("AABB", range(4))
    assert of_letters(scenario, [0, 2, 1, 3], alpha_nDCG @ 4, official_alpha_nDCG @ 4) == [1.0, 1.0]
    for n, best in ((999, dcg(1, 1)), (1_000, dcg(1, 0.5))):
        scenario = small_scenario("A" * (n - 1) + "B", range(n))
        assert of_letters(scenario, [n - 1, 0], *measures) == pytest.approx([1.0, dcg(1, 1) / best])
    # Another B among them is put first, and so is the last one's group where the release has it in another order.
    assert of_letters(small_scenario("A" * 998 + "BB", range(1_000)), [999, 0], *measures) == [1.0, 1.0]
    assert of_letters(small_scenario("A" * 999 + "B", range(999, -1, -1)), [999, 0], *measures) == [1.0, 1.0]


def test_a7_one_side_in_natural_logarithms_or_both_in_bits_over_the_maximum():
    scenario = small_scenario("AAAAAAABBB", [0])
    got = of_letters(scenario, [0, 7], rKL @ 2, official_rKL @ 2)
    assert got[1] == pytest.approx(kl_div(0.5, 0.3)) and round(got[1], 3) == 0.055
    two_sided = 0.5 * math.log2(0.5 / 0.3) + 0.5 * math.log2(0.5 / 0.7)
    assert round(two_sided, 3) == 0.126 and got[0] == pytest.approx(two_sided / math.log2(1 / 0.3))


def official_sum(shares, of_corpus):
    """Return the divergences of a group's shares at cut points, over the sum of their discounts."""
    terms = [kl_div(share, of_corpus) / math.log2(cut) for cut, share in shares.items()]
    return sum(terms) / sum(1 / math.log2(cut) for cut in shares)


def test_a7_a_short_list_is_divided_by_the_cut_point():
    scenario = small_scenario("AAAAAAABBB", [0])
    got = evaluate_arguments(listing(scenario, [0, 7, 8]), scenario, official_rKL @ 10).iloc[0, 0]
    assert got == pytest.approx(official_sum({2: 1 / 2, 4: 2 / 4, 8: 2 / 8, 10: 2 / 10}, 0.3))


def test_a8_all_variables_or_those_that_the_query_does_not_name():
    issues = [f"issue {i}" for i in range(8)]
    someone = dict.fromkeys(PROPERTIES, ("one",)) | {ISSUES: tuple(issues[:4])}
    other = dict.fromkeys(PROPERTIES, ("another",)) | {ISSUES: tuple(issues[4:])}
    scenario = small_scenario([someone, other] * 10, range(0, 20, 2), asked={"age": ("one",)})
    run = listing(scenario, [0, 2, 4, 1])
    ours = by_property(run, scenario, alpha_nDCG @ 4).iloc[0]
    assert ours.index.tolist() == list(PROPERTIES) and ours[ours.isna()].index.tolist() == ["age"]
    official = by_property(run, scenario, official_alpha_nDCG @ 4).iloc[0]
    assert len(official) == 15 and official.notna().all() and {"age", "stance"} <= set(official.index)
    assert "denomination" not in official.index and sum(name.startswith(ISSUES) for name in official.index) == 8
    for frame, measure in ((ours, alpha_nDCG @ 4), (official, official_alpha_nDCG @ 4)):
        assert evaluate_arguments(run, scenario, measure).iloc[0, 0] == pytest.approx(frame.mean())


def test_a8_the_figures_of_the_page():
    asked = {"age": ("18-34",)}
    scenario = small_scenario([asked | {GROUP: (letter,)} for letter in "ABA"], range(3), asked=asked, rule="implicit")
    got = both(scenario, [0, 2], alpha_nDCG @ 2, official_alpha_nDCG @ 2)
    of_letters_alone = dcg(1, 1 / 2) / dcg(1, 1)
    assert got[0] == pytest.approx(of_letters_alone) and round(got[0], 3) == 0.807
    # By six of the script's seven variables, since nobody states an issue, all three are of one group.
    assert got[1] == pytest.approx((of_letters_alone + 6) / 7) and round(got[1], 3) == 0.972


def test_a9_short_lists_keep_k_or_shrink_it():
    scenario = small_scenario("AAAA", range(4))
    assert both(scenario, [0], P @ 4, official_P @ 4) == [0.25, 1.0]
    assert both(scenario, [0, 1, 2, 3], P @ 2, official_P @ 2) == [1.0, 1.0]


def test_a9_a_repeat_is_an_error_and_would_be_credited_again():
    scenario = small_scenario("AB", [0])
    listed = [0, 0, 0]
    assert sum(number in {0} for number in listed) / len(listed) == 1.0  # the script's P@3
    frame = pd.DataFrame({"qid": "q", "docno": [scenario.docnos["d0"]] * 3, "score": [3.0, 2.0, 1.0]})
    with pytest.raises(InputError, match=scenario.docnos["d0"]):
        evaluate_arguments(frame, scenario, [P @ 3, official_P @ 3])
    assert both(scenario, [0], P @ 3, official_P @ 3) == [pytest.approx(1 / 3), 1.0]
