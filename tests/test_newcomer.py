"""A clone with nothing beside it: what is not marked real_data sees no data of others, and needs none."""

import os
import re
from pathlib import Path

from berdslib import paths

TESTS = Path(__file__).parent


def test_no_data_of_others_is_seen():
    assert "BERDS_DATA" not in os.environ and paths.local_data_dir() is None


def test_no_test_looks_beside_the_checkout():
    beside = re.compile(r"""["'](?:\.\./)*shared/?["'/]""")  # this pattern does not match itself
    looking = [str(p.relative_to(TESTS)) for p in TESTS.rglob("*.py") if beside.search(p.read_text(encoding="utf-8"))]
    assert looking == ["study/test_published.py"]  # a temporary folder of that name
