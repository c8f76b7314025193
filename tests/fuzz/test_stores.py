"""Whatever strikes a store, finished work is whole, done again where it was damaged, or told; see stores.py."""

import sys

import pytest
from fuzz.hostile import MINUTES, REACHED, SEED
from fuzz.stores import FAULTS, STORES, many


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_no_fault_loses_finished_work_or_changes_an_answer():
    wrong = []

    def say(store, fault, seed, ending, why):
        REACHED[f"store: {store}", f"{fault}: {ending}"] += 1
        if ending in ("lost", "other", "crash"):
            wrong.append(f"{store}, {fault}, seed {seed}: {ending}: {why}")

    rounds = 1 + int(MINUTES / 5)
    many(rounds * len(STORES) * len(FAULTS), SEED, say)
    assert not wrong, "\n".join(wrong)
