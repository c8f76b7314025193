"""What a training reads: the sample's development questions, or a file of pairs."""

import pytest

from berdslib.data.datasets import load_gold, load_passages, load_questions
from berdslib.errors import InputError
from berdslib.judging.detection_set import write_examples
from berdslib.judging.training.pairs import Example, build


def test_only_development_questions_of_our_sample():
    examples = build(["sample"])
    dev, gold = {q.qid: q for q in load_questions("sample", "dev")}, load_gold("sample")
    texts = {p.docno: p.full_text for p in load_passages("sample")}
    wanted = [
        Example(texts[r.docno], dev[r.qid].perspectives[r.pid], bool(r.supports), dev[r.qid].text, "sample")
        for r in gold.itertuples() if r.qid in dev
    ]  # fmt: skip
    assert sorted(examples) == sorted(wanted) != examples and 0 < len(wanted) < len(gold)
    assert examples == build(["sample"]) != build(["sample"], seed=1)
    assert not {e.topic for e in examples} & {q.text for q in load_questions("sample", "test")}


def test_a_file_is_a_source_too(tmp_path):
    rows = [Example(f"document {i}", "statement", i % 2 == 0, "topic", "detection") for i in range(9)]
    write_examples(tmp_path / "own.tsv", [*rows, rows[0]])
    assert sorted(build([tmp_path / "own.tsv"])) == sorted(rows)
    assert len(build(["sample", tmp_path / "own.tsv"])) == len(build(["sample"])) + 9
    with pytest.raises(InputError, match=r"other\.tsv: no such file"):
        build([tmp_path / "other.tsv"])
