"""What the explorer shows of a question, as plain data that becomes JSON; nothing here draws, searches or judges."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.records import OPPOSE, SUPPORT, Passage, Question
from berdslib.evaluation.sides import lean
from berdslib.files import guarded
from berdslib.judging.base import contains_perspective
from berdslib.retrieval.bm25 import analyser
from berdslib.study.figures.lists import colour_of, ink_on, letter_of

MEANS = {
    "MRecall": "1 if the list shows as many perspectives as its length allows, else 0.",
    "Coverage": "the share of the perspectives that the list shows.",
    "Precision": "the share of the places whose passage argues any perspective.",
    "leaning": "1 where all that is argued supports, -1 where all of it opposes, 0 where both sides are even.",
}
_WORD = re.compile(r"\w+")
_STEMMED = analyser("english-stem")
# What changes the order of what is read, or cannot be seen at all, and belongs to no script.
_DECEIVING = re.compile(
    "[\u00ad\u034f\u115f\u1160\u180e\u200b\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# Scripts need these between their own letters; beside Latin ones they only hide.
_JOINERS = re.compile("(?<=[\0-\x7f])[\u061c\u200c-\u200f]|[\u061c\u200c-\u200f](?=[\0-\x7f])")


class Listing(NamedTuple):
    """What one system lists: ``docnos`` best first, None while it is searching; ``problem`` if there is no list."""

    system: str
    docnos: Sequence[str] | None = None
    problem: str = ""
    note: str = ""


def view_of(
    question: Question,
    lists: Sequence[Listing],
    verdicts: pd.DataFrame | None,
    passages: Mapping[str, Passage],
    k: int,
    *,
    asked: str = "",
    judge: str = "",
    recorded: bool = False,
    searched: str = "",
    longest: int = 0,
) -> dict[str, Any]:
    """Return all that is shown of a question; every text in it may be anybody's and must reach a page as text.

    `verdicts` are None while they are being judged, `asked` is "" for the question itself; of a passage `longest`
    characters are included, 0 for all.
    """
    mine = None if verdicts is None else verdicts[verdicts["qid"] == question.qid]
    supported = None if mine is None else supported_in(mine).get(question.qid, {})
    labelled = set() if mine is None else set(mine["docno"])
    listed = list(dict.fromkeys(docno for one in lists for docno in (one.docnos or ())[:k]))
    words = matched_words(asked or question.text, (passages[docno].full_text for docno in listed))
    return {
        "question": {"qid": question.qid, "text": visible(question.text)},
        "asked": visible(asked),
        "perspectives": perspective_marks(question),
        "judge": visible(judge),
        "recorded": recorded,
        "searched": visible(searched),
        "judged": verdicts is not None,
        "k": k,
        "lists": [_list_view(question, one, lists, supported, labelled, passages, k) for one in lists],
        "words": words,
        "passages": {docno: _passage_view(passages[docno], longest) for docno in listed},
    }


def perspective_marks(question: Question) -> list[dict[str, str]]:
    """Return for each perspective its text, stance ("" where none is recorded), letter, colour, and ink for it."""
    stances = question.stances or (None,) * len(question.perspectives)
    return [
        {
            "text": visible(text),
            "stance": stance or "",
            "letter": letter_of(pid),
            "colour": colour_of(pid),
            "ink": ink_on(colour_of(pid)),
        }
        for pid, (text, stance) in enumerate(zip(question.perspectives, stances, strict=True))
    ]


def visible(text: str) -> str:
    r"""Return a text in which characters that hide or reorder others are written out, as ⟨U+202E⟩.

    >>> visible("pay\u202ello\u200b!")
    'pay⟨U+202E⟩llo⟨U+200B⟩!'
    """
    text = _JOINERS.sub(_code, _DECEIVING.sub(_code, text))
    # Control characters, and halves of surrogate pairs, which no JSON for a browser can carry.
    return "".join(c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs") else _code(c) for c in text)


def _code(character: re.Match[str] | str) -> str:
    return f"⟨U+{ord(character[0]):04X}⟩"


def matched_words(query: str, texts: Iterable[str]) -> list[str]:
    """Return the words of some texts, in lower case, that share their stem with a word of the query; sorted.

    >>> matched_words("Should zoos be closed?", ["The zoo was closing."])
    ['closing', 'zoo']
    """
    stems = set(_STEMMED(query))
    words = {word.lower() for text in texts for word in _WORD.findall(text)}
    return sorted(word for word in words if stems.intersection(_STEMMED(word)))


def supported_in(verdicts: pd.DataFrame) -> dict[str, dict[str, list[int]]]:
    """Return qid → docno → the perspectives that it supports."""
    found: dict[str, dict[str, list[int]]] = {}
    yes = verdicts[verdicts["supports"]]
    for qid, docno, pid in zip(yes["qid"], yes["docno"], yes["pid"], strict=True):
        found.setdefault(qid, {}).setdefault(docno, []).append(int(pid))
    return found


def _passage_view(passage: Passage, longest: int) -> dict[str, Any]:
    text = visible(passage.text)
    cut = bool(longest) and len(text) > longest
    return {"title": visible(passage.title), "text": text[:longest] if cut else text, "cut": cut}


def _list_view(
    question: Question,
    one: Listing,
    lists: Sequence[Listing],
    supported: Mapping[str, Sequence[int]] | None,
    labelled: Collection[str],
    passages: Mapping[str, Passage],
    k: int,
) -> dict[str, Any]:
    view: dict[str, Any] = {"system": visible(one.system), "problem": visible(one.problem), "note": visible(one.note)}
    view |= {"searching": one.docnos is None and not one.problem, "rows": [], "said": "", "hidden": [], "figures": []}
    if one.docnos is None:
        return view
    top = list(one.docnos[:k])
    others = [set(other.docnos[:k]) for other in lists if other is not one and other.docnos is not None]
    view["rows"] = [
        {
            "docno": docno,
            "argues": sorted(supported.get(docno, ())) if supported is not None else [],
            "labelled": docno in labelled,
            "copies": [i for i, one in enumerate(question.perspectives) if contains_perspective(passages[docno], one)],
            "only_here": bool(others) and docno not in others[0],
        }
        for docno in top
    ]
    if supported is None:
        return view
    m, argued = len(question.perspectives), [supported.get(docno, ()) for docno in top]
    shown = {pid for pids in argued for pid in pids}
    view["hidden"] = [pid for pid in range(m) if pid not in shown]
    if not top:
        view["said"] = "finds nothing"
    elif m:
        silent = sum(not pids for pids in argued)
        unread = sum(docno not in labelled for docno in top)
        places = f"{len(top)} passage{'' if len(top) == 1 else 's'}"
        view["said"] = f"shows {len(shown)} of {m} perspectives; {silent} of {places} argue{'s' * (silent == 1)} none"
        view["said"] += f" ({unread} not labelled, which counts as none)" if unread else ""
    view["figures"] = figures_of(question, argued, k) if m else []
    return view


def scores_of(argued: Sequence[Collection[int]], m: int, k: int) -> dict[str, float]:
    """Return MRecall, Coverage and Precision at k of a list, each place of which argues some of m perspectives."""
    shown = {pid for pids in argued[:k] for pid in pids}
    return {
        "MRecall": float(len(shown) >= min(m, k)),
        "Coverage": len(shown) / max(m, 1),
        "Precision": sum(map(bool, argued[:k])) / k,
    }


def figures_of(question: Question, argued: Sequence[Collection[int]], k: int) -> list[dict[str, Any]]:
    """Return the measures of one list: name, value (None where it has none) and what it means."""
    scores: dict[str, float | None] = {**scores_of(argued, len(question.perspectives), k)}
    figures = [{"name": f"{name}@{k}", "value": value, "means": MEANS[name]} for name, value in scores.items()]
    if {SUPPORT, OPPOSE} <= set(question.stances):
        figures.append({"name": "leaning", "value": leaning_of(question, argued), "means": MEANS["leaning"]})
    return figures


def leaning_of(question: Question, argued: Sequence[Collection[int]]) -> float | None:
    """Return which side a list leans to, (p - n) / (p + n), from -1 to 1; None where it argues neither side."""
    sides = [{question.stances[pid] for pid in pids} for pids in argued]
    p, n = (sum(side in there for there in sides) for side in (SUPPORT, OPPOSE))
    value = float(lean(p, n))
    return None if np.isnan(value) else value


def top_overlap(one: Sequence[str], other: Sequence[str], k: int) -> float:
    """Return average overlap: the mean over depths 1 to k of the share that the tops of two lists have in common.

    Depths beyond both lists do not count. Source: Webber, Moffat and Zobel (2010).

    >>> top_overlap(["a", "b"], ["b", "a"], 2)
    0.5
    """
    depths = range(1, min(k, max(len(one), len(other))) + 1)
    if not depths:
        return 1.0  # two empty lists are equal
    return float(np.mean([len(set(one[:d]) & set(other[:d])) / d for d in depths]))


class Change(NamedTuple):
    """How the right list of a question differs from the left one: right less left, and :func:`top_overlap`."""

    qid: str
    text: str
    MRecall: float
    Coverage: float
    overlap: float

    def __str__(self) -> str:
        """Say it in a menu, behind the question."""
        both = (("MRecall", self.MRecall), ("coverage", self.Coverage))
        signed = [f"{name} {100 * value:+.1f}" for name, value in both if value]
        return f"  [{', '.join([*signed, f'{self.overlap:.1%} alike'])}]"


def change_of(question: Question, lists: Sequence[Sequence[tuple[str, Collection[int]]]], k: int) -> Change:
    """Return how two lists differ; each is (docno, the perspectives that it argues), best first."""
    m = len(question.perspectives)
    left, right = (scores_of([pids for _, pids in one], m, k) for one in lists)
    one, other = ([docno for docno, _ in one] for one in lists)
    recall, coverage = (right[name] - left[name] for name in ("MRecall", "Coverage"))
    return Change(question.qid, question.text, recall, coverage, top_overlap(one, other, k))


def by_change(changes: Iterable[Change]) -> list[Change]:
    """Put first the largest change of MRecall in size, then that of coverage, then the least overlap."""
    return sorted(changes, key=lambda one: (-abs(one.MRecall), -abs(one.Coverage), one.overlap))


def table_of(view: Mapping[str, Any]) -> pd.DataFrame:
    """Return what a view shows as a table, see :func:`berdslib.study.figures.rank_table`, and who marked it."""
    rows = [
        (one["system"], rank, row["docno"], pid, pid in row["argues"])
        for one in view["lists"]
        for rank, row in enumerate(one["rows"], start=1)
        for pid in range(len(view["perspectives"]))
    ]
    return pd.DataFrame(rows, columns=["system", "rank", "docno", "pid", "supports"]).assign(marked_by=view["judge"])


def csv_of(table: pd.DataFrame) -> str:
    """Return a table as CSV in which no spreadsheet takes a text for a formula."""
    safe = table.map(lambda cell: guarded(cell) if isinstance(cell, str) else cell)
    return str(safe.to_csv(index=False, lineterminator="\n"))
