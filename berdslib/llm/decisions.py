"""Decision models: one request holds a text and several questions; the reply holds a probability for each question."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from berdslib.errors import InputError, known
from berdslib.llm.chat import Body, Endpoint, Messages


class Decisions(Endpoint):
    """A decision model behind an address; it shares key, retries, waits and limits with the client for chat models.

    The first message is the text. Each further message is a question, and its role is the question's name. The reply's
    text is JSON: for each name, a probability or the text of a refusal.

    Args:
        model: the model's name at the endpoint.
        form: the format of requests: "system-one" (vLLM, llama.cpp, SGLang) or "openai" (OpenAI's Decisions).
        base_url: the full address; None for the environment variable BERDS_DECIDE_URL.
        more: further fields of each request; they are part of the id.
        limits: keyword arguments of :class:`~berdslib.llm.chat.Endpoint`, such as max_retries and timeout.

    Raises:
        InputError: no valid address, or an unknown form.
    """

    _path = ""

    def __init__(
        self,
        model: str,
        *,
        form: str = "system-one",
        base_url: str | None = None,
        more: Mapping[str, Any] | None = None,
        **limits: Any,
    ) -> None:
        address = base_url or os.environ.get("BERDS_DECIDE_URL")
        if not address:
            raise InputError("set the environment variable BERDS_DECIDE_URL to the address of the decision model")
        super().__init__(model, base_url=address, logprobs=False, **limits)
        self.form = known("form", form, ("system-one", "openai"))
        self._settings = {"model": model, **(more or {})}
        self.id = f"{model}@{self.url}({json.dumps({**(more or {}), 'form': form}, sort_keys=True)})"

    @property
    def settled(self) -> bool:
        """Always true, since requests to a decision model are never changed."""
        return True

    def _learn(self, _refused: Body, _said: str) -> bool:
        return False

    def _body(self, messages: Messages) -> Body:
        text, *questions = messages
        if self.form == "openai":
            listed = [{"type": "predicate", "name": one["role"], "instructions": one["content"]} for one in questions]
            return {**self._settings, "input": text["content"], "questions": listed}
        named = {one["role"]: {"type": "noul", "instructions": one["content"]} for one in questions}
        return {**self._settings, "state": text["content"], "questions": named}

    def _parts(self, answer: Any) -> tuple[str, str, tuple[tuple[str, float], ...]]:
        answers = answer["answers"]
        if isinstance(answers, list):
            answers = {one["name"]: one for one in answers}
        fields = ("noul", "probability", "refusal")
        found = {name: next((one[f] for f in fields if one.get(f) is not None), None) for name, one in answers.items()}
        return json.dumps(found), "stop", ()
