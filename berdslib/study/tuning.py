"""Choosing honestly: a setting is chosen on development questions, and scored once on others.

A *way* is what stands behind a retriever in a system string, weights left out: "mmr", "mmr@mpnet", "expand:rule+mmr";
or "none".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from berdslib.data.collection import Collection
from berdslib.data.records import Question, check_k
from berdslib.errors import InputError, known
from berdslib.evaluation.compare import Scores, score_columns
from berdslib.evaluation.measures import parse_measures, score_questions
from berdslib.evaluation.oracle import oracle
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.systems import EXPANDING, RECORDED, parse_system
from berdslib.stats import difference_interval, macro_mean
from berdslib.study.experiment import experiment
from berdslib.study.scoring import AnyJudge, Store, is_recorded
from berdslib.study.tables import MACRO, paper_table, score_table

NONE, ORACLE = "none", "oracle"
DEEPER = 10  # a second cut-off of MRecall, for the questions that are scored


def dev_test_split(questions: Sequence[Question]) -> tuple[list[Question], list[Question]]:
    """Split questions in (to choose by, to score once): sources with "dev" and "test" by these, others in half."""
    rng, chosen = np.random.default_rng(0), set()
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
    negative if it rose).
    """
    known("baseline", baseline, scores)
    table = pd.DataFrame({"system": list(scores)})
    for measure in (gain, cost):
        columns, groups, _ = score_columns(scores, questions, measure)
        # Sums in another order differ in the last digit, and systems that are equal shall tie.
        table[measure] = [round(macro_mean(values, groups), 12) for values in columns.values()]
    base = table[table["system"] == baseline].iloc[0]
    loss = 1 - table[cost] / base[cost] if base[cost] else 0.0
    return table.assign(gain=table[gain] - base[gain], loss=loss)


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

    The other keys are gain, gain_low and gain_high, of the paired difference of macro means.
    """
    columns, groups, _ = score_columns(scores, questions, measure)
    base, mean, best = (
        macro_mean(columns[known("system", name, columns)], groups) for name in (baseline, system, oracle)
    )
    share = (mean - base) / (best - base) if best != base else float("nan")
    low, high = difference_interval(columns[system] - columns[baseline], groups)
    return {"share": share, "gain": mean - base, "gain_low": low, "gain_high": high}


# ---------------------------------------------------------------- ways to better lists


@dataclass(frozen=True, eq=False)
class Lists:
    """What became of one retriever's lists.

    ``table``: a row a way and measure on the held-out questions: retriever, way, system, measure, n, mean, low, high,
    gain (over the retriever) with its interval, p_value and letters (Holm), share (of the oracle's gain), chosen, note.
    ``tried``: every system and its way on the questions to choose by; ``winner``: the way that these would choose;
    ``notes``: what a reader of the table has to know, see :class:`berdslib.study.experiment.Experiment`.
    """

    table: pd.DataFrame
    tried: pd.DataFrame
    winner: str
    choosing: list[Question]
    held_out: list[Question]
    notes: tuple[str, ...] = ()

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
    if not any(part.partition("@")[0] in DIVERSIFIERS for part in parts):
        return [parse_system("+".join([retriever, *parts])).text]
    if not weights:
        raise InputError(f"{way!r} has a relevance weight, and there are none to try", field="weights")

    def weighed(part: str, weight: float) -> str:
        kind, at, encoder = part.partition("@")
        return f"{kind}:{weight:g}{at}{encoder}" if kind in DIVERSIFIERS else part

    systems = ("+".join([retriever, *(weighed(part, weight) for part in parts)]) for weight in weights)
    return list(dict.fromkeys(parse_system(system).text for system in systems))


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
    measures = parse_measures(dict.fromkeys([cost, gain, f"MRecall@{DEEPER}"]))
    if aspect_judge == judge or (is_recorded(aspect_judge) and is_recorded(judge)):
        raise InputError(f"{judge or 'gold'} scores; another judge must reorder lists", field="aspect_judge")
    choosing, held_out = dev_test_split(data.questions)
    by: dict[str, Any] = {"judge": judge, "aspect_judge": aspect_judge, "depth": depth, "store": store}

    on_choosing = experiment(list(way_of), data.only(choosing), [cost, gain], **by)
    tried = gains_and_losses(on_choosing.scores, on_choosing.questions, first, gain=gain, cost=cost)
    tried["way"] = tried["system"].map(way_of)
    least = tried.groupby("way", sort=False)["loss"].min()
    best = {str(way): choose_system(part, max(most_loss, least[way])) for way, part in tried.groupby("way", sort=False)}
    winner = way_of[choose_system(tried, most_loss)]
    notes |= {str(w): f"loses {loss:.1%} of {cost} where it was chosen" for w, loss in least[least > most_loss].items()}

    found = experiment(best, data.only(held_out), measures, baseline=NONE, **by).with_letters()
    deep = experiment(first, data.only(held_out), f"MRecall@{depth}", **by)
    candidates, verdicts = deep.runs[first], deep.verdicts
    scored = found.questions
    ideal = [(m, oracle(candidates, verdicts, scored, m["cutoff"], depth=depth)) for m in measures]
    at_best = pd.concat([score_questions(run, verdicts, scored, [m]) for m, run in ideal], axis=1)
    table = pd.concat([found.table, score_table({ORACLE: at_best}, scored)]).query("dataset == @MACRO")
    table = table.rename(columns={"system": "way"}).set_index(["way", "measure"])
    every = [(way, str(m)) for way in (*best, ORACLE) for m in measures]
    more = [gain_recovered({**found.scores, ORACLE: at_best}, scored, NONE, way, ORACLE, m) for way, m in every]
    table = table.join(pd.DataFrame(more, pd.MultiIndex.from_tuples(every, names=["way", "measure"])))
    rows = pd.MultiIndex.from_product([[*offered, ORACLE], map(str, measures)], names=["way", "measure"])
    table = table.reindex(rows).reset_index()
    shared = {m: letters.to_dict() for m, letters in (found.letters or {}).items()}
    table = table.assign(
        retriever=retriever,
        chosen=table["way"] == winner,
        system=[best.get(way, "") for way in table["way"]],
        letters=[shared[m].get(way, "") for way, m in zip(table["way"], table["measure"], strict=True)],
        note=[notes.get(way, "") for way in table["way"]],
    )
    front = ["retriever", "way", "system", "measure", "n", "mean", "low", "high", "gain", "gain_low", "gain_high"]
    shown = table[[*front, "p_value", "letters", "share", "chosen", "note"]]
    return Lists(shown, tried, winner, list(on_choosing.questions), list(scored), found.notes)
