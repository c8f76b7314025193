"""`berds data`: what data sets there are, what they are, and how to get them."""

from __future__ import annotations

import json

import click

from berdslib.cli.inputs import split_names
from berdslib.cli.options import JSON, QUESTIONS, print_frame
from berdslib.cli.root import main


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
    """Download a data set into the user cache; interrupted downloads are resumed."""
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
