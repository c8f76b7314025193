"""`berds data add` and `berds data validate`: data sets of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import click

from berdslib.cli.data import data
from berdslib.cli.options import JSON
from berdslib.errors import printable

_DATASET = click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))


@data.command("validate")
@_DATASET
@JSON
def data_validate(folder: Path, as_json: bool) -> None:
    """Check a data set of your own before others get it; exit with 1 where something must be mended."""
    from berdslib.data.own import validate

    found = validate(folder)
    if as_json:
        click.echo(json.dumps([one._asdict() for one in found], indent=1))
    else:
        for one in found:
            click.echo(printable(f"{'error' if one.grave else 'note'}: {one.problem}"))
        if not found:
            click.echo("nothing is wrong with it", err=True)
    if any(one.grave for one in found):
        click.get_current_context().exit(1)


@data.command("add")
@_DATASET
@JSON
def data_add(folder: Path, as_json: bool) -> None:
    """Have a data set of your own load by the name on its card, from anywhere; the folder stays where it is."""
    from berdslib.data.catalogue import added_folders
    from berdslib.data.own import add

    before = added_folders()
    one = add(folder)
    replaced = before.get(one.name, str(folder.resolve()))
    if replaced != str(folder.resolve()):
        click.echo(printable(f"{one.name} no longer means {replaced}"), err=True)
    if as_json:
        click.echo(json.dumps({"name": one.name, "folder": str(folder.resolve())}))
    else:
        click.echo(f"{one.name} → {folder.resolve()}", err=True)
