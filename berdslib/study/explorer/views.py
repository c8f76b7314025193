"""What the explorer shows of a question, as plain data that becomes JSON; nothing here draws, searches or judges."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.records import OPPOSE, SUPPORT, Passage, Question, ranked_run
from berdslib.evaluation.measures import evaluate
from berdslib.evaluation.sides import lean
from berdslib.retrieval.bm25 import analyser
from berdslib.study.figures.lists import colour_of, letter_of

MEASURES = ("MRecall", "Coverage", "Precision")
MEANS = {
    "MRecall": "1 if the list shows as many perspectives as its length allows, else 0.",
    "Coverage": "the share of the perspectives that the list shows.",
    "Precision": "the share of the places whose passage argues any perspective.",
    "leaning": "1 where all that is argued supports, -1 where all of it opposes, 0 where both sides are even.",
}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_WORD = re.compile(r"\w+")
_STEMMED = analyser("english-stem")
# What changes the order of what is read, or cannot be seen at all, and belongs to no script.
_DECEIVING = re.compile(
    "[\u00ad\u034f\u115f\u1160\u180e\u200b\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# Scripts need these between their own letters; beside Latin ones they only hide.
_JOINERS = re.compile("(?<=[\0-\x7f])[\u061c\u200c-\u200f]|[\u061c\u200c-\u200f](?=[\0-\x7f])")


class Listing(NamedTuple):
    """What one system lists for a question.

    Fields: ``system`` its name; ``docnos`` best first, None while it is still searching; ``problem`` why there is no
    list, "" where there is one; ``note`` what a reader of this list should know.
    """

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
    """Return all that is shown of a question: its perspectives, both lists, and what they say in words and figures.

    Args:
        question: the question, with perspectives or without.
        lists: the left one and the right one.
        verdicts: on the listed passages; None while they are being judged.
        passages: docno → passage, at least the listed ones.
        k: places of each list.
        asked: what was searched with, "" for the question itself.
        judge: who judged, "" where nobody did.
        recorded: the verdicts are recorded ones, no model's.
        searched: what the passages are.
        longest: characters of a passage that are included, 0 for all; see ``cut``.

    Returns:
        A dict of texts, numbers, lists and None. Every text may be anybody's and must reach a page as text.
    """
    supported = _supported(question, verdicts)
    labelled = set() if verdicts is None else set(verdicts.loc[verdicts["qid"] == question.qid, "docno"])
    shown = [_list_view(question, one, lists, supported, labelled, k) for one in lists]
    listed = list(dict.fromkeys(docno for one in lists for docno in (one.docnos or ())[:k]))
    words = matched_words(asked or question.text, (passages[docno].full_text for docno in listed))
    return {
        "question": {"qid": question.qid, "text": visible(question.text), "source": visible(question.source)},
        "asked": visible(asked),
        "perspectives": perspective_marks(question),
        "judge": visible(judge),
        "recorded": recorded,
        "searched": visible(searched),
        "judged": verdicts is not None,
        "k": k,
        "lists": shown,
        "headline": headline(shown, len(question.perspectives)),
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


def ink_on(colour: str) -> str:
    """Return black or white, whichever contrasts more with a colour by the formula of WCAG 2 (at least 4.5 to 1).

    >>> ink_on("#0072B2"), ink_on("#009E73")
    ('#ffffff', '#000000')
    """
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#ffffff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000000"


def visible(text: str) -> str:
    r"""Return a text in which characters that hide or reorder others are written out, as ⟨U+202E⟩.

    >>> visible("pay\u202ello\u200b!")
    'pay⟨U+202E⟩llo⟨U+200B⟩!'
    """
    text = _JOINERS.sub(_named, _DECEIVING.sub(_named, text))
    # Control characters, and halves of surrogate pairs, which no JSON for a browser can carry.
    return "".join(c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs") else _code(c) for c in text)


def _named(match: re.Match[str]) -> str:
    return _code(match[0])


def _code(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


def matched_words(query: str, texts: Iterable[str]) -> list[str]:
    """Return the words of some texts, in lower case, that share their stem with a word of the query; sorted.

    >>> matched_words("Should zoos be closed?", ["The zoo was closing."])
    ['closing', 'zoo']
    """
    stems = set(_STEMMED(query))
    words = {word.lower() for text in texts for word in _WORD.findall(text)}
    return sorted(word for word in words if stems.intersection(_STEMMED(word)))


def _supported(question: Question, verdicts: pd.DataFrame | None) -> dict[str, list[int]] | None:
    """Return docno → the perspectives it supports, or None while that is not known."""
    if verdicts is None:
        return None
    yes = verdicts[(verdicts["qid"] == question.qid) & verdicts["supports"]]
    found: dict[str, list[int]] = {}
    for docno, pid in zip(yes["docno"], yes["pid"], strict=True):
        found.setdefault(docno, []).append(int(pid))
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
    view["figures"] = figures_of(question, top, supported, k) if m else []
    return view


def figures_of(
    question: Question, docnos: Sequence[str], supported: Mapping[str, Sequence[int]], k: int
) -> list[dict[str, Any]]:
    """Return the measures of one list: name, value (None where it has none) and what it means.

    Args:
        question: with at least one perspective.
        docnos: the list, best first.
        supported: docno → perspectives that it argues.
        k: cut-off.
    """
    rows = [(question.qid, pid, docno, True) for docno in docnos for pid in supported.get(docno, ())]
    verdicts = pd.DataFrame(rows, columns=["qid", "pid", "docno", "supports"])
    names = [f"{measure}@{k}" for measure in MEASURES]
    scores = evaluate(ranked_run({question.qid: docnos}), verdicts, [question], names).iloc[0]
    figures = [
        {"name": name, "value": float(scores[name]), "means": MEANS[measure]}
        for name, measure in zip(names, MEASURES, strict=True)
    ]
    if {SUPPORT, OPPOSE} <= set(question.stances):
        figures.append({"name": "leaning", "value": leaning_of(question, docnos, supported), "means": MEANS["leaning"]})
    return figures


def leaning_of(question: Question, docnos: Sequence[str], supported: Mapping[str, Sequence[int]]) -> float | None:
    """Return which side a list leans to, (p - n) / (p + n), from -1 to 1; None where it argues neither side."""
    sides = [{question.stances[pid] for pid in supported.get(docno, ())} for docno in docnos]
    p, n = (sum(side in there for there in sides) for side in (SUPPORT, OPPOSE))
    value = float(lean(p, n))
    return None if np.isnan(value) else value


def headline(lists: Sequence[Mapping[str, Any]], m: int) -> list[dict[str, Any]]:
    """Return what to see first: one sentence a list, and the perspectives that it hides.

    Args:
        lists: the views of both lists.
        m: how many perspectives the question has.
    """
    if not m or any(one["searching"] or not (one["said"] or one["problem"]) for one in lists):
        return []
    return [
        {"system": one["system"], "hidden": one["hidden"], "all": not one["hidden"]}
        for one in lists
        if not one["problem"]
    ]


def top_overlap(one: Sequence[str], other: Sequence[str], k: int) -> float:
    """Return how alike two lists are: the mean over depths 1 to k of the share that their tops have in common.

    1 for the same order, 0 where no passage is shared; depths beyond both lists do not count. Source: average overlap,
    Webber, Moffat and Zobel (2010).

    >>> top_overlap(["a", "b"], ["b", "a"], 2)
    0.5
    """
    depths = range(1, min(k, max(len(one), len(other))) + 1)
    if not depths:
        return 1.0  # two empty lists are equal
    return float(np.mean([len(set(one[:d]) & set(other[:d])) / d for d in depths]))


def most_telling(
    questions: Sequence[Question],
    runs: tuple[pd.DataFrame, pd.DataFrame],
    verdicts: pd.DataFrame,
    k: int,
) -> pd.DataFrame:
    """Return where two systems differ most.

    Args:
        questions: the asked questions, with perspectives.
        runs: the left and the right one.
        verdicts: on everything that they list in their first k places.
        k: cut-off.

    Returns:
        Frame qid, text, MRecall, Coverage, Precision (right less left), overlap (:func:`top_overlap`); first the
        largest change of MRecall in size, then that of coverage, then the least overlap.
    """
    names = [f"{measure}@{k}" for measure in MEASURES]
    left, right = (evaluate(run, verdicts, questions, names)[names].to_numpy() for run in runs)
    lists = [{str(qid): part["docno"].tolist() for qid, part in run.groupby("qid", sort=False)} for run in runs]
    table = pd.DataFrame(right - left, columns=list(MEASURES))
    table.insert(0, "qid", [q.qid for q in questions])
    table.insert(1, "text", [q.text for q in questions])
    table["overlap"] = [top_overlap(lists[0].get(q.qid, []), lists[1].get(q.qid, []), k) for q in questions]
    return by_change(table)


def by_change(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows of :func:`change_of` in order: by change of MRecall, then of coverage, then the least overlap."""
    size = table[["MRecall", "Coverage"]].abs().assign(overlap=table["overlap"])
    order = size.sort_values(["MRecall", "Coverage", "overlap"], ascending=[False, False, True], kind="stable").index
    return table.loc[order].reset_index(drop=True)


def change_of(view: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the lists of a finished view differ, as a row of :func:`most_telling`."""
    left, right = ({one["name"].partition("@")[0]: one["value"] for one in of["figures"]} for of in view["lists"])
    tops = ([row["docno"] for row in one["rows"]] for one in view["lists"])
    changes = {name: (right.get(name) or 0) - (left.get(name) or 0) for name in MEASURES}
    return {**view["question"], **changes, "overlap": top_overlap(next(tops), next(tops), view["k"])}


def in_words(row: Any) -> str:
    """Return how the right list differs from the left one, for a menu."""
    signed = [f"{name} {value:+.2f}" for name, value in (("MRecall", row.MRecall), ("coverage", row.Coverage)) if value]
    return f"  [{', '.join([*signed, f'{row.overlap:.0%} alike'])}]"


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
    safe = table.map(lambda cell: f"'{cell}" if isinstance(cell, str) and cell[:1] in _FORMULA else cell)
    return str(safe.to_csv(index=False, lineterminator="\n"))
