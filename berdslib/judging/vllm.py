"""A causal language model as judge on vLLM: the same prompts and the same probability as the judge in ``causal``.

vLLM batches by itself and keeps the keys and values of prompt beginnings, so all there is to do here is to hand it the
prompts in an order in which equal beginnings follow each other, and to read the answer off a list of log-probabilities
that has the likeliest tokens only.

This was never run against a real vLLM, which needs a GPU that was not at hand. The tests run it on a stand-in with
vLLM's interface, whose answers come from a small model.
"""

from __future__ import annotations

import importlib
import json
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from berdslib.errors import InputError, MissingDataError
from berdslib.judging.base import EachByItself, Pair
from berdslib.judging.causal import adapter_folder
from berdslib.judging.yesno import NEEDS, YesNoJudge
from berdslib.llm.prompting import load_prompt
from berdslib.models.loading import checkpoint_mark, load_model

logger = logging.getLogger(__name__)

TOP = 100  # log-probabilities asked for; vLLM's own ceiling of 20 is raised to it in load_vllm


class Vllm(EachByItself, YesNoJudge):
    """Asks a model on vLLM whether a document supports a statement; P = softmax over the Yes and No tokens.

    A spelling of Yes or No that is not among the `top` likeliest tokens counts 0. Its probability is at most that of
    the least likely token listed, so the largest possible error of an answer is known: ``slack`` is the largest so
    far, one over 0.01 is warned of, and an answer that could be on either side of the threshold is an error.

    Args:
        engine: a ``vllm.LLM`` that allows `top` log-probabilities (see :func:`load_vllm` for loading by name).
        tokenizer: the model's tokenizer (a fast one).
        name: what the judge's id calls the model, adapter included.
        top: how many of the likeliest tokens vLLM reports.
        lora: a ``LoRARequest``, or None.
        options: passed to :class:`berdslib.judging.yesno.YesNoJudge`: prompt, shots, chat, max_length, title_position.
    """

    def __init__(
        self, engine: Any, tokenizer: Any, name: str, *, top: int = TOP, lora: Any = None, **options: Any
    ) -> None:
        super().__init__(tokenizer, **options)
        self.engine, self.top, self.lora = engine, top, lora
        self.slack = 0.0
        self.id = f"vllm({name},top={top},{self.asks})"

    def p_yes_each(self, pairs: Sequence[Pair]) -> tuple[np.ndarray, BaseException | None]:
        """Return what the likeliest tokens say, and an InputError where they leave open which answer it is."""
        prompts = [self.token_ids(p) for p in pairs]
        order = sorted(range(len(pairs)), key=prompts.__getitem__)  # equal beginnings, so equal documents, together
        found, problem = np.full(len(pairs), np.nan), None
        for row, listed in zip(order, self._first_tokens([prompts[i] for i in order]), strict=True):
            try:
                found[row] = self._read(listed, pairs[row])
            except InputError as error:
                problem = problem or error
        if self.slack > 0.01:
            logger.warning("probabilities from the top %d tokens are off by up to %.3f", self.top, self.slack)
        return found, problem

    def _first_tokens(self, prompts: list[list[int]]) -> list[dict[int, float]]:
        """Return for each prompt the probabilities of the likeliest next tokens."""
        if not prompts:
            return []
        sampling = _vllm("vllm").SamplingParams(max_tokens=1, temperature=0, logprobs=self.top)
        outputs = self.engine.generate(
            [{"prompt_token_ids": ids} for ids in prompts], sampling, use_tqdm=False, lora_request=self.lora
        )
        return [{t: math.exp(x.logprob) for t, x in o.outputs[0].logprobs[0].items()} for o in outputs]

    def _read(self, listed: Mapping[int, float], pair: Pair) -> float:
        low, p, high = probability_of_yes(listed, self._yes, self._no)
        where = f"passage {pair.passage.docno!r} and {pair.perspective!r}"
        if math.isnan(p):
            likeliest = self.tokenizer.decode([max(listed, key=listed.__getitem__)])
            raise InputError(
                f"neither Yes nor No is among the {len(listed)} likeliest answers about {where}; "
                f"the likeliest is {likeliest!r}"
            )
        if (low >= self.threshold) != (high >= self.threshold):
            raise InputError(
                f"the {len(listed)} likeliest answers about {where} do not decide between Yes and No "
                f"(P(Yes) from {low:.2f} to {high:.2f}); use a larger top"
            )
        self.slack = max(self.slack, p - low, high - p)
        return p


def probability_of_yes(
    listed: Mapping[int, float], yes: Sequence[int], no: Sequence[int]
) -> tuple[float, float, float]:
    """Return P(Yes) / (P(Yes) + P(No)) from a list of the likeliest tokens, between its lowest and highest value.

    Args:
        listed: token id → probability of the likeliest tokens.
        yes: the tokens that mean Yes.
        no: the tokens that mean No.

    Returns:
        (lowest, with missing tokens as 0, highest); all NaN where no token of either is listed.

    >>> probability_of_yes({7: 0.5, 8: 0.25, 9: 0.05}, yes=[7], no=[8])
    (0.6666666666666666, 0.6666666666666666, 0.6666666666666666)
    >>> probability_of_yes({7: 0.75, 9: 0.125}, yes=[7], no=[8])  # No has 0.125 at most
    (0.8571428571428571, 1.0, 1.0)
    """
    has_yes, has_no = (sum(listed.get(t, 0.0) for t in tokens) for tokens in (yes, no))
    if has_yes + has_no == 0:
        return math.nan, math.nan, math.nan
    # A missing token is no likelier than the last one listed, and all of them share what the listed ones leave.
    last, rest = min(listed.values()), max(0.0, 1.0 - sum(listed.values()))
    more_yes, more_no = (min(rest, last * sum(t not in listed for t in tokens)) for tokens in (yes, no))
    return (
        has_yes / (has_yes + has_no + more_no),
        has_yes / (has_yes + has_no),
        (has_yes + more_yes) / (has_yes + more_yes + has_no),
    )


def load_vllm(
    checkpoint: str,
    *,
    adapter: str = "",
    wording: str = "ours",
    top: int = TOP,
    max_length: int = 2048,
    engine: Mapping[str, Any] | None = None,
    **options: Any,
) -> Vllm:
    """Load a judge on vLLM from the Hugging Face cache, a local folder, or the hub.

    Args:
        checkpoint: id or folder of a causal LM.
        adapter: id or folder of a LoRA adapter on top of it.
        wording: "ours" or "published".
        top: how many of the likeliest tokens vLLM reports.
        max_length: tokens a prompt may have; vLLM reserves memory for no more.
        engine: further arguments of ``vllm.LLM``, such as ``{"tensor_parallel_size": 4}``.
        options: passed to :class:`Vllm`.

    Raises:
        MissingDataError: vLLM is not installed, the model is neither here nor reachable, or the published prompt has
            not been imported.
    """
    from transformers import AutoTokenizer

    prompt = load_prompt("perspective_detection", wording, NEEDS)
    llm, lora, lora_settings = _vllm("vllm").LLM, None, {}
    tokenizer = load_model(checkpoint, lambda local: AutoTokenizer.from_pretrained(checkpoint, local_files_only=local))
    if adapter:
        folder = adapter_folder(adapter)
        lora = _vllm("vllm.lora.request").LoRARequest(adapter, 1, str(folder))
        lora_settings = {"enable_lora": True, "max_lora_rank": _max_lora_rank(folder)}
    running = llm(
        model=checkpoint,
        enable_prefix_caching=True,
        max_logprobs=top,
        max_model_len=max_length + 1,  # the prompt and one token of answer
        **lora_settings,
        **(engine or {}),
    )
    marked = [one and one + checkpoint_mark(one) for one in (checkpoint, adapter)]  # another state is another judge
    name = "+".join(filter(None, marked))
    return Vllm(running, tokenizer, name, top=top, lora=lora, prompt=prompt, max_length=max_length, **options)


def _max_lora_rank(folder: Path) -> int:
    """Return the smallest rank that vLLM can reserve memory for (8, 16, 32, …) and that the adapter fits into."""
    rank = int(json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))["r"])
    return max(8, 1 << (rank - 1).bit_length())


def _vllm(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDataError(
            f"this judge runs on vLLM, which cannot be imported ({error}); on Linux with a GPU: pip install "
            '"berdslib[vllm]". Without it, causal:MODEL gives the same probabilities, only slower'
        ) from error
