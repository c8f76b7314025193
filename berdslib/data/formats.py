"""Readers and writers of questions and passages: plain tables, BEIR folders, the official BeRDS files.

All of them stream and also read ``.gz``. Nothing is skipped silently.
"""

from __future__ import annotations

import csv
import difflib
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import pandas as pd

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
from berdslib.data.tables import Records, Row, check_new, is_records, read_jsonl, read_table, write_jsonl
from berdslib.data.trec import check_trec_ids, read_verdicts, write_trec_qrels
from berdslib.errors import InputError, known, printable
from berdslib.files import StrPath, atomic_path, say_once, write_text
from berdslib.paths import PACKAGE, cache_dir, local_data_dir

logger = logging.getLogger(__name__)

# What others call the fields of a passage, in the order in which they are looked for. `docid` comes late: in MS MARCO
# v2 a passage has a `pid`, and its `docid` is that of its document.
ID_FIELDS = ("docno", "_id", "id", "pid", "passage_id", "docid", "doc_id", "key")
TEXT_FIELDS = ("text", "contents", "content", "raw", "passage", "passage_text", "segment", "body")
TITLE_FIELDS = ("title", "page_title", "wikipedia_title", "document_title", "headline", "heading", "headings")
_QID = ("qid", "id", "_id", "query_id", "question_id", "topic_id", "key")
_QUESTION = ("question", "text", "title", "query", "question_text", "query_text")
# Every column of a table of questions, and of passages, that is read.
_MORE_OF_QUESTIONS = ("perspectives", "stances", "source", "split", "labels", "weights")
QUESTION_FIELDS = (*_QID, *_QUESTION, *_MORE_OF_QUESTIONS, "org_q")
PASSAGE_FIELDS = (*ID_FIELDS, *TEXT_FIELDS, *TITLE_FIELDS)

LAYOUTS = ("beir", "berds", "trec")

# ---------------------------------------------------------------- questions


def read_questions(path: StrPath | Records, *, source: str = "", split: str = "", start: int = 0) -> list[Question]:
    """Read questions from any file that :func:`berdslib.data.tables.read_table` reads, or from rows in memory.

    Accepted columns: `question` (or `text`, `title`, `query`, `question_text`, `query_text`), `perspectives` (a list;
    in a cell of CSV or TSV as JSON, or as Python or numpy print it), optionally `qid` (or `id`, `_id`, `query_id`,
    `question_id`, `topic_id`, or the key of an object of JSON), `stances`, `source`, `split`, `labels`, `weights`.
    Without an id, questions are numbered from `start`. One warning a file names the columns that are not read, and
    those that are read under other names. Without a header, two columns are an id and a question, and the lines of a
    .txt are questions. The official BeRDS files (with `ctxs`) and the recorded-expansion rows (`org_q`) have readers of
    their own below; both are recognised here.
    """
    rows = read_table(path, QUESTION_FIELDS, (_QUESTION[:1], ("qid", "question")))
    first = next(rows, None)
    if first is None:
        raise InputError("holds no questions", path=_name(path))
    _say_that_ids_are_text(first[1], _QID)
    near = difflib.get_close_matches("perspectives", map(str, first[1]), 1, 0.85)
    if near and "perspectives" not in near:
        hint = 'did you mean \'perspectives\'? It is one column, a list of texts such as ["It is.", "It is not."]'
        raise first[1].wrong(near[0], f"is not read; {hint}")
    rows = chain([first], rows)
    if "org_q" in first[1]:
        return [q for q, _ in _group_expansions(rows, source, split)]
    questions = []
    seen: dict[Any, int] = {}
    for number, (_, row) in enumerate(rows, start):
        questions.append(_question(row, number, source, split))
        row.check_new(seen, questions[-1].qid, f"question id {questions[-1].qid!r}", "qid")
    _say_columns(first[1], {"qid": _QID, "question": _QUESTION}, _MORE_OF_QUESTIONS)
    return questions


def _question(row: Row, number: int, source: str, split: str) -> Question:
    perspectives, labels = row.texts("perspectives", optional=True), row.get("labels")
    n = len(perspectives)
    # A field that holds something else than the short names of the perspectives is another tool's.
    if not isinstance(labels, list) or len(labels) != n or not all(isinstance(one, str) for one in labels):
        labels = []
    listed = (row.listed("stances") or [None] * n, row.listed("weights") or [])
    stances, weights = (tuple(one) if isinstance(one, list) else one for one in listed)
    question = Question(
        qid=row.text(*_QID) if row.has(*_QID) else str(number),
        text=row.text(*_QUESTION),
        perspectives=perspectives,
        stances=stances,
        source=row.text("source", default=source),
        split=row.text("split", default=split),
        labels=tuple(labels),
        weights=weights,
    )
    try:
        check_lists(question)
    except InputError as error:
        raise row.wrong(error.field, error.problem) from None
    return question


def read_stances(path: StrPath, questions: Sequence[Question]) -> list[Question]:
    """Return questions with the stances that a table gives them; questions that it does not name keep their own.

    A row has `qid`, `perspective` (its text, or as `pid` its number from 0) and `stance`, "support" or "oppose"; of two
    perspectives one is enough. The table may also hold whole questions with `perspectives` and `stances`, as `berds
    build stances` writes them.
    """
    asked = {q.qid: q for q in questions}
    told: dict[str, dict[int, str]] = {}
    for _, row in read_table(path, ("qid", "stance", "stances")):
        if (question := asked.get(row.text(*_QID))) is None:  # of another split
            continue
        place_of = {text: pid for pid, text in enumerate(question.perspectives)}
        place_of |= {str(pid): pid for pid in place_of.values()}
        for perspective, stance in _stances_in(row):
            if perspective not in place_of:
                raise row.wrong("perspective", f"{perspective!r} is not a perspective of question {question.qid!r}")
            of_question = told.setdefault(question.qid, {})
            if of_question.setdefault(place_of[perspective], stance) != stance:
                raise row.wrong("stance", f"{perspective!r} has another stance in an earlier row")
    if not told:
        problem = f"names none of the questions, whose ids look like {questions[0].qid!r}"
        raise InputError(problem, path=path, field="qid")
    return [q._replace(stances=_filled(told[q.qid], len(q.perspectives))) if q.qid in told else q for q in questions]


def _stances_in(row: Row) -> list[tuple[str, str]]:
    """Return (perspective, stance) pairs of a row."""
    if row.has("stances"):
        question = _question(row, 0, "", "")
        pairs = zip(question.perspectives, question.stances, strict=True)
        return [(perspective, stance) for perspective, stance in pairs if stance]
    stance = row.text("stance")
    if stance not in (SUPPORT, OPPOSE):
        raise row.wrong("stance", f"{SUPPORT!r} or {OPPOSE!r} was expected, not {stance!r}")
    return [(f"{row.number('pid'):g}" if row.has("pid") else row.text("perspective"), stance)]


def _filled(stances: Mapping[int, str], n: int) -> tuple[str | None, ...]:
    """Return the stance of each of n perspectives; the other one of two is on the other side."""
    if n == 2 and len(stances) == 1:
        [(pid, stance)] = stances.items()
        stances = {**stances, 1 - pid: OPPOSE if stance == SUPPORT else SUPPORT}
    return tuple(stances.get(pid) for pid in range(n))


# ---------------------------------------------------------------- recorded expansions


def read_expansions(
    path: StrPath, *, source: str = "", split: str = ""
) -> list[tuple[Question, list[tuple[str, str]]]]:
    """Read recorded query expansions: one row an expansion, with `org_q`, `perspective`, `text`, `perspectives`.

    Rows are grouped by their question (`org_q`), in the order of the file; the gold perspectives come along.

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
    asked: dict[str, str] = {}
    for _, row in rows:
        text, perspectives = row.text("org_q"), row.texts("perspectives")
        if text not in grouped:
            qid = row.text("org_id", default=str(len(grouped)))
            if asked.setdefault(qid, text) != text:
                raise row.wrong("org_id", f"{qid!r} is used for two different questions")
            qid = f"{source}-{qid}" if source else qid
            grouped[text] = Question(qid, text, perspectives, (None,) * len(perspectives), source, split), []
        question, expansions = grouped[text]
        if question.perspectives != perspectives:
            raise row.wrong("perspectives", "differ from those in an earlier row of the same question")
        expansions.append((row.text("perspective", default=""), row.text("text")))
    return list(grouped.values())


# ---------------------------------------------------------------- passages


def iter_passages(path: StrPath | Records) -> Iterator[Passage]:
    """Yield passages from any file that :func:`berdslib.data.tables.read_table` reads, or from a BEIR folder.

    Accepted columns, in the order in which they are looked for:

    * id: `docno`, `_id`, `id`, `pid`, `passage_id`, `docid`, `doc_id`, or the key of an object of JSON; the first that
      is there. A row without an id is named after the line of the file in which it starts, as in "line-17", and one
      warning says so,
    * text: `text`, `contents`, `content`, `raw`, `passage`, `passage_text`, `segment`, `body`; the first that is not
      empty. One of them has to be there, but all may be empty,
    * title: `title`, `page_title`, `wikipedia_title`, `document_title`, `headline`, `heading`, `headings`; the first
      that is not empty, "" without any.

    This covers BEIR's corpus.jsonl, the Sphere JSONL, `psgs_w100.tsv` (id, text, title), MS MARCO v2 (pid, passage)
    and Pyserini's JSONL (id, contents) as they are, and MS MARCO's `collection.tsv`, which has no header. Other columns
    are not read; one warning a file names them.
    """
    for _, passage in numbered_passages(path):
        yield passage


def numbered_passages(path: StrPath | Records) -> Iterator[tuple[int, Passage]]:
    """Yield (line number, passage) as :func:`iter_passages` does."""
    path = path if is_records(path) else passage_table(path)
    first, said = True, False
    for line, row in read_table(path, PASSAGE_FIELDS, (("docno", "text"),)):
        if not any(name in row for name in TEXT_FIELDS):
            row.first(*TEXT_FIELDS)  # says what was looked for
        named = row.has(*ID_FIELDS)
        docno = row.text(*ID_FIELDS) if named else f"line-{line}"
        if not named and not said:
            said = True
            problem = "%s: line %d has no id (looked for %s); such rows are named after their line, as in %r"
            logger.warning(problem, _name(path), line, ", ".join(ID_FIELDS), docno)
        if first:
            first = False
            _say_that_ids_are_text(row, ID_FIELDS)
            _say_columns(row, {"docno": ID_FIELDS, "text": TEXT_FIELDS, "title": TITLE_FIELDS})
        yield line, Passage(docno, row.text(*TEXT_FIELDS, default=""), row.text(*TITLE_FIELDS, default=""))


def passage_table(path: StrPath) -> Path:
    """Return the file that holds the passages: of a BEIR folder, its corpus.jsonl or corpus/*.parquet."""
    return _beir_file(Path(path), "corpus") if Path(path).is_dir() else Path(path)


def _say_that_ids_are_text(row: Row, names: Sequence[str]) -> None:
    """Log it where they are numbers in a frame, which its owner will join with others."""
    if "." not in str(row.path) and row.has(*names) and isinstance(found := row.first(*names)[1], int):
        logger.warning("%s: ids are whole numbers; they are kept as text, such as %r", row.path, str(found))


# No warning is given for names as good as ours, or for columns that pandas or a reader adds.
_USUAL = {"qid", "docno", "id", "_id", "question", "text", "title", "query"}
_ADDED = re.compile(r"Unnamed: \d+|__index_level_\d+__|index|level_0|key|")


def _say_columns(row: Row, groups: Mapping[str, Sequence[str]], more: Sequence[str] = ()) -> None:
    """Log which columns of a table, whose first row this is, are taken for what, and which are not read.

    There is no warning where all columns are read and have usual names, nor for the files of known data sets.
    """
    places = (local_data_dir(), cache_dir(), PACKAGE, PACKAGE.parent / "data")
    if any(place is not None and Path(row.path).absolute().is_relative_to(place) for place in places):
        return
    taken = {ours: row.first(*names)[0] for ours, names in groups.items() if row.has(*names)}
    # A column that is empty here, such as BEIR's metadata, may be so everywhere; one may repeat what is read.
    values = [row[name] for name in taken.values()]
    others = [
        str(name)
        for name, value in row.items()
        if name not in (*taken.values(), *more) and row.has(name) and value not in (*values, {})
    ]
    others = [name for name in others if not _ADDED.fullmatch(name)]
    if not others and _USUAL.issuperset(taken.values()):
        return
    message = [f"{ours} ← {name}" for ours, name in taken.items() if ours != name]
    message = [", ".join(message)] if message else []
    if others:
        message.append(f"not read: {', '.join(others)}")
        if "perspectives" in more and "perspectives" not in row:
            message.append("no column perspectives, a list of texts for each question")
    say_once(row.path, printable("; ".join(message)))


def _name(path: StrPath | Records) -> StrPath:
    return type(path).__name__ if is_records(path) else path


def read_passages(path: StrPath | Records, limit: int = 0) -> list[Passage]:
    """Read passages of a file or BEIR folder into memory; see :func:`iter_passages`.

    Args:
        path: the file or folder.
        limit: only the first so many; 0 = all.
    """
    passages = []
    table = path if is_records(path) else passage_table(path)
    seen: dict[Any, int] = {}
    for line, passage in islice(numbered_passages(table), limit or None):
        check_new(seen, passage.docno, f"docno {passage.docno!r}", _name(table), line, "docno")
        passages.append(passage)
    if not passages:
        raise InputError("holds no passages", path=_name(path))
    return passages


def write_passages(path: StrPath, passages: Iterable[Passage]) -> None:
    """Write passages as BEIR-style JSONL (`_id`, `title`, `text`)."""
    write_jsonl(path, ({"_id": p.docno, "title": p.title, "text": p.text} for p in passages))


# ---------------------------------------------------------------- BEIR folders


def is_beir(path: StrPath) -> bool:
    """Say whether this is a folder with the queries of a BEIR data set."""
    return bool(_beir_files(Path(path), "queries"))


def beir_splits(folder: StrPath) -> list[str]:
    """Return the splits of a BEIR folder, those that its qrels are of: "test" first, the others by name."""
    names = [p.name.removesuffix(".gz") for p in (Path(folder) / "qrels").glob("*")]
    found = {re.split(r"-\d+-of-|\.", name)[0] for name in names if name.endswith((".tsv", ".jsonl", ".parquet"))}
    if not found:
        raise InputError("a BEIR folder needs qrels/SPLIT.tsv, such as qrels/test.tsv", path=folder)
    return sorted(found, key=lambda split: (split != "test", split))


def beir_questions(folder: StrPath, splits: Sequence[str]) -> list[Question]:
    """Return the queries of a BEIR folder that some splits judge, each with its own text as its one perspective.

    A query that is in two splits is that of the first, in its place.
    """
    folder = Path(folder)
    queries = read_questions(_beir_file(folder, "queries"))
    found: dict[str, Question] = {}
    for split in splits:
        asked = set(_beir_qrels(folder, split)["qid"])
        for q in queries:
            if q.qid in asked:
                found.setdefault(q.qid, Question(q.qid, q.text, (q.text,), (None,), folder.name, split))
    return list(found.values())


def beir_gold(folder: StrPath) -> pd.DataFrame:
    """Return the judgements of all splits of a BEIR folder as verdicts; a score from 1 on is a yes, and grades stay.

    Of a passage that two splits judge for the same query, that of the first split counts, "test" before the others.
    """
    whole = pd.concat([_beir_qrels(Path(folder), split) for split in beir_splits(folder)])
    return check_verdicts(whole.drop_duplicates(["qid", "docno"]))


def _beir_qrels(folder: Path, split: str) -> pd.DataFrame:
    return read_verdicts(_beir_file(folder, f"qrels/{split}"), relevance_level=None)


_BEIR = ("queries.jsonl", "corpus.jsonl", "qrels")


def write_beir(
    folder: StrPath, questions: Sequence[Question], passages: Iterable[Passage], verdicts: pd.DataFrame, split: str
) -> None:
    """Write a BEIR folder; a passage is relevant (score = number of perspectives it supports) if it supports any."""
    folder = Path(folder)
    if not re.fullmatch(r"[\w-]+", split):
        raise InputError(f"{split!r} cannot name a file; letters, digits, - and _ can", field="split")
    others = sorted({p.name for p in folder.iterdir()} - set(_BEIR)) if folder.is_dir() else []
    if others:
        raise InputError(f"holds {others[0]!r}; an empty folder or one of BEIR is needed", path=folder)
    verdicts = check_verdicts(verdicts)
    write_jsonl(folder / "queries.jsonl", ({"_id": q.qid, "text": q.text} for q in questions))
    write_passages(folder / "corpus.jsonl", passages)
    gains = verdicts.groupby(["qid", "docno"])["supports"].sum()  # 0 where somebody looked and found no support
    table = gains.reset_index(name="score").rename(columns={"qid": "query-id", "docno": "corpus-id"})
    with write_text(folder / "qrels" / f"{split}.tsv") as file:
        table.to_csv(file, sep="\t", index=False, lineterminator="\n")


def _beir_files(folder: Path, name: str) -> list[Path]:
    """Return the files of a table of a BEIR folder, also as Hugging Face has them (corpus/*.parquet)."""
    ending = ".tsv" if name.startswith("qrels/") else ".jsonl"
    names = [f"{name}{ending}", f"{name}{ending}.gz", f"{name}.jsonl", f"{name}.parquet"]
    parts = [*folder.glob(f"{name}-*-of-*.parquet"), *folder.glob(f"{name}/*.parquet")]
    return [path for path in (*(folder / each for each in names), *sorted(parts)) if path.is_file()]


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
    "Yes"/"No" or a probability, which is a yes from 0.5 on. Files of :func:`write_berds` say beside the probabilities
    which of them are a yes, since a judge has a threshold of its own ("mistral-supports" for "mistral-preds"). Where
    the lengths do not fit the row is refused: the official scripts append to old predictions when run twice
    (divergences.md B9), and nobody can tell which half is meant.

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
        row.texts("perspectives")  # here there have to be some
        question, contexts = _question(row, number, "berds", ""), row.get("ctxs")
        qid = question.qid
        row.check_new(seen, qid, f"question id {qid!r}", "qid")
        if not isinstance(contexts, list) or not all(isinstance(one, dict) for one in contexts):
            raise row.wrong("ctxs", "a list of documents {title, text} was expected")
        lists[qid] = []
        for rank, ctx in enumerate((Row(one, path, line) for one in contexts), start=1):
            docno = ctx.text("id", "docno", "_id", default="") or f"{qid}/{rank}"
            passage = Passage(docno, ctx.text("text"), ctx.text("title", default=""))
            if passages.setdefault(docno, passage) != passage:
                raise row.wrong(None, f"{docno!r} is used for two different documents")
            lists[qid].append(docno)
        if len(set(lists[qid])) < len(contexts):
            raise row.wrong("ctxs", "a document is listed twice")
        for docno, said in zip(lists[qid], _recorded(row, contexts, predictions, question), strict=False):
            verdicts += [(qid, pid, docno, p_yes, yes) for pid, (p_yes, yes) in enumerate(said)]
        questions.append(question)
    if not questions:
        raise InputError("holds no questions", path=path)
    found = make_verdicts(verdicts, predictions) if predictions is not None else None
    return questions, list(passages.values()), ranked_run(lists), found


def prediction_fields(path: StrPath) -> list[str]:
    """Return the names of the recorded predictions (fields ending in "-preds") in the first row of a BeRDS JSONL."""
    _, row = next(read_jsonl(path), (0, None))
    if row is None:
        raise InputError("holds no questions", path=path)
    contexts = row.get("ctxs")
    first = contexts[0] if isinstance(contexts, list) and contexts else None
    names = [*row, *(first if isinstance(first, dict) else ())]
    return [name for name in names if name.endswith("-preds")]


def _supports_field(predictions: str) -> str:
    """Return the field that says which predictions are a yes; :func:`prediction_fields` passes over it."""
    return f"{predictions.removesuffix('-preds')}-supports"


def _recorded(
    row: Row, contexts: Sequence[Mapping[str, Any]], name: str | None, question: Question
) -> Iterator[list[tuple[float, bool]]]:
    """Yield for each document and each perspective the recorded probability, and whether it is a yes."""
    if name is None:
        return
    supports = _supports_field(name)
    tables = [_predictions(row, contexts, name, len(question.perspectives))]
    if any(supports in part for part in (row, *contexts)):
        tables.append(_predictions(row, contexts, supports, len(question.perspectives)))
        if unclear := {value for values in tables[1] for value in values} - {0.0, 1.0}:
            raise row.wrong(supports, f"{min(unclear)} is neither yes (1) nor no (0)")
    for p_yes, said in zip(tables[0], tables[-1], strict=True):
        yield [(p, yes >= 0.5) for p, yes in zip(p_yes, said, strict=True)]


def _predictions(row: Row, contexts: Sequence[Mapping[str, Any]], name: str, n: int) -> list[list[float]]:
    """Return the recorded predictions of one row as a (documents, n perspectives) table."""
    in_documents = bool(contexts) and all(name in one for one in contexts)
    table = [one[name] for one in contexts] if in_documents else row.get(name, None if contexts else [])
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
        predictions: the field under which each document carries its probabilities; beside it stands what supports, as
            1 and 0, in a field named after it ("mistral-supports" for "mistral-preds").
    """
    run = check_run(run)
    judged = (
        [] if verdicts is None else read_pairs(check_verdicts(verdicts))[VERDICT_COLUMNS[:-1]].itertuples(index=False)
    )
    said = {(qid, pid, docno): (p_yes, int(yes)) for qid, pid, docno, p_yes, yes in judged}
    unknown = next((d for d in run["docno"] if d not in passages), None)
    if unknown is not None:
        raise InputError(f"the run lists passage {unknown!r}, which is not among the passages", field="docno")
    lists = {str(qid): docnos.tolist() for qid, docnos in run.groupby("qid", sort=False)["docno"]}

    def context(q: Question, docno: str) -> dict[str, Any]:
        ctx: dict[str, Any] = {"id": docno, "title": passages[docno].title, "text": passages[docno].text}
        if verdicts is not None:
            found = [said.get((q.qid, pid, docno), (0.0, 0)) for pid in range(len(q.perspectives))]
            ctx |= {predictions: [p for p, _ in found], _supports_field(predictions): [yes for _, yes in found]}
        return ctx

    rows = ((q, [context(q, docno) for docno in lists.get(q.qid, [])]) for q in questions)
    write_jsonl(
        path,
        (
            {"id": q.qid, "question": q.text, "perspectives": q.perspectives, **_beside_perspectives(q), "ctxs": listed}
            for q, listed in rows
        ),
    )


def _beside_perspectives(q: Question) -> dict[str, Any]:
    """Return the fields of a question that the official rows do not have, those that hold something."""
    fields = {"stances": q.stances if any(q.stances) else (), "labels": q.labels, "weights": q.weights}
    return {name: value for name, value in {**fields, "source": q.source, "split": q.split}.items() if value}


# ---------------------------------------------------------------- for other tools


def write_trec_collection(
    folder: Path, questions: Sequence[Question], passages: Iterable[Passage], gold: pd.DataFrame
) -> None:
    """Write what pyndeval and ir-measures read, and what their numbers stand for.

    That is `qrels.txt`, diversity qrels with the perspectives as subtopics from 0; `topics.tsv`, the questions;
    `subtopics.tsv`, the perspectives; and `corpus.jsonl`, the passages.
    """
    corpus = list(passages)
    check_trec_ids(questions, corpus)
    topics = [("qid", "question"), *((q.qid, q.text) for q in questions)]
    subtopics = [("qid", "subtopic", "perspective", "stance")] + [
        (q.qid, i, p, stance or "")
        for q in questions
        for i, (p, stance) in enumerate(zip_longest(q.perspectives, q.stances))
    ]
    with atomic_path(folder, marker="qrels.txt") as unfinished:
        write_trec_qrels(unfinished / "qrels.txt", gold)
        write_passages(unfinished / "corpus.jsonl", corpus)
        for name, rows in (("topics.tsv", topics), ("subtopics.tsv", subtopics)):
            with write_text(unfinished / name) as file:
                csv.writer(file, delimiter="\t", lineterminator="\n").writerows(rows)


def export_collection(
    path: StrPath,
    questions: Sequence[Question],
    passages: Iterable[Passage],
    gold: pd.DataFrame,
    *,
    layout: str | None = None,
    split: str = "test",
    run: pd.DataFrame | None = None,
) -> None:
    """Write questions, passages and gold verdicts in a layout that other tools read.

    What is lost depends on the layout:

    * "beir": perspectives and all that belongs to them, sources and grades. A passage's score is the number of
      perspectives that it supports. All passages are kept.
    * "berds": passages that are not listed, grades, and who judged; a pair without a verdict becomes a no. The question
      keeps its perspectives, stances, labels, weights, source and split.
    * "trec": labels, weights, sources, splits and grades. Subtopics are numbers in the qrels, and their statements and
      stances stand beside them.

    Args:
        path: a folder for "beir" and "trec"; a file for "berds", .jsonl or .jsonl.gz.
        questions: at least one.
        passages: the corpus; for "beir" it is streamed.
        gold: verdicts; those of other questions are left out.
        layout: "beir", "berds" or "trec"; None for "berds" where the path ends in .jsonl or .jsonl.gz, else "beir".
        split: of "beir", what the file of qrels is called.
        run: of "berds", each question's list; None for its passages with a verdict, those that support most first.
    """
    is_table = str(path).removesuffix(".gz").endswith(".jsonl")
    layout = known("layout", layout or ("berds" if is_table else "beir"), LAYOUTS)
    gold = gold[gold["qid"].isin([q.qid for q in questions])]
    if layout == "beir":
        write_beir(path, questions, passages, gold, split)
    elif layout == "trec":
        write_trec_collection(Path(path), questions, passages, gold)
    else:
        shown = gold.groupby(["qid", "docno"], sort=False)["supports"].sum().astype(float).reset_index(name="score")
        write_berds(path, questions, {p.docno: p for p in passages}, shown if run is None else run, gold, "gold-preds")
