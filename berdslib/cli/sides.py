"""`berds sides`: which side lists show, and whether they follow the side of the query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from berdslib.cli.inputs import read_collection, read_run, split_names
from berdslib.cli.options import (
    ASPECT_JUDGE,
    CORPUS,
    DEPTH,
    FOLDER,
    JSON,
    JUDGE,
    POSITIVE,
    QUESTIONS,
    RECORDINGS,
    STORE,
    print_tables,
)
from berdslib.cli.root import main
from berdslib.errors import printable

if TYPE_CHECKING:
    from berdslib.study.sides import Sides

TABLES = ("shares", "asymmetry", "leaning", "sycophancy", "flips")


@main.command("sides")
@QUESTIONS
@CORPUS
@click.option("-r", "--systems", default="bm25,minilm", show_default=True, help="As for `berds experiment`.")
@click.option("--run", "run_paths", multiple=True, type=click.Path(), help="TREC run file, too; with lists of "
              "perspectives, as `berds retrieve --perspectives` writes them. May be repeated.")  # fmt: skip
@JUDGE
@click.option("-k", default=5, show_default=True, type=POSITIVE, help="Passages of each list.")
@click.option(
    "--stances",
    type=click.Choice(["recorded", "by order"]),
    default="recorded",
    show_default=True,
    help="Which perspective supports: as recorded, or the first where nothing is recorded, as BeRDS made them.",
)
@click.option(
    "--form",
    type=click.Choice(["statement", "question first"]),
    default="statement",
    show_default=True,
    help="How a perspective is searched: by itself, or behind the question.",
)
@ASPECT_JUDGE
@RECORDINGS
@DEPTH
@STORE
@click.option("-o", "--output", type=FOLDER, help="Folder for the tables and both figures.")
@JSON
def sides_command(
    questions: str,
    split: str | None,
    limit: int,
    corpus: str | None,
    systems: str,
    run_paths: tuple[str, ...],
    judge: str,
    title_position: str | None,
    k: int,
    stances: str,
    form: str,
    aspect_judge: str,
    recordings: Path | None,
    depth: int,
    store: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Which side do lists show, and do they follow the query's? BeRDS section 8, Figures 2 and 3.

    Searches with every question and with each of its two perspectives.

    \b
    berds sides -q theperspective -r bm25,minilm -o sides
    berds sides -q arguana,kialo --split dev -c arguana-corpus -r bm25 -j laptop --stances "by order"
    """
    from berdslib.judging.registry import make_judge
    from berdslib.judging.store import VerdictStore
    from berdslib.study.sides import sides

    found = read_collection(questions, corpus, split, limit)
    runs = {path: read_run(path, found.questions) for path in run_paths}
    result = sides(
        {**{name: name for name in split_names(systems)}, **runs},
        found,
        k,
        judge=make_judge(judge, title_position=title_position) if title_position else judge,
        stances=stances,
        form=form,
        aspect_judge=aspect_judge,
        depth=depth,
        recordings=recordings,
        store=VerdictStore(store),
    )
    if as_json:
        print_tables({name: getattr(result, name) for name in TABLES})
    else:
        click.echo(printable(repr(result)))
    if output:
        write_sides(output, result)


def write_sides(folder: Path, result: Sides) -> None:
    """Write the tables as CSV and Figures 2 and 3."""
    from berdslib.study.figures import save_figure, sides_figure, sycophancy_figure, use_style

    folder.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        getattr(result, name).to_csv(folder / f"{name}.csv", index=False)
    use_style()
    shares = result.shares[result.shares["asked"] == "question"]
    save_figure(sides_figure(shares), shares, folder, "figure_2_sides")
    save_figure(sycophancy_figure(result.leaning), result.leaning, folder, "figure_3_sycophancy")
