"""One bit of a recording is flipped, as a failing disk does: what comes of it is right, made again or told."""

import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from berdslib.errors import BerdsError, MissingDataError
from berdslib.llm.chat import Reply
from berdslib.llm.recorded import Recorded

TEXTS = [f"text number {i}" for i in range(300)]


class Echo:
    """Answers with what it was asked."""

    id = "echo"

    def complete(self, messages):
        return Reply(messages[-1]["content"].upper(), (("Yes", -0.5),), "stop", 7, 5)


def asked(text):
    return [{"role": "user", "content": text}]


def recording(folder):
    """An answer that is missing is asked again."""
    if not any(folder.iterdir()):
        kept = Recorded(folder / "said.jsonl", Echo())
        return [kept.complete(asked(text)) for text in TEXTS] == []
    recorded = Recorded(folder / "said.jsonl", model_id="echo")
    again = False
    for text in TEXTS:
        try:
            assert recorded.complete(asked(text)) == Echo().complete(asked(text))
        except MissingDataError:
            again = True
    return again


def flipped(flips):
    """What came of so many flips, and how often."""
    outcomes = Counter()
    with tempfile.TemporaryDirectory() as place:
        (whole := Path(place) / "whole").mkdir()
        recording(whole)
        for seed in range(flips):
            rng, damaged = random.Random(seed), Path(place) / f"{seed}"
            shutil.copytree(whole, damaged)
            file = damaged / "said.jsonl"
            content = bytearray(file.read_bytes())
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            file.write_bytes(content)
            try:
                outcomes["made again" if recording(damaged) else "same"] += 1
            except BerdsError:
                outcomes["told"] += 1
            except AssertionError:
                outcomes[f"silently other, seed {seed}"] += 1
            shutil.rmtree(damaged)
    return outcomes


def test_a_flipped_bit_is_right_made_again_or_told():
    assert {*flipped(50)} <= {"same", "made again", "told"}
