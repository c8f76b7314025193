"""Measures of how many perspectives a ranked list shows, as values: ``MRecall @ 5``.

They are ir-measures' objects, computed over tables of ranked passages x perspectives
(:mod:`berdslib.evaluation.tables`); those that look at groups of authors in :mod:`berdslib.evaluation.arguments`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

from berdslib.data.records import (
    Question,
    check_questions,
    check_run,
    check_verdicts,
    list_ids,
    make_run_as_trec_eval,
    make_verdicts,
    perspective_qid,
    read_pairs,
)
from berdslib.errors import InputError
from berdslib.evaluation.tables import (
    Tables,
    at,
    discounted,
    ideal_gains,
    ideal_novel_gains,
    in_blocks,
    novel_gains,
    pairs_of,
    per_rank,
    question_tables,
    ratio,
    shown,
)
from berdslib.registry import Registry

logger = logging.getLogger(__name__)

# Deeper than any list that a reader, or a re-ranker, looks at.
MAX_CUTOFF = 1_000_000


# ---------------------------------------------------------------- what a measure is

# The parameters that may be set, the tables of many questions, and the cut-offs, int (…, c), from 1 → scores (…, c).
Kernel = Callable[[Mapping[str, Any], Tables, np.ndarray], np.ndarray]


class Kind(NamedTuple):
    """What is known by a measure's name.

    ``kernel`` computes it, None where it needs the groups of a scenario; ``own_lists``: it looks at the lists that the
    perspectives of a question got; ``least``: the smallest cut-off, 0 where none is needed.
    """

    measure: Measure
    kernel: Kernel | None
    may_be_set: tuple[str, ...] = ()
    own_lists: bool = False
    least: int = 0


MEASURES: Registry[Kind] = Registry("measure", {})
_CUTOFF = {"cutoff": ParamInfo(dtype=int, required=False, desc="how many passages to look at")}


def measure(
    of: Measure | str,
    *,
    name: str = "",
    parameters: Mapping[str, ParamInfo] | Sequence[str] = (),
    own_lists: bool = False,
) -> Callable[[Kernel], Measure]:
    """Make a kernel a measure, called as the function is: this is all that it takes to add one.

    `of` says in a line what it asks, or is the measure of ir-measures that it computes; `parameters` may be set besides
    the cut-off; `own_lists`: it looks at the lists that were found from each perspective.
    """

    def add(kernel: Kernel) -> Measure:
        made = of if isinstance(of, Measure) else _new_measure(name or kernel.__name__, of, kernel, parameters)
        MEASURES.add_built_in(str(made.NAME), Kind(made, kernel, tuple(parameters), own_lists))
        return made

    return add


def _new_measure(name: str, question: str, kernel: Kernel | None, parameters: Any = ()) -> Measure:
    given = {
        "__name__": name,
        "__doc__": kernel.__doc__ if kernel else question,
        "__reduce__": lambda self: (parse_measure, (str(self),)),
        "NAME": name,
        "PRETTY_NAME": f"{name} at k",
        "SHORT_DESC": question,
        "SUPPORTED_PARAMS": {**_CUTOFF, **dict(parameters)},
    }
    made: Measure = type(name, (Measure,), given)()
    return made


def _of_scenarios(name: str, question: str, parameters: Mapping[str, ParamInfo], least: int = 1) -> Measure:
    """Name a measure that :mod:`berdslib.evaluation.arguments` computes: scenarios know the groups of all passages."""
    made = _new_measure(name, question, None, parameters)
    MEASURES.add_built_in(name, Kind(made, None, tuple(parameters), least=least))
    return made


def own_measure(score: Callable[[np.ndarray, int], float], name: str) -> Kind:
    """Return a function (shown, k) → score of one list as a measure; `shown` is bool (k or fewer, perspectives)."""

    def of_one(table: np.ndarray, length: int, k: int) -> float:
        found = score(table[: min(k, length)], k)
        if isinstance(found, str) or np.ndim(found) or not np.isfinite(found):
            raise InputError(f"the measure {name!r} returned {shortened(found)}; a number is needed", field="make")
        return float(found)

    def kernel(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
        each = zip(tables.listed, tables.length, cuts.tolist(), strict=True)
        return np.array([[of_one(table, length, k) for k in ks] for table, length, ks in each])

    question = (score.__doc__ or "registered by you").strip().splitlines()[0]
    return Kind(_new_measure(name, question, kernel), kernel)


MEASURES.own = own_measure


# ---------------------------------------------------------------- the measures, each a few lines over the tables


@measure("Are all perspectives among the top k?")
def MRecall(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:  # noqa: N802
    """1 if the top k support all perspectives, or at least k of them where there are more than k; else 0.

    BeRDS section 3, after Min et al. (2021). Not monotone in k while k is smaller than the number of perspectives: a
    list that shows 1 of 3 perspectives has MRecall@1 = 1 and MRecall@2 = 0 (divergences.md B2).
    """
    wanted = np.minimum(tables.listed.shape[-1], cuts)
    return (at(shown(tables), cuts) >= wanted).astype(np.float64)


def _share_that_supports(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """Share of the top k that supports at least one perspective; a shorter list still counts k. BeRDS section 3."""
    return np.asarray(at(np.cumsum(tables.listed.any(axis=-1), axis=-1), cuts) / cuts)


# The same number as P over the union of the perspectives, under the paper's name.
Precision = measure("Share of the top k that supports any perspective", name="Precision")(_share_that_supports)
measure(P)(_share_that_supports)


@measure("Share of the perspectives that the top k support")
def Coverage(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:  # noqa: N802
    """Share of all the question's perspectives that the top k support: the graded form of MRecall.

    Of perspectives with weights, the sum of those of the supported ones: BRIGHT-Pro's A-Recall. Unlike StRecall
    (ndeval) it counts perspectives that no judged passage supports.
    """
    return np.asarray(at(shown(tables, tables.weights), cuts) / tables.listed.shape[-1])


@measure(StRecall)
def _subtopic_recall(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """Share of the perspectives that any judged passage supports which the top k support."""
    return ratio(at(shown(tables), cuts), _reachable(tables))


@measure(Success)
def _success(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """1 if any of the top k supports a perspective."""
    return (at(np.cumsum(tables.listed.any(axis=-1), axis=-1), cuts) > 0).astype(np.float64)


@measure(RR)
def _reciprocal_rank(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """1 / the rank of the first passage that supports a perspective, 0 beyond k."""
    return at(np.maximum.accumulate(per_rank(np.asarray(tables.listed.any(axis=-1))), axis=-1), cuts)


@measure(R)
def _recall(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """Share of the passages that support a perspective that are in the top k."""
    found = at(np.cumsum(tables.listed.any(axis=-1), axis=-1), cuts)
    return ratio(found, tables.pool.any(axis=-1).sum(axis=-1, keepdims=True))


@measure(AP)
def _average_precision(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """Mean of the precision at each passage that supports a perspective, 0 for one that is not in the top k."""
    useful = tables.listed.any(axis=-1)
    gathered = np.cumsum(useful * per_rank(np.cumsum(useful, axis=-1)), axis=-1)
    return ratio(at(gathered, cuts), tables.pool.any(axis=-1).sum(axis=-1, keepdims=True))


def _reachable(tables: Tables) -> np.ndarray:
    """Return how many perspectives any judged passage supports, (…, 1)."""
    return np.asarray(tables.pool.any(axis=-2).sum(axis=-1, keepdims=True))


@measure(nDCG)
def _ndcg(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """DCG over that of the best order of all judged passages.

    The gain of a passage is its grade, as in trec_eval (a negative one is 0), or 1 for a yes where verdicts have no
    grades. Of several perspectives the gains are added; neither trec_eval nor ndeval has a graded measure of these.
    """
    best = ideal_gains(tables.pool_gains, cuts.max())
    return ratio(at(discounted(tables.gains), cuts), at(discounted(best), cuts))


@measure(alpha_nDCG, parameters=["alpha"])
def _alpha_ndcg(given: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """DCG of novel gains, each times its perspective's weight if there are any, over that of the greedy ideal."""
    found = novel_gains(tables.listed, given["alpha"], tables.weights)
    best = ideal_novel_gains(tables.pool, given["alpha"], cuts.max(), tables.weights)
    return ratio(at(discounted(found), cuts), at(discounted(best), cuts))


@measure(ERR_IA)
def _err_ia(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """Intent-aware expected reciprocal rank, normalised as ndeval does."""
    # By the gain of a list in which every passage supports every reachable perspective.
    # (At k = 1 ndeval does not normalise, and can print values above 1; here it is done for every k.)
    found = np.cumsum(per_rank(novel_gains(tables.listed, 0.5)), axis=-1)
    best = np.cumsum(per_rank(0.5 ** np.arange(cuts.max())))
    return ratio(at(found, cuts), _reachable(tables) * best[cuts - 1])


@measure(Judged)
def _judged(_: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:
    """Share of the top k that somebody judged; a shorter list counts its own length, as in ir-measures."""
    places = np.minimum(cuts, tables.length[..., None])
    return ratio(at(np.cumsum(tables.judged, axis=-1), cuts), places)


# The published variants, the paper's own first.
PRECALL = {
    "hit": ("success", "recall"),
    "aggregate": ("mean", "all"),
    "single": ("keep", "zero"),
    "gold": ("own", "official"),
}


@measure(
    "Is each perspective found by the query that asks from it?",
    parameters={name: ParamInfo(dtype=str, choices=list(v), default=v[0]) for name, v in PRECALL.items()},
    own_lists=True,
)
def pRecall(given: Mapping[str, Any], tables: Tables, cuts: np.ndarray) -> np.ndarray:  # noqa: N802
    """Are the gold texts of a question found from each of its perspectives? PIR section 2.3, equation 1.

    The question is asked once from each perspective, and each list is scored by the verdicts on its own perspective;
    the question scores their mean. By parameter: ``hit`` "success", 1 if any gold text is in the top k (the paper's),
    or "recall", the share of them that is; ``aggregate`` "mean" (the paper's), or "all", 1 only if each perspective
    scores 1; ``single`` a question with a single perspective: "keep" its score, or count it as "zero" (the authors'
    code); ``gold`` "own", or "official", as the authors' notebook leaves it (divergences.md P1).
    """
    return np.stack([_p_recall(given, tables, k) for k in np.moveaxis(cuts, -1, 0)], axis=-1)


def _p_recall(given: Mapping[str, Any], tables: Tables, k: np.ndarray) -> np.ndarray:
    within = np.arange(tables.own.shape[-2]) < k[..., None]
    top, m = tables.own & within[..., None, :, None], tables.own.shape[-1]
    if given["single"] == "zero" and m == 1:
        return np.zeros(top.shape[:-3])
    hits = np.diagonal(top, axis1=-3, axis2=-1).sum(axis=-2)  # of each perspective in its own list
    gold = tables.pool.sum(axis=-2)
    if given["gold"] == "official":
        # The authors' notebook gives the first query of a root the gold texts of all, in place (divergences.md P1).
        hits[..., 0] = top[..., 0, :, :].any(axis=-1).sum(axis=-1)
        gold[..., 0] = tables.pool.any(axis=-1).sum(axis=-1)
    scores = (hits > 0).astype(np.float64) if given["hit"] == "success" else ratio(hits, gold)
    return np.asarray(scores.mean(axis=-1) if given["aggregate"] == "mean" else (scores.min(axis=-1) >= 1.0) * 1.0)


# Of scenarios of PerspectiveArg: computed in berdslib.evaluation.arguments, the published ones in official_arguments.
_ALPHA = {"alpha": ParamInfo(dtype=float, default=0.5, desc="what a group that was seen before loses")}
_STEP = {"step": ParamInfo(dtype=int, default=2, desc="how far apart the cut points are")}
# The papers' names.
rKL = _of_scenarios("rKL", "How far are the minorities' shares of the top k from those of the corpus?", _STEP, 2)  # noqa: N816
official_nDCG = _of_scenarios("official_nDCG", "nDCG by the script of PerspectiveArg 2024", {})  # noqa: N816
official_P = _of_scenarios("official_P", "Precision by the script of PerspectiveArg 2024", {})  # noqa: N816
official_alpha_nDCG = _of_scenarios(  # noqa: N816
    "official_alpha_nDCG", "alpha-nDCG by the script of PerspectiveArg 2024", _ALPHA
)
official_rKL = _of_scenarios("official_rKL", "rKL by the script of PerspectiveArg 2024", {}, 2)  # noqa: N816


def less_is_better(name: str) -> bool:
    """Return whether a measure of this name counts unfairness."""
    return name.partition("(")[0].partition("@")[0] in (str(rKL.NAME), str(official_rKL.NAME))


# ---------------------------------------------------------------- measures by name


def parse_measure(name: str) -> Measure:
    """Turn text such as "MRecall@5" or "alpha_nDCG(alpha=0.3)@10" into a measure, whatever the name's capitals.

    >>> parse_measure("mrecall @ 5") == MRecall @ 5
    True
    """
    name = "@".join(part.strip() for part in name.split("@"))
    word = re.split(r"[@(]", name, maxsplit=1)[0]
    name = MEASURES.spelt(word) + name[len(word) :]
    base, at, cutoff = name.partition("@")
    kind, _ = MEASURES.find(base.partition("(")[0])
    if at and not (cutoff.isdecimal() and len(cutoff) <= 20 and int(cutoff) > 0):  # Python reads no thousands of digits
        raise InputError(f"{shortened(name)}: the cut-off after @ must be a whole number from 1 to {MAX_CUTOFF}")
    if base == kind.measure.NAME:
        return _computed_here(kind.measure @ int(cutoff) if at else kind.measure)
    try:
        return _computed_here(ir_measures.parse_measure(name))
    except (ValueError, NameError, SyntaxError, AssertionError) as error:
        accepted = "; ".join(f"{key}={' or '.join(map(repr, values))}" for key, values in PRECALL.items())
        hint = f" (accepted: {accepted})" if name.startswith(str(pRecall.NAME)) else ""
        if isinstance(error, InputError) and not hint:  # it is one, and says itself what it lacks
            raise
        raise InputError(f"{name!r} is not a measure: {error}{hint}") from None


# Commas that are not inside brackets: alpha_nDCG(alpha=0.5,rel=1)@5 is one measure.
_BETWEEN = re.compile(r",(?![^(]*\))")


def parse_measures(measures: Measure | str | Iterable[Measure | str]) -> list[Measure]:
    """Return one or several measures, or their names, as a list of different measures.

    A text may name several: "Precision@5,alpha_nDCG(alpha=0.5)@10".
    """
    several = [measures] if isinstance(measures, str) or not isinstance(measures, Iterable) else list(measures)
    named = [part for one in several for part in (_BETWEEN.split(one) if isinstance(one, str) else [one])]
    named = [one for one in named if not isinstance(one, str) or one.strip()]
    if not named:
        raise InputError("at least one measure is needed, such as MRecall@5", field="measures")
    return list(dict.fromkeys(map(_as_measure, named)))


def _as_measure(measure: Measure | str) -> Measure:
    if isinstance(measure, str):
        return parse_measure(measure)
    if not isinstance(measure, Measure):
        raise InputError(f"{shortened(measure)} is no measure; give MRecall @ 5 or its name, 'MRecall@5'")
    return _computed_here(measure)


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
    if set(measure.params) - {"cutoff", *kind.may_be_set}:
        raise InputError(f"{measure}: only {', '.join(sorted({'cutoff', *kind.may_be_set}))} can be set")
    if "alpha" in kind.may_be_set and not 0 <= measure["alpha"] <= 1:
        raise InputError(f"{measure}: alpha must be from 0 to 1")
    if k is not None and k < kind.least:
        problem = "k must be at least 2, as in rKL @ 20; the discount of the first place, log2(1), is 0"
        raise InputError(f"{measure}: {problem}")
    if "step" in kind.may_be_set and measure["step"] < 2:
        raise InputError(f"{measure}: step must be at least 2; the discount of the first place, log2(1), is 0")
    return measure


# ---------------------------------------------------------------- scoring


def evaluate(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    measures: Measure | str | Iterable[Measure | str],
    called: str = "the run",
) -> pd.DataFrame:
    """Score a run: one row per question (index qid, in order), one column per measure (``str(measure)``).

    Questions that nobody judged are left out, see :func:`judged_questions`. Of the others, one without passages scores
    0, and a passage without a verdict supports nothing. Rows of questions that were not asked are ignored. Of equal
    scores the smaller docno comes first, where trec_eval takes the larger; :func:`berdslib.data.trec.read_trec_run`
    makes both agree. `called` names the run in what is logged.

    Raises:
        InputError: no questions, none that was judged, a question without perspectives, a frame that is no run or no
            verdicts, a run or verdicts of other questions, a verdict on a perspective that does not exist, or a measure
            that is not computed here.
    """
    wanted = parse_measures(measures)
    check_without_groups(wanted)
    run, verdicts = checked(run, verdicts, questions, wanted)
    judged = judged_questions(questions, verdicts, [run])
    if told := left_out(len(questions), len(judged)):
        logger.warning("%s", told)
    tell_gaps(run, verdicts, judged, wanted, called)
    return scores_of(run, verdicts, judged, wanted)


def scores_of(
    run: pd.DataFrame, verdicts: pd.DataFrame, questions: Sequence[Question], measures: Sequence[Measure]
) -> pd.DataFrame:
    """Return the scores of all these questions, see :func:`evaluate`; the frames are as :func:`checked` has them."""
    scores = np.zeros((len(questions), len(measures)))
    for which, block in in_blocks(question_tables(run, verdicts, questions), deepest(measures)):
        scores[which] = score_tables(measures, block)
    index = pd.Index([q.qid for q in questions], name="qid")
    return pd.DataFrame(scores, index=index, columns=[str(m) for m in measures])


def checked(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    measures: Sequence[Measure] = (),
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return clean frames of a run and verdicts; the run must hold the lists that the measures would look at."""
    check_questions(questions, need_perspectives=True)
    run, verdicts = check_run(run), check_verdicts(verdicts)
    check_same_questions(run, verdicts, questions, measures)
    return run, verdicts


def judged_questions(
    questions: Sequence[Question],
    verdicts: pd.DataFrame,
    runs: Iterable[pd.DataFrame],
    *,
    recorded: bool | None = None,
) -> list[Question]:
    """Return the questions that can be scored, for all runs alike: those with at least one verdict that was read.

    trec_eval leaves out the others, too. A judge is asked about what runs list: where they list nothing, a question
    without its verdicts is unanswered, and stays. `recorded` says that the verdicts do not depend on the runs; None
    for what their column `judge` says, "gold" or nothing.

    Raises:
        InputError: nobody judged any of the questions.
    """
    recorded = are_recorded(verdicts) if recorded is None else recorded
    owner, read = list_ids(questions), set(read_pairs(verdicts)["qid"])
    listed = {owner[list_id] for run in runs for list_id in run["qid"].unique() if list_id in owner}
    if not any(q.qid in read for q in questions) and (recorded or listed):
        raise InputError(f"none of the {len(questions)} questions has a verdict, so nothing can be scored", field="qid")
    return [q for q in questions if q.qid in read or not (recorded or q.qid in listed)]


def are_recorded(verdicts: pd.DataFrame) -> bool:
    """Return whether verdicts name no judge but gold."""
    return bool(len(verdicts)) and bool(verdicts["judge"].isin(["gold", "unknown"]).all())


def left_out(asked: int, judged: int) -> str:
    """Say how many questions have no verdict, "" for none.

    >>> left_out(50, 20), left_out(2, 1)
    ('30 of 50 questions have no verdict: left out', '1 of 2 questions has no verdict: left out')
    """
    without = asked - judged
    return f"{without} of {asked} questions {'has' if without == 1 else 'have'} no verdict: left out" if without else ""


def check_without_groups(measures: Iterable[Measure]) -> None:
    """Raise InputError for a measure that an ordinary collection has not the data for: the groups of all passages."""
    if fair := next((m for m in measures if MEASURES[str(m.NAME)].kernel is None), None):
        scenario = 'as a scenario of PerspectiveArg has them: berdslib.load("perspectivearg-sample:explicit")'
        raise InputError(f"{fair} needs the groups of all passages, {scenario}", field="measures")


def score_tables(measures: Sequence[Measure], tables: Tables) -> np.ndarray:
    """Return scores (…, measures); what measures that differ in the cut-off alone share is computed once."""
    length = np.maximum(tables.length, 1)
    scores = np.zeros((*length.shape, len(measures)))
    for family in families(measures):
        one, ks = measures[family[0]], [cutoff_of(measures[i]) for i in family]
        kernel = MEASURES[str(one.NAME)].kernel
        assert kernel is not None
        # As trec_eval's, the ideal list of nDCG is whole where that of the run is.
        whole = np.maximum(length, tables.pool_gains.shape[-1]) if one.NAME == nDCG.NAME else length
        cuts = np.stack([whole if k is None else np.full_like(length, k) for k in ks], axis=-1)
        scores[..., family] = kernel(parameters(one), tables, cuts)
    return scores


def families(measures: Sequence[Measure]) -> list[list[int]]:
    """Return the places of measures, those together that differ in the cut-off alone.

    >>> families([nDCG @ 5, P @ 5, nDCG @ 10])
    [[0, 2], [1]]
    """
    found: dict[str, list[int]] = {}
    for i, measure in enumerate(measures):
        found.setdefault(f"{measure.NAME} {sorted(parameters(measure).items())}", []).append(i)
    return list(found.values())


def parameters(measure: Measure) -> dict[str, Any]:
    """Return a measure's parameters but for the cut-off, with their defaults.

    >>> parameters(alpha_nDCG @ 5)
    {'alpha': 0.5}
    """
    return {name: measure[name] for name in MEASURES[str(measure.NAME)].may_be_set}


def cutoff_of(measure: Measure) -> int | None:
    """Return how many passages a measure looks at, None for all."""
    return measure.params.get("cutoff")


def deepest(measures: Sequence[Measure]) -> int | None:
    """Return how many passages measures look at together, None for all."""
    cutoffs = [cutoff_of(m) for m in measures]
    return None if None in cutoffs else max(c for c in cutoffs if c is not None)


def check_same_questions(
    run: pd.DataFrame, verdicts: pd.DataFrame, questions: Sequence[Question], measures: Sequence[Measure] = ()
) -> None:
    """Refuse a run or verdicts of other questions, and a run without the lists that the measures would look at."""
    asked = {q.qid for q in questions}
    both = list_ids(questions)
    there = set(run["qid"].unique())
    for what, ids, found in (("run", both.keys(), there), ("verdicts", asked, set(verdicts["qid"].unique()))):
        if found and not ids & found:
            of, wanted = min(found), questions[0].qid
            raise InputError(f"the {what} and the questions do not belong together: {of!r} against {wanted!r} …")
    own = both.keys() - asked
    if there and looks_at_perspectives(measures) and not own & there:
        wanted = perspective_qid(questions[0].qid, 0)
        problem = f"pRecall needs a list for each perspective, under ids such as {wanted!r}"
        raise InputError(f"{problem}; `berds retrieve --perspectives` or bd.search(…, perspectives=True) makes them")
    if there and any_list(measures) and not asked & there:
        only = min(own & there)
        problem = f"the run holds lists of single perspectives only, such as {only!r}; search the questions, too"
        raise InputError(problem)


def lists_looked_at(questions: Sequence[Question], measures: Sequence[Measure]) -> dict[str, str]:
    """Return the ids of the lists that the measures look at: id → qid; without measures, each question's one list."""
    asked = {q.qid for q in questions}
    of_perspectives, of_questions = looks_at_perspectives(measures), any_list(measures)
    both = list_ids(questions).items()
    return {list_id: qid for list_id, qid in both if (of_questions if list_id in asked else of_perspectives)}


def tell_gaps(
    run: pd.DataFrame,
    verdicts: pd.DataFrame,
    questions: Sequence[Question],
    measures: Sequence[Measure] = (),
    called: str = "the run",
) -> None:
    """Log how many lists a run lacks, and whether the verdicts are about another corpus."""
    lists = lists_looked_at(questions, measures)
    if run.empty:
        return
    if unanswered := len(lists.keys() - set(run["qid"].unique())):
        logger.warning(
            "%d of %d questions have no passage in %s; they count as unanswered", unanswered, len(lists), called
        )
    top = run[run["rank"] <= 10]
    top = top.assign(qid=top["qid"].map(lists)).dropna(subset="qid")
    if len(verdicts) and not pairs_of(top).isin(pairs_of(verdicts)).any():
        logger.warning("no verdict is about a passage in the top 10 of %s; is it of another corpus?", called)


def single_perspectives(questions: Sequence[Question], measures: Iterable[str]) -> str:
    """Say how many questions have one perspective only, where MRecall or Coverage is asked for; "" for none.

    >>> single_perspectives([Question("q", "Who?", ("She.",))], ["MRecall@5", "P@5"])
    '1 of 1 questions have a single perspective, where MRecall amounts to a hit rate'
    """
    names = [name for name in ("MRecall", "Coverage") if any(m.partition("@")[0] == name for m in measures)]
    single = sum(len(q.perspectives) == 1 for q in questions)
    if not (names and single):
        return ""
    amount = "amounts" if len(names) == 1 else "amount"
    verdict = f"{' and '.join(names)} {amount} to a hit rate"
    return f"{single} of {len(questions)} questions have a single perspective, where {verdict}"


def looks_at_perspectives(measures: Iterable[Measure]) -> bool:
    """Return whether any of the measures looks at the lists that the perspectives of a question got."""
    return any(MEASURES[str(m.NAME)].own_lists for m in measures)


def any_list(measures: Sequence[Measure]) -> bool:
    """Return whether any of the measures looks at the one list that a question got; without measures, it is meant."""
    return not measures or not all(MEASURES[str(m.NAME)].own_lists for m in measures)


def official_cutoff(run: pd.DataFrame, questions: Sequence[Question]) -> int:
    """Return the k that the published evaluation script would use: the length of the first question's list.

    Only for that script's numbers: another order of the rows can change k, and MRecall with it (divergences.md B1).
    """
    first = check_questions(questions)[0].qid
    k = int((check_run(run)["qid"] == first).sum())
    if not k:
        raise InputError(f"the first question {first!r} has no passages in the run, whose number would be k")
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
        subtopics = {str(qid): tuple(own.unique()) for qid, own in qrels.groupby("query_id", sort=False)["iteration"]}
        super().__init__(measures, set(subtopics))
        self._questions = [Question(qid, qid, names) for qid, names in subtopics.items()]
        rows = zip(qrels["query_id"], qrels["iteration"], qrels["doc_id"], qrels["relevance"] > 0, strict=True)
        self._verdicts = make_verdicts(
            [(q, subtopics[q].index(i), d, float(r), bool(r)) for q, i, d, r in rows], "qrels"
        )

    def _iter_calc(self, run: Any) -> Iterator[Metric]:
        rows = ir_measures.util.RunConverter(run).as_pd_dataframe()
        # Ties as in trec_eval, which computes the other measures of the same call.
        frame = make_run_as_trec_eval(*(rows[column].tolist() for column in ("query_id", "doc_id", "score")))
        scores = evaluate(frame, self._verdicts, self._questions, self.measures)
        for measure in self.measures:
            for qid, value in scores[str(measure)].items():
                yield Metric(query_id=str(qid), measure=measure, value=float(value))


def _join_ir_measures() -> None:
    for name, kind in MEASURES.built_in().items():  # "Precision" is taken there, as another name of P
        registry.setdefault(name, kind.measure)
    if not any(isinstance(p, PerspectiveProvider) for p in ir_measures.providers.registry.values()):
        register(PerspectiveProvider())
        ir_measures.DefaultPipeline.providers.append(ir_measures.providers.registry[PerspectiveProvider.NAME])


_join_ir_measures()
