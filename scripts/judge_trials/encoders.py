"""MiniLM and mpnet written out, for the trials: weights by their published names, one fast attention, LoRA by merging.

`transformers` computes the same, slower: its MPNet knows no fused attention. Checked against it by check.py.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

_BERT = {"q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
         "o": "attention.output.dense", "n1": "attention.output.LayerNorm"}  # fmt: skip
_MPNET = {"q": "attention.attn.q", "k": "attention.attn.k", "v": "attention.attn.v", "o": "attention.attn.o",
          "n1": "attention.LayerNorm"}  # fmt: skip
_BOTH = {"f1": "intermediate.dense", "f2": "output.dense", "n2": "output.LayerNorm"}


class Lora(nn.Module):
    """A linear layer with x W + scale * (x A) B; rank 0 trains W itself."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, rank: int, scale: float) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight, rank == 0), nn.Parameter(bias, rank == 0)
        self.rank, self.scale = rank, scale
        if rank:
            out, into = weight.shape
            self.a = nn.Parameter(torch.randn(rank, into) / math.sqrt(into))
            self.b = nn.Parameter(torch.zeros(out, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x W + b, and what the low rank adds."""
        if not self.rank:
            return F.linear(x, self.weight, self.bias)
        # Not merged: the gradient of a merged weight costs as much as training the weight itself.
        return F.linear(x, self.weight, self.bias) + F.linear(F.linear(x, self.a), self.b * self.scale)


class Encoder(nn.Module):
    """A transformer of texts, from a folder with config.json and model.safetensors."""

    def __init__(self, folder: Path, rank: int, scale: float, dropout: float = 0.1) -> None:
        super().__init__()
        config = json.loads((folder / "config.json").read_text())
        weights = {
            k.removeprefix("mpnet.").removeprefix("bert."): v.float()
            for k, v in load_file(folder / "model.safetensors").items()
        }
        self.mpnet = config["model_type"] == "mpnet"
        self.heads, self.width, self.eps, self.dropout = (
            config["num_attention_heads"], config["hidden_size"], config["layer_norm_eps"], dropout)  # fmt: skip
        names = (_MPNET if self.mpnet else _BERT) | _BOTH
        self.words = nn.Embedding.from_pretrained(weights["embeddings.word_embeddings.weight"], freeze=True)
        self.positions = nn.Embedding.from_pretrained(weights["embeddings.position_embeddings.weight"], freeze=True)
        kind = "embeddings.token_type_embeddings.weight"
        self.kinds = nn.Embedding.from_pretrained(weights[kind], freeze=True) if kind in weights else None
        self.norm = self._norm(weights, "embeddings.LayerNorm", True)
        self.layers = nn.ModuleList()
        for i in range(config["num_hidden_layers"]):
            layer = nn.ModuleDict()
            for short, long in names.items():
                at = f"encoder.layer.{i}.{long}"
                if short.startswith("n"):
                    layer[short] = self._norm(weights, at, rank > 0)
                else:
                    layer[short] = Lora(weights[f"{at}.weight"], weights[f"{at}.bias"], rank, scale)
            self.layers.append(layer)
        if self.mpnet:
            self.relative = nn.Embedding.from_pretrained(weights["encoder.relative_attention_bias.weight"], freeze=True)
        self.long_names = {
            f"layers.{i}.{s}": f"encoder.layer.{i}.{n}" for i in range(len(self.layers)) for s, n in names.items()
        }

    def _norm(self, weights: dict[str, torch.Tensor], name: str, frozen: bool) -> nn.LayerNorm:
        norm = nn.LayerNorm(self.width, eps=self.eps)
        norm.weight.data, norm.bias.data = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return norm.requires_grad_(not frozen)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, kinds: torch.Tensor | None = None) -> torch.Tensor:
        """Return the last layer (n, tokens, d); kinds are 1 for tokens of the second text (BERT only)."""
        return self.through(self.embedded(ids, kinds), mask)

    def embedded(self, ids: torch.Tensor, kinds: torch.Tensor | None = None) -> torch.Tensor:
        """Return what goes into the first layer."""
        places = torch.arange(ids.shape[1], device=ids.device) + (2 if self.mpnet else 0)
        x = self.words(ids) + self.positions(places)
        if self.kinds is not None:
            x = x + self.kinds(torch.zeros_like(ids) if kinds is None else kinds)
        return F.dropout(self.norm(x), self.dropout if self.training else 0.0, self.training)

    def through(
        self, x: torch.Tensor, mask: torch.Tensor, layers: slice = slice(None), places: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return what comes out of these layers; places are (tokens,), by default 0, 1, …"""
        n, length, _ = x.shape
        p = self.dropout if self.training else 0.0
        wide = torch.zeros(n, 1, 1, length, device=x.device, dtype=torch.float32).masked_fill(
            ~mask[:, None, None], -1e4
        )
        if self.mpnet:
            at = torch.arange(length, device=x.device) if places is None else places
            wide = wide + self.relative(_buckets(at)).permute(2, 0, 1)[None]
        # Rows of the mask start where the fused kernel wants them: at multiples of 8.
        wide = wide.expand(-1, self.heads if self.mpnet else 1, length, -1).to(
            torch.bfloat16 if torch.is_autocast_enabled(x.device.type) else torch.float32).contiguous()  # fmt: skip
        for layer in self.layers[layers]:
            q, k, v = (layer[s](x).view(n, length, self.heads, -1).transpose(1, 2) for s in "qkv")
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=wide.expand(-1, self.heads, -1, -1), dropout_p=p)
            mixed = layer["o"](mixed.transpose(1, 2).reshape(n, length, self.width))
            x = layer["n1"](x + F.dropout(mixed, p, self.training))
            x = layer["n2"](x + F.dropout(layer["f2"](F.gelu(layer["f1"](x))), p, self.training))
        return x


def _buckets(at: torch.Tensor) -> torch.Tensor:
    """Return MPNet's bucket (of 32) of how far apart two places are, (length, length)."""
    n = at[:, None] - at[None, :]
    apart = n.abs()
    far = 8 + (torch.log(apart.clamp(min=1).float() / 8) / math.log(128 / 8) * 8).long()
    return torch.where(apart < 8, apart, far.clamp(max=15)) + (n < 0).long() * 16


class Judge(nn.Module):
    """Scores (statement, document) pairs in one of three ways.

    "joint": both texts in one reading, pooled apart and compared as berdslib's StanceModel does; "two": two readings,
    compared alike; "cross": one reading, the mean of all tokens, a linear head; "late": two readings in the lower
    half of the layers, one in the upper half.
    """

    def __init__(self, encoder: Encoder, mode: str) -> None:
        super().__init__()
        self.encoder, self.mode = encoder, mode
        self.head = nn.Linear(encoder.width * (1 if mode == "cross" else 4), 1)
        self.scale = nn.Parameter(torch.tensor(5.0))

    def compare(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Return the logits (n,) of statement vectors `u` and document vectors `v`, both (n, d)."""
        u, v = F.normalize(u.float(), dim=-1), F.normalize(v.float(), dim=-1)
        features = torch.cat([u, v, (u - v).abs(), u * v], dim=1) * 4.0
        return self.scale * ((u * v).sum(1) - 0.5) + F.linear(features, self.head.weight, self.head.bias)[:, 0]

    def joint(self, ids: torch.Tensor, mask: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
        """Return logits; `part` is 1 for the statement's tokens, 2 for the document's, 0 for others."""
        hidden = self.encoder(ids, mask, (part == 2).long()).float()
        if self.mode == "cross":
            return F.linear(mean(hidden, mask), self.head.weight, self.head.bias)[:, 0]
        return self.compare(mean(hidden, part == 1), mean(hidden, part == 2))

    def vectors(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the mean-pooled vectors (n, d) of texts that are read alone."""
        return mean(self.encoder(ids, mask).float(), mask)

    def late(self, said: tuple[torch.Tensor, ...], read: tuple[torch.Tensor, ...], s: Any, d: Any) -> torch.Tensor:
        """Return logits of pairs (s[i], d[i]) of different statements and documents, each (ids, mask).

        The lower half of the layers stays as it is and reads each text alone, so that it can be kept; the upper half
        reads both, the document as if it began at place 64.
        """
        half = len(self.encoder.layers) // 2
        with torch.no_grad():
            x, y = (self.encoder.through(self.encoder.embedded(i), m, slice(0, half)) for i, m in (said, read))
        width = x.shape[1]
        places = torch.cat([torch.arange(width), 64 + torch.arange(y.shape[1])]).to(x.device)
        mask = torch.cat([said[1][s], read[1][d]], dim=1)
        hidden = self.encoder.through(torch.cat([x[s], y[d]], dim=1), mask, slice(half, None), places).float()
        u, v = mean(hidden[:, :width], mask[:, :width]), mean(hidden[:, width:], mask[:, width:])
        return self.compare(u, v)

    def learned(self) -> dict[str, torch.Tensor]:
        """Return what was trained, by published names: "….lora_a" and "….lora_b", or whole weights; and the head."""
        found = {}
        for name, weight in self.named_parameters():
            if weight.requires_grad:
                name = name.removeprefix("encoder.")
                at, _, last = name.rpartition(".")
                last = {"a": "lora_a", "b": "lora_b"}.get(last, last)
                found[f"{self.encoder.long_names.get(at, at)}.{last}".lstrip(".")] = weight.detach()
        return found


def mean(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    m = mask.unsqueeze(-1).float()
    return (hidden * m).sum(1) / m.sum(1).clamp(min=1)
