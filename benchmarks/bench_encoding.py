"""The minilm encoder against plain sentence-transformers, in one run: texts per second, and what is lost.

Usage: python benchmarks/bench_encoding.py [--passages 5000] [--rounds 5] [--threads 2] [--only default,…]
       … --encoders minilm,mpnet        both, each against its own peer; and how much longer the second takes

The peer is ``SentenceTransformer(folder).encode(texts)`` with its defaults, "default" what ``get_encoder("minilm")``
chooses on this machine. Every way of encoding has a process of its
own with the same environment and the same number of threads, and they take turns: in each round one after the other
encodes the same part of the passages while the others wait. "times" is the peer's seconds divided by those of this way,
the median over rounds with the least and the greatest; "CPU" the same of processor seconds, which other work on the
machine disturbs less. Cosines are to the peer's vectors. "Alone" are texts one at a time, as questions come: the median
over questions of the sample of the peer's seconds divided by those of this way.

The passages are all of theperspective, then Wikipedia's first ones up to the number, in random order; MRecall@5 is that
of theperspective, all questions and gold verdicts. Without that data the passages are the packaged sample's.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.errors import MissingDataError
from berdslib.evaluation.measures import parse_measure, score_run
from berdslib.models.cards import CARDS
from berdslib.models.encoders import get_encoder
from berdslib.models.loading import cpu_flags
from berdslib.retrieval.dense import Dense

PEER = "sentence-transformers"
WAYS = {
    "default": {},
    "float32": {"number_format": "float32"},
    "openvino-float32": {"engine": "openvino", "number_format": "float32"},
    "openvino-bfloat16": {"engine": "openvino", "number_format": "bfloat16"},
}
FEATURES = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
SETTINGS = ("GLIBC_TUNABLES", "OMP_WAIT_POLICY", "BERDS_NUMBER_FORMAT")
# Each line in is texts, their kind and a file for the vectors; each line out is seconds and processor seconds.
WORKER = """
import json, os, sys, time
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import numpy as np, torch
torch.set_num_threads(int(sys.argv[2]))
name, options = json.loads(sys.argv[1])
from berdslib.errors import InputError
try:
    if options is None:
        from sentence_transformers import SentenceTransformer
        from berdslib.models.cards import CARDS
        from berdslib.models.loading import package_folder
        package = CARDS[name].checkpoint.removeprefix("package:")
        passages = queries = SentenceTransformer(package_folder(package), device="cpu").encode
    else:
        from berdslib.models.encoders import get_encoder
        encoder = get_encoder(name, cached=False, **options)
        passages, queries = encoder.encode_passages, encoder.encode_queries
    passages(["the first texts load the model"] * 64)
except InputError as error:  # a number format that this processor does not have
    sys.exit(print(error, file=out, flush=True))
print("ready", file=out, flush=True)
for line in sys.stdin:
    texts, kind, file = json.loads(line)
    cpu, start = time.process_time(), time.perf_counter()
    vectors = (queries if kind == "queries" else passages)(texts)
    seconds = [time.perf_counter() - start, time.process_time() - cpu]
    np.save(file, vectors)
    print(json.dumps(seconds), file=out, flush=True)
"""


class Worker:
    """Encodes in a process of its own; ``seconds`` are those of the last call, by the clock and of the processor.

    ``refused`` says why this processor cannot; "" where it can.
    """

    def __init__(self, encoder, options, threads, folder):
        self._file = Path(folder) / "vectors.npy"
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, json.dumps([encoder, options]), str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip
        said = self._process.stdout.readline().strip()
        if not said:
            raise SystemExit(f"could not load {options or PEER}; get_encoder({encoder!r}, …) says why")
        self.refused = "" if said == "ready" else said

    def encode(self, texts, kind="passages"):
        """Return the vectors of passages or queries."""
        print(json.dumps([texts, kind, str(self._file)]), file=self._process.stdin, flush=True)
        self.seconds = json.loads(self._process.stdout.readline())
        return np.load(self._file)


class Known:
    """Gives the vectors that a worker made of passages, and lets it encode questions."""

    def __init__(self, worker, vectors):
        self._worker, self._vectors, self.id = worker, vectors, "known"

    def encode_queries(self, texts):
        """Encode questions."""
        return self._worker.encode(texts, "queries")

    def encode_passages(self, texts):
        """Look passages up."""
        return np.stack([self._vectors[text] for text in texts])


def real_passages(n):
    """Return theperspective's passages, [] without that data, and the passages to encode."""
    try:
        scored = load_passages("theperspective")
        return scored, [*scored, *load_passages("wikipedia-articles:words")[: max(0, n - len(scored))]][:n]
    except MissingDataError as error:
        print(f"with the packaged sample, as there is no other: {str(error).splitlines()[0]}", file=sys.stderr)
        return [], load_passages("sample")[:n]


def alone(workers, rounds=5):
    """Return the seconds of each question of the sample, encoded alone: name → (rounds x questions)."""
    questions = [q.text for q in load_questions("sample", "all")] * rounds
    seconds = {name: [] for name in workers}
    for text in questions:
        for name, worker in workers.items():
            worker.encode([text], "queries")
            seconds[name].append(worker.seconds[0])
    return {name: np.array(found) for name, found in seconds.items()}


def mrecall(encoder, passages):
    """Return how many questions were asked, and MRecall@5 in percent."""
    questions, gold = load_questions("theperspective"), load_gold("theperspective")
    run = Dense(passages, encoder, text_of=CARDS["minilm"].passage_text).search(questions, 5)
    return len(questions), 100 * score_run(run, gold, questions, [parse_measure("MRecall@5")])["MRecall@5"].mean()


def show(encoder, names, workers, vectors, seconds, texts, scored):
    """Print a line for each way of encoding with an encoder, beside its peer."""
    one = alone({name: workers[encoder, name] for name in names})
    exact, peer = np.concatenate(vectors[encoder, PEER]), np.array(seconds[encoder, PEER])
    print(f" {encoder}")
    for name in names:
        own, found = np.array(seconds[encoder, name]), np.concatenate(vectors[encoder, name])
        times, cpu = (peer / own).T
        cosines = (exact * found).sum(axis=1)
        score = ""
        if scored and len(texts) >= len(scored):
            known = Known(workers[encoder, name], dict(zip(texts, found, strict=True)))
            score = "; MRecall@5 of {} questions {:.2f}".format(*mrecall(known, scored))
        print(
            f"  {name:<22}{len(texts) / own[:, 0].sum():7.1f} texts/s, {np.median(times):5.2f} times "
            f"({times.min():.2f} to {times.max():.2f}), CPU {np.median(cpu):5.2f} times; "
            f"alone {np.median(one[PEER] / one[name]):.2f} times; cosine "
            f"{cosines.min():.5f} at least, {cosines.mean():.5f} on average{score}",
            flush=True,
        )


def show_longer(first, second, names, seconds):
    """Print how many times as long the second encoder takes as the first, way by way."""
    print(f" {second} takes, for the same texts, this many times as long as {first}")
    for name in names:
        times, cpu = (np.array(seconds[second, name]) / np.array(seconds[first, name])).T
        print(f"  {name:<22}{np.median(times):5.2f} ({times.min():.2f} to {times.max():.2f}), CPU {np.median(cpu):.2f}")


def main(options):
    names = [PEER, *(options.only.split(",") if options.only else WAYS)]
    encoders = options.encoders.split(",")
    scored, passages = real_passages(options.passages)
    texts = [CARDS["minilm"].passage_text(p) for p in passages]
    texts = [texts[i] for i in np.random.default_rng(0).permutation(len(texts))]
    size = -(-len(texts) // options.rounds)
    environment = "".join(f", {name}={os.environ[name]}" for name in SETTINGS if name in os.environ)
    print(f"{len(texts):,} passages in {options.rounds} rounds, threads: {options.threads}{environment}; "
          f"the processor has {', '.join(f for f in FEATURES if f in cpu_flags().split()) or 'nothing known'}; "
          f"default: {get_encoder('minilm', cached=False).id}", flush=True)  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        workers, refused, vectors, seconds = {}, {}, {}, {}
        for way in [(encoder, name) for encoder in encoders for name in names]:
            folder = Path(place, *way)
            folder.mkdir(parents=True)
            worker = Worker(way[0], WAYS.get(way[1]), options.threads, folder)
            if worker.refused:
                refused[way] = worker.refused
            else:
                workers[way], vectors[way], seconds[way] = worker, [], []
        for start in range(0, len(texts), size):
            for way, worker in workers.items():
                vectors[way].append(worker.encode(texts[start : start + size]))
                seconds[way].append(worker.seconds)
            print(
                *(f"{' '.join(w)} {s[-1][0]:.1f} s" for w, s in seconds.items()), sep=", ", file=sys.stderr, flush=True
            )
        for encoder in encoders:
            here = [name for name in names if (encoder, name) in workers]
            show(encoder, here, workers, vectors, seconds, texts, scored)
            for (of, name), why in refused.items():
                if of == encoder:
                    print(f"  {name:<22}not on this processor: {why}", flush=True)
        for other in encoders[1:]:
            both = [name for name in names if {(encoders[0], name), (other, name)} <= set(workers)]
            show_longer(encoders[0], other, both, seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--encoders", default="minilm", help="of those with weights in Python packages: minilm, mpnet")
    parser.add_argument("--only", help=f"names with commas between them, of {', '.join(WAYS)}")
    main(parser.parse_args())
