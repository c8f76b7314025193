"""Shared by judges that read Yes or No from a language model: prompts as token ids, and the answer tokens."""

from __future__ import annotations

import hashlib
from typing import Any

from berdslib.errors import InputError
from berdslib.judging.base import Pair, document_text
from berdslib.llm.prompting import Prompt, load_prompt, templated_ids
from berdslib.llm.untrusted import control_tokens, defuse, defuse_tag, one_line

NEEDS = ("document", "statement")
_SPELLINGS = {"yes": ("Yes", " Yes", "yes", " yes", "YES", " YES"), "no": ("No", " No", "no", " no", "NO", " NO")}


class YesNoJudge:
    """Writes the prompt of a pair and knows which tokens answer it; its kinds differ in what runs the model.

    `prompt` None is ours; `chat` None uses the tokenizer's chat template where it has one; of a prompt longer than
    `max_length` tokens the document is cut.
    """

    threshold = 0.5

    def __init__(
        self,
        tokenizer: Any,
        *,
        prompt: Prompt | None = None,
        chat: bool | None = None,
        max_length: int = 2048,
        title_position: str = "after",
    ) -> None:
        self.tokenizer = tokenizer
        self.prompt = prompt or load_prompt("perspective_detection", needs=NEEDS)
        self.chat = bool(getattr(tokenizer, "chat_template", None)) if chat is None else chat
        self.max_length, self.title_position = max_length, title_position
        self._marks = control_tokens(tokenizer)
        self._yes, self._no = answer_tokens(tokenizer, "yes"), answer_tokens(tokenizer, "no")
        template = hashlib.sha256(tokenizer.chat_template.encode()).hexdigest()[:8] if self.chat else "none"
        # The part of a judge's id that says how it asks.
        self.asks = (
            f"prompt={self.prompt.name}:{self.prompt.hash},shots=0,chat={template},"
            f"max_length={max_length},title={title_position}"
        )

    def token_ids(self, pair: Pair) -> list[int]:
        """Return the prompt of a pair as token ids, the document cut so that all of it fits."""
        statement = self._sanitize(one_line(pair.perspective))
        document = self._sanitize(document_text(pair.passage, self.title_position))
        ids = self._encode(document, statement)
        if len(ids) <= self.max_length:
            return ids
        room = self.max_length - len(self._encode("", statement))
        if room < 1:
            raise InputError(f"max_length {self.max_length} leaves no room for a document next to the instruction")
        spans = self.tokenizer(document, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        # Cutting at a token's end can change how the rest is cut into tokens, so the fit is checked, not assumed.
        while len(ids) > self.max_length:
            end = spans[min(room, len(spans)) - 1][1] if room > 0 else 0
            ids = self._encode(document[:end], statement)
            room -= max(1, len(ids) - self.max_length)
        return ids

    def _encode(self, document: str, statement: str) -> list[int]:
        if self.chat:
            return templated_ids(self.tokenizer, self.prompt.messages(document=document, statement=statement))
        user = self.prompt.fill(document=document, statement=statement)
        parts = [self.prompt.system, " ".join(self.prompt.example), user]
        ids: list[int] = self.tokenizer("\n\n".join(p for p in parts if p))["input_ids"]
        return ids

    def _sanitize(self, text: str) -> str:
        return defuse(defuse_tag(text, "document"), self._marks)


def answer_tokens(tokenizer: Any, answer: str) -> list[int]:
    """Return the ids of all single tokens that spell the answer ("yes" or "no"), with and without a blank before it."""
    spelt = [tokenizer(spelling, add_special_tokens=False)["input_ids"] for spelling in _SPELLINGS[answer]]
    found = sorted({ids[0] for ids in spelt if len(ids) == 1} - {tokenizer.unk_token_id})
    if not found:
        problem = f"the tokenizer has no single token for {answer.title()!r}; this model cannot be read by logits"
        raise InputError(problem)
    return found
