"""The memory that fine-tuning needs, computed before the model is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import psutil
import torch

from berdslib.data.records import Passage
from berdslib.errors import InputError
from berdslib.judging.base import Pair
from berdslib.judging.causal import Causal, common_start
from berdslib.judging.examples import Example
from berdslib.judging.recipe import Recipe
from berdslib.llm.prompting import load_prompt
from berdslib.models.loading import NO_CODE, device, has_bf16, language_model_numbers, load_model, read_tokenizer
from berdslib.models.packaged import located
from berdslib.progress import begin

_BITS_4 = 0.5 + 4 / 64  # bytes of a weight: four bits, and a float32 scale for each 64
_TRAINED = 4 + 4 + 8  # bytes of a trained weight: float32, with its gradient and AdamW's two means


class Memory(NamedTuple):
    """Bytes that a training needs: frozen weights, trained weights with their optimiser, and the largest batch."""

    weights: float
    trained: float
    activations: float

    def __str__(self) -> str:
        total, weights, trained, activations = (f"{size / 1e9:.3g}" for size in (sum(self), *self))
        return f"{total} GB (weights {weights}, trained weights and AdamW {trained}, activations {activations})"


class Batch(NamedTuple):
    """The largest batch of a training: rows, their length in tokens, and how many tokens at the start are shared."""

    rows: int
    length: int
    shared: int


@dataclass(frozen=True)
class Machine:
    """Sizes of a training's numbers: bytes of a loaded weight, of a multiplied number, and of a dropout mask."""

    weight: int
    product: int
    mask: int

    @classmethod
    def here(cls) -> Machine:
        """Return the sizes on this machine's GPU, or on its CPU, where dropout keeps a float32 for each number."""
        product = 2 if in_bf16() else 4
        return cls(language_model_numbers().itemsize, product, 1 if device() == "cuda" else 4)


def estimate(model: Any, recipe: Recipe, batch: Batch, machine: Machine, *, four_bit: bool = False) -> Memory:
    """Return the memory of a training at its peak.

    Args:
        model: a causal language model of transformers; its weights may be on the device "meta".
        recipe: LoRA or all weights, with checkpoints of activations or without.
        batch: the largest batch.
        machine: the bytes of its numbers.
        four_bit: the linear layers are loaded in 4 bits.
    """
    linear = _linear_layers(model)
    parameters = sum(weight.numel() for weight in model.parameters())
    packed = sum(layer.weight.numel() for layer in linear) if four_bit else 0
    # In a model of 4 bits, training keeps the other weights in float32.
    weights = packed * _BITS_4 + (parameters - packed) * (4 if four_bit else machine.weight)
    if recipe.rank:
        trained = _TRAINED * recipe.rank * sum(layer.in_features + layer.out_features for layer in linear)
    else:
        weights, trained = 0.0, _TRAINED * parameters
    return Memory(weights, trained, _activations(model, linear, recipe, batch, machine))


def _linear_layers(model: Any) -> list[Any]:
    """Return the layers that get LoRA matrices: all linear layers except the output."""
    output = model.get_output_embeddings()
    return [part for part in model.modules() if isinstance(part, torch.nn.Linear) and part is not output]


def _activations(model: Any, linear: Sequence[Any], recipe: Recipe, batch: Batch, machine: Machine) -> float:
    """Return the bytes of the backward pass: the values that each layer keeps, and those of the current layer."""
    config = model.config
    layers = config.num_hidden_layers
    width = config.hidden_size
    inner = getattr(config, "intermediate_size", None) or 4 * width
    heads = config.num_attention_heads
    attention = heads * (getattr(config, "head_dim", None) or width // heads)
    tokens = batch.rows * (batch.length - batch.shared) + batch.shared
    inputs = sum(layer.in_features for layer in linear) / layers
    of_linear = inputs * (machine.product + (machine.mask if recipe.rank and recipe.dropout else 0))
    of_linear += recipe.rank * machine.product * len(linear) / layers
    # Two norms in float32; a query, an answer, and the gate, its curve and the other input of the feed-forward layer.
    of_rest = 2 * width * 4 + (2 * attention + 3 * inner) * machine.product
    # Keys and values are kept for the shared start, too.
    of_cache = 2 * attention * machine.product * batch.rows * batch.length
    a_layer = tokens * (of_linear + of_rest) + of_cache
    # In the backward pass, gradients of the widest layer, in float32, come on top.
    working = 3 * tokens * inner * 4
    logits = 3 * batch.rows * config.vocab_size * 4
    kept = layers * tokens * width * machine.weight + a_layer if recipe.checkpoint_gradients else layers * a_layer
    return kept + working + logits


# ---------------------------------------------------------------- before a training


def require_memory(
    checkpoint: str, examples: Sequence[Example], recipe: Recipe, *, four_bit: bool, wording: str
) -> None:
    """Log the memory that a training will need, before it begins.

    Raises:
        InputError: the training needs more than is free; the message names settings of the same training that fit.
    """
    from transformers import AutoTokenizer

    model = empty_model(checkpoint)
    tokenizer = load_model(checkpoint, partial(read_tokenizer, AutoTokenizer, checkpoint))
    prompt = load_prompt("perspective_detection", wording, ("document", "statement"))
    reader = Causal(model, tokenizer, checkpoint, prompt=prompt)
    prompts = [reader.token_ids(Pair(e.topic, 0, Passage("", e.document), e.statement)) for e in examples]
    room = free_memory()

    def needed(recipe: Recipe, four_bit: bool) -> Memory:
        return estimate(model, recipe, largest_batch(prompts, recipe), Machine.here(), four_bit=four_bit)

    need = needed(recipe, four_bit)
    begin(f"memory, computed: {need}; {room / 1e9:.1f} GB are free")
    if sum(need) <= room:
        return
    advice = "no settings of this training would fit"
    for settings, in_four_bits in _smaller(recipe, four_bit):
        less = needed(replace(recipe, **settings), in_four_bits)
        if sum(less) <= room:
            settings |= {"four_bit": True} if in_four_bits else {}
            chosen = ", ".join(f"{name}={value}" for name, value in settings.items())
            advice = f"the same steps with {chosen} need {less}"
            break
    raise InputError(f"the training needs {need}, and {room / 1e9:.1f} GB are free; {advice}", field="memory")


def _smaller(recipe: Recipe, four_bit: bool) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield settings of the same steps that take less and less memory, and whether weights have 4 bits."""
    rows = max(1, recipe.batch_size // 4)
    few = {"batch_size": rows, "accumulate": recipe.accumulate * recipe.batch_size // rows}
    one = {"batch_size": 1, "accumulate": recipe.accumulate * recipe.batch_size}
    checkpoints = {"checkpoint_gradients": True}
    yield few, four_bit
    yield few | checkpoints, four_bit
    yield one | checkpoints, four_bit
    if recipe.rank:
        yield few | checkpoints, True
        yield one | checkpoints, True


def largest_batch(prompts: Sequence[list[int]], recipe: Recipe) -> Batch:
    """Return the largest batch, that of the longest prompts; the model reads their common start once a batch."""
    shared = 0 if recipe.checkpoint_gradients else common_start(prompts)
    return Batch(min(recipe.batch_size, len(prompts)), max(map(len, prompts)), shared)


def empty_model(checkpoint: str) -> Any:
    """Return a causal language model without values in its weights."""
    from transformers import AutoConfig, AutoModelForCausalLM

    def load(local: bool) -> Any:
        config = AutoConfig.from_pretrained(located(checkpoint), local_files_only=local, **NO_CODE)
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(config, **NO_CODE)

    return load_model(checkpoint, load)


def in_bf16() -> bool:
    """Return whether training multiplies in bfloat16, which needs hardware for it: on a GPU, from Ampere on."""
    # Torch also accepts cards that emulate it.
    return torch.cuda.get_device_capability()[0] >= 8 if device() == "cuda" else has_bf16()


def free_memory() -> int:
    """Return the free bytes of the GPU, or of this machine without one."""
    if device() == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    return int(psutil.virtual_memory().available)
