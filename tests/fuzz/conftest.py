"""Says after `make fuzz` how many cases ended in what way."""

import logging

import pytest
from fuzz.hostile import MINUTES, REACHED


@pytest.fixture(autouse=True)
def _in_silence(user_cache):
    """Thousands of cases would log each; verdicts go to a cache of the test's own."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def pytest_terminal_summary(terminalreporter):
    if MINUTES and REACHED:
        terminalreporter.section("cases by surface")
        for (surface, ending), n in sorted(REACHED.items()):
            terminalreporter.write_line(f"{surface:28} {ending:40} {n:8,}")
