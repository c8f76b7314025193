"""Tables of PIR on root queries alone, and on perspectives that were extracted from queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from berdslib.data.collection import Collection
from berdslib.data.records import Question, check_k, check_questions, check_run, check_verdicts
from berdslib.errors import InputError, known
from berdslib.evaluation.sides import labels_of
from berdslib.stats import cluster_bootstrap, ratio_of_sums
from berdslib.words import compared_words

OVERLAPS = ("union", "f1")


def task_statistics(task: Collection) -> dict[str, float]:
    """Return PIR's Table 1 for a task: queries, words_per_query, documents, words_per_document.

    Words are separated by blanks. The task must have recorded full queries.
    """
    if not task.expansions:
        raise InputError(f"{task.name!r} has no full queries; a task of PIR has a full query for each perspective")
    query_lengths = [len(query.text.split()) for query in task.queries]
    document_lengths = [len(passage.full_text.split()) for passage in task.passages]
    return {
        "queries": len(query_lengths),
        "words_per_query": float(np.mean(query_lengths)),
        "documents": len(document_lengths),
        "words_per_document": float(np.mean(document_lengths)),
    }


def root_bias(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    labels: Sequence[str],
    k: int = 5,
    **drawing: Any,
) -> pd.DataFrame:
    """Return how often root queries find the texts of each label of perspectives, as PIR's Tables 3 and 10.

    Args:
        run: the lists of the questions, which are the root queries.
        verdicts: verdicts on which passages argue which perspective.
        questions: questions with labels, such as "support" and "undermine".
        labels: the labels to compare; texts with other labels are left out.
        k: number of places counted in each list.
        drawing: level, resamples and seed of the bootstrap, which draws questions.

    Returns:
        Frame of one row per label: label, found (number of texts with the label in the first k places), share (of all
        found texts), low, high, in_corpus (the label's share of all texts with one of the labels, which an unbiased
        retriever would match).
    """
    check_k(k)
    check_questions(questions, need_perspectives=True)
    label_of = {(q.qid, pid): label for q in questions for pid, label in enumerate(labels_of(q))}
    for label in labels:
        known("label of a perspective", label, set(label_of.values()))
    clean = check_run(run)
    gold = check_verdicts(verdicts)
    gold = gold[gold["supports"]]
    keys = zip(gold["qid"], gold["pid"], strict=True)
    gold = gold.assign(label=[label_of.get(key, "") for key in keys])
    texts = gold[gold["label"].isin(labels)].drop_duplicates(["qid", "docno", "label"])
    in_top = clean[clean["rank"] <= k].merge(texts, on=["qid", "docno"])
    counts = pd.crosstab(in_top["qid"], in_top["label"])
    counts = counts.reindex(index=[q.qid for q in questions], columns=list(labels), fill_value=0)
    if not counts.to_numpy().any():
        raise InputError(f"no list has a text labelled {', '.join(labels)} in its first {k} places", field="labels")
    in_corpus = texts["label"].value_counts(normalize=True)
    with_total = counts.assign(total=counts.sum(axis=1)).to_numpy(dtype=np.float64)
    share, low, high = cluster_bootstrap(with_total, counts.index.tolist(), ratio_of_sums, **drawing)
    table = pd.DataFrame({"label": labels, "found": counts.sum().to_numpy(), "share": share, "low": low, "high": high})
    return table.assign(in_corpus=table["label"].map(in_corpus).fillna(0.0))


def groups_shown(
    run: pd.DataFrame,
    questions: Sequence[Question],
    groups: Mapping[str, str],
    k: int,
) -> pd.Series:
    """Return how many of the first k places of root queries show each group, the largest first (PIR Figure 5)."""
    check_k(k)
    clean = check_run(run)
    listed = clean[(clean["rank"] <= k) & clean["qid"].isin([q.qid for q in questions])]
    places = listed["docno"].map(dict(groups)).value_counts()
    all_groups = places.reindex(sorted(set(groups.values())), fill_value=0)
    return all_groups.sort_values(ascending=False, kind="stable").rename_axis("group").rename("places")


def word_overlap(found: str, gold: Sequence[str], definition: str = "union") -> float:
    """Return the similarity of an extracted perspective to the closest annotated one, 0 to 1 (PIR A.8, Table 6).

    "union" is the formula that PIR prints as QA-F1: shared words over all words of both. "f1" is the usual F1: twice
    the shared words over the sum of both.

    >>> word_overlap("a claim", ["a claim that opposes"]), word_overlap("a claim", ["a claim that opposes"], "f1")
    (0.5, 0.6666666666666666)
    """
    known("definition of QA-F1", definition, OVERLAPS)
    if not gold:
        raise InputError("expected at least one annotated perspective", field="gold")
    extracted = set(compared_words(found))
    scores = []
    for text in gold:
        annotated = set(compared_words(text))
        shared = len(extracted & annotated)
        total = len(extracted | annotated)
        if definition == "f1":
            shared *= 2
            total = len(extracted) + len(annotated)
        scores.append(shared / total if total else 0.0)
    return max(scores)
