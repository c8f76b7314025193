"""Tables in text files, JSONL, CSV and TSV, as rows that check their fields; errors name file, line and field."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from berdslib.errors import InputError
from berdslib.files import StrPath, read_lines, write_text

if TYPE_CHECKING:
    from typing_extensions import TypeIs

# A passage of a web page can be long, but a field of more than 16 MiB is a broken file (often an unclosed quote).
csv.field_size_limit(max(csv.field_size_limit(), 16 * 1024 * 1024))


# Rows that are in memory already.
Records = pd.DataFrame | Sequence[Mapping[str, Any]]


class Row(dict[str, Any]):
    """The fields of a row of a file, or of an object in it, which stands ``within`` a field of its row."""

    __slots__ = ("line", "path", "within")

    def __init__(
        self,
        cells: Mapping[str, Any] | Iterable[tuple[str, Any]],
        path: StrPath,
        line: int | None = None,
        within: str = "",
    ) -> None:
        super().__init__(cells)
        self.path, self.line, self.within = path, line, within

    def wrong(self, field: str | None, problem: str) -> InputError:
        """Return the error for a field."""
        return InputError(problem, path=self.path, line=self.line, field=field and f"{self.within}{field}")

    def has(self, *names: str) -> bool:
        """Whether one of some fields is there and not empty."""
        return any(not is_missing(self.get(name)) and self[name] != "" for name in names)

    def first(self, *names: str) -> tuple[str, Any]:
        """Return the first of some names that is there, and what it holds; one that is not empty goes before others."""
        there = [n for n in names if not is_missing(self.get(n))]
        name = next((n for n in there if self[n] != ""), there[0] if there else None)
        if name is None:
            others = f"looked for {', '.join(names)}; " if len(names) > 1 else ""
            raise self.wrong(names[0], f"missing; {others}the row has: {', '.join(map(str, self))}")
        return name, self[name]

    def text(self, *names: str, default: str | None = None) -> str:
        """Return the first of some fields as text, which is not blank; a number will do, as an id.

        With a default, it is that where all are empty, and a blank text will do.
        """
        if default is not None and not self.has(*names):
            return default
        name, value = self.first(*names)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.wrong(name, f"text was expected, not {type(value).__name__}")
        if default is None and not str(value).strip():
            raise self.wrong(name, "is blank")
        return str(value)

    def listed(self, name: str) -> Any:
        """Return what a field holds, None where it is empty; in CSV and TSV a list is JSON in the cell."""
        value = self.get(name)
        if isinstance(value, str) and value.lstrip().startswith("["):
            return from_json(value, self.path, self.line, name)
        return value if self.has(name) else None

    def texts(self, name: str, *, optional: bool = False) -> tuple[str, ...]:
        """Return a list of texts."""
        found = self.listed(name)
        if found is None and optional:
            return ()
        if not isinstance(found, list) or not all(isinstance(one, str) and one.strip() for one in found):
            missing = "missing; a list of texts was expected" if found is None else ""
            text = "; in CSV and TSV it is JSON" if isinstance(found, str) else ""
            raise self.wrong(name, missing or f"a list of non-blank texts was expected{text}")
        return tuple(found)

    def ids(self, name: str) -> list[str]:
        """Return a list of ids, which are texts or whole numbers, as texts."""
        found = self.get(name)
        if not isinstance(found, list) or any(isinstance(i, bool) or not isinstance(i, int | str) for i in found):
            raise self.wrong(name, "a list of passage ids was expected")
        return [str(one) for one in found]

    def number(self, name: str) -> float:
        """Return a finite number."""
        _, value = self.first(name)
        try:
            found = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            found = math.nan
        if not math.isfinite(found):
            raise self.wrong(name, f"{value!r} is not a finite number")
        return found

    def verdict(self, name: str, value: object) -> float:
        """Return a recorded verdict, which the field holds, as a probability."""
        said = str(value).strip().lower()
        try:
            found = float({"yes": 1, "true": 1, "no": 0, "false": 0}.get(said, said))
        except ValueError:
            found = math.nan
        if not 0 <= found <= 1:
            problem = f'{value!r} is not a verdict; accepted: 0/1, true/false, "Yes"/"No", a probability'
            raise self.wrong(name, problem)
        return found

    def check_new(self, seen: dict[Any, int], key: Any, what: str, field: str) -> None:
        """Remember where a key is, and raise InputError if it occurred in an earlier row."""
        check_new(seen, key, what, self.path, self.line or 0, field)


def is_records(given: object) -> TypeIs[Records]:
    """Return whether these are rows in memory: a data frame, or a list of mappings."""
    several = given if isinstance(given, list | tuple) else ()
    return isinstance(given, pd.DataFrame) or isinstance(next(iter(several), None), Mapping)


def is_missing(value: object) -> bool:
    """Return whether a field is empty: null, or NaN, which pandas uses instead."""
    return value is None or value is pd.NA or value != value  # only NaN is not equal to itself


def read_jsonl(path: StrPath) -> Iterator[tuple[int, Row]]:
    """Yield (line number, object) for each non-blank line of a JSONL file."""
    for line, text in read_lines(path):
        if text.strip():
            row = from_json(text, path, line)
            if not isinstance(row, dict):
                raise InputError(f"a JSON object was expected, not {type(row).__name__}", path=path, line=line)
            yield line, Row(row, path, line)


def from_json(text: str, path: StrPath, line: int | None = None, field: str | None = None) -> Any:
    """Return what a text in JSON stands for: a line or a cell of a file, or all of it."""
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


def write_jsonl(path: StrPath, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object a line, atomically."""
    with write_text(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_table(path: StrPath | Records) -> Iterator[tuple[int, Row]]:
    """Yield (line number, row) of a JSONL, CSV, TSV or Parquet file with named columns; the kind is told by the name.

    Rows of Parquet, of a data frame and of a list of mappings are counted from 1, as if each were a line.
    Cells are quoted where they have to be, as Python's csv module does it, in TSV too (the DPR dump). A TSV file that
    was written without any quoting reads the same unless a cell starts with a quotation mark: one that is between two
    of them loses them, and one that would take in other rows is refused.
    """
    if not isinstance(path, str | Path):
        yield from _read_records(path)
        return
    name = str(path).removesuffix(".gz")
    if Path(path).is_dir():
        raise InputError("is a folder; a file is needed here", path=path)
    if name.endswith((".jsonl", ".json", ".ndjson")):
        yield from read_jsonl(path)
    elif name.endswith((".csv", ".tsv")):
        yield from _read_delimited(path, "\t" if name.endswith(".tsv") else ",")
    elif name.endswith(".parquet"):
        yield from _read_parquet(path)
    else:
        problem = "unknown kind of file; accepted: .jsonl, .csv, .tsv, each also with .gz, and .parquet"
        raise InputError(problem, path=path)


def _read_parquet(path: StrPath) -> Iterator[tuple[int, Row]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    line = 0
    try:
        with pq.ParquetFile(path) as table:
            for batch in table.iter_batches(batch_size=1000):
                for cells in batch.to_pylist():
                    line += 1
                    yield line, Row(cells, path, line)
    except FileNotFoundError:
        raise InputError("no such file", path=path) from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"is not a readable Parquet file: {str(error).splitlines()[0]}", path=path) from None


def _read_records(given: Records) -> Iterator[tuple[int, Row]]:
    kind = type(given).__name__
    if isinstance(given, pd.DataFrame) and given.columns.has_duplicates:
        raise InputError(f"a column name occurs twice: {[*given.columns]}", path=kind)
    records = given.to_dict("records") if isinstance(given, pd.DataFrame) else given
    for line, cells in enumerate(records, start=1):
        if not isinstance(cells, Mapping):
            raise InputError(f"a mapping of fields was expected, not {type(cells).__name__}", path=kind, line=line)
        # numpy's numbers and arrays, which pandas puts in a cell, as Python's
        yield line, Row({k: v.tolist() if hasattr(v, "tolist") else v for k, v in cells.items()}, kind, line)


def _read_delimited(path: StrPath, delimiter: str) -> Iterator[tuple[int, Row]]:
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
                yield line, Row(zip(header, row, strict=True), path, line)
            line = reader.line_num + 1
            widths.clear()
    except csv.Error as error:
        problem = f"not a readable table: {error} (a quoted cell must be closed, a quotation mark in it doubled)"
        raise InputError(problem, path=path, line=line) from None
    if not header:
        raise InputError("is empty; a header line with column names was expected", path=path)
