"""Where a judge is weak: breakdowns by hand and against sklearn, negation by hand."""

import numpy as np
import pandas as pd
import pytest
from judge_kinds import agreement_by, answers_by, length_bucket, negation_report
from sklearn.metrics import accuracy_score, f1_score

from berdslib.errors import InputError


@pytest.fixture
def pairs():
    rng = np.random.default_rng(5)
    n = 400
    label = rng.random(n) < 0.3
    frame = pd.DataFrame({"qid": rng.integers(0, 25, n).astype(str), "label": label})
    frame["retriever"] = rng.choice(["bm25", "dpr"], n)
    frame["dataset"] = rng.choice(["kialo", "arguana"], n)
    wrong = rng.random(n) < np.where(frame["retriever"] == "dpr", 0.3, 0.05)
    return frame.assign(answer=label ^ wrong)


def test_agreement_by_counts_each_part_for_itself(pairs):
    table = agreement_by(pairs, "retriever", resamples=300).set_index("retriever")
    for name, part in pairs.groupby("retriever"):
        row = table.loc[name]
        assert row["n"] == len(part) and row["questions"] == part["qid"].nunique()
        assert row["labelled_yes"] == pytest.approx(part["label"].mean())
        assert row["accuracy"] == pytest.approx(accuracy_score(part["label"], part["answer"]))
        assert row["f1"] == pytest.approx(f1_score(part["label"], part["answer"]))
    assert table.loc["dpr", "accuracy_high"] < table.loc["bm25", "accuracy_low"]  # the difference was put there
    assert table.loc["dpr", "f1_high"] < table.loc["bm25", "f1_low"]


def test_length_buckets_hold_their_upper_edge():
    texts = ["", "a", "a b", "a b c", "a b c d", "a  b\nc d\te"]
    names = ["1-2 words", "3-4 words", "5 words and more"]
    assert length_bucket(texts, [2, 4]).tolist() == [names[i] for i in (0, 0, 0, 1, 1, 2)]
    assert length_bucket(texts, [2, 4]).categories.tolist() == names
    with pytest.raises(InputError, match="ascending"):
        length_bucket(texts, [4, 4])


def test_negation_report_by_hand():
    p_right, p_wrong = np.array([0.9, 0.6, 0.4, 0.2]), np.array([0.1, 0.6, 0.8, 0.3])
    report = negation_report(p_right, p_wrong, list("abcd"), resamples=200).set_index("measure")["value"]
    assert report["right_higher"] == 1.5 / 4  # one right, one tie
    assert report["both_yes"] == report["both_no"] == 1 / 4
    assert report["sum_of_p"] == pytest.approx(3.9 / 4)
    stricter = negation_report(p_right, p_wrong, list("abcd"), threshold=0.7, resamples=200).set_index("measure")
    assert stricter.loc[["both_yes", "both_no"], "value"].tolist() == [0.0, 0.5]


def test_what_a_judge_answers_to_each_kind():
    pairs = pd.DataFrame({
        "qid": ["1", "1", "2", "2"], "label": [True, True, False, False], "p_yes": [0.9, 0.3, 0.2, 0.4],
        "answer": [True, False, False, False], "kind": ["agree", "agree", "discuss", "discuss"],
    })  # fmt: skip
    found = answers_by(pairs, "kind").set_index("kind")
    assert found.loc["agree", ["n", "questions", "labelled_yes", "mean_p", "said_yes"]].tolist() == [2, 1, 1, 0.6, 0.5]
    assert found.loc["discuss", ["mean_p", "said_yes"]].tolist() == pytest.approx([0.3, 0])
    assert list(found.index) == ["agree", "discuss"]
    ends = ["mean_p_low", "mean_p_high", "said_yes_low", "said_yes_high"]
    assert found[ends].isna().all(axis=None)  # each kind has one question only
    with pytest.raises(InputError, match="missing: pairs"):
        answers_by(pairs[:0], "kind")
