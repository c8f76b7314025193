"""The sheet for reading made items by hand: 20 of each data set, as in B.4 of BeRDS.

A sheet is a CSV file that a spreadsheet opens as well as :class:`berdslib.construction.form.ReviewForm`, and that may
be filled in part by part. Each reviewer has a copy of the drawn sheet.
"""

from __future__ import annotations

import csv
import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import NamedTuple

import pandas as pd

from berdslib.data.records import Question
from berdslib.data.tables import read_jsonl, text_field
from berdslib.errors import InputError
from berdslib.files import StrPath, read_lines, write_text

logger = logging.getLogger(__name__)

# What is asked of each item, and what may be answered; a blank is an answer that is still to come.
ANSWERS: Mapping[str, tuple[str, ...]] = {
    "belongs": ("yes", "no"),
    "question_ok": ("yes", "no"),
    "perspectives_ok": ("yes", "no"),
    "contradict": ("yes", "no"),
    "severity": ("none", "minor", "major"),
}
ASKED: Mapping[str, str] = {
    "belongs": "Does the question ask for an opinion?",
    "question_ok": "Is the question faithful to its sources?",
    "perspectives_ok": "Is each perspective right, and its stance?",
    "contradict": "Do the perspectives contradict each other?",
    "severity": "How grave is the error?",
}
LONGEST_SOURCE = 1500  # characters of a source that a reviewer is shown, about 250 words
# A spreadsheet takes a cell that begins so for a formula, and texts of others may hold anything.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_UNWRITTEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # no text, and not read back


class SheetRow(NamedTuple):
    """One item of a sheet, and what a reviewer says of it; what is still to be said is "".

    Fields: ``qid``; ``data_set`` it was drawn from; ``sources`` and ``perspectives``, one a line, these with their
    stance in brackets behind them where they have one ("Zoos should close. (support)"); ``question``; the columns of
    :data:`ANSWERS`; ``note``, free text; ``reviewer``, who answered.
    """

    qid: str
    data_set: str
    sources: str
    question: str
    perspectives: str
    belongs: str = ""
    question_ok: str = ""
    perspectives_ok: str = ""
    contradict: str = ""
    severity: str = ""
    note: str = ""
    reviewer: str = ""

    @property
    def is_begun(self) -> bool:
        """Whether anything has been answered or noted."""
        return bool(self.note) or any(getattr(self, name) for name in ANSWERS)

    @property
    def is_finished(self) -> bool:
        """Whether everything has been answered; a note is not needed."""
        return all(getattr(self, name) for name in ANSWERS)

    @property
    def has_error(self) -> bool:
        """Whether an answer says no, or names an error."""
        return self._says_no or self.severity in ("minor", "major")

    @property
    def is_at_odds(self) -> bool:
        """Whether it is finished and says no without an error, or yes to everything with one."""
        return self.is_finished and self._says_no is (self.severity == "none")

    @property
    def _says_no(self) -> bool:
        return any(getattr(self, name) == "no" for name in ANSWERS)


def draw_sheet(
    questions: Sequence[Question], sources: Mapping[str, Sequence[str]], n: int = 20, seed: int = 0
) -> list[SheetRow]:
    """Draw so many questions from each data set, or all where there are fewer, for people to read. BeRDS B.4.

    Args:
        questions: with perspectives.
        sources: qid → the texts that the question is made of; none for one whose source is the question itself.
        n: from each data set, without repetition; a warning names those that have fewer.
        seed: of the draw; neither the order of the questions nor the other data sets matter.
    """
    from berdslib.data.records import check_questions
    from berdslib.judging.detection_set import draw_questions

    check_questions(questions, need_perspectives=True)
    by_source: dict[str, list[Question]] = defaultdict(list)
    for q in questions:
        by_source[q.source].append(q)
    few = {source: len(there) for source, there in sorted(by_source.items()) if len(there) < n}
    if few:
        logger.warning("fewer than %d questions, all of which are drawn: %s", n,
                       ", ".join(f"{source} has {count}" for source, count in few.items()))  # fmt: skip
    drawn = [
        q
        for _, there in sorted(by_source.items())
        for q in draw_questions(there, min(n, len(there)), seed, perspectives=None)
    ]
    return [
        SheetRow(
            qid=q.qid,
            data_set=q.source,
            sources=_lines(shorten(text, LONGEST_SOURCE, placeholder=" […]") for text in sources.get(q.qid, ())),
            question=" ".join(q.text.split()),
            perspectives=_lines(_with_stances(q)),
        )
        for q in drawn
    ]


def _with_stances(question: Question) -> list[str]:
    stances = question.stances or (None,) * len(question.perspectives)
    pairs = zip(question.perspectives, stances, strict=True)
    return [f"{text} ({stance})" if stance else text for text, stance in pairs]


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(" ".join(text.split()) for text in texts)


def read_sources(path: StrPath) -> dict[str, list[str]]:
    """Read the texts that questions are made of: JSONL with an id (qid, id or key) and `sources`, a list of texts.

    Rows without `sources` are passed over, so that a file of questions will do.
    """
    found: dict[str, list[str]] = {}
    for line, row in read_jsonl(path):
        texts = row.get("sources")
        if texts is None:
            continue
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise InputError("a list of texts was expected", path=path, line=line, field="sources")
        found[text_field(row, ("qid", "id", "key"), path, line)] = texts
    return found


# ---------------------------------------------------------------- the file


def write_sheet(path: StrPath, rows: Sequence[SheetRow]) -> None:
    """Write a sheet as CSV, without control characters; under its name there is always a whole one, old or new."""
    if Path(path).suffix != ".csv":
        raise InputError("a sheet is written as .csv", path=path)
    with write_text(path) as file:
        file.write("\ufeff")  # else a spreadsheet under Windows takes UTF-8 for something else
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        writer.writerow(SheetRow._fields)
        writer.writerows([_guarded(_UNWRITTEN.sub("", cell)) for cell in row] for row in rows)


def _guarded(cell: str) -> str:
    return f"'{cell}" if _FORMULA.match(cell) else cell


def read_sheet(path: StrPath) -> list[SheetRow]:
    """Read a sheet, filled in or not, also as a spreadsheet has saved it; answers may be in any case.

    Columns may be separated by commas, semicolons or tabs, and rows and columns without any content are passed over.
    """
    rows: list[SheetRow] = []
    lines: dict[str, int] = {}
    for line, cells in _read_cells(path):
        row = SheetRow(**{name: _cell(cells[name]) for name in SheetRow._fields})
        row = row._replace(**{name: getattr(row, name).strip().lower() for name in ANSWERS})
        for name, accepted in ANSWERS.items():
            if getattr(row, name) not in ("", *accepted):
                problem = f"{cells[name]!r} is no answer; accepted: {', '.join(accepted)}, or nothing"
                raise InputError(problem, path=path, line=line, field=name)
        if not row.qid.strip():
            raise InputError("is blank", path=path, line=line, field="qid")
        if (first := lines.setdefault(row.qid, line)) != line:
            raise InputError(f"{row.qid!r} is also in line {first}", path=path, line=line, field="qid")
        rows.append(row)
    if not rows:
        raise InputError("holds no items", path=path)
    return rows


def _read_cells(path: StrPath) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line where it starts, column → cell) of each row of a sheet that holds anything."""
    if Path(path).suffix != ".csv":
        raise InputError("a sheet is a .csv file", path=path)
    lines = [text for _, text in read_lines(path)]
    first = next((text for text in lines if text.strip()), "")
    delimiter = max(",;\t", key=first.count)  # the names of the columns hold none of them
    reader = csv.reader(lines, delimiter=delimiter, strict=True)  # strict: an open quotation mark would swallow rows
    header: list[str] = []
    line = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                if header:
                    yield line, _named(cells, header, path, line)
                else:
                    header = [name.strip() for name in cells]
                    _check_columns(header, path, line)
            line = reader.line_num + 1
    except csv.Error as error:
        problem = f"not a readable table: {error} (a quoted cell must be closed, a quotation mark in it doubled)"
        raise InputError(problem, path=path, line=line) from None


def _check_columns(header: Sequence[str], path: StrPath, line: int) -> None:
    names = SheetRow._fields
    faults = [(name, f"missing; a sheet has {', '.join(names)}") for name in names if name not in header]
    lost = "is no column of a sheet, and would be lost; use the note"
    faults += [(name, lost) for name in header if name and name not in names]
    faults += [(name, "is there twice") for name in names if header.count(name) > 1]
    if faults:
        raise InputError(faults[0][1], path=path, line=line, field=faults[0][0])


def _named(cells: Sequence[str], header: Sequence[str], path: StrPath, line: int) -> dict[str, str]:
    """Return column → cell; outside of the columns that have a name there must be nothing."""
    width = max(i for i, name in enumerate(header, start=1) if name)
    if len(cells) < width:
        raise InputError(f"{len(cells)} columns where the header has {width}", path=path, line=line)
    names = [*header, *[""] * (len(cells) - len(header))]
    lost = [cell for name, cell in zip(names, cells, strict=False) if not name and cell.strip()]
    if lost:
        problem = f"{lost[0][:40]!r} is in a column without a name, and would be lost; use the note"
        raise InputError(problem, path=path, line=line)
    return {name: cell for name, cell in zip(names, cells, strict=False) if name}


def _cell(value: str) -> str:
    text = value.replace("\r\n", "\n")
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


# ---------------------------------------------------------------- what it says


def summary(rows: Sequence[SheetRow], level: float = 0.95) -> pd.DataFrame:
    """Return how many items of each data set have an error. BeRDS Table 19.

    Args:
        rows: a sheet; items that are not finished count as drawn only.
        level: of the interval of the share.

    Returns:
        Frame with a row for each data set, and one for all where there are several: data_set, drawn, finished, errors
        (items with an answer "no" or an error named), percent of the finished with its exact interval (Clopper and
        Pearson) low and high, NaN where none is finished; of the finished, those with a minor and a major error; the
        number of answers "no" to each question; at_odds, items that say no without an error or name one without a no.
    """
    data_sets = sorted({row.data_set for row in rows})
    parts = [(name, [row for row in rows if row.data_set == name]) for name in data_sets]
    if len(parts) > 1:
        parts.append(("all", list(rows)))
    return pd.DataFrame([_counts(name, part, level) for name, part in parts])


def exact_percent(count: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact interval (Clopper and Pearson) of a share, in percent; NaN where n is 0.

    Not the bootstrap: of 20 items without an error it would say that there is none at all.

    Args:
        count: how many.
        n: of how many.
        level: coverage, between 0 and 1.
    """
    from scipy.stats import binomtest

    if not 0 < level < 1:
        raise InputError(f"must be between 0 and 1, not {level!r}", field="level")
    if not n:
        return float("nan"), float("nan")
    interval = binomtest(count, n).proportion_ci(level, method="exact")
    return 100 * float(interval.low), 100 * float(interval.high)


def _counts(name: str, rows: Sequence[SheetRow], level: float) -> dict[str, object]:
    finished = [row for row in rows if row.is_finished]
    errors, n = sum(row.has_error for row in finished), len(finished)
    low, high = exact_percent(errors, n, level)
    yes_or_no = [column for column, choices in ANSWERS.items() if choices == ("yes", "no")]
    return {
        "data_set": name,
        "drawn": len(rows),
        "finished": n,
        "errors": errors,
        "percent": 100 * errors / n if n else float("nan"),
        "low": low,
        "high": high,
        **{grade: sum(row.severity == grade for row in finished) for grade in ("minor", "major")},
        **{f"not_{column}": sum(getattr(row, column) == "no" for row in finished) for column in yes_or_no},
        "at_odds": sum(row.is_at_odds for row in finished),
    }
