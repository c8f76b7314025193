"""A data set of one's own: a folder with a card, questions and, where there are some, a corpus and gold verdicts.

It loads by its path, or by name once it was added (`berds data add FOLDER`). The folder is complete by itself, so that
it can be given to others: `dataset.json` is the card, `README.md` says the same to people.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from berdslib.data import formats, trec
from berdslib.data.dataset import Dataset
from berdslib.data.records import Passage, Question, check_questions
from berdslib.data.tables import from_json, write_jsonl
from berdslib.errors import InputError, MissingDataError, errors_in
from berdslib.files import read_lines, write_text
from berdslib.paths import cache_dir

FORMAT = "berdslib-dataset-1"
CARD, QUESTIONS, CORPUS, GOLD, README = "dataset.json", "questions.jsonl", "corpus.jsonl", "gold.tsv", "README.md"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


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
        if not _NAME.fullmatch(self.name):
            raise InputError(f"letters, digits, '.', '_' and '-' are needed, not {self.name!r}", field="name")
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
    (folder / CARD).unlink(missing_ok=True)
    write_jsonl(folder / QUESTIONS, ({**_row(q), **(more or {}).get(q.qid, {})} for q in questions))
    there = iter(passages)
    first = next(there, None)
    if first is not None:
        formats.write_passages(folder / CORPUS, chain([first], there))
    if gold is not None:
        trec.write_verdicts(folder / GOLD, gold)
    with write_text(folder / README) as file:
        file.write(_in_words(card, questions, has_corpus=first is not None, has_gold=gold is not None))
    with write_text(folder / CARD) as file:
        row = {"format": FORMAT, **asdict(card), "questions": len(questions), "splits": splits_of(questions)}
        file.write(json.dumps(row, indent=1, ensure_ascii=False) + "\n")


def is_own(path: str | Path) -> bool:
    """Return whether a path is the folder of a data set, with its card."""
    return (Path(path) / CARD).is_file()


def read_card(folder: Path) -> OwnCard:
    """Return the card of a data set's folder.

    Raises:
        InputError: no such card, or one in another form.
    """
    row = card_row(folder)
    values = {name: row[name] for name in ("name", "title", "licence", "source", "language", "made")}
    with errors_in(folder / CARD):
        return OwnCard(**values)


_FIELDS: Mapping[str, type] = {
    "name": str, "title": str, "licence": str, "source": str, "language": str, "made": dict, "questions": int,
    "splits": list,
}  # fmt: skip


def card_row(folder: Path) -> dict[str, Any]:
    """Return the card of a data set's folder as it is written, with the counts that it holds of its questions.

    Raises:
        InputError: no such card, or one in another form.
    """
    path = folder / CARD
    found = from_json("".join(text for _, text in read_lines(path)), path)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(f'the card of a data set was expected, with "format": "{FORMAT}"', path=path)
    for name, kind in _FIELDS.items():
        if not isinstance(found.get(name), kind):
            wanted = {str: "text", dict: "an object", int: "a number", list: "a list"}[kind]
            problem = f"{wanted} was expected, not {type(found.get(name)).__name__}"
            raise InputError(problem, path=path, field=name)
    return found


def as_dataset(folder: Path) -> Dataset:
    """Return a folder as the entry of a data set, which loads like any other; only its card is read yet.

    Raises:
        InputError: the card cannot be read.
    """
    card, row = read_card(folder), card_row(folder)
    has_corpus, has_gold = (folder / CORPUS).is_file(), (folder / GOLD).is_file()
    loaders: dict[str, Any] = {
        "load_questions": lambda _, asked=(): [q for q in own_questions(folder) if not asked or q.split in asked]
    }
    if has_corpus:
        loaders["load_passages"] = lambda _: folder / CORPUS
    if has_gold:
        loaders["load_gold"] = lambda _: trec.read_verdicts(folder / GOLD)
    return Dataset(
        name=card.name,
        title=card.title,
        paper="own",
        kind="both" if has_corpus else "questions",
        source=card.source or "a data set of your own",
        licence=card.licence,
        size=f"{row['questions']} questions",
        splits=tuple(row["splits"]),
        loaders=loaders,
        how=f"It lies in {folder}.",
    )


def own_questions(folder: Path) -> list[Question]:
    """Return all questions of a data set's folder.

    Raises:
        InputError: the file cannot be read.
    """
    return formats.read_questions(folder / QUESTIONS, source=read_card(folder).name)


# ---------------------------------------------------------------- by name


def remember(folder: Path) -> Dataset:
    """Write down that a data set loads by the name on its card; a name from before now means this folder.

    Raises:
        InputError: no data set, or the list of those that were added cannot be read or written.
    """
    one = as_dataset(folder)
    known = {**_added(), one.name: str(folder.resolve())}
    with write_text(_list()) as file:
        file.write(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    return one


def remembered() -> Iterator[Dataset]:
    """Yield the data sets that load by name; one whose folder is gone says so when it is loaded."""
    for name, place in _added().items():
        folder = Path(place)
        try:
            yield as_dataset(folder)
        except InputError as error:
            yield _broken(name, folder, str(error))


def _added() -> dict[str, str]:
    path = _list()
    if not path.is_file():
        return {}
    found = from_json("".join(text for _, text in read_lines(path)), path)
    if not isinstance(found, dict) or not all(isinstance(place, str) for place in found.values()):
        raise InputError("a JSON object of names and folders was expected; remove the file to begin anew", path=path)
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
    corpus = f"`{CORPUS}`" if has_corpus else "none; it is searched in a corpus of your choice"
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
