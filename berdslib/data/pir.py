"""The PIR benchmark: root queries, each asked from several perspectives, and the texts that answer each.

Zhao et al. (2024), section 2. Two layouts are read: the authors' JSON (the demo release) and a folder of tables like
BEIR's (the full tasks on Hugging Face). Both become a :class:`~berdslib.data.collection.Collection`: a root is a
question, its full queries are recorded expansions, and the texts that answer them are gold verdicts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from berdslib.data.catalogue import Dataset
from berdslib.data.collection import Collection
from berdslib.data.fetch import every_place, first_existing
from berdslib.data.formats import QUESTION_FIELDS, iter_passages
from berdslib.data.records import OPPOSE, SUPPORT, Passage, Question, make_verdicts
from berdslib.data.tables import Row, detect_layout, read_json, read_table
from berdslib.data.trec import read_verdicts
from berdslib.errors import InputError, errors_in, known
from berdslib.files import StrPath, read_lines
from berdslib.paths import shipped

# The lists of the official layout with one entry per query.
_PER_QUERY = ("queries", "source_queries", "perspectives", "query_labels")
_ENDINGS = (".jsonl", ".parquet", ".tsv", ".csv")
_ROOT = ("root", "source_query", "root_query")
_STANCES = {"support": SUPPORT, "undermine": OPPOSE, "oppose": OPPOSE, "refute": OPPOSE}


class PirQuery(NamedTuple):
    """A root query from one perspective: a row of PIR's files.

    Fields: ``qid`` its number in the file, for messages; ``text`` the full query; ``root`` the query without its
    perspective; ``perspective`` in words; ``gold`` docnos of the texts that answer it; ``label`` the short name of the
    perspective ("support", "left"), or "".
    """

    qid: str
    text: str
    root: str
    perspective: str
    gold: tuple[str, ...]
    label: str = ""


def pir_collection(name: str, rows: Sequence[PirQuery], passages: Sequence[Passage]) -> Collection:
    """Return a task as a collection; its questions are the roots, in the order of their first rows.

    Every row is one perspective of its root. If a task asks several queries from one perspective (the released
    Perspectrum has one for each cluster of texts), each counts, as in the authors' code.

    Args:
        name: the task's name.
        rows: at least one.
        passages: the corpus of all queries.
    """
    docnos = {passage.docno for passage in passages}
    by_root: dict[str, list[PirQuery]] = {}
    for row in rows:
        if not row.gold:
            raise InputError(f"query {row.qid!r} has no gold texts", field="gold")
        absent = set(row.gold) - docnos
        if absent:
            raise InputError(f"gold {min(absent)!r} of query {row.qid!r} is not in the corpus", field="gold")
        by_root.setdefault(row.root, []).append(row)
    questions = []
    expansions = {}
    verdicts = []
    for root, queries in by_root.items():
        question = _root_question(root, queries, source=f"pir-{name}")
        questions.append(question)
        expansions[question.qid] = [(query.perspective, query.text) for query in queries]
        for pid, query in enumerate(queries):
            for docno in dict.fromkeys(query.gold):
                verdicts.append((question.qid, pid, docno, 1.0, True))
    return Collection(name, questions, passages, make_verdicts(verdicts, "gold"), expansions)


def _root_question(root: str, queries: Sequence[PirQuery], source: str) -> Question:
    """Return a root query as a question whose perspectives are those of its queries."""
    labels = tuple(query.label for query in queries)
    return Question(
        root_id(root),
        root,
        perspectives=tuple(query.perspective for query in queries),
        stances=tuple(_STANCES.get(label.lower()) for label in labels),
        source=source,
        labels=labels if any(labels) else (),
    )


def root_id(root: str) -> str:
    """Return the qid of a root query, which depends on the text alone.

    >>> root_id("Is tea healthy?")
    'root-b89c8a92bdf9'
    """
    return f"root-{hashlib.sha256(root.encode()).hexdigest()[:12]}"


# ---------------------------------------------------------------- loading


def load_task(place: Dataset | Path, task: str = "") -> Collection:
    """Return a task of a data set, of a JSON file in the authors' layout, or of a folder of tables.

    **The full tasks were never downloaded here**: their column names are a guess, after BEIR (see
    :func:`read_pir_folder`), and a file with other names is refused with the accepted names.

    Args:
        place: the data set, file or folder.
        task: a task of the file; "" if it has only one. For a folder: the name to give its task.
    """
    if isinstance(place, Dataset) and place.hf_repo:  # a repository holds one task, under any folder name
        own = place.name.removeprefix("pir-")
        task = known("PIR task", task or own, (own,))
    path = _place_of(place) if isinstance(place, Dataset) else place
    if path.is_dir():
        return read_pir_folder(path, task or path.resolve().name)
    tasks = _read_tasks(path)
    if not task and len(tasks) > 1:
        raise InputError(f"holds several tasks; name one of: {', '.join(tasks)}", path=path, field="task")
    chosen = known("PIR task", task or next(iter(tasks)), tasks)
    return _official_task(chosen, Row(tasks[chosen], path))


def _place_of(dataset: Dataset) -> Path:
    if dataset.shipped:
        return shipped(dataset.shipped) / "tasks.json"
    return first_existing(dataset, every_place(dataset), "tasks")


def is_pir(path: Path) -> bool:
    """Return whether a path is a JSON file in the authors' layout, or a folder of tables whose queries have a root."""
    if path.is_file():
        return _holds_tasks(path)
    rows = (row for file in _files(path, "queries") for _, row in read_table(file))
    first: Mapping[str, Any] = next(rows, {})
    return any(field in first for field in _ROOT)


def _holds_tasks(path: Path) -> bool:
    """Return whether a file is an object of JSON that is a task, or maps names to tasks."""
    if ".json" not in path.suffixes:
        return False
    try:
        first = next((text.lstrip()[:1] for _, text in read_lines(path) if text.strip()), "")
        if first != "{" or detect_layout(path, QUESTION_FIELDS).form != "json":
            return False
        content = read_json(path)
    except InputError:
        return False  # reading the file as a table reports the problem
    return isinstance(content, dict) and any(map(_is_task, (content, *content.values())))


def _is_task(value: object) -> bool:
    return isinstance(value, dict) and "queries" in value and "corpus" in value


def task_statistics(task: Collection) -> dict[str, float]:
    """Return PIR's Table 1 for a task: queries, words_per_query, documents, words_per_document.

    Words are separated by blanks. The task must have recorded full queries.
    """
    if not task.expansions:
        raise InputError(f"{task.name!r} has no full queries; a task of PIR has a full query for each perspective")
    query_lengths = [len(query.text.split()) for query in task.queries]
    document_lengths = [len(passage.full_text.split()) for passage in task.passages]
    return {
        "queries": len(query_lengths),
        "words_per_query": float(np.mean(query_lengths)),
        "documents": len(document_lengths),
        "words_per_document": float(np.mean(document_lengths)),
    }


# ---------------------------------------------------------------- the authors' JSON


def _read_tasks(path: Path) -> dict[str, dict[str, Any]]:
    """Return name → content; a file with one task without a name gives it the file's name."""
    tasks = read_json(path)
    if _is_task(tasks):
        tasks = {path.name.partition(".")[0]: tasks}
    if not isinstance(tasks, dict) or not tasks or not all(isinstance(task, dict) for task in tasks.values()):
        raise InputError("an object was expected that maps names of tasks to their queries and corpus", path=path)
    return tasks


def _official_task(name: str, task: Row) -> Collection:
    corpus = _texts(task, "corpus")
    docnos = _texts(task, "docnos") if "docnos" in task else places(len(corpus))
    if len(docnos) != len(corpus):
        raise task.wrong("docnos", f"holds {len(docnos)} entries for {len(corpus)} texts")
    columns = {field: _texts(task, field) for field in _PER_QUERY}
    n = len(columns["queries"])
    for field, column in columns.items():
        _check_column(task, field, column, n)
    gold = _gold_lists(task, n, docnos)
    rows = []
    for i, (text, root, perspective, label) in enumerate(zip(*columns.values(), strict=True)):
        rows.append(PirQuery(str(i), text, root, perspective, gold[i], label))
    with errors_in(task.path):
        return pir_collection(name, rows, tuple(map(Passage, docnos, corpus)))


def _check_column(task: Row, field: str, column: Sequence[str], n: int) -> None:
    """Refuse a list without one entry per query, or with a blank entry; labels may be blank."""
    if len(column) != n:
        raise task.wrong(field, f"holds {len(column)} entries for {n} queries")
    if field == "query_labels":
        return
    for i, text in enumerate(column):
        if not text.strip():
            raise task.wrong(field, f"entry {i} is blank")


def _texts(task: Row, field: str) -> list[str]:
    texts = task.get(field)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise task.wrong(field, f"a list of texts was expected; the task has: {', '.join(task)}")
    return texts


def _gold_lists(task: Row, n_queries: int, docnos: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the gold docnos of each query. Queries and places are numbers or strings in the release."""
    field = "key_ref"
    if not isinstance(task.get(field), dict):
        raise task.wrong(field, "an object query → places in the corpus was expected")
    places_of = {str(query): listed for query, listed in task[field].items()}
    docno_at = {str(place): docno for place, docno in enumerate(docnos)}
    queries = [str(i) for i in range(n_queries)]
    unknown = places_of.keys() - set(queries)
    if n_queries and unknown:
        raise task.wrong(field, f"there is no query {min(unknown)!r} among {n_queries}")
    lists = []
    for query in queries:
        if not isinstance(places_of.get(query), list):
            raise task.wrong(field, f"no list of places for query {query}")
        gold = []
        for place in dict.fromkeys(map(str, places_of[query])):
            if place not in docno_at:
                raise task.wrong(field, f"{place!r} of query {query} is not one of {len(docnos)} places")
            gold.append(docno_at[place])
        lists.append(tuple(gold))
    return lists


def places(n: int) -> list[str]:
    """Return n places as docnos with leading zeros, whose alphabetical order, which breaks ties, is that of the places.

    >>> places(11)[8:]
    ['08', '09', '10']
    """
    width = len(str(n - 1))
    return [f"{i:0{width}d}" for i in range(n)]


# ---------------------------------------------------------------- folders of tables


def read_pir_folder(folder: StrPath, name: str) -> Collection:
    """Read a task from a folder with the tables corpus, queries and qrels (JSONL, Parquet, TSV or CSV).

    The files of a table start with its name, or lie in a folder whose name does, here or one folder further down:
    ``corpus.jsonl``, ``qrels/test.tsv``, ``data/queries-00000-of-00001.parquet``. Several files of a table are joined.
    The corpus is read like any corpus, and qrels like BEIR's. Columns of queries: ``_id`` (or ``id``, ``query_id``),
    ``text`` (or ``query``), ``root`` (or ``source_query``, ``root_query``), ``perspective``, optionally ``label`` (or
    ``query_label``).
    """
    folder = Path(folder)
    for table in ("corpus", "queries", "qrels"):
        if not _files(folder, table):
            endings = ", ".join(_ENDINGS)
            problem = f"holds no table {table!r}; a file {table}.* or a folder {table}/ ({endings})"
            raise InputError(problem, path=folder)
    passages = [passage for path in _files(folder, "corpus") for passage in iter_passages(path)]
    gold: dict[str, list[str]] = {}
    for verdicts in map(read_verdicts, _files(folder, "qrels")):
        supporting = verdicts.loc[verdicts["supports"], ["qid", "docno"]]
        for qid, docno in supporting.itertuples(index=False):
            gold.setdefault(qid, []).append(docno)
    queries = []
    for path in _files(folder, "queries"):
        for _, row in read_table(path):
            queries.append(_query_of(row, gold))
    if gold:
        raise InputError(f"the query {next(iter(gold))!r} is judged but not among the queries", path=folder)
    with errors_in(folder):
        return pir_collection(name, queries, tuple(passages))


def _query_of(row: Row, gold: dict[str, list[str]]) -> PirQuery:
    """Return the query of a row, and take its docnos out of `gold`."""
    qid = row.text("_id", "id", "query_id")
    return PirQuery(
        qid,
        text=row.text("text", "query"),
        root=row.text(*_ROOT),
        perspective=row.text("perspective"),
        gold=tuple(gold.pop(qid, ())),
        label=row.text("label", "query_label", default=""),
    )


def _files(folder: Path, table: str) -> list[Path]:
    """Return the files of a table. Only two levels are searched: a whole tree takes long to walk."""
    found: set[Path] = set()
    for pattern in (f"{table}*", f"{table}*/*", f"*/{table}*", f"*/{table}*/*"):
        found.update(folder.glob(pattern))
    tables = [path for path in found if path.name.removesuffix(".gz").endswith(_ENDINGS)]
    return sorted(path for path in tables if path.is_file())
