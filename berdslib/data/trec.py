"""Verdict tables and the files of TREC: runs and diversity qrels."""

from __future__ import annotations

import csv
import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Any

import pandas as pd

from berdslib.data.records import (
    DOCNO_NAMES,
    GRADE,
    MOST_PERSPECTIVES,
    QID_NAMES,
    QRELS_COLUMNS,
    RELEVANCE_NAMES,
    SUBTOPIC_NAMES,
    Passage,
    Qrels,
    Question,
    check_run,
    check_verdicts,
    make_run,
    make_run_as_trec_eval,
    read_pairs,
    some_of,
    verdicts_from_qrels,
)
from berdslib.data.tables import Row, detect_layout, is_missing, plain_name, read_json, read_table, repeated
from berdslib.errors import InputError, errors_in
from berdslib.files import StrPath, read_lines, unguarded, write_text

logger = logging.getLogger(__name__)


def read_trec_run(path: StrPath) -> pd.DataFrame:
    """Read a TREC run file: `qid Q0 docno rank score tag`, separated by blanks, perhaps with lines of # before.

    The run is ranked as trec_eval ranks it, so that both score the same list: by the scores in single precision, never
    by the column of ranks, and by the larger docno among equal scores. Runs made here break ties by the smaller docno
    and separate equal scores, so that reading a written run restores it.
    """
    rows = []
    for row in _blank_separated(path, "qid Q0 docno rank score tag"):
        rows.append((row["qid"], row["docno"], row.number("score")))
    with errors_in(path):
        return make_run_as_trec_eval(*zip(*rows, strict=True))


def read_run(path: StrPath | Mapping[str, Any]) -> pd.DataFrame:
    """Read a run in any layout, detected from the file's content; a mapping is read like JSON.

    * TREC's six columns, or three (qid docno score), separated by blanks, tabs, commas or semicolons. If the third
      column counts 1, 2, 3 … it is a rank, as in MS MARCO's files.
    * A table with named columns in CSV, TSV, JSON, JSONL or Parquet: question id, passage id, and score or rank, under
      the names of PyTerrier, ir_measures, ranx and Hugging Face.
    * JSON of {qid: {docno: score}}, as in pytrec_eval and ranx, or mteb's predictions (2.26), with one subset and one
      split.
    * JSONL with one line per question, {"query_id", "results": [{"corpus_id", "score"}, …]}, as written by
      sentence-transformers (6.2).

    All but the last are ranked as trec_eval ranks them, see :func:`read_trec_run`.
    """
    if isinstance(path, Mapping):
        return _run_of(_nested_rows(_one_run(path, "the run"), "the run"), "the run")
    if _is_mapping(path, RUN_NAMES):
        return _run_of(_json_rows(path), path)
    return _run_of(_rows(path, RUN_NAMES, RUN_LAYOUTS, "a run"), path)


def _run_of(rows: Iterable[Row], path: StrPath) -> pd.DataFrame:
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        raise InputError("lists nothing", path=path)
    in_results = "results" in first
    rows = chain([first], rows)
    if in_results:
        rows = chain.from_iterable(map(_results, rows))
    hits = list(map(_hit, rows))
    if not hits:
        raise InputError("lists nothing", path=path)
    frame = pd.DataFrame(hits, columns=["qid", "docno", "score", "rank"])
    is_unnamed = not in_results and first.keys() == {"qid", "docno", "score"}
    scores = _scores(frame, path, is_unnamed)
    make = make_run if in_results else make_run_as_trec_eval
    with errors_in(path):
        return make(frame["qid"].tolist(), frame["docno"].tolist(), scores.tolist())


def _hit(row: Row) -> tuple[str, str, float | None, float | None]:
    """Return qid, docno, score and rank of a row; one of score and rank may be missing."""
    score = None
    field = _field(row, SCORE_NAMES)
    if field in row or "rank" not in row:
        score = row.number(field)
    rank = row.number("rank") if _is_number(row.get("rank")) else None
    qid = row.text(_field(row, QID_NAMES))
    docno = row.text(_field(row, PASSAGE_NAMES))
    return qid, docno, score, rank


def _results(row: Row) -> Iterator[Row]:
    """Yield the hits of a line of sentence-transformers' predictions."""
    results = row.get("results")
    if not isinstance(results, list) or not all(isinstance(hit, dict) for hit in results):
        raise row.wrong("results", "a list of objects was expected, each with corpus_id and score")
    qid = row.text(*QID_NAMES)
    for i, hit in enumerate(results):
        yield Row({**hit, "qid": qid}, row.path, row.line, within=f"results[{i}].")


def _scores(frame: pd.DataFrame, path: StrPath, unnamed: bool) -> pd.Series:
    """Return the values that rank a run: its scores, or its negated ranks if scores are missing."""
    frame = frame.astype({"score": float, "rank": float})
    if frame["score"].isna().any():
        return -frame["rank"].fillna(-frame["score"])
    place = frame.groupby("qid").cumcount()
    counts_from_1 = {*(frame["score"] - place)} <= {1.0}
    if unnamed and counts_from_1:
        logger.warning("%s: the third column counts 1, 2, 3 … and is read as the rank; the first is the best", path)
        return -frame["score"]
    by_question = frame.groupby("qid")
    is_best = frame["score"] == by_question["score"].transform("max")
    is_worst = frame["score"] == by_question["score"].transform("min")
    is_last = frame["rank"] == by_question["rank"].transform("max")
    best_is_last = is_last[is_best & ~is_worst]
    if best_is_last.size and best_is_last.all():
        problem = "scores grow with the rank in every list; as in trec_eval the largest score is the best"
        logger.warning("%s: %s; if they are distances, negate them", path, problem)
    return frame["score"]


# ---------------------------------------------------------------- files in any layout


# Names of columns in files with a header; the columns of files without one, by their number.
SCORE_NAMES = ("score", "sim", "similarity")
PASSAGE_NAMES = (*DOCNO_NAMES, "pid")  # MS MARCO's name; beside p_yes it is the number of a perspective
RUN_NAMES = (*QID_NAMES, *DOCNO_NAMES, *SCORE_NAMES, "rank", "results")
RUN_LAYOUTS = {6: "qid Q0 docno rank score tag", 3: "qid docno score"}
VERDICT_NAMES = ("pid", "p_yes", "supports", "judge", GRADE)
GOLD_NAMES = (*QID_NAMES, *DOCNO_NAMES, *SUBTOPIC_NAMES, *RELEVANCE_NAMES, *VERDICT_NAMES)
QRELS_LAYOUTS = {4: "qid subtopic docno relevance", 3: "qid docno relevance"}
_KINDS = {6: "a run", 4: "qrels"}


def _rows(path: StrPath, known: Sequence[str], layouts: Mapping[int, str], kind: str) -> Iterator[Row]:
    """Yield the rows of a file with lower-case names of columns, from its header or else its layout."""
    if Path(path).is_dir():
        raise InputError("is a directory; expected a file", path=path)
    seen = detect_layout(path, known)
    has_header = seen.header and not any(map(_is_number, seen.cells))
    has_named_columns = seen.form in ("jsonl", "json", "parquet", "arrow")
    if has_named_columns or (has_header and seen.form == "table"):
        for line, row in read_table(path, known):
            yield Row({plain_name(name): value for name, value in row.items()}, path, line)
        return
    names = [plain_name(cell) for cell in seen.cells] if has_header else []
    delimiter = seen.delimiter if len(seen.cells) in layouts else ""
    for line, cells in _cells(path, delimiter):
        if names and [plain_name(cell) for cell in cells] == names:
            continue
        if not names:
            if len(cells) not in layouts:
                raise _no_layout(cells, layouts, kind, path, line)
            names = layouts[len(cells)].split()
        if len(cells) != len(names):
            raise InputError(f"{len(cells)} columns; expected {len(names)}: {' '.join(names)}", path=path, line=line)
        yield Row(zip(names, cells, strict=True), path, line)


def _cells(path: StrPath, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) of the non-blank lines of a file; without a delimiter, blanks separate the cells."""
    for line, text in read_lines(path):
        cells = text.split()
        if not cells or cells[0] == "#":  # a header, such as that of ir_metadata
            continue
        if delimiter:
            [row] = csv.reader([text], delimiter=delimiter)
            cells = [cell.strip() for cell in row]
        yield line, cells


def _no_layout(cells: Sequence[str], layouts: Mapping[int, str], kind: str, path: StrPath, line: int) -> InputError:
    expected = " or ".join(f"{n} ({names})" for n, names in layouts.items())
    other = _KINDS.get(len(cells), "")
    hint = f"; this looks like {other}" if other else ""
    found = f"{len(cells)} columns, {' '.join(cells)[:60]!r}"
    problem = f"{found}; {kind} has {expected}, or a header with the names of its columns{hint}"
    return InputError(problem, path=path, line=line)


def _is_mapping(path: StrPath, known: Sequence[str]) -> bool:
    """Return whether a file is JSON of {qid: {…}}, not a table of columns."""
    if Path(path).is_dir() or detect_layout(path, known).form != "json":
        return False
    content = read_json(path)
    if not isinstance(content, dict):
        return False
    names = {plain_name(name) for name in content}
    has_ids = not names.isdisjoint(QID_NAMES) and not names.isdisjoint(DOCNO_NAMES)
    return not has_ids and not {"columns", "data"} <= names


def _json_rows(path: StrPath) -> Iterator[Row]:
    return _nested_rows(_one_run(read_json(path), path), path)


def _nested_rows(content: Mapping[str, Any], path: StrPath) -> Iterator[Row]:
    """Yield the rows of {qid: {docno: number}}, or of qrels with {docno: {subtopic: number}}."""
    for qid, listed in content.items():
        if not isinstance(listed, Mapping):
            raise InputError("{docno: number, …} was expected for each question", path=path, field=str(qid))
        for docno, value in listed.items():
            by_subtopic = value if isinstance(value, Mapping) else {0: value}
            for subtopic, number in by_subtopic.items():
                is_number = isinstance(number, Real) and not isinstance(number, bool)
                if not is_number or not math.isfinite(number):
                    problem = f"{{docno: number, …}} was expected for each question, not {number!r} for {docno!r}"
                    raise InputError(problem, path=path, field=str(qid))
                cells = {"qid": qid, "docno": docno, "subtopic": subtopic, "score": float(number)}
                yield Row(cells, path)


def _field(row: Row, names: Sequence[str]) -> str:
    """Return the first name that is a non-empty field of a row; the first name if there is no such field."""
    return next((name for name in names if row.get(name) not in (None, "")), names[0])


def _is_number(text: object) -> bool:
    try:
        return math.isfinite(float(str(text)))
    except ValueError:
        return False


def _one_run(content: Any, path: StrPath) -> Mapping[str, Any]:
    """Return qid → {docno: score}; of mteb's predictions, those of the only subset and split."""
    if not isinstance(content, Mapping):
        raise InputError(f"an object {{qid: {{docno: score}}}} was expected, not {type(content).__name__}", path=path)
    if "mteb_model_meta" not in content:
        return content
    places = []
    for subset, splits in content.items():
        if subset != "mteb_model_meta":
            places += [(subset, split) for split in splits]
    if len(places) != 1:
        listed = ", ".join(f"[{subset!r}][{split!r}]" for subset, split in places) or "none"
        raise InputError(f"holds several runs, {listed}; give one, bd.read_run(json.load(…)[…][…])", path=path)
    [(subset, split)] = places
    return _one_run(content[subset][split], path)


def write_trec_run(path: StrPath, run: pd.DataFrame, tag: str = "berdslib") -> None:
    """Write a TREC run; scores keep all their digits, so that writing creates no ties.

    Args:
        path: the file to write.
        run: frame qid, docno and score (or rank), see :func:`berdslib.data.records.check_run`.
        tag: the last column.
    """
    run = check_run(run)
    _require_no_blanks(qid=run["qid"], docno=run["docno"], tag=[tag])
    with write_text(path) as file:
        for qid, docno, rank, score in run[["qid", "docno", "rank", "score"]].itertuples(index=False):
            file.write(f"{qid} Q0 {docno} {rank} {float(score)!r} {tag}\n")


def check_trec_ids(questions: Iterable[Question], passages: Iterable[Passage]) -> None:
    """Raise InputError for an id that TREC files cannot carry; call this before making a run that is to be written.

    Args:
        questions: the asked questions.
        passages: the corpus; only the docnos of a corpus on disk are read.
    """
    docnos = passages.docnos() if hasattr(passages, "docnos") else (passage.docno for passage in passages)
    _require_no_blanks(qid=(question.qid for question in questions), docno=docnos)


def read_trec_qrels(
    path: StrPath, *, first_subtopic: int | None = None, relevance_level: float | None = 1.0
) -> pd.DataFrame:
    """Read TREC qrels (`qid subtopic docno relevance`) as gold verdicts, subtopics as perspectives from 0.

    Args:
        path: the file. One word in the whole second column ("Q0") means that there are no subtopics.
        first_subtopic: the number of a topic's first subtopic, 0 or 1; None to decide for each topic, see
            :func:`berdslib.data.records.verdicts_from_qrels`.
        relevance_level: the smallest relevance that is a yes; None to set it later, by
            :func:`berdslib.data.records.at_level`.
    """
    qrels = _qrels_of(_blank_separated(path, "qid subtopic docno relevance"), path)
    with errors_in(path):
        return verdicts_from_qrels(qrels, first_subtopic=first_subtopic, relevance_level=relevance_level)[0]


def _qrels_of(rows: Iterable[Row], path: StrPath) -> Qrels:
    found: list[tuple[str, Any, str, float]] = []
    lines: list[int] = []
    seen: dict[Any, int] = {}
    for row in rows:
        qid = row.text(_field(row, QID_NAMES))
        docno = row.text(_field(row, PASSAGE_NAMES))
        line = row.line or len(found) + 1
        subtopic = row.get(_field(row, SUBTOPIC_NAMES), 0)
        first = seen.setdefault((qid, str(subtopic), docno), line)
        if first != line:
            raise repeated(f"passage {docno!r} of query {qid!r}", first, path, line, "docno")
        found.append((qid, subtopic, docno, row.number(_field(row, RELEVANCE_NAMES))))
        lines.append(line)
    if not found:
        raise InputError("is empty", path=path)
    return Qrels(pd.DataFrame(found, columns=QRELS_COLUMNS), path, lines).numbered()


def write_trec_qrels(path: StrPath, verdicts: pd.DataFrame) -> None:
    """Write verdicts as TREC diversity qrels for pyndeval and ir-measures, perspectives as subtopics from 0.

    The relevance is the grade, or 1 and 0 without grades. Answers that could not be read are left out: those pairs
    are unjudged.

    Raises:
        InputError: a grade that is not a whole number, which TREC's tools cannot read, or an id with a blank.
    """
    verdicts = read_pairs(check_verdicts(verdicts))
    _require_no_blanks(qid=verdicts["qid"], docno=verdicts["docno"])
    relevance = verdicts[GRADE] if GRADE in verdicts else verdicts["supports"].astype(float)
    fractions = relevance[relevance % 1 != 0]
    if fractions.size:
        problem = f"{fractions.iloc[0]:g} is not a whole number, as TREC files require"
        raise InputError(f"{problem}; write the verdicts as .tsv or .csv", path=path, field=GRADE)
    rows = zip(verdicts["qid"], verdicts["pid"], verdicts["docno"], relevance.astype(int), strict=True)
    with write_text(path) as file:
        for qid, pid, docno, gain in rows:
            file.write(f"{qid} {pid} {docno} {gain}\n")


def read_verdicts(
    path: StrPath, *, first_subtopic: int | None = None, relevance_level: float | None = 1.0
) -> pd.DataFrame:
    """Read a verdict table (JSONL, CSV or TSV: qid, pid, docno, p_yes or supports, judge), or qrels.

    An empty p_yes is an answer that could not be read. `first_subtopic` and `relevance_level` are for qrels, see
    :func:`read_trec_qrels`.
    """
    found = read_judgements(path)
    if not isinstance(found, Qrels):
        return found
    with errors_in(path):
        return verdicts_from_qrels(found, first_subtopic=first_subtopic, relevance_level=relevance_level)[0]


def read_judgements(path: StrPath | Mapping[str, Any]) -> Qrels | pd.DataFrame:
    """Read qrels, unconverted, or verdicts, in any layout, detected from the file's content.

    Qrels are TREC's four columns, or three (qid docno relevance), separated by blanks, tabs, commas or semicolons; a
    table with named columns, under the names of BEIR, Hugging Face, ir_measures, PyTerrier and ranx; or a mapping, also
    as JSON, {qid: {docno: relevance}} or {qid: {docno: {subtopic: relevance}}}. Verdicts are a table with a column pid.
    """
    if isinstance(path, Mapping):
        return _qrels_of(_nested_rows(path, "the qrels"), "the qrels")
    if _is_mapping(path, GOLD_NAMES):
        return _qrels_of(_nested_rows(read_json(path), path), path)
    rows = _rows(path, GOLD_NAMES, QRELS_LAYOUTS, "a file of qrels")
    first = next(rows, None)
    if first is None:
        raise InputError("holds no verdicts", path=path)
    rows = chain([first], rows)
    is_docno = first.has(*RELEVANCE_NAMES) and not first.has(*DOCNO_NAMES)  # MS MARCO calls a passage pid
    if {"pid", "p_yes", "supports"} & first.keys() and not is_docno:
        return _verdicts_of(rows, path)
    if not first.has(*RELEVANCE_NAMES):
        expected = "qid, pid, docno and p_yes or supports (verdicts), or qid, docno and relevance (qrels)"
        problem = f"the columns {expected} were expected; the row has: {', '.join(first)}"
        raise first.wrong("relevance", problem)
    return _qrels_of(rows, path)


def _verdicts_of(rows: Iterable[Row], path: StrPath) -> pd.DataFrame:
    found: list[dict[str, Any]] = []
    unlabelled = 0
    for row in rows:
        is_sheet = {"label", "perspective"} <= row.keys()  # of `berds rate pairs`, filled in by people
        if is_sheet and (is_missing(row["label"]) or not str(row["label"]).strip()):
            unlabelled += 1
            continue
        pid = row.number("pid")
        if pid % 1 or not 0 <= pid < MOST_PERSPECTIVES:
            raise row.wrong("pid", f"{row['pid']!r} is not a whole number from 0, the index of the perspective")
        cells: dict[str, Any] = {"qid": row.text(*QID_NAMES), "pid": pid, "docno": row.text(*DOCNO_NAMES)}
        if is_sheet:
            cells["qid"] = unguarded(cells["qid"])
            cells["docno"] = unguarded(cells["docno"])
            cells["supports"] = row.verdict("label", row["label"]) >= 0.5
        elif not row.has("p_yes", "supports") and row.has(*RELEVANCE_NAMES):
            cells["relevance"] = row.number(row.first(*RELEVANCE_NAMES)[0])
        else:
            cells |= _answer(row)
        found.append(cells)
    if unlabelled:
        some = some_of(unlabelled, unlabelled + len(found), "pair", "have")
        logger.warning("%s: %s no label: left out", path, some)
    if not found:
        raise InputError("holds no verdicts", path=path)
    with errors_in(path):
        return check_verdicts(pd.DataFrame(found))


def _answer(row: Row) -> dict[str, Any]:
    """Return the answer in a row of a verdict table; an empty p_yes beside supports is an unread answer."""
    is_unread = "p_yes" in row and not row.has("p_yes") and row.has("supports")
    p_yes = math.nan if is_unread else row.verdict(*row.first("p_yes", "supports"))
    supports = row.verdict("supports", row["supports"]) if row.has("supports") else p_yes
    answer = {"p_yes": p_yes, "supports": supports >= 0.5, "judge": row.text("judge", default="gold")}
    if row.has(GRADE):
        answer[GRADE] = row.number(GRADE)
    return answer


def write_verdicts(path: StrPath, verdicts: pd.DataFrame) -> None:
    """Write verdicts as TSV or CSV with named columns, chosen by the file's name (compressed if it ends in .gz)."""
    ending = Path(str(path).removesuffix(".gz")).suffix
    if ending not in (".tsv", ".csv"):
        raise InputError("verdicts are written as .tsv or .csv (also with .gz), or as .qrels", path=path)
    verdicts = check_verdicts(verdicts)
    for column in ("qid", "docno", "judge"):
        _require(column, verdicts[column], r"[^\r]+", "is empty or holds a carriage return")
    with write_text(path) as file:
        frame = verdicts.astype({"supports": int})
        frame.to_csv(file, sep="\t" if ending == ".tsv" else ",", index=False, lineterminator="\n")


def _blank_separated(path: StrPath, layout: str) -> Iterator[Row]:
    names = layout.split()
    is_empty = True
    for line, cells in _cells(path, ""):
        if len(cells) != len(names):
            raise InputError(f"{len(cells)} columns; expected {len(names)}: {layout}", path=path, line=line)
        is_empty = False
        yield Row(zip(names, cells, strict=True), path, line)
    if is_empty:
        raise InputError("is empty", path=path)


def _require_no_blanks(**columns: Iterable[str]) -> None:
    # All blanks of Unicode, as in reading; the search of pandas knows only the ASCII blanks.
    pattern = r"[^\s\0\ufeff]+"
    for field, values in columns.items():
        if field == "qid":  # "# " begins a comment
            problem = "is empty or holds a blank, or is # alone, which TREC files cannot carry"
            _require(field, values, f"(?!#$){pattern}", problem)
        else:
            _require(field, values, pattern, "is empty or holds a blank, which TREC files cannot carry")


def _require(field: str, values: Iterable[str], pattern: str, problem: str) -> None:
    fits = re.compile(pattern).fullmatch
    for value in values:
        if not fits(value):
            raise InputError(f"{value!r} {problem}", field=field)
