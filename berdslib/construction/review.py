"""Reading made items by hand, 20 of each data set as in B.4 of BeRDS: the sheet, its errors, how far two readers agree.

A sheet is a CSV file that may be filled in part by part; each reviewer has a copy of the drawn one.
"""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.records import Question, check_questions
from berdslib.data.tables import check_new, read_jsonl
from berdslib.errors import InputError
from berdslib.files import StrPath, guarded, read_lines, unguarded, write_text
from berdslib.judging.examples import draw_questions
from berdslib.stats import percentiles, resampled_sums

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
LEVEL = 0.95  # of all intervals
LONGEST_SOURCE = 1500  # characters of a source that a reviewer is shown, about 250 words
_UNWRITTEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # no text, and not read back


class SheetRow(NamedTuple):
    """One item of a sheet, and what a reviewer says of it; what is still to be said is "".

    ``sources`` and ``perspectives`` are one a line, these with their stance in brackets, such as "(support)".
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
        return {name: getattr(self, name) for name in ANSWERS}

    @property
    def is_begun(self) -> bool:
        """Whether anything has been answered or noted."""
        return bool(self.note) or any(self.answers.values())

    @property
    def is_finished(self) -> bool:
        """Whether everything has been answered; a note is not needed."""
        return all(self.answers.values())

    @property
    def has_error(self) -> bool:
        """Whether an answer says no, or names an error."""
        return not {"no", "minor", "major"}.isdisjoint(self.answers.values())

    @property
    def is_at_odds(self) -> bool:
        """Whether it is finished and says no without an error, or yes to everything with one."""
        return self.is_finished and ("no" in self.answers.values()) is (self.severity == "none")


def draw_sheet(
    questions: Sequence[Question], sources: Mapping[str, Sequence[str]], n: int = 20, seed: int = 0
) -> list[SheetRow]:
    """Draw n questions from each data set, if it has so many, with their sources (qid → texts). BeRDS B.4."""
    check_questions(questions, need_perspectives=True)
    rows = list[SheetRow]()
    for source, of_source in groupby(sorted(questions, key=attrgetter("source")), attrgetter("source")):
        there = list(of_source)
        if len(there) < n:
            logger.warning("%s has %d questions, fewer than %d: all are drawn", source, len(there), n)
        for q in draw_questions(there, min(n, len(there)), seed, perspectives=None):
            texts = [shorten(text, LONGEST_SOURCE, placeholder=" […]") for text in sources.get(q.qid, ())]
            rows.append(SheetRow(q.qid, source, _lines(texts), _lines([q.text]), _lines(_with_stances(q))))
    return rows


def _with_stances(question: Question) -> list[str]:
    stances = question.stances or (None,) * len(question.perspectives)
    pairs = zip(question.perspectives, stances, strict=True)
    return [f"{text} ({stance})" if stance else text for text, stance in pairs]


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(" ".join(text.split()) for text in texts)


def read_sources(path: StrPath) -> dict[str, tuple[str, ...]]:
    """Read the texts that questions are made of: JSONL with an id (qid, id or key) and, in some rows, `sources`."""
    rows = (row for _, row in read_jsonl(path) if row.get("sources") is not None)
    return {row.text("qid", "id", "key"): row.texts("sources") for row in rows}


# ---------------------------------------------------------------- the file


def write_sheet(path: StrPath, rows: Sequence[SheetRow]) -> None:
    """Write a sheet as CSV, without control characters; under its name there is always a whole one, old or new."""
    if Path(path).suffix != ".csv":
        raise InputError("a sheet is written as .csv", path=path)
    with write_text(path) as file:
        file.write("\ufeff")  # else a spreadsheet under Windows takes UTF-8 for something else
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        writer.writerow(SheetRow._fields)
        writer.writerows([guarded(_UNWRITTEN.sub("", cell)) for cell in row] for row in rows)


def read_sheet(path: StrPath) -> list[SheetRow]:
    """Read a sheet, filled in or not, as a spreadsheet may have saved it; answers may be in any case."""
    (first, header), *table = _read_cells(path)
    names = [name.strip() for name in header]
    for name in SheetRow._fields:
        if names.count(name) != 1:
            there = "is there twice" if name in names else f"missing; a sheet has {', '.join(SheetRow._fields)}"
            raise InputError(there, path=path, line=first, field=name)
    width = 1 + max(map(names.index, SheetRow._fields))
    rows, lines = list[SheetRow](), dict[str, int]()
    for line, cells in table:
        if len(cells) < width:
            raise InputError(f"{len(cells)} columns where the header has {width}", path=path, line=line)
        for i, cell in enumerate(cells):
            name = names[i] if i < len(names) else ""
            if cell.strip() and name not in SheetRow._fields:
                problem = f"{cell[:40]!r} is in no column of a sheet, and would be lost; use the note"
                raise InputError(problem, path=path, line=line, field=name or None)
        row = SheetRow(*(_cell(cells[names.index(name)]) for name in SheetRow._fields))
        row = row._replace(**{name: said.strip().lower() for name, said in row.answers.items()})
        for name, said in row.answers.items():
            if said not in ("", *ANSWERS[name]):
                problem = f"{said!r} is no answer; accepted: {', '.join(ANSWERS[name])}, or nothing"
                raise InputError(problem, path=path, line=line, field=name)
        if not row.qid.strip():
            raise InputError("is blank", path=path, line=line, field="qid")
        check_new(lines, row.qid, repr(row.qid), path, line, "qid")
        rows.append(row)
    if not rows:
        raise InputError("holds no items", path=path)
    return rows


def _read_cells(path: StrPath) -> list[tuple[int, list[str]]]:
    """Return (line where it starts, cells) of each row that holds anything, the header first."""
    if Path(path).suffix != ".csv":
        raise InputError("a sheet is a .csv file", path=path)
    lines = [text for _, text in read_lines(path)]
    header = next((text for text in lines if text.strip()), "")
    delimiter = max(",;\t", key=header.count)  # the names of the columns hold none of them
    reader = csv.reader(lines, delimiter=delimiter, strict=True)  # strict: an open quotation mark would swallow rows
    found, line = list[tuple[int, list[str]]](), 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                found.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        problem = f"not a readable table: {error} (a quoted cell must be closed, a quotation mark in it doubled)"
        raise InputError(problem, path=path, line=line) from None
    if not found:
        raise InputError("holds no items", path=path)
    return found


def _cell(value: str) -> str:
    return unguarded(value.replace("\r\n", "\n"))


# ---------------------------------------------------------------- what it says


def summary(rows: Sequence[SheetRow]) -> pd.DataFrame:
    """Return how many items of each data set, and of all, have an error. BeRDS Table 19.

    Of the finished ones: errors (an answer "no" or an error named), percent with its exact interval low and high,
    minor, major, the answers "no" to each question, and at_odds (a no without an error or the reverse).
    """
    data_sets = sorted({row.data_set for row in rows})
    parts = [(name, [row for row in rows if row.data_set == name]) for name in data_sets]
    if len(parts) > 1:
        parts.append(("all", list(rows)))
    return pd.DataFrame([_counts(name, part) for name, part in parts])


def exact_percent(count: int, n: int) -> tuple[float, float]:
    """Return the exact interval at 95 % (Clopper and Pearson) of a share, in percent; NaN where n is 0."""
    from scipy.stats import binomtest

    interval = binomtest(count, n).proportion_ci(LEVEL, method="exact") if n else (float("nan"), float("nan"))
    return 100 * float(interval[0]), 100 * float(interval[1])


def _counts(name: str, rows: Sequence[SheetRow]) -> dict[str, object]:
    finished = [row for row in rows if row.is_finished]
    errors, n = sum(row.has_error for row in finished), len(finished)
    low, high = exact_percent(errors, n)
    return {
        "data_set": name,
        "drawn": len(rows),
        "finished": n,
        "errors": errors,
        "percent": 100 * errors / n if n else float("nan"),
        "low": low,
        "high": high,
        **{grade: sum(row.severity == grade for row in finished) for grade in ("minor", "major")},
        **{f"not_{c}": sum(row.answers[c] == "no" for row in finished) for c in ANSWERS if "no" in ANSWERS[c]},
        "at_odds": sum(row.is_at_odds for row in finished),
    }


# ---------------------------------------------------------------- two reviewers


def reviewer_agreement(
    first: Sequence[SheetRow],
    second: Sequence[SheetRow],
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare two reviewers' answers, column by column, over the items that both answered there.

    Frame column, n, percent (the same answer), Cohen's kappa and Krippendorff's alpha, each with low and high of an
    interval at 95 % (exact, or by the bootstrap over items), dropped (the share of the bootstrap samples in which only
    one answer occurs), and remark, which says why something is undefined (NaN). Of the severity, an order,
    disagreements are squared.
    """
    pairs = _pairs(first, second)
    rng = np.random.default_rng(seed)
    return pd.DataFrame([_of_column(column, pairs, resamples, rng) for column in ANSWERS])


def disagreements(first: Sequence[SheetRow], second: Sequence[SheetRow]) -> pd.DataFrame:
    """Return each answer in which two reviewers differ: qid, data_set, question, column, both answers and notes."""
    rows = [
        (a.qid, a.data_set, a.question, column, said, b.answers[column], a.note, b.note)
        for a, b in _pairs(first, second)
        for column, said in a.answers.items()
        if "" != said != b.answers[column] != ""
    ]
    names = ["qid", "data_set", "question", "column", "first", "second", "first_note", "second_note"]
    return pd.DataFrame(rows, columns=names)


def _pairs(first: Sequence[SheetRow], second: Sequence[SheetRow]) -> list[tuple[SheetRow, SheetRow]]:
    """Return the items that both sheets hold, in the order of the first."""
    other = {row.qid: row for row in second}
    pairs = [(row, other[row.qid]) for row in first if row.qid in other]
    if not pairs:
        raise InputError("the two sheets have no item in common; draw one sheet, and give each reviewer a copy")
    for a, b in pairs:
        if (a.question, a.perspectives) != (b.question, b.perspectives):
            raise InputError(f"item {a.qid!r} has another question or other perspectives in the second sheet")
    return pairs


def _of_column(
    column: str, pairs: Sequence[tuple[SheetRow, SheetRow]], resamples: int, rng: np.random.Generator
) -> dict[str, object]:
    choices = ANSWERS[column]
    answers = [(a.answers[column], b.answers[column]) for a, b in pairs]
    both = np.array([[choices.index(one) for one in pair] for pair in answers if "" not in pair], dtype=np.int64)
    measures = [f"{name}{end}" for name in ("percent", "kappa", "alpha") for end in ("", "_low", "_high")]
    row: dict[str, Any] = {"column": column, "n": len(both), **dict.fromkeys([*measures, "dropped"], np.nan)}
    if not len(both):
        return row | {"remark": "no item that both answered"}
    same = int((both[:, 0] == both[:, 1]).sum())
    low, high = exact_percent(same, len(both))
    row |= {"percent": 100 * same / len(both), "percent_low": low, "percent_high": high, "remark": ""}
    if len(np.unique(both)) == 1:
        remark = f"only {choices[both[0, 0]]!r} was answered, so that chance cannot be told from agreement"
        return row | {"remark": remark}
    cells = np.eye(len(choices) ** 2)[both @ (len(choices), 1)]
    row["kappa"], row["alpha"] = _chance_corrected(cells.sum(axis=0), len(choices))[0]
    samples = _chance_corrected(resampled_sums(cells, resamples, rng), len(choices))
    samples = samples[~np.isnan(samples[:, 0])]
    row["dropped"] = dropped = 1 - len(samples) / resamples
    if dropped > 1 - LEVEL:
        remark = f"{dropped:.1%} of the bootstrap samples hold one answer only: too many for an interval"
        return row | {"remark": remark}
    for name, low, high in zip(("kappa", "alpha"), *percentiles(samples, LEVEL), strict=True):
        if low < high:
            row |= {f"{name}_low": low, f"{name}_high": high}
        else:
            row["remark"] = "all bootstrap samples give the same: no interval"
    return row


def _chance_corrected(counts: np.ndarray, choices: int) -> np.ndarray:
    """Return Cohen's kappa and Krippendorff's alpha, (r, 2), of counts of pairs of answers; NaN where all are the same.

    Both are 1 - observed / expected disagreement, expected of each reviewer's answers, or of all that were given.
    """
    counts = counts.reshape(-1, choices, choices)
    distances = np.subtract.outer(np.arange(choices), np.arange(choices)) ** 2.0
    n = counts[0].sum()
    one, other = counts.sum(axis=2), counts.sum(axis=1)
    pooled = one + other
    by_reviewer = np.einsum("ri,ij,rj->r", one, distances, other) / n**2
    by_answer = np.einsum("ri,ij,rj->r", pooled, distances, pooled) / (2 * n * (2 * n - 1))
    observed = (counts * distances).sum(axis=(1, 2)) / n
    with np.errstate(invalid="ignore"):
        return 1 - observed[:, None] / np.stack([by_reviewer, by_answer], axis=1)
