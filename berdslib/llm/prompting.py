"""Prompts: our own wordings, long and short, and the published wordings that a user has imported.

A prompt file consists of a system part, a line ``=== user ===`` and a user part with named placeholders in braces.
Examples may precede that line: a line ``=== example ===`` and the user's turn, then a line ``=== answer ===`` and the
answer. The project does not include the papers' wordings; ``berds prompts fetch`` imports them from a local copy or
from the web into the user cache. Their names are ``published``, or the table that shows them, such as ``table-8``.
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
from berdslib.files import say_once, write_text
from berdslib.llm.chat import Form, Request, check_no_address, system_in_first_turn
from berdslib.llm.untrusted import defuse_tag
from berdslib.paths import cache_dir

OURS = ("ours", "short")  # "short" is for small models: brief, and with an example
SHORT = "prompts=short"  # in the id of a chat model that needs short prompts
# States of an imported wording.
AUTHORS = "the authors' file"
OTHER = "not the authors' file: its checksum differs from the one on record"
UNCHECKED = "unchecked: no checksum is on record, so compare it with the paper"
_CHECKSUM = ".sha256"  # ending of the file beside an imported wording: of the file that it was taken from
_DIVIDER = "=== user ==="
_EXAMPLE = "=== example ==="
_ANSWER = "=== answer ==="
# Placeholders are written as [Document], [Doc 1] or [P1] in the papers, and as {document} and {first} in our prompts.
_BRACKETED = re.compile(r"\[([A-Za-z]+[\s_-]?[12]?)\]|\{([A-Za-z]+[\s_-]?[12]?)\}")
_NAMED = re.compile(r"\{([a-z]+)\}")
_ALIASES = {"doc": "document", "q": "question", "perspective": "statement", "claim": "statement"} | {
    f"{word}{digit}": name
    for word in ("doc", "document", "p", "perspective", "argument", "statement")
    for digit, name in (("1", "first"), ("2", "second"))
}
_TAG = re.compile(r"</(\w+)>")
# The authors' instructions for chat models are written turn by turn in ChatML.
_TURN = re.compile(r"<\|im_start\|>\s*(system|user|assistant)\b(.*?)(?=<\|im_end\|>|<\|im_start\|>|\Z)", re.DOTALL)


class Published(NamedTuple):
    """The authors' file of a wording: address, size in bytes and checksum."""

    url: str
    bytes: int
    sha256: str


_TABLE = tomllib.loads((files("berdslib.llm") / "prompts.toml").read_text(encoding="utf-8"))
# Task → the placeholders that its wordings must contain.
TASKS: dict[str, tuple[str, ...]] = {task: tuple(row["needs"]) for task, row in _TABLE.items()}
# Task → its purpose, and the place where its published wording is printed ("" if there is none).
PURPOSES: dict[str, tuple[str, str]] = {task: (row["purpose"], row["printed"]) for task, row in _TABLE.items()}
# Task → the form of answers to our wordings; "TASK/short" → the form for a short wording, if it differs.
FORMS = {task: Form(**row["ours"]) for task, row in _TABLE.items()} | {
    f"{task}/short": Form(**row["short"]) for task, row in _TABLE.items() if "short" in row
}
# Task → wording → the authors' file.
PUBLISHED: dict[str, dict[str, Published]] = {
    task: {name: Published(**file) for name, file in row["files"].items()}
    for task, row in _TABLE.items()
    if "files" in row
}


def wordings(task: str) -> tuple[str, ...]:
    """Return the names of a task's wordings: ours, then the wordings that can be imported, the default first."""
    return (*OURS, *_TABLE[known("task", task, TASKS)]["wordings"])


class Prompt(NamedTuple):
    """A task's wording: ``system`` may be empty; ``user`` contains placeholders such as {document}.

    ``example`` contains the turns of examples, alternately a user's turn and its answer; it is empty without examples.
    ``form`` is the form of the answer.
    """

    name: str
    system: str
    user: str
    example: tuple[str, ...] = ()
    form: Form | None = None

    @property
    def hash(self) -> str:
        """Twelve hex digits that depend on the wording; part of every judge's id."""
        text = "\0".join([self.system, self.user, *self.example])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def messages(self, **values: str) -> Request:
        """Return a conversation: the system turn, the examples, and the user's turn with its placeholders filled."""
        shown = zip(itertools.cycle(("user", "assistant")), self.example, strict=False)
        turns = [("system", self.system), *shown, ("user", self.fill(**values))]
        said = [{"role": role, "content": turn} for role, turn in turns if turn or role != "system"]
        return Request(said, self.form)

    def about(self, **values: str) -> Request:
        """Return :meth:`messages` for untrusted texts, which are defused so that they cannot close a tag or a turn."""
        tags = _TAG.findall(self.user)
        return self.messages(**{name: defuse_tag(value, *tags) for name, value in values.items()})

    def fill(self, **values: str) -> str:
        """Return the user part with all placeholders replaced in one pass, so braces inside values stay unchanged."""
        lacking = [name for name in _NAMED.findall(self.user) if name not in values]
        if lacking:
            raise InputError(f"prompt {self.name!r} needs a value for {{{lacking[0]}}}")
        return _NAMED.sub(lambda match: values[match[1]], self.user)


def templated_ids(tokenizer: Any, messages: Sequence[Mapping[str, str]], **options: Any) -> list[int]:
    """Return the token ids of a conversation in a model's chat template, up to the answer; it takes `options`."""
    write = partial(tokenizer.apply_chat_template, tokenize=False, add_generation_prompt=True, **options)
    try:
        text = write(messages)
    except Exception as error:
        # Some templates (Mistral's, Gemma's) refuse a system turn; its text is then moved into the first user turn.
        refused = any(word in str(error).lower() for word in ("system", "alternate"))
        turns = system_in_first_turn(messages)
        if not refused or turns == list(messages):
            raise
        text = write(turns)
    # The template has already written the opening token; adding a second one is the defect of divergences.md B8.
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def load_prompt(task: str, wording: str = "ours", needs: Sequence[str] = (), *, asked: str = "") -> Prompt:
    """Return the prompt of a task in one of its :func:`wordings`; it must contain the placeholders in `needs`.

    `asked` is the id of the chat model. If the id requires short prompts, our short wording replaces our long one. The
    id decides and not the model, so that recorded answers are looked up with the wording that they were recorded with.

    Raises:
        InputError: an unknown task or wording, or a missing placeholder.
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
        raise MissingDataError(
            f"the {wording} wording of {task} is not part of this project, and {path} does not exist. "
            f"Get it:  {fetch_command(task, wording)}"
        )
    if wording_state(task, wording) == OTHER:
        say_once(path, f"the {wording} wording of {task} is {OTHER}")
    return _parse(f"{task}/{wording}", path.read_text(encoding="utf-8"), needs)


def split_wording(task: str, name: str) -> tuple[str, str]:
    """Split a model's name at its last @ into the name and the wording of a task; the wording is "" without an @.

    An @ in the path of an existing file or folder is part of the name.

    >>> split_wording("perspective_detection", "org/m@published"), split_wording("perspective_detection", "org/m")
    (('org/m', 'published'), ('org/m', ''))
    """
    check_no_address(name)
    model, _, wording = name.rpartition("@")
    path = name.rpartition(":")[2].removesuffix("+4bit")  # the path of an adapter or of recorded answers
    if not model or "/" in wording or Path(name).exists() or Path(path).exists():
        return name, ""
    return model, known("wording", wording, wordings(task))


def published_path(task: str, wording: str | None = None) -> Path:
    """Return the path of an imported wording of a task, which need not exist; None for the default wording."""
    there = wordings(task)[len(OURS) :]
    if not there:
        raise InputError(f"the task {task} has no published wording")
    kind = known("published wording", there[0] if wording is None else wording, there).removeprefix("published")
    name = "-".join(part for part in (task, kind.strip("-")) if part)
    return cache_dir() / "prompts" / f"{name}.txt"


def fetch_command(task: str, wording: str) -> str:
    """Return the command that gets a published wording; FILE is a copy of what the paper prints."""
    file = "" if wording in PUBLISHED.get(task, {}) else " FILE"
    other = f" --wording {wording}" if wording != wordings(task)[len(OURS)] else ""
    return f"berds prompts fetch {task}{file}{other}"


def import_prompt(task: str, source: Path, needs: Sequence[str], wording: str | None = None) -> Path:
    """Import a published wording from a local file into the user cache, and return its path there.

    Placeholders such as [Document] become {document}.

    Args:
        task: the task of the prompt.
        source: a UTF-8 text file with the user part alone, which may start with examples as printed; or with all parts,
            in the format of our own prompt files or turn by turn in ChatML, as in the authors' instructions for chat
            models.
        needs: placeholders that must occur.
        wording: the name for the imported wording, one of :func:`wordings`; None for the task's default wording.

    Raises:
        InputError: the file is unreadable, or a placeholder is missing or unknown.
    """
    target = published_path(task, wording)
    try:
        raw = source.read_bytes()
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        raise InputError("does not exist", path=source) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as UTF-8 text ({type(error).__name__})", path=source) from None
    with errors_in(source):
        opening, divider, user = _divided(text).rpartition(_DIVIDER)
        # Brackets in the turns of an example are ordinary text.
        text = opening + divider + _BRACKETED.sub(lambda m: _placeholder(m, needs), user)
        unknown = [n for n in _NAMED.findall(_parse(task, text, needs).user) if n not in needs]
        if unknown:
            raise InputError(f"prompt {task!r} has an unknown placeholder {{{unknown[0]}}}")
    with write_text(target) as file:
        file.write(text)
    with write_text(target.with_suffix(_CHECKSUM)) as file:
        file.write(hashlib.sha256(raw).hexdigest())
    return target


def wording_state(task: str, wording: str) -> str:
    """Return what is known of an imported wording: ``AUTHORS``, ``OTHER``, ``UNCHECKED``, or "" if it is not here.

    ``UNCHECKED`` is a wording without a checksum on record, or one that was imported before checksums were kept.
    """
    path = published_path(task, wording)
    if not path.is_file():
        return ""
    record = PUBLISHED.get(task, {}).get(wording)
    checksum = path.with_suffix(_CHECKSUM)
    if record is None or not checksum.is_file():
        return UNCHECKED
    return AUTHORS if checksum.read_text(encoding="utf-8") == record.sha256 else OTHER


def _placeholder(found: re.Match[str], needs: Sequence[str]) -> str:
    """Return a known word in brackets as a placeholder; other brackets, such as [17] and [sic], stay unchanged."""
    name = re.sub(r"[\s_-]", "", found[1] or found[2]).lower()
    name = name if name in needs else _ALIASES.get(name, name)
    return f"{{{name}}}" if name in needs else found[0]


def _divided(text: str) -> str:
    """Convert ChatML to our format of prompt files; return other texts unchanged."""
    turns = [(role, part.strip()) for role, part in _TURN.findall(text)]
    if not turns:
        return text
    if turns[-1] == ("assistant", ""):  # the start of the answer, which a chat template adds
        turns.pop()
    system = turns.pop(0)[1] if turns and turns[0][0] == "system" else ""
    roles = [role for role, _ in turns]
    parts = [part for _, part in turns]
    if roles != ["user", "assistant"] * (len(turns) // 2) + ["user"]:
        raise InputError(f"the turns are {', '.join(roles)}; expected pairs of user and assistant, then user")
    shown = zip(itertools.cycle((_EXAMPLE, _ANSWER)), parts[:-1], strict=False)
    return "\n".join([system, *itertools.chain(*shown), _DIVIDER, parts[-1], ""])


def _parse(name: str, text: str, needs: Sequence[str]) -> Prompt:
    opening, _, user = text.rpartition(_DIVIDER)
    system, *examples = opening.split(_EXAMPLE)
    missing = [n for n in needs if f"{{{n}}}" not in user]
    if missing:
        raise InputError(
            f"prompt {name!r} lacks the placeholder {{{missing[0]}}}; insert it into the file and import the file again"
        )
    turns = [tuple(part.strip() for part in example.split(_ANSWER)) for example in examples]
    if not all(len(turn) == 2 and all(turn) for turn in turns):
        raise InputError(
            f"prompt {name!r} has an example that does not have exactly one answer after a line {_ANSWER!r}"
        )
    return Prompt(name, system.strip(), user.strip(), tuple(itertools.chain(*turns)))
