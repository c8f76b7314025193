"""docs/divergences.md: rows that code refers to are there, and each has a test."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from berdslib.data.formats import read_berds
from berdslib.judging.examples import Example
from berdslib.judging.finetune import split_by_question
from berdslib.models.vectors import CachedEncoder

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


def test_b8_no_rows_are_dropped_by_the_name_of_the_file(tmp_path):
    rows = [{"id": f"q{i}", "question": f"Is {i}?", "perspectives": ["yes"], "ctxs": []} for i in range(760)]
    path = tmp_path / "arguana_output.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    official = rows[: {"arguana": 750, "kialo": 774, "opinionqa": 882}["arguana"]]
    questions, *_ = read_berds(path)
    assert (len(official), len(questions)) == (750, 760)


def test_b11_a_split_by_row_puts_questions_on_both_sides_and_ours_none():
    examples = [Example(f"d{q}{i}", f"s{i}", bool(i % 2), f"q{q}", "x") for q in range(20) for i in range(6)]
    shuffled = [examples[i] for i in np.random.default_rng(0).permutation(len(examples))]
    by_row = shuffled[: len(shuffled) // 10], shuffled[len(shuffled) // 10 :]
    by_question = split_by_question(examples, 0.1)

    def on_both_sides(parts):
        return len({e.topic for e in parts[0]} & {e.topic for e in parts[1]})

    assert on_both_sides(by_row) >= 8 and on_both_sides(by_question) == 0


def test_p7_a_dropped_batch_shifts_every_later_vector_and_ours_is_an_error(tmp_path):
    texts = [f"text {i}" for i in range(6)]

    def vector(text):
        if text == "text 2":
            raise RuntimeError("out of memory")
        return np.full(3, float(text.split()[1]), dtype=np.float32)

    official = []
    for text in texts:
        try:
            official.append(vector(text))
        except RuntimeError:
            continue
    assert [float(v[0]) for v in official] == [0, 1, 3, 4, 5]  # row 2 holds the vector of text 3

    class Encoder:
        id = "fails"

        def encode_passages(self, texts):
            return np.stack([vector(text) for text in texts])

        encode_queries = encode_passages

    with pytest.raises(RuntimeError, match="out of memory"):
        CachedEncoder(Encoder(), tmp_path, chunk=1).encode_passages(texts)
