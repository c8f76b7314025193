"""A system string means the same in Python, in the shell, in a notebook's parameter and in a grid."""

import io
import json
import shutil

import pandas as pd
import pytest
from shell import berds

import berdslib as bd
from berdslib.study.notebooks import find_notebook

SYSTEMS = ["bm25", "minilm+pap+:0.5+mmr:0.9", "bm25+expand:rule"]
MEASURES = ["Precision@5", "MRecall@5", "Precision@10", "MRecall@10"]
NOTEBOOK = "00_quickstart"


@pytest.fixture
def project(tmp_path, monkeypatch, warm_cache):
    """A checkout of its own, with the quickstart notebook."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "berdslib"\n')
    (tmp_path / "notebooks").mkdir()
    shutil.copy(find_notebook(NOTEBOOK), tmp_path / "notebooks")
    monkeypatch.setenv("BERDS_PROJECT", str(tmp_path))
    return tmp_path


def compared(table):
    return table[["system", "dataset", "measure", "n", "mean", "low", "high"]].reset_index(drop=True)


@pytest.mark.slow
def test_the_same_scores_in_four_places(project):
    in_python = bd.experiment(SYSTEMS, bd.load("sample", split="all"), MEASURES, baseline="bm25").table

    options = ("-q", "sample", "--split", "all", "-r", ",".join(SYSTEMS), "-m", ",".join(MEASURES))
    in_shell = pd.read_json(io.StringIO(berds("experiment", *options, "--json").stdout), orient="records")

    berds("notebook", "run", NOTEBOOK, "-p", "systems", json.dumps(SYSTEMS), "-o", project / "papermill_runs" / "one")
    in_notebook = pd.read_csv(project / "papermill_runs" / "one" / "scores.csv")

    (project / "grid.yaml").write_text(f"notebook: {NOTEBOOK}\ngrid:\n  systems: {json.dumps([SYSTEMS])}\n")
    berds("grid", "run", project / "grid.yaml")
    in_grid = pd.read_csv(project / "papermill_runs" / "grid" / "summary.csv")

    for table in (in_shell, in_notebook, in_grid):
        pd.testing.assert_frame_equal(compared(table), compared(in_python), check_dtype=False, atol=1e-9)
