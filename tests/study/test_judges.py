"""Judges beside labels: the table, the judge that always says yes, committees, and all about one judge."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score, roc_auc_score
from stance import NEGATED, PROPOSAL, StancePair

from berdslib.data.readers import LabelledPair
from berdslib.errors import InputError
from berdslib.evaluation.judges import calibration_error
from berdslib.judging.baselines import Overlap
from berdslib.judging.committee import Committee
from berdslib.judging.registry import JUDGES, make_judge, own_judge
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.study.notebooks import load_script
from berdslib.study.raters import ALL_YES, as_asked, judge_table

PAIRS = [
    LabelledPair(f"q{i % 4}", f"Cats number {i} are {'kind' if i % 3 else 'loud'}.", "Cats are kind.", i % 5 == 0)
    for i in range(40)
]


@pytest.fixture
def asked(monkeypatch):
    """A judge by name that keeps what it was asked, and its answers."""
    seen = []

    def says(pairs):
        seen.extend(pairs)
        return [len(p.passage.text) % 7 / 7 for p in pairs]

    class Counting:
        id, threshold = "counting", 0.3

        def p_yes(self, pairs):
            return np.array(says(pairs))

    monkeypatch.setitem(JUDGES._things, "counting", own_judge(Counting, "counting"))
    return seen


def test_the_table_has_auc_calibration_and_the_judge_that_always_says_yes(tmp_path):
    table = judge_table(PAIRS, ["overlap", "random"], VerdictStore(tmp_path / "v.sqlite"))
    labels = np.array([p.label for p in PAIRS])
    p = Overlap().p_yes(as_asked(PAIRS))
    found = table.set_index(["judge", "measure"])["value"]
    assert found["overlap", "f1"] == pytest.approx(f1_score(labels, p >= Overlap().threshold))
    assert found["overlap", "auc"] == pytest.approx(roc_auc_score(labels, p))
    assert found["overlap", "calibration_error"] == pytest.approx(calibration_error(labels, p))
    assert found[ALL_YES, "f1"] == pytest.approx(f1_score(labels, np.ones(40)))
    assert found[ALL_YES].loc[["auc", "recall", "said_yes", "kappa", "accuracy"]].tolist() == [0.5, 1, 1, 0, 0.2]
    assert found[ALL_YES, "calibration_error"] == pytest.approx(0.8)
    assert list(dict.fromkeys(table["judge"])) == [ALL_YES, "overlap", "random"]
    assert list(table.columns) == ["judge", "threshold", "measure", "value", "low", "high"]
    ordered = table[table["measure"] != "calibration_error"]
    assert (ordered["low"] <= ordered["value"] + 1e-9).all() and (ordered["value"] <= ordered["high"] + 1e-9).all()


def test_a_name_that_is_wrong_is_found_before_anything_is_judged(asked):
    with pytest.raises(InputError, match="unknown judge 'laptpo'"):
        judge_table(PAIRS, ["counting", "laptpo"])
    assert not asked


def test_labels_of_one_class_and_no_pairs_are_refused():
    with pytest.raises(InputError, match="both a yes and a no"):
        judge_table([p._replace(label=True) for p in PAIRS], ["overlap"])
    with pytest.raises(InputError, match="no pairs"):
        judge_table([], ["overlap"])


def test_members_of_a_committee_are_asked_once_alone_or_together(asked, tmp_path):
    store = VerdictStore(tmp_path / "v.sqlite")
    judge_table(PAIRS, ["counting", "counting+overlap", "random+counting+overlap"], store)
    assert len(asked) == len({p.document for p in PAIRS})
    committee, pairs = make_judge("counting+overlap"), as_asked(PAIRS)
    assert isinstance(committee, Committee)
    np.testing.assert_array_equal(judge_pairs(committee, pairs, store)[0], committee.p_yes(pairs))


def test_names_of_committees_may_hold_hyphens(monkeypatch):
    monkeypatch.setitem(JUDGES._things, "laptop-mpnet", own_judge(lambda: lambda pairs: [0.5] * len(pairs), "mp"))
    committee = make_judge("random+laptop-mpnet + overlap")
    assert [one.id.partition("(")[0] for one in committee.judges] == ["random", "mp", "overlap"]


# ---------------------------------------------------------------- all about one judge: scripts/judge_tables.py


@pytest.fixture(scope="module")
def judge_report():
    return load_script("judge_tables").judge_report


KINDS = [
    StancePair("zoos", "Zoos are cruel.", "We should close zoos", True, PROPOSAL),
    StancePair("zoos", "Zoos are cruel.", "We should not close zoos", False, NEGATED),
    StancePair("zoos", "Zoos are fun for children.", "We should close zoos", False, PROPOSAL),
    StancePair("zoos", "Zoos are fun for children.", "We should not close zoos", True, NEGATED),
    StancePair("cars", "Cars stink. " * 40, "We should ban cars", True, PROPOSAL),
    StancePair("cars", "Cars stink. " * 40, "We should not ban cars", False, NEGATED),
    StancePair("cars", "A bus is not a car.", "We should ban cars", False, PROPOSAL),
]


def test_all_about_one_judge_by_hand(monkeypatch, judge_report):
    # Says no to denials, yes to all else; so it is right about the cruel and the stinking, and wrong about the fun.
    def answer(pairs):
        return [0.2 if " not " in p.perspective else 0.8 for p in pairs]

    monkeypatch.setitem(JUDGES._things, "blunt", own_judge(lambda: answer, "blunt"))
    report = judge_report(KINDS, "blunt")
    assert (report.judge, report.threshold, report.n) == ("blunt", 0.5, 7)
    measures = report.measures.set_index("measure")["value"]
    assert measures[["precision", "recall", "said_yes"]].tolist() == pytest.approx([2 / 4, 2 / 3, 4 / 7])
    # Of 3 x 4 pairs of a yes and a no, 2 x 2 in order, 2 x 2 + 1 x 2 tied, 1 x 2 exchanged.
    assert measures["auc"] == pytest.approx((4 + 6 / 2) / 12)
    kinds = report.by_kind.set_index("kind")
    assert kinds.loc[PROPOSAL, ["n", "questions", "labelled_yes", "mean_p", "said_yes"]].tolist() == [4, 2, 0.5, 0.8, 1]
    assert kinds.loc[NEGATED, ["n", "labelled_yes", "mean_p", "said_yes"]].tolist() == pytest.approx([3, 1 / 3, 0.2, 0])
    lengths = report.by_length.set_index("length")
    assert lengths["n"].to_dict() == {"1-50 words": 5, "51-100 words": 2}
    assert lengths.loc["51-100 words", "f1"] == 1
    words = report.by_how_sure[
        ["said_yes", "how_sure", "n", "accuracy"]
    ].values.tolist()  # .2 and .8 are 60 % of the way
    assert words == [[False, "fairly sure", 3, pytest.approx(2 / 3)], [True, "fairly sure", 4, pytest.approx(1 / 2)]]
    assert report.calibration[["n", "mean_p"]].values.tolist() == [[3, pytest.approx(0.2)], [4, pytest.approx(0.8)]]
    negation = report.negation.set_index("measure")["value"]
    assert negation["right_higher"] == pytest.approx(2 / 3) and negation["sum_of_p"] == pytest.approx(1)
    assert negation[["both_yes", "both_no"]].tolist() == [0, 0]


def test_intervals_of_negations_draw_topics(monkeypatch, judge_report):
    # Right about all documents of one topic, wrong about all of the other: a draw of two topics may hold either twice.
    pairs = [
        StancePair(topic, f"{topic} {i}", f"We should {no}ban {topic}", not no, NEGATED if no else PROPOSAL)
        for topic in ("zoos", "cars") for i in range(20) for no in ("", "not ")
    ]  # fmt: skip

    def answer(pairs):
        return [0.8 if (p.qid == "zoos") != (" not " in p.perspective) else 0.2 for p in pairs]

    monkeypatch.setitem(JUDGES._things, "partial", own_judge(lambda: answer, "partial"))
    negation = judge_report(pairs, "partial").negation.set_index("measure")
    assert negation.loc["right_higher", ["value", "low", "high"]].tolist() == [0.5, 0, 1]


def test_pairs_without_negations_have_a_report_without_them(judge_report):
    report = judge_report([p for p in KINDS if p.kind == PROPOSAL], "overlap")
    assert report.negation.empty and report.n == 4 and isinstance(report.by_kind, pd.DataFrame)
