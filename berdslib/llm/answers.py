"""Parsing of a chat model's answer: the answer without its reasoning, and perspectives from a JSON object.

A model that is restricted to a schema (prompts.toml) answers in JSON. For servers that do not support schemas, json5
also reads the usual deviations: text around the object, trailing commas, single quotes, keys without quotes, comments.
An answer that json5 cannot read is an error. It is not passed to a library that repairs JSON, such as json_repair,
because the repair of a truncated answer would look like a complete one.
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
# Characters. A hundred perspectives as long as those of BeRDS (44 words, A.7) have 30,000. json5 is written in Python:
# it takes 8 to 50 microseconds per character, and some milliseconds for each bracket that does not open valid JSON.
_LONGEST = 50_000
MOST_BLOCKS = 500
# Keys of a statement's name and of its text, as in {"name": "Animal welfare", "statement": "…"}. Models use
# "perspective" for both.
_NAME_KEYS = ("name", "title", "label", "perspective")
_TEXT_KEYS = ("statement", "text", "description", "content", "argument", "explanation", "viewpoint", "perspective")
_GENERIC = frozenset((*_TEXT_KEYS, "perspectives", "statements", "arguments", "viewpoints"))
# Marks around a model's reasoning. In gpt-oss, the mark that opens the final answer also ends the reasoning.
_THOUGHT = r"<(?:think|thinking|thought|reasoning|seed:think)>|\[THINK\]|<\|channel\|>analysis"
_THOUGHT_ENDS = r"</(?:think|thinking|thought|reasoning|seed:think)>|\[/THINK\]|<\|channel\|>final<\|message\|>"
_START = re.compile(r"[\[{]")
# Brackets that open JSON and not prose: a quote follows, or a key with a value in quotes or brackets.
_BEGINS = re.compile(r"[\[{\s]*+(?:[\"'“‘]|[^\W\d][\w -]*+:\s*[\"'“‘\[{])")


def parse_perspectives(text: str, nested: str = "all") -> list[tuple[str, str]]:
    """Parse (name, statement) pairs from an answer that should be a JSON object.

    Every text in lists and inner objects is a statement (divergences.md B14). The text in {"Costs": {"short term":
    "…"}} gets the name "Costs: short term"; an object with a name and a statement is one pair. Underscores in names
    become spaces. Numbers and empty texts are ignored.

    Args:
        text: the answer.
        nested: "all"; or "first" for the published parser, which keeps only the first value of an inner object.

    Raises:
        InputError: no perspective was found; the answer has more than 50,000 characters, or MOST_BLOCKS or more blocks
            in brackets; or its JSON is truncated or invalid, so that a part could pass for the whole.

    >>> parse_perspectives('Sure: {"Animal_Welfare": "Zoos are cruel.", }')
    [('Animal Welfare', 'Zoos are cruel.')]
    """
    known("reading of nested answers", nested, NESTED)
    if len(text) > _LONGEST:
        raise InputError(f"the answer has {len(text):,} characters; the limit is {_LONGEST:,}")
    found: list[tuple[str, str]] = []
    for value in _json_values(strip_reasoning(text)):
        for entry in _entries(value):
            pairs = list(_pairs(entry, ()))
            found += pairs if nested == "all" else pairs[:1]
    if not found:
        raise InputError("the answer contains no perspective; expected a JSON object of names and statements")
    return found


def answer_of(reply: Reply) -> str:
    """Return the text of a reply without the reasoning before the answer.

    Raises:
        UnreadError: the reply has no answer: it was filtered, refuses, calls a tool, is empty, or was cut off while
            the model was still reasoning.
    """
    # Do not reword "it is a call of a tool", "it is empty" and "it breaks off …" below: the construction pipeline sends
    # them back to the model, so the keys of recorded answers depend on them.
    if reply.finish == "content_filter":
        raise UnreadError("the server's content filter stopped the answer", CONTENT_FILTER)
    if reply.finish == "refusal":
        raise UnreadError(f"the model refused to answer: {reply.text[:80]!r}", "refused by the model")
    if reply.finish == "tool_calls" and not reply.text:
        raise UnreadError("it is a call of a tool", "tool call")
    try:
        text = strip_reasoning(reply.text)
    except InputError as error:
        raise UnreadError(error.problem, CUT_OFF) from None
    if text.strip():
        return text
    if reply.finish == "length":
        raise UnreadError("the reply was cut off before the answer began", CUT_OFF)
    raise UnreadError("it is empty", "empty answer")


def strip_reasoning(answer: str) -> str:
    """Return an answer without the model's reasoning before it.

    The chat template may have written the opening tag, so that the answer contains only the closing tag.

    Raises:
        InputError: the reply ends within the reasoning.
    """
    rest = re.sub(rf"\A.*(?:{_THOUGHT_ENDS})", "", answer, flags=re.DOTALL)
    if re.match(rf"\s*(?:{_THOUGHT})", rest):
        raise InputError("it breaks off while thinking (is max_tokens too small?)")
    return rest


def _json_values(text: str) -> list[Any]:
    """Return the lists and objects of an answer; an object is a tuple of (key, value), since a key may occur twice."""
    try:
        value = json.loads(text, object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        return list(_values_within(text))
    return [value] if isinstance(value, list | tuple) else []


def _values_within(text: str) -> Iterator[Any]:
    """Yield the values that json5 parses at each opening bracket; brackets in prose are skipped."""
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
            problem = "too deeply nested, or a number is too long"
            end = len(text)
        if not problem:
            yield value
        elif _BEGINS.match(text, start):
            why = "is cut off (is max_tokens too small?)" if "end of input" in problem else f"is invalid ({problem})"
            raise InputError(f"the JSON that starts with {text[start : start + 40]!r} {why}")
        # Text that failed to parse is not parsed again; otherwise the time would grow with the square of the length.
        end = max(end, start + 1)
    raise InputError(f"the answer has too many blocks in brackets ({MOST_BLOCKS} or more)")


def _entries(value: Any) -> list[Any]:
    """Split a value into the parts of which the published parser keeps one text each."""
    if isinstance(value, list):
        return value
    return [value] if _record(value) else [(pair,) for pair in value]


def _pairs(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield (name, statement) for every text in a value; `path` holds the keys that lead to the value."""
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
    """Return the key of the name in an object of a name and a statement; None for other objects."""
    texts = {_name(key).lower() for key, value in pairs if isinstance(value, str)}
    name = next((k for k in _NAME_KEYS if k in texts), None)
    return name if name and any(k in texts for k in _TEXT_KEYS if k != name) else None


def _name(key: str) -> str:
    return _plain(key.replace("_", " "))


def _plain(text: str) -> str:
    # JSON escapes characters beyond U+FFFF as surrogate pairs; an unpaired surrogate is replaced.
    return " ".join(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").split())
