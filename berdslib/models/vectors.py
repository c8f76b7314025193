"""The disk cache of vectors: encoding the same text twice is free, also across processes."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from berdslib.errors import InputError
from berdslib.files import rows_by_key, store_errors
from berdslib.models.base import Encoder
from berdslib.progress import chunk_starts

_NUMBER = np.dtype("<f4")


class CachedEncoder:
    """Keeps every vector on disk, keyed by model and text, and encodes only texts never seen before.

    One SQLite file a model, with a table from the hash of a text to its vector. A chunk of new texts is encoded and
    added inside one write transaction, so two processes never encode the same text, and what a killed one was adding is
    not there. A second lock, held only while waiting for the first, makes processes take turns: one with one question
    need not wait until another has encoded its whole corpus. (The journal is SQLite's default, not its write-ahead log:
    processes that switch that on at the same moment can fail with "database is locked" whatever the timeout.)

    Args:
        encoder: does the encoding of what is missing.
        folder: where to keep the files; created if needed.
        chunk: texts per transaction, the most that a kill can lose.

    Raises:
        InputError: (on use) no texts, or an encoder whose vectors have another shape than those on disk.
    """

    def __init__(self, encoder: Encoder, folder: Path, chunk: int = 256) -> None:
        self.encoder, self.id, self.chunk = encoder, encoder.id, chunk
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{hashlib.sha256(encoder.id.encode()).hexdigest()[:16]}.sqlite"
        with self._table() as table:
            if not _has(table, "vector"):
                with self._writing(table):
                    table.execute("CREATE TABLE IF NOT EXISTS vector (key BLOB PRIMARY KEY, numbers BLOB NOT NULL)")
                    table.execute("CREATE TABLE IF NOT EXISTS model (id TEXT, dim INTEGER)")
                    self._take_over(table)
                self._path.with_suffix(".f32").unlink(missing_ok=True)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Encode questions, float32 (n, d)."""
        return self._encode(texts, "q", self.encoder.encode_queries)

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """Encode passages, float32 (n, d)."""
        return self._encode(texts, "p", self.encoder.encode_passages)

    @contextmanager
    def _table(self) -> Iterator[sqlite3.Connection]:
        # A writer holds its lock while it encodes one chunk, so a waiting one must be patient.
        with (
            store_errors(self._path, "a cache of vectors"),
            closing(sqlite3.connect(self._path, timeout=3600, isolation_level=None)) as table,
        ):
            yield table

    @contextmanager
    def _writing(self, table: sqlite3.Connection) -> Iterator[None]:
        from filelock import FileLock

        with FileLock(self._path.with_suffix(".turn"), poll_interval=0.01):
            table.execute("BEGIN IMMEDIATE")
        with table:  # commits, or rolls back
            yield

    def _take_over(self, table: sqlite3.Connection) -> None:
        """Read a cache of old, which had a row's place in the table and its numbers in a file beside it."""
        rows = self._path.with_suffix(".f32")
        if not _has(table, "row"):
            return
        if rows.exists() and (dim := _dim(table)):
            whole = rows.stat().st_size // (dim * _NUMBER.itemsize)  # fewer than listed, where it was cut short
            old = np.fromfile(rows, _NUMBER, count=whole * dim).reshape(whole, dim)
            listed = table.execute("SELECT key, at FROM row WHERE at < ? ORDER BY at", [whole])
            table.executemany("INSERT INTO vector VALUES (?, ?)", ((key, old[at].tobytes()) for key, at in listed))
        table.execute("DROP TABLE row")

    def _encode(self, texts: Sequence[str], role: str, encode: Callable[[list[str]], np.ndarray]) -> np.ndarray:
        if not texts:
            raise InputError("there are no texts to encode")
        keys = [hashlib.sha256(f"{role}\0{text}".encode("utf-8", "surrogatepass")).digest() for text in texts]
        with self._table() as table:
            found = _look_up(table, keys)
            missing = [(key, text) for key, text in dict(zip(keys, texts, strict=True)).items() if key not in found]
            for start in chunk_starts(len(missing), self.chunk, "encoding"):
                chunk = dict(missing[start : start + self.chunk])
                with self._writing(table):
                    found |= _look_up(table, list(chunk))  # another process may have been faster
                    found |= self._add(table, {key: text for key, text in chunk.items() if key not in found}, encode)
        return np.frombuffer(b"".join([found[key] for key in keys]), _NUMBER).reshape(len(keys), -1).copy()

    def _add(
        self, table: sqlite3.Connection, chunk: dict[bytes, str], encode: Callable[[list[str]], np.ndarray]
    ) -> dict[bytes, bytes]:
        if not chunk:
            return {}
        vectors, dim = encode(list(chunk.values())), _dim(table)
        if vectors.ndim != 2 or len(vectors) != len(chunk) or dim not in (0, vectors.shape[1]):
            want = f"({len(chunk)}, {dim or 'd'})"
            raise InputError(f"encoder {self.id!r} returned vectors of shape {vectors.shape}, not {want}")
        if not np.isfinite(vectors).all():  # it would be kept for good
            raise InputError(f"encoder {self.id!r} returned a vector that is not finite; nothing of it is kept")
        if not dim:
            table.execute("INSERT INTO model VALUES (?, ?)", (self.id, vectors.shape[1]))
        made = {key: vector.astype(_NUMBER).tobytes() for key, vector in zip(chunk, vectors, strict=True)}
        table.executemany("INSERT INTO vector VALUES (?, ?)", made.items())
        return made


def _look_up(table: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    return rows_by_key(table, "SELECT key, numbers FROM vector WHERE key IN", keys)


def _dim(table: sqlite3.Connection) -> int:
    row = table.execute("SELECT dim FROM model").fetchone()
    return int(row[0]) if row else 0


def _has(table: sqlite3.Connection, name: str) -> bool:
    return table.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [name]).fetchone() is not None
