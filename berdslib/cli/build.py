"""`berds build`: a benchmark of questions and perspectives out of raw rows, or out of a plain list of questions."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import click

from berdslib.cli.options import (
    FOLDER,
    JSON,
    NATURAL,
    choice,
    flag,
    number,
    print_frame,
    refuse,
    show,
    tell,
    text,
    wants_json,
)
from berdslib.cli.root import main

if TYPE_CHECKING:  # the command line starts before pandas is loaded
    from berdslib.construction.build import Built

_PIR = ("pir-perspectrum", "pir-exfever")
_BUILDERS = ("arguana", "kialo", "opinionqa", "questions", "stances", *_PIR)


@main.command("build")
@click.argument("builder", type=click.Choice(_BUILDERS))
@click.argument("raw", type=click.Path(path_type=Path))
@click.argument("folder", type=FOLDER)
@text("--model", "Who answers: rule for rules alone, smollm2, local:FOLDER, recorded:FILE, or an endpoint's model "
      "(BERDS_CHAT_URL).", "rule")  # fmt: skip
@flag("--dry-run", "Count the requests that are left and the tokens of their prompts; ask nothing.")
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
    help="Share of development questions; 0 for no split. [0.25; 0 for questions and stances]",
)
@click.option("-c", "--corpus", help="Data set, file or folder whose passages go with the questions. [none]")
@text("--split", "Of the data sets, for stances. [their first]", type=click.Choice(["train", "dev", "test", "all"]))
@text("--name", "What the data set is called. [the folder's name]")
@text("--title", "What it is, in one line. [made from the name]")
@text("--licence", "Under which terms others may use it.", "none stated")
@text("--source", "Where its texts come from.", "")
@text("--language", "Of its texts.", "en")
@number("--examples", 0, "Show so many left out for each reason.", NATURAL)
@JSON
def build_command(
    builder: str, raw: Path, folder: Path, model: str, dry_run: bool, workers: int, wording: str, sample: int,
    seed: int, dev: float | None, corpus: str | None, split: str | None, examples: int, **about: Any,
) -> None:  # fmt: skip
    """Build a data set in FOLDER from the raw rows in RAW.

    \b
    arguana     points and counter-points (BEIR's ArguAna) -> a question, a statement and its negation
    kialo       discussions -> the statement's opposite, or a statement for each answer
    opinionqa   survey questions with options (info.csv) -> opinions only -> a question, a yes and a no
    questions   a text file with a question a line, or a table -> statements for each position
    stances     data sets (of --split) or a file, with perspectives -> which of two supports
    pir-...     Perspectrum's folder, or EX-FEVER's table -> a task of PIR; takes no options

    Every answer is kept in FOLDER as soon as it is there. A build that broke off goes on when it is run again, and asks
    nothing twice.
    """
    from berdslib.construction.build import build, rehearse
    from berdslib.data.datasets import load_passages

    refuse(builder != "stances" and not raw.exists(), f"{raw}: no such file or folder")
    if builder in _PIR:
        _build_pir(builder, raw, folder)
        return
    drawn: dict[str, Any] = {"sample": sample, "seed": seed, "wording": wording, "split": split}
    if dry_run:
        print_frame(rehearse(builder, raw, folder, model, **drawn))
        return
    passages = load_passages(corpus) if corpus else ()
    try:
        built = build(builder, raw, folder, model, passages=passages, dev=dev, workers=workers, **about, **drawn)
    except KeyboardInterrupt:
        tell(f"what was answered is kept in {folder}; run the same command to go on")
        raise
    _report(built, examples)


def _build_pir(builder: str, raw: Path, folder: Path) -> None:
    import pandas as pd

    from berdslib.construction.pir_tasks import build_pir
    from berdslib.evaluation.pir_tables import task_statistics

    ctx = click.get_current_context()
    given = [name for name in ctx.params if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]
    refuse(len(given) > 3, f"{builder} takes no option but --json: a rule makes it, all of it for testing")
    task = build_pir(builder, raw, folder)
    print_frame(pd.DataFrame([task_statistics(task)]))
    tell(f"{len(task.questions)} root queries → {folder}")


def _report(built: Built, examples: int) -> None:
    from berdslib.data.datasets import statistics

    stats, by_reason = statistics(built.collection.questions), attrgetter("reason")
    reasons = groupby(sorted(built.rejected, key=by_reason), by_reason)
    left_out = [one for _, alike in reasons for one in islice(alike, examples)]
    if wants_json():
        facts = {"folder": built.folder, "steps": built.counts.to_dict("records"), "questions": stats}
        show({**facts, "examples": [one.as_row() for one in left_out]}, "")
        return
    print_frame(built.counts)
    for one in left_out:
        words = " | ".join([one.draft.question or " / ".join(one.draft.sources), *one.draft.perspectives])
        words = shorten(words, 240, placeholder="…")
        show(None, f"{one.reason} ({one.step}) {one.draft.key}: {one.detail}\n    {words}")
    tell(f"{stats['n']} questions ({stats['dev']} dev, {stats['test']} test), {stats['mean_perspectives']:.2f} "
         f"perspectives of {stats['mean_words']:.2f} words → {built.folder}")  # fmt: skip
    if built.rejected:
        counted = ", ".join(f"{n} {why}" for why, n in Counter(map(by_reason, built.rejected)).most_common())
        tell(f"left out: {counted} → {built.folder / 'rejected.jsonl'}")
    if built.unanswered:
        tell(f"{len(built.unanswered)} items could not be answered; run the same command again")
