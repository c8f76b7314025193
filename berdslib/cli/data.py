"""`berds data`: what data sets there are, what they are, and how to get them."""

from __future__ import annotations

import json
from pathlib import Path

import click

from berdslib.cli.inputs import read_collection, read_run, split_names
from berdslib.cli.options import CORPUS, JSON, QUESTIONS, print_frame, say
from berdslib.cli.root import main
from berdslib.errors import InputError


@main.group()
def data() -> None:
    """Data sets: list them, describe them, download them."""


@data.command("list")
@JSON
def data_list(as_json: bool) -> None:
    """List the known data sets."""
    from berdslib.data.datasets import dataset, names

    rows = [dataset(name) for name in names()]
    if as_json:
        fields = ("name", "kind", "paper", "title", "licence")
        click.echo(json.dumps([{f: getattr(row, f) for f in fields} for row in rows], indent=1))
        return
    for row in rows:
        click.echo(f"{row.name:22} {row.kind:10} {row.paper:15} {row.title}")


@data.command("card")
@click.argument("name")
@JSON
def data_card(name: str, as_json: bool) -> None:
    """Say what a data set is, its licence, and where it is looked for."""
    from dataclasses import asdict

    from berdslib.data.datasets import card, dataset

    one = dataset(name)
    click.echo(json.dumps(asdict(one) | {"loaders": list(one.loaders)}, indent=1) if as_json else card(name))


@data.command("fetch")
@click.argument("name")
@JSON
def data_fetch(name: str, as_json: bool) -> None:
    """Download a data set into the user cache; what is complete is kept, and an interrupted file is fetched anew."""
    from berdslib.data.datasets import fetch

    paths = [str(path) for path in fetch(name)]
    click.echo(json.dumps(paths, indent=1) if as_json else "\n".join(paths))


@data.command("stats")
@QUESTIONS
@JSON
def data_stats(questions: str, split: str | None, limit: int, as_json: bool) -> None:
    """Print the columns of BeRDS Table 1 for sets of questions."""
    import pandas as pd

    from berdslib.data.datasets import load_questions, statistics

    rows = [{"questions": name, **statistics(load_questions(name, split, limit))} for name in split_names(questions)]
    print_frame(pd.DataFrame(rows), as_json)


@data.command("export")
@click.argument("path", type=click.Path(path_type=Path))
@QUESTIONS
@CORPUS
@click.option("--gold", help="File of verdicts. [the gold verdicts of the questions]")
@click.option(
    "--layout",
    type=click.Choice(["beir", "berds"]),
    help="A BEIR folder, or the official BeRDS JSONL. [berds where PATH ends in .jsonl or .jsonl.gz, else beir]",
)
@click.option("--run", "run_path", type=click.Path(), help="TREC run that a BeRDS JSONL lists. [what has a verdict]")
@JSON
def data_export(
    path: Path,
    questions: str,
    split: str | None,
    limit: int,
    corpus: str | None,
    gold: str | None,
    layout: str | None,
    run_path: str | None,
    as_json: bool,
) -> None:
    """Write questions, passages and gold verdicts to PATH for other tools.

    BEIR knows no perspectives: a passage's score there is the number of perspectives that it supports. Its qrels are
    named after the split of the questions, or "test" where they have none or several.
    """
    from berdslib.data.formats import export_collection

    if run_path and not (layout == "berds" or str(path).removesuffix(".gz").endswith(".jsonl")):
        raise click.UsageError("a BEIR folder holds no run; --run is for a BeRDS JSONL")
    found = read_collection(questions, corpus, split, limit, gold=gold)
    asked, passages, verdicts = found.questions, found.passages, found.gold
    if verdicts is None:
        raise InputError(f"{questions!r} has no gold verdicts; give a file of verdicts with --gold")
    run = read_run(run_path, asked) if run_path else None
    splits = {q.split for q in asked}
    part = splits.pop() if len(splits) == 1 else ""
    export_collection(path, asked, passages, verdicts, layout=layout, split=part or "test", run=run)
    summary = {"output": path, "questions": len(asked), "corpus_size": len(passages), "gold": len(verdicts)}
    say(summary, f"{len(asked)} questions, {len(passages)} passages, {len(verdicts)} verdicts → {path}", as_json)
