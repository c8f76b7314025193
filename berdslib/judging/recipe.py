"""The settings of a fine-tuning."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from berdslib.errors import InputError


@dataclass(frozen=True)
class Recipe:
    """Settings of a training: AdamW, with linear warm-up and decay. The defaults are BeRDS' (A.5, and its code).

    ``rank`` is that of LoRA matrices on all linear layers; 0 trains the weights themselves. ``epochs`` may be a
    fraction. ``accumulate`` batches make a step. ``max_length`` limits the tokens of a cross-encoder's pair, whose
    document is truncated. A checkpoint is written, and scored on the held-out pairs, every ``save_every`` steps, or a
    share of all steps if below 1; a killed run resumes from it.
    """

    learning_rate: float = 1e-4
    warmup: float = 0.1
    epochs: float = 2.0
    weight_decay: float = 0.001
    rank: int = 64
    alpha: int = 16
    dropout: float = 0.1
    batch_size: int = 16
    accumulate: int = 1
    max_length: int = 512
    checkpoint_gradients: bool = False
    save_every: float = 0.125
    seed: int = 0

    def __post_init__(self) -> None:
        positive = "learning_rate", "epochs", "alpha", "batch_size", "accumulate", "max_length", "save_every"
        for name, value in asdict(self).items():
            if name in positive and not value > 0:
                raise InputError(f"must be above 0, not {value}", field=name)
            if name in ("weight_decay", "rank") and not value >= 0:
                raise InputError(f"must be 0 or more, not {value}", field=name)
            if name in ("warmup", "dropout") and not 0 <= value < 1:
                raise InputError(f"must be from 0 to below 1, not {value}", field=name)
            if name == "save_every" and value > 1 and value != int(value):
                raise InputError(f"must be a share of the steps or a whole number of them, not {value}", field=name)
