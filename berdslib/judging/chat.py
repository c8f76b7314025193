"""A chat model as judge: P(Yes) from the log-probabilities of its first token, or from a strictly read answer."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from berdslib.errors import known
from berdslib.judging.base import EachByItself, Pair, document_text
from berdslib.llm.answers import CUT_OFF, answer_of
from berdslib.llm.asking import Answer, ask_until_end, by_reason, hint
from berdslib.llm.chat import ChatModel, Reply, UnavailableError, UnreadError
from berdslib.llm.prompting import Prompt, load_prompt
from berdslib.llm.untrusted import defuse_tag, one_line

logger = logging.getLogger(__name__)

LEAST_MASS = 0.5
_FIRST = 5  # pairs that are asked first


def strict_answer(text: str) -> bool | None:
    """Return True for Yes, False for No, None for anything else; case, quotes, emphasis and a full stop are ignored.

    >>> strict_answer('**Yes**.'), strict_answer("I cannot say yes"), strict_answer("")
    (True, None, None)
    """
    bare = re.sub(r"^[\s\"'`*_“”‘’(\[]+|[\s\"'`*_“”‘’.!)\]]+$", "", text).lower()
    return {"yes": True, "no": False}.get(bare)


def official_answer(text: str) -> bool | None:
    """Read an answer as the published script does: yes if the last word is "yes" (divergences.md B7), None if empty."""
    words = text.lower().split()
    return words[-1] == "yes" if words else None


PARSERS: dict[str, Callable[[str], bool | None]] = {"strict": strict_answer, "official": official_answer}


class Chat(EachByItself):
    """Asks a chat model whether a document supports a statement.

    A pair is unread, and its P(Yes) NaN, where the model or its server refuses it, or says neither Yes nor No.
    `parser`, "strict" or "official", is for replies without log-probabilities; `workers` requests are in flight at a
    time.
    """

    threshold = 0.5

    def __init__(
        self,
        model: ChatModel,
        *,
        prompt: Prompt | None = None,
        parser: str = "strict",
        workers: int = 4,
        title_position: str = "after",
    ) -> None:
        self.model = model
        self.parser = parser
        self.workers = workers
        self.title_position = title_position
        self.prompt = prompt or load_prompt("perspective_detection", needs=("document", "statement"), asked=model.id)
        self._parse = PARSERS[known("parser", parser, PARSERS)]
        self._first: dict[Pair, Answer] = {}

    @property
    def id(self) -> str:
        """Names everything that the answers depend on.

        That includes what a server is found to do otherwise than asked, where answers depend on it: no or fewer
        log-probabilities, its own temperature, no system turn. Before the first answer nobody knows; see
        :meth:`try_first`.
        """
        prompt = f"prompt={self.prompt.name}:{self.prompt.hash}"
        differs = getattr(self.model, "differs", "")
        model = f"{self.model.id}{f',{differs}' if differs else ''}"
        return f"chat({model},{prompt},parser={self.parser},title={self.title_position})"

    def try_first(self, pairs: Sequence[Pair], /) -> bool:
        """Ask an endpoint that never answered about pair after pair until it does; return whether the id changed."""
        before = self.id
        for i in _spread(len(pairs))[:_FIRST]:
            if getattr(self.model, "settled", True):
                break
            [answer], end = self._ask([pairs[i]])
            if end is not None:
                raise end
            if answer.reply or answer.unread:
                self._first[pairs[i]] = answer  # it is paid for
        return self.id != before

    def p_yes_each(self, pairs: Sequence[Pair]) -> tuple[np.ndarray, BaseException | None]:
        """Return P(Yes) of each pair, NaN where it is unread, and why other pairs have no answer.

        Unread pairs are no problem by themselves, and a warning counts them by reason. But where the first five are all
        unread, the rest is not asked, unless the judge is `proven`.
        """
        order = [pairs[i] for i in _spread(len(pairs)) if pairs[i] not in self._first]
        given, problem = self._ask(order, before=list(self._first.values()))
        found = {pair: self._first[pair] for pair in pairs if pair in self._first}
        found |= dict(zip(order, given, strict=True))
        unread = {pair: answer for pair, answer in found.items() if answer.unread}
        for pair, answer in found.items():
            if answer.reply is None and not answer.unread:
                problem = problem or UnavailableError(f"{answer.problem} ({_about(pair)})")
        if unread and problem is None:
            examples = {
                answer.unread: f"{answer.problem} ({_about(pair)})" for pair, answer in reversed(unread.items())
            }
            logger.warning(
                "%d of %d pairs are unread: %s. For example: %s%s",
                len(unread),
                len(pairs),
                by_reason(unread.values()),
                "; ".join(examples.values()),
                hint(self.model, unread.values()),
            )
        p_yes = [found[pair].read if pair in found and not found[pair].unread else None for pair in pairs]
        return np.array(p_yes, dtype=np.float64), problem

    def messages(self, pair: Pair) -> list[dict[str, str]]:
        """Return what is sent for a pair."""
        document = defuse_tag(document_text(pair.passage, self.title_position), "document")
        statement = defuse_tag(one_line(pair.perspective), "document")
        return self.prompt.messages(document=document, statement=statement)

    def _ask(self, pairs: Sequence[Pair], before: Sequence[Answer] = ()) -> tuple[list[Answer], BaseException | None]:
        asked = [self.messages(pair) for pair in pairs]
        return ask_until_end(
            self.model,
            asked,
            read=self._read,
            before=before,
            proven=self.proven,
            workers=self.workers,
            desc="asking the judge",
        )

    def _read(self, reply: Reply) -> float:
        text = answer_of(reply)
        p = probability_of_yes(reply)
        if p is not None:
            return p
        said = self._parse(text)
        if said is None:
            reason = CUT_OFF if reply.finish == "length" else "neither Yes nor No"
            raise UnreadError(f"{self.model.id} answered {text[:80]!r}; Yes or No was expected", reason)
        return float(said)


def _spread(n: int) -> list[int]:
    """Return the places of n pairs, some from all over in front: a content filter may refuse all of one question."""
    first = range(0, n, max(1, -(-n // _FIRST)))
    return [*first, *(i for i in range(n) if i not in first)]


def _about(pair: Pair) -> str:
    return f"passage {pair.passage.docno!r} and {pair.perspective!r}"


def probability_of_yes(reply: Reply) -> float | None:
    """Return P(Yes) / (P(Yes) + P(No)) over the first token's alternatives.

    None where the two have less than half of the probability together: the answer's text has to decide.
    """
    mass = {True: 0.0, False: 0.0}
    for token, logprob in reply.first_token:
        answer = strict_answer(token)
        if answer is not None:
            mass[answer] += math.exp(logprob)
    total = sum(mass.values())
    return mass[True] / total if total >= LEAST_MASS else None
