"""The `berds` command: the main tasks from a shell, named as in Python."""

from berdslib.cli.root import main

__all__ = ["main"]
