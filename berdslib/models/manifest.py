"""The manifest of a folder of vectors, or of an index: a small file that describes the vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berdslib.errors import InputError
from berdslib.files import atomic_path

MANIFEST_FILE = "manifest.json"
_FORMAT = 1  # raise it with every change of the format


def check_manifest(folder: Path, wanted: Mapping[str, Any]) -> None:
    """Raise InputError for a folder with another manifest than `wanted`; an empty folder gets this manifest."""
    if not (folder / MANIFEST_FILE).exists():
        if any(entry.name != ".lock" and not entry.name.startswith(f".{MANIFEST_FILE}.") for entry in folder.iterdir()):
            raise InputError("has other content; choose an empty or a new folder", path=folder)
        write_manifest(folder, wanted)
    check_about(read_folder_manifest(folder), wanted, folder)


def check_about(about: Mapping[str, Any], wanted: Mapping[str, Any], folder: Path | None = None) -> None:
    """Raise InputError if the description of vectors is not the wanted one."""
    found = {name: about.get(name) for name in wanted}
    if found != wanted:
        problem = f"holds vectors of {found}, not of {wanted}; choose another folder, or delete this one"
        raise InputError(problem, path=folder) if folder else InputError(problem, field="index")


def read_folder_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a folder."""
    path = folder / MANIFEST_FILE
    try:
        about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        written = about.pop("format")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"is not a manifest of vectors ({type(error).__name__}); delete its folder and build it again"
        raise InputError(problem, path=path) from None
    if written != _FORMAT:
        raise InputError(f"has format {written} instead of {_FORMAT}; build its folder again", path=path)
    return about


def write_manifest(folder: Path, about: Mapping[str, Any]) -> None:
    """Write the manifest of a folder."""
    with atomic_path(folder / MANIFEST_FILE) as unfinished:
        unfinished.write_text(json.dumps({"format": _FORMAT, **about}, indent=1), encoding="utf-8")
