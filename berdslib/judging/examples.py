"""Labelled (document, statement) pairs: what judges learn from, and what people label, as in BeRDS A.4 and A.5."""

from __future__ import annotations

import csv
import math
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.readers import LabelledPair, read_labelled_pairs
from berdslib.data.records import Passage, Question, check_questions
from berdslib.errors import InputError
from berdslib.files import StrPath, guarded, write_text
from berdslib.judging.base import Judge, Pair, document_text, pairs_of
from berdslib.judging.store import VerdictStore, judge_pairs

# The paper gives no rule for near-duplicates, only their number. At 0.8 a passage of 100 words goes if it differs from
# an earlier one in two words, or starts up to ten words later in the same page.
NEAR = 0.8
_GRAM = 5


class Example(NamedTuple):
    """A document, a statement, whether the one supports the other, and their debate; ``p`` is a teacher's view."""

    document: str
    statement: str
    supports: bool
    topic: str
    kind: str
    p: float | None = None


def build(sources: Iterable[StrPath], seed: int = 0) -> list[Example]:
    """Return the examples of all sources ("sample" or files, see :func:`read_examples`) in a drawn order."""
    found = [dict.fromkeys(sample_examples() if one == "sample" else read_examples(one)) for one in sources]
    examples = [example for of_source in found for example in of_source]
    random.Random(seed).shuffle(examples)
    return examples


def sample_examples() -> list[Example]:
    """Return the pairs of our own sample, of its development questions only."""
    questions = {q.qid: q for q in load_questions("sample", "dev")}
    texts = {p.docno: p.full_text for p in load_passages("sample")}
    rows = load_gold("sample")[["qid", "pid", "docno", "supports"]].to_numpy().tolist()
    return [
        Example(texts[docno], questions[qid].perspectives[pid], bool(supports), questions[qid].text, "sample")
        for qid, pid, docno, supports in rows
        if qid in questions
    ]


# ---------------------------------------------------------------- files


def read_examples(path: StrPath, kind: str = "detection") -> list[Example]:
    """Read labelled pairs (TSV, CSV or JSONL) as examples; the topic is the question."""
    return [Example(p.document, p.perspective, p.label, p.question, kind) for p in read_labelled_pairs(path)]


def write_examples(path: StrPath, examples: Iterable[Example]) -> None:
    """Write labelled examples as TSV with the columns question, document, perspective, label (1 or 0)."""
    rows = [(e.topic, e.document, e.statement, str(int(e.supports))) for e in examples]
    _write(path, LabelledPair._fields, rows)


def write_unlabelled(
    path: StrPath, pairs: Sequence[Pair], questions: Sequence[Question], *, title_position: str = "before"
) -> None:
    """Write pairs as TSV with an empty last column `label`, for people to fill in with 1 or 0.

    The columns qid, docno and pid before the texts make it a table of verdicts as well.
    """
    texts = _texts(pairs, questions, title_position)
    rows = [(p.qid, p.passage.docno, str(p.pid), *of_pair, "") for p, of_pair in zip(pairs, texts, strict=True)]
    _write(path, ("qid", "docno", "pid", *LabelledPair._fields), rows)


def _write(path: StrPath, header: Sequence[str], rows: Iterable[tuple[str, ...]]) -> None:
    with write_text(path) as file:
        # All quoted: left to itself the writer forgets cells with a carriage return, which web pages do hold.
        writer = csv.writer(file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_ALL)
        writer.writerow(header)
        writer.writerows([guarded(cell) for cell in row] for row in rows)


def _texts(pairs: Sequence[Pair], questions: Sequence[Question], title_position: str) -> list[tuple[str, str, str]]:
    """Return question, document and perspective of each pair."""
    asked = {q.qid: q.text for q in questions}
    return [(asked[p.qid], document_text(p.passage, title_position), p.perspective) for p in pairs]


# ---------------------------------------------------------------- pairs of what retrievers list


def draw_questions(
    questions: Sequence[Question], per_source: int, seed: int = 0, *, perspectives: int | None = 2
) -> list[Question]:
    """Draw so many questions from each ``source``, of those with so many `perspectives` (None: any)."""
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

    Of documents of a question that are `near` duplicates the first is kept, in the order of runs and ranks.
    """
    check_questions(questions, need_perspectives=True)
    listed: dict[str, list[Passage]] = defaultdict(list)
    for number, run in enumerate(runs, start=1):
        found = [p for p in pairs_of(run, questions, passages, k) if p.pid == 0]
        if without := {q.qid for q in questions} - {p.qid for p in found}:
            raise InputError(f"run {number} lists nothing for question {min(without)!r}")
        for pair in found:
            listed[pair.qid].append(pair.passage)
    return [
        Pair(q.qid, pid, passage, perspective)
        for q in questions
        for passage in (listed[q.qid] if near is None else without_near_duplicates(listed[q.qid], near))
        for pid, perspective in enumerate(q.perspectives)
    ]


def draw_pairs(pairs: Sequence[Pair], n: int, seed: int = 0) -> list[Pair]:
    """Draw so many pairs, each as likely as another; they stay in their order."""
    if n > len(pairs):
        raise InputError(f"there are {len(pairs)} pairs; {n} cannot be drawn", field="pairs")
    chosen = np.random.default_rng(seed).choice(len(pairs), n, replace=False)
    return [pairs[i] for i in sorted(chosen.tolist())]


def without_near_duplicates(passages: Sequence[Passage], near: float = NEAR) -> list[Passage]:
    """Drop each passage like an earlier one, by the Jaccard similarity of their texts' runs of five words.

    >>> texts = ["Tea is good for you.", "tea is good, for you", "Tea is bad for you."]
    >>> [p.docno for p in without_near_duplicates([Passage(str(i), text) for i, text in enumerate(texts)])]
    ['0', '2']
    """
    kept: list[tuple[Passage, set[int]]] = []
    number: dict[tuple[str, ...], int] = {}  # sets of numbers are compared much faster than sets of words
    for passage in passages:
        words = re.findall(r"\w+", passage.text.casefold())
        runs = (tuple(words[i : i + _GRAM]) for i in range(max(1, len(words) - _GRAM + 1)))
        grams = {number.setdefault(run, len(number)) for run in runs}
        if all((shared := len(grams & one)) < near * (len(grams) + len(one) - shared) for _, one in kept):
            kept.append((passage, grams))
    return [passage for passage, _ in kept]


def label_by_judge(
    pairs: Sequence[Pair],
    questions: Sequence[Question],
    judge: Judge,
    store: VerdictStore | None = None,
    *,
    title_position: str = "before",
) -> list[Example]:
    """Label pairs by a judge, as GPT-4 labelled the paper's training set; what the store knows is not asked again.

    A pair that the judge could not read is left out.
    """
    p_yes, _ = judge_pairs(judge, pairs, store)
    kind = f"detection, labelled by {judge.id}"
    rows = zip(_texts(pairs, questions, title_position), p_yes.tolist(), strict=True)
    return [
        Example(document, claim, p >= judge.threshold, topic, kind)
        for (topic, document, claim), p in rows
        if not math.isnan(p)
    ]
