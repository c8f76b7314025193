"""Readers and writers of questions and passages: plain tables, BEIR folders, the official BeRDS files.

All of them stream and also read ``.gz``. Nothing is skipped silently.
"""

from __future__ import annotations

import csv
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
    Passage,
    Question,
    check_passages,
    check_questions,
    check_run,
    check_verdicts,
    make_verdicts,
    ranked_run,
)
from berdslib.data.tables import (
    check_new,
    from_json,
    is_missing,
    number,
    read_jsonl,
    read_table,
    text_field,
    text_list,
    write_jsonl,
    yes_probability,
)
from berdslib.data.trec import check_trec_ids, write_trec_qrels
from berdslib.errors import InputError, known
from berdslib.files import StrPath, atomic_path, write_text

logger = logging.getLogger(__name__)

# What others call the fields of a passage, in the order in which they are looked for. `docid` comes late: in MS MARCO
# v2 a passage has a `pid`, and its `docid` is that of its document.
ID_FIELDS = ("docno", "_id", "id", "pid", "passage_id", "docid", "doc_id")
TEXT_FIELDS = ("text", "contents", "content", "raw", "passage", "passage_text", "segment", "body")
TITLE_FIELDS = ("title", "page_title", "wikipedia_title", "headline")


LAYOUTS = ("beir", "berds", "trec")

# ---------------------------------------------------------------- questions


def read_questions(path: StrPath, *, source: str = "", split: str = "", start: int = 0) -> list[Question]:
    """Read questions from JSONL, CSV or TSV.

    Accepted columns: `question` (or `text`, `title`), `perspectives` (a list), optionally `qid` (or `id`, `_id`),
    `stances`, `source`, `split`, `labels`. Without an id, questions are numbered from `start`. The official BeRDS files
    (with `ctxs`) and the recorded-expansion rows (`org_q`) have readers of their own below; both are recognised here.
    """
    rows = read_table(path)
    first = next(rows, None)
    if first is None:
        raise InputError("holds no questions", path=path)
    rows = chain([first], rows)
    if "org_q" in first[1]:
        return [q for q, _ in _group_expansions(rows, path, source, split)]
    questions = []
    seen: dict[Any, int] = {}
    for i, (line, row) in enumerate(rows, start):
        questions.append(_question(row, i, path, line, source, split))
        check_new(seen, questions[-1].qid, f"question id {questions[-1].qid!r}", path, line, "qid")
    return questions


def _question(row: Mapping[str, Any], number: int, path: StrPath, line: int, source: str, split: str) -> Question:
    perspectives = text_list(row, "perspectives", path, line, optional=True)
    named = not all(is_missing(row.get(n)) for n in ("qid", "id", "_id"))
    return Question(
        qid=text_field(row, ("qid", "id", "_id"), path, line) if named else str(number),
        text=text_field(row, ("question", "text", "title"), path, line),
        perspectives=perspectives,
        stances=_stances(row, len(perspectives), path, line),
        source=text_field(row, ("source",), path, line, default=source),
        split=text_field(row, ("split",), path, line, default=split),
        labels=_labels(row, len(perspectives)),
    )


def _labels(row: Mapping[str, Any], n: int) -> tuple[str, ...]:
    """Return the short names of the perspectives; a field that holds something else is another tool's."""
    found = row.get("labels")
    is_ours = isinstance(found, list) and len(found) == n and all(isinstance(one, str) for one in found)
    return tuple(found) if is_ours and found else ()


def _stances(row: Mapping[str, Any], n: int, path: StrPath, line: int) -> tuple[str | None, ...]:
    value = row.get("stances")
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = from_json(value, path, line, "stances")
    if is_missing(value) or value == "" or value == []:
        return (None,) * n
    if not isinstance(value, list) or len(value) != n or any(v not in (SUPPORT, OPPOSE, None) for v in value):
        problem = f'a list of {n} stances was expected, each "support", "oppose" or null'
        raise InputError(problem, path=path, line=line, field="stances")
    return tuple(value)


# ---------------------------------------------------------------- recorded expansions


def read_expansions(
    path: StrPath, *, source: str = "", split: str = ""
) -> list[tuple[Question, list[tuple[str, str]]]]:
    """Read recorded query expansions: one row an expansion, with `org_q`, `perspective`, `text`, `perspectives`.

    Rows are grouped by their question (`org_q`), in the order of the file; the gold perspectives come along.

    Returns:
        A list of (question, [(name, text), …]), the expansions in the order in which they were generated.
    """
    grouped = _group_expansions(read_jsonl(path), path, source, split)
    if not grouped:
        raise InputError("holds no expansions", path=path)
    return grouped


def _group_expansions(
    rows: Iterable[tuple[int, dict[str, Any]]], path: StrPath, source: str, split: str
) -> list[tuple[Question, list[tuple[str, str]]]]:
    questions: dict[str, Question] = {}
    qids: set[str] = set()
    expansions: dict[str, list[tuple[str, str]]] = {}
    for line, row in rows:
        text = text_field(row, ("org_q",), path, line)
        perspectives = text_list(row, "perspectives", path, line)
        if text not in questions:
            qid = text_field(row, ("org_id",), path, line, default=str(len(questions)))
            qid = f"{source}-{qid}" if source else qid
            if qid in qids:
                raise InputError(f"{qid!r} is used for two different questions", path=path, line=line, field="org_id")
            qids.add(qid)
            questions[text] = Question(qid, text, perspectives, (None,) * len(perspectives), source, split)
        elif questions[text].perspectives != perspectives:
            problem = "differ from those in an earlier row of the same question"
            raise InputError(problem, path=path, line=line, field="perspectives")
        name = text_field(row, ("perspective",), path, line, default="")
        expansions.setdefault(text, []).append((name, text_field(row, ("text",), path, line)))
    return [(q, expansions[t]) for t, q in questions.items()]


# ---------------------------------------------------------------- passages


def iter_passages(path: StrPath) -> Iterator[Passage]:
    """Yield passages from JSONL, CSV or TSV with named columns, or from a BEIR folder (its corpus.jsonl).

    Accepted columns, in the order in which they are looked for:

    * id: `docno`, `_id`, `id`, `pid`, `passage_id`, `docid`, `doc_id`; the first that is there. A row without an id is
      named after the line of the file in which it starts, as in "line-17", and one warning says so,
    * text: `text`, `contents`, `content`, `raw`, `passage`, `passage_text`, `segment`, `body`; the first that is not
      blank. One of them has to be there, but all may be blank,
    * title: `title`, `page_title`, `wikipedia_title`, `headline`; the first that is not blank, "" without any.

    This covers BEIR's corpus.jsonl, the Sphere JSONL, `psgs_w100.tsv` (id, text, title), MS MARCO v2 (pid, passage)
    and Pyserini's JSONL (id, contents) as they are. Other columns are not read.
    """
    for _, passage in numbered_passages(path):
        yield passage


def numbered_passages(path: StrPath) -> Iterator[tuple[int, Passage]]:
    """Yield (line number, passage) as :func:`iter_passages` does."""
    path = passage_table(path)
    said = False
    for line, row in read_table(path):
        if not any(name in row for name in TEXT_FIELDS):
            text_field(row, TEXT_FIELDS, path, line)  # says what was looked for
        text = _first_text(row, TEXT_FIELDS, path, line)
        named = not all(is_missing(row.get(name)) or row[name] == "" for name in ID_FIELDS)
        docno = text_field(row, ID_FIELDS, path, line) if named else f"line-{line}"
        if not named and not said:
            said = True
            problem = "%s: line %d has no id; such rows are named after their line, as in %r"
            logger.warning(problem, path, line, docno)
        yield line, Passage(docno, text, _first_text(row, TITLE_FIELDS, path, line))


def passage_table(path: StrPath) -> Path:
    """Return the file that holds the passages: of a BEIR folder, its corpus.jsonl."""
    return _beir_file(Path(path), "corpus.jsonl") if Path(path).is_dir() else Path(path)


def _first_text(row: Mapping[str, Any], names: Sequence[str], path: StrPath, line: int) -> str:
    """Return the first of the named fields that is not blank; if all are, the first that is not empty, or ""."""
    blank = ""
    for name in names:
        if name in row:
            text = text_field(row, (name,), path, line, default="")
            if text.strip():
                return text
            blank = blank or text
    return blank


def read_passages(path: StrPath, limit: int = 0) -> list[Passage]:
    """Read passages of a file or BEIR folder into memory; see :func:`iter_passages`.

    Args:
        path: the file or folder.
        limit: only the first so many; 0 = all.
    """
    passages = []
    table = passage_table(path)
    seen: dict[Any, int] = {}
    for line, passage in islice(numbered_passages(table), limit or None):
        check_new(seen, passage.docno, f"docno {passage.docno!r}", table, line, "docno")
        passages.append(passage)
    if not passages:
        raise InputError("holds no passages", path=path)
    return passages


def write_passages(path: StrPath, passages: Iterable[Passage]) -> None:
    """Write passages as BEIR-style JSONL (`_id`, `title`, `text`)."""
    write_jsonl(path, ({"_id": p.docno, "title": p.title, "text": p.text} for p in passages))


# ---------------------------------------------------------------- BEIR folders


_BEIR = ("queries.jsonl", "corpus.jsonl", "qrels")


def is_beir(path: StrPath) -> bool:
    """Say whether this is a folder with the queries of a BEIR data set."""
    return any((Path(path) / f"queries.jsonl{ending}").is_file() for ending in ("", ".gz"))


def beir_splits(folder: StrPath) -> list[str]:
    """Return the splits of a BEIR folder, those that its qrels are of: "test" first, the others by name."""
    found = {p.name.removesuffix(".gz").removesuffix(".tsv") for p in (Path(folder) / "qrels").glob("*.tsv*")}
    if not found:
        raise InputError("a BEIR folder needs qrels/SPLIT.tsv, such as qrels/test.tsv", path=folder)
    return sorted(found, key=lambda split: (split != "test", split))


def beir_questions(folder: StrPath, splits: Sequence[str]) -> list[Question]:
    """Return the queries of a BEIR folder that some splits judge, each with its own text as its one perspective.

    A query that is in two splits is that of the first, in its place.
    """
    folder = Path(folder)
    queries = read_questions(_beir_file(folder, "queries.jsonl"))
    found: dict[str, Question] = {}
    for split in splits:
        asked = set(_beir_qrels(folder, split)["qid"])
        for q in queries:
            if q.qid in asked:
                found.setdefault(q.qid, Question(q.qid, q.text, (q.text,), (None,), folder.name, split))
    return list(found.values())


def beir_gold(folder: StrPath) -> pd.DataFrame:
    """Return the judgements of all splits of a BEIR folder as verdicts; a score above 0 is a yes.

    Of a passage that two splits judge for the same query, that of the first split counts, "test" before the others.
    """
    whole = pd.concat([_beir_qrels(Path(folder), split) for split in beir_splits(folder)])
    return check_verdicts(whole.drop_duplicates(["qid", "docno"]))


def _beir_qrels(folder: Path, split: str) -> pd.DataFrame:
    path = _beir_file(folder, f"qrels/{split}.tsv")
    rows = []
    seen: dict[Any, int] = {}
    for line, row in read_table(path):
        qid, docno = (text_field(row, (field,), path, line) for field in ("query-id", "corpus-id"))
        check_new(seen, (qid, docno), f"passage {docno!r} of query {qid!r}", path, line, "corpus-id")
        relevant = number(row.get("score"), path, line, "score") > 0
        rows.append((qid, 0, docno, float(relevant), relevant))
    return make_verdicts(rows, "gold")


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


def _beir_file(folder: Path, name: str) -> Path:
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.exists():
            return candidate
    raise InputError(f"a BEIR folder needs {name} (or {name}.gz)", path=folder)


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
    verdict_rows: list[tuple[str, int, str, float, bool]] = []
    seen: dict[Any, int] = {}
    for place, (line, row) in enumerate(read_jsonl(path)):
        question = _question(row, place, path, line, "berds", "")
        if not question.perspectives:
            raise InputError("missing; a list of texts was expected", path=path, line=line, field="perspectives")
        contexts = row.get("ctxs")
        if not isinstance(contexts, list) or not all(isinstance(c, dict) for c in contexts):
            raise InputError("a list of documents {title, text} was expected", path=path, line=line, field="ctxs")
        docnos = []
        for rank, ctx in enumerate(contexts, start=1):
            docno = text_field(ctx, ("id", "docno", "_id"), path, line, default="") or f"{question.qid}/{rank}"
            text, title = text_field(ctx, ("text",), path, line), text_field(ctx, ("title",), path, line, default="")
            passage = Passage(docno, text, title)
            if passages.setdefault(passage.docno, passage) != passage:
                raise InputError(f"{passage.docno!r} is used for two different documents", path=path, line=line)
            docnos.append(passage.docno)
        if len(set(docnos)) < len(docnos):
            raise InputError("a document is listed twice", path=path, line=line, field="ctxs")
        if predictions is not None:
            p_yes, supports = _recorded(row, contexts, predictions, len(question.perspectives), path, line)
            for docno, values, said in zip(docnos, p_yes, supports, strict=True):
                pairs = enumerate(zip(values, said, strict=True))
                verdict_rows += [(question.qid, i, docno, p, yes) for i, (p, yes) in pairs]
        check_new(seen, question.qid, f"question id {question.qid!r}", path, line, "qid")
        questions.append(question)
        lists[question.qid] = docnos
    if not questions:
        raise InputError("holds no questions", path=path)
    verdicts = make_verdicts(verdict_rows, predictions) if predictions is not None else None
    return questions, list(passages.values()), ranked_run(lists), verdicts


def prediction_fields(path: StrPath) -> list[str]:
    """Return the names of the recorded predictions (fields ending in "-preds") in the first row of a BeRDS JSONL."""
    _, row = next(read_jsonl(path), (0, None))
    if row is None:
        raise InputError("holds no questions", path=path)
    contexts = row.get("ctxs")
    first = contexts[0] if isinstance(contexts, list) and contexts else None
    names = [*row, *(first if isinstance(first, dict) else ())]
    return [n for n in names if n.endswith("-preds")]


def _supports_field(predictions: str) -> str:
    """Return the field that says which predictions are a yes; :func:`prediction_fields` passes over it."""
    return f"{predictions.removesuffix('-preds')}-supports"


def _recorded(
    row: Mapping[str, Any], contexts: Sequence[Mapping[str, Any]], name: str, n: int, path: StrPath, line: int
) -> tuple[list[list[float]], list[list[bool]]]:
    """Return the recorded probabilities of one row and which of them are a yes, each (documents, n perspectives)."""
    p_yes = _predictions(row, contexts, name, n, path, line)
    field = _supports_field(name)
    if not any(field in part for part in (row, *contexts)):
        return p_yes, [[p >= 0.5 for p in values] for values in p_yes]
    said = _predictions(row, contexts, field, n, path, line)
    unclear = next((value for values in said for value in values if value not in (0.0, 1.0)), None)
    if unclear is not None:
        raise InputError(f"{unclear} is neither yes (1) nor no (0)", path=path, line=line, field=field)
    return p_yes, [[value == 1.0 for value in values] for values in said]


def _predictions(
    row: Mapping[str, Any],
    contexts: Sequence[Mapping[str, Any]],
    name: str,
    n_perspectives: int,
    path: StrPath,
    line: int,
) -> list[list[float]]:
    """Return the recorded predictions of one row as a (documents, perspectives) table."""
    if contexts and all(name in c for c in contexts):
        table: Any = [c[name] for c in contexts]
    elif name in row or not contexts:
        table = row.get(name, [])
    else:
        raise InputError("no such predictions in this row or its documents", path=path, line=line, field=name)
    fits = isinstance(table, list) and len(table) == len(contexts)
    if not fits or not all(isinstance(values, list) and len(values) == n_perspectives for values in table):
        problem = (
            f"expected {len(contexts)} lists (one per document) of {n_perspectives} values (one per perspective); "
            "the official scripts append to old predictions when they run twice"
        )
        raise InputError(problem, path=path, line=line, field=name)
    return [[yes_probability(v, path, line, name) for v in values] for values in table]


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
        verdicts: p_yes and supports for each listed (passage, perspective); absent ones are written as 0.
        predictions: the field under which each document carries its probabilities; beside it stands what supports, as
            1 and 0, in a field named after it ("mistral-supports" for "mistral-preds").
    """
    run = check_run(run)
    known_verdicts = {} if verdicts is None else _by_key(check_verdicts(verdicts))
    unknown = next((d for d in run["docno"] if d not in passages), None)
    if unknown is not None:
        raise InputError(f"the run lists passage {unknown!r}, which is not among the passages", field="docno")
    lists = {str(qid): group["docno"].tolist() for qid, group in run.groupby("qid", sort=False)}

    def context(q: Question, docno: str) -> dict[str, Any]:
        ctx: dict[str, Any] = {"id": docno, "title": passages[docno].title, "text": passages[docno].text}
        if verdicts is not None:
            said = [known_verdicts.get((q.qid, i, docno), (0.0, False)) for i in range(len(q.perspectives))]
            ctx[predictions] = [p_yes for p_yes, _ in said]
            ctx[_supports_field(predictions)] = [int(supports) for _, supports in said]
        return ctx

    def rows() -> Iterator[dict[str, Any]]:
        for q in questions:
            listed = [context(q, docno) for docno in lists.get(q.qid, [])]
            yield {"id": q.qid, "question": q.text, "perspectives": list(q.perspectives), "ctxs": listed}

    write_jsonl(path, rows())


def _by_key(verdicts: pd.DataFrame) -> dict[tuple[str, int, str], tuple[float, bool]]:
    columns = (verdicts[name] for name in ("qid", "pid", "docno", "p_yes", "supports"))
    return {(q, int(i), d): (float(p), bool(yes)) for q, i, d, p, yes in zip(*columns, strict=True)}


# ---------------------------------------------------------------- for other tools


def write_trec_collection(
    folder: Path, questions: Sequence[Question], passages: Iterable[Passage], gold: pd.DataFrame
) -> None:
    """Write what pyndeval and ir-measures read, and what their numbers stand for.

    That is `qrels.txt`, diversity qrels with the perspectives as subtopics from 0; `topics.tsv`, the questions;
    `subtopics.tsv`, the perspectives; and `corpus.jsonl`, the passages.
    """
    corpus = list(passages)
    check_passages(corpus)
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

    BEIR knows no perspectives: there a passage's score is the number of perspectives that it supports, and which they
    are is lost. The official BeRDS rows keep them, and hold listed passages only. TREC's diversity qrels keep them too,
    as numbers; the folder has their statements beside them.

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
    check_questions(questions)
    gold = check_verdicts(gold)
    gold = gold[gold["qid"].isin([q.qid for q in questions])]
    if layout == "beir":
        write_beir(path, questions, passages, gold, split)
        return
    if layout == "trec":
        write_trec_collection(Path(path), questions, passages, gold)
        return
    corpus = list(passages)
    check_passages(corpus)
    shown = gold.groupby(["qid", "docno"], sort=False)["supports"].sum().astype(float).rename("score").reset_index()
    write_berds(path, questions, {p.docno: p for p in corpus}, shown if run is None else run, gold, "gold-preds")
