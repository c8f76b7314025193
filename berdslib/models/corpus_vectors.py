"""Encoding a corpus in shards, in any order, by any number of processes; a killed run can be resumed."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from berdslib.data.corpus import Corpus
from berdslib.data.records import Passage
from berdslib.errors import BerdsError, InputError, errors_in
from berdslib.files import atomic_path
from berdslib.models.cards import Encoder
from berdslib.models.manifest import MANIFEST_FILE, check_manifest
from berdslib.models.vectors import CachedEncoder
from berdslib.paths import cache_dir
from berdslib.progress import bar

VECTORS_FILE = "vectors.npy"
_SHARD = 2048  # passages, the most that each worker loses if it is killed
_AHEAD = 64  # submitted shards at a time, since an executor keeps their arguments, including texts of a list


def full_text(passage: Passage) -> str:
    """Return the text with its title, which retrievers index by default."""
    return passage.full_text


def encode_corpus(
    passages: Sequence[Passage],
    encoder: Encoder,
    folder: Path | None = None,
    executor: Executor | None = None,
    text_of: Callable[[Passage], str] = full_text,
) -> np.ndarray:
    """Return the vectors of all passages, float32 (n, d), memory-mapped from disk; finished shards are reused.

    Each shard is a file that gets its name when it is complete, so the next call resumes a killed run. Concurrent
    calls, on any machines that share the folder, divide the shards. At the end these are joined to ``vectors.npy``,
    which briefly needs twice the space.

    Args:
        passages: the corpus. Workers get the path and the range of a :class:`~berdslib.data.corpus.Corpus` and read the
            texts themselves; they get the texts of a list.
        encoder: must be picklable if an executor is given. For a ``CachedEncoder``, the encoder inside is used, since
            the cache's lock would let only one process work at a time.
        folder: the folder of the vectors, on a disk that all workers share; None for one in the user's cache, named
            after the encoder and the corpus' content.
        executor: runs the encoding; None for this process. For two processes
            ``ProcessPoolExecutor(2, mp_context=get_context("spawn"))`` (forked ones hang in torch), for a cluster
            ``Client.get_executor(pure=False)`` of dask.
        text_of: returns the text to encode, as ``card.passage_text`` does; must be picklable if an executor is given.

    Raises:
        InputError: a folder with vectors of another encoder or corpus, or a corpus that changed during the call.
        BerdsError: a worker process was killed (with dask: more often than its ``allowed-failures``).
    """
    work = _prepared(passages, encoder, folder, text_of)
    work.encode((1, 1), executor)
    return work.join()


def encode_part(
    passages: Sequence[Passage],
    encoder: Encoder,
    part: tuple[int, int],
    folder: Path | None = None,
    executor: Executor | None = None,
    text_of: Callable[[Passage], str] = full_text,
) -> Path:
    """Encode a part of the shards, such as (3, 16), and return the folder; :func:`encode_corpus` joins all parts."""
    work = _prepared(passages, encoder, folder, text_of)
    work.encode(part, executor)
    return work.folder


def about_vectors(passages: Sequence[Passage], encoder: Encoder, text_of: Callable[[Passage], str]) -> dict[str, Any]:
    """Return the description of vectors: their encoder, a hash of docnos and texts, and the number of passages."""
    return _about(encoder, _digests(passages, text_of)[1], len(passages))


def part_of(n: int, part: tuple[int, int]) -> range:
    """Return the range of n items that a part has.

    >>> part_of(10, (2, 3))
    range(3, 6)
    """
    number, parts = part
    return range(n * (number - 1) // parts, n * number // parts)


def _about(encoder: Encoder, corpus: str, passages: int) -> dict[str, Any]:
    return {"encoder": encoder.id, "corpus": corpus, "passages": passages}


class _Shard(NamedTuple):
    rows: range
    digest: str  # hash of its passages
    file: Path


class _Work(NamedTuple):
    """The shards of a corpus, and the folder that keeps their vectors."""

    folder: Path
    passages: Sequence[Passage]
    encoder: Encoder
    text_of: Callable[[Passage], str]
    shards: list[_Shard]

    def encode(self, part: tuple[int, int], executor: Executor | None) -> None:
        """Encode the shards of a part that have no file yet."""
        shards = [self.shards[number] for number in part_of(len(self.shards), part)]
        for waits in (False, True):  # first the shards that no other call encodes, then those it did not finish
            if (self.folder / VECTORS_FILE).exists():
                return
            missing = [shard for shard in shards if not shard.file.exists()]
            jobs = (self._job(shard, waits) for shard in missing)
            for _ in bar(_finished(jobs, executor), total=len(missing), desc="encoding", unit="shard"):
                pass

    def _job(self, shard: _Shard, waits: bool) -> tuple[Any, ...]:
        """Return the arguments of `_encode_shard`; a list is cut to the rows of the shard."""
        passages = self.passages
        rows = shard.rows
        if not isinstance(passages, Corpus):
            passages = passages[rows.start : rows.stop]
            rows = range(len(rows))
        return self.encoder, self.text_of, passages, rows, shard.digest, shard.file, waits

    def join(self) -> np.ndarray:
        """Return the vectors of all shards."""
        with _locked(self.folder):
            if not (self.folder / VECTORS_FILE).exists():
                vectors = (open_vectors(shard.file) for shard in self.shards)
                with atomic_path(self.folder / VECTORS_FILE) as unfinished, errors_in(self.folder):
                    write_vectors(unfinished, len(self.passages), vectors)
            # Removes leftovers of workers that were killed or outlived their caller.
            shutil.rmtree(self.folder / "shards", ignore_errors=True)
        return open_vectors(self.folder / VECTORS_FILE, len(self.passages))


def _prepared(
    passages: Sequence[Passage], encoder: Encoder, folder: Path | None, text_of: Callable[[Passage], str]
) -> _Work:
    """Return the work of encoding a corpus into a folder, which must be empty or belong to the same work."""
    if not len(passages):
        raise InputError("there are no passages to encode")
    if isinstance(encoder, CachedEncoder):
        encoder = encoder.encoder
    digests, corpus = _digests(passages, text_of)
    if folder is None:
        folder = cache_dir() / "vectors" / hashlib.sha256(f"{corpus} {encoder.id}".encode()).hexdigest()[:16]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        check_manifest(folder, _about(encoder, corpus, len(passages)))
        for unfinished in folder.glob(f".{VECTORS_FILE}.*"):
            unfinished.unlink()  # only the holder of the lock writes it, so its writer was killed
    shards = []
    for number, digest in enumerate(digests):
        start = number * _SHARD
        rows = range(start, min(start + _SHARD, len(passages)))
        shards.append(_Shard(rows, digest, folder / "shards" / f"{start}-{digest}.npy"))
    return _Work(folder, passages, encoder, text_of, shards)


def _locked(folder: Path) -> Any:
    from filelock import FileLock

    read_only = (folder / MANIFEST_FILE).exists() and not os.access(folder, os.W_OK)
    return nullcontext() if read_only else FileLock(folder / ".lock")  # a complete folder never changes


def _digests(passages: Sequence[Passage], text_of: Callable[[Passage], str]) -> tuple[list[str], str]:
    """Return a hash of docnos and texts for each shard, and one of the corpus that is independent of the shards."""
    stream = iter(passages)
    shards = []
    everything = hashlib.blake2b(digest_size=16)
    for chunk in iter(lambda: list(islice(stream, _SHARD)), []):
        coded = _coded(chunk, [text_of(passage) for passage in chunk])
        shards.append(_hash(coded))
        everything.update(coded)
    return shards, everything.hexdigest()


def _coded(passages: Sequence[Passage], texts: Sequence[str]) -> bytes:
    """Return docnos and texts as one byte string, each preceded by its length."""
    coded = []
    for passage, text in zip(passages, texts, strict=True):
        for field in (passage.docno.encode(), text.encode()):
            coded += [len(field).to_bytes(8, "little"), field]
    return b"".join(coded)


def _hash(coded: bytes) -> str:
    return hashlib.blake2b(coded, digest_size=16).hexdigest()


def _finished(jobs: Iterable[tuple[Any, ...]], executor: Executor | None) -> Iterator[None]:
    """Encode shards, here or in an executor, and yield once for each finished shard."""
    if executor is None:
        for job in jobs:
            _encode_shard(*job)
            yield
        return
    dask = sys.modules.get("distributed")  # it raises its own error
    killed = (BrokenExecutor,) if dask is None else (BrokenExecutor, dask.KilledWorker)
    running: deque[Future[None]] = deque()
    try:
        for job in jobs:
            if len(running) == _AHEAD:
                yield running.popleft().result()
            running.append(executor.submit(_encode_shard, *job))
        while running:
            yield running.popleft().result()
    except killed:
        problem = "a worker process was killed (out of memory?). Finished work is kept; call again to go on"
        raise BerdsError(problem) from None
    finally:
        for future in running:
            future.cancel()


def _encode_shard(
    encoder: Encoder,
    text_of: Callable[[Passage], str],
    passages: Sequence[Passage],
    rows: range,
    digest: str,
    target: Path,
    waits: bool,
) -> None:
    """Encode one shard into its file, unless another call has finished it or is encoding it."""
    from filelock import FileLock, Timeout

    result = target.parents[1] / VECTORS_FILE
    try:
        with FileLock(target.with_suffix(".lock"), timeout=-1 if waits else 0):
            if target.exists() or result.exists():
                return
            chunk = passages[rows.start : rows.stop]
            texts = [text_of(passage) for passage in chunk]
            if _hash(_coded(chunk, texts)) != digest:
                raise InputError("the corpus changed during encoding; call again")
            vectors = np.asarray(encoder.encode_passages(texts), dtype=np.float32)
            if vectors.ndim != 2 or len(vectors) != len(texts):
                shape = f"vectors of shape {vectors.shape}, not ({len(texts)}, d)"
                raise InputError(f"encoder {encoder.id!r} returned {shape}")
            with atomic_path(target) as unfinished:
                write_vectors(unfinished, len(vectors), [vectors])
    except Timeout:
        return
    except FileNotFoundError:
        if not result.exists():  # otherwise another call has joined all shards and removed their folder
            raise


def write_vectors(path: Path, n: int, parts: Iterable[np.ndarray]) -> None:
    """Write float32 vectors (n, d), given in parts, as a .npy file, and wait until they are on disk.

    Numpy's own ``save`` would not report why a write fails, and a mapped file would crash the process.
    """
    width = 0
    with open(path, "wb") as file:
        for part in parts:
            if not width:
                width = part.shape[1]
                header = {"descr": "<f4", "fortran_order": False, "shape": (n, width)}
                np.lib.format.write_array_header_1_0(file, header)
            if part.shape[1] != width:
                raise InputError(f"has vectors of {part.shape[1]} numbers and others of {width}")
            file.write(np.ascontiguousarray(part).data)
        file.flush()
        os.fsync(file.fileno())


def open_vectors(path: Path, n: int | None = None) -> np.ndarray:
    """Return the vectors of a file, float32 (n, d), memory-mapped."""
    try:
        vectors = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        problem = f"is damaged ({error}); delete its folder and build it again"
        raise InputError(problem, path=path) from None
    if vectors.ndim != 2 or len(vectors) != (n or len(vectors)) or vectors.dtype != np.float32:
        expected = f"float32 ({n or 'n'}, d)"
        raise InputError(f"holds {vectors.dtype} {vectors.shape}, not {expected}; delete its folder", path=path)
    return np.asarray(vectors)


def vectors_of(
    passages: Sequence[Passage], encoder: Encoder, text_of: Callable[[Passage], str], folder: Path | None = None
) -> np.ndarray:
    """Return the vectors of passages; those of a corpus on disk, or with a folder, are kept on disk."""
    if isinstance(passages, Corpus) or folder is not None:
        return encode_corpus(passages, encoder, folder, text_of=text_of)
    return encoder.encode_passages([text_of(passage) for passage in passages])
