"""The tables of the PIR paper by a command: it starts, counts what is in the files, and leaves other rows alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "pir_tables.py"
OTHER_ROW = "BeRDS 3,theperspective,bm25,,macro,MRecall,5,77.60,069.8,,134,NA"


def call(*arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, env=environment, check=False
    )


def test_it_starts_and_names_its_tables():
    done = call("--help")
    assert done.returncode == 0, done.stderr
    assert "figure-4" in done.stdout and "--retrievers" in done.stdout


def test_an_unknown_table_is_refused():
    done = call("7")
    assert done.returncode == 2 and "figure-4" in done.stderr


def test_rows_of_other_tables_stay_as_they_are(tmp_path):
    columns = (ROOT / "data" / "published" / "ours.csv").read_text(encoding="utf-8").splitlines()[0]
    output = tmp_path / "ours.csv"
    output.write_text(f"{columns}\n{OTHER_ROW}\nPIR Figure 5,,x,,y,Italy,5,1,,,20,nobody\n", encoding="utf-8")
    done = call("figure-5", "--retrievers", "bm25", "-o", str(output))
    assert done.returncode == 0, done.stderr
    lines = output.read_text(encoding="utf-8").splitlines()
    assert lines[:2] == [columns, OTHER_ROW]
    shown = pd.read_csv(output).query("table == 'PIR Figure 5'")
    # 20 root queries, five places each; the row that stood there before is gone.
    assert len(shown) == 20 and shown["value"].sum() == 100 and set(shown["judge"]) != {"nobody"}


@pytest.mark.real_data
def test_table_1_counts_what_is_in_the_file(tmp_path, real_data):
    output = tmp_path / "ours.csv"
    done = call("1,6", "-o", str(output))
    assert done.returncode == 0, done.stderr
    made = pd.read_csv(output)
    assert set(made["table"]) == {"PIR 1", "PIR 6"}
    found = made[made["table"] == "PIR 1"].set_index(["dataset", "measure"])
    release = json.loads((real_data / "pir" / "demo_pir_dataset.json").read_text(encoding="utf-8"))
    assert len(found) == 4 * len(release) == 16
    for name, task in release.items():
        rows = found.loc["ex-fever" if name == "exfever" else name]
        value = rows["value"]
        assert value["queries"] == len(task["queries"]) and value["documents"] == len(task["corpus"])
        for measure, texts in (("words_per_query", task["queries"]), ("words_per_document", task["corpus"])):
            # Printed with one decimal.
            assert value[measure] == pytest.approx(np.mean([len(text.split()) for text in texts]), abs=0.0501)
        assert set(rows["n"]) == {len(set(task["source_queries"]))}
