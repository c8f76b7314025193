"""docs/extending.md: its diffs apply to the package as it is, and what they add works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from berdslib.paths import PACKAGE

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
USE = """
import pandas as pd, berdslib as bd
from berdslib.cli import main
result = bd.experiment(["bm25", "bm25+top:3", "minilm+spread:0.5"], "sample", ["FirstSupports@5", "Precision@5"])
assert result.runs["bm25+top:3"]["rank"].max() == 3
assert result.table["measure"].unique().tolist() == ["FirstSupports@5", "Precision@5"]
assert bd.experiment("bm25", "sample", "Precision@5", judge="long").judge == "long"
assert "long" in bd.names("judge")
bd.figures.words_by_rank(pd.DataFrame({"rank": [1, 2], "words": [90, 100]}))
main(["data", "count", "sample"])
"""


@pytest.mark.slow
def test_the_diffs_add_what_they_say(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "berdslib", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "berdslib" / "_shipped").symlink_to(PACKAGE.parent / "data")
    diffs = re.findall(r"^```diff\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(diffs) == 6
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    for diff in diffs:
        subprocess.run(["git", "apply", "-"], input=diff, text=True, cwd=tmp_path, check=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "BERDS_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stdout) == (0, "24\n"), done.stderr
