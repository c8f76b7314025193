"""Ways to better one retriever's lists: each is set on some of the questions, and scored once on the others.

A way is what stands behind the retriever in a system string, with the weights left out: "mmr", "expand:recorded",
"expand:rule+mmr"; "none" is the retriever alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import pandas as pd

from berdslib.data.collection import Collection
from berdslib.data.records import Question, check_k
from berdslib.errors import InputError
from berdslib.evaluation.compare import letters
from berdslib.evaluation.measures import Measure, evaluate, parse_measures
from berdslib.evaluation.oracle import oracle
from berdslib.judging.base import Judge
from berdslib.judging.store import VerdictStore
from berdslib.retrieval.base import Retriever
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.parts import EXPANDING, RECORDED, parse_system
from berdslib.study.arguments import AnyJudge, Store, judge_of, store_of
from berdslib.study.experiment import MACRO, build, judged, paper_table, score_table, search
from berdslib.study.tuning import choose_system, dev_test_split, gain_recovered, gains_and_losses

NONE, ORACLE = "none", "oracle"
WAYS = (
    "mmr",
    "dpp",
    "pm2",
    "coverage",
    "expand:recorded",
    "expand:rule",
    "multi:recorded",
    "multi:rule",
    "expand:recorded+mmr",
    "expand:rule+mmr",
)
WEIGHTS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True, eq=False)
class Lists:
    """What became of one retriever's lists.

    Args:
        table: one row a way and measure, scored on the held-out questions: retriever, way, system (the weight is part
            of it), measure, n, mean, low, high (macro over data sets, 95 % interval), gain, gain_low, gain_high (paired
            difference from the retriever), p_value (Holm over the ways), letters (ways that share one are not shown to
            differ, Holm over all pairs), share (of the oracle's gain), chosen, note. A way that could not be tried has
            no numbers, and a note that says why.
        tried: every system on the questions to choose by, see :func:`berdslib.study.tuning.gains_and_losses`, and its
            way.
        runs: system → run, on all questions.
        winner: the way that would have been chosen among all.
        choosing: the questions that settings were chosen on.
        held_out: the questions that were scored once.
    """

    table: pd.DataFrame
    tried: pd.DataFrame
    runs: dict[str, pd.DataFrame]
    winner: str
    choosing: list[Question]
    held_out: list[Question]

    @property
    def shown(self) -> pd.DataFrame:
        """The table as the papers print it: a row a way, in percent, with intervals, stars and letters."""
        scored = self.table[self.table["mean"].notna()].drop(columns="system").rename(columns={"way": "system"})
        found = {str(measure): part.set_index("system")["letters"] for measure, part in scored.groupby("measure")}
        wide = paper_table(scored.assign(dataset=MACRO), intervals=True, letters=found)[MACRO]
        first = self.table.drop_duplicates("way").set_index("way")  # the system and the note are the same in all rows
        return first[["system"]].join(wide).join(first["note"]).fillna("")


def systems_of(retriever: str, way: str, weights: Sequence[float] = WEIGHTS) -> list[str]:
    """Return the systems of a way: one for each weight, or one where nothing in it has a weight.

    Raises:
        InputError: a way that is no part of a system, or one with weights of which there are none.

    >>> systems_of("bm25", "expand:rule+mmr", [0.5, 0.9])
    ['bm25+expand:rule+mmr:0.5', 'bm25+expand:rule+mmr:0.9']
    """
    if way == NONE:
        return [parse_system(retriever).text]
    parts = way.split("+")
    if not any(part in DIVERSIFIERS for part in parts):
        return [parse_system(f"{retriever}+{way}").text]
    if not weights:
        raise InputError(f"{way!r} has a relevance weight, and there are none to try", field="weights")
    weighed = ["+".join(f"{part}:{weight:g}" if part in DIVERSIFIERS else part for part in parts) for weight in weights]
    return [parse_system(f"{retriever}+{one}").text for one in weighed]


def lists_table(
    retriever: str,
    data: Collection,
    *,
    judge: AnyJudge = None,
    aspect_judge: AnyJudge = "laptop",
    ways: Sequence[str] = WAYS,
    weights: Sequence[float] = WEIGHTS,
    k: int = 5,
    deeper: int = 10,
    depth: int = 100,
    most_loss: float = 0.01,
    store: Store = None,
    seed: int = 0,
) -> Lists:
    """Try every way at every weight on some of the questions, and score each way's best once on the others.

    Candidates are searched once for each set of queries, and reordered many times. The questions to choose by are those
    of :func:`berdslib.study.tuning.dev_test_split`; best is the largest gain in MRecall@k among the weights that lose
    no more of Precision@k than allowed, or the smallest loss where all lose more, which the note then says.

    Args:
        retriever: finds the candidates.
        data: questions, passages and recorded expansions; ways that need these are left out where there are none.
        judge: scores, as for :func:`berdslib.study.experiment.experiment`; None for recorded verdicts.
        aspect_judge: reads passages for generated perspectives, for ways that go by these; never the one that scores.
        ways: what is tried beside the retriever alone.
        weights: relevance weights of diversifiers.
        k: the cut-off that is chosen by.
        deeper: a second cut-off of MRecall for the held-out questions.
        depth: candidates of each question, also the oracle's; all of the held-out ones are judged.
        most_loss: share of Precision@k that may be lost.
        store: where verdicts are kept; None for the user's cache.
        seed: of split and tests.

    Raises:
        InputError: an unknown way, retriever or judge; one judge that both reorders and scores; a source with a single
            question.
    """
    for cutoff in (k, deeper, depth):
        check_k(cutoff)
    offered = {way: systems_of(retriever, way, weights) for way in dict.fromkeys([NONE, *ways])}
    without = {way: note for way, (system, *_) in offered.items() if (note := _left_out(system, data))}
    way_of = {system: way for way, systems in offered.items() for system in systems if way not in without}
    gain, cost = f"MRecall@{k}", f"Precision@{k}"
    choosing, held_out = dev_test_split(data.questions, seed)
    scorer, kept = judge_of(judge, data), store_of(store)

    @cache
    def covering() -> Judge:
        found = judge_of(aspect_judge, data)
        if found.id == scorer.id:
            raise InputError(f"{found.id} scores; another judge must reorder lists", field="aspect_judge")
        return found

    built = build({s: s for s in way_of}, data, aspect_judge=covering, store=kept, depth=depth)
    runs = {name: _whole(name, system, data, k=max(k, deeper), depth=depth) for name, system in built.items()}
    first = parse_system(retriever).text

    scores = _scores(runs, data.only(choosing), [cost, gain], scorer, kept)
    tried = gains_and_losses(scores, choosing, first, gain=gain, cost=cost)
    tried["way"] = tried["system"].map(way_of)
    least = tried.groupby("way", sort=False)["loss"].min()
    best = {str(way): choose_system(part, max(most_loss, least[way])) for way, part in tried.groupby("way", sort=False)}
    winner = way_of[choose_system(tried, most_loss)]
    notes = {way: f"loses {loss:.1%} of {cost} where it was chosen" for way, loss in least.items() if loss > most_loss}

    finalists = {way: runs[system] for way, system in best.items()}
    measures = list(dict.fromkeys([cost, gain, f"MRecall@{deeper}"]))
    scores = _scores(finalists, data.only(held_out), measures, scorer, kept)
    scores[ORACLE] = _oracle(runs[first], data.only(held_out), measures, scorer, kept, depth)
    table = _table(scores, held_out, seed).assign(retriever=retriever)
    table["system"] = [best.get(way, "") for way in table["way"]]
    table["chosen"] = table["way"] == winner
    table["note"] = [notes.get(way, "") for way in table["way"]]
    table = _with_left_out(table, offered, without, measures)
    return Lists(table, tried, runs, winner, choosing, held_out)


def _left_out(system: str, data: Collection) -> str:
    """Return why a system cannot be tried on a collection, or ""."""
    asks = parse_system(system).values(*EXPANDING)
    return "left out: no recorded expansions" if RECORDED in asks and not data.expansions else ""


def _whole(name: str, system: Retriever | pd.DataFrame, data: Collection, *, k: int, depth: int) -> pd.DataFrame:
    """Return a system's run; what only finds candidates goes as deep as what reorders them: one search serves both."""
    assert not isinstance(system, pd.DataFrame)  # all are built of strings
    read = parse_system(name)
    return search(system, data, k if read.parts and read.chooses else max(k, depth))


def _scores(
    runs: Mapping[str, pd.DataFrame],
    data: Collection,
    measures: Iterable[Measure | str],
    judge: Judge,
    store: VerdictStore,
) -> dict[str, pd.DataFrame]:
    """Judge what runs list for a collection's questions, and score it: name → frame qid x measure."""
    wanted, ids = parse_measures(measures), {q.qid for q in data.questions}
    mine = {name: run[run["qid"].isin(ids)] for name, run in runs.items()}
    verdicts = judged(mine.values(), data, judge, max(m["cutoff"] for m in wanted), store)
    return {name: evaluate(run, verdicts, data.questions, wanted) for name, run in mine.items()}


def _oracle(
    run: pd.DataFrame, data: Collection, measures: Sequence[str], judge: Judge, store: VerdictStore, depth: int
) -> pd.DataFrame:
    """Return the scores of the best lists of a run's candidates, by each measure's own cut-off."""
    mine = run[run["qid"].isin({q.qid for q in data.questions})]
    verdicts = judged([mine], data, judge, depth, store)
    columns = []
    for measure in parse_measures(measures):
        best = oracle(mine, verdicts, data.questions, measure["cutoff"], depth=depth)
        columns.append(evaluate(best, verdicts, data.questions, [measure]))
    return pd.concat(columns, axis=1)


def _table(scores: Mapping[str, pd.DataFrame], questions: Sequence[Question], seed: int) -> pd.DataFrame:
    """Return means, intervals and tests of each way's scores, and how far towards the oracle it got."""
    tested = {way: frame for way, frame in scores.items() if way != ORACLE}  # nobody asks whether the oracle is better
    parts = [
        score_table(tested, questions, baseline=NONE, seed=seed),
        score_table({ORACLE: scores[ORACLE]}, questions, seed=seed),
    ]
    table = pd.concat([part[part["dataset"] == MACRO].drop(columns=["dataset", "difference"]) for part in parts])
    ways = [
        gain_recovered(scores, questions, NONE, way, ORACLE, measure=measure)
        for way, measure in zip(table["system"], table["measure"], strict=True)
    ]
    for column in ("gain", "gain_low", "gain_high", "share"):
        table[column] = [way[column] for way in ways]
    shared = {measure: letters(tested, questions, measure, seed=seed) for measure in table["measure"].unique()}
    pairs = zip(table["measure"], table["system"], strict=True)
    table["letters"] = [shared[measure].get(way, "") for measure, way in pairs]
    return table.rename(columns={"system": "way"}).reset_index(drop=True)


def _with_left_out(
    table: pd.DataFrame, offered: Mapping[str, Sequence[str]], without: Mapping[str, str], measures: Sequence[str]
) -> pd.DataFrame:
    """Return a table with a row for each way and measure, in the order in which they were offered, the oracle last."""
    rows = [{"way": way, "measure": m, "note": note} for way, note in without.items() for m in measures]
    if rows:
        absent = pd.DataFrame(rows).assign(retriever=table["retriever"].iloc[0], system="", letters="", chosen=False)
        table = pd.concat([table, absent], ignore_index=True)
    order = {way: i for i, way in enumerate([*offered, ORACLE])}
    place = table["way"].map(order) * len(measures) + table["measure"].map(measures.index)
    table = table.iloc[place.argsort(kind="stable")].reset_index(drop=True)
    front = ["retriever", "way", "system", "measure", "n", "mean", "low", "high", "gain", "gain_low", "gain_high"]
    return table[[*front, "p_value", "letters", "share", "chosen", "note"]]
