"""Who is told how far long work is, and how it is stopped."""

import threading

import pytest

from berdslib.progress import chunk_starts, watched


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


def test_without_a_watcher_a_bar_shows_several_chunks_and_only_those(capfd):
    work(3, 1, "a few")
    assert "a few" not in capfd.readouterr().err
    work(4, 1, "several")
    assert "several" in capfd.readouterr().err
