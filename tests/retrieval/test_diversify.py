"""Diversifiers: MMR against equation 1, the others against their papers and pyversity, and what holds for all."""

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import pyversity

import berdslib as bd
from berdslib.data.records import check_run, make_run, ranked_run
from berdslib.errors import InputError
from berdslib.retrieval.diversify import (
    DIVERSIFIERS,
    NORMALISATIONS,
    diversify,
    mmr_orders,
    mmr_picks,
    own_diversifier,
)
from berdslib.retrieval.expansion import reciprocal_rank_fusion, round_robin


def lists_of(run):
    return {qid: part["docno"].tolist() for qid, part in run.groupby("qid", sort=False)}


def best_first(left, value):
    """The largest value; of equals the earliest, because max keeps the first."""
    return max(left, key=value)


def plain_mmr(relevance, similarity, weight, k):
    """Equation 1: argmax over R \\ S of weight * Sim1 - (1 - weight) * max over S of Sim2."""
    chosen, values, left = [], [], list(range(len(relevance)))

    def value(i):
        return weight * relevance[i] - (1 - weight) * max((similarity[i][j] for j in chosen), default=0)

    while left and len(chosen) < k:
        best = best_first(left, value)
        values.append(value(best))
        chosen.append(best)
        left.remove(best)
    return chosen, values


@pytest.mark.parametrize("weight", [0.0, 0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_mmr_is_equation_1_on_2000_cases_with_many_ties(weight, k):
    # Eighths are exact in single precision and so is all arithmetic on them: equal values are equal here and there.
    rng = np.random.default_rng(int(100 * weight) + k)
    q, n = 2000, 9
    relevance = rng.integers(-16, 9, (q, n)) / 8
    half = rng.integers(-8, 9, (q, n, n)) / 8
    similarity = np.tril(half) + np.tril(half, -1).transpose(0, 2, 1)
    orders, values = mmr_orders(relevance, similarity.astype(np.float32), weight, k)
    assert orders.shape == values.shape == (q, k)
    for i in range(q):
        order, value = plain_mmr(relevance[i].tolist(), similarity[i].tolist(), weight, k)
        assert orders[i].tolist() == order and values[i].tolist() == value


@pytest.mark.parametrize("size", [1.0, 1e-30, 1e25])
@pytest.mark.parametrize("k", [0, 2])
@pytest.mark.parametrize("weight", [0.0, 0.6])
def test_mmr_of_lists_of_all_lengths_is_equation_1_on_cosines(weight, k, size):
    rng = np.random.default_rng(3)
    vectors = {f"d{i}": v * size for i, v in enumerate(rng.standard_normal((60, 7)))}
    vectors["d0"] = np.zeros(7)
    run = make_run(*zip(*[(f"q{q}", f"d{d}", rng.random()) for q in range(60)
                          for d in rng.permutation(60)[: 1 + q % 23]], strict=True))  # fmt: skip
    out = diversify(run, vectors=vectors, relevance_weight=weight, k=k, normalise="max_per_dataset")
    for qid, docnos in lists_of(run).items():
        own = np.array([vectors[d] for d in docnos]) / size
        length = np.linalg.norm(own, axis=1)
        own /= np.where(length > 0, length, 1)[:, None]
        relevance = (run.loc[run["qid"] == qid, "score"] / run["score"].max()).tolist()
        order, value = plain_mmr(relevance, (own @ own.T).tolist(), weight, k or 60)
        np.testing.assert_allclose(out.loc[out["qid"] == qid, "value"], value, atol=2e-6)
        if weight:  # at 0, what resembles nothing ties
            assert lists_of(out)[qid] == [docnos[i] for i in order]


@pytest.mark.parametrize("dim", [0, 1, 5, 64])
def test_a_few_picks_are_those_that_all_similarities_lead_to(dim):
    """Row by row or all at once, in one question or many, and across the seams between questions done together."""
    rng = np.random.default_rng(dim)
    q, n = 37, 80
    vectors = rng.standard_normal((q, n, dim)).astype(np.float32)
    vectors[::3, 40:60] = vectors[::3, :20]  # passages of the same text
    vectors[::5, 7] = 0
    length = np.linalg.norm(vectors, axis=2, keepdims=True)
    vectors /= np.where(length > 0, length, 1)
    relevance = -np.sort(-rng.random((q, n)), axis=1)
    full, _ = mmr_picks(vectors, relevance, 0.7, n)
    for k in (1, 5, 10, 11, 79):
        assert (mmr_picks(vectors, relevance, 0.7, k)[0] == full[:, :k]).all()
        alone = [mmr_picks(vectors[i : i + 1], relevance[i : i + 1], 0.7, k)[0] for i in range(q)]
        assert (np.concatenate(alone) == full[:, :k]).all()
    for i in range(q):
        similarity = (vectors[i].astype(np.float64) @ vectors[i].astype(np.float64).T).tolist()
        _, values = plain_mmr(relevance[i].tolist(), similarity, 0.7, 5)
        np.testing.assert_allclose(mmr_picks(vectors[i : i + 1], relevance[i : i + 1], 0.7, 5)[1][0], values, atol=1e-6)


TWINS = """
import numpy as np
from berdslib.data.records import check_run, make_run
from berdslib.retrieval.diversify import diversify

rng = np.random.default_rng(0)
for n in (7, 33, 99):
    texts = rng.integers(0, n // 3, (30, n))  # passages of the same text in every list
    qids, docnos = np.repeat(np.arange(30), n).astype(str), [f"d{i:04}" for i in range(30 * n)]
    own = dict(zip(docnos, rng.standard_normal((n, 64))[texts.ravel()]))
    text = dict(zip(docnos, texts.ravel()))
    run = make_run(qids, docnos, np.zeros(30 * n))
    for k in (n // 9, n // 5, 0):  # rows of similarities one by one, and all at once
        out = diversify(run, vectors=own, relevance_weight=0.0, k=k, normalise="minmax")
        out = out.assign(text=out["docno"].map(text))
        listed = run.assign(text=run["docno"].map(text)).groupby(["qid", "text"])["docno"].agg(list)
        for keys, found in out.groupby(["qid", "text"])["docno"].agg(list).items():
            assert found == listed[keys][: len(found)], (n, k, keys, found, listed[keys])
"""


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["Prescott", "Nehalem", "Haswell", ""])
def test_passages_of_the_same_text_keep_the_order_of_the_run_on_any_processor(processor):
    # OpenBLAS has other code for older processors, and in some of it equal rows of a matrix are rounded unequally.
    environment = os.environ | ({"OPENBLAS_CORETYPE": processor} if processor else {})
    done = subprocess.run([sys.executable, "-c", TWINS], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------- runs for all methods


def some_run(rng, questions=12, most=9, scores=None):
    lists = {f"q{i:02}": rng.permutation(20)[: rng.integers(1, most + 1)] for i in range(questions)}
    qids = [qid for qid, docs in lists.items() for _ in docs]
    docnos = [f"d{d}" for docs in lists.values() for d in docs]
    return make_run(qids, docnos, rng.normal(size=len(qids)) if scores is None else scores(len(qids)))


def some_vectors(rng):
    return {f"d{d}": v for d, v in enumerate(np.abs(rng.standard_normal((20, 6))))}


def some_aspects(rng, run):
    rows = [
        (qid, pid, docno, p)
        for qid, docnos in lists_of(run).items()
        for pid in range(1 + int(qid[1:]) % 4)
        for docno, p in zip(docnos, rng.choice([0, 0.25, 0.5, 0.9, 1], len(docnos)), strict=True)
    ]
    return pd.DataFrame(rows, columns=["qid", "pid", "docno", "p"])


def some_input(seed, **options):
    rng = np.random.default_rng(seed)
    run = some_run(rng, **options)
    return run, {"vectors": some_vectors(rng), "aspects": some_aspects(rng, run)}


@pytest.mark.slow
@pytest.mark.parametrize("method", DIVERSIFIERS)
@pytest.mark.parametrize("normalise", NORMALISATIONS)
def test_every_method_returns_a_run_of_the_same_passages(method, normalise):
    for seed, weight, k in [(0, 0.5, 0), (1, 0.0, 3), (2, 0.9, 100), (3, 0.75, 1)]:
        run, given = some_input(seed)
        before = run.copy(), given["aspects"].copy()
        out = diversify(run, method, relevance_weight=weight, k=k, normalise=normalise, **given)
        for qid, docnos in lists_of(run).items():
            assert len(lists_of(out)[qid]) == (min(k, len(docnos)) if k else len(docnos))
            assert set(lists_of(out)[qid]) <= set(docnos) and out[out["qid"] == qid]["docno"].is_unique
        pd.testing.assert_frame_equal(check_run(out), out.drop(columns="value"))  # sorted, strictly decreasing, ranked
        assert np.isfinite(out["value"]).all()
        pd.testing.assert_frame_equal(run, before[0])
        pd.testing.assert_frame_equal(given["aspects"], before[1])


@pytest.mark.slow
@pytest.mark.parametrize("method", DIVERSIFIERS)
def test_relevance_weight_1_keeps_the_order_of_every_method(method):
    for scores in (None, np.zeros, lambda n: -np.linspace(500, 900, n), lambda n: np.full(n, 3.0)):
        run, given = some_input(4, scores=scores)
        for normalise in NORMALISATIONS:
            out = diversify(run, method, relevance_weight=1, normalise=normalise, **given)
            assert out["docno"].tolist() == run["docno"].tolist()
            near = diversify(run, method, relevance_weight=0, normalise=normalise, **given)
            assert near["docno"].tolist() != run["docno"].tolist()  # the dial turns the way that is documented


# ---------------------------------------------------------------- the rows of docs/divergences.md


def test_b3_scores_are_divided_by_the_largest_of_the_data_set_or_of_the_question():
    # Question a scores up to 10, b up to 1: in b, half the best score lies 0.05 below it, or 0.5.
    run = make_run(list("aabbb"), ["x", "y", "x", "copy", "far"], [10.0, 5.0, 1.0, 0.9, 0.5])
    vectors = {"x": [1, 0], "y": [0, 1], "copy": [0.6, 0.8], "far": [0.4, -(0.84**0.5)]}
    paper, official = (
        diversify(run, vectors=vectors, relevance_weight=0.75, normalise=name)
        for name in ("max_per_dataset", "max_per_question")
    )
    b = paper[paper["qid"] == "b"]
    assert b["docno"].tolist() == ["x", "far", "copy"]
    assert b["value"].tolist() == pytest.approx([0.075, 0.75 * 0.05 - 0.25 * 0.4, 0.75 * 0.09 - 0.25 * 0.6])
    b = official[official["qid"] == "b"]
    assert b["docno"].tolist() == ["x", "copy", "far"]
    assert b["value"].tolist() == pytest.approx([0.75, 0.75 * 0.9 - 0.25 * 0.6, 0.75 * 0.5 - 0.25 * 0.4])


def sentinel_mmr(relevance, similarity, weight):
    """The published behaviour (docs/divergences.md): first pick index 0, the best so far starts at -100."""
    order = [0]
    for _ in relevance[1:]:
        best, highest = 0, -100.0
        for i in range(len(relevance)):
            if i not in order:
                value = weight * relevance[i] - (1 - weight) * max(similarity[i][j] for j in order)
                if value > highest:
                    best, highest = i, value
        order.append(best)
    return order


def test_b4_very_negative_scores_and_a_best_passage_that_is_not_first():
    relevance, similarity = np.array([[-300.0, -200.0, -400.0]]), np.eye(3)[None]
    assert sentinel_mmr(relevance[0], similarity[0], 0.75) == [0, 0, 0]
    orders, values = mmr_orders(relevance, similarity, 0.75, 3)
    assert orders.tolist() == [[1, 0, 2]] and values.tolist() == [[-150.0, -225.0, -300.0]]
    relevance = np.array([[0.2, 0.9, 0.5]])
    assert sentinel_mmr(relevance[0], similarity[0], 0.75)[0] == 0
    assert mmr_orders(relevance, similarity, 0.75, 3)[0].tolist() == [[1, 2, 0]]


def test_b5_scores_fall_and_the_value_has_its_own_column():
    run = make_run(["q"] * 3, ["a", "b", "c"], [0.5, 0.4, 0.3])
    vectors = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [-1.0, 0.0]}
    out = diversify(run, vectors=vectors, relevance_weight=0.5)
    # c, opposite to a, is worth more at rank 2 than a at rank 1 was: by value, tools would put it first.
    assert out["docno"].tolist() == ["a", "c", "b"]
    assert out["value"].tolist() == pytest.approx([0.5, 0.5 * 0.6 + 0.5, 0.5 * 0.8])
    assert out["score"].tolist() == [-1.0, -2.0, -3.0]
    assert check_run(out.drop(columns=["rank"]))["docno"].tolist() == ["a", "c", "b"]


# ---------------------------------------------------------------- normalisations


def relevance_by(normalise, qids, scores):
    run = make_run(qids, [f"d{i}" for i in range(len(qids))], scores)
    return diversify(run, relevance_weight=1, normalise=normalise)["value"].tolist()


def test_normalisations_by_hand():
    qids, scores = list("aabb"), [4.0, 1.0, 2.0, -2.0]
    assert relevance_by("max_per_dataset", qids, scores) == [1, 0.25, 0.5, -0.5]
    assert relevance_by("max_per_question", qids, scores) == [1, 0.25, 1, -1]
    assert relevance_by("minmax", qids, scores) == [1, 0, 1, 0]
    assert relevance_by("zscore", qids, scores) == [1, -1, 1, -1]
    assert relevance_by("rank", qids, scores) == [1, 0.5, 1, 0.5]


def test_negative_scores_stay_in_order_and_constant_ones_equal():
    for name in ("max_per_dataset", "max_per_question"):
        assert relevance_by(name, list("qqq"), [-4.0, -8.0, -2.0]) == [-0.25, -0.5, -1.0]
    # make_run sets ties apart by the smallest step that shows: that step must not be blown up to a difference.
    for constant in (0.0, 1.0, -3.0, 1e30, 1e-30):
        for name in NORMALISATIONS.keys() - {"rank"}:
            assert np.ptp(relevance_by(name, ["q"] * 50, [constant] * 50)) < 1e-5
    assert relevance_by("minmax", list("qqq"), [1.0, 1.0, 0.0]) == pytest.approx([1, 1, 0])


# ---------------------------------------------------------------- against the papers


def plain_xquad(relevance, p, weight):
    """Santos et al. (2010): (1 - l) P(d|q) + l sum P(qi|q) P(d|qi) prod (1 - P(dj|qi)), where l = 1 - weight."""
    chosen, left, m = [], list(range(len(relevance))), len(p[0])

    def value(d):
        novel = 0
        for i in range(m):
            unseen = Fraction(1)
            for j in chosen:
                unseen *= 1 - p[j][i]
            novel += Fraction(1, m) * p[d][i] * unseen
        return weight * relevance[d] + (1 - weight) * novel

    while left:
        chosen.append(best_first(left, value))
        left.remove(chosen[-1])
    return chosen


def plain_pm2(relevance, p, weight, share=Fraction(1, 2)):
    """Dang and Croft (2012), algorithm PM-2: quotients votes / (2 seats + 1), equal votes, fractional seats."""
    chosen, left, m = [], list(range(len(relevance))), len(p[0])
    seats = [Fraction(0)] * m
    while left:
        quotient = [Fraction(1, m) / (2 * s + 1) for s in seats]
        turn = quotient.index(max(quotient))

        def value(d, quotient=quotient, turn=turn):
            others = sum(quotient[i] * p[d][i] for i in range(m) if i != turn)
            pm2 = share * quotient[turn] * p[d][turn] + (1 - share) * others
            return weight * relevance[d] + (1 - weight) * pm2

        best = best_first(left, value)
        total = sum(p[best])
        if total:
            seats = [s + p[best][i] / total for i, s in enumerate(seats)]
        chosen.append(best)
        left.remove(best)
    return chosen


def random_aspects(rng, q, grid):
    """Run and aspects with m = 1, 2 or 4 (their shares are exact in binary), and the same as exact lists."""
    qids, docnos, scores, rows, exact = [], [], [], [], {}
    for i in range(q):
        n, m = int(rng.integers(1, 7)), int(rng.choice([1, 2, 4]))
        relevance = np.sort(rng.choice(9, n) / 8)[::-1] if grid else np.sort(rng.random(n))[::-1]
        p = rng.choice([0, 0.5, 1], (n, m)) if grid else rng.random((n, m))
        qids += [f"q{i:04}"] * n
        docnos += [f"d{d}" for d in range(n)]
        scores += relevance.tolist()
        rows += [(f"q{i:04}", a, f"d{d}", p[d, a]) for d in range(n) for a in range(m)]
        exact[f"q{i:04}"] = p
    run = make_run(qids, docnos, scores)
    return run, pd.DataFrame(rows, columns=["qid", "pid", "docno", "p"]).sample(frac=1, random_state=0), exact


@pytest.mark.parametrize(("method", "plain"), [("xquad", plain_xquad), ("pm2", plain_pm2)])
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_xquad_and_pm2_against_their_papers(method, plain, weight):
    run, aspects, exact = random_aspects(np.random.default_rng(11), 150, grid=False)
    found = lists_of(diversify(run, method, relevance_weight=weight, aspects=aspects, normalise="rank"))
    for qid, p in exact.items():
        n = len(p)
        relevance = [1 - Fraction(i, n) for i in range(n)]
        expected = plain(relevance, [[Fraction(x) for x in row] for row in p.tolist()], Fraction(weight))
        assert found[qid] == [f"d{d}" for d in expected]


def test_ties_go_to_the_earlier_rank():
    run, aspects, exact = random_aspects(np.random.default_rng(12), 300, grid=True)
    found = lists_of(diversify(run, "xquad", relevance_weight=0.0, aspects=aspects))
    for qid, p in exact.items():
        expected = plain_xquad([0] * len(p), [[Fraction(x) for x in row] for row in p.tolist()], 0)
        docnos = lists_of(run[run["qid"] == qid])[qid]
        assert docnos == sorted(docnos)  # the runs' ties go by docno
        assert found[qid] == [docnos[d] for d in expected]


def test_coverage_is_greedy_on_the_expected_number_of_perspectives():
    for grid in (True, False):
        run, aspects, exact = random_aspects(np.random.default_rng(14), 200, grid=grid)
        found = diversify(run, "coverage", relevance_weight=0, aspects=aspects)
        for qid, out in found.groupby("qid"):
            p, order = exact[qid], [int(d[1:]) for d in out["docno"]]
            covered = [float((1 - np.prod(1 - p[order[:k]], axis=0)).sum()) for k in range(len(p) + 1)]
            # The value is what the passage adds; no other would have added more, and later ones add less.
            np.testing.assert_allclose(out["value"], np.diff(covered), atol=1e-12)
            assert (np.diff(out["value"]) <= 1e-12).all()
            for k in range(len(p)):
                others = [(1 - np.prod(1 - p[[*order[:k], d]], axis=0)).sum() for d in order[k:]]
                assert covered[k + 1] >= max(others) - 1e-12


@pytest.mark.parametrize("m", [1, 2, 4])
def test_coverage_is_xquad_with_the_dial_elsewhere(m):
    # Where m aspects are averaged, w / (1 - w) has to be m times smaller.
    run, aspects, exact = random_aspects(np.random.default_rng(13), 80, grid=False)
    some = run[run["qid"].map(lambda qid: exact[qid].shape[1]) == m]
    counted = diversify(some, "coverage", relevance_weight=0.5, aspects=aspects)
    averaged = diversify(some, "xquad", relevance_weight=1 / (1 + m), aspects=aspects)
    assert counted["docno"].tolist() == averaged["docno"].tolist() != some["docno"].tolist()


# ---------------------------------------------------------------- pyversity


@pytest.mark.parametrize("method", ["mmr", "msd", "dpp", "cover", "ssd"])
def test_pyversity_agrees_with_its_dial_turned_round(method):
    # Its MMR takes negative cosines for 0, so the vectors have none.
    run, given = some_input(21, questions=60)
    options = {"normalize_scores": False} if method == "ssd" else {}
    for weight in (0.2, 0.75):
        out = lists_of(diversify(run, method, relevance_weight=weight, normalise="minmax", vectors=given["vectors"]))
        for qid, part in run.groupby("qid"):
            scores, docnos = part["score"].to_numpy(), part["docno"].tolist()
            spread = np.ptp(scores)
            relevance = (scores - scores.min()) / (spread if len(scores) > 1 else 1)
            vectors = np.stack([given["vectors"][d] for d in docnos])
            result = pyversity.diversify(vectors, relevance, len(docnos), method, diversity=1 - weight, **options)
            assert out[qid] == [docnos[i] for i in result.indices]


# ---------------------------------------------------------------- functions of one's own


def test_a_function_of_ones_own_in_the_table_is_used_by_its_name(monkeypatch):
    run, given = some_input(51)
    seen = []

    def from_behind(vectors, scores, k, weight):
        seen.append((vectors.dtype, vectors.shape, scores.dtype, scores.shape, k, weight))
        return np.arange(len(scores))[::-1][:k]

    monkeypatch.setattr(DIVERSIFIERS, "_things", dict(DIVERSIFIERS))
    DIVERSIFIERS.add("from-behind", own_diversifier(from_behind))
    out = lists_of(diversify(run, "from-behind", vectors=given["vectors"], relevance_weight=0.25, k=3))
    assert out == {qid: docnos[::-1][:3] for qid, docnos in lists_of(run).items()}
    expected = [
        (np.dtype("float32"), (n, 6), np.dtype("float64"), (n,), min(3, n), 0.25)
        for n in map(len, lists_of(run).values())
    ]
    assert sorted(seen, key=repr) == sorted(expected, key=repr)
    with pytest.raises(InputError, match="'from-behind'") as refused:
        diversify(run, "from-behind")
    assert refused.value.field == "vectors"


@pytest.mark.parametrize(
    "order", [[0], [0, 1, 2], [0, 3], [-1, 0], [1, 1], [0.0, 1.0], [True, False], ["d1", "d2"], [[0, 1]],
              ([0, 1], [0.9, 0.5]), ([0, 1], [0.9]), None]
)  # fmt: skip
def test_what_a_function_of_ones_own_may_not_return_is_said(order):
    run, vectors = ranked_run({"q7": ["a", "b", "c"]}), {"a": [1, 0], "b": [0, 1], "c": [1, 1]}

    def mine(vectors, scores, k, weight):
        return order

    with pytest.raises(InputError, match=r"mine.*'q7'.* 2 .* 0 to 2") as refused:
        diversify(run, mine, vectors=vectors, k=2)
    assert refused.value.field == "method"


# ---------------------------------------------------------------- what is refused

RUN, GIVEN = some_input(30)
VECTORS, ASPECTS, SOME = GIVEN["vectors"], GIVEN["aspects"], RUN["docno"].iloc[3]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"normalise": "max"}, "max_per_dataset"),
        *[({"relevance_weight": weight}, "relevance_weight") for weight in (-0.1, 1.1, float("nan"))],
        ({"vectors": None}, "vectors.*'mmr'"),
        ({"vectors": {d: v for d, v in VECTORS.items() if d != SOME}}, f"'{SOME}'"),
        ({"vectors": VECTORS | {SOME: [np.nan] * 6}}, f"'{SOME}'"),
        ({"vectors": VECTORS | {SOME: [1.0, 2.0]}}, f"'{SOME}'"),
        ({"vectors": lambda docnos: np.ones((len(docnos) - 1, 3))}, r", 3\)"),
        ({"method": "xquad", "aspects": ASPECTS.rename(columns={"p": "p_yes"})}, ": p$"),
        ({"method": "xquad", "aspects": ASPECTS.assign(p=1.5)}, "0 to 1"),
        ({"method": "xquad", "aspects": pd.concat([ASPECTS, ASPECTS[:1]])}, "twice"),
        ({"method": "xquad", "aspects": ASPECTS[ASPECTS["qid"] != "q05"]}, "'q05'"),
    ],
)
def test_what_cannot_be_used_is_named(given, named):
    with pytest.raises(InputError, match=named):
        diversify(RUN, **{"vectors": VECTORS, "aspects": ASPECTS} | given)


def test_a_pair_that_is_not_listed_has_p_0_and_strangers_do_not_matter():
    run = ranked_run({"q": ["a", "b", "c"]})
    rows = [("q", 0, "a", 0.9), ("q", 0, "b", 0.8), ("q", 1, "c", 0.5)]
    zeros = [("q", 1, "a", 0.0), ("q", 1, "b", 0.0), ("q", 0, "c", 0.0)]
    strangers = [("other", 2, "a", 1.0), ("q", 1, "unlisted", 1.0)]
    frames = [pd.DataFrame(r, columns=["qid", "pid", "docno", "p"]) for r in (rows, rows + zeros + strangers)]
    for method in ("xquad", "pm2", "coverage"):
        sparse, full = (diversify(run, method, relevance_weight=0.1, aspects=one, normalise="rank") for one in frames)
        pd.testing.assert_frame_equal(sparse, full)
        assert sparse["docno"].tolist() == ["a", "c", "b"]


# ---------------------------------------------------------------- for other pipelines


def test_mmr_of_one_list_is_that_of_langchain():
    """The list of langchain-core 1.8.3's maximal_marginal_relevance, which this loop repeats."""
    draw = np.random.default_rng(0)
    for _ in range(60):
        n = int(draw.integers(1, 15))
        vectors, query, weight = draw.normal(size=(n, 6)), draw.normal(size=6), float(draw.choice([0, 0.1, 0.5, 0.9]))
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = unit @ query / np.linalg.norm(query)
        taken = [int(cosines.argmax())]
        while len(taken) < n:
            rest = [i for i in range(n) if i not in taken]
            taken.append(max(rest, key=lambda i: weight * cosines[i] - (1 - weight) * max(unit[i] @ unit[taken].T)))
        k = int(draw.integers(1, n + 3))
        assert bd.mmr(vectors, cosines, k, weight) == taken[:k]


@pytest.mark.parametrize(
    "wrong", [{"k": 0}, {"relevance_weight": 2}, {"scores": [1.0]}, {"scores": [1.0, np.nan]}, {"vectors": [1.0, 2.0]}]
)
def test_mmr_of_one_list_refuses(wrong):
    with pytest.raises(InputError):
        bd.mmr(**{"vectors": [[1.0, 0.0], [0.0, 1.0]], "scores": [0.5, 0.4], **wrong})


@pytest.mark.parametrize("wrong", [[0.0, np.nan], [0.0, np.inf], ["a", 1.0], [1.0], None])
def test_mmr_names_the_position_of_a_wrong_vector(wrong):
    with pytest.raises(InputError, match="number 2,") as caught:
        bd.mmr([[1.0, 0.0], [0.0, 1.0], wrong], [0.5, 0.4, 0.3])
    assert caught.value.field == "vectors"


def test_fusing_plain_lists_is_fusing_runs():
    lists = [["a", "b", "c"], ["c", "d"], []]
    runs = [{"q": listed} for listed in lists]
    assert bd.fuse(lists, 3) == round_robin(runs)["docno"].tolist()[:3] == ["a", "c", "b"]
    assert bd.fuse(lists, by="rrf") == reciprocal_rank_fusion(runs)["docno"].tolist()
    with pytest.raises(InputError):
        bd.fuse(lists, by="sum")
    for text in ("abc", ["abc", "bcd"], [["a"], "b"]):
        with pytest.raises(InputError) as caught:
            bd.fuse(text)
        assert caught.value.field == "lists"
