"""Prompts: our own wordings, and the published ones as a user has them on disk.

A prompt file holds a system part, a line ``=== user ===`` and a user part with named placeholders in braces; before
that line there may be examples, each behind lines ``=== example ===`` and ``=== answer ===``. The papers' own wordings
are not in the project; ``berds prompts fetch`` takes them from a local copy into the user cache, ``berds prompts
fetch`` from the web, and there they are found by name: ``published``, or the table that shows them, such as
``table-8``.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from berdslib.errors import InputError, MissingDataError, known
from berdslib.files import write_text
from berdslib.llm.untrusted import defuse_tag
from berdslib.paths import cache_dir

# Every task with a prompt, and the placeholders that its wording must have.
TASKS: dict[str, tuple[str, ...]] = {
    "perspective_detection": ("document", "statement"),
    "perspective_generation": ("question",),
    "hypothetical_passage": ("question",),
    "perspective_extraction": ("query",),
    "question_answering": ("k", "q"),
    "essay_writing": ("k", "q", "s"),
    "question_from_arguments": ("first", "second"),
    "statement_and_negation": ("question",),
    "opposing_statement": ("question", "statement"),
    "statements_of_answers": ("question", "answers"),
    "personal_experience": ("question",),
    "survey_statements": ("question",),
    "supporting_side": ("question", "first", "second"),
    "statements_of_question": ("question",),
}
# What each is for, and where its published wording is printed ("" where there is none).
PURPOSES: dict[str, tuple[str, str]] = {
    "perspective_detection": ("Does a document support a statement?", "BeRDS, Table 14"),
    "perspective_generation": ("perspectives on a question, to search by", "BeRDS, Table 12"),
    "hypothetical_passage": ("a passage that could answer a question, to search by", ""),
    "perspective_extraction": ("topic and angle of a search request", "PIR, A.8"),
    "question_answering": ("a short answer, from what was retrieved", "PIR, A.8"),
    "essay_writing": ("an essay for one side, from what was retrieved", "PIR, A.8"),
    "question_from_arguments": ("the question on which two arguments part", "BeRDS, Table 8, above"),
    "statement_and_negation": ("a yes/no question as a statement, and the negation", "BeRDS, Table 8, below"),
    "opposing_statement": ("the statement of the other side", "BeRDS, Table 9, Yes/No"),
    "statements_of_answers": ("answers to a question as statements", "BeRDS, Table 9, Multi"),
    "personal_experience": ("Does a survey question ask for people's own experience?", "BeRDS, Table 11, filtering"),
    "survey_statements": ("a survey question as a yes/no question and two statements", "BeRDS, Table 11, generation"),
    "supporting_side": ("which of two statements answers a question with yes", "BeRDS, Table 15"),
    "statements_of_question": ("the positions that people take on a question", ""),
}
# The published wordings by which BeRDS was built are named after their tables.
_TABLES = {
    "question_from_arguments": "table-8",
    "statement_and_negation": "table-8",
    "opposing_statement": "table-9",
    "statements_of_answers": "table-9",
    "personal_experience": "table-11",
    "survey_statements": "table-11",
    "supporting_side": "table-15",
}
_DIVIDER, _EXAMPLE, _ANSWER = "=== user ===", "=== example ===", "=== answer ==="
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
    """Return the names of a task's wordings: ours, and those that can be imported, the usual one first.

    Raises:
        InputError: no such task.
    """
    if known("task", task, TASKS) in _TABLES:
        return "ours", _TABLES[task]
    if task == "statements_of_question":  # for questions from anywhere; the paper's came with their sides
        return ("ours",)
    return ("ours", *dict.fromkeys(("published", *PUBLISHED.get(task, ()))))


class Prompt(NamedTuple):
    """A task's wording: ``system`` may be empty; ``user`` holds placeholders such as {document}.

    ``example`` holds turns to be shown first, a user's and the answer to it, and so on; empty for none.
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
        """Return the turns of a conversation: system, examples where there are any, and the user's, filled.

        Raises:
            InputError: a placeholder without a value.
        """
        opening = [("system", self.system)] if self.system else []
        shown = zip(itertools.cycle(("user", "assistant")), self.example, strict=False)
        turns = [*opening, *shown, ("user", self.fill(**values))]
        return [{"role": role, "content": turn} for role, turn in turns]

    def about(self, **values: str) -> list[dict[str, str]]:
        """Return :meth:`messages` for texts that come from elsewhere: none can close a tag of this prompt, or a turn.

        Raises:
            InputError: a placeholder without a value.
        """
        tags = _TAG.findall(self.user)
        return self.messages(**{name: defuse_tag(value, *tags) for name, value in values.items()})

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
        online = "" if task in _TABLES else f"With a network:  berds prompts fetch {task}{fetch}; "
        raise MissingDataError(
            f"the {wording} prompt for {task} is not part of this project and was not imported (looked for {path}). "
            f"{online}with a copy of the paper's wording in FILE:  berds prompts fetch {task} FILE"
        )
    return _parse(f"{task}/{wording}", path.read_text(encoding="utf-8"), needs)


def published_path(task: str, wording: str | None = None) -> Path:
    """Return where a published wording of a task is kept, there or not; None for the usual one.

    Raises:
        InputError: no such task or wording.
    """
    there = wordings(task)[1:]
    if not there:
        raise InputError(f"{task} has no published wording")
    kind = known("published wording", there[0] if wording is None else wording, there).removeprefix("published")
    name = "-".join(part for part in (task, kind.strip("-")) if part)
    return cache_dir() / "prompts" / f"{name}.txt"


def import_prompt(task: str, source: Path, needs: Sequence[str], wording: str | None = None) -> Path:
    """Take a published wording from a local file into the user cache; [Document] becomes {document}.

    Args:
        task: what the prompt is for.
        source: a UTF-8 text file: the user part alone, which may open with examples as printed; or all parts, divided
            as in our own prompt files or written turn by turn in ChatML, as the authors' instructions for chat models
            are.
        needs: placeholders that must occur.
        wording: as what it is kept, one of :func:`wordings`; None for the task's usual one.

    Returns:
        Where it is kept.

    Raises:
        InputError: the file cannot be read, a placeholder is missing, or there is one that nothing is put in for; no
            such task or wording; or it cannot be written.
    """
    target = published_path(task, wording)
    try:
        text = source.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as UTF-8 text ({type(error).__name__})", path=source) from None
    try:
        opening, divider, user = _divided(text).rpartition(_DIVIDER)
        # In a turn that is shown as an example, brackets are what they are.
        text = opening + divider + _BRACKETED.sub(lambda m: _placeholder(m, needs), user)
        unknown = [n for n in _NAMED.findall(_parse(task, text, needs).user) if n not in needs]
        if unknown:
            raise InputError(f"prompt {task!r} has a placeholder {{{unknown[0]}}}, and nothing is put in for it")
    except InputError as error:
        raise InputError(error.problem, path=source) from None
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
    roles, parts = [role for role, _ in turns], [part for _, part in turns]
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
