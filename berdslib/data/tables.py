"""Tables in files (JSON, JSONL, CSV, TSV, Parquet, Arrow) as rows that check their fields.

The first lines of a file tell its form, see :func:`look`. Errors name file, line and field.
"""

from __future__ import annotations

import ast
import csv
import difflib
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pandas as pd

from berdslib.errors import InputError
from berdslib.files import StrPath, read_lines, say_once, write_text

if TYPE_CHECKING:
    from typing_extensions import TypeIs

# A passage of a web page can be long, but a field of more than 16 MiB is a broken file (often an unclosed quote).
csv.field_size_limit(max(csv.field_size_limit(), 16 * 1024 * 1024))


# How much of a file is looked at to tell its form.
_LINES, _CHARACTERS = 50, 65_536
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)

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
            problem = f"missing; {others}the row has: {', '.join(map(str, self))}{_meant(self, names)}"
            raise self.wrong(names[0], problem)
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
        """Return what a field holds, None where it is empty.

        In CSV and TSV a list is a text in the cell: JSON, or as Python or numpy print it, which pandas writes.
        """
        value = self.get(name)
        if isinstance(value, str) and value.lstrip().startswith(("[", "(")):
            try:
                return from_json(value, self.path, self.line, name)
            except InputError as error:
                if (printed := _printed_list(value)) is None:
                    raise self.wrong(name, f"{error.problem}; {_LIST_IN_CELL}") from None
                return printed
        if isinstance(value, tuple):
            return list(value)
        return value if self.has(name) else None

    def texts(self, name: str, *, optional: bool = False) -> tuple[str, ...]:
        """Return a list of texts."""
        found = self.listed(name)
        if found is None and optional:
            return ()
        if not isinstance(found, list) or not all(isinstance(one, str) and one.strip() for one in found):
            missing = "missing; a list of texts was expected" if found is None else ""
            text = f"; {_LIST_IN_CELL}" if isinstance(found, str) else ""
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
            found = math.nan if isinstance(value, bool) else float(_with_point(value))
        except (TypeError, ValueError):
            found = math.nan
        if not math.isfinite(found):
            raise self.wrong(name, f"{value!r} is not a finite number")
        return found

    def verdict(self, name: str, value: object) -> float:
        """Return a recorded verdict, which the field holds, as a probability."""
        said = str(_with_point(value)).strip().lower()
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


def _with_point(value: Any) -> Any:
    """Return a number that a table has with a decimal comma with a point; 1,234 may be a thousand, and stays.

    >>> _with_point("0,125"), _with_point("1,234")
    ('0.125', '1,234')
    """
    is_decimal = isinstance(value, str) and re.fullmatch(r"\s*[-+]?(0,\d+|\d+,(\d\d?|\d{4,}))\s*", value)
    return value.replace(",", ".") if is_decimal else value


def is_records(given: object) -> TypeIs[Records]:
    """Return whether these are rows in memory: a data frame, or a list of mappings."""
    several = given if isinstance(given, list | tuple) else ()
    return isinstance(given, pd.DataFrame) or isinstance(next(iter(several), None), Mapping)


_LIST_IN_CELL = (
    'a list in a cell is JSON, such as ["It is.", "It is not."]: write json.dumps(texts) of each, or use Parquet, or '
    'JSONL as DataFrame.to_json(FILE, orient="records", lines=True) writes it'
)
# A text, number or nothing in a list that Python or numpy printed.
_ITEM = r"""(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|None|nan|[-+]?[\d.]++(?:e[-+]?\d+)?)"""
_PYTHON_LIST = re.compile(rf"[\[(]\s*(?:{_ITEM}\s*(?:,\s*{_ITEM}\s*)*,?\s*)?[\])]")
_NUMPY_LIST = re.compile(rf"\[\s*{_ITEM}(?:\s+{_ITEM})*\s*\]")


def _printed_list(text: str) -> list[Any] | None:
    r"""Return a list that Python printed, or numpy, which writes no commas; None for all else, such as JSON.

    >>> _printed_list("['It is.', \"It isn't.\"]"), _printed_list("['It is.' 'It is not.']")
    (['It is.', "It isn't."], ['It is.', 'It is not.'])
    """
    text = text.strip()
    if not (_PYTHON_LIST.fullmatch(text) or _NUMPY_LIST.fullmatch(text)):
        return None
    try:
        return [None if item == "nan" else ast.literal_eval(item) for item in re.findall(_ITEM, text)]
    except (SyntaxError, ValueError):  # a number of thousands of digits
        return None


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
    except json.JSONDecodeError as error:
        problem = f"not valid JSON: {error.msg} (column {error.colno})"
        raise InputError(problem, path=path, line=line or error.lineno, field=field) from None
    except UnicodeEncodeError:
        raise InputError("holds half of a surrogate pair (\\ud…)", path=path, line=line, field=field) from None
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


class Look(NamedTuple):
    """What the first lines of a file show.

    Fields:
        form: "jsonl" (an object a line), "json" (one array or object), "table" (cells with a delimiter between them),
            "blanks" (columns with blanks between them, as in TREC's qrels and runs), "lines" (a text a line;
            also an empty file), "parquet", or "arrow".
        delimiter: of a "table", a tab, comma, semicolon or |.
        cells: those of the first line of "table", "blanks" and "lines"; of "jsonl", the keys of the first object.
        header: whether one of the cells is a known name, in capitals or not.
    """

    form: str
    delimiter: str = ""
    cells: tuple[str, ...] = ()
    header: bool = False


def look(path: StrPath, known: Collection[str] = ()) -> Look:
    """Return what form a file has, which its first lines tell, not its name; `known` are the names of columns.

    Raises:
        InputError: no such file, or one that is known to be something else than a table, such as an Excel file.
    """
    if not Path(path).is_file() and Path(path).exists() and not Path(path).is_dir():
        return Look("blanks")  # a pipe can be read only once; TREC's files are what comes through one
    if (form := _binary_form(path)) is not None:
        return Look(form)
    lines = _first_lines(path)
    if not lines:
        return Look("lines")
    first = lines[0].strip()
    if re.match(r"\[\s*([\[{\"\]]|$)", first):
        return Look("json")
    if first.startswith("{"):
        return _look_at_object(first, len(lines) > 1, known)
    if first.startswith("<"):
        problem = f"is XML or HTML, which is not read; it begins with {_shortened(first)}"
        raise InputError(f"{problem}. Write an id, a tab and a text a line, or JSONL", path=path, line=1)
    plain = {plain_name(name) for name in known}
    is_text = _has_ending(path, ".txt", ".md")
    delimiters = ",;\t|" if _has_ending(path, ".csv") else "\t,;|"  # most likely first
    looks = [_look_at_cells(lines, delimiter, plain, not is_text) for delimiter in delimiters]
    looks.append(_look_at_blanks(lines, plain))
    rank, found = max(looks, key=lambda each: each[0])  # of equals the first
    is_table = any(rank[:2]) or _has_ending(path, ".csv", ".tsv")
    return found if is_table else Look("lines", "", (first,))


# What the first bytes of other files are, and what these are called.
_BINARY = {
    b"PK\x03\x04": "an Excel or zip file; save its table as CSV UTF-8",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
}
_TABLES = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow"}


def _binary_form(path: StrPath) -> str | None:
    """Return the form of a binary table; None for text, and for a file that cannot be opened."""
    try:
        with open(path, "rb") as file:
            head = file.read(16)
    except OSError:
        return None  # reading its lines says what is wrong
    for magic, what in _BINARY.items():
        if head.startswith(magic):
            raise InputError(f"is {what}", path=path)
    form = next((form for magic, form in _TABLES.items() if head.startswith(magic)), None)
    if form is None and str(path).endswith(".parquet"):
        raise InputError("is not a readable Parquet file: such begins with PAR1", path=path)
    return form


def _first_lines(path: StrPath) -> list[str]:
    """Return the first lines that are not blank, without comments before them, up to one that cannot be read."""
    lines: list[str] = []
    try:
        for _, text in read_lines(path):
            if text.strip() and (lines or text.split()[0] != "#"):
                lines.append(text)
            if len(lines) == _LINES or sum(map(len, lines)) > _CHARACTERS:
                break
    except InputError:
        if not lines:
            raise
    return lines


def _look_at_object(first: str, goes_on: bool, known: Collection[str]) -> Look:
    """Return whether a line that begins an object holds a row, or begins a whole file of JSON."""
    try:
        row = json.loads(first)
    except ValueError:
        return Look("json" if goes_on and first.endswith(("{", "[", ",")) else "jsonl")
    holds_rows = all(isinstance(value, dict | list) for value in row.values())
    if known and not _is_row(row, known):
        holds_rows |= _wrapped(row) is not None or _maps_ids_to_texts(row)
    if holds_rows and not goes_on:
        return Look("json")
    return Look("jsonl", "", tuple(row), any(name in known for name in row))


def _look_at_cells(
    lines: list[str], delimiter: str, plain: set[str], is_table: bool
) -> tuple[tuple[int, bool, bool], Look]:
    """Return the look of lines with a delimiter, and what speaks for it: known names, lines alike, several cells."""
    if said := re.fullmatch(r"sep=(.)\s*", lines[0]):  # as Excel writes it
        lines = lines[1:] if said[1] == delimiter else []
    try:
        rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        rows = []  # reading it says what is wrong
    cells = rows[0] if rows else []
    named = sum(plain_name(cell) in plain for cell in cells)
    several = len(cells) > 1
    alike = several and {len(row) for row in rows[:-1]} <= {len(cells)}  # the last row may go on
    if not is_table and delimiter != "\t" and named < 2:
        named, alike = 0, False  # in a plain text a comma is part of a sentence
    return (named, alike, several), Look("table", delimiter, tuple(cells), named > 0)


def _look_at_blanks(lines: list[str], plain: set[str]) -> tuple[tuple[int, bool, bool], Look]:
    """Return the look of columns with blanks between them, and what speaks for it.

    The last has to be of numbers, as in qrels, or the last but one, as in runs.
    """
    rows = [line.split() for line in lines]
    named = sum(plain_name(cell) in plain for cell in rows[0])
    below = rows[1:] if named > 1 else rows
    alike = len(rows[0]) > 2 and len({len(row) for row in rows}) == 1
    if not (alike and below and any(all(_NUMBER.fullmatch(row[at]) for row in below) for at in (-1, -2))):
        return (0, False, False), Look("lines")
    return (named if named > 1 else 0, True, False), Look("blanks", "", tuple(rows[0]), named > 1)


def plain_name(name: str) -> str:
    """Return the name of a column as other files spell it: in small letters, with underscores for blanks."""
    return name.strip().lower().replace(" ", "_")


def _has_ending(path: StrPath, *endings: str) -> bool:
    return str(path).lower().removesuffix(".gz").endswith(endings)


def read_table(
    path: StrPath | Records, known: Collection[str] = (), unnamed: Sequence[Sequence[str]] = ()
) -> Iterator[tuple[int, Row]]:
    """Yield (line number, row) of a table; the first lines tell its form, see :func:`look`.

    Rows of Parquet, Arrow, one JSON array or object, a data frame and a list of mappings are counted from 1, as if each
    were a line. JSON may hold an array of objects, also below a key such as "data", or any orient of
    :meth:`pandas.DataFrame.to_json` with names; where it maps keys to rows, a row's is in the field `key`.

    Cells are quoted where they have to be, as Python's csv module does it, in TSV too (the DPR dump). A TSV file that
    was written without any quoting reads the same unless a cell starts with a quotation mark: one that is between two
    of them loses them, and one that would take in other rows is refused.

    Args:
        path: the file, or rows in memory.
        known: the names of columns that will be looked for. If a file has a first line in which none of them is, it
            has no header, or one in other words, and is refused; without any, the first line is a header.
        unnamed: the names of the columns of a table without a header, such as (("qid", "question"),), one for each
            number of columns that is read.
    """
    if not isinstance(path, str | Path):
        yield from _read_records(path)
        return
    if Path(path).is_dir():
        tables = sorted(Path(path).glob("*/*.parquet"))[:3] or sorted(Path(path).glob("*.*"))[:3]
        there = f"; such as {', '.join(str(table.relative_to(path)) for table in tables)}" if tables else ""
        raise InputError(f"is a folder; a file is needed here{there}", path=path)
    seen = look(path, known)
    names = _names_without_header(path, seen, known, unnamed)
    if seen.form == "jsonl":
        yield from read_jsonl(path)
    elif seen.form == "json":
        yield from _read_json_rows(path, known)
    elif seen.form in ("parquet", "arrow"):
        yield from _read_arrow(path, seen.form)
    elif seen.form == "table":
        yield from _read_delimited(path, seen.delimiter, names)
    elif names:
        for line, text in read_lines(path):
            if text.strip() and not text.startswith("#"):
                yield line, Row({names[0]: text.strip()}, path, line)
    elif seen.cells:
        raise _no_table(path, seen, known, unnamed)


def _names_without_header(
    path: StrPath, seen: Look, known: Collection[str], unnamed: Sequence[Sequence[str]]
) -> Sequence[str]:
    """Return the names of the columns of a file without a header; () where it has one."""
    if seen.header or seen.form not in ("table", "lines", "blanks") or not (known and seen.cells):
        return ()
    if seen.form == "table":
        fitting = next((names for names in unnamed if len(names) == len(seen.cells)), ())
        if fitting and _begins_with_data(path, seen.delimiter):
            say_once(path, f"has no header; its columns are read as {', '.join(fitting)}")
            return fitting
        raise _no_table(path, seen, known, unnamed)
    one_column = next((names for names in unnamed if len(names) == 1), ())
    return one_column if seen.form == "lines" and _has_ending(path, ".txt", ".md") else ()


def _begins_with_data(path: StrPath, delimiter: str) -> bool:
    """Whether the first of some rows of an id and a text is one of them, and does not name them in unknown words.

    A text has several words. An id has none, and a digit, if all others have one.
    """
    rows = list(csv.reader(_first_lines(path), delimiter=delimiter))
    ids = [row[0] for row in rows if row]
    has_digit = [re.search(r"\d", found) is not None for found in ids]
    is_id = len(ids[0].split()) == 1 and (has_digit[0] or not all(has_digit[1:]) or len(ids) == 1)
    return is_id and len(rows[0][-1].split()) > 1


def _no_table(path: StrPath, seen: Look, known: Collection[str], unnamed: Sequence[Sequence[str]]) -> InputError:
    """Return the error for a file that holds no table, or a table with other names."""
    found = ", ".join(_shortened(cell) for cell in seen.cells[:6])
    if seen.form == "table":
        problem = f"line 1 was read as a header, and none of its names is known: {found}"
    elif seen.form == "blanks":
        problem = f"{len(seen.cells)} columns with blanks between them, as in a run or qrels of TREC: {found}"
    else:
        problem = f"no table: line 1 is {found}"
    accepted = f"known names: {', '.join(known)}" if known else "a header with the names of the columns is needed"
    hint = 'such as DataFrame.to_csv(FILE, index=False) or .to_json(FILE, orient="records", lines=True) writes'
    forms = f"JSON, JSONL, CSV, TSV, Parquet or Arrow is read, {hint}"
    bare = [" and ".join(names) for names in unnamed if len(names) > 1]
    without = f"; without a header, {' or '.join(bare)} are read" if bare else ""
    return InputError(f"{problem}{_meant(seen.cells, known)}; {accepted}{without}; {forms}", path=path, line=1)


def _meant(found: Iterable[Any], known: Collection[str]) -> str:
    """Return a question about names that are near to known ones."""
    near = [(str(name), difflib.get_close_matches(plain_name(str(name)), known, 1, 0.8)) for name in found]
    meant = ", ".join(f"{names[0]} by {name!r}" for name, names in near if names and names[0] != name)
    return f"; did you mean {meant}?" if meant else ""


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


# ---------------------------------------------------------------- one array or object of JSON


def _wrapped(found: Mapping[str, Any]) -> list[Any] | None:
    """Return the rows that stand below a key such as "data": the one list of objects."""
    lists = [value for value in found.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
    return lists[0] if len(lists) == 1 else None


def _is_row(found: Mapping[str, Any], known: Collection[str]) -> bool:
    """Whether an object is a row by itself: under a known name it holds a text or a number."""
    return any(isinstance(found.get(name), str | int | float) for name in known)


def _maps_ids_to_texts(found: Mapping[str, Any]) -> bool:
    """Whether the keys of an object are ids, not names of columns: each has a digit."""
    return all(isinstance(value, str) and re.search(r"\d", key) for key, value in found.items())


def _read_json_rows(path: StrPath, known: Collection[str]) -> Iterator[tuple[int, Row]]:
    found = read_json(path)
    for line, cells in enumerate(_rows_of(found, path, known), start=1):
        if not isinstance(cells, dict):
            problem = f"a JSON object was expected for each row, not {type(cells).__name__}"
            hint = 'such as DataFrame.to_json(FILE, orient="records", lines=True) writes'
            raise InputError(f"{problem}, {hint}", path=path, line=line)
        yield line, Row(cells, path, line)


def _rows_of(found: Any, path: StrPath, known: Collection[str]) -> list[Any]:
    """Return the rows of a file of JSON, in any form that keeps the names of columns."""
    if isinstance(found, list):
        return found
    if not isinstance(found, dict):
        raise InputError(f"an array of rows was expected, not {type(found).__name__}", path=path)
    if _is_row(found, known):
        return [found]
    columns = found.get("columns")
    if isinstance(columns, list) and isinstance(found.get("data"), list):  # orient="split"
        return [dict(zip(columns, row, strict=False)) if isinstance(row, list) else row for row in found["data"]]
    if (rows := _wrapped(found)) is not None:
        return rows
    if any(name in known for name in found):
        try:
            return pd.DataFrame(found, dtype=object).to_dict("records")
        except ValueError as error:
            raise InputError(f"columns of equal length were expected: {error}", path=path) from None
    texts = {key: {"text": text} for key, text in found.items()} if _maps_ids_to_texts(found) else found
    if not all(isinstance(row, dict) for row in texts.values()):
        problem = f"rows were expected, as an array, below 'data' or by their ids; the object has: {', '.join(found)}"
        raise InputError(problem, path=path)
    return [{"key": key, **row} for key, row in texts.items()]


# ---------------------------------------------------------------- Parquet, Arrow, rows in memory


def _read_arrow(path: StrPath, form: str) -> Iterator[tuple[int, Row]]:
    import pyarrow as pa

    line = 0
    try:
        for batch in _parquet_batches(path) if form == "parquet" else _arrow_batches(path):
            names = batch.schema.names
            if len(set(names)) < len(names):
                raise InputError(f"a column name occurs twice: {names}", path=path)
            for cells in batch.to_pylist():
                line += 1
                yield line, Row(cells, path, line)
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        problem = f"is not a readable {form.capitalize()} file: {str(error).splitlines()[0]}"
        raise InputError(problem, path=path) from None


def _parquet_batches(path: StrPath) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as table:
        yield from table.iter_batches(batch_size=1000)


def _arrow_batches(path: StrPath) -> list[Any]:
    import pyarrow as pa

    source = pa.memory_map(str(path))
    try:
        reader = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        reader = pa.ipc.open_stream(source)  # as datasets keeps it on disk
    return list(reader.read_all().to_batches(max_chunksize=1000))


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


def _read_delimited(path: StrPath, delimiter: str, names: Sequence[str] = ()) -> Iterator[tuple[int, Row]]:
    widths: list[int] = []  # columns of each line of the row, taken as if there were no quotation marks

    def lines() -> Iterator[str]:
        for _, text in read_lines(path):
            if text.strip():
                widths.append(text.count(delimiter) + 1)
            yield text

    # Strict: otherwise a quotation mark that is never closed swallows rows without a word.
    # TSV without a header, such as MS MARCO's, is rarely quoted.
    is_raw = bool(names) and delimiter == "\t"
    quoting: Literal[0, 3] = csv.QUOTE_NONE if is_raw else csv.QUOTE_MINIMAL
    reader = csv.reader(lines(), delimiter=delimiter, strict=True, quoting=quoting)
    header: list[str] = [*names]
    line = 1  # where the row starts: a quoted cell may hold line breaks
    try:
        for row in reader:
            if len(row) < 2 and not "".join(row).strip():
                pass  # a blank line
            elif line == 1 and "".join(row).strip() in ("sep=", f"sep={delimiter}"):
                pass  # a line for Excel
            elif not header:
                header = [name.strip() for name in row]
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
                yield line, Row(zip(header, map(_unquoted, row) if is_raw else row, strict=True), path, line)
            line = reader.line_num + 1
            widths.clear()
    except csv.Error as error:
        problem = f"not a readable table: {error} (a quoted cell must be closed, a quotation mark in it doubled)"
        raise InputError(problem, path=path, line=line) from None
    if not header:
        raise InputError("is empty; a header line with column names was expected", path=path)


def _unquoted(cell: str) -> str:
    """Return a cell without the quotation marks that the csv module puts around it; one that it did not write stays."""
    inner = cell[1:-1].replace('""', "")
    is_quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner
    return cell[1:-1].replace('""', '"') if is_quoted else cell
