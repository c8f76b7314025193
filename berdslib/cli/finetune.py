"""`berds finetune`: train a judge on labelled pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from berdslib.cli import options
from berdslib.cli.options import FOLDER, JSON, NATURAL, flag, number, print_frame, say, text, wants_json
from berdslib.cli.root import main


@main.command()
@click.argument("pairs")
@text("-m --model", "A causal language model on Hugging Face, a folder, smollm2 or qwen-coder.", "smollm2")
@options.output("Folder for checkpoints; the adapter is in FOLDER/model.", FOLDER)
@number("--held-out", 0.1, "Share of the questions held out of training, to keep the best checkpoint by; with 0, the "
        "last is kept.", click.FloatRange(0, 1, max_open=True))  # fmt: skip
@text("--choose-on", "Other labelled pairs to keep the best checkpoint by. [--held-out]")
@text("--wording", "Wording of the prompt; see `berds prompts list`.", "ours")
@flag("--four-bit", "QLoRA: load the model in 4 bits.")
@number("--learning-rate", 1e-4, "Peak learning rate.", click.FLOAT)
@number("--warmup", 0.1, "Share of the steps with a rising learning rate.", click.FLOAT)
@number("--epochs", 2.0, "Passes over the pairs; may be a fraction.", click.FLOAT)
@number("--weight-decay", 0.001, "Weight decay of AdamW.", click.FLOAT)
@number("--rank", 64, "Rank of the LoRA matrices; 0 trains all weights.", NATURAL)
@number("--batch-size", 16, "Pairs in a batch.")
@number("--accumulate", 1, "Batches in a step.")
@flag("--checkpoint-gradients", "Take less memory and more time.")
@options.SEED
@number("--save-every", 0.125, "Steps between checkpoints, or a share of all steps if below 1.", click.FLOAT)
@JSON
def finetune(pairs: str, output: Path, model: str, wording: str, choose_on: str | None, **settings: Any) -> None:
    """Fine-tune a causal language model as a judge on PAIRS, with LoRA. BeRDS section A.5.

    PAIRS is a table with the columns question, document, perspective and label (1 or 0), as `berds rate pairs` writes
    it, or "sample". The defaults are the paper's. Every checkpoint is scored on pairs held out, and the one with the
    best F1 is kept. The same command continues an interrupted run.

    \b
    berds finetune pairs.tsv -m smollm2 --epochs 1 --batch-size 4 -o tuned
    berds rate judge --data pairs.tsv -j causal:smollm2+adapter:tuned/model
    """
    from berdslib.judging.finetune import fine_tune

    settings["held_out"] = choose_on or settings["held_out"]
    trained = fine_tune(pairs, output, model, wording=wording, **settings)
    judge = f"causal:{model}+adapter:{trained.folder}" if settings["rank"] else f"causal:{trained.folder}"
    if settings["four_bit"]:
        judge += "+4bit"
    if wording != "ours":
        judge += f"@{wording}"
    scores = trained.held_out
    if len(scores) and not wants_json():
        print_frame(scores, ("f1",))
    made = {"judge": judge, "folder": trained.folder, "steps": trained.steps, "losses": trained.losses}
    summary = made | {"held_out": scores.to_dict("records")}
    say(summary, f"{trained.steps} steps, loss {_first_and_last(trained.losses)} → -j {judge}")


def _first_and_last(losses: list[tuple[int, float]]) -> str:
    return f"{losses[0][1]:.3f} → {losses[-1][1]:.3f}"
