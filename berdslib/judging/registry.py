"""Judges by name, so that a notebook parameter is a string."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from berdslib.errors import InputError, known
from berdslib.judging.base import Judge
from berdslib.judging.baselines import Gold, Overlap, Random, Similarity
from berdslib.judging.causal import load_causal
from berdslib.judging.chat import Chat
from berdslib.judging.committee import Committee
from berdslib.judging.cross import load_cross_encoder
from berdslib.judging.laptop import load_laptop
from berdslib.judging.nli import NLI_T5, load_nli, load_nli_t5
from berdslib.judging.vllm import load_vllm
from berdslib.llm.local import make_chat
from berdslib.models.encoders import get_encoder

# Built-in judges; "gold" needs a verdict table, see make_judge.
JUDGES = ("gold", "random", "overlap", "similarity", "laptop")

# Causal judges with their adapter and the wording they were trained on.
CAUSAL_PRESETS = {
    "mistral-berds": ("mistralai/Mistral-7B-Instruct-v0.2", "timchen0618/Mistral_BERDS_evaluator", "published"),
}


def make_judge(name: str, gold: pd.DataFrame | None = None, title_position: str | None = None) -> Judge:
    """Return a judge by name.

    Args:
        name: one of ``JUDGES`` or ``CAUSAL_PRESETS``, or "causal:MODEL" for any causal language model,
            zero-shot on our prompt, "vllm:MODEL" for the same on vLLM (MODEL may be one of ``CAUSAL_PRESETS``),
            "nli:MODEL" for any natural-language-inference classifier, "nli-t5" for the T5-11B of BeRDS Table 4 (22 GB
            of GPU memory), "nli-t5:MODEL" for another model that writes "1" for entailed, "cross:MODEL" for a
            fine-tuned cross-encoder, or "chat:MODEL" for a chat model as :func:`berdslib.llm.local.make_chat` reads
            it: "chat:gpt-4o", "chat:local:FOLDER", or "chat:recorded:FILE" for answers from a file;
            "overlap+similarity" is the committee of the two.
        gold: the verdict table, needed for "gold".
        title_position: "before", "after" (as the official code) or "none"; None for the judge's own default, which is
            "after" for causal judges, whose prompts come from there, and "before" for the others (divergences.md B6).

    Raises:
        InputError: an unknown name, "gold" without a table, or a title position for a judge that reads no text.
        MissingDataError: a model that is neither on this machine nor reachable.
    """
    if "+" in name and ":" not in name:
        return Committee([make_judge(member.strip(), gold, title_position) for member in name.split("+")])
    options: dict[str, Any] = {} if title_position is None else {"title_position": title_position}
    kind, _, model = name.partition(":")
    if name in CAUSAL_PRESETS:
        kind, model = "causal", name
    if kind in _BY_MODEL and (model or kind == "nli-t5"):
        return _BY_MODEL[kind](model, options)
    known("judge", name, [*JUDGES, "nli-t5", *CAUSAL_PRESETS])
    if name in _READERS:
        return _READERS[name](options)
    if title_position is not None:
        raise InputError(f"the judge {name!r} does not read titles")
    if name == "random":
        return Random()
    if gold is None:
        raise InputError("the judge 'gold' needs verdicts; this data set has none. Use a judge such as 'similarity'")
    return Gold(gold)


def _load_causal_kind(load: Callable[..., Judge], name: str, options: dict[str, Any]) -> Judge:
    """Load a causal model by preset or checkpoint; one that is no preset is asked zero-shot on our prompt."""
    checkpoint, adapter, wording = CAUSAL_PRESETS.get(name, (name, "", "ours"))
    return load(checkpoint, adapter=adapter, wording=wording, **options)


_BY_MODEL: dict[str, Callable[[str, dict[str, Any]], Judge]] = {
    # A verdict is one word, and the probabilities of its first token say how sure the model is.
    "chat": lambda model, options: Chat(make_chat(model, max_tokens=8, logprobs=True), **options),
    "nli": lambda model, options: load_nli(model, **options),
    "nli-t5": lambda model, options: load_nli_t5(model or NLI_T5, **options),
    "cross": lambda model, options: load_cross_encoder(model, **options),
    "vllm": lambda model, options: _load_causal_kind(load_vllm, model, options),
    "causal": lambda model, options: _load_causal_kind(load_causal, model, options),
}
_READERS: dict[str, Callable[[dict[str, Any]], Judge]] = {
    "overlap": lambda options: Overlap(**options),
    "similarity": lambda options: Similarity(get_encoder(), **options),
    "laptop": lambda options: load_laptop(**options),
}
