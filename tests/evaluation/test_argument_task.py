"""Scores of scenarios against the ordinary measures, property by property, by hand, and what must hold for any."""

import math
import tracemalloc
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
from berdslib.evaluation import arguments, tables
from berdslib.evaluation.arguments import (
    ARGUMENT_MEASURES,
    OFFICIAL_MEASURES,
    by_property,
    evaluate_arguments,
    group_shares,
)
from berdslib.evaluation.measures import (
    ERR_IA,
    Coverage,
    MRecall,
    P,
    Precision,
    StRecall,
    alpha_nDCG,
    evaluate,
    nDCG,
    pRecall,
    rKL,
)

OF_GROUPS = [measure @ k for measure in (alpha_nDCG, StRecall, Coverage, MRecall, ERR_IA) for k in (1, 4, 20)]
OF_GROUPS += [alpha_nDCG(alpha=0.3) @ 8, alpha_nDCG, StRecall, Coverage, MRecall, ERR_IA]
EVERYTHING = [*ARGUMENT_MEASURES, *OFFICIAL_MEASURES, *OF_GROUPS]


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
            frames[name] = evaluate(run, verdicts, questions, OF_GROUPS)
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
    want = evaluate(run, scenario.gold, scenario.questions, wanted)
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


def test_a_property_that_the_query_names_and_one_that_nobody_is_known_to_have_are_left_out():
    people = [{"age": ("young",), GROUP: ("left",)}, {"age": ("old",), GROUP: ("right",)}, {"gender": ("male",)}]
    scenario = small_scenario(people, [0], asked={"age": ("young",)})
    run = listing(scenario, [0, 1])
    # No answer is by somebody whose gender is known; for rKL it is enough that somebody's is.
    assert by_property(run, scenario, alpha_nDCG @ 4).loc["q"].dropna().index.tolist() == [GROUP]
    assert by_property(run, scenario, rKL @ 2).loc["q"].dropna().index.tolist() == ["gender", GROUP]


def test_where_no_property_is_left_nothing_was_shown():
    scenario = small_scenario("AB", [0], asked={GROUP: ("A",)})
    got = evaluate_arguments(listing(scenario, [0]), scenario, [alpha_nDCG @ 4, Coverage @ 4, rKL @ 4, nDCG @ 4])
    assert got.iloc[0].tolist() == [0.0, 0.0, 1.0, 1.0]
    nobody = small_scenario([{}, {}], [0])
    got = evaluate_arguments(listing(nobody, [0]), nobody, [alpha_nDCG @ 4, rKL @ 4, "official_rKL@4", nDCG @ 4])
    assert got.iloc[0].tolist() == [0.0, 1.0, 0.0, 1.0]


def test_whoever_is_in_several_groups_counts_for_each():
    people = [{ISSUES: ("law", "green")}, {ISSUES: ("law",)}, {ISSUES: ("green",)}, {ISSUES: ("law",)}]
    scenario = small_scenario(people, range(4))
    got = evaluate_arguments(listing(scenario, [0, 1]), scenario, [Coverage @ 1, alpha_nDCG @ 2, rKL @ 2]).iloc[0]
    # Gains 2 and a half of law; the same is the best. Green, 2 of 4, is the minority: one of the first two is even.
    assert got.tolist() == [1.0, 1.0, 0.0]


def test_an_unanswered_query_scores_worst_and_is_warned_of(caplog):
    scenario, run = random_case(3)
    first = scenario.questions[0].qid
    rest = run[run["qid"] != first]
    got = evaluate_arguments(rest, scenario)
    asked, listed = len(scenario.questions), rest["qid"].nunique()
    assert f"{asked - listed} of {asked} questions have no passage in the run" in caplog.text
    assert got.loc[first].tolist() == pytest.approx([0.0] * 12 + [1.0] * 4)
    assert got.index.tolist() == [q.qid for q in scenario.questions]
    nothing = evaluate_arguments(ranked_run({}), scenario)
    assert nothing.mean().tolist() == pytest.approx([0.0] * 12 + [1.0] * 4)


# ---------------------------------------------------------------- what must hold


@pytest.mark.slow
def test_a_thousand_queries_whatever_they_are():
    n = 0
    for seed in range(15):
        scenario, run = random_case(seed, groups=3)
        kept = run.copy(), scenario.gold.copy()
        got = evaluate_arguments(run, scenario, EVERYTHING)
        # The ideal list of alpha-nDCG is greedy, so a list can beat it by a little where groups overlap.
        bounded = got[[c for c in got if not c.startswith(("official", "alpha"))]]
        assert (got >= 0).all(axis=None) and (bounded <= 1 + 1e-12).all(axis=None)
        apart = by_property(run, scenario, alpha_nDCG @ 8).drop(columns=ISSUES).to_numpy()
        assert (apart[~np.isnan(apart)] <= 1 + 1e-12).all()
        # Twice the same, in any order of rows and of queries; nothing is changed.
        pd.testing.assert_frame_equal(evaluate_arguments(run, scenario, EVERYTHING), got)
        shuffled = run.sample(frac=1, random_state=seed)
        pd.testing.assert_frame_equal(evaluate_arguments(shuffled, scenario, EVERYTHING), got)
        turned = scenario.only(scenario.questions[::-1])
        pd.testing.assert_frame_equal(evaluate_arguments(run, turned, EVERYTHING), got[::-1])
        assert run.equals(kept[0]) and scenario.gold.equals(kept[1])
        n += len(got)
    assert n >= 1000


@pytest.mark.slow
def test_what_groups_are_called_changes_nothing():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        release = random_release(rng)
        values = sorted({v for one in release.arguments for vs in one.profile.values() for v in vs})
        other = dict(zip(values, rng.permutation(values).tolist(), strict=True))

        def renamed(profile, other=other):
            return {name: tuple(other[v] for v in several) for name, several in profile.items()}

        arguments = tuple(one._replace(profile=renamed(one.profile)) for one in release.arguments)
        queries = tuple(q._replace(asked=renamed(q.asked)) for q in release.perspective)
        scenario = open_scenario(release, "explicit")
        again = open_scenario(Release("renamed", arguments, release.baseline, queries), "explicit")
        run = random_run(rng, scenario)
        measures = [m for m in EVERYTHING if "0.3" not in str(m)]
        a, b = (evaluate_arguments(run, s, measures) for s in (scenario, again))
        pd.testing.assert_frame_equal(a, b, rtol=0, atol=1e-12)


def test_the_blocks_in_which_it_is_computed_change_nothing(monkeypatch):
    scenario, run = random_case(5)
    want = evaluate_arguments(run, scenario, EVERYTHING)
    for module in (arguments, tables):
        monkeypatch.setattr(module, "BLOCK", 300)
    pd.testing.assert_frame_equal(evaluate_arguments(run, scenario, EVERYTHING), want, rtol=0, atol=1e-12)


def test_a_part_of_the_queries_scores_as_the_whole():
    scenario, run = random_case(6)
    part = scenario.only(scenario.questions[3:9])
    got = evaluate_arguments(run, part, EVERYTHING)
    pd.testing.assert_frame_equal(got, evaluate_arguments(run, scenario, EVERYTHING)[3:9], rtol=0, atol=1e-12)


def test_measures_may_be_names():
    scenario, run = random_case(8, n=20)
    got = evaluate_arguments(run, scenario, "nDCG@4, rKL(step=4)@8, official_alpha_nDCG(alpha=0.3)@8")
    assert got.columns.tolist() == ["nDCG@4", "rKL(step=4)@8", "official_alpha_nDCG(alpha=0.3)@8"]


# ---------------------------------------------------------------- what is refused


def test_docnos_that_the_scenario_does_not_have():
    scenario = small_scenario("AB", [0], asked={"age": ("18-34",)}, rule="implicit")
    with pytest.raises(InputError, match=r"'elsewhere' is not a docno of 'small:implicit'$"):
        evaluate_arguments(ranked_run({"q": ["elsewhere"]}), scenario)
    with pytest.raises(InputError, match="'d1' is not a docno of 'small:implicit'; it is an id of the release"):
        evaluate_arguments(ranked_run({"q": ["d1"]}), scenario)
    # A run may also list what was not asked.
    run = ranked_run({"q": [scenario.docnos["d0"]], "unasked": ["elsewhere"]})
    assert evaluate_arguments(run, scenario, nDCG @ 4).iloc[0, 0] == 1.0


def test_runs_of_other_questions_and_what_is_no_run():
    scenario = small_scenario("AB", [0])
    ways = (
        evaluate_arguments,
        lambda run, of: group_shares(run, of, 5),
        lambda run, of: by_property(run, of, rKL @ 4),
    )
    for score in ways:
        with pytest.raises(InputError, match="the run and the questions do not belong together: 'other' against 'q'"):
            score(ranked_run({"other": ["d0"]}), scenario)
        with pytest.raises(InputError, match="a run is a data frame"):
            score({"q": ["d0"]}, scenario)


@pytest.mark.parametrize("measure", [pRecall @ 5, "AP@5", "rKL", 5])
def test_measures_that_are_not_computed_over_a_scenario(measure):
    scenario = small_scenario("AB", [0])
    with pytest.raises(InputError):
        evaluate_arguments(listing(scenario, [0]), scenario, measure)


@pytest.mark.parametrize("measure", [nDCG @ 4, "P@4", "official_P@4", "rKL@4,rKL@8"])
def test_by_property_is_of_one_measure_that_looks_at_groups(measure):
    scenario = small_scenario("AB", [0])
    with pytest.raises(InputError, match="one measure that looks at groups is needed"):
        by_property(listing(scenario, [0]), scenario, measure)


# ---------------------------------------------------------------- who is shown


def shares(*args, **options):
    return group_shares(*args, **options).set_index("group")


def test_shares_of_groups_by_hand():
    scenario = small_scenario("AAAAAABBB-", [0])
    table = shares(listing(scenario, [0, 6, 9, 7, 1]), scenario, 4, smallest=1)
    assert table["property"].tolist() == [GROUP] * 2 and table["queries"].tolist() == [1, 1]
    assert table["corpus_share"].tolist() == [0.6, 0.3] and table["shown_share"].tolist() == [0.25, 0.5]
    assert table["ratio"].tolist() == pytest.approx([0.25 / 0.6, 0.5 / 0.3])
    assert table[["low", "high"]].isna().all(axis=None)  # one issue only


def test_small_groups_are_put_together_and_whoever_is_in_two_of_them_counts_once():
    people = [{ISSUES: ("law",)}] * 10 + [{ISSUES: ("green", "law")}, {ISSUES: ("green", "open")}, {ISSUES: ("green",)}]
    people += [{}]
    scenario = small_scenario(people, [0])
    table = shares(listing(scenario, [10, 11, 0]), scenario, 5, smallest=3)
    assert table.index.tolist() == ["law", "(smaller groups)"]
    assert table["corpus_share"].tolist() == pytest.approx([11 / 14, 3 / 14])
    assert table["shown_share"].tolist() == pytest.approx([2 / 3, 2 / 3])
    assert shares(listing(scenario, [11, 0]), scenario, 5, smallest=1).index.tolist() == ["law", "green", "open"]


def test_no_row_of_shares_is_of_fewer_arguments_than_the_smallest_group_may_have():
    # One D alone would be shown by itself, or could be told by what is missing from the sum.
    scenario = small_scenario("A" * 40 + "B" * 35 + "C" * 33 + "D", [0])
    table = shares(listing(scenario, [0]), scenario, 5)
    assert table["corpus_share"].tolist() == pytest.approx([40 / 109, 35 / 109, 34 / 109])
    assert table.index.tolist() == ["A", "B", "(smaller groups)"]
    few = small_scenario("A" * 20 + "B" * 8 + "-" * 30, [0])
    assert shares(listing(few, [0]), few, 5).empty  # all together are too few
    assert shares(listing(few, [0]), few, 5, smallest=20).index.tolist() == ["(smaller groups)"]


def test_shares_of_random_releases_hold_no_row_below_the_smallest():
    for seed in range(3):
        scenario, run = random_case(seed)
        for smallest in (5, 17, 30):
            table = group_shares(run, scenario, 10, smallest=smallest, resamples=10)
            assert (table["corpus_share"] * len(scenario.passages) >= smallest - 1e-9).all()
            assert len(table)


def test_queries_that_name_a_property_say_nothing_of_it():
    scenario, run = random_case(9)
    table = group_shares(run, scenario, 10, smallest=1, resamples=200)
    for name, part in table.groupby("property"):
        unnamed = [q.qid for q in scenario.questions if name not in scenario.asked[q.qid]]
        top = run[run["qid"].isin(unnamed) & (run["rank"] <= 10)]
        assert set(part["queries"]) == {len(unnamed)}
        for row in part.itertuples():
            of_group = {d for d, profile in scenario.authors.items() if row.group in profile.get(name, ())}
            assert row.corpus_share == pytest.approx(len(of_group) / len(scenario.passages))
            assert row.shown_share == pytest.approx(top["docno"].isin(of_group).mean())
            assert row.low <= row.ratio <= row.high


def test_shares_of_nothing():
    scenario = small_scenario("AB", [0])
    table = group_shares(ranked_run({}), scenario, 5, smallest=1)
    assert table["corpus_share"].tolist() == [0.5, 0.5]
    assert table[["shown_share", "ratio", "low", "high"]].isna().all(axis=None)
    nobody = small_scenario([{}, {}], [0])
    empty = group_shares(listing(nobody, [0]), nobody, 5)
    assert len(empty) == 0 and empty.columns.tolist() == table.columns.tolist()
    named = small_scenario("AB", [0], asked={GROUP: ("A",)})
    assert len(group_shares(listing(named, [0]), named, 5)) == 0


@pytest.mark.parametrize("options", [{"k": 0}, {"k": 2.5}, {"k": 5, "smallest": 0}])
def test_k_and_the_smallest_group_are_whole_numbers_from_1(options):
    scenario = small_scenario("AB", [0])
    with pytest.raises(InputError, match="must be"):
        group_shares(listing(scenario, [0]), scenario, **options)


@pytest.mark.parametrize("options", [{"level": 1.5}, {"resamples": 0}])
def test_an_interval_of_shares_needs_a_level_and_samples(options):
    scenario = small_scenario("AB", [0])
    with pytest.raises(InputError, match="must be"):
        group_shares(listing(scenario, [0]), scenario, 5, smallest=1, **options)


@pytest.mark.parametrize("synthetic", [True, False])
def test_tables_of_groups_say_whether_the_data_are_synthetic(synthetic):
    release = replace(random_release(np.random.default_rng(0)), synthetic=synthetic)
    scenario = open_scenario(release, "explicit")
    run = random_run(np.random.default_rng(1), scenario)
    assert set(group_shares(run, scenario, 5, smallest=5)["synthetic"]) == {synthetic}
    assert by_property(run, scenario, rKL @ 4).attrs == {"release": "random", "synthetic": synthetic}


@pytest.mark.parametrize("measure", ["official_nDCG", "official_alpha_nDCG", "official_rKL", "official_P"])
def test_a_large_cutoff_costs_no_more_than_the_corpus_is_large(measure):
    scenario, run = random_case(4)
    total = len(scenario.passages)
    whole = evaluate_arguments(run, scenario, f"{measure}@{total}")
    tracemalloc.start()
    deep = evaluate_arguments(run, scenario, f"{measure}@{10**5}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6
    np.testing.assert_array_equal(deep, whole)


def test_no_message_quotes_a_profile():
    secret = "Zwischenbergen"
    arguments = tuple(Argument(f"d{i}", f"text {i}", "?", "PRO", {"residence": (secret,)}) for i in range(3))
    scenario = open_scenario(Release("r", arguments, small_scenario("A", [0]).release.baseline), "baseline")
    for run, measures in ((ranked_run({"q": ["d9"]}), ARGUMENT_MEASURES), (listing(scenario, [0]), "pRecall@5")):
        with pytest.raises(InputError) as refused:
            evaluate_arguments(run, scenario, measures)
        assert secret not in str(refused.value)
    assert secret not in group_shares(listing(scenario, [0, 1]), scenario, 5).to_string()
