"""A chat model as judge: P(Yes) from the log-probabilities of its first token, or from a strictly read answer."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from berdslib.errors import BerdsError, InputError, known
from berdslib.judging.base import EachByItself, Pair, document_text
from berdslib.llm.asking import Answer, ask_until_end
from berdslib.llm.chat import ChatModel, RefusedError, Reply, UnavailableError
from berdslib.llm.prompting import Prompt, load_prompt
from berdslib.llm.untrusted import defuse_tag, one_line

LEAST_MASS = 0.5


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
    """Asks a chat model whether a document supports a statement; an answer that is neither Yes nor No is an error.

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
        self.model, self.workers, self.title_position = model, workers, title_position
        self.prompt = prompt or load_prompt("perspective_detection", needs=("document", "statement"), asked=model.id)
        self._parse = PARSERS[known("parser", parser, PARSERS)]
        self.id = (
            f"chat({model.id},prompt={self.prompt.name}:{self.prompt.hash},parser={parser},title={title_position})"
        )

    def p_yes_each(self, pairs: Sequence[Pair]) -> tuple[np.ndarray, BaseException | None]:
        """Return what is read of the answers, and the InputError or ChatError of the first that there is not."""
        asked = [self.messages(pair) for pair in pairs]
        answers, problem = ask_until_end(self.model, asked, workers=self.workers, desc="asking the judge")
        p_yes = np.full(len(pairs), np.nan)
        for i, (pair, answer) in enumerate(zip(pairs, answers, strict=True)):
            try:
                p_yes[i] = self._read(pair, answer)
            except BerdsError as error:
                problem = problem or error
        return p_yes, problem

    def messages(self, pair: Pair) -> list[dict[str, str]]:
        """Return what is sent for a pair."""
        document = defuse_tag(document_text(pair.passage, self.title_position), "document")
        statement = defuse_tag(one_line(pair.perspective), "document")
        return self.prompt.messages(document=document, statement=statement)

    def _read(self, pair: Pair, answer: Answer) -> float:
        reply, about = answer.reply, f"about passage {pair.passage.docno!r} and {pair.perspective!r}"
        if reply is None:
            raise (RefusedError if answer.refused else UnavailableError)(f"{answer.problem} ({about})")
        p = probability_of_yes(reply)
        if p is not None:
            return p
        said = self._parse(reply.text)
        if said is None:
            raise InputError(f"{self.model.id} answered {reply.text[:80]!r} {about}; Yes or No was expected")
        return float(said)


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
