"""Relevance, diversity and fairness of runs on a scenario of PerspectiveArg 2024.

Group measures treat the groups of an author property as perspectives: a passage supports its author's group if it
answers the query. Group measures and rKL are averaged over the properties that the query does not name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
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
    deepest_cutoff,
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
from berdslib.evaluation.tables import CELLS_AT_ONCE, Tables, counts_at

KS = (4, 8, 16, 20)
ARGUMENT_MEASURES = tuple(m @ k for m in (nDCG, P, alpha_nDCG, rKL) for k in KS)
OFFICIAL_MEASURES = tuple(m @ k for m in (official_nDCG, official_P, official_alpha_nDCG, official_rKL) for k in KS)

# Scenarios do not change, so all systems that are scored on a scenario share its arrays.
_once = lru_cache(maxsize=4)


def _names(*measures: Measure) -> frozenset[str]:
    return frozenset(str(m.NAME) for m in measures)


# Measures of answers, of answers and groups, and of groups.
RELEVANCE_MEASURES = _names(nDCG, P, Precision, official_nDCG, official_P)
_FAIRNESS = _names(rKL, official_rKL)
_PER_PROPERTY = _FAIRNESS | _names(alpha_nDCG, StRecall, Coverage, MRecall, ERR_IA, official_alpha_nDCG)
_OFFICIAL = _names(official_nDCG, official_P, official_alpha_nDCG, official_rKL)


def evaluate_arguments(
    run: pd.DataFrame,
    scenario: Scenario,
    measures: Measure | str | Iterable[Measure | str] = ARGUMENT_MEASURES,
) -> pd.DataFrame:
    """Score a run on a scenario: one row per query (index qid, in order), one column per measure (``str(measure)``).

    For each query, the mean over properties leaves out the properties that the query names. Group measures also leave
    out properties for which no author of an answer has a known value, and rKL leaves out properties without a minority
    in the corpus. If no property remains, a group measure is 0 and rKL is 1, the scores of a query without any passage.
    The published definitions (official_nDCG and so on) average over :func:`official_variables`; official_rKL has no
    worst value and is 0 if no property remains.

    Raises:
        InputError: an invalid run, a run of other questions, a docno that is not in the scenario, a measure that is not
            computed over scenarios, or a measure that needs the answers of a scenario that withholds them.
    """
    parsed = measures_of_scenario(measures)
    case = _case(run, scenario, parsed)
    scores = np.zeros((len(scenario.questions), len(parsed)))
    for names, variables in (
        (RELEVANCE_MEASURES, _everybody),
        (_PER_PROPERTY - _OFFICIAL, properties),
        (_PER_PROPERTY & _OFFICIAL, official_variables),
    ):
        places = _places(parsed, names)
        if places:
            scores[:, places] = _mean_over(case, variables(scenario), [parsed[i] for i in places])
    index = pd.Index([q.qid for q in scenario.questions], name="qid")
    return pd.DataFrame(scores, index=index, columns=[str(m) for m in parsed])


def _mean_over(case: _Case, variables: Iterable[Variable], measures: Sequence[Measure]) -> np.ndarray:
    """Return the means over the properties that count for each query, (q, measures); the worst score if none counts."""
    by_variable = np.stack([_score(case, variable, measures) for variable in variables])
    n = (~np.isnan(by_variable)).sum(axis=0)
    means = np.nansum(by_variable, axis=0) / np.maximum(n, 1)
    worst = [float(measure.NAME == rKL.NAME) for measure in measures]
    return np.where(n > 0, means, worst)


def by_property(run: pd.DataFrame, scenario: Scenario, measure: Measure | str) -> pd.DataFrame:
    """Return a run's scores by a group measure or rKL, qid x property; NaN where a property does not count.

    The frame's ``attrs`` hold the name of the release, and whether it is synthetic.
    """
    parsed = measures_of_scenario(measure)
    if len(parsed) != 1 or parsed[0].NAME not in _PER_PROPERTY:
        names = ", ".join(map(str, parsed))
        problem = f"expected one group measure, such as rKL @ 20 or alpha_nDCG @ 20, not {names}"
        raise InputError(problem, field="measure")
    case = _case(run, scenario, parsed)
    index = pd.Index([q.qid for q in scenario.questions], name="qid")
    variables = official_variables if parsed[0].NAME in _OFFICIAL else properties
    scores = {variable.name: _score(case, variable, parsed)[:, 0] for variable in variables(scenario)}
    table = pd.DataFrame(scores, index=index)
    table.attrs = {"release": scenario.release.name, "synthetic": scenario.release.synthetic}
    return table


def measures_of_scenario(measures: Measure | str | Iterable[Measure | str]) -> list[Measure]:
    """Return measures as a list, see :func:`berdslib.evaluation.measures.parse_measures`.

    Raises:
        InputError: an unknown measure, or a measure that is not computed over scenarios.
    """
    parsed = parse_measures(measures)
    computed = RELEVANCE_MEASURES | _PER_PROPERTY
    for measure in parsed:
        if measure.NAME not in computed:
            problem = f"{measure} is not computed over a scenario; take one of {', '.join(sorted(computed))}"
            raise InputError(problem, field="measures")
    return parsed


def _places(measures: Sequence[Measure], names: Collection[str]) -> list[int]:
    return [i for i, m in enumerate(measures) if m.NAME in names]


# ---------------------------------------------------------------- run and scenario as numbers


class _Case(NamedTuple):
    """A run and the answers as numbers of arguments; arguments are numbered in ascending order of docno.

    ``top`` int (q, n): the listed arguments, best first; ``length`` int (q,): the length of each list; ``answers`` int
    (q, d): the arguments that answer each query, the largest docno first; ``n_answers`` int (q,): their number.
    ``relevant`` bool (q, n): whether each listed argument answers the query; ``credited`` bool (q, n): whether the
    published script counts it, which includes copies of answers in the implicit scenario (A3). Empty places hold the
    total number of arguments.
    """

    scenario: Scenario
    top: np.ndarray
    length: np.ndarray
    answers: np.ndarray
    n_answers: np.ndarray
    relevant: np.ndarray
    credited: np.ndarray


def _case(run: pd.DataFrame, scenario: Scenario, measures: Sequence[Measure]) -> _Case:
    if scenario.gold is None:
        for measure in measures:
            if measure.NAME not in _FAIRNESS:
                owner = f"{scenario.name!r} ({scenario.split})"
                problem = f"{measure} needs the answers, which {owner} withholds; only rKL works without them"
                raise InputError(problem, field="measures")
    top, length = _listed(run, scenario, measures)
    answers, n_answers = _answers(scenario)
    total = len(scenario.passages)
    relevant = _among(top, answers, np.arange(total + 1))
    credited = relevant
    if scenario.rule == IMPLICIT and _OFFICIAL & _names(*measures):
        text_of = {passage.docno: passage.text for passage in scenario.passages}
        texts = np.array([text_of[docno] for docno in sorted_docnos(scenario)], dtype=object)
        numbers = pd.factorize(texts)[0]
        credited = _among(top, answers, np.append(numbers, total))
    return _Case(scenario, top, length, answers, n_answers, relevant, credited)


def _among(top: np.ndarray, answers: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Return whether each listed argument has the same number as an answer to its query, bool (q, n)."""
    n = len(number)
    first_code = n * np.arange(len(top))[:, None]
    codes = (first_code + number[answers])[answers < n - 1]
    return np.isin(first_code + number[top], codes) & (top < n - 1)


def _listed(
    run: pd.DataFrame,
    scenario: Scenario,
    measures: Sequence[Measure],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the arguments listed for each query, int (q, n), and the length of each list, (q,)."""
    clean = check_run(run)
    no_verdicts = make_verdicts([], "none")
    check_same_questions(clean, no_verdicts, scenario.questions, measures)
    tell_gaps(clean, no_verdicts, scenario.questions, measures)
    top, length = _by_query(clean, scenario, "docno")
    return top[:, : deepest_cutoff(measures)], length


def _by_query(frame: pd.DataFrame, scenario: Scenario, field: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of each query's arguments, int (q, n), in the order of the rows, and their count, (q,)."""
    docnos = pd.Index(sorted_docnos(scenario))
    qids = pd.Index([q.qid for q in scenario.questions])
    query = qids.get_indexer(pd.Index(frame["qid"]))
    frame = frame[query >= 0]  # a run may hold lists of other questions
    query = query[query >= 0]
    argument = docnos.get_indexer(pd.Index(frame["docno"]))
    unknown = argument < 0
    if unknown.any():
        docno = frame["docno"].iloc[int(unknown.argmax())]
        hint = "; it is an id of the release, which this scenario hides" if docno in scenario.docnos else ""
        raise InputError(f"{docno!r} is not a docno of {scenario.name!r}{hint}", field=field)
    place = pd.Series(query).groupby(query).cumcount().to_numpy()
    length = np.bincount(query, minlength=len(scenario.questions))
    table = np.full((len(length), length.max(initial=0)), len(docnos))
    table[query, place] = argument
    return table, length


@_once
def _answers(scenario: Scenario) -> tuple[np.ndarray, np.ndarray]:
    """Return the arguments that answer each query, int (q, d), the largest docno first, and their count, (q,)."""
    gold = make_verdicts([], "gold") if scenario.gold is None else check_verdicts(scenario.gold)
    yes = gold[gold["supports"]].sort_values("docno", ascending=False)
    return _by_query(yes, scenario, "gold")


# ---------------------------------------------------------------- scores


def _score(case: _Case, variable: Variable, measures: Sequence[Measure]) -> np.ndarray:
    """Return the scores by the groups of one property, (q, measures); NaN where the property does not count."""
    scores = np.full((len(case.top), len(measures)), np.nan)
    if not variable.groups:  # the group of every author is unknown
        return scores
    # The published script scores every query, including those that name the property.
    counts = ~naming(case.scenario, variable.name) | (measures[0].NAME in _OFFICIAL)
    queries = np.flatnonzero(counts)
    for score, names in ((_fairness, _FAIRNESS), (_diversity, _PER_PROPERTY - _FAIRNESS | RELEVANCE_MEASURES)):
        places = _places(measures, names)
        if places:
            scores[:, places] = score(case, variable, queries, [measures[i] for i in places])
    return scores


def _diversity(
    case: _Case,
    variable: Variable,
    queries: np.ndarray,
    measures: Sequence[Measure],
) -> np.ndarray:
    """Score some queries by measures of answers, (q, measures); NaN if no answer has an author of a known group."""
    scores = np.full((len(case.top), len(measures)), np.nan)
    cells = (case.top.shape[1] + case.answers.shape[1]) * len(variable.groups)
    # Queries of a block need little padding if they are sorted by their number of answers.
    ordered = queries[np.argsort(case.n_answers[queries], kind="stable")]
    for rows in _blocks(ordered, cells):
        of_group = variable.members[case.top[rows]]
        longest = case.n_answers[rows].max()
        pool = variable.members[case.answers[rows, :longest]]
        listed = of_group & case.relevant[rows][..., None]
        gains = listed.sum(axis=-1)
        tables = Tables(listed, case.length[rows], pool, gains=gains, pool_gains=pool.sum(axis=-1))
        for family in families(measures):
            same = [measures[i] for i in family]
            if same[0].NAME in _OFFICIAL:
                scores[rows[:, None], family] = _published(case, variable, rows, pool, same)
            else:
                scores[rows[:, None], family] = score_tables(same, tables)
        without_group = rows[~pool.any(axis=(1, 2))]
        scores[without_group] = np.nan
    return scores


def _published(
    case: _Case,
    variable: Variable,
    rows: np.ndarray,
    pool: np.ndarray,
    measures: Sequence[Measure],
) -> np.ndarray:
    """Score some queries by a published measure at several cut-offs, (rows, measures)."""
    ks = _ks(measures)
    credited = case.credited[rows]
    n_answers = case.n_answers[rows]
    if measures[0].NAME == official_nDCG.NAME:
        return official_arguments.ndcg(credited, n_answers, ks)
    if measures[0].NAME == official_P.NAME:
        return official_arguments.precision(credited, case.length[rows], ks)
    # The ideal list starts with one answer of each group, except a group with only the last of many answers (A6).
    overlooked = variable.members[_last_answers(case.scenario)[rows]]
    overlooked &= (n_answers >= official_arguments.FILLED)[:, None]
    first = (pool.sum(axis=1) > overlooked).sum(axis=1)
    of_group = variable.members[case.top[rows]]
    return official_arguments.alpha_ndcg(of_group, credited, first, n_answers, measures[0]["alpha"], ks)


@_once
def _last_answers(scenario: Scenario) -> np.ndarray:
    """Return the last answer to each query in the release, (q,); the number of all arguments if it has no answer."""
    number = {docno: i for i, docno in enumerate(sorted_docnos(scenario))}
    queries = scenario.release.baseline if scenario.rule == BASELINE else scenario.release.perspective
    last = {}
    for query in queries:
        if query.relevant:
            docno = scenario.docnos[query.relevant[-1]]
            last[query.qid] = number[docno]
    return np.array([last.get(q.qid, len(number)) for q in scenario.questions])


def _fairness(
    case: _Case,
    variable: Variable,
    queries: np.ndarray,
    measures: Sequence[Measure],
) -> np.ndarray:
    """Return rKL for some queries, (q, measures); NaN for all queries if the corpus has no minority."""
    scores = np.full((len(case.top), len(measures)), np.nan)
    official = measures[0].NAME in _OFFICIAL
    sizes = variable.sizes()
    total = len(case.scenario.passages)
    # The published script leaves out one group, the first of the largest groups.
    minority = (np.arange(len(sizes)) != sizes.argmax()) if official else protected(sizes)
    minority &= sizes < total
    if not minority.any():
        return scores
    members = variable.members[:, minority]
    sizes = sizes[minority]
    ks = _ks(measures)
    deepest = max(case.top.shape[1], min(total, max(ks)))
    for rows in _blocks(queries, deepest * len(sizes)):
        listed = members[case.top[rows]]
        if official:
            scores[rows] = official_arguments.one_sided_rkl(listed, sizes, total, ks)
        else:
            cutoffs = [(measure["cutoff"], measure["step"]) for measure in measures]
            scores[rows] = rkl(listed, case.length[rows], sizes, total, cutoffs)
    return scores


def _blocks(rows: np.ndarray, cells: int) -> Iterator[np.ndarray]:
    """Yield queries in blocks whose tables, of `cells` each, fit into memory."""
    size = max(1, CELLS_AT_ONCE // max(cells, 1))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _ks(measures: Sequence[Measure]) -> list[int]:
    return [int(measure["cutoff"]) for measure in measures]


# ---------------------------------------------------------------- properties of authors as groups

_NOT_KNOWN = "(not known)"


class Variable(NamedTuple):
    """The groups of a property; ``members`` is bool (arguments + 1, groups); its last row is for empty places."""

    name: str
    groups: tuple[str, ...]
    members: np.ndarray

    def sizes(self) -> np.ndarray:
        """Return how many arguments of the corpus belong to each group, (groups,)."""
        return np.asarray(self.members.sum(axis=0))


def sorted_docnos(scenario: Scenario) -> list[str]:
    """Return the docnos of the corpus in the order by which this module numbers arguments."""
    return sorted(p.docno for p in scenario.passages)


@_once
def properties(scenario: Scenario) -> tuple[Variable, ...]:
    """Return the eight properties, each with its groups in the corpus; the groups of political issues overlap."""
    docnos = sorted_docnos(scenario)
    members = {name: list[tuple[int, str]]() for name in PROPERTIES}
    for row, docno in enumerate(docnos):
        for name, groups in scenario.authors.get(docno, NOBODY).items():
            members[name] += [(row, group) for group in groups]
    variables = []
    for name, rows in members.items():
        groups_of_name = sorted({group for _, group in rows})
        variables.append(_variable(name, groups_of_name, rows, len(docnos)))
    return tuple(variables)


@_once
def official_variables(scenario: Scenario) -> tuple[Variable, ...]:
    """Return the variables over which the published script averages, for every query (divergences.md A8).

    These are the stance, each political issue (as important or neutral) in place of the property of political issues,
    and all other properties except the denomination. Authors whose value is unknown form one group.
    """
    arguments = scenario.release.arguments
    number = {docno: i for i, docno in enumerate(sorted_docnos(scenario))}
    rows = [number[scenario.docnos[argument.docno]] for argument in arguments]
    columns: dict[str, list[str]] = {}
    for name in PROPERTIES:
        if name not in ("denomination", ISSUES):
            columns[name] = [", ".join(argument.profile.get(name, ())) or _NOT_KNOWN for argument in arguments]
    columns["stance"] = [argument.stance or _NOT_KNOWN for argument in arguments]
    issues = [argument.profile.get(ISSUES, ()) for argument in arguments]
    for issue in sorted(set(chain.from_iterable(issues))):
        columns[f"{ISSUES}: {issue}"] = ["important" if issue in named else "neutral" for named in issues]
    variables = []
    for name, values in columns.items():
        members = list(zip(rows, values, strict=True))
        variables.append(_variable(name, list(dict.fromkeys(values)), members, len(arguments)))
    return tuple(variables)


def _everybody(scenario: Scenario) -> tuple[Variable]:
    """Return all authors as one group, for measures of answers alone."""
    members = np.ones((len(scenario.passages) + 1, 1), dtype=bool)
    members[-1] = False
    return (Variable("", ("everybody",), members),)


def _variable(
    name: str,
    groups: Sequence[str],
    values: Sequence[tuple[int, str]],
    total: int,
) -> Variable:
    column = {group: i for i, group in enumerate(groups)}
    members = np.zeros((total + 1, len(groups)), dtype=bool)
    for row, group in values:
        members[row, column[group]] = True
    return Variable(name, tuple(groups), members)


def naming(scenario: Scenario, name: str) -> np.ndarray:
    """Return whether each query names a property, bool (q,)."""
    return np.array([name in scenario.asked.get(q.qid, NOBODY) for q in scenario.questions])


# ---------------------------------------------------------------- rKL: are minorities shown as often as in the corpus?


def protected(sizes: np.ndarray) -> np.ndarray:
    """Return whether each group is a minority, (m,) bool: all but the largest, or all if all are equally large.

    >>> protected(np.array([5, 2, 5, 1])).tolist(), protected(np.array([3, 3])).tolist()
    ([False, True, False, True], [True, True])
    """
    smaller = sizes < sizes.max(initial=0)
    return smaller if smaller.any() else np.ones(len(sizes), dtype=bool)


def cut_points(k: int, step: int) -> np.ndarray:
    """Return the cut points of rKL: step, 2 step, … up to k; k itself if it is smaller than the step.

    >>> cut_points(9, 2).tolist(), cut_points(3, 5).tolist()
    ([2, 4, 6, 8], [3])
    """
    return np.arange(step, k + 1, step) if k >= step else np.array([k])


def rkl(
    of_group: np.ndarray,
    length: np.ndarray,
    sizes: np.ndarray,
    total: int,
    cutoffs: Sequence[tuple[int, int]],
) -> np.ndarray:
    """Return rKL as a mean over groups, each against all others; from 0 (the shares of the corpus) to 1.

    At each cut point i the divergence of the group's share among the first i from its share of the corpus, D(P_i || Q)
    = P_i log2(P_i / Q) + (1 - P_i) log2((1 - P_i) / (1 - Q)), has the weight 1 / log2(i). The sum is divided by its
    maximum over all rankings; a ranking that reaches the maximum lists either the whole group or all others first. Cut
    points beyond the end of a list have the largest possible divergence: an empty list scores 1, and a short list gains
    nothing. Cut points beyond the end of the corpus do not count.

    Args:
        of_group: (…, n, g) bool, whether each listed passage belongs to each group; n is at least the deepest cut-off
            or the length of the longest list.
        length: (…,) int, the length of each list.
        sizes: (g,) int, the number of passages of each group in the corpus, at least 1.
        total: the number of passages in the corpus.
        cutoffs: (k, step) of each score, both at least 2.

    Returns:
        (…, cutoffs) float64; NaN where all rankings are equally good.

    Source: Yang and Stoyanovich, 2017, "Measuring fairness in ranked outputs", rKL.
    """
    places = [_cuts_within(k, step, total) for k, step in cutoffs]
    cuts = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *places]))
    scores = np.full((*length.shape, len(cutoffs)), np.nan)
    if not len(cuts):
        return scores
    group_first = np.minimum(cuts[:, None], sizes)
    others_first = np.maximum(cuts[:, None] - (total - sizes), 0)
    extremes = _divergence(np.stack([group_first, others_first]), cuts, sizes, total)
    terms = _divergence(counts_at(of_group, cuts), cuts, sizes, total)
    reached = (length[..., None] >= cuts)[..., None]
    terms = np.where(reached, terms, extremes.max(axis=0))
    for i, cuts_of_score in enumerate(places):
        at = np.searchsorted(cuts, cuts_of_score)
        worst = extremes[:, at].sum(axis=1).max(axis=0)
        can_differ = worst > 0
        if can_differ.any():
            sums = terms[..., at, :].sum(axis=-2)[..., can_differ]
            scores[..., i] = np.minimum(sums / worst[can_differ], 1.0).mean(axis=-1)
    return scores


def _cuts_within(k: int, step: int, total: int) -> np.ndarray:
    """Return the cut points that the corpus reaches; no cut points for a corpus of a single passage."""
    return cut_points(min(k, total), step) if total >= 2 else np.empty(0, dtype=np.int64)


def _divergence(counts: np.ndarray, cuts: np.ndarray, sizes: np.ndarray, total: int) -> np.ndarray:
    """Return D(n / i || Q) / log2(i) for counts n (…, c, g) at the cut points i."""
    share = np.minimum(counts / cuts[:, None], 1.0)
    of_corpus = sizes / total
    bits = (rel_entr(share, of_corpus) + rel_entr(1 - share, 1 - of_corpus)) / np.log(2)
    return np.asarray(bits / np.log2(cuts)[:, None])
