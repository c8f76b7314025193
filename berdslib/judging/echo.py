"""A judge that ignores echoes: sentences that only repeat the perspective argue nothing, but make judges say yes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from berdslib.judging.base import ECHO, Judge, Pair, is_blank
from berdslib.llm.untrusted import without_hidden
from berdslib.retrieval.bm25 import analyser
from berdslib.words import SINGLE_WORD, compared_words

_HELD = 0.8  # smallest share of the perspective's content words that an echo contains
_LONGER = 1.6  # at most this many content words in an echo for each content word of the perspective
_MORE = 2  # and at most this many more
# Many passages contain a label of one or two words ("The Movie") without copying it: an echo is only the label.
_FEWEST_WORDS = 3
_JOINED = rf"(?!{SINGLE_WORD})[^\W_]"  # a letter or digit that forms a word with its neighbour
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?:;])\s+|\s*\n\s*|(?<=[。！？])")


class Echo:
    """Passes passages to another judge without echoes of the perspective; the answers are stored under that judge."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.threshold = judge.threshold

    @property
    def id(self) -> str:
        """Name the version of the rule, and the judge."""
        return f"{ECHO}{self.judge.id}"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return the judge's answers about the rest of each passage, float64 (n,); 0 if nothing is left."""
        left = [without_echo(pair) for pair in pairs]
        asked = [i for i, pair in enumerate(left) if not is_blank(pair)]
        p_yes = np.zeros(len(pairs))
        p_yes[asked] = self.judge.p_yes([left[i] for i in asked])
        return p_yes


def without_echo(pair: Pair) -> Pair:
    """Remove each sentence that echoes the perspective from passage and title, and its copies within other sentences.

    >>> from berdslib.data.records import Passage
    >>> passage = Passage("d", "It is true that zoos should close. They are small.")
    >>> without_echo(Pair("q", 0, passage, "Zoos should close")).passage.text
    'They are small.'
    """
    words = compared_words(pair.perspective)
    if not words:
        return pair
    is_label = len(words) < _FEWEST_WORDS
    # The words are case-folded, so they contain no ß, which `re` does not match with another case.
    verbatim = r"[\W_]*".join(map(re.escape, words)).replace("ss", "(?:ss|ß)")
    times = "{2,}" if is_label else "+"
    copies = re.compile(rf"(?:(?<!{_JOINED}){verbatim}(?!{_JOINED})[^\w\n]*){times}", re.IGNORECASE)
    wanted = _content_words(pair.perspective)
    most = len(wanted) if is_label else _LONGER * len(wanted) + _MORE
    text = _struck(pair.passage.text, copies, wanted, most)
    title = _struck(pair.passage.title, copies, wanted, most)
    return pair._replace(passage=pair.passage._replace(text=text, title=title))


def _struck(text: str, copies: re.Pattern[str], wanted: frozenset[str], most: float) -> str:
    """Return a text without echoes, unchanged if it has no echo; hidden characters and letter widths are ignored."""
    plain = unicodedata.normalize("NFKC", without_hidden(text))
    whole = "\n".join(_BETWEEN_SENTENCES.split(plain))
    left = whole
    before = ""
    while left != before:  # repeat: the words around a removed copy may form another copy
        before = left
        kept = [sentence for sentence in left.split("\n") if not _is_echo(sentence, wanted, most)]
        left = copies.sub(" ", "\n".join(kept))
    return text if left == whole else " ".join(left.split())


def _is_echo(sentence: str, wanted: frozenset[str], most: float) -> bool:
    words = _content_words(sentence)
    return 0 < _HELD * len(wanted) <= len(wanted & words) and len(words) <= most


@lru_cache(maxsize=100_000)
def _content_words(text: str) -> frozenset[str]:
    return frozenset(analyser("english-stem")(text))
