"""The `laptop` judge: a small model that ships with the package, and the calibration of its scores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from berdslib.errors import InputError, MissingDataError, known
from berdslib.files import atomic_path, write_text
from berdslib.judging.base import Pair, document_text
from berdslib.llm.untrusted import control_tokens, defuse
from berdslib.models.cards import ENGINES
from berdslib.models.loading import engine_by_environment, fastest_format
from berdslib.models.openvino import VectorsOfIds, openvino_reader, require_openvino
from berdslib.stats import choose_threshold, yes_or_no

if TYPE_CHECKING:
    import torch

    from berdslib.judging.stance import Design, StanceModel

WEIGHTS = Path(__file__).parent / "weights" / "laptop"
MPNET_WEIGHTS = WEIGHTS.with_name("laptop-mpnet")  # an adapter; its base does not come with the package
_MOST_REMEMBERED = 50_000  # texts whose vectors a judge keeps, about 100 MB
TENSORS, SETTINGS = "model.safetensors", "settings.json"


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
    """Fit slope and shift (Platt, 1999) and the threshold with the best F1, on held-out topics.

    Held-out pairs have more positives than the web, so both kinds are weighted to what is expected there.

    Args:
        logits: (n,) of the model.
        labels: (n,) bool, both kinds.
        positive_share: share of positives to expect.

    Raises:
        InputError: labels of one kind only, or one that is no truth value (1 and 0 are).
    """
    from sklearn.linear_model import LogisticRegression

    labels = yes_or_no(labels)
    if labels.all() or not labels.any():
        raise InputError("labels of both kinds are needed to calibrate")
    weight = np.where(labels, positive_share / labels.mean(), (1 - positive_share) / (1 - labels.mean()))
    fitted = LogisticRegression(C=np.inf, tol=1e-8).fit(np.asarray(logits)[:, None], labels, sample_weight=weight)
    slope, shift = float(fitted.coef_[0, 0]), float(fitted.intercept_[0])
    p_yes = Calibration(slope, shift, 0.5).p_yes(logits)
    return Calibration(slope, shift, choose_threshold(labels, p_yes, positive_share))


class Laptop:
    """Judges with a stance model: P(the passage supports the perspective), calibrated.

    Each passage and each perspective is read once however many pairs and calls they are in; batches are sorted by
    length, and computed in bfloat16 where the CPU has it: there a probability depends on what shared a batch, by .004.

    Args:
        model: from :func:`berdslib.judging.stance.new_model`, trained.
        calibration: on held-out topics.
        name: what the judge's id calls the weights.
        batch_size: texts per forward pass.
        title_position: see :func:`berdslib.judging.base.document_text`.
        engine: "torch", or "openvino" for the same network faster on a CPU; it is part of the id.

    Raises:
        InputError: an unknown engine, or OpenVINO for a model that reads both texts together.
        MissingDataError: OpenVINO is not installed.
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
    ) -> None:
        from berdslib.judging.stance import FAST

        known("engine", engine, ENGINES)
        self.model, self.calibration, self.threshold = model.eval(), calibration, calibration.threshold
        self.batch_size, self.title_position = batch_size, title_position
        # What was read: many questions of a corpus list the same passages, in one call after another.
        self._read: dict[tuple[int, str], torch.Tensor] = {}
        settings = ",".join(f"{value:.6g}" for value in calibration)
        # The same weights may be read in two ways; the first laptop judge had but one.
        made_of = "" if model.design == FAST else f",{','.join(map(str, model.design))}"
        self._by_openvino = _openvino(model) if engine == "openvino" else None
        if self._by_openvino:
            made_of += f",openvino:{fastest_format(engine)}"
        self.id = f"laptop({name}{made_of},calibration={settings},title={title_position})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), the calibrated probability."""
        documents = self.sanitize([document_text(p.passage, self.title_position) for p in pairs])
        return self.calibration.p_yes(self.logits(self.sanitize([p.perspective for p in pairs]), documents))

    def sanitize(self, texts: Sequence[str]) -> list[str]:
        """Return texts in which nothing passes for one of the tokenizer's own marks."""
        marks = control_tokens(self.model.tokenizer)
        return [defuse(text, marks) for text in texts]

    def logits(self, statements: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Return the model's logit of each (statement, document) pair, float64 (n,)."""
        import torch

        from berdslib.judging.stance import DOCUMENT_TOKENS, STATEMENT_TOKENS, TogetherModel, autocast

        if not len(statements):
            return np.empty(0, dtype=np.float64)
        if isinstance(self.model, TogetherModel):
            return self._together(statements, documents)
        with torch.inference_mode(), autocast(self.model):
            u = self._vectors(statements, STATEMENT_TOKENS)
            v = self._vectors(documents, DOCUMENT_TOKENS)
        with torch.inference_mode():
            return np.asarray(self.model.compare(u, v).double().cpu().numpy())

    def _together(self, statements: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Return the logits of pairs whose texts are read together, equal pairs once, the longest first."""
        import torch

        from berdslib.judging.stance import autocast

        pairs = sorted(set(zip(statements, documents, strict=True)), key=lambda pair: (-len("".join(pair)), pair))
        found: dict[tuple[str, str], float] = {}
        with torch.inference_mode(), autocast(self.model):
            for start in range(0, len(pairs), self.batch_size):
                part = pairs[start : start + self.batch_size]
                found.update(zip(part, self.model(*zip(*part, strict=True)).double().tolist(), strict=True))
        return np.array([found[pair] for pair in zip(statements, documents, strict=True)])

    def _vectors(self, texts: Sequence[str], max_tokens: int) -> torch.Tensor:
        """Return one vector a text, float32 (n, d); equal texts are read once, also over calls, the longest first."""
        import torch

        if len(self._read) > _MOST_REMEMBERED:
            self._read.clear()
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


def _openvino(model: StanceModel) -> VectorsOfIds:
    """Return what reads texts as the model does, by OpenVINO.

    Raises:
        InputError: a model that reads both texts together.
        MissingDataError: OpenVINO is not installed.
    """
    from berdslib.judging.stance import Reader, TogetherModel

    if isinstance(model, TogetherModel):
        raise InputError("OpenVINO does not read two texts together here; take engine='torch'")
    number_format = fastest_format("openvino")
    require_openvino(number_format)
    return openvino_reader(Reader(model.cpu()), model.tokenizer, number_format)


def load_laptop(folder: Path = WEIGHTS, *, engine: str = "", **options: Any) -> Laptop:
    """Load a judge that was saved; by default the fast one that comes with the package.

    Args:
        folder: where :func:`save_laptop` wrote it.
        engine: see :class:`Laptop`; "" for that of BERDS_ENGINE, which holds for judges that read the texts apart.
        options: passed to :class:`Laptop`.

    Raises:
        MissingDataError: no such files there, or no weights of the base.
        InputError: a file that cannot be read, settings that lack something, or weights of another design.
    """
    from berdslib.judging.stance import merged

    model, calibration = load_trained(folder)
    if not engine:
        engine = engine_by_environment() if model.design.reading == "apart" else "torch"
    digest = hashlib.sha256((folder / TENSORS).read_bytes()).hexdigest()[:12]
    return Laptop(merged(model), calibration, digest, engine=engine, **options)


def load_trained(folder: Path) -> tuple[StanceModel, Calibration]:
    """Load a saved judge's model as it was trained, so that training may go on, and its calibration.

    Raises:
        MissingDataError: no such files there, or no weights of the base.
        InputError: a file that cannot be read, settings that lack something, or weights of another design.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from berdslib.judging.stance import learned, new_model

    design, calibration = _settings(folder)
    model, path = new_model(design), folder / TENSORS
    try:
        tensors = {name: weight.float() for name, weight in load_file(path).items()}
    except SafetensorError as error:
        raise InputError(f"cannot be read ({error}); train or install the judge anew", path=path) from None
    wanted = {name: weight.shape for name, weight in learned(model).items()}
    if wanted != {name: weight.shape for name, weight in tensors.items()}:
        raise InputError("holds other weights than the design in its settings has", path=path)
    model.load_state_dict({**model.state_dict(), **tensors})
    return model, calibration


def _settings(folder: Path) -> tuple[Design, Calibration]:
    """Return design and calibration of a saved judge, having seen that it is all there."""
    from berdslib.judging.stance import FAST, Design

    for name in (TENSORS, SETTINGS):
        if not (folder / name).is_file():
            problem = f"no {name} of a laptop judge in {folder}; train one with notebook 05, or reinstall"
            raise MissingDataError(problem)
    path = folder / SETTINGS
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        numbers = {name: float(settings["calibration"][name]) for name in Calibration._fields}
        return Design(**settings.get("design", FAST._asdict())), Calibration(**numbers)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        problem = f"is not the settings of a laptop judge ({type(error).__name__}: {error})"
        raise InputError(problem, path=path) from None


def save_laptop(model: StanceModel, calibration: Calibration, folder: Path, facts: dict[str, Any]) -> Path:
    """Save the learnt weights in half precision, with their calibration and `facts`, which are JSON-able.

    Raises:
        InputError: the folder holds something else than such a judge, or nothing can be written there.
    """
    from safetensors.torch import save_file

    from berdslib.judging.stance import learned

    facts = {"calibration": calibration._asdict(), "design": model.design._asdict(), **facts}
    # The folder is replaced as a whole: weights of one training never lie beside the calibration of another.
    with atomic_path(folder, marker=SETTINGS) as unfinished:
        unfinished.mkdir()
        save_file({k: v.half().contiguous() for k, v in learned(model).items()}, unfinished / TENSORS)
        with write_text(unfinished / SETTINGS) as file:
            json.dump(facts, file, indent=1)
    return folder
