"""Running what is not done of a grid: processes of this machine or a dask cluster, failures, progress."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from typing import Any

import psutil
from filelock import Timeout
from tqdm.auto import tqdm

from berdslib.errors import BerdsError, InputError, printable
from berdslib.study.grid import (
    BROKEN_OFF,
    DONE,
    FAILURE,
    RUNNING,
    TO_DO,
    Grid,
    Resources,
    Run,
    collect,
    finished,
    missing_data,
    status,
)
from berdslib.study.notebooks import LONGEST, Notebook, run_folder, run_lock, run_notebook

_SAID_EVERY = 10  # seconds between two lines of a log


def run_grid(
    grid: Grid,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    stop_after: int | None = 3,
    limit: int = 0,
    only_failed: bool = False,
    progress: bool = True,
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
        progress: show a bar over the runs; where there is no terminal, lines.
    """
    failures: dict[str, str] = {}
    states = [row["state"] for row in status(grid)]
    asked = (FAILURE, BROKEN_OFF) if only_failed else (FAILURE, BROKEN_OFF, RUNNING, TO_DO)
    todo = [run for run, state in zip(grid.runs, states, strict=True) if state in asked][: limit or None]
    if todo:
        if missing := missing_data(grid):
            raise BerdsError(
                f"not on this machine: {', '.join(missing)}; berds data card {missing[0]} says how to get it"
            )
        at_once = len(todo) if scheduler else _places(workers, grid.resources)  # a cluster may grow: it gets everything
        with (
            _progress(grid, states.count(DONE), len(todo), progress) as tell,
            _cluster(scheduler, grid.resources) if scheduler else _processes(at_once, grid.resources.gpu) as pool,
        ):
            for run, problem, running in _outcomes(pool, grid, todo, at_once, stop_after):
                if problem:
                    failures[run.folder.name] = problem
                    _say(f"{run.folder.name}: {problem}")
                tell(running, len(failures))
    collect(grid)
    return failures


def _places(workers: int, needed: Resources) -> int:
    """Return how many runs this machine has room for at a time."""
    room = [workers]
    if needed.memory:
        room.append(int(psutil.virtual_memory().total / 2**30 / needed.memory))
    if needed.gpu:
        import torch

        room.append(torch.cuda.device_count() // needed.gpu)
    if min(room) < 1:
        problem = f"a run needs {needed.gpu} GPUs and {needed.memory:g} GB of memory, and this machine has less"
        raise BerdsError(f"{problem}; choose a profile, or a cluster by --scheduler")
    if min(room) < workers:
        _say(f"{min(room)} at a time: there are not memory or GPUs for {workers}")
    return min(room)


@contextmanager
def _progress(grid: Grid, done: int, todo: int, show: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield who is told after each run how many are under way and have failed: a bar, or where there is none, a log."""
    live = sys.stderr.isatty() or "ipykernel" in sys.modules
    began, told, ended = time.monotonic(), 0.0, 0
    with tqdm(total=len(grid.runs), initial=done, desc=grid.name, unit="run", disable=not (show and live)) as bar:

        def tell(running: int, failed: int) -> None:
            nonlocal told, ended
            ended, now = ended + 1, time.monotonic()
            bar.set_postfix_str(f"{running} running, {failed} failed", refresh=False)
            bar.update()
            if show and not live and (now > told + _SAID_EVERY or ended == todo):
                told = now
                left = tqdm.format_interval((now - began) / ended * (todo - ended))
                counts = f"{done + ended - failed} of {len(grid.runs)} done, {running} running, {failed} failed"
                _say(f"{grid.name}: {counts}, {todo - ended} left, about {left}")

        yield tell


def _outcomes(
    pool: Executor, grid: Grid, todo: Sequence[Run], at_once: int, stop_after: int | None
) -> Iterator[tuple[Run, str, int]]:
    """Yield each run as it ends, what went wrong, and how many are running; one that another call is at comes last."""
    waiting = deque((run, False) for run in todo)
    running: dict[Future[bool], Run] = {}
    reasons: deque[str] = deque(maxlen=stop_after)  # of the last runs
    stopped = False
    while waiting or running:
        while waiting and len(running) < at_once:
            run, wait_for_it = waiting.popleft()
            running[pool.submit(_run_one, grid.notebook, grid.resources, run, wait_for_it)] = run
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            run, problem = running.pop(future), ""
            if stopped and future.cancelled():
                continue
            try:
                if not future.result():  # another call is at it
                    waiting.extend([] if stopped else [(run, True)])
                    continue
            except (BrokenExecutor, CancelledError) as error:
                gone = isinstance(error, CancelledError)
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
                    _say(
                        f"stopped: {stop_after} runs in a row failed for the same reason. Mend it and call again; "
                        "finished runs are kept. To run the others all the same: --keep-going (in Python, "
                        "stop_after=None)"
                    )


def _say(text: str) -> None:
    tqdm.write(printable(f"berds: {text}"), file=sys.stderr)  # above the bar


def _run_one(notebook: Notebook, limits: Resources, run: Run, wait_for_it: bool) -> bool:
    """Execute one run, in whatever process, unless it is finished; return False if another call is at it."""
    try:
        with run_lock(run.folder).acquire(timeout=-1 if wait_for_it else 0):
            if not finished(run):
                if run_folder(notebook, run.parameters).name != run.folder.name:
                    raise BerdsError("the package or a data file is not as it was when this was planned; call again")
                longest, memory = limits.minutes * 60 or LONGEST, limits.memory or None
                limited: dict[str, Any] = {"timeout": longest, "memory": memory, "progress": False}
                run_notebook(notebook, run.parameters, output=run.folder, **limited)
    except Timeout:
        return False
    return True


@contextmanager
def _processes(workers: int, gpus: int) -> Iterator[Executor]:
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
    devices = context.SimpleQueue()
    for first in range(0, workers * gpus, gpus or 1):
        devices.put(",".join(map(str, range(first, first + gpus))))
    try:
        with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(devices if gpus else None,)) as pool:
            yield pool
    finally:
        if main:
            signal.signal(signal.SIGINT, before)


def _begin(devices: Any) -> None:
    """Take GPUs of one's own, and end with the parent, kernel and all: a pool's worker would wait for work for ever."""
    if devices is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices.get()
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _cluster(scheduler: str, needed: Resources) -> Iterator[Executor]:
    """Workers of a dask cluster; those that say what they have (--resources "GPU=1 MEMORY=16") get what fits there."""
    try:
        distributed = importlib.import_module("distributed")
        client = distributed.Client(scheduler, timeout=10)
    except ImportError:
        raise InputError("a scheduler needs dask; install it with: pip install 'berdslib[cluster]'") from None
    except (OSError, ValueError) as error:
        problem = f"no dask scheduler at {scheduler!r} ({error}); such as tcp://host:8786 is accepted"
        raise InputError(problem, field="scheduler") from None
    wanted = {name: amount for name, amount in (("GPU", needed.gpu), ("MEMORY", needed.memory)) if amount}
    with client:
        for name, amount in wanted.items():  # otherwise dask would wait for such a worker for ever
            has = [worker["resources"].get(name, 0) for worker in client.scheduler_info(-1)["workers"].values()]
            if max(has, default=0) < amount:
                raise BerdsError(f'no worker has {name} {amount:g}; start one with --resources "{name}={amount:g}"')
        with client.get_executor(pure=False, resources=wanted) as pool:  # pure: the same call would not be made twice
            yield pool
