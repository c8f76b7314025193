"""docs/extending.md: its diffs apply to the package as it is, and what they add works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from berdslib.data.records import Passage
from berdslib.evaluation.measures import MEASURES
from berdslib.paths import PACKAGE
from berdslib.retrieval.diversify import DIVERSIFIERS

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


SNIPPETS = [code for code in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
            if "autojudge_base" not in code]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("code", SNIPPETS)
def test_what_is_registered_there_runs(code, warm_cache, monkeypatch, capsys):
    for registry in (DIVERSIFIERS, MEASURES):
        monkeypatch.setattr(registry, "_things", dict(registry))
    names: dict = {}
    exec(compile(code, "snippet", "exec"), names)
    assert capsys.readouterr().out and len(code.splitlines()) <= 30
    if "gist" in names:
        corners = np.array([[1, 0], [0.99, 0.1], [0, 1]], dtype=np.float32)
        assert names["gist"](corners, np.array([1, 0.9, 0.5]), 2, 0.5) == [0, 2]
        assert names["gist"](corners, np.array([1, 0.9, 0.5]), 2, 1) == [0, 1]
    if "vendi" in names:  # equal passages amount to one
        passages = [Passage(str(i), "Cats purr.") for i in range(3)]
        assert names["vendi"](None, 3, passages) == pytest.approx(1 / 3, abs=0.01)


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
