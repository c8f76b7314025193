"""How far long work is: a bar in a terminal or a notebook, or whoever watches, who may also stop it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Is told what is being done, how many chunks of it are done, and of how many; what it raises ends the work.
Watcher = Callable[[str, int, int], None]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Have somebody told how far the work of this block is, in place of bars.

    Args:
        watcher: called before each chunk, in the thread that works; chunks that are done stay done if it raises.
    """
    before = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(before)


def chunk_starts(n: int, size: int, doing: str) -> Iterable[int]:
    """Return where chunks of `size` of n things start; where nobody watches, behind a bar if there are several."""
    from tqdm.auto import tqdm

    starts, watcher = range(0, n, size), _watcher.get()
    if watcher is not None:
        return _told(starts, doing, watcher)
    bar: Iterable[int] = tqdm(starts, desc=doing, unit="chunk", disable=len(starts) < 4, leave=False)
    return bar


def _told(starts: range, doing: str, watcher: Watcher) -> Iterator[int]:
    for done, start in enumerate(starts):
        watcher(doing, done, len(starts))
        yield start
