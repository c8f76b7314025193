"""How many documents it takes to show every perspective, and what all retrievers show together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from berdslib.data.records import Question, check_k, check_questions, check_run, check_verdicts
from berdslib.errors import InputError
from berdslib.evaluation.measures import check_same_questions, unjudged_among
from berdslib.evaluation.tables import check_not_taken, question_tables
from berdslib.stats import macro_mean, mean_interval

MACRO = "macro"


def documents_needed(
    run: pd.DataFrame, verdicts: pd.DataFrame, questions: Sequence[Question], k: int = 100
) -> pd.Series:
    """Return how many of a question's first passages it takes to show all of its perspectives.

    Source: BeRDS, appendix B.2.

    Args:
        run: frame qid, docno and score (or rank).
        verdicts: frame qid, pid, docno and p_yes or supports.
        questions: all asked questions, each with its perspectives.
        k: how far to look.

    Returns:
        Series indexed by qid, in the order of `questions`; NaN where the first k do not show them all.

    Raises:
        InputError: k is no whole number from 1, no questions, a question without perspectives, a frame that is no run
            or no verdicts, or a run or verdicts of other questions.
    """
    check_k(k)
    check_questions(questions, need_perspectives=True)
    run, verdicts = check_run(run), check_verdicts(verdicts)
    check_same_questions(run, verdicts, questions)
    tables = question_tables(run, verdicts, questions)
    sizes = [_first_complete(table.listed[:k]) for table in tables]
    return pd.Series(sizes, index=pd.Index([q.qid for q in questions], name="qid"), name="size", dtype=np.float64)


def _first_complete(listed: np.ndarray) -> float:
    """Return the rank at which every column of a (passages, perspectives) table has had a True, or NaN."""
    shown = listed.any(axis=0)
    return float(listed.argmax(axis=0).max() + 1) if len(listed) and shown.all() else np.nan


def size_table(
    runs: Mapping[str, pd.DataFrame],
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    *,
    k: int = 100,
) -> pd.DataFrame:
    """Return documents needed and the share of questions covered within k, as BeRDS Table 17.

    Args:
        runs: system → run, each k passages deep.
        verdicts: frame qid, pid, docno and p_yes or supports; a passage without any shows nothing.
        questions: the asked questions; their `source` groups them into data sets.
        k: how far to look.

    Returns:
        Frame system, dataset, n, set_size (documents, mean over the questions that are covered), within, low, high
        (share of all questions, with its 95 % interval), unjudged (share of the listed passages without a verdict:
        where a judge was asked about fewer than k, the figures are too bleak; gold verdicts may list support only);
        the data set "macro" is the mean of the data sets' means.

    Raises:
        InputError: as :func:`documents_needed`; no runs.
    """
    if not runs:
        raise InputError("there are no runs")
    verdicts = check_verdicts(verdicts)
    rows = []
    for system, run in runs.items():
        clean = check_run(run)
        sizes = documents_needed(clean, verdicts, questions, k).to_numpy()
        for dataset, inside, sources in _data_sets(questions):
            covered = ~np.isnan(sizes[inside])
            # Only covered questions have a size, so that the macro mean is over data sets with at least one.
            size = macro_mean(sizes[inside][covered], sources[covered].tolist()) if covered.any() else np.nan
            unjudged = _unjudged(clean[clean["rank"] <= k], verdicts, questions, inside)
            rows.append((system, dataset, int(inside.sum()), size, *_share_covered(covered, sources), unjudged))
    return pd.DataFrame(rows, columns=["system", "dataset", "n", "set_size", "within", "low", "high", "unjudged"])


def union_table(
    runs: Mapping[str, pd.DataFrame],
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    *,
    k: int = 100,
) -> pd.DataFrame:
    """Return how often the first k passages of all systems together show every perspective, as BeRDS Table 6.

    What is missing from the union is not in the corpus, or no retriever found it: no choice among their passages would
    show it.

    Args:
        runs: system → run, each k passages deep.
        verdicts: frame qid, pid, docno and p_yes or supports; a passage without any shows nothing.
        questions: the asked questions; their `source` groups them into data sets.
        k: passages taken of each run.

    Returns:
        Frame dataset, n, documents (mean size of the union), covered, low, high (share of questions), unjudged; see
        :func:`size_table`.

    Raises:
        InputError: as :func:`documents_needed`; no runs.
    """
    if not runs:
        raise InputError("there are no runs")
    check_k(k)
    check_questions(questions, need_perspectives=True)
    clean, verdicts = [check_run(run) for run in runs.values()], check_verdicts(verdicts)
    for run in clean:
        check_same_questions(run, verdicts, questions)
    together = pd.concat([run[run["rank"] <= k] for run in clean]).drop_duplicates(["qid", "docno"])
    tables = list(question_tables(together, verdicts, questions))
    covered = np.array([bool(len(t.listed) and t.listed.any(axis=0).all()) for t in tables])
    documents = np.array([len(t.listed) for t in tables], dtype=np.float64)
    rows = [
        (
            dataset,
            int(inside.sum()),
            macro_mean(documents[inside], sources.tolist()),
            *_share_covered(covered[inside], sources),
            _unjudged(together, verdicts, questions, inside),
        )
        for dataset, inside, sources in _data_sets(questions)
    ]
    return pd.DataFrame(rows, columns=["dataset", "n", "documents", "covered", "low", "high", "unjudged"])


def _unjudged(listed: pd.DataFrame, verdicts: pd.DataFrame, questions: Sequence[Question], inside: np.ndarray) -> float:
    """Return the share without a verdict among the questions that `inside`, (n,) bool, marks."""
    qids = {q.qid for q, chosen in zip(questions, inside, strict=True) if chosen}
    return unjudged_among(listed[listed["qid"].isin(qids)], verdicts)


def _data_sets(questions: Sequence[Question]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield each data set's name, its mask over the questions and the sources inside; all of them at the end."""
    sources = np.array([q.source or "questions" for q in questions])
    check_not_taken(MACRO, sources)
    for name in dict.fromkeys(sources.tolist()):
        yield name, sources == name, sources[sources == name]
    yield MACRO, np.ones(len(sources), dtype=bool), sources


def _share_covered(covered: np.ndarray, sources: np.ndarray) -> tuple[float, float, float]:
    values, groups = covered.astype(np.float64), sources.tolist()
    return (macro_mean(values, groups), *mean_interval(values, groups))
