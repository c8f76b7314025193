"""Questions that must not stand on both sides of a split: same wording, same perspectives, or same gold passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from berdslib.data.records import Passage, Question, check_questions, check_verdicts, issue_of
from berdslib.errors import InputError, known
from berdslib.statements.contradiction import stem, stop_words
from berdslib.words import compared_words

KINDS = ("text", "perspectives", "passages")
LEAK_COLUMNS = ["first", "second", "kind", "overlap", "first_split", "second_split"]
# Of what the content words of two statements weigh, that both share. Measured on the development questions of BeRDS:
# see "Leaks" in docs/building.md.
SAME_STATEMENT = 0.5
_MOST_PAIRS = 2_000_000  # of one kind; more are no leaks, but something that all questions have
_ROWS = 512  # compared with all others at a time: what bounds the memory
Weights = Mapping[str, float]


def leaks(
    questions: Sequence[Question],
    gold: pd.DataFrame | None = None,
    *,
    threshold: float = 0.8,
    kinds: Collection[str] = KINDS,
    passages: Iterable[Passage] = (),
) -> pd.DataFrame:
    """Return all pairs of questions that overlap by at least `threshold`, of whatever splits, the strongest first.

    Overlap is the Jaccard similarity of two sets, and an empty set overlaps with nothing. The sets are, for each kind:

    * ``text``: the stems of the content words of the question (of the root query, where there is one); a word that n
      of N questions have weighs log(1 + N / (1 + n)).
    * ``perspectives``: the perspectives in any order. Two are matched if their content words, weighed in the same
      way, overlap by at least half; a statement and its negation match, too.
    * ``passages``: the gold passages that support any perspective; those with the same words, as `passages` tells,
      count as one.

    Leave out the kind "perspectives" where these are labels that come back with every question, as in most tasks of
    PIR. The frame has first, second (qids), kind, overlap, first_split, second_split.

    >>> asked = [Question("1", "Close zoos?", ("Zoos should close.", "Zoos should stay."), split="dev"),
    ...          Question("2", "Is a zoo cruel?", ("Zoos should stay.", "All zoos should close."), split="test")]
    >>> leaks(asked).values.tolist()
    [['1', '2', 'perspectives', 1.0, 'dev', 'test']]
    """
    check_questions(questions)
    if not 0 < threshold <= 1:
        raise InputError(f"an overlap above 0 and up to 1 was expected, not {threshold!r}", field="threshold")
    if not kinds:
        raise InputError(f"some of {', '.join(KINDS)} are needed", field="kinds")
    for kind in kinds:
        known("kind of overlap", kind, KINDS)
    compare = {
        "text": lambda: _same_text(questions, threshold),
        "perspectives": lambda: _same_perspectives(questions, threshold),
        "passages": lambda: _same_passages(questions, gold, passages, threshold),
    }
    rows = pd.concat([compare[kind]().assign(kind=kind) for kind in KINDS if kind in kinds])
    rows["about"] = rows["overlap"].round(12)  # sums of the same numbers in another order are ties
    rows = rows.sort_values(["about", "i", "j"], ascending=[False, True, True], kind="stable")
    for end, place in (("first", "i"), ("second", "j")):
        rows[end] = pd.array([questions[at].qid for at in rows[place]], dtype="str")
        rows[f"{end}_split"] = pd.array([questions[at].split for at in rows[place]], dtype="str")
    return rows[LEAK_COLUMNS].astype({"kind": "str"}).reset_index(drop=True)


def groups(questions: Sequence[Question], gold: pd.DataFrame | None = None, **options: Any) -> list[list[str]]:
    """Return lists of the questions' ids such that each must stay on one side of a split; arguments as :func:`leaks`.

    Two questions are in one group if they overlap, or if a chain of questions that do leads from one to the other.

    >>> asked = [Question("1", "Should zoos close?"), Question("2", "Tea?"), Question("3", "Zoos: should close?")]
    >>> groups(asked)
    [['1', '3'], ['2']]
    """
    from scipy.cluster.hierarchy import DisjointSet

    found = leaks(questions, gold, **options)
    sides = DisjointSet(q.qid for q in questions)
    for first, second in zip(found["first"], found["second"], strict=True):
        sides.merge(first, second)
    together: dict[str, list[str]] = {}
    for question in questions:
        together.setdefault(sides[question.qid], []).append(question.qid)
    return list(together.values())


def across_splits(found: pd.DataFrame) -> pd.DataFrame:
    """Return those rows of :func:`leaks` whose questions are of two splits; one without a split may be on any side."""
    first, second = found["first_split"], found["second_split"]
    return found[(first != second) & (first != "") & (second != "")].reset_index(drop=True)


# ---------------------------------------------------------------- the three kinds


def _words(text: str) -> list[str]:
    """Return the words of a text, "C++" and "C#" whole."""
    return compared_words(text, r"[+#]*")


def _content(text: str) -> frozenset[str]:
    """Return the stems of the words that carry meaning; of a text without any, of all words."""
    words = _words(text)
    return frozenset(map(stem, [w for w in words if w not in stop_words()] or words))


def _weights(held: Iterable[frozenset[str]]) -> Weights:
    """Return what each element weighs, given what each question holds: the more for being rare."""
    sets = list(held)
    counts = Counter(chain.from_iterable(sets))
    return {element: float(np.log1p(len(sets) / (1 + count))) for element, count in counts.items()}


def _same_text(questions: Sequence[Question], threshold: float) -> pd.DataFrame:
    texts = [_content(issue_of(q)) for q in questions]
    return similar_sets(texts, _weights(texts), threshold, "text")


def _same_passages(
    questions: Sequence[Question], gold: pd.DataFrame | None, passages: Iterable[Passage], threshold: float
) -> pd.DataFrame:
    """Compare what supports a perspective of each question: names of passages, one name for those that are alike."""
    listed: dict[str, frozenset[str]] = {}
    if gold is not None:
        checked = check_verdicts(gold)
        checked = checked[checked["supports"] & checked["qid"].isin({q.qid for q in questions})]
        wanted, first = set(checked["docno"]), dict[str, str]()
        texts = ((p.docno, " ".join(p.full_text.casefold().split())) for p in passages if p.docno in wanted)
        name = {docno: first.setdefault(text or docno, docno) for docno, text in texts}
        listed = {str(qid): frozenset(name.get(d, d) for d in part) for qid, part in checked.groupby("qid")["docno"]}
    supporting = [listed.get(q.qid, frozenset()) for q in questions]
    return similar_sets(supporting, dict.fromkeys(chain.from_iterable(supporting), 1.0), threshold, "passages")


def _same_perspectives(questions: Sequence[Question], threshold: float) -> pd.DataFrame:
    owner = np.array([(i, pid) for i, q in enumerate(questions) for pid in range(len(q.perspectives))]).reshape(-1, 2)
    said = [[_content(p) for p in q.perspectives] for q in questions]
    weights = _weights(frozenset().union(*one) for one in said)
    alike = similar_sets([*chain(*said)], weights, SAME_STATEMENT, "perspectives")
    edges = pd.DataFrame(np.hstack([owner[alike["i"]], owner[alike["j"]]]), columns=["i", "pid", "j", "other"])
    sizes = [len(q.perspectives) for q in questions]
    pairs: Iterable[Any] = edges[edges["i"] != edges["j"]].groupby(["i", "j"])
    rows = [(i, j, _matched_share(part, sizes[i], sizes[j])) for (i, j), part in pairs]
    found = pd.DataFrame(rows, columns=["i", "j", "overlap"]).astype({"i": int, "j": int, "overlap": float})
    return found[found["overlap"] >= threshold]


def _matched_share(edges: pd.DataFrame, n1: int, n2: int) -> float:
    """Return the Jaccard similarity of two lists of statements, given which of them may be matched."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    graph = csr_array((np.ones(len(edges)), (edges["pid"], edges["other"])), shape=(n1, n2))
    matches = int(np.count_nonzero(maximum_bipartite_matching(graph) >= 0))
    return matches / (n1 + n2 - matches)


# ---------------------------------------------------------------- all pairs of sets


def similar_sets(sets: Sequence[frozenset[str]], weights: Weights, least: float, kind: str) -> pd.DataFrame:
    """Return the places i < j of all pairs of sets whose weighted Jaccard similarity is at least `least`, with it."""
    from scipy.sparse import csr_array

    place = {element: i for i, element in enumerate(weights)}
    elements = np.array([place[element] for one in sets for element in sorted(one)], dtype=np.int64)
    ends = np.cumsum([0, *map(len, sets)])
    weight = np.array([*weights.values()], dtype=np.float64)[elements]
    shape = len(sets), max(1, len(place))
    held, weighted = (csr_array((data, elements, ends), shape) for data in (np.ones(len(elements)), weight))
    # Added up one by one, as the product does it: equal sets overlap by exactly 1.
    total = np.bincount(np.repeat(np.arange(len(sets)), np.diff(ends)), weight, minlength=len(sets))
    parts: list[pd.DataFrame] = []
    n = 0
    for start in range(0, max(1, len(sets)), _ROWS):
        shared = (weighted[start : start + _ROWS] @ held.T).tocoo()
        i, j = shared.row.astype(np.int64) + start, shared.col.astype(np.int64)
        rows = pd.DataFrame({"i": i, "j": j, "overlap": shared.data / (total[i] + total[j] - shared.data)})
        parts.append(rows[(i < j) & (rows["overlap"] >= least - 1e-9)])  # sums in another order may differ by less
        n += len(parts[-1])
        if n > _MOST_PAIRS:
            problem = (
                f"more than {_MOST_PAIRS:,} pairs of questions or statements have the same {kind}: that is no leak, "
                "but something which comes back with every question. Compare the others (`kinds`, `--kinds`), or build "
                "without a split (`dev=0`, `--dev 0`)"
            )
            raise InputError(problem, field="kinds")
    return pd.concat(parts)
