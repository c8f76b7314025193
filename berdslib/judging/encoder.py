"""Sequence-pair models as judges: the probability that a document entails a perspective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from berdslib.data.fetching import load_model
from berdslib.errors import InputError
from berdslib.judging.judges import Pair, document_text
from berdslib.judging.untrusted import defuse


class Nli:
    """A natural-language-inference classifier: premise = document, hypothesis = perspective, P(entailment).

    Where the two do not fit into the model, the document is cut at its end and the perspective never; the official
    code cuts the joined text from the right and can lose the perspective (DIVERGENCES B12).

    Args:
        model: a loaded sequence classifier (see :func:`load_nli` for loading by name).
        tokenizer: its tokenizer.
        name: what the judge's id calls the model.
        entailment: the number of the class that means entailment; None to find it by its label.
        max_length: tokens of document and perspective together.
        batch_size: pairs per forward pass.
        threshold: yes at this probability and above.
        title_position: see :func:`berdslib.judging.judges.document_text`.

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
        self.id = f"nli({name},class={self.entailment},max_length={max_length},title={title_position})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), the probability of entailment; pairs of like length share a batch."""
        import torch

        texts = [document_text(p.passage, self.title_position) for p in pairs]
        order = sorted(range(len(pairs)), key=lambda i: len(texts[i]), reverse=True)
        found = np.empty(len(pairs), dtype=np.float64)
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
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
        marks = self.tokenizer.all_special_tokens
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
    """
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    def load(local: bool) -> tuple[Any, Any]:
        return (
            AutoTokenizer.from_pretrained(checkpoint, local_files_only=local),
            AutoModelForSequenceClassification.from_pretrained(checkpoint, local_files_only=local),
        )

    tokenizer, model = load_model(checkpoint, load)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Nli(model.to(device).eval(), tokenizer, checkpoint, **options)
