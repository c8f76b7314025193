"""Documents needed and the union of lists, against plain loops over sets."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berdslib.data.records import Question, make_verdicts, ranked_run
from berdslib.evaluation.coverage import documents_needed, size_table, union_table
from berdslib.evaluation.measures import MRecall, evaluate

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


def test_size_needed_is_the_rank_of_the_last_perspective_to_show_up():
    assert documents_needed(RUN, VERDICTS, QUESTIONS).to_dict() == pytest.approx(
        {"q1": 3, "q2": np.nan, "q3": 2}, nan_ok=True
    )
    assert documents_needed(RUN, VERDICTS, QUESTIONS, k=2).isna().tolist() == [True, True, False]


def test_the_table_has_the_mean_size_of_covered_questions_and_the_share_of_all():
    table = size_table({"run": RUN}, VERDICTS, QUESTIONS).set_index("dataset")
    assert table.loc["one", ["n", "set_size", "within"]].tolist() == [2, 3, 0.5]
    assert table.loc["two", ["n", "set_size", "within"]].tolist() == [1, 2, 1.0]
    assert table.loc["macro", ["set_size", "within"]].tolist() == [2.5, 0.75]


def test_a_run_that_covers_nothing_has_no_size_and_a_share_of_zero():
    table = size_table({"other": OTHER}, VERDICTS, QUESTIONS)
    assert table["set_size"].isna().all() and (table["within"] == 0).all()


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
@settings(deadline=None)
@given(
    lists=st.lists(st.permutations(range(6)), min_size=1, max_size=4),
    yes=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 5))),
)
def test_within_k_agrees_with_mrecall_and_the_sizes_with_a_plain_loop(lists, yes):
    questions = [Question(f"q{i}", "?", ("x", "y", "z")) for i in range(len(lists))]
    run = ranked_run({f"q{i}": [f"d{d}" for d in order] for i, order in enumerate(lists)})
    rows = [(f"q{q}", p, f"d{d}", 1.0, True) for q, p, d in sorted(yes) if q < len(lists)]
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
        expected = evaluate(run, verdicts, questions, [MRecall @ k])[f"MRecall@{k}"]
        assert (sizes <= k).astype(float).tolist() == expected.tolist()
    assert isinstance(sizes, pd.Series)


ELSEWHERE = ranked_run({"other": ["a"]})
