"""Training speed and memory of the published LoRA recipe (rank 64, all linear layers), full prompts of the sample.

Usage: python benchmarks/bench_finetuning.py [--size tiny|7b] [--pairs 64] [--four-bit] [--keep-activations]

``tiny`` is a random Mistral-shaped model for any CPU. ``7b`` is a randomly initialised Mistral-7B configuration in
bf16 for a GPU (weights do not change the work), with gradient checkpointing; ``--four-bit`` is QLoRA. ``7b`` was not
run where this was written: no GPU was at hand. Beside the rate stands, from the same run, that of the same training
without length buckets; both after a warm-up. On a CPU the peak is that of the process so far.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from bench_causal import SIZES, make_pairs, make_tokenizer
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, MistralConfig, MistralForCausalLM, TrainingArguments

from berdslib.data.records import Passage
from berdslib.judging import finetune
from berdslib.judging.base import Pair
from berdslib.judging.causal import Causal
from berdslib.judging.examples import Example
from berdslib.judging.finetune import Recipe, fine_tune_causal


def make_model(size, four_bit, folder):
    """A random model; in 4 bits by way of a folder, since only loading packs the weights."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    config = MistralConfig(vocab_size=32_000, max_position_embeddings=8192, **SIZES[size])
    torch.manual_seed(0)
    with torch.device(device):
        model = MistralForCausalLM(config).to(dtype)
    if not four_bit:
        return model
    model.save_pretrained(folder)
    del model
    packed = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, device_map=device, quantization_config=packed)


def unsorted(**options):
    """The peer: the order in which a plain sampler would come, lengths mixed."""
    return TrainingArguments(**options | {"train_sampling_strategy": "random"})


def peak_memory():
    """GiB: on a GPU what tensors took since the last reset, else what the process has ever taken."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--four-bit", action="store_true")
    parser.add_argument("--keep-activations", action="store_true", help="no gradient checkpointing")
    options = parser.parse_args()
    tokenizer = make_tokenizer()
    pairs = make_pairs(10**6)
    pairs = [pairs[i] for i in np.random.default_rng(0).permutation(len(pairs))[: options.pairs]]
    # Labels do not change the work; both must occur.
    examples = [Example(p.passage.full_text, p.perspective, i % 2 == 0, p.qid, "sample") for i, p in enumerate(pairs)]
    recipe = Recipe(
        epochs=1, batch_size=options.batch, checkpoint_gradients=not options.keep_activations, save_every=10**6
    )  # fmt: skip
    on = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    print(f"{options.size}, {'4-bit' if options.four_bit else 'not quantised'}, LoRA rank {recipe.rank}, "
          f"batches of {options.batch}, gradient checkpointing {'on' if recipe.checkpoint_gradients else 'off'}, "
          f"on {on}", flush=True)  # fmt: skip
    ours, plain = TrainingArguments, 0.0
    for name, arguments, part in (("warm-up", ours, examples[: options.batch]), ("unsorted", unsorted, examples),
                                ("by length", ours, examples)):  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            judge = Causal(make_model(options.size, options.four_bit, f"{folder}/base"), tokenizer, options.size)
            tokens = sum(len(ids) for ids in prompts(judge, part))
            finetune.TrainingArguments = arguments
            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
            start = time.perf_counter()
            trained = fine_tune_causal(judge, part, recipe, Path(folder) / "run")
            seconds = time.perf_counter() - start
        rate = tokens / seconds
        plain = rate if name == "unsorted" else plain
        if name != "warm-up":
            print(f"{name:10} {rate:7.0f} tokens/s, {len(part) / seconds:6.2f} pairs/s "
                  f"({rate / plain:.2f} times unsorted); {trained.steps} steps, {tokens} tokens, "
                  f"{seconds:.1f} s with writing the adapter; "
                  f"peak {peak_memory():.2f} GiB", flush=True)  # fmt: skip


def prompts(judge, examples):
    return [judge.token_ids(Pair(e.topic, 0, Passage("", e.document), e.statement)) for e in examples]


if __name__ == "__main__":
    main()
