"""A limit on what a chat model may cost, held before each request and not after it."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from berdslib.errors import InputError
from berdslib.llm.chat import Bill, ChatError, ChatModel, Endpoint, Messages, Reply, Tokens, most_tokens
from berdslib.llm.lines import append_line, open_lines

logger = logging.getLogger(__name__)


class BudgetError(ChatError):
    """The next request could cost more than is left."""


class Budgeted:
    """A chat model that is not asked any more once a request could break a limit; for any number of threads.

    Before each attempt the most that it can cost is set aside, and afterwards what the server says it used is put in
    its place. Where nobody knows, as with an answer that broke off, all that was set aside counts as spent. Around an
    :class:`~berdslib.llm.chat.Endpoint` every attempt counts, those that are repeated too. A
    :class:`~berdslib.llm.recorded.Kept` belongs around this, since what is kept costs nothing.

    Args:
        model: an endpoint, which from then on answers within this limit however it is called; or another model with
            ``max_tokens``, its longest answer.
        prices: per million prompt and completion tokens.
        limit: most that may be spent, in the currency of the prices.
        spent: what was spent before and is in no ledger, see :func:`~berdslib.llm.recorded.spent_in`.
        ledger: a file that has each attempt before it is sent. What is in it already counts as spent too, so that the
            limit also holds over runs that failed or were killed.

    Raises:
        InputError: a negative price or limit, a model without ``max_tokens``, or a ledger that cannot be read.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        prices: tuple[float, float],
        limit: float,
        spent: float = 0.0,
        ledger: Path | None = None,
    ) -> None:
        if not all(0 <= value < float("inf") for value in (*prices, limit, spent)):
            raise InputError(f"prices, limit and spent must be numbers from 0, not {prices}, {limit} and {spent}")
        if not isinstance(getattr(model, "max_tokens", None), int):
            raise InputError(f"{model.id} does not say how long its answers can be, and so not what they can cost")
        self.id, self.model, self.prices, self.limit = model.id, model, prices, limit
        self._before, self._ledger = spent, ledger
        self._settled, self._open = Tokens(), Tokens()  # whole numbers, in which no cent is lost
        self._lock = threading.Lock()
        if ledger is not None:
            open_lines(ledger)
            self._settled = _tokens_in(ledger)
        if isinstance(model, Endpoint):
            model.meter = self.attempt

    @property
    def spent(self) -> float:
        """What was spent so far; requests under way are not in it."""
        with self._lock:
            return self._before + self._settled.cost(self.prices)

    def complete(self, messages: Messages) -> Reply:
        """Return the model's answer.

        Raises:
            BudgetError: it could cost more than is left; nothing was sent.
        """
        if isinstance(self.model, Endpoint):  # which asks for each attempt
            return self.model.complete(messages)
        with self.attempt(most_tokens(messages, self.model.max_tokens)) as bill:  # type: ignore[attr-defined]
            reply = self.model.complete(messages)
            bill.settle(reply)
        return reply

    @contextmanager
    def attempt(self, most: Tokens) -> Iterator[Bill]:
        """Set aside the most that an attempt can cost, and put its bill in the place of that at the end.

        Raises:
            BudgetError: it is more than what is left.
        """
        name, bill = uuid.uuid4().hex, Bill(most)
        with self._lock:
            self._check(most)
            self._write(name, most)
            self._open = self._open + most
        try:
            yield bill
        finally:
            if bill.used.prompt > most.prompt or bill.used.completion > most.completion:
                logger.warning("%s counts %s tokens where at most %s were expected", self.id, bill.used, most)
            with self._lock:
                self._open = self._open - most
                self._settled = self._settled + bill.used
                if bill.used != most:
                    self._write(name, bill.used)

    def _check(self, most: Tokens) -> None:
        spent = self._before + self._settled.cost(self.prices)
        open_, next_ = self._open.cost(self.prices), most.cost(self.prices)
        if self._before + (self._settled + self._open + most).cost(self.prices) > self.limit:
            raise BudgetError(
                f"the next request to {self.id} can cost {next_:.4f}, and of the limit of {self.limit:g} {spent:.4f} "
                f"are spent and {open_:.4f} set aside for requests under way; what is recorded is kept, so raise the "
                "limit to go on"
            )

    def _write(self, name: str, tokens: Tokens) -> None:
        if self._ledger is not None:
            append_line(self._ledger, json.dumps({"attempt": name, **asdict(tokens)}))


def _tokens_in(ledger: Path) -> Tokens:
    """Return what all attempts used: of each the last line, which has the most it can use unless it was settled."""
    attempts: dict[str, Tokens] = {}
    for number, line in enumerate(ledger.read_bytes().splitlines() if ledger.exists() else (), start=1):
        try:
            row = json.loads(line)
            attempts[str(row["attempt"])] = Tokens.told(row["prompt"], row["completion"])
        except (ValueError, KeyError, TypeError):
            raise InputError("not a line of a ledger of requests", path=ledger, line=number) from None
    return sum(attempts.values(), Tokens())
