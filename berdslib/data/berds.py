"""How the questions of BeRDS and their recorded query expansions are read, and fetched where they are not here."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from berdslib.data import formats
from berdslib.data.dataset import Dataset
from berdslib.data.download import download
from berdslib.data.fetch import cache_of, candidate_paths, data_paths, fetch_splits, missing
from berdslib.data.records import Question
from berdslib.data.tables import read_jsonl
from berdslib.errors import MissingDataError

logger = logging.getLogger(__name__)


def questions(one: Dataset, splits: Sequence[str]) -> list[Question]:
    """Return the questions of some splits, one split after the other.

    Raises:
        MissingDataError: a split is neither on this machine nor reachable.
        InputError: a file that cannot be read.
    """
    return [q for split in splits for q in _of_split(one, split)]


def expansions(one: Dataset, splits: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Return the recorded expansions: qid → [(name of the perspective, text), …].

    Raises:
        MissingDataError: another split than dev, or neither on this machine nor reachable.
        InputError: a file that cannot be read.
    """
    if tuple(splits) != ("dev",):
        raise MissingDataError(f"expansions of {one.name!r} were published for its dev split only; use split = 'dev'")
    remote = one.files[0]
    places = candidate_paths(one, (f"berds/{remote.name}",))
    path = next((p for p in places if p.is_file()), places[-1])
    if not path.is_file():
        try:
            download(remote.url, path, sha256=remote.sha256, size=remote.bytes)
        except MissingDataError as error:
            raise missing(one, "recorded expansions", places, [str(error)]) from None
    return {q.qid: texts for q, texts in formats.read_expansions(path, source=one.name, split="dev")}


def _of_split(one: Dataset, split: str) -> list[Question]:
    path = _file(one, split)
    logger.info("%s, %s split: read from %s", one.name, split, path)
    found = formats.read_questions(path, source=one.name)
    if path.name == one.files[0].name:
        logger.warning(
            "%s, %s split: %d questions of the recorded expansions stand in for the official file, which may hold more;"
            " with a network: berds data fetch %s", one.name, split, len(found), one.name,
        )  # fmt: skip
    _, first = next(read_jsonl(path))
    numbered = not first.keys() & {"qid", "id", "_id", "org_q"}
    start = one.dev_starts_at if numbered and split == "dev" else 0

    def named(q: Question, i: int) -> Question:
        label = str(start + i) if numbered else q.qid
        qid = label if label.startswith(f"{one.name}-") else f"{one.name}-{label}"
        return q._replace(qid=qid, source=one.name, split=split)

    return [named(q, i) for i, q in enumerate(found)]


def _file(one: Dataset, split: str) -> Path:
    places = _places(one, split)
    for path in places:
        if path.is_file():
            return path
    try:
        fetch_splits(one)
        reasons = [f"{one.hf_repo} has no {split} split"]
    except MissingDataError as error:
        reasons = [str(error)]
    if (fetched := cache_of(one) / f"{split}.jsonl").is_file():
        return fetched
    for other in one.splits:
        for path in _places(one, other):
            if other != split and path.is_file():
                reasons.append(f"Only the {other} split is here ({path}); it is never used in place of {split}.")
                break
    raise missing(one, f"{split} split", places, reasons)


def _places(one: Dataset, split: str) -> list[Path]:
    """The official file, below BERDS_DATA or fetched; then a part of it, recorded with the expansions (dev only)."""
    part = [f"berds/{one.files[0].name}"] if split == "dev" else []
    return [*data_paths([f"berds/{one.name}.{split}.jsonl"]), cache_of(one) / f"{split}.jsonl", *data_paths(part)]
