"""Prompts: our own wordings, long and short, and the published ones as a user has them on disk.

A prompt file holds a system part, a line ``=== user ===`` and a user part with named placeholders in braces; before
that line there may be examples, each behind lines ``=== example ===`` and ``=== answer ===``. The papers' own wordings
are not in the project; ``berds prompts fetch`` takes them from a local copy or from the web into the user cache, where
they are found by name: ``published``, or the table that shows them, such as ``table-8``.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from berdslib.errors import InputError, MissingDataError, errors_in, known
from berdslib.files import write_text
from berdslib.llm.chat import Form, Request, check_no_address, system_in_first_turn
from berdslib.llm.untrusted import defuse_tag
from berdslib.paths import cache_dir

OURS = ("ours", "short")  # the second for small models: brief, and with an example
SHORT = "prompts=short"  # in the id of a chat model: what it is asked for
_DIVIDER = "=== user ==="
_EXAMPLE = "=== example ==="
_ANSWER = "=== answer ==="
# The papers write their placeholders as [Document], [Doc 1] or [P1]; ours read {document} and {first}.
_BRACKETED = re.compile(r"\[([A-Za-z]+[\s_-]?[12]?)\]|\{([A-Za-z]+[\s_-]?[12]?)\}")
_NAMED = re.compile(r"\{([a-z]+)\}")
_ALIASES = {"doc": "document", "q": "question", "perspective": "statement", "claim": "statement"} | {
    f"{word}{digit}": name
    for word in ("doc", "document", "p", "perspective", "argument", "statement")
    for digit, name in (("1", "first"), ("2", "second"))
}
_TAG = re.compile(r"</(\w+)>")
# Instructions for chat models are written turn by turn in ChatML.
_TURN = re.compile(r"<\|im_start\|>\s*(system|user|assistant)\b(.*?)(?=<\|im_end\|>|<\|im_start\|>|\Z)", re.DOTALL)


class Published(NamedTuple):
    """Where a wording's authors keep it: address, size in bytes and checksum of the file."""

    url: str
    bytes: int
    sha256: str


_TABLE = tomllib.loads((files("berdslib.llm") / "prompts.toml").read_text(encoding="utf-8"))
# Every task with a prompt, and the placeholders that its wording must have.
TASKS: dict[str, tuple[str, ...]] = {task: tuple(row["needs"]) for task, row in _TABLE.items()}
# What each is for, and where its published wording is printed ("" where there is none).
PURPOSES: dict[str, tuple[str, str]] = {task: (row["purpose"], row["printed"]) for task, row in _TABLE.items()}
# The form of the answers that our wordings ask for; of a short one that differs, under "TASK/short".
FORMS = {task: Form(**row["ours"]) for task, row in _TABLE.items()} | {
    f"{task}/short": Form(**row["short"]) for task, row in _TABLE.items() if "short" in row
}
# task → wording → file of its authors.
PUBLISHED: dict[str, dict[str, Published]] = {
    task: {name: Published(**file) for name, file in row["files"].items()}
    for task, row in _TABLE.items()
    if "files" in row
}


def wordings(task: str) -> tuple[str, ...]:
    """Return the names of a task's wordings: ours, and those that can be imported, the usual one first."""
    return (*OURS, *_TABLE[known("task", task, TASKS)]["wordings"])


class Prompt(NamedTuple):
    """A task's wording: ``system`` may be empty; ``user`` holds placeholders such as {document}.

    ``example`` holds turns to be shown first, a user's and the answer to it, and so on; empty for none. ``form`` is
    what the answer has to be.
    """

    name: str
    system: str
    user: str
    example: tuple[str, ...] = ()
    form: Form | None = None

    @property
    def hash(self) -> str:
        """Twelve hex digits that change with the wording; part of every judge's id."""
        text = "\0".join([self.system, self.user, *self.example])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def messages(self, **values: str) -> Request:
        """Return the turns of a conversation: system, examples where there are any, and the user's, filled."""
        shown = zip(itertools.cycle(("user", "assistant")), self.example, strict=False)
        turns = [("system", self.system), *shown, ("user", self.fill(**values))]
        said = [{"role": role, "content": turn} for role, turn in turns if turn or role != "system"]
        return Request(said, self.form)

    def about(self, **values: str) -> Request:
        """Return :meth:`messages` for texts that come from elsewhere: none can close a tag of it, or a turn."""
        tags = _TAG.findall(self.user)
        return self.messages(**{name: defuse_tag(value, *tags) for name, value in values.items()})

    def fill(self, **values: str) -> str:
        """Return the user part with its placeholders replaced, all at once, so that a value is never read again."""
        if lacking := [name for name in _NAMED.findall(self.user) if name not in values]:
            raise InputError(f"prompt {self.name!r} needs a value for {{{lacking[0]}}}")
        return _NAMED.sub(lambda match: values[match[1]], self.user)


def templated_ids(tokenizer: Any, messages: Sequence[Mapping[str, str]], **options: Any) -> list[int]:
    """Return a conversation as the tokens of a model's chat template, ready for the answer; `options` go to that."""
    write = partial(tokenizer.apply_chat_template, tokenize=False, add_generation_prompt=True, **options)
    try:
        text = write(messages)
    except Exception as error:
        # Some templates (Mistral's, Gemma's) refuse a system turn: its text then opens the first user turn.
        refused = any(word in str(error).lower() for word in ("system", "alternate"))
        turns = system_in_first_turn(messages)
        if not refused or turns == list(messages):
            raise
        text = write(turns)
    # The template has written the opening token already; a second one would be divergences.md B8.
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def load_prompt(task: str, wording: str = "ours", needs: Sequence[str] = (), *, asked: str = "") -> Prompt:
    """Return the prompt of a task, in one of its :func:`wordings`, with placeholders that it `needs`.

    Where the id of the chat model that is `asked` says that it needs short forms, ours is the short one. The id says
    so, and not the model, so that what was recorded of it is asked for in the same words.

    Raises:
        InputError: no such task or wording, or a placeholder is missing.
        MissingDataError: the published wording has not been imported.
    """
    if known("wording", wording, wordings(task)) in OURS:
        wording = "short" if SHORT in asked else wording
        place = files("berdslib.llm") / "prompts"
        resource = (place / "short" if wording == "short" else place) / f"{task}.txt"
        prompt = _parse(f"{task}/{wording}", resource.read_text(encoding="utf-8"), needs)
        return prompt._replace(form=FORMS.get(prompt.name, FORMS[task]))
    path = published_path(task, wording)
    if not path.is_file():
        fetch = " ADDRESS" if task not in PUBLISHED else ""
        online = "" if wording.startswith("table-") else f"With a network:  berds prompts fetch {task}{fetch}; "
        raise MissingDataError(
            f"the {wording} prompt for {task} is not part of this project and was not imported (looked for {path}). "
            f"{online}with a copy of the paper's wording in FILE:  berds prompts fetch {task} FILE"
        )
    return _parse(f"{task}/{wording}", path.read_text(encoding="utf-8"), needs)


def split_wording(task: str, name: str) -> tuple[str, str]:
    """Return a model's name, and the wording of a task that it is asked by: what follows its last @, or "".

    The @ in the path of a folder or file that exists is part of the name.

    >>> split_wording("perspective_detection", "org/m@published"), split_wording("perspective_detection", "org/m")
    (('org/m', 'published'), ('org/m', ''))
    """
    check_no_address(name)
    model, _, wording = name.rpartition("@")
    path = name.rpartition(":")[2].removesuffix("+4bit")  # of an adapter, of recorded answers
    if not model or "/" in wording or Path(name).exists() or Path(path).exists():
        return name, ""
    return model, known("wording", wording, wordings(task))


def published_path(task: str, wording: str | None = None) -> Path:
    """Return where a published wording of a task is kept, there or not; None for the usual one."""
    there = wordings(task)[len(OURS) :]
    if not there:
        raise InputError(f"{task} has no published wording")
    kind = known("published wording", there[0] if wording is None else wording, there).removeprefix("published")
    name = "-".join(part for part in (task, kind.strip("-")) if part)
    return cache_dir() / "prompts" / f"{name}.txt"


def import_prompt(task: str, source: Path, needs: Sequence[str], wording: str | None = None) -> Path:
    """Take a published wording from a local file into the user cache, and return where; [Document] becomes {document}.

    Args:
        task: what the prompt is for.
        source: a UTF-8 text file: the user part alone, which may open with examples as printed; or all parts, divided
            as in our own prompt files or written turn by turn in ChatML, as the authors' instructions for chat models
            are.
        needs: placeholders that must occur.
        wording: as what it is kept, one of :func:`wordings`; None for the task's usual one.

    Raises:
        InputError: the file cannot be read, a placeholder is missing, or there is one that nothing is put in for.
    """
    target = published_path(task, wording)
    try:
        text = source.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as UTF-8 text ({type(error).__name__})", path=source) from None
    with errors_in(source):
        opening, divider, user = _divided(text).rpartition(_DIVIDER)
        # In a turn that is shown as an example, brackets are what they are.
        text = opening + divider + _BRACKETED.sub(lambda m: _placeholder(m, needs), user)
        unknown = [n for n in _NAMED.findall(_parse(task, text, needs).user) if n not in needs]
        if unknown:
            raise InputError(f"prompt {task!r} has a placeholder {{{unknown[0]}}}, and nothing is put in for it")
    with write_text(target) as file:
        file.write(text)
    return target


def _placeholder(found: re.Match[str], needs: Sequence[str]) -> str:
    """Return a word in brackets as a placeholder if it is one: [17] and [sic] in an example are not."""
    name = re.sub(r"[\s_-]", "", found[1] or found[2]).lower()
    name = name if name in needs else _ALIASES.get(name, name)
    return f"{{{name}}}" if name in needs else found[0]


def _divided(text: str) -> str:
    """Return ChatML with our dividing lines; other texts as they are."""
    turns = [(role, part.strip()) for role, part in _TURN.findall(text)]
    if not turns:
        return text
    if turns[-1] == ("assistant", ""):  # opens the answer, as a chat template does by itself
        turns.pop()
    system = turns.pop(0)[1] if turns and turns[0][0] == "system" else ""
    roles = [role for role, _ in turns]
    parts = [part for _, part in turns]
    if roles != ["user", "assistant"] * (len(turns) // 2) + ["user"]:
        raise InputError(
            f"the turns are {', '.join(roles)}; examples by user and assistant, and then user, were expected"
        )
    shown = zip(itertools.cycle((_EXAMPLE, _ANSWER)), parts[:-1], strict=False)
    return "\n".join([system, *itertools.chain(*shown), _DIVIDER, parts[-1], ""])


def _parse(name: str, text: str, needs: Sequence[str]) -> Prompt:
    opening, _, user = text.rpartition(_DIVIDER)
    system, *examples = opening.split(_EXAMPLE)
    missing = [n for n in needs if f"{{{n}}}" not in user]
    if missing:
        raise InputError(
            f"prompt {name!r} lacks the placeholder {{{missing[0]}}}; write it where that text goes and import the file"
        )
    turns = [tuple(part.strip() for part in example.split(_ANSWER)) for example in examples]
    if not all(len(turn) == 2 and all(turn) for turn in turns):
        raise InputError(f"prompt {name!r} has an example without exactly one answer behind a line {_ANSWER!r}")
    return Prompt(name, system.strip(), user.strip(), tuple(itertools.chain(*turns)))
