"""Reading a chat model's answer: perspectives out of what should be a JSON object.

A model that is held to a schema (prompts.toml) answers in JSON. Where a server takes no schema, json5 reads what models
write besides: text around the object, a comma too many, single quotes, keys without quotes, comments. What it cannot
read is refused, and not left to a library that repairs JSON, such as json_repair: of an answer that breaks off, a part
would pass for the whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from berdslib.errors import InputError, known
from berdslib.llm.chat import CONTENT_FILTER, Reply, UnreadError

NESTED = ("all", "first")
CUT_OFF = "cut off before an answer"
# Characters. A hundred perspectives as long as those of BeRDS (44 words, A.7) have 30,000; json5 is written in Python
# and takes 8 to 50 microseconds for each, and some milliseconds for each place at which it finds no JSON.
_LONGEST = 50_000
MOST_BLOCKS = 500
# In {"name": "Animal welfare", "statement": "…"} the one is the name of the other. "perspective" is used for both.
_NAME_KEYS = ("name", "title", "label", "perspective")
_TEXT_KEYS = ("statement", "text", "description", "content", "argument", "explanation", "viewpoint", "perspective")
_GENERIC = frozenset((*_TEXT_KEYS, "perspectives", "statements", "arguments", "viewpoints"))
# How models mark what they think before they answer; the last is the mark before the answer itself (gpt-oss).
_THOUGHT = r"<(?:think|thinking|thought|reasoning|seed:think)>|\[THINK\]|<\|channel\|>analysis"
_THOUGHT_ENDS = r"</(?:think|thinking|thought|reasoning|seed:think)>|\[/THINK\]|<\|channel\|>final<\|message\|>"
_START = re.compile(r"[\[{]")
# Brackets that are JSON and not prose: a quote stands behind them, or a key and then a value in quotes or brackets.
_BEGINS = re.compile(r"[\[{\s]*+(?:[\"'“‘]|[^\W\d][\w -]*+:\s*[\"'“‘\[{])")


def parse_perspectives(text: str, nested: str = "all") -> list[tuple[str, str]]:
    """Read (name, statement) pairs from an answer that should be a JSON object.

    Every text in lists and inner objects is a statement (divergences.md B14): {"Costs": {"short term": "…"}} is named
    "Costs: short term"; an object with a name and a statement in it is one pair. Underscores in names are read as
    blanks. Numbers and empty texts are no statements.

    Args:
        text: the answer.
        nested: "all"; or "first" for the published reading, which keeps an inner object's first value only.

    Raises:
        InputError: nothing to be read, an answer of more than LONGEST characters or MOST_BLOCKS blocks in brackets, or
            JSON that breaks off or cannot be read to its end: a part of it could be taken for the whole.

    >>> parse_perspectives('Sure: {"Animal_Welfare": "Zoos are cruel.", }')
    [('Animal Welfare', 'Zoos are cruel.')]
    """
    known("reading of nested answers", nested, NESTED)
    if len(text) > _LONGEST:
        raise InputError(f"it has {len(text)} characters; at most {_LONGEST} are read")
    found: list[tuple[str, str]] = []
    for value in _json_values(strip_reasoning(text)):
        for entry in _entries(value):
            pairs = list(_pairs(entry, ()))
            found += pairs if nested == "all" else pairs[:1]
    if not found:
        raise InputError("no perspective can be read from it; a JSON object of names and statements was expected")
    return found


def answer_of(reply: Reply) -> str:
    """Return what a model answers, without what it thought before.

    Raises:
        UnreadError: there is no answer: it was filtered, is a refusal or a call of a tool, is empty, or was cut off
            while the model was thinking.
    """
    if reply.finish == "content_filter":
        raise UnreadError("the server's content filter ended it", CONTENT_FILTER)
    if reply.finish == "refusal":
        raise UnreadError(f"it is a refusal: {reply.text[:80]!r}", "refused by the model")
    if reply.finish == "tool_calls" and not reply.text:
        raise UnreadError("it is a call of a tool", "call of a tool")
    try:
        text = strip_reasoning(reply.text)
    except InputError as error:
        raise UnreadError(error.problem, CUT_OFF) from None
    if text.strip():
        return text
    if reply.finish == "length":
        raise UnreadError("it was cut off before its first word, as happens where a model thinks first", CUT_OFF)
    raise UnreadError("it is empty", "empty answer")


def strip_reasoning(answer: str) -> str:
    """Return an answer without what a model thought aloud before it.

    The opening tag may have been in the chat template, so that the answer has the closing one only.

    Raises:
        InputError: the answer breaks off while it thinks.
    """
    rest = re.sub(rf"\A.*(?:{_THOUGHT_ENDS})", "", answer, flags=re.DOTALL)
    if re.match(rf"\s*(?:{_THOUGHT})", rest):
        raise InputError("it breaks off while thinking (is max_tokens too small?)")
    return rest


def _json_values(text: str) -> list[Any]:
    """Return the lists and objects of an answer; an object is a tuple of (key, value), as a key may come twice."""
    try:
        value = json.loads(text, object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        return list(_values_within(text))
    return [value] if isinstance(value, list | tuple) else []


def _values_within(text: str) -> Iterator[Any]:
    """Yield what json5 reads from each opening bracket on; brackets of prose are passed over."""
    import json5

    options: dict[str, Any] = {"consume_trailing": False, "strict": False, "object_pairs_hook": tuple}
    end = 0
    for _ in range(MOST_BLOCKS):
        bracket = _START.search(text, end)
        if bracket is None:
            return
        start = bracket.start()
        try:
            value, problem, end = json5.parse(text, start=start, **options)
        except (RecursionError, ValueError):  # ValueError: a number of thousands of digits
            problem = "nested too deeply, or a number too long"
            end = len(text)
        if not problem:
            yield value
        elif _BEGINS.match(text, start):
            why = "breaks off (is max_tokens too small?)" if "end of input" in problem else f"is no JSON ({problem})"
            raise InputError(f"what begins with {text[start : start + 40]!r} {why}")
        # What was read in vain is not read again, or the time would grow with the square of the length.
        end = max(end, start + 1)
    raise InputError(f"it has {MOST_BLOCKS} blocks in brackets or more")


def _entries(value: Any) -> list[Any]:
    """Return the parts of a value of which the published reading keeps one text each."""
    if isinstance(value, list):
        return value
    return [value] if _record(value) else [(pair,) for pair in value]


def _pairs(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield (name, statement) for every text in a value; the path are the keys on the way to it."""
    if isinstance(value, str):
        if statement := _plain(value):
            yield ": ".join(path), statement
    elif isinstance(value, list):
        for item in value:
            yield from _pairs(item, path)
    elif isinstance(value, tuple):
        name_key = _record(value)
        own_name: Any = next((inner for key, inner in value if _name(key).lower() == name_key), None)
        if name_key:
            path = (_name(own_name),)
        for key, inner in value:
            word = _name(key)
            if inner is own_name and word.lower() == name_key:
                continue
            yield from _pairs(inner, path if word.lower() in _GENERIC else (*path, word))


def _record(pairs: tuple[tuple[str, Any], ...]) -> str | None:
    """Return the key under which an object of a name and a statement holds its name; None for other objects."""
    texts = {_name(key).lower() for key, value in pairs if isinstance(value, str)}
    name = next((k for k in _NAME_KEYS if k in texts), None)
    return name if name and any(k in texts for k in _TEXT_KEYS if k != name) else None


def _name(key: str) -> str:
    return _plain(key.replace("_", " "))


def _plain(text: str) -> str:
    # Escapes beyond the first 65,536 characters come in halves; a half alone is no text.
    return " ".join(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").split())
