"""Every path that asks a chat model, run with one that comes in packages: smollm2, or by --chat qwen-coder.

    BERDS_DATA=../shared/data python scripts/chat_paths.py readable,expansion,writing -o FOLDER     (real questions)
    BERDS_DATA=../shared/data python scripts/chat_paths.py swapped -o FOLDER    (data/MODEL/essays.csv, numbers)
    python scripts/chat_paths.py record                     (our own texts: data/MODEL, which notebooks replay)

Every answer is kept in FOLDER, so that a run that broke off goes on; tables are printed. A data set is built by
``berds build arguana RAW FOLDER --model smollm2 --sample 100``.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import berdslib as bd
from berdslib.construction.build import MAX_TOKENS as BUILD_TOKENS
from berdslib.construction.build import make, read_items
from berdslib.construction.pipeline import ByChat
from berdslib.construction.reading import choice, fields, sentence
from berdslib.data.tables import read_jsonl, write_jsonl
from berdslib.errors import InputError
from berdslib.llm.answers import parse_perspectives
from berdslib.llm.extraction import read_extraction
from berdslib.llm.prompting import load_prompt
from berdslib.llm.recorded import Recorded
from berdslib.models.chat import LocalChat, load_local_chat
from berdslib.paths import shipped
from berdslib.retrieval.expansion import EXPANSION_TOKENS, chat_expansions
from berdslib.study import rag

N = 56
# Tokens that an answer may have which nothing holds to a form: several times what its task needs.
LONGEST = {
    "perspective_detection": 12,
    "supporting_side": 12,
    "statement_and_negation": 120,
    "perspective_generation": 300,
}
DATA = Path(__file__).parents[1] / "data"
BUILT, ESSAYS = 12, 12  # arguments and essays that are recorded for the notebooks
_YES, _ONE = {"yes": ("yes",), "no": ("no",)}, {"first": ("1",), "second": ("2",)}
READ: dict[str, Callable[[str], Any]] = {
    "perspective_detection": lambda answer: choice(answer, _YES),
    "supporting_side": lambda answer: choice(answer, _ONE),
    "question_from_arguments": sentence,
    "opposing_statement": sentence,
    "statement_and_negation": lambda answer: fields(answer, {"yes": ("statement",), "no": ("negation",)}),
    "perspective_extraction": read_extraction,
    "perspective_generation": parse_perspectives,
}


def readable(folder: Path, model: str) -> pd.DataFrame:
    """How many answers have the form that is read: asked in our long wording and left free, and as it is done now."""
    now = load_local_chat(model, max_tokens=EXPANSION_TOKENS)
    found = bd.load(["arguana", "kialo"], passages="theperspective", split="dev")
    questions = [q for q in found.questions if len(q.perspectives) > 1][:N]
    texts = [(p.text, q.perspectives[0]) for p, q in zip(found.passages, questions, strict=False)]
    values = [
        {"question": q.text, "first": q.perspectives[0], "second": q.perspectives[1], "document": document}
        | {"statement": statement, "query": f"Find a claim that opposes the argument: {statement}"}
        for q, (document, statement) in zip(questions, texts, strict=True)
    ]
    rows = []
    for task, read in READ.items():
        free = LocalChat(now.model, now.tokenizer, f"{model}, left free", max_tokens=LONGEST.get(task, 80))
        for name, chat in (("left free", free), ("held", now)):
            prompt = load_prompt(task, asked=chat.id)
            asked, start = [prompt.about(**one) for one in values], time.perf_counter()
            kept = Recorded(folder / "readable.jsonl", chat)
            replies = [r for at in range(0, len(asked), 8) for r in kept.complete_all(asked[at : at + 8])]
            rows.append(
                {
                    "task": task,
                    "asked": name,
                    "n": len(replies),
                    "readable": sum(reads(read, r.text) and r.finish != "length" for r in replies),
                    "tokens": sum(r.completion_tokens for r in replies),
                    "seconds": round(time.perf_counter() - start),
                }
            )
            print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def reads(read: Callable[[str], Any], answer: str) -> bool:
    """Say whether an answer can be read."""
    try:
        read(answer)
    except InputError:
        return False
    return True


def expansion(folder: Path, model: str) -> pd.DataFrame:
    """MRecall and Precision on theperspective with the model's perspectives and without, and by rule."""
    ways = ("", f"+expand:chat:{model}", "+expand:rule")
    systems = [f"{retriever}{way}" for retriever in ("bm25", "minilm") for way in ways]
    found = bd.experiment(
        systems,
        bd.load("theperspective"),
        ["MRecall@5", "MRecall@10", "Precision@5"],
        baseline=systems[0],
        recordings=folder / "expansions.jsonl",
    )
    for _, row in read_jsonl(folder / "expansions.jsonl"):
        print(row["messages"][-1]["content"], row["text"], sep="\n", end="\n\n")
    return found.table


def writing(folder: Path, model: str, n: int = 30) -> pd.DataFrame:
    """Answers to queries of PIR's demo release and essays from what minilm finds; what an essay's tone goes with."""
    chat = Recorded(folder / "writing.jsonl", load_local_chat(model))
    asked = bd.load("pir-demo:ambigqa")
    questions, corpus = asked.queries[:n], {p.docno: p for p in asked.passages}
    run = bd.retriever("minilm", asked).search(questions, 3)
    answers = rag.answer_questions(questions, run, corpus, chat, {q.qid: ["?"] for q in questions}, depth=3)
    print(answers.assign(question=[q.text for q in questions])[["question", "answer"]].to_string())
    sides = bd.load("pir-demo:perspectrum")
    queries = [q for q in sides.queries if q.question.labels[q.pid] != "general"][:n]
    run = bd.retriever("minilm", sides).search(queries, 3)
    essays = rag.write_essays(queries, run, {p.docno: p for p in sides.passages}, chat, depth=3)
    print(essays[["root", "stance", "words", "polarity", "essay"]].to_string())
    print(f"{(answers['answer'] != '').sum()} answers, {(essays['essay'] != '').sum()} essays of {len(queries)}")
    return alignment(essays)


def alignment(essays: pd.DataFrame) -> pd.DataFrame:
    """Return how the essays' polarity goes with what they were asked for: target, r, low, high, p_value, n.

    TextBlob gives both stances of a topic the same "topic-stance text" polarity; the "designated stance" (1 or -1) is
    what the paper's conclusion is about. Intervals draw topics. PIR, section 3.3 and Table 5.
    """
    targets = {
        "designated stance": "stance",
        "topic-stance text": "pair_polarity",
        "retrieved passages": "passages_polarity",
    }
    rows = []
    for target, column in targets.items():
        complete = essays.dropna(subset=[column, "polarity"])
        values = complete[column].to_numpy(np.float64)
        rows.append((target, *rag.correlation(values, complete["polarity"].to_numpy(), complete["root"].tolist())))
    return pd.DataFrame(rows, columns=["target", *rag.Correlation._fields])


def swapped(folder: Path, model: str, most: int = 3, run_of: int = 3) -> pd.DataFrame:
    """Essays on both sides of topics, from passages of either side, from those found, and from none: as numbers.

    The topics are those of PIR's demo release with passages on both sides, in its order. `wrote` is the side that an
    essay argues as it was read (A supports the topic, B opposes it, X both, a dot neither), and is kept where the file
    has it.
    """
    task = bd.load("pir-demo:perspectrum")
    corpus, argued = {p.docno: p for p in task.passages}, task.gold.groupby(["qid", "pid"])["docno"].agg(list)
    asks: dict[tuple[str, int], Any] = {}
    gold: dict[tuple[str, int], list[str]] = {}
    for q in task.queries:
        if q.question.labels[q.pid] != "general":
            key = q.question.text, rag.stance_of(q.perspective)
            asks.setdefault(key, q)
            gold[key] = list(dict.fromkeys([*gold.get(key, []), *argued.get((q.question.qid, q.pid), [])]))
    roots = [root for root, side in gold if side == 1 and gold[root, 1] and gold.get((root, -1))]
    roots = [root for root in dict.fromkeys(root for root, _ in asks) if root in roots]
    queries = [asks[root, side] for root in roots for side in (1, -1)]
    size = {root: min(most, len(gold[root, 1]), len(gold[root, -1])) for root in roots}
    given = {(root, side): gold[root, side][: size[root]] for root in roots for side in (1, -1)}

    def of_side(side: int) -> pd.DataFrame:
        rows = [(q.qid, d, rank) for q in queries for rank, d in enumerate(given[q.question.text, side], start=1)]
        return pd.DataFrame(rows, columns=["qid", "docno", "rank"])

    found = bd.retriever("minilm", task).search(queries, most)
    runs = {"supporting": of_side(1), "opposing": of_side(-1), "found": found, "none": None}
    chat, frames = Recorded(folder / "swapped.jsonl", load_local_chat(model)), []
    for name, run in runs.items():
        essays = rag.write_essays(queries, run, corpus, chat, depth=most).assign(passages=name)
        shown = [docnos.split() for docnos in essays["docnos"]]
        for column, side in (("right", 1), ("wrong", -1)):
            asked = zip(essays["root"], essays["stance"], strict=True)
            held = [gold[root, side * stance] for root, stance in asked]
            essays[column] = [sum(d in h for d in listed) for listed, h in zip(shown, held, strict=True)]
        for column, side in (("from_supporting", 1), ("from_opposing", -1)):
            texts = [[corpus[d].text for d in given[root, side]] for root in essays["root"]]
            written = zip(essays["essay"], texts, essays["root"], strict=True)
            essays[column] = [copied(essay, found_in, root, run_of) for essay, found_in, root in written]
        frames.append(essays.assign(listed=[len(docnos) for docnos in shown]))
    table = pd.concat(frames, ignore_index=True)
    table["topic"] = table["root"].map({root: number for number, root in enumerate(roots, start=1)})
    table["asked"] = table["stance"].map({1: "supporting", -1: "opposing"})
    each = table.assign(docno=[f"e{i}" for i in table.index], qid=[f"q{i}" for i in table.index], rank=1)
    texts = [bd.Passage(e.docno, e.essay) for e in each.itertuples()]
    topics = [bd.Question(e.qid, e.root, (e.root,)) for e in each.itertuples()]
    said = bd.judge(each[["qid", "docno", "rank"]], bd.Collection("essays", topics, texts), "laptop", 1)
    table["laptop"] = said.set_index("qid")["p_yes"].reindex(each["qid"]).to_numpy()
    path, keys = DATA / model / "essays.csv", ["topic", "asked", "passages"]
    table["wrote"] = ""
    if path.exists():
        read = pd.read_csv(path, keep_default_na=False).set_index(keys)["wrote"]
        table["wrote"] = [read.get(key, "") for key in table[keys].itertuples(index=False, name=None)]
    table[[*keys, "root", "essay"]].to_csv(folder / "swapped.csv", index=False)
    table = table.rename(columns={"polarity": "tone", "passages_polarity": "passages_tone"}).round(4)
    measured = ["listed", "right", "wrong", "words", "from_supporting", "from_opposing", "tone", "passages_tone"]
    table[[*keys, *measured, "laptop", "wrote"]].to_csv(path, index=False, lineterminator="\n")
    return table.groupby("passages", sort=False)[["words", "tone", "laptop"]].mean().reset_index()


def copied(essay: str, texts: Sequence[str], topic: str, run_of: int) -> int:
    """Return how many words of an essay stand in a run of so many words that a text has, and the topic has not."""

    def runs(text: str) -> list[tuple[str, ...]]:
        words = re.findall(r"\w+", text.lower())
        return [tuple(words[i : i + run_of]) for i in range(len(words) - run_of + 1)]

    theirs = {run for text in texts for run in runs(text)} - set(runs(topic))
    return len({i + j for i, run in enumerate(runs(essay)) if run in theirs for j in range(run_of)})


def record(_: Path, model: str) -> pd.DataFrame:
    """Write data/MODEL: what the model says of our own texts, a file for each use, without the questions' words."""
    (DATA / model).mkdir(exist_ok=True)
    sample = bd.load("sample", split="all")

    def build(chat: Recorded) -> None:
        make("arguana", read_items("arguana", shipped("raw") / "arguments.jsonl", BUILT).drafts, ByChat(chat))

    def write(chat: Recorded) -> None:
        task = rag.stance_task(sample.questions, sample.gold, sample.passages)
        queries = task.queries[:ESSAYS]
        run = bd.retriever("minilm", task).search(queries, 3)
        rag.write_essays(queries, run, {p.docno: p for p in task.passages}, chat, depth=3)

    uses: dict[str, tuple[int, Callable[[Recorded], object]]] = {
        "build": (BUILD_TOKENS, build),
        "expand": (EXPANSION_TOKENS, lambda chat: chat_expansions(sample.questions, chat)),
        "write": (200, write),
    }
    rows = []
    for name, (longest, use) in uses.items():
        path = DATA / model / f"{name}.jsonl"
        chat = Recorded(path, load_local_chat(model, max_tokens=longest))
        use(chat)
        said = (row for _, row in read_jsonl(path) if row["model"] == chat.id)  # not of an earlier prompt or form
        kept = [{k: v for k, v in row.items() if k not in ("messages", "first_token", "crc32")} for row in said]
        write_jsonl(path, kept)
        rows.append({"file": path.name, "answers": len(kept), "kB": path.stat().st_size / 1000})
    return pd.DataFrame(rows)


PATHS = {"readable": readable, "expansion": expansion, "writing": writing, "swapped": swapped, "record": record}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", help=f"comma-separated: {', '.join(PATHS)}")
    parser.add_argument("--chat", choices=["smollm2", "qwen-coder"], default="smollm2", help="the model that is asked")
    parser.add_argument("-o", "--out", type=Path, default=Path("."), help="a folder for answers and tables")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in asked.paths.split(","):
        start, table = time.perf_counter(), PATHS[name](asked.out, asked.chat)
        print(table.round(3).to_string(index=False), f"{(time.perf_counter() - start) / 60:.1f} minutes", sep="\n")
        (asked.out / f"{name}.json").write_text(json.dumps(table.to_dict("records"), default=str), encoding="utf-8")


if __name__ == "__main__":
    main()
