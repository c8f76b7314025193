"""The laptop judge against the same model run the plain way, in one run: pairs per second and the largest difference.

Usage: python benchmarks/bench_laptop.py [--pairs 600] [--judge laptop-mpnet] [--engine openvino]

The plain way: float32, batches of 32 pairs as given, both texts of every pair read. Two kinds of load: pairs as an
evaluation asks for them (every passage with each perspective of its question), and pairs of passages that all differ.
At the end: seconds to load, size of the files in the package, and the most memory that the process held.
"""

import argparse
import resource
import time

import numpy as np
import torch

from berdslib.data.datasets import load_passages, load_questions
from berdslib.judging.base import document_text, pairs_of
from berdslib.judging.laptop import (
    DOCUMENT_TOKENS,
    MPNET_WEIGHTS,
    STATEMENT_TOKENS,
    WEIGHTS,
    Laptop,
    load_laptop,
)
from berdslib.retrieval.retrievers import make_retriever


def plainly(judge, pairs):
    """Return the same probabilities without sorting, reuse or bfloat16."""
    found = []
    for start in range(0, len(pairs), 32):
        batch = pairs[start : start + 32]
        with torch.inference_mode():
            u = judge.model.vectors([p.perspective for p in batch], STATEMENT_TOKENS)
            v = judge.model.vectors([document_text(p.passage, judge.title_position) for p in batch], DOCUMENT_TOKENS)
            found.append(judge.model.compare(u, v).double().numpy())
    return judge.calibration.p_yes(np.concatenate(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=600)
    parser.add_argument("--judge", choices=("laptop", "laptop-mpnet"), default="laptop")
    parser.add_argument("--engine", choices=("torch", "openvino"), default="torch", help="of ours; plain is torch")
    options = parser.parse_args()
    folder = MPNET_WEIGHTS if options.judge == "laptop-mpnet" else WEIGHTS
    start = time.perf_counter()
    judge = load_laptop(folder, engine="torch")
    loaded = time.perf_counter() - start
    questions, passages = load_questions("sample", "all"), load_passages("sample")
    run = make_retriever("minilm", passages).search(questions, 40)
    pairs = pairs_of(run, questions, {p.docno: p for p in passages}, 40)
    asked = pairs[: options.pairs]
    each_once = list({p.passage.docno: p for p in pairs}.values())[: options.pairs]
    judge.p_yes(asked[:8])  # warms up both ways alike
    plainly(judge, asked[:8])
    for name, load in (("as an evaluation asks", asked), ("every passage once", each_once)):
        fresh = Laptop(judge.model, judge.calibration, "fresh", engine=options.engine)  # remembers nothing
        start = time.perf_counter()
        plain = plainly(judge, load)
        middle = time.perf_counter()
        ours = fresh.p_yes(load)
        seconds, plain_seconds = time.perf_counter() - middle, middle - start
        print(f"{name:22} {len(load):5} pairs: plain {len(load) / plain_seconds:6.1f}/s, "
              f"ours {len(load) / seconds:6.1f}/s, {plain_seconds / seconds:.1f} times; probabilities differ by "
              f"{np.abs(plain - ours).max():.4f} at most, "
              f"{np.abs(plain - ours).mean():.5f} on average", flush=True)  # fmt: skip
    size = sum(path.stat().st_size for path in folder.iterdir()) / 2**20
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"{options.judge}: {loaded:.1f} s to load, {size:.1f} MiB in the package, {most:,.0f} MiB at most")


if __name__ == "__main__":
    main()
