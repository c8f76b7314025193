"""A file that has every attempt and its prices before it is sent, so that a limit holds over runs and processes."""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from filelock import FileLock, Timeout

from berdslib.errors import InputError
from berdslib.llm.chat import ChatError, Tokens
from berdslib.llm.lines import append_line, open_lines

Prices = tuple[float, float]  # per million prompt and completion tokens
UNKNOWN: Prices = (0.0, 0.0)


def exact(number: float) -> Fraction:
    """Return a number as it is written, 0.1 as a tenth, so that no cent is lost in a sum."""
    return Fraction(str(float(number)))


def exact_cost(tokens: Tokens, prices: Prices) -> Fraction:
    """Return what tokens cost, to the last digit."""
    return (tokens.prompt * exact(prices[0]) + tokens.completion * exact(prices[1])) / 1_000_000


class Attempt(NamedTuple):
    """An attempt: who was asked at which prices, and what it ``used``, or the most that it can where nobody knows."""

    name: str
    model: str
    prices: Prices
    used: Tokens


class Ledger:
    """A file of attempts, for one at a time.

    Two that each count only what they spend themselves would spend a limit twice. So the file is locked against other
    processes until :meth:`close`, or until this one ends, however it ends. In this process whoever opens it last takes
    over from the one before, which then is closed.

    Args:
        path: JSONL file; it need not exist yet. The lock is a hidden file beside it.

    Raises:
        InputError: it is in use, or cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._closed = path, False
        self._under_way: dict[str, Attempt] = {}
        self._turn = threading.Lock()
        with _OPENING:
            if earlier := _OPEN.get(path.resolve()):
                earlier._give_way()
            self._file_lock = _lock(path)
            _OPEN[path.resolve()] = self
        try:
            # Of each attempt the last line, which has the most that it can use unless it was settled.
            self._found = {one.name: one for one in open_lines(path, _attempt, "a line of a ledger of requests")}
        except InputError:
            self.close()
            raise

    def before(self, prices: Prices) -> Fraction:
        """Return what the attempts that were there already cost, each at its own prices.

        Args:
            prices: for attempts whose own were not known.
        """
        own = ((one.used, prices if one.prices == UNKNOWN else one.prices) for one in self._found.values())
        return sum((exact_cost(*one) for one in own), Fraction())

    def begin(self, model: str, prices: Prices, most: Tokens) -> str:
        """Write down an attempt with the most that it can use, and return its name.

        Raises:
            ChatError: the ledger was closed, or somebody else has taken over.
            InputError: it cannot be written.
        """
        attempt = Attempt(uuid.uuid4().hex, model, prices, most)
        with self._turn:
            if self._closed:
                raise ChatError(f"{self.path}: this budget was closed, or another one counts in this file since")
            self._write(attempt)
            self._under_way[attempt.name] = attempt
        return attempt.name

    def settle(self, name: str, used: Tokens) -> None:
        """Write down what an attempt used.

        Raises:
            InputError: it cannot be written.
        """
        with self._turn:
            attempt = self._under_way.pop(name)
            if used != attempt.used:
                self._write(attempt._replace(used=used))

    def close(self) -> None:
        """Leave the file to others."""
        with self._turn:
            self._closed = True
            self._file_lock.release()

    def _give_way(self) -> None:
        if self._under_way:
            raise InputError("has requests under way in this process; wait until they are done", path=self.path)
        self.close()

    def _write(self, attempt: Attempt) -> None:
        name, model, prices, used = attempt
        append_line(self.path, json.dumps({"attempt": name, "model": model, "prices": list(prices), **asdict(used)}))


_OPENING = threading.Lock()
_OPEN: WeakValueDictionary[Path, Ledger] = WeakValueDictionary()


def _lock(path: Path) -> FileLock:
    """Lock a ledger."""
    lock = FileLock(path.with_name(f".{path.name}.lock"), thread_local=False)  # any thread may release it
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        why = "is in use by another process, and one limit cannot hold for two at once; wait until that one is done"
        raise InputError(why, path=path) from None
    except OSError as error:
        raise InputError(f"cannot be opened ({error.strerror or error})", path=path) from None
    return lock


def _attempt(line: str) -> Attempt:
    row = json.loads(line)
    used = Tokens.told(row["prompt"], row["completion"])
    return Attempt(str(row["attempt"]), str(row.get("model", "")), _prices(row.get("prices", UNKNOWN)), used)


def _prices(listed: Any) -> Prices:
    """Return prices that came from a file, checked; ledgers of old have none."""
    read, written = listed
    if not all(isinstance(price, int | float) and 0 <= price < float("inf") for price in (read, written)):
        raise ValueError("two prices were expected")
    return float(read), float(written)
