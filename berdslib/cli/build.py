"""`berds build`: make a benchmark of questions and perspectives from raw rows, or from a plain list of questions."""

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
    flag,
    number,
    one_of,
    print_frame,
    print_result,
    refuse,
    tell,
    text,
    wants_json,
)
from berdslib.cli.root import main

if TYPE_CHECKING:  # the command line starts before pandas is loaded
    from berdslib.construction.build import Built
    from berdslib.construction.pipeline import Rejection

_PIR = ("pir-perspectrum", "pir-exfever")
_BUILDERS = ("arguana", "kialo", "opinionqa", "questions", "stances", *_PIR)


@main.command("build")
@click.argument("builder", type=click.Choice(_BUILDERS))
@click.argument("raw", type=click.Path(path_type=Path))
@click.argument("folder", type=FOLDER)
@text("--model", "Model that answers: rule (no model), smollm2, qwen-coder, local:FOLDER, recorded:FILE, or an "
      "endpoint's model (BERDS_CHAT_URL).", "rule")  # fmt: skip
@flag("--dry-run", "Count the remaining requests and the tokens of their prompts; send none.")
@number("--workers", 4, "Requests in flight at the same time.")
@one_of(
    "--wording",
    ["ours", "short", "published"],
    "Wording of the prompts; fetch published ones first (berds prompts list).",
)
@number("--sample", 0, "Items to draw; 0 for all.", NATURAL)
@number("--seed", 0, "Seed of the sample and of the split.", NATURAL)
@click.option(
    "--dev",
    type=click.FloatRange(0, 1, max_open=True),
    help="Share of development questions; 0 for no split. [0.25; 0 for questions and stances]",
)
@click.option("-c", "--corpus", help="Data set, file or folder with the passages of the data set. [none]")
@text(
    "--split", "Split of the data sets, for stances. [their first]", type=click.Choice(["train", "dev", "test", "all"])
)
@text("--name", "Name of the data set. [the folder's name]")
@text("--title", "Description in one line. [made from the name]")
@text("--licence", "Terms under which others may use it.", "none stated")
@text("--source", "Source of its texts.", "")
@text("--language", "Language of its texts.", "en")
@number("--examples", 0, "Show N left-out items for each reason.", NATURAL)
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
    stances     data sets (of --split) or a file, with perspectives -> which of the two supports
    pir-...     Perspectrum's folder, or EX-FEVER's table -> a task of PIR; takes no options

    Every answer is saved in FOLDER at once. An interrupted build continues when it is run again, and sends no request
    twice.
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
        tell(f"the answers so far are saved in {folder}; run the same command to continue")
        raise
    _report(built, examples)


def _build_pir(builder: str, raw: Path, folder: Path) -> None:
    import pandas as pd

    from berdslib.construction.pir_tasks import build_pir
    from berdslib.data.pir import task_statistics

    ctx = click.get_current_context()
    typed = click.core.ParameterSource.COMMANDLINE
    given = [name for name in ctx.params if ctx.get_parameter_source(name) is typed]
    refuse(len(given) > 3, f"{builder} takes no option but --json: it is made by rule, and has no development part")
    task = build_pir(builder, raw, folder)
    print_frame(pd.DataFrame([task_statistics(task)]))
    tell(f"{len(task.questions)} root queries → {folder}")


def _report(built: Built, examples: int) -> None:
    from berdslib.data.datasets import statistics

    stats = statistics(built.collection.questions)
    by_reason = attrgetter("reason")
    left_out: list[Rejection] = []
    for _, items in groupby(sorted(built.rejected, key=by_reason), by_reason):
        left_out += islice(items, examples)
    if wants_json():
        summary = {"folder": built.folder, "steps": built.counts.to_dict("records"), "questions": stats}
        print_result({**summary, "examples": [item.as_row() for item in left_out]}, "")
        return
    print_frame(built.counts)
    for item in left_out:
        draft = item.draft
        texts = [draft.question or " / ".join(draft.sources), *draft.perspectives]
        words = shorten(" | ".join(texts), 240, placeholder="…")
        print_result(None, f"{item.reason} ({item.step}) {draft.key}: {item.detail}\n    {words}")
    split = f" ({stats['dev']} dev, {stats['test']} test)" if stats["dev"] or stats["test"] else ""
    perspectives = f"{stats['mean_perspectives']:.2f} perspectives of {stats['mean_words']:.2f} words"
    tell(f"{stats['n']} questions{split}, {perspectives} → {built.folder}")
    if built.rejected:
        counts = Counter(map(by_reason, built.rejected)).most_common()
        counted = ", ".join(f"{reason} ({n})" for reason, n in counts)
        tell(f"left out: {counted} → {built.folder / 'rejected.jsonl'}")
    if built.unanswered:
        tell(f"{len(built.unanswered)} items could not be answered; run the same command again")
