"""What is fast for a reason, against named peers and against what one would write down, as ratios of one run.

Usage: OMP_NUM_THREADS=1 python benchmarks/bench_peers.py [bm25] [measures] [mmr] [projection] [laptop]

bm25: our BM25 against rank-bm25. measures: alpha-nDCG against pyndeval from the same frames. mmr: five picks and full
orders against pyversity, which takes one question at a time, of many questions at once and one by one, and against
equation 1 as a loop over a fiftieth of the questions; vectors of length 1 are given to all, similarities are included.
projection: PAP+ in closed form against projecting both of each pair. laptop: the judge against
the same model in float32 in batches as given, each text of each pair read; pairs as an evaluation asks for them.
"""

import argparse

import numpy as np
from timing import compare, in_turns, seconds

from berdslib.data.records import Passage, Question, make_verdicts, ranked_run


def bm25(passages=5000, questions=200):
    from berdslib.retrieval.bm25 import BM25, RankBM25

    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(20_000)])
    weights = 1 / np.arange(1, len(words) + 1)
    texts = rng.choice(words, (passages, 100), p=weights / weights.sum())
    corpus = [Passage(f"d{i}", " ".join(row)) for i, row in enumerate(texts)]
    asked = [Question(f"q{i}", " ".join(rng.choice(words[:2000], 8))) for i in range(questions)]
    ours, theirs, few = BM25(corpus, variant="robertson"), RankBM25(corpus), asked[: questions // 20]
    spent = {"ours": seconds(lambda: ours.search(asked, 100)) / len(asked)}
    spent["rank-bm25"] = seconds(lambda: theirs.search(few, 100), 1) / len(few)
    compare(f"BM25, {passages} passages, top 100, a question", spent, "ours")


def measures(n=200):
    import pyndeval
    from ir_measures import alpha_nDCG

    from berdslib.evaluation.measures import score_run

    rng = np.random.default_rng(1)
    questions = [Question(f"q{i}", "?", ("a", "b", "c")) for i in range(n)]
    rows = [(q.qid, p, f"d{d}", 1.0, bool(rng.random() < 0.2)) for q in questions for p in range(3) for d in range(100)]
    verdicts, run = make_verdicts(rows, "x"), ranked_run({q.qid: [f"d{d}" for d in range(100)] for q in questions})

    def theirs():
        qrels = [pyndeval.SubtopicQrel(r.qid, str(r.pid), r.docno, int(r.supports)) for r in verdicts.itertuples()]
        docs = [pyndeval.ScoredDoc(r.qid, r.docno, r.score) for r in run.itertuples()]
        pyndeval.RelevanceEvaluator(qrels, ["alpha-nDCG@20"]).evaluate(docs)

    works = {"ours": lambda: score_run(run, verdicts, questions, [alpha_nDCG @ 20]), "pyndeval": theirs}
    compare(f"alpha-nDCG@20, {n} questions x 100 passages x 3 perspectives", in_turns(works), "ours")


def plain_mmr(relevance, vectors, weight):
    """Equation 1, word for word."""
    similar = [[sum(a * b for a, b in zip(one, other, strict=True)) for other in vectors] for one in vectors]
    chosen, left = [], list(range(len(relevance)))
    while left:
        seen = {i: max((similar[i][j] for j in chosen), default=0.0) for i in left}
        chosen.append(max(left, key=lambda i: weight * relevance[i] - (1 - weight) * seen[i]))
        left.remove(chosen[-1])
    return chosen


def mmr(q=500, n=100, dim=384, weight=0.75):
    import pyversity

    from berdslib.retrieval.diversify import mmr

    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((q, 1, dim), dtype=np.float32) + rng.standard_normal((q, n, dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    relevance = -np.sort(-rng.random((q, n), dtype=np.float32), axis=1)
    few = [(r.tolist(), v.tolist()) for r, v in zip(relevance[: q // 50], vectors, strict=False)]
    told = {"diversity": 1 - weight, "normalize": False}
    alone = [slice(i, i + 1) for i in range(q)]
    for k in (5, n):
        works = {
            "ours": lambda k=k: mmr(vectors, relevance, weight, k)[0],
            "ours, one by one": lambda k=k: np.concatenate(
                [mmr(vectors[i], relevance[i], weight, k)[0] for i in alone]
            ),
            "pyversity": lambda k=k: np.array(
                [pyversity.mmr(v, r, k, **told).indices for v, r in zip(vectors, relevance, strict=True)]
            ),
        }
        orders = {name: work() for name, work in works.items()}
        alike = np.mean((orders["ours"] == orders["pyversity"]).all(axis=1))
        assert (orders["ours"] == orders["ours, one by one"]).all()
        spent = in_turns(works, 5)
        if k == n:
            loop = [plain_mmr(*one, weight) for one in few]
            assert loop == orders["ours"][: len(few)].tolist()
            spent["plain Python"] = seconds(lambda: [plain_mmr(*one, weight) for one in few], 1) * q / len(few)
        compare(f"MMR, {q} questions, {k} of {n}; {alike:.1%} of the orders are those of pyversity", spent, "ours")


def projection(queries=100, passages=500, dim=384):
    from berdslib.retrieval.projection import scores

    rng = np.random.default_rng(0)
    q, r, p = rng.standard_normal((3, queries, dim)).astype(np.float32)
    c = rng.standard_normal((passages, dim)).astype(np.float32)

    def by_pair():
        out = np.zeros((queries, passages))
        for i, (one, away) in enumerate(zip(q.astype(np.float64), p.astype(np.float64), strict=True)):
            left = one - (one @ away) / (away @ away) * away
            for j, passage in enumerate(c.astype(np.float64)):
                right = passage - (passage @ away) / (away @ away) * away
                out[i, j] = left @ right / (np.linalg.norm(left) * np.linalg.norm(right))
        return out

    apart = np.abs(scores("pap+", q, r, p, c) - by_pair()).max()
    spent = {"ours": seconds(lambda: scores("pap+", q, r, p, c), 20), "pair by pair": seconds(by_pair, 1)}
    compare(f"PAP+, {queries} x {passages} x {dim}; largest difference {apart:.1e}", spent, "ours")


def laptop(n=600):
    import torch

    from berdslib.data.datasets import load_passages, load_questions
    from berdslib.judging.base import document_text, pairs_of
    from berdslib.judging.laptop import DOCUMENT_TOKENS, STATEMENT_TOKENS, WEIGHTS, Laptop, load_laptop
    from berdslib.retrieval.retrievers import make_retriever

    judge = load_laptop(WEIGHTS, engine="torch")
    questions, passages = load_questions("sample", "all"), load_passages("sample")
    run = make_retriever("minilm", passages).search(questions, 40)
    pairs = pairs_of(run, questions, {p.docno: p for p in passages}, 40)[:n]

    def plainly():
        found = []
        for start in range(0, len(pairs), 32):
            batch = pairs[start : start + 32]
            with torch.inference_mode():
                u = judge.model.vectors([p.perspective for p in batch], STATEMENT_TOKENS)
                read = [document_text(p.passage, judge.title_position) for p in batch]
                found.append(judge.model.compare(u, judge.model.vectors(read, DOCUMENT_TOKENS)).double().numpy())
        return judge.calibration.p_yes(np.concatenate(found))

    def ours():
        return Laptop(judge.model, judge.calibration, "fresh", engine="torch").p_yes(pairs)  # remembers nothing

    apart = np.abs(plainly() - ours()).max()
    works = {"ours": ours, "every pair read": plainly}
    compare(f"laptop, {len(pairs)} pairs; probabilities differ by {apart:.4f} at most", in_turns(works, 1), "ours")


BENCHMARKS = {one.__name__: one for one in (bm25, measures, mmr, projection, laptop)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[*BENCHMARKS], metavar="NAME")
    for name in parser.parse_args().names:
        BENCHMARKS[name]()
