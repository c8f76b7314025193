"""A data set's folder: written, read back, loaded by path and by name, checked, and refused with a reason."""

import json
import shutil

import pandas as pd
import pytest

import berdslib as bd
from berdslib.construction.review import read_sources
from berdslib.data import own
from berdslib.data.catalogue import DATASETS, added_folders, added_list
from berdslib.data.datasets import card, load_gold, load_passages, load_questions, names
from berdslib.data.own import OwnCard, add, read_card, validate, write_dataset
from berdslib.data.records import OPPOSE, SUPPORT, Passage, Question, make_verdicts
from berdslib.errors import InputError, MissingDataError

ZOO = Question("zoo", "Should zoos close?", ("They should.", "They should not."), (SUPPORT, OPPOSE), "mine", "dev")
TEA = Question("tea", "Which tea?", ("Green.", "Black.", "Mint."), (None,) * 3, "mine", "test")
CORPUS = [Passage("a", "Zoos are cruel.", "Zoos"), Passage("b", "Green tea is good.")]
GOLD = make_verdicts([("zoo", 0, "a", 1.0, True), ("tea", 0, "b", 0.9, True), ("tea", 2, "b", 0.0, False)], "hand")
CARD = OwnCard("mine", "Zoos and tea", "CC-BY-4.0", "written by hand", made={"builder": "questions"})


pytestmark = pytest.mark.usefixtures("own_place")


@pytest.fixture
def folder(tmp_path):
    write_dataset(tmp_path / "set", CARD, [ZOO, TEA], CORPUS, GOLD, {"zoo": {"sources": ["a", "b"]}})
    return tmp_path / "set"


def test_what_is_written_is_read_back(folder):
    found = bd.load(folder, split="all")
    assert found.name == "mine"
    assert list(found.questions) == [ZOO, TEA]
    assert list(found.passages) == CORPUS
    pd.testing.assert_frame_equal(found.gold, GOLD)
    assert bd.load(str(folder)).questions == (ZOO,)  # "dev", as with every data set that has splits
    assert bd.load(folder, split="test").questions == (TEA,)
    assert read_card(folder) == CARD and validate(folder) == []
    assert read_sources(folder / "questions.jsonl") == {"zoo": ("a", "b")}


def test_a_set_without_splits_corpus_or_gold(tmp_path):
    asked = [q._replace(split="") for q in (ZOO, TEA)]
    write_dataset(tmp_path / "bare", CARD, asked)
    found = bd.load(tmp_path / "bare")
    assert (found.questions, found.passages, found.gold) == (tuple(asked), (), None)
    assert found.questions == bd.load(tmp_path / "bare", split="all").questions
    with pytest.raises(InputError, match="not split"):
        bd.load(tmp_path / "bare", split="dev")
    assert bd.load(tmp_path / "bare", passages=CORPUS).passages == CORPUS


def test_a_set_with_other_splits_and_labels(tmp_path):
    """Of the first of its splits is what is loaded where none is named; any split can be asked for."""
    test_only = [ZOO._replace(split="test", labels=("yes", "no"))]
    write_dataset(tmp_path / "tested", CARD, test_only)
    assert list(bd.load(tmp_path / "tested").questions) == test_only
    write_dataset(tmp_path / "trained", CARD, [ZOO, TEA, TEA._replace(qid="t", split="train")])
    assert bd.load(tmp_path / "trained").questions == (ZOO,)
    assert [q.qid for q in bd.load(tmp_path / "trained", split="train").questions] == ["t"]
    with pytest.raises(InputError, match=r"\[stances\]: question 'zoo' has 2 perspectives and 1 stances"):
        write_dataset(tmp_path / "wrong", CARD, [ZOO._replace(stances=(SUPPORT,))])


def test_by_name_here_and_in_a_later_process(folder, monkeypatch, tmp_path):
    with pytest.raises(InputError, match="unknown data set"):
        bd.load("mine")
    add(folder)
    monkeypatch.chdir("/")
    assert bd.load("mine", split="all").questions == (ZOO, TEA)
    assert "mine" in names() and "Zoos and tea" in card("mine") and str(folder) in card("mine")
    assert load_questions("mine") == [ZOO]
    assert [p.docno for p in load_passages("mine")] == ["a", "b"]
    assert len(load_gold("mine")) == 3
    monkeypatch.setattr(DATASETS, "_things", {k: v for k, v in DATASETS._things.items() if k != "mine"})
    assert bd.load("mine", split="test").questions == (TEA,) and names()[-1] == "mine"  # as in a later process


def test_a_name_that_is_taken(folder, tmp_path):
    write_dataset(tmp_path / "other", OwnCard("kialo", "Not Kialo", "CC0-1.0"), [ZOO])
    with pytest.raises(InputError, match=r"dataset\.json.*built in"):
        add(tmp_path / "other")
    assert not added_folders()
    assert bd.load(tmp_path / "other").questions == (ZOO._replace(source="kialo"),)  # by its path it loads all the same


def test_a_folder_that_was_moved_says_so_when_it_is_loaded(folder, tmp_path):
    add(folder)
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(MissingDataError, match=r"was added from .*set, which cannot be used.*berds data add"):
        bd.load("mine")
    assert "cannot be read" in card("mine")


def test_a_folder_that_was_not_finished_is_no_data_set(folder, tmp_path):
    (folder / own.CARD).unlink()
    assert not own.is_own(folder)
    with pytest.raises(InputError):
        bd.load(folder)
    with pytest.raises(InputError, match="no perspectives"):
        write_dataset(tmp_path / "new", CARD, [ZOO._replace(perspectives=(), stances=())])
    assert not (tmp_path / "new" / own.CARD).exists()


def changed(folder, name, text):
    path = folder / name
    path.write_text(text(path.read_text()))


@pytest.mark.parametrize(
    ("name", "change", "grave", "problem"),
    [
        ("questions.jsonl", lambda t: t.splitlines()[0] + "\n", True, "the card says 2 questions, and there are 1"),
        ("questions.jsonl", lambda t: t.replace('"dev"', '"test"'), True, "the card says the splits dev, test"),
        ("questions.jsonl", lambda t: t.replace(', "Black.", "Mint."', "").replace("[null, null, null]", "[null]"),
         True, "about perspectives that are not there, such as 'tea'"),
        ("dataset.json", lambda t: t.replace("CC-BY-4.0", "none stated"), False, "no licence is stated"),
        ("dataset.json", lambda t: t.replace("written by hand", ""), False, "where the texts come from"),
        ("corpus.jsonl", lambda t: t.splitlines()[0] + "\n", True, "about passages that are not there, such as 'b'"),
        ("gold.tsv", lambda t: t.replace("zoo\t", "cat\t"), True, "about questions that are not there, such as 'cat'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_set(folder, name, change, grave, problem):
    changed(folder, name, change)
    assert [one for one in validate(folder) if one.grave is grave and problem in one.problem]


def test_leaks_across_splits_are_grave(tmp_path):
    twin = ZOO._replace(qid="zoo2", text="Close all zoos?", split="test")
    write_dataset(tmp_path / "leaky", CARD, [ZOO, twin])
    assert ["1 pairs of questions leak across splits" in one.problem for one in validate(tmp_path / "leaky")] == [True]


def test_what_was_added_and_is_broken_spoils_nothing_else(folder, tmp_path):
    add(folder)
    (tmp_path / "cache" / "added" / "nonsense").write_bytes(b"\xff/nowhere")
    DATASETS._things.pop("mine")
    shutil.rmtree(folder)
    folder.write_text("x")
    assert sorted(added_folders()) == ["mine", "nonsense"] == names()[-2:]
    assert "cannot be read" in card("nonsense") and bd.load("sample").questions


def test_a_link_in_the_list_of_names_is_replaced_and_not_followed(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("BERDS_CACHE", str(tmp_path / "cache"))
    precious = tmp_path / "precious"
    precious.write_text("mine")
    added_list().mkdir(parents=True)
    name = json.loads((folder / "dataset.json").read_text())["name"]
    (added_list() / name).symlink_to(precious)
    add(folder)
    assert precious.read_text() == "mine" and (added_list() / name).read_text() == str(folder.resolve())


@pytest.mark.parametrize("splits", [[1, None], [["dev"]]])
def test_splits_of_a_card_are_texts(folder, splits):
    card = json.loads((folder / "dataset.json").read_text())
    (folder / "dataset.json").write_text(json.dumps(card | {"splits": splits}))
    with pytest.raises(InputError) as told:
        bd.load(folder)
    assert told.value.field == "splits"
