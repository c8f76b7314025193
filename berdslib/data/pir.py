"""The PIR benchmark: a task is a list of queries, each a root query seen from one perspective, and the texts to find.

Zhao et al. (2024), section 2. Two forms are read: the authors' JSON (the demo release) and a folder of tables in BEIR's
manner (the full tasks on Hugging Face). Ids are strings everywhere, whatever the file holds, and gold lists are tuples:
nothing that reads a task can change it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from berdslib.data.catalogue import DATASETS, dataset
from berdslib.data.dataset import Dataset
from berdslib.data.fetch import cache_of, candidate_paths, data_paths, fetch_files, first_existing
from berdslib.data.records import Passage, Question, no_repeats
from berdslib.data.tables import from_json, number, read_table, text_field
from berdslib.errors import InputError, errors_in, known
from berdslib.files import StrPath, read_lines

# The lists of the official layout that hold one entry a query.
_PER_QUERY = ("queries", "source_queries", "perspectives", "query_labels")
_TABLES = ("corpus", "queries", "qrels")
_ENDINGS = (".jsonl", ".parquet", ".tsv", ".csv")


class PirQuery(NamedTuple):
    """A root query seen from one perspective.

    Fields: ``qid`` unique within the task; ``text`` the full query; ``root`` the query without its perspective;
    ``perspective`` in words; ``gold`` docnos of the texts that answer it; ``label`` the short name of the perspective
    ("support", "left"), "" where there is none.
    """

    qid: str
    text: str
    root: str
    perspective: str
    gold: tuple[str, ...]
    label: str = ""


class PirTask(NamedTuple):
    """One of the six tasks: its name, its queries, and the corpus that they all search."""

    name: str
    queries: tuple[PirQuery, ...]
    passages: tuple[Passage, ...]


def check_pir(task: PirTask) -> PirTask:
    """Return a task unchanged if it is consistent; raise an error otherwise.

    Raises:
        InputError: no queries, a repeated qid or docno, a query without gold, or gold that is not in the corpus.
    """
    if not task.queries:
        raise InputError(f"the task {task.name!r} has no queries")
    no_repeats((p.docno for p in task.passages), "docno", "docno")
    no_repeats((q.qid for q in task.queries), "query id", "qid")
    docnos = {p.docno for p in task.passages}
    for q in task.queries:
        if not q.gold:
            raise InputError(f"query {q.qid!r} has no gold texts", field="gold")
        stray = set(q.gold) - docnos
        if stray:
            raise InputError(f"gold {min(stray)!r} of query {q.qid!r} is not in the corpus", field="gold")
    return task


# ---------------------------------------------------------------- loading


def load_pir(name_or_path: str | Path, task: str | None = None) -> PirTask:
    """Return one task of PIR.

    **The full tasks were never downloaded from here**: what their columns are called is our guess at BEIR's manner (see
    :func:`read_pir_folder`), and a file that differs is refused with the names that would be accepted.

    Args:
        name_or_path: a data set ("pir-demo", "pir-perspectrum", …), a JSON file in the authors' layout, or a folder of
            tables.
        task: which of the tasks that a file holds; may be left out where there is only one. Of a folder: what to call
            its task.

    Raises:
        MissingDataError: the data set is neither on this machine nor reachable.
        InputError: an unknown name or task, or a file that cannot be read.
    """
    path, named = _place(name_or_path)
    if path.is_dir():
        if named and task is not None:
            known("PIR task", task, (named,))
        return read_pir_folder(path, named or task or path.name)
    tasks = _read_tasks(path)
    chosen = next(iter(tasks)) if task is None and len(tasks) == 1 else task
    if chosen is None:
        raise InputError(f"holds several tasks; name one of: {', '.join(tasks)}", path=path, field="task")
    return _official_task(known("PIR task", chosen, tasks), tasks[chosen], path)


def tasks_in(name_or_path: str | Path) -> list[str]:
    """Return the names of the tasks in a data set, a JSON file or a folder of tables.

    Raises:
        MissingDataError: the data set is neither on this machine nor reachable.
        InputError: an unknown name, or a file that cannot be read.
    """
    path, named = _place(name_or_path)
    return [named or path.name] if path.is_dir() else list(_read_tasks(path))


def _place(name_or_path: str | Path) -> tuple[Path, str]:
    """Return where tasks lie, and the task's name if a data set is asked for that has only one."""
    if name_or_path not in DATASETS and (isinstance(name_or_path, Path) or Path(name_or_path).exists()):
        return Path(name_or_path), ""
    if isinstance(name_or_path, str) and (os.sep in name_or_path or Path(name_or_path).suffix):
        raise InputError("there is no such file", path=name_or_path)
    one = dataset(known("PIR data set", str(name_or_path), [n for n in DATASETS if n.startswith("pir-")]))
    if not one.hf_repo:
        return first_existing(one, candidate_paths(one, one.local), "tasks"), ""
    return _folder(one), one.name.removeprefix("pir-")


def _folder(one: Dataset) -> Path:
    for place in (*data_paths(one.local), cache_of(one)):
        if place.is_dir():
            return place
    files = fetch_files(one)
    return Path(os.path.commonpath([file.parent for file in files]))


# ---------------------------------------------------------------- the authors' JSON


def read_json(path: StrPath) -> Any:
    """Return what a JSON file holds.

    Raises:
        InputError: no such file, or not JSON.
    """
    return from_json("".join(part for _, part in read_lines(path)), path)


def _read_tasks(path: Path) -> dict[str, dict[str, Any]]:
    """Return name → content; a file that holds one task without its name gets the file's."""
    found = read_json(path)
    if isinstance(found, dict) and {"queries", "corpus"} <= found.keys():
        found = {path.name.partition(".")[0]: found}
    if not isinstance(found, dict) or not found or not all(isinstance(t, dict) for t in found.values()):
        raise InputError("an object was expected that maps names of tasks to their queries and corpus", path=path)
    return found


def _official_task(name: str, content: Mapping[str, Any], path: Path) -> PirTask:
    corpus = _texts(content, "corpus", path)
    columns = [_texts(content, field, path) for field in _PER_QUERY]
    n = len(columns[0])
    for field, column in zip(_PER_QUERY, columns, strict=True):
        if len(column) != n:
            raise InputError(f"holds {len(column)} entries for {n} queries", path=path, field=field)
    for field, column in zip(_PER_QUERY[:3], columns, strict=False):
        if blank := [i for i, text in enumerate(column) if not text.strip()]:
            raise InputError(f"entry {blank[0]} is blank", path=path, field=field)
    gold = _gold_lists(content.get("key_ref"), n, len(corpus), path)
    queries = tuple(
        PirQuery(str(i), text, root, perspective, gold[i], label)
        for i, (text, root, perspective, label) in enumerate(zip(*columns, strict=True))
    )
    task = PirTask(name, queries, passages_of(corpus))
    with errors_in(path):
        return check_pir(task)


def _texts(content: Mapping[str, Any], field: str, path: Path) -> list[str]:
    found = content.get(field)
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise InputError(f"a list of texts was expected; the task has: {', '.join(content)}", path=path, field=field)
    return found


def _gold_lists(key_ref: Any, n_queries: int, n_texts: int, path: Path) -> list[tuple[str, ...]]:
    """Return the gold docnos of each query. The release writes places as numbers or as strings; both are read."""
    if not isinstance(key_ref, dict):
        raise InputError("an object query → places in the corpus was expected", path=path, field="key_ref")
    by_query = {str(query): listed for query, listed in key_ref.items()}
    unknown = by_query.keys() - {str(i) for i in range(n_queries)}
    if unknown and n_queries:
        raise InputError(f"there is no query {min(unknown)!r} among {n_queries}", path=path, field="key_ref")
    docnos = {str(i): docno for i, docno in enumerate(places(n_texts))}
    lists = []
    for i in range(n_queries):
        listed = by_query.get(str(i))
        if not isinstance(listed, list):
            raise InputError(f"no list of places for query {i}", path=path, field="key_ref")
        gold = dict.fromkeys(str(place) for place in listed)
        stray = [place for place in gold if place not in docnos]
        if stray:
            raise InputError(f"{stray[0]!r} of query {i} is not one of {n_texts} places", path=path, field="key_ref")
        lists.append(tuple(docnos[place] for place in gold))
    return lists


def places(n: int) -> list[str]:
    """Return n places as docnos, with leading zeros: in alphabetical order, which breaks ties, they stay in order.

    >>> places(11)[8:]
    ['08', '09', '10']
    """
    width = len(str(n - 1))
    return [f"{i:0{width}d}" for i in range(n)]


def passages_of(texts: Sequence[str]) -> tuple[Passage, ...]:
    """Return texts as passages whose docnos are their places."""
    return tuple(Passage(docno, text) for docno, text in zip(places(len(texts)), texts, strict=True))


# ---------------------------------------------------------------- folders of tables


def read_pir_folder(folder: StrPath, name: str) -> PirTask:
    """Read a task from a folder with the tables corpus, queries and qrels (JSONL, Parquet, TSV or CSV).

    A table is every file whose path below the folder has a part that starts with its name: ``corpus.jsonl``,
    ``qrels/test.tsv``, ``queries/train-00000-of-00001.parquet``. Several files of one table are joined.
    Columns: corpus ``_id`` (or ``id``, ``corpus-id``), ``text``, optionally ``title``; queries ``_id`` (or ``id``,
    ``query-id``), ``text`` (or ``query``), ``root`` (or ``source_query``, ``root_query``), ``perspective``, optionally
    ``label`` (or ``query_label``); qrels ``query-id``, ``corpus-id``, optionally ``score`` (relevant if above 0).
    Underscores may stand for the hyphens.

    Args:
        folder: where the tables lie.
        name: the task's name.

    Raises:
        InputError: a missing table or column, a query without a gold text, or an id that stands for nothing.
    """
    folder = Path(folder)
    passages = tuple(
        Passage(
            text_field(row, ("_id", "id", "corpus-id"), path, line),
            text_field(row, ("text",), path, line, default=""),
            text_field(row, ("title",), path, line, default=""),
        )
        for path, line, row in _rows(folder, "corpus", need=("text",))
    )
    gold: dict[str, list[str]] = {}
    for path, line, row in _rows(folder, "qrels"):
        qid = text_field(row, ("query-id",), path, line)
        docno = text_field(row, ("corpus-id",), path, line)
        if row.get("score") is None or number(row["score"], path, line, "score") > 0:
            gold.setdefault(qid, []).append(docno)
    queries = []
    for path, line, row in _rows(folder, "queries"):
        qid = text_field(row, ("_id", "id", "query-id"), path, line)
        text = text_field(row, ("text", "query"), path, line)
        root = text_field(row, ("root", "source-query", "root-query"), path, line)
        perspective = text_field(row, ("perspective",), path, line)
        label = text_field(row, ("label", "query-label"), path, line, default="")
        queries.append(PirQuery(qid, text, root, perspective, tuple(dict.fromkeys(gold.pop(qid, ()))), label))
    if gold:
        raise InputError(f"the query {next(iter(gold))!r} is judged but not among the queries", path=folder)
    with errors_in(folder):
        return check_pir(PirTask(name, tuple(queries), passages))


def _rows(folder: Path, table: str, need: Sequence[str] = ()) -> Iterator[tuple[Path, int, dict[str, Any]]]:
    """Yield (file, line, row) of a table; underscores in the names of its columns become hyphens, but not in `_id`."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and _table_of(p.relative_to(folder)) == table]
    if not files:
        endings = ", ".join(_ENDINGS)
        raise InputError(f"holds no table {table!r}; a file {table}.* or a folder {table}/ ({endings})", path=folder)
    for path in files:
        for line, row in _read_parquet(path) if path.suffix == ".parquet" else read_table(path):
            row = {key if key == "_id" else key.replace("_", "-"): value for key, value in row.items()}
            for field in need:
                if field not in row:
                    raise InputError(f"missing; the row has: {', '.join(row)}", path=path, line=line, field=field)
            yield path, line, row


def _table_of(relative: Path) -> str | None:
    ending = Path(relative.name.removesuffix(".gz")).suffix
    if ending not in _ENDINGS or any(part.startswith(".") for part in relative.parts):
        return None
    return next((t for part in relative.parts for t in _TABLES if part.lower().startswith(t)), None)


def _read_parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"not a readable Parquet file: {error}", path=path) from None
    yield from enumerate(table.to_pylist(), start=1)


# ---------------------------------------------------------------- what retrievers search


def full_queries(task: PirTask) -> list[Question]:
    """Return each query, perspective included, as a question with the same qid."""
    source = f"pir-{task.name}"
    return [Question(q.qid, q.text, (q.perspective,), (None,), source) for q in task.queries]


def root_queries(task: PirTask) -> list[Question]:
    """Return each distinct root query once, as a question that asks for all its perspectives.

    Its qid is that of :func:`root_id`.
    """
    perspectives: dict[str, dict[str, None]] = {}
    for q in task.queries:
        perspectives.setdefault(q.root, {})[q.perspective] = None
    source = f"pir-{task.name}"
    return [
        Question(root_id(root), root, tuple(seen), (None,) * len(seen), source) for root, seen in perspectives.items()
    ]


def root_id(root: str) -> str:
    """Return the qid under which :func:`root_queries` asks a root query; it depends on the text alone.

    >>> root_id("Is tea healthy?")
    'root-b89c8a92bdf9'
    """
    return f"root-{hashlib.sha256(root.encode()).hexdigest()[:12]}"


# ---------------------------------------------------------------- describing


def pir_statistics(task: PirTask) -> dict[str, float]:
    """Return the columns of PIR Table 1 for a task, words being what stands between blanks.

    Returns:
        queries, mean_query_words, corpus, mean_corpus_words; beyond the table: roots, mean_perspectives (distinct ones
        of a root) and single_roots (those with only one).

    Raises:
        InputError: the task is inconsistent, see :func:`check_pir`.
    """
    check_pir(task)
    by_root: dict[str, set[str]] = {}
    for q in task.queries:
        by_root.setdefault(q.root, set()).add(q.perspective)
    counts = [len(perspectives) for perspectives in by_root.values()]
    return {
        "queries": len(task.queries),
        "mean_query_words": _mean_words(q.text for q in task.queries),
        "corpus": len(task.passages),
        "mean_corpus_words": _mean_words(p.full_text for p in task.passages),
        "roots": len(by_root),
        "mean_perspectives": sum(counts) / len(counts),
        "single_roots": counts.count(1),
    }


def _mean_words(texts: Iterable[str]) -> float:
    counts = [len(text.split()) for text in texts]
    return sum(counts) / len(counts)
