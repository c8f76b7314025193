"""What several test files need."""

import importlib
import logging
import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

if "PYTEST_XDIST_WORKER" in os.environ:  # several tests at a time: one thread each, said before torch is imported
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# A busy machine, or the first call that loads a library, takes longer than hypothesis expects of an example.
# The same examples each time: new ones are for `make fuzz`, and for whoever sets BERDS_FUZZ_MINUTES for other tests.
settings.register_profile("patient", deadline=None, derandomize="BERDS_FUZZ_MINUTES" not in os.environ)
settings.load_profile("patient")

# No test reaches another machine, nor does a program that it starts.
_LEFT = Path(tempfile.mkdtemp()) / "left.txt"
_GUARD = str(Path(__file__).parent / "guard")
os.environ["BERDS_TEST_LEFT"] = str(_LEFT)
if _GUARD not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_GUARD, os.environ.get("PYTHONPATH")]))
sys.path.append(_GUARD)
importlib.import_module("only_this_machine")


@pytest.fixture(autouse=True)
def _stays_on_this_machine():
    yield
    if _LEFT.exists():
        tried = _LEFT.read_text(encoding="utf-8")
        _LEFT.unlink()
        pytest.fail(f"tests reach no machine but this one; asked for: {tried}")


@pytest.fixture(autouse=True)
def _levels_of_logs_as_they_were():
    """What a command sets for its process (`--quiet`, `-v`) is not for the tests after it."""
    names = ("", "berds", "berdslib")
    before = [logging.getLogger(name).level for name in names]
    yield
    for name, level in zip(names, before, strict=True):
        logging.getLogger(name).setLevel(level)


# The same figures on every processor; what is chosen where none is named has tests of its own.
os.environ["BERDS_NUMBER_FORMAT"] = "float32"

# Data of others: only tests marked real_data may see it, so that all others pass where there is none. The workers of
# pytest-xdist inherit what is left of the environment, so it goes to them under another name.
if "BERDS_DATA" in os.environ:
    os.environ["BERDS_TEST_DATA"] = os.environ.pop("BERDS_DATA")
DATA_OF_OTHERS = os.environ.get("BERDS_TEST_DATA")


@pytest.fixture
def real_data(monkeypatch):
    """The folder with data sets of others, BERDS_DATA set to it; without one the test is skipped."""
    if not DATA_OF_OTHERS:
        pytest.skip("needs the data sets of others, and BERDS_DATA names no folder with them")
    monkeypatch.setenv("BERDS_DATA", str(Path(DATA_OF_OTHERS).resolve()))
    return Path(DATA_OF_OTHERS).resolve()


@pytest.fixture
def papers(real_data):
    """The folder with the papers as text, beside the data sets of others; without it the test is skipped."""
    if not (folder := real_data.parent / "papers").is_dir():
        pytest.skip("needs the papers as text, and there is no folder papers beside that of BERDS_DATA")
    return folder


@pytest.fixture
def user_cache(tmp_path, monkeypatch):
    """An empty user cache of the test's own."""
    monkeypatch.setenv("BERDS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def warm_cache(tmp_path_factory, monkeypatch):
    """A cache that the long tests share, other workers' included: the sample is encoded once, not by each of them."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "warm_cache"
    monkeypatch.setenv("BERDS_CACHE", str(folder))
    return folder


@pytest.fixture
def own_place(tmp_path, user_cache, monkeypatch):
    """A folder to work in, an empty cache, and no name of a data set that another test has added."""
    from berdslib.data.catalogue import DATASETS

    monkeypatch.setattr(DATASETS, "_things", dict(DATASETS))
    monkeypatch.chdir(tmp_path)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what asks for data of others, and run notebooks first: at the end one worker would be left with them."""
    for item in items:
        if "real_data" in item.fixturenames:
            item.add_marker("real_data")
        if item.name.startswith("test_it_runs["):
            item.add_marker("notebook")
    items.sort(key=lambda item: not item.get_closest_marker("notebook"))
