"""How Theperspective is read: two perspectives a question, and the passages that argue for either."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from berdslib.data.dataset import Dataset
from berdslib.data.fetch import candidate_paths, first_existing
from berdslib.data.records import OPPOSE, SUPPORT, Question, make_verdicts
from berdslib.data.tables import read_jsonl, text_field
from berdslib.errors import InputError


def questions(one: Dataset, _splits: Sequence[str]) -> list[Question]:
    """Return the questions; they are not split.

    Raises:
        MissingDataError: they are not on this machine.
        InputError: a row without an id, a title or one of its perspectives.
    """
    path = _file(one)
    return [
        Question(
            qid=_qid(one, row, path, line),
            text=text_field(row, ("title",), path, line),
            perspectives=(text_field(row, ("t1",), path, line), text_field(row, ("t2",), path, line)),
            stances=(SUPPORT, OPPOSE),
            source=one.name,
        )
        for line, row in read_jsonl(path)
    ]


def gold(one: Dataset) -> pd.DataFrame:
    """Return the gold verdicts, which list supporting passages only.

    Raises:
        MissingDataError: they are not on this machine.
        InputError: a row whose ids of passages are no list.
    """
    path = _file(one)
    rows = []
    for line, row in read_jsonl(path):
        for pid, field in enumerate(("favor_ids", "against_ids")):
            ids = row.get(field)
            if not isinstance(ids, list) or not all(isinstance(i, int | str) for i in ids):
                raise InputError("a list of passage ids was expected", path=path, line=line, field=field)
            rows += [(_qid(one, row, path, line), pid, str(i), 1.0, True) for i in ids]
    return make_verdicts(rows, "gold")


def _file(one: Dataset) -> Path:
    return first_existing(one, candidate_paths(one, one.local[:1]), "questions")


def _qid(one: Dataset, row: Mapping[str, Any], path: Path, line: int) -> str:
    """Their own id; one of them holds a blank, which TREC files cannot carry."""
    return f"{one.name}-" + re.sub(r"\s", "-", text_field(row, ("id",), path, line))
