"""The disk cache of vectors, shared by all processes: a text is encoded once."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import numpy as np

from berdslib.errors import InputError
from berdslib.files import Rows, write_transaction
from berdslib.models.cards import Encoder, with_instruction
from berdslib.progress import chunk_starts

logger = logging.getLogger(__name__)

_NUMBER = np.dtype("<f4")
COMPUTE_ANYWAY = ContextVar("compute anyway", default=False)


@contextmanager
def computing_anyway() -> Iterator[None]:
    """Search as if no question had been searched before, so that the time of a search can be taken."""
    token = COMPUTE_ANYWAY.set(True)
    try:
        yield
    finally:
        COMPUTE_ANYWAY.reset(token)


class CachedEncoder:
    """Keeps every vector on disk, keyed by model and text, and encodes only new texts.

    Each model has a SQLite file, with a table from the hash of a text to its vector. A chunk of new texts is encoded
    and added inside one write transaction, so two processes never encode the same text, and a killed process leaves no
    partial chunk. A second lock, held only while waiting for the first, makes processes take turns: a process with one
    question need not wait until another has encoded its whole corpus. (The journal is SQLite's default, not its
    write-ahead log: processes that enable that at the same moment can fail with "database is locked" despite the
    timeout.)

    Args:
        encoder: encodes the missing texts.
        folder: the folder of the files; created if needed.
        chunk: texts per transaction, the most that a killed process can lose.

    Raises:
        InputError: (on use) no texts, or an encoder whose vectors have another shape than those on disk.
    """

    def __init__(self, encoder: Encoder, folder: Path, chunk: int = 64) -> None:
        self.encoder = encoder
        self.id = encoder.id
        self.chunk = chunk
        self._path = folder / f"{hashlib.sha256(encoder.id.encode()).hexdigest()[:16]}.sqlite"
        self._rows = Rows(self._path, "a cache of vectors", "vector", "numbers BLOB")

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Encode questions, float32 (n, d)."""
        if COMPUTE_ANYWAY.get():
            return self.encoder.encode_queries(texts)
        return self._encode(texts, "q", self.encoder.encode_queries)

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """Encode passages, float32 (n, d)."""
        return self._encode(texts, "p", self.encoder.encode_passages)

    def with_instruction(self, instruction: str) -> Encoder:
        """Return the encoder with another instruction for questions, without a cache: each would need one."""
        return with_instruction(self.encoder, instruction)

    def _encode(self, texts: Sequence[str], role: str, encode: Callable[[list[str]], np.ndarray]) -> np.ndarray:
        from filelock import FileLock

        if not texts:
            raise InputError("there are no texts to encode")
        keys = [hashlib.sha256(f"{role}\0{text}".encode("utf-8", "surrogatepass")).digest() for text in texts]
        text_of = dict(zip(keys, texts, strict=True))

        def all_vectors(table: sqlite3.Connection) -> dict[bytes, bytes]:
            kept = self._rows.find(table, keys)
            missing = [key for key in text_of if key not in kept]
            missing.sort(key=lambda key: -len(text_of[key]))  # texts of similar length need less padding in a batch
            logger.info("%s: %d of %d different texts from the cache", self.id, len(kept), len(text_of))
            for start in chunk_starts(len(missing), self.chunk, "encoding"):
                chunk = missing[start : start + self.chunk]
                with write_transaction(table, FileLock(self._path.with_suffix(".turn"), poll_interval=0.01)):
                    kept |= self._rows.find(table, chunk)  # another process may have been faster
                    kept |= self._add(table, {key: text_of[key] for key in chunk if key not in kept}, encode)
            return kept

        kept = self._rows.do(all_vectors)
        vectors = np.frombuffer(b"".join([kept[key] for key in keys]), _NUMBER)
        return vectors.reshape(len(keys), -1).copy()

    def _add(
        self, table: sqlite3.Connection, chunk: dict[bytes, str], encode: Callable[[list[str]], np.ndarray]
    ) -> dict[bytes, bytes]:
        if not chunk:
            return {}
        vectors = encode(list(chunk.values()))
        dim = self._dim(table)
        if vectors.ndim != 2 or len(vectors) != len(chunk) or dim not in (0, vectors.shape[1]):
            expected = f"({len(chunk)}, {dim or 'd'})"
            raise InputError(f"encoder {self.id!r} returned vectors of shape {vectors.shape}, not {expected}")
        if not np.isfinite(vectors).all():  # the cache would keep it for good
            raise InputError(f"encoder {self.id!r} returned a vector that is not finite; its chunk is not kept")
        new = {key: vector.astype(_NUMBER).tobytes() for key, vector in zip(chunk, vectors, strict=True)}
        self._rows.add(table, new.items())
        return new

    def _dim(self, table: sqlite3.Connection) -> int:
        """Return the width of the vectors in the cache, 0 if it is empty."""
        first = table.execute("SELECT numbers FROM vector LIMIT 1").fetchone()
        return len(first[0]) // _NUMBER.itemsize if first else 0
