"""The `berds` command: the main tasks from a shell, named as in Python."""

from berdslib.cli import argue, corpus, data, grid, judges, notebook, prompts, review, scoring
from berdslib.cli.root import main

__all__ = ["argue", "corpus", "data", "grid", "judges", "main", "notebook", "prompts", "review", "scoring"]
