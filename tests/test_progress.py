"""Who is told how far long work is, and how it is stopped."""

import logging
import sys
import threading

import pytest

from berdslib import progress
from berdslib.progress import PROGRESS, bar, chunk_starts, watched


class Stop(Exception):  # noqa: N818
    """What a watcher raises."""


def work(n=10, size=4, doing="working"):
    done = []
    for start in chunk_starts(n, size, doing):
        done.append(start)
    return done


@pytest.mark.parametrize(
    ("n", "size", "starts"), [(10, 4, [0, 4, 8]), (8, 4, [0, 4]), (1, 4, [0]), (0, 4, []), (5, 1, [0, 1, 2, 3, 4])]
)
def test_chunks_start_at_the_same_places_whoever_watches(n, size, starts, capfd):
    told = []
    with watched(lambda *said: told.append(said)):
        assert work(n, size) == starts
    assert told == [("working", done, len(starts)) for done in range(len(starts))]
    assert capfd.readouterr() == ("", "")  # no bar where somebody is told
    assert work(n, size) == starts and len(told) == len(starts)


def test_whoever_raises_stops_the_work_and_watches_no_more():
    done, told = [], []

    def watcher(doing, at, of):
        told.append(at)
        if at == 2:
            raise Stop

    with pytest.raises(Stop), watched(watcher):
        for start in chunk_starts(10, 2, "x"):
            done.append(start)
    assert done == [0, 2] and told == [0, 1, 2]
    assert work() == [0, 4, 8] and told == [0, 1, 2]


def test_another_thread_is_not_watched():
    """Each thread has its own watcher, so that a job is not told of another's chunks, or stopped by them."""
    mine, theirs = [], []
    ready, go = threading.Event(), threading.Event()

    def other():
        with watched(lambda *said: theirs.append(said[0])):
            ready.set()
            assert go.wait(10)
            work(1, 1, "theirs")

    thread = threading.Thread(target=other)
    with watched(lambda *said: mine.append(said[0])):
        thread.start()
        assert ready.wait(10)
        work(1, 1, "mine")
        go.set()
        thread.join(10)
        work(1, 1, "mine again")
    assert mine == ["mine", "mine again"] and theirs == ["theirs"]


def as_a_terminal(monkeypatch):
    """Make of stderr one, as far as bars are concerned, which are shown at once."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "DELAY", 0)


def test_without_a_watcher_several_chunks_have_a_line_and_a_bar(capsys, caplog, monkeypatch):
    as_a_terminal(monkeypatch)
    caplog.set_level(logging.INFO, PROGRESS.name)
    work(1, 1, "alone")
    work(1001, 1000, "both")
    assert caplog.messages == ["both: 1,001, 1,000 at a time"]
    shown = capsys.readouterr().err
    assert "alone" not in shown and "both: " in shown and "/1001 [" in shown


def test_a_file_gets_a_line_now_and_then_and_nothing_that_moves_the_cursor(capsys, caplog, monkeypatch):
    caplog.set_level(logging.INFO, PROGRESS.name)
    work(500, 128, "soon done")
    assert caplog.messages == ["soon done: 500, 128 at a time"]
    monkeypatch.setattr(progress, "EVERY", 0)
    caplog.clear()
    work(500, 128, "encoding")
    said = [line.partition(", 00:0")[0] for line in caplog.messages[1:]]
    assert [line for line in said if line] == [f"encoding: {done} of 500" for done in (0, 128, 256, 384, 500)]
    assert caplog.messages[2].endswith(" left") and "\r" not in capsys.readouterr().err + "".join(caplog.messages)
    caplog.clear()
    caplog.set_level(logging.ERROR, PROGRESS.name)
    work(500, 128, "quiet")
    assert not caplog.messages


@pytest.mark.parametrize(("level", "seen"), [(0, True), (20, True), (30, True), (40, False)])
def test_bars_are_as_loud_as_warnings(capsys, caplog, monkeypatch, level, seen):
    as_a_terminal(monkeypatch)
    caplog.set_level(level, PROGRESS.name)
    assert list(bar("ab", desc="letters")) == ["a", "b"]
    assert ("letters" in capsys.readouterr().err) == seen
