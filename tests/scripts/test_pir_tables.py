"""The tables of the PIR paper by a command: it starts, counts what is in the files, and leaves other rows alone."""

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from berdslib.data.collection import Collection
from berdslib.data.datasets import load
from berdslib.data.records import Question, make_verdicts, ranked_run
from berdslib.llm.chat import Reply
from berdslib.study.front import search

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "pir_tables.py"
LABELS = ("support", "undermine", "general")
OTHER_ROW = "BeRDS 3,theperspective,bm25,,macro,MRecall,5,77.60,069.8,,134,NA"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("pir_tables", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call(*arguments, **variables):
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
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


def test_figures_3_and_6_count_the_countries_of_what_is_listed(tmp_path):
    """Against the texts of the task: a perspective ends in its country, and each article has one."""
    output = tmp_path / "ours.csv"
    done = call("figure-3,figure-6", "--retrievers", "bm25", "-o", str(output))
    assert done.returncode == 0, done.stderr
    task = load("pir-sample:location")
    release = json.loads((ROOT / "data" / "pir-sample" / "tasks.json").read_text(encoding="utf-8"))["location"]
    country_of = dict(zip(release["docnos"], release["groups"], strict=True))
    wanted = {q.qid: q.perspective.rpartition(" in ")[2] for q in task.queries}
    run = search("bm25", task, 5, perspectives=True)
    shown = pd.crosstab(run["qid"].map(wanted), run["docno"].map(country_of)) / (5 * 5) * 100
    made = pd.read_csv(output)
    found = made[made["table"] == "PIR Figure 6"].pivot(index="system", columns="measure", values="value").fillna(0)
    # The run has lists of the roots too, which ask for no country.
    assert found.to_numpy() == pytest.approx(shown.loc[found.index, found.columns].to_numpy(), abs=0.0501)
    assert found.to_numpy().sum() == pytest.approx(100 * 20) == shown.to_numpy().sum()
    diagonal = made[made["table"] == "PIR Figure 3"].set_index("measure")["value"].to_dict()
    assert diagonal == {country: shown.get(country, {}).get(country, 0) for country in shown.index}


@pytest.mark.parametrize("seed", range(6))
def test_shares_of_labels_are_those_counted_one_by_one(script, seed):
    draw = random.Random(seed)
    questions = [Question(f"q{i}", f"Root {i}?", ("a", "b", "c"), labels=LABELS) for i in range(6)]
    docnos = [f"d{i}" for i in range(12)]
    lists = {q.qid: draw.sample(docnos, 8) for q in questions}
    supported = {
        (q.qid, docno, pid)
        for q in questions
        for pid in range(3)
        for docno in [*draw.sample(docnos, draw.randint(0, 3)), lists[q.qid][0]]
    }
    gold = make_verdicts([(qid, pid, docno, 1.0, True) for qid, docno, pid in sorted(supported)], "gold")
    asked, k = ("support", "undermine"), 4
    counts = dict.fromkeys(asked, 0)
    for q in questions:
        for docno in lists[q.qid][:k]:
            for label in asked:
                counts[label] += (q.qid, docno, LABELS.index(label)) in supported
    task = Collection("t", questions, [], gold)
    table = script.root_bias(ranked_run(lists), task, asked, k, resamples=50).set_index("label")
    assert table["found"].to_dict() == counts
    total = sum(counts.values())
    assert table["share"].to_dict() == pytest.approx({label: n / total for label, n in counts.items()})
    assert (table["low"] <= table["share"] + 1e-9).all() and (table["share"] <= table["high"] + 1e-9).all()
    everything = script.root_bias(ranked_run({q.qid: docnos for q in questions}), task, asked, 12, resamples=10)
    assert everything["share"].tolist() == pytest.approx(table["in_corpus"].tolist())


@pytest.mark.parametrize(
    ("found", "gold", "union", "f1"),
    [
        ("the cat", "the cat", 1.0, 1.0),
        ("the Cat sat", "the cat", 2 / 3, 4 / 5),
        ("dog", "a dog", 1 / 2, 2 / 3),
        ("dog", "cat", 0.0, 0.0),
        ("", "", 0.0, 0.0),
    ],
)
def test_word_overlap_by_hand(script, found, gold, union, f1):
    assert script.word_overlap(found, gold) == pytest.approx(union)
    assert script.word_overlap(found, gold, "f1") == pytest.approx(f1)


def test_without_the_release_it_ends_with_what_to_do(tmp_path):
    done = call("1", BERDS_DATA=str(tmp_path), BERDS_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 1 and "Traceback" not in done.stderr and "pir-demo" in done.stderr


class Reader:
    """Answers rightly where it is shown a passage."""

    id = "reader"

    def complete(self, messages):
        return Reply("The right one." if "</passage>\n\nQuestion: " in messages[-1]["content"] else "Another.")


@pytest.mark.real_data
def test_table_5_compares_answers_with_those_of_ambigqas_own_file(tmp_path, real_data, monkeypatch, script):
    monkeypatch.setattr(script, "make_chat", lambda _: Reader())
    release = json.loads((real_data / "pir" / "demo_pir_dataset.json").read_text(encoding="utf-8"))["ambigqa"]
    pairs = [{"question": text, "answer": ["wrong", "right one"]} for text in release["queries"][:6]]
    answers = [{"annotations": [{"type": "singleAnswer", "answer": ["no"]}, {"type": "multipleQAs", "qaPairs": pairs}]}]
    (tmp_path / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    asked = {"tasks": "pir-demo:", "retrievers": ["bm25"], "chat": "reader", "wording": "ours", "recordings": None}
    rows = pd.DataFrame(script.table_5(argparse.Namespace(answers=tmp_path / "answers.json", **asked)))
    accuracy = rows[rows["measure"] == "accuracy"].set_index("system")
    assert accuracy["value"].to_dict() == {"no-retrieval": 0, "gold": 100, "baseline": 100}
    assert set(accuracy["n"]) == {len(set(release["source_queries"][:6]))}
    sides = rows[rows["measure"] == "correlation"]
    assert len(sides) == 3 and sides["value"].isna().all()  # every essay is the same


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
