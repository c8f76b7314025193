"""Train the judges that come with the package, and one that does not, on the data sets below BERDS_DATA.

    BERDS_DATA=../shared/data python scripts/train_judges.py laptop|laptop-mpnet|pupil -o FOLDER

A stage first trains the stages that it starts from and learns from, unless FOLDER has them already; a run that was
killed goes on where it was. The weights of `laptop-mpnet` came about in the same way but for three steps: `mpnet-short`
was a trial script outside the package, `mpnet-long` ran before training texts were compared with held-out passages by
runs of twelve words, and of the last 320 batches of `laptop-mpnet` every other one was left out (docs/laptop_judge.md).
"""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from training.laptop import train_laptop
from training.pairs import LAPTOP_SHARES
from training.stance import StanceRecipe

from berdslib.judging.laptop import FAST, Design, Laptop, load_laptop

MPNET = Design("mpnet", "apart", 16)


class Stage(NamedTuple):
    """What is trained on what, from which stage's weights on, and which stage's judge labels what nobody has."""

    shares: Mapping[str, float]
    recipe: StanceRecipe
    design: Design
    start: str = ""
    teacher: str = ""


def shares(text: str) -> dict[str, float]:
    """Return "name share, name share" as a dict."""
    return {name: float(share) for name, _, share in (part.strip().rpartition(" ") for part in text.split(","))}


def slowly(seed: int) -> StanceRecipe:
    return StanceRecipe(learning_rate=2e-4, passes=1, documents=12, seed=seed)


STAGES = {
    "mpnet-short": Stage(shares("stances 0.1, beliefs 0.1, entailment 0.2, relation 0.3"), slowly(0), MPNET),
    "mpnet-long": Stage(
        shares(
            "stances 0.3, beliefs 0.4, key_points 0.1, debates 0.3, claims 0.3, neutral 0.1, entailment 0.2, "
            "inserted 0.08, refuted 0.12, both sides 0.1, copied 0.08, relation 0.3"
        ),
        slowly(0),
        MPNET,
        start="mpnet-short",
    ),
    "laptop-mpnet": Stage(
        shares(
            "stances 0.6, beliefs 0.6, key_points 0.2, debates 0.8, claims 0.6, neutral 0.2, entailment 0.2, "
            "inserted 0.12, refuted 0.25, both sides 0.2, copied 0.12, relation 0.5"
        ),
        slowly(10),
        MPNET,
        start="mpnet-long",
    ),
    "laptop": Stage(LAPTOP_SHARES, StanceRecipe(), FAST),
    # Tried, no better than `laptop`, and not shipped.
    "pupil": Stage(
        shares(
            "stances 0.25, beliefs 0.3, key_points 0.1, debates 0.5, claims 0.4, neutral 0.2, entailment 0.1, "
            "inserted 0.08, refuted 0.15, both sides 0.12, copied 0.08, relation 0.3, unlabelled 0.5"
        ),
        StanceRecipe(passes=1, seed=20),
        FAST,
        start="laptop",
        teacher="laptop-mpnet",
    ),
}


def trained(name: str, folder: Path, save_every: int) -> Path:
    """Return where the judge of a stage is, which is trained if it is not there."""
    judge = folder / name / "judge"
    if (judge / "settings.json").is_file():
        return judge
    stage = STAGES[name]
    start = trained(stage.start, folder, save_every) if stage.start else None
    teacher: Laptop | None = load_laptop(trained(stage.teacher, folder, save_every)) if stage.teacher else None
    found = train_laptop(
        folder / name,
        stage.shares,
        stage.recipe,
        stage.design,
        start=start,
        teacher=teacher,
        own_share=1.0,
        save_every=save_every,
    )
    print(name, json.dumps(found.scores, indent=1), flush=True)
    return judge


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("-o", "--out", type=Path, required=True, help="a folder; each stage has its own in it")
    parser.add_argument("--save-every", type=int, default=20, help="steps between two checkpoints")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    torch.set_num_threads(os.cpu_count() or 1)
    trained(asked.stage, asked.out, asked.save_every)
