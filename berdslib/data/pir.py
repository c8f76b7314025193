"""The PIR benchmark: root queries, each asked from several perspectives, and the texts that answer each.

Zhao et al. (2024), section 2. Two forms are read: the authors' JSON (the demo release) and a folder of tables in BEIR's
manner (the full tasks on Hugging Face). Either becomes a :class:`~berdslib.data.collection.Collection`: a root is a
question, its full queries are recorded expansions, and the texts that answer them are gold verdicts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from berdslib.data.catalogue import Dataset
from berdslib.data.collection import Collection
from berdslib.data.fetch import every_place, first_existing
from berdslib.data.formats import QUESTION_FIELDS, iter_passages
from berdslib.data.records import OPPOSE, SUPPORT, Passage, Question, make_verdicts
from berdslib.data.tables import Row, look, read_json, read_table
from berdslib.data.trec import read_verdicts
from berdslib.errors import InputError, errors_in, known
from berdslib.files import StrPath, read_lines
from berdslib.paths import shipped

# The lists of the official layout that hold one entry a query.
_PER_QUERY = ("queries", "source_queries", "perspectives", "query_labels")
_ENDINGS = (".jsonl", ".parquet", ".tsv", ".csv")
_ROOT = ("root", "source_query", "root_query")
_STANCES = {"support": SUPPORT, "undermine": OPPOSE, "oppose": OPPOSE, "refute": OPPOSE}


class PirQuery(NamedTuple):
    """A root query seen from one perspective, as the files of PIR have it: a row.

    Fields: ``qid`` as the file numbers it, for messages; ``text`` the full query; ``root`` the query without its
    perspective; ``perspective`` in words; ``gold`` docnos of the texts that answer it; ``label`` the short name of the
    perspective ("support", "left"), "" where there is none.
    """

    qid: str
    text: str
    root: str
    perspective: str
    gold: tuple[str, ...]
    label: str = ""


def pir_collection(name: str, rows: Sequence[PirQuery], passages: Sequence[Passage]) -> Collection:
    """Return a task as a collection whose questions are the roots, in the order in which they first come up.

    Every row is one perspective of its root. Where a task asks several queries from one perspective (the released
    Perspectrum has one for each cluster of texts) each counts, as in the authors' code.

    Args:
        name: of the task.
        rows: at least one.
        passages: the corpus that all search.
    """
    docnos = {p.docno for p in passages}
    by_root: dict[str, list[PirQuery]] = {}
    for row in rows:
        if not row.gold:
            raise InputError(f"query {row.qid!r} has no gold texts", field="gold")
        if stray := set(row.gold) - docnos:
            raise InputError(f"gold {min(stray)!r} of query {row.qid!r} is not in the corpus", field="gold")
        by_root.setdefault(row.root, []).append(row)
    questions, expansions, verdicts = [], {}, []
    for root, asked in by_root.items():
        qid, labels = root_id(root), tuple(row.label for row in asked)
        stances = tuple(_STANCES.get(label.lower()) for label in labels)
        perspectives, labels = tuple(row.perspective for row in asked), labels if any(labels) else ()
        questions.append(Question(qid, root, perspectives, stances, source=f"pir-{name}", labels=labels))
        expansions[qid] = [(row.perspective, row.text) for row in asked]
        verdicts += [(qid, pid, docno, 1.0, True) for pid, row in enumerate(asked) for docno in dict.fromkeys(row.gold)]
    return Collection(name, questions, passages, make_verdicts(verdicts, "gold"), expansions)


def root_id(root: str) -> str:
    """Return the qid of a root query; it depends on the text alone.

    >>> root_id("Is tea healthy?")
    'root-b89c8a92bdf9'
    """
    return f"root-{hashlib.sha256(root.encode()).hexdigest()[:12]}"


# ---------------------------------------------------------------- loading


def load_task(place: Dataset | Path, task: str = "") -> Collection:
    """Return a task of a data set, of a JSON file in the authors' layout, or the one of a folder of tables.

    **The full tasks were never downloaded from here**: what their columns are called is our guess at BEIR's manner (see
    :func:`read_pir_folder`), and a file that differs is refused with the names that would be accepted.

    Args:
        place: the data set, file or folder.
        task: which of the tasks that a file holds; "" where there is only one. Of a folder: what to call its task.
    """
    if isinstance(place, Dataset) and place.hf_repo:  # it holds one task, whatever its folder is called
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


def _place_of(one: Dataset) -> Path:
    if one.shipped:
        return shipped(one.shipped) / "tasks.json"
    return first_existing(one, every_place(one), "tasks")


def is_pir(path: Path) -> bool:
    """Return whether a path is a JSON file in the authors' layout, or a folder of tables whose queries have a root."""
    if path.is_file():
        return _holds_tasks(path)
    first: Mapping[str, Any] = next((row for file in _files(path, "queries") for _, row in read_table(file)), {})
    return any(field in first for field in _ROOT)


def _holds_tasks(path: Path) -> bool:
    """Return whether a file is an object of JSON that is a task, or maps names to tasks."""
    if ".json" not in path.suffixes:
        return False
    try:
        first = next((text.lstrip()[:1] for _, text in read_lines(path) if text.strip()), "")
        found = read_json(path) if first == "{" and look(path, QUESTION_FIELDS).form == "json" else None
    except InputError:
        return False  # reading it as a table says what is wrong
    held = [found, *found.values()] if isinstance(found, dict) else []
    return any(isinstance(one, dict) and "queries" in one and "corpus" in one for one in held)


def location_groups() -> dict[str, str]:
    """Return docno → country of every article of "pir-sample:location"; see evaluation.bias."""
    task = read_json(shipped("pir-sample") / "tasks.json")["location"]
    return dict(zip(task["docnos"], task["groups"], strict=True))


# ---------------------------------------------------------------- the authors' JSON


def _read_tasks(path: Path) -> dict[str, dict[str, Any]]:
    """Return name → content; a file that holds one task without its name gets the file's."""
    found = read_json(path)
    if isinstance(found, dict) and {"queries", "corpus"} <= found.keys():
        found = {path.name.partition(".")[0]: found}
    if not isinstance(found, dict) or not found or not all(isinstance(t, dict) for t in found.values()):
        raise InputError("an object was expected that maps names of tasks to their queries and corpus", path=path)
    return found


def _official_task(name: str, task: Row) -> Collection:
    corpus = _texts(task, "corpus")
    docnos = _texts(task, "docnos") if "docnos" in task else places(len(corpus))
    if len(docnos) != len(corpus):
        raise task.wrong("docnos", f"holds {len(docnos)} entries for {len(corpus)} texts")
    columns = {field: _texts(task, field) for field in _PER_QUERY}
    n = len(columns["queries"])
    for field, column in columns.items():
        if len(column) != n:
            raise task.wrong(field, f"holds {len(column)} entries for {n} queries")
        if field != "query_labels" and (blank := [i for i, text in enumerate(column) if not text.strip()]):
            raise task.wrong(field, f"entry {blank[0]} is blank")
    gold = _gold_lists(task, n, docnos)
    rows = [
        PirQuery(str(i), text, root, perspective, gold[i], label)
        for i, (text, root, perspective, label) in enumerate(zip(*columns.values(), strict=True))
    ]
    with errors_in(task.path):
        return pir_collection(name, rows, tuple(map(Passage, docnos, corpus)))


def _texts(task: Row, field: str) -> list[str]:
    found = task.get(field)
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise task.wrong(field, f"a list of texts was expected; the task has: {', '.join(task)}")
    return found


def _gold_lists(task: Row, n_queries: int, docnos: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the gold docnos of each query. Queries and places are numbers or strings in the release."""
    field = "key_ref"
    if not isinstance(task.get(field), dict):
        raise task.wrong(field, "an object query → places in the corpus was expected")
    listed = {str(query): listed for query, listed in task[field].items()}
    docno_at = {str(i): docno for i, docno in enumerate(docnos)}
    queries = [str(i) for i in range(n_queries)]
    if n_queries and (unknown := listed.keys() - set(queries)):
        raise task.wrong(field, f"there is no query {min(unknown)!r} among {n_queries}")
    lists = []
    for query in queries:
        if not isinstance(listed.get(query), list):
            raise task.wrong(field, f"no list of places for query {query}")
        gold = dict.fromkeys(map(str, listed[query]))
        if stray := [place for place in gold if place not in docno_at]:
            raise task.wrong(field, f"{stray[0]!r} of query {query} is not one of {len(docnos)} places")
        lists.append(tuple(docno_at[place] for place in gold))
    return lists


def places(n: int) -> list[str]:
    """Return n places as docnos, with leading zeros: in alphabetical order, which breaks ties, they stay in order.

    >>> places(11)[8:]
    ['08', '09', '10']
    """
    width = len(str(n - 1))
    return [f"{i:0{width}d}" for i in range(n)]


# ---------------------------------------------------------------- folders of tables


def read_pir_folder(folder: StrPath, name: str) -> Collection:
    """Read a task from a folder with the tables corpus, queries and qrels (JSONL, Parquet, TSV or CSV).

    A table is every file that starts with its name, or lies in a folder that does, here or one folder further down:
    ``corpus.jsonl``, ``qrels/test.tsv``, ``data/queries-00000-of-00001.parquet``. Several files of one are joined.
    A corpus is read as any is, and qrels as BEIR's. Columns of queries: ``_id`` (or ``id``, ``query_id``), ``text`` (or
    ``query``), ``root`` (or ``source_query``, ``root_query``), ``perspective``, optionally ``label`` (or
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
        for qid, docno in verdicts.loc[verdicts["supports"], ["qid", "docno"]].itertuples(index=False):
            gold.setdefault(qid, []).append(docno)
    queries = []
    for _, row in (found for path in _files(folder, "queries") for found in read_table(path)):
        qid, text, root = row.text("_id", "id", "query_id"), row.text("text", "query"), row.text(*_ROOT)
        label = row.text("label", "query_label", default="")
        queries.append(PirQuery(qid, text, root, row.text("perspective"), tuple(gold.pop(qid, ())), label))
    if gold:
        raise InputError(f"the query {next(iter(gold))!r} is judged but not among the queries", path=folder)
    with errors_in(folder):
        return pir_collection(name, queries, tuple(passages))


def _files(folder: Path, table: str) -> list[Path]:
    """Return the files of a table. The folder may be anything, and a whole tree takes long to walk."""
    patterns = (f"{table}*", f"{table}*/*", f"*/{table}*", f"*/{table}*/*")
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return sorted(path for path in found if path.name.removesuffix(".gz").endswith(_ENDINGS))
