"""`berds prompts`: the papers' own wordings, fetched or taken from a file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import click

from berdslib.cli.options import JSON, print_result, tell, text
from berdslib.cli.root import main
from berdslib.errors import InputError
from berdslib.llm.prompting import OURS, PUBLISHED, PURPOSES, TASKS, Published, published_path, wordings

TASK = click.argument("task", type=click.Choice(list(TASKS)))
WORDINGS = list(dict.fromkeys(wording for task in TASKS for wording in wordings(task)))
IMPORTED = WORDINGS[len(OURS) :]


@main.group()
def prompts() -> None:
    """Prompts: ours ship with the package; the papers' own wordings can be fetched."""


@prompts.command("list")
@JSON
def prompts_list() -> None:
    """List the tasks with prompts, where the papers print theirs, and which of these are imported here."""
    rows = []
    for task, (purpose, published) in PURPOSES.items():
        imported = [w for w in wordings(task)[len(OURS) :] if published_path(task, w).is_file()]
        rows.append({"task": task, "imported": imported, "published in": published, "what for": purpose})
    print_result(rows, "\n".join(map(_line, rows)))


def _line(row: dict[str, Any]) -> str:
    published = row["published in"]
    here = ", ".join(row["imported"]) or ("not imported" if published else "–")
    return f"{row['task']:24} {published or '–':27} {here:14} {row['what for']}"


@prompts.command("fetch")
@TASK
@click.argument("source", required=False, metavar="[FILE|ADDRESS]")
@click.option("--wording", type=click.Choice(IMPORTED), help="[the task's usual one, such as published or table-8]")
def prompts_fetch(task: str, source: str | None, wording: str | None) -> None:
    """Import a published wording from its authors' file, whose checksum is on record, or from your FILE or ADDRESS.

    Placeholders look like [Document] or {document}.
    """
    from berdslib.data.fetch import download
    from berdslib.llm.prompting import import_prompt

    if source and "://" not in source:
        fetched = Path(source)
    else:
        imported = published_path(task, wording)
        remote = _remote(task, wording, source)
        # An existing file is not fetched again, so each address gets a file name of its own.
        address_hash = hashlib.sha256(remote.url.encode()).hexdigest()[:8]
        target = imported.parent / "fetched" / f"{imported.stem}-{address_hash}.txt"
        fetched = download(remote.url, target, sha256=remote.sha256 or None, size=remote.bytes or None)
    click.echo(str(import_prompt(task, fetched, TASKS[task], wording)))


def _remote(task: str, wording: str | None, url: str | None) -> Published:
    """Return the address of a wording with size and checksum, which are unknown for a user's own address."""
    if url:
        tell("no checksum is on record for this address; read the prompt with `berds prompts show`")
        return Published(url, 0, "")
    on_record = PUBLISHED.get(task, {})
    wanted = wording or wordings(task)[len(OURS)]
    if wanted not in on_record:
        raise InputError(f"the authors' file of {task!r}, {wanted}, is not on record; give its address, or a file")
    return on_record[wanted]


@prompts.command("show")
@TASK
@text("--wording", "Ours, or a published one.", "ours", type=click.Choice(WORDINGS))
def prompts_show(task: str, wording: str) -> None:
    """Print a prompt, with its examples, and its hash."""
    from berdslib.llm.prompting import load_prompt

    prompt = load_prompt(task, wording)
    click.echo("\n\n".join([f"{prompt.name} {prompt.hash}", prompt.system, *prompt.example, prompt.user]))
