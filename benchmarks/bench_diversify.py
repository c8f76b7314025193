"""MMR over all questions at once against equation 1 as a plain Python loop and against pyversity, in one run.

Usage: OMP_NUM_THREADS=1 python benchmarks/bench_diversify.py [--questions 500] [--candidates 100] [--dim 384]

OMP_NUM_THREADS says how many threads ours may use, and BLAS for pyversity, which takes one question at a time. Full
orders unless k is given; vectors of length 1: a direction of the question's own plus noise of the same length.
Without similarities, ours and the loop are given the matrices; pyversity, which always computes them, is given
vectors of one number. With them, ours scales vectors of any length, pyversity is told that they are scaled, and the
loop's cosines are sums in plain Python, over a fiftieth of the questions. Best of several runs, taken in turns, so
that a busy machine is equally busy for all.
"""

import argparse
import os
import time

import numpy as np
import pyversity

from berdslib.data.records import make_run
from berdslib.retrieval.diversify import cosines, diversify, mmr_orders, mmr_sweep

WEIGHT = 0.75
FEW = [5, 10]
PAPER = [0.5, 0.75, 0.9, 0.95, 0.99]


def plain_mmr(relevance, similarity):
    """Equation 1, word for word."""
    chosen, left = [], list(range(len(relevance)))
    while left:
        best = max(
            left,
            key=lambda i: WEIGHT * relevance[i] - (1 - WEIGHT) * max((similarity[i][j] for j in chosen), default=0.0),
        )
        chosen.append(best)
        left.remove(best)
    return chosen


def plain_cosines(vectors):
    return [[sum(a * b for a, b in zip(one, other, strict=True)) for other in vectors] for one in vectors]


def in_turns(works, rounds=5):
    """Seconds of each, best of several rounds."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def row(what, seconds, ours):
    print(f"  {what:<62}{1000 * seconds:10,.1f} ms   {seconds / ours:10,.1f} times ours")


def main(options):
    q, n, d = options.questions, options.candidates, options.dim
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((q, 1, d), dtype=np.float32) + rng.standard_normal((q, n, d), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    relevance = -np.sort(-rng.random((q, n), dtype=np.float32), axis=1)
    unit, similar, numbers = vectors.reshape(-1, d), cosines(vectors), np.ones((n, 1), dtype=np.float32)
    lists = [(r.tolist(), s.tolist()) for r, s in zip(relevance, similar, strict=True)]
    few = [(r.tolist(), v.tolist()) for r, v in zip(relevance[: q // 50 or 1], vectors, strict=False)]

    def ours(weights=(WEIGHT,), k=n):
        compared = cosines(vectors)
        return [mmr_orders(relevance, compared, weight, k) for weight in weights]

    def theirs(of_question, k=n):
        options = {"diversity": 1 - WEIGHT, "normalize": False}
        return [pyversity.mmr(v, r, k, **options).indices for v, r in zip(of_question, relevance, strict=True)]

    orders, _ = mmr_orders(relevance, similar, WEIGHT, n)
    agree = {k: np.mean((ours(k=k)[0][0] == theirs(vectors, k)).all(axis=1)) for k in (*FEW, n)}
    loop = np.mean([plain_mmr(*one) == order.tolist() for one, order in zip(lists[:50], orders, strict=False)])
    print(f"{q} questions x {n} candidates, {d} numbers a vector; OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS')}")
    print(f"equal orders: with the plain loop {loop:.1%} (single against double precision)")
    print("equal orders: with pyversity " + ", ".join(f"{share:.1%} (k={k})" for k, share in agree.items()))

    once = in_turns({"loop": lambda: [plain_mmr(*one) for one in lists]}, 1)["loop"]
    cosine = in_turns({"few": lambda: [plain_mmr(r, plain_cosines(v)) for r, v in few]}, 1)["few"] * q / len(few)
    ready = in_turns(
        {
            "ours": lambda: mmr_orders(relevance, similar, WEIGHT, n),
            "pyversity": lambda: theirs([numbers] * q),
        }
    )
    print("similarities excluded")
    row("ours: mmr_orders", ready["ours"], ready["ours"])
    row("plain Python loop", once, ready["ours"])
    row("pyversity on vectors of one number", ready["pyversity"], ready["ours"])

    works = {"ours": ours, "five": lambda: ours(PAPER), "pyversity": lambda: theirs(vectors)}
    for k in FEW:
        works |= {f"ours {k}": lambda k=k: ours(k=k), f"pyversity {k}": lambda k=k: theirs(vectors, k)}
    full = in_turns(works)
    print("similarities included")
    row("ours: cosines and mmr_orders", full["ours"], full["ours"])
    row("plain Python loop and cosines", cosine, full["ours"])
    row("pyversity", full["pyversity"], full["ours"])
    for k in FEW:
        print(f"similarities included, k={k} of {n}")
        row("ours: cosines and mmr_orders", full[f"ours {k}"], full[f"ours {k}"])
        row("pyversity", full[f"pyversity {k}"], full[f"ours {k}"])
    print("the five weights that the paper tries, similarities included")
    row("ours: cosines and mmr_orders", full["five"], full["five"])
    row("pyversity, five times the above", 5 * full["pyversity"], full["five"])

    qids, docnos = np.repeat(np.arange(q), n).astype(str), np.arange(q * n).astype(str)
    run, table = make_run(qids, docnos, relevance.ravel()), dict(zip(docnos.tolist(), unit, strict=True))
    frames = in_turns(
        {"one": lambda: diversify(run, vectors=table), "five": lambda: mmr_sweep(run, PAPER, vectors=table)}
    )
    print("from a run and a dictionary of vectors to runs")
    row("ours: diversify", frames["one"], frames["one"])
    row("ours: mmr_sweep, five weights", frames["five"], frames["one"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--dim", type=int, default=384)
    main(parser.parse_args())
