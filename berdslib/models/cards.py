"""The interface of an encoder, and cards: how to use each published encoder, according to its authors."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple, Protocol

import numpy as np

from berdslib.data.records import Passage
from berdslib.errors import InputError, known

# How the vectors of tokens become one; see ModelCard.
POOLINGS = ("", "after prefix", "mean", "cls", "pooler", "latent attention")
FASTEST = "fastest"  # depends on the processor
NUMBER_FORMATS = (FASTEST, "float32", "bfloat16", "4bit")
ENGINES = ("torch", "openvino")


class Encoder(Protocol):
    """Turns texts into vectors, float32 (n, d); a dot product of two is their similarity."""

    id: str

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Encode questions."""
        ...

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """Encode passages."""
        ...


def with_instruction(encoder: Encoder, instruction: str) -> Encoder:
    """Return an encoder with another instruction for questions; InputError if it has no separate instruction."""
    instructed: Encoder | None = getattr(encoder, "with_instruction", lambda _: None)(instruction)
    if instructed is None:
        raise InputError(f"{encoder.id} does not read a separate instruction; instructor-base does")
    return instructed


class ModelCard(NamedTuple):
    """How a checkpoint should be used.

    ``checkpoint`` a Hugging Face id, a folder, or "package:NAME" for weights inside a Python package;
    ``query_prefix`` and ``passage_prefix`` precede the text; ``normalise`` scales vectors to length 1; None for any of
    the three means the setting in the checkpoint's sentence-transformers files. ``max_length`` counts word pieces; 0
    is the checkpoint's own.

    ``pooling``: "" as the checkpoint's sentence-transformers files say (mean where it has none); "after prefix" the
    same, but prefixes are left out of the mean; "mean" of the last layer; "cls" its first vector; "pooler" the model's
    own output for the whole text; "latent attention" as NV-Embed does (:mod:`berdslib.models.nv_embed`).

    ``passage_checkpoint`` encodes passages, if not ``checkpoint``; ``title_separator`` joins title and text;
    ``number_format`` is one of ``NUMBER_FORMATS``: "fastest" is bfloat16 if the processor has it, else float32
    (:func:`berdslib.models.loading.fastest_format`); "bfloat16" multiplies in that format, "4bit" stores the weights
    in 4 bits (NormalFloat); ``engine`` runs the network: "torch" or, faster on a CPU, "openvino", which supports
    pooling "" only. ``multilingual``: it reads more than English.
    """

    name: str
    checkpoint: str
    query_prefix: str | None = ""
    passage_prefix: str | None = ""
    normalise: bool | None = True
    max_length: int = 0
    pooling: str = ""
    passage_checkpoint: str = ""
    title_separator: str = " "
    number_format: str = FASTEST
    engine: str = "torch"
    multilingual: bool = False

    @property
    def id(self) -> str:
        """Everything that changes a vector, as one line: the cache's key.

        >>> ModelCard("x", "org/x", max_length=64, number_format="bfloat16").id
        'org/x|||True|64|number_format=bfloat16'
        """
        # Later fields are left out at their default, so that existing cache keys stay valid.
        later = [field for field in self._fields[6:] if field != "multilingual"]
        changed = [field for field in later if getattr(self, field) != _LEFT_OUT[field]]
        return "|".join([*map(_escaped, self[1:6]), *(f"{name}={_escaped(getattr(self, name))}" for name in changed)])

    @property
    def for_openvino(self) -> bool:
        """Whether OpenVINO can run the network here, as far as the card tells."""
        return not self.pooling and self.number_format != "4bit"

    def passage_text(self, passage: Passage) -> str:
        """Return title and text, written as the encoder expects them."""
        return f"{passage.title}{self.title_separator}{passage.text}" if passage.title else passage.text


# Values that an id leaves out; without a number format it means float32.
_LEFT_OUT = {**ModelCard._field_defaults, "number_format": "float32"}


def _escaped(value: object) -> str:
    """Escape the separators of fields and the first characters of marks, so that no two cards share an id."""
    if value is None:
        return "\\own"
    return re.sub(r"([\\|#@])", r"\\\1", str(value))


_TABLE = tomllib.loads((files("berdslib.models") / "cards.toml").read_text(encoding="utf-8"))
CARDS = {name: ModelCard(name, **card) for name, card in _TABLE.items()}


def model_card(name: str) -> ModelCard:
    """Return the card of an encoder.

    Args:
        name: a key of ``CARDS``, or "hf:org/model" (or "hf:FOLDER") for any sentence-transformers checkpoint, which
            is used as its own files say.

    Raises:
        InputError: an unknown name.
    """
    if name.startswith("hf:"):
        return ModelCard(name, name[3:], query_prefix=None, passage_prefix=None, normalise=None)
    return CARDS[known("encoder", name, CARDS)]
