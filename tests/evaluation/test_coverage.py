"""Documents needed, the union of lists and the best list there is, against plain loops and brute force."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berdslib.data.records import Question, make_verdicts, ranked_run
from berdslib.evaluation.coverage import documents_needed, size_table, union_table
from berdslib.evaluation.measures import MRecall, score_run
from berdslib.evaluation.oracle import EXACT_UP_TO, best_rows, oracle

QUESTIONS = [
    Question("q1", "Should it?", ("yes", "no"), source="one"),
    Question("q2", "Must it?", ("yes", "no"), source="one"),
    Question("q3", "May it?", ("yes", "no", "perhaps"), source="two"),
]
RUN = ranked_run({"q1": ["a", "b", "c"], "q2": ["a", "b", "c"], "q3": ["a", "b", "c", "d"]})
VERDICTS = make_verdicts(
    [
        ("q1", 0, "a", 1.0, True),
        ("q1", 1, "c", 1.0, True),  # the last perspective shows up third
        ("q2", 0, "a", 1.0, True),
        ("q2", 1, "z", 1.0, True),  # listed by the other run only
        ("q3", 0, "b", 1.0, True),
        ("q3", 1, "b", 1.0, True),
        ("q3", 2, "a", 1.0, True),
    ],
    "hand",
)
OTHER = ranked_run({"q2": ["z"], "q3": ["z"]})


def test_the_table_has_the_mean_size_of_covered_questions_and_the_share_of_all():
    table = size_table({"run": RUN}, VERDICTS, QUESTIONS).set_index("dataset")
    assert table.loc["one", ["n", "set_size", "within"]].tolist() == [2, 3, 0.5]
    assert table.loc["two", ["n", "set_size", "within"]].tolist() == [1, 2, 1.0]
    assert table.loc["macro", ["set_size", "within"]].tolist() == [2.5, 0.75]


def test_the_union_covers_what_no_single_list_does():
    table = union_table({"run": RUN, "other": OTHER}, VERDICTS, QUESTIONS).set_index("dataset")
    assert table.loc["one", ["documents", "covered"]].tolist() == [3.5, 1.0]  # 3 of q1; a, b, c and z of q2
    assert table.loc["macro", ["documents", "covered"]].tolist() == [4.25, 1.0]
    assert union_table({"run": RUN}, VERDICTS, QUESTIONS)["covered"].iloc[-1] == 0.75
    short = union_table({"run": RUN, "other": OTHER}, VERDICTS, QUESTIONS, k=2).set_index("dataset")
    assert short.loc["one", "covered"] == 0.5  # c, the third of q1, is cut off


def test_passages_without_a_verdict_are_counted():
    sizes = size_table({"run": RUN}, VERDICTS, QUESTIONS).set_index("dataset")["unjudged"]
    assert sizes.to_dict() == {"one": 3 / 6, "two": 2 / 4, "macro": 5 / 10}  # b of q1; b and c of q2; c and d of q3
    assert size_table({"run": RUN}, VERDICTS, QUESTIONS, k=1)["unjudged"].tolist() == [0, 0, 0]  # a, of all three
    union = union_table({"run": RUN, "other": OTHER}, VERDICTS, QUESTIONS).set_index("dataset")["unjudged"]
    assert union["one"] == 3 / 7


@pytest.mark.slow
@given(
    lists=st.lists(st.permutations(range(6)), min_size=1, max_size=4),
    yes=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 5))),
)
def test_within_k_agrees_with_mrecall_and_the_sizes_with_a_plain_loop(lists, yes):
    questions = [Question(f"q{i}", "?", ("x", "y", "z")) for i in range(len(lists))]
    run = ranked_run({f"q{i}": [f"d{d}" for d in order] for i, order in enumerate(lists)})
    pairs = [(q, p, d) for q in range(len(lists)) for p in range(3) for d in range(6)]
    rows = [(f"q{q}", p, f"d{d}", 1.0, (q, p, d) in yes) for q, p, d in pairs]
    verdicts = make_verdicts(rows, "any")
    sizes = documents_needed(run, verdicts, questions)
    for i, order in enumerate(lists):
        shown: set[int] = set()
        plain = np.nan
        for rank, d in enumerate(order, start=1):
            shown |= {p for q, p, found in yes if (q, found) == (i, d)}
            if len(shown) == 3:
                plain = rank
                break
        assert sizes.iloc[i] == pytest.approx(plain, nan_ok=True)
    for k in (3, 6):  # from as many passages as there are perspectives on, MRecall asks for the same
        expected = score_run(run, verdicts, questions, [MRecall @ k])[f"MRecall@{k}"]
        assert (sizes <= k).astype(float).tolist() == expected.tolist()
    assert isinstance(sizes, pd.Series)


# ---------------------------------------------------------------- the best list


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
