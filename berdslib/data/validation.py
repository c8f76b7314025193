"""Is a data set fit to be shared? What its folder says of itself, held against what is in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from berdslib.data import formats, own, trec
from berdslib.data.leaks import across_splits, leaks
from berdslib.data.records import Passage, Question, check_questions
from berdslib.errors import InputError

UNSTATED = "none stated"


class Finding(NamedTuple):
    """Something about a data set: ``grave`` where it must be mended before others can use it; and the ``problem``."""

    grave: bool
    problem: str


def validate(folder: Path) -> list[Finding]:
    """Return what is wrong with a data set's folder; nothing where all is well.

    Args:
        folder: as :func:`berdslib.data.own.write_dataset` writes it, perhaps changed by hand since.

    Raises:
        InputError: a file that cannot be read at all; it says where.
    """
    card, row = own.read_card(folder), own.card_row(folder)
    questions = own.own_questions(folder, card.name)
    check_questions(questions, need_perspectives=True)
    passages = formats.read_passages(folder / own.CORPUS) if row["corpus"] else []
    found = [
        *_of_card(card, row["questions"], len(questions)),
        *_of_questions(questions, row["splits"]),
        *_of_gold(folder, questions, passages, listed=row["gold"]),
        *_of_files(folder, row),
    ]
    return sorted(found, key=lambda one: not one.grave)


def _of_card(card: own.OwnCard, counted: int, there: int) -> list[Finding]:
    found = []
    if counted != there:
        found.append(Finding(True, f"the card says {counted} questions, and there are {there}"))
    if card.licence.strip().lower() == UNSTATED:
        found.append(Finding(False, "no licence is stated; without one nobody may use it"))
    if not card.source:
        found.append(Finding(False, "the card does not say where the texts come from"))
    return found


def _of_questions(questions: Sequence[Question], splits: Sequence[str]) -> list[Finding]:
    found = []
    if sorted(own.splits_of(questions)) != sorted(splits):
        there = ", ".join(sorted({q.split or "none" for q in questions}))
        found.append(Finding(True, f"the card says the splits {', '.join(splits) or 'none'}, and there are {there}"))
    single = [q.qid for q in questions if len(q.perspectives) < 2]
    if single:
        found.append(Finding(False, f"{len(single)} questions have one perspective only, such as {single[0]!r}"))
    across = across_splits(leaks(questions, kinds=("text", "perspectives")))
    if len(across):
        one = across.iloc[0]
        problem = f"{len(across)} pairs of questions leak across splits, such as {one['first']!r} and {one['second']!r}"
        found.append(Finding(True, f"{problem} (see: berds data leaks)"))
    return found


def _of_files(folder: Path, row: Mapping[str, Any]) -> list[Finding]:
    unlisted = [name for name, said in ((own.CORPUS, "corpus"), (own.GOLD, "gold"))
                if (folder / name).exists() and not row[said]]  # fmt: skip
    return [Finding(False, f"{name} is there, and no part of it by its card") for name in unlisted]


def _of_gold(
    folder: Path, questions: Sequence[Question], passages: Sequence[Passage], *, listed: bool
) -> list[Finding]:
    if not listed:
        return []
    gold = trec.read_verdicts(folder / own.GOLD)
    sizes = {q.qid: len(q.perspectives) for q in questions}
    strange = gold[~gold["qid"].isin(sizes)]
    beyond = gold[gold["qid"].isin(sizes) & (gold["pid"] >= gold["qid"].map(sizes).fillna(0))]
    unknown = gold[~gold["docno"].isin({p.docno for p in passages})]
    kinds = {
        "about questions that are not there": strange["qid"],
        "about perspectives that are not there": beyond["qid"],
        "about passages that are not there": unknown["docno"] if passages else unknown["docno"][:0],
    }
    return [
        Finding(True, f"{len(ids)} gold verdicts are {what}, such as {ids.iloc[0]!r}")
        for what, ids in kinds.items()
        if len(ids)
    ] + _without_gold(questions, gold)


def _without_gold(questions: Sequence[Question], gold: pd.DataFrame) -> list[Finding]:
    judged = set(gold["qid"])
    splits = {q.split for q in questions} - {q.split for q in questions if q.qid in judged}
    return [Finding(False, f"no question of the split {part!r} has gold verdicts") for part in sorted(splits)]


def require_valid(folder: Path) -> list[Finding]:
    """Return what should be mended, after raising an error for what must be.

    Raises:
        InputError: something grave.
    """
    found = validate(folder)
    if grave := [one.problem for one in found if one.grave]:
        raise InputError("; ".join(grave), path=folder)
    return found
