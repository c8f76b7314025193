"""Tables in text files, JSONL, CSV and TSV, and the checks of their single fields; errors name file, line and field."""

from __future__ import annotations

import contextlib
import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from berdslib.errors import InputError
from berdslib.files import StrPath, read_lines, write_text

# A passage of a web page can be long, but a field of more than 16 MiB is a broken file (often an unclosed quote).
csv.field_size_limit(max(csv.field_size_limit(), 16 * 1024 * 1024))


def read_jsonl(path: StrPath) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for each non-blank line of a JSONL file."""
    for line, text in read_lines(path):
        if text.strip():
            row = from_json(text, path, line)
            if not isinstance(row, dict):
                raise InputError(f"a JSON object was expected, not {type(row).__name__}", path=path, line=line)
            yield line, row


def from_json(text: str, path: StrPath, line: int | None = None, field: str | None = None) -> Any:
    """Return what a text in JSON stands for.

    Args:
        text: a line or a cell of a file, or all of it.
        path: the file.
        line: where the text is in it; None where it is all of it.
        field: the cell.
    """
    try:
        value = json.loads(text)
        if "\\ud" in text.lower():  # half of a surrogate pair is legal JSON, but no text: it cannot be written
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        problem = f"not valid JSON: {str(error).partition(':')[0]}"
        if isinstance(error, json.JSONDecodeError):
            problem, line = f"{problem} (column {error.colno})", line or error.lineno
        elif isinstance(error, UnicodeEncodeError):
            problem = "holds half of a surrogate pair (\\ud…)"
        elif isinstance(error, RecursionError):
            problem = "JSON is nested too deeply"
        raise InputError(problem, path=path, line=line, field=field) from None
    return value


def read_json(path: StrPath) -> Any:
    """Return what a file of JSON holds."""
    return from_json("".join(text for _, text in read_lines(path)), path)


def check_new(seen: dict[Any, int], key: Any, what: str, path: StrPath, line: int, field: str) -> None:
    """Remember the line of a key, and raise InputError if it occurred on an earlier one."""
    if (first := seen.setdefault(key, line)) != line:
        raise repeated(what, first, path, line, field)


def repeated(what: str, first: int, path: StrPath, line: int, field: str) -> InputError:
    """Return the error for something that occurs on two lines of a file."""
    problem = f"{what} occurs twice, first in line {first}; each must be unique"
    return InputError(problem, path=path, line=line, field=field)


def id_list(value: object, path: StrPath, line: int, field: str) -> list[str]:
    """Return a list of ids, which are texts or whole numbers, as texts."""
    if not isinstance(value, list) or any(isinstance(i, bool) or not isinstance(i, int | str) for i in value):
        raise InputError("a list of passage ids was expected", path=path, line=line, field=field)
    return [str(i) for i in value]


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
    """Return whether a field is empty: null, or NaN, which pandas uses instead."""
    return value is None or value != value  # only NaN is not equal to itself


def first_field(row: Mapping[str, Any], names: Sequence[str], path: StrPath, line: int) -> tuple[str, Any]:
    """Return the first of some names that a row has, and what is there."""
    there = [n for n in names if not is_missing(row.get(n))]
    name = next((n for n in there if row[n] != ""), there[0] if there else None)
    if name is None:
        others = f"looked for {', '.join(names)}; " if len(names) > 1 else ""
        problem = f"missing; {others}the row has: {', '.join(map(str, row))}"
        raise InputError(problem, path=path, line=line, field=names[0])
    return name, row[name]


def text_field(
    row: Mapping[str, Any], names: Sequence[str], path: StrPath, line: int, *, default: str | None = None
) -> str:
    """Return the first of the named fields as text; numbers are accepted as ids, blank text is not accepted."""
    if default is not None and all(is_missing(row.get(n)) or row[n] == "" for n in names):
        return default
    name, value = first_field(row, names, path, line)
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
    """Return a field that holds a list of texts (in CSV and TSV: a JSON list in the cell)."""
    value = row.get(name)
    if is_missing(value) or value == "":
        if optional:
            return ()
        raise InputError("missing; a list of texts was expected", path=path, line=line, field=name)
    if isinstance(value, str):
        value = from_json(value, path, line, name) if value.lstrip().startswith("[") else None
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


def parse_number(value: object) -> object:
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
    problem = f'{value!r} is not a verdict; accepted: 0/1, true/false, "Yes"/"No", a probability'
    raise InputError(problem, path=path, line=line, field=field)
