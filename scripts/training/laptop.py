"""Training a `laptop` judge and comparing it with the cosine it began as; the shipped one was made by this."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import expit, logit
from sklearn.metrics import precision_recall_curve, roc_auc_score

from berdslib.data.records import Passage
from berdslib.errors import InputError
from berdslib.files import atomic_path
from berdslib.judging.base import PUBLISHED_POSITIVE_SHARE, Pair
from berdslib.judging.examples import Example
from berdslib.judging.laptop import (
    FAST,
    Design,
    Laptop,
    learned,
    load_laptop,
    load_trained,
    new_model,
    save_laptop,
)
from berdslib.judging.refit import Calibration, calibrate
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.models.encoders import get_encoder
from berdslib.statements import negate
from training.contrast import UNLABELLED, mixed
from training.pairs import LAPTOP_SHARES, is_held_out, mixture, split_by_topic
from training.stance import StanceRecipe, Training

logger = logging.getLogger(__name__)

# The held-out examples whose documents look like what a search engine lists; calibration rests on these.
_LIKE_THE_WEB = ("debate", "claim:window", "neutral", "sample")
_WEB_SHARES = {"debates": 1.0, "claims": 1.0, "neutral": 0.3, "sample": 1.0}


class TrainedLaptop(NamedTuple):
    """A judge, what it scored on held-out topics (see :func:`held_out_scores`), and the loss of each step."""

    judge: Laptop
    scores: dict[str, float]
    losses: list[float]


def train_laptop(
    folder: Path,
    shares: Mapping[str, float] = LAPTOP_SHARES,
    recipe: StanceRecipe | None = None,
    design: Design | None = None,
    *,
    start: Path | None = None,
    teacher: Laptop | None = None,
    own_share: float = 0.5,
    save_every: int = 100,
    one_in: int = 10,
    positive_share: float = PUBLISHED_POSITIVE_SHARE,
) -> TrainedLaptop:
    """Train, calibrate and save a laptop judge; the defaults are those of the shipped one.

    Args:
        folder: where checkpoints and the finished judge go; a run that was killed there goes on.
        shares: source of training pairs → share of its examples a pass.
        recipe: None for the defaults.
        design: what the model is made of; None for that of `start`, or else of the fast judge.
        start: a saved judge whose weights training goes on from; None begins with the base.
        teacher: a better judge, whose probabilities are learnt as well (Hinton et al., 2015).
        own_share: of what is learnt of a labelled pair, that of its label; the rest is the teacher's. At 1 the teacher
            is asked about pairs without labels only.
        save_every: steps between two checkpoints.
        one_in: one topic in so many is held out.
        positive_share: of the pairs that the judge will meet; by default what the paper counted among web passages.

    Raises:
        InputError: a source without enough topics, labels of one kind only, or pairs without labels and no teacher.
        MissingDataError: a data set that is not on this machine.
    """
    recipe = recipe or StanceRecipe()
    if UNLABELLED in shares and teacher is None:
        raise InputError("nobody has labelled these pairs; a teacher is needed", field=UNLABELLED)
    model = new_model(design or FAST, recipe.seed) if start is None else load_trained(start)[0]
    if design not in (None, model.design):
        raise InputError(f"{start} is made of {model.design}, not of {design}", field="design")
    encode, held_out = get_encoder().encode_passages, like_the_web(shares, one_in)

    def training(number: int) -> list[Example]:
        found = split_by_topic(mixed(shares, recipe.seed + number), encode, beside=held_out, one_in=one_in)[0]
        return found if teacher is None else taught(found, teacher, own_share, VerdictStore(folder / "teacher.sqlite"))

    losses = run_kept(Training(model, training, recipe), folder, save_every)
    labels = np.array([e.supports for e in held_out])
    judge = Laptop(model, Calibration(1.0, 0.0, 0.5), "not calibrated yet")
    logits = judge.logits([e.statement for e in held_out], [e.document for e in held_out])
    calibration = calibrate(logits, labels, positive_share)
    scores = held_out_scores(judge, held_out)  # of its logits; it has read the passages already
    facts: dict[str, Any] = {"recipe": asdict(recipe), "shares": dict(shares), "one_in": one_in, "held_out": scores}
    if teacher:
        facts["teacher"] = {"judge": teacher.id, "own_share": own_share}
    save_laptop(model, calibration, folder / "judge", facts)
    return TrainedLaptop(load_laptop(folder / "judge"), scores, losses)


def run_kept(training: Training, folder: Path, save_every: int) -> list[float]:
    """Run a training, with a checkpoint in `folder` every so many steps; one that was killed goes on from the last."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"checkpoint-{digest_of(training)}.pt"
    for unfinished in folder.glob(f".{path.name}.*"):
        unfinished.unlink()  # of a run that was killed while it wrote
    if path.exists():
        state = torch.load(path, weights_only=True, map_location="cpu")
        training.model.load_state_dict(state["model"], strict=False)
        training.optimiser.load_state_dict(state["optimiser"])
        training.schedule.load_state_dict(state["schedule"])
        torch.set_rng_state(state["draws"])
        if state["gpu_draws"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["gpu_draws"])
        training.losses = list(state["losses"])
        logger.info("going on from step %d of %s", len(training.losses), path)

    def save(running: Training) -> None:
        if len(running.losses) % save_every:
            return
        state = {
            "model": learned(running.model),
            "optimiser": running.optimiser.state_dict(),
            "schedule": running.schedule.state_dict(),
            "draws": torch.get_rng_state(),
            "gpu_draws": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "losses": running.losses,
        }
        with atomic_path(path) as unfinished:  # the old one is kept until the new one is complete
            torch.save(state, unfinished)

    return training.run(save)


def digest_of(training: Training) -> str:
    """Return what names a training: design, first weights, recipe, and every batch in its order."""
    rows = [[(e.document, e.statement, e.supports, e.p) for e in batch] for batch in training.plan]
    digest = hashlib.sha256(json.dumps([training.model.design, asdict(training.recipe), rows]).encode())
    for weight in learned(training.model).values():
        digest.update(weight.float().cpu().numpy().tobytes())
    return digest.hexdigest()[:12]


def taught(
    examples: Sequence[Example], teacher: Laptop, own_share: float = 0.5, store: VerdictStore | None = None
) -> list[Example]:
    """Return the examples with what is to be learnt of each: its label and what the teacher thinks, mixed.

    Args:
        examples: labelled ones, or ``UNLABELLED`` ones, of which the teacher's word is all there is.
        teacher: its probabilities are taken as training left them, before calibration to the share of positives on the
            web: the pupil learns from as many positives as the teacher did, and is calibrated itself afterwards.
        own_share: of the label, from 0 to 1; at 1 the teacher is asked about ``UNLABELLED`` examples only.
        store: where the teacher's verdicts are kept, so that a run that was killed does not ask again, and goes on with
            the same numbers.

    Raises:
        InputError: a share beyond that.
    """
    if not 0 <= own_share <= 1:
        raise InputError(f"must be from 0 to 1, not {own_share}", field="own_share")
    own = [0.0 if e.kind == UNLABELLED else own_share for e in examples]
    asked = [e for e, share in zip(examples, own, strict=True) if share < 1]
    pairs = [Pair("", 0, Passage("", e.document), e.statement) for e in asked]
    slope, shift, _ = teacher.calibration
    logits = (logit(judge_pairs(teacher, pairs, store)[0]) - shift) / slope
    thought = iter(expit(logits).tolist())
    return [
        e._replace(p=share * e.supports + (1 - share) * next(thought) if share < 1 else float(e.supports))
        for e, share in zip(examples, own, strict=True)
    ]


def like_the_web(shares: Mapping[str, float], one_in: int = 10) -> list[Example]:
    """Return the examples of held-out topics whose documents look like what a search engine lists.

    They are of all documents of these sources, whatever share is trained on; only text without claims stays as rare as
    it was when the first judge was made.

    Args:
        shares: what is trained on.
        one_in: one topic in so many is held out.

    Raises:
        InputError: none of the sources is like the web, or none of their topics is held out.
    """
    wanted = {name: _WEB_SHARES[name] for name in shares if name in _WEB_SHARES}
    found = [e for e in mixture(wanted, 0) if e.kind.startswith(_LIKE_THE_WEB) and is_held_out(e.topic, one_in)]
    if not found:
        raise InputError(f"of {', '.join(shares)}, no held-out topic has passages to calibrate on", field="shares")
    return found


def held_out_scores(judge: Laptop, examples: Sequence[Example]) -> dict[str, float]:
    """Compare the judge with plain cosine on held-out examples: area under the ROC curve, best F1, negation test.

    Args:
        judge: any laptop judge.
        examples: of topics that it was not trained on.

    Returns:
        n, positive_share, and for "laptop" and "cosine": auc, f1 (at the threshold that is best here, so a little too
        good for both), right_side (how often the claim that an argument supports beats its negation) and right_side_n.
    """
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
        found[f"{name}_auc"] = float(roc_auc_score(labels, values))
        found[f"{name}_f1"] = best_f1(labels, values)
        if len(claims):
            found[f"{name}_right_side"] = float(np.where(for_claim, shift > 0, shift < 0).mean())
    return found


def best_f1(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the best F1 that any threshold on the scores gives."""
    precision, recall, _ = precision_recall_curve(labels, scores)
    return float((2 * precision * recall / np.maximum(precision + recall, 1e-12)).max())
