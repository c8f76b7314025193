"""One thread that does the newest job: an older one is told to stop, and what waited in between is never begun."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable

from berdslib.errors import BerdsError
from berdslib.progress import StoppedError, given_up

logger = logging.getLogger(__name__)


class Worker:
    """Does one job at a time in a thread of its own, the newest first; older ones are given up.

    `tell` is called from there with (text, whether it is busy, problem) when they change.
    """

    def __init__(self, tell: Callable[[str, bool, str], None]) -> None:
        self._tell = tell
        self._lock = threading.Condition()
        self._next: tuple[Callable[[], None], str] | None = None
        self._now = threading.Event()  # set when the job that runs is given up
        self._busy = False

    def do(self, job: Callable[[], None], doing: str = "Searching …") -> None:
        """Do a job as soon as the one before has stopped."""
        with self._lock:
            self._next = (job, doing)
            self._now.set()
            if not self._busy:
                self._busy = True
                atexit.register(self._end)  # a model at work in a thread that dies with the process would abort it
                threading.Thread(target=self._work, name="berds-explorer", daemon=True).start()

    def cancel(self) -> None:
        """Stop what runs, and forget what waits."""
        with self._lock:
            self._next = None
            self._now.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing runs or waits; return whether that is so."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._busy, timeout)

    def _end(self) -> None:
        self.cancel()
        self.wait(timeout=10)

    def _work(self) -> None:
        while True:
            with self._lock:
                if self._next is None:
                    self._busy = False
                    atexit.unregister(self._end)
                    self._lock.notify_all()
                    return
                job, doing = self._next
                self._next = None
                self._now = threading.Event()
            try:
                given_up.set(self._now)
                self._run(job, doing)
            except Exception:  # whom it tells may be gone
                logger.exception("the explorer could not tell what it did")

    def _run(self, job: Callable[[], None], doing: str) -> None:
        said = ""
        problem = ""
        try:
            self._tell(doing, True, "")
            job()
        except StoppedError:
            said = "Cancelled; what was done is kept. Change anything to search again."
        except BerdsError as error:
            problem = str(error)
        except BaseException as error:  # the thread must live on, and the reader must know
            logger.exception("the explorer could not do this")
            problem = f"{type(error).__name__}: {error}"
        self._tell(said, False, problem)
