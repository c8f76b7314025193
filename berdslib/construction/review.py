"""Human review of generated questions, as in BeRDS B.4: the sheet, its errors, and the agreement of two reviewers.

A sheet is a CSV file that a reviewer fills in step by step; each reviewer has a copy of the drawn sheet.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import NamedTuple

import pandas as pd

from berdslib.data.records import Question, check_questions
from berdslib.data.tables import read_jsonl, read_table
from berdslib.errors import InputError
from berdslib.files import StrPath, guarded, unguarded, write_text
from berdslib.judging.examples import draw_questions

logger = logging.getLogger(__name__)

# The columns that a reviewer fills in for each item, and their accepted answers; a blank is not answered yet.
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
LEVEL = 0.95  # of all intervals
LONGEST_SOURCE = 1500  # characters of a source that a sheet shows, about 250 words


class SheetRow(NamedTuple):
    """One item of a sheet and a reviewer's answers; "" marks a missing answer.

    ``sources`` and ``perspectives`` hold one text per line; a perspective's stance follows in brackets, such as
    "(support)".
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
    def answers(self) -> dict[str, str]:
        """The answers, by their columns."""
        return {column: getattr(self, column) for column in ANSWERS}

    @property
    def is_finished(self) -> bool:
        """Whether all answers are filled in; the note is optional."""
        return all(self.answers.values())

    @property
    def has_error(self) -> bool:
        """Whether any answer is "no" or the severity is "minor" or "major"."""
        return not {"no", "minor", "major"}.isdisjoint(self.answers.values())

    @property
    def is_at_odds(self) -> bool:
        """Whether a finished item contradicts itself: a "no" with severity "none", or an error with every "yes"."""
        return self.is_finished and ("no" in self.answers.values()) is (self.severity == "none")


def draw_sheet(
    questions: Sequence[Question], sources: Mapping[str, Sequence[str]], n: int = 20, seed: int = 0
) -> list[SheetRow]:
    """Draw n questions from each data set (all if it has fewer), with their sources (qid → texts). BeRDS B.4."""
    check_questions(questions, need_perspectives=True)
    rows: list[SheetRow] = []
    for data_set in sorted({question.source for question in questions}):
        of_set = [question for question in questions if question.source == data_set]
        if len(of_set) < n:
            logger.warning("%s has %d questions, fewer than %d: all are drawn", data_set, len(of_set), n)
        for question in draw_questions(of_set, min(n, len(of_set)), seed, perspectives=None):
            texts = [shorten(text, LONGEST_SOURCE, placeholder=" […]") for text in sources.get(question.qid, ())]
            perspectives = _with_stances(question)
            rows.append(SheetRow(question.qid, data_set, _lines(texts), _lines([question.text]), _lines(perspectives)))
    return rows


def _with_stances(question: Question) -> list[str]:
    stances = question.stances or (None,) * len(question.perspectives)
    pairs = zip(question.perspectives, stances, strict=True)
    return [f"{text} ({stance})" if stance else text for text, stance in pairs]


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(" ".join(text.split()) for text in texts)


def read_sources(path: StrPath) -> dict[str, tuple[str, ...]]:
    """Read the source texts of questions from JSONL with an id (qid, id or key) and, in some rows, `sources`."""
    rows = (row for _, row in read_jsonl(path) if row.get("sources") is not None)
    return {row.text("qid", "id", "key"): row.texts("sources") for row in rows}


# ---------------------------------------------------------------- the file


def write_sheet(path: StrPath, rows: Sequence[SheetRow]) -> None:
    """Write a sheet as CSV, atomically: the file always holds a complete sheet, old or new."""
    if Path(path).suffix != ".csv":
        raise InputError("a sheet is written as .csv", path=path)
    with write_text(path) as file:
        file.write("\ufeff")  # the byte order mark lets spreadsheets under Windows recognise UTF-8
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        writer.writerow(SheetRow._fields)
        writer.writerows([guarded(cell) for cell in row] for row in rows)


def read_sheet(path: StrPath) -> list[SheetRow]:
    """Read a sheet, filled in or not, possibly re-saved by a spreadsheet; answers may be in upper or lower case."""
    rows: list[SheetRow] = []
    lines: dict[str, int] = {}
    for _, cells in read_table(path, SheetRow._fields):
        for column in sorted(set(SheetRow._fields) ^ set(cells)):
            problem = f"a sheet has the columns {', '.join(SheetRow._fields)}, and no others; use the note"
            raise InputError(problem, path=path, line=1, field=column)
        if not any(cells.values()):
            continue  # spreadsheets keep blank rows
        row = SheetRow(*(unguarded(cells[column].replace("\r\n", "\n")) for column in SheetRow._fields))
        row = row._replace(**{column: answer.strip().lower() for column, answer in row.answers.items()})
        for column, answer in row.answers.items():
            if answer not in ("", *ANSWERS[column]):
                accepted = ", ".join(ANSWERS[column])
                raise cells.wrong(column, f"{answer!r} is not an accepted answer; use {accepted}, or leave it blank")
        cells.check_new(lines, cells.text("qid"), repr(row.qid), "qid")
        rows.append(row)
    if not rows:
        raise InputError("holds no items", path=path)
    return rows


# ---------------------------------------------------------------- errors


def summary(rows: Sequence[SheetRow]) -> pd.DataFrame:
    """Return the number of items with an error, for each data set and overall. BeRDS Table 19.

    Columns count finished items: errors (an answer "no", or a minor or major error), percent with its exact interval
    low and high, minor, major, "no" answers per column, and at_odds (a "no" without an error, or the reverse).
    """
    data_sets = sorted({row.data_set for row in rows})
    parts = [(name, [row for row in rows if row.data_set == name]) for name in data_sets]
    if len(parts) > 1:
        parts.append(("all", list(rows)))
    return pd.DataFrame([_counts(name, part) for name, part in parts])


def exact_percent(count: int, n: int) -> tuple[float, float]:
    """Return the exact 95 % interval (Clopper and Pearson) of a share, in percent; NaN if n is 0."""
    from scipy.stats import binomtest

    interval = binomtest(count, n).proportion_ci(LEVEL, method="exact") if n else (float("nan"), float("nan"))
    return 100 * float(interval[0]), 100 * float(interval[1])


def _counts(name: str, rows: Sequence[SheetRow]) -> dict[str, object]:
    finished = [row for row in rows if row.is_finished]
    errors = sum(row.has_error for row in finished)
    low, high = exact_percent(errors, len(finished))
    counts: dict[str, object] = {
        "data_set": name,
        "drawn": len(rows),
        "finished": len(finished),
        "errors": errors,
        "percent": 100 * errors / len(finished) if finished else float("nan"),
        "low": low,
        "high": high,
    }
    for grade in ("minor", "major"):
        counts[grade] = sum(row.severity == grade for row in finished)
    for column in ANSWERS:
        if "no" in ANSWERS[column]:
            counts[f"not_{column}"] = sum(row.answers[column] == "no" for row in finished)
    return counts | {"at_odds": sum(row.is_at_odds for row in finished)}


# ---------------------------------------------------------------- two reviewers


def reviewer_agreement(first: Sequence[SheetRow], second: Sequence[SheetRow]) -> pd.DataFrame:
    """Compare two reviewers' answers, column by column, over the items that both answered in that column.

    Frame column, n, percent (the same answer) with its exact interval low and high, and Cohen's kappa, NaN if only one
    answer occurs. The severity is ordered, so its kappa has quadratic weights.
    """
    from sklearn.metrics import cohen_kappa_score

    rows = []
    for column, choices in ANSWERS.items():
        answers = [(mine.answers[column], other.answers[column]) for mine, other in _pairs(first, second)]
        answers = [pair for pair in answers if "" not in pair]
        same = sum(mine == other for mine, other in answers)
        percent = 100 * same / len(answers) if answers else float("nan")
        kappa = float("nan")
        if len({answer for pair in answers for answer in pair}) > 1:
            weights = "quadratic" if len(choices) > 2 else None
            kappa = cohen_kappa_score(*zip(*answers, strict=True), labels=choices, weights=weights)
        rows.append((column, len(answers), percent, *exact_percent(same, len(answers)), kappa))
    return pd.DataFrame(rows, columns=["column", "n", "percent", "low", "high", "kappa"])


def disagreements(first: Sequence[SheetRow], second: Sequence[SheetRow]) -> pd.DataFrame:
    """Return the answers on which two reviewers differ: qid, data_set, question, column, both answers and notes."""
    names = ["qid", "data_set", "question", "column", "first", "second", "first_note", "second_note"]
    rows = []
    for mine, other in _pairs(first, second):
        for column, answer in mine.answers.items():
            both = (answer, other.answers[column])
            if "" not in both and both[0] != both[1]:
                rows.append((mine.qid, mine.data_set, mine.question, column, *both, mine.note, other.note))
    return pd.DataFrame(rows, columns=names)


def _pairs(first: Sequence[SheetRow], second: Sequence[SheetRow]) -> list[tuple[SheetRow, SheetRow]]:
    """Return pairs of the items that both sheets contain, in the order of the first sheet."""
    of_second = {row.qid: row for row in second}
    pairs = [(row, of_second[row.qid]) for row in first if row.qid in of_second]
    if not pairs:
        raise InputError("the two sheets have no item in common; draw one sheet, and give each reviewer a copy")
    for mine, other in pairs:
        if (mine.question, mine.perspectives) != (other.question, other.perspectives):
            raise InputError(f"item {mine.qid!r} has another question or other perspectives in the second sheet")
    return pairs
