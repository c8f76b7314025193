"""Automatic checks of a generated question and its perspectives; the rules accept any case they cannot decide.

People judge whether a question is good; see :mod:`berdslib.construction.review`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from berdslib.construction.questions import asks_yes_or_no, phrases
from berdslib.errors import printable
from berdslib.llm.untrusted import defuse_tag
from berdslib.statements.contradiction import contradict, same_text, stem, stop_words

# The longest published development question has 38 words, the longest statement 67.
MOST_WORDS_OF_QUESTION = 60
MOST_WORDS_OF_STATEMENT = 100
MOST_STATEMENTS = 30  # published: 15
# Limits on new words in a statement; a paraphrase replaces about a third of the words that carry meaning.
NEW_WORDS = 3
NEW_SHARE = 0.6

_VERBS = "is|are|was|were|do|does|did|has|have|had|should|would|will|can|could|must"
# A question mark or a new line ends a sentence; a full stop does unless it belongs to an abbreviation; an exclamation
# mark does if a question follows, but not within a name ("Yahoo! Answers"). The lookbehind covers only four letters:
# an unbounded pattern takes hours for a megabyte.
_SENTENCE_END = re.compile(
    rf"""\?\s+\S | (?<=[^\W\d_]{{4}})\.\s+[A-Z] | \n\s*\S
    | (?<=[^\W\d_]{{4}})!\s+(?=(?i:{_VERBS}|what|which|who|whose|why|how|when|where)\b)[A-Z]""",
    re.VERBOSE,
)
_LEADING = phrases("leading", VERBS=_VERBS)
# Quoted words are mentioned, not asserted.
_QUOTED = re.compile(r"\"[^\"]*\"|“[^“”]*”|‘[^‘’]*’(?!\w)|(?<!\w)'[^']*'(?!\w)")
_REFUSAL = phrases("refusal")
# Tags that prompts put around texts, and characters without width that turn the direction of writing or hide in words.
_TAGS = ("question", "statement", "answers", "argument", "document", "first", "second", "options")
_UNSEEN = re.compile("[\u061c\u200b\u200e\u200f\ufeff\ufffd]")
# Words that no sentence ends with; "of" may end one ("to be proud of."), but not without a full stop.
_GOES_ON = re.compile(r"(?:\b(?:because|and|or|the|an?|of(?!\W*[.!?]))|,)\W*$", re.IGNORECASE)
# "No, it should not" says what "It should not" says.
_ANSWERED = re.compile(r"^no,\s+(?=.*\bnot\b|.*n['’]t\b)", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w-]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class Problem(NamedTuple):
    """A problem of an item: a short ``reason`` and the ``detail`` for this item."""

    reason: str
    detail: str


def problems_of(question: str, perspectives: Sequence[str], *, sources: Sequence[str] = ()) -> list[Problem]:
    """Return the problems of a generated question and its statements; an empty list if no rule is sure.

    Names, numbers and words count as new only against `sources`, the texts that the item was generated from.

    >>> problems_of("Should zoos close?", ["Zoos should close.", "Zoos should not close."])
    []
    >>> [p.reason for p in problems_of("Shouldn't zoos close?", ["Zoos should close.", "Zoos must close."])]
    ['leading', 'no contradiction']
    """
    found = [*_of_question(question.strip(), sources)]
    n = len(perspectives)
    if not 2 <= n <= MOST_STATEMENTS:
        there = "is 1" if n == 1 else f"are {n}"
        found.append(Problem("number of statements", f"there {there}; from 2 to {MOST_STATEMENTS} are expected"))
    if n <= MOST_STATEMENTS:  # a longer list is rejected anyway, and checking it could take long
        found += [*_of_statements(perspectives), *_of_both(question, perspectives, sources)]
    return found


# ---------------------------------------------------------------- the question


def _of_question(text: str, sources: Sequence[str]) -> Iterator[Problem]:
    yield from _of_any(text, "the question", MOST_WORDS_OF_QUESTION)
    if _is_blank(text):
        return
    if not text.rstrip("\"'”’») ").endswith(("?", "？", "؟", "\u037e")):
        yield Problem("not a question", f"it ends in {text[-20:]!r}")
    elif any(_is_part(text, source) for source in sources):
        yield Problem("copied", "it is a part of a source")
    if ends := _GOES_ON.search(text.rstrip("?\"'”’») ")[-20:]):
        yield Problem("cut off", f"the question ends in {ends[0]!r}")
    if found := _SENTENCE_END.search(text):
        yield Problem("several sentences", f"a second one begins at {text[found.end() - 1 :][:20]!r}")
    if found := _LEADING.search(_QUOTED.sub('""', text).replace("’", "'")):
        yield Problem("leading", f"by {found[0]!r}")


def _of_any(text: str, which: str, most_words: int) -> Iterator[Problem]:
    """Yield the problems that any generated text can have."""
    if _is_blank(text):
        yield Problem("blank", which)
        return
    if printable(text) != text or _UNSEEN.search(text) or defuse_tag(text, *_TAGS) != text:
        yield Problem("odd characters", f"in {which}")
    if found := _REFUSAL.search(text):
        yield Problem("refusal", f"{which} says {found[0]!r}")
    if (words := len(text.split())) > most_words:
        yield Problem("too long", f"{which} has {words} words; at most {most_words} are expected")


def _is_part(question: str, source: str) -> bool:
    """Return whether a source contains the question among other text; a source that is only the question passes."""
    asked = same_text(question)
    whole = same_text(source)
    return asked != whole and f" {asked} " in f" {whole} "


# ---------------------------------------------------------------- the statements


def _of_statements(statements: Sequence[str]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    twice: list[Problem] = []
    for number, statement in enumerate(statements, start=1):
        yield from _of_any(statement.strip(), f"statement {number}", MOST_WORDS_OF_STATEMENT)
        before = first.setdefault(same_text(_ANSWERED.sub("", statement.strip())), number)
        if before != number and not _is_blank(statement):
            twice.append(Problem("same statement", f"statements {before} and {number}"))
    yield from twice
    if len(statements) == 2 and not twice and contradict(*statements) is False:
        yield Problem("no contradiction", "they differ in nothing that turns one into the opposite of the other")


# ---------------------------------------------------------------- both


def _of_both(question: str, statements: Sequence[str], sources: Sequence[str]) -> Iterator[Problem]:
    known = [question, *sources]
    asked = _stems(question)
    stems = _stems(" ".join(known))
    numbers = _NUMBER.findall(" ".join(known))
    is_closed = asks_yes_or_no(question)
    for number, statement in enumerate(statements, start=1):
        if cut := _cut_off(statement, [*known, *statements[: number - 1], *statements[number:]]):
            yield Problem("cut off", f"statement {number} begins with {cut!r}")
            continue
        if ends := _GOES_ON.search(statement[-20:]):
            yield Problem("cut off", f"statement {number} ends in {ends[0]!r}")
        own = _stems(statement)
        if _is_too_short(statement, len(own & asked)):
            yield Problem("too short", f"statement {number} is {statement.strip()!r}")
        new = own - stems
        facts = [name for name in _names(statement) if _stems(name) & new]
        facts += [n for n in _NUMBER.findall(statement) if n not in numbers]
        if is_closed and len(statements) == 2 and own and not own & (asked | _stems(statements[2 - number])):
            yield Problem("off topic", f"no word of statement {number} is in the question or the other statement")
        elif facts and sources:
            yield Problem("something new", f"statement {number} has {', '.join(map(repr, facts))}")
        elif len(new) >= NEW_WORDS and len(new) > NEW_SHARE * len(own) and (sources or is_closed):
            yield Problem("something new", f"{len(new)} of {len(own)} words of statement {number}")


def _names(statement: str) -> list[str]:
    """Return the capitalised words within a sentence; an empty list for a headline, which capitalises most words."""
    words = _WORD.findall(statement)
    capitals = sum(word[0].isupper() for word in words)
    return [] if 2 * capitals > len(words) else _NAME.findall(statement)


def _cut_off(statement: str, others: Sequence[str]) -> str | None:
    """Return the first word of a statement if it occurs in the other texts only as the end of a longer word."""
    found = _WORD.match(statement)
    if not found or not found[0][0].islower():
        return None
    words = {word for text in others for word in _plain_words(text)}
    torn = found[0] not in words and any(word.endswith(found[0]) for word in words)
    return found[0] if torn else None


def _is_too_short(statement: str, asked: int) -> bool:
    """Return whether a statement is too short; `asked` is the number of its words in the question ("Ghosts exist.")."""
    words = len(statement.split())
    is_cased = all(letter.lower() != letter.upper() for letter in statement if letter.isalpha())
    return is_cased and not _is_blank(statement) and words < 3 and not words == asked == 2


def _is_blank(text: str) -> bool:
    return not any(letter.isalnum() for letter in text)


def _plain_words(text: str) -> list[str]:
    return _WORD.findall(text.casefold().replace("’", "'"))


def _stems(text: str) -> set[str]:
    return {stem(word.removesuffix("'s")) for word in _plain_words(text) if word not in stop_words()}
