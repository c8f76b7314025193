"""A worker thread that runs only the newest job: a new job cancels the running one and replaces the waiting one."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable

from berdslib.errors import BerdsError
from berdslib.progress import StoppedError, given_up

logger = logging.getLogger(__name__)


class Worker:
    """Runs one job at a time in its own thread; a new job cancels the job that runs and replaces the job that waits.

    The thread calls `tell` with (text, whether it is busy, problem) when one of them changes.
    """

    def __init__(self, tell: Callable[[str, bool, str], None]) -> None:
        self._tell = tell
        self._lock = threading.Condition()
        self._next: tuple[Callable[[], None], str] | None = None
        self._now = threading.Event()  # set when the running job is cancelled
        self._busy = False

    def do(self, job: Callable[[], None], doing: str = "Searching …") -> None:
        """Run a job as soon as the job before has stopped; `doing` describes it in the status."""
        with self._lock:
            self._next = (job, doing)
            self._now.set()
            if not self._busy:
                self._busy = True
                atexit.register(self._end)  # exit would abort if a model were still running in this thread
                threading.Thread(target=self._work, name="berds-explorer", daemon=True).start()

    def cancel(self) -> None:
        """Cancel the running job, and drop the waiting one."""
        with self._lock:
            self._next = None
            self._now.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no job runs or waits; return whether this is so before the timeout."""
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
            except Exception:  # the widget may be closed
                logger.exception("the explorer could not update its status")

    def _run(self, job: Callable[[], None], doing: str) -> None:
        said = ""
        problem = ""
        try:
            self._tell(doing, True, "")
            job()
        except StoppedError:
            said = "Cancelled; finished searches and verdicts are kept. Change anything to search again."
        except BerdsError as error:
            problem = str(error)
        except BaseException as error:  # the thread must go on, and the reader must see the problem
            logger.exception("the explorer failed")
            problem = f"{type(error).__name__}: {error}"
        self._tell(said, False, problem)
