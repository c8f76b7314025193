"""Questions for people to read, by `berds rate`: drawn, filled in, summed up, compared."""

import json

import pytest
from shell import berds, tried

from berdslib.construction.review import disagreements, read_sheet, reviewer_agreement, summary, write_sheet

FINE = {"belongs": "yes", "question_ok": "yes", "perspectives_ok": "yes", "contradict": "yes", "severity": "none"}


@pytest.fixture
def drawn(tmp_path):
    berds("rate", "questions", "sample", "--split", "all", "-n", "4", "--seed", "2", "-o", tmp_path / "sheet.csv")
    return tmp_path / "sheet.csv"


def filled(path, reviewer, **changes):
    """Fill in a copy of a sheet: all fine but for the items that are named by their place."""
    rows = [
        row._replace(**FINE, reviewer=reviewer)._replace(**changes.get(f"item{i}", {}))
        for i, row in enumerate(read_sheet(path))
    ]
    copy = path.with_name(f"{reviewer}.csv")
    write_sheet(copy, rows)
    return copy


def test_a_sheet_is_drawn_from_each_data_set(drawn, tmp_path):
    rows = read_sheet(drawn)
    assert [row.data_set for row in rows] == [
        f"sample-{n}" for n in ("arguana", "kialo", "opinionqa") for _ in range(4)
    ]
    command = ("rate", "questions", "sample", "--split", "all", "-n", "4", "--seed", "2", "--json", "-o")
    again = json.loads(berds(*command, tmp_path / "b.csv").stdout)
    assert again["items"] == 12 and again["with_sources"] == 0 and read_sheet(tmp_path / "b.csv") == rows
    before = drawn.read_bytes()  # one that is there is not replaced
    refused = tried("rate", "questions", "sample", "-n", "1", "-o", drawn)
    assert refused.exit_code == 1 and "may hold answers" in refused.stderr and drawn.read_bytes() == before


def test_sources_come_from_the_file_of_questions(tmp_path):
    asked = [{"qid": q, "question": f"Keep {q}?", "perspectives": ["Keep it.", "Drop it."]} for q in ("a", "b", "c")]
    path = tmp_path / "built.jsonl"
    path.write_text("".join(json.dumps({**row, "sources": [f"About {row['qid']}."]}) + "\n" for row in asked))
    said = berds("rate", "questions", path, "-n", "3", "-o", tmp_path / "s.csv").stderr
    assert "3 items, 3 of them with sources" in said
    assert [row.sources for row in read_sheet(tmp_path / "s.csv")] == ["About a.", "About b.", "About c."]


def test_errors_are_summed_up(drawn):
    copy = filled(drawn, "Zoe", item1={"contradict": "no", "severity": "minor"})
    rows = json.loads(berds("rate", "summary", copy, "--json").stdout)
    assert {row["data_set"]: row["errors"] for row in rows} == {
        "sample-arguana": 1, "sample-kialo": 0, "sample-opinionqa": 0, "all": 1
    }  # fmt: skip
    printed = berds("rate", "summary", copy).stdout
    want = summary(read_sheet(copy)).to_string(index=False, float_format=lambda x: f"{x:.4f}")
    assert printed.split() == want.split()


def test_two_reviewers_are_compared(drawn):
    zoe = filled(drawn, "Zoe", item1={"contradict": "no", "severity": "minor"}, item5={"question_ok": ""})
    bo = filled(drawn, "Bo", item1={"contradict": "no", "severity": "major"}, item2={"contradict": "no"})
    done = json.loads(berds("rate", "summary", zoe, bo, "--json").stdout)
    table = {row["column"]: row for row in done["agreement"]}
    want = reviewer_agreement(read_sheet(zoe), read_sheet(bo)).set_index("column")
    assert table["contradict"]["kappa"] == pytest.approx(want.loc["contradict", "kappa"])
    assert table["question_ok"]["n"] == 11 and table["question_ok"]["kappa"] is None
    assert [(d["column"], d["first"], d["second"]) for d in done["differences"]] == [
        ("severity", "minor", "major"), ("contradict", "yes", "no")
    ]  # fmt: skip
    printed = berds("rate", "summary", zoe, bo).stdout
    for question in disagreements(read_sheet(zoe), read_sheet(bo))["question"]:
        assert question in printed
