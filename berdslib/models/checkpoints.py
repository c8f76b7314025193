"""How the kinds of checkpoints are loaded, and how each makes one vector of a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from berdslib.checkpoint import REPORT, missing_weights, require_weights
from berdslib.errors import InputError
from berdslib.models.loading import (
    length_batches,
    load_model,
    load_weights,
    number_options,
    package_folder,
    quiet_loading,
    store_as_multiplied,
)
from berdslib.models.openvino import openvino_vectors, require_openvino

if TYPE_CHECKING:
    import torch

# From texts, the prefix of each, and the number of texts in a forward pass to float32 (n, d).
VectorsOf = Callable[[list[str], str, int], np.ndarray]


# One load at a time notes what it lacks; see _collect_missing_weights.
_LOADING = Lock()


class Checkpoint(NamedTuple):
    """What makes vectors, not yet normalised, and what the checkpoint's own files say about its use, if anything."""

    vectors_of: VectorsOf
    query_prefix: str = ""
    passage_prefix: str = ""
    normalise: bool = True


@lru_cache(maxsize=4)
def load_checkpoint(
    checkpoint: str,
    pooling: str,
    max_length: int,
    number_format: str,
    trust_remote_code: bool,
    engine: str = "torch",
    mark: str = "",
) -> Checkpoint:
    """Load a checkpoint and return what makes vectors with it.

    Args:
        checkpoint: id, folder or "package:NAME".
        pooling: what makes one vector of a text; this and the next two as in
            :class:`berdslib.models.cards.ModelCard`.
        max_length: in word pieces, 0 for the checkpoint's own.
        number_format: in which numbers it multiplies, or weights are stored.
        trust_remote_code: let Python code that comes with the checkpoint run.
        engine: what runs the network; "openvino" is for pooling "" only.
        mark: its state, see :func:`berdslib.models.loading.checkpoint_mark`: another state is another model, and of a
            model on the hub this commit is loaded.

    Raises:
        MissingDataError: the weights are neither on this machine nor reachable, or a package is not installed.
        InputError: some weights are missing in the checkpoint, or it compares vectors in a way that is not done here.
    """
    revision = mark[1:] if mark.startswith("@") else "main"
    if engine == "openvino":
        require_openvino(number_format)
        model = load_sentence_transformer(
            checkpoint, max_length, device="cpu", trust_remote_code=trust_remote_code, revision=revision
        )
        return _with_file_settings(model, openvino_vectors(model, number_format))
    if pooling in ("", "after prefix"):
        model = load_sentence_transformer(
            checkpoint, max_length, number_format, trust_remote_code=trust_remote_code, revision=revision
        )
        return _with_file_settings(model, _sentence_transformer(model, pooling))
    if pooling == "latent attention":
        # Inside, because its classes need torch, which is imported late.
        from berdslib.models.nv_embed import nv_embed_vectors

        return Checkpoint(nv_embed_vectors(checkpoint, max_length, number_format, revision))
    return Checkpoint(_transformer(checkpoint, pooling, max_length, number_format, revision))


def _with_file_settings(model: Any, vectors_of: VectorsOf) -> Checkpoint:
    """Add what a sentence-transformers model says of prompts and of how its vectors are compared.

    The prompts are those of the library's ``encode_query`` and ``encode_document`` (whose 6.2 overlooks "passage" and
    "corpus", which older models name instead of "document"); its default prompt, which knows no roles, is left alone.
    Vectors that are compared by their cosine, the library's choice where files name none, are normalised, because we
    search by dot product; those that are compared by dot product are not.

    Raises:
        InputError: a model that compares by a distance.
    """
    named = model.similarity_fn_name
    if named not in ("cosine", "dot"):
        raise InputError(
            f"this checkpoint compares vectors by {named} distance; search here is by dot product or cosine"
        )
    passage = next((model.prompts[role] for role in ("document", "passage", "corpus") if model.prompts.get(role)), "")
    return Checkpoint(vectors_of, model.prompts.get("query") or "", passage, named == "cosine")


def _sentence_transformer(model: Any, pooling: str) -> VectorsOf:
    """Pool as the checkpoint's own sentence-transformers files say; the library sorts texts by length."""
    if pooling == "after prefix":
        model.set_pooling_include_prompt(include_prompt=False)

    def vectors_of(texts: list[str], prefix: str, batch_size: int) -> np.ndarray:
        # An empty prompt is one too: without it the library would take its default for all texts.
        vectors = model.encode(
            texts, prompt=prefix, batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True
        )
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), -1)

    return vectors_of


def load_sentence_transformer(
    checkpoint: str,
    max_length: int,
    number_format: str = "float32",
    device: str | None = None,
    *,
    trust_remote_code: bool = False,
    revision: str = "main",
) -> Any:
    """Load a sentence-transformers model; arguments as of :func:`load_checkpoint`, None for the library's device.

    Raises:
        MissingDataError: neither here nor reachable.
        InputError: weights that would be used are missing; or it has parts of their own for questions and passages.
    """
    with quiet_loading():  # the import brings the news of missing kernels
        from sentence_transformers import SentenceTransformer

    packaged = checkpoint.startswith("package:")
    where = package_folder(checkpoint.removeprefix("package:")) if packaged else checkpoint
    options = number_options(number_format)

    def load(local: bool) -> Any:
        return SentenceTransformer(
            where,
            device=device,
            local_files_only=local,
            trust_remote_code=trust_remote_code,
            model_kwargs=dict(options),
            revision=revision,
        )

    with _collect_missing_weights() as lacking, _layers_named(where):
        model = load_model(where, load)
    require_weights(where, lacking, unread=("pooler.",))  # what it pools is the last layer
    if any(hasattr(part, "sub_modules") for part in model):
        raise InputError(f"{where} has separate parts for questions and passages (a Router), which is not supported")
    if max_length:
        model.max_seq_length = max_length
    store_as_multiplied(model, number_format)
    return model


@contextmanager
def _collect_missing_weights() -> Iterator[set[str]]:
    """Collect the names of the weights that transformers does not find; sentence-transformers has no way to ask."""
    from transformers import PreTrainedModel

    lacking: set[str] = set()
    own = PreTrainedModel.__dict__["from_pretrained"]
    here = get_ident()

    def noting(cls: Any, *args: Any, **options: Any) -> Any:
        if get_ident() != here:  # another thread loads what is none of ours
            return own.__func__(cls, *args, **options)
        model, report = own.__func__(cls, *args, **options | REPORT)
        lacking.update(missing_weights(report))
        return (model, report) if options.get("output_loading_info") else model

    with _LOADING:
        PreTrainedModel.from_pretrained = classmethod(noting)  # type: ignore[assignment]
        try:
            yield lacking
        finally:
            PreTrainedModel.from_pretrained = own  # type: ignore[method-assign]


@contextmanager
def _layers_named(checkpoint: str) -> Iterator[None]:
    """Turn what sentence-transformers says of a layer whose weights do not fit into an InputError."""
    try:
        yield
    except RuntimeError as error:
        if "state_dict" not in str(error):
            raise
        raise InputError(f"{checkpoint}: {' '.join(str(error).split())}") from error


def _transformer(checkpoint: str, pooling: str, max_length: int, number_format: str, revision: str) -> VectorsOf:
    """Pool the output of a plain transformer."""
    import torch
    from transformers import AutoConfig, AutoModel, AutoTokenizer, DPRContextEncoder

    def beginnings(local: bool) -> tuple[Any, Any]:
        return (
            AutoTokenizer.from_pretrained(checkpoint, local_files_only=local, revision=revision),
            AutoConfig.from_pretrained(checkpoint, local_files_only=local, revision=revision),
        )

    tokenizer, config = load_model(checkpoint, beginnings)
    # AutoModel takes every DPR checkpoint for a question encoder, and leaves the weights of the other kind out.
    kind = DPRContextEncoder if "DPRContextEncoder" in (config.architectures or []) else AutoModel
    unread = () if pooling == "pooler" else ("pooler.",)
    model = load_weights(kind, checkpoint, number_format, unread=unread, revision=revision)

    def vectors_of(texts: list[str], prefix: str, batch_size: int) -> np.ndarray:
        # Only ids: sentence numbers stay 0 on both sides of a [SEP], which is how DPR and TART were trained.
        ids = tokenizer([prefix + t for t in texts], truncation=True, max_length=max_length or None)["input_ids"]
        found: dict[int, np.ndarray] = {}
        for rows in length_batches([len(one) for one in ids], batch_size):
            batch = tokenizer.pad({"input_ids": [ids[i] for i in rows]}, return_tensors="pt").to(model.device)
            with torch.inference_mode():
                pooled = pool(model(**batch), batch["attention_mask"], pooling)
            found.update(zip(rows, pooled.float().cpu().numpy(), strict=True))
        return np.stack([found[i] for i in range(len(texts))])

    return vectors_of


def pool(output: Any, mask: torch.Tensor, pooling: str) -> torch.Tensor:
    """Return one vector a text, (n, d), of a transformer's output.

    Args:
        output: has last_hidden_state (n, tokens, d) or, for "pooler", pooler_output (n, d).
        mask: (n, tokens), 0 where a text is padded.
        pooling: "mean", "cls" or "pooler".
    """
    if pooling == "pooler":
        pooled: torch.Tensor = output.pooler_output
        return pooled
    hidden: torch.Tensor = output.last_hidden_state
    if pooling == "cls":
        return hidden[:, 0]
    inside = mask.unsqueeze(-1)
    return (hidden.float() * inside).sum(dim=1) / inside.sum(dim=1)
