"""The errors that a user can mend: each says where the trouble is and what would be accepted."""

from __future__ import annotations

from pathlib import Path


class BerdsError(Exception):
    """Something the user can put right; the command line prints its message without a traceback."""


class InputError(BerdsError, ValueError):
    """A file, value or table that cannot be used.

    Args:
        problem: what is wrong and what would be accepted.
        path: the file it was read from, if any.
        line: the line in that file, counted from 1.
        field: the name of the field or column.
    """

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
        self.problem, self.path, self.line, self.field = problem, path, line, field


class MissingDataError(BerdsError):
    """A data set or model that is neither on this machine nor reachable."""


def known(kind: str, name: str, choices: object) -> str:
    """Return `name` if it is one of `choices`, else raise an error that lists them, the closest first.

    Args:
        kind: what is being chosen, for the message ("retriever").
        name: what the user asked for.
        choices: an iterable of accepted names.

    Raises:
        InputError: the name is not known.

    >>> known("judge", "gold", ["gold", "random"])
    'gold'
    """
    import difflib

    names = sorted(choices)  # type: ignore[call-overload]
    if name in names:
        return name
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise InputError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names)}")
