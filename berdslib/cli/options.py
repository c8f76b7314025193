"""Options that several commands share, and how results are printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from berdslib.errors import printable


def together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make one decorator of several options."""

    def wrap(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return wrap


SPLIT = click.option(
    "--split", type=click.Choice(["dev", "test", "all"]), help="[dev where a data set has splits, else all]"
)
QUESTIONS = together(
    click.option("-q", "--questions", required=True, help="Data set names, comma-separated, a file or a BEIR folder."),
    SPLIT,
    click.option("--limit", default=0, help="Only the first N questions of each set; 0 for all.", show_default=True),
)
CORPUS = click.option("-c", "--corpus", help="Data set name, file or folder. [the corpus of the questions]")
TITLE_POSITION = click.option(
    "--title-position",
    type=click.Choice(["before", "after", "none"]),
    help="Where the judge reads a passage's title. [the judge's own default]",
)
JUDGE = together(
    click.option(
        "-j",
        "--judge",
        default="gold",
        show_default=True,
        help="gold, random, overlap, similarity, laptop, laptop-mpnet, mistral-berds, nli-t5, causal:MODEL, "
        "nli:MODEL, cross:MODEL or chat:MODEL; a committee is joined by +, such as overlap+similarity.",
    ),
    TITLE_POSITION,
)
ASPECT_JUDGE = click.option(
    "--aspect-judge",
    default="laptop",
    show_default=True,
    help="Judge that xquad, pm2 and coverage use for generated perspectives: those from the chain's expansion, else "
    "recorded ones, else perspectives made by rule.",
)
RECORDINGS = click.option(
    "--recordings",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File that keeps what a chat model answers: what is in it is not asked again.",
)
DEPTH = click.option(
    "--depth",
    default=100,
    show_default=True,
    type=click.IntRange(min=1),
    help="Candidates that a cross-encoder or a diversifier chooses from.",
)
STORE = click.option("--store", type=click.Path(dir_okay=False, path_type=Path), help="Verdict store. [user cache]")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
MEASURES = click.option(
    "-m", "--measures", default="MRecall@5,Precision@5", show_default=True, help="Comma-separated, such as MRecall@10."
)
POSITIVE = click.IntRange(min=1)
FOLDER = click.Path(file_okay=False, path_type=Path)


def say(summary: dict[str, Any], sentence: str, as_json: bool) -> None:
    """Report the result: a sentence on stderr for people, or JSON on stdout for programs."""
    if as_json:
        click.echo(json.dumps(summary, indent=1, default=str))
    else:
        click.echo(printable(sentence), err=True)


def print_frame(frame: Any, as_json: bool) -> None:
    """Print a table, or its rows as JSON."""
    if as_json:
        click.echo(frame.to_json(orient="records", indent=1))
    else:
        click.echo(printable(frame.to_string(index=False, float_format=lambda x: f"{x:.4f}")))


def print_tables(tables: Mapping[str, Any]) -> None:
    """Print several tables as one JSON object: name → rows."""
    click.echo("{" + ",\n".join(f'"{n}": {t.to_json(orient="records", indent=1)}' for n, t in tables.items()) + "}")
