"""The `laptop` judges: a sentence encoder trained on stance, a head, and a calibration.

This module imports torch; the registry of judges imports it when a laptop judge is made.
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
from berdslib.judging.refit import Calibration
from berdslib.llm.untrusted import control_tokens, defuse
from berdslib.models.cards import ENGINES, model_card
from berdslib.models.loading import (
    WeightsMark,
    engine_by_environment,
    fastest_format,
    load_model,
    load_weights,
    package_folder,
    quiet_loading,
    quiet_peft,
    read_tokenizer,
)
from berdslib.models.openvino import VectorsOfIds, openvino_reader, require_openvino

WEIGHTS = Path(__file__).parent / "weights" / "laptop"
MPNET_WEIGHTS = WEIGHTS.with_name("laptop-mpnet")  # an adapter; its base model is installed separately
STATEMENT_TOKENS = 64
DOCUMENT_TOKENS = 192  # 100 words are about 130 word pieces
TENSORS = "model.safetensors"
_SETTINGS = "settings.json"
_MOST_REMEMBERED = 50_000  # texts whose vectors a judge keeps in memory, about 100 MB
_STEP_WIDTH = 4.0  # scales the features so that the head, which starts near 0, learns as fast as the encoder

# ---------------------------------------------------------------- the models


class Design(NamedTuple):
    """A model's ``base`` encoder, and the ``rank`` of its LoRA matrices (0: the layers themselves are trained)."""

    base: str = "minilm"
    reading: str = "apart"
    rank: int = 0


FAST = Design()


class StanceModel(nn.Module):
    """Scores (statement, document) pairs: scaled cosine plus a linear head on both vectors and their differences."""

    def __init__(self, encoder: Any, tokenizer: Any, design: Design) -> None:
        super().__init__()
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.design = design
        self.head = nn.Linear(4 * encoder.config.hidden_size, 1)
        self.scale = nn.Parameter(torch.tensor(5.0))

    def compare(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Return the logits (n,) of statement vectors `u` and document vectors `v`, both (n, d) of length 1."""
        features = torch.cat([u, v, (u - v).abs(), u * v], dim=1) * _STEP_WIDTH
        return self.scale * ((u * v).sum(1) - 0.5) + self.head(features)[:, 0]

    def vectors(self, texts: Sequence[str], max_tokens: int) -> torch.Tensor:
        """Return mean-pooled vectors of length 1, float (n, d), for one batch of texts."""
        limits: dict[str, Any] = {"truncation": True, "max_length": max_tokens}
        inputs = self.tokenizer(list(texts), **limits, padding=True, return_tensors="pt").to(self.scale.device)
        return _mean(self.encoder(**inputs).last_hidden_state.float(), inputs["attention_mask"])


class _Reader(nn.Module):
    """The network that maps the word pieces of a text to a vector, on its own for OpenVINO."""

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
    """Return an untrained model: its scores are scaled cosines plus a little noise that depends on the seed."""
    from transformers import AutoModel, AutoTokenizer

    known("reading", design.reading, ("apart",))
    if design.rank < 0:
        raise InputError(f"must be 0 or more, not {design.rank}", field="rank")
    checkpoint = model_card(design.base).checkpoint
    if checkpoint.startswith("package:"):
        checkpoint = package_folder(checkpoint.removeprefix("package:"))
    # LoRA of a low rank hardly overfits, and dropout takes a tenth of the time on a CPU.
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
    """Merge the LoRA matrices into their layers, so that the model is as fast as its base."""
    if hasattr(model.encoder, "merge_and_unload"):
        model.encoder = model.encoder.merge_and_unload()
    return model


def learned(model: StanceModel) -> dict[str, torch.Tensor]:
    """Return the trained weights: the head, and the LoRA matrices or all layers but the word embeddings."""
    return {name: weight.detach() for name, weight in model.named_parameters() if weight.requires_grad}


def autocast(model: StanceModel) -> Any:
    """Return a context in which torch multiplies in bfloat16 if the processor supports it."""
    return torch.autocast(model.scale.device.type, dtype=torch.bfloat16, enabled=_multiplies_short(model))


def _multiplies_short(model: StanceModel) -> bool:
    return model.scale.device.type == "cuda" or fastest_format("torch") == "bfloat16"


# ---------------------------------------------------------------- the judge


class Laptop:
    """Judges with a trained model: P(the passage supports the perspective), calibrated on held-out topics.

    Each text is encoded once, in bfloat16 if the CPU supports it; a probability then depends a little on the other
    texts in a batch. `engine` is "torch", or "openvino", which is faster on a CPU. `loaded` means that the weights are
    those of the file that `name` stands for.
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
        self.name = name
        self.model = model.eval()
        self.calibration = calibration
        self.threshold = calibration.threshold
        self.batch_size = batch_size
        self.title_position = title_position
        # Vectors are kept between calls, since the lists of many questions share passages.
        self._read: dict[tuple[int, str], torch.Tensor] = {}
        self._weights = WeightsMark(model, named=loaded)
        self._read_by = ""
        # The id leaves the fast design out, so that stored verdicts keep their keys.
        made_of = "" if model.design == FAST else f",{','.join(map(str, model.design))}"
        self._by_openvino: VectorsOfIds | None = None
        if engine == "openvino":
            number_format = fastest_format(engine)
            require_openvino()
            self._by_openvino = openvino_reader(_Reader(model.cpu()), model.tokenizer, number_format)
            made_of += f",openvino:{number_format}"
        elif _multiplies_short(self.model):
            made_of += ",bfloat16"
        self._made_of = made_of

    @property
    def id(self) -> str:
        """Names everything that the answers depend on now: the model can be trained, or calibrated."""
        settings = ",".join(f"{value:.6g}" for value in self.calibration)
        made_of = f"{self.name}{self._weights.of(self.model)}{self._made_of}"
        return f"laptop({made_of},calibration={settings},title={self.title_position})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), the calibrated probability."""
        marks = control_tokens(self.model.tokenizer)  # texts must not contain them
        statements = [defuse(pair.perspective, marks) for pair in pairs]
        documents = [defuse(document_text(pair.passage, self.title_position), marks) for pair in pairs]
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
        """Return one vector a text, float32 (n, d); equal texts are encoded once, also across calls, longest first."""
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
    """Load a judge that :func:`save_laptop` wrote, by default the shipped one; `engine` "" takes BERDS_ENGINE."""
    model, calibration = load_trained(folder)
    digest = hashlib.sha256((folder / TENSORS).read_bytes()).hexdigest()[:12]
    engine = engine or engine_by_environment()
    return Laptop(merged(model), calibration, digest, engine=engine, loaded=True, **options)


def load_trained(folder: Path) -> tuple[StanceModel, Calibration]:
    """Load a saved judge's model, with LoRA matrices unmerged so that training can continue, and its calibration."""
    from safetensors.torch import load_file

    for name in (TENSORS, _SETTINGS):
        if not (folder / name).is_file():
            problem = f"no {name} of a laptop judge in {folder}; train one with scripts/train_judges.py, or reinstall"
            raise MissingDataError(problem)
    design, calibration = _read_settings(folder / _SETTINGS)
    path = folder / TENSORS
    model = load_model(str(folder), lambda _: new_model(design))
    tensors = load_model(str(path), lambda _: {name: weight.float() for name, weight in load_file(path).items()})
    expected = {name: weight.shape for name, weight in learned(model).items()}
    if expected != {name: weight.shape for name, weight in tensors.items()}:
        raise InputError("its weights do not fit the design in the settings", path=path)
    model.load_state_dict({**model.state_dict(), **tensors})
    return model, calibration


def _read_settings(path: Path) -> tuple[Design, Calibration]:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        calibration = Calibration(*(float(settings["calibration"][name]) for name in Calibration._fields))
        design = Design(**settings.get("design", FAST._asdict()))
        if not np.isfinite(calibration).all() or not 0 <= calibration.threshold <= 1:
            raise ValueError(f"calibration {tuple(calibration)}; it needs finite numbers, a threshold from 0 to 1")
        if list(map(type, design)) != [str, str, int]:
            raise TypeError(f"design {tuple(design)}; it needs two names and a whole number")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        problem = f"is not the settings of a laptop judge ({type(error).__name__}: {error})"
        raise InputError(problem, path=path) from None
    return design, calibration


def save_laptop(model: StanceModel, calibration: Calibration, folder: Path, facts: dict[str, Any]) -> Path:
    """Save the trained weights in half precision, with their calibration and JSON-serialisable `facts`."""
    from safetensors.torch import save_file

    facts = {"calibration": calibration._asdict(), "design": model.design._asdict(), **facts}
    # The folder is replaced as a whole, so that weights and calibration always belong together.
    with atomic_path(folder, marker=_SETTINGS) as unfinished:
        unfinished.mkdir()
        tensors = {name: weight.half().contiguous() for name, weight in learned(model).items()}
        save_file(tensors, unfinished / TENSORS)
        with write_text(unfinished / _SETTINGS) as file:
            json.dump(facts, file, indent=1)
    return folder
