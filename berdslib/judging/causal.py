"""A causal language model as judge: one forward pass, P(Yes) from the logits of the answer position.

The perspectives of a question are judged against the same documents, so pairs that share a document share the first
part of their prompt. That part goes through the model once; its keys and values are reused for every perspective.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from berdslib.data.fetching import load_model
from berdslib.errors import InputError
from berdslib.judging.judges import Pair, document_text
from berdslib.judging.untrusted import defuse
from berdslib.llm.prompting import Prompt, load_prompt

if TYPE_CHECKING:
    import torch

NEEDS = ("document", "statement")
# What chat models take for the start or end of a turn, whether or not the tokenizer in use knows it.
_TURN_MARKS = ("<|im_start|>", "<|im_end|>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "<|eot_id|>", "<|user|>",
               "<|assistant|>", "<|system|>", "<s>", "</s>")  # fmt: skip
_SPELLINGS = {"yes": ("Yes", " Yes", "yes", " yes", "YES", " YES"), "no": ("No", " No", "no", " no", "NO", " NO")}


class Work(NamedTuple):
    """What a judging call cost: prompts, tokens in all prompts, tokens that went through the model."""

    prompts: int
    tokens: int
    computed: int


class Causal:
    """Asks a causal model whether a document supports a statement; P = softmax over the Yes and No tokens.

    Args:
        model: a loaded causal LM (see :func:`load_causal` for loading by name).
        tokenizer: its tokenizer (a fast one).
        name: what the judge's id calls the model, adapter included.
        prompt: the wording.
        shots: 0, or 1 for an example before the question (BeRDS Table 14, bottom).
        chat: use the tokenizer's chat template; None where it has one.
        max_length: tokens a prompt may have; longer documents are cut at their end, statement and instruction never.
        batch_tokens: tokens per forward pass, padding included.
        reuse_prefix: compute the shared part of prompts once.
        title_position: see :func:`berdslib.judging.judges.document_text`.

    Raises:
        InputError: the vocabulary has no token for Yes or No, or an unusable argument.
    """

    threshold = 0.5

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        *,
        prompt: Prompt | None = None,
        shots: int = 0,
        chat: bool | None = None,
        max_length: int = 2048,
        batch_tokens: int = 8192,
        reuse_prefix: bool = True,
        title_position: str = "after",
    ) -> None:
        if shots not in (0, 1):
            raise InputError(f"shots must be 0 or 1, not {shots}")
        self.model, self.tokenizer = model, tokenizer
        self.prompt = prompt or load_prompt("perspective_detection", needs=NEEDS)
        self.chat = bool(getattr(tokenizer, "chat_template", None)) if chat is None else chat
        self.max_length, self.batch_tokens, self.reuse_prefix = max_length, batch_tokens, reuse_prefix
        self.title_position = title_position
        self._example = _read_example() if shots else None
        self._yes, self._no = answer_tokens(tokenizer, "yes"), answer_tokens(tokenizer, "no")
        self.work = Work(0, 0, 0)
        template = _digest(tokenizer.chat_template) if self.chat else "none"
        self.id = (
            f"causal({name},prompt={self.prompt.name}:{self.prompt.hash},shots={shots},chat={template},"
            f"max_length={max_length},title={title_position})"
        )

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), the probability of Yes; what it cost is added to ``work``."""
        prompts = [self.token_ids(p) for p in pairs]
        found = np.empty(len(pairs), dtype=np.float64)
        documents = [(p.passage.title, p.passage.text) for p in pairs]
        for batch in self._batches(prompts, documents):
            rows = list(itertools.chain.from_iterable(batch))
            found[rows] = self._judge_batch([[prompts[i] for i in group] for group in batch])
        return found

    # ------------------------------------------------------------ prompts

    def token_ids(self, pair: Pair) -> list[int]:
        """Return the prompt of a pair as token ids, the document cut so that all of it fits."""
        statement = self._harmless(pair.perspective)
        document = self._harmless(document_text(pair.passage, self.title_position))
        ids = self._encode(document, statement)
        if len(ids) <= self.max_length:
            return ids
        room = self.max_length - len(self._encode("", statement))
        if room < 1:
            raise InputError(f"max_length {self.max_length} leaves no room for a document beside the instruction")
        spans = self.tokenizer(document, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        # Cutting at a token's end can change how the rest is cut into tokens, so the fit is checked, not assumed.
        while len(ids) > self.max_length:
            end = spans[min(room, len(spans)) - 1][1] if room > 0 else 0
            ids = self._encode(document[:end], statement)
            room -= max(1, len(ids) - self.max_length)
        return ids

    def _encode(self, document: str, statement: str) -> list[int]:
        user = self.prompt.fill(document=document, statement=statement)
        if self._example:
            example_document, example_statement, answer = self._example
            shown = self.prompt.fill(document=example_document, statement=example_statement)
        if self.chat:
            messages = [{"role": "user", "content": user}]
            if self._example:
                turns = [{"role": "user", "content": shown}, {"role": "assistant", "content": answer}]
                messages = turns + messages
            return self._encode_chat(messages)
        parts = [self.prompt.system, f"{shown} {answer}" if self._example else "", user]
        ids: list[int] = self.tokenizer("\n\n".join(p for p in parts if p))["input_ids"]
        return ids

    def _encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        system = [{"role": "system", "content": self.prompt.system}] if self.prompt.system else []
        try:
            text = self.tokenizer.apply_chat_template(system + messages, tokenize=False, add_generation_prompt=True)
        except Exception as error:
            # Some templates (Mistral's, Gemma's) refuse a system turn: its text then opens the first user turn.
            if not system or not any(word in str(error).lower() for word in ("system", "alternate")):
                raise
            first = {"role": "user", "content": f"{self.prompt.system}\n\n{messages[0]['content']}"}
            text = self.tokenizer.apply_chat_template(
                [first, *messages[1:]], tokenize=False, add_generation_prompt=True
            )
        # The template has written the opening token already; a second one would be DIVERGENCES B8.
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _harmless(self, text: str) -> str:
        return defuse(text, [*self.tokenizer.all_special_tokens, *_TURN_MARKS, "<document>", "</document>"])

    # ------------------------------------------------------------ batches

    def _batches(self, prompts: Sequence[list[int]], documents: Sequence[tuple[str, str]]) -> Iterator[list[list[int]]]:
        """Yield batches of groups of prompt numbers; a group is about one document, lengths in a batch are alike."""
        groups = self._groups(prompts, documents)
        longest = {id(group): max(len(prompts[i]) for i in group) for group in groups}
        groups.sort(key=lambda g: longest[id(g)], reverse=True)  # the largest first: too big fails at once
        batch: list[list[int]] = []
        for group in groups:
            width = longest[id(batch[0] if batch else group)]
            if batch and width * (sum(map(len, batch)) + len(group)) > self.batch_tokens:
                yield batch
                batch = []
            batch.append(group)
        if batch:
            yield batch

    def _groups(self, prompts: Sequence[list[int]], documents: Sequence[tuple[str, str]]) -> list[list[int]]:
        """Put prompts about one document together, as many as fit into a batch; one by one without reuse."""
        if not self.reuse_prefix:
            return [[i] for i in range(len(prompts))]
        by_document: dict[tuple[str, str], list[int]] = {}
        for i, document in enumerate(documents):
            by_document.setdefault(document, []).append(i)
        groups = []
        for rows in by_document.values():
            size = max(1, self.batch_tokens // max(len(prompts[i]) for i in rows))
            groups += [rows[start : start + size] for start in range(0, len(rows), size)]
        return groups

    def _judge_batch(self, groups: list[list[list[int]]]) -> np.ndarray:
        import torch

        prompts = [ids for group in groups for ids in group]
        shared = [_common_start(group) if len(group) > 1 else 0 for group in groups]
        with torch.inference_mode():
            if not any(shared):
                logits = self._last_logits(prompts)
                computed = sum(map(len, prompts))
            else:
                logits = self._last_logits_reusing(groups, shared)
                computed = sum(n + sum(len(ids) - n for ids in g) for g, n in zip(groups, shared, strict=True))
        self.work = Work(
            self.work.prompts + len(prompts),
            self.work.tokens + sum(map(len, prompts)),
            self.work.computed + computed,
        )
        logits = logits.double()
        yes = torch.logsumexp(logits[:, self._yes], dim=1)
        no = torch.logsumexp(logits[:, self._no], dim=1)
        return torch.sigmoid(yes - no).cpu().numpy()

    def _last_logits(self, prompts: list[list[int]]) -> torch.Tensor:
        ids, mask = self._padded(prompts)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        out = self.model(input_ids=ids, attention_mask=mask, position_ids=positions, logits_to_keep=1, use_cache=False)
        return out.logits[:, -1]

    def _last_logits_reusing(self, groups: list[list[list[int]]], shared: list[int]) -> torch.Tensor:
        import torch

        # A group of one has no shared part of its own: all but its last token go in the first pass.
        starts = [g[0][:n] if n else g[0][:-1] for g, n in zip(groups, shared, strict=True)]
        ids, mask = self._padded(starts)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        cache = self.model(
            input_ids=ids, attention_mask=mask, position_ids=positions, logits_to_keep=1, use_cache=True
        ).past_key_values
        owner = torch.tensor([i for i, g in enumerate(groups) for _ in g], device=ids.device)
        cache.batch_select_indices(owner)
        rests = [ids_[len(starts[i]) :] for i, g in enumerate(groups) for ids_ in g]
        rest_ids, rest_mask = self._padded(rests)
        lengths = torch.tensor([len(s) for s in starts], device=ids.device)[owner]
        out = self.model(
            input_ids=rest_ids,
            attention_mask=torch.cat([mask[owner], rest_mask], dim=1),
            position_ids=lengths[:, None] + (rest_mask.cumsum(1) - 1).clamp(min=0),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return out.logits[:, -1]

    def _padded(self, rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids and mask, padded on the left, so that the answer is read off the last column."""
        import torch

        width, device = max(map(len, rows)), self.model.device
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, width - len(row) :], mask[i, width - len(row) :] = torch.tensor(row), 1
        return ids.to(device), mask.to(device)


def answer_tokens(tokenizer: Any, answer: str) -> list[int]:
    """Return the ids of all single tokens that spell the answer ("yes" or "no"), with and without a blank before it.

    Raises:
        InputError: the vocabulary has none.
    """
    found = set()
    for spelling in _SPELLINGS[answer]:
        ids = tokenizer(spelling, add_special_tokens=False)["input_ids"]
        if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
            found.add(ids[0])
    if not found:
        raise InputError(
            f"the tokenizer has no single token for {answer.title()!r}; this model cannot be read by logits"
        )
    return sorted(found)


def load_causal(
    checkpoint: str, *, adapter: str = "", four_bit: bool = False, wording: str = "ours", **options: Any
) -> Causal:
    """Load a causal judge from the Hugging Face cache, a local folder, or the hub.

    Args:
        checkpoint: id or folder of a causal LM.
        adapter: id or folder of a LoRA adapter on top of it.
        four_bit: load the weights in 4 bits (bitsandbytes).
        wording: "ours" or "published".
        options: passed to :class:`Causal`.

    Raises:
        MissingDataError: the model is neither here nor reachable, or the published prompt has not been imported.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

    prompt = load_prompt("perspective_detection", wording, NEEDS)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" and torch.cuda.is_bf16_supported() else torch.float32
    quantised = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=dtype) if four_bit else None

    def load(local: bool) -> tuple[Any, Any]:
        placed = {"device_map": device, "quantization_config": quantised} if four_bit else {}
        return (
            AutoTokenizer.from_pretrained(checkpoint, local_files_only=local),
            AutoModelForCausalLM.from_pretrained(checkpoint, local_files_only=local, dtype=dtype, **placed),
        )

    tokenizer, model = load_model(checkpoint, load)
    if adapter:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, adapter).merge_and_unload()
    model = model.eval() if four_bit else model.to(device).eval()
    name = "+".join(filter(None, [checkpoint, adapter, "4bit" if four_bit else ""]))
    return Causal(model, tokenizer, name, prompt=prompt, **options)


def _common_start(rows: Sequence[list[int]]) -> int:
    """Return how many first tokens all rows share, leaving each row at least one token of its own."""
    shortest = min(map(len, rows)) - 1
    first, last = min(rows), max(rows)  # in lexical order these two differ first
    n = next((i for i in range(shortest) if first[i] != last[i]), shortest)
    return max(n, 0)


def _read_example() -> tuple[str, str, str]:
    text = (files("berdslib.llm") / "prompts" / "perspective_detection.example.txt").read_text(encoding="utf-8")
    values = dict(line.split(": ", 1) for line in text.strip().splitlines())
    return values["document"], values["statement"], values["answer"]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
