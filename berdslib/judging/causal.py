"""A causal language model as judge: one forward pass, P(Yes) from the logits of the answer position.

What all prompts begin with, and what those of pairs with one document share, goes through the model once.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import logging
import re
from collections.abc import Iterator, Sequence
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
LEAST_SHARE = 0.5  # of the probability of all words that Yes and No should have together
# How templates are told to leave thoughts out: Qwen, GLM and SmolLM; Granite and DeepSeek; Command.
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
TRAINED_BY = "prompt.txt"  # beside weights that were trained here: the prompt, as in a judge's id
_TRAINED_BY = {"Mistral_BERDS_evaluator": "perspective_detection/published:"}
_SPELLINGS = {"yes": ("Yes", " Yes", "yes", " yes", "YES", " YES"), "no": ("No", " No", "no", " no", "NO", " NO")}


class Causal:
    """Asks a causal model whether a document supports a statement; P = softmax over the Yes and No tokens.

    `name` is what the id calls the model, adapter included; `prompt` None is ours; `chat` None uses the tokenizer's
    chat template where it has one; of a prompt longer than `max_length` tokens the document is cut; `batch_tokens`
    count padding. A model that thinks first is asked not to, and refused if its template begins a thought
    nevertheless. Where Yes and No have less than `least_share` of the probability of all words, a warning says so.

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
        self.model, self.tokenizer, self.batch_tokens, self.reuse_prefix = model, tokenizer, batch_tokens, reuse_prefix
        self.prompt = prompt or load_prompt("perspective_detection", needs=_NEEDS)
        self.chat = bool(getattr(tokenizer, "chat_template", None)) if chat is None else chat
        self.max_length, self.title_position = max_length, title_position
        self.name, self.least_share = name, least_share
        self._weights = WeightsMark(model, named=loaded)
        self._marks = control_tokens(tokenizer)
        self._yes, self._no = answer_tokens(tokenizer, "yes"), answer_tokens(tokenizer, "no")
        self.shares: list[float] = []  # of Yes and No, for each pair that was read
        self._thoughts_off = self.chat and _without_thoughts(tokenizer)

    @property
    def id(self) -> str:
        """Names everything that the answers depend on, as it is now: a model can be trained, its prompt replaced."""
        template = hashlib.sha256(str(self.tokenizer.chat_template).encode()).hexdigest()[:8] if self.chat else "none"
        thoughts = ",thinking=off" if self._thoughts_off else ""
        shots = len(self.prompt.example) // 2
        return (
            f"causal({self.name}{self._weights.of(self.model)},prompt={self.prompt.name}:{self.prompt.hash},shots={shots},"
            f"chat={template}{thoughts},max_length={self.max_length},title={self.title_position})"
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
            asked = self.prompt.messages(document=document, statement=statement)
            return templated_ids(self.tokenizer, asked, **_NO_THOUGHTS)
        user = self.prompt.fill(document=document, statement=statement)
        parts = [self.prompt.system, " ".join(self.prompt.example), user]
        ids: list[int] = self.tokenizer("\n\n".join(p for p in parts if p))["input_ids"]
        return ids

    def _sanitize(self, text: str) -> str:
        return defuse(defuse_tag(text, "document"), self._marks)

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), the probability of Yes."""
        prompts = [self.token_ids(p) for p in pairs]
        found = np.empty(len(pairs), dtype=np.float64)
        opening = self._opening(prompts)
        for batch in self._batches(prompts, pairs):
            rows = list(itertools.chain.from_iterable(batch))
            found[rows] = self._judge_batch([[prompts[i] for i in group] for group in batch], opening)
            self._look_at_shares()
        return found

    def _look_at_shares(self) -> None:
        """Warn, once, where Yes and No are hardly what the model would write: their proportion then means nothing."""
        share = float(np.mean(self.shares))
        if share < self.least_share:
            said = "%s: Yes and No have %.2g %% of the probability of all words, over %d pairs; %.0f %% are expected"
            hint = "Such answers mean little: the model may need its chat template, another prompt, or think first"
            logger.warning(f"{said}. {hint}", self.name, 100 * share, len(self.shares), 100 * self.least_share)
            self.least_share = 0.0

    def _opening(self, prompts: Sequence[list[int]]) -> tuple[torch.Tensor, Any] | None:
        """Return the mask and the cache of what all prompts begin with, less a token; None where that is nothing."""
        import torch

        shared = common_start(prompts) - 1 if self.reuse_prefix and len(prompts) > 1 else 0
        if shared < 1:
            return None
        with torch.inference_mode():
            return self._forward([prompts[0][:shared]], use_cache=True)[1:]

    def _batches(self, prompts: Sequence[list[int]], pairs: Sequence[Pair]) -> Iterator[list[list[int]]]:
        """Yield batches of groups of prompt numbers; a group is about one document, lengths in a batch are alike."""

        def width(group: list[int]) -> int:
            return max(len(prompts[i]) for i in group)

        batch: list[list[int]] = []
        # The largest first: too big fails at once.
        for group in sorted(self._groups(prompts, pairs), key=width, reverse=True):
            if batch and width(batch[0]) * (sum(map(len, batch)) + len(group)) > self.batch_tokens:
                yield batch
                batch = []
            batch.append(group)
        if batch:
            yield batch

    def _groups(self, prompts: Sequence[list[int]], pairs: Sequence[Pair]) -> list[list[int]]:
        """Put prompts about one document together, as many as fit into a batch; one by one without reuse."""
        by_document: dict[object, list[int]] = {}
        for i, pair in enumerate(pairs):
            document = (pair.passage.title, pair.passage.text) if self.reuse_prefix else i
            by_document.setdefault(document, []).append(i)
        groups = []
        for rows in by_document.values():
            size = max(1, self.batch_tokens // max(len(prompts[i]) for i in rows))
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
            yes, no = (logits[:, tokens].logsumexp(dim=1) for tokens in (self._yes, self._no))
            self.shares += torch.exp(torch.logaddexp(yes, no) - logits.logsumexp(dim=1)).tolist()
            return torch.sigmoid(yes - no).cpu().numpy()

    def _logits_reusing(
        self, groups: list[list[list[int]]], shared: list[int], opening: tuple[torch.Tensor, Any] | None
    ) -> torch.Tensor:
        """Return what :meth:`_forward` would of all prompts, having read once what those of a group begin with."""
        import torch

        # A group of one has no shared part of its own: all but its last token go in the first pass.
        starts = [g[0][:n] if n else g[0][:-1] for g, n in zip(groups, shared, strict=True)]
        _, mask, cache = self._behind(opening, starts)
        owner = torch.tensor([i for i, g in enumerate(groups) for _ in g], device=mask.device)
        cache.batch_select_indices(owner)
        rests = [ids[len(start) :] for start, group in zip(starts, groups, strict=True) for ids in group]
        return self._forward(rests, mask[owner], past_key_values=cache, use_cache=True)[0]

    def _behind(self, opening: tuple[torch.Tensor, Any] | None, rows: list[list[int]]) -> tuple[torch.Tensor, Any, Any]:
        """Return :meth:`_forward` of whole rows, of which the opening has been read."""
        if opening is None:
            return self._forward(rows, use_cache=True)
        mask, cache = opening[0].expand(len(rows), -1), copy.deepcopy(opening[1])  # a pass adds to a cache
        cache.batch_repeat_interleave(len(rows))
        return self._forward([row[mask.shape[1] :] for row in rows], mask, past_key_values=cache, use_cache=True)

    def _forward(
        self, rows: list[list[int]], before: torch.Tensor | None = None, *, use_cache: bool = False, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor, Any]:
        """Return the last logits, the mask and the cache of a pass over rows of tokens, behind those of a cache."""
        import torch

        ids, mask = (one.to(self.model.device) for one in padded(rows))
        mask = mask if before is None else torch.cat([before, mask], dim=1)
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        options |= {"use_cache": use_cache, "logits_to_keep": 1}
        out = self.model(input_ids=ids, attention_mask=mask, position_ids=positions, **options)
        return out.logits[:, -1], mask, out.past_key_values


def load_causal(
    checkpoint: str, *, adapter: str = "", four_bit: bool = False, wording: str = "ours", **options: Any
) -> Causal:
    """Load a causal judge, with a LoRA `adapter` or without, from the Hugging Face cache, a folder, or the hub.

    `checkpoint` may be "smollm2", which comes in a package; `four_bit` loads the weights by bitsandbytes (NormalFloat);
    `wording` is one of :func:`~berdslib.llm.prompting.wordings`; `options` are those of :class:`Causal`.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    prompt = load_prompt("perspective_detection", wording, _NEEDS)
    for trained in filter(None, (checkpoint, adapter)):
        _tell_other_wording(trained, prompt)
    tokenizer = load_model(checkpoint, partial(read_tokenizer, AutoTokenizer, checkpoint))
    dtype = language_model_numbers()
    model = load_weights(AutoModelForCausalLM, checkpoint, "4bit" if four_bit else "float32", dtype=dtype)
    if adapter:
        # Merged weights would be rounded to 4 bits anew, most of a small adapter with them; so it stays beside them.
        model = with_adapter(model, adapter_folder(adapter), checkpoint, merge=not four_bit)
    # Another state is another judge. An adapter's own mark is enough, as the model is named beside it.
    marked = [checkpoint + checkpoint_mark(checkpoint)]
    marked += [adapter + (folder_mark(adapter) or checkpoint_mark(adapter))] if adapter else []
    name = "+".join(marked + ["4bit-nf4"] * four_bit)
    return Causal(model, tokenizer, name + number_format_mark(dtype), prompt=prompt, loaded=True, **options)


def _tell_other_wording(trained: str, prompt: Prompt) -> None:
    """Warn of weights that were trained with another prompt than they are asked by."""
    note, asked = Path(trained) / TRAINED_BY, f"{prompt.name}:{prompt.hash}"
    own = note.read_text(encoding="utf-8") if note.is_file() else _TRAINED_BY.get(Path(trained).name, "")
    if not asked.startswith(own):
        logger.warning("%s was trained with the prompt %s and is asked by %s", trained, own.rstrip(":"), asked)


def adapter_folder(adapter: str) -> Path:
    """Return the folder that holds a LoRA adapter: the one named, or the cache's copy of the hub's."""
    from huggingface_hub import snapshot_download

    def find(local: bool) -> Path:
        own = Path(adapter).is_dir()
        fetched = adapter if own else snapshot_download(adapter, local_files_only=local, allow_patterns=["adapter_*"])
        if any(Path(fetched).glob("adapter_model.*")):
            return Path(fetched)
        problem = f"{fetched} holds no adapter_model file, so no LoRA adapter"
        # A download that broke off can be taken up again; a folder of the user's is what it is.
        raise MissingDataError(problem) if own else OSError(problem)

    return load_model(adapter, find)


def _without_thoughts(tokenizer: Any) -> bool:
    """Return whether a chat template leaves thoughts out when it is asked to, and writes them otherwise.

    Raises:
        InputError: the template fails, or ends inside a thought even so.
    """
    asked, question = [{"role": "user", "content": "QUESTION"}], "QUESTION"
    write = partial(tokenizer.apply_chat_template, asked, tokenize=False, add_generation_prompt=True)
    try:
        usual, without = write(), write(**_NO_THOUGHTS)
    except Exception as error:  # a template is a program of the checkpoint's, and raises what it likes
        raise InputError(f"its chat template fails ({type(error).__name__}: {error})", field="chat_template") from error
    marks = _THOUGHT.findall(without.rpartition(question)[2])
    if marks and _THOUGHT_BEGINS.match(marks[-1]):
        problem = f"its chat template begins a thought ({marks[-1]}) where Yes or No is read off"
        hint = "judge with chat:, which reads the answer behind the thought, or take a model that answers at once"
        raise InputError(f"{problem}; {hint}", field="chat_template")
    return bool(usual != without)


def answer_tokens(tokenizer: Any, answer: str) -> list[int]:
    """Return the ids of all single tokens that spell the answer ("yes" or "no"), with and without a blank before it."""
    spelt = [tokenizer(spelling, add_special_tokens=False)["input_ids"] for spelling in _SPELLINGS[answer]]
    found = sorted({ids[0] for ids in spelt if len(ids) == 1} - {tokenizer.unk_token_id})
    if not found:
        problem = f"the tokenizer has no single token for {answer.title()!r}; this model cannot be read by logits"
        raise InputError(problem)
    return found


def common_start(rows: Sequence[list[int]]) -> int:
    """Return how many first tokens all rows share, leaving each row at least one token of its own."""
    shortest = min(map(len, rows)) - 1
    first, last = min(rows), max(rows)  # in lexical order these two differ first
    n = next((i for i in range(shortest) if first[i] != last[i]), shortest)
    return max(n, 0)
