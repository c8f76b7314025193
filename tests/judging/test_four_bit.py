"""The causal judge in 4 bits, on the CPU: the same answers as a float model that has the rounded weights."""

import numpy as np
import pytest
import torch
from tiny import mistral_tokenizer, sample_pairs
from transformers import MistralConfig, MistralForCausalLM

from berdslib.data.datasets import load_passages
from berdslib.judging.causal import Causal, load_causal

bnb = pytest.importorskip("bitsandbytes")


@pytest.fixture(scope="module")
def tokenizer():
    return mistral_tokenizer([p.full_text for p in load_passages("sample")], words=["Yes", "No"], starts=False)


@pytest.fixture(scope="module")
def folders(tokenizer, tmp_path_factory):
    """A model whose sizes 4-bit blocks of 64 fit into, and a LoRA adapter on top of it."""
    from peft import LoraConfig, get_peft_model

    folder = tmp_path_factory.mktemp("four_bit")
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=4096, initializer_range=0.1,
    )  # fmt: skip
    model = MistralForCausalLM(config)
    model.save_pretrained(folder / "tiny")
    tokenizer.save_pretrained(folder / "tiny")
    tuned = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
    tuned.save_pretrained(folder / "adapter")
    return folder


@pytest.fixture(scope="module")
def pairs():
    return sample_pairs(32)


def rounded(folder):
    """The float model with the weights that 4 bits leave of them, each block of 64 rounded here by the code's table."""
    model = MistralForCausalLM.from_pretrained(folder).eval()
    levels = bnb.functional.get_4bit_type("nf4", device="cpu")
    for layer in model.model.layers:
        for linear in (m for m in layer.modules() if isinstance(m, torch.nn.Linear)):
            blocks = linear.weight.data.view(-1, 64)
            scale = blocks.abs().max(dim=1, keepdim=True).values
            nearest = (blocks / scale).unsqueeze(-1).sub(levels).abs().argmin(-1)
            linear.weight.data = (levels[nearest] * scale).view_as(linear.weight)
    return model


def is_four_bit(model):
    return any(isinstance(m, bnb.nn.Linear4bit) for m in model.modules())


@pytest.mark.slow
def test_four_bits_judge_as_their_rounded_weights_do(folders, tokenizer, pairs):
    judge = load_causal(str(folders / "tiny"), four_bit=True)
    assert is_four_bit(judge.model) and "4bit" in judge.id
    got = judge.p_yes(pairs)
    plain = load_causal(str(folders / "tiny")).p_yes(pairs)
    same = Causal(rounded(folders / "tiny"), tokenizer, "rounded").p_yes(pairs)
    np.testing.assert_allclose(got, same, atol=0.02)
    assert np.abs(plain - same).max() > 0.05, "rounding must show, or the line above proves nothing"
    np.testing.assert_allclose(got, plain, atol=0.3)


@pytest.mark.slow
def test_an_adapter_stays_beside_four_bit_weights(folders, tokenizer, pairs):
    """Merged, it would be rounded to 4 bits with them: the answers of another model."""
    from peft import PeftModel

    adapter = str(folders / "adapter")
    judge = load_causal(str(folders / "tiny"), adapter=adapter, four_bit=True)
    base = load_causal(str(folders / "tiny"), four_bit=True)
    got, without = judge.p_yes(pairs), base.p_yes(pairs)
    want = Causal(PeftModel.from_pretrained(rounded(folders / "tiny"), adapter).eval(), tokenizer, "x").p_yes(pairs)
    fresh = load_causal(str(folders / "tiny"), four_bit=True).model
    merged = Causal(PeftModel.from_pretrained(fresh, adapter).merge_and_unload().eval(), tokenizer, "y").p_yes(pairs)
    np.testing.assert_allclose(got, want, atol=0.02)
    assert np.abs(merged - want).max() > 0.05 and np.abs(without - want).max() > 0.05
    assert judge.id != base.id
