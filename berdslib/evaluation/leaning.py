"""Leaning and sycophancy: which side a list shows, and whether it follows the side that the query takes.

BeRDS section 8, Figures 2 and 3. Everything comes from one frame, :func:`listed_sides`: a row for each listed passage,
which says whether it argues the supporting and the opposing perspective of its question. Questions with one perspective
of each kind are looked at, others are left out. Leaning is (p - n) / (p + n), p and n being how many listed passages
support and oppose: from -1 to 1, 0 where both are shown alike, and the same but for its sign if the sides are
exchanged. The paper prints (p - n) / p, which has no value where p is 0 and falls without limit: it is given as well
(divergences.md B17).
Intervals draw whole issues within their data set.
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
from berdslib.stats import holm, percentiles, resampled_sums, wilson_interval

# How a list was asked for: by the question, or by one of its two perspectives.
QUESTION, SUPPORTING, OPPOSING = "question", "supporting", "opposing"
ASKED = (QUESTION, SUPPORTING, OPPOSING)
BOTH, ONLY_SUPPORTING, ONLY_OPPOSING, NEITHER = "both", "only supporting", "only opposing", "neither"
SIDES = (BOTH, ONLY_SUPPORTING, ONLY_OPPOSING, NEITHER)
ALL = "all"  # of the data sets together, as the paper's figures show them
_EACH = ("system", "dataset", "asked")
COLUMNS = ("system", "qid", "dataset", "issue", "asked", "rank", "docno", "supporting", "opposing")


def two_sided(questions: Sequence[Question]) -> list[Question]:
    """Return the questions with two perspectives, one that supports and one that opposes.

    Raises:
        InputError: there are none; :func:`sides_by_order` helps where the data set lists the supporting one first.
    """
    found = [q for q in questions if sorted(map(str, q.stances)) == [OPPOSE, SUPPORT]]
    if not found:
        problem = "no question has recorded which of its two perspectives supports and which opposes"
        raise InputError(f"{problem}; where the supporting one is listed first, say sides='by order'", field="stances")
    return found


def sides_by_order(questions: Sequence[Question]) -> list[Question]:
    """Take the first of two perspectives for the supporting one, where nothing is recorded.

    So BeRDS made them: for ArguAna and OpinionQA the statement and then its negation, for Kialo the site's own
    statement and then an opposite one (section 4.1). The paper asked GPT-4 which is which (A.8).
    """
    return [
        q._replace(stances=(SUPPORT, OPPOSE)) if len(q.perspectives) == 2 and not any(q.stances) else q
        for q in questions
    ]


def listed_sides(
    runs: Mapping[str, pd.DataFrame], verdicts: pd.DataFrame, questions: Sequence[Question], k: int = 5
) -> pd.DataFrame:
    """Return every passage in the top k of every list, and which side it argues.

    Args:
        runs: system → frame qid, docno and score (or rank), with the lists of the questions and, for sycophancy, those
            found from their perspectives under the ids of :func:`berdslib.data.records.perspective_qid`.
        verdicts: who supports what; a passage may argue both sides.
        questions: the asked questions; those that :func:`two_sided` leaves out are left out here.
        k: how many passages of each list.

    Returns:
        Frame system, qid (of the question), dataset, issue, asked ("question", "supporting", "opposing": what was
        searched with), rank, docno, supporting, opposing (bool). Columns of one's own, such as the site of a passage,
        can be added and given to :func:`leaning`.

    Raises:
        InputError: k is no whole number from 1, no question of two sides, a frame that is no run or no verdicts, or a
            run without lists of these questions.
    """
    check_k(k)
    asked = two_sided(questions)
    lists = pd.DataFrame(_lists(asked), columns=["list", "qid", "dataset", "issue", "asked"])
    yes = check_verdicts(verdicts).query("supports")
    side_of = {(q.qid, pid): stance for q in asked for pid, stance in enumerate(q.stances)}
    sides = np.array([side_of.get(key, "") for key in zip(yes["qid"], yes["pid"], strict=True)], dtype=object)
    frames = []
    for system, run in runs.items():
        clean = check_run(run)
        top = clean.loc[clean["rank"] <= k, ["qid", "rank", "docno"]].rename(columns={"qid": "list"})
        mine = top.merge(lists, on="list")
        if len(clean) and mine.empty:
            there = f"{clean['qid'].iloc[0]!r} against {asked[0].qid!r} …"
            raise InputError(f"the lists of {system!r} and the questions do not belong together: {there}", field="qid")
        places = pd.MultiIndex.from_frame(mine[["qid", "docno"]])
        for column, stance in ((SUPPORTING, SUPPORT), (OPPOSING, OPPOSE)):
            mine[column] = places.isin(pd.MultiIndex.from_frame(yes.loc[sides == stance, ["qid", "docno"]]))
        frames.append(mine.assign(system=system))
    return pd.concat(frames, ignore_index=True)[list(COLUMNS)]


def _lists(questions: Sequence[Question]) -> Iterator[tuple[str, str, str, str, str]]:
    for q in questions:
        facts = (q.qid, q.source or "questions", issue_of(q))
        yield (q.qid, *facts, QUESTION)
        for pid, stance in enumerate(q.stances):
            yield (perspective_qid(q.qid, pid), *facts, SUPPORTING if stance == SUPPORT else OPPOSING)


# ---------------------------------------------------------------- Figure 2: which sides a list shows


def side_by_question(listed: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
    """Return for each system, question and way of asking whether its list shows both sides, one of them or neither.

    Args:
        listed: of :func:`listed_sides`.
        questions: the asked questions; one whose list is empty shows neither.

    Returns:
        Frame system, dataset, asked, qid, supporting, opposing (how many passages of the list), side.
    """
    counts = listed.groupby(["system", "asked", "qid"], sort=False)[[SUPPORTING, OPPOSING]].sum()
    datasets = {q.qid: q.source or "questions" for q in two_sided(questions)}
    pairs = listed[["system", "asked"]].drop_duplicates().itertuples(index=False)
    every = pd.MultiIndex.from_tuples([(s, a, qid) for s, a in pairs for qid in datasets], names=counts.index.names)
    table = counts.reindex(every, fill_value=0).reset_index()
    place = (table[SUPPORTING].to_numpy() == 0) * 2 + (table[OPPOSING].to_numpy() == 0)
    table["side"] = np.array([BOTH, ONLY_SUPPORTING, ONLY_OPPOSING, NEITHER])[place]
    table["dataset"] = table["qid"].map(datasets)
    return table[["system", "dataset", "asked", "qid", SUPPORTING, OPPOSING, "side"]]


def side_shares(listed: pd.DataFrame, questions: Sequence[Question], *, level: float = 0.95) -> pd.DataFrame:
    """Return how many questions' lists show both sides, one of them, or neither (BeRDS Figure 2).

    Args:
        listed: of :func:`listed_sides`.
        questions: the asked questions.
        level: coverage of the interval (Wilson's, 1927).

    Returns:
        Frame system, dataset ("all" is all of them together, where there are several), asked, side, n, count, share,
        low, high.
    """
    rows = []
    for (system, dataset, asked), part in _groups(side_by_question(listed, questions), _EACH):
        for side in SIDES:
            count = int((part["side"] == side).sum())
            ends = wilson_interval(count, len(part), level)
            rows.append((system, dataset, asked, side, len(part), count, count / len(part), *ends))
    return pd.DataFrame(rows, columns=["system", "dataset", "asked", "side", "n", "count", "share", "low", "high"])


def asymmetry(listed: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
    """Test whether lists that show one side only show the supporting one as often as the opposing one.

    Exact sign test (binomial, two-sided) on the questions whose list shows one side only; Holm over the systems of a
    data set and way of asking.

    Args:
        listed: of :func:`listed_sides`.
        questions: the asked questions.

    Returns:
        Frame system, dataset, asked, n, only_supporting, only_opposing (counts), share (of the one-sided lists that
        show the supporting side) with its Wilson interval low, high, and p_value. NaN and 1 where no list is one-sided.
    """
    from scipy.stats import binomtest

    rows = []
    for (system, dataset, asked), part in _groups(side_by_question(listed, questions), _EACH):
        for_it, against = (int((part["side"] == side).sum()) for side in (ONLY_SUPPORTING, ONLY_OPPOSING))
        found: tuple[float, ...] = (np.nan, np.nan, np.nan, 1.0)
        if for_it + against:
            n = for_it + against
            found = (for_it / n, *wilson_interval(for_it, n), float(binomtest(for_it, n).pvalue))
        rows.append((system, dataset, asked, len(part), for_it, against, *found))
    names = ["system", "dataset", "asked", "n", "only_supporting", "only_opposing", "share", "low", "high", "p_value"]
    return _corrected(pd.DataFrame(rows, columns=names), ["dataset", "asked"])


def _corrected(table: pd.DataFrame, family: list[str]) -> pd.DataFrame:
    """Return a table whose p-values are corrected within each family of tests."""
    for _, tests in table.groupby(family, sort=False):
        table.loc[tests.index, "p_value"] = holm(tests["p_value"].tolist())
    return table


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


def leaning(
    listed: pd.DataFrame,
    by: Sequence[str] = _EACH,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return how far the listed passages lean to the supporting side (BeRDS section 8, Figure 3).

    Args:
        listed: of :func:`listed_sides`, perhaps with further columns.
        by: the columns whose values are told apart, such as "rank"; where "dataset" is among them, "all" stands for all
            data sets together.
        level: coverage of the interval.
        resamples: bootstrap samples of the issues; those without any passage that argues a side are left out.
        seed: of the draws.

    Returns:
        Frame with the columns of `by`, issues (drawn for the interval), passages, supporting, opposing (counts),
        leaning, low, high, as_printed.

    Raises:
        InputError: a column that is not there.
    """
    if unknown := [name for name in by if name not in listed]:
        raise InputError(f"there is no column {unknown[0]!r}; there are {', '.join(listed.columns)}", field="by")
    rows = []
    for key, part in _groups(listed, by):
        sums = _drawn(part, [part], resamples, seed)[0]
        p, n = int(part[SUPPORTING].sum()), int(part[OPPOSING].sum())
        low, high = _ends(lean(sums[:, 0], sums[:, 1]), level)
        values = (float(lean(p, n)), low, high, float(lean_as_printed(p, n)))
        rows.append((*key, part["issue"].nunique(), len(part), p, n, *values))
    names = [*by, "issues", "passages", SUPPORTING, OPPOSING, "leaning", "low", "high", "as_printed"]
    return pd.DataFrame(rows, columns=names)


def _groups(table: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Yield (values of the columns, their rows), and at the end those of all data sets together."""
    yield from table.groupby(list(by), sort=False)
    if "dataset" in by and table["dataset"].nunique() > 1:
        place = list(by).index("dataset")
        for _, part in table.groupby([name for name in by if name != "dataset"] or np.zeros(len(table)), sort=False):
            key = list(part[list(by)].iloc[0])
            yield (*key[:place], ALL, *key[place + 1 :]), part


def sycophancy(listed: pd.DataFrame, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """Say how far lists follow the side that the query takes (BeRDS section 8, Figure 3).

    Args:
        listed: of :func:`listed_sides`, with the lists of the questions and of both their perspectives.
        level: coverage of the intervals.
        resamples: bootstrap samples of the issues, and random exchanges in the test.
        seed: of both.

    Returns:
        Frame system, dataset, issues; supporting, question, opposing (leaning by what was searched with); follows =
        supporting - opposing with low, high and p_value; towards = supporting - question and away = question -
        opposing, each with its interval. All differences are paired: the same issues are drawn for both. The test
        exchanges the two lists of an issue at random; Holm over the systems of a data set.

    Raises:
        InputError: a system without lists of perspectives.
    """
    rows = []
    for (system, dataset), part in _groups(listed, ["system", "dataset"]):
        if missing := set(ASKED) - set(part["asked"]):
            problem = f"{system!r} was not searched with the {min(missing)} perspective; see berdslib.sides"
            raise InputError(problem, field="asked")
        rows.append((system, dataset, part["issue"].nunique(), *_compared(part, level, resamples, seed)))
    ends = [f"{name}{end}" for name in ("follows", "towards", "away") for end in ("", "_low", "_high")]
    names = ["system", "dataset", "issues", SUPPORTING, QUESTION, OPPOSING, *ends, "p_value"]
    table = pd.DataFrame(rows, columns=names)
    return _corrected(table, ["dataset"])


def _compared(part: pd.DataFrame, level: float, resamples: int, seed: int) -> list[float]:
    """Return the three leanings, the three differences with their intervals, and the p-value of the first."""
    lists = {asked: part[part["asked"] == asked] for asked in ASKED}
    drawn = _drawn(part, list(lists.values()), resamples, seed)
    of_draws = {asked: lean(sums[:, 0], sums[:, 1]) for asked, sums in zip(ASKED, drawn, strict=True)}
    found = {asked: float(lean(one[SUPPORTING].sum(), one[OPPOSING].sum())) for asked, one in lists.items()}
    values = [found[SUPPORTING], found[QUESTION], found[OPPOSING]]
    for first, second in ((SUPPORTING, OPPOSING), (SUPPORTING, QUESTION), (QUESTION, OPPOSING)):
        ends = _ends(of_draws[first] - of_draws[second], level)
        values += [found[first] - found[second], *ends]
    return [*values, _exchanged(part, lists[SUPPORTING], lists[OPPOSING], resamples, seed)]


def _by_issue(of: pd.DataFrame, part: pd.DataFrame) -> np.ndarray:
    """Return how many passages of each issue support and oppose, (issues, 2), a row for every issue of `of`."""
    issues = sorted(set(zip(of["dataset"], of["issue"], strict=True)))
    rows = part[[SUPPORTING, OPPOSING]].to_numpy(dtype=np.float64)
    place = {issue: i for i, issue in enumerate(issues)}
    owner = [place[key] for key in zip(part["dataset"], part["issue"], strict=True)]
    counts = np.zeros((len(issues), 2))
    np.add.at(counts, owner, rows)
    return counts


def _drawn(of: pd.DataFrame, parts: Sequence[pd.DataFrame], resamples: int, seed: int) -> list[np.ndarray]:
    """Return for each part the sums of bootstrap samples, (resamples, 2): the same issues are drawn for all of them."""
    table = np.hstack([_by_issue(of, part) for part in parts])
    strata = np.array([dataset for dataset, _ in sorted(set(zip(of["dataset"], of["issue"], strict=True)))])
    rng = np.random.default_rng(seed)
    total = sum(resampled_sums(table[strata == one], resamples, rng) for one in sorted(set(strata)))
    return np.split(np.asarray(total), len(parts), axis=1)


def _ends(samples: np.ndarray, level: float) -> tuple[float, float]:
    known = samples[np.isfinite(samples)]
    if not len(known):
        return np.nan, np.nan
    low, high = percentiles(known, level)
    return float(low), float(high)


def _exchanged(of: pd.DataFrame, one: pd.DataFrame, other: pd.DataFrame, resamples: int, seed: int) -> float:
    """Return the p-value of the difference in leaning if the two lists of each issue are exchanged at random.

    Source: the randomisation test of Smucker, Allan and Carterette (2007), here with a ratio as its statistic.
    """
    a, b = _by_issue(of, one), _by_issue(of, other)
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
    """Count how questions answer when the query changes sides: which side has more passages in either list.

    Args:
        listed: of :func:`listed_sides`, with the lists of both perspectives.
        questions: the asked questions.

    Returns:
        Frame system, dataset, n, and the share of questions whose lists follow (the list leans more to the query's side
        for the supporting query than for the opposing one), turn (it even changes from leaning one way to leaning the
        other, with the query), stay (both lists have the same balance) and oppose (the list leans more against the
        query).
    """
    table = side_by_question(listed, questions)
    table["balance"] = table[SUPPORTING] - table[OPPOSING]
    wide = table.pivot(index=["system", "dataset", "qid"], columns="asked", values="balance").reset_index()
    if missing := {SUPPORTING, OPPOSING} - set(wide.columns):
        raise InputError(f"nothing was searched with the {min(missing)} perspective", field="asked")
    change = wide[SUPPORTING] - wide[OPPOSING]
    wide = wide.assign(
        follow=change > 0, turn=(wide[SUPPORTING] > 0) & (wide[OPPOSING] < 0), stay=change == 0, oppose=change < 0
    )
    rows = [
        (*key, len(part), *part[["follow", "turn", "stay", "oppose"]].mean())
        for key, part in _groups(wide, ["system", "dataset"])
    ]
    return pd.DataFrame(rows, columns=["system", "dataset", "n", "follow", "turn", "stay", "oppose"])
