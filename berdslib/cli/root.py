"""The command `berds` itself; every module beside this one adds commands to it, and is listed by being there."""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from berdslib.errors import BerdsError, printable
from berdslib.progress import PROGRESS
from berdslib.version import __version__


def _heard(name: str, usual: int, otherwise: int, said: str, *names: str) -> click.Option:
    """Say how much of a log is printed, before a command or behind it."""

    def listen(ctx: click.Context, _: click.Parameter, given: bool) -> None:
        if given or ctx.parent is None:  # `berds` itself, which is parsed first, also begins anew
            logging.getLogger(name).setLevel(otherwise if given else usual)

    return click.Option(names, is_flag=True, expose_value=False, callback=listen, help=said)


_HEARD = (
    _heard(__package__.partition(".")[0], logging.NOTSET, logging.INFO, "Log what is done.", "-v", "--verbose"),
    _heard(PROGRESS.name, logging.INFO, logging.ERROR, "Neither lines nor bars of progress.", "--quiet"),
)


class _Command(click.Command):
    """Takes what says how much is printed."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.params += _HEARD


class _Group(_Command, click.Group):
    """So do all commands below it."""

    command_class = _Command
    group_class: Any = type


class _Root(_Group):
    """Prints errors the user can fix as one line instead of a traceback; its commands load when they are needed."""

    group_class = _Group

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


@click.group(cls=_Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="berds")
def main() -> None:
    """Which perspectives does a retriever show, and which does it hide?

    Typical use: `berds retrieve`, `berds judge`, `berds evaluate`; or all three at once with `berds experiment`.
    Data sets are given by name (`berds data list`) or as files. -v and --quiet may also stand behind a command.
    """
    logging.basicConfig(format="%(name)s: %(message)s")
