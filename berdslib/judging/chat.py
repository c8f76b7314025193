"""A chat model as judge: P(Yes) from the log-probabilities of its first token, or from its strictly parsed answer."""

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
_FIRST = 5  # pairs that are judged first


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
    """A judge that asks a chat model whether a document supports a statement.

    If the model or its server refuses a pair, or the answer is neither Yes nor No, the pair is unread and its P(Yes) is
    NaN. `parser`, "strict" or "official", reads replies without log-probabilities; `workers` is the number of requests
    at a time.
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
        """The judge's id, which identifies everything that the answers depend on.

        It includes deviations of a server that affect the answers: no or fewer log-probabilities, a default
        temperature, no system turn. They are unknown before the first answer; see :meth:`try_first`.
        """
        prompt = f"prompt={self.prompt.name}:{self.prompt.hash}"
        differs = getattr(self.model, "differs", "")
        model = f"{self.model.id}{f',{differs}' if differs else ''}"
        return f"chat({model},{prompt},parser={self.parser},title={self.title_position})"

    def try_first(self, pairs: Sequence[Pair], /) -> bool:
        """Send pairs to an endpoint that has not answered yet, until it answers; return whether the id changed."""
        before = self.id
        for i in _spread(len(pairs))[:_FIRST]:
            if getattr(self.model, "settled", True):
                break
            [answer], end = self._ask([pairs[i]])
            if end is not None:
                raise end
            if answer.reply or answer.unread:
                self._first[pairs[i]] = answer  # kept, since it has been paid for
        return self.id != before

    def p_yes_each(self, pairs: Sequence[Pair]) -> tuple[np.ndarray, BaseException | None]:
        """Return P(Yes) of each pair, NaN for unread pairs, and the error if other pairs have no answer.

        A warning counts unread pairs by reason. If the first five pairs are all unread, the remaining pairs are not
        sent, unless the judge is `proven`.
        """
        order = [pairs[i] for i in _spread(len(pairs)) if pairs[i] not in self._first]
        new, problem = self._ask(order, before=list(self._first.values()))
        answers = {pair: self._first[pair] for pair in pairs if pair in self._first}
        answers |= dict(zip(order, new, strict=True))
        unread = {pair: answer for pair, answer in answers.items() if answer.unread}
        for pair, answer in answers.items():
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
        p_yes = [answers[pair].read if pair in answers and pair not in unread else None for pair in pairs]
        return np.array(p_yes, dtype=np.float64), problem

    def messages(self, pair: Pair) -> list[dict[str, str]]:
        """Return the messages of the request for a pair."""
        document = defuse_tag(document_text(pair.passage, self.title_position), "document")
        statement = defuse_tag(one_line(pair.perspective), "document")
        return self.prompt.messages(document=document, statement=statement)

    def _ask(self, pairs: Sequence[Pair], before: Sequence[Answer] = ()) -> tuple[list[Answer], BaseException | None]:
        return ask_until_end(
            self.model,
            [self.messages(pair) for pair in pairs],
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
        verdict = self._parse(text)
        if verdict is None:
            reason = CUT_OFF if reply.finish == "length" else "neither Yes nor No"
            raise UnreadError(f"{self.model.id} answered {text[:80]!r}; expected Yes or No", reason)
        return float(verdict)


def _spread(n: int) -> list[int]:
    """Return the positions of n pairs, starting with some from the whole range.

    Otherwise the first pairs could all belong to one question, and a content filter may refuse them all.
    """
    first = range(0, n, max(1, -(-n // _FIRST)))
    return [*first, *(i for i in range(n) if i not in first)]


def _about(pair: Pair) -> str:
    return f"passage {pair.passage.docno!r} and {pair.perspective!r}"


def probability_of_yes(reply: Reply) -> float | None:
    """Return P(Yes) / (P(Yes) + P(No)) over the first token's alternatives.

    Returns None if Yes and No together have less than half of the probability; the answer's text then decides.
    """
    mass = {True: 0.0, False: 0.0}
    for token, logprob in reply.first_token:
        answer = strict_answer(token)
        if answer is not None:
            mass[answer] += math.exp(logprob)
    total = sum(mass.values())
    return mass[True] / total if total >= LEAST_MASS else None
