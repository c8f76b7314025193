"""The memory of a training, computed before it: against what torch keeps, AdamW's own tensors, and a reader's table."""

from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, MistralConfig

from berdslib.errors import InputError
from berdslib.judging import finetune, memory
from berdslib.judging.examples import sample_examples
from berdslib.judging.finetune import Recipe
from berdslib.judging.memory import Batch, Machine, empty_model, estimate, largest_batch, require_memory

CPU = Machine(weight=4, product=4, mask=4)
MISTRAL_7B = MistralConfig(
    vocab_size=32_000, hidden_size=4096, intermediate_size=14_336, num_hidden_layers=32, num_attention_heads=32,
    num_key_value_heads=8,
)  # fmt: skip
SMALL = {
    "deep": {"hidden_size": 128, "intermediate_size": 448, "num_attention_heads": 8, "num_hidden_layers": 4},
    "flat": {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2},
}


def config(shape):
    return MistralConfig(vocab_size=1000, num_key_value_heads=2, **SMALL[shape])


def empty(shape):
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(shape)


def kept_bytes(model, batch):
    """Bytes that torch keeps from a forward pass for the backward one, besides the weights."""
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = tensor
        return tensor

    ids = torch.zeros(batch.rows, batch.length, dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(input_ids=ids, attention_mask=torch.ones_like(ids), logits_to_keep=1, use_cache=False)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize("shape", SMALL)
@pytest.mark.parametrize("rank", [16, 0])
def test_computed_is_what_torch_keeps(shape, rank):
    batch = Batch(4, 128, 0)
    recipe = Recipe(rank=rank)
    computed = estimate(empty(config(shape)), recipe, batch, CPU)
    model = AutoModelForCausalLM.from_config(config(shape))
    loaded = sum(weight.nbytes for weight in model.parameters())
    model = finetune._with_lora(model, recipe, "CAUSAL_LM") if rank else model
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    kept = kept_bytes(model.train(), batch)
    # Computed, too, are gradients within the backward pass, of three times the widest layer.
    assert 1.0 <= computed.activations / (kept + 3 * 4 * 128 * config(shape).intermediate_size * 4) < 1.2
    assert computed.weights == (loaded if rank else 0)
    optimiser = torch.optim.AdamW(trained)
    for weight in trained:
        weight.grad = torch.zeros_like(weight)
    optimiser.step()
    means = sum(of[name].nbytes for of in optimiser.state.values() for name in ("exp_avg", "exp_avg_sq"))
    assert computed.trained == means + 2 * sum(weight.nbytes for weight in trained)


def test_a_7b_takes_what_a_reader_counted():
    """Counted on one and two layers of Mistral's shape on a CPU: 390 kB a token and layer, in bfloat16, dropout 0.1."""
    cpu = Machine(weight=2, product=2, mask=4)
    model = empty(MISTRAL_7B)
    memories = [estimate(model, Recipe(), Batch(16, length, 0), cpu) for length in (325, 406)]
    assert memories[0].weights / 1e9 == pytest.approx(14.5, abs=0.05)
    assert memories[0].trained / 1e9 == pytest.approx(2.7, abs=0.05)
    for found, counted in zip(memories, (66, 81), strict=True):
        assert found.activations / 1e9 == pytest.approx(counted, rel=0.07)
    checkpoints = Recipe(batch_size=4, accumulate=4, checkpoint_gradients=True)
    assert estimate(model, checkpoints, Batch(4, 406, 0), cpu).activations < memories[1].activations / 25
    assert estimate(model, Recipe(), Batch(16, 325, 0), cpu, four_bit=True).weights / 1e9 == pytest.approx(5, abs=0.5)


@pytest.mark.parametrize("less", [{"batch_size": 4}, {"checkpoint_gradients": True}, {"rank": 8}])
def test_what_takes_less_is_computed_to_take_less(less):
    model = empty(config("deep"))
    usual = estimate(model, Recipe(), Batch(16, 200, 0), CPU)
    recipe = replace(Recipe(), **less)
    assert sum(estimate(model, recipe, Batch(recipe.batch_size, 200, 0), CPU)) < sum(usual)
    shared = estimate(model, Recipe(), Batch(16, 200, 100), CPU)
    assert shared.activations < usual.activations


def test_the_largest_batch():
    prompts = [[1, 2, 3, 4], [1, 2, 5], [1, 2, 6, 7, 8]]
    assert largest_batch(prompts, Recipe(batch_size=2)) == Batch(2, 5, 2)
    assert largest_batch(prompts, Recipe(checkpoint_gradients=True)) == Batch(3, 5, 0)


def test_too_little_memory_is_told_with_settings_that_fit(monkeypatch):
    examples = sample_examples()[:40]

    def refused(room):
        monkeypatch.setattr(memory, "free_memory", lambda: room)
        with pytest.raises(InputError, match="memory") as caught:
            require_memory("smollm2", examples, Recipe(), four_bit=False, wording="ours")
        return str(caught.value)

    monkeypatch.setattr(memory, "free_memory", lambda: 10**12)
    require_memory("smollm2", examples, Recipe(), four_bit=False, wording="ours")
    assert {"batch_size=4", "accumulate=4"} <= set(refused(3 * 10**9).replace(",", "").split())
    assert "batch_size" not in refused(10**8)  # the weights alone are more
    assert sum(weight.numel() for weight in empty_model("smollm2").parameters()) == pytest.approx(135e6, rel=0.01)
