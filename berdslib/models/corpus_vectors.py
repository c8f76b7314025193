"""Encoding a corpus in shards: in any order, by any number of processes, going on where a killed run stopped."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from berdslib.data.corpus import Corpus
from berdslib.data.records import Passage
from berdslib.errors import BerdsError, InputError
from berdslib.files import atomic_path
from berdslib.models.base import Encoder
from berdslib.models.vectors import CachedEncoder
from berdslib.paths import cache_dir

logger = logging.getLogger(__name__)

_FORMAT = 1  # raised whenever what is written changes
_AHEAD = 64  # shards handed over at a time: an executor keeps what it was handed, texts of a list included


def full_text(passage: Passage) -> str:
    """Return the text with its title, as retrievers index it unless told otherwise."""
    return passage.full_text


def encode_corpus(
    passages: Sequence[Passage],
    encoder: Encoder,
    folder: Path | None = None,
    shard: int = 2048,
    executor: Executor | None = None,
    text_of: Callable[[Passage], str] = full_text,
) -> np.ndarray:
    """Return the vectors of all passages, float32 (n, d), memory-mapped from disk; what is there is not encoded again.

    Each shard is a file that appears when it is complete, so a run that was killed at any moment goes on with the next
    call; a file that cannot be read is encoded again. At the end they are joined to ``vectors.npy``, which needs the
    room twice for a moment.

    Args:
        passages: the corpus. Of a :class:`~berdslib.data.corpus.Corpus` a worker is told the path and the range, and
            reads the texts itself; of a list it is sent the texts.
        encoder: must be picklable if an executor is given. Of a ``CachedEncoder`` the encoder inside is used: these
            files are its cache, and the cache's lock would let only one process work at a time.
        folder: where to keep the vectors, on a disk that all workers see; None for one in the user's cache, named after
            the encoder and the corpus' content.
        shard: passages in a shard, the most that a kill can lose in each worker.
        executor: who encodes; None for this process. For two processes
            ``ProcessPoolExecutor(2, mp_context=get_context("spawn"))`` (forked ones hang in torch), for a cluster
            ``Client.get_executor(pure=False)`` of dask.
        text_of: what is encoded of a passage, such as ``card.passage_text``; must be picklable if an executor is given.

    Raises:
        InputError: a folder that holds vectors of another encoder or corpus, or a corpus that was changed meanwhile.
        BerdsError: a worker process was killed (of dask: more often than its ``allowed-failures``).
    """
    from filelock import FileLock

    if not passages or shard < 1:
        raise InputError(f"there are no passages to encode, or not in shards of {shard}")
    if isinstance(encoder, CachedEncoder):
        encoder = encoder.encoder
    digests, corpus = _digests(passages, shard, text_of)
    if folder is None:
        folder = cache_dir() / "vectors" / hashlib.sha256(f"{corpus} {encoder.id}".encode()).hexdigest()[:16]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        _check_manifest(folder, {"format": _FORMAT, "encoder": encoder.id, "corpus": corpus, "passages": len(passages)})
        result, shards = folder / "vectors.npy", folder / "shards"
        for unfinished in (*folder.glob(".vectors.npy.*"), *folder.glob(".manifest.json.*")):
            unfinished.unlink()  # only who holds the lock writes these, so who wrote them was killed
        if not result.exists():
            files = [shards / f"{i * shard}-{digest}.npy" for i, digest in enumerate(digests)]
            rows = [range(start, min(start + shard, len(passages))) for start in range(0, len(passages), shard)]
            missing = [i for i, file in enumerate(files) if not _is_complete(file, len(rows[i]))]
            todo = ((encoder, text_of, *_part(passages, rows[i]), digests[i], files[i]) for i in missing)
            _run(todo, len(missing), executor)
            _join(files, len(passages), result)
        # What is left there, by a worker that was killed or outlived its caller, is of no use any more.
        shutil.rmtree(shards, ignore_errors=True)
    return _open(result, len(passages))


def _digests(passages: Sequence[Passage], shard: int, text_of: Callable[[Passage], str]) -> tuple[list[str], str]:
    """Return a hash of each shard's docnos and texts, and one of all of them that does not depend on the shards."""
    stream, parts, everything = iter(passages), list[str](), hashlib.blake2b(digest_size=16)
    while chunk := list(islice(stream, shard)):
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


def _part(passages: Sequence[Passage], rows: range) -> tuple[Sequence[Passage], range]:
    """Return what a worker is sent of a shard: a corpus (which is pickled as its path) and a range, or the passages."""
    if isinstance(passages, Corpus):
        return passages, rows
    return passages[rows.start : rows.stop], range(len(rows))


def _check_manifest(folder: Path, wanted: dict[str, Any]) -> None:
    path = folder / "manifest.json"
    if not path.exists():
        if any(entry.name != ".lock" and not entry.name.startswith(".manifest.json.") for entry in folder.iterdir()):
            raise InputError("has other content; choose an empty or a new folder", path=folder)
        with atomic_path(path) as unfinished:
            unfinished.write_text(json.dumps(wanted, indent=1), encoding="utf-8")
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        about = {name: found[name] for name in wanted}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"is no manifest of encoded passages: {error!r}", path=path) from None
    if about != wanted:
        problem = (
            f"holds vectors of {about}; asked for are those of {wanted}. Choose another folder, or delete this one"
        )
        raise InputError(problem, path=folder)


def _is_complete(file: Path, n: int) -> bool:
    """Return whether this shard is there; one that a failing disk has cut short is deleted."""
    try:
        return file.exists() and len(_open(file, n)) == n
    except InputError as error:
        logger.warning("%s is damaged and encoded again: %s", file, error)
        file.unlink()
        return False


def _run(todo: Iterator[tuple[Any, ...]], n: int, executor: Executor | None) -> None:
    """Encode the shards, here or in an executor, which is handed some at a time."""
    from tqdm.auto import tqdm

    dask = sys.modules.get("distributed")  # which has an error of its own
    killed = (BrokenExecutor,) if dask is None else (BrokenExecutor, dask.KilledWorker)
    with tqdm(total=n, desc="encoding", unit="shard", delay=2, leave=False) as bar:
        if executor is None:
            for job in todo:
                _encode_shard(*job)
                bar.update()
            return
        running: set[Future[None]] = set()
        try:
            while True:
                running.update(executor.submit(_encode_shard, *job) for job in islice(todo, _AHEAD - len(running)))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                    bar.update()
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
) -> None:
    """Encode one shard into its file, in whatever process."""
    chunk = passages[rows.start : rows.stop]
    texts = [text_of(p) for p in chunk]
    if _hash(_coded(chunk, texts)) != digest:
        raise InputError("the corpus was changed while it was encoded; call again")
    vectors = np.asarray(encoder.encode_passages(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise InputError(f"encoder {encoder.id!r} returned vectors of shape {vectors.shape}, not ({len(texts)}, d)")
    with atomic_path(target) as unfinished, open(unfinished, "wb") as file:
        np.save(file, vectors)
        file.flush()
        os.fsync(file.fileno())  # on disk before it has its name, even if the power fails


def _join(files: Sequence[Path], n: int, result: Path) -> None:
    width = np.load(files[0], mmap_mode="r").shape[1]
    about = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False, "shape": (n, width)}
    # Not through a map of the file, which would be open still when it gets its name: Windows refuses that.
    with atomic_path(result) as unfinished, open(unfinished, "wb") as joined:
        np.lib.format.write_array_header_1_0(joined, about)
        for file in files:
            vectors = np.load(file)
            if vectors.shape[1] != width:
                raise InputError(f"has vectors of {vectors.shape[1]} numbers, others of {width}", path=file)
            vectors.tofile(joined)
        joined.flush()
        os.fsync(joined.fileno())


def _open(path: Path, n: int) -> np.ndarray:
    try:
        vectors = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"is damaged ({error}); delete its folder, and the corpus is encoded again", path=path
        ) from None
    if vectors.ndim != 2 or len(vectors) != n or vectors.dtype != np.float32:
        raise InputError(f"holds {vectors.dtype} {vectors.shape}, not float32 ({n}, d); delete its folder", path=path)
    return np.asarray(vectors)
