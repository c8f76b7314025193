"""rKL against the formula in plain Python, against all rankings of small corpora, and by hand."""

import itertools
import math

import numpy as np
import pytest
from small_scenarios import random_release, random_run

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
