"""Verdict tables and the files of TREC: runs and diversity qrels."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from berdslib.data.records import (
    MOST_PERSPECTIVES,
    VERDICT_COLUMNS,
    Passage,
    Question,
    check_run,
    check_verdicts,
    lowest_subtopic,
    make_run,
    make_run_as_trec_eval,
    make_verdicts,
)
from berdslib.data.tables import Row, read_json, read_jsonl, read_table
from berdslib.errors import InputError, errors_in
from berdslib.files import StrPath, read_lines, unguarded, write_text

logger = logging.getLogger(__name__)


def read_trec_run(path: StrPath) -> pd.DataFrame:
    """Read a TREC run file: `qid Q0 docno rank score tag`, separated by blanks, perhaps with lines of # before.

    It is ranked as trec_eval ranks it, so that both score the same list: by the scores in single precision and never by
    the column of ranks, and of equal scores the larger docno comes first. Runs that are made here break ties by the
    smaller docno, and set equal scores apart, so that they are read back as they were.
    """
    found = _blank_separated(path, "qid Q0 docno rank score tag")
    rows = [(row["qid"], row["docno"], row.number("score")) for row in found]
    with errors_in(path):
        return make_run_as_trec_eval(*zip(*rows, strict=True))


def read_run(path: StrPath | Mapping[str, Any]) -> pd.DataFrame:
    """Read a run by the ending of its file: .json, .jsonl, or else TREC's six columns. A mapping is read as .json is.

    .json is {qid: {docno: score}}, as pytrec_eval and ranx have it, or mteb's predictions (2.26), where that stands
    below one subset and one split; both are scored by trec_eval, and ranked as it ranks. A line of .jsonl is a
    question, {"query_id", "results": [{"corpus_id", "score"}, …]}, as sentence-transformers (6.2) writes them.
    """
    if not isinstance(path, Mapping) and not _ends(path, ".json", ".jsonl"):
        return read_trec_run(path)
    rows: list[tuple[str, str, float]] = []
    if isinstance(path, Mapping) or _ends(path, ".json"):
        path, lists = ("the run", path) if isinstance(path, Mapping) else (path, read_json(path))
        make = make_run_as_trec_eval
        for qid, listed in _one_run(lists, path).items():
            for docno, score in listed.items() if isinstance(listed, Mapping) else [("", None)]:
                if isinstance(score, bool) or not isinstance(score, int | float):
                    raise InputError("{docno: score, …} was expected for each question", path=path, field=str(qid))
                rows.append((qid, docno, score))
    else:
        make = make_run
        for line, row in read_jsonl(path):
            results = row.get("results")
            if not isinstance(results, list) or not all(isinstance(one, dict) for one in results):
                raise row.wrong("results", "a list of objects was expected, each with corpus_id and score")
            hits = [Row(one, path, line, within=f"results[{i}].") for i, one in enumerate(results)]
            rows += [(row.text("query_id"), hit.text("corpus_id"), hit.number("score")) for hit in hits]
    if not rows:
        raise InputError("lists nothing", path=path)
    with errors_in(path):
        return make(*zip(*rows, strict=True))


def _ends(path: StrPath, *endings: str) -> bool:
    return str(path).removesuffix(".gz").endswith(endings)


def _one_run(found: Any, path: StrPath) -> Mapping[str, Any]:
    """Return qid → {docno: score}; of mteb's predictions those of the one subset and split."""
    if not isinstance(found, Mapping):
        raise InputError("an object {qid: {docno: score}} was expected", path=path)
    if "mteb_model_meta" not in found:
        return found
    splits = [(one, split) for one, held in found.items() if one != "mteb_model_meta" for split in held]
    if len(splits) != 1:
        there = ", ".join(f"[{one!r}][{split!r}]" for one, split in splits) or "none"
        raise InputError(f"holds several runs, {there}; give one, bd.read_run(json.load(…)[…][…])", path=path)
    [(subset, split)] = splits
    return _one_run(found[subset][split], path)


def write_trec_run(path: StrPath, run: pd.DataFrame, tag: str = "berdslib") -> None:
    """Write a TREC run; scores keep all their digits, so that no tie appears that was not there.

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
    """Raise InputError for an id that no TREC file can carry: to be called before a run is made that is to be written.

    Args:
        questions: the asked questions.
        passages: the corpus; of one on disk only the docnos are read.
    """
    docnos = passages.docnos() if hasattr(passages, "docnos") else (p.docno for p in passages)
    _require_no_blanks(qid=(q.qid for q in questions), docno=docnos)


def read_trec_qrels(path: StrPath, *, first_subtopic: int | None = None) -> pd.DataFrame:
    """Read TREC diversity qrels (`qid subtopic docno relevance`) as gold verdicts, subtopics as perspectives from 0.

    `first_subtopic` is the number of a question's first one, 0 (as :func:`write_trec_qrels` does) or 1 (as TREC Web
    does). None: 1 where some line says 1 and none says 0; a warning says so, since a file of ours without a verdict on
    perspective 0 looks the same.
    """
    if first_subtopic not in (None, 0, 1):
        raise InputError(f"must be 0, 1 or None (told from the file), not {first_subtopic!r}", field="first_subtopic")
    rows = []
    for row in _blank_separated(path, "qid subtopic docno relevance"):
        subtopic, yes = row["subtopic"], row.number("relevance") > 0
        pid = int(subtopic[:20]) if subtopic.isdecimal() else -1
        if not (first_subtopic or 0) <= pid < MOST_PERSPECTIVES:
            raise row.wrong("subtopic", f"{subtopic!r} is not a whole number from {first_subtopic or 0}")
        rows.append((row["qid"], pid, row["docno"], float(yes), yes))
    first = lowest_subtopic([row[1] for row in rows], path) if first_subtopic is None else first_subtopic
    with errors_in(path):
        return make_verdicts([(qid, i - first, docno, p, yes) for qid, i, docno, p, yes in rows], "gold")


def write_trec_qrels(path: StrPath, verdicts: pd.DataFrame) -> None:
    """Write verdicts as TREC diversity qrels (relevance 1 or 0; subtopics from 0) for pyndeval and ir-measures."""
    verdicts = check_verdicts(verdicts)
    _require_no_blanks(qid=verdicts["qid"], docno=verdicts["docno"])
    with write_text(path) as file:
        for qid, pid, docno, yes in verdicts[["qid", "pid", "docno", "supports"]].itertuples(index=False):
            file.write(f"{qid} {pid} {docno} {int(yes)}\n")


def are_qrels(path: StrPath) -> bool:
    """Return whether verdicts are read as qrels: what does not end as a table does."""
    return not _ends(path, ".jsonl", ".json", ".ndjson", ".csv", ".tsv")


def read_verdicts(path: StrPath, *, first_subtopic: int | None = None) -> pd.DataFrame:
    """Read a verdict table (JSONL, CSV or TSV: qid, pid, docno, p_yes or supports, judge), or TREC diversity qrels.

    `first_subtopic` is for qrels, see :func:`read_trec_qrels`. A sheet of ``berds rate pairs`` has labels instead,
    whose blank ones are left out and counted.
    """
    if are_qrels(path):
        return read_trec_qrels(path, first_subtopic=first_subtopic)
    rows, unlabelled = [], 0
    for _, row in read_table(path):
        pid, (name, value) = row.number("pid"), row.first("p_yes", "supports", "label")
        if name == "label" and not str(value).strip():
            unlabelled += 1
            continue
        if pid % 1 or not 0 <= pid < MOST_PERSPECTIVES:
            raise row.wrong("pid", f"{row['pid']!r} is not a whole number from 0, the index of the perspective")
        p_yes = row.verdict(name, value)
        supports = row.verdict("supports", row["supports"]) if "supports" in row else p_yes
        judge = row.text("judge", default="gold")
        qid, docno = row.text("qid"), row.text("docno")
        if name == "label":
            qid, docno = unguarded(qid), unguarded(docno)
        rows.append((qid, pid, docno, p_yes, supports >= 0.5, judge))
    if unlabelled:
        logger.warning("%s: %d of %d pairs have no label and are left out", path, unlabelled, unlabelled + len(rows))
    if not rows:
        raise InputError("holds no verdicts", path=path)
    with errors_in(path):
        return check_verdicts(pd.DataFrame(rows, columns=VERDICT_COLUMNS))


def write_verdicts(path: StrPath, verdicts: pd.DataFrame) -> None:
    """Write verdicts as TSV or CSV with named columns, told by the name (compressed if it ends in .gz)."""
    ending = Path(str(path).removesuffix(".gz")).suffix
    if ending not in (".tsv", ".csv"):
        raise InputError("verdicts are written as .tsv or .csv (also with .gz), or as .qrels", path=path)
    verdicts = check_verdicts(verdicts)
    for column in ("qid", "docno", "judge"):
        _require(column, verdicts[column], r"[^\r\0]+", "is empty or holds a carriage return or null byte")
    with write_text(path) as file:
        frame = verdicts.astype({"supports": int})
        frame.to_csv(file, sep="\t" if ending == ".tsv" else ",", index=False, lineterminator="\n")


def _blank_separated(path: StrPath, layout: str) -> Iterator[Row]:
    names, empty = layout.split(), True
    for line, text in read_lines(path):
        columns = text.split()
        if not columns or columns[0] == "#":  # a header, such as that of ir_metadata
            continue
        if len(columns) != len(names):
            raise InputError(f"{len(columns)} columns; expected {len(names)}: {layout}", path=path, line=line)
        empty = False
        yield Row(zip(names, columns, strict=True), path, line)
    if empty:
        raise InputError("is empty", path=path)


def _require_no_blanks(**columns: Iterable[str]) -> None:
    # Python's idea of a blank (no-break space and all), as in reading; pandas' own search knows only those of ASCII.
    for field, values in columns.items():
        but, or_is = ("(?!#$)", ", or is # alone") if field == "qid" else ("", "")  # "# " begins a comment
        problem = f"is empty or holds a blank{or_is}, which TREC files cannot carry"
        _require(field, values, but + r"[^\s\0\ufeff]+", problem)


def _require(field: str, values: Iterable[str], pattern: str, problem: str) -> None:
    fits = re.compile(pattern).fullmatch
    bad = next((v for v in values if not fits(v)), None)
    if bad is not None:
        raise InputError(f"{bad!r} {problem}", field=field)
