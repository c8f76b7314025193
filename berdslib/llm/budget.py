"""A limit on what a chat model may cost, held before each request and over runs that failed or were killed."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path

from berdslib.errors import InputError
from berdslib.llm.chat import Bill, ChatError, ChatModel, Endpoint, Messages, Reply, Tokens, most_tokens
from berdslib.llm.recorded import append_line, lines_of

logger = logging.getLogger(__name__)

Prices = tuple[float, float]  # per million prompt and completion tokens
UNKNOWN: Prices = (0.0, 0.0)


class BudgetError(ChatError):
    """The next request could cost more than is left."""


class Budgeted:
    """A chat model that is not asked any more once a request could break a limit; for any number of threads.

    Before each attempt the most that it can cost is taken as spent, and afterwards what the server says it used is put
    in its place; where nobody knows, as with an answer that broke off, the most stays. Around an
    :class:`~berdslib.llm.chat.Endpoint` every attempt counts, those that are repeated too. A
    :class:`~berdslib.llm.recorded.Kept` belongs around this, since what is kept costs nothing.

    Args:
        model: an endpoint; or another model with ``max_tokens``, its longest answer.
        prices: per million prompt and completion tokens; two zeros where they are not known.
        limit: most that may be spent, in the currency of the prices.
        ledger: a file that has each attempt before it is sent, with the model and its prices. What is in it already
            counts as spent too, at the prices of then, or at those of now where none were known; so that the limit also
            holds over runs that were killed with requests under way, and over several models. Whoever uses it keeps
            others out of it, as a build does with a lock on its folder: two at once would spend the limit twice.
    """

    def __init__(self, model: ChatModel, *, prices: Prices, limit: float, ledger: Path | None = None) -> None:
        if not all(0 <= value < float("inf") for value in (*prices, limit)):
            raise InputError(f"prices and limit must be numbers from 0, not {prices} and {limit}")
        if not isinstance(getattr(model, "max_tokens", None), int):
            raise InputError(f"{model.id} does not say how long its answers can be, and so not what they can cost")
        self.id, self.model, self.prices, self.limit, self._ledger = model.id, model, prices, limit, ledger
        found = lines_of(ledger, _attempt, "a line of a ledger of requests", to_append=True) if ledger else []
        # Of each attempt the last line, which has the most that it can use unless it was settled.
        last = {name: (used, prices if then == UNKNOWN else then) for name, then, used in found}
        self._spent = sum((_cost(*one) for one in last.values()), Decimal())
        self._lock, self._warned = threading.Lock(), False

    @property
    def spent(self) -> float:
        """What was spent so far; a request under way counts as the most that it can cost."""
        return float(self._spent)

    def complete(self, messages: Messages) -> Reply:
        """Return the model's answer; BudgetError where it could cost more than is left, and nothing was sent."""
        if isinstance(self.model, Endpoint):
            return self.model.complete(messages, self.attempt)
        with self.attempt(most_tokens(messages, self.model.max_tokens)) as bill:  # type: ignore[attr-defined]
            reply = self.model.complete(messages)
            bill.settle(reply)
        return reply

    @contextmanager
    def attempt(self, most: Tokens) -> Iterator[Bill]:
        """Take the most that an attempt can cost as spent, and put its bill in the place of that at the end."""
        bill, worst, name = Bill(most), _cost(most, self.prices), uuid.uuid4().hex
        with self._lock:
            if self._spent + worst > Decimal(str(self.limit)):
                raise BudgetError(
                    f"the next request to {self.id} can cost {worst:.4f}, and of the limit of {self.limit:g} "
                    f"{self._spent:.4f} are spent or set aside for requests under way; what is recorded is kept, so "
                    "raise the limit to go on"
                )
            self._write(name, most)
            self._spent += worst
        try:
            yield bill
        finally:
            with self._lock:
                self._spent += _cost(bill.used, self.prices) - worst
                if not self._warned and (bill.used.prompt > most.prompt or bill.used.completion > most.completion):
                    logger.warning("%s counts %s tokens where at most %s were expected", self.id, bill.used, most)
                    self._warned = True
                if bill.used != most:
                    self._write(name, bill.used)

    def _write(self, name: str, used: Tokens) -> None:
        row = {"attempt": name, "model": self.id, "prices": list(self.prices), **asdict(used)}
        if self._ledger:
            append_line(self._ledger, json.dumps(row))


def _cost(tokens: Tokens, prices: Prices) -> Decimal:
    """Return what tokens cost, 0.1 as a tenth, so that no cent is lost in a sum."""
    read, written = (Decimal(str(float(price))) for price in prices)
    return (tokens.prompt * read + tokens.completion * written) / 1_000_000


def _attempt(line: str) -> tuple[str, Prices, Tokens]:
    """Return name, prices and tokens of a line; ledgers of old have no prices."""
    row = json.loads(line)
    read, written = prices = row.get("prices", UNKNOWN)
    if not all(isinstance(price, int | float) and 0 <= price < float("inf") for price in prices):
        raise ValueError("two prices were expected")
    return str(row["attempt"]), (float(read), float(written)), Tokens.told(row["prompt"], row["completion"])
