"""Labelled (document, statement) pairs, for training judges and for people to label, as in BeRDS A.4 and A.5."""

from __future__ import annotations

import csv
import logging
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.passages import NEAR, without_near_duplicates
from berdslib.data.readers import LabelledPair, read_labelled_pairs
from berdslib.data.records import Passage, Question, check_questions
from berdslib.errors import InputError
from berdslib.files import StrPath, guarded, write_text
from berdslib.judging.base import Judge, Pair, document_text, pairs_of
from berdslib.judging.store import VerdictStore, judge_pairs

logger = logging.getLogger(__name__)


class Example(NamedTuple):
    """A document, a statement, and whether the document supports it; ``p`` is a teacher's probability of that."""

    document: str
    statement: str
    supports: bool
    topic: str
    kind: str
    p: float | None = None


def build_examples(sources: Iterable[StrPath], seed: int = 0) -> list[Example]:
    """Return the examples of all sources ("sample" or files, see :func:`read_examples`), shuffled."""
    examples: list[Example] = []
    for source in sources:
        # A duplicate within a source counts once.
        examples += dict.fromkeys(sample_examples() if source == "sample" else read_examples(source))
    random.Random(seed).shuffle(examples)
    return examples


def sample_examples() -> list[Example]:
    """Return the labelled pairs of the sample's development questions."""
    questions = {question.qid: question for question in load_questions("sample", "dev")}
    texts = {passage.docno: passage.full_text for passage in load_passages("sample")}
    rows = load_gold("sample")[["qid", "pid", "docno", "supports"]].to_numpy().tolist()
    return [
        Example(texts[docno], questions[qid].perspectives[pid], bool(supports), questions[qid].text, "sample")
        for qid, pid, docno, supports in rows
        if qid in questions
    ]


# ---------------------------------------------------------------- files


def read_examples(path: StrPath, kind: str = "detection") -> list[Example]:
    """Read labelled pairs (TSV, CSV or JSONL) as examples; the topic is the question."""
    pairs = read_labelled_pairs(path)
    return [Example(pair.document, pair.perspective, pair.label, pair.question, kind) for pair in pairs]


def write_examples(path: StrPath, examples: Iterable[Example]) -> None:
    """Write labelled examples as TSV with the columns question, document, perspective, label (1 or 0)."""
    rows = [(e.topic, e.document, e.statement, str(int(e.supports))) for e in examples]
    _write(path, LabelledPair._fields, rows)


def write_unlabelled(
    path: StrPath,
    pairs: Sequence[Pair],
    questions: Sequence[Question],
    *,
    doubts: Sequence[float] | None = None,
    title_position: str = "before",
) -> None:
    """Write pairs as TSV with an empty last column `label`, for people to fill in with 1 or 0.

    The columns qid, docno and pid precede the texts, so that the labelled file is also a table of verdicts; `doubts`
    are a column, too.
    """
    more = [()] * len(pairs) if doubts is None else [(f"{doubt:.2f}",) for doubt in doubts]
    rows = [
        (pair.qid, pair.passage.docno, str(pair.pid), *doubt, *texts, "")
        for pair, doubt, texts in zip(pairs, more, _texts(pairs, questions, title_position), strict=True)
    ]
    header = ("qid", "docno", "pid", *(() if doubts is None else ("doubt",)), *LabelledPair._fields)
    _write(path, header, rows)


def _write(path: StrPath, header: Sequence[str], rows: Iterable[tuple[str, ...]]) -> None:
    with write_text(path) as file:
        # By default, the writer leaves a carriage return unquoted; web pages contain some.
        writer = csv.writer(file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_ALL)
        writer.writerow(header)
        writer.writerows([guarded(cell) for cell in row] for row in rows)


def _texts(pairs: Sequence[Pair], questions: Sequence[Question], title_position: str) -> list[tuple[str, str, str]]:
    """Return question, document and perspective of each pair."""
    question_of = {question.qid: question.text for question in questions}
    return [(question_of[pair.qid], document_text(pair.passage, title_position), pair.perspective) for pair in pairs]


# ---------------------------------------------------------------- pairs from retrieved lists


def draw_questions(
    questions: Sequence[Question], per_source: int, seed: int = 0, *, perspectives: int | None = 2
) -> list[Question]:
    """Draw `per_source` questions from each ``source``, among those with this number of `perspectives` (None: any)."""
    by_source: dict[str, list[Question]] = defaultdict(list)
    for question in sorted(check_questions(questions), key=lambda question: question.qid):
        fits = perspectives in (None, len(question.perspectives))
        by_source[question.source] += [question] if fits else []
    drawn = []
    for source, candidates in sorted(by_source.items()):
        if not 0 < per_source <= len(candidates):
            of = "" if perspectives is None else f" with {perspectives} perspectives"
            raise InputError(f"{source!r} has {len(candidates)} questions{of}; {per_source} cannot be drawn")
        # Each source has its own generator, so that its draw does not depend on the other sources.
        generator = np.random.default_rng([seed, *source.encode()])
        chosen = generator.choice(len(candidates), per_source, replace=False)
        drawn += [candidates[i] for i in sorted(chosen.tolist())]
    return drawn


def detection_pairs(
    questions: Sequence[Question],
    runs: Sequence[pd.DataFrame],
    passages: Mapping[str, Passage],
    *,
    k: int = 5,
    near: float | None = NEAR,
) -> list[Pair]:
    """Pair every perspective of every question with each document in the top k of a run.

    Of a question's near-duplicate documents (`near`; None keeps all), the first by run and rank is kept. A question for
    which a run lists nothing has only the documents of the other runs, and is counted in a warning.
    """
    check_questions(questions, need_perspectives=True)
    listed: dict[str, list[Passage]] = defaultdict(list)
    for number, run in enumerate(runs, start=1):
        first_pairs = [pair for pair in pairs_of(run, questions, passages, k) if pair.pid == 0]
        without = {question.qid for question in questions} - {pair.qid for pair in first_pairs}
        if len(without) == len(questions):
            raise InputError(f"run {number} lists nothing for any question, such as {min(without)!r}")
        if without:
            logger.warning("run %d lists nothing for %d of %d questions", number, len(without), len(questions))
        for pair in first_pairs:
            listed[pair.qid].append(pair.passage)
    pairs = []
    for question in questions:
        documents = listed[question.qid]
        for passage in documents if near is None else without_near_duplicates(documents, near):
            perspectives = enumerate(question.perspectives)
            pairs += [Pair(question.qid, pid, passage, perspective) for pid, perspective in perspectives]
    return pairs


def draw_pairs(pairs: Sequence[Pair], n: int, seed: int = 0) -> list[Pair]:
    """Draw n pairs uniformly, without replacement; they keep their order."""
    if n > len(pairs):
        raise InputError(f"there are {len(pairs)} pairs; {n} cannot be drawn", field="pairs")
    chosen = np.random.default_rng(seed).choice(len(pairs), n, replace=False)
    return [pairs[i] for i in sorted(chosen.tolist())]


def label_by_judge(
    pairs: Sequence[Pair],
    questions: Sequence[Question],
    judge: Judge,
    store: VerdictStore | None = None,
    *,
    title_position: str = "before",
) -> list[Example]:
    """Label pairs by a judge, as GPT-4 labelled the paper's training set; verdicts in the store are used.

    A pair without a readable answer is left out.
    """
    p_yes, _ = judge_pairs(judge, pairs, store)
    kind = f"detection, labelled by {judge.id}"
    rows = zip(_texts(pairs, questions, title_position), p_yes.tolist(), strict=True)
    return [
        Example(document, claim, p >= judge.threshold, topic, kind)
        for (topic, document, claim), p in rows
        if not math.isnan(p)
    ]
