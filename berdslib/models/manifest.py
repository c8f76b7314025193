"""What a folder of vectors, or of an index of them, says of itself: what they are of, and checksums of its files."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from berdslib.errors import InputError
from berdslib.files import atomic_path

MANIFEST = "manifest.json"
BLOCK = 1 << 24  # bytes that a checksum is of
_FORMAT = 1  # raised whenever what is written changes


def check_manifest(folder: Path, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return a folder's manifest, which a new one is given; a folder that holds anything else is an error."""
    if not (folder / MANIFEST).exists():
        if any(entry.name != ".lock" and not entry.name.startswith(".manifest.json.") for entry in folder.iterdir()):
            raise InputError("has other content; choose an empty or a new folder", path=folder)
        write_manifest(folder, wanted)
    found = read_manifest(folder)
    check_about({name: found.get(name) for name in wanted}, wanted, folder)
    return found


def check_about(about: Mapping[str, Any], wanted: Mapping[str, Any], folder: Path | None = None) -> None:
    """Raise InputError where vectors are not of what is wanted."""
    if about != wanted:
        problem = (
            f"holds vectors of {about}; asked for are those of {wanted}. Choose another folder, or delete this one"
        )
        raise InputError(problem, path=folder) if folder else InputError(problem, field="index")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return what stands in a folder's manifest."""
    path = folder / MANIFEST
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != _FORMAT:
            raise InputError(f"is of format {found['format']}, and {_FORMAT} is needed; make it again", path=path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"is no manifest of vectors ({type(error).__name__}); delete its folder, and make it again"
        raise InputError(problem, path=path) from None
    return found


def write_manifest(folder: Path, about: Mapping[str, Any], files: Mapping[str, Path] | None = None) -> None:
    """Write a folder's manifest, with the checksums of files, by the names that they have or will have in it."""
    sums = {name: list(_checksums(path)) for name, path in (files or {}).items()}
    with atomic_path(folder / MANIFEST) as unfinished:
        unfinished.write_text(json.dumps({"format": _FORMAT, **about, "files": sums}, indent=1), encoding="utf-8")


def damaged_blocks(path: Path, said: list[int]) -> list[int]:
    """Return which blocks of a file are not what was written."""
    return [i for i, (now, then) in enumerate(zip_longest(_checksums(path), said)) if now != then]


def check_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Raise InputError for a file that is missing, or not what was written."""
    for name, said in manifest.get("files", {}).items():
        if not (path := folder / name).is_file():
            raise InputError(f"holds no complete index: {name} is missing", path=folder)
        if bad := damaged_blocks(path, said):
            problem = f"is damaged: {len(bad)} of its {len(said)} blocks are not what was written"
            raise InputError(f"{problem}; delete its folder, and make it again", path=path)


def _checksums(path: Path) -> Iterator[int]:
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            yield zlib.crc32(block)
