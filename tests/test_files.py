"""Writing whole or not at all: which errors are about the place, and what is there afterwards."""

import contextlib
import errno
import os

import pytest

from berdslib.errors import InputError
from berdslib.files import atomic_path, write_text


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


@pytest.mark.parametrize("name", ["pipe", "file"])
def test_half_a_surrogate_pair_is_an_input_error_wherever_it_is_written(tmp_path, pipe, name):
    with (
        pytest.raises(InputError, match=rf"{name}: cannot be written: .*surrogate"),
        write_text(tmp_path / name) as file,
    ):
        file.write("\ud800")


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
    with pytest.raises(InputError, match="index: is a folder"), atomic_path(tmp_path / "index"):
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
