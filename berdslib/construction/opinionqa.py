"""From survey questions to questions with two sides: a filter, then a question, a yes and a no out of the options.

Source: BeRDS, section 4.1 (OpinionQA) and Table 11.
"""

from __future__ import annotations

import ast
import json
from contextlib import suppress
from pathlib import Path

from berdslib.construction import reading
from berdslib.construction.pipeline import Draft, Rejected, Rejection, Step, key_of
from berdslib.construction.questions import as_typed, phrases
from berdslib.data.records import OPPOSE, SUPPORT
from berdslib.data.tables import Row, is_missing, read_table
from berdslib.errors import InputError
from berdslib.statements.negation import yes_and_no

PERSONAL, FEW_OPTIONS = "personal experience", "fewer than two options"
# Ways of not answering, which surveys list beside the answers.
_NO_ANSWER = {"refused", "don't know", "dont know", "not sure", "no answer", "skipped", "na", "n/a", "does not apply"}


def read_survey(path: Path) -> tuple[list[Draft], list[Rejection]]:
    """Read survey questions from a table as OpinionQA's `info.csv`: key, question, options in `references`.

    Ways of not answering ("Refused") are no options (divergences.md B16).
    """
    found: list[Draft] = []
    lines: dict[str, int] = {}
    for line, row in read_table(path):
        key = key_of(row, ("key", "id", "qid"), path, line)
        row.check_new(lines, key, repr(key), "key")
        options = tuple(one for one in _options(row) if one.lower().strip(".") not in _NO_ANSWER)
        text = " ".join(row.text("question").split())
        found.append(Draft(key, f"{path.name}:{line}", sources=(text,), options=options))
    if not found:
        raise InputError("holds no questions", path=path)
    few = [d for d in found if len(d.options) < 2]
    out = [Rejection(d, "read", FEW_OPTIONS, ", ".join(d.options) or "none") for d in few]
    return [d for d in found if len(d.options) > 1], out


def _options(row: Row) -> list[str]:
    name = next((n for n in ("references", "options") if not is_missing(row.get(n))), None)
    if name is None:
        raise row.wrong(None, "the options are missing; they are looked for in references, options")
    value = row[name]
    # A list written as JSON or, as in OpinionQA's own files, as Python writes it.
    for read in (json.loads, ast.literal_eval) if isinstance(value, str) else ():
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            value = read(row[name])
            break
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise row.wrong(name, "a list of texts was expected")
    return [" ".join(one.split()) for one in value if one.strip()]


def shown(draft: Draft) -> str:
    """Return a survey question with its options behind it, as the prompts show it."""
    return f"{draft.sources[0]} {json.dumps(list(draft.options), ensure_ascii=False)}"


# ---------------------------------------------------------------- the filter


def _read_personal(draft: Draft, answer: str) -> Draft:
    if reading.choice(answer, {"yes": ["yes"], "no": ["no"]}) == "yes":
        raise Rejected(PERSONAL, draft.sources[0])
    return draft


_LIFE, _MIND = phrases("life"), phrases("mind")


def _personal_by_rule(draft: Draft) -> str | None:
    life, mind = (found.search(draft.sources[0]) is not None for found in (_LIFE, _MIND))
    return None if life == mind else "Yes" if life else "No"


FILTER = Step(
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
    """A question that is answered with yes or no needs no conversion."""
    question, ends = draft.sources[0], (draft.options[0].lower(), draft.options[-1].lower())
    said = yes_and_no(question) if ends == ("yes", "no") else None
    return None if said is None else f"question: {question}\nyes: {said[0]}\nno: {said[1]}"


SIDES = Step(
    "sides",
    "survey_statements",
    lambda draft: {"question": shown(draft)},
    _read_survey,
    _survey_by_rule,
    usual=lambda _: (
        "question: Should the city close its old town to cars?\nyes: The city should close it.\nno: It should not."
    ),
)

STEPS = (FILTER, SIDES)
