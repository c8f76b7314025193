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
import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from berdslib.errors import InputError

# A passage of a web page can be long, but a field of more than 16 MiB is a broken file (often an unclosed quote).
csv.field_size_limit(16 * 1024 * 1024)

StrPath = str | Path


def read_lines(path: StrPath) -> Iterator[tuple[int, str]]:
    """Yield (line number, line with its end) of a UTF-8 file, gzip-compressed or not (told by its first bytes).

    Raises:
        InputError: no such file, a directory, not UTF-8, a null byte, or a damaged gzip file.
    """
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


@contextlib.contextmanager
def write_text(path: StrPath) -> Iterator[TextIO]:
    """Write a UTF-8 text file (compressed if it ends in .gz) that appears under its name only when complete.

    What is there and is no plain file, such as a pipe or /dev/stdout, is written to as it stands.

    Raises:
        InputError: nothing can be written there, or what is written is no text.
    """
    path = Path(path)
    temporary: Path | None = None
    zipped = path.suffix == ".gz"
    try:
        if path.exists() and not path.is_file():
            raw: BinaryIO = open(path, "wb")  # noqa: SIM115  closed below
        else:
            path = Path(os.path.realpath(path))  # a link stays a link
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name[:50]}.{uuid.uuid4().hex}")
            raw = open(temporary, "xb")  # noqa: SIM115  with the user's umask, as any new file
    except OSError as error:
        reason = "its folder is a file" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
        raise InputError(f"cannot be written: {reason}", path=path) from None
    try:
        with raw:
            binary: Any = gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) if zipped else raw
            with io.TextIOWrapper(binary, encoding="utf-8", newline="\n") as text:
                yield text
        if temporary is not None:
            os.replace(temporary, path)
    except BaseException as error:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:  # such as a full disk
            raise InputError(f"cannot be written: {error.strerror}", path=path) from None
        if isinstance(error, UnicodeEncodeError):
            raise InputError("cannot be written: a text holds half of a surrogate pair (\\ud…)", path=path) from None
        raise


def read_jsonl(path: StrPath) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for each non-blank line of a JSONL file.

    Raises:
        InputError: a line that is not a JSON object.
    """
    for line, text in read_lines(path):
        if text.strip():
            row = _from_json(text, path, line)
            if not isinstance(row, dict):
                raise InputError(f"a JSON object was expected, not {type(row).__name__}", path=path, line=line)
            yield line, row


def _from_json(text: str, path: StrPath, line: int, field: str | None = None) -> Any:
    try:
        value = json.loads(text)
        if "\\ud" in text.lower():  # half of a surrogate pair is legal JSON, but no text: it cannot be written
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        problem = f"not valid JSON: {error.msg} (column {error.colno})"
        raise InputError(problem, path=path, line=line, field=field) from None
    except UnicodeEncodeError:
        raise InputError("holds half of a surrogate pair (\\ud…)", path=path, line=line, field=field) from None
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"not valid JSON: {str(error).partition(':')[0]}", path=path, line=line, field=field) from None
    except RecursionError:
        raise InputError("JSON is nested too deeply", path=path, line=line, field=field) from None
    return value


def write_jsonl(path: StrPath, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object a line, atomically."""
    with write_text(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_table(path: StrPath) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, row) of a JSONL, CSV or TSV file with named columns; the kind is told by the name.

    Cells are quoted where they have to be, as Python's csv module does it, in TSV too (the DPR dump). A TSV file that
    was written without any quoting reads the same unless a cell starts with a quotation mark: one that is between two
    of them loses them, and one that would take in other rows is refused.

    Raises:
        InputError: an unknown ending, a row of the wrong width, no header, or a quoted cell of a TSV file that seems
            to have swallowed rows.
    """
    name = str(path).removesuffix(".gz")
    if Path(path).is_dir():
        raise InputError("is a folder; a file is needed here", path=path)
    if name.endswith((".jsonl", ".json", ".ndjson")):
        yield from read_jsonl(path)
    elif name.endswith((".csv", ".tsv")):
        yield from _read_delimited(path, "\t" if name.endswith(".tsv") else ",")
    else:
        raise InputError("unknown kind of file; accepted: .jsonl, .csv, .tsv, each also with .gz", path=path)


def _read_delimited(path: StrPath, delimiter: str) -> Iterator[tuple[int, dict[str, Any]]]:
    widths: list[int] = []  # columns of each line of the row, taken as if there were no quotation marks

    def lines() -> Iterator[str]:
        for _, text in read_lines(path):
            if text.strip():
                widths.append(text.count(delimiter) + 1)
            yield text

    # Strict: otherwise a quotation mark that is never closed swallows rows without a word.
    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    header: list[str] = []
    line = 1  # where the row starts: a quoted cell may hold line breaks
    try:
        for row in reader:
            if len(row) < 2 and not "".join(row).strip():
                pass  # a blank line
            elif not header:
                header = row
                if len(set(header)) < len(header):
                    raise InputError(f"a column name occurs twice in the header: {header}", path=path, line=line)
            elif len(row) != len(header):
                problem = f"{len(row)} columns where the header has {len(header)}"
                raise InputError(problem, path=path, line=line)
            elif delimiter == "\t" and len(header) > 1 and len(widths) > 1 and set(widths) == {len(header)}:
                # In a file that nobody quoted, a cell that starts with a quotation mark takes in all rows up to one
                # with that mark at the end of the same cell: each line of what was read is a row by itself.
                problem = (
                    f"a quoted cell runs on to line {reader.line_num}, and each of its lines would be a row; quote a "
                    'cell that starts with a quotation mark, and double the mark ("""so"" it begins"), or use JSONL'
                )
                raise InputError(problem, path=path, line=line)
            else:
                yield line, dict(zip(header, row, strict=True))
            line = reader.line_num + 1
            widths.clear()
    except csv.Error as error:
        problem = f"not a readable table: {error} (a quoted cell must be closed, a quotation mark in it doubled)"
        raise InputError(problem, path=path, line=line) from None
    if not header:
        raise InputError("is empty; a header line with column names was expected", path=path)


# ---------------------------------------------------------------- fields


def is_missing(value: object) -> bool:
    """Say whether a field holds nothing: null, or NaN, which stands for it where a table comes from pandas."""
    return value is None or value != value  # only NaN is not equal to itself


def text_field(
    row: Mapping[str, Any], names: Sequence[str], path: StrPath, line: int, *, default: str | None = None
) -> str:
    """Return the first of the named fields as text; numbers are accepted as ids, blank text is not accepted.

    Raises:
        InputError: the field is missing or null (and there is no default), blank, or of another type.
    """
    name = next((n for n in names if not is_missing(row.get(n))), None)
    if name is None:
        if default is not None:
            return default
        others = f"looked for {', '.join(names)}; " if len(names) > 1 else ""
        problem = f"missing; {others}the row has: {', '.join(map(str, row))}"
        raise InputError(problem, path=path, line=line, field=names[0])
    value = row[name]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"text was expected, not {type(value).__name__}", path=path, line=line, field=name)
    if isinstance(value, float) and math.isinf(value):
        raise InputError(f"text was expected, not {value}", path=path, line=line, field=name)
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
    if is_missing(value) or value == "":
        if optional:
            return ()
        raise InputError("missing; a list of texts was expected", path=path, line=line, field=name)
    if isinstance(value, str):
        value = _from_json(value, path, line, name) if value.lstrip().startswith("[") else None
    if not isinstance(value, list) or not all(isinstance(v, str) and v.strip() for v in value):
        raise InputError("a list of non-blank texts was expected", path=path, line=line, field=name)
    return tuple(value)


def number(value: object, path: StrPath, line: int, field: str) -> float:
    """Return a value as a finite number, or raise InputError."""
    try:
        if isinstance(value, bool):
            raise TypeError
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


# Not line breaks and tabs; what moves the cursor, turns the direction of writing or cannot be encoded.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Return a text with its control characters spelled out, so that a file's contents cannot steer a terminal.

    >>> printable("q1\x1b[31m")
    'q1\\x1b[31m'
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def naming(path: StrPath, check: Callable[[Any], Any], value: Any) -> Any:
    """Run a check, and let its complaint name the file."""
    try:
        return check(value)
    except InputError as error:
        if error.path is not None:
            raise
        raise InputError(error.problem, path=path, line=error.line, field=error.field) from None
