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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pandas as pd

from berdslib.errors import InputError
from berdslib.files import StrPath, read_lines, say_once, write_text

if TYPE_CHECKING:
    from typing_extensions import TypeIs

# A passage of a web page can be long, but a field of more than 16 MiB means a broken file (often an unclosed quote).
csv.field_size_limit(max(csv.field_size_limit(), 16 * 1024 * 1024))


# How much of a file is read to detect its layout.
_LINES = 50
_CHARACTERS = 65_536
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)

# Rows in memory.
Records = pd.DataFrame | Sequence[Mapping[str, Any]]


class Row(dict[str, Any]):
    """The fields of a row of a file, or of an object ``within`` a field of the row."""

    __slots__ = ("line", "path", "within")

    def __init__(
        self,
        cells: Mapping[str, Any] | Iterable[tuple[str, Any]],
        path: StrPath,
        line: int | None = None,
        within: str = "",
    ) -> None:
        super().__init__(cells)
        self.path = path
        self.line = line
        self.within = within

    def wrong(self, field: str | None, problem: str) -> InputError:
        """Return the error for a field."""
        if field:
            field = f"{self.within}{field}"
        return InputError(problem, path=self.path, line=self.line, field=field)

    def has(self, *names: str) -> bool:
        """Whether one of some fields exists and is not empty."""
        return any(not is_missing(self.get(name)) and self[name] != "" for name in names)

    def first(self, *names: str) -> tuple[str, Any]:
        """Return the first of some fields, with its value; a non-empty field comes before an empty one."""
        present = [name for name in names if not is_missing(self.get(name))]
        if not present:
            others = f"looked for {', '.join(names)}; " if len(names) > 1 else ""
            problem = f"missing; {others}the row has: {', '.join(map(str, self))}{meant(self, names)}"
            raise self.wrong(names[0], problem)
        chosen = next((name for name in present if self[name] != ""), present[0])
        return chosen, self[chosen]

    def text(self, *names: str, default: str | None = None) -> str:
        """Return the first of some fields as text; a number is accepted, as an id.

        Without a default, blank text is an error; a default replaces empty fields and allows blank text.
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
        """Return the value of a field, or None if it is empty.

        In CSV and TSV a list is text in a cell: JSON, or a list as printed by Python or numpy, which pandas writes.
        """
        value = self.get(name)
        if isinstance(value, str) and value.lstrip().startswith(("[", "(")):
            try:
                return from_json(value, self.path, self.line, name)
            except InputError as error:
                printed = _printed_list(value)
                if printed is None:
                    raise self.wrong(name, f"{error.problem}; {_LIST_IN_CELL}") from None
                return printed
        if isinstance(value, tuple):
            return list(value)
        return value if self.has(name) else None

    def texts(self, name: str, *, optional: bool = False) -> tuple[str, ...]:
        """Return a list of texts."""
        texts = self.listed(name)
        if texts is None:
            if optional:
                return ()
            raise self.wrong(name, "missing; a list of texts was expected")
        if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
            hint = f"; {_LIST_IN_CELL}" if isinstance(texts, str) else ""
            raise self.wrong(name, f"a list of non-blank texts was expected{hint}")
        return tuple(texts)

    def ids(self, name: str) -> list[str]:
        """Return a list of ids, texts or whole numbers, as texts."""
        ids = self.get(name)
        if not isinstance(ids, list) or not all(map(_is_id, ids)):
            raise self.wrong(name, "a list of passage ids was expected")
        return [str(each) for each in ids]

    def number(self, name: str) -> float:
        """Return a finite number."""
        _, value = self.first(name)
        try:
            number = math.nan if isinstance(value, bool) else float(_with_point(value))
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise self.wrong(name, f"{value!r} is not a finite number")
        return number

    def verdict(self, name: str, value: object) -> float:
        """Return a recorded verdict, the value of the field, as a probability."""
        text = str(_with_point(value)).strip().lower()
        try:
            p_yes = float({"yes": 1, "true": 1, "no": 0, "false": 0}.get(text, text))
        except ValueError:
            p_yes = math.nan
        if not 0 <= p_yes <= 1:
            problem = f'{value!r} is not a verdict; accepted: 0/1, true/false, "Yes"/"No", a probability'
            raise self.wrong(name, problem)
        return p_yes

    def check_new(self, seen: dict[Any, int], key: Any, what: str, field: str) -> None:
        """Remember the line of a key, and raise InputError if it occurred in an earlier row."""
        check_new(seen, key, what, self.path, self.line or 0, field)


def _is_id(value: object) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _with_point(value: Any) -> Any:
    """Return a number with a decimal point in place of a decimal comma; 1,234 may be a thousand and stays.

    >>> _with_point("0,125"), _with_point("1,234")
    ('0.125', '1,234')
    """
    is_decimal = isinstance(value, str) and re.fullmatch(r"\s*[-+]?(0,\d+|\d+,(\d\d?|\d{4,}))\s*", value)
    return value.replace(",", ".") if is_decimal else value


def is_records(given: object) -> TypeIs[Records]:
    """Return whether these are rows in memory: a data frame, or a list of mappings."""
    if isinstance(given, pd.DataFrame):
        return True
    return isinstance(given, list | tuple) and len(given) > 0 and isinstance(given[0], Mapping)


_LIST_IN_CELL = (
    'a list in a cell is JSON, such as ["It is.", "It is not."]: write json.dumps(texts) of each, or use Parquet, or '
    'JSONL as DataFrame.to_json(FILE, orient="records", lines=True) writes it'
)
# A text, number or missing value in a list that Python or numpy printed.
_ITEM = r"""(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|None|nan|[-+]?[\d.]++(?:e[-+]?\d+)?)"""
_PYTHON_LIST = re.compile(rf"[\[(]\s*(?:{_ITEM}\s*(?:,\s*{_ITEM}\s*)*,?\s*)?[\])]")
_NUMPY_LIST = re.compile(rf"\[\s*{_ITEM}(?:\s+{_ITEM})*\s*\]")


def _printed_list(text: str) -> list[Any] | None:
    r"""Return a list that Python printed, or numpy, which writes no commas; None for other texts, such as JSON.

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
    """Return the value of JSON text: a line, a cell or the whole of a file."""
    try:
        value = json.loads(text)
        if "\\ud" in text.lower():  # half of a surrogate pair is valid JSON, but cannot be written as text
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        problem = f"not valid JSON: {error.msg} (column {error.colno})"
        raise InputError(problem, path=path, line=line or error.lineno, field=field) from None
    except UnicodeEncodeError:
        raise InputError("holds half of a surrogate pair (\\ud…)", path=path, line=line, field=field) from None
    return value


def read_json(path: StrPath) -> Any:
    """Return the value of a JSON file."""
    return from_json("".join(text for _, text in read_lines(path)), path)


def check_new(seen: dict[Any, int], key: Any, what: str, path: StrPath, line: int, field: str) -> None:
    """Remember the line of a key, and raise InputError if it occurred on an earlier one."""
    first = seen.setdefault(key, line)
    if first != line:
        raise repeated(what, first, path, line, field)


def repeated(what: str, first: int, path: StrPath, line: int, field: str) -> InputError:
    """Return the error for a key that occurs on two lines of a file."""
    problem = f"{what} occurs twice, first in line {first}; each must be unique"
    return InputError(problem, path=path, line=line, field=field)


def write_jsonl(path: StrPath, rows: Iterable[Mapping[str, Any]], default: Callable[[Any], Any] | None = None) -> None:
    """Write one JSON object per line, atomically; `default` makes JSON of other values."""
    with write_text(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, default=default) + "\n")


class Look(NamedTuple):
    """The layout of a file, detected from its first lines.

    Fields:
        form: "jsonl" (an object per line), "json" (one array or object), "table" (cells separated by a delimiter),
            "blanks" (columns separated by blanks, as in TREC's qrels and runs), "lines" (a text per line; also an empty
            file), "parquet", or "arrow".
        delimiter: of a "table", a tab, comma, semicolon or |.
        cells: the cells of the first line of "table", "blanks" and "lines"; the keys of the first object of "jsonl".
        header: whether one of the cells is a known name, ignoring case.
    """

    form: str
    delimiter: str = ""
    cells: tuple[str, ...] = ()
    header: bool = False


def detect_layout(path: StrPath, known: Collection[str] = ()) -> Look:
    """Detect the layout of a file from its first lines, not from its name; `known` are the names of columns.

    Raises:
        InputError: no such file, or a file that is not a table, such as an Excel file.
    """
    place = Path(path)
    if place.exists() and not place.is_file() and not place.is_dir():
        return Look("blanks")  # a pipe can be read only once, and usually carries a file of TREC
    form = _binary_form(path)
    if form is not None:
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
    rank, best = max(looks, key=lambda ranked: ranked[0])  # the first of equals
    is_table = any(rank[:2]) or _has_ending(path, ".csv", ".tsv")
    return best if is_table else Look("lines", "", (first,))


# First bytes of unusable files → a description.
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
        return None  # reading its lines raises the error
    for magic, what in _BINARY.items():
        if head.startswith(magic):
            raise InputError(f"is {what}", path=path)
    form = next((form for magic, form in _TABLES.items() if head.startswith(magic)), None)
    if form is None and str(path).endswith(".parquet"):
        raise InputError("is not a readable Parquet file: it does not begin with PAR1", path=path)
    return form


def _first_lines(path: StrPath) -> list[str]:
    """Return the first non-blank lines, without leading comments, up to a line that cannot be read."""
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
    """Return lines as a table with a delimiter, ranked by (known names, equal widths, several cells)."""
    separator = re.fullmatch(r"sep=(.)\s*", lines[0])  # a line for Excel
    if separator:
        lines = lines[1:] if separator[1] == delimiter else []
    try:
        rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        rows = []  # reading the table raises the error
    cells = rows[0] if rows else []
    named = sum(plain_name(cell) in plain for cell in cells)
    several = len(cells) > 1
    widths = {len(row) for row in rows[:-1]}  # the last row may be incomplete
    alike = several and widths <= {len(cells)}
    if not is_table and delimiter != "\t" and named < 2:  # in plain text a comma is part of a sentence
        named = 0
        alike = False
    return (named, alike, several), Look("table", delimiter, tuple(cells), named > 0)


def _look_at_blanks(lines: list[str], plain: set[str]) -> tuple[tuple[int, bool, bool], Look]:
    """Return lines as columns separated by blanks, ranked by (known names, equal widths, False).

    The last column must hold numbers, as in qrels, or the last but one, as in runs.
    """
    rows = [line.split() for line in lines]
    named = sum(plain_name(cell) in plain for cell in rows[0])
    has_header = named > 1
    below = rows[1:] if has_header else rows
    alike = len(rows[0]) > 2 and len({len(row) for row in rows}) == 1
    if not alike or not below or not (_holds_numbers(below, -1) or _holds_numbers(below, -2)):
        return (0, False, False), Look("lines")
    return (named if has_header else 0, True, False), Look("blanks", "", tuple(rows[0]), has_header)


def _holds_numbers(rows: Iterable[Sequence[str]], column: int) -> bool:
    return all(_NUMBER.fullmatch(row[column]) for row in rows)


def plain_name(name: str) -> str:
    """Return the name of a column in lower case, with underscores for blanks."""
    return name.strip().lower().replace(" ", "_")


def _has_ending(path: StrPath, *endings: str) -> bool:
    return str(path).lower().removesuffix(".gz").endswith(endings)


def read_table(
    path: StrPath | Records, known: Collection[str] = (), unnamed: Sequence[Sequence[str]] = ()
) -> Iterator[tuple[int, Row]]:
    """Yield (line number, row) of a table in any layout, see :func:`look`.

    Rows of Parquet, Arrow, one JSON array or object, a data frame and a list of mappings are counted from 1, like
    lines. JSON may hold an array of objects, also below a key such as "data", or any orient of
    :meth:`pandas.DataFrame.to_json` with names; if it maps keys to rows, a row has its key in the field `key`.

    Quoting follows Python's csv module, in TSV too (the DPR dump). An unquoted TSV file reads the same unless a cell
    starts with a quotation mark: a cell between two quotation marks loses them, and a cell that would swallow other
    rows is refused.

    Args:
        path: the file, or rows in memory.
        known: the expected names of columns. A file without any of them in its first line has no header, or an unknown
            one, and is refused; if `known` is empty, the first line is a header.
        unnamed: the column names of tables without a header, such as (("qid", "question"),), one tuple for each
            accepted number of columns.
    """
    if not isinstance(path, str | Path):
        yield from _read_records(path)
        return
    if Path(path).is_dir():
        tables = sorted(Path(path).glob("*/*.parquet"))[:3] or sorted(Path(path).glob("*.*"))[:3]
        hint = f", such as {', '.join(str(table.relative_to(path)) for table in tables)}" if tables else ""
        raise InputError(f"is a directory; expected a file{hint}", path=path)
    seen = detect_layout(path, known)
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
    """Return the column names of a file without a header; () if it has one."""
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
    """Whether the first row of a table of ids and texts holds data, not unknown names of columns.

    A text has several words. An id is one word, and has a digit if all other ids have one.
    """
    rows = list(csv.reader(_first_lines(path), delimiter=delimiter))
    first, *others = [row[0] for row in rows if row]
    is_word = len(first.split()) == 1
    others_have_digits = bool(others) and all(re.search(r"\d", other) for other in others)
    is_id = is_word and (not others_have_digits or re.search(r"\d", first) is not None)
    return is_id and len(rows[0][-1].split()) > 1


def _no_table(path: StrPath, seen: Look, known: Collection[str], unnamed: Sequence[Sequence[str]]) -> InputError:
    """Return the error for a file that holds no table, or a table with other names."""
    cells = ", ".join(_shortened(cell) for cell in seen.cells[:6])
    if seen.form == "table":
        problem = f"line 1 was read as a header, and none of its names is known: {cells}"
    elif seen.form == "blanks":
        problem = f"{len(seen.cells)} columns with blanks between them, as in a run or qrels of TREC: {cells}"
    else:
        problem = f"no table: line 1 is {cells}"
    accepted = f"known names: {', '.join(known)}" if known else "a header with the names of the columns is needed"
    hint = 'such as DataFrame.to_csv(FILE, index=False) or .to_json(FILE, orient="records", lines=True) writes'
    forms = f"JSON, JSONL, CSV, TSV, Parquet or Arrow is read, {hint}"
    bare = [" and ".join(names) for names in unnamed if len(names) > 1]
    without = f"; without a header, {' or '.join(bare)} are read" if bare else ""
    yours = f"; {name_yours(*unnamed[-1])}" if unnamed and seen.form == "table" else ""
    return InputError(f"{problem}{meant(seen.cells, known)}{yours}; {accepted}{without}; {forms}", path=path, line=1)


def name_yours(*fields: str) -> str:
    """Return the hint on how to give a file's own names of columns."""
    pairs = ",".join(f"{field}=NAME" for field in fields)
    return f"--columns {pairs} (in Python columns={{{fields[0]!r}: NAME, …}}) reads other names"


def meant(found: Iterable[Any], known: Collection[str]) -> str:
    """Return a question about misspelt known names; "" if there are none."""
    guesses = []
    for name in map(str, found):
        close = difflib.get_close_matches(plain_name(name), known, 1, 0.8)
        if close and close[0] != name:
            guesses.append(f"{close[0]} by {name!r}")
    return f"; did you mean {', '.join(guesses)}?" if guesses else ""


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


# ---------------------------------------------------------------- one array or object of JSON


def _wrapped(found: Mapping[str, Any]) -> list[Any] | None:
    """Return the rows below a key such as "data": the only list of objects; None if there are none or several."""
    lists = [value for value in found.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
    return lists[0] if len(lists) == 1 else None


def _is_row(found: Mapping[str, Any], known: Collection[str]) -> bool:
    """Whether an object is itself a row: a known name holds a text or a number."""
    return any(isinstance(found.get(name), str | int | float) for name in known)


def _maps_ids_to_texts(found: Mapping[str, Any]) -> bool:
    """Whether the keys of an object are ids, each with a digit, and its values texts."""
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
    """Return the rows of a JSON file, in any layout with the names of columns."""
    if isinstance(found, list):
        return found
    if not isinstance(found, dict):
        raise InputError(f"an array of rows was expected, not {type(found).__name__}", path=path)
    if _is_row(found, known):
        return [found]
    columns = found.get("columns")
    if isinstance(columns, list) and isinstance(found.get("data"), list):  # orient="split"
        return [dict(zip(columns, row, strict=False)) if isinstance(row, list) else row for row in found["data"]]
    rows = _wrapped(found)
    if rows is not None:
        return rows
    if any(name in known for name in found):
        try:
            return pd.DataFrame(found, dtype=object).to_dict("records")
        except ValueError as error:
            raise InputError(f"columns of equal length were expected: {error}", path=path) from None
    if _maps_ids_to_texts(found):
        return [{"key": key, "text": text} for key, text in found.items()]
    if not all(isinstance(row, dict) for row in found.values()):
        problem = f"rows were expected, as an array, below 'data' or by their ids; the object has: {', '.join(found)}"
        raise InputError(problem, path=path)
    return [{"key": key, **row} for key, row in found.items()]


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
        reader = pa.ipc.open_stream(source)  # the cache files of the package datasets
    return list(reader.read_all().to_batches(max_chunksize=1000))


def _read_records(given: Records) -> Iterator[tuple[int, Row]]:
    kind = type(given).__name__
    if isinstance(given, pd.DataFrame) and given.columns.has_duplicates:
        raise InputError(f"a column name occurs twice: {[*given.columns]}", path=kind)
    records = given.to_dict("records") if isinstance(given, pd.DataFrame) else given
    for line, cells in enumerate(records, start=1):
        if not isinstance(cells, Mapping):
            raise InputError(f"a mapping of fields was expected, not {type(cells).__name__}", path=kind, line=line)
        values = {}
        for name, value in cells.items():
            # pandas puts numpy's numbers and arrays in a cell
            values[name] = value.tolist() if hasattr(value, "tolist") else value
        yield line, Row(values, kind, line)


def _read_delimited(path: StrPath, delimiter: str, names: Sequence[str] = ()) -> Iterator[tuple[int, Row]]:
    widths: list[int] = []  # columns of each line of the row, ignoring quotation marks

    def lines() -> Iterator[str]:
        for _, text in read_lines(path):
            if text.strip():
                widths.append(text.count(delimiter) + 1)
            yield text

    # Strict: otherwise an unclosed quotation mark swallows rows silently.
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
                # In an unquoted file, a cell that starts with a quotation mark swallows all rows up to the next mark at
                # the end of a cell: each line of what was read is itself a row.
                problem = (
                    f"a quoted cell runs on to line {reader.line_num}, and each of its lines would be a row; quote a "
                    'cell that starts with a quotation mark, and double the mark ("""so"" it begins"), or use JSONL'
                )
                raise InputError(problem, path=path, line=line)
            else:
                cells = map(_unquoted, row) if is_raw else row
                yield line, Row(zip(header, cells, strict=True), path, line)
            line = reader.line_num + 1
            widths.clear()
    except csv.Error as error:
        problem = f"not a readable table: {error} (a quoted cell must be closed, a quotation mark in it doubled)"
        raise InputError(problem, path=path, line=line) from None
    if not header:
        raise InputError("is empty; a header line with column names was expected", path=path)


def _unquoted(cell: str) -> str:
    """Return a cell without the quotation marks that the csv module writes; other cells stay unchanged."""
    inner = cell[1:-1].replace('""', "")
    is_quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner
    return cell[1:-1].replace('""', '"') if is_quoted else cell
