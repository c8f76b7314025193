"""The committee: members keep their own yes and no, and the mean is a mean."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berdslib.data.records import Passage
from berdslib.errors import MissingDataError
from berdslib.judging.base import Pair, how_sure, threshold_at_half
from berdslib.judging.baselines import Committee, Overlap, Random
from berdslib.judging.registry import make_judge
from berdslib.judging.store import VerdictStore, judge_pairs


class Fixed:
    def __init__(self, name, values, threshold=0.5):
        self.id, self.values, self.threshold = name, values, threshold

    def p_yes(self, pairs):
        return np.array([self.values[p.passage.docno] for p in pairs])


PAIRS = [Pair("q", 0, Passage(d, f"text {d}"), "Cats are kind.") for d in "abc"]


def test_mean_and_disagreement_by_hand():
    one = Fixed("one", {"a": 0.9, "b": 0.1, "c": 0.6})
    two = Fixed("two", {"a": 0.7, "b": 0.3, "c": 0.2})
    committee = Committee([one, two])
    assert committee.p_yes(PAIRS).tolist() == pytest.approx([0.8, 0.2, 0.4])
    assert committee.p_yes([]).shape == (0,)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.01, 0.99))
def test_centring_keeps_order_bounds_and_answers(values, threshold):
    p = np.sort(np.array(values))
    moved = threshold_at_half(p, threshold)
    assert (np.diff(moved) >= 0).all() and (moved >= 0).all() and (moved <= 1).all()
    clear = np.abs(p - threshold) > 1e-9
    assert ((moved >= 0.5) == (p >= threshold))[clear].all()


def test_its_id_depends_on_the_members_and_not_on_their_order(tmp_path):
    members = [Overlap(), Random()]
    assert Committee(members).id == Committee(members[::-1]).id
    assert Committee(members).id != Committee([Overlap(), Random(seed=1)]).id
    store = VerdictStore(tmp_path / "v.sqlite")
    _, new = judge_pairs(Committee(members), PAIRS, store)
    _, again = judge_pairs(Committee(members[::-1]), PAIRS, store)
    assert (new, again) == (3, 0)


def test_by_name():
    assert make_judge("overlap+random").id == Committee([Overlap(), Random()]).id
    members = {judge.id for judge in make_judge("overlap+similarity:minilm+ laptop").judges}
    assert members == {make_judge(name).id for name in ("overlap", "similarity:minilm", "laptop")}
    for name in ("laptop:runs/a+b", "laptop:a+overlap:b"):  # folders
        with pytest.raises(MissingDataError, match=re.escape(f"in {name.removeprefix('laptop:')};")):
            make_judge(name)


def test_another_threshold_of_a_member_is_another_committee():
    """It changes the mean; notebooks set it after a judge was made."""
    one, two = Fixed("one", {"a": 0.9, "b": 0.1, "c": 0.6}), Fixed("two", {"a": 0.7, "b": 0.3, "c": 0.2})
    committee = Committee([one, two])
    before, p_yes = committee.id, committee.p_yes(PAIRS)
    two.threshold = 0.2
    assert committee.id != before and not np.allclose(committee.p_yes(PAIRS), p_yes)


def test_a_word_says_how_far_from_the_threshold_an_answer_is():
    p = np.array([0.0, 0.05, 0.1, 0.15, 0.19, 0.2, 0.21, 0.45, 0.5, 0.7, 0.75, 1.0])
    words = ["sure", "sure", "fairly sure", "unsure", "unsure", "unsure", "unsure", "unsure", "fairly sure",
             "fairly sure", "sure", "sure"]  # thirds of 0 to 0.2: 0.067, 0.133; of 0.2 to 1: 0.467, 0.733  # fmt: skip
    assert how_sure(p, 0.2).tolist() == words
