"""Every store that keeps work on disk, and the faults it is put through; test_stores.py and `make fuzz` run them.

    python tests/fuzz/stores.py 200 7        200 faults, drawn with seed 7: by store how each ended

A fault strikes a worker (or one of two) that fills a store with known work: it is killed, or the disk is full, or what
it left is cut short, set to another time or made read-only. Afterwards the same work is done again on a good disk:

    whole       the answers are right, and of what was finished before nothing is done again
    again       the answers are right, and some of what was finished is done again (a damaged part is as if never done)
    told        an error names the file; whoever follows it has right answers
    lost        finished work is gone without a word, or it cannot be had back
    other       an answer is wrong, and nobody says so
    crash       anything else that is raised, or a process that dies of the data
"""

from __future__ import annotations

import contextlib
import encodings.utf_8_sig  # noqa: F401 - nobody may not read where Python lies
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd

from berdslib.data.corpus import Corpus, write_corpus
from berdslib.data.records import Passage
from berdslib.errors import BerdsError
from berdslib.judging.base import Pair
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.llm.chat import Reply
from berdslib.llm.recorded import Recorded
from berdslib.models import corpus_vectors as shards
from berdslib.models.vectors import CachedEncoder
from berdslib.retrieval.index import NumpyIndex

N, STEP = 120, 10  # pieces of work, and how many are asked for together
PAUSE = 0.0008  # seconds that a piece takes


def number(text):
    """The right answer to a piece of work."""
    return zlib.crc32(text.encode()) / 2**32


class Worker:
    """Encodes, judges and answers; notes each piece in a file of its own, before the store can."""

    id, threshold = "worker", 0.5

    def __init__(self, log):
        self._log = log

    def _do(self, text):
        with open(self._log, "a") as file:
            file.write(text + "\n")
        time.sleep(PAUSE)
        return number(text)

    def encode_passages(self, texts):
        return np.array([[self._do(t), 1, 2, 3] for t in texts], dtype=np.float32)

    encode_queries = encode_passages

    def p_yes(self, pairs):
        return np.array([self._do(p.passage.text) for p in pairs])

    def complete(self, messages):
        return Reply(str(self._do(messages[0]["content"])))


TEXTS = [f"piece {i}" for i in range(N)]
STEPS = [TEXTS[i : i + STEP] for i in range(0, N, STEP)]
PASSAGES = [Passage(str(i), text) for i, text in enumerate(TEXTS)]


def vectors(folder, worker, finished):
    encoder, found = CachedEncoder(worker, folder / "vectors", chunk=STEP), {}
    for step in STEPS:
        found |= dict(zip(step, encoder.encode_passages(step)[:, 0].tolist(), strict=True))
        finished(step)
    return found, {t: np.float32(number(t)) for t in TEXTS}


def verdicts(folder, worker, finished):
    store, found = VerdictStore(folder / "verdicts.sqlite"), {}
    for step in STEPS:
        pairs = [Pair("q", 0, Passage(t, t), "Tea is.") for t in step]
        found |= dict(zip(step, judge_pairs(worker, pairs, store)[0].tolist(), strict=True))
        finished(step)
    return found, {t: number(t) for t in TEXTS}


def recording(folder, worker, finished):
    kept, found = Recorded(folder / "said.jsonl", worker), {}
    for step in STEPS:
        for text in step:
            found[text] = float(kept.complete([{"role": "user", "content": text}]).text)
            finished([text])
    return found, {t: number(t) for t in TEXTS}


def corpus_vectors(folder, worker, finished):
    with patch.object(shards, "_SHARD", STEP):
        found = shards.encode_corpus(PASSAGES, worker, folder / "corpus_vectors")[:, 0].tolist()
    finished(TEXTS)
    return dict(zip(TEXTS, found, strict=True)), {t: np.float32(number(t)) for t in TEXTS}


def corpus(folder, worker, finished):
    path = folder / "corpus"
    if not path.exists():
        write_corpus((Passage(p.docno, f"{worker._do(p.text)}") for p in PASSAGES), path)
    opened = Corpus(path)
    finished(TEXTS)
    by_docno = {docno: opened[opened.position(docno)].text for docno in map(str, range(N))}
    return {t: float(by_docno[str(i)]) for i, t in enumerate(TEXTS)}, {t: number(t) for t in TEXTS}


def index(folder, worker, finished):
    path = folder / "vectors.index"
    if not path.exists():
        made = NumpyIndex()
        made.add(worker.encode_passages(TEXTS))
        made.save(path)
    opened = NumpyIndex.open(path)
    finished(TEXTS)
    rows, scores = opened.search(np.array([[1, 0, 0, 0]], dtype=np.float32), N)[0]
    return {TEXTS[r]: s for r, s in zip(rows, scores, strict=True)}, {t: np.float32(number(t)) for t in TEXTS}


STORES: dict[str, Callable] = {
    "vectors": vectors, "verdicts": verdicts, "recording": recording, "corpus vectors": corpus_vectors,
    "corpus": corpus, "index": index,
}  # fmt: skip


class Ended(NamedTuple):
    """How a worker's process ended: its answers, or an error of ours, or something else."""

    answers: dict | None
    error: str = ""
    crash: str = ""


def in_a_process(store, folder, log, *, wait=None, nobody=False):
    """Fork, do the work; kill after `wait` seconds. Return a function that waits for how it ended."""
    result = Path(f"{log}.result")
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            os.setsid()
            if nobody:
                os.setgid(65534)
                os.setuid(65534)
            try:
                found, right = STORES[store](folder, Worker(log), lambda done: note(f"{log}.finished", done))
                ended = Ended({t: found.get(t) == right[t] for t in right})
            except BerdsError as error:
                ended = Ended(None, error=f"{type(error).__name__}: {error}")
            except BaseException:  # noqa: BLE001 - whatever it is, it is told
                ended = Ended(None, crash=traceback.format_exc())
            result.with_suffix(".part").write_bytes(pickle.dumps(ended))
            result.with_suffix(".part").rename(result)  # the kill may come while it is written
        os._exit(0)
    if wait is not None:
        time.sleep(wait)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def joined():
        _, status = os.waitpid(pid, 0)
        if result.exists():
            return pickle.loads(result.read_bytes())  # noqa: S301 - written by us a moment ago
        return Ended(None, crash=f"the process died of {signal.Signals(os.WTERMSIG(status)).name}" if status else "?")

    return joined


def note(log, texts):
    with open(log, "a") as file:
        file.write("".join(t + "\n" for t in texts))


def noted(log):
    return set(Path(log).read_text().splitlines()) if Path(log).exists() else set()


def files_of(folder):
    found = (p for p in folder.rglob("*") if p.is_file() and not p.name.endswith((".lock", ".turn")))
    return sorted(p for p in found if p.stat().st_size)


def strike(store, fault, folder, notes, rng):
    """Do the work while or before the fault strikes; return what was finished, and what the worker was told."""
    log = notes / "first"
    if fault in ("killed", "one of two killed"):
        others = [in_a_process(store, folder, notes / "other")] if fault != "killed" else []
        in_a_process(store, folder, log, wait=rng.random() * N * PAUSE * 2.5)()
        told = [other().crash for other in others]
        return noted(f"{log}.finished") | noted(f"{notes / 'other'}.finished"), "".join(told)
    if fault == "disk full":
        size = rng.choice([8, 16, 24, 40, 64]) * 1024
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=777", "tmpfs", str(folder)], check=True)
        ended = in_a_process(store, folder, log)()
        kept = notes / "kept"
        shutil.copytree(folder, kept, symlinks=True)
        subprocess.run(["umount", str(folder)], check=True)
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        return noted(f"{log}.finished"), ended.crash
    ended = in_a_process(store, folder, log)()
    if ended.crash:
        return set(), ended.crash
    finished = noted(f"{log}.finished")
    if fault == "read-only":  # for somebody else, since root may write everywhere
        subprocess.run(["chmod", "-R", "a=rX", str(folder)], check=True)
        subprocess.run(["chmod", "777", str(notes)], check=True)
        ended = in_a_process(store, folder, notes / "nobody", nobody=True)()
        subprocess.run(["chmod", "-R", "u+w", str(folder)], check=True)
        return finished, ended.crash
    chosen = rng.choice(files_of(folder))
    content = chosen.read_bytes()
    if fault == "cut":
        chosen.write_bytes(content[: rng.randrange(len(content))])
    elif fault == "clock":
        jump = rng.choice([-1, 1]) * rng.randrange(10**8)
        for path in files_of(folder):
            os.utime(path, (time.time() + jump,) * 2)
    return finished, ""


FAULTS = ("killed", "one of two killed", "cut", "clock")
if os.geteuid() == 0:  # who may mount, and become somebody else
    FAULTS += ("disk full", "read-only")


def one(store, fault, seed):
    """Return how a fault ended (one of those above), and what there is to say about it."""
    rng = random.Random(f"{store} {fault} {seed}")
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        folder, notes = Path(place) / "store", Path(place) / "notes"
        folder.mkdir(), notes.mkdir()
        finished, crash = strike(store, fault, folder, notes, rng)
        if crash:
            return "crash", crash
        ended = in_a_process(store, folder, notes / "again")()
        told = ended.error
        if told:  # the error has to name the file, and deleting what it names has to help
            named = [p for p in [*files_of(folder), *folder.iterdir()] if str(p) in told]
            if not named:
                return "crash", f"names no file: {told}"
            gone = named[0] if "folder" not in told else next(p for p in folder.iterdir() if named[0].is_relative_to(p))
            shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
            ended = in_a_process(store, folder, notes / "after it was told")()
        if ended.crash or ended.answers is None:
            return "crash", ended.crash or f"told again: {ended.error} (first: {told})"
        if not all(ended.answers.values()):
            return "other", f"{sum(not right for right in ended.answers.values())} answers are wrong"
        if told:
            return "told", told
        again = finished & noted(notes / "again")
        if not again:
            return "whole", ""
        return ("again" if fault == "cut" else "lost"), f"{len(again)} of {len(finished)} done again"


def many(n, seed, each=lambda *_: None):
    """Return how n faults ended, as a count of (store, fault, ending)."""
    cases = [(store, fault) for store in STORES for fault in FAULTS]
    count = Counter()
    for i in range(n):
        store, fault = cases[i % len(cases)]
        ending, why = one(store, fault, seed + i // len(cases))
        count[store, fault, ending] += 1
        each(store, fault, seed + i // len(cases), ending, why)
    return count


def main():
    n, seed = int(sys.argv[1]), int(sys.argv[2])

    def say(store, fault, at, ending, why):
        if ending in ("lost", "other", "crash"):
            print(f"{store}, {fault}, seed {at}: {ending}: {why}", flush=True)

    count = many(n, seed, say)
    rows = [{"store": s, "fault": f, "ending": e, "n": n} for (s, f, e), n in count.items()]
    table = pd.DataFrame(rows).pivot_table("n", ["store"], "ending", aggfunc="sum", fill_value=0)
    print(table.to_string())
    print(pd.DataFrame(rows).pivot_table("n", ["fault"], "ending", aggfunc="sum", fill_value=0).to_string())


if __name__ == "__main__":
    main()
