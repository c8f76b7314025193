"""Reading a chat model's answer: perspectives out of what should be a JSON object, and often is not quite one.

Not left to a library that repairs JSON, such as json_repair: of an answer that breaks off a part would pass for the
whole, and of a key that comes twice one value would be lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from berdslib.errors import InputError, known

NESTED = ("all", "first")
# In {"name": "Animal welfare", "statement": "…"} the one is the name of the other. "perspective" is used for both.
_NAME_KEYS = ("name", "title", "label", "perspective")
_TEXT_KEYS = ("statement", "text", "description", "content", "argument", "explanation", "viewpoint", "perspective")
_GENERIC = frozenset((*_TEXT_KEYS, "perspectives", "statements", "arguments", "viewpoints"))
_CLOSING = {'"': '"', "'": "'", "“": '”"', "‘": "’'"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
_HEX = re.compile(r"u([0-9a-fA-F]{4})")
_DEEPEST = 20
_NEXT_START = re.compile(r"[\[{]")
_BLANKS = re.compile(r"\s*+")
_BETWEEN = re.compile(r"[\s,]*+")
_BARE_KEY = re.compile(r"[^\W\d][\w -]*+(?=\s*:)")
_NO_TEXT = re.compile(r"(?:null|none|true|false|nan|[-+]?[\d.]+(?:e[-+]?\d+)?)(?![\w.])", re.IGNORECASE)
# Brackets that are JSON and not prose: a quote stands behind them, or a key.
_BEGINS = re.compile(r"[\[{\s]*+(?:[\"'“‘]|[^\W\d][\w -]*+:\s*[\"'“‘\[{])")


def parse_perspectives(text: str, nested: str = "all") -> list[tuple[str, str]]:
    """Read (name, statement) pairs from an answer that should be a JSON object.

    Read with them: code fences and prose around, several objects, commas too many or too few, Python's quotes and
    curly ones, unescaped quotes, keys without quotes, one key twice. Every text in lists and inner objects is a
    statement (divergences.md B14): {"Costs": {"short term": "…"}} is named "Costs: short term"; an object with a name and
    a statement in it is one pair. Underscores in names are read as blanks. Numbers and empty texts are no statements.

    Args:
        text: the answer.
        nested: "all"; or "first" for the published reading, which keeps an inner object's first value only.

    Raises:
        InputError: nothing to be read, JSON that breaks off, or JSON that cannot be read to its end: a part of it
            could be taken for the whole.

    >>> parse_perspectives('Sure: {"Animal_Welfare": "Zoos are cruel.", }')
    [('Animal Welfare', 'Zoos are cruel.')]
    """
    known("reading of nested answers", nested, NESTED)
    found: list[tuple[str, str]] = []
    for value in _blocks(without_thoughts(text)):
        flat = isinstance(value, tuple) and not _record(value)
        entries = [(pair,) for pair in value] if flat else value if isinstance(value, list) else [value]
        for entry in entries:
            pairs = list(_pairs(entry, ()))
            found += pairs if nested == "all" else pairs[:1]
    if not found:
        raise InputError("no perspective can be read from it; a JSON object of names and statements was expected")
    return found


def without_thoughts(answer: str) -> str:
    """Return an answer without what a model thought aloud before it.

    The opening tag may have been in the chat template, so that the answer has the closing one only.

    Raises:
        InputError: the answer breaks off while it thinks.
    """
    rest = re.sub(r"\A.*</think(?:ing)?>", "", answer, flags=re.DOTALL)
    if re.match(r"\s*<think(?:ing)?>", rest):
        raise InputError("it breaks off while thinking (is max_tokens too small?)")
    return rest


class _UnreadableError(ValueError):
    """A character that fits nothing."""


class _CutOffError(_UnreadableError):
    """The text ends too early."""


def _blocks(text: str) -> Iterator[Any]:
    """Yield every JSON value in brackets: a list, or an object as a tuple of (key, value)."""
    at = 0
    while start := _NEXT_START.search(text, at):
        at = start.start()
        try:
            value, at = _value(text, at, 0)
        except _UnreadableError as error:
            if _BEGINS.match(text, at):
                why = "breaks off (is max_tokens too small?)" if isinstance(error, _CutOffError) else "is no JSON"
                raise InputError(f"what begins with {text[at : at + 40]!r} {why}") from None
            at += 1
            continue
        yield value


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    """Return the value at a place and where it ends; what is no text is None."""
    if depth > _DEEPEST:
        raise _UnreadableError
    if text[at] == "{":
        return _object(text, at + 1, depth)
    if text[at] == "[":
        return _list(text, at + 1, depth)
    if text[at] in _CLOSING:
        return _string(text, at)
    if found := _NO_TEXT.match(text, at):
        return None, found.end()
    raise _UnreadableError


def _object(text: str, at: int, depth: int) -> tuple[tuple[tuple[str, Any], ...], int]:
    pairs = []
    while text[at := _next(text, at, _BETWEEN)] != "}":
        if text[at] in _CLOSING:
            key, at = _string(text, at)
        elif bare := _BARE_KEY.match(text, at):
            key, at = bare[0], bare.end()
        else:
            raise _UnreadableError
        if text[at := _next(text, at, _BLANKS)] != ":":
            raise _UnreadableError
        value, at = _value(text, _next(text, at + 1, _BLANKS), depth + 1)
        pairs.append((key, value))
    return tuple(pairs), at + 1


def _list(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    values = []
    while text[at := _next(text, at, _BETWEEN)] != "]":
        value, at = _value(text, at, depth + 1)
        values.append(value)
    return values, at + 1


def _string(text: str, at: int) -> tuple[str, int]:
    closing, parts = _CLOSING[text[at]], []
    at += 1
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            code = _HEX.match(text, at + 1)
            parts.append(chr(int(code[1], 16)) if code else _ESCAPES.get(text[at + 1], text[at + 1]))
            at += 6 if code else 2
        elif char in closing and _closes(text, at + 1):
            # Escapes beyond the first 65,536 characters come in halves; a half alone is no text.
            return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace"), at + 1
        else:
            parts.append(char)
            at += 1
    raise _CutOffError


def _closes(text: str, at: int) -> bool:
    """Whether a quote before this place closes a text: in 'He said "no" to it' and in 'it's' none does."""
    gap = _end(_BLANKS, text, at)
    following = text[gap : gap + 1]
    if following == ",":
        behind = _end(_BETWEEN, text, gap)
        rest = text[behind : behind + 1]
        return rest in "[]{}" or rest in _CLOSING or any(p.match(text, behind) for p in (_NO_TEXT, _BARE_KEY))
    return following in ("", ":", "]", "}") or (following in _CLOSING and "\n" in text[at:gap])


def _next(text: str, at: int, over: re.Pattern[str]) -> int:
    """Return the first place that is not passed over; there must be one."""
    end = _end(over, text, at)
    if end == len(text):
        raise _CutOffError
    return end


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    return found.end() if (found := pattern.match(text, at)) else at


def _pairs(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield (name, statement) for every text in a value; the path are the keys on the way to it."""
    if isinstance(value, str):
        if statement := " ".join(value.split()):
            yield ": ".join(path), statement
    elif isinstance(value, list):
        for one in value:
            yield from _pairs(one, path)
    elif isinstance(value, tuple):
        name_key = _record(value)
        own = next(v for k, v in value if _plain(k).lower() == name_key) if name_key else ""
        for key, one in value:
            word = _plain(key)
            if name_key and word.lower() == name_key and one is own:
                continue
            inner = (_plain(own),) if name_key else path
            yield from _pairs(one, inner if word.lower() in _GENERIC else (*inner, word))


def _record(pairs: tuple[tuple[str, Any], ...]) -> str | None:
    """Return the key under which an object of a name and a statement holds its name; None for other objects."""
    texts = {_plain(key).lower() for key, value in pairs if isinstance(value, str)}
    name = next((k for k in _NAME_KEYS if k in texts), None)
    return name if name and any(k in texts for k in _TEXT_KEYS if k != name) else None


def _plain(name: str) -> str:
    return " ".join(name.replace("_", " ").split())
