"""`berds build`: a benchmark of questions and perspectives out of raw rows, or out of a plain list of questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berdslib.cli.options import FOLDER, JSON, NATURAL, choice, flag, number, print_frame
from berdslib.cli.root import main
from berdslib.errors import printable

if TYPE_CHECKING:  # the command line starts before pandas is loaded
    import pandas as pd

    from berdslib.construction.build import Built
    from berdslib.construction.pipeline import Rejection

_BUILDERS = ("arguana", "kialo", "opinionqa", "questions")


class _Prices(click.ParamType[tuple[float, float]]):
    """Two numbers, such as 2.5,10."""

    name = "IN,OUT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        try:
            prompt, completion = (float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not two numbers with a comma between them, such as 2.5,10", param, ctx)
        return prompt, completion


@main.command("build")
@click.argument("builder", type=click.Choice(_BUILDERS))
@click.argument("raw", type=click.Path(exists=True, path_type=Path))
@click.argument("folder", type=FOLDER)
@click.option(
    "--model",
    default="rule",
    show_default=True,
    help="Who answers: rule for rules alone, local:FOLDER, recorded:FILE, or an endpoint's model (BERDS_CHAT_URL).",
)
@click.option("--prices", type=_Prices(), help="What the endpoint takes per million prompt and completion tokens.")
@click.option("--budget", type=click.FloatRange(min=0), help="Most to spend, in all runs into FOLDER; needs --prices.")
@flag("--dry-run", "Say what there is to ask and what it would cost; ask nothing.")
@number("--workers", 4, "Requests in flight at a time.")
@choice(
    "--wording",
    ["ours", "short", "published"],
    "Of the prompts; the published ones are fetched first (berds prompts list).",
)
@number("--sample", 0, "Items to draw; 0 for all.", NATURAL)
@number("--seed", 0, "Of the sample and of the split.", NATURAL)
@click.option(
    "--dev",
    type=click.FloatRange(0, 1, max_open=True),
    help="Share of development questions; 0 for no split. [0.25; 0 for questions]",
)
@click.option("-c", "--corpus", help="Data set, file or folder whose passages go with the questions. [none]")
@click.option("--name", help="What the data set is called. [the folder's name]")
@click.option("--title", help="What it is, in one line. [made from the name]")
@click.option("--licence", default="none stated", show_default=True, help="Under which terms others may use it.")
@click.option("--source", default="", help="Where its texts come from.")
@click.option("--language", default="en", show_default=True)
@number("--examples", 0, "Show so many left out for each reason.", NATURAL)
@JSON
def build_command(
    builder: str, raw: Path, folder: Path, model: str, prices: tuple[float, float] | None, budget: float | None,
    dry_run: bool, workers: int, wording: str, sample: int, seed: int, dev: float | None, corpus: str | None,
    examples: int, as_json: bool, **about: Any,
) -> None:  # fmt: skip
    """Build a data set in FOLDER from the raw rows in RAW.

    \b
    arguana     points and counter-points (BEIR's ArguAna) -> a question, a statement and its negation
    kialo       discussions -> the statement's opposite, or a statement for each answer
    opinionqa   survey questions with options (info.csv) -> opinions only -> a question, a yes and a no
    questions   a text file with a question a line, or a table -> statements for each position

    Every answer is kept in FOLDER as soon as it is there. A build that broke off goes on when it is run again, and asks
    nothing twice.
    """
    from berdslib.construction.build import build, rehearse
    from berdslib.data.datasets import load_passages

    drawn: dict[str, Any] = {"sample": sample, "seed": seed, "wording": wording}
    if dry_run:
        table = rehearse(builder, raw, folder, model, prices=prices or (0.0, 0.0), **drawn)
        _print_rehearsal(table, prices, budget, as_json)
        return
    passages = load_passages(corpus) if corpus else ()
    paid: dict[str, Any] = {"prices": prices, "budget": budget, "workers": workers}
    try:
        built = build(builder, raw, folder, model, passages=passages, dev=dev, **about, **paid, **drawn)
    except KeyboardInterrupt:
        click.echo(f"what was answered is kept in {folder}; run the same command to go on", err=True)
        raise
    _report(built, examples, as_json)


def _print_rehearsal(
    table: pd.DataFrame, prices: tuple[float, float] | None, budget: float | None, as_json: bool
) -> None:
    print_frame(table, as_json)
    if as_json:
        return
    if prices is None:
        click.echo("costs need the prices: --prices IN,OUT, per million tokens", err=True)
    elif budget is not None:
        likely = table["likely_cost"].iloc[-1]
        click.echo(f"{budget:g} {'covers' if likely <= budget else 'does not cover'} the {likely:.4f} that are likely; "
                   "what earlier runs into the folder cost comes off it", err=True)  # fmt: skip


def _report(built: Built, examples: int, as_json: bool) -> None:
    from berdslib.data.datasets import statistics

    stats = statistics(built.collection.questions)
    if as_json:
        rows = [one.as_row() for one in _examples(built.rejected, examples)]
        facts = {
            "folder": str(built.folder),
            "steps": built.counts.to_dict("records"),
            "questions": stats,
            "examples": rows,
        }
        click.echo(json.dumps(facts, indent=1, ensure_ascii=False))
        return
    print_frame(built.counts, as_json=False)
    for one in _examples(built.rejected, examples):
        text = " | ".join([one.draft.question or " / ".join(one.draft.sources), *one.draft.perspectives])
        click.echo(printable(f"{one.reason} ({one.step}) {one.draft.key}: {one.detail}\n    {_short(text)}"))
    click.echo(
        f"{stats['n']} questions ({stats['dev']} dev, {stats['test']} test), {stats['mean_perspectives']:.2f} "
        f"perspectives of {stats['mean_words']:.2f} words → {built.folder}",
        err=True,
    )
    if built.spent:
        click.echo(f"its answers cost {built.spent:.4f}", err=True)
    if built.unanswered:
        click.echo(f"{len(built.unanswered)} items could not be answered; run the same command again", err=True)


def _examples(rejected: list[Rejection], n: int) -> list[Rejection]:
    """Return the first so many that were left out for each reason."""
    by_reason: dict[str, list[Rejection]] = {}
    for one in rejected:
        by_reason.setdefault(one.reason, []).append(one)
    return [one for reason in sorted(by_reason) for one in by_reason[reason][:n]]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 240 else line[:239] + "…"
