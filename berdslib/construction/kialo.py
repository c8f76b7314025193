"""From the questions of a debate platform to perspectives: a statement's opposite, or one statement for each answer.

Source: BeRDS, section 4.1 (Kialo) and Table 9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berdslib.construction import reading
from berdslib.construction.pipeline import Draft, Rejected, Rejection, Step
from berdslib.construction.statements import STATEMENT_LABELS, TOO_FEW, as_typed
from berdslib.data.records import OPPOSE, SUPPORT
from berdslib.data.tables import is_missing, read_table, text_field, text_list
from berdslib.errors import InputError
from berdslib.files import read_lines
from berdslib.statements.negation import negate

_TITLE = re.compile(r"Discussion (?:Title|Name):\s*(\S.*)")
_CLAIM = re.compile(r"(\d+(?:\.\d+)*)\.\s+(?:(Pro|Con):\s*)?(\S.*)")
NO_ANSWERS = "no statement and no answers"
OTHER_NUMBER = "statements and answers differ in number"
REASONS = {
    NO_ANSWERS: "The discussion has neither a statement to oppose nor two answers to choose from.",
    OTHER_NUMBER: "The model wrote another number of statements than there are answers.",
}


def read_discussions(path: Path) -> tuple[list[Draft], list[Rejection]]:
    """Read discussions, each a question with a statement or with several answers.

    Args:
        path: a table (JSONL, CSV or TSV) with `question` and either `statement` or `answers` (a list), and an `id` if
            there is one; a discussion as the platform exports it, a text file that begins with "Discussion Title:" and
            goes on with numbered claims; or a folder of such text files. Of an export, the first claim is the
            statement; where several claims of the highest level are neither "Pro:" nor "Con:", they are the answers.
    """
    if path.is_dir() or path.suffix == ".txt":
        files = sorted(path.glob("*.txt")) if path.is_dir() else [path]
        found = [_of_export(file) for file in files]
    else:
        found = [_of_row(row, path, line) for line, row in read_table(path)]
    if not found:
        raise InputError("holds no discussions", path=path)
    first: dict[str, str] = {}
    for draft in found:
        if draft.key in first:
            raise InputError(f"the id {draft.key!r} occurs twice: {first[draft.key]} and {draft.where}", path=path)
        first[draft.key] = draft.where
    bare = [d for d in found if not d.perspectives and len(d.options) < 2]
    out = [Rejection(d, "read", NO_ANSWERS, f"{len(d.options)} answers and no statement") for d in bare]
    return [d for d in found if d.perspectives or len(d.options) > 1], out


def _of_row(row: Mapping[str, Any], path: Path, line: int) -> Draft:
    named = any(not is_missing(row.get(name)) for name in ("id", "qid", "_id"))
    key = text_field(row, ("id", "qid", "_id"), path, line) if named else f"{path.name.partition('.')[0]}-{line}"
    statement = text_field(row, ("statement", "thesis"), path, line, default="")
    answers = text_list(row, "answers", path, line, optional=True)
    if statement and answers:
        problem = "a statement and answers; a question has one or the other"
        raise InputError(problem, path=path, line=line, field="answers")
    return Draft(
        key,
        f"{path.name}:{line}",
        question=as_typed(text_field(row, ("question", "title"), path, line)),
        perspectives=(statement,) if statement else (),
        sources=(statement,) if statement else answers,
        options=tuple(dict.fromkeys(answers)),
    )


def _of_export(path: Path) -> Draft:
    """Return the question of an export; arguments for and against its claims are not looked at."""
    title, claims, open_claim = "", list[tuple[int, str | None, str]](), False
    for line, text in read_lines(path):
        if not title and text.strip():
            found = _TITLE.match(text.strip())
            if found is None:
                raise InputError("an export begins with 'Discussion Title: …'", path=path, line=line)
            title = found[1]
        elif claim := _CLAIM.match(text.strip()):
            claims.append((claim[1].count("."), claim[2], claim[3].strip()))
            open_claim = True
        elif open_claim := open_claim and bool(text.strip()):  # a claim may run over several lines, up to a blank one
            depth, side, begun = claims[-1]
            claims[-1] = depth, side, f"{begun} {text.strip()}"
    if not title:
        raise InputError("is empty; an export begins with 'Discussion Title: …'", path=path)
    top = [text for depth, side, text in claims if depth == 0 and side is None]
    below = [text for depth, side, text in claims if depth == 1 and side is None]
    answers = top if len(top) > 1 else below  # under a thesis every claim is for it or against it
    statement = top[:1] if not answers else []
    return Draft(
        path.stem,
        f"{path.name}:1",
        question=as_typed(title),
        perspectives=tuple(statement),
        sources=tuple(statement or answers),
        options=tuple(answers),
    )


# ---------------------------------------------------------------- one statement: its opposite


def _read_opposite(draft: Draft, answer: str) -> Draft:
    labels = ["negative statement", "opposing statement", "statement", "opposite"]
    opposite = reading.one_line(answer, labels)
    return draft._replace(perspectives=(draft.perspectives[0], opposite), stances=(SUPPORT, OPPOSE))


OPPOSITE = Step(
    "opposite",
    "opposing_statement",
    lambda draft: {"question": draft.question, "statement": draft.perspectives[0]},
    _read_opposite,
    by_rule=lambda draft: negate(draft.perspectives[0]),
    usual=lambda _: "The city should not close its old town to private cars.",
    applies=lambda draft: len(draft.perspectives) == 1,
)


# ---------------------------------------------------------------- several answers: a statement each


def _read_one_each(draft: Draft, answer: str) -> Draft:
    found = reading.lines(answer, STATEMENT_LABELS)
    if len(found) != len(draft.options):
        problem = f"{len(found)} statements for {len(draft.options)} answers"
        raise Rejected(OTHER_NUMBER, problem, ask_again=True)
    distinct = tuple(dict.fromkeys(found))
    if len(distinct) < 2:
        raise Rejected(TOO_FEW, "all statements are the same")
    return draft._replace(perspectives=distinct)


# "What's the best X?" with the answer Y: "The best X is Y."
_WHAT_IS = re.compile(r"(?:what|which|who)(?:['’]s| is| are) (the .+?)\??", re.IGNORECASE)


def _one_each_by_rule(draft: Draft) -> str | None:
    asked = _WHAT_IS.fullmatch(draft.question.strip())
    if asked is None:
        return None
    verb = "are" if re.match(r"\w+ are ", draft.question, re.IGNORECASE) else "is"
    subject = asked[1][:1].upper() + asked[1][1:]
    if any(re.search(r"[.!?:;]|['’](?:s|m|re)\b", answer.rstrip(".")) for answer in draft.options):
        return None  # whole sentences, not names
    return "\n".join(f"{subject} {verb} {answer.rstrip('.')}." for answer in draft.options)


ONE_EACH = Step(
    "answers",
    "statements_of_answers",
    lambda draft: {"question": draft.question, "answers": "\n".join(draft.options)},
    _read_one_each,
    _one_each_by_rule,
    usual=lambda draft: "\n".join(f"The best way to cross the town is {one}." for one in draft.options),
    applies=lambda draft: not draft.perspectives,
)

STEPS = (OPPOSITE, ONE_EACH)
