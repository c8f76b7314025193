"""Encoding a corpus in shards: in any order, by any number of processes, going on where a killed run stopped."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from berdslib.data.corpus import Corpus
from berdslib.data.records import Passage
from berdslib.errors import BerdsError, InputError
from berdslib.files import atomic_path
from berdslib.models.cards import Encoder
from berdslib.models.manifest import BLOCK, MANIFEST, check_manifest, damaged_blocks, write_manifest
from berdslib.models.vectors import CachedEncoder
from berdslib.paths import cache_dir
from berdslib.progress import bar

logger = logging.getLogger(__name__)

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
    call, and shards that a failing disk has changed are encoded again. Calls at the same time, on any machines that see
    the folder, share the shards. At the end these are joined to ``vectors.npy``, which needs the room twice for a
    moment.

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
    return {"encoder": encoder.id, "corpus": _digests(passages, text_of)[1], "passages": len(passages)}


def part_of(n: int, part: tuple[int, int]) -> range:
    """Return which of n things are in a part.

    >>> part_of(10, (2, 3))
    range(3, 6)
    """
    i, parts = part
    return range(n * (i - 1) // parts, n * i // parts)


class _Shard(NamedTuple):
    rows: range
    digest: str
    file: Path


class _Work(NamedTuple):
    """What there is to do in a folder."""

    folder: Path
    passages: Sequence[Passage]
    encoder: Encoder
    text_of: Callable[[Passage], str]
    shards: list[_Shard]
    about: dict[str, Any]

    def encode(self, part: tuple[int, int], executor: Executor | None) -> None:
        """Encode what is missing of a part: what nobody else is at, and then what is not there when they are done."""
        asked = [self.shards[i] for i in part_of(len(self.shards), part)]
        missing = [] if (self.folder / VECTORS).exists() else [one for one in asked if not _is_complete(one.file)]
        jobs: Iterable[_Job] = (
            (self.encoder, self.text_of, *_sent(self.passages, one.rows), one.digest, one.file) for one in missing
        )
        for waits in (False, True):
            jobs = _run(((*job, waits) for job in jobs), len(missing), executor)

    def join(self) -> np.ndarray:
        """Return the vectors of all shards."""
        with _locked(self.folder):
            if not (self.folder / VECTORS).exists():
                _join([one.file for one in self.shards], self.folder, self.about)
            # What is left there, by a worker that was killed or outlived its caller, is of no use any more.
            shutil.rmtree(self.folder / "shards", ignore_errors=True)
        return open_vectors(self.folder / VECTORS, len(self.passages))


def _prepared(
    passages: Sequence[Passage], encoder: Encoder, folder: Path | None, text_of: Callable[[Passage], str]
) -> _Work:
    """Say what there is to do, and see to the folder: it is of this, and what is damaged is to be done again."""
    if (n := len(passages)) < 1:
        raise InputError("there are no passages to encode")
    if isinstance(encoder, CachedEncoder):
        encoder = encoder.encoder
    digests, corpus = _digests(passages, text_of)
    if folder is None:
        folder = cache_dir() / "vectors" / hashlib.sha256(f"{corpus} {encoder.id}".encode()).hexdigest()[:16]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = (range(start, min(start + _SHARD, n)) for start in range(0, n, _SHARD))
    shards = [
        _Shard(part, h, folder / "shards" / f"{part.start}-{h}.npy") for part, h in zip(rows, digests, strict=True)
    ]
    about = {"encoder": encoder.id, "corpus": corpus, "passages": n}
    with _locked(folder):
        said = check_manifest(folder, about).get("files", {}).get(VECTORS)
        for unfinished in (*folder.glob(".vectors.npy.*"), *folder.glob(".manifest.json.*")):
            unfinished.unlink()  # only who holds the lock writes these, so who wrote them was killed
        if said and (folder / VECTORS).exists():
            _take_apart_if_damaged(folder / VECTORS, said, shards)
    return _Work(folder, passages, encoder, text_of, shards, about)


def _locked(folder: Path) -> Any:
    from filelock import FileLock

    readable_alone = (folder / MANIFEST).exists() and not os.access(folder, os.W_OK)
    return nullcontext() if readable_alone else FileLock(folder / ".lock")  # what is complete there changes no more


def _take_apart_if_damaged(result: Path, said: list[int], shards: Sequence[_Shard]) -> None:
    """Make shards again of what is whole of vectors that a failing disk has changed; the others are to be encoded."""
    vectors, bad = open_vectors(result, shards[-1].rows.stop), {*damaged_blocks(result, said)}
    if not bad:
        return
    row = vectors.strides[0]
    start = result.stat().st_size - len(vectors) * row
    blocks = [
        range((start + s.rows.start * row) // BLOCK, (start + s.rows.stop * row - 1) // BLOCK + 1) for s in shards
    ]
    whole = [one for one, of in zip(shards, blocks, strict=True) if bad.isdisjoint(of)]
    logger.warning("%s is damaged; %d of %d shards are encoded again", result, len(shards) - len(whole), len(shards))
    for one in whole:
        _write_shard(one.file, vectors[one.rows.start : one.rows.stop])
    result.unlink()


def _digests(passages: Sequence[Passage], text_of: Callable[[Passage], str]) -> tuple[list[str], str]:
    """Return a hash of each shard's docnos and texts, and one of all of them that does not depend on the shards."""
    stream, parts, everything = iter(passages), list[str](), hashlib.blake2b(digest_size=16)
    while chunk := list(islice(stream, _SHARD)):
        coded = _coded(chunk, [text_of(p) for p in chunk])
        parts.append(_hash(coded))
        everything.update(coded)
    return parts, everything.hexdigest()


def _coded(passages: Sequence[Passage], texts: Sequence[str]) -> bytes:
    """Return docnos and texts as one string of bytes, each behind its length."""
    fields = (field for passage, text in zip(passages, texts, strict=True) for field in (passage.docno, text))
    coded = (field.encode("utf-8", "surrogatepass") for field in fields)
    return b"".join(len(one).to_bytes(8, "little") + one for one in coded)


def _hash(coded: bytes) -> str:
    return hashlib.blake2b(coded, digest_size=16).hexdigest()


def _sent(passages: Sequence[Passage], rows: range) -> tuple[Sequence[Passage], range]:
    """Return what a worker is sent of a shard: a corpus (which is pickled as its path) and a range, or the passages."""
    if isinstance(passages, Corpus):
        return passages, rows
    return passages[rows.start : rows.stop], range(len(rows))


def _is_complete(file: Path) -> bool:
    """Return whether this shard is there, as it was written."""
    content = file.read_bytes() if file.exists() else b""
    whole = zlib.crc32(content[:-4]).to_bytes(4, "little") == content[-4:]
    if file.exists() and not whole:
        logger.warning("%s is damaged, and encoded again", file)
    return whole


def _write_shard(file: Path, vectors: np.ndarray) -> None:
    """Write a shard, and a checksum behind it."""
    np.save(content := io.BytesIO(), vectors)
    with atomic_path(file) as unfinished, open(unfinished, "wb") as target:
        target.write(content.getvalue() + zlib.crc32(content.getvalue()).to_bytes(4, "little"))
        _to_disk(target)


def _to_disk(file: BinaryIO) -> None:
    """Put what was written on disk before the file has its name, even if the power fails."""
    file.flush()
    os.fsync(file.fileno())


def write_header(file: BinaryIO, n: int, width: int) -> None:
    """Write what stands before the numbers of float32 vectors (n, width) in a .npy file.

    Numpy's own ``save`` would not say why a disk takes no more, and what is mapped ends the process there.
    """
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (n, width)})


_Job = tuple[Any, ...]


def _run(todo: Iterable[_Job], n: int, executor: Executor | None) -> list[_Job]:
    """Encode shards, here or in an executor, which is handed some at a time; return those that others are at."""
    dask = sys.modules.get("distributed")  # which has an error of its own
    killed = (BrokenExecutor,) if dask is None else (BrokenExecutor, dask.KilledWorker)
    busy, todo = list[_Job](), iter(todo)
    with bar(total=n, desc="encoding", unit="shard") as shown:

        def done(job: _Job, is_there: bool) -> None:
            busy.extend([] if is_there else [job[:-1]])
            shown.update()

        if executor is None:
            for job in todo:
                done(job, _encode_shard(*job))
            return busy
        running: dict[Future[bool], _Job] = {}
        try:
            while True:
                running |= {executor.submit(_encode_shard, *job): job for job in islice(todo, _AHEAD - len(running))}
                if not running:
                    return busy
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    done(running.pop(future), future.result())
        except killed:
            raise BerdsError(
                "a worker process was killed (out of memory?). Finished work is kept; call again to go on"
            ) from None
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
) -> bool:
    """Encode one shard into its file, in whatever process; return whether it is there, or another is at it."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(target.with_suffix(".lock"), timeout=-1 if waits else 0):
            if _is_complete(target) or (target.parents[1] / VECTORS).exists():
                return True
            chunk = passages[rows.start : rows.stop]
            texts = [text_of(p) for p in chunk]
            if _hash(_coded(chunk, texts)) != digest:
                raise InputError("the corpus was changed while it was encoded; call again")
            vectors = np.asarray(encoder.encode_passages(texts), dtype=np.float32)
            if vectors.ndim != 2 or len(vectors) != len(texts):
                shape = f"vectors of shape {vectors.shape}, not ({len(texts)}, d)"
                raise InputError(f"encoder {encoder.id!r} returned {shape}")
            _write_shard(target, vectors)
            return True
    except Timeout:
        return False
    except FileNotFoundError:
        if not (target.parents[1] / VECTORS).exists():
            raise
        return True  # another run has joined all shards meanwhile, and their folder is gone


def _join(files: Sequence[Path], folder: Path, about: dict[str, Any]) -> None:
    width = np.load(files[0], mmap_mode="r").shape[1]
    # Not through a map of the file, which would be open still when it gets its name: Windows refuses that.
    with atomic_path(folder / VECTORS) as unfinished, open(unfinished, "wb") as joined:
        write_header(joined, about["passages"], width)
        for file in files:
            vectors = np.load(file)
            if vectors.shape[1] != width:
                raise InputError(f"has vectors of {vectors.shape[1]} numbers, others of {width}", path=file)
            joined.write(vectors.data)
        _to_disk(joined)
        write_manifest(folder, about, {VECTORS: unfinished})


def open_vectors(path: Path, n: int | None = None) -> np.ndarray:
    """Return the vectors of a file, float32 (n, d), memory-mapped."""
    try:
        vectors = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        problem = f"is damaged ({error}); delete its folder, and the corpus is encoded again"
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
    return encoder.encode_passages([text_of(p) for p in passages])
