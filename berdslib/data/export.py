"""Questions, passages and gold verdicts in the layouts of other tools: BEIR, BeRDS, TREC."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

import pandas as pd

from berdslib.data.formats import write_beir, write_berds, write_passages
from berdslib.data.records import Passage, Question, check_passages, check_questions, check_verdicts
from berdslib.data.trec import check_trec_ids, write_trec_qrels
from berdslib.errors import known
from berdslib.files import StrPath, atomic_path, write_text

LAYOUTS = ("beir", "berds", "trec")


def write_trec_collection(
    folder: Path, questions: Sequence[Question], passages: Iterable[Passage], gold: pd.DataFrame
) -> None:
    """Write what pyndeval and ir-measures read, and what their numbers stand for.

    That is `qrels.txt`, diversity qrels with the perspectives as subtopics from 0; `topics.tsv`, the questions;
    `subtopics.tsv`, the perspectives; and `corpus.jsonl`, the passages.

    Raises:
        InputError: an id that no TREC file can carry, or nothing can be written there.
    """
    corpus = list(passages)
    check_passages(corpus)
    check_trec_ids(questions, corpus)
    topics: list[Sequence[object]] = [("qid", "question"), *((q.qid, q.text) for q in questions)]
    subtopics: list[Sequence[object]] = [("qid", "subtopic", "perspective", "stance")]
    subtopics += [(q.qid, i, p, stance or "") for q in questions for i, (p, stance) in enumerate(_with_stances(q))]
    with atomic_path(folder, marker="qrels.txt") as unfinished:
        write_trec_qrels(unfinished / "qrels.txt", gold)
        write_passages(unfinished / "corpus.jsonl", corpus)
        _write_tsv(unfinished / "topics.tsv", topics)
        _write_tsv(unfinished / "subtopics.tsv", subtopics)


def _with_stances(question: Question) -> Iterable[tuple[str, str | None]]:
    return zip_longest(question.perspectives, question.stances)


def _write_tsv(path: Path, rows: Iterable[Sequence[object]]) -> None:
    with write_text(path) as file:
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows(rows)


def export_collection(
    path: StrPath,
    questions: Sequence[Question],
    passages: Iterable[Passage],
    gold: pd.DataFrame,
    *,
    layout: str | None = None,
    split: str = "test",
    run: pd.DataFrame | None = None,
) -> None:
    """Write questions, passages and gold verdicts in a layout that other tools read.

    BEIR knows no perspectives: there a passage's score is the number of perspectives that it supports, and which they
    are is lost. The official BeRDS rows keep them, and hold listed passages only. TREC's diversity qrels keep them too,
    as numbers; the folder has their statements beside them.

    Args:
        path: a folder for "beir" and "trec"; a file for "berds", .jsonl or .jsonl.gz.
        questions: at least one.
        passages: the corpus; for "beir" it is streamed.
        gold: verdicts; those of other questions are left out.
        layout: "beir", "berds" or "trec"; None for "berds" where the path ends in .jsonl or .jsonl.gz, else "beir".
        split: of "beir", what the file of qrels is called.
        run: of "berds", each question's list; None for its passages with a verdict, those that support most first.

    Raises:
        InputError: an unknown layout, unusable questions, passages or verdicts, or a folder that holds anything else.
    """
    is_table = str(path).removesuffix(".gz").endswith(".jsonl")
    layout = known("layout", layout or ("berds" if is_table else "beir"), LAYOUTS)
    check_questions(questions)
    gold = check_verdicts(gold)
    gold = gold[gold["qid"].isin([q.qid for q in questions])]
    if layout == "beir":
        write_beir(path, questions, passages, gold, split)
        return
    if layout == "trec":
        write_trec_collection(Path(path), questions, passages, gold)
        return
    corpus = list(passages)
    check_passages(corpus)
    shown = gold.groupby(["qid", "docno"], sort=False)["supports"].sum().astype(float).rename("score").reset_index()
    write_berds(path, questions, {p.docno: p for p in corpus}, shown if run is None else run, gold, "gold-preds")
