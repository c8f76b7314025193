"""How the kinds of checkpoints are loaded, and how each makes one vector of a text."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from berdslib.cpu import has_bf16
from berdslib.data.fetching import load_model
from berdslib.errors import InputError, MissingDataError

if TYPE_CHECKING:
    import torch

# From texts, the prefix of each, and the number of texts in a forward pass to float32 (n, d).
VectorsOf = Callable[[list[str], str, int], np.ndarray]

# Asks transformers for what a checkpoint lacks; otherwise it only logs that.
_REPORT = {"output_loading_info": True, "ignore_mismatched_sizes": True}

# One load at a time notes what it lacks; see _noting_lacks.
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
            :class:`berdslib.retrieval.cards.ModelCard`.
        max_length: in word pieces, 0 for the checkpoint's own.
        number_format: in which numbers weights are stored.
        trust_remote_code: let Python code that comes with the checkpoint run.
        engine: what runs the network; "openvino" is for pooling "" only.
        mark: its state, see :func:`berdslib.data.fetching.checkpoint_mark`: another state is another model, and of a
            model on the hub this commit is loaded.

    Raises:
        MissingDataError: the weights are neither on this machine nor reachable, or a package is not installed.
        InputError: some weights are missing in the checkpoint, or it compares vectors in a way that is not done here.
    """
    quiet_loading()
    revision = mark[1:] if mark.startswith("@") else "main"
    if engine == "openvino":
        from berdslib.retrieval.openvino import openvino_vectors, require_openvino

        require_openvino(number_format)
        model = load_sentence_transformer(
            checkpoint, max_length, device="cpu", trust_remote_code=trust_remote_code, revision=revision
        )
        return _as_its_files_say(model, openvino_vectors(model, number_format))
    if pooling in ("", "after prefix"):
        model = load_sentence_transformer(
            checkpoint, max_length, number_format, trust_remote_code=trust_remote_code, revision=revision
        )
        return _as_its_files_say(model, _sentence_transformer(model, pooling))
    if pooling == "latent attention":
        from berdslib.retrieval.nv_embed import nv_embed_vectors

        return Checkpoint(nv_embed_vectors(checkpoint, max_length, number_format, revision))
    return Checkpoint(_transformer(checkpoint, pooling, max_length, number_format, revision))


def _as_its_files_say(model: Any, vectors_of: VectorsOf) -> Checkpoint:
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
    from sentence_transformers import SentenceTransformer

    packaged = checkpoint.startswith("package:")
    where = package_folder(checkpoint.removeprefix("package:")) if packaged else checkpoint
    options = _number_options(number_format)

    def load(local: bool) -> Any:
        return SentenceTransformer(
            where,
            device=device,
            local_files_only=local,
            trust_remote_code=trust_remote_code,
            model_kwargs=dict(options),
            revision=revision,
        )

    with _noting_lacks() as lacking, _layers_named(where):
        model = load_model(where, load)
    _need_weights(where, lacking, unread=("pooler.",))  # what it pools is the last layer
    if any(hasattr(part, "sub_modules") for part in model):
        raise InputError(f"{where} has parts of their own for questions and passages (a Router); not done here")
    if max_length:
        model.max_seq_length = max_length
    return model


@contextmanager
def _noting_lacks() -> Iterator[set[str]]:
    """Collect the names of the weights that transformers does not find; sentence-transformers has no way to ask."""
    from transformers import PreTrainedModel

    lacking: set[str] = set()
    own = PreTrainedModel.__dict__["from_pretrained"]
    here = get_ident()

    def noting(cls: Any, *args: Any, **options: Any) -> Any:
        if get_ident() != here:  # another thread loads what is none of ours
            return own.__func__(cls, *args, **options)
        model, report = own.__func__(cls, *args, **options | _REPORT)
        lacking.update(_lacks(report))
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


def _lacks(report: dict[str, Any]) -> set[str]:
    """Return the names of the weights that are not in the checkpoint, or in another shape: those that are random."""
    return set(report["missing_keys"]) | {name for name, *_ in report["mismatched_keys"]}


def _need_weights(checkpoint: str, missing: Iterable[str], unread: tuple[str, ...]) -> None:
    lacking = sorted(key for key in missing if not key.startswith(unread))
    if lacking:
        raise InputError(
            f"{checkpoint} lacks weights that this use of it needs, in their shape ({_few(lacking)}); "
            "they would be random"
        )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


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


def load_weights(
    kind: Any,
    checkpoint: str,
    number_format: str = "float32",
    *,
    unread: tuple[str, ...] = (),
    exactly: bool = False,
    **options: Any,
) -> Any:
    """Load a transformers model, ready to use, on the GPU if there is one.

    Args:
        kind: the class, such as AutoModel.
        checkpoint: id or folder.
        number_format: see :class:`berdslib.retrieval.cards.ModelCard`.
        unread: beginnings of names of weights that are not used, and so may be missing.
        exactly: take no weights that the network has no place for either.
        options: passed to ``from_pretrained``.

    Raises:
        MissingDataError: neither here nor reachable.
        InputError: the checkpoint lacks weights that would be used, or has them in another shape than its config says,
            and the library would take random ones; or (where `exactly`) it has weights that have no place.
    """
    options |= _number_options(number_format) | _REPORT

    def load(local: bool) -> tuple[Any, dict[str, Any]]:
        loaded: tuple[Any, dict[str, Any]] = kind.from_pretrained(checkpoint, local_files_only=local, **options)
        return loaded

    model, report = load_model(checkpoint, load)
    _need_weights(checkpoint, _lacks(report), unread)
    if exactly and report["unexpected_keys"]:
        unknown = _few(sorted(report["unexpected_keys"]))
        raise InputError(f"{checkpoint} has weights that this network has no place for ({unknown})")
    return model.eval() if number_format == "4bit" else model.to(_device()).eval()


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _number_options(number_format: str) -> dict[str, Any]:
    """Return what ``from_pretrained`` has to be told; weights stay in float32 unless they are stored in 4 bits."""
    import torch

    if number_format != "4bit":
        return {"dtype": torch.float32}
    from transformers import BitsAndBytesConfig

    dtype = torch.bfloat16 if _device() == "cuda" and torch.cuda.is_bf16_supported() else torch.float32
    quantised = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)
    return {"dtype": dtype, "device_map": _device(), "quantization_config": quantised}


def arithmetic(number_format: str) -> AbstractContextManager[Any]:
    """Return a context in which torch multiplies in the number format."""
    if number_format != "bfloat16":
        return nullcontext()
    import torch

    return torch.autocast(_device(), dtype=torch.bfloat16)


def require_arithmetic(number_format: str, engine: str) -> None:
    """Check that the processor multiplies in the number format.

    Raises:
        InputError: bfloat16 on a CPU that has none in hardware, where it would be slower than float32.
    """
    if number_format == "bfloat16" and (engine == "openvino" or _device() == "cpu") and not has_bf16():
        raise InputError(
            "this CPU has no bfloat16 in hardware, and encoding in it would be slower than in float32; take "
            "number_format='float32', or 'int8', which is fast on most CPUs (pip install 'berdslib[openvino]')"
        )


def length_batches(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Yield row numbers, at most `size` together, of like length, the longest first: too big fails at once.

    >>> list(length_batches([3, 9, 4], 2))
    [[1, 2], [0]]
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    for start in range(0, len(order), size):
        yield order[start : start + size]


def token_batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Yield row numbers, the longest first, at most `tokens` together after padding, or one text that is longer.

    >>> list(token_batches([3, 9, 4, 2], 8))
    [[1], [2, 0], [3]]
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    start = 0
    while start < len(order):
        stop = start + max(1, tokens // max(1, lengths[order[start]]))
        yield order[start:stop]
        start = stop


def read_tokenizer(kind: Any, checkpoint: str, local: bool) -> Any:
    """Read a tokenizer, which may be a SentencePiece file.

    Args:
        kind: the class, such as AutoTokenizer.
        checkpoint: id or folder.
        local: only from this machine.

    Raises:
        MissingDataError: the packages that read such a file are not installed.
    """
    try:
        return kind.from_pretrained(checkpoint, local_files_only=local)
    except ValueError as error:
        # What transformers says of a SentencePiece file (spiece.model) that it lacks the packages for.
        if "tiktoken" not in str(error):
            raise
        raise MissingDataError(
            f"the tokenizer of {checkpoint!r} is a SentencePiece file, which takes two packages more: "
            "pip install 'berdslib[sentencepiece]' (sentencepiece and protobuf)"
        ) from error


def quiet_loading() -> None:
    """Tell transformers that a missing 4-bit kernel, or a bar for 0.1 s of reading, is no news to the user."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    from transformers.utils import logging as messages

    messages.disable_progress_bar()
    messages.set_verbosity_error()


def package_folder(package: str) -> str:
    """Return the folder of a model inside a Python package.

    Raises:
        MissingDataError: the package is not installed.
    """
    import importlib.util

    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingDataError(
            f"the weights are in the Python package {package}; pip install {package.replace('_', '-')}"
        )
    return str(Path(spec.origin).parent / "model")
