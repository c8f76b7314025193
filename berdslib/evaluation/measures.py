"""Measures of how many perspectives a ranked list shows, as values: ``MRecall @ 5``.

The measures are objects of ir-measures, computed over tables of ranked passages x perspectives
(:mod:`berdslib.evaluation.tables`). :mod:`berdslib.evaluation.arguments` computes measures over groups of authors.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from inspect import signature
from reprlib import repr as shortened
from typing import Any, NamedTuple

import ir_measures
import numpy as np
import pandas as pd
from ir_measures import AP, RR, Metric, R, Success
from ir_measures import ERR_IA as ERR_IA
from ir_measures import Judged as Judged
from ir_measures import P as P
from ir_measures import StRecall as StRecall
from ir_measures import alpha_nDCG as alpha_nDCG
from ir_measures import nDCG as nDCG
from ir_measures.measures import Measure as Measure
from ir_measures.measures import ParamInfo, registry
from ir_measures.providers import Provider, register
from ir_measures.providers.base import Any as AnyValue
from ir_measures.providers.base import Evaluator

from berdslib.data.passages import without_near_duplicates
from berdslib.data.records import (
    Passage,
    Question,
    check_questions,
    check_run,
    check_verdicts,
    list_ids,
    make_run_as_trec_eval,
    make_verdicts,
    perspective_qid,
    read_pairs,
    some_of,
)
from berdslib.errors import InputError
from berdslib.evaluation.tables import (
    Tables,
    discounted,
    ideal_gains,
    ideal_novel_gains,
    in_blocks,
    novel_gains,
    pair_index,
    per_rank,
    perspectives_seen,
    question_tables,
    ratio,
    value_at,
)
from berdslib.registry import Registry

logger = logging.getLogger(__name__)

MAX_CUTOFF = 1_000_000  # no list is longer


# ---------------------------------------------------------------- kinds of measures

# Maps the measure's parameters, tables of many questions, and cut-offs from 1, int (…, c), to scores (…, c).
Kernel = Callable[[Mapping[str, Any], Tables, np.ndarray], np.ndarray]


class Kind(NamedTuple):
    """The package's record of a measure.

    ``kernel`` computes the measure, or is None if only :mod:`berdslib.evaluation.arguments` does; ``own_lists``: the
    measure scores the lists that the perspectives' queries found; ``least``: its smallest cut-off, or 0 if the measure
    works without a cut-off; ``of_texts``: a function (shown, k, passages) → score of one list, for a measure that reads
    the passages, and has no kernel.
    """

    measure: Measure
    kernel: Kernel | None
    may_be_set: tuple[str, ...] = ()
    own_lists: bool = False
    least: int = 0
    of_texts: Callable[[np.ndarray, int, list[Passage]], float] | None = None


MEASURES: Registry[Kind] = Registry("measure", {})
_CUTOFF = {"cutoff": ParamInfo(dtype=int, required=False, desc="how many passages to look at")}


def measure(
    of: Measure | str,
    *,
    name: str = "",
    parameters: Mapping[str, ParamInfo] | Sequence[str] = (),
    own_lists: bool = False,
) -> Callable[[Kernel], Measure]:
    """Register a kernel as a measure, under the function's name.

    `of` is a one-line question that the measure answers, or the measure of ir-measures that the kernel computes. Users
    may set `parameters` and the cut-off. `own_lists`: the measure scores the lists that the perspectives' queries
    found.
    """

    def add(kernel: Kernel) -> Measure:
        new = of if isinstance(of, Measure) else _new_measure(name or kernel.__name__, of, kernel, parameters)
        MEASURES.add_built_in(str(new.NAME), Kind(new, kernel, tuple(parameters), own_lists))
        return new

    return add


def _new_measure(name: str, question: str, kernel: Kernel | None, parameters: Any = ()) -> Measure:
    attributes = {
        "__name__": name,
        "__doc__": kernel.__doc__ if kernel else question,
        "__reduce__": lambda self: (parse_measure, (str(self),)),
        "NAME": name,
        "PRETTY_NAME": f"{name} at k",
        "SHORT_DESC": question,
        "SUPPORTED_PARAMS": {**_CUTOFF, **dict(parameters)},
    }
    new: Measure = type(name, (Measure,), attributes)()
    return new


def _of_scenarios(
    name: str,
    question: str,
    parameters: Mapping[str, ParamInfo],
    least: int = 1,
) -> Measure:
    """Register a measure that :mod:`berdslib.evaluation.arguments` computes from the groups of all passages."""
    new = _new_measure(name, question, None, parameters)
    MEASURES.add_built_in(name, Kind(new, None, tuple(parameters), least=least))
    return new


def takes_passages(score: Callable[..., float]) -> bool:
    """Return whether the function of a measure needs a third argument, the passages."""
    needed = [name for name, given in signature(score).parameters.items() if given.default is given.empty]
    return len(needed) == 3


def own_measure(score: Callable[..., float], name: str) -> Kind:
    """Turn a function (shown, k) → score of one list into a measure; `shown` is bool (k or fewer, perspectives).

    A function (shown, k, passages) also gets the passages, a list of :class:`~berdslib.data.records.Passage`.
    """

    def checked_score(*given: Any) -> float:
        value = score(*given)
        if isinstance(value, str) or np.ndim(value) or not np.isfinite(value):
            raise InputError(f"the measure {name!r} returned {shortened(value)} instead of a number", field="make")
        if value > 1:
            _tell_of_no_share(name)
        return float(value)

    def kernel(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
        rows = []
        for table, length, ks in zip(tables.listed, tables.length, cuts.tolist(), strict=True):
            rows.append([checked_score(table[: min(k, length)], k) for k in ks])
        return np.array(rows)

    lines = (score.__doc__ or "registered by you").strip().splitlines()
    if takes_passages(score):
        return Kind(_new_measure(name, lines[0], None), None, of_texts=checked_score)
    return Kind(_new_measure(name, lines[0], kernel), kernel)


@cache
def _tell_of_no_share(name: str) -> None:
    """Warn, once, that a user's measure exceeds 1."""
    logger.warning("the measure %r exceeds 1, but tables print measures in percent: return a share from 0 to 1", name)


MEASURES.own = own_measure


# ---------------------------------------------------------------- the measures


@measure("Do the top k support all perspectives?")
def MRecall(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:  # noqa: N802
    """1 if the top k support all perspectives, or at least k of them if there are more than k; else 0.

    BeRDS section 3, after Min et al. (2021). MRecall is not monotone in k while k is smaller than the number of
    perspectives: a list that shows 1 of 3 perspectives has MRecall@1 = 1 and MRecall@2 = 0 (divergences.md B2).
    """
    required = np.minimum(tables.listed.shape[-1], cuts)
    seen = value_at(perspectives_seen(tables), cuts)
    return (seen >= required).astype(np.float64)


def _share_that_supports(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """Share of the top k that supports at least one perspective; a shorter list still counts k. BeRDS section 3."""
    return np.asarray(_useful_within(tables, cuts) / cuts)


def _useful_within(tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """Return how many passages up to each cut-off support any perspective."""
    return value_at(np.cumsum(tables.listed.any(axis=-1), axis=-1), cuts)


# The paper's name for P over the union of the perspectives.
Precision = measure("Share of the top k that supports any perspective", name="Precision")(_share_that_supports)
measure(P)(_share_that_supports)


@measure("Share of the perspectives that the top k support")
def Coverage(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:  # noqa: N802
    """Share of all the question's perspectives that the top k support: the graded form of MRecall.

    If perspectives have weights, each counts by its weight, as in BRIGHT-Pro's A-Recall. Unlike StRecall (ndeval),
    Coverage also counts perspectives that no judged passage supports.
    """
    seen = perspectives_seen(tables, tables.weights)
    return np.asarray(value_at(seen, cuts) / tables.listed.shape[-1])


@measure(StRecall)
def _subtopic_recall(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """Share of the perspectives with a supporting judged passage that the top k support."""
    return ratio(value_at(perspectives_seen(tables), cuts), _reachable(tables))


@measure(Success)
def _success(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """1 if any of the top k supports a perspective."""
    return (_useful_within(tables, cuts) > 0).astype(np.float64)


@measure(RR)
def _reciprocal_rank(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """1 / the rank of the first passage that supports a perspective, 0 beyond k."""
    reciprocal = per_rank(np.asarray(tables.listed.any(axis=-1)))
    return value_at(np.maximum.accumulate(reciprocal, axis=-1), cuts)


@measure(R)
def _recall(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """Of the passages that support any perspective, the share in the top k."""
    return ratio(_useful_within(tables, cuts), _useful_in_pool(tables))


@measure(AP)
def _average_precision(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """Mean of the precision at each passage that supports a perspective, 0 for passages below the top k."""
    useful = tables.listed.any(axis=-1)
    precision = per_rank(np.cumsum(useful, axis=-1))
    gathered = np.cumsum(useful * precision, axis=-1)
    return ratio(value_at(gathered, cuts), _useful_in_pool(tables))


def _useful_in_pool(tables: Tables) -> np.ndarray:
    """Return how many judged passages support any perspective, (…, 1)."""
    return np.asarray(tables.pool.any(axis=-1).sum(axis=-1, keepdims=True))


def _reachable(tables: Tables) -> np.ndarray:
    """Return how many perspectives any judged passage supports, (…, 1)."""
    return np.asarray(tables.pool.any(axis=-2).sum(axis=-1, keepdims=True))


@measure(nDCG)
def _ndcg(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """DCG divided by the DCG of the best order of all judged passages.

    The gain of a passage is its grade, as in trec_eval (negative grades count as 0), or 1 for a yes if verdicts have no
    grades. The gains for several perspectives are added; neither trec_eval nor ndeval has a graded measure for several.
    """
    ideal = ideal_gains(tables.pool_gains, cuts.max())
    return _over_ideal(tables.gains, ideal, cuts)


@measure(alpha_nDCG, parameters=["alpha"])
def _alpha_ndcg(parameters: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """DCG of novel gains, each times the weight of its perspective, divided by the DCG of the greedy ideal list."""
    alpha = parameters["alpha"]
    gains = novel_gains(tables.listed, alpha, tables.weights)
    ideal = ideal_novel_gains(tables.pool, alpha, cuts.max(), tables.weights)
    return _over_ideal(gains, ideal, cuts)


def _over_ideal(gains: np.ndarray, ideal: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    return ratio(value_at(discounted(gains), cuts), value_at(discounted(ideal), cuts))


@measure(ERR_IA)
def _err_ia(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """Intent-aware expected reciprocal rank, divided by that of a list whose passages all support all perspectives.

    ndeval normalises in the same way except at k = 1, where its values can exceed 1.
    """
    gathered = np.cumsum(per_rank(novel_gains(tables.listed, 0.5)), axis=-1)
    ideal = np.cumsum(per_rank(0.5 ** np.arange(cuts.max())))
    return ratio(value_at(gathered, cuts), _reachable(tables) * ideal[cuts - 1])


@measure(Judged)
def _judged(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """Share of the top k, or of a shorter list, with a verdict, as in ir-measures."""
    places = np.minimum(cuts, tables.length[..., None])
    judged = np.cumsum(tables.judged, axis=-1)
    return ratio(value_at(judged, cuts), places)


def _distinct(_: np.ndarray, k: int, passages: list[Passage]) -> float:
    """Share of the top k that repeat no earlier passage: :func:`~berdslib.data.passages.without_near_duplicates`."""
    return len(without_near_duplicates(passages)) / k


Distinct = _new_measure("Distinct", "Share of the top k that are no copy of a passage above", None)
MEASURES.add_built_in("Distinct", Kind(Distinct, None, of_texts=_distinct))


# The published variants; the paper's variant comes first.
PRECALL = {
    "hit": ("success", "recall"),
    "aggregate": ("mean", "all"),
    "single": ("keep", "zero"),
    "gold": ("own", "official"),
}


_PRECALL_PARAMETERS = {
    name: ParamInfo(dtype=str, choices=list(variants), default=variants[0]) for name, variants in PRECALL.items()
}


@measure("Does each perspective's query find its perspective?", parameters=_PRECALL_PARAMETERS, own_lists=True)
def pRecall(parameters: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:  # noqa: N802
    """Do the queries of a question's perspectives find their gold texts? PIR section 2.3, equation 1.

    Each perspective has its own query, whose list is scored by the verdicts on that perspective; the question scores
    their mean. Parameters: ``hit`` "success", 1 if any gold text is in the top k (the paper's), or "recall", the share
    of the gold texts there; ``aggregate`` "mean" (the paper's), or "all", 1 only if each perspective scores 1;
    ``single`` "keep", or "zero": a question with a single perspective scores 0 (the authors' code);
    ``gold`` "own", or "official", the gold texts of the authors' notebook (divergences.md P1).
    """
    columns = [_p_recall(parameters, tables, k) for k in np.moveaxis(cuts, -1, 0)]
    return np.stack(columns, axis=-1)


def _p_recall(parameters: Mapping[str, Any], tables: Tables, k: np.ndarray) -> np.ndarray:
    within = np.arange(tables.own.shape[-2]) < k[..., None]
    top = tables.own & within[..., None, :, None]
    if parameters["single"] == "zero" and tables.own.shape[-1] == 1:
        return np.zeros(top.shape[:-3])
    hits = np.diagonal(top, axis1=-3, axis2=-1).sum(axis=-2)  # each perspective's hits in its own list
    gold = tables.pool.sum(axis=-2)
    if parameters["gold"] == "official":
        # In the authors' notebook, the first query of a root has the gold texts of all its queries (divergences.md P1).
        hits[..., 0] = top[..., 0, :, :].any(axis=-1).sum(axis=-1)
        gold[..., 0] = tables.pool.any(axis=-1).sum(axis=-1)
    scores = (hits > 0).astype(np.float64) if parameters["hit"] == "success" else ratio(hits, gold)
    if parameters["aggregate"] == "mean":
        return np.asarray(scores.mean(axis=-1))
    return (scores.min(axis=-1) >= 1.0) * 1.0


# berdslib.evaluation.arguments computes these over scenarios of PerspectiveArg; the published ones come from
# official_arguments.
_ALPHA = {"alpha": ParamInfo(dtype=float, default=0.5, desc="how much a repeated group loses")}
_STEP = {"step": ParamInfo(dtype=int, default=2, desc="distance between the cut points")}
# The names are those of the papers.
rKL = _of_scenarios("rKL", "How far do minorities' shares of the top k differ from the corpus?", _STEP, 2)  # noqa: N816
official_nDCG = _of_scenarios("official_nDCG", "nDCG by the script of PerspectiveArg 2024", {})  # noqa: N816
official_P = _of_scenarios("official_P", "Precision by the script of PerspectiveArg 2024", {})  # noqa: N816
official_alpha_nDCG = _of_scenarios(  # noqa: N816
    "official_alpha_nDCG", "alpha-nDCG by the script of PerspectiveArg 2024", _ALPHA
)
official_rKL = _of_scenarios("official_rKL", "rKL by the script of PerspectiveArg 2024", {}, 2)  # noqa: N816


def less_is_better(name: str) -> bool:
    """Return whether the measure of this name counts unfairness, so that smaller scores are better."""
    return name.partition("(")[0].partition("@")[0] in (str(rKL.NAME), str(official_rKL.NAME))


# ---------------------------------------------------------------- measures by name


def parse_measure(name: str) -> Measure:
    """Turn text such as "MRecall@5" or "alpha_nDCG(alpha=0.3)@10" into a measure; names ignore case.

    >>> parse_measure("mrecall @ 5") == MRecall @ 5
    True
    """
    name = "@".join(part.strip() for part in name.split("@"))
    word = re.split(r"[@(]", name, maxsplit=1)[0]
    name = MEASURES.spelt(word) + name[len(word) :]
    base, has_cutoff, cutoff = name.partition("@")
    kind, _ = MEASURES.find(base.partition("(")[0])
    if has_cutoff and not _is_whole_number(cutoff):
        raise InputError(f"{shortened(name)}: the cut-off after @ must be a whole number from 1 to {MAX_CUTOFF}")
    if base == kind.measure.NAME:
        return _computed_here(kind.measure @ int(cutoff) if has_cutoff else kind.measure)
    try:
        return _computed_here(ir_measures.parse_measure(name))
    except (ValueError, NameError, SyntaxError, AssertionError) as error:
        hint = _accepted_variants() if name.startswith(str(pRecall.NAME)) else ""
        if isinstance(error, InputError) and not hint:
            raise
        raise InputError(f"{name!r} is not a measure: {error}{hint}") from None


def _is_whole_number(digits: str) -> bool:
    """Return whether a text is a whole number above 0, of few digits: Python refuses to convert thousands."""
    return digits.isdecimal() and len(digits) <= 20 and int(digits) > 0


def _accepted_variants() -> str:
    variants = [f"{name}={' or '.join(map(repr, values))}" for name, values in PRECALL.items()]
    return f" (accepted: {'; '.join(variants)})"


# Commas that are not inside brackets: alpha_nDCG(alpha=0.5,rel=1)@5 is one measure.
_BETWEEN = re.compile(r",(?![^(]*\))")


def parse_measures(measures: Measure | str | Iterable[Measure | str]) -> list[Measure]:
    """Return measures, given as objects or by name, as a list without duplicates.

    A text may name several: "Precision@5,alpha_nDCG(alpha=0.5)@10".
    """
    if isinstance(measures, str) or not isinstance(measures, Iterable):
        measures = [measures]
    parsed = []
    for measure in measures:
        if isinstance(measure, str):
            parsed += [parse_measure(name) for name in _BETWEEN.split(measure) if name.strip()]
        elif isinstance(measure, Measure):
            parsed.append(_computed_here(measure))
        else:
            raise InputError(f"{shortened(measure)} is not a measure; use MRecall @ 5 or its name, 'MRecall@5'")
    if not parsed:
        raise InputError("expected at least one measure, such as MRecall@5", field="measures")
    return list(dict.fromkeys(parsed))


def _computed_here(measure: Measure) -> Measure:
    kind, _ = MEASURES.find(str(measure.NAME))
    k = cutoff_of(measure)
    if k is None and (kind.least or measure.SUPPORTED_PARAMS["cutoff"].required):
        raise InputError(f"{measure} needs a cut-off, as in {measure} @ 20")
    try:
        measure.validate_params()
    except AssertionError as error:
        raise InputError(f"{measure.NAME}: {error}") from None
    if k is not None and not 1 <= k <= MAX_CUTOFF:
        raise InputError(f"{measure}: k must be from 1 to {MAX_CUTOFF}")
    accepted = {"cutoff", *kind.may_be_set}
    if set(measure.params) - accepted:
        raise InputError(f"{measure}: unknown parameter; the measure takes {', '.join(sorted(accepted))}")
    if "alpha" in kind.may_be_set and not 0 <= measure["alpha"] <= 1:
        raise InputError(f"{measure}: alpha must be from 0 to 1")
    if k is not None and k < kind.least:
        problem = "k must be at least 2, as in rKL @ 20, because the discount of the first place, log2(1), is 0"
        raise InputError(f"{measure}: {problem}")
    if "step" in kind.may_be_set and measure["step"] < 2:
        raise InputError(f"{measure}: step must be at least 2, because the discount of the first place, log2(1), is 0")
    return measure


# ---------------------------------------------------------------- scoring


def score_run(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    measures: Measure | str | Iterable[Measure | str],
    called: str = "the run",
) -> pd.DataFrame:
    """Score a run: one row per question (index qid, in order), one column per measure (``str(measure)``).

    Unjudged questions are left out, see :func:`judged_questions`. A question without passages scores 0, and a passage
    without a verdict supports nothing. Rows of other questions are ignored. Passages of equal scores are ordered by
    docno, the smallest first; trec_eval puts the largest first, and :func:`berdslib.data.trec.read_trec_run` makes both
    agree. `called` names the run in the log.

    Raises:
        InputError: no questions, no judged question, a question without perspectives, an invalid run or verdicts, a run
            or verdicts of other questions, a verdict on a perspective that does not exist, or an unknown measure.
    """
    parsed = parse_measures(measures)
    check_without_groups(parsed)
    run, verdicts = checked(run, verdicts, questions, parsed)
    judged = judged_questions(questions, verdicts, [run])
    warning = left_out(len(questions), len(judged))
    if warning:
        logger.warning("%s", warning)
    tell_gaps(run, verdicts, judged, parsed, called)
    return score_questions(run, verdicts, judged, parsed)


def score_questions(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    measures: Sequence[Measure],
    passages: Mapping[str, Passage] | None = None,
) -> pd.DataFrame:
    """Return the scores of all questions, see :func:`score_run`; the frames must come from :func:`checked`.

    `passages`, docno → passage, are for measures that read them.
    """
    scores = np.zeros((len(questions), len(measures)))
    tables = question_tables(run, verdicts, questions)
    of_texts = [i for i, measure in enumerate(measures) if reads_texts(measure)]
    others = [i for i in range(len(measures)) if i not in of_texts]
    lists = {str(qid): docnos.tolist() for qid, docnos in run.groupby("qid")["docno"]} if of_texts else {}
    for places, block in in_blocks(tables, deepest_cutoff(measures)):
        if others:
            scores[np.ix_(places, others)] = score_tables([measures[i] for i in others], block)
        for i in of_texts:
            for place, shown in zip(places, block.listed, strict=True):
                listed = lists.get(questions[place].qid, [])
                scores[place, i] = _score_of_texts(measures[i], shown, listed, passages)
    index = pd.Index([q.qid for q in questions], name="qid")
    return pd.DataFrame(scores, index=index, columns=[str(m) for m in measures])


def reads_texts(measure: Measure) -> bool:
    """Return whether a measure reads the listed passages."""
    return MEASURES[str(measure.NAME)].of_texts is not None


def _score_of_texts(
    measure: Measure, shown: np.ndarray, listed: Sequence[str], passages: Mapping[str, Passage] | None
) -> float:
    score = MEASURES[str(measure.NAME)].of_texts
    assert score is not None
    if passages is None:
        problem = "reads the passages; give a collection that has them (in the shell, -c CORPUS)"
        raise InputError(f"{measure} {problem}", field="measures")
    k = cutoff_of(measure) or max(len(listed), 1)
    top = listed[:k]
    unknown = next((docno for docno in top if docno not in passages), None)
    if unknown is not None:
        raise InputError(f"{measure} reads the passages, and {unknown!r} is not among them", field="docno")
    return score(shown[: len(top)], k, [passages[docno] for docno in top])


def checked(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    measures: Sequence[Measure] = (),
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return clean frames of a run and verdicts; the run must hold the lists that the measures score."""
    check_questions(questions, need_perspectives=True)
    run = check_run(run)
    verdicts = check_verdicts(verdicts)
    check_same_questions(run, verdicts, questions, measures)
    return run, verdicts


def judged_questions(
    questions: Sequence[Question],
    verdicts: pd.DataFrame,
    runs: Iterable[pd.DataFrame],
    *,
    recorded: bool | None = None,
) -> list[Question]:
    """Return the questions that can be scored, the same for all runs: those with at least one readable verdict.

    trec_eval leaves out the other questions, too. A judge judges only listed passages: a question whose lists are
    empty has no verdict, but is kept and counts as unanswered. `recorded` says that the verdicts do not depend on the
    runs; None decides by their column `judge`: "gold" or empty means recorded.

    Raises:
        InputError: no question has a verdict.
    """
    if recorded is None:
        recorded = are_recorded(verdicts)
    read = set(read_pairs(verdicts)["qid"].unique())
    qid_of_list = list_ids(questions)
    listed: set[str | None] = set()
    for run in runs:
        listed.update(qid_of_list.get(list_id) for list_id in run["qid"].unique())
    listed.discard(None)
    if not any(q.qid in read for q in questions) and (recorded or listed):
        raise InputError(f"none of the {len(questions)} questions has a verdict, so nothing can be scored", field="qid")
    return [q for q in questions if q.qid in read or not (recorded or q.qid in listed)]


def are_recorded(verdicts: pd.DataFrame) -> bool:
    """Return whether all verdicts are recorded: their judge is gold or unknown."""
    return bool(len(verdicts)) and bool(verdicts["judge"].isin(["gold", "unknown"]).all())


def left_out(asked: int, judged: int) -> str:
    """Describe how many questions have no verdict; "" if every question has a verdict.

    >>> left_out(50, 20), left_out(2, 1)
    ('30 of 50 questions have no verdict: left out', '1 of 2 questions has no verdict: left out')
    """
    without = asked - judged
    if not without:
        return ""
    return f"{some_of(without, asked, 'question', 'have')} no verdict: left out"


def check_without_groups(measures: Iterable[Measure]) -> None:
    """Raise InputError for a measure that needs the groups of all passages, which only scenarios have."""
    for measure in measures:
        if MEASURES[str(measure.NAME)].kernel is None and not reads_texts(measure):
            scenario = 'which scenarios of PerspectiveArg have: berdslib.load("perspectivearg-sample:explicit")'
            raise InputError(f"{measure} needs the groups of all passages, {scenario}", field="measures")


def score_tables(measures: Sequence[Measure], tables: Tables) -> np.ndarray:
    """Return scores (…, measures); measures that differ only in the cut-off share their computation."""
    length = np.maximum(tables.length, 1)
    scores = np.zeros((*length.shape, len(measures)))
    for family in families(measures):
        first = measures[family[0]]
        kernel = MEASURES[str(first.NAME)].kernel
        assert kernel is not None
        whole = length
        if first.NAME == nDCG.NAME:  # without a cut-off, trec_eval also uses the whole ideal list
            whole = np.maximum(length, tables.pool_gains.shape[-1])
        ks = [cutoff_of(measures[i]) for i in family]
        cuts = np.stack([whole if k is None else np.full_like(length, k) for k in ks], axis=-1)
        scores[..., family] = kernel(parameters(first), tables, cuts)
    return scores


def families(measures: Sequence[Measure]) -> list[list[int]]:
    """Return the positions of measures, grouped by everything but the cut-off.

    >>> families([nDCG @ 5, P @ 5, nDCG @ 10])
    [[0, 2], [1]]
    """
    positions: dict[str, list[int]] = {}
    for i, measure in enumerate(measures):
        key = f"{measure.NAME} {sorted(parameters(measure).items())}"
        positions.setdefault(key, []).append(i)
    return list(positions.values())


def parameters(measure: Measure) -> dict[str, Any]:
    """Return a measure's parameters except the cut-off, with their defaults.

    >>> parameters(alpha_nDCG @ 5)
    {'alpha': 0.5}
    """
    return {name: measure[name] for name in MEASURES[str(measure.NAME)].may_be_set}


def cutoff_of(measure: Measure) -> int | None:
    """Return how many passages a measure looks at, None for all."""
    return measure.params.get("cutoff")


def deepest_cutoff(measures: Sequence[Measure]) -> int | None:
    """Return the largest cut-off of measures; None if a measure looks at whole lists."""
    cutoffs = [cutoff_of(m) for m in measures]
    return None if None in cutoffs else max(c for c in cutoffs if c is not None)


def check_same_questions(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    measures: Sequence[Measure] = (),
) -> None:
    """Refuse a run or verdicts of other questions, and a run without the lists that the measures score."""
    qids = {q.qid for q in questions}
    lists = list_ids(questions).keys()
    listed = set(run["qid"].unique())
    _check_overlap("run", listed, lists, questions)
    _check_overlap("verdicts", set(verdicts["qid"].unique()), qids, questions)
    of_perspectives = (lists - qids) & listed
    if listed and looks_at_perspectives(measures) and not of_perspectives:
        needed = perspective_qid(questions[0].qid, 0)
        problem = f"pRecall needs a list for each perspective, under ids such as {needed!r}"
        raise InputError(f"{problem}; use `berds retrieve --perspectives` or bd.search(…, perspectives=True)")
    if listed and any_list(measures) and not qids & listed:
        only = min(of_perspectives)
        problem = f"the run holds lists of single perspectives only, such as {only!r}; also search for the questions"
        raise InputError(problem)


def _check_overlap(
    what: str,
    qids: set[str],
    expected: Set[str],
    questions: Sequence[Question],
) -> None:
    if qids and not expected & qids:
        other = min(qids)
        first = questions[0].qid
        raise InputError(f"the {what} and the questions do not belong together: {other!r} against {first!r} …")


def lists_looked_at(questions: Sequence[Question], measures: Sequence[Measure]) -> dict[str, str]:
    """Return the lists that the measures score, id → qid; without measures, the list of each question."""
    qids = {q.qid for q in questions}
    of_perspectives = looks_at_perspectives(measures)
    of_questions = any_list(measures)
    lists = {}
    for list_id, qid in list_ids(questions).items():
        if of_questions if list_id in qids else of_perspectives:
            lists[list_id] = qid
    return lists


def tell_gaps(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    measures: Sequence[Measure] = (),
    called: str = "the run",
) -> None:
    """Log how many lists are missing from a run, and whether the verdicts seem to be on another corpus."""
    if run.empty:
        return
    lists = lists_looked_at(questions, measures)
    unanswered = len(lists.keys() - set(run["qid"].unique()))
    if unanswered:
        some = some_of(unanswered, len(lists), "question", "have")
        logger.warning("%s no passage in %s: unanswered", some, called)
    top = run[run["rank"] <= 10]
    top = top.assign(qid=top["qid"].map(lists)).dropna(subset="qid")
    if len(verdicts) and not pair_index(top).isin(pair_index(verdicts)).any():
        logger.warning("no verdict is on a passage in the top 10 of %s; are the verdicts on another corpus?", called)


def single_perspectives(questions: Sequence[Question], measures: Iterable[str]) -> str:
    """Describe how many questions have a single perspective, if MRecall or Coverage is measured; "" for 0.

    >>> single_perspectives([Question("q", "Who?", ("She.",))], ["MRecall@5", "P@5"])
    '1 of 1 question has a single perspective, where MRecall amounts to a hit rate'
    """
    bases = {measure.partition("@")[0] for measure in measures}
    names = [name for name in ("MRecall", "Coverage") if name in bases]
    single = sum(len(q.perspectives) == 1 for q in questions)
    if not (names and single):
        return ""
    verb = "amounts" if len(names) == 1 else "amount"
    verdict = f"{' and '.join(names)} {verb} to a hit rate"
    return f"{some_of(single, len(questions), 'question', 'have')} a single perspective, where {verdict}"


def looks_at_perspectives(measures: Iterable[Measure]) -> bool:
    """Return whether any of the measures scores the lists that the perspectives' queries found."""
    return any(MEASURES[str(m.NAME)].own_lists for m in measures)


def any_list(measures: Sequence[Measure]) -> bool:
    """Return whether any of the measures scores the list of a whole question; without measures, True."""
    return not measures or not all(MEASURES[str(m.NAME)].own_lists for m in measures)


def official_cutoff(run: pd.DataFrame, questions: Sequence[Question]) -> int:
    """Return the k that the published evaluation script would use: the length of the first question's list.

    Use this k only to reproduce that script's numbers: another order of the rows can change k, and thereby MRecall
    (divergences.md B1).
    """
    first = check_questions(questions)[0].qid
    k = int((check_run(run)["qid"] == first).sum())
    if not k:
        raise InputError(f"k is the number of passages for the first question, {first!r}, but the run has none for it")
    return k


# ---------------------------------------------------------------- inside ir-measures


_SUPPORTED: list[Measure] = [type(m)(cutoff=AnyValue()) for m in (MRecall, Precision, Coverage)]


class PerspectiveProvider(Provider):
    """Lets ir-measures compute MRecall, Precision and Coverage from diversity qrels (`iteration` = perspective)."""

    NAME = "berdslib"
    SUPPORTED_MEASURES = _SUPPORTED

    def _evaluator(self, measures: Iterable[Measure], qrels: Any) -> Evaluator:
        return _PerspectiveEvaluator(list(measures), ir_measures.util.QrelsConverter(qrels).as_pd_dataframe())


class _PerspectiveEvaluator(Evaluator):
    def __init__(self, measures: list[Measure], qrels: pd.DataFrame) -> None:
        by_query = qrels.groupby("query_id", sort=False)["iteration"]
        subtopics = {str(qid): tuple(iterations.unique()) for qid, iterations in by_query}
        super().__init__(measures, set(subtopics))
        self._questions = [Question(qid, qid, names) for qid, names in subtopics.items()]
        rows = []
        columns = (qrels["query_id"], qrels["iteration"], qrels["doc_id"], qrels["relevance"] > 0)
        for qid, iteration, docno, relevant in zip(*columns, strict=True):
            pid = subtopics[qid].index(iteration)
            rows.append((qid, pid, docno, float(relevant), bool(relevant)))
        self._verdicts = make_verdicts(rows, "qrels")

    def _iter_calc(self, run: Any) -> Iterator[Metric]:
        rows = ir_measures.util.RunConverter(run).as_pd_dataframe()
        # Ties are broken as in trec_eval, which computes the other measures of the same call.
        frame = make_run_as_trec_eval(*(rows[column].tolist() for column in ("query_id", "doc_id", "score")))
        scores = score_run(frame, self._verdicts, self._questions, self.measures)
        for measure in self.measures:
            for qid, value in scores[str(measure)].items():
                yield Metric(query_id=str(qid), measure=measure, value=float(value))


def _join_ir_measures() -> None:
    for name, kind in MEASURES.built_in().items():  # ir-measures keeps "Precision", its other name for P
        registry.setdefault(name, kind.measure)
    if not any(isinstance(p, PerspectiveProvider) for p in ir_measures.providers.registry.values()):
        register(PerspectiveProvider())
        ir_measures.DefaultPipeline.providers.append(ir_measures.providers.registry[PerspectiveProvider.NAME])


_join_ir_measures()
