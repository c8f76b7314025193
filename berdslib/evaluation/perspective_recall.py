"""p-Recall@k: are the gold texts of a root query found from each of its perspectives (PIR section 2.3)?

Every measure here takes ``(run, queries, k)``, the run's qid being that of the :class:`berdslib.data.pir.PirQuery`. A
query that the run leaves unanswered counts 0. Queries of one root are not independent, so intervals resample roots.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from berdslib.data.pir import PirQuery, root_id
from berdslib.data.records import check_k, check_run
from berdslib.errors import InputError, known
from berdslib.stats import bootstrap_interval, ratio_interval

HITS = ("success", "recall")
AGGREGATES = ("mean", "all")
SINGLE_ROOTS = ("keep", "zero", "skip")


def p_recall(
    run: pd.DataFrame,
    queries: Sequence[PirQuery],
    k: int,
    *,
    hit: str = "success",
    aggregate: str = "mean",
    single_root: str = "keep",
) -> pd.DataFrame:
    """Score a run root by root; the mean of the column p_recall is p-Recall@k (PIR equation 1).

    A root's queries are its perspectives. Where a task asks several queries from one perspective (the released
    Perspectrum has one for each cluster of texts) each counts, as in the authors' code.

    Args:
        run: frame qid, docno and score (or rank).
        queries: all asked queries.
        k: how many passages of each list are looked at.
        hit: what a query scores: "success", 1 if any of its gold texts is in the top k (the paper's); "recall", the
            share of its gold texts that are.
        aggregate: what a root scores: "mean" of its queries (the paper's); "all", 1 only if each of them scores 1.
        single_root: a root with a single query: "keep" its score, count it as "zero" (the authors' code), or "skip"
            the root.

    Returns:
        Frame with one row a root, in the order of `queries`: root, queries (how many it has), p_recall (0 to 1).

    Raises:
        InputError: an unknown option, k below 1, no queries, a repeated qid, a query without gold, or a run of others.
    """
    known("aggregate", aggregate, AGGREGATES)
    known("single_root", single_root, SINGLE_ROOTS)
    scores = pd.DataFrame({"root": [q.root for q in queries], "score": query_scores(run, queries, k, hit=hit).array})
    by_root = scores.groupby("root", sort=False)["score"]
    table = by_root.agg(queries="size", p_recall="mean" if aggregate == "mean" else "min").reset_index()
    if aggregate == "all":
        table["p_recall"] = (table["p_recall"] >= 1.0).astype(np.float64)
    single = table["queries"] == 1
    if single_root == "zero":
        table.loc[single, "p_recall"] = 0.0
    return table[~single].reset_index(drop=True) if single_root == "skip" else table


def query_scores(run: pd.DataFrame, queries: Sequence[PirQuery], k: int, *, hit: str = "success") -> pd.Series:
    """Score a run query by query.

    Returns:
        Series indexed by qid, in the order of `queries`, values from 0 to 1; see :func:`p_recall` for `hit`.

    Raises:
        InputError: as for :func:`p_recall`.
    """
    known("hit", hit, HITS)
    gold = gold_table(queries)
    found = top(run, k, [q.qid for q in queries]).merge(gold, on=["qid", "docno"])["qid"].value_counts()
    n_found = found.reindex([q.qid for q in queries], fill_value=0).rename("score")
    if hit == "success":
        return (n_found > 0).astype(np.float64)
    return n_found / np.array([len(q.gold) for q in queries])


def gold_table(queries: Sequence[PirQuery]) -> pd.DataFrame:
    """Return one row for each gold text of each query: qid, root, label, docno.

    The label is the perspective's short name, or the perspective itself where it has none.

    Raises:
        InputError: no queries, a repeated qid, or a query without gold or with a gold text twice.
    """
    if not queries:
        raise InputError("there are no queries")
    if len({q.qid for q in queries}) < len(queries):
        raise InputError("a query id occurs twice; each must be unique", field="qid")
    for q in queries:
        if not q.gold or len(set(q.gold)) < len(q.gold):
            problem = "lists a gold text twice" if q.gold else "has no gold texts"
            raise InputError(f"query {q.qid!r} {problem}", field="gold")
    rows = [(q.qid, q.root, label_of(q), docno) for q in queries for docno in q.gold]
    return pd.DataFrame(rows, columns=["qid", "root", "label", "docno"])


def label_of(query: PirQuery) -> str:
    """Return the short name of a query's perspective, or the perspective itself where it has none."""
    return query.label or query.perspective


def top(run: pd.DataFrame, k: int, asked: Sequence[str]) -> pd.DataFrame:
    """Return the rows of a run (qid, docno) that are in the top k, by its scores, of a query that was asked.

    Raises:
        InputError: k is no whole number from 1, a frame that is no run, or a run of other queries.
    """
    check_k(k)
    clean = check_run(run)
    best = clean.loc[clean["rank"] <= k, ["qid", "docno"]]
    ours = best[best["qid"].isin(set(asked))]
    if len(best) and ours.empty:
        found = best["qid"].iloc[0]
        raise InputError(f"the run and the queries do not belong together: {found!r} against {asked[0]!r} …")
    return ours


def mean_p_recall(
    table: pd.DataFrame, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> dict[str, float]:
    """Return the mean of what :func:`p_recall` returned, and its bootstrap interval over roots.

    Returns:
        mean, low, high (0 to 1), roots (how many).

    Raises:
        InputError: no roots.
    """
    values = table["p_recall"].to_numpy()
    low, high = bootstrap_interval(values, level=level, resamples=resamples, seed=seed)
    return {"mean": float(values.mean()), "low": low, "high": high, "roots": len(values)}


# ---------------------------------------------------------------- with and without perspectives


def root_run_per_query(run_root: pd.DataFrame, queries: Sequence[PirQuery]) -> pd.DataFrame:
    """Give each query the list of its root query, so that root queries can be scored like full ones.

    Args:
        run_root: a run on :func:`berdslib.data.pir.root_queries`.
        queries: the full queries.

    Returns:
        The run with the qids of `queries`.

    Raises:
        InputError: the run has no list of any of the roots.
    """
    run_root = check_run(run_root)
    roots = pd.DataFrame({"root_qid": [root_id(q.root) for q in queries], "qid": [q.qid for q in queries]})
    spread = roots.merge(run_root.rename(columns={"qid": "root_qid"}), on="root_qid")
    if len(run_root) and spread.empty:
        raise InputError("the run and the roots do not belong together; search root_queries(task)", field="qid")
    return spread[run_root.columns.tolist()].sort_values(["qid", "rank"], kind="stable").reset_index(drop=True)


def root_versus_full(
    run_root: pd.DataFrame,
    run_full: pd.DataFrame,
    queries: Sequence[PirQuery],
    ks: Sequence[int],
    *,
    hit: str = "success",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare queries without and with their perspectives (PIR figures 2 and 4).

    A root query can be scored in two ways, and the paper does not say which it took. `root_any`: any gold text of the
    root will do, since the query names no perspective. `root`: like for like, each full query's own gold in the list
    that the root query got. What naming the perspective brings is `full` - `root`.

    Args:
        run_root: a run on :func:`berdslib.data.pir.root_queries`.
        run_full: a run on :func:`berdslib.data.pir.full_queries`.
        queries: the full queries.
        ks: cutoffs, such as 5 and 10.
        hit: see :func:`p_recall`.
        level: coverage of the interval.
        resamples: how many bootstrap samples of the roots.
        seed: of the random draws.

    Returns:
        Frame with one row a cutoff: k, root_any (mean over roots), root, full (means over queries), difference = full -
        root, and its interval low, high.

    Raises:
        InputError: as for :func:`p_recall`.
    """
    run_root, run_full = check_run(run_root), check_run(run_full)
    spread = root_run_per_query(run_root, queries)
    as_roots = _root_as_query(queries)
    numbers = _numbers([q.root for q in queries])
    rows = []
    for k in ks:
        root, full = (query_scores(run, queries, k, hit=hit).to_numpy() for run in (spread, run_full))
        any_of_root = query_scores(run_root, as_roots, k, hit=hit)
        per_root, sizes = np.bincount(numbers, full - root), np.bincount(numbers)
        low, high = ratio_interval(per_root[:, None], sizes, level=level, resamples=resamples, seed=seed)
        means = (any_of_root.mean(), root.mean(), full.mean(), (full - root).mean())
        rows.append((k, *map(float, means), float(low[0]), float(high[0])))
    return pd.DataFrame(rows, columns=["k", "root_any", "root", "full", "difference", "low", "high"])


def _root_as_query(queries: Sequence[PirQuery]) -> list[PirQuery]:
    """Return each root as a query whose gold is that of all its queries."""
    gold: dict[str, dict[str, None]] = {}
    for q in queries:
        gold.setdefault(q.root, {}).update(dict.fromkeys(q.gold))
    return [PirQuery(root_id(root), root, root, "", tuple(docnos)) for root, docnos in gold.items()]


# ---------------------------------------------------------------- what the authors' code does


def extend_gold(queries: Sequence[PirQuery]) -> tuple[PirQuery, ...]:
    """Return the queries as the authors' notebook leaves them: the first query of each root gets the gold of all.

    A cell of theirs that collects the gold of each root starts with the first query's own list and extends it in
    place, so that every measure taken later is higher (divergences.md P1). For matching their numbers only; here the
    queries given are left as they are.

    >>> tea = [PirQuery("1", "for tea", "tea", "for", ("a",)), PirQuery("2", "against tea", "tea", "against", ("b",))]
    >>> [q.gold for q in extend_gold(tea)]
    [('a', 'b'), ('b',)]
    """
    whole = {q.root: q.gold for q in _root_as_query(queries)}
    return tuple(q._replace(gold=whole.pop(q.root, q.gold)) for q in queries)


def _numbers(names: Sequence[str]) -> np.ndarray:
    return np.asarray(pd.factorize(np.asarray(names, dtype=object))[0])
