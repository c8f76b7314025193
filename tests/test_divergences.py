"""docs/divergences.md: rows that code refers to are there, and the tests that it names exist."""

import re
from pathlib import Path

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


def test_every_test_that_the_document_names_exists():
    defined = {f.name: f.read_text("utf-8") for f in (ROOT / "tests").rglob("test_*.py")}
    for row, *cells in ROWS:
        file = ""
        for node in re.findall(r"`([\w.]*::\w+)`", cells[-1]):
            same, _, name = node.partition("::")
            file = same or file
            assert f"def {name}(" in defined.get(file, ""), f"{row}: {file}::{name}"
        assert file or row.startswith("A"), f"{row} names no test"
