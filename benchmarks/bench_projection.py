"""Projection at speed and at scale, and what it does to the tasks.

Usage: python benchmarks/bench_projection.py [--large] [--tasks [--score]]

Without an option: PAP+ in closed form against a loop over pairs that projects both and compares them, 100 queries, 500
passages, 384 numbers. With --large: 1,000 queries x 1,000,000 passages on disk; the 1,000 candidates that the exact
index finds for the projected query are rescored, against PAP+ of every passage. Memory is read from /proc (Linux only).

With --tasks: all methods and the adaptive rule by p-Recall@5 with minilm on the four tasks of the PIR demo (through
BERDS_DATA) and the two tasks of berdslib.data.pir_sample. What there is to choose is chosen on half of each task's
roots and on three more tasks with other roots than the demo's; with --score the other half is shown too.
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
import pandas as pd

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.data.pir import PirQuery, PirTask, load_pir
from berdslib.data.pir_build import build_exfever, build_perspectrum
from berdslib.data.pir_sample import PLACES, location_task, story_task  # noqa: F401
from berdslib.data.records import make_run
from berdslib.evaluation.perspective_recall import p_recall
from berdslib.llm.extraction import extract, qa_f1
from berdslib.models.encoders import get_encoder
from berdslib.retrieval.adaptive import LOUD, SAME, adaptive_form, choose, contrast, half_of_roots, loudness
from berdslib.retrieval.base import docno_order, top_k
from berdslib.retrieval.projection import METHODS, OFFICIAL, apply_form, scores
from berdslib.stats import bootstrap_interval, paired_test

DEMO = ("perspectrum", "ambigqa", "allsides", "exfever")
STRENGTHS = (-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0)
RULES = [(loud, same) for same in (0.3, 0.5) for loud in (0.4, 0.5, 0.6, 0.75, 0.9, 1.2)]
PUBLISHED = {  # PIR Table 6, GPT-3.5-Turbo on 50 queries a task
    "perspectrum": 68.6, "ambigqa": 70.2, "allsides": 66.4, "exfever": 68.6,
}  # fmt: skip


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
from berdslib.retrieval.projection import make_form, rescore, search_exact

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
    hits = rescore(form, vectors, found, k)
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


# ---------------------------------------------------------------- tasks


def development_tasks(scored):
    """Three tasks with roots of their own: Perspectrum's training claims, Ex-FEVER, and debates on two sides."""
    taken = {q.root.strip().lower() for task in scored for q in task.queries}
    data = Path(os.environ["BERDS_DATA"])
    built = {
        "perspectrum-dev": build_perspectrum(data / "perspectrum", split="train"),
        "exfever-dev": build_exfever(data / "support" / "ex_fever.csv"),
    }
    for name, task in built.items():
        roots = sorted({q.root for q in task.queries if q.root.strip().lower() not in taken})
        kept = set(np.random.default_rng(0).permutation(roots)[:100])
        queries = tuple(q for q in task.queries if q.root in kept)
        gold = {docno for q in queries for docno in q.gold}
        yield PirTask(name, queries, tuple(p for p in task.passages if p.docno in gold))
    questions = load_questions("theperspective")
    gold = load_gold("theperspective")
    of = gold[gold["supports"]].groupby(["qid", "pid"])["docno"].agg(tuple)
    queries = tuple(
        PirQuery(f"{q.qid}-{pid}", f"{q.text} {p}", q.text, p, of[q.qid, pid])
        for q in questions for pid, p in enumerate(q.perspectives) if (q.qid, pid) in of
    )  # fmt: skip
    yield PirTask("debates-dev", queries, tuple(load_passages("theperspective")))


class Vectors:
    """A task and its vectors; which queries are there to choose on."""

    def __init__(self, task, encoder, development=False):
        self.task = task
        self.query, self.root, self.perspective = (
            encoder.encode_queries([getattr(q, field) for q in task.queries])
            for field in ("text", "root", "perspective")
        )
        self.passages = encoder.encode_passages([p.full_text for p in task.passages])
        self.docnos = [p.docno for p in task.passages]
        # Our own tasks number their roots in their ids.
        self.roots = [q.root if task.name in DEMO else q.qid[:2] for q in task.queries]
        self.choosing = half_of_roots(self.roots) | development

    def args(self):
        """Return what every method is given."""
        return self.query, self.root, self.perspective, self.passages

    def per_root(self, values, which=None, k=5):
        """p-Recall@k of each root, in percent; `which` is a mask of queries, None for all."""
        rows = np.flatnonzero(np.ones(len(values), dtype=bool) if which is None else which)
        ties = docno_order(self.docnos)
        best = {self.task.queries[i].qid: top_k(values[i], k, ties) for i in rows}
        run = make_run(
            [qid for qid, found in best.items() for _ in found],
            [self.docnos[j] for found in best.values() for j in found],
            [-float(rank) for found in best.values() for rank in range(len(found))],
        )
        return 100 * p_recall(run, [self.task.queries[i] for i in rows], k, single_root="keep")["p_recall"].to_numpy()


def tasks(score):
    encoder = get_encoder("minilm")
    loaded = [*(load_pir("pir-demo", name) for name in DEMO), location_task(), story_task()]
    scored = {task.name: Vectors(task, encoder) for task in loaded}
    every = scored | {task.name: Vectors(task, encoder, True) for task in development_tasks(loaded)}
    sources = {name: "difference" if name == "ambigqa" else "text" for name in every}
    systems = {m: {t: scores(m, *v.args(), source=sources[t]) for t, v in every.items()} for m in [*METHODS, *OFFICIAL]}
    for m in METHODS:
        for name in ("text", "difference"):
            systems[f"{m} ({name})"] = {t: scores(m, *v.args(), source=name) for t, v in every.items()}
    against = {t: contrast(v.perspective, v.roots) for t, v in every.items()}
    for m in ("pap", "add"):
        systems[f"{m} (contrast)"] = {t: scores(m, v.query, v.root, against[t], v.passages) for t, v in every.items()}
    if score:
        print(
            "p-Recall@5, all queries; p is query - root for ambigqa and the perspective's text elsewhere, if not said"
        )
        table(scored, systems, "all")
    print("loudness, mean [5 %, 95 %] on the choosing half")
    for name, v in every.items():
        loud = loudness(v.root, v.perspective, v.passages)[v.choosing]
        print(f"  {name:<16}{loud.mean():.2f} [{np.quantile(loud, 0.05):.2f}, {np.quantile(loud, 0.95):.2f}]")
    for loud, same in RULES:
        systems[f"adaptive loud={loud} same={same}"] = {
            t: apply_form(adaptive_form(*v.args(), loud=loud, same=same), v.passages) for t, v in every.items()
        }
    systems["strength per task"] = {name: strength_of_task(v) for name, v in every.items()}
    print("p-Recall@5, the choosing half")
    frame = table(every, systems, "choosing")
    single = frame[~frame.index.str.contains("adaptive|per task|contrast")]["mean"].idxmax()
    print(f"best single method there: {single}; chosen: loud={LOUD} same={SAME}")
    if score:
        print("p-Recall@5, the scoring half")
        kept = {n: s for n, s in systems.items() if "adaptive" not in n}
        kept["adaptive"] = systems[f"adaptive loud={LOUD} same={SAME}"]
        frame = table(scored, kept, "scoring")
        best = frame[~frame.index.str.contains("adaptive|per task|contrast")]["mean"].idxmax()
        for name in ("adaptive", "strength per task"):
            for other in dict.fromkeys(("baseline", single, best)):
                compare(scored, kept, name, other)
    print("QA-F1 of the rule against the annotated perspectives (published: GPT-3.5-Turbo, Table 6)")
    for name, v in scored.items():
        f1 = np.array([100 * qa_f1(extract(q.text).perspective, [q.perspective]) for q in v.task.queries])
        half = f" scoring half {f1[~v.choosing].mean():.1f} (n = {(~v.choosing).sum()})," if score else ""
        print(f"  {name:<12}choosing half {f1[v.choosing].mean():.1f},{half} published {PUBLISHED.get(name, '-')}")


def strength_of_task(v):
    """Scores at the strength and source chosen on the task's choosing half."""
    options = {
        (source, s): scores("pap", *v.args(), strength=s, source=source)
        for source in ("text", "difference") for s in STRENGTHS
    }  # fmt: skip
    key = choose({o: v.per_root(values, v.choosing) for o, values in options.items()}, default=("text", 0.0))
    print(f"  {v.task.name}: strength {key[1]} along the {key[0]}")
    return options[key]


def table(every, systems, half):
    masks = {n: {"all": None, "choosing": v.choosing, "scoring": ~v.choosing}[half] for n, v in every.items()}
    rows = {m: {t: v.per_root(of_task[t], masks[t]).mean() for t, v in every.items()} for m, of_task in systems.items()}
    frame = pd.DataFrame(rows).T
    of_tasks = frame.copy()
    frame["mean"], frame["mean of 4"] = of_tasks.mean(axis=1), of_tasks[list(DEMO)].mean(axis=1)
    frame["worst"] = (of_tasks - of_tasks.loc["baseline"]).min(axis=1)
    print(frame.round(1).to_string())
    return frame


def compare(every, systems, name, other):
    """Print the difference of two systems on the scoring half, with 95 % intervals over roots."""
    parts = {t: [v.per_root(systems[n][t], ~v.choosing) for n in (name, other)] for t, v in every.items()}
    print(f"{name} - {other}, scoring half, 95 % bootstrap intervals over roots")
    for t, (a, b) in parts.items():
        low, high = bootstrap_interval(a - b)
        print(f"  {t:<12}{(a - b).mean():+5.1f} [{low:+.1f}, {high:+.1f}] (n = {len(a)} roots)")
    for what, chosen in (("six tasks", list(parts)), ("the demo's four", list(DEMO))):
        a, b = (np.concatenate([parts[t][i] for t in chosen]) for i in (0, 1))
        groups = [t for t in chosen for _ in parts[t][0]]
        low, high = bootstrap_interval(a - b, groups)
        gain = np.mean([np.mean(parts[t][0] - parts[t][1]) for t in chosen])
        print(f"  mean of {what}: {gain:+.1f} [{low:+.1f}, {high:+.1f}], p = {paired_test(a, b, groups):.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--tasks", action="store_true")
    parser.add_argument("--score", action="store_true", help="with --tasks: show the scoring half too")
    parser.add_argument("--passages", type=int, default=1_000_000, help="with --large")
    parser.add_argument("--queries", type=int, default=1000, help="with --large")
    options = parser.parse_args()
    if options.tasks:
        tasks(options.score)
    elif options.large:
        large(options.passages, options.queries)
    elif os.environ.get("OMP_NUM_THREADS") == "1":
        small()
    else:  # the loop has one thread, so the closed form gets one
        subprocess.run([sys.executable, __file__], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
