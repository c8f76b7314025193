"""The causal judge against one plain forward pass per pair, and batched answers against plain generate, in one run.

Usage: python benchmarks/bench_causal.py [--size tiny|7b|smollm2] [--pairs 64] [--answers 8] [--longest 60]

``smollm2`` is the small chat model that comes in a package; it also answers. ``tiny`` is a random Mistral-shaped model
for any CPU. ``7b`` is a randomly initialised Mistral-7B configuration in bf16 for a GPU (weights do not change the
work); it was not run where this was written: no GPU was at hand.
"""

import argparse
import time

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import MistralConfig, MistralForCausalLM, PreTrainedTokenizerFast

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.judging.base import Pair
from berdslib.judging.causal import Causal, load_causal
from berdslib.llm.prompting import load_prompt
from berdslib.models.chat import LocalChat

SIZES = {
    "tiny": {"hidden_size": 256, "intermediate_size": 896, "num_hidden_layers": 4, "num_attention_heads": 8,
             "num_key_value_heads": 2},
    "7b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
           "num_key_value_heads": 8},
}  # fmt: skip


def make_tokenizer():
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=8000, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    bpe.train_from_iterator([p.full_text for p in load_passages("sample")], trainer)
    bpe.add_tokens(["Yes", "No"])
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def make_pairs(n):
    questions = {q.qid: q for q in load_questions("sample", "all")}
    corpus = {p.docno: p for p in load_passages("sample")}
    rows = sorted(load_gold("sample").itertuples(), key=lambda r: (r.docno, r.pid))
    return [Pair(r.qid, r.pid, corpus[r.docno], questions[r.qid].perspectives[r.pid]) for r in rows[:n]]


def one_by_one(judge, pairs):
    """The plain way: a forward pass over each whole prompt, all logits computed."""
    found = []
    for pair in pairs:
        with torch.inference_mode():
            ids = torch.tensor([judge.token_ids(pair)], device=judge.model.device)
            logits = judge.model(input_ids=ids).logits[0, -1].double()
        yes, no = (torch.logsumexp(logits[t], 0) for t in (judge._yes, judge._no))
        found.append(float(torch.sigmoid(yes - no)))
    return np.array(found)


def answering(model, tokenizer, questions, longest):
    """Print tokens a second of plain generate, one by one, and of a chat model that takes all at once, held or not."""
    prompt, kinds = load_prompt("perspective_generation", "short"), {}
    free = [[dict(turn) for turn in prompt.messages(question=q.text)] for q in questions]
    start, tokens = time.perf_counter(), 0
    for messages in free:
        given = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).to(model.device)
        out = model.generate(**given, max_new_tokens=longest, do_sample=False)
        tokens += out.shape[1] - given["input_ids"].shape[1]
    kinds["plain generate"] = tokens / (time.perf_counter() - start)
    for name, held in (("one batch", False), ("one batch, held to a form", True)):
        chat = LocalChat(model, tokenizer, name, max_tokens=longest, held=held)
        start = time.perf_counter()
        asked = [prompt.messages(question=q.text) for q in questions] if held else free
        tokens = sum(reply.completion_tokens for reply in chat.complete_all(asked))
        kinds[name] = tokens / (time.perf_counter() - start)
    for name, speed in kinds.items():
        print(
            f"{name:26} {speed:6.1f} tokens/s; {speed / kinds['plain generate']:.2f} times plain generate", flush=True
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=(*SIZES, "smollm2"), default="tiny")
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--answers", type=int, default=8)
    parser.add_argument("--longest", type=int, default=60)
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.size == "smollm2":
        judge = load_causal("smollm2")
        model, tokenizer = judge.model, judge.tokenizer
        answering(model, tokenizer, load_questions("sample", "all")[: options.answers], options.longest)
    else:
        tokenizer, device = make_tokenizer(), "cuda" if torch.cuda.is_available() else "cpu"
        config = MistralConfig(vocab_size=32_000, max_position_embeddings=8192, **SIZES[options.size])
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        with torch.device(device):
            model = MistralForCausalLM(config).to(dtype).eval()
    pairs = make_pairs(options.pairs)
    ways = {
        "one by one": None,
        "bucketed": Causal(model, tokenizer, options.size, reuse_prefix=False),
        "prefix reuse": Causal(model, tokenizer, options.size),
    }
    reference, plain = None, 0.0
    for name, judge in ways.items():
        start = time.perf_counter()
        scores = one_by_one(ways["bucketed"], pairs) if judge is None else judge.p_yes(pairs)
        seconds = time.perf_counter() - start
        reference, plain = (scores, seconds) if reference is None else (reference, plain)
        print(f"{name:13} {len(pairs) / seconds:7.1f} pairs/s; {plain / seconds:.2f} times one by one; "
              f"largest difference {np.abs(scores - reference).max():.1e}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
