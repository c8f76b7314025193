"""The `laptop` judge: a small model that ships with the package, and what turns its scores into probabilities."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from berdslib.cpu import keep_freed_memory
from berdslib.data.textio import write_text
from berdslib.errors import InputError, MissingDataError
from berdslib.judging.agreement import choose_threshold
from berdslib.judging.judges import PUBLISHED_POSITIVE_SHARE, Pair, document_text
from berdslib.judging.training_pairs import LAPTOP_SHARES, Example, mixture, negate, split_by_topic
from berdslib.llm.untrusted import defuse

if TYPE_CHECKING:
    import torch

    from berdslib.judging.stance import StanceModel, StanceRecipe

WEIGHTS = Path(__file__).parent / "weights" / "laptop"
# The held-out examples whose documents look like what a search engine lists; calibration rests on these.
_LIKE_THE_WEB = ("debate", "claim:window", "neutral", "sample")
_MOST_REMEMBERED = 50_000  # texts whose vectors a judge keeps, about 100 MB
_TENSORS, _SETTINGS = "model.safetensors", "settings.json"


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
        InputError: labels of one kind only.
    """
    from scipy.optimize import minimize

    labels = np.asarray(labels, dtype=bool)
    if labels.all() or not labels.any():
        raise InputError("labels of both kinds are needed to calibrate")
    weight = np.where(labels, positive_share / labels.mean(), (1 - positive_share) / (1 - labels.mean()))
    sign = np.where(labels, 1.0, -1.0)

    def loss(parameters: np.ndarray) -> float:
        return float(np.mean(weight * np.logaddexp(0, -sign * (parameters[0] * logits + parameters[1]))))

    slope, shift = minimize(loss, np.array([1.0, 0.0]), method="Nelder-Mead").x.tolist()
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
        title_position: see :func:`berdslib.judging.judges.document_text`.
    """

    def __init__(
        self,
        model: StanceModel,
        calibration: Calibration,
        name: str,
        *,
        batch_size: int = 64,
        title_position: str = "before",
    ) -> None:
        self.model, self.calibration, self.threshold = model.eval(), calibration, calibration.threshold
        self.batch_size, self.title_position = batch_size, title_position
        # What was read: many questions of a corpus list the same passages, in one call after another.
        self._read: dict[tuple[int, str], torch.Tensor] = {}
        settings = ",".join(f"{value:.6g}" for value in calibration)
        self.id = f"laptop({name},calibration={settings},title={title_position})"

    def p_yes(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return float64 (n,), the calibrated probability."""
        documents = [self.harmless(document_text(p.passage, self.title_position)) for p in pairs]
        return self.calibration.p_yes(self.logits([self.harmless(p.perspective) for p in pairs], documents))

    def harmless(self, text: str) -> str:
        """Return a text in which nothing passes for one of the tokenizer's own marks."""
        return defuse(text, self.model.tokenizer.all_special_tokens)

    def logits(self, statements: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Return the model's logit of each (statement, document) pair, float64 (n,)."""
        import torch

        from berdslib.judging.stance import DOCUMENT_TOKENS, STATEMENT_TOKENS, reading

        if not len(statements):
            return np.empty(0, dtype=np.float64)
        keep_freed_memory()
        with torch.inference_mode(), reading():
            u = self._vectors(statements, STATEMENT_TOKENS)
            v = self._vectors(documents, DOCUMENT_TOKENS)
        with torch.inference_mode():
            return np.asarray(self.model.compare(u, v).double().cpu().numpy())

    def _vectors(self, texts: Sequence[str], max_tokens: int) -> torch.Tensor:
        """Return one vector a text, float32 (n, d); equal texts are read once, also over calls, the longest first."""
        import torch

        if len(self._read) > _MOST_REMEMBERED:
            self._read.clear()
        new = {text for text in texts if (max_tokens, text) not in self._read}
        order = sorted(new, key=lambda text: (-len(text), text))
        for start in range(0, len(order), self.batch_size):
            part = order[start : start + self.batch_size]
            vectors = self.model.vectors(part, max_tokens).float()
            self._read.update(zip([(max_tokens, text) for text in part], vectors, strict=True))
        return torch.stack([self._read[max_tokens, text] for text in texts])


class TrainedLaptop(NamedTuple):
    """A judge, what it scored on held-out topics (see :func:`held_out_scores`), and the loss of each step."""

    judge: Laptop
    scores: dict[str, float]
    losses: list[float]


def train_laptop(
    folder: Path,
    shares: Mapping[str, float] = LAPTOP_SHARES,
    recipe: StanceRecipe | None = None,
    *,
    one_in: int = 10,
    positive_share: float = PUBLISHED_POSITIVE_SHARE,
) -> TrainedLaptop:
    """Train, calibrate and save a laptop judge; the shipped one is this with nothing changed.

    Args:
        folder: where checkpoints and the finished judge go; a run that was killed there goes on.
        shares: source of training pairs → share of its examples a pass.
        recipe: None for the defaults.
        one_in: one topic in so many is held out.
        positive_share: of the pairs that the judge will meet; by default what the paper counted among web passages.

    Raises:
        InputError: a source without enough topics, or labels of one kind only.
        MissingDataError: a data set that is not on this machine.
    """
    from berdslib.judging.stance import StanceRecipe, new_model, train
    from berdslib.retrieval.encoders import get_encoder

    recipe = recipe or StanceRecipe()
    encode = get_encoder().encode_passages

    def split(number: int) -> tuple[list[Example], list[Example]]:
        return split_by_topic(mixture(shares, number), encode, one_in=one_in)

    model = new_model(recipe.seed)
    losses = train(model, lambda number: split(number)[0], recipe, folder)
    held_out = [e for e in split(0)[1] if e.kind.startswith(_LIKE_THE_WEB)]
    labels = np.array([e.supports for e in held_out])
    bare = Laptop(model, Calibration(1.0, 0.0, 0.5), "untested")
    logits = bare.logits([e.statement for e in held_out], [e.document for e in held_out])
    calibration = calibrate(logits, labels, positive_share)
    judge = Laptop(model, calibration, "fresh")
    scores = held_out_scores(judge, held_out)
    facts = {"recipe": asdict(recipe), "shares": dict(shares), "one_in": one_in, "held_out": scores}
    save_laptop(model, calibration, folder / "judge", facts)
    return TrainedLaptop(load_laptop(folder / "judge"), scores, losses)


def held_out_scores(judge: Laptop, examples: Sequence[Example]) -> dict[str, float]:
    """Compare the judge with plain cosine on held-out examples: area under the ROC curve, best F1, negation test.

    Args:
        judge: any laptop judge.
        examples: of topics that it was not trained on.

    Returns:
        n, positive_share, and for "laptop" and "cosine": auc, f1 (at the threshold that is best here, so a little too
        good for both), right_side (how often the claim that an argument supports beats its negation) and right_side_n.
    """
    from berdslib.retrieval.encoders import get_encoder

    encoder = get_encoder()

    def cosine(statements: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        u, v = (np.asarray(encoder.encode_passages(list(texts))) for texts in (statements, documents))
        return np.asarray((u * v).sum(axis=1), dtype=np.float64)

    labels = np.array([e.supports for e in examples])
    claims = [e for e in examples if e.kind.endswith((":claim", "claim:window", "sample"))]
    for_claim = np.array([e.supports for e in claims])
    found: dict[str, float] = {"n": len(examples), "positive_share": float(labels.mean()), "right_side_n": len(claims)}
    for name, score in (("laptop", judge.logits), ("cosine", cosine)):
        values = score([e.statement for e in examples], [e.document for e in examples])
        documents = [e.document for e in claims]
        shift = score([e.statement for e in claims], documents) - score(
            [negate(e.statement) for e in claims], documents
        )
        found[f"{name}_auc"] = area_under_curve(labels, values)
        found[f"{name}_f1"] = best_f1(labels, values)
        if len(claims):
            found[f"{name}_right_side"] = float(np.where(for_claim, shift > 0, shift < 0).mean())
    return found


def area_under_curve(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return how often a positive scores above a negative, ties counting half (Mann and Whitney).

    >>> area_under_curve(np.array([True, False, False]), np.array([2.0, 1.0, 2.0]))
    0.75
    """
    from scipy.stats import rankdata

    labels = np.asarray(labels, dtype=bool)
    positive, negative = labels.sum(), (~labels).sum()
    return float((rankdata(scores)[labels].sum() - positive * (positive + 1) / 2) / (positive * negative))


def best_f1(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the best F1 that any threshold on the scores gives."""
    labels, scores = np.asarray(labels, dtype=bool), np.asarray(scores)
    order = np.argsort(-scores, kind="stable")
    said, right = np.arange(1, len(labels) + 1), np.cumsum(labels[order])
    last_of_equals = np.append(np.diff(scores[order]) != 0, True)
    return float((2 * right / (said + labels.sum()))[last_of_equals].max())


def save_laptop(model: StanceModel, calibration: Calibration, folder: Path, facts: dict[str, Any]) -> Path:
    """Write what was learnt, in half precision, with its calibration and whatever should be known of it.

    Args:
        model: trained.
        calibration: of this model.
        folder: created if needed.
        facts: JSON-able: the recipe, the data, the scores on held-out topics.
    """
    from safetensors.torch import save_file

    from berdslib.judging.stance import learned

    folder.mkdir(parents=True, exist_ok=True)
    save_file({k: v.half().contiguous() for k, v in learned(model).items()}, folder / _TENSORS)
    with write_text(folder / _SETTINGS) as file:
        json.dump({"calibration": calibration._asdict(), **facts}, file, indent=1)
    return folder


def load_laptop(folder: Path = WEIGHTS, **options: Any) -> Laptop:
    """Load a judge that :func:`save_laptop` wrote; by default the one that comes with the package.

    Args:
        folder: where it was written.
        options: passed to :class:`Laptop`.

    Raises:
        MissingDataError: no such files there.
    """
    if not (folder / _TENSORS).is_file():
        raise MissingDataError(f"no weights of a laptop judge in {folder}; train some with notebook 05, or reinstall")
    from safetensors.torch import load_file

    from berdslib.judging.stance import new_model

    settings = json.loads((folder / _SETTINGS).read_text(encoding="utf-8"))
    model = new_model()
    tensors = {k: v.float() for k, v in load_file(folder / _TENSORS).items()}
    model.load_state_dict({**model.state_dict(), **tensors})
    digest = hashlib.sha256((folder / _TENSORS).read_bytes()).hexdigest()[:12]
    return Laptop(model, Calibration(**settings["calibration"]), digest, **options)
