"""Errors that a user can fix: each names the place of the problem and the accepted values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

_LONGEST_NAME = 200  # characters of a value that a message quotes in full


class BerdsError(Exception):
    """An error the user can fix; the command line prints its message without a traceback, and so does Jupyter."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in place of the traceback."""
        return [f"\x1b[31m{type(self).__name__}\x1b[0m: {printable(str(self))}"]


class InputError(BerdsError, ValueError):
    """A file, value or table that cannot be used; the message names file, line (from 1) and field."""

    def __init__(
        self,
        problem: str,
        *,
        path: str | Path | None = None,
        line: int | None = None,
        field: str | None = None,
    ) -> None:
        where = str(path) if path is not None else ""
        if line is not None:
            where += f":{line}" if where else f"line {line}"
        if field is not None:
            where += f" [{field}]" if where else f"[{field}]"
        super().__init__(f"{where}: {problem}" if where else problem)
        self.problem = problem
        self.path = path
        self.line = line
        self.field = field


class MissingDataError(BerdsError):
    """A data set or model that is neither on this machine nor reachable."""


def known(kind: str, name: str, choices: Iterable[str]) -> str:
    """Return `name` if it is one of `choices`, else raise an error that lists them, the closest first.

    >>> known("judge", "gold", ["gold", "random"])
    'gold'
    """
    import difflib

    names = sorted(choices, key=lambda choice: re.sub(r"\d+", lambda digits: digits[0].zfill(9), choice))
    if name in names:
        return name
    is_long = len(str(name)) > _LONGEST_NAME
    close = [] if is_long else difflib.get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    shown = shortened(name) if is_long else repr(name)
    raise InputError(f"unknown {kind} {shown}.{hint} Known: {', '.join(names)}")


@contextmanager
def errors_in(path: str | Path, field: str = "") -> Iterator[None]:
    """Add a file's name to an InputError without one, and `field` before the error's own field.

    >>> with errors_in("a.tsv"):
    ...     raise InputError("is blank", line=3, field="qid")
    Traceback (most recent call last):
    berdslib.errors.InputError: a.tsv:3 [qid]: is blank
    """
    try:
        yield
    except InputError as error:
        if error.path is not None:
            raise
        where = ".".join(part for part in (field, error.field) if part)
        raise InputError(error.problem, path=path, line=error.line, field=where or None) from None


def check_call(what: str, function: Callable[..., Any], *given: str) -> None:
    """Raise InputError unless a user's function, described by `what`, accepts the `given` arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # written in C, without a signature
    try:
        signature.bind(*given)
    except TypeError as error:
        raise InputError(f"{what} is called with {' and '.join(given) or 'no arguments'}: {error}") from None


# Characters that move the cursor (but for line breaks and tabs), change the direction of text or cannot be encoded.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Return a text with escaped control characters, so that a file's contents cannot steer a terminal.

    >>> printable("q1\x1b[31m")
    'q1\\x1b[31m'
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
