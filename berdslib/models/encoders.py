"""Text encoders behind one protocol: a model card configures them, a checkpoint encodes, a disk cache keeps vectors."""

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
    weights_hash,
)
from berdslib.models.openvino import openvino_vectors, require_openvino
from berdslib.models.vectors import CachedEncoder
from berdslib.paths import cache_dir

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

VectorsOf = Callable[[list[str], str], np.ndarray]  # maps texts and their prefix to float32 (n, d)

NAMELESS = "own"  # the id of a user's function without an id


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
            last digits), "bfloat16" or "4bit" (for models that do not fit otherwise); "" for the card's, by default
            "fastest". The chosen format is part of the id, unless it is float32.
        engine: "torch", or "openvino" for the same network faster on a CPU (:mod:`berdslib.models.openvino`); "" for
            that of BERDS_ENGINE or the fastest (:func:`berdslib.models.loading.engine_of`). It is part of the id.

    Raises:
        InputError: an unknown name, number format or engine, or a combination that does not exist.
        MissingDataError: OpenVINO is not installed.
    """
    card = model_card(name) if isinstance(name, str) else name
    card = card._replace(number_format=number_format or card.number_format)
    encoder = SentenceEncoder(card._replace(engine=engine or engine_of(card)))
    return CachedEncoder(encoder, cache_dir() / "embeddings") if cached else encoder


def own_encoder(encode: Any, queries: Any = None, *, id: str = "") -> Encoder:
    """Return a user's encoder with a cache, after a test on two short texts.

    Args:
        encode: a function from a list of texts to vectors (n, d), whose dot products rank; or a SentenceTransformer,
            used as its own files say.
        queries: a function for questions, if they are encoded differently.
        id: names the vectors in the cache on disk; change it when the model changes. A SentenceTransformer without an
            id and without `queries` is identified by its weights; other vectors without an id are deleted when Python
            ends.
    """
    if hasattr(encode, "similarity_fn_name"):
        loaded = _with_file_settings(encode, _sentence_transformer(encode, ModelCard(id, "")))
        id = id or ("" if queries else _weights(encode))

        def with_prefix(prefix: str) -> Callable[[list[str]], np.ndarray]:
            finish = _unit_length if loaded.normalise else np.asarray
            return lambda texts: finish(loaded.vectors_of(texts, prefix))

        encode = with_prefix(loaded.passage_prefix)
        queries = queries or with_prefix(loaded.query_prefix)
    encoder = OwnEncoder(encode, queries or encode, id or NAMELESS)
    if id:
        return CachedEncoder(encoder, cache_dir() / "embeddings")
    encoder.folder = tempfile.TemporaryDirectory(prefix="berdslib-")
    return CachedEncoder(encoder, Path(encoder.folder.name))


def _weights(model: Any) -> str:
    """Return a hash of a model's weights and settings."""
    settings = model.prompts, model.max_seq_length, model.truncate_dim, model.similarity_fn_name, model
    return f"own:{hashlib.sha256(str(settings).encode()).hexdigest()[:16]}:{weights_hash(model)}"


class OwnEncoder:
    """An encoder made of a user's functions, whose vectors are checked."""

    folder: tempfile.TemporaryDirectory[str] | None = None  # deleted with the encoder

    def __init__(self, passages: Any, queries: Any, id: str) -> None:
        if not callable(passages) or not callable(queries):
            raise InputError(f"must be a function from texts to vectors, not {type(passages).__name__}", field="encode")
        self._passages = passages
        self._queries = queries
        self.id = id
        try:
            shapes = {self._checked(encode, ["A zoo.", "No zoo."]).shape[1] for encode in (passages, queries)}
        except BerdsError:
            raise
        except Exception as error:
            problem = f"it failed on a list of two texts ({type(error).__name__}: {error})"
            hint = "use a function of several texts, such as lambda texts: [encode(text) for text in texts]"
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
        returned = encode(list(texts))
        try:
            vectors = np.asarray(returned, dtype=np.float32)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"for {len(texts)} texts it did not return an array of numbers: {error}", field="encode"
            ) from None
        if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1]:
            problem = f"for a list of {len(texts)} texts it must return vectors, ({len(texts)}, d)"
            raise InputError(f"{problem}, not an array of shape {vectors.shape}", field="encode")
        if not np.isfinite(vectors).all():
            raise InputError("its vectors contain NaN or infinity", field="encode")
        return vectors


class SentenceEncoder:
    """An encoder that follows a card; the weights are loaded for the first text.

    A failed batch raises an error: dropping it would shift every later vector (divergences.md P7).

    Args:
        card: how to use the checkpoint; its number format "fastest" is replaced here, once, by this machine's.
    """

    def __init__(self, card: ModelCard) -> None:
        known("pooling", card.pooling, POOLINGS)
        known("number format", card.number_format, NUMBER_FORMATS)
        known("engine", card.engine, ENGINES)
        if card.engine == "openvino":
            if not card.for_openvino:
                what = f"pooling {card.pooling!r}" if card.pooling else "4bit"
                raise InputError(f"{card.name}: OpenVINO does not support {what} here; use engine='torch'")
            require_openvino()
        if card.number_format == FASTEST:
            card = card._replace(number_format=fastest_format(card.engine))
        self.card = card
        # A retrained model in the same folder, or another commit on the hub, makes other vectors.
        checkpoints = (card.checkpoint, card.passage_checkpoint)
        self._marks = {checkpoint: checkpoint_mark(checkpoint) for checkpoint in checkpoints}
        self.id = card.id + "".join(self._marks.values())

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Encode questions, float32 (n, d)."""
        return self._encode(texts, "query", self.card.checkpoint)

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """Encode passages, float32 (n, d)."""
        return self._encode(texts, "passage", self.card.passage_checkpoint or self.card.checkpoint)

    def with_instruction(self, instruction: str) -> SentenceEncoder | None:
        """Return the encoder with another instruction for questions; None if it averages instruction and text."""
        if self.card.pooling != "after prefix":
            return None
        return SentenceEncoder(self.card._replace(query_prefix=f"{instruction}: "))

    def _encode(self, texts: Sequence[str], role: str, checkpoint: str) -> np.ndarray:
        if not texts:
            raise InputError("there are no texts to encode")
        card = self.card
        mark = self._marks[checkpoint]
        # A commit never changes.
        if not mark.startswith("@") and checkpoint_mark(checkpoint) != mark:
            raise InputError("changed after this encoder was loaded; load it again", path=checkpoint)
        require_arithmetic(card.number_format, card.engine)
        with LOADING:  # prefixes do not change the network
            loaded = load_checkpoint(checkpoint, card._replace(query_prefix="", passage_prefix=""), mark)
        prefix = card.query_prefix if role == "query" else card.passage_prefix
        if prefix is None:
            prefix = loaded.query_prefix if role == "query" else loaded.passage_prefix
        with arithmetic(card.number_format) if card.engine == "torch" else nullcontext():
            vectors = loaded.vectors_of(list(texts), prefix)
        if len(vectors) != len(texts):
            raise InputError(f"{card.name} returned {len(vectors)} vectors for {len(texts)} texts")
        if not np.isfinite(vectors).all():
            raise InputError(f"{card.name} returned a vector that is not finite")
        normalise = loaded.normalise if card.normalise is None else card.normalise
        return _unit_length(vectors) if normalise else vectors


def _unit_length(vectors: np.ndarray) -> np.ndarray:
    import torch

    scaled: np.ndarray = torch.nn.functional.normalize(torch.from_numpy(vectors), dim=1).numpy()
    return scaled


# ---------------------------------------------------------------- checkpoints of every kind


class Checkpoint(NamedTuple):
    """The function that makes vectors, not yet normalised, and the settings in the checkpoint's files."""

    vectors_of: VectorsOf
    query_prefix: str = ""
    passage_prefix: str = ""
    normalise: bool = True


@lru_cache(maxsize=4)
def load_checkpoint(checkpoint: str, card: ModelCard, mark: str = "") -> Checkpoint:
    """Load a checkpoint as a card says.

    ``mark`` is its state, see :func:`berdslib.models.loading.checkpoint_mark`: for a model on the hub, the commit to
    load.
    """
    revision = mark[1:] if mark.startswith("@") else "main"
    logger.info("loading %s (%s, %s)", checkpoint, card.engine, card.number_format)
    if card.pooling == "latent attention":
        # Imported here, because its classes need torch, which is imported late.
        from berdslib.models.nv_embed import nv_embed_vectors

        return Checkpoint(nv_embed_vectors(checkpoint, card.max_length, card.number_format, revision))
    if card.pooling not in ("", "after prefix"):
        return Checkpoint(_transformer(checkpoint, card, revision))
    model = load_sentence_transformer(checkpoint, card, revision)
    if card.engine == "openvino":
        return _with_file_settings(model, openvino_vectors(model, card.number_format))
    return _with_file_settings(model, _sentence_transformer(model, card))


def _with_file_settings(model: Any, vectors_of: VectorsOf) -> Checkpoint:
    """Add a sentence-transformers model's settings for prompts and for the comparison of vectors.

    The prompts are those of the library's ``encode_query`` and ``encode_document`` (its version 6.2 overlooks "passage"
    and "corpus", which older models use for "document"); the default prompt, which has no role, is ignored. Vectors
    that are compared by cosine, the library's default, are normalised, because search is by dot product; those
    compared by dot product are not.
    """
    similarity = model.similarity_fn_name
    if similarity not in ("cosine", "dot"):
        raise InputError(
            f"this checkpoint compares vectors by {similarity} distance; only dot product and cosine are supported"
        )
    prompts = model.prompts
    passage = prompts.get("document") or prompts.get("passage") or prompts.get("corpus") or ""
    return Checkpoint(vectors_of, prompts.get("query") or "", passage, similarity == "cosine")


def _sentence_transformer(model: Any, card: ModelCard) -> VectorsOf:
    """Pool as the checkpoint's own sentence-transformers files say; the library sorts texts by length."""
    if card.pooling == "after prefix":
        model.set_pooling_include_prompt(include_prompt=False)

    def vectors_of(texts: list[str], prefix: str) -> np.ndarray:
        # An empty prompt is passed as well, because without one the library uses its default prompt.
        vectors = model.encode(texts, prompt=prefix, show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), -1)

    return vectors_of


def load_sentence_transformer(checkpoint: str, card: ModelCard, revision: str) -> Any:
    """Load a sentence-transformers model as a card says; for OpenVINO, in float32 on the CPU."""
    with quiet_loading():  # importing it reports missing kernels
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
            # Weights of another shape are reported below, with missing ones.
            model_kwargs=number_options(number_format) | {"ignore_mismatched_sizes": True},
            revision=revision,
        )

    try:
        model = load_model(where, load)
    except RuntimeError as error:  # the library raises it for a layer whose weights do not fit
        if "state_dict" not in str(error):
            raise
        raise InputError(f"{where}: {' '.join(str(error).split())}") from error
    if any(hasattr(part, "sub_modules") for part in model):
        raise InputError(f"{where} has separate parts for questions and passages (a Router), which is not supported")
    network = getattr(model[0], "auto_model", None)
    if network:
        _require_network(type(network), where, revision)
    if card.max_length:
        model.max_seq_length = card.max_length
    store_as_multiplied(model, number_format)
    return model


def _require_network(kind: Any, checkpoint: str, revision: str) -> None:
    """Raise InputError if a network's files lack weights, which sentence-transformers does not report."""
    folder = local_folder(checkpoint, revision)
    modules = folder / "modules.json"
    inside = json.loads(modules.read_text(encoding="utf-8"))[0]["path"] if modules.exists() else ""
    with quiet_loading():
        _, report = kind.from_pretrained(folder / inside, device_map="meta", **REPORT, **NO_CODE)
    # The pooler is not used. Unknown weights matter for an adapter, whose changes they would lose.
    is_adapter = (folder / inside / "adapter_config.json").exists()
    require_weights(checkpoint, report, unread=("pooler.",), exactly=is_adapter)


def _transformer(checkpoint: str, card: ModelCard, revision: str) -> VectorsOf:
    """Pool the output of a plain transformer."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer, DPRContextEncoder

    def read(kind: Any) -> Any:
        options = {"revision": revision, **NO_CODE}
        return load_model(checkpoint, lambda local: kind.from_pretrained(checkpoint, local_files_only=local, **options))

    tokenizer = read(AutoTokenizer)
    config = read(AutoConfig)
    # AutoModel loads every DPR checkpoint as a question encoder, without the weights of a passage encoder.
    kind = DPRContextEncoder if "DPRContextEncoder" in (config.architectures or []) else AutoModel
    unread = () if card.pooling == "pooler" else ("pooler.",)
    model = load_weights(kind, checkpoint, card.number_format, unread=unread, revision=revision)

    def vectors_of(texts: list[str], prefix: str) -> np.ndarray:
        # Only ids, so that segment ids stay 0 on both sides of a [SEP], as in the training of DPR and TART.
        prefixed = [prefix + text for text in texts]
        ids = tokenizer(prefixed, truncation=True, max_length=card.max_length or None)["input_ids"]
        return in_batches(tokenizer, ids, model.device, pooled)

    def pooled(batch: Any) -> torch.Tensor:
        return pool(model(**batch), batch["attention_mask"], card.pooling)

    return vectors_of


def pool(output: Any, mask: torch.Tensor, pooling: str) -> torch.Tensor:
    """Return one vector a text, (n, d), of a transformer's output; the mask, (n, tokens), is 0 at padding."""
    if pooling == "pooler":
        pooled: torch.Tensor = output.pooler_output
        return pooled
    hidden: torch.Tensor = output.last_hidden_state
    if pooling == "cls":
        return hidden[:, 0]
    inside = mask.unsqueeze(-1)
    return (hidden.float() * inside).sum(dim=1) / inside.sum(dim=1)
