"""Relevance, diversity and fairness of runs on a scenario of PerspectiveArg 2024.

Group measures take the groups of an author property for perspectives: a passage supports its author's group if it
answers the query. These and rKL are averaged over the properties that a query does not name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import rel_entr

from berdslib.data.arguments import ISSUES, NOBODY, PROPERTIES
from berdslib.data.records import check_run, check_verdicts, make_verdicts
from berdslib.data.scenario import BASELINE, IMPLICIT, Scenario
from berdslib.errors import InputError
from berdslib.evaluation import official_arguments
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
    tell_gaps,
)
from berdslib.evaluation.tables import BLOCK, Tables, counts_at

KS = (4, 8, 16, 20)
ARGUMENT_MEASURES = tuple(m @ k for m in (nDCG, P, alpha_nDCG, rKL) for k in KS)
OFFICIAL_MEASURES = tuple(m @ k for m in (official_nDCG, official_P, official_alpha_nDCG, official_rKL) for k in KS)

# What is read of a scenario, which nobody changes, is read once for the many systems that are scored on it.
_once = lru_cache(maxsize=4)


def _names(*measures: Measure) -> frozenset[str]:
    return frozenset(str(m.NAME) for m in measures)


# What each measure looks at: answers alone, answers and groups, or groups alone.
RELEVANCE_MEASURES = _names(nDCG, P, Precision, official_nDCG, official_P)
_FAIRNESS = _names(rKL, official_rKL)
_PER_PROPERTY = _FAIRNESS | _names(alpha_nDCG, StRecall, Coverage, MRecall, ERR_IA, official_alpha_nDCG)
_OFFICIAL = _names(official_nDCG, official_P, official_alpha_nDCG, official_rKL)


def evaluate_arguments(
    run: pd.DataFrame, scenario: Scenario, measures: Measure | str | Iterable[Measure | str] = ARGUMENT_MEASURES
) -> pd.DataFrame:
    """Score a run on a scenario: one row per query (index qid, in order), one column per measure (``str(measure)``).

    A property that a query names is not looked at for that query; nor, by group measures, is one that no author of an
    argument that answers it is known to have; nor, by rKL, one by which nobody of the corpus is in a minority. Where no
    property is left, a group measure is 0 and rKL is 1, as for a query without any passage. The published definitions
    (official_nDCG and so on) are of other properties, see :func:`official_variables`; official_rKL, which has no worst,
    is 0 there.

    Raises:
        InputError: a frame that is no run, a run of other questions, a docno that the scenario does not have, a measure
            that is not computed here, or one that needs the answers where these are kept back.
    """
    wanted = measures_of_scenario(measures)
    case = _case(run, scenario, wanted)
    scores = np.zeros((len(scenario.questions), len(wanted)))
    for names, variables in (
        (RELEVANCE_MEASURES, _everybody),
        (_PER_PROPERTY - _OFFICIAL, properties),
        (_PER_PROPERTY & _OFFICIAL, official_variables),
    ):
        if places := _places(wanted, names):
            some = [wanted[i] for i in places]
            each = np.stack([_score(case, variable, some) for variable in variables(scenario)])
            worst, n = [float(m.NAME == rKL.NAME) for m in some], (~np.isnan(each)).sum(axis=0)
            scores[:, places] = np.where(n > 0, np.nansum(each, axis=0) / np.maximum(n, 1), worst)
    index = pd.Index([q.qid for q in scenario.questions], name="qid")
    return pd.DataFrame(scores, index=index, columns=[str(m) for m in wanted])


def by_property(run: pd.DataFrame, scenario: Scenario, measure: Measure | str) -> pd.DataFrame:
    """Return a run's scores by one group measure or rKL, qid x property; NaN where the property is not looked at.

    The frame's ``attrs`` say of which release, and whether that is synthetic.
    """
    wanted = measures_of_scenario(measure)
    if len(wanted) != 1 or wanted[0].NAME not in _PER_PROPERTY:
        named = ", ".join(map(str, wanted))
        problem = f"one measure that looks at groups is needed, such as rKL @ 20 or alpha_nDCG @ 20, not {named}"
        raise InputError(problem, field="measure")
    case = _case(run, scenario, wanted)
    index = pd.Index([q.qid for q in scenario.questions], name="qid")
    variables = official_variables if wanted[0].NAME in _OFFICIAL else properties
    scores = {variable.name: _score(case, variable, wanted)[:, 0] for variable in variables(scenario)}
    table = pd.DataFrame(scores, index=index)
    table.attrs = {"release": scenario.release.name, "synthetic": scenario.release.synthetic}
    return table


def measures_of_scenario(measures: Measure | str | Iterable[Measure | str]) -> list[Measure]:
    """Return measures as a list, see :func:`berdslib.evaluation.measures.parse_measures`, if computed here."""
    wanted = parse_measures(measures)
    computed = RELEVANCE_MEASURES | _PER_PROPERTY
    if other := next((m for m in wanted if m.NAME not in computed), None):
        problem = f"{other} is not computed over a scenario; these are: {', '.join(sorted(computed))}"
        raise InputError(problem, field="measures")
    return wanted


def _places(measures: Sequence[Measure], names: Collection[str]) -> list[int]:
    return [i for i, m in enumerate(measures) if m.NAME in names]


# ---------------------------------------------------------------- run and scenario as numbers


class _Case(NamedTuple):
    """A run and the answers as numbers; arguments are counted in ascending order of docno.

    ``top`` int (q, n): the arguments listed, best first; ``length`` int (q,): of each list; ``answers`` int (q, d):
    those that answer each query, the largest docno first, ``n_answers`` int (q,) of them. ``relevant`` bool (q, n):
    which listed ones answer; ``credited`` the same as the published script has it, with copies in the implicit scenario
    (A3). Empty places hold the number of arguments.
    """

    scenario: Scenario
    top: np.ndarray
    length: np.ndarray
    answers: np.ndarray
    n_answers: np.ndarray
    relevant: np.ndarray
    credited: np.ndarray


def _case(run: pd.DataFrame, scenario: Scenario, measures: Sequence[Measure]) -> _Case:
    if scenario.gold is None and (needy := next((m for m in measures if m.NAME not in _FAIRNESS), None)):
        kept = f"those of {scenario.name!r} ({scenario.split}) are kept back; rKL alone can do without"
        raise InputError(f"{needy} needs the answers to the queries, and {kept}", field="measures")
    top, length = _listed(run, scenario, measures, deepest(measures))
    answers, n_answers = _answers(scenario)
    total = len(scenario.passages)
    relevant = credited = _among(top, answers, np.arange(total + 1))
    if scenario.rule == IMPLICIT and _OFFICIAL & _names(*measures):
        text_of = {p.docno: p.text for p in scenario.passages}
        texts = pd.factorize(np.array([text_of[d] for d in sorted_docnos(scenario)], dtype=object))[0]
        credited = _among(top, answers, np.append(texts, total))
    return _Case(scenario, top, length, answers, n_answers, relevant, credited)


def _among(top: np.ndarray, answers: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Say which listed arguments have the number of one that answers the query, bool (q, n)."""
    n, query = len(number), np.arange(len(top))[:, None]
    codes = (query * n + number[answers])[answers < n - 1]
    return np.isin(query * n + number[top], codes) & (top < n - 1)


def _listed(
    run: pd.DataFrame, scenario: Scenario, measures: Sequence[Measure], depth: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return what is listed for each query, int (q, n), and how long each list is, (q,)."""
    clean, nothing = check_run(run), make_verdicts([], "none")
    check_same_questions(clean, nothing, scenario.questions, measures)
    tell_gaps(clean, nothing, scenario.questions, measures)
    top, length = _by_query(clean, scenario, "docno")
    return top[:, :depth], length


def _by_query(frame: pd.DataFrame, scenario: Scenario, field: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the arguments of each query as numbers, int (q, n), in the order of the rows, and how many, (q,)."""
    docnos = pd.Index(sorted_docnos(scenario))
    query = pd.Index([q.qid for q in scenario.questions]).get_indexer(pd.Index(frame["qid"]))
    frame, query = frame[query >= 0], query[query >= 0]  # a run may list what was not asked
    argument = docnos.get_indexer(pd.Index(frame["docno"]))
    if (argument < 0).any():
        stranger = frame["docno"].iloc[int((argument < 0).argmax())]
        hint = "; it is an id of the release, which this scenario hides" if stranger in scenario.docnos else ""
        raise InputError(f"{stranger!r} is not a docno of {scenario.name!r}{hint}", field=field)
    place = pd.Series(query).groupby(query).cumcount().to_numpy()
    length = np.bincount(query, minlength=len(scenario.questions))
    table = np.full((len(length), length.max(initial=0)), len(docnos))
    table[query, place] = argument
    return table, length


@_once
def _answers(scenario: Scenario) -> tuple[np.ndarray, np.ndarray]:
    """Return the arguments that answer each query, int (q, d), the largest docno first, and how many, (q,)."""
    gold = make_verdicts([], "gold") if scenario.gold is None else check_verdicts(scenario.gold)
    return _by_query(gold[gold["supports"]].sort_values("docno", ascending=False), scenario, "gold")


# ---------------------------------------------------------------- scores


def _score(case: _Case, variable: Variable, measures: Sequence[Measure]) -> np.ndarray:
    """Return the scores by the groups of one property, (q, measures); NaN where it is left out."""
    # The published script looks at every query, whatever it names.
    asked = naming(case.scenario, variable.name) & (measures[0].NAME not in _OFFICIAL)
    scores = np.full((len(case.top), len(measures)), np.nan)
    if not variable.groups:  # nobody's is known
        return scores
    for score, names in ((_fairness, _FAIRNESS), (_diversity, _PER_PROPERTY - _FAIRNESS | RELEVANCE_MEASURES)):
        if places := _places(measures, names):
            scores[:, places] = score(case, variable, np.flatnonzero(~asked), [measures[i] for i in places])
    return scores


def _diversity(case: _Case, variable: Variable, queries: np.ndarray, measures: Sequence[Measure]) -> np.ndarray:
    """Return what measures of answers give some queries, (q, measures); NaN if no answer's author is of a group."""
    scores = np.full((len(case.top), len(measures)), np.nan)
    cells = (case.top.shape[1] + case.answers.shape[1]) * len(variable.groups)
    # In the order of how many answers they have, so that the tables of a block need little filling up.
    for rows in _blocks(queries[np.argsort(case.n_answers[queries], kind="stable")], cells):
        of_group = variable.members[case.top[rows]]
        pool = variable.members[case.answers[rows, : case.n_answers[rows].max()]]
        listed = of_group & case.relevant[rows][..., None]
        gains, pool_gains = listed.sum(axis=-1), pool.sum(axis=-1)
        tables = Tables(listed, case.length[rows], pool, gains=gains, pool_gains=pool_gains)
        for family in families(measures):
            same = [measures[i] for i in family]
            official = same[0].NAME in _OFFICIAL
            found = _published(case, variable, rows, pool, same) if official else score_tables(same, tables)
            scores[rows[:, None], family] = found
        scores[rows[~pool.any(axis=(1, 2))]] = np.nan
    return scores


def _published(
    case: _Case, variable: Variable, rows: np.ndarray, pool: np.ndarray, measures: Sequence[Measure]
) -> np.ndarray:
    """Return what published measures that differ in the cut-off alone give some queries, (rows, measures)."""
    ks, credited, n_answers = _ks(measures), case.credited[rows], case.n_answers[rows]
    if measures[0].NAME == official_nDCG.NAME:
        return official_arguments.ndcg(credited, n_answers, ks)
    if measures[0].NAME == official_P.NAME:
        return official_arguments.precision(credited, case.length[rows], ks)
    # The ideal list puts one of each group first, but for a group that only the last of many answers has.
    overlooked = variable.members[_last_answers(case.scenario)[rows]]
    overlooked &= (n_answers >= official_arguments.FILLED)[:, None]
    first = (pool.sum(axis=1) > overlooked).sum(axis=1)
    of_group = variable.members[case.top[rows]]
    return official_arguments.alpha_ndcg(of_group, credited, first, n_answers, measures[0]["alpha"], ks)


@_once
def _last_answers(scenario: Scenario) -> np.ndarray:
    """Return the answer to each query that the release has last, (q,); the number of arguments where there is none."""
    number = {docno: i for i, docno in enumerate(sorted_docnos(scenario))}
    queries = scenario.release.baseline if scenario.rule == BASELINE else scenario.release.perspective
    last = {q.qid: number[scenario.docnos[q.relevant[-1]]] for q in queries if q.relevant}
    return np.array([last.get(q.qid, len(number)) for q in scenario.questions])


def _fairness(case: _Case, variable: Variable, queries: np.ndarray, measures: Sequence[Measure]) -> np.ndarray:
    """Return rKL for some queries, (q, measures); NaN where nobody is in a minority."""
    scores = np.full((len(case.top), len(measures)), np.nan)
    official, sizes = measures[0].NAME in _OFFICIAL, variable.sizes()
    total = len(case.scenario.passages)
    # The published script leaves out one group, the first of the most frequent ones.
    minority = (np.arange(len(sizes)) != sizes.argmax()) if official else protected(sizes)
    minority &= sizes < total
    if not minority.any():
        return scores
    members, sizes = variable.members[:, minority], sizes[minority]
    cells = max(case.top.shape[1], min(total, max(_ks(measures)))) * len(sizes)
    for rows in _blocks(queries, cells):
        listed = members[case.top[rows]]
        if official:
            scores[rows] = official_arguments.rkl(listed, sizes, total, _ks(measures))
        else:
            cutoffs = [(m["cutoff"], m["step"]) for m in measures]
            scores[rows] = rkl(listed, case.length[rows], sizes, total, cutoffs)
    return scores


def _blocks(rows: np.ndarray, cells: int) -> Iterator[np.ndarray]:
    """Yield queries in blocks whose tables, of so many cells each, fit into memory."""
    size = max(1, BLOCK // max(cells, 1))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _ks(measures: Sequence[Measure]) -> list[int]:
    return [int(m["cutoff"]) for m in measures]


# ---------------------------------------------------------------- properties of authors as groups

_NOT_KNOWN = "(not known)"


class Variable(NamedTuple):
    """A property's groups; ``members`` is bool (arguments + 1, groups), its last row for empty places in a list."""

    name: str
    groups: tuple[str, ...]
    members: np.ndarray

    def sizes(self) -> np.ndarray:
        """Return how many arguments of the corpus are of each group, (groups,)."""
        return np.asarray(self.members.sum(axis=0))


def sorted_docnos(scenario: Scenario) -> list[str]:
    """Return the docnos of the corpus in the order in which arguments are counted here."""
    return sorted(p.docno for p in scenario.passages)


@_once
def properties(scenario: Scenario) -> tuple[Variable, ...]:
    """Return the eight properties, each with the groups that it has in the corpus; political issues overlap."""
    docnos = sorted_docnos(scenario)
    values = {name: list[tuple[int, str]]() for name in PROPERTIES}
    for row, docno in enumerate(docnos):
        for name, several in scenario.authors.get(docno, NOBODY).items():
            values[name] += [(row, value) for value in several]
    return tuple(_variable(name, sorted({v for _, v in own}), own, len(docnos)) for name, own in values.items())


@_once
def official_variables(scenario: Scenario) -> tuple[Variable, ...]:
    """Return what the published script averages over for every query, whatever it names (divergences.md A8).

    All properties but the denomination, the stance, and in place of the political issues each of them as important or
    neutral. What is not known is a group of its own.
    """
    of = scenario.release.arguments
    row = {docno: i for i, docno in enumerate(sorted_docnos(scenario))}
    rows = [row[scenario.docnos[one.docno]] for one in of]
    names = [name for name in PROPERTIES if name not in ("denomination", ISSUES)]
    values = {name: [", ".join(one.profile.get(name, ())) or _NOT_KNOWN for one in of] for name in names}
    values["stance"] = [one.stance or _NOT_KNOWN for one in of]
    for issue in sorted({value for one in of for value in one.profile.get(ISSUES, ())}):
        named = [issue in one.profile.get(ISSUES, ()) for one in of]
        values[f"{ISSUES}: {issue}"] = ["important" if is_named else "neutral" for is_named in named]
    return tuple(
        _variable(name, list(dict.fromkeys(found)), list(zip(rows, found, strict=True)), len(of))
        for name, found in values.items()
    )


def _everybody(scenario: Scenario) -> tuple[Variable]:
    """Return all authors as one group, for measures of answers alone."""
    members = np.append(np.ones(len(scenario.passages), dtype=bool), False)[:, None]
    return (Variable("", ("everybody",), members),)


def _variable(name: str, groups: Sequence[str], values: Sequence[tuple[int, str]], total: int) -> Variable:
    column = {group: i for i, group in enumerate(groups)}
    members = np.zeros((total + 1, len(groups)), dtype=bool)
    members[[row for row, _ in values], [column[value] for _, value in values]] = True
    return Variable(name, tuple(groups), members)


def naming(scenario: Scenario, name: str) -> np.ndarray:
    """Return which queries name a property, bool (q,)."""
    return np.array([name in scenario.asked.get(q.qid, NOBODY) for q in scenario.questions])


# ---------------------------------------------------------------- rKL: are minorities shown as often as they are there?


def protected(sizes: np.ndarray) -> np.ndarray:
    """Return which groups are minorities, (m,) bool: all but the largest; where all are equally large, all.

    >>> protected(np.array([5, 2, 5, 1])).tolist(), protected(np.array([3, 3])).tolist()
    ([False, True, False, True], [True, True])
    """
    smaller = sizes < sizes.max(initial=0)
    return smaller if smaller.any() else np.ones(len(sizes), dtype=bool)


def cut_points(k: int, step: int) -> np.ndarray:
    """Return where a ranking is looked at: step, 2 step, … up to k; k itself where it is smaller than the step.

    >>> cut_points(9, 2).tolist(), cut_points(3, 5).tolist()
    ([2, 4, 6, 8], [3])
    """
    return np.arange(step, k + 1, step) if k >= step else np.array([k])


def rkl(
    of_group: np.ndarray, length: np.ndarray, sizes: np.ndarray, total: int, cutoffs: Sequence[tuple[int, int]]
) -> np.ndarray:
    """Return rKL, the mean over groups, each against everybody else; from 0, as in the corpus, to 1, the worst.

    At each cut point i the divergence of the group's share among the first i from its share of the corpus, D(P_i || Q)
    = P_i log2(P_i / Q) + (1 - P_i) log2((1 - P_i) / (1 - Q)), counts 1 / log2(i); the sum is divided by its maximum
    over all rankings, which is reached with the whole group first or everybody else first. A cut point that a list does
    not reach counts as the most that is possible there: an empty list scores 1, and a short one gains nothing. One
    beyond the end of the corpus does not count.

    Args:
        of_group: (…, n, g) bool, which listed passages are of a group; n at least as large as the deepest cut-off, or
            as the longest list.
        length: (…,) int, how long each list is.
        sizes: (g,) int, how many passages of the corpus are of each group, at least 1.
        total: how many passages the corpus has.
        cutoffs: (k, step) of each score that is wanted, both at least 2.

    Returns:
        (…, cutoffs) float64; NaN where no list could be better or worse than another.

    Source: Yang and Stoyanovich, 2017, "Measuring fairness in ranked outputs", rKL.
    """
    places = [_cuts_within(k, step, total) for k, step in cutoffs]
    cuts = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *places]))
    scores = np.full((*length.shape, len(cutoffs)), np.nan)
    if not len(cuts):
        return scores
    group_first, others_first = np.minimum(cuts[:, None], sizes), np.maximum(cuts[:, None] - (total - sizes), 0)
    extremes = _divergence(np.stack([group_first, others_first]), cuts, sizes, total)
    terms = _divergence(counts_at(of_group, cuts), cuts, sizes, total)
    terms = np.where((length[..., None] >= cuts)[..., None], terms, extremes.max(axis=0))
    for i, these in enumerate(places):
        at = np.searchsorted(cuts, these)
        worst = extremes[:, at].sum(axis=1).max(axis=0)
        if (worst > 0).any():
            share = terms[..., at, :].sum(axis=-2)[..., worst > 0] / worst[worst > 0]
            scores[..., i] = np.minimum(share, 1.0).mean(axis=-1)
    return scores


def _cuts_within(k: int, step: int, total: int) -> np.ndarray:
    """Return the cut points that the corpus reaches; none where it has a single passage."""
    return cut_points(min(k, total), step) if total >= 2 else np.empty(0, dtype=np.int64)


def _divergence(counts: np.ndarray, cuts: np.ndarray, sizes: np.ndarray, total: int) -> np.ndarray:
    """Return D(n / i || Q) / log2(i) for counts n (…, c, g) at the cut points i."""
    share, of_corpus = np.minimum(counts / cuts[:, None], 1.0), sizes / total
    bits = (rel_entr(share, of_corpus) + rel_entr(1 - share, 1 - of_corpus)) / np.log(2)
    return np.asarray(bits / np.log2(cuts)[:, None])
