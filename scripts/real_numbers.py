"""Write data/real: what was measured on data whose texts may not be shipped, as numbers in an order of their own.

    BERDS_NUMBER_FORMAT=float32 BERDS_DATA=../shared/data python scripts/real_numbers.py [lists,dial,changes,pir,people]

A list is a word with a letter a place: A argues the supporting side, B the opposing one, X both, a dot neither.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import berdslib as bd
from berdslib.data.datasets import load_pairs, load_questions
from berdslib.data.records import issue_of
from berdslib.judging.registry import make_judge
from berdslib.retrieval.expansion import expansions_by
from berdslib.statements import two_sides
from berdslib.study.raters import as_asked

FOLDER = Path(__file__).parents[1] / "data" / "real"
RETRIEVERS = ["bm25", "minilm", "mpnet"]
WEIGHTS = (0.95, 0.9, 0.75, 0.5, 0.25)
WAYS = ["", *(f"+mmr:{weight}" for weight in WEIGHTS), "+expand:rule", "+expand:recorded"]
DIAL = [retriever + way for retriever in ("bm25", "minilm") for way in WAYS]
WRITTEN = FOLDER.parent / "qwen-coder" / "theperspective.jsonl"
CHANGES = ["minilm", "minilm+mmr:0.75", "minilm+mmr:0.5", "minilm+dpp:0.5", "minilm+expand:rule"]
PROJECTED = ["minilm", "minilm+pap:1.0"]
TASKS = ("perspectrum", "ambigqa", "allsides", "exfever")
METHODS = ["add", "add+", "concat", "concat+", "cast", "cast+", "dual-sum", "tri-sum", "pap", "pap+"]
JUDGES = ["overlap", "similarity", "similarity:mpnet", "laptop", "laptop-mpnet"]


def lists(k: int = 20) -> pd.DataFrame:
    """Three retrievers, three queries a question; of the question's own list also what is among the first hundred.

    `issue` is the number of the first question with the same text: eight are there twice, and find the same passages.
    """
    listed = bd.sides(RETRIEVERS, "theperspective", k=100).listed
    near, far = words(listed[listed["rank"] <= k], RETRIEVERS), words(listed, RETRIEVERS)
    for name in RETRIEVERS:
        of_question = far[name].where(far["asked"] == "question", "").map(set)
        near[f"{name} 100"] = [_letter({"A", "X"} & s, {"B", "X"} & s) if s else "" for s in of_question]
    near["issue"] = near["question"].map(_issues(load_questions("theperspective")))
    return near


def dial() -> pd.DataFrame:
    """MMR at five weights and expansion by rule and by a chat model, of the question's own list.

    `kind` says what the rule makes of the question: "yes or no", "two answers", or "neither".
    """
    collection = bd.load("theperspective")
    expansions = expansions_by(f"chat:recorded:{WRITTEN}", collection.questions)
    found = words(bd.sides(DIAL, replace(collection, expansions=expansions), k=10).listed, DIAL)
    found = found.rename(columns=lambda name: name.replace("expand:recorded", "expand:qwen-coder"))
    numbers = _numbers([q.qid for q in collection.questions])
    kinds = {number: _kind(q.text) for number, q in zip(numbers, collection.questions, strict=True)}
    found["kind"] = found["question"].map(kinds)
    return found[found["asked"] == "question"].drop(columns="asked")


def _kind(question: str) -> str:
    if two_sides(question, choices=False):
        return "yes or no"
    return "two answers" if two_sides(question) else "neither"


def changes() -> pd.DataFrame:
    """What changes whether lists follow the query, three queries a question, the first five places."""
    found = words(bd.sides(CHANGES, "theperspective", k=5).listed, CHANGES)
    full = words(bd.sides(PROJECTED, "theperspective", k=5, form="question first").listed, PROJECTED)
    full = full.rename(columns={name: f"{name} (question first)" for name in PROJECTED})
    return found.merge(full, on=["question", "asked"])


def pir() -> pd.DataFrame:
    """p-Recall@5 of each root of the demo release, by method."""
    systems = ["minilm", *(f"minilm+{method}" for method in METHODS)]
    frames = []
    for task in TASKS:
        scores = bd.experiment([*systems, "bm25"], f"pir-demo:{task}", "pRecall@5").scores
        table = pd.DataFrame({name: frame.iloc[:, 0] for name, frame in scores.items()})
        order = np.random.default_rng(len(task)).permutation(len(table))
        frames.append(table.iloc[order].round(4).reset_index(drop=True).assign(task=task))
    found = pd.concat(frames, ignore_index=True)
    return found[["task", *systems, "bm25"]]


def people() -> pd.DataFrame:
    """What people said of 274 pairs, and what each judge says: P(yes)."""
    pairs = load_pairs("pers-det")
    table = pd.DataFrame({"question": _numbers([p.question for p in pairs]), "label": [int(p.label) for p in pairs]})
    for name in JUDGES:
        table[name] = np.asarray(make_judge(name).p_yes(as_asked(pairs))).round(4)
    order = np.random.default_rng(7).permutation(len(table))
    return table.iloc[order].sort_values("question", kind="stable").reset_index(drop=True)


def words(listed: pd.DataFrame, systems: Sequence[str]) -> pd.DataFrame:
    """Return question (a number), asked, and for each system its list as a word."""
    marked = listed.sort_values("rank")
    marked["mark"] = [_letter(a, b) for a, b in zip(marked["supporting"], marked["opposing"], strict=True)]
    found = marked.groupby(["qid", "asked", "system"])["mark"].agg("".join).unstack("system")[list(systems)]
    found = found.reset_index()
    found["question"] = _numbers(found["qid"])
    return found.drop(columns="qid").sort_values(["question", "asked"])[["question", "asked", *systems]]


def _letter(supporting: object, opposing: object) -> str:
    return {(True, True): "X", (True, False): "A", (False, True): "B"}.get((bool(supporting), bool(opposing)), ".")


def _numbers(names: Sequence[str]) -> list[int]:
    """Return a number for each name; which has which is drawn."""
    known = sorted(set(names))
    number = dict(zip(known, (np.random.default_rng(3).permutation(len(known)) + 1).tolist(), strict=True))
    return [number[name] for name in names]


def _issues(questions: Sequence[bd.Question]) -> dict[int, int]:
    """Return the number of each question → the smallest number of a question about the same issue."""
    numbers, first = _numbers([q.qid for q in questions]), {}
    for number, question in sorted(zip(numbers, questions, strict=True)):
        first.setdefault(issue_of(question), number)
    return {number: first[issue_of(question)] for number, question in zip(numbers, questions, strict=True)}


TABLES: dict[str, Callable[[], pd.DataFrame]] = {
    "lists": lists, "dial": dial, "changes": changes, "pir": pir, "people": people,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="?", default=",".join(TABLES))
    parser.add_argument("-o", "--out", type=Path, default=FOLDER)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in asked.tables.split(","):
        table, path = TABLES[name](), asked.out / f"{name}.csv"
        table.to_csv(path, index=False, lineterminator="\n")
        print(f"{path.name}: {len(table)} rows, {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
