"""Tune a small language model as judge with the published recipe (BeRDS 5.1, A.4, A.5), on public pairs.

    BERDS_DATA=../shared/data python scripts/training/lora.py -o FOLDER             (trains; a killed run goes on)
    BERDS_DATA=../shared/data python scripts/training/lora.py -o FOLDER --measure   (once, at the very end)

3,000 pairs of 50 questions, 60 of each, as in the paper, whose pairs are not public: arguments of debates, Wikipedia
around claims, and Wikipedia without any. The loss and the threshold come from other questions, none near those that are
trained on. The pairs that people labelled are read with --measure only.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from berdslib.data.datasets import load_pairs
from berdslib.data.records import Passage
from berdslib.errors import InputError
from berdslib.evaluation.judges import auc
from berdslib.files import write_text
from berdslib.judging.base import PUBLISHED_POSITIVE_SHARE, Judge, Pair
from berdslib.judging.causal import load_causal
from berdslib.judging.examples import Example
from berdslib.judging.finetune import Recipe, fine_tune
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.models.encoders import get_encoder
from berdslib.stats import choose_threshold
from berdslib.study.figures.style import PALETTE, use_style
from berdslib.study.raters import as_asked, measured_by_labels

sys.path.append(str(Path(__file__).parents[1]))
from training.laptop import like_the_web
from training.pairs import LAPTOP_SHARES, build, split_by_topic

QUESTIONS, PAIRS_EACH = 50, 60
LOSS_PAIRS = 160  # of the held-out pairs, those whose loss is followed while training


def examples(questions: int = QUESTIONS, each: int = PAIRS_EACH, seed: int = 0) -> tuple[list[Example], list[Example]]:
    """Return (pairs to train on, pairs of other questions), each in a drawn order."""
    beside = like_the_web(LAPTOP_SHARES)
    pool = [e for e in build(["debates", "claims", "neutral"], seed) if not e.kind.startswith("claim:bare")]
    by_question: dict[str, list[Example]] = defaultdict(list)
    for example in split_by_topic(pool, get_encoder().encode_passages, beside=beside)[0]:
        by_question[example.topic].append(example)
    enough = sorted(topic for topic, found in by_question.items() if len(found) >= each)
    if len(enough) < questions:
        raise InputError(f"{len(enough)} questions have {each} pairs; {questions} are wanted", field="questions")
    draw = random.Random(seed)
    chosen = [e for topic in draw.sample(enough, questions) for e in draw.sample(by_question[topic], each)]
    return chosen, draw.sample(beside, len(beside))


def tune(checkpoint: str, folder: Path, recipe: Recipe, pairs: Sequence[Example], held_out: Sequence[Example]) -> None:
    """Train, choose the threshold of the tuned and of the untrained model, and write result.json and loss.png."""
    started = time.perf_counter()
    trained = fine_tune(pairs, folder, checkpoint, held_out=held_out[:LOSS_PAIRS], **asdict(recipe))
    result: dict[str, Any] = {
        "checkpoint": checkpoint,
        "recipe": asdict(recipe),
        "pairs": len(pairs),
        "questions": len({e.topic for e in pairs}),
        "positive": float(np.mean([e.supports for e in pairs])),
        "minutes_of_this_run": (time.perf_counter() - started) / 60,
        "losses": trained.losses,
        "held_out_scores": trained.held_out.to_dict("records"),
        "held_out": {"pairs": len(held_out), "questions": len({e.topic for e in held_out})},
    }
    place = str(trained.folder)
    losses = pd.DataFrame(trained.losses, columns=["step", "loss"]).set_index("step")
    losses["held_out"] = trained.held_out.set_index("step")["loss"]
    del trained  # one model at a time
    labels = np.array([e.supports for e in held_out])
    for name, adapter in (("untrained", ""), ("tuned", place)):
        judge = load_causal(checkpoint, adapter=adapter)
        p_yes = _judged(judge, [Pair(e.topic, 0, Passage("", e.document), e.statement) for e in held_out], folder)
        threshold = choose_threshold(labels, p_yes, PUBLISHED_POSITIVE_SHARE)
        result["held_out"][name] = {"threshold": threshold, "auc": auc(labels, p_yes)}
    _write(folder / "result.json", result)
    losses.round(4).to_csv(folder / "lora_losses.csv", lineterminator="\n")
    draw_losses(result, folder / "loss.png")


def measure(folder: Path) -> pd.DataFrame:
    """Return what people's labels say about the untrained and the tuned model, and write it beside the result."""
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    pairs, tables = load_pairs("pers-det"), []
    for name, adapter in (("untrained", ""), ("tuned", str(folder / "model"))):
        p_yes = _judged(load_causal(result["checkpoint"], adapter=adapter), as_asked(pairs), folder)
        table = measured_by_labels(pairs, p_yes, result["held_out"][name]["threshold"])
        tables.append(table.assign(judge=name, threshold=result["held_out"][name]["threshold"]))
    found = pd.concat(tables, ignore_index=True)
    _write(folder / "people.json", {"pairs": len(pairs), "rows": found.to_dict("records")})
    return found


def draw_losses(result: dict[str, Any], path: Path) -> None:
    """Draw the loss of each step, its running mean and that of held-out questions."""
    steps, losses = np.array(result["losses"]).T
    use_style()
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    axes.plot(steps, losses, color="0.8", lw=0.8, label="a batch")
    axes.plot(steps, pd.Series(losses).rolling(25, min_periods=1).mean(), color="0.3", label="mean of 25 batches")
    held_out = pd.DataFrame(result["held_out_scores"])
    axes.plot(
        held_out["step"], held_out["loss"], "o-", color=PALETTE[4], label=f"{LOSS_PAIRS} pairs of held-out questions"
    )
    axes.set(xlabel="step", ylabel="loss", ylim=(0, None))
    axes.legend()
    figure.savefig(path, dpi=150)


def _judged(judge: Judge, pairs: Sequence[Pair], folder: Path) -> np.ndarray:
    return judge_pairs(judge, pairs, VerdictStore(folder / "verdicts.sqlite"))[0]


def _write(path: Path, content: dict[str, Any]) -> None:
    with write_text(path) as file:
        json.dump(content, file, indent=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", default="smollm2")
    parser.add_argument("-o", "--out", type=Path, required=True, help="a folder; checkpoints are kept there")
    parser.add_argument("--held-out", type=int, default=1000, help="pairs of other questions to choose on")
    parser.add_argument("--measure", action="store_true", help="measure once on the pairs that people labelled")
    asked = parser.parse_args()
    if asked.measure:
        print(measure(asked.out).to_string(index=False))
        return
    pairs, held_out = examples()
    tune(asked.model, asked.out, replace(Recipe(), save_every=25), pairs, held_out[: asked.held_out])
    print((asked.out / "result.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
