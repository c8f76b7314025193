"""BM25 and the measures against named peers, as ratios within one run.

Usage: python benchmarks/bench_spine.py [--passages 5000] [--questions 200]
"""

import argparse
import time

import numpy as np
import pyndeval
from ir_measures import alpha_nDCG

from berdslib.data.records import Passage, Question, make_verdicts, ranked_run
from berdslib.evaluation.measures import evaluate
from berdslib.retrieval.bm25 import BM25, RankBM25


def seconds(work, repeats=3):
    """Best of a few runs: the one that the neighbours on this machine disturbed least."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def corpus(rng, n):
    words = np.array([f"word{i}" for i in range(20_000)])
    weights = 1 / np.arange(1, len(words) + 1)
    texts = rng.choice(words, (n, 100), p=weights / weights.sum())
    return [Passage(f"d{i}", " ".join(row)) for i, row in enumerate(texts)], words


def bench_bm25(n_passages, n_questions):
    rng = np.random.default_rng(0)
    passages, words = corpus(rng, n_passages)
    asked = [Question(f"q{i}", " ".join(rng.choice(words[:2000], 8))) for i in range(n_questions)]
    ours, theirs = BM25(passages, variant="robertson"), RankBM25(passages)
    few = asked[: max(1, n_questions // 20)]
    a, b = seconds(lambda: ours.search(asked, 100)) / len(asked), seconds(lambda: theirs.search(few, 100), 1) / len(few)
    print(
        f"bm25      {n_passages} passages, top 100: {1 / a:.0f} questions/s; rank-bm25 {1 / b:.1f}; ratio {b / a:.0f}"
    )


def bench_measures(n_questions):
    rng = np.random.default_rng(1)
    questions = [Question(f"q{i}", "?", ("a", "b", "c")) for i in range(n_questions)]
    rows = [(q.qid, p, f"d{d}", 1.0, bool(rng.random() < 0.2)) for q in questions for p in range(3) for d in range(100)]
    verdicts, run = make_verdicts(rows, "x"), ranked_run({q.qid: [f"d{d}" for d in range(100)] for q in questions})
    ours = seconds(lambda: evaluate(run, verdicts, questions, [alpha_nDCG @ 20]))

    def theirs():
        qrels = [pyndeval.SubtopicQrel(r.qid, str(r.pid), r.docno, int(r.supports)) for r in verdicts.itertuples()]
        docs = [pyndeval.ScoredDoc(r.qid, r.docno, r.score) for r in run.itertuples()]
        pyndeval.RelevanceEvaluator(qrels, ["alpha-nDCG@20"]).evaluate(docs)

    other = seconds(theirs)
    print(f"alpha-nDCG@20, {n_questions} questions x 100 passages x 3 perspectives: {ours:.2f} s;", end=" ")
    print(f"pyndeval from the same frames {other:.2f} s; ratio {other / ours:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=5000)
    parser.add_argument("--questions", type=int, default=200)
    options = parser.parse_args()
    bench_bm25(options.passages, options.questions)
    bench_measures(options.questions)
