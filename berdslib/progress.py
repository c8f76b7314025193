"""Progress of long work: a log line at the start, then a tqdm bar; callers may cancel the work."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

from berdslib.errors import printable

# Logs the start of work at level INFO: the shell shows it, Python does not. Silencing warnings hides bars, too.
PROGRESS = logging.getLogger("berds")
DELAY = 2.0  # seconds until a bar is shown
EVERY = 15.0  # seconds between two states of a bar in a file

# Set in a context to cancel the work that runs there.
given_up: ContextVar[threading.Event] = ContextVar("given_up")
NEVER = threading.Event()


class StoppedError(Exception):
    """Raised by cancelled work; the parts that are finished are kept."""


def begin(said: str) -> None:
    """Log that a piece of work begins."""
    PROGRESS.info("%s", printable(said))


def bars_are_seen() -> bool:
    """Return whether bars are shown: in a notebook or a terminal, not in a file, and not if progress is silenced."""
    from tqdm import auto

    in_notebook = auto.notebook_tqdm is not auto.std_tqdm
    return (in_notebook or sys.stderr.isatty()) and PROGRESS.isEnabledFor(logging.WARNING)


def bar(things: Iterable[Any] | None = None, **how: Any) -> Any:
    """Return a tqdm bar over things, which disappears at the end; a file gets its state every 15 seconds."""
    from tqdm import auto, std

    if bars_are_seen():
        return auto.tqdm(things, **{"delay": DELAY, "leave": False, **how})
    rarely = {"delay": EVERY, "mininterval": EVERY, "miniters": 1, "leave": True, "position": 0}
    return std.tqdm(things, **how | rarely, disable=not PROGRESS.isEnabledFor(logging.INFO))


def stop_if_given_up() -> None:
    """Raise StoppedError if the work of this context was cancelled."""
    if given_up.get(NEVER).is_set():
        raise StoppedError


def chunk_starts(n: int, size: int, doing: str) -> Iterator[int]:
    """Yield the start of each chunk of `size` out of n things, with a bar for several; StoppedError if cancelled."""
    starts = range(0, n, size)
    for start in bar(starts, desc=doing, unit="chunk") if len(starts) > 1 else starts:
        stop_if_given_up()
        yield start
