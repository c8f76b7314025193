"""Prompts: our own wordings, and the published ones as a user has them on disk.

A prompt file holds a system part, a line ``=== user ===`` and a user part with named placeholders in braces. The
papers' own wordings are not in the project; ``berds prompts import`` takes them from a local copy into the user cache,
``berds prompts fetch`` from the web, and there ``published`` finds them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from berdslib.errors import InputError, MissingDataError
from berdslib.paths import cache_dir

# Every task with a prompt, and the placeholders that its wording must have.
TASKS: dict[str, tuple[str, ...]] = {
    "perspective_detection": ("document", "statement"),
    "perspective_generation": ("question",),
    "hypothetical_passage": ("question",),
    "perspective_extraction": ("query",),
    "question_answering": ("k", "q"),
    "essay_writing": ("k", "q", "s"),
}
_DIVIDER = "=== user ==="
# The papers write their placeholders as [Document]; ours read {document}.
_BRACKETED = re.compile(r"\[([A-Z][A-Za-z]*)\]")
_NAMED = re.compile(r"\{([a-z]+)\}")


class Prompt(NamedTuple):
    """A task's wording: ``system`` may be empty; ``user`` holds placeholders such as {document}."""

    name: str
    system: str
    user: str

    @property
    def hash(self) -> str:
        """Twelve hex digits that change with the wording; part of every judge's id."""
        return hashlib.sha256(f"{self.system}\0{self.user}".encode()).hexdigest()[:12]

    def fill(self, **values: str) -> str:
        """Return the user part with its placeholders replaced, all at once, so that a value is never read again.

        Raises:
            InputError: a placeholder without a value.
        """

        def value(match: re.Match[str]) -> str:
            if match[1] not in values:
                raise InputError(f"prompt {self.name!r} needs a value for {{{match[1]}}}")
            return values[match[1]]

        return _NAMED.sub(value, self.user)


def load_prompt(task: str, wording: str = "ours", needs: Sequence[str] = ()) -> Prompt:
    """Return the prompt of a task.

    Args:
        task: such as "perspective_detection".
        wording: "ours", or "published" for the papers' own, which the user has to import first.
        needs: placeholders that must occur.

    Raises:
        InputError: no such task or wording, or a placeholder is missing.
        MissingDataError: the published wording has not been imported.
    """
    if wording == "ours":
        resource = files("berdslib.llm") / "prompts" / f"{task}.txt"
        if not resource.is_file():
            raise InputError(f"there is no prompt for the task {task!r}")
        return _parse(f"{task}/ours", resource.read_text(encoding="utf-8"), needs)
    if wording != "published":
        raise InputError(f"unknown wording {wording!r}. Known: ours, published")
    path = published_path(task)
    if not path.is_file():
        raise MissingDataError(
            f"the published prompt for {task} is not part of this project and was not imported (looked for {path}). "
            f"With a copy of the paper's wording in FILE:  berds prompts import {task} FILE; "
            f"with its address on the web:  berds prompts fetch {task} --url URL"
        )
    return _parse(f"{task}/published", path.read_text(encoding="utf-8"), needs)


def published_path(task: str) -> Path:
    """Return where the published wording of a task is kept, there or not."""
    return cache_dir() / "prompts" / f"{task}.txt"


def import_prompt(task: str, source: Path, needs: Sequence[str]) -> Path:
    """Take a published wording from a local file into the user cache; [Document] becomes {document}.

    Args:
        task: what the prompt is for.
        source: a UTF-8 text file: the user part alone, or a system part, a line "=== user ===" and the user part.
        needs: placeholders that must occur.

    Returns:
        Where it is kept.

    Raises:
        InputError: the file cannot be read, or a placeholder is missing.
    """
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as UTF-8 text ({type(error).__name__})", path=source) from None
    text = _BRACKETED.sub(lambda m: "{" + m[1].lower() + "}", text)
    try:
        _parse(task, text, needs)
    except InputError as error:
        raise InputError(error.problem, path=source) from None
    target = published_path(task)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target


def _parse(name: str, text: str, needs: Sequence[str]) -> Prompt:
    system, divider, user = text.partition(_DIVIDER)
    if not divider:
        system, user = "", text
    missing = [n for n in needs if f"{{{n}}}" not in user]
    if missing:
        raise InputError(f"prompt {name!r} lacks the placeholder {{{missing[0]}}}")
    return Prompt(name, system.strip(), user.strip())
