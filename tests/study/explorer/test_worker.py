"""One thread does the newest job: what is not wanted any more stops, and nothing that is wanted is lost."""

import threading

import pytest

from berdslib.progress import chunk_starts
from berdslib.study.explorer.worker import Worker

LONG = 10  # seconds after which a test gives up waiting


class Told:
    """A worker, and what it told."""

    def __init__(self):
        self.said = []
        self.worker = Worker(lambda *said: self.said.append(said))


@pytest.fixture
def told():
    one = Told()
    yield one
    one.worker.cancel()
    assert one.worker.wait(LONG)


class Gate:
    """A job that says when it has begun, and goes on when it is let."""

    def __init__(self):
        self.begun, self.open, self.ended = threading.Event(), threading.Event(), []

    def __call__(self, job):
        self.begun.set()
        assert self.open.wait(LONG)
        self.ended.append("worked")
        job.check()
        self.ended.append("wanted")


# ---------------------------------------------------------------- the worker


def test_a_job_is_done_in_another_thread(told):
    where = []
    told.worker.do(lambda _: where.append(threading.current_thread()), "Searching …")
    assert told.worker.wait(LONG) and where != [threading.current_thread()] and where[0].daemon
    assert told.said == [("Searching …", None, True, ""), ("", None, False, "")]
    told.worker.do(lambda _: where.append(threading.current_thread()))
    assert told.worker.wait(LONG) and len(where) == 2 and where[1] is not threading.current_thread()


def test_the_newest_wins_and_what_waits_in_between_never_begins(told):
    gate, done = Gate(), []
    told.worker.do(gate)
    assert gate.begun.wait(LONG)
    for number in range(3):
        told.worker.do(lambda _, number=number: done.append(number), f"job {number}")
    assert not told.worker.wait(0.01)
    gate.open.set()
    assert told.worker.wait(LONG)
    assert gate.ended == ["worked"] and done == [2]
    assert "job 0" not in [said[0] for said in told.said] and "job 2" in [said[0] for said in told.said]


def test_cancel_stops_at_the_next_chunk_and_keeps_what_was_done(told):
    done, second = [], threading.Event()

    def job(_):
        for start in chunk_starts(10, 1, "judging"):
            if start == 2:
                second.set()
                assert cancelled.wait(LONG)
            done.append(start)

    cancelled = threading.Event()
    told.worker.do(job)
    assert second.wait(LONG)
    told.worker.cancel()
    cancelled.set()
    assert told.worker.wait(LONG)
    assert done == [0, 1, 2]
    assert ("Judging …", 0.2, True, "") in told.said
    assert told.said[-1] == ("Cancelled; what was done is kept. Change anything to search again.", None, False, "")


def test_the_thread_survives_what_nobody_expected(told, caplog):
    def bug(_):
        raise KeyError("quark")

    done = []
    told.worker.do(bug)
    assert told.worker.wait(LONG)
    assert told.said[-1] == ("", None, False, "KeyError: 'quark'") and "Traceback" in caplog.text
    told.worker.do(done.append)
    assert told.worker.wait(LONG) and done


def test_a_worker_whose_explorer_is_gone_does_the_next_job(caplog):
    def tell(*said):
        raise RuntimeError("gone")

    worker, done = Worker(tell), []
    worker.do(done.append)
    assert worker.wait(LONG) and "gone" in caplog.text
    worker.do(done.append)
    assert worker.wait(LONG)
