"""Text encoders behind one protocol: a model card says how, a checkpoint does the work, a disk cache keeps it."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from berdslib.errors import BerdsError, InputError, known
from berdslib.models.cards import ENGINES, FASTEST, NUMBER_FORMATS, POOLINGS, Encoder, ModelCard, model_card
from berdslib.models.loading import (
    LOADING,
    NO_CODE,
    REPORT,
    arithmetic,
    checkpoint_mark,
    engine_of,
    fastest_format,
    in_batches,
    load_model,
    load_weights,
    local_folder,
    number_options,
    package_folder,
    quiet_loading,
    require_arithmetic,
    require_weights,
    store_as_multiplied,
)
from berdslib.models.openvino import openvino_vectors, require_openvino
from berdslib.models.vectors import CachedEncoder
from berdslib.paths import cache_dir

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

VectorsOf = Callable[[list[str], str], np.ndarray]  # from texts, and the prefix of each, to float32 (n, d)

NAMELESS = "own"  # the id of functions of the user's without one


def get_encoder(
    name: str | ModelCard = "minilm",
    *,
    cached: bool = True,
    number_format: str = "",
    engine: str = "",
) -> Encoder:
    """Return an encoder by name, with its disk cache unless told otherwise.

    Args:
        name: a key of ``CARDS``, "hf:org/model" for any sentence-transformers checkpoint, or a card of your own.
        cached: keep vectors under the user cache, keyed by model and text.
        number_format: "fastest" (bfloat16 where the processor has it, else float32, see
            :func:`berdslib.models.loading.fastest_format`), "float32" (the same vectors on every machine, but for the
            last digits), "bfloat16" or "4bit" (for models that do not fit otherwise); "" for the card's, which is
            "fastest" unless it names another. What is chosen is part of the id, which says nothing for float32.
        engine: "torch", or "openvino" for the same network faster on a CPU (:mod:`berdslib.models.openvino`); "" for
            that of BERDS_ENGINE or the fastest (:func:`berdslib.models.loading.engine_of`). It is part of the id.

    Raises:
        InputError: an unknown name, number format or engine, or two that do not go together.
        MissingDataError: OpenVINO is not installed.
    """
    card = model_card(name) if isinstance(name, str) else name
    card = card._replace(number_format=number_format or card.number_format)
    encoder = SentenceEncoder(card._replace(engine=engine or engine_of(card)))
    return CachedEncoder(encoder, cache_dir() / "embeddings") if cached else encoder


def own_encoder(encode: Any, queries: Any = None, *, id: str = "") -> Encoder:
    """Return an encoder of the user's with a cache; it is tried on two short texts.

    Args:
        encode: a function from a list of texts to vectors (n, d), whose dot products rank; or a SentenceTransformer,
            used as its own files say.
        queries: the same for questions, where they are encoded otherwise.
        id: names the vectors in the cache on disk, and must change when the model does; a SentenceTransformer without
            one is known by its weights, unless `queries` are encoded otherwise; other vectors without one are kept
            until Python ends.
    """
    if hasattr(encode, "similarity_fn_name"):
        loaded = _with_file_settings(encode, _sentence_transformer(encode, ModelCard(id, "")))
        id = id or ("" if queries else _weights(encode))

        def with_prefix(prefix: str) -> Callable[[list[str]], np.ndarray]:
            finish = _unit_length if loaded.normalise else np.asarray
            return lambda texts: finish(loaded.vectors_of(texts, prefix))

        encode, queries = with_prefix(loaded.passage_prefix), queries or with_prefix(loaded.query_prefix)
    made = OwnEncoder(encode, queries or encode, id or NAMELESS)
    if id:
        return CachedEncoder(made, cache_dir() / "embeddings")
    made.folder = tempfile.TemporaryDirectory(prefix="berdslib-")
    return CachedEncoder(made, Path(made.folder.name))


def _weights(model: Any) -> str:
    """Return a hash of a model's weights, and of what else it says about its use."""
    import torch

    settings = model.prompts, model.max_seq_length, model.truncate_dim, model.similarity_fn_name, model
    said = hashlib.sha256(str(settings).encode())
    for name, tensor in sorted(model.state_dict().items()):
        said.update(name.encode() + tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return f"own:{said.hexdigest()}"


class OwnEncoder:
    """Functions of the user's as an encoder; what they return is checked."""

    folder: tempfile.TemporaryDirectory[str] | None = None  # goes with the encoder

    def __init__(self, passages: Any, queries: Any, id: str) -> None:
        if not callable(passages) or not callable(queries):
            raise InputError(
                f"a function from texts to vectors is needed, not {type(passages).__name__}", field="encode"
            )
        self._passages, self._queries, self.id = passages, queries, id
        try:
            shapes = {self._checked(encode, ["A zoo.", "No zoo."]).shape[1] for encode in (passages, queries)}
        except BerdsError:
            raise
        except Exception as error:
            problem = f"of a list of two texts it failed ({type(error).__name__}: {error})"
            hint = "give a function of several, such as lambda texts: [encode(text) for text in texts]"
            raise InputError(f"{problem}; {hint}", field="encode") from error
        if len(shapes) > 1:
            raise InputError(f"vectors of questions and passages differ in length: {sorted(shapes)}", field="queries")

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Encode questions, float32 (n, d)."""
        return self._checked(self._queries, texts)

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """Encode passages, float32 (n, d)."""
        return self._checked(self._passages, texts)

    def _checked(self, encode: Any, texts: Sequence[str]) -> np.ndarray:
        found = encode(list(texts))
        try:
            vectors = np.asarray(found, dtype=np.float32)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"of {len(texts)} texts it returned no array of numbers: {error}", field="encode"
            ) from None
        if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1]:
            problem = f"of a list of {len(texts)} texts it must return vectors, ({len(texts)}, d)"
            raise InputError(f"{problem}, not an array of shape {vectors.shape}", field="encode")
        if not np.isfinite(vectors).all():
            raise InputError("its vectors hold NaN or infinity", field="encode")
        return vectors


class SentenceEncoder:
    """An encoder as its card tells; the weights are loaded when the first text arrives.

    A batch that fails is an error: a dropped one would move every later vector (divergences.md P7).

    Args:
        card: how to use the checkpoint; its number format "fastest" is replaced here, once, by that of this machine.
    """

    def __init__(self, card: ModelCard) -> None:
        known("pooling", card.pooling, POOLINGS)
        known("number format", card.number_format, NUMBER_FORMATS)
        known("engine", card.engine, ENGINES)
        if card.engine == "openvino":
            if not card.for_openvino:
                what = f"pooling {card.pooling!r}" if card.pooling else "4bit"
                raise InputError(f"{card.name}: OpenVINO does not do {what} here; take engine='torch'")
            require_openvino()
        if card.number_format == FASTEST:
            card = card._replace(number_format=fastest_format(card.engine))
        self.card = card
        # A model that was trained anew in the same folder, or another commit of it on the hub, makes other vectors.
        self._marks = {c: checkpoint_mark(c) for c in (card.checkpoint, card.passage_checkpoint)}
        self.id = card.id + "".join(self._marks.values())

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Encode questions, float32 (n, d)."""
        return self._encode(texts, "query", self.card.checkpoint)

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """Encode passages, float32 (n, d)."""
        return self._encode(texts, "passage", self.card.passage_checkpoint or self.card.checkpoint)

    def with_instruction(self, instruction: str) -> SentenceEncoder | None:
        """Return the encoder with another instruction for questions; None where it averages that with the text."""
        reads_one = self.card.pooling == "after prefix"
        return SentenceEncoder(self.card._replace(query_prefix=f"{instruction}: ")) if reads_one else None

    def _encode(self, texts: Sequence[str], role: str, checkpoint: str) -> np.ndarray:
        if not texts:
            raise InputError("there are no texts to encode")
        card, mark = self.card, self._marks[checkpoint]
        # A commit is loaded by its name, whatever came after it.
        if not mark.startswith("@") and checkpoint_mark(checkpoint) != mark:
            raise InputError("changed after this encoder was loaded; load it again", path=checkpoint)
        require_arithmetic(card.number_format, card.engine)
        with LOADING:  # whatever the prefixes are, the network is the same
            loaded = load_checkpoint(checkpoint, card._replace(query_prefix="", passage_prefix=""), mark)
        prefix = card.query_prefix if role == "query" else card.passage_prefix
        if prefix is None:
            prefix = loaded.query_prefix if role == "query" else loaded.passage_prefix
        with arithmetic(card.number_format) if card.engine == "torch" else nullcontext():
            vectors = loaded.vectors_of(list(texts), prefix)
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


# ---------------------------------------------------------------- checkpoints of every kind


class Checkpoint(NamedTuple):
    """What makes vectors, not yet normalised, and what the checkpoint's own files say about its use, if anything."""

    vectors_of: VectorsOf
    query_prefix: str = ""
    passage_prefix: str = ""
    normalise: bool = True


@lru_cache(maxsize=4)
def load_checkpoint(checkpoint: str, card: ModelCard, mark: str = "") -> Checkpoint:
    """Load a checkpoint and return what makes vectors with it, as a card says.

    ``mark`` is its state, see :func:`berdslib.models.loading.checkpoint_mark`: another state is another model, and of a
    model on the hub this commit is loaded.
    """
    revision = mark[1:] if mark.startswith("@") else "main"
    logger.info("loading %s (%s, %s)", checkpoint, card.engine, card.number_format)
    if card.pooling == "latent attention":
        # Inside, because its classes need torch, which is imported late.
        from berdslib.models.nv_embed import nv_embed_vectors

        return Checkpoint(nv_embed_vectors(checkpoint, card.max_length, card.number_format, revision))
    if card.pooling not in ("", "after prefix"):
        return Checkpoint(_transformer(checkpoint, card, revision))
    model, by_openvino = load_sentence_transformer(checkpoint, card, revision), card.engine == "openvino"
    vectors_of = openvino_vectors(model, card.number_format) if by_openvino else _sentence_transformer(model, card)
    return _with_file_settings(model, vectors_of)


def _with_file_settings(model: Any, vectors_of: VectorsOf) -> Checkpoint:
    """Add what a sentence-transformers model says of prompts and of how its vectors are compared.

    The prompts are those of the library's ``encode_query`` and ``encode_document`` (whose 6.2 overlooks "passage" and
    "corpus", which older models name instead of "document"); its default prompt, which knows no roles, is left alone.
    Vectors that are compared by their cosine, the library's choice where files name none, are normalised, because we
    search by dot product; those that are compared by dot product are not.
    """
    named = model.similarity_fn_name
    if named not in ("cosine", "dot"):
        raise InputError(
            f"this checkpoint compares vectors by {named} distance; search here is by dot product or cosine"
        )
    passage = next((model.prompts[role] for role in ("document", "passage", "corpus") if model.prompts.get(role)), "")
    return Checkpoint(vectors_of, model.prompts.get("query") or "", passage, named == "cosine")


def _sentence_transformer(model: Any, card: ModelCard) -> VectorsOf:
    """Pool as the checkpoint's own sentence-transformers files say; the library sorts texts by length."""
    if card.pooling == "after prefix":
        model.set_pooling_include_prompt(include_prompt=False)

    def vectors_of(texts: list[str], prefix: str) -> np.ndarray:
        # An empty prompt is one too: without it the library would take its default for all texts.
        vectors = model.encode(texts, prompt=prefix, show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), -1)

    return vectors_of


def load_sentence_transformer(checkpoint: str, card: ModelCard, revision: str) -> Any:
    """Load a sentence-transformers model as a card says; for OpenVINO, in float32 on the CPU."""
    with quiet_loading():  # the import brings the news of missing kernels
        from sentence_transformers import SentenceTransformer

    packaged = checkpoint.startswith("package:")
    where = package_folder(checkpoint.removeprefix("package:")) if packaged else checkpoint
    number_format, device = (card.number_format, None) if card.engine == "torch" else ("float32", "cpu")

    def load(local: bool) -> Any:
        return SentenceTransformer(
            where,
            device=device,
            local_files_only=local,
            **NO_CODE,
            # Weights of another shape are told below, with those that are missing.
            model_kwargs=number_options(number_format) | {"ignore_mismatched_sizes": True},
            revision=revision,
        )

    try:
        model = load_model(where, load)
    except RuntimeError as error:  # what the library says of a layer whose weights do not fit
        if "state_dict" not in str(error):
            raise
        raise InputError(f"{where}: {' '.join(str(error).split())}") from error
    if any(hasattr(part, "sub_modules") for part in model):
        raise InputError(f"{where} has separate parts for questions and passages (a Router), which is not supported")
    if network := getattr(model[0], "auto_model", None):
        _require_network(type(network), where, revision)
    if card.max_length:
        model.max_seq_length = card.max_length
    store_as_multiplied(model, number_format)
    return model


def _require_network(kind: Any, checkpoint: str, revision: str) -> None:
    """Raise InputError where a network's files lack weights, which sentence-transformers does not tell."""
    folder = local_folder(checkpoint, revision)
    modules = folder / "modules.json"
    inside = json.loads(modules.read_text(encoding="utf-8"))[0]["path"] if modules.exists() else ""
    with quiet_loading():
        _, report = kind.from_pretrained(folder / inside, device_map="meta", **REPORT, **NO_CODE)
    # What is pooled is the last layer. A weight of an adapter that has no place would be left out.
    is_adapter = (folder / inside / "adapter_config.json").exists()
    require_weights(checkpoint, report, unread=("pooler.",), exactly=is_adapter)


def _transformer(checkpoint: str, card: ModelCard, revision: str) -> VectorsOf:
    """Pool the output of a plain transformer."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer, DPRContextEncoder

    def beginning(of: Any) -> Any:
        options = {"revision": revision, **NO_CODE}
        return load_model(checkpoint, lambda local: of.from_pretrained(checkpoint, local_files_only=local, **options))

    tokenizer, config = beginning(AutoTokenizer), beginning(AutoConfig)
    # AutoModel takes every DPR checkpoint for a question encoder, and leaves the weights of the other kind out.
    kind = DPRContextEncoder if "DPRContextEncoder" in (config.architectures or []) else AutoModel
    unread = () if card.pooling == "pooler" else ("pooler.",)
    model = load_weights(kind, checkpoint, card.number_format, unread=unread, revision=revision)

    def vectors_of(texts: list[str], prefix: str) -> np.ndarray:
        # Only ids: sentence numbers stay 0 on both sides of a [SEP], which is how DPR and TART were trained.
        ids = tokenizer([prefix + t for t in texts], truncation=True, max_length=card.max_length or None)["input_ids"]
        return in_batches(tokenizer, ids, model.device, lambda b: pool(model(**b), b["attention_mask"], card.pooling))

    return vectors_of


def pool(output: Any, mask: torch.Tensor, pooling: str) -> torch.Tensor:
    """Return one vector a text, (n, d), of a transformer's output; the mask, (n, tokens), is 0 at what only pads."""
    if pooling == "pooler":
        pooled: torch.Tensor = output.pooler_output
        return pooled
    hidden: torch.Tensor = output.last_hidden_state
    if pooling == "cls":
        return hidden[:, 0]
    inside = mask.unsqueeze(-1)
    return (hidden.float() * inside).sum(dim=1) / inside.sum(dim=1)
