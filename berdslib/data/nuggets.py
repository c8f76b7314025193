"""Questions whose answer was cut into nuggets or aspects, with gold passages for each: FreshStack and BRIGHT-Pro.

A nugget is a fact that a full answer has to hold, an aspect a line of reasoning that it has to follow. Either is read
as a perspective of its question, and the passages that support it as verdicts, so that every measure of perspectives
works on them: alpha-nDCG, MRecall, coverage.

**The published files were never read here.** The layout of FreshStack is the one that its own loader expects (the
package freshstack, 0.0.6). How BRIGHT-Pro stores its aspects is not known to us: its rows have to be brought into the
form that :func:`read_nuggets` describes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from berdslib.data.dataset import Dataset
from berdslib.data.fetch import candidate_paths, first_existing
from berdslib.data.formats import repeated
from berdslib.data.records import Question, make_verdicts
from berdslib.data.tables import first_field, is_missing, read_jsonl, text_field
from berdslib.errors import InputError
from berdslib.files import StrPath

logger = logging.getLogger(__name__)

_ID = ("query_id", "qid", "_id", "id")
_TEXT = ("query_text", "query", "question", "text", "post")
_TITLE = ("query_title", "title")
_NUGGETS = ("nuggets", "aspects", "reasoning_aspects")
_STATEMENT = ("text", "nugget", "aspect", "statement", "description")
_RELEVANT = ("relevant_corpus_ids", "relevant_ids", "gold_ids", "gold_docs", "docnos", "doc_ids")
_NOT_RELEVANT = ("non_relevant_corpus_ids", "non_relevant_ids")


class _Nugget(NamedTuple):
    text: str
    yes: tuple[str, ...]
    no: tuple[str, ...]


def read_nuggets(path: StrPath, *, source: str = "") -> tuple[list[Question], pd.DataFrame]:
    """Read questions with their nuggets, a row of a JSONL file each, as questions with perspectives and verdicts.

    A row has an id (`query_id`, or `qid`, `_id`, `id`), the question (`query_text`, or `query`, `question`, `text`,
    `post`), perhaps a title that comes before it (`query_title`, or `title`), and a list of `nuggets` (or `aspects`,
    `reasoning_aspects`). Each of these is an object with a `text` (or `nugget`, `aspect`, `statement`, `description`),
    the ids of the passages that support it (`relevant_corpus_ids`, or `relevant_ids`, `gold_ids`, `gold_docs`,
    `docnos`, `doc_ids`) and perhaps of those that were judged not to (`non_relevant_corpus_ids`, or
    `non_relevant_ids`). Of several names, the first that is there is read; other fields are not.

    Ids are kept as they are, so that runs of other tools fit. A passage that is listed both ways does not support the
    nugget, as in FreshStack's own loader; one warning counts such, and nuggets that nothing supports, which no list of
    passages can show.

    Args:
        path: the file.
        source: name of the data set.

    Returns:
        The questions, and a verdict for each passage that is listed; a perspective's pid is its place in the row.

    Raises:
        InputError: no rows, a missing or wrong field, a question without nuggets, or an id that occurs twice.
    """
    questions: list[Question] = []
    verdicts: list[tuple[str, int, str, float, bool]] = []
    seen: dict[str, int] = {}
    both = unsupported = 0
    for line, row in read_jsonl(path):
        qid = text_field(row, _ID, path, line)
        if seen.setdefault(qid, line) != line:
            raise repeated(f"question id {qid!r}", seen[qid], path, line, "query_id")
        nuggets = list(_nuggets_of(row, path, line))
        texts = tuple(nugget.text for nugget in nuggets)
        questions.append(Question(qid, _question_of(row, path, line), texts, (None,) * len(texts), source))
        for pid, (_, listed, no) in enumerate(nuggets):
            yes = [docno for docno in listed if docno not in no]
            both, unsupported = both + len(listed) - len(yes), unsupported + (not yes)
            verdicts += [(qid, pid, docno, 1.0, True) for docno in yes]
            verdicts += [(qid, pid, docno, 0.0, False) for docno in no]
    if not questions:
        raise InputError("holds no questions", path=path)
    if both or unsupported:
        problem = "%s: %d passages are listed as relevant and as not, and count as not; nothing supports %d nuggets"
        logger.warning(problem, path, both, unsupported)
    return questions, make_verdicts(verdicts, "gold")


def is_nuggets(place: str | Path) -> bool:
    """Return whether a path is a JSONL file of questions with nuggets, or a folder that holds one as queries.jsonl."""
    path = _queries(Path(place))
    if not path.is_file() or ".jsonl" not in path.suffixes:
        return False
    try:
        _, row = next(read_jsonl(path), (0, {}))
    except (
        InputError
    ):  # no row that could be told by its fields; whoever reads the file as something says what is wrong
        return False
    found = next((row[name] for name in _NUGGETS if name in row), None)
    return isinstance(found, list) and bool(found) and isinstance(found[0], dict) and "perspectives" not in row


def as_dataset(place: Path) -> Dataset:
    """Return a file or folder with nuggets as the entry of a data set, which loads like any other."""
    name, corpus = place.name.partition(".")[0] or place.name, place / "corpus.jsonl"
    loaders: dict[str, Any] = {
        "load_questions": lambda _, __: read_nuggets(_queries(place), source=name)[0],
        "load_gold": lambda _: read_nuggets(_queries(place), source=name)[1],
    }
    if corpus.is_file():
        loaders["load_passages"] = lambda _: corpus
    return Dataset(
        name=name,
        title="questions with nuggets, and the passages that support each",
        paper="own",
        kind="both" if "load_passages" in loaders else "questions",
        source=str(place),
        licence="unknown",
        size="not counted",
        loaders=loaders,
        how=f"It lies in {place}.",
    )


def questions(one: Dataset, _splits: Sequence[str]) -> list[Question]:
    """Return the questions of a data set with nuggets; they are not split.

    Raises:
        MissingDataError: they are not on this machine.
        InputError: as :func:`read_nuggets`.
    """
    return read_nuggets(_file(one), source=one.name)[0]


def gold(one: Dataset) -> pd.DataFrame:
    """Return which passages support which nugget, and which were judged not to.

    Raises:
        MissingDataError: they are not on this machine.
        InputError: as :func:`read_nuggets`.
    """
    return read_nuggets(_file(one), source=one.name)[1]


def _file(one: Dataset) -> Path:
    return first_existing(one, candidate_paths(one, one.local[:1]), "questions")


def _queries(place: Path) -> Path:
    return place / "queries.jsonl" if place.is_dir() else place


# ---------------------------------------------------------------- a row


def _question_of(row: Mapping[str, Any], path: StrPath, line: int) -> str:
    """Return title and text, the title first, as FreshStack's own loader joins them."""
    title = text_field(row, _TITLE, path, line, default="").strip()
    return f"{title} {text_field(row, _TEXT, path, line)}".strip()


def _nuggets_of(row: Mapping[str, Any], path: StrPath, line: int) -> Iterator[_Nugget]:
    field, found = first_field(row, _NUGGETS, path, line)
    if not isinstance(found, list) or not found:
        problem = "a list of at least one object was expected, each with a text and the ids of its passages"
        raise InputError(problem, path=path, line=line, field=field)
    for i, nugget in enumerate(found):
        where = f"{field}[{i}]"
        if not isinstance(nugget, dict):
            problem = f"an object with a text and the ids of its passages was expected, not {type(nugget).__name__}"
            raise InputError(problem, path=path, line=line, field=where)
        try:
            name, relevant = first_field(nugget, _RELEVANT, path, line)
            other = next((name for name in _NOT_RELEVANT if not is_missing(nugget.get(name))), "")
            yield _Nugget(
                text_field(nugget, _STATEMENT, path, line),
                _ids(relevant, name, path, line),
                _ids(nugget[other], other, path, line) if other else (),
            )
        except InputError as error:
            raise InputError(error.problem, path=path, line=line, field=f"{where}.{error.field}") from None


def _ids(found: object, field: str, path: StrPath, line: int) -> tuple[str, ...]:
    """Return a list of ids, each once."""
    if not isinstance(found, list) or any(isinstance(i, bool) or not isinstance(i, int | str) for i in found):
        raise InputError("a list of passage ids was expected", path=path, line=line, field=field)
    return tuple(dict.fromkeys(str(i) for i in found))
