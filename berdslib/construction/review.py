"""Reading made items by hand, 20 of each data set as in B.4 of BeRDS: the sheet, its errors, how far two readers agree.

A sheet is a CSV file that a spreadsheet opens as well as :class:`berdslib.construction.form.ReviewForm`, and that may
be filled in part by part. Each reviewer has a copy of the drawn sheet.
"""

from __future__ import annotations

import csv
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.records import Question, check_questions
from berdslib.data.tables import read_jsonl
from berdslib.errors import InputError
from berdslib.files import StrPath, read_lines, write_text
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
    check_questions(questions, need_perspectives=True)
    drawn, few = list[Question](), list[str]()
    for source, size in sorted(Counter(q.source for q in questions).items()):
        there = [q for q in questions if q.source == source]
        drawn += draw_questions(there, min(n, size), seed, perspectives=None)
        few += [f"{source} has {size}"] if size < n else []
    if few:
        logger.warning("fewer than %d questions, all of which are drawn: %s", n, ", ".join(few))
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
    for _, row in read_jsonl(path):
        texts = row.get("sources")
        if texts is None:
            continue
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise row.wrong("sources", "a list of texts was expected")
        found[row.text("qid", "id", "key")] = texts
    return found


# ---------------------------------------------------------------- the file

_COLUMNS = ", ".join(SheetRow._fields)


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
    header, line = list[str](), 1
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                pass
            elif header:
                yield line, _named(cells, header, path, line)
            else:
                header = [name.strip() for name in cells]
                for name in SheetRow._fields:
                    if header.count(name) != 1:
                        problem = "is there twice" if name in header else f"missing; a sheet has {_COLUMNS}"
                        raise InputError(problem, path=path, line=line, field=name)
            line = reader.line_num + 1
    except csv.Error as error:
        problem = f"not a readable table: {error} (a quoted cell must be closed, a quotation mark in it doubled)"
        raise InputError(problem, path=path, line=line) from None


def _named(cells: Sequence[str], header: Sequence[str], path: StrPath, line: int) -> dict[str, str]:
    """Return column → cell; outside of the columns of a sheet there must be nothing."""
    width = max(header.index(name) for name in SheetRow._fields) + 1
    if len(cells) < width:
        raise InputError(f"{len(cells)} columns where the header has {width}", path=path, line=line)
    named = list(zip_longest(header, cells, fillvalue=""))
    for name, cell in named:
        if name not in SheetRow._fields and cell.strip():
            problem = f"{cell[:40]!r} is in no column of a sheet, and would be lost; use the note"
            raise InputError(problem, path=path, line=line, field=name or None)
    return dict(named)


def _cell(value: str) -> str:
    text = value.replace("\r\n", "\n")
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


# ---------------------------------------------------------------- what it says


def summary(rows: Sequence[SheetRow], level: float = 0.95) -> pd.DataFrame:
    """Return how many items of each data set have an error. BeRDS Table 19.

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


# ---------------------------------------------------------------- two reviewers


def reviewer_agreement(
    first: Sequence[SheetRow],
    second: Sequence[SheetRow],
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare two reviewers' answers, column by column, over the items that both answered there.

    Kappa is Cohen's, from scikit-learn; alpha is Krippendorff's, from NLTK. The severity is an order: there both weigh
    a disagreement by its square, so that "none" against "major" counts four times as much as "none" against "minor".

    Args:
        first: a sheet.
        second: another reviewer's, of the same items; other items are left aside.
        level: coverage of the intervals: exact of the percentage (Clopper and Pearson), and of kappa and alpha by
            the bootstrap, which draws items.
        resamples: bootstrap samples. Those in which only one answer occurs have neither kappa nor alpha, and are
            dropped.
        seed: of the draws.

    Returns:
        Frame with columns column, n, percent (items with the same answer), kappa and alpha, each with low and high
        ends, dropped (the share of the bootstrap samples), and remark. NaN for what is undefined: kappa and alpha where
        only one answer occurs; their intervals too of fewer than two items, where more samples are dropped than the
        interval leaves out at its ends, and where it has no width, as that of two who agree on everything.
    """
    pairs = _pairs(first, second)
    rng = np.random.default_rng(seed)
    return pd.DataFrame([_of_column(column, pairs, level, resamples, rng) for column in ANSWERS])


def disagreements(first: Sequence[SheetRow], second: Sequence[SheetRow]) -> pd.DataFrame:
    """Return each answer in which two reviewers differ: qid, data_set, question, column, both answers and notes."""
    rows = [
        (a.qid, a.data_set, a.question, column, getattr(a, column), getattr(b, column), a.note, b.note)
        for a, b in _pairs(first, second)
        for column in ANSWERS
        if "" != getattr(a, column) != getattr(b, column) != ""
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
    column: str, pairs: Sequence[tuple[SheetRow, SheetRow]], level: float, resamples: int, rng: np.random.Generator
) -> dict[str, object]:
    choices = ANSWERS[column]
    answers = [(getattr(a, column), getattr(b, column)) for a, b in pairs]
    both = np.array([[choices.index(one) for one in pair] for pair in answers if "" not in pair], dtype=np.int64)
    measures = [f"{name}{end}" for name in ("percent", "kappa", "alpha") for end in ("", "_low", "_high")]
    row: dict[str, Any] = {"column": column, "n": len(both), **dict.fromkeys([*measures, "dropped"], np.nan)}
    if not len(both):
        return row | {"remark": "no item that both answered"}
    same = int((both[:, 0] == both[:, 1]).sum())
    low, high = exact_percent(same, len(both), level)
    row |= {"percent": 100 * same / len(both), "percent_low": low, "percent_high": high, "remark": ""}
    if len(set(both.ravel().tolist())) == 1:
        remark = f"only {choices[both[0, 0]]!r} was answered, so that chance cannot be told from agreement"
        return row | {"remark": remark}
    drawn = _resampled(both, len(choices), resamples, rng)
    row["dropped"] = dropped = 1 - len(drawn[0]) / resamples
    too_many = dropped > 1 - level
    for name, value, samples in zip(("kappa", "alpha"), _chance_corrected(both, choices), drawn, strict=True):
        low, high = (np.nan, np.nan) if too_many or not len(samples) else map(float, percentiles(samples, level))
        row |= {name: value} | ({f"{name}_low": low, f"{name}_high": high} if low < high else {})
    if np.isnan([row["kappa_low"], row["alpha_low"]]).any():
        row["remark"] = "all bootstrap samples give the same: no interval"
        if len(both) > 1 and too_many:
            row["remark"] = f"{dropped:.0%} of the bootstrap samples hold one answer only: too many for an interval"
    return row


def _chance_corrected(both: np.ndarray, choices: Sequence[str]) -> tuple[float, float]:
    """Return Cohen's kappa and Krippendorff's alpha of answers (n, 2), as places among the choices."""
    from nltk.metrics import binary_distance, interval_distance
    from nltk.metrics.agreement import AnnotationTask
    from sklearn.metrics import cohen_kappa_score

    weights, distance = ("quadratic", interval_distance) if len(choices) > 2 else (None, binary_distance)
    kappa = cohen_kappa_score(both[:, 0], both[:, 1], labels=range(len(choices)), weights=weights)
    said = [(reviewer, item, int(both[item, reviewer])) for item in range(len(both)) for reviewer in (0, 1)]
    return float(kappa), float(AnnotationTask(said, distance=distance).alpha())


def _resampled(
    both: np.ndarray, choices: int, resamples: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return kappa and alpha of bootstrap samples, each without those that have only one answer.

    Both are 1 - observed / expected disagreement: expected of two reviewers with the answers that each has, or of any
    two of all answers that were given. The libraries count one sample at a time, which would take minutes.
    """
    cells = np.eye(choices**2)[both[:, 0] * choices + both[:, 1]]
    counts = resampled_sums(cells, resamples, rng).reshape(-1, choices, choices)
    distances = np.subtract.outer(np.arange(choices), np.arange(choices)) ** 2.0
    n = len(both)
    observed = (counts * distances).sum(axis=(1, 2)) / n
    one, other = counts.sum(axis=2), counts.sum(axis=1)
    pooled = one + other
    by_reviewer = np.einsum("ri,ij,rj->r", one, distances, other) / n**2
    by_answer = np.einsum("ri,ij,rj->r", pooled, distances, pooled) / (2 * n * (2 * n - 1))
    kappa, alpha = (1 - observed[e > 0] / e[e > 0] for e in (by_reviewer, by_answer))
    return kappa, alpha
