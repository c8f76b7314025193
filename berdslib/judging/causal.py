"""A causal language model as judge: one forward pass, P(Yes) from the logits of the answer position.

The model reads the common start of all prompts once, and so the common start of the prompts about one document.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from berdslib.errors import InputError, MissingDataError
from berdslib.judging.base import Pair, document_text
from berdslib.llm.prompting import Prompt, load_prompt, templated_ids
from berdslib.llm.untrusted import control_tokens, defuse, defuse_tag, one_line
from berdslib.models.loading import (
    WeightsMark,
    checkpoint_mark,
    folder_mark,
    language_model_numbers,
    load_model,
    load_weights,
    number_format_mark,
    padded,
    read_tokenizer,
    with_adapter,
)

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

_NEEDS = ("document", "statement")
LEAST_SHARE = 0.5  # least share of all probability that Yes and No should have together
# Template variables that switch thinking off: Qwen, GLM and SmolLM; Granite and DeepSeek; Command.
_NO_THOUGHTS = {"enable_thinking": False, "thinking": False, "reasoning": False}
# Marks around thoughts: <think>, </thinking>, <|START_THINKING|>, [THINK], <seed:think>, ◁think▷, <|inner_prefix|>, and
# channels such as <|channel|>analysis or <|channel>thought … <channel|>.
_THOUGHT = re.compile(
    r"[<\[◁][^<>\[\]◁▷\s]{0,30}?(?:think|thought|reason|reflect|analysis|scratchpad|inner_)[^<>\[\]◁▷\s]{0,30}[>\]▷]"
    r"|<\|?channel\|?>[ \t]*\w*",
    re.IGNORECASE,
)
_THOUGHT_BEGINS = re.compile(
    r"(?!.*(?:/|end|stop|close|suffix|no_?think)).*(?:think|thought|reason|reflect|analysis|scratch|inner_)", re.I
)
TRAINED_BY = "prompt.txt"  # holds the prompt of the training, as in a judge's id, beside the weights
_TRAINED_BY = {"Mistral_BERDS_evaluator": "perspective_detection/published:"}
_SPELLINGS = {"yes": ("Yes", " Yes", "yes", " yes", "YES", " YES"), "no": ("No", " No", "no", " no", "NO", " NO")}


class Causal:
    """Asks a causal model whether a document supports a statement; P = softmax over the Yes and No tokens.

    `name` stands for the model in the id, adapter included; `prompt` None is ours; `chat` None uses the tokenizer's
    chat template if it has one; a prompt longer than `max_length` tokens has its document truncated; `batch_tokens`
    count padding. Thinking is switched off; a model whose template still begins a thought is refused. A warning is
    logged if Yes and No have less than `least_share` of the probability of all tokens.

    Raises:
        InputError: no token for Yes or No, or a chat template that fails or begins a thought.
    """

    threshold = 0.5

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        *,
        prompt: Prompt | None = None,
        chat: bool | None = None,
        max_length: int = 2048,
        title_position: str = "after",
        batch_tokens: int = 8192,
        reuse_prefix: bool = True,
        least_share: float = LEAST_SHARE,
        loaded: bool = False,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.batch_tokens = batch_tokens
        self.reuse_prefix = reuse_prefix
        self.prompt = prompt or load_prompt("perspective_detection", needs=_NEEDS)
        self.chat = bool(getattr(tokenizer, "chat_template", None)) if chat is None else chat
        self.max_length = max_length
        self.title_position = title_position
        self.name = name
        self.least_share = least_share
        self._weights = WeightsMark(model, named=loaded)
        self._marks = control_tokens(tokenizer)
        self._yes = answer_tokens(tokenizer, "yes")
        self._no = answer_tokens(tokenizer, "no")
        self.shares: list[float] = []  # for each judged pair, the probability of Yes and No
        self._thoughts_off = self.chat and _without_thoughts(tokenizer)

    @property
    def id(self) -> str:
        """Names everything that the answers depend on now: the model can be trained, and the prompt replaced."""
        template = hashlib.sha256(str(self.tokenizer.chat_template).encode()).hexdigest()[:8] if self.chat else "none"
        thoughts = ",thinking=off" if self._thoughts_off else ""
        shots = len(self.prompt.example) // 2
        return (
            f"causal({self.name}{self._weights.of(self.model)},prompt={self.prompt.name}:{self.prompt.hash},shots={shots},"
            f"chat={template}{thoughts},max_length={self.max_length},title={self.title_position})"
        )

    def token_ids(self, pair: Pair) -> list[int]:
        """Return the prompt of a pair as token ids, with the document truncated to fit."""
        statement = self._sanitize(one_line(pair.perspective))
        document = self._sanitize(document_text(pair.passage, self.title_position))
        ids = self._encode(document, statement)
        if len(ids) <= self.max_length:
            return ids
        room = self.max_length - len(self._encode("", statement))
        if room < 1:
            raise InputError(f"max_length {self.max_length} leaves no room for a document next to the instruction")
        spans = self.tokenizer(document, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        # A truncated document can be tokenised differently, so the length is checked again.
        while len(ids) > self.max_length:
            end = spans[min(room, len(spans)) - 1][1] if room > 0 else 0
            ids = self._encode(document[:end], statement)
            room -= max(1, len(ids) - self.max_length)
        return ids

    def _encode(self, document: str, statement: str) -> list[int]:
        if self.chat:
            messages = self.prompt.messages(document=document, statement=statement)
            return templated_ids(self.tokenizer, messages, **_NO_THOUGHTS)
        user = self.prompt.fill(document=document, statement=statement)
        parts = [self.prompt.system, " ".join(self.prompt.example), user]
        ids: list[int] = self.tokenizer("\n\n".join(part for part in parts if part))["input_ids"]
        return ids

    def _sanitize(self, text: str) -> str:
        return defuse(defuse_tag(text, "document"), self._marks)

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), the probability of Yes."""
        return self.answers(pairs)[:, 0]

    def answers(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n, 1), the probability of Yes; a subclass may add columns."""
        prompts = [self.token_ids(pair) for pair in pairs]
        opening = self._opening(prompts)
        order: list[int] = []
        answers = [np.empty((0, 1))]
        for batch in self._batches(prompts, pairs):
            order += itertools.chain.from_iterable(batch)
            answers.append(self._judge_batch([[prompts[i] for i in group] for group in batch], opening))
            self._warn_of_low_shares()
        found = np.concatenate(answers[1:] or answers)
        return found[np.argsort(order)]

    def _warn_of_low_shares(self) -> None:
        """Warn, once, if the model would rarely answer Yes or No: their ratio then means little."""
        share = float(np.mean(self.shares))
        if share < self.least_share:
            finding = (
                "%s: Yes and No have %.2g %% of the probability of all tokens, over %d pairs; %.0f %% are expected"
            )
            hint = (
                "Such answers mean little: the model may need its chat template or another prompt, or may think first"
            )
            logger.warning(f"{finding}. {hint}", self.name, 100 * share, len(self.shares), 100 * self.least_share)
            self.least_share = 0.0

    def _opening(self, prompts: Sequence[list[int]]) -> tuple[torch.Tensor, Any] | None:
        """Return the mask and the cache of the common start of all prompts, less a token; None if there is none."""
        import torch

        shared = common_start(prompts) - 1 if self.reuse_prefix and len(prompts) > 1 else 0
        if shared < 1:
            return None
        with torch.inference_mode():
            return self._forward([prompts[0][:shared]], use_cache=True)[1:]

    def _batches(self, prompts: Sequence[list[int]], pairs: Sequence[Pair]) -> Iterator[list[list[int]]]:
        """Yield batches of groups of prompt numbers: a group is about one document, a batch has similar lengths."""

        def width(group: list[int]) -> int:
            return max(len(prompts[i]) for i in group)

        batch: list[list[int]] = []
        # The largest comes first, so that a lack of memory shows at once.
        for group in sorted(self._groups(prompts, pairs), key=width, reverse=True):
            prompts_in_all = sum(map(len, batch)) + len(group)
            if batch and width(batch[0]) * prompts_in_all > self.batch_tokens:
                yield batch
                batch = []
            batch.append(group)
        if batch:
            yield batch

    def _groups(self, prompts: Sequence[list[int]], pairs: Sequence[Pair]) -> list[list[int]]:
        """Group prompts about one document, as many as fit into a batch; without reuse, each is a group."""
        by_document: dict[object, list[int]] = {}
        for i, pair in enumerate(pairs):
            document = (pair.passage.title, pair.passage.text) if self.reuse_prefix else i
            by_document.setdefault(document, []).append(i)
        groups = []
        for rows in by_document.values():
            longest = max(len(prompts[i]) for i in rows)
            size = max(1, self.batch_tokens // longest)
            groups += [rows[start : start + size] for start in range(0, len(rows), size)]
        return groups

    def _judge_batch(self, groups: list[list[list[int]]], opening: tuple[torch.Tensor, Any] | None) -> np.ndarray:
        import torch

        shared = [common_start(group) if len(group) > 1 else 0 for group in groups]
        with torch.inference_mode():
            if any(shared):
                logits = self._logits_reusing(groups, shared, opening)
            else:
                logits, _, _ = self._behind(opening, [ids for group in groups for ids in group])
            logits = logits.double()
            yes = logits[:, self._yes].logsumexp(dim=1)
            no = logits[:, self._no].logsumexp(dim=1)
            shares = torch.exp(torch.logaddexp(yes, no) - logits.logsumexp(dim=1))
            self.shares += shares.tolist()
            return torch.sigmoid(yes - no)[:, None].cpu().numpy()

    def _logits_reusing(
        self, groups: list[list[list[int]]], shared: list[int], opening: tuple[torch.Tensor, Any] | None
    ) -> torch.Tensor:
        """Return the last logits of all prompts; the common start of a group is read once."""
        import torch

        # A group of one prompt shares nothing: the first pass reads all but its last token.
        starts = [group[0][:length] if length else group[0][:-1] for group, length in zip(groups, shared, strict=True)]
        _, mask, cache = self._behind(opening, starts)
        group_of = torch.tensor([i for i, group in enumerate(groups) for _ in group], device=mask.device)
        cache.batch_select_indices(group_of)
        rests = [ids[len(start) :] for start, group in zip(starts, groups, strict=True) for ids in group]
        return self._forward(rests, mask[group_of], past_key_values=cache, use_cache=True)[0]

    def _behind(self, opening: tuple[torch.Tensor, Any] | None, rows: list[list[int]]) -> tuple[torch.Tensor, Any, Any]:
        """Return :meth:`_forward` of whole rows that begin with the opening, which has been read."""
        if opening is None:
            return self._forward(rows, use_cache=True)
        mask = opening[0].expand(len(rows), -1)
        cache = copy.deepcopy(opening[1])  # a forward pass extends a cache
        cache.batch_repeat_interleave(len(rows))
        return self._forward([row[mask.shape[1] :] for row in rows], mask, past_key_values=cache, use_cache=True)

    def _forward(
        self, rows: list[list[int]], before: torch.Tensor | None = None, *, use_cache: bool = False, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor, Any]:
        """Return the last logits, the mask and the cache of a pass over rows of tokens that follow a cached start."""
        import torch

        ids, mask = (tensor.to(self.model.device) for tensor in padded(rows))
        mask = mask if before is None else torch.cat([before, mask], dim=1)
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        options |= {"use_cache": use_cache, "logits_to_keep": 1}
        out = self.model(input_ids=ids, attention_mask=mask, position_ids=positions, **options)
        return out.logits[:, -1], mask, out.past_key_values


def load_causal(
    checkpoint: str,
    *,
    adapter: str = "",
    four_bit: bool = False,
    wording: str = "ours",
    make: Callable[..., Causal] = Causal,
    **options: Any,
) -> Causal:
    """Load a causal judge, with a LoRA `adapter` or without, from the Hugging Face cache, a folder, or the hub.

    `checkpoint` may be "smollm2" or "qwen-coder", which come in packages; `four_bit` loads the weights by bitsandbytes
    (NormalFloat); `wording` is one of :func:`~berdslib.llm.prompting.wordings`; `make` and its `options` are those of
    :class:`Causal`, or of a subclass.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    prompt = load_prompt("perspective_detection", wording, _NEEDS)
    for trained in filter(None, (checkpoint, adapter)):
        _tell_other_wording(trained, prompt)
    tokenizer = load_model(checkpoint, partial(read_tokenizer, AutoTokenizer, checkpoint))
    dtype = language_model_numbers(checkpoint)
    model = load_weights(AutoModelForCausalLM, checkpoint, "4bit" if four_bit else "float32", dtype=dtype)
    if adapter:
        # Merged weights would be rounded to 4 bits again, which loses most of a small adapter; so it stays separate.
        model = with_adapter(model, adapter_folder(adapter), checkpoint, merge=not four_bit)
    # Another state is another judge. An adapter's own mark is enough, as the model is named beside it.
    marked = [checkpoint + checkpoint_mark(checkpoint)]
    marked += [adapter + (folder_mark(adapter) or checkpoint_mark(adapter))] if adapter else []
    name = "+".join(marked + ["4bit-nf4"] * four_bit)
    return make(model, tokenizer, name + number_format_mark(dtype), prompt=prompt, loaded=True, **options)


def _tell_other_wording(trained: str, prompt: Prompt) -> None:
    """Warn of weights that were trained with another prompt than the one they will judge with."""
    note = Path(trained) / TRAINED_BY
    used = f"{prompt.name}:{prompt.hash}"
    own = note.read_text(encoding="utf-8") if note.is_file() else _TRAINED_BY.get(Path(trained).name, "")
    if not used.startswith(own):
        logger.warning("%s was trained with the prompt %s but judges with %s", trained, own.rstrip(":"), used)


def adapter_folder(adapter: str) -> Path:
    """Return the folder of a LoRA adapter: the named one, or the cached download from the hub."""
    from huggingface_hub import snapshot_download

    def find(local: bool) -> Path:
        own = Path(adapter).is_dir()
        folder = adapter if own else snapshot_download(adapter, local_files_only=local, allow_patterns=["adapter_*"])
        if any(Path(folder).glob("adapter_model.*")):
            return Path(folder)
        problem = f"{folder} has no adapter_model file, so it is not a LoRA adapter"
        # load_model tries again after an OSError, since an interrupted download can be resumed.
        raise MissingDataError(problem) if own else OSError(problem)

    return load_model(adapter, find)


def _without_thoughts(tokenizer: Any) -> bool:
    """Return whether a chat template leaves thoughts out only when it is told to.

    Raises:
        InputError: the template fails, or begins a thought although it is told not to.
    """
    question = "QUESTION"
    messages = [{"role": "user", "content": question}]
    write = partial(tokenizer.apply_chat_template, messages, tokenize=False, add_generation_prompt=True)
    try:
        usual = write()
        without = write(**_NO_THOUGHTS)
    except Exception as error:  # a template is a program in the checkpoint, which may raise anything
        problem = f"the model's chat template fails ({type(error).__name__}: {error})"
        raise InputError(problem, field="chat_template") from error
    marks = _THOUGHT.findall(without.rpartition(question)[2])
    if marks and _THOUGHT_BEGINS.match(marks[-1]):
        problem = f"the model's chat template begins a thought ({marks[-1]}) before the answer"
        hint = "judge with chat:, which reads the answer after the thought, or use a model that answers at once"
        raise InputError(f"{problem}; {hint}", field="chat_template")
    return bool(usual != without)


def answer_tokens(tokenizer: Any, answer: str) -> list[int]:
    """Return the ids of all single tokens for the answer ("yes" or "no"), with and without a leading space."""
    spellings = [tokenizer(spelling, add_special_tokens=False)["input_ids"] for spelling in _SPELLINGS[answer]]
    single = {ids[0] for ids in spellings if len(ids) == 1} - {tokenizer.unk_token_id}
    if not single:
        problem = f"the tokenizer has no single token for {answer.title()!r}, whose logit would be the answer"
        raise InputError(problem)
    return sorted(single)


def common_start(rows: Sequence[list[int]]) -> int:
    """Return the length of the common start of all rows, which leaves at least one token of each row."""
    shortest = min(map(len, rows)) - 1
    first = min(rows)
    last = max(rows)  # in lexical order these two differ first
    n = next((i for i in range(shortest) if first[i] != last[i]), shortest)
    return max(n, 0)
