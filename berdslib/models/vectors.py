"""The disk cache of vectors: encoding the same text twice is free, also across processes."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from berdslib.errors import InputError
from berdslib.files import rows_by_key, store_errors
from berdslib.models.base import Encoder
from berdslib.progress import chunk_starts


class CachedEncoder:
    """Keeps every vector on disk, keyed by model and text, and encodes only texts never seen before.

    One file of raw float32 rows per model, memory-mapped for reading, and an SQLite table from the hash of a text to
    its row. A chunk of new texts is encoded and appended inside one SQLite write transaction. That one lock is what
    makes it safe: two processes never encode the same text, and a killed process's transaction is rolled back; the
    rows it may have half written lie beyond the committed count, where the next writer overwrites them. A second lock,
    held only while waiting for the first, makes them take turns: a process with one question need not wait until
    another has encoded its whole corpus. (The journal is SQLite's default, not its write-ahead log: processes that
    switch that on at the same moment can fail with "database is locked" whatever the timeout.)

    Args:
        encoder: does the encoding of what is missing.
        folder: where to keep the files; created if needed.
        chunk: texts per transaction, the most that a kill can lose.

    Raises:
        InputError: (on use) no texts, a file that was cut short, or an encoder whose vectors have another shape than
            those on disk.
    """

    def __init__(self, encoder: Encoder, folder: Path, chunk: int = 256) -> None:
        self.encoder, self.id, self.chunk = encoder, encoder.id, chunk
        folder.mkdir(parents=True, exist_ok=True)
        stem = hashlib.sha256(encoder.id.encode()).hexdigest()[:16]
        self._rows_path, self._table_path = folder / f"{stem}.f32", folder / f"{stem}.sqlite"
        with self._table() as table, table:
            table.execute("CREATE TABLE IF NOT EXISTS row (key BLOB PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID")
            table.execute("CREATE TABLE IF NOT EXISTS model (id TEXT, dim INTEGER)")

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Encode questions, float32 (n, d); read-only where the rows lie together on disk."""
        return self._encode(texts, "q", self.encoder.encode_queries)

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """Encode passages, float32 (n, d); a read-only view of the file where the rows lie together on disk."""
        return self._encode(texts, "p", self.encoder.encode_passages)

    @contextmanager
    def _table(self) -> Iterator[sqlite3.Connection]:
        # A writer holds its lock while it encodes one chunk, so a waiting one must be patient.
        with (
            store_errors(self._table_path, "a cache of vectors"),
            closing(sqlite3.connect(self._table_path, timeout=3600, isolation_level=None)) as table,
        ):
            yield table

    def _encode(self, texts: Sequence[str], role: str, encode: Callable[[list[str]], np.ndarray]) -> np.ndarray:
        if not texts:
            raise InputError("there are no texts to encode")
        keys = [hashlib.sha256(f"{role}\0{text}".encode("utf-8", "surrogatepass")).digest() for text in texts]
        with self._table() as table:
            rows = self._look_up(table, keys)
            missing = [(key, text) for key, text in dict(zip(keys, texts, strict=True)).items() if key not in rows]
            for start in chunk_starts(len(missing), self.chunk, "encoding"):
                self._add_chunk(table, missing[start : start + self.chunk], encode)
            rows |= self._look_up(table, [key for key, _ in missing])
            dim = self._dim(table)
        return self._read(np.array([rows[key] for key in keys]), dim)

    def _add_chunk(
        self, table: sqlite3.Connection, chunk: list[tuple[bytes, str]], encode: Callable[[list[str]], np.ndarray]
    ) -> None:
        from filelock import FileLock

        with FileLock(self._table_path.with_suffix(".turn"), poll_interval=0.01):
            table.execute("BEGIN IMMEDIATE")
        try:
            already = self._look_up(table, [key for key, _ in chunk])  # another process may have been faster
            chunk = [(key, text) for key, text in chunk if key not in already]
            if chunk:
                vectors = self._checked(encode([text for _, text in chunk]), len(chunk), self._dim(table))
                # With an index the last row is found without reading the whole table; caches of old had none.
                table.execute("CREATE UNIQUE INDEX IF NOT EXISTS by_row ON row (at)")
                first = table.execute("SELECT coalesce(max(at) + 1, 0) FROM row").fetchone()[0]
                self._check_rows(first, vectors.shape[1])
                self._append(vectors, first)
                if not self._dim(table):
                    table.execute("INSERT INTO model VALUES (?, ?)", (self.id, vectors.shape[1]))
                table.executemany("INSERT INTO row VALUES (?, ?)", [(k, first + i) for i, (k, _) in enumerate(chunk)])
            table.execute("COMMIT")
        except BaseException:
            if table.in_transaction:  # on a full disk SQLite has ended it
                table.execute("ROLLBACK")
            raise

    def _checked(self, vectors: np.ndarray, n: int, dim: int) -> np.ndarray:
        if vectors.ndim != 2 or len(vectors) != n or dim not in (0, vectors.shape[1]):
            want = f"({n}, {dim or 'd'})"
            raise InputError(f"encoder {self.id!r} returned vectors of shape {vectors.shape}, not {want}")
        if not np.isfinite(vectors).all():  # it would be kept for good
            raise InputError(f"encoder {self.id!r} returned a vector that is not finite; nothing of it is kept")
        return vectors

    def _check_rows(self, n: int, dim: int) -> None:
        """Raise InputError if the file holds fewer rows than the table says; an append would leave zeros in the gap."""
        held = self._rows_path.stat().st_size // (dim * 4) if self._rows_path.exists() else 0
        if held < n:
            raise InputError(
                f"holds {held} vectors where its table lists at least {n}, so it was cut short; delete it and "
                f"{self._table_path.name} beside it, and the texts are encoded again",
                path=self._rows_path,
            )

    def _append(self, vectors: np.ndarray, first: int) -> None:
        self._rows_path.touch()
        with open(self._rows_path, "r+b") as file:
            file.seek(first * vectors.shape[1] * 4)
            file.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
            file.flush()
            os.fsync(file.fileno())  # the rows must be on disk before the table says that they are

    def _look_up(self, table: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, int]:
        return rows_by_key(table, "SELECT key, at FROM row WHERE key IN", keys)

    def _dim(self, table: sqlite3.Connection) -> int:
        row = table.execute("SELECT dim FROM model").fetchone()
        return int(row[0]) if row else 0

    def _read(self, rows: np.ndarray, dim: int) -> np.ndarray:
        n = int(rows.max()) + 1
        self._check_rows(n, dim)
        # Only these rows: another process may be in the middle of writing one beyond them, or was killed there.
        stored = np.memmap(self._rows_path, dtype="<f4", mode="r", shape=(n, dim))
        first = int(rows[0])
        if np.array_equal(rows, np.arange(first, first + len(rows))):
            return stored[first : first + len(rows)]
        return np.asarray(stored[rows])
