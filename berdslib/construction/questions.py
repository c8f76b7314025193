"""From questions to perspectives: a plain list of questions, and the steps that several sources share."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from berdslib.construction import reading
from berdslib.construction.pipeline import Draft, Rejected, Rejection, Step
from berdslib.data.datasets import load_questions
from berdslib.data.formats import read_questions
from berdslib.data.records import OPPOSE, SUPPORT, Question
from berdslib.errors import InputError
from berdslib.files import read_lines
from berdslib.statements import two_sides
from berdslib.statements.contradiction import same_text
from berdslib.statements.grammar import word_lists

TOO_FEW = "too few perspectives"
TWICE = "asked twice"

_ASKS_YES_OR_NO = re.compile(
    r"(?:is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|shall|should|may|might|must|ought|need)"
    r"(?:n['’]t)?\b",
    re.IGNORECASE,
)
_CHOICE = re.compile(r"\bor\b(?! not\b)", re.IGNORECASE)


def phrases(name: str, **stand_ins: str) -> re.Pattern[str]:
    """Return a pattern of all phrases of a list in phrases.txt, with its placeholders filled from `stand_ins`."""
    text = word_lists(Path(__file__).with_name("phrases.txt"))[name].strip().replace("\n", "|")
    for stand_in, words in stand_ins.items():
        text = text.replace(stand_in, words)
    return re.compile(text, re.IGNORECASE)


def as_typed(question: str) -> str:
    """Return a question on one line, with its first letter capitalised."""
    text = " ".join(question.split())
    return text[:1].upper() + text[1:]


def asks_yes_or_no(question: str) -> bool:
    """Return whether a question can be answered with yes or no, judging by the first words of its clauses.

    >>> asks_yes_or_no("In your city, should cars be banned?"), asks_yes_or_no("Which is better, tea or coffee?")
    (True, False)
    """
    return any(_ASKS_YES_OR_NO.match(clause) for clause in re.split(r"[.,:;?!]\s+", question.strip()))


# ---------------------------------------------------------------- statement and negation


def _read_statements(draft: Draft, answer: str) -> Draft:
    found = reading.fields(
        answer,
        {
            "yes": ["statement", "positive statement", "affirmative statement", "original statement"],
            "no": ["negation", "negative statement", "negated statement", "negation of the statement"],
        },
    )
    stances = (SUPPORT, OPPOSE) if asks_yes_or_no(draft.question) else ()
    return draft._replace(perspectives=(found["yes"], found["no"]), stances=stances)


def _statements_by_rule(draft: Draft) -> str | None:
    sides = two_sides(draft.question, choices=False)
    return f"statement: {sides[0]}\nnegation: {sides[1]}" if sides else None


def _asked(draft: Draft) -> dict[str, str]:
    return {"question": draft.question}


STATEMENTS = Step(
    "statements",
    "statement_and_negation",
    _asked,
    _read_statements,
    _statements_by_rule,
    usual=lambda _: (
        "statement: The city should close its old town to cars.\nnegation: The city should not close its old town."
    ),
    applies=lambda draft: not draft.perspectives,
)


# ---------------------------------------------------------------- any number of positions

STATEMENT_LABELS = ("statement", "perspective", "position", "answer")


def _read_positions(draft: Draft, answer: str) -> Draft:
    found = tuple(dict.fromkeys(reading.sentences(answer, STATEMENT_LABELS)))
    if len(found) < 2:
        raise Rejected(TOO_FEW, "only one is named", ask_again=True)
    return draft._replace(perspectives=found)


POSITIONS = Step(
    "positions",
    "statements_of_question",
    _asked,
    _read_positions,
    by_rule=lambda _: None,
    usual=lambda _: "The city should build trams.\nThe city should widen its roads.\nThe city should price parking.",
    applies=lambda draft: not draft.perspectives,
)


# ---------------------------------------------------------------- which of two supports

_SIDES = {
    "first": ["1", "perspective 1", "first", "the first"],
    "second": ["2", "perspective 2", "second", "the second"],
}


def _read_side(draft: Draft, answer: str) -> Draft:
    first = reading.choice(answer, _SIDES) == "first"
    return draft._replace(stances=(SUPPORT, OPPOSE) if first else (OPPOSE, SUPPORT))


def _side_by_rule(draft: Draft) -> str | None:
    """Return the side that the rules know: the statement they derive from the question, else the recorded stances."""
    for answer, statement in zip("12", two_sides(draft.question, choices=False) or (), strict=False):
        if same_text(draft.perspectives[0]) == same_text(statement):
            return answer
    sides: dict[tuple[str | None, ...], str] = {(SUPPORT, OPPOSE): "1", (OPPOSE, SUPPORT): "2"}
    return sides.get(draft.stances)


LABEL = Step(
    "labels",
    "supporting_side",
    lambda draft: {"question": draft.question, **dict(zip(("first", "second"), draft.perspectives, strict=True))},
    _read_side,
    _side_by_rule,
    usual=lambda _: "1",
    applies=lambda draft: len(draft.perspectives) == 2 and asks_yes_or_no(draft.question),
    optional=True,
)

# For existing questions with both perspectives (BeRDS A.8); an unreadable answer leaves the question out.
STANCES = replace(
    LABEL,
    name="stances",
    applies=lambda draft: len(draft.perspectives) == 2 and not draft.stances,
    optional=False,
)


def read_named(raw: Path, split: str | None = None) -> tuple[list[Draft], list[Rejection]]:
    """Read the questions of a file, of a data set, or of several data sets with comma-separated names."""
    names = [str(raw)] if raw.exists() else str(raw).split(",")
    return [_draft(q, name) for name in names for q in load_questions(name.strip(), split)], []


# ---------------------------------------------------------------- a plain list


def read_list(path: Path) -> tuple[list[Draft], list[Rejection]]:
    """Read questions, with any perspectives they already have; repeated questions are returned as rejections.

    `path` is a text file (.txt, .md, also .gz) with one question per line, whose ids are the file name and the line;
    or a table that :func:`berdslib.data.formats.read_questions` reads, whose perspectives, stances and splits are kept.
    """
    found: list[Draft] = []
    if path.name.lower().removesuffix(".gz").endswith((".txt", ".md")):
        for line, text in read_lines(path):
            if text.strip() and not text.strip().startswith("#"):
                key = f"{path.name.partition('.')[0]}-{line}"
                found.append(Draft(key, f"{path.name}:{line}", as_typed(text)))
    else:
        found += [_draft(question, path.name) for question in read_questions(path)]
    if not found:
        raise InputError("holds no questions; one a line was expected", path=path)
    first: dict[str, Draft] = {}
    twice: list[Rejection] = []
    for draft in found:
        before = first.setdefault(draft.question.casefold(), draft)
        if before is not draft:
            twice.append(Rejection(draft, "read", TWICE, f"as in {before.where}"))
    return list(first.values()), twice


def _draft(q: Question, where: str) -> Draft:
    """Return a question as a draft, with its perspectives and any recorded stances."""
    stances = q.stances if any(q.stances) else ()
    return Draft(q.qid, where, as_typed(q.text), q.perspectives, stances, split=q.split)


# A plain list may mix yes-or-no questions with questions that offer a choice.
def _is_yes_or_no(draft: Draft) -> bool:
    return not draft.perspectives and asks_yes_or_no(draft.question) and not _CHOICE.search(draft.question)


LIST_STEPS = (replace(STATEMENTS, applies=_is_yes_or_no), POSITIONS)
