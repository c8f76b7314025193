"""Make PIR's Tables 1, 3 and 6 and Figures 2, 4 and 5 on the demo release and the shipped tasks.

    BERDS_NUMBER_FORMAT=float32 BERDS_DATA=FOLDER python scripts/pir_tables.py [1,3,6,figure-2,figure-4,figure-5]

Needs the demo release (berds data card pir-demo). The rows are those of data/published/ours.csv; -o writes them there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import berdslib as bd
from berdslib.data.pir import location_groups
from berdslib.evaluation.pir_tables import groups_shown, root_bias, task_statistics, word_overlap
from berdslib.evaluation.sides import root_versus_full
from berdslib.llm.extraction import extract
from berdslib.stats import mean_interval

TASKS = ("perspectrum", "ambigqa", "allsides", "exfever")
RETRIEVERS = ("bm25", "minilm", "mpnet")
LABELS = {"perspectrum": ("support", "undermine"), "allsides": ("left", "right", "center")}
COLUMNS = [
    "table", "corpus", "retriever", "system", "dataset", "measure", "k", "value", "low", "high", "n", "judge",
]  # fmt: skip
Rows = Iterator[dict[str, Any]]


def demo(task: str) -> bd.Collection:
    return bd.load(f"pir-demo:{task}")


def table_1(_: tuple[str, ...]) -> Rows:
    for task in TASKS:
        collection = demo(task)
        for measure, value in task_statistics(collection).items():
            yield {"dataset": task, "measure": measure, "value": value, "n": len(collection.questions)}


def table_3(retrievers: tuple[str, ...]) -> Rows:
    for task, labels in LABELS.items():
        collection = demo(task)
        for retriever in retrievers:
            run = bd.search(retriever, collection, k=5)
            bias = root_bias(run, collection.gold, collection.questions, labels)
            for row in bias.itertuples():
                about = {"retriever": retriever, "dataset": task, "measure": f"share_{row.label}", "n": row.found}
                yield about | percent(row.share, row.low, row.high)
        for row in bias.itertuples():
            about = {"retriever": "in the corpus", "dataset": task, "measure": f"share_{row.label}"}
            yield about | percent(row.in_corpus)


def table_6(_: tuple[str, ...]) -> Rows:
    for task in TASKS:
        queries = demo(task).queries
        for definition, measure in (("union", "qa_f1"), ("f1", "qa_f1_as_elsewhere")):
            scores = [word_overlap(extract(q.text).perspective, q.perspectives, definition) for q in queries]
            about = {"system": "extract:rule", "dataset": task, "measure": measure, "n": len(scores)}
            yield about | percent(float(np.mean(scores)), *mean_interval(np.array(scores)))


def with_and_without(retrievers: tuple[str, ...], ks: tuple[int, ...]) -> pd.DataFrame:
    """Return task, retriever, k and the columns of root_versus_full."""
    tables = []
    for task in TASKS:
        collection = demo(task)
        for retriever in retrievers:
            run = bd.search(retriever, collection, k=max(ks), perspectives=True)
            both = pd.concat([run, bd.search(retriever, collection, k=max(ks))]).drop_duplicates(["qid", "docno"])
            found = root_versus_full(both, collection.gold, collection.questions, list(ks))
            tables.append(found.assign(task=task, retriever=retriever))
    return pd.concat(tables, ignore_index=True)


def figure_2(retrievers: tuple[str, ...]) -> Rows:
    means = with_and_without(retrievers, (5,)).groupby(["task", "k"], sort=False)[["root_any", "root", "full"]].mean()
    for (task, k), row in means.iterrows():
        for measure, value in row.items():
            yield {"dataset": task, "measure": measure, "k": k, "system": ", ".join(retrievers)} | percent(value)


def figure_4(retrievers: tuple[str, ...]) -> Rows:
    for row in with_and_without(retrievers, (5, 10)).itertuples():
        for measure in ("root_any", "root", "full"):
            about = {"dataset": row.task, "retriever": row.retriever, "measure": measure, "k": row.k}
            yield about | percent(getattr(row, measure))


def figure_5(retrievers: tuple[str, ...]) -> Rows:
    task = bd.load("pir-sample:location")
    for retriever in retrievers:
        places = groups_shown(bd.search(retriever, task, k=5), task.questions, location_groups(), 5)
        for group, count in places.items():
            yield {"retriever": retriever, "dataset": "pir-sample:location", "measure": group, "k": 5, "value": count}


def percent(value: float, low: float | None = None, high: float | None = None) -> dict[str, float | None]:
    return {
        "value": 100 * value,
        "low": None if low is None else 100 * low,
        "high": None if high is None else 100 * high,
    }


MADE: dict[str, Callable[[tuple[str, ...]], Rows]] = {
    "1": table_1, "3": table_3, "6": table_6, "figure-2": figure_2, "figure-4": figure_4, "figure-5": figure_5,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="?", default=",".join(MADE), help=f"of {', '.join(MADE)}")
    parser.add_argument("--retrievers", default=",".join(RETRIEVERS))
    parser.add_argument("-o", "--output", type=Path, help="a CSV to write; the rows of other tables in it stay")
    asked = parser.parse_args()
    names = asked.tables.split(",")
    if unknown := sorted(set(names) - set(MADE)):
        parser.error(f"unknown table {unknown[0]!r}; there are {', '.join(MADE)}")
    retrievers = tuple(asked.retrievers.split(","))
    frames = []
    for name in names:
        title = "PIR " + name.replace("figure-", "Figure ")
        rows = pd.DataFrame(MADE[name](retrievers)).reindex(columns=COLUMNS).assign(table=title, judge="its key")
        frames.append(rows)
        print(rows.dropna(axis=1, how="all").round(1).to_string(index=False), "\n", flush=True)
    if asked.output:
        made = pd.concat(frames)
        made[["value", "low", "high"]] = made[["value", "low", "high"]].astype(float).round(1)
        if asked.output.exists():
            before = pd.read_csv(asked.output, dtype=str)
            made = pd.concat([before[~before["table"].isin(made["table"])], made])
        made.to_csv(asked.output, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
