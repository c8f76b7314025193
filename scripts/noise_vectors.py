"""Several query vectors by untrained noise, their lists fused: what that gains over the question's own vector.

    BERDS_NUMBER_FORMAT=float32 BERDS_DATA=FOLDER python scripts/noise_vectors.py

A vector is q + sigma z, z of length 1, in any direction or among the first in which the question's 200 nearest passages
vary. Lists are fused by reciprocal ranks; the mean of four seeds. theperspective, minilm.
"""

import argparse
from itertools import product

import numpy as np
import pandas as pd

import berdslib as bd
from berdslib.data.records import issue_of, make_run
from berdslib.models.encoders import get_encoder
from berdslib.stats import difference_interval

SIGMAS, COUNTS, SPACES, SEEDS = (0.3, 0.4, 0.5, 0.6, 0.8), (8, 24), (0, 5, 20, 60), range(4)  # space 0: any direction
DEPTH, CONSTANT, MEASURES = 100, 60, ["MRecall@5", "Precision@5"]


def directions(query: np.ndarray, passages: np.ndarray) -> np.ndarray:
    near = passages[np.argsort(-(passages @ query))[:200]]
    axes = np.linalg.svd(near - near.mean(axis=0), full_matrices=False)[2][: max(SPACES)]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return axes * np.sign(largest)  # which way an axis points differs from machine to machine


def fused(vectors: np.ndarray, passages: np.ndarray) -> np.ndarray:
    best = np.argsort(-(vectors @ passages.T), axis=1, kind="stable")[:, :DEPTH]
    worth = np.tile(1 / (CONSTANT + np.arange(1, DEPTH + 1)), len(best))
    return np.bincount(best.ravel(), worth, minlength=len(passages))


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    task, encoder = bd.load("theperspective"), get_encoder("minilm")
    passages = encoder.encode_passages([p.full_text for p in task.passages])
    queries = encoder.encode_queries([q.text for q in task.questions])
    axes, docnos = np.stack([directions(q, passages) for q in queries]), np.array([p.docno for p in task.passages])

    def scored(lists: list[np.ndarray]) -> np.ndarray:
        best = [np.argsort(-one, kind="stable")[:10] for one in lists]
        rows = [
            (q.qid, docnos[i], one[i]) for q, one, top in zip(task.questions, lists, best, strict=True) for i in top
        ]
        return bd.evaluate(make_run(*zip(*rows, strict=True)), task.gold, task, MEASURES).to_numpy()

    plain, issues, found = scored(list(queries @ passages.T)), [issue_of(q) for q in task.questions], []
    for space, sigma, count in product(SPACES, SIGMAS, COUNTS):
        each = []
        for seed in SEEDS:
            z = np.random.default_rng(seed).normal(size=(len(queries), count, space or queries.shape[1]))
            z = np.einsum("qns,qsd->qnd", z, axes[:, :space]) if space else z
            noisy = queries[:, None] + sigma * z / np.linalg.norm(z, axis=2, keepdims=True)
            each.append(scored([fused(vectors, passages) for vectors in noisy]))
        row = {"directions": space or "any", "sigma": sigma, "vectors": count}
        for name, gain in zip(MEASURES, (np.mean(each, axis=0) - plain).T, strict=True):
            low, high = difference_interval(gain, clusters=issues)
            row |= {name: 100 * gain.mean(), f"{name} low": 100 * low, f"{name} high": 100 * high}
        found.append(row)
    print(f"alone, n = {len(plain)}: {100 * plain.mean(axis=0)}\n{pd.DataFrame(found).round(1).to_string(index=False)}")


if __name__ == "__main__":
    main()
