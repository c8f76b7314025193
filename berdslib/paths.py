"""Locations: the checkout, files shipped with the package, the cache, local copies of other data sets."""

from __future__ import annotations

import logging
import os
import tomllib
from functools import lru_cache
from pathlib import Path

from berdslib.errors import InputError, MissingDataError

logger = logging.getLogger(__name__)

PACKAGE = Path(__file__).resolve().parent


def project_root() -> Path | None:
    """Return the checkout that BERDS_PROJECT names, else that of the package or of the current folder, or None.

    A checkout above the current folder must belong to this user, because its notebooks are executed.
    """
    chosen = os.environ.get("BERDS_PROJECT")
    if chosen:
        folder = _named_folder("BERDS_PROJECT", chosen).resolve()
        if not _is_checkout(folder):
            raise InputError(f"BERDS_PROJECT must name a checkout of berdslib, but {chosen!r} is not one")
        return folder
    installed = _checkout_above(PACKAGE)
    if installed is not None:
        return installed
    around = _checkout_above(Path.cwd())
    if around is None or _is_ours(around):
        return around
    logger.warning("%s belongs to another user and is not used; to trust it, set BERDS_PROJECT to it", around)
    return None


def _checkout_above(start: Path) -> Path | None:
    return next((folder for folder in (start, *start.parents) if _is_checkout(folder)), None)


def _is_ours(checkout: Path) -> bool:
    """Say whether a checkout and its notebooks belong to this user; always true on systems without owners."""
    if not hasattr(os, "getuid"):
        return True
    return {path.stat().st_uid for path in (checkout, checkout / "notebooks")} == {os.getuid()}


def shipped(name: str) -> Path:
    """Return data/NAME of the package's checkout, editable installs included, else the installed copy."""
    places = [PACKAGE / "_shipped" / name]
    if _is_checkout(PACKAGE.parent):
        places.insert(0, PACKAGE.parent / "data" / name)
    for place in places:
        if place.exists():
            return place
    looked = " and ".join(map(str, places))
    raise MissingDataError(f"{name!r} is missing from this installation (looked for {looked}); reinstall berdslib")


def cache_dir() -> Path:
    """Return the folder for downloads and computed data: BERDS_CACHE, else the user's cache. It may not exist yet."""
    chosen = os.environ.get("BERDS_CACHE")
    if chosen:
        folder = _named_folder("BERDS_CACHE", chosen)
        if folder.is_symlink() and not folder.exists():
            raise InputError(f"BERDS_CACHE must name a folder, but {chosen!r} is a broken link")
        return folder
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("berdslib"))


def local_data_dir() -> Path | None:
    """Return the folder with local data sets, BERDS_DATA, or None if the variable is not set."""
    chosen = os.environ.get("BERDS_DATA")
    if not chosen:
        return None
    folder = _named_folder("BERDS_DATA", chosen)
    if not folder.is_dir():
        raise InputError(f"BERDS_DATA must name a folder, but {chosen!r} is not one; correct or unset it")
    return folder


def _named_folder(variable: str, text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # ~nobody
        raise InputError(f"{variable} must name a folder, but there is no user for {text!r}") from None


def _is_checkout(folder: Path) -> bool:
    if not (folder / "notebooks").is_dir():
        return False
    try:
        return _is_of_berdslib((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no such file, not readable, not UTF-8, not TOML
        return False


@lru_cache(maxsize=8)  # a grid asks for each of its runs
def _is_of_berdslib(pyproject: str) -> bool:
    project = tomllib.loads(pyproject).get("project")
    return isinstance(project, dict) and project.get("name") == "berdslib"
