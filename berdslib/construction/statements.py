"""Steps that several builders share: statement and negation, the positions on a question, and who supports it."""

from __future__ import annotations

import re

from berdslib.construction import reading
from berdslib.construction.drafts import Draft, Rejected
from berdslib.construction.steps import Step
from berdslib.data.negation import yes_and_no
from berdslib.data.records import OPPOSE, SUPPORT

TOO_FEW = "too few perspectives"
REASONS = {TOO_FEW: "Fewer than two perspectives came of it: there is nothing to cover."}

_ASKS_YES_OR_NO = re.compile(
    r"(?:is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|shall|should|may|might|must|ought|need)"
    r"(?:n['’]t)?\b",
    re.IGNORECASE,
)
_CHOICE = re.compile(r"\bor\b(?! not\b)", re.IGNORECASE)


def as_typed(question: str) -> str:
    """Return a question in one line, with a capital at its start."""
    text = " ".join(question.split())
    return text[:1].upper() + text[1:]


def asks_yes_or_no(question: str) -> bool:
    """Return whether a question can be answered with yes or no, as its last clause shows.

    >>> asks_yes_or_no("In your city, should cars be banned?"), asks_yes_or_no("Which is better, tea or coffee?")
    (True, False)
    """
    clauses = re.split(r"[,:;]\s+", question.strip())
    return any(_ASKS_YES_OR_NO.match(clause) for clause in clauses) and not _CHOICE.search(clauses[-1])


# ---------------------------------------------------------------- statement and negation


def _read_statements(draft: Draft, answer: str) -> Draft:
    found = reading.fields(
        answer,
        {
            "yes": ["statement", "positive statement", "affirmative statement", "original statement"],
            "no": ["negation", "negative statement", "negated statement", "negation of the statement"],
        },
    )
    return draft._replace(perspectives=(found["yes"], found["no"]), stances=(SUPPORT, OPPOSE))


def _statements_by_rule(draft: Draft) -> str | None:
    said = yes_and_no(draft.question)
    return None if said is None else f"statement: {said[0]}\nnegation: {said[1]}"


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


def _read_positions(draft: Draft, answer: str) -> Draft:
    found = tuple(dict.fromkeys(reading.lines(answer)))
    if len(found) < 2:
        raise Rejected(TOO_FEW, f"{len(found)} was named")
    return draft._replace(perspectives=found)


POSITIONS = Step(
    "positions",
    "statements_of_question",
    _asked,
    _read_positions,
    by_rule=lambda _: None,
    usual=lambda _: "The city should build trams.\nThe city should widen its roads.\nThe city should price parking.",
    applies=lambda draft: not draft.perspectives and not asks_yes_or_no(draft.question),
)


# ---------------------------------------------------------------- which of two supports

_FIRST = ["1", "perspective 1", "first", "the first"]
_SECOND = ["2", "perspective 2", "second", "the second"]


def _read_side(draft: Draft, answer: str) -> Draft:
    first = reading.choice(answer, {"first": _FIRST, "second": _SECOND}) == "first"
    return draft._replace(stances=(SUPPORT, OPPOSE) if first else (OPPOSE, SUPPORT))


def _sides(draft: Draft) -> dict[str, str]:
    first, second = draft.perspectives
    return {"question": draft.question, "first": first, "second": second}


def _side_by_rule(draft: Draft) -> str | None:
    """What made the two statements knows which of them says yes."""
    sides: dict[tuple[str | None, ...], str] = {(SUPPORT, OPPOSE): "1", (OPPOSE, SUPPORT): "2"}
    return sides.get(draft.stances)


LABEL = Step(
    "labels",
    "supporting_side",
    _sides,
    _read_side,
    _side_by_rule,
    usual=lambda _: "1",
    applies=lambda draft: len(draft.perspectives) == 2,
    optional=True,
)
