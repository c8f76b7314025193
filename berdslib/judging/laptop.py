"""The `laptop` judges: a sentence encoder that learnt which side a text takes, a head, and a calibration.

This module needs torch when it is imported; the registry of judges imports it when one of them is made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from berdslib.errors import InputError, MissingDataError, known
from berdslib.files import atomic_path, write_text
from berdslib.judging.base import Pair, document_text
from berdslib.llm.untrusted import control_tokens, defuse
from berdslib.models.cards import ENGINES, model_card
from berdslib.models.loading import (
    WeightsMark,
    engine_by_environment,
    fastest_format,
    has_bf16,
    load_model,
    load_weights,
    package_folder,
    quiet_loading,
    quiet_peft,
    read_tokenizer,
)
from berdslib.models.openvino import VectorsOfIds, openvino_reader, require_openvino
from berdslib.stats import choose_threshold, yes_or_no

WEIGHTS = Path(__file__).parent / "weights" / "laptop"
MPNET_WEIGHTS = WEIGHTS.with_name("laptop-mpnet")  # an adapter; its base does not come with the package
STATEMENT_TOKENS, DOCUMENT_TOKENS = 64, 192  # 100 words are about 130 word pieces
TENSORS, SETTINGS = "model.safetensors", "settings.json"
_MOST_REMEMBERED = 50_000  # texts whose vectors a judge keeps, about 100 MB
_STEP_WIDTH = 4.0  # lets a head that starts near 0 move as fast as the encoder

# ---------------------------------------------------------------- the models


class Design(NamedTuple):
    """A model's ``base`` encoder, and the ``rank`` of LoRA matrices beside its layers (0: the layers learn)."""

    base: str = "minilm"
    reading: str = "apart"
    rank: int = 0


FAST = Design()


class StanceModel(nn.Module):
    """Scores (statement, document) pairs: scaled cosine plus a linear head on both vectors and how they differ."""

    def __init__(self, encoder: Any, tokenizer: Any, design: Design) -> None:
        super().__init__()
        self.encoder, self.tokenizer, self.design = encoder, tokenizer, design
        self.head = nn.Linear(4 * encoder.config.hidden_size, 1)
        self.scale = nn.Parameter(torch.tensor(5.0))

    def compare(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Return the logits (n,) of statement vectors `u` and document vectors `v`, both (n, d) of length 1."""
        features = torch.cat([u, v, (u - v).abs(), u * v], dim=1) * _STEP_WIDTH
        return self.scale * ((u * v).sum(1) - 0.5) + self.head(features)[:, 0]

    def vectors(self, texts: Sequence[str], max_tokens: int) -> torch.Tensor:
        """Return mean-pooled vectors of length 1, float (n, d), of texts that share one batch."""
        limits: dict[str, Any] = {"truncation": True, "max_length": max_tokens}
        inputs = self.tokenizer(list(texts), **limits, padding=True, return_tensors="pt").to(self.scale.device)
        return _mean(self.encoder(**inputs).last_hidden_state.float(), inputs["attention_mask"])


class _Reader(nn.Module):
    """What reads one text, as a network of its own for OpenVINO: from word pieces to a vector."""

    def __init__(self, model: StanceModel) -> None:
        super().__init__()
        self.encoder = model.encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return _mean(hidden, attention_mask)


def _mean(hidden: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Return the mean (n, d), of length 1, of the chosen tokens of `hidden` (n, tokens, d)."""
    weight = chosen.unsqueeze(-1).float()
    return F.normalize((hidden * weight).sum(1) / weight.sum(1).clamp(min=1), dim=-1)


def new_model(design: Design = FAST, seed: int = 0) -> StanceModel:
    """Return an untrained model: its scores are scaled cosines, and a little noise drawn by the seed."""
    from transformers import AutoModel, AutoTokenizer

    known("reading", design.reading, ("apart",))
    if design.rank < 0:
        raise InputError(f"must be 0 or more, not {design.rank}", field="rank")
    checkpoint = model_card(design.base).checkpoint
    if checkpoint.startswith("package:"):
        checkpoint = package_folder(checkpoint.removeprefix("package:"))
    # A low rank learns little by heart, and dropout costs a tenth of the time on a CPU.
    dropout: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0} if design.rank else {}
    with quiet_loading():
        encoder = load_weights(AutoModel, checkpoint, add_pooling_layer=False, **dropout)
        tokenizer = load_model(checkpoint, lambda local: read_tokenizer(AutoTokenizer, checkpoint, local))
    torch.manual_seed(seed)
    if design.rank:
        with quiet_loading():
            from peft import LoraConfig, get_peft_model

        adapter = LoraConfig(r=design.rank, lora_alpha=design.rank, target_modules="all-linear")
        with quiet_peft():
            encoder = get_peft_model(encoder, adapter)
    else:
        encoder.embeddings.requires_grad_(False)
    return StanceModel(encoder, tokenizer, design).to(encoder.device)


def merged(model: StanceModel) -> StanceModel:
    """Return the model with its LoRA matrices added to the layers beside them, so that it reads as fast as its base."""
    if hasattr(model.encoder, "merge_and_unload"):
        model.encoder = model.encoder.merge_and_unload()
    return model


def learned(model: StanceModel) -> dict[str, torch.Tensor]:
    """Return what training changes: all weights but the word embeddings, or the LoRA matrices; and the head."""
    return {name: weight.detach() for name, weight in model.named_parameters() if weight.requires_grad}


def autocast(model: StanceModel) -> Any:
    """Return a context for a forward pass, in which torch multiplies in bfloat16 where the processor has it."""
    return torch.autocast(model.scale.device.type, dtype=torch.bfloat16, enabled=_multiplies_short(model))


def _multiplies_short(model: StanceModel) -> bool:
    return model.scale.device.type == "cuda" or has_bf16()


# ---------------------------------------------------------------- calibration


class Calibration(NamedTuple):
    """P(supports) = sigmoid(slope * logit + shift); yes at `threshold` and above."""

    slope: float
    shift: float
    threshold: float

    def p_yes(self, logits: np.ndarray) -> np.ndarray:
        """Return float64 (n,)."""
        from scipy.special import expit

        return np.asarray(expit(self.slope * np.asarray(logits, dtype=np.float64) + self.shift))


def calibrate(logits: np.ndarray, labels: np.ndarray, positive_share: float) -> Calibration:
    """Fit slope and shift (Platt, 1999) and the threshold with the best F1, both kinds weighted to a share."""
    from sklearn.linear_model import LogisticRegression

    labels = yes_or_no(labels)
    if labels.all() or not labels.any():
        raise InputError("labels of both kinds are needed to calibrate")
    weight = np.where(labels, positive_share / labels.mean(), (1 - positive_share) / (1 - labels.mean()))
    fitted = LogisticRegression(C=np.inf, tol=1e-8).fit(np.asarray(logits)[:, None], labels, sample_weight=weight)
    slope, shift = float(fitted.coef_[0, 0]), float(fitted.intercept_[0])
    p_yes = Calibration(slope, shift, 0.5).p_yes(logits)
    return Calibration(slope, shift, choose_threshold(labels, p_yes, positive_share))


# ---------------------------------------------------------------- the judge


class Laptop:
    """Judges with a trained model: P(the passage supports the perspective), calibrated on held-out topics.

    Each text is read once, in bfloat16 where the CPU has it: there a probability depends a little on what shared its
    batch. `engine` is "torch", or "openvino" for the same network faster on a CPU. `loaded` says that the weights are
    those of the file that `name` names.
    """

    def __init__(
        self,
        model: StanceModel,
        calibration: Calibration,
        name: str,
        *,
        batch_size: int = 64,
        title_position: str = "before",
        engine: str = "torch",
        loaded: bool = False,
    ) -> None:
        known("engine", engine, ENGINES)
        self.model, self.calibration, self.threshold = model.eval(), calibration, calibration.threshold
        self.batch_size, self.title_position = batch_size, title_position
        # What was read: many questions of a corpus list the same passages, in one call after another.
        self._read: dict[tuple[int, str], torch.Tensor] = {}
        self._weights, self._read_by = WeightsMark(model, named=loaded), ""
        # The first laptop judge had but one design.
        made_of = "" if model.design == FAST else f",{','.join(map(str, model.design))}"
        self._by_openvino: VectorsOfIds | None = None
        if engine == "openvino":
            number_format = fastest_format(engine)
            require_openvino()
            self._by_openvino = openvino_reader(_Reader(model.cpu()), model.tokenizer, number_format)
            made_of += f",openvino:{number_format}"
        elif _multiplies_short(self.model):
            made_of += ",bfloat16"
        self.name, self._made_of = name, made_of

    @property
    def id(self) -> str:
        """Names everything that the answers depend on, as it is now: a model can be trained, or calibrated."""
        settings = ",".join(f"{value:.6g}" for value in self.calibration)
        made_of = f"{self.name}{self._weights.of(self.model)}{self._made_of}"
        return f"laptop({made_of},calibration={settings},title={self.title_position})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), the calibrated probability."""
        marks = control_tokens(self.model.tokenizer)  # no text may pass for one of these
        statements = [defuse(p.perspective, marks) for p in pairs]
        documents = [defuse(document_text(p.passage, self.title_position), marks) for p in pairs]
        return self.calibration.p_yes(self.logits(statements, documents))

    def logits(self, statements: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Return the model's logit of each (statement, document) pair, float64 (n,)."""
        if not len(statements):
            return np.empty(0, dtype=np.float64)
        with torch.inference_mode():
            with autocast(self.model):
                u = self._vectors(statements, STATEMENT_TOKENS)
                v = self._vectors(documents, DOCUMENT_TOKENS)
            return np.asarray(self.model.compare(u, v).double().cpu().numpy())

    def _vectors(self, texts: Sequence[str], max_tokens: int) -> torch.Tensor:
        """Return one vector a text, float32 (n, d); equal texts are read once, also over calls, the longest first."""
        read_by = self._weights.of(self.model)
        if len(self._read) > _MOST_REMEMBERED or read_by != self._read_by:
            self._read.clear()
        self._read_by = read_by
        new = {text for text in texts if (max_tokens, text) not in self._read}
        order = sorted(new, key=lambda text: (-len(text), text))
        for start in range(0, len(order), self.batch_size):
            part = order[start : start + self.batch_size]
            if self._by_openvino:
                ids = self.model.tokenizer(part, truncation=True, max_length=max_tokens)["input_ids"]
                vectors = torch.from_numpy(self._by_openvino(ids))
            else:
                vectors = self.model.vectors(part, max_tokens).float()
            self._read.update(zip([(max_tokens, text) for text in part], vectors, strict=True))
        return torch.stack([self._read[max_tokens, text] for text in texts])


# ---------------------------------------------------------------- files


def load_laptop(folder: Path = WEIGHTS, *, engine: str = "", **options: Any) -> Laptop:
    """Load a judge that :func:`save_laptop` wrote, by default the shipped one; `engine` "" is that of BERDS_ENGINE."""
    model, calibration = load_trained(folder)
    digest = hashlib.sha256((folder / TENSORS).read_bytes()).hexdigest()[:12]
    engine = engine or engine_by_environment()
    return Laptop(merged(model), calibration, digest, engine=engine, loaded=True, **options)


def load_trained(folder: Path) -> tuple[StanceModel, Calibration]:
    """Load a saved judge's model as it was trained, so that training may go on, and its calibration."""
    from safetensors.torch import load_file

    for name in (TENSORS, SETTINGS):
        if not (folder / name).is_file():
            problem = f"no {name} of a laptop judge in {folder}; train one with scripts/train_judges.py, or reinstall"
            raise MissingDataError(problem)
    try:
        settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        calibration = Calibration(*(float(settings["calibration"][name]) for name in Calibration._fields))
        design = Design(**settings.get("design", FAST._asdict()))
        if not np.isfinite(calibration).all() or not 0 <= calibration.threshold <= 1:
            raise ValueError(f"calibration {tuple(calibration)}; finite numbers and a threshold from 0 to 1 are needed")
        if list(map(type, design)) != [str, str, int]:
            raise TypeError(f"design {tuple(design)}; two names and a whole number are needed")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        problem = f"is not the settings of a laptop judge ({type(error).__name__}: {error})"
        raise InputError(problem, path=folder / SETTINGS) from None
    path = folder / TENSORS
    model = load_model(str(folder), lambda _: new_model(design))
    tensors = load_model(str(path), lambda _: {name: weight.float() for name, weight in load_file(path).items()})
    wanted = {name: weight.shape for name, weight in learned(model).items()}
    if wanted != {name: weight.shape for name, weight in tensors.items()}:
        raise InputError("holds other weights than the design in its settings has", path=path)
    model.load_state_dict({**model.state_dict(), **tensors})
    return model, calibration


def save_laptop(model: StanceModel, calibration: Calibration, folder: Path, facts: dict[str, Any]) -> Path:
    """Save the learnt weights in half precision, with their calibration and `facts`, which are JSON-able."""
    from safetensors.torch import save_file

    facts = {"calibration": calibration._asdict(), "design": model.design._asdict(), **facts}
    # The folder is replaced as a whole: weights of one training never lie beside the calibration of another.
    with atomic_path(folder, marker=SETTINGS) as unfinished:
        unfinished.mkdir()
        save_file({k: v.half().contiguous() for k, v in learned(model).items()}, unfinished / TENSORS)
        with write_text(unfinished / SETTINGS) as file:
            json.dump(facts, file, indent=1)
    return folder
