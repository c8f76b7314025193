"""The command `berds`: the main job from a shell, with the same words as in Python."""

from berdslib.cli import corpus, data, grid, judges, notebook, pir, prompts, scoring
from berdslib.cli.root import main

__all__ = ["corpus", "data", "grid", "judges", "main", "notebook", "pir", "prompts", "scoring"]
