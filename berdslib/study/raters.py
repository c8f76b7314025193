"""How good are judges: beside people's labels, and as instruments that order systems as gold does."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from berdslib.data.collection import Collection
from berdslib.data.leaks import groups
from berdslib.data.readers import LabelledPair
from berdslib.data.records import Passage
from berdslib.data.scenario import Scenario
from berdslib.errors import InputError
from berdslib.evaluation import system_order
from berdslib.evaluation.judges import agreement_report, probability_report
from berdslib.evaluation.measures import (
    Measure,
    looks_at_perspectives,
    parse_measures,
    score_questions,
    single_perspectives,
)
from berdslib.evaluation.oracle import oracle
from berdslib.files import StrPath
from berdslib.judging.base import Pair
from berdslib.judging.baselines import Random
from berdslib.judging.registry import check_judge, make_judge
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.progress import begin, chunk_starts
from berdslib.study import scoring
from berdslib.study.scoring import AnyJudge, Data, Settings, Store, Systems, is_recorded, judged
from berdslib.study.tables import MACRO, score_table

logger = logging.getLogger(__name__)

ALL_YES = "yes to everything"
ORACLE, GOLD = "oracle", "gold"
# Fewer make a tau of few steps: of 5 systems, one exchange of neighbours costs 0.2.
ENOUGH_SYSTEMS = 12
_Scores = Mapping[tuple[str, str], pd.DataFrame]  # (judge, measure) → questions x systems


# ---------------------------------------------------------------- beside labels


def judge_table(
    pairs: Sequence[LabelledPair], judges: Sequence[str], store: VerdictStore | None = None
) -> pd.DataFrame:
    """Measure judges against labels, for measuring only; intervals draw whole questions. BeRDS Table 4.

    "random" says yes as often as the labels do (divergences.md B20).

    Frame judge (the first says yes to everything), threshold, measure (fields of
    :class:`berdslib.evaluation.judges.Agreement`, auc, calibration_error), value, low, high.
    """
    for name in judges:
        check_judge(name)  # before anything is judged
    reports = [measured_by_labels(pairs, np.ones(len(pairs)), 0.5).assign(judge=ALL_YES, threshold=0.5)]
    reports += [_judge_report(name, pairs, store) for name in dict.fromkeys(judges)]
    return pd.concat(reports, ignore_index=True)[["judge", "threshold", "measure", "value", "low", "high"]]


def _judge_report(name: str, pairs: Sequence[LabelledPair], store: VerdictStore | None) -> pd.DataFrame:
    """Return a judge's rows of :func:`judge_table`; its weights are gone before the next one's are loaded."""
    share = float(np.mean([p.label for p in pairs]))
    judge = Random(share=share) if name == "random" else make_judge(name)
    begin(f"{name} judges {len(pairs):,} labelled pairs")
    p_yes = judge_pairs(judge, as_asked(pairs), store)[0]
    read = ~np.isnan(p_yes)
    if not read.all():
        logger.warning("%d of %d pairs unread by %s: left out", (~read).sum(), len(pairs), name)
    labelled = [pair for pair, was_read in zip(pairs, read, strict=True) if was_read]
    report = measured_by_labels(labelled, p_yes[read], judge.threshold)
    return report.assign(judge=name, threshold=judge.threshold)


def labelled_by(name: str, pairs: Sequence[LabelledPair], store: VerdictStore | None = None) -> list[LabelledPair]:
    """Return pairs with what a judge answers for labels; those that it could not read are left out. BeRDS Table 18."""
    judge = make_judge(name)
    p_yes, _ = judge_pairs(judge, as_asked(pairs), store)
    answered = [(pair, p) for pair, p in zip(pairs, p_yes.tolist(), strict=True) if not np.isnan(p)]
    return [pair._replace(label=p >= judge.threshold) for pair, p in answered]


def as_asked(pairs: Sequence[LabelledPair]) -> list[Pair]:
    """Return labelled pairs as a judge is asked them: without the label."""
    return [Pair(p.question, 0, Passage(str(i), p.document), p.perspective) for i, p in enumerate(pairs)]


def measured_by_labels(pairs: Sequence[LabelledPair], p_yes: np.ndarray, threshold: float) -> pd.DataFrame:
    """Return measure, value, low, high of a judge's probabilities for labelled pairs."""
    if not len(pairs):
        raise InputError("there are no pairs to measure a judge on")
    labels, questions = np.array([p.label for p in pairs]), [p.question for p in pairs]
    answers = agreement_report(labels, p_yes >= threshold, questions)
    return pd.concat([answers, probability_report(labels, p_yes, questions)], ignore_index=True)


# ---------------------------------------------------------------- as instruments


@dataclass(frozen=True, eq=False)
class JudgedSystems:
    """What judges make of the same runs, beside gold.

    ``table``: system, judge ("gold" first), measure, n, mean, low, high; the system "oracle" is the best list that
    could be made of all, shown only. ``order``: for each judge and measure, tau and agreement with gold, see
    :mod:`berdslib.evaluation.system_order`. ``labels``: of its ``labelling_trials``. ``scores``: (judge, measure) →
    frame, questions x systems. ``pairs``: how many each judge was asked.
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

    What the systems list within the deepest cut-off is judged once for all. Questions that overlap
    (:func:`berdslib.data.leaks.groups`) are drawn together. None of the systems may see gold, and 12 or more make a tau
    that says much; `labelled` are numbers of questions that people label, tried in `draws` trials each.
    """
    judges = [judges] if isinstance(judges, str) else list(dict.fromkeys(judges))
    wanted, collection, named = parse_measures(measures), scoring.collection_of(data), scoring.named_systems(systems)
    settings = Settings(aspect_judge=aspect_judge, depth=depth, recordings=recordings, store=store)
    names = [str(measure) for measure in wanted]
    k = scoring.deepest(wanted)
    _check(collection, list(named), judges, wanted)
    chosen = {name: make_judge(name) for name in judges}  # before anything is searched
    runs = scoring.search(named, collection, k, settings)
    gold = scoring.verdicts_on(runs, collection, None, k, store)
    questions = scoring.to_be_scored(collection, gold, [*runs.values()], recorded=True)
    finished = [name for name, system in named.items() if isinstance(system, pd.DataFrame)]
    for note in scoring.table_notes(runs, gold, questions, [collection], wanted, finished=finished, recorded=True):
        logger.warning("%s", note)
    collection = collection.only(questions)
    clusters = question_clusters(collection)
    verdicts = {GOLD: gold} | {n: judged(runs.values(), collection, judge, k, store) for n, judge in chosen.items()}
    pool = scoring.pooled(runs.values(), questions, k)
    if len(pool):
        runs[ORACLE] = oracle(pool, gold, questions, k, depth=len(pool))
    together = [q._replace(source="", root=cluster) for q, cluster in zip(questions, clusters, strict=True)]
    tables, scores = [], dict[tuple[str, str], pd.DataFrame]()
    for judge, said in verdicts.items():
        found = {system: score_questions(run, said, questions, wanted) for system, run in runs.items()}
        table = score_table(found, together)
        tables.append(table[table["dataset"] == MACRO].assign(judge=judge))
        scores |= {(judge, m): pd.DataFrame({s: frame[m] for s, frame in found.items()}) for m in names}
    means = pd.concat(tables, ignore_index=True)[["system", "judge", "measure", "n", "mean", "low", "high"]]
    order = order_table(scores, clusters, list(named), judges, names)
    labels = _labels(scores, clusters, list(named), list(product(judges, names, labelled)), draws)
    return JudgedSystems(means, order, labels, scores, runs, len(verdicts[judges[0]]))


def order_table(
    scores: _Scores, clusters: Sequence[str], systems: Sequence[str], judges: Sequence[str], measures: Sequence[str]
) -> pd.DataFrame:
    """Compare each judge's scores of two systems or more with gold's: the table ``order`` of :class:`JudgedSystems`."""
    rows = []
    for measure in measures:
        gold = scores[GOLD, measure][list(systems)]
        differing = system_order.system_pairs(gold, clusters)
        for judge in judges:
            theirs = scores[judge, measure][list(systems)]
            found = {"tau": system_order.system_tau(gold, theirs, clusters)}
            found |= system_order.question_agreement(gold, theirs, clusters)
            ends = {f"{n}{end}": v for n, e in found.items() for end, v in zip(("", "_low", "_high"), e, strict=True)}
            about = {"judge": judge, "measure": measure, "systems": len(systems)}
            rows.append({**about, **ends, **system_order.ordered_alike(differing, theirs)})
    return pd.DataFrame(rows)


def score_sheet(result: JudgedSystems) -> pd.DataFrame:
    """Return the means of the systems as a table to be read: a row a system, a column for each measure and judge."""
    columns = {f"{measure} {judge}": frame.mean() for (judge, measure), frame in result.scores.items()}
    return pd.DataFrame(columns).rename_axis("system").reset_index()


def question_clusters(collection: Collection) -> list[str]:
    """Return what each question of a collection is drawn with: the first of the questions that it overlaps with."""
    together = groups(collection.questions)
    first = {qid: members[0] for members in together for qid in members}
    return [first[q.qid] for q in collection.questions]


def _labels(
    scores: _Scores, clusters: list[str], systems: list[str], trials: Sequence[tuple[str, str, int]], draws: int
) -> pd.DataFrame:
    """Return what labels of so many questions give, for each (judge, measure, number); none of more than there are."""
    possible, parts = [trial for trial in trials if trial[2] <= len(clusters)], []
    if len(possible) < len(trials):
        logger.warning("no more questions can be labelled than there are: %d", len(clusters))
    for place in chunk_starts(len(possible), 1, "trials of labels"):
        judge, measure, n = possible[place]
        gold, theirs = (scores[who, measure][systems] for who in (GOLD, judge))
        found = system_order.labelling_trials(gold, theirs, clusters, n, draws=draws)
        parts.append(found.assign(judge=judge, measure=measure))
    columns = ["judge", "measure", *system_order.SUMMARY]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _check(collection: Collection, systems: Sequence[str], judges: Sequence[str], measures: Sequence[Measure]) -> None:
    """Refuse what cannot be compared, before anything has been searched; say if there are few systems."""
    bare = isinstance(collection, Scenario) or collection.gold is None or not collection.passages
    both = "judges are compared with recorded verdicts on passages; take a data set that has both"
    few = f"an order needs two systems at least, and {ENOUGH_SYSTEMS} or more to say much; there is one"
    recorded = not judges or any(is_recorded(name) for name in judges)
    of_one_list = "pRecall looks at a list for each perspective; measures of one list are compared here"
    for wrong, field, problem in (
        (bare, "data", f"{collection.name!r}: {both}"),
        (len(systems) < 2, "systems", few),
        (ORACLE in systems, "systems", f"{ORACLE!r} is what the best possible list is called; rename this system"),
        (recorded, "judges", "name judges to be compared with gold, such as 'laptop'; gold itself is there anyway"),
        (looks_at_perspectives(measures), "measures", of_one_list),
    ):
        if wrong:
            raise InputError(problem, field=field)
    scoring.check_readable(collection)
    if said := single_perspectives(collection.questions, map(str, measures)):
        logger.warning("%s", said)
    if len(systems) < ENOUGH_SYSTEMS:
        logger.warning("%d systems: a tau of fewer than %d moves in large steps", len(systems), ENOUGH_SYSTEMS)
