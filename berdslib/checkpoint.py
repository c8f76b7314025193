"""Checkpoints of models: which state of it is here, whether all its weights are, and the device and numbers to use."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berdslib.errors import InputError

if TYPE_CHECKING:
    import torch

# Asks transformers for what a checkpoint lacks; otherwise it only logs that.
REPORT = {"output_loading_info": True, "ignore_mismatched_sizes": True}


# ---------------------------------------------------------------- which state of it


def local_mark(checkpoint: str) -> str:
    """Return what tells the state of a model on this machine: its folder's mark, or "@" and its commit in the cache.

    The cache is that of the hub. "" where the model is not here, and for what is no model.
    """
    from huggingface_hub import snapshot_download

    if not checkpoint or checkpoint.startswith("package:") or Path(checkpoint).is_dir():
        return folder_mark(checkpoint)
    try:
        return "@" + Path(snapshot_download(checkpoint, allow_patterns="config.json", local_files_only=True)).name
    except (OSError, ValueError):  # loading it will say why
        return ""


def folder_mark(checkpoint: str) -> str:
    """Return what tells the state of a model's folder: "#" and eight hex digits, or "" where it is no folder.

    Made of names, sizes, times and both ends of its files, so that a model that was trained anew in the same place is
    another one to every cache.
    """
    folder = Path(checkpoint)
    if not checkpoint or not folder.is_dir():
        return ""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    state = [(str(p.relative_to(folder)), p.stat().st_size, p.stat().st_mtime_ns, _ends(p)) for p in files]
    return "#" + hashlib.sha256(repr(state).encode()).hexdigest()[:8]


def _ends(path: Path, size: int = 1 << 16) -> bytes:
    """Return the first and the last bytes of a file; copies can have equal sizes and times, and other weights."""
    with open(path, "rb") as file:
        first = file.read(size)
        file.seek(max(0, path.stat().st_size - size))
        return first + file.read(size)


# ---------------------------------------------------------------- all its weights


def missing_weights(report: dict[str, Any]) -> set[str]:
    """Return the names of the weights that are not in the checkpoint, or in another shape: those that are random."""
    return set(report["missing_keys"]) | {name for name, *_ in report["mismatched_keys"]}


def require_weights(checkpoint: str, missing: Iterable[str], unread: tuple[str, ...] = ()) -> None:
    """Check that no weights are missing but those whose names begin with one of `unread`.

    Raises:
        InputError: some are.
    """
    lacking = sorted(key for key in missing if not key.startswith(unread))
    if lacking:
        problem = f"lacks weights that this use of it needs, in their shape ({few(lacking)}); they would be random"
        raise InputError(f"{checkpoint} {problem}")


@contextmanager
def damage_named(checkpoint: str) -> Iterator[None]:
    """Turn what safetensors says of a damaged file into an InputError that names the checkpoint."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        raise InputError(f"its weights are damaged or cut short ({error})", path=checkpoint) from error


def few(names: Sequence[str]) -> str:
    """Return the first three names, for a message."""
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


# ---------------------------------------------------------------- device and numbers


def device() -> str:
    """Return "cuda" where there is a GPU, else "cpu"."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def language_model_numbers() -> torch.dtype:
    """Return the number format of a language model's weights: bfloat16 on a GPU that knows it, else float32."""
    import torch

    return torch.bfloat16 if device() == "cuda" and torch.cuda.is_bf16_supported() else torch.float32
