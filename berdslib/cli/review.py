"""`berds review`: made questions that people read, and how far two of them agree."""

from __future__ import annotations

import json
from pathlib import Path

import click

from berdslib.cli.inputs import read_collection
from berdslib.cli.options import JSON, POSITIVE, SPLIT, print_frame, say
from berdslib.cli.root import main
from berdslib.errors import InputError, errors_in, printable

SHEET = click.Path(dir_okay=False, path_type=Path)


@main.group()
def review() -> None:
    """Made questions, read by people: draw a sheet, fill in copies of it, sum up. BeRDS B.4."""


@review.command("draw")
@click.argument("questions")
@SPLIT
@click.option("-n", default=20, show_default=True, type=POSITIVE, help="Questions from each data set.")
@click.option("--seed", default=0, show_default=True, help="Of the draw.")
@click.option(
    "--sources",
    type=SHEET,
    help="JSONL with `qid` and `sources`, the texts that a question is made of. [QUESTIONS, if that is such a file or "
    "a data set that `berds build` made]",
)
@click.option("-o", "--output", required=True, type=SHEET, help="CSV to write.")
@JSON
def review_draw(
    questions: str, split: str | None, n: int, seed: int, sources: Path | None, output: Path, as_json: bool
) -> None:
    """Draw N of the QUESTIONS from each data set, or all if there are fewer: names, comma-separated, or a file.

    Give each reviewer a copy. It opens in a spreadsheet, or in a notebook with
    `berdslib.construction.form.ReviewForm("sheet.csv", "name")`.
    """
    from berdslib.construction.review import draw_sheet, read_sources, write_sheet

    if output.exists():
        raise InputError("is there already, and may hold answers; name another file", path=output)
    found = read_collection(questions, None, split, 0, need_passages=False)
    given = sources or _rows_of(questions)
    texts = read_sources(given) if given else {}
    with errors_in(questions):
        rows = draw_sheet(found.questions, texts, n, seed)
    write_sheet(output, rows)
    with_sources = sum(bool(row.sources) for row in rows)
    summary = {"output": output, "items": len(rows), "with_sources": with_sources, "seed": seed}
    say(summary, f"{len(rows)} items, {with_sources} of them with sources → {output}", as_json)


def _rows_of(questions: str) -> Path | None:
    """Return the file whose rows may say what the questions are made of: a JSONL, or that of a data set's folder."""
    from berdslib.data import own

    if own.is_own(questions):
        return Path(questions) / own.QUESTIONS
    return Path(questions) if questions.endswith(".jsonl") else None


@review.command("summary")
@click.argument("sheet", type=SHEET)
@JSON
def review_summary(sheet: Path, as_json: bool) -> None:
    """Count the errors that a reviewer found in each data set. BeRDS Table 19."""
    from berdslib.construction.review import read_sheet, summary

    print_frame(summary(read_sheet(sheet)), as_json)


@review.command("agree")
@click.argument("first", type=SHEET)
@click.argument("second", type=SHEET)
@JSON
def review_agree(first: Path, second: Path, as_json: bool) -> None:
    """Compare two reviewers of the same items: agreement, kappa and alpha with intervals, and where they differ."""
    from berdslib.construction.review import read_sheet
    from berdslib.construction.reviewers import disagreements, reviewer_agreement

    sheets = read_sheet(first), read_sheet(second)
    table, differences = reviewer_agreement(*sheets), disagreements(*sheets)
    names = [sorted({row.reviewer for row in rows} - {""}) for rows in sheets]
    common = len({row.qid for row in sheets[0]} & {row.qid for row in sheets[1]})
    if as_json:
        rows = {
            name: json.loads(frame.to_json(orient="records"))
            for name, frame in (("agreement", table), ("differences", differences))
        }
        click.echo(json.dumps({"reviewers": names, "items": [*map(len, sheets)], "common": common, **rows}, indent=1))
        return
    who = " and ".join(", ".join(one) or str(path) for one, path in zip(names, (first, second), strict=True))
    click.echo(printable(f"{who}: {common} items in common, of {len(sheets[0])} and {len(sheets[1])}"), err=True)
    print_frame(table, as_json)
    if len(differences):
        click.echo()
        print_frame(differences, as_json)
