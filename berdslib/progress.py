"""How far long work is: a line when it begins, a bar meanwhile, or whoever watches, who may also stop it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from berdslib.errors import printable

# Lines of what begins, level INFO: the shell shows them, Python does not. Without warnings there are no bars either.
PROGRESS = logging.getLogger("berds")
DELAY = 2.0  # seconds until a bar is shown

# Is told what is being done, how many chunks of it are done, and of how many; what it raises ends the work.
Watcher = Callable[[str, int, int], None]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def begin(said: str) -> None:
    """Say what work begins."""
    PROGRESS.info("%s", printable(said))


def bars_are_seen() -> bool:
    """Return whether bars are shown: in a notebook or a terminal, not in a file, and not if progress is silenced."""
    from tqdm import auto

    in_notebook = auto.notebook_tqdm is not auto.std_tqdm
    return (in_notebook or sys.stderr.isatty()) and PROGRESS.isEnabledFor(logging.WARNING)


def bar(things: Iterable[Any] | None = None, **how: Any) -> Any:
    """Return tqdm's bar over things, where bars are seen; it goes away when it is done."""
    from tqdm.auto import tqdm

    return tqdm(things, **{"delay": DELAY, "leave": False, **how}, disable=not bars_are_seen())


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
    """Return where chunks of `size` of n things start; where nobody watches, with a line and a bar if several."""
    starts, watcher = range(0, n, size), _watcher.get()
    if watcher is not None:
        return _told(starts, doing, watcher)
    if len(starts) < 2:
        return starts
    begin(f"{doing}: {n:,}, {size:,} at a time")
    # The first chunk of a large model can take minutes; in a notebook, a bar that is gone leaves its trace.
    delay = 0.0 if sys.stderr.isatty() else DELAY
    shown: Iterable[int] = bar(starts, desc=doing, unit="chunk", delay=delay)
    return shown


def _told(starts: range, doing: str, watcher: Watcher) -> Iterator[int]:
    for done, start in enumerate(starts):
        watcher(doing, done, len(starts))
        yield start
