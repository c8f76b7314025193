"""Reading a chat model's answers: one line, several lines, lines with labels, yes or no, one or two.

What is read is broader than what we ask for; what cannot be read for sure is an error, never a guess.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from berdslib.errors import InputError
from berdslib.llm.answers import strip_reasoning

_FENCE = re.compile(r"^\s*```\w*\s*$", re.MULTILINE)
_LIST_MARK = re.compile(r"^\s*(?:(?:[-*•–]\s+|\(?\d{1,2}[.):]\s+|\(?[a-zA-Z]\)\s+))+")
_NO_SENTENCE = re.compile(r"^[#|]")  # a heading, a row of a table
_QUOTED = re.compile(r"^(?:\"(.*)\"|“(.*)”|'(.*)'|‘(.*)’)$", re.DOTALL)
_LABEL = re.compile(r"^[\s*#-]{0,4}([A-Za-z][A-Za-z /-]{1,40}?)(?:\s*\d)?\*{0,2}:[\s*]{0,4}(?=\S)")
LONGEST = 10_000  # characters of an answer; a statement has a hundred


def one_line(answer: str, labels: Sequence[str] = ()) -> str:
    """Return an answer that is one sentence, without a label before it.

    >>> one_line('Question: "Should zoos close?"', ["question"])
    'Should zoos close?'
    """
    found = lines(answer, labels)
    if len(found) != 1:
        raise InputError(f"one line was expected, not {len(found)}")
    return found[0]


def lines(answer: str, labels: Sequence[str] = ()) -> list[str]:
    r"""Return the lines of an answer that hold text, or the texts of a JSON list.

    List marks, labels and quotation marks around a line are left out.

    >>> lines("1. Tea.\n2. Milk."), lines('["Tea.", "Milk."]')
    (['Tea.', 'Milk.'], ['Tea.', 'Milk.'])
    """
    text = _plain(answer)
    given: list[str] = _json(text, list) if text.startswith("[") else text.splitlines()
    found = [_unlabelled(_sentence(_LIST_MARK.sub("", line)), labels) for line in given]
    found = [line for line in found if line]
    if not found:
        raise InputError("it is empty")
    for line in found:
        if line.endswith(":"):
            raise InputError(f"{line[:60]!r} announces what was asked for; that alone was expected")
        if _NO_SENTENCE.match(line) or line.startswith(("{", "[")):
            raise InputError(f"a sentence was expected, not {line[:60]!r}")
    return found


def _unlabelled(line: str, labels: Sequence[str]) -> str:
    label = _LABEL.match(line)
    known = label and _same(label[1]) in {_same(one) for one in labels}
    return _sentence(line[label.end() :]) if label and known else line


def fields(answer: str, names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    r"""Return the named parts of an answer, each with the labels it may have: labelled lines, or a JSON object.

    >>> fields("Statement: Zoos help.\n**Negation:** Zoos do not help.", {"yes": ["statement"], "no": ["negation"]})
    {'yes': 'Zoos help.', 'no': 'Zoos do not help.'}
    """
    labels = {_same(label): name for name, known in names.items() for label in known}
    found: dict[str, str] = {}
    for label, text in _labelled(_plain(answer)):
        if (name := labels.get(_same(label))) in found:
            raise InputError(f"{label!r} is there twice")
        if name is not None:
            found[name] = _sentence(text)
    missing = [known[0] for name, known in names.items() if not found.get(name)]
    if missing:
        raise InputError(f"{missing[0]!r} is missing; {', '.join(known[0] for known in names.values())} were expected")
    return {name: found[name] for name in names}


def choice(answer: str, choices: Mapping[str, Sequence[str]]) -> str:
    """Return which of several choices an answer of a word or two makes, each with the words that stand for it.

    >>> choice("**Perspective 2**.", {"first": ["1", "perspective 1"], "second": ["2", "perspective 2"]})
    'second'
    """
    name = {_same(word): name for name, words in choices.items() for word in words}.get(_same(_plain(answer)))
    if name is None:
        raise InputError(f"{' or '.join(words[0] for words in choices.values())} was expected")
    return name


def _plain(answer: str) -> str:
    text = _FENCE.sub("", strip_reasoning(answer)).strip()
    if not text:
        raise InputError("it is empty")
    _check_whole(text)
    if len(text) > LONGEST:
        raise InputError(f"it has {len(text)} characters; at most {LONGEST} are read")
    return text


def _check_whole(text: str) -> None:
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise InputError("it holds half a character")


def _labelled(text: str) -> list[tuple[str, str]]:
    """Return (label, text) pairs, of a JSON object or of lines; one without a label goes on with what came before."""
    if text.startswith("{"):
        row = _json(text, dict)
        return [(str(key).replace("_", " "), value) for key, value in row.items() if isinstance(value, str)]
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if label := _LABEL.match(line := _LIST_MARK.sub("", line)):
            found.append((label[1], line[label.end() :]))
        elif found and line.strip():
            label_before, begun = found[-1]
            if begun.rstrip("*\"”’' ").endswith((".", "?", "!")):
                raise InputError(f"something follows that was not asked for: {line.strip()[:40]!r}")
            found[-1] = (label_before, f"{begun} {line.strip()}")
    return found


def _json(text: str, kind: type) -> Any:
    """Return the texts of a JSON list, or a JSON object."""
    value: Any = None
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
    texts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if not isinstance(value, kind) or (kind is list and not all(isinstance(one, str) for one in texts)):
        raise InputError("it begins as JSON and cannot be read as that")
    _check_whole("".join(map(str, texts)))  # "\\ud800" was ASCII until now
    return value


def _sentence(text: str) -> str:
    """Return a text in one line, without bold marks, and without quotation marks around all of it."""
    text = " ".join(text.replace("**", "").strip().strip("*").split())
    quoted = _QUOTED.match(text)
    inner = next((part for part in quoted.groups() if part is not None), None) if quoted else None
    return text if inner is None or re.search('["“”]', inner) else inner.strip()


def _same(label: str) -> str:
    return re.sub(r"[\W_]+", " ", label).strip().lower()
