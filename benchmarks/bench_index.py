"""Dense search: NumPy, faiss and Milvus on the same vectors, in one run.

Usage: python benchmarks/bench_index.py [--vectors 500000] [--dim 384] [--queries 200] [--only numpy,faiss-hnsw]

Unit vectors: one of n / 100 random centres, plus noise of the same length; the queries are made alike. Each index is
built, saved, opened and searched in a process of its own; memory is read from /proc (Linux only). Rates are queries per
second of one core's time: of all queries in one call, and of calls with one query each, which cost exact search most,
as it reads all vectors for each. Recall is that of the 100 best against exact search. An index of approximate vectors
is also used as a first stage: "rescored" is the recall of the 100 best by exact score among its 400 best.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from berdslib.retrieval.index import INDEXES

K = 100
MEASURED = """
import json, sys, time
from pathlib import Path
import faiss, numpy as np
from berdslib.retrieval.index import Rescored, build_kept, kept, make_index

def recall(found, true):
    return float(np.mean([np.isin(best, rows).mean() for (rows, _), best in zip(found, true, strict=True)]))

def mebibytes(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(name))

folder, name, k, step = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
queries, path, result = np.load(folder / "queries.npy"), folder / name, {"before": mebibytes("VmHWM")}
start = time.perf_counter()
vectors = np.load(folder / "vectors.npy", mmap_mode="r")
about, kept_at = {"passages": len(vectors)}, f"milvus:{path}.db"
if step == "build" and name == "milvus":
    build_kept(kept_at, about, vectors)
    result["built"] = time.perf_counter() - start
elif step == "build":
    index = make_index(name)
    index.add(vectors)
    result["built"] = time.perf_counter() - start
    index.save(path)
else:
    index = kept(kept_at, about, lambda: vectors) if name == "milvus" else type(make_index(name)).open(path)
    result["opened"] = time.perf_counter() - start
    index.search(queries[:2], k)
    start = time.process_time()
    hits = index.search(queries, k)
    result["rate"] = len(queries) / (time.process_time() - start)
    few = queries[:50]
    start = time.process_time()
    for query in few:
        index.search(query[None], k)
    result["alone"] = len(few) / (time.process_time() - start)
    result["anonymous"] = mebibytes("RssAnon")
    result["peak"] = mebibytes("VmHWM")
    if name == "numpy":
        np.save(folder / "true.npy", np.stack([rows for rows, _ in hits]))
    true = np.load(folder / "true.npy")
    result["recall"] = recall(hits, true)
    if name == "faiss-ivf-pq":
        rescored = Rescored(index, vectors, depth=4 * k)
        result["rescored"] = recall(rescored.search(queries, k), true)
print(json.dumps(result))
"""


def measured(folder, name, step):
    command = [sys.executable, "-c", MEASURED, str(folder), name, str(K), step]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def write_vectors(folder, n, dim, queries):
    """Write vectors.npy, 65,536 vectors at a time, and queries.npy."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((max(1, n // 100), dim), dtype=np.float32)
    file = np.lib.format.open_memmap(folder / "vectors.npy", mode="w+", dtype=np.float32, shape=(n, dim))
    for start in range(0, n, 65_536):
        file[start : start + 65_536] = near(rng, centres, min(65_536, n - start))
    file.flush()
    np.save(folder / "queries.npy", near(rng, centres, queries))


def near(rng, centres, n):
    vectors = centres[rng.integers(0, len(centres), n)]
    vectors = vectors + rng.standard_normal(vectors.shape, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def main(options):
    names = options.only.split(",") if options.only else list(INDEXES)
    if "milvus" in names and importlib.util.find_spec("milvus_lite") is None:
        print("milvus-lite is not installed")
        names.remove("milvus")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_vectors(folder, options.vectors, options.dim, options.queries)
        print(f"{options.vectors:,} vectors of {options.dim}: {4 * options.vectors * options.dim / 2**20:,.0f} MiB")
        rates = {}
        for name in ["numpy", *(name for name in names if name != "numpy")]:  # the first says what is true
            build, search = measured(folder, name, "build"), measured(folder, name, "search")
            rates[name] = search["rate"]
            path = folder / name
            size = sum(p.stat().st_size for p in [*path.rglob("*"), *path.with_name(f"{name}.db").rglob("*")])
            rescored = f", rescored {search['rescored']:.3f}" if "rescored" in search else ""
            print(
                f"  {name:<13}{search['rate']:8,.0f} queries/s, {search['rate'] / rates['numpy']:6.1f} times numpy; "
                f"{search['alone']:,.0f} queries/s one by one; "
                f"recall@{K} {search['recall']:.3f}{rescored}; built in {build['built']:.0f} s, {size / 2**20:,.0f} MiB"
                f" on disk, opened in {search['opened']:.2f} s, peak {search['peak']:,.0f} MiB (imports "
                f"{search['before']:.0f}), of which not the mapped file {search['anonymous']:,.0f}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=int, default=500_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--only", help="names of indexes, with commas between them")
    main(parser.parse_args())
