"""Make PIR's Tables 1, 3 and 6 and Figures 2, 4 and 5 on the demo release and the shipped tasks.

    BERDS_DATA=FOLDER python scripts/pir_tables.py [1,3,6,figure-2,figure-4,figure-5] [-o data/published/ours.csv]

All but figure-5 need the demo release (berds data card pir-demo). The rows are those of data/published/ours.csv, where
-o puts them; n is the number of root queries. Vectors are float32 here, so that numbers come out the same elsewhere.
"""

from __future__ import annotations

import argparse
import os
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
# What the paper's tables, and so ours, call a task where its name is another one.
PRINTED = {"exfever": "ex-fever"}
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
            yield {
                "dataset": task,
                "measure": measure,
                "value": value,
                "n": len(collection.questions),
                "judge": "counting",
            }


def table_3(retrievers: tuple[str, ...]) -> Rows:
    for task, labels in LABELS.items():
        collection = demo(task)
        about = {"dataset": task, "k": 5, "n": len(collection.questions)}
        for retriever in retrievers:
            run = bd.search(retriever, collection, k=5)
            bias = root_bias(run, collection.gold, collection.questions, labels)
            for row in bias.itertuples():
                share = percent(row.share, row.low, row.high)
                yield about | {"retriever": retriever, "measure": f"share_{row.label}"} | share
        # The shares that a retriever without a preference would give; every retriever's table has the same.
        for row in bias.itertuples():
            share = percent(row.in_corpus)
            yield about | {"retriever": "in the corpus", "measure": f"share_{row.label}"} | share


def table_6(_: tuple[str, ...]) -> Rows:
    for task in TASKS:
        collection = demo(task)
        queries = collection.queries
        # Queries of one root share most of their words, so they are no independent trials.
        roots = [q.owner for q in queries]
        for definition, measure in (("union", "qa_f1"), ("f1", "qa_f1_as_elsewhere")):
            scores = [word_overlap(extract(q.text).perspective, q.perspectives, definition) for q in queries]
            about = {"system": "extract:rule", "dataset": task, "measure": measure}
            interval = mean_interval(np.array(scores), clusters=roots)
            yield about | {"n": len(collection.questions)} | percent(float(np.mean(scores)), *interval)


def with_and_without(retrievers: tuple[str, ...], ks: tuple[int, ...]) -> pd.DataFrame:
    """Return task, n (its root queries), retriever and the columns of root_versus_full."""
    tables = []
    for task in TASKS:
        collection = demo(task)
        for retriever in retrievers:
            run = bd.search(retriever, collection, k=max(ks), perspectives=True)
            both = pd.concat([run, bd.search(retriever, collection, k=max(ks))]).drop_duplicates(["qid", "docno"])
            found = root_versus_full(both, collection.gold, collection.questions, list(ks))
            tables.append(found.assign(task=task, n=len(collection.questions), retriever=retriever))
    return pd.concat(tables, ignore_index=True)


def figure_2(retrievers: tuple[str, ...]) -> Rows:
    compared = with_and_without(retrievers, (5,))
    means = compared.groupby(["task", "n"], sort=False)[["root_any", "root", "full", "difference"]].mean()
    for (task, n), row in means.iterrows():
        about = {"retriever": f"mean of {', '.join(retrievers)}", "dataset": task, "k": 5, "n": n}
        for measure, value in row.items():
            yield about | {"measure": measure} | percent(value)


def figure_4(retrievers: tuple[str, ...]) -> Rows:
    for row in with_and_without(retrievers, (5, 10)).itertuples():
        about = {"retriever": row.retriever, "dataset": row.task, "k": row.k, "n": row.n}
        for measure in ("root_any", "root", "full"):
            yield about | {"measure": measure} | percent(getattr(row, measure))
        yield about | {"measure": "difference"} | percent(row.difference, row.low, row.high)


def figure_5(retrievers: tuple[str, ...]) -> Rows:
    task = bd.load("pir-sample:location")
    for retriever in retrievers:
        places = groups_shown(bd.search(retriever, task, k=5), task.questions, location_groups(), 5)
        about = {"retriever": retriever, "dataset": "pir-sample:location", "k": 5, "n": len(task.questions)}
        for group, count in places.items():
            yield about | {"measure": group, "value": count, "judge": "counting"}


def percent(value: float, low: float | None = None, high: float | None = None) -> dict[str, float | None]:
    return {
        "value": 100 * value,
        "low": None if low is None else 100 * low,
        "high": None if high is None else 100 * high,
    }


MADE: dict[str, Callable[[tuple[str, ...]], Rows]] = {
    "1": table_1, "3": table_3, "6": table_6, "figure-2": figure_2, "figure-4": figure_4, "figure-5": figure_5,
}  # fmt: skip


def as_recorded(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the columns of ours.csv as text: counts whole, everything else with one decimal."""
    recorded = rows.reindex(columns=COLUMNS)
    recorded["dataset"] = recorded["dataset"].replace(PRINTED)
    recorded["judge"] = recorded["judge"].fillna("the tasks' labels")
    is_count = recorded["measure"].isin(["queries", "documents"]) | (recorded["table"] == "PIR Figure 5")
    for column in ("value", "low", "high"):
        numbers = recorded[column].astype(float)
        texts = numbers.map("{:.1f}".format).where(numbers.notna(), "")
        recorded[column] = texts.where(~is_count, texts.str.removesuffix(".0"))
    return recorded.astype({"k": "Int64", "n": "Int64"}).astype("string").fillna("")


def main() -> None:
    os.environ.setdefault("BERDS_NUMBER_FORMAT", "float32")
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
        rows = as_recorded(pd.DataFrame(MADE[name](retrievers)).assign(table=title))
        frames.append(rows)
        print(rows.loc[:, rows.ne("").any()].to_string(index=False), "\n", flush=True)
    if asked.output:
        made = pd.concat(frames)
        if asked.output.exists():
            before = pd.read_csv(asked.output, dtype=str, keep_default_na=False)
            made = pd.concat([before[~before["table"].isin(made["table"])], made])
        made.to_csv(asked.output, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
