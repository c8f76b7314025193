"""`berds judge-eval`: judges measured against people's labels."""

from __future__ import annotations

from pathlib import Path

import click

from berdslib.cli.inputs import split_names
from berdslib.cli.options import JSON, STORE, print_frame
from berdslib.cli.root import main


@main.command("judge-eval")
@click.option(
    "--data", "path", required=True, help="Labelled pairs: a table of question, document, perspective, label."
)
@click.option("-j", "--judges", default="random,overlap,similarity,laptop", show_default=True, help="Comma-separated.")
@STORE
@JSON
def judge_eval(path: str, judges: str, store: Path | None, as_json: bool) -> None:
    """Evaluate judges against human labels; intervals are clustered by question. BeRDS Table 4.

    Use this only for evaluation: choose judges, prompts and thresholds on other data.
    """
    from berdslib.data.pairs import read_labelled_pairs
    from berdslib.judging.store import VerdictStore
    from berdslib.study.judges import judge_table

    pairs = read_labelled_pairs(path)
    table = judge_table(pairs, split_names(judges), VerdictStore(store))
    questions, positive = len({p.question for p in pairs}), sum(p.label for p in pairs) / len(pairs)
    click.echo(f"{len(pairs)} pairs, {questions} questions, {positive:.1%} positive", err=True)
    print_frame(table, as_json)
