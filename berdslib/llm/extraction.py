"""Extraction of root and perspective from a raw query, by a rule without a model or by a chat model."""

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

# "Find", "show me", "please look for", "I am searching for": words of a request that do not describe its object.
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
_COLON = re.compile(r"\s*:\s+")  # but not the colon in a time or a URL
_WHICH = re.compile(r"\b(?:that|which|who|as|is|are)\b", re.IGNORECASE)
_LINE = re.compile(r"^[ \t]*(angle|topic)[ \t]*:(.*)$", re.IGNORECASE | re.MULTILINE)
_MAX_TOKENS = 1000  # of an answer, which repeats the query; PIR's longest queries, stories, have some 200 words


class Extracted(NamedTuple):
    """The parts of a query: ``root``, its topic, and ``perspective``, the kind of answer that it asks for."""

    root: str
    perspective: str


def extract(query: str) -> Extracted:
    """Return root and perspective of a query, by a rule on its wording.

    In a request ("Find …", "… media, show me …"), the text up to the colon or to "about" is the perspective, and the
    rest is the root. Any other query, such as a question, is both root and perspective, because no rule can separate
    them.

    Raises:
        InputError: a blank query.

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
    """Return root and perspective of each query, extracted by the method `name`.

    If the chat model's answer for a query is unreadable, a warning names the query, and the rule extracts its parts.

    Args:
        name: "rule", which needs no model, or "chat:MODEL".
        queries: raw texts.
        make_chat: returns the chat model MODEL, as :func:`berdslib.models.chat.make_chat` does.
        recordings: a file of recorded answers; queries with an answer in it are not sent, and new answers are added at
            once.

    Raises:
        InputError: an unknown method, or a blank query.
        UnreadError: the answers for all queries are unreadable; other errors as of
            :func:`~berdslib.llm.asking.read_all`.
    """
    kind, _, model = name.partition(":")
    if known("extraction method", kind if kind == "chat" else name, ("chat", "rule")) == "rule":
        return [extract(query) for query in queries]
    blank = [i for i, query in enumerate(queries) if not query.strip()]
    if blank:
        raise InputError(f"query {blank[0]} is blank; it has neither root nor perspective")
    chat = make_chat(model, max_tokens=_MAX_TOKENS)
    chat = Recorded(recordings, chat) if recordings else chat
    prompt = load_prompt("perspective_extraction", needs=("query",), asked=chat.id)
    # A query that closes the tag around it could pass the rest of its text off as an instruction.
    asked = {query: prompt.messages(query=defuse_tag(query, "request")) for query in queries}
    found = read_all(chat, asked, lambda text: read_extraction(strip_reasoning(text)), what="query",
                     desc="extracting perspectives")  # fmt: skip
    return [found.get(query) or extract(query) for query in queries]


def read_extraction(answer: str) -> Extracted:
    r"""Parse the lines "angle: …" and "topic: …", in any order; quotes around a value are removed.

    Raises:
        InputError: a line is missing, empty or repeated.

    >>> read_extraction('angle: "in Brazil"\ntopic: floods')
    Extracted(root='floods', perspective='in Brazil')
    """
    found = [(name.lower(), value.strip().strip("\"'“”‘’`").strip()) for name, value in _LINE.findall(answer)]
    values = dict(found)
    if len(found) != 2 or not values.get("angle") or not values.get("topic"):
        raise InputError("expected one line 'angle: …' and one line 'topic: …' in the answer")
    return Extracted(values["topic"], values["angle"])
