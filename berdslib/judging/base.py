"""The interface of a judge: it estimates how likely a passage supports a perspective.

A judge maps pairs to probabilities. Its id names everything that its answers depend on.
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
ECHO = "echo1:"  # start of the id of a judge that ignores echoes, with the version of the rule
HOW_SURE = ("unsure", "fairly sure", "sure")


class Pair(NamedTuple):
    """A pair to judge: does `passage` support `perspective`, number `pid` of question `qid`?"""

    qid: str
    pid: int
    passage: Passage
    perspective: str


class Judge(Protocol):
    """Estimates how likely each passage supports its perspective; `threshold` and above count as yes."""

    threshold: float

    @property
    def id(self) -> str:
        """Name everything that the answers depend on."""
        ...

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), each from 0 to 1."""
        ...


def short_name(judge_id: str) -> str:
    """Return a judge's id without its settings; a judge that asks a model keeps the model's name, without an address.

    A refitted judge keeps the name of the judge it was fitted to, as in "refit(laptop)".

    >>> short_name("overlap(english-stem,title=none)"), short_name("chat(org/toy@http://me:1/v1(max_tokens=9),prompt=a:b)")
    ('overlap', 'chat:org/toy')
    """
    if judge_id.startswith(ECHO):
        return ECHO + short_name(judge_id.removeprefix(ECHO))
    kind, _, settings = judge_id.partition("(")
    if kind == "refit":  # of what was fitted, and the judge's own id
        return f"refit({short_name(settings.partition(',')[2].removesuffix(')'))})"
    model = re.split(r"[@(,]", settings.removeprefix("local("))[0]
    return f"{kind}:{model}" if kind in ("chat", "causal", "decide") else kind


class FunctionJudge:
    """A judge made of a function from pairs to numbers from 0 to 1. Its answers are not stored: functions change."""

    threshold = 0.5

    def __init__(self, function: Callable[[Sequence[Pair]], Sequence[float]], name: str | None = None) -> None:
        self._function = function
        self.id = name or str(getattr(function, "__name__", type(function).__name__))

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return the function's answers, float64 (n,)."""
        return probabilities(self._function(pairs), len(pairs), self.id)


def probabilities(answers: object, n: int, judge: str, *, missing: bool = False) -> np.ndarray:
    """Check a judge's answers to n pairs; return float64 (n,) from 0 to 1, or NaN where answers may be `missing`."""
    try:
        array = np.asarray(answers)
        if array.dtype.kind in "cmM":
            raise TypeError  # astype would convert complex numbers and dates
        p_yes = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        p_yes = np.empty(0)
    valid = (p_yes >= 0) & (p_yes <= 1) | missing & np.isnan(p_yes)
    if p_yes.shape != (n,) or not valid.all():
        raise InputError(f"judge {judge!r} must return {n} probabilities from 0 to 1, not {shortened(answers)}")
    return p_yes


class EachByItself:
    """A judge that may fail on single pairs; its answers to the others, often paid for, are kept.

    It is ``proven`` after its first readable answer: a later unreadable answer is due to its pair, not to the judge.
    """

    proven = False

    def try_first(self, _: Sequence[Pair], /) -> bool:
        """Test on some of the pairs which requests the judge accepts, if unknown; return whether its id changed."""
        return False

    def p_yes_each(self, pairs: Sequence[Pair]) -> tuple[np.ndarray, BaseException | None]:
        """Return float64 (n,), NaN where an answer is missing, and the error that ended the work, if any."""
        raise NotImplementedError

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), NaN where an answer is unreadable; raise the error that :meth:`p_yes_each` returns."""
        p_yes, problem = self.p_yes_each(pairs)
        if problem is not None:
            raise problem
        return p_yes


def document_text(passage: Passage, title_position: str) -> str:
    """Return a passage's text for a judge, with its title "before", "after" or "none" (divergences.md B6).

    >>> document_text(Passage("d", "Text.", "Title"), "after")
    'Text. Title'
    """
    known("title position", title_position, ("before", "after", "none"))
    if not passage.title or title_position == "none":
        return passage.text
    parts = (passage.title, passage.text) if title_position == "before" else (passage.text, passage.title)
    return " ".join(parts)


def is_blank(pair: Pair) -> bool:
    """Return whether the passage of a pair has no letter or digit: it supports nothing, and is not judged."""
    return re.search(r"[^\W_]", pair.passage.text) is None


def contains_perspective(passage: Passage, perspective: str) -> bool:
    r"""Return whether a passage contains the perspective's words verbatim, which makes judges say yes.

    Case, width, punctuation and line breaks are ignored; False for a perspective of fewer than three words.

    >>> contains_perspective(Passage("d", "It is FALSE that zoos\nshould close, I think."), "Zoos should close.")
    True
    """
    words = _words(perspective)
    # A label of one or two words ("The Movie") occurs in many passages that do not copy it.
    return words.count(" ") > 3 and words in _words(passage.full_text)


def _words(text: str) -> str:
    return f" {' '.join(compared_words(text))} "


def pairs_of(run: pd.DataFrame, questions: Sequence[Question], passages: Mapping[str, Passage], k: int) -> list[Pair]:
    """Return the pairs to judge in the top k of a run: each passage with each perspective of its question.

    Rows of other questions are skipped. A warning names the passages that contain hidden characters.
    """
    check_k(k)
    run = check_run(run)
    by_qid = {question.qid: question for question in questions}
    top = run[(run["rank"] <= k) & run["qid"].isin(list(by_qid))]
    unknown = [docno for docno in top["docno"] if docno not in passages]
    if unknown:
        raise InputError(f"the run lists passage {unknown[0]!r}, which is not in the corpus")
    tell_hidden({docno: passages[docno].full_text for docno in top["docno"]})
    return [
        Pair(qid, pid, passages[docno], perspective)
        for qid, docno in zip(top["qid"], top["docno"], strict=True)
        for pid, perspective in enumerate(by_qid[qid].perspectives)
    ]


def threshold_at_half(p_yes: np.ndarray, threshold: float) -> np.ndarray:
    """Map probabilities piecewise linearly so that `threshold` becomes 0.5; 0 and 1 stay.

    >>> threshold_at_half(np.array([0.0, 0.2, 0.4, 0.7, 1.0]), 0.4).round(2).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    return np.interp(p_yes, [0.0, threshold, 1.0], [0.0, 0.5, 1.0])


def how_sure(p_yes: np.ndarray, threshold: float) -> np.ndarray:
    """Return "unsure", "fairly sure" or "sure" for each probability: a third each of the way from threshold to 0 or 1.

    >>> how_sure(np.array([0.01, 0.18, 0.25, 0.95]), 0.21).tolist()
    ['sure', 'unsure', 'unsure', 'sure']
    """
    centred = threshold_at_half(np.asarray(p_yes, dtype=np.float64), threshold)
    distance = 2 * np.abs(centred - 0.5)
    thirds = np.minimum((3 * distance).astype(int), 2)
    return np.array(HOW_SURE)[thirds]
