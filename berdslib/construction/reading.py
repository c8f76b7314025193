"""Parsers for a chat model's answers: one line, several lines, labelled lines, or a choice.

The parsers accept more forms than the prompts request; an ambiguous answer is an error, never a guess.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from berdslib.errors import InputError
from berdslib.llm.answers import strip_reasoning

_FENCE = re.compile(r"^\s*```\w*\s*$", re.MULTILINE)
_LIST_MARK = re.compile(r"^\s*(?:(?:[-*•–]\s+|\(?\d{1,2}[.):]\s+|\(?[a-zA-Z]\)\s+))+")
_QUOTED = re.compile(r"^(?:\"(.*)\"|“(.*)”|'(.*)'|‘(.*)’)$")
_LABEL = re.compile(r"^[\s*#-]{0,4}([A-Za-z][A-Za-z /-]{1,40}?)(?:\s*\d)?\*{0,2}:[\s*]{0,4}(?=\S)")


def sentence(answer: str, labels: Sequence[str] = ()) -> str:
    """Return an answer that is one sentence, without its label.

    >>> sentence('Question: "Should zoos close?"', ["question"])
    'Should zoos close?'
    """
    found = sentences(answer, labels)
    if len(found) != 1:
        raise InputError(f"one line was expected, not {len(found)}")
    return found[0]


def sentences(answer: str, labels: Sequence[str] = ()) -> list[str]:
    r"""Return the lines of an answer that hold text, or the texts of a JSON list.

    List marks, labels and quotation marks around a line are left out.

    >>> sentences("1. Tea.\n2. Milk."), sentences('["Tea.", "Milk."]')
    (['Tea.', 'Milk.'], ['Tea.', 'Milk.'])
    """
    text = _plain(answer)
    given = _json(text, list) if text.startswith("[") else text.splitlines()
    if not all(isinstance(line, str) for line in given):
        raise InputError("a list of texts was expected")
    known = {_same(label) for label in labels}
    found: list[str] = []
    for line in given:
        line = _sentence(_LIST_MARK.sub("", line))
        label = _LABEL.match(line)
        if label and _same(label[1]) in known:
            line = _sentence(line[label.end() :])
        if line.endswith(":"):
            raise InputError(f"{line[:60]!r} announces what was asked for; that alone was expected")
        if line.startswith(("#", "|", "{", "[")):
            raise InputError(f"a sentence was expected, not {line[:60]!r}")
        if line:
            found.append(line)
    if not found:
        raise InputError("it is empty")
    return found


def fields(answer: str, names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    r"""Return the named parts of an answer: labelled lines or a JSON object; `names` maps each part to its labels.

    >>> fields("Statement: Zoos help.\n**Negation:** Zoos do not help.", {"yes": ["statement"], "no": ["negation"]})
    {'yes': 'Zoos help.', 'no': 'Zoos do not help.'}
    """
    name_of = {_same(label): name for name, labels in names.items() for label in labels}
    found: dict[str, str] = {}
    for label, text in _labelled(_plain(answer)):
        name = name_of.get(_same(label))
        if name in found:
            raise InputError(f"{label!r} is there twice")
        if name is not None:
            found[name] = _sentence(text)
    expected = {name: labels[0] for name, labels in names.items()}
    missing = [label for name, label in expected.items() if not found.get(name)]
    if missing:
        raise InputError(f"{missing[0]!r} is missing; {', '.join(expected.values())} were expected")
    return {name: found[name] for name in names}


def choice(answer: str, choices: Mapping[str, Sequence[str]]) -> str:
    """Return the name of the choice that a short answer makes; `choices` maps names to accepted wordings.

    >>> choice("**Perspective 2**.", {"first": ["1", "perspective 1"], "second": ["2", "perspective 2"]})
    'second'
    """
    chosen = _same(_plain(answer))
    for name, words in choices.items():
        if chosen in map(_same, words):
            return name
    raise InputError(f"{' or '.join(words[0] for words in choices.values())} was expected")


def _plain(answer: str) -> str:
    text = _FENCE.sub("", strip_reasoning(answer)).strip()
    if not text:
        raise InputError("it is empty")
    return text


def _labelled(text: str) -> list[tuple[str, str]]:
    """Return (label, text) pairs of a JSON object or of lines; a line without a label continues the pair before it."""
    if text.startswith("{"):
        values = _json(text, dict).items()
        return [(key.replace("_", " "), value) for key, value in values if isinstance(value, str)]
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        line = _LIST_MARK.sub("", line)
        if label := _LABEL.match(line):
            found.append((label[1], line[label.end() :]))
        elif found and line.strip():
            label_before, begun = found[-1]
            if begun.rstrip("*\"”’' ").endswith((".", "?", "!")):
                raise InputError(f"something follows that was not asked for: {line.strip()[:40]!r}")
            found[-1] = (label_before, f"{begun} {line.strip()}")
    return found


def _json(text: str, kind: type) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise InputError("it begins as JSON and cannot be read as that")
    return value


def _sentence(text: str) -> str:
    """Return a text on one line, without bold marks and without quotation marks around the whole text."""
    text = " ".join(text.replace("**", "").strip().strip("*").split())
    quoted = _QUOTED.match(text)
    inner = "".join(part or "" for part in quoted.groups()) if quoted else '"'
    return text if re.search('["“”]', inner) else inner.strip()


def _same(label: str) -> str:
    return re.sub(r"[\W_]+", " ", label).strip().lower()
