"""`berds pir`: projections scored on perspective-aware retrieval."""

from __future__ import annotations

from pathlib import Path

import click

from berdslib.cli.inputs import split_names
from berdslib.cli.options import JSON, POSITIVE, RECORDINGS, print_frame
from berdslib.cli.root import main


@main.command()
@click.option("-d", "--data", "source", default="pir-demo", show_default=True, help="Data set, JSON file or folder.")
@click.option("-t", "--tasks", default="", help="Comma-separated. [all of them]")
@click.option("-m", "--methods", default="baseline,pap,pap+", show_default=True, help="Comma-separated, or all.")
@click.option("-e", "--encoder", default="minilm", show_default=True, help="A dense retriever's name.")
@click.option("-k", default=5, show_default=True, type=POSITIVE, help="Cut-off.")
@click.option(
    "--single-root",
    default="keep",
    show_default=True,
    type=click.Choice(["keep", "zero", "skip"]),
    help="Score of a root with one query; zero matches the published code.",
)
@click.option(
    "--difference",
    default="ambigqa",
    show_default=True,
    help="Tasks whose perspective text is the query itself; they use query - root instead.",
)
@click.option(
    "--extract",
    default="",
    metavar="rule|chat:MODEL",
    help="Cut root and perspective out of the raw query, by a rule or a chat model. [those of the data set]",
)
@RECORDINGS
@click.option(
    "--gold",
    default="own",
    show_default=True,
    type=click.Choice(["own", "official"]),
    help="Gold texts of a root's first query; official matches the published code, which adds those of the others.",
)
@JSON
def pir(
    source: str,
    tasks: str,
    methods: str,
    encoder: str,
    k: int,
    single_root: str,
    difference: str,
    extract: str,
    recordings: Path | None,
    gold: str,
    as_json: bool,
) -> None:
    """Score projections on perspective-aware retrieval: p-Recall@k, methods x tasks. PIR Tables 4 and 8."""
    from berdslib.study.pir import score_methods

    table = score_methods(
        source,
        split_names(tasks) if tasks else [],
        [] if methods == "all" else split_names(methods),
        encoder=encoder,
        k=k,
        single_root=single_root,
        difference=split_names(difference) if difference else [],
        extract=extract,
        recordings=recordings,
        gold=gold,
    )
    print_frame(table, as_json)
