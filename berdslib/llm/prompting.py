"""Prompts: our own wordings, and the published ones as a user has them on disk.

A prompt file holds a system part, a line ``=== user ===`` and a user part with named placeholders in braces; before
that line there may be an example, behind lines ``=== example ===`` and ``=== answer ===``. The papers' own wordings are
not in the project; ``berds prompts import`` takes them from a local copy into the user cache, ``berds prompts fetch``
from the web, and there ``published`` finds them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from berdslib.errors import InputError, MissingDataError, known
from berdslib.files import write_text
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
_DIVIDER, _EXAMPLE, _ANSWER = "=== user ===", "=== example ===", "=== answer ==="
# The papers write their placeholders as [Document]; ours read {document}.
_BRACKETED = re.compile(r"\[([A-Za-z]+)\]|\{([A-Za-z]+)\}")
_NAMED = re.compile(r"\{([a-z]+)\}")
_ALIASES = {"doc": "document", "q": "question", "perspective": "statement", "claim": "statement"}
# Instructions for chat models are written turn by turn in ChatML.
_TURN = re.compile(r"<\|im_start\|>\s*(system|user|assistant)\b(.*?)(?=<\|im_end\|>|<\|im_start\|>|\Z)", re.DOTALL)


class Published(NamedTuple):
    """Where a wording's authors keep it: address, size in bytes and checksum of the file."""

    url: str
    bytes: int
    sha256: str


_BERDS = "https://raw.githubusercontent.com/timchen0618/berds/f396446b96d5378557a224be6419d61138e732d8"
_DETECTION = f"{_BERDS}/perspective_detection/instructions"
# task → wording → file. "published" is what the paper's own numbers were made with: the evaluator's prompt (BeRDS,
# Table 14) and that of query expansion (Table 12).
PUBLISHED: dict[str, dict[str, Published]] = {
    "perspective_detection": {
        "published": Published(
            f"{_DETECTION}/chat/instructions_chat.txt",
            1_002,
            "a00a70352d0647a278d277aa8d738ab35c3dddd7d12107b6425c31acb46ada5b",
        ),
        "published-one-shot": Published(
            f"{_DETECTION}/chat/instructions_chat_1shot.txt",
            2_717,
            "8476aaa0075c2fadffac600d0fb51cf27372c44fc0a4de7e2d6a96d7a8fc999b",
        ),
        "published-no-chat": Published(
            f"{_DETECTION}/no-chat/instructions.txt",
            743,
            "fcf73d8dde6427bb9025b66963114bb9e833192f6c07797a565856336a77ccb9",
        ),
        "published-no-chat-one-shot": Published(
            f"{_DETECTION}/no-chat/instructions_1shot.txt",
            2_602,
            "c4d3f3aef6316ee88e174cd2a4985646f09fbcb24b6c4d97707f1e37899d82f5",
        ),
    },
    "perspective_generation": {
        "published": Published(
            f"{_BERDS}/query_exp/instruction.txt",
            327,
            "784c174516dbfd6b02026abebe45efa7b7498975e6cfd5b4cc33ae01d3785b03",
        ),
    },
}


def wordings(task: str) -> tuple[str, ...]:
    """Return the names of a task's wordings: ours, and those that can be imported.

    Raises:
        InputError: no such task.
    """
    return ("ours", *dict.fromkeys(("published", *PUBLISHED.get(known("task", task, TASKS), ()))))


class Prompt(NamedTuple):
    """A task's wording: ``system`` may be empty; ``user`` holds placeholders such as {document}.

    ``example`` is a user's turn and the answer to it, to be shown first; empty for none.
    """

    name: str
    system: str
    user: str
    example: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        """Twelve hex digits that change with the wording; part of every judge's id."""
        text = "\0".join([self.system, self.user, *self.example])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def messages(self, **values: str) -> list[dict[str, str]]:
        """Return the turns of a conversation: system, example where there is one, and the user's, filled.

        Raises:
            InputError: a placeholder without a value.
        """
        roles = ("system", "user", "assistant", "user")
        turns = (self.system, *(self.example or ("", "")), self.fill(**values))
        return [{"role": role, "content": turn} for role, turn in zip(roles, turns, strict=True) if turn]

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
        wording: "ours", "published" for the papers' own, which the user has to import first, or another of
            :func:`wordings`.
        needs: placeholders that must occur.

    Raises:
        InputError: no such task or wording, or a placeholder is missing.
        MissingDataError: the published wording has not been imported.
    """
    if known("wording", wording, wordings(task)) == "ours":
        resource = files("berdslib.llm") / "prompts" / f"{task}.txt"
        return _parse(f"{task}/ours", resource.read_text(encoding="utf-8"), needs)
    path = published_path(task, wording)
    if not path.is_file():
        fetch = " --url URL" if task not in PUBLISHED else ""
        raise MissingDataError(
            f"the {wording} prompt for {task} is not part of this project and was not imported (looked for {path}). "
            f"With a network:  berds prompts fetch {task}{fetch}; "
            f"with a copy of the paper's wording in FILE:  berds prompts import {task} FILE"
        )
    return _parse(f"{task}/{wording}", path.read_text(encoding="utf-8"), needs)


def published_path(task: str, wording: str = "published") -> Path:
    """Return where a published wording of a task is kept, there or not.

    Raises:
        InputError: no such task or wording.
    """
    known("published wording", wording, wordings(task)[1:])
    return cache_dir() / "prompts" / f"{task}{wording.removeprefix('published')}.txt"


def import_prompt(task: str, source: Path, needs: Sequence[str], wording: str = "published") -> Path:
    """Take a published wording from a local file into the user cache; [Document] becomes {document}.

    Args:
        task: what the prompt is for.
        source: a UTF-8 text file: the user part alone; or all parts, divided as in our own prompt files or written turn
            by turn in ChatML, as the authors' instructions for chat models are.
        needs: placeholders that must occur.
        wording: as what it is kept, one of :func:`wordings`.

    Returns:
        Where it is kept.

    Raises:
        InputError: the file cannot be read, a placeholder is missing, or there is one that nothing is put in for; no
            such task or wording; or it cannot be written.
    """
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as UTF-8 text ({type(error).__name__})", path=source) from None
    try:
        text = _BRACKETED.sub(lambda m: _placeholder(m, needs), _divided(text))
        unknown = [n for n in _NAMED.findall(_parse(task, text, needs).user) if n not in needs]
        if unknown:
            raise InputError(f"prompt {task!r} has a placeholder {{{unknown[0]}}}, and nothing is put in for it")
    except InputError as error:
        raise InputError(error.problem, path=source) from None
    target = published_path(task, wording)
    with write_text(target) as file:
        file.write(text)
    return target


def _placeholder(found: re.Match[str], needs: Sequence[str]) -> str:
    """Return a word in brackets as a placeholder if it is one: [17] and [sic] in an example are not."""
    name = (found[1] or found[2]).lower()
    name = name if name in needs else _ALIASES.get(name, name)
    return f"{{{name}}}" if name in needs else found[0]


def _divided(text: str) -> str:
    """Return ChatML with our dividing lines; other texts as they are."""
    turns = [(role, part.strip()) for role, part in _TURN.findall(text)]
    if turns and turns[-1] == ("assistant", ""):  # opens the answer, as a chat template does by itself
        turns.pop()
    system = turns.pop(0)[1] if turns and turns[0][0] == "system" else ""
    if [role for role, _ in turns] == ["user", "assistant", "user"]:
        (_, shown), (_, answer), (_, user) = turns
        return f"{system}\n{_EXAMPLE}\n{shown}\n{_ANSWER}\n{answer}\n{_DIVIDER}\n{user}\n"
    if [role for role, _ in turns] == ["user"]:
        return f"{system}\n{_DIVIDER}\n{turns[0][1]}\n"
    if turns:
        roles = ", ".join(role for role, _ in turns)
        raise InputError(f"the turns are {roles}; user, or user, assistant and user, were expected")
    return text


def _parse(name: str, text: str, needs: Sequence[str]) -> Prompt:
    opening, _, user = text.rpartition(_DIVIDER)
    system, shows, example = opening.partition(_EXAMPLE)
    missing = [n for n in needs if f"{{{n}}}" not in user]
    if missing:
        raise InputError(
            f"prompt {name!r} lacks the placeholder {{{missing[0]}}}; write it where that text goes and import the file"
        )
    parts = tuple(part.strip() for part in example.partition(_ANSWER)[::2]) if shows else ()
    return Prompt(name, system.strip(), user.strip(), parts)
