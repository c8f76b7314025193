"""The corpus on disk against a list in memory: time and memory to write, open and read.

Usage: python benchmarks/bench_corpus.py [--passages 1000000] [--articles articles.jsonl]

Memory is read from /proc, so on Linux only: getrusage's peak starts, in a new process, at what its parent had.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from berdslib.data.formats import iter_passages, write_passages
from berdslib.data.passages import corpus_statistics, cut_documents, without_duplicates
from berdslib.data.records import Passage

# Each is run in a process of its own, so that the peak is that of this work alone.
MEASURED = """
import sys, time
import numpy as np
from berdslib.data.corpus import Corpus, write_corpus
from berdslib.data.formats import iter_passages, read_passages
from berdslib.data.passages import without_duplicates
import pyarrow, pyarrow.ipc, tqdm.auto

def mebibytes(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(name))

path, before, start = sys.argv[1], mebibytes("VmHWM"), time.perf_counter()
anonymous = mebibytes("RssAnon")
kept = 0
{work}
seconds = time.perf_counter() - start
print(seconds, before, mebibytes("VmHWM"), mebibytes("RssAnon") - anonymous, kept)
"""
OPEN = "corpus = Corpus(path)"
READ = "places = np.random.default_rng(0).integers(0, len(corpus), 1000)\n"
BY_PLACE = f"{OPEN}\n{READ}read = [corpus[int(i)] for i in places]"
BY_DOCNO = f"{OPEN}\n{READ}read = [corpus.by_docno[f'd{{i}}'] for i in places]"
ALL = f"{OPEN}\nread = sum(len(p.text) for p in corpus)"
LOAD = "corpus = read_passages(path)"
STREAM = "read = sum(len(p.text) for p in iter_passages(path))"
WRITE = "write_corpus(iter_passages(path), path + '.disk')"
# The generator is still alive when memory is read: it is stopped one passage early.
DROP = """from itertools import islice
stream = without_duplicates(Corpus(path))
kept = sum(1 for _ in islice(stream, len(Corpus(path)) - 1))"""


def measured(what, work, path):
    """Print and return seconds, MiB of memory at the peak above that of the imports, and what was kept."""
    code = MEASURED.format(work=work)
    output = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True).stdout
    seconds, before, peak, anonymous, kept = map(float, output.split())
    print(
        f"  {what:<42}{seconds:8.3f} s   peak {peak:5.0f} MiB: imports {before:.0f}, work {peak - before:.0f}; "
        f"at the end {anonymous:.0f} MiB that are not the mapped file"
    )
    return seconds, peak - before, anonymous, int(kept)


def synthetic(n):
    """Passages of 100 words, drawn one by one with the frequencies of a language."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(50_000)], dtype=object)
    shares = np.cumsum(1 / np.arange(1, len(words) + 1))
    for start in range(0, n, 10_000):
        drawn = words[np.searchsorted(shares, rng.random((min(10_000, n - start), 100)) * shares[-1])]
        for i, row in enumerate(drawn, start=start):
            yield Passage(f"d{i}", " ".join(row), f"Title {i // 10}")


def bench_cutting(articles):
    documents = list(iter_passages(articles))
    print(f"cutting {len(documents):,} documents of {articles}")
    start = time.perf_counter()
    passages = list(cut_documents(documents))
    seconds = time.perf_counter() - start
    counts = ", ".join(f"{name} {value:,.6g}" for name, value in corpus_statistics(passages).items())
    print(f"  cut_documents: {len(passages) / seconds:,.0f} passages/s   {counts}")
    start = time.perf_counter()
    kept = sum(1 for _ in without_duplicates(passages))
    rate = len(passages) / (time.perf_counter() - start)
    print(f"  without_duplicates: {rate:,.0f} passages/s, {kept:,} kept")


def bench_disk(n):
    with tempfile.TemporaryDirectory() as folder:
        jsonl, disk = Path(folder) / "corpus.jsonl", Path(folder) / "corpus.jsonl.disk"
        write_passages(jsonl, synthetic(n))
        print(f"{n:,} synthetic passages of 100 words; JSONL of {jsonl.stat().st_size / 1e6:,.0f} MB")
        measured("JSONL, streamed, nothing kept", STREAM, jsonl)
        seconds, *_ = measured("JSONL to the corpus on disk", WRITE, jsonl)
        sizes = {p.name: f"{p.stat().st_size / 1e6:,.1f} MB" for p in sorted(disk.iterdir())}
        print(f"  {n / seconds:,.0f} passages/s written; files {sizes}")
        load, in_memory, *_ = measured("read_passages: JSONL into a list", LOAD, jsonl)
        opened, *_ = measured("Corpus(path)", OPEN, disk)
        _, by_place, *_ = measured("... and 1,000 random passages by position", BY_PLACE, disk)
        measured("... and 1,000 random passages by docno", BY_DOCNO, disk)
        measured("... and all in order", ALL, disk)
        print(f"  ratios to the list: opens in 1/{load / opened:,.0f} of the time; with 1,000 passages read,", end=" ")
        print(f"1/{in_memory / by_place:.1f} of the memory, mapped pages included")
        seconds, _, anonymous, kept = measured("without_duplicates", DROP, disk)
        print(f"    {n / seconds:,.0f} passages/s, {kept:,} kept, {anonymous * 1024 / kept:.2f} KiB for each of them")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--articles", help="JSONL with documents to be cut, such as articles.jsonl of Project Debater")
    options = parser.parse_args()
    if options.articles:
        bench_cutting(options.articles)
    bench_disk(options.passages)
