"""From pairs of counter-arguments to questions: point and counter-point, a question, a statement and its negation.

Source: BeRDS, section 4.1 (Arguana) and Table 8.
"""

from __future__ import annotations

import re
from pathlib import Path

from berdslib.construction import reading
from berdslib.construction.pipeline import Draft, Rejection, Step
from berdslib.construction.statements import STATEMENTS, as_typed
from berdslib.data.formats import numbered_passages, passage_table
from berdslib.data.records import Passage
from berdslib.errors import InputError

# ArguAna's ids end in the number of an argument, "a" for the point and "b" for what counters it.
_PAIRED = re.compile(r"(.*\d)([ab])(?:-(?:point|counter))?")
LONE = "no counter-argument"
REASONS = {LONE: "An argument without its counterpart: there are no two sides to ask about."}


def read_arguments(path: Path) -> tuple[list[Draft], list[Rejection]]:
    """Read arguments and put each point and its counter-argument together.

    Args:
        path: ArguAna in BEIR's layout, a JSONL file or a folder. The ids of a pair are the same up to the "a" of the
            point and the "b" of the counter-argument at their end ("…-pro02a"; "-point" and "-counter" may follow).

    Returns:
        The pairs in the order of their points, and the arguments that have no counterpart.
    """
    pairs: dict[str, dict[str, tuple[int, Passage]]] = {}
    table = passage_table(path)
    for line, passage in numbered_passages(path):
        paired = _PAIRED.fullmatch(passage.docno)
        if paired is None:
            problem = f"{passage.docno!r} does not end in a number and 'a' (a point) or 'b' (what counters it)"
            raise InputError(problem, path=table, line=line, field="_id")
        if not passage.full_text.strip():
            raise InputError(f"the argument {passage.docno!r} has no text", path=table, line=line, field="text")
        sides = pairs.setdefault(paired[1], {})
        if paired[2] in sides:
            first = sides[paired[2]][0]
            raise InputError(f"the same side of an argument is on line {first}", path=table, line=line, field="_id")
        sides[paired[2]] = line, passage
    if not pairs:
        raise InputError("holds no arguments", path=table)
    return _pairs(pairs, table)


def _pairs(pairs: dict[str, dict[str, tuple[int, Passage]]], table: Path) -> tuple[list[Draft], list[Rejection]]:
    drafts, lone = [], []
    for key, sides in pairs.items():
        in_order = [sides[side] for side in "ab" if side in sides]
        draft = Draft(
            key,
            f"{table.name}:{in_order[0][0]}",
            sources=tuple(_text(passage) for _, passage in in_order),
            documents=tuple(passage.docno for _, passage in in_order),
        )
        if len(in_order) == 2:
            drafts.append(draft)
        else:
            there = "point" if "a" in sides else "counter-argument"
            lone.append(Rejection(draft, "read", LONE, f"only the {there} is there"))
    return drafts, lone


def _text(passage: Passage) -> str:
    return "\n".join(part for part in (passage.title, passage.text) if part)


def _read_question(draft: Draft, answer: str) -> Draft:
    return draft._replace(question=as_typed(reading.one_line(answer, ["question"])))


def _values(draft: Draft) -> dict[str, str]:
    first, second = draft.sources
    return {"first": first, "second": second}


QUESTION = Step(
    "question",
    "question_from_arguments",
    _values,
    _read_question,
    by_rule=lambda _: None,  # nothing but reading tells what two arguments are about
    usual=lambda _: "Should the city close its old town to private cars?",
)

STEPS = (QUESTION, STATEMENTS)
