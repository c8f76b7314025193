"""Models of natural-language inference as judges: the probability that a document entails a perspective.

Two kinds: classifiers of sentence pairs, and text-to-text models (T5) that write "1" for entailed and "0" for not. Long
documents are cut at their end, perspectives never: the official code can lose the perspective (divergences.md B12).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

from berdslib.errors import InputError
from berdslib.judging.base import number_format_mark
from berdslib.judging.cross import PairJudge
from berdslib.llm.untrusted import control_tokens, defuse
from berdslib.models.loading import checkpoint_mark, language_model_numbers, load_model, load_weights, read_tokenizer
from berdslib.models.pair_classifier import PairClassifier

logger = logging.getLogger(__name__)

# Honovich et al. (2022), the off-the-shelf NLI model of BeRDS Table 4.
NLI_T5 = "google/t5_xxl_true_nli_mixture"
# T5 reads "▁" as a blank.
_FIELD_NAME = re.compile(r"(premise|hypothesis)[\s▁]*:", re.IGNORECASE)


class Nli(PairJudge):
    """A natural-language-inference classifier: premise = document, hypothesis = perspective, P(entailment).

    Args:
        model: a loaded sequence classifier (see :func:`load_nli` for loading by name).
        tokenizer: its tokenizer.
        name: what the judge's id calls the model.
        entailment: the number of the class that means entailment; None to find it by its label.
        max_length: tokens of document and perspective together.
        batch_size: pairs per forward pass.
        options: passed to :class:`PairJudge`.

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
        **options: Any,
    ) -> None:
        wanted = entailment_class(model.config.id2label) if entailment is None else entailment
        limits: dict[str, Any] = {"max_length": max_length, "batch_size": batch_size}
        classifier = PairClassifier(model, tokenizer, wanted=wanted, cut="first", **limits)
        super().__init__(f"nli({name},class={wanted}", classifier, **options)


class NliT5(PairJudge):
    """A text-to-text NLI model: P(entailed) = softmax over "1" and "0" where its answer begins.

    Args:
        model: a loaded encoder-decoder model that reads "premise: P hypothesis: H" (see :func:`load_nli_t5`).
        tokenizer: its tokenizer.
        name: what the judge's id calls the model.
        max_length: tokens of document and perspective together.
        batch_size: pairs per forward pass.
        options: passed to :class:`PairJudge`.

    Raises:
        InputError: the tokenizer lets both answers begin with the same token.
    """

    def __init__(
        self, model: Any, tokenizer: Any, name: str, *, max_length: int = 512, batch_size: int = 32, **options: Any
    ) -> None:
        classifier = _T5Classifier(model, tokenizer, cut="first", max_length=max_length, batch_size=batch_size)
        super().__init__(f"nli-t5({name}", classifier, **options)


class _T5Classifier(PairClassifier):
    """Its classes are "0" and "1": one pass of the encoder and one step of the decoder; nothing is generated."""

    def __init__(self, model: Any, tokenizer: Any, **limits: Any) -> None:
        super().__init__(model, tokenizer, **limits)
        # Only the first token counts: some vocabularies write "0" as a blank and a "0".
        self.answers = [tokenizer(answer, add_special_tokens=False)["input_ids"][0] for answer in ("0", "1")]
        if self.answers[0] == self.answers[1]:
            raise InputError("the tokenizer lets '1' and '0' begin with the same token")

    def logits(self, batch: Any) -> Any:
        start = batch["input_ids"].new_full((len(batch["input_ids"]), 1), self.model.config.decoder_start_token_id)
        return self.model(**batch, decoder_input_ids=start).logits[:, 0, self.answers]

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[dict[str, list[int]]]:
        # T5 never joins tokens over a blank, so the halves can be cut into tokens apart from each other.
        inputs = []
        for premise, hypothesis in pairs:
            start = self.tokenizer(f"premise: {self._plain(premise)}", add_special_tokens=False)["input_ids"]
            end = self.tokenizer(f"hypothesis: {self._plain(hypothesis)}")["input_ids"]
            if len(end) >= self.max_length:
                problem = f"a perspective of {len(end)} tokens leaves no room in {self.max_length}"
                raise InputError(problem, field="max_length")
            inputs.append({"input_ids": start[: self.max_length - len(end)] + end})
        return inputs

    def _plain(self, text: str) -> str:
        """Return a text in which nothing passes for a special token or the name of a field."""
        # The tokenizer turns look-alikes ("hypothesis：" with a wide colon) into the real thing, so it goes first.
        normalizer = self.tokenizer.backend_tokenizer.normalizer
        text = normalizer.normalize_str(text) if normalizer else text
        return _FIELD_NAME.sub(r"\1 -", defuse(text, control_tokens(self.tokenizer)))


def entailment_class(labels: dict[int, str]) -> int:
    """Return the number of the class labelled as entailment.

    Raises:
        InputError: there is none, or several.

    >>> entailment_class({0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"})
    2
    """
    found = [i for i, label in labels.items() if re.match(r"(?!(?:not?|non)[\W_]*entail).*entail", label.lower())]
    if len(found) != 1:
        raise InputError(f"which class means entailment? The model's labels are {sorted(labels.values())}")
    return found[0]


def load_nli(checkpoint: str, **options: Any) -> Nli:
    """Load an NLI judge from the Hugging Face cache, a local folder, or the hub.

    Raises:
        MissingDataError: the model is neither here nor reachable.
        InputError: it is not a classifier: its head's weights are missing and would be random.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = load_model(checkpoint, lambda local: read_tokenizer(AutoTokenizer, checkpoint, local))
    model = load_weights(AutoModelForSequenceClassification, checkpoint)
    return Nli(model, tokenizer, checkpoint + checkpoint_mark(checkpoint), **options)


def load_nli_t5(checkpoint: str = NLI_T5, **options: Any) -> NliT5:
    """Load a text-to-text NLI judge from the Hugging Face cache, a local folder, or the hub.

    The default has 11 billion parameters: 22 GB in bfloat16 on a GPU that knows it, 45 GB in float32 elsewhere. It was
    never run where this was written.

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
    return NliT5(model, tokenizer, checkpoint + checkpoint_mark(checkpoint) + number_format_mark(dtype), **options)
