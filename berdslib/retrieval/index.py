"""Nearest-neighbour search behind one small interface: NumPy, faiss, or Milvus for what outgrows one machine.

An index is kept by kind and place: "ivf-pq:FOLDER", whole or in parts; "milvus:FILE.db", or a server's address.
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
from berdslib.models.corpus_vectors import VECTORS, open_vectors, part_of, write_vectors
from berdslib.models.manifest import MANIFEST, check_manifest, read_manifest, write_manifest

Hits = list[tuple[np.ndarray, np.ndarray]]  # for each query: numbers of vectors, and their scores
# Of vectors with equal scores, by their numbers: what orders them, the smaller first; comparable within one call only.
TieOrder = Callable[[np.ndarray], np.ndarray]

_QUERIES, _ROWS = 64, 65_536  # of one block of scores: 16 MiB of memory, however many vectors there are
_NEAR = 4  # times as many as are asked for are scored again


class Index:
    """Holds vectors and finds those with the largest dot product; the kinds of it say how.

    Of equal scores the smaller number by ``tie_order`` wins; None for the order in which vectors were added. ``about``
    says what they are of, :func:`berdslib.models.corpus_vectors.about_vectors`, or nothing.
    """

    _FILE = ""  # of a saved index's folder

    def __init__(self) -> None:
        self._n = 0
        self._dim = 0
        self.tie_order: TieOrder | None = None
        self.about: Callable[[], dict[str, Any]] = dict

    def __len__(self) -> int:
        """Return how many vectors it holds."""
        return self._n

    def add(self, vectors: np.ndarray) -> None:
        """Append float32 (n, d) vectors; they are numbered in the order in which they come."""
        if vectors.ndim != 2 or vectors.dtype != np.float32 or self._dim not in (0, vectors.shape[1]):
            raise InputError(f"vectors must be float32 (n, {self._dim or 'd'}), not {vectors.dtype} {vectors.shape}")
        self._add(vectors)
        self._n += len(vectors)
        self._dim = vectors.shape[1]

    def search(self, queries: np.ndarray, k: int) -> Hits:
        """Return for each query (numbers, scores) of its k nearest vectors, best first; fewer where fewer are found."""
        self._check_filled()
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self._dim:
            raise InputError(f"queries must be (n, {self._dim}), as the vectors are, not {queries.shape}")
        return self._search(queries, min(k, self._n))

    def save(self, path: Path) -> None:
        """Write the index into a folder, which appears under its name only when complete."""
        self._check_filled()
        with atomic_path(path, marker=MANIFEST) as folder:
            folder.mkdir()
            self._save(folder / self._FILE)
            write_manifest(folder, self.about())

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a saved index, memory-mapped; also a file of vectors, or of faiss, alone."""
        path = Path(path)
        if not path.is_dir():
            return cls._opened(path)
        about = read_manifest(path)
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
    """Exact search; a score depends on its two vectors alone, as the best of a product in float32 are scored again."""

    _FILE = VECTORS
    _vectors: np.ndarray

    def _add(self, vectors: np.ndarray) -> None:
        # The first batch is kept as it is, memory-mapped or not.
        self._vectors = np.concatenate([self._vectors, vectors]) if self._n else vectors

    def _search(self, queries: np.ndarray, k: int) -> Hits:
        near = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)) for _ in queries]
        for start in range(0, self._n, _ROWS):
            block = np.asarray(self._vectors[start : start + _ROWS])
            for first in range(0, len(queries), _QUERIES):
                of_block = queries[first : first + _QUERIES] @ block.T
                if not np.isfinite(of_block).all():
                    raise InputError("vectors or queries hold numbers that are not finite, or too large")
                for i, scores in enumerate(of_block, start=first):
                    rows, best = near[i]
                    new = np.flatnonzero(scores >= best.min()) if len(best) >= _NEAR * k else np.arange(len(scores))
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


_EFFORT = 128


class FaissIndex(Index):
    """Search with faiss, which also decides which of several equal scores wins at rank k.

    Args:
        kind: "flat" (exact), or approximate: "ivf" (vectors in cells, of which the nearest are searched), "hnsw" (a
            graph of neighbours), or "ivf-pq" (cells, and short codes in place of vectors; see :class:`Rescored`).
        effort: the cells ("ivf", "ivf-pq") or the candidates ("hnsw") looked at for a query; saved with the index. It
            can be set at any time.
    """

    _FILE = "index.faiss"

    def __init__(self, *, kind: str = "flat", effort: int = _EFFORT) -> None:
        if effort < 1:
            raise InputError(f"must be at least 1, not {effort}", field="effort")
        super().__init__()
        self._index: Any = None
        self._file: Path | None = None  # that is mapped
        self._kind = known("kind of faiss index", kind, _FAISS)
        self.effort = effort

    def _add(self, vectors: np.ndarray) -> None:
        if self._file is not None:  # faiss would end the process
            raise InputError("an opened index is mapped from its file and cannot grow; make a new one of all vectors")
        if self._index is None:
            self.learn(vectors)
        self._index.add(np.ascontiguousarray(vectors))

    def learn(self, vectors: np.ndarray, file: Path | None = None) -> None:
        """Learn cells and codes from vectors, by default the first batch; `file` keeps them for others."""
        import faiss

        if file is not None and file.exists():
            self._index = faiss.read_index(str(file))
            return
        n, dim = vectors.shape
        if self._kind == "ivf-pq" and n < 256:
            raise InputError(f"the codes of 'ivf-pq' are learned from 256 vectors or more, not {n}")
        description = _FAISS[self._kind].format(cells=_cells(n), code=_bytes_of_code(dim))
        index: Any = faiss.index_factory(dim, description, faiss.METRIC_INNER_PRODUCT)
        for learning in [index] if self._kind == "ivf" else [index, index.pq] if self._kind == "ivf-pq" else []:
            learning.cp.min_points_per_centroid = 1  # fewer than 39 are no news to the user
        index.train(np.ascontiguousarray(vectors))
        self._index = index
        if file is not None:
            with atomic_path(file) as unfinished:
                _write(index, unfinished)

    def _search(self, queries: np.ndarray, k: int) -> Hits:
        self._set_effort(self._index, k)
        scores, rows = self._index.search(queries, k)
        return [best_of(r[r >= 0], s[r >= 0], k, self.tie_order) for r, s in zip(rows, scores, strict=True)]

    def _set_effort(self, index: Any, k: int = 1) -> None:
        if hasattr(index, "nprobe"):
            index.nprobe = self.effort
        if hasattr(index, "hnsw"):
            index.hnsw.efSearch = max(self.effort, k)

    def _save(self, file: Path) -> None:
        import faiss

        # Of mapped cells, faiss would write the name of their file, not what is in them.
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
                # Else each call starts 32 threads to read ahead, which takes longer than to search what is in memory.
                cells: Any = faiss.downcast_InvertedLists(index.invlists)
                cells.prefetch_nthread = 0
        except RuntimeError as error:
            raise InputError(f"holds no complete faiss index: {str(error).splitlines()[-1]}", path=file) from None
        if index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise InputError("is a faiss index of distances; one of dot products is needed", path=file)
        opened = cls(effort=index.hnsw.efSearch if hasattr(index, "hnsw") else getattr(index, "nprobe", _EFFORT))
        opened._index = index
        opened._file = file
        opened._n = index.ntotal
        opened._dim = index.d
        return opened


def _write(index: Any, file: Path) -> None:
    faiss: Any = importlib.import_module("faiss")
    with open(file, "wb") as target:  # faiss itself would not say why a disk takes no more
        faiss.write_index(index, faiss.PyCallbackIOWriter(target.write))


class MilvusIndex(Index):
    """Search with Milvus, exactly if embedded, approximately on a cluster. It decides which of equal scores wins.

    `uri` is a file, or a server's address such as "http://host:19530" (its token is read from MILVUS_TOKEN), where a
    collection stays under the name of `about`. One that holds all vectors is taken as it is.
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
        """Send vectors; those that an interrupted call sent, or another sends right now, are replaced by the same."""
        refused = importlib.import_module("pymilvus").MilvusException
        if self._held() is None:
            with suppress(refused):  # another makes it at this moment
                self._client.create_collection(
                    self.collection,
                    dimension=vectors.shape[1],
                    metric_type="IP",
                    auto_id=False,
                    consistency_level="Strong",  # what was added is found at once
                )
                if "://" not in self._uri:  # embedded, its graph would be built anew by each process that opens it
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
                raise InputError(f"Milvus takes no vectors: {error.message}", path=self._uri) from None

    def _held(self) -> int | None:
        """Return how many vectors the collection holds, None where there is none of its name."""
        if not self._client.has_collection(self.collection):
            return None
        self._client.load_collection(self.collection)
        return int(self._client.query(self.collection, filter="", output_fields=["count(*)"])[0]["count(*)"])

    def _search(self, queries: np.ndarray, k: int) -> Hits:
        hits: Hits = []
        for start in range(0, len(queries), _QUERIES):
            part = list(queries[start : start + _QUERIES])
            for found in self._client.search(self.collection, data=part, limit=k, output_fields=["id"]):
                rows = np.array([hit["id"] for hit in found], dtype=np.int64)
                scores = np.array([hit["distance"] for hit in found], dtype=np.float32)
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
        # An idle embedded server is not to be pinged: it would complain on stderr that it is pinged too often.
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
    """Have the folder of an embedded Milvus' file there, and its server silent."""
    if not file.endswith(".db"):
        raise InputError("a file of Milvus ends in .db, and a server's address begins with http://", path=file)
    try:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"its folder cannot be made: {error.strerror}", path=file) from None
    # They log a traceback for each optional call that they do not know, and for errors that are reported below.
    for name in ("grpc._server", "milvus_lite.server_manager"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


class Rescored(Index):
    """Search with an index of approximate scores; its `depth` best candidates are scored by the vectors (n, d)."""

    def __init__(self, index: Index, vectors: np.ndarray, depth: int = 400) -> None:
        super().__init__()
        if not len(index) or len(index) != len(vectors):
            raise InputError(f"the index holds {len(index)} vectors, and {len(vectors)} are given to rescore with")
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
    """Return the kind of an index, and where it is kept, "" for nowhere; what is in a file or folder has its path.

    >>> split_name("ivf-pq:wikipedia.index")
    ('faiss-ivf-pq', 'wikipedia.index')
    """
    kind, _, place = name.partition(":")
    known("index", kind, [*INDEXES, *_FAISS])
    return "faiss" if kind == "flat" else f"faiss-{kind}" if kind in _FAISS else kind, place


def make_index(name: str, effort: int | None = None) -> Index:
    """Return an empty index by name, a key of ``INDEXES``; `effort` is that of :class:`FaissIndex`."""
    kind, place = split_name(name)
    if effort is not None and not kind.startswith("faiss-"):
        raise InputError(f"index {name!r} has no effort setting; only approximate faiss indexes do", field="effort")
    if place:
        raise InputError(f"index {name!r} is kept for one corpus; name it where a retriever is named", field="index")
    if kind == "milvus":
        raise InputError("Milvus keeps vectors at a place: milvus:FILE.db or milvus:http://HOST:PORT", field="index")
    return INDEXES[kind](**({} if effort is None else {"effort": effort}))


def _scored_again(vectors: np.ndarray, queries: np.ndarray, near: Hits, k: int, ties: TieOrder | None) -> Hits:
    """Return the k best of what is near by dot products in float64, each summed by itself, in one order."""
    hits: Hits = []
    for query, (found, _) in zip(queries.astype(np.float64), near, strict=True):
        rows = np.sort(found)  # as they lie on disk
        parts = (rows[start : start + 1024] for start in range(0, len(rows), 1024))
        scores = np.concatenate([np.empty(0), *((vectors[part] * query).sum(axis=1) for part in parts)])
        hits.append(best_of(rows, scores, k, ties))
    return hits


def _largest(rows: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest scores and all that tie with the last of them, in the order in which they come."""
    if len(rows) <= k:
        return rows, scores
    among = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
    return rows[among], scores[among]


def best_of(rows: np.ndarray, scores: np.ndarray, k: int, ties: TieOrder | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best, best first; only of equal scores it is asked which comes first."""
    rows, scores = _largest(rows, scores, k)
    order = np.argsort(-scores, kind="stable")
    same = np.diff(scores[order]) == 0
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if len(tied):
        part = order[tied]
        first = rows[part] if ties is None else ties(rows[part])
        order[tied] = part[np.lexsort((first, -scores[part]))]
    return rows[order[:k]], scores[order[:k]]


# ---------------------------------------------------------------- kept at a place


class Parts(Index):
    """Searches several indexes as one; their vectors are numbered one after the other."""

    def __init__(self, parts: Sequence[Index]) -> None:
        super().__init__()
        self._parts = parts
        self._n = sum(map(len, parts))
        self._dim = parts[0]._dim

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
    rows = part_of(len(vectors), part)
    if not rows:
        raise InputError(f"{len(vectors)} vectors are too few for {part[1]} parts", field="part")
    if kind == "milvus":
        sent = MilvusIndex(place, about)
        if not len(sent):
            sent.send(vectors[rows.start : rows.stop], rows)
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
        if not (target / MANIFEST).exists():
            index.add(vectors[rows.start : rows.stop])
            index.about = lambda: about
            index.save(target)


def kept(name: str, about: dict[str, Any], vectors: Callable[[], np.ndarray]) -> Index:
    """Open an index, which is built where there is none yet."""
    index = _opened(name, about)
    if index is None:
        build_kept(name, about, vectors())
        index = _opened(name, about)
    assert index is not None
    return index


def _opened(name: str, about: dict[str, Any]) -> Index | None:
    """Open an index of the vectors that `about` describes; None where there is none, or only parts of one in Milvus."""
    kind, place = split_name(name)
    if kind == "milvus":
        found = MilvusIndex(place, about)
        return found if len(found) else None
    folder = Path(place)
    if not (folder / MANIFEST).exists():
        return None
    check_manifest(folder, {**about, "index": kind})
    error = None
    for n in {int(made.parent.name.partition("-of-")[2]) for made in folder.glob(f"[0-9]*-of-*/{MANIFEST}")}:
        places = {number: folder / f"{number}-of-{n}" for number in range(1, n + 1)}
        lacking = [number for number, place in places.items() if not (place / MANIFEST).exists()]
        if not lacking:
            parts = [FaissIndex.open(place) for place in places.values()]
            return parts[0] if n == 1 else Parts(parts)
        problem = f"lacks of {n} parts: {', '.join(map(str, lacking))}"
        error = InputError(f"{problem}; make them with berds data index … --part {lacking[0]}/{n}", path=folder)
    if error is not None:
        raise error
    return None
