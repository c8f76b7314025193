"""How the questions that come with the package are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from berdslib import paths
from berdslib.data import formats
from berdslib.data.dataset import Dataset
from berdslib.data.records import Question
from berdslib.data.tables import read_jsonl, text_field
from berdslib.data.trec import read_verdicts


def questions(one: Dataset, splits: Sequence[str]) -> list[Question]:
    """Return the questions of some splits, in the order of the file."""
    return [q for q in formats.read_questions(paths.shipped(one.shipped) / "questions.jsonl") if q.split in splits]


def passages(one: Dataset) -> Path:
    """Return where the passages lie."""
    return paths.shipped(one.shipped) / "passages.jsonl"


def gold(one: Dataset) -> pd.DataFrame:
    """Return the gold verdicts of all splits."""
    return read_verdicts(paths.shipped(one.shipped) / "verdicts.tsv")


def expansions(one: Dataset, splits: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Return the recorded expansions: qid → [(name of the perspective, text), …]."""
    asked = {q.qid for q in questions(one, splits)}
    path = paths.shipped(one.shipped) / "expansions.jsonl"
    found: dict[str, list[tuple[str, str]]] = {}
    for line, row in read_jsonl(path):
        qid, label, text = (text_field(row, (f,), path, line) for f in ("qid", "name", "text"))
        if qid in asked:
            found.setdefault(qid, []).append((label, text))
    return found
