"""Exact nearest-neighbour search behind one small interface: NumPy, or faiss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from berdslib.errors import InputError, known
from berdslib.retrieval.base import top_k


class Index(Protocol):
    """Holds vectors and finds those with the largest dot product."""

    def add(self, vectors: np.ndarray) -> None:
        """Append float32 (n, d) vectors; they are numbered in the order in which they come."""
        ...

    def search(self, queries: np.ndarray, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return for each query the numbers and scores of its k nearest vectors, best first."""
        ...

    def save(self, path: Path) -> None:
        """Write the index to a file."""
        ...


class NumpyIndex:
    """Exact search as one matrix product; ties go to the smaller number in `tie_order`.

    Args:
        tie_order: (n,) int, smaller wins among equal scores; None for the order in which vectors were added.
    """

    def __init__(self, tie_order: np.ndarray | None = None) -> None:
        self._vectors: np.ndarray | None = None
        self._ties = tie_order

    def add(self, vectors: np.ndarray) -> None:
        """Append float32 (n, d) vectors; the first batch is kept as it is, memory-mapped or not."""
        _check_vectors(vectors)
        self._vectors = vectors if self._vectors is None else np.concatenate([self._vectors, vectors])

    def search(self, queries: np.ndarray, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return for each query (numbers, scores) of its k best vectors; fewer where there are fewer."""
        if self._vectors is None:
            raise InputError("the index is empty")
        ties = np.arange(len(self._vectors)) if self._ties is None else self._ties
        found = []
        for start in range(0, len(queries), 64):  # 64 rows of scores at a time bound the memory
            for scores in np.asarray(queries[start : start + 64]) @ self._vectors.T:
                rows = top_k(scores, k, ties)
                found.append((rows, scores[rows]))
        return found

    def save(self, path: Path) -> None:
        """Write the vectors as .npy."""
        if self._vectors is None:
            raise InputError("the index is empty")
        with open(path, "wb") as file:
            np.save(file, self._vectors)

    @classmethod
    def open(cls, path: Path) -> NumpyIndex:
        """Open saved vectors, memory-mapped."""
        index = cls()
        index.add(np.load(path, mmap_mode="r"))
        return index


class FaissIndex:
    """Exact search with faiss (IndexFlatIP). Which of several equal scores wins at rank k is left to faiss.

    Args:
        tie_order: accepted so that indexes can be exchanged; equal scores within the list are ordered by it.
    """

    def __init__(self, tie_order: np.ndarray | None = None) -> None:
        self._index: Any = None
        self._ties = tie_order

    def add(self, vectors: np.ndarray) -> None:
        """Append float32 (n, d) vectors (copied into faiss)."""
        import faiss

        _check_vectors(vectors)
        if self._index is None:
            self._index = faiss.IndexFlatIP(vectors.shape[1])
        self._index.add(np.ascontiguousarray(vectors, dtype=np.float32))

    def search(self, queries: np.ndarray, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return for each query (numbers, scores) of its k best vectors; fewer where there are fewer."""
        if self._index is None:
            raise InputError("the index is empty")
        k = min(k, self._index.ntotal)
        scores, rows = self._index.search(np.ascontiguousarray(queries, dtype=np.float32), k)
        ties = rows if self._ties is None else self._ties[rows]
        order = np.lexsort((ties, -scores), axis=1)
        return [(r[o], s[o]) for r, s, o in zip(rows, scores, order, strict=True)]

    def save(self, path: Path) -> None:
        """Write the index in faiss' own format."""
        import faiss

        if self._index is None:
            raise InputError("the index is empty")
        faiss.write_index(self._index, str(path))

    @classmethod
    def open(cls, path: Path) -> FaissIndex:
        """Open a saved index."""
        import faiss

        index = cls()
        index._index = faiss.read_index(str(path))
        return index


INDEXES: dict[str, Callable[[np.ndarray | None], Index]] = {"numpy": NumpyIndex, "faiss": FaissIndex}


def make_index(name: str, tie_order: np.ndarray | None = None) -> Index:
    """Return an empty index by name ("numpy" or "faiss").

    Raises:
        InputError: an unknown name.
    """
    return INDEXES[known("index", name, INDEXES)](tie_order)


def _check_vectors(vectors: np.ndarray) -> None:
    if vectors.ndim != 2 or vectors.dtype != np.float32:
        raise InputError(f"vectors must be float32 (n, d), not {vectors.dtype} {vectors.shape}")
