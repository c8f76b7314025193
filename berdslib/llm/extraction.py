"""Root and perspective out of a raw query: by a rule that needs no model, or by a chat model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from berdslib.errors import InputError, known
from berdslib.llm.answers import strip_reasoning
from berdslib.llm.asking import read_all
from berdslib.llm.chat import ChatModel
from berdslib.llm.prompting import load_prompt
from berdslib.llm.recorded import Recorded
from berdslib.llm.untrusted import defuse_tag

# "Find", "show me", "please look for", "I am searching for": what asks and says nothing of what is asked for.
_ASKS = re.compile(
    r"^\s*(?:please\s+)?(?:(?:can|could|would)\s+you\s+)?(?:please\s+)?(?:(?:i\s+(?:need|want)|i\s*(?:am|'m|’m)\s+"
    r"(?:looking|searching)\s+for)|(?:find|show|give|get|retrieve|list|fetch|return|search(?:\s+for)?|look\s+for)"
    r"(?:\s+me)?)\s+",
    re.IGNORECASE,
)
# "From left-wing media, find a news article …": the perspective may come before the verb.
_ASKS_WITHIN = re.compile(r",\s*(?:please\s+)?(?:find|show|give|get|retrieve|list)(?:\s+me)?\s+", re.IGNORECASE)
_ABOUT = r"\s+(?:about|regarding|concerning|on\s+the\s+(?:topic|subject|issue)(?:\s+of)?)"
_ABOUT_AT_THE_END = re.compile(_ABOUT + r"\s*$", re.IGNORECASE)
_ABOUT_WITHIN = re.compile(_ABOUT + r"\s+", re.IGNORECASE)
_COLON = re.compile(r"\s*:\s+")  # not that of a time or an address
_WHICH = re.compile(r"\b(?:that|which|who|as|is|are)\b", re.IGNORECASE)
_LINE = re.compile(r"^[ \t]*(angle|topic)[ \t]*:(.*)$", re.IGNORECASE | re.MULTILINE)
_MAX_TOKENS = 1000  # of an answer, which repeats the query; stories, the longest queries of PIR, have some 200 words


class Extracted(NamedTuple):
    """A query taken apart: ``root``, what it is about; ``perspective``, which kind of answer is wanted."""

    root: str
    perspective: str


def extract(query: str) -> Extracted:
    """Return root and perspective of a query by its wording.

    A request ("Find …", "… media, show me …") says the perspective up to its colon, or up to "about", and then the
    root. Anything else, such as a question, is both: its perspective cannot be cut out by a rule.

    >>> extract("Find a claim that opposes the argument: Gambling must be banned")
    Extracted(root='Gambling must be banned', perspective='a claim that opposes the argument')
    """
    text = query.strip()
    if not text:
        raise InputError("a blank query has neither root nor perspective")
    asks = bool(_ASKS.match(text) or _ASKS_WITHIN.search(text))
    colon = _COLON.search(text)
    about = _ABOUT_WITHIN.search(text)
    # The colon is the topic's in "articles about Star Wars: A New Hope", but not in "news on the topic: bees" or in
    # "a talk about bees that supports: …".
    if about and colon and (colon.start() < about.end() or _WHICH.search(text, about.end(), colon.start())):
        about = None
    if asks and colon and not about:
        return Extracted(text[colon.end() :], _ABOUT_AT_THE_END.sub("", _without_asking(text[: colon.start()])))
    if asks and about:
        return Extracted(text[about.end() :], _without_asking(text[: about.start()]))
    return Extracted(text, text)


def _without_asking(frame: str) -> str:
    return _ASKS_WITHIN.sub(", ", _ASKS.sub("", frame)).strip() or frame


def extract_by(
    name: str, queries: Sequence[str], *, make_chat: Callable[..., ChatModel], recordings: Path | None = None
) -> list[Extracted]:
    """Return root and perspective of each query as a way that is named cuts them out.

    Queries whose answers cannot be read are named in a warning and taken apart by the rule;
    an :class:`~berdslib.llm.chat.UnreadError` where that is so of all.

    Args:
        name: "rule", which needs no model, or "chat:MODEL".
        queries: raw texts.
        make_chat: makes a chat model of MODEL, as :func:`berdslib.models.chat.make_chat` does.
        recordings: a file of answers: what is in it is not asked again, and what is new is added at once.
    """
    kind, _, model = name.partition(":")
    if known("way to take queries apart", kind if kind == "chat" else name, ("chat", "rule")) == "rule":
        return [extract(query) for query in queries]
    if blank := [i for i, query in enumerate(queries) if not query.strip()]:
        raise InputError(f"query {blank[0]} is blank; it has neither root nor perspective")
    chat = make_chat(model, max_tokens=_MAX_TOKENS)
    chat = Recorded(recordings, chat) if recordings else chat
    prompt = load_prompt("perspective_extraction", needs=("query",), asked=chat.id)
    # A query that closes the tag around it could go on as if it were the instruction.
    asked = {query: prompt.messages(query=defuse_tag(query, "request")) for query in queries}
    found = read_all(chat, asked, lambda text: read_extraction(strip_reasoning(text)), what="query",
                     desc="taking queries apart")  # fmt: skip
    return [found.get(query) or extract(query) for query in queries]


def read_extraction(answer: str) -> Extracted:
    r"""Read the two lines "angle: …" and "topic: …", in any order; quotes around a value are dropped.

    >>> read_extraction('angle: "in Brazil"\ntopic: floods')
    Extracted(root='floods', perspective='in Brazil')
    """
    found = [(name.lower(), value.strip().strip("\"'“”‘’`").strip()) for name, value in _LINE.findall(answer)]
    values = dict(found)
    if len(found) != 2 or not values.get("angle") or not values.get("topic"):
        raise InputError("the answer has to be the lines 'angle: …' and 'topic: …', once each")
    return Extracted(values["topic"], values["angle"])
