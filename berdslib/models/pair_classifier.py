"""Scores of pairs of texts by a classifier that reads both together; re-ranking and several judges rest on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from berdslib.errors import InputError
from berdslib.llm.untrusted import control_tokens, defuse
from berdslib.models.loading import length_batches, load_model, load_weights, read_tokenizer
from berdslib.progress import bar


class PairClassifier:
    """Scores pairs with a classifier: the log-odds of one of its classes, or its logit where it has one output.

    Args:
        model: the classifier.
        tokenizer: its tokenizer.
        wanted: the number of the class that is scored; by default the last.
        cut: which text of a pair too long is cut at its end, "first" or "second"; the other never is.
        max_length: tokens of both texts together.
        batch_size: pairs per forward pass; pairs of like length share one.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        wanted: int = -1,
        cut: str = "second",
        max_length: int = 512,
        batch_size: int = 32,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.wanted = wanted
        self.cut = cut
        self.max_length = max_length
        self.batch_size = batch_size

    def scores(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Return float64 (n,); log-odds, since probabilities near 1 would be equal where these are not.

        Raises:
            InputError: a text that may not be cut leaves no room for the other.
        """
        import torch

        inputs = self.encode(pairs)
        found = np.empty(len(pairs), dtype=np.float64)
        batches = list(length_batches([len(pair["input_ids"]) for pair in inputs], self.batch_size))
        for rows in bar(batches, desc="reading pairs", unit="batch"):
            batch = self.tokenizer.pad([inputs[i] for i in rows], return_tensors="pt").to(self.model.device)
            with torch.inference_mode():
                logits = self.logits(batch).double()
            score = logits[:, self.wanted]
            if logits.shape[1] > 1:
                others = [i for i in range(logits.shape[1]) if i != self.wanted % logits.shape[1]]
                score = score - logits[:, others].logsumexp(dim=1)
            found[rows] = score.cpu().numpy()
        return found

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[dict[str, list[int]]]:
        """Return the model's input for each pair, not padded."""
        return encode_pairs(self.tokenizer, pairs, self.max_length, self.cut)

    def logits(self, batch: Any) -> Any:
        """Return the logit of each class, (n, classes), for a padded batch."""
        return self.model(**batch).logits


def load_classifier(checkpoint: str, **options: Any) -> tuple[Any, Any]:
    """Load a sequence classifier and its tokenizer; weights that are missing are refused, not drawn at random."""
    from transformers import AutoModelForSequenceClassification

    return load_weights(AutoModelForSequenceClassification, checkpoint, **options), load_tokenizer(checkpoint)


def load_tokenizer(checkpoint: str) -> Any:
    """Load the tokenizer of a checkpoint."""
    from transformers import AutoTokenizer

    return load_model(checkpoint, lambda local: read_tokenizer(AutoTokenizer, checkpoint, local))


def encode_pairs(
    tokenizer: Any, pairs: Sequence[tuple[str, str]], max_length: int, cut: str = "second"
) -> list[dict[str, list[int]]]:
    """Return a classifier's input for each pair, not padded; what looks like a special token in a text is text.

    Raises:
        InputError: a text that may not be cut leaves no room for the other.
    """
    if not pairs:
        return []
    marks = control_tokens(tokenizer)
    first, second = ([defuse(text, marks) for text in texts] for texts in zip(*pairs, strict=True))
    whole = list(dict.fromkeys(first if cut == "second" else second))
    longest = max(map(len, tokenizer(whole, add_special_tokens=False)["input_ids"]))
    if longest + tokenizer.num_special_tokens_to_add(pair=True) >= max_length:
        raise InputError(f"a text of {longest} tokens leaves no room for the other in {max_length}", field="max_length")
    both = tokenizer(first, second, truncation=f"only_{cut}", max_length=max_length)
    return [{key: both[key][i] for key in both} for i in range(len(pairs))]
