"""A dry run: the steps with answers of usual length in place of real ones, and what the real ones would cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from berdslib.construction.drafts import Draft
from berdslib.construction.steps import Step
from berdslib.errors import MissingDataError
from berdslib.llm.asking import Answer
from berdslib.llm.chat import ChatModel, Messages, Reply, Tokens, most_tokens
from berdslib.llm.recorded import Recorded

# English has about four bytes to a token; a request has a few tokens more for each of its turns.
_BYTES_A_TOKEN, _TOKENS_A_TURN = 4, 4


class _Row(NamedTuple):
    """What a step would take: answers that are there, those that are missing, their likely tokens and the most."""

    step: str
    recorded: int
    to_ask: int
    likely: Tokens
    most: Tokens


class Rehearsal:
    """Answers that cost nothing: those that are recorded already, and answers of usual length in place of all others.

    Which items a model would leave out nobody knows before, so that it is asked at most as often as here, unless it has
    to be asked again for an answer that cannot be read.

    Args:
        chat: the model that would be asked; its id and longest answer count.
        recorded: the file of answers of an earlier run; it need not be there.
    """

    def __init__(self, chat: ChatModel, recorded: Path) -> None:
        self.id, self._longest = chat.id, int(getattr(chat, "max_tokens", 0))
        self._recorded = Recorded(recorded, chat.id) if recorded.is_file() else None
        self._rows: list[_Row] = []

    def __call__(self, step: Step, drafts: Sequence[Draft], asked: Sequence[Messages]) -> list[Answer]:
        """Return an answer for each item, and count what the missing ones would take."""
        known = [self._known(messages) for messages in asked]
        usual = [step.usual(draft) for draft in drafts]
        missing = [(messages, text) for messages, text, reply in zip(asked, usual, known, strict=True) if not reply]
        likely = sum((_likely(messages, text) for messages, text in missing), Tokens())
        most = sum((most_tokens(messages, self._longest) for messages, _ in missing), Tokens())
        self._rows.append(_Row(step.name, len(asked) - len(missing), len(missing), likely, most))
        return [Answer(reply or Reply(text)) for reply, text in zip(known, usual, strict=True)]

    def table(self, prices: tuple[float, float]) -> pd.DataFrame:
        """Return what is left to ask and what it would cost, a row for each step and one for all.

        Args:
            prices: per million prompt and completion tokens.

        Returns:
            Frame with columns step, recorded, to_ask, prompt_tokens, completion_tokens (as is likely), likely_cost and
            most_cost. The most holds if no answer has to be asked for again.
        """
        whole = _Row(
            "all",
            sum(row.recorded for row in self._rows),
            sum(row.to_ask for row in self._rows),
            sum((row.likely for row in self._rows), Tokens()),
            sum((row.most for row in self._rows), Tokens()),
        )
        return pd.DataFrame(
            {
                "step": row.step,
                "recorded": row.recorded,
                "to_ask": row.to_ask,
                "prompt_tokens": row.likely.prompt,
                "completion_tokens": row.likely.completion,
                "likely_cost": row.likely.cost(prices),
                "most_cost": row.most.cost(prices),
            }
            for row in (*self._rows, whole)
        )

    def _known(self, messages: Messages) -> Reply | None:
        if self._recorded is None:
            return None
        try:
            return self._recorded.complete(messages)
        except MissingDataError:
            return None


def _likely(messages: Messages, answer: str) -> Tokens:
    prompt = sum(_tokens(message["content"]) + _TOKENS_A_TURN for message in messages)
    return Tokens(prompt, _tokens(answer))


def _tokens(text: str) -> int:
    return -(-len(text.encode()) // _BYTES_A_TOKEN)
