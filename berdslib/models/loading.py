"""Loading models: from this machine or the hub, with all their weights, on the right device, in the right numbers."""

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
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from berdslib.data.fetch import require_hub
from berdslib.errors import BerdsError, InputError, MissingDataError, known
from berdslib.models.cards import CARDS, ENGINES, FASTEST, ModelCard
from berdslib.models.packaged import PACKAGED, install_command, located, unpacked

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

# Held while a model is loaded: two threads that import transformers for the first time at once can both fail.
LOADING = threading.RLock()
# Asks transformers for what a checkpoint lacks; otherwise it only logs that.
REPORT = {"output_loading_info": True, "ignore_mismatched_sizes": True}
# Left unsaid, transformers asks on standard input whether a checkpoint's own code may run.
NO_CODE: dict[str, Any] = {"trust_remote_code": False}

BATCH = 32  # texts in a forward pass

_Model = TypeVar("_Model")


# ---------------------------------------------------------------- where a model is, and which state of it


def load_model(checkpoint: str, load: Callable[[bool], _Model]) -> _Model:
    """Load a model from the files of this machine, or else through the hub.

    Args:
        checkpoint: a folder, or an id on the hub; for the messages.
        load: loads the model; its argument says whether only local files may be used. A BerdsError of it stays.

    Raises:
        MissingDataError: it is neither here nor reachable, or needs a package; the reason is given.
        InputError: its folder is here and cannot be loaded, or its files are damaged.
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
                raise InputError("needs Python code of its own, which is never run here", path=checkpoint) from error
            cause, reason = error, _first_line(error) or reason
        # What the libraries raise for damaged files is of every kind: SafetensorError, UnpicklingError, KeyError, …
        except Exception as error:
            problem = f"cannot be loaded; a file of it may be damaged ({type(error).__name__}: {_first_line(error)})"
            raise InputError(problem, path=checkpoint) from error
        if Path(checkpoint).is_dir():
            raise InputError(f"cannot be loaded: {reason}", path=checkpoint) from cause
    packaged = [f"\nor:  {install_command(m)}" for m in PACKAGED.values() if m.checkpoint == checkpoint]
    raise MissingDataError(
        f"model {checkpoint!r} is neither on this machine (Hugging Face cache or folder) nor reachable ({reason}). "
        f"With a network, fetch it once with:  hf download {checkpoint}{''.join(packaged)}"
    ) from cause


def _require_hub(checkpoint: str) -> None:
    """Raise OSError where the hub cannot be reached, as reading from it would, but at once."""
    try:
        require_hub(checkpoint)
    except MissingDataError as error:
        raise OSError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    """Return the first line of a message; with the next one where it ends in a colon, as torch's do."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    wanted = 2 if lines and lines[0].endswith(":") else 1
    return " ".join(lines[:wanted])


def checkpoint_mark(checkpoint: str) -> str:
    """Return what tells the state of a model: its folder's mark, or "@" and the commit of a model on the hub.

    The commit is that of the hub's cache on this machine, which is what would be loaded; where the model is not there
    yet, the hub is asked. "" where neither knows it, and for what is no model. A model of a package is one for good.
    """
    from huggingface_hub import snapshot_download

    if not checkpoint:  # as a path it would be the current folder
        return ""
    if checkpoint in PACKAGED:
        return f"@{PACKAGED[checkpoint].volumes[0][:8]}"
    if checkpoint.startswith("package:") or Path(checkpoint).is_dir():
        base = _base_of(Path(checkpoint))
        return folder_mark(checkpoint) + (folder_mark(base) or checkpoint_mark(base))
    for local in (True, False):
        with suppress(OSError, ValueError):  # loading it will say why
            if not local:
                _require_hub(checkpoint)
            return "@" + Path(snapshot_download(checkpoint, allow_patterns="config.json", local_files_only=local)).name
    return ""


def _base_of(folder: Path) -> str:
    """Return the model that the adapter in a folder is for; "" without an adapter, or with unreadable settings."""
    with suppress(OSError, ValueError):
        settings = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        if isinstance(settings, dict) and isinstance(base := settings.get("base_model_name_or_path"), str):
            return base
    return ""


def folder_mark(checkpoint: str) -> str:
    """Return what tells the state of a model's folder: "#" and eight hex digits, or "" where it is no folder.

    Made of names, sizes and contents of its files, so that a model that was trained anew in the same place is another
    one to every cache, and a copy is not.
    """
    folder = Path(checkpoint)
    if not checkpoint or not folder.is_dir():
        return ""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    state = [(str(p.relative_to(folder)), p.stat().st_size, _crc(p.resolve(), *_state(p))) for p in files]
    return "#" + hashlib.sha256(repr(state).encode()).hexdigest()[:8]


def _state(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


@cache
def _crc(path: Path, *_state: int) -> int:
    """Return the checksum of a file, read once while its state is the same."""
    crc = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 24):
            crc = zlib.crc32(block, crc)
    return crc


def package_folder(package: str) -> str:
    """Return the folder of a model inside a Python package, or in several (:mod:`berdslib.models.packaged`).

    A model in several packages of which none is installed is named by its id on the hub, where the same files are.
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
        exactly: take no weights that the network has no place for either.
        options: passed to ``from_pretrained``; a ``dtype`` goes before that of the number format.
    """
    checkpoint = located(checkpoint)

    def load(local: bool) -> Any:
        if adapter := _adapter_config(checkpoint, local, options.get("revision")):
            return adapter, {}
        numbers = number_options(number_format)
        return kind.from_pretrained(checkpoint, local_files_only=local, **numbers | options | REPORT | NO_CODE)

    model, report = load_model(checkpoint, load)
    if isinstance(model, Path):
        base = read_adapter(model)
        # The adapter may bring its own head, so the base's may be missing.
        head = tuple(base.modules_to_save or ())
        named = base.base_model_name_or_path
        options.pop("revision", None)  # of the adapter
        beside = load_weights(kind, named, number_format, unread=(*unread, *head), exactly=exactly, **options)
        return with_adapter(beside, model.parent, named, merge=number_format != "4bit")
    require_weights(checkpoint, report, unread, exactly=exactly)
    store_as_multiplied(model, number_format)
    return model.eval() if number_format == "4bit" else model.to(device()).eval()


def require_weights(
    checkpoint: str, report: dict[str, Any], unread: tuple[str, ...] = (), *, exactly: bool = False
) -> None:
    """Raise InputError for weights that are missing, or have another shape than the config says: they would be random.

    The report is what transformers says, see ``REPORT``; weights whose names begin with one of `unread` are not used.
    `exactly` is as :func:`load_weights` takes it.
    """
    missing = {*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])}
    if lacking := [name for name in missing if not name.startswith(unread)]:
        problem = f"lacks weights that this use of it needs, in their shape ({_few(lacking)}); they would be random"
        raise InputError(f"{checkpoint} {problem}")
    if exactly and report["unexpected_keys"]:
        unknown = _few(report["unexpected_keys"])
        raise InputError(f"{checkpoint} has weights that this network has no place for ({unknown})")


def _few(names: Iterable[str]) -> str:
    first, more = sorted(names)[:3], sorted(names)[3:]
    return ", ".join(first) + (", …" if more else "")


def read_tokenizer(kind: Any, checkpoint: str, local: bool) -> Any:
    """Read a tokenizer of a class such as AutoTokenizer; MissingDataError where packages for its file are missing."""
    try:
        return kind.from_pretrained(located(checkpoint), local_files_only=local, **NO_CODE)
    except ValueError as error:
        # What transformers says of a SentencePiece file (spiece.model) that it lacks the packages for.
        if "tiktoken" not in str(error) or not _has_sentencepiece(checkpoint):
            raise
        raise MissingDataError(
            f"the tokenizer of {checkpoint!r} is a SentencePiece file, which needs two more packages: "
            "pip install 'berdslib[sentencepiece]' (sentencepiece and protobuf)"
        ) from error


def _has_sentencepiece(checkpoint: str) -> bool:
    """Say whether there is such a file; transformers speaks of its packages also where there is no tokenizer at all."""
    with suppress(OSError, ValueError):
        return any(local_folder(checkpoint).glob("*.model"))
    return False


def local_folder(checkpoint: str, revision: str = "main") -> Path:
    """Return the folder of a model that is on this machine: itself, or that of its commit in the hub's cache."""
    from huggingface_hub import snapshot_download

    if Path(checkpoint).is_dir():
        return Path(checkpoint)
    return Path(snapshot_download(checkpoint, revision=revision, local_files_only=True))


# ---------------------------------------------------------------- adapters


def _adapter_config(checkpoint: str, local: bool, revision: str | None) -> Path | None:
    """Return where the settings of an adapter are, or None where the checkpoint is a model."""
    from transformers.utils.peft_utils import find_adapter_config_file

    found = find_adapter_config_file(checkpoint, local_files_only=local, revision=revision)
    return Path(found) if found else None


def read_adapter(config: Path) -> Any:
    """Return the settings of an adapter, of peft's PeftConfig, whose file must name the model that it is for."""
    with quiet_loading():  # the import brings the news of missing kernels
        from peft import PeftConfig

    folder = config.parent
    settings = load_model(str(folder), lambda _: PeftConfig.from_pretrained(str(folder)))
    base = settings.base_model_name_or_path
    if not isinstance(base, str) or not base or Path(base).resolve() == folder.resolve():
        raise InputError("names no other model", path=config, field="base_model_name_or_path")
    if any(folder.glob("model*.safetensors")) or any(folder.glob("pytorch_model*.bin")):
        raise InputError("holds both a model and an adapter; keep them in two folders", path=folder)
    return settings


def with_adapter(model: Any, folder: Path, base: str, *, merge: bool) -> Any:
    """Return a model with a LoRA adapter, or another kind that peft adds to a model's layers, ready to use.

    Args:
        model: the model that it is added to, in place.
        folder: the adapter's.
        base: the name of the model, for the messages.
        merge: add the adapter to the weights, which makes the model as fast as without it.

    Raises:
        InputError: not all its weights have a place here in their shape, or it was trained with another model.
    """
    with quiet_loading():
        from peft import PeftConfig, get_peft_model

    def load(_: bool) -> Any:
        settings = PeftConfig.from_pretrained(str(folder))
        if settings.is_prompt_learning or settings.is_adaption_prompt:
            problem = f"{settings.peft_type.value} adds tokens; only adapters of layers, such as LORA, can be used here"
            raise InputError(problem, path=folder / "adapter_config.json", field="peft_type")
        _require_base(settings.base_model_name_or_path or "", base, folder)
        settings.inference_mode, settings.base_model_name_or_path = True, None  # or peft warns of another name
        with quiet_peft():
            adapted = get_peft_model(model, settings)
        return adapted, adapted.load_adapter(str(folder), "default")

    adapted, report = load_model(str(folder), load)
    wrong = [*report.missing_keys, *report.unexpected_keys]
    if wrong:
        problem = f"does not fit {base}: its settings and its weights do not have the same names there ({_few(wrong)})"
        raise InputError(f"{problem}; what is missing would be random, or nothing", path=folder)
    return (adapted.merge_and_unload() if merge else adapted).eval()


def _require_base(named: str, base: str, adapter: Path) -> None:
    """Raise InputError where an adapter was trained with other weights; warn where that cannot be known."""
    if named in ("", base, located(base)):
        return
    then, now = _weight_sums(named), _weight_sums(base)
    if then and now and then != now:
        problem = f"was trained with {named}, whose weights are not those of {base}"
        raise InputError(problem, path=adapter / "adapter_config.json", field="base_model_name_or_path")
    if not then or not now:
        logger.warning(
            "the adapter %s was trained with %s; whether %s is the same model is not known", adapter, named, base
        )


def _weight_sums(checkpoint: str) -> list[int]:
    """Return the checksums of the files with a model's weights, or [] where they are not on this machine."""
    with suppress(OSError, ValueError):
        return sorted(
            _crc(p.resolve(), *_state(p)) for p in local_folder(located(checkpoint)).glob("model*.safetensors")
        )
    return []


# ---------------------------------------------------------------- weights in memory


class WeightsMark:
    """Tells for an id which weights a model in memory has, since it can be trained, merged or quantised there.

    Args:
        model: a torch module.
        named: its weights are those of files that the id names already, so the mark is empty until they change.
    """

    def __init__(self, model: Any, *, named: bool) -> None:
        self._seen = _glance(model) if named else None
        self._mark = ""

    def of(self, model: Any) -> str:
        """Return "" or "~" and twelve hex digits, which differ where any weight does."""
        if (seen := _glance(model)) != self._seen:
            self._seen, self._mark = seen, f"~{weights_hash(model)[:12]}"
        return self._mark


def weights_hash(model: Any) -> str:
    """Return the SHA-256 of all weights of a torch module: names, number formats, shapes and values."""
    import torch

    read = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        read.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        read.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return read.hexdigest()


def _glance(model: Any) -> tuple[list[tuple[str, int]], bytes]:
    """Return what tells quickly whether weights were changed: how often torch wrote each, and 64 values of it.

    The values are for libraries that write past torch's count, as peft does when it merges an adapter.
    """
    import torch

    weights = model.state_dict()
    counts = [(name, 0 if one.is_inference() else one._version) for name, one in weights.items()]
    flat = (one.detach().reshape(-1) for one in weights.values())
    values = torch.cat([one[:: max(1, len(one) // 64)].double() for one in flat])
    return counts, values.cpu().numpy().tobytes()


# ---------------------------------------------------------------- what loading prints


@contextmanager
def quiet_peft() -> Iterator[None]:
    """Hide, while peft puts an adapter on a model, that it asks transformers by a name that will go."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        yield


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


def language_model_numbers() -> torch.dtype:
    """Return the number format of a language model's weights: bfloat16 on a GPU that knows it, else float32."""
    import torch

    return torch.bfloat16 if device() == "cuda" and torch.cuda.is_bf16_supported() else torch.float32


def number_format_mark(dtype: object) -> str:
    """Return what an id says of a number format: nothing of float32, else such as ",bfloat16"."""
    name = str(dtype).removeprefix("torch.")
    return "" if name == "float32" else f",{name}"


def number_options(number_format: str) -> dict[str, Any]:
    """Return what ``from_pretrained`` has to be told; weights stay in float32 unless they are stored in 4 bits."""
    import torch

    if number_format != "4bit":
        return {"dtype": torch.float32}
    from transformers import BitsAndBytesConfig

    dtype = language_model_numbers()
    quantised = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)
    return {"dtype": dtype, "device_map": device(), "quantization_config": quantised}


def store_as_multiplied(model: torch.nn.Module, number_format: str) -> None:
    """Store the weights of a model's products as :func:`arithmetic` would round them anew at every call.

    The vectors are the same, bit by bit, a single question takes less time, and weights take half of float32's memory.
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
    """Return the fastest number format that this processor has in hardware and whose vectors stay close to float32's.

    It is bfloat16 where the GPU, or without one the CPU, has it, else float32. Close is not equal: passages whose
    scores hardly differ change places, and in bfloat16 a vector depends on what shared a batch. So the variable
    BERDS_NUMBER_FORMAT, "float32" or "bfloat16", goes before all this, to make figures again that were made on another
    machine. ``engine`` "openvino" runs on the CPU, whatever else there is.
    """
    if chosen := os.environ.get("BERDS_NUMBER_FORMAT"):
        return known("BERDS_NUMBER_FORMAT", chosen, ("float32", "bfloat16"))
    if engine == "torch" and _may_have_gpu() and device() == "cuda":
        import torch

        # An older GPU only emulates bfloat16, which is slower than float32.
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        fast = has_bf16()
    return "bfloat16" if fast else "float32"


def engine_of(card: ModelCard) -> str:
    """Return what runs a network where no engine is named: BERDS_ENGINE, else the fastest.

    The variable, "torch" or "openvino", is for the shell, where a name is all that is said of an encoder. It holds for
    cards that OpenVINO can run here; the others keep torch. So does float32 that was asked for by name: figures of near
    ties were made with it.
    """
    if not card.for_openvino:
        return card.engine
    # The fastest is OpenVINO on a processor that multiplies in float32 for want of anything faster, where it is
    # installed, and for cards of the package: what another checkpoint is made of, it may not know.
    unnamed = card.number_format == FASTEST and not os.environ.get("BERDS_NUMBER_FORMAT") and card.name in CARDS
    slow = unnamed and "avx2" in cpu_flags() and not has_bf16() and not (_may_have_gpu() and device() == "cuda")
    return engine_by_environment("openvino" if slow and importlib.util.find_spec("openvino") else card.engine)


def engine_by_environment(default: str = "torch") -> str:
    """Return BERDS_ENGINE, or the default where it is not set."""
    return known("BERDS_ENGINE", os.environ.get("BERDS_ENGINE") or default, ENGINES)


def _may_have_gpu() -> bool:
    """Return whether it is worth asking torch for a GPU, whose import takes longer than reading kept vectors.

    On Linux, a GPU that torch can use has one of these files: of NVIDIA's driver, of AMD's, of Windows' (WSL).
    """
    return sys.platform != "linux" or any(Path("/dev", name).exists() for name in ("nvidiactl", "kfd", "dxg"))


def require_arithmetic(number_format: str, engine: str) -> None:
    """Raise InputError for bfloat16 on a CPU that has none in hardware, where it would be slower than float32."""
    if number_format == "bfloat16" and (engine == "openvino" or device() == "cpu") and not has_bf16():
        raise InputError("this CPU has no bfloat16 in hardware, so float32 is faster; use number_format='float32'")


@lru_cache(maxsize=1)
def has_bf16() -> bool:
    """Return whether this CPU multiplies bfloat16 in hardware; without it, bfloat16 is slower than float32.

    Either by amx_bf16 (tiles, the fastest) or avx512_bf16 (dot products of vectors).
    """
    return any(flag in cpu_flags() for flag in ("avx512_bf16", "amx_bf16"))


def cpu_flags() -> str:
    """Return what Linux says of the processor; "" elsewhere, where nothing is known."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""


# ---------------------------------------------------------------- batches


def length_batches(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Yield row numbers, at most `size` together, of like length, the longest first: too big fails at once.

    >>> list(length_batches([3, 9, 4], 2))
    [[1, 2], [0]]
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    for start in range(0, len(order), size):
        yield order[start : start + size]


def in_batches(
    tokenizer: Any, ids: Sequence[Sequence[int]], where: Any, vectors_of: Callable[[Any], torch.Tensor]
) -> np.ndarray:
    """Return float32 (n, d) of the word pieces of n texts, padded and passed on in batches of like length."""
    import torch

    found: dict[int, np.ndarray] = {}
    for rows in length_batches([len(one) for one in ids], BATCH):
        batch = tokenizer.pad({"input_ids": [ids[i] for i in rows]}, return_tensors="pt").to(where)
        with torch.inference_mode():
            vectors = vectors_of(batch)
        found.update(zip(rows, vectors.float().cpu().numpy(), strict=True))
    return np.stack([found[i] for i in range(len(ids))])


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


def padded(rows: Sequence[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and mask, padded on the left, so that what follows is read off the last column."""
    import torch

    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    return ids, mask
