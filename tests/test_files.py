"""Writing whole or not at all: which errors are about the place, and what is there afterwards."""

import contextlib
import errno
import multiprocessing
import os
import sqlite3
import threading

import pytest

from berdslib import files
from berdslib.errors import InputError
from berdslib.files import Rows, atomic_path, guarded, left_unfinished, unguarded, write_text, write_transaction


@pytest.mark.parametrize(
    "error", [ConnectionResetError(104, "reset by peer"), OSError("unexpected end"), OSError(2, "?")]
)
def test_an_error_that_is_not_about_writing_stays_what_it_is(tmp_path, error):
    with pytest.raises(OSError) as caught, atomic_path(tmp_path / "a"):
        raise error
    assert caught.value is error and not list(tmp_path.iterdir())


def test_what_cannot_be_removed_does_not_hide_the_error(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "unlink", lambda *_, **__: os.close(-1))  # as Windows refuses to delete an open file
    with pytest.raises(KeyError), atomic_path(tmp_path / "a") as unfinished:
        unfinished.touch()
        raise KeyError


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG])
def test_a_disk_that_takes_nothing_more_is_named_without_a_file_name(tmp_path, number):
    with pytest.raises(InputError, match="a: cannot be written: "), atomic_path(tmp_path / "a"):
        raise OSError(number, os.strerror(number))


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    yield tmp_path / "pipe", reader
    with contextlib.suppress(OSError):  # a test may have closed it
        os.close(reader)


def test_a_reader_that_has_left_is_no_mistake_of_the_user(pipe):
    path, reader = pipe
    with pytest.raises(BrokenPipeError), write_text(path) as file:
        os.close(reader)
        file.write("x" * 100_000)


def made(folder, *names):
    folder.mkdir()
    for name in names:
        (folder / name).write_text(name)


def test_a_folder_that_cannot_be_replaced_is_still_there(tmp_path, monkeypatch):
    made(tmp_path / "index", "mark")
    replace = os.replace

    def failing(source, target):
        if os.path.basename(target) == "index" and not str(source).endswith(".old"):
            raise OSError(errno.EIO, "Input/output error", str(source), None, str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    broken = pytest.raises(InputError, match="index: cannot be written: Input/output error")
    with broken, atomic_path(tmp_path / "index", "mark") as unfinished:
        made(unfinished, "mark", "new")
    assert [p.name for p in tmp_path.iterdir()] == ["index"]
    assert [p.name for p in (tmp_path / "index").iterdir()] == ["mark"]


def test_an_empty_folder_gives_way_to_a_folder_and_not_to_a_file(tmp_path):
    (tmp_path / "index").mkdir()
    with pytest.raises(InputError, match="index: "), atomic_path(tmp_path / "index"):
        pass
    with atomic_path(tmp_path / "index", "mark") as unfinished:
        made(unfinished, "mark")
    assert [p.name for p in (tmp_path / "index").iterdir()] == ["mark"]
    assert [p.name for p in tmp_path.iterdir()] == ["index"]


def test_a_folder_of_something_else_stays(tmp_path):
    made(tmp_path / "precious", "photo")
    for marker in (None, "mark"):
        with pytest.raises(InputError, match="precious: "), atomic_path(tmp_path / "precious", marker):
            pass
    assert (tmp_path / "precious" / "photo").read_text() == "photo"


# ---------------------------------------------------------------- what writers leave, and what is somebody else's

MADE = "0123456789abcdef" * 2  # as of a writer that was killed


@pytest.mark.parametrize(
    ("name", "goes"),
    [
        (f".wiki.{MADE}", True),
        (f".wiki.{MADE}.old", True),
        (".wiki.backup", False),
        (f".wiki.v2.{MADE}", False),  # of a sibling whose name begins alike
        (f".wiki.{MADE}.old.old", False),
        (f".wiki.{MADE[:-1]}", False),
        (f".wikis.{MADE}", False),
        (f"wiki.{MADE}", False),
    ],
)
def test_only_what_a_killed_writer_left_is_found(tmp_path, name, goes):
    made(tmp_path / name)
    assert [path.name for path in left_unfinished(tmp_path / "wiki")] == [name] * goes


def test_links_and_files_with_such_a_name_are_not_found(tmp_path):
    made(tmp_path / "precious", "mark")
    (tmp_path / f".wiki.{MADE}").symlink_to(tmp_path / "precious")
    (tmp_path / f".wiki.{MADE[::-1]}").write_text("a file")
    assert left_unfinished(tmp_path / "wiki") == []


def test_long_names_that_begin_alike_are_told_apart(tmp_path):
    first, second = (tmp_path / f"{'a' * 60}{end}" for end in "xy")
    with atomic_path(first, "mark") as unfinished:
        made(unfinished, "mark")
        assert left_unfinished(second) == [] and left_unfinished(first) == [unfinished]


# ---------------------------------------------------------------- a cache that others can write to


def test_a_store_is_not_made_where_a_link_leads_to_nothing(tmp_path):
    (tmp_path / "store.sqlite").symlink_to(tmp_path / "new")
    rows = Rows(tmp_path / "store.sqlite", "a store", "thing", "value BLOB")
    with pytest.raises(InputError) as told:
        rows.do(lambda table: None)
    assert told.value.path == tmp_path / "store.sqlite" and not (tmp_path / "new").exists()


@pytest.mark.skipif(os.name != "posix", reason="Windows has no umask")
@pytest.mark.parametrize("mask", [0o002, 0o022, 0o077])
def test_a_store_can_be_read_and_written_by_whom_the_umask_says(tmp_path, mask):
    before = os.umask(mask)
    try:
        Rows(tmp_path / "store.sqlite", "a store", "thing", "value BLOB").do(lambda table: None)
    finally:
        os.umask(before)
    assert (tmp_path / "store.sqlite").stat().st_mode & 0o777 == 0o666 & ~mask


def _holds_the_lock(rows, held, done):
    def work(table):
        with write_transaction(table):
            held.set()
            done.wait(60)
            rows.add(table, [(b"first", b"1")])

    rows.do(work)


def test_a_process_that_waits_for_the_lock_says_so_and_then_writes(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(files, "_PATIENCE", 0.05)
    rows = Rows(tmp_path / "store.sqlite", "a store", "thing", "value BLOB")
    rows.do(lambda table: None)
    context = multiprocessing.get_context("fork")
    held, done = context.Event(), context.Event()
    other = context.Process(target=_holds_the_lock, args=(rows, held, done))
    other.start()
    assert held.wait(60)
    threading.Timer(0.5, done.set).start()

    def work(table):
        with write_transaction(table):
            rows.add(table, [(b"second", b"2")])
        return rows.find(table, [b"first", b"second"])

    assert rows.do(work) == {b"first": b"1", b"second": b"2"}
    other.join(60)
    assert [str(tmp_path / "store.sqlite") in message for message in caplog.messages] == [True]


def test_a_lock_that_is_never_free_is_an_error_that_names_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_PATIENCE", 0.01)
    monkeypatch.setattr(files, "_WAITS", 3)
    rows = Rows(tmp_path / "store.sqlite", "a store", "thing", "value BLOB")

    def waits(table):
        with write_transaction(table):
            pytest.fail("two hold the lock")

    with pytest.raises(InputError) as error:
        rows.do(lambda table: _within(table, lambda: rows.do(waits)))
    assert error.value.path == tmp_path / "store.sqlite"


def _within(table, work):
    with write_transaction(table):
        work()


@pytest.mark.parametrize("value", ["BLOB", "REAL"])
def test_a_store_with_a_column_of_checksums_is_read_and_written(tmp_path, value):
    """As those were that an earlier version made."""
    with contextlib.closing(sqlite3.connect(tmp_path / "store.sqlite")) as table, table:
        table.execute(f"CREATE TABLE thing (key BLOB PRIMARY KEY, value {value} NOT NULL, sum INTEGER)")
        table.execute("INSERT INTO thing VALUES (?, ?, ?)", [b"old", 0.5, 7])
    rows = Rows(tmp_path / "store.sqlite", "a store", "thing", f"value {value}")
    rows.do(lambda table: rows.add(table, [(b"new", 0.25)]))
    assert rows.do(lambda table: rows.find(table, [b"old", b"new", b"old"])) == {b"old": 0.5, b"new": 0.25}


@pytest.mark.parametrize("text", ["=1+1", "'=1+1", "''@x", "-3", "\tx", "plain", "'plain", "", "＝x"])
def test_a_cell_is_read_back_and_begins_no_formula(text):
    assert unguarded(guarded(text)) == text
    assert guarded(text)[:1] not in tuple("=+-@\t\r＝")
