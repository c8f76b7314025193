"""Judges by name, so that a notebook parameter can be a string."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from berdslib.errors import InputError, check_call
from berdslib.judging.base import FunctionJudge, Judge
from berdslib.judging.baselines import Committee, Gold, Overlap, Random, load_similarity
from berdslib.judging.causal import load_causal
from berdslib.judging.chat import Chat
from berdslib.judging.decide import Decide
from berdslib.judging.echo import Echo
from berdslib.judging.pairs import NLI_T5, load_cross_encoder, load_nli, load_nli_t5
from berdslib.judging.probe import load_probe, load_stack
from berdslib.judging.refit import load_refit
from berdslib.llm.prompting import TASKS, load_prompt, split_wording
from berdslib.models.chat import make_chat, make_decisions
from berdslib.models.loading import LOADING
from berdslib.registry import Registry

TASK = "perspective_detection"
# The paper's evaluator: an adapter of this model.
EVALUATOR_BASE = "mistralai/Mistral-7B-Instruct-v0.2"
EVALUATOR = "timchen0618/Mistral_BERDS_evaluator"


class JudgeKind(NamedTuple):
    """How a kind of judge is made: ``load`` takes a name's part behind the colon, and options as title_position."""

    load: Callable[..., Judge]
    reads_titles: bool = True
    has_wording: bool = False


def make_judge(name: str, gold: pd.DataFrame | None = None, title_position: str | None = None) -> Judge:
    """Return a judge by name.

    "causal:MODEL" is any causal language model, zero-shot on our prompt; "causal:MODEL+adapter:FOLDER+4bit" has a LoRA
    adapter and is loaded in 4 bits. "nli:MODEL" is a natural-language-inference classifier, "nli-t5" the T5-11B of
    BeRDS Table 4 ("nli-t5:MODEL" another that writes "1" for entailed), "cross:MODEL" a fine-tuned cross-encoder,
    "chat:MODEL" as :func:`berdslib.models.chat.make_chat` reads it, "decide:MODEL" a decision model
    (:func:`berdslib.models.chat.make_decisions`), "laptop:FOLDER" a laptop judge of your own,
    "qwen-probe" a probe of `qwen-coder` and "qwen-stack" the same with the laptop judges (:mod:`.probe`),
    "similarity:ENCODER" the cosine of another encoder; "overlap+similarity:mpnet" is the committee of the two, and
    "echo:JUDGE" any judge that reads passages without copies of the perspective (:class:`.echo.Echo`), and
    "refit:FOLDER" one that `berds rate fit` fitted to your labels (:mod:`.refit`). "gold" needs the table `gold`. A
    wording of the prompt may end the names of causal and chat judges, as in "causal:MODEL@published" or
    "chat:MODEL@published-one-shot" (BeRDS Table 14). `title_position` is "before", "after"
    or "none", None for the judge's own (divergences.md B6).
    """
    joined = members(name)
    if len(joined) > 1:
        return Committee([make_judge(member, gold, title_position) for member in joined])
    kind, model = JUDGES.find(name)
    if title_position is not None and not kind.reads_titles:
        raise InputError(f"the judge {name!r} does not read titles")
    if name == "gold" and gold is not None:
        return Gold(gold)
    with LOADING:
        return kind.load(model, **({} if title_position is None else {"title_position": title_position}))


def check_judge(name: str) -> None:
    """Raise InputError for an unknown judge or wording, without loading anything."""
    for member in members(name):
        kind, model = JUDGES.find(member)
        if member.startswith("echo:"):
            check_judge(model)
        if kind.has_wording:
            split_wording(TASK, model)


def members(name: str) -> list[str]:
    """Split a name at each plus that joins judges, not at one inside a folder's name or a causal model's."""
    parts: list[str] = []
    for part in map(str.strip, name.split("+")):
        if parts and (part.startswith("adapter:") or part.partition("@")[0] == "4bit"):
            parts[-1] += f"+{part}"
        else:
            parts.append(part)
    return parts if ":" not in name or all(map(_is_judge, parts)) else [name]


def _is_judge(name: str) -> bool:
    """Return whether a name is a judge's; False for a part of a folder's name."""
    head, colon, _ = name.partition(":")
    return name in JUDGES or head + colon in JUDGES


def as_judge(judge: object, name: str | None = None) -> Judge:
    """Return a judge as it is, and wrap a function from pairs to probabilities."""
    if callable(getattr(judge, "p_yes", None)):
        threshold = getattr(judge, "threshold", None)
        if not isinstance(getattr(judge, "id", None), str) or not isinstance(threshold, Real):
            problem = "needs a text `id` that names everything its answers depend on, and a `threshold` such as 0.5"
            raise InputError(f"the judge {type(judge).__name__} {problem}", field="judge")
        if not 0 <= float(threshold) <= 1:
            problem = f"the judge {type(judge).__name__} has the threshold {threshold}; it must be from 0 to 1"
            raise InputError(problem, field="threshold")
        return judge  # type: ignore[return-value]
    if not callable(judge) or isinstance(judge, type):
        problem = "a judge is a name, an object with p_yes(pairs), or a function from pairs to probabilities"
        raise InputError(f"{problem}, not {type(judge).__name__}", field="judge")
    own = FunctionJudge(judge, name)
    check_call(f"the judge {own.id!r}", judge, "the pairs")
    return own


def own_judge(make: Callable[[], object], name: str) -> JudgeKind:
    """Return the kind of a user's function that makes a judge, or a function from pairs to probabilities."""
    if not callable(make):
        raise InputError(f"a judge is registered as a function that makes it, not as {type(make).__name__}")
    return JudgeKind(lambda _: as_judge(make(), name), reads_titles=False)


# ---------------------------------------------------------------- the kinds


def _no_gold(_: str) -> Judge:
    raise InputError(
        "the judge 'gold' needs verdicts, which this data set does not have; use a judge such as 'similarity'"
    )


def _mistral_berds(_: str, **options: Any) -> Judge:
    """Load the paper's evaluator with its adapter and the prompt of its training."""
    return load_causal(EVALUATOR_BASE, adapter=EVALUATOR, wording="published", **options)


def _causal(name: str, **options: Any) -> Judge:
    """Load MODEL+adapter:FOLDER+4bit@WORDING; all but MODEL are optional."""
    model, wording = split_wording(TASK, name)
    bare = model.removesuffix("+4bit")
    checkpoint, _, adapter = bare.partition("+adapter:")
    return load_causal(checkpoint, adapter=adapter, four_bit=bare != model, wording=wording or "ours", **options)


def _chat(name: str, **options: Any) -> Judge:
    """Make MODEL@WORDING; the default wording is ours, the short one for a small model."""
    model, wording = split_wording(TASK, name)
    # A verdict is one word, and the probabilities of its first token give P(Yes).
    chat = make_chat(model, max_tokens=8, logprobs=True)
    prompt = load_prompt(TASK, wording or "ours", TASKS[TASK], asked=chat.id)
    return Chat(chat, prompt=prompt, **options)


def _laptop(name: str, **options: Any) -> Judge:
    """Load a shipped judge by name, or a user's by its folder."""
    from berdslib.judging import laptop  # needs torch, which takes seconds to import

    shipped = {"laptop": laptop.WEIGHTS, "laptop-mpnet": laptop.MPNET_WEIGHTS}
    return laptop.load_laptop(shipped.get(name, Path(name)), **options)


_NLI_T5 = JudgeKind(lambda model, **options: load_nli_t5(model or NLI_T5, **options))
JUDGES: Registry[JudgeKind] = Registry(
    "judge",
    {
        "gold": JudgeKind(_no_gold, reads_titles=False),
        "random": JudgeKind(lambda _: Random(), reads_titles=False),
        "overlap": JudgeKind(lambda _, **options: Overlap(**options)),
        "similarity": JudgeKind(lambda _, **options: load_similarity("minilm", **options)),
        "similarity:": JudgeKind(load_similarity),
        "laptop": JudgeKind(lambda _, **options: _laptop("laptop", **options)),
        "laptop-mpnet": JudgeKind(lambda _, **options: _laptop("laptop-mpnet", **options)),
        "laptop:": JudgeKind(_laptop),
        "qwen-probe": JudgeKind(lambda _, **options: load_probe(**options)),
        "qwen-stack": JudgeKind(lambda _: load_stack(make_judge), reads_titles=False),
        "mistral-berds": JudgeKind(_mistral_berds),
        "causal:": JudgeKind(_causal, has_wording=True),
        "nli:": JudgeKind(load_nli),
        "nli-t5": _NLI_T5,
        "nli-t5:": _NLI_T5,
        "cross:": JudgeKind(load_cross_encoder),
        "chat:": JudgeKind(_chat, has_wording=True),
        "decide:": JudgeKind(lambda name, **options: Decide(make_decisions(name), **options)),
        "refit:": JudgeKind(lambda folder: load_refit(folder, make_judge), reads_titles=False),
        "echo:": JudgeKind(lambda name, **options: Echo(make_judge(name, **options))),
    },
    own=own_judge,
)
