"""MiniLM and mpnet, two encoders with real weights, beside BM25: tables of docs/results.md, with paired differences.

Usage: BERDS_ENGINE=openvino BERDS_DATA=FOLDER python scripts/two_encoders.py theperspective
       … arguana [--passages 4000] [--judge laptop]     the first 40 development questions of each of three sets
       … wikipedia [--passages 4000] [--judge laptop]
       … pir                                             all methods on PIR's demo release

``--passages N`` searches a random sample of the corpus (seed 0; a smaller one is part of a larger one), the same for
all retrievers. Vectors and verdicts are kept in the cache, so what was stopped goes on, and another judge encodes
nothing anew. Intervals and paired differences: 95 %, bootstrap over questions (PIR: roots), macro over data sets.
"""

import argparse
from dataclasses import replace

import numpy as np
import pandas as pd

import berdslib as bd
from berdslib.evaluation.oracle import oracle
from berdslib.retrieval.projection import METHODS
from berdslib.stats import difference_interval, macro_mean, mean_interval, paired_test

ENCODERS = ("minilm", "mpnet")
DEV = ("arguana", "kialo", "opinionqa")
CORPORA = {"theperspective": "theperspective", "arguana": "arguana-corpus", "wikipedia": "wikipedia-articles:words"}
TASKS = tuple(f"pir-demo:{name}" for name in ("perspectrum", "ambigqa", "allsides", "exfever"))
MEASURES = ["MRecall@5", "MRecall@10", "Precision@5"]


def collection(corpus, n):
    """Return the questions of a corpus and its passages, or n of them at random; without verdicts if these are ours."""
    if corpus == "theperspective":
        data = bd.load(corpus)
    else:
        data = bd.load(list(DEV), passages=CORPORA[corpus], split="dev", limit=40)
    rows = np.random.default_rng(0).permutation(len(data.passages))[: n or None]
    # A list, also of all: its vectors are kept one by one, whatever the sample.
    return replace(data, passages=[data.passages[int(i)] for i in rows])


def shown(values, groups, digits=1, interval=mean_interval):
    """Return a mean in percent with its interval."""
    low, high = interval(values, groups)
    return f"{100 * macro_mean(values, groups):.{digits}f} [{100 * low:.1f}, {100 * high:.1f}]"


def difference(theirs, ours, groups):
    """Return the paired difference of two systems in points with its interval and its p."""
    p = paired_test(ours, theirs, groups)
    return (
        f"{shown(ours - theirs, groups, interval=difference_interval)}, {'p < .001' if p < 0.001 else f'p = {p:.3f}'}"
    )


def retrieval(corpus, n, judge, depth):
    """Print a row for each retriever, and what mpnet adds to MiniLM."""
    data = collection(corpus, n)
    names = ["bm25", *ENCODERS]
    found = bd.experiment(names, data, [*MEASURES, f"MRecall@{depth}"], judge=judge)
    groups = [q.source for q in data.questions]
    best = {f"oracle {s}": oracle(found.runs[s], found.verdicts, data.questions, 5, depth=depth) for s in names}
    scores = found.scores | {
        s: bd.evaluate(run, found.verdicts, data.questions, ["MRecall@5", "Precision@5"]) for s, run in best.items()
    }
    print(f"\n{corpus}: {len(data.passages):,} passages, n = {len(data.questions)}, judge {found.judge}")
    for name, frame in scores.items():
        print(f"| {name} | " + " | ".join(f"{m} {shown(frame[m].to_numpy(), groups)}" for m in frame.columns) + " |")
    first, second = (scores[name] for name in ENCODERS)
    for m in first.columns:
        print(f"{ENCODERS[1]} - {ENCODERS[0]}, {m}: {difference(first[m].to_numpy(), second[m].to_numpy(), groups)}")


def pir():
    """Print p-Recall@5 of all methods with both encoders, and paired differences on each task and over all."""
    tasks = [bd.load(name) for name in TASKS]
    systems = ["bm25", *(e if m == "baseline" else f"{e}+{m}" for e in ENCODERS for m in METHODS)]
    found = bd.experiment(systems, tasks, "pRecall@5")
    by_task = {
        task.name: {s: frame.loc[[q.qid for q in task.questions], "pRecall@5"] for s, frame in found.scores.items()}
        for task in tasks
    }
    print(
        pd.DataFrame({t: {s: 100 * v.mean() for s, v in of.items()} for t, of in by_task.items()}).round(1).to_string()
    )
    pairs = [ENCODERS, *((f"{ENCODERS[0]}+{m}", f"{ENCODERS[1]}+{m}") for m in ("pap", "pap+"))]
    pairs += [(e, f"{e}+{m}") for e in ENCODERS for m in ("pap", "pap+", "concat")]
    for task, of in by_task.items():
        print(f"\n{task}: {len(of['bm25'])} roots")
        for e in ENCODERS:
            print(f"  {e} {shown(of[e].to_numpy(), None)}, pap {shown(of[f'{e}+pap'].to_numpy(), None)}, "
                  f"pap+ {shown(of[f'{e}+pap+'].to_numpy(), None)}")  # fmt: skip
        for a, b in pairs:
            print(f"  {b} - {a}: {difference(of[a].to_numpy(), of[b].to_numpy(), None)}")
    groups = [task for task, of in by_task.items() for _ in of["bm25"]]
    print("\nmean of the tasks")
    for a, b in pairs:
        both = [np.concatenate([of[s].to_numpy() for of in by_task.values()]) for s in (a, b)]
        print(f"  {b} - {a}: {difference(*both, groups)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*CORPORA, "pir"])
    parser.add_argument("--passages", type=int, default=0, help="search that many at random; 0 = all")
    parser.add_argument("--judge", default="laptop", help="theperspective has verdicts of its own")
    parser.add_argument("--depth", type=int, default=100, help="how far the oracle looks; all of it is judged")
    asked = parser.parse_args()
    if asked.what == "pir":
        pir()
    else:
        retrieval(asked.what, asked.passages, None if asked.what == "theperspective" else asked.judge, asked.depth)
