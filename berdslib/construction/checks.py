"""Checks of a made question with its perspectives, by rules that let pass what they cannot judge.

They find what goes wrong when a model writes: the same statement twice, a question that leads, a fact out of nowhere.
Whether a question is good, people have to say; see :mod:`berdslib.construction.review`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

from berdslib.construction.opposites import contradict, same_text, stem
from berdslib.data.records import Question

REASONS: Mapping[str, str] = {
    "blank": "The question or a statement holds no letter and no digit.",
    "too long": "The question or a statement is longer than one sentence of its kind is.",
    "not a question": "The question does not end in a question mark.",
    "several sentences": "More than the question is asked, or something is said before it.",
    "copied": "The question stands word for word in a longer source.",
    "leading": "The question tells what to answer.",
    "number of statements": "There are too few statements for two perspectives, or too many to be perspectives.",
    "same statement": "Two statements differ in case and punctuation at most.",
    "no contradiction": "The two statements, the only ones, say the same or can both be true.",
    "cut off": "A statement begins in the middle of a word.",
    "something new": "A statement holds a name, a number or many words that neither the question nor the sources have.",
}

# Of the published development questions the longest have 38 words (a statement: 67).
MOST_WORDS_OF_QUESTION, MOST_WORDS_OF_STATEMENT = 60, 100
MOST_STATEMENTS = 30  # published: 15
# How much of a statement may be new: a paraphrase replaces about a third of the words that carry meaning.
NEW_WORDS, NEW_SHARE = 3, 0.6

_SENTENCE_END = re.compile(r"\?\s+\S|[^\W\d_]{4,}[.!]\s+[A-Z]|\n\s*\S")
_VERBS = "is|are|was|were|do|does|did|has|have|had|should|would|will|can|could|must"
_LEADING = re.compile(
    rf"""^(?:but\s|so\s|and\s)?(?:{_VERBS}|wo|ca)n't\b  # "Isn't it"; "can't" is "ca" and "n't"
    | ^(?:{_VERBS})\s(?:it|you|we|they|everyone|anyone)\snot\b
    | ,\s(?:(?:{_VERBS}|wo|ca)n't\s\w+(?:\s\w+)?|(?:is|are|do|does)\s(?:it|they|we|you)|right|no)\s*\?$  # ", right?"
    | \b(?:you|we\sall|everyone|nobody|one)\s(?:must|has\sto|have\sto|would\shave\sto)\s(?:agree|admit|concede)\b
    | \b(?:surely|obviously|undeniably|undoubtedly|unquestionably|indisputably|self-evidently|finally)\b
    | \b(?:of\scourse|needless\sto\ssay|(?:everyone|as\swe\sall)\sknows?|any\s(?:sane|reasonable)\sperson)\b
    | \b(?:clearly|plainly|outright|simply)\s(?:wrong|right|better|worse|harmful|false|true|immoral|unfair|unjust)\b
    | \bhow\s(?:can|could)\s(?:anyone|anybody|you|we)\s(?:still|possibly|seriously|ever|deny|justify|defend)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w-]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class Problem(NamedTuple):
    """What is wrong with an item: ``reason``, a key of :data:`REASONS`, and the ``detail`` of this item."""

    reason: str
    detail: str


def problems_of(question: str, perspectives: Sequence[str], *, sources: Sequence[str] = ()) -> list[Problem]:
    """Return what is wrong with a made question and its statements; nothing where no rule is sure.

    Args:
        question: one question.
        perspectives: a statement for each perspective.
        sources: the texts that they are made of; without any, only the question says what is new.

    >>> problems_of("Should zoos close?", ["Zoos should close.", "Zoos should not close."])
    []
    >>> [p.reason for p in problems_of("Shouldn't zoos close?", ["Zoos should close.", "Zoos must close."])]
    ['leading', 'no contradiction']
    """
    return [*_of_question(question, sources), *_of_statements(perspectives), *_new(question, perspectives, sources)]


def duplicates(questions: Sequence[Question]) -> list[list[str]]:
    """Return groups of ids whose questions are the same in all but case and punctuation, in the order of `questions`.

    >>> duplicates([Question("a", "Ban cars?"), Question("b", "Ban bikes?"), Question("c", "ban cars")])
    [['a', 'c']]
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for question in questions:
        groups[same_text(question.text)].append(question.qid)
    return [qids for qids in groups.values() if len(qids) > 1]


# ---------------------------------------------------------------- the question


def _of_question(question: str, sources: Sequence[str]) -> Iterator[Problem]:
    text = question.strip()
    if _is_blank(text):
        yield Problem("blank", "the question")
        return
    if (words := len(text.split())) > MOST_WORDS_OF_QUESTION:
        yield Problem("too long", f"the question has {words} words; at most {MOST_WORDS_OF_QUESTION} are expected")
    if not text.rstrip("\"'”’») ").endswith(("?", "？", "؟", "\u037e")):
        yield Problem("not a question", f"it ends in {text[-20:]!r}")
    elif any(_is_part(text, source) for source in sources):
        yield Problem("copied", "it is a part of a source")
    if found := _SENTENCE_END.search(text):
        yield Problem("several sentences", f"a second one begins at {text[found.end() - 1 :][:20]!r}")
    if found := _LEADING.search(text.replace("’", "'")):
        yield Problem("leading", f"by {found[0]!r}")


def _is_part(question: str, source: str) -> bool:
    """Say whether a source holds a question and more; one that is nothing else was meant to be asked."""
    asked, whole = same_text(question), same_text(source)
    return asked != whole and f" {asked} " in f" {whole} "


# ---------------------------------------------------------------- the statements


def _of_statements(statements: Sequence[str]) -> Iterator[Problem]:
    if not 2 <= len(statements) <= MOST_STATEMENTS:
        wanted = f"from 2 to {MOST_STATEMENTS} are expected"
        yield Problem(
            "number of statements", f"there {'is 1' if len(statements) == 1 else f'are {len(statements)}'}; {wanted}"
        )
    for number, statement in enumerate(statements, start=1):
        if _is_blank(statement):
            yield Problem("blank", f"statement {number}")
        elif (words := len(statement.split())) > MOST_WORDS_OF_STATEMENT:
            detail = f"statement {number} has {words} words; at most {MOST_WORDS_OF_STATEMENT} are expected"
            yield Problem("too long", detail)
    said = [(number, same_text(s)) for number, s in enumerate(statements, start=1) if not _is_blank(s)]
    twice = [(i, j) for (i, one), (j, other) in combinations(said, 2) if one == other]
    yield from (Problem("same statement", f"statements {i} and {j}") for i, j in twice)
    if len(statements) == 2 and not twice and contradict(*statements) is False:
        yield Problem("no contradiction", "they differ in nothing that turns one into the opposite of the other")


def _new(question: str, statements: Sequence[str], sources: Sequence[str]) -> Iterator[Problem]:
    known = [question, *sources]
    stems, numbers = _stems(" ".join(known)), set(_NUMBER.findall(" ".join(known)))
    for number, statement in enumerate(statements, start=1):
        others = [*known, *statements[: number - 1], *statements[number:]]
        if cut := _cut_off(statement, others):
            yield Problem("cut off", f"statement {number} begins with {cut!r}")
            continue
        own = _stems(statement)
        new = own - stems
        facts = [name for name in _names(statement) if _stems(name) & new]
        facts += [n for n in _NUMBER.findall(statement) if n not in numbers]
        if facts:
            yield Problem("something new", f"statement {number} has {', '.join(map(repr, facts))}")
        elif len(new) >= NEW_WORDS and len(new) > NEW_SHARE * len(own):
            yield Problem("something new", f"{len(new)} of {len(own)} words of statement {number}")


def _names(statement: str) -> list[str]:
    """Return the words with a capital within a sentence; of a headline, where most have one, none."""
    words = _WORD.findall(statement)
    capitals = sum(word[0].isupper() for word in words)
    return [] if 2 * capitals > len(words) else _NAME.findall(statement)


def _cut_off(statement: str, others: Sequence[str]) -> str | None:
    """Return the first word of a statement if it is the end of a longer word that others have where it has none."""
    found = _WORD.match(statement)
    if not found or not found[0][0].islower():
        return None
    words = {word for text in others for word in _plain_words(text)}
    torn = found[0] not in words and any(word.endswith(found[0]) for word in words)
    return found[0] if torn else None


def _is_blank(text: str) -> bool:
    return not any(letter.isalnum() for letter in text)


def _plain_words(text: str) -> list[str]:
    return _WORD.findall(text.casefold().replace("’", "'"))


def _stems(text: str) -> set[str]:
    return {stem(word.removesuffix("'s")) for word in _plain_words(text) if word not in _stop_words()}


@cache
def _stop_words() -> frozenset[str]:
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    return frozenset(STOPWORDS_EN_PLUS)
