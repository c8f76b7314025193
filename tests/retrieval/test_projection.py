"""Projection: by hand, against a loop over pairs in plain arithmetic; and choosing how much to project."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from projection_rule import STRENGTHS, choose_option, dev_mask

from berdslib.data.records import Passage, Query, Question
from berdslib.errors import InputError
from berdslib.retrieval.base import docno_order, top_k
from berdslib.retrieval.projection import (
    METHODS,
    Projected,
    make_form,
    perspective_vectors,
    project,
    scores,
    search_exact,
)

ROOT_HALF = np.sqrt(0.5)


def vectors(seed, n=6, m=40, d=8):
    rng = np.random.default_rng(seed)
    return (*rng.standard_normal((3, n, d)), rng.standard_normal((m, d)) * rng.uniform(0.5, 3, (m, 1)))


def cosine(a, b):
    """Plain arithmetic on lists, no NumPy."""
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / (sum(x * x for x in a) ** 0.5 * sum(y * y for y in b) ** 0.5)


def without(x, p, strength=1.0):
    share = strength * sum(a * b for a, b in zip(x, p, strict=True)) / sum(b * b for b in p)
    return [a - share * b for a, b in zip(x, p, strict=True)]


def plus(a, b, sign=1):
    return [x + sign * y for x, y in zip(a, b, strict=True)]


# The rows of Table 4 as they are printed there, for one pair.
BY_PAIR = {
    "baseline": lambda q, r, p, c: cosine(q, c),
    "add": lambda q, r, p, c: cosine(plus(r, p), c),
    "add+": lambda q, r, p, c: cosine(plus(r, p), plus(c, p)),
    "concat": lambda q, r, p, c: cosine([*r, *p], [*c, *[0.0] * len(c)]),
    "concat+": lambda q, r, p, c: cosine([*r, *p], [*c, *p]),
    "cast": lambda q, r, p, c: cosine(plus(q, p, -1), c),
    "cast+": lambda q, r, p, c: cosine(plus(q, p, -1), plus(c, p, -1)),
    "dual-sum": lambda q, r, p, c: cosine(r, c) + cosine(p, c),
    "tri-sum": lambda q, r, p, c: cosine(r, c) + cosine(p, c) + cosine(q, c),
    "pap": lambda q, r, p, c: cosine(without(q, p), c),
    "pap+": lambda q, r, p, c: cosine(without(q, p), without(c, p)),
    "pap-rev": lambda q, r, p, c: cosine(without(q, p, -1), c),
    "pap+-rev": lambda q, r, p, c: cosine(without(q, p, -1), without(c, p, -1)),
}


def in_a_loop(method, q, r, p, c):
    rows = [v.tolist() for v in (q, r, p)]
    return np.array([[BY_PAIR[method](*triple, one.tolist()) for one in c] for triple in zip(*rows, strict=True)])


@pytest.mark.parametrize("method", BY_PAIR)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_closed_form_equals_the_loop_over_pairs(method, seed):
    q, r, p, c = vectors(seed)
    np.testing.assert_allclose(scores(method, q, r, p, c), in_a_loop(method, q, r, p, c), atol=1e-12)


finite = st.floats(-100, 100).filter(lambda x: abs(x) > 1e-3)
rows = st.lists(st.lists(finite, min_size=5, max_size=5), min_size=4, max_size=4)


@pytest.mark.parametrize("method", ["pap", "pap+"])
def test_strength_goes_from_the_baseline_to_pap_and_beyond(method):
    q, r, p, c = vectors(2)
    np.testing.assert_allclose(
        scores(method, q, r, p, c, strength=0), scores("baseline", q, r, p, c), rtol=0, atol=1e-14
    )
    np.testing.assert_array_equal(scores(method, q, r, p, c, strength=1), scores(method, q, r, p, c))
    for strength in (0.25, -0.5):
        by_pair = [
            [
                cosine(without(a, b, strength), without(one, b, strength) if method == "pap+" else one)
                for one in c.tolist()
            ]
            for a, b in zip(q.tolist(), p.tolist(), strict=True)
        ]
        np.testing.assert_allclose(scores(method, q, r, p, c, strength=strength), by_pair, atol=1e-12)


def test_what_vanishes_scores_zero_and_is_never_nan():
    q = np.array([[1.0, 2.0, 0.0], [0.1, 0.2, 0.3]], dtype=np.float32)
    c = np.array([[2.0, 4.0, 1e-7], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]], dtype=np.float32)
    for method in BY_PAIR:
        got = scores(method, q, q, 3 * q, c)
        assert np.isfinite(got).all() and np.abs(got).max() <= 3
    for method in ("pap", "pap+"):  # nothing but rounding is left of the queries
        np.testing.assert_array_equal(scores(method, q, q, 3 * q, c), 0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(-7, 0))
def test_passages_close_to_the_perspective_stay_accurate_or_score_zero(seed, digits):
    q, r, p, c = vectors(seed, n=1, m=1)
    close = p + 10**digits * c
    got, true = scores("pap+", q, r, p, close).item(), in_a_loop("pap+", q, r, p, close).item()
    assert got == pytest.approx(true, abs=1e-6) or (got == 0 and digits < -3)


def test_p4_the_official_rev_modes_double_the_component():
    q, p = np.array([[3.0, 4.0]]), np.array([[10.0, 0.0]])
    assert project(q, p).tolist() == [[0.0, 4.0]]  # equation 2
    assert project(q, p, -1.0).tolist() == [[6.0, 4.0]]  # published code
    c = np.array([[1.0, 0.0]])
    assert scores("pap", q, q, p, c).item() == 0.0
    assert scores("pap-rev", q, q, p, c).item() == pytest.approx(6 / 52**0.5)


def test_p5_the_difference_as_perspective_and_no_difference_at_all():
    q = np.array([[3.0, 4.0], [0.0, 2.0]])
    r = np.array([[0.0, 4.0], [0.0, 2.0]])
    assert perspective_vectors(q, r, q, "difference").tolist() == [[3.0, 0.0], [0.0, 0.0]]
    c = np.array([[0.0, 1.0], [1.0, 1.0]])
    with np.errstate(invalid="ignore"):  # the published code divides by the squared length as it is
        none = q[1] - r[1]
        assert np.isnan(q[1] - (q[1] @ none) / (none @ none) * none).all()
    got = scores("pap", q, r, q, c, source="difference")
    assert got[0].tolist() == pytest.approx([1.0, ROOT_HALF])
    np.testing.assert_allclose(got[1], scores("baseline", q, r, q, c)[1])  # q stays as it is
    text = scores("pap", q, r, q, c)  # its own text as perspective leaves nothing of a query
    assert text.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    for method in METHODS:
        assert np.isfinite(scores(method, q, r, q, c, source="difference")).all(), method


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"method": "papp"}, "'papp'.*'pap"),
        ({"method": "add", "strength": 0.5}, "'add'"),
        ({"strength": float("nan")}, "strength"),
        ({"root": np.zeros((2, 3))}, r"\(1, 3\), \(2, 3\), \(1, 3\)"),
        ({"passages": np.zeros((2, 4))}, "passages.*4 .*3$"),
        ({"query": np.array([[np.nan, 0, 0]])}, "query"),
    ],
)
def test_what_does_not_fit_is_an_error(change, named):
    fine = {name: np.ones((1, 3)) for name in ("query", "root", "perspective", "passages")} | {"method": "pap"}
    scores(**fine)
    with pytest.raises(InputError, match=named):
        scores(**fine | change)


@pytest.mark.parametrize("method", ["baseline", "add+", "cast+", "dual-sum", "pap", "pap+"])
def test_search_exact_in_blocks_equals_sorting_all_scores(method, monkeypatch):
    monkeypatch.setattr("berdslib.retrieval.projection._PASSAGES_AT_ONCE", 7)
    q, r, p, c = vectors(4, n=9, m=50)
    c[10:20] = c[0]  # ties
    form, ties = make_form(method, q, r, p), np.random.default_rng(0).permutation(50)
    for k in (1, 6, 60):
        found = search_exact(form, c, k, ties)
        for row, (rows_, values) in zip(scores(method, q, r, p, c), found, strict=True):
            want = np.lexsort((ties, -row))[:k]
            assert rows_.tolist() == want.tolist()
            np.testing.assert_allclose(values, row[want], atol=1e-12)


class Words:
    """An encoder whose vectors are word counts over a tiny vocabulary."""

    id = "words"
    vocabulary = ("dogs", "cats", "good", "bad", "left", "right")

    def encode_queries(self, texts):
        counts = [[text.lower().split().count(w) for w in self.vocabulary] for text in texts]
        return np.array(counts, dtype=np.float32)

    encode_passages = encode_queries


PASSAGES = [
    Passage("a", "dogs good left"),
    Passage("b", "dogs bad"),
    Passage("c", "left left left"),
    Passage("d", "cats good"),
    Passage("e", "dogs dogs left"),
]
QUERIES = [
    Query("q1", "left dogs good", Question("dogs", "dogs good", ("right", "left")), pid=1),
    Query("q2", "bad cats", Question("cats", "cats"), stated="bad"),
    Query("q4", "left dogs good", Question("dogs", "dogs good"), stated="left dogs good"),
    Query("blank", "  ", Question("cats", "cats"), stated="bad"),
]


@pytest.mark.parametrize("method", BY_PAIR)
def test_the_retriever_equals_scores(method, monkeypatch):
    """Where a perspective is the query itself, as in AmbigQA, the difference stands for it (P5), and for it alone."""
    monkeypatch.setattr("berdslib.retrieval.projection._QUERIES_AT_ONCE", 2)
    run = Projected(PASSAGES, Words(), method=method).search(QUERIES, 5)
    encode = Words().encode_queries
    for query in QUERIES[:3]:
        q, r, p = (encode([text]) for text in (query.text, query.question.text, query.perspective))
        source = "difference" if query.perspective == query.text else "text"
        want = scores(method, q, r, p, encode([passage.text for passage in PASSAGES]), source=source)[0]
        order = top_k(want.round(9), 5, docno_order([passage.docno for passage in PASSAGES]))
        part = run[run["qid"] == query.qid]
        assert part["docno"].tolist() == [PASSAGES[j].docno for j in order]
        np.testing.assert_allclose(part["score"], want[order], atol=1e-6)
    assert "blank" not in set(run["qid"])


def test_a_question_that_was_made_of_no_other_is_searched_as_it_is():
    plain = Question("q3", "left dogs good", ("left", "good"))
    found = Projected(PASSAGES, Words(), method="pap+").search([plain, QUERIES[0]], 5)
    baseline = Projected(PASSAGES, Words(), method="baseline").search([plain], 5)
    pd.testing.assert_frame_equal(found[found["qid"] == "q3"].reset_index(drop=True), baseline)
    alone = Projected(PASSAGES, Words(), method="pap+").search(QUERIES[:1], 5)
    pd.testing.assert_frame_equal(found[found["qid"] == "q1"].reset_index(drop=True), alone)


def test_half_of_roots_splits_by_root():
    roots = [f"root {i // 3}" for i in range(33)]
    mask = dev_mask(roots)
    chosen = {r for r, m in zip(roots, mask, strict=True) if m}
    assert len(chosen) == 6 and not chosen & {r for r, m in zip(roots, mask, strict=True) if not m}
    shuffled = np.random.default_rng(1).permutation(33)
    assert (dev_mask([roots[i] for i in shuffled]) == mask[shuffled]).all()
    assert (dev_mask(roots, seed=1) != mask).any()


def test_choose_needs_more_than_luck():
    base = np.array([0.5, 0.5, 0.5, 0.5])
    lucky = np.array([1.0, 0.5, 0.5, 0.0]) + 0.05  # mean gain .05, standard error .20
    steady = np.array([0.6, 0.6, 0.5, 0.6])  # .075, .025
    assert choose_option({0: base, 1: lucky}, default=0) == 0
    assert choose_option({0: base, 1: lucky, 2: steady}, default=0) == 2
    assert choose_option({0: base, 1: base - 0.1}, default=0) == 0
    for n in range(2, 60):  # one root that gains is one standard error exactly, whatever the rounding says
        assert choose_option({0: np.zeros(n), 1: np.eye(n)[0] * 100}, default=0) == 0
    for n in (0, 1):  # the default wins a draw
        assert choose_option({s: np.full(4, n) for s in reversed(STRENGTHS)}, default=0.0) == 0
