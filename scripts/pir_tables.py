"""Make PIR's Tables 1, 3, 5 and 6 and Figures 2 to 6 on the demo release and the shipped tasks.

    BERDS_DATA=FOLDER python scripts/pir_tables.py [1,3,5,6,figure-2, … figure-6] [-o data/published/ours.csv]

Tables and Figures 2 and 4 need the demo release (berds data card pir-demo). The rows are those of
data/published/ours.csv, where -o puts them; n is the number of root queries. Vectors are float32 here, so that numbers
come out the same elsewhere.

The demo release lacks AmbigQA's answers, which Table 5 needs. --answers names a file of AmbigQA's own release, such as
train_light.json. Without it, ambigqa_answers.csv beside this script has those that the gold texts state: a language
model read them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import berdslib as bd
from berdslib.data.pir import task_statistics
from berdslib.data.records import ranked_run
from berdslib.data.tables import read_json
from berdslib.errors import BerdsError, InputError
from berdslib.evaluation.sides import labels_of, root_versus_full
from berdslib.llm.extraction import extract
from berdslib.llm.recorded import Recorded
from berdslib.models.chat import make_chat
from berdslib.paths import shipped
from berdslib.retrieval.retrievers import is_dense
from berdslib.stats import cluster_bootstrap, mean_interval, ratio_of_sums
from berdslib.study import rag
from berdslib.words import compared_words

TASKS = ("perspectrum", "ambigqa", "allsides", "exfever")
RETRIEVERS = ("bm25", "minilm", "mpnet")
# What the paper's tables, and so ours, call a task where its name is another one.
PRINTED = {"exfever": "ex-fever"}
ANSWERS = Path(__file__).parent / "ambigqa_answers.csv"
LABELS = {"perspectrum": ("support", "undermine"), "allsides": ("left", "right", "center")}
COLUMNS = [
    "table", "corpus", "retriever", "system", "dataset", "measure", "k", "value", "low", "high", "n", "judge",
]  # fmt: skip
Rows = Iterator[dict[str, Any]]


def task_of(asked: argparse.Namespace, name: str) -> bd.Collection:
    return bd.load(f"{asked.tasks}{name}")


def table_1(asked: argparse.Namespace) -> Rows:
    for task in TASKS:
        collection = task_of(asked, task)
        for measure, value in task_statistics(collection).items():
            yield {
                "dataset": task,
                "measure": measure,
                "value": value,
                "n": len(collection.questions),
                "judge": "counting",
            }


def root_bias(
    run: pd.DataFrame, task: bd.Collection, labels: Sequence[str], k: int = 5, **drawing: Any
) -> pd.DataFrame:
    """Return how often root queries find the texts of each label of perspectives, such as "support" (Tables 3 and 10).

    The columns are label, found (number of texts with the label in the first k places), share (of all found texts) with
    its interval low and high, whose bootstrap draws questions, and in_corpus (the label's share of all texts with one
    of the labels, which an unbiased retriever would match).
    """
    label_of = {(q.qid, pid): label for q in task.questions for pid, label in enumerate(labels_of(q))}
    gold = task.gold[task.gold["supports"]]
    gold = gold.assign(label=[label_of[key] for key in zip(gold["qid"], gold["pid"], strict=True)])
    texts = gold[gold["label"].isin(labels)].drop_duplicates(["qid", "docno", "label"])
    in_top = run[run["rank"] <= k].merge(texts, on=["qid", "docno"])
    counts = pd.crosstab(in_top["qid"], in_top["label"])
    counts = counts.reindex(index=[q.qid for q in task.questions], columns=list(labels), fill_value=0)
    in_corpus = texts["label"].value_counts(normalize=True).reindex(labels, fill_value=0.0)
    with_total = counts.assign(total=counts.sum(axis=1)).to_numpy(dtype=np.float64)
    share, low, high = cluster_bootstrap(with_total, counts.index.tolist(), ratio_of_sums, **drawing)
    table = pd.DataFrame({"label": labels, "found": counts.sum().to_numpy(), "share": share, "low": low, "high": high})
    return table.assign(in_corpus=in_corpus.to_numpy())


def table_3(asked: argparse.Namespace) -> Rows:
    for task, labels in LABELS.items():
        collection = task_of(asked, task)
        about = {"dataset": task, "k": 5, "n": len(collection.questions)}
        for retriever in asked.retrievers:
            run = bd.search(retriever, collection, k=5)
            bias = root_bias(run, collection, labels)
            for row in bias.itertuples():
                share = percent(row.share, row.low, row.high)
                yield about | {"retriever": retriever, "measure": f"share_{row.label}"} | share
        # The shares that a retriever without a preference would give; every retriever's table has the same.
        for row in bias.itertuples():
            share = percent(row.in_corpus)
            yield about | {"retriever": "in the corpus", "measure": f"share_{row.label}"} | share


def accepted_answers(path: Path, queries: Sequence[bd.Question]) -> dict[str, list[str]]:
    """Return qid → accepted answers of the queries that a file has: ours by qid, or AmbigQA's own by question."""
    if path.suffix == ".csv":
        table = pd.read_csv(path, dtype=str)
        found = dict(zip(table["qid"], table["answers"].str.split(" | ", regex=False), strict=True))
        return {query.qid: found[query.qid] for query in queries if query.qid in found}
    by_question: dict[str, list[str]] = {}
    for item in read_json(path):
        for annotation in item["annotations"]:
            for pair in annotation.get("qaPairs", []):
                by_question.setdefault(pair["question"], []).extend(pair["answer"])
    return {query.qid: by_question[query.text] for query in queries if query.text in by_question}


def table_5(asked: argparse.Namespace) -> Rows:
    chat = make_chat(asked.chat)
    if asked.recordings:
        chat = Recorded(asked.recordings, chat)
    who = {"judge": asked.chat if asked.wording == "ours" else f"{asked.chat}, {asked.wording} prompt"}

    task = task_of(asked, "ambigqa")
    golds = accepted_answers(asked.answers, task.queries)
    queries = [query for query in task.queries if query.qid in golds]
    if not queries:
        raise InputError("has an answer to none of the queries", path=asked.answers)
    roots = [query.question.qid for query in queries]
    corpus = {passage.docno: passage for passage in task.passages}
    for given, run in shown_passages(task, queries, gold_of(task), asked.retrievers, 1):
        found = rag.answer_questions(queries, run, corpus, chat, golds, depth=1, wording=asked.wording)
        scores = found["exact_match"].fillna(0).to_numpy()
        about = {"dataset": "ambigqa", "measure": "accuracy", "n": len(set(roots))}
        yield given | about | who | percent(scores.mean(), *mean_interval(scores, clusters=roots))

    task = task_of(asked, "perspectrum")
    gold: dict[str, list[str]] = {}
    of_side: dict[tuple[str, int], bd.Query] = {}
    for query in task.queries:
        if labels_of(query.question)[query.pid] == "general":
            continue
        # The release asks for one side of a topic once for each cluster of texts.
        first = of_side.setdefault((query.question.text, rag.stance_of(query.perspective)), query)
        gold[first.qid] = list(dict.fromkeys([*gold.get(first.qid, []), *gold_of(task)[query.qid]]))
    queries = list(of_side.values())
    corpus = {passage.docno: passage for passage in task.passages}
    for given, run in shown_passages(task, queries, gold, asked.retrievers, 5):
        essays = rag.write_essays(queries, run, corpus, chat, depth=5, wording=asked.wording)
        essays = essays.dropna(subset="polarity")
        stances = essays["stance"].to_numpy(float)
        found = rag.correlation(stances, essays["polarity"].to_numpy(), essays["root"].tolist())
        about = {"dataset": "perspectrum", "measure": "correlation", "n": essays["root"].nunique()}
        yield given | about | who | percent(found.r, found.low, found.high)


def gold_of(task: bd.Collection) -> dict[str, list[str]]:
    """Return the id of each query with a perspective → its texts."""
    yes = task.gold[task.gold["supports"]]
    return yes.groupby(yes["qid"] + "#" + yes["pid"].astype(str))["docno"].agg(list).to_dict()


def shown_passages(
    task: bd.Collection, queries: Sequence[bd.Query], gold: dict[str, list[str]], retrievers: Sequence[str], k: int
) -> Iterator[tuple[dict[str, Any], pd.DataFrame | None]]:
    """Yield the rows of Table 5, and what each gives to the writer: None for no passages."""
    yield {"system": "no-retrieval"}, None
    yield {"system": "gold"}, ranked_run({query.qid: gold[query.qid][:k] for query in queries})
    for retriever in retrievers:
        for system in ("baseline", "pap", "pap+") if is_dense(retriever) else ("baseline",):
            name = retriever if system == "baseline" else f"{retriever}+{system}"
            yield {"retriever": retriever, "system": system, "k": k}, bd.retriever(name, task).search(queries, k)


def word_overlap(found: str, gold: str, definition: str = "union") -> float:
    """Return the similarity of an extracted perspective to the annotated one, 0 to 1 (PIR A.8).

    "union" is the formula that PIR prints as QA-F1: shared words over all words of both. "f1" is the usual F1: twice
    the shared words over the sum of both.
    """
    extracted = set(compared_words(found))
    annotated = set(compared_words(gold))
    shared = len(extracted & annotated)
    total = len(extracted | annotated)
    if definition == "f1":
        shared *= 2
        total = len(extracted) + len(annotated)
    return shared / total if total else 0.0


def table_6(asked: argparse.Namespace) -> Rows:
    for task in TASKS:
        collection = task_of(asked, task)
        queries = collection.queries
        # Queries of one root share most of their words, so they are no independent trials.
        roots = [q.question.qid for q in queries]
        for definition, measure in (("union", "qa_f1"), ("f1", "qa_f1_as_elsewhere")):
            scores = [word_overlap(extract(q.text).perspective, q.perspective, definition) for q in queries]
            about = {"system": "extract:rule", "dataset": task, "measure": measure}
            interval = mean_interval(np.array(scores), clusters=roots)
            yield about | {"n": len(collection.questions)} | percent(float(np.mean(scores)), *interval)


def with_and_without(asked: argparse.Namespace, ks: tuple[int, ...]) -> pd.DataFrame:
    """Return task, n (its root queries), retriever and the columns of root_versus_full."""
    tables = []
    for task in TASKS:
        collection = task_of(asked, task)
        for retriever in asked.retrievers:
            run = bd.search(retriever, collection, k=max(ks), perspectives=True)
            both = pd.concat([run, bd.search(retriever, collection, k=max(ks))]).drop_duplicates(["qid", "docno"])
            found = root_versus_full(both, collection.gold, collection.questions, list(ks))
            tables.append(found.assign(task=task, n=len(collection.questions), retriever=retriever))
    return pd.concat(tables, ignore_index=True)


def figure_2(asked: argparse.Namespace) -> Rows:
    compared = with_and_without(asked, (5,))
    means = compared.groupby(["task", "n"], sort=False)[["root_any", "root", "full", "difference"]].mean()
    for (task, n), row in means.iterrows():
        about = {"retriever": f"mean of {', '.join(asked.retrievers)}", "dataset": task, "k": 5, "n": n}
        for measure, value in row.items():
            yield about | {"measure": measure} | percent(value)


def location_groups() -> dict[str, str]:
    """Return docno → country for each article of "pir-sample:location"."""
    task = read_json(shipped("pir-sample") / "tasks.json")["location"]
    return dict(zip(task["docnos"], task["groups"], strict=True))


def figure_3(asked: argparse.Namespace) -> Rows:
    task = bd.load("pir-sample:location")
    country_of = location_groups()
    for retriever in asked.retrievers:
        run = bd.search(retriever, task, k=5, perspectives=True)
        listed = run.assign(country=run["docno"].map(country_of)).groupby("qid")["country"].agg(list)
        shares: dict[str, list[float]] = {}
        for question in task.questions:
            for pid, country in enumerate(labels_of(question)):
                shares.setdefault(country, []).append(listed[f"{question.qid}#{pid}"].count(country) / 5)
        for country, found in sorted(shares.items(), key=lambda row: -np.mean(row[1])):
            about = {"retriever": retriever, "dataset": "pir-sample:location", "measure": country, "k": 5}
            yield about | {"n": len(found), "judge": "counting"} | percent(float(np.mean(found)))


def figure_4(asked: argparse.Namespace) -> Rows:
    for row in with_and_without(asked, (5, 10)).itertuples():
        about = {"retriever": row.retriever, "dataset": row.task, "k": row.k, "n": row.n}
        for measure in ("root_any", "root", "full"):
            yield about | {"measure": measure} | percent(getattr(row, measure))
        yield about | {"measure": "difference"} | percent(row.difference, row.low, row.high)


def figure_5(asked: argparse.Namespace) -> Rows:
    task = bd.load("pir-sample:location")
    for retriever in asked.retrievers:
        run = bd.search(retriever, task, k=5)
        country_of = location_groups()
        places = run["docno"].map(country_of).value_counts().reindex(sorted(set(country_of.values())), fill_value=0)
        places = places.sort_values(ascending=False, kind="stable")
        about = {"retriever": retriever, "dataset": "pir-sample:location", "k": 5, "n": len(task.questions)}
        for group, count in places.items():
            yield about | {"measure": group, "value": count, "judge": "counting"}


def figure_6(asked: argparse.Namespace) -> Rows:
    task = bd.load("pir-sample:location")
    country_of = location_groups()
    each = len(task.queries) // len(set(country_of.values()))
    wanted = {f"{q.qid}#{pid}": country for q in task.questions for pid, country in enumerate(labels_of(q))}
    for retriever in asked.retrievers:
        run = bd.search(retriever, task, k=5, perspectives=True)
        listed = run[run["qid"].isin(wanted)]
        counts = listed.groupby([listed["qid"].map(wanted), listed["docno"].map(country_of)]).size()
        # The country asked for first; what is never shown has no row.
        for (asked_for, shown), count in sorted(counts.items(), key=lambda row: row[0][0] != row[0][1]):
            about = {"retriever": retriever, "system": asked_for, "dataset": "pir-sample:location", "measure": shown}
            yield about | {"k": 5, "n": each, "judge": "counting"} | percent(count / (each * 5))


def percent(value: float, low: float | None = None, high: float | None = None) -> dict[str, float | None]:
    return {
        "value": 100 * value,
        "low": None if low is None else 100 * low,
        "high": None if high is None else 100 * high,
    }


MADE: dict[str, Callable[[argparse.Namespace], Rows]] = {
    "1": table_1, "3": table_3, "5": table_5, "6": table_6, "figure-2": figure_2, "figure-3": figure_3,
    "figure-4": figure_4, "figure-5": figure_5, "figure-6": figure_6,
}  # fmt: skip


def as_recorded(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the columns of ours.csv as text: counts whole, everything else with one decimal."""
    recorded = rows.reindex(columns=COLUMNS)
    recorded["dataset"] = recorded["dataset"].replace(PRINTED)
    recorded["judge"] = recorded["judge"].astype(object).fillna("the tasks' labels")
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
    parser.add_argument("--tasks", default="pir-demo:", help="before the tasks' names; pir- for the full ones")
    parser.add_argument(
        "--chat", default="smollm2", help="who writes, for Table 5; settings as in MODEL?temperature=1.0"
    )
    parser.add_argument("--wording", default="ours", choices=("ours", "published"), help="of the prompts, for Table 5")
    parser.add_argument("--answers", type=Path, default=ANSWERS, help="to AmbigQA's questions, for Table 5")
    parser.add_argument("--recordings", type=Path, help="a file that keeps what the model says, for Table 5")
    parser.add_argument("-o", "--output", type=Path, help="a CSV to write; the rows of other tables in it stay")
    asked = parser.parse_args()
    names = asked.tables.split(",")
    if unknown := sorted(set(names) - set(MADE)):
        parser.error(f"unknown table {unknown[0]!r}; there are {', '.join(MADE)}")
    asked.retrievers = asked.retrievers.split(",")
    frames = []
    for name in names:
        title = "PIR " + name.replace("figure-", "Figure ")
        try:
            rows = as_recorded(pd.DataFrame(MADE[name](asked)).assign(table=title))
        except BerdsError as error:
            parser.exit(1, f"{parser.prog}: {error}\n")
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
