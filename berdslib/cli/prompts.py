"""`berds prompts`: the papers' own wordings, fetched or taken from a file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import click

from berdslib.cli.options import JSON, print_result, tell, text
from berdslib.cli.root import main
from berdslib.errors import InputError
from berdslib.llm.prompting import (
    AUTHORS,
    OURS,
    PUBLISHED,
    PURPOSES,
    TASKS,
    Published,
    fetch_command,
    published_path,
    wording_state,
    wordings,
)

TASK = click.argument("task", type=click.Choice(list(TASKS)))
WORDINGS = list(dict.fromkeys(wording for task in TASKS for wording in wordings(task)))
IMPORTED = WORDINGS[len(OURS) :]


@main.group()
def prompts() -> None:
    """Prompts: ours ship with the package; the papers' own wordings can be fetched."""


@prompts.command("list")
@JSON
def prompts_list() -> None:
    """List the tasks with prompts, and for each published wording whether it is here, or the command that gets it.

    FILE is a copy of what the paper prints, which the project does not contain.
    """
    rows = []
    lines = []
    for task, (purpose, published) in PURPOSES.items():
        states = {wording: wording_state(task, wording) for wording in wordings(task)[len(OURS) :]}
        commands = {wording: fetch_command(task, wording) for wording in states}
        imported = [wording for wording, state in states.items() if state]
        row = {"task": task, "imported": imported, "published in": published, "what for": purpose}
        rows.append(row | {"states": states, "commands": commands})
        lines.append(f"{task}: {purpose}{f' ({published})' if published else ''}")
        for wording, state in states.items():
            lines.append(f"    {wording:26} {f'here, {state}' if state else commands[wording]}")
    print_result(rows, "\n".join(lines))


@prompts.command("fetch")
@TASK
@click.argument("source", required=False, metavar="[FILE|ADDRESS]")
@click.option("--wording", type=click.Choice(IMPORTED), help="[the task's usual one, such as published or table-8]")
def prompts_fetch(task: str, source: str | None, wording: str | None) -> None:
    """Import a published wording from its authors' file, whose checksum is on record, or from your FILE or ADDRESS.

    Placeholders look like [Document] or {document}. A file of yours is compared with the authors' checksum, too, and
    imported in any case.
    """
    from berdslib.data.fetch import download
    from berdslib.llm.prompting import import_prompt

    if source and "://" not in source:
        fetched = Path(source)
    else:
        place = published_path(task, wording)
        remote = _remote(task, wording, source)
        # An existing file is not fetched again, so each address gets a file name of its own.
        address_hash = hashlib.sha256(remote.url.encode()).hexdigest()[:8]
        target = place.parent / "fetched" / f"{place.stem}-{address_hash}.txt"
        fetched = download(remote.url, target, sha256=remote.sha256 or None, size=remote.bytes or None)
    imported = import_prompt(task, fetched, TASKS[task], wording)
    state = wording_state(task, wording or wordings(task)[len(OURS)])
    if state != AUTHORS:
        tell(f"berds: imported, but {state}")
    click.echo(str(imported))


def _remote(task: str, wording: str | None, url: str | None) -> Published:
    """Return the address of a wording with size and checksum, which are unknown for a user's own address."""
    if url:
        return Published(url, 0, "")
    on_record = PUBLISHED.get(task, {})
    wanted = wording or wordings(task)[len(OURS)]
    if wanted not in on_record:
        printed = PURPOSES[task][1]
        raise InputError(f"no file of the authors is on record for {task}, {wanted}; give a copy of {printed} as FILE")
    return on_record[wanted]


@prompts.command("show")
@TASK
@text("--wording", "Ours, or a published one.", "ours", type=click.Choice(WORDINGS))
def prompts_show(task: str, wording: str) -> None:
    """Print a prompt, with its examples, and its hash."""
    from berdslib.llm.prompting import load_prompt

    prompt = load_prompt(task, wording)
    click.echo("\n\n".join([f"{prompt.name} {prompt.hash}", prompt.system, *prompt.example, prompt.user]))
