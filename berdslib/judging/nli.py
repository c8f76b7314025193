"""Models of natural-language inference as judges: the probability that a document entails a perspective.

Two kinds: classifiers of sentence pairs, and text-to-text models (T5) that write "1" for entailed and "0" for not.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from berdslib.checkpoint import language_model_numbers
from berdslib.errors import InputError
from berdslib.judging.base import Pair, document_text
from berdslib.llm.untrusted import control_tokens, defuse
from berdslib.models.loading import checkpoint_mark, length_batches, load_model, load_weights, read_tokenizer

logger = logging.getLogger(__name__)

# Honovich et al. (2022), the off-the-shelf NLI model of BeRDS Table 4.
NLI_T5 = "google/t5_xxl_true_nli_mixture"
# T5 reads "▁" as a blank.
_FIELD_NAME = re.compile(r"(premise|hypothesis)[\s▁]*:", re.IGNORECASE)


class Nli:
    """A natural-language-inference classifier: premise = document, hypothesis = perspective, P(entailment).

    If the two exceed the model's length, only the end of the document is cut, never the perspective; the official
    code cuts the joined text from the right and can lose the perspective (divergences.md B12).

    Args:
        model: a loaded sequence classifier (see :func:`load_nli` for loading by name).
        tokenizer: its tokenizer.
        name: what the judge's id calls the model.
        entailment: the number of the class that means entailment; None to find it by its label.
        max_length: tokens of document and perspective together.
        batch_size: pairs per forward pass.
        threshold: yes at this probability and above.
        title_position: see :func:`berdslib.judging.base.document_text`.

    Raises:
        InputError: no class is labelled as entailment.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        *,
        entailment: int | None = None,
        max_length: int = 512,
        batch_size: int = 32,
        threshold: float = 0.5,
        title_position: str = "before",
    ) -> None:
        self.model, self.tokenizer, self.batch_size = model, tokenizer, batch_size
        self.entailment = entailment_class(model.config.id2label) if entailment is None else entailment
        self.max_length, self.threshold, self.title_position = max_length, threshold, title_position
        self.id = (
            f"nli({name},class={self.entailment},max_length={max_length},title={title_position},threshold={threshold})"
        )

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), the probability of entailment; pairs of like length share a batch."""
        import torch

        texts = [document_text(p.passage, self.title_position) for p in pairs]
        found = np.empty(len(pairs), dtype=np.float64)
        for rows in length_batches([len(t) for t in texts], self.batch_size):
            inputs = self.encode([texts[i] for i in rows], [pairs[i].perspective for i in rows])
            with torch.inference_mode():
                logits = self.model(**inputs.to(self.model.device)).logits.double()
            found[rows] = logits.softmax(dim=1)[:, self.entailment].cpu().numpy()
        return found

    def encode(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Any:
        """Return the padded model input for (premise, hypothesis) pairs; only premises are cut.

        Raises:
            InputError: a hypothesis that alone is too long for the model.
        """
        marks = control_tokens(self.tokenizer)
        premises, hypotheses = ([defuse(t, marks) for t in texts] for texts in (premises, hypotheses))
        lengths = self.tokenizer(hypotheses, add_special_tokens=False)["input_ids"]
        longest = max(range(len(lengths)), key=lambda i: len(lengths[i]))
        if len(lengths[longest]) + self.tokenizer.num_special_tokens_to_add(pair=True) >= self.max_length:
            raise InputError(f"a perspective of {len(lengths[longest])} tokens leaves no room in {self.max_length}")
        return self.tokenizer(
            premises,
            hypotheses,
            truncation="only_first",
            max_length=self.max_length,
            padding=True,
            return_tensors="pt",
        )


def entailment_class(labels: dict[int, str]) -> int:
    """Return the number of the class labelled as entailment.

    Raises:
        InputError: there is none, or several.

    >>> entailment_class({0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"})
    2
    """
    found = [i for i, label in labels.items() if "entail" in label.lower() and not label.lower().startswith("not")]
    if len(found) != 1:
        raise InputError(f"which class means entailment? The model's labels are {sorted(labels.values())}")
    return found[0]


def load_nli(checkpoint: str, **options: Any) -> Nli:
    """Load an NLI judge from the Hugging Face cache, a local folder, or the hub.

    Args:
        checkpoint: id or folder of a sequence-pair classifier.
        options: passed to :class:`Nli`.

    Raises:
        MissingDataError: the model is neither here nor reachable.
        InputError: it is not a classifier: its head's weights are missing and would be random.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = load_model(checkpoint, lambda local: read_tokenizer(AutoTokenizer, checkpoint, local))
    model = load_weights(AutoModelForSequenceClassification, checkpoint)
    return Nli(model, tokenizer, checkpoint + checkpoint_mark(checkpoint), **options)


class NliT5:
    """A text-to-text NLI model: P(entailed) = softmax over "1" and "0" where its answer begins.

    One pass of the encoder and one step of the decoder; nothing is generated. Long documents are cut at their end, the
    perspective never (divergences.md B12).

    Args:
        model: a loaded encoder-decoder model that reads "premise: P hypothesis: H" (see :func:`load_nli_t5`).
        tokenizer: its tokenizer.
        name: what the judge's id calls the model.
        max_length: tokens of document and perspective together.
        batch_size: pairs per forward pass.
        threshold: yes at this probability and above.
        title_position: see :func:`berdslib.judging.base.document_text`.

    Raises:
        InputError: the tokenizer lets both answers begin with the same token.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        *,
        max_length: int = 512,
        batch_size: int = 32,
        threshold: float = 0.5,
        title_position: str = "before",
    ) -> None:
        self.model, self.tokenizer, self.batch_size = model, tokenizer, batch_size
        self.max_length, self.threshold, self.title_position = max_length, threshold, title_position
        # Only the first token counts: some vocabularies write "0" as a blank and a "0".
        self._one, self._zero = (tokenizer(a, add_special_tokens=False)["input_ids"][0] for a in ("1", "0"))
        if self._one == self._zero:
            raise InputError(f"the tokenizer of {name} lets '1' and '0' begin with the same token")
        self.id = f"nli-t5({name},max_length={max_length},title={title_position},threshold={threshold})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), the probability of entailment; pairs of like length share a batch."""
        import torch

        prompts = [self.token_ids(document_text(p.passage, self.title_position), p.perspective) for p in pairs]
        found = np.empty(len(pairs), dtype=np.float64)
        for rows in length_batches([len(ids) for ids in prompts], self.batch_size):
            inputs = self.tokenizer.pad({"input_ids": [prompts[i] for i in rows]}, return_tensors="pt")
            start = torch.full((len(rows), 1), self.model.config.decoder_start_token_id)
            inputs = inputs.to(self.model.device)
            with torch.inference_mode():
                logits = self.model(**inputs, decoder_input_ids=start.to(self.model.device)).logits[:, 0].double()
            found[rows] = torch.sigmoid(logits[:, self._one] - logits[:, self._zero]).cpu().numpy()
        return found

    def token_ids(self, premise: str, hypothesis: str) -> list[int]:
        """Return the model's input for one pair; only the premise is cut.

        Raises:
            InputError: a hypothesis that alone is too long for the model.
        """
        # T5 never joins tokens over a blank, so the halves can be cut into tokens apart from each other.
        start = self.tokenizer(f"premise: {self._sanitize(premise)}", add_special_tokens=False)["input_ids"]
        end = self.tokenizer(f"hypothesis: {self._sanitize(hypothesis)}")["input_ids"]
        if len(end) >= self.max_length:
            raise InputError(f"a perspective of {len(end)} tokens leaves no room in {self.max_length}")
        ids: list[int] = start[: self.max_length - len(end)] + end
        return ids

    def _sanitize(self, text: str) -> str:
        """Return a text in which nothing passes for a special token or the name of a field."""
        # The tokenizer turns look-alikes ("hypothesis：" with a wide colon) into the real thing, so it goes first.
        normalizer = self.tokenizer.backend_tokenizer.normalizer
        text = normalizer.normalize_str(text) if normalizer else text
        return _FIELD_NAME.sub(r"\1 -", defuse(text, control_tokens(self.tokenizer)))


def load_nli_t5(checkpoint: str = NLI_T5, **options: Any) -> NliT5:
    """Load a text-to-text NLI judge from the Hugging Face cache, a local folder, or the hub.

    The default has 11 billion parameters: 22 GB in bfloat16 on a GPU that knows it, 45 GB in float32 elsewhere. It was
    never run where this was written, where neither its weights nor a GPU were at hand.

    Args:
        checkpoint: id or folder of an encoder-decoder model that writes "1" or "0".
        options: passed to :class:`NliT5`.

    Raises:
        MissingDataError: the model is neither here nor reachable, or its tokenizer needs a package that is not here.
        InputError: the checkpoint lacks weights, such as those of its decoder; they would be random.
    """
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    dtype = language_model_numbers()
    if checkpoint == NLI_T5:
        logger.warning("%s needs %d GB of memory on this machine", NLI_T5, 22 if dtype == torch.bfloat16 else 45)
    tokenizer = load_model(checkpoint, lambda local: read_tokenizer(AutoTokenizer, checkpoint, local))
    model = load_weights(AutoModelForSeq2SeqLM, checkpoint, dtype=dtype)
    return NliT5(model, tokenizer, checkpoint + checkpoint_mark(checkpoint), **options)
