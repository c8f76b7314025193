"""The `berds` command: the main tasks from a shell, named as in Python."""

from berdslib.cli import (
    argue,
    build,
    corpus,
    data,
    explore,
    grid,
    judges,
    notebook,
    own,
    prompts,
    review,
    scoring,
    sides,
)
from berdslib.cli.root import main

__all__ = [
    "argue", "build", "corpus", "data", "explore", "grid", "judges", "main", "notebook", "own", "prompts", "review",
    "scoring", "sides",
]  # fmt: skip
