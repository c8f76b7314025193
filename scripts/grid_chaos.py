"""Break a grid at random moments, call it again, and compare what is collected with an unbroken grid's.

Usage: python scripts/grid_chaos.py [--seed 0] [--rounds 30]

Each round starts a grid of six small runs, with two processes or on a dask cluster of two workers, and does one thing
to it at a random moment. Then the damage is mended as a person would mend it, and the same command is called once more.
A round fails if that call fails, if the table differs from the unbroken one in anything but times, or if a run that was
finished is executed again. Linux only. Without the right to mount, a full disk is a limit on the size of files; without
chattr, as a user, a read-only folder is one without permissions.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import psutil

RUNS = 6
CODE = """\
import json, os, time
with open(os.environ["CHAOS_LOG"], "a") as log:
    log.write(f"{i}\\n")
time.sleep(0.2)
with open(os.path.join(output_dir, "scores.csv"), "w") as file:
    file.write("system,measure,mean\\n" + "".join(f"s{j},m,{(i * 7 + j) % 11}\\n" for j in range(200)))
with open(os.path.join(output_dir, "s.trec"), "w") as file:
    file.write("".join(f"q Q0 d{j} {j + 1} {9 - j} s\\n" for j in range(9)))
time.sleep(0.2)"""


class Round:
    """A project of its own with one notebook and one grid; its run folder lies on a small disk of its own."""

    def __init__(self, place, on_disk):
        self.place, self.runs, self.on_disk = place, place / "papermill_runs", on_disk
        (place / "notebooks").mkdir(parents=True)
        self.runs.mkdir()
        (place / "pyproject.toml").write_text('[project]\nname = "berdslib"\n')
        cells = [("i = 0  # which\noutput_dir = 'out'  # where", ["parameters"]), (CODE, [])]
        made = [
            {"cell_type": "code", "id": f"c{n}", "source": text, "metadata": {"tags": tags}, "outputs": [],
             "execution_count": None} for n, (text, tags) in enumerate(cells)
        ]  # fmt: skip
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        notebook = {"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
        (place / "notebooks" / "90_small.ipynb").write_text(json.dumps(notebook))
        (place / "g.yaml").write_text(f"notebook: 90_small\ngrid: {{i: {list(range(RUNS))}}}\n")
        self.log, self.cluster = place / "executed.txt", []
        self.log.touch()
        self.env = {**os.environ, "BERDS_PROJECT": str(place), "CHAOS_LOG": str(self.log), "OMP_NUM_THREADS": "1"}
        if on_disk:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "chaos", self.runs], check=True)

    def start(self, *options, largest=None):
        """Start the grid; `largest` is a limit on the size of files."""
        limit = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))) if largest else None
        with open(self.place / "said.txt", "ab") as said:
            command = [sys.executable, "-m", "berdslib.cli", "grid", "run", "g.yaml", *options]
            return subprocess.Popen(
                command,
                cwd=self.place,
                env=self.env,
                stdout=said,
                stderr=said,
                preexec_fn=limit,
                start_new_session=True,
            )

    def start_cluster(self):
        """Start a dask scheduler and two workers as processes of their own; return the options that use them."""
        file = self.place / f"scheduler{len(self.cluster)}.json"
        modules = [
            "dask_scheduler --port 0 --no-dashboard",
            *["dask_worker --no-nanny --nthreads 1 --no-dashboard"] * 2,
        ]
        with open(self.place / "cluster.txt", "ab") as said:
            for module in modules:
                command = [sys.executable, "-m", *f"distributed.cli.{module}".split(), "--scheduler-file", str(file)]
                self.cluster.append(subprocess.Popen(command, cwd=self.place, env=self.env, stdout=said, stderr=said))
        until(lambda: file.exists() and file.read_text())
        return ["--scheduler", json.loads(file.read_text())["address"]]

    def finished(self):
        """Return the folders that hold a whole run.json."""
        found = set()
        for path in self.runs.glob("*/run.json"):
            try:
                found |= {path.parent.name} if json.loads(path.read_text())["finished"] is True else set()
            except (ValueError, KeyError, TypeError):
                continue
        return found

    def executed(self):
        """Return the `i` of all executions so far."""
        return [int(line) for line in self.log.read_text().split()]

    def of(self, folders):
        """Return the `i` of some folders."""
        return {json.loads((self.runs / name / "run.json").read_text())["parameters"]["i"] for name in folders}

    def table(self):
        """Return what was collected, without times."""
        return pd.read_csv(self.runs / "g" / "summary.csv").drop(columns=["run_started", "run_seconds"])

    def end(self):
        """End everything that is still there."""
        for process in self.cluster:
            process.kill()
            process.wait()
        for process in psutil.process_iter(["environ"]):  # kernels whose parents were killed
            if (process.info["environ"] or {}).get("CHAOS_LOG") == str(self.log):
                process.kill()
        subprocess.run(["chattr", "-R", "-i", self.runs], check=False, capture_output=True)
        if self.on_disk:
            until(lambda: subprocess.run(["umount", self.runs], capture_output=True).returncode == 0)


def until(condition, seconds=180):
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(condition)
        time.sleep(0.05)


def kill_one(process, word, rng):
    """Kill a descendant whose command line holds a word; say whether there was one."""
    there = []
    for one in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ():
        try:
            there += [one] if word in " ".join(one.cmdline()) else []
        except psutil.Error:
            continue
    if there:
        rng.choice(there).kill()
    return bool(there)


# ---------------------------------------------------------------- what happens: (round, runner, rng) → how to mend it


def kill_runner(_round, process, _rng):
    process.kill()


def kill_worker(_round, process, rng):
    until(lambda: kill_one(process, "multiprocessing.spawn", rng) or process.poll() is not None)


def kill_kernel(_round, process, rng):
    until(lambda: kill_one(process, "ipykernel_launcher", rng) or process.poll() is not None)


def kill_dask_worker(round_, _process, rng):
    rng.choice(round_.cluster[1:]).kill()


def kill_scheduler(round_, _process, _rng):
    round_.cluster[0].kill()


def fill_disk(round_, process, _rng):
    if not round_.on_disk:
        return None  # the runner has a limit on the size of files
    rest = round_.runs / "full"
    with open(rest, "wb", buffering=0) as file:  # nothing is left to write when it is closed
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
    process.wait(600)
    return rest.unlink


def make_read_only(round_, process, _rng):
    folders = [path for path in (round_.runs, *round_.runs.glob("*")) if path.is_dir()]
    if subprocess.run(["chattr", "+i", *folders], capture_output=True).returncode:
        modes = {path: path.stat().st_mode for path in folders}
        for path in folders:
            path.chmod(0o500)
        process.wait(600)
        return lambda: [path.chmod(mode) for path, mode in modes.items()]
    process.wait(600)
    return lambda: subprocess.run(["chattr", "-i", *folders], check=True)


def spoil_run_json(round_, process, rng):
    until(lambda: round_.finished() or process.poll() is not None)
    path = round_.runs / rng.choice(sorted(round_.finished())) / "run.json"
    text = path.read_bytes()
    path.write_bytes(rng.choice([text[: len(text) // 2], b"", b"\xff\0", b"[]", text.replace(b"true", b"1")]))


def jump_clock(round_, _process, rng):
    for path in round_.runs.rglob("*"):
        at = time.time() + rng.choice([-1, 1]) * rng.uniform(1, 20) * 365 * 86_400
        try:
            os.utime(path, (at, at))
        except FileNotFoundError:
            continue


KINDS = [
    kill_runner, kill_worker, kill_kernel, kill_dask_worker, kill_scheduler, fill_disk, make_read_only, spoil_run_json,
    jump_clock,
]  # fmt: skip


def play(kind, round_, rng, longest, want):
    """Play a round, and return what is wrong with its end, and when the damage was done."""
    on_cluster = kind in (kill_dask_worker, kill_scheduler)
    options = round_.start_cluster() if on_cluster else ["--workers", "2"]
    small = kind is fill_disk and not round_.on_disk
    process = round_.start(*options, largest=3000 if small else None)
    time.sleep(moment := rng.uniform(0.05, 0.7) * longest)
    there = len(round_.finished())
    mend = kind(round_, process, rng)
    process.wait(600)
    if mend:
        mend()
    kept, done = round_.of(round_.finished()), len(round_.executed())
    again = round_.start("--workers", "2")
    problems = [] if again.wait(600) == 0 else [f"the second call ended with {again.returncode}"]
    if twice := sorted(kept & set(round_.executed()[done:])):
        problems.append(f"executed again although finished: {twice}")
    if not problems and not (got := round_.table()).equals(want):
        problems.append(f"another table: {len(got)} rows, {len(want)} wanted")
    return problems, f"after {moment:4.1f} s, with {there} of {RUNS} finished, {len(kept)} in the end"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    rng, failed = random.Random(given.seed), 0
    place = Path(tempfile.mkdtemp(prefix="grid_chaos_"))
    on_disk = False
    if os.geteuid() == 0 and shutil.which("mount"):
        (place / "try").mkdir()
        tried = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "chaos", place / "try"], capture_output=True)
        on_disk = tried.returncode == 0 and subprocess.run(["umount", place / "try"]).returncode == 0
    print(f"seed {given.seed}; {'each round on a disk of 8 MB' if on_disk else 'no right to mount a small disk'}")
    whole = Round(place / "whole", on_disk)
    began = time.monotonic()
    assert whole.start("--workers", "2").wait(900) == 0, (whole.place / "said.txt").read_text()
    longest, want = time.monotonic() - began, whole.table()
    whole.end()
    print(f"unbroken: {RUNS} runs in {longest:.0f} s, {len(want)} rows", flush=True)
    order = [KINDS[n % len(KINDS)] for n in range(given.rounds)]
    rng.shuffle(order)
    for number, kind in enumerate(order, start=1):
        round_ = Round(place / f"{number}", on_disk)
        try:
            problems, when = play(kind, round_, rng, longest, want)
        finally:
            round_.end()
        failed += bool(problems)
        said = "; ".join(problems) or "the same table"
        print(f"{number:2} {kind.__name__:<17} {when}: {said}", flush=True)
        if not problems:
            shutil.rmtree(round_.place)
    print(f"{given.rounds - failed} of {given.rounds} rounds ended with the unbroken table, each run once")
    print(f"{place} holds the others" if failed else "", end="\n" if failed else "")
    sys.exit(bool(failed))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
