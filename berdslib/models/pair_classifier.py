"""Scores of pairs of texts by a classifier that reads both together, for re-ranking and for judges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from berdslib.errors import InputError
from berdslib.llm.untrusted import control_tokens, defuse
from berdslib.models.loading import length_batches, load_model, load_weights, read_tokenizer
from berdslib.progress import bar


class PairClassifier:
    """Scores pairs with a classifier: the log-odds of one class, or the logit of a single output.

    Args:
        model: the classifier.
        tokenizer: its tokenizer.
        wanted: the number of the class that is scored; by default the last.
        cut: the text that is truncated if a pair is too long, "first" or "second"; the other never is.
        max_length: tokens of both texts together.
        batch_size: pairs per forward pass, of similar lengths.
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
        """Return log-odds, float64 (n,): probabilities near 1 would tie.

        Raises:
            InputError: a text that may not be cut leaves no room for the other.
        """
        import torch

        inputs = self.encode(pairs)
        scores = np.empty(len(pairs), dtype=np.float64)
        batches = list(length_batches([len(pair["input_ids"]) for pair in inputs], self.batch_size))
        for rows in bar(batches, desc="reading pairs", unit="batch"):
            batch = self.tokenizer.pad([inputs[i] for i in rows], return_tensors="pt").to(self.model.device)
            with torch.inference_mode():
                logits = self.logits(batch).double()
            score = logits[:, self.wanted]
            if logits.shape[1] > 1:
                others = [i for i in range(logits.shape[1]) if i != self.wanted % logits.shape[1]]
                score = score - logits[:, others].logsumexp(dim=1)
            scores[rows] = score.cpu().numpy()
        return scores

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[dict[str, list[int]]]:
        """Return the model's unpadded input for each pair."""
        return encode_pairs(self.tokenizer, pairs, self.max_length, self.cut)

    def logits(self, batch: Any) -> Any:
        """Return the logit of each class, (n, classes), for a padded batch."""
        return self.model(**batch).logits


def load_classifier(checkpoint: str, **options: Any) -> tuple[Any, Any]:
    """Load a sequence classifier and its tokenizer; missing weights are refused, not initialised at random."""
    from transformers import AutoModelForSequenceClassification

    return load_weights(AutoModelForSequenceClassification, checkpoint, **options), load_tokenizer(checkpoint)


def load_tokenizer(checkpoint: str) -> Any:
    """Load the tokenizer of a checkpoint."""
    from transformers import AutoTokenizer

    return load_model(checkpoint, lambda local: read_tokenizer(AutoTokenizer, checkpoint, local))


def encode_pairs(
    tokenizer: Any, pairs: Sequence[tuple[str, str]], max_length: int, cut: str = "second"
) -> list[dict[str, list[int]]]:
    """Return a classifier's unpadded input for each pair; special tokens inside a text are read as text.

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
