"""How many documents it takes to show every perspective, and what all retrievers show together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from berdslib.data.records import Question, check_k, read_pairs
from berdslib.errors import InputError
from berdslib.evaluation.measures import checked, judged_questions
from berdslib.evaluation.tables import check_not_taken, pairs_of, question_tables
from berdslib.stats import macro_mean, mean_interval

MACRO = "macro"


def documents_needed(
    run: pd.DataFrame, verdicts: pd.DataFrame, questions: Sequence[Question], k: int = 100
) -> pd.Series:
    """Return how many of a question's first k passages it takes to show all of its perspectives; NaN for never.

    The series is indexed by qid, in the order of `questions`; those that nobody judged are left out, as
    :func:`berdslib.evaluation.measures.judged_questions` does. Source: BeRDS, appendix B.2.
    """
    check_k(k)
    run, verdicts = checked(run, verdicts, questions)
    judged = judged_questions(questions, verdicts, [run])
    sizes = [_first_complete(table.listed[:k]) for table in question_tables(run, verdicts, judged)]
    return pd.Series(sizes, index=pd.Index([q.qid for q in judged], name="qid"), name="size", dtype=np.float64)


def _first_complete(listed: np.ndarray) -> float:
    """Return the rank at which every column of a (passages, perspectives) table has had a True, or NaN."""
    shown = listed.any(axis=0)
    return float(listed.argmax(axis=0).max() + 1) if len(listed) and shown.all() else np.nan


def size_table(
    runs: Mapping[str, pd.DataFrame], verdicts: pd.DataFrame, questions: Sequence[Question], *, k: int = 100
) -> pd.DataFrame:
    """Return documents needed and the share of questions covered within k, as BeRDS Table 17.

    Frame system, dataset ("macro" is the mean of the data sets' means), n, set_size (documents, of the covered
    questions), within, low, high (share of all questions), unjudged (share of the listed passages without a verdict:
    where a judge was asked about fewer than k, the figures are too bleak).
    """
    if not runs:
        raise InputError("there are no runs")
    check_k(k)
    clean = {system: checked(run, verdicts, questions) for system, run in runs.items()}
    verdicts = next(iter(clean.values()))[1]
    judged = judged_questions(questions, verdicts, [run for run, _ in clean.values()])
    rows = []
    for system, (run, _) in clean.items():
        tables = question_tables(run, verdicts, judged)
        sizes = np.array([_first_complete(table.listed[:k]) for table in tables], dtype=np.float64)
        unjudged = run[run["rank"] <= k], verdicts
        rows += [(system, *row) for row in _by_data_set(judged, sizes, ~np.isnan(sizes), *unjudged)]
    return pd.DataFrame(rows, columns=["system", "dataset", "n", "set_size", "within", "low", "high", "unjudged"])


def union_table(
    runs: Mapping[str, pd.DataFrame], verdicts: pd.DataFrame, questions: Sequence[Question], *, k: int = 100
) -> pd.DataFrame:
    """Return how often the first k passages of all systems together show every perspective, as BeRDS Table 6.

    Frame dataset, n, documents (mean size of the union), covered, low, high (share of questions), unjudged. What is
    missing from the union no choice among the passages would show.
    """
    if not runs:
        raise InputError("there are no runs")
    check_k(k)
    clean = [checked(run, verdicts, questions) for run in runs.values()]
    verdicts = clean[0][1]
    judged = judged_questions(questions, verdicts, [run for run, _ in clean])
    together = pd.concat([run[run["rank"] <= k] for run, _ in clean]).drop_duplicates(["qid", "docno"])
    tables = list(question_tables(together, verdicts, judged))
    documents = np.array([len(t.listed) for t in tables], dtype=np.float64)
    covered = ~np.isnan([_first_complete(t.listed) for t in tables])
    rows = _by_data_set(judged, documents, covered, together, verdicts)
    return pd.DataFrame(rows, columns=["dataset", "n", "documents", "covered", "low", "high", "unjudged"])


def _by_data_set(
    questions: Sequence[Question], sizes: np.ndarray, covered: np.ndarray, listed: pd.DataFrame, verdicts: pd.DataFrame
) -> Iterator[tuple[str | float, ...]]:
    """Yield each data set's name, n, mean size, share covered with its ends, and unjudged share; all at the end."""
    sources, qids = np.array([q.source or "questions" for q in questions]), np.array([q.qid for q in questions])
    check_not_taken(MACRO, sources)
    for name in [*dict.fromkeys(sources.tolist()), MACRO]:
        inside = (sources == name) | (name == MACRO)
        known = inside & ~np.isnan(sizes)
        size = macro_mean(sizes[known], sources[known].tolist()) if known.any() else np.nan
        share = covered[inside].astype(np.float64), sources[inside].tolist()
        judged = pairs_of(listed[listed["qid"].isin(qids[inside])]).isin(pairs_of(read_pairs(verdicts)))
        unjudged = float((~judged).mean()) if len(judged) else 0.0
        yield name, int(inside.sum()), size, macro_mean(*share), *mean_interval(*share), unjudged
