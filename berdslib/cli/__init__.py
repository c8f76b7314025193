"""The `berds` command: the main tasks from a shell, named as in Python."""

from berdslib.cli import argue, build, corpus, data, grid, judges, leaning, notebook, own, prompts, review, scoring
from berdslib.cli.root import main

__all__ = [
    "argue", "build", "corpus", "data", "grid", "judges", "leaning", "main", "notebook", "own", "prompts", "review",
    "scoring",
]  # fmt: skip
