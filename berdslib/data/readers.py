"""Readers of data sets whose files have their own form.

A reader has a function for each part of a data set. The function gets the card; for questions and expansions also the
requested splits, () for a data set without splits. For passages it returns their location.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from berdslib import paths
from berdslib.data import fetch, formats, saved
from berdslib.data.catalogue import Dataset, dataset_at
from berdslib.data.collection import Collection
from berdslib.data.records import OPPOSE, SUPPORT, Passage, Question, check_questions, make_verdicts, shares, some_of
from berdslib.data.tables import Row, detect_layout, is_missing, read_json, read_jsonl, read_table
from berdslib.data.trec import read_verdicts
from berdslib.errors import InputError, MissingDataError
from berdslib.files import StrPath, unguarded

logger = logging.getLogger(__name__)

_Expanded = dict[str, list[tuple[str, str]]]  # qid → [(name of the perspective, text), …]


def _local_file(dataset: Dataset) -> Path:
    return fetch.first_existing(dataset, fetch.candidate_paths(dataset, dataset.local[:1]), "questions")


def _passages(dataset: Dataset) -> Path:
    return fetch.first_existing(dataset, fetch.candidate_paths(dataset, dataset.passages), "passages")


def _name_of(path: Path) -> str:
    path = path.resolve()
    return path.name.partition(".")[0] or path.name


# ---------------------------------------------------------------- data sets at a path


def beir_at(folder: Path) -> Dataset | None:
    """Return a folder with the queries of a BEIR data set as a data set; else None."""
    if not formats.is_beir(folder):
        return None
    splits = tuple(formats.beir_splits(folder))
    parts = ("questions", "passages", "gold")
    return dataset_at(_name_of(folder), str(folder), reader="beir", kind="both", splits=splits, parts=parts)


def hub_at(folder: Path) -> Dataset | None:
    """Return a folder that was exported for the Hugging Face hub as a data set; else None."""
    if not formats.is_hub(folder):
        return None
    splits = saved.splits_of(formats.hub_questions(folder))
    parts = ("questions", "passages", "gold")
    return dataset_at(_name_of(folder), str(folder), reader="hub", kind="both", splits=splits, parts=parts)


def table_at(path: Path) -> Dataset:
    """Return an unknown file or folder as a data set; that a file holds questions is a guess."""
    return dataset_at(_name_of(path), str(path), reader="table", parts=("questions",))


def _table_questions(dataset: Dataset, _splits: Sequence[str]) -> list[Question]:
    questions = formats.read_questions(dataset.place)
    return [q if q.source else q._replace(source=dataset.name) for q in questions]


def _gold_at(dataset: Dataset) -> pd.DataFrame:
    if Path(dataset.place).is_dir():
        return formats.beir_gold(dataset.place)
    return read_verdicts(dataset.place)


# ---------------------------------------------------------------- the sample


def _sample_questions(dataset: Dataset, splits: Sequence[str]) -> list[Question]:
    path = paths.shipped(dataset.shipped) / "questions.jsonl"
    return [question for question in formats.read_questions(path) if question.split in splits]


def _sample_expansions(dataset: Dataset, splits: Sequence[str]) -> _Expanded:
    qids = [question.qid for question in _sample_questions(dataset, splits)]
    return saved.saved_expansions(paths.shipped(dataset.shipped) / "expansions.jsonl", qids)


# ---------------------------------------------------------------- BeRDS


def _berds_questions(dataset: Dataset, splits: Sequence[str]) -> list[Question]:
    return [question for split in splits for question in _berds_split(dataset, split)]


def _berds_expansions(dataset: Dataset, splits: Sequence[str]) -> _Expanded:
    if tuple(splits) != ("dev",):
        problem = f"expansions of {dataset.name!r} were published for its dev split only"
        raise MissingDataError(f"{problem}; use split = 'dev'")
    places = fetch.candidate_paths(dataset, (f"berds/{dataset.files[0].name}",))
    path = fetch.first_existing(dataset, places, "recorded expansions")
    expanded = formats.read_expansions(path, source=dataset.name, split="dev")
    return {question.qid: texts for question, texts in expanded}


def _berds_split(dataset: Dataset, split: str) -> list[Question]:
    path = _berds_file(dataset, split)
    logger.info("%s, %s split: read from %s", dataset.name, split, path)
    start = dataset.dev_starts_at if split == "dev" else 0
    found = formats.read_questions(path, source=dataset.name, start=start)
    if path.name == dataset.files[0].name:
        logger.warning(
            "%s, %s split: %d questions of the recorded expansions stand in for the official file, which may hold more;"
            " with a network: berds data fetch %s", dataset.name, split, len(found), dataset.name,
        )  # fmt: skip
    prefix = f"{dataset.name}-"
    questions = []
    for question in found:
        qid = prefix + question.qid.removeprefix(prefix)
        questions.append(question._replace(qid=qid, source=dataset.name, split=split))
    return questions


def _berds_file(dataset: Dataset, split: str) -> Path:
    hints = []
    for other in dataset.splits:
        path = fetch.there(_berds_places(dataset, other))
        if path is not None:
            hints.append(f"Only another split is here ({path}); it is never used in place of {split}.")
    return fetch.first_existing(dataset, _berds_places(dataset, split), f"{split} split", hints)


def _berds_places(dataset: Dataset, split: str) -> list[Path]:
    """Return places of the official file (BERDS_DATA, cache), then of the part recorded with expansions (dev only)."""
    part = [f"berds/{dataset.files[0].name}"] if split == "dev" else []
    return [
        *fetch.data_paths([f"berds/{dataset.name}.{split}.jsonl"]),
        fetch.cache_of(dataset) / f"{split}.jsonl",
        *fetch.data_paths(part),
    ]


# ---------------------------------------------------------------- Theperspective


def _two_sides_rows(dataset: Dataset) -> Iterator[tuple[str, Row]]:
    """Yield (qid, row); a blank in an id becomes "-", because TREC files allow no blanks."""
    for _, row in read_jsonl(_local_file(dataset)):
        name = re.sub(r"\s", "-", row.text("id"))
        yield f"{dataset.name}-{name}", row


def _two_sides(dataset: Dataset, _splits: Sequence[str]) -> list[Question]:
    questions = []
    for qid, row in _two_sides_rows(dataset):
        perspectives = (row.text("t1"), row.text("t2"))
        questions.append(Question(qid, row.text("title"), perspectives, (SUPPORT, OPPOSE), dataset.name))
    return questions


def _two_sides_gold(dataset: Dataset) -> pd.DataFrame:
    rows = []
    for qid, row in _two_sides_rows(dataset):
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

    A label is 1/0, true/false or yes/no. The published training script accepts only the string "True" and so finds no
    positive example in the released file, which has 1/0 (divergences.md B10); here a file with one class is refused.
    Rows with a blank label are left out and counted in a warning.
    """
    labels = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    labels |= {"1.0": True, "0.0": False}  # pandas writes these for a column with empty cells
    pairs = []
    unlabelled = 0
    for _, row in read_table(path, LabelledPair._fields):
        label = str(row.get("label")).strip().lower()
        if "label" in row and (not label or is_missing(row["label"])):
            unlabelled += 1
            continue
        if label not in labels:
            raise row.wrong("label", f"{row.get('label')!r} is not a label; accepted: 1/0, true/false, yes/no")
        texts = [unguarded(row.text(name)) for name in ("question", "document", "perspective")]
        question, document, perspective = texts
        pairs.append(LabelledPair(question, document, perspective, labels[label]))
    if unlabelled:
        some = some_of(unlabelled, unlabelled + len(pairs), "pair", "have")
        logger.warning("%s: %s no label: left out", path, some)
    if not pairs:
        raise InputError("holds no labelled pairs", path=path)
    if len({pair.label for pair in pairs}) < 2:
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
    """Read questions whose answers were split into nuggets or aspects, one row each, or nugget banks of AutoNuggetizer.

    Rows are those of FreshStack and CoverageBench; :func:`_bank_row` describes the banks. A nugget becomes a
    perspective, its supporting passages become verdicts; the pid is the nugget's place in the row. A row has an id, the
    question, an optional title that precedes it, and a list of `nuggets` (or `aspects`). A nugget has a `text`, the ids
    of supporting passages (`relevant_corpus_ids`, or `gold_ids`, …), optionally the ids of passages that were judged
    not to support it (`non_relevant_corpus_ids`), and optionally a `weight`. A nugget that is a string has no verdicts.
    The constants above list the other accepted names. **The published files were never read here**: the layout is that
    of FreshStack's own loader (package freshstack, 0.0.6).

    Ids stay unchanged. A passage listed both ways does not support the nugget, as in FreshStack's own loader; one
    warning counts such passages, and nuggets without support.
    """
    questions: list[Question] = []
    verdicts: list[tuple[str, int, str, float, bool]] = []
    seen: dict[Any, int] = {}
    listed_twice = 0
    unsupported = 0
    for row in _nugget_rows(Path(path)):
        qid = row.text(*_ID)
        row.check_new(seen, qid, f"question id {qid!r}", "query_id")
        nuggets = _nuggets_of(row)
        for pid, nugget in enumerate(nuggets):
            listed, refuted = _listed_docnos(nugget)
            supporting = [docno for docno in listed if docno not in refuted]
            listed_twice += len(listed) - len(supporting)
            if len(nugget) > 1 and not supporting:
                unsupported += 1
            verdicts += [(qid, pid, docno, 1.0, True) for docno in supporting]
            verdicts += [(qid, pid, docno, 0.0, False) for docno in refuted]
        questions.append(_question_of(row, qid, nuggets, source))
    if not questions:
        raise InputError("holds no questions", path=path)
    if listed_twice:
        logger.warning("%s: %d passages are listed as relevant and as not, and count as not", path, listed_twice)
    if unsupported:
        logger.warning("%s: no passage supports %d of the nuggets", path, unsupported)
    return questions, make_verdicts(verdicts, "gold")


_BANK_FILES = "nuggets_*.json"  # nuggets_TOPIC.json: the file's name holds the topic's id
_V3 = ("nugget_bank", "claim_bank")
_ANSWERS = '["OR", {answer: [document ids]}]'


def _nugget_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of questions with nuggets; a bank becomes such a row."""
    if path.is_dir() or path.match(_BANK_FILES):
        for file in sorted(path.glob(_BANK_FILES)) if path.is_dir() else [path]:
            bank = read_json(file)
            if not isinstance(bank, dict):
                raise InputError(
                    f"a nugget bank is an object, {{nugget: {_ANSWERS}}}, not {type(bank).__name__}", path=file
                )
            yield _bank_row(Row(bank, file))
        return
    for _, row in read_table(path, _ID):
        yield _bank_row(row) if any(name in row for name in _V3) else row


def _bank_row(bank: Row) -> Row:
    """Return a nugget bank (AutoNuggetizer, TREC AutoJudge) in the form of FreshStack's rows.

    A bank is `{nugget: ["OR", {answer: [document ids]}]}`, and has no text of the question, or a NuggetBank v3, whose
    claims are nuggets, too. With "AND", each answer is a nugget of its own, as one document need not give them all.
    Sub-nuggets are left out.
    """
    if not any(name in bank for name in _V3):
        qid = Path(str(bank.path)).stem.removeprefix("nuggets_")
        nuggets = [nugget for text in bank for nugget in _split_answers(bank, text, *_of_short_form(bank, text))]
        return Row({"query_id": qid, "query": qid, "nuggets": nuggets}, bank.path, bank.line)
    nuggets = []
    for field, name in zip(_V3, ("question", "claim"), strict=True):
        for nugget in _objects_in(bank, field):
            listed = {answer.text("answer"): _cited(answer) for answer in _objects_in(nugget, "answers")}
            text = nugget.text(name)
            if nugget.get("aggregator_type") == "AND":
                nuggets += _split_answers(bank, text, "AND", listed)
            else:
                nuggets.append({"text": text, "relevant_ids": sum(listed.values(), _cited(nugget))})
    text = bank.text("title_query", "query_id")
    return Row({"query_id": bank.text("query_id"), "query": text, "nuggets": nuggets}, bank.path, bank.line)


def _objects_in(row: Row, field: str) -> list[Row]:
    """Return the objects of a list, or of a mapping by their texts."""
    found = row.get(field) or []
    objects = list(found.values()) if isinstance(found, dict) else found
    if not isinstance(objects, list) or not all(isinstance(each, dict) for each in objects):
        raise row.wrong(field, "a list of objects was expected, or a mapping to objects")
    return [Row(each, row.path, row.line, within=f"{row.within}{field}[{i}].") for i, each in enumerate(objects)]


def _of_short_form(bank: Row, text: str) -> tuple[str, dict[str, Any]]:
    value = bank[text]
    if isinstance(value, list) and len(value) == 2 and value[0] in ("AND", "OR") and isinstance(value[1], dict):
        return value[0], value[1]
    raise bank.wrong(text, f"{_ANSWERS} was expected")


def _split_answers(bank: Row, text: str, operator: str, answers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a nugget as one of FreshStack's, or with "AND" as one for each answer."""
    ids = {answer: Row(answers, bank.path, bank.line, within=f"{text}.").ids(answer) for answer in answers}
    if operator == "AND" and len(ids) > 1:
        return [{"text": f"{text} {answer}", "relevant_ids": docnos} for answer, docnos in ids.items()]
    return [{"text": text, "relevant_ids": [docno for docnos in ids.values() for docno in docnos]}]


def _cited(source: Row) -> list[str]:
    """Return the ids of the documents that a nugget or an answer refers to."""
    references = source.get("references") or []
    if isinstance(references, list) and all(isinstance(each, str) for each in references):
        return references
    return [each.text("doc_id") for each in _objects_in(source, "references")]


def _nuggets_of(row: Row) -> list[Row]:
    field, listed = row.first(*_NUGGETS)
    if isinstance(listed, list):
        listed = [{"text": nugget} if isinstance(nugget, str) else nugget for nugget in listed]
    if not isinstance(listed, list) or not listed or not all(isinstance(nugget, dict) for nugget in listed):
        raise row.wrong(field, "a list of objects was expected, each with a text and the ids of its passages")
    return [Row(nugget, row.path, row.line, within=f"{field}[{i}].") for i, nugget in enumerate(listed)]


def _listed_docnos(nugget: Row) -> tuple[list[str], list[str]]:
    """Return the distinct docnos that a nugget lists as relevant, and as not relevant."""
    relevant: list[str] = []
    if nugget.keys() != {"text"}:
        relevant = nugget.ids(nugget.first(*_RELEVANT)[0])
    field = next((name for name in _NOT_RELEVANT if not is_missing(nugget.get(name))), None)
    not_relevant = nugget.ids(field) if field else []
    return list(dict.fromkeys(relevant)), list(dict.fromkeys(not_relevant))


def _question_of(row: Row, qid: str, nuggets: Sequence[Row], source: str) -> Question:
    """Return the question of a row; its title and text are joined as in FreshStack's own loader."""
    title = row.text(*_TITLE, default="").strip()
    text = f"{title} {row.text(*_TEXT)}".strip()
    perspectives = tuple(nugget.text(*_STATEMENT) for nugget in nuggets)
    weights = tuple(nugget.number("weight") for nugget in nuggets if nugget.has("weight"))
    return Question(qid, text, perspectives, (None,) * len(perspectives), source, weights=weights)


def nuggets_at(place: Path) -> Dataset | None:
    """Return a file of questions with nuggets, or a folder with one (queries.jsonl), as a data set; else None."""
    path = _nuggets_file(place)
    if path.match(_BANK_FILES) or (place.is_dir() and any(place.glob(_BANK_FILES))):
        of_bank = ("questions", "gold")
        return dataset_at(_name_of(place), str(place), reader="nuggets", kind="questions", parts=of_bank)
    try:
        if not path.is_file() or detect_layout(path, _ID).form not in ("jsonl", "json", "parquet"):
            return None
        row: Mapping[str, Any] = next((row for _, row in read_table(path, _ID)), {})
    except InputError:  # the reader that is chosen instead reports the problem
        return None
    nuggets = next((row[name] for name in _NUGGETS if name in row), None)
    is_judged = (isinstance(nuggets, list) and nuggets and isinstance(nuggets[0], dict)) or "nugget_bank" in row
    if nuggets is None and not is_judged:
        return None
    if (not is_judged and "topic_id" not in row) or "perspectives" in row:
        return None
    kind = "questions"
    parts = ["questions"]
    if (place / "corpus.jsonl").is_file():
        kind = "both"
        parts.append("passages")
    if is_judged:
        parts.append("gold")
    return dataset_at(_name_of(place), str(place), reader="nuggets", kind=kind, parts=tuple(parts))


def _nuggets_file(place: Path) -> Path:
    return place / "queries.jsonl" if place.is_dir() and not any(place.glob(_BANK_FILES)) else place


def _read_nuggets(dataset: Dataset) -> tuple[list[Question], pd.DataFrame]:
    path = _nuggets_file(Path(dataset.place)) if dataset.place else _local_file(dataset)
    return read_nuggets(path, source=dataset.name)


_BRIGHT = ("examples", "aspects", "documents")
_ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".json")


def aspects_at(folder: Path) -> Dataset | None:
    """Return a folder with the three tables of BRIGHT-Pro as a data set; else None.

    In BRIGHT-Pro as downloaded, a task is a name in three folders: for biology, name FOLDER/biology. The only task of a
    folder needs no name.
    """
    absent = [name for name in _BRIGHT if not fetch.there(_tables_in(folder, name))]
    if not absent:
        parts = ("questions", "passages", "gold")
        return dataset_at(_name_of(folder), str(folder), reader="aspects", kind="both", parts=parts)
    tasks = _tasks_in(folder)
    if len(tasks) == 1:
        return aspects_at(folder / tasks[0])
    if tasks:
        raise InputError(f"name a task, such as {folder}/{tasks[0]}: {', '.join(tasks)}", path=folder)
    others = [] if folder.exists() else _tasks_in(folder.parent)
    if folder.name in others:
        raise InputError(f"this task has no table in {', '.join(absent)}", path=folder)
    if others:
        raise InputError(f"no such task; {folder.parent} has {', '.join(others)}", path=folder)
    return None


def _tasks_in(folder: Path) -> list[str]:
    """Return the tasks of BRIGHT-Pro in a folder as downloaded; none in another folder."""
    if not all((folder / name).is_dir() for name in _BRIGHT):
        return []
    names = {re.split(r"\.|-\d+-of-", path.name)[0] for path in (folder / "aspects").iterdir()}
    return sorted(names - {""})


def _tables_in(folder: Path, name: str) -> list[Path]:
    """Return the places of a table: in its task's folder, or as downloaded, in a folder of the table's name.

    There the task may be a folder itself, with one file.
    """
    downloaded = folder.parent / name / folder.name
    stems = [folder / name, downloaded, downloaded.with_name(f"{folder.name}-00000-of-00001")]
    files = [path for ending in _ENDINGS for path in downloaded.glob(f"*{ending}")]
    if len(files) > 1:
        raise InputError(f"one table was expected, not {len(files)}", path=downloaded)
    return [*(Path(f"{stem}{ending}") for stem in stems for ending in _ENDINGS), *files]


def _bright_table(dataset: Dataset, name: str) -> Path:
    folders = [Path(dataset.place)] if dataset.place else [*fetch.data_paths(dataset.local), fetch.cache_of(dataset)]
    places = [path for folder in folders for path in _tables_in(folder, name)]
    return fetch.first_existing(dataset, places, name)


def _read_aspects(dataset: Dataset) -> tuple[list[Question], pd.DataFrame]:
    """Read BRIGHT-Pro: an aspect becomes a perspective of its example, its documents become verdicts.

    The fields are those of its card: examples (id, query), aspects (id, content, weight, supporting_docs).
    """
    texts = {row.text("id"): row.text("query") for _, row in read_table(_bright_table(dataset, "examples"))}
    path = _bright_table(dataset, "aspects")
    questions: list[Question] = []
    verdicts: list[tuple[str, int, str, float, bool]] = []
    for qid, aspects in _aspects_of(path, texts).items():
        if not aspects:
            raise InputError(f"example {qid!r} has no aspect", path=path, field="id")
        perspectives = []
        weights = []
        for pid, aspect in enumerate(aspects):
            perspectives.append(aspect.text("content"))
            weights.append(aspect.number("weight"))
            for docno in dict.fromkeys(aspect.ids("supporting_docs")):
                verdicts.append((qid, pid, docno, 1.0, True))
        questions.append(Question(qid, texts[qid], tuple(perspectives), source=dataset.name, weights=tuple(weights)))
    check_questions(questions)
    questions = [question._replace(weights=tuple(shares(question).tolist())) for question in questions]
    return questions, make_verdicts(verdicts, "gold")


def _aspects_of(path: Path, qids: Iterable[str]) -> dict[str, list[Row]]:
    """Return example → aspects; an aspect "biology-0-a1", or "biology-0-aspect-1", belongs to the example 0."""
    aspects: dict[str, list[Row]] = {qid: [] for qid in qids}
    seen: dict[Any, int] = {}
    for _, row in read_table(path):
        name = row.text("id")
        row.check_new(seen, name, f"aspect {name!r}", "id")
        matched = re.fullmatch(r"(?:.*-)?([^-]+)-a(?:spect-)?\d+", name)
        if matched is None or matched[1] not in aspects:
            first = next(iter(qids))
            raise row.wrong("id", f"{name!r} is an aspect of none of the examples, such as 'biology-{first}-a1'")
        aspects[matched[1]].append(row)
    return aspects


def from_ir_datasets(name: str, *, with_passages: bool = True) -> Collection:
    """Return a data set of ir_datasets; its subtopics are the perspectives, or else the query's own text."""
    try:
        import ir_datasets
    except ImportError:
        raise MissingDataError("this needs ir_datasets: pip install 'berdslib[ir-datasets]'") from None
    try:
        loaded = ir_datasets.load(name)
    except KeyError:
        raise InputError(f"ir_datasets knows no {name!r}", field="name") from None
    if not (loaded.has_queries() and loaded.has_qrels()):
        raise InputError(f"{name!r} of ir_datasets has no queries or no qrels", field="name")
    questions = []
    pids: dict[str, dict[str, int]] = {}
    for query in loaded.queries_iter():
        subtopics = getattr(query, "subtopics", ())
        text = query.default_text()
        perspectives = tuple(subtopic.text for subtopic in subtopics) or (text,)
        pids[query.query_id] = {str(subtopic.number): pid for pid, subtopic in enumerate(subtopics)}
        questions.append(Question(query.query_id, text, perspectives, source=name))
    verdicts = []
    for judgement in loaded.qrels_iter():
        numbered = pids.get(judgement.query_id)
        subtopic = str(getattr(judgement, "subtopic_id", ""))
        if numbered is None or (numbered and subtopic not in numbered):
            continue  # a query that is not among these, or a subtopic without a text
        supports = judgement.relevance > 0
        pid = numbered.get(subtopic, 0)
        verdicts.append((judgement.query_id, pid, judgement.doc_id, float(supports), supports))
    documents = loaded.docs_iter() if with_passages else ()
    passages = [Passage(document.doc_id, document.default_text()) for document in documents]
    return Collection(name, questions, passages, make_verdicts(verdicts, "gold"))


# ---------------------------------------------------------------- all of them

Reader = Mapping[str, Callable[..., Any]]
READERS: dict[str, Reader] = {
    "table": {
        "questions": _table_questions,
        "passages": lambda dataset: Path(dataset.place),
        "gold": _gold_at,
        "pairs": lambda dataset: read_labelled_pairs(dataset.place),
    },
    "beir": {
        "questions": lambda dataset, splits: formats.beir_questions(dataset.place, splits),
        "passages": lambda dataset: Path(dataset.place),
        "gold": _gold_at,
    },
    "hub": {
        "questions": lambda dataset, splits: [
            question for question in formats.hub_questions(dataset.place) if not splits or question.split in splits
        ],
        "passages": lambda dataset: Path(dataset.place),
        "gold": lambda dataset: formats.hub_gold(dataset.place),
    },
    "saved": saved.READER,
    "sample": {
        "questions": _sample_questions,
        "passages": lambda dataset: paths.shipped(dataset.shipped) / "passages.jsonl",
        "gold": lambda dataset: read_verdicts(paths.shipped(dataset.shipped) / "verdicts.tsv"),
        "expansions": _sample_expansions,
    },
    "berds": {"questions": _berds_questions, "expansions": _berds_expansions},
    "passages": {"passages": _passages},
    "pairs": {
        "pairs": lambda dataset: read_labelled_pairs(
            fetch.first_existing(dataset, fetch.candidate_paths(dataset, dataset.local), "labelled pairs")
        )
    },
    "theperspective": {"questions": _two_sides, "passages": _passages, "gold": _two_sides_gold},
    "nuggets": {
        "questions": lambda dataset, _: _read_nuggets(dataset)[0],
        "passages": lambda dataset: Path(dataset.place) / "corpus.jsonl" if dataset.place else _passages(dataset),
        "gold": lambda dataset: _read_nuggets(dataset)[1],
    },
    "aspects": {
        "questions": lambda dataset, _: _read_aspects(dataset)[0],
        "passages": lambda dataset: _bright_table(dataset, "documents"),
        "gold": lambda dataset: _read_aspects(dataset)[1],
    },
}
