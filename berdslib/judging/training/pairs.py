"""Labelled (document, statement) pairs to train a judge on: the sample's, or those of a file."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.readers import read_labelled_pairs
from berdslib.files import StrPath


class Example(NamedTuple):
    """A document, a statement, whether the one supports the other, the debate both are from, and how it was made.

    ``p`` is how likely a teacher thinks it, which is then learnt in place of the label; None without a teacher.
    """

    document: str
    statement: str
    supports: bool
    topic: str
    kind: str
    p: float | None = None


def build(sources: Iterable[StrPath], seed: int = 0) -> list[Example]:
    """Return the examples of all sources, in a drawn order; what two rows of a source say alike is said once.

    Args:
        sources: "sample", or files as :func:`read_examples` reads them; ``scripts/training/pairs.py`` writes such files
            of public sets of arguments.
        seed: of the order.

    Raises:
        InputError: a file that cannot be read.
    """
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


def read_examples(path: StrPath, kind: str = "detection") -> list[Example]:
    """Read labelled pairs (TSV, CSV or JSONL) as examples; the topic is the question.

    Raises:
        InputError: a row without a label, and all that :func:`read_labelled_pairs` refuses.
    """
    return [Example(p.document, p.perspective, p.label, p.question, kind) for p in read_labelled_pairs(path)]
