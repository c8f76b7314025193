"""Nearest-neighbour search behind one small interface: NumPy, faiss, or Milvus for corpora that outgrow one machine.

A saved index is named by kind and place: "ivf-pq:FOLDER", whole or in parts; "milvus:FILE.db", or a server's address.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from berdslib.errors import InputError, MissingDataError, known
from berdslib.files import atomic_path
from berdslib.models.corpus_vectors import VECTORS_FILE, open_vectors, part_of, write_vectors
from berdslib.models.manifest import MANIFEST_FILE, check_manifest, read_folder_manifest, write_manifest

Hits = list[tuple[np.ndarray, np.ndarray]]  # for each query: numbers of vectors, and their scores
# Maps the numbers of vectors with equal scores to sort keys, smaller first; keys of different calls do not compare.
TieOrder = Callable[[np.ndarray], np.ndarray]

# The size of a block of scores: 16 MiB of memory, however many vectors there are.
_QUERIES = 64
_ROWS = 65_536
_NEAR = 4  # candidates that are scored again, as a multiple of k


class Index:
    """Holds vectors and finds those with the largest dot product; subclasses implement the search.

    The smaller key of ``tie_order`` wins a tie; None means the order in which vectors were added. ``about`` returns
    their description (:func:`berdslib.models.corpus_vectors.about_vectors`), or {}.
    """

    _FILE = ""  # name of the file in a saved index's folder

    def __init__(self) -> None:
        self._n = 0
        self._dim = 0
        self.tie_order: TieOrder | None = None
        self.about: Callable[[], dict[str, Any]] = dict

    def __len__(self) -> int:
        """Return how many vectors it holds."""
        return self._n

    def add(self, vectors: np.ndarray) -> None:
        """Append float32 (n, d) vectors; they are numbered in their order."""
        if vectors.ndim != 2 or vectors.dtype != np.float32 or self._dim not in (0, vectors.shape[1]):
            raise InputError(f"vectors must be float32 (n, {self._dim or 'd'}), not {vectors.dtype} {vectors.shape}")
        self._add(vectors)
        self._n += len(vectors)
        self._dim = vectors.shape[1]

    def search(self, queries: np.ndarray, k: int) -> Hits:
        """Return for each query (numbers, scores) of its k nearest vectors, best first; fewer if fewer are found."""
        self._check_filled()
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self._dim:
            raise InputError(f"queries must be (n, {self._dim}), like the vectors, not {queries.shape}")
        return self._search(queries, min(k, self._n))

    def save(self, path: Path) -> None:
        """Write the index into a folder, which gets its name when it is complete."""
        self._check_filled()
        with atomic_path(path, marker=MANIFEST_FILE) as folder:
            folder.mkdir()
            self._save(folder / self._FILE)
            write_manifest(folder, self.about())

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a saved index, memory-mapped; also a single file of vectors, or of faiss."""
        path = Path(path)
        if not path.is_dir():
            return cls._opened(path)
        about = read_folder_manifest(path)
        index = cls._opened(path / cls._FILE)
        index.about = lambda: about
        return index

    def _check_filled(self) -> None:
        if not self._n:
            raise InputError("the index is empty")

    def _add(self, vectors: np.ndarray) -> None:
        raise NotImplementedError

    def _search(self, queries: np.ndarray, k: int) -> Hits:
        raise NotImplementedError

    def _save(self, file: Path) -> None:
        raise NotImplementedError

    @classmethod
    def _opened(cls, file: Path) -> Self:
        raise NotImplementedError


class NumpyIndex(Index):
    """Exact search; candidates from float32 are scored again, so that a score depends on its two vectors alone."""

    _FILE = VECTORS_FILE
    _vectors: np.ndarray

    def _add(self, vectors: np.ndarray) -> None:
        # The first batch is not copied: it may be memory-mapped.
        self._vectors = np.concatenate([self._vectors, vectors]) if self._n else vectors

    def _search(self, queries: np.ndarray, k: int) -> Hits:
        near = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)) for _ in queries]
        for start in range(0, self._n, _ROWS):
            block = np.asarray(self._vectors[start : start + _ROWS])
            for first in range(0, len(queries), _QUERIES):
                products = queries[first : first + _QUERIES] @ block.T
                if not np.isfinite(products).all():
                    raise InputError("vectors or queries contain numbers that are not finite, or too large")
                for i, scores in enumerate(products, start=first):
                    rows, best = near[i]
                    full = len(best) >= _NEAR * k
                    new = np.flatnonzero(scores >= best.min()) if full else np.arange(len(scores))
                    near[i] = _largest(np.append(rows, new + start), np.append(best, scores[new]), _NEAR * k)
        return _scored_again(self._vectors, queries, near, k, self.tie_order)

    def _save(self, file: Path) -> None:
        write_vectors(file, self._n, [self._vectors])

    @classmethod
    def _opened(cls, file: Path) -> Self:
        index = cls()
        index.add(open_vectors(file))
        return index


def _cells(n: int) -> int:
    """Return the number of cells for n vectors: 4 √n, as faiss' authors advise, with at least 39 vectors a cell."""
    return max(1, min(int(4 * n**0.5), n // 39))


def _bytes_of_code(dim: int) -> int:
    """Return the bytes in a vector's code: the most that divide the vector into equal parts of 4 numbers or more.

    >>> _bytes_of_code(384), _bytes_of_code(10)
    (96, 2)
    """
    return max(parts for parts in range(1, max(1, dim // 4) + 1) if dim % parts == 0)


# Descriptions for faiss' index factory; "np": no polysemous codes, which are slow to learn and never used here.
_FAISS = {"flat": "Flat", "hnsw": "HNSW32", "ivf": "IVF{cells},Flat", "ivf-pq": "IVF{cells},PQ{code}np"}


_EFFORT = 128


class FaissIndex(Index):
    """Search with faiss, which also decides ties at rank k.

    Args:
        kind: "flat" (exact), or approximate: "ivf" (vectors in cells, of which the nearest are searched), "hnsw" (a
            graph of neighbours), or "ivf-pq" (cells, and short codes in place of vectors; see :class:`Rescored`).
        effort: the number of cells ("ivf", "ivf-pq") or candidates ("hnsw") searched for a query; saved with the
            index. It can be set at any time.
    """

    _FILE = "index.faiss"

    def __init__(self, *, kind: str = "flat", effort: int = _EFFORT) -> None:
        if effort < 1:
            raise InputError(f"must be at least 1, not {effort}", field="effort")
        super().__init__()
        self._index: Any = None
        self._file: Path | None = None  # the mapped file
        self._kind = known("kind of faiss index", kind, _FAISS)
        self.effort = effort

    def _add(self, vectors: np.ndarray) -> None:
        if self._file is not None:  # faiss would crash the process
            raise InputError("an opened index is mapped from its file and cannot grow; build a new one of all vectors")
        if self._index is None:
            self.learn(vectors)
        self._index.add(np.ascontiguousarray(vectors))

    def learn(self, vectors: np.ndarray, file: Path | None = None) -> None:
        """Learn cells and codes from vectors; other parts of the index read them from `file`."""
        import faiss

        if file is not None and file.exists():
            self._index = faiss.read_index(str(file))
            return
        n, dim = vectors.shape
        if self._kind == "ivf-pq" and n < 256:
            raise InputError(f"'ivf-pq' learns its codes from 256 vectors or more, not {n}")
        description = _FAISS[self._kind].format(cells=_cells(n), code=_bytes_of_code(dim))
        index: Any = faiss.index_factory(dim, description, faiss.METRIC_INNER_PRODUCT)
        # Silences faiss' warning about fewer than 39 training points a cell.
        if self._kind in ("ivf", "ivf-pq"):
            index.cp.min_points_per_centroid = 1
        if self._kind == "ivf-pq":
            index.pq.cp.min_points_per_centroid = 1
        index.train(np.ascontiguousarray(vectors))
        self._index = index
        if file is not None:
            with atomic_path(file) as unfinished:
                _write(index, unfinished)

    def _search(self, queries: np.ndarray, k: int) -> Hits:
        self._set_effort(self._index, k)
        hits: Hits = []
        for scores, rows in zip(*self._index.search(queries, k), strict=True):
            found = rows >= 0
            hits.append(best_of(rows[found], scores[found], k, self.tie_order))
        return hits

    def _set_effort(self, index: Any, k: int = 1) -> None:
        if hasattr(index, "nprobe"):
            index.nprobe = self.effort
        if hasattr(index, "hnsw"):
            index.hnsw.efSearch = max(self.effort, k)

    def _save(self, file: Path) -> None:
        import faiss

        # For mapped cells, faiss would write the name of their file instead of their content.
        whole: Any = self._index if self._file is None else faiss.read_index(str(self._file))
        self._set_effort(whole)
        _write(whole, file)

    @classmethod
    def _opened(cls, file: Path) -> Self:
        import faiss

        try:
            # The first flag maps the vectors of "flat" and "hnsw", the second the cells of "ivf" and "ivf-pq".
            index: Any = faiss.read_index(str(file), faiss.IO_FLAG_MMAP_IFC)
            if isinstance(index, faiss.IndexIVF):
                index = faiss.read_index(str(file), faiss.IO_FLAG_MMAP)
                # Otherwise each call starts 32 threads to read ahead, which is slower than a search in memory.
                cells: Any = faiss.downcast_InvertedLists(index.invlists)
                cells.prefetch_nthread = 0
        except RuntimeError as error:
            raise InputError(f"is not a complete faiss index: {str(error).splitlines()[-1]}", path=file) from None
        if index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise InputError("must be a faiss index of dot products, not of distances", path=file)
        effort = index.hnsw.efSearch if hasattr(index, "hnsw") else getattr(index, "nprobe", _EFFORT)
        opened = cls(effort=effort)
        opened._index = index
        opened._file = file
        opened._n = index.ntotal
        opened._dim = index.d
        return opened


def _write(index: Any, file: Path) -> None:
    faiss: Any = importlib.import_module("faiss")
    with open(file, "wb") as target:  # faiss itself would not report why a write fails
        faiss.write_index(index, faiss.PyCallbackIOWriter(target.write))


class MilvusIndex(Index):
    """Search with Milvus, exact if embedded, approximate on a cluster; Milvus decides ties at rank k.

    `uri` is a file, or a server's address such as "http://host:19530" (its token is read from MILVUS_TOKEN). The
    collection there is named by a hash of `about`; one with all vectors is used as it is.
    """

    def __init__(self, uri: str, about: Mapping[str, Any]) -> None:
        super().__init__()
        name = hashlib.blake2b(repr(about).encode(), digest_size=16).hexdigest()
        self._uri = uri
        self.collection = f"berdslib_{name}"
        self._client = _milvus(uri)
        weakref.finalize(self, self._client.close)
        if self._held() == about["passages"]:
            fields = self._client.describe_collection(self.collection)["fields"]
            self._dim = next(int(field["params"]["dim"]) for field in fields if "dim" in field.get("params", {}))
            self._n = about["passages"]

    def send(self, vectors: np.ndarray, numbers: range) -> None:
        """Send vectors; those that an interrupted or a concurrent call sent are replaced by equal ones."""
        refused = importlib.import_module("pymilvus").MilvusException
        if self._held() is None:
            with suppress(refused):  # another process may create it at the same time
                self._client.create_collection(
                    self.collection,
                    dimension=vectors.shape[1],
                    metric_type="IP",
                    auto_id=False,
                    consistency_level="Strong",  # new vectors are found at once
                )
                if "://" not in self._uri:  # embedded, each process would build the graph again
                    self._client.release_collection(self.collection)
                    self._client.drop_index(self.collection, "vector")
                    exact = self._client.prepare_index_params("vector", index_type="FLAT", metric_type="IP")
                    self._client.create_index(self.collection, exact)
                    self._client.load_collection(self.collection)
        size = max(1, 2**22 // (4 * vectors.shape[1]))  # 4 MiB
        for start in range(0, len(vectors), size):
            part = vectors[start : start + size]
            rows = [{"id": i, "vector": vector} for i, vector in zip(numbers[start:], part, strict=False)]
            try:
                self._client.upsert(self.collection, rows)
            except refused as error:
                raise InputError(f"Milvus refuses the vectors: {error.message}", path=self._uri) from None

    def _held(self) -> int | None:
        """Return the number of vectors in the collection, or None if it does not exist."""
        if not self._client.has_collection(self.collection):
            return None
        self._client.load_collection(self.collection)
        return int(self._client.query(self.collection, filter="", output_fields=["count(*)"])[0]["count(*)"])

    def _search(self, queries: np.ndarray, k: int) -> Hits:
        hits: Hits = []
        for start in range(0, len(queries), _QUERIES):
            part = list(queries[start : start + _QUERIES])
            for of_query in self._client.search(self.collection, data=part, limit=k, output_fields=["id"]):
                rows = np.array([hit["id"] for hit in of_query], dtype=np.int64)
                scores = np.array([hit["distance"] for hit in of_query], dtype=np.float32)
                hits.append(best_of(rows, scores, k, self.tie_order))
        return hits


def _milvus(uri: str) -> Any:
    try:
        pymilvus = importlib.import_module("pymilvus")
    except ImportError:
        raise MissingDataError("a Milvus index needs pymilvus; install it: pip install 'berdslib[milvus]'") from None
    if "://" not in uri:
        _check_embedded(uri)
    try:
        # An embedded server that is pinged while idle complains on stderr.
        options = {} if "://" in uri else {"grpc_options": {"grpc.keepalive_permit_without_calls": False}}
        return pymilvus.MilvusClient(uri, token=os.environ.get("MILVUS_TOKEN", ""), **options)
    except (pymilvus.MilvusException, pymilvus.exceptions.ConnectionConfigException) as error:
        if "://" in uri:
            raise MissingDataError(f"no Milvus at {uri!r}: {error}") from None
        problem = (
            f"Milvus cannot open it: {error}. If another process has this file open, close that notebook or command, "
            "name another file, or start a server and use milvus:http://HOST:PORT"
        )
        raise InputError(problem, path=uri) from None


def _check_embedded(file: str) -> None:
    """Make the folder of an embedded Milvus' file, and silence its server."""
    if not file.endswith(".db"):
        raise InputError("a Milvus file must end in .db, and a server's address must begin with http://", path=file)
    try:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"its folder cannot be created: {error.strerror}", path=file) from None
    # They log a traceback for each unknown optional call, and for errors that are raised anyway.
    for name in ("grpc._server", "milvus_lite.server_manager"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


class Rescored(Index):
    """Search with an index of approximate scores; the vectors (n, d) score its `depth` best candidates again."""

    def __init__(self, index: Index, vectors: np.ndarray, depth: int = 400) -> None:
        super().__init__()
        if not len(index) or len(index) != len(vectors):
            raise InputError(f"the index holds {len(index)} vectors, but rescoring has {len(vectors)}")
        self._index = index
        self._vectors = vectors
        self._depth = depth
        self.about = index.about
        self._n, self._dim = vectors.shape

    def _search(self, queries: np.ndarray, k: int) -> Hits:
        near = self._index.search(queries, max(self._depth, k))
        return _scored_again(self._vectors, queries, near, k, self.tie_order)


INDEXES: dict[str, Callable[..., Index]] = {
    "numpy": NumpyIndex,
    "faiss": FaissIndex,
    "faiss-ivf": partial(FaissIndex, kind="ivf"),
    "faiss-hnsw": partial(FaissIndex, kind="hnsw"),
    "faiss-ivf-pq": partial(FaissIndex, kind="ivf-pq"),
    "milvus": MilvusIndex,
}


def split_name(name: str) -> tuple[str, str]:
    """Return the kind of an index, and the place where it is saved, or "".

    >>> split_name("ivf-pq:wikipedia.index")
    ('faiss-ivf-pq', 'wikipedia.index')
    """
    kind, _, place = name.partition(":")
    known("index", kind, [*INDEXES, *_FAISS])
    if kind == "flat":
        return "faiss", place
    return f"faiss-{kind}" if kind in _FAISS else kind, place


def make_index(name: str, effort: int | None = None) -> Index:
    """Return an empty index by name, a key of ``INDEXES``; `effort` is that of :class:`FaissIndex`."""
    kind, place = split_name(name)
    if effort is not None and not kind.startswith("faiss-"):
        raise InputError(f"index {name!r} has no effort setting; only approximate faiss indexes do", field="effort")
    if place:
        raise InputError(f"index {name!r} is saved for one corpus; name it with a retriever", field="index")
    if kind == "milvus":
        raise InputError("a Milvus index needs a place: milvus:FILE.db or milvus:http://HOST:PORT", field="index")
    return INDEXES[kind](**({} if effort is None else {"effort": effort}))


def _scored_again(vectors: np.ndarray, queries: np.ndarray, near: Hits, k: int, ties: TieOrder | None) -> Hits:
    """Return the k best candidates by dot products in float64; each is summed alone, so that batches do not matter."""
    hits: Hits = []
    for query, (candidates, _) in zip(queries.astype(np.float64), near, strict=True):
        rows = np.sort(candidates)  # in their order on disk
        parts = (rows[start : start + 1024] for start in range(0, len(rows), 1024))
        scores = np.concatenate([np.empty(0), *((vectors[part] * query).sum(axis=1) for part in parts)])
        hits.append(best_of(rows, scores, k, ties))
    return hits


def _largest(rows: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest scores and all ties with the last of them, in their order."""
    if len(rows) <= k:
        return rows, scores
    smaller = len(scores) - k
    largest = scores >= np.partition(scores, smaller)[smaller]
    return rows[largest], scores[largest]


def best_of(rows: np.ndarray, scores: np.ndarray, k: int, ties: TieOrder | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best, best first; `ties` is called for equal scores only."""
    rows, scores = _largest(rows, scores, k)
    order = np.argsort(-scores, kind="stable")
    same = np.diff(scores[order]) == 0
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if len(tied):
        part = order[tied]
        first = rows[part] if ties is None else ties(rows[part])
        order[tied] = part[np.lexsort((first, -scores[part]))]
    return rows[order[:k]], scores[order[:k]]


# ---------------------------------------------------------------- saved indexes


class Parts(Index):
    """Searches several indexes as one; vectors are numbered across them in order."""

    def __init__(self, parts: Sequence[Index]) -> None:
        super().__init__()
        self._parts = parts
        self._n = sum(map(len, parts))
        self._dim = parts[0]._dim

    def _search(self, queries: np.ndarray, k: int) -> Hits:
        starts = np.cumsum([0, *map(len, self._parts)])
        of_parts = [part.search(queries, k) for part in self._parts]
        hits: Hits = []
        for of_query in zip(*of_parts, strict=True):
            rows = np.concatenate([rows + start for (rows, _), start in zip(of_query, starts, strict=False)])
            scores = np.concatenate([scores for _, scores in of_query])
            hits.append(best_of(rows, scores, k, self.tie_order))
        return hits


def build_kept(
    name: str, about: dict[str, Any], vectors: np.ndarray, part: tuple[int, int] = (1, 1), effort: int | None = None
) -> None:
    """Build a part, such as (3, 16), of an index of all vectors, unless it exists.

    `about` describes the vectors. The first call learns the cells of "ivf" and "ivf-pq" for all parts, so that the
    parts together find what a single index finds.
    """
    kind, place = split_name(name)
    rows = part_of(len(vectors), part)
    if not rows:
        raise InputError(f"{len(vectors)} vectors are too few for {part[1]} parts", field="part")
    if kind == "milvus":
        collection = MilvusIndex(place, about)
        if not len(collection):
            collection.send(vectors[rows.start : rows.stop], rows)
        return
    from filelock import FileLock

    folder = Path(place)
    folder.mkdir(parents=True, exist_ok=True)
    index = make_index(kind, effort=effort)
    target = folder / "{}-of-{}".format(*part)
    with FileLock(folder / ".lock"):
        check_manifest(folder, {**about, "index": kind})
        if isinstance(index, FaissIndex) and part[1] > 1:
            index.learn(vectors, folder / "learnt.faiss")
    with FileLock(folder / f".{target.name}.lock"):
        if not (target / MANIFEST_FILE).exists():
            index.add(vectors[rows.start : rows.stop])
            index.about = lambda: about
            index.save(target)


def kept(name: str, about: dict[str, Any], vectors: Callable[[], np.ndarray]) -> Index:
    """Open a saved index, and build it first if it does not exist."""
    index = _opened(name, about)
    if index is None:
        build_kept(name, about, vectors())
        index = _opened(name, about)
    assert index is not None
    return index


def _opened(name: str, about: dict[str, Any]) -> Index | None:
    """Open an index of the vectors that `about` describes; None without one, or with an incomplete one in Milvus."""
    kind, place = split_name(name)
    if kind == "milvus":
        collection = MilvusIndex(place, about)
        return collection if len(collection) else None
    folder = Path(place)
    if not (folder / MANIFEST_FILE).exists():
        return None
    check_manifest(folder, {**about, "index": kind})
    missing = list[int]()
    n = 0
    for n, missing in missing_parts(folder).items():
        if not missing:
            parts = [FaissIndex.open(folder / f"{number}-of-{n}") for number in range(1, n + 1)]
            return parts[0] if n == 1 else Parts(parts)
    if missing:
        problem = f"these of {n} parts are missing: {', '.join(map(str, missing))}"
        raise InputError(f"{problem}; build them with berds data index … --part {missing[0]}/{n}", path=folder)
    return None


def missing_parts(folder: Path) -> dict[int, list[int]]:
    """Return, for each number of parts in which an index was begun, the parts that are missing."""
    manifests = folder.glob(f"[0-9]*-of-*/{MANIFEST_FILE}")
    begun = {int(manifest.parent.name.partition("-of-")[2]) for manifest in manifests}
    return {
        n: [number for number in range(1, n + 1) if not (folder / f"{number}-of-{n}" / MANIFEST_FILE).exists()]
        for n in sorted(begun)
    }
