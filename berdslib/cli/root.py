"""The command `berds` itself; every module beside this one adds commands to it, and is listed by being there."""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from berdslib.errors import BerdsError, printable
from berdslib.version import __version__

# Commands of the last version, and what does their work now.
MOVED = {
    "app": "berds explore",
    "argue": "berds retrieve, evaluate and experiment with -q RELEASE:SCENARIO; berds data validate RELEASE:SCENARIO",
    "argue make": "python scripts/synthetic_release.py FOLDER",
    "corpus": "berds data stats, data export and data web",
    "explore export": "berds explore -o FILE.html",
    "judge-eval": "berds rate judge",
    "judge-pairs": "berds rate pairs",
    "judge-systems": "berds rate systems",
    "notebook grid": "berds grid run FILE",
    "prompts import": "berds prompts fetch TASK FILE",
    "review": "berds rate questions, rate summary and rate agree",
}


class _Group(click.Group):
    """Prints errors the user can fix as one line instead of a traceback; its commands load when they are needed."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BerdsError as error:
            click.echo(printable(f"berds: {error}"), err=True)
            ctx.exit(1)
        except BrokenPipeError:
            raise  # `berds … | head`: click ends it quietly
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            click.echo(printable(f"berds: {where}{error.strerror or error}"), err=True)
            ctx.exit(1)

    def list_commands(self, ctx: click.Context) -> list[str]:
        for path in Path(__file__).parent.glob("[a-z]*.py"):
            import_module(f"{__package__}.{path.stem}")
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        self.list_commands(ctx)
        return super().get_command(ctx, name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        for old in (" ".join(args[:2]), args[0]):
            if old in MOVED:
                click.echo(f"berds {old} is now: {MOVED[old]}", err=True)
                ctx.exit(2)
        return super().resolve_command(ctx, args)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="berds")
@click.option("-v", "--verbose", is_flag=True, help="Log progress.")
def main(verbose: bool) -> None:
    """Which perspectives does a retriever show, and which does it hide?

    Typical use: `berds retrieve`, `berds judge`, `berds evaluate`; or all three at once with `berds experiment`.
    Data sets are given by name (`berds data list`) or as files.
    """
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
