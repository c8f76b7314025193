"""Options that several commands share, each written once, and how results are printed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from berdslib.errors import BerdsError, InputError, printable

Option = Callable[[Any], Any]
POSITIVE, NATURAL = click.IntRange(min=1), click.IntRange(min=0)
SHARE = click.FloatRange(0, 1, min_open=True)
FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
_AS_JSON = "berds.json"
SCORES = ("mean", "low", "high", "difference")  # the columns of a table of scores that are shares


def together(*options: Option) -> Option:
    """Make one decorator of several options."""

    def wrap(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return wrap


def completes(kind: str, apart: str = ",") -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """Complete the last of several names, each behind a character of `apart`; where none begins so, files."""

    def complete(_: click.Context, __: click.Parameter, typed: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        from berdslib.study.front import names
        from berdslib.study.published import census

        start = max(typed.rfind(one) for one in apart) + 1
        there = [name.replace(" ", "-") for name in census()["name"]] if kind == "table" else names(kind)
        begun = [name.rstrip("…") for name in there if name.casefold().startswith(typed[start:].casefold())]
        found = [CompletionItem(typed[:start] + name) for name in begun]
        return found or [CompletionItem(typed, type="file")]

    return complete


def text(names: str, said: str, default: str | None = None, **how: Any) -> Option:
    """Ask for a word by one name or several ("-m --model"); a default, if there is one, is shown."""
    shown: dict[str, Any] = {"show_default": bool(default)} | ({"default": default} if default is not None else {})
    return click.option(*names.split(), help=said, **shown | how)


def choice(names: str, values: Sequence[str], said: str) -> Option:
    """Offer one of several words, by default the first."""
    return text(names, said, values[0], type=click.Choice(values))


def number(names: str, default: float, said: str, kind: Any = POSITIVE) -> Option:
    """Ask for a number, by default a whole one from 1."""
    return click.option(*names.split(), default=default, show_default=True, type=kind, help=said)


def flag(names: str, said: str) -> Option:
    """Offer something that is done or not; one that is done unless it is not wanted is named "--this/--no-this"."""
    return click.option(*names.split(), is_flag=True, default="/" in names, show_default="/" in names, help=said)


def _writable(_: click.Context, __: click.Parameter, path: Any) -> Any:
    """Say before anything is computed that nothing could be written."""
    there = next((one for one in Path(path or "").absolute().parents if one.exists()), Path())
    problem = "" if os.access(there, os.W_OK) else "no permission"
    problem = problem if there.is_dir() else "its folder is a file"
    if path and problem:
        raise InputError(f"cannot be written: {problem}", path=path)
    return path


def output(said: str, kind: Any = FILE, required: bool = True) -> Option:
    """Say where the result goes."""
    return click.option("-o", "--output", required=required, type=kind, callback=_writable, help=said)


def questions(**how: Any) -> Option:
    """Say which questions are asked; required, unless told otherwise."""
    names = "Data set names, comma-separated, a file or a BEIR folder; RELEASE:SCENARIO for PerspectiveArg."
    own = "Data set name, file or folder. [the corpus of the questions]"
    return together(
        text("-q --questions", names, shell_complete=completes("dataset"), **{"required": True} | how),
        split("train", "dev", "test", "all"),
        number("--limit", 0, "Only the first N questions of each set; 0 for all.", click.INT),
        text("-c --corpus", own, shell_complete=completes("dataset")),
    )


def split(*names: str) -> Option:
    """Say of which split the questions are."""
    said = "[dev where a data set has splits, or its first; all questions of a file]"
    return text("--split", said, type=click.Choice(names))


def systems(default: str | None, more: str = "") -> Option:
    """Say what searches."""
    parts = (
        "Systems, comma-separated: a retriever and its parts, such as minilm+mmr:0.9, bm25+mmr:0.9@uae-large, "
        "minilm+pap:1.0, bm25+expand:rule, bm25+multi:rule, minilm+expand:recorded+coverage:0.5, "
        "minilm+expand:chat:MODEL (or hyde)."
    )
    return text("-r --systems", parts + more, default, shell_complete=completes("retriever"))


def judge(default: str | None = "gold", more: str = "") -> Option:
    """Say who judges."""
    names = (
        "gold, random, overlap, similarity, laptop, laptop-mpnet, mistral-berds, nli-t5, causal:MODEL, nli:MODEL, "
        "cross:MODEL or chat:MODEL; a committee is joined by +, such as overlap+similarity. The prompt's wording may "
        "follow: causal:MODEL@published; an adapter and 4 bits too: causal:MODEL+adapter:FOLDER+4bit@published."
    )
    return text("-j --judge", names + more, default, shell_complete=completes("judge", ",+"))


def verdicts(name: str) -> Option:
    """Say what the passages are said to support."""
    return text(name, "Verdicts (.tsv, .csv, .jsonl), diversity qrels or a BEIR folder. [the gold of the questions]")


RUNS = text("--run runs", "A finished run in TREC's six columns, or a predictions file of PerspectiveArg (.jsonl); "
            "may be repeated. [NAME: the file's]", multiple=True, metavar="[NAME=]FILE")  # fmt: skip
READING = together(
    number("--least", 20, "Arguments that a predictions file must list for each query; with 0 it may also have no "
           "answer, which scores as nothing found.", NATURAL),
    choice("--repeats", ["error", "once"], "An id that a query of a predictions file lists twice: an error, or counted "
           "once, where it is first."),
)  # fmt: skip
STORE = text("--store", "Verdict store. [user cache]", type=FILE)
SEARCHING = together(
    text("--aspect-judge", "Judge that xquad, pm2 and coverage use for generated perspectives: those from the chain's "
         "expansion, else recorded ones, else perspectives made by rule.", "laptop"),
    text("--recordings", "Keeps what a chat model answers: what is in this file is not asked again.", type=FILE),
    number("--depth", 100, "Candidates that a cross-encoder or a diversifier chooses from."),
    STORE,
)  # fmt: skip
SEED = number("--seed", 0, "Of the draw.", NATURAL)
MEASURES = text("-m --measures", "Comma-separated, such as MRecall@10. For PerspectiveArg also task, or official: its "
                "measures at 4, 8, 16 and 20 by the papers' definitions, or the published script's. "
                "[MRecall@5,Precision@5]", shell_complete=completes("measure"))  # fmt: skip
PLACES = together(
    text("--workers", "Processes of this machine that work at the same time. [one]", type=POSITIVE),
    text("--scheduler", "Work on the dask cluster there, such as tcp://host:8786.", metavar="ADDRESS"),
)
NOT_BOTH = "give --workers for this machine or --scheduler for a cluster, not both"
JSON = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, _, value: ctx.meta.update({_AS_JSON: value}),
    help="Print JSON; shares are from 0 to 1.",
)


# ---------------------------------------------------------------- what goes wrong


@contextmanager
def costs_itself_only(failed: list[str], what: str = "") -> Iterator[None]:
    """Report an error of the block and go on: what has been computed, and what comes later, is not lost."""
    try:
        yield
    except BerdsError as error:
        failed.append(f"{what}: {error}" if what else str(error))
        tell(f"berds: {failed[-1]}")


def refuse(when: object, said: str) -> None:
    """End the command with 2 and a word on its options, where something is so."""
    if when:
        raise click.UsageError(said)


def end(failed: object) -> NoReturn:
    """End the command, with 1 where something has failed."""
    click.get_current_context().exit(1 if failed else 0)


# ---------------------------------------------------------------- what is printed


def wants_json() -> bool:
    """Return whether the command was told --json."""
    return bool(click.get_current_context().meta.get(_AS_JSON))


def tell(sentence: str) -> None:
    """Say something to people, on stderr."""
    click.echo(printable(sentence), err=True)


def show(made: Any, lines: str | Callable[[], str]) -> None:
    """Print a result on stdout: as JSON, or in lines for people."""
    if wants_json():
        click.echo(json.dumps(made, indent=1, default=str))
    else:
        click.echo(printable(lines if isinstance(lines, str) else lines()))


def say(summary: Mapping[str, Any] | list[Any], sentence: str) -> None:
    """Report what was done: a sentence on stderr for people, or JSON on stdout for programs."""
    if wants_json():
        show(summary, "")
    else:
        tell(sentence)


def print_frame(frame: Any, shares: Container[str] = ()) -> None:
    """Print a table, with the columns that are shares in percent; or its rows as JSON, with shares from 0 to 1."""
    if wants_json():
        click.echo(frame.to_json(orient="records", indent=1))
        return
    of_shares = {name: f"{name}, %" for name in frame.columns if name in shares}
    in_percent = {name: (100 * frame[name]).map("{:.1f}".format, na_action="ignore") for name in of_shares}
    shown = frame.assign(**in_percent).rename(columns=of_shares)
    click.echo(printable(shown.to_string(index=False, float_format=lambda x: f"{x:.4f}", na_rep="–")))


def print_tables(tables: Mapping[str, Any], more: Mapping[str, Any] | None = None, shares: Container[str] = ()) -> None:
    """Print several tables, one below the other, or all and more as one JSON object: name → rows."""
    if wants_json():
        rows = {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}
        show({**(more or {}), **rows}, "")
        return
    for place, table in enumerate(table for table in tables.values() if len(table)):
        click.echo("\n" * bool(place), nl=False)
        print_frame(table, shares)


def write_tables(folder: Path, tables: Mapping[str, Any]) -> None:
    """Write tables into a folder as CSV, with shares from 0 to 1."""
    from berdslib.study.tables import write_csv

    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", table)
