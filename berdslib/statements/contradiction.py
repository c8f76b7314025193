"""A rule that decides whether two English statements contradict each other, or reports that it cannot tell."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache
from typing import Any, NamedTuple

from berdslib.statements.grammar import listed, listed_pairs
from berdslib.words import IN_WORD

_PREFIXES = ("un", "in", "im", "il", "ir", "dis", "non", "anti")
_NEGATIONS, _LITTLE, _OF_MANY, _OF_SOME = map(listed, ("negations", "little", "of_many", "of_some"))
_DENIED = re.compile(r"^it is (?:(?:not|un)\s?(?:true|the case|so)|false|wrong to say) that ")
_CONFIRMED = re.compile(r"^(?:it is (?:true|the case)|there is no doubt|no doubt) that ")
# Negations that do not deny the statement itself ("not only"), or deny nothing ("no doubt").
_UNCLEAR = re.compile(r"\bnot (?:only|just|merely|simply|necessarily)\b|\bor not\b|\bno (?:doubt|matter)\b")
_WORD = re.compile(rf"{IN_WORD}+(?:[-.]{IN_WORD}+)*")


def same_text(text: str) -> str:
    """Return a text normalised: texts that differ only in case, punctuation, white space or Unicode form become equal.

    >>> same_text("Zoos  should close!") == same_text("zoos should close")
    True
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(" " if _is_punctuation(letter) else letter for letter in plain).split())


def _is_punctuation(letter: str) -> bool:
    return unicodedata.category(letter).startswith("P") and letter not in "#%&@"  # C and C# are different answers


def contradict(first: str, second: str) -> bool | None:
    """Return whether two English statements contradict each other; None if the rule cannot tell.

    They contradict each other if they differ only in one negation, in a pair of opposites, or in the order of the two
    sides of a comparison. They do not if they are the same, or if two such differences cancel out. The other words are
    compared by their stems, in order.

    >>> contradict("Zoos should close.", "Zoos should not close.")
    True
    >>> contradict("Zoos should be banned.", "Zoos should not be allowed.")
    False
    >>> contradict("Zoos should close.", "Zoos protect rare animals.") is None
    True
    >>> contradict("Some zoos are cruel.", "Some zoos are not cruel.") is None
    True
    """
    a, b = _claim(first), _claim(second)
    if a is None or b is None:
        return None
    if a.words == b.words:
        return _by_negation(a, b)
    if len(a.negations) > 1 or len(b.negations) > 1:
        return None
    if _is_swapped(a.words, b.words) or _is_one_opposite(a.words, b.words):
        turned = next(i for i, (x, y) in enumerate(zip(a.words, b.words, strict=True)) if x != y)
        return len(a.negations) == len(b.negations) and _of_all(a, turned)
    return None


class _Claim(NamedTuple):
    """A statement as the rule compares it.

    ``words`` are the stems of its words, without negations and function words. ``negations`` are the indexes of the
    words that a negation precedes; -1 denies the whole statement. ``some`` are the indexes from which on a negation
    does not exclude the statement: those of quantifiers such as "many", and -1 for "some".
    """

    words: tuple[str, ...]
    negations: tuple[int, ...]
    some: tuple[int, ...]


def _claim(statement: str) -> _Claim | None:
    text = _spelled_out(statement)
    denied = _DENIED.search(text) is not None
    text = _CONFIRMED.sub("", _DENIED.sub("", text))
    words: list[str] = []
    negations: list[int] = []
    some: list[int] = []
    for word in _WORD.findall(text):
        if word in _NEGATIONS:
            negations.append(len(words))
        elif word not in _LITTLE:
            if word in _OF_SOME:
                some.append(-1)
            elif word in _OF_MANY:
                some.append(len(words))
            words.append(stem(word))
    if not words or _UNCLEAR.search(text) or (denied and len(negations) > 1):
        return None
    if denied:  # "It is not true that zoos should not close": the two negations cancel out
        negations = [] if negations else [-1]
    return _Claim(tuple(words), tuple(negations), tuple(some))


def _spelled_out(text: str) -> str:
    """Return a text in lower case, with contractions such as "can't" spelled out and without "'s"."""
    text = " ".join(unicodedata.normalize("NFKC", text).casefold().replace("’", "'").split())
    for short, long in (("can't", "can not"), ("cannot", "can not"), ("won't", "will not"), ("n't", " not")):
        text = text.replace(short, long)
    return re.sub(r"'s\b", "", text)


def _by_negation(a: _Claim, b: _Claim) -> bool | None:
    """Return whether two claims with the same words contradict each other; None if that is unclear."""
    if a.negations == b.negations:
        return False
    counts = sorted((len(a.negations), len(b.negations)))
    if counts == [0, 1]:
        return _of_all(a, *a.negations, *b.negations)
    if counts == [1, 1] and -1 in (*a.negations, *b.negations):
        return False
    return None  # "people who do not smoke should pay", "people who smoke should not pay"


def _of_all(claim: _Claim, at: int) -> bool | None:
    """Return True if a negation at word `at` excludes the claim; None if the claim may still hold in some cases."""
    return None if any(some < at for some in claim.some) else True


def _is_swapped(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Return whether b is the comparison a with its sides swapped: "more harm than good", "more good than harm"."""
    if "than" not in a or Counter(a) != Counter(b):
        return False
    left, right = (Counter(words[: words.index("than")]) for words in (a, b))
    return bool(left - right) and bool(right - left)


def _is_one_opposite(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Return whether two claims differ in exactly one word, and the two words are opposites."""
    if len(a) != len(b):
        return False
    unlike = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
    return len(unlike) == 1 and are_opposites(*unlike[0])


def are_opposites(first: str, second: str) -> bool:
    """Return whether two stems are opposites: a listed pair, or one is the other with a prefix such as "un"."""
    short, long = sorted((first, second), key=len)
    return second in _opposites().get(first, ()) or (len(short) > 3 and long in {p + short for p in _PREFIXES})


@cache
def _opposites() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for pair in listed_pairs("antonyms"):
        one, other = map(stem, pair)
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    return found


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")


def stem(word: str) -> str:
    """Return the Snowball stem of an English word.

    >>> stem("banning"), stem("banned")
    ('ban', 'ban')
    """
    return str(_stemmer().stemWord(word))


@cache
def stop_words() -> frozenset[str]:
    """Return the extended list of English stop words of bm25s."""
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    return frozenset(STOPWORDS_EN_PLUS)
