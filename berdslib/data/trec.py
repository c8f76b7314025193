"""Verdict tables and the files of TREC: runs and diversity qrels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from berdslib.data.records import MOST_PERSPECTIVES, check_run, check_verdicts, make_verdicts
from berdslib.data.tables import number, numeral, read_table, text_field, yes_probability
from berdslib.errors import InputError, errors_in
from berdslib.files import StrPath, read_lines, write_text


def read_trec_run(path: StrPath) -> pd.DataFrame:
    """Read a TREC run file: `qid Q0 docno rank score tag`, separated by blanks.

    Raises:
        InputError: a line without six columns, a score that is not a number, a repeated docno, an empty file.
    """
    rows = [
        (c[0], c[2], number(c[4], path, line, "score"))
        for line, c in _blank_separated(path, 6, "qid Q0 docno rank score tag")
    ]
    with errors_in(path):
        return check_run(pd.DataFrame(rows, columns=["qid", "docno", "score"]))


def write_trec_run(path: StrPath, run: pd.DataFrame, tag: str = "berdslib") -> None:
    """Write a TREC run; scores keep all their digits, so that no tie appears that was not there.

    Raises:
        InputError: an id that holds a blank: it could not be read back.
    """
    _require_no_blanks(run.assign(tag=tag), ("qid", "docno", "tag"))
    with write_text(path) as file:
        for qid, docno, rank, score in run[["qid", "docno", "rank", "score"]].itertuples(index=False):
            file.write(f"{qid} Q0 {docno} {rank} {score!r} {tag}\n")


def read_trec_qrels(path: StrPath, judge: str = "gold") -> pd.DataFrame:
    """Read TREC diversity qrels (`qid subtopic docno relevance`) as verdicts; the subtopic is the perspective's index.

    Raises:
        InputError: a line without four columns, a subtopic that is not a whole number from 0, an empty file.
    """
    rows = []
    for line, (qid, subtopic, docno, relevance) in _blank_separated(path, 4, "qid subtopic docno relevance"):
        if not subtopic.isdecimal() or int(subtopic[:20]) >= MOST_PERSPECTIVES:
            raise InputError(f"{subtopic!r} is not a whole number from 0", path=path, line=line, field="subtopic")
        yes = number(relevance, path, line, "relevance") > 0
        rows.append((qid, int(subtopic), docno, float(yes), yes))
    with errors_in(path):
        return make_verdicts(rows, judge)


def write_trec_qrels(path: StrPath, verdicts: pd.DataFrame) -> None:
    """Write verdicts as TREC diversity qrels (relevance 1 or 0), which pyndeval and ir-measures read."""
    _require_no_blanks(verdicts, ("qid", "docno"))
    with write_text(path) as file:
        for qid, pid, docno, yes in verdicts[["qid", "pid", "docno", "supports"]].itertuples(index=False):
            file.write(f"{qid} {pid} {docno} {int(yes)}\n")


def read_verdicts(path: StrPath) -> pd.DataFrame:
    """Read a verdict table (JSONL, CSV or TSV: qid, pid, docno, p_yes or supports, judge), or TREC diversity qrels.

    Raises:
        InputError: a missing column, a value out of range, the same verdict twice, an empty file.
    """
    if not str(path).removesuffix(".gz").endswith((".jsonl", ".json", ".ndjson", ".csv", ".tsv")):
        return read_trec_qrels(path)
    rows = []
    for line, row in read_table(path):
        missing = [c for c in ("qid", "pid", "docno") if c not in row]
        value_name = "p_yes" if "p_yes" in row else "supports"
        if missing or value_name not in row:
            raise InputError("missing", path=path, line=line, field=(missing or ["p_yes or supports"])[0])
        p_yes = yes_probability(numeral(row[value_name]), path, line, value_name)
        supports = (
            yes_probability(numeral(row["supports"]), path, line, "supports") >= 0.5
            if "supports" in row
            else p_yes >= 0.5
        )
        pid = number(row["pid"], path, line, "pid")
        if pid % 1 or not 0 <= pid < MOST_PERSPECTIVES:
            problem = f"{row['pid']!r} is not a whole number from 0, the index of the perspective"
            raise InputError(problem, path=path, line=line, field="pid")
        judge = text_field(row, ("judge",), path, line, default="gold")
        qid, docno = (text_field(row, (f,), path, line) for f in ("qid", "docno"))
        rows.append((qid, pid, docno, p_yes, supports, judge))
    if not rows:
        raise InputError("holds no verdicts", path=path)
    frame = pd.DataFrame(rows, columns=["qid", "pid", "docno", "p_yes", "supports", "judge"])
    with errors_in(path):
        return check_verdicts(frame)


def write_verdicts(path: StrPath, verdicts: pd.DataFrame) -> None:
    """Write verdicts as TSV or CSV with named columns, told by the name (compressed if it ends in .gz).

    Raises:
        InputError: another ending, or an id that could not be read back.
    """
    ending = Path(str(path).removesuffix(".gz")).suffix
    if ending not in (".tsv", ".csv"):
        raise InputError("verdicts are written as .tsv or .csv (also with .gz), or as .qrels", path=path)
    _require(verdicts, ("qid", "docno", "judge"), r"[^\r\0]+", "is empty or holds a carriage return or null byte")
    with write_text(path) as file:
        frame = verdicts.astype({"supports": int})
        frame.to_csv(file, sep="\t" if ending == ".tsv" else ",", index=False, lineterminator="\n")


def _blank_separated(path: StrPath, n: int, layout: str) -> Iterator[tuple[int, list[str]]]:
    empty = True
    for line, text in read_lines(path):
        columns = text.split()
        if not columns:
            continue
        if len(columns) != n:
            raise InputError(f"{len(columns)} columns; expected {n}: {layout}", path=path, line=line)
        empty = False
        yield line, columns
    if empty:
        raise InputError("is empty", path=path)


def _require_no_blanks(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    # Python's idea of a blank (no-break space and all), as in reading; pandas' own search knows only those of ASCII.
    _require(frame, columns, r"[^\s\0\ufeff]+", "is empty or holds a blank, which TREC files cannot carry")


def _require(frame: pd.DataFrame, columns: Sequence[str], pattern: str, problem: str) -> None:
    for column in columns:
        bad = next((v for v in frame[column] if not re.fullmatch(pattern, v)), None)
        if bad is not None:
            raise InputError(f"{bad!r} {problem}", field=column)
