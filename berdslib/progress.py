"""How far long work is: a line when it begins, and a bar; and how whoever waits for it gives it up."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

from berdslib.errors import printable

# Lines of what begins, level INFO: the shell shows them, Python does not. Without warnings there are no bars either.
PROGRESS = logging.getLogger("berds")
DELAY = 2.0  # seconds until a bar is shown
EVERY = 15.0  # seconds between two states of a bar in a file

# Set in a context by whoever gives up what is under way there.
given_up: ContextVar[threading.Event] = ContextVar("given_up")
NEVER = threading.Event()


class StoppedError(Exception):
    """Raised by work that was given up; what is done of it stays done."""


def begin(said: str) -> None:
    """Say what work begins."""
    PROGRESS.info("%s", printable(said))


def bars_are_seen() -> bool:
    """Return whether bars are shown: in a notebook or a terminal, not in a file, and not if progress is silenced."""
    from tqdm import auto

    in_notebook = auto.notebook_tqdm is not auto.std_tqdm
    return (in_notebook or sys.stderr.isatty()) and PROGRESS.isEnabledFor(logging.WARNING)


def bar(things: Iterable[Any] | None = None, **how: Any) -> Any:
    """Return tqdm's bar over things, which goes away when it is done; a file gets a state of it now and then."""
    from tqdm import auto, std

    if bars_are_seen():
        return auto.tqdm(things, **{"delay": DELAY, "leave": False, **how})
    rarely = {"delay": EVERY, "mininterval": EVERY, "miniters": 1, "leave": True, "position": 0}
    return std.tqdm(things, **how | rarely, disable=not PROGRESS.isEnabledFor(logging.INFO))


def stop_if_given_up() -> None:
    """Raise StoppedError where the work of this context was given up."""
    if given_up.get(NEVER).is_set():
        raise StoppedError


def chunk_starts(n: int, size: int, doing: str) -> Iterator[int]:
    """Yield where chunks of `size` of n things start, with a bar over several; stop where the work is given up."""
    starts = range(0, n, size)
    for start in bar(starts, desc=doing, unit="chunk") if len(starts) > 1 else starts:
        stop_if_given_up()
        yield start
