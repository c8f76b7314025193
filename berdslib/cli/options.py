"""Options that several commands share, and the printing of results and errors."""

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
POSITIVE = click.IntRange(min=1)
NATURAL = click.IntRange(min=0)
SHARE = click.FloatRange(0, 1, min_open=True)
FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
_AS_JSON = "berds.json"
SCORES = ("mean", "low", "high", "difference")  # the columns of a table of scores that are shares


def together(*options: Option) -> Option:
    """Join several options into one decorator."""

    def wrap(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return wrap


def completes(kind: str, apart: str = ",") -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """Complete the last of several names separated by characters of `apart`; without a match, complete files."""

    def complete(_: click.Context, __: click.Parameter, typed: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        from berdslib.study.front import names
        from berdslib.study.published import census

        tables = census()["name"].str.replace(" ", "-")
        candidates = tables.tolist() if kind == "table" else names(kind)
        start = max(typed.rfind(separator) for separator in apart) + 1
        beginning = typed[start:].casefold()
        items = []
        for name in candidates:
            if name.casefold().startswith(beginning):
                items.append(CompletionItem(typed[:start] + name.rstrip("…")))
        return items or [CompletionItem(typed, type="file")]

    return complete


def text(names: str, description: str, default: str | None = None, **how: Any) -> Option:
    """Return an option for a text, with one name or several ("-m --model"); help shows its default."""
    settings: dict[str, Any] = {"show_default": bool(default)}
    if default is not None:
        settings["default"] = default
    return click.option(*names.split(), help=description, **settings | how)


def one_of(names: str, values: Sequence[str], description: str) -> Option:
    """Return an option for one of several words, by default the first."""
    return text(names, description, values[0], type=click.Choice(values))


def number(names: str, default: float, description: str, kind: Any = POSITIVE) -> Option:
    """Return an option for a number, by default a positive whole number."""
    return click.option(*names.split(), default=default, show_default=True, type=kind, help=description)


def flag(names: str, description: str) -> Option:
    """Return an on/off option; a name such as "--this/--no-this" makes it on by default."""
    return click.option(*names.split(), is_flag=True, default="/" in names, show_default="/" in names, help=description)


def _writable(_: click.Context, __: click.Parameter, path: Any) -> Any:
    """Refuse an output that cannot be written, before anything is computed."""
    if not path:
        return path
    parents = Path(path).absolute().parents
    existing = next((parent for parent in parents if parent.exists()), Path())
    if not existing.is_dir():
        raise InputError("cannot be written: its folder is a file", path=path)
    if not os.access(existing, os.W_OK):
        raise InputError("cannot be written: no permission", path=path)
    return path


def output(description: str, kind: Any = FILE, required: bool = True) -> Option:
    """Return the option for the output."""
    return click.option("-o", "--output", required=required, type=kind, callback=_writable, help=description)


def _columns(_: click.Context, __: click.Parameter, value: str | None) -> dict[str, str] | None:
    """Parse names of columns, such as text=body,docno=doc_id."""
    if value is None:
        return None
    named = {}
    for pair in value.split(","):
        ours, equals, theirs = (part.strip() for part in pair.partition("="))
        if not (ours and equals and theirs):
            raise click.BadParameter(f"{pair!r} is not OURS=YOURS, such as text=body")
        named[ours] = theirs
    return named


def questions(**how: Any) -> Option:
    """Return the options that choose questions and their corpus; by default questions are required."""
    names = "Data set names, comma-separated, a file or a BEIR folder; RELEASE:SCENARIO for PerspectiveArg."
    own = "Data set name, file or folder. [the corpus of the questions]"
    return together(
        text("-q --questions", names, shell_complete=completes("dataset"), **{"required": True} | how),
        split("train", "dev", "test", "all"),
        number("--limit", 0, "Only the first N questions of each set; 0 for all.", click.INT),
        text("-c --corpus", own, shell_complete=completes("dataset")),
        text("--columns", "Other names of columns in your files, such as question=ask,perspectives=views,text=body,"
             "docno=doc_id.", metavar="OURS=YOURS,…", callback=_columns),
    )  # fmt: skip


def split(*names: str) -> Option:
    """Return the option for the split of the questions."""
    description = "[dev where a data set has splits, or its first; all questions of a file]"
    return text("--split", description, type=click.Choice(names))


def systems(default: str | None, more: str = "") -> Option:
    """Return the option for systems."""
    parts = (
        "Systems, comma-separated: a retriever and its parts, such as minilm+mmr:0.9, bm25+mmr:0.9@uae-large, "
        "minilm+pap:1.0, bm25+expand:rule, bm25+multi:rule, minilm+expand:recorded+coverage:0.5, "
        "minilm+expand:chat:MODEL (or hyde)."
    )
    return text("-r --systems", parts + more, default, shell_complete=completes("retriever"))


def judge_option(default: str | None = "gold", more: str = "") -> Option:
    """Return the option for the judge."""
    names = (
        "gold, random, overlap, similarity, laptop, laptop-mpnet, mistral-berds, nli-t5, causal:MODEL, nli:MODEL, "
        "cross:MODEL, chat:MODEL or decide:MODEL; echo:JUDGE, such as echo:laptop, reads no copies of the perspective; "
        "+ joins a committee, such as overlap+similarity. The prompt's wording may follow, "
        "as in causal:MODEL@published; also an adapter and 4 bits: causal:MODEL+adapter:FOLDER+4bit@published."
    )
    return text("-j --judge", names + more, default, shell_complete=completes("judge", ",+"))


def verdicts(name: str, more: str = "") -> Option:
    """Return the option for a file of verdicts."""
    kinds = "Verdicts (.tsv, .csv, .jsonl), diversity qrels or a BEIR folder."
    return text(name, f"{kinds}{more} [the gold of the questions]")


RUNS = text("--run runs", "A finished run in TREC's six columns, or a predictions file of PerspectiveArg (.jsonl); "
            "may be repeated. [NAME: the file's]", multiple=True, metavar="[NAME=]FILE")  # fmt: skip
READING = together(
    number("--least", 20, "Arguments that a predictions file must list for each query; with 0, a query may have no "
           "answer, which scores as an empty list.", NATURAL),
    one_of("--repeats", ["error", "once"], "Treat an id that a predictions file lists twice for a query as an error, "
           "or count it once, at its first place."),
)  # fmt: skip
STORE = text("--store", "Verdict store. [user cache]", type=FILE)
SEARCHING = together(
    text("--aspect-judge", "Judge that xquad, pm2 and coverage use for generated perspectives: those of the system's "
         "expansion, else recorded ones, else those made by rule.", "laptop"),
    text("--recordings", "File of a chat model's answers: new ones are added, known ones are not requested again.",
         type=FILE),
    number("--depth", 100, "Candidates that a cross-encoder or a diversifier chooses from."),
    STORE,
)  # fmt: skip
SEED = number("--seed", 0, "Seed of the random draw.", NATURAL)
MEASURES = text("-m --measures", "Comma-separated, such as MRecall@10. For PerspectiveArg also task, or official: its "
                "measures at 4, 8, 16 and 20 by the papers' definitions, or the published script's. "
                "[MRecall@5,Precision@5]", shell_complete=completes("measure"))  # fmt: skip
PLACES = together(
    text("--workers", "Processes on this machine that work in parallel. [one]", type=POSITIVE),
    text("--scheduler", "Address of a dask cluster to work on, such as tcp://host:8786.", metavar="ADDRESS"),
)
NOT_BOTH = "give --workers for this machine or --scheduler for a cluster, not both"
JSON = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, _, value: ctx.meta.update({_AS_JSON: value}),
    help="Print JSON; shares are from 0 to 1.",
)


# ---------------------------------------------------------------- errors


@contextmanager
def costs_itself_only(failed: list[str], what: str = "") -> Iterator[None]:
    """Report an error of the block and go on, so that earlier and later results are not lost."""
    try:
        yield
    except BerdsError as error:
        failed.append(f"{what}: {error}" if what else str(error))
        tell(f"berds: {failed[-1]}")


def refuse(condition: object, message: str) -> None:
    """Exit with 2 and a usage message if a condition holds."""
    if condition:
        raise click.UsageError(message)


def refuse_two_judges(gold: str | None, judge: str | None) -> None:
    """Refuse a file of verdicts beside a judge, which would be used in its place."""
    other = (judge or "gold").strip().casefold() != "gold"
    refuse(
        gold and other,
        f"--gold and -j {judge} both give verdicts; leave out one (berds evaluate --judged compares the two)",
    )


def end(failed: object) -> NoReturn:
    """Exit with 1 if something failed, else with 0."""
    click.get_current_context().exit(1 if failed else 0)


# ---------------------------------------------------------------- output


def wants_json() -> bool:
    """Return whether --json was given."""
    return bool(click.get_current_context().meta.get(_AS_JSON))


def tell(sentence: str) -> None:
    """Print a message for people on stderr."""
    click.echo(printable(sentence), err=True)


def print_result(made: Any, lines: str | Callable[[], str]) -> None:
    """Print a result on stdout, as JSON or as lines for people."""
    if wants_json():
        click.echo(json.dumps(made, indent=1, default=str))
    else:
        click.echo(printable(lines if isinstance(lines, str) else lines()))


def say(summary: Mapping[str, Any] | list[Any], sentence: str) -> None:
    """Print a summary: a sentence on stderr for people, or JSON on stdout for programs."""
    if wants_json():
        print_result(summary, "")
    else:
        tell(sentence)


def print_frame(frame: Any, shares: Container[str] = ()) -> None:
    """Print a table with its columns `shares` in percent, or its rows as JSON with shares from 0 to 1."""
    if wants_json():
        click.echo(frame.to_json(orient="records", indent=1))
        return
    shown = frame.copy()
    headings = {}
    for name in frame.columns:
        if name in shares:
            shown[name] = (100 * frame[name]).map("{:.1f}".format, na_action="ignore")
            headings[name] = f"{name}, %"
    shown = shown.rename(columns=headings)
    text = shown.to_string(index=False, float_format=lambda x: f"{x:.4f}", na_rep="–")
    click.echo(printable(text))


def print_tables(tables: Mapping[str, Any], more: Mapping[str, Any] | None = None, shares: Container[str] = ()) -> None:
    """Print several tables, or one JSON object of `more` and name → rows."""
    if wants_json():
        rows = {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}
        print_result({**(more or {}), **rows}, "")
        return
    shown = [table for table in tables.values() if len(table)]
    for place, table in enumerate(shown):
        if place:
            click.echo()
        print_frame(table, shares)


def write_tables(folder: Path, tables: Mapping[str, Any]) -> None:
    """Write tables into a folder as CSV files, with shares from 0 to 1."""
    from berdslib.study.tables import write_csv

    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", table)
