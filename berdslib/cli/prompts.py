"""`berds prompts`: the papers' own wordings, imported or fetched."""

from __future__ import annotations

from pathlib import Path

import click

from berdslib.cli.root import main
from berdslib.llm.prompting import TASKS


@main.group()
def prompts() -> None:
    """Prompts: ours ship with the package; the papers' own wordings can be imported or fetched."""


@prompts.command("import")
@click.argument("task", type=click.Choice(list(TASKS)))
@click.argument("source", type=click.Path(path_type=Path))
def prompts_import(task: str, source: Path) -> None:
    """Import a published wording from a text file; [Document] or {document}, and so on, are the placeholders."""
    from berdslib.llm.prompting import import_prompt

    click.echo(str(import_prompt(task, source, TASKS[task])))


@prompts.command("fetch")
@click.argument("task", type=click.Choice(list(TASKS)))
@click.option("--url", help="Where the authors' file is. [a place in their repository that was never tried]")
def prompts_fetch(task: str, url: str | None) -> None:
    """Download a published wording from its authors and keep it, as `import` does with a local file."""
    from berdslib.data.datasets import fetch_prompt

    click.echo(str(fetch_prompt(task, TASKS[task], url)))


@prompts.command("show")
@click.argument("task", type=click.Choice(list(TASKS)))
@click.option("--wording", default="ours", show_default=True, type=click.Choice(["ours", "published"]))
def prompts_show(task: str, wording: str) -> None:
    """Print a prompt and its hash."""
    from berdslib.llm.prompting import load_prompt

    prompt = load_prompt(task, wording)
    click.echo(f"{prompt.name} {prompt.hash}\n\n{prompt.system}\n\n{prompt.user}")
