"""Labelled (document, perspective) pairs: what judges are measured on."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from berdslib.data.dataset import Dataset
from berdslib.data.fetch import candidate_paths, first_existing
from berdslib.data.tables import read_table, text_field
from berdslib.errors import InputError
from berdslib.files import StrPath

_LABELS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class LabelledPair(NamedTuple):
    """A document, a perspective of a question, and whether the document supports it."""

    question: str
    document: str
    perspective: str
    label: bool


def pairs_file(one: Dataset) -> Path:
    """Return the first file of labelled pairs of a data set that is there.

    Raises:
        MissingDataError: none is.
    """
    return first_existing(one, candidate_paths(one, one.local), "labelled pairs")


def read_labelled_pairs(path: StrPath) -> list[LabelledPair]:
    """Read pairs from TSV, CSV or JSONL with the columns question, document, perspective, label.

    A label is 1/0, true/false or yes/no. The published training script knows only the string "True", and so finds no
    positive example in the released file, which has 1/0 (divergences.md B10); here a file with one class is refused.

    Raises:
        InputError: a missing column, another label, no pairs, or labels all alike.
    """
    pairs = []
    for line, row in read_table(path):
        label = _LABELS.get(str(row.get("label", "")).strip().lower())
        if label is None:
            problem = f"{row.get('label')!r} is not a label; accepted: 1/0, true/false, yes/no"
            raise InputError(problem, path=path, line=line, field="label")
        question, document, perspective = (text_field(row, (name,), path, line) for name in LabelledPair._fields[:3])
        pairs.append(LabelledPair(question, document, perspective, label))
    if not pairs:
        raise InputError("holds no pairs", path=path)
    if len({p.label for p in pairs}) < 2:
        raise InputError("all labels are the same; a judge cannot be evaluated on one class", path=path, field="label")
    return pairs
