"""Sides: which sides the list of a neutral question shows (PIR 2.4, 2.5, A.10), and whether lists follow the query.

Runs hold the lists of the questions and of their perspectives, as ``bd.search(…, perspectives=True)`` returns them.
Intervals resample whole questions, queries or issues; `drawing` holds their level, resamples and seed.
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
    check_run,
    check_verdicts,
    issue_of,
    perspective_qid,
)
from berdslib.errors import InputError
from berdslib.evaluation.judges import ratio_or_nan
from berdslib.evaluation.measures import Coverage, checked, judged_questions, pRecall
from berdslib.evaluation.tables import check_not_taken, pair_index, question_tables
from berdslib.stats import cluster_bootstrap, holm, ratio_of_sums, wilson_interval


def labels_of(question: Question) -> tuple[str, ...]:
    """Return the short name of each perspective of a question, or its text if it has no short name.

    >>> labels_of(Question("q", "Tea?", ("Tea is good.", "Tea is bad."), labels=("for", "")))
    ('for', 'Tea is bad.')
    """
    if not question.labels:
        return tuple(question.perspectives)
    pairs = zip(question.labels, question.perspectives, strict=True)
    return tuple(label or perspective for label, perspective in pairs)


# ---------------------------------------------------------------- with and without perspectives


def root_versus_full(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    ks: Sequence[int],
    **drawing: Any,
) -> pd.DataFrame:
    """Compare the lists of questions with those of their perspectives (PIR figures 2 and 4), one row per cut-off.

    Each share is that of lists with a supporting passage in the top k. The columns are k, root_any (support for any
    perspective, in the question's list), root (for each perspective, in the question's list), full (for each
    perspective, in the list of its own query), difference = full - root, low, high.
    """
    for k in ks:
        check_k(k)
    run, verdicts = checked(run, verdicts, questions, [Coverage, pRecall])
    judged = judged_questions(questions, verdicts, [run])
    tables = list(question_tables(run, verdicts, judged))
    owner = np.repeat(np.arange(len(tables)), [len(table.own) for table in tables]).tolist()
    rows = []
    for k in ks:
        any_of_root = [table.listed[:k].any() for table in tables]
        root = np.concatenate([table.listed[:k].any(axis=0) for table in tables]).astype(np.float64)
        own = [np.diagonal(table.own[:, :k], axis1=0, axis2=2).any(axis=0) for table in tables]
        full = np.concatenate(own).astype(np.float64)
        counted = np.column_stack([full - root, np.ones(len(root))])
        difference = cluster_bootstrap(counted, owner, ratio_of_sums, **drawing)
        rows.append((k, np.mean(any_of_root), root.mean(), full.mean(), *np.ravel(difference)))
    return pd.DataFrame(rows, columns=["k", "root_any", "root", "full", "difference", "low", "high"])


# ---------------------------------------------------------------- leaning: which sides a list shows

# The query of a list: the question, or one of its two perspectives.
QUESTION = "question"
SUPPORTING = "supporting"
OPPOSING = "opposing"
QUERIES = (QUESTION, SUPPORTING, OPPOSING)
ONLY_SUPPORTING = "only supporting"
ONLY_OPPOSING = "only opposing"
SHOWN_SIDES = ("both", ONLY_SUPPORTING, ONLY_OPPOSING, "neither")
ALL = "all"  # the name of the row over all data sets, which the paper's figures show
_EACH = ("system", "dataset", "asked")
_EXCHANGES = 10_000  # of a permutation test
COLUMNS = ("system", "qid", "dataset", "issue", "asked", "rank", "docno", "supporting", "opposing")


def two_sided(questions: Sequence[Question]) -> list[Question]:
    """Return the questions with a supporting and an opposing perspective.

    Raises:
        InputError: no question has both.
    """
    recorded = [q for q in questions if sorted(map(str, q.stances)) == [OPPOSE, SUPPORT]]
    if not recorded:
        problem = "no question records which of its two perspectives supports and which opposes"
        hint = "use --stances 'by order' if the first perspective supports, or a FILE from `berds build stances`"
        raise InputError(f"{problem}; {hint} (in Python, stances='by order' or stances=FILE)", field="stances")
    return recorded


def sides_by_order(questions: Sequence[Question]) -> list[Question]:
    """Mark the first of two perspectives as supporting if no stance is recorded (BeRDS section 4.1)."""
    with_sides = []
    for question in questions:
        if len(question.perspectives) == 2 and not any(question.stances):
            question = question._replace(stances=(SUPPORT, OPPOSE))
        with_sides.append(question)
    return with_sides


def listed_sides(
    runs: Mapping[str, pd.DataFrame],
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    k: int = 5,
) -> pd.DataFrame:
    """Return every passage in the top k of every list, and the sides that it argues.

    The columns are system, qid (of the question), dataset, issue, asked (the query: "question", "supporting" or
    "opposing"), rank, docno, supporting, opposing (bool). Callers may add columns, by which :func:`leaning` can group.
    """
    check_k(k)
    with_sides = two_sided(questions)
    lists = pd.DataFrame(_lists(with_sides), columns=["list", "qid", "dataset", "issue", "asked"])
    stance_of = {(q.qid, pid): stance for q in with_sides for pid, stance in enumerate(q.stances)}
    yes = check_verdicts(verdicts).query("supports")
    keys = zip(yes["qid"], yes["pid"], strict=True)
    stances = np.array([stance_of.get(key, "") for key in keys], dtype=object)
    supporting = pair_index(yes[stances == SUPPORT])
    opposing = pair_index(yes[stances == OPPOSE])
    frames = []
    for system, run in runs.items():
        clean = check_run(run)
        top = clean.loc[clean["rank"] <= k, ["qid", "rank", "docno"]].rename(columns={"qid": "list"})
        rows = top.merge(lists, on="list")
        if len(clean) and rows.empty:
            ids = f"{clean['qid'].iloc[0]!r} against {with_sides[0].qid!r} …"
            raise InputError(f"the lists of {system!r} and the questions do not belong together: {ids}", field="qid")
        pairs = pair_index(rows)
        frames.append(rows.assign(system=system, supporting=pairs.isin(supporting), opposing=pairs.isin(opposing)))
    return pd.concat(frames, ignore_index=True)[list(COLUMNS)]


def _lists(questions: Sequence[Question]) -> Iterator[tuple[str, str, str, str, str]]:
    for question in questions:
        facts = (question.qid, question.source or "questions", issue_of(question))
        yield (question.qid, *facts, QUESTION)
        for pid, stance in enumerate(question.stances):
            query = SUPPORTING if stance == SUPPORT else OPPOSING
            yield (perspective_qid(question.qid, pid), *facts, query)


# ---------------------------------------------------------------- Figure 2: which sides a list shows

# `listed` comes from listed_sides; `questions` are the questions of its runs. An empty list shows neither side.


def side_by_question(listed: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
    """Return for each system, question and query whether the list shows both sides, one of them or neither.

    The columns are system, dataset, asked, qid, supporting, opposing (numbers of passages in the list), side.
    """
    counts = listed.groupby(["system", "asked", "qid"], sort=False)[[SUPPORTING, OPPOSING]].sum()
    datasets = {q.qid: q.source or "questions" for q in two_sided(questions)}
    searches = listed[["system", "asked"]].drop_duplicates().itertuples(index=False)
    keys = [(system, asked, qid) for system, asked in searches for qid in datasets]
    lists = pd.MultiIndex.from_tuples(keys, names=counts.index.names)
    table = counts.reindex(lists, fill_value=0).reset_index()
    place = (table[SUPPORTING].to_numpy() == 0) * 2 + (table[OPPOSING].to_numpy() == 0)
    table["side"] = np.array(SHOWN_SIDES)[place]
    table["dataset"] = table["qid"].map(datasets)
    return table[["system", "dataset", "asked", "qid", SUPPORTING, OPPOSING, "side"]]


def side_shares(listed: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
    """Return how many questions' lists show both sides, one of them, or neither (BeRDS Figure 2).

    The columns are system, dataset ("all": all data sets together), asked, side, n, count, share, low, high (Wilson's
    interval).
    """
    rows = []
    for key, part in _groups(side_by_question(listed, questions), _EACH):
        n = len(part)
        for side in SHOWN_SIDES:
            count = int((part["side"] == side).sum())
            rows.append((*key, side, n, count, count / n, *wilson_interval(count, n)))
    return pd.DataFrame(rows, columns=[*_EACH, "side", "n", "count", "share", "low", "high"])


def asymmetry(listed: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
    """Test whether one-sided lists show the supporting side as often as the opposing one.

    The test is an exact two-sided sign test, with Holm's correction over the systems of a data set and query. The
    columns are system, dataset, asked, n, only_supporting, only_opposing, share (the part of the one-sided
    lists that shows the supporting side), low, high, p_value.
    """
    from scipy.stats import binomtest

    rows = []
    for key, part in _groups(side_by_question(listed, questions), _EACH):
        supporting = int((part["side"] == ONLY_SUPPORTING).sum())
        opposing = int((part["side"] == ONLY_OPPOSING).sum())
        n = supporting + opposing
        test: tuple[float, ...] = (np.nan, np.nan, np.nan, 1.0)
        if n:
            p = float(binomtest(supporting, n).pvalue)
            test = (supporting / n, *wilson_interval(supporting, n), p)
        rows.append((*key, len(part), supporting, opposing, *test))
    names = [*_EACH, "n", "only_supporting", "only_opposing", "share", "low", "high", "p_value"]
    return _corrected(pd.DataFrame(rows, columns=names), ["dataset", "asked"])


def _corrected(table: pd.DataFrame, family: list[str]) -> pd.DataFrame:
    """Return a table whose p-values are corrected within each family of tests."""
    corrected = table.groupby(family, sort=False)["p_value"].transform(lambda p: holm(p.tolist()))
    return table.assign(p_value=corrected)


# ---------------------------------------------------------------- Figure 3: does the list follow the query?


def lean(supporting: np.ndarray | float, opposing: np.ndarray | float) -> np.ndarray:
    """Return (p - n) / (p + n), from -1 to 1; NaN if no passage argues either side.

    >>> lean(3, 1), lean(0, 2)
    (array(0.5), array(-1.))
    """
    p = np.asarray(supporting, dtype=np.float64)
    n = np.asarray(opposing, dtype=np.float64)
    return ratio_or_nan(p - n, p + n)


def lean_as_printed(supporting: np.ndarray | float, opposing: np.ndarray | float) -> np.ndarray:
    """Return (p - n) / p as BeRDS section 8 prints it, at most 1; NaN if no passage supports.

    >>> lean_as_printed(4, 1), lean_as_printed(1, 4)
    (array(0.75), array(-3.))
    """
    p = np.asarray(supporting, dtype=np.float64)
    n = np.asarray(opposing, dtype=np.float64)
    return ratio_or_nan(p - n, p)


def leaning(listed: pd.DataFrame, by: Sequence[str] = _EACH, **drawing: Any) -> pd.DataFrame:
    """Return how far the listed passages lean to the supporting side (BeRDS section 8, Figure 3).

    The columns are `by`, issues (their number; the interval resamples them), passages, supporting, opposing (counts),
    leaning, low, high, as_printed.
    """
    for name in by:
        if name not in listed:
            raise InputError(f"unknown column {name!r}; the columns are {', '.join(listed.columns)}", field="by")

    def lean_of_sums(sums: np.ndarray) -> np.ndarray:
        return lean(sums[:, 0], sums[:, 1])[:, None]

    rows = []
    for key, part in _groups(listed, by):
        counts = part[[SUPPORTING, OPPOSING]]
        interval = np.ravel(_drawn_by_issue(part, counts, lean_of_sums, **drawing))
        supporting, opposing = counts.sum()
        as_printed = float(lean_as_printed(supporting, opposing))
        rows.append((*key, part["issue"].nunique(), len(part), supporting, opposing, *interval, as_printed))
    names = [*by, "issues", "passages", SUPPORTING, OPPOSING, "leaning", "low", "high", "as_printed"]
    return pd.DataFrame(rows, columns=names)


def _drawn_by_issue(
    part: pd.DataFrame,
    counts: pd.DataFrame,
    statistic: Any,
    **drawing: Any,
) -> np.ndarray:
    """Return value, low, high of a statistic of counts, (3, s); the bootstrap draws whole issues of each data set."""
    sums = _by_issue(part, counts)
    strata = sums.index.get_level_values(0).tolist()
    return np.array(cluster_bootstrap(sums.to_numpy(), None, statistic, strata=strata, **drawing))


def _by_issue(part: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Return the sums of each issue's rows, ordered by data set."""
    return counts.astype(np.float64).groupby([part["stratum"], part["issue"]]).sum()


def _groups(table: pd.DataFrame, by: Sequence[str]) -> Any:
    """Return groups of rows by the values of columns; the groups over all data sets together come last."""
    table = table.assign(stratum=table["dataset"])
    if "dataset" in by:
        check_not_taken(ALL, table["dataset"].unique())
        if table["dataset"].nunique() > 1:
            table = pd.concat([table, table.assign(dataset=ALL)], ignore_index=True)
    return table.groupby(list(by), sort=False)


def sycophancy(listed: pd.DataFrame) -> pd.DataFrame:
    """Return how far lists follow the side that the query takes (BeRDS section 8, Figure 3).

    The columns are system, dataset, issues; supporting, question, opposing (the leaning of each query's lists); follows
    = supporting - opposing with p_value, towards = supporting - question, away = question - opposing, with intervals.
    The test exchanges the two lists of an issue at random, with Holm's correction over the systems of a data set.
    """
    _check_queries(listed, ["system", "dataset"], QUERIES)
    rows = []
    for (system, dataset), part in _groups(listed, ["system", "dataset"]):
        rows.append((system, dataset, part["issue"].nunique(), *_leanings(part)))
    intervals = [f"{name}{end}" for name in ("follows", "towards", "away") for end in ("", "_low", "_high")]
    names = ["system", "dataset", "issues", SUPPORTING, QUESTION, OPPOSING, *intervals, "p_value"]
    return _corrected(pd.DataFrame(rows, columns=names), ["dataset"])


def _check_queries(listed: pd.DataFrame, by: list[str], needed: Sequence[str]) -> None:
    """Raise InputError for a system without the lists of a needed query (in a data set)."""
    for (system, *_), part in listed.groupby(by, sort=False):
        missing = set(needed) - set(part["asked"])
        if missing:
            problem = f"{system!r} was not searched with the {min(missing)} perspective; use `berds sides` or bd.sides"
            raise InputError(problem, field="asked")


def _leanings(part: pd.DataFrame) -> list[float]:
    """Return the three leanings, the three differences with their intervals, and the p-value of the first."""
    counts = part[[SUPPORTING, OPPOSING]].to_numpy(dtype=np.float64)
    columns = []
    for query in (SUPPORTING, QUESTION, OPPOSING):
        of_query = (part["asked"] == query).to_numpy()
        columns.append(counts * of_query[:, None])
    by_query = pd.DataFrame(np.hstack(columns), index=part.index)

    def statistic(sums: np.ndarray) -> np.ndarray:
        supporting = lean(sums[:, 0], sums[:, 1])
        question = lean(sums[:, 2], sums[:, 3])
        opposing = lean(sums[:, 4], sums[:, 5])
        differences = [supporting - opposing, supporting - question, question - opposing]
        return np.column_stack([supporting, question, opposing, *differences])

    drawn = _drawn_by_issue(part, by_query, statistic).T
    sums = _by_issue(part, by_query).to_numpy()
    p_value = _exchange_test(sums[:, :2], sums[:, 4:])
    return [*drawn[:3, 0], *drawn[3:].ravel(), p_value]


def _exchange_test(a: np.ndarray, b: np.ndarray) -> float:
    """Return the p-value of the difference in leaning if the lists of each issue, (issues, 2), are exchanged.

    Source: Smucker, Allan and Carterette (2007), here with a ratio as the statistic.
    """
    observed = float(lean(*a.sum(axis=0)) - lean(*b.sum(axis=0)))
    if not np.isfinite(observed):
        return 1.0
    rng = np.random.default_rng(0)
    as_extreme = 1  # the observed assignment
    for _ in range(_EXCHANGES // 1000):
        exchanged = rng.integers(0, 2, (1000, len(a))).astype(np.float64)
        moved = exchanged @ (b - a)
        first = a.sum(axis=0) + moved
        second = b.sum(axis=0) - moved
        difference = lean(first[:, 0], first[:, 1]) - lean(second[:, 0], second[:, 1])
        as_extreme += int((np.abs(difference) >= abs(observed) - 1e-12).sum())
    return as_extreme / (_EXCHANGES + 1)


def flips(listed: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
    """Return how lists change when the query changes sides; a list leans to the side with more passages.

    The columns are system, dataset, n, and the shares follow (the list leans more to the query's side), turn (the list
    even changes sides), stay (the balance is the same) and oppose (the list leans more against the query).
    """
    _check_queries(listed, ["system"], (SUPPORTING, OPPOSING))
    table = side_by_question(listed, questions)
    table["balance"] = table[SUPPORTING] - table[OPPOSING]
    wide = table.pivot(index=["system", "dataset", "qid"], columns="asked", values="balance").reset_index()
    change = wide[SUPPORTING] - wide[OPPOSING]
    wide["follow"] = change > 0
    wide["turn"] = (wide[SUPPORTING] > 0) & (wide[OPPOSING] < 0)
    wide["stay"] = change == 0
    wide["oppose"] = change < 0
    kinds = ["follow", "turn", "stay", "oppose"]
    rows = []
    for key, part in _groups(wide, ["system", "dataset"]):
        rows.append((*key, len(part), *part[kinds].mean()))
    return pd.DataFrame(rows, columns=["system", "dataset", "n", *kinds])
