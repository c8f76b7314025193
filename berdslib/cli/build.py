"""`berds build`: a benchmark of questions and perspectives out of raw rows, or out of a plain list of questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berdslib.cli.options import FOLDER, JSON, POSITIVE, print_frame
from berdslib.cli.root import main
from berdslib.errors import InputError, printable

if TYPE_CHECKING:  # the command line starts before pandas is loaded
    from berdslib.construction.build import Built
    from berdslib.construction.drafts import Rejection
    from berdslib.construction.steps import Answers
    from berdslib.llm.chat import ChatModel

_BUILDERS = ("arguana", "kialo", "opinionqa", "questions")
_MAX_TOKENS = 1000  # thirty answers to a question, a statement each
_SPENDING = "spending.jsonl"


class _Prices(click.ParamType):
    """Two numbers, such as 2.5,10."""

    name = "IN,OUT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        try:
            prompt, completion = (float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not two numbers with a comma between them, such as 2.5,10", param, ctx)
        return prompt, completion


@main.command()
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
@click.option("--budget", type=click.FloatRange(min=0), help="Most to spend, over all runs into FOLDER. Needs --prices.")
@click.option("--dry-run", is_flag=True, help="Say what there is to ask and what it would cost; ask nothing.")
@click.option("--workers", default=4, show_default=True, type=POSITIVE, help="Requests in flight at a time.")
@click.option(
    "--wording",
    default="ours",
    show_default=True,
    type=click.Choice(["ours", "published"]),
    help="Of the prompts; the published ones are imported first (berds prompts list).",
)
@click.option("--sample", default=0, show_default=True, type=click.IntRange(min=0), help="Items to draw; 0 for all.")
@click.option("--seed", default=0, show_default=True, help="Of the sample and of the split.")
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
@click.option("--examples", default=0, type=click.IntRange(min=0), help="Show so many left out for each reason.")
@JSON
def build(
    builder: str,
    raw: Path,
    folder: Path,
    model: str,
    prices: tuple[float, float] | None,
    budget: float | None,
    dry_run: bool,
    workers: int,
    wording: str,
    sample: int,
    seed: int,
    dev: float | None,
    corpus: str | None,
    name: str | None,
    title: str | None,
    licence: str,
    source: str,
    language: str,
    examples: int,
    as_json: bool,
) -> None:
    """Build a data set in FOLDER from the raw rows in RAW.

    \b
    arguana     points and counter-points (BEIR's ArguAna) -> a question, a statement and its negation
    kialo       discussions -> the statement's opposite, or a statement for each answer
    opinionqa   survey questions with options (info.csv) -> opinions only -> a question, a yes and a no
    questions   a text file with a question a line, or a table -> statements for each position

    Every answer is kept in FOLDER as soon as it is there. A build that broke off goes on when it is run again, and asks
    nothing twice.
    """
    from berdslib.construction import build as construction
    from berdslib.data.datasets import load_passages
    from berdslib.data.own import OwnCard

    called = name or folder.resolve().name
    card = OwnCard(called, title or f"Questions and perspectives: {called}", licence, source, language)
    if budget is not None and prices is None:
        raise InputError("a budget needs the prices: --prices IN,OUT, per million tokens")
    if dry_run:
        drafts, _ = construction.read_items(builder, raw, sample, seed)
        _rehearse(builder, drafts, model, folder, wording, prices or (0.0, 0.0), as_json)
        return
    answers = _answers(model, folder, prices, budget, workers)
    passages = load_passages(corpus) if corpus else ()
    dev = (0 if builder == "questions" else 0.25) if dev is None else dev
    built = construction.build(
        builder, raw, folder, answers, card, wording=wording, sample=sample, seed=seed, dev=dev, passages=passages
    )
    _report(built, folder, examples, as_json)


def _chat(model: str) -> ChatModel:
    from berdslib.llm.local import make_chat

    return make_chat(model, max_tokens=_MAX_TOKENS)


def _answers(
    model: str, folder: Path, prices: tuple[float, float] | None, budget: float | None, workers: int
) -> Answers:
    from berdslib.construction.build import EXCHANGES
    from berdslib.construction.steps import ByChat, ByRule
    from berdslib.llm.budget import Budgeted
    from berdslib.llm.recorded import Kept

    if model == "rule":
        return ByRule()
    chat = _chat(model)
    if prices is not None:
        limit = float("inf") if budget is None else budget
        chat = Budgeted(chat, prices=prices, limit=limit, ledger=folder / _SPENDING)
    return ByChat(Kept(chat, folder / EXCHANGES), workers)


def _rehearse(
    builder: str,
    drafts: Any,
    model: str,
    folder: Path,
    wording: str,
    prices: tuple[float, float],
    as_json: bool,
) -> None:
    from berdslib.construction.build import EXCHANGES, make
    from berdslib.construction.rehearsal import Rehearsal

    if model == "rule":
        raise InputError("the rules ask nobody and cost nothing; a dry run is for a chat model: --model NAME")
    rehearsal = Rehearsal(_chat(model), folder / EXCHANGES)
    make(builder, drafts, rehearsal, wording, check=False)
    print_frame(rehearsal.table(prices), as_json)
    if not any(prices) and not as_json:
        click.echo("costs need the prices: --prices IN,OUT, per million tokens", err=True)


def _report(built: Built, folder: Path, examples: int, as_json: bool) -> None:
    from berdslib.data.datasets import statistics

    stats = statistics(built.collection.questions)
    if as_json:
        rows = [one.as_row() for one in _examples(built.rejected, examples)]
        facts = {"folder": str(folder), "steps": built.counts.to_dict("records"), "questions": stats, "examples": rows}
        click.echo(json.dumps(facts, indent=1, ensure_ascii=False))
        return
    print_frame(built.counts, as_json=False)
    for one in _examples(built.rejected, examples):
        text = " | ".join([one.draft.question or " / ".join(one.draft.sources), *one.draft.perspectives])
        click.echo(printable(f"{one.reason} ({one.step}) {one.draft.key}: {one.detail}\n    {_short(text)}"))
    click.echo(
        f"{stats['n']} questions ({stats['dev']} dev, {stats['test']} test), {stats['mean_perspectives']:.2f} "
        f"perspectives of {stats['mean_words']:.2f} words → {folder}",
        err=True,
    )
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
