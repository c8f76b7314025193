"""NV-Embed (Lee et al., 2024): a Mistral that looks both ways, and attention to learned latent vectors on top of it.

Our own implementation, because the authors' code, which comes with their checkpoint, needs a transformers of 2024. The
layout of the checkpoint and the details are from the paper and the published files' descriptions; the real checkpoint
(7 billion parameters) is untested. Weights are therefore loaded strictly: a missing, unexpected or misshapen weight is
an error that names it, not wrong vectors.

With h the last layer of the language model, (tokens, d), and L the latent vectors, (n, d):

- a = h + attention(queries from norm(h), keys and values from norm(L)), of several heads, without biases;
- o = a + W2 GEGLU(W1 norm(a) + b1) + b2, where GEGLU(x, g) = x gelu(g);
- the vector is the mean of o over the text and its end mark, without the instruction, of length 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoTokenizer, MistralConfig, MistralModel, PreTrainedConfig, PreTrainedModel

from berdslib.errors import InputError
from berdslib.models.loading import NO_CODE, in_batches, load_model, load_weights


def nv_embed_vectors(
    checkpoint: str, max_length: int, number_format: str, revision: str = "main"
) -> Callable[[list[str], str], np.ndarray]:
    """Load a checkpoint and return the function that makes vectors of length 1.

    The input is instruction, text, end mark; if it is too long, its end and the mark are truncated. The mean leaves
    out as many positions as the instruction has word pieces. The start mark is one of these positions, so the last
    piece of the instruction is averaged with the text, as in the authors' code.

    ``max_length`` counts word pieces, marks included; ``number_format`` "4bit" applies to the language model.
    """

    def read(local: bool) -> tuple[Any, NvEmbedConfig]:
        config = NvEmbedConfig.from_pretrained(checkpoint, local_files_only=local, revision=revision)
        own = {"config": config.text_config, "local_files_only": local, "revision": revision, **NO_CODE}
        return AutoTokenizer.from_pretrained(checkpoint, **own), config

    tokenizer, config = load_model(checkpoint, read)
    _check(config, checkpoint)
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    model = load_weights(
        NvEmbed, checkpoint, number_format, exactly=True, revision=revision, attn_implementation="sdpa"
    )
    end = tokenizer.eos_token if config.add_eos else ""

    def vectors_of(texts: list[str], prefix: str) -> np.ndarray:
        whole = [prefix + text + end for text in texts]
        ids = tokenizer(whole, truncation=True, max_length=max_length or None)["input_ids"]
        left_out = len(tokenizer.tokenize(prefix)) if prefix and config.is_mask_instruction else 0
        if min(map(len, ids)) <= left_out:
            raise InputError(f"an instruction of {left_out} tokens leaves no room for a text in {max_length}")

        def vectors(batch: Any) -> torch.Tensor:
            averaged = batch["attention_mask"].clone()
            averaged[:, :left_out] = 0
            unit: torch.Tensor = model(batch["input_ids"], batch["attention_mask"], averaged)
            return unit

        return in_batches(tokenizer, ids, model.device, vectors)

    return vectors_of


class NvEmbedConfig(PreTrainedConfig):
    """The settings in config.json: of the language model, of the layer on top, and of the input format."""

    model_type = "nvembed"
    sub_configs = {"text_config": MistralConfig}  # noqa: RUF012 - the library reads it

    def __init__(
        self,
        text_config: dict[str, Any] | MistralConfig | None = None,
        latent_attention_config: dict[str, Any] | None = None,
        is_mask_instruction: bool = True,
        add_eos: bool = True,
        padding_side: str = "right",
        **others: Any,
    ) -> None:
        if not isinstance(text_config, MistralConfig):
            settings = {key: value for key, value in (text_config or {}).items() if key != "model_type"}
            # Sliding windows are part of the causal mask, which is not used.
            text_config = MistralConfig(**settings | {"sliding_window": None, "use_cache": False})
        self.text_config = text_config
        self.latent_attention_config = latent_attention_config
        self.is_mask_instruction = is_mask_instruction
        self.add_eos = add_eos
        self.padding_side = padding_side
        super().__init__(**others)


def _check(config: NvEmbedConfig, checkpoint: str) -> None:
    latent = config.latent_attention_config
    width = config.text_config.hidden_size
    if latent is None:
        raise InputError(f"{checkpoint} is not an NV-Embed: its config.json has no latent_attention_config")
    if config.padding_side != "right" or not latent.get("output_normalize", True):
        raise InputError(f"{checkpoint} pads on the left or does not normalise, which is not supported")
    widths = {latent.get("hidden_dim", width), latent.get("latent_dim", width)}
    if widths != {width}:
        raise InputError(f"{checkpoint} has latent vectors of a width other than its language model's {width}")


class NvEmbed(PreTrainedModel):
    """The network, with its parts named as in the checkpoint."""

    config_class = NvEmbedConfig
    # Only the language model is stored in 4 bits: the layer on top has a tenth of its size, and every token uses it.
    _keep_in_fp32_modules = ["latent_attention_model"]  # noqa: RUF012 - as the library wants it
    _supports_sdpa = True

    def __init__(self, config: NvEmbedConfig) -> None:
        super().__init__(config)
        self.embedding_model = MistralModel(config.text_config)
        self.latent_attention_model = LatentAttention(
            config.text_config.hidden_size, **config.latent_attention_config or {}
        )
        self.post_init()

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, averaged: torch.Tensor) -> torch.Tensor:
        """Return unit vectors (n, d) of word pieces (n, tokens); mask and averaged hold 0 or 1, (n, tokens)."""
        # The library uses a mask of four dimensions as it is, so attention is not causal.
        attended = mask[:, None, None, :].bool()
        hidden = self.embedding_model(input_ids=ids, attention_mask=attended).last_hidden_state
        hidden = self.latent_attention_model(hidden).float()
        inside = averaged.unsqueeze(-1)
        return nn.functional.normalize((hidden * inside).sum(dim=1) / inside.sum(dim=1), dim=-1)


class LatentAttention(nn.Module):
    """The layer on top, from (n, tokens, d) to the same shape; arguments are named as in the checkpoint's config."""

    def __init__(
        self,
        width: int,
        *,
        num_latents_value: int = 512,
        num_cross_heads: int = 8,
        cross_dim_head: int = 4096,
        mult: int = 4,
        **_: Any,
    ) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.empty(num_latents_value, width))
        self.heads = num_cross_heads
        inside = num_cross_heads * cross_dim_head
        attention = {
            "to_q": nn.Linear(width, inside, bias=False),
            "to_kv": nn.Linear(width, 2 * inside, bias=False),
            "to_out": nn.Linear(inside, width, bias=False),
        }
        # GEGLU, which has no weights, is the second of three layers in the checkpoint.
        net = nn.ModuleList([nn.Linear(width, 2 * mult * width), nn.Identity(), nn.Linear(mult * width, width)])
        norm = nn.LayerNorm(width)
        of_latents = nn.LayerNorm(width)
        before = nn.LayerNorm(width)
        attend = {"fn": nn.ModuleDict(attention), "norm": norm, "norm_context": of_latents}
        feed = {"fn": nn.ModuleDict({"net": net}), "norm": before}
        self.cross_attend_blocks = nn.ModuleList([nn.ModuleDict(attend), nn.ModuleDict(feed)])

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Attend from every token to the latent vectors, then feed forward; both are residual."""
        attend: Any
        feed: Any
        attend, feed = self.cross_attend_blocks
        hidden = hidden.to(self.latents.dtype)
        hidden = hidden + self._attended(attend["fn"], attend["norm"](hidden), attend["norm_context"](self.latents))
        wide, _, narrow = feed["fn"]["net"]
        value, gate = wide(feed["norm"](hidden)).chunk(2, dim=-1)
        fed: torch.Tensor = hidden + narrow(value * nn.functional.gelu(gate))
        return fed

    def _attended(self, layers: Any, hidden: torch.Tensor, latents: torch.Tensor) -> torch.Tensor:
        n, tokens, _ = hidden.shape
        keys, values = layers["to_kv"](latents).view(1, len(latents), 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        keys = keys.expand(n, -1, -1, -1)
        values = values.expand(n, -1, -1, -1)
        queries = layers["to_q"](hidden).view(n, tokens, self.heads, -1).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(queries, keys, values)
        out: torch.Tensor = layers["to_out"](mixed.transpose(1, 2).reshape(n, tokens, -1))
        return out
