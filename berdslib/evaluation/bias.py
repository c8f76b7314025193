"""Bias: what a retriever shows when nobody asks for a perspective, what asking brings, and the countries it favours.

PIR sections 2.4 and 2.5 and appendix A.10. Everything takes one run that holds the lists of the questions themselves
and those found from each of their perspectives, as ``berdslib.search(…, perspectives=True)`` returns it; in a task of
PIR the questions are the root queries. Intervals draw what was asked (questions, queries), since the passages of one
list are not independent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from berdslib.data.records import Question, check_k, check_questions, check_run, check_verdicts, perspective_qid
from berdslib.errors import InputError, known
from berdslib.evaluation.measures import (
    PRECALL,
    Coverage,
    Measure,
    check_same_questions,
    pRecall,
)
from berdslib.evaluation.tables import QuestionTable, question_tables
from berdslib.stats import ratio_interval

UNKNOWN = "(unknown)"


def perspective_shares(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    k: int,
    *,
    labels: Collection[str] | None = None,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Of the supporting passages that questions find, say how many belong to each perspective (PIR tables 3 and 10).

    The paper's "chance that the top document supports" (58.5, section 2.1) is the mean of its table 3: k = 1 there. A
    passage that supports two perspectives counts for both, so shares can sum to more than 1, as TART's do.

    Args:
        run: frame qid, docno and score (or rank); only the questions' own lists are looked at.
        verdicts: who supports what, such as a collection's gold.
        questions: all asked questions; perspectives are counted under their labels, see :func:`labels_of`.
        k: how many passages of each list are looked at.
        labels: the perspectives to compare, such as ("support", "undermine"); None for all.
        level: coverage of the interval.
        resamples: how many bootstrap samples of the questions.
        seed: of the random draws.

    Returns:
        Frame with one row a perspective: label, hits, share (of the hits), low, high, gold_share (of the supporting
        passages of all questions, where a retriever without a preference would be). NaN where nothing was found.

    Raises:
        InputError: an unknown label, or one listed twice, k is no whole number from 1, or as for
            :func:`berdslib.evaluation.measures.evaluate`; also a run without any question's own list.
    """
    check_k(k)
    tables = _tables(run, verdicts, questions, Coverage)
    names = _chosen(labels, questions)
    members = [_members(q, names) for q in questions]
    hits = [_by_label(table.listed[:k], of) for table, of in zip(tables, members, strict=True)]
    gold = [_by_label(table.pool, of) for table, of in zip(tables, members, strict=True)]
    counts, found = np.array([h.sum(axis=0) for h in hits]), np.array([h.any(axis=1).sum() for h in hits])
    n_gold = np.array([g.sum(axis=0) for g in gold]).sum(axis=0)
    low, high = ratio_interval(counts, found, level=level, resamples=resamples, seed=seed)
    return pd.DataFrame(
        {
            "label": names,
            "hits": counts.sum(axis=0),
            "share": _divide(counts.sum(axis=0), found.sum()),
            "low": low,
            "high": high,
            "gold_share": _divide(n_gold, sum(int(g.any(axis=1).sum()) for g in gold)),
        }
    )


def labels_of(question: Question) -> tuple[str, ...]:
    """Return the short name of each perspective of a question, or the perspective itself where it has none.

    >>> labels_of(Question("q", "Tea?", ("Tea is good.", "Tea is bad."), labels=("for", "")))
    ('for', 'Tea is bad.')
    """
    short = question.labels or ("",) * len(question.perspectives)
    return tuple(label or perspective for label, perspective in zip(short, question.perspectives, strict=True))


def _chosen(labels: Collection[str] | None, questions: Sequence[Question]) -> list[str]:
    """Return the labels to compare, each of which some question has."""
    there = list(dict.fromkeys(label for q in questions for label in labels_of(q)))
    names = there if labels is None else list(labels)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"the label {twice!r} is listed twice; each is one row", field="labels")
    if (unknown := set(names) - set(there)) or not names:
        known_ones = ", ".join(sorted(there)[:20])
        problem = f"no perspective has the label {min(unknown, default='')!r}; there are: {known_ones}"
        raise InputError(problem, field="labels")
    return names


def _members(question: Question, names: Sequence[str]) -> np.ndarray:
    """Return which of the names each perspective has, bool (m, len(names))."""
    return np.array([[label == name for name in names] for label in labels_of(question)])


def _by_label(table: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Turn a table passage x perspective into passage x label: of perspectives with one label, any will do."""
    return (table[:, :, None] & members).any(axis=1)


# ---------------------------------------------------------------- with and without perspectives


def root_versus_full(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    ks: Sequence[int],
    *,
    hit: str = "success",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare questions asked without and with their perspectives (PIR figures 2 and 4).

    A question without a perspective, a root query, can be scored in two ways, and the paper does not say which it took.
    `root_any`: a passage that supports any perspective will do, since none is named. `root`: like for like, the
    passages that each perspective's own query should find, in the list that the root query got. What naming the
    perspective brings is `full` - `root`.

    Args:
        run: frame qid, docno and score (or rank) with the lists of the questions and of their perspectives.
        verdicts: who supports what, such as a collection's gold.
        questions: all asked questions.
        ks: cutoffs, such as 5 and 10.
        hit: "success", 1 if any supporting passage is in the top k, or "recall", the share of them that is.
        level: coverage of the interval.
        resamples: how many bootstrap samples of the questions.
        seed: of the random draws.

    Returns:
        Frame with one row a cutoff: k, root_any (mean over questions), root, full (means over queries, one a
        perspective), difference = full - root, and its interval low, high.

    Raises:
        InputError: an unknown hit, a cutoff that is no whole number from 1, or as for
            :func:`berdslib.evaluation.measures.evaluate`; also a run that lacks either kind of list.
    """
    known("hit", hit, PRECALL["hit"])
    for k in ks:
        check_k(k)
    tables = _tables(run, verdicts, questions, Coverage, pRecall)
    sizes = np.array([len(table.own) for table in tables])
    starts = np.cumsum(sizes) - sizes
    rows = []
    for k in ks:
        any_of_root = [_found(t.listed[:k], t.pool, hit) for t in tables]
        both = [
            [_found(listed[:k, [pid]], t.pool[:, [pid]], hit) for listed in (t.listed, t.own[pid])]
            for t in tables
            for pid in range(len(t.own))
        ]
        root, full = np.array(both).T
        per_root = np.add.reduceat(full - root, starts)
        low, high = ratio_interval(per_root[:, None], sizes, level=level, resamples=resamples, seed=seed)
        means = (np.mean(any_of_root), root.mean(), full.mean(), (full - root).mean())
        rows.append((k, *map(float, means), float(low[0]), float(high[0])))
    return pd.DataFrame(rows, columns=["k", "root_any", "root", "full", "difference", "low", "high"])


def _found(listed: np.ndarray, pool: np.ndarray, hit: str) -> float:
    """Score a list, bool (n, m): does it show any of m perspectives? Or which share of the passages in the pool?"""
    hits, gold = listed.any(axis=1).sum(), pool.any(axis=1).sum()
    return float(hits > 0) if hit == "success" or not gold else float(hits / gold)


# ---------------------------------------------------------------- groups of passages, such as countries


def group_counts(
    run: pd.DataFrame,
    questions: Sequence[Question],
    groups: Mapping[str, str],
    k: int,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Count the passages of each group in the top k of all questions together (PIR figure 5).

    Args:
        run: frame qid, docno and score (or rank); only the questions' own lists are looked at, to see what comes up
            when nobody asks for a group.
        questions: the asked questions.
        groups: docno → group (country) of every passage that has one; passages without are not counted.
        k: how many passages of each list are looked at.
        level: coverage of the interval.
        resamples: how many bootstrap samples of the lists.
        seed: of the random draws.

    Returns:
        Frame with one row a group, the most frequent first: group, count, share (of all counted), low, high,
        corpus_share (of the passages in `groups`), ratio = share / corpus_share (1 = neither favoured nor hidden).

    Raises:
        InputError: no groups, k is no whole number from 1, a frame that is no run, or a run without any question's own
            list.
    """
    run = check_run(run)
    groups = _by_docno(groups, run)
    corpus = _corpus_shares(groups)
    shown = top(run, k, [q.qid for q in questions])
    asked = list(dict.fromkeys(shown["qid"]))
    if not asked:
        raise InputError("the run holds no lists")
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
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    groups: Mapping[str, str],
    k: int,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return for each group how often queries that ask for it find it (PIR figure 3).

    Args:
        run: frame qid, docno and score (or rank); only the lists of the perspectives are looked at.
        verdicts: who supports what, such as a collection's gold.
        questions: the asked questions; the label of a perspective is the group that it asks for, as in AGNews by
            location.
        groups: docno → group of every passage that has one.
        k: how many passages of each list are looked at.
        level: coverage of the intervals.
        resamples: how many bootstrap samples of the queries.
        seed: of the random draws.

    Returns:
        Frame with one row a wanted group, the best served first: group, queries, desired (share of the k places that
        hold a passage of the group), desired_low, desired_high, other (share that hold another passage; empty places
        are neither), success (share of queries with a supporting passage in the top k), success_low, success_high.

    Raises:
        InputError: no groups, k is no whole number from 1, a perspective that asks for a group without passages, or as
            for :func:`berdslib.evaluation.measures.evaluate`; also a run without any perspective's list.
    """
    run = check_run(run)
    tables = _tables(run, verdicts, questions, pRecall)
    groups = _by_docno(groups, run)
    wanted = _wanted(questions, groups)
    shown = _shown_groups(run, wanted, groups, k)
    n_desired = shown[shown["group"] == shown["wanted"]]["qid"].value_counts().reindex(list(wanted), fill_value=0)
    n_shown = shown["qid"].value_counts().reindex(list(wanted), fill_value=0)
    scores = pd.DataFrame(
        {
            "group": list(wanted.values()),
            "desired": (n_desired / k).to_numpy(),
            "other": ((n_shown - n_desired) / k).to_numpy(),
            "success": [float(listed[:k, pid].any()) for t in tables for pid, listed in enumerate(t.own)],
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


def group_heatmap(run: pd.DataFrame, questions: Sequence[Question], groups: Mapping[str, str], k: int) -> pd.DataFrame:
    """Say which groups fill the top k when another is asked for (PIR figure 6).

    Args:
        run: frame qid, docno and score (or rank); only the lists of the perspectives are looked at.
        questions: the asked questions; the label of a perspective is the group that it asks for.
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
    wanted = _wanted(questions, groups)
    shown = _shown_groups(run, wanted, groups, k)
    n_queries = pd.Series(list(wanted.values())).value_counts().sort_index()
    rows, columns = n_queries.index.tolist(), [*sorted(set(groups.values())), UNKNOWN]
    counts = _crosstab(shown, "wanted", "group", rows, columns)
    shares = counts / (n_queries.to_numpy()[:, None] * k)
    return pd.DataFrame(shares, index=pd.Index(rows, name="wanted"), columns=pd.Index(columns, name="shown"))


def _wanted(questions: Sequence[Question], groups: Mapping[str, str]) -> dict[str, str]:
    """Return the group that each perspective asks for, under the id of its list.

    Raises:
        InputError: unusable questions, no groups, or a perspective that asks for a group without passages.
    """
    check_questions(questions, need_perspectives=True)
    there, wanted = set(_corpus_shares(groups).index), {}
    for q in questions:
        for pid, label in enumerate(labels_of(q)):
            if label not in there:
                problem = f"question {q.qid!r} asks for {label!r}, and no passage is of that group"
                raise InputError(problem, field="labels")
            wanted[perspective_qid(q.qid, pid)] = label
    return wanted


def _shown_groups(run: pd.DataFrame, wanted: Mapping[str, str], groups: Mapping[str, str], k: int) -> pd.DataFrame:
    """Return the rows of the top k with the group of each passage and the group that its query wants."""
    shown = top(run, k, list(wanted))
    return shown.assign(group=shown["docno"].map(groups).fillna(UNKNOWN), wanted=shown["qid"].map(wanted))


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


# ---------------------------------------------------------------- what is looked at


def top(run: pd.DataFrame, k: int, asked: Sequence[str]) -> pd.DataFrame:
    """Return the rows of a run (qid, docno) that are in the top k, by its scores, of a list that was asked for.

    Args:
        run: frame qid, docno and score (or rank).
        k: how many passages of each list.
        asked: the ids of the lists.

    Raises:
        InputError: k is no whole number from 1, a frame that is no run, or a run without any of the lists.
    """
    check_k(k)
    clean = check_run(run)
    best = clean.loc[clean["rank"] <= k, ["qid", "docno"]]
    ours = best[best["qid"].isin(set(asked))]
    if len(best) and ours.empty:
        found, wanted = best["qid"].iloc[0], next(iter(asked), "")
        raise InputError(f"the run and the queries do not belong together: {found!r} against {wanted!r} …")
    return ours


def _tables(
    run: pd.DataFrame, verdicts: pd.DataFrame, questions: Sequence[Question], *looks: Measure
) -> list[QuestionTable]:
    """Return each question as tables; the run must hold the lists that the measures would look at."""
    check_questions(questions, need_perspectives=True)
    run, verdicts = check_run(run), check_verdicts(verdicts)
    check_same_questions(run, verdicts, questions, looks)
    return list(question_tables(run, verdicts, questions))
