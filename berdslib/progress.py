"""How far long work is: a line when it begins, a bar or more lines meanwhile, or who watches, who may also stop it."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from berdslib.errors import printable

# Lines of what begins, level INFO: the shell shows them, Python does not. Without warnings there are no bars either.
PROGRESS = logging.getLogger("berds")
DELAY = 2.0  # seconds until a bar is shown
EVERY = 15.0  # seconds between two lines, where there is no bar
_LINE = "{desc}: {n_fmt} of {total_fmt}, {elapsed}, about {remaining} left{postfix}"

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


class _Lines(io.StringIO):
    """Where tqdm writes a bar that nobody would see: each state of it becomes a line."""

    def write(self, text: str) -> int:
        if text.startswith("\r") and text.strip():  # the rest clears a bar away
            begin(text.strip())
        return len(text)


def bar(things: Iterable[Any] | None = None, **how: Any) -> Any:
    """Return tqdm's bar over things, which goes away when it is done; in a file, now and then a line in its place."""
    from tqdm import auto, std

    if bars_are_seen():
        return auto.tqdm(things, **{"delay": DELAY, "leave": False, **how})
    lines = {"delay": EVERY, "mininterval": EVERY, "miniters": 1, "bar_format": _LINE, "leave": False, "position": 0}
    return std.tqdm(things, **how | lines, file=_Lines(), disable=not PROGRESS.isEnabledFor(logging.INFO))


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


def chunk_starts(n: int, size: int, doing: str) -> Iterator[int]:
    """Yield where chunks of `size` of n things start; where nobody watches, with a line and a bar if several."""
    starts, watcher = range(0, n, size), _watcher.get()
    if several := watcher is None and len(starts) > 1:
        begin(f"{doing}: {n:,}, {size:,} at a time")
    # The first chunk of a large model can take minutes; in a notebook, a bar that is gone leaves its trace.
    delay = 0.0 if sys.stderr.isatty() else DELAY
    with bar(total=n, desc=doing, delay=delay) if several else nullcontext() as shown:
        for done, start in enumerate(starts):
            if watcher is not None:
                watcher(doing, done, len(starts))
            yield start
            if shown is not None:
                shown.update(min(size, n - start))
