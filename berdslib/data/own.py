"""A data set of one's own: a folder with a card, questions and, where there are some, a corpus and gold verdicts.

It loads by its path, or by name once it was added (`berds data add FOLDER`). The folder is complete by itself, so that
it can be given to others: `dataset.json` is the card, `README.md` says the same to people.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pandas as pd

from berdslib.data import formats, trec
from berdslib.data.catalogue import DATASETS, Dataset, added_dataset, added_list
from berdslib.data.leaks import across_splits, leaks
from berdslib.data.records import Passage, Question, check_questions
from berdslib.data.tables import read_json, write_jsonl
from berdslib.errors import InputError, MissingDataError, errors_in, printable
from berdslib.files import write_text

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
            if name in ("title", "licence") and not text.strip():
                raise InputError(f"a data set needs a {name}", field=name)
        if not _NAME.fullmatch(self.name) or self.name.endswith(_LIKE_FILES):
            problem = f"letters, digits, '.', '_' and '-' are needed, and no ending of a file, not {self.name!r}"
            raise InputError(problem, field="name")


def write_dataset(
    folder: Path,
    card: OwnCard,
    questions: Sequence[Question],
    passages: Sequence[Passage] = (),
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
    """
    check_questions(questions, need_perspectives=True)
    row = {
        "format": FORMAT,
        **asdict(card),
        "questions": len(questions),
        "splits": splits_of(questions),
        "corpus": len(passages) > 0,
        "gold": gold is not None,
    }
    folder.mkdir(parents=True, exist_ok=True)
    # All is written beside before any of it takes its place.
    with TemporaryDirectory(prefix=".unfinished-", dir=folder) as place:
        new = Path(place)
        write_jsonl(new / QUESTIONS, ({**_row(q), **(more or {}).get(q.qid, {})} for q in questions))
        if len(passages):
            formats.write_passages(new / CORPUS, passages)
        if gold is not None:
            trec.write_verdicts(new / GOLD, gold)
        with write_text(new / README) as file:
            file.write(_in_words(row))
        with write_text(new / CARD) as file:
            file.write(json.dumps(row, indent=1, ensure_ascii=False) + "\n")
        (folder / CARD).unlink(missing_ok=True)
        for name in (QUESTIONS, CORPUS, GOLD, README, CARD):
            if (new / name).exists():
                os.replace(new / name, folder / name)


def own_at(path: Path) -> Dataset | None:
    """Return the folder of a data set, with its card, as the entry of one; else None."""
    return as_dataset(path) if is_own(path) else None


def is_own(path: str | Path) -> bool:
    """Return whether a path is the folder of a data set, with its card."""
    return (Path(path) / CARD).is_file()


def read_card(folder: Path) -> OwnCard:
    """Return the card of a data set's folder."""
    return _read_card(folder)[0]


_FIELDS = {"made": (dict, "an object"), "questions": (int, "a number"), "splits": (list, "a list"),
           "corpus": (bool, "true or false"), "gold": (bool, "true or false")}  # fmt: skip


def _read_card(folder: Path) -> tuple[OwnCard, dict[str, Any]]:
    """Return the card of a folder, and all that is written on it: also what it says of its files."""
    path = folder / CARD
    row = read_json(path)
    if not isinstance(row, dict) or row.get("format") != FORMAT:
        raise InputError(f'the card of a data set was expected, with "format": "{FORMAT}"', path=path)
    for name, (kind, wanted) in _FIELDS.items():
        if not isinstance(row.get(name), kind):
            problem = f"{wanted} was expected, not {type(row.get(name)).__name__}"
            raise InputError(problem, path=path, field=name)
    if not all(isinstance(split, str) for split in row["splits"]):
        raise InputError("a list of texts was expected", path=path, field="splits")
    with errors_in(path):
        values: list[Any] = [row.get(one.name) for one in fields(OwnCard)]
        return OwnCard(*values), row


def as_dataset(folder: Path) -> Dataset:
    """Return a folder as the entry of a data set, which loads like any other; only its card is read yet."""
    card, row = _read_card(folder)
    return added_dataset(
        card.name,
        str(folder),
        title=card.title,
        kind="both" if row["corpus"] else "questions",
        source=card.source or "a data set of your own",
        licence=card.licence,
        size=f"{row['questions']} questions",
        parts=("questions", *(part for part, said in (("passages", "corpus"), ("gold", "gold")) if row[said])),
        splits=tuple(row["splits"]),
        how=f"It lies in {folder}.",
    )


def _questions(one: Dataset, splits: Sequence[str] = ()) -> list[Question]:
    """Return the questions of a folder, of some splits or all, under the name of the data set."""
    folder = Path(one.place)
    try:
        name = _read_card(folder)[0].name
    except (InputError, OSError) as error:
        problem = f"the data set {one.name!r} was added from {folder}, which cannot be used: {error}"
        raise MissingDataError(f"{problem}. Add it again from where it is now:  berds data add FOLDER") from None
    found = formats.read_questions(folder / QUESTIONS)
    return [q._replace(source=name) for q in found if not splits or q.split in splits]


READER: Mapping[str, Callable[..., Any]] = {
    "questions": _questions,
    "passages": lambda one: Path(one.place) / CORPUS,
    "gold": lambda one: trec.read_verdicts(Path(one.place) / GOLD),
}


def add(folder: Path) -> Dataset:
    """Have a data set of one's own load by the name on its card, here and in every later process.

    A name from before now means this folder.
    """
    if grave := [one.problem for one in validate(folder) if one.grave]:
        raise InputError("; ".join(grave), path=folder)
    one = as_dataset(folder.resolve())
    with errors_in(folder / CARD):
        DATASETS.add(one.name, one)
    place = added_list() / one.name
    if place.is_symlink():  # who shares the cache may have made it, to have another file written over
        place.unlink()
    with write_text(place) as file:
        file.write(one.place)
    return one


# ---------------------------------------------------------------- what is written


def splits_of(questions: Sequence[Question]) -> list[str]:
    """Return the splits, dev first, then test; none where a question is in none."""
    there = {q.split for q in questions}
    return [] if "" in there else sorted(there, key=lambda split: (split != "dev", split != "test", split))


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


def _in_words(row: Mapping[str, Any]) -> str:
    facts = {name: value for name, value in {**row, **row["made"]}.items() if value and name not in ("format", "made")}
    listed = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    call = f'questions = bd.load("{row["name"]}")  # after: berds data add FOLDER'
    return f"# {row['title']}\n\n{listed}\n\n```python\nimport berdslib as bd\n\n{call}\n```\n"


# ---------------------------------------------------------------- is it fit to be shared?


class Finding(NamedTuple):
    """Something about a data set: ``grave`` where it must be mended before others can use it; and the ``problem``."""

    grave: bool
    problem: str


def validate(folder: Path) -> list[Finding]:
    """Return what is wrong with a data set's folder, perhaps changed by hand since; nothing where all is well."""
    card, row = _read_card(folder)
    questions = formats.read_questions(folder / QUESTIONS)
    check_questions(questions, need_perspectives=True)
    found = list[Finding]()
    if row["questions"] != len(questions):
        found.append(Finding(True, f"the card says {row['questions']} questions, and there are {len(questions)}"))
    if sorted(splits_of(questions)) != sorted(row["splits"]):
        there = ", ".join(sorted({q.split or "none" for q in questions}))
        said = ", ".join(row["splits"]) or "none"
        found.append(Finding(True, f"the card says the splits {said}, and there are {there}"))
    across = across_splits(leaks(questions))
    if len(across):
        pair = f"{across['first'].iloc[0]!r} and {across['second'].iloc[0]!r} (see: berds data leaks)"
        found.append(Finding(True, f"{len(across)} pairs of questions leak across splits, such as {pair}"))
    if row["gold"]:
        passages = formats.read_passages(folder / CORPUS) if row["corpus"] else None
        strays = _strays(trec.read_verdicts(folder / GOLD), questions, passages)
        found += [Finding(True, one) for one in strays]
    for name, said in ((CORPUS, "corpus"), (GOLD, "gold")):
        if (folder / name).exists() and not row[said]:
            found.append(Finding(False, f"{name} is there, and no part of it by its card"))
    if card.licence.strip().lower() == "none stated":
        found.append(Finding(False, "no licence is stated; without one nobody may use it"))
    if not card.source:
        found.append(Finding(False, "the card does not say where the texts come from"))
    return found


def _strays(gold: pd.DataFrame, questions: Sequence[Question], passages: Sequence[Passage] | None) -> list[str]:
    """Say how many verdicts are about what is not there."""
    sizes = {q.qid: len(q.perspectives) for q in questions}
    size = gold["qid"].map(sizes)
    about = {"questions": gold["qid"][size.isna()], "perspectives": gold["qid"][gold["pid"] >= size]}
    if passages is not None:
        about["passages"] = gold["docno"][~gold["docno"].isin({p.docno for p in passages})]
    return [
        f"{len(ids)} gold verdicts are about {what} that are not there, such as {ids.iloc[0]!r}"
        for what, ids in about.items()
        if len(ids)
    ]
