"""Questions that must not stand on both sides of a split: same wording, same perspectives, or same gold passages.

A check of the wording alone misses most of what leaks: two questions that are worded differently may have the same
perspectives, or be answered by the same passages.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from berdslib.data.records import Passage, Question, check_questions, check_verdicts, issue_of
from berdslib.errors import InputError, known

KINDS = ("text", "perspectives", "passages")
LEAK_COLUMNS = ["first", "second", "kind", "overlap", "first_split", "second_split"]
# Of what the content words of two statements weigh, that both share. Measured on the development questions of BeRDS:
# see "Leaks" in docs/building.md.
SAME_STATEMENT = 0.5
_MOST_PAIRS = 2_000_000  # of one kind; more are no leaks, but something that all questions have
_ROWS = 512  # compared with all others at a time: what bounds the memory
_CANDIDATES = 200_000  # pairs that are counted exactly at a time, for the same reason
# Scripts without blanks between words: Thai, Lao, Burmese, Khmer, kana, Han.
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff]+"
)

Weights = Mapping[str, float]
Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


def leaks(
    questions: Sequence[Question],
    gold: pd.DataFrame | None = None,
    *,
    threshold: float = 0.8,
    kinds: Collection[str] = KINDS,
    passages: Iterable[Passage] = (),
) -> pd.DataFrame:
    """Return all pairs of questions that overlap, of whatever splits.

    Overlap is the Jaccard similarity of two sets, the share of all their elements that both hold, and an empty set
    overlaps with nothing. The sets are, for each kind:

    * ``text``: the content words of the question (of the root query, for a query that was made of one), without order,
      case, punctuation and endings. A word weighs log(1 + N / (1 + n)) where n of N questions have it: what all
      questions ask ("Should cities ban …?") counts for little, and what one of them asks about for much.
    * ``perspectives``: the perspectives, as statements, in any order. Two statements count as one element if their
      content words, weighed in the same way, overlap by at least half. Each may be matched with one other only, and as
      many as possible are: with m matches between n1 and n2 statements the overlap is m / (n1 + n2 - m). A statement
      and its negation have the same content words and count as one, too: they are about the same. Where "cars" stands
      for "automobiles" nothing knows that these are one thing; of a short statement that may be too much.
    * ``passages``: the gold passages that support any of the perspectives, all of one weight. Small sets count like all
      others: two questions with one gold passage each overlap fully if it is the same, and not at all otherwise. One
      whose few passages are among another's many is not found; lower the threshold to see it.

    Stop words and endings are those of English, and other languages keep theirs; the weights make up for some of it.
    Scripts without blanks between words are compared by pairs of neighbouring characters.

    All pairs are compared, none is left to chance: a few seconds for thousands of questions.

    Args:
        questions: at least one; those of several data sets may stand together.
        gold: verdicts; those on other questions are left aside. None: passages are not compared.
        threshold: overlap from which a pair is returned, above 0 and up to 1.
        kinds: what to compare, at least one. Leave out "perspectives" where they are labels that come back with every
            question ("left", "a claim that supports the argument"), as in most tasks of PIR.
        passages: the corpus, or a stream of it. Gold passages with the same words are one passage, whatever their ids:
            a corpus may repeat a text, as that of theperspective does. Without a corpus, each id is a passage of its
            own.

    Returns:
        A row for each pair and kind, the strongest first: first, second (qids, in the order of the questions), kind,
        overlap, first_split, second_split.

    Raises:
        InputError: unusable questions or verdicts, a threshold out of range, no kind or an unknown one, or more than
            two million pairs of one kind.

    >>> asked = [Question("1", "Close zoos?", ("Zoos should close.", "Zoos should stay."), split="dev"),
    ...          Question("2", "Is a zoo cruel?", ("Zoos should stay.", "All zoos should close."), split="test")]
    >>> leaks(asked).values.tolist()
    [['1', '2', 'perspectives', 1.0, 'dev', 'test']]
    """
    check_questions(questions)
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or not 0 < threshold <= 1:
        raise InputError(f"an overlap above 0 and up to 1 was expected, not {threshold!r}", field="threshold")
    if isinstance(kinds, str) or not kinds:
        raise InputError(f"a list of some of {', '.join(KINDS)} was expected, not {kinds!r}", field="kinds")
    for kind in kinds:
        known("kind of overlap", kind, KINDS)
    compare = {
        "text": lambda: _same_text(questions, threshold),
        "perspectives": lambda: _same_perspectives(questions, threshold),
        "passages": lambda: _same_passages(questions, gold, passages, threshold),
    }
    return _frame(questions, {kind: compare[kind]() for kind in KINDS if kind in kinds})


def groups(
    questions: Sequence[Question],
    gold: pd.DataFrame | None = None,
    *,
    threshold: float = 0.8,
    kinds: Collection[str] = KINDS,
    passages: Iterable[Passage] = (),
) -> list[list[str]]:
    """Return the questions in groups, each of which must stay on one side of a split.

    Two questions are in one group if they overlap, or if a chain of questions leads from one to the other, each of
    which overlaps with the next. A question that overlaps with none is a group of its own.

    Args:
        questions: as in :func:`leaks`, and so are the others.
        gold: verdicts, or None.
        threshold: overlap that keeps two questions together.
        kinds: what to compare.
        passages: the corpus, whose repeats are told by their words.

    Returns:
        Lists of qids, each question in one of them; the order is that of the questions.

    Raises:
        InputError: as :func:`leaks`.

    >>> asked = [Question("1", "Should zoos close?"), Question("2", "Tea?"), Question("3", "Zoos: should close?")]
    >>> groups(asked)
    [['1', '3'], ['2']]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    found = leaks(questions, gold, threshold=threshold, kinds=kinds, passages=passages)
    place = {q.qid: i for i, q in enumerate(questions)}
    ends = found["first"].map(place).to_numpy(dtype=int), found["second"].map(place).to_numpy(dtype=int)
    graph = coo_array((np.ones(len(found), dtype=np.int8), ends), shape=(len(questions), len(questions)))
    together: dict[int, list[str]] = {}
    for question, group in zip(questions, connected_components(graph, directed=False)[1], strict=True):
        together.setdefault(int(group), []).append(question.qid)
    return list(together.values())


def across_splits(found: pd.DataFrame) -> pd.DataFrame:
    """Return those rows of :func:`leaks` whose questions are of two splits; one without a split may be on any side."""
    first, second = found["first_split"], found["second_split"]
    return found[(first != second) & (first != "") & (second != "")].reset_index(drop=True)


# ---------------------------------------------------------------- the three kinds


def _words(text: str) -> list[str]:
    """Return the words of a text, with their vowel signs, "C++" and "C#" whole; pairs of characters without blanks."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    spaced = re.sub(r"[^\w\s]|_", lambda found: found[0] if _is_of_word(found[0]) else " ", plain)
    tokens = (token for token in spaced.split() if any(letter.isalnum() for letter in token))
    return [part for token in tokens for part in _parts(token)]


def _is_of_word(character: str) -> bool:
    return character in "+#" or unicodedata.category(character).startswith("M")  # a vowel sign of Hindi is a mark


def _parts(token: str) -> list[str]:
    """Return a token of a script with blanks as it is, and the pairs of neighbouring characters of the others."""
    pairs = [run[i : i + 2] for run in _UNSPACED.findall(token) for i in range(max(1, len(run) - 1))]
    return [*pairs, *_UNSPACED.sub(" ", token).split()]


def _content(text: str) -> frozenset[str]:
    """Return the stems of the words that carry meaning; of a text without any, of all words."""
    words = _words(text)
    return frozenset(_stemmer().stemWords([w for w in words if w not in _stop_words()] or words))


@cache
def _stop_words() -> frozenset[str]:
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    return frozenset(STOPWORDS_EN_PLUS)


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")


def _weights(held: Iterable[frozenset[str]]) -> Weights:
    """Return what each element weighs, given what each question holds: the more for being rare.

    Logarithms as in tf-idf, but with 1 added to the count, so that a word does not weigh much more for being in one of
    two questions.
    """
    sets = list(held)
    counts = Counter(chain.from_iterable(sets))
    return {element: float(np.log1p(len(sets) / (1 + count))) for element, count in counts.items()}


def _same_text(questions: Sequence[Question], threshold: float) -> Pairs:
    texts = [_content(issue_of(q)) for q in questions]
    return _similar(texts, _weights(texts), threshold, "text")


def _supporting(
    questions: Sequence[Question], gold: pd.DataFrame | None, passages: Iterable[Passage]
) -> list[frozenset[str]]:
    """Return what supports a perspective of each question: the names of passages, one name for those that are alike."""
    if gold is None:
        return [frozenset()] * len(questions)
    checked = check_verdicts(gold)
    checked = checked[checked["supports"] & checked["qid"].isin({q.qid for q in questions})]
    name = _names_of_texts(passages, set(checked["docno"]))
    listed = {str(qid): frozenset(name.get(d, d) for d in part) for qid, part in checked.groupby("qid")["docno"]}
    return [listed.get(q.qid, frozenset()) for q in questions]


def _same_passages(
    questions: Sequence[Question], gold: pd.DataFrame | None, passages: Iterable[Passage], threshold: float
) -> Pairs:
    supporting = _supporting(questions, gold, passages)
    return _similar(supporting, dict.fromkeys(chain.from_iterable(supporting), 1.0), threshold, "passages")


def _names_of_texts(passages: Iterable[Passage], wanted: Collection[str]) -> Mapping[str, str]:
    """Return docno → the first docno with the same text, of those that are wanted."""
    first: dict[str, str] = {}
    texts = ((p.docno, " ".join(p.full_text.casefold().split())) for p in passages if p.docno in wanted)
    return {docno: first.setdefault(text or docno, docno) for docno, text in texts}


def _same_perspectives(questions: Sequence[Question], threshold: float) -> Pairs:
    owner = [(place, pid) for place, q in enumerate(questions) for pid in range(len(q.perspectives))]
    said = [[_content(p) for p in q.perspectives] for q in questions]
    weights = _weights(frozenset().union(*one) for one in said)
    alike: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for a, b in zip(*_similar([*chain(*said)], weights, SAME_STATEMENT, "perspectives")[:2], strict=True):
        (first, pid), (second, other) = owner[a], owner[b]
        if first != second:
            alike.setdefault((first, second), []).append((pid, other))
    rows = []
    for (first, second), edges in alike.items():
        sizes = len(questions[first].perspectives), len(questions[second].perspectives)
        if min(sizes) >= threshold * max(sizes) and (overlap := _matched_share(edges, *sizes)) >= threshold:
            rows.append((first, second, overlap))
    first_places, second_places, overlaps = zip(*rows, strict=True) if rows else ((), (), ())
    return np.array(first_places, dtype=int), np.array(second_places, dtype=int), np.array(overlaps, dtype=float)


def _matched_share(edges: Sequence[tuple[int, int]], n1: int, n2: int) -> float:
    """Return the Jaccard similarity of two lists of statements, given which of them may be matched."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    pids, others = zip(*edges, strict=True)
    graph = csr_array((np.ones(len(edges), dtype=np.int8), (pids, others)), shape=(n1, n2))
    matches = int(np.count_nonzero(maximum_bipartite_matching(graph) >= 0))
    return matches / (n1 + n2 - matches)


# ---------------------------------------------------------------- all pairs of sets


def _similar(sets: Sequence[frozenset[str]], weights: Weights, least: float, kind: str) -> Pairs:
    """Return the places i < j of all pairs of sets whose weighted Jaccard similarity is at least `least`, with it.

    Raises:
        InputError: there are too many.
    """
    parts, n = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))], 0
    for part in _similar_by_rows(sets, weights, least):
        parts.append(part)
        n += len(part[0])
        if n > _MOST_PAIRS:
            problem = (
                f"more than {_MOST_PAIRS:,} pairs of questions or statements have the same {kind}: that is no leak, "
                "but something which comes back with every question. Compare the others (`kinds`, `--kinds`), or build "
                "without a split (`dev=0`, `--dev 0`)"
            )
            raise InputError(problem, field="kinds")
    first, second, similarity = (np.concatenate(column) for column in zip(*parts, strict=True))
    return first, second, similarity


def _similar_by_rows(sets: Sequence[frozenset[str]], weights: Weights, least: float) -> Iterator[Pairs]:
    """Yield what :func:`_similar` returns, some rows at a time.

    Two sets that are alike share one of the rarest elements of each: were the first one that they share so far behind
    that what follows weighs less than `least` of either, they could not share that much. So the sparse matrix product,
    which counts for every two, leaves out the frequent elements, and only the pairs that it finds are weighed.
    """
    from scipy.sparse import csr_array

    counts = Counter(chain.from_iterable(sets))
    place = {element: i for i, element in enumerate(sorted(counts, key=lambda e: (counts[e], e)))}
    weight = np.array([weights[element] for element in place], dtype=np.float64)
    listed = [np.array(sorted(place[element] for element in one), dtype=np.int64) for one in sets]
    shape = len(sets), max(1, len(place))
    whole, rare = (_matrix(rows, shape) for rows in (listed, [_rarest(row, weight, least) for row in listed]))
    weighted = csr_array((weight[whole.indices], whole.indices, whole.indptr), shape=shape)
    total = weighted.sum(axis=1)
    for start in range(0, len(sets), _ROWS):
        found = (rare[start : start + _ROWS] @ rare.T).tocoo()
        firsts, seconds = found.row.astype(np.int64) + start, found.col.astype(np.int64)
        firsts, seconds = firsts[firsts < seconds], seconds[firsts < seconds]
        for at in range(0, len(firsts), _CANDIDATES):
            first, second = firsts[at : at + _CANDIDATES], seconds[at : at + _CANDIDATES]
            common = weighted[first].multiply(whole[second]).sum(axis=1)
            similarity = common / (total[first] + total[second] - common)
            kept = similarity >= least - 1e-9  # sums of the same numbers in another order may differ by less
            yield first[kept], second[kept], similarity[kept]


def _rarest(row: np.ndarray, weight: np.ndarray, least: float) -> np.ndarray:
    """Return the elements of a set, the rarest first, up to the last from which on at least `least` of it follows."""
    remaining = np.cumsum(weight[row][::-1])[::-1]
    return row[remaining >= (least - 1e-9) * remaining[:1]]


def _matrix(rows: Sequence[np.ndarray], shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_array

    ends = np.cumsum([0, *map(len, rows)])
    elements = np.concatenate([np.empty(0, dtype=np.int64), *rows])
    return csr_array((np.ones(len(elements)), elements, ends), shape=shape)


def _frame(questions: Sequence[Question], found: dict[str, Pairs]) -> pd.DataFrame:
    qids = np.array([q.qid for q in questions], dtype=object)
    splits = np.array([q.split for q in questions], dtype=object)
    parts = [
        pd.DataFrame(
            {
                "first": qids[first],
                "second": qids[second],
                "kind": kind,
                "overlap": overlap,
                "first_split": splits[first],
                "second_split": splits[second],
                "place": first * len(questions) + second,
            }
        )
        for kind, (first, second, overlap) in found.items()
    ]
    rows = pd.concat(parts).sort_values(["overlap", "place"], ascending=[False, True], kind="stable")
    return rows[LEAK_COLUMNS].astype({c: "str" for c in LEAK_COLUMNS if c != "overlap"}).reset_index(drop=True)
