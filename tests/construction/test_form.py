"""The review form, clicked through without a browser: what a click writes, and where it goes."""

import re

import pytest

from berdslib.construction.form import ReviewForm
from berdslib.construction.review import SheetRow, read_sheet, write_sheet
from berdslib.errors import InputError

FINE = {"belongs": "yes", "question_ok": "yes", "perspectives_ok": "yes", "contradict": "yes", "severity": "none"}


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
    assert not any(row.is_begun or row.reviewer for row in read_sheet(path)[1:])
    assert text_of(form._status) == "Saved to s.csv"


def test_the_buttons_move_and_stop_at_the_ends(path):
    form = ReviewForm(path, "Zoë")
    assert text_of(form._head) == "1 of 3 · ponds · 0" and form._moves["previous"].disabled
    for where, place in (("next", 2), ("next", 3), ("next", 3), ("previous", 2), ("unfinished", 1)):
        press(form, where)
        assert text_of(form._head) == f"{place} of 3 · ponds · {place - 1}"
        assert form._moves["next"].disabled is (place == 3) and f"Question {place - 1}?" in form._item.value


def test_work_is_resumed_at_the_first_unfinished_item(path):
    form = ReviewForm(path, "Zoë")
    choose(form, **FINE)
    again = ReviewForm(path, "Zoë")
    assert text_of(again._head).startswith("2 of 3")
    assert (again._bar.value, again._bar.max, text_of(again._done)) == (1, 3, "1 of 3 finished")
    for _ in range(2):
        choose(again, **FINE)
        press(again, "next")
    assert text_of(again._done) == "3 of 3 finished"
    assert text_of(ReviewForm(path, "Zoë")._head).startswith("3 of 3")


def test_answers_can_be_taken_back(path):
    form = ReviewForm(path, "Zoë")
    before = read_sheet(path)
    choose(form, **FINE)
    form._fields["note"].value = "hm"
    form._clear.click()
    assert read_sheet(path) == before and form._fields["note"].value == ""
    form._fields["note"].value = "hm"
    form._fields["note"].value = ""
    assert read_sheet(path) == before


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
    press(form, "next")
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
    with pytest.raises(InputError, match=r"s\.csv \[reviewer\]: 'Zoë' has begun this sheet; 'Bo' needs a copy"):
        ReviewForm(path, "Bo")
    with pytest.raises(InputError, match="a name is needed"):
        ReviewForm(path, "  ")
