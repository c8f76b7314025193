"""The review form, clicked through without a browser: what a click writes, and where it goes."""

import re

import pytest

from berdslib.construction.form import ReviewForm
from berdslib.construction.review import SheetRow, draw_sheet, read_sheet, write_sheet
from berdslib.data.records import Question
from berdslib.errors import InputError

FINE = {"belongs": "yes", "question_ok": "yes", "perspectives_ok": "yes", "contradict": "yes", "severity": "none"}


@pytest.fixture
def path(tmp_path):
    rows = [SheetRow(str(i), "ponds", f"Source {i}.", f"Question {i}?", "A.\nB.") for i in range(3)]
    write_sheet(tmp_path / "s.csv", rows)
    return tmp_path / "s.csv"


def parts(form):
    assert form.widget  # is made when it is first shown
    return form


def choose(form, **answers):
    for name, value in answers.items():
        parts(form)._fields[name].value = value


def press(form, where):
    parts(form)._moves[where].click()


def text_of(widget):
    return re.sub(r"<[^>]+>", "", widget.value)


def test_every_click_is_in_the_file_at_once(path):
    form = ReviewForm(path, "Zoë")
    for name, value in FINE.items():
        choose(form, **{name: value})
        row = read_sheet(path)[0]
        assert getattr(row, name) == value and row.reviewer == "Zoë"
    parts(form)._fields["note"].value = "fine, =really"
    assert read_sheet(path)[0] == SheetRow(
        "0", "ponds", "Source 0.", "Question 0?", "A.\nB.", **FINE, note="fine, =really", reviewer="Zoë"
    )
    assert not any(row.is_begun or row.reviewer for row in read_sheet(path)[1:])
    assert text_of(parts(form)._status) == "Saved to s.csv"


def test_the_buttons_move_and_stop_at_the_ends(path):
    form = ReviewForm(path, "Zoë")
    head = lambda: text_of(parts(form)._head)  # noqa: E731
    assert head() == "1 of 3 · ponds · 0" and parts(form)._moves["previous"].disabled
    press(form, "next")
    press(form, "next")
    assert head() == "3 of 3 · ponds · 2" and parts(form)._moves["next"].disabled
    press(form, "next")
    assert head().startswith("3 of 3")
    press(form, "previous")
    assert head().startswith("2 of 3") and "Question 1?" in parts(form)._item.value
    press(form, "unfinished")
    assert head().startswith("1 of 3")


def test_work_is_resumed_at_the_first_unfinished_item(path):
    form = ReviewForm(path, "Zoë")
    choose(form, **FINE)
    again = ReviewForm(path, "Zoë")
    assert text_of(parts(again)._head).startswith("2 of 3")
    assert (
        parts(again)._bar.value == 1 and parts(again)._bar.max == 3 and text_of(parts(again)._done) == "1 of 3 finished"
    )
    for _ in range(2):
        choose(again, **FINE)
        press(again, "next")
    assert text_of(parts(again)._done) == "3 of 3 finished"
    assert text_of(parts(ReviewForm(path, "Zoë"))._head).startswith("3 of 3")


def test_answers_can_be_taken_back(path):
    form = ReviewForm(path, "Zoë")
    before = read_sheet(path)
    choose(form, **FINE)
    parts(form)._fields["note"].value = "hm"
    parts(form)._clear.click()
    assert read_sheet(path) == before and parts(form)._fields["note"].value == ""
    parts(form)._fields["note"].value = "hm"
    parts(form)._fields["note"].value = ""
    assert read_sheet(path) == before


def test_what_was_filled_in_elsewhere_stays(path):
    form = ReviewForm(path, "Zoë")
    choose(form, question_ok="yes")
    rows = read_sheet(path)
    write_sheet(path, [rows[2]._replace(note="from a spreadsheet"), rows[0], rows[1]])
    choose(form, contradict="no")
    assert [row.note for row in read_sheet(path)] == ["from a spreadsheet", "", ""]
    assert read_sheet(path)[1].contradict == "no" and text_of(parts(form)._head).startswith("2 of 3")


def test_a_file_that_cannot_be_used_any_more_is_said_and_not_overwritten(path):
    form = ReviewForm(path, "Zoë")
    choose(form, question_ok="yes")
    kept = path.read_text(encoding="utf-8")
    path.write_text(kept.replace('"yes"', '"perhaps"'), encoding="utf-8")
    choose(form, contradict="yes")
    assert "Not saved" in text_of(parts(form)._status) and "perhaps" in text_of(parts(form)._status)
    press(form, "next")
    assert "perhaps" in text_of(parts(form)._status) and '"perhaps"' in path.read_text(encoding="utf-8")
    write_sheet(path, [SheetRow("x", "ponds", "", "Another?", "A.\nB.")])
    choose(form, contradict="no")
    assert "no longer holds the item" in text_of(parts(form)._status)


def test_texts_of_others_are_no_markup(tmp_path):
    evil = "<img src=x onerror=alert(1)>&amp;"
    write_sheet(tmp_path / "s.csv", [SheetRow(evil, evil, evil, evil, evil, note=evil)])
    form = ReviewForm(tmp_path / "s.csv", "Zoë")
    for widget in (parts(form)._head, parts(form)._item, parts(form)._status):
        assert "<img" not in widget.value
    assert parts(form)._item.value.count("&lt;img src=x onerror=alert(1)&gt;&amp;amp;") == 3


def test_a_sheet_has_one_reviewer(path):
    choose(ReviewForm(path, "Zoë"), question_ok="yes")
    with pytest.raises(InputError, match=r"s\.csv \[reviewer\]: 'Zoë' has begun this sheet; 'Bo' needs a copy"):
        ReviewForm(path, "Bo")
    with pytest.raises(InputError, match="a name is needed"):
        ReviewForm(path, "  ")


def test_the_stances_are_shown_and_whether_it_belongs_is_asked(tmp_path):
    asked = [Question("a", "Close zoos?", ("Close them.", "Keep them."), ("oppose", "support"), "zoos")]
    write_sheet(tmp_path / "s.csv", draw_sheet(asked, {}))
    form = ReviewForm(tmp_path / "s.csv", "Zoë")
    assert "Close them. (oppose)" in text_of(parts(form)._item) and "Keep them. (support)" in text_of(parts(form)._item)
    choose(form, **{**FINE, "belongs": "no", "severity": "major"})
    assert form.summary()[["errors", "not_belongs", "at_odds"]].values.tolist() == [[1, 1, 0]]
