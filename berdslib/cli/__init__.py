"""The `berds` command: the main tasks from a shell, named as in Python."""

from berdslib.cli import corpus, data, grid, judges, notebook, prompts, scoring
from berdslib.cli.root import main

__all__ = ["corpus", "data", "grid", "judges", "main", "notebook", "prompts", "scoring"]
