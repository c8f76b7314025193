"""What one query vector can find: against a linear programme, brute force over directions, and lists made by hand."""

import numpy as np
import pandas as pd
import pytest
import single_vector as one_vector
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from single_vector import separating_vector

import berdslib as bd
from berdslib.data.records import make_verdicts


def by_linear_programme(corpus, wanted):
    """Return whether some vector scores every wanted row higher than all others, by another method."""
    others = np.delete(corpus, wanted, axis=0)
    differences = (corpus[wanted][:, None, :] - others[None]).reshape(-1, corpus.shape[1])
    d = corpus.shape[1]
    # Largest margin of a vector within a box; it is above 0 exactly where there is one that separates.
    found = linprog(np.r_[np.zeros(d), -1], np.c_[-differences, np.ones(len(differences))], np.zeros(len(differences)),
                    bounds=[(-1, 1)] * d + [(None, 1)])  # fmt: skip
    return -found.fun


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(4, 30), st.integers(1, 4))
def test_it_finds_a_vector_where_a_linear_programme_says_there_is_one(seed, d, n, m):
    rng = np.random.default_rng(seed)
    corpus = rng.normal(size=(n, d))
    corpus /= np.linalg.norm(corpus, axis=1, keepdims=True)
    wanted = rng.choice(n, min(m, n - 1), replace=False)
    margin, found = by_linear_programme(corpus, wanted), separating_vector(corpus, wanted)
    if margin > 1e-4:
        scores = corpus @ found
        assert scores[wanted].min() > np.delete(scores, wanted).max()
    elif margin < 1e-9:
        assert found is None


def circle(*degrees):
    angles = np.radians(degrees)
    return np.column_stack([np.cos(angles), np.sin(angles)])


class Fixed:
    """An encoder that knows a few texts."""

    id = "fixed"

    def __init__(self, degrees):
        self.of = {text: circle(angle)[0] for text, angle in degrees.items()}

    def encode_passages(self, texts):
        return np.array([self.of[t] for t in texts], dtype=np.float32)

    encode_queries = encode_passages


ENCODER = Fixed({"for": 0, "other": 20, "against": 40, "far": 180, "Q?": 5, "Yes.": 0, "No.": 40})
PASSAGES = [bd.Passage(name, name) for name in ("for", "other", "against", "far")]
QUESTION = bd.Question("q", "Q?", ("Yes.", "No."))
GOLD = make_verdicts([("q", 0, "for", 1.0, True), ("q", 1, "against", 1.0, True)], "gold")


def places(passages=PASSAGES, gold=GOLD):
    table = one_vector.places_needed([QUESTION], gold, passages, ENCODER)
    return table.pivot(index="vector", columns="target", values="places")


def test_places_by_hand():
    table = places()
    # From 5 degrees: for (5 away), other (15), against (35). The means lie at 20, upon the other passage.
    assert table.loc["question"].tolist() == [3, 3]
    assert table.loc["mean of its gold"].tolist() == table.loc["mean of its perspectives"].tolist() == [3, 3]
    assert table.loc["best gold passage"].tolist() == [3, 3]
    assert np.isinf(table.loc["any vector"]).all()
    table = places([p for p in PASSAGES if p.docno != "other"])
    assert table.loc["any vector"].tolist() == [2, 2] and table.loc["question"].tolist() == [2, 2]


def test_one_for_each_perspective_needs_the_first_of_each_only():
    gold = pd.concat([GOLD, make_verdicts([("q", 0, "far", 1.0, True)], "gold")])
    table = places(gold=gold)
    assert table.loc["question", list(one_vector.TARGETS)].tolist() == [4, 3]


def test_a_copy_of_a_gold_passage_is_no_other_passage():
    twice = [bd.Passage("for", "for"), bd.Passage("again", "for"), bd.Passage("against", "against")]
    assert places(twice).loc["any vector"].tolist() == [2, 2]  # where all are wanted, any vector does


def test_share_within_counts_and_says_what_is_possible():
    table = one_vector.share_within(one_vector.places_needed([QUESTION], GOLD, PASSAGES, ENCODER), [1, 2, 3])
    rows = table.set_index(["target", "vector"])
    assert rows.loc[("all gold passages", "question"), [1, 2, 3]].tolist() == [0, 0, 1]
    assert rows.loc[("all gold passages", "possible"), [1, 2, 3]].tolist() == [0, 1, 1]
    assert rows["n"].eq(1).all()


def test_questions_without_gold_for_a_perspective_are_left_out_and_none_at_all_is_an_error():
    with pytest.raises(bd.InputError, match="for each of its perspectives"):
        places(gold=GOLD[GOLD["pid"] == 0])
