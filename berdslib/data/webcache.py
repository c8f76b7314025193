"""What the web answered, kept on the disk, so that an experiment can be run again later on the same web.

One file for each answer: gzip, a line of JSON about it, then its bytes. A file appears under its name only when
complete, so a killed process leaves nothing that could be read as an answer. Of two processes that keep the same
answer the first one wins, and both go on with that one.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import logging
import os
import tempfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from berdslib.errors import InputError
from berdslib.paths import cache_dir

logger = logging.getLogger(__name__)


class Kept(NamedTuple):
    """An answer: ``note`` about it, which can be written as JSON, and its ``body``."""

    note: dict[str, Any]
    body: bytes


def web_cache() -> Path:
    """Return the folder for answers of the web in the user's cache; it may not exist yet."""
    return cache_dir() / "web"


def cache_path(folder: Path, kind: str, *key: object) -> Path:
    """Return where an answer lies.

    Args:
        folder: the cache.
        kind: "page" or "search".
        key: what was asked for, as text and numbers.
    """
    name = hashlib.sha256(json.dumps(key, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()
    return folder / kind / name[:2] / f"{name}.gz"


def recall(path: Path) -> Kept | None:
    """Return what is kept there; None if nothing is, or if the file is damaged, which is logged as a warning."""
    try:
        with gzip.open(path, "rb") as file:
            note = json.loads(file.readline())
            if not isinstance(note, dict):
                raise ValueError("no note")
            return Kept(note, file.read())
    except FileNotFoundError:
        return None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        logger.warning("%s is damaged (%s); it counts as not there", path, error)
        return None


def keep(path: Path, kept: Kept, *, replace: bool = False) -> Kept:
    """Write an answer to the disk, and return what is there afterwards.

    Args:
        path: from :func:`cache_path`.
        kept: the answer.
        replace: also if another process has kept one meanwhile.

    Raises:
        InputError: the folder cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            with os.fdopen(handle, "wb") as raw:
                with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as file:
                    file.write(json.dumps(kept.note).encode() + b"\n" + kept.body)
                raw.flush()
                os.fsync(raw.fileno())
            # The lock only covers the look and the move, so one for the whole cache is enough.
            with FileLock(path.parent.parent / ".lock", thread_local=False):
                earlier = None if replace else recall(path)
                if earlier is None:
                    os.replace(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=error.filename or path) from None
    return earlier or kept
