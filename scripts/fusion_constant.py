"""The constant of reciprocal rank fusion, beside round robin: chosen on half of the questions, reported on the other.

Usage: BERDS_ENGINE=openvino BERDS_DATA=FOLDER python scripts/fusion_constant.py [--limit 40] [--judge laptop]

The first `limit` development questions of each of ArguAna, Kialo and OpinionQA with GPT-4's recorded expansions, over
the ArguAna corpus. Prints the table of each half; with ``--out FOLDER``, writes them, and the curves of the half to
choose by. Vectors and verdicts are kept in the cache, so what was stopped goes on.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

import berdslib as bd
from berdslib.data.records import ranked_run
from berdslib.errors import InputError
from berdslib.evaluation.measures import parse_measures, score_run
from berdslib.retrieval.expansion import CONSTANT, Expanded, reciprocal_rank_fusion, round_robin
from berdslib.retrieval.retrievers import make_retriever
from berdslib.stats import difference_interval, macro_mean, mean_interval
from berdslib.study.scoring import deepest, judge_of, judged, store_of
from berdslib.study.tuning import dev_test_split

MEASURES = ["MRecall@5", "Precision@5"]
CONSTANTS = (0, 1, 2, 5, 10, 20, 60, 100, 1000)
NUMBERS = (0, 1, 2, 3, 4, 5, 6)


def fusion_sweep(
    retriever, data, measures=MEASURES, *, judge=None, numbers=NUMBERS, constants=CONSTANTS, depth=100, store=None
):
    """Score every way to fuse the lists of a question's expansions; each is searched, and each passage judged, once.

    `numbers` of expansions from the first (0: the question's list alone), and `constants` of reciprocal rank fusion
    beside 60 and round robin.

    Returns:
        One row a fusion and measure: number, original (with the question's own list?), fusion, measure, n, mean, low,
        high (macro), and difference, difference_low, difference_high from reciprocal rank fusion of the same lists with
        the constant 60.
    """
    wanted, questions = parse_measures(measures), data.questions
    if without := [q.qid for q in questions if not data.expansions.get(q.qid)]:
        raise InputError(f"{len(without)} questions have no expansions, the first is {without[0]!r}", field="qid")
    first = {qid: pairs[: max(numbers) or 1] for qid, pairs in data.expansions.items()}
    lists = Expanded(retriever, first, original=True).lists(questions, depth)
    single, usual, runs = [ranked_run(one) for one in lists], f"rrf:{CONSTANT:g}", {}
    for number, original in [(n, own) for n in numbers for own in ((True, False) if n else (True,))]:
        chosen = single[0 if original else 1 : 1 + number]
        runs[number, original, "round robin"] = round_robin(chosen)
        for constant in sorted({*constants, CONSTANT}):
            runs[number, original, f"rrf:{constant:g}"] = reciprocal_rank_fusion(chosen, constant=constant)
    verdicts = judged(runs.values(), data, judge_of(judge, data), deepest(wanted), store_of(store))
    scores = {fusion: score_run(run, verdicts, questions, wanted) for fusion, run in runs.items()}
    groups, rows = [q.source for q in questions], []
    for fusion, measure in product(scores, map(str, wanted)):
        values, others = (scores[one][measure].to_numpy() for one in (fusion, (*fusion[:2], usual)))
        mean, ends = macro_mean(values, groups), difference_interval(values - others, groups)
        row = (*fusion, measure, len(questions), mean, *mean_interval(values, groups))
        rows.append((*row, mean - macro_mean(others, groups), *(ends if fusion[2] != usual else (np.nan, np.nan))))
    names = ["number", "original", "fusion", "measure", "n", "mean", "low", "high"]
    return pd.DataFrame(rows, columns=[*names, "difference", "difference_low", "difference_high"])


def shown(table):
    """Return a sweep in percent, a row a fusion, with intervals and the paired difference from the usual constant."""
    cells = table.assign(
        cell=[f"{100 * r.mean:.1f} [{100 * r.low:.1f}, {100 * r.high:.1f}]" for r in table.itertuples(name="R")],
        less_60=[
            f"{100 * r.difference:.1f} [{100 * r.difference_low:.1f}, {100 * r.difference_high:.1f}]"
            for r in table.itertuples(name="R")
        ],
    )
    return cells.pivot(index=["number", "original", "fusion"], columns="measure", values=["cell", "less_60"])


def fusion_curves(table, measure):
    """Draw a measure over the number of expansions, a line a fusion.

    The band is the 95 % interval of taking turns; dashed: the question alone.
    """
    rows = table[table["measure"] == measure]
    alone, several = rows[rows["number"] == 0], rows[rows["number"] > 0]
    figure, axes = bd.figures.panels(2, (10.0, 3.8))
    for axis, original in zip(axes, (False, True), strict=True):
        mine = several[several["original"] == original]
        for i, (rule, part) in enumerate(mine.groupby("fusion", sort=False)):
            style = {"ls": bd.figures.DASHES[i % 4], "lw": 1.6, **bd.figures.look(i), "ms": 9 - i}
            axis.plot(part["number"], part["mean"] * 100, label=rule, **style)
            if rule == "round robin":
                ends = part["low"] * 100, part["high"] * 100
                band = axis.fill_between(part["number"], *ends, color=bd.figures.NOTHING)
                band.set(label="its 95 % interval", zorder=-1)
        for value in alone["mean"][:1]:
            axis.axhline(value * 100, color="black", ls="--", lw=1.0, label="the question alone", zorder=0)
        axis.set_title("expansions and the question" if original else "expansions alone", fontsize=11)
        axis.set_xlabel("expansions that are searched")
        axis.set_xticks(sorted(set(several["number"])))
    axes[0].set_ylabel(f"{measure}, %")
    axes[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=40, help="questions of each data set; 0 = all")
    parser.add_argument("--retriever", default="minilm")
    parser.add_argument("--judge", default="laptop")
    parser.add_argument("--out", type=Path, help="folder for tables and curves")
    asked = parser.parse_args()
    data = bd.load(["arguana", "kialo", "opinionqa"], passages="arguana-corpus", split="dev", limit=asked.limit)
    retriever = make_retriever(asked.retriever, data.passages)
    for name, half in zip(("choosing", "held_out"), dev_test_split(data.questions), strict=True):
        found = fusion_sweep(retriever, data.only(half), judge=asked.judge)
        print(
            f"\n{name}: {asked.retriever}, n = {len(half)}, judge {asked.judge}\n{shown(found).to_string()}", flush=True
        )
        if asked.out:
            asked.out.mkdir(parents=True, exist_ok=True)
            found.to_csv(asked.out / f"{name}.csv", index=False)
            if name == "choosing":
                for measure in MEASURES:
                    figure = fusion_curves(found, measure)
                    bd.figures.save_figure(figure, found, asked.out, f"curves_{measure.replace('@', '')}")
