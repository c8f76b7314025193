"""docs/divergences.md: rows that code refers to are there, and each has a test."""

import re
from pathlib import Path

import numpy as np

from berdslib.judging.examples import Example
from berdslib.judging.finetune import split_by_question

ROOT = Path(__file__).resolve().parents[1]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (ROOT / "docs" / "divergences.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| [ABP]\d", line)
]


def test_every_row_that_code_refers_to_is_in_the_document():
    files = [*(ROOT / "berdslib").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    named = {row for f in files for row in re.findall(r"(?i:divergences)(?:\.md)? ([ABP]\d+)", f.read_text("utf-8"))}
    assert len(named) > 15 and named <= {row for row, *_ in ROWS}


def test_every_row_has_a_test():
    """Named after the row, or in it."""
    defined = "".join(f.read_text("utf-8") for f in (ROOT / "tests").rglob("test_*.py"))
    for row, *cells in ROWS:
        named = re.findall(r"`(test_\w+)`", cells[-1])
        assert f"def test_{row.lower()}_" in defined or (named and f"def {named[0]}(" in defined), row


def test_b11_a_split_by_row_puts_questions_on_both_sides_and_ours_none():
    examples = [Example(f"d{q}{i}", f"s{i}", bool(i % 2), f"q{q}", "x") for q in range(20) for i in range(6)]
    shuffled = [examples[i] for i in np.random.default_rng(0).permutation(len(examples))]
    by_row = shuffled[: len(shuffled) // 10], shuffled[len(shuffled) // 10 :]
    by_question = split_by_question(examples, 0.1)

    def on_both_sides(parts):
        return len({e.topic for e in parts[0]} & {e.topic for e in parts[1]})

    assert on_both_sides(by_row) >= 8 and on_both_sides(by_question) == 0
