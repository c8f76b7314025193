"""Chat models by name, and local chat models."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import threading
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from berdslib.errors import InputError
from berdslib.llm.chat import ChatModel, Endpoint, Form, Messages, Reply, check_no_address
from berdslib.llm.decisions import Decisions
from berdslib.llm.prompting import FORMS, SHORT, templated_ids
from berdslib.llm.recorded import Recorded
from berdslib.llm.untrusted import control_tokens, defuse
from berdslib.models.loading import (
    checkpoint_mark,
    language_model_numbers,
    load_model,
    load_weights,
    number_format_mark,
    padded,
    read_tokenizer,
)
from berdslib.models.packaged import PACKAGED

logger = logging.getLogger(__name__)

_ALTERNATIVES = 20  # alternatives of the first token in a reply, as many as endpoints return


def make_chat(
    name: str, *, max_tokens: int = 200, logprobs: bool = False, schema: dict[str, Any] | None = None, **options: Any
) -> ChatModel:
    """Return a chat model by name.

    Settings may follow the name of a model, as in "MODEL?max_tokens=2000&reasoning_effort=none": the longest answer,
    the temperature (default 0), and for an endpoint further fields of each request, whose values are parsed as JSON if
    possible.

    Args:
        name: "smollm2" or "qwen-coder", packaged models; "local:FOLDER" for a checkpoint on this machine (or its id on
            the Hugging Face hub); "recorded:FILE" for the recorded answers in a file; any other name is a model behind
            an OpenAI-compatible endpoint (BERDS_CHAT_URL, OPENAI_API_KEY).
        max_tokens: longest answer; it does not apply to recorded answers.
        logprobs: request the alternatives of each token from an endpoint; local and recorded models ignore it.
        schema: a JSON schema for the answers of an endpoint; a local model follows the form of each request.
        options: passed to :class:`LocalChat` or :class:`~berdslib.llm.chat.Endpoint`.

    Raises:
        InputError: an empty name, a name with an address or an invalid setting, or a file that is unreadable or
            contains answers of several models.
        MissingDataError: a missing local model.
    """
    check_no_address(name)
    name, more = _settings_in(name)
    max_tokens = more.pop("max_tokens", max_tokens)
    kind, _, rest = name.partition(":")
    if kind == "recorded" and rest:
        return Recorded(Path(rest))
    if name in PACKAGED or (kind == "local" and rest):
        temperature = more.pop("temperature", 0)
        if more:
            problem = f"{next(iter(more))!r} is not a setting of a local model; use max_tokens and temperature"
            raise InputError(problem, field="chat")
        return load_local_chat(rest or name, max_tokens=max_tokens, temperature=temperature, **options)
    if not name.strip() or kind in ("local", "recorded"):
        expected = "smollm2, qwen-coder, local:FOLDER, recorded:FILE or an endpoint's model"
        raise InputError(f"{name!r} is not a chat model; use {expected}")
    return Endpoint(name, max_tokens=max_tokens, logprobs=logprobs, schema=schema, more=more, **options)


def make_decisions(name: str) -> ChatModel:
    """Return a decision model by name: "recorded:FILE", or the name of a model at the address in BERDS_DECIDE_URL.

    Settings may follow the name as in :func:`make_chat`; ``form`` is the format of the requests, see
    :class:`~berdslib.llm.decisions.Decisions`.
    """
    check_no_address(name, "BERDS_DECIDE_URL")
    if name.startswith("recorded:"):
        return Recorded(Path(name.removeprefix("recorded:")))
    model, more = _settings_in(name)
    form = more.pop("form", "system-one")
    return Decisions(model, form=form, more=more)


def _settings_in(name: str) -> tuple[str, dict[str, Any]]:
    """Split a name into the model and its settings, which follow a question mark; "recorded:FILE" has no settings."""
    model, mark, listed = name.partition("?")
    if not mark or name.startswith("recorded:"):
        return name, {}
    settings: dict[str, Any] = {}
    for setting in listed.split("&"):
        field, equals, value = setting.partition("=")
        if not (field.isidentifier() and equals and value):
            raise InputError(f"{setting!r} is not a setting; expected NAME=VALUE", field="chat")
        try:
            settings[field] = json.loads(value)
        except ValueError:
            settings[field] = value
    return model, settings


def load_local_chat(checkpoint: str, **options: Any) -> LocalChat:
    """Load a chat model from a package, a folder, the Hugging Face cache or the hub.

    The options are those of :class:`LocalChat`. Answers follow the requested form only if the library llguidance is
    installed; otherwise a warning is logged.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = load_model(checkpoint, partial(read_tokenizer, AutoTokenizer, checkpoint))
    dtype = language_model_numbers(checkpoint)
    model = load_weights(AutoModelForCausalLM, checkpoint, dtype=dtype)
    held = importlib.util.find_spec("llguidance") is not None
    if not held:
        logger.warning(
            "answers of %s may not follow the requested form without llguidance: pip install 'berdslib[smollm2]'",
            checkpoint,
        )
    defaults = {"held": held, **(PACKAGED[checkpoint].chat if checkpoint in PACKAGED else {})}
    # Recordings must not mix the answers of different weights in the same folder.
    name = checkpoint + checkpoint_mark(checkpoint) + number_format_mark(dtype)
    return LocalChat(model, tokenizer, name, **defaults | options)


class LocalChat:
    """A local causal language model as chat model; threads may share it and take turns by batch.

    Args:
        model: a loaded causal LM (see :func:`load_local_chat` for loading by name).
        tokenizer: the model's tokenizer.
        name: the model's name in the id.
        max_tokens: longest answer; a request may set a shorter one.
        held: generate only tokens that the form of a request allows, unless the model reasons before it answers.
        short: use the short wordings of prompts.
        repetition_penalty: a value above 1 reduces the probability of tokens that a free-form answer already contains;
            1 for no penalty.
        temperature: 0 takes the most probable token each time; 1 draws from the model's probabilities. The draw depends
            only on the conversation.

    Raises:
        InputError: an invalid setting.
    """

    together = 8  # conversations in one batch

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        *,
        max_tokens: int = 200,
        held: bool = False,
        short: bool = False,
        repetition_penalty: float = 1.0,
        temperature: float = 0,
    ) -> None:
        if max_tokens < 1:
            raise InputError(f"max_tokens must be at least 1, not {max_tokens}")
        if not (isinstance(temperature, int | float) and 0 <= temperature < np.inf):
            raise InputError(f"must be a finite number of at least 0, not {temperature!r}", field="temperature")
        self.temperature = temperature
        template = tokenizer.chat_template or ""
        self.model = model
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.penalty = repetition_penalty
        self.held = held and "<think" not in template
        digest = _digest(template) if template else "none"
        # Recorded answers are looked up by this id.
        settings = [f"local({name},max_tokens={max_tokens},temperature={temperature:g},seed=0,chat={digest}"]
        if repetition_penalty != 1:
            settings.append(f"repetition={repetition_penalty}")
        if short:
            settings.append(SHORT)
        if self.held:
            settings.append(f"forms={_digest(json.dumps(FORMS))}")
        self.id = ",".join(settings) + ")"
        self._marks = control_tokens(tokenizer)
        self._lock = threading.Lock()

    def complete(self, messages: Messages) -> Reply:
        """Return the answer, with the most probable allowed alternatives of its first token.

        Raises:
            InputError: the messages and the longest answer do not fit into the model's context.
        """
        return self.complete_all([messages])[0]

    def complete_all(self, conversations: Sequence[Messages]) -> list[Reply]:
        """Return the answers to several conversations, generated in one batch; errors as of :meth:`complete`."""
        import torch

        rows = [self.token_ids(messages) for messages in conversations]
        forms: list[Form | None] = [getattr(messages, "form", None) for messages in conversations]
        longest = [min(self.max_tokens, form.max_tokens) if form else self.max_tokens for form in forms]
        room = getattr(self.model.config, "max_position_embeddings", None)
        for row, most in zip(rows, longest, strict=True):
            if room is not None and len(row) + most > room:
                raise InputError(
                    f"messages of {len(row)} tokens and an answer of {most} do not fit into the {room} tokens that "
                    f"{self.id} can read; use fewer or shorter passages"
                )
        ids, mask = (tensor.to(self.model.device) for tensor in padded(rows))
        with self._lock, torch.inference_mode():
            penalties = [self.penalty if form is None or form.free else 1.0 for form in forms]
            matchers = [self._matcher(form) for form in forms]
            seeds = [int(_digest(str(row)), 16) for row in rows]
            steps = _Steps(matchers, ids.shape[1], penalties, self.temperature, seeds)
            settings = self._settings(max(longest))
            out = self.model.generate(
                input_ids=ids, attention_mask=mask, generation_config=settings, logits_processor=[steps]
            )
        return [
            self._reply(len(row), tokens[ids.shape[1] :][:most].tolist(), scores)
            for row, tokens, most, scores in zip(rows, out, longest, steps.first, strict=True)
        ]

    def _reply(self, asked: int, answer: list[int], scores: Any) -> Reply:
        """Return the reply to a prompt of `asked` tokens; `scores` are the logits of the first token."""
        import torch

        end = next((place for place, token in enumerate(answer) if token in self._ends), None)
        answer = answer if end is None else answer[: end + 1]
        best = torch.log_softmax(scores.double(), dim=-1).topk(min(_ALTERNATIVES, len(scores)))
        first = [
            (self.tokenizer.decode([int(token)]), float(logprob))
            for logprob, token in zip(*best, strict=True)
            if logprob > -np.inf
        ]
        text = self.tokenizer.decode(answer, skip_special_tokens=True).strip()
        return Reply(text, tuple(first), "length" if end is None else "stop", asked, len(answer))

    def token_ids(self, messages: Messages) -> list[int]:
        """Return the prompt as token ids; special tokens inside the messages become plain text."""
        plain = [{**message, "content": defuse(message["content"], self._marks)} for message in messages]
        if not self.tokenizer.chat_template:
            ids: list[int] = self.tokenizer("\n\n".join(message["content"] for message in plain))["input_ids"]
            return ids
        return templated_ids(self.tokenizer, plain)

    @cached_property
    def _ends(self) -> list[int]:
        own = self.model.generation_config.eos_token_id
        own = self.tokenizer.eos_token_id if own is None else own
        return own if isinstance(own, list) else [own]

    def _settings(self, longest: int) -> Any:
        """Return all settings of the generation, so that none comes from the checkpoint's defaults."""
        from transformers import GenerationConfig

        return GenerationConfig(
            max_new_tokens=longest,
            do_sample=False,
            num_beams=1,
            repetition_penalty=1.0,
            eos_token_id=self._ends,
            pad_token_id=self._ends[0],
        )

    @cached_property
    def _vocabulary(self) -> Any:
        from llguidance.hf import from_tokenizer

        return from_tokenizer(self.tokenizer, self.model.config.vocab_size, self._ends)

    def _matcher(self, form: Form | None) -> Any:
        """Return the matcher that restricts the next token to a form; None without a restriction."""
        if not self.held or form is None:
            return None
        from llguidance import LLMatcher

        if form.schema is None:
            return LLMatcher(self._vocabulary, LLMatcher.grammar_from_regex(form.pattern))
        grammar = LLMatcher.grammar_from_json_schema(
            form.schema, {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
        )
        return LLMatcher(self._vocabulary, grammar)


class _Steps:
    """Changes the logits of a batch before each token, and keeps those of the first token."""

    def __init__(
        self,
        matchers: Sequence[Any],
        start: int,
        penalties: Sequence[float],
        temperature: float,
        seeds: Sequence[int],
    ) -> None:
        import torch

        self.matchers = matchers
        self.start = start
        self.penalties = penalties
        self.temperature = temperature
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.first: Any = None

    def __call__(self, ids: Any, scores: Any) -> Any:
        import torch

        answers = ids[:, self.start :]  # without the prompts, whose tokens may be repeated
        if max(self.penalties) > 1:
            penalties = scores.new_tensor(self.penalties)[:, None]
            before = scores.gather(1, answers)
            after = torch.where(before < 0, before * penalties, before / penalties)
            scores = scores.scatter(1, answers, after)
        for row, matcher in enumerate(self.matchers):
            if matcher is None:
                continue
            if answers.shape[1] and not matcher.is_stopped():
                matcher.consume_token(int(answers[row, -1]))
            bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)  # a complete answer allows only its end
            allowed = torch.from_numpy(np.unpackbits(bits, bitorder="little")).bool()[: scores.shape[1]]
            scores[row].masked_fill_(~allowed.to(scores.device), -torch.inf)
        self.first = scores if self.first is None else self.first
        if not self.temperature:
            return scores
        # The largest of the scores with Gumbel noise added is a draw from their softmax.
        uniform = [
            torch.rand(scores.shape[1], generator=generator, dtype=torch.float64) for generator in self.generators
        ]
        noise = -torch.log(-torch.log(torch.stack(uniform).clamp_min(1e-300)))
        return scores.double() / self.temperature + noise.to(scores.device)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
