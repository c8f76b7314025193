"""From debates to questions: pairs of counter-arguments (ArguAna), and the discussions of a platform (Kialo).

Source: BeRDS, section 4.1 and Tables 8 and 9.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from berdslib.construction import reading
from berdslib.construction.pipeline import Draft, Rejected, Rejection, Step, key_of
from berdslib.construction.questions import STATEMENT_LABELS, STATEMENTS, TOO_FEW, as_typed
from berdslib.data.formats import numbered_passages, passage_table
from berdslib.data.records import OPPOSE, SUPPORT, Passage
from berdslib.data.tables import Row, check_new, read_table
from berdslib.errors import InputError
from berdslib.files import read_lines
from berdslib.statements import negate

# ---------------------------------------------------------------- points and counter-points

# ArguAna's ids end in the number of an argument, then "a" for the point or "b" for its counter-argument.
_PAIRED = re.compile(r"(.*\d)([ab])(?:-(?:point|counter))?")
LONE = "no counter-argument"


def read_arguments(path: Path) -> tuple[list[Draft], list[Rejection]]:
    """Read arguments and pair each point with its counter-argument; unpaired arguments are returned as rejections.

    `path` is ArguAna in BEIR's layout. The ids of a pair differ only in the final "a" (the point) or "b" (the
    counter-argument), as in "…-pro02a"; "-point" or "-counter" may follow.
    """
    pairs: dict[str, dict[str, Passage]] = {}
    lines: dict[tuple[str, str], int] = {}
    table = passage_table(path)
    for line, passage in numbered_passages(path):
        paired = _PAIRED.fullmatch(passage.docno)
        if paired is None:
            problem = f"{passage.docno!r} does not end in a number and 'a' (a point) or 'b' (what counters it)"
            raise InputError(problem, path=table, line=line, field="_id")
        if not passage.full_text.strip():
            raise InputError(f"the argument {passage.docno!r} has no text", path=table, line=line, field="text")
        key, side = paired.groups()
        check_new(lines, (key, side), f"side {side!r} of {key!r}", table, line, "_id")
        pairs.setdefault(key, {})[side] = passage
    if not pairs:
        raise InputError("holds no arguments", path=table)
    drafts: list[Draft] = []
    lone: list[Rejection] = []
    for key, sides in pairs.items():
        passages = [sides[side] for side in sorted(sides)]
        texts = tuple("\n".join(part for part in (p.title, p.text) if part) for p in passages)
        where = f"{table.name}:{lines[key, min(sides)]}"
        draft = Draft(key, where, sources=texts, documents=tuple(passage.docno for passage in passages))
        if len(sides) == 2:
            drafts.append(draft)
        else:
            there = "point" if "a" in sides else "counter-argument"
            lone.append(Rejection(draft, "read", LONE, f"only the {there} is there"))
    return drafts, lone


QUESTION_STEP = Step(
    "question",
    "question_from_arguments",
    lambda draft: dict(zip(("first", "second"), draft.sources, strict=True)),
    lambda draft, answer: draft._replace(question=as_typed(reading.sentence(answer, ["question"]))),
    by_rule=lambda _: None,  # no rule can find the topic of two arguments
    usual=lambda _: "Should the city close its old town to private cars?",
)

ARGUMENT_STEPS = (QUESTION_STEP, STATEMENTS)

# ---------------------------------------------------------------- discussions

_TITLE = re.compile(r"Discussion (?:Title|Name):[ \t]*(\S.*)")
_NUMBER = r"\d+(?:\.\d+)*"
# A claim may run over several lines, up to a blank one or the next claim.
_CLAIM = re.compile(rf"^({_NUMBER})\.[ \t]+(?:(Pro|Con):[ \t]*)?(\S.*(?:\n(?!{_NUMBER}\.[ \t])\S.*)*)", re.MULTILINE)
NO_ANSWERS = "no statement and no answers"
OTHER_NUMBER = "statements and answers differ in number"


def read_discussions(path: Path) -> tuple[list[Draft], list[Rejection]]:
    """Read discussions: questions, each with a statement or several answers.

    `path` is a table with `question` and either `statement` or `answers` (a list); or a text export of Kialo, or a
    folder of exports. The first claim of an export is the statement; several claims at the highest level are answers.
    """
    found: list[Draft] = []
    if path.is_dir() or path.suffix == ".txt":
        found += [_of_export(file) for file in (sorted(path.glob("*.txt")) if path.is_dir() else [path])]
    else:
        lines: dict[str, int] = {}
        for line, row in read_table(path):
            draft = _of_row(row, path, line)
            row.check_new(lines, draft.key, f"the id {draft.key!r}", "id")
            found.append(draft)
    if not found:
        raise InputError("holds no discussions", path=path)
    usable = [draft for draft in found if draft.perspectives or len(draft.options) > 1]
    bare = [draft for draft in found if not draft.perspectives and len(draft.options) < 2]
    return usable, [Rejection(d, "read", NO_ANSWERS, f"{len(d.options)} answers and no statement") for d in bare]


def _of_row(row: Row, path: Path, line: int) -> Draft:
    statement = row.text("statement", "thesis", default="")
    answers = row.texts("answers", optional=True)
    if statement and answers:
        raise row.wrong("answers", "a statement and answers; a question has one or the other")
    question = row.text("question", "title")
    return _draft(key_of(row, ("id", "qid", "_id"), path, line), f"{path.name}:{line}", question, statement, answers)


def _of_export(path: Path) -> Draft:
    """Return the question of an export, ignoring the arguments for and against its claims."""
    text = "\n".join(line.strip() for _, line in read_lines(path)).strip()
    title = _TITLE.match(text)
    if title is None:
        raise InputError("an export begins with 'Discussion Title: …'", path=path, line=1)
    claims: dict[int, list[str]] = {0: [], 1: []}  # of the two highest levels
    for number, side, claim in _CLAIM.findall(text):
        if not side and number.count(".") in claims:
            claims[number.count(".")].append(claim.replace("\n", " "))
    answers = claims[0] if len(claims[0]) > 1 else claims[1]  # each claim under a thesis is for it or against it
    statement = claims[0][0] if claims[0] and not answers else ""
    return _draft(path.stem, f"{path.name}:1", title[1], statement, answers)


def _draft(key: str, where: str, question: str, statement: str, answers: Sequence[str]) -> Draft:
    said = (statement,) if statement else ()
    options = tuple(dict.fromkeys(answers))
    return Draft(key, where, as_typed(question), said, sources=said or tuple(answers), options=options)


def _read_opposite(draft: Draft, answer: str) -> Draft:
    opposite = reading.sentence(answer, ["negative statement", "opposing statement", "statement", "opposite"])
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


def _read_one_each(draft: Draft, answer: str) -> Draft:
    found = reading.sentences(answer, STATEMENT_LABELS)
    if len(found) != len(draft.options):
        problem = f"{len(found)} statements for {len(draft.options)} answers"
        raise Rejected(OTHER_NUMBER, problem, ask_again=True)
    distinct = tuple(dict.fromkeys(found))
    if len(distinct) < 2:
        raise Rejected(TOO_FEW, "all statements are the same")
    return draft._replace(perspectives=distinct)


ONE_EACH = Step(
    "answers",
    "statements_of_answers",
    lambda draft: {"question": draft.question, "answers": "\n".join(draft.options)},
    _read_one_each,
    by_rule=lambda _: None,  # no rule can turn answers into sentences
    usual=lambda draft: "\n".join(f"The best way to cross the town is {one}." for one in draft.options),
    applies=lambda draft: not draft.perspectives,
)

DISCUSSION_STEPS = (OPPOSITE, ONE_EACH)
