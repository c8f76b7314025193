"""The best list there is, against brute force."""

from itertools import combinations

import numpy as np
import pytest

from berdslib.data.records import Question, make_verdicts, ranked_run
from berdslib.evaluation.oracle import EXACT_UP_TO, best_rows, oracle


def by_trying_all(shows, k):
    """Of all lists: most perspectives covered, as far as they count; most useful passages; the earliest ranks."""
    n, m = shows.shape

    def goodness(rows):
        top = shows[list(rows)]
        return -min(top.any(axis=0).sum(), min(m, k)), -top.any(axis=1).sum(), rows

    return list(min(combinations(range(n), min(k, n)), key=goodness))


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_no_list_of_k_is_better(share):
    rng = np.random.default_rng(int(100 * share))
    for _ in range(400):
        n, m, k = rng.integers(1, 9), rng.integers(1, 7), int(rng.integers(1, 6))
        shows = rng.random((n, m)) < share
        assert best_rows(shows, k) == by_trying_all(shows, k)


def test_beyond_twelve_perspectives_both_measures_are_the_largest_possible():
    rng = np.random.default_rng(2)
    for share in (0.05, 0.12, 0.3):
        for _ in range(40):
            shows, k = rng.random((10, EXACT_UP_TO + 3)) < share, int(rng.integers(1, 8))
            rows, best = best_rows(shows, k), by_trying_all(shows, k)
            assert len(rows) == k and rows == sorted(set(rows))
            covered, most = (min(shows[r].any(axis=0).sum(), k) for r in (rows, best))
            assert covered == most
            assert shows[rows].any(axis=1).sum() == shows[best].any(axis=1).sum()
            assert rows >= best


def test_a_list_by_hand():
    asked = [Question("q", "?", ("a", "b")), Question("unanswered", "?", ("a",))]
    run = ranked_run({"q": ["none", "a1", "a2", "b", "ab"], "other": ["x"]})
    rows = [("q", 0, "a1", 1.0, True), ("q", 0, "a2", 1.0, True), ("q", 1, "b", 1.0, True)]
    verdicts = make_verdicts([*rows, ("q", 0, "ab", 1.0, True), ("q", 1, "ab", 1.0, True)], "x")

    def best(k, **options):
        return oracle(run, verdicts, asked, k, **options)["docno"].tolist()

    assert best(1) == ["a1"]  # one of two perspectives is all that MRecall@1 asks for (divergences.md B2)
    assert best(2) == ["a1", "b"]  # the earlier ranks: a1 and b before b and ab
    assert best(3) == ["a1", "a2", "b"]
    assert best(5) == best(9) == ["none", "a1", "a2", "b", "ab"]
    assert best(2, depth=3) == ["a1", "a2"] and best(3, depth=3) == ["none", "a1", "a2"]
    assert oracle(ranked_run({}), verdicts, asked, 2).empty
