"""Judges based on classifiers that read document and perspective together: cross-encoders and NLI models.

A pair that is too long has its document truncated, never its perspective (divergences.md B12).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from berdslib.errors import InputError
from berdslib.judging.base import Pair, document_text
from berdslib.llm.untrusted import control_tokens, defuse
from berdslib.models.loading import (
    WeightsMark,
    checkpoint_mark,
    language_model_numbers,
    load_weights,
    number_format_mark,
)
from berdslib.models.pair_classifier import PairClassifier, load_classifier, load_tokenizer

logger = logging.getLogger(__name__)

# Honovich et al. (2022), the off-the-shelf NLI model of BeRDS Table 4.
NLI_T5 = "google/t5_xxl_true_nli_mixture"
# T5 reads "▁" as a space.
_FIELD_NAME = re.compile(r"(premise|hypothesis)[\s▁]*:", re.IGNORECASE)


class PairJudge:
    """A judge based on a classifier, with the verdict yes from `threshold` on.

    The id starts with `named`, the judge's kind and model. `loaded` means that the weights are those of the files that
    `named` refers to.
    """

    def __init__(
        self,
        named: str,
        classifier: PairClassifier,
        *,
        threshold: float = 0.5,
        title_position: str = "before",
        loaded: bool = False,
    ) -> None:
        self.named = named
        self.classifier = classifier
        self.threshold = threshold
        self.title_position = title_position
        self._weights = WeightsMark(classifier.model, named=loaded)

    @property
    def id(self) -> str:
        """The judge's id, which names everything that the answers depend on; it changes if the model is trained."""
        limits = f"max_length={self.classifier.max_length},title={self.title_position},threshold={self.threshold}"
        return f"{self.named}{self._weights.of(self.classifier.model)},{limits})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return P(yes) of each pair, float64 (n,)."""
        from scipy.special import expit

        texts = [(pair.perspective, document_text(pair.passage, self.title_position)) for pair in pairs]
        if self.classifier.cut == "first":
            texts = [(document, perspective) for perspective, document in texts]
        return np.asarray(expit(self.classifier.scores(texts)))


# ---------------------------------------------------------------- cross-encoders


def cross_encoder(model: Any, tokenizer: Any, name: str, **options: Any) -> PairJudge:
    """Judge by a classifier with one output, the log-odds, as :func:`.finetune.fine_tune_encoder` trains it."""
    if model.config.num_labels != 1:
        problem = f"must have one output (num_labels=1), not {model.config.num_labels}"
        raise InputError(f"the classifier {name} {problem}")
    return PairJudge(f"cross({name}", PairClassifier(model, tokenizer, max_length=192), **options)


def load_cross_encoder(checkpoint: str, **options: Any) -> PairJudge:
    """Load a cross-encoder judge: a classifier with one output, or a folder with a LoRA adapter for one."""
    # An adapter has its own head; the config of its base may describe another.
    outputs = {"num_labels": 1} if (Path(checkpoint) / "adapter_config.json").is_file() else {}
    model, tokenizer = load_classifier(checkpoint, **outputs)
    return cross_encoder(model, tokenizer, checkpoint + checkpoint_mark(checkpoint), loaded=True, **options)


# ---------------------------------------------------------------- natural-language inference


def nli(model: Any, tokenizer: Any, name: str, *, max_length: int = 512, **options: Any) -> PairJudge:
    """Judge by a natural-language-inference classifier: premise = document, hypothesis = perspective, P(entailment)."""
    wanted = entailment_class(model.config.id2label)
    classifier = PairClassifier(model, tokenizer, wanted=wanted, cut="first", max_length=max_length)
    return PairJudge(f"nli({name},class={wanted}", classifier, **options)


def entailment_class(labels: dict[int, str]) -> int:
    """Return the number of the only class that is labelled as entailment.

    >>> entailment_class({0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"})
    2
    """
    entailment = re.compile(r"(?!(?:not?|non)[\W_]*entail).*entail")
    classes = [number for number, label in labels.items() if entailment.match(label.lower())]
    if len(classes) != 1:
        raise InputError(f"exactly one class must be labelled entailment; the labels are {sorted(labels.values())}")
    return classes[0]


def load_nli(checkpoint: str, **options: Any) -> PairJudge:
    """Load an NLI judge from the Hugging Face cache, a local folder, or the hub."""
    model, tokenizer = load_classifier(checkpoint)
    return nli(model, tokenizer, checkpoint + checkpoint_mark(checkpoint), loaded=True, **options)


def nli_t5(model: Any, tokenizer: Any, name: str, *, max_length: int = 512, **options: Any) -> PairJudge:
    """Judge by a text-to-text model, which reads "premise: P hypothesis: H": softmax over "1" and "0"."""
    classifier = _T5Classifier(model, tokenizer, cut="first", max_length=max_length)
    return PairJudge(f"nli-t5({name}", classifier, **options)


class _T5Classifier(PairClassifier):
    """A classifier with the classes "0" and "1": one encoder pass and one decoder step, without generation."""

    def __init__(self, model: Any, tokenizer: Any, **limits: Any) -> None:
        super().__init__(model, tokenizer, **limits)
        # Only the first token counts: some vocabularies split "0" into a space and a "0".
        self.answers = [tokenizer(answer, add_special_tokens=False)["input_ids"][0] for answer in ("0", "1")]
        if self.answers[0] == self.answers[1]:
            raise InputError("the tokenizer begins '1' and '0' with the same token")

    def logits(self, batch: Any) -> Any:
        start = batch["input_ids"].new_full((len(batch["input_ids"]), 1), self.model.config.decoder_start_token_id)
        return self.model(**batch, decoder_input_ids=start).logits[:, 0, self.answers]

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[dict[str, list[int]]]:
        # T5 never joins tokens across a space, so the halves can be tokenised separately.
        inputs = []
        for premise, hypothesis in pairs:
            start = self.tokenizer(f"premise: {self._plain(premise)}", add_special_tokens=False)["input_ids"]
            end = self.tokenizer(f"hypothesis: {self._plain(hypothesis)}")["input_ids"]
            if len(end) >= self.max_length:
                problem = f"a perspective of {len(end)} tokens leaves no room for a document ({self.max_length} tokens)"
                raise InputError(problem, field="max_length")
            inputs.append({"input_ids": start[: self.max_length - len(end)] + end})
        return inputs

    def _plain(self, text: str) -> str:
        """Return a text without special tokens and field names."""
        # Normalised first, since the tokenizer turns look-alikes ("hypothesis：" with a wide colon) into field names.
        normalizer = self.tokenizer.backend_tokenizer.normalizer
        text = normalizer.normalize_str(text) if normalizer else text
        return _FIELD_NAME.sub(r"\1 -", defuse(text, control_tokens(self.tokenizer)))


def load_nli_t5(checkpoint: str = NLI_T5, **options: Any) -> PairJudge:
    """Load a text-to-text NLI judge by id or folder; the default has 11 billion parameters and is untested."""
    import torch
    from transformers import AutoModelForSeq2SeqLM

    dtype = language_model_numbers()
    if checkpoint == NLI_T5:
        logger.warning("%s needs %d GB of memory on this machine", NLI_T5, 22 if dtype == torch.bfloat16 else 45)
    tokenizer = load_tokenizer(checkpoint)
    model = load_weights(AutoModelForSeq2SeqLM, checkpoint, dtype=dtype)
    name = checkpoint + checkpoint_mark(checkpoint) + number_format_mark(dtype)
    return nli_t5(model, tokenizer, name, loaded=True, **options)
