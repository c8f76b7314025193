"""Text files with rows: opening, reading, writing, and the checks of single fields.

Every complaint names file, line and field. Files are UTF-8, plain or gzip-compressed, and are read as a stream.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from berdslib.errors import InputError

# A passage of a web page can be long, but a field of more than 16 MiB is a broken file (often an unclosed quote).
csv.field_size_limit(16 * 1024 * 1024)

StrPath = str | Path


@contextlib.contextmanager
def open_text(path: StrPath) -> Iterator[TextIO]:
    """Open a UTF-8 file, gzip-compressed or not (told by its first bytes, not by its name).

    Raises:
        InputError: no such file, a directory, not UTF-8, or a damaged gzip file.
    """
    try:
        with open(path, "rb") as raw:
            zipped = raw.peek(2)[:2] == b"\x1f\x8b"
            binary: Any = gzip.GzipFile(fileobj=raw) if zipped else raw
            with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
                yield text
    except FileNotFoundError:
        raise InputError("no such file", path=path) from None
    except IsADirectoryError:
        raise InputError("is a folder; a file is needed here", path=path) from None
    except PermissionError:
        raise InputError("no permission to read it", path=path) from None
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text ({error.reason} at byte {error.start} of a block)", path=path) from None
    except (gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"damaged gzip file: {error}", path=path) from None


@contextlib.contextmanager
def write_text(path: StrPath) -> Iterator[TextIO]:
    """Write a UTF-8 text file (compressed if it ends in .gz) that appears under its name only when complete."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as raw:
            binary: Any = gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) if path.suffix == ".gz" else raw
            with io.TextIOWrapper(binary, encoding="utf-8", newline="\n") as text:
                yield text
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def read_jsonl(path: StrPath) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for each non-blank line of a JSONL file.

    Raises:
        InputError: a line that is not a JSON object.
    """
    with open_text(path) as file:
        for line, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except json.JSONDecodeError as error:
                raise InputError(f"not valid JSON: {error.msg} (column {error.colno})", path=path, line=line) from None
            except RecursionError:
                raise InputError("JSON is nested too deeply", path=path, line=line) from None
            if not isinstance(row, dict):
                raise InputError(f"a JSON object was expected, not {type(row).__name__}", path=path, line=line)
            yield line, row


def write_jsonl(path: StrPath, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object a line, atomically."""
    with write_text(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_table(path: StrPath) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, row) of a JSONL, CSV or TSV file with named columns; the kind is told by the name.

    Raises:
        InputError: an unknown ending, a row of the wrong width, no header.
    """
    name = str(path).removesuffix(".gz")
    if name.endswith((".jsonl", ".json", ".ndjson")):
        yield from read_jsonl(path)
    elif name.endswith((".csv", ".tsv")):
        yield from _read_delimited(path, "\t" if name.endswith(".tsv") else ",")
    else:
        raise InputError("unknown kind of file; accepted: .jsonl, .csv, .tsv, each also with .gz", path=path)


def _read_delimited(path: StrPath, delimiter: str) -> Iterator[tuple[int, dict[str, Any]]]:
    with open_text(path) as file:
        reader = csv.reader(file, delimiter=delimiter)
        try:
            header = next(reader, None)
            if not header:
                raise InputError("is empty; a header line with column names was expected", path=path)
            if len(set(header)) < len(header):
                raise InputError(f"a column name occurs twice in the header: {header}", path=path, line=1)
            for row in reader:
                if not row:
                    continue
                if len(row) != len(header):
                    problem = f"{len(row)} columns where the header has {len(header)}"
                    raise InputError(problem, path=path, line=reader.line_num)
                yield reader.line_num, dict(zip(header, row, strict=True))
        except csv.Error as error:
            raise InputError(f"not a readable table: {error}", path=path, line=reader.line_num) from None


# ---------------------------------------------------------------- fields


def text_field(
    row: Mapping[str, Any], names: Sequence[str], path: StrPath, line: int, *, default: str | None = None
) -> str:
    """Return the first of the named fields as text; numbers are accepted as ids, blank text is not accepted.

    Raises:
        InputError: the field is missing (and there is no default), blank, or of another type.
    """
    name = next((n for n in names if row.get(n) is not None), None)
    if name is None:
        if default is not None:
            return default
        raise InputError(f"missing; the row has: {', '.join(map(str, row))}", path=path, line=line, field=names[0])
    value = row[name]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"text was expected, not {type(value).__name__}", path=path, line=line, field=name)
    text = str(value)
    if not text.strip() and default is None:
        raise InputError("is blank", path=path, line=line, field=name)
    return text


def text_list(
    row: Mapping[str, Any], name: str, path: StrPath, line: int, *, optional: bool = False
) -> tuple[str, ...]:
    """Return a field that holds a list of texts (in CSV and TSV: a JSON list in the cell).

    Raises:
        InputError: missing, not a list, or an element that is not text or is blank.
    """
    value = row.get(name)
    if value is None or value == "":
        if optional:
            return ()
        raise InputError("missing; a list of texts was expected", path=path, line=line, field=name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            raise InputError("a JSON list of texts was expected", path=path, line=line, field=name) from None
    if not isinstance(value, list) or not all(isinstance(v, str) and v.strip() for v in value):
        raise InputError("a list of non-blank texts was expected", path=path, line=line, field=name)
    return tuple(value)


def number(value: object, path: StrPath, line: int, field: str) -> float:
    """Return a value as a finite number, or raise InputError."""
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"{value!r} is not a number", path=path, line=line, field=field) from None
    if not math.isfinite(found):
        raise InputError(f"{value!r} is not a finite number", path=path, line=line, field=field)
    return found


def numeral(value: object) -> object:
    """Turn the text of a CSV cell into the number it spells, if it spells one."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return float(value)
    return value


def yes_probability(value: object, path: StrPath, line: int, field: str) -> float:
    """Return a recorded verdict (0/1, true/false, Yes/No, a probability) as a number from 0 to 1."""
    spelled = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
    if isinstance(value, str) and value.strip().lower() in spelled:
        return spelled[value.strip().lower()]
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return float(value)
    problem = f'{value!r} is no verdict; accepted: 0/1, true/false, "Yes"/"No", a probability'
    raise InputError(problem, path=path, line=line, field=field)


def naming(path: StrPath, check: Callable[[Any], Any], value: Any) -> Any:
    """Run a check, and let its complaint name the file."""
    try:
        return check(value)
    except InputError as error:
        if error.path is not None:
            raise
        raise InputError(error.problem, path=path, line=error.line, field=error.field) from None
