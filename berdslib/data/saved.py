"""A collection saved as a folder that loads by its path: a card (`dataset.json`), questions, corpus, gold verdicts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from berdslib.data import formats, trec
from berdslib.data.catalogue import Dataset, dataset_at
from berdslib.data.collection import Collection
from berdslib.data.records import Question, check_questions
from berdslib.data.tables import read_json, read_jsonl, write_jsonl
from berdslib.errors import InputError
from berdslib.files import StrPath, write_text

FORMAT = "berdslib-dataset-1"
CARD = "dataset.json"
QUESTIONS = "questions.jsonl"
CORPUS_FILE = "corpus.jsonl"
GOLD_FILE = "gold.tsv"
EXPANSIONS = "expansions.jsonl"
_FILES = (QUESTIONS, CORPUS_FILE, GOLD_FILE, EXPANSIONS)
# Field of the card that tells whether the file exists → part of the data set.
_PARTS = {"corpus": "passages", "gold": "gold", "expansions": "expansions"}


def save(collection: Collection, folder: StrPath, about: Mapping[str, Any] | None = None) -> None:
    """Save a collection as a folder that :func:`berdslib.load` reads.

    Args:
        collection: its questions need perspectives; a corpus on disk is written out as JSONL.
        folder: a new folder, or one written by this function, whose other files stay.
        about: further fields of its card, such as {"title": …, "licence": …, "source": …}.

    Raises:
        InputError: a scenario of PerspectiveArg, whose rules a folder cannot enforce, or a folder with foreign files.
    """
    if type(collection) is not Collection:
        raise InputError(f"a Collection can be saved, and not a {type(collection).__name__}", field="collection")
    folder = Path(folder)
    if not is_saved(folder):
        check_nothing_foreign(folder)
    write_collection(folder, collection, about or {})


def write_collection(
    folder: Path,
    collection: Collection,
    about: Mapping[str, Any],
    more: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write a collection's folder; the card comes last, so that a folder with a card is complete.

    Leftover files of an earlier collection stay; the card excludes them. `more` is qid → further fields of its row,
    such as `sources`, the texts that the question was made from.
    """
    questions = check_questions(collection.questions, need_perspectives=True)
    gold = None if collection.gold is None or collection.gold.empty else collection.gold
    card = {
        **about,
        "format": FORMAT,
        "name": collection.name,
        "corpus": len(collection.passages) > 0,
        "gold": gold is not None,
        "expansions": len(collection.expansions) > 0,
    }
    folder.mkdir(parents=True, exist_ok=True)
    # All files are written to a temporary folder before any replaces an existing one.
    with TemporaryDirectory(prefix=".unfinished-", dir=folder) as place:
        new = Path(place)
        write_jsonl(new / QUESTIONS, ({**_row(q), **(more or {}).get(q.qid, {})} for q in questions))
        if card["corpus"]:
            formats.write_passages(new / CORPUS_FILE, collection.passages)
        if gold is not None:
            trec.write_verdicts(new / GOLD_FILE, gold)
        if card["expansions"]:
            write_jsonl(new / EXPANSIONS, _expansion_rows(collection))
        with write_text(new / CARD) as file:
            file.write(_as_json(card))
        (folder / CARD).unlink(missing_ok=True)
        for name in (*_FILES, CARD):
            if (new / name).exists():
                os.replace(new / name, folder / name)


def _as_json(card: Mapping[str, Any]) -> str:
    try:
        return json.dumps(card, indent=1, ensure_ascii=False) + "\n"
    except (TypeError, ValueError) as error:
        raise InputError(f"cannot be written as JSON: {error}", field="about") from None


def _row(question: Question) -> dict[str, Any]:
    return {
        "qid": question.qid,
        "question": question.text,
        "perspectives": list(question.perspectives),
        "stances": list(question.stances or (None,) * len(question.perspectives)),
        "source": question.source,
        "split": question.split,
        **({"labels": list(question.labels)} if question.labels else {}),
        **({"weights": list(question.weights)} if question.weights else {}),
    }


def _expansion_rows(collection: Collection) -> Iterable[dict[str, str]]:
    for qid, pairs in collection.expansions.items():
        for name, text in pairs:
            yield {"qid": qid, "name": name, "text": text}


def check_nothing_foreign(folder: Path) -> None:
    """Raise InputError if a folder holds a file that would be overwritten."""
    foreign = [name for name in _FILES if (folder / name).exists()]
    if foreign:
        raise InputError(f"holds {foreign[0]!r} of something else; name another folder", path=folder)


# ---------------------------------------------------------------- reading


def is_saved(path: StrPath) -> bool:
    """Return whether a path is the folder of a saved collection, with its card."""
    return (Path(path) / CARD).is_file()


def read_card(folder: Path) -> dict[str, Any]:
    """Return the card of a folder."""
    path = folder / CARD
    card = read_json(path)
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        raise InputError(f'the card of a collection was expected, with "format": "{FORMAT}"', path=path)
    if not isinstance(card.get("name"), str):
        raise InputError("text was expected", path=path, field="name")
    return card


def saved_at(folder: Path) -> Dataset | None:
    """Return a folder with the card of a saved collection as a data set; else None."""
    if not is_saved(folder):
        return None
    card = read_card(folder)
    questions = formats.read_questions(folder / QUESTIONS)
    known_facts = {field: str(card[field]) for field in ("title", "source", "licence") if card.get(field)}
    return dataset_at(
        card["name"],
        str(folder),
        reader="saved",
        kind="both" if card.get("corpus") else "questions",
        parts=("questions", *(part for field, part in _PARTS.items() if card.get(field))),
        splits=splits_of(questions),
        size=f"{len(questions)} questions",
        how=f"It lies in {folder}.",
        **known_facts,
    )


def splits_of(questions: Sequence[Question]) -> tuple[str, ...]:
    """Return the splits, dev first, then test; () if a question has no split."""
    splits = {question.split for question in questions}
    if "" in splits:
        return ()
    return tuple(sorted(splits, key=lambda split: (split != "dev", split != "test", split)))


def saved_expansions(path: Path, qids: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    """Return the recorded expansions of some questions: qid → [(name, text), …]."""
    wanted = set(qids)
    expansions: dict[str, list[tuple[str, str]]] = {}
    for _, row in read_jsonl(path):
        qid = row.text("qid")
        if qid in wanted:
            expansions.setdefault(qid, []).append((row.text("name"), row.text("text")))
    return expansions


def _questions(dataset: Dataset, splits: Sequence[str]) -> list[Question]:
    questions = formats.read_questions(Path(dataset.place) / QUESTIONS)
    return [question for question in questions if not splits or question.split in splits]


READER: Mapping[str, Callable[..., Any]] = {
    "questions": _questions,
    "passages": lambda dataset: Path(dataset.place) / CORPUS_FILE,
    "gold": lambda dataset: trec.read_verdicts(Path(dataset.place) / GOLD_FILE),
    "expansions": lambda dataset, splits: saved_expansions(
        Path(dataset.place) / EXPANSIONS, [question.qid for question in _questions(dataset, splits)]
    ),
}
