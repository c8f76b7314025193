"""The command `berds`; every other module of this package adds commands to it."""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from berdslib.errors import BerdsError, printable
from berdslib.progress import PROGRESS
from berdslib.version import __version__

INTERRUPTED = 130  # exit code after Ctrl-C, as shells have it: 128 + SIGINT


def _heard(name: str, usual: int, otherwise: int, description: str, *names: str) -> click.Option:
    """Return an option, allowed before or after a command, that sets how much of a log is printed."""

    def listen(ctx: click.Context, _: click.Parameter, given: bool) -> None:
        if given or ctx.parent is None:  # `berds` itself is parsed first and resets the level
            logging.getLogger(name).setLevel(otherwise if given else usual)

    return click.Option(names, is_flag=True, expose_value=False, callback=listen, help=description)


_HEARD = (
    _heard(__package__.partition(".")[0], logging.NOTSET, logging.INFO, "Log what is done.", "-v", "--verbose"),
    _heard(PROGRESS.name, logging.INFO, logging.ERROR, "Print no progress lines or bars.", "--quiet"),
)


class _Command(click.Command):
    """A command with the options for logging."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.params += _HEARD


class _Group(_Command, click.Group):
    """A group whose commands also have these options."""

    command_class = _Command
    group_class: Any = type


class _Root(_Group):
    """Prints errors of users as one line instead of a traceback; commands are loaded on demand."""

    group_class = _Group

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BerdsError as error:
            click.echo(printable(f"berds: {error}"), err=True)
            ctx.exit(1)
        except KeyboardInterrupt as stop:
            click.echo(printable(f"\nberds: {str(stop) or 'stopped'}"), err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            raise  # `berds … | head`: click exits quietly
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
    Data sets are given by name (`berds data list`) or as files. -v and --quiet may also follow a command.
    """
    logging.basicConfig(format="%(name)s: %(message)s")
