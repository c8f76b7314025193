"""Readers and writers of questions and passages: plain tables, BEIR folders, the official BeRDS files.

All of them stream and also read ``.gz``. They skip nothing silently.
"""

from __future__ import annotations

import csv
import difflib
import json
import logging
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from berdslib.data.croissant import write_croissant
from berdslib.data.records import (
    OPPOSE,
    SUPPORT,
    VERDICT_COLUMNS,
    Passage,
    Question,
    check_lists,
    check_run,
    check_verdicts,
    make_verdicts,
    ranked_run,
    read_pairs,
)
from berdslib.data.tables import (
    Records,
    Row,
    check_new,
    is_records,
    meant,
    name_yours,
    read_jsonl,
    read_table,
    write_jsonl,
)
from berdslib.data.trec import check_trec_ids, read_verdicts, write_trec_qrels
from berdslib.errors import InputError, known, printable
from berdslib.files import StrPath, atomic_path, say_once, write_text
from berdslib.paths import PACKAGE, cache_dir, local_data_dir

logger = logging.getLogger(__name__)

# Names of a passage's fields in other tools, in the order of lookup. `docid` comes late: in MS MARCO v2 a passage has a
# `pid`, and its `docid` is the id of its document.
ID_FIELDS = ("docno", "_id", "id", "pid", "passage_id", "docid", "doc_id", "key")
TEXT_FIELDS = ("text", "contents", "content", "raw", "passage", "passage_text", "segment", "body")
TITLE_FIELDS = ("title", "page_title", "wikipedia_title", "document_title", "headline", "heading", "headings")
_QID = ("qid", "id", "_id", "query_id", "question_id", "topic_id", "key")
_QUESTION = ("question", "text", "title", "query", "question_text", "query_text")
# All columns that are read of a table of questions, and of passages.
_MORE_OF_QUESTIONS = ("stances", "source", "split", "labels", "weights")
QUESTION_FIELDS = (*_QID, *_QUESTION, "perspectives", *_MORE_OF_QUESTIONS, "org_q")
PASSAGE_FIELDS = (*ID_FIELDS, *TEXT_FIELDS, *TITLE_FIELDS)
# What `berds build` adds to a question: where it was found, and the texts that it was made from.
_OF_BUILDS = ("where", "sources", "documents")
# Field → the columns that hold it.
_OF_QUESTION = {"qid": _QID, "question": _QUESTION, "perspectives": ("perspectives",)}
_OF_PASSAGE = {"docno": ID_FIELDS, "text": TEXT_FIELDS, "title": TITLE_FIELDS}

LAYOUTS = ("beir", "berds", "trec", "nuggets", "hf")

# ---------------------------------------------------------------- columns with names of a user's own


def split_columns(columns: Mapping[str, str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the columns of questions and those of passages, each our name → the file's name.

    >>> split_columns({"question": "ask", "text": "body"})
    ({'question': 'ask'}, {'text': 'body'})
    """
    of_questions = {}
    of_passages = {}
    for ours, theirs in (columns or {}).items():
        known("column", ours, (*_OF_QUESTION, *_MORE_OF_QUESTIONS, *_OF_PASSAGE))
        if ours in _OF_PASSAGE:
            of_passages[ours] = theirs
        else:
            of_questions[ours] = theirs
    return of_questions, of_passages


def _with_our_names(rows: Iterable[tuple[int, Row]], columns: Mapping[str, str]) -> Iterator[tuple[int, Row]]:
    """Yield rows with the columns that `columns` names under our names."""
    if not columns:
        yield from rows
        return
    theirs = set(columns.values())
    for line, row in rows:
        kept = {name: value for name, value in row.items() if name not in theirs}
        named = {ours: row.get(name) for ours, name in columns.items()}
        yield line, Row(kept | named, row.path, row.line)


def _check_columns(row: Row, groups: Mapping[str, Sequence[str]], needed: str, columns: Mapping[str, str]) -> None:
    """Raise InputError, which lists what is missing, if one of `columns` or that of the field `needed` is missing.

    `row` is the first one; its columns have the names of the file.
    """
    names = [*map(str, row)]
    has = f"the row has: {', '.join(names)}"
    unknown = {ours: name for ours, name in columns.items() if name not in row}
    if unknown:
        problems = []
        for name in unknown.values():
            near = difflib.get_close_matches(name, names, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            problems.append(f"no column {name!r}{hint}")
        raise row.wrong(next(iter(unknown)), f"{', '.join(problems)}; {has}")
    if needed in columns or row.keys() & set(groups[needed]):
        return
    absent = []
    for field, known_names in groups.items():
        if field not in columns and field != "title" and not row.keys() & set(known_names):
            absent.append(field)
    accepted = ", ".join(groups[needed])
    problem = f"missing: {', '.join(absent)}; accepted for {needed}: {accepted}; {has}"
    raise row.wrong(needed, f"{problem}{meant(row, groups[needed])}; {name_yours(*absent)}")


# ---------------------------------------------------------------- questions


def read_questions(
    path: StrPath | Records,
    *,
    source: str = "",
    split: str = "",
    start: int = 0,
    columns: Mapping[str, str] | None = None,
) -> list[Question]:
    """Read questions from any file that :func:`berdslib.data.tables.read_table` reads, or from rows in memory.

    Accepted columns: `question` (or `text`, `title`, `query`, `question_text`, `query_text`), `perspectives` (a list;
    in a cell of CSV or TSV as JSON, or as Python or numpy print it), optionally `qid` (or `id`, `_id`, `query_id`,
    `question_id`, `topic_id`, or the key of an object of JSON), `stances`, `source`, `split`, `labels`, `weights`.
    `columns` maps the first names to others. Without an id, questions are numbered from `start`. One warning per file
    names the columns that are not read, and those read under other names. Without a header, two columns are an id and a
    question, and the lines of a .txt are questions. The official BeRDS files (with `ctxs`) and the recorded-expansion
    rows (`org_q`) have their own readers below; both are recognised here.
    """
    unnamed = (_QUESTION[:1], ("qid", "question"))
    columns = columns or {}
    rows = read_table(path, (*QUESTION_FIELDS, *columns.values()), unnamed)
    first = next(rows, None)
    if first is None:
        raise InputError("holds no questions", path=_name(path))
    if "org_q" not in first[1]:
        _check_columns(first[1], _OF_QUESTION, "question", columns)
    [first] = _with_our_names([first], columns)
    _say_that_ids_are_text(first[1], _QID)
    near = difflib.get_close_matches("perspectives", map(str, first[1]), 1, 0.85)
    if near and "perspectives" not in near:
        hint = 'did you mean \'perspectives\'? It is one column, a list of texts such as ["It is.", "It is not."]'
        raise first[1].wrong(near[0], f"is not read; {hint}")
    rows = chain([first], _with_our_names(rows, columns))
    if "org_q" in first[1]:
        return [question for question, _ in _group_expansions(rows, source, split)]
    questions = []
    seen: dict[Any, int] = {}
    for number, (_, row) in enumerate(rows, start):
        question = _question(row, number, source, split)
        row.check_new(seen, question.qid, f"question id {question.qid!r}", "qid")
        questions.append(question)
    _say_columns(first[1], _OF_QUESTION, (*_MORE_OF_QUESTIONS, *_OF_BUILDS))
    return questions


def _question(row: Row, number: int, source: str, split: str) -> Question:
    perspectives = row.texts("perspectives", optional=True)
    stances = row.listed("stances") or [None] * len(perspectives)
    weights = row.listed("weights") or []
    question = Question(
        qid=row.text(*_QID) if row.has(*_QID) else str(number),
        text=row.text(*_QUESTION),
        perspectives=perspectives,
        stances=tuple(stances) if isinstance(stances, list) else stances,
        source=row.text("source", default=source),
        split=row.text("split", default=split),
        labels=_labels(row, len(perspectives)),
        weights=tuple(weights) if isinstance(weights, list) else weights,
    )
    try:
        check_lists(question)
    except InputError as error:
        raise row.wrong(error.field, error.problem) from None
    return question


def _labels(row: Row, n: int) -> tuple[str, ...]:
    """Return the labels of n perspectives; a field with anything else belongs to another tool and is left out."""
    labels = row.get("labels")
    if not isinstance(labels, list) or len(labels) != n:
        return ()
    if not all(isinstance(label, str) for label in labels):
        return ()
    return tuple(labels)


def read_stances(path: StrPath, questions: Sequence[Question]) -> list[Question]:
    """Return questions with the stances of a table; questions that the table does not name keep their own.

    A row has `qid`, `perspective` (its text, or its number from 0 as `pid`) and `stance`, "support" or "oppose"; of two
    perspectives, one stance is enough. The table may also hold whole questions with `perspectives` and `stances`, as
    written by `berds build stances`.
    """
    by_qid = {question.qid: question for question in questions}
    stances: dict[str, dict[int, str]] = {}
    for _, row in read_table(path, ("qid", "stance", "stances")):
        question = by_qid.get(row.text(*_QID))
        if question is None:  # of another split
            continue
        pid_of = {text: pid for pid, text in enumerate(question.perspectives)}
        pid_of |= {str(pid): pid for pid in pid_of.values()}
        for perspective, stance in _stances_in(row):
            if perspective not in pid_of:
                raise row.wrong("perspective", f"{perspective!r} is not a perspective of question {question.qid!r}")
            of_question = stances.setdefault(question.qid, {})
            if of_question.setdefault(pid_of[perspective], stance) != stance:
                raise row.wrong("stance", f"{perspective!r} has another stance in an earlier row")
    if not stances:
        problem = f"names none of the questions, whose ids look like {questions[0].qid!r}"
        raise InputError(problem, path=path, field="qid")
    replaced = []
    for question in questions:
        if question.qid in stances:
            filled = _filled(stances[question.qid], len(question.perspectives))
            question = question._replace(stances=filled)
        replaced.append(question)
    return replaced


def _stances_in(row: Row) -> list[tuple[str, str]]:
    """Return (perspective, stance) pairs of a row."""
    if row.has("stances"):
        question = _question(row, 0, "", "")
        pairs = zip(question.perspectives, question.stances, strict=True)
        return [(perspective, stance) for perspective, stance in pairs if stance]
    stance = row.text("stance")
    if stance not in (SUPPORT, OPPOSE):
        raise row.wrong("stance", f"{SUPPORT!r} or {OPPOSE!r} was expected, not {stance!r}")
    perspective = f"{row.number('pid'):g}" if row.has("pid") else row.text("perspective")
    return [(perspective, stance)]


def _filled(stances: Mapping[int, str], n: int) -> tuple[str | None, ...]:
    """Return the stance of each of n perspectives; the second of two perspectives gets the opposite stance."""
    if n == 2 and len(stances) == 1:
        [(pid, stance)] = stances.items()
        stances = {**stances, 1 - pid: OPPOSE if stance == SUPPORT else SUPPORT}
    return tuple(stances.get(pid) for pid in range(n))


# ---------------------------------------------------------------- recorded expansions


def read_expansions(
    path: StrPath, *, source: str = "", split: str = ""
) -> list[tuple[Question, list[tuple[str, str]]]]:
    """Read recorded query expansions: one row per expansion, with `org_q`, `perspective`, `text`, `perspectives`.

    Rows are grouped by their question (`org_q`), in the order of the file; questions keep their gold perspectives.

    Returns:
        A list of (question, [(name, text), …]), the expansions in the order in which they were generated.
    """
    grouped = _group_expansions(read_jsonl(path), source, split)
    if not grouped:
        raise InputError("holds no expansions", path=path)
    return grouped


def _group_expansions(
    rows: Iterable[tuple[int, Row]], source: str, split: str
) -> list[tuple[Question, list[tuple[str, str]]]]:
    grouped: dict[str, tuple[Question, list[tuple[str, str]]]] = {}
    text_of: dict[str, str] = {}
    for _, row in rows:
        text = row.text("org_q")
        perspectives = row.texts("perspectives")
        if text not in grouped:
            qid = row.text("org_id", default=str(len(grouped)))
            if text_of.setdefault(qid, text) != text:
                raise row.wrong("org_id", f"{qid!r} is used for two different questions")
            if source:
                qid = f"{source}-{qid}"
            question = Question(qid, text, perspectives, (None,) * len(perspectives), source, split)
            grouped[text] = (question, [])
        question, expansions = grouped[text]
        if question.perspectives != perspectives:
            raise row.wrong("perspectives", "differ from those in an earlier row of the same question")
        expansions.append((row.text("perspective", default=""), row.text("text")))
    return list(grouped.values())


# ---------------------------------------------------------------- passages


def iter_passages(path: StrPath | Records, columns: Mapping[str, str] | None = None) -> Iterator[Passage]:
    """Yield passages from any file that :func:`berdslib.data.tables.read_table` reads, or from a BEIR folder.

    Accepted columns, in the order of lookup:

    * id: `docno`, `_id`, `id`, `pid`, `passage_id`, `docid`, `doc_id`, or the key of an object of JSON; the first one
      present. A row without an id is named after the line in which it starts, such as "line-17", with one warning,
    * text: `text`, `contents`, `content`, `raw`, `passage`, `passage_text`, `segment`, `body`; the first non-empty one.
      One column is required, but all may be empty,
    * title: `title`, `page_title`, `wikipedia_title`, `document_title`, `headline`, `heading`, `headings`; the first
      non-empty one, else "".

    This covers BEIR's corpus.jsonl, the Sphere JSONL, `psgs_w100.tsv` (id, text, title), MS MARCO v2 (pid, passage),
    Pyserini's JSONL (id, contents), and MS MARCO's `collection.tsv`, which has no header. `columns` maps docno, text or
    title to another name. Further columns that are not empty become the `fields` of a passage; one warning per file
    names them.
    """
    for _, passage in numbered_passages(path, columns):
        yield passage


def numbered_passages(
    path: StrPath | Records, columns: Mapping[str, str] | None = None
) -> Iterator[tuple[int, Passage]]:
    """Yield (line number, passage) as :func:`iter_passages` does."""
    path = path if is_records(path) else passage_table(path)
    is_first = True
    warned = False
    columns = columns or {}
    rows = read_table(path, (*PASSAGE_FIELDS, *columns.values()), (("docno", "text"),))
    first = next(rows, None)
    if first is None:
        return
    _check_columns(first[1], _OF_PASSAGE, "text", columns)
    usual: set[str] = set()
    for line, row in _with_our_names(chain([first], rows), columns):
        if not any(name in row for name in TEXT_FIELDS):
            row.first(*TEXT_FIELDS)  # raises the error with the accepted names
        if row.has(*ID_FIELDS):
            docno = row.text(*ID_FIELDS)
        else:
            docno = f"line-{line}"
            if not warned:
                warned = True
                problem = "%s: line %d has no id (looked for %s); such rows are named after their line, as in %r"
                logger.warning(problem, _name(path), line, ", ".join(ID_FIELDS), docno)
        if is_first:
            is_first = False
            _say_that_ids_are_text(row, ID_FIELDS)
            usual = set(_read_columns(row, _OF_PASSAGE).values())
            _say_columns(row, _OF_PASSAGE)
        text = row.text(*TEXT_FIELDS, default="")
        title = row.text(*TITLE_FIELDS, default="")
        yield line, Passage(docno, text, title, {} if row.keys() <= usual else _further(row))


def _further(row: Row) -> dict[str, Any]:
    """Return the fields of a passage: the columns that hold neither its id, text nor title."""
    read = _read_columns(row, _OF_PASSAGE).values()
    return {name: row[name] for name in _unread_columns(row, read)}


def passage_table(path: StrPath) -> Path:
    """Return the file of the passages; of a BEIR folder, its corpus.jsonl or corpus/*.parquet."""
    return _beir_file(Path(path), "corpus") if Path(path).is_dir() else Path(path)


def _say_that_ids_are_text(row: Row, names: Sequence[str]) -> None:
    """Warn about whole numbers as ids in a frame, whose owner may join it with others."""
    is_file = "." in str(row.path)
    if is_file or not row.has(*names):
        return
    _, value = row.first(*names)
    if isinstance(value, int):
        logger.warning("%s: ids are whole numbers; they are kept as text, such as %r", row.path, str(value))


# These names, and columns that pandas or a reader adds, cause no warning.
_USUAL = {"qid", "docno", "id", "_id", "question", "perspectives", "text", "title", "query"}
_ADDED = re.compile(r"Unnamed: \d+|__index_level_\d+__|index|level_0|key|")


def _say_columns(row: Row, groups: Mapping[str, Sequence[str]], more: Sequence[str] = ()) -> None:
    """Warn, by the first row of a table, about columns with unusual names, and about further columns.

    Files of known data sets cause no warning.
    """
    file = Path(row.path).absolute()
    for place in (local_data_dir(), cache_dir(), PACKAGE, PACKAGE.parent / "data"):
        if place is not None and file.is_relative_to(place):
            return
    read = _read_columns(row, groups)
    unread = _unread_columns(row, read.values(), more)
    if not unread and _USUAL.issuperset(read.values()):
        return
    parts = []
    renamed = [f"{field} ← {name}" for field, name in read.items() if field != name]
    if renamed:
        parts.append(", ".join(renamed))
    if unread:
        is_corpus = "docno" in groups
        parts.append(f"{'kept in fields' if is_corpus else 'not read'}: {', '.join(unread)}")
        if not is_corpus and "perspectives" not in row:
            parts.append(f"no column perspectives, a list of texts for each question; {name_yours('perspectives')}")
    say_once(row.path, printable("; ".join(parts)))


def _read_columns(row: Row, groups: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return field → the column that is read for it."""
    return {field: row.first(*names)[0] for field, names in groups.items() if row.has(*names)}


def _unread_columns(row: Row, read: Collection[str], more: Sequence[str] = ()) -> list[str]:
    """Return the unread columns, except those that are empty, such as BEIR's metadata, or repeat a column."""
    known_names = [*read, *more]
    known_values = [row[name] for name in read]
    unread = []
    for name, value in row.items():
        if name in known_names or not row.has(name):
            continue
        if value not in (*known_values, {}) and not _ADDED.fullmatch(str(name)):
            unread.append(str(name))
    return unread


def _name(path: StrPath | Records) -> StrPath:
    return type(path).__name__ if is_records(path) else path


def read_passages(path: StrPath | Records, limit: int = 0, columns: Mapping[str, str] | None = None) -> list[Passage]:
    """Read passages of a file or BEIR folder into memory; see :func:`iter_passages`.

    Args:
        path: the file or folder.
        limit: only the first so many; 0 = all.
        columns: our name → the file's, see :func:`iter_passages`.
    """
    passages = []
    table = path if is_records(path) else passage_table(path)
    seen: dict[Any, int] = {}
    for line, passage in islice(numbered_passages(table, columns), limit or None):
        check_new(seen, passage.docno, f"docno {passage.docno!r}", _name(table), line, "docno")
        passages.append(passage)
    if not passages:
        raise InputError("holds no passages", path=_name(path))
    return passages


def write_passages(path: StrPath, passages: Iterable[Passage]) -> None:
    """Write passages as BEIR-style JSONL (`_id`, `title`, `text`), with their further fields."""
    rows = ({**p.fields, "_id": p.docno, "title": p.title, "text": p.text} for p in passages)
    write_jsonl(path, rows, default=str)  # a date, as of Parquet, becomes text


# ---------------------------------------------------------------- BEIR folders


def is_beir(path: StrPath) -> bool:
    """Say whether this is a folder with the queries of a BEIR data set."""
    return bool(_beir_files(Path(path), "queries"))


def beir_splits(folder: StrPath) -> list[str]:
    """Return the splits of a BEIR folder, by its files of qrels: "test" first, the others by name."""
    splits = set()
    for path in (Path(folder) / "qrels").glob("*"):
        name = path.name.removesuffix(".gz")
        if name.endswith((".tsv", ".jsonl", ".parquet")):
            splits.add(re.split(r"-\d+-of-|\.", name)[0])
    if not splits:
        raise InputError("a BEIR folder needs qrels/SPLIT.tsv, such as qrels/test.tsv", path=folder)
    return sorted(splits, key=lambda split: (split != "test", split))


def beir_questions(folder: StrPath, splits: Sequence[str]) -> list[Question]:
    """Return the queries of a BEIR folder that some splits judge, each with its own text as its one perspective.

    A query of two splits belongs to the first.
    """
    folder = Path(folder)
    queries = read_questions(_beir_file(folder, "queries"))
    questions: dict[str, Question] = {}
    for split in splits:
        judged = set(_beir_qrels(folder, split)["qid"])
        for query in queries:
            if query.qid in judged and query.qid not in questions:
                perspectives = (query.text,)
                questions[query.qid] = Question(query.qid, query.text, perspectives, (None,), folder.name, split)
    return list(questions.values())


def beir_gold(folder: StrPath) -> pd.DataFrame:
    """Return the judgements of all splits of a BEIR folder as verdicts; a score of at least 1 is a yes. Grades stay.

    If two splits judge a passage for the same query, the first split counts, "test" before the others.
    """
    whole = pd.concat([_beir_qrels(Path(folder), split) for split in beir_splits(folder)])
    return check_verdicts(whole.drop_duplicates(["qid", "docno"]))


def _beir_qrels(folder: Path, split: str) -> pd.DataFrame:
    return read_verdicts(_beir_file(folder, f"qrels/{split}"), relevance_level=None)


_BEIR = ("queries.jsonl", "corpus.jsonl", "qrels")


def write_beir(
    folder: StrPath, questions: Sequence[Question], passages: Iterable[Passage], verdicts: pd.DataFrame, split: str
) -> int:
    """Write a BEIR folder, and return the number of its qrels; a score is the number of perspectives supported."""
    folder = Path(folder)
    if not re.fullmatch(r"[\w-]+", split):
        raise InputError(f"{split!r} cannot name a file; letters, digits, - and _ can", field="split")
    present = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    others = sorted(present - set(_BEIR))
    if others:
        raise InputError(f"holds {others[0]!r}; an empty folder or one of BEIR is needed", path=folder)
    verdicts = check_verdicts(verdicts)
    write_jsonl(folder / "queries.jsonl", ({"_id": q.qid, "text": q.text} for q in questions))
    write_passages(folder / "corpus.jsonl", passages)
    gains = verdicts.groupby(["qid", "docno"])["supports"].sum()  # 0 for judged passages without support
    table = gains.reset_index(name="score")
    table = table.rename(columns={"qid": "query-id", "docno": "corpus-id"})
    with write_text(folder / "qrels" / f"{split}.tsv") as file:
        table.to_csv(file, sep="\t", index=False, lineterminator="\n")
    return len(table)


def _beir_files(folder: Path, name: str) -> list[Path]:
    """Return the files of a table of a BEIR folder, also as Hugging Face has them (corpus/*.parquet)."""
    ending = ".tsv" if name.startswith("qrels/") else ".jsonl"
    names = [f"{name}{ending}", f"{name}{ending}.gz", f"{name}.jsonl", f"{name}.parquet"]
    parts = [*folder.glob(f"{name}-*-of-*.parquet"), *folder.glob(f"{name}/*.parquet")]
    places = [*(folder / each for each in names), *sorted(parts)]
    return [path for path in places if path.is_file()]


def _beir_file(folder: Path, name: str) -> Path:
    found = _beir_files(folder, name)
    if not found:
        kind = "tsv (also with .gz), .jsonl" if name.startswith("qrels/") else "jsonl (also with .gz)"
        raise InputError(f"a BEIR folder needs {name}.{kind} or .parquet", path=folder)
    if len(found) > 1 and found[1].parent != folder and found[1].suffix == ".parquet":
        raise InputError(f"{name} is in {len(found)} files; join them in one", path=folder)
    return found[0]


# ---------------------------------------------------------------- official BeRDS JSONL


def read_berds(
    path: StrPath, predictions: str | None = None
) -> tuple[list[Question], list[Passage], pd.DataFrame, pd.DataFrame | None]:
    """Read the official BeRDS output JSONL: `question, perspectives, ctxs: [{title, text, …}]`, best document first.

    With `predictions` (such as "mistral-preds" or "gpt4-preds") the recorded verdicts are read as well: in each ctx a
    list with one value per perspective, or in the row a list of such lists, one per ctx. A value is 0/1, true/false,
    "Yes"/"No" or a probability, which is a yes from 0.5 on. Files of :func:`write_berds` also say which probabilities
    are a yes, since each judge has its own threshold ("mistral-supports" for "mistral-preds"). A row with other lengths
    is refused: the official scripts append to old predictions when run twice (divergences.md B9), and the file does not
    tell which half is meant.

    Documents have no ids there: a passage's docno is its `id` if given, else "QID/RANK".

    Returns:
        (questions, passages, run, verdicts or None).
    """
    questions: list[Question] = []
    passages: dict[str, Passage] = {}
    lists: dict[str, list[str]] = {}
    verdicts: list[tuple[str, int, str, float, bool]] = []
    seen: dict[Any, int] = {}
    for number, (line, row) in enumerate(read_jsonl(path)):
        row.texts("perspectives")  # here they are required
        question = _question(row, number, "berds", "")
        qid = question.qid
        row.check_new(seen, qid, f"question id {qid!r}", "qid")
        contexts = row.get("ctxs")
        if not isinstance(contexts, list) or not all(isinstance(context, dict) for context in contexts):
            raise row.wrong("ctxs", "a list of documents {title, text} was expected")
        lists[qid] = []
        for rank, context in enumerate(contexts, start=1):
            passage = _context_passage(Row(context, path, line), f"{qid}/{rank}")
            if passages.setdefault(passage.docno, passage) != passage:
                raise row.wrong(None, f"{passage.docno!r} is used for two different documents")
            lists[qid].append(passage.docno)
        if len(set(lists[qid])) < len(contexts):
            raise row.wrong("ctxs", "a document is listed twice")
        if predictions is not None:
            recorded = _recorded(row, contexts, predictions, len(question.perspectives))
            for docno, answers in zip(lists[qid], recorded, strict=False):
                verdicts += [(qid, pid, docno, p_yes, supports) for pid, (p_yes, supports) in enumerate(answers)]
        questions.append(question)
    if not questions:
        raise InputError("holds no questions", path=path)
    gold = make_verdicts(verdicts, predictions) if predictions is not None else None
    return questions, list(passages.values()), ranked_run(lists), gold


def _context_passage(context: Row, default_docno: str) -> Passage:
    docno = context.text("id", "docno", "_id", default="") or default_docno
    return Passage(docno, context.text("text"), context.text("title", default=""))


def prediction_fields(path: StrPath) -> list[str]:
    """Return the names of the recorded predictions (fields ending in "-preds") in the first row of a BeRDS JSONL."""
    _, row = next(read_jsonl(path), (0, None))
    if row is None:
        raise InputError("holds no questions", path=path)
    names = [*row]
    contexts = row.get("ctxs")
    if isinstance(contexts, list) and contexts and isinstance(contexts[0], dict):
        names += contexts[0]
    return [name for name in names if name.endswith("-preds")]


def _supports_field(predictions: str) -> str:
    """Return the field that says which predictions are a yes; :func:`prediction_fields` ignores it."""
    return f"{predictions.removesuffix('-preds')}-supports"


def _recorded(row: Row, contexts: Sequence[Mapping[str, Any]], name: str, n: int) -> Iterator[list[tuple[float, bool]]]:
    """Yield for each document the recorded (probability, is a yes) of each of n perspectives."""
    probabilities = _predictions(row, contexts, name, n)
    answers = probabilities
    supports = _supports_field(name)
    if any(supports in part for part in (row, *contexts)):
        answers = _predictions(row, contexts, supports, n)
        unclear = {value for values in answers for value in values} - {0.0, 1.0}
        if unclear:
            raise row.wrong(supports, f"{min(unclear)} is neither yes (1) nor no (0)")
    for p_yes, yes in zip(probabilities, answers, strict=True):
        yield [(p, answer >= 0.5) for p, answer in zip(p_yes, yes, strict=True)]


def _predictions(row: Row, contexts: Sequence[Mapping[str, Any]], name: str, n: int) -> list[list[float]]:
    """Return the recorded predictions of one row as a (documents, n perspectives) table."""
    table: Any
    if contexts and all(name in context for context in contexts):
        table = [context[name] for context in contexts]
    elif contexts:
        table = row.get(name)
    else:
        table = row.get(name, [])
    if table is None:
        raise row.wrong(name, "no such predictions in this row or its documents")
    fits = isinstance(table, list) and len(table) == len(contexts)
    if not fits or not all(isinstance(values, list) and len(values) == n for values in table):
        problem = (
            f"expected {len(contexts)} lists (one per document) of {n} values (one per perspective); "
            "the official scripts append to old predictions when they run twice"
        )
        raise row.wrong(name, problem)
    return [[row.verdict(name, value) for value in values] for values in table]


def write_berds(
    path: StrPath,
    questions: Sequence[Question],
    passages: Mapping[str, Passage],
    run: pd.DataFrame,
    verdicts: pd.DataFrame | None = None,
    predictions: str = "berdslib-preds",
) -> None:
    """Write a run (and verdicts) in the official BeRDS JSONL, which :func:`read_berds` reads back.

    Args:
        path: the file to write.
        questions: all asked questions; one without passages gets an empty `ctxs`.
        passages: docno → passage, for every docno in the run.
        run: the ranked passages.
        verdicts: p_yes and supports for each listed (passage, perspective); absent and unread ones are written as 0.
        predictions: the field of each document's probabilities; a second field, named after it, holds what supports,
            as 1 and 0 ("mistral-supports" for "mistral-preds").
    """
    run = check_run(run)
    answers: dict[tuple[str, int, str], tuple[float, int]] = {}
    if verdicts is not None:
        judged = read_pairs(check_verdicts(verdicts))
        for qid, pid, docno, p_yes, supports in judged[VERDICT_COLUMNS[:-1]].itertuples(index=False):
            answers[qid, pid, docno] = (p_yes, int(supports))
    unknown = next((docno for docno in run["docno"] if docno not in passages), None)
    if unknown is not None:
        raise InputError(f"the run lists passage {unknown!r}, which is not among the passages", field="docno")
    lists = {str(qid): docnos.tolist() for qid, docnos in run.groupby("qid", sort=False)["docno"]}

    def context(question: Question, docno: str) -> dict[str, Any]:
        passage = passages[docno]
        fields: dict[str, Any] = {"id": docno, "title": passage.title, "text": passage.text}
        if verdicts is not None:
            pids = range(len(question.perspectives))
            recorded = [answers.get((question.qid, pid, docno), (0.0, 0)) for pid in pids]
            fields[predictions] = [p_yes for p_yes, _ in recorded]
            fields[_supports_field(predictions)] = [supports for _, supports in recorded]
        return fields

    def rows() -> Iterator[dict[str, Any]]:
        for question in questions:
            yield {
                "id": question.qid,
                "question": question.text,
                "perspectives": question.perspectives,
                **_beside_perspectives(question),
                "ctxs": [context(question, docno) for docno in lists.get(question.qid, [])],
            }

    write_jsonl(path, rows())


def _beside_perspectives(question: Question) -> dict[str, Any]:
    """Return the non-empty fields of a question that the official rows do not have."""
    fields = {
        "stances": question.stances if any(question.stances) else (),
        "labels": question.labels,
        "weights": question.weights,
        "source": question.source,
        "split": question.split,
    }
    return {name: value for name, value in fields.items() if value}


# ---------------------------------------------------------------- for other tools


def write_trec_collection(
    folder: Path, questions: Sequence[Question], passages: Iterable[Passage], gold: pd.DataFrame
) -> None:
    """Write the files that pyndeval and ir-measures read, and tables that explain their numbers.

    These are `qrels.txt`, diversity qrels with the perspectives as subtopics from 0; `topics.tsv`, the questions;
    `subtopics.tsv`, the perspectives; and `corpus.jsonl`, the passages.
    """
    corpus = list(passages)
    check_trec_ids(questions, corpus)
    topics: list[tuple[Any, ...]] = [("qid", "question")]
    subtopics: list[tuple[Any, ...]] = [("qid", "subtopic", "perspective", "stance")]
    for question in questions:
        topics.append((question.qid, question.text))
        pairs = zip_longest(question.perspectives, question.stances)
        for pid, (perspective, stance) in enumerate(pairs):
            subtopics.append((question.qid, pid, perspective, stance or ""))
    with atomic_path(folder, marker="qrels.txt") as unfinished:
        write_trec_qrels(unfinished / "qrels.txt", gold)
        write_passages(unfinished / "corpus.jsonl", corpus)
        for name, rows in (("topics.tsv", topics), ("subtopics.tsv", subtopics)):
            with write_text(unfinished / name) as file:
                csv.writer(file, delimiter="\t", lineterminator="\n").writerows(rows)


def write_nugget_banks(folder: Path, questions: Sequence[Question], gold: pd.DataFrame) -> None:
    """Write a file for each question, `nuggets_QID.json`: perspective → ["OR", {"SUPPORTED": [document ids]}]."""
    supporting = gold[gold["supports"]].groupby(["qid", "pid"])["docno"].agg(list)
    with atomic_path(folder, marker=f"nuggets_{questions[0].qid}.json") as unfinished:
        for question in questions:
            if Path(question.qid).name != question.qid:
                raise InputError(f"{question.qid!r} cannot be a part of a file's name", field="qid")
            bank = {
                text: ["OR", {"SUPPORTED": supporting.get((question.qid, pid), [])}]
                for pid, text in enumerate(question.perspectives)
            }
            if len(bank) < len(question.perspectives):
                raise InputError(f"question {question.qid!r} has a perspective twice", field="perspectives")
            with write_text(unfinished / f"nuggets_{question.qid}.json") as file:
                json.dump(bank, file, ensure_ascii=False, indent=1)


def is_hub(path: StrPath) -> bool:
    """Say whether this is a folder that :func:`write_hub` wrote, also as downloaded from the hub."""
    return all(_hub_tables(path, name) for name in ("questions", "corpus", "verdicts"))


def hub_questions(folder: StrPath) -> list[Question]:
    """Return the questions of a folder for the Hugging Face hub; with several files, a file's name is a split."""
    tables = _hub_tables(folder, "questions")
    questions = []
    for path in tables:
        questions += read_questions(path, split=path.stem if len(tables) > 1 else "")
    return questions


def hub_gold(folder: StrPath) -> pd.DataFrame:
    """Return the verdicts of a folder for the Hugging Face hub."""
    return pd.concat([read_verdicts(path) for path in _hub_tables(folder, "verdicts")], ignore_index=True)


def _hub_tables(folder: StrPath, name: str) -> list[Path]:
    return sorted(Path(folder).glob(f"{name}/*.parquet"))


def write_hub(
    folder: Path, questions: Sequence[Question], passages: Iterable[Passage], gold: pd.DataFrame, split: str
) -> None:
    """Write a folder for the Hugging Face hub: Parquet for each of three configs, and a card with their names.

    :func:`berdslib.load` reads the folder, and `datasets.load_dataset(FOLDER, "questions")` reads it here or from the
    hub. Title, licence and source of the card are left to the author. `croissant.json` describes the same tables.
    """
    rows = [question._asdict() | {"question": question.text} for question in questions]
    columns = ["qid", "question", "perspectives", "stances", "labels", "weights", "source", "split"]
    tables = {
        "questions": pd.DataFrame(rows, columns=columns),
        "corpus": _corpus_table(passages),
        "verdicts": gold[VERDICT_COLUMNS],
    }
    configs = []
    for name in tables:
        configs.append({"config_name": name, "data_files": [{"split": split, "path": f"{name}/{split}.parquet"}]})
    head: dict[str, Any] = {
        "pretty_name": folder.name,
        "license": "other",
        "task_categories": ["text-retrieval"],
        "tags": ["perspectives", "diversity"],
        "configs": configs,
    }
    about = (
        f"{len(questions)} questions with perspectives, {len(tables['corpus'])} passages, and {len(gold)} verdicts on "
        "whether a passage supports a perspective (`pid`, its number from 0)."
    )
    here = f"./{folder.name}"
    place = json.dumps(here, ensure_ascii=False)
    reading = f"""
```python
from datasets import load_dataset

questions = load_dataset({place}, "questions", split="{split}")  # also "corpus" and "verdicts"; OWNER/NAME on the hub
```

```python
import berdslib as bd

print(bd.experiment("bm25", {place}, "MRecall@5"))  # in the shell: berds experiment -q {shlex.quote(here)} -r bm25
```
"""
    with atomic_path(folder, marker="README.md") as unfinished:
        paths = {name: unfinished / name / f"{split}.parquet" for name in tables}
        for name, table in tables.items():
            paths[name].parent.mkdir(parents=True)
            table.to_parquet(paths[name], index=False)
        write_croissant(unfinished, folder.name, about, paths)
        with write_text(unfinished / "README.md") as file:
            file.write(f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n\n# {folder.name}\n\n{about}\n{reading}")


def _corpus_table(passages: Iterable[Passage]) -> pd.DataFrame:
    """Return passages as a frame with docno, text, title and a column for each of their further fields."""
    own = Passage._fields[:3]
    rows = [{**passage.fields, **dict(zip(own, passage, strict=False))} for passage in passages]
    columns = dict.fromkeys(chain(own, chain.from_iterable(rows)))
    # As objects: else a whole number above an empty cell becomes a decimal one.
    table = pd.DataFrame(rows, columns=[*columns], dtype=object)
    return table.apply(_for_parquet)


def _for_parquet(column: pd.Series) -> pd.Series:
    """Return a column of texts, numbers, dates or lists of these; any other column as text, with JSON for objects."""
    import pyarrow as pa

    try:
        kind = pa.array(column, from_pandas=True).type
        if not pa.types.is_nested(kind.value_type if pa.types.is_list(kind) else kind):
            return column
    except (TypeError, ValueError, OverflowError):
        pass  # values of several types
    return column.map(
        lambda value: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str),
        na_action="ignore",
    )


def export_collection(
    path: StrPath,
    questions: Sequence[Question],
    passages: Iterable[Passage],
    gold: pd.DataFrame,
    *,
    layout: str | None = None,
    split: str = "test",
    run: pd.DataFrame | None = None,
) -> int:
    """Write questions, passages and gold verdicts in a layout that other tools read.

    Each layout loses something:

    * "beir" loses perspectives and everything about them, sources and grades. A passage's score is the number of
      perspectives that it supports. All passages are kept.
    * "berds" loses unlisted passages, grades and judges; a pair without a verdict becomes a no. Questions keep their
      perspectives, stances, labels, weights, source and split.
    * "trec" loses labels, weights, sources, splits and grades. Subtopics are numbers in the qrels; a table beside them
      holds their statements and stances.
    * "hf", a folder for the Hugging Face hub, loses grades. A further field of passages becomes text, objects as JSON,
      unless all its values are of one type: texts, numbers, dates, or lists of these.
    * "nuggets", AutoNuggetizer's banks, keeps the perspectives and the ids of the passages that support them.

    Args:
        path: a folder; a file for "berds", .jsonl or .jsonl.gz.
        questions: at least one.
        passages: the corpus; "beir" streams it.
        gold: verdicts; those of other questions are left out.
        layout: a key of ``LAYOUTS``; None for "berds" if the path ends in .jsonl or .jsonl.gz, else "beir".
        split: for "beir", the name of the file of qrels.
        run: for "berds", each question's list; None for its judged passages, those with most support first.

    Returns:
        The number of verdicts written; for "beir" the rows of the qrels.
    """
    if not layout:
        is_table = str(path).removesuffix(".gz").endswith(".jsonl")
        layout = "berds" if is_table else "beir"
    known("layout", layout, LAYOUTS)
    gold = gold[gold["qid"].isin([question.qid for question in questions])]
    if layout == "beir":
        return write_beir(path, questions, passages, gold, split)
    if layout == "trec":
        write_trec_collection(Path(path), questions, passages, gold)
    elif layout == "hf":
        write_hub(Path(path), questions, passages, gold, split)
    elif layout == "nuggets":
        write_nugget_banks(Path(path), questions, gold)
        return int(gold["supports"].sum())
    else:
        if run is None:
            supported = gold.groupby(["qid", "docno"], sort=False)["supports"].sum()
            run = supported.astype(float).reset_index(name="score")
        by_docno = {passage.docno: passage for passage in passages}
        write_berds(path, questions, by_docno, run, gold, "gold-preds")
        return len(gold.merge(run[["qid", "docno"]]))
    return len(gold)
