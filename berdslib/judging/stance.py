"""The models behind the `laptop` judges: an encoder reads statement and document, a head compares what it read.

Every model starts as a sentence encoder, whose cosine knows the topic, and learns the side. There are two ways of
reading. *Apart*, a document is read once however many statements are judged against it. *Together*, each text sees the
other: that is several times slower where a document meets many statements, and can follow what a vector cannot hold.

This module needs torch when it is imported; the others import it inside functions.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from berdslib.errors import InputError, known
from berdslib.models.cards import model_card
from berdslib.models.loading import has_bf16, load_model, load_weights, package_folder, quiet_loading, read_tokenizer

STATEMENT_TOKENS, DOCUMENT_TOKENS = 64, 192  # 100 words are about 130 word pieces
_STEP_WIDTH = 4.0  # lets a head that starts near 0 move as fast as the encoder
_PADDED_TO = 16  # tokens; few shapes of batches: what one frees, the next can use


class Design(NamedTuple):
    """What a stance model is made of.

    Args:
        base: the name of the sentence encoder it starts from, "minilm" or "mpnet".
        reading: "apart" or "together".
        rank: of the LoRA matrices that are learnt beside every linear layer (Hu et al., 2022; alpha = rank); 0 learns
            the layers themselves.
    """

    base: str = "minilm"
    reading: str = "apart"
    rank: int = 0


FAST = Design()


class StanceModel(nn.Module):
    """Scores (statement, document) pairs: scaled cosine plus a linear head on both vectors and how they differ.

    Reads the two texts apart.

    Args:
        encoder: a transformers encoder; its word embeddings stay as they are.
        tokenizer: its tokenizer.
        design: what the model is made of.
    """

    def __init__(self, encoder: Any, tokenizer: Any, design: Design) -> None:
        super().__init__()
        self.encoder, self.tokenizer, self.design = encoder, tokenizer, design
        self.head = nn.Linear(4 * encoder.config.hidden_size, 1)
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
        return _mean(hidden, inputs["attention_mask"])

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


class TogetherModel(StanceModel):
    """Reads statement and document in one pass, pools each on its own, and compares them as its parent does.

    So it starts from a cosine, too, though of vectors that have seen each other.
    """

    def forward(self, statements: Sequence[str], documents: Sequence[str]) -> torch.Tensor:
        """Return the logit of "supports" for each pair, (n,); all pairs share one batch."""
        cut = [self._cut(text) for text in statements]
        inputs = self.tokenizer(
            cut,
            list(documents),
            truncation="only_second",
            max_length=STATEMENT_TOKENS + DOCUMENT_TOKENS,
            padding=True,
            pad_to_multiple_of=_PADDED_TO,
            return_tensors="pt",
        )
        # Which text each token is of; None for the marks around them and for padding.
        parts = torch.tensor(
            [[-1 if part is None else part for part in inputs.sequence_ids(i)] for i in range(len(cut))],
            device=self.scale.device,
        )
        hidden = self.encoder(**inputs.to(self.scale.device)).last_hidden_state.float()
        with torch.autocast(self.scale.device.type, enabled=False):  # numbers this few are multiplied exactly
            return self.compare(_mean(hidden, parts == 0), _mean(hidden, parts == 1))

    def _cut(self, statement: str) -> str:
        """Return the statement's first tokens, so that there is room for the document."""
        if len(statement) <= STATEMENT_TOKENS:
            return statement
        ends = self.tokenizer(statement, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        return statement if len(ends) <= STATEMENT_TOKENS else statement[: ends[STATEMENT_TOKENS - 1][1]]


class Reader(nn.Module):
    """What reads one text, as a network of its own: from word pieces to a vector."""

    def __init__(self, model: StanceModel) -> None:
        super().__init__()
        self.encoder = model.encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return mean-pooled vectors of length 1, (n, d), of word pieces and their mask, both (n, tokens)."""
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return _mean(hidden, attention_mask)


_READINGS = {"apart": StanceModel, "together": TogetherModel}


def new_model(design: Design = FAST, seed: int = 0) -> StanceModel:
    """Return an untrained model: its scores are scaled cosines, and a little noise.

    Args:
        design: what it is made of.
        seed: of the new weights.

    Raises:
        InputError: an unknown base or reading, or a negative rank.
        MissingDataError: weights that are neither on this machine nor reachable.
    """
    reading = _READINGS[known("reading", design.reading, _READINGS)]
    if design.rank < 0:
        raise InputError(f"must be 0 or more, not {design.rank}", field="rank")
    encoder, tokenizer = _base(design.base, learn_all=not design.rank)
    torch.manual_seed(seed)
    if design.rank:
        from peft import LoraConfig, get_peft_model

        adapter = LoraConfig(r=design.rank, lora_alpha=design.rank, target_modules="all-linear")
        with warnings.catch_warnings():  # one library asks the other by a name that will go
            warnings.simplefilter("ignore", FutureWarning)
            encoder = get_peft_model(encoder, adapter)
    else:
        encoder.embeddings.requires_grad_(False)
    return reading(encoder, tokenizer, design).to(encoder.device)


def _base(name: str, *, learn_all: bool) -> tuple[Any, Any]:
    """Return a sentence encoder and its tokenizer."""
    from transformers import AutoModel, AutoTokenizer

    checkpoint = model_card(name).checkpoint
    if checkpoint.startswith("package:"):
        checkpoint = package_folder(checkpoint.removeprefix("package:"))
    # A low rank learns little by heart, and dropout costs a tenth of the time on a CPU.
    dropout: dict[str, Any] = {} if learn_all else {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    with quiet_loading():
        encoder = load_weights(AutoModel, checkpoint, add_pooling_layer=False, **dropout)
        tokenizer = load_model(checkpoint, lambda local: read_tokenizer(AutoTokenizer, checkpoint, local))
    return encoder, tokenizer


def merged(model: StanceModel) -> StanceModel:
    """Return the model with its LoRA matrices added to the layers beside them, so that it reads as fast as its base."""
    if hasattr(model.encoder, "merge_and_unload"):
        model.encoder = model.encoder.merge_and_unload()
    return model


def learned(model: StanceModel) -> dict[str, torch.Tensor]:
    """Return what training changes: all weights but the word embeddings, or the LoRA matrices; and the head."""
    return {name: weight.detach() for name, weight in model.named_parameters() if weight.requires_grad}


def autocast(model: StanceModel) -> Any:
    """Return a context for a forward pass, in which torch multiplies in bfloat16 where the processor has it."""
    device = model.scale.device.type
    return torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda" or has_bf16())


def _mean(hidden: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Return the mean (n, d), of length 1, of the chosen tokens of `hidden` (n, tokens, d)."""
    weight = chosen.unsqueeze(-1).float()
    return F.normalize((hidden * weight).sum(1) / weight.sum(1).clamp(min=1), dim=-1)
