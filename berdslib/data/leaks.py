"""Questions of equal or nearly equal wording, which must not stand on both sides of a split."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from berdslib.data.records import Question, check_questions, issue_of
from berdslib.errors import InputError
from berdslib.statements.contradiction import stem, stop_words
from berdslib.words import compared_words

_ROWS = 512  # compared with all others at a time, which bounds the memory


def leaks(questions: Sequence[Question], threshold: float = 0.8) -> pd.DataFrame:
    """Return all pairs of questions of nearly equal wording, within and across splits, the most similar first.

    Similarity is the Jaccard similarity of the stems of content words (of the root query, if there is one). The frame
    has first, second (qids), overlap (from `threshold` to 1), first_split, second_split.

    >>> asked = [Question("1", "Should zoos close?", split="dev"), Question("2", "Close all zoos?", split="test")]
    >>> leaks(asked).values.tolist()
    [['1', '2', 1.0, 'dev', 'test']]
    """
    check_questions(questions)
    if not 0 < threshold <= 1:
        raise InputError(f"an overlap above 0 and up to 1 was expected, not {threshold!r}", field="threshold")
    pairs = similar_sets([_content(issue_of(question)) for question in questions], threshold)
    pairs = pairs.sort_values(["overlap", "i", "j"], ascending=[False, True, True])
    qids = np.array([question.qid for question in questions])
    splits = np.array([question.split for question in questions])
    return pd.DataFrame(
        {
            "first": qids[pairs["i"]],
            "second": qids[pairs["j"]],
            "overlap": pairs["overlap"].to_numpy(),
            "first_split": splits[pairs["i"]],
            "second_split": splits[pairs["j"]],
        }
    )


def across_splits(found: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of :func:`leaks` whose questions belong to two splits; both need a split."""
    first = found["first_split"]
    second = found["second_split"]
    return found[(first != second) & (first != "") & (second != "")].reset_index(drop=True)


def groups(questions: Sequence[Question]) -> list[list[str]]:
    """Return lists of the questions' ids such that each must stay on one side of a split.

    Two questions are in one group if they leak, or if a chain of questions that do leads from one to the other.

    >>> groups([Question("1", "Should zoos close?"), Question("2", "Tea?"), Question("3", "Zoos: should close?")])
    [['1', '3'], ['2']]
    """
    from scipy.cluster.hierarchy import DisjointSet

    found = leaks(questions)
    sides = DisjointSet(question.qid for question in questions)
    for first, second in zip(found["first"], found["second"], strict=True):
        sides.merge(first, second)
    together: dict[str, list[str]] = {}
    for question in questions:
        together.setdefault(sides[question.qid], []).append(question.qid)
    return list(together.values())


def similar_sets(sets: Sequence[frozenset[str]], least: float) -> pd.DataFrame:
    """Return the places i < j of all pairs of sets with a Jaccard similarity of `least` or more, with it as overlap."""
    from sklearn.preprocessing import MultiLabelBinarizer

    held = MultiLabelBinarizer(sparse_output=True).fit_transform(sets)
    sizes = np.array([len(elements) for elements in sets])
    parts: list[pd.DataFrame] = []
    for start in range(0, len(sets), _ROWS):
        shared = (held[start : start + _ROWS] @ held.T).tocoo()
        i = shared.row + start
        j = shared.col
        pairs = pd.DataFrame({"i": i, "j": j, "overlap": shared.data / (sizes[i] + sizes[j] - shared.data)})
        parts.append(pairs[(i < j) & (pairs["overlap"] >= least)])
    return pd.concat(parts, ignore_index=True)


def _content(text: str) -> frozenset[str]:
    """Return the stems of the words that carry meaning; of a text without any, of all words."""
    words = compared_words(text, r"[+#]*")  # "C++" and "C#" are words, too
    return frozenset(map(stem, [word for word in words if word not in stop_words()] or words))
