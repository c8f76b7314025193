"""Files that grow line by line and survive being killed: at most the line that was being written is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from berdslib.errors import InputError

Said = TypeVar("Said")


def lines_of(path: Path, content: bytes, read: Callable[[str], Said], what: str) -> tuple[list[Said], bytes]:
    """Return what the lines of a file say, and what a killed process left of the last one.

    A last line that lacks only its end is one like the others. Only lines before it show that it is the rest of one:
    the file may be somebody else's.

    Args:
        path: for the error.
        content: of the file.
        read: what a line says; any error that comes of unexpected JSON is a line of another kind.
        what: what a line should be, for the error.

    Raises:
        InputError: another line.
    """
    # Not splitlines: a text in JSON may hold separators such as U+2028 as they are.
    *ended, last = content.split(b"\n")
    said: list[Said] = []
    for number, line in enumerate([*ended, last] if last else ended, start=1):
        try:
            said.append(read(line.decode("utf-8")))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            if said and number > len(ended):
                return said, last
            raise InputError(f"not {what}", path=path, line=number) from None
    return said, b""


def open_lines(path: Path, read: Callable[[str], Said], what: str) -> list[Said]:
    """Return what the lines of a file say, and make it ready for :func:`append_line`; args as :func:`lines_of`.

    Its folder is made, and a last line that was cut off is removed: the next would be glued to it.

    Raises:
        InputError: it cannot be opened, or holds something else, and is left as it is.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes() if path.exists() else b""
        said, rest = lines_of(path, content, read, f"{what}; name another file, or remove this one")
        if rest:
            os.truncate(path, len(content) - len(rest))
    except OSError as error:
        raise InputError(f"cannot be opened ({error.strerror or error})", path=path) from None
    if content and not rest and not content.endswith(b"\n"):
        append_line(path, "")
    return said


def append_line(path: Path, text: str) -> None:
    """Append a line; once this returns, no end of the process can lose it. One thread at a time.

    Raises:
        InputError: it cannot be written, as on a full disk; the file stays as it was.
    """
    # Half a character has no UTF-8; written with a backslash it is what JSON reads as the same half.
    line = f"{text}\n".encode("utf-8", "backslashreplace")
    try:
        with open(path, "ab", buffering=0) as file:  # with a buffer, closing would try to write the rest again
            whole = file.tell()
            try:
                while line:
                    line = line[file.write(line) :]
            except OSError:
                file.truncate(whole)
                raise
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", path=path) from None
