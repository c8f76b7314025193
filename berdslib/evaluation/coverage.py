"""How many documents show every perspective, and which perspectives all retrievers show together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from berdslib.data.records import Question, check_k, read_pairs
from berdslib.errors import InputError
from berdslib.evaluation.measures import checked, judged_questions
from berdslib.evaluation.tables import check_not_taken, pair_index, question_tables
from berdslib.stats import macro_mean, mean_interval

MACRO = "macro"  # the row with the mean of the data sets' means


def documents_needed(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    k: int = 100,
) -> pd.Series:
    """Return how many of a question's first k passages show all of its perspectives; NaN if k are not enough.

    The series is indexed by qid, in the order of `questions`, without unjudged ones (see
    :func:`berdslib.evaluation.measures.judged_questions`). Source: BeRDS, appendix B.2.
    """
    check_k(k)
    run, verdicts = checked(run, verdicts, questions)
    judged = judged_questions(questions, verdicts, [run])
    sizes = [_first_complete(table.listed[:k]) for table in question_tables(run, verdicts, judged)]
    index = pd.Index([q.qid for q in judged], name="qid")
    return pd.Series(sizes, index=index, name="size", dtype=np.float64)


def _first_complete(listed: np.ndarray) -> float:
    """Return the first rank up to which a (passages, perspectives) table shows every perspective, or NaN."""
    if not len(listed) or not listed.any(axis=0).all():
        return np.nan
    return float(listed.argmax(axis=0).max() + 1)


def size_table(
    runs: Mapping[str, pd.DataFrame],
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    *,
    k: int = 100,
) -> pd.DataFrame:
    """Return documents needed and the share of questions covered within k, as BeRDS Table 17.

    Frame system, dataset ("macro" is the mean of the data sets' means), n, set_size (documents, of the covered
    questions), within, low, high (share of all questions), unjudged (share of the listed passages without a verdict: if
    a judge saw fewer than k passages, the figures are too low).
    """
    clean, verdicts, judged = _clean_runs(runs.values(), verdicts, questions, k)
    rows = []
    for system, run in zip(runs, clean, strict=True):
        tables = question_tables(run, verdicts, judged)
        sizes = np.array([_first_complete(table.listed[:k]) for table in tables], dtype=np.float64)
        listed = run[run["rank"] <= k]
        for row in _by_data_set(judged, sizes, ~np.isnan(sizes), listed, verdicts):
            rows.append((system, *row))
    return pd.DataFrame(rows, columns=["system", "dataset", "n", "set_size", "within", "low", "high", "unjudged"])


def union_table(
    runs: Mapping[str, pd.DataFrame],
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    *,
    k: int = 100,
) -> pd.DataFrame:
    """Return how often the first k passages of all systems together show every perspective, as BeRDS Table 6.

    Frame dataset, n, documents (mean size of the union), covered, low, high (share of questions), unjudged. No choice
    among the passages can show a perspective that is missing from the union.
    """
    clean, verdicts, judged = _clean_runs(runs.values(), verdicts, questions, k)
    union = pd.concat([run[run["rank"] <= k] for run in clean]).drop_duplicates(["qid", "docno"])
    tables = list(question_tables(union, verdicts, judged))
    documents = np.array([len(table.listed) for table in tables], dtype=np.float64)
    covered = ~np.isnan([_first_complete(table.listed) for table in tables])
    rows = _by_data_set(judged, documents, covered, union, verdicts)
    return pd.DataFrame(rows, columns=["dataset", "n", "documents", "covered", "low", "high", "unjudged"])


def _clean_runs(
    runs: Collection[pd.DataFrame],
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    k: int,
) -> tuple[list[pd.DataFrame], pd.DataFrame, list[Question]]:
    """Return clean runs, clean verdicts and the questions that can be scored."""
    if not runs:
        raise InputError("there are no runs")
    check_k(k)
    clean = []
    for run in runs:
        clean_run, clean_verdicts = checked(run, verdicts, questions)
        clean.append(clean_run)
    return clean, clean_verdicts, judged_questions(questions, clean_verdicts, clean)


def _by_data_set(
    questions: Sequence[Question],
    sizes: np.ndarray,
    covered: np.ndarray,
    listed: pd.DataFrame,
    verdicts: pd.DataFrame,
) -> Iterator[tuple[str | float, ...]]:
    """Yield each data set's name, n, mean size, share covered with its ends, and unjudged share; all at the end."""
    sources = np.array([q.source or "questions" for q in questions])
    qids = np.array([q.qid for q in questions])
    judged_pairs = pair_index(read_pairs(verdicts))
    check_not_taken(MACRO, sources)
    for name in [*dict.fromkeys(sources.tolist()), MACRO]:
        inside = (sources == name) | (name == MACRO)
        sized = inside & ~np.isnan(sizes)
        size = macro_mean(sizes[sized], sources[sized].tolist()) if sized.any() else np.nan
        covers = covered[inside].astype(np.float64)
        groups = sources[inside].tolist()
        judged = pair_index(listed[listed["qid"].isin(qids[inside])]).isin(judged_pairs)
        unjudged = float((~judged).mean()) if len(judged) else 0.0
        share = macro_mean(covers, groups)
        yield name, int(inside.sum()), size, share, *mean_interval(covers, groups), unjudged
