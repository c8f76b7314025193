"""From survey questions to questions with two sides: a filter, then a question, a yes and a no out of the options.

Source: BeRDS, section 4.1 (OpinionQA) and Table 11.
"""

from __future__ import annotations

import json
from pathlib import Path

from berdslib.construction import reading
from berdslib.construction.pipeline import Draft, Rejected, Rejection, Step, key_of
from berdslib.construction.questions import as_typed, phrases
from berdslib.data.records import OPPOSE, SUPPORT
from berdslib.data.tables import read_table
from berdslib.errors import InputError
from berdslib.statements import two_sides

_PERSONAL = "personal experience"
FEW_OPTIONS = "fewer than two options"
# Non-answers that surveys list beside the answers.
_NO_ANSWER = {"refused", "don't know", "dont know", "not sure", "no answer", "skipped", "na", "n/a", "does not apply"}


def read_survey(path: Path) -> tuple[list[Draft], list[Rejection]]:
    """Read survey questions from a table such as OpinionQA's `info.csv`: key, question, options in `references`.

    Non-answers such as "Refused" are dropped from the options (divergences.md B16).
    """
    found: list[Draft] = []
    few: list[Rejection] = []
    lines: dict[str, int] = {}
    for line, row in read_table(path):
        key = key_of(row, ("key", "id", "qid"), path, line)
        row.check_new(lines, key, repr(key), "key")
        name, _ = row.first("references", "options")
        options = [" ".join(option.split()) for option in row.texts(name)]
        options = [option for option in options if option.lower().strip(".") not in _NO_ANSWER]
        text = " ".join(row.text("question").split())
        draft = Draft(key, f"{path.name}:{line}", sources=(text,), options=tuple(options))
        if len(options) > 1:
            found.append(draft)
        else:
            few.append(Rejection(draft, "read", FEW_OPTIONS, ", ".join(options) or "none"))
    if not found and not few:
        raise InputError("holds no questions", path=path)
    return found, few


def shown(draft: Draft) -> str:
    """Return a survey question followed by its options, as the prompts show it."""
    return f"{draft.sources[0]} {json.dumps(list(draft.options), ensure_ascii=False)}"


# ---------------------------------------------------------------- the filter


def _read_personal(draft: Draft, answer: str) -> Draft:
    if reading.choice(answer, {"yes": ["yes"], "no": ["no"]}) == "yes":
        raise Rejected(_PERSONAL, draft.sources[0])
    return draft


_LIFE = phrases("life")
_MIND = phrases("mind")


def _personal_by_rule(draft: Draft) -> str | None:
    is_life = _LIFE.search(draft.sources[0]) is not None
    is_mind = _MIND.search(draft.sources[0]) is not None
    return None if is_life == is_mind else "Yes" if is_life else "No"


FILTER_STEP = Step(
    "filter",
    "personal_experience",
    lambda draft: {"question": shown(draft)},
    _read_personal,
    _personal_by_rule,
    usual=lambda _: "No",
)


# ---------------------------------------------------------------- question, yes and no


def _read_survey(draft: Draft, answer: str) -> Draft:
    found = reading.fields(
        answer,
        {
            "question": ["question", "converted question", "yes/no question"],
            "yes": ["yes", "positive statement", "positive", "supporting statement", "statement"],
            "no": ["no", "negative statement", "negative", "opposing statement"],
        },
    )
    perspectives = found["yes"], found["no"]
    return draft._replace(question=as_typed(found["question"]), perspectives=perspectives, stances=(SUPPORT, OPPOSE))


def _survey_by_rule(draft: Draft) -> str | None:
    """Return an answer without conversion for a question with the options yes and no, else None."""
    question = draft.sources[0]
    is_closed = (draft.options[0].lower(), draft.options[-1].lower()) == ("yes", "no")
    sides = two_sides(question, choices=False) if is_closed else None
    return f"question: {question}\nyes: {sides[0]}\nno: {sides[1]}" if sides else None


_SIDES = Step(
    "sides",
    "survey_statements",
    lambda draft: {"question": shown(draft)},
    _read_survey,
    _survey_by_rule,
    usual=lambda _: (
        "question: Should the city close its old town to cars?\nyes: The city should close it.\nno: It should not."
    ),
)

STEPS = (FILTER_STEP, _SIDES)
