"""A clone with nothing beside it: what is not marked real_data sees no data of others, and needs none."""

import os
import re
import subprocess
import sys
from pathlib import Path

from berdslib import paths

TESTS = Path(__file__).parent


def test_no_data_of_others_is_seen():
    assert "BERDS_DATA" not in os.environ and paths.local_data_dir() is None


def test_no_test_looks_beside_the_checkout():
    beside = re.compile(r"""["'](?:\.\./)*shared/?["'/]""")  # this pattern does not match itself
    looking = [str(p.relative_to(TESTS)) for p in TESTS.rglob("*.py") if beside.search(p.read_text(encoding="utf-8"))]
    assert looking == ["study/test_published.py"]  # a temporary folder of that name


def test_what_asks_for_data_of_others_is_marked_and_skipped_with_a_sentence(tmp_path):
    """In a run of pytest of its own, once with and once without the folder."""
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "test_it.py").write_text(
        "import os\n"
        "def test_unmarked(): assert 'BERDS_DATA' not in os.environ\n"
        "def test_with(real_data): assert os.environ['BERDS_DATA'] == str(real_data)\n"
    )
    (tmp_path / "data").mkdir()

    def run(*options, **environment):
        own = {n: v for n, v in os.environ.items() if n != "BERDS_TEST_DATA" and not n.startswith("PYTEST")}
        command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *options, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, env=own | environment, cwd=tmp_path).stdout

    assert "1 passed, 1 skipped" in (said := run())
    assert "needs the data sets of others, and BERDS_DATA names no folder with them" in said
    assert "2 passed" in run(BERDS_DATA=str(tmp_path / "data"))
    assert "2 passed" in run("-n", "1", BERDS_DATA=str(tmp_path / "data"))  # in a worker, as `make test` has them
    assert "1 passed, 1 deselected" in run("-m", "real_data", BERDS_DATA=str(tmp_path / "data"))
