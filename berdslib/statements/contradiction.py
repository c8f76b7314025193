"""Whether two statements contradict each other, by a rule that knows when it cannot tell."""

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
# What denies something else than the statement, or nothing.
_UNCLEAR = re.compile(r"\bnot (?:only|just|merely|simply|necessarily)\b|\bor not\b|\bno (?:doubt|matter)\b")
_WORD = re.compile(rf"{IN_WORD}+(?:[-.]{IN_WORD}+)*")


def same_text(text: str) -> str:
    """Return what two texts share that differ in case, punctuation, white space and the form of their letters only.

    >>> same_text("Zoos  should close!") == same_text("zoos should close")
    True
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(" " if _is_punctuation(letter) else letter for letter in plain).split())


def _is_punctuation(letter: str) -> bool:
    return unicodedata.category(letter).startswith("P") and letter not in "#%&@"  # C and C# are two answers


def contradict(first: str, second: str) -> bool | None:
    """Return whether two English statements contradict each other; None where the rule cannot tell.

    They do if they are the same but for one negation, a pair of opposites, or the sides of a comparison; they do not if
    they are the same, or two of these cancel out. The words between are compared by stems, in order.

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
    """The stems of a statement's words but the little ones, and before which a negation stands (-1: the whole)."""

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
            some += [-1] if word in _OF_SOME else [len(words)] if word in _OF_MANY else []
            words.append(stem(word))
    if not words or _UNCLEAR.search(text) or (denied and len(negations) > 1):
        return None
    if denied:  # "It is not true that zoos should not close": the two cancel out
        negations = [] if negations else [-1]
    return _Claim(tuple(words), tuple(negations), tuple(some))


def _spelled_out(text: str) -> str:
    """Return a text in small letters, with "can't" and its kin as two words and without "'s"."""
    text = " ".join(unicodedata.normalize("NFKC", text).casefold().replace("’", "'").split())
    for short, long in (("can't", "can not"), ("cannot", "can not"), ("won't", "will not"), ("n't", " not")):
        text = text.replace(short, long)
    return re.sub(r"'s\b", "", text)


def _by_negation(a: _Claim, b: _Claim) -> bool | None:
    """Compare two claims of the same words."""
    if a.negations == b.negations:
        return False
    counts = sorted((len(a.negations), len(b.negations)))
    if counts == [0, 1]:
        return _of_all(a, *a.negations, *b.negations)
    if counts == [1, 1] and -1 in (*a.negations, *b.negations):
        return False
    return None  # "people who do not smoke should pay", "people who smoke should not pay"


def _of_all(claim: _Claim, at: int) -> bool | None:
    """Say that what is denied at a word is denied of all; None where some of it may still be so."""
    return None if any(some < at for some in claim.some) else True


def _is_swapped(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Say whether b compares what a compares the other way round: "more harm than good", "more good than harm"."""
    if "than" not in a or Counter(a) != Counter(b):
        return False
    left, right = (Counter(words[: words.index("than")]) for words in (a, b))
    return bool(left - right) and bool(right - left)


def _is_one_opposite(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Say whether two claims differ in one word only, and that is replaced by its opposite."""
    if len(a) != len(b):
        return False
    unlike = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
    return len(unlike) == 1 and are_opposites(*unlike[0])


def are_opposites(first: str, second: str) -> bool:
    """Return whether two stems are opposites: listed, or one is the other behind a prefix such as "un"."""
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
    """Return an English word without its ending (Snowball).

    >>> stem("banning"), stem("banned")
    ('ban', 'ban')
    """
    return str(_stemmer().stemWord(word))


@cache
def stop_words() -> frozenset[str]:
    """Return the English words that carry no meaning."""
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    return frozenset(STOPWORDS_EN_PLUS)
