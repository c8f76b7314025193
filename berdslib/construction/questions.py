"""From a plain list of questions to perspectives: what a benchmark of one's own begins with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from berdslib.construction.pipeline import Draft, Rejection
from berdslib.construction.statements import POSITIONS, STATEMENTS, as_typed, asks_to_choose, asks_yes_or_no
from berdslib.data.formats import read_questions
from berdslib.errors import InputError
from berdslib.files import read_lines

TWICE = "asked twice"
REASONS = {TWICE: "The same question came before."}


def read_list(path: Path) -> tuple[list[Draft], list[Rejection]]:
    """Read questions, and the perspectives of those that have some already.

    Args:
        path: a text file (.txt, .md, also .gz) with a question a line, named after the file and the line; blank lines
            and lines that begin with "#" are passed over. Or a table that :func:`berdslib.data.formats.read_questions`
            reads, whose perspectives, stances and splits are kept.
    """
    is_text = path.name.lower().removesuffix(".gz").endswith((".txt", ".md"))
    found = _lines(path) if is_text else _rows(path)
    if not found:
        raise InputError("holds no questions; one a line was expected", path=path)
    first: dict[str, Draft] = {}
    twice = []
    for draft in found:
        same = first.setdefault(draft.question.casefold(), draft)
        if same is not draft:
            twice.append(Rejection(draft, "read", TWICE, f"as in {same.where}"))
    return list(first.values()), twice


def _lines(path: Path) -> list[Draft]:
    stem = path.name.partition(".")[0]
    texts = [(line, text.strip()) for line, text in read_lines(path)]
    return [
        Draft(f"{stem}-{line}", f"{path.name}:{line}", as_typed(text))
        for line, text in texts
        if text and not text.startswith("#")
    ]


def _rows(path: Path) -> list[Draft]:
    return [
        Draft(q.qid, path.name, as_typed(q.text), q.perspectives, _sides(q.stances), split=q.split)
        for q in read_questions(path)
    ]


def _sides(stances: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """Return stances that say something, or none at all."""
    return stances if any(stances) else ()


# Of a plain list nobody has said that its questions are answered with yes or no.
def _is_yes_or_no(draft: Draft) -> bool:
    return not draft.perspectives and asks_yes_or_no(draft.question) and not asks_to_choose(draft.question)


_YES_OR_NO = replace(STATEMENTS, applies=_is_yes_or_no)

STEPS = (_YES_OR_NO, POSITIONS)
