"""Agreement of two reviewers: worked examples from the literature, the libraries as oracles, and what is undefined."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.metrics import binary_distance, interval_distance
from nltk.metrics.agreement import AnnotationTask
from sklearn.metrics import cohen_kappa_score

from berdslib.construction.review import ANSWERS, SheetRow
from berdslib.construction.reviewers import _resampled, disagreements, reviewer_agreement
from berdslib.errors import InputError


def sheet(column, answers, **given):
    return [SheetRow(str(i), "ponds", "", "Q?", "A\nB", **{column: one}, **given) for i, one in enumerate(answers)]


def compared(column, first, second, **given):
    given.setdefault("resamples", 500)
    table = reviewer_agreement(sheet(column, first), sheet(column, second), **given).set_index("column")
    return table.loc[column]


def from_counts(yes_yes, yes_no, no_yes, no_no):
    first = ["yes"] * (yes_yes + yes_no) + ["no"] * (no_yes + no_no)
    second = ["yes"] * yes_yes + ["no"] * yes_no + ["yes"] * no_yes + ["no"] * no_no
    return first, second


def test_kappa_of_a_worked_example():
    """50 proposals, 20 accepted and 15 refused by both, 5 and 10 by one: 0.7 observed, 0.5 by chance, so 0.4."""
    found = compared("question_ok", *from_counts(20, 5, 10, 15))
    assert found["n"] == 50 and found["percent"] == pytest.approx(70) and found["kappa"] == pytest.approx(0.4)


def test_alpha_of_krippendorffs_worked_example():
    """Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", part A: ten units, two observers, 0.095."""
    first, second = "0100000000", "1110010010"
    words = {"0": "no", "1": "yes"}
    found = compared("contradict", [words[x] for x in first], [words[x] for x in second])
    assert found["alpha"] == pytest.approx(0.095, abs=5e-4)
    # By hand: 4 of 10 units differ; of 20 values 14 are 0 and 6 are 1: 1 - (20 - 1) * 4 / (14 * 6).
    assert found["alpha"] == pytest.approx(1 - 19 * 4 / (14 * 6))


def test_a_large_slip_of_severity_counts_four_times_a_small_one():
    """By hand: of (none, none), (minor, minor), (major, X), squared distances over those of all pairs of values."""
    base = ["none", "minor", "major"]
    near, far = (compared("severity", base, ["none", "minor", last]) for last in ("minor", "none"))
    # near: 1 - 2 * 1 * 5 / sum over the 30 ordered pairs of {0,0,1,1,2,1}; that sum is 2 * (2*3*1 + 2*1*4 + 3*1*1) = 34
    assert near["alpha"] == pytest.approx(1 - (2 * 1 / 6) / (34 / 30))
    # far: values {0,0,1,1,2,0}: 2 * (3*2*1 + 3*1*4 + 2*1*1) = 40
    assert far["alpha"] == pytest.approx(1 - (2 * 4 / 6) / (40 / 30))
    # kappa: mean square 1/3 against mean of (i - j)^2 over {0,1,2} x {0,1,1}: (0+1+1 + 1+0+0 + 4+1+1) / 9
    assert near["kappa"] == pytest.approx(1 - (1 / 3) / (9 / 9))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(list(ANSWERS)), st.data())
def test_the_statistic_of_the_resamples_is_that_of_the_libraries(column, data):
    choices = ANSWERS[column]
    index = st.integers(0, len(choices) - 1)
    both = np.array(data.draw(st.lists(st.tuples(index, index), min_size=2, max_size=12)))
    drawn = _Fixed(both, len(choices))
    kappa, alpha = _resampled(both, len(choices), 1, drawn)
    ordered = len(choices) > 2
    if len(set(both.ravel().tolist())) == 1:
        assert not len(kappa) and not len(alpha)
        return
    weights = "quadratic" if ordered else None
    assert kappa[0] == pytest.approx(cohen_kappa_score(*both.T, labels=range(len(choices)), weights=weights))
    said = [(who, item, int(both[item, who])) for item in range(len(both)) for who in (0, 1)]
    distance = interval_distance if ordered else binary_distance
    assert alpha[0] == pytest.approx(AnnotationTask(said, distance=distance).alpha())


class _Fixed:
    """A source of draws that draws each item once."""

    def __init__(self, both, choices):
        self.n = len(both)

    def multinomial(self, n, shares, size):
        return np.ones((size, self.n))


@given(
    st.lists(st.tuples(st.sampled_from(["", "yes", "no"]), st.sampled_from(["", "yes", "no"])), min_size=1, max_size=12)
)
@settings(max_examples=40, deadline=None)
def test_bounds_and_the_order_of_the_reviewers(pairs):
    first, second = zip(*pairs, strict=True)
    here, there = (compared("question_ok", *two, resamples=50) for two in ((first, second), (second, first)))
    both = [(a, b) for a, b in pairs if a and b]
    assert here["n"] == there["n"] == len(both)
    for name in ("percent", "kappa", "alpha"):
        assert here[name] == pytest.approx(there[name], nan_ok=True)
        assert not here[name] > (100 if name == "percent" else 1)
    if both:
        assert here["percent"] == pytest.approx(100 * sum(a == b for a, b in both) / len(both))


def test_intervals_hold_the_value_and_shrink_with_more_items():
    few, many = (
        compared("question_ok", *from_counts(*[k * m for k in (20, 5, 10, 15)]), resamples=2000) for m in (1, 16)
    )
    for name in ("kappa", "alpha"):
        widths = [one[f"{name}_high"] - one[f"{name}_low"] for one in (few, many)]
        assert all(one[f"{name}_low"] < one[name] < one[f"{name}_high"] for one in (few, many))
        assert widths[1] == pytest.approx(widths[0] / 4, rel=0.2)


def test_with_one_answer_only_kappa_and_alpha_are_undefined_and_said_so():
    found = compared("question_ok", ["yes"] * 20, ["yes"] * 20)
    assert found["percent"] == 100 and found[["kappa", "alpha", "kappa_low", "alpha_high"]].isna().all()
    assert found["remark"] == "only 'yes' was answered, so that chance cannot be told from agreement"
    opposed = compared("question_ok", ["yes"] * 5, ["no"] * 5)
    assert opposed["kappa"] == 0 and opposed["alpha"] < 0 and np.isnan(opposed["kappa_low"])
    assert opposed["remark"] == "all bootstrap samples give the same: no interval"
    assert found["percent_high"] == 100 and found["percent_low"] == pytest.approx(100 * 0.025 ** (1 / 20))


def test_percent_has_the_exact_interval():
    """19 of 20: the bounds solve the binomial tails by hand."""
    found = compared("belongs", *from_counts(10, 1, 0, 9))
    low, high = found["percent_low"] / 100, found["percent_high"] / 100
    assert 20 * low**19 * (1 - low) + low**20 == pytest.approx(0.025)
    assert 1 - high**20 == pytest.approx(0.025)
    with pytest.raises(InputError, match="level"):
        compared("belongs", *from_counts(10, 1, 0, 9), level=1)


def test_too_few_samples_with_two_answers_give_no_interval():
    """With one item of 20 unlike the others, (19/20)^20 = 36 % of the samples miss it."""
    found = compared("question_ok", *from_counts(19, 1, 0, 0), resamples=5000)
    assert found["dropped"] == pytest.approx(0.95**20, abs=0.03)
    assert found[["kappa_low", "kappa_high", "alpha_low", "alpha_high"]].isna().all() and found["kappa"] == 0
    assert found["remark"].endswith("of the bootstrap samples hold one answer only: too many for an interval")
    even = compared("question_ok", *from_counts(8, 2, 3, 7), resamples=5000)
    assert even["dropped"] == 0 and not even["remark"] and even["kappa_low"] < even["kappa_high"]


def test_two_who_agree_on_everything_have_no_interval_of_width_zero():
    found = compared("question_ok", *from_counts(10, 0, 0, 10))
    assert found["kappa"] == found["alpha"] == 1 and found[["kappa_low", "alpha_high"]].isna().all()
    assert found["remark"] == "all bootstrap samples give the same: no interval"


def test_missing_answers_are_left_aside():
    found = compared("contradict", ["yes", "", "no", "yes", ""], ["yes", "no", "", "no", ""])
    assert found["n"] == 2 and found["percent"] == 50
    nothing = compared("contradict", ["yes", ""], ["", "no"])
    assert nothing["n"] == 0 and nothing["remark"] == "no item that both answered" and np.isnan(nothing["percent"])
    single = compared("contradict", ["yes"], ["no"])
    assert single["percent"] == 0 and single["percent_high"] == pytest.approx(97.5) and np.isnan(single["kappa_low"])


def test_sheets_that_do_not_belong_together_are_refused():
    mine = sheet("question_ok", ["yes"])
    with pytest.raises(InputError, match="no item in common; draw one sheet"):
        reviewer_agreement(mine, [mine[0]._replace(qid="other")])
    for function, field in itertools.product((reviewer_agreement, disagreements), ("question", "perspectives")):
        with pytest.raises(InputError, match="item '0' has another question or other perspectives"):
            function(mine, [mine[0]._replace(**{field: "changed"})])


def test_disagreements_are_listed_with_the_notes():
    first = [
        SheetRow("a", "s", "", "Q?", "P", "yes", "yes", "no", "", "minor", "odd"),
        SheetRow("b", "s", "", "R?", "P", "yes", "yes"),
    ]
    second = [first[0]._replace(question_ok="no", contradict="yes", severity="major", note=""), first[1]]
    table = disagreements(first, second)
    assert table[["qid", "column", "first", "second"]].values.tolist() == [
        ["a", "question_ok", "yes", "no"],
        ["a", "severity", "minor", "major"],
    ]
    assert table["first_note"].tolist() == ["odd", "odd"] and disagreements(first, first).empty
