"""`berds data`: what data sets there are, what they are, and how to get them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berdslib.cli.inputs import read_collection, read_run, split_names
from berdslib.cli.options import CORPUS, JSON, QUESTIONS, print_frame, say
from berdslib.cli.root import main
from berdslib.errors import InputError

if TYPE_CHECKING:  # the command line starts before pandas is loaded
    import pandas as pd

    from berdslib.data.records import Passage, Question


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
    width = max(len(row.name) for row in rows)
    for row in rows:
        click.echo(f"{row.name:{width}} {row.kind:10} {row.paper:15} {row.title}")


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


@data.command("leaks")
@QUESTIONS
@CORPUS
@click.option("--gold", help="File of verdicts. [the gold verdicts of the questions, if they have some]")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.8,
    show_default=True,
    help="Overlap (Jaccard similarity) from which a pair is reported.",
)
@click.option(
    "--kinds",
    default="text,perspectives,passages",
    show_default=True,
    help="What to compare. Leave out perspectives that are labels, such as left and right.",
)
@click.option("--across", is_flag=True, help="Print only pairs that stand across splits.")
@JSON
@click.pass_context
def data_leaks(
    ctx: click.Context,
    questions: str,
    split: str | None,
    limit: int,
    corpus: str | None,
    gold: str | None,
    threshold: float,
    kinds: str,
    across: bool,
    as_json: bool,
) -> None:
    """Find questions that must not stand on both sides of a split, and exit with 1 where some do.

    Two questions overlap if their wording, their perspectives or their gold passages are nearly the same; passages are
    compared where there are gold verdicts, and told by their words where the corpus is there, too.

    The exit status is that of a check: 0 if no two overlapping questions are of different splits, whatever overlaps
    within one; 1 if some are, or if something cannot be read, which an error on stderr says; 2 for a wrong option. To
    compare dev with test, ask for both: --split all.

    \b
    berds data leaks -q sample --split all
    berds data leaks -q arguana,kialo,opinionqa
    berds data leaks -q mine.jsonl --gold verdicts.tsv --across
    """
    from berdslib.data.leaks import across_splits, leaks

    asked, verdicts, passages = _to_compare(split_names(questions), corpus, split, limit, gold)
    found = leaks(asked, verdicts, threshold=threshold, kinds=split_names(kinds), passages=passages)
    leaking = across_splits(found)
    shown = leaking if across else found
    if not as_json and len(shown):
        print_frame(shown, as_json)
    splits = sorted({q.split for q in asked})
    counts = {"questions": len(asked), "splits": splits, "overlaps": len(found), "across": len(leaking)}
    say({**counts, "pairs": shown.to_dict("records")}, _sentence_on_leaks(counts, threshold), as_json)
    ctx.exit(1 if len(leaking) else 0)


def _to_compare(
    names: list[str], corpus: str | None, split: str | None, limit: int, gold: str | None
) -> tuple[list[Question], pd.DataFrame | None, Iterable[Passage]]:
    """Return the questions of all sets, their gold verdicts, and a stream of the passages that these name."""
    import pandas as pd

    from berdslib.data.load import load

    if len(names) == 1 or corpus or gold:
        searched: Any = () if len(names) > 1 and corpus is None else corpus
        whole = load([*names], passages=searched, split=split, limit=limit, gold=gold)
        return list(whole.questions), whole.gold, whole.passages
    parts = [load(name, split=split, limit=limit) for name in names]
    # Each has a corpus of its own, where the same docno is another passage.
    own = [one.gold.assign(docno=f"{i} " + one.gold["docno"]) for i, one in enumerate(parts) if one.gold is not None]
    passages = (p._replace(docno=f"{i} {p.docno}") for i, one in enumerate(parts) for p in one.passages)
    return [q for one in parts for q in one.questions], pd.concat(own) if own else None, passages


def _sentence_on_leaks(counts: dict[str, Any], threshold: float) -> str:
    found = f"{counts['questions']} questions, {counts['overlaps']} overlaps of {threshold} or more"
    named = [split for split in counts["splits"] if split]
    if len(named) < 2:
        where = f"all are of the split {named[0]}" if named else "they have no splits"
        return f"{found}; {where}, so that nothing stands across splits"
    return f"{found}, {counts['across']} across the splits {', '.join(named)}"


@data.command("export")
@click.argument("path", type=click.Path(path_type=Path))
@QUESTIONS
@CORPUS
@click.option("--gold", help="File of verdicts. [the gold verdicts of the questions]")
@click.option(
    "--layout",
    type=click.Choice(["beir", "berds", "trec"]),
    help="A BEIR folder, the official BeRDS JSONL, or a folder with TREC's diversity qrels. [berds where PATH ends in "
    ".jsonl or .jsonl.gz, else beir]",
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
        raise click.UsageError("only a BeRDS JSONL lists a run; --run is for --layout berds")
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
