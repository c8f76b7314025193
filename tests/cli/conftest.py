"""Every command has a cache of its own."""

import pytest


@pytest.fixture(autouse=True)
def _own_cache(user_cache):
    pass
