"""Files that grow line by line and survive being killed: at most the line that was being written is lost."""

from __future__ import annotations

from pathlib import Path

from berdslib.errors import InputError


def open_lines(path: Path) -> None:
    """Make a file ready for :func:`append_line`: its folder is made, and a last line that was cut off is removed.

    Otherwise the next line would be glued to what a killed process left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and (content := path.read_bytes()) and not content.endswith(b"\n"):
        with open(path, "r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)


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
