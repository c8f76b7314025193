"""A corpus encoded in three ways and indexed whole and in parts: seconds, memory and recall of `berds` commands.

Usage: python benchmarks/bench_scale.py [FOLDER] [--articles articles.jsonl] [--passages 200000] [-q QUESTIONS]

1. `berds data encode` in one process; as four parts; and on a dask cluster of two workers of which one is killed with
   signal 9 while it works. Are the joined vectors equal, byte for byte?
2. The corpus as often as --copies says. Encoding it would repeat step 1, so a retriever of ours adds noise of length
   .6 to the vectors of step 1. `berds data index` builds every kind in one piece, and IVF-PQ and HNSW in four parts.
3. `berds retrieve -k 100` with each index: recall of the exact search's passages.

Without --articles the passages are invented words, so that recall says nothing of real text. What is finished in
FOLDER is not done again. Memory is the peak of one command (Linux).
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from berdslib.data.corpus import Corpus
from berdslib.data.formats import iter_passages

WORDS = 16  # a passage: short, so that 200,000 are encoded in minutes
PARTS = 4
KINDS = ("flat", "ivf", "hnsw", "ivf-pq")
PLUGIN = """
import hashlib
import numpy as np
import berdslib as bd
from berdslib.data.corpus import Corpus
from berdslib.retrieval.retrievers import encoding_of

ENCODER, TEXT_OF = encoding_of("minilm")
ROWS = {{TEXT_OF(passage): row for row, passage in enumerate(Corpus({corpus!r}))}}
VECTORS = np.load({vectors!r}, mmap_mode="r")


def noisy(texts):
    vectors = np.empty((len(texts), VECTORS.shape[1]), np.float32)
    for place, text in enumerate(texts):
        original = text.partition("| ")[2]
        if original in ROWS:
            seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
            noise = np.random.default_rng(seed).standard_normal(VECTORS.shape[1], np.float32)
            vectors[place] = VECTORS[ROWS[original]] + 0.6 * noise / np.linalg.norm(noise)
        else:
            vectors[place] = ENCODER.encode_queries([text])[0]
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


bd.register("retriever", "noisy", bd.dense(noisy, id="noisy"))
"""


def berds(*arguments, **environment):
    """Run a `berds` command and return its seconds and the peak of its memory in MiB."""
    start = time.perf_counter()
    process = subprocess.Popen(command(*arguments), env=os.environ | environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"berds {' '.join(map(str, arguments))}: failed")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def command(*arguments):
    return [sys.executable, "-m", "berdslib.cli", *map(str, arguments), "--quiet"]


def invented(n):
    draw = random.Random(0)
    for _ in range(n):
        yield " ".join(f"word{int(50_000 ** draw.random())}" for _ in range(WORDS))


def cut(articles, n):
    """Yield the first n different pieces of the articles."""
    seen = set()
    for article in iter_passages(articles):
        words = article.text.split()
        for start in range(0, len(words) - WORDS + 1, WORDS):
            text = " ".join(words[start : start + WORDS])
            if text not in seen:
                seen.add(text)
                yield text
            if len(seen) == n:
                return


def write_corpus(path, texts):
    with open(path, "w", encoding="utf-8") as file:
        for number, text in enumerate(texts):
            file.write(json.dumps({"docno": f"d{number}", "text": text}) + "\n")
    berds("data", "export", path.with_suffix(""), "-c", path)


def encode_in_parts(corpus, vectors):
    encode = ("data", "encode", corpus, "--vectors", vectors)
    return [berds(*encode, "--part", f"{part}/{PARTS}") for part in range(1, PARTS + 1)]


def encode_on_dask(corpus, vectors):
    """Encode with two dask workers; kill one when a third of the shards is done; return the seconds of all."""
    address = "tcp://127.0.0.1:8799"
    module = [sys.executable, "-m"]
    worker = [*module, "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
    started = []

    def start(arguments):
        started.append(subprocess.Popen(arguments, stderr=subprocess.DEVNULL))
        return started[-1]

    killed = False
    begun = time.perf_counter()
    try:
        start([*module, "distributed.cli.dask_scheduler", "--port", "8799", "--no-dashboard"])
        first, _ = start(worker), start(worker)
        work = subprocess.Popen(command("data", "encode", corpus, "--vectors", vectors, "--scheduler", address))
        while work.poll() is None:
            done = len(list((vectors / "shards").glob("*.npy")))
            if not killed and done * 3 > shards(corpus):
                first.send_signal(signal.SIGKILL)
                killed = True
                print(f"  killed a worker after {time.perf_counter() - begun:.0f} s and {done} shards", flush=True)
                start(worker)  # as a cluster's manager would
            time.sleep(0.5)
    finally:
        for process in started:
            process.kill()
    if work.returncode or not killed:
        raise SystemExit(f"dask: exit {work.returncode}, killed: {killed}")
    return time.perf_counter() - begun


def shards(corpus):
    return -(-len(Corpus(corpus)) // 2048)


def step(folder, name, work):
    """Do a step once: its result is kept in FOLDER."""
    kept = folder / f"{name}.json"
    if not kept.exists():
        result = work()
        kept.write_text(json.dumps(result))
    return json.loads(kept.read_text())


def encoded(folder, corpus):
    """Encode the corpus in three ways; return the folder of the first."""
    one, part, dask = (folder / f"vectors_{way}" for way in ("one", "parts", "dask"))
    seconds, memory = step(folder, "one", lambda: berds("data", "encode", corpus, "--vectors", one))
    print(f"one process: {seconds:.0f} s, {memory:.0f} MiB")
    parts = step(folder, "parts", lambda: encode_in_parts(corpus, part))
    print(f"four parts: {sum(s for s, _ in parts):.0f} s in all, {max(m for _, m in parts):.0f} MiB at most")
    print(f"dask, a worker killed: {step(folder, 'dask', lambda: encode_on_dask(corpus, dask)):.0f} s")
    hashes = set()
    for way in (one, part, dask):
        join = ("data", "index", corpus, f"flat:{way}.flat", "--vectors", way)
        step(folder, f"joined_{way.name}", partial(berds, *join))
        hashes.add(hashlib.sha256((way / "vectors.npy").read_bytes()).hexdigest())
    print(f"vectors.npy of the three: {'equal' if len(hashes) == 1 else 'DIFFERENT'}, {hashes}", flush=True)
    return one


def docnos(run):
    """Return the set of passages of each question in a TREC run."""
    found = {}
    for line in run.read_text().splitlines():
        qid, _, docno, *_ = line.split()
        found.setdefault(qid, set()).add(docno)
    return found


def search(folder, corpus, questions, place, plugin):
    run = folder / f"{Path(place).name}.trec"
    arguments = ("-q", questions, "-c", corpus, "-r", "noisy", "--index", place, "-k", 100, "-o", run)
    seconds, memory = step(folder, run.stem, lambda: berds("retrieve", *arguments, **plugin))
    return docnos(run), seconds, memory


def indexed(folder, corpus, questions, plugin):
    """Build every index of the corpus and print its seconds, memory, size and recall."""
    vectors = folder / "vectors_many"
    encode = ("data", "encode", corpus, "-m", "noisy", "--vectors", vectors)
    seconds, memory = step(folder, "many", partial(berds, *encode, **plugin))
    print(f"encoded (copies): {seconds:.0f} s, {memory:.0f} MiB")
    exact, seconds, memory = search(folder, corpus, questions, f"numpy:{vectors}", plugin)
    print(f"{'numpy':<18} search {seconds:5.0f} s {memory:6.0f} MiB; {len(exact)} questions", flush=True)
    for kind, parts in [(kind, 1) for kind in KINDS] + [("hnsw", PARTS), ("ivf-pq", PARTS)]:
        place = folder / f"{kind}-{parts}"

        def build(kind=kind, parts=parts, place=place):
            arguments = ("data", "index", corpus, f"{kind}:{place}", "-m", "noisy", "--vectors", vectors)
            return [berds(*arguments, "--part", f"{i}/{parts}", **plugin) for i in range(1, parts + 1)]

        built = step(folder, f"built-{kind}-{parts}", build)
        found, seconds, memory = search(folder, corpus, questions, f"{kind}:{place}", plugin)
        recall = np.mean([len(found[qid] & true) / len(true) for qid, true in exact.items()])
        size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file()) / 2**20
        seconds_built, memory_built = sum(s for s, _ in built), max(m for _, m in built)
        print(
            f"{place.name:<18} build {seconds_built:5.0f} s {memory_built:6.0f} MiB; {size:6.0f} MiB on disk; "
            f"search {seconds:5.0f} s {memory:6.0f} MiB; recall@100 {recall:.3f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="is kept; default: a temporary one")
    parser.add_argument("--articles", help="JSONL with the field `text`")
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--copies", type=int, default=5)
    parser.add_argument("-q", "--questions", default="sample")
    options = parser.parse_args()
    with nullcontext(options.folder) if options.folder else TemporaryDirectory() as folder:
        measure(Path(folder).resolve(), options)


def measure(folder, options):
    folder.mkdir(parents=True, exist_ok=True)
    texts = list(cut(options.articles, options.passages) if options.articles else invented(options.passages))
    few, many = folder / "few", folder / "many"
    print(f"{len(texts):,} passages of {WORDS} words, and {options.copies} copies of each", flush=True)
    step(folder, "written", lambda: write_corpus(folder / "few.jsonl", texts))
    one = encoded(folder, few)
    copies = (f"{copy}| {text}" for copy in range(options.copies) for text in texts)
    step(folder, "written_many", lambda: write_corpus(folder / "many.jsonl", copies))
    (folder / "noisy_copies.py").write_text(PLUGIN.format(corpus=str(few), vectors=str(one / "vectors.npy")))
    paths = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    indexed(folder, many, options.questions, {"BERDS_PLUGINS": "noisy_copies", "PYTHONPATH": paths})


if __name__ == "__main__":
    main()
