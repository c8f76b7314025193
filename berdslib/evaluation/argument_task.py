"""Relevance, diversity and fairness of runs on a scenario of PerspectiveArg 2024.

Relevance measures (nDCG, P) ask which arguments answer a query. Group measures (alpha-nDCG, subtopic recall, coverage,
MRecall, ERR-IA) are those of :mod:`berdslib.evaluation.measures` with the groups of an author property as perspectives:
a passage supports a group if it answers the query and its author is of the group. rKL asks whether minorities are shown
as often as they are in the corpus, relevant or not. The last two kinds are computed for each property that a query does
not name, and averaged over the properties.

All queries are scored at once, one property after the other, as arrays of numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from berdslib.data.records import check_k, check_run, check_verdicts, issue_of, make_verdicts
from berdslib.data.scenario import BASELINE, IMPLICIT, Scenario
from berdslib.errors import InputError
from berdslib.evaluation import fairness, official_arguments
from berdslib.evaluation.author_groups import (
    Variable,
    naming,
    official_variables,
    properties,
    sorted_docnos,
    without_small,
)
from berdslib.evaluation.measures import (
    ERR_IA,
    Coverage,
    Measure,
    MRecall,
    P,
    Precision,
    StRecall,
    alpha_nDCG,
    check_same_questions,
    deepest,
    families,
    nDCG,
    official_alpha_nDCG,
    official_nDCG,
    official_P,
    official_rKL,
    parse_measures,
    rKL,
    score_tables,
)
from berdslib.evaluation.tables import BLOCK, Pool, Tables
from berdslib.stats import ratio_interval, sum_by_cluster

KS = (4, 8, 16, 20)
ARGUMENT_MEASURES = tuple(m @ k for m in (nDCG, P, alpha_nDCG, rKL) for k in KS)
OFFICIAL_MEASURES = tuple(m @ k for m in (official_nDCG, official_P, official_alpha_nDCG, official_rKL) for k in KS)

# What each measure looks at: answers alone, answers and groups, or groups alone.
RELEVANCE_MEASURES = frozenset(m.NAME for m in (nDCG, P, Precision, official_nDCG, official_P))
_GROUPS = {m.NAME for m in (alpha_nDCG, StRecall, Coverage, MRecall, ERR_IA)}
_FAIRNESS = {m.NAME for m in (rKL, official_rKL)}
_OFFICIAL = {m.NAME for m in (official_nDCG, official_P, official_alpha_nDCG, official_rKL)}
_PER_PROPERTY = _GROUPS | _FAIRNESS | {official_alpha_nDCG.NAME}


def evaluate_arguments(
    run: pd.DataFrame, scenario: Scenario, measures: Measure | str | Iterable[Measure | str] = ARGUMENT_MEASURES
) -> pd.DataFrame:
    """Score a run on a scenario: one row per query, one column per measure.

    A property that a query names is not looked at for that query; nor, by group measures, is one that no author of an
    argument that answers it is known to have; nor, by rKL, one by which nobody of the corpus is in a minority. Where no
    property is left, a group measure is 0 and rKL is 1, as for a query without any passage. The published definitions
    (official_nDCG and so on) are of other properties, see
    :func:`berdslib.evaluation.author_groups.official_variables`; official_rKL, which has no worst, is 0 there.

    Args:
        run: frame qid, docno and score (or rank), see :func:`berdslib.data.records.check_run`; docnos are those of the
            scenario.
        scenario: queries, arguments and their authors.
        measures: one or several of nDCG, P, Precision, alpha_nDCG, StRecall, Coverage, MRecall, ERR_IA, rKL, and the
            published definitions.

    Returns:
        Frame indexed by qid, in the order of the queries; columns are ``str(measure)``.

    Raises:
        InputError: a frame that is no run, a run of other questions, a docno that the scenario does not have, a measure
            that is not computed here, or one that needs the answers where these are kept back.
    """
    wanted = measures_of_scenario(measures)
    case = _case(run, scenario, wanted)
    scores = np.zeros((len(scenario.questions), len(wanted)))
    of_answers = _places(wanted, RELEVANCE_MEASURES)
    scores[:, of_answers] = _score_answers(case, [wanted[i] for i in of_answers])
    for names in (_PER_PROPERTY - _OFFICIAL, _PER_PROPERTY & _OFFICIAL):
        if places := _places(wanted, names):
            scores[:, places] = _mean(case, [wanted[i] for i in places])
    index = pd.Index([q.qid for q in scenario.questions], name="qid")
    return pd.DataFrame(scores, index=index, columns=[str(m) for m in wanted])


def by_property(run: pd.DataFrame, scenario: Scenario, measure: Measure | str) -> pd.DataFrame:
    """Score a run by one group measure or rKL for each property by itself.

    Args:
        run: as for :func:`evaluate_arguments`.
        scenario: queries, arguments and their authors.
        measure: one that is computed for each property.

    Returns:
        Frame qid x property; NaN where the query names the property, or where it is left out. Its ``attrs`` say of
        which release, and whether that is synthetic.

    Raises:
        InputError: several measures, one that only looks at relevance, or as for :func:`evaluate_arguments`.
    """
    wanted = measures_of_scenario(measure)
    if len(wanted) != 1 or wanted[0].NAME not in _PER_PROPERTY:
        named = ", ".join(map(str, wanted))
        problem = f"one measure that looks at groups is needed, such as rKL @ 20 or alpha_nDCG @ 20, not {named}"
        raise InputError(problem, field="measure")
    case = _case(run, scenario, wanted)
    index = pd.Index([q.qid for q in scenario.questions], name="qid")
    scores = {variable.name: _score_variable(case, variable, wanted)[:, 0] for variable in _variables(case, wanted)}
    table = pd.DataFrame(scores, index=index)
    table.attrs = {"release": scenario.release.name, "synthetic": scenario.release.synthetic}
    return table


def measures_of_scenario(measures: Measure | str | Iterable[Measure | str]) -> list[Measure]:
    """Return measures as a list, see :func:`berdslib.evaluation.measures.parse_measures`.

    Raises:
        InputError: one that is not computed over a scenario.
    """
    wanted = parse_measures(measures)
    computed = RELEVANCE_MEASURES | _PER_PROPERTY
    if other := next((m for m in wanted if m.NAME not in computed), None):
        problem = f"{other} is not computed over a scenario; these are: {', '.join(sorted(computed))}"
        raise InputError(problem, field="measures")
    return wanted


def _places(measures: Sequence[Measure], names: Collection[str]) -> list[int]:
    return [i for i, m in enumerate(measures) if m.NAME in names]


# ---------------------------------------------------------------- run and scenario as numbers


@dataclass(frozen=True)
class _Case:
    """A run and the answers as numbers; arguments are counted in ascending order of docno.

    ``top`` int (q, n): the arguments listed for each query, best first; at empty places the number of arguments.
    ``length`` int (q,): how long each list is. ``of_query``, ``answers`` int (a,): the queries and the arguments that
    answer them, sorted by query, the largest docno first.
    """

    scenario: Scenario
    top: np.ndarray
    length: np.ndarray
    of_query: np.ndarray
    answers: np.ndarray

    @property
    def total(self) -> int:
        """How many arguments the corpus has."""
        return len(self.scenario.passages)

    @cached_property
    def n_answers(self) -> np.ndarray:
        """How many arguments answer each query, (q,)."""
        return np.bincount(self.of_query, minlength=len(self.top))

    @cached_property
    def relevant(self) -> np.ndarray:
        """Which listed arguments answer the query, bool (q, n)."""
        return self._among_answers(np.arange(self.total + 1))

    @cached_property
    def credited(self) -> np.ndarray:
        """The same as the published script has it: in the implicit scenario a copy of an answer, too (A3)."""
        if self.scenario.rule != IMPLICIT:
            return self.relevant
        text_of = {p.docno: p.text for p in self.scenario.passages}
        texts = pd.factorize(np.array([text_of[d] for d in sorted_docnos(self.scenario)], dtype=object))[0]
        return self._among_answers(np.append(texts, self.total))

    @cached_property
    def last_answers(self) -> np.ndarray:
        """The answer to each query that the release has last, (q,); the number of arguments where there is none."""
        scenario, number = self.scenario, {docno: i for i, docno in enumerate(sorted_docnos(self.scenario))}
        queries = scenario.release.baseline if scenario.rule == BASELINE else scenario.release.perspective
        last = {q.qid: number[scenario.docnos[q.relevant[-1]]] for q in queries if q.relevant}
        return np.array([last.get(q.qid, self.total) for q in scenario.questions])

    def _among_answers(self, number: np.ndarray) -> np.ndarray:
        """Say which listed arguments have the number of one that answers the query; the last is of empty places."""
        n = self.total + 1
        listed = np.arange(len(self.top))[:, None] * n + number[self.top]
        answers = np.append(np.sort(self.of_query * n + number[self.answers]), -1)
        return np.asarray(answers[np.searchsorted(answers[:-1], listed)] == listed)

    def answers_of(self, queries: np.ndarray) -> np.ndarray:
        """Return the answers to some queries, int (queries, d), the largest docno first; where none is left, total."""
        starts, n = np.cumsum(self.n_answers) - self.n_answers, self.n_answers[queries]
        place = np.arange(n.max(initial=0))
        padded = np.append(self.answers, self.total)
        return np.asarray(padded[np.where(place < n[:, None], starts[queries][:, None] + place, -1)])


def _case(run: pd.DataFrame, scenario: Scenario, measures: Sequence[Measure]) -> _Case:
    if scenario.gold is None and (needy := next((m for m in measures if m.NAME not in _FAIRNESS), None)):
        problem = (
            f"{needy} needs the answers to the queries, and those of {scenario.name!r} ({scenario.split}) are kept"
        )
        raise InputError(f"{problem} back; rKL alone can do without", field="measures")
    qids, docnos = pd.Index([q.qid for q in scenario.questions]), pd.Index(sorted_docnos(scenario))
    top, length = _listed(_clean(run, scenario, measures), scenario, qids, docnos, deepest(measures))
    if scenario not in _ANSWERS:
        _ANSWERS[scenario] = _answers(scenario, qids, docnos)
    return _Case(scenario, top, length, *_ANSWERS[scenario])


# Many systems are scored on one scenario, whose answers nobody changes.
_ANSWERS: WeakKeyDictionary[Scenario, tuple[np.ndarray, np.ndarray]] = WeakKeyDictionary()


def _answers(scenario: Scenario, qids: pd.Index, docnos: pd.Index) -> tuple[np.ndarray, np.ndarray]:
    """Return queries and the arguments that answer them, int (a,) each, by query and then the largest docno first."""
    gold = make_verdicts([], "gold") if scenario.gold is None else check_verdicts(scenario.gold)
    gold = gold[gold["supports"] & gold["qid"].isin(qids)]
    of_query, answers = qids.get_indexer(pd.Index(gold["qid"])), docnos.get_indexer(pd.Index(gold["docno"]))
    if (answers < 0).any():
        stranger = gold["docno"].iloc[int(np.flatnonzero(answers < 0)[0])]
        raise InputError(f"{stranger!r}, an answer, is not a docno of {scenario.name!r}", field="gold")
    order = np.lexsort((-answers, of_query))
    return of_query[order], answers[order]


def _clean(run: pd.DataFrame, scenario: Scenario, measures: Sequence[Measure] = ()) -> pd.DataFrame:
    clean = check_run(run)
    check_same_questions(clean, make_verdicts([], "none"), scenario.questions, measures)
    return clean


def _listed(
    run: pd.DataFrame, scenario: Scenario, qids: pd.Index, docnos: pd.Index, depth: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return what is listed for each query, int (q, n) indices of docnos, and how long each list is, (q,)."""
    query = qids.get_indexer(pd.Index(run["qid"]))
    asked = query >= 0  # a run may list what was not asked
    query, rank = query[asked], run["rank"].to_numpy()[asked]
    argument = docnos.get_indexer(pd.Index(run["docno"][asked]))
    if (argument < 0).any():
        stranger = run["docno"][asked].iloc[int(np.flatnonzero(argument < 0)[0])]
        hint = "; it is an id of the release, which this scenario hides" if stranger in scenario.docnos else ""
        raise InputError(f"{stranger!r} is not a docno of {scenario.name!r}{hint}", field="docno")
    length = np.bincount(query, minlength=len(qids))
    n = int(length.max(initial=0)) if depth is None else min(depth, int(length.max(initial=0)))
    top = np.full((len(qids), n), len(docnos))
    shown = rank <= n
    top[query[shown], rank[shown] - 1] = argument[shown]
    return top, length


# ---------------------------------------------------------------- scores


def _score_answers(case: _Case, measures: Sequence[Measure]) -> np.ndarray:
    """Return the scores of measures that look at relevance alone, (q, measures)."""
    scores = np.zeros((len(case.top), len(measures)))
    tables = Tables(case.relevant[..., None], case.length, Pool(case.n_answers[:, None], None))
    for family in families(measures):
        same = [measures[i] for i in family]
        if same[0].NAME == official_nDCG.NAME:
            scores[:, family] = official_arguments.ndcg(case.credited, case.n_answers, _ks(same))
        elif same[0].NAME == official_P.NAME:
            scores[:, family] = official_arguments.precision(case.credited, case.length, _ks(same))
        else:
            scores[:, family] = score_tables(same, tables)
    return scores


def _variables(case: _Case, measures: Sequence[Measure]) -> tuple[Variable, ...]:
    """Return what measures are averaged over: published ones, which come by themselves, have variables of their own."""
    return (official_variables if measures[0].NAME in _OFFICIAL else properties)(case.scenario)


def _mean(case: _Case, measures: Sequence[Measure]) -> np.ndarray:
    """Return the means over the properties that are not left out, (q, measures)."""
    total, n = np.zeros((2, len(case.top), len(measures)))
    for variable in _variables(case, measures):
        scores = _score_variable(case, variable, measures)
        total += np.nan_to_num(scores)
        n += ~np.isnan(scores)
    worst = np.array([float(m.NAME == rKL.NAME) for m in measures])
    return np.where(n > 0, total / np.maximum(n, 1), worst)


def _score_variable(case: _Case, variable: Variable, measures: Sequence[Measure]) -> np.ndarray:
    """Return the scores by the groups of one property, (q, measures); NaN where it is left out."""
    # The published script looks at every query, whatever it names.
    official = measures[0].NAME in _OFFICIAL
    queries = np.arange(len(case.top)) if official else np.flatnonzero(~naming(case.scenario, variable.name))
    scores = np.full((len(case.top), len(measures)), np.nan)
    for names, score in ((_FAIRNESS, _fairness), (_PER_PROPERTY - _FAIRNESS, _diversity)):
        if places := _places(measures, names):
            scores[:, places] = score(case, variable, queries, [measures[i] for i in places])
    return scores


def _diversity(case: _Case, variable: Variable, queries: np.ndarray, measures: Sequence[Measure]) -> np.ndarray:
    """Return the scores of group measures for some queries, (q, measures); NaN if no answer's author is of a group."""
    scores = np.full((len(case.top), len(measures)), np.nan)
    counts = _count_answers(case, variable)
    overlap = bool((variable.members.sum(axis=1) > 1).any())
    cells = (case.top.shape[1] + overlap * int(case.n_answers.max(initial=0))) * len(variable.groups)
    known = queries[counts[queries].any(axis=1)]
    # In the order of how many answers they have, so that the tables of a block need little filling up.
    for rows in _blocks(known[np.argsort(case.n_answers[known], kind="stable")], cells):
        of_group = variable.members[case.top[rows]]
        pool = Pool(counts[rows], variable.members[case.answers_of(rows)] if overlap else None)
        tables = Tables(of_group & case.relevant[rows][..., None], case.length[rows], pool)
        for family in families(measures):
            same = [measures[i] for i in family]
            if same[0].NAME == official_alpha_nDCG.NAME:
                given = of_group, case.credited[rows], _put_first(case, variable, counts)[rows], case.n_answers[rows]
                found = official_arguments.alpha_ndcg(*given, same[0]["alpha"], _ks(same))
            else:
                found = score_tables(same, tables)
            scores[rows[:, None], family] = found
    return scores


def _put_first(case: _Case, variable: Variable, counts: np.ndarray) -> np.ndarray:
    """Return of how many groups the script's ideal list puts one first, int (q,): not one that is only the last's."""
    overlooked = variable.members[case.last_answers] & (case.n_answers >= official_arguments.FILLED)[:, None]
    return np.asarray((counts > overlooked).sum(axis=1))


def _fairness(case: _Case, variable: Variable, queries: np.ndarray, measures: Sequence[Measure]) -> np.ndarray:
    """Return rKL for some queries, (q, measures); NaN where nobody is in a minority."""
    scores = np.full((len(case.top), len(measures)), np.nan)
    official, sizes = measures[0].NAME in _OFFICIAL, variable.sizes()
    # The published script leaves out one group, the first of the most frequent ones.
    minority = (np.arange(len(sizes)) != sizes.argmax()) if official else fairness.protected(sizes)
    minority &= sizes < case.total
    if not minority.any():
        return scores
    members, sizes = variable.members[:, minority], sizes[minority]
    cells = max(case.top.shape[1], min(case.total, max(_ks(measures)))) * len(sizes)
    for rows in _blocks(queries, cells):
        listed = members[case.top[rows]]
        if official:
            scores[rows] = official_arguments.rkl(listed, sizes, case.total, _ks(measures))
        else:
            cutoffs = [(m["cutoff"], m["step"]) for m in measures]
            scores[rows] = fairness.rkl(listed, case.length[rows], sizes, case.total, cutoffs)
    return scores


def _count_answers(case: _Case, variable: Variable) -> np.ndarray:
    """Return how many answers to each query are of each group, int (q, groups)."""
    q, m = len(case.top), len(variable.groups)
    at, group = np.nonzero(variable.members[case.answers])
    return np.bincount(case.of_query[at] * m + group, minlength=q * m).reshape(q, m)


def _blocks(rows: np.ndarray, cells: int) -> Iterator[np.ndarray]:
    """Yield queries in blocks whose tables, of so many cells each, fit into memory."""
    size = max(1, BLOCK // max(cells, 1))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _ks(measures: Sequence[Measure]) -> list[int]:
    return [int(m["cutoff"]) for m in measures]


# ---------------------------------------------------------------- who is shown


def group_shares(
    run: pd.DataFrame,
    scenario: Scenario,
    k: int,
    *,
    smallest: int = 30,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare how often each group of authors is among the first k with its share of the corpus.

    Of each property, the queries that name it are left out. Shares are of all arguments, and of all that are listed
    at the first k places, whether the author's group is known or not.

    Args:
        run: as for :func:`evaluate_arguments`.
        scenario: queries, arguments and their authors.
        k: how many arguments of each list are looked at.
        smallest: groups with fewer arguments in the corpus are put together as "(smaller groups)", with the next larger
            one where these are too few together. It is a number of arguments, not of people: an author writes several,
            about ten in the task's data.
        level: coverage of the interval.
        resamples: how many bootstrap samples of the issues: the queries of one issue find the same arguments.
        seed: of the random draws.

    Returns:
        Frame with one row a group, those of a property together, the largest first: property, group, corpus_share,
        shown_share, ratio = shown_share / corpus_share (1 = neither favoured nor hidden), low, high (the interval of
        the ratio; NaN where all queries are on one issue), queries (how many were looked at), synthetic (whether the
        data are). NaN where nothing is listed.

    Raises:
        InputError: k or smallest is not a whole number from 1, a level that is not between 0 and 1, no resamples, or as
            for :func:`evaluate_arguments`.
    """
    check_k(k)
    check_k(smallest, "smallest")
    qids, docnos = pd.Index([q.qid for q in scenario.questions]), pd.Index(sorted_docnos(scenario))
    top, length = _listed(_clean(run, scenario), scenario, qids, docnos, k)
    issues = np.array([issue_of(q) for q in scenario.questions], dtype=object)
    found = []
    for whole in properties(scenario):
        variable, rows = without_small(whole, smallest), np.flatnonzero(~naming(scenario, whole.name))
        if not (len(rows) and len(variable.groups)):
            continue
        blocks = _blocks(rows, top.shape[1] * len(variable.groups))
        counts = np.concatenate([variable.members[top[block]].sum(axis=1) for block in blocks])
        shown = np.column_stack([counts, np.minimum(length, k)[rows]])
        by_issue = sum_by_cluster(shown, issues[rows].tolist())
        low, high = ratio_interval(by_issue[:, :-1], by_issue[:, -1], level=level, resamples=resamples, seed=seed)
        if len(by_issue) < 2:  # drawn again and again, one issue would look certain
            low, high = np.full((2, len(variable.groups)), np.nan)
        *of_group, listed = shown.sum(axis=0)
        corpus_share = variable.sizes() / len(docnos)
        shown_share = np.array(of_group) / listed if listed else np.full(len(of_group), np.nan)
        table = {"property": whole.name, "group": variable.groups, "corpus_share": corpus_share}
        ratios = {"ratio": shown_share / corpus_share, "low": low / corpus_share, "high": high / corpus_share}
        found.append(pd.DataFrame({**table, "shown_share": shown_share, **ratios, "queries": len(rows)}))
    columns = ["property", "group", "corpus_share", "shown_share", "ratio", "low", "high", "queries"]
    shares = pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=columns)
    return shares.assign(synthetic=scenario.release.synthetic)
