"""What every judge promises: how likely is it that a passage supports a perspective?

A judge turns pairs into probabilities, and its id names everything that its answers depend on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from reprlib import repr as shortened
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd

from berdslib.data.records import Passage, Question, check_k, check_run
from berdslib.errors import InputError, known
from berdslib.llm.untrusted import tell_hidden
from berdslib.words import compared_words

# Share of positive labels that the paper reports for its human-labelled pairs (BeRDS v2, Table 4).
PUBLISHED_POSITIVE_SHARE = 0.168
HOW_SURE = ("unsure", "fairly sure", "sure")


class Pair(NamedTuple):
    """One thing to judge: does `passage` support `perspective`, number `pid` of question `qid`?"""

    qid: str
    pid: int
    passage: Passage
    perspective: str


class Judge(Protocol):
    """Estimates how likely each passage supports its perspective; from `threshold` on, the answer is yes."""

    threshold: float

    @property
    def id(self) -> str:
        """Names everything that the answers depend on."""
        ...

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), each from 0 to 1."""
        ...


def short_name(judge_id: str) -> str:
    """Return a judge's id without its settings; a chat model's has an address in them, and goes by its name.

    >>> short_name("overlap(english-stem,title=none)"), short_name("chat(org/toy@http://me:1/v1(max_tokens=9),prompt=a:b)")
    ('overlap', 'chat:org/toy')
    """
    kind, _, settings = judge_id.partition("(")
    model = re.split(r"[@(,]", settings.removeprefix("local("))[0]
    return f"{kind}:{model}" if kind in ("chat", "causal") else kind


class FunctionJudge:
    """A function from pairs to numbers from 0 to 1 as a judge; its answers are never stored, as it may change."""

    threshold = 0.5

    def __init__(self, function: Callable[[Sequence[Pair]], Sequence[float]], name: str | None = None) -> None:
        self._function = function
        self.id = name or str(getattr(function, "__name__", type(function).__name__))

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return what the function says of each pair, float64 (n,)."""
        return probabilities(self._function(pairs), len(pairs), self.id)


def probabilities(answers: object, n: int, judge: str, *, missing: bool = False) -> np.ndarray:
    """Return what a judge answered to n pairs as float64 (n,), each from 0 to 1, or NaN where some may be `missing`."""
    try:
        if (found := np.asarray(answers)).dtype.kind in "cmM":
            raise TypeError  # a complex number or a date would be cut to one
        p_yes = found.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        p_yes = np.empty(0)
    if p_yes.shape != (n,) or not ((p_yes >= 0) & (p_yes <= 1) | missing & np.isnan(p_yes)).all():
        raise InputError(f"judge {judge!r} must return {n} probabilities from 0 to 1, not {shortened(answers)}")
    return p_yes


class EachByItself:
    """A judge whose answers may fail one by one: those to the other pairs, often paid for, are not lost.

    It is ``proven`` where answers of it were read before, so that others are unread for what is in the pair.
    """

    proven = False

    def try_first(self, _: Sequence[Pair], /) -> bool:
        """Find out on some of the pairs how the judge can be asked, if nobody knows; return whether its id changed."""
        return False

    def p_yes_each(self, pairs: Sequence[Pair]) -> tuple[np.ndarray, BaseException | None]:
        """Return float64 (n,), NaN where there is no answer; and what went wrong, if more than answers to be read."""
        raise NotImplementedError

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), NaN where a pair is unread, or raise what :meth:`p_yes_each` returns."""
        p_yes, problem = self.p_yes_each(pairs)
        if problem is not None:
            raise problem
        return p_yes


def document_text(passage: Passage, title_position: str) -> str:
    """Return what a judge reads: the text with its title "before", "after" or "none" (divergences.md B6).

    >>> document_text(Passage("d", "Text.", "Title"), "after")
    'Text. Title'
    """
    known("title position", title_position, ("before", "after", "none"))
    if not passage.title or title_position == "none":
        return passage.text
    parts = (passage.title, passage.text) if title_position == "before" else (passage.text, passage.title)
    return " ".join(parts)


def contains_perspective(passage: Passage, perspective: str) -> bool:
    r"""Return whether a passage holds a perspective's own words: a judge says yes to that, whatever the rest says.

    Case, width, punctuation and line breaks do not count, and a perspective of fewer than three words never does.

    >>> contains_perspective(Passage("d", "It is FALSE that zoos\nshould close, I think."), "Zoos should close.")
    True
    """
    said = _words(perspective)
    # A label of one or two words ("The Movie") stands in many passages that copy nothing.
    return said.count(" ") > 3 and said in _words(passage.full_text)


def _words(text: str) -> str:
    return f" {' '.join(compared_words(text))} "


def pairs_of(run: pd.DataFrame, questions: Sequence[Question], passages: Mapping[str, Passage], k: int) -> list[Pair]:
    """Return the pairs to judge in the top k of a run: each passage with each perspective of its question, if asked.

    A warning names the passages that hold hidden characters.
    """
    check_k(k)
    run, by_qid = check_run(run), {q.qid: q for q in questions}
    top = run[(run["rank"] <= k) & run["qid"].isin(list(by_qid))]
    unknown = [d for d in top["docno"] if d not in passages]
    if unknown:
        raise InputError(f"the run lists passage {unknown[0]!r}, which is not in the corpus")
    tell_hidden({docno: passages[docno].full_text for docno in top["docno"]})
    return [
        Pair(qid, pid, passages[docno], perspective)
        for qid, docno in zip(top["qid"], top["docno"], strict=True)
        for pid, perspective in enumerate(by_qid[qid].perspectives)
    ]


def threshold_at_half(p_yes: np.ndarray, threshold: float) -> np.ndarray:
    """Stretch probabilities in two straight pieces so that `threshold` becomes 0.5; 0 and 1 stay.

    >>> threshold_at_half(np.array([0.0, 0.2, 0.4, 0.7, 1.0]), 0.4).round(2).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    return np.interp(p_yes, [0.0, threshold, 1.0], [0.0, 0.5, 1.0])


def how_sure(p_yes: np.ndarray, threshold: float) -> np.ndarray:
    """Return "unsure", "fairly sure" or "sure" for each probability: its third of the way from threshold to 0 or 1.

    >>> how_sure(np.array([0.01, 0.18, 0.25, 0.95]), 0.21).tolist()
    ['sure', 'unsure', 'unsure', 'sure']
    """
    away = 2 * np.abs(threshold_at_half(np.asarray(p_yes, dtype=np.float64), threshold) - 0.5)
    return np.array(HOW_SURE)[np.minimum((3 * away).astype(int), 2)]
