"""Run trials one after another, several at a time, until the time is up; then put together what can be taken home.

    python jobs.py PLAN.json DATA BASES OUT HOME SECONDS WORKERS

PLAN.json is a list of jobs: `name`; `base` ("mpnet", "minilm"); `mode` ("joint", "two", "cross"); `rank` of LoRA,
0 for all weights but the embeddings; `rate`; `stages`, lists of "train0 entailment" and the like that are shuffled
together; `tokens` and `most` (pairs) of a batch; `without`, a pattern of kinds left out; `shares`, pattern of kinds →
share kept; `teachers`, `soft` (weight of their answers), `temperature`; `start`, weights to begin from; `label`: answer
all training pairs, for pupils; `needs`: jobs that must be done before; `est`: seconds that it is expected to take.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path

LIMIT = 16_300_000


def run(plan: list[dict], data: Path, bases: Path, out: Path, seconds: float, workers: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    waiting, running = list(plan), {}
    done = {p.name.removesuffix(".logits.npz") for p in out.glob("*.logits.npz")}
    waiting = [job for job in waiting if job["name"] not in done]
    while waiting or running:
        for name, (process, begun) in list(running.items()):
            if process.poll() is not None:
                print(f"{name} ended with {process.returncode} after {time.monotonic() - begun:.0f} s", flush=True)
                if process.returncode:
                    print((out / f"{name}.err").read_text()[-1500:], flush=True)
                done |= {name} if process.returncode == 0 else set()
                del running[name]
        left = end - time.monotonic()
        if left < 0:
            for process, _ in running.values():
                process.terminate()  # it writes what it has
            for name, (process, _) in running.items():
                print(f"{name} stopped with {process.wait()}: the time is up", flush=True)
            return
        ready = [
            j
            for j in waiting
            if set(j.get("needs", [])) | set(j.get("teachers", [])) <= done and j.get("est", 60) < left
        ]
        if len(running) < workers and ready:
            job = ready[0]
            waiting.remove(job)
            path = out / f"{job['name']}.json"
            path.write_text(json.dumps(job))
            with open(out / f"{job['name']}.err", "w") as err:
                command = [
                    sys.executable,
                    str(Path(__file__).parent / "trial.py"),
                    str(path),
                    str(data),
                    str(bases),
                    str(out),
                ]
                running[job["name"]] = (subprocess.Popen(command, stderr=err), time.monotonic())
        elif not running and not ready:
            print("no time or no teacher for", [j["name"] for j in waiting], flush=True)
            return
        time.sleep(0.2)


def table(out: Path) -> None:
    if not (out / "log.jsonl").exists():
        return
    shown = (
        "chosen by", "web auc", "web f1", "fnc agree/rest related", "iam stance", "iam evidence",
        "theperspective own/rest", "theperspective f1", "theperspective own/other side", "ex-fever", "contrast", "side",
        "attacked copied pass", "attacked denied pass", "everyday pairs right", "short",
    )  # fmt: skip
    print("name | pairs/s | train s | all s | " + " | ".join(s[:22] for s in shown))
    for line in (out / "log.jsonl").read_text().splitlines():
        row = json.loads(line)
        numbers = [f"{row['scores'][s]:.3f}" for s in shown] if row["scores"] else ["not measured"]
        print(row["job"]["name"], row.get("pairs_per_s", ""), row.get("train_s", ""), row["all_s"], *numbers, sep=" | ")
        if "losses" in row:
            print("    ", row["trained weights"], "weights; losses", row["losses"], "GB", row.get("gpu GB"))


def take_home(out: Path, home: Path, best: int = 6) -> None:
    """Put figures and answers in one archive, and the best judges' weights in others below the limit."""
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    with tarfile.open(home / "figures.tar.xz", "w:xz", preset=1) as tar:
        for path in [out / "log.jsonl", *out.glob("*.err"), *out.glob("*.json"), *out.glob("*.txt")]:
            tar.add(path, path.name)
    order = sorted((r for r in rows if r["job"].get("stages") and r["scores"]), key=lambda r: -r["scores"]["chosen by"])
    packs: list[tuple[Path, int]] = []
    files = [out / f"{r['job']['name']}.logits.npz" for r in rows]
    pupils = [r for r in order if r["job"]["base"] == "minilm"][:1]
    lora = [r for r in order if r["job"]["base"] == "mpnet" and r["job"]["rank"]][:best]
    for row in [*pupils, *lora]:
        path = out / f"{row['job']['name']}.safetensors"
        files += halves(path) if path.stat().st_size > LIMIT else [path]
    for file in files:
        size = file.stat().st_size
        place = next((i for i, (_, used) in enumerate(packs) if used + size + 4096 < LIMIT), None)
        if place is None:
            if len(packs) == 6:
                print("left behind:", file.name)
                continue
            packs.append((home / f"weights{len(packs)}.tar", 10240))
            place = len(packs) - 1
        packs[place] = (packs[place][0], packs[place][1] + size + 1536)
        with tarfile.open(packs[place][0], "a") as tar:
            tar.add(file, file.name)


def halves(path: Path) -> list[Path]:
    whole = path.read_bytes()
    cuts = [whole[: len(whole) // 2], whole[len(whole) // 2 :]]
    found = [path.with_suffix(f".safetensors.{i}") for i in range(2)]
    for target, part in zip(found, cuts, strict=True):
        target.write_bytes(part)
    return found


if __name__ == "__main__":
    data, bases, out, home = map(Path, sys.argv[2:6])
    run(json.loads(Path(sys.argv[1]).read_text()), data, bases, out, float(sys.argv[6]), int(sys.argv[7]))
    table(out)
    take_home(out, home)
