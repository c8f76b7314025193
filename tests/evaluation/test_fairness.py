"""rKL against the formula in plain Python, against all rankings of small corpora, and by hand."""

import itertools
import math

import numpy as np
import pytest
from small_scenarios import listing, random_release, random_run, small_scenario

from berdslib.data.scenario import open_scenario
from berdslib.evaluation.arguments import by_property, cut_points, evaluate_arguments, rkl
from berdslib.evaluation.measures import rKL


def divergence(p, q):
    """D(p || q) of two coins, in bits."""
    heads = p * math.log2(p / q) if p > 0 else 0.0
    tails = (1 - p) * math.log2((1 - p) / (1 - q)) if p < 1 else 0.0
    return heads + tails


def discounted(order, share, cuts):
    """The sum for one ranking, a list of 1 for the group and 0 for others."""
    return sum(divergence(sum(order[:i]) / i, share) / math.log2(i) for i in cuts)


def score(order, size, total, k, step=2):
    of_group = np.array(order, dtype=bool)[:k, None]
    return float(rkl(of_group, np.array(len(order)), np.array([size]), total, [(k, step)])[0])


def test_by_hand():
    # Half of the first two, 3 of 10 in the corpus: .1258 bits over log2(2). The worst is two of it: log2(1 / .3).
    assert divergence(0.5, 0.3) == pytest.approx(0.126, abs=5e-4)
    assert score([0, 1], 3, 10, 2) == pytest.approx(0.125770 / 1.736966, abs=1e-6)
    scenario = small_scenario("AAAAAAABBB", [0])
    got = evaluate_arguments(listing(scenario, [0, 7]), scenario, rKL @ 2).iloc[0, 0]
    assert got == pytest.approx(0.0724075, abs=1e-6)
    # At two cut points: half and half of two, one of four; the worst has two, then three of the group.
    found = divergence(0.5, 0.3) / 1 + divergence(0.25, 0.3) / 2
    worst = divergence(1.0, 0.3) / 1 + divergence(0.75, 0.3) / 2
    assert score([0, 1, 0, 0], 3, 10, 4) == pytest.approx(found / worst)


@pytest.mark.slow
def test_the_maximum_is_that_of_all_rankings_of_small_corpora():
    for total in range(2, 10):
        for size in range(1, total):
            for k, step in itertools.product(range(2, total + 1), (2, 3)):
                cuts = cut_points(k, step).tolist()
                of_corpus = [1] * size + [0] * (total - size)
                orders = {order[: max(cuts)] for order in set(itertools.permutations(of_corpus))} if total < 8 else (
                    set(itertools.product((0, 1), repeat=max(cuts)))
                )  # fmt: skip
                fitting = [o for o in orders if sum(o) <= size and len(o) - sum(o) <= total - size]
                sums = {order: discounted(order, size / total, cuts) for order in fitting}
                worst = max(sums.values())
                if worst < 1e-12:
                    assert math.isnan(score(fitting[0], size, total, k, step))
                    continue
                for order, found in sums.items():
                    assert score(order, size, total, k, step) == pytest.approx(found / worst, abs=1e-12)


def test_from_0_the_shares_of_the_corpus_to_1_the_group_first_or_last():
    even, first, last = [0, 1] * 10, [1] * 10 + [0] * 10, [0] * 10 + [1] * 10
    assert score(even, 50, 100, 20) == 0.0
    assert score(first, 50, 100, 20) == pytest.approx(score(last, 50, 100, 20)) and 0.5 < score(first, 50, 100, 20) < 1
    assert [score(order, 50, 100, 20) for order in ([1] * 20, [0] * 20, [])] == pytest.approx([1.0] * 3)
    # Of a small group, none in 20 is far less remarkable than twenty.
    assert score([0] * 20, 20, 100, 20) == pytest.approx(math.log2(1 / 0.8) / math.log2(1 / 0.2))


def test_a_short_list_gains_nothing():
    rng = np.random.default_rng(0)
    for _ in range(100):
        total = int(rng.integers(2, 40))
        size, k = int(rng.integers(1, total)), int(rng.integers(2, 30))
        order = rng.permutation([1] * size + [0] * (total - size)).tolist()
        scores = [score(order[:n], size, total, k) for n in range(total + 1)]
        if not math.isnan(scores[0]):
            assert scores[0] == pytest.approx(1.0) and (np.diff(scores) <= 1e-12).all() and min(scores) >= 0.0


def test_cut_points_beyond_the_corpus_do_not_count_and_a_k_below_the_step_is_one():
    assert score([1, 0, 0, 1], 2, 4, 20) == score([1, 0, 0, 1], 2, 4, 4)
    assert score([1, 0, 0], 3, 10, 3, step=10) == score([1, 0, 0], 3, 10, 3, step=3)
    assert math.isnan(score([1], 1, 1, 20)) and math.isnan(score([1, 1], 2, 2, 2))


def plain_rkl(order, profiles, name, k, step=2):
    """The definition, word for word: None where nobody is in a minority."""
    total, groups = len(profiles), sorted({v for p in profiles.values() for v in p.get(name, ())})
    size = {g: sum(g in p.get(name, ()) for p in profiles.values()) for g in groups}
    largest = max(size.values(), default=0)
    minorities = [g for g in groups if size[g] < largest] or groups
    k = min(k, total)
    scores = []
    for g in minorities:
        share, found, ends = size[g] / total, 0.0, [0.0, 0.0]
        if share == 1.0:
            continue
        for i in range(step, k + 1, step) if k >= step else [k]:
            most = min(i, size[g]) / i, max(0, i - total + size[g]) / i
            worst = [divergence(p, share) / math.log2(i) for p in most]
            ends = [a + b for a, b in zip(ends, worst, strict=True)]
            p = sum(g in profiles[d].get(name, ()) for d in order[:i]) / i
            found += divergence(p, share) / math.log2(i) if len(order) >= i else max(worst)
        if max(ends) > 1e-12:
            scores.append(min(1.0, found / max(ends)))
    return sum(scores) / len(scores) if scores else None


@pytest.mark.slow
def test_random_scenarios_score_as_the_formula_in_plain_python():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        scenario = open_scenario(random_release(rng, n=int(rng.integers(3, 60))), "explicit")
        run = random_run(rng, scenario)
        lists = run.groupby("qid")["docno"].agg(list).to_dict()
        for measure in (rKL @ 2, rKL @ 20, rKL(step=5) @ 12, rKL(step=7) @ 3):
            k, step, table = measure["cutoff"], measure["step"], by_property(run, scenario, measure)
            mean = evaluate_arguments(run, scenario, measure)[str(measure)]
            for q in scenario.questions:
                order, named = lists.get(q.qid, []), scenario.asked[q.qid]
                want = {n: plain_rkl(order, scenario.authors, n, k, step) for n in table.columns if n not in named}
                want = {name: value for name, value in want.items() if value is not None}
                assert table.loc[q.qid].dropna().to_dict() == pytest.approx(want, abs=1e-12)
                assert mean[q.qid] == pytest.approx(sum(want.values()) / len(want), abs=1e-12)


def test_all_groups_but_the_largest_are_protected():
    # Among the first two, one of six: of A, the largest, it is never asked. B and C are hidden, as far as can be.
    scenario = small_scenario("AAAABBC", [0])
    b, c = (divergence(0.0, size / 7) / max(divergence(0.0, size / 7), divergence(min(2, size) / 2, size / 7))
            for size in (2, 1))  # fmt: skip
    assert evaluate_arguments(listing(scenario, [0, 1]), scenario, rKL @ 2).iloc[0, 0] == pytest.approx((b + c) / 2)
    # A and B are both the largest; all three are of one size.
    for groups, minorities in (("AABBC", "C"), ("AABBCC", "ABC")):
        scenario = small_scenario(groups, [0])
        each = [score([int(groups[i] == g) for i in (0, 2)], groups.count(g), len(groups), 2) for g in minorities]
        got = evaluate_arguments(listing(scenario, [0, 2]), scenario, rKL @ 2).iloc[0, 0]
        assert got == pytest.approx(sum(each) / len(each))
