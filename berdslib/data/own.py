"""A data set of one's own: a folder with a card, questions and, where there are some, a corpus and gold verdicts.

It loads by its path, or by name once it was added (`berds data add FOLDER`). The folder is complete by itself, so that
it can be given to others: `dataset.json` is the card, `README.md` says the same to people.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from filelock import FileLock

from berdslib.data import formats, trec
from berdslib.data.dataset import Dataset
from berdslib.data.records import Passage, Question, check_questions
from berdslib.data.tables import from_json, write_jsonl
from berdslib.errors import InputError, MissingDataError, errors_in, printable
from berdslib.files import read_lines, store_errors, write_text
from berdslib.paths import cache_dir

logger = logging.getLogger(__name__)

FORMAT = "berdslib-dataset-1"
CARD, QUESTIONS, CORPUS, GOLD, README = "dataset.json", "questions.jsonl", "corpus.jsonl", "gold.tsv", "README.md"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_LIKE_FILES = (".jsonl", ".json", ".csv", ".tsv", ".txt", ".gz")  # such a name is taken for a path


@dataclass(frozen=True)
class OwnCard:
    """What the card of a data set says.

    Args:
        name: letters, digits, ".", "_" and "-".
        title: what it is, in one line.
        licence: under which terms others may use it, such as "CC-BY-4.0".
        source: where its texts come from.
        language: of its texts, such as "en".
        made: how it was made: builder, model, hashes of prompts, counts; empty for one that was written by hand.
    """

    name: str
    title: str
    licence: str
    source: str = ""
    language: str = "en"
    made: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("name", "title", "licence", "source", "language"):
            text = getattr(self, name)
            if not isinstance(text, str):
                raise InputError(f"text was expected, not {type(text).__name__}", field=name)
            if text != printable(text) or "\n" in text:
                raise InputError("one line without control characters was expected", field=name)
        if not _NAME.fullmatch(self.name) or self.name.endswith(_LIKE_FILES):
            problem = f"letters, digits, '.', '_' and '-' are needed, and no ending of a file, not {self.name!r}"
            raise InputError(problem, field="name")
        for name in ("title", "licence"):
            if not getattr(self, name).strip():
                raise InputError(f"a data set needs a {name}", field=name)


def write_dataset(
    folder: Path,
    card: OwnCard,
    questions: Sequence[Question],
    passages: Iterable[Passage] = (),
    gold: pd.DataFrame | None = None,
    more: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write a data set's folder; the card comes last, so that a folder with a card is complete.

    The card says whether there is a corpus and gold: files of an earlier data set are left where they are, and are no
    part of this one.

    Args:
        folder: where; other files in it are left alone.
        card: what it is.
        questions: at least one, each with perspectives.
        passages: the corpus; none where it is to be searched in another's.
        gold: verdicts.
        more: qid → further fields of its row, such as `sources`, the texts that the question was made of.

    Raises:
        InputError: unusable questions or passages, or nothing can be written there.
    """
    check_questions(questions, need_perspectives=True)
    there = iter(passages)
    first = next(there, None)
    row = {
        "format": FORMAT,
        **asdict(card),
        "questions": len(questions),
        "splits": splits_of(questions),
        "corpus": first is not None,
        "gold": gold is not None,
    }
    folder.mkdir(parents=True, exist_ok=True)
    # All is written beside before any of it takes its place.
    with TemporaryDirectory(prefix=".unfinished-", dir=folder) as place:
        new = Path(place)
        write_jsonl(new / QUESTIONS, ({**_row(q), **(more or {}).get(q.qid, {})} for q in questions))
        if first is not None:
            formats.write_passages(new / CORPUS, chain([first], there))
        if gold is not None:
            trec.write_verdicts(new / GOLD, gold)
        with write_text(new / README) as file:
            file.write(_in_words(card, questions, has_corpus=first is not None, has_gold=gold is not None))
        with write_text(new / CARD) as file:
            file.write(json.dumps(row, indent=1, ensure_ascii=False) + "\n")
        (folder / CARD).unlink(missing_ok=True)
        for name in (QUESTIONS, CORPUS, GOLD, README, CARD):
            if (new / name).exists():
                os.replace(new / name, folder / name)


def is_own(path: str | Path) -> bool:
    """Return whether a path is the folder of a data set, with its card."""
    return (Path(path) / CARD).is_file()


def read_card(folder: Path) -> OwnCard:
    """Return the card of a data set's folder.

    Raises:
        InputError: no such card, or one in another form.
    """
    return _card(folder, card_row(folder))


def _card(folder: Path, row: Mapping[str, Any]) -> OwnCard:
    with errors_in(folder / CARD):
        return OwnCard(**{name: row[name] for name in ("name", "title", "licence", "source", "language", "made")})


_FIELDS: Mapping[str, type] = {
    "name": str, "title": str, "licence": str, "source": str, "language": str, "made": dict, "questions": int,
    "splits": list, "corpus": bool, "gold": bool,
}  # fmt: skip


def card_row(folder: Path) -> dict[str, Any]:
    """Return the card of a data set's folder as it is written, with what it says of its files.

    Raises:
        InputError: no such card, or one in another form.
    """
    path = folder / CARD
    found = from_json("".join(text for _, text in read_lines(path)), path)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(f'the card of a data set was expected, with "format": "{FORMAT}"', path=path)
    for name, kind in _FIELDS.items():
        if not isinstance(found.get(name), kind):
            wanted = {str: "text", dict: "an object", int: "a number", list: "a list", bool: "true or false"}[kind]
            problem = f"{wanted} was expected, not {type(found.get(name)).__name__}"
            raise InputError(problem, path=path, field=name)
    return found


def as_dataset(folder: Path) -> Dataset:
    """Return a folder as the entry of a data set, which loads like any other; only its card is read yet.

    Raises:
        InputError: the card cannot be read.
    """
    row = card_row(folder)
    card = _card(folder, row)

    def questions(_: Dataset, asked: Sequence[str] = ()) -> list[Question]:
        return [q for q in own_questions(folder, card.name) if not asked or q.split in asked]

    loaders: dict[str, Any] = {"load_questions": questions}
    if row["corpus"]:
        loaders["load_passages"] = lambda _: folder / CORPUS
    if row["gold"]:
        loaders["load_gold"] = lambda _: trec.read_verdicts(folder / GOLD)
    return Dataset(
        name=card.name,
        title=card.title,
        paper="own",
        kind="both" if row["corpus"] else "questions",
        source=card.source or "a data set of your own",
        licence=card.licence,
        size=f"{row['questions']} questions",
        splits=tuple(row["splits"]),
        loaders=loaders,
        how=f"It lies in {folder}.",
    )


def own_questions(folder: Path, name: str) -> list[Question]:
    """Return all questions of a data set's folder, under the name of the data set.

    Raises:
        InputError: the file cannot be read.
    """
    return [q._replace(source=name) for q in formats.read_questions(folder / QUESTIONS)]


# ---------------------------------------------------------------- by name


def remember(folder: Path) -> Dataset:
    """Write down that a data set loads by the name on its card; a name from before now means this folder.

    Raises:
        InputError: no data set, or the list of those that were added cannot be read or written.
    """
    one, path = as_dataset(folder), _list()
    with store_errors(path, "the list of data sets of your own"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):  # two that add at once would each write what they read, and their own
            known = {**remembered_folders(), one.name: str(folder.resolve())}
            with write_text(path) as file:
                file.write(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    return one


def remembered() -> Iterator[Dataset]:
    """Yield the data sets that load by name; one whose folder is gone says so when it is loaded."""
    try:
        known = remembered_folders()
    except InputError as error:
        logger.warning("data sets of your own are not known by name: %s", error)
        return
    for name, place in known.items():
        folder = Path(place)
        try:
            yield replace(as_dataset(folder), name=name)
        except (InputError, OSError) as error:
            yield _broken(name, folder, str(error))


def remembered_folders() -> dict[str, str]:
    """Return name → folder of the data sets that were added.

    Raises:
        InputError: the list cannot be read.
    """
    path = _list()
    if not path.is_file():
        return {}
    with errors_in(path):
        found = from_json("".join(text for _, text in read_lines(path)), path)
        if not isinstance(found, dict) or not all(isinstance(place, str) for place in found.values()):
            raise InputError("an object of names and folders was expected; remove the file to begin anew", path=path)
    return found


def _list() -> Path:
    return cache_dir() / "data" / "own.json"


def _broken(name: str, folder: Path, problem: str) -> Dataset:
    def missing(*_: Any) -> Any:
        raise MissingDataError(
            f"the data set {name!r} was added from {folder}, which cannot be used: {problem}. Add it again from where "
            f"it is now:  berds data add FOLDER"
        )

    return Dataset(
        name=name,
        title="a data set of your own that cannot be read",
        paper="own",
        kind="questions",
        source=str(folder),
        licence="unknown",
        size="unknown",
        loaders={"load_questions": missing},
        how=problem,
    )


# ---------------------------------------------------------------- what is written


def splits_of(questions: Sequence[Question]) -> list[str]:
    """Return the splits, dev before test; none where a question is in none, or in one of another name."""
    there = {q.split for q in questions}
    return [part for part in ("dev", "test") if part in there] if there <= {"dev", "test"} else []


def _row(question: Question) -> dict[str, Any]:
    return {
        "qid": question.qid,
        "question": question.text,
        "perspectives": list(question.perspectives),
        "stances": list(question.stances or (None,) * len(question.perspectives)),
        "source": question.source,
        "split": question.split,
    }


def _in_words(card: OwnCard, questions: Sequence[Question], *, has_corpus: bool, has_gold: bool) -> str:
    counts = {part: sum(q.split == part for q in questions) for part in ("dev", "test")}
    split = f" ({counts['dev']} dev, {counts['test']} test)" if all(counts.values()) else ""
    corpus = f"`{CORPUS}`" if has_corpus else "none; choose one to search"
    lines = [
        f"# {card.title}",
        "",
        f"- Questions: {len(questions)}{split}, with {sum(len(q.perspectives) for q in questions)} perspectives"
        f" (`{QUESTIONS}`)",
        f"- Corpus: {corpus}",
        *([f"- Gold verdicts: `{GOLD}`"] if has_gold else []),
        f"- Language: {card.language}",
        f"- Licence: {card.licence}",
        *([f"- Source: {card.source}"] if card.source else []),
        *(f"- {name.replace('_', ' ').capitalize()}: {_plain(value)}" for name, value in card.made.items()),
        "",
        "```python",
        "import berdslib as bd",
        "",
        f'questions = bd.load("{card.name}")  # after: berds data add FOLDER',
        "```",
    ]
    return "\n".join(lines) + "\n"


def _plain(value: object) -> str:
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, Mapping) else str(value)
