"""Running what is not done of a grid: processes of this machine or a dask cluster, failures, progress."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import psutil
from filelock import Timeout
from tqdm.auto import tqdm

from berdslib.errors import BerdsError, InputError, printable
from berdslib.progress import bar
from berdslib.study import grid as grids
from berdslib.study.grid import Grid, Resources, Run
from berdslib.study.notebooks import LONGEST, Notebook, run_folder, run_lock, run_notebook


def run_grid(
    grid: Grid,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    stop_after: int | None = 3,
    limit: int = 0,
    only_failed: bool = False,
) -> dict[str, str]:
    """Run what is not finished yet, and write the summary; return the failures, run → what went wrong.

    Args:
        grid: from :func:`berdslib.study.grid.read_grid`.
        workers: how many notebooks run at a time, each in processes of its own; fewer where memory or GPUs are too few.
        scheduler: address of a dask scheduler, whose workers then do it; they need this package in the same version and
            the same folders (a shared file system).
        stop_after: begin nothing new after so many failures in a row for the same reason; None: go on whatever fails.
        limit: begin at most so many runs; 0 for all.
        only_failed: of those that are not finished, only such as failed or were broken off.
    """
    failures: dict[str, str] = {}
    states = [row["state"] for row in grids.status(grid)]
    left_out = (grids.DONE, grids.RUNNING, grids.TO_DO) if only_failed else (grids.DONE,)
    todo = [run for run, state in zip(grid.runs, states, strict=True) if state not in left_out][: limit or None]
    if todo:
        if missing := grids.missing_data(grid):
            raise BerdsError(f"not on this machine: {', '.join(missing)}; berds data card NAME says how to get it")
        at_once = len(todo) if scheduler else _places(workers, grid.resources)  # a cluster may grow: it gets everything
        ended = states.count(grids.DONE)
        with (
            bar(total=len(grid.runs), initial=ended, desc=grid.name, unit="run", leave=True) as shown,
            cluster(scheduler, grid.resources) if scheduler else processes(at_once) as pool,
        ):
            for run, problem, running in _outcomes(pool, grid, todo, at_once, stop_after):
                if problem:
                    failures[run.folder.name] = problem
                    _say(f"{run.folder.name}: {problem}")
                shown.set_postfix_str(f"{running} running, {len(failures)} failed", refresh=False)
                shown.update()
    grids.collect(grid)
    return failures


def _places(workers: int, needed: Resources) -> int:
    """Return how many runs this machine has room for at a time: one if they need GPUs, a cluster shares these out."""
    gigabytes = psutil.virtual_memory().total / 2**30
    if needed.memory > gigabytes:
        raise BerdsError(f"a run needs {needed.memory:g} GB, and this machine has {gigabytes:.0f}; choose a profile")
    return 1 if needed.gpu else min(workers, int(gigabytes / needed.memory) if needed.memory else workers)


def _outcomes(
    pool: futures.Executor, grid: Grid, todo: Sequence[Run], at_once: int, stop_after: int | None
) -> Iterator[tuple[Run, str, int]]:
    """Yield each run as it ends, what went wrong, and how many are running; one that another call is at comes last."""
    waiting = deque((run, False) for run in todo)
    running: dict[futures.Future[bool], Run] = {}
    reasons: deque[str] = deque(maxlen=stop_after)  # of the last runs
    stopped = False
    while waiting or running:
        while waiting and len(running) < at_once:
            run, wait_for_it = waiting.popleft()
            running[pool.submit(_run_one, grid.notebook, grid.resources, run, wait_for_it)] = run
        for future in futures.wait(running, return_when=futures.FIRST_COMPLETED).done:
            run, problem = running.pop(future), ""
            if stopped and future.cancelled():
                continue
            try:
                if not future.result():  # another call is at it
                    waiting.extend([] if stopped else [(run, True)])
                    continue
            except (futures.BrokenExecutor, futures.CancelledError) as error:
                gone = isinstance(error, futures.CancelledError)
                what = "the dask scheduler is gone" if gone else "a worker process was killed (out of memory?)"
                raise BerdsError(f"{what}. Finished runs are kept; call again to go on") from None
            except Exception as error:  # noqa: BLE001 - whatever a run dies of does not end the others
                problem = str(error) if isinstance(error, BerdsError) else f"{type(error).__name__}: {error}"
            yield run, problem, min(at_once, len(running) + len(waiting))
            reasons.append(problem.partition("\n")[0].replace(run.folder.name, ""))
            if len(reasons) == stop_after and all(reasons) and len(set(reasons)) == 1 and not stopped:
                left = len(waiting) + sum(other.cancel() for other in running)
                stopped = True
                waiting.clear()
                if left and stop_after > 1:
                    kept = "Mend it and call again; finished runs are kept. To run all others: --keep-going"
                    _say(f"stopped: {stop_after} runs in a row failed for the same reason. {kept}")


def _say(text: str) -> None:
    tqdm.write(printable(f"berds: {text}"), file=sys.stderr)  # above the bar


def _run_one(notebook: Notebook, limits: Resources, run: Run, wait_for_it: bool) -> bool:
    """Execute one run, in whatever process, unless it is finished; return False if another call is at it."""
    try:
        with run_lock(run.folder).acquire(timeout=-1 if wait_for_it else 0):
            if not grids.finished(run):
                if run_folder(notebook, run.parameters).name != run.folder.name:
                    raise BerdsError("the package or a data file is not as it was when this was planned; call again")
                limited: dict[str, Any] = {"timeout": limits.minutes * 60 or LONGEST, "memory": limits.memory or None}
                run_notebook(notebook, run.parameters, output=run.folder, progress=False, **limited)
    except Timeout:
        return False
    return True


@contextmanager
def processes(workers: int) -> Iterator[futures.Executor]:
    """Processes of this machine, which end at the first Ctrl-C: a second one would leave some waiting for work."""
    others = set(multiprocessing.active_children())

    def end(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()  # no other may set this
    before = signal.signal(signal.SIGINT, end) if main else None
    context = multiprocessing.get_context("spawn")
    try:
        with futures.ProcessPoolExecutor(workers, context, initializer=_end_with_parent) as pool:
            yield pool
    finally:
        if main:
            signal.signal(signal.SIGINT, before)


def _end_with_parent() -> None:
    """End this worker when its parent is gone, and its kernel with it: a pool's worker would wait for work for ever."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def cluster(scheduler: str, needed: Resources | None = None) -> Iterator[futures.Executor]:
    """Workers of a dask cluster; those that say what they have (--resources "GPU=1 MEMORY=16") get what fits there."""
    try:
        distributed = importlib.import_module("distributed")
        client = distributed.Client(scheduler, timeout=10)
    except ImportError:
        raise InputError("a scheduler needs dask; install it with: pip install 'berdslib[cluster]'") from None
    except (OSError, ValueError) as error:
        problem = f"no dask scheduler at {scheduler!r} ({error}); such as tcp://host:8786 is accepted"
        raise InputError(problem, field="scheduler") from None
    resources = (("GPU", needed.gpu), ("MEMORY", needed.memory)) if needed else ()
    wanted = {name: amount for name, amount in resources if amount}
    with client:
        for name, amount in wanted.items():  # otherwise dask would wait for such a worker for ever
            has = [worker["resources"].get(name, 0) for worker in client.scheduler_info(-1)["workers"].values()]
            if max(has, default=0) < amount:
                raise BerdsError(f'no worker has {name} {amount:g}; start one with --resources "{name}={amount:g}"')
        with client.get_executor(pure=False, resources=wanted) as pool:  # pure: the same call would not be made twice
            yield pool
