"""Files: reading lines (UTF-8, plain or gzip), atomic writing, and rows in SQLite."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import logging
import os
import re
import shutil
import sqlite3
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeVar

from berdslib.errors import InputError

logger = logging.getLogger(__name__)

StrPath = str | Path
Done = TypeVar("Done")

_PATIENCE = 20.0  # seconds of waiting for another process's lock before a warning
_WAITS = 180  # periods of this length before the wait fails
_LONGEST_STEM = 50  # characters of a file's name that its hidden temporary name repeats
# The start of a spreadsheet formula, possibly guarded already; untrusted texts may begin so.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
# Errors of writes to a full or failing disk, which name no file.
_PLACE_IS_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG}
# SQLite's errors for a file that is not a database, not ours, or damaged.
_NOT_OURS = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT}


def read_lines(path: StrPath) -> Iterator[tuple[int, str]]:
    """Yield (line number, line with its end) of a UTF-8 file, plain or gzip-compressed (by its first bytes)."""
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
        raise InputError("is a directory; expected a file", path=path) from None
    except PermissionError:
        raise InputError("no permission to read it", path=path) from None
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text ({error.reason} at byte {error.start} of the line)"
        raise InputError(problem, path=path, line=line) from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InputError(f"damaged gzip file, readable up to line {line}: {error}", path=path) from None


def say_once(path: StrPath, message: str) -> None:
    """Log a message about a file or a frame once, even if it is read several times."""
    _say(str(path), message, str(Path(path).absolute()))


@cache
def _say(path: str, message: str, _place: str) -> None:
    logger.warning("%s: %s", path, message)


def guarded(cell: str) -> str:
    """Return a cell with a leading ' if a spreadsheet would read it as a formula.

    >>> guarded("=1+1"), unguarded(guarded("=1+1")), guarded("1+1")
    ("'=1+1", '=1+1', '1+1')
    """
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unguarded(cell: str) -> str:
    """Return a cell without the ' of :func:`guarded`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _unfinished_prefix(path: Path) -> str:
    """Return the prefix of the hidden names that :func:`atomic_path` writes to before `path` is complete."""
    name = path.name
    if len(name) > _LONGEST_STEM:  # a hash distinguishes long names with equal beginnings
        name = f"{name[: _LONGEST_STEM - 9]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"
    return f".{name}."


def left_unfinished(path: Path) -> list[Path]:
    """Return the folders that killed writers of `path` left behind under names of :func:`atomic_path`."""
    made = re.compile(re.escape(_unfinished_prefix(path)) + r"[0-9a-f]{32}(\.old)?")
    folders = (place for place in path.parent.iterdir() if place.is_dir() and not place.is_symlink())
    return [folder for folder in folders if made.fullmatch(folder.name)]


@contextmanager
def atomic_path(path: Path, marker: str | None = None) -> Iterator[Path]:
    """Yield a hidden path beside `path` to write to, which is renamed to `path` if the block ends without an error.

    `marker` is a file in every folder of this kind: other folders are replaced only if empty. None for a file.
    """
    path = Path(os.path.realpath(path))  # a link stays a link
    if path.is_dir():
        _check_replaceable(path, marker)
    unfinished = path.with_name(f"{_unfinished_prefix(path)}{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        _put_in_place(unfinished, path)
    except BaseException as error:
        shutil.rmtree(unfinished, ignore_errors=True)  # Windows cannot delete open files; the first error matters more
        with suppress(OSError):
            unfinished.unlink()
        if isinstance(error, OSError) and _is_about(error, path, unfinished):
            raise _unwritable(path, error) from None
        raise


def _check_replaceable(folder: Path, marker: str | None) -> None:
    if marker is None:
        raise InputError("is a directory; expected a file path", path=folder)
    if not (folder / marker).is_file() and any(folder.iterdir()):
        raise InputError("has other content; it is not replaced", path=folder)


def _put_in_place(unfinished: Path, path: Path) -> None:
    if not path.is_dir():
        os.replace(unfinished, path)
        return
    _check_own(path, unfinished)
    # Two folders cannot be exchanged in one step: for a moment neither exists under this name.
    old = path.rename(f"{unfinished}.old")
    try:
        os.replace(unfinished, path)
    except BaseException:
        os.replace(old, path)
        raise
    shutil.rmtree(old)


def _check_own(folder: Path, successor: Path) -> None:
    """Refuse to replace a folder with files that its successor lacks: they are foreign."""
    others = sorted({file.name for file in folder.iterdir()} - {file.name for file in successor.iterdir()})
    if others:
        raise InputError(f"holds {others[0]!r} besides its own files; it is not replaced", path=folder)


def _is_about(error: OSError, path: Path, unfinished: Path) -> bool:
    """Return whether an error is about writing here; the block may also fail to read another file."""
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
    """Write a UTF-8 text file (compressed if it ends in .gz) atomically.

    A pipe or /dev/stdout is written directly; a BrokenPipeError means that its reader has exited. A link stays a link.
    """
    path = Path(path)
    zipped = path.suffix == ".gz"
    if path.exists() and not path.is_file():
        with _written_directly(path) as raw, _as_text(raw, zipped) as text:
            yield text
    else:
        with atomic_path(path) as unfinished, open(unfinished, "wb") as raw, _as_text(raw, zipped) as text:
            yield text


@contextmanager
def _written_directly(path: Path) -> Iterator[BinaryIO]:
    try:
        with open(path, "wb") as raw:
            yield raw
    except OSError as error:  # not BrokenPipeError: the reader has stopped early, as `head` does
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
    """Turn an error about a store, or its lock, into an InputError with file and reason.

    >>> with store_errors(Path("v.sqlite"), "a verdict store"):
    ...     raise sqlite3.DatabaseError("file is not a database")
    Traceback (most recent call last):
    berdslib.errors.InputError: v.sqlite: cannot be used as a verdict store: file is not a database
    """
    try:
        yield
    except OSError as error:
        if not _is_about(error, path, path.parent):
            raise
        raise InputError(f"cannot be used as {what}: {error.strerror or error}", path=path) from None
    except sqlite3.Error as error:
        known = getattr(error, "sqlite_errorcode", 0) & 0xFF not in _NOT_OURS
        hint = "" if known else ". If it was one, it is damaged: move it away to start a new one"
        raise InputError(f"cannot be used as {what}: {error}{hint}", path=path) from None


class Rows:
    """Key → value (bytes, or a probability) in a table of an SQLite file, which is created if missing."""

    def __init__(self, path: Path, what: str, name: str, value: str, options: str = "") -> None:
        self.path = path
        self._what = what
        self._name = name
        self._value = value.partition(" ")[0]
        self._create = f"CREATE TABLE IF NOT EXISTS {name} (key BLOB PRIMARY KEY, {value} NOT NULL) {options}"

    def do(self, work: Callable[[sqlite3.Connection], Done]) -> Done:
        """Return the result of `work` on the open file."""
        with store_errors(self.path, self._what), self._opened() as table:
            return work(table)

    def find(self, table: sqlite3.Connection, keys: Iterable[bytes]) -> dict[bytes, Any]:
        """Return key → value for the stored keys."""
        found: dict[bytes, Any] = {}
        wanted = list(dict.fromkeys(keys))
        for start in range(0, len(wanted), 900):  # SQLite allows 999 parameters everywhere
            part = wanted[start : start + 900]
            marks = ",".join("?" * len(part))
            query = f"SELECT key, {self._value} FROM {self._name} WHERE key IN ({marks})"
            found.update(table.execute(query, part).fetchall())
        return found

    def add(self, table: sqlite3.Connection, rows: Iterable[tuple[bytes, bytes | float]]) -> None:
        """Add new rows."""
        table.executemany(f"INSERT INTO {self._name} (key, {self._value}) VALUES (?, ?)", rows)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_symlink() and not self.path.exists():
            raise InputError(f"is a broken link, so {self._what} is not created; remove it", path=self.path)
        # SQLite creates files without write permission for the group, under any umask.
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o666))
        with closing(sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)) as table:
            if not table.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [self._name]).fetchone():
                with write_transaction(table):
                    table.execute(self._create)
            yield table


@contextmanager
def write_transaction(table: sqlite3.Connection, turn: AbstractContextManager[Any] | None = None) -> Iterator[None]:
    """Commit all changes of the block, or none; a process holds the lock `turn` while it waits to write."""
    with turn or nullcontext():
        _begin(table)
    try:
        yield
        table.execute("COMMIT")
    except BaseException:
        if table.in_transaction:  # SQLite itself may have rolled back, such as on a full disk
            table.execute("ROLLBACK")
        raise


def _begin(table: sqlite3.Connection) -> None:
    """Take the write lock of a file; another process may hold it while encoding a chunk, hence the long wait."""
    for waits_left in reversed(range(_WAITS)):
        try:
            table.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or not waits_left:
                raise
        path = table.execute("PRAGMA database_list").fetchone()[2]
        say_once(path, "another process is writing to this file; this one waits for it")
