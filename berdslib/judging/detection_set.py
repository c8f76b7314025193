"""Perspective-detection sets, as in BeRDS A.4 and A.5: what two retrievers list, under every perspective.

Ten questions with two perspectives from each of three data sets, the top five of two retrievers: 30 x 2 x 10 = 600
pairs, of which 58 go as near-duplicates; fifty questions from each make the 3,000 that the published judge learnt from.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from berdslib.data.readers import LabelledPair
from berdslib.data.records import Passage, Question, check_questions
from berdslib.errors import InputError
from berdslib.files import StrPath, write_text
from berdslib.judging.base import Judge, Pair, document_text, pairs_of
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.judging.training.pairs import Example

# The paper gives no rule for near-duplicates, only their number. At 0.8 a passage of 100 words goes if it differs from
# an earlier one in two words, or starts up to ten words later in the same page.
NEAR = 0.8
_GRAM = 5


def draw_questions(
    questions: Sequence[Question], per_source: int, seed: int = 0, *, perspectives: int | None = 2
) -> list[Question]:
    """Draw so many questions from each data set (``source``), without repetition.

    Args:
        questions: of any number of data sets.
        per_source: questions from each.
        seed: of the draw; the order of the questions does not matter.
        perspectives: only questions with so many; None for all.

    Raises:
        InputError: a data set has too few of them.
    """
    by_source: dict[str, list[Question]] = defaultdict(list)
    for q in sorted(check_questions(questions), key=lambda q: q.qid):
        by_source[q.source] += [q] if perspectives in (None, len(q.perspectives)) else []
    drawn = []
    for source, there in sorted(by_source.items()):
        if not 0 < per_source <= len(there):
            of = "" if perspectives is None else f" with {perspectives} perspectives"
            raise InputError(f"{source!r} has {len(there)} questions{of}; {per_source} cannot be drawn")
        # A generator for each data set: what else is drawn from changes nothing.
        chosen = np.random.default_rng([seed, *source.encode()]).choice(len(there), per_source, replace=False)
        drawn += [there[i] for i in sorted(chosen.tolist())]
    return drawn


def detection_pairs(
    questions: Sequence[Question],
    runs: Sequence[pd.DataFrame],
    passages: Mapping[str, Passage],
    *,
    k: int = 5,
    near: float | None = NEAR,
) -> list[Pair]:
    """Return every perspective of every question with each document that a run lists in its top k.

    Args:
        questions: with perspectives.
        runs: of several retrievers; in the paper two.
        passages: docno → passage.
        k: documents a question and run.
        near: of documents of a question this similar (see :func:`without_near_duplicates`), the first is kept, in the
            order of runs and ranks; None keeps all, a document that two runs list being there twice.

    Raises:
        InputError: a run without documents for a question, or with one that is not among the passages.
    """
    check_questions(questions, need_perspectives=True)
    listed: dict[str, list[Passage]] = defaultdict(list)
    for number, run in enumerate(runs, start=1):
        found = [p for p in pairs_of(run, questions, passages, k) if p.pid == 0]
        without = {q.qid for q in questions} - {p.qid for p in found}
        if without:
            raise InputError(f"run {number} lists nothing for question {min(without)!r}")
        for pair in found:
            listed[pair.qid].append(pair.passage)
    return [
        Pair(q.qid, pid, passage, perspective)
        for q in questions
        for passage in (listed[q.qid] if near is None else without_near_duplicates(listed[q.qid], near))
        for pid, perspective in enumerate(q.perspectives)
    ]


def without_near_duplicates(passages: Sequence[Passage], near: float = NEAR) -> list[Passage]:
    """Drop each passage like an earlier one: Jaccard similarity of their runs of five words, every two compared.

    Args:
        passages: a few; the work grows with the square of their number. Titles, case and punctuation do not count.
        near: similarity from which a passage is dropped.

    >>> texts = ["Tea is good for you.", "tea is good, for you", "Tea is bad for you."]
    >>> [p.docno for p in without_near_duplicates([Passage(str(i), text) for i, text in enumerate(texts)])]
    ['0', '2']
    """
    kept: list[tuple[Passage, set[tuple[str, ...]]]] = []
    for passage in passages:
        grams = _grams(passage.text)
        if all(len(grams & before) < near * len(grams | before) for _, before in kept):
            kept.append((passage, grams))
    return [passage for passage, _ in kept]


def _grams(text: str) -> set[tuple[str, ...]]:
    """Return the runs of five neighbouring words; of a shorter text, all of it."""
    words = re.findall(r"\w+", text.casefold())
    return {tuple(words[i : i + _GRAM]) for i in range(max(1, len(words) - _GRAM + 1))}


def label_by_judge(
    pairs: Sequence[Pair],
    questions: Sequence[Question],
    judge: Judge,
    store: VerdictStore | None = None,
    *,
    title_position: str = "before",
) -> list[Example]:
    """Label pairs by a judge, as GPT-4 labelled the paper's training set; what the store knows is not asked again.

    The documents have their titles as the judge that is to be trained will read them.
    """
    p_yes, _ = judge_pairs(judge, pairs, store)
    kind = f"detection, labelled by {judge.id}"
    rows = zip(_texts(pairs, questions, title_position), p_yes.tolist(), strict=True)
    return [Example(document, claim, p >= judge.threshold, topic, kind) for (topic, document, claim), p in rows]


# ---------------------------------------------------------------- files


def write_unlabelled(
    path: StrPath, pairs: Sequence[Pair], questions: Sequence[Question], *, title_position: str = "before"
) -> None:
    """Write pairs as TSV with an empty column `label`, for people to fill in with 1 or 0."""
    _write(path, [(*texts, "") for texts in _texts(pairs, questions, title_position)])


def write_examples(path: StrPath, examples: Iterable[Example]) -> None:
    """Write labelled examples as TSV with the columns question, document, perspective, label (1 or 0)."""
    _write(path, [(e.topic, e.document, e.statement, str(int(e.supports))) for e in examples])


def _texts(pairs: Sequence[Pair], questions: Sequence[Question], title_position: str) -> list[tuple[str, str, str]]:
    """Return question, document and perspective of each pair."""
    asked = {q.qid: q.text for q in questions}
    return [(asked[p.qid], document_text(p.passage, title_position), p.perspective) for p in pairs]


def _write(path: StrPath, rows: Iterable[tuple[str, ...]]) -> None:
    with write_text(path) as file:
        # All quoted: left to itself the writer forgets cells with a carriage return, which web pages do hold.
        writer = csv.writer(file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_ALL)
        writer.writerow(LabelledPair._fields)
        writer.writerows(rows)
