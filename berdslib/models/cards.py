"""What every encoder promises; and cards: how each published one should be used, according to its authors."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple, Protocol

import numpy as np

from berdslib.data.records import Passage
from berdslib.errors import InputError, known

# What makes one vector of a text; see ModelCard.
POOLINGS = ("", "after prefix", "mean", "cls", "pooler", "latent attention")
FASTEST = "fastest"  # chosen by the processor
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
    """Return an encoder with another instruction for questions; InputError where it reads none apart from the text."""
    made: Encoder | None = getattr(encoder, "with_instruction", lambda _: None)(instruction)
    if made is None:
        raise InputError(f"{encoder.id} reads no instruction apart from the text; instructor-base does")
    return made


class ModelCard(NamedTuple):
    """How a checkpoint should be used.

    ``checkpoint`` a Hugging Face id, a folder, or "package:NAME" for weights inside a Python package;
    ``query_prefix`` and ``passage_prefix`` text put in front; ``normalise`` scale vectors to length 1; None for any of
    the three: as the checkpoint's sentence-transformers files say. ``max_length`` in word pieces, 0 for its own.

    ``pooling``: "" as the checkpoint's sentence-transformers files say (mean where it has none); "after prefix" the
    same, but prefixes are left out of the mean; "mean" of the last layer; "cls" its first vector; "pooler" the model's
    own output for the whole text; "latent attention" as NV-Embed does (:mod:`berdslib.models.nv_embed`).

    ``passage_checkpoint`` where passages have an encoder of their own; ``title_separator`` what stands between title
    and text; ``number_format`` one of ``NUMBER_FORMATS``: "fastest" is bfloat16 where the processor has it, else
    float32 (:func:`berdslib.models.loading.fastest_format`); "bfloat16" multiplies in that format, "4bit"
    stores the weights in 4 bits (NormalFloat); ``engine`` what runs the network, "torch" or, faster on a CPU,
    "openvino", which knows pooling "" only. ``multilingual``: it reads more than English.
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
        # The first fields are always written, later ones only where they say something: what was cached stays valid.
        later = [f for f in self._fields[6:] if f != "multilingual"]
        said = [f"{f}={_escaped(getattr(self, f))}" for f in later if getattr(self, f) != _UNSAID[f]]
        return "|".join([*map(_escaped, self[1:6]), *said])

    @property
    def for_openvino(self) -> bool:
        """Whether OpenVINO can run the network here, as far as the card tells."""
        return not self.pooling and self.number_format != "4bit"

    def passage_text(self, passage: Passage) -> str:
        """Return title and text, written as the encoder expects them."""
        return f"{passage.title}{self.title_separator}{passage.text}" if passage.title else passage.text


# An id that names no number format is that of float32, which was the default once.
_UNSAID = {**ModelCard._field_defaults, "number_format": "float32"}


def _escaped(value: object) -> str:
    """Return a field so that no two cards have one id: what separates fields, and what a state begins with, escaped."""
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
