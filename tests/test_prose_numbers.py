"""The check of numbers in prose sees what it is for, and does not see what it is not for."""

import pytest
from prose_numbers import unshown_numbers


def notebook(prose, output="", code="x", parameters="k = 5", heading="## Results"):
    def cell(kind, source, tags=(), text=""):
        outputs = [{"output_type": "stream", "text": text}] if text else []
        return {"cell_type": kind, "source": source, "metadata": {"tags": list(tags)}, "outputs": outputs}

    return {
        "cells": [
            cell("markdown", "# Title 99.9"),
            cell("markdown", "plan 99.9"),
            cell("code", parameters, ["parameters"]),
            cell("markdown", "## The data"),
            cell("code", "1", text="77.7"),
            cell("markdown", heading),
            cell("code", code, text=output),
            cell("markdown", prose),
        ]
    }


@pytest.mark.parametrize(
    ("prose", "output", "missing"),
    [
        ("It rises to 41.7.", "41.68", []),
        ("It rises to 41.7.", "41.6", ["41.7"]),
        ("It rises to 42 %.", "0.417", ["42 %"][:0]),
        ("It is 42.", "0.417", ["42"]),  # without a percent sign a share is no percentage
        ("Of 1,521 questions", "1521", []),
        ("Of 1521 questions", "1,521", []),
        ("another section's 77.7", "", ["77.7"]),
        ("a small 12 and Table 17 and MRecall@50 and section 4.2", "", []),
        ("as Tables 3 and 16 show, 45.2 %", "", ["45.2 %"]),
        ("Table 3, 45.2 %", "", ["45.2 %"]),
        ("n < 30 and 62.2 % and 3 > 2", "", ["30", "62.2 %"]),
        ("between $30 and 62.2 % for $40", "", ["30", "62.2 %", "40"]),
        ("the formula $x = 62.2$ and `62.2` and [62.2](62.2)", "", ["62.2"]),
        ("published: 62.2 <!-- numbers from BeRDS v2: 62.2 -->", "", []),
        ("published: 62.3 <!-- numbers from BeRDS v2: 62.2 -->", "", ["62.3"]),
        ("62.2 <!-- numbers from BeRDS v9: 62.2 -->", "", ["62.2"]),
        ("62 <!-- numbers from docs/here.md: 62 -->", "", ["62"]),
        ("62.4 <!-- numbers from docs/here.md: 62.4 -->", "", []),
        ("62.4 <!-- numbers from docs/gone.md: 62.4 -->", "", ["62.4"]),
        ("a colour", "<b style='color:#0072B2'>", []),
        ("it is 72", "", ["72"]),
    ],
)
def test_a_number_is_shown_or_named(tmp_path, prose, output, missing):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "here.md").write_text("It was 62.4 then.")
    found = unshown_numbers(notebook(prose, output), tmp_path)
    assert [one.number for one in found] == missing


def test_tables_count_without_their_tags(tmp_path):
    made = notebook("It is 72 or 41.7.")
    made["cells"][6]["outputs"] = [{"output_type": "execute_result", "data": {"text/html": "<td id='T_72'>41.70</td>"}}]
    assert [one.number for one in unshown_numbers(made, tmp_path)] == ["72"]


def test_code_counts_as_it_is_written_and_parameters_everywhere(tmp_path):
    made = notebook(
        "k is 50, 10,000 draws, seed 40, 4 in ten, and 40 % of them",
        code="draws = 10_000\nshare = 0.4",
        parameters="k = 50",
    )
    assert [one.number for one in unshown_numbers(made, tmp_path)] == ["40"]
