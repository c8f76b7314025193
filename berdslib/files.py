"""Files: reading lines (UTF-8, plain or gzip), writing whole or not at all, and many keys in SQLite."""

from __future__ import annotations

import errno
import gzip
import io
import os
import shutil
import sqlite3
import uuid
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from berdslib.errors import InputError

StrPath = str | Path

# What the system says of a write, without a file's name, when the place takes nothing more.
_PLACE_IS_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG}


def read_lines(path: StrPath) -> Iterator[tuple[int, str]]:
    """Yield (line number, line with its end) of a UTF-8 file, gzip-compressed or not (told by its first bytes)."""
    line = 0
    try:
        with open(path, "rb") as raw:
            zipped = raw.peek(2)[:2] == b"\x1f\x8b"
            binary = io.BufferedReader(gzip.GzipFile(fileobj=raw)) if zipped else raw
            for line, coded in enumerate(binary, start=1):
                text = coded.decode("utf-8-sig" if line == 1 else "utf-8")
                if "\0" in text:
                    raise InputError("holds a null byte; UTF-8 text is needed", path=path, line=line)
                yield line, text
    except FileNotFoundError:
        raise InputError("no such file", path=path) from None
    except IsADirectoryError:
        raise InputError("is a folder; a file is needed here", path=path) from None
    except PermissionError:
        raise InputError("no permission to read it", path=path) from None
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text ({error.reason} at byte {error.start} of the line)"
        raise InputError(problem, path=path, line=line) from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InputError(f"damaged gzip file, readable up to line {line}: {error}", path=path) from None


def unfinished_names(path: Path) -> str:
    """Return what the hidden names that :func:`atomic_path` writes to, before `path` is complete, begin with."""
    return f".{path.name[:50]}."


@contextmanager
def atomic_path(path: Path, marker: str | None = None) -> Iterator[Path]:
    """Yield a hidden name beside `path` to write to; it gets its own name only when the block ends without an error.

    `marker` is a file that a folder of this kind holds: of other folders only an empty one is replaced. None for a
    file.
    """
    path = Path(os.path.realpath(path))  # a link stays a link
    if path.is_dir():
        _check_replaceable(path, marker)
    unfinished = path.with_name(f"{unfinished_names(path)}{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        _put_in_place(unfinished, path)
    except BaseException as error:
        shutil.rmtree(unfinished, ignore_errors=True)  # Windows deletes nothing that is open: the error is what counts
        with suppress(OSError):
            unfinished.unlink()
        if isinstance(error, OSError) and _is_about(error, path, unfinished):
            raise _unwritable(path, error) from None
        raise


def _check_replaceable(folder: Path, marker: str | None) -> None:
    if marker is None:
        raise InputError("is a folder; a file is to be written here", path=folder)
    if not (folder / marker).is_file() and any(folder.iterdir()):
        raise InputError("has other content; it is not replaced", path=folder)


def _put_in_place(unfinished: Path, path: Path) -> None:
    if not path.is_dir():
        os.replace(unfinished, path)
        return
    _check_own(path, unfinished)
    # There is no folder for a moment: two cannot be exchanged in one step.
    old = path.rename(f"{unfinished}.old")
    try:
        os.replace(unfinished, path)
    except BaseException:
        os.replace(old, path)
        raise
    shutil.rmtree(old)


def _check_own(folder: Path, successor: Path) -> None:
    """Refuse to replace a folder that holds what its successor does not: somebody else put it there."""
    others = sorted({file.name for file in folder.iterdir()} - {file.name for file in successor.iterdir()})
    if others:
        raise InputError(f"holds {others[0]!r} beside files of its own; it is not replaced", path=folder)


def _is_about(error: OSError, path: Path, unfinished: Path) -> bool:
    """Say whether an error is about writing here; the block may also have failed to read something else."""
    if error.filename is None:
        return error.errno in _PLACE_IS_FULL
    if isinstance(error.filename, int):  # an open file
        return False
    name = Path(os.fsdecode(error.filename))
    return name in (path, *path.parents) or name.is_relative_to(unfinished)


def _unwritable(path: Path, error: OSError) -> InputError:
    reason = "its folder is a file" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
    return InputError(f"cannot be written: {reason or error}", path=path)


@contextmanager
def write_text(path: StrPath) -> Iterator[TextIO]:
    """Write a UTF-8 text file (compressed if it ends in .gz) that appears under its name only when complete.

    A pipe or /dev/stdout is written to directly; a BrokenPipeError says that whoever read it has gone. A link stays a
    link.
    """
    path = Path(path)
    zipped = path.suffix == ".gz"
    try:
        if path.exists() and not path.is_file():
            with _written_directly(path) as raw, _as_text(raw, zipped) as text:
                yield text
        else:
            with atomic_path(path) as unfinished, open(unfinished, "wb") as raw, _as_text(raw, zipped) as text:
                yield text
    except UnicodeEncodeError:
        raise InputError("cannot be written: a text holds half of a surrogate pair (\\ud…)", path=path) from None


@contextmanager
def _written_directly(path: Path) -> Iterator[BinaryIO]:
    try:
        with open(path, "wb") as raw:
            yield raw
    except OSError as error:  # not BrokenPipeError: a reader that has seen enough, such as `head`
        if _is_about(error, path, path):
            raise _unwritable(path, error) from None
        raise


@contextmanager
def _as_text(raw: BinaryIO, zipped: bool) -> Iterator[TextIO]:
    binary: Any = gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) if zipped else raw
    with io.TextIOWrapper(binary, encoding="utf-8", newline="\n") as text:
        yield text


@contextmanager
def store_errors(path: Path, what: str) -> Iterator[None]:
    """Turn SQLite's error about a file that it cannot use into an InputError that says what it should be.

    >>> with store_errors(Path("v.sqlite"), "a verdict store"):
    ...     raise sqlite3.DatabaseError("file is not a database")
    Traceback (most recent call last):
    berdslib.errors.InputError: v.sqlite: cannot be used as a verdict store: file is not a database
    """
    try:
        yield
    except (sqlite3.Error, NotADirectoryError, FileExistsError, PermissionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot be used as {what}: {reason}", path=path) from None


def rows_by_key(table: sqlite3.Connection, query: str, keys: Sequence[bytes]) -> dict[bytes, Any]:
    """Return key → value for those keys that a query finds, such as "SELECT key, at FROM row WHERE key IN"."""
    found: dict[bytes, Any] = {}
    for start in range(0, len(keys), 900):  # SQLite allows 999 parameters everywhere
        part = list(keys[start : start + 900])
        found.update(table.execute(f"{query} ({','.join('?' * len(part))})", part).fetchall())
    return found
