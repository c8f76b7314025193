"""Text encoders behind one protocol: a model card says how, a checkpoint does the work, a disk cache keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np

from berdslib.errors import InputError, known
from berdslib.models.base import Encoder
from berdslib.models.cards import ENGINES, FASTEST, NUMBER_FORMATS, POOLINGS, ModelCard, model_card
from berdslib.models.checkpoints import load_checkpoint
from berdslib.models.loading import (
    LOADING,
    arithmetic,
    checkpoint_mark,
    engine_of,
    fastest_format,
    keep_freed_memory,
    require_arithmetic,
)
from berdslib.models.openvino import require_openvino
from berdslib.models.vectors import CachedEncoder
from berdslib.paths import cache_dir


def get_encoder(
    name: str | ModelCard = "minilm",
    *,
    cached: bool = True,
    number_format: str = "",
    engine: str = "",
    trust_remote_code: bool = False,
) -> Encoder:
    """Return an encoder by name, with its disk cache unless told otherwise.

    Args:
        name: a key of ``CARDS``, "hf:org/model" for any sentence-transformers checkpoint, or a card of your own.
        cached: keep vectors under the user cache, keyed by model and text.
        number_format: "fastest" (bfloat16 where the processor has it, else float32, see
            :func:`berdslib.models.loading.fastest_format`), "float32" (the same vectors on every machine, but for the
            last digits), "bfloat16", "int8" (faster still, and the least exact; by OpenVINO) or "4bit" (for models that
            do not fit otherwise); "" for the card's, which is "fastest" unless it names another. What is chosen is part
            of the id, which says nothing for float32.
        engine: "torch", or "openvino" for the same network faster on a CPU (:mod:`berdslib.models.openvino`); "" for
            that of int8, of BERDS_ENGINE or of the card (:func:`berdslib.models.loading.engine_of`). It is part of the
            id.
        trust_remote_code: let Python code that comes with the checkpoint run on this machine, which some need.

    Raises:
        InputError: an unknown name, number format or engine, or two that do not go together.
        MissingDataError: OpenVINO is not installed.
    """
    card = model_card(name) if isinstance(name, str) else name
    number_format = number_format or card.number_format
    card = card._replace(number_format=number_format)
    encoder = SentenceEncoder(card._replace(engine=engine or engine_of(card)), trust_remote_code=trust_remote_code)
    return CachedEncoder(encoder, cache_dir() / "embeddings") if cached else encoder


class SentenceEncoder:
    """An encoder as its card tells; the weights are loaded when the first text arrives.

    A batch that fails is an error: a dropped one would move every later vector (divergences.md P7).

    Args:
        card: how to use the checkpoint; its number format "fastest" is replaced here, once, by that of this machine.
        batch_size: texts per forward pass; texts of like length share one. OpenVINO counts word pieces instead.
        trust_remote_code: let Python code that comes with the checkpoint run on this machine.

    Raises:
        InputError: a card with an unknown pooling, number format or engine, or with an engine that cannot do the
            others; (on use) no texts, weights that are missing in the checkpoint, a checkpoint that changed,
            "bfloat16" on a CPU without it, or a vector that is not finite.
        MissingDataError: OpenVINO is not installed; (on first use) the weights are neither on this machine nor
            reachable.
    """

    def __init__(self, card: ModelCard, batch_size: int = 32, *, trust_remote_code: bool = False) -> None:
        known("pooling", card.pooling, POOLINGS)
        known("number format", card.number_format, NUMBER_FORMATS)
        known("engine", card.engine, ENGINES)
        if card.engine == "openvino":
            if not card.for_openvino:
                what = f"pooling {card.pooling!r}" if card.pooling else "4bit"
                raise InputError(f"{card.name}: OpenVINO does not do {what} here; take engine='torch'")
            require_openvino(card.number_format)
        elif card.number_format == "int8":
            raise InputError(f"{card.name}: only OpenVINO does int8 here; take engine='openvino'")
        if card.number_format == FASTEST:
            card = card._replace(number_format=fastest_format(card.engine))
        self.card, self.batch_size = card, batch_size
        # A model that was trained anew in the same folder, or another commit of it on the hub, makes other vectors.
        self._marks = {c: checkpoint_mark(c) for c in (card.checkpoint, card.passage_checkpoint)}
        self.id = card.id + "".join(self._marks.values())
        self._trust = trust_remote_code

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Encode questions, float32 (n, d)."""
        return self._encode(texts, "query", self.card.checkpoint)

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """Encode passages, float32 (n, d)."""
        return self._encode(texts, "passage", self.card.passage_checkpoint or self.card.checkpoint)

    def _encode(self, texts: Sequence[str], role: str, checkpoint: str) -> np.ndarray:
        if not texts:
            raise InputError("there are no texts to encode")
        card, mark = self.card, self._marks[checkpoint]
        keep_freed_memory()
        # A commit is loaded by its name, whatever came after it.
        if not mark.startswith("@") and checkpoint_mark(checkpoint) != mark:
            raise InputError("changed after this encoder was loaded; load it again", path=checkpoint)
        require_arithmetic(card.number_format, card.engine)
        with LOADING:
            loaded = load_checkpoint(
                checkpoint, card.pooling, card.max_length, card.number_format, self._trust, card.engine, mark
            )
        prefix = card.query_prefix if role == "query" else card.passage_prefix
        if prefix is None:
            prefix = loaded.query_prefix if role == "query" else loaded.passage_prefix
        with arithmetic(card.number_format) if card.engine == "torch" else nullcontext():
            vectors = loaded.vectors_of(list(texts), prefix, self.batch_size)
        if len(vectors) != len(texts):
            raise InputError(f"{card.name} made {len(vectors)} vectors of {len(texts)} texts")
        if not np.isfinite(vectors).all():
            raise InputError(f"{card.name} made a vector that is not finite")
        normalise = loaded.normalise if card.normalise is None else card.normalise
        return _unit_length(vectors) if normalise else vectors


def _unit_length(vectors: np.ndarray) -> np.ndarray:
    import torch

    scaled: np.ndarray = torch.nn.functional.normalize(torch.from_numpy(vectors), dim=1).numpy()
    return scaled
