"""Sides: what a retriever shows when nobody asks for a side (PIR 2.4, 2.5, A.10), and whether it follows the asker.

Runs hold the lists of the questions and of their perspectives, as ``bd.search(…, perspectives=True)`` finds them.
Intervals draw whole questions, queries or issues; `drawing` is their level, resamples and seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from berdslib.data.records import (
    OPPOSE,
    SUPPORT,
    Question,
    check_k,
    check_questions,
    check_run,
    check_verdicts,
    issue_of,
    perspective_qid,
)
from berdslib.errors import InputError
from berdslib.evaluation.measures import Coverage, checked, judged_questions, pRecall
from berdslib.evaluation.tables import check_not_taken, pairs_of, question_tables
from berdslib.stats import cluster_bootstrap, holm, ratio_of_sums, wilson_interval

UNKNOWN = "(unknown)"


def labels_of(question: Question) -> tuple[str, ...]:
    """Return the short name of each perspective of a question, or the perspective itself where it has none.

    >>> labels_of(Question("q", "Tea?", ("Tea is good.", "Tea is bad."), labels=("for", "")))
    ('for', 'Tea is bad.')
    """
    short = question.labels or ("",) * len(question.perspectives)
    return tuple(label or perspective for label, perspective in zip(short, question.perspectives, strict=True))


# ---------------------------------------------------------------- with and without perspectives


def root_versus_full(
    run: pd.DataFrame, verdicts: pd.DataFrame, questions: Sequence[Question], ks: Sequence[int], **drawing: Any
) -> pd.DataFrame:
    """Compare questions asked without and with their perspectives (PIR figures 2 and 4), a row a cutoff.

    Frame k, root_any (any perspective's passage will do), root (those that each perspective's own query should find, in
    the question's list), full (the same in that query's list), difference = full - root, low, high: the shares of lists
    that hold a supporting passage in their top k.
    """
    for k in ks:
        check_k(k)
    run, verdicts = checked(run, verdicts, questions, [Coverage, pRecall])
    tables = list(question_tables(run, verdicts, judged_questions(questions, verdicts, [run])))
    owner = [i for i, table in enumerate(tables) for _ in table.own]
    rows = []
    for k in ks:
        any_of_root = [t.listed[:k].any() for t in tables]
        both = [[listed[:k, pid].any() for listed in (t.listed, own)] for t in tables for pid, own in enumerate(t.own)]
        root, full = np.array(both, dtype=np.float64).T
        counted = np.column_stack([full - root, np.ones(len(both))])
        difference = cluster_bootstrap(counted, owner, ratio_of_sums, **drawing)
        rows.append((k, np.mean(any_of_root), root.mean(), full.mean(), *np.ravel(difference)))
    return pd.DataFrame(rows, columns=["k", "root_any", "root", "full", "difference", "low", "high"])


def group_heatmap(run: pd.DataFrame, questions: Sequence[Question], groups: Mapping[str, str], k: int) -> pd.DataFrame:
    """Return mean shares of the k places, wanted group x group shown, "(unknown)" last (PIR figure 6).

    `groups` is docno → group (country) of every passage that has one. The label of a perspective is the group that it
    asks for, as in AGNews by location; only the lists of perspectives are looked at.
    """
    check_questions(questions, need_perspectives=True)
    wanted = {perspective_qid(q.qid, pid): label for q in questions for pid, label in enumerate(labels_of(q))}
    for list_id, label in wanted.items():
        if label not in groups.values():
            raise InputError(f"{list_id!r} asks for {label!r}, and no passage is of that group", field="labels")
    shown = top(run, k, list(wanted))
    group = shown["docno"].map({str(docno): group for docno, group in groups.items()})
    if len(shown) and group.isna().all():
        raise InputError(f"no passage of the run has a group; it lists {shown['docno'].iloc[0]!r} …", field="groups")
    n_queries = pd.Series(list(wanted.values())).value_counts().sort_index()
    counts = pd.crosstab(shown["qid"].map(wanted), group.fillna(UNKNOWN))
    counts = counts.reindex(index=n_queries.index, columns=[*sorted(set(groups.values())), UNKNOWN], fill_value=0)
    return counts.div(n_queries * k, axis=0).rename_axis(index="wanted", columns="shown")


def top(run: pd.DataFrame, k: int, asked: Sequence[str]) -> pd.DataFrame:
    """Return the rows of a run (qid, docno) that are in the top k, by its scores, of a list that was asked for."""
    check_k(k)
    clean = check_run(run)
    best = clean.loc[clean["rank"] <= k, ["qid", "docno"]]
    ours = best[best["qid"].isin(set(asked))]
    if len(best) and ours.empty:
        found, wanted = best["qid"].iloc[0], next(iter(asked), "")
        raise InputError(f"the run and the queries do not belong together: {found!r} against {wanted!r} …")
    return ours


# ---------------------------------------------------------------- leaning: which sides a list shows

# How a list was asked for: by the question, or by one of its two perspectives.
QUESTION, SUPPORTING, OPPOSING = "question", "supporting", "opposing"
ASKED = (QUESTION, SUPPORTING, OPPOSING)
BOTH, ONLY_SUPPORTING, ONLY_OPPOSING, NEITHER = "both", "only supporting", "only opposing", "neither"
SIDES = (BOTH, ONLY_SUPPORTING, ONLY_OPPOSING, NEITHER)
ALL = "all"  # of the data sets together, as the paper's figures show them
_EACH = ("system", "dataset", "asked")
COLUMNS = ("system", "qid", "dataset", "issue", "asked", "rank", "docno", "supporting", "opposing")


def two_sided(questions: Sequence[Question]) -> list[Question]:
    """Return the questions with two perspectives, one that supports and one that opposes; an InputError if none has."""
    found = [q for q in questions if sorted(map(str, q.stances)) == [OPPOSE, SUPPORT]]
    if not found:
        problem = "no question has recorded which of its two perspectives supports and which opposes"
        hint = "give --stances 'by order' where it is listed first, or a FILE, such as `berds build stances` writes"
        raise InputError(f"{problem}; {hint} (in Python, stances='by order' or stances=FILE)", field="stances")
    return found


def sides_by_order(questions: Sequence[Question]) -> list[Question]:
    """Take the first of two perspectives for the supporting one where nothing is recorded (BeRDS section 4.1)."""
    return [
        q._replace(stances=(SUPPORT, OPPOSE)) if len(q.perspectives) == 2 and not any(q.stances) else q
        for q in questions
    ]


def listed_sides(
    runs: Mapping[str, pd.DataFrame], verdicts: pd.DataFrame, questions: Sequence[Question], k: int = 5
) -> pd.DataFrame:
    """Return every passage in the top k of every list, and which side it argues.

    Frame system, qid (of the question), dataset, issue, asked ("question", "supporting", "opposing": what was searched
    with), rank, docno, supporting, opposing (bool). Columns of one's own can be added and given to :func:`leaning`.
    """
    check_k(k)
    asked = two_sided(questions)
    lists = pd.DataFrame(_lists(asked), columns=["list", "qid", "dataset", "issue", "asked"])
    side_of = {(q.qid, pid): stance for q in asked for pid, stance in enumerate(q.stances)}
    yes = check_verdicts(verdicts).query("supports")
    sides = np.array([side_of.get(key, "") for key in zip(yes["qid"], yes["pid"], strict=True)], dtype=object)
    arguing = {SUPPORTING: pairs_of(yes[sides == SUPPORT]), OPPOSING: pairs_of(yes[sides == OPPOSE])}
    frames = []
    for system, run in runs.items():
        clean = check_run(run)
        best = clean.loc[clean["rank"] <= k, ["qid", "rank", "docno"]].rename(columns={"qid": "list"})
        mine = best.merge(lists, on="list")
        if len(clean) and mine.empty:
            there = f"{clean['qid'].iloc[0]!r} against {asked[0].qid!r} …"
            raise InputError(f"the lists of {system!r} and the questions do not belong together: {there}", field="qid")
        places = pairs_of(mine)
        frames.append(mine.assign(system=system, **{side: places.isin(pairs) for side, pairs in arguing.items()}))
    return pd.concat(frames, ignore_index=True)[list(COLUMNS)]


def _lists(questions: Sequence[Question]) -> Iterator[tuple[str, str, str, str, str]]:
    for q in questions:
        facts = (q.qid, q.source or "questions", issue_of(q))
        yield (q.qid, *facts, QUESTION)
        for pid, stance in enumerate(q.stances):
            yield (perspective_qid(q.qid, pid), *facts, SUPPORTING if stance == SUPPORT else OPPOSING)


# ---------------------------------------------------------------- Figure 2: which sides a list shows

# `listed` is of listed_sides; `questions` are the asked ones: one whose list is empty shows neither side.


def side_by_question(listed: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
    """Return for each system, question and way of asking whether its list shows both sides, one of them or neither.

    Frame system, dataset, asked, qid, supporting, opposing (how many passages of the list), side.
    """
    counts = listed.groupby(["system", "asked", "qid"], sort=False)[[SUPPORTING, OPPOSING]].sum()
    datasets = {q.qid: q.source or "questions" for q in two_sided(questions)}
    pairs = listed[["system", "asked"]].drop_duplicates().itertuples(index=False)
    every = pd.MultiIndex.from_tuples([(s, a, qid) for s, a in pairs for qid in datasets], names=counts.index.names)
    table = counts.reindex(every, fill_value=0).reset_index()
    place = (table[SUPPORTING].to_numpy() == 0) * 2 + (table[OPPOSING].to_numpy() == 0)
    table["side"] = np.array(SIDES)[place]
    table["dataset"] = table["qid"].map(datasets)
    return table[["system", "dataset", "asked", "qid", SUPPORTING, OPPOSING, "side"]]


def side_shares(listed: pd.DataFrame, questions: Sequence[Question], *, level: float = 0.95) -> pd.DataFrame:
    """Return how many questions' lists show both sides, one of them, or neither (BeRDS Figure 2).

    Frame system, dataset ("all": together), asked, side, n, count, share, low, high (Wilson's interval).
    """
    rows = []
    for key, part in _groups(side_by_question(listed, questions), _EACH):
        for side in SIDES:
            count, n = int((part["side"] == side).sum()), len(part)
            rows.append((*key, side, n, count, count / n, *wilson_interval(count, n, level)))
    return pd.DataFrame(rows, columns=[*_EACH, "side", "n", "count", "share", "low", "high"])


def asymmetry(listed: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
    """Test whether lists that show one side only show the supporting one as often as the opposing one.

    Exact two-sided sign test; Holm over the systems of a data set and way of asking. Frame system, dataset, asked, n,
    only_supporting, only_opposing, share (of the one-sided lists that show the supporting side), low, high, p_value.
    """
    from scipy.stats import binomtest

    rows = []
    for key, part in _groups(side_by_question(listed, questions), _EACH):
        for_it, against = (int((part["side"] == side).sum()) for side in (ONLY_SUPPORTING, ONLY_OPPOSING))
        found: tuple[float, ...] = (np.nan, np.nan, np.nan, 1.0)
        if n := for_it + against:
            found = (for_it / n, *wilson_interval(for_it, n), float(binomtest(for_it, n).pvalue))
        rows.append((*key, len(part), for_it, against, *found))
    names = [*_EACH, "n", "only_supporting", "only_opposing", "share", "low", "high", "p_value"]
    return _corrected(pd.DataFrame(rows, columns=names), ["dataset", "asked"])


def _corrected(table: pd.DataFrame, family: list[str]) -> pd.DataFrame:
    """Return a table whose p-values are corrected within each family of tests."""
    return table.assign(p_value=table.groupby(family, sort=False)["p_value"].transform(lambda p: holm(p.tolist())))


# ---------------------------------------------------------------- Figure 3: does the list follow the query?


def lean(supporting: np.ndarray | float, opposing: np.ndarray | float) -> np.ndarray:
    """Return (p - n) / (p + n), from -1 to 1; NaN where nothing argues either side.

    >>> lean(3, 1), lean(0, 2)
    (array(0.5), array(-1.))
    """
    p, n = np.asarray(supporting, dtype=np.float64), np.asarray(opposing, dtype=np.float64)
    return np.divide(p - n, p + n, out=np.full(np.shape(p + n), np.nan), where=p + n > 0)


def lean_as_printed(supporting: np.ndarray | float, opposing: np.ndarray | float) -> np.ndarray:
    """Return (p - n) / p as BeRDS section 8 prints it, at most 1; NaN where nothing supports.

    >>> lean_as_printed(4, 1), lean_as_printed(1, 4)
    (array(0.75), array(-3.))
    """
    p, n = np.asarray(supporting, dtype=np.float64), np.asarray(opposing, dtype=np.float64)
    return np.divide(p - n, p, out=np.full(np.shape(p - n), np.nan), where=p > 0)


def leaning(listed: pd.DataFrame, by: Sequence[str] = _EACH, **drawing: Any) -> pd.DataFrame:
    """Return how far the listed passages lean to the supporting side (BeRDS section 8, Figure 3).

    Frame of the columns `by`, issues (drawn for the interval), passages, supporting, opposing (counts), leaning, low,
    high, as_printed.
    """
    if unknown := [name for name in by if name not in listed]:
        raise InputError(f"there is no column {unknown[0]!r}; there are {', '.join(listed.columns)}", field="by")
    rows = []
    for key, part in _groups(listed, by):
        found = _drawn_by_issue(part, part[[SUPPORTING, OPPOSING]], lambda t: lean(*t.T)[:, None], **drawing)
        p, n = part[[SUPPORTING, OPPOSING]].sum()
        values = (*np.ravel(found), float(lean_as_printed(p, n)))
        rows.append((*key, part["issue"].nunique(), len(part), p, n, *values))
    names = [*by, "issues", "passages", SUPPORTING, OPPOSING, "leaning", "low", "high", "as_printed"]
    return pd.DataFrame(rows, columns=names)


def _drawn_by_issue(part: pd.DataFrame, counts: pd.DataFrame, statistic: Any, **drawing: Any) -> np.ndarray:
    """Return value, low, high of a statistic of counts, (3, s); whole issues are drawn within their data set."""
    sums = _by_issue(part, counts)
    strata = sums.index.get_level_values(0).tolist()
    return np.array(cluster_bootstrap(sums.to_numpy(), None, statistic, strata=strata, **drawing))


def _by_issue(part: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Return the sums of each issue's rows, those of a data set together."""
    return counts.astype(np.float64).groupby([part["stratum"], part["issue"]]).sum()


def _groups(table: pd.DataFrame, by: Sequence[str]) -> Any:
    """Return (values of the columns, their rows), and at the end those of all data sets together."""
    table = table.assign(stratum=table["dataset"])
    if "dataset" in by:
        check_not_taken(ALL, table["dataset"].unique())
        if table["dataset"].nunique() > 1:
            table = pd.concat([table, table.assign(dataset=ALL)], ignore_index=True)
    return table.groupby(list(by), sort=False)


def sycophancy(listed: pd.DataFrame, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """Return how far lists follow the side that the query takes (BeRDS section 8, Figure 3).

    Frame system, dataset, issues; supporting, question, opposing (leaning by what was searched with); follows =
    supporting - opposing with p_value, towards = supporting - question, away = question - opposing, with intervals. The
    test exchanges the two lists of an issue at random; Holm over the systems of a data set.
    """
    _check_asked(listed, ["system", "dataset"], ASKED)
    rows = [
        (system, dataset, part["issue"].nunique(), *_compared(part, level, resamples, seed))
        for (system, dataset), part in _groups(listed, ["system", "dataset"])
    ]
    ends = [f"{name}{end}" for name in ("follows", "towards", "away") for end in ("", "_low", "_high")]
    names = ["system", "dataset", "issues", SUPPORTING, QUESTION, OPPOSING, *ends, "p_value"]
    table = pd.DataFrame(rows, columns=names)
    return _corrected(table, ["dataset"])


def _check_asked(listed: pd.DataFrame, by: list[str], needed: Sequence[str]) -> None:
    """Raise InputError for a system (in a data set) that was not searched with everything that is needed."""
    for (system, *_), part in listed.groupby(by, sort=False):
        if missing := set(needed) - set(part["asked"]):
            problem = f"{system!r} was not searched with the {min(missing)} perspective; `berds sides` and bd.sides do"
            raise InputError(problem, field="asked")


def _compared(part: pd.DataFrame, level: float, resamples: int, seed: int) -> list[float]:
    """Return the three leanings, the three differences with their intervals, and the p-value of the first."""
    counts = part[[SUPPORTING, OPPOSING]].to_numpy(dtype=np.float64)
    of_way = {asked: counts * (part["asked"] == asked).to_numpy()[:, None] for asked in ASKED}
    by_way = pd.DataFrame(np.hstack([of_way[asked] for asked in (SUPPORTING, QUESTION, OPPOSING)]), index=part.index)

    def leanings(sums: np.ndarray) -> np.ndarray:
        supporting, question, opposing = (lean(sums[:, i], sums[:, i + 1]) for i in (0, 2, 4))
        differences = supporting - opposing, supporting - question, question - opposing
        return np.column_stack([supporting, question, opposing, *differences])

    found = _drawn_by_issue(part, by_way, leanings, level=level, resamples=resamples, seed=seed).T
    sums = _by_issue(part, by_way).to_numpy()
    return [*found[:3, 0], *found[3:].ravel(), _exchanged(sums[:, :2], sums[:, 4:], resamples, seed)]


def _exchanged(a: np.ndarray, b: np.ndarray, resamples: int, seed: int) -> float:
    """Return the p-value of the difference in leaning if the lists of each issue, (issues, 2), are exchanged.

    Source: Smucker, Allan and Carterette (2007), here with a ratio as the statistic.
    """
    seen = float(lean(*a.sum(axis=0)) - lean(*b.sum(axis=0)))
    if not np.isfinite(seen):
        return 1.0
    rng, as_extreme = np.random.default_rng(seed), 1  # what was seen is one of the ways it can fall
    for start in range(0, resamples, 1000):
        swap = rng.integers(0, 2, (min(1000, resamples - start), len(a))).astype(np.float64)
        moved = swap @ (b - a)
        first, second = a.sum(axis=0) + moved, b.sum(axis=0) - moved
        difference = lean(first[:, 0], first[:, 1]) - lean(second[:, 0], second[:, 1])
        as_extreme += int((np.abs(difference) >= abs(seen) - 1e-12).sum())
    return as_extreme / (resamples + 1)


def flips(listed: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
    """Return how questions answer when the query changes sides: which side has more passages in either list.

    Frame system, dataset, n, and the shares follow (the list leans more to the query's side), turn (even from one side
    to the other), stay (the balance is the same) and oppose (it leans more against the query).
    """
    _check_asked(listed, ["system"], (SUPPORTING, OPPOSING))
    table = side_by_question(listed, questions)
    table["balance"] = table[SUPPORTING] - table[OPPOSING]
    wide = table.pivot(index=["system", "dataset", "qid"], columns="asked", values="balance").reset_index()
    change = wide[SUPPORTING] - wide[OPPOSING]
    wide = wide.assign(
        follow=change > 0, turn=(wide[SUPPORTING] > 0) & (wide[OPPOSING] < 0), stay=change == 0, oppose=change < 0
    )
    kinds = ["follow", "turn", "stay", "oppose"]
    rows = [(*key, len(part), *part[kinds].mean()) for key, part in _groups(wide, ["system", "dataset"])]
    return pd.DataFrame(rows, columns=["system", "dataset", "n", *kinds])
