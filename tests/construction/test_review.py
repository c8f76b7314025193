"""Items read by hand: the sheet, the form, errors, and how far two agree."""

import csv
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.metrics.agreement import AnnotationTask

from berdslib.construction.form import ReviewForm
from berdslib.construction.review import (
    ANSWERS,
    SheetRow,
    draw_sheet,
    read_sheet,
    reviewer_agreement,
    summary,
    write_sheet,
)
from berdslib.data.records import Question
from berdslib.errors import InputError

FINE = {"belongs": "yes", "question_ok": "yes", "perspectives_ok": "yes", "contradict": "yes", "severity": "none"}


def row(qid="a", data_set="ponds", **given):
    return SheetRow(qid, data_set, "One source.\nAnother.", "Keep the pond?", "Keep it.\nFill it in.", **given)


def test_the_stance_stands_behind_each_perspective():
    """Else nobody could find two labels that were swapped."""
    asked = [
        Question("a", "Close zoos?", ("Close  them.", "Keep them."), ("oppose", "support"), "zoos"),
        Question("b", "Which?", ("Cats.", "Dogs."), (None, None), "zoos"),
    ]
    found = {r.qid: r.perspectives for r in draw_sheet(asked, {}, n=2)}
    assert found == {"a": "Close them. (oppose)\nKeep them. (support)", "b": "Cats.\nDogs."}


CELL = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], include_characters="\n\t"), max_size=20)


@given(st.lists(st.tuples(CELL, CELL, CELL, CELL, CELL), min_size=1, max_size=4), st.data())
def test_what_is_written_is_read_back(tmp_path_factory, texts, data):
    answers = {name: st.sampled_from(["", *accepted]) for name, accepted in ANSWERS.items()}
    rows = [
        SheetRow(f"q{i}", a, b, c, d, note=e, reviewer="Zoë", **data.draw(st.fixed_dictionaries(answers)))
        for i, (a, b, c, d, e) in enumerate(texts)
    ]
    path = tmp_path_factory.mktemp("sheet") / "s.csv"
    write_sheet(path, rows)
    assert read_sheet(path) == rows


def test_a_spreadsheet_finds_no_formula_in_the_texts(tmp_path):
    given = ['=HYPERLINK("http://x")', "+1", "-1", "@cmd", "\t=1", "'=1", "''+1", "'quoted'", "plain", "\n=1"]
    given += ["＝1", "＋1", "－1", "＠cmd"]
    rows = [row(str(i), note=text) for i, text in enumerate(given)]
    write_sheet(tmp_path / "s.csv", rows)
    with open(tmp_path / "s.csv", encoding="utf-8-sig", newline="") as file:
        cells = [cell for line in csv.reader(file) for cell in line]
    assert not [cell for cell in cells if cell.startswith(tuple("=+-@\t\r\n＝＋－＠"))]
    assert [r.note for r in read_sheet(tmp_path / "s.csv")] == given


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_sheet_that_a_spreadsheet_saved_again_is_read(tmp_path, separator, quoting, end):
    rows = [row("a", note='one; "two", three;\n\nfour\tfive'), row("b", **FINE)]
    emptied = [""] * len(SheetRow._fields)
    with open(tmp_path / "s.csv", "w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=separator, quoting=quoting, lineterminator=end)
        writer.writerows([SheetRow._fields, *rows, emptied, []])
    assert read_sheet(tmp_path / "s.csv") == rows


def test_what_people_type_is_understood(tmp_path):
    path = tmp_path / "s.csv"
    write_sheet(path, [row()])
    typed = path.read_text("utf-8-sig").replace('"","","","","","",""', "yes,Yes, NO ,yes,Minor,- unclear,Bo")
    path.write_text(typed, encoding="utf-8", newline="\r\n")
    answers = {**FINE, "perspectives_ok": "no", "severity": "minor"}
    assert read_sheet(path) == [row(**answers, note="- unclear", reviewer="Bo")]


def test_errors_are_counted_by_data_set():
    rows = [
        row("1", "ponds", **FINE),
        row("2", "ponds", **{**FINE, "question_ok": "no", "severity": "minor"}),
        row("3", "ponds", **{**FINE, "contradict": "no", "perspectives_ok": "no", "severity": "major"}),
        row("4", "ponds", question_ok="no"),
        row("5", "roofs", **{**FINE, "question_ok": "no"}),
        row("6", "roofs", **{**FINE, "severity": "major"}),
        row("8", "barns", **{**FINE, "belongs": "no", "severity": "major"}),
        row("7", "sheds"),
    ]
    table = summary(rows).set_index("data_set")
    parts = [f"not_{name}" for name in FINE if name != "severity"]
    counts = ["drawn", "finished", "errors", "minor", "major", *parts, "at_odds"]
    assert table.loc["ponds", counts].tolist() == [4, 3, 2, 1, 1, 0, 1, 1, 1, 0]
    assert table.loc["roofs", counts].tolist() == [2, 2, 2, 0, 1, 0, 1, 0, 0, 2]
    assert table.loc["sheds", counts].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    assert table.loc["barns", counts].tolist() == [1, 1, 1, 0, 1, 1, 0, 0, 0, 0]
    assert table.loc["all", counts].tolist() == [8, 6, 5, 1, 3, 1, 2, 1, 1, 2]
    assert table.loc["sheds", ["percent", "low", "high"]].isna().all()


def test_the_published_counts_and_their_exact_intervals():
    """BeRDS Table 19: 1, 1 and 0 errors in 20 items each. The bounds solve the binomial tails by hand."""
    bad = {**FINE, "question_ok": "no", "severity": "minor"}
    errors = {"arguana": 1, "kialo": 1, "opinionqa": 0}
    rows = [row(f"{name}{i}", name, **(bad if i < n else FINE)) for name, n in errors.items() for i in range(20)]
    table = summary(rows).set_index("data_set")
    assert table["errors"].to_dict() == {**errors, "all": 2}
    low, high = table.loc["arguana", ["low", "high"]] / 100
    assert 1 - (1 - low) ** 20 == pytest.approx(0.025)
    assert (1 - high) ** 20 + 20 * high * (1 - high) ** 19 == pytest.approx(0.025)
    assert table.loc["opinionqa", ["low", "high"]].tolist() == pytest.approx([0, 100 * (1 - 0.025**0.05)])


def compared(column, first, second):
    sheets = [
        [SheetRow(str(i), "ponds", "", "Q?", "A\nB", **{column: answer}) for i, answer in enumerate(answers)]
        for answers in (first, second)
    ]
    return reviewer_agreement(*sheets).set_index("column").loc[column]


def test_kappa_and_the_interval_of_a_worked_example():
    """50 proposals, 20 accepted and 15 refused by both, 5 and 10 by one: 0.7 observed, 0.5 by chance, so 0.4."""
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    found = compared("question_ok", first, second)
    assert found["n"] == 50 and found["percent"] == pytest.approx(70) and found["kappa"] == pytest.approx(0.4)
    assert found[["low", "high"]].tolist() == pytest.approx([55.39, 82.14], abs=0.01)  # of 35 in 50, from a table


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from(ANSWERS["severity"])] * 2), min_size=2, max_size=12))
def test_the_kappa_of_an_order_is_that_of_another_library(both):
    found = compared("severity", *zip(*both, strict=True))
    if len({answer for pair in both for answer in pair}) == 1:
        assert found["kappa"] != found["kappa"]  # chance cannot be told from agreement
        return
    order = ANSWERS["severity"]
    said = [(who, item, order.index(pair[who])) for item, pair in enumerate(both) for who in (0, 1)]
    task = AnnotationTask(said, distance=lambda one, other: (one - other) ** 2 / 4)
    assert found["kappa"] == pytest.approx(task.weighted_kappa_pairwise(0, 1, max_distance=1.0))


def test_without_an_item_that_both_answered_there_is_no_agreement():
    found = compared("contradict", ["yes", ""], ["", "no"])
    assert found["n"] == 0 and found[["percent", "low", "high", "kappa"]].isna().all()


@pytest.fixture
def path(tmp_path):
    rows = [SheetRow(str(i), "ponds", f"Source {i}.", f"Question {i}?", "A.\nB.") for i in range(3)]
    write_sheet(tmp_path / "s.csv", rows)
    return tmp_path / "s.csv"


def choose(form, **answers):
    for name, value in answers.items():
        form._fields[name].value = value


def press(form, where):
    form._moves[where].click()


def text_of(widget):
    return re.sub(r"<[^>]+>", "", widget.value)


def test_every_click_is_in_the_file_at_once(path):
    form = ReviewForm(path, "Zoë")
    for name, value in FINE.items():
        choose(form, **{name: value})
        row = read_sheet(path)[0]
        assert getattr(row, name) == value and row.reviewer == "Zoë"
    form._fields["note"].value = "fine, =really"
    assert read_sheet(path)[0] == SheetRow(
        "0", "ponds", "Source 0.", "Question 0?", "A.\nB.", **FINE, note="fine, =really", reviewer="Zoë"
    )
    assert not any(row.note or row.reviewer or any(row.answers.values()) for row in read_sheet(path)[1:])
    assert text_of(form._status) == "Saved to s.csv"


def test_work_is_resumed_at_the_first_unfinished_item(path):
    form = ReviewForm(path, "Zoë")
    choose(form, **FINE)
    again = ReviewForm(path, "Zoë")
    assert text_of(again._head).startswith("2 of 3")
    assert "1 finished" in text_of(again._head)
    for _ in range(2):
        choose(again, **FINE)
        press(again, 1)
    assert "3 finished" in text_of(again._head)
    assert text_of(ReviewForm(path, "Zoë")._head).startswith("3 of 3")


def test_what_was_filled_in_elsewhere_stays(path):
    form = ReviewForm(path, "Zoë")
    choose(form, question_ok="yes")
    rows = read_sheet(path)
    write_sheet(path, [rows[2]._replace(note="from a spreadsheet"), rows[0], rows[1]])
    choose(form, contradict="no")
    assert [row.note for row in read_sheet(path)] == ["from a spreadsheet", "", ""]
    assert read_sheet(path)[1].contradict == "no" and text_of(form._head).startswith("2 of 3")


def test_a_file_that_cannot_be_used_any_more_is_said_and_not_overwritten(path):
    form = ReviewForm(path, "Zoë")
    choose(form, question_ok="yes")
    kept = path.read_text(encoding="utf-8")
    path.write_text(kept.replace('"yes"', '"perhaps"'), encoding="utf-8")
    choose(form, contradict="yes")
    assert "Not saved" in text_of(form._status) and "perhaps" in text_of(form._status)
    press(form, 1)
    assert "perhaps" in text_of(form._status) and '"perhaps"' in path.read_text(encoding="utf-8")
    write_sheet(path, [SheetRow("x", "ponds", "", "Another?", "A.\nB.")])
    choose(form, contradict="no")
    assert "no longer holds the item" in text_of(form._status)


def test_texts_of_others_are_no_markup(tmp_path):
    evil = "<img src=x onerror=alert(1)>&amp;"
    write_sheet(tmp_path / "s.csv", [SheetRow(evil, evil, evil, evil, evil, note=evil)])
    form = ReviewForm(tmp_path / "s.csv", "Zoë")
    for widget in (form._head, form._item, form._status):
        assert "<img" not in widget.value
    assert form._item.value.count("&lt;img src=x onerror=alert(1)&gt;&amp;amp;") == 3


def test_a_sheet_has_one_reviewer(path):
    choose(ReviewForm(path, "Zoë"), question_ok="yes")
    for reviewer in ("Bo", "  "):
        with pytest.raises(InputError) as refused:
            ReviewForm(path, reviewer)
        assert refused.value.field == "reviewer"
