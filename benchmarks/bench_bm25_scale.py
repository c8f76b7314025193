"""BM25 at scale: against rank-bm25 at one size; built beside bm25s, saved, opened and searched mapped at another.

Usage: python benchmarks/bench_bm25_scale.py [--peer 200000] [--scale 1000000] [--queries 1000]

Passages are of 100 words with the frequencies of a language (Zipf, 50,000 words). A query is five words of one of the
passages, other than the 100 most frequent ones, which stand for stop words. Memory is read from /proc (Linux only).
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import rank_bm25

from berdslib.data.corpus import write_corpus
from berdslib.data.records import Passage, Question
from berdslib.retrieval import bm25
from berdslib.retrieval.base import docno_order, top_k
from berdslib.retrieval.bm25 import BM25, analyser

VOCABULARY, STOP, K = 50_000, 100, 100

# Each is run in a process of its own, so that the peak is that of this work alone.
MEASURED = """
import sys, time
from pathlib import Path
import numpy as np, bm25s, pandas, tqdm.auto
from berdslib.data.corpus import Corpus
from berdslib.data.records import Question
from berdslib.retrieval import bm25

def mebibytes(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(name))

folder, plain = Path(sys.argv[1]), sys.argv[2] == "plain"
if plain:
    bm25._NUMBA_FROM = 10**12
elif sys.argv[2] == "numba":
    import numba
before = mebibytes("VmHWM")
"""
BUILD = """
start, used = time.perf_counter(), time.process_time()
index = bm25.BM25(Corpus(folder / "corpus"))
built, used, peak = time.perf_counter(), time.process_time() - used, mebibytes("VmHWM")
index.save(folder / "index")
print(built - start, used, peak, len(index._index.scores["data"]), time.perf_counter() - built, before)
"""
# As in its README, which wants the texts in a list; the time to read them is left out.
BUILD_PEER = """
texts = [passage.full_text for passage in Corpus(folder / "corpus")]
start, used = time.perf_counter(), time.process_time()
index = bm25s.BM25(k1=1.5, b=0.75, method="lucene", dtype="float64")
index.index(bm25s.tokenize(texts, stopwords="en"))
built, used = time.perf_counter() - start, time.process_time() - used
print(built, used, mebibytes("VmHWM"), len(index.scores["data"]))
"""
SEARCH = """
asked = [Question(f"q{i}", line) for i, line in enumerate((folder / "queries.txt").read_text().splitlines())]
start = time.perf_counter()
index = bm25.BM25.load(folder / "index")
opened = time.perf_counter() - start
after_open = mebibytes("VmHWM")
index.search(asked[:1], 100)  # compiles, where numba is used
first = time.perf_counter()
index.search(asked, 100)
print(opened, after_open, len(asked) / (time.perf_counter() - first), before, mebibytes("VmHWM"), mebibytes("RssAnon"))
"""


def synthetic(n, queries):
    """Yield passages, and write to `queries` the words of some of them."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(VOCABULARY)], dtype=object)
    shares = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    chosen = set(rng.choice(n, queries, replace=False).tolist())
    asked = []
    for start in range(0, n, 10_000):
        drawn = np.searchsorted(shares, rng.random((min(10_000, n - start), 100)) * shares[-1])
        for i, row in enumerate(drawn, start=start):
            if i in chosen:
                asked.append(" ".join(words[rng.permutation(row[row >= STOP])[:5]]))
            yield Passage(f"d{i}", " ".join(words[row]))
    synthetic.asked = asked


def measured(code, *arguments):
    command = [sys.executable, "-c", MEASURED + code, *map(str, arguments)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(value) for value in output.split()]


def against_peer(n, queries):
    passages = list(synthetic(n, queries))
    asked = [Question(f"q{i}", text) for i, text in enumerate(synthetic.asked)]
    cut = analyser("english")
    start = time.perf_counter()
    peer = rank_bm25.BM25Okapi([cut(p.text) for p in passages], k1=1.5, b=0.75)
    print(f"{n:,} passages: rank-bm25 built in {time.perf_counter() - start:.1f} s", flush=True)
    ties = docno_order([p.docno for p in passages])
    few = asked[:20]
    theirs, start = [], time.perf_counter()
    for question in few:
        scores = np.asarray(peer.get_scores(cut(question.text)))
        rows = top_k(scores, K, ties, allowed=scores > 0)
        theirs.append((rows, scores[rows]))
    peer_rate = len(few) / (time.perf_counter() - start)
    print(f"  rank-bm25 (BM25Okapi.get_scores, and our choice of the best {K}): {peer_rate:.2f} queries/s", flush=True)
    for kind in ("plain", "numba"):
        if kind == "numba" and importlib.util.find_spec("numba") is None:
            print("  numba is not installed")
            continue
        bm25._NUMBA_FROM = 0 if kind == "numba" else 10**12
        start = time.perf_counter()
        ours = BM25(passages, variant="robertson")
        built = time.perf_counter() - start
        ours.search(asked[:1], K)  # compiles
        start = time.perf_counter()
        ours.search(asked, K)
        rate = len(asked) / (time.perf_counter() - start)
        start = time.perf_counter()
        for question in asked:
            ours._search_one(question.text, K)
        bare = len(asked) / (time.perf_counter() - start)
        same = 0
        for question, (rows, scores) in zip(few, theirs, strict=True):
            mine, values = ours._search_one(question.text, K)
            # Okapi multiplies by k1 + 1 = 2.5.
            same += np.array_equal(mine, rows) and np.allclose(values * 2.5, scores, rtol=1e-9)
        print(
            f"  bm25 ({kind}): built in {built:.1f} s; {rate:,.0f} queries/s, {rate / peer_rate:,.0f} times rank-bm25 "
            f"({bare:,.0f} or {bare / peer_rate:,.0f} times without the table of results); of {len(few)} queries "
            f"{same} have the same top {K} in the same order with the same scores",
            flush=True,
        )


def memory_mapped(n, queries, folder):
    start = time.perf_counter()
    write_corpus(synthetic(n, queries), folder / "corpus")
    (folder / "queries.txt").write_text("\n".join(synthetic.asked))
    print(f"{n:,} passages on disk, written in {time.perf_counter() - start:.0f} s", flush=True)
    have_numba = importlib.util.find_spec("numba") is not None
    built, used, peak, scores, saved, before = measured(BUILD, folder, "numba" if have_numba else "plain")
    size = sum(p.stat().st_size for p in (folder / "index").iterdir())
    print(
        f"  built in {built:.0f} s ({used:.0f} s of CPU), peak {peak:,.0f} MiB ({before:.0f} for imports), "
        f"{scores:,.0f} scores; saved in {saved:.1f} s, {size:,} bytes, {size / n:,.0f} for each passage",
        flush=True,
    )
    peer_built, peer_used, peer_peak, peer_scores = measured(BUILD_PEER, folder, "plain")
    print(
        f"  bm25s itself (tokenize, index): {peer_built:.0f} s ({peer_used:.0f} s of CPU), peak {peer_peak:,.0f} MiB, "
        f"{peer_scores:,.0f} scores; it takes {peer_built / built:.1f} times our seconds, {peer_used / used:.1f} times "
        f"our CPU, {peer_peak / peak:.1f} times our memory",
        flush=True,
    )
    for kind in ("plain", "numba") if have_numba else ("plain",):
        opened, after_open, rate, before, peak, anonymous = measured(SEARCH, folder, kind)
        print(
            f"  {kind}: opened memory-mapped in {opened:.2f} s; {rate:,.0f} queries/s; peak {peak:,.0f} MiB "
            f"({before:.0f} for imports, {after_open:,.0f} once open), of which not the mapped file {anonymous:,.0f}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", type=int, default=200_000, help="passages to compare with rank-bm25 on; 0 for none")
    parser.add_argument("--scale", type=int, default=1_000_000, help="passages on disk; 0 for none")
    parser.add_argument("--queries", type=int, default=1000)
    options = parser.parse_args()
    if options.peer:
        against_peer(options.peer, options.queries)
    if options.scale:
        with tempfile.TemporaryDirectory() as folder:
            memory_mapped(options.scale, options.queries, Path(folder))
