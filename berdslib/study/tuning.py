"""Choosing honestly: a setting is chosen on development questions, and scored once on others.

A *way* is what stands behind a retriever in a system string, weights left out: "mmr", "expand:rule+mmr"; or "none".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pandas as pd

from berdslib.data.collection import Collection, Expansions
from berdslib.data.records import Question, check_k, ranked_run
from berdslib.errors import InputError, known
from berdslib.evaluation.compare import Scores, letters, score_columns
from berdslib.evaluation.measures import Measure, evaluate, parse_measures
from berdslib.evaluation.oracle import oracle
from berdslib.judging.base import Judge
from berdslib.retrieval.base import Retriever
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.expansion import CONSTANT, Expanded, reciprocal_rank_fusion, round_robin
from berdslib.retrieval.systems import EXPANDING, RECORDED, parse_system
from berdslib.stats import difference_interval, macro_mean, mean_interval
from berdslib.study import scoring
from berdslib.study.scoring import AnyJudge, Store, deepest, judge_of, judged, store_of
from berdslib.study.tables import MACRO, paper_table, score_table

NONE, ORACLE = "none", "oracle"
DEEPER = 10  # a second cut-off of MRecall, for the questions that are scored
CONSTANTS = (0, 1, 2, 5, 10, 20, 60, 100, 1000)
NUMBERS = (0, 1, 2, 3, 4, 5, 6)


def dev_test_split(questions: Sequence[Question], seed: int = 0) -> tuple[list[Question], list[Question]]:
    """Split questions in (to choose by, to score once): sources with "dev" and "test" by these, others in half."""
    rng, chosen = np.random.default_rng(seed), set()
    for source in dict.fromkeys(q.source for q in questions):
        mine = [q for q in questions if q.source == source]
        if len(mine) < 2:
            raise InputError(f"source {source!r} has only one question, which cannot be split")
        if {"dev", "test"} <= {q.split for q in mine}:
            chosen |= {q.qid for q in mine if q.split != "test"}
        else:
            chosen |= {mine[i].qid for i in rng.permutation(len(mine))[: len(mine) // 2]}
    return [q for q in questions if q.qid in chosen], [q for q in questions if q.qid not in chosen]


def gains_and_losses(
    scores: Scores, questions: Sequence[Question], baseline: str, *, gain: str = "MRecall@5", cost: str = "Precision@5"
) -> pd.DataFrame:
    """Return each system's gain and loss against a baseline; macro means.

    Frame with a row a system: system, the two measures, gain, loss (share of the baseline's `cost` that is lost;
    negative if it rose), frontier (no system is better in one and as good in the other).
    """
    known("baseline", baseline, scores)
    table = pd.DataFrame({"system": list(scores)})
    for measure in (gain, cost):
        columns, groups, _ = score_columns(scores, questions, measure)
        # Sums in another order differ in the last digit, and systems that are equal shall tie.
        table[measure] = [round(macro_mean(values, groups), 12) for values in columns.values()]
    base = table[table["system"] == baseline].iloc[0]
    gains, costs = (table[measure].to_numpy() for measure in (gain, cost))
    as_good = (gains[:, None] >= gains) & (costs[:, None] >= costs)
    beaten = np.any(as_good & ~as_good.T, axis=0)
    loss = 1 - table[cost] / base[cost] if base[cost] else 0.0
    return table.assign(gain=table[gain] - base[gain], loss=loss, frontier=np.logical_not(beaten))


def choose_system(table: pd.DataFrame, most_loss: float = 0.01) -> str:
    """Return the system with the largest gain among those that lose no more; the smaller loss, then the first, wins."""
    allowed = table[table["loss"] <= most_loss + 1e-12]
    if allowed.empty:
        raise InputError(f"no system loses at most {most_loss:.1%}; the smallest loss is {table['loss'].min():.1%}")
    best = allowed.sort_values(["gain", "loss"], ascending=[False, True], kind="stable").iloc[0]
    return str(best["system"])


def gain_recovered(
    scores: Scores, questions: Sequence[Question], baseline: str, system: str, oracle: str, measure: str = "MRecall@5"
) -> dict[str, float]:
    """Return how much of the gain from the baseline to the oracle a system recovers (share; 1 is all of it).

    The keys are also baseline, system, oracle (macro means), gain, gain_low and gain_high (the paired difference).
    """
    columns, groups, _ = score_columns(scores, questions, measure)
    chosen = {"baseline": baseline, "system": system, "oracle": oracle}
    means = {role: macro_mean(columns[known("system", name, columns)], groups) for role, name in chosen.items()}
    gain, way = means["system"] - means["baseline"], means["oracle"] - means["baseline"]
    low, high = difference_interval(columns[system] - columns[baseline], groups)
    return means | {"share": gain / way if way else float("nan"), "gain": gain, "gain_low": low, "gain_high": high}


# ---------------------------------------------------------------- ways to better lists


@dataclass(frozen=True, eq=False)
class Lists:
    """What became of one retriever's lists.

    ``table``: a row a way and measure on the held-out questions: retriever, way, system, measure, n, mean, low, high,
    gain (over the retriever) with its interval, p_value and letters (Holm), share (of the oracle's gain), chosen, note.
    ``tried``: every system and its way on the questions to choose by; ``winner``: the way that these would choose.
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


def systems_of(retriever: str, way: str, weights: Sequence[float] = ()) -> list[str]:
    """Return the systems of a way: one for each weight, or one where nothing in it has a weight.

    >>> systems_of("bm25", "expand:rule+mmr", [0.5, 0.9])
    ['bm25+expand:rule+mmr:0.5', 'bm25+expand:rule+mmr:0.9']
    """
    parts = [] if way == NONE else way.split("+")
    if not any(part in DIVERSIFIERS for part in parts):
        return [parse_system("+".join([retriever, *parts])).text]
    if not weights:
        raise InputError(f"{way!r} has a relevance weight, and there are none to try", field="weights")
    weighed = ([f"{part}:{weight:g}" if part in DIVERSIFIERS else part for part in parts] for weight in weights)
    return list(dict.fromkeys(parse_system("+".join([retriever, *one])).text for one in weighed))


def lists_table(
    retriever: str,
    data: Collection,
    *,
    ways: Sequence[str],
    weights: Sequence[float],
    judge: AnyJudge = None,
    aspect_judge: AnyJudge = "laptop",
    k: int = 5,
    depth: int = 100,
    most_loss: float = 0.01,
    store: Store = None,
) -> Lists:
    """Try every way at every weight on some of the questions, and score each way's best once on the others.

    Questions are split by :func:`dev_test_split`; best is the largest gain in MRecall@k among the weights that lose no
    more than the share `most_loss` of Precision@k, or the smallest loss where all lose more. `judge` scores;
    `aspect_judge` reads passages for generated perspectives. Ways that need what `data` lacks are left out.
    """
    check_k(k)
    offered = {way: systems_of(retriever, way, weights) for way in dict.fromkeys([NONE, *ways])}
    asks = {way: parse_system(systems[0]).values(*EXPANDING) for way, systems in offered.items()}
    absent = [way for way, names in asks.items() if RECORDED in names and not data.expansions]
    notes = dict.fromkeys(absent, "left out: no recorded expansions")
    way_of = {system: way for way, systems in offered.items() for system in systems if way not in notes}
    gain, cost, (first,) = f"MRecall@{k}", f"Precision@{k}", offered[NONE]
    choosing, held_out = dev_test_split(data.questions)
    scorer, kept = judge_of(judge, data), store_of(store)

    @cache
    def covering() -> Judge:
        found = judge_of(aspect_judge, data)
        if found.id == scorer.id:
            raise InputError(f"{found.id} scores; another judge must reorder lists", field="aspect_judge")
        return found

    built = scoring.workshop(data, aspect_judge=covering, store=kept, depth=depth).make(list(way_of))
    most, runs = max(k, DEEPER), {}
    for name, system in built.items():
        read = parse_system(name)  # what only finds candidates goes as deep as what reorders them: one search for both
        runs[name] = system.search(data.questions, most if read.parts and read.chooses else max(most, depth))

    verdicts = judged(runs.values(), data.only(choosing), scorer, k, kept)
    scores = {name: evaluate(run, verdicts, choosing, [cost, gain]) for name, run in runs.items()}
    tried = gains_and_losses(scores, choosing, first, gain=gain, cost=cost)
    tried["way"] = tried["system"].map(way_of)
    least = tried.groupby("way", sort=False)["loss"].min()
    best = {str(way): choose_system(part, max(most_loss, least[way])) for way, part in tried.groupby("way", sort=False)}
    winner = way_of[choose_system(tried, most_loss)]
    notes |= {str(w): f"loses {loss:.1%} of {cost} where it was chosen" for w, loss in least[least > most_loss].items()}

    finalists, part = {way: runs[system] for way, system in best.items()}, data.only(held_out)
    measures = parse_measures(dict.fromkeys([cost, gain, f"MRecall@{DEEPER}"]))
    verdicts = judged(finalists.values(), part, scorer, most, kept)
    scores = {way: evaluate(run, verdicts, held_out, measures) for way, run in finalists.items()}
    candidates = runs[first][runs[first]["qid"].isin([q.qid for q in held_out])]
    verdicts = judged([candidates], part, scorer, depth, kept)
    ideal = [(m, oracle(candidates, verdicts, held_out, m["cutoff"], depth=depth)) for m in measures]
    scores[ORACLE] = pd.concat([evaluate(run, verdicts, held_out, [m]) for m, run in ideal], axis=1)
    every = pd.MultiIndex.from_product([[*offered, ORACLE], map(str, measures)], names=["way", "measure"])
    table = _ways_table(scores, held_out).set_index(["way", "measure"]).reindex(every).reset_index()
    table = table.fillna({"letters": ""}).assign(
        retriever=retriever,
        chosen=table["way"] == winner,
        system=[best.get(way, "") for way in table["way"]],
        note=[notes.get(way, "") for way in table["way"]],
    )
    front = ["retriever", "way", "system", "measure", "n", "mean", "low", "high", "gain", "gain_low", "gain_high"]
    table = table[[*front, "p_value", "letters", "share", "chosen", "note"]]
    return Lists(table, tried, runs, winner, choosing, held_out)


def _ways_table(scores: Scores, questions: Sequence[Question]) -> pd.DataFrame:
    """Return means, intervals and tests of each way's scores, and how far towards the oracle it got."""
    tested = {way: frame for way, frame in scores.items() if way != ORACLE}  # nobody asks whether the oracle is better
    parts = [score_table(tested, questions, baseline=NONE), score_table({ORACLE: scores[ORACLE]}, questions)]
    table = pd.concat(parts).query("dataset == @MACRO").rename(columns={"system": "way"})
    shared = {measure: letters(tested, questions, measure) for measure in table["measure"].unique()}
    rows = [
        gain_recovered(scores, questions, NONE, way, ORACLE, measure=m) | {"letters": shared[m].get(way, "")}
        for way, m in zip(table["way"], table["measure"], strict=True)
    ]
    return table.join(pd.DataFrame(rows, table.index)[["gain", "gain_low", "gain_high", "share", "letters"]])


# ---------------------------------------------------------------- ways to fuse


def fusion_sweep(
    retriever: Retriever,
    data: Collection,
    measures: Measure | str | Iterable[Measure | str] = ("MRecall@5", "Precision@5"),
    *,
    judge: AnyJudge = None,
    expansions: Expansions | None = None,
    numbers: Sequence[int] = NUMBERS,
    constants: Sequence[float] = CONSTANTS,
    depth: int = 100,
    store: Store = None,
) -> pd.DataFrame:
    """Score every way to fuse the lists of a question's expansions; each is searched, and each passage judged, once.

    `numbers` of expansions from the first (0: the question's list alone), and `constants` of reciprocal rank fusion
    beside 60 and round robin.

    Returns:
        One row a fusion and measure: number, original (with the question's own list?), fusion, measure, n, mean, low,
        high (macro), and difference, difference_low, difference_high from reciprocal rank fusion of the same lists with
        the constant 60.
    """
    wanted, questions = parse_measures(measures), data.questions
    made = data.expansions if expansions is None else expansions
    if without := [q.qid for q in questions if not made.get(q.qid)]:
        raise InputError(f"{len(without)} questions have no expansions, the first is {without[0]!r}", field="qid")
    lists = Expanded(retriever, made, number=max(numbers) or 1, original=True).lists(questions, depth)
    single, usual = [ranked_run(one) for one in lists], f"rrf:{CONSTANT:g}"
    runs: dict[tuple[int, bool, str], pd.DataFrame] = {}
    for number, original in [(n, own) for n in numbers for own in ((True, False) if n else (True,))]:
        chosen = single[0 if original else 1 : 1 + number]
        runs[number, original, "round robin"] = round_robin(chosen)
        for constant in sorted({*constants, CONSTANT}):
            runs[number, original, f"rrf:{constant:g}"] = reciprocal_rank_fusion(chosen, constant=constant)
    verdicts = judged(runs.values(), data, judge_of(judge, data), deepest(wanted), store_of(store))
    scores = {fusion: evaluate(run, verdicts, questions, wanted) for fusion, run in runs.items()}
    groups, rows = [q.source for q in questions], []
    for fusion, measure in product(scores, map(str, wanted)):
        values, others = (scores[one][measure].to_numpy() for one in (fusion, (*fusion[:2], usual)))
        mean, ends = macro_mean(values, groups), difference_interval(values - others, groups)
        row = (*fusion, measure, len(questions), mean, *mean_interval(values, groups))
        rows.append((*row, mean - macro_mean(others, groups), *(ends if fusion[2] != usual else (np.nan, np.nan))))
    names = ["number", "original", "fusion", "measure", "n", "mean", "low", "high"]
    return pd.DataFrame(rows, columns=[*names, "difference", "difference_low", "difference_high"])
