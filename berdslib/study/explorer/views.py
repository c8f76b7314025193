"""The views of the explorer as plain data for JSON; this module does not draw, search or judge."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.records import OPPOSE, SUPPORT, Passage, Question, counted
from berdslib.evaluation.sides import lean
from berdslib.judging.base import contains_perspective
from berdslib.retrieval.bm25 import analyser
from berdslib.study.figures.lists import colour_of, ink_on, letter_of

MEANS = {
    "MRecall": "1 if the list shows all perspectives (or k of them, if there are more), else 0.",
    "Coverage": "the share of the perspectives that the list shows.",
    "Precision": "the share of the places whose passage argues any perspective.",
    "leaning": "1 if all argued perspectives support, -1 if all of them oppose, 0 if both sides are even.",
}
LONGEST_LABEL = 110
_WORD = re.compile(r"\w+")
_STEMMED = analyser("english-stem")
# Characters that reorder the text or are invisible, and that no script needs.
_DECEIVING = re.compile(
    "[\u00ad\u034f\u115f\u1160\u180e\u200b\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# Some scripts need these between their letters; beside Latin letters they can only hide text.
_JOINERS = re.compile("(?<=[\0-\x7f])[\u061c\u200c-\u200f]|[\u061c\u200c-\u200f](?=[\0-\x7f])")


class Listing(NamedTuple):
    """The list of one system: ``docnos`` best first, None during the search; ``problem`` if there is no list."""

    system: str
    docnos: Sequence[str] | None = None
    problem: str = ""
    note: str = ""


def view_of(
    question: Question,
    lists: Sequence[Listing],
    passages: Mapping[str, Passage],
    k: int,
    *,
    verdicts: pd.DataFrame | None = None,
    asked: str = "",
    judge: str = "",
    recorded: bool = False,
    searched: str = "",
    longest: int = 0,
) -> dict[str, Any]:
    """Return the view of a question; its texts are not trusted, so a page must insert them as text, not as markup.

    `verdicts` are None until they are judged. `asked` is the perspective that was searched with, "" for the question
    itself. The view has the first `longest` characters of each passage, 0 for all.
    """
    docnos = list(dict.fromkeys(docno for listing in lists for docno in listing.docnos or ()))
    supported = None if verdicts is None else supported_in(verdicts, question.qid)
    views = []
    for listing, other in zip(lists, reversed(lists), strict=True):
        view = _list_view(question, listing, supported, passages, k, recorded)
        for row in view["rows"]:
            row["only_here"] = other.docnos is not None and row["docno"] not in other.docnos
        views.append(view)
    return {
        "question": {"qid": question.qid, "text": visible(question.text)},
        "asked": visible(asked),
        "perspectives": perspective_marks(question),
        "judge": visible(judge),
        "recorded": recorded,
        "searched": visible(searched),
        "judged": verdicts is not None,
        "k": k,
        "lists": views,
        "words": matched_words(asked or question.text, (passages[docno].full_text for docno in docnos)),
        "passages": {docno: _passage_view(passages[docno], longest) for docno in docnos},
    }


def perspective_marks(question: Question) -> list[dict[str, str]]:
    """Return each perspective's text, stance ("" if unrecorded), letter, colour, and the ink to write on the colour."""
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
    r"""Return a text in which invisible and reordering characters are replaced by their codes, as ⟨U+202E⟩.

    >>> visible("pay\u202ello\u200b!")
    'pay⟨U+202E⟩llo⟨U+200B⟩!'
    """
    text = _JOINERS.sub(_code, _DECEIVING.sub(_code, text))
    # Also control characters, and unpaired surrogates, which JSON for a browser cannot contain.
    return "".join(c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs") else _code(c) for c in text)


def short_text(text: str) -> str:
    """Return a text for one line of a menu, shortened if it is long."""
    text = visible(" ".join(text.split()))
    return (text if len(text) <= LONGEST_LABEL else f"{text[:LONGEST_LABEL]}…") or "(blank)"


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


def supported_in(verdicts: pd.DataFrame, qid: str) -> dict[str, list[int]]:
    """Return docno → the perspectives of a question that the passage supports; [] if it supports none."""
    rows = verdicts.loc[verdicts["qid"] == qid, ["docno", "pid", "supports"]]
    supported: dict[str, list[int]] = {}
    for docno, pid, supports in rows.sort_values("pid").values.tolist():
        supported.setdefault(docno, []).extend([pid] if supports else [])
    return supported


def _passage_view(passage: Passage, longest: int) -> dict[str, Any]:
    text = visible(passage.text)
    cut = bool(longest) and len(text) > longest
    return {"title": visible(passage.title), "text": text[:longest] if cut else text, "cut": cut}


def _list_view(
    question: Question,
    listing: Listing,
    supported: Mapping[str, Sequence[int]] | None,
    passages: Mapping[str, Passage],
    k: int,
    recorded: bool,
) -> dict[str, Any]:
    top = list(listing.docnos or ())
    view: dict[str, Any] = {
        "system": visible(listing.system),
        "problem": visible(listing.problem),
        "note": visible(listing.note),
        "searching": listing.docnos is None and not listing.problem,
        "rows": [
            {
                "docno": docno,
                "argues": list((supported or {}).get(docno, ())),
                "labelled": docno in (supported or {}),
                "copies": [
                    pid for pid, text in enumerate(question.perspectives) if contains_perspective(passages[docno], text)
                ],
            }
            for docno in top
        ],
        "said": "",
        "hidden": [],
        "figures": [],
    }
    if supported is None or listing.docnos is None:
        return view
    argued = [supported.get(docno, ()) for docno in top]
    shown = {pid for pids in argued for pid in pids}
    m = len(question.perspectives)
    view["hidden"] = [pid for pid in range(m) if pid not in shown]
    if not top:
        view["said"] = "finds nothing"
    elif m:
        arguing = sum(map(bool, argued))
        unlabelled = sum(docno not in supported for docno in top)
        shows = "shows" if recorded else "marked for"  # what a model says may be wrong
        one = f"argue{'s' if arguing == 1 else ''} one" if recorded else "marked"
        view["said"] = f"{shows} {len(shown)} of {m} perspectives; {arguing} of {counted(len(top), 'passage')} {one}"
        view["said"] += f" ({unlabelled} not labelled, which counts as none)" if unlabelled else ""
    view["figures"] = figures_of(question, argued, k) if m else []
    return view


def figures_of(question: Question, argued: Sequence[Collection[int]], k: int) -> list[dict[str, Any]]:
    """Return the measures of a list of k places; `argued` has the perspectives that each listed passage argues.

    Each measure is a mapping: name, value (None if it is undefined) and means, its explanation.
    """
    m = len(question.perspectives)
    shown = {pid for pids in argued for pid in pids}
    values: dict[str, float | None] = {
        "MRecall": float(len(shown) >= min(m, k)),
        "Coverage": len(shown) / m,
        "Precision": sum(map(bool, argued)) / k,
    }
    figures = [{"name": f"{name}@{k}", "value": value, "means": MEANS[name]} for name, value in values.items()]
    if {SUPPORT, OPPOSE} <= set(question.stances):
        figures.append({"name": "leaning", "value": leaning_of(question, argued), "means": MEANS["leaning"]})
    return figures


def leaning_of(question: Question, argued: Sequence[Collection[int]]) -> float | None:
    """Return which side a list leans to, (p - n) / (p + n), from -1 to 1; None if it argues neither side."""
    sides = [{question.stances[pid] for pid in pids} for pids in argued]
    supporting = sum(SUPPORT in side for side in sides)
    opposing = sum(OPPOSE in side for side in sides)
    value = float(lean(supporting, opposing))
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
    return float(np.mean([len(set(one[:depth]) & set(other[:depth])) / depth for depth in depths]))
