"""Training the model of a `laptop` judge: the order of the examples, and the steps."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from berdslib.errors import InputError
from berdslib.judging.examples import Example
from berdslib.judging.laptop import DOCUMENT_TOKENS, STATEMENT_TOKENS, StanceModel, autocast
from berdslib.progress import bar


@dataclass(frozen=True)
class StanceRecipe:
    """How the model is trained; the defaults are those of the shipped weights. The head learns ten times as fast.

    A batch has so many ``documents``, each with up to ``statements`` of its statements; the first of the ``passes``
    takes short documents first.
    """

    learning_rate: float = 1e-4
    warmup: float = 0.1
    passes: int = 2
    documents: int = 32
    statements: int = 6
    weight_decay: float = 0.01
    seed: int = 0


class Training:
    """A model that learns in place, from batches in a fixed order; ``losses`` has one for each step that was taken.

    `examples` maps a pass number to the examples of that pass, both labels among them.
    """

    def __init__(self, model: StanceModel, examples: Callable[[int], Sequence[Example]], recipe: StanceRecipe) -> None:
        self.model, self.recipe, self.losses = model, recipe, list[float]()
        self.plan = [batch for number in range(recipe.passes) for batch in batches(examples(number), recipe, number)]
        if len({e.supports for batch in self.plan for e in batch}) < 2:
            raise InputError("examples of both labels are needed (divergences.md B10)")
        encoder = [p for p in model.encoder.parameters() if p.requires_grad]
        groups = [
            {"params": encoder, "lr": recipe.learning_rate},
            {"params": [*model.head.parameters(), model.scale], "lr": 10 * recipe.learning_rate},
        ]
        self.optimiser = torch.optim.AdamW(groups, weight_decay=recipe.weight_decay)
        steps, rise = len(self.plan), max(1.0, recipe.warmup * len(self.plan))
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimiser, lambda step: min(1.0, (step + 1) / rise) * max(0.0, 1 - step / steps)
        )
        torch.manual_seed(recipe.seed)

    def run(self, after_step: Callable[[Training], None] = lambda _: None) -> list[float]:
        """Take the steps that are left, calling `after_step` after each, and return the losses of all."""
        self.model.train()
        shown = bar(self.plan, initial=len(self.losses), desc="training", unit="batch")
        for batch in self.plan[len(self.losses) :]:
            self.losses.append(self._step(batch))
            after_step(self)
            shown.set_postfix(loss=f"{sum(self.losses[-50:]) / len(self.losses[-50:]):.3f}", refresh=False)
            shown.update()
        shown.close()
        self.model.eval()
        return self.losses

    def _step(self, batch: Sequence[Example]) -> float:
        with autocast(self.model):
            u = read_once(self.model, [e.statement for e in batch], STATEMENT_TOKENS)
            v = read_once(self.model, [e.document for e in batch], DOCUMENT_TOKENS)
            logits = self.model.compare(u, v)
        labels = torch.tensor([float(e.supports) if e.p is None else e.p for e in batch], device=logits.device)
        loss = F.binary_cross_entropy_with_logits(logits.float(), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.schedule.step()
        self.optimiser.zero_grad()
        return float(loss.detach())


def read_once(model: StanceModel, texts: Sequence[str], max_tokens: int) -> torch.Tensor:
    """Return the vectors of texts, equal ones read once."""
    places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    unique = list(places)
    # Two halves by length: most of the padding goes, and the batches stay large.
    order = sorted(range(len(unique)), key=lambda i: len(unique[i]))
    halves = [half for half in (order[: len(order) // 2], order[len(order) // 2 :]) if half]
    found = torch.cat([model.vectors([unique[i] for i in half], max_tokens) for half in halves])
    where = torch.empty(len(unique), dtype=torch.long)
    where[[i for half in halves for i in half]] = torch.arange(len(unique))
    return found[where[[places[text] for text in texts]]]


def batches(examples: Sequence[Example], recipe: StanceRecipe, number: int) -> Iterator[list[Example]]:
    """Yield batches of whole documents of like length with their statements; pass 0 goes from short to long ones."""
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
