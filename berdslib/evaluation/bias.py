"""Bias: the perspectives, and the countries, that a retriever favours (PIR section 2.5 and appendix A.10).

Everything takes a run and a task's queries, and gives a table. Intervals draw what was asked (root queries, queries),
since the passages of one list are not independent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from berdslib.data.pir import PirQuery, root_id
from berdslib.data.records import check_run
from berdslib.errors import InputError
from berdslib.evaluation.perspective_recall import gold_table, label_of, query_scores, top
from berdslib.stats import ratio_interval

UNKNOWN = "(unknown)"


def perspective_shares(
    run_root: pd.DataFrame,
    queries: Sequence[PirQuery],
    k: int,
    *,
    labels: Collection[str] | None = None,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Of the gold texts that root queries find, say how many belong to each perspective (PIR tables 3 and 10).

    The paper's "chance that the top document supports" (58.5, section 2.1) is the mean of its table 3: k = 1 there. A
    text that is gold from two perspectives counts for both, so shares can sum to more than 1, as TART's do.

    Args:
        run_root: a run on :func:`berdslib.data.pir.root_queries`.
        queries: the full queries, which say what is gold from which perspective.
        k: how many passages of each list are looked at.
        labels: the perspectives to compare, such as ("support", "undermine"); None for all.
        level: coverage of the interval.
        resamples: how many bootstrap samples of the roots.
        seed: of the random draws.

    Returns:
        Frame with one row a perspective: label, hits, share (of the hits), low, high, gold_share (of the gold texts of
        all roots, where a retriever without a preference would be). NaN where nothing was found.

    Raises:
        InputError: an unknown label, or one listed twice, k is no whole number from 1, a frame that is no run, or a run
            of other queries.
    """
    gold = gold_table(queries)
    names = list(dict.fromkeys(gold["label"])) if labels is None else list(labels)
    unknown = set(names) - set(gold["label"])
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"the label {twice!r} is listed twice; each is one row", field="labels")
    if unknown or not names:
        there = ", ".join(sorted(set(gold["label"]))[:20])
        raise InputError(f"no query has the label {min(unknown, default='')!r}; there are: {there}", field="labels")
    gold = gold[gold["label"].isin(names)].drop_duplicates(["root", "label", "docno"])
    gold = gold.assign(qid=gold["root"].map(root_id))
    roots = list(dict.fromkeys(root_id(q.root) for q in queries))
    hits = top(run_root, k, roots).merge(gold, on=["qid", "docno"])
    counts = _crosstab(hits, "qid", "label", roots, names)
    found = hits.drop_duplicates(["qid", "docno"])["qid"].value_counts().reindex(roots, fill_value=0).to_numpy()
    low, high = ratio_interval(counts, found, level=level, resamples=resamples, seed=seed)
    n_gold = len(gold.drop_duplicates(["qid", "docno"]))
    return pd.DataFrame(
        {
            "label": names,
            "hits": counts.sum(axis=0),
            "share": _divide(counts.sum(axis=0), found.sum()),
            "low": low,
            "high": high,
            "gold_share": gold["label"].value_counts().reindex(names).to_numpy() / n_gold,
        }
    )


# ---------------------------------------------------------------- groups of passages, such as countries


def group_counts(
    run: pd.DataFrame,
    groups: Mapping[str, str],
    k: int,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Count the passages of each group in all top-k lists together (PIR figure 5).

    Args:
        run: frame qid, docno and score (or rank); root queries, to see what comes up when nobody asks for a group.
        groups: docno → group (country) of every passage that has one; passages without are not counted.
        k: how many passages of each list are looked at.
        level: coverage of the interval.
        resamples: how many bootstrap samples of the lists.
        seed: of the random draws.

    Returns:
        Frame with one row a group, the most frequent first: group, count, share (of all counted), low, high,
        corpus_share (of the passages in `groups`), ratio = share / corpus_share (1 = neither favoured nor hidden).

    Raises:
        InputError: no groups, k is no whole number from 1, a frame that is no run, or a run without lists.
    """
    run = check_run(run)
    groups = _by_docno(groups, run)
    corpus = _corpus_shares(groups)
    asked = list(dict.fromkeys(run["qid"]))
    if not asked:
        raise InputError("the run holds no lists")
    shown = top(run, k, asked)
    shown = shown.assign(group=shown["docno"].map(groups)).dropna(subset="group")
    counts = _crosstab(shown, "qid", "group", asked, corpus.index.tolist())
    totals = counts.sum(axis=0)
    low, high = ratio_interval(counts, counts.sum(axis=1), level=level, resamples=resamples, seed=seed)
    share = _divide(totals, totals.sum())
    table = pd.DataFrame({"group": corpus.index, "count": totals, "share": share, "low": low, "high": high})
    table["corpus_share"] = corpus.to_numpy()
    table["ratio"] = table["share"] / table["corpus_share"]
    return table.sort_values(["count", "group"], ascending=[False, True], kind="stable").reset_index(drop=True)


def group_success(
    run: pd.DataFrame,
    queries: Sequence[PirQuery],
    groups: Mapping[str, str],
    k: int,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return for each group how often queries that ask for it find it (PIR figure 3).

    Args:
        run: frame qid, docno and score (or rank).
        queries: queries whose label is the group they ask for, such as AGNews by location.
        groups: docno → group of every passage that has one.
        k: how many passages of each list are looked at.
        level: coverage of the intervals.
        resamples: how many bootstrap samples of the queries.
        seed: of the random draws.

    Returns:
        Frame with one row a wanted group, the best served first: group, queries, desired (share of the k places that
        hold a passage of the group), desired_low, desired_high, other (share that hold another passage; empty places
        are neither), success (share of queries with a gold text in the top k), success_low, success_high.

    Raises:
        InputError: no groups, k is no whole number from 1, a query that asks for a group without passages, a frame that
            is no run, or a run of other queries.
    """
    run = check_run(run)
    groups = _by_docno(groups, run)
    _check_labels(queries, groups)
    success = query_scores(run, queries, k)
    shown = _shown_groups(run, queries, groups, k)
    asked = success.index
    n_desired = shown[shown["group"] == shown["wanted"]]["qid"].value_counts().reindex(asked, fill_value=0)
    n_shown = shown["qid"].value_counts().reindex(asked, fill_value=0)
    scores = pd.DataFrame(
        {
            "group": [label_of(q) for q in queries],
            "desired": (n_desired / k).to_numpy(),
            "other": ((n_shown - n_desired) / k).to_numpy(),
            "success": success.to_numpy(),
        }
    )
    rows = []
    for group, part in scores.groupby("group", sort=False):
        ones = np.ones(len(part))
        values = part[["desired", "success"]].to_numpy()
        low, high = ratio_interval(values, ones, level=level, resamples=resamples, seed=seed)
        desired, hit = values.mean(axis=0)
        rows.append((group, len(part), desired, low[0], high[0], part["other"].mean(), hit, low[1], high[1]))
    columns = ["group", "queries", "desired", "desired_low", "desired_high", "other"]
    table = pd.DataFrame(rows, columns=[*columns, "success", "success_low", "success_high"])
    return table.sort_values(["desired", "group"], ascending=[False, True], kind="stable").reset_index(drop=True)


def group_heatmap(run: pd.DataFrame, queries: Sequence[PirQuery], groups: Mapping[str, str], k: int) -> pd.DataFrame:
    """Say which groups fill the top k when another is asked for (PIR figure 6).

    Args:
        run: frame qid, docno and score (or rank).
        queries: queries whose label is the group they ask for.
        groups: docno → group of every passage that has one.
        k: how many passages of each list are looked at.

    Returns:
        Frame, wanted group x group shown, both in alphabetical order, of mean shares of the k places; the last column,
        "(unknown)", is for passages without a group. A row sums to 1 where all lists are full.

    Raises:
        InputError: as for :func:`group_success`.
    """
    run = check_run(run)
    groups = _by_docno(groups, run)
    _check_labels(queries, groups)
    shown = _shown_groups(run, queries, groups, k)
    n_queries = pd.Series([label_of(q) for q in queries]).value_counts().sort_index()
    wanted, columns = n_queries.index.tolist(), [*sorted(set(groups.values())), UNKNOWN]
    counts = _crosstab(shown, "wanted", "group", wanted, columns)
    shares = counts / (n_queries.to_numpy()[:, None] * k)
    return pd.DataFrame(shares, index=pd.Index(wanted, name="wanted"), columns=pd.Index(columns, name="shown"))


def _shown_groups(run: pd.DataFrame, queries: Sequence[PirQuery], groups: Mapping[str, str], k: int) -> pd.DataFrame:
    """Return the rows of the top k with the group of each passage and the group that its query wants."""
    wanted = {q.qid: label_of(q) for q in queries}
    shown = top(run, k, list(wanted))
    return shown.assign(group=shown["docno"].map(groups).fillna(UNKNOWN), wanted=shown["qid"].map(wanted))


def _check_labels(queries: Sequence[PirQuery], groups: Mapping[str, str]) -> None:
    gold_table(queries)
    there = set(_corpus_shares(groups).index)
    for q in queries:
        if label_of(q) not in there:
            problem = f"query {q.qid!r} asks for {label_of(q)!r}, and no passage is of that group"
            raise InputError(problem, field="label")


def _by_docno(groups: Mapping[str, str], run: pd.DataFrame) -> dict[str, str]:
    """Return the groups under docnos as text, as a checked run has them.

    Raises:
        InputError: nothing that the run lists has a group: they are of another corpus.
    """
    named = {str(docno): group for docno, group in groups.items()}
    if len(run) and groups and not set(run["docno"]) & named.keys():
        raise InputError(f"no passage of the run has a group; it lists {run['docno'].iloc[0]!r} …", field="groups")
    return named


def _corpus_shares(groups: Mapping[str, str]) -> pd.Series:
    if not groups:
        raise InputError("no passage has a group", field="groups")
    return pd.Series(list(groups.values())).value_counts(normalize=True).sort_index()


def _crosstab(
    frame: pd.DataFrame, rows: str, columns: str, row_names: Sequence[str], column_names: Sequence[str]
) -> np.ndarray:
    """Count the pairs of two columns, (len(row_names), len(column_names)) int; each pair must be among the names."""
    at_row = pd.Index(row_names).get_indexer(pd.Index(frame[rows]))
    at_column = pd.Index(column_names).get_indexer(pd.Index(frame[columns]))
    flat = np.bincount(at_row * len(column_names) + at_column, minlength=len(row_names) * len(column_names))
    return np.asarray(flat.reshape(len(row_names), len(column_names)))


def _divide(counts: np.ndarray, total: int) -> np.ndarray:
    return np.asarray(counts / total) if total else np.full(len(counts), np.nan)
