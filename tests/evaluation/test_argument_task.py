"""Scores of scenarios against the ordinary measures, property by property, by hand, and what must hold for any."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pyndeval
import pytest
from small_scenarios import GROUP, listing, random_release, random_run, small_scenario

from berdslib.data.arguments import ISSUES, PROPERTIES, Argument, Release
from berdslib.data.records import Question, make_verdicts, ranked_run
from berdslib.data.scenario import SCENARIOS, open_scenario
from berdslib.errors import InputError
from berdslib.evaluation.arguments import ARGUMENT_MEASURES, by_property, evaluate_arguments
from berdslib.evaluation.measures import (
    ERR_IA,
    Coverage,
    MRecall,
    P,
    Precision,
    StRecall,
    alpha_nDCG,
    nDCG,
    rKL,
    score_run,
)

OF_GROUPS = [measure @ k for measure in (alpha_nDCG, StRecall, Coverage, MRecall, ERR_IA) for k in (1, 4, 20)]
OF_GROUPS += [alpha_nDCG(alpha=0.3) @ 8, alpha_nDCG, StRecall, Coverage, MRecall, ERR_IA]


def random_case(seed, rule="explicit", **sizes):
    rng = np.random.default_rng(seed)
    scenario = open_scenario(random_release(rng, **sizes), rule)
    return scenario, random_run(rng, scenario)


def as_questions(scenario, name):
    """Return a property as ordinary questions and verdicts: its groups are the perspectives."""
    groups = sorted({value for profile in scenario.authors.values() for value in profile.get(name, ())})
    answers = scenario.gold.groupby("qid")["docno"].agg(list).to_dict()
    questions, rows = [], []
    for q in scenario.questions:
        of_group = [(d, groups.index(v)) for d in answers[q.qid] for v in scenario.authors[d].get(name, ())]
        if name not in scenario.asked.get(q.qid, {}) and of_group:
            questions.append(Question(q.qid, q.text, tuple(groups)))
            rows += [(q.qid, pid, d, 1.0, True) for d, pid in of_group]
    return questions, make_verdicts(rows, "gold")


# ---------------------------------------------------------------- against the ordinary measures


@pytest.mark.slow
@pytest.mark.parametrize("rule", SCENARIOS)
def test_group_measures_are_the_ordinary_ones_property_by_property(rule):
    for seed in range(4):
        scenario, run = random_case(seed, rule)
        frames = {}
        for name in PROPERTIES:
            questions, verdicts = as_questions(scenario, name)
            frames[name] = score_run(run, verdicts, questions, OF_GROUPS)
        qids = [q.qid for q in scenario.questions]
        mean = pd.concat(frames.values()).groupby(level=0).mean().reindex(qids).fillna(0.0)
        got = evaluate_arguments(run, scenario, OF_GROUPS)
        pd.testing.assert_frame_equal(got, mean.rename_axis("qid"), rtol=0, atol=1e-12)
        for measure in (alpha_nDCG @ 4, MRecall @ 20):
            alone = pd.DataFrame({name: frame[str(measure)].reindex(qids) for name, frame in frames.items()})
            table = by_property(run, scenario, measure)
            pd.testing.assert_frame_equal(table, alone.rename_axis("qid"), rtol=0, atol=1e-12)


@pytest.mark.parametrize("rule", SCENARIOS)
def test_relevance_measures_are_the_ordinary_ones(rule):
    scenario, run = random_case(7, rule)
    wanted = [nDCG @ 4, P @ 4, Precision @ 20, nDCG, Precision]
    want = score_run(run, scenario.gold, scenario.questions, wanted)
    pd.testing.assert_frame_equal(evaluate_arguments(run, scenario, wanted), want, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_alpha_ndcg_of_one_property_is_that_of_ndeval():
    compared = 0
    for seed in range(6):
        scenario, run = random_case(seed, groups=6)
        for name in ("age", ISSUES):
            questions, verdicts = as_questions(scenario, name)
            qrels = [pyndeval.SubtopicQrel(r.qid, str(r.pid), r.docno, 1) for r in verdicts.itertuples()]
            docs = [pyndeval.ScoredDoc(r.qid, r.docno, r.score) for r in run.itertuples()]
            theirs = pyndeval.RelevanceEvaluator(qrels, ["alpha-nDCG@10"], alpha=0.3).evaluate(docs)
            ours = by_property(run, scenario, alpha_nDCG(alpha=0.3) @ 10)[name].dropna()
            assert ours.index.tolist() == [q.qid for q in questions]
            for qid, score in ours.items():
                assert score == pytest.approx(theirs.get(qid, {}).get("alpha-nDCG@10", 0.0), abs=1e-6)
                compared += 1
    assert compared > 600


# ---------------------------------------------------------------- by hand


def test_where_no_property_is_left_nothing_was_shown():
    scenario = small_scenario("AB", [0], asked={GROUP: ("A",)})
    got = evaluate_arguments(listing(scenario, [0]), scenario, [alpha_nDCG @ 4, Coverage @ 4, rKL @ 4, nDCG @ 4])
    assert got.iloc[0].tolist() == [0.0, 0.0, 1.0, 1.0]
    nobody = small_scenario([{}, {}], [0])
    got = evaluate_arguments(listing(nobody, [0]), nobody, [alpha_nDCG @ 4, rKL @ 4, "official_rKL@4", nDCG @ 4])
    assert got.iloc[0].tolist() == [0.0, 1.0, 0.0, 1.0]


def test_an_unanswered_query_scores_worst_and_is_warned_of(caplog):
    scenario, run = random_case(3)
    first = scenario.questions[0].qid
    rest = run[run["qid"] != first]
    got = evaluate_arguments(rest, scenario)
    asked, listed = len(scenario.questions), rest["qid"].nunique()
    assert f"{asked - listed} of {asked}" in caplog.text
    assert got.loc[first].tolist() == pytest.approx([0.0] * 12 + [1.0] * 4)
    assert got.index.tolist() == [q.qid for q in scenario.questions]
    nothing = evaluate_arguments(ranked_run({}), scenario)
    assert nothing.mean().tolist() == pytest.approx([0.0] * 12 + [1.0] * 4)


@pytest.mark.parametrize("synthetic", [True, False])
def test_a_table_by_property_says_whether_the_data_are_synthetic(synthetic):
    release = replace(random_release(np.random.default_rng(0)), synthetic=synthetic)
    scenario = open_scenario(release, "explicit")
    run = random_run(np.random.default_rng(1), scenario)
    assert by_property(run, scenario, rKL @ 4).attrs == {"release": "random", "synthetic": synthetic}


def test_no_message_quotes_a_profile():
    secret = "Zwischenbergen"
    arguments = tuple(Argument(f"d{i}", f"text {i}", "?", "PRO", {"residence": (secret,)}) for i in range(3))
    scenario = open_scenario(Release("r", arguments, small_scenario("A", [0]).release.baseline), "baseline")
    for run, measures in ((ranked_run({"q": ["d9"]}), ARGUMENT_MEASURES), (listing(scenario, [0]), "pRecall@5")):
        with pytest.raises(InputError) as refused:
            evaluate_arguments(run, scenario, measures)
        assert secret not in str(refused.value)


def test_a_query_by_hand():
    # By attitude, of the answers 0 1 2 3: A A B, and one unknown. By age: young, young, old, old.
    ages = ("young", "young", "old", "old", "old", "young")
    people = [{"age": (age,)} | ({GROUP: (g,)} if g != "-" else {}) for age, g in zip(ages, "AAB-BB", strict=True)]
    scenario = small_scenario(people, [0, 1, 2, 3])
    run = listing(scenario, [0, 4, 1, 2])  # relevant but for the second; A B A B, young old young old
    gain, ideal = 1 + 0.5 / math.log2(4) + 1 / math.log2(5), 1 + 1 / math.log2(3) + 0.5 / math.log2(4)
    alpha = {GROUP: gain / ideal, "age": gain / (ideal + 0.5 / math.log2(5))}
    got = by_property(run, scenario, alpha_nDCG @ 4).loc["q"]
    assert got.dropna().to_dict() == pytest.approx(alpha) and got.index.tolist() == list(PROPERTIES)
    ndcg = (1 + 1 / math.log2(4) + 1 / math.log2(5)) / (1 + 1 / math.log2(3) + 1 / math.log2(4) + 1 / math.log2(5))
    wanted = [nDCG @ 4, P @ 4, alpha_nDCG @ 4, Coverage @ 3, MRecall @ 4, rKL @ 4]
    # Attitude: B is the largest group of the corpus, 3 of 6, A (2 of 6) is protected; half A after two and after four.
    # The most would be two of A, then two of A in four: the second is what is there.
    first, then = math.log2(1 / (1 / 3)), 0.5 * math.log2(0.5 / (1 / 3)) + 0.5 * math.log2(0.5 / (2 / 3))
    rkl = {GROUP: (then + then / 2) / (first + then / 2), "age": 0.0}
    want = [ndcg, 0.75, sum(alpha.values()) / 2, 0.5, 1.0, sum(rkl.values()) / 2]
    assert evaluate_arguments(run, scenario, wanted).iloc[0].tolist() == pytest.approx(want)
    assert by_property(run, scenario, rKL @ 4).loc["q"].dropna().to_dict() == pytest.approx(rkl)
