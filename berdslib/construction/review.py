"""The sheet for reading made items by hand: 20 of each data set, as in B.4 of BeRDS.

A sheet is a CSV file that a spreadsheet opens as well as :class:`berdslib.construction.form.ReviewForm`, and that may
be filled in part by part. Each reviewer has a copy of the drawn sheet.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import NamedTuple

import pandas as pd

from berdslib.data.records import Question
from berdslib.data.tables import read_jsonl, read_table, text_field
from berdslib.errors import InputError
from berdslib.files import StrPath, write_text

# What is asked of each item, and what may be answered; a blank is an answer that is still to come.
ANSWERS: Mapping[str, tuple[str, ...]] = {
    "question_ok": ("yes", "no"),
    "perspectives_ok": ("yes", "no"),
    "contradict": ("yes", "no"),
    "severity": ("none", "minor", "major"),
}
ASKED: Mapping[str, str] = {
    "question_ok": "Is the question faithful to its sources?",
    "perspectives_ok": "Is each perspective right?",
    "contradict": "Do the perspectives contradict each other?",
    "severity": "How grave is the error?",
}
LONGEST_SOURCE = 1500  # characters of a source that a reviewer is shown, about 250 words
# A spreadsheet takes a cell that begins so for a formula, and texts of others may hold anything.
_FORMULA = re.compile(r"'*[=+\-@\t]")


class SheetRow(NamedTuple):
    """One item of a sheet, and what a reviewer says of it; what is still to be said is "".

    Fields: ``qid``; ``data_set`` it was drawn from; ``sources`` and ``perspectives``, one a line; ``question``; the
    four columns of :data:`ANSWERS`; ``note``, free text; ``reviewer``, who answered.
    """

    qid: str
    data_set: str
    sources: str
    question: str
    perspectives: str
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
        return "no" in (self.question_ok, self.perspectives_ok, self.contradict)


def draw_sheet(
    questions: Sequence[Question], sources: Mapping[str, Sequence[str]], n: int = 20, seed: int = 0
) -> list[SheetRow]:
    """Draw so many questions from each data set, for people to read. BeRDS B.4.

    Args:
        questions: with perspectives.
        sources: qid → the texts that the question is made of; none for one whose source is the question itself.
        n: from each data set, without repetition.
        seed: of the draw; neither the order of the questions nor the other data sets matter.

    Raises:
        InputError: a data set has fewer questions, or a question has no perspectives.
    """
    from berdslib.data.records import check_questions
    from berdslib.judging.training.detection_set import draw_questions

    check_questions(questions, need_perspectives=True)
    drawn = draw_questions(questions, n, seed, perspectives=None)
    return [
        SheetRow(
            qid=q.qid,
            data_set=q.source,
            sources=_lines(shorten(text, LONGEST_SOURCE, placeholder=" […]") for text in sources.get(q.qid, ())),
            question=" ".join(q.text.split()),
            perspectives=_lines(q.perspectives),
        )
        for q in drawn
    ]


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(" ".join(text.split()) for text in texts)


def read_sources(path: StrPath) -> dict[str, list[str]]:
    """Read the texts that questions are made of: JSONL with an id (qid, id or key) and `sources`, a list of texts.

    Rows without `sources` are passed over, so that a file of questions will do.

    Raises:
        InputError: no JSONL, a row without id, or sources that are no texts.
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
    """Write a sheet as CSV; under its name there is always a whole one, the old or the new.

    Raises:
        InputError: a name that does not end in .csv, or nothing can be written there.
    """
    if Path(path).suffix != ".csv":
        raise InputError("a sheet is written as .csv", path=path)
    with write_text(path) as file:
        file.write("\ufeff")  # else a spreadsheet under Windows takes UTF-8 for something else
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        writer.writerow(SheetRow._fields)
        writer.writerows([f"'{cell}" if _FORMULA.match(cell) else cell for cell in row] for row in rows)


def read_sheet(path: StrPath) -> list[SheetRow]:
    """Read a sheet, filled in or not; answers may be in any case.

    Raises:
        InputError: no sheet, an item twice, or an answer that is not among those of :data:`ANSWERS`.
    """
    rows: list[SheetRow] = []
    lines: dict[str, int] = {}
    for line, cells in read_table(path):
        _check_columns(cells, path, line)
        row = SheetRow(**{name: _cell(cells[name]) for name in SheetRow._fields})
        row = row._replace(**{name: getattr(row, name).strip().lower() for name in ANSWERS})
        for name, accepted in ANSWERS.items():
            if getattr(row, name) not in ("", *accepted):
                problem = f"{cells[name]!r} is no answer; accepted: {', '.join(accepted)}, or nothing"
                raise InputError(problem, path=path, line=line, field=name)
        if not row.qid.strip():
            raise InputError("is blank", path=path, line=line, field="qid")
        if row.qid in lines:
            raise InputError(f"{row.qid!r} is also in line {lines[row.qid]}", path=path, line=line, field="qid")
        lines[row.qid] = line
        rows.append(row)
    if not rows:
        raise InputError("holds no items", path=path)
    return rows


def _check_columns(cells: Mapping[str, object], path: StrPath, line: int) -> None:
    missing = [name for name in SheetRow._fields if name not in cells]
    if missing:
        hint = "; commas are needed between the columns" if ";" in next(iter(cells)) else ""
        problem = f"missing; a sheet has {', '.join(SheetRow._fields)}{hint}"
        raise InputError(problem, path=path, line=line, field=missing[0])
    extra = [name for name in cells if name not in SheetRow._fields]
    if extra:
        problem = "is no column of a sheet, and would be lost; use the note"
        raise InputError(problem, path=path, line=line, field=extra[0])


def _cell(value: object) -> str:
    text = str(value).replace("\r\n", "\n")
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


def _counts(name: str, rows: Sequence[SheetRow], level: float) -> dict[str, object]:
    from scipy.stats import binomtest

    finished = [row for row in rows if row.is_finished]
    errors, n = sum(row.has_error for row in finished), len(finished)
    # Not the bootstrap: of 20 items without an error it would say that there is none at all.
    interval = binomtest(errors, n).proportion_ci(level, method="exact") if n else None
    return {
        "data_set": name,
        "drawn": len(rows),
        "finished": n,
        "errors": errors,
        "percent": 100 * errors / n if n else float("nan"),
        "low": 100 * interval.low if interval else float("nan"),
        "high": 100 * interval.high if interval else float("nan"),
        **{grade: sum(row.severity == grade for row in finished) for grade in ("minor", "major")},
        **{f"not_{column}": sum(getattr(row, column) == "no" for row in finished) for column in list(ANSWERS)[:3]},
        "at_odds": sum(row.is_at_odds for row in finished),
    }
