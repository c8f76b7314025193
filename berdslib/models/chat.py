"""Chat models by name, and those that run on this machine."""

from __future__ import annotations

import hashlib
import threading
from functools import partial
from pathlib import Path
from typing import Any

from berdslib.errors import InputError
from berdslib.llm.chat import ChatModel, Endpoint, Messages, Reply
from berdslib.llm.recorded import Recorded
from berdslib.llm.untrusted import control_tokens, defuse
from berdslib.models.loading import checkpoint_mark, language_model_numbers, load_model, load_weights, read_tokenizer

_ALTERNATIVES = 20  # of the first token, as many as endpoints offer


def make_chat(
    name: str, *, max_tokens: int = 200, logprobs: bool = False, schema: dict[str, Any] | None = None, **options: Any
) -> ChatModel:
    """Return a chat model by name.

    Args:
        name: "local:FOLDER" for a checkpoint on this machine (or its id on the Hugging Face hub); "recorded:FILE" for
            the answers in a file, nothing else; any other name is a model behind an OpenAI-compatible endpoint
            (BERDS_CHAT_URL, OPENAI_API_KEY).
        max_tokens: longest answer; recorded answers are as long as they are.
        logprobs: ask an endpoint for the alternatives of each token; the others give what they have.
        schema: a JSON schema for the answers of an endpoint; the others are held to a form by the prompt alone.
        options: passed to :class:`LocalChat` or :class:`~berdslib.llm.chat.Endpoint`.

    Raises:
        InputError: no name, or a file that cannot be read or holds the answers of several models.
        MissingDataError: a local model that is not there.
    """
    kind, _, rest = name.partition(":")
    if kind == "local" and rest:
        return load_local_chat(rest, max_tokens=max_tokens, **options)
    if kind == "recorded" and rest:
        return Recorded(Path(rest))
    if not name.strip() or kind in ("local", "recorded"):
        raise InputError(f"{name!r} is not a chat model; use local:FOLDER, recorded:FILE or an endpoint's model")
    return Endpoint(name, max_tokens=max_tokens, logprobs=logprobs, schema=schema, **options)


def load_local_chat(checkpoint: str, **options: Any) -> LocalChat:
    """Load a chat model from a folder, the Hugging Face cache or the hub. Options as of :class:`LocalChat`."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = load_model(checkpoint, partial(read_tokenizer, AutoTokenizer, checkpoint))
    model = load_weights(AutoModelForCausalLM, checkpoint, dtype=language_model_numbers())
    # Other weights in the same folder give other answers, which a record must tell apart.
    return LocalChat(model, tokenizer, checkpoint + checkpoint_mark(checkpoint), **options)


class LocalChat:
    """A causal language model of this machine as chat model; may be used by several threads, one answer at a time.

    Args:
        model: a loaded causal LM (see :func:`load_local_chat` for loading by name).
        tokenizer: its tokenizer.
        name: what the id calls the model.
        max_tokens: longest answer.

    Raises:
        InputError: an unusable setting.
    """

    def __init__(self, model: Any, tokenizer: Any, name: str, *, max_tokens: int = 200) -> None:
        if max_tokens < 1:
            raise InputError(f"max_tokens must be from 1, not {max_tokens}")
        self.model, self.tokenizer, self.max_tokens = model, tokenizer, max_tokens
        template = tokenizer.chat_template or ""
        digest = hashlib.sha256(template.encode()).hexdigest()[:8] if template else "none"
        # Of the most probable token each time; the words are those under which answers were recorded.
        self.id = f"local({name},max_tokens={max_tokens},temperature=0,seed=0,chat={digest})"
        self._marks = control_tokens(tokenizer)
        self._lock = threading.Lock()

    def complete(self, messages: Messages) -> Reply:
        """Return the answer, with the most probable alternatives of its first token.

        Raises:
            InputError: the messages and the answer do not fit into the model's context.
        """
        import torch

        ids = torch.tensor([self.token_ids(messages)], device=self.model.device)
        room = getattr(self.model.config, "max_position_embeddings", None)
        if room is not None and ids.shape[1] + self.max_tokens > room:
            raise InputError(
                f"{ids.shape[1]} tokens of messages and {self.max_tokens} of answer do not fit into the {room} tokens "
                f"that {self.id} can read; give it fewer or shorter passages"
            )
        settings = self._settings()
        with self._lock, torch.inference_mode():
            out = self.model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=settings)
        said = out.sequences[0, ids.shape[1] :].tolist()
        finish = "stop" if said[-1] in settings.eos_token_id else "length"
        best = torch.log_softmax(out.logits[0][0].double(), dim=-1).topk(min(_ALTERNATIVES, out.logits[0].shape[1]))
        first = tuple((self.tokenizer.decode([int(i)]), float(p)) for p, i in zip(*best, strict=True))
        answer = self.tokenizer.decode(said, skip_special_tokens=True)
        return Reply(answer.strip(), first, finish, ids.shape[1], len(said))

    def token_ids(self, messages: Messages) -> list[int]:
        """Return what the model reads; marks of the model's own in the messages are made plain text."""
        plain = [{**m, "content": defuse(m["content"], self._marks)} for m in messages]
        ids: list[int]
        if not self.tokenizer.chat_template:
            ids = self.tokenizer("\n\n".join(m["content"] for m in plain))["input_ids"]
            return ids
        templated = partial(self.tokenizer.apply_chat_template, tokenize=False, add_generation_prompt=True)
        try:
            text = templated(plain)
        except Exception as error:
            # Some templates (Mistral's, Gemma's) refuse a system turn: its text then opens the first user turn.
            refused = any(word in str(error).lower() for word in ("system", "alternate"))
            if not refused or len(plain) < 2 or plain[0]["role"] != "system":
                raise
            opening = {**plain[1], "content": f"{plain[0]['content']}\n\n{plain[1]['content']}"}
            text = templated([opening, *plain[2:]])
        # The template has written the opening token already.
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _settings(self) -> Any:
        """Return all settings that bear on the answer, so that none comes from the checkpoint's own defaults."""
        from transformers import GenerationConfig

        own = self.model.generation_config.eos_token_id
        own = self.tokenizer.eos_token_id if own is None else own
        ends = own if isinstance(own, list) else [own]
        return GenerationConfig(
            max_new_tokens=self.max_tokens,
            do_sample=False,
            num_beams=1,
            repetition_penalty=1.0,
            eos_token_id=ends,
            pad_token_id=ends[0],
            return_dict_in_generate=True,
            output_logits=True,
        )
