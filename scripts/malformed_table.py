"""Print what the command line answers to bad inputs, as a Markdown table.

Usage: python scripts/malformed_table.py > FILE      (the cases are those of tests/malformed.py)
"""

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from click.testing import CliRunner

from berdslib.cli import main

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from malformed import CASES, arguments, environment, prepare

LENGTH = 160


def answer(case):
    """Return exit status and message, in one line."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        prepare(case, folder)
        result = CliRunner().invoke(main, arguments(case), prog_name="berds", env=environment(case, folder))
        said = " ".join(result.output.split()).replace(os.path.realpath(folder), "DIR").replace(folder, "DIR")
    return result.exit_code, said if len(said) <= LENGTH else said[: LENGTH - 1] + "…"


def cell(text):
    return text.replace("|", "\\|")


def table():
    yield "| case | command | what it printed (exit status) |"
    yield "|---|---|---|"
    for case in CASES:
        code, said = answer(case)
        changed = "".join(f"{name}={value} " for name, value in case.env.items())
        yield f"| {cell(case.name)} | `{cell(changed)}berds {cell(case.command)}` | {cell(said)} ({code}) |"


if __name__ == "__main__":
    print("\n".join(table()))
