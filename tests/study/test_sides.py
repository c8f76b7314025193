"""Searching from both sides: which lists are made, what is judged, and how the tables read."""

import pandas as pd
import pytest
from click.testing import CliRunner

import berdslib as bd
from berdslib.cli import main
from berdslib.data.records import make_verdicts, ranked_run
from berdslib.data.web import OwnCorpora
from berdslib.study.sides import FIGURE_2, FIGURE_3

PASSAGES = [
    bd.Passage("cruel", "zoos are cruel to animals and must close"),
    bd.Passage("save", "zoos save rare species and must stay open"),
    bd.Passage("tea", "tea is a drink"),
]
CLOSE, STAY = "zoos must close, they are cruel", "zoos must stay, they save species"
ASKED = bd.Question("zoos", "Should zoos close?", (CLOSE, STAY), ("support", "oppose"), "toy")
OTHER = bd.Question("tea", "Which is best?", ("Tea.", "Coffee.", "Milk."), (None, None, None), "toy")
GOLD = make_verdicts([("zoos", 0, "cruel", 1.0, True), ("zoos", 1, "save", 1.0, True)], "gold")
TOY = bd.Collection("toy", [ASKED, OTHER], PASSAGES, GOLD)


class Echo:
    """A retriever that notes what it was asked."""

    name = "echo"

    def __init__(self):
        self.asked = []

    def search(self, questions, k):
        self.asked += [q.text for q in questions]
        return ranked_run({q.qid: ["cruel"] for q in questions})


def test_statements_are_searched_by_themselves_and_full_queries_behind_the_question():
    echo = Echo()
    bd.sides(echo, TOY)
    assert echo.asked == [ASKED.text, *ASKED.perspectives]
    echo = Echo()
    bd.sides(echo, TOY, form="question first")
    assert echo.asked == [ASKED.text, *(f"{ASKED.text} {p}" for p in ASKED.perspectives)]


def test_bm25_follows_the_words_of_the_query():
    found = bd.sides("bm25", TOY, 1)
    rows = found.listed.set_index("asked")
    assert rows.loc["supporting", "docno"] == "cruel" and rows.loc["opposing", "docno"] == "save"
    row = found.sycophancy.iloc[0]
    assert (row["supporting"], row["opposing"], row["follows"]) == (1, -1, 2)
    assert found.flips.iloc[0]["turn"] == 1
    assert list(found.shown) == [FIGURE_2, FIGURE_3]
    assert "2.00 –" in repr(found) and "nan" not in repr(found) and "–:" in found.caption
    assert "1 question with" in found.caption and "gold" in found.caption
    assert "<td>" in found._repr_html_()


def test_a_finished_run_needs_lists_of_perspectives():
    found = bd.sides("bm25", TOY, 2)
    again = bd.sides({"theirs": found.runs["bm25"]}, TOY, 2)
    pd.testing.assert_frame_equal(again.listed.drop(columns="system"), found.listed.drop(columns="system"))
    only = found.runs["bm25"].query("qid == 'zoos'")
    with pytest.raises(bd.InputError, match="'theirs' lists nothing for perspectives, such as 'zoos#0'"):
        bd.sides({"theirs": only}, TOY, 2)


def test_questions_without_a_verdict_are_left_out_and_names_of_judges_are_short():
    again = ASKED._replace(qid="again")
    both = bd.Collection("toy", [ASKED, again], PASSAGES, GOLD)
    found = bd.sides("bm25", both, 2)
    assert [q.qid for q in found.questions] == ["zoos"] and set(found.listed["qid"]) == {"zoos"}
    assert set(found.shares["n"]) == {1} and "1 of 2 questions" in found.caption
    judged = bd.sides("bm25", both, 2, judge="overlap")
    assert (
        len(judged.questions) == 2
        and "overlap" in judged.caption
        and "(" not in judged.caption.split("Verdicts:")[1][:12]
    )
    with pytest.raises(bd.InputError):
        bd.sides("bm25", both.only([again]), 2)


def test_stances_that_nobody_recorded():
    plain = TOY.only([ASKED._replace(stances=(None, None))])
    with pytest.raises(bd.InputError, match="by order"):
        bd.sides("bm25", plain)
    assert bd.sides("bm25", plain, 1, stances="by order").sycophancy.iloc[0]["follows"] == 2
    with pytest.raises(bd.InputError, match="form"):
        bd.sides("bm25", TOY, form="statements")


def test_stances_from_a_file(tmp_path):
    """What is told is as good as what is recorded; who is not told of is left out, and counted."""
    plain = TOY.only([ASKED._replace(stances=(None, None)), OTHER])
    path = tmp_path / "told.csv"
    path.write_text("qid,pid,stance\nzoos,1,oppose\n")
    found, recorded = bd.sides("bm25", plain, 1, stances=path), bd.sides("bm25", TOY, 1)
    pd.testing.assert_frame_equal(found.leaning, recorded.leaning)
    assert "1 question without both sides" in found.caption
    path.write_text("qid,pid,stance\nzoos,1,support\n")
    turned = bd.sides("bm25", plain, 1, stances=str(path)).sycophancy.iloc[0]
    assert (turned["supporting"], turned["question"], turned["opposing"]) == (1, -1, -1)
    with pytest.raises(bd.InputError, match="by_order"):
        bd.sides("bm25", plain, stances="by_order.csv")


def test_each_question_and_its_statements_are_searched_in_its_own_corpus():
    trams = bd.Question("trams", "Should trams go?", ("trams must go", "trams must stay"), ("oppose", "support"), "toy")
    theirs = [bd.Passage("noise", "trams make noise and must go"), bd.Passage("clean", "trams are clean and must stay")]
    gold = make_verdicts([("trams", 0, "noise", 1.0, True), ("trams", 1, "clean", 1.0, True)], "gold")
    own = OwnCorpora({"zoos": PASSAGES, "trams": theirs})
    both = bd.sides("bm25", bd.Collection("toy", [ASKED, trams], own, pd.concat([GOLD, gold])), 2)
    alone = [bd.sides("bm25", TOY, 2), bd.sides("bm25", bd.Collection("toy", [trams], theirs, gold), 2)]
    columns = ["qid", "asked", "rank", "docno", "supporting", "opposing"]
    want = pd.concat([one.listed for one in alone]).sort_values(columns[:3], ignore_index=True)
    found = both.listed.sort_values(columns[:3], ignore_index=True)
    pd.testing.assert_frame_equal(found[columns], want[columns])
    assert set(found["docno"]) == {"cruel", "save", "noise", "clean"}


@pytest.mark.slow
def test_the_command_prints_both_tables_and_writes_both_figures(tmp_path):
    out = CliRunner().invoke(main, ["sides", "-q", "sample", "--limit", "2", "-r", "bm25", "-o", str(tmp_path)])
    assert out.exit_code == 0 and FIGURE_2 in out.stdout and FIGURE_3 in out.stdout
    names = {path.name for path in tmp_path.iterdir()}
    assert {"shares.csv", "sycophancy.csv", "figure_2_sides.png", "figure_3_sycophancy.pdf"} <= names
    out = CliRunner().invoke(main, ["sides", "-q", "sample", "--limit", "2", "-r", "bm25", "--json"])
    assert out.exit_code == 0 and '"flips"' in out.stdout
