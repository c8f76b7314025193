"""Projection at speed and at scale. What it does to tasks: scripts/projection_rule.py.

Usage: python benchmarks/bench_projection.py [--large]

Without an option: PAP+ in closed form against a loop over pairs that projects both and compares them, 100 queries, 500
passages, 384 numbers. With --large: 1,000 queries x 1,000,000 passages on disk; the 1,000 candidates that the exact
index finds for the projected query are rescored, against PAP+ of every passage. Memory is read from /proc (Linux only).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from berdslib.retrieval.projection import scores

# ---------------------------------------------------------------- speed


def pair_by_pair(query, perspective, passages):
    """PAP+ as one would write it down: project both, then the cosine, for each pair."""
    out = np.zeros((len(query), len(passages)))
    for i, (q, p) in enumerate(zip(query, perspective, strict=True)):
        for j, c in enumerate(passages):
            projected_q = q - (q @ p) / (p @ p) * p
            projected_c = c - (c @ p) / (p @ p) * p
            out[i, j] = projected_q @ projected_c / (np.linalg.norm(projected_q) * np.linalg.norm(projected_c))
    return out


def small(queries=100, passages=500, dim=384):
    rng = np.random.default_rng(0)
    q, r, p = rng.standard_normal((3, queries, dim)).astype(np.float32)
    c = rng.standard_normal((passages, dim)).astype(np.float32)
    scores("pap+", q, r, p, c)
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        fast = scores("pap+", q, r, p, c)
        seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    slow = pair_by_pair(q.astype(np.float64), p.astype(np.float64), c.astype(np.float64))
    loop, closed = time.perf_counter() - start, float(np.median(seconds))
    print(
        f"PAP+, {queries} x {passages} x {dim}: pair by pair {loop:.2f} s, closed form {1000 * closed:.1f} ms, "
        f"{loop / closed:,.0f} times; largest difference {np.abs(fast - slow).max():.1e}"
    )


# ---------------------------------------------------------------- scale

MEASURED = """
import json, sys, time
from pathlib import Path
import numpy as np
from berdslib.retrieval.index import NumpyIndex
from berdslib.retrieval.projection import Form, apply_form, make_form, search_exact

def mebibytes(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(name))

folder, step, depth, k = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
q, p = np.load(folder / "queries.npy"), np.load(folder / "perspectives.npy")
vectors, result = np.load(folder / "vectors.npy", mmap_mode="r"), {"before": mebibytes("VmHWM")}
form, start = make_form("pap+", q, q, p), time.perf_counter()
if step == "exact":
    hits = search_exact(form, vectors, k)
else:
    index = NumpyIndex.open(folder / "vectors.npy")
    found = [rows for rows, _ in index.search(form.query.astype(np.float32), depth)]
    result["searched"], start = time.perf_counter() - start, time.perf_counter()
    alone = [Form(*(field[i : i + 1] for field in form)) for i in range(len(found))]
    scored = [(rows, apply_form(one, vectors[rows])[0]) for one, rows in zip(alone, map(np.sort, found))]
    hits = [(rows[np.argsort(-values, kind="stable")[:k]], values) for rows, values in scored]
result["seconds"] = time.perf_counter() - start
result["peak"], result["anonymous"] = mebibytes("VmHWM"), mebibytes("RssAnon")
np.save(folder / f"{step}.npy", np.stack([rows for rows, _ in hits]))
print(json.dumps(result))
"""


def near(rng, centres, n):
    """Unit vectors: a random centre each, plus noise of the same length."""
    vectors = centres[rng.integers(0, len(centres), n)]
    vectors = vectors + rng.standard_normal(vectors.shape, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def write_vectors(folder, passages, queries, dim):
    """Write vectors.npy, 65,536 at a time; queries of topic + perspective, as a request's vector is of both."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((max(1, passages // 1000), dim), dtype=np.float32)
    file = np.lib.format.open_memmap(folder / "vectors.npy", mode="w+", dtype=np.float32, shape=(passages, dim))
    for start in range(0, passages, 65_536):
        file[start : start + 65_536] = near(rng, centres, min(65_536, passages - start))
    file.flush()
    topic, perspective = near(rng, centres, queries), near(rng, centres, queries)
    np.save(folder / "perspectives.npy", perspective)
    np.save(folder / "queries.npy", (topic + perspective) / np.linalg.norm(topic + perspective, axis=1, keepdims=True))


def measured(folder, step, depth, k):
    command = [sys.executable, "-c", MEASURED, str(folder), step, str(depth), str(k)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def large(passages, queries, dim=384, depth=1000, k=5):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_vectors(folder, passages, queries, dim)
        print(f"{queries:,} queries x {passages:,} passages of {dim}: {4 * passages * dim / 2**20:,.0f} MiB on disk")
        steps = {step: measured(folder, step, depth, k) for step in ("rescored", "exact")}
        found, true = np.load(folder / "rescored.npy"), np.load(folder / "exact.npy")
    for step, one in steps.items():
        first = f"{one['searched']:.0f} s to find {depth} candidates each and " if "searched" in one else ""
        print(
            f"  {step:<9}{first}{one['seconds']:.1f} s; peak {one['peak']:,.0f} MiB with the mapped file (before "
            f"{one['before']:,.0f}), without it {one['anonymous']:,.0f} at the end"
        )
    same = np.mean([np.isin(t, f).mean() for t, f in zip(true, found, strict=True)])
    print(f"  {100 * same:.2f} % of the exact {k} best are found, {100 * (true == found).mean():.2f} % at their rank")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--passages", type=int, default=1_000_000, help="with --large")
    parser.add_argument("--queries", type=int, default=1000, help="with --large")
    options = parser.parse_args()
    if options.large:
        large(options.passages, options.queries)
    elif os.environ.get("OMP_NUM_THREADS") == "1":
        small()
    else:  # the loop has one thread, so the closed form gets one
        subprocess.run([sys.executable, __file__], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
