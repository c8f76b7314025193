"""What the embedding cache and the verdict store share: look-up by many keys, and work in chunks with a bar."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any


def rows_by_key(table: sqlite3.Connection, query: str, keys: Sequence[bytes]) -> dict[bytes, Any]:
    """Return key → value for those keys that a two-column query finds.

    Args:
        table: the database.
        query: a SELECT that ends in a condition on the key, such as "SELECT key, at FROM row WHERE key IN".
        keys: any number of keys.
    """
    found: dict[bytes, Any] = {}
    for start in range(0, len(keys), 900):  # SQLite allows 999 parameters everywhere
        part = list(keys[start : start + 900])
        found.update(table.execute(f"{query} ({','.join('?' * len(part))})", part).fetchall())
    return found


def chunk_starts(n: int, size: int, doing: str) -> Sequence[int]:
    """Return where chunks of `size` of n things start, behind a progress bar if there are more than a few."""
    from tqdm.auto import tqdm

    starts = range(0, n, size)
    bar: Sequence[int] = tqdm(starts, desc=doing, unit="chunk", disable=len(starts) < 4, leave=False)
    return bar
