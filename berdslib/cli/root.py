"""The command `berds` itself, to which all others belong."""

from __future__ import annotations

import logging
from typing import Any

import click

from berdslib.errors import BerdsError, printable
from berdslib.version import __version__


class _Group(click.Group):
    """Prints errors the user can fix as one line instead of a traceback."""

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
