"""One thread that does the newest job: an older one is told to stop, and what waited in between is never begun."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable

from berdslib.errors import BerdsError
from berdslib.progress import watched

logger = logging.getLogger(__name__)


class StoppedError(Exception):
    """Raised inside a job that is not wanted any more, where it says how far it is."""


class Job:
    """A job that runs: it can ask whether it is still wanted."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ask it to end."""
        self._stop.set()

    def check(self) -> None:
        """Raise StoppedError if it is not wanted any more."""
        if self._stop.is_set():
            raise StoppedError


class Worker:
    """Does one job at a time in a thread of its own, the newest first; older ones stop at their next step.

    The thread ends with its last job, so that nothing keeps a worker whose explorer is gone.

    Args:
        tell: called with (text, share from 0 to 1 or None, whether it is busy, problem) whenever that changes, from the
            worker's thread.
    """

    def __init__(self, tell: Callable[[str, float | None, bool, str], None]) -> None:
        self._tell, self._lock = tell, threading.Condition()
        self._next: tuple[Callable[[Job], None], str] | None = None
        self._now: Job | None = None
        self._thread: threading.Thread | None = None

    def do(self, job: Callable[[Job], None], doing: str = "Searching …") -> None:
        """Do a job as soon as the one before has stopped; nothing is told of one without `doing`."""
        with self._lock:
            self._next = (job, doing)
            if self._now is not None:
                self._now.stop()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="berds-explorer", daemon=True)
                atexit.register(self._end)  # a model at work in a thread that dies with the process would abort it
                self._thread.start()

    def cancel(self) -> None:
        """Stop what runs, and forget what waits."""
        with self._lock:
            self._next = None
            if self._now is not None:
                self._now.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing runs or waits; return whether that is so."""
        with self._lock:
            return self._lock.wait_for(lambda: self._thread is None, timeout)

    def _end(self) -> None:
        self.cancel()
        self.wait(timeout=10)

    def _work(self) -> None:
        try:
            while (given := self._taken()) is not None:
                self._run(*given)
        finally:  # also where a job ends the thread: the next one gets a new one
            with self._lock:
                self._leave()

    def _leave(self) -> None:
        if self._thread is threading.current_thread():  # else its successor is at work already
            self._now = self._thread = None
            atexit.unregister(self._end)
            self._lock.notify_all()

    def _taken(self) -> tuple[Callable[[Job], None], Job, str] | None:
        """Return the job to do now, or None, after which this thread takes no more."""
        with self._lock:
            if self._next is None:
                self._leave()
                return None
            (job, doing), self._next = self._next, None
            self._now = Job()
            return job, self._now, doing

    def _run(self, job: Callable[[Job], None], current: Job, doing: str) -> None:
        def watch(what: str, done: int, of: int) -> None:
            current.check()
            if doing and of > 1:
                self._tell(f"{what.capitalize()} …", done / of, True, "")

        if doing:
            self._tell(doing, None, True, "")
        try:
            with watched(watch):
                job(current)
        except StoppedError:
            if doing:
                self._tell("Cancelled; what was done is kept. Change anything to search again.", None, False, "")
        except BerdsError as error:
            self._tell("", None, False, str(error))
        except Exception as error:  # the thread must live on, and the reader must know
            logger.exception("the explorer could not do this")
            self._tell("", None, False, f"{type(error).__name__}: {error}")
        else:
            if doing:
                self._tell("", None, False, "")
