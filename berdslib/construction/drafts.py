"""What a build works on: an item of the source on its way to a question with perspectives, and what is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from berdslib.data.records import Question
from berdslib.data.tables import write_jsonl


class Draft(NamedTuple):
    """An item of the source, and what has been made of it so far.

    Fields: ``key`` names it for good, and becomes the question's id; ``where`` is its file and line; ``question`` and
    ``perspectives`` are "" and () until a step makes them, or the source has them; ``stances`` as in a Question;
    ``sources`` the texts that it is made of; ``options`` the answers that the source offers; ``documents`` the ids of
    those texts, where they have some; ``split`` that of the source, where it has one.
    """

    key: str
    where: str = ""
    question: str = ""
    perspectives: tuple[str, ...] = ()
    stances: tuple[str | None, ...] = ()
    sources: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    split: str = ""

    def as_question(self, source: str) -> Question:
        """Return the question that was made of it."""
        stances = self.stances or (None,) * len(self.perspectives)
        return Question(self.key, self.question, self.perspectives, stances, source, self.split)


class Rejection(NamedTuple):
    """An item that was left out: by which ``step``, for which ``reason`` (a short name), and the ``detail`` of it."""

    draft: Draft
    step: str
    reason: str
    detail: str

    def as_row(self) -> dict[str, Any]:
        """Return what is written of it, the item with all that had been made."""
        return {"step": self.step, "reason": self.reason, "detail": self.detail, **_filled(self.draft)}


class Rejected(Exception):  # noqa: N818 - not an error: the answer was read, and speaks against the item
    """Raised by a step that reads an answer and leaves its item out.

    Args:
        reason: a short name.
        detail: what is wrong with this item.
        ask_again: the answer may be better when asked again; only a second one like it counts.
    """

    def __init__(self, reason: str, detail: str, *, ask_again: bool = False) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail, self.ask_again = reason, detail, ask_again


def write_rejections(path: Path, rejections: Iterable[Rejection]) -> None:
    """Write rejected items, one JSON object a line."""
    write_jsonl(path, (one.as_row() for one in rejections))


def _filled(draft: Draft) -> Mapping[str, Any]:
    return {name: value for name, value in draft._asdict().items() if value}
