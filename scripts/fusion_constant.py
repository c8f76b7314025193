"""The constant of reciprocal rank fusion, beside round robin: chosen on half of the questions, reported on the other.

Usage: BERDS_ENGINE=openvino BERDS_DATA=FOLDER python scripts/fusion_constant.py [--limit 40] [--judge laptop]

The first `limit` development questions of each of ArguAna, Kialo and OpinionQA with GPT-4's recorded expansions, over
the ArguAna corpus. Prints the table of each half; with ``--out FOLDER``, writes them, and the curves of the half to
choose by. Vectors and verdicts are kept in the cache, so what was stopped goes on.
"""

import argparse
from pathlib import Path

import berdslib as bd
from berdslib.retrieval.retrievers import make_retriever
from berdslib.study import tuning

MEASURES = ["MRecall@5", "Precision@5"]


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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=40, help="questions of each data set; 0 = all")
    parser.add_argument("--retriever", default="minilm")
    parser.add_argument("--judge", default="laptop")
    parser.add_argument("--out", type=Path, help="folder for tables and curves")
    asked = parser.parse_args()
    data = bd.load(["arguana", "kialo", "opinionqa"], passages="arguana-corpus", split="dev", limit=asked.limit)
    retriever = make_retriever(asked.retriever, data.passages)
    for name, half in zip(("choosing", "held_out"), tuning.dev_test_split(data.questions), strict=True):
        found = tuning.fusion_sweep(retriever, data.only(half), MEASURES, judge=asked.judge)
        print(
            f"\n{name}: {asked.retriever}, n = {len(half)}, judge {asked.judge}\n{shown(found).to_string()}", flush=True
        )
        if asked.out:
            asked.out.mkdir(parents=True, exist_ok=True)
            found.to_csv(asked.out / f"{name}.csv", index=False)
            if name == "choosing":
                for measure in MEASURES:
                    figure = bd.figures.fusion_curves(found, measure)
                    bd.figures.save_figure(figure, found, asked.out, f"curves_{measure.replace('@', '')}")
