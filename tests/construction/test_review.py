"""The sheet for reading items by hand: drawing, the file, and the errors that it counts."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berdslib.construction.review import (
    ANSWERS,
    LONGEST_SOURCE,
    SheetRow,
    draw_sheet,
    read_sheet,
    read_sources,
    summary,
    write_sheet,
)
from berdslib.data.records import Question
from berdslib.errors import InputError

FINE = {"belongs": "yes", "question_ok": "yes", "perspectives_ok": "yes", "contradict": "yes", "severity": "none"}


def questions(n=30, sources=("ponds", "roofs")):
    return [
        Question(
            f"{source}-{i}", f"Should {source} number {i} stay?", (f"{source} {i} yes", f"{source} {i} no"), (), source
        )
        for source in sources
        for i in range(n)
    ]


def row(qid="a", data_set="ponds", **given):
    return SheetRow(qid, data_set, "One source.\nAnother.", "Keep the pond?", "Keep it.\nFill it in.", **given)


# ---------------------------------------------------------------- drawing


def test_so_many_are_drawn_from_each_data_set_and_keep_their_texts():
    drawn = draw_sheet(questions(), {"ponds-3": ["ignored or not"]}, n=7, seed=1)
    assert [r.data_set for r in drawn] == ["ponds"] * 7 + ["roofs"] * 7
    by_qid = {q.qid: q for q in questions()}
    for r in drawn:
        assert r.question == by_qid[r.qid].text and tuple(r.perspectives.splitlines()) == by_qid[r.qid].perspectives
        assert not r.is_begun and not r.reviewer
    assert len({r.qid for r in drawn}) == 14


def test_a_draw_depends_on_the_seed_only():
    asked = questions()
    again = draw_sheet(asked[::-1], {}, n=5, seed=3)
    assert draw_sheet(asked, {}, n=5, seed=3) == again != draw_sheet(asked, {}, n=5, seed=4)
    alone = draw_sheet(asked[:30], {}, n=5, seed=3)
    assert alone == again[:5]


def test_sources_are_shortened_and_come_one_a_line():
    texts = ["First\n\nargument   here.", "word " * 1000]
    first, second = draw_sheet(questions(1, ["ponds"]), {"ponds-0": texts}, n=1)[0].sources.split("\n")
    assert first == "First argument here."
    assert second.startswith("word word") and second.endswith(" […]") and len(second) <= LONGEST_SOURCE


def test_a_smaller_data_set_is_drawn_whole_and_named(caplog):
    asked = [*questions(30, ["ponds"]), *questions(3, ["roofs"])]
    drawn = draw_sheet(asked, {}, n=5, seed=3)
    assert [r.qid for r in drawn[5:]] == ["roofs-0", "roofs-1", "roofs-2"]
    assert drawn[:5] == draw_sheet(asked[:30], {}, n=5, seed=3)
    assert caplog.messages == ["fewer than 5 questions, all of which are drawn: roofs has 3"]


def test_what_cannot_be_drawn():
    with pytest.raises(InputError, match="0 cannot be drawn"):
        draw_sheet(questions(), {}, n=0)
    with pytest.raises(InputError, match="has no perspectives"):
        draw_sheet([Question("a", "Why?")], {}, n=1)


def test_the_stance_stands_behind_each_perspective():
    """Else nobody could find two labels that were swapped."""
    asked = [
        Question("a", "Close zoos?", ("Close  them.", "Keep them."), ("oppose", "support"), "zoos"),
        Question("b", "Which?", ("Cats.", "Dogs."), (None, None), "zoos"),
    ]
    found = {r.qid: r.perspectives for r in draw_sheet(asked, {}, n=2)}
    assert found == {"a": "Close them. (oppose)\nKeep them. (support)", "b": "Cats.\nDogs."}


def test_sources_are_read_from_a_file_of_questions(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text('{"qid": "a", "sources": ["One.", "Two."]}\n{"id": "b"}\n{"key": 7, "sources": []}\n')
    assert read_sources(path) == {"a": ["One.", "Two."], "7": []}
    path.write_text('{"qid": "a", "sources": "One."}\n')
    with pytest.raises(InputError, match=r"questions\.jsonl:1 \[sources\]: a list of texts was expected"):
        read_sources(path)


# ---------------------------------------------------------------- the file

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


def test_what_cannot_be_read_is_not_written(tmp_path):
    write_sheet(tmp_path / "s.csv", [row(note="a\x00b\x1b[31m\r\nc\rd\ud800\x85")])
    assert read_sheet(tmp_path / "s.csv") == [row(note="ab[31m\ncd")]
    write_sheet(tmp_path / "s.csv", [row(note="\r=1")])
    assert read_sheet(tmp_path / "s.csv")[0].note == "=1"


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_sheet_that_a_spreadsheet_saved_again_is_read(tmp_path, separator, quoting, end):
    rows = [row("a", note='one; "two", three;\n\nfour\tfive'), row("b", **FINE)]
    cells = [["", *one, "", ""] for one in (SheetRow._fields, [""] * len(SheetRow._fields), *rows, [" "] * 4)]
    with open(tmp_path / "s.csv", "w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=separator, quoting=quoting, lineterminator=end).writerows([[], *cells, []])
    assert read_sheet(tmp_path / "s.csv") == rows


def test_what_people_type_is_understood(tmp_path):
    write_sheet(tmp_path / "s.csv", [row()])
    text = (
        (tmp_path / "s.csv")
        .read_text("utf-8-sig")
        .replace('"","","","","","",""', "yes,Yes, NO ,yes,Minor,- unclear,Bo")
    )
    (tmp_path / "s.csv").write_text(text.replace("\n", "\r\n"), encoding="utf-8", newline="")
    found = read_sheet(tmp_path / "s.csv")[0]
    answers = {**FINE, "perspectives_ok": "no", "severity": "minor"}
    assert found == row(**answers, note="- unclear", reviewer="Bo")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"none"', '"small"', r"s\.csv:5 \[severity\]: 'small' is no answer; accepted: none, minor, major, or nothing"),
        ('"a"', '""', r"s\.csv:2 \[qid\]: is blank"),
        ('"b"', '"a"', r"s\.csv:5 \[qid\]: 'a' is also in line 2"),
        ('"severity"', '"gravity"', r"s\.csv:1 \[severity\]: missing; a sheet has qid, data_set, sources"),
        ('"reviewer"', '"reviewer","note"', r"s\.csv:1 \[note\]: is there twice"),
        ('"none"', '"none', r"s\.csv:5: not a readable table"),
        ('"yes","none","",""', '"yes","none"', r"s\.csv:5: 10 columns where the header has 12"),
        ('"none","",""', '"none","","","so"', r"s\.csv:5: 'so' is in a column without a name, and would be lost"),
    ],
)
def test_errors_name_the_line_and_the_column(tmp_path, old, new, message):
    write_sheet(tmp_path / "s.csv", [row("a"), row("b", **FINE)])
    text = (tmp_path / "s.csv").read_text(encoding="utf-8")
    (tmp_path / "s.csv").write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_sheet(tmp_path / "s.csv")


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"a sheet is written as \.csv"):
        write_sheet(tmp_path / "s.tsv", [row()])
    with pytest.raises(InputError, match=r"a sheet is a \.csv file"):
        read_sheet(tmp_path / "s.tsv")
    header = ",".join(SheetRow._fields)
    for text in (header + "\n", "", "\n"):
        (tmp_path / "s.csv").write_text(text)
        with pytest.raises(InputError, match="holds no items"):
            read_sheet(tmp_path / "s.csv")
    (tmp_path / "s.csv").write_text(f"{header},mood\n{',' * 12}\n")
    with pytest.raises(InputError, match=r"s\.csv:1 \[mood\]: is no column of a sheet, and would be lost"):
        read_sheet(tmp_path / "s.csv")
    (tmp_path / "s.csv").write_bytes(header.encode("utf-16"))
    with pytest.raises(InputError, match=r"s\.csv:1: is not UTF-8 text"):
        read_sheet(tmp_path / "s.csv")


# ---------------------------------------------------------------- what it says


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
    counts = [
        "drawn",
        "finished",
        "errors",
        "minor",
        "major",
        "not_belongs",
        "not_question_ok",
        "not_perspectives_ok",
        "not_contradict",
        "at_odds",
    ]
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
    assert table.loc["opinionqa", "low"] == 0 and table.loc["opinionqa", "high"] == pytest.approx(
        100 * (1 - 0.025**0.05)
    )
