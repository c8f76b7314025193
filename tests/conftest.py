"""What several test files need."""

import os
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # several tests at a time: one thread each, said before torch is imported
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same figures on every processor; what is chosen where none is named has tests of its own.
os.environ["BERDS_NUMBER_FORMAT"] = "float32"

SET_BY_USER = os.environ.get("BERDS_DATA")  # read now: tests unset it


@pytest.fixture
def real_data(monkeypatch):
    """The folder with data sets of others, BERDS_DATA set to it; without one the test is skipped."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(SET_BY_USER or beside)
    if not folder.is_dir():
        pytest.skip(f"needs the data sets of others: set BERDS_DATA (neither it nor {beside} names a folder)")
    monkeypatch.setenv("BERDS_DATA", str(folder))
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


def pytest_collection_modifyitems(items):
    """Run notebooks first: they are the longest tests, and at the end one worker would be left alone with them."""
    items.sort(key=lambda item: not item.name.startswith("test_it_runs["))
