"""How the data sets are read whose files have a form of their own.

A reader has a function for each part of a data set. It is handed the card; for questions and expansions also the splits
that are asked for, () where there are none. For passages it returns where they lie.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from berdslib import paths
from berdslib.data import fetch, formats, saved
from berdslib.data.catalogue import Dataset, dataset_at
from berdslib.data.collection import Collection
from berdslib.data.records import OPPOSE, SUPPORT, Passage, Question, check_questions, make_verdicts, shares
from berdslib.data.tables import Row, is_missing, look, read_jsonl, read_table
from berdslib.data.trec import read_verdicts
from berdslib.errors import InputError, MissingDataError
from berdslib.files import StrPath, unguarded

logger = logging.getLogger(__name__)

Expanded = dict[str, list[tuple[str, str]]]  # qid → [(name of the perspective, text), …]


def _local_file(one: Dataset) -> Path:
    return fetch.first_existing(one, fetch.candidate_paths(one, one.local[:1]), "questions")


def _passages(one: Dataset) -> Path:
    return fetch.first_existing(one, fetch.candidate_paths(one, one.passages), "passages")


def _name_of(path: Path) -> str:
    path = path.resolve()
    return path.name.partition(".")[0] or path.name


# ---------------------------------------------------------------- whatever lies at a path


def beir_at(folder: Path) -> Dataset | None:
    """Return a folder with the queries of a BEIR data set as a data set; else None."""
    if not formats.is_beir(folder):
        return None
    splits, parts = tuple(formats.beir_splits(folder)), ("questions", "passages", "gold")
    return dataset_at(_name_of(folder), str(folder), reader="beir", kind="both", splits=splits, parts=parts)


def table_at(path: Path) -> Dataset:
    """Return a file or a folder of which nothing is known; of a file, that it holds questions is a guess."""
    return dataset_at(_name_of(path), str(path), reader="table", parts=("questions",))


def _table_questions(one: Dataset, _splits: Sequence[str]) -> list[Question]:
    return [q if q.source else q._replace(source=one.name) for q in formats.read_questions(one.place)]


def _gold_at(one: Dataset) -> pd.DataFrame:
    return formats.beir_gold(one.place) if Path(one.place).is_dir() else read_verdicts(one.place)


# ---------------------------------------------------------------- the sample


def _sample_questions(one: Dataset, splits: Sequence[str]) -> list[Question]:
    return [q for q in formats.read_questions(paths.shipped(one.shipped) / "questions.jsonl") if q.split in splits]


def _sample_expansions(one: Dataset, splits: Sequence[str]) -> Expanded:
    qids = [question.qid for question in _sample_questions(one, splits)]
    return saved.read_expansions(paths.shipped(one.shipped) / "expansions.jsonl", qids)


# ---------------------------------------------------------------- BeRDS


def _berds_questions(one: Dataset, splits: Sequence[str]) -> list[Question]:
    return [q for split in splits for q in _berds_split(one, split)]


def _berds_expansions(one: Dataset, splits: Sequence[str]) -> Expanded:
    if tuple(splits) != ("dev",):
        raise MissingDataError(f"expansions of {one.name!r} were published for its dev split only; use split = 'dev'")
    places = fetch.candidate_paths(one, (f"berds/{one.files[0].name}",))
    path = fetch.first_existing(one, places, "recorded expansions")
    return {q.qid: texts for q, texts in formats.read_expansions(path, source=one.name, split="dev")}


def _berds_split(one: Dataset, split: str) -> list[Question]:
    path = _berds_file(one, split)
    logger.info("%s, %s split: read from %s", one.name, split, path)
    found = formats.read_questions(path, source=one.name, start=one.dev_starts_at if split == "dev" else 0)
    if path.name == one.files[0].name:
        logger.warning(
            "%s, %s split: %d questions of the recorded expansions stand in for the official file, which may hold more;"
            " with a network: berds data fetch %s", one.name, split, len(found), one.name,
        )  # fmt: skip
    own_id = f"{one.name}-"
    qids = [q.qid if q.qid.startswith(own_id) else own_id + q.qid for q in found]
    return [q._replace(qid=qid, source=one.name, split=split) for qid, q in zip(qids, found, strict=True)]


def _berds_file(one: Dataset, split: str) -> Path:
    others = [path for other in one.splits if (path := fetch.there(_berds_places(one, other))) is not None]
    only = [f"Only another split is here ({path}); it is never used in place of {split}." for path in others]
    return fetch.first_existing(one, _berds_places(one, split), f"{split} split", only)


def _berds_places(one: Dataset, split: str) -> list[Path]:
    """The official file, below BERDS_DATA or fetched; then a part of it, recorded with the expansions (dev only)."""
    part = [f"berds/{one.files[0].name}"] if split == "dev" else []
    return [
        *fetch.data_paths([f"berds/{one.name}.{split}.jsonl"]),
        fetch.cache_of(one) / f"{split}.jsonl",
        *fetch.data_paths(part),
    ]


# ---------------------------------------------------------------- Theperspective


def _two_sides_rows(one: Dataset) -> Iterator[tuple[str, Row]]:
    """Yield (qid, row): their own id, in which one has a blank, which TREC files cannot carry."""
    for _, row in read_jsonl(_local_file(one)):
        yield f"{one.name}-" + re.sub(r"\s", "-", row.text("id")), row


def _two_sides(one: Dataset, _splits: Sequence[str]) -> list[Question]:
    return [
        Question(qid, row.text("title"), (row.text("t1"), row.text("t2")), (SUPPORT, OPPOSE), one.name)
        for qid, row in _two_sides_rows(one)
    ]


def _two_sides_gold(one: Dataset) -> pd.DataFrame:
    rows = []
    for qid, row in _two_sides_rows(one):
        for pid, field in enumerate(("favor_ids", "against_ids")):
            listed = row.ids(field)
            if len(set(listed)) < len(listed):
                raise row.wrong(field, "a passage is listed twice")
            rows += [(qid, pid, docno, 1.0, True) for docno in listed]
    return make_verdicts(rows, "gold")


# ---------------------------------------------------------------- labelled pairs


class LabelledPair(NamedTuple):
    """A document, a perspective of a question, and whether the document supports it."""

    question: str
    document: str
    perspective: str
    label: bool


def read_labelled_pairs(path: StrPath) -> list[LabelledPair]:
    """Read pairs from TSV, CSV or JSONL with the columns question, document, perspective, label.

    A label is 1/0, true/false or yes/no. The published training script knows only the string "True", and so finds no
    positive example in the released file, which has 1/0 (divergences.md B10); here a file with one class is refused.
    Rows whose label is blank are left out, and counted in a warning.
    """
    labels = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    labels |= {"1.0": True, "0.0": False}  # of a column that pandas read with empty cells
    pairs, unlabelled = [], 0
    for _, row in read_table(path, LabelledPair._fields):
        said = str(row.get("label")).strip().lower()
        if "label" in row and (not said or is_missing(row["label"])):
            unlabelled += 1
            continue
        if said not in labels:
            raise row.wrong("label", f"{row.get('label')!r} is not a label; accepted: 1/0, true/false, yes/no")
        question, document, claim = (unguarded(row.text(name)) for name in ("question", "document", "perspective"))
        pairs.append(LabelledPair(question, document, claim, labels[said]))
    if unlabelled:
        logger.warning("%s: %d of %d pairs have no label and are left out", path, unlabelled, unlabelled + len(pairs))
    if not pairs:
        raise InputError("holds no labelled pairs", path=path)
    if len({p.label for p in pairs}) < 2:
        raise InputError("all labels are the same; a judge cannot be evaluated on one class", path=path, field="label")
    return pairs


# ---------------------------------------------------------------- nuggets and aspects


_ID = ("query_id", "topic_id", "qid", "_id", "id")
_TEXT = ("query_text", "query", "question", "text", "post")
_TITLE = ("query_title", "title")
_NUGGETS = ("nuggets", "aspects", "reasoning_aspects")
_STATEMENT = ("text", "nugget", "aspect", "statement", "description")
_RELEVANT = ("relevant_corpus_ids", "relevant_ids", "gold_ids", "gold_docs", "docnos", "doc_ids")
_NOT_RELEVANT = ("non_relevant_corpus_ids", "non_relevant_ids")


def read_nuggets(path: StrPath, *, source: str = "") -> tuple[list[Question], pd.DataFrame]:
    """Read questions whose answer was cut into nuggets or aspects (FreshStack, CoverageBench), a row each.

    A nugget becomes a perspective, the passages that support it verdicts; a pid is the place in the row. A row has an
    id, the question, perhaps a title that comes before it, and a list of `nuggets` (or `aspects`). Each has a `text`,
    the ids of the passages that support it (`relevant_corpus_ids`, or `gold_ids`, …) and perhaps of those that were
    judged not to (`non_relevant_corpus_ids`), and a `weight`. A nugget that is a text alone has no verdicts. Other
    names that are accepted stand above. **The published files were never read here**: the layout is that of
    FreshStack's own loader (package freshstack, 0.0.6).

    Ids are kept as they are. A passage that is listed both ways does not support the nugget, as in FreshStack's own
    loader; one warning counts such, and nuggets that nothing supports.
    """
    questions: list[Question] = []
    verdicts: list[tuple[str, int, str, float, bool]] = []
    seen: dict[Any, int] = {}
    both = unsupported = 0
    for _, row in read_table(path, _ID):
        qid = row.text(*_ID)
        row.check_new(seen, qid, f"question id {qid!r}", "query_id")
        nuggets = _nuggets_of(row)
        for pid, nugget in enumerate(nuggets):
            listed = {} if nugget.keys() == {"text"} else dict.fromkeys(nugget.ids(nugget.first(*_RELEVANT)[0]))
            other = next((name for name in _NOT_RELEVANT if not is_missing(nugget.get(name))), None)
            no = dict.fromkeys(nugget.ids(other) if other else ())
            yes = [docno for docno in listed if docno not in no]
            both, unsupported = both + len(listed) - len(yes), unsupported + (len(nugget) > 1 and not yes)
            verdicts += [(qid, pid, docno, 1.0, True) for docno in yes]
            verdicts += [(qid, pid, docno, 0.0, False) for docno in no]
        # As FreshStack's own loader joins them.
        asked = f"{row.text(*_TITLE, default='').strip()} {row.text(*_TEXT)}".strip()
        texts = tuple(nugget.text(*_STATEMENT) for nugget in nuggets)
        weights = tuple(nugget.number("weight") for nugget in nuggets if nugget.has("weight"))
        questions.append(Question(qid, asked, texts, (None,) * len(texts), source, weights=weights))
    if not questions:
        raise InputError("holds no questions", path=path)
    if both or unsupported:
        problem = "%s: %d passages are listed as relevant and as not, and count as not; nothing supports %d nuggets"
        logger.warning(problem, path, both, unsupported)
    return questions, make_verdicts(verdicts, "gold")


def _nuggets_of(row: Row) -> list[Row]:
    field, found = row.first(*_NUGGETS)
    found = [{"text": one} if isinstance(one, str) else one for one in found] if isinstance(found, list) else found
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
        raise row.wrong(field, "a list of objects was expected, each with a text and the ids of its passages")
    return [Row(one, row.path, row.line, within=f"{field}[{i}].") for i, one in enumerate(found)]


def nuggets_at(place: Path) -> Dataset | None:
    """Return a file of questions with nuggets, or a folder with one (queries.jsonl), as a data set; else None."""
    path = _nuggets_file(place)
    try:
        if not path.is_file() or look(path, _ID).form not in ("jsonl", "parquet"):
            return None
        row: Mapping[str, Any] = next((row for _, row in read_table(path, _ID)), {})
    except InputError:  # whoever reads the file as something says what is wrong
        return None
    found = next((row[name] for name in _NUGGETS if name in row), None)
    judged = isinstance(found, list) and found and isinstance(found[0], dict)
    if (not judged and "topic_id" not in row) or "perspectives" in row:
        return None
    with_corpus = (place / "corpus.jsonl").is_file()
    parts = ("questions", *(["passages"] if with_corpus else []), *(["gold"] if judged else []))
    kind = "both" if with_corpus else "questions"
    return dataset_at(_name_of(place), str(place), reader="nuggets", kind=kind, parts=parts)


def _nuggets_file(place: Path) -> Path:
    return place / "queries.jsonl" if place.is_dir() else place


def _read_nuggets(one: Dataset) -> tuple[list[Question], pd.DataFrame]:
    return read_nuggets(_nuggets_file(Path(one.place)) if one.place else _local_file(one), source=one.name)


_BRIGHT = ("examples", "aspects", "documents")


def aspects_at(folder: Path) -> Dataset | None:
    """Return a folder with the three tables of BRIGHT-Pro as a data set; else None."""
    if not all(fetch.there(_tables_in(folder, name)) for name in _BRIGHT):
        return None
    parts = ("questions", "passages", "gold")
    return dataset_at(_name_of(folder), str(folder), reader="aspects", kind="both", parts=parts)


def _tables_in(folder: Path, name: str) -> list[Path]:
    return [folder / f"{name}{ending}" for ending in (".parquet", ".jsonl", ".jsonl.gz")]


def _bright_table(one: Dataset, name: str) -> Path:
    folders = [Path(one.place)] if one.place else [*fetch.data_paths(one.local), fetch.cache_of(one)]
    return fetch.first_existing(one, [path for folder in folders for path in _tables_in(folder, name)], name)


def _read_aspects(one: Dataset) -> tuple[list[Question], pd.DataFrame]:
    """Read BRIGHT-Pro: an aspect "biology-0-a1" of the example 0 is a perspective, its documents are verdicts.

    The fields are those that its card names: examples (id, query), aspects (id, content, weight, supporting_docs).
    """
    asked = {row.text("id"): row.text("query") for _, row in read_table(_bright_table(one, "examples"))}
    aspects: dict[str, list[Row]] = {qid: [] for qid in asked}
    seen: dict[Any, int] = {}
    for _, row in read_table(_bright_table(one, "aspects")):
        name = row.text("id")
        row.check_new(seen, name, f"aspect {name!r}", "id")
        of = re.fullmatch(r"(?:.*-)?([^-]+)-a\d+", name)
        if of is None or of[1] not in aspects:
            raise row.wrong(
                "id", f"{name!r} is an aspect of none of the examples, such as 'biology-{next(iter(asked))}-a1'"
            )
        aspects[of[1]].append(row)
    questions, verdicts = [], []
    for qid, rows in aspects.items():
        if not rows:
            raise InputError(f"example {qid!r} has no aspect", path=_bright_table(one, "aspects"), field="id")
        texts, weights = zip(*((row.text("content"), row.number("weight")) for row in rows), strict=True)
        questions.append(Question(qid, asked[qid], texts, source=one.name, weights=weights))
        listed = [(pid, docno) for pid, row in enumerate(rows) for docno in row.ids("supporting_docs")]
        verdicts += [(qid, pid, docno, 1.0, True) for pid, docno in dict.fromkeys(listed)]
    check_questions(questions)
    questions = [q._replace(weights=tuple(shares(q).tolist())) for q in questions]
    return questions, make_verdicts(verdicts, "gold")


def from_ir_datasets(name: str, *, with_passages: bool = True) -> Collection:
    """Return a data set of ir_datasets: its subtopics as perspectives, else a query's own text as its one."""
    try:
        import ir_datasets
    except ImportError:
        raise MissingDataError("this needs ir_datasets: pip install 'berdslib[ir-datasets]'") from None
    try:
        found = ir_datasets.load(name)
    except KeyError:
        raise InputError(f"ir_datasets knows no {name!r}", field="name") from None
    if not (found.has_queries() and found.has_qrels()):
        raise InputError(f"{name!r} of ir_datasets has no queries or no qrels", field="name")
    questions, verdicts, places = [], [], dict[str, dict[str, int]]()
    for query in found.queries_iter():
        subtopics = getattr(query, "subtopics", ())
        texts = tuple(one.text for one in subtopics) or (query.default_text(),)
        places[query.query_id] = {str(one.number): pid for pid, one in enumerate(subtopics)}
        questions.append(Question(query.query_id, query.default_text(), texts, source=name))
    for said in found.qrels_iter():
        numbered, at = places.get(said.query_id), str(getattr(said, "subtopic_id", ""))
        if numbered is None or (numbered and at not in numbered):
            continue  # a query that is not among these, or a subtopic without a text
        yes = said.relevance > 0
        verdicts.append((said.query_id, numbered.get(at, 0), said.doc_id, float(yes), yes))
    texts_of = found.docs_iter() if with_passages else ()
    passages = [Passage(d.doc_id, d.default_text()) for d in texts_of]
    return Collection(name, questions, passages, make_verdicts(verdicts, "gold"))


# ---------------------------------------------------------------- all of them

Reader = Mapping[str, Callable[..., Any]]
READERS: dict[str, Reader] = {
    "table": {
        "questions": _table_questions,
        "passages": lambda one: Path(one.place),
        "gold": _gold_at,
        "pairs": lambda one: read_labelled_pairs(one.place),
    },
    "beir": {
        "questions": lambda one, splits: formats.beir_questions(one.place, splits),
        "passages": lambda one: Path(one.place),
        "gold": _gold_at,
    },
    "saved": saved.READER,
    "sample": {
        "questions": _sample_questions,
        "passages": lambda one: paths.shipped(one.shipped) / "passages.jsonl",
        "gold": lambda one: read_verdicts(paths.shipped(one.shipped) / "verdicts.tsv"),
        "expansions": _sample_expansions,
    },
    "berds": {"questions": _berds_questions, "expansions": _berds_expansions},
    "passages": {"passages": _passages},
    "pairs": {
        "pairs": lambda one: read_labelled_pairs(
            fetch.first_existing(one, fetch.candidate_paths(one, one.local), "labelled pairs")
        )
    },
    "theperspective": {"questions": _two_sides, "passages": _passages, "gold": _two_sides_gold},
    "nuggets": {
        "questions": lambda one, _: _read_nuggets(one)[0],
        "passages": lambda one: Path(one.place) / "corpus.jsonl" if one.place else _passages(one),
        "gold": lambda one: _read_nuggets(one)[1],
    },
    "aspects": {
        "questions": lambda one, _: _read_aspects(one)[0],
        "passages": lambda one: _bright_table(one, "documents"),
        "gold": lambda one: _read_aspects(one)[1],
    },
}
