"""Collections by every form of name: what comes back, and what is refused."""

import json
import socket
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from layouts import write_pir, write_questions
from shell import berds, tried

from berdslib.data.catalogue import DATASETS
from berdslib.data.collection import Collection
from berdslib.data.datasets import load, load_expansions, load_gold, load_passages, load_questions
from berdslib.data.formats import write_passages
from berdslib.data.records import Passage, Question, make_verdicts
from berdslib.data.tables import write_jsonl
from berdslib.data.trec import read_trec_run, write_verdicts
from berdslib.errors import InputError, MissingDataError
from berdslib.evaluation.measures import score_run
from berdslib.study.front import register


@pytest.fixture(autouse=True)
def own_places(monkeypatch, tmp_path):
    """Data and cache of this test's own, no name server, and no name that another test has added."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("BERDS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("BERDS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BERDS_HF_DIR", raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", _no_network)
    monkeypatch.setattr("berdslib.data.fetch.BACK_OFF", 0.0)
    monkeypatch.setattr(DATASETS, "_things", dict(DATASETS))
    monkeypatch.chdir(tmp_path)


def _no_network(*_, **__):
    raise socket.gaierror(-2, "Name or service not known")


ZOO = Question("zoo", "Should zoos close?", ("They should.", "They should not."), (None, None), "mine", "dev")
TEA = Question("tea", "Is tea good?", ("It is.", "It is not."), (None, None), "mine", "test")
CORPUS = [Passage("a", "Zoos are cruel."), Passage("b", "Tea is good."), Passage("c", "Rain falls.")]
GOLD = make_verdicts([("zoo", 0, "a", 1.0, True), ("tea", 0, "b", 1.0, True)], "hand")


@pytest.fixture
def mine(tmp_path):
    """Questions, a corpus and verdicts as files."""
    write_questions(tmp_path / "mine.jsonl", [ZOO, TEA])
    write_passages(tmp_path / "corpus.jsonl", CORPUS)
    write_verdicts(tmp_path / "verdicts.tsv", GOLD)
    return tmp_path / "mine.jsonl"


# ---------------------------------------------------------------- a data set


def test_another_corpus_and_other_verdicts_take_the_place_of_its_own(mine, monkeypatch):
    monkeypatch.setattr("berdslib.data.datasets.load_passages", lambda _: pytest.fail("its own corpus was read"))
    first = load_questions("sample")[0]
    gold = make_verdicts([(first.qid, 0, "a", 1.0, True)], "hand")
    found = load("sample", passages=CORPUS, gold=gold)
    assert found.passages == CORPUS
    pd.testing.assert_frame_equal(found.gold, gold)


def test_a_data_set_without_a_corpus_or_recordings(tmp_path):
    rows = [{"question": "Question?", "perspectives": ["Yes.", "No."], "id": 1}]
    write_jsonl(tmp_path / "data" / "berds" / "kialo.test.jsonl", rows)
    found = load("kialo", split="test")
    assert [q.qid for q in found.questions] == ["kialo-1"]
    assert found.passages == () and found.gold is None
    assert found.expansions == {}  # none were published for the test split
    searched = load("kialo", split="test", passages="sample")
    assert len(searched.passages) == len(load_passages("sample"))


# ---------------------------------------------------------------- files


def test_several_are_searched_together_in_one_corpus(mine, tmp_path):
    write_questions(tmp_path / "other.jsonl", [Question("o", "Other?", ("Yes.",), (None,), "other", "dev")])
    found = load(["mine.jsonl", tmp_path / "other.jsonl"], passages="corpus.jsonl", limit=1)
    assert found.name == "mine,other" and [q.qid for q in found.questions] == ["zoo", "o"]
    assert list(found.passages) == CORPUS and found.gold is None
    mixed = load(["sample", "mine.jsonl"], passages=CORPUS, split="dev")
    assert mixed.gold is None  # of some of them only, which would score the others 0
    assert mixed.expansions == load_expansions("sample", "dev")
    assert load(("mine.jsonl",)).name == "mine"


# ---------------------------------------------------------------- PIR


def same(found, task):
    assert found.questions == task.questions and [p.text for p in found.passages] == [p.text for p in task.passages]
    assert found.expansions == task.expansions and found.name == task.name
    assert found.gold["p_yes"].eq(1).all() and len(found.gold) == len(task.gold)


def test_a_json_file_of_one_task_or_several(tmp_path):
    task = load("pir-sample:stories")
    write_pir(task, tmp_path / "pir.json")
    for name in ("pir.json", tmp_path / "pir.json", "pir.json:stories"):
        same(load(name), task)
    content = json.loads((tmp_path / "pir.json").read_text(encoding="utf-8"))
    (tmp_path / "two.json").write_text(json.dumps({"stories": content["stories"], "more": content["stories"]}))
    same(load("two.json:stories"), task)
    assert load("two.json:more").name == "more"
    with pytest.raises(InputError) as refused:
        load("two.json")
    assert refused.value.field == "task"


# ---------------------------------------------------------------- names and folders beside one


def test_a_name_comes_before_a_folder_beside_you_which_is_opened_by_its_path(tmp_path):
    """By its content the one is a folder of PIR, the other a release of PerspectiveArg."""
    pir, release = tmp_path / "theperspective", tmp_path / "sample"
    write_jsonl(pir / "queries.jsonl", [{"_id": "1", "text": "full", "root": "r", "perspective": "p"}])
    write_jsonl(pir / "corpus.jsonl", [{"_id": "d", "text": "x"}])
    (pir / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\td\t1\n", encoding="utf-8")
    argument = {"argument_id": 1, "text": "x", "target": "t", "demographic_profile": {}}
    write_jsonl(release / "corpus.jsonl", [argument])
    query = {"query_id": 1, "text": "t", "relevant_candidates": [1]}
    write_jsonl(release / "baseline-queries" / "queries_dev.jsonl", [query])

    assert list(load("sample").questions) == load_questions("sample")
    with pytest.raises(MissingDataError, match="'theperspective', "):
        load("theperspective")
    with pytest.raises(InputError, match="'sample:baseline'"):
        load("sample:baseline")
    for name in ("./theperspective", Path("theperspective"), pir):
        assert [q.text for q in load(name).questions] == ["r"]
    for name in ("./sample:baseline", Path("sample:baseline"), f"{release}:baseline"):
        assert [q.text for q in load(name).questions] == ["t"]


# ---------------------------------------------------------------- data sets of one's own


def made():
    """Two questions.

    And more words.
    """
    return Collection("made", [ZOO, TEA], CORPUS, GOLD)


def test_a_function_of_ones_own_which_may_take_the_split():
    register("dataset", "made", made)
    assert DATASETS["made"].title == "Two questions."
    assert list(load("made").questions) == [ZOO] and load("made").passages == CORPUS  # "dev" where there are splits
    assert list(load("made", split="all").questions) == [ZOO, TEA] and load("made", limit=1).questions == (ZOO,)
    with pytest.raises(InputError) as refused:
        load("made", split="train")
    assert refused.value.field == "split"
    register("dataset", "of", lambda split=None: Collection("of", [TEA if split == "test" else ZOO]))
    assert load("of", split="test").questions == (TEA,) and load("of").questions == (ZOO,)


def test_a_name_of_ones_own_stands_wherever_a_name_does(mine, tmp_path):
    """As the corpus, the gold and the questions of others, and each part by itself, as those of a shipped set do."""
    register("dataset", "made", made)
    for asked in (mine, "made", ["made"]):
        found = load(asked, passages="made", gold="made", split="all")
        assert (list(found.questions), found.passages) == ([ZOO, TEA], CORPUS) and found.gold.equals(GOLD)
    assert load_questions("made") == [ZOO] and load_gold("made").equals(GOLD)
    assert load_passages("made", limit=2) == CORPUS[:2]
    assert [p.docno for p in load_passages("made:words")] == ["a-0", "b-0", "c-0"]
    asked = ["experiment", "-q", "made", "-c", "made", "--split", "all", "-r", "bm25", "-m", "MRecall@3", "--json"]
    assert berds(*asked).stdout == berds(*asked, "--gold", "made").stdout
    berds("retrieve", "-q", mine, "-c", "made", "-r", "bm25", "-o", tmp_path / "run.trec")
    assert '"passages":3' in berds("data", "stats", "-c", "made", "--json").stdout.replace(" ", "")
    berds("data", "export", tmp_path / "written", "-c", "made")
    assert list(load_passages(tmp_path / "written")) == CORPUS


def test_what_a_name_of_ones_own_does_not_have_is_said():
    register("dataset", "asked", lambda: Collection("asked", [ZOO]))
    for part in ("passages", "gold"):
        with pytest.raises(InputError, match="'asked'"):
            load("sample", **{part: "asked"})
    register("dataset", "other", lambda: [ZOO])
    with pytest.raises(InputError, match=r"'other'.*list"):
        load("other")
    register("dataset", "twice", lambda: Collection("twice", [ZOO], [CORPUS[0], CORPUS[0]]))
    refused = tried("data", "export", "out", "-c", "twice")
    assert refused.exit_code == 1 and "'a'" in refused.stderr


# ---------------------------------------------------------------- what is in memory, and Parquet

ASKED = (("Should zoos close?", ["They should.", "They should not."], "dev"), ("Is tea good?", ["Yes."], "test"))
ROWS = [{"query_id": i, "query": q, "perspectives": p, "split": s} for i, (q, p, s) in enumerate(ASKED, start=3)]
TEXTS = [{"doc_id": 1, "text": "Close them."}, {"doc_id": 2, "text": "Keep them."}]
SAID = [{"query_id": 3, "pid": 0, "doc_id": 1, "supports": True}]


def in_frames(_):
    return pd.DataFrame(ROWS), pd.DataFrame(TEXTS), pd.DataFrame(SAID)


def in_dicts(_):
    return ROWS, TEXTS, SAID


def in_parquet(folder):
    for name, rows in (("questions", ROWS), ("corpus", TEXTS)):
        pd.DataFrame(rows).to_parquet(folder / f"{name}.parquet")
    return folder / "questions.parquet", str(folder / "corpus.parquet"), pd.DataFrame(SAID)


@pytest.mark.parametrize("made", [in_frames, in_dicts, in_parquet])
def test_questions_passages_and_verdicts_of_ones_own(tmp_path, made):
    questions, passages, gold = made(tmp_path)
    found = load(questions, passages=passages, gold=gold)
    expected = [(str(row["query_id"]), row["query"], tuple(row["perspectives"])) for row in ROWS]
    assert [(q.qid, q.text, q.perspectives) for q in found.questions] == expected
    assert found.passages == [Passage("1", "Close them."), Passage("2", "Keep them.")]
    assert found.gold[["qid", "docno"]].values.tolist() == [["3", "1"]]
    assert made is in_parquet or {found.name, *(q.source for q in found.questions)} == {"questions"}
    assert [q.qid for q in load(questions, passages=passages, split="test").questions] == ["4"]


def test_what_is_wrong_in_memory_or_in_parquet_is_named_by_row(tmp_path):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    for given, path, line, field in (
        ([{"question": "Q?", "perspectivs": ["A."]}], "list", 1, "perspectivs"),
        ([ROWS[0], {"query_id": 9}], "list", 2, "question"),
        ([ROWS[0], ROWS[0]], "list", 2, "qid"),
        ([ROWS[0], "zoos"], "list", 2, None),
        (pd.DataFrame([{**ROWS[0], "perspectives": "They should."}]), "DataFrame", 1, "perspectives"),
        (pd.DataFrame([]), "DataFrame", None, None),
        (tmp_path / "broken.parquet", tmp_path / "broken.parquet", None, None),
        (tmp_path / "gone.parquet", tmp_path / "gone.parquet", None, None),
    ):
        with pytest.raises(InputError) as refused:
            load(given)
        assert (str(refused.value.path), refused.value.line, refused.value.field) == (str(path), line, field)


def test_gold_of_another_corpus_is_refused_where_it_would_score_nothing():
    gold = pd.DataFrame(SAID)
    with pytest.raises(InputError) as refused:
        load(ROWS, passages=[{"docno": "x", "text": "Something else."}], gold=gold)
    assert refused.value.field == "gold"
    assert len(load(ROWS, passages=[{"docno": "x", "text": "Else."}, TEXTS[0]], gold=gold).gold)


def test_qrels_of_relevance_alone_score_questions_without_perspectives_only(mine, tmp_path):
    import ir_measures

    (tmp_path / "beir" / "qrels").mkdir(parents=True)
    (tmp_path / "beir" / "queries.jsonl").write_text('{"_id": "zoo", "text": "Zoos?"}\n')
    (tmp_path / "beir" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nzoo\ta\t2\nzoo\tb\t0\n")
    (tmp_path / "plain.txt").write_text("zoo 0 a 2\nzoo 0 b 0\n")
    (tmp_path / "bare.jsonl").write_text('{"qid": "zoo", "question": "Should zoos close?"}\n')
    (tmp_path / "zoo.trec").write_text("zoo Q0 c 1 9 x\nzoo Q0 a 2 8 x\n")
    frame = pd.DataFrame(ir_measures.read_trec_qrels("plain.txt"))
    for gold in ("beir", "plain.txt", frame, frame.rename(columns={"iteration": "subtopic_id"}).to_dict("records")):
        with pytest.raises(InputError, match="'zoo'"):
            load(mine, passages="corpus.jsonl", gold=gold)
        found = load("bare.jsonl", passages="corpus.jsonl", gold=gold)
        assert found.questions[0].perspectives == ("Should zoos close?",)
        scores = score_run(read_trec_run("zoo.trec"), found.gold, found.questions, "nDCG@5,P@2")
        run = ir_measures.read_trec_run("zoo.trec")
        assert scores.loc["zoo"].tolist() == pytest.approx(
            [ir_measures.calc_aggregate([m], frame.assign(relevance=frame.relevance.clip(upper=1)), run)[m]
             for run in [list(run)] for m in (ir_measures.nDCG @ 5, ir_measures.P @ 2)]
        )  # fmt: skip
    for command in ("experiment --gold", "evaluate --verdicts"):
        refused = tried(*command.split(), "beir", "-q", "mine.jsonl", "-c", "corpus.jsonl", "--run", "zoo.trec")
        assert refused.exit_code and "'zoo'" in refused.stderr
    bare = ("evaluate", "-q", "bare.jsonl", "--run", "zoo.trec", "--verdicts")
    assert "50.0" in berds(*bare, "beir", "-m", "P@2").stdout


def test_relevance_in_a_frame_that_is_no_number_is_named_by_row(mine):
    frame = pd.DataFrame({"query_id": ["zoo"], "iteration": ["0"], "doc_id": ["a"], "relevance": ["x"]})
    with pytest.raises(InputError) as refused:
        load(mine, gold=frame)
    assert (refused.value.field, refused.value.line) == ("relevance", 1)


def test_a_data_set_of_ir_datasets_with_subtopics():
    """A small one of the same kind as TREC's diversity tasks, which need a network: its subtopics are perspectives."""
    import ir_datasets
    from ir_datasets.formats import GenericDoc, TrecSubtopic

    class Topic(NamedTuple):
        query_id: str
        query: str
        subtopics: tuple

        def default_text(self):
            return self.query

    class Qrel(NamedTuple):
        query_id: str
        doc_id: str
        relevance: int
        subtopic_id: str

    def handler(kind, *rows):
        made = {f"{kind}_iter": lambda _: iter(rows), f"{kind}_cls": lambda _: type(rows[0])}
        return type(f"Their{kind}", (getattr(ir_datasets.formats, f"Base{kind.capitalize()}"),), made)()

    topic = Topic("51", "horse hooves", (TrecSubtopic("2", "care", "inf"), TrecSubtopic("7", "shoes", "nav")))
    said = [("51", "a", 1, "7"), ("51", "b", 0, "2"), ("99", "a", 1, "1"), ("51", "a", 1, "9")]
    docs = handler("docs", GenericDoc("a", "A shoe."), GenericDoc("b", "A hoof."))
    theirs = ir_datasets.Dataset(docs, handler("queries", topic), handler("qrels", *(Qrel(*row) for row in said)))
    ir_datasets.registry.register("berds-test/horses", theirs)
    found = load("ir_datasets:berds-test/horses")
    assert [(q.qid, q.text, q.perspectives) for q in found.questions] == [("51", "horse hooves", ("care", "shoes"))]
    assert found.gold[["pid", "docno", "supports"]].values.tolist() == [[0, "b", False], [1, "a", True]]
    assert found.passages == [Passage("a", "A shoe."), Passage("b", "A hoof.")]
    assert load("ir_datasets:berds-test/horses", passages=TEXTS).passages[0].docno == "1"
    for name, split in (("horses", "dev"), ("cows", None)):
        with pytest.raises(InputError, match=split or name):
            load(f"ir_datasets:berds-test/{name}", split=split)
