"""How far long work is, and how it is given up."""

import logging
import sys
import threading

import pytest

from berdslib import progress
from berdslib.progress import PROGRESS, StoppedError, bar, chunk_starts, given_up


def work(n=10, size=4, doing="working"):
    return list(chunk_starts(n, size, doing))


@pytest.mark.parametrize(
    ("n", "size", "starts"), [(10, 4, [0, 4, 8]), (8, 4, [0, 4]), (1, 4, [0]), (0, 4, []), (5, 1, [0, 1, 2, 3, 4])]
)
def test_chunks_start_where_they_are_to(n, size, starts):
    assert work(n, size) == starts


def test_work_that_is_given_up_stops_at_its_next_chunk_and_work_of_another_thread_does_not():
    mine, theirs, stop = [], [], threading.Event()
    token = given_up.set(stop)
    try:
        with pytest.raises(StoppedError):
            for start in chunk_starts(10, 2, "mine"):
                mine.append(start)
                if start == 4:
                    stop.set()
        thread = threading.Thread(target=lambda: theirs.extend(work()))
        thread.start()
        thread.join(10)
    finally:
        given_up.reset(token)
    assert mine == [0, 2, 4] and theirs == [0, 4, 8] == work()


def as_a_terminal(monkeypatch):
    """Make of stderr one, as far as bars are concerned, which are shown at once."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "DELAY", 0)


def test_several_chunks_have_a_bar(capsys, monkeypatch):
    as_a_terminal(monkeypatch)
    work(1, 1, "alone")
    work(1001, 1000, "both")
    shown = capsys.readouterr().err
    assert "alone" not in shown and "both: " in shown and "/2 [" in shown


def test_a_file_gets_a_state_of_a_bar_now_and_then_and_nothing_that_moves_the_cursor_up(capsys, caplog, monkeypatch):
    caplog.set_level(logging.INFO, PROGRESS.name)
    work(500, 128, "soon done")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "EVERY", 0)
    for _ in bar("ab", desc="outer"):
        work(500, 128, "encoding")
    said = capsys.readouterr().err
    assert all(f"| {done}/4 [" in said for done in range(5)) and "outer: " in said and "\x1b" not in said
    assert said.endswith("\n")
    caplog.set_level(logging.ERROR, PROGRESS.name)
    work(500, 128, "quiet")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("level", "seen"), [(0, True), (20, True), (30, True), (40, False)])
def test_bars_are_as_loud_as_warnings(capsys, caplog, monkeypatch, level, seen):
    as_a_terminal(monkeypatch)
    caplog.set_level(level, PROGRESS.name)
    assert list(bar("ab", desc="letters")) == ["a", "b"]
    assert ("letters" in capsys.readouterr().err) == seen
