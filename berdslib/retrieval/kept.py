"""Indexes that are kept, by kind and place: "ivf-pq:FOLDER", whole or in parts; "milvus:FILE.db", or an address."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from berdslib.errors import InputError
from berdslib.models.corpus_vectors import part_of
from berdslib.models.manifest import MANIFEST, check_files, check_manifest, write_manifest
from berdslib.retrieval.index import FaissIndex, Hits, Index, MilvusIndex, TieOrder, best_of, make_index, split_name


class Parts(Index):
    """Searches several indexes as one; their vectors are numbered one after the other."""

    def __init__(self, parts: Sequence[Index], tie_order: TieOrder | None = None) -> None:
        super().__init__(tie_order)
        self._parts, self._n, self._dim = parts, sum(map(len, parts)), parts[0]._dim

    def _search(self, queries: np.ndarray, k: int) -> Hits:
        starts = np.cumsum([0, *map(len, self._parts)])
        found = [part.search(queries, k) for part in self._parts]
        hits: Hits = []
        for of_query in zip(*found, strict=True):
            rows = np.concatenate([rows + start for (rows, _), start in zip(of_query, starts, strict=False)])
            hits.append(best_of(rows, np.concatenate([scores for _, scores in of_query]), k, self.tie_order))
        return hits


def build_kept(
    name: str, about: dict[str, Any], vectors: np.ndarray, part: tuple[int, int] = (1, 1), effort: int | None = None
) -> None:
    """Build a part of an index, such as (3, 16), of all vectors, unless it is there.

    `about` says what they are of. The cells of "ivf" and "ivf-pq" are learnt once, by whoever comes first, so that all
    parts together find what one index would.
    """
    kind, place = split_name(name)
    if not (rows := part_of(len(vectors), part)):
        raise InputError(f"{len(vectors)} vectors are too few for {part[1]} parts", field="part")
    if kind == "milvus":
        if not len(sent := MilvusIndex(uri=place, about=about)):
            sent.send(vectors[rows.start : rows.stop], rows)
        return
    from filelock import FileLock

    folder = Path(place)
    folder.mkdir(parents=True, exist_ok=True)
    index, target = make_index(kind, effort=effort), folder / "{}-of-{}".format(*part)
    with FileLock(folder / ".lock"):
        check_files(folder, check_manifest(folder, said := {**about, "index": kind}))
        if isinstance(index, FaissIndex) and part[1] > 1:
            index.learn(vectors, learnt := folder / "learnt.faiss")
            write_manifest(folder, said, {learnt.name: learnt})
    with FileLock(folder / f".{target.name}.lock"):
        if not (target / MANIFEST).exists():
            index.add(vectors[rows.start : rows.stop])
            index.about = lambda: about
            index.save(target)


def kept(name: str, about: dict[str, Any], vectors: Callable[[], np.ndarray]) -> Index:
    """Open an index, which is built where there is none yet."""
    if (index := _opened(name, about)) is None:
        build_kept(name, about, vectors())
        index = _opened(name, about)
    assert index is not None
    return index


def _opened(name: str, about: dict[str, Any]) -> Index | None:
    """Open an index of vectors of which `about` tells, and no others; None where there is none, or parts of Milvus."""
    kind, place = split_name(name)
    if kind == "milvus":
        return found if len(found := MilvusIndex(uri=place, about=about)) else None
    folder = Path(place)
    if not (folder / MANIFEST).exists():
        return None
    check_manifest(folder, {**about, "index": kind})
    there = [tuple(map(int, found.parent.name.split("-of-"))) for found in folder.glob(f"*-of-*/{MANIFEST}")]
    for n in {n for _, n in there}:
        if not (lacking := [i for i in range(1, n + 1) if (i, n) not in there]):
            parts = [FaissIndex.open(folder / f"{i}-of-{n}") for i in range(1, n + 1)]
            return parts[0] if n == 1 else Parts(parts)
    if there:
        problem = f"lacks of {n} parts: {', '.join(map(str, lacking))}"
        raise InputError(f"{problem}; make them with berds data index … --part {lacking[0]}/{n}", path=folder)
    return None
