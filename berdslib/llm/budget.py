"""A limit on what a chat model may cost, held before each request and not after it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import TracebackType

from berdslib.errors import InputError
from berdslib.llm.chat import Bill, ChatError, ChatModel, Endpoint, Messages, Reply, Tokens, most_tokens, unmetered
from berdslib.llm.ledger import Ledger, Prices, exact, exact_cost
from berdslib.llm.recorded import Recorded

logger = logging.getLogger(__name__)


class BudgetError(ChatError):
    """The next request could cost more than is left."""


class Budgeted:
    """A chat model that is not asked any more once a request could break a limit; for any number of threads.

    Before each attempt the most that it can cost is set aside, and afterwards what the server says it used is put in
    its place. Where nobody knows, as with an answer that broke off, all that was set aside counts as spent. Around an
    :class:`~berdslib.llm.chat.Endpoint` every attempt counts, those that are repeated too. A
    :class:`~berdslib.llm.recorded.Kept` belongs around this, since what is kept costs nothing; nor does anything that
    :class:`~berdslib.llm.recorded.Recorded` answers, which was paid for when it was recorded.

    It may stand in a ``with`` statement, at whose end it is closed.

    Args:
        model: an endpoint, which until this is closed answers within this limit however it is called; recorded answers;
            or another model with ``max_tokens``, its longest answer.
        prices: per million prompt and completion tokens; two zeros where they are not known.
        limit: most that may be spent, in the currency of the prices.
        spent: what was spent before and is in no ledger, see :func:`~berdslib.llm.recorded.spent_in`.
        ledger: a file that has each attempt before it is sent, with the model and its prices. What is in it already
            counts as spent too, at the prices of then, or at those of now where none were known; so that the limit also
            holds over runs that failed or were killed, and over several models. Until this is closed no other process
            can use it; another budget of this process takes over.

    Raises:
        InputError: a negative price or limit, a model without ``max_tokens``, or a ledger that is in use or cannot be
            read.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        prices: Prices,
        limit: float,
        spent: float = 0.0,
        ledger: Path | None = None,
    ) -> None:
        if not all(0 <= value < float("inf") for value in (*prices, limit, spent)):
            raise InputError(f"prices, limit and spent must be numbers from 0, not {prices}, {limit} and {spent}")
        if not isinstance(model, Recorded) and not isinstance(getattr(model, "max_tokens", None), int):
            raise InputError(f"{model.id} does not say how long its answers can be, and so not what they can cost")
        self.id, self.model, self.prices, self.limit = model.id, model, prices, limit
        self._ledger = None if ledger is None else Ledger(ledger)
        self._spent = exact(spent) + (self._ledger.before(prices) if self._ledger else 0)
        self._open = Fraction()  # set aside for requests under way
        self._lock = threading.Lock()
        self._closed = self._warned = False
        if isinstance(model, Endpoint):
            model.meter = self.attempt

    @property
    def spent(self) -> float:
        """What was spent so far; requests under way are not in it."""
        with self._lock:
            return float(self._spent)

    def complete(self, messages: Messages) -> Reply:
        """Return the model's answer.

        Raises:
            BudgetError: it could cost more than is left, and nothing was sent; or this was closed.
        """
        self._check_open()
        if isinstance(self.model, Endpoint | Recorded):  # the one asks for each attempt, the other costs nothing
            return self.model.complete(messages)
        with self.attempt(most_tokens(messages, self.model.max_tokens)) as bill:  # type: ignore[attr-defined]
            reply = self.model.complete(messages)
            bill.settle(reply)
        return reply

    def close(self) -> None:
        """Answer no more: the ledger is free for others, and an endpoint is as it was before."""
        self._closed = True
        if self._ledger:
            self._ledger.close()
        if isinstance(self.model, Endpoint) and self.model.meter == self.attempt:
            self.model.meter = unmetered

    def __enter__(self) -> Budgeted:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def attempt(self, most: Tokens) -> Iterator[Bill]:
        """Set aside the most that an attempt can cost, and put its bill in the place of that at the end.

        Raises:
            BudgetError: it is more than what is left.
        """
        bill, worst = Bill(most), exact_cost(most, self.prices)
        with self._lock:
            self._check_open()
            self._check(worst)
            name = self._ledger.begin(self.id, self.prices, most) if self._ledger else ""
            self._open += worst
        try:
            yield bill
        finally:
            with self._lock:
                self._open -= worst
                self._spent += exact_cost(bill.used, self.prices)
                self._tell_of_more(bill.used, most)
                if self._ledger:
                    self._ledger.settle(name, bill.used)

    def _check_open(self) -> None:
        if self._closed:
            raise BudgetError(f"the budget of {self.id} was closed; make another to go on")

    def _check(self, next_: Fraction) -> None:
        if self._spent + self._open + next_ > exact(self.limit):
            spent, open_ = float(self._spent), float(self._open)
            raise BudgetError(
                f"the next request to {self.id} can cost {float(next_):.4f}, and of the limit of {self.limit:g} "
                f"{spent:.4f} are spent and {open_:.4f} set aside for requests under way; what is recorded is kept, so "
                "raise the limit to go on"
            )

    def _tell_of_more(self, used: Tokens, most: Tokens) -> None:
        """Say once that a server counts more than it can, by what we know of tokens."""
        if not self._warned and (used.prompt > most.prompt or used.completion > most.completion):
            logger.warning("%s counts %s tokens where at most %s were expected", self.id, used, most)
            self._warned = True
