"""Training the stance model: the order of the examples, a step, checkpoints; this module needs torch when imported."""

from __future__ import annotations

import hashlib
import json
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from berdslib.errors import InputError
from berdslib.files import atomic_path
from berdslib.judging.stance import StanceModel, TogetherModel, autocast, learned
from berdslib.judging.training.pairs import Example

logger = logging.getLogger(__name__)

# Pairs that are read together: lengths that count as like, what a batch holds, and what counts as a short document.
_STEP, _CHARACTERS, _SHORT = 60, 9_000, 350


@dataclass(frozen=True)
class StanceRecipe:
    """How the stance model is trained; the defaults are those of the shipped weights.

    Args:
        learning_rate: of the encoder, at its peak; the head learns ten times as fast.
        warmup: share of the steps over which the rate rises.
        passes: over the examples; the first takes short documents first.
        documents: in a batch, each with up to `statements` of its statements; where texts are read together, pairs
            in a batch, fewer if they are long.
        statements: at most so many of a document a pass, where it is read apart from them.
        weight_decay: of AdamW.
        seed: of order and new weights.
    """

    learning_rate: float = 1e-4
    warmup: float = 0.1
    passes: int = 2
    documents: int = 32
    statements: int = 6
    weight_decay: float = 0.01
    seed: int = 0


def train(
    model: StanceModel,
    examples: Callable[[int], Sequence[Example]],
    recipe: StanceRecipe,
    folder: Path,
    *,
    save_every: int = 100,
    progress: bool = True,
) -> list[float]:
    """Train a model in place; an interrupted run resumes from its last checkpoint.

    Args:
        model: from :func:`berdslib.judging.stance.new_model`.
        examples: pass number → the examples of that pass, so that windows may be drawn anew; the same in every call.
        recipe: how.
        folder: where checkpoints go, under a name that tells those of other trainings apart.
        save_every: steps between two checkpoints.
        progress: show a bar.

    Returns:
        The loss of each step, those before a kill included.

    Raises:
        InputError: no examples, or one label only.
    """
    from tqdm.auto import tqdm

    folder.mkdir(parents=True, exist_ok=True)
    cut = batches_of_pairs if isinstance(model, TogetherModel) else batches
    plan = [batch for number in range(recipe.passes) for batch in cut(examples(number), recipe, number)]
    if len({e.supports for batch in plan for e in batch}) < 2:
        raise InputError("examples of both labels are needed (divergences.md B10)")
    optimiser, schedule = _optimiser(model, recipe, len(plan))
    checkpoint = folder / f"checkpoint-{_digest(model, recipe, plan)}.pt"
    losses = _resume(checkpoint, model, optimiser, schedule, recipe.seed)
    model.train()
    bar = tqdm(plan, initial=len(losses), desc="training", unit="batch", disable=not progress, delay=2)
    for step in range(len(losses), len(plan)):
        losses.append(_step(model, plan[step], optimiser, schedule))
        bar.update()
        bar.set_postfix(loss=f"{sum(losses[-50:]) / len(losses[-50:]):.3f}")
        if (step + 1) % save_every == 0:
            _save(checkpoint, model, optimiser, schedule, losses)
    bar.close()
    model.eval()
    return losses


def batches_of_pairs(examples: Sequence[Example], recipe: StanceRecipe, number: int) -> Iterator[list[Example]]:
    """Yield batches of pairs of like length, for a model that reads both texts together.

    Args:
        examples: of one pass.
        recipe: sizes and seed.
        number: of the pass; the first takes short documents before long ones, others mix.
    """
    draw = random.Random(f"{recipe.seed} {number}")
    pairs = draw.sample(list(examples), len(examples))
    pairs.sort(key=_length)
    groups = []
    for length, same in groupby(pairs, key=_length):
        size = max(1, min(recipe.documents, _CHARACTERS // ((length + 1) * _STEP)))
        rows = list(same)
        groups += [rows[i : i + size] for i in range(0, len(rows), size)]
    draw.shuffle(groups)
    if not number:
        groups.sort(key=lambda group: len(group[0].document) > _SHORT)
    yield from groups


def _length(example: Example) -> int:
    return (len(example.statement) + len(example.document)) // _STEP


def batches(examples: Sequence[Example], recipe: StanceRecipe, number: int) -> Iterator[list[Example]]:
    """Yield batches of whole documents with their statements; documents in a batch are of like length.

    Args:
        examples: of one pass.
        recipe: sizes and seed.
        number: of the pass; the first goes from short documents to long ones, others mix.
    """
    draw = random.Random(f"{recipe.seed} {number}")
    by_document: dict[str, list[Example]] = {}
    for example in examples:
        by_document.setdefault(example.document, []).append(example)
    documents = list(by_document)
    draw.shuffle(documents)
    documents.sort(key=lambda text: len(text) // 150)
    groups = [documents[i : i + recipe.documents] for i in range(0, len(documents), recipe.documents)]
    if number:
        draw.shuffle(groups)
    for group in groups:
        chosen = [draw.sample(rows, min(len(rows), recipe.statements)) for rows in map(by_document.get, group) if rows]
        yield [example for rows in chosen for example in rows]


def _step(model: StanceModel, batch: Sequence[Example], optimiser: Any, schedule: Any) -> float:
    with autocast(model):
        logits = model([e.statement for e in batch], [e.document for e in batch])
    labels = torch.tensor([float(e.supports) if e.p is None else e.p for e in batch], device=logits.device)
    loss = F.binary_cross_entropy_with_logits(logits.float(), labels)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    schedule.step()
    optimiser.zero_grad()
    return float(loss.detach())


def _optimiser(model: StanceModel, recipe: StanceRecipe, steps: int) -> tuple[Any, Any]:
    encoder = [p for p in model.encoder.parameters() if p.requires_grad]
    groups = [
        {"params": encoder, "lr": recipe.learning_rate},
        {"params": [*model.head.parameters(), model.scale], "lr": 10 * recipe.learning_rate},
    ]
    optimiser = torch.optim.AdamW(groups, weight_decay=recipe.weight_decay)
    rise = max(1.0, recipe.warmup * steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, (step + 1) / rise) * max(0.0, 1 - step / steps)
    )
    return optimiser, schedule


def _digest(model: StanceModel, recipe: StanceRecipe, plan: Sequence[Sequence[Example]]) -> str:
    """Return what names a training: design, first weights, recipe, and every batch in its order."""
    rows = [[(e.document, e.statement, e.supports, e.p) for e in batch] for batch in plan]
    digest = hashlib.sha256(json.dumps([model.design, asdict(recipe), rows]).encode())
    for weight in learned(model).values():
        digest.update(weight.float().cpu().numpy().tobytes())
    return digest.hexdigest()[:12]


def _save(path: Path, model: StanceModel, optimiser: Any, schedule: Any, losses: list[float]) -> None:
    """Write a checkpoint; the old one is kept until the new one is complete."""
    state = {
        "model": learned(model),
        "optimiser": optimiser.state_dict(),
        "schedule": schedule.state_dict(),
        "draws": torch.get_rng_state(),
        "gpu_draws": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "losses": losses,
    }
    with atomic_path(path) as unfinished:
        torch.save(state, unfinished)


def _resume(path: Path, model: StanceModel, optimiser: Any, schedule: Any, seed: int) -> list[float]:
    """Return the losses until a checkpoint, whose state all take over; without one, the draws begin at the seed."""
    for unfinished in path.parent.glob(f".{path.name}.*"):
        unfinished.unlink()  # of a run that was killed while it wrote
    if not path.exists():
        torch.manual_seed(seed)
        return []
    state = torch.load(path, weights_only=True, map_location="cpu")
    model.load_state_dict(state["model"], strict=False)
    optimiser.load_state_dict(state["optimiser"])
    schedule.load_state_dict(state["schedule"])
    torch.set_rng_state(state["draws"])
    if state["gpu_draws"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["gpu_draws"])
    logger.info("going on from step %d of %s", len(state["losses"]), path)
    return list(state["losses"])
