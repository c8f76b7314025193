"""A collection's folder: written, read back, loaded by its path, and refused with a reason."""

import json

import pandas as pd
import pytest

import berdslib as bd
from berdslib.construction.review import read_sources
from berdslib.data import saved
from berdslib.data.datasets import card, load_gold, load_passages, load_questions
from berdslib.data.records import GRADE, OPPOSE, SUPPORT, Passage, Question, make_verdicts
from berdslib.data.saved import read_card, write_collection
from berdslib.errors import InputError

ZOO = Question("zoo", "Should zoos close?", ("They should.", "They should not."), (SUPPORT, OPPOSE), "mine", "dev")
TEA = Question("tea", "Which tea?", ("Green.", "Black.", "Mint."), (None,) * 3, "mine", "test")
CORPUS = [Passage("a", "Zoos are cruel.", "Zoos"), Passage("b", "Green tea is good.")]
GOLD = make_verdicts([("zoo", 0, "a", 1.0, True), ("tea", 0, "b", 0.9, True), ("tea", 2, "b", 0.0, False)], "hand")
EXPANSIONS = {"zoo": [("a visitor", "Zoos teach us."), ("an animal", "Let me out.")]}
MINE = bd.Collection("mine", [ZOO, TEA], CORPUS, GOLD, EXPANSIONS)
ABOUT = {"title": "Zoos and tea", "licence": "CC-BY-4.0", "source": "written by hand"}


pytestmark = pytest.mark.usefixtures("own_place")


@pytest.fixture
def folder(tmp_path):
    bd.save(MINE, tmp_path / "set", ABOUT)
    return tmp_path / "set"


def same(found, given):
    """Whether two collections hold the same."""
    pd.testing.assert_frame_equal(found.gold, given.gold)
    assert (found.name, found.questions, list(found.passages)) == (given.name, given.questions, list(given.passages))
    assert dict(found.expansions) == dict(given.expansions)
    return True


def test_what_is_saved_is_loaded(folder):
    assert same(bd.load(folder, split="all"), MINE)
    assert bd.load(str(folder)).questions == (ZOO,)  # "dev", as with every data set that has splits
    assert bd.load(folder, split="test").questions == (TEA,) and bd.load(folder, split="test").expansions == {}
    assert load_questions(folder) == [ZOO] and len(load_gold(folder)) == 3
    assert [passage.docno for passage in load_passages(folder)] == ["a", "b"]
    assert read_card(folder).items() >= ABOUT.items()
    assert all(fact in card(folder) for fact in ABOUT.values())


@pytest.mark.parametrize("name", ["sample", "pir-sample:location"])
def test_systems_find_and_score_the_same_in_a_saved_set(name, tmp_path):
    given = bd.load(name)
    bd.save(given, tmp_path / "set")
    found = bd.load(tmp_path / "set")
    assert same(found, given)
    systems, measures = ["bm25", "bm25+expand:recorded"], ["MRecall@5", "pRecall@5"]
    assert bd.experiment(systems, found, measures).table.equals(bd.experiment(systems, given, measures).table)


def test_grades_and_unreadable_answers_are_kept(tmp_path):
    gold = GOLD.assign(p_yes=GOLD["p_yes"].where(GOLD["supports"]), **{GRADE: [1.0, 0.0, 3.0]})
    given = bd.Collection("graded", [ZOO, TEA], CORPUS, gold)
    bd.save(given, tmp_path / "set")
    assert same(bd.load(tmp_path / "set", split="all"), given)


def test_further_fields_of_a_row_are_those_that_reviewers_read(tmp_path):
    write_collection(tmp_path / "set", MINE, ABOUT, {"zoo": {"sources": ["a", "b"]}})
    assert read_sources(tmp_path / "set" / "questions.jsonl") == {"zoo": ("a", "b")}
    assert same(bd.load(tmp_path / "set", split="all"), MINE)


def test_a_set_without_splits_corpus_or_gold(tmp_path):
    asked = [q._replace(split="") for q in (ZOO, TEA)]
    bd.save(bd.Collection("bare", asked), tmp_path / "bare")
    found = bd.load(tmp_path / "bare")
    assert (found.questions, found.passages, found.gold) == (tuple(asked), (), None)
    assert found.questions == bd.load(tmp_path / "bare", split="all").questions
    with pytest.raises(InputError):
        bd.load(tmp_path / "bare", split="dev")
    assert bd.load(tmp_path / "bare", passages=CORPUS).passages == CORPUS


def test_a_set_with_other_splits_and_labels(tmp_path):
    """Of the first of its splits is what is loaded where none is named; any split can be asked for."""
    test_only = [ZOO._replace(split="test", labels=("yes", "no"))]
    bd.save(bd.Collection("tested", test_only), tmp_path / "tested")
    assert list(bd.load(tmp_path / "tested").questions) == test_only
    bd.save(bd.Collection("trained", [ZOO, TEA, TEA._replace(qid="t", split="train")]), tmp_path / "trained")
    assert bd.load(tmp_path / "trained").questions == (ZOO,)
    assert [q.qid for q in bd.load(tmp_path / "trained", split="train").questions] == ["t"]


def test_a_smaller_collection_takes_the_place_of_a_larger_one(folder):
    bd.save(bd.Collection("less", [ZOO]), folder)
    found = bd.load(folder)
    assert (found.name, found.questions, found.passages, found.gold, found.expansions) == ("less", (ZOO,), (), None, {})
    assert (folder / saved.CORPUS_FILE).exists()  # but nothing is thrown away


def test_a_card_that_cannot_be_written_leaves_the_set_that_is_there(folder):
    with pytest.raises(InputError) as refused:
        bd.save(bd.Collection("other", [ZOO]), folder, {"title": object()})
    assert refused.value.field == "about" and same(bd.load(folder, split="all"), MINE)


def test_a_folder_that_was_not_finished_is_no_data_set(folder):
    (folder / saved.CARD).unlink()
    with pytest.raises(InputError):
        bd.load(folder)


@pytest.mark.parametrize("name", ["questions.jsonl", "corpus.jsonl", "gold.tsv", "expansions.jsonl"])
def test_files_of_something_else_are_not_written_over(tmp_path, name):
    (tmp_path / name).write_text("precious")
    with pytest.raises(InputError) as refused:
        bd.save(MINE, tmp_path)
    assert refused.value.path == tmp_path and (tmp_path / name).read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [name]


@pytest.mark.parametrize(
    "given",
    [
        lambda: bd.Collection("open", [Question("q", "Why?")]),
        lambda: bd.load("perspectivearg-sample:explicit"),
        lambda: "sample",
    ],
)
def test_what_cannot_be_saved_is_refused_before_anything_is_written(tmp_path, given):
    with pytest.raises(InputError):
        bd.save(given(), tmp_path / "set")
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(
    ("field", "content"),
    [(None, []), (None, {"name": "mine"}), (None, {"format": "another", "name": "mine"}), ("name", {"name": 5})],
)
def test_a_card_that_is_none_is_refused(folder, field, content):
    path = folder / saved.CARD
    card = json.loads(path.read_text())
    path.write_text(json.dumps(content if field is None else card | content))
    with pytest.raises(InputError) as refused:
        bd.load(folder)
    assert (refused.value.path, refused.value.field) == (path, field)
