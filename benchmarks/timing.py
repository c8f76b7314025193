"""What the benchmarks time and print with."""

import time


def seconds(work, repeats=3):
    """Best of a few runs: the one that the neighbours on this machine disturbed least."""
    return in_turns({"": work}, repeats)[""]


def in_turns(works, rounds=3):
    """Seconds of each, best of several rounds; they take turns, so that a busy machine is equally busy for all."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def compare(what, spent, ours):
    """Print seconds of each way, and how many times those of ours they are."""
    print(what)
    for name, one in spent.items():
        print(f"  {name:<46}{1000 * one:12,.1f} ms {one / spent[ours]:10,.1f} times ours", flush=True)


def mebibytes(name="VmRSS", pid="self"):
    """Memory of a process, as /proc/PID/status counts it (Linux only)."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(name))
