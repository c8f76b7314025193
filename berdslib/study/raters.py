"""The quality of judges: agreement with people's labels, and with gold's order of the systems."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.data.collection import Collection
from berdslib.data.corpus import by_docno
from berdslib.data.leaks import groups
from berdslib.data.readers import LabelledPair
from berdslib.data.records import Passage, Question, check_verdicts, issue_of
from berdslib.data.scenario import Scenario
from berdslib.errors import InputError
from berdslib.evaluation import system_order
from berdslib.evaluation.judge_error import corrected_mean
from berdslib.evaluation.judges import agreement, agreement_report, f1_difference, probability_report
from berdslib.evaluation.measures import (
    Measure,
    checked,
    cutoff_of,
    judged_questions,
    looks_at_perspectives,
    parse_measures,
    score_questions,
    single_perspectives,
)
from berdslib.evaluation.notes import percent_down, shares_judged
from berdslib.evaluation.oracle import oracle
from berdslib.files import StrPath
from berdslib.judging.base import Pair
from berdslib.judging.baselines import Random
from berdslib.judging.refit import Calibration, Refit, calibrate, logits_of
from berdslib.judging.registry import check_judge, make_judge
from berdslib.judging.store import VerdictStore, judge_pairs, pair_key
from berdslib.progress import begin, chunk_starts
from berdslib.stats import mean_interval
from berdslib.study import scoring
from berdslib.study.scoring import AnyJudge, Data, Settings, Store, Systems, is_recorded, judged
from berdslib.study.tables import MACRO, score_table

logger = logging.getLogger(__name__)

ALL_YES = "yes to everything"
ORACLE = "oracle"
GOLD = "gold"
# Below this, tau takes few values: with 5 systems, swapping two neighbours costs 0.2.
ENOUGH_SYSTEMS = 12
_Scores = Mapping[tuple[str, str], pd.DataFrame]  # (judge, measure) → questions x systems


# ---------------------------------------------------------------- agreement with labels


def judge_table(
    pairs: Sequence[LabelledPair], judges: Sequence[str], store: VerdictStore | None = None
) -> pd.DataFrame:
    """Measure judges against labels that serve for evaluation only (BeRDS Table 4).

    Intervals resample whole questions. The judge "random" says yes as often as the labels do (divergences.md B20).

    The columns are judge (the first judge says yes to everything), threshold, measure (fields of
    :class:`berdslib.evaluation.judges.Agreement`, auc, calibration_error), value, low, high.
    """
    for name in judges:
        check_judge(name)  # so that an unknown name fails before any judging
    all_yes = measured_by_labels(pairs, np.ones(len(pairs)), 0.5)
    reports = [all_yes.assign(judge=ALL_YES, threshold=0.5)]
    reports += [_judge_report(name, pairs, store) for name in dict.fromkeys(judges)]
    columns = ["judge", "threshold", "measure", "value", "low", "high"]
    return pd.concat(reports, ignore_index=True)[columns]


def _judge_report(name: str, pairs: Sequence[LabelledPair], store: VerdictStore | None) -> pd.DataFrame:
    """Return a judge's rows of :func:`judge_table`; its weights are freed before the next judge loads."""
    share_of_yes = float(np.mean([pair.label for pair in pairs]))
    judge = Random(share=share_of_yes) if name == "random" else make_judge(name)
    begin(f"{name} judges {len(pairs):,} labelled pairs")
    asked = as_asked(pairs)
    p_yes = judge_pairs(judge, asked, store)[0]
    seen = sum(pair_key(pair) in judge.pairs for pair in asked) if isinstance(judge, Refit) else 0
    if seen:
        logger.warning("%s was fitted to %d of these %d pairs; measure it on others", name, seen, len(pairs))
    read = ~np.isnan(p_yes)
    if not read.all():
        logger.warning("%d of %d pairs unread by %s: left out", (~read).sum(), len(pairs), name)
    labelled = [pair for pair, was_read in zip(pairs, read, strict=True) if was_read]
    report = measured_by_labels(labelled, p_yes[read], judge.threshold)
    return report.assign(judge=name, threshold=judge.threshold)


def repeat_table(pairs: Sequence[LabelledPair], judges: Sequence[str], times: int) -> pd.DataFrame:
    """Ask judges several times, without stored verdicts, and show how much their answers vary.

    Returns:
        Frame judge, times, changed (share of pairs without the same answer every time), spread (mean of the largest
        less the smallest probability of a pair), f1_low, f1_high (of the single times); unread answers count as no.
    """
    labels = np.array([pair.label for pair in pairs])
    rows = []
    for name in judges:
        judge = make_judge(name)
        p_yes = np.stack([np.nan_to_num(judge_pairs(judge, as_asked(pairs))[0]) for _ in range(times)])
        says = p_yes >= judge.threshold
        f1 = [agreement(labels, answers).f1 for answers in says]
        row = {"judge": name, "times": times, "changed": (says != says[0]).any(axis=0).mean()}
        rows.append(row | {"spread": np.ptp(p_yes, axis=0).mean(), "f1_low": min(f1), "f1_high": max(f1)})
    return pd.DataFrame(rows)


def most_doubtful(
    pairs: Sequence[Pair], judges: Sequence[str], n: int, store: VerdictStore | None = None
) -> tuple[list[Pair], list[float]]:
    """Return the n pairs on which judges differ most, whose labels teach most, and the doubt about each, falling.

    Doubt is the largest difference of the judges' ranks, as shares of the pairs: from 0 to 1. These pairs are no random
    draw and cannot evaluate a judge.
    """
    p_yes = [judge_pairs(make_judge(name), pairs, store)[0] for name in judges]
    if len(p_yes) < 2:
        raise InputError("doubt is what several judges differ about; name at least two", field="judges")
    ranks = np.stack([pd.Series(p).rank(pct=True).to_numpy() for p in p_yes])
    doubt = np.ptp(np.nan_to_num(ranks), axis=0)
    order = np.argsort(-doubt, kind="stable")[:n]
    return [pairs[i] for i in order.tolist()], doubt[order].tolist()


def labelled_by(name: str, pairs: Sequence[LabelledPair], store: VerdictStore | None = None) -> list[LabelledPair]:
    """Return pairs with a judge's answers as labels, without pairs whose answers are unread. BeRDS Table 18."""
    judge = make_judge(name)
    p_yes, _ = judge_pairs(judge, as_asked(pairs), store)
    answered = []
    for pair, p in zip(pairs, p_yes.tolist(), strict=True):
        if not np.isnan(p):
            answered.append(pair._replace(label=p >= judge.threshold))
    return answered


def as_asked(pairs: Sequence[LabelledPair]) -> list[Pair]:
    """Return labelled pairs in the form that judges take, without labels."""
    return [Pair(p.question, 0, Passage(str(i), p.document), p.perspective) for i, p in enumerate(pairs)]


def measured_by_labels(pairs: Sequence[LabelledPair], p_yes: np.ndarray, threshold: float) -> pd.DataFrame:
    """Return measure, value, low, high of a judge's probabilities for labelled pairs."""
    if not len(pairs):
        raise InputError("expected at least one labelled pair to measure a judge on")
    labels = np.array([pair.label for pair in pairs])
    questions = [pair.question for pair in pairs]
    answers = agreement_report(labels, p_yes >= threshold, questions)
    return pd.concat([answers, probability_report(labels, p_yes, questions)], ignore_index=True)


# ---------------------------------------------------------------- a judge fitted to labels


class Fit(NamedTuple):
    """A judge fitted to labels; ``table`` compares it with the judge as it is, by answers on held-out questions.

    ``gained`` is the difference of their F1 with its interval, ``thresholds`` the middle 95 % of the thresholds that
    other draws of the questions give.
    """

    judge: Refit
    table: pd.DataFrame
    gained: tuple[float, float, float]
    thresholds: tuple[float, float]


_ENOUGH_LABELLED = 20  # questions, from which a corrected mean is worth more than its noise
_FEWEST = 10  # labels of either kind, and questions: fewer give thresholds without a meaning
_STRENGTH = 1.0  # of the ridge on the slope
_FOLDS = 5


def fit_judge(
    name: str,
    pairs: Sequence[LabelledPair],
    store: VerdictStore | None = None,
    *,
    positive_share: float | None = None,
    draws: int = 200,
    seed: int = 0,
) -> Fit:
    """Fit the probabilities (Platt, 1999) and the threshold (best F1) of a judge to labelled pairs.

    Args:
        name: the judge.
        pairs: at least 10 of either label, about at least 10 questions.
        store: a store of the judge's verdicts.
        positive_share: the share of yes where the judge will be used; None for that of the pairs, if these were drawn
            at random there.
        draws: of questions, with replacement, for the spread of the threshold.
        seed: of these draws and of the five parts that are held out in turn.

    Raises:
        InputError: too few labels, or a judge that believes most in what the labels deny.
    """
    judge = make_judge(name)
    asked = as_asked(pairs)
    p_yes, _ = judge_pairs(judge, asked, store)
    read = ~np.isnan(p_yes)
    logits = logits_of(p_yes[read])
    labels = np.array([pair.label for pair in pairs])[read]
    questions = np.array([pair.question for pair in pairs])[read]
    names, of_question = np.unique(questions, return_inverse=True)
    fewest = min(int(labels.sum()), int((~labels).sum()), len(names))
    if fewest < _FEWEST:
        counts = f"{labels.sum()} of yes, {(~labels).sum()} of no and {len(names)} questions"
        raise InputError(f"labels are too few: {counts}; at least {_FEWEST} of each are needed", field="pairs")

    def fitted(chosen: np.ndarray) -> Calibration:
        share = positive_share or float(labels[chosen].mean())
        return calibrate(logits[chosen], labels[chosen], share, _STRENGTH)

    generator = np.random.default_rng(seed)
    part = generator.permutation(len(names))[of_question] % _FOLDS
    held_out = np.zeros(len(labels))
    answers = np.zeros(len(labels), dtype=bool)
    for number in range(_FOLDS):
        of_others = fitted(part != number)
        out = part == number
        held_out[out] = of_others.p_yes(logits[out])
        answers[out] = held_out[out] >= of_others.threshold
    as_it_is = p_yes[read] >= judge.threshold
    tables = []
    for label, says, p in (("as it is", as_it_is, p_yes[read]), ("fitted", answers, held_out)):
        measured = [agreement_report(labels, says, questions), probability_report(labels, p, questions)]
        table = pd.concat(measured, ignore_index=True).assign(judge=label)
        tables.append(table[table["measure"] != "auc"])  # a fit keeps the order of the pairs, five fits do not
    thresholds: list[float] = []
    members = [np.flatnonzero(of_question == number) for number in range(len(names))]
    while len(thresholds) < draws:
        chosen = np.concatenate([members[i] for i in generator.integers(len(names), size=len(names))])
        if 0 < labels[chosen].sum() < len(chosen):
            thresholds.append(fitted(chosen).threshold)
    low, high = np.quantile(thresholds, [0.025, 0.975])
    whole = fitted(np.arange(len(labels)))
    if whole.slope <= 0:
        problem = f"the more probable {name} finds a yes, the fewer of your labels are one"
        raise InputError(f"{problem}; check the labels, or fit another judge", field="pairs")
    gained = f1_difference(labels, as_it_is, answers, questions)
    keys = (pair_key(pair) for pair, was_read in zip(asked, read, strict=True) if was_read)
    f1 = 100 * agreement(labels, answers).f1
    note = f"F1 {f1:.1f} on labels held out, {_gain(gained)} than {name}"
    return Fit(Refit(judge, whole, keys, note), pd.concat(tables, ignore_index=True), gained, (float(low), float(high)))


def _gain(gained: tuple[float, float, float]) -> str:
    """Say whether a gain in F1, with its interval, is shown."""
    value, low, high = (100 * each for each in gained)
    shown = "better" if low > 0 else "worse" if high < 0 else "not shown to be better"
    return f"{shown} ({value:+.1f} points [{low:+.1f}, {high:+.1f}])"


# ---------------------------------------------------------------- scores by a judge, corrected by some labels


def corrected_scores(
    runs: Mapping[str, pd.DataFrame],
    by_judge: pd.DataFrame,
    gold: pd.DataFrame,
    questions: Sequence[Question],
    measures: Measure | str | Iterable[Measure | str],
) -> pd.DataFrame:
    """Correct a judge's mean scores by gold on some questions, which must be a random draw of them.

    A passage within the cut-off that the judge has not read, or that gold does not judge, counts as a no; the log names
    runs with such passages.

    Returns:
        Frame system, measure, n, labelled; read: the share of the places within the cut-off that the judge has read;
        judge, labels and corrected, each with _low and _high: the mean by the judge
        alone, by the labels alone, and both together, see :func:`berdslib.evaluation.judge_error.corrected_mean`. Means
        and limits of shares are cut off at 0 and 1. Where the labels show no error, or all
        questions have labels, the corrected mean has the interval of the labels alone.
    """
    measures = parse_measures(measures)
    read = shares_judged(runs, by_judge, questions, measures)
    _warn_of_unread("the judge has read", read)
    labelled = judged_questions(questions, check_verdicts(gold), [], recorded=True)
    _warn_of_unread("the labels cover", shares_judged(runs, gold, labelled, measures))
    rows = []
    for name, run in runs.items():
        judged_by = {}
        for whose, verdicts in (("judge", by_judge), ("gold", gold)):
            clean, clean_verdicts = checked(run, verdicts, questions, measures)
            asked = judged_questions(questions, clean_verdicts, [clean], recorded=whose == "gold")
            judged_by[whose] = score_questions(clean, clean_verdicts, asked, measures)
        theirs = judged_by["judge"]
        labels = judged_by["gold"].reindex(theirs.index)
        issues = [issue_of(question) for question in questions if question.qid in theirs.index]
        for measure, parsed in zip(theirs, measures, strict=True):
            f, h = theirs[measure].to_numpy(), labels[measure].to_numpy()
            found = corrected_mean(f, h, clusters=issues)
            known_ones = ~np.isnan(h)
            low, high = mean_interval(h[known_ones])
            of_labels = (float(h[known_ones].mean()), low, high)
            both = (found.value, found.low, found.high)
            no_error_seen = found.low == found.high  # with few labels, which does not mean that there is none
            if no_error_seen or found.labelled == found.n:
                both = (found.value, low, high)
            estimates = {"judge": (found.judge_value, *mean_interval(f)), "labels": of_labels}
            estimates["corrected"] = both
            row: dict[str, Any] = {"system": name, "measure": measure, "n": found.n, "labelled": found.labelled}
            row["read"] = read[cutoff_of(parsed)].get(name, np.nan)
            is_share = bool(((f >= 0) & (f <= 1)).all())
            for whose, (value, least, most) in estimates.items():
                limits = np.clip((value, least, most), 0, 1) if is_share else np.array((value, least, most))
                row |= dict(zip((whose, f"{whose}_low", f"{whose}_high"), limits.tolist(), strict=True))
            rows.append(row)
    table = pd.DataFrame(rows)
    if table["labelled"].min() < _ENOUGH_LABELLED:
        few = int(table["labelled"].min())
        logger.warning("%d labelled questions: with fewer than %d, trust the labels alone", few, _ENOUGH_LABELLED)
    return table


def _warn_of_unread(who: str, shares: Mapping[int | None, pd.Series]) -> None:
    """Log the runs of which not every place within a cut-off has a verdict; see :func:`shares_judged`."""
    for k, of_runs in shares.items():
        where = f"the first {k} places" if k else "the whole lists"
        for name, share in of_runs[of_runs < 1].items():
            percent = percent_down(share)
            logger.warning("%s: %s %s of %s; the other passages count as a no", name, who, percent, where)


# ---------------------------------------------------------------- agreement with gold's order of the systems


@dataclass(frozen=True, eq=False)
class JudgedSystems:
    """The scores of the same runs by several judges and by gold.

    ``table``: system, judge ("gold" first), measure, n, mean, low, high; the system "oracle" is the best list that the
    pooled passages allow, and is not compared. ``order``: for each judge and measure, tau and agreement
    with gold, see :mod:`berdslib.evaluation.system_order`. ``labels``: the results of its ``labelling_trials``.
    ``scores``: (judge, measure) → frame, questions x systems. ``pairs``: the number of pairs that each judge judged.
    """

    table: pd.DataFrame
    order: pd.DataFrame
    labels: pd.DataFrame
    scores: dict[tuple[str, str], pd.DataFrame]
    runs: dict[str, pd.DataFrame]
    pairs: int


def judge_systems(
    systems: Systems,
    data: Data,
    judges: str | Sequence[str],
    measures: Measure | str | Iterable[Measure | str] = ("MRecall@5", "Precision@5"),
    *,
    labelled: Sequence[int] = (20, 40),
    draws: int = 200,
    aspect_judge: AnyJudge = "laptop",
    depth: int = 100,
    recordings: StrPath | None = None,
    store: Store = None,
) -> JudgedSystems:
    """Score the same runs by gold and by judges, and compare the orders of the systems.

    The passages of all systems within the deepest cut-off are pooled and judged once. Questions that overlap
    (:func:`berdslib.data.leaks.groups`) are resampled together. Systems must not use gold, and tau is informative for
    about 12 systems or more. `labelled` holds numbers of questions that people label; each is simulated in `draws`
    trials.
    """
    judges = [judges] if isinstance(judges, str) else list(dict.fromkeys(judges))
    wanted = parse_measures(measures)
    collection = scoring.collection_of(data)
    named = scoring.named_systems(systems)
    settings = Settings(aspect_judge=aspect_judge, depth=depth, recordings=recordings, store=store)
    names = [str(measure) for measure in wanted]
    k = scoring.deepest(wanted)
    _check(collection, list(named), judges, wanted)
    chosen = {name: make_judge(name) for name in judges}  # so that an unknown judge fails before the search
    runs = scoring.run_systems(named, collection, k, settings)
    gold = scoring.verdicts_on(runs, collection, None, k, store)
    questions = scoring.to_be_scored(collection, gold, [*runs.values()], recorded=True)
    finished = [name for name, system in named.items() if isinstance(system, pd.DataFrame)]
    for note in scoring.table_notes(runs, gold, questions, [collection], wanted, finished=finished, recorded=True):
        logger.warning("%s", note)
    collection = collection.only(questions)
    clusters = question_clusters(collection)
    verdicts = {GOLD: gold}
    for name, judge in chosen.items():
        verdicts[name] = judged(runs.values(), collection, judge, k, store)
    pool = scoring.pooled(runs.values(), questions, k)
    if len(pool):
        runs[ORACLE] = oracle(pool, gold, questions, k, depth=len(pool))
    clustered = [q._replace(source="", issue=cluster) for q, cluster in zip(questions, clusters, strict=True)]
    passages = by_docno(collection.passages)
    tables = []
    scores = dict[tuple[str, str], pd.DataFrame]()
    for judge_name, by_judge in verdicts.items():
        of_systems = {
            system: score_questions(run, by_judge, questions, wanted, passages) for system, run in runs.items()
        }
        table = score_table(of_systems, clustered)
        tables.append(table[table["dataset"] == MACRO].assign(judge=judge_name))
        for measure in names:
            columns = {system: frame[measure] for system, frame in of_systems.items()}
            scores[judge_name, measure] = pd.DataFrame(columns)
    means = pd.concat(tables, ignore_index=True)[["system", "judge", "measure", "n", "mean", "low", "high"]]
    order = order_table(scores, clusters, list(named), judges, names)
    labels = _labels(scores, clusters, list(named), list(product(judges, names, labelled)), draws)
    return JudgedSystems(means, order, labels, scores, runs, len(verdicts[judges[0]]))


def order_table(
    scores: _Scores, clusters: Sequence[str], systems: Sequence[str], judges: Sequence[str], measures: Sequence[str]
) -> pd.DataFrame:
    """Compare each judge's scores of systems with gold's; return the table ``order`` of :class:`JudgedSystems`."""
    rows = []
    for measure in measures:
        gold = scores[GOLD, measure][list(systems)]
        differing = system_order.system_pairs(gold, clusters)
        for judge in judges:
            theirs = scores[judge, measure][list(systems)]
            estimates = {"tau": system_order.system_tau(gold, theirs, clusters)}
            estimates |= system_order.question_agreement(gold, theirs, clusters)
            row: dict[str, Any] = {"judge": judge, "measure": measure, "systems": len(systems)}
            for name, (value, low, high) in estimates.items():
                row |= {name: value, f"{name}_low": low, f"{name}_high": high}
            rows.append(row | system_order.ordered_alike(differing, theirs))
    return pd.DataFrame(rows)


def score_sheet(result: JudgedSystems) -> pd.DataFrame:
    """Return the systems' means in a wide table: one row per system, one column per measure and judge."""
    columns = {f"{measure} {judge}": frame.mean() for (judge, measure), frame in result.scores.items()}
    return pd.DataFrame(columns).rename_axis("system").reset_index()


def question_clusters(collection: Collection) -> list[str]:
    """Return the cluster of each question of a collection, named after the first of the overlapping questions."""
    first = {}
    for members in groups(collection.questions):
        first.update(dict.fromkeys(members, members[0]))
    return [first[q.qid] for q in collection.questions]


def _labels(
    scores: _Scores, clusters: list[str], systems: list[str], trials: Sequence[tuple[str, str, int]], draws: int
) -> pd.DataFrame:
    """Return the labelling trials for each (judge, measure, number of questions), skipping numbers above the total."""
    possible = [trial for trial in trials if trial[2] <= len(clusters)]
    if len(possible) < len(trials):
        logger.warning("numbers of labelled questions above %d, the number of questions, are skipped", len(clusters))
    parts = []
    for place in chunk_starts(len(possible), 1, "labelling trials"):
        judge, measure, n = possible[place]
        gold = scores[GOLD, measure][systems]
        theirs = scores[judge, measure][systems]
        trial = system_order.labelling_trials(gold, theirs, clusters, n, draws=draws)
        parts.append(trial.assign(judge=judge, measure=measure))
    columns = ["judge", "measure", *system_order.SUMMARY]
    if not parts:
        return pd.DataFrame(columns=columns)
    return pd.concat(parts, ignore_index=True)[columns]


def _check(collection: Collection, systems: Sequence[str], judges: Sequence[str], measures: Sequence[Measure]) -> None:
    """Refuse input that cannot be compared, before the search; warn if there are few systems."""
    if isinstance(collection, Scenario) or collection.gold is None or not collection.passages:
        problem = "judges are compared with recorded verdicts on passages; choose a data set with both"
        raise InputError(f"{collection.name!r}: {problem}", field="data")
    if len(systems) < 2:
        problem = f"an order needs at least two systems, and a reliable order {ENOUGH_SYSTEMS} or more"
        raise InputError(problem, field="systems")
    if ORACLE in systems:
        problem = f"{ORACLE!r} is reserved for the best possible list; rename this system"
        raise InputError(problem, field="systems")
    if not judges or any(is_recorded(name) for name in judges):
        problem = "name judges to compare with gold, such as 'laptop'; gold itself is always included"
        raise InputError(problem, field="judges")
    if looks_at_perspectives(measures):
        problem = "pRecall needs a list for each perspective; judges can be compared by measures of one list only"
        raise InputError(problem, field="measures")
    scoring.check_readable(collection)
    warning = single_perspectives(collection.questions, map(str, measures))
    if warning:
        logger.warning("%s", warning)
    if len(systems) < ENOUGH_SYSTEMS:
        logger.warning("%d systems: with fewer than %d, tau changes in large steps", len(systems), ENOUGH_SYSTEMS)
