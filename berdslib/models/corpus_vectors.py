"""Encoding a corpus in shards: in any order, by any number of processes, going on where a killed run stopped."""

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
from berdslib.models.manifest import MANIFEST, check_manifest
from berdslib.models.vectors import CachedEncoder
from berdslib.paths import cache_dir
from berdslib.progress import bar

VECTORS = "vectors.npy"
_SHARD = 2048  # passages, the most that a kill can lose in each worker
_AHEAD = 64  # shards handed over at a time: an executor keeps what it was handed, texts of a list included


def full_text(passage: Passage) -> str:
    """Return the text with its title, as retrievers index it unless told otherwise."""
    return passage.full_text


def encode_corpus(
    passages: Sequence[Passage],
    encoder: Encoder,
    folder: Path | None = None,
    executor: Executor | None = None,
    text_of: Callable[[Passage], str] = full_text,
) -> np.ndarray:
    """Return the vectors of all passages, float32 (n, d), memory-mapped from disk; what is there is not encoded again.

    Each shard is a file that appears when it is complete, so a run that was killed at any moment goes on with the next
    call. Calls at the same time, on any machines that see the folder, share the shards. At the end these are joined to
    ``vectors.npy``, which needs the room twice for a moment.

    Args:
        passages: the corpus. Of a :class:`~berdslib.data.corpus.Corpus` a worker is told the path and the range, and
            reads the texts itself; of a list it is sent the texts.
        encoder: must be picklable if an executor is given. Of a ``CachedEncoder`` the encoder inside is used: these
            files are its cache, and the cache's lock would let only one process work at a time.
        folder: where to keep the vectors, on a disk that all workers see; None for one in the user's cache, named after
            the encoder and the corpus' content.
        executor: who encodes; None for this process. For two processes
            ``ProcessPoolExecutor(2, mp_context=get_context("spawn"))`` (forked ones hang in torch), for a cluster
            ``Client.get_executor(pure=False)`` of dask.
        text_of: what is encoded of a passage, such as ``card.passage_text``; must be picklable if an executor is given.

    Raises:
        InputError: a folder that holds vectors of another encoder or corpus, or a corpus that was changed meanwhile.
        BerdsError: a worker process was killed (of dask: more often than its ``allowed-failures``).
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
    """Return what tells vectors apart: their encoder, a hash of docnos and texts, and how many passages there are."""
    return _about(encoder, _digests(passages, text_of)[1], len(passages))


def part_of(n: int, part: tuple[int, int]) -> range:
    """Return which of n things are in a part.

    >>> part_of(10, (2, 3))
    range(3, 6)
    """
    number, parts = part
    return range(n * (number - 1) // parts, n * number // parts)


def _about(encoder: Encoder, corpus: str, passages: int) -> dict[str, Any]:
    return {"encoder": encoder.id, "corpus": corpus, "passages": passages}


class _Shard(NamedTuple):
    rows: range
    digest: str  # of its passages
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
        asked = [self.shards[number] for number in part_of(len(self.shards), part)]
        for waits in (False, True):  # first what no other call is encoding, then what another did not finish
            if (self.folder / VECTORS).exists():
                return
            missing = [shard for shard in asked if not shard.file.exists()]
            jobs = (self._job(shard, waits) for shard in missing)
            for _ in bar(_finished(jobs, executor), total=len(missing), desc="encoding", unit="shard"):
                pass

    def _job(self, shard: _Shard, waits: bool) -> tuple[Any, ...]:
        """Return the arguments of `_encode_shard`; of a list only the rows of the shard are sent."""
        passages = self.passages
        rows = shard.rows
        if not isinstance(passages, Corpus):
            passages = passages[rows.start : rows.stop]
            rows = range(len(rows))
        return self.encoder, self.text_of, passages, rows, shard.digest, shard.file, waits

    def join(self) -> np.ndarray:
        """Return the vectors of all shards."""
        with _locked(self.folder):
            if not (self.folder / VECTORS).exists():
                vectors = (open_vectors(shard.file) for shard in self.shards)
                with atomic_path(self.folder / VECTORS) as unfinished, errors_in(self.folder):
                    write_vectors(unfinished, len(self.passages), vectors)
            # A worker that was killed or outlived its caller may have left something there.
            shutil.rmtree(self.folder / "shards", ignore_errors=True)
        return open_vectors(self.folder / VECTORS, len(self.passages))


def _prepared(
    passages: Sequence[Passage], encoder: Encoder, folder: Path | None, text_of: Callable[[Passage], str]
) -> _Work:
    """Return the work of encoding a corpus into a folder, which must be empty or hold vectors of the same."""
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
        for unfinished in folder.glob(f".{VECTORS}.*"):
            unfinished.unlink()  # only the holder of the lock writes it, so its writer was killed
    shards = []
    for number, digest in enumerate(digests):
        start = number * _SHARD
        rows = range(start, min(start + _SHARD, len(passages)))
        shards.append(_Shard(rows, digest, folder / "shards" / f"{start}-{digest}.npy"))
    return _Work(folder, passages, encoder, text_of, shards)


def _locked(folder: Path) -> Any:
    from filelock import FileLock

    read_only = (folder / MANIFEST).exists() and not os.access(folder, os.W_OK)
    return nullcontext() if read_only else FileLock(folder / ".lock")  # a folder that is complete changes no more


def _digests(passages: Sequence[Passage], text_of: Callable[[Passage], str]) -> tuple[list[str], str]:
    """Return a hash of each shard's docnos and texts, and one of all of them that does not depend on the shards."""
    stream = iter(passages)
    shards = []
    everything = hashlib.blake2b(digest_size=16)
    while chunk := list(islice(stream, _SHARD)):
        coded = _coded(chunk, [text_of(passage) for passage in chunk])
        shards.append(_hash(coded))
        everything.update(coded)
    return shards, everything.hexdigest()


def _coded(passages: Sequence[Passage], texts: Sequence[str]) -> bytes:
    """Return docnos and texts as one string of bytes, each behind its length."""
    pairs = zip(passages, texts, strict=True)
    fields = (field.encode() for passage, text in pairs for field in (passage.docno, text))
    return b"".join(len(field).to_bytes(8, "little") + field for field in fields)


def _hash(coded: bytes) -> str:
    return hashlib.blake2b(coded, digest_size=16).hexdigest()


def _finished(jobs: Iterable[tuple[Any, ...]], executor: Executor | None) -> Iterator[None]:
    """Encode shards, here or in an executor, and yield once for each that is done."""
    if executor is None:
        for job in jobs:
            _encode_shard(*job)
            yield
        return
    dask = sys.modules.get("distributed")  # which has an error of its own
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
    """Encode one shard into its file, in whatever process, unless another call has it or is encoding it."""
    from filelock import FileLock, Timeout

    result = target.parents[1] / VECTORS
    try:
        with FileLock(target.with_suffix(".lock"), timeout=-1 if waits else 0):
            if target.exists() or result.exists():
                return
            chunk = passages[rows.start : rows.stop]
            texts = [text_of(passage) for passage in chunk]
            if _hash(_coded(chunk, texts)) != digest:
                raise InputError("the corpus was changed while it was encoded; call again")
            vectors = np.asarray(encoder.encode_passages(texts), dtype=np.float32)
            if vectors.ndim != 2 or len(vectors) != len(texts):
                shape = f"vectors of shape {vectors.shape}, not ({len(texts)}, d)"
                raise InputError(f"encoder {encoder.id!r} returned {shape}")
            with atomic_path(target) as unfinished:
                write_vectors(unfinished, len(vectors), [vectors])
    except Timeout:
        return
    except FileNotFoundError:
        if not result.exists():  # else another call has joined all shards meanwhile, and their folder is gone
            raise


def write_vectors(path: Path, n: int, parts: Iterable[np.ndarray]) -> None:
    """Write float32 vectors (n, d), which come in parts, as a .npy file, and wait until the disk has it.

    Numpy's own ``save`` would not say why a disk takes no more, and a mapped file would end the process there.
    """
    width = 0
    with open(path, "wb") as file:
        for part in parts:
            if not width:
                width = part.shape[1]
                header = {"descr": "<f4", "fortran_order": False, "shape": (n, width)}
                np.lib.format.write_array_header_1_0(file, header)
            if part.shape[1] != width:
                raise InputError(f"has vectors of {part.shape[1]} numbers, others of {width}")
            file.write(np.ascontiguousarray(part).data)
        file.flush()
        os.fsync(file.fileno())


def open_vectors(path: Path, n: int | None = None) -> np.ndarray:
    """Return the vectors of a file, float32 (n, d), memory-mapped."""
    try:
        vectors = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        problem = f"is damaged ({error}); delete its folder, and make it again"
        raise InputError(problem, path=path) from None
    if vectors.ndim != 2 or len(vectors) != (n or len(vectors)) or vectors.dtype != np.float32:
        needed = f"float32 ({n or 'n'}, d)"
        raise InputError(f"holds {vectors.dtype} {vectors.shape}, not {needed}; delete its folder", path=path)
    return np.asarray(vectors)


def vectors_of(
    passages: Sequence[Passage], encoder: Encoder, text_of: Callable[[Passage], str], folder: Path | None = None
) -> np.ndarray:
    """Return the vectors of passages: of a corpus on disk, or with a folder, from disk."""
    if isinstance(passages, Corpus) or folder is not None:
        return encode_corpus(passages, encoder, folder, text_of=text_of)
    return encoder.encode_passages([text_of(passage) for passage in passages])
