"""Options that several commands share, each written once, and how results are printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from berdslib.errors import BerdsError, printable

Option = Callable[[Any], Any]
POSITIVE, NATURAL = click.IntRange(min=1), click.IntRange(min=0)
SHARE = click.FloatRange(0, 1, min_open=True)
FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)


def together(*options: Option) -> Option:
    """Make one decorator of several options."""

    def wrap(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return wrap


def choice(name: str, values: Sequence[str], said: str) -> Option:
    """Offer one of several words, by default the first."""
    return click.option(name, type=click.Choice(values), default=values[0], show_default=True, help=said)


def number(name: str, default: float, said: str, kind: Any = POSITIVE) -> Option:
    """Ask for a number, by default a whole one from 1."""
    return click.option(name, default=default, show_default=True, type=kind, help=said)


def flag(name: str, said: str) -> Option:
    """Offer something that is done or not."""
    return click.option(name, is_flag=True, help=said)


def questions(**how: Any) -> Option:
    """Say which questions are asked; required, unless told otherwise."""
    names = "Data set names, comma-separated, a file or a BEIR folder; RELEASE:SCENARIO for PerspectiveArg."
    return together(
        click.option("-q", "--questions", help=names, **({"required": True} | how)),
        click.option("--split", type=click.Choice(["train", "dev", "test", "all"]), help="[dev where a data set has "
                     "splits, else all]"),
        click.option("--limit", default=0, help="Only the first N questions of each set; 0 for all.",
                     show_default=True),
        click.option("-c", "--corpus", help="Data set name, file or folder. [the corpus of the questions]"),
    )  # fmt: skip


def systems(default: str | None, more: str = "") -> Option:
    """Say what searches."""
    parts = (
        "Systems, comma-separated: a retriever and its parts, such as minilm+mmr:0.9, minilm+pap:1.0, "
        "bm25+expand:rule, bm25+multi:rule, minilm+expand:recorded+coverage:0.5, minilm+expand:chat:MODEL (or hyde)."
    )
    return click.option("-r", "--systems", default=default, show_default=True, help=parts + more)


def judge(default: str | None = "gold", more: str = "") -> Option:
    """Say who judges."""
    names = (
        "gold, random, overlap, similarity, laptop, laptop-mpnet, mistral-berds, nli-t5, causal:MODEL, "
        "nli:MODEL, cross:MODEL or chat:MODEL; a committee is joined by +, such as overlap+similarity."
    )
    return click.option("-j", "--judge", default=default, show_default=True, help=names + more)


def output(said: str, kind: Any = FILE, required: bool = True) -> Option:
    """Say where the result goes."""
    return click.option("-o", "--output", required=required, type=kind, help=said)


RUNS = click.option(
    "--run",
    "runs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="A finished run in TREC's six columns, or a predictions file of PerspectiveArg (.jsonl); may be repeated. "
    "[NAME: the file's]",
)
READING = together(
    number("--least", 20, "Arguments that a predictions file must list for each query; with 0 it may also have no "
           "answer, which scores as nothing found.", NATURAL),
    choice("--repeats", ["error", "once"], "An id that a query of a predictions file lists twice: an error, or counted "
           "once, where it is first."),
)  # fmt: skip
TITLE_POSITION = click.option(
    "--title-position",
    type=click.Choice(["before", "after", "none"]),
    help="Where the judge reads a passage's title. [the judge's own default]",
)
STORE = click.option("--store", type=FILE, help="Verdict store. [user cache]")
SEARCHING = together(
    click.option("--aspect-judge", default="laptop", show_default=True, help="Judge that xquad, pm2 and coverage use "
                 "for generated perspectives: those from the chain's expansion, else recorded ones, else perspectives "
                 "made by rule."),
    click.option("--recordings", type=FILE, help="File that keeps what a chat model answers: what is in it is not "
                 "asked again."),
    number("--depth", 100, "Candidates that a cross-encoder or a diversifier chooses from."),
    STORE,
)  # fmt: skip
GOLD = click.option("--gold", help="File of verdicts. [the gold verdicts of the questions]")
SEED = number("--seed", 0, "Of the draw.", NATURAL)
MEASURES = click.option(
    "-m",
    "--measures",
    help="Comma-separated, such as MRecall@10. For PerspectiveArg also task, or official: its measures at 4, 8, 16 and "
    "20 by the papers' definitions, or the published script's. [MRecall@5,Precision@5]",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@contextmanager
def costs_itself_only(failed: list[str], what: str = "") -> Iterator[None]:
    """Report an error of the block and go on: what has been computed, and what comes later, is not lost."""
    try:
        yield
    except BerdsError as error:
        failed.append(f"{what}: {error}" if what else str(error))
        click.echo(printable(f"berds: {failed[-1]}"), err=True)


def refuse(when: object, said: str) -> None:
    """End the command with 2 and a word on its options, where something is so."""
    if when:
        raise click.UsageError(said)


def end(failed: object) -> NoReturn:
    """End the command, with 1 where something has failed."""
    click.get_current_context().exit(1 if failed else 0)


def say(summary: Mapping[str, Any] | list[Any], sentence: str, as_json: bool) -> None:
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


def print_tables(tables: Mapping[str, Any], as_json: bool = True) -> None:
    """Print several tables, one below the other, or as one JSON object: name → rows."""
    if as_json:
        rows = ",\n".join(f'"{n}": {t.to_json(orient="records", indent=1)}' for n, t in tables.items())
        click.echo("{" + rows + "}")
        return
    for place, table in enumerate(table for table in tables.values() if len(table)):
        click.echo("\n" * bool(place), nl=False)
        print_frame(table, as_json)
