"""Nearest-neighbour search behind one small interface: NumPy, faiss, or Milvus for what outgrows one machine."""

from __future__ import annotations

import importlib
import json
import logging
import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from berdslib.errors import InputError, MissingDataError, known
from berdslib.retrieval.base import top_k

Hits = list[tuple[np.ndarray, np.ndarray]]  # for each query: numbers of vectors, and their scores

_QUERIES, _ROWS = 64, 65_536  # of one block of scores: 16 MiB of memory, however many vectors there are


class Index(Protocol):
    """Holds vectors and finds those with the largest dot product."""

    def add(self, vectors: np.ndarray) -> None:
        """Append float32 (n, d) vectors; they are numbered in the order in which they come."""
        ...

    def search(self, queries: np.ndarray, k: int) -> Hits:
        """Return for each query the numbers and scores of its k nearest vectors, best first."""
        ...

    def save(self, path: Path) -> None:
        """Write the index, which appears under its name only when complete."""
        ...

    @classmethod
    def open(cls, path: Path, tie_order: np.ndarray | None = None) -> Self:
        """Open what `save` wrote, memory-mapped where the format allows it.

        Raises:
            InputError: it is not there, not complete, or another kind of index.
        """
        ...


class NumpyIndex:
    """Exact search as a matrix product in blocks; ties go to the smaller number in `tie_order`.

    Args:
        tie_order: (n,) int, smaller wins among equal scores; None for the order in which vectors were added.
    """

    def __init__(self, tie_order: np.ndarray | None = None) -> None:
        self._vectors: np.ndarray | None = None
        self._ties = tie_order

    def add(self, vectors: np.ndarray) -> None:
        """Append float32 (n, d) vectors; the first batch is kept as it is, memory-mapped or not."""
        _check_vectors(vectors, None if self._vectors is None else self._vectors.shape[1])
        self._vectors = vectors if self._vectors is None else np.concatenate([self._vectors, vectors])

    def search(self, queries: np.ndarray, k: int) -> Hits:
        """Return for each query (numbers, scores) of its k best vectors; fewer where there are fewer.

        Memory beside the vectors: 16 MiB, and 16 bytes for each hit. Vectors on disk are read once in a call.
        """
        if self._vectors is None:
            raise InputError("the index is empty")
        queries = _as_queries(queries, self._vectors.shape[1])
        best: Hits = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)) for _ in queries]
        for start in range(0, len(self._vectors), _ROWS):
            block = np.asarray(self._vectors[start : start + _ROWS])
            for first in range(0, len(queries), _QUERIES):
                for i, scores in enumerate(queries[first : first + _QUERIES] @ block.T, start=first):
                    best[i] = self._better(best[i], scores, start, k)
        return best

    def _better(
        self, best: tuple[np.ndarray, np.ndarray], scores: np.ndarray, start: int, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best of those found so far and of a block of scores, of the vectors from `start` on."""
        if len(best[0]) < k:
            new = top_k(scores, k, self._order_of(np.arange(start, start + len(scores))))
        else:  # of a later block hardly any score is as good as the k-th best so far
            new = np.flatnonzero(scores >= best[1][-1])
            if not len(new):
                return best
        rows, values = np.concatenate([best[0], new + start]), np.concatenate([best[1], scores[new]])
        order = top_k(values, k, self._order_of(rows))
        return rows[order], values[order]

    def _order_of(self, rows: np.ndarray) -> np.ndarray:
        return rows if self._ties is None else self._ties[rows]

    def save(self, path: Path) -> None:
        """Write the vectors as .npy, complete or not at all."""
        if self._vectors is None:
            raise InputError("the index is empty")
        with whole(path) as unfinished, open(unfinished, "wb") as file:
            np.save(file, self._vectors)

    @classmethod
    def open(cls, path: Path, tie_order: np.ndarray | None = None) -> Self:
        """Open saved vectors, memory-mapped.

        Raises:
            InputError: no complete .npy file of float32 (n, d) is there.
        """
        try:
            vectors = np.load(path, mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"holds no saved vectors: {error}", path=path) from None
        if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype != np.float32:
            raise InputError("holds no float32 vectors (n, d)", path=path)
        index = cls(tie_order)
        index.add(vectors)
        return index


def _cells(n: int) -> int:
    """Return into how many cells n vectors go: 4 √n, as faiss' authors advise, with 39 vectors to learn each from."""
    return max(1, min(int(4 * n**0.5), n // 39))


def _bytes_of_code(dim: int) -> int:
    """Return the number of bytes that stand for a vector: the largest that divides it into parts of 4 numbers or more.

    >>> _bytes_of_code(384), _bytes_of_code(10)
    (96, 2)
    """
    return max(m for m in range(1, max(1, dim // 4) + 1) if dim % m == 0)


# What faiss' index factory is told; "np": no polysemous codes, which are slow to learn, and no search here uses them.
_FAISS = {"flat": "Flat", "hnsw": "HNSW32", "ivf": "IVF{cells},Flat", "ivf-pq": "IVF{cells},PQ{code}np"}


class FaissIndex:
    """Search with faiss. Which of several equal scores wins at rank k is left to faiss.

    Args:
        tie_order: accepted so that indexes can be exchanged; equal scores within the list are ordered by it.
        kind: "flat" (exact); or approximate, see :func:`index_recall`: "ivf" (vectors in cells, of which the nearest
            are searched), "hnsw" (a graph of neighbours; slow to build, fast to search), or "ivf-pq" (cells, and a
            vector of 384 numbers in 96 bytes, so that scores are approximate too).
        effort: the cells ("ivf", "ivf-pq") or the candidates ("hnsw") looked at for a query.

    Raises:
        InputError: an unknown kind.
    """

    def __init__(self, tie_order: np.ndarray | None = None, *, kind: str = "flat", effort: int = 128) -> None:
        self._index: Any = None
        self._ties, self._kind, self._effort = tie_order, known("kind of faiss index", kind, _FAISS), effort

    def add(self, vectors: np.ndarray) -> None:
        """Append float32 (n, d) vectors (copied into faiss); "ivf" and "ivf-pq" learn their cells from the first batch.

        Raises:
            InputError: not such vectors, or fewer than 256 at first for "ivf-pq".
        """
        import faiss

        _check_vectors(vectors, None if self._index is None else self._index.d)
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        if self._index is None:
            if self._kind == "ivf-pq" and len(vectors) < 256:
                raise InputError(f"the codes of 'ivf-pq' are learned from 256 vectors or more, not {len(vectors)}")
            n, dim = vectors.shape
            description = _FAISS[self._kind].format(cells=_cells(n), code=_bytes_of_code(dim))
            index: Any = faiss.index_factory(dim, description, faiss.METRIC_INNER_PRODUCT)
            for learning in [index] if self._kind == "ivf" else [index, index.pq] if self._kind == "ivf-pq" else []:
                learning.cp.min_points_per_centroid = 1  # fewer than 39 are no news to the user
            index.train(vectors)
            self._index = index
        self._index.add(vectors)

    def search(self, queries: np.ndarray, k: int) -> Hits:
        """Return for each query (numbers, scores) of its k best vectors; fewer where fewer are found."""
        if self._index is None:
            raise InputError("the index is empty")
        queries = _as_queries(queries, self._index.d)
        k = min(k, self._index.ntotal)
        if hasattr(self._index, "nprobe"):
            self._index.nprobe = self._effort
        if hasattr(self._index, "hnsw"):
            self._index.hnsw.efSearch = max(self._effort, k)
        scores, rows = self._index.search(queries, k)
        return [_ordered(r[r >= 0], s[r >= 0], self._ties) for r, s in zip(rows, scores, strict=True)]

    def save(self, path: Path) -> None:
        """Write the index in faiss' own format, complete or not at all."""
        import faiss

        if self._index is None:
            raise InputError("the index is empty")
        with whole(path) as unfinished:
            faiss.write_index(self._index, str(unfinished))

    @classmethod
    def open(cls, path: Path, tie_order: np.ndarray | None = None) -> Self:
        """Open a saved index of any kind, memory-mapped.

        Raises:
            InputError: no complete faiss index is there, or one that finds the smallest distance.
        """
        import faiss

        try:
            # The first flag maps the vectors of "flat" and "hnsw", the second the cells of "ivf" and "ivf-pq".
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
            if isinstance(index, faiss.IndexIVF):
                index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
        except RuntimeError as error:
            raise InputError(f"holds no complete faiss index: {str(error).splitlines()[-1]}", path=path) from None
        if index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise InputError("is a faiss index of distances; one of dot products is needed", path=path)
        opened = cls(tie_order)
        opened._index = index
        return opened


_MILVUS_MOST = 16_384  # the most hits that a Milvus server gives for a query


class MilvusIndex:
    """Search with Milvus: embedded, in files, or on a cluster. Which of several equal scores wins is left to Milvus.

    It chooses its own kind of index and searches approximately, so that for a large k it may find fewer.

    Args:
        tie_order: equal scores within the list are ordered by it.
        uri: of a server, such as "http://host:19530" (its token, if it wants one, is read from MILVUS_TOKEN); None for
            the embedded one, in temporary files. On a server the vectors stay in a collection of their own.

    Raises:
        MissingDataError: pymilvus is not installed, or no server answers.
    """

    def __init__(self, tie_order: np.ndarray | None = None, *, uri: str | None = None) -> None:
        self._ties, self._uri = tie_order, uri
        self.collection, self._n, self._dim = f"berdslib_{uuid.uuid4().hex}", 0, 0
        self._folder = None if uri else _temporary_folder()
        place = uri or str(Path(self._folder.name) / "vectors.db")  # type: ignore[union-attr]
        self._client = _milvus(place)
        weakref.finalize(self, _release, self._client, place)

    def add(self, vectors: np.ndarray) -> None:
        """Append float32 (n, d) vectors, sent in parts of 4 MiB."""
        _check_vectors(vectors, self._dim or None)
        if not self._dim:
            self._dim = vectors.shape[1]
            self._client.create_collection(
                self.collection,
                dimension=self._dim,
                metric_type="IP",
                auto_id=False,
                consistency_level="Strong",  # what was added is found at once
            )
        size = max(1, 2**22 // (4 * self._dim))
        for start in range(0, len(vectors), size):
            part = vectors[start : start + size]
            rows = [{"id": self._n + start + i, "vector": vector} for i, vector in enumerate(part)]
            self._client.insert(self.collection, rows)
        self._n += len(vectors)

    def search(self, queries: np.ndarray, k: int) -> Hits:
        """Return for each query (numbers, scores) of its k best vectors; fewer where fewer are found.

        Raises:
            InputError: an empty index, or k above 16,384, which is the most that a Milvus server gives.
        """
        if not self._n:
            raise InputError("the index is empty")
        k = min(k, self._n)
        if k > _MILVUS_MOST:
            raise InputError(f"Milvus gives at most {_MILVUS_MOST:,} hits, not {k:,}", field="k")
        queries = _as_queries(queries, self._dim)
        hits: Hits = []
        for start in range(0, len(queries), _QUERIES):
            part = list(queries[start : start + _QUERIES])
            for found in self._client.search(self.collection, data=part, limit=k, output_fields=["id"]):
                rows = np.array([hit["id"] for hit in found], dtype=np.int64)
                scores = np.array([hit["distance"] for hit in found], dtype=np.float32)
                hits.append(_ordered(rows, scores, self._ties))
        return hits

    def save(self, path: Path) -> None:
        """Write a folder: the database of the embedded Milvus, or, where a server keeps it, only what it is called."""
        if not self._n:
            raise InputError("the index is empty")
        self._client.flush(self.collection)
        about = {"uri": self._uri, "collection": self.collection, "vectors": self._n, "dimension": self._dim}
        with whole(path, holding="milvus.json") as unfinished:
            unfinished.mkdir()
            if self._folder is not None:
                shutil.copytree(Path(self._folder.name) / "vectors.db", unfinished / "vectors.db")
            (unfinished / "milvus.json").write_text(json.dumps(about), encoding="utf-8")

    @classmethod
    def open(cls, path: Path, tie_order: np.ndarray | None = None) -> Self:
        """Open a saved index: a copy of the saved database, or the collection on its server.

        Raises:
            InputError: no complete one is there, or it holds another number of vectors than when it was saved.
            MissingDataError: pymilvus is not installed, or no server answers.
        """
        try:
            about = json.loads((Path(path) / "milvus.json").read_text(encoding="utf-8"))
            uri, name, n, dim = (about[field] for field in ("uri", "collection", "vectors", "dimension"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"holds no saved Milvus index: {error!r}", path=path) from None
        index = cls.__new__(cls)
        index._ties, index._uri, index._folder = tie_order, uri, None
        if uri is None:
            # One process at a time may have a database open, and it writes to it: so each opens a copy.
            index._folder = _temporary_folder()
            if not (Path(path) / "vectors.db").exists():
                raise InputError("holds no saved Milvus index: vectors.db is missing", path=path)
            shutil.copytree(Path(path) / "vectors.db", Path(index._folder.name) / "vectors.db")
            uri = str(Path(index._folder.name) / "vectors.db")
        index._client, index.collection, index._n, index._dim = _milvus(uri), name, n, dim
        weakref.finalize(index, _release, index._client, uri)
        held = 0
        if index._client.has_collection(name):
            index._client.load_collection(name)
            held = int(index._client.get_collection_stats(name)["row_count"])
        if held != n:
            raise InputError(f"was saved with {n} vectors, and collection {name} holds {held}", path=path)
        return index


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    # The embedded server may still write when the folder is removed.
    return tempfile.TemporaryDirectory(prefix="berdslib-milvus-", ignore_cleanup_errors=True)


def _milvus(uri: str) -> Any:
    try:
        pymilvus = importlib.import_module("pymilvus")
    except ImportError:
        raise MissingDataError("a Milvus index needs pymilvus; install it: pip install 'berdslib[milvus]'") from None
    if "://" not in uri:  # the embedded server logs, with a traceback, each optional call that it does not know
        logging.getLogger("grpc._server").setLevel(logging.CRITICAL)
    try:
        # An idle embedded server is not to be pinged: it would complain on stderr that it is pinged too often.
        options = {} if "://" in uri else {"grpc_options": {"grpc.keepalive_permit_without_calls": False}}
        return pymilvus.MilvusClient(uri, token=os.environ.get("MILVUS_TOKEN", ""), **options)
    except (pymilvus.MilvusException, pymilvus.exceptions.ConnectionConfigException) as error:
        raise MissingDataError(f"no Milvus at {uri!r}: {error}") from None


def _release(client: Any, uri: str) -> None:
    client.close()
    if "://" not in uri:  # else the embedded server keeps the vectors in memory, and writes them when the process ends
        importlib.import_module("milvus_lite.server_manager").server_manager_instance.release_server(uri)


INDEXES: dict[str, Callable[[np.ndarray | None], Index]] = {
    "numpy": NumpyIndex,
    "faiss": FaissIndex,
    "faiss-ivf": partial(FaissIndex, kind="ivf"),
    "faiss-hnsw": partial(FaissIndex, kind="hnsw"),
    "faiss-ivf-pq": partial(FaissIndex, kind="ivf-pq"),
    "milvus": MilvusIndex,
}


def make_index(name: str, tie_order: np.ndarray | None = None) -> Index:
    """Return an empty index by name.

    Args:
        name: a key of ``INDEXES``, or "milvus:URI" for a Milvus server.
        tie_order: (n,) int, smaller wins among equal scores.

    Raises:
        InputError: an unknown name.
        MissingDataError: Milvus was asked for and is not installed, or does not answer.
    """
    if name.startswith("milvus:") and len(name) > len("milvus:"):
        return MilvusIndex(tie_order, uri=name.removeprefix("milvus:"))
    return INDEXES[known("index", name, INDEXES)](tie_order)


def index_recall(index: Index, exact: Index, queries: np.ndarray, k: int) -> float:
    """Return the share of the true k nearest vectors that an index finds (recall@k), the mean over the queries.

    Of vectors that tie at rank k, those that `exact` chose count.

    Args:
        index: an approximate index.
        exact: an exact one, of the same vectors.
        queries: float32 (q, d), at least one.
        k: how many.
    """
    pairs = zip(index.search(queries, k), exact.search(queries, k), strict=True)
    return float(np.mean([np.isin(true, found).mean() for (found, _), (true, _) in pairs]))


@contextmanager
def whole(path: Path, holding: str | None = None) -> Iterator[Path]:
    """Yield a hidden name beside `path` to write to; it gets its own name only when the block ends without an error.

    Args:
        path: the file or folder to make or replace.
        holding: for a folder, a file that one of its kind holds; a folder without it is not replaced.

    Raises:
        InputError: nothing can be written there, or another folder is there.
    """
    path = Path(path)
    if path.is_dir() and not (holding and (path / holding).is_file()):
        raise InputError("is a folder of something else; it is not replaced", path=path)
    unfinished = path.with_name(f".{path.name[:50]}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        # Where a folder is replaced, there is none for a moment: folders cannot be exchanged in one step.
        old = path.rename(f"{unfinished}.old") if path.is_dir() else None
        os.replace(unfinished, path)
        if old is not None:
            shutil.rmtree(old)
    except BaseException as error:
        if unfinished.is_dir():
            shutil.rmtree(unfinished)
        else:
            unfinished.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(f"cannot be written: {error.strerror or error}", path=path) from None
        raise


def _ordered(rows: np.ndarray, scores: np.ndarray, ties: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    order = np.lexsort((rows if ties is None else ties[rows], -scores))
    return rows[order], scores[order]


def _check_vectors(vectors: np.ndarray, dim: int | None) -> None:
    if vectors.ndim != 2 or vectors.dtype != np.float32 or dim not in (None, vectors.shape[1]):
        raise InputError(f"vectors must be float32 (n, {dim or 'd'}), not {vectors.dtype} {vectors.shape}")


def _as_queries(queries: np.ndarray, dim: int) -> np.ndarray:
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    if queries.ndim != 2 or queries.shape[1] != dim:
        raise InputError(f"queries must be (n, {dim}), as the vectors are, not {queries.shape}")
    return queries
